"""COCO's JSON files, annotations and results: as input of the detection metrics, and written from their state."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.detection.files import box_results, entries
from torch_ap.detection.files.entries import Entries
from torch_ap.detection.inputs.images import Columns, Images
from torch_ap.detection.shapes import boxes, keypoints, masks, run_lengths
from torch_ap.detection.shapes.run_lengths import DecodedMasks

KINDS = ("bbox", "segm", "boundary", "keypoints")
_MARKS = ("iscrowd", "ignore", "difficult")  # of annotations to ignore, in one data set or another
_MASK_KINDS = ("segm", "boundary")
_LARGEST_SIDE = 1e9  # pixels
_PARTS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class CocoData:
    """A data set and the detections in it.

    Attributes:
        preds: input of ``MeanAveragePrecision.update``: packed for boxes and keypoints, a list of dicts for masks.
            Boxes are xywh, float64.
        target: the ground truths in the same form.
        images: the ids of the B images, integers or text, ascending, in the order of ``preds`` and ``target``.
        class_names: name of each category id. Labels are category ids.
        sizes: (B, 2) float64, width and height of each image; NaN if the file does not contain them.
    """

    preds: Images
    target: Images
    images: list[Any]
    class_names: dict[int, str]
    sizes: Tensor | None = None


def read_coco(annotations: Any, results: Any, iou_type: str = "bbox") -> CocoData:
    """Read COCO annotations and the results of a detector on them.

    Args:
        annotations: path of JSON with ``images``, ``annotations`` and ``categories``, plain or gzip; its content as a
            dict; or a ``COCO`` object of pycocotools or :mod:`torch_ap.compat`. Ids of images may be text; ids of
            categories are integers.
        results: path of a JSON list of detections: ``image_id``, ``category_id``, ``score``, and ``bbox``,
            ``segmentation`` or ``keypoints``; or of an object with that list as ``annotations``. Or its content as a
            list or dict, a ``COCO`` object, or a table (pandas, Polars, Arrow) with a row per detection.
        iou_type: "bbox", "segm" or "boundary" for masks, or "keypoints".

    Returns:
        The content of the files. ``area`` of a ground truth is the area in the annotation, if it has one, else the area
        of its box or mask. ``area`` of a detection is the area of the mask, of the box around all keypoints, or of the
        ``bbox`` if the first of the results has one, as in pycocotools. With ``use_given_area=True`` the function and
        the metric use all these areas as pycocotools does. The ids of annotations and ``area`` in results are not read.

    Raises:
        ValueError: for a file that is not such JSON or not UTF-8; a missing key; a value of the wrong type, such as a
            number written as text; an unknown image or category; a repeated image or category id; a key that one
            object has twice; a ``bbox`` that is not four numbers at most 1e150 from 0 or has a negative size; an
            ``area`` of an annotation, or a ``width`` or ``height`` of an image, that is negative or not finite; a score
            that is not finite; a run-length code whose runs are not integers of at least 0 that add up to height times
            width; a mask of another size than its image; keypoints that are not triples of finite numbers, equally many
            in every entry, whose visibility is not 0, 1 or 2, or whose ``num_keypoints`` contradicts it; a polygon of
            fewer than three points, or far outside its image. The message names file and entry.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.detection.files.coco import read_coco
        >>> from torch_ap.detection.functions import coco_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> box = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40]}
        >>> truth = {"images": [{"id": 7}], "categories": [{"id": 3, "name": "cat"}], "annotations": [box]}
        >>> _ = (folder / "truth.json").write_text(json.dumps(truth))
        >>> _ = (folder / "found.json").write_text(json.dumps([{**box, "score": 0.5}]))
        >>> data = read_coco(folder / "truth.json", folder / "found.json")
        >>> coco_mean_average_precision(data.preds, data.target, "xywh")["map_50"].round(decimals=3)
        tensor(1., dtype=torch.float64)
    """
    return read_results(read_annotations(annotations, iou_type), results)


@dataclass(frozen=True)
class Parts:
    """The lists of a file of annotations.

    Attributes:
        entries: the entries of the images, ascending by id.
        images: the ids of the images.
        truths: the annotations, in order of image, then of the file.
        counts: (B,) annotations per image.
        categories: entries as in the file.
        class_names: name of each category id.
    """

    entries: Entries
    images: list[Any]
    truths: Entries
    counts: Tensor
    categories: Entries
    class_names: dict[int, str]


@dataclass(frozen=True, kw_only=True)
class CocoAnnotations(Parts):
    """A data set; results can be added any number of times.

    Attributes:
        target: the columns of :attr:`CocoData.target`, without masks.
        codes: the masks of each image; None for boxes.
        unread: the number of annotations with each mark that these rules ignore.
    """

    target: dict[str, Any]
    codes: Sequence[DecodedMasks] | None
    unread: dict[str, int]


def read_annotations(annotations: Any, iou_type: str = "bbox") -> CocoAnnotations:
    """Read COCO annotations; arguments and errors as in :func:`read_coco`."""
    checks.one_of("iou_type", iou_type, KINDS)
    return annotations_from_parts(read_parts(annotations), iou_type)


def read_parts(annotations: Any) -> Parts:
    """Read the parts of annotations that do not depend on the kind of shapes."""
    path, truth = entries.named_content(annotations, "annotations")
    if not isinstance(truth, dict) or not all(isinstance(truth.get(key), list) for key in _PARTS):
        rule = f"must be a JSON object with the lists {', '.join(map(repr, _PARTS))}"
        raise ValueError(f"{path}: {rule}, {_description(truth)}")
    images, truths, categories = (Entries.from_list(truth[key], f"{path}: {key}") for key in _PARTS)
    labels = categories.unique("id", [entries.LABEL, entries.INTEGER])
    class_names = dict(zip(labels, categories.values("name"), strict=True))
    has_text_ids = bool(images.entries) and isinstance(images.entries[0].get("id"), str)
    ids = images.unique("id", [entries.TEXT if has_text_ids else entries.INTEGER])
    order = sorted(range(len(ids)), key=ids.__getitem__)
    images, ids = images.reordered(order), [ids[row] for row in order]
    return Parts(images, ids, *_sort_by_image(truths, ids, class_names), categories, class_names)


def _description(truth: Any) -> str:
    """Return the end of a message about a file without the lists of annotations."""
    if isinstance(truth, list):
        return "got a list, as results are: are the two files swapped?"
    if not isinstance(truth, dict):
        return f"got {short_repr(truth)}"
    wrong = next(key for key in _PARTS if not isinstance(truth.get(key), list))
    return f"got {short_repr(truth[wrong])} as {wrong!r}" if wrong in truth else f"got no {wrong!r}"


def annotations_from_parts(parts: Parts, iou_type: str, flag: str = "iscrowd") -> CocoAnnotations:
    """Return the shapes of annotations. The key ``flag`` is 1 for annotations to ignore."""
    truths = parts.truths
    target = _labels(truths) | {flag: torch.tensor(truths.values(flag), dtype=torch.uint8), "counts": parts.counts}
    marked = ((key, sum(entry.get(key) == 1 for entry in truths.entries)) for key in _MARKS if key != flag)
    unread, codes = {key: count for key, count in marked if count}, None
    if iou_type in _MASK_KINDS:
        codes = entries.decode(truths, parts.counts, parts.entries)
        target["area"] = _areas(truths, mask_areas(codes))
    else:
        target["boxes"] = truths.numbers("bbox")
        if iou_type == "keypoints":
            target |= {"keypoints": true_keypoints(truths), "area": truths.numbers("area")}
        else:
            target["area"] = _areas(truths, boxes.area(target["boxes"]))
    return CocoAnnotations(**vars(parts), target=target, codes=codes, unread=unread)


def read_results(data: CocoAnnotations, results: Any) -> CocoData:
    """Read the results of a detector on a data set; returns and errors as in :func:`read_coco`."""
    has_boxes = data.codes is None and "keypoints" not in data.target
    if has_boxes and isinstance(results, str | Path):
        columns = box_results.read_boxes(results, data.images, data.class_names)
        if columns is not None:
            return CocoData(columns, data.target, data.images, data.class_names, extents(data.entries))
    path, content = entries.named_content(results, "results")
    listed = _list_of_results(content, path)
    detections, counts = _sort_by_image(listed, data.images, data.class_names)
    preds = _labels(detections) | {"scores": detections.numbers("score"), "counts": counts}
    sizes, target = extents(data.entries), data.target
    if data.codes is not None:
        codes = entries.decode(detections, counts, data.entries)
        entries.check_sizes(path, codes, data.codes, data.entries)
        preds["area"] = _areas_of_results(listed, detections, mask_areas(codes))
        sides = with_masks(preds, codes), with_masks(target, data.codes)
        return CocoData(*sides, data.images, data.class_names, sizes)
    if not has_boxes:
        count = target["keypoints"].shape[1] if len(target["keypoints"]) else None
        preds["keypoints"] = detections.keypoints(entries.POINTS, count)
        preds["area"] = _areas_of_results(listed, detections, keypoints.area(preds["keypoints"]))
    else:
        preds["boxes"] = detections.numbers("bbox")
    return CocoData(preds, target, data.images, data.class_names, sizes)


def select(data: CocoData, images: Sequence[Any] | None, categories: Sequence[int] | None) -> CocoData:
    """Return the data of some images and categories, as ``params.imgIds`` and ``catIds`` in pycocotools.

    Args:
        data: the data.
        images: ids of the images; None for all.
        categories: ids of the categories; None for all.
    """
    kept = torch.tensor([images is None or x in images for x in data.images], dtype=torch.bool)
    labels = None if categories is None else torch.tensor(list(categories), dtype=torch.int64)
    names = {x: name for x, name in data.class_names.items() if categories is None or x in categories}
    return CocoData(
        _select_side(data.preds, kept, labels),
        _select_side(data.target, kept, labels),
        [x for x, keep in zip(data.images, kept.tolist(), strict=True) if keep],
        names,
        None if data.sizes is None else data.sizes[kept],
    )


def _select_side(side: Images, images: Tensor, labels: Tensor | None) -> Images:
    """Return the rows of some images, (B,) bool, and labels."""
    if isinstance(side, Mapping):
        owner = torch.arange(len(images)).repeat_interleave(side["counts"])
        keep = images[owner] & _has_label(side, labels)
        counts = torch.bincount(owner[keep], minlength=len(images))[images]
        return {key: counts if key == "counts" else column[keep] for key, column in side.items()}
    chosen = [image for image, keep in zip(side, images.tolist(), strict=True) if keep]
    if labels is None:
        return chosen
    return [{key: _pick(column, _has_label(image, labels)) for key, column in image.items()} for image in chosen]


def _has_label(side: Mapping[str, Any], labels: Tensor | None) -> Tensor:
    own: Tensor = side["labels"]
    return torch.ones_like(own, dtype=torch.bool) if labels is None else torch.isin(own, labels)


def _pick(column: Any, keep: Tensor) -> Any:
    """Return the entries of a column of one image; masks are a sequence of run-length codes."""
    if isinstance(column, Tensor):
        return column[keep]
    return [x for x, is_kept in zip(column, keep.tolist(), strict=True) if is_kept]


def _list_of_results(results: Any, path: str) -> Entries:
    """Return the detections: a list, or ``annotations`` with scores."""
    annotations = results.get("annotations") if isinstance(results, dict) else None
    if isinstance(annotations, list) and all(isinstance(entry, dict) and "score" in entry for entry in annotations[:1]):
        return Entries.from_list(annotations, f"{path}: annotations")
    if not isinstance(results, list):
        got = short_repr(results)
        if isinstance(results, dict):
            got = f"an object with the keys {short_repr(list(results))}"
        if isinstance(annotations, list):
            got = f"{got}, whose annotations have no score: are the two files swapped?"
        rule = "must be a JSON list of detections, or an object that has it as 'annotations'"
        raise ValueError(f"{path}: {rule}, got {got}")
    return Entries.from_list(results, path)


def _sort_by_image(listed: Entries, images: list[Any], categories: dict[int, str]) -> tuple[Entries, Tensor]:
    """Return entries in order of image, then of the file, and the (B,) number of entries per image."""
    indices = np.array(listed.lookup("image_id", {image: index for index, image in enumerate(images)}), np.int64)
    listed.lookup("category_id", categories)
    counts = torch.from_numpy(np.bincount(indices, minlength=len(images)).astype(np.int64))
    return listed.reordered(np.argsort(indices, kind="stable").tolist()), counts


def _labels(listed: Entries) -> dict[str, Any]:
    return {"labels": torch.tensor([entry["category_id"] for entry in listed.entries], dtype=torch.int64)}


def true_keypoints(truths: Entries) -> Tensor:
    """Return the keypoints of annotations.

    ``num_keypoints`` may be 0 only without a labelled keypoint, since pycocotools leaves such annotations out.
    """
    values = truths.keypoints([*entries.POINTS, entries.VISIBILITY])
    for row, is_unlabelled in enumerate(keypoints.is_unlabelled(values).tolist()):
        number = truths.entries[row].get("num_keypoints")
        fits = isinstance(number, int | float) and number >= 0 and (number == 0) == is_unlabelled
        if number is not None and not fits:
            labelled = "no keypoint is labelled" if is_unlabelled else "keypoints are labelled"
            raise ValueError(f"{truths.name(row)}: 'num_keypoints' must fit: {labelled}, got {short_repr(number)}")
    return values


def _areas(truths: Entries, own: Tensor) -> Tensor:
    """Return the area in each annotation, or the area of its shape without one."""
    has_area = torch.tensor([("area" in entry) for entry in truths.entries], dtype=torch.bool)
    return torch.where(has_area, truths.numbers("area", default=0.0), own)


def _areas_of_results(listed: Entries, detections: Entries, own: Tensor) -> Tensor:
    """Return the areas of the shapes, or of the boxes if the first result has a box, as pycocotools does."""
    has_boxes = bool(listed.entries) and listed.entries[0].get("bbox", []) != []
    areas = boxes.area(detections.numbers("bbox")) if has_boxes else own
    for row in (~areas.isfinite()).nonzero()[:1, 0].tolist():
        rule = f"'{'bbox' if has_boxes else 'keypoints'}' must span a finite area, got {areas[row]:g}"
        raise ValueError(f"{detections.name(row)}: {rule}")
    return areas


def extents(images: Entries) -> Tensor:
    """Return the (B, 2) float64 width and height of images; NaN for missing values, null and 0."""
    sides = [[x or 0 for x in images.values(key)] for key in ("width", "height")]
    extent = torch.tensor(sides, dtype=torch.float64).T
    return extent.where((extent > 0) & (extent < _LARGEST_SIDE), torch.nan)


def mask_areas(codes: Sequence[DecodedMasks]) -> Tensor:
    """Return the number of pixels of each mask, (N,) float64."""
    nothing = torch.empty(0, dtype=torch.int64)
    edges, lengths = (torch.cat([nothing, *parts]) for parts in ([x.edges for x in codes], [x.lengths for x in codes]))
    return masks.area(edges, lengths).to(torch.float64)


_DTYPES = {
    **dict.fromkeys(("scores", "boxes", "area"), torch.float32),
    **dict.fromkeys(("labels", "iscrowd"), torch.int32),
}  # of torchmetrics, which has no keypoints
ImageList = list[dict[str, Any]]


def images_of_files(
    results: str | Path, annotations: str | Path, iou_type: Sequence[str]
) -> tuple[ImageList, ImageList]:
    """Return the images of a pair of files as lists of dicts, with torchmetrics' order, keys and dtypes.

    Keypoints, which torchmetrics lacks, are float64 and ascending by image id, as in pycocotools.

    Args:
        results: JSON list of detections.
        annotations: JSON with ``images``, ``annotations`` and ``categories``.
        iou_type: "bbox" for ``boxes``, "segm" for ``masks``, or both; "keypoints".

    Returns:
        Predictions and targets, one dict per image of the annotations, with or without entries.
    """
    if not iou_type:
        raise_invalid("iou_type", "must name at least one kind", iou_type)
    for kind in iou_type:
        checks.one_of("iou_type", kind, KINDS)
    parts = read_parts(annotations)
    kinds = [read_results(annotations_from_parts(parts, kind), results) for kind in iou_type]
    order: Sequence[int] = range(len(parts.images))
    if "keypoints" not in iou_type:  # by the first annotation in the file, then the images without annotations
        places = torch.split(torch.tensor(parts.truths.places), parts.counts.tolist())
        order = sorted(order, key=lambda image: min(places[image].tolist(), default=math.inf))
    return _join_kinds([x.preds for x in kinds], order), _join_kinds([x.target for x in kinds], order)


def _join_kinds(kinds: Sequence[Images], order: Sequence[int]) -> ImageList:
    """Join the dicts of each image; predictions have an ``area`` only with keypoints."""
    joined: ImageList = [{} for _ in order]
    for images in kinds:
        for image, columns in zip(joined, _split(images), strict=True):
            image |= columns
    for image in joined:
        if "masks" in image:
            image["masks"] = run_lengths.to_dense(image["masks"])
        if "keypoints" not in image:
            image |= {key: image[key].to(dtype) for key, dtype in _DTYPES.items() if key in image}
            if "scores" in image:
                image.pop("area", None)
    return [joined[row] for row in order]


def _split(images: Images) -> ImageList:
    """Return packed images, or a list of images, as a list of dicts."""
    if not isinstance(images, Mapping):
        return [dict(image) for image in images]
    counts = images["counts"].tolist()
    columns = {key: torch.split(column, counts) for key, column in images.items() if key != "counts"}
    return [{key: values[image] for key, values in columns.items()} for image in range(len(counts))]


def with_masks(images: Images, masks: Sequence[Any]) -> ImageList:
    """Return packed images as a list of dicts, with the masks of each image."""
    return [image | {"masks": x} for image, x in zip(_split(images), masks, strict=True)]


def write_files(
    name: str | Path, columns: Columns, box_format: str, class_names: Mapping[int, str], *, use_given_area: bool = False
) -> None:
    """Write the state of a detection metric as ``{name}_preds.json`` and ``{name}_target.json``.

    Args:
        name: path without these endings.
        columns: the state of a metric of boxes, masks or both.
        box_format: format of its boxes.
        class_names: names of labels; the name of another label is its number.
        use_given_area: whether to write areas of 0 or less unchanged, instead of the area of the box or mask.
    """
    labels = torch.unique(torch.cat([columns["ground_truth_labels"], columns["detection_labels"]])).tolist()
    images: ImageList = [{"id": image} for image in range(len(columns["detections_per_image"]))]
    if "image_sizes" in columns:
        for image, (height, width) in zip(images, columns["image_sizes"].tolist(), strict=True):
            image |= {"height": height, "width": width}
    truth = {
        "info": {"description": "the state of a metric of torch_ap"},
        "images": images,
        "annotations": _entries(columns, "ground_truth", box_format, use_given_area=use_given_area),
        "categories": [{"id": label, "name": class_names.get(label, str(label))} for label in labels],
    }
    for kind, content in (("preds", _entries(columns, "detection", box_format)), ("target", truth)):
        Path(f"{name}_{kind}.json").write_text(json.dumps(content, indent=4), encoding="utf-8")


def _entries(columns: Columns, side: str, box_format: str, *, use_given_area: bool = False) -> list[dict[str, Any]]:
    """Return the annotations or detections of all images."""
    counts = columns[f"{side}s_per_image"]
    image = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    parts: dict[str, list[Any]] = {
        "id": list(range(1, len(image) + 1)),  # COCO's evaluation treats an id of 0 as missing
        "image_id": image.tolist(),
        "category_id": columns[f"{side}_labels"].tolist(),
    }
    own_area = None
    if f"{side}_boxes" in columns:
        xywh = boxes.to_xywh(columns[f"{side}_boxes"], box_format)
        parts["bbox"], own_area = xywh.tolist(), boxes.area(xywh)
    if "image_sizes" in columns:
        edges, lengths = columns[f"{side}_mask_edges"], columns[f"{side}_edges_per_mask"]
        parts["segmentation"] = run_lengths.encode(edges, lengths, columns["image_sizes"][image])
        own_area = masks.area(edges, lengths)
    assert own_area is not None
    if side == "detection":
        parts |= {"score": columns["detection_scores"].tolist(), "iscrowd": [0] * len(image), "area": own_area.tolist()}
    else:
        area = columns["ground_truth_area"]
        own_area = own_area.to(area.dtype)
        parts["iscrowd"] = columns["ground_truth_iscrowd"].tolist()
        parts["area"] = torch.where((area > 0) | use_given_area, area, own_area).tolist()
    return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
