"""Every rule about arguments, once. A message names the argument, the rule and the value that broke it.

Two kinds of rule. *Form* (types, shapes, dtypes, devices, options) is known without looking at the data, so it is
checked at once on any device. *Values* (NaN, targets outside the classes, negative weights) are in the data: on CPU
they are looked at at once; on an accelerator a look would stall the device, so each rule gives a flag there, a bool on
the device, which its holder raises later.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
MOST_WEIGHT = 1e288  # 2^63 of them have a sum that float64 holds
SCORES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, *INTEGERS)
_HELD_BY = {torch.int16: torch.float32, torch.int32: torch.float64}  # narrower integers fit in every float
VALUE_RULES = (
    "`preds` must not hold NaN",
    "`target` must hold whole numbers from 0 to {top} (or `ignore_index`)",
    "`weights` must be finite, not negative and at most 1e288",
    "`preds` must lie in [0, 1] where `thresholds` is an int, which lays them out over [0, 1]; give "
    "`normalization='sigmoid'` (or 'softmax'), or the thresholds themselves",
    "`target` must not hold NaN",
    "`num_relevant` must not be negative",
    "`target` must hold whole numbers of at least 0 (or `ignore_index`), unless `relevance_level` says from which "
    "value on an item is relevant",
)


def one_of(name: str, value: Any, allowed: Sequence[Any], *, or_else: str = "") -> None:
    """``value`` is one of the allowed options."""
    if not any(value is option or (isinstance(value, str) and value == option) for option in allowed):
        choices = ", ".join(map(repr, allowed)) + (f" or {or_else}" if or_else else "")
        raise ValueError(f"`{name}` must be one of {choices}, got {value!r}")


def positive_int(name: str, value: Any, *, least: int = 1, optional: bool = False) -> None:
    """``value`` is an int of at least ``least`` (or None, where optional); bool is no int here."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 62:
        raise ValueError(f"`{name}` must be an int of at least {least}{' or None' if optional else ''}, got {value!r}")


def integer(name: str, value: Any) -> None:
    """``value`` is an int or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"`{name}` must be an int or None, got {value!r}")


def boolean(name: str, value: Any) -> None:
    """``value`` is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be a bool, got {value!r}")


def not_negative(name: str, value: Any) -> None:
    """``value`` is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"`{name}` must be a finite number of at least 0, got {value!r}")


def fraction(name: str, value: Any) -> None:
    """``value`` is a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"`{name}` must be a number in [0, 1], got {value!r}")


def floating_dtype(name: str, value: Any) -> None:
    """A floating ``torch.dtype``, or None."""
    if value is not None and not (isinstance(value, torch.dtype) and value.is_floating_point):
        raise ValueError(f"`{name}` must be a floating torch.dtype or None, got {value!r}")


def recall_levels(name: str, levels: Any) -> None:
    """A 1-D tensor of numbers in [0, 1]."""
    if not isinstance(levels, Tensor):
        raise TypeError(f"`{name}` must be a tensor (see `torch.as_tensor`), got {type(levels).__name__}")
    if levels.ndim != 1 or not levels.numel() or not levels.is_floating_point():
        raise ValueError(
            f"`{name}` as a tensor must be 1-D, floating and not empty, got shape {tuple(levels.shape)}, {levels.dtype}"
        )
    if not bool(((levels >= 0) & (levels <= 1)).all()):
        raise ValueError(f"`{name}` as a tensor must hold recall levels in [0, 1], got {levels.tolist()}")


