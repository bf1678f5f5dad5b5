"""Rankings whose items come in any order, on CPU: (ranking, reversed score) in one int64, and a value sort.

| hits | algorithm |
|---|---|
| many | *packed*: relevance rides along in the lowest bit; each thread sorts rankings of its own |
| few | *searched*: chunks are sorted unmerged, and every hit is looked up in each: counts from chunks add up |

Only counts leave this module, so each algorithm gives the same curve, to the last bit.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import hit_keys, order, packing, segments, tie_groups
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

_ITEMS_A_HIT = 48  # beyond, the search for the hits costs less than a sort that carries relevance
_KEYS_A_BLOCK = 1 << 15  # torch works so many off on the calling thread alone
_KEYS_A_CHUNK = 1 << 19
_PACKED_BITS = 33


def from_any_order(
    scores: Tensor, relevant: Tensor, ranking: Tensor, lengths: Tensor, m: Tensor | None = None
) -> HitCurve:
    """The curves of rankings whose items come in any order.

    Args:
        scores: (N,) on CPU, of 32 bits at most, no NaN.
        relevant: (N,) bool.
        ranking: (N,) int64 in [0, S), with S below 2^30.
        lengths: (S,) items of each ranking.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    given, flags = order.sortable(scores).numpy(), relevant.numpy()
    if np.count_nonzero(flags) * _ITEMS_A_HIT >= len(flags):
        groups = _packed(given, flags, ranking.numpy(), lengths.numpy())
        score = tie_groups.scores_of(groups.key, scores.dtype)
        return tie_groups.curve_of(*groups[:3], groups.counts, score, lengths.numpy(), m)
    places = torch.from_numpy(np.flatnonzero(flags))
    found = tie_groups.of_hits(segments.pick(scores, places), segments.pick(ranking, places), len(lengths))
    first = np.repeat(segments.from_counts(lengths)[:-1].numpy(), found.counts)
    above, through = (side - first for side in _searched(scores, ranking, found.key))
    return tie_groups.curve_of(found.hits, above, through, found.counts, found.score, lengths.numpy(), m)


def _packed(scores: Array, relevant: Array, ranking: Array, lengths: Array) -> tie_groups.Groups:
    of_items = hit_keys.narrowest(scores, relevant)
    keys = ranking << _PACKED_BITS
    keys += of_items.packed
    threads = order.workers(len(keys))
    offsets = np.append(0, lengths.cumsum())

    def work(rankings: slice) -> tie_groups.Groups:
        first, last = rankings.start, rankings.stop
        mine = keys if threads == 1 else keys.take(np.flatnonzero((ranking >= first) & (ranking < last)))
        starts = offsets[first : last + 1] - offsets[first]
        groups = tie_groups.of_sorted(order.sort_in_place(mine), starts)
        lifted = np.repeat(np.arange(first, last) << _PACKED_BITS, groups.counts)
        return groups._replace(key=of_items.score_keys(groups.key - lifted))

    cuts = offsets.searchsorted([len(keys) * part // threads for part in range(threads)]).tolist()
    shares = [slice(first, last) for first, last in zip(cuts, [*cuts[1:], len(lengths)], strict=True)]
    return tie_groups.join(order.in_threads(work, shares, threads))


def _searched(scores: Tensor, ranking: Tensor, wanted: Array) -> tuple[Array, Array]:
    """How many items have a lower key than each one wanted, and how many the same or a lower one."""

    def locate(chunk: slice) -> tuple[Array, Array]:
        keys = np.empty(chunk.stop - chunk.start, np.int64)
        for part in order.blocks(chunk, _KEYS_A_BLOCK):
            keys[part.start - chunk.start : part.stop - chunk.start] = packing.group_keys(scores[part], ranking[part])[
                0
            ].numpy()
        return order.equal_range(order.sort_in_place(keys), wanted)

    threads = order.workers(len(scores))
    chunks = order.slices(len(scores), max(threads, -(-len(scores) // _KEYS_A_CHUNK)))
    ranges = order.in_threads(locate, chunks, threads)
    below, at_or_below = (np.sum(side, axis=0) for side in zip(*ranges, strict=True))
    return below, at_or_below
