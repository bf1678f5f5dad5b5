"""Intersection over union of intervals, such as segments of time, pair by pair."""

import torch
from torch import Tensor

from torch_ap.detection.shapes.boxes import PairIoU


def coco_pairs(detections: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
    """Return the function of the IoU of rows of two sets of intervals: i / (a + b - i), and i / a for a crowd.

    Disjoint intervals have an IoU of 0.

    Args:
        detections: (D, 2) start and end, float64.
        truths: (G, 2).
        crowd: (G,) bool.
    """
    sides = [side.t().contiguous() for side in (detections, truths)]
    lengths = [end - start for start, end in sides]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        inter = torch.minimum(sides[0][1][d], sides[1][1][g]) - torch.maximum(sides[0][0][d], sides[1][0][g])
        if least > 0:
            places = (inter > 0).nonzero().squeeze(1)
            d, g, inter = d[places], g[places], inter[places]
        own = lengths[0][d]
        union = torch.where(crowd[g], own, own + lengths[1][g] - inter)
        value = torch.where(inter > 0, inter / union, 0)
        if least <= 0:
            return d, g, value
        places = (value >= least).nonzero().squeeze(1)
        return d[places], g[places], value[places]

    return overlapping


def length(intervals: Tensor) -> Tensor:
    """Return the (N,) lengths of (N, 2) intervals."""
    return intervals[:, 1] - intervals[:, 0]
