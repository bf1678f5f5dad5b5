"""LVIS's evaluation with the interface of ``lvis.LVISEval``."""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from torch_ap.compat.columns import Selection, columns_of
from torch_ap.compat.images import all_categories, images_of_matches
from torch_ap.compat.lvis import LVIS, LVISResults
from torch_ap.compat.params import settings_of_params
from torch_ap.compat.statistics import Statistics, time_now
from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid, short_repr, suggest_id
from torch_ap.core.ranking.order import Array
from torch_ap.detection.files.entries import Entries
from torch_ap.detection.inputs.federated import KEYS
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.metrics.lvis import LVISMeanAveragePrecision
from torch_ap.detection.rules.coco import match
from torch_ap.detection.rules.coco_numbers import CocoSettings
from torch_ap.detection.rules.lvis import lvis_settings_of

__all__ = ["LVISEval", "LVISParams"]

_KINDS = ("segm", "bbox", "boundary")
_NO_LIMIT = (1 << 31) - 1  # `LVISResults` limits the detections
_IMAGE_KEYS = {
    **{x: x for x in ("image_id", "category_id")},
    "aRng": "area_rng",
    **{f"{side}{name}": f"{side}_{name.lower()}" for side in ("dt", "gt") for name in ("Ids", "Matches")},
    "dtScores": "dt_scores",
    "gtIgnore": "gt_ignore",
    "dtIgnore": "dt_ignore",
}  # of COCO's results of an image to those of LVIS


class LVISParams:
    """Settings of an evaluation by LVIS's rules; every attribute can be replaced or changed.

    Args:
        iou_type: "segm", "bbox" or "boundary".

    Attributes:
        img_ids: ids of the evaluated images.
        cat_ids: ids of the evaluated categories.
        iou_thrs: IoU thresholds.
        rec_thrs: recall levels, ascending.
        max_dets: the limit in the names of results; ``LVISResults`` applies the limit.
        area_rng: lowest and highest area of each range, inclusive.
        area_rng_lbl: names of the area ranges.
        use_cats: whether categories are evaluated separately; 0 for all objects as one category.
        img_count_lbl: the frequencies of categories, "r", "c" and "f".
    """

    def __init__(self, iou_type: str) -> None:
        checks.one_of("iou_type", iou_type, _KINDS)
        self.img_ids: Any = []
        self.cat_ids: Any = []
        self.iou_thrs: Any = np.linspace(0.5, 0.95, 10)
        self.rec_thrs: Any = np.linspace(0.0, 1.0, 101)
        self.max_dets: Any = 300
        self.area_rng: Any = [[0, 1e5**2], [0, 32**2], [32**2, 96**2], [96**2, 1e5**2]]
        self.area_rng_lbl: Any = ["all", "small", "medium", "large"]
        self.use_cats: Any = 1
        self.img_count_lbl: Any = ["r", "c", "f"]
        self.iou_type = iou_type


class _Evaluation(dict[str, Any]):
    """The arrays of an evaluation. ``dt_pointers`` is computed when it is read, since it takes longer than the rest."""

    def __init__(self, arrays: Mapping[str, Any], pointers: Any) -> None:
        super().__init__(arrays)
        self._pointers = pointers

    def __missing__(self, key: str) -> Any:
        if key != "dt_pointers":
            raise KeyError(key)
        self[key] = self._pointers()
        return self[key]


