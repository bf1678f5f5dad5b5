"""Mean average precision of object detectors as functions: COCO's and PASCAL VOC's."""

from typing import Any, Literal

import torch
from torch import Tensor

from torch_ap.analysis import low_values
from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.inputs.detections import Columns, DetectionInputs, Images, OwnSimilarity
from torch_ap.matching.coco import Report
from torch_ap.matching.coco_settings import settings_of
from torch_ap.matching.geometries import AreaRanges, OwnIoU
from torch_ap.matching.voc import voc_settings_of
from torch_ap.rules import detections, values
from torch_ap.rules.class_names import ClassNames
from torch_ap.rules.options import AnyBoxFormat, IoUType, Sigmas, VOCInterpolation


def coco_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_type: IoUType | OwnSimilarity | tuple[IoUType, ...] = "bbox",
    iou_thresholds: list[float] | None = None,
    rec_thresholds: list[float] | None = None,
    max_detection_thresholds: list[int] | None = None,
    class_metrics: bool = False,
    extended_summary: bool = False,
    average: Literal["macro", "micro"] = "macro",
    *,
    area_ranges: AreaRanges | None = None,
    class_names: ClassNames = None,
    iou: OwnIoU | None = None,
    box_width: int = 4,
    sigmas: Sigmas = None,
    area_as_given: bool = False,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Any]:
    r"""COCO's mean average precision and recall of a detector.

    .. math::
        mAP = \frac{1}{T K} \sum_{\tau, c} \frac{1}{101} \sum_{r \in \{0, .01, \dots, 1\}} \max_{t : r(t) \ge r} p(t)

    over T IoU thresholds and K classes, with p(t) and r(t) the precision and recall of the t best detections of class c
    when a detection is right if it is matched, greedily and best first, to a ground truth of IoU at least :math:`\tau`.

    Args:
        preds: a list with one dict per image: ``boxes`` (D, 4), ``scores`` (D,), ``labels`` (D,) integers; or, packed,
            one dict with the rows of all images end to end and ``counts`` (B,), the rows per image. ``masks`` for
            ``iou_type="segm"`` and "boundary" (in lists only): (D, H, W) bool, or a list of COCO run-length codes,
            ``size`` and ``counts``, whose runs add up to height times width. ``ious`` (D, G) for
            ``iou_type="precomputed"`` (packed: those matrices end to end, flat). ``keypoints`` (D, K, 3) for
            ``iou_type="keypoints"``: x, y, and a number that does not count. ``boxes`` (D, 5) or (D, 8) for
            ``iou_type="rotated"``. ``intervals`` (D, 2), start and end, for ``iou_type="intervals"``.
        target: the same without scores: ``boxes`` (G, 4), ``labels`` (G,); if wanted ``iscrowd`` (G,) 0 or 1, and
            ``area`` (G,), finite, where 0 or less means that of the shape, as in torchmetrics. With ``keypoints``
            (G, K, 3), whose third number is the visibility, 0 not labelled, 1 hidden or 2 visible, ``area`` is required
            and taken as it is; ``boxes`` matter only where no point is labelled, and may be missing or NaN: what lies
            near such a box finds an object that does not count.
        box_format: "xyxy" corners, "xywh" corner and size, "cxcywh" centre and size. Boxes are finite; one of zero
            or negative size overlaps nothing, as in COCO. A negative size in ``target`` is an error, except with
            ``validate_args=False`` or own ``iou``: it shows that the format is another one, sizes read as corners.
            Of rotated boxes "cxcywhr", "xywhr" or "xyxyxyxy", as in :func:`torch_ap.functional.rotated_box_iou`. Left
            out for "intervals", "precomputed" and a function, to which it means nothing.
        iou_type: "bbox", "segm", "precomputed", or "boundary": masks by the lower of two IoUs, their own and that of
            their boundaries, the pixels of each within 2% of the image's diagonal (at least 1 pixel) of its outside,
            rows and columns apart; a crowd's is that of masks alone (Cheng et al. 2021). Several as a tuple prefix the
            names of the result ("bbox_map"). One of "keypoints", "rotated", "intervals" alone; keypoints are compared
            by :func:`torch_ap.functional.keypoint_similarity` in place of IoU. Or a function of the two dicts of an
            image, without packed form, to the (D, G) similarity of its detections and ground truths, at most 1;
            ``area`` is then what you give, or 0.
        iou_thresholds: numbers in [0, 1]. Default: .5, .55, ..., .95, in float64.
        rec_thresholds: recall levels in [0, 1], in any order. Default: 0, .01, ..., 1.
        max_detection_thresholds: detections of a class and image that count, any number of ints. Default: 1, 10, 100;
            20 for keypoints.
        class_metrics: whether AP and AR of each class are given too. It costs nothing.
        extended_summary: whether COCO's arrays and all IoUs are given too.
        average: "macro", the mean over classes, or "micro", all objects as one class.
        area_ranges: names and bounds (both included) of area ranges beside "all". Default: COCO's small, medium, large;
            for keypoints medium and large; for intervals and own geometry none.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0. With ``class_metrics``
            each class has its own entries then. A label beyond the list is an error.
        iou: function of P pairs, (P, W) boxes of detections, (P, W) boxes of ground truths and (P,) crowd flags to
            (P,) IoUs, at most 1, for geometry of your own; ``area`` of detections and ground truths is then what you
            give, or 0.
        box_width: W, for ``iou``.
        sigmas: of K keypoints, a list, array or tensor of numbers from 1e-9 to 1e9; default COCO's 17.
        area_as_given: whether ``area`` is required of all images and taken as it is, as pycocotools takes what stands
            in a file: one of 0 is small, and one below 0 an error. It is then required of detected masks and
            keypoints too, whose area is else that of the mask, or of the box around all points: pycocotools takes that
            of the ``bbox`` where the first result has one.
        validate_args: whether values are checked (NaN, flags).
        dtype: of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map``, ``map_50``, ``map_75``, ``map_{area}``, ``mar_{limit}``, ``mar_{area}``: 0-d, -1 where no ground truth
        is there; for keypoints also ``mar_iou_50`` and ``mar_iou_75``, recall at these thresholds; ``map_per_class``,
        ``mar_{last limit}_per_class`` (K,) or -1; ``classes`` (K,) int32, or int64 for labels beyond it; all of them
        0-d for one class, as torchmetrics' metric gives them. Extended: ``precision``, ``scores`` (T, R, K, A, M),
        ``recall`` (T, K, A, M) float64, ``ious`` by (image, class).

    Raises:
        ValueError: for an argument that breaks one of these rules; the message names image and key.

    Equals ``pycocotools.cocoeval.COCOeval`` to the last bit (on CPU; sums on an accelerator are added in another
    order), and ``torchmetrics.detection.MeanAveragePrecision`` except for these: thresholds are float64, where that has
    float32 and so misses IoUs equal to a threshold; the overall numbers are at the last detection limit, whatever it
    is; a ground-truth box of negative size is refused. Recall levels may come in any order, where pycocotools gives up
    at the first that is not reached; and the ground truth that a file calls 0 counts, where pycocotools takes its
    matches for none.

    Source: Lin et al. (2014), Microsoft COCO: Common Objects in Context; ``cocoeval.py`` and ``maskApi.c`` of its API.
    Of "boundary" Cheng et al. (2021), Boundary IoU: Improving Object-Centric Image Segmentation Evaluation.

    Example:
        >>> import torch
        >>> from torch_ap.functional.detection import coco_mean_average_precision
        >>> boxes, labels = torch.tensor([[258.0, 41.0, 606.0, 285.0]]), torch.tensor([0])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.536]), "labels": labels}]
        >>> target = [{"boxes": torch.tensor([[214.0, 41.0, 562.0, 285.0]]), "labels": labels}]
        >>> coco_mean_average_precision(preds, target)["map"]
        tensor(0.6000)
    """
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
    columns = validated(settings.inputs, preds, target)
    report = Report(class_metrics, extended_summary, class_names)
    found = report(settings, columns, dtype or result_dtype(columns["detection_scores"].dtype))
    low_values.remark(settings, columns, found)
    return found


