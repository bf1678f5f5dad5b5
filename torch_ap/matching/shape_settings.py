"""Which kinds of shapes a metric compares, and how; each question about them is answered by a row of the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from torch_ap.geometry import keypoints
from torch_ap.geometry.boxes import PairIoU
from torch_ap.inputs.detections import Columns, Kind, OwnSimilarity, RowColumn
from torch_ap.matching.geometries import GEOMETRIES, Geometry, OwnIoU, geometry_of
from torch_ap.matching.shape_options import Compared, ShapeOptions
from torch_ap.matching.stored import StoredMatches
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse, shown
from torch_ap.rules.options import AnyBoxFormat, IoUType, Sigmas, allowed

_LEAST_SIGMA = 1e-9  # squares of much smaller ones are 0
_USUAL, _ROUNDED = 0.5, 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapeSettings(ShapeOptions):
    """The kinds of shapes of a metric, and what is asked of them.

    Attributes:
        match: "compute", or "update" where a metric matches each batch as it comes.
    """

    match: str = "compute"

    @cached_property
    def stored(self) -> StoredMatches | None:
        """The form in which a metric keeps matches, where it does."""
        return None if self.match == "compute" else self._form()

    def _form(self) -> StoredMatches:
        raise NotImplementedError

    @property
    def _shapes_text(self) -> str:
        """What matches depend on beside thresholds and areas."""
        kinds = self.iou_types if self.own_similarity is None else "function"
        return f"{self.box_format}|{kinds}|{self.sigmas}|{self.own_iou is None}"

    @property
    def own_similarity(self) -> OwnSimilarity | None:
        """The function of the two dicts of an image, where there is one."""
        kind = self.iou_types[0]
        return None if isinstance(kind, str) else kind

    def geometry(self, iou_type: Kind) -> Geometry:
        """The row of one of the kinds."""
        return GEOMETRIES["pairs of boxes"] if self.own_iou is not None else geometry_of(iou_type)

    @property
    def geometries(self) -> tuple[Geometry, ...]:
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
        return self.geometry(iou_type).similarity(Compared(self, columns, rows, truths, crowd))


def place_of_threshold(threshold: float | None, known: Sequence[float], name: str = "iou_threshold") -> int:
    """Where a threshold stands among those of a metric; None is 0.5, or the lowest where that is none of them."""
    if threshold is None:
        threshold = min(known, key=lambda x: (abs(x - _USUAL) > _ROUNDED, x))
    return checks.place_among(name, threshold, known)


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
    """Settings as given, checked, as a record."""
    checks.one_of("match", match, ("compute", "update"))
    kinds = tuple(iou_type) if isinstance(iou_type, tuple | list) else (iou_type,)
    for kind in kinds:
        if len(kinds) > 1 or not callable(kind):
            checks.one_of("iou_type", kind, allowed(IoUType), or_else="a function")
    if not kinds or len(set(kinds)) < len(kinds):
        refuse("iou_type", "must name one kind or several different ones", iou_type)
    several = kinds if len(kinds) > 1 else ()
    if several and match == "update":
        raise ValueError(f"`iou_type` must be one kind with `match='update'`, got {iou_type!r}; take a metric of each")
    alone = [kind for kind in several if geometry_of(kind).alone]
    if alone:
        refuse("iou_type", f"must be {alone[0]!r} alone, whose columns, areas or limits are others", iou_type)
    formats = geometry_of(kinds[0]).formats
    if box_format not in formats and box_format in allowed(AnyBoxFormat):
        rule = f"must be one of {', '.join(map(repr, formats))}" if formats[1:] else "must be left out"
        refuse("box_format", f"{rule} with `iou_type={_name(kinds[0])}`", box_format)
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