class LVISEval(Statistics):
    """Evaluation of detections against the ground truths of LVIS.

    Same names and arguments as ``lvis.LVISEval``, and bit-equal results, with these differences: ``eval_imgs``,
    ``ious`` and ``eval["dt_pointers"]`` are computed when they are read; ``iou_type="boundary"`` exists; a ground truth
    with id 0 counts, where lvis ignores its matches; with ``use_cats = 0`` all objects count, where lvis finds none;
    invalid entries raise ValueError.

    Args:
        lvis_gt: the ground truths: :class:`torch_ap.compat.LVIS`, ``lvis.LVIS``, a path or a dict.
        lvis_dt: the detections: :class:`torch_ap.compat.LVISResults`, ``lvis.LVISResults``, a path or a list.
        iou_type: "segm", "bbox" or "boundary".

    Attributes:
        params: the settings, a :class:`LVISParams`.
        eval: after ``accumulate``: ``precision``, (T, R, K, A), and ``recall``, (T, K, A) float64, -1 for categories
            without ground truths; ``counts``, ``params``, ``date``, ``dt_pointers``.
        results: after ``summarize``: the 13 numbers by name.
        freq_groups: the indices of the rare, common and frequent categories.

    Example:
        >>> from torch_ap.compat import LVIS, LVISEval
        >>> box = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40]}
        >>> image = {"id": 7, "neg_category_ids": [], "not_exhaustive_category_ids": []}
        >>> truth = {"images": [image], "categories": [{"id": 3, "name": "cat", "frequency": "f"}]}
        >>> truth["annotations"] = [{**box, "id": 1, "area": 900}]
        >>> evaluation = LVISEval(LVIS(truth), [{**box, "score": 0.5}], "bbox")
        >>> evaluation.run()
        >>> round(evaluation.get_results()["APf"], 3)
        1.0
    """

    def __init__(self, lvis_gt: Any, lvis_dt: Any, iou_type: str = "segm") -> None:
        self.logger = logging.getLogger(__name__)
        self.params = LVISParams(iou_type)
        self.lvis_gt: Any = LVIS(lvis_gt) if isinstance(lvis_gt, str | Path | Mapping) else lvis_gt
        is_list = isinstance(lvis_dt, str | Path | list)
        self.lvis_dt: Any = LVISResults(self.lvis_gt, lvis_dt) if is_list else lvis_dt
        for name, data in (("lvis_gt", self.lvis_gt), ("lvis_dt", self.lvis_dt)):
            if not hasattr(data, "img_ann_map"):
                raise_invalid(name, "must be a data set of LVIS, a path, or its content", data)
        self.eval: dict[str, Any] = {}
        self.results: OrderedDict[str, Any] = OrderedDict()
        self.freq_groups: list[list[int]] = []
        self._numbers = None
        self._images: Any = []
        self._ious = {}
        self.params.img_ids = sorted(self.lvis_gt.get_img_ids())
        self.params.cat_ids = sorted(self.lvis_gt.get_cat_ids())

    def evaluate(self) -> None:
        """Match all detections.

        Raises:
            ValueError: for invalid parameters, and for an invalid annotation or result, with its place.
        """
        params = self.params
        checks.one_of("iou_type", params.iou_type, _KINDS)
        params.img_ids = np.unique(params.img_ids).tolist()
        if len(set(params.cat_ids)) < len(params.cat_ids):
            raise_invalid("params.cat_ids", "must contain each id once", params.cat_ids)
        for key, name, known in (
            ("img_ids", "images", self.lvis_gt.imgs),
            ("cat_ids", "categories", self.lvis_gt.cats),
        ):
            for unknown in (x for x in getattr(params, key) if x not in known):
                raise_invalid(f"params.{key}", f"must contain ids of {name}{suggest_id(unknown, known)}", unknown)
        self._paramsEval = coco_params = _coco_params(params)
        make = partial(lvis_settings_of, max_detections=_NO_LIMIT, ap_fixed=False, frequencies=None)
        settings = settings_of_params(make, coco_params, ("iou_thrs", "rec_thrs", "area_rng_lbl"))
        self.freq_groups = self._frequency_groups()
        self._columns = self._read(settings)
        self._numbers = match(settings, self._columns, params.iou_type, micro=not params.use_cats)
        self._images = self._ious = None
        self.eval = {}

    def _frequency_groups(self) -> list[list[int]]:
        """Return the indices of the categories of each frequency."""
        groups: list[list[int]] = [[] for _ in self.params.img_count_lbl]
        for place, category in enumerate(self.lvis_gt.load_cats(self.params.cat_ids)):
            if category.get("frequency") not in self.params.img_count_lbl:
                rule = f"'frequency' must be one of {self.params.img_count_lbl}"
                raise ValueError(f"category {category['id']}: {rule}, got {short_repr(category.get('frequency'))}")
            groups[self.params.img_count_lbl.index(category["frequency"])].append(place)
        return groups

    def _read(self, settings: CocoSettings) -> Columns:
        """Return the selected ground truths and detections as columns, by image."""
        params = self.params
        self._selected = truths, detections = [
            Selection(
                [data.img_ann_map.get(image, ()) for image in params.img_ids],
                params.cat_ids,
                getattr(data, "list_name", name),
                data.dataset["annotations"],
                kind=params.iou_type,
                flag=flag,
                by_category=not params.use_cats,
            )
            for data, name, flag in ((self.lvis_gt, "annotations", "ignore"), (self.lvis_dt, "results", None))
        ]
        for data, side in ((self.lvis_gt, truths), (self.lvis_dt, detections)):
            side.warn_of_faults(self.lvis_gt.imgs, self.lvis_gt.cats, data.anns, data.img_ann_map)
        images = self.lvis_gt.load_imgs(params.img_ids)
        place = {category: index for index, category in enumerate(params.cat_ids)}
        entries = Entries.from_list(images, "images")
        lists = {key: [[place[x] for x in ids if x in place] for ids in entries.values(key)] for key in KEYS}
        return columns_of(settings, params.iou_type, truths, detections, images, lists=lists)

    @property
    def eval_imgs(self) -> list[Any]:
        """The result of each category, area range and image: a dict as in lvis, None without objects."""
        if self._images is None:
            assert self._numbers is not None
            ids = (side.ids for side in self._selected)
            listed = images_of_matches(self._numbers, self._paramsEval, *ids)
            self._images = [x and {name: x[key] for key, name in _IMAGE_KEYS.items()} for x in listed]
        images: list[Any] = self._images
        return images

    def accumulate(self) -> None:
        """Compute precision and recall, and store them in ``eval``."""
        if self._numbers is None:
            raise RuntimeError("call `evaluate()` before `accumulate()`")
        arrays = all_categories(self._numbers, self._paramsEval, ("precision", "recall"))
        arrays = {name: values[..., 0] for name, values in arrays.items()}
        about = {"params": self.params, "counts": list(arrays["precision"].shape), "date": time_now()}
        self.eval = _Evaluation(about | arrays, self._pointers)

    def _pointers(self) -> dict[int, dict[int, Any]]:
        """Return the ids, true and false positives of all detections of each category and area range, by rank."""
        params, images = self.params, self.eval_imgs
        shape = len(params.cat_ids) if params.use_cats else 1, len(params.area_rng), len(params.img_ids)
        out: dict[int, dict[int, Any]] = {k: {a: {} for a in range(shape[1])} for k in range(shape[0])}
        for number in range(shape[0] * shape[1]):
            cell = [x for x in images[number * shape[2] : (number + 1) * shape[2]] if x is not None]
            if not any((x["gt_ignore"] == 0).any() for x in cell):
                continue
            order = np.argsort(-np.concatenate([x["dt_scores"] for x in cell]), kind="stable")
            matched = np.concatenate([x["dt_matches"] for x in cell], 1)[:, order] != 0
            counted = ~np.concatenate([x["dt_ignore"] for x in cell], 1)[:, order]
            out[number // shape[1]][number % shape[1]] = {
                "dt_ids": np.concatenate([x["dt_ids"] for x in cell])[order],
                "tps": matched & counted,
                "fps": ~matched & counted,
            }
        return out

    def summarize(self) -> None:
        """Compute LVIS's 13 numbers, and store them in ``results``; -1 where a number is undefined."""
        if not self.eval:
            raise RuntimeError("call `accumulate()` before `summarize()`")
        out, sizes, most = self.results, ("small", "medium", "large"), self.params.max_dets
        out["AP"], out["AP50"], out["AP75"] = (self._mean("precision", threshold=x) for x in (None, 0.5, 0.75))
        out |= {f"AP{size[0]}": self._mean("precision", area=size) for size in sizes}
        for name, group in zip("rcf", self.freq_groups, strict=True):
            out[f"AP{name}"] = self._mean("precision", group=group) if self.params.use_cats else -1
        out[f"AR@{most}"] = self._mean("recall")
        out |= {f"AR{size[0]}@{most}": self._mean("recall", area=size) for size in sizes}

    def _mean(
        self, name: str, *, threshold: float | None = None, area: str = "all", group: list[int] | None = None
    ) -> float:
        """Return the mean of the defined values of an array, in lvis' order of summation; -1 without any."""
        values: Array = self.eval[name]
        params = self._paramsEval
        if threshold is not None:
            values = values[np.where(np.asarray(params.iouThrs) == threshold)[0]]
        values = values[..., [place for place, label in enumerate(params.areaRngLbl) if label == area]]
        if group is not None:
            values = values[..., group, :]
        defined = values[values > -1]
        return float(np.mean(defined)) if len(defined) else -1

    def to_metric(self) -> LVISMeanAveragePrecision:
        """Return the evaluated images as a metric, which has further methods.

        Labels are category ids, and ``sample_ids`` are image ids. Without integers, images have positions.

        Raises:
            RuntimeError: before ``evaluate``.
        """
        categories = list(self.lvis_gt.cats.values())
        metric: LVISMeanAveragePrecision
        metric = self._metric_of(LVISMeanAveragePrecision, categories, max_detections=_NO_LIMIT)
        return metric

    def run(self) -> None:
        """Evaluate, accumulate and summarize."""
        self.evaluate()
        self.accumulate()
        self.summarize()

    def get_results(self) -> "OrderedDict[str, Any]":
        """Return the numbers by name; empty before ``summarize``."""
        return self.results

    def print_results(self) -> None:
        """Print the numbers as lvis does."""
        first, last = self._paramsEval.iouThrs[0], self._paramsEval.iouThrs[-1]
        for key, value in self.results.items():
            title, short = ("Average Precision", "(AP)") if "AP" in key else ("Average Recall", "(AR)")
            kind = key[2:3]
            iou = f"{float(key[2:]) / 100:0.2f}" if kind.isdigit() else f"{first:0.2f}:{last:0.2f}"
            group, area = (kind if kind in tuple(letters) else "all" for letters in ("rcf", "sml"))
            place = f"IoU={iou:<9} | area={area:>6s} | maxDets={self.params.max_dets:>3d} catIds={group:>3s}"
            print(f" {title:<18} {short} @[ {place}] = {value:0.3f}")


def _coco_params(params: LVISParams) -> SimpleNamespace:
    """Return a copy of the parameters by the names of COCO's parameters."""
    return SimpleNamespace(
        iouType=params.iou_type,
        imgIds=list(params.img_ids),
        catIds=list(params.cat_ids),
        iouThrs=list(params.iou_thrs),
        recThrs=list(params.rec_thrs),
        maxDets=[_NO_LIMIT],
        areaRng=list(params.area_rng),
        areaRngLbl=list(params.area_rng_lbl),
        useCats=params.use_cats,
    )
