"""Operating point of a ranking: the threshold with the best F_beta, or the best with a minimum precision or recall."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.measures.counts import Counts
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import posteriors
from torch_ap.inference import resampling as bootstrap
from torch_ap.inference.groups import NO_SPREAD, few_groups_reason
from torch_ap.inference.groups_at_threshold import METHOD, NO_GROUP, ItemGroups
from torch_ap.inference.record import Result
from torch_ap.inference.resampling import Resampling

METHODS = ("posterior", "bootstrap")  # of independent items
CHOSEN = "the threshold has the highest F on the same items: the intervals are too narrow and too high"
_RATIOS = ("precision", "recall", "f_beta")
_ROUNDING = 1e-12  # relative error of sums of weights: a ratio equal to the minimum must reach it
_ROUNDED_SQUARE = 2.0**-48  # relative error of F_beta if beta^2 is rounded: four operations on each side
_EXACT = 2.0**10  # if this times beta^2 is an integer, products of beta^2 with counts are exact


@dataclass(frozen=True, eq=False, repr=False)
class CutNumbers(Result):
    """Abstract: the numbers at a threshold, which :class:`OperatingPoint` describes."""

    threshold: Tensor
    precision: Tensor
    precision_low: Tensor
    precision_high: Tensor
    recall: Tensor
    recall_low: Tensor
    recall_high: Tensor
    f_beta: Tensor
    f_beta_low: Tensor
    f_beta_high: Tensor
    tp: Tensor
    fp: Tensor
    fn: Tensor
    n: Tensor

    _keep_dtype = ("threshold",)


@dataclass(frozen=True, eq=False, repr=False)
class OperatingPoint(CutNumbers):
    """Counts and ratios of a ranking whose items at or above a threshold are classified as positive, 0-d each.

    Coverage of the intervals at 95% for a threshold chosen on the same items: minimum / median / maximum over four
    configurations of 100 to 3,000 items (``benchmarks.coverage``):

    =============  =========  ====================  ====================
    criterion      ratio      "posterior"           "bootstrap"
    =============  =========  ====================  ====================
    best F1        precision  .914 / .925 / .927    .892 / .904 / .922
    best F1        recall     .890 / .900 / .923    .924 / .929 / .942
    best F1        F1         .885 / .900 / .907    .887 / .906 / .921
    precision .7   precision  .940 / .952 / .969    .806 / .830 / .880
    precision .7   recall     .918 / .932 / .949    .923 / .929 / .942
    precision .7   F1         .908 / .927 / .948    .887 / .894 / .903
    recall .8      precision  .943 / .949 / .950    .918 / .932 / .949
    recall .8      recall     .925 / .943 / .951    .899 / .923 / .948
    recall .8      F1         .934 / .943 / .944    .919 / .931 / .942
    =============  =========  ====================  ====================

    The estimands are the ratios in the population at the chosen threshold. "posterior" treats the threshold as fixed in
    advance, so its coverage is too low for the best F_beta. The bootstrap is better for the best F_beta, but not for a
    minimum precision: ``reason`` reports the best F_beta by the other methods. "jackknife", for items in 10 to 200
    groups, covers .926 to .971 at a threshold that was fixed in advance, .930 to .977 for a minimum precision or
    recall, and .907 to .968 for the best F1.

    Attributes:
        threshold: items with ``preds >= threshold`` are classified as positive; NaN if no threshold meets the
            criterion.
        precision: tp / (tp + fp).
        precision_low: lower end of its interval; NaN if none exists.
        precision_high: upper end.
        recall: tp / (tp + fn).
        recall_low: lower end.
        recall_high: upper end.
        f_beta: F_beta.
        f_beta_low: lower end.
        f_beta_high: upper end.
        tp: true positives; with weights, this and the other counts are sums of weights.
        fp: false positives.
        fn: positives below the threshold.
        n: number of items.
        beta: weight of recall relative to precision in F.
        confidence_level: nominal coverage of each interval.
        method: method of the intervals.
        reason: why numbers are NaN or intervals too narrow, or that resamples were omitted; "" otherwise.
    """

    beta: float
    confidence_level: float
    method: str
    reason: str = ""


@dataclass(frozen=True)
class ThresholdCriterion:
    """Criterion for the threshold: the best F_beta, or the best value of one ratio with a minimum of the other.

    Attributes:
        beta: weight of recall in F.
        precision: minimum precision; the threshold with the highest recall is chosen.
        recall: minimum recall; the threshold with the highest precision is chosen.
    """

    beta: float = 1.0
    precision: float | None = None
    recall: float | None = None

    def __post_init__(self) -> None:
        checks.beta("beta", self.beta)
        object.__setattr__(self, "beta", float(self.beta))
        if self.precision is not None and self.recall is not None:
            raise ValueError(
                f"`precision` and `recall` cannot be combined, got {self.precision!r} and {self.recall!r}; pass one"
            )
        for name in ("precision", "recall"):
            if (value := getattr(self, name)) is not None:
                checks.fraction(name, value)

    def value(self, counts: Counts, *, weighted: bool) -> tuple[Any, float]:
        """Return the values to maximize, -inf where the criterion is not met, and the factor of equal values."""
        slack = 1 + (_ROUNDING if weighted else 0)
        if self.precision is not None:
            value, fits = counts.tp, counts.precision * slack >= self.precision
        elif self.recall is not None:
            value, fits = counts.precision, counts.recall * slack >= self.recall
        else:
            value, fits = self._f_beta_scaled(counts), counts.tp > 0
            slack = max(slack, 1 + (0 if (self.beta**2 * _EXACT).is_integer() else _ROUNDED_SQUARE))
        return arrays.namespace(value).where(fits & (counts.tp > 0), value, -torch.inf), slack

    def best_index(self, counts: Counts, *, weighted: bool) -> Tensor:
        """Return the index of the best threshold along the last dimension, highest first: (...,) int64, -1 for none.

        Among equal values, it is the highest threshold for F and a minimum precision, and the lowest for a minimum
        recall.
        """
        value, slack = self.value(counts, weighted=weighted)
        if not value.shape[-1]:
            return torch.full(value.shape[:-1], -1, dtype=torch.int64, device=value.device)
        best = value.amax(-1, keepdim=True)
        equal = (value * slack >= best).to(torch.int8)
        index = equal.argmax(-1) if self.recall is None else value.shape[-1] - 1 - equal.flip(-1).argmax(-1)
        return torch.where(best[..., 0] > -torch.inf, index, -1)

    def best_entries(self, curve: HitCurve) -> tuple[Tensor, Tensor]:
        """Return the entry of the best threshold of each ranking, and the ratio there: (S,) int64 and float64.

        Among equal values, it is the highest threshold, for a minimum recall of those with the highest recall. The
        ratio is the recall for a minimum precision, else the precision. If no threshold meets the criterion, the entry
        is the number of entries, and the ratio is 0, or NaN without relevant items.
        """
        hits, segment = curve.cumulative_hits, curve.segment
        counts = _counts(hits, curve.cumulative_items, segments.each_entry(curve.m, curve.offsets))
        value, slack = self.value(counts, weighted=curve.weighted)

        def is_highest(values: Tensor, slack: float = 1.0) -> Tensor:
            highest = values.new_full((len(curve.m),), -torch.inf).scatter_reduce(0, segment, values, "amax")
            return (values > -torch.inf) & (values * slack >= highest[segment])

        best = is_highest(value, slack)
        if self.recall is not None:
            best = is_highest(torch.where(best, counts.tp, -torch.inf))
        places = torch.where(best, torch.arange(len(hits), device=hits.device), len(hits))
        entry = places.new_full((len(curve.m),), len(hits)).scatter_reduce(0, segment, places, "amin")
        ratio = counts.precision if self.precision is None else counts.recall
        return entry, torch.where(curve.m > 0, torch.cat([ratio, ratio.new_zeros(1)])[entry], torch.nan)

    def _f_beta_scaled(self, counts: Counts) -> Tensor:
        """Return F_beta times a constant, tp / (beta^2 m + items), so that equal F_beta are equal to the bit.

        If beta^2 has few digits, only the division rounds. The power of 2 prevents an overflow for large beta^2.
        """
        exponent = max(0, math.frexp(self.beta**2)[1])
        relevant, retrieved = counts.tp + counts.fn, counts.tp + counts.fp
        scaled: Tensor = counts.tp / (
            math.ldexp(self.beta**2, -exponent) * relevant + math.ldexp(1.0, -exponent) * retrieved
        )
        return scaled

    @property
    def unreached(self) -> str:
        """Why no threshold meets the criterion although positives exist."""
        for name in ("precision", "recall"):
            if (value := getattr(self, name)) is not None:
                return f"no threshold has a {name} of {value:g}: everything is NaN"
        return "no threshold retrieves a positive: everything is NaN"


def operating_point(
    curve: HitCurve,
    criterion: ThresholdCriterion,
    *,
    confidence_level: float,
    method: str | None,
    resampling: Resampling,
    groups: ItemGroups | None = None,
    is_fixed: bool = False,
) -> OperatingPoint:
    """Return the operating point of one ranking, with its intervals.

    Args:
        curve: one ranking with scores and an entry per tie group, because a threshold cannot separate tied items.
        criterion: criterion for the threshold.
        confidence_level: nominal coverage.
        method: "posterior" or "bootstrap", with groups "jackknife"; None for the first of them.
        resampling: settings of the bootstrap.
        groups: the items, if they are in groups.
        is_fixed: whether the curve has a single entry, the items with at least a threshold that is fixed in advance.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    methods = METHODS if groups is None else (METHOD,)
    if method is not None and not (isinstance(method, str) and method in methods):
        raise_invalid(
            "method", f"must be {' or '.join(map(repr, methods))}{' with `groups`' * (groups is not None)}", method
        )
    method = method or methods[0]
    assert curve.score is not None
    counts = _counts(curve.cumulative_hits, curve.cumulative_items, curve.m)
    ratios = _ratios(counts, criterion.beta)
    index = 0 if is_fixed else int(criterion.best_index(counts, weighted=curve.weighted))
    settings: dict[str, Any] = {"beta": criterion.beta, "confidence_level": confidence_level, "method": method}
    if index < 0 or (is_fixed and not bool(curve.m > 0)):
        reason = criterion.unreached if bool(curve.m > 0) else "no positives: everything is NaN"
        undefined = dict.fromkeys(OperatingPoint._tensors(), ratios.new_full((), torch.nan))
        return OperatingPoint(**undefined | settings | {"n": curve.n[0]}, reason=reason)
    hits, items = curve.cumulative_hits[index], curve.cumulative_items[index]
    has_best_f = not is_fixed and criterion.precision is None and criterion.recall is None
    best, reason = ratios[:, index], "" if bool(items > 0) else "no item reaches the threshold: precision is NaN"
    if curve.weighted:
        ends, reason = best.new_full((3, 2), torch.nan), "no interval exists with weights: its formulas count items"
    elif groups is not None:
        ends, why = _grouped_intervals(curve, groups, curve.score[index], best, criterion, confidence_level)
        reason = "; ".join(filter(None, [reason, why]))
    elif method == "posterior":
        ends = _posterior_intervals(counts.map(lambda x: x[index]), best, criterion.beta, confidence_level)
    else:
        ends, reason = _bootstrap_intervals(_optimism(curve, ratios, criterion, resampling), best, confidence_level)
    if has_best_f and method != "bootstrap" and not bool(ends.isnan().all()):
        reason = "; ".join(filter(None, [reason, CHOSEN]))
    rows = torch.column_stack([best, ends]).flatten()  # estimate, low and high end of each ratio
    numbers = (curve.score[index], *rows, hits, items - hits, curve.m[0] - hits, curve.n[0])
    return OperatingPoint.from_numbers(*numbers, **settings, reason=reason)


