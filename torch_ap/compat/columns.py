"""Annotations and results in memory as columns. The keys of all entries are read in one step.

Entries may contain numbers and arrays of NumPy and tensors, as in training code. If a column cannot be read in one
step, its entries are read one after the other, and an invalid entry raises ValueError with its place.
"""

import itertools
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from torch_ap.detection.files.lvis import with_lists
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.rules.coco import distinct_labels
from torch_ap.detection.rules.coco_numbers import CocoSettings
from torch_ap.detection.shapes import boxes as upright

__all__ = ["Selection", "columns_of"]

Annotation = dict[str, Any]
_BLOCK = 4096  # entries that stay in the cache of the processor while all their keys are read
_DETECTED_BOX = Field(FIELDS["bbox"].rules[:-1], (-np.inf,) * 4, hint=FIELDS["bbox"].hint)  # may have a negative size


class Selection:
    """The annotations or results of selected images and categories, by image in the given order.

    Args:
        entries: the entries of each image.
        categories: ids of the selected categories.
        where: name of the list in messages.
        listed: all entries of the data set, for the places in messages.
        kind: "bbox", "segm", "boundary" or "keypoints".
        flag: key of ground truths to ignore; None for detections, which have scores.
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
        kind: str,
        flag: str | None,
        by_category: bool,
    ) -> None:
        per_image = list(entries)
        self.where, self._listed, self.flag = where, listed, flag
        self.counts = np.fromiter(map(len, per_image), np.int64, len(per_image))
        widths = {"category_id": 1, "area": 1, flag or "score": 1}
        if kind == "bbox" or (kind == "keypoints" and flag):
            widths["bbox"] = 4
        self.entries, self._columns = _read(per_image, widths)
        self.labels = self._indices_into(categories)
        self.left_out: list[Annotation] = []
        rows = None
        if (self.labels < 0).any():
            self.left_out = list(itertools.compress(self.entries, self.labels < 0))
            rows = np.flatnonzero(self.labels >= 0)
        if by_category:
            rows = np.arange(len(self.entries)) if rows is None else rows
            image = np.repeat(np.arange(len(per_image)), self.counts)[rows]
            rows = rows[np.lexsort((self.labels[rows], image))]
        if rows is not None:
            image = np.repeat(np.arange(len(per_image)), self.counts)[rows]
            self.counts = np.bincount(image, minlength=len(per_image)).astype(np.int64)
            self.entries, self.labels = [self.entries[row] for row in rows.tolist()], self.labels[rows]
            self._columns = {key: column[rows] for key, column in self._columns.items()}

    def _indices_into(self, categories: Sequence[Any]) -> Array:
        """Return the index of the category of each entry into ``categories``, -1 for others."""
        index = {category: number for number, category in enumerate(categories)}
        ids = self._columns.pop("category_id", np.full((1, 1), np.nan))[:, 0]
        with np.errstate(invalid="ignore"):  # of NaN
            whole = ids.astype(np.int64)
        if np.array_equal(whole, ids) and max(whole.max(initial=0), -whole.min(initial=0)) < literals.LARGEST_EXACT:
            distinct, places = distinct_labels(torch.from_numpy(whole))
            indices = np.array([index.get(category, -1) for category in distinct.tolist()], np.int64)
            labels: Array = indices[places.numpy()]
            return labels
        try:
            values = map(itemgetter("category_id"), self.entries)
            return np.fromiter(map(index.get, values, itertools.repeat(-1)), np.int64, len(self.entries))
        except KeyError:
            self.plain_entries("category_id").values("category_id", Field([]))  # which raises
            raise

    @cached_property
    def ids(self) -> Array:
        """The (N,) ids of the entries, which pycocotools and lvis store in arrays of numbers.

        Raises:
            ValueError: for an id that is no number.
        """
        ids = np.array([entry["id"] for entry in self.entries])
        if ids.dtype.kind not in "iuf":
            self.plain_entries("id").values("id", Field([entries.INTEGER]))
        return ids

    def name(self, entry: Annotation) -> str:
        """Return the name of an entry in messages."""
        place = next((place for place, other in enumerate(self._listed) if other is entry), None)
        return f"{self.where}[{entry.get('id') if place is None else place}]"

    def plain_entries(self, *keys: str) -> Entries:
        """Return the entries and their places; the values of the keys have Python's types, as in a JSON file."""
        places = {id(entry): place for place, entry in enumerate(self._listed)}
        plain: list[Any] = [x | {key: entries.plain_value(x[key]) for key in keys if key in x} for x in self.entries]
        return Entries(plain, self.where, [places.get(id(x), row) for row, x in enumerate(self.entries)])

    def numbers(self, key: str, field: Field | None = None) -> Tensor:
        """Return the finite number of a key in each entry, (N,) float64, or (N, W) for W numbers.

        Raises:
            ValueError: for the first entry that lacks the key or breaks the rule of the field.
        """
        field = FIELDS[key] if field is None else field
        if (column := self._columns.get(key)) is not None:
            low, high = (column.min(), column.max()) if column.size else (0.0, 0.0)  # both NaN with a NaN
            is_valid = low > -literals.LARGEST_EXACT and high < literals.LARGEST_EXACT
            if is_valid and (max(field.least) == -np.inf or (column >= field.least).all()):
                return torch.from_numpy(column if len(field.least) > 1 else column[:, 0])
        return self.plain_entries(key).numbers(key, field)

    def flags(self, key: str) -> Tensor:
        """Return the flag of a key in each entry, 0 without the key: (N,) uint8."""
        if (column := self._columns.get(key)) is not None and ((column == 0) | (column == 1)).all():
            return torch.from_numpy(column[:, 0].astype(np.uint8))
        if not any(key in entry for entry in self.entries):
            return torch.zeros(len(self.entries), dtype=torch.uint8)
        return torch.tensor(self.plain_entries(key).values(key), dtype=torch.uint8)

    def areas_unlike_boxes(self, boxes: Tensor) -> Columns:
        """Return the column of the areas in the entries, unless they are the areas of the boxes, or all are missing.

        Args:
            boxes: (N, 4) boxes of the entries, as x, y, width, height.
        """
        of_boxes = upright.area(boxes)
        if "area" in self._columns and np.array_equal(self._columns["area"][:, 0], of_boxes.numpy()):
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


