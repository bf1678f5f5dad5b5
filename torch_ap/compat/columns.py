"""Annotations and results in memory as columns. Each key is read from all entries in one step.

Entries may contain numbers and arrays of NumPy and tensors, as in training code. If a column cannot be read in one
step, its entries are read one after the other, and an invalid entry raises ValueError with its place.
"""

import itertools
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.messages import short_repr, suggest_id, warn_caller
from torch_ap.core.columns import literals
from torch_ap.core.ranking.order import Array
from torch_ap.detection.files import coco, entries
from torch_ap.detection.files.entries import FIELDS, Entries, Field
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.rules.coco_numbers import CocoSettings
from torch_ap.detection.shapes import boxes as upright

__all__ = ["Selection", "columns_of"]

Annotation = dict[str, Any]
_PLAIN = {int, float, str, bytes, dict, type(None)}
_DETECTED_BOX = Field(FIELDS["bbox"].rules[:2], (-np.inf,) * 4, hint=FIELDS["bbox"].hint)  # may have a negative size


class Selection:
    """The annotations or results of selected images and categories, by image in the given order.

    Args:
        entries: the entries of each image.
        categories: ids of the selected categories.
        where: name of the list in messages.
        listed: all entries of the data set, for the places in messages.
        by_category: whether to sort the entries of an image by category.

    Attributes:
        entries: the N selected entries.
        counts: (B,) int64, the number of entries of each image.
        labels: (N,) int64, the index of the category of each entry into ``categories``.
    """

    def __init__(
        self,
        entries: Iterable[Sequence[Annotation]],
        categories: Sequence[Any],
        where: str,
        listed: Sequence[Annotation],
        *,
        by_category: bool,
    ) -> None:
        per_image = list(entries)
        self.entries, self.where, self._listed = list(itertools.chain.from_iterable(per_image)), where, listed
        self.counts = np.fromiter(map(len, per_image), np.int64, len(per_image))
        index = {category: number for number, category in enumerate(categories)}
        try:
            ids = map(itemgetter("category_id"), self.entries)
            self.labels = np.fromiter(map(index.get, ids, itertools.repeat(-1)), np.int64, len(self.entries))
        except KeyError:
            self.plain_entries("category_id").values("category_id", Field([]))  # which raises
            raise
        self.left_out: list[Annotation] = []
        image = None
        if (self.labels < 0).any():
            kept, image = self.labels >= 0, np.repeat(np.arange(len(per_image)), self.counts)
            self.left_out = list(itertools.compress(self.entries, ~kept))
            self.entries = list(itertools.compress(self.entries, kept))
            image, self.labels = image[kept], self.labels[kept]
            self.counts = np.bincount(image, minlength=len(per_image)).astype(np.int64)
        if by_category:
            image = np.repeat(np.arange(len(per_image)), self.counts)
            order = np.lexsort((self.labels, image))
            self.entries, self.labels = [self.entries[row] for row in order.tolist()], self.labels[order]

    @cached_property
    def ids(self) -> Array:
        """The (N,) ids of the entries."""
        return np.array([entry["id"] for entry in self.entries])

    def name(self, entry: Annotation) -> str:
        """Return the name of an entry in messages."""
        place = next((place for place, other in enumerate(self._listed) if other is entry), None)
        return f"{self.where}[{entry.get('id') if place is None else place}]"

    def plain_entries(self, *keys: str) -> Entries:
        """Return the entries with the keys, and with Python's types as in a JSON file, and their places."""
        places = {id(entry): place for place, entry in enumerate(self._listed)}
        plain: list[Any] = [{key: _plain_value(x[key]) for key in x if key in keys} for x in self.entries]
        return Entries(plain, self.where, [places.get(id(x), row) for row, x in enumerate(self.entries)])

    def numbers(self, key: str, field: Field | None = None) -> Tensor:
        """Return the finite number of a key in each entry, (N,) float64, or (N, W) for W numbers.

        Raises:
            ValueError: for the first entry that lacks the key or breaks the rule of the field.
        """
        field = FIELDS[key] if field is None else field
        width, count = len(field.least), len(self.entries)
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            values = list(map(itemgetter(key), self.entries))
            if width == 1:
                out = np.frombuffer(array("d", values)) if count else np.zeros(0)  # an array rejects text and None
            else:
                out = np.fromiter(itertools.chain.from_iterable(values), np.float64, width * count)
                out = out.reshape(-1, width)
            regular = width == 1 or set(map(len, values)) <= {width}
            if regular and (np.abs(out) < literals.LARGEST_EXACT).all() and (out >= np.array(field.least)).all():
                return torch.from_numpy(out.copy() if width == 1 else out)
        return self.plain_entries(key).numbers(key, field)

    def flags(self, key: str) -> Tensor:
        """Return the flag of a key in each entry, 0 without the key: (N,) uint8."""
        values = [entry.get(key, 0) for entry in self.entries]
        if set(map(type, values)) <= {int, bool} and set(values) <= {0, 1}:
            return torch.tensor(values, dtype=torch.uint8)
        return torch.tensor(self.plain_entries(key).values(key), dtype=torch.uint8)

    def areas_unlike_boxes(self, boxes: Tensor) -> Columns:
        """Return the column of the areas in the entries, unless they are the areas of the boxes, or all are missing.

        Args:
            boxes: (N, 4) boxes of the entries, as x, y, width, height.
        """
        of_boxes = upright.area(boxes)
        with suppress(KeyError, TypeError, ValueError):  # without checks, for areas that are those of the boxes
            if np.array_equal(
                np.fromiter(map(itemgetter("area"), self.entries), np.float64, len(self.entries)), of_boxes.numpy()
            ):
                return {}
        if not any("area" in entry for entry in self.entries):
            return {}
        area = self.numbers("area", FIELDS["score"])  # any finite number, as boxes can have a negative size
        return {} if torch.equal(area, of_boxes) else {"detection_area": area}

    def warn_of_faults(
        self,
        images: Collection[Any],
        categories: Collection[Any],
        by_id: Mapping[Any, Annotation],
        by_image: Mapping[Any, Sequence[Annotation]],
    ) -> None:
        """Warn of entries that pycocotools ignores or counts wrongly without a message.

        Args:
            images: the known images.
            categories: the known categories.
            by_id: all entries of the data set by their id.
            by_image: all entries by the id of their image.
        """
        without_image = [entry for image in by_image.keys() - images for entry in by_image[image]]
        without_category = [entry for entry in self.left_out if entry["category_id"] not in categories]
        for key, unknown, known in (("image", without_image, images), ("category", without_category, categories)):
            for value in (entry[f"{key}_id"] for entry in unknown[:1]):
                hint = f"{short_repr(value)}{suggest_id(value, known)}; {len(unknown)} such entries are ignored"
                warn_caller(f"{self.name(unknown[0])}: unknown {key}_id {hint}", UserWarning)
        if 0 in by_id:
            rule = "pycocotools ignores matches with it, torch_ap counts them"
            warn_caller(f"{self.name(by_id[0])}: has the id 0; {rule}", UserWarning)


