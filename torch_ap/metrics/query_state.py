"""How batches enter the state that all metrics over queries share, and how it is ranked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.top_k import settings_of
from torch_ap.evaluation.queries import MeasureSettings, PerQuery
from torch_ap.exchange import queries as exchanged
from torch_ap.exchange.ranks import Ranks
from torch_ap.inputs import samples
from torch_ap.inputs.queries import QueryBatch, QueryInputs, judgements_by_query, without_copies
from torch_ap.inputs.query_rankings import Rankings, check_batch, rankings_of
from torch_ap.inputs.samples import SampleIds
from torch_ap.metrics import representation
from torch_ap.metrics.query_columns import COLUMNS, GRADES, ROWS, QueryColumns
from torch_ap.metrics.representation import setting
from torch_ap.metrics.states import listed
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import tensors, values
from torch_ap.rules.options import MissingQueries
from torch_ap.runtime import memory
from torch_ap.runtime.cached import memoize


class QueryState(QueryColumns):
    """Abstract: how batches of items enter the columns, and what is computed of them.

    The state is what was given: scores in their dtype, a byte per item for relevance, the indexes, and for a measure of
    grades those in float64. Metrics of the same ``ignore_index`` and ``relevance_level``, all with grades or all
    without, share it in a ``MetricCollection``, and sort it once between them.
    A checkpoint of torchmetrics' class (states ``indexes``, ``preds``, ``target``) loads too.
    The aggregate is NaN, with a warning, where no query has a part in it (torchmetrics says 0 where all are skipped).

    Args:
        measure: a curve in, one value per ranking out, NaN where it is undefined. With an attribute ``graded`` that is
            true, of curves with grades.
        empty_target_action: what a query counts as whose measure is undefined: "neg" 0, "pos" 1, "skip" left out,
            "nan", "error".
        ignore_index: target value of items that do not count.
        aggregation: over queries: "mean", "median", "min", "max", "gm" for the geometric mean of values raised to
            0.00001 at least (trec_eval's ``gm_map``), or a function of their values.
        relevance_level: an item is relevant where its target is at least this. None, the default, is 1, and a target
            that is not a grade (negative, or a fraction) is then an error instead of not relevant.
        missing_queries: what a query counts as that was judged and has no items: "neg" 0, "skip" left out, "error".
            Where its m of 0 leaves the measure undefined, "neg" leaves it to ``empty_target_action``.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.
    """

    def __init__(
        self,
        measure: Callable[[HitCurve], Tensor],
        empty_target_action: str,
        ignore_index: int | None,
        aggregation: str | Callable[..., Any],
        *,
        relevance_level: float | None = None,
        missing_queries: MissingQueries = "neg",
        **kwargs: Any,
    ) -> None:
        graded: bool = getattr(measure, "graded", False)
        inputs = QueryInputs(ignore_index, relevance_level, graded=graded)
        level = relevance_level
        if level is not None:
            level = int(level) if level == int(level) else level  # 1 and 1.0 are one level, 2^53 and 2^53 + 1 are two
        super().__init__(f"queries|{ignore_index}|{level}{'|grades' if graded else ''}", **kwargs)
        self._settings = MeasureSettings(measure, inputs, empty_target_action, missing_queries, aggregation)
        self._add_states(*COLUMNS, *([GRADES] if graded else []))
        if graded:
            self.value_rules = values.GAIN_VALUE_RULES

    empty_target_action = setting("_settings.empty_target_action", "What a query counts as whose measure is undefined.")
    ignore_index = setting("_settings.inputs.ignore_index", "Target value of items that do not count.")
    relevance_level = setting("_settings.inputs.relevance_level", "The lowest target that is relevant; None for 1.")
    missing_queries = setting("_settings.missing", "What a query counts as that was judged and has no items.")
    aggregation = setting("_settings.aggregation", "How the values of queries become one.")

    def _settings_text(self) -> str:
        measure, usual = settings_of(self._settings.measure), self._usual()
        return representation.settings_text(
            usual, lambda name: measure[name] if name in measure else getattr(self, name, usual[name])
        )

    def _usual(self) -> dict[str, Any]:
        """What the settings are where they are not given."""
        shared = ("relevance_level", "missing_queries")
        every = representation.defaults_of(QueryState)
        return representation.defaults_of(type(self)) | {name: every[name] for name in shared}

    def update(
        self,
        preds: Tensor | None = None,
        target: Tensor | None = None,
        indexes: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        num_relevant: Tensor | dict[int, int] | None = None,
        sample_ids: SampleIds = None,
    ) -> None:
        """Add a batch: items with the query of each, or one query per row. A query's items may come in many batches.

        Args:
            preds: floating or integer scores, no NaN; int64 and floats, which no dtype holds both, do not
                mix. Any shape with ``indexes``, (Q, D) without.
            target: of the shape of ``preds``; integers, bool or floats.
            indexes: integers of the shape of ``preds``, but not uint64, of any value and in any order. Without them
                each row is a query of its own, and rows are numbered in the order they come. In every update or in
                none.
            mask: bool, of the shape of ``preds``: which items there are. A query all of whose items are masked counts
                as if it had never come, except for its place among rows.
            num_relevant: m of each query, how many items are relevant to it, those never retrieved included: with
                ``indexes`` a dict {query: m} or integers of the shape of ``preds``; (Q,) integers for rows, in every
                update or in none. At least the relevant items that are ranked, and the same wherever it is given. A
                dict may come alone, and may name queries without items.
            sample_ids: integers, of the shape of ``preds`` with ``indexes``, (Q,) for rows, a list if flat; in every
                update that has items or in none. An id counts once, over all updates and ranks, so that a sampler may
                pad: of several copies of an item, or of a row, the first counts, in the order of ranks, then of
                updates, whatever the scores of the others; their targets, of rows their length, must be the same.

        Raises:
            TypeError, ValueError: for input that breaks a rule; the state is then as it was. What can be seen only in
                the values is raised by ``compute`` when the tensors lie on an accelerator. So is, on any device, what
                only many batches together show: a query judged twice with different m, or with fewer than were ranked.
        """
        self._add(preds, target, indexes, mask, num_relevant, sample_ids)

    def _add(
        self,
        preds: Tensor | None,
        target: Tensor | None,
        indexes: Tensor | None,
        mask: Tensor | None,
        num_relevant: Tensor | dict[int, int] | None,
        sample_ids: SampleIds,
        retrieved: Tensor | None = None,
    ) -> None:
        if preds is None and target is None and isinstance(num_relevant, dict):
            batch = self._judgements_alone(num_relevant)
        else:
            given: Any = (preds, target, indexes, mask, num_relevant, retrieved)
            batch = self._settings.inputs.validate(*given)
        if batch.judged_counts is not None:
            check_batch(batch)
        if batch.scores.device != self._device:
            self._check_device(batch.scores, "preds")
        items = batch.indexes is not None or batch.lengths is not None  # or judgements alone
        ids = None
        if sample_ids is not None:
            what, shape = ("item", preds.shape) if batch.lengths is None else ("row", batch.lengths.shape)  # type: ignore[union-attr]
            ids = samples.checked(sample_ids, shape, batch.scores.device, what)
        columns = (batch.scores, batch.relevance) if items else (None, None)
        grades = (batch.grades,) if GRADES in self._lists else ()
        self._hold((*columns, *batch[2:6], ids, *grades))
        if batch.broken is not None:
            self._note(batch.broken)

    def _ranked(self) -> Rankings:
        """The rankings of the state, built once for all who share it."""
        self._raise_noted()
        tensors = [x for name in self._list_states() for x in listed(getattr(self, name))]
        return memoize(self._rankings, rankings_of, tensors)

    def _rankings(self, *, all_hits: bool = False) -> Rankings:
        """The whole state as one curve with one ranking per query; with ``all_hits`` every tie group is an entry."""
        whole = {name: memory.joined(x) for name in self._list_states() if (x := listed(getattr(self, name)))}
        batch, ids = self._batch_of(whole)
        if all_hits:
            relevance = batch.relevance.clamp(min=1)
            batch = batch._replace(relevance=relevance, judged_queries=None, judged_counts=None, grades=None)
        with _lasting():
            return rankings_of(batch if ids is None else without_copies(batch, ids))

    @property
    def _can_exchange(self) -> bool:
        return True

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> tuple[Ranks, Rankings, torch.dtype]:
        """The rankings of this rank's share, and the dtype of all scores."""
        batch, ids = self._batch_of(held)
        with _lasting():
            return ranks, exchanged.share_of(ranks, batch, ids), batch.scores.dtype

    def _each(self) -> PerQuery:
        """The value of each query, of all ranks."""
        if self._exchanged is None:
            return self._settings.each(self._ranked())
        self._raise_noted()
        ranks, rankings, _ = self._exchanged
        return exchanged.of_all(ranks, self._settings.each, rankings)

    def _dtype_of_values(self) -> torch.dtype:
        if self._exchanged is not None:
            return self._dtype_of_result(self._exchanged[2])
        scores = listed(self.query_scores)
        dtypes = {x.dtype for x in scores if x.shape[0]} or {x.dtype for x in scores} or {torch.float32}
        return self._dtype_of_result(tensors.common_dtype("preds", dtypes))

    def _judgements_alone(self, num_relevant: dict[int, int]) -> QueryBatch:
        if self._accumulated()[ROWS]:
            raise ValueError("`num_relevant` as a dict needs `indexes`, which name the queries; for rows give a tensor")
        queries, counts = judgements_by_query(num_relevant, self.device)
        empty = torch.empty(0, dtype=torch.int64, device=self.device)
        return QueryBatch(empty, empty, judged_queries=queries, judged_counts=counts)


@contextmanager
def _lasting() -> Iterator[None]:
    """Say of an error that no other batch will mend it: each agrees with itself, and together they do not."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}. Call `reset()` before the metric is used on") from None
