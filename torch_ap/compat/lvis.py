"""Data sets of LVIS with the interface of the package ``lvis``."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from torch_ap.compat import data_sets
from torch_ap.compat.data_sets import Annotation
from torch_ap.core.base import checks
from torch_ap.core.base.collection import without_collection
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking.order import Array

__all__ = ["LVIS", "LVISResults"]

Source = str | Path | Mapping[str, Any]


class LVIS:
    """A data set in LVIS's format, with an index by image and category.

    Same names and arguments as ``lvis.LVIS``, with these differences: annotations can be a dict in memory, and an
    invalid entry raises ValueError with its place. ``download`` does not exist.

    Args:
        annotation_path: path of a JSON file, plain or gzip, or its content as a dict.

    Attributes:
        dataset: the content of the file.
        anns: the annotations by id.
        imgs: the images by id.
        cats: the categories by id.
        img_ann_map: the annotations of each image id.
        cat_img_map: the image ids of each category id, one per annotation.

    Raises:
        ValueError: for a file that is not such JSON, an entry without an id, or a repeated id.

    Example:
        >>> from torch_ap.compat import LVIS
        >>> box = {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "area": 900}
        >>> image = {"id": 7, "neg_category_ids": [], "not_exhaustive_category_ids": []}
        >>> category = {"id": 3, "name": "cat", "frequency": "f"}
        >>> LVIS({"images": [image], "categories": [category], "annotations": [box]}).get_ann_ids(img_ids=[7])
        [1]
    """

    def __init__(self, annotation_path: Source) -> None:
        self.logger = logging.getLogger(__name__)
        self.dataset, self._name = data_sets.load(annotation_path)
        self.list_name = f"{self._name}: annotations"  # in messages about annotations
        self._create_index()

    def _create_index(self) -> None:
        index = data_sets.index_of(self.dataset, self._name, self.list_name)
        self.imgs, self.anns, self.cats, self.img_ann_map, self.cat_img_map = index

    def get_ann_ids(
        self,
        img_ids: Sequence[Any] | None = None,
        cat_ids: Sequence[Any] | None = None,
        area_rng: Sequence[float] | None = None,
    ) -> list[Any]:
        """Return the ids of annotations that satisfy all conditions; None is no condition.

        Args:
            img_ids: ids of images; the result is in their order.
            cat_ids: ids of categories. With these, annotations need an area above 0, as in lvis.
            area_rng: lowest and highest area, both exclusive.
        """
        images = None if img_ids is None else [self.img_ann_map.get(image, []) for image in img_ids]
        annotations = self.dataset["annotations"] if images is None else [x for listed in images for x in listed]
        if cat_ids is None and area_rng is None:
            return [x["id"] for x in annotations]
        low, high = (0, float("inf")) if area_rng is None else area_rng
        categories = self.cats if cat_ids is None else set(cat_ids)
        return [x["id"] for x in annotations if x["category_id"] in categories and low < x["area"] < high]

    def get_cat_ids(self) -> list[Any]:
        """Return the ids of all categories."""
        return list(self.cats)

    def get_img_ids(self) -> list[Any]:
        """Return the ids of all images."""
        return list(self.imgs)

    def load_anns(self, ids: Sequence[Any] | None = None) -> list[Annotation]:
        """Return the annotations with these ids; all for None."""
        return _load(self.anns, ids)

    def load_cats(self, ids: Sequence[Any] | None) -> list[Annotation]:
        """Return the categories with these ids; all for None."""
        return _load(self.cats, ids)

    def load_imgs(self, ids: Sequence[Any] | None) -> list[Annotation]:
        """Return the images with these ids; all for None."""
        return _load(self.imgs, ids)

    def ann_to_rle(self, ann: Annotation) -> dict[str, Any]:
        """Return the mask of an annotation as a run-length code."""
        return data_sets.rle_of(ann, self.imgs[ann["image_id"]])

    def ann_to_mask(self, ann: Annotation) -> Array:
        """Return the mask of an annotation, (H, W) uint8 of 0 and 1."""
        return data_sets.mask_of(ann, self.imgs[ann["image_id"]])


def _load(index: dict[Any, Annotation], ids: Sequence[Any] | None) -> list[Annotation]:
    """Return the entries with these ids; all for None."""
    return list(index.values()) if ids is None else [index[x] for x in ids]


class LVISResults(LVIS):
    """Results of a detector on a data set of LVIS.

    Same names and arguments as ``lvis.LVISResults``; results are copied before keys are added to them.

    Args:
        lvis_gt: the data set: :class:`LVIS`, ``lvis.LVIS``, a path or a dict.
        results: path of a JSON list of detections, or the list.
        max_dets: limit on the detections of an image, over all categories; a negative number for no limit.

    Raises:
        ValueError: for results that are not a list of objects, that lack a key, or whose image is unknown.

    Example:
        >>> from torch_ap.compat import LVISResults
        >>> image = {"id": 7, "neg_category_ids": [], "not_exhaustive_category_ids": []}
        >>> truth = {"images": [image], "categories": [{"id": 3, "name": "cat", "frequency": "f"}], "annotations": []}
        >>> boxes = [{"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "score": score} for score in (0.2, 0.7)]
        >>> LVISResults(truth, boxes, max_dets=1).anns[1]["score"]
        0.7
    """

    def __init__(self, lvis_gt: Any, results: Any, max_dets: int = 300) -> None:
        self.logger = logging.getLogger(__name__)
        truth = LVIS(lvis_gt) if isinstance(lvis_gt, str | Path | Mapping) else lvis_gt
        if not hasattr(truth, "img_ann_map"):
            raise_invalid("lvis_gt", "must be a data set of LVIS, a path or a dict", lvis_gt)
        checks.integer("max_dets", max_dets)
        with without_collection():
            listed, self._name = data_sets.list_of_results(results)
            self.list_name = self._name
            data_sets.check_images(listed, self._name, truth.imgs)
            if max_dets >= 0:
                listed = self.limit_dets_per_image(listed, max_dets)
            data_sets.complete(listed, self._name)
            self.dataset = {**truth.dataset, "annotations": listed}
            self._create_index()

    def limit_dets_per_image(self, anns: Sequence[Annotation], max_dets: int) -> list[Annotation]:
        """Return the best ``max_dets`` results of each image, image after image; ties in the order of the list."""
        by_image: dict[Any, list[Annotation]] = defaultdict(list)
        for place, result in enumerate(anns):
            if result.get("score") != result.get("score"):  # NaN has no rank
                raise ValueError(f"{self._name}[{place}]: 'score' must be a finite number, got nan")
            by_image[result["image_id"]].append(result)
        for image, listed in by_image.items():
            if len(listed) > max_dets:
                by_image[image] = sorted(listed, key=itemgetter("score"), reverse=True)[:max_dets]
        return [result for listed in by_image.values() for result in listed]

    def get_top_results(self, img_id: Any, score_thrs: float) -> list[Annotation]:
        """Return the results of an image with a score above ``score_thrs``."""
        return [x for x in self.load_anns(self.get_ann_ids(img_ids=[img_id])) if x["score"] > score_thrs]
