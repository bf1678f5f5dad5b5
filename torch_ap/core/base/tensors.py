"""Rules for the form of tensors: types, shapes, dtypes and devices, without reading values.

Rules for the values of tensors: NaN, targets outside the classes, negative weights.

On CPU, values are checked immediately. On an accelerator, a check would wait for the device: each rule returns a bool
on the device, and the metric raises the error later.
"""

import functools
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.checks import as_int64
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SCORES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, *INTEGERS)
_IDS = ("indexes", "groups", "sample_ids")  # arguments with integers for names
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch neither compares nor sorts these


def tensor(name: str, value: Any, *, hint: str = " (see `torch.as_tensor`)") -> None:
    """Raise TypeError unless ``value`` is a tensor."""
    if not isinstance(value, Tensor):
        raise_invalid(
            name, f"must be a tensor{hint}", Plain(f"{type(value).__name__}{_conversion_hint(name, value)}"), TypeError
        )


def _conversion_hint(name: str, value: Any) -> str:
    """Return the code that converts a value to a tensor; ids that are names need an encoder."""
    column = hasattr(value, "to_numpy")
    if not column and not isinstance(value, list | tuple | np.ndarray):
        return ""
    if isinstance(value, list | tuple) and any(isinstance(x, Tensor) for x in value):
        shapes = {x.shape if isinstance(x, Tensor) else None for x in value}
        return f"; write `torch.stack({name})`" if len(shapes) == 1 else ""
    try:
        array = np.asarray(value.to_numpy() if column else value)
    except ValueError:  # ragged lists
        return ""
    if array.dtype.kind not in "biuf":
        return f"; write `torch_ap.IndexEncoder()({name})`" if name in _IDS else ""
    if isinstance(value, list | tuple):
        return f"; write `torch.tensor({name})`"
    return f"; write `torch.from_numpy({name}{'.to_numpy()' if column else ''})`"


def scores(name: str, value: Any) -> None:
    """Raise an error unless ``value`` is a real tensor; bool is a decision, not a score."""
    tensor(name, value)
    if value.dtype not in SCORES:
        raise_invalid(name, "must be a floating or integer tensor", value.dtype)


def numbers(name: str, value: Any) -> None:
    """Raise an error unless ``value`` is a 1-D tensor of at least one real number."""
    tensor(name, value)
    if value.ndim != 1 or not value.numel() or value.dtype not in SCORES:
        raise_invalid(name, "must be 1-D, floating or integer and not empty", _form(value))


def recall_levels(name: str, levels: Any) -> None:
    """Raise an error unless ``levels`` is a 1-D tensor of numbers in [0, 1]."""
    tensor(name, levels)
    if levels.ndim != 1 or not levels.numel() or not levels.is_floating_point():
        raise_invalid(name, "as a tensor must be 1-D, floating and not empty", _form(levels))
    low, high = map(float, levels.aminmax())  # NaN if any is NaN
    if not 0 <= low <= high <= 1:
        raise_invalid(name, "as a tensor must contain recall levels in [0, 1]", levels.tolist())


def depths(name: str, value: Any, most: float) -> None:
    """Raise an error unless ``value`` is a 1-D tensor of numbers in [0, most]."""
    tensor(name, value, hint=" or None")
    if value.ndim != 1 or value.is_complex() or not bool(((value >= 0) & (value <= most)).all()):
        raise_invalid(name, f"must be 1-D with numbers in [0, {most:g}]", value)


def integer_target(value: Any) -> None:
    """Raise an error unless ``value`` is an int or bool tensor."""
    tensor("target", value)
    if value.dtype not in INTEGERS and value.dtype != torch.bool:
        raise_invalid("target", "must be an integer or bool tensor (see `target.long()`)", value.dtype)


def graded_target(value: Any) -> None:
    """Raise an error unless ``value`` is a real or bool tensor: 0 and 1, or grades."""
    tensor("target", value)
    if value.is_complex() or value.dtype in UNSIGNED:
        raise_invalid("target", "must be a floating, bool, uint8 or signed integer tensor", value.dtype)


def integers(name: str, value: Tensor) -> None:
    """Raise ValueError unless the dtype of ``value`` is an integer that int64 represents."""
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise_invalid(name, "must be an integer tensor", value.dtype)
    if value.dtype == torch.uint64:
        got = Plain(f"{value.dtype}; if all values are below 2^63, pass `{name}.long()`")
        raise_invalid(name, "must have an integer dtype that int64 represents", got)


