"""Rules for images: the form of lists of dicts or of dicts with ``counts``, and the values in their columns.

Messages name the list, image and key. As in :mod:`torch_ap.core.base.tensors`, values are checked immediately on CPU;
on an accelerator each rule returns a flag.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from torch_ap.core.base.arrays import native
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr, warn_caller
from torch_ap.core.base.tensors import SCORES, UNSIGNED, Rule
from torch_ap.core.base.untraced import PLAIN_KEYS, key_bits, key_set

FLAGS = ("iscrowd", "difficult", "ignore", "group_of")
LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
_dtype = attrgetter("dtype")
_PLAIN_TYPE = {Tensor}
_INTEGERS = ("labels", "counts", *LISTS)
_MOST = sys.float_info.max
_MOST_TURNED = 1e75  # its fourth power is finite
_MOST_LONG = 1e300  # differences are finite
MOST_FAR = 1e150  # squared differences and areas are finite
_MOST_WHOLE = 2**53  # float64 represents all integers up to it
MOST_SIMILAR = 1 + 1e-6  # 1 plus rounding
_STEPS = 2  # steps of half precision above 1 that are rounding
FEW_ANGLES = 10  # fewer angles do not show their unit
_FEW_IMAGES = 10  # below, images may have no class in common by chance
_LEAST_SPREAD = 0.4  # standard deviation of angles; uniform radians from 0 to pi / 2 have 0.45
_FLAT = 1e-6  # share of the squared edges below which a turn is rounding


def similarities(values: Tensor) -> Tensor:
    """Return similarities as float64; half-precision values that rounding put above 1 become 1."""
    wide = values.to(torch.float64, copy=True)
    if values.dtype in (torch.float16, torch.bfloat16):
        wide.masked_fill_((wide > 1) & (wide <= 1 + _STEPS * torch.finfo(values.dtype).eps), 1.0)
    return wide


class ImageRule(NamedTuple):
    """A rule for the rows of a column.

    Attributes:
        argument: name in messages without an image.
        rule: the rule's text in messages.
        offends: maps (N, ...) values to bool that broadcasts with them, true where a value breaks the rule.
        broken: maps values to whether any breaks the rule, if that is faster.
    """

    argument: str
    rule: str
    offends: Callable[[Tensor], Tensor]
    broken: Callable[[Tensor], Any] | None = None

    @property
    def text(self) -> str:
        """Argument and rule, for messages without the value."""
        return f"`{self.argument}` {self.rule}"


def _numbers(argument: str, rule: str, **limits: float) -> ImageRule:
    numbers = Rule(argument, rule, **limits)  # type: ignore[arg-type]
    return ImageRule(argument, rule, numbers.offends, numbers.broken)


def _sizes(box_format: str) -> ImageRule:
    """Return the rule that ground-truth boxes have no negative size, as sizes read as corners may have."""
    corners = box_format == "xyxy"
    rule = f"must have {'x1 <= x2 and y1 <= y2' if corners else 'no negative width or height'}"
    rule = f"{rule}, by `box_format='{box_format}'`"

    def offends(boxes: Any) -> Any:
        return boxes[:, 2:] < (boxes[:, :2] if corners else 0)

    return ImageRule(
        "boxes` in `target", rule, offends, lambda x: offends(x if x.dtype == torch.bfloat16 else native(x)).any()
    )


def _crosses_itself(quadrilaterals: Tensor) -> Tensor:
    """Return which of (N, 8) quadrilaterals cross themselves, with two left and two right turns: (N, 1) bool."""
    points = quadrilaterals.to(torch.promote_types(quadrilaterals.dtype, torch.float32)).reshape(-1, 4, 2)
    edge = points.roll(-1, 1) - points
    after = edge.roll(-1, 1)
    turn = edge[..., 0] * after[..., 1] - edge[..., 1] * after[..., 0]
    flat = _FLAT * edge.square().sum((1, 2))[:, None]
    return ((turn < -flat).sum(1, keepdim=True) > 1) & ((turn > flat).sum(1, keepdim=True) > 1)


def _beyond_float64(values: Tensor) -> Tensor:
    """Return which integers float64 may round; floats are not affected."""
    if values.is_floating_point() or values.element_size() < 8:
        return torch.zeros_like(values, dtype=torch.bool)
    return (values < -_MOST_WHOLE) | (values > _MOST_WHOLE)


RULES: dict[str, ImageRule] = {
    "boxes": _numbers("boxes", "must be finite, at most 1e150 from 0", low=-MOST_FAR, high=MOST_FAR),
    "scores": _numbers("scores", "must not contain NaN"),
    "flags": _numbers(
        "iscrowd`, `difficult`, `ignore` and `group_of", "must contain 0 and 1 only", low=0, high=1, whole=True
    ),
    "area": _numbers("area", "must be finite", low=-_MOST, high=_MOST),
    "ious": _numbers("ious", "must be at most 1, and no NaN", high=MOST_SIMILAR),
    "counts": ImageRule("counts", "must be at least 0 and add up to the number of rows", lambda x: x < 0),
    **{box_format: _sizes(box_format) for box_format in ("xyxy", "xywh", "cxcywh")},
    "keypoints": _numbers("keypoints", "must be finite", low=-_MOST, high=_MOST),
    "visibility": ImageRule(
        "keypoints` in `target",
        "must have 0, 1 or 2 as the third number of each point, its visibility",
        lambda x: x[..., 2].clamp(0, 2).trunc() != x[..., 2],
    ),
    "known boxes": ImageRule(
        "boxes` in `target",
        "must be finite, or entirely NaN for an unknown box",
        lambda x: (x.isinf() | x.isnan()) & ~x.isnan().all(1, keepdim=True),
    ),
    "size": _numbers("area", "must be a finite number of at least 0", low=0, high=_MOST),
    "moderate": _numbers("boxes", "must be finite, at most 1e75 from 0", low=-_MOST_TURNED, high=_MOST_TURNED),
    "rotated": ImageRule("boxes", "must have no negative width or height", lambda x: x[:, 2:4] < 0),
    "uncrossed": ImageRule(
        "boxes", "must be quadrilaterals with corners in order, so that no edges cross", _crosses_itself
    ),
    "centers": _numbers("centers", "must be finite, at most 1e150 from 0", low=-MOST_FAR, high=MOST_FAR),
    "intervals": _numbers("intervals", "must be finite, at most 1e300 from 0", low=-_MOST_LONG, high=_MOST_LONG),
    "exact": ImageRule("intervals", "must be at most 2^53 from 0 for integers", _beyond_float64),
    "order": ImageRule("intervals", "must have start <= end", lambda x: x[:, 1:] < x[:, :1]),
    "negatives": ImageRule("neg_category_ids", "must not contain a category of the image's ground truths", lambda x: x),
    "one list": ImageRule(
        "neg_category_ids", "must not contain a category of not_exhaustive_category_ids", lambda x: x
    ),
    "categories": ImageRule("labels` and `..._category_ids", "must be categories of `frequencies`", lambda x: x),
}
VALUE_RULES = tuple(rule.text for rule in RULES.values())
RULE_OF = {"scores": "scores", "area": "area", "row": "size"} | dict.fromkeys(FLAGS, "flags")
_RULE_INDEX = {name: index for index, name in enumerate(RULES)}


def check(names: Sequence[str], owner: tuple[str, str], values: Tensor, counts: Tensor | None) -> Tensor | None:
    """Check that a column of detections or ground truths keeps rules.

    Args:
        names: names of the rules.
        owner: argument, such as "preds", and the key in its dicts; "" for the result of a function of an image.
        values: the column.
        counts: (B,) rows per image; None without images.

    Returns:
        On an accelerator (R,) bool, true where a rule of ``VALUE_RULES`` is broken, else None.

    Raises:
        ValueError: on CPU, for the first broken rule.
    """
    flags = None
    for name in names if values.shape[0] and values.dtype != torch.bool else ():
        rule = RULES[name]
        broken = rule.offends(values).any() if rule.broken is None else rule.broken(values)
        if values.is_cpu:
            if bool(broken):
                bad = rule.offends(values)
                row = int(bad.reshape(len(values), -1).any(1).nonzero()[0])
                excerpt = values[row]
                if excerpt.ndim > 1:  # the first part of the row that breaks the rule
                    excerpt = excerpt[bad[row].reshape(len(excerpt), -1).any(1)][0]
                raise_invalid(_location(owner, row, counts), rule.rule, excerpt.tolist())
        else:
            flags = _flag(name, broken) if flags is None else flags | _flag(name, broken)
    return flags


def check_on_cpu(names: Sequence[str], argument: str, values: Tensor) -> None:
    """Check the tensor argument of a function on CPU; an accelerator would have to synchronize."""
    if values.is_cpu:
        check(names, (argument, ""), values, None)


class NegativeSizes(NamedTuple):
    """Boxes of negative size: their number, and the image and numbers of the first."""

    total: int
    image: int
    box: list[float]


def negative_sizes(boxes: Tensor, box_format: str, counts: Tensor) -> NegativeSizes | None:
    """Return the negative sizes of (N, 4) boxes of images with (B,) ``counts`` boxes; None if there are none."""
    rule = RULES[box_format]
    if rule.broken is not None and not rule.broken(boxes):
        return None
    wrong = rule.offends(boxes).any(1)
    row = int(wrong.nonzero()[0])
    return NegativeSizes(int(wrong.sum()), _image_index(row, counts), boxes[row].tolist())


def box_format_warning(boxes: Tensor, box_format: str, counts: Tensor) -> str | None:
    """Return a warning about detections of negative size, or None.

    COCO's code accepts such boxes, and some detectors return a few. Boxes read in the wrong format also have negative
    sizes, and match nothing.
    """
    negative = negative_sizes(boxes, box_format, counts)
    if negative is None:
        return None
    fault, cause = "a width or height below 0", "are corners swapped, or are these a network's raw outputs?"
    if box_format == "xyxy":
        fault, cause = "x2 < x1 or y2 < y1", "are these sizes (then set `box_format`), or are corners swapped?"
    return (
        f"{negative.total} of {len(boxes)} boxes in `preds` have {fault} by `box_format='{box_format}'`, the first in "
        f"`preds[{negative.image}]['boxes']`: {short_repr(negative.box)}; {cause}"
    )


def radians_warning(boxes: Tensor) -> str | None:
    """Return a warning about (N, 5) rotated boxes whose angles, in degrees, are spread like radians, or None."""
    angles = boxes[:, 4].to(torch.float64)
    if len(angles) < FEW_ANGLES or float(angles.abs().max()) > math.pi or float(angles.std()) < _LEAST_SPREAD:
        return None
    return (
        "`box_format` has angles in degrees, but all angles in `target` are in [-pi, pi]; if they are radians, convert "
        "them with `torch.rad2deg`"
    )


def warn_if_no_label_in_common(settings: Any, columns: Mapping[str, Tensor]) -> bool:
    """Warn if the detections and ground truths have no label in common, so that all values are 0.

    Waits for an accelerator.

    Args:
        settings: settings of the metric; there is no warning without ``check_values`` and with ``average="micro"``.
        columns: all images, or their matches.

    Returns:
        Whether there was a warning.
    """
    preds, target = columns["detection_labels"], columns["ground_truth_labels"]
    if not settings.check_values or getattr(settings, "average", None) == "micro":
        return False
    if len(columns["detections_per_image"]) < _FEW_IMAGES or not len(preds) or not len(target):
        return False
    if bool((target == preds[0]).any() | (preds == target[0]).any()):  # nearly always true, and far faster
        return False
    detected, true = torch.unique(preds), torch.unique(target)
    if bool(torch.isin(detected, true).any()):
        return False
    labels = f"{short_repr(detected.tolist())}, occurs in `target`, {short_repr(true.tolist())}"
    warn_caller(
        f"no label in `preds`, {labels}, so no detection can match: do both use the same class numbers?", UserWarning
    )
    return True


def check_ids(name: str, owner: tuple[str, str], ids: Tensor, wrong: Tensor, counts: Tensor) -> Tensor | None:
    """Check a rule for ids with precomputed flags of the offending ids; see :func:`check`.

    Args:
        name: name of the rule.
        owner: as of :func:`check`.
        ids: (N,) ids of all images, concatenated.
        wrong: (N,) bool, ids that break the rule.
        counts: (B,) number of ids of each image.
    """
    if not ids.is_cpu:
        return _flag(name, wrong.any())
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise_invalid(f"{owner[0]}[{_image_index(row, counts)}]['{owner[1]}']", RULES[name].rule, int(ids[row]))
    return None


def check_counts(value: Tensor, total: int) -> Tensor | None:
    """Check the sum of ``counts`` on an accelerator; None on CPU, where :func:`counts` has checked it."""
    return None if value.is_cpu else _flag("counts", (value < 0).any() | (value.sum() != total))


def _location(owner: tuple[str, str], row: int, counts: Tensor | None) -> str:
    """Return the name of the part of a column that contains a row, for messages."""
    side, key = owner
    if counts is None:
        return side
    image = _image_index(row, counts)
    return f"{side}[{image}]['{key}']" if key else f"{side}(preds[{image}], target[{image}])"


def _image_index(row: int, counts: Tensor) -> int:
    """Return the image of a row of a column."""
    return int(torch.searchsorted(counts.cumsum(0), row, right=True))


def _flag(name: str, broken: Tensor) -> Tensor:
    flags = torch.zeros(len(RULES), dtype=torch.bool, device=broken.device)
    flags[_RULE_INDEX[name]] = broken
    return flags


def lists(preds: Any, target: Any) -> None:
    """Raise ValueError unless both arguments are lists or tuples of dicts with equal lengths."""
    for name, value in (("preds", preds), ("target", target)):
        if not isinstance(value, Sequence) or isinstance(value, str):
            rule = "must be a list of dicts, one per image, or one dict with `counts`"
            raise_invalid(name, rule, Plain(type(value).__name__))
        for index, item in enumerate(value) if set(map(type, value)) != {dict} else ():
            if not isinstance(item, Mapping):
                raise_invalid(f"{name}[{index}]", "must be a dict", Plain(type(item).__name__))
    if len(preds) != len(target):
        raise ValueError(f"`preds` and `target` must have the same length, got {len(preds)} and {len(target)}")


def packed(name: str, value: Any) -> None:
    """Raise ValueError unless a side is a dict with ``counts``, the packed form, which both sides must have."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"`preds` and `target` must both be lists of dicts, or both be dicts with `counts`; `{name}` is a "
            f"{type(value).__name__}"
        )
    if "counts" not in value:
        got = Plain(f"a dict with the keys {sorted(value, key=str)}")
        raise_invalid(name, "must be a list of dicts, one per image, or a dict with `counts`, the rows per image", got)


