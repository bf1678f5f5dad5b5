"""FiftyOne's samples as input of the detection metrics, read by attribute without an import."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import Plain, raise_invalid, suggest_name
from torch_ap.core.columns.columns import MASK_KINDS, Image, InMemoryData

_LEAST, _MOST = -1.0, 2.0  # fractions; detected boxes may extend beyond the image
_LARGEST = 1e9  # pixels of a side
_HALF = 1e-6  # pixels; an edge so close to the middle of a pixel may have been rounded up or down
_INSTEAD = {  # of Detections
    "Polylines": "; each has `to_detection(frame_size=(width, height))`, with a mask",
    "Keypoints": ", which have no score of an object: give the metric `keypoints` and `scores` as tensors",
}


def read_fiftyone(
    samples: Iterable[Any],
    pred_field: str,
    gt_field: str = "ground_truth",
    *,
    iou_type: Literal["bbox", "segm", "boundary"] = "bbox",
    class_names: Sequence[str] | None = None,
    sizes: Sequence[tuple[float, float]] | None = None,
) -> InMemoryData:
    """Read detections and ground truths of FiftyOne's samples.

    Args:
        samples: a dataset, a view, or a list of samples, whose two fields contain ``fiftyone.Detections``, or None for
            no object.
        pred_field: the field of the detections, as in FiftyOne's ``evaluate_detections``; each has ``confidence``.
        gt_field: the field of the ground truths; their attribute ``iscrowd`` is used.
        iou_type: "bbox", or "segm" or "boundary" for ``mask`` or ``mask_path``.
        class_names: the classes in order of label; default all that occur, in alphabetical order. Required for equal
            labels in several calls.
        sizes: (width, height) of each sample in pixels; default the size in its ``metadata``, which
            ``compute_metadata()`` of a dataset computes.

    Returns:
        The images in the order of the samples. FiftyOne's boxes are fractions of the image's size; the returned boxes
        and areas are in pixels. A mask, which covers its box only, is placed where FiftyOne cuts it out of a mask of
        COCO: between rounded corners. A mask of another size is stretched to the box (nearest neighbour).

    Raises:
        ValueError: for a sample without the field or a size; for a field without ``Detections``; for a label without a
            name, a score or, for masks, a readable mask, or with an ``iscrowd`` other than 0 and 1; for a name that is
            no class; for a box that is not four fractions, or has a negative size.

    Example:
        >>> from types import SimpleNamespace
        >>> from torch_ap import MeanAveragePrecision
        >>> from torch_ap.detection.files.fiftyone import read_fiftyone
        >>> cat = SimpleNamespace(label="cat", bounding_box=[0.1, 0.2, 0.5, 0.5], confidence=0.9)
        >>> found = SimpleNamespace(detections=[cat])  # fiftyone's objects have these attributes, and more
        >>> samples = [{"predictions": found, "ground_truth": found}]  # samples are indexed by field, as dicts are
        >>> data = read_fiftyone(samples, "predictions", sizes=[(640, 480)])
        >>> metric = MeanAveragePrecision(class_names=data.class_names)
        >>> metric.update(data.preds, data.target)
        >>> data.target[0]["boxes"].tolist(), metric.compute()["map_large"]
        ([[64.0, 96.0, 384.0, 336.0]], tensor(1.0000, dtype=torch.float64))
    """
    checks.one_of("iou_type", iou_type, ("bbox", *MASK_KINDS))
    if isinstance(samples, str | Mapping) or not isinstance(samples, Iterable):
        raise_invalid("samples", "must be a dataset, a view or a list of samples", Plain(type(samples).__name__))
    if sizes is not None and not _is_sequence(_plain(sizes)):
        raise_invalid("sizes", "must be a list with (width, height) of each sample, in their order", sizes)
    names: Any = _plain(class_names)
    listed = names is None or (_is_sequence(names) and all(isinstance(x, str) for x in names))
    if not listed or (names is not None and len(set(names)) < len(names)):
        raise_invalid("class_names", "must be a list of different names", class_names)
    preds, target = list[Image](), list[Image]()
    for index, sample in enumerate(samples):
        if not hasattr(sample, "__getitem__") or isinstance(sample, str | list | tuple):
            raise_invalid(f"samples[{index}]", "must be a sample, which has fields", Plain(type(sample).__name__))
        size = _image_size(sample, index, sizes)
        for side, field in ((preds, pred_field), (target, gt_field)):
            side.append(_image(sample, field, f"samples[{index}]", size, side is preds, iou_type in MASK_KINDS))
    if sizes is not None and len(sizes) > len(preds):
        raise_invalid("sizes", f"must contain (width, height) of each sample, of which there are {len(preds)}", sizes)
    if names is None:
        names = sorted({x for image in (*preds, *target) for x in image["labels"]})
    label_of = {name: label for label, name in enumerate(names)}
    for image in (*preds, *target):
        for name in image["labels"]:
            if name not in label_of:
                raise_invalid("class_names", f"must contain all labels{suggest_name(name, names)}", name)
        image["labels"] = torch.tensor([label_of[x] for x in image["labels"]], dtype=torch.int64)
    return InMemoryData(preds, target, dict(enumerate(names)))


def _is_sequence(values: Any) -> bool:
    """Return whether values are a sequence other than text."""
    return isinstance(values, Sequence) and not isinstance(values, str)


def _plain(values: Any) -> Any:
    """Return an array as lists, other values unchanged."""
    return values.tolist() if isinstance(values, np.ndarray | Tensor) else values


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute, or the value of a key of a dict; None without one."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _image_size(sample: Any, index: int, sizes: Sequence[tuple[float, float]] | None) -> tuple[float, float]:
    """Return width and height of a sample in pixels."""
    if sizes is None:
        metadata, where = _attribute(sample, "metadata"), f"samples[{index}].metadata"
        size: Any = _attribute(metadata, "width"), _attribute(metadata, "height")
        if any(side is None for side in size):
            rule = "must have `metadata` with width and height, of which boxes are fractions"
            cure = "call `compute_metadata()` of the dataset, or give `sizes`, (width, height) of each sample"
            raise ValueError(f"`samples[{index}]` {rule}: {cure}")
    elif index >= len(sizes):
        rule = f"must contain (width, height) of each sample, of which there are at least {index + 1}"
        raise_invalid("sizes", rule, sizes)
    else:
        size, where = sizes[index], f"sizes[{index}]"
    sides = _plain(size)
    valid = isinstance(sides, Sequence) and len(sides) == 2
    if not valid or not all(checks.is_number(x) and 0 < x < _LARGEST for x in sides):
        raise_invalid(where, f"must be width and height in pixels, above 0 and below {_LARGEST:g}", size)
    return sides[0], sides[1]


def _image(sample: Any, field: str, name: str, size: tuple[float, float], scored: bool, masked: bool) -> Image:
    """Return one image, with the names of its classes as labels."""
    where = f"{name}[{field!r}]"
    try:
        content = sample[field]
    except (KeyError, AttributeError, IndexError, TypeError):
        raise ValueError(f"`{where}`: the sample has no such field") from None
    objects = [] if content is None else _attribute(content, "detections")
    if not isinstance(objects, Sequence):
        kind = type(content).__name__
        raise_invalid(where, "must be fiftyone.Detections or None", Plain(f"{kind}{_INSTEAD.get(kind, '')}"))
    out: dict[str, list[Any]] = {"boxes": [], "labels": [], "scores" if scored else "iscrowd": []}
    for index, item in enumerate(objects):
        where_item = f"{where}.detections[{index}]"
        out["boxes"].append(_corners(_attribute(item, "bounding_box"), size, f"{where_item}.bounding_box"))
        label = _attribute(item, "label")
        if not isinstance(label, str):
            raise_invalid(f"{where_item}.label", "must be given, as text", label)
        out["labels"].append(label)
        if scored:
            out["scores"].append(_score(_attribute(item, "confidence"), f"{where_item}.confidence"))
        else:
            out["iscrowd"].append(_crowd(item, f"{where_item}.iscrowd"))
    dtypes = {"boxes": torch.float64, "scores": torch.float64, "iscrowd": torch.int64}
    image: Image = {key: torch.tensor(x, dtype=dtypes[key]) if key in dtypes else x for key, x in out.items()}
    image["boxes"] = image["boxes"].reshape(-1, 4)
    if masked:
        canvas = np.zeros((len(objects), int(size[1]), int(size[0])), dtype=bool)
        for index, (picture, item, corners) in enumerate(zip(canvas, objects, out["boxes"], strict=True)):
            _draw(picture, _mask(item, f"{where}.detections[{index}].mask"), corners)
        image["masks"] = torch.from_numpy(canvas)
    return image


def _score(value: Any, where: str) -> float:
    """Return a validated score as float."""
    rule = "must be given, as a number other than NaN"
    if not checks.is_number(value) or value != value:
        raise_invalid(where, rule, value)
    try:
        return float(value)
    except OverflowError:
        raise_invalid(where, f"{rule}, that float64 represents", value)


def _crowd(label: Any, where: str) -> int:
    """Return ``iscrowd``, 0 for None. FiftyOne's method also reads the attributes of older versions."""
    get = getattr(label, "get_attribute_value", None)
    value = _attribute(label, "iscrowd") if get is None else get("iscrowd", None)
    is_number = isinstance(value, bool | np.bool_) or checks.is_number(value)
    if value is not None and not (is_number and value in (0, 1)):
        raise_invalid(where, "must be 0, 1 or None", value)
    return int(value or 0)


