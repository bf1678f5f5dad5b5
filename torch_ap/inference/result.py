"""What every record of results has in common: its numbers are tensors, and it prints and exports."""

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.runtime.untraced import leave_methods_to_python

_DIGITS = 4
_SHOWN = 6
_WIDTH = 120

R = TypeVar("R", bound="Result")


class Result:
    """Abstract: a frozen dataclass, ``@dataclass(frozen=True, eq=False, repr=False)``.

    Fields declared as ``Tensor`` hold float64 tensors (float32 on devices without float64; counts are int64), 0-d
    where there is one number, and may be given as floats and ints; sizes and settings are plain Python. Those named in
    ``_as_given``, such as scores, keep their dtype.
    """

    _as_given: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        leave_methods_to_python(cls)

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if isinstance(value := getattr(self, field.name), np.generic):
                object.__setattr__(self, field.name, value.item())
            elif isinstance(value, Fraction):
                object.__setattr__(self, field.name, float(value))
        for name in self._tensors():
            value = getattr(self, name)
            value = value.detach() if isinstance(value, Tensor) else number(value)
            if name not in self._as_given:
                value = segments.as_float64(value) if value.is_floating_point() else value.to(torch.int64)
            object.__setattr__(self, name, value)

    @classmethod
    def _tensors(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.type is Tensor]  # type: ignore[arg-type]

    def to(self: R, device: torch.device | str) -> R:
        """The same result with its tensors on a device."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        tensors = self._tensors()
        moved = {x: _moved(value, device) for x, value in held.items() if x in tensors or isinstance(value, dict)}
        return replace(self, **moved)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """Plain Python by name of the field: floats, lists of them, ints and strings."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        """Whether all is the same, NaN being equal to NaN; by repr of the plain values, which has all digits."""
        if not isinstance(other, Result):
            return NotImplemented
        return type(self) is type(other) and repr(self.to_dict()) == repr(other.to_dict())

    __hash__ = None  # type: ignore[assignment] # as of other holders of tensors

    def __repr__(self) -> str:
        """Numbers to four digits; empty texts and None are left out."""
        fields_ = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}  # type: ignore[arg-type]
        shown = {name: value for name, value in fields_.items() if isinstance(value, Tensor) or value not in ("", None)}
        name = type(self).__name__
        line = f"{name}({', '.join(f'{x}={_text(value)}' for x, value in shown.items())})"
        if len(line) <= _WIDTH:
            return line
        lines = [f"    {x}={_text(value, len(x) + 6)},\n" for x, value in shown.items()]
        return f"{name}(\n{''.join(lines)})"


leave_methods_to_python(Result)


def number(value: float) -> Tensor:
    """A number that was computed on the host: 0-d on CPU, float64 or, of an int, int64."""
    return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)


def _moved(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, dict):
        return {name: _moved(one, device) for name, one in value.items()}
    if not isinstance(value, Tensor):
        return value
    narrow = torch.device(device).type == "mps" and value.is_floating_point()  # which lacks float64
    return (value.to(torch.float32) if narrow else value).to(device)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, Tensor) else value


def _text(value: Any, column: int = 0) -> str:
    """A number to four digits, a list of them with its middle left out where it is long, or anything else's repr.

    Args:
        value: a field, or part of one.
        column: where the rows of a table begin, each on a line; 0 for one line.
    """
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    if isinstance(value, dict):
        between = f",{chr(10)}{' ' * column}" if column else ", "
        return f"{{{between.join(f'{name!r}: {_text(one)}' for name, one in value.items())}}}"
    if not isinstance(value, list | Tensor):
        return repr(value)
    half = _SHOWN // 2
    texts = [_text(x) for x in (value if len(value) <= _SHOWN else [*value[:half], *value[-half:]])]
    texts[half:half] = ["..."] if len(value) > _SHOWN else []
    rows = column and len(value) and isinstance(value[0], Tensor) and value[0].ndim
    return f"[{(',' + chr(10) + ' ' * column if rows else ', ').join(texts)}]"
