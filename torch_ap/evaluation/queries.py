"""From checked batches of queries to one value per query and one for all: what a function and its class share."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve import averaging, few_hits
from torch_ap.curve.convention import PLAIN
from torch_ap.curve.top_k import AtSeveral, deepest
from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.inputs.queries import QueryInputs
from torch_ap.inputs.query_rankings import Rankings, rankings_of
from torch_ap.ranking import few_items, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import Action, MissingQueries, NumRelevant, allowed
from torch_ap.runtime import arrays, cached

MISSING = allowed(MissingQueries)
AGGREGATIONS = ("mean", "median", "min", "max", "gm")
GM_FLOOR = 1e-5
LISTED = 32  # items of a query up to which Python's lists cost less than arrays; of rows four times as many in all
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


class PerQuery(NamedTuple):
    """Values of queries, ascending by query.

    Attributes:
        queries: (Q,) int64 ids.
        values: (Q,) float64, or (Q, K) of a measure at several ranks; NaN where undefined.
        kept: (Q,) bool, whether a query has a part in the aggregate; of a measure at several ranks in that at any.
    """

    queries: Tensor
    values: Tensor
    kept: Tensor


@dataclass(frozen=True, eq=False)
class MeasureSettings:
    """All settings of one measure over queries.

    Attributes:
        measure: a curve in, (S,) values out, NaN where undefined.
        inputs: how batches come in.
        empty_target_action: what a query whose measure is undefined counts as.
        missing: what a query that was judged and has no items counts as.
        aggregation: over queries: "mean", "median", "min", "max", "gm", or a function of (Q,) values.
    """

    measure: Callable[[HitCurve], Tensor] = PLAIN
    inputs: QueryInputs = field(default_factory=QueryInputs)
    empty_target_action: str = "neg"
    missing: str = "neg"
    aggregation: str | Callable[..., Any] = "mean"

    def __post_init__(self) -> None:
        checks.one_of("empty_target_action", self.empty_target_action, averaging.ACTIONS)
        checks.one_of("missing_queries", self.missing, MISSING)
        if not callable(self.aggregation):
            checks.one_of("aggregation", self.aggregation, AGGREGATIONS, or_else="a function of the values")

    def each(self, rankings: Rankings, measure: Callable[[HitCurve], Tensor] | None = None) -> PerQuery:
        """The value of each query, under the measure of these settings or another.

        A query that was judged and has no items is missing: it counts 0, or is left out, or an error. Where the measure
        is undefined, the action says what counts. A query with neither items nor judgements says nothing: NaN, left
        out.

        Raises:
            ValueError: for a missing query or an undefined value where that is to be an error.
        """
        measure = measure or self.measure
        if isinstance(measure, AtSeveral):
            parts = [self.each(rankings, part) for part in measure.parts]
            kept = torch.stack([x.kept for x in parts], 1).any(1)
            return parts[0]._replace(values=torch.stack([x.values for x in parts], 1), kept=kept)
        values = measure(rankings.curve)
        if values.ndim > 1:
            return self._of_rows(values, rankings)
        each, kept = arrays.native(values), rankings.curve.native.n > 0
        if arrays.some(~kept | (each != each)):
            each, kept = self._filled(each, ~kept, rankings)
            values = arrays.tensor(each)
        found = PerQuery(rankings.queries, values, arrays.tensor(kept))
        if rankings.queries.shape[0] == 1:
            return found
        queries = arrays.native(rankings.queries)
        if not arrays.some(queries[1:] <= queries[:-1]):
            return found
        order = torch.argsort(rankings.queries)
        return PerQuery(*(segments.pick(x, order) for x in found))

    def _of_rows(self, values: Tensor, rankings: Rankings) -> PerQuery:
        """Values of several columns, which are undefined together, where nothing is relevant."""
        rows = self.each(rankings, lambda curve: torch.where(curve.m > 0, 0 * segments.as_float64(curve.m), torch.nan))
        found = values[torch.argsort(rankings.queries)]
        return rows._replace(values=torch.where(found != found, rows.values[:, None], found))

    def _filled(self, values: Any, no_item: Any, rankings: Rankings) -> tuple[Any, Any]:
        """What the values count as, NaN where nothing; and which have a part in the aggregate."""
        where, judged, m = arrays.namespace(values).where, arrays.native(rankings.judged), rankings.curve.native.m
        missing, silent = no_item & judged, no_item & ~judged
        if self.missing == "error":
            _refuse(missing, rankings.queries, "`num_relevant` must name only queries that have items in `preds`")
        if self.missing == "neg":
            values = where(missing & (m > 0), 0, values)
        dropped = silent | missing if self.missing == "skip" else silent
        undefined = (values != values) & ~dropped
        if self.empty_target_action == "error":
            _refuse(
                undefined,
                rankings.queries,
                "`target` must define the measure of every query (a relevant item; for fall-out one that is not)",
            )
        if self.empty_target_action in ("neg", "pos"):
            values = where(undefined, float(self.empty_target_action == "pos"), values)
        elif self.empty_target_action == "skip":
            dropped = dropped | undefined
        return where(dropped, torch.nan, values), ~dropped

    def value(self, each: PerQuery, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """The aggregate over the queries that have a part in it; NaN, with a warning, where there is none.

        0-d, or (K,) of a measure at several ranks.
        """
        values = each.values if arrays.every(each.kept) else segments.pick(each.values, each.kept)
        if values.ndim > 1 and self.empty_target_action == "skip" and bool(values.isnan().any()):
            of_each_k = [PerQuery(each.queries, column, ~column.isnan()) for column in each.values.unbind(1)]
            return torch.stack([self.value(one, dtype, warn=warn) for one in of_each_k])
        if callable(self.aggregation):
            columns = values.to(dtype).reshape(len(values), -1).t().contiguous()
            found = torch.stack([_aggregated(self.aggregation, column) for column in columns])
            return found if values.ndim > 1 else found[0]
        if not values.shape[0]:
            if warn:
                warn_caller("No query has a value: the aggregate is NaN.", UserWarning)
            return values.new_full(values.shape[1:], torch.nan).to(dtype)
        if self.aggregation == "gm":
            return floored_logs(values).mean(0).exp().to(dtype)
        if values.shape[0] == 1:  # is its own mean, median and extreme
            return scalar(values, dtype) if values.ndim == 1 else values[0].to(dtype)
        aggregates: dict[str, Callable[[Tensor], Tensor]] = {
            "mean": lambda x: x.mean(0),
            "median": lambda x: x.median(0).values,
            "min": lambda x: x.amin(0),
            "max": lambda x: x.amax(0),
        }
        return aggregates[self.aggregation](values).to(dtype)


def scalar(value: Tensor, dtype: torch.dtype) -> Tensor:
    """One value as a 0-d tensor; from a float64 in NumPy's memory in a fifth of the time of two steps of torch."""
    if value.is_cpu and dtype in _NUMPY:
        return torch.from_numpy(np.array(value.item(), _NUMPY[dtype]))
    return value.reshape(()).to(dtype)


