"""What all metrics over queries do that give one value per query."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from torch_ap.curve.top_k import settings_of
from torch_ap.metrics.query_sample import QuerySample, UncertainQueries
from torch_ap.metrics.query_state import QueryState


class QueryMetric(QueryState, UncertainQueries):
    """Abstract: a measure of each query, and its aggregate; see :class:`torch_ap.metrics.query_state.QueryState`."""

    @property
    def top_k(self) -> Any:
        """K, or a list of several, or None for all items of a query, and for measures that have none."""
        return getattr(self._settings.measure, "top_k", None)

    def compute(self) -> Tensor:
        """The measure of all queries so far, aggregated.

        Returns:
            0-d, or (K,) where ``top_k`` is a list; in [0, 1] unless ``aggregation`` is a function of your own. float32,
            or float64 for float64 scores and after ``set_dtype(torch.float64)``. NaN, with a warning, where no query
            has a part in it; and where one that has is NaN by ``empty_target_action="nan"``.

        Raises:
            ValueError: where "error" is what a missing query or an undefined measure counts as, and one is there; for
                judgements of several updates that contradict one another or the items; for ranks that were not given
                ``indexes`` or ``num_relevant``; and on an accelerator for the first update that broke a rule
                about values.
        """
        return self._settings.value(self._each(), self._dtype_of_values(), warn=self.update_called)

    def per_query(self) -> tuple[Tensor, Tensor]:
        """The queries that have a part in the aggregate, ascending, and the value of each; of all ranks.

        Returns:
            (Q,) int64 ids, row numbers where no indexes were given; and (Q,) values in [0, 1], or (Q, K) where
            ``top_k`` is a list, in the dtype of ``compute()``. NaN only for ``empty_target_action="nan"``,
            and of several k where a query is left out at that k.

        Raises:
            ValueError: as ``compute()``.
        """
        with self._all_ranks():
            sample = self._sample()
        queries, each = sample.values()
        return queries, each.to(sample.dtype)

    def _sample(self) -> QuerySample:  # type: ignore[override]
        rankings = self._ranked()
        return QuerySample(
            self._dtype_of_values(), self._settings, rankings, lambda: self._rankings(all_hits=True).curve
        )

    def _settings_of_value(self) -> Mapping[str, Any]:
        names = ("ignore_index", "relevance_level", "empty_target_action", "missing_queries")
        return {**settings_of(self._settings.measure), **{name: getattr(self, name) for name in names}}
