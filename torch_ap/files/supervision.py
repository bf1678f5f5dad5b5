"""supervision's ``Detections`` and ``KeyPoints`` as input of the detection metrics, known by their attributes: nothing
is imported.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.files.in_memory import OF_MASKS, Image, InMemoryData
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, refuse, shown

Rows: TypeAlias = tuple[tuple[int | None, ...], ...]  # shapes that a row may have, None for any length

_ONE: Rows = ((),)
_CORNERS: Rows = ((4,),)
_ATTRIBUTES = {
    "Detections": ("xyxy", "class_id", "confidence", "mask", "data"),
    "KeyPoints": ("xy", "class_id", "detection_confidence", "visible", "data"),
}


def read_supervision(
    predictions: Any, targets: Any, iou_type: Literal["bbox", "segm", "boundary", "rotated", "keypoints"] = "bbox"
) -> InMemoryData:
    """Detections and ground truths of supervision.

    Args:
        predictions: a ``supervision.Detections`` per image, in a list, or one alone, with ``class_id`` and
            ``confidence``; of keypoints a ``supervision.KeyPoints``, with ``class_id`` and ``detection_confidence``;
            where that is None, all objects of the image have the score 0, as in supervision's own metric.
        targets: likewise without a confidence; ``iscrowd`` and ``area`` of their ``data`` count, where it has them,
            as supervision's reader of COCO's files gives them.
        iou_type: "bbox", "segm" or "boundary" for ``mask``, "rotated" for ``data["xyxyxyxy"]``, which the metrics
            take as ``box_format="xyxyxyxy"``, or "keypoints" for ``xy``.

    Returns:
        The images in their order; labels are class ids, and their names those of ``data["class_name"]``. Keypoints are
        as supervision's own metric takes them: in ``targets`` those that are not ``visible`` are not labelled; boxes
        are those of ``data["xyxy"]``; areas are ``data["area"]``, else those of the boxes around the visible points,
        or where none is of ``data["xyxy"]``; in ``predictions`` those of ``data["xyxy"]``, else of the boxes around all
        points. Metrics take these areas with ``area_as_given=True``.

    Raises:
        ValueError: for what is no such object or lacks one of these; for arrays of another shape; for NaN; for lists
            of different length; for a class id that has two names, as those of two models may; and for a ground truth
            whose ``data["ignore"]`` is set.

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
    checks.one_of("iou_type", iou_type, ("bbox", *OF_MASKS, "rotated", "keypoints"))
    sides = {"predictions": _listed(predictions), "targets": _listed(targets)}
    images, truths = map(len, sides.values())
    if images != truths:
        raise ValueError(f"`predictions` and `targets` must hold as many images, got {images} and {truths}")
    class_names: dict[int, str] = {}
    preds, target = (
        [
            _image(one, f"{side}[{place}]", iou_type, class_names, scored=side == "predictions")
            for place, one in enumerate(listed)
        ]
        for side, listed in sides.items()
    )
    return InMemoryData(preds, target, class_names)


def _listed(images: Any) -> list[Any]:
    return list(images) if isinstance(images, list | tuple) else [images]


def _image(image: Any, where: str, iou_type: str, class_names: dict[int, str], *, scored: bool) -> Image:
    """One image; the names of its classes are added to those that are known."""
    poses = iou_type == "keypoints"
    count, data = _checked(image, where, iou_type, "KeyPoints" if poses else "Detections")
    columns = _shapes(image, data, iou_type) | {"labels": (image.class_id, "class_id", _ONE)}
    if scored:
        score = "detection_confidence" if poses else "confidence"
        given_scores = getattr(image, score)
        unscored = poses and given_scores is None  # supervision's own metric of keypoints scores all of such an image 0
        columns["scores"] = np.zeros(count) if unscored else given_scores, score, _ONE
    else:
        given = [key for key in ("iscrowd", "area") if data.get(key) is not None or not count]
        columns |= {key: (data.get(key), f"data['{key}']", _ONE) for key in given}
        if np.any(data.get("ignore", 0)):
            refuse(f"{where}.data['ignore']", "must be 0, as only LVIS's rules know ignored objects", 1)
    out = {key: _column(values, count, f"{where}.{name}", rows) for key, (values, name, rows) in columns.items()}
    if out["labels"].is_floating_point() and count:
        refuse(f"{where}.class_id", "must hold whole numbers", Plain(np.asarray(image.class_id).dtype))
    out["labels"] = out["labels"].to(torch.int64)
    _add_names(class_names, out["labels"].tolist(), data.get("class_name"), f"{where}.data['class_name']")
    if poses:
        return _with_keypoints(out, where, scored=scored)
    return out | {"boxes": out["boxes"].reshape(count, 8 if iou_type == "rotated" else 4)}


def _checked(image: Any, where: str, iou_type: str, kind: str) -> tuple[int, Mapping[str, Any]]:
    """How many objects an image of this kind has, and its ``data``."""
    lacking = next((key for key in _ATTRIBUTES[kind] if not hasattr(image, key)), None)
    if lacking is not None:
        got = Plain(f"{type(image).__name__} without `{lacking}`")
        refuse(where, f"must be a supervision.{kind} with `iou_type={iou_type!r}`", got)
    data = {} if image.data is None else image.data
    if not isinstance(data, Mapping):
        refuse(f"{where}.data", "must be a dict", data)
    shapes = _ATTRIBUTES[kind][0]
    try:
        return len(getattr(image, shapes)), data
    except TypeError:
        refuse(f"{where}.{shapes}", "must hold a row for each object", getattr(image, shapes))


