"""The rules about what tensors hold: NaN, targets outside the classes, negative weights, boxes of no size.

On CPU values are looked at at once. On an accelerator a look would stall the device, so each rule gives a flag there, a
bool on the device, which its holder raises later.
"""

import functools
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.rules import tensors
from torch_ap.rules.messages import Plain, refuse

MOST_WEIGHT = 1e288  # 2^63 of them have a sum that float64 holds


class Rule(NamedTuple):
    """Which numbers an argument may hold; NaN is never one of them.

    Attributes:
        argument: its name.
        rule: what a message says of it.
        low: the least number allowed.
        high: the greatest.
        whole: whether fractions are refused.
    """

    argument: str
    rule: str
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False

    @property
    def text(self) -> str:
        """Argument and rule, where the value is not known."""
        return f"`{self.argument}` {self.rule}"

    def offends(self, values: Tensor) -> Tensor:
        """Which values break the rule: bool, of their shape."""
        bad = ~((values >= within(self.low, values)) & (values <= within(self.high, values)))
        return bad | (values != values.trunc()) if self.whole and values.is_floating_point() else bad

    def refuse_first(self, values: Tensor) -> None:
        """Raise for the first value that breaks the rule, if any does."""
        bad = self.offends(values).nonzero()
        if len(bad):
            at = tuple(bad[0].tolist())
            refuse(self.argument, self.rule, Plain(f"{values[at].item()} at index {at[0] if len(at) == 1 else at}"))

    def broken(self, values: Tensor) -> Any:
        """Whether any of the values, one at least, breaks it; a bool on CPU, elsewhere a 0-d one on the device."""
        if self.whole and values.is_floating_point():
            bad = self.offends(values).any()
            return bool(bad) if values.is_cpu else bad
        if math.isinf(self.low) and math.isinf(self.high):  # what is left is NaN
            most = _greatest(values)
            return most != most
        ends: Any = torch.aminmax(values)
        low, high = (end.item() for end in ends) if values.is_cpu else ends
        return ((low >= within(self.low, values)) & (high <= within(self.high, values))) ^ True


def within(limit: float, values: Tensor) -> float:
    """The limit, or the nearest number that the dtype of ``values`` holds: in a comparison the limit would wrap."""
    if values.dtype == torch.bool:
        return limit
    if values.is_floating_point():
        return limit if math.isinf(limit) else _clamped(limit, torch.finfo(values.dtype))
    return _clamped(limit, torch.iinfo(values.dtype))


def _clamped(limit: float, info: torch.finfo | torch.iinfo) -> float:
    return max(min(limit, info.max), info.min)


def is_ignored(target: Tensor, ignore_index: int | None) -> Tensor | None:
    """Which targets are ``ignore_index``; None where their dtype cannot hold it, and comparing would wrap it."""
    if ignore_index is None:
        return None
    dtype = torch.uint8 if target.dtype == torch.bool else target.dtype
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    if _clamped(ignore_index, info) != ignore_index:
        return None
    if dtype.is_floating_point and torch.tensor(float(ignore_index), dtype=dtype).item() != ignore_index:
        return None
    return target == ignore_index


def _greatest(values: Tensor) -> Any:
    """The greatest value, NaN where there is one. On CPU by NumPy, which wakes no threads."""
    if not values.is_cpu or values.dtype == torch.bfloat16:
        most = values.max()
        return most.item() if values.is_cpu else most
    return values.detach().numpy().max()


WEIGHTS = Rule("weights", "must be finite, not negative and at most 1e288", low=0, high=MOST_WEIGHT)
RULES = (
    Rule("preds", "must not hold NaN"),
    Rule("target", "must hold whole numbers from 0 to {top} (or `ignore_index`)", low=0),
    WEIGHTS,
    Rule("preds", "{range}", low=0, high=1),
    Rule("target", "must not hold NaN"),
    Rule("num_relevant", "must not be negative", low=0),
    Rule(
        "target",
        "must hold whole numbers of at least 0 (or `ignore_index`), unless `relevance_level` says from which value on "
        "an item is relevant",
        low=0,
        whole=True,
    ),
)
RANGES = {
    "unit": "must lie in [0, 1], over which an int of `thresholds` or `bins` spaces them evenly; give "
    "`normalization='sigmoid'` (or 'softmax'), or the thresholds or bins themselves, or `bins='adaptive'`",
    "half": "must be numbers of float16 or bfloat16 with `bins='half'`, of which each has a bin; give "
    "`bins='adaptive'`, or round them by `preds.bfloat16()`",
}
VALUE_RULES = tuple(rule.text for rule in RULES)
NAN_SCORE, _CLASS, _WEIGHT, _UNIT, _NAN_TARGET, _NEGATIVE_COUNT, _GRADE = range(len(RULES))
GAIN_RULES = (
    *RULES[:_GRADE],
    Rule(
        "target",
        "must hold grades from 0 to 1e288 (or `ignore_index`); those below 0 count as 0 with a `relevance_level`, from "
        "which on an item has a gain",
        low=0,
        high=MOST_WEIGHT,
    ),
)
GAIN_VALUE_RULES = tuple(rule.text for rule in GAIN_RULES)


