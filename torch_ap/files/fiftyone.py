"""FiftyOne's samples as input of the detection metrics, known by their attributes: nothing is imported."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.files.in_memory import OF_MASKS, Image, InMemoryData
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, nearest, refuse

_LEAST, _MOST = -1.0, 2.0  # fractions; detected boxes may extend beyond the image
_LARGEST = 1e9  # pixels of a side
_HALF = 1e-6  # pixels; an edge as near to the middle of one may have been rounded up or down
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
    """Detections and ground truths of FiftyOne's samples.

    Args:
        samples: a dataset, a view, or a list of samples, whose two fields hold ``fiftyone.Detections``, or None for no
            object.
        pred_field: the field of what was detected, as of FiftyOne's ``evaluate_detections``; each has ``confidence``.
        gt_field: the field of the ground truths; their attribute ``iscrowd`` counts.
        iou_type: "bbox", or "segm" or "boundary" for ``mask`` or ``mask_path``.
        class_names: the classes in order of label; default all that occur, in alphabetical order. Give them where
            samples come in several calls.
        sizes: (width, height) of each sample in pixels; default that of its ``metadata``, as ``compute_metadata()``
            of a dataset fills it in.

    Returns:
        The images in the order of the samples. FiftyOne's boxes are fractions of the image's size; these are in pixels,
        as areas are. A mask, which lies inside its box, is put where FiftyOne cuts it out of one of COCO's: between
        rounded corners; of another size, it is stretched to that (nearest neighbour).

    Raises:
        ValueError: for a sample without the field, or without a size; for what are no ``Detections``; for a label
            without a name, a score or, of masks, a mask that can be read, or with an ``iscrowd`` other than 0 and 1; a
            name that is no class; a box that is not four fractions, or has a negative size.

    Example:
        >>> from types import SimpleNamespace
        >>> from torch_ap import MeanAveragePrecision
        >>> from torch_ap.files.fiftyone import read_fiftyone
        >>> cat = SimpleNamespace(label="cat", bounding_box=[0.1, 0.2, 0.5, 0.5], confidence=0.9)
        >>> found = SimpleNamespace(detections=[cat])  # fiftyone's objects have these attributes, and more
        >>> samples = [{"predictions": found, "ground_truth": found}]  # samples are indexed by field, as dicts are
        >>> data = read_fiftyone(samples, "predictions", sizes=[(640, 480)])
        >>> metric = MeanAveragePrecision(class_names=data.class_names)
        >>> metric.update(data.preds, data.target)
        >>> data.target[0]["boxes"].tolist(), metric.compute()["map_large"]
        ([[64.0, 96.0, 384.0, 336.0]], tensor(1.0000, dtype=torch.float64))
    """
    checks.one_of("iou_type", iou_type, ("bbox", *OF_MASKS))
    _check_forms(samples, sizes)
    if class_names is not None:
        _check_names(class_names)
    sides: tuple[list[Image], list[Image]] = ([], [])
    for place, sample in enumerate(samples):
        if not hasattr(sample, "__getitem__") or isinstance(sample, str | list | tuple):
            refuse(f"samples[{place}]", "must be a sample, which has fields", Plain(type(sample).__name__))
        size = _size_of(sample, place, sizes)
        for side, field in zip(sides, (pred_field, gt_field), strict=True):
            where = f"samples[{place}][{field!r}]"
            scored, masks = side is sides[0], iou_type in OF_MASKS
            side.append(_of_fiftyone(_labels_in(sample, field, where), where, size, scored=scored, masks=masks))
    if sizes is not None and len(sizes) > len(sides[0]):
        refuse("sizes", f"must hold (width, height) of each sample, of which there are {len(sides[0])}", sizes)
    images = [image for side in sides for image in side]
    names = sorted({x for image in images for x in image["labels"]}) if class_names is None else list(class_names)
    place_of = {name: place for place, name in enumerate(names)}
    for image in images:
        unknown = next((x for x in image["labels"] if x not in place_of), None)
        if unknown is not None:
            refuse("class_names", f"must hold all labels{nearest(unknown, names)}", unknown)
        image["labels"] = torch.tensor([place_of[x] for x in image["labels"]], dtype=torch.int64)
    return InMemoryData(*sides, dict(enumerate(names)))


def _check_forms(samples: Any, sizes: Any) -> None:
    if isinstance(samples, str | Mapping) or not isinstance(samples, Iterable):
        refuse("samples", "must be a dataset, a view or a list of samples", Plain(type(samples).__name__))
    if sizes is not None and (isinstance(sizes, str) or not isinstance(_plain(sizes), Sequence)):
        refuse("sizes", "must be a list with (width, height) of each sample, in their order", sizes)


def _check_names(class_names: Sequence[str]) -> None:
    names = _plain(class_names)
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    if not listed or not all(isinstance(x, str) for x in names) or len(set(names)) < len(names):
        refuse("class_names", "must be a list of different names", class_names)


def _size_of(sample: Any, place: int, sizes: Sequence[tuple[float, float]] | None) -> tuple[float, float]:
    """Width and height of a sample in pixels."""
    if sizes is not None and place >= len(sizes):
        refuse("sizes", f"must hold (width, height) of each sample, of which there are at least {place + 1}", sizes)
    size, where = _recorded_size(sample, place) if sizes is None else (sizes[place], f"sizes[{place}]")
    sides = _plain(size)
    if not isinstance(sides, Sequence) or len(sides) != 2 or not all(map(_is_side, sides)):
        refuse(where, f"must be width and height in pixels, above 0 and below {_LARGEST:g}", size)
    return sides[0], sides[1]


def _is_side(value: Any) -> bool:
    return checks.is_number(value) and 0 < value < _LARGEST


def _recorded_size(sample: Any, place: int) -> tuple[tuple[Any, Any], str]:
    """What the sample says, and what a message calls that."""
    metadata = _of(sample, "metadata")
    size = _of(metadata, "width"), _of(metadata, "height")
    if any(side is None for side in size):
        raise ValueError(
            f"`samples[{place}]` must have `metadata` with width and height, of which boxes are fractions: call "
            "`compute_metadata()` of the dataset, or give `sizes`, (width, height) of each sample"
        )
    return size, f"samples[{place}].metadata"


def _plain(values: Any) -> Any:
    """An array as lists, all else as it is."""
    return values.tolist() if isinstance(values, np.ndarray | Tensor) else values


def _of(value: Any, name: str) -> Any:
    """An attribute, of a dict what it has by that name; None where there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _labels_in(sample: Any, field: str, where: str) -> list[Any]:
    """The detections of a field."""
    try:
        found = sample[field]
    except (KeyError, AttributeError, IndexError, TypeError):
        raise ValueError(f"`{where}`: the sample has no such field") from None
    listed = [] if found is None else _of(found, "detections")
    if not isinstance(listed, Sequence):
        kind = type(found).__name__
        refuse(where, "must be fiftyone.Detections or None", Plain(f"{kind}{_INSTEAD.get(kind, '')}"))
    return list(listed)


