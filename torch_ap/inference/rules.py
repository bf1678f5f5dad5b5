"""Rules about the arguments of statements of uncertainty, once."""

from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from torch_ap.rules import checks, tensors


def confidence_level(value: Any) -> None:
    """A confidence level strictly between 0 and 1."""
    checks.open_fraction("confidence_level", value)


def ranking_size(n: Any, m: Any) -> None:
    """``n`` items, at least one, and ``m`` of them relevant, from 0 to n."""
    checks.positive_int("n", n)
    checks.positive_int("m", m, least=0)
    if m > n:
        raise ValueError(f"`m` must be at most `n`, the number of items, got m={m}, n={n}")


def rank(name: str, value: Any, n: int) -> None:
    """A rank from 1 to n."""
    checks.positive_int(name, value)
    if value > n:
        raise ValueError(f"`{name}` must be at most the number of items, {n}, got {value}")


def paired(a: Any, b: Any, name_a: str, name_b: str) -> None:
    """Two 1-D tensors of real numbers, of one length, on one device."""
    for name, value in ((name_a, a), (name_b, b)):
        tensors.scores(name, value)
        if value.ndim != 1:
            raise ValueError(f"`{name}` must be 1-D, got shape {tuple(value.shape)}")
    if len(a) != len(b):
        raise ValueError(f"`{name_a}` and `{name_b}` must be paired, of one length, got lengths {len(a)} and {len(b)}")
    tensors.same_device(**{name_a: a, name_b: b})


def ranks(name: str, value: Tensor, target: Any) -> None:
    """Scores without NaN, one for each target."""
    if isinstance(target, Tensor) and value.shape != target.shape:
        raise ValueError(
            f"`{name}` and `target` must have the same shape, got {tuple(value.shape)} and {tuple(target.shape)}"
        )
    bad = torch.isnan(value).nonzero()
    if len(bad):
        raise ValueError(f"`{name}` must not hold NaN; got nan at index {int(bad[0])}")


def query_values(name: str, value: Any, *, ndim: int = 1) -> None:
    """A tensor of finite per-query values, one query at least."""
    tensors.scores(name, value)
    if value.ndim != ndim:
        raise ValueError(f"`{name}` must have {ndim} dimension{'s' if ndim > 1 else ''}, got {tuple(value.shape)}")
    if not value.shape[-1]:
        raise ValueError(f"`{name}` must hold one query at least, got none")
    bad = ~torch.isfinite(value)
    if bool(bad.any()):
        place = bad.nonzero()[0].tolist()
        raise ValueError(
            f"`{name}` must be finite, got {value[tuple(place)].item()} at index {place[0] if ndim == 1 else place}; "
            "leave queries without a value out of both systems"
        )


def bounds(value: Any, **values: Tensor) -> None:
    """None, or the least and the greatest number that values can be, which hold all of them."""
    if value is None:
        return
    pair = isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(x, Real) for x in value)
    if not pair or not float(value[0]) < float(value[1]):
        raise ValueError(f"`bounds` must be None or two ascending numbers, got {value!r}")
    rounding = 1e-6 * (value[1] - value[0])
    for name, given in values.items():
        outside = given[(given < value[0] - rounding) | (given > value[1] + rounding)]
        if len(outside):
            raise ValueError(f"`{name}` must lie within `bounds`, {value!r}, got {outside[0].item()}")


def no_weights(weights: Tensor | None, what: str) -> None:
    """Item weights are refused where the formulas count items."""
    if weights is not None:
        raise ValueError(f"`weights` must be None for {what}: its formulas count items, got {tuple(weights.shape)}")


def probability(value: Any) -> None:
    """The ``p`` of a quantile: a number in [0, 1], not NaN."""
    checks.fraction("p", value)


def whole(name: str, value: Any) -> None:
    """An int of any sign, or NumPy's; a bool is not an int here."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"`{name}` must be an int, got {value!r}")


number, positive = checks.number, checks.positive
