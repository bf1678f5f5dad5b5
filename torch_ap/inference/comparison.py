"""Is system A better than system B: two rankings of the same items, compared with what they share."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from torch_ap.core import builders, checks, order
from torch_ap.core.average_precision import average_precision
from torch_ap.core.batch import Door
from torch_ap.core.convention import Convention
from torch_ap.core.hit_curve import HitCurve
from torch_ap.functional.evaluation import raise_broken
from torch_ap.inference import at_items, bootstrap, influence, item_bootstrap, jackknife, rules
from torch_ap.inference.methods import DESIGNS, refuse_comparison
from torch_ap.inference.rank_swap import swapped_differences
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.student import normal_quantile

METHODS = ("jackknife", "influence", "bootstrap", "permutation")
_SAME = 1e-12


@dataclass(frozen=True)
class Comparison:
    """Two systems and their difference.

    Attributes:
        value_a: of system A.
        value_b: of system B.
        difference: A - B.
        low: lower end of the interval of the difference.
        high: upper end.
        standard_error: of the difference.
        p_value: two-sided, of no difference.
        level: nominal coverage of the interval.
        method: name of the method.
        design: "iid" or "stratified".
        reason: why numbers are NaN, or p is 1 by definition; "" otherwise.
    """

    value_a: float
    value_b: float
    difference: float
    low: float
    high: float
    standard_error: float
    p_value: float
    level: float
    method: str
    design: str = ""
    reason: str = ""


def compare_rankings(
    preds_a: Tensor,
    preds_b: Tensor,
    target: Tensor,
    *,
    level: float = 0.95,
    method: Literal["jackknife", "influence", "bootstrap", "permutation"] = "jackknife",
    design: Literal["iid", "stratified"] = "iid",
    weights: Tensor | None = None,
    resampling: Resampling | None = None,
) -> Comparison:
    r"""The difference of two systems' average precision on the same items, with interval and p-value.

    .. math::
        SE^2(\Delta) = \frac{var(\phi_+^A - \phi_+^B)}{m} + \frac{var(\phi_-^A - \phi_-^B)}{q}

    by influence functions, or the same of the delete-one values; what the systems share cancels item by item. Design
    "iid" adds what the random number of hits does. The estimand is the difference of the limits that the two APs tend
    to as items are added, their values in the population; not that of E(AP) for so many items.

    Of two
    equally good systems the tests reject at nominal 5%, design "stratified" and m fixed, with (n, m) = (1000, 50) /
    (3000, 245), of 5,000 repetitions (the last two methods 600, with a standard error of .01; ``benchmarks.coverage``):

    ===========  =============================================  ==================  ==================
    method       what it is                                     (1000, 50)          (3000, 245)
    ===========  =============================================  ==================  ==================
    jackknife    delete-one differences, z                      .028 to .055        .045 to .050
    influence    influence functions, z: the cheapest           .037 to .060        .048 to .051
    bootstrap    the same resample for both, percentiles        .030 to .060        .040 to .067
    permutation  the two ranks of an item swapped at random     .035 to .063        .038 to .058
    ===========  =============================================  ==================  ==================

    "permutation" gives the jackknife's standard error and interval with its own p-value, (b + 1) / (B + 1). It works on
    ranks, with tied scores in an order that the generator draws. The first two take the difference for normal, which a
    handful of hits does not make it.

    Args:
        preds_a: (N,) scores of system A, no NaN; the scales of A and B need not be alike.
        preds_b: (N,) scores of system B.
        target: (N,) of 0 and 1.
        level: nominal coverage of the interval, in (0, 1).
        method: as above.
        design: "iid" (items were drawn, and the number of hits with them) or "stratified" (so many hits and so many
            misses were).
        weights: refused: the formulas count items.
        resampling: of the bootstrap and the permutations; None for 1,000 that repeat.

    Returns:
        :class:`Comparison` of floats. Where no item tells the systems apart, or there are no misses, p = 1. Else, with
        fewer than two hits or two misses, no standard error exists, and where it is 0 no interval: NaN, and ``reason``
        says why.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals no other package's. Source: as for
    :func:`torch_ap.inference.intervals.average_precision_interval`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_rankings
        >>> a = torch.tensor([0.95, 0.85, 0.73, 0.62, 0.48, 0.39, 0.12, 0.04])
        >>> b = torch.tensor([0.55, 0.59, 0.88, 0.97, 0.20, 0.09, 0.43, 0.32])
        >>> found = compare_rankings(a, b, torch.tensor([1, 1, 0, 0, 1, 1, 0, 0]), method="influence")
        >>> round(found.difference, 4), round(found.standard_error, 4)
        (0.3762, 0.1035)
    """
    rules.no_weights(weights, "a comparison")
    how = rules.resampling(resampling)
    rules.paired(preds_a, preds_b, "preds_a", "preds_b")
    scores = []
    for name, preds in (("preds_a", preds_a), ("preds_b", preds_b)):
        rules.ranks(name, preds, target)
        admitted = Door()(preds, target)
        raise_broken(admitted.broken, 1)
        scores.append(admitted.scores)
    return compare_checked(
        scores[0],
        scores[1],
        target == 1,
        Convention(),
        level=level,
        method=method,
        design=design,
        resampling=how,
    )


def compare_checked(
    a: Tensor,
    b: Tensor,
    relevant: Tensor,
    convention: Convention,
    *,
    level: float,
    method: str,
    design: str,
    resampling: Resampling,
) -> Comparison:
    """:func:`compare_rankings` of items that a door has checked; of plain AP only."""
    rules.level(level)
    checks.one_of("method", method, METHODS)
    checks.one_of("design", design, DESIGNS)
    curves = [builders.from_scores(scores, relevant) for scores in (a, b)]
    for curve in curves:
        refuse_comparison(convention, method, curve)
    values = [float(average_precision(curve)) for curve in curves]
    hits, misses = int(curves[0].m), int(curves[0].n - curves[0].m)
    settings: dict[str, Any] = {"level": level, "method": method, "design": design}
    if hits and (not misses or (min(hits, misses) < 2 and _alike(a, b))):
        return described(values[0], values[1], 0.0, reason="", **settings)
    if method == "bootstrap":
        low, high, error, p = _bootstrapped(curves, (a, b), relevant, level, design, resampling)
        found = described(values[0], values[1], error, reason=_reason(hits, error), **settings)
        return found if found.p_value == 1 else replace(found, low=low, high=high, p_value=p)
    error = math.sqrt(_variance(curves, (a, b), relevant, method, design))
    found = described(values[0], values[1], error, reason=_reason(hits, error), **settings)
    if method != "permutation" or not hits or found.p_value == 1:
        return found
    drawn = swapped_differences(a, b, relevant, resampling).abs()
    p = (int((drawn[1:] >= drawn[0] - _SAME).sum()) + 1) / len(drawn)
    return replace(found, p_value=p, reason=found.reason.replace("neither interval nor p-value", "no interval"))


def described(
    value_a: float, value_b: float, error: float, *, level: float, method: str, design: str, reason: str
) -> Comparison:
    """The comparison of two values whose difference has this standard error, by the normal law."""
    difference = value_a - value_b
    error = 0.0 if error < _SAME else error
    half = normal_quantile(level) * error
    p = math.erfc(abs(difference) / (error * math.sqrt(2))) if error > 0 else math.nan
    if error == 0 and difference == 0:
        p, reason = 1.0, "no item tells the systems apart: p = 1 by definition"
    elif error == 0:
        half, reason = math.nan, "the standard error is 0: neither interval nor p-value exists"
    low, high = difference - half, difference + half
    return Comparison(value_a, value_b, difference, low, high, error, p, level, method, design, reason)


def _alike(a: Tensor, b: Tensor) -> bool:
    """Whether two systems rank the items alike, ties included."""
    return torch.equal(*(order.dense_ranks(scores)[1] for scores in (a, b)))


def _variance(
    curves: list[HitCurve], scores: tuple[Tensor, Tensor], relevant: Tensor, method: str, design: str
) -> float:
    """Var(AP(A) - AP(B)); NaN with fewer than two hits or two misses."""
    m, n = int(curves[0].m), len(relevant)
    if min(m, n - m) < 2:
        return math.nan
    of = influence.influence if method == "influence" else jackknife.leave_one_out
    each = [at_items.spread(of(curve), s, relevant) for curve, s in zip(curves, scores, strict=True)]
    gap = each[0] - each[1]
    if method == "influence":
        value = at_items.centred(gap, relevant).square().sum()
        if design == "iid":
            slope = influence.prevalence_slope(curves[0]) - influence.prevalence_slope(curves[1])
            value = value + m * (n - m) / n**3 * slope.square()[0]
        return float(value)
    parts = (gap,) if design == "iid" else (gap[relevant], gap[~relevant])
    return float(sum((len(x) - 1) / len(x) * (x - x.mean()).square().sum() for x in parts))


def _bootstrapped(
    curves: list[HitCurve],
    scores: tuple[Tensor, Tensor],
    relevant: Tensor,
    level: float,
    design: str,
    resampling: Resampling,
) -> tuple[float, float, float, float]:
    """Low, high, standard error and p of resamples that both systems share."""
    m, n = int(curves[0].m), len(relevant)
    if min(m, n - m) < 2:
        return (math.nan,) * 4
    convention = Convention()
    placed = [item_bootstrap.cells(curve, s, relevant) for curve, s in zip(curves, scores, strict=True)]
    every = torch.arange(n, device=relevant.device)
    strata = [every] if design == "iid" else [every[relevant], every[~relevant]]

    def gap(weights: Tensor) -> Tensor:
        of = [
            convention(item_bootstrap.curve_of(cell, len(curve.hits), weights))
            for cell, curve in zip(placed, curves, strict=True)
        ]
        return of[0] - of[1]

    values = item_bootstrap.replicates(gap, strata, n, resampling)
    values = values[~torch.isnan(values)]
    low, high = bootstrap.percentile(values, level)
    return float(low), float(high), float(values.std()), bootstrap.two_sided(values)


def _reason(hits: int, error: float) -> str:
    if not hits:
        return "no hits, so AP and its difference are NaN"
    return (
        f"fewer than two {'hits' if hits < 2 else 'misses'}, so no standard error exists" if math.isnan(error) else ""
    )
