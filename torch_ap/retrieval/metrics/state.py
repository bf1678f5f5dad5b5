"""State of the metrics over queries: batches, rankings and the exchange among processes.

Exchange of queries: all items of a query are sent to one process, which computes its value; rows are not sent.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays, tensors
from torch_ap.core.base.cached import memoize
from torch_ap.core.base.options import MissingQueries
from torch_ap.core.measures.measure import settings_of
from torch_ap.core.metric import exchange, samples, state
from torch_ap.core.metric.base import RankingMetric
from torch_ap.core.metric.exchange import Ranks, Route, hash_to_ranks
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.metric.state import Form, SimpleBatch, listed, setting
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.inputs import (
    NOT_COUNTED,
    QueryBatch,
    QueryGroups,
    QueryInputs,
    distinct_groups,
    drop_copies,
    judgements_by_query,
    query_groups,
    select_flagged,
)
from torch_ap.retrieval.rankings import Rankings, check_batch, rank_queries
from torch_ap.retrieval.settings import MeasureSettings, PerQuery


def rankings_share(ranks: Ranks, batch: QueryBatch, ids: Tensor | None) -> Rankings:
    """Return the rankings of this process's queries, with all their items and judgements.

    Args:
        ranks: the processes; each calls this function with its own items.
        batch: flat items or rows, the same layout on all processes.
        ids: ids of items or rows, whose first copy counts; None if all count.

    Raises:
        ValueError: on every process, for errors of :func:`rank_queries` in one process.
    """
    if ids is not None:
        batch = select_flagged(batch, exchange.flag_first_copies(ranks, ids, batch.copy_key))
    if batch.lengths is None:
        batch = _send_queries(ranks, batch)
    rankings = ranks.attempt(rank_queries, batch)
    if batch.lengths is not None:
        rows = ranks.gather(torch.tensor([len(batch.lengths)]))
        rankings = rankings._replace(queries=rankings.queries + rows[: ranks.rank].sum())
    return rankings


def _send_queries(ranks: Ranks, batch: QueryBatch) -> QueryBatch:
    assert batch.indexes is not None
    route = Route(ranks, hash_to_ranks(batch.indexes, ranks.size))
    scores, relevance, indexes = (route.send(x) for x in (batch.scores, batch.relevance, batch.indexes))
    grades = None if batch.grades is None else route.send(batch.grades)
    batch = batch._replace(scores=scores, relevance=relevance, indexes=indexes, grades=grades)
    if batch.judged_queries is None or batch.judged_counts is None:
        return batch
    route = Route(ranks, hash_to_ranks(batch.judged_queries, ranks.size))
    return batch._replace(
        judged_queries=route.send(batch.judged_queries), judged_counts=route.send(batch.judged_counts)
    )


FLAT, ROWS, GRADES = "query_indexes", "row_lengths", "query_grades"
COLUMNS = (
    "query_scores", "query_relevance", FLAT, ROWS, "judged_queries", "judged_counts",
    samples.STATE, *samples.QUERY_GROUPS,
)  # fmt: skip


_SIMPLE = SimpleBatch(COLUMNS[:3], COLUMNS[3:])
_GRADED = SimpleBatch((*COLUMNS[:3], GRADES), COLUMNS[3:])


class QueryState(RankingMetric):
    """Abstract base: adds batches to the columns and computes rankings from them.

    See :class:`torch_ap.retrieval.QueryMetric` for the arguments.
    """

    _peer_states = _peer_arguments = ("preds", "target", "indexes")
    _settings_of_update = "`ignore_index`, `relevance_level`"
    _can_exchange = True

    if TYPE_CHECKING:  # torch.jit compiles the annotations of a class
        _settings: MeasureSettings

    query_scores: list[Tensor]
    query_relevance: list[Tensor]
    query_indexes: list[Tensor]
    row_lengths: list[Tensor]
    judged_queries: list[Tensor]
    judged_counts: list[Tensor]
    sample_ids: list[Tensor]
    grouped_queries: list[Tensor]
    query_groups: list[Tensor]
    query_grades: list[Tensor]

    def __init__(
        self,
        measure: Callable[[HitCurve], Tensor],
        empty_target_action: str = "neg",
        ignore_index: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
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
            self._value_rules = tensors.GAIN_VALUE_RULES

    empty_target_action = setting("_settings.empty_target_action", "Value of a query whose measure is undefined.")
    ignore_index = setting("_settings.inputs.ignore_index", "Target value of items to ignore.")
    relevance_level = setting("_settings.inputs.relevance_level", "The lowest relevant target; None for 1.")
    missing_queries = setting("_settings.missing", "Value of a query that was judged and has no items.")
    aggregation = setting("_settings.aggregation", "Aggregation over queries.")

    def _shown_settings(self) -> dict[str, Any]:
        measure, defaults = settings_of(self._settings.measure), self._default_settings()
        return state.shown_settings(
            defaults, lambda name: measure[name] if name in measure else getattr(self, name, defaults[name])
        )

    def _default_settings(self) -> dict[str, Any]:
        """Return the default settings."""
        shared = ("relevance_level", "missing_queries")
        every = state.defaults_of(QueryState)
        return state.defaults_of(type(self)) | {name: every[name] for name in shared}

    def _add_small(self, preds: Tensor, target: Tensor, indexes: Tensor) -> bool:
        """Add a small valid batch of only scores, targets and indexes on CPU; return whether it was added."""
        inputs = self._settings.inputs
        return self._hold_small(_GRADED if inputs.graded else _SIMPLE, inputs.small_batch(preds, target, indexes))

    @state.with_shortcut(_add_small)
    def update(
        self,
        preds: Tensor | None = None,
        target: Tensor | None = None,
        indexes: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        num_relevant: Tensor | dict[int, int] | None = None,
        sample_ids: SampleIds = None,
        groups: QueryGroups = None,
    ) -> None:
        """Add a batch: items with the query of each, or one query per row. A query may be split over many batches.

        Args:
            preds: floating or integer scores without NaN; int64 and floats cannot be combined, because no dtype
                represents both. Any shape with ``indexes``, (Q, D) without.
            target: shape of ``preds``; integers, bool or floats.
            indexes: integers in the shape of ``preds``, except uint64, with any values in any order; in every update or
                in none. Without indexes each row is a query, and rows are numbered in the order of the updates.
            mask: bool, in the shape of ``preds``: True for items that exist. A query without such items does not count,
                but its row number is used.
            num_relevant: number of relevant items of each query, including items that were never retrieved: with
                ``indexes`` a dict {query: m} or integers in the shape of ``preds``; (Q,) integers for rows, in every
                update or in none. At least the number of ranked relevant items, and equal in all updates. A dict may
                come without items, and may contain queries without items.
            sample_ids: integers in the shape of ``preds`` with ``indexes``, (Q,) for rows, or a flat list; in every
                update with items or in none. An id counts once over all updates and processes, so that a sampler may
                pad. The first copy of an item, or of a row, counts, in the order of processes, then of updates. The
                targets of all copies, for rows their lengths, must be equal.
            groups: group of each query, such as its topic or user, for intervals and comparisons: with ``indexes`` a
                dict {query: group} or integers in the shape of ``preds``; (Q,) integers, a tensor or a list, for rows.
                In every update with items or in none. Queries of a group may depend on each other, see
                :func:`torch_ap.inference.mean_interval`; the value does not depend on the groups.

        Raises:
            TypeError, ValueError: for invalid input; the state is unchanged. On an accelerator, invalid values raise in
                ``compute``. On any device, ``compute`` raises if batches contradict each other: different m for a
                query, or an m below the number of ranked relevant items.
        """
        self._add((preds, target, indexes, mask, num_relevant), sample_ids, groups)

    def _add(self, columns: tuple[Any, ...], sample_ids: SampleIds, groups: QueryGroups) -> None:
        """Add a batch, given the arguments of :meth:`QueryInputs.validate`."""
        preds, target, num_relevant = columns[0], columns[1], columns[4]
        if preds is None and target is None and isinstance(num_relevant, dict):
            batch = self._judgements_alone(num_relevant)
        else:
            batch = self._settings.inputs.validate(*columns)
        if batch.judged_counts is not None:
            check_batch(batch)
        if batch.scores.device != self._device:
            self._check_device(batch.scores, "preds")
        items = batch.indexes is not None or batch.lengths is not None  # else judgements only
        ids = None
        if sample_ids is not None:
            what, shape = ("item", preds.shape) if batch.lengths is None else ("row", batch.lengths.shape)
            ids = samples.validate_ids(samples.STATE, sample_ids, shape, batch.scores.device, what)
        grouped = query_groups(groups, preds, batch)
        scores = (batch.scores, batch.relevance) if items else (None, None)
        grades = (batch.grades,) if GRADES in self._lists else ()
        self._hold((*scores, *batch[2:6], ids, *grouped, *grades), batch.broken)

    def _ranked(self) -> Rankings:
        """Return the rankings of the state, computed once for all metrics that share it."""
        self._raise_first_violation()
        tensors = [x for name in self._lists for x in listed(getattr(self, name))]
        return memoize(self._rankings, rank_queries, tensors)

    def _rankings(self, *, all_hits: bool = False) -> Rankings:
        """Return the state as a curve with one ranking per query; with ``all_hits`` every tie group is an entry."""
        columns = {name: arrays.concatenate(x) for name in self._lists if (x := listed(getattr(self, name)))}
        batch, ids = self._batch_of(columns)
        batch = batch.with_all_hits() if all_hits else batch
        with _error_until_reset():
            return rank_queries(batch if ids is None else drop_copies(batch, ids))

    def _all_groups(self) -> HitCurve:
        """Return the rankings with all items as hits, so that each tie group is an entry."""
        return self._rankings(all_hits=True).curve

    def _groups_of_queries(self) -> dict[int, int] | None:
        """Return the stored group of each query; None without groups.

        Raises:
            ValueError: for a query with two groups.
        """
        if not len(self.query_groups):
            return None
        groups = arrays.concatenate(listed(self.query_groups))
        if len(self.grouped_queries):
            queries = arrays.concatenate(listed(self.grouped_queries))
            with _error_until_reset():
                queries, groups = distinct_groups(queries, groups)
        else:
            groups = self._first_rows(groups)
            queries = torch.arange(len(groups))
        return dict(zip(queries.tolist(), groups.tolist(), strict=True))

    def _row_ids(self) -> Tensor | None:
        """Return the sample ids of the rows; None without ids, and for flat items."""
        if not len(self.sample_ids) or not len(self.row_lengths):
            return None
        return self._first_rows(arrays.concatenate(listed(self.sample_ids)))

    def _first_rows(self, values: Tensor) -> Tensor:
        """Return values with one number per row, without further copies of a row."""
        if not len(self.sample_ids):
            return values
        lengths = arrays.concatenate(listed(self.row_lengths))
        first = samples.first_copies(arrays.concatenate(listed(self.sample_ids)), lengths)
        return values if first is None else values[first]

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> tuple[Ranks, Rankings, torch.dtype]:
        """Return the rankings of this process's share of the queries, and the dtype of all scores."""
        batch, ids = self._batch_of(held)
        with _error_until_reset():
            return ranks, rankings_share(ranks, batch, ids), batch.scores.dtype

    def _per_query(self) -> PerQuery:
        """Return the value of each query, of all processes."""
        if self._exchanged is None:
            return self._settings.per_query(self._ranked())
        self._raise_first_violation()
        ranks, rankings, _ = self._exchanged
        own_values = ranks.attempt(self._settings.per_query, rankings)
        queries, values, counted = (torch.cat(ranks.gather_unequal(x)) for x in own_values)
        order = torch.argsort(queries)
        return PerQuery(queries[order], values[order], counted[order])

    def _dtype_of_values(self) -> torch.dtype:
        if self._exchanged is not None:
            return self._dtype_of_result(self._exchanged[2])
        scores = listed(self.query_scores)
        dtypes = {x.dtype for x in scores if x.shape[0]} or {x.dtype for x in scores} or {torch.float32}
        return self._dtype_of_result(arrays.common_dtype("preds", dtypes))

    def _judgements_alone(self, num_relevant: dict[int, int]) -> QueryBatch:
        if self._accumulated()[ROWS]:
            raise ValueError(
                "`num_relevant` as a dict requires `indexes`, which name the queries; for rows pass a tensor"
            )
        queries, counts = judgements_by_query(num_relevant, self.device)
        empty = torch.empty(0, dtype=torch.int64, device=self.device)
        return QueryBatch(empty, empty, judged_queries=queries, judged_counts=counts)

    # -- columns

    @property
    def preds(self) -> list[Tensor]:
        """The scores of all items that count, as flat tensors in the order of the updates."""
        return [x[flags] for x, flags in zip(listed(self.query_scores), self._item_flags, strict=True)]

    @property
    def target(self) -> list[Tensor]:
        """Relevance of each item of ``preds``, int64 of 0 and 1; for nDCG its grade, float64, 0 without a gain."""
        relevant = [x[flags].long() for x, flags in zip(listed(self.query_relevance), self._item_flags, strict=True)]
        if GRADES not in self._lists:
            return relevant
        graded = (x[flags] for x, flags in zip(listed(self.query_grades), self._item_flags, strict=True))
        return [torch.where(y > 0, x, 0) for x, y in zip(graded, relevant, strict=True)]

    @property
    def indexes(self) -> list[Tensor]:
        """The query of each item of ``preds``: int64; without indexes its row."""
        indexes = listed(self.query_indexes)
        if len(self.row_lengths):
            lengths = arrays.concatenate(listed(self.row_lengths))
            sizes = [len(x) for x in listed(self.query_scores)]
            indexes = list(
                torch.split(torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths), sizes)
            )
        return [x[flags] for x, flags in zip(indexes, self._item_flags, strict=True)]

    @property
    def _item_flags(self) -> list[Tensor]:
        return [x < NOT_COUNTED for x in listed(self.query_relevance)]

    def _batch_of(self, columns: Mapping[str, Tensor]) -> tuple[QueryBatch, Tensor | None]:
        """Return the non-empty list states as one batch, and the ids of its samples."""
        lengths, indexes = columns.get(ROWS), columns.get(FLAT)
        scores, relevance = columns.get("query_scores"), columns.get("query_relevance")
        if scores is None or relevance is None:
            scores = torch.empty(0, device=self.device)
            relevance = torch.empty(0, dtype=torch.uint8, device=self.device)
        if lengths is indexes is None:
            indexes = torch.empty(0, dtype=torch.int64, device=self.device)
        judged = columns.get("judged_queries"), columns.get("judged_counts")
        batch = QueryBatch(scores, relevance, indexes, lengths, *judged, columns.get(GRADES))
        if GRADES in self._lists and batch.grades is None:
            batch = batch._replace(grades=segments.as_float64(batch.relevance))
        return batch, columns.get(samples.STATE)

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        flat = {FLAT, "judged_queries"}
        if (ROWS in here and flat & there) or (flat & here and ROWS in there):
            return "`indexes`"
        if "query_scores" in here & there and samples.STATE in here ^ there:
            return f"`{samples.STATE}`"
        if "query_scores" in here & there and samples.QUERY_GROUPS[1] in here ^ there:
            return "`groups`"
        rows = ROWS in here and ROWS in there
        return "`num_relevant` of rows" if rows and ("judged_counts" in here) != ("judged_counts" in there) else None

    def _forms(self) -> dict[str, Form]:
        columns = dict.fromkeys(self._lists, Form([torch.int64]))
        columns |= {GRADES: Form([torch.float64, torch.float32])} if GRADES in columns else {}
        return {**columns, "query_scores": Form(tensors.SCORES), "query_relevance": Form([torch.uint8])}

    def _check_held(self, state: dict[str, Any]) -> None:
        empty = torch.empty(0, dtype=torch.uint8, device=self.device)
        columns = [x if isinstance(x := state[name], Tensor) else None for name in self._lists]
        grouped, groups = columns.pop(7), columns.pop(7)
        ids, rows = columns.pop(6), columns[3] if columns[3] is not None else columns[0]
        if GRADES in self._lists and columns[0] is not None and columns[-1] is None:
            raise ValueError(f"`{GRADES}` must be one per item, got none")
        if ids is not None and len(ids) != (0 if rows is None else len(rows)):
            raise ValueError(f"`{samples.STATE}` must be one per item or row, got {len(ids)}")
        owners = columns[3] if grouped is None else grouped
        if (groups is None and grouped is not None) or (
            groups is not None and (owners is None or len(owners) != len(groups))
        ):
            raise ValueError("there must be one group per query")
        batch = QueryBatch(*(empty if x is None else x for x in columns[:2]), *columns[2:])
        self._settings.inputs.check_stored(batch)
        check_batch(batch)


@contextmanager
def _error_until_reset() -> Iterator[None]:
    """Add to an error that it persists until ``reset()``: each batch is valid, but they contradict each other."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}. Call `reset()` before the next update") from None
