"""Keys that sort many rankings in one sort of integers, and the tie groups in sorted keys.

A *group key* is the ranking and score of an item in one int64. A *hit key* is twice the distance of a score from some
highest score, counted in representable scores, plus one for a hit. In ascending order, the best score comes first, and
the hits of a tie group come last in the group. The places of the hits among the sorted keys of a ranking are their
ranks.

| scores | bits of a hit key |
|---|---|
| at most 16 bits | 32 |
| 32 bits: not negative, or within (-2, 2), or integers that span fewer than 2^31 | 32 |
| other floats, such as logits, within 2^79 of 0, or -inf and below 2^31, if none but 0 is within 2^-48 of it | 32 |
| else | 64 |

Tie groups of the scores of a ranking, regardless of relevance.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking import hit_curve, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array

_SPAN = 1 << 31
_BLOCK = 1 << 16  # keys
_TINY = 79 << 23  # the float32 key of 2^-48; narrow keys omit smaller magnitudes on either side of 0


def group_keys(scores: Tensor, segment: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return int64 keys of at most 63 bits that ascend by ranking, then by descending score.

    Args:
        scores: (N,) any real dtype, no NaN.
        segment: (N,) int64 in [0, 2^31), or of a shape that broadcasts.

    Returns:
        The keys, and for 64-bit scores the distinct scores, whose ranks the keys contain instead.
    """
    keys, levels = order.keys(scores), None
    if keys.dtype == torch.int64:
        levels, keys = order.dense_ranks(keys)
        keys = keys.to(torch.int32)
    top = torch.iinfo(keys.dtype).max
    return (segment << 32) | (top - keys.to(torch.int64)), levels


