"""The states of a metric: their form, what is wrong with some from elsewhere, and what ranks say of theirs.

A *list state* holds tensors of (N, ...) rows, one of each batch. Together the list states of a metric are what is held.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from torch_ap.rules.messages import Plain, refuse
from torch_ap.rules.tensors import SCORES
from torch_ap.runtime import memory

Held: TypeAlias = Mapping[str, Sequence[Tensor]]

_DIMENSIONS = 3  # that a state has at most
_DTYPES = (*SCORES, torch.bool)
_NONE = -1


class AnySize(Sequence[tuple[Any, ...]]):
    """The shapes of rows of any size, whose dimensions are as many as those of one of these: ``AnySize(("d",))``."""

    def __init__(self, *tails: tuple[str, ...]) -> None:
        self._tails = tails

    def __contains__(self, tail: object) -> bool:
        return isinstance(tail, tuple) and any(len(tail) == len(x) for x in self._tails)

    def __len__(self) -> int:
        return len(self._tails)

    def __getitem__(self, place: Any) -> Any:
        return self._tails[place]


class Form(NamedTuple):
    """What a list state may hold.

    Attributes:
        dtypes: of its tensors.
        tails: their shapes behind the first dimension.
    """

    dtypes: Sequence[torch.dtype]
    tails: Sequence[tuple[int, ...]] = ((),)


def checked(
    given: Mapping[str, Any], defaults: Mapping[str, Any], forms: Mapping[str, Form], device: torch.device
) -> dict[str, Any]:
    """Copies of states from elsewhere on a device, after a look at their form.

    Copies, because whoever gave them may write to them later.

    Args:
        given: state by name.
        defaults: what an empty metric holds, by the same names.
        forms: of the list states.
        device: where they are wanted.

    Raises:
        ValueError: for states that lack, that are none of this metric's, or that have another form.
    """
    if missing := sorted(defaults.keys() - given.keys()):
        raise ValueError(f"must hold all states of the metric, lacks `{missing[0]}`")
    if foreign := sorted(str(name) for name in given.keys() - defaults.keys()):
        raise ValueError(f"must hold no other states than {sorted(defaults)}, got `{foreign[0]}`")
    state: dict[str, Any] = {}
    for name, default in defaults.items():
        if isinstance(default, list):
            state[name] = [part.detach().to(device, copy=True) for part in tensors(name, given[name])]
            for place, part in enumerate(state[name]):
                _check_form(f"{name}[{place}]", part, forms[name])
        else:
            state[name] = tensors(name, [given[name]])[0].detach().to(device, copy=True)
            _check_form(name, state[name], Form([default.dtype], [tuple(default.shape[1:])]), len(default))
    return state


def tensors(name: str, value: Any) -> list[Tensor]:
    """The tensors of a list state; a tensor alone is one.

    Raises:
        ValueError: for what is not a list of tensors.
    """
    parts = [value] if isinstance(value, Tensor) else value
    if not isinstance(parts, list | tuple):
        refuse(name, "must be a list of tensors", Plain(type(parts).__name__))
    for part in parts:
        if not isinstance(part, Tensor):
            refuse(name, "must hold tensors", Plain(type(part).__name__))
    return list(parts)


def listed(state: Any) -> list[Tensor]:
    """The tensors of a list state, which a sync may have turned into one."""
    return [state] if isinstance(state, Tensor) else state


def _check_form(name: str, value: Tensor, form: Form, rows: int | None = None) -> None:
    if value.dtype not in form.dtypes or value.layout != torch.strided:
        known = " or ".join(map(str, form.dtypes))
        raise ValueError(f"`{name}` must be dense and of {known}, got {value.layout}, {value.dtype}")
    fits = value.ndim and tuple(value.shape[1:]) in form.tails and rows in (None, len(value))
    if not fits:
        first = "N" if rows is None else str(rows)
        known = " or ".join(f"({', '.join([first, *map(str, tail)])})" for tail in form.tails)
        refuse(name, f"must have shape {known}", tuple(value.shape))


def joined(held: Held) -> dict[str, Tensor]:
    """Each list state that holds anything as one tensor."""
    return {name: memory.joined(parts) for name, parts in held.items() if parts}


def header(identity: Sequence[int], names: Sequence[str], local: Mapping[str, Tensor] | None) -> list[int]:
    """What a rank says of itself before tensors are exchanged: whose state it has, and the form of each list state.

    Args:
        identity: of the metric.
        names: of the list states.
        local: the states that hold anything here; None where they could not be had.
    """
    if local is None:
        return [0, *identity]
    descriptions = [
        [_DTYPES.index(x.dtype), *x.shape, *[_NONE] * (_DIMENSIONS - x.ndim)]
        if (x := local.get(name)) is not None
        else [_NONE] * (1 + _DIMENSIONS)
        for name in names
    ]
    return [1, *identity, *(number for description in descriptions for number in description)]


def read_headers(headers: Sequence[Sequence[int]], identity_size: int, names: Sequence[str]) -> list[Held]:
    """What each rank holds, as tensors without memory: the same, or the same error, on every rank.

    Raises:
        ValueError: where a rank has a metric of other settings.
    """
    for rank, words in enumerate(headers):
        if words[1 : identity_size + 1] != headers[0][1 : identity_size + 1]:
            raise ValueError(f"every rank must have a metric of the same settings, not so on ranks 0 and {rank}")
    return [_held_there(words[identity_size + 1 :], names) for words in headers]


def _held_there(words: Sequence[int], names: Sequence[str]) -> Held:
    held = {}
    for place, name in enumerate(names):
        code, *sizes = words[place * (1 + _DIMENSIONS) : (place + 1) * (1 + _DIMENSIONS)]
        shape = [size for size in sizes if size != _NONE]
        held[name] = [] if code == _NONE else [torch.empty(shape, dtype=_DTYPES[code], device="meta")]
    return held