def shape(name: str, value: Tensor, shapes: Sequence[torch.Size], note: str = "", *, like: str = "") -> None:
    """Raise ValueError unless ``value`` has one of the shapes, in messages the shape of argument ``like``."""
    if value.shape not in shapes:
        choices = " or ".join(str(tuple(x)) for x in shapes)
        rule = f"the shape of `{like}`, {choices}" if like else f"shape {choices}"
        raise_invalid(name, f"must have {rule}{note}", Plain(tuple(value.shape)))


def weights_form(name: str, value: Any, shapes: Sequence[torch.Size]) -> None:
    """Raise an error unless ``value`` is a floating or integer tensor of one of the ``shapes``."""
    tensor(name, value, hint=" or None")
    if value.dtype not in SCORES:
        raise_invalid(name, "must be a floating or integer tensor", value.dtype)
    shape(name, value, shapes)


def indexes(value: Any, preds: Tensor) -> None:
    """Raise an error unless ``value`` contains integers in the shape of ``preds``."""
    tensor("indexes", value, hint=" or None")
    integers("indexes", value)
    shape("indexes", value, [preds.shape], like="preds")


def mask(value: Any, preds: Tensor, name: str = "mask") -> None:
    """Raise an error unless ``value`` is a bool tensor in the shape of ``preds``."""
    tensor(name, value, hint=" or None")
    if value.dtype != torch.bool:
        raise_invalid(name, "must be a bool tensor", value.dtype)
    shape(name, value, [preds.shape], like="preds")


def same_shape(preds: Tensor, target: Tensor) -> None:
    """Raise ValueError unless ``preds`` and ``target`` have one shape with at least one dimension."""
    if preds.shape != target.shape:
        raise ValueError(
            f"`preds` and `target` must have the same shape, got {tuple(preds.shape)} and {tuple(target.shape)}"
        )
    if not preds.ndim:
        raise ValueError("`preds` and `target` must have at least one dimension, got 0-D tensors")


def rows(name: str, value: Tensor) -> None:
    """Raise ValueError unless ``value`` is one ranking, or one ranking per row."""
    if value.ndim not in (1, 2):
        raise_invalid(name, "must have shape (N,) or (Q, N)", Plain(tuple(value.shape)))


def query_rows(preds: Tensor) -> None:
    """Raise ValueError unless ``preds`` is (Q, D), as needed without ``indexes``."""
    if preds.ndim != 2:
        rule = "must be (Q, D) with one query per row if `indexes` is None"
        raise_invalid("preds", rule, Plain(f"shape {tuple(preds.shape)}"))


def columns(preds: Tensor, width: int, name: str) -> None:
    """Raise ValueError unless ``preds`` has shape (N, ``width``, ...)."""
    if preds.ndim < 2 or preds.shape[1] != width:
        raise_invalid("preds", f"must have shape (N, {width}, ...) for `{name}={width}`", Plain(tuple(preds.shape)))


def class_target(preds: Tensor, target: Tensor) -> None:
    """Raise ValueError unless ``target`` has the shape of ``preds`` without its second dimension."""
    expected = preds.shape[:1] + preds.shape[2:]
    if target.shape != expected:
        rule = f"must have the shape of `preds` without its class dimension, {tuple(expected)}"
        raise_invalid("target", rule, Plain(tuple(target.shape)))


def counts_by_query(value: Mapping[Any, Any]) -> tuple[list[int], list[int]]:
    """Return the queries and counts of a dict from query to m as lists of ints, m at least 0."""
    queries, counts = [], []
    for key, m in value.items():
        query, relevant = as_int64(key), as_int64(m)
        if query is None:
            raise_invalid("num_relevant", "must have int queries as keys, from -2^63 to 2^63 - 1", key)
        if relevant is None or relevant < 0:
            got = Plain(f"{short_repr(m)} for query {query}")
            raise_invalid("num_relevant", "must contain ints of at least 0 and below 2^63", got)
        queries.append(query)
        counts.append(relevant)
    return queries, counts


def counts(value: Any, size: torch.Size, note: str) -> None:
    """Raise an error unless ``value`` contains integers in the given shape."""
    tensor("num_relevant", value, hint=", a dict or None")
    integers("num_relevant", value)
    shape("num_relevant", value, [size], f", {note}")


