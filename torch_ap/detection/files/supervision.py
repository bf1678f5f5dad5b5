"""supervision's ``Detections`` and ``KeyPoints`` as input of the detection metrics, read by attribute, not imported."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.columns.columns import MASK_KINDS, Image, InMemoryData

Shapes: TypeAlias = tuple[tuple[int | None, ...], ...]  # allowed shapes of a row; None for any length

_NUMBER: Shapes = ((),)
_ATTRIBUTES = {
    "Detections": ("xyxy", "class_id", "confidence", "mask", "data"),
    "KeyPoints": ("xy", "class_id", "detection_confidence", "visible", "data"),
}


def read_supervision(
    predictions: Any, targets: Any, iou_type: Literal["bbox", "segm", "boundary", "rotated", "keypoints"] = "bbox"
) -> InMemoryData:
    """Read detections and ground truths of supervision.

    Args:
        predictions: a ``supervision.Detections`` per image, in a list, or a single one, with ``class_id`` and
            ``confidence``; for keypoints a ``supervision.KeyPoints`` with ``class_id`` and ``detection_confidence``.
            If ``detection_confidence`` is None, all objects of the image have the score 0, as in supervision's own
            metric.
        targets: the ground truths in the same form without a confidence. ``iscrowd`` and ``area`` of their ``data``
            are used, which supervision's reader of COCO's files provides.
        iou_type: "bbox", "segm" or "boundary" for ``mask``, "rotated" for ``data["xyxyxyxy"]``, which the metrics
            accept as ``box_format="xyxyxyxy"``, or "keypoints" for ``xy``.

    Returns:
        The images in their order. Labels are class ids, named by ``data["class_name"]``. Keypoints follow
        supervision's own metric: keypoints of ``targets`` that are not ``visible`` are not labelled, and boxes are
        ``data["xyxy"]``. Areas of ``targets`` are ``data["area"]``, else the areas of the boxes around the visible
        points, or of ``data["xyxy"]`` without a visible point. Areas of ``predictions`` are the areas of
        ``data["xyxy"]``, else of the boxes around all points. Metrics use these areas with ``use_given_area=True``.

    Raises:
        ValueError: for another object or a missing attribute; for arrays of another shape; for NaN; for lists of
            different length; for a class id with two names, as with two models; and for a ground truth with
            ``data["ignore"]``.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace as Detections  # supervision's has these attributes, and more
        >>> from torch_ap import MeanAveragePrecision
        >>> from torch_ap.detection.files.supervision import read_supervision
        >>> seen = {"xyxy": np.array([[10.0, 10, 50, 50]]), "class_id": np.array([3]), "mask": None}
        >>> found = Detections(**seen, confidence=np.array([0.9], np.float32), data={})
        >>> truth = Detections(**seen, confidence=None, data={"class_name": np.array(["cat"])})
        >>> data = read_supervision([found], [truth])
        >>> metric = MeanAveragePrecision(class_names=data.class_names)
        >>> metric.update(data.preds, data.target)
        >>> metric.compute()["map"], metric.per_class()["name"]
        (tensor(1.), ['cat'])
    """
    checks.one_of("iou_type", iou_type, ("bbox", *MASK_KINDS, "rotated", "keypoints"))
    sides = [list(x) if isinstance(x, list | tuple) else [x] for x in (predictions, targets)]
    if len(sides[0]) != len(sides[1]):
        counts = f"{len(sides[0])} and {len(sides[1])}"
        raise ValueError(f"`predictions` and `targets` must contain as many images, got {counts}")
    class_names: dict[int, str] = {}
    preds, target = (
        [_image(image, f"{side}[{index}]", iou_type, class_names) for index, image in enumerate(images)]
        for side, images in zip(("predictions", "targets"), sides, strict=True)
    )
    return InMemoryData(preds, target, class_names)


def _image(image: Any, where: str, iou_type: str, class_names: dict[int, str]) -> Image:
    """Return one image, and add the names of its classes to ``class_names``."""
    poses, scored = iou_type == "keypoints", where.startswith("predictions")
    kind = "KeyPoints" if poses else "Detections"
    shape, _, score, *_ = _ATTRIBUTES[kind]
    lacking = next((key for key in _ATTRIBUTES[kind] if not hasattr(image, key)), None)
    if lacking is not None:
        got = Plain(f"{type(image).__name__} without `{lacking}`")
        raise_invalid(where, f"must be a supervision.{kind} with `iou_type={iou_type!r}`", got)
    data = {} if image.data is None else image.data
    if not isinstance(data, Mapping):
        raise_invalid(f"{where}.data", "must be a dict", data)
    try:
        count = len(getattr(image, shape))
    except TypeError:
        raise_invalid(f"{where}.{shape}", "must contain a row for each object", getattr(image, shape))
    columns: Image = {}
    if poses:
        columns["keypoints"] = _column(image.xy, count, f"{where}.xy", ((None, 2), (None, 3)))
        if image.visible is not None:
            columns["visible"] = _column(image.visible, count, f"{where}.visible", ((None,),))
        if data.get("xyxy") is not None:
            columns["boxes"] = _column(data["xyxy"], count, f"{where}.data['xyxy']", ((4,),))
    elif iou_type == "rotated":
        columns["boxes"] = _column(data.get("xyxyxyxy"), count, f"{where}.data['xyxyxyxy']", ((4, 2), (8,)))
    else:
        columns["boxes"] = _column(image.xyxy, count, f"{where}.xyxy", ((4,),))
    if iou_type in MASK_KINDS:
        columns["masks"] = _column(image.mask, count, f"{where}.mask", ((None, None),))
    columns["labels"] = _column(image.class_id, count, f"{where}.class_id")
    if scored:
        scores = getattr(image, score)
        unscored = poses and scores is None  # supervision's own metric of keypoints scores all such objects 0
        columns["scores"] = _column(np.zeros(count) if unscored else scores, count, f"{where}.{score}")
    else:
        for key in ("iscrowd", "area"):
            if data.get(key) is not None or not count:
                columns[key] = _column(data.get(key), count, f"{where}.data['{key}']")
        if np.any(data.get("ignore", 0)):
            raise_invalid(f"{where}.data['ignore']", "must be 0, as only LVIS's rules know ignored objects", 1)
    if columns["labels"].is_floating_point() and count:
        raise_invalid(f"{where}.class_id", "must contain whole numbers", Plain(np.asarray(image.class_id).dtype))
    columns["labels"] = columns["labels"].to(torch.int64)
    _add_names(class_names, columns["labels"].tolist(), data.get("class_name"), f"{where}.data['class_name']")
    if poses:
        return _with_areas(columns, count, where, scored=scored)
    return columns | {"boxes": columns["boxes"].reshape(count, 8 if iou_type == "rotated" else 4)}


def _with_areas(columns: Image, count: int, where: str, *, scored: bool) -> Image:
    """Return an image whose keypoints have visibilities of 0 and 2, with areas of boxes around the used points."""
    visible = columns.pop("visible", None)
    if not count:
        return columns | {"area": torch.zeros(0, dtype=torch.float64)}
    points = columns["keypoints"][..., :2].to(torch.float64)
    if not points.shape[1]:
        got = Plain(f"shape {tuple(points.shape)}")
        raise_invalid(f"{where}.xy", "must contain at least one point of each object", got)
    for row in points.isinf().flatten(1).any(1).nonzero()[:1, 0].tolist():
        raise_invalid(f"{where}.xy[{row}]", "must be finite", points[row].tolist())
    all_points = torch.ones(points.shape[:2], dtype=torch.bool)
    visible = all_points if visible is None else visible.bool()
    if visible.shape != all_points.shape:
        rule = f"must have a column for each of {all_points.shape[1]} points"
        raise_invalid(f"{where}.visible", rule, Plain(tuple(visible.shape)))
    corners = columns.get("boxes", torch.zeros((count, 4))).to(torch.float64)
    own = (corners[:, 2:] - corners[:, :2]).prod(1)
    used = (all_points if scored else visible)[..., None]
    sides = points.where(used, -torch.inf).amax(1) - points.where(used, torch.inf).amin(1)
    has_box = scored and "boxes" in columns
    area = own if has_box else torch.where(used.flatten(1).any(1), sides.prod(1), own)
    return {"area": area} | columns | {"keypoints": torch.cat([points, 2.0 * visible[..., None]], 2)}


def _column(values: Any, count: int, where: str, shapes: Shapes = _NUMBER) -> Tensor:
    """Return a copy of an array of numbers with a row per object; it may be missing without objects."""
    rule = f"must contain a row for each of {count} objects"
    if values is None and count:
        raise_invalid(where, rule, None)
    try:
        array = np.array(values) if count else np.zeros(0)
    except ValueError:
        raise_invalid(where, f"{rule}, all of one shape", values)
    if array.dtype.kind not in "biuf":
        raise_invalid(where, "must contain numbers", Plain(array.dtype))
    row = array.shape[1:]
    fits = any(len(row) == len(x) and all(a in (None, b) for a, b in zip(x, row, strict=True)) for x in shapes)
    if count and (array.shape[:1] != (count,) or not fits):
        texts = (", ".join("..." if x is None else str(x) for x in (count, *shape)) for shape in shapes)
        allowed = " or ".join(f"({text})" for text in texts)
        raise_invalid(where, rule if shapes == _NUMBER else f"{rule}: shape {allowed}", Plain(f"shape {array.shape}"))
    too_large = array >= 1 << 63 if array.dtype.kind == "u" else np.False_
    for rule, wrong in (("must not be NaN", array != array), ("must be below 2^63", too_large)):
        for index, *_ in np.argwhere(wrong)[:1].tolist():
            raise_invalid(f"{where}[{index}]", rule, array[index].tolist())
    # torch has one byte order, no long double, and sorts no wide unsigned numbers
    dtype = np.dtype(np.float64) if array.dtype.type is np.longdouble else array.dtype.newbyteorder("=")
    return torch.from_numpy(array.astype(np.int64 if dtype.kind == "u" and dtype.itemsize > 1 else dtype, copy=False))


def _add_names(known: dict[int, str], labels: list[int], names: Any, where: str) -> None:
    """Add the names of an image's classes to the known names."""
    if not labels or names is None:
        return
    try:
        is_list = len(labels) == len(names) and not isinstance(names, str) and np.ndim(names) == 1
    except (TypeError, ValueError):  # a number, or lists of several lengths
        is_list = False
    if not is_list:
        raise_invalid(where, f"must contain a name for each of {len(labels)} objects", names)
    for label, name in zip(labels, map(str, names), strict=True):
        if known.setdefault(label, name) != name:
            rule = f"must call class {label} {short_repr(known[label])}, as images before do"
            raise_invalid(where, f"{rule} (are these the ids of another model?)", name)