def _of_fiftyone(labels: list[Any], where: str, size: tuple[float, float], *, scored: bool, masks: bool) -> Image:
    """One image, whose labels are still names."""
    each = [f"{where}.detections[{place}]" for place in range(len(labels))]
    named = [*zip(labels, each, strict=True)]
    boxes = [_corners(_of(label, "bounding_box"), size, f"{one}.bounding_box") for label, one in named]
    out: Image = {
        "boxes": torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4),
        "labels": [_text(_of(label, "label"), f"{one}.label") for label, one in named],
    }
    if scored:
        scores = [_number(_of(label, "confidence"), f"{one}.confidence") for label, one in named]
        out["scores"] = torch.tensor(scores, dtype=torch.float64)
    else:
        crowd = [_flag(_attribute(label, "iscrowd"), one) for label, one in named]
        out["iscrowd"] = torch.tensor(crowd, dtype=torch.int64)
    if masks:
        width, height = map(int, size)
        canvas = np.zeros((len(labels), height, width), dtype=bool)
        for picture, label, corners, one in zip(canvas, labels, boxes, each, strict=True):
            _draw(picture, _mask_of(label, f"{one}.mask"), corners)
        out["masks"] = torch.from_numpy(canvas)
    return out


def _attribute(label: Any, name: str) -> Any:
    """One that labels may have, by FiftyOne's method, which finds those of its older versions too."""
    get = getattr(label, "get_attribute_value", None)
    return _of(label, name) if get is None else get(name, None)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        refuse(where, "must be given, as text", value)
    return value


