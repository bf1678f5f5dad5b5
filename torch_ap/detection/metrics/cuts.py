"""Operating points and confusion matrix of a detector: methods of the detection metrics, at one IoU threshold."""

from typing import Any, NamedTuple

from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames, check_names, unique_label_names
from torch_ap.detection.errors.confusion import BACKGROUND, ConfusionMatrix, confusion_counts
from torch_ap.detection.errors.lrp import Given, score_thresholds
from torch_ap.detection.errors.operating_points import OperatingPoints
from torch_ap.detection.errors.operating_points import operating_points as points_of
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.metrics.images import ImageState
from torch_ap.inference.operating_point import ThresholdCriterion


class MatchesAt(NamedTuple):
    """Matches of the images of all processes, in each class, at one IoU threshold.

    Attributes:
        columns: the images.
        matches: the matches at all IoU thresholds.
        interpolation: interpolation of AP, an ``InterpolationRule``.
        place: index of the IoU threshold.
        labels: (K,) labels of the classes, ascending.
        names: names of the classes.
    """

    columns: Columns
    matches: Matches
    interpolation: Any
    place: int
    labels: Tensor
    names: list[str]


def matches_at(
    metric: ImageState, iou_threshold: float | None, iou_type: str | None, class_names: ClassNames
) -> MatchesAt:
    """Return the matches of all images, in each class, at an IoU threshold of the metric."""
    place = metric._place(iou_threshold)
    check_names(class_names)
    with metric._all_ranks():
        columns = metric._columns()
        matches, interpolation, labels = metric._matched(columns, iou_type, per_class=True)
    names = unique_label_names(labels, metric._class_names if class_names is None else class_names)
    return MatchesAt(columns, matches, interpolation, place, labels.clone(), names)


def operating_points(
    self: ImageState,
    iou_threshold: float | None = None,
    beta: float = 1.0,
    *,
    precision: float | None = None,
    recall: float | None = None,
    score_threshold: Given | None = None,
    per_class: bool = True,
    iou_type: str | None = None,
    class_names: ClassNames = None,
    confidence_level: float = 0.95,
) -> OperatingPoints:
    """Return the score threshold of the best F_beta of each class, or of a required precision or recall.

    F_beta = (1 + beta^2) p r / (beta^2 p + r) of the detections with ``scores >= threshold``, which are matched in the
    same way as for average precision. The highest of several best thresholds is returned, for a required recall the
    lowest.

    The estimand of the intervals is the precision, recall or F_beta of the threshold in the population of images. These
    are ratios of sums over images, with the variance of the delta method. Wilson's interval uses the number of trials
    with this variance and the quantile of Student's t. Coverage of the 95% intervals, by the number of ground truths of
    a class (``benchmarks.coverage``):

    =============  =========  ======  ========  ========  ========  ===========
    choice         number     5 to 9  10 to 19  20 to 49  50 to 99  100 or more
    =============  =========  ======  ========  ========  ========  ===========
    best F1        precision  0.994   0.979     0.957     0.947     0.948
    best F1        recall     0.953   0.940     0.927     0.937     0.948
    best F1        F1         0.960   0.929     0.916     0.921     0.944
    precision 0.8  precision  1.000   0.988     0.976     0.966     0.955
    precision 0.8  recall     0.903   0.928     0.946     0.948     0.945
    precision 0.8  F1         0.908   0.920     0.938     0.942     0.933
    recall 0.4     precision  0.997   0.990     0.976     0.961     0.946
    recall 0.4     recall     0.949   0.944     0.949     0.937     0.934
    recall 0.4     F1         0.951   0.933     0.939     0.937     0.935
    fixed          precision  0.988   0.986     0.969     0.965     0.955
    fixed          recall     0.993   0.978     0.966     0.955     0.958
    fixed          F1         0.966   0.977     0.965     0.955     0.952
    =============  =========  ======  ========  ========  ========  ===========

    The thresholds of the first nine rows were chosen on the same images, which makes the numbers too good: the best F1
    by 0.094 with 10 to 19 ground truths and by 0.017 with 100 or more. "fixed" is a ``score_threshold``.

    Args:
        iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it.
        beta: weight of recall relative to precision in F, above 0, with a finite square.
        precision: the least precision, in [0, 1]; the threshold with this precision and the highest recall is chosen.
        recall: the least recall, in [0, 1]; the threshold with this recall and the highest precision is chosen.
        score_threshold: a fixed threshold, or one per class: operating points of other images, with labels; a dict of
            label to threshold; or (K,) in the order of ``classes``. Every class needs one; further classes are
            ignored.
        per_class: whether each class has its own threshold; else one threshold is chosen for the summed counts of all
            classes, with each detection matched in its class.
        iou_type: one of several ``iou_type``; default the first.
        class_names: unique names of the labels, as for ``errors``.
        confidence_level: nominal coverage of each interval, in (0, 1).

    Returns:
        :class:`torch_ap.detection.OperatingPoints` of (K,) tensors in the order of ``classes``, or of 0-d ones;
        NaN, with a reason, if no threshold has the required precision or recall. The ends are NaN if one image
        contains everything.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals ``operating_point()`` of each curve of ``curve()``, except for the intervals, and if no threshold has the
    required value: tp, fp and fn are NaN there; here, for no detections, they are 0, 0 and all ground truths.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
        >>> for score, shift in ((0.9, 0), (0.8, 2), (0.7, 200), (0.6, 300)):
        ...     pred = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
        ...     metric.update([pred], [{"boxes": box, "labels": label}])
        >>> points = metric.operating_points(class_names=["cat"])
        >>> points.names, points.threshold, points.tp, points.fp, points.fn
        (['cat'], tensor([0.8000]), tensor([2]), tensor([0]), tensor([2]))
    """
    criterion = ThresholdCriterion(beta, precision, recall)
    level = checks.open_fraction("confidence_level", confidence_level)
    checks.boolean("per_class", per_class)
    if score_threshold is not None and (precision is not None or recall is not None):
        raise ValueError("`score_threshold` cannot be combined with `precision` or `recall`, which choose a threshold")
    at = matches_at(self, iou_threshold, iou_type, class_names)
    choice: ThresholdCriterion | Tensor = criterion
    if score_threshold is not None:
        choice = score_thresholds(score_threshold, at.labels if per_class else None, at.matches.ranked.score)
    return points_of(
        at.matches,
        at.place,
        choice,
        labels=at.labels,
        names=at.names,
        beta=criterion.beta,
        per_class=per_class,
        confidence_level=level,
    )


