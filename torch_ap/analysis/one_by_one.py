"""The hit curve of items that are taken one by one, as detections are, from flags in their order."""

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


def one_by_one(hit: Tensor, counted: Tensor, offsets: Tensor, m: Tensor) -> HitCurve:
    """S rankings of items in order, of which no two tie; an entry is a hit.

    Args:
        hit: (N,) bool.
        counted: (N,) bool, which items are in their ranking; hits are.
        offsets: (S + 1,) int64, where the items of each ranking begin and end.
        m: (S,) int64, relevant items.
    """
    at = hit.nonzero().squeeze(1)
    ranking, items = segments.of_places(at, offsets), segments.from_zero(counted.to(torch.int64))
    ends = segments.from_counts(segments.count(ranking, len(m)))
    ones, above = torch.ones_like(at), items[offsets[:-1]]
    return HitCurve(
        hits=ones,
        items=ones,
        hits_above=torch.arange(len(at), device=at.device) - ends[ranking],
        items_above=items[at] - above[ranking],
        score=None,
        offsets=ends,
        n=items[offsets[1:]] - above,
        m=m,
    )