def floored_logs(values: Tensor) -> Tensor:
    """Logs of values raised to 0.00001 at least: their mean is the log of what "gm" aggregates to."""
    return values.clamp(min=GM_FLOOR).log()


def _aggregated(aggregation: Callable[..., Any], values: Tensor) -> Tensor:
    """A caller's own aggregate; torchmetrics hands its aggregates a ``dim``, so those that ask for one get it."""
    try:
        wants_dim = "dim" in inspect.signature(aggregation).parameters
    except ValueError:  # a builtin that does not say
        wants_dim = False
    return torch.as_tensor(aggregation(values, dim=None) if wants_dim else aggregation(values))


def _refuse(given: Any, queries: Tensor, rule: str) -> None:
    flags = arrays.tensor(given)
    if bool(flags.any()):
        shown = queries[flags][:10].tolist()
        more = ", …" if int(flags.sum()) > len(shown) else ""
        raise ValueError(f"{rule}, not so for {', '.join(map(str, shown))}{more}")


def each_query(
    measure: Callable[[HitCurve], Tensor],
    preds: Tensor,
    target: Tensor,
    indexes: Tensor | None,
    mask: Tensor | None,
    num_relevant: NumRelevant,
    ignore_index: int | None,
    relevance_level: float | None,
    empty_target_action: Action,
    missing_queries: MissingQueries,
    dtype: torch.dtype | None,
    retrieved: Tensor | None = None,
) -> Tensor:
    """The value of each query of one batch that is all there is, under a measure: 0-d for (D,) scores, else (Q,)."""
    all_items = indexes is mask is num_relevant is retrieved is None
    plain = all_items and ignore_index is relevance_level is None
    usual = plain and missing_queries == "neg" and empty_target_action in averaging.ACTIONS
    checks.floating_dtype("dtype", dtype)
    if usual and (value := _of_plain_items(measure, preds, target, dtype)) is not None:
        return value
    single = indexes is None and isinstance(preds, Tensor) and preds.ndim == 1
    graded: bool = getattr(measure, "graded", False)
    inputs, each = _plan(ignore_index, relevance_level, single, graded, empty_target_action, missing_queries)
    batch = inputs.validate(preds, target, indexes, mask, num_relevant, retrieved)
    inputs.raise_broken(batch)
    rankings = rankings_of(batch, single=single)
    values = each(rankings, measure).values.to(dtype or result_dtype(preds.dtype))
    return values[0] if single else values


