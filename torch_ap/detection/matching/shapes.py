"""Kinds of shapes: one table of their input columns, areas and similarities, and the settings of a metric.

Matching requires nothing else, so a new kind of shape is one row of ``GEOMETRIES``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.base.options import AnyBoxFormat, IoUType, Sigmas, allowed_values
from torch_ap.core.base.untraced import plain_result
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs.images import Columns, DetectionInputs, Kind, OwnSimilarity, RowColumn, image_ids
from torch_ap.detection.inputs.rules import RULES, radians_warning, similarities
from torch_ap.detection.matching.stored import StoredMatches
from torch_ap.detection.shapes import boundaries, boxes, keypoints, masks, rotated
from torch_ap.detection.shapes.boundaries import MaskColumns
from torch_ap.detection.shapes.boxes import PairIoU, pairs_above


class Compared(NamedTuple):
    """Input of the similarity of a kind of shape.

    Attributes:
        options: the options of the shapes.
        columns: all images.
        rows: (D,) int64, the rows of the compared detections.
        truths: (G,) int64, the rows of the compared ground truths.
        crowd: (G,) bool, True for crowds.
    """

    options: "ShapeSettings"
    columns: Columns
    rows: Tensor
    truths: Tensor
    crowd: Tensor

    def sides(self, key: str) -> tuple[Tensor, Tensor]:
        """Return a column of the compared detections and of the compared ground truths."""
        detected, true = (self.columns[f"{side}_{key}"] for side in ("detection", "ground_truth"))
        return segments.pick(detected, self.rows), segments.pick(true, self.truths)

    @property
    def crowd_of_rows(self) -> Tensor:
        """Whether each row of the ground truths is a crowd."""
        return self.crowd.new_zeros(len(self.columns["ground_truth_labels"])).scatter_(0, self.truths, self.crowd)


def _keypoint_rows(settings: "ShapeSettings") -> tuple[RowColumn, ...]:
    """Return the column of keypoints, and the areas and optional boxes of ground truths."""
    return (
        RowColumn("keypoints", (len(settings.sigmas), 3), ("keypoints",), ("keypoints", "visibility")),
        RowColumn("boxes", (4,), None, ("known boxes", settings.box_format), optional=True),
        RowColumn("area", (), None, ("size",)),
    )


def _keypoint_similarity(compared: Compared) -> PairIoU:
    """Return the object keypoint similarity (OKS)."""
    columns, options = compared.columns, compared.options
    found, true = (columns[f"{side}_keypoints"] for side in ("detection", "ground_truth"))
    xywh = boxes.to_xywh(columns["ground_truth_boxes"], options.box_format)
    areas = segments.as_float64(columns["ground_truth_area"])
    similarity = keypoints.coco_pairs(found, true, areas, xywh, options.sigmas)
    return boxes.select_rows(similarity, compared.rows, compared.truths)


def _rotated_rows(settings: "ShapeSettings") -> tuple[RowColumn, ...]:
    """Return the column of boxes with five or eight numbers."""
    corners = settings.box_format == "xyxyxyxy"
    rules = ("moderate", "uncrossed" if corners else "rotated")
    remark = None if corners else radians_warning
    return (RowColumn("boxes", (8 if corners else 5,), rules, rules, warning=remark),)


def _interval_similarity(compared: Compared) -> PairIoU:
    """Return the IoU of intervals."""
    detected, true = (segments.as_float64(side) for side in compared.sides("intervals"))
    return boxes.interval_pairs(detected, true, compared.crowd)


def _center_similarity(compared: Compared) -> PairIoU:
    """Return the negative distance."""
    detected, true = (segments.as_float64(side) for side in compared.sides("centers"))

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        return pairs_above(d, g, -(detected[d] - true[g]).square().sum(1).sqrt(), least)

    return overlapping


AreaRanges: TypeAlias = Mapping[str, tuple[float, float]]
OwnIoU: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

COCO_AREAS: AreaRanges = {
    "all": (0, 1e10),
    "small": (0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
ANY_AREA: AreaRanges = {"all": (-float("inf"), float("inf"))}  # for shapes whose unit of area is unknown


@dataclass(frozen=True)
class Geometry:
    """One kind of shape.

    Attributes:
        similarity: returns the similarity of pairs of shapes.
        area: returns the areas, as ``ShapeSettings.area``; None if images contain them as ``area``.
        rows: returns the columns with a row per shape.
        ignored: returns the ignored ground truths, as ``ShapeSettings.ignored``, from all columns.
        file_areas: whether detections contain areas if areas are used as in COCO's files.
        masks: whether images have masks.
        pairs: whether images have a number for each pair of shapes.
        area_ranges: the default area ranges.
        limits: the default limits on detections.
        recall_at: IoU thresholds whose recall COCO reports in addition to the mean.
        formats: allowed values of ``box_format``; only the default if the kind has no box format.
        alone: whether the kind cannot be combined with other kinds.
    """

    similarity: Callable[[Compared], PairIoU]
    area: Callable[["ShapeSettings", Columns, str], Tensor] | None = None
    rows: Callable[["ShapeSettings"], tuple[RowColumn, ...]] = lambda _: ()
    ignored: Callable[[Columns], Tensor] | None = None
    file_areas: bool = False
    masks: bool = False
    pairs: bool = False
    area_ranges: AreaRanges = field(default_factory=lambda: COCO_AREAS)
    limits: tuple[int, ...] = (1, 10, 100)
    recall_at: tuple[float, ...] = ()
    formats: tuple[str, ...] = boxes.FORMATS
    alone: bool = False


def _box_rows(settings: "ShapeSettings") -> tuple[RowColumn, ...]:
    """Return the column of boxes; detections may have negative sizes, as in COCO's code, with a warning."""
    box_format = settings.box_format
    return (RowColumn("boxes", (4,), ("boxes",), ("boxes", box_format), suspect_rule=box_format),)