def _grouped_intervals(
    curve: HitCurve,
    groups: ItemGroups,
    threshold: Tensor,
    estimate: Tensor,
    criterion: ThresholdCriterion,
    confidence_level: float,
) -> tuple[Tensor, str]:
    """Return (3, 2) ends for items in groups, and the reason why some are missing or may be too narrow."""
    ends = torch.cat(groups.ends(threshold[None], float(curve.m), criterion.beta, confidence_level), 1).to(estimate)
    if int(curve.m) != int(groups.group_positives.sum()):
        return ends, NO_GROUP
    missing, flat = ends[:, 0].isnan() & ~estimate.isnan(), ends[:, 0] == ends[:, 1]
    reasons = []
    for flags, text in (
        (missing, f"{NO_SPREAD}: the ends are NaN"),
        (flat, "equal in all groups: the interval has no width"),
    ):
        if names := [name for name, flag in zip(_RATIOS, flags.tolist(), strict=True) if flag]:
            reasons.append(f"{', '.join(names)}: {text}")
    few = ""
    if not bool(missing.all()):
        reached = segments.count(groups.ids[segments.comparable(groups.scores) >= threshold], groups.count)
        positives = "hits" if groups.positives is None else "ground truths"
        few = few_groups_at_threshold((groups.group_positives > 0).sum(), (reached > 0).sum(), positives)
    return ends, "; ".join(filter(None, [*reasons, few]))