def raise_invalid_column(
    name: str,
    key: str,
    values: Sequence[Any],
    lengths: Sequence[int] | None,
    row: tuple[int, ...] = (),
    *,
    packed: bool = False,
) -> NoReturn:
    """Raise ValueError for the first image whose ``key`` breaks a rule of form, after :func:`form_fits` returned False.

    Args:
        name: "preds" or "target".
        key: key in the dicts.
        values: the key's value in each dict.
        lengths: the expected number of rows of each value, if known.
        row: shape of each row.
        packed: whether a single dict contains all images.
    """
    shape = f"({', '.join(map(str, ('N', *row)))}{'' if row else ','})"
    for index, value in enumerate(values):
        where = f"{_dict_of(name, index, packed)}['{key}']"
        if not isinstance(value, Tensor):
            raise_invalid(where, "must be a tensor", Plain(type(value).__name__))
        if value.numel() and (not value.ndim or value.shape[1:] != row):
            points = ", a point for each of `sigmas`" if key == "keypoints" else ""
            raise_invalid(where, f"must have shape {shape}{points}", Plain(tuple(value.shape)))
        if value.numel() and not _dtype_fits(key, value.dtype):
            kind = "an integer" if key in _INTEGERS else "a real"
            more = ", which int64 does not represent" if value.dtype == torch.uint64 else ""
            more = ", which torch does not sort" if key == "scores" and value.dtype in UNSIGNED else more
            raise_invalid(where, f"must be {kind} tensor", Plain(f"{value.dtype}{more}"))
        if lengths is not None and len(value) != lengths[index]:
            raise_invalid(where, f"must have one entry for each of {lengths[index]} scores or labels", len(value))
    devices = sorted({str(value.device) for value in values})
    raise_invalid(f"{key}` in `{name}", "must be on one device", Plain(", ".join(devices)))


