"""The kinds of shapes, as a table: what images bring, the area of each shape, the similarity of pairs of them.

Matching asks for nothing else, so a new kind of shape is a row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor

from torch_ap.geometry import boundaries, boxes, masks, rotated
from torch_ap.geometry.boundaries import MaskColumns
from torch_ap.geometry.boxes import PairIoU
from torch_ap.inputs.detections import Columns, Kind, RowColumn, image_of
from torch_ap.matching import other_shapes
from torch_ap.matching.shape_options import Compared, ShapeOptions
from torch_ap.ranking import segments
from torch_ap.rules import tensors
from torch_ap.rules.detections import RULES, similarities
from torch_ap.rules.messages import Plain, refuse

AreaRanges: TypeAlias = Mapping[str, tuple[float, float]]
OwnIoU: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

COCO_AREAS: AreaRanges = {
    "all": (0, 1e10),
    "small": (0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
ANY_AREA: AreaRanges = {"all": (-float("inf"), float("inf"))}  # areas of unknown shapes, volumes perhaps


@dataclass(frozen=True)
class Geometry:
    """One kind of shape; its other functions are given the settings and all columns of the images.

    Attributes:
        similarity: of the pairs of what is compared.
        area: as the settings' ``area``; None where ``area`` is what images say.
        ignored: as the settings' ``ignored``, of all columns.
        file_areas: whether detections bring their areas where areas are taken as COCO's files give them.
        rows: the columns with a row per shape.
        masks: whether images have masks.
        pairs: whether images have a number for each pair.
        area_ranges: where none are given.
        limits: on detections, where none are given.
        recall_at: IoU thresholds whose recall COCO gives beside the mean over all.
        formats: that ``box_format`` may be; only the default where it has no meaning.
        alone: whether it goes with no other kind.
    """

    similarity: Callable[[Compared], PairIoU]
    area: Callable[[ShapeOptions, Columns, str], Tensor] | None = None
    rows: Callable[[ShapeOptions], tuple[RowColumn, ...]] = lambda _: ()
    ignored: Callable[[Columns], Tensor] | None = None
    file_areas: bool = False
    masks: bool = False
    pairs: bool = False
    area_ranges: AreaRanges = field(default_factory=lambda: COCO_AREAS)
    limits: tuple[int, ...] = (1, 10, 100)
    recall_at: tuple[float, ...] = ()
    formats: tuple[str, ...] = boxes.FORMATS
    alone: bool = False


def _box_rows(settings: ShapeOptions) -> tuple[RowColumn, ...]:
    """Those of detections may have negative sizes, as COCO's own code takes them; a warning tells."""
    form = settings.box_format
    return (RowColumn("boxes", (4,), ("boxes",), ("boxes", form), doubtful=form),)


def _box_area(settings: ShapeOptions, columns: Columns, side: str) -> Tensor:
    return boxes.area(boxes.to_xywh(columns[f"{side}_boxes"], settings.box_format))


def _box_similarity(of: Compared) -> PairIoU:
    detected, true = of.sides("boxes")
    form, pixel = of.options.box_format, of.options.pixel
    if pixel is None:
        return boxes.coco_pairs(boxes.to_xywh(detected, form), boxes.to_xywh(true, form), of.crowd)
    return boxes.voc_pairs(boxes.to_xyxy(detected, form), boxes.to_xyxy(true, form), pixel)


def _mask_area(settings: ShapeOptions, columns: Columns, side: str) -> Tensor:  # noqa: ARG001
    return segments.as_float64(masks.area(columns[f"{side}_mask_edges"], columns[f"{side}_edges_per_mask"]))


def _mask_similarity(of: Compared) -> PairIoU:
    one, two = _sides_of_masks(of.columns)
    return boxes.of_rows(masks.coco_pairs(masks.Masks(*one), masks.Masks(*two), of.crowd_of_rows), of.rows, of.truths)


def _sides_of_masks(columns: Columns) -> tuple[MaskColumns, MaskColumns]:
    """Of detections and of ground truths."""
    one, two = (
        (
            columns[f"{side}_mask_edges"],
            columns[f"{side}_edges_per_mask"],
            columns["image_sizes"].index_select(0, image_of(columns[f"{side}s_per_image"])),
        )
        for side in ("detection", "ground_truth")
    )
    return one, two


