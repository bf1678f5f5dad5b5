"""The steps that every function over queries shares: settings in, one value per query out."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_ap.curve import averaging
from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.evaluation.queries import MeasureSettings, PerQuery, scalar
from torch_ap.inputs.queries import QueryInputs
from torch_ap.inputs.query_rankings import rankings_of
from torch_ap.ranking import few_items
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import Action, MissingQueries, NumRelevant
from torch_ap.runtime import cached


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
) -> Tensor:
    """The value of each query of one batch that is all there is, under a measure: 0-d for (D,) scores, else (Q,)."""
    plain = indexes is mask is num_relevant is None and ignore_index is relevance_level is None and dtype is None
    usual = plain and missing_queries == "neg" and empty_target_action in averaging.ACTIONS
    if usual and (value := _of_plain_query(measure, preds, target)) is not None:
        return value
    checks.floating_dtype("dtype", dtype)
    single = indexes is None and isinstance(preds, Tensor) and preds.ndim == 1
    inputs, each = _plan(ignore_index, relevance_level, single, empty_target_action, missing_queries)
    batch = inputs.validate(preds, target, indexes, mask, num_relevant)
    inputs.raise_broken(batch)
    rankings = rankings_of(batch, single=single)
    values = each(rankings, measure).values.to(dtype or result_dtype(preds.dtype))
    return values.reshape(()) if single else values


def _of_plain_query(measure: Callable[[HitCurve], Tensor], preds: Tensor, target: Tensor) -> Tensor | None:
    """The value of one short query, without a look at anything twice.

    None where anything is out of the ordinary, which the usual code then handles or reports.
    """
    given = few_items.arrays_of(preds, target, graded=True)
    if given is None:
        return None
    curve = few_items.ranking(*given, getattr(measure, "top_k", None))
    if curve is None:
        return None
    value = measure(curve)
    number = value.item()
    return None if number != number else scalar(value, result_dtype(preds.dtype))


@cached.settings_cache
def _plan(
    ignore_index: int | None, relevance_level: float | None, single: bool, empty_target_action: str, missing: str
) -> tuple[QueryInputs, Callable[..., PerQuery]]:
    """How a batch comes in, and from rankings and a measure to the value of each query."""
    inputs = QueryInputs(ignore_index, relevance_level, copies=False, single=single)
    return inputs, MeasureSettings(inputs=inputs, empty_target_action=empty_target_action, missing=missing).each
