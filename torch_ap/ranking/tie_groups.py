"""The tie groups of many rankings on CPU: found in sorted hit keys, or from the hits alone."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import hit_curve, order, packing, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

_SPARSE, _DENSE = 0.02, 0.125  # where NumPy's own choice of a walk, below a tenth, is slow; the latter with room


class Groups(NamedTuple):
    """The tie groups that hold a hit, by ranking, best score first.

    Attributes:
        hits: (E,) hits of each.
        above: (E,) items of its ranking above it.
        through: (E,) items of its ranking down to its end.
        key: (E,) the hit key of its hits, and once that is read, the key of their score.
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


def scores_of(keys: Array, dtype: torch.dtype) -> Tensor:
    """The scores of int64 score keys, as ``dtype``."""
    if dtype in order.KEY_OF:
        keys = keys.astype(np.int16 if dtype.itemsize == 2 else np.int32)
    return order.values(torch.from_numpy(keys), dtype)


def of_sorted(packed: Array, starts: Array) -> Groups:
    """The groups of rankings whose hit keys lie end to end, each ranking's ascending.

    Args:
        packed: (N,) hit keys; those of a ranking may have a common number added, if it is even.
        starts: (S + 1,) where each ranking begins and ends.
    """
    places = _places(packed)
    key = packed.take(places)
    edges = places.searchsorted(starts)
    first = _changes(key, edges)
    top, last, hits, counts = places, places, np.ones_like(places), np.diff(edges)
    if len(first) < len(places):
        bounds = np.append(first, len(places))
        top, last, key = places.take(first), places.take(bounds[1:] - 1), key.take(first)
        hits, counts = np.diff(bounds), np.diff(first.searchsorted(edges))
    start = np.repeat(starts[:-1], counts)
    through = last + 1 - start
    above = through - hits
    tied = np.flatnonzero(packed.take(np.maximum(top - 1, 0)) == key - 1)
    if len(tied):  # misses of the same score, which end right before the first hit
        above[tied] = _first(packed, start[tied], top[tied], key[tied] - 1) - start[tied]
    return Groups(hits, above, through, key, counts)


def _places(packed: Array) -> Array:
    """Where the hits are.

    ``flatnonzero`` walks from hit to hit where no more than a tenth are set, which is slow unless they are far fewer.
    Flags set behind the last key, so many that they alone are more, keep it from that.
    """
    hits = packed.astype(np.uint8) & 1
    count = np.count_nonzero(hits)
    if not _SPARSE * len(packed) < count <= _DENSE * len(packed):
        return np.flatnonzero(hits.view(bool))
    flags = np.ones(len(packed) + int(_DENSE * len(packed)) + 1, bool)
    flags[: len(packed)] = hits
    return np.flatnonzero(flags)[:count]


def _first(packed: Array, low: Array, high: Array, wanted: Array) -> Array:
    """Where the first key that is at least the wanted one stands, from ``low`` on; that at ``high`` is one.

    One binary search for all, over keys that ascend from each ``low`` to its ``high``.
    """
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        before = packed.take(middle) < wanted
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    return low


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
    offsets, found = segments.from_counts(counts), segments.from_counts(hits)
    before = found[offsets]
    return hit_curve.of_arrays(
        hits=hits,
        items=through - above,
        hits_above=found[:-1] - np.repeat(before[:-1], counts),
        items_above=above,
        score=score,
        offsets=offsets,
        n=lengths,
        m=before[1:] - before[:-1] if m is None else m.numpy(),
    )
