"""States of a metric: their form, their checks, their bytes, and the headers that processes exchange.

A *list state* is a list of tensors with (N, ...) rows, one per batch. Batches, merged metrics, checkpoints, bytes and
states of torchmetrics' classes are validated in the same way before they enter a state. Incompatible data raises an
error and leaves the metric unchanged.

A signal cannot divide a change of a state. Python runs signal handlers, such as the one that raises KeyboardInterrupt,
between the instructions of Python code. A call into C that runs no Python code is therefore one step: the handler runs
before it or after it.

Texts about metrics: settings in ``repr``, class and settings in messages, classes in results.
"""

import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.metric import samples

if TYPE_CHECKING:
    from torchmetrics import Metric

M = TypeVar("M", bound="Metric")
F = TypeVar("F", bound=Callable[..., Any])

Held: TypeAlias = Mapping[str, Sequence[Tensor]]

NEVER = 1 << 62  # in place of the first update that broke a rule, if no update did
_MAX_DIMENSIONS = 3  # of a list state
_DTYPES = (*tensors.SCORES, torch.bool)
_ABSENT = -1  # dtype of an empty list state in headers
_exhaust = deque[Any](maxlen=0).extend  # consumes an iterator in C, and stores nothing
_append: Any = list.append
_update: Any = dict.update
_call: Any = partial.__call__


class AnySize(Sequence[tuple[Any, ...]]):
    """Shapes of rows with any sizes and a fixed number of dimensions, such as one: ``AnySize(("d",))``."""

    def __init__(self, *tails: tuple[str, ...]) -> None:
        self._tails = tails

    def __contains__(self, tail: object) -> bool:
        return isinstance(tail, tuple) and any(len(tail) == len(x) for x in self._tails)

    def __len__(self) -> int:
        return len(self._tails)

    def __getitem__(self, place: Any) -> Any:
        return self._tails[place]


class Form(NamedTuple):
    """Allowed tensors of a list state.

    Attributes:
        dtypes: the allowed dtypes.
        tails: the allowed shapes after the first dimension.
    """

    dtypes: Sequence[torch.dtype]
    tails: Sequence[tuple[int, ...]] = ((),)


class SimpleBatch:
    """List states that a batch without optional arguments adds to.

    Attributes:
        read: returns these list states from a dict as a tuple.
        read_others: returns the other list states.
        no_others: the result of ``read_others`` if they are empty.
    """

    def __init__(self, names: Sequence[str], others: Sequence[str]) -> None:
        self.read, self.read_others = itemgetter(*names), itemgetter(*others)
        self.no_others: tuple[list[Tensor], ...] = tuple([] for _ in others)


def checked_form(
    given: Mapping[str, Any], defaults: Mapping[str, Any], forms: Mapping[str, Form], device: torch.device
) -> dict[str, Any]:
    """Return copies of the states of another metric on a device, after a check of their form.

    Copies are needed because the owner can write to the originals later.

    Args:
        given: the states by name.
        defaults: the states of an empty metric by name.
        forms: the form of each list state.
        device: the device of the copies.

    Raises:
        ValueError: for missing states, unknown states, or states of another form.
    """
    if missing := sorted(defaults.keys() - given.keys()):
        raise ValueError(f"must contain all states of the metric, but lacks `{missing[0]}`")
    if foreign := sorted(str(name) for name in given.keys() - defaults.keys()):
        raise ValueError(f"must contain only the states {sorted(defaults)}, got `{foreign[0]}`")
    state: dict[str, Any] = {}
    for name, default in defaults.items():
        if not isinstance(default, Tensor):
            state[name] = [part.detach().to(device, copy=True) for part in tensors_of(name, given[name])]
            for place, part in enumerate(state[name]):
                _check_form(f"{name}[{place}]", part, forms[name])
        else:
            state[name] = tensors_of(name, [given[name]])[0].detach().to(device, copy=True)
            _check_form(name, state[name], Form([default.dtype], [tuple(default.shape[1:])]), len(default))
    return state


def tensors_of(name: str, value: Any) -> list[Tensor]:
    """Return the tensors of a list state, or a single tensor as a list.

    Raises:
        ValueError: if the value is no list of tensors.
    """
    parts = [value] if isinstance(value, Tensor) else value
    if not isinstance(parts, list | tuple):
        raise_invalid(name, "must be a list of tensors", Plain(type(parts).__name__))
    for part in parts:
        if not isinstance(part, Tensor):
            raise_invalid(name, "must contain tensors", Plain(type(part).__name__))
    return list(parts)


