"""What a mean over queries says about its own value: interval, and comparison with another system's.

The queries are the sample. All of it is computed from the state, over all ranks where there are several, so every rank
must call it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from torch_ap.evaluation.queries import GM_FLOOR, MeasureSettings, PerQuery
from torch_ap.inference import rules
from torch_ap.inference.interval import Interval
from torch_ap.inference.queries import QueryComparison, compare_queries
from torch_ap.inference.query_mean import METHODS, Method, mean_interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.query_rankings import Rankings
from torch_ap.metrics.base import RankingMetric
from torch_ap.metrics.representation import check_class, check_settings
from torch_ap.rules import checks


class UncertainQueries(RankingMetric):
    """Abstract: a metric that aggregates a value a query."""

    _settings: MeasureSettings

    def _each(self) -> PerQuery:
        """The value of each query of the state."""
        raise NotImplementedError

    def _ranked(self) -> Rankings:
        """The rankings of the state."""
        raise NotImplementedError

    def _dtype_of_values(self) -> torch.dtype:
        raise NotImplementedError

    @contextmanager
    def _all_ranks(self) -> Iterator[None]:
        """The state of all ranks together."""
        to_sync = self._to_sync and not self._is_synced
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=to_sync, should_unsync=to_sync):
            yield

    def confidence_interval(
        self,
        level: float = 0.95,
        method: Method = "dirichlet",
        *,
        resampling: Resampling | None = None,
    ) -> Interval:
        """How far the mean over queries can be trusted; see :func:`torch_ap.inference.mean_interval`.

        The estimand is the mean over the population of queries that these were drawn from.

        Args:
            level: nominal coverage, in (0, 1).
            method: "dirichlet", which stays inside [0, 1], "t" or "bootstrap-bca"; as there.
            resampling: of the bootstrap; None for 1,000 replicates that repeat.

        Returns:
            :class:`torch_ap.inference.Interval` in the dtype of ``compute()``; NaN, with a reason, for no query and
            where a query's value is NaN.

        Raises:
            TypeError, ValueError: for an ``aggregation`` other than "mean" (for the geometric mean take the logs of
                :meth:`per_query`), and for an argument that breaks one of these rules.

        Example:
            >>> import torch
            >>> from torch_ap.metrics.retrieval import RetrievalMAP
            >>> metric = RetrievalMAP()
            >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]).repeat(4, 1), torch.eye(3).long()[[0, 0, 1, 2]])
            >>> found = metric.confidence_interval()
            >>> found.low, found.high
            (tensor(0.3626), tensor(0.9211))
        """
        self._check_mean("a confidence interval", "mean_interval(..., method='t')")
        rules.level(level)
        checks.one_of("method", method, METHODS)
        rules.resampling(resampling)
        with self._all_ranks():
            values, dtype = self._values_kept()[1], self._dtype_of_values()
        return _interval(values, level, method, resampling).to(dtype, self.device)

    def compare(
        self,
        other: "UncertainQueries",
        *,
        tests: str | Iterable[str] = ("t", "randomization"),
        level: float = 0.95,
        resampling: Resampling | None = None,
    ) -> QueryComparison:
        """Whether this system beats another on the same queries; see :func:`torch_ap.inference.compare_queries`.

        The estimand is the mean difference over the population of queries that these were drawn from.

        Args:
            other: a metric of the same class and settings, with the same queries, to which ``num_relevant`` was given
                alike. Without it each system knows only what it retrieved, and whether both were judged alike is not
                seen.
            tests, level, resampling: as there.

        Returns:
            :class:`torch_ap.inference.QueryComparison` of floats, the ends of the interval within [-1, 1].

        Raises:
            TypeError, ValueError: if the other is not such a metric or has other queries or ``num_relevant``, where no
                query has a value or one's is NaN, for an ``aggregation`` other than "mean" (for the geometric mean take
                the logs of :meth:`per_query`), and for an argument that breaks one of these rules.

        Example:
            >>> import torch
            >>> from torch_ap.metrics.retrieval import RetrievalMAP
            >>> a, b = RetrievalMAP(), RetrievalMAP()
            >>> preds = torch.tensor([[0.9, 0.5, 0.1]]).repeat(4, 1)
            >>> a.update(preds, torch.eye(3).long()[[0, 0, 1, 0]])
            >>> b.update(preds.flip(1), torch.eye(3).long()[[0, 0, 1, 0]])
            >>> round(a.compare(b).difference, 4)
            0.5
        """
        self._check_comparable(other)
        with self._all_ranks(), other._all_ranks():
            mine, theirs = self._values_kept(), other._values_kept()
            _check_judgements(self._ranked(), other._ranked())
        if not torch.equal(mine[0], theirs[0]):
            raise ValueError("`other` must have been updated with the same queries")
        for owner, (queries, values) in (("this metric", mine), ("`other`", theirs)):
            _check_values(owner, queries, values)
        return compare_queries(mine[1], theirs[1], tests=tests, level=level, resampling=resampling, bounds=(0, 1))

    def _values_kept(self) -> tuple[Tensor, Tensor]:
        """Queries that have a part in the aggregate, and their values in float64."""
        each = self._each()
        return each.queries[each.kept], each.values[each.kept]

    def _check_mean(self, what: str, of_logs: str = "") -> None:
        """Refuse another aggregate than the mean; of the geometric one, name the function that takes its logs."""
        found = self._settings.aggregation
        if found == "mean":
            return
        hint = f"; for the log of a geometric mean: `{of_logs}` of `per_query()[1].clamp(min={GM_FLOOR}).log()`"
        raise ValueError(
            f"`aggregation` must be 'mean' for {what}, got {found!r}{hint if of_logs and found == 'gm' else ''}"
        )

    def _check_comparable(self, other: "UncertainQueries") -> None:
        """Refuse a metric that measures something else."""
        check_class(self, other, "other")
        self._check_mean("a comparison", "compare_queries")
        other._check_mean("a comparison", "compare_queries")
        check_settings(self._settings_of_values(), other._settings_of_values())
        self._check_identity(other.first_violation, "other")

    def _settings_of_values(self) -> dict[str, Any]:
        """What the value of a query depends on beside its items."""
        found = self._settings
        shared = {"ignore_index": found.inputs.ignore_index, "relevance_level": found.inputs.relevance_level}
        return {
            **vars(found.measure),
            **shared,
            "empty_target_action": found.empty_target_action,
            "missing_queries": found.missing,
        }


def _check_judgements(mine: Rankings, theirs: Rankings) -> None:
    """Refuse queries for which one system was told of more relevant items than the other counts."""
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


def _interval(values: Tensor, level: float, method: Method, how: Resampling | None) -> Interval:
    """The interval of the mean, where it is defined."""
    if len(values) and not bool(torch.isnan(values).any()):
        return mean_interval(values, level=level, method=method, resampling=how)
    nan = values.new_full((), torch.nan)
    return Interval(
        nan, nan, nan, nan, level, method, reason="a query's value is NaN" if len(values) else "no query has a value"
    )
