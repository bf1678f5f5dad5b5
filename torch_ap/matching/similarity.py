"""What a geometry says of all images: areas, and the IoU of pairs. Nothing else knows of boxes and masks."""

import torch
from torch import Tensor

from torch_ap.geometry import boxes, masks
from torch_ap.inputs.detections import Columns, image_of
from torch_ap.matching.coco_settings import CocoSettings, OwnIoU
from torch_ap.ranking import segments


class Shapes:
    """What one geometry says of all images: areas, and the IoU of pairs."""

    def __init__(self, settings: CocoSettings, columns: Columns, iou_type: str) -> None:
        self.settings, self.columns, self.iou_type = settings, columns, iou_type
        self.crowd = columns["ground_truth_iscrowd"].bool()
        given = segments.as_float64(columns["ground_truth_area"])
        if settings.area_as_given:
            masks_have = iou_type == "segm"
            self.detection_area = columns["detection_area"] if masks_have else self._area("detection", iou_type)
            self.truth_area = given
            return
        self.detection_area = self._area("detection", iou_type)
        # as in COCO's files, the area of a ground truth is that of its mask where there is one
        kind = "segm" if "segm" in settings.iou_types else iou_type
        self.truth_area = torch.where(given > 0, given, self._area("ground_truth", kind))

    def _area(self, side: str, kind: str) -> Tensor:
        if kind == "segm":
            return segments.as_float64(
                masks.area(self.columns[f"{side}_mask_edges"], self.columns[f"{side}_edges_per_mask"])
            )
        if kind == "bbox" and self.settings.own_iou is None:
            return boxes.area(boxes.to_xywh(self.columns[f"{side}_boxes"], self.settings.box_format))
        return segments.as_float64(self.columns[f"{side}_area"])

    def pair_iou(self, rows: Tensor, truths: Tensor) -> boxes.PairIoU:
        """IoU of pairs of ``rows`` of the detections and ``truths`` of the ground truths."""
        columns, crowd = self.columns, self.crowd[truths]
        if self.iou_type == "segm":
            height = columns["image_sizes"][image_of(columns["ground_truths_per_image"])][:, 0].clamp(min=1)
            sides = [
                masks.take(columns[f"{side}_mask_edges"], columns[f"{side}_edges_per_mask"], places)
                for side, places in (("detection", rows), ("ground_truth", truths))
            ]
            return masks.coco_pairs(sides[0], sides[1], crowd, height[truths])
        if self.iou_type == "precomputed":
            return _looked_up(columns, rows, truths)
        own = self.settings.own_iou
        if own is not None:
            return _asked(own, columns["detection_boxes"][rows], columns["ground_truth_boxes"][truths], crowd)
        to_xywh = boxes.to_xywh
        return boxes.coco_pairs(
            to_xywh(columns["detection_boxes"].index_select(0, rows), self.settings.box_format),
            to_xywh(columns["ground_truth_boxes"][truths], self.settings.box_format),
            crowd,
        )


def _looked_up(columns: Columns, rows: Tensor, truths: Tensor) -> boxes.PairIoU:
    """IoUs from the matrices given, one an image."""
    counts = [columns[f"{side}s_per_image"] for side in ("detection", "ground_truth")]
    image = image_of(counts[0])[rows]
    start = [segments.from_counts(x) for x in (*counts, counts[0] * counts[1])]
    row = start[2][image] + (rows - start[0][image]) * counts[1][image] - start[1][image]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        return _reaching(d, g, segments.as_float64(columns["pair_ious"][row[d] + truths[g]]), least)

    return overlapping


def _asked(own: OwnIoU, one: Tensor, two: Tensor, crowd: Tensor) -> boxes.PairIoU:
    """IoUs from a function of pairs."""

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        value = own(one[d], two[g], crowd[g])
        if not isinstance(value, Tensor) or value.shape != d.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"`iou` must return a tensor of shape ({len(d)},) for {len(d)} pairs, got {got}")
        return _reaching(d, g, segments.as_float64(value), least)

    return overlapping


def _reaching(d: Tensor, g: Tensor, value: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    kept = (value >= least).nonzero().squeeze(1)
    return d[kept], g[kept], value[kept]