def raise_first(rules: Sequence[str], broken: Tensor | None, **words: Any) -> None:
    """Raise for the first of the rules that an accelerator found ``broken``, with ``words`` in the rule's places."""
    flags = [] if broken is None else broken.tolist()
    if True in flags:
        raise ValueError(rules[flags.index(True)].format(**words))


class _HalfRule(Rule):
    """Numbers that float16 or bfloat16 hold, in any dtype."""

    def offends(self, values: Tensor) -> Tensor:
        kept = (values.to(dtype).to(values.dtype) == values for dtype in (torch.float16, torch.bfloat16))
        return ~functools.reduce(torch.logical_or, kept)

    def broken(self, values: Tensor) -> Any:
        bad = self.offends(values).any()
        return bool(bad) if values.is_cpu else bad


def of_classes(preds: Tensor, target: Tensor, weights: Tensor | None, *, top: int, scores_in: str) -> Tensor | None:
    """The rules about items of classes.

    Args:
        preds: scores, of any shape; those of ignored items replaced by something harmless.
        target: integers or bool, likewise.
        weights: of any shape, or None.
        top: the largest target allowed.
        scores_in: "unit" where ``preds`` must lie in [0, 1], "half" where they must be numbers of 16 bits, else "".

    Returns:
        On CPU None. On an accelerator (R,) bool, true where a rule of ``VALUE_RULES`` is broken, without a sync.

    Raises:
        ValueError: on CPU, for the first rule broken.
    """
    rules = list(RULES)
    rules[_CLASS] = RULES[_CLASS]._replace(rule=RULES[_CLASS].rule.format(top=top), high=top)
    looks = {NAN_SCORE: preds, _CLASS: target} | ({} if weights is None else {_WEIGHT: weights})
    if scores_in == "half" and preds.dtype not in (torch.float16, torch.bfloat16):
        rules[_UNIT] = _HalfRule("preds", RANGES["half"])
        looks[_UNIT] = preds
    if scores_in == "unit":
        rules[_UNIT] = RULES[_UNIT]._replace(rule=RANGES["unit"])
        looks[_UNIT] = preds
        if preds.is_cpu and preds.numel() and not rules[_UNIT].broken(preds):  # nor is any NaN
            del looks[NAN_SCORE], looks[_UNIT]
    return _look(rules, looks, preds)


def of_queries(
    preds: Tensor, target: Tensor, num_relevant: Tensor | None, *, grades: bool, gains: bool = False
) -> Tensor | None:
    """The rules about items of queries.

    Args:
        preds: scores, of any shape; those that do not count replaced by something harmless.
        target: of any shape, likewise.
        num_relevant: of any shape, or None.
        grades: whether targets must be whole numbers of at least 0.
        gains: whether targets have a gain, so that they may be fractions, and must be finite; the rules broken are then
            those of ``GAIN_VALUE_RULES``.

    Returns, Raises:
        As :func:`of_classes`.
    """
    rules = GAIN_RULES if gains else RULES
    looks = {NAN_SCORE: preds}
    if target.is_floating_point():
        looks[_NAN_TARGET] = target
    if gains:
        looks[_GRADE] = target if grades else target.clamp(min=0) if target.dtype != torch.bool else target
    elif grades and target.dtype != torch.uint8:
        looks[_GRADE] = target
    if num_relevant is not None:
        looks[_NEGATIVE_COUNT] = num_relevant
    return _look(rules, looks, preds)


def _look(rules: Sequence[Rule], looks: Mapping[int, Tensor], like: Tensor) -> Tensor | None:
    """Look at tensors on one device, each for the rule of its place."""
    flags = None if like.is_cpu else torch.zeros(len(rules), dtype=torch.bool, device=like.device)
    for place, values in looks.items():
        if not values.numel() or values.dtype == torch.bool or (place == NAN_SCORE and not values.is_floating_point()):
            continue
        broken = rules[place].broken(values)
        if flags is not None:
            flags[place] = broken
        elif broken:
            rules[place].refuse_first(values)
    return flags


def scores_of(name: str, value: Tensor, target: Any) -> None:
    """Scores without NaN, of the shape of the target."""
    if isinstance(target, Tensor):
        tensors.shape(name, value, [target.shape], of="target")
    Rule(name, "must not hold NaN").refuse_first(value)


def of_each_query(name: str, value: Any, *, ndim: int = 1) -> None:
    """A tensor of finite per-query values, one query at least."""
    tensors.scores(name, value)
    if value.ndim != ndim or not value.shape[-1]:
        sizes = f"{ndim} dimension{'s' if ndim > 1 else ''}"
        refuse(name, f"must have {sizes}, and hold one query at least", Plain(f"shape {tuple(value.shape)}"))
    most = sys.float_info.max
    Rule(name, "must be finite (leave queries without a value out of both systems)", -most, most).refuse_first(value)
