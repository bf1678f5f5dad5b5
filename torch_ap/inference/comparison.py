"""Comparison of two rankings of the same items, and of two averages over rankings of the same items.

Contributions that the systems share cancel item by item. The permutation test swaps the two systems' ranks item by
item: if the systems are equally good, the two ranks of an item are exchangeable. The scores of two systems have no
common scale, so the ranks are swapped. Ties between swapped ranks are broken at random.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import Design, allowed_values
from torch_ap.core.items.inputs import Batch, ClassificationInputs
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures.average_precision import average_precision, average_precision_of_ranks
from torch_ap.core.measures.convention import PLAIN, Convention
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking import builders, order
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference import groups as grouped
from torch_ap.inference import influence
from torch_ap.inference import resampling as bootstrap
from torch_ap.inference.average_precision import interval_method, interval_of_curve
from torch_ap.inference.edge_cases import FEW_MISSES, check_comparison, unknown_error_reason
from torch_ap.inference.groups import Groups
from torch_ap.inference.influence import degrees_of_freedom, item_shares
from torch_ap.inference.record import (
    SAME_VALUE,
    Comparison,
    Interval,
    comparison_from_error,
    limit_p_value,
    logit,
    number,
    recover_ends,
    resolve_equal_values,
    student_quantile,
    student_tail,
)
from torch_ap.inference.resampling import InferenceSettings, Resampling

_HIGH_AP = 0.9  # of a system whose intervals cover too little, if few misses are above its hits (benchmarks.coverage)


@dataclass(frozen=True, eq=False)
class RankedPair:
    """Validated scores of the same N items by two systems.

    Attributes:
        curves: the ranking of each system.
        scores: the (N,) scores of each system.
        relevant: (N,) bool, the hits.
        groups: (N,) int64, the group of each item; None for independent items.
    """

    curves: tuple[HitCurve, HitCurve]
    scores: tuple[Tensor, Tensor]
    relevant: Tensor
    groups: Tensor | None = None

    @classmethod
    def from_arguments(cls, preds_a: Tensor, preds_b: Tensor, target: Tensor, groups: SampleIds) -> "RankedPair":
        """Validate the arguments of a public function, and rank the items."""
        tensors.check_paired(preds_a=preds_a, preds_b=preds_b)
        for name, preds in (("preds_a", preds_a), ("preds_b", preds_b)):
            tensors.check_scores(name, preds, target)
        a, b = (ClassificationInputs().validate_now(preds, target).scores for preds in (preds_a, preds_b))
        relevant = target == 1
        curves = builders.from_scores(a, relevant), builders.from_scores(b, relevant)
        return cls(curves, (a, b), relevant, grouped.validate_groups(groups, relevant.shape, relevant.device))

    @property
    def systems(self) -> list[tuple[HitCurve, Tensor]]:
        """The ranking and the scores of each system."""
        return list(zip(self.curves, self.scores, strict=True))

    def is_alike(self) -> bool:
        """Return whether every hit and every miss is at the same place in both rankings.

        The place of a miss is between two hits. In perfect rankings, where all misses share one place, it is the rank.
        """
        if all(bool(average_precision(curve) == 1) for curve in self.curves):
            return torch.equal(*(order.dense_ranks(x)[1] for x in self.scores))
        places = [bootstrap.group_items(*x, self.relevant, split_ties=True).group for x in self.systems]
        return torch.equal(*places)


class PairedItems:
    """Contributions of each item to both APs, for the standard error of functions of the two APs."""

    def __init__(self, pair: RankedPair, options: InferenceSettings) -> None:
        self.curves, self.relevant, self.design = pair.curves, pair.relevant, options.design
        self.m, self.n = int(pair.curves[0].m), len(pair.relevant)
        self.df = float(min(self.m, self.n - self.m) - 1)
        self.is_scaled = True
        self.by_influence = not options.method.startswith("jackknife")
        self.contributions: list[Tensor] = []
        if self.df > 0:
            values = influence.influence if self.by_influence else influence.leave_one_out
            self.contributions = [values(curve).values_at(x, pair.relevant) for curve, x in pair.systems]

    def standard_error(self, slopes: tuple[float, float] = (1.0, 1.0)) -> float:
        """Return the standard error of a weighted difference of the APs; NaN with fewer than two hits or two misses."""
        if not self.contributions:
            return math.nan
        gap = slopes[0] * self.contributions[0] - slopes[1] * self.contributions[1]
        if self.by_influence:
            value = scaled_deviations(gap, self.relevant).square().sum()
            if self.design == "iid":
                shares = [influence.prevalence_slope(curve) for curve in self.curves]
                slope = slopes[0] * shares[0] - slopes[1] * shares[1]
                value = value + self.m * (self.n - self.m) / self.n**3 * slope.square()[0]
            return math.sqrt(float(value))
        strata = (gap,) if self.design == "iid" else (gap[self.relevant], gap[~self.relevant])
        return math.sqrt(float(sum((len(x) - 1) / len(x) * (x - x.mean()).square().sum() for x in strata)))


class PairedGroups:
    """Values of both systems without each group, for the standard error of functions of the two values.

    Args:
        values: (G,) values of each system without each group.
        groups: the groups of the items.
        relevant: (N,) bool.
        most: the largest effective number of groups.
        method: "jackknife" for the degrees of freedom that were measured for jackknives of AP. "influence" for K - 1,
            which linearized values of AP need, and which is cautious for jackknives of other measures
            (``benchmarks.coverage``).
    """

    def __init__(
        self,
        values: Sequence[Tensor],
        groups: Groups,
        relevant: Tensor,
        most: float = math.inf,
        *,
        method: str = "influence",
    ) -> None:
        hits = groups.hits(relevant)
        self.values, self.hit_groups = values, (hits > 0).sum()
        self.df = grouped.degrees_of_freedom(min(groups.effective_count(hits), most), groups.count, method)
        self.is_scaled = method == "influence"

    @property
    def reason(self) -> str:
        """Warn of few groups with hits, and return why the standard error is doubtful or unknown; "" if neither."""
        return grouped.few_groups_reason(self.hit_groups) if self.df >= 1 else grouped.NO_SPREAD

    def standard_error(self, slopes: tuple[float, float] = (1.0, 1.0)) -> float:
        """Return the standard error of a weighted difference of the APs; NaN if the spread is unknown."""
        gap = slopes[0] * self.values[0] - slopes[1] * self.values[1]
        return float(grouped.standard_error(gap)) if self.df >= 1 else math.nan


def logit_test(
    values: tuple[float, float],
    items: PairedItems | PairedGroups,
    confidence_level: float,
    transform: Callable[[Any], Any] = lambda x: x,
) -> tuple[float, float, float]:
    """Return the interval of the difference and the p-value from the logits of k / (k + 1) * AP, with k = df + 1.

    The interval combines the intervals of the two logits, transformed back, by the method of variance estimates
    recovery (Zou & Donner 2008). All are NaN if the difference of the logits has a standard error of 0.

    Args:
        values: the two APs, or other values in (0, 1).
        items: source of the standard errors.
        confidence_level: nominal coverage of the interval.
        transform: increasing function of the values whose difference the interval is for.
    """
    share = (items.df + 1) / (items.df + 2)
    # without sqrt(share), the test rejects too often with few hits; the error of a jackknife of groups is large enough
    scale = 1 / math.sqrt(share) if items.is_scaled else 1.0
    a, b = (share * value for value in values)
    slopes = share / (a * (1 - a)), share / (b * (1 - b))
    error, error_a, error_b = (
        scale * items.standard_error(weights) for weights in (slopes, (slopes[0], 0.0), (0.0, slopes[1]))
    )
    if not error > 0:
        return (math.nan,) * 3
    quantile = student_quantile(confidence_level, number(items.df))
    shrunken = torch.tensor([a, b], dtype=torch.float64)
    errors = torch.tensor([error_a, error_b], dtype=torch.float64) * shrunken * (1 - shrunken)
    points, low, high = (transform(x) for x in (shrunken, *logit(shrunken, errors, quantile)))
    product = 2 * error_a * error_b
    correlation = (error_a**2 + error_b**2 - error**2) / product if product > 0 else 0.0

    difference = transform(values[0]) - transform(values[1])  # a - b is smaller, which matters for few hits
    ends = recover_ends(points.tolist(), points - low, high - points, correlation)
    gap = math.log(a / (1 - a)) - math.log(b / (1 - b))
    p, least, most = student_tail(abs(gap) / error, items.df), min(ends[0], difference), max(ends[1], difference)
    if not items.is_scaled and p > 1 - confidence_level:  # with few groups, up to 5% of the intervals exclude 0
        least, most = min(least, 0.0), max(most, 0.0)
    return least, most, p


def scaled_deviations(values: Tensor, relevant: Tensor) -> Tensor:
    """Return the contribution of each item to the standard error: hits and misses are centered and scaled separately.

    It is (v - mean) / sqrt(m (m - 1)) for hits, and has q instead of m for misses. The squares sum to
    var(hits) / m + var(misses) / q. With fewer than two hits or two misses, their contributions are NaN.
    """
    scaled = torch.empty_like(values)
    for kind in (relevant, ~relevant):
        group = values[kind]
        scale = (len(group) * (len(group) - 1)) ** 0.5 or float("nan")
        scaled[kind] = (group - group.mean()) / scale
    return scaled


_TIE_BITS = 31


def swapped_differences(preds_a: Tensor, preds_b: Tensor, relevant: Tensor, resampling: Resampling) -> Tensor:
    """Return the observed AP(A) - AP(B), with ties broken at random, then B random swaps: (B + 1,) float64.

    Args:
        preds_a: (N,) scores.
        preds_b: (N,) scores.
        relevant: (N,) bool, at least one hit.
        resampling: number of swaps and generator.
    """
    if preds_a.device.type != "cpu":
        return _swapped_on_device(preds_a, preds_b, relevant, resampling)
    return swapped_on_cpu(preds_a, preds_b, relevant, resampling, average_precision_untied)


def swapped_on_cpu(
    preds_a: Tensor,
    preds_b: Tensor,
    relevant: Tensor,
    resampling: Resampling,
    value: "Callable[[Array, Array, np.random.Generator], float]",
) -> Tensor:
    """Compute :func:`swapped_differences` of CPU tensors for any value of ranks, hits and a generator."""
    seed, hit = resampling.seed(), relevant.numpy().astype(np.int64)
    first = np.random.Generator(np.random.SFC64([seed]))
    ranks = [random_ranks(preds, first) for preds in (preds_a, preds_b)]

    def difference(rng: np.random.Generator, swap: bool = True) -> float:
        a, b = ranks
        if swap:
            is_swapped = rng.integers(0, 2, len(hit), dtype=np.uint8).astype(bool)
            a, b = np.where(is_swapped, b, a), np.where(is_swapped, a, b)
        return value(a, hit, rng) - value(b, hit, rng)

    observed = torch.tensor([difference(first, swap=False)], dtype=torch.float64)
    return torch.cat([observed, resampling.statistics(difference, 8 * len(hit), len(hit), seed)])


def random_ranks(preds: Tensor, rng: "np.random.Generator") -> Array:
    """Return the ranks from 0, best first; tied scores are in random order."""
    keys = ~order.keys(preds).to(torch.int64).numpy()  # -keys overflows for the least int64
    ranks = np.empty(len(keys), np.int64)
    ranks[np.lexsort((rng.random(len(keys)), keys))] = np.arange(len(keys))
    return ranks


def ranks_of_hits(ranks: Array, hit: Array, rng: "np.random.Generator") -> Array:
    """Return the ranks of the hits from 1, ascending, with ties broken at random."""
    key = (ranks << (_TIE_BITS + 1)) | (rng.integers(0, 1 << _TIE_BITS, len(ranks), dtype=np.uint32) << 1) | hit
    return np.flatnonzero(order.sort_in_place(key) & 1) + 1


def average_precision_untied(ranks: Array, hit: Array, rng: "np.random.Generator") -> float:
    """Return the AP of ranks, with ties broken at random."""
    return float(average_precision_of_ranks(ranks_of_hits(ranks, hit, rng)))


def _swapped_on_device(preds_a: Tensor, preds_b: Tensor, relevant: Tensor, resampling: Resampling) -> Tensor:
    """Compute :func:`swapped_differences` with random numbers of torch on the device of the scores."""
    generator, n, m = resampling.generator_on(preds_a.device), len(relevant), int(relevant.sum())

    def ties(count: int) -> Tensor:
        return torch.randint(1 << _TIE_BITS, (count, n), generator=generator, device=relevant.device)

    def draw(count: int) -> tuple[Tensor, Tensor, Tensor]:
        swap = torch.randint(2, (count, n), generator=generator, device=relevant.device).bool()
        return swap, ties(count), ties(count)

    def average_precision(ranks: Tensor, tie: Tensor) -> Tensor:
        key = (ranks << (_TIE_BITS + 1)) | (tie << 1) | relevant
        hits = (torch.sort(key, dim=1).values & 1).bool()
        values: Tensor = average_precision_of_ranks(hits.nonzero()[:, 1].reshape(len(ranks), m) + 1)
        return values

    def break_ties(preds: Tensor) -> Tensor:
        shuffled = torch.randperm(n, generator=generator, device=preds.device)
        items = shuffled[torch.argsort(preds[shuffled], stable=True, descending=True)]
        ranks = torch.empty_like(items)
        ranks[items] = torch.arange(n, device=items.device)
        return ranks[None]

    a, b = break_ties(preds_a), break_ties(preds_b)
    differences = [average_precision(a, ties(1)) - average_precision(b, ties(1))]
    for swap, first, second in resampling.draw_on_device(6 * n, draw):
        swapped_a, swapped_b = torch.where(swap, b, a), torch.where(swap, a, b)
        differences.append(average_precision(swapped_a, first) - average_precision(swapped_b, second))
    return torch.cat(differences)


def compare_averages(
    settings: APSettings, batches: tuple[Batch, Batch], curves: tuple[HitCurve, HitCurve], options: InferenceSettings
) -> Comparison:
    """Return the difference of two macro, weighted or micro averages, with its standard error by influence functions.

    Student's t has Satterthwaite's degrees of freedom, the smaller number of the two systems that have a spread.

    Args:
        settings: all settings, with an average.
        batches: items of system A, and the same items with the scores of system B.
        curves: the rankings of both systems.
        options: settings of the comparison, with the method "influence".

    Raises:
        ValueError: for another method, no average, or a convention other than plain AP.
    """
    groups = batches[0].groups
    if groups is None:
        checks.one_of("method", options.method, ("influence",))
    if settings.average in ("none", None):
        raise ValueError("`average` must not be 'none' for a comparison; compare one class or label at a time")
    check_comparison(settings.convention, options.method, None)
    value_a, value_b = (float(settings.value(curve, torch.float64, warn=False)) for curve in curves)

    def is_alike() -> bool:
        columns = [settings.rankings(x).scores.reshape(len(x.scores), -1) for x in batches]
        pairs = zip(*(x.unbind(1) for x in columns), strict=True)
        return value_a < 1 or all(torch.equal(*(order.dense_ranks(x)[1] for x in pair)) for pair in pairs)

    systems = list(zip(curves, batches, strict=True))
    intervals = partial(_single_intervals, settings, systems, options)
    if groups is not None:
        grouped.check_design(options.design)
        first, second = (grouped.values_without_groups(settings, *x, options.method) for x in systems)
        df, error, reason = float(first.effective.min()) - 1, math.nan, grouped.NO_SPREAD
        if df >= 1:
            error = float(grouped.standard_error((first.values - second.values).flatten()))
            reason = unknown_error_reason(settings, curves[0], first.in_one_group)
            reason = reason or grouped.few_groups_reason(first.hit_groups)
        options = replace(options, method=first.method)
        comparison = comparison_from_error(value_a, value_b, error, reason=reason, df=df, **options.fields)
        return resolve_equal_values(comparison, is_alike, intervals)
    shares = [item_shares(settings, *system, options.design) for system in zip(batches, curves, strict=True)]
    error = math.sqrt(float((shares[0] - shares[1]).square().sum()))
    reason = unknown_error_reason(settings, curves[0]) if math.isnan(error) else ""
    if math.isnan(value_a):
        error, reason = math.nan, "the averages are NaN"
    df = math.inf
    if error > 0:
        df = min(float(degrees_of_freedom(settings, curve, options.design)) for curve in curves)
    comparison = comparison_from_error(value_a, value_b, error, reason=reason, df=df, **options.fields)
    return resolve_equal_values(comparison, is_alike, intervals)


def _single_intervals(
    settings: APSettings, systems: Sequence[tuple[HitCurve, Batch]], options: InferenceSettings
) -> list[Interval]:
    """Return the interval of each system's value by the default method."""
    methods = [interval_method(None, settings, options.design, batch) for _, batch in systems]
    pairs = zip(systems, methods, strict=True)
    return [interval_of_curve(settings, *system, replace(options, method=method)) for system, method in pairs]