def listed(state: Any) -> list[Tensor]:
    """Return a list state as a list; synchronization can have joined its tensors, and Dask can have made it a tuple."""
    return [state] if isinstance(state, Tensor) else list(state)


def _check_form(name: str, value: Tensor, form: Form, rows: int | None = None) -> None:
    if value.dtype not in form.dtypes or value.layout != torch.strided:
        known = " or ".join(map(str, form.dtypes))
        raise ValueError(f"`{name}` must be dense and of {known}, got {value.layout}, {value.dtype}")
    fits = value.ndim and tuple(value.shape[1:]) in form.tails and rows in (None, len(value))
    if not fits:
        first = "N" if rows is None else str(rows)
        known = " or ".join(f"({', '.join([first, *map(str, tail)])})" for tail in form.tails)
        raise_invalid(name, f"must have shape {known}", tuple(value.shape))


def joined(held: Held) -> dict[str, Tensor]:
    """Return each list state that is not empty as one tensor."""
    return {name: arrays.concatenate(parts) for name, parts in held.items() if parts}


def header(identity: Sequence[int], names: Sequence[str], local: Mapping[str, Tensor] | None) -> list[int]:
    """Return the numbers that a process sends before its tensors: the identity, and the form of each list state.

    Args:
        identity: the digest of the settings of the metric.
        names: the names of the list states.
        local: the list states of this process that are not empty; None if joining them failed.
    """
    if local is None:
        return [0, *identity]
    descriptions = [
        [_DTYPES.index(x.dtype), *x.shape, *[_ABSENT] * (_MAX_DIMENSIONS - x.ndim)]
        if (x := local.get(name)) is not None
        else [_ABSENT] * (1 + _MAX_DIMENSIONS)
        for name in names
    ]
    return [1, *identity, *(number for description in descriptions for number in description)]


def read_headers(headers: Sequence[Sequence[int]], identity_size: int, names: Sequence[str]) -> list[Held]:
    """Return the list states of each process as tensors without memory; all processes get the same result or error.

    Raises:
        ValueError: if a process has a metric of other settings.
    """
    for rank, words in enumerate(headers):
        if words[1 : identity_size + 1] != headers[0][1 : identity_size + 1]:
            raise ValueError(f"every process must have a metric with the same settings, unlike processes 0 and {rank}")
    return [_held_by_process(words[identity_size + 1 :], names) for words in headers]


def _held_by_process(words: Sequence[int], names: Sequence[str]) -> Held:
    held = {}
    for place, name in enumerate(names):
        code, *sizes = words[place * (1 + _MAX_DIMENSIONS) : (place + 1) * (1 + _MAX_DIMENSIONS)]
        shape = [size for size in sizes if size != _ABSENT]
        held[name] = [] if code == _ABSENT else [torch.empty(shape, dtype=_DTYPES[code], device="meta")]
    return held


def check_fit(metric: Any, held: Held, more: Held, where: str = "in every update or in none") -> None:
    """Raise ValueError if two sets of list states contradict each other.

    The rule is the same for batches, merged metrics, checkpoints and processes.

    Args:
        metric: the metric.
        held: the list states by name.
        more: the list states to be added.
        where: the end of the message: where an argument must be given.
    """
    here, there = ({name for name in metric._lists if x.get(name)} for x in (held, more))
    if here and there and here != there and (argument := metric._contradiction(here, there)):
        raise ValueError(f"{argument} must be given {where}")
    for name in here & there:
        latest = next((part.dtype for part in reversed(held[name]) if part.numel()), held[name][-1].dtype)
        if any(part.dtype != latest for part in more[name]):
            dtypes = [part.dtype for part in (*held[name], *more[name]) if part.numel()]
            arrays.common_dtype("preds", dtypes or [latest])


def check_identity(metric: Any, first_violation: Any, name: str) -> None:
    """Raise ValueError if a state comes from a metric with other settings of ``update``.

    Args:
        metric: the metric.
        first_violation: the state of this name.
        name: the argument that contains the state, for the message.
    """
    here, size = metric.first_violation, len(metric._identity)
    fits = isinstance(first_violation, Tensor) and all(
        getattr(first_violation, x) == getattr(here, x) for x in ("dtype", "shape", "layout")
    )
    if not fits or first_violation[:size].tolist() != list(metric._identity):
        raise ValueError(
            f"`{name}` must come from a {type(metric).__name__} whose `update` has the same settings "
            f"({metric._settings_of_update}); this metric is {metric!r}"
        )


