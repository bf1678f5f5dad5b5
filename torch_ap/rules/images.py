"""The rules about the form of images: lists of dicts, or dicts with ``counts``. A message names list, image and key."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_ap.rules.messages import Plain, refuse
from torch_ap.rules.tensors import SCORES, UNSIGNED

_INTEGERS = ("labels", "counts", "neg_category_ids", "not_exhaustive_category_ids")


def lists(preds: Any, target: Any) -> None:
    """Two lists (or tuples) of dicts, of one length."""
    for name, value in (("preds", preds), ("target", target)):
        if not isinstance(value, Sequence) or isinstance(value, str):
            rule = "must be a list of dicts, one per image, or one dict with `counts`"
            refuse(name, rule, Plain(type(value).__name__))
        for place, item in enumerate(value):
            if not isinstance(item, Mapping):
                refuse(f"{name}[{place}]", "must be a dict", Plain(type(item).__name__))
    if len(preds) != len(target):
        raise ValueError(f"`preds` and `target` must have the same length, got {len(preds)} and {len(target)}")


def column(
    name: str,
    key: str,
    values: Sequence[Any],
    lengths: Sequence[int] | None,
    row: tuple[int, ...] = (),
    *,
    packed: bool = False,
) -> NoReturn:
    """Say which image's ``key`` breaks a rule of form. Called when a look at all of them together found one that does.

    Args:
        name: "preds" or "target".
        key: of the dicts.
        values: its value in each dict.
        lengths: how many rows each must have, where that is known.
        row: shape of each row.
        packed: whether the one dict is all images.
    """
    shape = f"({', '.join(map(str, ('N', *row)))}{'' if row else ','})"
    for place, value in enumerate(values):
        where = f"{_dict_of(name, place, packed)}['{key}']"
        if not isinstance(value, Tensor):
            refuse(where, "must be a tensor", Plain(type(value).__name__))
        if value.numel() and (not value.ndim or value.shape[1:] != row):
            points = ", a point for each of `sigmas`" if key == "keypoints" else ""
            refuse(where, f"must have shape {shape}{points}", Plain(tuple(value.shape)))
        if value.numel() and not _dtype_fits(key, value.dtype):
            kind = "an integer" if key in _INTEGERS else "a real"
            more = ", whose numbers int64 does not hold" if value.dtype == torch.uint64 else ""
            more = ", which torch does not sort" if key == "scores" and value.dtype in UNSIGNED else more
            refuse(where, f"must be {kind} tensor", Plain(f"{value.dtype}{more}"))
        if lengths is not None and len(value) != lengths[place]:
            refuse(where, f"must have one entry for each of {lengths[place]} scores or labels", len(value))
    devices = sorted({str(value.device) for value in values})
    refuse(f"{key}` in `{name}", "must lie on one device", Plain(", ".join(devices)))


def form_fits(key: str, values: Sequence[Any], lengths: Sequence[int] | None, row: tuple[int, ...] = ()) -> bool:
    """Whether all values keep the rules of form. Empty ones may have any dtype, and any shape that begins with 0."""
    if not all(isinstance(value, Tensor) for value in values):
        return False
    shapes = [value.shape for value in values]
    if any(not shape or (shape[0] and shape[1:] != row) for shape in shapes):
        return False
    if lengths is not None and [shape[0] for shape in shapes] != list(lengths):
        return False
    dtypes = {value.dtype for value in values}
    if not all(_dtype_fits(key, dtype) for dtype in dtypes):
        dtypes = {value.dtype for value, shape in zip(values, shapes, strict=True) if shape[0]}
        if not all(_dtype_fits(key, dtype) for dtype in dtypes):
            return False
    return len({value.device for value in values}) <= 1


def _dtype_fits(key: str, dtype: torch.dtype) -> bool:
    if dtype.is_complex:
        return False
    if key in _INTEGERS:
        return not dtype.is_floating_point and dtype not in (torch.bool, torch.uint64)
    if key == "scores":
        return dtype in SCORES
    return dtype != torch.bool or key in ("iscrowd", "difficult", "ignore", "group_of")


def missing(name: str, items: Sequence[Mapping[str, Any]], key: str, *, packed: bool = False) -> None:
    """Every dict has the key; ``packed``: the one that is all images."""
    for place, item in enumerate(items):
        if key not in item:
            refuse(_dict_of(name, place, packed), f"must have the key '{key}'", sorted(item, key=str))


def _dict_of(name: str, place: int, packed: bool) -> str:
    return name if packed else f"{name}[{place}]"


def counts(name: str, value: Any, total: int, key: str = "counts") -> None:
    """``counts`` of the packed form: integers of at least 0 that add up to the number of rows."""
    if not isinstance(value, Tensor) or value.ndim != 1 or not _dtype_fits("counts", value.dtype):
        refuse(f"{name}['{key}']", "must be a 1-D integer tensor", value)
    each = value.detach().numpy() if value.is_cpu else None
    if each is not None and len(each) and (each.min() < 0 or each.sum() != total):
        rule = f"must be at least 0 and add up to the number of rows, {total}"
        refuse(f"{name}['{key}']", rule, value.tolist())
