"""The kinds of shapes, as a table: what images bring, the area of each shape, the similarity of pairs of them.

Matching asks for nothing else, so a new kind of shape is a row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor

from torch_ap.geometry import boxes, intervals, keypoints, masks, rotated
from torch_ap.geometry.boxes import PairIoU
from torch_ap.inputs.detections import Columns, Kind, OwnSimilarity, RowColumn, image_of
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, refuse, shown
from torch_ap.rules.options import IoUType, allowed

AreaRanges: TypeAlias = Mapping[str, tuple[float, float]]
OwnIoU: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

COCO_AREAS: AreaRanges = {
    "all": (0, 1e10),
    "small": (0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
_LEAST_SIGMA = 1e-9  # squares of much smaller ones are 0
ANY_AREA: AreaRanges = {"all": (-float("inf"), float("inf"))}  # areas of unknown shapes, volumes perhaps


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapeSettings:
    """Which kinds of shapes a metric compares, and how.

    Attributes:
        iou_types: names of :data:`GEOMETRIES`, one or several; or a function of the two dicts of an image.
        box_format: of ``boxes``; of no meaning with ``own_iou``.
        own_iou: IoU of pairs of boxes, in place of COCO's.
        box_width: numbers per box.
        sigmas: of K keypoints.
        check_values: whether values are checked.
    """

    iou_types: tuple[Kind, ...] = ("bbox",)
    box_format: str
    own_iou: OwnIoU | None = None
    box_width: int = 4
    sigmas: tuple[float, ...] = keypoints.SIGMAS
    check_values: bool = True

    @property
    def pixel(self) -> float | None:
        """What VOC adds to the differences of corners; None for COCO's boxes."""
        return None

    @property
    def strict(self) -> bool:
        """Whether an IoU must exceed a threshold rather than reach it."""
        return False

    @property
    def own_similarity(self) -> OwnSimilarity | None:
        """The function of the two dicts of an image, where there is one."""
        kind = self.iou_types[0]
        return None if isinstance(kind, str) else kind

    def geometry(self, iou_type: Kind) -> "Geometry":
        """The row of one of the kinds."""
        return GEOMETRIES["pairs of boxes"] if self.own_iou is not None else geometry_of(iou_type)

    @property
    def geometries(self) -> tuple["Geometry", ...]:
        """The rows of all kinds."""
        return tuple(self.geometry(kind) for kind in self.iou_types)

    @property
    def rows(self) -> tuple[RowColumn, ...]:
        """The columns of all kinds."""
        return tuple(column for one in self.geometries for column in one.rows(self))

    def ignored(self, columns: Columns, iou_type: Kind) -> Tensor | None:
        """(G,) bool, which ground truths do not count, whatever is found of them; None for none."""
        found = self.geometry(iou_type).ignored
        return None if found is None else found(columns)

    def area(self, columns: Columns, iou_type: Kind, side: str) -> Tensor:
        """(N,) float64, the area of each shape of a side, "detection" or "ground_truth"."""
        found = self.geometry(iou_type).area
        return segments.as_float64(columns[f"{side}_area"]) if found is None else found(self, columns, side)

    def similarity(self, columns: Columns, iou_type: Kind, rows: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
        """That of pairs of ``rows`` of the detections and ``truths`` of the ground truths.

        Args:
            columns: all images.
            iou_type: one of the kinds.
            rows: (D,) int64.
            truths: (G,) int64.
            crowd: (G,) bool, which of ``truths`` are crowds.
        """
        return self.geometry(iou_type).similarity(self, columns, rows, truths, crowd)


@dataclass(frozen=True)
class Geometry:
    """One kind of shape; its functions are given the settings and all columns of the images.

    Attributes:
        similarity: as :meth:`ShapeSettings.similarity`.
        area: as :meth:`ShapeSettings.area`; None where ``area`` is what images say.
        ignored: as :meth:`ShapeSettings.ignored`, of all columns.
        file_areas: whether detections bring their areas where areas are taken as COCO's files give them.
        rows: the columns with a row per shape.
        masks: whether images have masks.
        pairs: whether images have a number for each pair.
        area_ranges: where none are given.
        limits: on detections, where none are given.
        recall_at: IoU thresholds whose recall COCO gives beside the mean over all.
        formats: that ``box_format`` may be.
        alone: whether it goes with no other kind.
    """

    similarity: Callable[[ShapeSettings, Columns, Tensor, Tensor, Tensor], PairIoU]
    area: Callable[[ShapeSettings, Columns, str], Tensor] | None = None
    rows: Callable[[ShapeSettings], tuple[RowColumn, ...]] = lambda _: ()
    ignored: Callable[[Columns], Tensor] | None = None
    file_areas: bool = False
    masks: bool = False
    pairs: bool = False
    area_ranges: AreaRanges = field(default_factory=lambda: COCO_AREAS)
    limits: tuple[int, ...] = (1, 10, 100)
    recall_at: tuple[float, ...] = ()
    formats: tuple[str, ...] = boxes.FORMATS
    alone: bool = False


def _box_rows(settings: ShapeSettings) -> tuple[RowColumn, ...]:
    return (RowColumn("boxes", (4,), ("boxes",), ("boxes", settings.box_format)),)


def _box_area(settings: ShapeSettings, columns: Columns, side: str) -> Tensor:
    return boxes.area(boxes.to_xywh(columns[f"{side}_boxes"], settings.box_format))


def _box_similarity(settings: ShapeSettings, columns: Columns, rows: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
    detected, true = columns["detection_boxes"].index_select(0, rows), columns["ground_truth_boxes"][truths]
    form, pixel = settings.box_format, settings.pixel
    if pixel is None:
        return boxes.coco_pairs(boxes.to_xywh(detected, form), boxes.to_xywh(true, form), crowd)
    return boxes.voc_pairs(boxes.to_xyxy(detected, form), boxes.to_xyxy(true, form), pixel)


def _mask_area(settings: ShapeSettings, columns: Columns, side: str) -> Tensor:  # noqa: ARG001
    return segments.as_float64(masks.area(columns[f"{side}_mask_edges"], columns[f"{side}_edges_per_mask"]))


def _mask_similarity(
    settings: ShapeSettings,  # noqa: ARG001
    columns: Columns,
    rows: Tensor,
    truths: Tensor,
    crowd: Tensor,
) -> PairIoU:
    detected, true = (
        masks.Masks(
            columns[f"{side}_mask_edges"],
            columns[f"{side}_edges_per_mask"],
            columns["image_sizes"][image_of(columns[f"{side}s_per_image"])],
        )
        for side in ("detection", "ground_truth")
    )
    of_rows = crowd.new_zeros(len(columns["ground_truth_labels"])).scatter_(0, truths, crowd)
    return boxes.of_rows(masks.coco_pairs(detected, true, of_rows), rows, truths)


def _keypoint_rows(settings: ShapeSettings) -> tuple[RowColumn, ...]:
    return (
        RowColumn("keypoints", (len(settings.sigmas), 3), ("keypoints",), ("keypoints", "visibility")),
        RowColumn("boxes", (4,), None, ("known boxes", settings.box_format), optional=True),
        RowColumn("area", (), None, ("size",)),
    )


def _keypoint_area(settings: ShapeSettings, columns: Columns, side: str) -> Tensor:  # noqa: ARG001
    return keypoints.area(columns[f"{side}_keypoints"])


def _keypoint_similarity(
    settings: ShapeSettings,
    columns: Columns,
    rows: Tensor,
    truths: Tensor,
    crowd: Tensor,  # noqa: ARG001
) -> PairIoU:
    similarity = keypoints.coco_pairs(
        columns["detection_keypoints"],
        columns["ground_truth_keypoints"],
        segments.as_float64(columns["ground_truth_area"]),
        boxes.to_xywh(columns["ground_truth_boxes"], settings.box_format),
        settings.sigmas,
    )
    return boxes.of_rows(similarity, rows, truths)


def _rotated_rows(settings: ShapeSettings) -> tuple[RowColumn, ...]:
    corners = settings.box_format == "xyxyxyxy"
    rules = ("moderate", "convex" if corners else "rotated")
    return (RowColumn("boxes", (8 if corners else 5,), rules, rules),)


def _rotated_area(settings: ShapeSettings, columns: Columns, side: str) -> Tensor:
    return rotated.area(columns[f"{side}_boxes"], settings.box_format)


def _rotated_similarity(
    settings: ShapeSettings, columns: Columns, rows: Tensor, truths: Tensor, crowd: Tensor
) -> PairIoU:
    detected, true = columns["detection_boxes"][rows], columns["ground_truth_boxes"][truths]
    return rotated.coco_pairs(detected, true, settings.box_format, crowd)


def _interval_rows(settings: ShapeSettings) -> tuple[RowColumn, ...]:  # noqa: ARG001
    return (RowColumn("intervals", (2,), ("intervals", "exact", "order"), ("intervals", "exact", "order")),)


def _interval_area(settings: ShapeSettings, columns: Columns, side: str) -> Tensor:  # noqa: ARG001
    return intervals.length(segments.as_float64(columns[f"{side}_intervals"]))


def _interval_similarity(
    settings: ShapeSettings,  # noqa: ARG001
    columns: Columns,
    rows: Tensor,
    truths: Tensor,
    crowd: Tensor,
) -> PairIoU:
    detected, true = columns["detection_intervals"][rows], columns["ground_truth_intervals"][truths]
    return intervals.coco_pairs(segments.as_float64(detected), segments.as_float64(true), crowd)


def _unlabelled(columns: Columns) -> Tensor:
    return keypoints.unlabelled(columns["ground_truth_keypoints"])


def _given_similarity(
    settings: ShapeSettings,  # noqa: ARG001
    columns: Columns,
    rows: Tensor,
    truths: Tensor,
    crowd: Tensor,  # noqa: ARG001
) -> PairIoU:
    """From the matrices given, one per image."""
    counts = [columns[f"{side}s_per_image"] for side in ("detection", "ground_truth")]
    image = image_of(counts[0])[rows]
    start = [segments.from_counts(x) for x in (*counts, counts[0] * counts[1])]
    row = start[2][image] + (rows - start[0][image]) * counts[1][image] - start[1][image]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        return _reaching(d, g, segments.as_float64(columns["pair_ious"][row[d] + truths[g]]), least)

    return overlapping


def _own_rows(settings: ShapeSettings) -> tuple[RowColumn, ...]:
    return (RowColumn("boxes", (settings.box_width,), ("boxes",), ("boxes",)),)


def _own_similarity(settings: ShapeSettings, columns: Columns, rows: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
    """From a function of pairs of boxes."""
    own = settings.own_iou
    assert own is not None
    one, two = columns["detection_boxes"][rows], columns["ground_truth_boxes"][truths]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        value = own(one[d], two[g], crowd[g])
        if not isinstance(value, Tensor) or value.shape != d.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            refuse("iou", f"must return a tensor of shape ({len(d)},) for {len(d)} pairs", Plain(got))
        return _reaching(d, g, segments.as_float64(value), least)

    return overlapping


def _reaching(d: Tensor, g: Tensor, value: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    kept = (value >= least).nonzero().squeeze(1)
    return d[kept], g[kept], value[kept]


GEOMETRIES: dict[str, Geometry] = {
    "bbox": Geometry(_box_similarity, _box_area, _box_rows),
    "segm": Geometry(_mask_similarity, _mask_area, file_areas=True, masks=True),
    "keypoints": Geometry(
        _keypoint_similarity,
        _keypoint_area,
        _keypoint_rows,
        ignored=_unlabelled,
        file_areas=True,
        area_ranges={name: COCO_AREAS[name] for name in ("all", "medium", "large")},
        limits=(20,),
        recall_at=(0.5, 0.75),
        alone=True,
    ),
    "rotated": Geometry(_rotated_similarity, _rotated_area, _rotated_rows, formats=rotated.FORMATS, alone=True),
    "intervals": Geometry(_interval_similarity, _interval_area, _interval_rows, area_ranges=ANY_AREA, alone=True),
    "precomputed": Geometry(_given_similarity, pairs=True, area_ranges=ANY_AREA),
    "function": Geometry(_given_similarity, pairs=True, area_ranges=ANY_AREA),
    "pairs of boxes": Geometry(_own_similarity, rows=_own_rows, area_ranges=ANY_AREA),
}


def geometry_of(iou_type: Kind) -> Geometry:
    """The row of a kind of shape."""
    return GEOMETRIES[iou_type if isinstance(iou_type, str) else "function"]


def shape_settings_of(
    *,
    iou_type: Kind | tuple[Kind, ...],
    box_format: str,
    iou: OwnIoU | None = None,
    box_width: int = 4,
    sigmas: Sequence[float] | None = None,
    validate_args: bool = True,
) -> ShapeSettings:
    """Settings as given, checked, as a record."""
    kinds = tuple(iou_type) if isinstance(iou_type, tuple | list) else (iou_type,)
    for kind in kinds:
        if len(kinds) > 1 or not callable(kind):
            checks.one_of("iou_type", kind, allowed(IoUType), or_else="a function")
    if not kinds or len(set(kinds)) < len(kinds):
        refuse("iou_type", "must name one kind or several different ones", iou_type)
    several = kinds if len(kinds) > 1 else ()
    alone = [kind for kind in several if geometry_of(kind).alone]
    if alone:
        refuse("iou_type", f"must be {alone[0]!r} alone, whose columns, areas or limits are others", iou_type)
    formats = geometry_of(kinds[0]).formats
    if kinds == ("rotated",) and box_format not in formats:
        refuse("box_format", f"must be one of {', '.join(map(repr, formats))} with `iou_type='rotated'`", box_format)
    checks.one_of("box_format", box_format, formats)
    checks.boolean("validate_args", validate_args)
    box_width = checks.positive_int("box_width", box_width)
    if iou is not None and (kinds != ("bbox",) or not callable(iou)):
        raise ValueError(
            f"`iou` must be a function of boxes, with `iou_type='bbox'`, got {shown(iou)} and {shown(iou_type)}"
        )
    if iou is None and box_width != 4:
        refuse("box_width", "must be 4 without a function `iou`", box_width)
    if sigmas is not None:
        if kinds != ("keypoints",):
            refuse("sigmas", "must be None without `iou_type='keypoints'`", sigmas)
        checks.numbers_in("sigmas", sigmas, low=_LEAST_SIGMA, high=1 / _LEAST_SIGMA)
    return ShapeSettings(
        iou_types=kinds,
        box_format=box_format,
        own_iou=iou,
        box_width=box_width,
        sigmas=keypoints.SIGMAS if sigmas is None else tuple(map(float, sigmas)),
        check_values=validate_args,
    )
