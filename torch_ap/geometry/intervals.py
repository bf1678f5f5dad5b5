"""Intersection over union of intervals, such as segments of time, pair by pair."""

import torch
from torch import Tensor

from torch_ap.geometry.boxes import PairIoU


def coco_pairs(detections: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
    """The IoU of rows of two sets of intervals: i / (a + b - i), and i / a for a crowd; 0 where nothing is common.

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
            kept = (inter > 0).nonzero().squeeze(1)
            d, g, inter = d[kept], g[kept], inter[kept]
        own = lengths[0][d]
        union = torch.where(crowd[g], own, own + lengths[1][g] - inter)
        value = torch.where(inter > 0, inter / union, 0)
        if least <= 0:
            return d, g, value
        kept = (value >= least).nonzero().squeeze(1)
        return d[kept], g[kept], value[kept]

    return overlapping


def length(intervals: Tensor) -> Tensor:
    """(N,) of (N, 2) intervals."""
    return intervals[:, 1] - intervals[:, 0]
