"""Ground truths that may be wrong or missing, as a function of images by COCO's rules."""

from collections.abc import Sequence

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.options import AnyBoxFormat, IoUType, Sigmas, settings_from
from torch_ap.core.base.untraced import untraced
from torch_ap.detection.errors.operating_points import ScoreThreshold
from torch_ap.detection.inputs.images import Images
from torch_ap.detection.metrics.coco_analyses import CocoEvaluation
from torch_ap.detection.rules.coco_numbers import settings_of
from torch_ap.inference.suspicious import SuspiciousLabels


@untraced
def suspicious_labels(
    preds: Images,
    target: Images,
    box_format: AnyBoxFormat = "xyxy",
    iou_type: IoUType = "bbox",
    iou_threshold: float = 0.5,
    *,
    others: Sequence[Images] = (),
    score_threshold: ScoreThreshold | None = None,
    duplicate_threshold: float = 0.9,
    limit: int | None = 100,
    class_names: ClassNames = None,
    sigmas: Sigmas = None,
    use_given_area: bool = False,
    validate_args: bool = True,
) -> SuspiciousLabels:
    """Return ground truths that may be wrong or missing, by how much AP would change if each were corrected.

    The kinds of labels and their corrections are described at
    :meth:`torch_ap.MeanAveragePrecision.suspicious_labels`. Each change is exact.

    Args:
        preds, target: images as for :func:`torch_ap.functional.coco_mean_average_precision`, lists or packed.
        box_format, sigmas, use_given_area, validate_args: as there.
        iou_type: "bbox", "segm", "boundary", "keypoints", "rotated" or "intervals".
        iou_threshold: a number in [0, 1].
        others: detections of other detectors in the same images, each as ``preds``. A ground truth is missed by all if
            none of the detectors matches it.
        score_threshold: the least score of a confident detection, or one per class; default the threshold with the
            highest F1 of each class.
        duplicate_threshold: the least IoU of duplicates, in (0, 1].
        limit: the largest number of rows; None for all.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0.

    Returns:
        :class:`torch_ap.inference.SuspiciousLabels`, as the method; ``image`` is the position of the image.

    Raises:
        TypeError, ValueError: for an invalid argument, with image and key.

    Equals the method ``suspicious_labels`` of a metric that is updated once with these images. The metrics by the rules
    of LVIS, VOC and Open Images have this method too.

    Example:
        >>> import torch
        >>> from torch_ap.detection import suspicious_labels
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90], [0, 60, 40, 99]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": torch.tensor([0, 1, 1])}
        >>> target = [{"boxes": boxes[:2], "labels": torch.tensor([0, 0])}]
        >>> for row in suspicious_labels([pred], target, score_threshold=0.5, class_names=["cat", "dog"]).rows():
        ...     print(f"{row['kind']}: {row['class']} -> {row['detected_class']}, {row['change']:+.3f}")
        wrong class: cat -> dog, +0.495
        missing annotation: None -> dog, -0.002
    """
    checks.fraction("iou_threshold", iou_threshold)
    settings = settings_from(settings_of, locals() | {"iou_thresholds": [iou_threshold]})
    first, *more = (CocoEvaluation(settings, x, target) for x in (preds, *others))
    return first.suspicious_labels(
        more,
        score_threshold=score_threshold,
        duplicate_threshold=duplicate_threshold,
        limit=limit,
        class_names=class_names,
    )
