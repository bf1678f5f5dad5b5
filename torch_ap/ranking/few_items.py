"""Hit curves of few items, in as few passes as possible: a dozen calls of NumPy cost more than the work they do.

| input | algorithm |
|---|---|
| one ranking | *searched*: the distinct hit scores among all, sorted by themselves |
| several, none of which ties two scores, of 32 bits | *keyed*: one sort of (ranking, score, relevance) |
"""

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import hit_curve, order, segments, tie_groups
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

FEW_ITEMS = 1 << 13  # of one ranking
FEW_OF_SEVERAL = 1 << 14
_HIGHEST = (1 << 31) - 1  # of the keys that order scores of 32 bits
_Arrays: TypeAlias = tuple[Array, Array, Array]
_USUAL_SCORES = frozenset((torch.float32, torch.float64, torch.int64, torch.int32))
_USUAL_TARGETS = frozenset((torch.int64, torch.bool, torch.int32, torch.uint8))
_USUAL_GAINS = _USUAL_TARGETS | {torch.float32, torch.float64}
MOST_GAIN = 1e288
_ONES, _RANKS = np.ones(FEW_ITEMS, np.int64), np.arange(FEW_ITEMS)
_ONES.setflags(write=False)
_RANKS.setflags(write=False)


def are_usual(scores: Tensor, target: Tensor, *, gains: bool = False) -> bool:
    """Whether these are tensors on CPU, of usual dtypes, without gradients; with ``gains`` targets may be fractions."""
    return (
        isinstance(scores, Tensor)
        and isinstance(target, Tensor)
        and scores.is_cpu
        and target.is_cpu
        and scores.dtype in _USUAL_SCORES
        and target.dtype in (_USUAL_GAINS if gains else _USUAL_TARGETS)
        and not scores.requires_grad
        and not target.requires_grad
    )


def arrays_of(
    scores: Tensor, target: Tensor, *, graded: bool, gains: bool = False, rows: bool = False
) -> _Arrays | None:
    """Scores, which items are hits, for :func:`ranking`, and targets; None where they are out of the ordinary.

    That is tensors on CPU, (N,) of at least one item and at most ``FEW_ITEMS``, or where ``rows`` (Q, D) of at most
    ``FEW_OF_SEVERAL``, and bool targets or whole numbers: 0 and 1, or where ``graded`` of at least 0, of which 0 is no
    hit; with ``gains`` fractions too.
    """
    if not are_usual(scores, target, gains=gains):
        return None
    values, given = scores.numpy(), target.numpy()
    shape, most = values.shape, FEW_OF_SEVERAL if rows else FEW_ITEMS  # that of a tensor takes four times as long
    if len(shape) != 1 + rows or not 0 < values.size <= most or shape != given.shape:
        return None
    flags = given
    if target.dtype is not torch.bool:
        flags = given.astype(bool)
        highest = MOST_GAIN if gains else (None if graded else 1)
        least = given.item(given.argmin())  # in a fifth of the time of `min`; NaN if there is one
        if not least >= 0 or not (highest is None or given.item(given.argmax()) <= highest):
            return None
    return values, flags, given


def valid_arrays(
    scores: Tensor, target: Tensor, *, graded: bool, gains: bool = False, unit_range: bool = False
) -> _Arrays | None:
    """Scores, a byte per item for which are hits, in memory of its own, and targets; None where anything is out of the
    ordinary.

    Args:
        scores, target, graded, gains: as of :func:`arrays_of`.
        unit_range: whether scores must lie in [0, 1].
    """
    found = arrays_of(scores, target, graded=graded, gains=gains)
    if found is None:
        return None
    values, flags, given = found
    if unit_range:
        if not (values[values.argmin()] >= 0 and values[values.argmax()] <= 1):  # so it is for NaN too
            return None
    elif holds_nan(values):
        return None
    return values, (flags.copy() if flags is given else flags).view(np.uint8), given


def holds_nan(scores: Array) -> bool:
    """Whether one of at least one score is NaN, which then counts as the greatest."""
    greatest = scores.item(scores.argmax())  # in a fifth of the time of `max`
    return bool(greatest != greatest)


