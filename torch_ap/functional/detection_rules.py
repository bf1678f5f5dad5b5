"""Mean average precision by the rules of Open Images and of nuScenes, as functions."""

from typing import Literal

import torch
from torch import Tensor

from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.functional.detection import validated
from torch_ap.inputs.detections import Images
from torch_ap.inputs.hierarchy import Parents
from torch_ap.matching.nuscenes import DISTANCES, nuscenes_settings_of
from torch_ap.matching.open_images import open_images_settings_of
from torch_ap.rules.options import BoxFormat, GroupOf


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
    return settings.report(
        columns,
        dtype or result_dtype(columns["detection_scores"].dtype),
        several=not isinstance(iou_threshold, int | float),
        class_metrics=class_metrics,
    )


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
    bicycles) is decided before.

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
    return settings.report(
        columns,
        dtype or result_dtype(columns["detection_scores"].dtype),
        several=not isinstance(distances, int | float),
        class_metrics=class_metrics,
    )
