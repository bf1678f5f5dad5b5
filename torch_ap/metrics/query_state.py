"""The state that all metrics over queries share."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.top_k import settings_of
from torch_ap.evaluation.queries import MeasureSettings, PerQuery
from torch_ap.exchange import queries as exchanged
from torch_ap.exchange.ranks import Ranks
from torch_ap.inputs import samples
from torch_ap.inputs.queries import NOT_COUNTED, QueryBatch, QueryInputs, judgements_by_query, without_copies
from torch_ap.inputs.query_rankings import Rankings, check_batch, rankings_of
from torch_ap.metrics import representation
from torch_ap.metrics.base import RankingMetric
from torch_ap.metrics.representation import setting
from torch_ap.metrics.states import Form
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import tensors, values
from torch_ap.rules.options import MissingQueries
from torch_ap.runtime import memory
from torch_ap.runtime.cached import memoize

_FLAT, _ROWS, _GRADES = "query_indexes", "row_lengths", "query_grades"


class QueryState(RankingMetric):
    """Abstract: scores, relevance and the query of each item, or the length of each row.

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

    peer_states = peer_arguments = ("preds", "target", "indexes")

    settings_of_update = "`ignore_index`, `relevance_level`"

    query_scores: list[Tensor]
    query_relevance: list[Tensor]
    query_indexes: list[Tensor]
    row_lengths: list[Tensor]
    judged_queries: list[Tensor]
    judged_counts: list[Tensor]
    query_grades: list[Tensor]

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
        shared = ("query_scores", "query_relevance", _FLAT, _ROWS, "judged_queries", "judged_counts", samples.STATE)
        for name in (*shared, *([_GRADES] if graded else [])):
            self.add_state(name, [], dist_reduce_fx="cat")
        if graded:
            self.value_rules = values.GAIN_VALUE_RULES

    empty_target_action = setting("_settings.empty_target_action", "What a query counts as whose measure is undefined.")
    ignore_index = setting("_settings.inputs.ignore_index", "Target value of items that do not count.")
    relevance_level = setting("_settings.inputs.relevance_level", "The lowest target that is relevant; None for 1.")
    missing_queries = setting("_settings.missing", "What a query counts as that was judged and has no items.")
    aggregation = setting("_settings.aggregation", "How the values of queries become one.")

    @property
    def preds(self) -> list[Tensor]:
        """The scores of all items that count, flat tensors in the order they came."""
        return [x[kept] for x, kept in zip(_listed(self.query_scores), self._counted, strict=True)]

    @property
    def target(self) -> list[Tensor]:
        """Whether each item of ``preds`` is relevant, int64 of 0 and 1; of nDCG its grade, float64, 0 for no gain."""
        relevant = [x[kept].long() for x, kept in zip(_listed(self.query_relevance), self._counted, strict=True)]
        if _GRADES not in self._lists:
            return relevant
        graded = (x[kept] for x, kept in zip(_listed(self.query_grades), self._counted, strict=True))
        return [torch.where(y > 0, x, 0) for x, y in zip(graded, relevant, strict=True)]

    @property
    def indexes(self) -> list[Tensor]:
        """The query of each item of ``preds``: int64; the row, where rows were given."""
        given = _listed(self.query_indexes)
        if len(self.row_lengths):
            lengths = memory.joined(_listed(self.row_lengths))
            sizes = [len(x) for x in _listed(self.query_scores)]
            given = list(
                torch.split(torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths), sizes)
            )
        return [x[kept] for x, kept in zip(given, self._counted, strict=True)]

    @property
    def _counted(self) -> list[Tensor]:
        return [x < NOT_COUNTED for x in _listed(self.query_relevance)]

    def extra_repr(self) -> str:
        """What differs from the defaults, for ``repr``."""
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
        sample_ids: Tensor | None = None,
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
            sample_ids: integers, of the shape of ``preds`` with ``indexes``, (Q,) for rows; in every update that has
                items or in none. An id counts once, over all updates and ranks, so that a sampler may pad: of several
                copies of an item, or of a row, the first counts, in the order of ranks, then of updates, whatever the
                scores of the others; their targets, of rows their length, must be the same.

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
        sample_ids: Tensor | None,
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
        grades = (batch.grades,) if _GRADES in self._lists else ()
        self._hold((*columns, *batch[2:6], ids, *grades))
        if batch.broken is not None:
            self._note(batch.broken)

    def _ranked(self) -> Rankings:
        """The rankings of the state, built once for all who share it."""
        self._raise_noted()
        tensors = [x for name in self._list_states() for x in _listed(getattr(self, name))]
        return memoize(self._rankings, rankings_of, tensors)

    def _rankings(self, *, all_hits: bool = False) -> Rankings:
        """The whole state as one curve with one ranking per query; with ``all_hits`` every tie group is an entry."""
        whole = {name: memory.joined(x) for name in self._list_states() if (x := _listed(getattr(self, name)))}
        batch, ids = self._batch_of(whole)
        if all_hits:
            relevance = batch.relevance.clamp(min=1)
            batch = batch._replace(relevance=relevance, judged_queries=None, judged_counts=None, grades=None)
        with _lasting():
            return rankings_of(batch if ids is None else without_copies(batch, ids))

    def _batch_of(self, whole: Mapping[str, Tensor]) -> tuple[QueryBatch, Tensor | None]:
        """The list states that hold anything as one batch, and the ids of its samples."""
        lengths, empty = whole.get(_ROWS), torch.empty(0, device=self.device)
        batch = QueryBatch(
            scores=whole.get("query_scores", empty),
            relevance=whole.get("query_relevance", empty.to(torch.uint8)),
            indexes=whole.get(_FLAT, empty.to(torch.int64) if lengths is None else None),
            lengths=lengths,
            judged_queries=whole.get("judged_queries"),
            judged_counts=whole.get("judged_counts"),
            grades=whole.get(_GRADES),
        )
        if _GRADES in self._lists and batch.grades is None:
            batch = batch._replace(grades=segments.as_float64(batch.relevance))
        return batch, whole.get(samples.STATE)

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
        scores = _listed(self.query_scores)
        dtypes = {x.dtype for x in scores if x.shape[0]} or {x.dtype for x in scores} or {torch.float32}
        return self._dtype_of_result(tensors.common_dtype("preds", dtypes))

    def _judgements_alone(self, num_relevant: dict[int, int]) -> QueryBatch:
        if self._accumulated()[_ROWS]:
            raise ValueError("`num_relevant` as a dict needs `indexes`, which name the queries; for rows give a tensor")
        queries, counts = judgements_by_query(num_relevant, self.device)
        empty = torch.empty(0, dtype=torch.int64, device=self.device)
        return QueryBatch(empty, empty, judged_queries=queries, judged_counts=counts)

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        flat = {_FLAT, "judged_queries"}
        if (_ROWS in here and flat & there) or (flat & here and _ROWS in there):
            return "`indexes`"
        if "query_scores" in here & there and samples.STATE in here ^ there:
            return f"`{samples.STATE}`"
        rows = _ROWS in here and _ROWS in there
        return "`num_relevant` of rows" if rows and ("judged_counts" in here) != ("judged_counts" in there) else None

    def _forms(self) -> dict[str, Form]:
        whole = dict.fromkeys(self._list_states(), Form([torch.int64]))
        whole |= {_GRADES: Form([torch.float64, torch.float32])} if _GRADES in whole else {}
        return {**whole, "query_scores": Form(tensors.SCORES), "query_relevance": Form([torch.uint8])}

    def _check_held(self, state: dict[str, Any]) -> None:
        empty = torch.empty(0, dtype=torch.uint8, device=self.device)
        columns = [x if isinstance(x := state[name], Tensor) else None for name in self._list_states()]
        ids, rows = columns.pop(6), columns[3] if columns[3] is not None else columns[0]
        if _GRADES in self._lists and columns[0] is not None and columns[-1] is None:
            raise ValueError(f"`{_GRADES}` must be one per item, got none")
        if ids is not None and len(ids) != (0 if rows is None else len(rows)):
            raise ValueError(f"`{samples.STATE}` must be one per item or row, got {len(ids)}")
        batch = QueryBatch(*(empty if x is None else x for x in columns[:2]), *columns[2:])
        self._settings.inputs.look_at(batch)
        check_batch(batch)


def _listed(state: list[Tensor] | Tensor) -> list[Tensor]:
    """The tensors of a list state, which a sync may have turned into one."""
    return [state] if isinstance(state, Tensor) else state


@contextmanager
def _lasting() -> Iterator[None]:
    """Say of an error that no other batch will mend it: each agrees with itself, and together they do not."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}. Call `reset()` before the metric is used on") from None
