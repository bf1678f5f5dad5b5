"""The steps that every function over queries shares: settings in, a value a query out."""

from collections.abc import Callable
from typing import Literal, TypeAlias, TypedDict

import torch
from torch import Tensor

from torch_ap.core.hit_curve import HitCurve
from torch_ap.core.queries.door import QueryDoor
from torch_ap.core.queries.rankings import rankings_of
from torch_ap.functional.classification import Action
from torch_ap.functional.evaluation import result_dtype
from torch_ap.functional.query_evaluation import QueryEvaluation

QueryInterpolation: TypeAlias = (
    Literal["11-point", "11-point-trec9", "11-point-trec10", "101-point", "all-points", "trapezoid"] | Tensor | None
)
Missing: TypeAlias = Literal["neg", "skip", "error"]
Judgements: TypeAlias = Tensor | dict[int, int] | int | None


class QuerySettings(TypedDict, total=False):
    """What every function over queries takes as keywords, as its docstring or that of the AP says."""

    indexes: Tensor | None
    mask: Tensor | None
    num_relevant: Judgements
    ignore_index: int | None
    relevance_level: float
    empty_target_action: Action
    missing_queries: Missing
    dtype: torch.dtype | None


def each_query(
    measure: Callable[[HitCurve], Tensor],
    preds: Tensor,
    target: Tensor,
    *,
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    num_relevant: Judgements = None,
    ignore_index: int | None = None,
    relevance_level: float = 1,
    empty_target_action: Action = "neg",
    missing_queries: Missing = "neg",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The value of each query of one batch that is all there is, under a measure: 0-d for (D,) scores, else (Q,)."""
    door = QueryDoor(ignore_index, relevance_level, copies=False)
    evaluation = QueryEvaluation(measure, door, empty_target_action, missing_queries)
    one = indexes is None and isinstance(preds, Tensor) and preds.ndim == 1
    if one:
        preds, target = preds[None], target[None] if isinstance(target, Tensor) else target
        mask = mask[None] if isinstance(mask, Tensor) else mask
    if isinstance(num_relevant, int) and one:
        num_relevant = torch.tensor([num_relevant], device=preds.device)
    elif isinstance(num_relevant, Tensor) and one:
        num_relevant = num_relevant.reshape(-1)
    batch = door(preds, target, indexes, mask, num_relevant)  # type: ignore[arg-type]
    door.raise_broken(batch)
    values = evaluation.each(rankings_of(batch)).values.to(dtype or result_dtype(preds.dtype))
    return values[0] if one else values
