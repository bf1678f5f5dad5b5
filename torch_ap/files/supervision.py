"""``supervision.Detections`` as input of the detection metrics, known by their attributes: nothing is imported."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.files.in_memory import OF_MASKS, Image, InMemoryData
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, refuse, shown


def read_supervision(
    predictions: Any, targets: Any, iou_type: Literal["bbox", "segm", "boundary", "rotated"] = "bbox"
) -> InMemoryData:
    """Detections and ground truths of supervision.

    Args:
        predictions: a ``supervision.Detections`` per image, in a list, or one alone, with ``class_id`` and
            ``confidence``.
        targets: likewise without ``confidence``; ``iscrowd`` and ``area`` of their ``data`` count, where it has them,
            as supervision's reader of COCO's files gives them.
        iou_type: "bbox", "segm" or "boundary" for ``mask``, or "rotated" for ``data["xyxyxyxy"]``, which the metrics
            take as ``box_format="xyxyxyxy"``.

    Returns:
        The images in their order; labels are class ids, and their names those of ``data["class_name"]``.

    Raises:
        ValueError: for what is no such object or lacks one of these; for NaN; for lists of different length; for a
            class id that has two names, as those of two models may; and for a ground truth whose ``data["ignore"]`` is
            set.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace as Detections  # supervision's has these attributes, and more
        >>> from torch_ap import MeanAveragePrecision
        >>> from torch_ap.files.supervision import read_supervision
        >>> seen = {"xyxy": np.array([[10.0, 10, 50, 50]]), "class_id": np.array([3]), "mask": None}
        >>> found = Detections(**seen, confidence=np.array([0.9], np.float32), data={})
        >>> truth = Detections(**seen, confidence=None, data={"class_name": np.array(["cat"])})
        >>> data = read_supervision([found], [truth])
        >>> metric = MeanAveragePrecision(class_names=data.class_names)
        >>> metric.update(data.preds, data.target)
        >>> metric.compute()["map"], metric.per_class()["name"]
        (tensor(1.), ['cat'])
    """
    checks.one_of("iou_type", iou_type, ("bbox", *OF_MASKS, "rotated"))
    sides = {"predictions": _listed(predictions), "targets": _listed(targets)}
    images, truths = map(len, sides.values())
    if images != truths:
        raise ValueError(f"`predictions` and `targets` must hold as many images, got {images} and {truths}")
    class_names: dict[int, str] = {}
    preds, target = (
        [_of_supervision(one, f"{side}[{place}]", iou_type, class_names) for place, one in enumerate(listed)]
        for side, listed in sides.items()
    )
    return InMemoryData(preds, target, class_names)


def _listed(images: Any) -> list[Any]:
    return list(images) if isinstance(images, list | tuple) else [images]


def _of_supervision(image: Any, where: str, iou_type: str, class_names: dict[int, str]) -> Image:
    """One image; the names of its classes are added to those that are known."""
    if not all(hasattr(image, key) for key in ("xyxy", "class_id", "confidence", "mask", "data")):
        refuse(where, "must be a supervision.Detections", Plain(type(image).__name__))
    count, data = len(image.xyxy), image.data or {}
    rotated = iou_type == "rotated"
    corners = (data.get("xyxyxyxy"), "data['xyxyxyxy']") if rotated else (image.xyxy, "xyxy")
    columns = {"boxes": corners, "labels": (image.class_id, "class_id")}
    if iou_type in OF_MASKS:
        columns["masks"] = image.mask, "mask"
    if where.startswith("predictions"):
        columns["scores"] = image.confidence, "confidence"
    else:
        given = [key for key in ("iscrowd", "area") if key in data or not count]
        columns |= {key: (data.get(key), f"data['{key}']") for key in given}
        if np.any(data.get("ignore", 0)):
            refuse(f"{where}.data['ignore']", "must be 0, as only LVIS's rules know ignored objects", 1)
    out = {key: _column(values, count, f"{where}.{name}") for key, (values, name) in columns.items()}
    out["boxes"] = out["boxes"].reshape(count, 8 if rotated else 4)
    if out["labels"].is_floating_point() and count:
        refuse(f"{where}.class_id", "must hold whole numbers", Plain(image.class_id.dtype))
    out["labels"] = out["labels"].to(torch.int64)
    _add_names(class_names, out["labels"].tolist(), data.get("class_name", ()), f"{where}.data['class_name']")
    return out


def _column(values: Any, count: int, where: str) -> Tensor:
    """A copy of an array of numbers with a row per object; of no objects it may be missing."""
    if values is None and count:
        refuse(where, f"must hold a row for each of {count} objects", None)
    found = np.array(values) if count else np.zeros(0)
    if found.dtype.kind not in "biuf":
        refuse(where, "must hold numbers", Plain(found.dtype))
    if found.shape[:1] != (count,):
        refuse(where, f"must hold a row for each of {count} objects", Plain(f"shape {found.shape}"))
    if found.dtype.kind == "f" and np.isnan(found).any():
        row = int(np.argwhere(np.isnan(found))[0, 0])
        refuse(f"{where}[{row}]", "must not be NaN", found[row].tolist())
    return torch.from_numpy(found)


def _add_names(known: dict[int, str], labels: list[int], names: Iterable[Any], where: str) -> None:
    """Add the names of an image's classes to those that are known."""
    for label, name in zip(labels, map(str, names), strict=False):
        if known.setdefault(label, name) != name:
            rule = f"must call class {label} {shown(known[label])}, as images before do"
            refuse(where, f"{rule} (are these the ids of another model?)", name)
