"""Curves of detectors by the rules of COCO, LVIS and VOC, and counts at a score threshold by COCO's."""

from torch import Tensor

from torch_ap.core.base import checks, untraced
from torch_ap.core.base.class_names import ClassNames, check_names, unique_label_names
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import (
    AnyBoxFormat,
    BoxFormat,
    DetectionConvention,
    IoUType,
    Sigmas,
    VOCInterpolation,
    settings_from,
)
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.counts import Counts
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.curves.record import Curve, curve_records
from torch_ap.detection.errors import unmatchable
from torch_ap.detection.errors.matches_at import detections_in_groups
from torch_ap.detection.functions import validate_images
from torch_ap.detection.inputs.images import Images, OwnSimilarity
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.matching.shapes import AreaRanges, OwnIoU
from torch_ap.detection.rules import coco
from torch_ap.detection.rules.coco_counts import counts_of_boxes, settings_of_counts
from torch_ap.detection.rules.coco_numbers import CocoNumbers, CocoSettings, default_settings, settings_of
from torch_ap.detection.rules.lvis import lvis_settings_of
from torch_ap.detection.rules.ultralytics import arguments_by_convention, settings_by_convention
from torch_ap.detection.rules.voc import VocSettings
from torch_ap.inference.groups import Groups
from torch_ap.inference.groups_at_threshold import ItemGroups

__all__ = ["coco_counts", "coco_curve", "lvis_curve", "voc_curve"]


def coco_counts(
    preds: Images,
    target: Images,
    box_format: BoxFormat = "xyxy",
    iou_threshold: float = 0.5,
    score_threshold: float = 0.25,
    *,
    validate_args: bool = True,
) -> Counts:
    """Return the true and false positives and the missed objects of a batch of boxes, for precision, recall and F1.

    Detections with scores of at least the threshold are matched by COCO's rule in their image and class, at most the
    100 best ones of each, and the counts of all classes are summed. A batch of a training loop takes a third of the
    time of a metric.

    Args:
        preds, target: images as for :func:`torch_ap.functional.coco_mean_average_precision`, lists or packed.
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_threshold: a number in [0, 1].
        score_threshold: the least score, a number other than NaN; it is converted to the dtype of the scores, but at
            least float32, and float64 for integers.
        validate_args: whether to check values.

    Returns:
        :class:`torch_ap.functional.Counts` of 0-d float64 tensors, with ``precision``, ``recall`` and ``f_beta()``, the
        F1. ``tn`` and the ratios that use it are NaN, because detections have no true negatives.

    Raises:
        TypeError, ValueError: for an invalid argument, with image and key.

    Equals ``tp``, ``fp`` and ``fn`` of ``torch_ap.MeanAveragePrecision.operating_points`` with this
    ``score_threshold`` and ``per_class=False``. The sums of the counts over batches are the counts of all images.

    Source: Lin et al. (2014), Microsoft COCO: Common Objects in Context.

    Example:
        >>> import torch
        >>> from torch_ap.detection.curves import coco_counts
        >>> boxes, labels = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]]), torch.tensor([3, 3])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": labels}]
        >>> at = coco_counts(preds, [{"boxes": boxes[1:], "labels": labels[1:]}])
        >>> at.precision, at.recall, at.f_beta()
        (tensor(0.5000, dtype=torch.float64), tensor(1., dtype=torch.float64), tensor(0.6667, dtype=torch.float64))
    """
    checks.fraction("iou_threshold", iou_threshold)
    score_threshold = checks.number("score_threshold", score_threshold)
    settings = settings_of_counts(box_format, iou_threshold, validate_args)
    return counts_of_boxes(settings, validate_images(settings, preds, target), score_threshold)


