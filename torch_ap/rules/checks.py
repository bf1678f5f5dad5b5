"""The rules about settings: options, numbers, lists of numbers, the size of a ranking.

Rules that several functions share stand once, in one of four modules (what a single function asks may stand with it):
settings here; the form of tensors (types, shapes, dtypes, devices), known without looking at the data, in
:mod:`torch_ap.rules.tensors`; that of detections, which come as lists of dicts, in :mod:`torch_ap.rules.images`; what
the data hold in :mod:`torch_ap.rules.values`. :func:`torch_ap.rules.messages.refuse` tells of one value that breaks a
rule: the argument, the rule, the value.
"""

import math
import operator
import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from torch_ap.rules import area_names
from torch_ap.rules.messages import refuse

_SAME_SETTING = 1e-9  # 0.9 and COCO's 0.8999999999999999 are one; no two settings lie as close on purpose
_BEYOND_BOUNDS = 1e-6  # share of the width by which float32 values, and sums of them, may leave their bounds
_TOO_MANY = 1 << 62
_MOST_BINS = 1 << 24
_MOST_BETA = 1e154  # its square is a finite float


def one_of(name: str, value: Any, allowed: Sequence[Any], *, or_else: str = "") -> None:
    """``value`` is one of the allowed options."""
    if not any(value is option or (isinstance(value, str) and value == option) for option in allowed):
        choices = ", ".join(map(repr, allowed)) + (f" or {or_else}" if or_else else "")
        refuse(name, f"must be one of {choices}", value)


def place_among(name: str, value: Any, allowed: Sequence[float]) -> int:
    """Where a number stands among those allowed, as 0.9 does for COCO's 0.8999999999999999.

    Raises:
        ValueError: where it is none of them.
    """
    known = is_number(value)
    places = [place for place, one in enumerate(allowed) if known and math.isclose(one, value, abs_tol=_SAME_SETTING)]
    if not places:
        refuse(name, f"must be one of {', '.join(f'{x:g}' for x in allowed)}", value)
    return places[0]


def positive_int(name: str, value: Any, *, least: int = 1, optional: bool = False, words: tuple[str, ...] = ()) -> Any:
    """``value`` as an int of at least ``least``, or None where optional, or one of ``words``; a bool is no int."""
    if (value is None and optional) or (isinstance(value, str) and value in words):
        return value
    found = _index(value)
    if found is None or not least <= found < _TOO_MANY:
        most = "" if found is None or found < _TOO_MANY else " and below 2^62"
        others = "".join(f", {word!r}" for word in words) + " or None" * optional
        refuse(name, f"must be an int of at least {least}{most}{others}", value)
    return found


def top_k(name: str, value: Any) -> Any:
    """``value`` as an int of at least 1, or "relevant", or None."""
    return positive_int(name, value, optional=True, words=("relevant",))


def integer(name: str, value: Any) -> Any:
    """``value`` as an int, or None; a bool is not an int here."""
    found = None if value is None else _index(value)
    if found is None and value is not None:
        refuse(name, "must be an int or None", value)
    return found


def boolean(name: str, value: Any) -> None:
    """``value`` is a bool."""
    if not isinstance(value, bool):
        refuse(name, "must be a bool", value)


def text(name: str, value: Any, *, optional: bool = False) -> None:
    """``value`` is a str (or None, where optional)."""
    if not isinstance(value, str) and not (value is None and optional):
        refuse(name, f"must be a str{' or None' if optional else ''}", value, TypeError)


def not_negative(name: str, value: Any) -> None:
    """``value`` is a finite number of at least 0."""
    if not is_number(value) or not 0 <= value < math.inf:
        refuse(name, "must be a finite number of at least 0", value)


def positive(name: str, value: Any) -> None:
    """``value`` is a finite number above 0."""
    if not is_number(value) or not 0 < value < math.inf:
        refuse(name, "must be a finite number above 0", value)


def beta(name: str, value: Any, *, zero: bool = False) -> None:
    """``value`` is the beta of an F measure, above 0 or, with ``zero``, 0; its square is a finite float."""
    (not_negative if zero else positive)(name, value)
    if value > _MOST_BETA:
        refuse(name, f"must be at most {_MOST_BETA:g}, so that its square is finite", value)


