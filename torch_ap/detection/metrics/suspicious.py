"""Method of the detection metrics that finds ground truths that may be wrong."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.messages import raise_invalid
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.detection.errors.operating_points import ScoreThreshold, score_thresholds
from torch_ap.detection.errors.operating_points import operating_points as operating_points_of
from torch_ap.detection.errors.outcomes import outcomes_of
from torch_ap.detection.errors.suspicious import suspicious_labels_of
from torch_ap.detection.metrics import image_sample
from torch_ap.detection.metrics.diagnosis import background_of
from torch_ap.detection.metrics.matched_images import MatchedImages
from torch_ap.inference.metric import check_comparable
from torch_ap.inference.operating_point import ThresholdCriterion
from torch_ap.inference.suspicious import SuspiciousLabels


def suspicious_labels(
    self: MatchedImages,
    others: Sequence[MatchedImages] = (),
    *,
    iou_threshold: float | None = None,
    score_threshold: ScoreThreshold | None = None,
    duplicate_threshold: float = 0.9,
    limit: int | None = 100,
    iou_type: str | None = None,
    class_names: ClassNames = None,
) -> SuspiciousLabels:
    """Return ground truths that may be wrong or missing, by how much AP would change if each were corrected.

    ======================  ============================================================  ============================
    kind                    label                                                         correction
    ======================  ============================================================  ============================
    ``missing annotation``  a confident false positive without a ground truth             gets a ground truth
    ``wrong class``         a ground truth that a confident detection has as another      gets the class of the
                            class (an error of classification)                            detection
    ``missed by all``       a ground truth that neither this metric nor ``others`` match  is removed
    ``duplicate``           a ground truth with nearly the same shape as another one of   is removed
                            its class: the undetected one, or the later one
    ======================  ============================================================  ============================

    Each change is exact: the image of the label is matched again with the correction, and the AP of its classes is
    computed from all images. A ground truth occurs in one row at most.

    Args:
        others: metrics of other detectors with the same settings and ground truths.
        iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it. Classes are separate, whatever
            ``average`` is.
        score_threshold: the least score of a confident detection, or one per class, as for
            :meth:`torch_ap.MeanAveragePrecision.operating_points`; default the threshold with the highest F1 of each
            class.
        duplicate_threshold: the least IoU of duplicates, in (0, 1].
        limit: the largest number of rows; None for all.
        iou_type: one of several ``iou_type``; default the first.
        class_names: as for :meth:`torch_ap.MeanAveragePrecision.errors`.

    Returns:
        :class:`torch_ap.inference.SuspiciousLabels` with the AP of :meth:`torch_ap.MeanAveragePrecision.errors` as its
        value. Further columns are ``image``, its ``sample_ids`` or its position; ``ground_truth`` and ``detection``,
        the rows in this image, -1 for none; ``class`` and ``detected_class``, their names or None; ``score`` of the
        detection, NaN for none; ``other``, the row of the ground truth that a duplicate repeats, -1 for none;
        ``iou`` of the ground truth with the detection or with the other ground truth, NaN for none; and ``box`` of the
        detection, or around its mask or keypoints, a list of numbers as in ``box_format``, None for none.

    Raises:
        TypeError, ValueError: for an invalid argument, for ``iou_type`` "precomputed" and functions of images, which
            have no shapes to copy, and for LVIS's ``ap_fixed``, whose limit depends on all images.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision(class_names=["cat", "dog"])
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90], [0, 60, 40, 99]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": torch.tensor([0, 1, 1])}
        >>> metric.update([pred], [{"boxes": boxes[:2], "labels": torch.tensor([0, 0])}])
        >>> labels = metric.suspicious_labels(score_threshold=0.5)
        >>> for row in labels.rows():
        ...     print(f"{row['kind']}: {float(labels.value):.3f} {row['change']:+.3f}")
        wrong class: 0.505 +0.495
        missing annotation: 0.505 -0.002
    """
    self._check_shapes_kept("suspicious_labels")
    checks.positive_fraction("duplicate_threshold", duplicate_threshold)
    limit = checks.positive_int("limit", limit, optional=True)
    at, ids = _images(self, iou_threshold, iou_type, class_names)
    if at.settings.geometry(at.iou_type).pairs:
        raise_invalid("iou_type", "must be a kind with shapes, of which a ground truth can be made", at.iou_type)
    if getattr(at.settings, "ap_fixed", False):
        raise ValueError("`ap_fixed` must be False, because its limit on detections depends on all images")
    outcomes, detected = outcomes_of(at, background_of(at, None)), []
    for other in others:
        check_comparable(self, other)
        there, other_ids = _images(other, iou_threshold, iou_type, class_names)
        known_ids = (None, None) if self._known_image_ids() is None else (ids, other_ids)
        image_sample.check(at.columns, there.columns, *known_ids)
        detected.append(outcomes_of(there, background_of(there, None)).detected)
    if score_threshold is None:
        without_groups = replace(at, groups=None)  # whose intervals, which are not used, can warn of few groups
        score_threshold = operating_points_of(
            without_groups, ThresholdCriterion(1.0), per_class=True, confidence_level=0.95
        )
    return suspicious_labels_of(
        outcomes,
        detected,
        ids,
        partial(self._match_batch, iou_type=at.iou_type, per_class=True),
        least_scores=score_thresholds(score_threshold, at.labels, at.matches.ranked.score),
        duplicate_threshold=duplicate_threshold,
        limit=limit,
    )


def _images(metric: MatchedImages, *arguments: Any) -> tuple[MatchesAt, Tensor]:
    """Return the matched images of all processes, and their ids; arguments as for ``_matches_at``."""
    with metric._all_ranks():
        at = metric._matches_at(*arguments)
        return at, metric._image_ids(at.columns)