@renamed_keywords(area_as_given="use_given_area")
def coco_curve(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_type: IoUType | OwnSimilarity = "bbox",
    iou_threshold: float = 0.5,
    rec_thresholds: list[float] | None = None,
    max_detections: int | None = None,
    *,
    convention: DetectionConvention | None = None,
    area: str = "all",
    area_ranges: AreaRanges | None = None,
    class_names: ClassNames = None,
    iou: OwnIoU | None = None,
    box_width: int = 4,
    sigmas: Sigmas = None,
    use_given_area: bool = False,
    validate_args: bool = True,
) -> list[Curve]:
    """Return the curve of each class of a detector at one IoU threshold, by COCO's rules.

    Args:
        preds, target: images as for :func:`torch_ap.functional.coco_mean_average_precision`, lists or packed.
        box_format, iou_type, rec_thresholds: as there; one ``iou_type``.
        iou_threshold: a number in [0, 1].
        max_detections: the number of best detections of a class and image that count. Default: 100; 20 for keypoints.
        convention: None for COCO's rules; "ultralytics" or "ultralytics-8.3" for the curves of :func:`voc_curve` with
            this convention. It requires the default of the arguments that :func:`voc_curve` lacks.
        area: name of an area range, "all" or one of ``area_ranges``.
        area_ranges, class_names, iou, box_width, sigmas, use_given_area, validate_args: as there.

    Returns:
        (K,) :class:`torch_ap.curves.Curve`, in the order of the labels of the images, with the label or its name as
        ``name``. Items are detections, each its own threshold. Positives are ground truths; ``m`` also counts
        undetected ones. AP is COCO's at this threshold, NaN without ground truths.

    Raises:
        TypeError, ValueError: for an invalid argument, with image and key.

    Equals ``torch_ap.MeanAveragePrecision.curve``. Its ``interpolated("101-point")`` equals the ``precision`` of
    COCOeval's ``eval``.

    Source: Lin et al. (2014), Microsoft COCO: Common Objects in Context.

    Example:
        >>> import torch
        >>> from torch_ap.detection.curves import coco_curve
        >>> boxes, labels = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]]), torch.tensor([3, 3])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": labels}]
        >>> curves = coco_curve(preds, [{"boxes": boxes[1:], "labels": labels[1:]}], class_names={3: "cat"})
        >>> curves[0].name, curves[0].thresholds, curves[0].hits
        ('cat', tensor([0.9000, 0.8000]), tensor([0, 1]))
    """
    if convention is not None:
        return voc_curve(**arguments_by_convention(locals(), coco_curve, voc_curve))
    checks.fraction("iou_threshold", iou_threshold)
    limit = checks.positive_int("max_detections", max_detections, optional=True)
    limits = None if limit is None else [limit]
    others = {"iou_thresholds": [iou_threshold], "max_detection_thresholds": limits, "average": "macro"}
    settings = settings_from(settings_of, locals() | others)
    return curves_of_images(settings, preds, target, area, class_names)


@renamed_keywords(fixed="ap_fixed", area_as_given="use_given_area")
def lvis_curve(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_type: IoUType = "bbox",
    iou_threshold: float = 0.5,
    rec_thresholds: list[float] | None = None,
    max_detections: int | None = None,
    *,
    ap_fixed: bool = False,
    area: str = "all",
    area_ranges: AreaRanges | None = None,
    class_names: ClassNames = None,
    use_given_area: bool = False,
    validate_args: bool = True,
) -> list[Curve]:
    """Return the curve of each class of a detector at one IoU threshold, by LVIS's rules.

    Args:
        preds, target: images as for :func:`torch_ap.functional.lvis_mean_average_precision`, lists or packed.
        box_format, iou_type, rec_thresholds, max_detections, ap_fixed: as there; one ``iou_type``.
        iou_threshold: a number in [0, 1].
        area: name of an area range, "all" or one of ``area_ranges``.
        area_ranges, class_names, use_given_area, validate_args: as there.

    Returns:
        (K,) :class:`torch_ap.curves.Curve`, in the order of the labels of the images, with the label or its name as
        ``name``. Items are detections that count, each its own threshold. Positives are ground truths; ``m`` also
        counts undetected ones. AP is LVIS's at this threshold, NaN without ground truths.

    Raises:
        TypeError, ValueError: for an invalid argument, with image and key.

    Equals ``torch_ap.LVISMeanAveragePrecision.curve``. Its ``interpolated("101-point")`` equals the ``precision`` of
    ``LVISEval``'s ``eval`` to 1e-12.

    Source: Gupta, Dollár & Girshick (2019), LVIS: A Dataset for Large Vocabulary Instance Segmentation.

    Example:
        >>> import torch
        >>> from torch_ap.detection.curves import lvis_curve
        >>> box, nothing = torch.tensor([[10.0, 10, 50, 50]]), torch.empty(0, dtype=torch.int64)
        >>> pred = {"boxes": box.repeat(2, 1), "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([3, 7])}
        >>> lists = {"neg_category_ids": nothing, "not_exhaustive_category_ids": nothing}
        >>> curves = lvis_curve([pred], [{"boxes": box, "labels": torch.tensor([3]), **lists}])
        >>> [(one.name, one.thresholds.tolist()) for one in curves]  # 7 was not annotated
        [('3', [0.8999999761581421]), ('7', [])]
    """
    checks.fraction("iou_threshold", iou_threshold)
    arguments = locals() | {"iou_thresholds": [iou_threshold], "frequencies": None}
    settings = settings_from(lvis_settings_of, arguments)
    return curves_of_images(settings, preds, target, area, class_names)


