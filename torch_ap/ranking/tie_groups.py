"""Many rankings in one sort of integers: keys of scores, and the tie groups that sorted keys hold.

A *group key* is an item's ranking and score in one int64. A *hit key* is twice the distance of a score below some
highest one, counted in representable scores, plus one for a hit: ascending, it puts the best score first and the hits
of a tie group last in the group. Where the keys of a ranking are sorted, the places of its hits are their ranks.

| scores | bits of a hit key |
|---|---|
| of 16 bits and fewer | 32 |
| of 32 bits: not negative, or within (-2, 2), or integers that span fewer than 2^31 | 32 |
| other floats, such as logits, within 2^79 of 0, or -inf and below 2^31, if none but 0 is within 2^-48 of it | 32 |
| else | 64 |
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import hit_curve, order, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

_SPAN = 1 << 31
_TINY = 79 << 23  # the key of 2^-48 as float32: what a narrow key passes over on either side of 0 is smaller


def group_keys(scores: Tensor, segment: Tensor) -> tuple[Tensor, Tensor | None]:
    """int64 keys of 63 bits at most that ascend by ranking, then by descending score; with what turns them back.

    Args:
        scores: (N,) any real dtype, no NaN.
        segment: (N,) int64 in [0, 2^31), or of a shape that broadcasts.

    Returns:
        The keys, and for scores of 64 bits the distinct ones, of which a key then holds the rank.
    """
    keys, levels = order.keys(scores), None
    if keys.dtype == torch.int64:
        levels, keys = order.dense_ranks(keys)
        keys = keys.to(torch.int32)
    top = torch.iinfo(keys.dtype).max
    return (segment << 32) | (top - keys.to(torch.int64)), levels


def scores_of_group_keys(group_keys: Tensor, levels: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The scores in ``group_keys``, as ``dtype``."""
    down = group_keys & 0xFFFFFFFF
    if levels is not None:
        return order.values(levels[torch.iinfo(torch.int32).max - down], dtype)
    key_dtype = order.keys(torch.empty(0, dtype=dtype)).dtype
    return order.values((torch.iinfo(key_dtype).max - down).to(key_dtype), dtype)


class HitKeys(NamedTuple):
    """Hit keys, and how to read them.

    Attributes:
        packed: integers of any shape.
        highest: the score key, with the gap closed, that is packed as 0 or 1.
        gap: how many score keys were passed over on either side of 0.
    """

    packed: Array
    highest: int
    gap: int

    def score_keys(self, packed: Array) -> Array:
        """The keys of the scores, as ``order.keys`` gives them, in ``packed`` ones: int64."""
        keys: Array = self.highest - (packed >> 1).astype(np.int64)
        return keys + np.sign(keys) * self.gap if self.gap else keys


def wide(scores: Array, relevant: Array) -> Array:
    """Hit keys in twice the bits of the scores; for any scores, the highest is 0.

    Args:
        scores: values that NumPy sorts, of 32 bits at most.
        relevant: bool, of the same shape.
    """
    keys = order.array_keys(scores)
    packed: Array = np.multiply(keys, -2, dtype=np.int64 if keys.dtype.itemsize == 4 else np.int32)
    packed |= relevant
    return packed


def narrowest(scores: Array, relevant: Array) -> HitKeys:
    """Hit keys in 32 bits where they fit.

    Args:
        scores, relevant: as of :func:`wide`.
    """
    found = _narrow(scores) if scores.dtype.itemsize == 4 and scores.size else None
    if found is None:
        return HitKeys(wide(scores, relevant), 0, 0)
    np.bitwise_or(found.packed, relevant, out=found.packed)
    return found


def _narrow(scores: Array) -> HitKeys | None:
    """The keys of 32-bit scores before relevance is added; None where 32 bits do not hold them."""
    if scores.dtype.kind == "f" and scores.min() >= 0:
        doubled = scores.view(np.uint32) << np.uint32(1)  # which drops the sign of -0.0
        highest = int(scores.max().view(np.uint32)) & (_SPAN - 1)
        return HitKeys(np.subtract(np.uint32(2 * highest), doubled, out=doubled), highest, 0)
    keys, gap = order.array_keys(scores), 0
    lowest, highest = int(keys.min()), int(keys.max())
    if highest - lowest >= _SPAN and scores.dtype.kind == "f":
        gap = _TINY - 1
        closer = keys - keys.clip(-gap, gap)
        if np.count_nonzero(closer) != np.count_nonzero(keys):
            return None
        keys, lowest, highest = closer, int(closer.min()), int(closer.max())
    if highest - lowest >= _SPAN:
        return None
    packed = np.subtract(np.int32(highest), keys, dtype=np.int32).view(np.uint32)  # modulo 2^32, which is exact
    packed <<= np.uint32(1)
    return HitKeys(packed, highest, gap)


class Groups(NamedTuple):
    """The tie groups that hold a hit, by ranking, best score first.

    Attributes:
        hits: (E,) hits of each.
        above: (E,) items of its ranking above it.
        cumulative: (E,) items of its ranking down to its end.
        key: (E,) the hit key of its hits, and once that is read, the key of their score.
        counts: (S,) groups of each ranking.
    """

    hits: Array
    above: Array
    cumulative: Array
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
    places = np.flatnonzero((packed.astype(np.uint8) & 1).view(bool))
    key = packed.take(places)
    edges = places.searchsorted(starts)
    first = _changes(key, edges)
    top, last, hits, counts = places, places, np.ones_like(places), np.diff(edges)
    if len(first) < len(places):
        bounds = np.append(first, len(places))
        top, last, key = places.take(first), places.take(bounds[1:] - 1), key.take(first)
        hits, counts = np.diff(bounds), np.diff(first.searchsorted(edges))
    start = np.repeat(starts[:-1], counts)
    cumulative = last + 1 - start
    above = cumulative - hits
    tied = np.flatnonzero(packed.take(np.maximum(top - 1, 0)) == key - 1)
    if len(tied):  # misses of the same score, which end right before the first hit
        above[tied] = _first(packed, start[tied], top[tied], key[tied] - 1) - start[tied]
    return Groups(hits, above, cumulative, key, counts)


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
    keys, levels = group_keys(scores, ranking)
    ordered = order.sort(keys).numpy()
    bounds = np.append(_changes(ordered, np.empty(0, np.int64)), len(ordered))
    key = torch.from_numpy(ordered[bounds[:-1]])
    return HitGroups(
        key=key.numpy(),
        hits=np.diff(bounds),
        counts=segments.count(key >> 32, rankings).numpy(),
        score=scores_of_group_keys(key, levels, scores.dtype),
    )


def curve_of(
    hits: Array, above: Array, cumulative: Array, counts: Array, score: Tensor, lengths: Array, m: Tensor | None
) -> HitCurve:
    """The hit curves.

    Args:
        hits, above, cumulative, counts: as of :class:`Groups`.
        score: (E,) scores of the groups.
        lengths: (S,) items of each ranking.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    offsets, found = segments.from_counts(counts), segments.from_counts(hits)
    before = found[offsets]
    return hit_curve.of_arrays(
        hits=hits,
        items=cumulative - above,
        hits_above=found[:-1] - np.repeat(before[:-1], counts),
        items_above=above,
        score=score,
        offsets=offsets,
        n=lengths,
        m=before[1:] - before[:-1] if m is None else m.numpy(),
    )
