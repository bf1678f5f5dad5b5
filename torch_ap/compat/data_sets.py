"""Functions for data sets: reading, indexes by id, results of a detector, masks of annotations."""

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torch_ap.compat import mask
from torch_ap.core.base.messages import short_repr, suggest_id
from torch_ap.core.ranking.order import Array
from torch_ap.detection.files import entries

Annotation = dict[str, Any]
LISTS = ("images", "annotations", "categories")


class Index(NamedTuple):
    """The entries of a data set by their ids.

    Attributes:
        imgs, anns, cats: the images, annotations and categories by id.
        by_image: the annotations of each image id.
        images_of: the image ids of each category id, one per annotation.
    """

    imgs: dict[Any, Annotation]
    anns: dict[Any, Annotation]
    cats: dict[Any, Annotation]
    by_image: dict[Any, list[Annotation]]
    images_of: dict[Any, list[Any]]


def load(source: str | Path | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the content of a file of annotations, or a dict in memory, and its name in messages."""
    if isinstance(source, Mapping):
        return dict(source), "annotations"
    content = entries.load(source)
    if not isinstance(content, Mapping):
        raise ValueError(f"{source}: must be a JSON object, got {short_repr(content)}")
    return dict(content), str(source)


def index_of(dataset: Mapping[str, Any], name: str, list_name: str) -> Index:
    """Return the entries of a data set by id.

    Args:
        dataset: the content of the data set.
        name: its name in messages.
        list_name: the name of its annotations in messages.

    Raises:
        ValueError: for an entry without an id, a repeated id, an id that is a list or a dict, and an annotation without
            the id of an image or, if the data set has categories, of a category.
    """
    names = f"{name}: images", list_name, f"{name}: categories"
    _, annotations, categories = listed = [dataset.get(key, []) for key in LISTS]
    images, anns, cats = (_entries_by_id(where, rows) for where, rows in zip(names, listed, strict=True))
    by_image: dict[Any, list[Annotation]] = defaultdict(list)
    images_of: dict[Any, list[Any]] = defaultdict(list)
    try:
        for annotation in annotations:
            by_image[annotation["image_id"]].append(annotation)
        for annotation in annotations if categories else ():
            images_of[annotation["category_id"]].append(annotation["image_id"])
    except (KeyError, TypeError):
        for place, annotation in enumerate(annotations):
            for key in ("image_id", "category_id") if categories else ("image_id",):
                _require_id(annotation, key, f"{list_name}[{place}]")
        raise
    return Index(images, anns, cats, by_image, images_of)


def _require_id(entry: Annotation, key: str, where: str) -> None:
    """Raise ValueError unless an entry has an id at a key, which can be the key of a dict."""
    if not isinstance(entry, Mapping) or key not in entry:
        raise ValueError(f"{where}: must be an object with the key {key!r}, got {short_repr(entry)}")
    try:
        hash(entry[key])
    except TypeError:
        raise ValueError(f"{where}: {key!r} must be an integer or text, got {short_repr(entry[key])}") from None


def _entries_by_id(where: str, listed: Sequence[Annotation]) -> dict[Any, Annotation]:
    """Return the entries of a list by id."""
    with contextlib.suppress(KeyError, TypeError, IndexError):
        index = dict(zip(map(itemgetter("id"), listed), listed, strict=True))
        if len(index) == len(listed):
            return index
    seen = set()
    for place, entry in enumerate(listed):
        _require_id(entry, "id", f"{where}[{place}]")
        if entry["id"] in seen:
            raise ValueError(f"{where}[{place}]: 'id' must be given once, got {short_repr(entry['id'])} again")
        seen.add(entry["id"])
    raise AssertionError  # pragma: no cover


def list_of_results(source: Any) -> tuple[list[Annotation], str]:
    """Return a copy of each result in a file or a list, and the name of the list in messages."""
    name, results = "results", source
    if isinstance(source, str | Path):
        name, results = str(source), entries.load(source)
    if not isinstance(results, list | tuple):
        raise ValueError(f"{name}: must be a list of detections, got {short_repr(results)}")
    for place, result in enumerate(results):
        if not isinstance(result, dict):
            raise ValueError(f"{name}[{place}]: must be an object, got {short_repr(result)}")
    return [dict(result) for result in results], name


def check_images(results: Sequence[Annotation], name: str, images: Mapping[Any, Any]) -> None:
    """Raise ValueError for a result without an image, or whose image is not one of ``images``."""
    with contextlib.suppress(KeyError, TypeError):
        if set(map(itemgetter("image_id"), results)) <= images.keys():
            return
    for place, result in enumerate(results):
        _require_id(result, "image_id", f"{name}[{place}]")
        image = result["image_id"]
        if image not in images:
            raise ValueError(f"{name}[{place}]: unknown image_id {short_repr(image)}{suggest_id(image, images)}")


def complete(results: Sequence[Annotation], name: str) -> None:
    """Add ``id``, counted from 1, ``area`` and ``bbox`` to results. The keys of the first one decide how.

    Raises:
        ValueError: for a result that lacks a key, or whose shape is invalid.
    """
    place = 0
    try:
        add = _completion_of(results[0]) if results else None
        for place, result in enumerate(results):
            if add is not None:
                add(result)
            result["id"] = place + 1
    except KeyError as key:
        raise ValueError(f"{name}[{place}]: must have the key {key}, got {short_repr(list(result))}") from None
    except (TypeError, ValueError) as reason:
        raise ValueError(f"{name}[{place}]: must have a valid shape: {reason}") from None


def _completion_of(first: Annotation) -> Any:
    """Return the function that adds ``area`` and ``bbox`` to a result, from the keys of the first one."""
    if "bbox" in first and len(first["bbox"]):
        return _complete_box
    if "segmentation" in first:
        return _complete_mask
    return _complete_keypoints if "keypoints" in first else None


def _complete_box(result: Annotation) -> None:
    x, y, width, height = result["bbox"]
    if "segmentation" not in result:
        right, bottom = x + width, y + height
        result["segmentation"] = [[x, y, x, bottom, right, bottom, right, y]]
    result["area"] = width * height


def _complete_mask(result: Annotation) -> None:
    result["area"] = mask.area(result["segmentation"])
    if "bbox" not in result:
        result["bbox"] = mask.toBbox(result["segmentation"])


def _complete_keypoints(result: Annotation) -> None:
    x, y = (np.array(result["keypoints"][start::3]) for start in (0, 1))
    width, height = x.max() - x.min(), y.max() - y.min()
    result |= {"area": width * height, "bbox": [x.min(), y.min(), width, height]}


def rle_of(annotation: Annotation, image: Annotation) -> dict[str, Any]:
    """Return the mask of an annotation as a compressed run-length code."""
    shape = annotation["segmentation"]
    if isinstance(shape, dict) and not isinstance(shape["counts"], list):
        return dict(shape)
    codes: Any = mask.frPyObjects(shape, image["height"], image["width"])
    return mask.merge(codes) if isinstance(codes, list) else dict(codes)


def mask_of(annotation: Annotation, image: Annotation) -> Array:
    """Return the mask of an annotation, (H, W) uint8 of 0 and 1."""
    return mask.decode(rle_of(annotation, image))


def as_list(ids: Any) -> list[Any]:
    """Return ids as a list; a single id, which may be text, as a list of one."""
    return list(ids) if hasattr(ids, "__iter__") and hasattr(ids, "__len__") and not isinstance(ids, str) else [ids]
