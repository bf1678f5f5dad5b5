"""COCO's mean average precision as a metric; the function of that name in ``torch_ap.functional`` computes it."""

from types import MappingProxyType
from typing import Any, Literal

from torch_ap.inputs.detections import Images, OwnSimilarity
from torch_ap.inputs.samples import SampleIds
from torch_ap.matching.coco import Report
from torch_ap.matching.coco_settings import CocoSettings, default_settings, settings_of
from torch_ap.matching.geometries import AreaRanges, OwnIoU
from torch_ap.metrics.coco_files import CocoFiles
from torch_ap.metrics.coco_tables import CocoTables
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import AnyBoxFormat, IoUType, Sigmas
from torch_ap.runtime import cached

_settings_of = cached.settings_cache(settings_of)


class MeanAveragePrecision(CocoTables, CocoFiles):
    """COCO's mean AP and AR; see :func:`torch_ap.functional.coco_mean_average_precision` for formula and arguments.

    Replaces ``torchmetrics.detection.MeanAveragePrecision``: same names, positions, input and output. It differs on
    purpose: IoU thresholds and recall levels are float64, as COCO's own (torchmetrics' float32 ones miss an IoU that
    equals a threshold); the overall numbers are at the last of ``max_detection_thresholds``, of which any number may be
    given (torchmetrics answers -1 where 100 is not among them); with masks alone, detections in images without ground
    truths are false positives (torchmetrics drops such images); every key is there before the first update; a box of
    negative size in ``target`` is an error, unless ``validate_args=False`` (sizes read as corners would otherwise pass
    unseen and give a value near 0; corners read as sizes cannot be told from boxes). A checkpoint of torchmetrics'
    class does not load, and ``load_state_dict`` says so.

    Args:
        box_format: "xyxy", "xywh" or "cxcywh"; of rotated boxes "cxcywhr", "xywhr" or "xyxyxyxy"; of no meaning without
            ``boxes``, and with ``iou``.
        iou_type: "bbox", "segm", "boundary" or "precomputed", or several of them as a tuple; "keypoints", "rotated",
            "intervals" or a function of the two dicts of an image.
        iou_thresholds, rec_thresholds, max_detection_thresholds: COCO's where None.
        class_metrics: whether AP and AR of each class are given too; it costs nothing.
        extended_summary: whether COCO's arrays and all IoUs are given too, those of one number as 0-d tensors, which
            torchmetrics makes of them.
        average: "macro" or "micro".
        backend: accepted, so that calls need no change, and ignored: neither backend is used.
        area_ranges, class_names, iou, box_width, sigmas, area_as_given: as for the function.
        match: "compute" keeps the images; "update" matches each batch as it comes and keeps scores and matches only,
            for the same numbers: docs/detection.md says what it then cannot give.
        validate_args: whether the values of batches are checked.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.

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
    warn_on_many_detections: bool = True
    plot_legend_name: str = "Class"

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
        area_ranges: AreaRanges | None = None,
        class_names: ClassNames = None,
        iou: OwnIoU | None = None,
        box_width: int = 4,
        sigmas: Sigmas = None,
        area_as_given: bool = False,
        match: Literal["compute", "update"] = "compute",
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = _settings_of(
            box_format=box_format,
            iou_type=iou_type,
            iou_thresholds=iou_thresholds,
            rec_thresholds=rec_thresholds,
            max_detection_thresholds=max_detection_thresholds,
            average=average,
            area_ranges=area_ranges,
            iou=iou,
            box_width=box_width,
            sigmas=sigmas,
            area_as_given=area_as_given,
            validate_args=validate_args,
            match=match,
        )
        checks.boolean("class_metrics", class_metrics)
        checks.boolean("extended_summary", extended_summary)
        checks.one_of("backend", backend, ("pycocotools", "faster_coco_eval"))
        if match == "update":
            _check_beside_matches(extended_summary, class_metrics and average == "micro")
        super().__init__(settings.inputs, settings.stored, **kwargs)
        self.box_format, self.iou_type, self.average = box_format, settings.iou_types, average
        self.iou_thresholds, self.rec_thresholds = list(settings.thresholds), list(settings.levels)
        self.max_detection_thresholds = list(settings.limits)
        self.class_metrics, self.extended_summary = class_metrics, extended_summary
        self._settings: CocoSettings = settings
        self._report = Report(class_metrics, extended_summary, class_names)

    def update(self, preds: Images, target: Images, sample_ids: SampleIds = None) -> None:
        """Add images.

        Args:
            preds: a list of dicts, one per image, with ``boxes`` (``masks``, ``keypoints``, ``ious``), ``scores``,
                ``labels``; or one dict with the rows of all images end to end and ``counts``, the rows per image.
                ``masks`` are (N, H, W) bool, or run-length codes, which are decoded and checked here.
            target: likewise, without scores; ``iscrowd`` and ``area`` if wanted.
            sample_ids: (B,) integers, one per image, a tensor or a list; in every update or in none. An id counts once,
                over all updates and ranks, so that a sampler may pad: of several copies the first counts, in the order
                of ranks, then of updates, whatever was detected in the others; they must have as many ground truths,
                which is all that is compared: another image of the same id and number is left out without a word.

        Dense masks are turned into run lengths here, which on an accelerator waits for the device; all else does not.

        Raises:
            ValueError: for input that breaks a rule, naming image and key; the state is then as it was. What can be
                seen only in the values is raised by ``compute`` when the tensors lie on an accelerator.
        """
        columns, broken = self._inputs.validate(preds, target)
        counts, most = columns["detections_per_image"], self.max_detection_thresholds[-1]
        if self.warn_on_many_detections and counts.device.type == "cpu" and len(counts) and int(counts.max()) > most:
            warn_caller(
                f"An image has {int(counts.max())} detections; of each class only the best {most} count. Raise "
                "`max_detection_thresholds`, or set `warn_on_many_detections = False`",
                UserWarning,
            )
        self._add(columns, broken, sample_ids)

    @property
    def _can_exchange(self) -> bool:
        return not self.extended_summary  # whose IoUs are those of all images

    def _settings_text(self) -> str:
        settings, usual = self._settings, default_settings(self.iou_type)
        return self._text_of(
            ("box_format", "iou_type", "average"),
            max_detection_thresholds=None if settings.limits == usual.limits else self.max_detection_thresholds,
            iou=settings.own_iou,
            box_width=settings.box_width,
            sigmas=None if settings.sigmas == usual.sigmas else list(settings.sigmas),
            backend="pycocotools",
        )


def _check_beside_matches(extended_summary: bool, classes_of_micro: bool) -> None:
    """Refuse settings whose results need more than matches."""
    if extended_summary:
        raise ValueError("`match='update'` keeps no shapes, which `extended_summary` needs; give `match='compute'`")
    if classes_of_micro:
        raise ValueError("`match='update'` with `average='micro'` knows no classes: `class_metrics` must be False")
