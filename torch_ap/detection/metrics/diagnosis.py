"""Analyses of a detector at one IoU threshold: methods of the detection metrics."""

from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.messages import raise_invalid
from torch_ap.detection.errors.confusion import BACKGROUND, ConfusionMatrix, confusion_counts
from torch_ap.detection.errors.lrp import OptimalLRP, optimal_lrp
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.detection.errors.operating_points import OperatingPoints, ScoreThreshold, score_thresholds
from torch_ap.detection.errors.operating_points import operating_points as points_of
from torch_ap.detection.errors.outcomes import detections_of, outcomes_of
from torch_ap.detection.errors.tide import DetectionErrors, errors_of
from torch_ap.detection.metrics.matched_images import MatchedImages
from torch_ap.inference.operating_point import ThresholdCriterion

_TIDE_BACKGROUND = 0.1  # default threshold of TIDE


def operating_points(
    self: MatchedImages,
    iou_threshold: float | None = None,
    beta: float = 1.0,
    *,
    precision: float | None = None,
    recall: float | None = None,
    score_threshold: ScoreThreshold | None = None,
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
    best F1        precision  0.996   0.979     0.956     0.945     0.940
    best F1        recall     0.947   0.939     0.936     0.936     0.941
    best F1        F1         0.954   0.927     0.922     0.925     0.933
    precision 0.8  precision  0.999   0.988     0.976     0.966     0.958
    precision 0.8  recall     0.908   0.925     0.944     0.950     0.950
    precision 0.8  F1         0.912   0.917     0.934     0.945     0.945
    recall 0.4     precision  0.998   0.989     0.977     0.960     0.954
    recall 0.4     recall     0.947   0.944     0.945     0.941     0.942
    recall 0.4     F1         0.950   0.936     0.937     0.937     0.941
    fixed          precision  0.991   0.985     0.971     0.962     0.955
    fixed          recall     0.992   0.978     0.965     0.956     0.952
    fixed          F1         0.971   0.976     0.965     0.955     0.950
    =============  =========  ======  ========  ========  ========  ===========

    The thresholds of the first nine rows were chosen on the same images, which makes the numbers too good: the best F1
    by 0.096 with 10 to 19 ground truths and by 0.018 with 100 or more. "fixed" is a ``score_threshold``.

    If ``update`` had the ``groups`` of images, the intervals are those of the delete-one-group jackknife, see
    :mod:`torch_ap.inference.groups_at_threshold`. The table is for independent images.

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
        NaN, with a reason, if no threshold has the required precision or recall. The ends are NaN if one image or
        group contains everything.

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
    at = self._matches_at(iou_threshold, iou_type, class_names)
    thresholds = None
    if score_threshold is not None:
        thresholds = score_thresholds(score_threshold, at.labels if per_class else None, at.matches.ranked.score)
    return points_of(at, criterion, thresholds, per_class=per_class, confidence_level=level)


def confusion_matrix(
    self: MatchedImages,
    iou_threshold: float | None = None,
    score_threshold: ScoreThreshold = 0.25,
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
    least_score = float(score_threshold) if isinstance(score_threshold, int | float) else None
    at = self._matches_at(iou_threshold, iou_type, class_names, least_score)
    least = score_thresholds(score_threshold, at.labels, at.matches.ranked.score)
    return ConfusionMatrix(
        matrix=confusion_counts(at, least),
        labels=at.labels,
        names=[*at.names, BACKGROUND],
        score_threshold=least,
        **{"iou_threshold": None, self._threshold_name: float(at.iou_threshold)},
    )


def errors(
    self: MatchedImages,
    iou_threshold: float | None = None,
    background_threshold: float | None = None,
    iou_type: str | None = None,
    class_names: ClassNames = None,
) -> DetectionErrors:
    """Return the errors of the detector by kind, and the cost in AP of each kind (TIDE).

    ======================  ========================================================  ==============================
    kind                    false positives or ground truths                          if fixed
    ======================  ========================================================  ==============================
    ``localization``        best IoU with its own class between the two thresholds    matches its ground truth
    ``classification``      else IoU of ``iou_threshold`` with another class          gets that class
    ``duplicate``           else IoU of ``iou_threshold`` with its own class, whose   is removed
                            ground truth has a better match
    ``background``          else no IoU above ``background_threshold``                is removed
    ``both``                else: wrong class and wrong place                         is removed
    ``missed``              unmatched ground truth without a localization or          does not count
                            classification error
    ``false_positives``     all of the first five                                     get the lowest scores
    ``false_negatives``     all unmatched ground truths                               do not count
    ======================  ========================================================  ==============================

    If several errors concern one ground truth, the error of the highest score is fixed and the others are removed.
    Errors that concern a matched ground truth are removed too.

    Args:
        iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it. Classes are separate, whatever
            ``average`` is.
        background_threshold: above 0, at most ``iou_threshold``; default 0.1, or ``iou_threshold`` if it is lower.
        iou_type: one of several ``iou_type``; default the first.
        class_names: unique names of the labels, a dict, or a list that begins with the name of label 0; default the
            names of the metric, or else the labels.

    Returns:
        :class:`torch_ap.detection.DetectionErrors`, with a table of all classes.

    Raises:
        ValueError: for a threshold that the metric does not have, and for invalid names.

    Equals ``tidecv`` 1.0.1, whose costs (dAP) are in percent, if no scores are tied, no detection is in a crowd, and
    every detected class has ground truths. It differs where ``tidecv`` departs from the paper: ``tidecv`` orders ties
    differently after fixing, counts detections in a crowd as errors, and counts classes without ground truths as an AP
    of 0. AP, detection limit and the choice among equal IoUs follow the metric: ``tidecv`` has recall levels of x /
    100, some of them one bit off COCO's, and a limit on all detections of an image. A function ``iou`` is also called
    for pairs of different classes.

    Source: Bolya, Foley, Hays & Hoffman (2020), TIDE: A General Toolbox for Identifying Object Detection Errors.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
        >>> errors = metric.errors()
        >>> errors.average_precision, errors.classification, errors.missed
        (tensor(0.5000, dtype=torch.float64), tensor(0.5000, dtype=torch.float64), tensor(0., dtype=torch.float64))
    """
    self._check_shapes_kept("errors")
    at = self._matches_at(iou_threshold, iou_type, class_names)
    background = background_of(at, background_threshold)
    return errors_of(outcomes_of(at, background), background)


def detections_table(
    self: MatchedImages,
    iou_threshold: float | None = None,
    background_threshold: float | None = None,
    iou_type: str | None = None,
) -> dict[str, Tensor]:
    """Return a table with one row per detection: its kind of error, and its ground truth.

    Args:
        iou_threshold, background_threshold, iou_type: as for :meth:`errors`.

    Returns:
        (D,) columns in the order of input: ``image``, its ``sample_ids`` or its position; ``detection``, the row in its
        image; ``class``; ``score``; ``kind``, an index of ``torch_ap.detection.DETECTION_KINDS``: 0 for a true
        positive, 1 to 5 for classification, localization, both, duplicate and background, and 6 for a detection that
        does not count, because it matches a crowd or exceeds the detection limit; ``ground_truth``, the row in its
        image of the ground truth that it matches or that the error concerns, -1 for none; ``iou`` with this ground
        truth, float64, NaN for none. With a crowd or an Open Images group the IoU is the share of the detection's
        area.

    Raises:
        ValueError: for a threshold that the metric does not have.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
        >>> table = metric.detections_table()
        >>> table["kind"], table["ground_truth"]
        (tensor([0, 1]), tensor([0, 1]))
    """
    self._check_shapes_kept("detections_table")
    with self._all_ranks():
        at = self._matches_at(iou_threshold, iou_type, class_names={})
        ids = self._image_ids(at.columns)
    return detections_of(outcomes_of(at, background_of(at, background_threshold)), ids)


def lrp(
    self: MatchedImages, iou_threshold: float | None = None, iou_type: str | None = None, class_names: ClassNames = None
) -> OptimalLRP:
    """Return the localization-recall-precision error at the best score threshold of each class (oLRP), and its parts.

    Args:
        iou_threshold: one of the IoU thresholds, below 1; default 0.5, or the lowest without it. Classes are separate,
            whatever ``average`` is.
        iou_type: one of several ``iou_type``; default the first.
        class_names: as for :meth:`errors`.

    Returns:
        :class:`torch_ap.detection.OptimalLRP`, which documents the formula, with a table of all classes and their score
        thresholds.

    Raises:
        ValueError: for a threshold that the metric does not have, a threshold of 1, and invalid names.

    Equals ``olrp``, ``olrp_loc``, ``olrp_fp``, ``olrp_fn`` and ``lrp_opt_thr`` of the authors' ``cocoeval`` if no
    scores are tied: ``cocoeval`` also cuts between equal scores, in the order of input. Its -1 for classes without
    ground truths is NaN here.

    Source: Oksuz, Cam, Kalkan & Akbas (2021), One Metric to Measure Them All: Localisation Recall Precision (LRP)
    for Evaluating Visual Detection Tasks.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes[:1] + 1, "labels": torch.tensor([0])}])
        >>> result = metric.lrp(class_names=["cat"])
        >>> result.lrp, result.per_class["score_threshold"]
        (tensor(0.1882, dtype=torch.float64), tensor([0.9000], dtype=torch.float64))
    """
    self._check_shapes_kept("lrp")
    at = self._matches_at(iou_threshold, iou_type, class_names)
    if at.iou_threshold == 1:
        raise_invalid("iou_threshold", "must be below 1 for LRP, which divides by its distance from 1", 1.0)
    return optimal_lrp(at)


def background_of(at: MatchesAt, threshold: float | None) -> float:
    """Return the threshold of background, at most the IoU threshold."""
    upper = at.iou_threshold
    if not upper:
        raise_invalid("iou_threshold", "must be above 0 to tell errors apart", upper)
    if threshold is None:
        return min(_TIDE_BACKGROUND, upper)
    checks.positive_fraction("background_threshold", threshold)
    if threshold > upper:
        raise_invalid("background_threshold", f"must be at most the IoU threshold {upper:g}", threshold)
    return float(threshold)