def same_device(**tensors: Tensor | None) -> None:
    """Raise ValueError unless all tensors are on one device."""
    devices = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"`{name}` on {device}" for name, device in devices.items())
        raise ValueError(f"all tensors must be on one device, got {places}")


def paired_lengths(**tensors: Tensor) -> None:
    """Raise ValueError unless the 1-D tensors have one length and one device."""
    if len({len(value) for value in tensors.values()}) > 1:
        lengths = " and ".join(f"{len(value)} of `{name}`" for name, value in tensors.items())
        raise ValueError(f"{' and '.join(f'`{x}`' for x in tensors)} must have one length, got {lengths}")
    same_device(**tensors)


def check_paired(**tensors: Any) -> None:
    """Raise an error unless all values are 1-D real tensors of one length and device."""
    for name, value in tensors.items():
        scores(name, value)
        if value.ndim != 1:
            raise_invalid(name, "must be 1-D", Plain(f"shape {tuple(value.shape)}"))
    paired_lengths(**tensors)


def are_equal(a: Any, b: Any) -> bool:
    """Return whether two settings are equal, tensors by shape and values."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)
    return bool(a == b)


def no_weights(weights: Any, method: str) -> None:
    """Raise ValueError for item weights, which formulas of item counts do not support."""
    if weights is not None:
        got = Plain(f"shape {tuple(weights.shape)}") if isinstance(weights, Tensor) else weights
        raise_invalid("weights", f"must be None for {method}, whose formulas count items", got)


def check_returned(argument: str, rule: str, value: Any, shape: tuple[int, ...], *, allow_bool: bool = False) -> None:
    """Raise ValueError unless a user's value is a real tensor of this shape, or with ``allow_bool`` a bool tensor."""
    if isinstance(value, Tensor) and value.dtype == torch.bool and not allow_bool:
        raise_invalid(argument, f"{rule} and numbers", _form(value))
    if not isinstance(value, Tensor) or value.shape != shape or value.is_complex():
        raise_invalid(argument, rule, _form(value) if isinstance(value, Tensor) else Plain(type(value).__name__))


def _form(value: Tensor) -> Plain:
    return Plain(f"shape {tuple(value.shape)}, {value.dtype}")


MOST_WEIGHT = 1e288  # the sum of 2^63 such weights is a finite float64


class Rule(NamedTuple):
    """The valid numbers of an argument; NaN is always invalid.

    Attributes:
        argument: name of the argument.
        rule: the rule's text in messages.
        low: the least valid number.
        high: the greatest valid number.
        whole: whether fractions are invalid.
    """

    argument: str
    rule: str
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False

    @property
    def text(self) -> str:
        """Argument and rule, for messages without the value."""
        return f"`{self.argument}` {self.rule}"

    def offends(self, values: Tensor) -> Tensor:
        """Return which values break the rule, bool of their shape."""
        bad = ~((values >= clamp_limit(self.low, values)) & (values <= clamp_limit(self.high, values)))
        return bad | (values != values.trunc()) if self.whole and values.is_floating_point() else bad

    def check(self, values: Tensor) -> None:
        """Raise ValueError for the first value that breaks the rule, if any."""
        bad = self.offends(values).nonzero()
        if len(bad):
            at = tuple(bad[0].tolist())
            raise_invalid(
                self.argument, self.rule, Plain(f"{values[at].item()} at index {at[0] if len(at) == 1 else at}")
            )

    def broken(self, values: Tensor) -> Any:
        """Return whether any of the values, at least one, breaks the rule: a bool on CPU, else a 0-d tensor."""
        if self.whole and values.is_floating_point():
            bad = self.offends(values).any()
            return bool(bad) if values.is_cpu else bad
        if math.isinf(self.low) and math.isinf(self.high):  # only NaN is invalid
            greatest = _greatest(values)
            return greatest != greatest
        ends: tuple[Any, Any] = torch.aminmax(values)
        low, high = (ends[0].item(), ends[1].item()) if values.is_cpu else ends
        return ((low >= clamp_limit(self.low, values)) & (high <= clamp_limit(self.high, values))) ^ True


def clamp_limit(limit: float, values: Tensor) -> float:
    """Return the nearest number to the limit in the dtype of ``values``; another limit would wrap in comparisons."""
    return _limit_in_dtype(limit, values.dtype)


