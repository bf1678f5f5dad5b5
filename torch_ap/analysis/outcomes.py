"""What became of each detection at one IoU threshold: a true positive, or which of TIDE's errors.

Source: Bolya, Foley, Hays & Hoffman (2020), TIDE: A General Toolbox for Identifying Object Detection Errors, section 2.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from torch_ap.analysis.image_pairs import image_pairs
from torch_ap.inputs.detections import Columns, Kind
from torch_ap.matching.candidate_pairs import Pairs, descending
from torch_ap.matching.matched import Matches
from torch_ap.matching.shape_settings import ShapeSettings
from torch_ap.ranking import segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

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
        outcome, truth, found = map(native, (self.outcome, self.truth, self.found))
        rows = arrays.places((outcome == CLASSIFICATION) | (outcome == LOCALIZATION))
        return arrays.tensor(rows[~found[truth[rows]]])

    @cached_property
    def down(self) -> Tensor:
        """(N,) int64, whole numbers in [0, 2^32) that ascend as the scores descend."""
        return descending(self.matches.ranked.score)

    @cached_property
    def missed(self) -> Tensor:
        """(G,) bool, by row: the ground truths that are not found, and that no error is about."""
        missed = native(self.valid) & ~native(self.found)
        missed[native(self.truth)[native(self.fixable)]] = False
        return arrays.tensor(missed)

    @property
    def fixed(self) -> Tensor:
        """(N,) bool, for each ground truth the best-scored of the errors about it: true positives once they are fixed.

        The others are duplicates of it then. Equal scores are taken in the order of input.
        """
        errors, truth = native(self.fixable), native(self.truth)
        for key in map(native, (self.down, self.matches.ranked.rows)):
            least = arrays.full(len(self.valid), -(1 << 62), truth)  # negated, for they are raised
            arrays.raise_to(least, truth[errors], -key[errors])
            errors = errors[key[errors] == -least[truth[errors]]]
        fixed = arrays.full(len(truth), False, native(self.found))
        fixed[errors] = True
        return arrays.tensor(fixed)


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
    wrong = arrays.tensor(native(found.outcome) == BACKGROUND)
    truths = segments.places(found.valid)
    pairs = image_pairs(settings, columns, iou_type, matches, wrong, truths, min(thresholds))
    return _told_apart(found, *_best(found, pairs), thresholds)


def _matched(matches: Matches, place: int, truths: int) -> Outcomes:
    """With all false positives as background; ground truths that take no part in matching are not valid."""
    partners, xp = matches.partners, arrays.namespace(native(matches.at))
    assert partners is not None
    matched, hit = (native(matches.criteria.of_one(x, 0, place)) for x in (matches.matched, matches.true_positive))
    pair, rows = arrays.places(matched), native(partners.rows)
    at, row, is_hit = native(matches.at)[pair], rows[native(partners.truth)[pair]], hit[pair]
    outcome = xp.where(native(matches.inside)[0], BACKGROUND, IGNORED)
    outcome[at] = xp.where(is_hit, HIT, IGNORED)
    truth, overlap = xp.full_like(outcome, -1), native(partners.iou)
    iou = xp.full_like(outcome, xp.nan, dtype=overlap.dtype)
    truth[at], iou[at] = row, overlap[pair]
    category, valid = arrays.full(truths, -1, rows), arrays.full(truths, False, is_hit)
    category[rows], valid[rows] = native(matches.truth_category), native(matches.valid)[0]
    found = xp.zeros_like(valid)
    found[row[is_hit]] = True
    return Outcomes(matches, *map(arrays.tensor, (outcome, truth, iou, category, valid, found)))


def _best(found: Outcomes, pairs: Pairs) -> tuple[Any, list[tuple[Any, Any]]]:
    """(X,) the detections of any pair; and among ground truths of their own class, and of others, the best of each.

    The highest IoU, 0 for none, and its row, the first of equals: (X,) each, native.
    """
    detection, row, iou = map(native, pairs)
    flags = arrays.full(len(found.outcome), False, native(found.found))
    flags[detection] = True
    some = arrays.places(flags)
    own = native(found.matches.ranked.category)[detection] == native(found.truth_category)[row]
    key = arrays.take(segments.running_counts(flags), detection) + ~own * len(some)
    best = arrays.full(2 * len(some), 0, iou)
    arrays.raise_to(best, key, iou)
    equal = arrays.places(iou == best[key])
    first = arrays.full(len(best), -len(found.valid), row)
    arrays.raise_to(first, key[equal], -row[equal])
    return some, [(best[side], -first[side]) for side in (slice(len(some)), slice(len(some), None))]


def _told_apart(found: Outcomes, some: Any, best: list[tuple[Any, Any]], thresholds: tuple[float, float]) -> Outcomes:
    """With each error under its kind; ``some`` detections and their ``best`` ground truths as of :func:`_best`."""
    (low, high), (alike, other) = thresholds, best
    rules = (
        (LOCALIZATION, (alike[0] >= low) & (alike[0] <= high), alike),
        (CLASSIFICATION, other[0] >= high, other),
        (DUPLICATE, alike[0] > high, alike),
        (BOTH, other[0] > low, other),
    )
    outcome, truth, iou = map(native, (found.outcome, found.truth, found.iou))
    left = arrays.full(len(some), True, native(found.found))
    for kind, holds, (overlap, row) in rules:
        chosen = arrays.places(holds & left)
        left[chosen], at = False, some[chosen]
        outcome[at], truth[at], iou[at] = kind, row[chosen], overlap[chosen]
    return found
