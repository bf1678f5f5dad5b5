"""Queries as a sample, for means over them: nothing is assumed of what lies inside a query."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from torch_ap.curve import averaging, words
from torch_ap.curve.convention import Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.measures import AtRank, FirstHit, RPrecision
from torch_ap.curve.roc import AUROC
from torch_ap.curve.top_k import AtSeveral
from torch_ap.evaluation.queries import GM_FLOOR, MeasureSettings, PerQuery
from torch_ap.inference.chance_of_rankings import chance_of_auroc, chance_of_curve, chance_of_gain, chance_of_ratio
from torch_ap.inference.interval import Interval
from torch_ap.inference.queries import QueryComparison, compare_queries
from torch_ap.inference.query_mean import METHODS, mean_interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.query_rankings import Rankings
from torch_ap.metrics.uncertainty import Sample, UncertainMetric
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks


def has_chance_level(measure: Any) -> bool:
    """Whether a measure's mean over random orders has a closed form."""
    if isinstance(measure, Convention | AUROC):
        return measure.has_chance_level
    return isinstance(measure, NormalizedDCG | AtRank | RPrecision | FirstHit)


def check_mean(aggregation: Any, what: str, of_logs: str = "") -> None:
    """Refuse another aggregate than the mean; of the geometric one, name the function that takes its logs."""
    if aggregation == "mean":
        return
    hint = f"; for the log of a geometric mean: `{of_logs}` of `per_query()[1].clamp(min={GM_FLOOR}).log()`"
    raise ValueError(
        f"`aggregation` must be 'mean' for {what}, got {aggregation!r}{hint if of_logs and aggregation == 'gm' else ''}"
    )