@functools.lru_cache(maxsize=256, typed=True)
def _limit_in_dtype(limit: float, dtype: torch.dtype) -> float:
    if dtype == torch.bool:
        return limit
    if dtype.is_floating_point:
        return limit if math.isinf(limit) else _clamped(limit, torch.finfo(dtype))
    return _clamped(limit, torch.iinfo(dtype))


def _clamped(limit: float, info: torch.finfo | torch.iinfo) -> float:
    return max(min(limit, info.max), info.min)


def is_ignored(target: Tensor, ignore_index: int | Sequence[int] | None) -> Tensor | None:
    """Return which targets equal ``ignore_index``, or one of several values; None if their dtype represents none.

    A value that the dtype cannot represent would wrap.
    """
    if ignore_index is None:
        return None
    if isinstance(ignore_index, Sequence):
        masks = [mask for value in ignore_index if (mask := is_ignored(target, value)) is not None]
        return functools.reduce(torch.logical_or, masks) if masks else None
    dtype = torch.uint8 if target.dtype == torch.bool else target.dtype
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    if _clamped(ignore_index, info) != ignore_index:
        return None
    if dtype.is_floating_point and torch.tensor(float(ignore_index), dtype=dtype).item() != ignore_index:
        return None
    return target == ignore_index


def _greatest(values: Tensor) -> Any:
    """Return the greatest value, or NaN if any is NaN; on CPU with NumPy, which does not wake threads."""
    if not values.is_cpu or values.dtype == torch.bfloat16:
        greatest = values.max()
        return greatest.item() if values.is_cpu else greatest
    return np.maximum.reduce(values.detach().numpy(), None)


WEIGHTS = Rule("weights", "must be finite, not negative and at most 1e288", low=0, high=MOST_WEIGHT)
# the tolerance is larger than the rounding error of the reciprocal of a float32 probability, 1.2e-7
SAMPLING_WEIGHTS = Rule(
    "sampling_weights", "must be finite and at least 1, as 1 / probability", low=1 - 1e-6, high=MOST_WEIGHT
)
RULES = (
    Rule("preds", "must not contain NaN"),
    Rule("target", "must contain integers from 0 to {top} (or `ignore_index`)", low=0),
    WEIGHTS,
    Rule("preds", "{range}", low=0, high=1),
    Rule("target", "must not contain NaN"),
    Rule("num_relevant", "must not be negative", low=0),
    Rule(
        "target",
        "must contain integers of at least 0 (or `ignore_index`), unless `relevance_level` sets the least value of "
        "relevant items",
        low=0,
        whole=True,
    ),
)
RANGES = {
    "unit": "must be in [0, 1], the range of the thresholds or bins if `thresholds` or `bins` is an int; use "
    "`normalization='sigmoid'` (or 'softmax'), or pass thresholds or bins, or use `bins='adaptive'`",
    "half": "must be numbers of float16 or bfloat16 with `bins='half'`, which has one bin per number; use "
    "`bins='adaptive'`, or round them with `preds.bfloat16()`",
}
VALUE_RULES = tuple(rule.text for rule in RULES)
NAN_SCORE, _CLASS, _WEIGHT, _UNIT, _NAN_TARGET, _NEGATIVE_COUNT, _GRADE = range(len(RULES))
GAIN_RULES = (
    *RULES[:_GRADE],
    Rule(
        "target",
        "must contain grades from 0 to 1e288 (or `ignore_index`); with `relevance_level`, grades below 0 are valid and "
        "count as 0",
        low=0,
        high=MOST_WEIGHT,
    ),
)
GAIN_VALUE_RULES = tuple(rule.text for rule in GAIN_RULES)


def raise_first(rules: Sequence[str], broken: Tensor | None, **words: Any) -> None:
    """Raise ValueError for the first rule that is ``broken`` on an accelerator; ``words`` fill the rule's text."""
    flags = [] if broken is None else broken.tolist()
    if True in flags:
        raise ValueError(rules[flags.index(True)].format(**words))


class _HalfRule(Rule):
    """Rule for numbers that float16 or bfloat16 represents, in any dtype."""

    def offends(self, values: Tensor) -> Tensor:
        exact = (values.to(dtype).to(values.dtype) == values for dtype in (torch.float16, torch.bfloat16))
        return ~functools.reduce(torch.logical_or, exact)

    def broken(self, values: Tensor) -> Any:
        bad = self.offends(values).any()
        return bool(bad) if values.is_cpu else bad


