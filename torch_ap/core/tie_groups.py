"""The tie groups of many rankings on CPU: found in sorted keys that carry relevance, or from the hits alone.

A *packed key* is twice the reversed key of a score, plus one for a hit: ascending, it puts the best score first and the
hits of a tie group last in the group. Where the keys of a ranking are sorted, the places of its hits are their ranks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import order, packing, segments
from torch_ap.core.hit_curve import HitCurve
from torch_ap.core.order import Array

_ITEMS_A_HIT = 24  # beyond, the search for the hits costs less than the wider sort


def packing_pays(scores: Array, relevant: Array) -> bool:
    """Whether keys that carry relevance fit into 64 bits, and there are so many hits that they sort fastest."""
    return scores.dtype.itemsize <= 4 and int(np.count_nonzero(relevant)) * _ITEMS_A_HIT >= len(scores)


class Groups(NamedTuple):
    """The tie groups that hold a hit, by ranking, best score first.

    Attributes:
        hits: (E,) hits of each.
        above: (E,) items of its ranking above it.
        through: (E,) items of its ranking down to its end.
        key: (E,) the packed key of its hits.
        counts: (S,) groups of each ranking.
    """

    hits: Array
    above: Array
    through: Array
    key: Array
    counts: Array


def join(parts: Sequence[Groups]) -> Groups:
    """The groups of consecutive rankings, end to end."""
    return parts[0] if len(parts) == 1 else Groups(*map(np.concatenate, zip(*parts, strict=True)))


def pack(scores: Array, relevant: Array) -> Array:
    """Packed keys, in twice the bits of the scores.

    Args:
        scores: values that NumPy sorts, of 32 bits at most.
        relevant: bool, of the same shape.
    """
    keys = order.array_keys(scores)
    packed: Array = np.multiply(keys, -2, dtype=np.int64 if keys.dtype.itemsize == 4 else np.int32)
    packed |= relevant
    return packed


def scores_of(packed: Array, dtype: torch.dtype) -> Tensor:
    """The scores in packed keys, as ``dtype``."""
    keys = -(packed >> 1)
    if dtype in order.KEY_OF:
        keys = keys.astype(np.int16 if dtype.itemsize == 2 else np.int32)
    return order.values(torch.from_numpy(keys), dtype)


def of_sorted(packed: Array, starts: Array) -> Groups:
    """The groups of rankings whose keys lie end to end, each ranking's ascending.

    Args:
        packed: (N,) packed keys; those of a ranking may have a common number added, if it is even.
        starts: (S + 1,) where each ranking begins and ends.
    """
    flags = np.empty(len(packed), bool)
    places = np.flatnonzero(np.bitwise_and(packed, 1, out=flags, casting="unsafe"))
    keys = packed.take(places)
    edges = places.searchsorted(starts)
    first = _changes(keys, edges)
    bounds = np.append(first, len(places))
    hits, counts = np.diff(bounds), np.diff(first.searchsorted(edges))
    start, top, key = np.repeat(starts[:-1], counts), places.take(first), keys.take(first)
    through = places.take(bounds[1:] - 1) + 1 - start
    above = through - hits
    tied = np.flatnonzero((packed.take(np.maximum(top - 1, 0)) == key - 1) & (top > start))
    if len(tied):  # misses of the same score, which end right before the first hit
        begins = _changes(packed >> 1, starts)
        above[tied] = begins[begins.searchsorted(top[tied], "right") - 1] - start[tied]
    return Groups(hits, above, through, key, counts)


def _changes(values: Array, edges: Array) -> Array:
    """Where a value differs from the one before, or a ranking begins."""
    changed = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    changed[edges[edges < len(values)]] = True
    return np.flatnonzero(changed)


class HitGroups(NamedTuple):
    """The distinct (ranking, hit score) pairs, by ranking, best score first.

    Attributes:
        key: (E,) int64 that ascends so.
        hits: (E,) hits of each.
        counts: (S,) pairs of each ranking.
        score: (E,) scores.
    """

    key: Array
    hits: Array
    counts: Array
    score: Tensor


def of_hits(scores: Tensor, ranking: Tensor, rankings: int) -> HitGroups:
    """The pairs among hits that come in any order.

    Args:
        scores: (H,) scores of the hits.
        ranking: (H,) int64 in [0, rankings).
        rankings: S.
    """
    keys, levels = packing.group_keys(scores, ranking)
    ordered = order.sort(keys).numpy()
    bounds = np.append(_changes(ordered, np.empty(0, np.int64)), len(ordered))
    key = torch.from_numpy(ordered[bounds[:-1]])
    return HitGroups(
        key=key.numpy(),
        hits=np.diff(bounds),
        counts=segments.count(key >> 32, rankings).numpy(),
        score=packing.scores_of(key, levels, scores.dtype),
    )


def curve_of(
    hits: Array, above: Array, through: Array, counts: Array, score: Tensor, lengths: Array, m: Tensor | None
) -> HitCurve:
    """The hit curves.

    Args:
        hits, above, through, counts: as of :class:`Groups`.
        score: (E,) scores of the groups.
        lengths: (S,) items of each ranking.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    offsets = np.append(0, counts.cumsum())
    found = np.append(0, hits.cumsum())
    before = found[offsets]
    return HitCurve(
        hits=torch.from_numpy(hits),
        items=torch.from_numpy(through - above),
        hits_above=torch.from_numpy(found[:-1] - np.repeat(before[:-1], counts)),
        items_above=torch.from_numpy(above),
        score=score,
        offsets=torch.from_numpy(offsets),
        n=torch.from_numpy(lengths),
        m=torch.from_numpy(np.diff(before)) if m is None else m,
    )
