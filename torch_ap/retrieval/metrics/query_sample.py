"""Queries as a sample, for inference on means over queries. Items inside a query may depend on each other."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import short_repr
from torch_ap.core.base.options import allowed_values
from torch_ap.core.measures import averaging
from torch_ap.core.measures.measure import AtSeveral, Measure
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference.chance import ChanceTest
from torch_ap.inference.contributions import Contributions, query_contributions
from torch_ap.inference.groups import Groups, ids_of_groups
from torch_ap.inference.metric import Sample, comparison_of, interval_of
from torch_ap.inference.prediction_powered import PredictionPoweredInterval, prediction_powered_mean_interval
from torch_ap.inference.queries import QUERY_METHODS, QueryComparison, bounded_mean_interval, compare_per_query
from torch_ap.inference.query_chance import QueryChanceMethod, RandomLabels, check_convention
from torch_ap.inference.record import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.retrieval.rankings import Rankings
from torch_ap.retrieval.settings import GM_FLOOR, MeasureSettings, PerQuery

if TYPE_CHECKING:
    from torch_ap.core.metric.base import RankingMetric


def check_mean(aggregation: Any, what: str, log_function: str = "") -> None:
    """Raise ValueError for another aggregate than the mean; for "gm", name the function for logs."""
    if aggregation == "mean":
        return
    hint = f"; for the log of a geometric mean: `{log_function}` of `per_query()[1].clamp(min={GM_FLOOR}).log()`"
    end = hint if log_function and aggregation == "gm" else ""
    raise ValueError(f"`aggregation` must be 'mean' for {what}, got {aggregation!r}{end}")


@dataclass(frozen=True, eq=False)
class QuerySample(Sample):
    """Queries with a value each.

    Attributes:
        settings: settings of the measure.
        rankings: one per query.
        all_groups: returns the same rankings with all items as hits, so that each tie group is an entry.
        groups: the group of each query, such as its topic, by query; None for independent queries.
        row_ids: (Q,) different int64 ids of queries that are the numbers of rows; None without ids.
    """

    settings: MeasureSettings
    rankings: Rankings
    all_groups: Callable[[], HitCurve]
    groups: Mapping[int, Hashable] | None = field(default=None, kw_only=True)
    row_ids: Tensor | None = field(default=None, kw_only=True)

    @property
    def unit_ids(self) -> Tensor | None:
        """(Q,) ids of rows; None for queries with ``indexes``, which are paired by them."""
        return self.row_ids

    def _select(self, units: Tensor) -> "QuerySample":
        """Return the sample with other numbers of its rows."""
        assert self.row_ids is not None
        number = units.argsort()
        groups = self.groups and {int(number[query]): group for query, group in self.groups.items()}
        rankings = self.rankings._replace(queries=number[self.rankings.queries])
        return replace(self, rankings=rankings, groups=groups, row_ids=self.row_ids[units])

    @property
    def _measure(self) -> Any:
        return self.settings.measure

    @property
    def has_chance_level(self) -> bool:
        """Whether the measure's mean over random orders has a closed form."""
        parts = self._measure.parts if isinstance(self._measure, AtSeveral) else (self._measure,)
        curve, undefined = self.rankings.curve, self._undefined
        return all(isinstance(x, Measure) and x.can_have_chance_level(curve, undefined) for x in parts)

    @property
    def _undefined(self) -> float | None:
        """Value of a query whose measure is undefined; None if it does not count."""
        return averaging.COUNTS_AS.get(self.settings.empty_target_action)

    @property
    def names(self) -> list[str] | None:
        """Each k, if the measure has several."""
        return [str(k) for k in self._measure.top_k] if isinstance(self._measure, AtSeveral) else None

    def _samples_per_rank(self) -> "list[QuerySample]":
        """Return the sample of each k."""
        return [replace(self, settings=replace(self.settings, measure=part)) for part in self._measure.parts]

    def values(self) -> tuple[Tensor, Tensor]:
        """Return the queries that count in the aggregate, and their values in float64."""
        result = self.settings.per_query(self.rankings)
        return result.queries[result.counted], result.values[result.counted]

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the interval of the mean over queries; NaN if it is undefined."""
        if self.names:
            parts = [x.interval(confidence_level, method, resampling) for x in self._samples_per_rank()]
            ends: dict[str, Any] = {x: torch.stack([getattr(part, x) for part in parts]) for x in Interval._tensors()}
            return replace(parts[0], **ends, reason=next((x.reason for x in parts if x.reason), ""))
        check_mean(self.settings.aggregation, "a confidence interval", "mean_interval(..., method='t')")
        name: Any = ("dirichlet" if self.groups is None else "t") if method is None else method
        confidence_level = checks.open_fraction("confidence_level", confidence_level)
        checks.one_of("method", name, QUERY_METHODS)
        queries, values = self.values()
        if len(values) and not bool(torch.isnan(values).any()):
            how = {"groups": self._ids_of_groups(queries), **vars(resampling)}
            return bounded_mean_interval(
                values, self._upper_bound, confidence_level=confidence_level, method=name, **how
            )
        reason = "a query's value is NaN" if len(values) else "no query has a value"
        nan = values.new_full((), torch.nan)
        return Interval(nan, nan, nan, nan, confidence_level, name, reason=reason)

    @property
    def _upper_bound(self) -> float:
        """The largest possible value for rankings of at most as many items as the longest one."""
        curve = self.rankings.curve
        counts_as_1 = self._undefined == 1 and bool((curve.m == 0).any())
        if not isinstance(self._measure, Measure) or not self._measure.has_depth_bound or counts_as_1:
            return 1.0
        return self._measure.upper_bound(max(int(curve.n.max()), 1))

    def _ids_of_groups(self, queries: Tensor) -> Tensor | None:
        """Return the number of each query's group, (Q,) int64; None for independent queries."""
        return None if self.groups is None else ids_of_groups(queries.tolist(), self.groups, "query").to(queries.device)

    def chance_level(self, resampling: Resampling) -> Tensor:
        """Return the mean over queries of the expected measure for items in random order."""
        if self.names:
            return torch.stack([x.chance_level(resampling) for x in self._samples_per_rank()])
        check_mean(self.settings.aggregation, "a chance level")
        if not isinstance(self._measure, Measure):
            raise ValueError(f"a chance level requires a measure that defines it, got {short_repr(self._measure)}")
        curve, groups = self.rankings.curve, None
        if self._measure.rule.is_threshold:
            groups = self.all_groups()
            groups = replace(groups, m=curve.m[: len(groups.m)])  # `top_k="relevant"` is the number of relevant items
        values = self._measure.chance_level(curve, groups=groups, undefined=self._undefined)
        return self.settings.value(self._per_query(values), self.dtype, warn=False)

    def chance_test(self, method: QueryChanceMethod, resampling: Resampling) -> ChanceTest:
        """Return the test of the mean of AP against random orders of each query's labels."""
        if self.names:
            raise ValueError(f"`top_k` must be one k for a test against chance, got {self._measure.top_k}")
        check_mean(self.settings.aggregation, "a test against chance")
        check_convention(self._measure)
        curve = self.rankings.curve
        is_random = (curve.n > 0) & (curve.m > 0)
        fixed = self._per_query(torch.where(is_random, 0, self._measure(curve)))
        count = int(fixed.counted.sum())
        weights = segments.as_float64(is_random) / max(count, 1)
        constant = float(fixed.values[fixed.counted].sum()) / max(count, 1)
        group = self._ids_of_groups(fixed.queries[fixed.counted])
        if group is not None:
            place = torch.argsort(self.rankings.queries)[fixed.counted]
            group = torch.full_like(curve.m, -1).index_copy_(0, place, group)
        labels = RandomLabels(curve, self.all_groups(), curve.hits_seen, self._measure, weights, constant, group)
        return labels.test(method, resampling)

    def _per_query(self, values: Tensor) -> PerQuery:
        """Return other values of the same queries, with the same rule for undefined values."""
        return self.settings.per_query(self.rankings, lambda _: values)

    def compare(
        self, other: "QuerySample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> QueryComparison:
        """Return the comparison of the means over the same queries."""
        for sample in (self, other):
            sample._check_comparable("compare_per_query")
        _check_judgements(self.rankings, other.rankings)
        own_values, other_values = self.values(), other.values()
        if not torch.equal(own_values[0], other_values[0]):
            raise ValueError("`other` must have been updated with the same queries")
        for owner, (queries, values) in (("this metric", own_values), ("`other`", other_values)):
            _check_values(owner, queries, values)
        how: dict[str, Any] = {
            "method": "t" if method is None else method,
            "confidence_level": confidence_level,
            **vars(resampling),
        }
        how["groups"] = self._ids_of_groups(own_values[0])
        if not tensors.are_equal(how["groups"], other._ids_of_groups(own_values[0])):
            raise ValueError("`other` must have been updated with the same `groups`")
        return compare_per_query(own_values[1], other_values[1], bounds=(0, 1), **how)

    def _check_comparable(self, log_function: str) -> None:
        """Raise ValueError for several k, and for another aggregate than the mean."""
        if self.names:
            raise ValueError(f"`top_k` must be one k for a comparison, got {self._measure.top_k}")
        check_mean(self.settings.aggregation, "a comparison", log_function)

    def judged_interval(self, judge: "QuerySample", confidence_level: float) -> PredictionPoweredInterval:
        """Return the interval of the mean under human labels, which some of the judge's queries have."""
        columns = []
        for sample in (self, judge):
            sample._check_comparable("prediction_powered_mean_interval")
            result = sample.settings.per_query(sample.rankings)
            if not bool(result.counted.all()):
                raise ValueError("`empty_target_action` must not leave out queries for a prediction-powered interval")
            if sample.groups is not None:
                raise ValueError("`groups` cannot be combined with a prediction-powered interval")
            columns.append((result.queries, result.values))
        (own, values), (queries, judged) = columns
        order = torch.argsort(queries)
        place = torch.searchsorted(queries[order], own)
        if not len(queries) or not torch.equal(queries[order][place.clamp(max=len(queries) - 1)], own):
            raise ValueError("`judge` must have been updated with all queries of this metric")
        human = torch.full_like(judged, torch.nan)
        human[order[place]] = values
        return prediction_powered_mean_interval(human, judged, confidence_level=confidence_level)

    def contributions(self, resampling: Resampling) -> Contributions:  # noqa: ARG002 - from the values
        """Return the contributions of the queries to the mean."""
        self._check_comparable("best_of_per_query")
        queries, values = self.values()
        _check_values("a metric", queries, values)
        ids = self._ids_of_groups(queries)
        return query_contributions(values, (0, 1), None if ids is None else Groups.from_ids(ids.cpu()))

    def units(self) -> dict[str, Tensor]:
        """Return the queries with a value, and the numbers of relevant items of all judged queries."""
        rankings = self.rankings
        relevant = rankings.curve.m.where(rankings.judged, -1)[torch.argsort(rankings.queries)]
        queries = self.values()[0]
        groups = self._ids_of_groups(queries)
        return {"indexes": queries, "num_relevant": relevant} | ({} if groups is None else {"groups": groups})


@renamed_keywords(batch="chunk_size")
def confidence_interval(
    self: Any,
    confidence_level: float = 0.95,
    method: str | None = None,
    *,
    groups: Mapping[int, Hashable] | None = None,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    """Return a confidence interval of the mean over queries.

    The estimand is the mean over the population of queries. For the rest see
    :func:`torch_ap.inference.metric.confidence_interval`.

    Args:
        confidence_level, method, n_resamples, generator, chunk_size, progress: as there.
        groups: the group of each query, such as its topic or user, by query: the ids of ``indexes``, or the numbers of
            rows. Queries of a group may depend on each other, see :func:`torch_ap.inference.mean_interval`. None for
            the ``groups`` of ``update``, or for independent queries without them.

    Example:
        >>> import torch
        >>> from torch_ap import RetrievalMAP
        >>> metric = RetrievalMAP()
        >>> targets = torch.eye(3).long()[torch.arange(24) % 5 % 3]
        >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]).repeat(24, 1), targets)
        >>> interval = metric.confidence_interval(groups={query: query // 2 for query in range(24)})
        >>> round(float(interval.low), 4), round(float(interval.high), 4)
        (0.5896, 0.7478)
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    return interval_of(self, confidence_level, method, resampling, groups=groups)


@renamed_keywords(batch="chunk_size")
def compare(
    self: Any,
    other: "RankingMetric",
    *,
    confidence_level: float = 0.95,
    method: str | None = None,
    groups: Mapping[int, Hashable] | None = None,
    n_resamples: int = 10_000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> QueryComparison:
    """Compare this system with another on the same queries: its mean minus the other mean.

    The estimand is the mean difference over the population of queries. For the rest see
    :func:`torch_ap.inference.metric.compare`.

    Args:
        other, confidence_level, method, generator, chunk_size, progress: see :func:`torch_ap.inference.metric.compare`.
        groups: the group of each query, such as its topic or user, by query; see ``confidence_interval``.
        n_resamples: random flips of "randomization", as for :func:`torch_ap.inference.compare_per_query`.

    Returns:
        :class:`torch_ap.inference.QueryComparison` on the metric's device, the ends of the interval within [-1, 1].

    Raises:
        TypeError, ValueError: for invalid arguments or different settings; if no query has a value, or the value of
            a query is NaN.

    Example:
        >>> import torch
        >>> from torch_ap import RetrievalMAP
        >>> a, b = RetrievalMAP(), RetrievalMAP()
        >>> preds = torch.tensor([[0.9, 0.5, 0.1]]).repeat(4, 1)
        >>> a.update(preds, torch.eye(3).long()[[0, 0, 1, 0]])
        >>> b.update(preds.flip(1), torch.eye(3).long()[[0, 0, 1, 0]])
        >>> round(float(a.compare(b).difference), 4)
        0.5
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    comparison = comparison_of(self, other, confidence_level, method, resampling, groups=groups)
    assert isinstance(comparison, QueryComparison)
    return comparison


@renamed_keywords(batch="chunk_size")
def chance_test(
    self: Any,
    *,
    method: QueryChanceMethod = "auto",
    groups: Mapping[int, Hashable] | None = None,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> ChanceTest:
    """Test whether the mean is better than the mean for random orders of each query's retrieved items.

    Items that were not retrieved, and missing queries, count as in ``compute()``.

    Args:
        method, n_resamples, generator, chunk_size, progress: as for
            :func:`torch_ap.inference.chance_test_of_queries`, with the meaning of the p-value.
        groups: the group of each query, such as its topic or user, by query; see ``confidence_interval``. The
            default method is then "t".

    Returns:
        :class:`torch_ap.inference.ChanceTest` on the metric's device; NaN, with a reason, if no query has a
        retrieved relevant item, or a value is NaN.

    Raises:
        TypeError, ValueError: for an ``aggregation`` other than "mean", several k, interpolated AP,
            ``denominator="found"`` with ``top_k``, or ties other than "expected" and "grouped".

    Example:
        >>> import torch
        >>> from torch_ap import RetrievalMAP
        >>> metric = RetrievalMAP(top_k=3)
        >>> metric.update(torch.arange(6, 0, -1.0).repeat(8, 1), torch.eye(6).long()[[0, 0, 1, 0, 2, 0, 0, 1]])
        >>> found = metric.chance_test()
        >>> round(float(found.estimate), 3), round(float(found.chance_level), 3), round(float(found.p_value), 3)
        (0.792, 0.306, 0.001)
    """
    checks.one_of("method", method, allowed_values(QueryChanceMethod))
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    with self._all_ranks():
        sample: QuerySample = self._sample(groups=groups)
        return sample.chance_test(method, resampling).to(self.device)


def _check_judgements(own: Rankings, other: Rankings) -> None:
    """Raise ValueError for queries with different numbers of relevant items in the two systems."""
    own_order, other_order = (torch.argsort(x.queries) for x in (own, other))
    queries, other_queries = own.queries[own_order], other.queries[other_order]
    index = torch.searchsorted(other_queries, queries).clamp(max=max(len(other_queries) - 1, 0))
    common = (other_queries[index] == queries).nonzero().squeeze(1) if len(other_queries) else index[:0]
    rows, other_rows = own_order[common], other_order[index[common]]
    own_m, other_m = own.curve.m[rows], other.curve.m[other_rows]
    differ = (own.judged[rows] | other.judged[other_rows]) & (own_m != other_m)
    if bool(differ.any()):
        first = int(differ.nonzero()[0])
        raise ValueError(
            f"`other` must have the same `num_relevant`; query {int(own.queries[rows[first]])} has {int(own_m[first])} "
            f"relevant items in this metric, {int(other_m[first])} in `other`"
        )


def _check_values(owner: str, queries: Tensor, values: Tensor) -> None:
    """Raise ValueError without values, or if one is NaN."""
    if not len(values):
        raise ValueError(
            f"a comparison requires a query with a value, and {owner} has none: call `update` first; queries that "
            "`empty_target_action` or `missing_queries` leaves out do not count"
        )
    undefined = torch.isnan(values)
    if bool(undefined.any()):
        raise ValueError(
            f"a comparison requires values that are numbers, and {owner} has NaN for query "
            f"{int(queries[undefined][0])}: `empty_target_action` sets the value of a query whose measure is undefined"
        )