def _box_similarity(compared: Compared) -> PairIoU:
    detected, true = compared.sides("boxes")
    box_format, pixel = compared.options.box_format, compared.options.pixel
    if pixel is None:
        return boxes.coco_pairs(boxes.to_xywh(detected, box_format), boxes.to_xywh(true, box_format), compared.crowd)
    return boxes.voc_pairs(boxes.to_xyxy(detected, box_format), boxes.to_xyxy(true, box_format), pixel)


def _mask_area(settings: "ShapeSettings", columns: Columns, side: str) -> Tensor:  # noqa: ARG001
    return segments.as_float64(masks.area(columns[f"{side}_mask_edges"], columns[f"{side}_edges_per_mask"]))


def _mask_similarity(compared: Compared) -> PairIoU:
    detected, true = (masks.Masks(*side) for side in _mask_columns(compared.columns))
    similarity = masks.coco_pairs(detected, true, compared.crowd_of_rows)
    return boxes.select_rows(similarity, compared.rows, compared.truths)


def _mask_columns(columns: Columns) -> tuple[MaskColumns, MaskColumns]:
    """Return the columns of the masks of detections and of ground truths."""
    detected, true = (
        (
            columns[f"{side}_mask_edges"],
            columns[f"{side}_edges_per_mask"],
            columns["image_sizes"].index_select(0, image_ids(columns[f"{side}s_per_image"])),
        )
        for side in ("detection", "ground_truth")
    )
    return detected, true


def _boundary_similarity(compared: Compared) -> PairIoU:
    similarity = boundaries.coco_pairs(*_mask_columns(compared.columns), compared.crowd_of_rows)
    return boxes.select_rows(similarity, compared.rows, compared.truths)


def _matrix_similarity(compared: Compared) -> PairIoU:
    """Return the similarity from one input matrix per image."""
    columns, rows, truths = compared.columns, compared.rows, compared.truths
    counts = [columns[f"{side}s_per_image"] for side in ("detection", "ground_truth")]
    image = image_ids(counts[0])[rows]
    start = [segments.from_counts(x) for x in (*counts, counts[0] * counts[1])]
    row = start[2][image] + (rows - start[0][image]) * counts[1][image] - start[1][image]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        return pairs_above(d, g, segments.as_float64(columns["pair_ious"][row[d] + truths[g]]), least)

    return overlapping


def _own_similarity(compared: Compared) -> PairIoU:
    """Return the similarity from the user's function of pairs of boxes."""
    own = compared.options.own_iou
    assert own is not None
    detected, true = compared.sides("boxes")

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        value = plain_result("iou", own(detected[d], true[g], compared.crowd[g]))
        tensors.check_returned("iou", f"must return a tensor of shape ({len(d)},) for {len(d)} pairs", value, d.shape)
        value = similarities(value)
        if compared.options.check_values:
            rule = RULES["ious"]
            wrong = rule.offends(value).nonzero().flatten()
            if len(wrong):
                image = int(image_ids(compared.columns["detections_per_image"])[compared.rows[d[wrong[0]]]])
                raise_invalid("iou", rule.rule, Plain(f"{float(value[wrong[0]])} for a pair of image {image}"))
        return pairs_above(d, g, value, least)

    return overlapping