def fraction(name: str, value: Any) -> None:
    """``value`` is a number in [0, 1]."""
    if not is_number(value) or not 0 <= value <= 1:
        refuse(name, "must be a number in [0, 1]", value)


def positive_fraction(name: str, value: Any) -> None:
    """``value`` is a number in (0, 1]."""
    if not is_number(value) or not 0 < value <= 1:
        refuse(name, "must be a number above 0 and at most 1", value)


def open_fraction(name: str, value: Any) -> float:
    """``value`` as a float, which must lie between 0 and 1, as a confidence level."""
    if not is_number(value) or not 0 < float(value) < 1:
        refuse(name, "must be a number between 0 and 1, ends excluded", value)
    return float(value)


def finite(name: str, value: Any) -> None:
    """``value`` is a finite number, or None."""
    if value is not None and (not is_number(value) or not abs(value) <= sys.float_info.max):
        refuse(name, "must be a finite number", value)


def number(name: str, value: Any, rule: str = "must be a number other than NaN") -> float:
    """A number other than NaN, or a tensor of one, as a float; infinities are numbers."""
    one = is_number(value) or (isinstance(value, Tensor) and value.numel() == 1 and is_real(value.dtype))
    if not one or value != value:
        refuse(name, rule, value)
    return float(value)


def numbers_in(name: str, value: Any, *, low: float, high: float) -> None:
    """A list (or tuple) of at least one number in [low, high]."""
    if not (isinstance(value, list | tuple) and value and all(is_number(x) and low <= x <= high for x in value)):
        refuse(name, f"must be None or a list of numbers in [{low:g}, {high:g}]", value)


def positive_ints(name: str, value: Any) -> list[Any]:
    """A list (or tuple) of ints of at least 1, one at least, as ints."""
    found = list(map(_index, value)) if isinstance(value, list | tuple) else []
    if not found or any(x is None or x < 1 for x in found):
        refuse(name, "must be None or a list of ints of at least 1", value)
    return found


def ranks(name: str, value: Any) -> list[Any]:
    """A sequence of different ints of at least 1, one at least, as ints."""
    found = list(map(_index, value)) if isinstance(value, Sequence) and not isinstance(value, str) else []
    if not found or any(x is None or x < 1 for x in found) or len(set(found)) < len(found):
        refuse(name, "must be a list of different ints of at least 1", value)
    return found


def ranges(name: str, value: Any) -> None:
    """A dict of names to (low, high), low <= high, no NaN; no number has the names already."""
    if not isinstance(value, Mapping) or not value:
        refuse(name, "must be None or a dict of names to (low, high)", value)
    for key, bounds in value.items():
        pair = isinstance(bounds, list | tuple) and len(bounds) == 2 and all(map(is_number, bounds))
        if not isinstance(key, str) or not pair or not bounds[0] <= bounds[1]:
            refuse(name, "must map names to (low, high) with low <= high", {key: bounds})
        if area_names.is_taken(key):
            refuse(name, f"must have names of their own: {area_names.RULE}", key)


def floating_dtype(name: str, value: Any) -> None:
    """A floating ``torch.dtype``, or None."""
    if value is not None and not (isinstance(value, torch.dtype) and value.is_floating_point):
        refuse(name, "must be a floating torch.dtype or None", value)


def thresholds(value: Any) -> None:
    """None, an int of at least 2, a list of floats, or a 1-D tensor of floats; no NaN."""
    if isinstance(value, int):
        positive_int("thresholds", value, least=2)
    elif isinstance(value, list):
        if not value or not all(is_number(x) and x == x for x in value):
            refuse("thresholds", "as a list must hold numbers, one at least and no NaN", value)
    elif isinstance(value, Tensor):
        if value.ndim != 1 or not _known_numbers(value):
            refuse("thresholds", "as a tensor must be 1-D, not empty and free of NaN", value)
    elif value is not None:
        refuse("thresholds", "must be None, an int, a list of floats or a 1-D tensor", value)


