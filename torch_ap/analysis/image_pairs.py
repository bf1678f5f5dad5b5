"""Pairs of one image, whatever their classes: what detections overlap beside the ground truths of their own class."""

from typing import Any

from torch import Tensor

from torch_ap.geometry.boxes import turned
from torch_ap.inputs.detections import Columns, Kind
from torch_ap.matching import candidate_pairs
from torch_ap.matching.candidate_pairs import Candidates, Pairs
from torch_ap.matching.matched import Matches
from torch_ap.matching.shape_settings import ShapeSettings
from torch_ap.ranking import segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native


def image_pairs(
    settings: ShapeSettings,
    columns: Columns,
    iou_type: Kind,
    matches: Matches,
    chosen: Tensor,
    truths: Tensor,
    least: float,
) -> Pairs:
    """:func:`row_pairs` of some of the detections that were ranked, (N,) bool: detections as places among these."""
    rows = native(matches.ranked.rows)
    flags = arrays.full(len(columns["detection_labels"]), False, native(chosen))
    flags[arrays.take(rows, arrays.places(native(chosen)))] = True
    pairs = row_pairs(settings, columns, iou_type, flags, native(truths), least)
    at = native(pairs.detection.new_empty(len(columns["detection_labels"])))
    at[rows] = arrays.steps(len(rows), rows)
    return pairs._replace(detection=arrays.tensor(arrays.take(at, native(pairs.detection))))


def row_pairs(
    settings: ShapeSettings, columns: Columns, iou_type: Kind, chosen: Any, truths: Any, least: float
) -> Pairs:
    """All pairs of one image, of an IoU of at least ``least``: rows of detections, rows of ground truths, IoU.

    In the order of ground truths, then of detections: each ground truth looks at the detections of its image, whose
    shapes lie side by side in memory.

    Args:
        settings: of shapes.
        columns: all images.
        iou_type: one of the settings' kinds.
        chosen: (D,) bool, which of the detections: native.
        truths: (G,) int64, the ground truths, ascending: native.
        least: the least IoU.
    """
    both = ((arrays.places(chosen), "detections_per_image"), (truths, "ground_truths_per_image"))
    edges = [arrays.below(x, segments.from_counts(native(columns[side]))) for x, side in both]
    width, many = (x[1:] - x[:-1] for x in edges)
    some = (width > 0) & (many > 0)
    places = [x[arrays.repeat(some, y)] for (x, _), y in zip(both, (width, many), strict=True)]
    width, many = width[some], many[some]
    group = arrays.tensor(arrays.repeat(arrays.steps(len(width), width), width))
    first, width = (arrays.tensor(arrays.repeat(x, many)) for x in (segments.from_zero(width)[:-1], width))
    rows, truths, no_crowd = map(arrays.tensor, (*places, arrays.full(len(places[1]), False, some)))
    pair_iou = turned(settings.similarity(columns, iou_type, rows, truths, no_crowd))
    found = candidate_pairs.overlapping(Candidates(truths, first, width, rows, group), pair_iou, least)
    of_pairs = (arrays.take(x, native(y)) for x, y in zip(places, (found.truth, found.detection), strict=True))
    return Pairs(*map(arrays.tensor, (*of_pairs, native(found.iou))))
