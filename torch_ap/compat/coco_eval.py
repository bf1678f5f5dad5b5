"""COCO's evaluation with the interface of ``pycocotools.cocoeval``."""

import copy
import datetime
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from torch_ap.compat.images import accumulate_images, images_of_matches, ious_of_images
from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid, warn_caller
from torch_ap.core.ranking.order import Array
from torch_ap.detection.files import entries
from torch_ap.detection.files.entries import Entries
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching.shapes import COCO_AREAS, geometry_of
from torch_ap.detection.rules.coco import match
from torch_ap.detection.rules.coco_numbers import CocoNumbers, CocoSettings, settings_of
from torch_ap.detection.shapes.keypoints import SIGMAS

__all__ = ["COCOeval", "Params"]

KINDS = ("segm", "bbox", "keypoints", "boundary")


class Params:
    """Settings of an evaluation; every attribute can be replaced or changed.

    Args:
        iouType: "segm", "bbox", "keypoints" or "boundary".

    Attributes:
        imgIds: ids of the evaluated images.
        catIds: ids of the evaluated categories.
        iouThrs: IoU thresholds.
        recThrs: recall levels, ascending.
        maxDets: limits of the detections of a category and image.
        areaRng: lowest and highest area of each range, inclusive.
        areaRngLbl: names of the area ranges.
        useCats: whether categories are evaluated separately; 0 for all objects as one category.
        kpt_oks_sigmas: the sigma of each keypoint.
    """

    def __init__(self, iouType: str = "segm") -> None:
        checks.one_of("iouType", iouType, KINDS)
        geometry = geometry_of(iouType)
        self.iouType = iouType
        self.imgIds: Any = []
        self.catIds: Any = []
        self.iouThrs: Any = np.linspace(0.5, 0.95, 10)
        self.recThrs: Any = np.linspace(0.0, 1.0, 101)
        self.maxDets: Any = list(geometry.limits)
        self.areaRngLbl: Any = list(geometry.area_ranges)
        self.areaRng: Any = [list(COCO_AREAS[name]) for name in self.areaRngLbl]
        self.useCats: Any = 1
        self.useSegm: Any = None  # deprecated in pycocotools
        if iouType == "keypoints":
            self.kpt_oks_sigmas: Any = np.array(SIGMAS)