@dataclass(frozen=True, eq=False)
class QuerySample(Sample):
    """Queries, each of which has a value.

    Attributes:
        settings: of the measure.
        rankings: one per query.
        all_groups: the same rankings with all items as hits, whose entries are all tie groups.
    """

    settings: MeasureSettings
    rankings: Rankings
    all_groups: Callable[[], HitCurve]

    @property
    def has_chance_level(self) -> bool:
        """Whether the measure's mean over random orders has a closed form."""
        measure: Any = self.settings.measure
        parts = measure.parts if isinstance(measure, AtSeveral) else (measure,)
        if self.settings.empty_target_action not in averaging.COUNTS_AS:
            aurocs = [x for x in parts if isinstance(x, AUROC)]
            if any(x.is_sometimes_undefined(self.rankings.curve) for x in aurocs):
                return False
        return has_chance_level(parts[0])

    @property
    def names(self) -> list[str] | None:
        """Each k, where the measure is taken at several."""
        measure: Any = self.settings.measure
        return [str(k) for k in measure.top_k] if isinstance(measure, AtSeveral) else None

    def _at_each(self) -> "list[QuerySample]":
        """The sample of each k."""
        measure: Any = self.settings.measure
        return [replace(self, settings=replace(self.settings, measure=part)) for part in measure.parts]

    def values(self) -> tuple[Tensor, Tensor]:
        """The queries that have a part in the aggregate, and their values in float64."""
        each = self.settings.each(self.rankings)
        return each.queries[each.kept], each.values[each.kept]

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Of the mean over queries; NaN where it is undefined."""
        if self.names:
            parts = [x.interval(confidence_level, method, resampling) for x in self._at_each()]
            ends: dict[str, Any] = {x: torch.stack([getattr(part, x) for part in parts]) for x in Interval._tensors()}
            return replace(parts[0], **ends, reason=next((x.reason for x in parts if x.reason), ""))
        check_mean(self.settings.aggregation, "a confidence interval", "mean_interval(..., method='t')")
        name: Any = method or "dirichlet"
        confidence_level = checks.open_fraction("confidence_level", confidence_level)
        checks.one_of("method", name, METHODS)
        values = self.values()[1]
        if len(values) and not bool(torch.isnan(values).any()):
            return mean_interval(values, confidence_level=confidence_level, method=name, **vars(resampling))
        reason = "a query's value is NaN" if len(values) else "no query has a value"
        nan = values.new_full((), torch.nan)
        return Interval(nan, nan, nan, nan, confidence_level, name, reason=reason)

    def chance_level(self, resampling: Resampling) -> Tensor:
        """The mean over queries of the measure's mean, each query's items in random order."""
        if self.names:
            return torch.stack([x.chance_level(resampling) for x in self._at_each()])
        check_mean(self.settings.aggregation, "a chance level")
        measure, curve = self.settings.measure, self.rankings.curve
        if not isinstance(measure, Convention | AUROC) and not has_chance_level(measure):  # these say which setting
            raise ValueError(f"{words.name_of(measure)} has no closed form of its chance level")
        grouped = getattr(measure, "ties", None) == "grouped"
        groups = self.all_groups() if grouped else None
        if isinstance(measure, NormalizedDCG):
            values = chance_of_gain(curve, measure, groups)
        elif isinstance(measure, Convention):
            values = chance_of_curve(curve, measure, seen=curve.hits_seen, groups=None if groups is None else [groups])
        elif isinstance(measure, AUROC):
            values = chance_of_auroc(curve, measure, averaging.COUNTS_AS.get(self.settings.empty_target_action))
        else:
            values = chance_of_ratio(curve, measure, groups)
        return self.settings.value(self._each_of(values), self.dtype, warn=False)

    def _each_of(self, values: Tensor) -> PerQuery:
        """Other values of the same queries, which count as those of the measure do."""
        return self.settings.each(self.rankings, lambda _: values)

    def compare(
        self, other: "QuerySample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> QueryComparison:
        """Of the means over the same queries."""
        if self.names:
            raise ValueError(f"`top_k` must be one k for a comparison, got {self.settings.measure.top_k}")  # type: ignore[attr-defined]
        for sample in (self, other):
            check_mean(sample.settings.aggregation, "a comparison", "compare_queries")
        _check_judgements(self.rankings, other.rankings)
        mine, theirs = self.values(), other.values()
        if not torch.equal(mine[0], theirs[0]):
            raise ValueError("`other` must have been updated with the same queries")
        for owner, (queries, values) in (("this metric", mine), ("`other`", theirs)):
            _check_values(owner, queries, values)
        how: dict[str, Any] = {"method": method or "t", "confidence_level": confidence_level, **vars(resampling)}
        return compare_queries(mine[1], theirs[1], bounds=(0, 1), **how)


class UncertainQueries(UncertainMetric):
    """Abstract: a metric whose state is a sample of queries."""

    def compare(
        self,
        other: UncertainMetric,
        *,
        confidence_level: float = 0.95,
        method: str | None = None,
        n_resamples: int = 10_000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> QueryComparison:
        """Whether this system is better than another on the same queries: its mean minus the other's.

        The estimand is the mean difference over the population of queries that these were drawn from. For the rest see
        :meth:`UncertainMetric.compare`.

        Args:
            other, confidence_level, method, generator, batch, progress: as there.
            n_resamples: random flips of "randomization", as for :func:`torch_ap.inference.compare_queries`.

        Returns:
            :class:`torch_ap.inference.QueryComparison` on the metric's device, the ends of the interval within [-1, 1].

        Raises:
            TypeError, ValueError: as there, and where no query has a value or one's is NaN.

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
        resampling = Resampling(n_resamples, generator, batch, progress)
        found = self._comparison(other, confidence_level, method, resampling)
        assert isinstance(found, QueryComparison)
        return found


def _check_judgements(mine: Rankings, theirs: Rankings) -> None:
    """Refuse queries for which one system was given more relevant items than the other counts."""
    here, there = (torch.argsort(x.queries) for x in (mine, theirs))
    queries, others = mine.queries[here], theirs.queries[there]
    at = torch.searchsorted(others, queries).clamp(max=max(len(others) - 1, 0))
    both = (others[at] == queries).nonzero().squeeze(1) if len(others) else at[:0]
    one, other = here[both], there[at[both]]
    unlike = (mine.judged[one] | theirs.judged[other]) & (mine.curve.m[one] != theirs.curve.m[other])
    if bool(unlike.any()):
        place = int(unlike.nonzero()[0])
        found, wanted = int(theirs.curve.m[other[place]]), int(mine.curve.m[one[place]])
        raise ValueError(
            f"`other` must have been given the same `num_relevant`; query {int(mine.queries[one[place]])} has {wanted} "
            f"relevant items here, {found} there"
        )


def _check_values(owner: str, queries: Tensor, values: Tensor) -> None:
    """A value of one query at least, and none that is NaN."""
    if not len(values):
        raise ValueError(
            f"a comparison needs a query that has a value, and {owner} has none: `update` it first; queries that "
            "`empty_target_action` or `missing_queries` leaves out do not count"
        )
    undefined = torch.isnan(values)
    if bool(undefined.any()):
        raise ValueError(
            f"a comparison needs values that are numbers, and {owner} has NaN for query {int(queries[undefined][0])}: "
            "`empty_target_action` says what a query counts whose measure is undefined"
        )
