"""The rules about what the columns of images hold: boxes of no size, flags that are none, scores that are NaN.

As in :mod:`torch_ap.rules.values`, values are looked at at once on CPU; on an accelerator each rule gives a flag.
"""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.rules.messages import refuse, shown
from torch_ap.rules.values import Rule

_MOST = sys.float_info.max
_MOST_TURNED = 1e75  # fourth powers of it are finite
_MOST_LONG = 1e300  # differences of it are
_MOST_FAR = 1e150  # squares of differences of it are
_MOST_WHOLE = 2**53  # float64 holds all whole numbers up to it
MOST_SIMILAR = 1 + 1e-6  # 1, but for rounding
_STEPS = 2  # of half precision above 1, which are rounding
FEW_ANGLES = 10  # of fewer nothing is said
_FEW_IMAGES = 10  # of so few each may lack the classes of the others' ground truths
_LEAST_SPREAD = 0.4  # standard deviation; that of radians from 0 to pi / 2 is 0.45
_FLAT = 1e-6  # share of the squared edges below which a turn is rounding


def similarities(values: Tensor) -> Tensor:
    """Similarities as float64, those of half precision that its rounding put above 1 as 1."""
    wide = values.to(torch.float64, copy=True)
    if values.dtype in (torch.float16, torch.bfloat16):
        wide.masked_fill_((wide > 1) & (wide <= 1 + _STEPS * torch.finfo(values.dtype).eps), 1.0)
    return wide


class ImageRule(NamedTuple):
    """What the rows of a column may hold.

    Attributes:
        argument: what a message calls it where the image is not known.
        rule: what a message says of it.
        offends: (N, ...) values to bool that broadcasts with them, true where one breaks the rule.
        broken: values to whether any breaks it, where that is known in less time.
    """

    argument: str
    rule: str
    offends: Callable[[Tensor], Tensor]
    broken: Callable[[Tensor], Any] | None = None

    @property
    def text(self) -> str:
        """Argument and rule, where the value is not known."""
        return f"`{self.argument}` {self.rule}"


def _numbers(argument: str, rule: str, **limits: float) -> ImageRule:
    numbers = Rule(argument, rule, **limits)  # type: ignore[arg-type]
    return ImageRule(argument, rule, numbers.offends, numbers.broken)


def _sizes(box_format: str) -> ImageRule:
    """Ground-truth boxes have no negative size, which sizes read as corners break. Detections may."""
    said, start = "have no negative width or height", 0
    if box_format == "xyxy":
        said = "have x1 <= x2 and y1 <= y2"
    return ImageRule(
        "boxes` in `target",
        f"must {said}, by `box_format='{box_format}'`",
        lambda x: x[:, 2:] < (x[:, :2] if box_format == "xyxy" else start),
    )


def _cross(quadrilaterals: Tensor) -> Tensor:
    """(N, 1) bool, which of (N, 8) quadrilaterals cross themselves: those that turn left twice and right twice."""
    points = quadrilaterals.to(torch.promote_types(quadrilaterals.dtype, torch.float32)).reshape(-1, 4, 2)
    edge = points.roll(-1, 1) - points
    after = edge.roll(-1, 1)
    turn = edge[..., 0] * after[..., 1] - edge[..., 1] * after[..., 0]
    flat = _FLAT * edge.square().sum((1, 2))[:, None]
    return ((turn < -flat).sum(1, keepdim=True) > 1) & ((turn > flat).sum(1, keepdim=True) > 1)


def _beyond_float64(values: Tensor) -> Tensor:
    """Which integers float64 may round; no float is one."""
    if values.is_floating_point() or values.element_size() < 8:
        return torch.zeros_like(values, dtype=torch.bool)
    return (values < -_MOST_WHOLE) | (values > _MOST_WHOLE)


