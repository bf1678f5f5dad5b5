"""What the functions of a kind of shape are told beside the columns of the images."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from torch_ap.geometry import keypoints
from torch_ap.inputs.detections import Columns, Kind
from torch_ap.ranking import segments


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapeOptions:
    """What the functions of a kind of shape are told beside the columns.

    Attributes:
        iou_types: names of kinds of shapes, one or several; or a function of the two dicts of an image.
        box_format: of ``boxes``; of no meaning with ``own_iou``.
        own_iou: IoU of pairs of boxes, in place of COCO's.
        box_width: numbers per box.
        sigmas: of K keypoints.
        check_values: whether values are checked.
    """

    iou_types: tuple[Kind, ...] = ("bbox",)
    box_format: str
    own_iou: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
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


class Compared(NamedTuple):
    """What the similarity of a kind of shape is made of.

    Attributes:
        options: of the shapes.
        columns: all images.
        rows: (D,) int64 of the detections that are compared.
        truths: (G,) int64 of the ground truths.
        crowd: (G,) bool, which of ``truths`` are crowds.
    """

    options: ShapeOptions
    columns: Columns
    rows: Tensor
    truths: Tensor
    crowd: Tensor

    def sides(self, key: str) -> tuple[Tensor, Tensor]:
        """The column of this key, of the detections and of the ground truths."""
        detected, true = (self.columns[f"{side}_{key}"] for side in ("detection", "ground_truth"))
        return segments.pick(detected, self.rows), segments.pick(true, self.truths)

    @property
    def crowd_of_rows(self) -> Tensor:
        """Which of all ground truths are crowds, by row."""
        every = self.crowd.new_zeros(len(self.columns["ground_truth_labels"]))
        return every.scatter_(0, self.truths, self.crowd)
