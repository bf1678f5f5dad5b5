"""Rules for settings: options, numbers, lists of numbers, the size of a ranking.

Rules for tensors, their types, shapes, dtypes, devices and values, are in :mod:`torch_ap.core.base.tensors`.
:func:`torch_ap.core.base.messages.raise_invalid` raises for a value that breaks a rule, with the argument, the rule and
the value.
"""

import math
import operator
import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import area_names
from torch_ap.core.base.messages import raise_invalid

_SAME_SETTING = 1e-9  # 0.9 equals COCO's 0.8999999999999999; intended differences are larger
_BOUNDS_TOLERANCE = 1e-6  # rounding of float32 values and their sums beyond the bounds, as a share of the width
_TOO_MANY = 1 << 62
_MOST_BINS = 1 << 24
_MOST_BETA = 1e154  # its square is a finite float


def one_of(name: str, value: Any, options: Sequence[Any], *, or_else: str = "") -> None:
    """Raise ValueError unless ``value`` is one of the allowed options."""
    if not any(value is option or (isinstance(value, str) and value == option) for option in options):
        choices = ", ".join(map(repr, options)) + (f" or {or_else}" if or_else else "")
        raise_invalid(name, f"must be one of {choices}", value)


def option_index(name: str, value: Any, options: Sequence[float]) -> int:
    """Return the index of a number among the options; 0.9 equals COCO's 0.8999999999999999.

    Raises:
        ValueError: if no option equals the number.
    """
    close = (is_number(value) and math.isclose(option, value, abs_tol=_SAME_SETTING) for option in options)
    if (index := next((i for i, is_close in enumerate(close) if is_close), None)) is None:
        raise_invalid(name, f"must be one of {', '.join(f'{x:g}' for x in options)}", value)
    return index


def positive_int(name: str, value: Any, *, least: int = 1, optional: bool = False, words: tuple[str, ...] = ()) -> Any:
    """Return an int of at least ``least``, not a bool; or None if ``optional``, or one of ``words``."""
    if (value is None and optional) or (isinstance(value, str) and value in words):
        return value
    number = _index(value)
    if number is None or not least <= number < _TOO_MANY:
        most = "" if number is None or number < _TOO_MANY else " and below 2^62"
        others = "".join(f", {word!r}" for word in words) + " or None" * optional
        raise_invalid(name, f"must be an int of at least {least}{most}{others}", value)
    return number


def top_k(name: str, value: Any) -> Any:
    """Return an int of at least 1, "relevant" or None."""
    return positive_int(name, value, optional=True, words=("relevant",))


def integer(name: str, value: Any) -> Any:
    """Return an int, not a bool, or None."""
    number = None if value is None else _index(value)
    if number is None and value is not None:
        raise_invalid(name, "must be an int or None", value)
    return number


def integers(name: str, value: Any) -> Any:
    """Return an int or None; the distinct ints of a sequence as an ascending tuple, a single one as an int."""
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    numbers = [None if value is None else _index(x) for x in (value if several else [value])]
    if value is not None and None in numbers:
        raise_invalid(name, "must be an int, a sequence of ints or None", value)
    distinct = sorted(set(numbers))  # type: ignore[type-var]
    return tuple(distinct) if len(distinct) > 1 else next(iter(distinct), None)


