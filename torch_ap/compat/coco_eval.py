"""COCO's evaluation with the interface of ``pycocotools.cocoeval``."""

import copy
from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np

from torch_ap.compat.coco import COCO
from torch_ap.compat.columns import Selection, columns_of
from torch_ap.compat.images import accumulate_images, all_categories, images_of_matches
from torch_ap.compat.params import KINDS, Params, check_area_names, settings_of_params
from torch_ap.compat.statistics import Statistics, time_now
from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid, suggest_id
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.metrics.coco import MeanAveragePrecision
from torch_ap.detection.rules.coco import match
from torch_ap.detection.rules.coco_numbers import CocoSettings, settings_of

__all__ = ["COCOeval", "Params"]  # as the module of pycocotools

_ARRAYS = ("precision", "recall", "scores")


class COCOeval(Statistics):
    """Evaluation of detections against ground truths.

    Same names and arguments as ``pycocotools.cocoeval.COCOeval``, and bit-equal results, with these differences: only
    ``summarize`` prints; ``eval``, ``evalImgs`` and ``ious`` are computed when they are read; without the limit 100 (20
    for keypoints), the numbers of ``stats`` at this limit are at the last one, where pycocotools returns -1; a ground
    truth with id 0 counts, where pycocotools ignores its matches; keypoints with ``useCats = 0`` are compared, where
    pycocotools finds no objects and returns 0; invalid entries raise ValueError.

    Args:
        cocoGt: the ground truths: :class:`torch_ap.compat.COCO` or another object with its methods, such as
            ``pycocotools.coco.COCO``.
        cocoDt: the detections, from ``cocoGt.loadRes``.
        iouType: "segm", "bbox", "keypoints" or "boundary".

    Attributes:
        params: the settings, a :class:`Params`.
        eval: after ``accumulate``: ``precision`` and ``scores``, (T, R, K, A, M), and ``recall``, (T, K, A, M) float64,
            -1 for categories without ground truths; ``counts``, ``params`` and ``date``.
        stats: after ``summarize``: (12,) float64, or (10,) for keypoints.

    Example:
        >>> from torch_ap.compat import COCO, COCOeval
        >>> box = {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}
        >>> truth = COCO({"images": [{"id": 7}], "categories": [{"id": 3, "name": "cat"}], "annotations": [box]})
        >>> results = truth.loadRes([{"image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 44], "score": 0.5}])
        >>> evaluation = COCOeval(truth, results, "bbox")
        >>> evaluation.evaluate()
        >>> evaluation.accumulate()
        >>> evaluation.eval["precision"].shape
        (10, 101, 1, 4, 3)
    """

    def __init__(self, cocoGt: Any = None, cocoDt: Any = None, iouType: str = "segm") -> None:
        self.cocoGt, self.cocoDt = cocoGt, cocoDt
        self.params = Params(iouType)
        self._eval: dict[str, Any] | None = {}  # None if the arrays have not been read
        self._about: dict[str, Any] = {}
        self.stats: Any = []
        self._paramsEval = {}
        self._params_of_arrays: Params | None = None  # a copy of those of `accumulate`
        self._numbers = None
        self._selected: tuple[Selection, ...] = ()  # the ground truths and the detections
        self._evalImgs: Any = []
        self._ious = {}
        if cocoGt is not None:
            _check_data_set("cocoGt", cocoGt)
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    def evaluate(self) -> None:
        """Match all detections.

        Raises:
            ValueError: for invalid parameters, and for an invalid annotation or result, with its id.
        """
        params = self.params
        if params.useSegm is not None:
            params.iouType = "segm" if params.useSegm == 1 else "bbox"
        checks.one_of("iouType", params.iouType, KINDS)
        params.imgIds = np.unique(params.imgIds).tolist()
        if params.useCats:
            params.catIds = np.unique(params.catIds).tolist()
        elif len(set(params.catIds)) < len(params.catIds):
            raise_invalid("params.catIds", "must contain each id once", params.catIds)
        params.maxDets = sorted(params.maxDets)
        sigmas = params.kpt_oks_sigmas if params.iouType == "keypoints" else None
        limits = checks.positive_ints("params.maxDets", list(params.maxDets), optional=False)
        settings = settings_of_params(partial(settings_of, max_detection_thresholds=limits, sigmas=sigmas), params)
        self._columns = self._read(settings)
        self._numbers = match(settings, self._columns, params.iouType, micro=not params.useCats)
        self._paramsEval, self._params_of_arrays = _copy_of(params), None
        self._evalImgs, self._ious, self._eval = None, None, {}

    def _read(self, settings: CocoSettings) -> Columns:
        """Return the selected ground truths and detections as columns, by image."""
        params = self.params
        _check_data_set("cocoGt", self.cocoGt)
        _check_data_set("cocoDt", self.cocoDt)
        known = set(self.cocoGt.getImgIds())
        for image in params.imgIds:
            if image not in known:
                raise_invalid("params.imgIds", f"must contain ids of images{suggest_id(image, known)}", image)
        truths, detections = self._selected = (
            _select(self.cocoGt, params, "iscrowd"),
            _select(self.cocoDt, params, None),
        )
        categories = set(self.cocoGt.getCatIds())
        for data, side in ((self.cocoGt, truths), (self.cocoDt, detections)):
            side.warn_of_faults(known, categories, getattr(data, "anns", {}), getattr(data, "imgToAnns", {}))
        images = self.cocoGt.loadImgs(params.imgIds) if params.iouType in ("segm", "boundary") else ()
        columns = columns_of(settings, params.iouType, truths, detections, images)
        if params.iouType == "bbox":
            columns |= detections.areas_unlike_boxes(columns["detection_boxes"])
        return columns

    def _prepare(self) -> None:  # DETR and RT-DETR call this and the following methods in place of `evaluate`
        self.evaluate()

    def computeIoU(self, imgId: Any, catId: Any) -> Any:
        """Return an entry of ``ious``, after ``evaluate``.

        Args:
            imgId: id of an evaluated image.
            catId: id of an evaluated category; -1 without ``useCats``.
        """
        return self.ious[imgId, catId]

    computeOks = computeIoU

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> dict[str, Any] | None:
        """Return an entry of ``evalImgs``, after ``evaluate``.

        Args:
            imgId: id of an evaluated image.
            catId: id of an evaluated category; -1 without ``useCats``.
            aRng: one of ``params.areaRng``.
            maxDet: the last of ``params.maxDets``.

        Raises:
            ValueError: for another limit, image, category or range than those of ``evaluate``.
        """
        params = self._paramsEval
        checks.one_of("maxDet", maxDet, (params.maxDets[-1],))
        place = 0
        for name, value, known in (
            ("catId", catId, params.catIds if params.useCats else [-1]),
            ("aRng", tuple(aRng), [tuple(x) for x in params.areaRng]),
            ("imgId", imgId, params.imgIds),
        ):
            if value not in known:
                raise_invalid(name, "must be one that `evaluate` has evaluated", value)
            place = place * len(known) + known.index(value)
        entry: dict[str, Any] | None = self.evalImgs[place]
        return entry

    @property
    def evalImgs(self) -> Any:
        """The result of each category, area range and image: a dict as in pycocotools, None without objects."""
        if self._evalImgs is None:
            assert self._numbers is not None
            self._evalImgs = images_of_matches(self._numbers, self._paramsEval, *(side.ids for side in self._selected))
        return self._evalImgs

    @evalImgs.setter
    def evalImgs(self, value: Any) -> None:
        self._eval = self.eval  # requires the matches
        self._evalImgs, self._numbers = value, None

    @property
    def eval(self) -> dict[str, Any]:
        """COCO's arrays, computed when they are read; empty before ``accumulate``."""
        if self._eval is None:
            assert self._numbers is not None
            self._eval = self._about | all_categories(self._numbers, self._paramsEval, _ARRAYS)
            self._eval["counts"] = list(self._eval["precision"].shape)
        return self._eval

    @eval.setter  # noqa: A003
    def eval(self, value: dict[str, Any]) -> None:
        self._eval = value

    def accumulate(self, p: Params | None = None) -> None:
        """Make precision, recall and scores available in ``eval``.

        Args:
            p: other parameters, whose images, categories, area ranges and limits are a part of those of ``evaluate``;
                None for ``params``.

        Raises:
            RuntimeError: before ``evaluate``.
            ValueError: for other IoU thresholds than those of ``evaluate``, and area ranges without names.
        """
        if self._numbers is None and not self._evalImgs:
            raise RuntimeError("call `evaluate()` before `accumulate()`")
        params = self.params if p is None else p
        check_area_names(params)
        if not np.array_equal(params.iouThrs, self._paramsEval.iouThrs):
            raise_invalid("params.iouThrs", "must be those of `evaluate()`", params.iouThrs)
        params.catIds = params.catIds if params.useCats == 1 else [-1]
        about: dict[str, Any] = {"params": params, "counts": [], "date": time_now()}
        arrays = None
        if self._numbers is None or not _is_same(params, self._paramsEval):
            arrays = about | accumulate_images(self.evalImgs, params, self._paramsEval)
            arrays["counts"] = list(arrays["precision"].shape)
        self._about, self._eval, self._params_of_arrays = about, arrays, _copy_of(params)

    def summarize(self, confidence_level: float | None = None) -> None:
        """Print COCO's numbers, and store them in ``stats``; -1 where a number is undefined.

        Args:
            confidence_level: level of an interval of the first number, which is printed after the numbers; None for no
                interval. :meth:`confidence_interval` has more options.
        """
        if self._eval == {}:
            raise RuntimeError("call `accumulate()` before `summarize()`")
        params = self._params_of_arrays or self.params
        limits = list(params.maxDets)
        last = limits[-1]
        usual = 20 if params.iouType == "keypoints" else 100
        usual = usual if usual in limits else last
        if self._eval is None and self._numbers is not None:
            settings = self._numbers.settings  # one call costs less than one for each area range
            self._numbers.tables(range(len(settings.areas)), len(settings.limits) - 1)
        if params.iouType == "keypoints":
            cuts = [(None, "all"), (0.5, "all"), (0.75, "all"), (None, "medium"), (None, "large")]
            rows = [(kind, *cut, usual) for kind in ("precision", "recall") for cut in cuts]
        else:
            sizes = ("small", "medium", "large")
            rows = [
                ("precision", None, "all", usual),
                ("precision", 0.5, "all", last),
                ("precision", 0.75, "all", last),
            ]
            rows += [("precision", None, size, last) for size in sizes]
            rows += [("recall", None, "all", most) for most in (limits[0], limits[min(1, len(limits) - 1)], last)]
            rows += [("recall", None, size, last) for size in sizes]
        self.stats = np.array([self._print_number(*row) for row in rows])
        if confidence_level is not None:
            interval = self.confidence_interval(confidence_level)
            low, high = float(interval.low), float(interval.high)
            print(f" {confidence_level:.0%} interval of the first number: {low:0.3f} to {high:0.3f}")

    def to_metric(self) -> MeanAveragePrecision:
        """Return the evaluated images as a metric, which has further methods.

        Labels are category ids, and ``sample_ids`` are image ids. Without integers, images have positions.

        Raises:
            RuntimeError: before ``evaluate``, and after ``evalImgs`` has been replaced.
        """
        settings, params = self._settings, self._paramsEval
        metric: MeanAveragePrecision = self._metric_of(
            MeanAveragePrecision,
            self.cocoGt.loadCats(self.cocoGt.getCatIds()),
            average="macro" if params.useCats else "micro",
            sigmas=settings.sigmas if params.iouType == "keypoints" else None,
        )
        metric.max_detection_thresholds = list(settings.limits)
        return metric

    def _print_number(self, kind: str, threshold: float | None, area: str, limit: int) -> float:
        """Print and return one number."""
        params = self._params_of_arrays or self.params
        areas = [place for place, name in enumerate(params.areaRngLbl) if name == area]
        limits = [place for place, most in enumerate(params.maxDets) if most == limit]
        if self._eval is None and len(areas) == len(limits) == 1:
            values = getattr(self._numbers, kind)(areas[0], limits[0]).numpy()
        else:
            values = self.eval[kind][..., areas, :][..., limits]
        if threshold is not None:
            values = values[np.where(np.asarray(params.iouThrs) == threshold)[0]]
        defined = values[values > -1]
        mean = float(np.mean(defined)) if len(defined) else -1.0
        title, short = ("Average Precision", "(AP)") if kind == "precision" else ("Average Recall", "(AR)")
        first, last = params.iouThrs[0], params.iouThrs[-1]
        text = f"{first:0.2f}:{last:0.2f}" if threshold is None else f"{threshold:0.2f}"
        print(f" {title:<18} {short} @[ IoU={text:<9} | area={area:>6s} | maxDets={limit:>3d} ] = {mean:0.3f}")
        return mean

    def __str__(self) -> str:
        self.summarize()
        return ""


