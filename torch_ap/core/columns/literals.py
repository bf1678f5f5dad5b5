"""Decimal literals of text files, and their float64 values.

A literal is invalid if float64 would silently change the number:

| literal | its float64 value | reason |
|---|---|---|
| 1e400 | infinity | it ties with every other number that overflows |
| 1e-400 | 0 | it ties with 0 |
| 1.0001e-320 | 1e-320 | a subnormal number has too few digits |
| 9007199254740993, 9007199254740993.0 | 9007199254740992 | it ties with the integer below |

Other fractions are rounded to the nearest float64, as in every reader: no two literals of up to 15 digits tie.
"""

import math
import re
import sys
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from torch_ap.core.ranking.order import Array

LARGEST_EXACT = 1 << 53  # from here on float64 does not represent every integer
SHORTEST_UNDERFLOW = len("1e-324")
_SMALLEST_NORMAL = sys.float_info.min  # below, float64 has fewer than 15 digits
MAX_INTEGER_DIGITS = 4000  # of an integer; Python reads 4,300 at most
_HUGE = 10**5000
_MAX_FLOAT_DIGITS = 800  # no float64 value has more decimal digits


class Unrepresented:
    """A literal of JSON that float64 does not represent, in place of a number.

    Attributes:
        literal: the text in the file.
    """

    __slots__ = ("literal",)

    def __init__(self, literal: str) -> None:
        self.literal = literal

    def __repr__(self) -> str:
        return self.literal


def doubtful_places(values: Array) -> Array:
    """Return the places of float64 values that may differ from their literals: 0, subnormal, large, infinite, NaN.

    Args:
        values: (N,) numbers.

    Returns:
        int64 places, ascending.
    """
    sizes = np.abs(values)
    if len(sizes) and sizes.min() >= _SMALLEST_NORMAL and sizes.max() < LARGEST_EXACT:  # not with NaN
        return np.empty(0, np.int64)
    return np.flatnonzero(~((sizes >= _SMALLEST_NORMAL) & (sizes < LARGEST_EXACT)))


def may_underflow(text: bytes) -> bool:
    """Return whether a text may contain a literal that is too small for float64. Never False where one is."""
    if b"e-" not in text and b"E-" not in text:  # the usual case, in a tenth of the time
        return b"0" * 290 in text
    return b"0" * 290 in text or re.search(rb"[eE]-0*[1-9][0-9]{2}", text) is not None


def is_represented(literal: str, value: float) -> bool:
    """Return whether float64 represents a decimal literal.

    Args:
        literal: digits, perhaps with a sign, a point and an exponent; or the name of an infinity or NaN.
        value: the nearest float64.

    Returns:
        Whether the value equals the literal when it is written with as many digits. Integers without a point or an
        exponent must equal the value. True for ordinary fractions, which are rounded.
    """
    if _SMALLEST_NORMAL <= abs(value) < LARGEST_EXACT or not re.search("[1-9]", literal):
        return True
    try:
        exact = Decimal(literal)
    except InvalidOperation:  # an exponent of 19 digits
        return False
    if math.isinf(value):
        return False
    if literal.lstrip("+-").isdigit():
        return exact == Decimal(value)
    digits = min(len(exact.as_tuple().digits), _MAX_FLOAT_DIGITS)
    return exact == Decimal(f"{value:.{digits - 1}e}")


def parse(literal: str) -> float:
    """Return the float64 value of a decimal literal, an infinity or NaN.

    Raises:
        ValueError: for anything else. Python's ``float`` also accepts underscores and the digits of other scripts.
        OverflowError: for a literal that float64 does not represent.
    """
    if "_" in literal or not literal.isascii():
        raise ValueError
    value = float(literal)
    if not is_represented(literal, value):
        raise OverflowError
    return value


def parse_json(literal: str) -> Any:
    """Return the number of a fraction in JSON, or the literal as :class:`Unrepresented`."""
    value = float(literal)
    if _SMALLEST_NORMAL <= value < LARGEST_EXACT or is_represented(literal, value):
        return value
    return Unrepresented(literal)


def represents_integer(value: int) -> bool:
    """Return whether float64 represents an integer."""
    try:
        return float(value) == value  # Python compares these exactly
    except OverflowError:
        return False


def integer_of_digits(digits: str) -> int:
    """Return the integer with these digits; for thousands of digits a large one, which no key accepts.

    Python's own error for thousands of digits names no place; the rule of the key does.
    """
    return int(digits) if len(digits) < MAX_INTEGER_DIGITS else _HUGE


def first_repeated(keys: Iterable[str]) -> str | None:
    """Return the first key that occurs a second time, if any does."""
    seen: set[str] = set()
    return next((key for key in keys if key in seen or seen.add(key)), None)  # type: ignore[func-returns-value]
