"""FiftyOne's samples as input of the detection metrics, known by their attributes: nothing is imported."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from torch_ap.files.in_memory import OF_MASKS, Image, InMemoryData
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, nearest, refuse

_LEAST, _MOST = -1.0, 2.0  # fractions; detected boxes may extend beyond the image
_LARGEST = 1e9  # pixels of a side


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
        iou_type: "bbox", or "segm" or "boundary" for ``mask``.
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
            without a name, a score or, of masks, a mask, or with an ``iscrowd`` other than 0 and 1; a name that is no
            class; a box that is not four fractions, or has a negative size.

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
    if sizes is not None and (isinstance(sizes, str | Mapping) or not hasattr(sizes, "__len__")):
        refuse("sizes", "must be a list with (width, height) of each sample, in their order", sizes)


def _check_names(class_names: Sequence[str]) -> None:
    names = list(class_names)
    text = not isinstance(class_names, str) and all(isinstance(x, str) for x in names)
    if not text or len(set(names)) < len(names):
        refuse("class_names", "must be a list of different names", class_names)


def _size_of(sample: Any, place: int, sizes: Sequence[tuple[float, float]] | None) -> tuple[float, float]:
    """Width and height of a sample in pixels."""
    if sizes is not None and place >= len(sizes):
        refuse("sizes", f"must hold (width, height) of each sample, of which there are at least {place + 1}", sizes)
    size = sizes[place] if sizes is not None else _recorded_size(sample, place)
    pair = not checks.is_number(size) and len(size) == 2
    if not pair or not all(checks.is_number(x) and 0 < x < _LARGEST for x in size):
        refuse(f"sizes[{place}]", "must be width and height in pixels, above 0", size)
    return size


def _recorded_size(sample: Any, place: int) -> tuple[Any, Any]:
    metadata = _of(sample, "metadata")
    size = _of(metadata, "width"), _of(metadata, "height")
    if not all(size):
        raise ValueError(
            f"`samples[{place}]` must have `metadata` with width and height, of which boxes are fractions: call "
            "`compute_metadata()` of the dataset, or give `sizes`, (width, height) of each sample"
        )
    return size


def _of(value: Any, name: str) -> Any:
    """An attribute, of a dict what it has by that name; None where there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _labels_in(sample: Any, field: str, where: str) -> list[Any]:
    """The detections of a field."""
    try:
        found = sample[field]
    except (KeyError, AttributeError):
        raise ValueError(f"`{where}`: the sample has no such field") from None
    listed = [] if found is None else _of(found, "detections")
    if not isinstance(listed, Sequence):
        refuse(where, "must be fiftyone.Detections or None", Plain(type(found).__name__))
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
    if not checks.is_number(value):
        refuse(where, "must be given, as a number", value)
    return float(value)


def _flag(value: Any, where: str) -> int:
    """Of an attribute that need not be there."""
    if value not in (None, 0, 1):
        refuse(f"{where}.iscrowd", "must be 0, 1 or None", value)
    return int(value or 0)


def _corners(box: Any, size: tuple[float, float], where: str) -> list[float]:
    """Corners in pixels of a box in fractions of the image: x, y, width and height."""
    rule = "must hold x, y, width and height as fractions of the image's size"
    sides = box.tolist() if isinstance(box, np.ndarray) else box
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
        mask = label.get_mask()
    if mask is None:
        refuse(where, "must be given", None)
    mask = np.asarray(mask) > 0
    if mask.ndim != 2 or not mask.size:
        refuse(where, "must have two dimensions, none of them 0", Plain(mask.shape))
    return mask


def _draw(picture: Any, mask: Any, corners: list[float]) -> None:
    """Put a mask into a picture of the image, between rounded corners, as far as these lie in it."""
    (x0, y0, x1, y1), (height, width) = map(round, corners), mask.shape
    rows, columns = np.arange(max(0, y0), min(y1, len(picture))), np.arange(max(0, x0), min(x1, picture.shape[1]))
    if len(rows) and len(columns):
        from_rows = (rows - y0) * height // (y1 - y0)
        from_columns = (columns - x0) * width // (x1 - x0)
        picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = mask[np.ix_(from_rows, from_columns)]
