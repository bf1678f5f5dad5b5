"""Names of classes: of which labels, and whether they tell them apart."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from torch import Tensor

from torch_ap.rules.integers import is_whole
from torch_ap.rules.messages import shown

ClassNames: TypeAlias = Mapping[int, str] | Sequence[str] | None


def check_names(class_names: ClassNames) -> None:
    """Refuse what are no names of labels."""
    if class_names is None:
        return
    if isinstance(class_names, Mapping):
        fits = all(map(is_whole, class_names)) and all(isinstance(name, str) for name in class_names.values())
    else:
        fits = isinstance(class_names, list | tuple) and all(isinstance(name, str) for name in class_names)
    if not fits:
        raise ValueError(
            "`class_names` must be None, a list of names, that of label 0 first, or a dict of labels to names, got "
            f"{shown(class_names)}"
        )


def names_of(labels: Tensor, class_names: ClassNames) -> list[str]:
    """The name of each label; its number where a dict has none.

    Raises:
        ValueError: for a label beyond a list: the labels may start at 1, and every name is then that of another class.
    """
    numbers: list[int] = labels.tolist()
    if class_names is None:
        return [str(number) for number in numbers]
    if isinstance(class_names, Mapping):
        return [class_names.get(number, str(number)) for number in numbers]
    beyond = [number for number in numbers if not 0 <= number < len(class_names)]
    if beyond:
        raise ValueError(
            f"`class_names` as a list of {len(class_names)} names those of the labels 0 to {len(class_names) - 1}, got "
            f"the label {beyond[0]}; where labels start at 1, give a dict, as `dict(enumerate(names, 1))`"
        )
    return [class_names[number] for number in numbers]


def different_names_of(labels: Tensor, class_names: ClassNames) -> list[str]:
    """The same names, which must tell the labels apart; those of labels that do not occur, as "N/A", need not."""
    names = names_of(labels, class_names)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"`class_names` must give each label another name, got {shown(twice[0])} twice")
    return names