class COCOeval:
    """Evaluation of detections against ground truths.

    Same names and arguments as ``pycocotools.cocoeval.COCOeval``, and bit-equal results, with these differences: only
    ``summarize`` prints; ``evalImgs`` and ``ious`` are computed when they are read; the first number of ``stats`` is
    at the last limit of ``maxDets``, where pycocotools returns -1 unless a limit is 100; a ground truth with id 0
    counts, where pycocotools ignores its matches; invalid entries raise ValueError.

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
        self.eval: dict[str, Any] = {}
        self.stats: Any = []
        self._paramsEval: Any = {}
        self._numbers: CocoNumbers | None = None
        self._ids: tuple[Array, Array] = (np.zeros(0), np.zeros(0))  # of the ground truths and the detections
        self._evalImgs: Any = []
        self._ious: dict[tuple[Any, Any], Any] | None = {}
        if cocoGt is not None:
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
        params.maxDets = sorted(params.maxDets)
        settings = _settings_of(params)
        self._columns = self._read(settings)
        self._numbers = match(settings, self._columns, params.iouType, micro=not params.useCats)
        self._paramsEval = copy.deepcopy(params)
        self._evalImgs, self._ious, self.eval = None, None, {}

    def _read(self, settings: CocoSettings) -> Columns:
        """Return the selected ground truths and detections as columns, by image and category."""
        params = self.params
        images = Entries.from_list(self.cocoGt.loadImgs(params.imgIds), "images")
        truths, target = _side(self.cocoGt, "annotations", params, images)
        detections, preds = _side(self.cocoDt, "results", params, images)
        self._ids = np.array(truths), np.array(detections)
        if 0 in truths:
            text = "A ground truth has the id 0: pycocotools ignores its matches, torch_ap counts them."
            warn_caller(text, UserWarning)
        columns, _ = settings.inputs.validate(preds, target)
        return columns

    @property
    def evalImgs(self) -> Any:
        """The result of each category, area range and image: a dict as in pycocotools, None without objects."""
        if self._evalImgs is None:
            assert self._numbers is not None
            self._evalImgs = images_of_matches(self._numbers, self._paramsEval, self._ids)
        return self._evalImgs

    @evalImgs.setter
    def evalImgs(self, value: Any) -> None:
        self._evalImgs, self._numbers = value, None

    @property
    def ious(self) -> dict[tuple[Any, Any], Any]:
        """The IoU of the detections, by descending score, with the ground truths of each image and category."""
        if self._ious is None:
            assert self._numbers is not None
            self._ious = ious_of_images(self._numbers, self._columns, self._paramsEval)
        return self._ious

    def accumulate(self, p: Params | None = None) -> None:
        """Compute precision, recall and scores, and store them in ``eval``.

        Args:
            p: other parameters, whose images, categories, area ranges and limits are a part of those of ``evaluate``;
                None for ``params``.
        """
        if self._numbers is None and not self._evalImgs:
            raise RuntimeError("call `evaluate()` before `accumulate()`")
        params = self.params if p is None else p
        params.catIds = params.catIds if params.useCats == 1 else [-1]
        if self._numbers is not None and _is_same(params, self._paramsEval):
            results = _expand(self._numbers, params)
        else:
            results = accumulate_images(self.evalImgs, params, self._paramsEval)
        self.eval = {
            "params": params,
            "counts": list(results["precision"].shape),
            "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            **results,
        }

    def summarize(self) -> None:
        """Print COCO's numbers, and store them in ``stats``; -1 where a number is undefined."""
        if not self.eval:
            raise RuntimeError("call `accumulate()` before `summarize()`")
        limits = list(self.params.maxDets)
        last = limits[-1]
        if self.params.iouType == "keypoints":
            cuts = [(None, "all"), (0.5, "all"), (0.75, "all"), (None, "medium"), (None, "large")]
            rows = [(kind, *cut, last) for kind in ("precision", "recall") for cut in cuts]
        else:
            sizes = ("small", "medium", "large")
            rows = [("precision", *cut, last) for cut in ((None, "all"), (0.5, "all"), (0.75, "all"))]
            rows += [("precision", None, size, last) for size in sizes]
            rows += [("recall", None, "all", most) for most in (limits[0], limits[min(1, len(limits) - 1)], last)]
            rows += [("recall", None, size, last) for size in sizes]
        self.stats = np.array([self._print_number(*row) for row in rows])

    def _print_number(self, kind: str, threshold: float | None, area: str, limit: int) -> float:
        """Print and return one number."""
        params, values = self.params, self.eval[kind]
        if threshold is not None:
            values = values[np.where(np.asarray(params.iouThrs) == threshold)[0]]
        areas = [place for place, name in enumerate(params.areaRngLbl) if name == area]
        limits = [place for place, most in enumerate(params.maxDets) if most == limit][:1]
        values = values[..., areas, :][..., limits]
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


def _settings_of(params: Params) -> CocoSettings:
    """Validate parameters and return the settings."""
    kind = params.iouType
    if len(params.areaRng) != len(params.areaRngLbl):
        raise_invalid("areaRngLbl", f"must name each of the {len(params.areaRng)} area ranges", params.areaRngLbl)
    settings = settings_of(
        box_format="xywh",
        iou_type=kind,
        iou_thresholds=_floats(params.iouThrs),
        rec_thresholds=_floats(params.recThrs),
        max_detection_thresholds=[int(x) for x in params.maxDets],
        average="macro" if params.useCats else "micro",
        use_given_area=True,
        sigmas=params.kpt_oks_sigmas if kind == "keypoints" else None,
    )
    areas = {str(place): (float(low), float(high)) for place, (low, high) in enumerate(params.areaRng)}
    return replace(settings, areas=areas)


