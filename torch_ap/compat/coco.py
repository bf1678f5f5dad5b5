"""Data sets of detection with the interface of ``pycocotools.coco.COCO``."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torch_ap.compat import data_sets
from torch_ap.compat.data_sets import Annotation, as_list
from torch_ap.core.base.collection import without_collection
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking.order import Array

__all__ = ["COCO"]


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
        if annotation_file is not None:
            self.dataset, self._name = data_sets.load(annotation_file)
        self.list_name = f"{self._name}: annotations"  # in messages about annotations
        self.createIndex()

    def createIndex(self) -> None:
        """Build ``anns``, ``imgs``, ``cats``, ``imgToAnns`` and ``catToImgs`` from ``dataset``."""
        index = data_sets.index_of(self.dataset, self._name, self.list_name)
        self.imgs, self.anns, self.cats, self.imgToAnns, self.catToImgs = index

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
        images, categories = as_list(imgIds), set(as_list(catIds))
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
        conditions = {"name": as_list(catNms), "supercategory": as_list(supNms), "id": as_list(catIds)}
        return [
            x["id"]
            for x in self.dataset.get("categories", [])
            if all(not allowed or x[key] in allowed for key, allowed in conditions.items())
        ]

    def getImgIds(self, imgIds: Any = (), catIds: Any = ()) -> list[Any]:
        """Return the ids of images that contain all categories; empty arguments match all."""
        images, categories = as_list(imgIds), as_list(catIds)
        if not images and not categories:
            return list(self.imgs)
        return list(set(images or self.imgs).intersection(*(self.catToImgs[x] for x in categories)))

    def loadAnns(self, ids: Any = ()) -> list[Annotation]:
        """Return the annotations with these ids."""
        return [self.anns[x] for x in as_list(ids)]

    def loadCats(self, ids: Any = ()) -> list[Annotation]:
        """Return the categories with these ids."""
        return [self.cats[x] for x in as_list(ids)]

    def loadImgs(self, ids: Any = ()) -> list[Annotation]:
        """Return the images with these ids."""
        return [self.imgs[x] for x in as_list(ids)]

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
        rows = self.loadNumpyAnnotations(resFile) if isinstance(resFile, np.ndarray) else resFile
        out = COCO()
        with without_collection():
            results, out.list_name = data_sets.list_of_results(rows)
            data_sets.check_images(results, out.list_name, self.imgs)
            data_sets.complete(results, out.list_name)
            for result in results:
                result["iscrowd"] = 0
            out.dataset = {key: self.dataset[key] for key in ("info", *data_sets.LISTS) if key in self.dataset}
            out.dataset["annotations"] = results
            out.createIndex()
        return out

    def loadNumpyAnnotations(self, data: Array) -> list[Annotation]:
        """Return an (N, 7) array of image id, x, y, width, height, score and category id as a list of results."""
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 7:
            raise_invalid("data", "must be an array of shape (N, 7)", getattr(data, "shape", data))
        return [{"image_id": int(x[0]), "bbox": x[1:5], "score": x[5], "category_id": int(x[6])} for x in data.tolist()]

    def annToRLE(self, ann: Annotation) -> dict[str, Any]:
        """Return the mask of an annotation as a compressed run-length code."""
        return data_sets.rle_of(ann, self.imgs[ann["image_id"]])

    def annToMask(self, ann: Annotation) -> Array:
        """Return the mask of an annotation, (H, W) uint8 of 0 and 1."""
        return data_sets.mask_of(ann, self.imgs[ann["image_id"]])
