"""COCO's JSON files, annotations and results, as input for the detection metrics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.files import entries, segmentations
from torch_ap.files.entries import Entries
from torch_ap.geometry import boxes, keypoints, masks
from torch_ap.geometry.run_lengths import DecodedMasks
from torch_ap.inputs.detections import Images
from torch_ap.rules import checks
from torch_ap.rules.messages import shown


@dataclass(frozen=True)
class CocoData:
    """A data set and the detections in it.

    Attributes:
        preds: of ``MeanAveragePrecision.update``: packed for boxes and keypoints, a list of dicts for masks. Boxes are
            xywh, float64.
        target: likewise.
        images: the ids of the B images, whole numbers or text, ascending, in the order of ``preds`` and ``target``.
        class_names: name of each category id. Labels are category ids.
        sizes: (B, 2) float64, width and height of each image; NaN where the file does not say.
    """

    preds: Images
    target: Images
    images: list[Any]
    class_names: dict[int, str]
    sizes: Tensor | None = None


def read_coco(annotations: str | Path, results: str | Path, iou_type: str = "bbox") -> CocoData:
    """Read COCO annotations and the results of a detector on them.

    Args:
        annotations: JSON with ``images``, ``annotations`` and ``categories``, plain or gzip. Ids of images may be text,
            those of categories are whole numbers.
        results: JSON list of detections: ``image_id``, ``category_id``, ``score``, and ``bbox``, ``segmentation``
            or ``keypoints``; or an object with that list as ``annotations``.
        iou_type: "bbox", "segm" or "boundary" for masks, or "keypoints". Polygons need pycocotools (extra:
            ``detection``).

    Returns:
        What the files hold. ``area`` is that of the annotation, where it has one, else that of its box or mask; for
        what was detected it is that of the mask, or of the box around all keypoints, or of the ``bbox`` where the first
        of the results has one, as in pycocotools. With ``area_as_given=True`` the function and the metric take all of
        these as pycocotools does. The ids of annotations are not read, nor is ``area`` in results.

    Raises:
        ValueError: for a file that is not such JSON or not UTF-8; a missing key; a value of the wrong type, such as a
            number written as text; an unknown image or category; an image or category id given twice; a key that one
            object has twice; a ``bbox`` that is not four finite numbers or has a negative size; an ``area`` of an
            annotation, or a ``width`` or ``height`` of an image, that is negative or not finite; a score that is not
            finite; a run-length code whose runs are not whole numbers of at least 0 that add up to height times width;
            a mask of another size than its image; keypoints that are not as many triples of finite numbers in every
            entry, whose visibility is not 0, 1 or 2, or whose ``num_keypoints`` contradicts it; a polygon of fewer than
            three points, or far outside its image. The message names file and entry.
        ModuleNotFoundError: for polygons without pycocotools.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.files.coco import read_coco
        >>> from torch_ap.functional.detection import coco_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> box = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40]}
        >>> truth = {"images": [{"id": 7}], "categories": [{"id": 3, "name": "cat"}], "annotations": [box]}
        >>> _ = (folder / "truth.json").write_text(json.dumps(truth))
        >>> _ = (folder / "found.json").write_text(json.dumps([{**box, "score": 0.5}]))
        >>> data = read_coco(folder / "truth.json", folder / "found.json")
        >>> coco_mean_average_precision(data.preds, data.target, "xywh")["map_50"].round(decimals=3)
        tensor(1., dtype=torch.float64)
    """
    return with_results(read_annotations(annotations, iou_type), results)


@dataclass(frozen=True)
class CocoAnnotations:
    """A data set, to which results can be added any number of times.

    Attributes:
        target: what :attr:`CocoData.target` holds, without masks.
        codes: the masks of each image; None for boxes.
        entries: the entries of the images, ascending by id.
        images: the ids of the images.
        class_names: name of each category id.
        unread: of each mark that these rules do not look at, how many annotations have it.
    """

    target: dict[str, Any]
    codes: Sequence[DecodedMasks] | None
    entries: Entries
    images: list[Any]
    class_names: dict[int, str]
    unread: dict[str, int] = field(default_factory=dict)


def read_annotations(path: str | Path, iou_type: str = "bbox") -> CocoAnnotations:
    """Read COCO annotations; arguments and errors are those of :func:`read_coco`."""
    checks.one_of("iou_type", iou_type, KINDS)
    return annotations_of(read_parts(path), iou_type)


class Parts(NamedTuple):
    """The lists of a file of annotations.

    Attributes:
        images: ascending by id.
        ids: of the images.
        truths: the annotations, in order of image, then of the file.
        counts: (B,) annotations per image.
        categories: as in the file.
        class_names: name of each category id.
    """

    images: Entries
    ids: list[int]
    truths: Entries
    counts: Tensor
    categories: Entries
    class_names: dict[int, str]


def read_parts(path: str | Path) -> Parts:
    """Read a file of annotations as far as it has one form, whatever shapes these have."""
    truth = entries.load(path)
    if not isinstance(truth, dict) or not all(isinstance(truth.get(key), list) for key in _PARTS):
        raise ValueError(f"{path}: must be a JSON object with the lists {', '.join(map(repr, _PARTS))}, {_got(truth)}")
    images, truths, categories = (Entries.of(truth[key], f"{path}: {key}") for key in _PARTS)
    class_names = dict(zip(categories.unique("id", _category_id), categories.each("name", entries.text), strict=True))
    named = bool(images.entries) and isinstance(images.entries[0].get("id"), str)
    ids: list[Any] = images.unique("id", entries.text) if named else images.unique("id", entries.integer)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    images, ids = images.ordered(order), [ids[row] for row in order]
    return Parts(images, ids, *_by_image(truths, ids, class_names), categories, class_names)


def _category_id(value: Any) -> int:
    """A whole number, which is the label."""
    if isinstance(value, str):
        raise ValueError(f"must be an integer, as labels are (only ids of images may be text), got {shown(value)}")
    return entries.integer(value)


def _got(truth: Any) -> str:
    """What a file holds in place of these lists."""
    if isinstance(truth, list):
        return "got a list, as results are: are the two files swapped?"
    if not isinstance(truth, dict):
        return f"got {shown(truth)}"
    wrong = next(key for key in _PARTS if not isinstance(truth.get(key), list))
    return f"got {shown(truth[wrong])} as {wrong!r}" if wrong in truth else f"got no {wrong!r}"


def annotations_of(parts: Parts, iou_type: str, flag: str = "iscrowd") -> CocoAnnotations:
    """The shapes of annotations, and what is said of them; ``flag`` is what may be 1 of one that does not count."""
    images, ids, truths, counts, _, class_names = parts
    flags = torch.tensor(truths.each(flag, entries.flag, 0), dtype=torch.uint8)
    target = _labels(truths) | {flag: flags, "counts": counts}
    marked = ((key, sum(entry.get(key) == 1 for entry in truths.entries)) for key in _MARKS if key != flag)
    unread = {key: count for key, count in marked if count}
    if iou_type in _OF_MASKS:
        codes = segmentations.decode(truths, counts, images)
        target |= {"area": _areas(truths, _mask_areas(codes))}
        return CocoAnnotations(target, codes, images, ids, class_names, unread)
    target |= {"boxes": truths.boxes("bbox")}
    if iou_type == "keypoints":
        target |= {"keypoints": _true_keypoints(truths), "area": truths.numbers("area", least=0)}
    else:
        target |= {"area": _areas(truths, boxes.area(target["boxes"]))}
    return CocoAnnotations(target, None, images, ids, class_names, unread)


def with_results(data: CocoAnnotations, results: str | Path) -> CocoData:
    """Read the results of a detector on a data set; returns and errors are those of :func:`read_coco`."""
    found, where = _listed(entries.load(results), str(results))
    detections, counts = _by_image(Entries.of(found, where), data.images, data.class_names)
    preds = _labels(detections) | {"scores": detections.numbers("score")}
    sizes = extents(data.entries)
    if "keypoints" in data.target:
        true = data.target["keypoints"]
        given = detections.keypoints("keypoints", entries.points, true.shape[1] if len(true) else None)
        areas = _areas_of_results(found, detections, keypoints.area(given))
        preds |= {"counts": counts, "keypoints": given, "area": areas}
        return CocoData(preds, data.target, data.images, data.class_names, sizes)
    if data.codes is None:
        preds |= {"counts": counts, "boxes": detections.boxes("bbox")}
        return CocoData(preds, data.target, data.images, data.class_names, sizes)
    codes = segmentations.decode(detections, counts, data.entries)
    segmentations.same_sizes(str(results), codes, data.codes, data.entries)
    preds["area"] = _areas_of_results(found, detections, _mask_areas(codes))
    target = {name: column for name, column in data.target.items() if name != "counts"}
    lists = _lists(preds, counts, codes), _lists(target, data.target["counts"], data.codes)
    return CocoData(*lists, data.images, data.class_names, sizes)


def _listed(found: Any, path: str) -> tuple[list[Any], str]:
    """The detections, a list or ``annotations`` that have scores; and what messages call it."""
    annotated = isinstance(found, dict) and isinstance(found.get("annotations"), list)
    if annotated and all(isinstance(one, dict) and "score" in one for one in found["annotations"][:1]):
        return found["annotations"], f"{path}: annotations"
    if not isinstance(found, list):
        got = f"an object with the keys {shown(list(found))}" if isinstance(found, dict) else shown(found)
        also = ", whose annotations have no score: are the two files swapped?" if annotated else ""
        raise ValueError(
            f"{path}: must be a JSON list of detections, or an object that has it as 'annotations', got {got}{also}"
        )
    return found, path


_LARGEST_SIDE = 1e9
KINDS = ("bbox", "segm", "boundary", "keypoints")
_MARKS = ("iscrowd", "ignore", "difficult")  # of annotations that do not count, in one data set or another
_OF_MASKS = ("segm", "boundary")
_PARTS = ("images", "annotations", "categories")


def _by_image(listed: Entries, images: list[Any], categories: dict[int, str]) -> tuple[Entries, Tensor]:
    """Entries in order of image, then of the file; and (B,) entries per image."""
    row = np.array(listed.known("image_id", {image: place for place, image in enumerate(images)}), np.int64)
    listed.known("category_id", categories)
    counts = torch.from_numpy(np.bincount(row, minlength=len(images)).astype(np.int64))
    return listed.ordered(np.argsort(row, kind="stable").tolist()), counts


def _labels(listed: Entries) -> dict[str, Any]:
    return {"labels": torch.tensor(listed.integers("category_id"), dtype=torch.int64)}


def _true_keypoints(truths: Entries) -> Tensor:
    """Those of annotations. ``num_keypoints`` is 0 only where none is labelled, which pycocotools leaves out."""
    found = truths.keypoints("keypoints", entries.labelled_points)
    for place, entry, none in zip(truths.places, truths.entries, keypoints.unlabelled(found).tolist(), strict=True):
        number = entry.get("num_keypoints")
        fits = isinstance(number, int | float) and number >= 0 and (number == 0) == none
        if number is not None and not fits:
            labelled = "no keypoint is labelled" if none else "keypoints are labelled"
            raise ValueError(f"{truths.where}[{place}]: 'num_keypoints' must fit: {labelled}, got {shown(number)}")
    return found


def _areas(truths: Entries, own: Tensor) -> Tensor:
    """The areas that annotations give, and their own where they give none."""
    given = [("area" in entry) for entry in truths.entries]
    return torch.where(torch.tensor(given, dtype=torch.bool), truths.numbers("area", least=0, default=0.0), own)


def _areas_of_results(found: list[Any], detections: Entries, own: Tensor) -> Tensor:
    """The areas of what was detected, or of boxes where the first of the results has one, as pycocotools does."""
    given = found and found[0].get("bbox", []) != []
    areas = boxes.area(detections.boxes("bbox")) if given else own
    for row in (~areas.isfinite()).nonzero()[:1, 0].tolist():
        rule = f"'{'bbox' if given else 'keypoints'}' must span a finite area, got {areas[row]:g}"
        raise ValueError(f"{detections.where}[{detections.places[row]}]: {rule}")
    return areas


def extents(images: Entries) -> Tensor:
    """(B, 2) float64 width and height of images; NaN for those that are missing, null or 0."""
    return torch.tensor([images.each(key, _extent, 0) for key in ("width", "height")], dtype=torch.float64).T


def _extent(value: Any) -> float:
    """A finite number of at least 0, or null."""
    side = 0.0 if value is None else entries.finite(value, least=0)
    return side if 0 < side < _LARGEST_SIDE else math.nan


def _mask_areas(codes: Sequence[DecodedMasks]) -> Tensor:
    """(N,) float64 pixels of all masks."""
    nothing = torch.empty(0, dtype=torch.int64)
    edges, lengths = (torch.cat([nothing, *parts]) for parts in ([x.edges for x in codes], [x.lengths for x in codes]))
    return masks.area(edges, lengths).to(torch.float64)


def _lists(columns: dict[str, Tensor], counts: Tensor, codes: Sequence[DecodedMasks]) -> list[dict[str, Any]]:
    """Columns of all images as a list of dicts with their masks."""
    ends = [0, *counts.cumsum(0).tolist()]
    return [
        {key: column[start:end] for key, column in columns.items()} | {"masks": one}
        for (start, end), one in zip(pairwise(ends), codes, strict=True)
    ]
