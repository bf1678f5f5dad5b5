"""What each item of several rankings adds to the average of their APs, for intervals and comparisons of averages.

All rankings rank the same items, so that their covariances count: the squares of the items' totals add up to the
variance.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.curve import averaging
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference import influence, student
from torch_ap.inference.item_values import ItemValues
from torch_ap.inputs.classification import Batch, counted
from torch_ap.ranking import hit_curve, order, segments
from torch_ap.ranking.hit_curve import HitCurve

_COLUMNS = 8


@dataclass(frozen=True, eq=False)
class _Average:
    """An average as a weighted sum: (S,) weight of each AP that varies, and of each that enters as a constant too."""

    weights: Tensor
    values: Tensor

    @staticmethod
    def of(settings: APSettings, curve: HitCurve) -> "_Average":
        """Rankings without hits have no weight; those that count as a constant still dilute the others."""
        values = settings.convention(curve)
        m = segments.as_float64(curve.m)
        if settings.average == "weighted":
            return _Average(m / m.sum(), values)
        among = averaging.takes_part(curve.m, curve.n, settings.action_on_empty)
        return _Average((m > 0) / segments.as_float64(among).sum(), values)


def shares_of(settings: APSettings, validated: Batch, curve: HitCurve, design: str) -> Tensor:
    """(N,) what each item contributes to the average."""
    ignoring = settings.inputs.ignoring
    if settings.average == "micro":
        return _shares_of_micro(validated, curve, design, ignoring)
    average = _Average.of(settings, curve)
    varied = average.weights * (curve.m < curve.n)  # without misses AP is 1 for any scores
    shares = contributions(validated, curve, design, ignoring=ignoring, weights=varied)
    if design == "stratified":
        return _centred_by_class(shares, validated.target) if settings.inputs.classes else shares
    if settings.average != "weighted":
        return shares
    # the weights m / sum of m are random too
    total, mean = segments.as_float64(curve.m.sum()), (average.weights * average.values.nan_to_num()).sum()
    for column in curve.m.nonzero().squeeze(1).tolist():
        flags, kept = column_of(validated.target, column, ignoring)
        expected = curve.m[column] / curve.n[column]
        shares[kept] += (segments.as_float64(flags[kept]) - expected) * (average.values[column] - mean) / total
    return shares


def _centred_by_class(shares: Tensor, target: Tensor) -> Tensor:
    """The classes are the strata: an item varies around its class only."""
    kinds = int(target.max()) + 1 if len(target) else 0
    place = target.long()
    means = shares.new_zeros(kinds).index_add_(0, place, shares) / segments.count(place, kinds).clamp(min=1)
    return shares - means[place]


def _shares_of_micro(validated: Batch, curve: HitCurve, design: str, ignoring: bool) -> Tensor:
    """One ranking of all scores, in which an item has as many places as labels."""
    scores, target = validated.scores, validated.target
    flags, kept = column_of(target.flatten(), 1, ignoring)
    shares = torch.zeros(scores.numel(), dtype=segments.as_float64(curve.m).dtype, device=scores.device)
    shares[kept] = of_one(curve, scores.flatten()[kept], flags[kept], design)
    return shares.reshape(scores.shape).sum(1)


def degrees_of_freedom(settings: APSettings, curve: HitCurve, design: str) -> Tensor:
    """Satterthwaite's (1946): (sum of v)^2 / sum of v^2 / (k - 1), of the variances v of the weighted APs; 0-d.

    k is the number of hits of a ranking, or of misses where there are fewer.
    """
    varied = (curve.m > 1) & (curve.m < curve.n)
    v = (_Average.of(settings, curve).weights ** 2 * influence.variance(curve, design))[varied]
    return v.sum() ** 2 / (v**2 / student.degrees_of_freedom(curve)[varied]).sum()


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
    return _scaled(influence.influence(curve), design).of_items(scores, relevant)


def _scaled(values: ItemValues, design: str) -> ItemValues:
    """Influence functions as contributions, and for "iid" the share of hits.

    Centred and scaled as in :func:`torch_ap.inference.paired_items.centred`.
    """
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
