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
    at, items = segments.places(hit), segments.running_counts(counted)
    ranking, ones = segments.of_places(at, offsets), torch.ones_like(at)
    ends, above = segments.from_counts(segments.count(ranking, len(m))), items.index_select(0, offsets)
    return HitCurve(
        hits=ones,
        items=ones,
        hits_above=torch.arange(len(at), device=at.device).sub_(ends.index_select(0, ranking)),
        items_above=(items.index_select(0, at) - above.index_select(0, ranking)).to(torch.int64),
        score=None,
        offsets=ends,
        n=above.diff().to(torch.int64),
        m=m,
    )
