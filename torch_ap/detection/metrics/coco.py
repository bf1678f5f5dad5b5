"""COCO's mean average precision as a metric, and the base of the metrics by COCO's rules."""

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from torch_ap.core.base import cached, checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid, warn_caller
from torch_ap.core.base.options import AnyBoxFormat, DetectionConvention, IoUType, Sigmas, settings_from
from torch_ap.core.metric.samples import SampleIds
from torch_ap.detection.files import coco as coco_files
from torch_ap.detection.inputs.images import Images, OwnSimilarity
from torch_ap.detection.matching.shapes import AreaRanges, OwnIoU
from torch_ap.detection.metrics.base import DetectionMetric
from torch_ap.detection.metrics.coco_analyses import CocoAnalyses
from torch_ap.detection.metrics.voc import VOCMeanAveragePrecision
from torch_ap.detection.rules.coco import Report
from torch_ap.detection.rules.coco_numbers import CocoSettings, default_settings, settings_of
from torch_ap.detection.rules.ultralytics import arguments_by_convention


class CocoMetric(CocoAnalyses, DetectionMetric):
    """Abstract: a metric whose detections are matched, counted and averaged by COCO's rules."""

    _argument_names = MappingProxyType(
        {
            "iou_types": "iou_type",
            "thresholds": "iou_thresholds",
            "levels": "rec_thresholds",
            "limits": "max_detection_thresholds",
            "areas": "area_ranges",
            "own_iou": "iou",
            "check_values": "validate_args",
        }
    )

    def __init__(self, settings: CocoSettings, report: Report, *, diagnose: bool, **kwargs: Any) -> None:
        checks.boolean("class_metrics", report.class_metrics)
        checks.boolean("extended_summary", report.extended_summary)
        super().__init__(settings, diagnose=diagnose, **kwargs)
        self.box_format, self.iou_type = settings.box_format, settings.iou_types
        self.class_metrics = report.class_metrics
        self.iou_thresholds, self.rec_thresholds = list(settings.thresholds), list(settings.levels)
        self._report = report

    @property
    def _usual_settings(self) -> Mapping[str, Any]:
        return vars(default_settings(self.iou_type))


_settings_of = cached.settings_cache(settings_of)


