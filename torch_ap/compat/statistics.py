"""Intervals, comparisons, errors and reports of an evaluation, by the methods of the metrics."""

import datetime
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from torch_ap.compat.images import ious_of_images
from torch_ap.core.base.class_names import is_int64
from torch_ap.core.base.messages import raise_invalid, suggest_id, warn_caller
from torch_ap.detection.errors.operating_points import OperatingPoints
from torch_ap.detection.errors.tide import DetectionErrors
from torch_ap.detection.inputs.federated import KEYS
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.metrics.coco import CocoMetric
from torch_ap.detection.rules.coco_numbers import CocoNumbers, CocoSettings
from torch_ap.inference.groups import ids_of_groups
from torch_ap.inference.record import Comparison, Interval

__all__ = ["Statistics", "time_now"]

_LABELS = ("detection_labels", "ground_truth_labels", *KEYS)


Method = TypeVar("Method", bound=Callable[..., Any])


def _with_signature_of(method: Callable[..., Any]) -> Callable[[Method], Method]:
    """Return a decorator that shows the signature of another method, for ``help()`` and editors."""

    def decorate(function: Method) -> Method:
        function.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
        return function

    return decorate


class Statistics:
    """Abstract: the IoUs, and methods that neither pycocotools nor lvis has, by the metric of :meth:`to_metric`."""

    _paramsEval: Any  # the parameters of `evaluate`, with the names of pycocotools
    _columns: Columns
    _numbers: CocoNumbers | None
    _ious: dict[tuple[Any, Any], Any] | None

    @property
    def _settings(self) -> CocoSettings:
        """The settings of ``evaluate``.

        Raises:
            RuntimeError: before ``evaluate``.
        """
        if self._numbers is None:
            raise RuntimeError("call `evaluate()` in this process before this method")
        return self._numbers.settings

    def _metric_of(self, kind: Any, categories: Sequence[Mapping[str, Any]], **settings: Any) -> Any:
        """Return a metric with the evaluated images.

        Labels remain indices if some ids of categories are not integers, and images positions likewise.

        Args:
            kind: class of the metric.
            categories: all categories of the data set.
            **settings: further settings of the metric.
        """
        own, params, columns = self._settings, self._paramsEval, self._columns
        settings |= {"iou_thresholds": list(own.thresholds), "rec_thresholds": list(own.levels)}
        names = _names_of(categories)
        metric = kind("xywh", params.iouType, class_names=names, use_given_area=True, diagnose=False, **settings)
        ranges = zip(params.areaRngLbl, params.areaRng, strict=True)
        areas = {name: (float(low), float(high)) for name, (low, high) in ranges}
        metric._settings = replace(metric._settings, areas=areas, limits=own.limits)
        if params.iouType == "bbox" and "detection_area" in columns:
            columns = {name: column for name, column in columns.items() if name != "detection_area"}
            rule = "the metric uses width times height as the area of a detection, and some `area` differs from it"
            warn_caller(rule, UserWarning)
        if all(isinstance(category, int) for category in params.catIds):
            ids = torch.tensor(list(params.catIds), dtype=torch.int64)
            columns = columns | {name: ids[columns[name]] for name in _LABELS if name in columns}
        metric._add(columns, None, self._integer_image_ids(), None)
        return metric

    def _integer_image_ids(self) -> list[int] | None:
        """Return the ids of the evaluated images; None if some are not integers, such as text."""
        ids: list[Any] = self._paramsEval.imgIds
        return ids if all(map(is_int64, ids)) else None

    def _by_ids_of_metric(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of a method of the metric, with positions in place of image ids that are not integers.

        Raises:
            ValueError: for a slice with an unknown id, and for groups that lack an image.
        """
        if self._integer_image_ids() is not None:
            return dict(options)
        known, options = {image: place for place, image in enumerate(self._paramsEval.imgIds)}, dict(options)

        def positions(name: str, images: Iterable[Any]) -> list[int]:
            for unknown in (x for x in images if x not in known):
                raise_invalid(
                    f"slices[{name!r}]", f"must be ids of evaluated images{suggest_id(unknown, known)}", unknown
                )
            return [known[x] for x in images]

        if isinstance(slices := options.get("slices"), Mapping):
            options["slices"] = {name: positions(name, list(images)) for name, images in slices.items()}
        if options.get("groups") is not None:
            options["groups"] = dict(enumerate(ids_of_groups(list(known), options["groups"], "image").tolist()))
        return options

    def to_metric(self) -> CocoMetric:
        """Return the evaluated images as a metric, with all its methods; ``evaluate`` must come first."""
        raise NotImplementedError

    @property
    def ious(self) -> dict[tuple[Any, Any], Any]:
        """The IoU of the detections, by descending score, with the ground truths of each image and category."""
        if self._ious is None:
            assert self._numbers is not None
            self._ious = ious_of_images(self._numbers, self._columns, self._paramsEval)
        return self._ious

    @ious.setter
    def ious(self, value: dict[tuple[Any, Any], Any]) -> None:
        self._ious = value

    @_with_signature_of(CocoMetric.confidence_interval)
    def confidence_interval(self, *args: Any, **options: Any) -> Interval:
        """Return a confidence interval of mAP; see :meth:`torch_ap.MeanAveragePrecision.confidence_interval`.

        Args:
            args, options: the arguments of the metric; ``n_resamples``, ``generator``, ``chunk_size`` and ``progress``
                of a bootstrap among them. ``slices`` and ``groups`` contain the image ids of the data set.
        """
        return self.to_metric().confidence_interval(*args, **self._by_ids_of_metric(options))

    @_with_signature_of(CocoMetric.compare)
    def compare(self, other: "Statistics", **options: Any) -> Comparison:
        """Compare this detector with another on the same images; see :meth:`torch_ap.MeanAveragePrecision.compare`.

        Args:
            other: the evaluation of the other detector.
            options: the arguments of the metric; ``n_resamples``, ``generator``, ``chunk_size`` and ``progress`` of a
                bootstrap among them. ``slices`` and ``groups`` contain the image ids of the data set.
        """
        if not isinstance(other, Statistics):
            raise_invalid("other", "must be an evaluation of the same class", other, TypeError)
        metrics = self.to_metric(), other.to_metric()
        if self._paramsEval.imgIds != other._paramsEval.imgIds:
            raise ValueError("`other` must be an evaluation of the same images")
        return metrics[0].compare(metrics[1], **self._by_ids_of_metric(options))

    @_with_signature_of(CocoMetric.errors)
    def errors(self, *args: Any, **options: Any) -> DetectionErrors:
        """Return the errors by kind (TIDE); see :meth:`torch_ap.MeanAveragePrecision.errors`."""
        return self.to_metric().errors(*args, **options)

    @_with_signature_of(CocoMetric.operating_points)
    def operating_points(self, *args: Any, **options: Any) -> OperatingPoints:
        """Return the best score thresholds; see :meth:`torch_ap.MeanAveragePrecision.operating_points`."""
        return self.to_metric().operating_points(*args, **options)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write one page with all results; see :func:`torch_ap.report`.

        Args:
            path: path of the page.
            options: the arguments of the function. ``other`` is another evaluation, or a list of them. ``slices``
                contains the image ids of the data set.
        """
        from torch_ap.reports.write import report  # imports all domains

        if (other := options.get("other")) is not None:
            systems = other if isinstance(other, list | tuple) else [other]
            options["other"] = [x.to_metric() if isinstance(x, Statistics) else x for x in systems]
        metric = self.to_metric()
        if self._integer_image_ids() is None and options.get("image_names") is None:
            options["image_names"] = list(map(str, self._paramsEval.imgIds))
        return report(metric, path, **self._by_ids_of_metric(options))


def time_now() -> str:
    """Return the time in the form of pycocotools, for the results of ``accumulate``."""
    return datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S")


def _names_of(categories: Sequence[Mapping[str, Any]]) -> dict[int, str] | None:
    """Return the names of categories; None if any has no name or no integer as its id."""
    names = {category["id"]: category.get("name") for category in categories}
    valid = all(isinstance(key, int) and isinstance(name, str) for key, name in names.items())
    return {key: str(name) for key, name in names.items()} if valid and names else None