GEOMETRIES: dict[str, Geometry] = {
    "bbox": Geometry(
        _box_similarity,
        lambda settings, columns, side: boxes.area(boxes.to_xywh(columns[f"{side}_boxes"], settings.box_format)),
        _box_rows,
    ),
    "segm": Geometry(_mask_similarity, _mask_area, file_areas=True, masks=True),
    "boundary": Geometry(_boundary_similarity, _mask_area, file_areas=True, masks=True),
    "keypoints": Geometry(
        _keypoint_similarity,
        lambda _, columns, side: keypoints.area(columns[f"{side}_keypoints"]),
        _keypoint_rows,
        ignored=lambda columns: keypoints.is_unlabelled(columns["ground_truth_keypoints"]),
        file_areas=True,
        area_ranges={name: COCO_AREAS[name] for name in ("all", "medium", "large")},
        limits=(20,),
        recall_at=(0.5, 0.75),
        alone=True,
    ),
    "rotated": Geometry(
        lambda compared: rotated.coco_pairs(*compared.sides("boxes"), compared.options.box_format, compared.crowd),
        lambda settings, columns, side: rotated.area(columns[f"{side}_boxes"], settings.box_format),
        _rotated_rows,
        formats=rotated.FORMATS,
        alone=True,
    ),
    "intervals": Geometry(
        _interval_similarity,
        lambda _, columns, side: segments.as_float64(columns[f"{side}_intervals"]).diff(dim=1).squeeze(1),
        lambda _: (RowColumn("intervals", (2,), ("intervals", "exact", "order"), ("intervals", "exact", "order")),),
        area_ranges=ANY_AREA,
        formats=("xyxy",),
        alone=True,
    ),
    "centers": Geometry(
        _center_similarity,
        rows=lambda _: (RowColumn("centers", (2,), ("centers",), ("centers",)),),
        area_ranges=ANY_AREA,
        alone=True,
    ),
    "precomputed": Geometry(_matrix_similarity, pairs=True, area_ranges=ANY_AREA, formats=("xyxy",)),
    "function": Geometry(_matrix_similarity, pairs=True, area_ranges=ANY_AREA, formats=("xyxy",)),
    "pairs of boxes": Geometry(
        _own_similarity,
        rows=lambda settings: (RowColumn("boxes", (settings.box_width,), ("boxes",), ("boxes",)),),
        area_ranges=ANY_AREA,
    ),
}


def geometry_of(iou_type: Kind) -> Geometry:
    """Return the row of a kind of shape; all functions have the row "function"."""
    return GEOMETRIES[iou_type if isinstance(iou_type, str) else "function"]


