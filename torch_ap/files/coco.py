"""COCO's JSON files, annotations and results, as input of the detection metrics."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.detection.door import Images
from torch_ap.files import text

Entry: TypeAlias = Mapping[str, Any]
Value = TypeVar("Value")


@dataclass(frozen=True)
class CocoData:
    """A data set and the detections in it.

    Attributes:
        preds: of ``MeanAveragePrecision.update``: packed for boxes, a list of dicts for masks. Boxes are xywh, float64.
        target: likewise.
        images: the ids of the B images, ascending, in the order of ``preds`` and ``target``.
        class_names: name of each category id. Labels are category ids.
        sizes: (B, 2) float64, width and height of each image; NaN where the file does not say.
    """

    preds: Images
    target: Images
    images: list[int]
    class_names: dict[int, str]
    sizes: Tensor | None = None


def read_coco(annotations: str | Path, results: str | Path, iou_type: str = "bbox") -> CocoData:
    """Read COCO annotations and the results of a detector on them.

    Args:
        annotations: JSON with ``images``, ``annotations`` and ``categories``.
        results: JSON list of detections: ``image_id``, ``category_id``, ``score``, and ``bbox`` or ``segmentation``.
        iou_type: "bbox", or "segm" for masks. Polygons need pycocotools (extra: ``detection``).

    Raises:
        ValueError: for a file that is no such JSON, a missing key, an unknown image or category, an image or category
            id given twice, a ``bbox`` that is not four finite numbers, or among annotations one of negative size; the
            message names file and entry.
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
    if iou_type not in ("bbox", "segm"):
        raise ValueError(f"`iou_type` must be one of 'bbox', 'segm', got {iou_type!r}")
    truth = _load(annotations)
    if not isinstance(truth, dict) or not all(isinstance(truth.get(key), list) for key in _PARTS):
        raise ValueError(f"{annotations}: must be a JSON object with the lists {', '.join(map(repr, _PARTS))}")
    found = _load(results)
    if not isinstance(found, list):
        raise ValueError(f"{results}: must be a JSON list of detections, got {type(found).__name__}")
    categories = _Entries(truth["categories"], f"{annotations}: categories")
    images = _Entries(truth["images"], f"{annotations}: images")
    class_names = dict(zip(categories.unique("id"), categories.each("name", str), strict=True))
    sizes = dict(zip(images.unique("id"), images.entries, strict=True))
    ids = sorted(sizes)
    truths = _Entries(truth["annotations"], f"{annotations}: annotations").by_image(ids, class_names)
    detections = _Entries(found, str(results)).by_image(ids, class_names)
    target = truths.columns() | {
        "iscrowd": torch.tensor(truths.each("iscrowd", int, 0), dtype=torch.uint8),
        "area": truths.numbers("area", 0.0),
    }
    preds = detections.columns() | {"scores": detections.numbers("score")}
    if iou_type == "bbox":
        preds["boxes"], target["boxes"] = detections.boxes(_box), truths.boxes(_true_box)
        return CocoData(preds, target, ids, class_names, _extents(sizes[image] for image in ids))
    return CocoData(_with_masks(preds, detections, sizes), _with_masks(target, truths, sizes), ids, class_names)


_PARTS = ("images", "annotations", "categories")


def _load(path: str | Path) -> Any:
    content = text.read(path)
    try:
        return json.loads(content)
    except ValueError as reason:
        raise ValueError(f"{path}: must be JSON: {reason}") from None