def confusion_matrix(
    self: ImageState,
    iou_threshold: float | None = None,
    score_threshold: Given = 0.25,
    *,
    iou_type: str | None = None,
    class_names: ClassNames = None,
) -> ConfusionMatrix:
    """Return the confusion matrix: how many objects of each class were detected as each class, or missed.

    Detections are matched in their class in the same way as for average precision, so that the diagonal counts the true
    positives. Then the remaining detections and ground truths of different classes that overlap enough are paired,
    each once: by descending IoU, then by descending score, then in the order of input. The rest is background.

    Only the objects that count for average precision are used: no ignored ground truths, such as crowds and difficult
    objects, no detections that match these in their class, and per class and image the best detections up to the limit.

    Args:
        iou_threshold: one of the IoU thresholds, the least IoU of a match; with ``strict`` the IoU must exceed it.
            Default 0.5, or the lowest without it.
        score_threshold: the least score of a detection, or one per class, as for :meth:`operating_points`, for example
            its result. NaN removes all detections of a class.
        iou_type: one of several ``iou_type``; default the first.
        class_names: unique names of the labels, as for ``errors``.

    Returns:
        :class:`torch_ap.detection.ConfusionMatrix`, with true classes as rows and detected classes as columns.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals ``supervision.ConfusionMatrix`` of version 0.31 if score and IoU choose the same pairs. It also pairs objects
    of one class first, but by descending IoU (at most 4 of 15,170 objects in 2,000 random scenes are in another cell),
    and requires an IoU above the threshold. Earlier versions, and ultralytics, pair a detection only with the ground
    truth of its highest IoU, whatever its class.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision(class_names=["cat", "dog"])
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
        >>> metric.confusion_matrix().matrix
        tensor([[1, 0, 0],
                [1, 0, 0],
                [0, 0, 0]])
    """
    self._check_shapes_kept("confusion_matrix")
    at = matches_at(self, iou_threshold, iou_type, class_names)
    least = score_thresholds(score_threshold, at.labels, at.matches.ranked.score)
    kind = iou_type or self._settings.iou_types[0]
    return ConfusionMatrix(
        matrix=confusion_counts(self._settings, at.columns, kind, at.matches, at.place, least, at.labels),
        labels=at.labels,
        names=[*at.names, BACKGROUND],
        score_threshold=least,
        **{"iou_threshold": None, self._threshold_name: float(self._settings.thresholds[at.place])},
    )
