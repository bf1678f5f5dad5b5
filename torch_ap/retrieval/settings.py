"""Values per query and their aggregate, for the functions and metrics over queries."""

import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, cached, checks
from torch_ap.core.base.messages import warn_caller
from torch_ap.core.base.options import Action, MissingQueries, NumRelevant, with_keywords_of
from torch_ap.core.base.tensors import MOST_WEIGHT
from torch_ap.core.base.untraced import plain_result
from torch_ap.core.items.settings import result_dtype
from torch_ap.core.measures import averaging, lists
from torch_ap.core.measures.convention import PLAIN
from torch_ap.core.measures.measure import AtSeveral, deepest
from torch_ap.core.ranking import few_items, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.inputs import QueryInputs
from torch_ap.retrieval.rankings import Rankings, rank_queries

MISSING = {"neg": 0.0, "skip": math.nan, "error": math.nan}  # value of a query with judgements and without items
GM_FLOOR = 1e-5
LISTED = 32  # items of a query; up to this number, lists are faster than arrays. Rows: four times this number in all
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


class BatchOptions(TypedDict, total=False):
    """Settings of a batch of queries; see :func:`torch_ap.functional.retrieval_average_precision`."""

    indexes: Tensor | None
    mask: Tensor | None
    num_relevant: NumRelevant
    ignore_index: int | None
    relevance_level: float | None
    missing_queries: MissingQueries


class QueryOptions(BatchOptions, total=False):
    """Settings of the functions over queries: a batch, the action for undefined values and the dtype of the result."""

    empty_target_action: Action
    dtype: torch.dtype | None


class PerQuery(NamedTuple):
    """Values of queries, ascending by query.

    Attributes:
        queries: (Q,) int64 ids.
        values: (Q,) float64, or (Q, K) for a measure at several ranks; NaN where undefined.
        counted: (Q,) bool, whether a query counts in the aggregate; for a measure at several ranks, at any rank.
    """

    queries: Tensor
    values: Tensor
    counted: Tensor


