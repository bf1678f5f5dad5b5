"""Intersection over union of boxes that lie image after image, as many in each as there are."""

from torch import Tensor

from torch_ap.functional.matching import Triples, pair_iou_of
from torch_ap.geometry import boxes
from torch_ap.rules import images
from torch_ap.runtime import untraced

__all__ = ["ragged_box_iou"]


def ragged_box_iou(
    preds: Tensor,
    target: Tensor,
    preds_counts: Tensor,
    target_counts: Tensor,
    box_format: str = "xyxy",
    *,
    iscrowd: Tensor | None = None,
    inclusive_pixels: bool = False,
    least: float = 0.0,
) -> Triples:
    """Intersection over union of all pairs of boxes of one image, for all images at once.

    Args:
        preds: (D, 4) boxes of B images end to end.
        target: (G, 4) boxes of the same images end to end.
        preds_counts: (B,) boxes an image.
        target_counts: (B,) likewise.
        box_format, iscrowd, inclusive_pixels: as for :func:`torch_ap.functional.box_iou`.
        least: pairs of a lower IoU are left out.

    Returns:
        Rows of ``preds`` (P,), rows of ``target`` (P,), IoU (P,) float64, by row of ``preds`` and then of ``target``.

    Raises:
        ValueError: for boxes of another width, counts that do not add up, or an unknown format.

    Example:
        >>> import torch
        >>> from torch_ap.functional.ragged import ragged_box_iou
        >>> boxes = torch.tensor([[0.0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 2, 2]])
        >>> one = torch.tensor([1, 2])
        >>> ragged_box_iou(boxes, boxes[:2], one, torch.tensor([1, 1]), least=0.1)
        (tensor([0, 1, 2]), tensor([0, 1, 1]), tensor([1.0000, 1.0000, 0.3333], dtype=torch.float64))
    """
    pair_iou = pair_iou_of(preds, target, box_format, iscrowd, inclusive_pixels)
    images.counts("preds", preds_counts, len(preds))
    images.counts("target", target_counts, len(target))
    d, g, iou = pair_iou(*boxes.pairs_of_images(preds_counts, target_counts), least)
    kept = (iou >= least).nonzero().squeeze(1)
    return d[kept], g[kept], iou[kept]


untraced.untraced_package(__name__)
