"""Keypoints, rotated boxes, intervals and centres: columns, areas and similarities of each, for the table of shapes."""

from torch import Tensor

from torch_ap.geometry import boxes, intervals, keypoints, rotated
from torch_ap.geometry.boxes import PairIoU
from torch_ap.inputs.detections import Columns, RowColumn
from torch_ap.matching.shape_options import Compared, ShapeOptions
from torch_ap.ranking import segments
from torch_ap.rules.detections import seem_radians


def keypoint_rows(settings: ShapeOptions) -> tuple[RowColumn, ...]:
    """Keypoints; of ground truths also areas and, where they are known, boxes."""
    return (
        RowColumn("keypoints", (len(settings.sigmas), 3), ("keypoints",), ("keypoints", "visibility")),
        RowColumn("boxes", (4,), None, ("known boxes", settings.box_format), optional=True),
        RowColumn("area", (), None, ("size",)),
    )


def keypoint_area(settings: ShapeOptions, columns: Columns, side: str) -> Tensor:  # noqa: ARG001
    """That of the box around all points."""
    return keypoints.area(columns[f"{side}_keypoints"])


def keypoint_similarity(of: Compared) -> PairIoU:
    """OKS."""
    columns = of.columns
    similarity = keypoints.coco_pairs(
        columns["detection_keypoints"],
        columns["ground_truth_keypoints"],
        segments.as_float64(columns["ground_truth_area"]),
        boxes.to_xywh(columns["ground_truth_boxes"], of.options.box_format),
        of.options.sigmas,
    )
    return boxes.of_rows(similarity, of.rows, of.truths)


def rotated_rows(settings: ShapeOptions) -> tuple[RowColumn, ...]:
    """Boxes of five or eight numbers."""
    corners = settings.box_format == "xyxyxyxy"
    rules = ("moderate", "uncrossed" if corners else "rotated")
    remark = None if corners else seem_radians
    return (RowColumn("boxes", (8 if corners else 5,), rules, rules, remark=remark),)


def rotated_area(settings: ShapeOptions, columns: Columns, side: str) -> Tensor:
    """Of boxes of any format."""
    return rotated.area(columns[f"{side}_boxes"], settings.box_format)


def rotated_similarity(of: Compared) -> PairIoU:
    """IoU."""
    return rotated.coco_pairs(*of.sides("boxes"), of.options.box_format, of.crowd)


def interval_rows(settings: ShapeOptions) -> tuple[RowColumn, ...]:  # noqa: ARG001
    """Starts and ends."""
    return (RowColumn("intervals", (2,), ("intervals", "exact", "order"), ("intervals", "exact", "order")),)


def interval_area(settings: ShapeOptions, columns: Columns, side: str) -> Tensor:  # noqa: ARG001
    """Lengths."""
    return intervals.length(segments.as_float64(columns[f"{side}_intervals"]))


def interval_similarity(of: Compared) -> PairIoU:
    """IoU."""
    detected, true = (segments.as_float64(side) for side in of.sides("intervals"))
    return intervals.coco_pairs(detected, true, of.crowd)


def center_rows(settings: ShapeOptions) -> tuple[RowColumn, ...]:  # noqa: ARG001
    """Points."""
    return (RowColumn("centers", (2,), ("centers",), ("centers",)),)


def center_similarity(of: Compared) -> PairIoU:
    """Minus the distance."""
    one, two = (segments.as_float64(side) for side in of.sides("centers"))

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        return reaching(d, g, -(one[d] - two[g]).square().sum(1).sqrt(), least)

    return overlapping


def unlabelled(columns: Columns) -> Tensor:
    """(G,) bool, which ground truths have no labelled point."""
    return keypoints.unlabelled(columns["ground_truth_keypoints"])


def reaching(d: Tensor, g: Tensor, value: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    """The pairs whose value is at least so much."""
    kept = (value >= least).nonzero().squeeze(1)
    return d[kept], g[kept], value[kept]
