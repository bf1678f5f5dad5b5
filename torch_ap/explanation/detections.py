"""Mean average precision of detections under the conventions of detection benchmarks, for boxes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import segments
from torch_ap.detection.functions import validate_images
from torch_ap.detection.inputs.images import Columns, Images, image_ids
from torch_ap.detection.matching import assignment, candidate_pairs
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.rules.coco import classes_of, rank_images
from torch_ap.detection.rules.coco_numbers import THRESHOLDS
from torch_ap.detection.rules.ultralytics import settings_by_convention
from torch_ap.detection.rules.voc import ordered_matches
from torch_ap.detection.shapes import boxes
from torch_ap.detection.shapes.boxes import PairIoU
from torch_ap.explanation.record import Named, Settings

_LVIS_LIMIT = 300  # detections per image


@dataclass(frozen=True)
class DetectionSettings(Settings):
    """Settings of a mean average precision of boxes, in the order of the steps.

    Attributes:
        rounding: "none", or "3 decimals" of scores and one of corners, as in Detectron2's text files.
        crowds: ground truths that are crowds or difficult: "ignored" as COCO's crowds, which match any number of
            detections by the share of their area; "difficult" as VOC's objects, which match by IoU and do not count;
            "left out"; or "objects" like all others.
        box_sizes: "exact", "inclusive" with the pixels of both corners, or "float32" as in Ultralytics.
        limit: "100 per class", "300 per image" or "none": detections of an image.
        matching: "free box", the free ground truth with the highest IoU, the last one of equals as in COCO; "first free
            box", the first one of equals as in Ultralytics; "best box", the ground truth with the highest IoU, without
            a second choice, or "last best box".
        threshold: "reached" or "exceeded".
        iou: "0.5", or "0.5:0.95" for the mean over .5, .55, ..., .95.
        interpolation: interpolation of :class:`torch_ap.Convention`.
        absent_classes: "left out" or "0": classes with detections and without ground truths.
    """

    rounding: str = "none"
    crowds: str = "ignored"
    box_sizes: str = "exact"
    limit: str = "100 per class"
    matching: str = "free box"
    threshold: str = "reached"
    iou: str = "0.5:0.95"
    interpolation: str = "101-point"
    absent_classes: str = "left out"


def _voc(interpolation: str, **settings: str) -> DetectionSettings:
    usual = {"crowds": "difficult", "box_sizes": "inclusive", "limit": "none", "matching": "best box", "iou": "0.5"}
    return DetectionSettings(**usual | settings, interpolation=interpolation)


def _ultralytics(interpolation: str, iou: str, matching: str) -> DetectionSettings:
    return DetectionSettings(
        crowds="left out", box_sizes="float32", limit="none", matching=matching, iou=iou, interpolation=interpolation
    )


_DETECTRON2 = {"rounding": "3 decimals", "threshold": "exceeded"}
_DETECTRON2_2007 = {**_DETECTRON2, "absent_classes": "0"}
CONVENTIONS = {
    "COCO": Named(DetectionSettings(), "AP of pycocotools; map of torchmetrics"),
    "COCO AP50": Named(DetectionSettings(iou="0.5"), "AP50 of pycocotools; map_50 of torchmetrics"),
    "LVIS": Named(DetectionSettings(limit="300 per image"), "AP of lvis, if every class is annotated in every image"),
    "VOC 2007": Named(_voc("11-point"), "VOCevaldet.m of 2007"),
    "VOC 2010": Named(_voc("all-points"), "VOCevaldet.m from 2010 on"),
    "Detectron2 VOC 2007": Named(_voc("11-point-arange", **_DETECTRON2_2007), "AP50 of PascalVOCDetectionEvaluator"),
    "Detectron2 VOC 2012": Named(_voc("all-points", **_DETECTRON2), "AP50 of PascalVOCDetectionEvaluator"),
    "Padilla": Named(_voc("all-points", crowds="objects"), "Object-Detection-Metrics, every-point interpolation"),
    "ultralytics mAP50": Named(_ultralytics("ultralytics", "0.5", "first free box"), "mAP50 of 8.4.190"),
    "ultralytics mAP50-95": Named(_ultralytics("ultralytics", "0.5:0.95", "first free box"), "mAP50-95 of 8.4.190"),
    "ultralytics-8.3 mAP50": Named(_ultralytics("ultralytics-8.3", "0.5", "last best box"), "mAP50 up to 8.3, YOLOv5"),
    "ultralytics-8.3 mAP50-95": Named(
        _ultralytics("ultralytics-8.3", "0.5:0.95", "last best box"), "mAP50-95 up to 8.3, YOLOv5"
    ),
}


class Detections:
    """Detections and ground truths of images.

    Args:
        preds, target: images as for :func:`torch_ap.functional.coco_mean_average_precision`, with boxes.
        box_format: "xyxy", "xywh" or "cxcywh".
    """

    def __init__(self, preds: Images, target: Images, box_format: str) -> None:
        settings = settings_by_convention(convention="ultralytics", box_format=box_format)
        columns = validate_images(settings, preds, target)
        self._columns = {name: column.cpu() for name, column in columns.items()}
        self._corners = {
            side: boxes.to_xyxy(self._columns[f"{side}_boxes"], box_format) for side in ("detection", "ground_truth")
        }
        self._xywh = {side: boxes.to_xywh(self._columns[f"{side}_boxes"], box_format) for side in self._corners}
        self._marked = self._columns["ground_truth_iscrowd"].bool() | self._columns["ground_truth_difficult"].bool()

    def evaluate(self, settings: DetectionSettings) -> float:
        """Return the mean average precision over thresholds and classes; NaN without ground truths."""
        curve = self._matches(settings).curve(0)
        each = Convention(interpolation=settings.interpolation, ties="grouped")(curve)
        if settings.absent_classes == "0":
            each = torch.where((curve.m == 0) & (curve.n > 0), 0.0, each)
        return each.nanmean().item()

    def _matches(self, settings: DetectionSettings) -> Matches:
        columns = self._columns
        if settings.rounding != "none":
            scores = [round(score, 3) for score in columns["detection_scores"].tolist()]
            columns = {**columns, "detection_scores": torch.tensor(scores, dtype=torch.float64)}
        most = 100 if settings.limit == "100 per class" else None
        rows = _detection_rows(columns, settings), self._truth_rows(settings)
        ranked, candidates, categories = rank_images(columns, classes_of(columns), most=most, rows=rows)
        ignored = self._marked[candidates.truths]
        if settings.crowds == "objects":
            ignored = torch.zeros_like(ignored)
        is_crowd = ignored if settings.crowds == "ignored" else torch.zeros_like(ignored)
        thresholds = (0.5,) if settings.iou == "0.5" else THRESHOLDS
        if settings.box_sizes == "float32":
            thresholds = tuple(torch.tensor(thresholds, dtype=torch.float32).tolist())
        criteria = assignment.criteria_of(thresholds, 1, ignored.device)
        similarity = self._similarity(settings, ranked.rows[candidates.ranked], candidates.truths, is_crowd)
        pairs = candidate_pairs.overlapping(candidates, similarity, criteria.least)
        skipped = criteria.spread(ignored[None])
        if settings.matching in ("free box", "first free box"):
            matched = assignment.greedy(pairs, candidates.group, skipped, is_crowd, criteria)
        else:
            pairs, state = assignment.argmax(pairs, criteria.thresholds, strict=settings.threshold == "exceeded")
            matched = criteria.pack((state == 1) | ((state == 0) & ignored[pairs.truth]))
        words = (matched, matched & ~skipped[:, pairs.truth])
        return ordered_matches(ranked, candidates, categories, criteria, pairs, words, valid=~ignored)

    def _truth_rows(self, settings: DetectionSettings) -> Tensor:
        """Return the rows of the ground truths; of equals, matching prefers a row near one end."""
        kept = ~self._marked if settings.crowds == "left out" else torch.ones_like(self._marked)
        rows = kept.nonzero().squeeze(1)
        return rows.flip(0) if settings.matching in ("first free box", "last best box") else rows

    def _similarity(self, settings: DetectionSettings, rows: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
        """Return the IoU of pairs of rows; Detectron2 also rounds the corners of detections."""
        if settings.box_sizes == "exact" and settings.rounding == "none":
            return boxes.coco_pairs(self._xywh["detection"][rows], self._xywh["ground_truth"][truths], crowd)
        detected, true = self._corners["detection"][rows], self._corners["ground_truth"][truths]
        if settings.rounding != "none":
            detected = torch.tensor([[round(x, 1) for x in box] for box in detected.tolist()]).double().reshape(-1, 4)
        if settings.box_sizes == "exact":
            return boxes.coco_pairs(boxes.to_xywh(detected, "xyxy"), boxes.to_xywh(true, "xyxy"), crowd)
        if settings.box_sizes == "inclusive":
            return boxes.voc_pairs(detected, true, 1.0)
        return boxes.ultralytics_pairs(detected.float(), true.float())


def _detection_rows(columns: Columns, settings: DetectionSettings) -> Tensor:
    """Return the rows of the evaluated detections: all, or the best of each image."""
    scores = columns["detection_scores"]
    rows = torch.arange(len(scores), device=scores.device)
    if settings.limit != "300 per image":
        return rows
    image = image_ids(columns["detections_per_image"])
    order = (-segments.as_float64(scores)).argsort(stable=True)
    order = order[image[order].argsort(stable=True)]
    place = rows - segments.from_counts(columns["detections_per_image"])[image[order]]
    return order[place < _LVIS_LIMIT].sort().values