def bins(value: Any) -> Any:
    """One of "half" and "adaptive", an int of at least 2, or edges: a list of finite floats or a 1-D tensor of them."""
    if isinstance(value, str):
        one_of("bins", value, ("half", "adaptive"), or_else="an int, a list of floats or a 1-D tensor")
    elif _index(value) is not None:
        value = positive_int("bins", value, least=2)
        if value > _MOST_BINS:
            refuse("bins", f"must be at most {_MOST_BINS:,}, which float32 counts", value)
    elif isinstance(value, list):
        if not value or not all(is_number(x) and abs(x) <= sys.float_info.max for x in value):
            refuse("bins", "as a list must hold finite numbers, one at least", value)
    elif isinstance(value, Tensor):
        if not (value.ndim == 1 and _known_numbers(value) and bool(torch.isfinite(value).all())):
            refuse("bins", "as a tensor must be 1-D, not empty and finite", value)
    else:
        refuse("bins", "must be None, 'half', 'adaptive', an int, a list of floats or a 1-D tensor", value)
    return value


def threshold(value: Any) -> None:
    """One number other than NaN, or a 1-D tensor of such."""
    if isinstance(value, Tensor):
        if value.ndim > 1 or not _known_numbers(value):
            refuse("threshold", "as a tensor must be 0-D or 1-D, not empty and free of NaN", value)
    elif not is_number(value) or value != value:
        refuse("threshold", "must be a number other than NaN, or a tensor of them", value)


def count(name: str, value: Any, of: str) -> int:
    """What can index a list, as an int: from 0 to 2^63 - 1; the message says ``of`` what it is the number."""
    found = whole(value)
    if found is None or found < 0:
        refuse(name, f"of {of} must be an int from 0 to 2^63 - 1 or None", value)
    return found


def whole(value: Any) -> int | None:
    """What can index a list, a tensor too, as an int, if int64 holds it; else, and for a bool, None."""
    found = _index(value, tensors=True)
    return found if found is not None and -(1 << 63) <= found < 1 << 63 else None


def any_int(name: str, value: Any) -> None:
    """An int of any size, or NumPy's; a bool is not an int here."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        refuse(name, "must be an int", value)


def ranking_size(n: Any, m: Any) -> tuple[int, int]:
    """``n`` items, at least one, and ``m`` of them relevant, from 0 to n; as ints."""
    n, m = positive_int("n", n), positive_int("m", m, least=0)
    if m > n:
        raise ValueError(f"`m` must be at most `n`, the number of items, got m={m}, n={n}")
    return n, m


def rank(name: str, value: Any, n: int) -> int:
    """A rank from 1 to n, as an int."""
    found: int = positive_int(name, value)
    if found > n:
        refuse(name, f"must be at most the number of items, {n}", value)
    return found


def within_bounds(bounds: Any, **given: Tensor) -> None:
    """None, or the least and the greatest number that values can be, which hold all of them."""
    if bounds is None:
        return
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2 and all(isinstance(x, Real) for x in bounds)
    if not pair or not float(bounds[0]) < float(bounds[1]):
        refuse("bounds", "must be None or two ascending numbers", bounds)
    slack = _BEYOND_BOUNDS * (bounds[1] - bounds[0])
    for name, values in given.items():
        outside = values[(values < bounds[0] - slack) | (values > bounds[1] + slack)]
        if len(outside):
            refuse(name, f"must lie within `bounds`, {bounds!r}", outside[0].item())


def names_of_classes(class_names: Any, count: int) -> list[str]:
    """The names given, which must be so many different ones; the numbers from 0 on where none are."""
    names = list(map(str, range(count))) if class_names is None else class_names
    fits = isinstance(names, list | tuple) and len(names) == count and all(isinstance(one, str) for one in names)
    if not fits or len(set(names)) != count:
        refuse("class_names", f"must be a list of {count} different names", class_names)
    return list(names)


def _index(value: Any, *, tensors: bool = False) -> int | None:
    """What can index a list, as an int; else, and for a bool, None; so for a tensor, which the host would wait for."""
    try:
        return None if isinstance(value, bool if tensors else bool | Tensor) else operator.index(value)
    except TypeError:
        return None


def is_real(dtype: torch.dtype) -> bool:
    """Whether values are numbers that can be compared."""
    return dtype != torch.bool and not dtype.is_complex


def is_number(value: Any) -> bool:
    """Whether it is one, which a bool is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _known_numbers(value: Tensor) -> bool:
    return bool(value.numel()) and not value.is_complex() and not bool(torch.isnan(value).any())
