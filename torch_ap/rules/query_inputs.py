"""The rules about rankings of queries: layout, judgements and their values. As in :mod:`torch_ap.rules.checks`."""

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from torch_ap.rules import checks

_NOT_COMPARED = (torch.uint16, torch.uint32, torch.uint64)
_NAN_SCORE, _NAN_TARGET, _NEGATIVE_COUNT, _NO_GRADE = 0, 4, 5, 6


def graded_target(value: Any) -> None:
    """A real tensor: 0 and 1, bool, or grades."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`target` must be a tensor, got {type(value).__name__}")
    if value.is_complex() or value.dtype in _NOT_COMPARED:
        raise ValueError(f"`target` must be a floating, bool, uint8 or signed integer tensor, got {value.dtype}")


def level(value: Any) -> None:
    """A finite number, or None; bool is none."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"`relevance_level` must be a finite number, got {value!r}")


def indexes(value: Any, preds: Tensor) -> None:
    """Integers of the shape of ``preds``."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`indexes` must be a tensor or None, got {type(value).__name__}")
    _integers("indexes", value)
    if value.shape != preds.shape:
        raise ValueError(
            f"`indexes` must have the shape of `preds`, {tuple(preds.shape)}, got {tuple(value.shape)}; "
            "(Q, D) rows need none"
        )


def rows(preds: Tensor) -> None:
    """Without ``indexes``, ``preds`` is (Q, D)."""
    if preds.ndim != 2:
        raise ValueError(
            f"`preds` must be (Q, D) with one query a row where `indexes` are not given, got shape {tuple(preds.shape)}"
        )


def mask(value: Any, preds: Tensor) -> None:
    """A bool tensor of the shape of ``preds``."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`mask` must be a tensor or None, got {type(value).__name__}")
    if value.dtype != torch.bool:
        raise ValueError(f"`mask` must be a bool tensor, got {value.dtype}")
    if value.shape != preds.shape:
        raise ValueError(f"`mask` must have the shape of `preds`, {tuple(preds.shape)}, got {tuple(value.shape)}")


def counts_by_query(value: Mapping[Any, Any]) -> tuple[list[int], list[int]]:
    """The queries and the numbers of {query: m}: whole numbers that int64 holds, m at least 0."""
    queries, counts = [], []
    for key, m in value.items():
        query, relevant = _whole(key), _whole(m)
        if query is None:
            raise ValueError(f"`num_relevant` must have int queries as keys, from -2^63 to 2^63 - 1, got {key!r}")
        if relevant is None or relevant < 0:
            raise ValueError(f"`num_relevant` must hold ints of at least 0 and below 2^63, got {m!r} for query {query}")
        queries.append(query)
        counts.append(relevant)
    return queries, counts


def counts_tensor(value: Any, shape: torch.Size, what: str) -> None:
    """Integers of the given shape."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`num_relevant` must be a tensor, a dict or None, got {type(value).__name__}")
    _integers("num_relevant", value)
    if value.shape != shape:
        raise ValueError(f"`num_relevant` must have shape {tuple(shape)}, {what}, got {tuple(value.shape)}")


def count(value: Any) -> int:
    """The number of relevant items of one ranking, at least 0."""
    m = _whole(value)
    if m is None or m < 0:
        raise ValueError(f"`num_relevant` of one ranking must be an int from 0 to 2^63 - 1 or None, got {value!r}")
    return m


def _integers(name: str, value: Tensor) -> None:
    """A tensor of integers that int64 holds, as its dtype says."""
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"`{name}` must be an integer tensor, got {value.dtype}")
    if value.dtype == torch.uint64:
        raise ValueError(
            f"`{name}` must be of a dtype whose numbers int64 holds, got {value.dtype}; where all of them are below "
            f"2^63 give `{name}.long()`"
        )


def _whole(value: Any) -> int | None:
    """What can index a list, as an int, if int64 holds it; else, and for a bool, None."""
    try:
        number = operator.index(value)
    except TypeError:
        return None
    return number if not isinstance(value, bool) and -(1 << 63) <= number < 1 << 63 else None


def values(preds: Tensor, target: Tensor, num_relevant: Tensor | None, *, grades: bool) -> Tensor | None:
    """The rules about values, those of ``checks.VALUE_RULES`` that concern queries.

    Args:
        preds: scores, of any shape; those that do not count replaced by something harmless.
        target: of any shape, likewise.
        num_relevant: of any shape, or None.
        grades: whether targets must be whole numbers of at least 0.

    Returns:
        On CPU None. On an accelerator a bool for each rule, true where it is broken, computed without a sync.

    Raises:
        ValueError: on CPU, for the first rule broken.
    """
    looks: dict[int, tuple[Tensor, Callable[[Tensor], Tensor]]] = {}
    if preds.is_floating_point() and preds.numel():
        looks[_NAN_SCORE] = (preds, torch.isnan)
    if target.is_floating_point() and target.numel():
        looks[_NAN_TARGET] = (target, torch.isnan)
    if grades and target.numel() and target.dtype not in (torch.bool, torch.uint8):
        looks[_NO_GRADE] = (target, _no_grade)
    if num_relevant is not None and num_relevant.numel():
        looks[_NEGATIVE_COUNT] = (num_relevant, _negative)
    on_cpu = preds.device.type == "cpu"
    broken = torch.zeros(len(checks.VALUE_RULES), dtype=torch.bool, device=preds.device)
    for rule, (tensor, offends) in looks.items():
        extreme = _extreme_for(rule, tensor)
        if not on_cpu:
            broken[rule] = offends(extreme)
        elif bool(offends(extreme)):
            place = tuple(offends(tensor).nonzero()[0].tolist())
            where = place[0] if len(place) == 1 else place
            raise ValueError(f"{checks.VALUE_RULES[rule]}; got {tensor[place].item()} at index {where}")
    return None if on_cpu else broken


def _extreme_for(rule: int, tensor: Tensor) -> Tensor:
    """A 0-d value that breaks the rule if any value of the tensor does."""
    if rule == _NO_GRADE and tensor.is_floating_point():
        return torch.where(_no_grade(tensor), -1.0, 0.0).min()
    return tensor.min() if rule in (_NO_GRADE, _NEGATIVE_COUNT) else _greatest(tensor)  # with NaN, NaN


def _no_grade(value: Tensor) -> Tensor:
    return (value < 0) | (value != value.trunc()) if value.is_floating_point() else value < 0


def _negative(value: Tensor) -> Tensor:
    return value < 0


def _greatest(values: Tensor) -> Tensor:
    """The greatest value, 0-d; NaN where there is one. On CPU by NumPy, which has
    vectorised reductions of small integers.
    """
    if values.device.type != "cpu" or values.dtype == torch.bfloat16:
        return values.max()
    return torch.as_tensor(values.detach().numpy().max())
