"""Mean average precision of object detectors on federated ground truth, LVIS's, and its curves."""

from collections.abc import Mapping
from typing import Any

import torch

from torch_ap.analysis import low_values
from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.functional.curve_record import Curve
from torch_ap.functional.detection import validated
from torch_ap.functional.detection_curves import curves_of_images
from torch_ap.inputs.detections import Images
from torch_ap.matching.coco import Report
from torch_ap.matching.geometries import AreaRanges
from torch_ap.matching.lvis import Frequency, lvis_settings_of
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames
from torch_ap.rules.options import AnyBoxFormat, IoUType


def lvis_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_type: IoUType | tuple[IoUType, ...] = "bbox",
    *,
    iou_thresholds: list[float] | None = None,
    rec_thresholds: list[float] | None = None,
    max_detections: int | None = None,
    fixed: bool = False,
    frequencies: Mapping[int, Frequency] | None = None,
    class_metrics: bool = False,
    area_ranges: AreaRanges | None = None,
    class_names: ClassNames = None,
    area_as_given: bool = False,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Any]:
    r"""LVIS's mean average precision and recall of a detector, where no image was searched for every category.

    It is :func:`torch_ap.functional.coco_mean_average_precision` of fewer detections. Of each image the 300 best count,
    over all categories. Of these, one counts if its category is that of a ground truth of the image, or is among
    ``neg_category_ids``: elsewhere it is not known whether it is right. An unmatched one whose category is among
    ``not_exhaustive_category_ids`` is no false positive. There are no crowds. What has no area does not take part.

    Args:
        preds: images as in :func:`torch_ap.functional.coco_mean_average_precision`, list or packed: ``boxes`` or
            ``masks``, ``scores``, ``labels``.
        target: likewise: ``boxes`` or ``masks``, ``labels``; for each image ``neg_category_ids`` and
            ``not_exhaustive_category_ids``, 1-D integers (packed: those of all images end to end, with
            ``neg_category_ids_counts`` and ``not_exhaustive_category_ids_counts`` (B,)), a category in one of them at
            most, and no ground truth of one in the first; if wanted ``area`` (G,), where
            0 or less means that of the shape, and ``ignore`` (G,) 0 or 1: those need not be found, and what finds them
            does not count.
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_type: "bbox", "segm" or "boundary"; several as a tuple prefix the names of the result ("bbox_map").
        iou_thresholds: numbers in [0, 1]. Default: .5, .55, ..., .95, in float64.
        rec_thresholds: recall levels in [0, 1]. Default: 0, .01, ..., 1.
        max_detections: detections that count, the best ones, the first of equals: of an image, default 300; with
            ``fixed`` of a category in all images, default 10,000.
        fixed: whether the number is AP-Fixed: no limit on an image, and one on each category over all images, so that a
            category does not lose its detections to others that score higher.
        frequencies: "r", "c" or "f" of each category, rare, common or frequent in the training set. Then every label
            and id must be one of these categories, and ``map_rare``, ``map_common`` and ``map_frequent`` are given.
        class_metrics: whether AP and AR of each class are given too. It costs nothing.
        area_ranges: names and bounds (both included) of area ranges beside "all". Default: small, medium, large.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0. With ``class_metrics``
            each class has its own entries then.
        area_as_given: whether ``area`` is required and taken as it is, as lvis takes what stands in a file: a ground
            truth of area 0 does not take part. It is then required of detected masks, too.
        validate_args: whether values are checked.
        dtype: of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map``, ``map_50``, ``map_75``, ``map_{area}``, ``map_rare``, ``map_common``, ``map_frequent`` (with
        ``frequencies``), ``mar_{max_detections}``, ``mar_{area}``: 0-d, -1 where no ground truth is there. They are
        lvis' AP, AP50, AP75, APs, APm, APl, APr, APc, APf, AR@300, ARs@300, ARm@300 and ARl@300.
        ``map_per_class``, ``mar_{max_detections}_per_class`` (K,) or -1; ``classes`` (K,) as for COCO.

    Raises:
        ValueError: for an argument that breaks one of these rules, and for a category that is negative in an image
            where it has a ground truth; the message names image and key.

    Equals ``lvis.LVISEval`` to 1e-12, and with ``fixed`` that of ``LVISResults(max_dets=-1)`` whose results were cut to
    10,000 of each category (equal scores at the cut: first by image, then by their order in it). Where lvis differs:
    the ground truth that a file calls 0 counts, where lvis takes its matches for none.

    Source: Gupta, Dollár & Girshick (2019), LVIS: A Dataset for Large Vocabulary Instance Segmentation; ``fixed``: Dave
    et al. (2021), Evaluating Large-Vocabulary Object Detectors: The Devil is in the Details.

    Example:
        >>> import torch
        >>> from torch_ap.functional import lvis_mean_average_precision
        >>> box, nothing = torch.tensor([[10.0, 10, 50, 50]]), torch.empty(0, dtype=torch.int64)
        >>> labels = torch.tensor([3, 5, 7])
        >>> preds = [{"boxes": box.repeat(3, 1), "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": labels}]
        >>> target = {"boxes": box, "labels": labels[:1], "not_exhaustive_category_ids": nothing}
        >>> target["neg_category_ids"] = torch.tensor([5])  # of 7 it is not known
        >>> found = lvis_mean_average_precision(preds, [target], frequencies={3: "r", 5: "c", 7: "f"})
        >>> found["map"], found["map_rare"], found["map_frequent"]
        (tensor(1.), tensor(1.), tensor(-1.))
    """
    settings = lvis_settings_of(
        box_format=box_format,
        iou_type=iou_type,
        iou_thresholds=iou_thresholds,
        rec_thresholds=rec_thresholds,
        max_detections=max_detections,
        fixed=fixed,
        frequencies=frequencies,
        area_ranges=area_ranges,
        area_as_given=area_as_given,
        validate_args=validate_args,
    )
    columns = validated(settings.inputs, preds, target)
    report = Report(class_metrics, class_names=class_names)
    found = report(settings, columns, dtype or result_dtype(columns["detection_scores"].dtype))
    low_values.remark(settings, columns, found)
    return found