def _boundary_similarity(of: Compared) -> PairIoU:
    return boxes.of_rows(boundaries.coco_pairs(*_sides_of_masks(of.columns), of.crowd_of_rows), of.rows, of.truths)


def _given_similarity(of: Compared) -> PairIoU:
    """From the matrices given, one per image."""
    columns, rows, truths = of.columns, of.rows, of.truths
    counts = [columns[f"{side}s_per_image"] for side in ("detection", "ground_truth")]
    image = image_of(counts[0])[rows]
    start = [segments.from_counts(x) for x in (*counts, counts[0] * counts[1])]
    row = start[2][image] + (rows - start[0][image]) * counts[1][image] - start[1][image]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        return other_shapes.reaching(d, g, segments.as_float64(columns["pair_ious"][row[d] + truths[g]]), least)

    return overlapping


def _own_rows(settings: ShapeOptions) -> tuple[RowColumn, ...]:
    return (RowColumn("boxes", (settings.box_width,), ("boxes",), ("boxes",)),)


def _own_similarity(of: Compared) -> PairIoU:
    """From a function of pairs of boxes."""
    own = of.options.own_iou
    assert own is not None
    one, two = of.sides("boxes")

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        value = own(one[d], two[g], of.crowd[g])
        tensors.returned("iou", f"must return a tensor of shape ({len(d)},) for {len(d)} pairs", value, d.shape)
        value = similarities(value)
        if of.options.check_values:
            _check_own(value, of.rows[d], of.columns["detections_per_image"])
        return other_shapes.reaching(d, g, value, least)

    return overlapping


def _check_own(value: Tensor, rows: Tensor, counts: Tensor) -> None:
    """Refuse what no similarity is, of pairs whose detections have these rows, of images with so many."""
    rule = RULES["ious"]
    wrong = rule.offends(value).nonzero().flatten()
    if len(wrong):
        image = int(image_of(counts)[rows[wrong[0]]])
        refuse("iou", rule.rule, Plain(f"{float(value[wrong[0]])} for a pair of image {image}"))


GEOMETRIES: dict[str, Geometry] = {
    "bbox": Geometry(_box_similarity, _box_area, _box_rows),
    "segm": Geometry(_mask_similarity, _mask_area, file_areas=True, masks=True),
    "boundary": Geometry(_boundary_similarity, _mask_area, file_areas=True, masks=True),
    "keypoints": Geometry(
        other_shapes.keypoint_similarity,
        other_shapes.keypoint_area,
        other_shapes.keypoint_rows,
        ignored=other_shapes.unlabelled,
        file_areas=True,
        area_ranges={name: COCO_AREAS[name] for name in ("all", "medium", "large")},
        limits=(20,),
        recall_at=(0.5, 0.75),
        alone=True,
    ),
    "rotated": Geometry(
        other_shapes.rotated_similarity,
        other_shapes.rotated_area,
        other_shapes.rotated_rows,
        formats=rotated.FORMATS,
        alone=True,
    ),
    "intervals": Geometry(
        other_shapes.interval_similarity,
        other_shapes.interval_area,
        other_shapes.interval_rows,
        area_ranges=ANY_AREA,
        formats=("xyxy",),
        alone=True,
    ),
    "centers": Geometry(
        other_shapes.center_similarity, rows=other_shapes.center_rows, area_ranges=ANY_AREA, alone=True
    ),
    "precomputed": Geometry(_given_similarity, pairs=True, area_ranges=ANY_AREA, formats=("xyxy",)),
    "function": Geometry(_given_similarity, pairs=True, area_ranges=ANY_AREA, formats=("xyxy",)),
    "pairs of boxes": Geometry(_own_similarity, rows=_own_rows, area_ranges=ANY_AREA),
}


def geometry_of(iou_type: Kind) -> Geometry:
    """The row of a kind of shape."""
    return GEOMETRIES[iou_type if isinstance(iou_type, str) else "function"]
