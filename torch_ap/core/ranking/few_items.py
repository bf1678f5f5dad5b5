"""Hit curves of few items in as few passes as possible: a dozen NumPy calls cost more than their work.

| input | algorithm |
|---|---|
| one ranking | *searched*: the distinct hit scores are searched among all sorted scores |
| several rankings without ties, scores of 32 bits | *keyed*: one sort of (ranking, score, relevance) |
"""

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.tensors import MOST_WEIGHT
from torch_ap.core.ranking import hit_curve, order, segments, tie_groups
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array

FEW_ITEMS = 1 << 13  # items of one ranking
FEW_OF_SEVERAL = 1 << 14  # items of all rankings
_MOST_VALIDATED = 1 << 16  # with more scores, several threads are faster
_HIGHEST = (1 << 31) - 1  # highest key of a 32-bit score
_Arrays: TypeAlias = tuple[Array, Array, Array]
_PLAIN_SCORES = frozenset((torch.float32, torch.float64, torch.int64, torch.int32, torch.int16))
_PLAIN_TARGETS = frozenset((torch.int64, torch.bool, torch.int32, torch.uint8))
_PLAIN_GAINS = _PLAIN_TARGETS | {torch.float32, torch.float64}
_INFINITY = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}  # bits of infinity; the bits of NaN are greater
_ONE = {torch.float16: 0x3C00, torch.bfloat16: 0x3F80}
_ONES, _RANKS = np.ones(FEW_ITEMS, np.int64), np.arange(FEW_ITEMS)
_ONES.setflags(write=False)
_RANKS.setflags(write=False)


def is_plain(scores: Tensor, target: Tensor, *, gains: bool = False) -> bool:
    """Return whether both are CPU tensors of common dtypes without gradients.

    Args:
        scores: any shape.
        target: any shape.
        gains: whether targets may be fractions.
    """
    return (
        isinstance(scores, Tensor)
        and isinstance(target, Tensor)
        and scores.is_cpu
        and target.is_cpu
        and scores.dtype in _PLAIN_SCORES
        and target.dtype in (_PLAIN_GAINS if gains else _PLAIN_TARGETS)
        and not scores.requires_grad
        and not target.requires_grad
    )


def plain_arrays(scores: Tensor, target: Tensor, *, gains: bool, rows: bool = False) -> _Arrays | None:
    """Return scores, hit flags and targets as arrays for :func:`ranking`; None for input that needs the general path.

    Args:
        scores: (N,) CPU tensor with 1 to ``FEW_ITEMS`` items; with ``rows`` (Q, D) with at most ``FEW_OF_SEVERAL``
            items.
        target: bool or numbers of at least 0 of the same shape; 0 is no hit.
        gains: whether targets may be fractions.
        rows: whether each row is a ranking.
    """
    if not is_plain(scores, target, gains=gains):
        return None
    values, targets = scores.numpy(), target.numpy()
    shape, most = values.shape, FEW_OF_SEVERAL if rows else FEW_ITEMS  # the shape of a tensor takes four times as long
    if len(shape) != 1 + rows or not 0 < values.size <= most or shape != targets.shape:
        return None
    return (values, targets.astype(bool, copy=False), targets) if _are_valid(targets, None) else None


def valid_arrays(
    scores: Tensor,
    target: Tensor,
    highest: float | None,
    *,
    columns: tuple[int, ...] = (),
    classes: bool = False,
    gains: bool = False,
    unit_range: bool = False,
) -> tuple[Array, Array] | None:
    """Return validated scores and targets as arrays of their memory; None for input that needs the general path.

    Tensors that NumPy cannot read raise RuntimeError or TypeError.

    Args:
        scores: (N,) or (N, C). The bits of scores of 16 bits are returned.
        target: bool or integers of the same shape, of at least 0.
        highest: the highest valid target; None for no limit, except of fractions, which is ``MOST_WEIGHT``.
        columns: () for (N,) scores, (C,) for (N, C).
        classes: whether there is one target per row of the scores.
        gains: whether targets may be fractions.
        unit_range: whether scores must be in [0, 1].
    """
    if not (isinstance(scores, Tensor) and isinstance(target, Tensor) and scores.is_cpu and target.is_cpu):
        return None
    dtype, target_dtype = scores.dtype, target.dtype
    half = dtype in _INFINITY
    if not (half or dtype in _PLAIN_SCORES) or target_dtype not in (_PLAIN_GAINS if gains else _PLAIN_TARGETS):
        return None
    values, targets = (scores.view(torch.int16) if half else scores).numpy(), target.numpy()  # NumPy has no bfloat16
    shape = values.shape
    if not shape or shape[1:] != columns or not 0 < values.size <= _MOST_VALIDATED:
        return None
    if targets.shape != (shape[:1] if classes else shape) or not _are_valid(targets, highest):
        return None
    if half:
        # negative scores have the greatest bits
        bits, top = (values.view(np.uint16), _ONE[dtype]) if unit_range else (values & 0x7FFF, _INFINITY[dtype])
        return None if bits.item(bits.argmax()) > top else (values, targets)
    return None if (not _is_in_range(values, 1) if unit_range else has_nan(values)) else (values, targets)