def _shapes(image: Any, data: Mapping[str, Any], iou_type: str) -> dict[str, tuple[Any, str, Rows]]:
    """Of each key of shapes what holds it, what a message calls that, and the shapes that its rows may have."""
    if iou_type == "rotated":
        return {"boxes": (data.get("xyxyxyxy"), "data['xyxyxyxy']", ((4, 2), (8,)))}
    if iou_type != "keypoints":
        masks = {"masks": (image.mask, "mask", ((None, None),))} if iou_type in OF_MASKS else {}
        return {"boxes": (image.xyxy, "xyxy", _CORNERS), **masks}
    columns: dict[str, tuple[Any, str, Rows]] = {"keypoints": (image.xy, "xy", ((None, 2), (None, 3)))}
    if image.visible is not None:
        columns["visible"] = image.visible, "visible", ((None,),)
    if data.get("xyxy") is not None:
        columns["boxes"] = data["xyxy"], "data['xyxy']", _CORNERS
    return columns


def _with_keypoints(columns: Image, where: str, *, scored: bool) -> Image:
    """The same with visibilities of 0 and 2, and areas."""
    count, seen = len(columns["labels"]), columns.pop("visible", None)
    if not count:
        return columns | {"area": torch.zeros(0, dtype=torch.float64)}
    points = columns["keypoints"][..., :2].to(torch.float64)
    if not points.shape[1]:
        refuse(f"{where}.xy", "must hold at least one point of each object", Plain(f"shape {tuple(points.shape)}"))
    infinite = points.isinf().flatten(1).any(1).nonzero().flatten().tolist()
    if infinite:
        refuse(f"{where}.xy[{infinite[0]}]", "must be finite", points[infinite[0]].tolist())
    every = torch.ones(points.shape[:2], dtype=torch.bool)
    seen = every if seen is None else seen.bool()
    if seen.shape != every.shape:
        refuse(f"{where}.visible", f"must have a column for each of {every.shape[1]} points", Plain(tuple(seen.shape)))
    corners = columns.get("boxes", torch.zeros((count, 4))).to(torch.float64)
    own = (corners[:, 2:] - corners[:, :2]).prod(1)
    area = own if scored and "boxes" in columns else _around(points, every if scored else seen, own)
    return columns | {"keypoints": torch.cat([points, 2.0 * seen[..., None]], 2), "area": columns.get("area", area)}


def _around(points: Tensor, kept: Tensor, otherwise: Tensor) -> Tensor:
    """(N,) areas of the boxes around those of (N, K, 2) points that are kept; ``otherwise`` where none is."""
    high, low = points.where(kept[..., None], -torch.inf).amax(1), points.where(kept[..., None], torch.inf).amin(1)
    return torch.where(kept.any(1), (high - low).prod(1), otherwise)


def _column(values: Any, count: int, where: str, rows: Rows) -> Tensor:
    """A copy of an array of numbers with a row per object; of no objects it may be missing."""
    rule = f"must hold a row for each of {count} objects"
    if values is None and count:
        refuse(where, rule, None)
    try:
        found = np.array(values) if count else np.zeros(0)
    except ValueError:
        refuse(where, f"{rule}, all of one shape", values)
    if found.dtype.kind not in "biuf":
        refuse(where, "must hold numbers", Plain(found.dtype))
    if count and (found.shape[:1] != (count,) or not any(_fits(found.shape[1:], row) for row in rows)):
        shape = " or ".join(f"({', '.join('...' if x is None else str(x) for x in (count, *row))})" for row in rows)
        refuse(where, rule if rows == _ONE else f"{rule}: shape {shape}", Plain(f"shape {found.shape}"))
    if found.dtype.kind == "f" and np.isnan(found).any():
        row = int(np.argwhere(np.isnan(found))[0, 0])
        refuse(f"{where}[{row}]", "must not be NaN", found[row].tolist())
    if found.dtype.kind == "u" and (large := found >= 1 << 63).any():
        row = int(np.argwhere(large)[0, 0])
        refuse(f"{where}[{row}]", "must be below 2^63", found[row].tolist())
    return torch.from_numpy(found.astype(_held_by(found.dtype), copy=False))


def _held_by(dtype: Any) -> Any:
    """What holds numbers below 2^63: torch has no long double and one byte order, and sorts no wide unsigned ones."""
    if dtype.type is np.longdouble:
        return np.float64
    return np.int64 if dtype.kind == "u" and dtype.itemsize > 1 else dtype.newbyteorder("=")


def _fits(shape: tuple[int, ...], row: tuple[int | None, ...]) -> bool:
    return len(shape) == len(row) and all(wanted in (None, length) for length, wanted in zip(shape, row, strict=True))


def _add_names(known: dict[int, str], labels: list[int], names: Any, where: str) -> None:
    """Add the names of an image's classes to those that are known."""
    if not labels or names is None:
        return
    try:
        each = len(labels) == len(names) and not isinstance(names, str) and np.ndim(names) == 1
    except (TypeError, ValueError):  # a number, or lists of several lengths
        each = False
    if not each:
        refuse(where, f"must hold a name for each of {len(labels)} objects", names)
    for label, name in zip(labels, map(str, names), strict=True):
        if known.setdefault(label, name) != name:
            rule = f"must call class {label} {shown(known[label])}, as images before do"
            refuse(where, f"{rule} (are these the ids of another model?)", name)