def lvis_curve(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_type: IoUType = "bbox",
    iou_threshold: float = 0.5,
    rec_thresholds: list[float] | None = None,
    max_detections: int | None = None,
    *,
    fixed: bool = False,
    area: str = "all",
    area_ranges: AreaRanges | None = None,
    class_names: ClassNames = None,
    area_as_given: bool = False,
    validate_args: bool = True,
) -> list[Curve]:
    """The curve of each class of a detector at one IoU threshold, as LVIS matches and counts its detections.

    Args:
        preds, target: images as for :func:`lvis_mean_average_precision`, lists or packed.
        box_format, iou_type, rec_thresholds, max_detections, fixed: as there; one ``iou_type``.
        iou_threshold: a number in [0, 1].
        area: name of an area range, "all" or one of ``area_ranges``.
        area_ranges, class_names, area_as_given, validate_args: as there.

    Returns:
        (K,) :class:`torch_ap.functional.Curve`, in the order of the labels that occur, with the label or its name as
        ``name``. Items are detections that count, taken one by one, and positives the ground truths, of which ``m``
        counts those never found too. AP is LVIS's at this threshold, NaN without ground truths.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names image and key.

    Equals what ``torch_ap.LVISMeanAveragePrecision.curve`` gives; its ``interpolated("101-point")`` the ``precision``
    of ``LVISEval``'s ``eval`` to 1e-12.

    Source: Gupta, Dollár & Girshick (2019), LVIS: A Dataset for Large Vocabulary Instance Segmentation.

    Example:
        >>> import torch
        >>> from torch_ap.functional import lvis_curve
        >>> box, nothing = torch.tensor([[10.0, 10, 50, 50]]), torch.empty(0, dtype=torch.int64)
        >>> found = {"boxes": box.repeat(2, 1), "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([3, 7])}
        >>> lists = {"neg_category_ids": nothing, "not_exhaustive_category_ids": nothing}
        >>> curves = lvis_curve([found], [{"boxes": box, "labels": torch.tensor([3]), **lists}])
        >>> [(one.name, one.thresholds.tolist()) for one in curves]  # of 7 it is not known
        [('3', [0.8999999761581421]), ('7', [])]
    """
    checks.fraction("iou_threshold", iou_threshold)
    settings = lvis_settings_of(
        box_format=box_format,
        iou_type=iou_type,
        iou_thresholds=[iou_threshold],
        rec_thresholds=rec_thresholds,
        max_detections=max_detections,
        fixed=fixed,
        frequencies=None,
        area_ranges=area_ranges,
        area_as_given=area_as_given,
        validate_args=validate_args,
    )
    return curves_of_images(settings, preds, target, area, class_names)