def _number(value: Any, where: str) -> float:
    rule = "must be given, as a number other than NaN"
    if not checks.is_number(value) or value != value:
        refuse(where, rule, value)
    try:
        return float(value)
    except OverflowError:
        refuse(where, f"{rule}, that float64 holds", value)


def _flag(value: Any, where: str) -> int:
    """Of an attribute that need not be there."""
    number = isinstance(value, bool | np.bool_) or checks.is_number(value)
    if value is not None and not (number and value in (0, 1)):
        refuse(f"{where}.iscrowd", "must be 0, 1 or None", value)
    return int(value or 0)


def _corners(box: Any, size: tuple[float, float], where: str) -> list[float]:
    """Corners in pixels of a box in fractions of the image: x, y, width and height."""
    rule = "must hold x, y, width and height as fractions of the image's size"
    sides = _plain(box)
    if not isinstance(sides, Sequence) or len(sides) != 4 or not all(checks.is_number(x) for x in sides):
        refuse(where, rule, sides)
    x, y, w, h = sides
    if not all(_LEAST <= value <= _MOST for value in sides) or min(w, h) < 0:
        refuse(where, rule, list(sides))
    width, height = size
    return [x * width, y * height, (x + w) * width, (y + h) * height]


def _mask_of(label: Any, where: str) -> Any:
    """(h, w) bool, the mask inside the box; newer versions read it from a file where it is not held in memory."""
    mask = _of(label, "mask")
    if mask is None and hasattr(label, "get_mask"):
        try:
            mask = label.get_mask()
        except OSError as reason:
            raise ValueError(f"`{where}_path` must be a file that can be read: {reason}") from None
    try:
        found = np.asarray(mask)
    except ValueError:
        refuse(where, "must have rows of one length", mask)
    if mask is None or found.dtype.kind not in "biuf":
        refuse(where, "must be given, as an array of numbers", mask)
    if found.ndim != 2:
        refuse(where, "must have two dimensions", Plain(f"shape {found.shape}"))
    return found > 0


def _draw(picture: Any, mask: Any, corners: list[float]) -> None:
    """Put a mask into a picture of the image, between rounded corners, as far as these lie in it.

    FiftyOne cuts none of the pixels of a box that is thinner than one: there is nothing to put then.
    """
    (height, width), (x0, y0, x1, y1) = mask.shape, corners
    (top, bottom), (left, right) = _pixels(y0, y1, height), _pixels(x0, x1, width)
    rows, columns = (
        np.arange(max(0, top), min(bottom, len(picture))),
        np.arange(max(0, left), min(right, picture.shape[1])),
    )
    if mask.size and len(rows) and len(columns):
        from_rows, from_columns = (rows - top) * height // (bottom - top), (columns - left) * width // (right - left)
        picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = mask[np.ix_(from_rows, from_columns)]


def _pixels(start: float, end: float, length: int) -> tuple[int, int]:
    """The first pixel and the one behind the last, rounded; edges in the middle of a pixel so that ``length`` fits."""
    choices = [(one, other) for one in _roundings(start) for other in _roundings(end)]
    return next((pixels for pixels in choices if pixels[1] - pixels[0] == length), choices[0])


def _roundings(edge: float) -> tuple[int, ...]:
    """What an edge may have been rounded to before it was made a fraction; that of its decimals first."""
    return round(round(edge, 6)), round(edge - _HALF), round(edge + _HALF)
