"""What became of each detection at one IoU threshold: a true positive, or which of TIDE's errors.

Source: Bolya, Foley, Hays & Hoffman (2020), TIDE: A General Toolbox for Identifying Object Detection Errors, section 2.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, Kind, image_of
from torch_ap.matching import assignment, candidate_pairs
from torch_ap.matching.candidate_pairs import Pairs
from torch_ap.matching.matched import Matches
from torch_ap.matching.shape_settings import ShapeSettings
from torch_ap.ranking import segments

DETECTION_KINDS = (
    "true positive",
    "classification",
    "localization",
    "both",
    "duplicate",
    "background",
    "ignored",
)
"""What a detection can be, in the order of the codes of ``detections_table()``."""

HIT, CLASSIFICATION, LOCALIZATION, BOTH, DUPLICATE, BACKGROUND, IGNORED = range(len(DETECTION_KINDS))
_MOST = 1 + 1e-6  # IoU, but for rounding


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The N detections that matching ranked, and the G ground truths.

    Attributes:
        matches: at all IoU thresholds.
        outcome: (N,) int64, a place among ``DETECTION_KINDS``.
        truth: (N,) int64, the row of the ground truth that is matched, or that the error is about; -1 for none.
        iou: (N,) float64, the IoU with it; NaN for none.
        truth_category: (G,) int64, by row.
        valid: (G,) bool, by row: whether the ground truth is to be found.
        found: (G,) bool, by row: whether it is.
    """

    matches: Matches
    outcome: Tensor
    truth: Tensor
    iou: Tensor
    truth_category: Tensor
    valid: Tensor
    found: Tensor

    @cached_property
    def fixable(self) -> Tensor:
        """(M,) the errors of class or place that are about a ground truth which is not found."""
        one_of = (self.outcome == CLASSIFICATION) | (self.outcome == LOCALIZATION)
        rows = segments.places(one_of)
        return rows[~self.found[self.truth[rows]]]

    @property
    def missed(self) -> Tensor:
        """(G,) bool, by row: the ground truths that are not found, and that no error is about."""
        missed = self.valid & ~self.found
        missed[self.truth[self.fixable]] = False
        return missed

    @property
    def fixed(self) -> Tensor:
        """(N,) bool, for each ground truth the best-scored of the errors about it: true positives once they are fixed.

        The others are duplicates of it then. Equal scores are taken in the order of input.
        """
        ranked, errors = self.matches.ranked, self.fixable
        errors = errors[torch.argsort(ranked.rows[errors])]
        errors = errors[torch.sort(ranked.score[errors], descending=True, stable=True).indices]
        errors = errors[torch.argsort(self.truth[errors], stable=True)]
        out = torch.zeros_like(self.outcome, dtype=torch.bool)
        out[errors[segments.run_starts(self.truth[errors])]] = True
        return out


def outcomes_of(
    settings: ShapeSettings,
    columns: Columns,
    iou_type: Kind,
    matches: Matches,
    place: int,
    thresholds: tuple[float, float],
) -> Outcomes:
    """The outcomes at one IoU threshold, in the first area range.

    Of the false positives: at the ground truths of its class that it overlaps most, an error is one of localization
    where that IoU lies between the two thresholds, their ends included. Else it is one of classification where it
    reaches the upper threshold with a ground truth of another class; else a duplicate where it does with one of its
    own; else background where no IoU is above the lower threshold; else both.

    Args:
        settings: of the shapes.
        columns: all images.
        iou_type: one of the settings' ``iou_types``.
        matches: of these images.
        place: of the IoU threshold among all.
        thresholds: the lower one, of background, and the upper one.
    """
    found = _matched(matches, place, len(columns["ground_truth_labels"]))
    wrong = found.outcome == BACKGROUND
    pairs = _image_pairs(settings, columns, iou_type, found, min(thresholds))
    pairs = _taken(pairs, wrong[pairs.detection])
    own = matches.ranked.category[pairs.detection] == found.truth_category[pairs.truth]
    alike, other = (_best(_taken(pairs, which), len(wrong)) for which in (own, ~own))
    return _told_apart(found, alike, other, thresholds)