@dataclass
class _Entries:
    """Entries of one list of a file; ``places`` are their places in it, for messages."""

    entries: list[Entry]
    where: str
    places: Iterable[int] = ()
    counts: Tensor | None = None

    def __post_init__(self) -> None:
        self.places = list(self.places) or list(range(len(self.entries)))
        for place, entry in zip(self.places, self.entries, strict=True):
            if not isinstance(entry, dict):
                raise ValueError(f"{self.where}[{place}]: must be an object, got {type(entry).__name__}")

    def each(self, key: str, read: Callable[[Any], Value], default: Any = None) -> list[Value]:
        """One key of every entry."""
        try:
            if default is not None:
                return [read(entry.get(key, default)) for entry in self.entries]
            return [read(entry[key]) for entry in self.entries]
        except (KeyError, TypeError, ValueError, OverflowError):
            self._explain(key, read)
            raise

    def _explain(self, key: str, read: Callable[[Any], Any]) -> None:
        """Find the entry that cannot be read."""
        for place, entry in zip(self.places, self.entries, strict=True):
            if key not in entry:
                raise ValueError(f"{self.where}[{place}]: must have the key '{key}', got {sorted(entry)}") from None
            try:
                read(entry[key])
            except (KeyError, TypeError, ValueError, OverflowError) as reason:
                raise ValueError(f"{self.where}[{place}]: '{key}': {reason}") from None

    def unique(self, key: str) -> list[int]:
        """One key of every entry, each value once."""
        values = self.each(key, _integer)
        seen: set[int] = set()
        for place, value in zip(self.places, values, strict=True):
            if value in seen:
                raise ValueError(f"{self.where}[{place}]: '{key}' must be given once, got {value} again")
            seen.add(value)
        return values

    def by_image(self, images: list[int], categories: Mapping[int, str]) -> "_Entries":
        """The entries in order of image, then of the file."""
        known = {image: place for place, image in enumerate(images)}
        image, category = self.each("image_id", _integer), self.each("category_id", _integer)
        for key, values, allowed in (("image_id", image, known), ("category_id", category, categories)):
            for place, value in zip(self.places, values, strict=True):
                if value not in allowed:
                    raise ValueError(f"{self.where}[{place}]: unknown {key} {value}")
        row = np.array([known[value] for value in image], np.int64)
        order = np.argsort(row, kind="stable").tolist()
        counts = torch.from_numpy(np.bincount(row, minlength=len(images)).astype(np.int64))
        return _Entries([self.entries[place] for place in order], self.where, order, counts)

    def columns(self) -> dict[str, Any]:
        """Labels and entries an image."""
        return {"labels": torch.tensor(self.each("category_id", int), dtype=torch.int64), "counts": self.counts}

    def numbers(self, key: str, default: float | None = None) -> Tensor:
        """One key of every entry, float64."""
        return torch.tensor(self.each(key, float, default), dtype=torch.float64)

    def boxes(self, read: Callable[[Any], list[float]]) -> Tensor:
        """(N, 4) float64."""
        return torch.tensor(self.each("bbox", read), dtype=torch.float64).reshape(-1, 4)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be an integer, got {value!r}")
    return value


def _extents(images: Iterable[Entry]) -> Tensor:
    """(B, 2) float64 width and height of images; NaN for what is no positive number."""
    pairs = [[image.get(key) for key in ("width", "height")] for image in images]
    known = [[float(x) if isinstance(x, int | float) and 0 < x < 1e9 else math.nan for x in pair] for pair in pairs]
    return torch.tensor(known, dtype=torch.float64).reshape(-1, 2)


def _box(value: Any) -> list[float]:
    if not isinstance(value, list) or len(value) != 4:
        raise ValueError(f"must hold x, y, width and height, got {value!r}")
    box = [float(x) for x in value]
    if not all(map(math.isfinite, box)):
        raise ValueError(f"must hold finite numbers, got {value!r}")
    return box


def _true_box(value: Any) -> list[float]:
    box = _box(value)
    if min(box[2:]) < 0:
        raise ValueError(f"must hold a width and a height of at least 0, got {value!r}")
    return box


def _with_masks(columns: dict[str, Any], entries: _Entries, sizes: Mapping[int, Entry]) -> list[dict[str, Any]]:
    """Packed columns as a list of dicts, with the run-length codes of the entries' masks."""
    codes = [
        _code(entry, sizes[entry["image_id"]], f"{entries.where}[{place}]")
        for place, entry in zip(entries.places, entries.entries, strict=True)
    ]
    counts = columns.pop("counts").tolist()
    parts = {key: torch.split(column, counts) for key, column in columns.items()}
    ends = np.cumsum(counts).tolist()
    return [
        {key: part[image] for key, part in parts.items()} | {"masks": codes[end - count : end]}
        for image, (count, end) in enumerate(zip(counts, ends, strict=True))
    ]


def _code(entry: Entry, image: Entry, where: str) -> Entry:
    """The run-length code of one mask."""
    shape = entry.get("segmentation")
    if isinstance(shape, Mapping) and {"size", "counts"} <= set(shape):
        return shape
    if not isinstance(shape, list) or not shape:
        raise ValueError(f"{where}: must have 'segmentation', polygons or a run-length code, got {shape!r}")
    if not {"height", "width"} <= set(image):
        raise ValueError(f"{where}: its image {image['id']} must have 'height' and 'width', since the mask is polygons")
    try:
        from pycocotools import mask
    except ModuleNotFoundError:
        raise ModuleNotFoundError("polygons need pycocotools: pip install torch-ap[detection]") from None
    merged: Entry = mask.merge(mask.frPyObjects(shape, image["height"], image["width"]))
    return merged
