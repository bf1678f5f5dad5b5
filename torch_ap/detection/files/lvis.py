"""LVIS's JSON files: COCO's form, whose images list the categories that annotators searched in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.detection.files import coco, entries
from torch_ap.detection.files.coco import CocoAnnotations, CocoData, Parts
from torch_ap.detection.inputs.federated import KEYS, NEGATIVE, NOT_EXHAUSTIVE
from torch_ap.detection.inputs.images import Images
from torch_ap.detection.rules.lvis import Frequency

KINDS = ("bbox", "segm", "boundary")


@dataclass(frozen=True, kw_only=True)
class LvisData(CocoData):
    """A data set and the detections in it.

    Attributes:
        frequencies: frequency ("r", "c" or "f") of each category id.
    """

    frequencies: dict[int, Frequency]


@dataclass(frozen=True)
class LvisAnnotations:
    """A data set; results can be added any number of times.

    Attributes:
        coco: the annotations that COCO's reader returns, with ``ignore`` in place of ``iscrowd``.
        lists: the category ids of each image for each key.
        frequencies: frequency of each category id.
    """

    coco: CocoAnnotations
    lists: dict[str, list[list[int]]]
    frequencies: dict[int, Frequency]


def read_lvis(annotations: Any, results: Any, iou_type: str = "bbox") -> LvisData:
    """Read LVIS annotations and the results of a detector on them.

    Args:
        annotations: as for :func:`torch_ap.files.read_coco`, in any of its forms. Images have ``neg_category_ids`` and
            ``not_exhaustive_category_ids``, categories ``frequency``, and annotations ``area``.
        results: list of detections in any of the forms there: ``image_id``, ``category_id``, ``score``, and ``bbox``
            or ``segmentation``.
        iou_type: "bbox", or "segm" or "boundary" for masks.

    Returns:
        The content of the files, for ``LVISMeanAveragePrecision("xywh", use_given_area=True)``. The area of a detection
        is the area of the mask, or of the ``bbox`` if the first of the results has one, as in lvis.

    Raises:
        ValueError: as in :func:`torch_ap.files.read_coco`; for a missing field, an unknown category in a list, a
            negative area, and a negative category that has an annotation in the image or is in its other list.
            The message names file and entry.

    Example:
        >>> import json, pathlib, tempfile
        >>> from torch_ap.detection.files.lvis import read_lvis
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
    return read_results(read_annotations(annotations, iou_type), results)


def read_annotations(annotations: Any, iou_type: str = "bbox") -> LvisAnnotations:
    """Read LVIS annotations; arguments and errors as in :func:`read_lvis`."""
    checks.one_of("iou_type", iou_type, KINDS)
    parts = coco.read_parts(annotations)
    lists = {key: parts.entries.values(key) for key in KEYS}
    _check_lists(parts, lists)
    frequencies = dict(zip(parts.class_names, parts.categories.values("frequency"), strict=True))
    parts.truths.numbers("area")  # which COCO's annotations may lack
    return LvisAnnotations(coco.annotations_from_parts(parts, iou_type, "ignore"), lists, frequencies)


def read_results(data: LvisAnnotations, results: Any) -> LvisData:
    """Read the results of a detector on a data set; returns and errors as in :func:`read_lvis`."""
    read = coco.read_results(data.coco, results)
    return LvisData(**vars(replace(read, target=with_lists(read.target, data.lists))), frequencies=data.frequencies)


def with_lists(target: Images, lists: Mapping[str, Sequence[Sequence[int]]]) -> Images:
    """Return images, packed or in a list, with the lists of categories of each image."""
    if isinstance(target, Mapping):
        counts = {f"{key}_counts": _tensor(list(map(len, ids))) for key, ids in lists.items()}
        return {**target, **{key: _tensor([*chain(*ids)]) for key, ids in lists.items()}, **counts}
    rows = zip(target, *lists.values(), strict=True)
    return [{**image, **dict(zip(lists, map(_tensor, ids), strict=True))} for image, *ids in rows]


def has_fields(images: entries.Entries) -> bool:
    """Return whether any image has LVIS's fields, which COCO's rules do not use."""
    return any(key in image for image in images.entries for key in KEYS)


def _tensor(ids: Sequence[int]) -> Tensor:
    return torch.tensor(ids, dtype=torch.int64)


def _check_lists(parts: Parts, lists: dict[str, list[list[int]]]) -> None:
    """Raise ValueError for ids of no category, and for negative ids of categories with an annotation in the image."""
    positive: dict[int, set[int]] = {image: set() for image in parts.images}
    for entry in parts.truths.entries:
        positive[entry["image_id"]].add(entry["category_id"])
    for key, ids_of_images in lists.items():
        for row, (image, ids, other) in enumerate(zip(parts.images, ids_of_images, lists[NOT_EXHAUSTIVE], strict=True)):
            for label in ids:
                rule = ""
                if label not in parts.class_names:
                    rule = "ids of categories"
                elif key == NEGATIVE and label in positive[image]:
                    rule = "no category that an annotation of the image has"
                elif key == NEGATIVE and label in other:
                    rule = f"no category that '{NOT_EXHAUSTIVE}' has"
                if rule:
                    raise ValueError(f"{parts.entries.name(row)}: '{key}' must contain {rule}, got {label}")