def _floats(values: Any) -> list[float]:
    return [float(x) for x in values]


def _side(data: Any, name: str, params: Params, images: Entries) -> tuple[list[Any], Any]:
    """Return the ids and the columns of the selected annotations or results of a data set, by image and category."""
    place = {image: place for place, image in enumerate(params.imgIds)}
    selected = []
    if place and params.catIds:  # `getAnnIds` would take an empty argument for everything
        selected = data.loadAnns(data.getAnnIds(imgIds=params.imgIds, catIds=params.catIds))
    selected.sort(key=lambda x: (place[x["image_id"]], x["category_id"]))
    keys = (*_KEYS, *_SHAPE_KEYS[params.iouType])
    plain = [{key: _plain_value(x[key]) for key in keys if key in x} for x in selected]
    listed = Entries.from_list(plain, name)
    counts = np.bincount([place[x["image_id"]] for x in selected], minlength=len(place)).astype(np.int64)
    columns: dict[str, Any] = {
        "labels": torch.tensor([x["category_id"] for x in listed.entries], dtype=torch.int64),
        "counts": torch.from_numpy(counts),
        "area": listed.numbers("area"),
    }
    if name == "results":
        columns["scores"] = listed.numbers("score")
    else:
        columns["iscrowd"] = torch.tensor(listed.values("iscrowd"), dtype=torch.uint8)
    if params.iouType == "keypoints":
        columns["keypoints"] = listed.keypoints(entries.POINTS)
    if params.iouType == "bbox" or (params.iouType == "keypoints" and name != "results"):
        columns["boxes"] = listed.numbers("bbox")
    ids = [x["id"] for x in selected]
    if params.iouType not in ("segm", "boundary"):
        return ids, columns
    masks = entries.decode(listed, columns.pop("counts"), images)
    ends = itertools.accumulate(counts.tolist(), initial=0)
    return ids, [
        {key: column[start:end] for key, column in columns.items()} | {"masks": masks[image]}
        for image, (start, end) in enumerate(itertools.pairwise(ends))
    ]


_KEYS = ("area", "score", "iscrowd", "image_id", "category_id")
_SHAPE_KEYS = {
    "bbox": ("bbox",),
    "keypoints": ("keypoints", "bbox"),
    "segm": ("segmentation",),
    "boundary": ("segmentation",),
}
_PLAIN = {int, float, str, bytes, dict, type(None)}


def _plain_value(value: Any) -> Any:
    """Return the value of a key with Python's types, as in a JSON file."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return list(value) if _PLAIN.issuperset(map(type, value)) else [_plain_value(x) for x in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray | torch.Tensor) else value


def _is_same(params: Params, evaluated: Params) -> bool:
    """Return whether the parameters differ at most in attributes that do not matter for the results."""
    names = ("imgIds", "catIds", "iouThrs", "recThrs", "maxDets", "areaRng", "useCats")
    return all(
        np.array_equal(np.asarray(getattr(params, name)), np.asarray(getattr(evaluated, name)))
        for name in names
        if name != "catIds" or params.useCats
    )


def _expand(numbers: CocoNumbers, params: Params) -> dict[str, Array]:
    """Return the arrays of all categories, -1 for categories without any object."""
    results = {name: numbers.every(name).numpy() for name in ("precision", "recall", "scores")}
    if not params.useCats:
        return results
    present = np.searchsorted(params.catIds, numbers.labels.numpy())
    out = {}
    for name, values in results.items():
        before_categories = values.shape[: values.ndim - 3]
        out[name] = np.full((*before_categories, len(params.catIds), *values.shape[-2:]), -1.0)
        out[name][..., present, :, :] = values[..., : len(present), :, :]
    return out