RULES: dict[str, ImageRule] = {
    "boxes": _numbers("boxes", "must be finite", low=-_MOST, high=_MOST),
    "scores": _numbers("scores", "must not hold NaN"),
    "flags": _numbers("iscrowd`, `difficult`, `ignore` and `group_of", "must hold 0 and 1", low=0, high=1, whole=True),
    "area": _numbers("area", "must be finite", low=-_MOST, high=_MOST),
    "ious": _numbers("ious", "must be at most 1, and no NaN", high=MOST_SIMILAR),
    "counts": ImageRule("counts", "must be at least 0 and add up to the number of rows", lambda x: x < 0),
    "xyxy": _sizes("xyxy"),
    "xywh": _sizes("xywh"),
    "cxcywh": _sizes("cxcywh"),
    "keypoints": _numbers("keypoints", "must be finite", low=-_MOST, high=_MOST),
    "visibility": ImageRule(
        "keypoints` in `target",
        "must have 0, 1 or 2 as the third number of each point, its visibility",
        lambda x: x[..., 2].clamp(0, 2).trunc() != x[..., 2],
    ),
    "known boxes": ImageRule(
        "boxes` in `target",
        "must be finite, or NaN throughout where a box is not known",
        lambda x: (x.isinf() | x.isnan()) & ~x.isnan().all(1, keepdim=True),
    ),
    "size": _numbers("area", "must be a finite number of at least 0", low=0, high=_MOST),
    "moderate": _numbers("boxes", "must be finite, at most 1e75 from 0", low=-_MOST_TURNED, high=_MOST_TURNED),
    "rotated": ImageRule("boxes", "must have no negative width or height", lambda x: x[:, 2:4] < 0),
    "uncrossed": ImageRule("boxes", "must be quadrilaterals with corners in order, so that no edges cross", _cross),
    "centers": _numbers("centers", "must be finite, at most 1e150 from 0", low=-_MOST_FAR, high=_MOST_FAR),
    "intervals": _numbers("intervals", "must be finite, at most 1e300 from 0", low=-_MOST_LONG, high=_MOST_LONG),
    "exact": ImageRule("intervals", "must be at most 2^53 from 0 where they are integers", _beyond_float64),
    "order": ImageRule("intervals", "must have start <= end", lambda x: x[:, 1:] < x[:, :1]),
    "negatives": ImageRule(
        "neg_category_ids", "must hold no category that a ground truth of the image has", lambda x: x
    ),
    "one list": ImageRule(
        "neg_category_ids", "must hold no category that not_exhaustive_category_ids has", lambda x: x
    ),
    "categories": ImageRule("labels` and `..._category_ids", "must be categories that `frequencies` has", lambda x: x),
}
VALUE_RULES = tuple(rule.text for rule in RULES.values())
_FLAGS = ("iscrowd", "difficult", "ignore", "group_of")
RULE_OF = {"scores": "scores", "area": "area", "row": "size"} | dict.fromkeys(_FLAGS, "flags")
_PLACES = {name: place for place, name in enumerate(RULES)}


def check(names: Sequence[str], owner: tuple[str, str], values: Tensor, counts: Tensor | None) -> Tensor | None:
    """Whether a column of detections or ground truths keeps rules.

    Args:
        names: of the rules.
        owner: argument, as "preds", and key of its dicts; "" where it is no dicts, or a function of those of an image.
        values: the column.
        counts: (B,) how many rows each image has; None where there are no images.

    Returns:
        On CPU None. On an accelerator (R,) bool, true where a rule of ``VALUE_RULES`` is broken.

    Raises:
        ValueError: on CPU, for the first that is broken.
    """
    flags = None
    for name in names if len(values) and values.dtype != torch.bool else ():
        rule = RULES[name]
        broken = rule.offends(values).any() if rule.broken is None else rule.broken(values)
        if values.is_cpu:
            if bool(broken):
                bad = rule.offends(values)
                row = int(bad.reshape(len(values), -1).any(1).nonzero()[0])
                refuse(_where(owner, row, counts), rule.rule, _shown(values[row], bad[row]))
        else:
            found = _flag(name, broken)
            flags = found if flags is None else flags | found
    return flags


def check_given(names: Sequence[str], argument: str, values: Tensor) -> None:
    """The rules about a tensor that a function is given, on CPU; on an accelerator, whose host may not wait, none."""
    if values.is_cpu:
        check(names, (argument, ""), values, None)


class NegativeSizes(NamedTuple):
    """Boxes of negative size: how many, and of the first its image and numbers."""

    total: int
    image: int
    box: list[float]


