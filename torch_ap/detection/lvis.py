"""Mean average precision of object detectors on the federated ground truth of LVIS."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import AnyBoxFormat, IoUType, settings_from
from torch_ap.detection.functions import report_images
from torch_ap.detection.inputs.images import Images
from torch_ap.detection.matching.shapes import AreaRanges
from torch_ap.detection.rules.coco import Report
from torch_ap.detection.rules.lvis import Frequency, lvis_settings_of


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
