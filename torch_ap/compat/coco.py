"""Data sets of detection with the interface of ``pycocotools.coco.COCO``."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torch_ap.compat import mask
from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.core.ranking.order import Array
from torch_ap.detection.files import entries

__all__ = ["COCO"]

Annotation = dict[str, Any]
_LISTS = ("images", "annotations", "categories")


class COCO:
    """A data set in COCO's format, with an index by image and category.

    Same names and arguments as ``pycocotools.coco.COCO``, with these differences: annotations can be a dict in memory,
    nothing is printed, results are copied before keys are added to them, and an invalid entry raises ValueError with
    its place. ``download`` and ``showAnns`` do not exist.

    Args:
        annotation_file: path of a JSON file, plain or gzip, or its content as a dict; None for an empty data set.

    Attributes:
        dataset: the content of the file.
        anns: the annotations by id.
        imgs: the images by id.
        cats: the categories by id.
        imgToAnns: the annotations of each image id.
        catToImgs: the image ids of each category id, one per annotation.

    Raises:
        ValueError: for a file that is not such JSON, an entry without an id, or a repeated id.

    Example:
        >>> from torch_ap.compat import COCO
        >>> box = {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}
        >>> truth = COCO({"images": [{"id": 7}], "categories": [{"id": 3, "name": "cat"}], "annotations": [box]})
        >>> results = truth.loadRes([{"image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "score": 0.5}])
        >>> results.getAnnIds(imgIds=7)
        [1]
    """

    _name = "dataset"  # in messages

    def __init__(self, annotation_file: str | Path | Mapping[str, Any] | None = None) -> None:
        self.dataset: dict[str, Any] = {}
        self.createIndex()
        if annotation_file is not None:
            self._name = "annotations"
            content: Any = annotation_file
            if not isinstance(annotation_file, Mapping):
                self._name, content = str(annotation_file), entries.load(annotation_file)
            if not isinstance(content, Mapping):
                raise ValueError(f"{self._name}: must be a JSON object, got {short_repr(content)}")
            self.dataset = dict(content)
            self.createIndex()

    def createIndex(self) -> None:
        """Build ``anns``, ``imgs``, ``cats``, ``imgToAnns`` and ``catToImgs`` from ``dataset``."""
        images, annotations, categories = (self.dataset.get(key, []) for key in _LISTS)
        self.imgs, self.anns, self.cats = map(self._by_id, _LISTS, (images, annotations, categories))
        self.imgToAnns: dict[Any, list[Annotation]] = defaultdict(list)
        self.catToImgs: dict[Any, list[Any]] = defaultdict(list)
        for place, annotation in enumerate(annotations):
            for key in ("image_id", "category_id") if categories else ("image_id",):
                if key not in annotation:
                    raise ValueError(f"{self._name}: annotations[{place}]: must have the key '{key}'")
            self.imgToAnns[annotation["image_id"]].append(annotation)
            if categories:
                self.catToImgs[annotation["category_id"]].append(annotation["image_id"])

    def _by_id(self, name: str, listed: Sequence[Annotation]) -> dict[Any, Annotation]:
        """Return the entries of a list by id."""
        index: dict[Any, Annotation] = {}
        for place, entry in enumerate(listed):
            where = f"{self._name}: {name}[{place}]"
            if not isinstance(entry, Mapping) or "id" not in entry:
                raise ValueError(f"{where}: must be an object with the key 'id', got {short_repr(entry)}")
            if entry["id"] in index:
                raise ValueError(f"{where}: 'id' must be given once, got {short_repr(entry['id'])} again")
            index[entry["id"]] = entry
        return index

    def info(self) -> None:
        """Print the key "info" of the data set."""
        for key, value in self.dataset.get("info", {}).items():
            print(f"{key}: {value}")

    def getAnnIds(
        self, imgIds: Any = (), catIds: Any = (), areaRng: Sequence[float] = (), iscrowd: bool | None = None
    ) -> list[Any]:
        """Return the ids of annotations that satisfy all conditions; an empty argument is no condition.

        Args:
            imgIds: ids of images; the result is in their order.
            catIds: ids of categories.
            areaRng: lowest and highest area, both exclusive.
            iscrowd: value of ``iscrowd``.
        """
        images, categories = _as_list(imgIds), set(_as_list(catIds))
        selected: Iterable[Annotation] = self.dataset.get("annotations", [])
        if images:
            selected = itertools.chain.from_iterable(self.imgToAnns[x] for x in images if x in self.imgToAnns)
        return [
            x["id"]
            for x in selected
            if (not categories or x["category_id"] in categories)
            and (len(areaRng) == 0 or areaRng[0] < x["area"] < areaRng[1])
            and (iscrowd is None or x["iscrowd"] == iscrowd)
        ]

    def getCatIds(self, catNms: Any = (), supNms: Any = (), catIds: Any = ()) -> list[Any]:
        """Return the ids of categories with one of the names, supercategories and ids; empty arguments match all."""
        conditions = {"name": _as_list(catNms), "supercategory": _as_list(supNms), "id": _as_list(catIds)}
        return [
            x["id"]
            for x in self.dataset.get("categories", [])
            if all(not allowed or x[key] in allowed for key, allowed in conditions.items())
        ]

    def getImgIds(self, imgIds: Any = (), catIds: Any = ()) -> list[Any]:
        """Return the ids of images that contain all categories; empty arguments match all."""
        images, categories = _as_list(imgIds), _as_list(catIds)
        if not images and not categories:
            return list(self.imgs)
        return list(set(images or self.imgs).intersection(*(self.catToImgs[x] for x in categories)))

    def loadAnns(self, ids: Any = ()) -> list[Annotation]:
        """Return the annotations with these ids."""
        return [self.anns[x] for x in _as_list(ids)]

    def loadCats(self, ids: Any = ()) -> list[Annotation]:
        """Return the categories with these ids."""
        return [self.cats[x] for x in _as_list(ids)]

    def loadImgs(self, ids: Any = ()) -> list[Annotation]:
        """Return the images with these ids."""
        return [self.imgs[x] for x in _as_list(ids)]

    def loadRes(self, resFile: str | Path | Array | Sequence[Annotation]) -> "COCO":
        """Return the results of a detector on the images of this data set.

        Args:
            resFile: path of a JSON list, the list itself, or an (N, 7) array of image id, x, y, width, height, score
                and category id. The kind of shapes is that of the first result: ``bbox``, ``segmentation`` as
                run-length codes, or ``keypoints``.

        Returns:
            A data set with the images and categories of this one. Its annotations are copies of the results with
            ``id``, counted from 1, ``area``, ``bbox``, and ``iscrowd`` 0.

        Raises:
            ValueError: for results that are not a list of objects, that lack a key, or whose image is unknown.
        """
        name, results = "results", resFile
        if isinstance(resFile, str | Path):
            name, results = str(resFile), entries.load(resFile)
        if isinstance(results, np.ndarray):
            results = self.loadNumpyAnnotations(results)
        if not isinstance(results, list | tuple):
            raise ValueError(f"{name}: must be a list of detections, got {short_repr(results)}")
        out = COCO()
        out._name = name
        out.dataset = {key: self.dataset[key] for key in ("info", *_LISTS) if key in self.dataset}
        out.dataset["annotations"] = [dict(x) for x in results]
        complete = _completion_of(out.dataset["annotations"][0]) if results else None
        for place, result in enumerate(out.dataset["annotations"]):
            try:
                if result["image_id"] not in self.imgs:
                    unknown = short_repr(result["image_id"])
                    raise ValueError(f"{name}[{place}]: unknown image_id {unknown}")
                if complete is not None:
                    complete(result)
            except KeyError as key:
                raise ValueError(f"{name}[{place}]: must have the key {key}, got {short_repr(list(result))}") from None
            result |= {"id": place + 1, "iscrowd": 0}
        out.createIndex()
        return out

    def loadNumpyAnnotations(self, data: Array) -> list[Annotation]:
        """Return an (N, 7) array of image id, x, y, width, height, score and category id as a list of results."""
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 7:
            raise_invalid("data", "must be an array of shape (N, 7)", getattr(data, "shape", data))
        return [{"image_id": int(x[0]), "bbox": x[1:5], "score": x[5], "category_id": int(x[6])} for x in data.tolist()]

    def annToRLE(self, ann: Annotation) -> dict[str, Any]:
        """Return the mask of an annotation as a compressed run-length code."""
        shape, image = ann["segmentation"], self.imgs[ann["image_id"]]
        if isinstance(shape, dict) and not isinstance(shape["counts"], list):
            return dict(shape)
        codes: Any = mask.frPyObjects(shape, image["height"], image["width"])
        return mask.merge(codes) if isinstance(codes, list) else dict(codes)

    def annToMask(self, ann: Annotation) -> Array:
        """Return the mask of an annotation, (H, W) uint8 of 0 and 1."""
        return mask.decode(self.annToRLE(ann))


def _as_list(ids: Any) -> list[Any]:
    """Return ids as a list; a single id, which may be text, as a list of one."""
    return list(ids) if hasattr(ids, "__iter__") and hasattr(ids, "__len__") and not isinstance(ids, str) else [ids]


def _completion_of(first: Annotation) -> Any:
    """Return the function that adds ``area`` and ``bbox`` to a result, from the keys of the first one."""
    if first.get("bbox", []) != []:
        return _complete_box
    if "segmentation" in first:
        return _complete_mask
    return _complete_keypoints if "keypoints" in first else None


def _complete_box(result: Annotation) -> None:
    x, y, width, height = result["bbox"]
    result.setdefault("segmentation", [[x, y, x, y + height, x + width, y + height, x + width, y]])
    result["area"] = width * height


def _complete_mask(result: Annotation) -> None:
    result["area"] = mask.area(result["segmentation"])
    if "bbox" not in result:
        result["bbox"] = mask.toBbox(result["segmentation"])


def _complete_keypoints(result: Annotation) -> None:
    x, y = (np.array(result["keypoints"][start::3]) for start in (0, 1))
    width, height = x.max() - x.min(), y.max() - y.min()
    result |= {"area": width * height, "bbox": [x.min(), y.min(), width, height]}