def voc_curve(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_threshold: float = 0.5,
    *,
    interpolation: VOCInterpolation = "all-points",
    inclusive_pixels: bool = True,
    strict: bool = False,
    iou_type: IoUType | OwnSimilarity = "bbox",
    sigmas: Sigmas = None,
    convention: DetectionConvention | None = None,
    class_names: ClassNames = None,
    validate_args: bool = True,
) -> list[Curve]:
    """Return the curve of each class of a detector at one IoU threshold, by VOC's rules.

    Args:
        preds, target: images as for :func:`torch_ap.functional.voc_mean_average_precision`, lists or packed.
        iou_threshold: a number in [0, 1].
        box_format, interpolation, inclusive_pixels, strict, iou_type, sigmas, convention, validate_args: as there.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0.

    Returns:
        (K,) :class:`torch_ap.curves.Curve`, in the order of the labels of the images, with the label or its name as
        ``name``. Items are detections, each its own threshold, without detections of difficult objects. Positives are
        ground truths. AP is NaN without ground truths.

    Raises:
        TypeError, ValueError: for an invalid argument, with image and key.

    Equals ``torch_ap.VOCMeanAveragePrecision.curve``, and ``rec`` and ``prec`` of ``VOCevaldet.m``.

    Source: Everingham et al. (2010), The PASCAL Visual Object Classes (VOC) Challenge, section 4.2.

    Example:
        >>> import torch
        >>> from torch_ap.detection.curves import voc_curve
        >>> boxes, labels = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]]), torch.tensor([3, 3])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": labels}]
        >>> voc_curve(preds, [{"boxes": boxes[1:], "labels": labels[1:]}])[0].precision
        tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    checks.fraction("iou_threshold", iou_threshold)
    settings = settings_from(settings_by_convention, locals() | {"iou_thresholds": iou_threshold})
    check_names(class_names)
    columns = validate_images(settings, preds, target)
    unmatchable.warn_of_unmatchable(settings, columns)
    return curves_of_voc(settings, settings.matching(columns), threshold=0, class_names=class_names)


def curves_of_images(
    settings: CocoSettings, preds: Images, target: Images, area: str, class_names: ClassNames
) -> list[Curve]:
    """Return the curves of the classes by settings of COCO or LVIS with one threshold, at the last limit."""
    if len(settings.iou_types) > 1:
        raise_invalid("iou_type", "must be one kind for a curve", settings.iou_types)
    checks.one_of("area", area, list(settings.areas))
    check_names(class_names)
    columns = validate_images(settings, preds, target)
    unmatchable.warn_of_unmatchable(settings, columns)
    numbers = coco.match(settings, columns, settings.iou_types[0])
    return curves_of_coco(numbers, area, len(settings.limits) - 1, threshold=0, class_names=class_names)


def curves_of_coco(
    numbers: CocoNumbers,
    area: str,
    limit: int,
    threshold: int,
    class_names: ClassNames,
    groups: Groups | None = None,
) -> list[Curve]:
    """Return the curves of the classes at a limit and a threshold of the settings, in one area range."""
    settings = numbers.settings
    cell = (list(settings.areas).index(area), limit, threshold)
    usual = settings.levels == default_settings(settings.iou_types).levels
    convention = Convention(interpolation="101-point" if usual else numbers.levels)
    rankings, each = numbers.rankings(*cell), numbers.ranking_precision(*cell)
    grouped = (
        None if groups is None else detections_in_groups(numbers.matches_within(limit), cell[0], threshold, groups)
    )
    return _class_curves(rankings, convention, numbers.labels, class_names, each, grouped)


def curves_of_voc(
    settings: VocSettings,
    labels_and_matches: tuple[Tensor, Matches],
    threshold: int,
    class_names: ClassNames,
    groups: Groups | None = None,
) -> list[Curve]:
    """Return the curves of the classes at a threshold of the settings, from their labels and matches."""
    labels, matches = labels_and_matches
    convention = Convention(interpolation=settings.interpolation)
    grouped = None if groups is None else detections_in_groups(matches, 0, threshold, groups)
    return _class_curves(matches.rankings(0, threshold), convention, labels, class_names, None, grouped)


def _class_curves(
    rankings: HitCurve,
    convention: Convention,
    labels: Tensor,
    names: ClassNames,
    each: Tensor | None,
    groups: list[ItemGroups] | None,
) -> list[Curve]:
    """Return the curves of the classes; ``each`` is their AP, or None, and ``groups`` their detections, or None."""
    unique_names = unique_label_names(labels, names)
    return curve_records(rankings, convention, unique_names, each, groups=groups) if unique_names else []


untraced.untraced_package(__name__)