def few_groups_at_threshold(
    with_positives: Tensor, with_retrieved: Tensor, positives: str, rankings: str = "rankings"
) -> str:
    """Warn of few groups with positives, or with items at or above the threshold, and return the reason; "" otherwise.

    Args:
        with_positives, with_retrieved: numbers of groups, 0-d or of each of S rankings.
        positives, rankings: what they are, for the message.
    """
    reason = few_groups_reason(with_positives, positives, rankings)
    return reason or few_groups_reason(with_retrieved, "items at or above the threshold", rankings)


def _counts(hits: Tensor, items: Tensor, m: Tensor) -> Counts:
    """Return the counts at thresholds that retrieve these numbers of hits and items; tn is unused."""
    tp, retrieved, m = (segments.as_float64(x) for x in (hits, items, m))
    return Counts(tp=tp, fp=retrieved - tp, fn=m - tp, tn=torch.zeros_like(tp))


def _ratios(counts: Counts, beta: float) -> Tensor:
    """Return precision, recall and F_beta, (3, ...)."""
    return torch.stack([counts.precision, counts.recall, counts.f_beta(beta)])


def _posterior_intervals(counts: Counts, estimate: Tensor, beta: float, confidence_level: float) -> Tensor:
    """Return the central intervals of the posteriors, extended to estimates of 0 and 1: (3, 2)."""
    tp, fp, fn = float(counts.tp), float(counts.fp), float(counts.fn)
    laws: tuple[posteriors.BetaPosterior | posteriors.FBetaPosterior, ...] = (
        posteriors.precision_posterior(tp, fp),
        posteriors.recall_posterior(tp, fn),
        posteriors.f_beta_posterior(tp, fp, fn, beta=beta),
    )
    low, high = torch.stack([torch.stack(law.interval(confidence_level)) for law in laws]).to(estimate).unbind(1)
    return torch.stack([torch.minimum(low, estimate), torch.maximum(high, estimate)], 1)