def boolean(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a bool."""
    if not isinstance(value, bool):
        raise_invalid(name, "must be a bool", value)


def text(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise TypeError unless ``value`` is a str, or None if ``optional``."""
    if not isinstance(value, str) and not (value is None and optional):
        raise_invalid(name, f"must be a str{' or None' if optional else ''}", value, TypeError)


def not_negative(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a finite number of at least 0."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise_invalid(name, "must be a finite number of at least 0", value)


def positive(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a finite number above 0."""
    if not is_number(value) or not 0 < value < math.inf:
        raise_invalid(name, "must be a finite number above 0", value)


def beta(name: str, value: Any, *, zero: bool = False) -> None:
    """Raise ValueError unless the beta of an F measure is positive, or with ``zero`` 0, and its square is finite."""
    (not_negative if zero else positive)(name, value)
    if value > _MOST_BETA:
        raise_invalid(name, f"must be at most {_MOST_BETA:g}, so that its square is finite", value)


def fraction(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a number in [0, 1]."""
    if not is_number(value) or not 0 <= value <= 1:
        raise_invalid(name, "must be a number in [0, 1]", value)


def positive_fraction(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a number in (0, 1]."""
    if not is_number(value) or not 0 < value <= 1:
        raise_invalid(name, "must be a number above 0 and at most 1", value)


def open_fraction(name: str, value: Any) -> float:
    """Return a number in (0, 1), such as a confidence level, as a float."""
    if not is_number(value) or not 0 < float(value) < 1:
        raise_invalid(name, "must be a number between 0 and 1, ends excluded", value)
    return float(value)


def finite(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a finite number or None."""
    if value is not None and (not is_number(value) or not abs(value) <= sys.float_info.max):
        raise_invalid(name, "must be a finite number", value)


def number(name: str, value: Any, rule: str = "must be a number other than NaN") -> float:
    """Return a number other than NaN, or a tensor with one such number, as a float; infinities are valid."""
    is_scalar = is_number(value) or (isinstance(value, Tensor) and value.numel() == 1 and is_real(value.dtype))
    if not is_scalar or value != value:
        raise_invalid(name, rule, value)
    return float(value)


def numbers_in(name: str, value: Any, *, low: float, high: float, optional: bool = True) -> None:
    """Raise ValueError unless ``value`` is a list or tuple of at least one number in [low, high].

    ``optional`` is whether the argument can also be None, for the message.
    """
    if not (isinstance(value, list | tuple) and value and all(is_number(x) and low <= x <= high for x in value)):
        raise_invalid(name, f"must be {_list_rule(optional)} of numbers in [{low:g}, {high:g}]", value)


def _list_rule(optional: bool) -> str:
    return "None or a list" if optional else "a list"


def positive_ints(name: str, value: Any, *, optional: bool = True) -> list[Any]:
    """Return a list or tuple of at least one int of at least 1 as a list of ints; ``optional`` as in `numbers_in`."""
    ints = list(map(_index, value)) if isinstance(value, list | tuple) else []
    if not ints or any(x is None or x < 1 for x in ints):
        raise_invalid(name, f"must be {_list_rule(optional)} of ints of at least 1", value)
    return ints


def ranks(name: str, value: Any) -> list[Any]:
    """Return a sequence of at least one int of at least 1, without duplicates, as a list of ints."""
    ints = list(map(_index, value)) if isinstance(value, Sequence) and not isinstance(value, str) else []
    if not ints or any(x is None or x < 1 for x in ints) or len(set(ints)) < len(ints):
        raise_invalid(name, "must be a list of different ints of at least 1", value)
    return ints


def ranges(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` maps unreserved names to (low, high) with low <= high."""
    if not isinstance(value, Mapping) or not value:
        raise_invalid(name, "must be None or a dict of names to (low, high)", value)
    for key, bounds in value.items():
        pair = isinstance(bounds, list | tuple) and len(bounds) == 2 and all(map(is_number, bounds))
        if not isinstance(key, str) or not pair or not bounds[0] <= bounds[1]:
            raise_invalid(name, "must map names to (low, high) with low <= high", {key: bounds})
        if area_names.is_taken(key):
            raise_invalid(name, f"must have unreserved names: {area_names.RULE}", key)


def floating_dtype(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is a floating ``torch.dtype`` or None."""
    if value is not None and not (isinstance(value, torch.dtype) and value.is_floating_point):
        raise_invalid(name, "must be a floating torch.dtype or None", value)


def thresholds(value: Any) -> None:
    """Raise ValueError unless ``value`` is None, an int of at least 2, a list of floats, or a 1-D tensor; no NaN."""
    if isinstance(value, int):
        positive_int("thresholds", value, least=2)
    elif isinstance(value, list):
        if not value or not all(is_number(x) and x == x for x in value):
            raise_invalid("thresholds", "as a list must contain at least one number and no NaN", value)
    elif isinstance(value, Tensor):
        if value.ndim != 1 or not _has_numbers(value):
            raise_invalid("thresholds", "as a tensor must be 1-D, not empty and free of NaN", value)
    elif value is not None:
        raise_invalid("thresholds", "must be None, an int, a list of floats or a 1-D tensor", value)


def bins(value: Any) -> Any:
    """Return "half", "adaptive", an int of at least 2, or edges: a list of finite floats or a 1-D tensor."""
    if isinstance(value, str):
        one_of("bins", value, ("half", "adaptive"), or_else="an int, a list of floats or a 1-D tensor")
    elif _index(value) is not None:
        value = positive_int("bins", value, least=2)
        if value > _MOST_BINS:
            raise_invalid("bins", f"must be at most {_MOST_BINS:,}, the limit of exact counts in float32", value)
    elif isinstance(value, list):
        if not value or not all(is_number(x) and abs(x) <= sys.float_info.max for x in value):
            raise_invalid("bins", "as a list must contain finite numbers, at least one", value)
    elif isinstance(value, Tensor):
        if not (value.ndim == 1 and _has_numbers(value) and bool(torch.isfinite(value).all())):
            raise_invalid("bins", "as a tensor must be 1-D, not empty and finite", value)
    else:
        raise_invalid("bins", "must be None, 'half', 'adaptive', an int, a list of floats or a 1-D tensor", value)
    return value


def threshold(value: Any) -> None:
    """Raise ValueError unless ``value`` is a number or a tensor of at most one dimension; no NaN."""
    if isinstance(value, Tensor):
        if value.ndim > 1 or not _has_numbers(value):
            raise_invalid("threshold", "as a tensor must be 0-D or 1-D, not empty and free of NaN", value)
    elif not is_number(value) or value != value:
        raise_invalid("threshold", "must be a number other than NaN, or a tensor of them", value)


def count(name: str, value: Any, unit: str) -> int:
    """Return an int, or another index such as an integer tensor, from 0 to 2^63 - 1; ``unit`` is for the message."""
    number = as_int64(value)
    if number is None or number < 0:
        raise_invalid(name, f"of {unit} must be an int from 0 to 2^63 - 1 or None", value)
    return number


def as_int64(value: Any) -> int | None:
    """Return an index, also a tensor, as an int if int64 represents it; else, and for a bool, None."""
    number = _index(value, tensors=True)
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def counts_per_ranking(name: str, value: Any, rankings: int | None) -> Any:
    """Return an int of at least 0 for one ranking (None), else a tuple of one int per ranking."""
    if rankings is None:
        return positive_int(name, value, least=0, optional=True)
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not several or len(value) != rankings:
        raise_invalid(name, f"must be None or a list of {rankings} ints, one per ranking", value)
    return tuple(positive_int(name, x, least=0) for x in value)


def any_int(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is an integer of any size, not a bool."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise_invalid(name, "must be an int", value)


def ranking_size(n: Any, m: Any) -> tuple[int, int]:
    """Return ``n``, at least 1, and the number ``m`` of relevant items, from 0 to n, as ints."""
    n, m = positive_int("n", n), positive_int("m", m, least=0)
    if m > n:
        raise ValueError(f"`m` must be at most `n`, the number of items, got m={m}, n={n}")
    return n, m


def rank(name: str, value: Any, n: int, unit: str = "items") -> int:
    """Return a rank from 1 to n as an int; ``unit`` is for the message."""
    number: int = positive_int(name, value)
    if number > n:
        raise_invalid(name, f"must be at most the number of {unit}, {n}", value)
    return number


def check_bounds(bounds: Any, **values_by_name: Tensor) -> None:
    """Raise ValueError unless ``bounds`` is None or (least, greatest), and all values are within the bounds."""
    if bounds is None:
        return
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2 and all(isinstance(x, Real) for x in bounds)
    if not pair or not float(bounds[0]) < float(bounds[1]):
        raise_invalid("bounds", "must be None or two ascending numbers", bounds)
    slack = _BOUNDS_TOLERANCE * (bounds[1] - bounds[0])
    for name, values in values_by_name.items():
        outside = values[(values < bounds[0] - slack) | (values > bounds[1] + slack)]
        if len(outside):
            raise_invalid(name, f"must be within `bounds`, {bounds!r}", outside[0].item())


def names_of_classes(class_names: Any, count: int, argument: str = "class_names") -> list[str]:
    """Return ``count`` unique names of classes or systems; the default names are the numbers from 0."""
    names = list(map(str, range(count))) if class_names is None else class_names
    fits = isinstance(names, list | tuple) and len(names) == count and all(isinstance(name, str) for name in names)
    if not fits or len(set(names)) != count:
        raise_invalid(argument, f"must be a list of {count} different names", class_names)
    return list(names)


def _index(value: Any, *, tensors: bool = False) -> int | None:
    """Return an index as an int; None for other values, bools and, without ``tensors``, tensors."""
    try:
        return None if isinstance(value, bool if tensors else bool | Tensor) else operator.index(value)
    except TypeError:
        return None


def is_real(dtype: torch.dtype) -> bool:
    """Return whether values of a dtype are numbers with an order."""
    return dtype != torch.bool and not dtype.is_complex


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _has_numbers(value: Tensor) -> bool:
    return bool(value.numel()) and not value.is_complex() and not bool(torch.isnan(value).any())
