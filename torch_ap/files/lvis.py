"""LVIS's JSON files: COCO's, whose images list the categories that were looked for in them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_ap.files import coco, entries
from torch_ap.files.coco import CocoAnnotations, CocoData, Parts
from torch_ap.inputs.federated import KEYS, NEGATIVE, NOT_EXHAUSTIVE
from torch_ap.matching.lvis import Frequency
from torch_ap.rules import checks
from torch_ap.rules.messages import shown

KINDS = ("bbox", "segm", "boundary")


@dataclass(frozen=True, kw_only=True)
class LvisData(CocoData):
    """A data set and the detections in it.

    Attributes:
        frequencies: "r", "c" or "f" of each category id.
    """

    frequencies: dict[int, Frequency]


@dataclass(frozen=True)
class LvisAnnotations:
    """A data set, to which results can be added any number of times.

    Attributes:
        coco: what COCO's reader finds, and ``ignore`` in place of ``iscrowd``.
        lists: of each key the ids of each image.
        frequencies: of each category id.
    """

    coco: CocoAnnotations
    lists: dict[str, list[list[int]]]
    frequencies: dict[int, Frequency]


def read_lvis(annotations: str | Path, results: str | Path, iou_type: str = "bbox") -> LvisData:
    """Read LVIS annotations and the results of a detector on them.

    Args:
        annotations: JSON as for :func:`torch_ap.files.coco.read_coco`, whose images have ``neg_category_ids`` and
            ``not_exhaustive_category_ids``, whose categories have ``frequency``, and whose annotations have ``area``.
        results: JSON list of detections: ``image_id``, ``category_id``, ``score``, and ``bbox`` or ``segmentation``.
        iou_type: "bbox", or "segm" or "boundary" for masks. Polygons need pycocotools (extra: ``detection``).

    Returns:
        What the files hold, for ``LVISMeanAveragePrecision("xywh", area_as_given=True)``. The area of what was detected
        is that of the mask, or of the ``bbox`` where the first of the results has one, as in lvis.

    Raises:
        ValueError: as there; and where one of these fields is missing, holds an unknown category, or holds as negative
            one that has an annotation in the image or is in its other list, or for a negative area.
            The message names file and entry.
        ModuleNotFoundError: for polygons without pycocotools.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.files.lvis import read_lvis
        >>> from torch_ap.functional import lvis_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> box = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40]}
        >>> image = {"id": 7, "neg_category_ids": [], "not_exhaustive_category_ids": []}
        >>> category = {"id": 3, "name": "cat", "frequency": "f"}
        >>> truth = {"images": [image], "categories": [category], "annotations": [{**box, "area": 900}]}
        >>> _ = (folder / "truth.json").write_text(json.dumps(truth))
        >>> _ = (folder / "found.json").write_text(json.dumps([{**box, "score": 0.5}]))
        >>> data = read_lvis(folder / "truth.json", folder / "found.json")
        >>> found = lvis_mean_average_precision(data.preds, data.target, "xywh", frequencies=data.frequencies)
        >>> found["map_frequent"].round(decimals=3)
        tensor(1., dtype=torch.float64)
    """
    return with_results(read_annotations(annotations, iou_type), results)


def read_annotations(path: str | Path, iou_type: str = "bbox") -> LvisAnnotations:
    """Read LVIS annotations; arguments and errors are those of :func:`read_lvis`."""
    checks.one_of("iou_type", iou_type, KINDS)
    parts = coco.read_parts(path)
    lists = {key: parts.images.each(key, _ids) for key in KEYS}
    _check(parts, lists)
    frequencies = dict(zip(parts.class_names, parts.categories.each("frequency", _frequency), strict=True))
    parts.truths.numbers("area", least=0)  # which COCO's need not have
    return LvisAnnotations(coco.annotations_of(parts, iou_type, "ignore"), lists, frequencies)


def with_results(data: LvisAnnotations, results: str | Path) -> LvisData:
    """Read the results of a detector on a data set; returns and errors are those of :func:`read_lvis`."""
    found = coco.with_results(data.coco, results)
    target = found.target
    if isinstance(target, dict):
        target = target | {key: _tensor([*chain(*ids)]) for key, ids in data.lists.items()}
        target |= {f"{key}_counts": _tensor([len(x) for x in ids]) for key, ids in data.lists.items()}
    else:
        rows = zip(target, *data.lists.values(), strict=True)
        target = [{**image, **dict(zip(data.lists, map(_tensor, ids), strict=True))} for image, *ids in rows]
    return LvisData(**vars(replace(found, target=target)), frequencies=data.frequencies)


def has_fields(images: entries.Entries) -> bool:
    """Whether any image has LVIS's fields, which COCO's rules do not know."""
    return any(key in image for image in images.entries for key in KEYS)


def _tensor(ids: Sequence[int]) -> Tensor:
    return torch.tensor(ids, dtype=torch.int64)


def _ids(value: Any) -> list[int]:
    """A list of whole numbers."""
    if not isinstance(value, list):
        raise ValueError(f"must be a list of ids of categories, got {shown(value)}")
    try:
        return [entries.integer(one) for one in value]
    except ValueError as reason:
        raise ValueError(f"must be a list of ids of categories, each of which {reason}") from None


def _frequency(value: Any) -> Frequency:
    """How frequent a category is in the training set."""
    if value not in ("r", "c", "f"):
        raise ValueError(f"must be 'r', 'c' or 'f', got {shown(value)}")
    frequency: Frequency = value
    return frequency


def _check(parts: Parts, lists: dict[str, list[list[int]]]) -> None:
    """Raise for ids of no category, and for negative ones of categories that an annotation of the image has."""
    images = parts.images
    positive: dict[int, set[int]] = {image: set() for image in parts.ids}
    for entry in parts.truths.entries:
        positive[entry["image_id"]].add(entry["category_id"])
    for key, every in lists.items():
        for place, image, ids, other in zip(images.places, parts.ids, every, lists[NOT_EXHAUSTIVE], strict=True):
            where = f"{images.where}[{place}]: '{key}'"
            for one in ids:
                if one not in parts.class_names:
                    raise ValueError(f"{where} must hold ids of categories, got {one}")
                if key == NEGATIVE and one in positive[image]:
                    raise ValueError(f"{where} must hold no category that an annotation of the image has, got {one}")
                if key == NEGATIVE and one in other:
                    raise ValueError(f"{where} must hold no category that '{NOT_EXHAUSTIVE}' has, got {one}")