def numbers(name: str, value: Any) -> None:
    """A 1-D tensor of real numbers, one at least."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor (see `torch.as_tensor`), got {type(value).__name__}")
    if value.ndim != 1 or not value.numel() or value.dtype not in SCORES:
        raise ValueError(
            f"`{name}` must be 1-D, floating or integer and not empty, got shape {tuple(value.shape)}, {value.dtype}"
        )


def paired_lengths(**tensors: Tensor) -> None:
    """1-D tensors of one length, on one device."""
    if len({len(value) for value in tensors.values()}) > 1:
        lengths = " and ".join(f"{len(value)} of `{name}`" for name, value in tensors.items())
        raise ValueError(f"{' and '.join(f'`{x}`' for x in tensors)} must have one length, got {lengths}")
    same_device(**tensors)


def thresholds(value: Any) -> None:
    """None, an int of at least 2, a list of floats, or a 1-D tensor of floats; no NaN."""
    if value is None:
        return
    if isinstance(value, int):
        positive_int("thresholds", value, least=2)
    elif isinstance(value, list):
        if not value or not all(isinstance(x, int | float) and not isinstance(x, bool) and x == x for x in value):
            raise ValueError(f"`thresholds` as a list must hold numbers, one at least and no NaN, got {value!r}")
    elif isinstance(value, Tensor):
        if value.ndim != 1 or not value.numel() or value.is_complex() or bool(torch.isnan(value).any()):
            raise ValueError(f"`thresholds` as a tensor must be 1-D, not empty and free of NaN, got {value!r}")
    else:
        raise ValueError(f"`thresholds` must be None, an int, a list of floats or a 1-D tensor, got {value!r}")


def threshold(value: Any) -> None:
    """One number that is not NaN, or a 1-D tensor of such."""
    if isinstance(value, Tensor):
        if value.ndim > 1 or not value.numel() or value.is_complex() or bool(torch.isnan(value).any()):
            raise ValueError(f"`threshold` as a tensor must be 0-D or 1-D, not empty and free of NaN, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ValueError(f"`threshold` must be a number but NaN, or a tensor of them, got {value!r}")


def scores(name: str, value: Any) -> None:
    """A real tensor; bool is a decision, not a score."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor (see `torch.as_tensor`), got {type(value).__name__}")
    if value.dtype not in SCORES:
        raise ValueError(f"`{name}` must be a floating or integer tensor of scores, got {value.dtype}")


def integer_target(value: Any) -> None:
    """An int or bool tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`target` must be a tensor (see `torch.as_tensor`), got {type(value).__name__}")
    if value.dtype not in INTEGERS and value.dtype != torch.bool:
        raise ValueError(f"`target` must be an integer or bool tensor (see `target.long()`), got {value.dtype}")


def common_dtype(name: str, dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """The narrowest dtype that holds every number of all these, so that no two different ones become one.

    torch's own promotion takes int64 beside float32 for float32, and 2^24 + 1 for 2^24.

    Raises:
        ValueError: for int64 beside floats, which no dtype holds both.
    """
    given = set(dtypes)
    found = functools.reduce(torch.promote_types, given)
    if not found.is_floating_point:
        return found
    if torch.int64 in given:
        kinds = " and ".join(sorted(str(dtype) for dtype in given))
        raise ValueError(
            f"`{name}` must not be of int64 in one place and floating in another, which no dtype holds both, "
            f"got {kinds}; where all are below 2^53 give `{name}.double()`"
        )
    for whole, real in _HELD_BY.items():
        found = torch.promote_types(found, real) if whole in given else found
    return found


def same_shape(preds: Tensor, target: Tensor) -> None:
    """``preds`` and ``target`` of one shape, with one dimension at least."""
    if preds.shape != target.shape:
        raise ValueError(
            f"`preds` and `target` must have the same shape, got {tuple(preds.shape)} and {tuple(target.shape)}"
        )
    if not preds.ndim:
        raise ValueError("`preds` and `target` must have at least one dimension, got 0-D tensors")


def rows(name: str, value: Tensor) -> None:
    """One ranking, or one a row."""
    if value.ndim not in (1, 2):
        raise ValueError(f"`{name}` must have shape (N,) or (Q, N), got {tuple(value.shape)}")


def depths(name: str, value: Any, most: float) -> None:
    """A 1-D tensor of numbers in [0, most]."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor or None, got {type(value).__name__}")
    if value.ndim != 1 or value.is_complex() or not bool(((value >= 0) & (value <= most)).all()):
        raise ValueError(f"`{name}` must be 1-D and hold numbers in [0, {most:g}], got {value!r}")


def columns(preds: Tensor, width: int, name: str) -> None:
    """``preds`` is (N, ``width``, ...)."""
    if preds.ndim < 2 or preds.shape[1] != width:
        raise ValueError(f"`preds` must have shape (N, {width}, ...) for `{name}={width}`, got {tuple(preds.shape)}")