def join_usual(
    key: str,
    values: Sequence[Any],
    lengths: Sequence[int] | None = None,
    row: tuple[int, ...] = (),
    *,
    copy: bool = True,
) -> Tensor | None:
    """Return the concatenated values of a key if they are tensors on CPU of one dtype that keep the rules of form.

    The checks of each value run in C, and ``torch.cat`` raises for other shapes.

    Args:
        key: key in the dicts.
        values: the key's value in each dict.
        lengths: the expected number of rows of each value, if known.
        row: shape of each row.
        copy: whether the column must not share memory with a single value.

    Returns:
        The column; None for other values, which may need a conversion (:mod:`torch_ap.core.base.untraced`), and which
        :func:`form_fits` checks.
    """
    if set(map(type, values)) != _PLAIN_TYPE or not values[0].is_cpu or len(set(map(_dtype, values))) != 1:
        return None
    size = math.prod(row)
    if lengths is not None and list(map(Tensor.numel, values)) != [size * length for length in lengths]:
        return None
    try:
        joined = torch.cat(values) if copy or len(values) > 1 else values[0].contiguous()  # type: ignore[arg-type]
    except RuntimeError:
        return None
    is_plain = key_bits(key_set(joined)) in PLAIN_KEYS  # a column has the keys of all parts
    if not is_plain or not joined.ndim or joined.shape[1:] != row or not _dtype_fits(key, joined.dtype):
        return None
    return joined.detach() if joined.requires_grad else joined