Method: TypeAlias = Literal["logit", "influence", "influence-z", "jackknife", "jackknife-z", "bootstrap", "permutation"]
METHODS = allowed_values(Method)
GROUP_METHODS = ("logit", *grouped.METHODS)


@renamed_keywords(batch="chunk_size")
def compare_rankings(
    preds_a: Tensor,
    preds_b: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method = "logit",
    design: Design = "iid",
    groups: SampleIds = None,
    weights: Tensor | None = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Comparison:
    r"""Compare the average precision of two systems on the same items: difference, interval and p-value.

    .. math::
        SE^2(\Delta) = \frac{var(\phi_+^A - \phi_+^B)}{m} + \frac{var(\phi_-^A - \phi_-^B)}{q}

    with influence functions, or with delete-one values in their place. Contributions that the systems share cancel item
    by item. Design "iid" adds the variance due to the random number of hits. The estimand is the difference of the APs
    in the population, the limits as items are added; not the difference of E(AP) for N items.

    Rejection rates for equally good systems at nominal 5%, design "iid", minimum to maximum over 100 and 1,000 items,
    d' of 0 to 3, scores uncorrelated or with a correlation of .8 (``benchmarks.coverage``, also for "stratified"):

    ===========  ===========================  ============  ============  ============  ============  ============
    method       description                  3 hits        10            30            100, 300      90 of 100
    ===========  ===========================  ============  ============  ============  ============  ============
    logit        logits of k/(k+1) AP, t      .001 to .031  .012 to .059  .018 to .071  .024 to .061  .000 to .033
    influence    influence functions, t       .000 to .028  .000 to .043  .001 to .062  .013 to .058  .000 to .019
    influence-z  influence functions, z       .000 to .123  .001 to .082  .001 to .071  .016 to .060  .000 to .042
    jackknife    delete-one differences, t    .000 to .024  .000 to .028  .002 to .052  .015 to .051  .000 to .015
    jackknife-z  delete-one differences, z    .004 to .077  .002 to .054  .004 to .061  .017 to .056  .000 to .036
    bootstrap    the same resample for both   .002 to .110  .012 to .057  .035 to .050
    permutation  an item's two ranks swapped  .002 to .023  .022 to .057  .043 to .052
    ===========  ===========================  ============  ============  ============  ============  ============

    t has k - 1 degrees of freedom, where k is the smaller of the number of hits and the number of misses. "logit"
    multiplies both APs by k / (k + 1), so that an AP of 1 has a logit, and the standard error by sqrt(1 + 1 / k):

    .. math::
        t = \frac{logit(A') - logit(B')}{SE(logit(A') - logit(B'))} \sqrt{\frac{k}{k + 1}}, \qquad
        A' = \frac{k}{k + 1} AP(A)

    Power for a better system A, with 10 / 30 hits: .446 / .574 ("logit"), .267 / .460 ("influence"), .199 / .442
    ("jackknife") and .315 / .487 ("jackknife-z").

    The interval always refers to the difference of the APs. "logit" and "permutation" compute it from A', B', the ends
    of their intervals on the logit scale, transformed back, and the correlation r of the logits (MOVER: method of
    variance estimates recovery):

    .. math::
        low = A' - B' - \sqrt{(A' - low_A)^2 + (high_B - B')^2 - 2 r (A' - low_A)(high_B - B')}

    and high likewise; both are widened to the difference itself where it is outside. This interval rarely contradicts
    the p-value (in up to .011 of the samples, but .079 for two systems with APs near 1 and a correlation of .9), where
    the interval of "influence" does so in up to .351. Coverage of "logit" at 95%, with 10 to 180 hits of 60 to 3,000
    items: .923 to .975. If both systems have an AP near 1 and differ, both methods cover too little, .846 to .855:
    ``reason`` reports it for an AP above .9 with m (1 - AP) < 3 (``benchmarks.coverage``).

    "permutation" tests another hypothesis, that the systems are exchangeable. It permutes ranks, with tied scores in
    random order, and p is (b + 1) / (B + 1).

    Args:
        preds_a: (N,) scores of system A, no NaN; A and B may have different scales.
        preds_b: (N,) scores of system B.
        target: (N,) values 0 and 1.
        confidence_level: nominal coverage of the interval, in (0, 1).
        method: as above.
        design: "iid" (items were sampled, so the number of hits is random) or "stratified" (the numbers of hits and
            misses were fixed).
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. Requires ``design="iid"`` and method "logit", "jackknife" or "influence". The differences without
            each group replace the differences of items, with the degrees of freedom of
            :mod:`torch_ap.inference.groups`. "logit" uses the delete-one-group values up to 500 groups, without the
            factor sqrt(k / (k + 1)) of t. Its interval then contains 0 if p is above 1 - ``confidence_level``. Beyond
            500 groups it uses the linearized values. For 10 to 200 groups, "logit" and "jackknife" rejected
            .035 to .059 at 5%, "influence" .044 to .070, and tests of independent items .059 to .441
            (``benchmarks.coverage``).
        weights: must be None, because the formulas count items.
        n_resamples: number of bootstrap resamples, or of permutations; at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`Comparison`. If both systems rank the items in the same way, p = 1 and the ends are 0. Equal APs without
        a spread, such as two APs of 1, of rankings that differ have p = 1 too. Their interval combines the intervals of
        both APs by MOVER with r = 0; it is NaN without misses. Otherwise, values are NaN, with a reason: the standard
        error with fewer than two hits or two misses, and the interval if the standard error is 0. The p of "bootstrap"
        is at least 2^(1 - N), the p of the two-sided sign test.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. Source: as for
    :func:`torch_ap.inference.average_precision_interval`; Zou & Donner (2008) for the interval of "logit".

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_rankings
        >>> a = torch.tensor([0.95, 0.85, 0.73, 0.62, 0.48, 0.39, 0.12, 0.04])
        >>> b = torch.tensor([0.55, 0.59, 0.88, 0.97, 0.20, 0.09, 0.43, 0.32])
        >>> found = compare_rankings(a, b, torch.tensor([1, 1, 0, 0, 1, 1, 0, 0]), method="influence")
        >>> round(float(found.difference), 4), round(float(found.standard_error), 4)
        (0.3762, 0.1035)
    """
    tensors.no_weights(weights, "a comparison")
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    pair = RankedPair.from_arguments(preds_a, preds_b, target, groups)
    options = InferenceSettings(confidence_level, method, design, resampling)
    return compare_pair(pair, PLAIN, options).to(preds_a.device)


def compare_pair(pair: RankedPair, convention: Convention, options: InferenceSettings) -> Comparison:
    """Compare validated items as :func:`compare_rankings`; ``convention`` must be plain AP."""
    method, curves = options.method, pair.curves
    checks.one_of("method", method, METHODS)
    for curve in curves:
        check_comparison(convention, method, curve)
    value_a, value_b = (float(average_precision(curve)) for curve in curves)
    hits, misses = int(curves[0].m), int(curves[0].n - curves[0].m)
    target = pair.relevant.to(torch.uint8)
    batches = [(curve, Batch(scores, target, groups=pair.groups)) for curve, scores in pair.systems]
    intervals = partial(_single_intervals, APSettings(ClassificationInputs(), convention), batches, options)
    # without misses, or if the systems rank the items in the same way, the values are equal by definition
    if hits and (not misses or (min(hits, misses) < 2 and pair.is_alike())):
        comparison = comparison_from_error(value_a, value_b, 0.0, **options.fields)
        return resolve_equal_values(comparison, pair.is_alike, intervals)
    if method == "bootstrap" and pair.groups is None:
        low, high, error, p, least = _bootstrap(pair, convention, options)
        comparison = comparison_from_error(value_a, value_b, error, reason=_reason(hits, error), **options.fields)
        if comparison.standard_error == 0 and comparison.difference == 0:
            return resolve_equal_values(comparison, pair.is_alike, intervals)
        p = 1.0 if comparison.p_value == 1 else p
        comparison = replace(comparison, low=number(low), high=number(high), p_value=number(p))
        return limit_p_value(comparison, len(pair.relevant), "items", least_of_draws=least)
    items: PairedItems | PairedGroups
    if pair.groups is None:
        items = PairedItems(pair, options)
    else:
        items = _without_groups(pair, Groups.from_ids(pair.groups), options)
    error = items.standard_error()
    df = math.inf if method.endswith("-z") else items.df
    reason = _reason(hits, error)
    if isinstance(items, PairedGroups) and hits:
        reason = items.reason
    comparison = comparison_from_error(value_a, value_b, error, df=df, reason=reason, **options.fields)
    same = comparison.standard_error == 0 and comparison.difference == 0
    if (math.isnan(comparison.p_value) and method != "permutation") or same or not hits:
        return resolve_equal_values(comparison, pair.is_alike, intervals)
    if method in ("logit", "permutation") and error > 0:
        low, high, p = logit_test((value_a, value_b), items, options.confidence_level)
        best = max(value_a, value_b)
        is_narrow = best > _HIGH_AP and hits * (1 - best) < FEW_MISSES
        note = "few misses are above the hits of a system: the interval may be too narrow" if is_narrow else ""
        reason = "; ".join(filter(None, [comparison.reason, note]))
        comparison = replace(comparison, low=number(low), high=number(high), p_value=number(p), reason=reason)
    if method != "permutation":
        return comparison
    differences = swapped_differences(*pair.scores, pair.relevant, options.resampling).abs()
    p = (int((differences[1:] >= differences[0] - SAME_VALUE).sum()) + 1) / len(differences)
    reason = comparison.reason.replace("neither interval nor p-value", "no interval")
    return replace(comparison, p_value=number(p), reason=reason)


def _without_groups(pair: RankedPair, groups: Groups, options: InferenceSettings) -> PairedGroups:
    """Return the AP of each system without each group."""
    grouped.check_design(options.design)
    method = grouped.resolve_method(options.method, groups, GROUP_METHODS)
    method = grouped.resolve_method(grouped.DEFAULT, groups) if method == "logit" else method
    values = [grouped.without_each_group(*system, pair.relevant, groups, method) for system in pair.systems]
    return PairedGroups(values, groups, pair.relevant, method=method)


def _bootstrap(
    pair: RankedPair, convention: Convention, options: InferenceSettings
) -> tuple[float, float, float, float, float]:
    """Return both ends, the standard error, the p-value and the smallest possible one from shared resamples."""
    relevant, m, n = pair.relevant, int(pair.curves[0].m), len(pair.relevant)
    if min(m, n - m) < 2:
        return (math.nan,) * 5
    split = convention.reads_tie_groups
    systems = [bootstrap.group_items(*system, relevant, split_ties=split) for system in pair.systems]
    indices = torch.arange(n, device=relevant.device)
    strata = [indices] if options.design == "iid" else [indices[relevant], indices[~relevant]]

    def gap(weights: Tensor) -> Tensor:
        first, second = (convention(system.curve(weights)) for system in systems)
        return first - second

    values = bootstrap.replicate_items(gap, strata, n, options.resampling)
    values = values[~torch.isnan(values)]
    low, high = bootstrap.percentile(values, options.confidence_level)
    return float(low), float(high), float(values.std()), *bootstrap.two_sided_p_value(values)


def _reason(hits: int, error: float) -> str:
    if not hits:
        return "no hits, so AP and its difference are NaN"
    return (
        f"fewer than two {'hits' if hits < 2 else 'misses'}, so no standard error exists" if math.isnan(error) else ""
    )
