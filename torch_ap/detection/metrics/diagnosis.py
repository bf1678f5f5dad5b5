"""Errors of a detector: methods of the detection metrics whose matches have overlaps."""

from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.messages import raise_invalid
from torch_ap.detection.errors.lrp import OptimalLRP, optimal_lrp
from torch_ap.detection.errors.outcomes import Outcomes, detections_of, outcomes_of
from torch_ap.detection.errors.tide import DetectionErrors, errors_of
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.metrics.cuts import matches_at
from torch_ap.detection.metrics.images import ImageState

_TIDE_BACKGROUND = 0.1  # default threshold of TIDE


def errors(
    self: ImageState,
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
    place = self._place(iou_threshold)
    thresholds = _thresholds(self, place, background_threshold)
    at = matches_at(self, iou_threshold, iou_type, class_names)
    outcomes = _outcomes(self, at.columns, iou_type, at.matches, place, thresholds)
    return errors_of(outcomes, at.interpolation, at.labels, at.names, thresholds)


def detections_table(
    self: ImageState,
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
    place = self._place(iou_threshold)
    thresholds = _thresholds(self, place, background_threshold)
    columns, ids, matches, *_ = self._all_matched(iou_type)
    return detections_of(_outcomes(self, columns, iou_type, matches, place, thresholds), columns, ids)


def lrp(
    self: ImageState, iou_threshold: float | None = None, iou_type: str | None = None, class_names: ClassNames = None
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
    place = self._place(iou_threshold)
    threshold = self._settings.thresholds[place]
    if threshold == 1:
        raise_invalid("iou_threshold", "must be below 1 for LRP, which divides by its distance from 1", threshold)
    at = matches_at(self, iou_threshold, iou_type, class_names)
    return optimal_lrp(at.matches, place, threshold, at.labels, at.names)


def _thresholds(metric: ImageState, place: int, background: float | None) -> tuple[float, float]:
    """Return the threshold of background, and the IoU threshold."""
    upper = metric._settings.thresholds[place]
    if not upper:
        raise_invalid("iou_threshold", "must be above 0 to tell errors apart", upper)
    if background is None:
        return min(_TIDE_BACKGROUND, upper), upper
    checks.positive_fraction("background_threshold", background)
    if background > upper:
        raise_invalid("background_threshold", f"must be at most the IoU threshold {upper:g}", background)
    return float(background), upper


def _outcomes(
    metric: ImageState,
    columns: Columns,
    iou_type: str | None,
    matches: Matches,
    place: int,
    thresholds: tuple[float, float],
) -> Outcomes:
    settings = metric._settings
    return outcomes_of(settings, columns, iou_type or settings.iou_types[0], matches, place, thresholds)
