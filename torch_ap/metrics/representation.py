"""How a metric presents itself: its settings in ``repr``, its class in messages, its classes in results."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from torch_ap.rules import checks
from torch_ap.rules.messages import shown

_LONG = 5


def setting(path: str, doc: str) -> Any:
    """A property that reads what lies at the path, for a setting that is part of a metric's records of settings."""
    read = attrgetter(path)
    return property(lambda metric: read(metric), doc=doc)  # of Python code, which torch.jit asks of every property


@functools.cache
def defaults_of(metric: type) -> dict[str, Any]:
    """The settings of a metric's class by name, each with its default, or ``inspect.Parameter.empty``.

    Without ``convention``, which stands for several that are settings themselves.
    """
    parameters = inspect.signature(metric).parameters.values()
    return {x.name: x.default for x in parameters if x.kind is not x.VAR_KEYWORD and x.name != "convention"}


def settings_text(defaults: dict[str, Any], value_of: Callable[[str], Any], always: Collection[str] = ()) -> str:
    """``name=value`` of each setting that differs from its default, and of those that are always shown."""
    values = {name: value_of(name) for name in defaults}
    return ", ".join(
        f"{name}={_text(value)}"
        for name, value in values.items()
        if name in always or isinstance(value, Tensor) or value != defaults[name]
    )


def _text(value: Any) -> str:
    values = value.tolist() if isinstance(value, Tensor) else value
    if isinstance(values, Mapping) and len(values) > _LONG:
        return f"<{len(values)} by key>"
    if isinstance(values, list) and len(values) > _LONG:
        return f"<{len(values)} from {min(values):g} to {max(values):g}>"
    if isinstance(values, list):
        return f"[{', '.join(f'{x:g}' if isinstance(x, float) else repr(x) for x in values)}]"
    return getattr(value, "__name__", repr(value)) if callable(value) else repr(value)


def named_values(name: str, columns: Mapping[str, Tensor], class_names: Sequence[str] | None) -> dict[str, Tensor]:
    """Values under the metric's name, or under that and each class's."""
    value = columns[""]
    if value.ndim == 0:
        if class_names is not None:
            raise ValueError(
                f"`class_names` must be None where the value is one, and not one per class as with `average='none'`, "
                f"got {shown(class_names)}"
            )
        return {f"{name}{end}": x for end, x in columns.items()}
    names = checks.names_of_classes(class_names, len(value))
    found = {f"{name}_{one}{end}": x[place] for place, one in enumerate(names) for end, x in columns.items()}
    taken = {f"{name}{end}" for end in columns}
    if len(found) < len(names) * len(columns) or taken & found.keys():
        ends = ", ".join(repr(end) for end in columns if end)
        raise ValueError(f"`class_names` must give different keys with {ends} behind them, got {shown(class_names)}")
    return found


def check_class(metric: object, other: object, name: str) -> None:
    """Refuse another kind of metric. Where both classes have one name their modules tell them apart.

    Raises:
        ValueError: naming both classes.
    """
    if isinstance(other, type(metric)):
        return
    wanted, given = type(metric), type(other)
    if wanted.__name__ == given.__name__:
        raise ValueError(f"`{name}` must be a {_full_name(wanted)}, got a {_full_name(given)}")
    raise ValueError(f"`{name}` must be a {wanted.__name__}, got a {given.__name__}")


def check_settings(mine: Mapping[str, Any], theirs: Mapping[str, Any], name: str = "other") -> None:
    """Refuse a metric of other settings.

    Raises:
        ValueError: naming those that differ, and no others.
    """
    unlike = [key for key, value in mine.items() if not _same(value, theirs.get(key))]
    if unlike:
        told = "; ".join(f"{key}: {_text(mine[key])} here, {_text(theirs.get(key))} there" for key in unlike)
        raise ValueError(f"`{name}` must have the same settings; {told}")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
    return bool(one == other)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