def validated(inputs: DetectionInputs, preds: Images, target: Images) -> Columns:
    """The columns of images that are all there is; a broken rule is raised at once."""
    columns, broken = inputs.validate(preds, target, copy=False)
    values.raise_first(detections.VALUE_RULES, broken)
    if not columns["detection_labels"].is_cpu:  # on CPU `validate` did
        inputs.remark_on_rows(columns)
    return columns


def voc_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_threshold: float | list[float] = 0.5,
    *,
    interpolation: VOCInterpolation = "all-points",
    inclusive_pixels: bool = True,
    strict: bool = False,
    class_metrics: bool = False,
    iou_type: IoUType | OwnSimilarity = "bbox",
    sigmas: Sigmas = None,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    r"""PASCAL VOC's mean average precision of a detector.

    A detection, best first, belongs to the ground truth of its class and image with the highest IoU. If that IoU
    reaches the threshold it is a true positive, or a false one where an earlier detection had that ground truth; the
    next best ground truth is not tried. Then, for each class,

    .. math::
        AP = \sum_i (r_i - r_{i-1}) \max_{j \ge i} p_j \quad\text{or}\quad
        AP = \frac{1}{11} \sum_{r \in \{0, .1, \dots, 1\}} \max_{j : r_j \ge r} p_j

    Args:
        preds: images as in :func:`coco_mean_average_precision`, list or packed: ``boxes``, ``scores``, ``labels``.
        target: likewise: ``boxes``, ``labels``; if wanted ``difficult`` (G,) 0 or 1: those need not be found, and what
            finds them does not count.
        box_format: "xyxy", "xywh" or "cxcywh", or those of rotated boxes. A negative size in ``target``, as between
            corners, is an error, except with ``validate_args=False``.
        iou_threshold: a number in [0, 1], or several.
        interpolation: "all-points" (VOC 2010 on), "11-point" or "11-point-arange" (VOC 2007), "40-point" (KITTI since
            2019: 1/40, 2/40, ..., 1; its development kit's own numbers are those of
            :func:`torch_ap.functional.kitti_mean_average_precision`), or "101-point". The first of 2007's has the
            levels 0, 0.1, ..., 1 of the definition, so that 3 of 10 found reach 0.3; the second has those of
            ``numpy.arange(0, 1.1, 0.1)``, as py-faster-rcnn and programs after it, where 3 of 10 do not reach
            0.30000000000000004.
        inclusive_pixels: whether corners name pixels that they include, as in the devkit: sizes are x2 - x1 + 1.
        strict: whether an IoU must exceed the threshold (py-faster-rcnn, Detectron2) rather than reach it (devkit).
        class_metrics: whether the AP of each class is given too.
        iou_type, sigmas: as for :func:`coco_mean_average_precision`, one kind. What a crowd is there, ``difficult`` is
            here. ``inclusive_pixels`` is of boxes alone, and left out with others.
        validate_args: whether values are checked.
        dtype: of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map`` 0-d, the mean over classes with ground truths and over thresholds, NaN where no class has one;
        ``map_per_threshold`` (T,) for a list of thresholds; ``map_per_class`` (K,) with ``class_metrics``, NaN for a
        class without ground truths; ``classes`` (K,) int32, or int64 for labels beyond it; all of them 0-d for one
        class or threshold.

    Raises:
        ValueError: for an argument that breaks one of these rules; the message names image and key.

    Equals ``VOCevaldet.m`` of the development kit.

    Source: Everingham et al. (2010), The PASCAL Visual Object Classes (VOC) Challenge, section 4.2.

    Example:
        >>> import torch
        >>> from torch_ap.functional.detection import voc_mean_average_precision
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([3, 3])}]
        >>> target = [{"boxes": boxes[:1], "labels": torch.tensor([3])}]
        >>> voc_mean_average_precision(preds, target)["map"]
        tensor(1.)
    """
    settings = voc_settings_of(
        box_format=box_format,
        iou_threshold=iou_threshold,
        interpolation=interpolation,
        inclusive_pixels=inclusive_pixels,
        strict=strict,
        iou_type=iou_type,
        sigmas=sigmas,
        validate_args=validate_args,
    )
    columns = validated(settings.inputs, preds, target)
    found = settings.report(
        columns,
        dtype or result_dtype(columns["detection_scores"].dtype),
        several=not isinstance(iou_threshold, int | float),
        class_metrics=class_metrics,
    )
    low_values.remark(settings, columns, found)
    return found
