"""What is an integer among Python's and NumPy's values."""

from typing import Any

import numpy as np


def is_whole(value: Any) -> bool:
    """Whether a value is an integer; a bool is not."""
    return type(value) is int or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def is_int64(value: Any) -> bool:
    """Whether a value is an integer that int64 holds, as labels are."""
    return is_whole(value) and -(1 << 63) <= value < 1 << 63
