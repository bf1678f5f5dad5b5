"""Why rotated boxes match no ground truth: angles in radians on one side."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_ap.analysis.encodings import CORNERS, OVERLAP, Side, clearly_better
from torch_ap.geometry import boxes, rotated

_ANGLE = 4  # column


def cause(found: Tensor, true: Tensor, counts: Sequence[Tensor], scores: Tensor, box_format: str) -> str | None:
    """What to say if degrees on the side whose angles all lie in [-pi, pi] make its boxes fit clearly better.

    Args:
        found, true: (D, 5) and (G, 5) rotated boxes of B images end to end, whose angles are read as degrees.
        counts: (B,) boxes per image, of either.
        scores: (D,) of ``found``.
        box_format: of both.
    """
    small = [len(side) and float(side[:, _ANGLE].abs().max()) <= math.pi for side in (found, true)]
    if small[0] == small[1]:
        return None
    detections = Side(found, counts[0], found[:, :2], CORNERS, scores)
    best = detections.best(counts[1], CORNERS.score)
    found, kept = found[best], detections.taken(best).counts
    pairs = boxes.pairs_of_images(kept, counts[1])
    turned = found.clone(), true.clone()
    turned[small.index(True)][:, _ANGLE].rad2deg_()
    hits, most = _hits(found, true, pairs, box_format), _hits(*turned, pairs, box_format)
    if not clearly_better(most, hits, len(best)):
        return None
    name, other = ("preds", "target")[:: 1 if small[0] else -1]
    return (
        f"{hits / len(best):.0%} of the best detections overlap a ground truth of their image by half; with the angles "
        f"in `{name}` taken as radians, in which they all lie in [-pi, pi] as those in `{other}` do not, "
        f"{most / len(best):.0%} would: give `torch.rad2deg` of them"
    )


def _hits(found: Tensor, true: Tensor, pairs: tuple[Tensor, Tensor], box_format: str) -> int:
    crowd = torch.zeros(len(true), dtype=torch.bool)
    d, g, iou = rotated.coco_pairs(found, true, box_format, crowd)(*pairs, OVERLAP)
    reached = iou >= OVERLAP
    return min(len(torch.unique(d[reached])), len(torch.unique(g[reached])))