_LEAST_SIGMA = 1e-9  # the square of a much smaller sigma is 0
_DEFAULT_THRESHOLD, _THRESHOLD_TOLERANCE = 0.5, 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapeSettings:
    """The kinds of shapes of a metric, and their options.

    Attributes:
        iou_types: names of one or several kinds of shapes; or a function of the two dicts of an image.
        box_format: the format of ``boxes``; unused with ``own_iou``.
        own_iou: function of pairs of boxes that replaces COCO's IoU.
        box_width: the number of values per box.
        sigmas: the OKS sigma of each of K keypoints.
        check_values: whether values are validated.
        match: "compute", or "update" if the metric matches each batch in ``update``.
    """

    iou_types: tuple[Kind, ...] = ("bbox",)
    box_format: str
    own_iou: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    box_width: int = 4
    sigmas: tuple[float, ...] = keypoints.SIGMAS
    check_values: bool = True
    match: str = "compute"

    @property
    def pixel(self) -> float | None:
        """The number that VOC adds to the differences of corners; None for COCO's boxes."""
        return None

    @property
    def strict(self) -> bool:
        """Whether an IoU must exceed a threshold instead of reaching it."""
        return False

    @cached_property
    def inputs(self) -> DetectionInputs:
        """The validation of images."""
        raise NotImplementedError

    @cached_property
    def stored(self) -> StoredMatches | None:
        """The format of stored matches; None if the metric stores shapes."""
        return None if self.match == "compute" else self._form()

    def _form(self) -> StoredMatches:
        raise NotImplementedError

    @property
    def _shapes_text(self) -> str:
        """The settings of the shapes that change the matches, as text."""
        kinds = self.iou_types if self.own_similarity is None else "function"
        return f"{self.box_format}|{kinds}|{self.sigmas}|{self.own_iou is None}"

    @property
    def own_similarity(self) -> OwnSimilarity | None:
        """The user's function of the two dicts of an image, or None."""
        kind = self.iou_types[0]
        return None if isinstance(kind, str) else kind

    def geometry(self, iou_type: Kind) -> Geometry:
        """Return the row of a kind of shape."""
        return GEOMETRIES["pairs of boxes"] if self.own_iou is not None else geometry_of(iou_type)

    @property
    def geometries(self) -> tuple[Geometry, ...]:
        """The rows of all kinds of shapes."""
        return tuple(self.geometry(kind) for kind in self.iou_types)

    @property
    def rows(self) -> tuple[RowColumn, ...]:
        """The columns with a row per shape of all kinds."""
        return tuple(column for geometry in self.geometries for column in geometry.rows(self))

    def ignored(self, columns: Columns, iou_type: Kind) -> Tensor | None:
        """Whether each ground truth is always ignored: (G,) bool; None if none are."""
        ignored = self.geometry(iou_type).ignored
        return None if ignored is None else ignored(columns)

    def area(self, columns: Columns, iou_type: Kind, side: str) -> Tensor:
        """Return the area of each shape of a side, "detection" or "ground_truth": (N,) float64."""
        area = self.geometry(iou_type).area
        return segments.as_float64(columns[f"{side}_area"]) if area is None else area(self, columns, side)

    def similarity(self, columns: Columns, iou_type: Kind, rows: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
        """Return the similarity of pairs of detections and ground truths.

        Args:
            columns: all images.
            iou_type: the kind of shape.
            rows: (D,) int64, the rows of the compared detections.
            truths: (G,) int64, the rows of the compared ground truths.
            crowd: (G,) bool, True for crowds.
        """
        return self.geometry(iou_type).similarity(Compared(self, columns, rows, truths, crowd))


def threshold_index(threshold: float | None, known: Sequence[float], name: str = "iou_threshold") -> int:
    """Return the index of a threshold among the known ones; None means 0.5, or the lowest if 0.5 is unknown."""
    if threshold is None:
        threshold = min(known, key=lambda x: (abs(x - _DEFAULT_THRESHOLD) > _THRESHOLD_TOLERANCE, x))
    return checks.option_index(name, threshold, known)


def shape_settings_of(
    *,
    iou_type: Kind | tuple[Kind, ...],
    box_format: str,
    iou: OwnIoU | None = None,
    box_width: int = 4,
    sigmas: Sigmas = None,
    validate_args: bool = True,
    match: str = "compute",
) -> ShapeSettings:
    """Validate the arguments, and return the settings."""
    checks.one_of("match", match, ("compute", "update"))
    kinds = tuple(iou_type) if isinstance(iou_type, tuple | list) else (iou_type,)
    for kind in kinds:
        if len(kinds) > 1 or not callable(kind):
            checks.one_of("iou_type", kind, allowed_values(IoUType), or_else="a function")
    if not kinds or len(set(kinds)) < len(kinds):
        raise_invalid("iou_type", "must name one kind or several different ones", iou_type)
    several = kinds if len(kinds) > 1 else ()
    if several and match == "update":
        raise ValueError(f"`iou_type` must be one kind with `match='update'`, got {iou_type!r}; take a metric of each")
    alone = [kind for kind in several if geometry_of(kind).alone]
    if alone:
        raise_invalid("iou_type", f"must be {alone[0]!r} alone, whose columns, areas or limits are others", iou_type)
    formats = geometry_of(kinds[0]).formats
    is_named = isinstance(box_format, str) and box_format in allowed_values(AnyBoxFormat)
    if is_named and box_format not in formats:
        rule = f"must be one of {', '.join(map(repr, formats))}" if formats[1:] else "must be left out"
        raise_invalid("box_format", f"{rule} with `iou_type={_name(kinds[0])}`", box_format)
    checks.one_of("box_format", box_format, formats)
    checks.boolean("validate_args", validate_args)
    box_width = checks.positive_int("box_width", box_width)
    if iou is not None and (kinds != ("bbox",) or not callable(iou)):
        raise ValueError(
            f"`iou` must be a function of boxes, with `iou_type='bbox'`, got {short_repr(iou)} and "
            f"{short_repr(iou_type)}"
        )
    if iou is None and box_width != 4:
        raise_invalid("box_width", "must be 4 without a function `iou`", box_width)
    if sigmas is not None:
        if kinds != ("keypoints",):
            raise_invalid("sigmas", "must be None without `iou_type='keypoints'`", sigmas)
        if isinstance(sigmas, Tensor | np.ndarray) and sigmas.ndim == 1:
            sigmas = sigmas.tolist()
        checks.numbers_in("sigmas", sigmas, low=_LEAST_SIGMA, high=1 / _LEAST_SIGMA)
    return ShapeSettings(
        iou_types=kinds,
        box_format=box_format,
        own_iou=iou,
        box_width=box_width,
        sigmas=keypoints.SIGMAS if sigmas is None else tuple(map(float, sigmas)),
        check_values=validate_args,
        match=match,
    )


def _name(kind: Kind) -> str:
    return repr(kind) if isinstance(kind, str) else "a function"
