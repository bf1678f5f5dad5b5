"""Uncertainty of means over queries: the methods that metrics and evaluations of files share.

A metric has batches in its state (:mod:`torch_ap.retrieval.metrics.state`). :class:`EvaluatedQueries` has the queries
of one call, and requires no torchmetrics, whose import takes two seconds.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.core.base.untraced import disable_tracing_of_methods
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.measure import settings_of
from torch_ap.core.metric.evaluation import Evaluation
from torch_ap.core.metric.state import defaults_of, settings_text, shown_settings
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import metric
from torch_ap.retrieval.inputs import NOT_COUNTED, QueryBatch
from torch_ap.retrieval.measures.gain import NormalizedDCG
from torch_ap.retrieval.metrics import query_sample
from torch_ap.retrieval.metrics.query_sample import QuerySample
from torch_ap.retrieval.rankings import Rankings, rank_queries
from torch_ap.retrieval.settings import MeasureSettings

_METRICS: dict[type[Any], str] = {Convention: "RetrievalMAP", NormalizedDCG: "RetrievalNormalizedDCG"}
_DEFAULTS: dict[str, Any] = {"empty_target_action": "neg", "aggregation": "mean", "relevance_level": None}


@dataclass(frozen=True, eq=False)
class RunScores:
    """Scores of a run in a file, whose evaluation has ranks instead.

    Attributes:
        scores: (N,) scores of the documents.
        queries: (N,) int64, the query of each score.
        order: convention of trec_eval that orders tied documents by name; "" if the measure has the tie rule.
        tied: evaluation of the run with its ties; None if ``order`` is "".
    """

    scores: Tensor
    queries: Tensor
    order: str = ""
    tied: "EvaluatedQueries | None" = None


class QueryAnalyses:
    """Abstract: analyses of a measure of each query; states and evaluations implement the hooks."""

    if TYPE_CHECKING:  # torch.jit evaluates the annotations of every class, and states come later in the order of bases
        _settings: MeasureSettings
        device: Any
        preds: Any  # the scores of all items that count, as flat tensors
        indexes: Any  # the query of each of these items
        compute: Any
        _all_ranks: Any  # returns a context in which the hooks return the queries of all processes
        _ranked: Any  # returns the rankings
        _all_groups: Any  # returns the same rankings with all items as hits, so that each tie group is an entry
        _groups_of_queries: Any  # returns the stored group of each query by query; None without groups
        _row_ids: Any  # returns the (Q,) sample ids of queries that are the numbers of rows; None without ids
        _dtype_of_values: Any  # returns the dtype of the value
        _run_scores: Any  # RunScores of the evaluation of a file, else None

    _run_scores = None

    confidence_interval = query_sample.confidence_interval
    compare = query_sample.compare
    chance_level = metric.chance_level

    def per_query(self) -> tuple[Tensor, Tensor]:
        """Return the queries that count in the aggregate, ascending, and the value of each; of all processes.

        Returns:
            (Q,) int64 ids, row numbers without ``indexes``; and (Q,) values in [0, 1], or (Q, K) if ``top_k`` is a
            list, in the dtype of ``compute()``. NaN only for ``empty_target_action="nan"``, and with several k if a
            query is left out at that k.

        Raises:
            ValueError: see ``compute()``.
        """
        with self._all_ranks():
            sample = self._sample()
        queries, values = sample.values()
        return queries, values.to(sample.dtype)

    def _sample(self, groups: Mapping[int, Hashable] | None = None) -> QuerySample:
        rankings = self._ranked()
        own = self._groups_of_queries() if groups is None else groups
        sample = self._dtype_of_values(), self._settings, rankings, self._all_groups
        return QuerySample(*sample, groups=own, row_ids=self._row_ids())

    def _settings_of_value(self) -> Mapping[str, Any]:
        settings, inputs = self._settings, self._settings.inputs
        return {
            **settings_of(settings.measure),
            "ignore_index": inputs.ignore_index,
            "relevance_level": inputs.relevance_level,
            "empty_target_action": settings.empty_target_action,
            "missing_queries": settings.missing,
        }


class EvaluatedQueries(Evaluation, QueryAnalyses):
    """Queries of one call, ranked once, with values in float64.

    Args:
        settings: settings of the value.
        batch: validated items, flat or in rows.
        run_scores: scores of the file, if the scores of the batch are ranks.
        groups: the group of each query, such as its topic, by query; None for independent queries.
    """

    higher_is_better = True
    chance_test = query_sample.chance_test

    def __init__(
        self,
        settings: MeasureSettings,
        batch: QueryBatch,
        run_scores: RunScores | None = None,
        groups: Mapping[int, Hashable] | None = None,
    ) -> None:
        self._run_scores, self._groups = run_scores, groups
        self._settings, self._batch, self.device = settings, batch, batch.scores.device
        self._rankings = rank_queries(batch)

    def __repr__(self) -> str:
        """Return the repr of a metric with the same settings."""
        measure: Any = self._settings.measure
        kind: Any = type(measure)
        name, shown = _METRICS.get(kind, "QueryMetric"), {"measure": measure}
        if kind in _METRICS:
            shown = shown_settings(defaults_of(kind) | {"ties": "expected"}, vars(measure).__getitem__)
        settings = {**self._settings_of_value(), "aggregation": self._settings.aggregation}
        shown |= shown_settings(_DEFAULTS, settings.__getitem__)
        text = f"{name}({settings_text(shown)})"
        if self._run_scores is None or not self._run_scores.order:
            return text
        return text.replace("ties='grouped'", f"ties={self._run_scores.order!r}")  # names have decided all ties

    def compute(self) -> Tensor:
        """Return the aggregate over all queries, 0-d."""
        return self._settings.value(self._settings.per_query(self._rankings), torch.float64)

    @property
    def preds(self) -> list[Tensor]:
        """The scores of all items that count."""
        return [self._batch.scores[self._is_counted]]

    @property
    def indexes(self) -> list[Tensor]:
        """The query of each item of ``preds``, the row without indexes."""
        indexes, lengths = self._batch.indexes, self._batch.lengths
        if indexes is None and lengths is not None:
            indexes = torch.arange(len(lengths), device=self.device).repeat_interleave(lengths)
        assert indexes is not None
        return [indexes[self._is_counted]]

    @property
    def _is_counted(self) -> Tensor:
        return self._batch.relevance < NOT_COUNTED

    def _ranked(self) -> Rankings:
        return self._rankings

    def _all_groups(self) -> HitCurve:
        return rank_queries(self._batch.with_all_hits()).curve

    def _groups_of_queries(self) -> Mapping[int, Hashable] | None:
        return self._groups

    def _row_ids(self) -> None:
        return None

    def _dtype_of_values(self) -> torch.dtype:
        return torch.float64


disable_tracing_of_methods(QueryAnalyses)
