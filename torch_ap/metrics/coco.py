"""COCO's mean average precision as a metric; the function of that name in ``torch_ap.functional`` computes it."""

from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor

from torch_ap.functional.curve_record import Curve
from torch_ap.functional.detection_curves import curves_of_coco
from torch_ap.inference.images.resampled_rankings import InterpolationRule
from torch_ap.inputs.detections import Columns, Images, Kind, OwnSimilarity
from torch_ap.matching import coco
from torch_ap.matching.coco import ClassNames, Report, check_names, per_class
from torch_ap.matching.coco_numbers import CocoNumbers
from torch_ap.matching.coco_settings import CocoSettings, default_settings, settings_of
from torch_ap.matching.geometries import AreaRanges, OwnIoU
from torch_ap.matching.matched import Matches, Shares
from torch_ap.metrics import representation
from torch_ap.metrics.coco_files import CocoFiles
from torch_ap.rules import checks
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import AnyBoxFormat, IoUType


class MeanAveragePrecision(CocoFiles):
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
        extended_summary: whether COCO's arrays and all IoUs are given too.
        average: "macro" or "micro".
        backend: accepted, so that calls need no change, and ignored: neither backend is used.
        area_ranges, class_names, iou, box_width, sigmas, area_as_given: as for the function.
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
        sigmas: list[float] | None = None,
        area_as_given: bool = False,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = settings_of(
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
        )
        checks.boolean("class_metrics", class_metrics)
        checks.boolean("extended_summary", extended_summary)
        checks.one_of("backend", backend, ("pycocotools", "faster_coco_eval"))
        super().__init__(settings.inputs, **kwargs)
        self.box_format, self.iou_type, self.average = box_format, settings.iou_types, average
        self.iou_thresholds, self.rec_thresholds = list(settings.thresholds), list(settings.levels)
        self.max_detection_thresholds = list(settings.limits)
        self.class_metrics, self.extended_summary = class_metrics, extended_summary
        self._settings: CocoSettings = settings
        self._report = Report(class_metrics, extended_summary, class_names)

    def update(self, preds: Images, target: Images, sample_ids: Tensor | None = None) -> None:
        """Add images.

        Args:
            preds: a list of dicts, one per image, with ``boxes`` (``masks``, ``keypoints``, ``ious``), ``scores``,
                ``labels``; or one dict with the rows of all images end to end and ``counts``, the rows per image.
                ``masks`` are (N, H, W) bool, or run-length codes, which are decoded and checked here.
            target: likewise, without scores; ``iscrowd`` and ``area`` if wanted.
            sample_ids: (B,) integers, one per image; in every update or in none. An id counts once, over all updates
                and ranks, so that a sampler may pad: of several copies the first counts, in the order of ranks, then of
                updates, whatever was detected in the others; they must have as many ground truths.

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

    def compute(self) -> dict[str, Any]:
        """All numbers of the images so far, by torchmetrics' names."""
        columns = self._columns()
        dtype = self._dtype_of_result(columns["detection_scores"].dtype)
        return self._report(self._settings, columns, dtype, self._shares, self._matched_here)

    def per_class(
        self, iou_threshold: float = 0.5, score_threshold: float = float("-inf"), iou_type: str | None = None
    ) -> dict[str, Any]:
        """A table with one row per class.

        Args:
            iou_threshold: one of the IoU thresholds, at which ``tp`` and ``fp`` are counted.
            score_threshold: the lowest score that counts there.
            iou_type: which one, where there are several; default the first.

        Returns:
            Columns of one length: ``class``, ``name``, ``ap``, ``ap_50``, ``ap_75``, ``ar`` (float64, -1 without ground
            truths), ``ground_truths`` (crowds left out), ``detections``, ``tp``, ``fp``.

        Raises:
            ValueError: for a threshold that the metric does not have.
        """
        with self._all_ranks():
            return per_class(
                self._numbers(self._columns(), iou_type), self._report.class_names, iou_threshold, score_threshold
            )

    def per_threshold(self, iou_type: str | None = None) -> dict[str, Tensor]:
        """A table with one row per IoU threshold: AP in each area range, at the last detection limit.

        Args:
            iou_type: which one, where there are several; default the first.

        Returns:
            Columns of one length: ``iou_threshold``, and one by the name of each area range, "all" first: float64, the
            mean over classes, -1 without ground truths. Their means are ``map``, ``map_small`` and so on of
            ``compute()``.
        """
        thresholds = self._settings.thresholds
        with self._all_ranks():
            numbers = self._numbers(self._columns(), iou_type, micro=self.average == "micro")
        columns = {
            name: torch.stack([numbers.mean_precision(area, threshold) for threshold in thresholds])
            for area, name in enumerate(self._settings.areas)
        }
        return {"iou_threshold": torch.tensor(thresholds, dtype=torch.float64), **columns}

    def curve(
        self,
        iou_threshold: float = 0.5,
        area: str = "all",
        max_detections: int | None = None,
        iou_type: str | None = None,
        class_names: ClassNames = None,
    ) -> list[Curve]:
        """The curve of each class at one IoU threshold: what each score retrieves, and the AP there.

        Args:
            iou_threshold: one of the IoU thresholds.
            area: name of an area range.
            max_detections: one of the detection limits; default the last.
            iou_type: which one, where there are several; default the first.
            class_names: names of the labels, as for the class, whose own are the default.

        Returns:
            (K,) :class:`torch_ap.functional.Curve`, in the order of ``classes``, whatever ``average`` is. Items are
            detections, taken one by one as COCO takes them, and positives the ground truths, of which ``m`` counts
            those never found too. AP is NaN without ground truths.

        Raises:
            ValueError: for a threshold, area or limit that the metric does not have, and for names that do not fit.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 30), (0.7, 2)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> metric.curve(0.75, class_names=["cat"])[0].recall
            tensor([0.3333, 0.3333, 0.6667], dtype=torch.float64)
        """
        settings = self._settings
        checks.one_of("area", area, list(settings.areas))
        limit = len(settings.limits) - 1
        if max_detections is not None:
            limit = checks.place_among("max_detections", max_detections, settings.limits)
        place = checks.place_among("iou_threshold", iou_threshold, settings.thresholds)
        check_names(class_names)
        with self._all_ranks():
            numbers = self._numbers(self._columns(), iou_type)
        names = self._report.class_names if class_names is None else class_names
        return curves_of_coco(numbers, area, limit, place, names)

    @property
    def _class_names(self) -> ClassNames:
        return self._report.class_names

    @property
    def _can_exchange(self) -> bool:
        return not self.extended_summary  # whose IoUs are those of all images

    def _settings_text(self) -> str:
        settings, usual = self._settings, default_settings(self.iou_type)
        given: dict[str, Any] = {
            "iou_thresholds": None if settings.thresholds == usual.thresholds else self.iou_thresholds,
            "rec_thresholds": None if settings.levels == usual.levels else self.rec_thresholds,
            "max_detection_thresholds": None if settings.limits == usual.limits else self.max_detection_thresholds,
            "area_ranges": None if settings.areas == usual.areas else settings.areas,
            "iou_type": self.iou_type[0] if len(self.iou_type) == 1 else self.iou_type,
            "class_names": self._report.class_names,
            "iou": settings.own_iou,
            "box_width": settings.box_width,
            "sigmas": None if settings.sigmas == usual.sigmas else list(settings.sigmas),
            "area_as_given": settings.area_as_given,
            "validate_args": settings.check_values,
        }
        defaults = representation.defaults_of(type(self))
        del defaults["backend"]
        shown = ("box_format", "iou_type", "average")
        return representation.settings_text(
            defaults, lambda name: given[name] if name in given else getattr(self, name), shown
        )

    def _matched(
        self, columns: Columns, iou_type: str | None, per_class: bool = False
    ) -> tuple[Matches, InterpolationRule]:
        numbers = self._numbers(columns, iou_type, micro=self.average == "micro" and not per_class)
        return numbers.matches, numbers.levels

    def _numbers(self, columns: Columns, iou_type: str | None, *, micro: bool = False) -> CocoNumbers:
        self._check_iou_type(iou_type)
        return self._matched_here(columns, iou_type or self.iou_type[0], micro=micro)

    def _matched_here(
        self, columns: Columns, kind: Kind, *, micro: bool = False, shares: Shares | None = None
    ) -> CocoNumbers:
        """What matching finds, once for all that is asked of the same state."""

        def made() -> CocoNumbers:
            return coco.match(self._settings, columns, kind, micro=micro, shares=shares)

        return self._once(made, kind, micro) if shares is None else made()