def check_classification(
    preds: Tensor, target: Tensor, weights: Tensor | None, *, top: int, scores_in: str
) -> Tensor | None:
    """Check the values of items of classification.

    Args:
        preds: scores of any shape, with valid values for ignored items.
        target: integers or bool of any shape, with valid values for ignored items.
        weights: any shape, or None.
        top: the largest valid target.
        scores_in: "unit" if ``preds`` must be in [0, 1], "half" if they must be 16-bit numbers, else "".

    Returns:
        On an accelerator (R,) bool, the broken rules of ``VALUE_RULES``, without synchronization; else None.

    Raises:
        ValueError: on CPU, for the first broken rule.
    """
    rules = list(RULES)
    rules[_CLASS] = RULES[_CLASS]._replace(rule=RULES[_CLASS].rule.format(top=top), high=top)
    values_by_rule = {NAN_SCORE: preds, _CLASS: target} | ({} if weights is None else {_WEIGHT: weights})
    if scores_in == "half" and preds.dtype not in (torch.float16, torch.bfloat16):
        rules[_UNIT] = _HalfRule("preds", RANGES["half"])
        values_by_rule[_UNIT] = preds
    if scores_in == "unit":
        rules[_UNIT] = RULES[_UNIT]._replace(rule=RANGES["unit"])
        values_by_rule[_UNIT] = preds
        if preds.is_cpu and preds.numel() and not rules[_UNIT].broken(preds):  # rules out NaN too
            del values_by_rule[NAN_SCORE], values_by_rule[_UNIT]
    return _check(rules, values_by_rule, preds)


def check_queries(
    preds: Tensor, target: Tensor, num_relevant: Tensor | None, *, grades: bool, gains: bool = False
) -> Tensor | None:
    """Check the values of items of queries.

    Args:
        preds: scores of any shape, with valid values for ignored items.
        target: any shape, with valid values for ignored items.
        num_relevant: any shape, or None.
        grades: whether targets must be integers of at least 0.
        gains: whether targets are gains, which are finite and may be fractions; the result then refers to the rules of
            ``GAIN_VALUE_RULES``.

    Returns:
        As :func:`check_classification`.

    Raises:
        ValueError: as :func:`check_classification`.
    """
    rules = GAIN_RULES if gains else RULES
    values_by_rule = {NAN_SCORE: preds}
    if target.is_floating_point():
        values_by_rule[_NAN_TARGET] = target
    if gains:
        values_by_rule[_GRADE] = target if grades else target.clamp(min=0) if target.dtype != torch.bool else target
    elif grades and target.dtype != torch.uint8:
        values_by_rule[_GRADE] = target
    if num_relevant is not None:
        values_by_rule[_NEGATIVE_COUNT] = num_relevant
    return _check(rules, values_by_rule, preds)


def _check(rules: Sequence[Rule], values_by_rule: Mapping[int, Tensor], like: Tensor) -> Tensor | None:
    """Check tensors on one device, each against the rule with its index."""
    flags = None if like.is_cpu else torch.zeros(len(rules), dtype=torch.bool, device=like.device)
    for place, values in values_by_rule.items():
        if not values.numel() or values.dtype == torch.bool or (place == NAN_SCORE and not values.is_floating_point()):
            continue
        broken = rules[place].broken(values)
        if flags is not None:
            flags[place] = broken
        elif broken:
            rules[place].check(values)
    return flags


def check_scores(name: str, value: Tensor, target: Any) -> None:
    """Raise ValueError unless the scores have the shape of the target and no NaN."""
    if isinstance(target, Tensor):
        shape(name, value, [target.shape], like="target")
    Rule(name, "must not contain NaN").check(value)


def check_query_values(name: str, value: Any, *, ndim: int = 1) -> None:
    """Raise ValueError unless the tensor has finite values of at least one query."""
    scores(name, value)
    if value.ndim != ndim or not value.shape[-1]:
        sizes = f"{ndim} dimension{'s' if ndim > 1 else ''}"
        raise_invalid(name, f"must have {sizes} and at least one query", Plain(f"shape {tuple(value.shape)}"))
    most = sys.float_info.max
    Rule(name, "must be finite (remove queries without a value from both systems)", -most, most).check(value)