def _of_plain_items(measure: Any, preds: Any, target: Any, dtype: torch.dtype | None) -> Tensor | None:
    """The value of one short query, or of very short ones, without a look at anything twice.

    None where anything is out of the ordinary, which the usual code then handles or reports.
    """
    if not isinstance(preds, Tensor):
        return None
    graded, dtype = getattr(measure, "graded", False), dtype or result_dtype(preds.dtype)
    values = _of_lists(measure, preds, target, graded) if 0 < preds.numel() <= 4 * LISTED else None
    if values is not None:
        return torch.tensor(values, dtype=dtype)
    plain = _of_plain_query if preds.ndim == 1 or graded else _of_plain_rows
    return plain(measure, preds, target, graded, dtype)


def _of_lists(measure: Any, preds: Tensor, target: Tensor, graded: bool) -> Any:
    """The value of one query, or a list of those of rows, without arrays; None where these are needed, or faster."""
    of_few, shape = getattr(measure, "of_few", None), preds.shape
    if of_few is None or len(shape) not in (1, 2) or shape[-1] > LISTED:
        return None
    if not few_items.are_usual(preds, target, gains=graded) or shape != target.shape:
        return None
    scores, grades = preds.tolist(), target.tolist()
    rows = zip(scores, grades, strict=True) if len(shape) == 2 else [(scores, grades)]
    rankings = []
    for each, of_each in rows:
        hits = few_hits.ranked(each, of_each, few_items.MOST_GAIN, graded)
        if hits is None or not hits.m:
            return None
        rankings.append(hits)
    values = of_few(rankings)
    return values if len(shape) == 2 or values is None else values[0]


def _of_plain_query(measure: Any, preds: Tensor, target: Tensor, graded: bool, dtype: torch.dtype) -> Tensor | None:
    """The value of one short query, by arrays; None as of :func:`_of_plain_items`."""
    given = few_items.arrays_of(preds, target, graded=True, gains=graded)
    if given is None:
        return None
    curve = few_items.ranking(*given[:2], deepest(measure))
    if curve is None:
        return None
    if graded:
        curve = few_items.with_grades(curve, *given)
    value = measure(curve)
    if value.ndim > 1:
        return None if value.isnan().any() else value[0].to(dtype)
    number = value.item()
    return None if number != number else scalar(value, dtype)


def _of_plain_rows(measure: Any, preds: Tensor, target: Tensor, graded: bool, dtype: torch.dtype) -> Tensor | None:
    """The values of short rows without ties, by arrays; None as of :func:`_of_plain_items`."""
    given = few_items.arrays_of(preds, target, graded=True, gains=graded, rows=True)
    if given is None or few_items.holds_nan(given[0]):
        return None
    bounds, flags = np.arange(0, given[0].size + 1, given[0].shape[1]), torch.from_numpy(given[1].reshape(-1))
    curve = few_items.rankings(preds.reshape(-1), flags, bounds)
    values = None if curve is None else measure(curve)
    return None if values is None or arrays.some(arrays.native(values != values)) else values.to(dtype)


@cached.settings_cache
def _plan(
    ignore_index: int | None,
    relevance_level: float | None,
    single: bool,
    graded: bool,
    empty_target_action: str,
    missing: str,
) -> tuple[QueryInputs, Callable[..., PerQuery]]:
    """How a batch comes in, and from rankings and a measure to the value of each query."""
    inputs = QueryInputs(ignore_index, relevance_level, copies=False, single=single, graded=graded)
    return inputs, MeasureSettings(inputs=inputs, empty_target_action=empty_target_action, missing=missing).each