def _corners(box: Any, size: tuple[float, float], where: str) -> list[float]:
    """Return corners in pixels of a box in fractions of the image: x, y, width and height."""
    sides = _plain(box)
    is_box = isinstance(sides, Sequence) and len(sides) == 4 and all(checks.is_number(x) for x in sides)
    if not is_box or not all(_LEAST <= value <= _MOST for value in sides) or min(sides[2:]) < 0:
        got = list(sides) if is_box else sides
        raise_invalid(where, "must contain x, y, width and height as fractions of the image's size", got)
    (x, y, w, h), (width, height) = sides, size
    return [x * width, y * height, (x + w) * width, (y + h) * height]


def _mask(label: Any, where: str) -> Any:
    """Return the (h, w) bool mask inside the box; newer versions of FiftyOne can read it from a file."""
    mask = _attribute(label, "mask")
    if mask is None and hasattr(label, "get_mask"):
        try:
            mask = label.get_mask()
        except OSError as reason:
            raise ValueError(f"`{where}_path` must be a file that can be read: {reason}") from None
    try:
        pixels = np.asarray(mask)
    except ValueError:
        raise_invalid(where, "must have rows of one length", mask)
    if mask is None or pixels.dtype.kind not in "biuf":
        raise_invalid(where, "must be given, as an array of numbers", mask)
    if pixels.ndim != 2:
        raise_invalid(where, "must have two dimensions", Plain(f"shape {pixels.shape}"))
    return pixels > 0