def form_fits(key: str, values: Sequence[Any], lengths: Sequence[int] | None, row: tuple[int, ...] = ()) -> bool:
    """Return whether all values keep the rules of form; empty values may have any dtype and any shape (0, ...)."""
    if not all(issubclass(kind, Tensor) for kind in set(map(type, values))):
        return False
    shapes = [value.shape for value in values]
    if any(not shape or (shape[0] and shape[1:] != row) for shape in set(shapes)):
        return False
    if lengths is not None and [shape[0] for shape in shapes] != list(lengths):
        return False
    dtypes = {value.dtype for value in values}
    if not all(_dtype_fits(key, dtype) for dtype in dtypes):
        dtypes = {value.dtype for value, shape in zip(values, shapes, strict=True) if shape[0]}
        if not all(_dtype_fits(key, dtype) for dtype in dtypes):
            return False
    return {value.is_cpu for value in values} == {True} or len({value.device for value in values}) <= 1


def _dtype_fits(key: str, dtype: torch.dtype) -> bool:
    if dtype.is_complex:
        return False
    if key in _INTEGERS:
        return not dtype.is_floating_point and dtype not in (torch.bool, torch.uint64)
    if key == "scores":
        return dtype in SCORES
    return dtype != torch.bool or key in FLAGS


def require_key(name: str, items: Sequence[Mapping[str, Any]], key: str, *, packed: bool = False) -> None:
    """Raise ValueError unless every dict has the key; with ``packed``, a single dict contains all images."""
    for index, item in enumerate(items):
        if key not in item:
            raise_invalid(_dict_of(name, index, packed), f"must have the key '{key}'", sorted(item, key=str))


def _dict_of(name: str, index: int, packed: bool) -> str:
    return name if packed else f"{name}[{index}]"


def counts(name: str, value: Any, total: int, key: str = "counts") -> None:
    """Raise ValueError unless ``counts`` are integers of at least 0 whose sum is the number of rows."""
    if not isinstance(value, Tensor) or value.ndim != 1 or not _dtype_fits("counts", value.dtype):
        raise_invalid(f"{name}['{key}']", "must be a 1-D integer tensor", value)
    array = value.detach().numpy() if value.is_cpu else None
    if array is not None and len(array) and (array.min() < 0 or array.sum() != total):
        rule = f"must be at least 0 and add up to the number of rows, {total}"
        raise_invalid(f"{name}['{key}']", rule, value.tolist())