@dataclass(frozen=True, eq=False)
class MeasureSettings:
    """All settings of one measure over queries.

    Attributes:
        measure: function of a curve that returns (S,) values, NaN where undefined.
        inputs: validation of batches.
        empty_target_action: value of a query whose measure is undefined.
        missing: value of a query that was judged and has no items.
        aggregation: over queries: "mean", "median", "min", "max", "gm", or a function of (Q,) values.
    """

    measure: Callable[[HitCurve], Tensor] = PLAIN
    inputs: QueryInputs = field(default_factory=QueryInputs)
    empty_target_action: str = "neg"
    missing: str = "neg"
    aggregation: str | Callable[..., Any] = "mean"

    def __post_init__(self) -> None:
        checks.one_of("empty_target_action", self.empty_target_action, averaging.ACTIONS)
        checks.one_of("missing_queries", self.missing, tuple(MISSING))
        if not callable(self.aggregation):
            checks.one_of("aggregation", self.aggregation, tuple(AGGREGATIONS), or_else="a function of the values")

    def per_query(self, rankings: Rankings, measure: Callable[[HitCurve], Tensor] | None = None) -> PerQuery:
        """Return the value of each query.

        A query that was judged and has no items is missing: its value depends on ``missing``. An undefined value
        depends on ``empty_target_action``. A query without items and judgements is NaN and does not count.

        Args:
            rankings: one per query.
            measure: another measure; None for the measure of the settings.

        Raises:
            ValueError: for a missing query or an undefined value if the setting is "error".
        """
        measure = measure or self.measure
        if isinstance(measure, AtSeveral):
            parts = [self.per_query(rankings, part) for part in measure.parts]
            counted = torch.stack([x.counted for x in parts], 1).any(1)
            return parts[0]._replace(values=torch.stack([x.values for x in parts], 1), counted=counted)
        values = measure(rankings.curve)
        if values.ndim > 1:
            return self._per_query_at_every_rank(values, rankings)
        column, counted = arrays.native(values), rankings.curve.native.n > 0
        if arrays.any_true(~counted | (column != column)):
            column, counted = self._fill_undefined(column, ~counted, rankings)
            values = arrays.tensor(column)
        result = PerQuery(rankings.queries, values, arrays.tensor(counted))
        if rankings.queries.shape[0] == 1:
            return result
        queries = arrays.native(rankings.queries)
        if not arrays.any_true(queries[1:] <= queries[:-1]):
            return result
        order = torch.argsort(rankings.queries)
        return PerQuery(*(segments.pick(x, order) for x in result))

    def _per_query_at_every_rank(self, values: Tensor, rankings: Rankings) -> PerQuery:
        """Return values with a column per rank, which are undefined together if nothing is relevant."""
        rows = self.per_query(
            rankings, lambda curve: torch.where(curve.m > 0, 0 * segments.as_float64(curve.m), torch.nan)
        )
        values = values[torch.argsort(rankings.queries)]
        return rows._replace(values=torch.where(values != values, rows.values[:, None], values))

    def _fill_undefined(self, values: Any, no_item: Any, rankings: Rankings) -> tuple[Any, Any]:
        """Return the values with undefined ones filled in, and which queries count in the aggregate."""
        where, dropped = arrays.namespace(values).where, no_item
        if arrays.any_true(no_item):
            judged, m = arrays.native(rankings.judged), rankings.curve.native.m
            missing, silent = no_item & judged, no_item & ~judged
            if self.missing == "error":
                _raise_for_queries(
                    missing, rankings.queries, "`num_relevant` must name only queries that have items in `preds`"
                )
            values = where(missing & (m > 0), MISSING[self.missing], values)
            dropped = silent | missing if self.missing == "skip" else silent
            values = where(dropped, torch.nan, values)
        undefined = (values != values) & ~dropped
        if self.empty_target_action == "error":
            _raise_for_queries(
                undefined,
                rankings.queries,
                "`target` must define the measure of every query (a relevant item; for fall-out one that is not)",
            )
        counts_as = averaging.UNDEFINED_AS[self.empty_target_action]
        if not counts_as.takes_part:
            return where(undefined, torch.nan, values), ~(dropped | undefined)
        return where(undefined, counts_as.value, values), ~dropped

    def value(self, per_query: PerQuery, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """Return the aggregate over the counted queries, 0-d, or (K,) for a measure at several ranks.

        Without a counted query the aggregate is NaN, with a warning, and a custom aggregation is not called.
        """
        counted = per_query.counted
        values = per_query.values if arrays.every(counted) else segments.pick(per_query.values, counted)
        if values.ndim > 1 and self.empty_target_action == "skip" and bool(values.isnan().any()):
            columns = [PerQuery(per_query.queries, x, ~x.isnan()) for x in per_query.values.unbind(1)]
            return torch.stack([self.value(column, dtype, warn=warn) for column in columns])
        if not values.shape[0]:
            if warn:
                warn_caller("No query has a value: the aggregate is NaN.", UserWarning)
            return values.new_full(values.shape[1:], torch.nan).to(dtype)
        if callable(self.aggregation):
            rows = values.to(dtype).reshape(values.shape[0], -1).t().contiguous()
            aggregates = torch.stack([_call_aggregation(self.aggregation, row) for row in rows])
            return aggregates if values.ndim > 1 else aggregates[0]
        if values.shape == (1,) and self.aggregation == "mean":
            return scalar(values, dtype)
        return AGGREGATIONS[self.aggregation](values).to(dtype)


def scalar(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return one value as a 0-d tensor; on CPU through NumPy, in a fifth of the time of two torch operations."""
    if value.is_cpu and dtype in _NUMPY:
        return torch.from_numpy(np.array(value.item(), _NUMPY[dtype]))
    return value.reshape(()).to(dtype)


def floored_logs(values: Tensor) -> Tensor:
    """Return the logs of values raised to at least 0.00001; their mean is the log of the aggregate "gm"."""
    return values.clamp(min=GM_FLOOR).log()


AGGREGATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda x: x.mean(0),
    "median": lambda x: x.median(0).values,
    "min": lambda x: x.amin(0),
    "max": lambda x: x.amax(0),
    "gm": lambda x: floored_logs(x).mean(0).exp(),
}


def _call_aggregation(aggregation: Callable[..., Any], values: Tensor) -> Tensor:
    """Return a custom aggregate; like torchmetrics, pass ``dim`` to functions that have such a parameter."""
    try:
        wants_dim = "dim" in inspect.signature(aggregation).parameters
    except ValueError:  # a builtin without a signature
        wants_dim = False
    value = aggregation(values, dim=None) if wants_dim else aggregation(values)
    return torch.as_tensor(plain_result("aggregation", value))


def _raise_for_queries(flags: Any, queries: Tensor, rule: str) -> None:
    flags = arrays.tensor(flags)
    if bool(flags.any()):
        shown = queries[flags][:10].tolist()
        more = ", …" if int(flags.sum()) > len(shown) else ""
        raise ValueError(f"{rule}; invalid for {', '.join(map(str, shown))}{more}")


def rank_batch(
    preds: Tensor,
    target: Tensor,
    retrieved: Tensor | None = None,
    graded: bool = False,
    *,
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    num_relevant: NumRelevant = None,
    ignore_index: int | None = None,
    relevance_level: float | None = None,
    empty_target_action: Action = "neg",
    missing_queries: MissingQueries = "neg",
    **unknown: Any,
) -> tuple[Rankings, MeasureSettings, bool]:
    """Return the rankings of one whole batch, the settings without their measure, and whether it is a single query.

    Args:
        preds: see :func:`torch_ap.functional.retrieval_average_precision`, as for all arguments without a reference.
        target: shape of ``preds``.
        retrieved: see :func:`torch_ap.functional.retrieval_normalized_dcg`.
        graded: whether targets are grades.
        indexes: query of each item.
        mask: whether an item exists.
        num_relevant: number of relevant items.
        ignore_index: target value of items to ignore.
        relevance_level: the lowest relevant target.
        empty_target_action: value of a query without relevant items.
        missing_queries: value of a query without items.
        **unknown: must be empty.

    Raises:
        TypeError, ValueError: for invalid input; the message names the argument.
    """
    if unknown:
        frame: Any = sys._getframe(1)
        public = frame.f_back if frame.f_code is evaluate_queries.__code__ else frame
        raise TypeError(f"{public.f_code.co_name}() got an unexpected keyword argument {next(iter(unknown))!r}")
    single = indexes is None and isinstance(preds, Tensor) and preds.ndim == 1
    levels: Any = {"ignore_index": ignore_index, "relevance_level": relevance_level}
    settings = _settings(empty_target_action, missing_queries, **levels, single=single, graded=graded)
    validated = settings.inputs.validate(preds, target, indexes, mask, num_relevant, retrieved)
    settings.inputs.raise_broken(validated)
    return rank_queries(validated, single=single), settings, single


_DEFAULTS = {x.name: x.default for x in inspect.signature(rank_batch).parameters.values() if x.kind is x.KEYWORD_ONLY}


def evaluate_queries(
    measure: Callable[[HitCurve], Tensor],
    preds: Tensor,
    target: Tensor,
    retrieved: Tensor | None = None,
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Tensor:
    """Return the value of each query of one whole batch: 0-d for (D,) scores, else (Q,).

    Args:
        measure: function of the rankings that returns a value for each.
        preds: see :func:`rank_batch`.
        target: see there.
        retrieved: see there.
        dtype: dtype of the result; None for float64 if the scores are float64, else float32.
        **options: keywords of :func:`rank_batch`.

    Raises:
        TypeError, ValueError: for invalid input; the message names the argument.
    """
    checks.floating_dtype("dtype", dtype)
    is_plain = retrieved is None
    for name, value in options.items():  # faster than `all`
        if value is not _DEFAULTS.get(name, options):
            is_action = name == "empty_target_action" and isinstance(value, str) and value in averaging.ACTIONS
            is_plain = is_plain and is_action
    if is_plain and (plain := _evaluate_plain(measure, preds, target, dtype)) is not None:
        return plain
    rankings, settings, single = rank_batch(preds, target, retrieved, getattr(measure, "graded", False), **options)
    values = settings.per_query(rankings, measure).values.to(dtype or result_dtype(preds.dtype))
    return values[0] if single else values


@cached.settings_cache
def _settings(empty_target_action: str, missing: str, **inputs: Any) -> MeasureSettings:
    return MeasureSettings(
        inputs=QueryInputs(copies=False, **inputs), empty_target_action=empty_target_action, missing=missing
    )


with_batch_options = with_keywords_of(rank_batch)
with_query_options = with_keywords_of(rank_batch, evaluate_queries)


def _evaluate_plain(measure: Any, preds: Any, target: Any, dtype: torch.dtype | None) -> Tensor | None:
    """Return the values of one short query or of short rows; None for input that needs the general path."""
    if not isinstance(preds, Tensor):
        return None
    graded, dtype = getattr(measure, "graded", False), dtype or result_dtype(preds.dtype)
    values = _evaluate_lists(measure, preds, target, graded) if 0 < preds.numel() <= 4 * LISTED else None
    if values is not None:
        return torch.tensor(values, dtype=dtype)
    evaluate = _evaluate_plain_query if preds.ndim == 1 or graded else _evaluate_plain_rows
    return evaluate(measure, preds, target, graded, dtype)


def _evaluate_lists(measure: Any, preds: Tensor, target: Tensor, graded: bool) -> Any:
    """Return the value of one query, or a list with the values of rows, without arrays; None to use arrays."""
    shape = preds.shape
    if len(shape) not in (1, 2) or shape[-1] > LISTED or not measure.has_list_backend:
        return None
    if not few_items.is_plain(preds, target, gains=graded) or shape != target.shape:
        return None
    scores, grades = preds.tolist(), target.tolist()
    rows = zip(scores, grades, strict=True) if len(shape) == 2 else [(scores, grades)]
    rankings = []
    for row_scores, row_grades in rows:
        hits = lists.rank_lists(row_scores, row_grades, MOST_WEIGHT, graded)
        if hits is None or not hits.m:
            return None
        rankings.append(hits)
    values = measure.values_of_lists(rankings)
    return values if len(shape) == 2 or values is None else values[0]


def _evaluate_plain_query(
    measure: Any, preds: Tensor, target: Tensor, graded: bool, dtype: torch.dtype
) -> Tensor | None:
    """Return the value of one query of few items, with arrays; None for input that needs the general path."""
    columns = few_items.plain_arrays(preds, target, gains=graded)
    if columns is None:
        return None
    curve = few_items.ranking(*columns[:2], deepest(measure))
    if curve is None:
        return None
    if graded:
        curve = few_items.attach_grades(curve, *columns)
    value = measure(curve)
    if value.ndim > 1:
        return None if value.isnan().any() else value[0].to(dtype)
    number = value.item()
    return None if number != number else scalar(value, dtype)


def _evaluate_plain_rows(
    measure: Any, preds: Tensor, target: Tensor, graded: bool, dtype: torch.dtype
) -> Tensor | None:
    """Return the values of short rows without ties, with arrays; None for input that needs the general path."""
    columns = few_items.plain_arrays(preds, target, gains=graded, rows=True)
    if columns is None or few_items.has_nan(columns[0]):
        return None
    bounds, flags = np.arange(0, columns[0].size + 1, columns[0].shape[1]), torch.from_numpy(columns[1].reshape(-1))
    curve = few_items.rankings(preds.reshape(-1), flags, bounds)
    values = None if curve is None else measure(curve)
    return None if values is None or arrays.any_true(arrays.native(values != values)) else values.to(dtype)