def ranking(scores: Array, flags: Array, depth: int | None = None) -> Any:
    """The native curve of one ranking of few items; None where a score is NaN.

    Args:
        scores: (N,) at least one and at most ``FEW_ITEMS``, of a dtype that NumPy sorts.
        flags: (N,) bool, which are hits.
        depth: rank below which entries may be left out; None for all of them.
    """
    ascending, hit_scores = scores.copy(), scores.take(flags.nonzero()[0])
    ascending.sort()
    if ascending[-1] != ascending[-1]:  # NaN is sorted last
        return None
    n, m = len(ascending), len(hit_scores)
    if depth is not None and depth < m:
        hit_scores = hit_scores[hit_scores >= ascending[-depth]]
    hit_scores.sort()
    if not len(hit_scores) or not np.count_nonzero(ascending[1:] == ascending[:-1]):
        return untied(ascending, hit_scores, m)
    at_start = np.bincount(ascending.searchsorted(hit_scores))  # of each place, the hits of the group that begins there
    start = (at_start > 0).nonzero()[0][::-1]
    end = ascending.searchsorted(ascending.take(start), "right")
    hits = at_start.take(start)
    return _of_one(hits, end - start, hits.cumsum() - hits, n - end, n, m)


def with_grades(curve: HitCurve, scores: Array, flags: Array, grades: Array) -> HitCurve:
    """The native curve of :func:`ranking` with the grades of its hits, and of all of them, the highest first.

    Args:
        curve: of the same scores and flags.
        scores, flags: as of :func:`ranking`.
        grades: (N,) of any real dtype.
    """
    places = flags.nonzero()[0]
    found = grades.take(places).astype(np.float64)
    by_score = scores.take(places).argsort()[::-1][: np.add.reduce(curve.hits)]
    ideal = found.copy()
    ideal.sort()
    return hit_curve.with_grades(curve, found.take(by_score), ideal[::-1])


def untied(ascending: Array, hit_scores: Array, m: int) -> Any:
    """The native curve of one ranking of few scores that all differ.

    Args:
        ascending: (N,) all scores, sorted, at most ``FEW_ITEMS``.
        hit_scores: (H,) those of the hits, sorted.
        m: number of hits, of which H may be those in the top k.
    """
    n, kept = len(ascending), len(hit_scores)
    items_above = n - 1 - ascending.searchsorted(hit_scores)[::-1]
    ones = _ONES[:kept]
    return _of_one(ones, ones, _RANKS[:kept], items_above, n, m, untied=True)


def _of_one(
    hits: Array, items: Array, hits_above: Array, items_above: Array, n: int, m: int, *, untied: bool = False
) -> Any:
    """The native curve of one ranking of at least one item, made without the steps that a frozen record takes.

    Its m are the hits of all entries, those left out below some rank included.
    """
    curve: HitCurve = object.__new__(HitCurve)
    sizes = np.array([0, len(hits), n, m])
    curve.__dict__.update(
        hits=hits,
        items=items,
        hits_above=hits_above,
        items_above=items_above,
        score=None,
        offsets=sizes[:2],
        n=sizes[2:3],
        m=sizes[3:],
        untied=untied,
        seen=sizes[3:],
        single=True,
    )
    return curve


def rankings(scores: Tensor, relevant: Tensor, bounds: Array, m: Tensor | None = None) -> HitCurve | None:
    """The curves of rankings of few items in all, by one sort of all; None where two scores of a ranking are equal.

    Args:
        scores, relevant, bounds, m: as of :func:`torch_ap.ranking.many_rankings.from_runs`; ``bounds`` are its offsets.
    """
    if not 0 < scores.shape[0] <= FEW_OF_SEVERAL or scores.element_size() > order.KEYED_BYTES:
        return None
    lengths = bounds[1:] - bounds[:-1]
    keys = order.array_keys(order.sortable(scores).numpy()).astype(np.int64)
    packed = np.arange(0, len(lengths) << 33, 1 << 33).repeat(lengths)
    packed += (_HIGHEST - keys) << 1
    packed |= relevant.numpy()
    packed.sort()
    if np.count_nonzero((packed[1:] ^ packed[:-1]) <= 1):
        return None
    places = (packed & 1).nonzero()[0]
    hits = packed.take(places)
    owner = hits >> 33
    offsets = segments.from_counts(np.bincount(owner, minlength=len(lengths)))
    ones, ranks = np.ones(len(hits), np.int64), np.arange(len(hits))
    return hit_curve.of_arrays(
        hits=ones,
        items=ones.copy(),
        hits_above=ranks - offsets.take(owner),
        items_above=places - bounds.take(owner),
        score=lambda: tie_groups.scores_of(_HIGHEST - ((hits >> 1) & 0xFFFFFFFF), scores.dtype),
        offsets=offsets,
        n=lengths,
        m=offsets[1:] - offsets[:-1] if m is None else m.numpy(),
        untied=True,
    )