def _read(
    per_image: list[Sequence[Annotation]], widths: Mapping[str, int]
) -> tuple[list[Annotation], dict[str, Array]]:
    """Return the N entries of all images, and the numbers of keys, (N, W) float64 each.

    A key is left out if an entry lacks it, or has another value than W numbers.

    Args:
        per_image: the entries of each image.
        widths: the count W of the numbers of each key.
    """
    count = sum(map(len, per_image))
    entries: list[Annotation] = []
    out = {key: np.empty((count, width)) for key, width in widths.items()}
    step = max(1, _BLOCK * len(per_image) // max(count, 1))
    for first in range(0, len(per_image), step):
        block = list(itertools.chain.from_iterable(per_image[first : first + step]))
        start = len(entries)
        entries += block
        for key, column in [*out.items()]:
            values, width = map(itemgetter(key), block), widths[key]
            try:  # struct rejects text, None and another number of values
                if width > 1:
                    rows = b"".join(itertools.starmap(struct.Struct(f"{width}d").pack, values))
                    column[start : start + len(block)] = np.frombuffer(rows).reshape(-1, width)
                else:
                    struct.pack_into(f"{len(block)}d", column.data, start * column.itemsize, *values)
            except (KeyError, TypeError, OverflowError, struct.error):
                del out[key]
    return entries, out


def columns_of(
    settings: CocoSettings,
    kind: str,
    truths: Selection,
    detections: Selection,
    images: Sequence[Annotation],
    *,
    lists: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> Columns:
    """Return ground truths and detections as the columns of the metrics.

    Args:
        settings: the settings of the evaluation.
        kind: "bbox", "segm", "boundary" or "keypoints".
        truths: the ground truths.
        detections: the detections.
        images: the images, in the order of both; may be empty for boxes and keypoints.
        lists: the labels in the lists of each image, by the name of the list.

    Raises:
        ValueError: for an invalid entry, with its place.
    """
    sides: list[Any] = []
    for side in (detections, truths):
        columns: Any = {"labels": torch.from_numpy(side.labels), "counts": torch.from_numpy(side.counts)}
        if kind != "bbox" or side.flag:
            columns["area"] = side.numbers("area")
        columns |= {side.flag: side.flags(side.flag)} if side.flag else {"scores": side.numbers("score")}
        if kind == "keypoints":
            columns["keypoints"] = _keypoints(side)
        if kind == "bbox" or (kind == "keypoints" and side.flag):
            columns["boxes"] = side.numbers("bbox", None if side.flag else _DETECTED_BOX)
        if kind in ("segm", "boundary"):
            listed = side.plain_entries("segmentation", "image_id")
            known = Entries.from_list([dict(image) for image in images], "images")
            columns = coco.with_masks(columns, entries.decode(listed, columns["counts"], known))
        sides.append(columns)
    return settings.inputs.validate(sides[0], with_lists(sides[1], lists or {}), copy=False)[0]


def _keypoints(side: Selection) -> Tensor:
    """Return (N, K, 3) keypoints; ``num_keypoints`` of ground truths must fit the labels."""
    listed = side.plain_entries("keypoints", "num_keypoints")
    return coco.true_keypoints(listed) if side.flag else listed.keypoints(entries.POINTS)