def _check_data_set(name: str, data: Any) -> None:
    """Raise TypeError unless an argument has the methods of a data set."""
    if not hasattr(data, "loadAnns"):
        raise_invalid(name, "must be a data set, such as from `COCO()` or `loadRes()`", data, TypeError)


def _copy_of(params: Params) -> Params:
    """Return a copy of parameters, fast for many ids."""
    return copy.deepcopy(params, {id(ids): list(ids) for ids in (params.imgIds, params.catIds)})


def _select(data: Any, params: Params, flag: str | None) -> Selection:
    """Return the annotations or results of a data set in the selected images and categories."""
    is_own = getattr(type(data), "getAnnIds", None) is COCO.getAnnIds
    by_image: Any = data.imgToAnns if is_own else defaultdict(list)
    if not is_own and params.imgIds:  # `getAnnIds` would take an empty argument for every image
        for entry in data.loadAnns(data.getAnnIds(imgIds=params.imgIds)):
            by_image[entry["image_id"]].append(entry)
    return Selection(
        [by_image.get(image, ()) for image in params.imgIds],
        params.catIds,
        data.list_name if is_own else "annotations",
        data.dataset.get("annotations", ()),
        kind=params.iouType,
        flag=flag,
        by_category=not params.useCats,
    )


def _is_same(params: Params, evaluated: Params) -> bool:
    """Return whether the parameters give the same results."""
    names = ("imgIds", "catIds", "iouThrs", "recThrs", "maxDets", "areaRng", "useCats")
    return all(
        np.array_equal(np.asarray(getattr(params, name)), np.asarray(getattr(evaluated, name)))
        for name in names
        if name != "catIds" or params.useCats
    )
