"""The rules about detections and ground truths. A message names list, image and key: ``preds[3]['boxes']``.

As in :mod:`torch_ap.rules.checks`, form is checked at once everywhere; values at once on CPU, and as flags on an
accelerator.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_ap.rules.messages import shown

VALUE_RULES = (
    "`boxes` must be finite",
    "`scores` must not hold NaN",
    "`iscrowd` and `difficult` must hold 0 and 1",
    "`area` must not hold NaN",
    "`ious` must not hold NaN",
    "`counts` must be at least 0 and add up to the number of rows",
    "`boxes` in `target` must have no negative width or height in `box_format`",
)
_RULE_OF = {"boxes": 0, "scores": 1, "iscrowd": 2, "difficult": 2, "area": 3, "ious": 4, "counts": 5}
_NEGATIVE_SIZE = 6
_SAID = {
    "boxes": "must be finite",
    "scores": "must not hold NaN",
    "iscrowd": "must hold 0 and 1",
    "difficult": "must hold 0 and 1",
    "area": "must not hold NaN",
    "ious": "must not hold NaN",
}


def lists(preds: Any, target: Any) -> None:
    """Two lists (or tuples) of dicts, of one length."""
    for name, value in (("preds", preds), ("target", target)):
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError(
                f"`{name}` must be a list of dicts, one an image, or one dict with `counts`, got {type(value).__name__}"
            )
        for place, item in enumerate(value):
            if not isinstance(item, Mapping):
                raise ValueError(f"`{name}[{place}]` must be a dict, got {type(item).__name__}")
    if len(preds) != len(target):
        raise ValueError(f"`preds` and `target` must have the same length, got {len(preds)} and {len(target)}")


def column(name: str, key: str, values: Sequence[Any], lengths: Sequence[int] | None, width: int | None) -> NoReturn:
    """Say which image's ``key`` breaks a rule of form. Called when a look at all of them together found one that does.

    Args:
        name: "preds" or "target".
        key: of the dicts.
        values: its value in each dict.
        lengths: how many rows each must have, where that is known.
        width: number of columns, where there are any.
    """
    shape = "(N,)" if width is None else f"(N, {width})"
    for place, value in enumerate(values):
        where = f"`{name}[{place}]['{key}']`"
        if not isinstance(value, Tensor):
            raise ValueError(f"{where} must be a tensor, got {type(value).__name__}")
        fits = value.ndim == 1 if width is None else value.ndim == 2 and value.shape[1] == width
        if value.numel() and not fits:
            raise ValueError(f"{where} must have shape {shape}, got {tuple(value.shape)}")
        if value.numel() and not _dtype_fits(key, value.dtype):
            kind = "an integer" if key in _INTEGERS else "a real"
            more = ", whose numbers int64 does not hold" if value.dtype == torch.uint64 else ""
            raise ValueError(f"{where} must be {kind} tensor, got {value.dtype}{more}")
        if lengths is not None and len(value) != lengths[place]:
            raise ValueError(
                f"{where} must have one entry for each of {lengths[place]} scores or labels, got {len(value)}"
            )
    devices = sorted({str(value.device) for value in values})
    raise ValueError(f"`{key}` in `{name}` must lie on one device, got {', '.join(devices)}")


_INTEGERS = ("labels", "counts")


def _dtype_fits(key: str, dtype: torch.dtype) -> bool:
    if dtype.is_complex:
        return False
    if key in _INTEGERS:
        return not dtype.is_floating_point and dtype not in (torch.bool, torch.uint64)
    return dtype != torch.bool or key in ("iscrowd", "difficult")


def form_fits(key: str, values: Sequence[Any], lengths: Sequence[int] | None, width: int | None) -> bool:
    """Whether all values keep the rules of form. Empty ones may have any dtype, and any shape that begins with 0."""
    if not all(isinstance(value, Tensor) for value in values):
        return False
    shapes = [value.shape for value in values]
    tail = () if width is None else (width,)
    if any(not shape or (shape[0] and shape[1:] != tail) for shape in shapes):
        return False
    if lengths is not None and [shape[0] for shape in shapes] != list(lengths):
        return False
    dtypes = {value.dtype for value in values}
    if not all(_dtype_fits(key, dtype) for dtype in dtypes):
        dtypes = {value.dtype for value, shape in zip(values, shapes, strict=True) if shape[0]}
        if not all(_dtype_fits(key, dtype) for dtype in dtypes):
            return False
    return len({value.device for value in values}) <= 1


def missing(name: str, items: Sequence[Mapping[str, Any]], key: str) -> None:
    """Every dict has the key."""
    for place, item in enumerate(items):
        if key not in item:
            raise ValueError(f"`{name}[{place}]` must have the key '{key}', got {shown(sorted(item, key=str))}")


def counts(name: str, value: Any, total: int) -> None:
    """``counts`` of the packed form: integers of at least 0 that add up to the number of rows."""
    if not isinstance(value, Tensor) or value.ndim != 1 or not _dtype_fits("counts", value.dtype):
        raise ValueError(f"`{name}['counts']` must be a 1-D integer tensor, got {shown(value)}")
    if value.device.type == "cpu" and len(value) and (int(value.min()) < 0 or int(value.sum()) != total):
        raise ValueError(
            f"`{name}['counts']` must be at least 0 and add up to the number of rows, {total}; "
            f"got {shown(value.tolist())}"
        )


def counts_flag(value: Tensor, total: int) -> Tensor | None:
    """The rule about the sum of ``counts`` on an accelerator; None on CPU, where :func:`counts` has looked."""
    if value.device.type == "cpu":
        return None
    flags = torch.zeros(len(VALUE_RULES), dtype=torch.bool, device=value.device)
    flags[_RULE_OF["counts"]] = (value < 0).any() | (value.sum() != total)
    return flags


def broken_values(name: str, key: str, values: Tensor, image: Tensor | None) -> Tensor | None:
    """The rule about values of one column.

    Args:
        name: "preds" or "target".
        key: of the dicts.
        values: the column.
        image: (rows,) image of each row, needed where something is wrong; None if unknown.

    Returns:
        On CPU None. On an accelerator (R,) bool, true where a rule of ``VALUE_RULES`` is broken.

    Raises:
        ValueError: on CPU, where it is broken.
    """
    return _refused(_bad(key, values), _RULE_OF[key], (name, key), _SAID[key], values, image)


def negative_sizes(values: Tensor, box_format: str, image: Tensor | None) -> Tensor | None:
    """The rule that ground-truth boxes have no negative size, which sizes read as corners break. Detections may.

    Args:
        values: (N, 4) boxes.
        box_format: of them.
        image: (N,) image of each, needed where something is wrong; None if unknown.

    Returns:
        On CPU None. On an accelerator (R,) bool, true where a rule of ``VALUE_RULES`` is broken.

    Raises:
        ValueError: on CPU, where it is broken.
    """
    corners = box_format == "xyxy"
    bad = values[:, 2:] < (values[:, :2] if corners else 0)
    said = "have x1 <= x2 and y1 <= y2" if corners else "have no negative width or height"
    return _refused(
        bad, _NEGATIVE_SIZE, ("target", "boxes"), f"must {said}, by `box_format='{box_format}'`", values, image
    )


def _refused(
    bad: Tensor, rule: int, place: tuple[str, str], said: str, values: Tensor, image: Tensor | None
) -> Tensor | None:
    """What :func:`broken_values` returns and raises, where ``bad`` values of a (side, key) break a rule."""
    if values.device.type != "cpu":
        flags = torch.zeros(len(VALUE_RULES), dtype=torch.bool, device=values.device)
        flags[rule] = bad.any()
        return flags
    if bool(bad.any()):
        name, key = place
        row = int(bad.reshape(len(values), -1).any(1).nonzero()[0])
        where = f"`{name}['{key}']`" if image is None else f"`{name}[{int(image[row])}]['{key}']`"
        raise ValueError(f"{where} {said}, got {shown(values[row].tolist())}")
    return None


def _bad(key: str, values: Tensor) -> Tensor:
    if key == "boxes":
        return ~torch.isfinite(values)
    if key in ("iscrowd", "difficult"):
        return (values != 0) & (values != 1)
    return torch.isnan(values)


def numbers(name: str, value: Any, *, low: float, high: float) -> None:
    """A list (or tuple) of numbers in [low, high], one at least."""
    fits = isinstance(value, list | tuple) and len(value)
    if not fits or not all(isinstance(x, int | float) and not isinstance(x, bool) and low <= x <= high for x in value):
        raise ValueError(f"`{name}` must be None or a list of numbers in [{low:g}, {high:g}], got {shown(value)}")


def detection_limits(value: Any) -> None:
    """A list of ints of at least 1."""
    fits = isinstance(value, list | tuple) and len(value)
    if not fits or not all(isinstance(x, int) and not isinstance(x, bool) and x >= 1 for x in value):
        raise ValueError(f"`max_detection_thresholds` must be None or a list of ints of at least 1, got {shown(value)}")


def area_ranges(value: Any) -> None:
    """A dict of name to (low, high), low <= high, no NaN."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"`area_ranges` must be None or a dict of names to (low, high), got {shown(value)}")
    for name, bounds in value.items():
        pair = isinstance(bounds, list | tuple) and len(bounds) == 2
        pair = pair and all(isinstance(x, int | float) and not isinstance(x, bool) for x in bounds)
        if not isinstance(name, str) or not pair or not bounds[0] <= bounds[1]:
            raise ValueError(
                f"`area_ranges` must map names to (low, high) with low <= high, got {shown({name: bounds})}"
            )


def place_among(name: str, value: Any, allowed: Sequence[float]) -> int:
    """Where a number stands among those allowed, as 0.9 does for COCO's 0.8999999999999999.

    Raises:
        ValueError: where it is none of them.
    """
    number = not isinstance(value, bool) and isinstance(value, int | float)
    places = [place for place, one in enumerate(allowed) if number and math.isclose(one, value, abs_tol=1e-9)]
    if not places:
        raise ValueError(f"`{name}` must be one of {', '.join(f'{x:g}' for x in allowed)}, got {shown(value)}")
    return places[0]
