"""Class names of labels.

Integers among Python's and NumPy's values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from torch_ap.core.base.messages import short_repr


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, not a bool."""
    return type(value) is int or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def is_int64(value: Any) -> bool:
    """Return whether a value is an integer that int64 represents, as a label must be."""
    return is_whole(value) and -(1 << 63) <= value < 1 << 63


ClassNames: TypeAlias = Mapping[int, str] | Sequence[str] | None


def check_names(class_names: ClassNames) -> None:
    """Raise ValueError unless ``class_names`` is None, a list of names or a dict from labels to names."""
    if class_names is None:
        return
    if isinstance(class_names, Mapping):
        fits = all(map(is_whole, class_names)) and all(isinstance(name, str) for name in class_names.values())
    else:
        fits = isinstance(class_names, list | tuple) and all(isinstance(name, str) for name in class_names)
    if not fits:
        raise ValueError(
            "`class_names` must be None, a list of names from label 0 on, or a dict from labels to names, got "
            f"{short_repr(class_names)}"
        )


def label_names(labels: Tensor, class_names: ClassNames) -> list[str]:
    """Return the name of each label; its number if a dict lacks it.

    Raises:
        ValueError: for a label beyond a list. If labels started at 1, every name would belong to another class.
    """
    numbers: list[int] = labels.tolist()
    if class_names is None:
        return [str(number) for number in numbers]
    if isinstance(class_names, Mapping):
        return [class_names.get(number, str(number)) for number in numbers]
    beyond = [number for number in numbers if not 0 <= number < len(class_names)]
    if beyond:
        raise ValueError(
            f"`class_names` as a list of {len(class_names)} names the labels 0 to {len(class_names) - 1}, got the "
            f"label {beyond[0]}; if labels start at 1, pass a dict, such as `dict(enumerate(names, 1))`"
        )
    return [class_names[number] for number in numbers]


def unique_label_names(labels: Tensor, class_names: ClassNames) -> list[str]:
    """Return the name of each label, and raise ValueError for equal names; names of other labels may be equal."""
    names = label_names(labels, class_names)
    duplicates = sorted(name for name, count in Counter(names).items() if count > 1)
    if duplicates:
        raise ValueError(f"`class_names` must be unique, got {short_repr(duplicates[0])} twice")
    return names
