"""The rules about the form of tensors: types, shapes, dtypes, devices; known without looking at the data."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.rules.checks import whole
from torch_ap.rules.messages import Plain, refuse, shown

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SCORES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, *INTEGERS)
_HELD_BY = {torch.int16: torch.float32, torch.int32: torch.float64}  # narrower integers fit in every float
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # which torch neither compares nor sorts


def tensor(name: str, value: Any, *, hint: str = " (see `torch.as_tensor`)") -> None:
    """A tensor."""
    if not isinstance(value, Tensor):
        refuse(name, f"must be a tensor{hint}", Plain(f"{type(value).__name__}{_to_write(name, value)}"), TypeError)


def _to_write(name: str, value: Any) -> str:
    """How what holds numbers becomes a tensor; names, where they are those of queries, by an encoder."""
    column = hasattr(value, "to_numpy")
    if not column and not isinstance(value, list | tuple | np.ndarray):
        return ""
    try:
        array = np.asarray(value.to_numpy() if column else value)
    except ValueError:  # lists of unequal length
        return ""
    if array.dtype.kind not in "biuf":
        return f"; write `torch_ap.IndexEncoder()({name})`" if name == "indexes" else ""
    if isinstance(value, list | tuple):
        return f"; write `torch.tensor({name})`"
    return f"; write `torch.from_numpy({name}{'.to_numpy()' if column else ''})`"


def scores(name: str, value: Any) -> None:
    """A real tensor; bool is a decision, not a score."""
    tensor(name, value)
    if value.dtype not in SCORES:
        refuse(name, "must be a floating or integer tensor", value.dtype)


def numbers(name: str, value: Any) -> None:
    """A 1-D tensor of at least one real number."""
    tensor(name, value)
    if value.ndim != 1 or not value.numel() or value.dtype not in SCORES:
        refuse(name, "must be 1-D, floating or integer and not empty", _form(value))


def recall_levels(name: str, levels: Any) -> None:
    """A 1-D tensor of numbers in [0, 1]."""
    tensor(name, levels)
    if levels.ndim != 1 or not levels.numel() or not levels.is_floating_point():
        refuse(name, "as a tensor must be 1-D, floating and not empty", _form(levels))
    low, high = map(float, levels.aminmax())  # NaN where there is one
    if not 0 <= low <= high <= 1:
        refuse(name, "as a tensor must hold recall levels in [0, 1]", levels.tolist())


def depths(name: str, value: Any, most: float) -> None:
    """A 1-D tensor of numbers in [0, most]."""
    tensor(name, value, hint=" or None")
    if value.ndim != 1 or value.is_complex() or not bool(((value >= 0) & (value <= most)).all()):
        refuse(name, f"must be 1-D and hold numbers in [0, {most:g}]", value)


def integer_target(value: Any) -> None:
    """An int or bool tensor."""
    tensor("target", value)
    if value.dtype not in INTEGERS and value.dtype != torch.bool:
        refuse("target", "must be an integer or bool tensor (see `target.long()`)", value.dtype)


def graded_target(value: Any) -> None:
    """A real tensor: 0 and 1, bool, or grades."""
    tensor("target", value)
    if value.is_complex() or value.dtype in UNSIGNED:
        refuse("target", "must be a floating, bool, uint8 or signed integer tensor", value.dtype)


def integers(name: str, value: Tensor) -> None:
    """A tensor of integers that int64 holds, as its dtype says."""
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        refuse(name, "must be an integer tensor", value.dtype)
    if value.dtype == torch.uint64:
        given = Plain(f"{value.dtype}; where all of them are below 2^63 give `{name}.long()`")
        refuse(name, "must be of a dtype whose numbers int64 holds", given)


def shape(name: str, value: Tensor, allowed: Sequence[torch.Size], what: str = "", *, of: str = "") -> None:
    """``value`` has one of the shapes, which may be that ``of`` another argument."""
    if value.shape not in allowed:
        choices = " or ".join(str(tuple(one)) for one in allowed)
        known = f"the shape of `{of}`, {choices}" if of else f"shape {choices}"
        refuse(name, f"must have {known}{what}", Plain(tuple(value.shape)))


def weights_form(value: Any, shapes: Sequence[torch.Size]) -> None:
    """A floating or integer tensor of one of the ``shapes``."""
    tensor("weights", value, hint=" or None")
    if value.dtype not in SCORES:
        refuse("weights", "must be a floating or integer tensor", value.dtype)
    shape("weights", value, shapes)


def indexes(value: Any, preds: Tensor) -> None:
    """Integers of the shape of ``preds``."""
    tensor("indexes", value, hint=" or None")
    integers("indexes", value)
    shape("indexes", value, [preds.shape], of="preds")


def mask(value: Any, preds: Tensor, name: str = "mask") -> None:
    """A bool tensor of the shape of ``preds``."""
    tensor(name, value, hint=" or None")
    if value.dtype != torch.bool:
        refuse(name, "must be a bool tensor", value.dtype)
    shape(name, value, [preds.shape], of="preds")


def same_shape(preds: Tensor, target: Tensor) -> None:
    """``preds`` and ``target`` of one shape, with one dimension at least."""
    if preds.shape != target.shape:
        raise ValueError(
            f"`preds` and `target` must have the same shape, got {tuple(preds.shape)} and {tuple(target.shape)}"
        )
    if not preds.ndim:
        raise ValueError("`preds` and `target` must have at least one dimension, got 0-D tensors")


def rows(name: str, value: Tensor) -> None:
    """One ranking, or one per row."""
    if value.ndim not in (1, 2):
        refuse(name, "must have shape (N,) or (Q, N)", Plain(tuple(value.shape)))


def query_rows(preds: Tensor) -> None:
    """Without ``indexes``, ``preds`` is (Q, D)."""
    if preds.ndim != 2:
        rule = "must be (Q, D) with one query per row where `indexes` are not given"
        refuse("preds", rule, Plain(f"shape {tuple(preds.shape)}"))


def columns(preds: Tensor, width: int, name: str) -> None:
    """``preds`` is (N, ``width``, ...)."""
    if preds.ndim < 2 or preds.shape[1] != width:
        refuse("preds", f"must have shape (N, {width}, ...) for `{name}={width}`", Plain(tuple(preds.shape)))


def class_target(preds: Tensor, target: Tensor) -> None:
    """``target`` is ``preds`` without its second dimension."""
    known = preds.shape[:1] + preds.shape[2:]
    if target.shape != known:
        rule = f"must have the shape of `preds` without its class dimension, {tuple(known)}"
        refuse("target", rule, Plain(tuple(target.shape)))


def counts_by_query(value: Mapping[Any, Any]) -> tuple[list[int], list[int]]:
    """The queries and the numbers of {query: m}: whole numbers that int64 holds, m at least 0."""
    queries, counts = [], []
    for key, m in value.items():
        query, relevant = whole(key), whole(m)
        if query is None:
            refuse("num_relevant", "must have int queries as keys, from -2^63 to 2^63 - 1", key)
        if relevant is None or relevant < 0:
            given = Plain(f"{shown(m)} for query {query}")
            refuse("num_relevant", "must hold ints of at least 0 and below 2^63", given)
        queries.append(query)
        counts.append(relevant)
    return queries, counts


def counts(value: Any, wanted: torch.Size, what: str) -> None:
    """Integers of the given shape."""
    tensor("num_relevant", value, hint=", a dict or None")
    integers("num_relevant", value)
    shape("num_relevant", value, [wanted], f", {what}")


def same_device(**tensors: Tensor | None) -> None:
    """All tensors lie on one device."""
    devices = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"`{name}` on {device}" for name, device in devices.items())
        raise ValueError(f"all tensors must lie on one device, got {places}")


def paired_lengths(**tensors: Tensor) -> None:
    """1-D tensors of one length, on one device."""
    if len({len(value) for value in tensors.values()}) > 1:
        lengths = " and ".join(f"{len(value)} of `{name}`" for name, value in tensors.items())
        raise ValueError(f"{' and '.join(f'`{x}`' for x in tensors)} must have one length, got {lengths}")
    same_device(**tensors)


def paired(**given: Any) -> None:
    """1-D tensors of real numbers, of one length, on one device."""
    for name, value in given.items():
        scores(name, value)
        if value.ndim != 1:
            refuse(name, "must be 1-D", Plain(f"shape {tuple(value.shape)}"))
    paired_lengths(**given)


def no_weights(weights: Tensor | None, what: str) -> None:
    """Item weights are refused where the formulas count items."""
    if weights is not None:
        given = Plain(tuple(weights.shape))
        refuse("weights", f"must be None for {what}, whose formulas count items", given)


def common_dtype(name: str, dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """The narrowest dtype that holds every number of all these, so that no two different ones become one.

    torch's own promotion takes int64 beside float32 for float32, and 2^24 + 1 for 2^24.

    Raises:
        ValueError: for int64 beside floats, which no dtype holds both.
    """
    given = set(dtypes)
    found = functools.reduce(torch.promote_types, given)
    if not found.is_floating_point:
        return found
    if torch.int64 in given:
        kinds = " and ".join(sorted(str(dtype) for dtype in given))
        raise ValueError(
            f"`{name}` must not be int64 where others are floating, as no dtype holds the numbers of both, "
            f"got {kinds}; where all are below 2^53 give `{name}.double()`"
        )
    for integer, real in _HELD_BY.items():
        found = torch.promote_types(found, real) if integer in given else found
    return found


def returned(argument: str, rule: str, value: Any, shape: tuple[int, ...]) -> None:
    """What a function of the user's gives: a real tensor of this shape."""
    if not isinstance(value, Tensor) or value.shape != shape or value.is_complex():
        refuse(argument, rule, _form(value) if isinstance(value, Tensor) else Plain(type(value).__name__))


def _form(value: Tensor) -> Plain:
    return Plain(f"shape {tuple(value.shape)}, {value.dtype}")
