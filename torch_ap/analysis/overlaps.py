"""Which boxes of an image overlap, in corners."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_ap.geometry import boxes


def overlaps(sides: Sequence[Tensor], counts: Sequence[Tensor], least: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """The IoU of all pairs of boxes of one image that have ``least``, for all images at once.

    Args:
        sides: (D, 4) and (G, 4) float64 corners of B images end to end.
        counts: (B,) boxes per image, of either.
        least: pairs of a lower IoU are left out.

    Returns:
        Rows of the first (P,), rows of the second (P,) and IoU (P,) float64.
    """
    found, true = (boxes.to_xywh(side, "xyxy") for side in sides)
    pair_iou = boxes.coco_pairs(found, true, torch.zeros(len(true), dtype=torch.bool))
    d, g, iou = pair_iou(*boxes.pairs_of_images(*counts), least)
    kept = (iou >= least).nonzero().squeeze(1)
    return d[kept], g[kept], iou[kept]