def negative_sizes(boxes: Tensor, box_format: str, counts: Tensor) -> NegativeSizes | None:
    """Those of (N, 4) boxes of all images end to end, of which each has ``counts``, (B,); None where there is none."""
    wrong = RULES[box_format].offends(boxes)
    if not bool(wrong.any()):
        return None
    wrong = wrong.any(1)
    row = int(wrong.nonzero()[0])
    return NegativeSizes(int(wrong.sum()), _image_of(row, counts), boxes[row].tolist())


def seem_of_another_format(boxes: Tensor, box_format: str, counts: Tensor) -> str | None:
    """What to say of detections of negative size. COCO's code takes them, and some detectors may give a few; but boxes
    that are read in the wrong format have negative sizes too, and silently match nothing.
    """
    found = negative_sizes(boxes, box_format, counts)
    if found is None:
        return None
    what, why = "a width or height below 0", "are corners swapped, or are these a network's raw outputs?"
    if box_format == "xyxy":
        what, why = "x2 < x1 or y2 < y1", "are these sizes (then give their `box_format`), or are corners swapped?"
    return (
        f"{found.total} of {len(boxes)} boxes in `preds` have {what} by `box_format='{box_format}'`, the first in "
        f"`preds[{found.image}]['boxes']`: {shown(found.box)}; {why}"
    )


def seem_radians(boxes: Tensor) -> str | None:
    """What to say of (N, 5) rotated boxes whose angles, which are in degrees, are spread as radians are."""
    angles = boxes[:, 4].abs()
    few = len(angles) < FEW_ANGLES or float(angles.max()) > math.pi
    if few or float(boxes[:, 4].to(torch.float64).std()) < _LEAST_SPREAD:
        return None
    return (
        "`box_format` has angles in degrees, and all of those in `target` lie in [-pi, pi], as radians do; if they "
        "are, give `torch.rad2deg` of them"
    )


def no_label_in_common(found: Tensor, true: Tensor, images: int) -> str | None:
    """What to say of (D,) and (G,) labels of so many images if none occurs on both sides, and all values are 0."""
    if images < _FEW_IMAGES or not len(found) or not len(true):
        return None
    if bool((true == found[0]).any() | (found == true[0]).any()):  # nearly always, in far less time than all take
        return None
    ours, theirs = torch.unique(found), torch.unique(true)
    if bool(torch.isin(ours, theirs).any()):
        return None
    return (
        f"no label in `preds`, {shown(ours.tolist())}, is one of those in `target`, {shown(theirs.tolist())}, so that "
        "no detection can match: are they numbers of the same classes?"
    )


def check_ids(name: str, owner: tuple[str, str], ids: Tensor, wrong: Tensor, counts: Tensor) -> Tensor | None:
    """The same of a rule about ids, where it is known which break it.

    Args:
        name: of the rule.
        owner: as of :func:`check`.
        ids: (N,) of all images end to end.
        wrong: (N,) bool, those that break the rule.
        counts: (B,) how many each image has.
    """
    if not ids.is_cpu:
        return _flag(name, wrong.any())
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        refuse(f"{owner[0]}[{_image_of(row, counts)}]['{owner[1]}']", RULES[name].rule, int(ids[row]))
    return None


def check_counts(value: Tensor, total: int) -> Tensor | None:
    """The rule about the sum of ``counts`` on an accelerator; None on CPU, where form and sum are checked together."""
    return None if value.is_cpu else _flag("counts", (value < 0).any() | (value.sum() != total))


def _where(owner: tuple[str, str], row: int, counts: Tensor | None) -> str:
    """What a message calls the part of a column that a row is in."""
    side, key = owner
    if counts is None:
        return side
    image = _image_of(row, counts)
    return f"{side}[{image}]['{key}']" if key else f"{side}(preds[{image}], target[{image}])"


def _image_of(row: int, counts: Tensor) -> int:
    """The image that a row belongs to, of all images end to end."""
    return int(torch.searchsorted(counts.cumsum(0), row, right=True))


def _shown(row: Tensor, bad: Tensor) -> Any:
    """What a message shows of a row: of a long one the first part that breaks the rule."""
    return (row[bad.reshape(len(row), -1).any(1)][0] if row.ndim > 1 else row).tolist()


def _flag(name: str, broken: Tensor) -> Tensor:
    flags = torch.zeros(len(RULES), dtype=torch.bool, device=broken.device)
    flags[_PLACES[name]] = broken
    return flags