def copy_valid(values: Array, like: Tensor) -> Tensor:
    """Return a copy of the scores of :func:`valid_arrays` in the dtype of the scores, half the time of ``clone``."""
    own = torch.from_numpy(values.copy())
    return own.view(like.dtype) if like.dtype in _INFINITY else own


def is_valid_weight(weights: Tensor, scores: Tensor) -> bool:
    """Return whether the weights are common floats in the valid range, one for each of at least one score."""
    if not (is_plain(scores, weights, gains=True) and weights.is_floating_point()):
        return False
    values = weights.numpy()
    if len(values.shape) != 1 or not len(values) or values.shape != scores.numpy().shape:
        return False
    return _is_in_range(values, MOST_WEIGHT)


def has_nan(scores: Array) -> bool:
    """Return whether any of at least one score is NaN."""
    greatest = scores.item(scores.argmax())  # five times as fast as `max`; argmax returns a NaN, if any
    return bool(greatest != greatest)


def _are_valid(targets: Array, highest: float | None) -> bool:
    """Return whether targets are bool or in [0, ``highest``]; None for no limit, except of fractions."""
    kind = targets.dtype.kind
    return kind == "b" or _is_in_range(targets, MOST_WEIGHT if highest is None and kind == "f" else highest)


def _is_in_range(values: Array, highest: float | None) -> bool:
    """Return whether at least one value are all from 0 to ``highest``; False if any is NaN."""
    least = values.item(values.argmin())
    return bool(least >= 0 and (highest is None or values.item(values.argmax()) <= highest))


def ranking(scores: Array, flags: Array, depth: int | None = None) -> Any:
    """Return the native curve of one ranking of few items; None if a score is NaN.

    Args:
        scores: (N,) at least one and at most ``FEW_ITEMS``, of a dtype that NumPy sorts.
        flags: (N,) bool, the hits.
        depth: rank below which entries may be omitted; None for all entries.
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
        ones, items_above = _ONES[: len(hit_scores)], n - 1 - ascending.searchsorted(hit_scores)[::-1]
        return _single_curve(ones, ones, _RANKS[: len(ones)], items_above, n, m, untied=True)
    at_start = np.bincount(ascending.searchsorted(hit_scores))  # hits of the group that begins at each place
    start = (at_start > 0).nonzero()[0][::-1]
    end = ascending.searchsorted(ascending.take(start), "right")
    hits = at_start.take(start)
    return _single_curve(hits, end - start, hits.cumsum() - hits, n - end, n, m)


def attach_grades(curve: HitCurve, scores: Array, flags: Array, grades: Array) -> HitCurve:
    """Attach the grades of the hits to the native curve of :func:`ranking`.

    Args:
        curve: the curve of these scores and flags.
        scores: as of :func:`ranking`.
        flags: as of :func:`ranking`.
        grades: (N,) of any real dtype.
    """
    places = flags.nonzero()[0]
    hit_grades = grades.take(places).astype(np.float64)
    by_score = scores.take(places).argsort()[::-1][: np.add.reduce(curve.hits)]
    ideal = hit_grades.copy()
    ideal.sort()
    return hit_curve.attach_grades(curve, hit_grades.take(by_score), ideal[::-1])


def _single_curve(
    hits: Array, items: Array, hits_above: Array, items_above: Array, n: int, m: int, *, untied: bool = False
) -> Any:
    """Return the native curve of one ranking of at least one item, without the overhead of a frozen dataclass.

    ``m`` counts all hits, also hits whose entries were omitted.
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
    """Return the curves of rankings of few items in total, by one sort; None if two scores of a ranking are equal.

    Args:
        scores: as of :func:`torch_ap.core.ranking.many_rankings.from_runs`.
        relevant: as of :func:`torch_ap.core.ranking.many_rankings.from_runs`.
        bounds: the offsets of :func:`torch_ap.core.ranking.many_rankings.from_runs` as an array.
        m: as of :func:`torch_ap.core.ranking.many_rankings.from_runs`.
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
    return hit_curve.from_arrays(
        hits=ones,
        items=ones.copy(),
        hits_above=ranks - offsets.take(owner),
        items_above=places - bounds.take(owner),
        score=lambda: tie_groups.scores_from_keys(_HIGHEST - ((hits >> 1) & 0xFFFFFFFF), scores.dtype),
        offsets=offsets,
        n=lengths,
        m=offsets[1:] - offsets[:-1] if m is None else m.numpy(),
        untied=True,
    )
