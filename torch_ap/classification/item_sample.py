"""Statistical inference for the classification AP metrics from their items as a sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import Design
from torch_ap.core.items.inputs import Batch, counted_items
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures.chance import chance_of_curve
from torch_ap.core.ranking import hit_curve, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import groups as grouped
from torch_ap.inference import influence
from torch_ap.inference.average_precision import (
    BOOTSTRAPS,
    METHODS,
    interval_method,
    interval_of_curve,
    is_mean,
    jackknife_of_average,
    without_bias,
)
from torch_ap.inference.average_precision_at_k import interval_at_k_of_curve
from torch_ap.inference.chance import tie_groups
from torch_ap.inference.comparison import RankedPair, compare_averages, compare_pair
from torch_ap.inference.comparison_at_k import METHODS_AT_K, TopSettings, compare_pair_at_k, method_at_k
from torch_ap.inference.contributions import (
    Contributions,
    jackknife_contributions,
    ranking_contributions,
    require_all_items,
)
from torch_ap.inference.edge_cases import check_comparison, check_convention
from torch_ap.inference.influence import degrees_of_freedom, item_shares
from torch_ap.inference.label_noise import interval_of_noisy_items
from torch_ap.inference.metric import Sample, comparison_of, interval_of
from torch_ap.inference.prediction_powered import PredictionPoweredInterval, interval_of_judged_items
from torch_ap.inference.record import Comparison, GroupComparison, Interval, group_comparison
from torch_ap.inference.resampling import InferenceSettings, Resampling

if TYPE_CHECKING:
    from torch_ap.core.metric.base import RankingMetric


@dataclass(frozen=True, eq=False)
class ItemSample(Sample):
    """The items of one ranking, or of one ranking per class.

    Attributes:
        settings: settings of the average precision.
        curve: the rankings.
        batch: the items; None for a state of counts.
        all_bins: for a state of counts, returns the rankings with all items as hits, so that all bins are entries.
        design: "iid" if the number of hits is random, "stratified" if it is fixed.
        sampling_weights: whether the weights of the items are reciprocals of their sampling probabilities.
        simultaneous: whether the intervals of classes contain all values at once.
        first_look: number of items at the first of several looks, at all of which the interval holds; None for one.
        value_only: whether the items can have weights for which only the value is defined.
    """

    settings: APSettings
    curve: HitCurve
    batch: Batch | None
    all_bins: Callable[[], HitCurve]
    design: Design = "iid"
    sampling_weights: bool = False
    simultaneous: bool = False
    first_look: int | None = None
    value_only: bool = False

    def __post_init__(self) -> None:
        checks.boolean("sampling_weights", self.sampling_weights)
        if self.settings.num_relevant is not None:
            raise ValueError(
                "`num_relevant` cannot be combined with a chance level, comparison or interval, whose formulas need "
                "scores of all positives"
            )
        if self.sampling_weights:
            if self.batch is None or self.batch.weights is None:
                raise ValueError(
                    "`sampling_weights` requires items with `weights`, and `thresholds` and `bins` must be None"
                )
            self.settings.validate_weights()
            assert self.batch is not None
            assert self.batch.weights is not None
            tensors.SAMPLING_WEIGHTS.check(self.batch.weights)
        elif self._has_weights and not self.value_only:
            raise ValueError(
                "`weights` cannot be combined with a chance level, comparison or interval, whose formulas count items; "
                "only an interval with `sampling_weights` accepts them"
            )

    @property
    def _has_weights(self) -> bool:
        return self.curve.weighted or (self.batch is not None and self.batch.weights is not None)

    @property
    def unit_ids(self) -> Tensor | None:
        """(N,) ``sample_ids`` of the items, or None."""
        return None if self.batch is None else self.batch.sample_ids

    def _select(self, units: Tensor) -> "ItemSample":
        assert self.batch is not None
        return replace(self, batch=self.batch.select(units))

    @property
    def has_chance_level(self) -> bool:
        """Whether E(AP) has a closed form."""
        is_plain = self.settings.prevalence is None and not self._has_weights
        return is_plain and self.settings.convention.has_chance_level

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the interval of each ranking or of the average.

        For bins with distinct scores it is the interval for tied bins, widened by the bounds of the bins.
        """
        if self._is_cut:
            return self._interval_at_k(confidence_level, method, resampling)
        method = interval_method(method, self.settings, self.design, self.batch)
        options = InferenceSettings(
            confidence_level, method, self.design, resampling, self.simultaneous, self.first_look
        )
        settings = self._tied if self.settings.mixed else self.settings
        interval = interval_of_curve(settings, self.curve, self.batch, options)
        if not self.settings.mixed:
            return interval
        bounds = self.settings.bounds(self.curve)
        low = (bounds.low - (interval.estimate - interval.low)).clamp(min=0)
        high = (bounds.high + (interval.high - interval.estimate)).clamp(max=1)
        reason = "; ".join(filter(None, [interval.reason, "widened by the bounds of the bins"]))
        return replace(interval, estimate=bounds.estimate, low=low, high=high, reason=reason)

    @property
    def _is_cut(self) -> bool:
        """Whether the value is AP@k of one ranking."""
        return isinstance(self.settings.convention.top_k, int) and self.settings.inputs.width is None

    def _interval_at_k(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the interval of AP@k of one ranking."""
        items = None
        if self.batch is not None and self.batch.groups is not None:
            scores, relevant, groups = _ranked_items(self.batch)
            assert groups is not None
            items = scores, relevant, groups
        k, denominator = self._validate_cut(method, ("dirichlet" if items is None else "jackknife",))
        level = checks.open_fraction("confidence_level", confidence_level)
        return interval_at_k_of_curve(self.curve, k, denominator, level, resampling, items)

    def _validate_cut(self, method: str | None, methods: Sequence[str], *curves: HitCurve) -> tuple[int, Any]:
        """Return k and the denominator of AP@k, or raise ValueError for what has no interval at k."""
        convention = self.settings.convention
        checks.one_of("method", method, (*methods, None))
        for name, value, only in (
            ("design", self.design, "iid"),
            ("prevalence", self.settings.prevalence, None),
            ("sampling_weights", self.sampling_weights, False),
            ("simultaneous", self.simultaneous, False),
            ("first_look", self.first_look, None),
        ):
            if value is not only and value != only:
                raise ValueError(f"`{name}` must be {only!r} for an interval of AP@k")
        if self.settings.mixed:
            raise ValueError("`bins` must be None for an interval of AP@k, because a bin mixes scores")
        for curve in (self.curve, *curves):
            check_convention(replace(convention, top_k=None), "dirichlet", curve)
        assert isinstance(convention.top_k, int)
        return min(convention.top_k, max(int(self.curve.n), 1)), convention.denominator

    @property
    def _tied(self) -> APSettings:
        """The settings with the items of each bin tied."""
        convention = replace(self.settings.convention, ties="grouped")
        return replace(self.settings, bins=None, convention=convention)

    def interval_of_value(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the interval, with the value of ``compute()`` as its estimate.

        The ends of a ranking whose ties have no interval are NaN, so that a logger does not stop at equal scores. With
        ``value_only``, so are the ends for weights, and for groups at another prevalence.
        """
        settings = self.settings
        if self.value_only and (reason := self._missing_interval):
            level = checks.open_fraction("confidence_level", confidence_level)
            checks.one_of("method", method, (*METHODS, None))
            value = segments.as_float64(settings.value(self.curve, self.dtype))
            nan = torch.full_like(value, torch.nan)
            return Interval(value, nan, nan, nan, level, method or "", reason=reason)
        if settings.mixed:
            return self.interval(confidence_level, method, resampling)
        value = settings.value(self.curve, self.dtype, warn=not is_mean(settings))  # the interval of a mean warns
        tied = segments.total((self.curve.items > 1).to(torch.int64), self.curve.offsets) > 0
        has_interval = settings.convention.ties == "grouped" or not bool(tied.any())
        if has_interval or settings.averages:
            return replace(self.interval(confidence_level, method, resampling), estimate=value)
        if method in BOOTSTRAPS and not bool(tied.all()):  # resamples have copies, which the rule orders
            untied = hit_curve.join([x for x, flag in zip(hit_curve.split(self.curve), tied, strict=True) if not flag])
            interval = replace(self, curve=untied).interval(confidence_level, method, resampling)
            low, high = (segments.as_float64(torch.full_like(value, torch.nan)) for _ in range(2))
            low[~tied], high[~tied] = interval.low, interval.high
        else:
            grouped = replace(settings, convention=replace(settings.convention, ties="grouped"))
            interval = replace(self, settings=grouped).interval(confidence_level, method, resampling)
            low, high = (torch.where(tied.reshape(x.shape), torch.nan, x) for x in (interval.low, interval.high))
        return replace(interval, estimate=value, low=low, high=high)

    @property
    def _missing_interval(self) -> str:
        """The reason why the items have no interval, apart from their scores and targets; "" if they have one."""
        if self._has_weights:
            return "items with `weights` have no interval"
        has_groups = self.batch is not None and self.batch.groups is not None
        return "`groups` with `prevalence` have no interval" if has_groups and self.settings.prevalence else ""

    def chance_level(self, resampling: Resampling) -> Tensor:  # noqa: ARG002 - it has a closed form
        """Return E(AP) of each ranking, averaged like the metric."""
        self._require_sample_prevalence("a chance level")
        groups = None  # for bins with distinct scores, the level of untied scores
        if not self.settings.mixed:
            groups = [self.all_bins()] if self.batch is None else tie_groups(self.settings, self.batch)
        each = chance_of_curve(self.curve, self.settings.convention, groups=groups)
        return self.settings.averaged(each, self.curve, self.dtype, warn=False)

    def compare(
        self, other: "ItemSample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> Comparison:
        """Return the comparison of one ranking or of an average."""
        self._require_sample_prevalence("a comparison")
        mine, theirs = _paired_batches(self.batch, other.batch)
        curves = self.curve, other.curve
        if self._is_cut:
            return self._compare_at_k(_ranked_pair(mine, theirs, curves), confidence_level, method, resampling)
        if self.settings.inputs.width is not None:
            if method is None:
                method = "influence" if mine.groups is None else grouped.DEFAULT
            options = InferenceSettings(confidence_level, method, self.design)
            return compare_averages(self.settings, (mine, theirs), curves, options)
        method = "logit" if method is None else method
        options = InferenceSettings(confidence_level, method, self.design, resampling)
        return compare_pair(_ranked_pair(mine, theirs, curves), self.settings.convention, options)

    def compare_each(
        self, other: "ItemSample", names: Sequence[str], confidence_level: float, resampling: Resampling
    ) -> GroupComparison:
        """Return the comparison of each class or label, with unique names, by the test "logit"."""
        self._require_sample_prevalence("a comparison")
        mine, theirs = _paired_batches(self.batch, other.batch)
        options, comparisons = InferenceSettings(confidence_level, "logit", self.design, resampling), {}
        pairs = zip(hit_curve.split(self.curve), hit_curve.split(other.curve), strict=True)
        for column, (name, curves) in enumerate(zip(names, pairs, strict=True)):
            relevant, rows = influence.select_column(mine.target, column, self.settings.inputs.ignoring)
            scores = mine.scores[:, column][rows], theirs.scores[:, column][rows]
            groups = None if mine.groups is None else mine.groups[rows]
            pair = RankedPair(curves, scores, relevant[rows], groups)
            comparisons[name] = compare_pair(pair, self.settings.convention, options)
        return group_comparison(comparisons, **options.fields)

    def _compare_at_k(
        self, pair: RankedPair, confidence_level: float, method: str | None, resampling: Resampling
    ) -> Comparison:
        """Return the comparison of AP@k of one ranking."""
        k, denominator = self._validate_cut(method, METHODS_AT_K, pair.curves[1])
        level = checks.open_fraction("confidence_level", confidence_level)
        method = method_at_k(method, pair.groups)
        options = TopSettings(k, "average_precision", denominator, level, method, resampling)
        return compare_pair_at_k(pair, options)

    def noisy_interval(
        self, false_positive_rate: float, false_negative_rate: float, confidence_level: float
    ) -> Interval:
        """Return the interval of the AP of the true labels of one ranking."""
        scores, relevant, _ = _ranked_items(self._plain_items("an interval under label noise"))
        return interval_of_noisy_items(scores, relevant, false_positive_rate, false_negative_rate, confidence_level)

    def judged_interval(self, judge: "ItemSample", confidence_level: float) -> PredictionPoweredInterval:
        """Return the interval of the AP of one ranking under human labels."""
        judge = judge.ordered_as(self.unit_ids, "`judge`")
        own, judged = (x._plain_items("a prediction-powered interval") for x in (self, judge))
        if not torch.equal(own.scores, judged.scores):
            raise ValueError("`judge` must have been updated with the same scores in the same order")
        if not bool(counted_items(judged.target).all()):
            raise ValueError("`judge` must have a label of each item, 0 or 1, but it ignores some")
        return interval_of_judged_items(own.scores, own.target, segments.as_float64(judged.target), confidence_level)

    def _plain_items(self, what: str) -> Batch:
        """Return the items of one ranking, or raise ValueError for what has no interval of pseudo-labels."""
        self._require_sample_prevalence(what)
        if self.batch is None:
            raise ValueError(f"`thresholds` and `bins` must be None for {what}, which needs the items")
        if self.batch.groups is not None:
            raise ValueError(f"`groups` cannot be combined with {what}")
        check_comparison(self.settings.convention, "influence", self.curve)
        return self.batch

    def contributions(self, resampling: Resampling) -> Contributions:  # noqa: ARG002 - from the items
        """Return the contributions of the items to the AP of one ranking, or to an average."""
        self._require_sample_prevalence("a selection")
        require_all_items(self.settings.convention.top_k)
        assert self.batch is not None
        single = self.settings.inputs.width is None
        if not single and self.settings.average in ("none", None):
            raise ValueError("`average` must not be 'none' for a selection; select by one class or label at a time")
        check_comparison(self.settings.convention, "influence", self.curve if single else None)
        estimate = self.settings.value(self.curve, torch.float64, warn=False)
        value = float(estimate)
        if self.batch.groups is not None:
            without = grouped.values_without_groups(self.settings, self.curve, self.batch, grouped.DEFAULT)
            values, df = without.values.reshape(-1), float(without.effective) - 1
            note = grouped.few_groups_reason(without.hit_groups, of_best=True)
            found = jackknife_contributions(value, values, df, df + 1 if single else None, note)
            return replace(found, bias=self._bias(estimate, values))
        if single:
            return ranking_contributions(self.curve, *_ranked_items(self.batch)[:2], self.design)
        shares = item_shares(self.settings, self.batch, self.curve, self.design)
        df = float(degrees_of_freedom(self.settings, self.curve, self.design))
        return Contributions(value, shares.to("cpu", torch.float64), df, bias=self._bias(estimate))

    def _bias(self, estimate: Tensor, without_groups: Tensor | None = None) -> float:
        """Return the bias that the interval of a macro or weighted average corrects; 0 for other values.

        Args:
            estimate: the average, 0-d.
            without_groups: (G,) averages without each group; None for independent items.
        """
        if not is_mean(self.settings):
            return 0.0
        if without_groups is not None:
            bias = grouped.jackknife_bias(estimate, without_groups)
        else:
            assert self.batch is not None
            design = self.design if self.settings.inputs.classes else "iid"
            bias = jackknife_of_average(self.settings, self.curve, self.batch, design)[1]
        return float(estimate - without_bias(estimate, bias))

    def units(self) -> dict[str, Tensor]:
        """Return the targets and the groups."""
        if self.batch is None:
            raise ValueError("`thresholds` and `bins` must be None for a selection, which needs the items")
        return {"target": self.batch.target} | ({} if self.batch.groups is None else {"groups": self.batch.groups})

    def _require_sample_prevalence(self, what: str) -> None:
        if self.settings.prevalence is not None:
            raise_invalid("prevalence", f"must be None for {what}", self.settings.prevalence)


def _ranked_items(batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the scores, the relevance and the groups of the items of one ranking that are not ignored."""
    is_counted = counted_items(batch.target)
    groups = None if batch.groups is None else batch.groups[is_counted]
    return batch.scores[is_counted], batch.target[is_counted] == 1, groups


def _ranked_pair(mine: Batch, theirs: Batch, curves: tuple[HitCurve, HitCurve]) -> RankedPair:
    """Return the items of one ranking of each system that are not ignored."""
    (own, relevant, groups), (other, _, _) = map(_ranked_items, (mine, theirs))
    return RankedPair(curves, (own, other), relevant, groups)


def _paired_batches(mine: Batch | None, theirs: Batch | None) -> tuple[Batch, Batch]:
    """Return the items of both metrics, or raise ValueError if they differ."""
    if mine is None or theirs is None:
        raise ValueError("`thresholds` and `bins` must be None for a comparison, which needs the items")
    if not torch.equal(mine.target, theirs.target):
        raise ValueError("`other` must have been updated with the same targets in the same order")
    if not tensors.are_equal(mine.groups, theirs.groups):
        raise ValueError("`other` must have been updated with the same `groups` in the same order")
    return mine, theirs


@renamed_keywords(batch="chunk_size")
def confidence_interval(
    self: Any,
    confidence_level: float = 0.95,
    method: str | None = None,
    *,
    design: Design = "iid",
    sampling_weights: bool = False,
    simultaneous: bool = False,
    first_look: int | None = None,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    """Return a confidence interval of the value: of each ranking, or of the average that the metric computes.

    The estimand is the limit of the value as items are added, not its mean over samples of this size. With ``top_k``,
    one ranking has the interval of :func:`torch_ap.inference.average_precision_at_k_interval`. For the rest see
    :func:`torch_ap.inference.metric.confidence_interval`.

    Args:
        confidence_level, method, n_resamples, generator, chunk_size, progress: as there.
        design: "iid" if items were drawn, so that the number of hits is random; "stratified" if fixed numbers of hits
            and of misses were drawn.
        sampling_weights: whether the ``weights`` of the items are reciprocals of known sampling probabilities, and so
            at least 1, as for
            :func:`torch_ap.inference.average_precision_interval`. Other weights have no interval.
        simultaneous: whether the intervals of classes contain all values at once, as there.
        first_look: number of items when the interval was first computed, if that is repeated while items arrive.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> metric = BinaryAveragePrecision()
        >>> metric.update(torch.arange(10.0, 0, -1), torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1]))
        >>> interval = metric.confidence_interval(0.8)
        >>> round(float(interval.low), 4), round(float(interval.high), 4)
        (0.4682, 0.9369)
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    options: dict[str, Any] = {"design": design, "sampling_weights": sampling_weights}
    options |= {"simultaneous": simultaneous, "first_look": first_look}
    return interval_of(self, confidence_level, method, resampling, **options)


def noisy_interval(
    self: Any, *, false_positive_rate: float = 0.0, false_negative_rate: float = 0.0, confidence_level: float = 0.95
) -> Interval:
    """Return the AP of the true labels, from targets that were flipped with known rates, with its interval.

    The state contains the noisy targets, so ``compute()`` returns another value. See
    :func:`torch_ap.inference.noisy_average_precision_interval` for the formula, the coverage and the limits.

    Args:
        false_positive_rate, false_negative_rate, confidence_level: as there.

    Raises:
        TypeError, ValueError: for invalid rates; for weights, groups, counts per threshold, and conventions other than
            plain AP.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> metric = BinaryAveragePrecision()
        >>> metric.update(torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20))
        >>> found = metric.noisy_interval(false_negative_rate=0.1)
        >>> [round(float(x), 3) for x in (metric.compute(), found.low, found.estimate, found.high)]
        [0.804, 0.41, 0.872, 0.985]
    """
    with self._all_ranks():
        sample: ItemSample = self._sample()
        return sample.noisy_interval(false_positive_rate, false_negative_rate, confidence_level).to(self.device)


@renamed_keywords(batch="chunk_size")
def compare(
    self: Any,
    other: "RankingMetric",
    *,
    confidence_level: float = 0.95,
    method: str | None = None,
    design: Design = "iid",
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Comparison:
    """Compare this system with another on the same items: its value minus the other value.

    The estimand is the difference of the limits of the two values as items are added. With ``top_k``, one ranking is
    compared by :func:`torch_ap.inference.compare_rankings_at_k`, with its methods. For the rest see
    :func:`torch_ap.inference.metric.compare`.

    Args:
        other, confidence_level, method, n_resamples, generator, chunk_size, progress: as there.
        design: as for :meth:`confidence_interval`.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> a, b = BinaryAveragePrecision(), BinaryAveragePrecision()
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 0, 1, 0, 0])
        >>> a.update(torch.arange(10.0, 0, -1), target)
        >>> b.update(torch.tensor([3.0, 9, 8, 2, 7, 6, 5, 4, 1, 0]), target)
        >>> round(float(a.compare(b).difference), 4)
        0.247
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    return comparison_of(self, other, confidence_level, method, resampling, design=design)
