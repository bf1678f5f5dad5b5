"""The hit curve of items that are taken one by one, as detections are, from flags in their order."""

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native


def one_by_one(hit: Tensor, counted: Tensor, offsets: Tensor, m: Tensor) -> HitCurve:
    """S rankings of items in order, of which no two tie; an entry is a hit.

    Args:
        hit: (N,) bool.
        counted: (N,) bool, which items are in their ranking; hits are.
        offsets: (S + 1,) int64, where the items of each ranking begin and end.
        m: (S,) int64, relevant items.
    """
    at, items = arrays.places(native(hit)), native(segments.running_counts(counted))
    ranking, above = native(segments.of_places(arrays.tensor(at), offsets)), arrays.take(items, native(offsets))
    ends = segments.from_counts(segments.count(ranking, len(m)))
    hits_above = arrays.steps(len(at), at) - arrays.take(ends, ranking)
    items_above = arrays.take(items, at) - arrays.take(above, ranking)
    counts = (segments.as_int64(x) for x in (hits_above, items_above, ends, above[1:] - above[:-1]))
    hits_above, items_above, ends, n = map(arrays.tensor, counts)
    ones = torch.ones_like(hits_above)
    return HitCurve(ones, ones, hits_above, items_above, score=None, offsets=ends, n=n, m=m)