def class_target(preds: Tensor, target: Tensor) -> None:
    """``target`` is ``preds`` without its second dimension."""
    if target.shape != preds.shape[:1] + preds.shape[2:]:
        raise ValueError(
            "`target` must have the shape of `preds` without its class dimension, "
            f"{tuple(preds.shape[:1] + preds.shape[2:])}, got {tuple(target.shape)}"
        )


def weights_form(value: Any, shapes: Sequence[torch.Size]) -> None:
    """A floating or integer tensor of one of the ``shapes``."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`weights` must be a tensor or None, got {type(value).__name__}")
    if value.dtype not in SCORES:
        raise ValueError(f"`weights` must be a floating or integer tensor, got {value.dtype}")
    if value.shape not in shapes:
        allowed = " or ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(f"`weights` must have shape {allowed}, got {tuple(value.shape)}")


def same_device(**tensors: Tensor | None) -> None:
    """All tensors lie on one device."""
    devices = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"`{name}` on {device}" for name, device in devices.items())
        raise ValueError(f"all tensors must lie on one device, got {places}")


def values(preds: Tensor, target: Tensor, weights: Tensor | None, *, top: int, unit_range: bool) -> Tensor | None:
    """The rules about values, ``VALUE_RULES``.

    Args:
        preds: scores, of any shape; those of ignored items replaced by something harmless.
        target: integers or bool, likewise.
        weights: of any shape, or None.
        top: the largest target allowed.
        unit_range: whether ``preds`` must lie in [0, 1].

    Returns:
        On CPU None. On an accelerator (4,) bool, true where a rule is broken, computed without a sync.

    Raises:
        ValueError: on CPU, for the first rule broken.
    """
    on_cpu = preds.is_cpu
    if on_cpu and weights is None and not unit_range and preds.numel() and _in_order(preds, target, top):
        return None

    def extremes(values: Tensor) -> tuple[Any, Any]:
        low, high = torch.aminmax(values)
        return (low.item(), high.item()) if on_cpu else (low, high)

    broken: list[Any] = [False] * len(VALUE_RULES)
    if preds.numel():
        if unit_range:
            low, high = extremes(preds)
            broken[3] = (low < 0) | (high > 1)
        else:
            high = preds.max().item() if on_cpu else preds.max()
        broken[0] = high != high  # the maximum of anything with NaN is NaN
        if target.dtype != torch.bool:
            low, high = extremes(target)
            broken[1] = (low < 0) | (high > (top if on_cpu else _within(top, target)))
        if weights is not None:
            low, high = extremes(weights)
            broken[2] = ((low >= 0) & (high <= (MOST_WEIGHT if on_cpu else _within(MOST_WEIGHT, weights)))) ^ True
    if not on_cpu:
        device = preds.device
        return torch.stack(
            [x if isinstance(x, Tensor) else torch.zeros((), dtype=torch.bool, device=device) for x in broken]
        )
    if True in broken:
        _refuse(broken.index(True), preds, target, weights, top)
    return None


def _in_order(preds: Tensor, target: Tensor, top: int) -> bool:
    """Whether no score is NaN and every target is from 0 to ``top``, on CPU."""
    high = preds.max().item()
    if high != high:
        return False
    if target.dtype == torch.bool:
        return True
    least, most = torch.aminmax(target)
    return bool(least.item() >= 0 and most.item() <= top)


def _refuse(rule: int, preds: Tensor, target: Tensor, weights: Tensor | None, top: int) -> None:
    """Name the first value that breaks the rule, and where it stands."""
    if rule == 1:
        offender, bad = target, (target < 0) | (target > _within(top, target))
    elif rule == 2 and weights is not None:
        offender, bad = weights, ~((weights >= 0) & (weights <= _within(MOST_WEIGHT, weights)))
    else:
        offender, bad = preds, torch.isnan(preds) if rule == 0 else (preds < 0) | (preds > 1)
    place = tuple(bad.nonzero()[0].tolist())
    where = place[0] if len(place) == 1 else place
    raise ValueError(f"{VALUE_RULES[rule].format(top=top)}; got {offender[place].item()} at index {where}")


def _within(limit: float, values: Tensor) -> float:
    """The limit, or the largest number of the dtype of ``values`` if that is less: in a comparison it would wrap."""
    info = torch.finfo(values.dtype) if values.is_floating_point() else torch.iinfo(values.dtype)
    return min(limit, info.max)
