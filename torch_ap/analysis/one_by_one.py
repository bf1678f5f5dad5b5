"""The hit curve of items that are taken one by one, as detections are, from flags in their order."""

from typing import Any

from torch import Tensor

from torch_ap.ranking import hit_curve, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native


def one_by_one(hit: Any, counted: Any, offsets: Any, m: Any) -> HitCurve:
    """S rankings of items in order, of which no two tie; an entry is a hit. Of tensors or of native values.

    Args:
        hit: (N,) bool.
        counted: (N,) bool, which items are in their ranking; hits are.
        offsets: (S + 1,) int64, where the items of each ranking begin and end.
        m: (S,) int64, relevant items.
    """
    hit, counted, offsets, m = map(native, (hit, counted, offsets, m))
    at, items = arrays.places(hit), segments.running_counts(counted)
    ranking, above = segments.of_places(at, offsets), arrays.take(items, offsets)
    ends = segments.from_counts(segments.count(ranking, len(m)))
    hits_above = arrays.steps(len(at), at) - arrays.take(ends, ranking)
    items_above = segments.as_int64(arrays.take(items, at) - arrays.take(above, ranking))
    ones = arrays.namespace(at).ones_like(hits_above)
    n = segments.as_int64(above[1:] - above[:-1])
    curve = HitCurve(ones, ones, hits_above, items_above, score=None, offsets=ends, n=n, m=m)
    return curve if isinstance(m, Tensor) else hit_curve.with_tensors(curve, None)