def checked_state(metric: Any, given: Any, source: str) -> dict[str, Any]:
    """Return a copy of another state on the device of the metric, if it is the state of valid updates.

    Args:
        metric: the metric.
        given: the states by name.
        source: the argument that contains the states, for the message.

    Raises:
        ValueError: with the rule that the state breaks.
    """
    if not isinstance(given, Mapping):
        raise_invalid(source, "must be a dict of states", Plain(type(given).__name__))
    try:
        if "first_violation" not in given and any(name in given for name in metric._peer_states):
            given = _state_of_peer(metric, given)
        given = {**{name: [] for name in samples.ADDED if name in metric._lists}, **given}
        check_identity(metric, given.get("first_violation"), source)
        state = checked_form(given, metric._defaults, metric._forms(), metric.device)
        metric._check_fit({}, state)
        metric._check_held({**state, **joined({name: state[name] for name in metric._lists})})
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{source}` is not the state of valid updates: {error}") from None
    return state


def _state_of_peer(metric: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state after one update with the batches that torchmetrics' class of the same name stored."""
    arguments = metric._peer_arguments
    if not arguments or set(given) != set(arguments):
        raise ValueError(
            f"states {sorted(given)} of torchmetrics' class cannot be loaded; update a new metric with the same batches"
        )
    reader = metric._reader()
    columns = {name: tensors_of(name, given[name]) for name in arguments}
    if all(columns.values()):
        reader.update(**{name: arrays.concatenate(parts).to(metric.device) for name, parts in columns.items()})
    state: dict[str, Any] = reader.metric_state
    return state


def emptied(metric: M) -> M:
    """Return a new metric with the same settings and without batches."""
    held = [x for name in metric._defaults if not isinstance(x := getattr(metric, name), tuple)]  # () is shared
    copy = deepcopy(metric, {id(x): [] if isinstance(x, list) else x for x in held})
    copy.reset()
    return copy


def raise_first_violation(
    metric: Any, only_warned: Mapping[int, Callable[[], None]] | None = None, **values: Any
) -> None:
    """Raise ValueError for the first update that broke a value rule.

    Args:
        metric: the metric, whose ``first_violation`` contains the first update that broke each rule.
        only_warned: function that warns, by the index of each rule that raises no error.
        values: values in the messages of the rules.
    """
    first_updates = metric.first_violation.tolist()[len(metric._identity) :]
    for rule, warn in (only_warned or {}).items():
        if first_updates[rule] < NEVER:
            warn()
            first_updates[rule] = NEVER
    first = min(first_updates)
    if first < NEVER:
        message = metric._value_rules[first_updates.index(first)].format(**values)
        raise ValueError(f"{message}; broken first in update {first}. Call `reset()` before the metric is used on")


def violations_after(metric: Any, broken: Tensor, update: int) -> Tensor:
    """Return ``first_violation`` after an update, without a device sync.

    Args:
        metric: the metric.
        broken: which value rules the update breaks.
        update: the number of the update.
    """
    before, size = metric.first_violation, len(metric._identity)
    return torch.cat([before[:size], torch.minimum(before[size:], torch.where(broken, update, NEVER))])


def no_violation(metric: Any) -> Tensor:
    """Return ``first_violation`` before the first update."""
    return torch.tensor([*metric._identity, *[NEVER] * len(metric._value_rules)])


_MAX_ENTRIES = 5  # longer lists and dicts are abbreviated


def setting(path: str, doc: str) -> Any:
    """Return a property that reads the setting at an attribute path of a metric."""
    read = attrgetter(path)
    return property(lambda metric: read(metric), doc=doc)  # torch.jit requires Python code of every property


@functools.cache
def defaults_of(metric: type) -> dict[str, Any]:
    """Return the default of each setting of a class by name, ``inspect.Parameter.empty`` for required settings.

    ``convention`` is absent, because it combines other settings.
    """
    parameters = inspect.signature(metric).parameters.values()
    return {x.name: x.default for x in parameters if x.kind is not x.VAR_KEYWORD and x.name != "convention"}


def shown_settings(
    defaults: dict[str, Any], value_of: Callable[[str], Any], always: Collection[str] = ()
) -> dict[str, Any]:
    """Return the settings that differ from their defaults or are always shown, by name."""
    values = {name: value_of(name) for name in defaults}
    return {
        name: value
        for name, value in values.items()
        if name in always or isinstance(value, Tensor) or value != defaults[name]
    }


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return ``name=value`` of each setting."""
    return ", ".join(f"{name}={_text(value)}" for name, value in settings.items())


def _text(value: Any) -> str:
    values = value.tolist() if isinstance(value, Tensor) else value
    if isinstance(values, Mapping) and len(values) > _MAX_ENTRIES:
        return f"<{len(values)} by key>"
    if isinstance(values, list) and len(values) > _MAX_ENTRIES:
        return f"<{len(values)} from {min(values):g} to {max(values):g}>"
    if isinstance(values, list):
        return f"[{', '.join(f'{x:g}' if isinstance(x, float) else repr(x) for x in values)}]"
    return getattr(value, "__name__", repr(value)) if callable(value) else repr(value)


def named_values(name: str, columns: Mapping[str, Tensor], class_names: Sequence[str] | None) -> dict[str, Tensor]:
    """Return values by the name of the metric, or by this name and the name of each class."""
    value = columns[""]
    if value.ndim == 0:
        if class_names is not None:
            raise ValueError(
                f"`class_names` must be None for a single value, that is without `average='none'`, "
                f"got {short_repr(class_names)}"
            )
        return {f"{name}{end}": x for end, x in columns.items()}
    names = checks.names_of_classes(class_names, len(value))
    values = {f"{name}_{one}{end}": x[place] for place, one in enumerate(names) for end, x in columns.items()}
    taken = {f"{name}{end}" for end in columns}
    if len(values) < len(names) * len(columns) or taken & values.keys():
        ends = ", ".join(repr(end) for end in columns if end)
        raise ValueError(
            f"`class_names` must give different keys with {ends} behind them, got {short_repr(class_names)}"
        )
    return values


def check_class(metric: object, other: object, name: str) -> None:
    """Raise ValueError if the other metric has another class.

    The message has both classes, with their modules if the names are equal.
    """
    if isinstance(other, type(metric)):
        return
    kinds = type(metric), type(other)
    names = [kind.__name__ for kind in kinds]
    if names[0] == names[1]:
        names = [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]
    raise ValueError(f"`{name}` must be a {names[0]}, got a {names[1]}")


def check_settings(mine: Mapping[str, Any], theirs: Mapping[str, Any], name: str = "other") -> None:
    """Raise ValueError with the different settings, if two metrics differ in any."""
    unlike = [key for key, value in mine.items() if not tensors.are_equal(value, theirs.get(key))]
    if unlike:
        text = "; ".join(f"{key}: {_text(mine[key])} here, {_text(theirs.get(key))} there" for key in unlike)
        raise ValueError(f"`{name}` must have the same settings; {text}")


def with_shortcut(shortcut: Callable[..., bool]) -> Callable[[F], F]:
    """Return a decorator of ``update``: the shortcut adds a simple batch and returns True, or changes nothing."""

    def decorate(update: F) -> F:
        update.shortcut = shortcut  # type: ignore[attr-defined]
        return update

    return decorate


def _references(attributes: Mapping[str, Any], name: str) -> int:
    return sys.getrefcount(attributes[name])


_OWN_REFERENCES = _references({"": object()}, "")  # depends on the version of Python


def is_unshared(attributes: Mapping[str, Any], name: str) -> bool:
    """Return whether no Python object but this dict refers to an attribute."""
    return _references(attributes, name) <= _OWN_REFERENCES


def append_in_one_step(
    attributes: dict[str, Any], values: Mapping[str, Any], lists: Sequence[list[Any]], entries: Sequence[Any]
) -> None:
    """Set attributes and append one entry to each list in one step.

    Args:
        attributes: the ``__dict__`` of an object.
        values: the new values by attribute name.
        lists: the lists.
        entries: one new entry per list.

    Raises:
        MemoryError: if a list cannot grow; nothing has changed then.
    """
    try:
        _exhaust(chain(map(_append, lists, entries), map(_update, (attributes,), (values,))))
    except MemoryError:
        for extended, entry in zip(lists, entries, strict=True):
            if extended and extended[-1] is entry:
                del extended[-1]
        raise


def write_in_one_step(attributes: dict[str, Any], values: Mapping[str, Any], calls: Iterable[partial[Any]]) -> None:
    """Make calls of C functions, such as additions to a tensor in place, and set attributes in one step.

    Args:
        attributes: the ``__dict__`` of an object.
        values: the new values by attribute name.
        calls: the calls. If one raises, no attribute is set.
    """
    _exhaust(chain(map(_call, calls), map(_update, (attributes,), (values,))))
