"""Pairs of one image, whatever their classes: what detections overlap beside the ground truths of their own class."""

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, Kind, image_of
from torch_ap.matching import candidate_pairs
from torch_ap.matching.candidate_pairs import Candidates, Pairs
from torch_ap.matching.matched import Matches
from torch_ap.matching.shape_settings import ShapeSettings
from torch_ap.ranking import segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_MANY = 4  # one in so many detections, from which on it pays to put them in order


def image_pairs(
    settings: ShapeSettings,
    columns: Columns,
    iou_type: Kind,
    matches: Matches,
    chosen: Tensor,
    truths: Tensor,
    least: float,
) -> Pairs:
    """All pairs of one image, of an IoU of at least ``least``: detections as ranked, rows of ground truths, IoU.

    The pairs of each detection are together, in the order of ground truths.

    Args:
        settings: of shapes.
        columns: all images.
        iou_type: one of the settings' kinds.
        matches: of these images.
        chosen: (N,) bool, which of the detections that were ranked.
        truths: (G,) int64, rows of ground truths, ascending.
        least: the least IoU.
    """
    flags, by_group = native(chosen), native(matches.ranked.by_group)
    near = arrays.places(flags)
    if _MANY * len(near) > len(flags):  # memory is read faster image by image
        near = by_group[flags[by_group]]
    true_image = image_of(columns["ground_truths_per_image"]).index_select(0, truths)
    width = segments.count(native(true_image), max(1, len(columns["ground_truths_per_image"])))
    image = arrays.take(native(matches.images[0]), near)
    some = arrays.places(arrays.take(width > 0, image))
    near, image = near[some], image[some]
    each = (arrays.tensor(x) for x in (near, arrays.take(segments.from_counts(width), image), width[image]))
    detections, first, widths = each
    candidates = Candidates(detections, first, widths, truths, true_image)
    no_crowd = torch.zeros_like(truths, dtype=torch.bool)
    rows = matches.ranked.rows.index_select(0, detections)
    pair_iou = settings.similarity(columns, iou_type, rows, truths, no_crowd)
    found = candidate_pairs.overlapping(candidates, pair_iou, least)
    return Pairs(detections.index_select(0, found.detection), truths.index_select(0, found.truth), found.iou)