def _draw(picture: Any, mask: Any, corners: list[float]) -> None:
    """Draw a mask into the picture of an image, between rounded corners; parts outside the image are left out.

    FiftyOne cuts no pixel out of a box that is thinner than one; such a mask is not drawn.
    """
    edges = [_pixels(corners[axis], corners[axis + 2], length) for axis, length in ((1, len(mask)), (0, mask.shape[1]))]
    inside = [np.arange(max(0, low), min(high, end)) for (low, high), end in zip(edges, picture.shape, strict=True)]
    if mask.size and all(map(len, inside)):
        scales = zip(inside, edges, mask.shape, strict=True)
        source = [(pixels - low) * length // (high - low) for pixels, (low, high), length in scales]
        picture[np.ix_(*inside)] = mask[np.ix_(*source)]


def _pixels(start: float, end: float, length: int) -> tuple[int, int]:
    """Return the first pixel and the end, rounded; an edge in the middle of a pixel is rounded to fit ``length``."""
    # the possible values of an edge before its conversion to a fraction, the most likely first
    edges = [(round(round(edge, 6)), round(edge - _HALF), round(edge + _HALF)) for edge in (start, end)]
    choices = [(first, last) for first in edges[0] for last in edges[1]]
    return next((pixels for pixels in choices if pixels[1] - pixels[0] == length), choices[0])