def _matched(matches: Matches, place: int, truths: int) -> Outcomes:
    """With all false positives as background; ground truths that take no part in matching are not valid."""
    partners, size = matches.partners, matches.categories
    assert partners is not None
    matched, hit = (matches.criteria.of_one(words, 0, place) for words in (matches.matched, matches.true_positive))
    pair = segments.places(matched)
    at, row, is_hit = matches.at[pair], partners.rows[partners.truth[pair]], hit[pair]
    outcome = torch.where(matches.inside[0], BACKGROUND, IGNORED)
    outcome[at] = torch.where(is_hit, HIT, IGNORED)
    truth = torch.full_like(outcome, -1)
    truth[at] = row
    iou = torch.full_like(outcome, torch.nan, dtype=partners.iou.dtype)
    iou[at] = partners.iou[pair]
    category, valid = partners.rows.new_full((truths,), -1), matches.valid.new_zeros(truths)
    category[partners.rows], valid[partners.rows] = matches.truth_group % size, matches.valid[0]
    found = torch.zeros_like(valid)
    found[row[is_hit]] = True
    return Outcomes(matches, outcome, truth, iou, category, valid, found)


def _image_pairs(settings: ShapeSettings, columns: Columns, iou_type: Kind, found: Outcomes, least: float) -> Pairs:
    """All pairs of one image, whatever their classes, of an IoU of at least ``least``: detections, rows, IoU.

    Detections are in order of image, ground truths of each in order of input, without those that are ignored.
    """
    ranked, truths = found.matches.ranked, segments.places(found.valid)
    in_images = ranked._replace(group=found.matches.images[0])
    image = image_of(columns["ground_truths_per_image"])[truths]
    images = max(1, len(columns["ground_truths_per_image"]))
    candidates = candidate_pairs.find_candidates(in_images, image, images)
    rows, truths = ranked.rows[candidates.ranked], truths[candidates.truths]
    pair_iou = settings.similarity(columns, iou_type, rows, truths, torch.zeros_like(truths, dtype=torch.bool))
    pairs = candidate_pairs.overlapping(candidates, pair_iou, least)
    check_shares(pairs.iou)
    return Pairs(candidates.ranked[pairs.detection], truths[pairs.truth], pairs.iou)


def check_shares(iou: Tensor) -> None:
    """Refuse similarities above 1, but for rounding, which no share of an overlap is."""
    if len(iou) and float(iou.max()) > _MOST:
        raise ValueError(f"errors and LRP need similarities of at most 1, as IoU is, got {float(iou.max()):g}")


def _taken(pairs: Pairs, kept: Tensor) -> Pairs:
    places = segments.places(kept)
    return Pairs(*(column.index_select(0, places) for column in pairs))


def _best(pairs: Pairs, detections: int) -> tuple[Tensor, Tensor]:
    """(N,) the highest IoU of each detection, 0 for none; and (N,) the row of that ground truth."""
    best: Any = assignment.best_pairs(pairs)
    iou = best.iou.new_zeros(detections)
    truth = torch.full_like(iou, -1, dtype=torch.int64)
    iou[best.detection], truth[best.detection] = best.iou, best.truth
    return iou, truth


def _told_apart(
    found: Outcomes, alike: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], thresholds: tuple[float, float]
) -> Outcomes:
    """With each error under its kind. ``alike``, ``other``: the best ground truth of the own and of other classes."""
    low, high = thresholds
    rules = (
        (LOCALIZATION, (alike[0] >= low) & (alike[0] <= high), alike),
        (CLASSIFICATION, other[0] >= high, other),
        (DUPLICATE, alike[0] > high, alike),
        (BOTH, other[0] > low, other),
    )
    outcome, truth, iou = found.outcome, found.truth, found.iou
    for kind, holds, (overlap, row) in rules:
        chosen = holds & (outcome == BACKGROUND)
        outcome = torch.where(chosen, kind, outcome)
        truth, iou = torch.where(chosen, row, truth), torch.where(chosen, overlap, iou)
    return replace(found, outcome=outcome, truth=truth, iou=iou)
