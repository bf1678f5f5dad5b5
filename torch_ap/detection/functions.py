"""Mean average precision of object detectors by the rules of each data set, as functions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import (
    AnyBoxFormat,
    BoxFormat,
    DetectionConvention,
    GroupOf,
    IoUType,
    Sigmas,
    VOCInterpolation,
    settings_from,
)
from torch_ap.core.items.settings import result_dtype
from torch_ap.detection.errors import unmatchable
from torch_ap.detection.inputs import rules
from torch_ap.detection.inputs.hierarchy import Parents
from torch_ap.detection.inputs.images import Columns, Images, OwnSimilarity
from torch_ap.detection.matching.shapes import AreaRanges, OwnIoU, ShapeSettings
from torch_ap.detection.rules.coco import Report, narrow_to_int32, zero_dimensional
from torch_ap.detection.rules.coco_numbers import settings_of
from torch_ap.detection.rules.kitti import kitti_settings_of
from torch_ap.detection.rules.lvis import Frequency, lvis_settings_of
from torch_ap.detection.rules.nuscenes import DISTANCES, nuscenes_settings_of
from torch_ap.detection.rules.open_images import open_images_settings_of
from torch_ap.detection.rules.ultralytics import arguments_by_convention, settings_by_convention


@renamed_keywords(area_as_given="use_given_area")
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
    convention: DetectionConvention | None = None,
    area_ranges: AreaRanges | None = None,
    class_names: ClassNames = None,
    iou: OwnIoU | None = None,
    box_width: int = 4,
    sigmas: Sigmas = None,
    use_given_area: bool = False,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Any]:
    r"""Return COCO's mean average precision and recall of a detector.

    .. math::
        mAP = \frac{1}{T K} \sum_{\tau, c} \frac{1}{101} \sum_{r \in \{0, .01, \dots, 1\}} \max_{t : r(t) \ge r} p(t)

    over T IoU thresholds and K classes, with p(t) and r(t) the precision and recall of the t best detections of class
    c. A detection is a true positive if the greedy matching by descending score gives it a ground truth with an IoU of
    at least :math:`\tau`.

    Args:
        preds: a list with one dict per image: ``boxes`` (D, 4), ``scores`` (D,), ``labels`` (D,) integers; or, packed,
            one dict with the concatenated rows of all images and ``counts`` (B,), the rows per image. ``masks`` for
            ``iou_type="segm"`` and "boundary" (in lists only): (D, H, W) bool, or a list of COCO run-length codes,
            ``size`` and ``counts``, with a sum of runs of height times width. ``ious`` (D, G) for
            ``iou_type="precomputed"`` (packed: the flat concatenated matrices). ``keypoints`` (D, K, 3) for
            ``iou_type="keypoints"``: x, y, and a number that is ignored. ``boxes`` (D, 5) or (D, 8) for
            ``iou_type="rotated"``. ``intervals`` (D, 2), start and end, for ``iou_type="intervals"``.
        target: dicts without scores: ``boxes`` (G, 4), ``labels`` (G,); optional ``iscrowd`` (G,) 0 or 1, and ``area``
            (G,), finite, where 0 or less means the area of the shape, as in torchmetrics. ``keypoints`` (G, K, 3)
            have the visibility as third number: 0 not labelled, 1 hidden, 2 visible. They require ``area``, which is
            used unchanged. Their ``boxes`` matter only if no point is labelled, and may be missing or NaN: detections
            near such a box match an object that does not count.
        box_format: "xyxy" corners, "xywh" corner and size, "cxcywh" centre and size. Boxes are finite; a box of zero
            or negative size overlaps nothing, as in COCO. A negative size in ``target`` is an error, except with
            ``validate_args=False`` or a function ``iou``, because it indicates sizes read as corners. Rotated boxes are
            "cxcywhr", "xywhr" or "xyxyxyxy", as in :func:`torch_ap.detection.pairs.rotated_box_iou`. Must be omitted
            for "intervals", "precomputed" and a function.
        iou_type: "bbox", "segm", "precomputed", or "boundary", the lower of the IoU of two masks and the IoU of their
            boundaries. A boundary contains the pixels within 2% of the image's diagonal (at least 1 pixel) of the
            outside, by rows and columns separately; a crowd has only the IoU of masks (Cheng et al. 2021). Several
            kinds as a tuple prefix the names of the result ("bbox_map"). "keypoints", "rotated" and "intervals" cannot
            be combined; keypoints are compared by :func:`torch_ap.detection.pairs.keypoint_similarity` in place of
            IoU. Or a function from the two dicts of an image, not packed, to the (D, G) similarity of its detections
            and ground truths, at most 1; ``area`` is then the given area, or 0.
        iou_thresholds: numbers in [0, 1]. Default: .5, .55, ..., .95, in float64.
        rec_thresholds: recall levels in [0, 1], in any order. Default: 0, .01, ..., 1.
        max_detection_thresholds: limits of the detections of a class and image that count, any number of ints. Default:
            1, 10, 100; 20 for keypoints.
        class_metrics: whether to return AP and AR of each class too, at no cost.
        extended_summary: whether to return COCO's arrays and all IoUs too.
        average: "macro", the mean over classes, or "micro", all objects as one class.
        convention: None for COCO's rules. "ultralytics" or "ultralytics-8.3" for the numbers and the result of
            :func:`voc_mean_average_precision` with this convention. It requires the default of the arguments that this
            function lacks: recall levels, limits, area ranges, average, names and functions of boxes.
        area_ranges: names and inclusive bounds of area ranges in addition to "all". Default: COCO's small, medium,
            large; for keypoints medium and large; for intervals and custom geometry none.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0. With ``class_metrics``
            each class then has its own entries. A label beyond the list is an error.
        iou: function of P pairs, (P, W) boxes of detections, (P, W) boxes of ground truths and (P,) crowd flags to
            (P,) IoUs, at most 1, for custom geometry; ``area`` of detections and ground truths is then the given area,
            or 0.
        box_width: W, for ``iou``.
        sigmas: numbers of the K keypoints, a list, array or tensor of numbers from 1e-9 to 1e9; default COCO's 17.
        use_given_area: whether to require ``area`` in all images and use it unchanged, as pycocotools uses the area in
            a file: 0 is small, and a negative area is an error. Detected masks and keypoints then need it too.
            Otherwise their area is the area of the mask, or of the box around all points, while pycocotools uses the
            area of the ``bbox`` if the first result has one.
        validate_args: whether values are checked (NaN, flags).
        dtype: dtype of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map``, ``map_50``, ``map_75``, ``map_{area}``, ``mar_{limit}``, ``mar_{area}``: 0-d, -1 without ground
        truths; for keypoints also ``mar_iou_50`` and ``mar_iou_75``, recall at these thresholds; ``map_per_class``,
        ``mar_{last limit}_per_class`` (K,) or -1; ``classes`` (K,) int32, or int64 for larger labels; all of them
        0-d for one class, as in torchmetrics. Extended: ``precision``, ``scores`` (T, R, K, A, M),
        ``recall`` (T, K, A, M) float64, ``ious`` by (image, class).

    Raises:
        ValueError: for an invalid argument, with image and key.

    Equals ``pycocotools.cocoeval.COCOeval`` to the last bit (on CPU; an accelerator adds in another order). Two
    differences: recall levels may come in any order, while pycocotools stops at the first unreached one; and the ground
    truth with id 0 in a file counts, while pycocotools ignores its matches. Equals
    ``torchmetrics.detection.MeanAveragePrecision`` except that thresholds are float64, while float32 misses IoUs equal
    to a threshold; that the overall numbers are at the last detection limit; and that a ground-truth box of negative
    size raises an error.

    Source: Lin et al. (2014), Microsoft COCO: Common Objects in Context; ``cocoeval.py`` and ``maskApi.c`` of its API.
    "boundary": Cheng et al. (2021), Boundary IoU: Improving Object-Centric Image Segmentation Evaluation.

    Example:
        >>> import torch
        >>> from torch_ap.detection.functions import coco_mean_average_precision
        >>> boxes, labels = torch.tensor([[258.0, 41.0, 606.0, 285.0]]), torch.tensor([0])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.536]), "labels": labels}]
        >>> target = [{"boxes": torch.tensor([[214.0, 41.0, 562.0, 285.0]]), "labels": labels}]
        >>> coco_mean_average_precision(preds, target)["map"]
        tensor(0.6000)
    """
    if convention is not None:
        voc = voc_mean_average_precision
        return voc(**arguments_by_convention(locals(), coco_mean_average_precision, voc))
    settings = settings_from(settings_of, locals())
    report = partial(Report(class_metrics, extended_summary, class_names), settings)
    return report_images(settings, preds, target, report, dtype)


def report_images(
    settings: ShapeSettings,
    preds: Images,
    target: Images,
    report: Callable[[Columns, torch.dtype], dict[str, Any]],
    dtype: torch.dtype | None,
) -> dict[str, Any]:
    """Return the report of validated images, and warn of ground truths that no detection can match.

    Args:
        settings: settings of the shapes.
        preds, target: images as of a public function.
        report: returns the numbers of the columns in a dtype.
        dtype: dtype of the numbers; None for float64 for float64 scores, else float32.
    """
    columns = validate_images(settings, preds, target)
    numbers = report(columns, dtype or result_dtype(columns["detection_scores"].dtype))
    unmatchable.warn_of_unmatchable(settings, columns)
    return numbers


def validate_images(settings: ShapeSettings, preds: Images, target: Images) -> Columns:
    """Return the columns of all images; raise ValueError for invalid images."""
    columns, broken = settings.inputs.validate(preds, target, copy=False)
    tensors.raise_first(rules.VALUE_RULES, broken)
    if not columns["detection_labels"].is_cpu:  # on CPU `validate` warns
        settings.inputs.warn_about_rows(columns)
    return columns


@renamed_keywords(fixed="ap_fixed", area_as_given="use_given_area")
def lvis_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_type: IoUType | tuple[IoUType, ...] = "bbox",
    *,
    iou_thresholds: list[float] | None = None,
    rec_thresholds: list[float] | None = None,
    max_detections: int | None = None,
    ap_fixed: bool = False,
    frequencies: Mapping[int, Frequency] | None = None,
    class_metrics: bool = False,
    area_ranges: AreaRanges | None = None,
    class_names: ClassNames = None,
    use_given_area: bool = False,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Any]:
    r"""Return LVIS's mean average precision and recall of a detector, for images not annotated with every category.

    It equals :func:`torch_ap.functional.coco_mean_average_precision` with fewer detections. The 300 best detections of
    each image count, over all categories. A detection counts only if its category has a ground truth in the image or is
    one of ``neg_category_ids``; otherwise its truth is unknown. An unmatched detection of a category in
    ``not_exhaustive_category_ids`` is no false positive. There are no crowds. Ground truths without area do not count.

    Args:
        preds: images as in :func:`torch_ap.functional.coco_mean_average_precision`, list or packed: ``boxes`` or
            ``masks``, ``scores``, ``labels``.
        target: ``boxes`` or ``masks``, ``labels``; for each image ``neg_category_ids`` and
            ``not_exhaustive_category_ids``, 1-D integers (packed: concatenated, with ``neg_category_ids_counts`` and
            ``not_exhaustive_category_ids_counts`` (B,)). A category is in at most one of them, and a category with a
            ground truth is not in the first. Optional: ``area`` (G,), where 0 or less means the area of the
            shape, and ``ignore`` (G,) 0 or 1: such ground truths and their detections do not count.
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_type: "bbox", "segm" or "boundary"; several as a tuple prefix the names of the result ("bbox_map").
        iou_thresholds: numbers in [0, 1]. Default: .5, .55, ..., .95, in float64.
        rec_thresholds: recall levels in [0, 1]. Default: 0, .01, ..., 1.
        max_detections: the number of best detections that count, the first of equal scores: per image, default 300;
            with ``ap_fixed`` per category in all images, default 10,000.
        ap_fixed: whether to compute AP-Fixed: a limit on each category over all images in place of a limit per image,
            so that categories of high scores do not displace others.
        frequencies: "r", "c" or "f" of each category, rare, common or frequent in the training set. Every label and id
            must then be one of these categories, and the result has ``map_rare``, ``map_common`` and ``map_frequent``.
        class_metrics: whether to return AP and AR of each class too, at no cost.
        area_ranges: names and inclusive bounds of area ranges in addition to "all". Default: small, medium, large.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0. With ``class_metrics``
            each class then has its own entries.
        use_given_area: whether to require ``area`` and use it unchanged, as lvis uses the area in a file: a ground
            truth of area 0 does not count. Detected masks then need it, too.
        validate_args: whether to check values.
        dtype: dtype of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map``, ``map_50``, ``map_75``, ``map_{area}``, ``map_rare``, ``map_common``, ``map_frequent`` (with
        ``frequencies``), ``mar_{max_detections}``, ``mar_{area}``: 0-d, -1 without ground truths. They are
        lvis' AP, AP50, AP75, APs, APm, APl, APr, APc, APf, AR@300, ARs@300, ARm@300 and ARl@300.
        ``map_per_class``, ``mar_{max_detections}_per_class`` (K,) or -1; ``classes`` (K,) as for COCO.

    Raises:
        ValueError: for an invalid argument, and for a negative category with a ground truth in the image, with image
            and key.

    Equals ``lvis.LVISEval`` to 1e-12, and with ``ap_fixed`` its values for ``LVISResults(max_dets=-1)`` with the
    results cut to 10,000 per category (equal scores at the cut: by image, then by their order in it). One difference:
    the ground truth with id 0 in a file counts, while lvis ignores its matches.

    Source: Gupta, Dollár & Girshick (2019), LVIS: A Dataset for Large Vocabulary Instance Segmentation; ``ap_fixed``:
    Dave et al. (2021), Evaluating Large-Vocabulary Object Detectors: The Devil is in the Details.

    Example:
        >>> import torch
        >>> from torch_ap.functional import lvis_mean_average_precision
        >>> box, nothing = torch.tensor([[10.0, 10, 50, 50]]), torch.empty(0, dtype=torch.int64)
        >>> labels = torch.tensor([3, 5, 7])
        >>> preds = [{"boxes": box.repeat(3, 1), "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": labels}]
        >>> target = {"boxes": box, "labels": labels[:1], "not_exhaustive_category_ids": nothing}
        >>> target["neg_category_ids"] = torch.tensor([5])  # 7 was not annotated
        >>> numbers = lvis_mean_average_precision(preds, [target], frequencies={3: "r", 5: "c", 7: "f"})
        >>> numbers["map"], numbers["map_rare"], numbers["map_frequent"]
        (tensor(1.), tensor(1.), tensor(-1.))
    """
    settings = settings_from(lvis_settings_of, locals())
    report = partial(Report(class_metrics, class_names=class_names), settings)
    return report_images(settings, preds, target, report, dtype)


@renamed_keywords(iou_threshold="iou_thresholds")
def voc_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_thresholds: float | list[float] | None = None,
    *,
    convention: DetectionConvention | None = None,
    interpolation: VOCInterpolation = "all-points",
    inclusive_pixels: bool = True,
    strict: bool = False,
    class_metrics: bool = False,
    iou_type: IoUType | OwnSimilarity = "bbox",
    sigmas: Sigmas = None,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    r"""Return PASCAL VOC's mean average precision of a detector.

    By descending score, a detection belongs to the ground truth of its class and image with the highest IoU. If that
    IoU reaches the threshold it is a true positive, or a false positive if an earlier detection matched this ground
    truth; the next best ground truth is not tried. Then, for each class,

    .. math::
        AP = \sum_i (r_i - r_{i-1}) \max_{j \ge i} p_j \quad\text{or}\quad
        AP = \frac{1}{11} \sum_{r \in \{0, .1, \dots, 1\}} \max_{j : r_j \ge r} p_j

    Args:
        preds: images as in :func:`coco_mean_average_precision`, list or packed: ``boxes``, ``scores``, ``labels``.
        target: ``boxes``, ``labels``; optional ``difficult`` (G,) 0 or 1: such ground truths and their detections do
            not count.
        box_format: "xyxy", "xywh" or "cxcywh", or a format of rotated boxes. A negative size in ``target``, as between
            corners, is an error, except with ``validate_args=False``.
        iou_thresholds: a number in [0, 1], or several. Default: 0.5, with a ``convention`` 0.5, 0.55, ..., 0.95.
        convention: None for VOC's rules. "ultralytics" for the numbers that Ultralytics (YOLO) 8.4.190 prints: a
            detection takes the *free* ground truth with the highest IoU, the IoU of boxes is float32 without the
            pixels of the corners, there are no difficult ground truths and no crowds (both are left out), and AP is
            the area of ``torch_ap.core.measures.interpolation.ultralytics_precision``. "ultralytics-8.3" for
            versions up to 8.3: VOC's matching, and a line from the last point of the curve to (1, 0). Scores must be
            in [0, 1] for precision and recall. The limits of its non-maximum suppression, 300 detections per image
            with scores of at least 0.001, are not applied. ``iou_type`` must be "bbox", "segm", "precomputed" or a
            function. It replaces ``interpolation``, ``inclusive_pixels`` and ``strict``.
        interpolation: "all-points" (VOC 2010 on), "11-point" or "11-point-arange" (VOC 2007), "40-point" (KITTI since
            2019: 1/40, 2/40, ..., 1; :func:`torch_ap.functional.kitti_mean_average_precision` computes the numbers
            of its development kit), or "101-point". "11-point" has the levels 0, 0.1, ..., 1 of the definition, so that
            a recall of 3 / 10 reaches 0.3. "11-point-arange" has the levels of ``numpy.arange(0, 1.1, 0.1)``, as
            py-faster-rcnn and its successors, so that 3 / 10 does not reach 0.30000000000000004.
        inclusive_pixels: whether boxes include the pixels of their corners, as in the devkit: sizes are x2 - x1 + 1.
        strict: whether an IoU must exceed the threshold (py-faster-rcnn, Detectron2) rather than reach it (devkit).
        class_metrics: whether to return the AP of each class too.
        iou_type, sigmas: as for :func:`coco_mean_average_precision`, one kind, with ``difficult`` in place of crowds.
            ``inclusive_pixels`` applies to boxes only.
        validate_args: whether to check values.
        dtype: dtype of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map`` 0-d, the mean over classes with ground truths and over thresholds, NaN without any;
        ``map_per_threshold`` (T,) for a list of thresholds; ``map_per_class`` (K,) with ``class_metrics``, NaN for a
        class without ground truths; ``classes`` (K,) int32, or int64 for larger labels; all of them 0-d for one
        class or threshold. With a ``convention`` also ``map_50``, ``map_75``, and ``precision``, ``recall`` and ``f1``
        (means over classes) at ``score``, the score with the highest smoothed mean F1 at the IoU threshold 0.5 (or the
        lowest), NaN if a score is outside [0, 1]; with ``class_metrics`` each of them as ``..._per_class``.

    Raises:
        ValueError: for an invalid argument, with image and key.

    Equals ``VOCevaldet.m`` of the development kit. With a ``convention`` it equals
    ``ultralytics.utils.metrics.ap_per_class`` of version 8.4.190 or 8.3.250 after ``match_predictions``.

    Source: Everingham et al. (2010), The PASCAL Visual Object Classes (VOC) Challenge, section 4.2.

    Example:
        >>> import torch
        >>> from torch_ap.detection.functions import voc_mean_average_precision
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([3, 3])}]
        >>> target = [{"boxes": boxes[:1], "labels": torch.tensor([3])}]
        >>> voc_mean_average_precision(preds, target)["map"]
        tensor(1.)
    """
    settings = settings_from(settings_by_convention, locals())
    several = convention is not None if iou_thresholds is None else not isinstance(iou_thresholds, int | float)
    report = partial(settings.report, several=several, class_metrics=class_metrics)
    return report_images(settings, preds, target, report, dtype)


@renamed_keywords(iou_threshold="iou_thresholds")
def open_images_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: BoxFormat = "xyxy",
    iou_thresholds: float | list[float] = 0.5,
    *,
    hierarchy: Parents | None = None,
    group_of: GroupOf = "count",
    expand_preds: bool = False,
    class_metrics: bool = False,
    iou_type: Literal["bbox", "segm"] = "bbox",
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    r"""Return Open Images' mean average precision of a detector.

    Objects are matched as in :func:`torch_ap.functional.voc_mean_average_precision`, without the extra pixel: by
    descending score, a detection belongs to the ground truth of its class and image with the highest IoU, and matches
    it if the IoU reaches the threshold and no earlier detection matches it. An unmatched detection belongs to the box
    of a group if the share of its area inside that box reaches the threshold. The first such detection matches the
    group; the others do not count, and neither do detections without width or height. AP is the area under the
    interpolated curve,

    .. math::
        AP = \sum_i (r_i - r_{i-1}) \max_{j \ge i} p_j

    Args:
        preds: a list with one dict per image: ``boxes`` (D, 4), ``scores`` (D,), ``labels`` (D,) integers; ``masks``
            for ``iou_type="segm"``.
        target: ``boxes`` (G, 4), ``labels`` (G,); optional ``group_of`` (G,) 0 or 1, boxes around groups of objects,
            and ``difficult`` (G,), objects and groups that do not count. ``positive_labels`` and ``negative_labels``,
            1-D integers, are classes verified as present in the image or as absent. In an image with either of them,
            also if it is empty, only detections of these classes and of the classes of the ground truths count. Classes
            of ground truths and their ancestors must not be in ``negative_labels``.
        box_format: "xyxy", "xywh" or "cxcywh". A negative size in ``target`` is an error, except with
            ``validate_args=False``.
        iou_thresholds: a number in [0, 1], or several.
        hierarchy: the parent of each label with a parent, or a list of its parents. Ground truths and
            ``positive_labels`` then apply to all ancestors of their classes too, ``negative_labels`` to all
            descendants.
        group_of: "count" if a box around a group is a ground truth for one detection (the challenge since 2018), or
            "ignore" if neither the box nor the detections inside it count (the metric of 2017).
        expand_preds: whether to add detections of the ancestors of each class, as participants of the challenge do.
        class_metrics: whether to return the AP of each class too.
        iou_type: "bbox" or "segm".
        validate_args: whether to check values.
        dtype: dtype of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        The result of :func:`torch_ap.functional.voc_mean_average_precision`.

    Raises:
        ValueError: for an invalid argument, with image and key.

    Equals ``OpenImagesDetectionChallengeEvaluator`` of TensorFlow's object detection API after
    ``oid_hierarchical_labels_expansion.py``, with two differences: its order of equal scores is not defined, and it
    counts the first detection of a difficult group as a true positive. With ``group_of="ignore"`` equals
    ``OpenImagesDetectionEvaluator``.

    Source: Kuznetsova et al. (2020), The Open Images Dataset V4; TensorFlow's ``per_image_evaluation.py``.

    Example:
        >>> import torch
        >>> from torch_ap.functional import open_images_mean_average_precision
        >>> box, label = torch.tensor([[0.0, 0, 90, 90]]), torch.tensor([5])
        >>> truth = {"boxes": box, "labels": label, "group_of": torch.tensor([1])}
        >>> boxes = torch.tensor([[0.0, 0, 30, 30], [40, 40, 80, 80]])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([5, 5])}]
        >>> open_images_mean_average_precision(preds, [truth])["map"]
        tensor(1.)
    """
    settings = settings_from(open_images_settings_of, locals())
    report = partial(settings.report, several=not isinstance(iou_thresholds, int | float), class_metrics=class_metrics)
    return report_images(settings, *settings.prepared(preds, target), report, dtype)


@renamed_keywords(distance_threshold="distance_thresholds")
def nuscenes_mean_average_precision(
    preds: Images,
    target: Images,
    distance_thresholds: float | list[float] | None = None,
    *,
    class_metrics: bool = False,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    r"""Return nuScenes' mean average precision of a detector of points, which compares centres by their distance.

    By descending score, a detection takes the nearest free ground truth of its class and image if it is nearer than the
    threshold. Then, for each class and threshold,

    .. math::
        AP = \frac{1}{90} \sum_{r \in \{.11, .12, \dots, 1\}} \frac{\max(p(r) - .1, 0)}{.9}

    with p(r) on straight lines between the points of the precision-recall curve, and 0 beyond the last.

    Args:
        preds: a list with one dict per image (sample): ``centers`` (D, 2), ``scores`` (D,), ``labels`` (D,) integers;
            or, packed, one dict with the concatenated rows of all images and ``counts`` (B,).
        target: ``centers`` (G, 2), ``labels`` (G,). nuScenes' centres are on the ground, in metres.
        distance_thresholds: a number of at least 0, or several; default 0.5, 1, 2 and 4.
        class_metrics: whether to return the AP of each class too.
        validate_args: whether to check values.
        dtype: dtype of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map`` 0-d, the mean over classes with ground truths and over thresholds, NaN without any;
        ``map_per_threshold`` (T,) except for a single threshold; ``map_per_class`` (K,) with ``class_metrics``, NaN for
        a class without ground truths; ``classes`` (K,) int32, or int64 for larger labels; all of them 0-d for one
        class or threshold.

    Raises:
        ValueError: for an invalid argument, with image and key.

    Equals ``accumulate`` and ``calc_ap`` of nuScenes' development kit, with its order of equal values: the last of
    equal scores comes first, and the first of equal distances. Boxes that do not count (because of their range, their
    points, racks of bicycles) must be removed before. A class without ground truths counts 0 in the kit's mean over its
    ten classes.

    Source: Caesar et al. (2020), nuScenes: A multimodal dataset for autonomous driving, section 3.1;
    ``nuscenes/eval/detection/algo.py``.

    Example:
        >>> import torch
        >>> from torch_ap.functional import nuscenes_mean_average_precision
        >>> pred = {"centers": torch.tensor([[10.0, 5.0]]), "scores": torch.tensor([0.9]), "labels": torch.tensor([0])}
        >>> target = [{"centers": torch.tensor([[10.0, 6.5]]), "labels": torch.tensor([0])}]
        >>> nuscenes_mean_average_precision([pred], target)["map_per_threshold"]
        tensor([0., 0., 1., 1.])
    """
    distances = list(DISTANCES) if distance_thresholds is None else distance_thresholds
    settings = nuscenes_settings_of(distances, validate_args=validate_args)
    report = partial(settings.report, several=not isinstance(distances, int | float), class_metrics=class_metrics)
    return report_images(settings, preds, target, report, dtype)


def kitti_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_threshold: float = 0.7,
    *,
    interpolation: Literal["40-point", "11-point"] = "40-point",
    class_metrics: bool = False,
    iou_type: IoUType | OwnSimilarity = "bbox",
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    r"""Return the mean average precision of a detector by KITTI's development kit.

    Ground truths choose, in the order of input. First each takes the free detection of the highest score whose overlap
    exceeds the threshold. The scores of these true positives with recall nearest to 0, 1/40, ..., 1 are thresholds
    :math:`s_0 > s_1 > \dots`. Then each ground truth takes the free detection of the highest overlap with a score of at
    least :math:`s_i`, and

    .. math::
        AP = \frac{1}{40} \sum_{i=1}^{40} \max_{j \ge i} p_j \quad\text{or}\quad
        AP = \frac{1}{11} \sum_{i \in \{0, 4, \dots, 40\}} \max_{j \ge i} p_j

    with :math:`p_j` the precision at :math:`s_j`, or 0 without such a threshold. With fewer than 40 detected objects AP
    cannot reach 1; with 3 it is at most 2/40.

    Args:
        preds: images as in :func:`torch_ap.functional.voc_mean_average_precision`, list or packed: ``boxes``,
            ``scores``, ``labels``; optional ``ignore`` (D,) 0 or 1, detections too low for the level of difficulty:
            they are no false positives, and an object that takes one is neither detected nor missed.
        target: ``boxes``, ``labels``; optional ``difficult`` (G,) 0 or 1, objects beyond the level or of a neighbouring
            class, which do not count but take one detection each; and ``iscrowd`` (G,) 0 or 1, "DontCare" regions for
            detections of their label: a free detection with more than the threshold's share of its area inside a
            region is no false positive.
        box_format: "xyxy", "xywh" or "cxcywh", or a format of rotated boxes. Sizes are differences of corners.
        iou_threshold: the overlap that a match must exceed, in [0, 1]: 0.7 for cars, 0.5 for pedestrians and cyclists.
        interpolation: "40-point", since 2019, or "11-point", before.
        class_metrics: whether to return the AP of each class too.
        iou_type: as for :func:`torch_ap.functional.coco_mean_average_precision`, one kind: "bbox" in the picture,
            "rotated" seen from above; or a function of the two dicts of an image, for boxes in space.
        validate_args: whether to check values.
        dtype: dtype of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map`` 0-d, the mean over classes with ground truths, NaN without any; ``map_per_class`` (K,) with
        ``class_metrics``, NaN for a class without ground truths that count; ``classes`` (K,) int32, or int64 for larger
        labels; both 0-d for one class. In [0, 1], where the kit prints percent.

    Raises:
        ValueError: for an invalid argument, with image and key.

    Equals ``evaluate_object_3d_offline.cpp`` of KITTI's development kit, which ignores detections with a score of
    -1e7 or less; here every score counts.

    Source: Geiger, Lenz & Urtasun (2012), Are we ready for Autonomous Driving?; the 40 points: Simonelli et al. (2019),
    Disentangling Monocular 3D Object Detection.

    Example:
        >>> import torch
        >>> from torch_ap.functional import kitti_mean_average_precision
        >>> boxes = torch.arange(60.0)[:, None] * 30 + torch.tensor([0.0, 0, 20, 40])
        >>> pred = {"boxes": boxes, "scores": torch.linspace(1, 0, 60), "labels": torch.zeros(60, dtype=torch.int64)}
        >>> kitti_mean_average_precision([pred], [{"boxes": boxes, "labels": pred["labels"]}])["map"]
        tensor(1.)
    """
    settings = settings_from(kitti_settings_of, locals())
    checks.boolean("class_metrics", class_metrics)

    def report(columns: Columns, dtype: torch.dtype) -> dict[str, Any]:
        labels, ap = settings.average_precision(columns)
        numbers = {"map": ap.nanmean().to(dtype), **({"map_per_class": ap.to(dtype)} if class_metrics else {})}
        return zero_dimensional(numbers | {"classes": narrow_to_int32(labels)})

    return report_images(settings, preds, target, report, dtype)