def scores_of_group_keys(group_keys: Tensor, levels: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the scores in ``group_keys``, as ``dtype``."""
    down = group_keys & 0xFFFFFFFF
    if levels is not None:
        return order.values(levels[torch.iinfo(torch.int32).max - down], dtype)
    key_dtype = order.keys(torch.empty(0, dtype=dtype)).dtype
    return order.values((torch.iinfo(key_dtype).max - down).to(key_dtype), dtype)


class HitKeys(NamedTuple):
    """Hit keys, and the parameters to decode them.

    Attributes:
        packed: integers of any shape.
        highest: the score key, after closing the gap, that is packed as 0 or 1.
        gap: the number of score keys omitted on either side of 0.
    """

    packed: Array
    highest: int
    gap: int

    def score_keys(self, packed: Array) -> Array:
        """Return the int64 score keys of ``packed`` hit keys, as ``order.keys`` returns them."""
        keys: Array = self.highest - (packed >> 1).astype(np.int64)
        return keys + np.sign(keys) * self.gap if self.gap else keys


def wide_keys(scores: Array, relevant: Array) -> Array:
    """Return hit keys with twice the bits of the scores, for any scores; the highest is 0.

    Args:
        scores: values that NumPy sorts, of at most 32 bits.
        relevant: bool, of the same shape.
    """
    keys = order.array_keys(scores)
    packed: Array = np.multiply(keys, -2, dtype=np.int64 if keys.dtype.itemsize == 4 else np.int32)
    packed |= relevant
    return packed


def narrowest_keys(scores: Array, relevant: Array) -> HitKeys:
    """Return hit keys of 32 bits if possible, else wide ones.

    Args:
        scores: as of :func:`wide_keys`.
        relevant: as of :func:`wide_keys`.
    """
    return narrow_keys(scores, relevant) or HitKeys(wide_keys(scores, relevant), 0, 0)


def narrow_keys(scores: Array, relevant: Array) -> HitKeys | None:
    """Return hit keys of 32 bits for 32-bit scores; None if 32 bits are not enough, or for other scores.

    Args:
        scores: as of :func:`wide_keys`.
        relevant: as of :func:`wide_keys`.
    """
    narrow = _narrow_keys(scores) if scores.dtype.itemsize == 4 and scores.size else None
    if narrow is not None:
        np.bitwise_or(narrow.packed, relevant, out=narrow.packed)
    return narrow


def _narrow_keys(scores: Array) -> HitKeys | None:
    """Return the keys of 32-bit scores without relevance; None if 32 bits are not enough."""
    if scores.dtype.kind == "f" and scores.min() >= 0:
        doubled = scores.view(np.uint32) << np.uint32(1)  # the shift drops the sign of -0.0
        highest = int(scores.max().view(np.uint32)) & (_SPAN - 1)
        return HitKeys(np.subtract(np.uint32(2 * highest), doubled, out=doubled), highest, 0)
    keys, gap = order.array_keys(scores), 0
    lowest, highest = int(keys.min()), int(keys.max())
    if highest - lowest >= _SPAN and scores.dtype.kind == "f":
        gap = _TINY - 1
        clipped = keys - keys.clip(-gap, gap)
        if np.count_nonzero(clipped) != np.count_nonzero(keys):
            return None
        keys, lowest, highest = clipped, int(clipped.min()), int(clipped.max())
    if highest - lowest >= _SPAN:
        return None
    packed = np.subtract(np.int32(highest), keys, dtype=np.int32).view(np.uint32)  # modulo 2^32, which is exact
    packed <<= np.uint32(1)
    return HitKeys(packed, highest, gap)


class Groups(NamedTuple):
    """The tie groups that contain a hit, by ranking, best score first.

    Attributes:
        hits: (E,) hits of each group.
        above: (E,) items of the ranking above the group.
        cumulative: (E,) items of the ranking down to the end of the group.
        key: (E,) the hit key of the hits; after decoding, the key of their score.
        counts: (S,) groups of each ranking.
    """

    hits: Array
    above: Array
    cumulative: Array
    key: Array
    counts: Array


def join(parts: Sequence[Groups]) -> Groups:
    """Concatenate the groups of consecutive rankings."""
    return parts[0] if len(parts) == 1 else Groups(*map(np.concatenate, zip(*parts, strict=True)))


def scores_from_keys(keys: Array, dtype: torch.dtype) -> Tensor:
    """Return the scores of int64 score keys, as ``dtype``."""
    if dtype in order.KEY_OF:
        keys = keys.astype(f"i{dtype.itemsize}")
    return order.values(torch.from_numpy(keys), dtype)


def groups_of_sorted_keys(packed: Array, starts: Array) -> Groups:
    """Return the groups of concatenated rankings with ascending hit keys in each ranking.

    Args:
        packed: (N,) hit keys; an even number may be added to all keys of a ranking.
        starts: (S + 1,) the start and end of each ranking.
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
    if len(tied):  # misses of the same score end right before the first hit
        above[tied] = _first_at_least(packed, start[tied], top[tied], key[tied] - 1) - start[tied]
    return Groups(hits, above, cumulative, key, counts)


def groups_of_sorted_ranking(packed: Array) -> Groups:
    """Return the groups of one ranking with many hits, by blocks that fit the cache of a core.

    Args:
        packed: (N,) ascending hit keys.
    """
    first_keys = packed[_BLOCK::_BLOCK] & ~packed.dtype.type(1)  # a block begins with the misses of a tie group
    edges = [0, *dict.fromkeys(packed.searchsorted(first_keys).tolist()), len(packed)]
    groups = join([_groups_of_block(packed[start:end], start) for start, end in itertools.pairwise(edges)])
    return groups._replace(counts=groups.counts.sum(keepdims=True))


def _groups_of_block(packed: Array, start: int) -> Groups:
    """Return the groups of consecutive keys of a ranking; ``start`` is the number of items above."""
    is_last = np.ones(len(packed), bool)
    np.greater(packed[1:], packed[:-1] | 1, out=is_last[:-1])
    ends = np.flatnonzero(is_last) + 1
    hits_down = (packed.astype(np.uint8) & 1).cumsum(dtype=np.int32).take(ends - 1)
    first, hits = np.zeros_like(ends), hits_down.copy()
    first[1:], hits[1:] = ends[:-1], hits_down[1:] - hits_down[:-1]
    found = hits.nonzero()[0]
    last, above = ends.take(found), first.take(found) + start
    return Groups(hits.take(found).astype(np.int64), above, last + start, packed.take(last - 1), np.array([len(found)]))


def _first_at_least(packed: Array, low: Array, high: Array, wanted: Array) -> Array:
    """Return the index of the first key between ``low`` and ``high`` that is at least the wanted one.

    One binary search serves all; the keys ascend from each ``low`` to its ``high``, and the key at ``high`` qualifies.
    """
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        before = packed.take(middle) < wanted
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    return low


def _changes(values: Array, edges: Array) -> Array:
    """Return the indices where a value differs from the one before, or a ranking begins."""
    changed = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    changed[edges[edges < len(values)]] = True
    return np.flatnonzero(changed)


def group_hits(scores: Tensor, ranking: Tensor, rankings: int) -> tuple[Array, Array, Tensor]:
    """Return the distinct (ranking, hit score) pairs of hits in any order, by ranking, best score first.

    Args:
        scores: (H,) scores of the hits.
        ranking: (H,) int64 in [0, rankings).
        rankings: S.

    Returns:
        The (E,) hits of each pair, the (S,) pairs of each ranking, and the (E,) scores.
    """
    keys, levels = group_keys(scores, ranking)
    ordered = order.sort(keys).numpy()
    bounds = np.append(_changes(ordered, np.empty(0, np.int64)), len(ordered))
    key = torch.from_numpy(ordered[bounds[:-1]])
    counts = segments.count(key >> 32, rankings).numpy()
    return np.diff(bounds), counts, scores_of_group_keys(key, levels, scores.dtype)


def curve_from_groups(groups: Groups, score: Tensor, lengths: Array, m: Tensor | None) -> HitCurve:
    """Return the hit curves of the groups.

    Args:
        groups: the groups; their keys are not read.
        score: (E,) scores of the groups.
        lengths: (S,) items of each ranking.
        m: (S,) relevant items of each ranking, if there are more than were ranked.
    """
    offsets, cumulative_hits = segments.from_counts(groups.counts), segments.from_counts(groups.hits)
    before = cumulative_hits[offsets]
    return hit_curve.from_arrays(
        hits=groups.hits,
        items=groups.cumulative - groups.above,
        hits_above=cumulative_hits[:-1] - np.repeat(before[:-1], groups.counts),
        items_above=groups.above,
        score=score,
        offsets=offsets,
        n=lengths,
        m=before[1:] - before[:-1] if m is None else m.numpy(),
    )


class Ties(NamedTuple):
    """The tie groups of at least two items, by ranking, best score first.

    Attributes:
        items: (E,) int64 items of each group.
        items_above: (E,) int64 items of the ranking above the group.
        offsets: (S + 1,) int64, the start and end of the groups of each ranking.
        n: (S,) int64 items of each ranking, tied or not.
    """

    items: Tensor
    items_above: Tensor
    offsets: Tensor
    n: Tensor


def find_ties(scores: Tensor) -> Ties:
    """Return the ties of one ranking, or of one ranking per column.

    Args:
        scores: (N,) or (N, C), any real dtype, no NaN.
    """
    columns = scores[:, None] if scores.ndim == 1 else scores
    first, last, groups = (_find_on_cpu if scores.device.type == "cpu" else _find_on_device)(columns)
    n = torch.full((columns.shape[1],), len(columns), device=scores.device)
    return Ties(last - first + 1, first, segments.from_counts(groups), n)


def _find_on_device(columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ranks of the first and last item of each group, best first, and the groups of each column."""
    ordered = torch.sort(order.keys(columns).t(), descending=True).values
    same = torch.zeros(len(ordered), len(columns) + 1, dtype=torch.bool, device=columns.device)
    torch.eq(ordered[:, 1:], ordered[:, :-1], out=same[:, 1:-1])
    column, edges = (same[:, 1:] != same[:, :-1]).nonzero().unbind(1)
    return edges[::2], edges[1::2], segments.count(column[::2], len(ordered))


def _find_on_cpu(columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of :func:`_find_on_device` by NumPy; each thread processes one block of columns at a time."""
    sortable = order.sortable(columns)

    def block(span: slice) -> list[Array]:
        across = order.as_rows(sortable[:, span]).numpy()
        return [_group_edges(order.sort_in_place(column)) for column in across]

    tasks = order.blocks(slice(0, sortable.shape[1]), order.COLUMNS_A_TASK)
    edges = [pair for part in order.run_in_threads(block, tasks, order.workers(sortable.numel())) for pair in part]
    groups = torch.tensor([len(pair) // 2 for pair in edges], dtype=torch.int64)
    ranks = torch.from_numpy(np.concatenate([np.empty(0, np.int64), *edges]))
    return ranks[::2], ranks[1::2], groups


def _group_edges(ascending: Array) -> Array:
    """Return the ranks of the first and last value of each run of equal values, counted from the end."""
    same = np.zeros(len(ascending) + 1, bool)
    np.equal(ascending[1:], ascending[:-1], out=same[1:-1])
    edges: Array = len(ascending) - 1 - np.flatnonzero(same[1:] != same[:-1])[::-1]
    return edges
