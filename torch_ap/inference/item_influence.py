"""Values per item, where items must be told apart: for the covariance of rankings of the same items."""

import torch
from torch import Tensor

from torch_ap.inference import influence
from torch_ap.inference.item_values import ItemValues
from torch_ap.inputs.classification import Batch, counted
from torch_ap.ranking import hit_curve, order, segments
from torch_ap.ranking.hit_curve import HitCurve

_COLUMNS = 8


def spread(values: ItemValues, scores: Tensor, relevant: Tensor) -> Tensor:
    """The value of each item of one ranking: (N,) of the dtype of the values.

    Args:
        values: of the curve of these items.
        scores: (N,) as the curve was made from.
        relevant: (N,) bool.
    """
    assert values.curve.score is not None
    ascending = _wide(values.curve.score).flip(0)
    entry = len(ascending) - torch.searchsorted(ascending, _wide(scores).contiguous(), right=True)
    table = torch.cat([values.misses, values.misses_below, values.hits, values.hits_unseen])
    return table[entry + relevant * (len(ascending) + 1)]


def centred(values: Tensor, relevant: Tensor) -> Tensor:
    """Each item's share of the standard error: hits and misses each centred and scaled.

    (v - mean) / sqrt(m (m - 1)) for hits, the same with q for misses, so that the squares add up to
    var(hits) / m + var(misses) / q. NaN with fewer than two of either.
    """
    out = torch.empty_like(values)
    for kind in (relevant, ~relevant):
        some = values[kind]
        scale = (len(some) * (len(some) - 1)) ** 0.5 or float("nan")
        out[kind] = (some - some.mean()) / scale
    return out


def contributions(validated: Batch, curve: HitCurve, design: str, *, ignoring: bool, weights: Tensor) -> Tensor:
    """What each item contributes to a weighted sum of the rankings' APs; the squares add up to its variance.

    Args:
        validated: (N, C) scores.
        curve: its C rankings.
        design: "iid" or "stratified".
        ignoring: whether single items or scores may be marked as ignored.
        weights: (C,) weight of each ranking; those of weight 0 are passed over.

    Returns:
        (N,) float64.
    """
    scores, target = validated.scores, validated.target
    singles = hit_curve.split(curve)

    def of_columns(columns: list[int]) -> Tensor:
        out = torch.zeros(len(scores), dtype=weights.dtype, device=scores.device)
        for column in columns:
            flags, kept = column_of(target, column, ignoring)
            out[kept] += weights[column] * of_one(singles[column], scores[:, column][kept], flags[kept], design)
        return out

    chosen = weights.nonzero().squeeze(1).tolist()
    threads = order.workers(scores.numel()) if scores.device.type == "cpu" else 1
    # blocks of a fixed size: the sum is the same for every number of threads
    parts = [chosen[first : first + _COLUMNS] for first in range(0, max(len(chosen), 1), _COLUMNS)]
    return torch.stack(order.in_threads(of_columns, parts, threads)).sum(0)


def column_of(target: Tensor, column: int, ignoring: bool) -> tuple[Tensor, Tensor | slice]:
    """Which items are hits of a column's ranking: (N,) bool, and which items it ranks."""
    flags = target == column if target.ndim == 1 else target[:, column] == 1
    if not ignoring:
        return flags, slice(None)
    return flags, counted(target if target.ndim == 1 else target[:, column])


def of_one(curve: HitCurve, scores: Tensor, relevant: Tensor, design: str) -> Tensor:
    """Each item's contribution to the AP of one ranking: (N,) float64; the squares add up to its variance."""
    return spread(_scaled(influence.influence(curve), design), scores, relevant)


def _scaled(values: ItemValues, design: str) -> ItemValues:
    """Influence functions as contributions: centred, scaled as in :func:`centred`, and for "iid" the share of hits."""
    curve = values.curve
    hits, misses = values.of_hits(), values.of_misses()
    scale = [torch.sqrt(x.count * (x.count - 1)) for x in (hits, misses)]
    added = [torch.zeros_like(hits.mean)] * 2
    if design == "iid":
        n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
        slope = influence.prevalence_slope(curve) / n
        added = [(1 - m / n) * slope, -m / n * slope]
    return ItemValues(
        curve,
        (values.hits - hits.mean) / scale[0] + added[0],
        (values.misses - misses.mean) / scale[1] + added[1],
        (values.hits_unseen - hits.mean) / scale[0] + added[0],
        (values.misses_below - misses.mean) / scale[1] + added[1],
    )


def _wide(scores: Tensor) -> Tensor:
    """Scores in a dtype that can be searched."""
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