def _bootstrap_intervals(optimism: Tensor, estimate: Tensor, confidence_level: float) -> tuple[Tensor, str]:
    """Return (3, 2) ends from (B, 3) values of :func:`_optimism`, and a reason with the number of omitted resamples."""
    tails = estimate.new_tensor([(1 + confidence_level) / 2, (1 - confidence_level) / 2])
    ends = (estimate - torch.nanquantile(optimism, tails, dim=0)).t().clamp(0, 1)
    lost = int(torch.isnan(optimism[:, 0]).sum())
    reasons = [f"{lost} of {len(optimism)} resamples have no such threshold and are omitted"] if lost else []
    flat = [name for name, (low, high) in zip(_RATIOS, ends.tolist(), strict=True) if low == high]
    if flat:
        reasons.append(f"resamples show no spread of {' and '.join(flat)}, whose interval has no width")
    return ends, "; ".join(reasons)


def _optimism(curve: HitCurve, ratios: Tensor, criterion: ThresholdCriterion, resampling: Resampling) -> Tensor:
    """Return the ratios in each resample minus the ratios in all items, at the resample's best threshold: (B, 3).

    NaN if no threshold meets the criterion. The difference estimates the ratios in all items minus the ratios in the
    population, at the chosen threshold: their spread, and the optimism of the choice.
    """

    def gap(resamples: HitCurve) -> Tensor:
        shape = (len(resamples.m), len(curve.hits))
        hits, items = resamples.cumulative_hits.reshape(shape), resamples.cumulative_items.reshape(shape)
        counts = _counts(hits, items, resamples.m[:, None])
        best = criterion.best_index(counts, weighted=False)
        index = best.clamp(min=0)
        resampled = _ratios(counts.map(lambda x: x.gather(1, index[:, None])[:, 0]), criterion.beta)
        return torch.where(best >= 0, resampled - ratios[:, index], torch.nan).t()

    return bootstrap.replicates(curve, gap, "iid", resampling)