def columns_of(
    settings: CocoSettings,
    kind: str,
    truths: Selection,
    detections: Selection,
    images: Sequence[Annotation],
    *,
    flag: str = "iscrowd",
    lists: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> Columns:
    """Return ground truths and detections as the columns of the metrics.

    Args:
        settings: the settings of the evaluation.
        kind: "bbox", "segm", "boundary" or "keypoints".
        truths: the ground truths.
        detections: the detections.
        images: the images, in the order of both; may be empty for boxes and keypoints.
        flag: key of the ground truths to ignore.
        lists: the labels in the lists of each image, by the name of the list.

    Raises:
        ValueError: for an invalid entry, with its place.
    """
    sides: list[Any] = []
    for side, is_detected in ((detections, True), (truths, False)):
        columns: dict[str, Any] = {
            "labels": torch.from_numpy(side.labels),
            "counts": torch.from_numpy(side.counts),
        }
        if kind != "bbox" or not is_detected:
            columns["area"] = side.numbers("area")
        columns |= {"scores": side.numbers("score")} if is_detected else {flag: side.flags(flag)}
        if kind == "keypoints":
            columns["keypoints"] = _keypoints(side, is_detected)
        if kind == "bbox" or (kind == "keypoints" and not is_detected):
            columns["boxes"] = side.numbers("bbox", _DETECTED_BOX if is_detected else None)
        sides.append(_split(columns, side, images) if kind in ("segm", "boundary") else columns)
    for name, labels in (lists or {}).items():
        if isinstance(sides[1], dict):
            joined = list(itertools.chain.from_iterable(labels))
            sides[1] |= {name: _int64(joined), f"{name}_counts": _int64(list(map(len, labels)))}
        else:
            sides[1] = [image | {name: _int64(ids)} for image, ids in zip(sides[1], labels, strict=True)]
    return settings.inputs.validate(*sides, copy=False)[0]


def _int64(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def _keypoints(side: Selection, is_detected: bool) -> Tensor:
    """Return (N, K, 3) keypoints; ``num_keypoints`` of ground truths must fit the labels."""
    listed = side.plain_entries("keypoints", "num_keypoints")
    return listed.keypoints(entries.POINTS) if is_detected else coco.true_keypoints(listed)


def _split(columns: dict[str, Any], side: Selection, images: Sequence[Annotation]) -> list[dict[str, Any]]:
    """Return a dict of columns for each image, with its masks."""
    known = Entries.from_list([dict(image) for image in images], "images")
    masks = entries.decode(side.plain_entries("segmentation", "image_id"), columns.pop("counts"), known)
    ends = itertools.accumulate(side.counts.tolist(), initial=0)
    return [
        {key: column[start:end] for key, column in columns.items()} | {"masks": masks[image]}
        for image, (start, end) in enumerate(itertools.pairwise(ends))
    ]


def _plain_value(value: Any) -> Any:
    """Return the value of a key with Python's types, as in a JSON file."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return list(value) if _PLAIN.issuperset(map(type, value)) else [_plain_value(x) for x in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray | torch.Tensor) else value