class MeanAveragePrecision(CocoMetric):
    """COCO's mean AP and AR; see :func:`torch_ap.functional.coco_mean_average_precision` for formula and arguments.

    Replaces ``torchmetrics.detection.MeanAveragePrecision``: same names, positions, input and output. Intended
    differences:

    - IoU thresholds and recall levels are float64, as in COCO; float32 misses an IoU that equals a threshold.
    - The overall numbers are at the last of any number of ``max_detection_thresholds``; torchmetrics returns -1 if 100
      is not among them.
    - With masks alone, detections in images without ground truths are false positives; torchmetrics drops such images.
    - Every key exists before the first update.
    - A box of negative size in ``target`` raises an error, unless ``validate_args=False``. Sizes read as corners would
      otherwise go unnoticed and give a value near 0; corners read as sizes cannot be recognized.
    - A checkpoint of torchmetrics' class does not load; ``load_state_dict`` raises an error.

    Args:
        box_format: "xyxy", "xywh" or "cxcywh"; for rotated boxes "cxcywhr", "xywhr" or "xyxyxyxy"; ignored without
            ``boxes`` and with ``iou``.
        iou_type: "bbox", "segm", "boundary" or "precomputed", or several of them as a tuple; "keypoints", "rotated",
            "intervals" or a function of the two dicts of an image.
        iou_thresholds, rec_thresholds, max_detection_thresholds: COCO's where None.
        class_metrics: whether to return AP and AR of each class too, at no cost.
        extended_summary: whether to return COCO's arrays and all IoUs too; arrays of one number are 0-d tensors, as in
            torchmetrics.
        average: "macro" or "micro".
        backend: ignored; accepted so that calls need no change.
        convention: "ultralytics" or "ultralytics-8.3" for the numbers of Ultralytics, as for the function: the
            constructor then returns a :class:`torch_ap.VOCMeanAveragePrecision` with this convention.
        area_ranges, class_names, iou, box_width, sigmas, use_given_area: as for the function.
        match: "compute" stores the images; "update" matches each batch immediately and stores only scores and matches,
            for the same numbers: see docs/detection.md for its limits.
        validate_args: whether to check the values of batches.
        diagnose: whether ``compute`` warns of the likely cause of a low value, once per metric.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.detection import MeanAveragePrecision
        >>> metric = MeanAveragePrecision(class_metrics=True)
        >>> boxes, labels = torch.tensor([[258.0, 41.0, 606.0, 285.0]]), torch.tensor([0])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.536]), "labels": labels}]
        >>> metric.update(preds, [{"boxes": torch.tensor([[214.0, 41.0, 562.0, 285.0]]), "labels": labels}])
        >>> metric.compute()["map"]
        tensor(0.6000)
        >>> metric.per_class(iou_threshold=0.5)["tp"]
        tensor([1])
    """

    _shown_arguments = ("box_format", "iou_type", "average")
    warn_on_many_detections: bool = True

    @renamed_keywords(area_as_given="use_given_area")
    def __init__(
        self,
        box_format: AnyBoxFormat = "xyxy",
        iou_type: IoUType | OwnSimilarity | tuple[IoUType, ...] = "bbox",
        iou_thresholds: list[float] | None = None,
        rec_thresholds: list[float] | None = None,
        max_detection_thresholds: list[int] | None = None,
        class_metrics: bool = False,
        extended_summary: bool = False,
        average: Literal["macro", "micro"] = "macro",
        backend: Literal["pycocotools", "faster_coco_eval"] = "pycocotools",
        *,
        convention: DetectionConvention | None = None,
        area_ranges: AreaRanges | None = None,
        class_names: ClassNames = None,
        iou: OwnIoU | None = None,
        box_width: int = 4,
        sigmas: Sigmas = None,
        use_given_area: bool = False,
        match: Literal["compute", "update"] = "compute",
        validate_args: bool = True,
        diagnose: bool = True,
        **kwargs: Any,
    ) -> None:
        if convention is not None:
            raise_invalid("convention", "is an argument of MeanAveragePrecision itself, not of a subclass", convention)
        settings = settings_from(_settings_of, locals())
        report = Report(class_metrics, extended_summary, class_names)
        checks.one_of("backend", backend, ("pycocotools", "faster_coco_eval"))
        if match == "update":
            _check_stored_matches(extended_summary, class_metrics and average == "micro")
        super().__init__(settings, report, diagnose=diagnose, **kwargs)
        self.max_detection_thresholds, self.average = list(settings.limits), average
        self.extended_summary = extended_summary

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the metric, with a ``convention`` the metric that computes its numbers."""
        if cls is not MeanAveragePrecision or kwargs.get("convention") is None:
            return super().__new__(cls)
        call = inspect.signature(cls).bind(*args, **kwargs)
        others = call.arguments.pop("kwargs", {})
        return VOCMeanAveragePrecision(
            **arguments_by_convention(call.arguments, cls, VOCMeanAveragePrecision), **others
        )

    __new__.__signature__ = inspect.signature(__init__)  # type: ignore[attr-defined]  # for help() and editors

    def update(self, preds: Images, target: Images, sample_ids: SampleIds = None, groups: SampleIds = None) -> None:
        """Add images.

        Args:
            preds: a list of dicts, one per image, with ``boxes`` (``masks``, ``keypoints``, ``ious``), ``scores``,
                ``labels``; or one dict with the concatenated rows of all images and ``counts``, the rows per image.
                ``masks`` are (N, H, W) bool, or run-length codes, which are decoded and checked here.
            target: dicts of the same keys without scores; optionally ``iscrowd`` and ``area``.
            sample_ids: (B,) integers, one per image, a tensor or a list; in every update or in none. Each id counts
                once over all updates and processes, so that a sampler may pad. The first copy counts, in the order of
                processes, then of updates. Copies must have equal numbers of ground truths; nothing else is compared,
                so another image with the same id and number is silently ignored.
            groups: (B,) integers, a tensor or a list, the group of each image, such as its video, scene or patient; in
                every update or in none. Images of a group may depend on each other: intervals and comparisons use the
                groups, see :meth:`confidence_interval`, and the value does not.

        Dense masks are converted to run lengths here, which waits for an accelerator; nothing else does.

        Raises:
            ValueError: for invalid input, with image and key; the state does not change. For tensors on an accelerator
                ``compute`` raises the errors that depend on values.
        """
        columns, broken = self._inputs.validate(preds, target)
        counts, most = columns["detections_per_image"], self.max_detection_thresholds[-1]
        if self.warn_on_many_detections and counts.is_cpu and (highest := counts.numpy().max(initial=0)) > most:
            warn_caller(
                f"An image has {highest} detections; of each class only the best {most} count. Raise "
                "`max_detection_thresholds`, or set `warn_on_many_detections = False`",
                UserWarning,
            )
        self._add(columns, broken, sample_ids, groups)

    def coco_to_tm(
        self,
        coco_preds: str,
        coco_target: str,
        iou_type: Literal["bbox", "segm", "keypoints"] | tuple[Literal["bbox", "segm"], ...] = ("bbox",),
        backend: str = "pycocotools",  # noqa: ARG002
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Read COCO's files as input of ``update``, as torchmetrics' method of this name does.

        Boxes are xywh, as in the files, whatever the ``box_format`` of the metric is: pass them to a metric with
        ``box_format="xywh"``. Numbers are rounded to float32. Images have the order of the annotations, which decides
        ties. Both can change the fifth digit of mAP. :func:`torch_ap.detection.files.coco.read_coco` returns float64
        in pycocotools' order, and masks as run-length codes, which require less memory.

        Args:
            coco_preds: path of the JSON list of detections.
            coco_target: path of the JSON with ``images``, ``annotations`` and ``categories``.
            iou_type: "bbox" for ``boxes``, "segm" for ``masks``, or both; "keypoints", which torchmetrics lacks, in
                float64 and ascending by image id.
            backend: ignored; accepted so that calls need no change.

        Returns:
            Predictions and targets, one dict per image, in the order of the annotations: ``boxes`` (N, 4), ``scores``
            and ``area`` float32, ``labels`` and ``iscrowd`` int32, ``masks`` (N, H, W) uint8. The images without
            annotations come last. torchmetrics leaves them out, and with them all their false positives.

        Raises:
            ValueError: as :func:`torch_ap.detection.files.coco.read_coco`.
        """
        kinds = (iou_type,) if isinstance(iou_type, str) else tuple(iou_type)
        return coco_files.images_of_files(coco_preds, coco_target, kinds)

    def tm_to_coco(self, name: str = "tm_map_input") -> None:
        """Write the images of all processes as COCO's files, as torchmetrics' method of this name does.

        Args:
            name: path of the files without ``_preds.json`` and ``_target.json``.

        Raises:
            ValueError: for other shapes than boxes and masks, for a function ``iou``, and with ``match="update"``.
        """
        self._check_shapes_kept("tm_to_coco")
        if self._settings.own_iou is not None or not {"bbox", "segm", "boundary"}.issuperset(self.iou_type):
            raise ValueError(
                "`iou_type` must be 'bbox', 'segm' or 'boundary' for COCO's files, without a function `iou`"
            )
        with self._all_ranks():
            names = self._report.class_names or {}
            named = names if isinstance(names, Mapping) else dict(enumerate(names))
            coco_files.write_files(
                name, self._columns(), self.box_format, named, use_given_area=self._settings.use_given_area
            )

    @property
    def _can_exchange(self) -> bool:
        return not self.extended_summary  # it contains the IoUs of all images


def _check_stored_matches(extended_summary: bool, micro_classes: bool) -> None:
    """Raise ValueError for settings whose results need more than matches."""
    if extended_summary:
        raise ValueError("`match='update'` keeps no shapes, which `extended_summary` needs; give `match='compute'`")
    if micro_classes:
        raise ValueError("`match='update'` with `average='micro'` knows no classes: `class_metrics` must be False")
