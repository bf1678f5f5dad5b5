"""Mean average precision by the rules of Open Images, nuScenes and KITTI, as functions."""

from typing import Literal

import torch
from torch import Tensor

from torch_ap.analysis import low_values
from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.functional.detection import validated
from torch_ap.inputs.detections import Images, OwnSimilarity, int32_if_held
from torch_ap.inputs.hierarchy import Parents
from torch_ap.matching.coco import zero_dimensional
from torch_ap.matching.kitti import kitti_settings_of
from torch_ap.matching.nuscenes import DISTANCES, nuscenes_settings_of
from torch_ap.matching.open_images import open_images_settings_of
from torch_ap.rules import checks
from torch_ap.rules.options import AnyBoxFormat, BoxFormat, GroupOf, IoUType


def open_images_mean_average_precision(
    preds: Images,
    target: Images,
    box_format: BoxFormat = "xyxy",
    iou_threshold: float | list[float] = 0.5,
    *,
    hierarchy: Parents | None = None,
    group_of: GroupOf = "count",
    expand_preds: bool = False,
    class_metrics: bool = False,
    iou_type: Literal["bbox", "segm"] = "bbox",
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    r"""Open Images' mean average precision of a detector.

    Objects are matched as in :func:`torch_ap.functional.voc_mean_average_precision`, without the extra pixel: a
    detection, best first, has the ground truth of its class and image of the highest IoU, and finds it if that reaches
    the threshold and no other did. A detection that found none so may lie in a box around a group, if the share of its
    area that does reaches the threshold; the first such detection finds the group, and the others do not count. Nor do
    detections without width or height. AP is the area under the interpolated curve,

    .. math::
        AP = \sum_i (r_i - r_{i-1}) \max_{j \ge i} p_j

    Args:
        preds: a list with one dict per image: ``boxes`` (D, 4), ``scores`` (D,), ``labels`` (D,) integers; ``masks``
            for ``iou_type="segm"``.
        target: likewise ``boxes`` (G, 4), ``labels`` (G,); if wanted ``group_of`` (G,) 0 or 1, boxes around groups of
            objects, and ``difficult`` (G,), which need not be found. ``positive_labels`` and ``negative_labels``, 1-D
            integers, are classes that somebody verified to be in the image, and not to be there: in an image that has
            one of the two, only detections of these classes and of the ground truths' count. What is there is not in
            ``negative_labels``, nor is an ancestor of it.
        box_format: "xyxy", "xywh" or "cxcywh". A negative size in ``target`` is an error, except with
            ``validate_args=False``.
        iou_threshold: a number in [0, 1], or several.
        hierarchy: the parent of each label that has one, or a list of its parents. Ground truths and
            ``positive_labels`` are then of all ancestors of their classes too, ``negative_labels`` of all descendants.
        group_of: "count" where a box around a group is a ground truth that one detection is to find (the challenge of
            2018 and after), or "ignore" where what lies in it does not count, nor the box (the metric of 2017).
        expand_preds: whether detections are made those of the ancestors of their classes too, as participants of the
            challenge do themselves.
        class_metrics: whether the AP of each class is given too.
        iou_type: "bbox" or "segm".
        validate_args: whether values are checked.
        dtype: of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        As :func:`torch_ap.functional.voc_mean_average_precision`.

    Raises:
        ValueError: for an argument that breaks one of these rules; the message names image and key.

    Equals ``OpenImagesDetectionChallengeEvaluator`` of TensorFlow's object detection API after
    ``oid_hierarchical_labels_expansion.py``, whose order of equal scores is not defined; with ``group_of="ignore"``
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
    settings = open_images_settings_of(
        box_format=box_format,
        iou_threshold=iou_threshold,
        iou_type=iou_type,
        group_of=group_of,
        hierarchy=hierarchy,
        expand_preds=expand_preds,
        validate_args=validate_args,
    )
    columns = validated(settings.inputs, *settings.prepared(preds, target))
    found = settings.report(
        columns,
        dtype or result_dtype(columns["detection_scores"].dtype),
        several=not isinstance(iou_threshold, int | float),
        class_metrics=class_metrics,
    )
    low_values.remark(settings, columns, found)
    return found


def nuscenes_mean_average_precision(
    preds: Images,
    target: Images,
    distance_threshold: float | list[float] | None = None,
    *,
    class_metrics: bool = False,
    validate_args: bool = True,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    r"""Mean average precision of a detector of points by nuScenes' rule, which compares centres by their distance.

    A detection, best first, takes the nearest ground truth of its class and image that is free, if that is nearer than
    the threshold. Then, for each class and threshold,

    .. math::
        AP = \frac{1}{90} \sum_{r \in \{.11, .12, \dots, 1\}} \frac{\max(p(r) - .1, 0)}{.9}

    with p(r) on straight lines between the points of the precision-recall curve, and 0 beyond the last.

    Args:
        preds: a list with one dict per image (sample): ``centers`` (D, 2), ``scores`` (D,), ``labels`` (D,) integers;
            or, packed, one dict with the rows of all images end to end and ``counts`` (B,).
        target: likewise ``centers`` (G, 2), ``labels`` (G,). nuScenes' centres are those on the ground, in metres.
        distance_threshold: a number of at least 0, or several; default 0.5, 1, 2 and 4.
        class_metrics: whether the AP of each class is given too.
        validate_args: whether values are checked.
        dtype: of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map`` 0-d, the mean over classes with ground truths and over thresholds, NaN where no class has one;
        ``map_per_threshold`` (T,) unless one threshold is given; ``map_per_class`` (K,) with ``class_metrics``, NaN for
        a class without ground truths; ``classes`` (K,) int32, or int64 for labels beyond it; all of them 0-d for one
        class or threshold.

    Raises:
        ValueError: for an argument that breaks one of these rules; the message names image and key.

    Equals ``accumulate`` and ``calc_ap`` of nuScenes' development kit, whose order of equals it has: of equal scores
    the last given comes first, of equal distances the first. Which boxes count (their range, their points, racks of
    bicycles) is decided before. A class without ground truths counts 0 in the kit's mean over its ten classes.

    Source: Caesar et al. (2020), nuScenes: A multimodal dataset for autonomous driving, section 3.1;
    ``nuscenes/eval/detection/algo.py``.

    Example:
        >>> import torch
        >>> from torch_ap.functional import nuscenes_mean_average_precision
        >>> found = {"centers": torch.tensor([[10.0, 5.0]]), "scores": torch.tensor([0.9]), "labels": torch.tensor([0])}
        >>> target = [{"centers": torch.tensor([[10.0, 6.5]]), "labels": torch.tensor([0])}]
        >>> nuscenes_mean_average_precision([found], target)["map_per_threshold"]
        tensor([0., 0., 1., 1.])
    """
    distances = list(DISTANCES) if distance_threshold is None else distance_threshold
    settings = nuscenes_settings_of(distances, validate_args=validate_args)
    columns = validated(settings.inputs, preds, target)
    found = settings.report(
        columns,
        dtype or result_dtype(columns["detection_scores"].dtype),
        several=not isinstance(distances, int | float),
        class_metrics=class_metrics,
    )
    low_values.remark(settings, columns, found)
    return found


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
    r"""Mean average precision of a detector as KITTI's development kit computes it.

    Ground truths choose, in the order given. First each takes the free detection of the highest score whose overlap
    exceeds the threshold; of the scores of these true positives those are thresholds :math:`s_0 > s_1 > \dots` whose
    recall is nearest to 0, 1/40, ..., 1. Then, among the detections of at least each :math:`s_i`, each takes the free
    one of the highest overlap, and

    .. math::
        AP = \frac{1}{40} \sum_{i=1}^{40} \max_{j \ge i} p_j \quad\text{or}\quad
        AP = \frac{1}{11} \sum_{i \in \{0, 4, \dots, 40\}} \max_{j \ge i} p_j

    with :math:`p_j` the precision at :math:`s_j`, and 0 where there is no such threshold: with fewer than 40 objects
    found AP cannot reach 1, whatever else is right, and with 3 it is at most 2/40.

    Args:
        preds: images as in :func:`torch_ap.functional.voc_mean_average_precision`, list or packed: ``boxes``,
            ``scores``, ``labels``; if wanted ``ignore`` (D,) 0 or 1, detections too low for the level of difficulty:
            they are no false positives, but an object that takes one is neither found nor missed.
        target: likewise ``boxes``, ``labels``; if wanted ``difficult`` (G,) 0 or 1, objects that are beyond the level
            or of a neighbouring class, which need not be found, each of which takes one detection; and ``iscrowd``
            (G,) 0 or 1, regions not to care about ("DontCare") for detections of their label: what no object takes,
            and lies in one by more than the threshold's share of its own area, is no false positive.
        box_format: "xyxy", "xywh" or "cxcywh", or those of rotated boxes. Sizes are differences of corners.
        iou_threshold: what an overlap must exceed, in [0, 1]: 0.7 for cars, 0.5 for pedestrians and cyclists.
        interpolation: "40-point", since 2019, or "11-point", before.
        class_metrics: whether the AP of each class is given too.
        iou_type: as for :func:`torch_ap.functional.coco_mean_average_precision`, one kind: "bbox" in the picture,
            "rotated" seen from above; or a function of the two dicts of an image, for boxes in space.
        validate_args: whether values are checked.
        dtype: of the numbers. Default: float64 for float64 scores, else float32.

    Returns:
        ``map`` 0-d, the mean over classes with ground truths, NaN where no class has one; ``map_per_class`` (K,) with
        ``class_metrics``, NaN for a class without ground truths that count; ``classes`` (K,) int32, or int64 for labels
        beyond it; both 0-d for one class. In [0, 1], where the kit prints percent.

    Raises:
        ValueError: for an argument that breaks one of these rules; the message names image and key.

    Equals ``evaluate_object_3d_offline.cpp`` of KITTI's development kit, which takes a score of -1e7 or less for no
    detection; here any score is one.

    Source: Geiger, Lenz & Urtasun (2012), Are we ready for Autonomous Driving?; the 40 points: Simonelli et al. (2019),
    Disentangling Monocular 3D Object Detection.

    Example:
        >>> import torch
        >>> from torch_ap.functional import kitti_mean_average_precision
        >>> boxes = torch.arange(60.0)[:, None] * 30 + torch.tensor([0.0, 0, 20, 40])
        >>> found = {"boxes": boxes, "scores": torch.linspace(1, 0, 60), "labels": torch.zeros(60, dtype=torch.int64)}
        >>> kitti_mean_average_precision([found], [{"boxes": boxes, "labels": found["labels"]}])["map"]
        tensor(1.)
    """
    settings = kitti_settings_of(
        box_format=box_format,
        iou_threshold=iou_threshold,
        interpolation=interpolation,
        iou_type=iou_type,
        validate_args=validate_args,
    )
    checks.boolean("class_metrics", class_metrics)
    columns = validated(settings.inputs, preds, target)
    labels, each = settings.average_precision(columns)
    found = {"map": each.nanmean(), **({"map_per_class": each} if class_metrics else {})}
    dtype = dtype or result_dtype(columns["detection_scores"].dtype)
    low_values.remark(settings, columns, found)
    return zero_dimensional({x: value.to(dtype) for x, value in found.items()} | {"classes": int32_if_held(labels)})
