"""Outcome of each detection at one IoU threshold: a true positive, or one of TIDE's errors.

Detections are paired with the ground truths of their image, of equal and of different classes.

Source: Bolya, Foley, Hays & Hoffman (2020), TIDE: A General Toolbox for Identifying Object Detection Errors, section 2.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import segments
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.detection.inputs.images import image_ids
from torch_ap.detection.matching import candidate_pairs
from torch_ap.detection.matching.candidate_pairs import Candidates, Pairs, descending
from torch_ap.detection.shapes.boxes import swap_sides


def _ranked_pairs(at: MatchesAt, chosen: Any, truths: Any, least: float) -> Pairs:
    """Return :func:`row_pairs` of chosen ranked detections, (N,) bool, with indices of ranked detections."""
    rows, size = native(at.matches.ranked.rows), len(at.columns["detection_labels"])
    flags = arrays.full(size, False, chosen)
    flags[arrays.take(rows, arrays.true_indices(chosen))] = True
    pairs = row_pairs(at, flags, truths, least)
    rank = native(pairs.detection.new_empty(size))
    rank[rows] = arrays.arange_like(len(rows), rows)
    return pairs._replace(detection=arrays.tensor(arrays.take(rank, native(pairs.detection))))


def row_pairs(at: MatchesAt, chosen: Any, truths: Any, least: float) -> Pairs:
    """Return all pairs within images with an IoU of at least ``least``: detection row, ground truth row, IoU.

    Pairs are sorted by ground truth, then by detection, because the shapes of the detections of an image are adjacent
    in memory.

    Args:
        at: the images.
        chosen: (D,) bool flags of the detections, native.
        truths: (G,) int64 rows of the ground truths, ascending, native.
        least: the least IoU.
    """
    both = ((arrays.true_indices(chosen), "detections_per_image"), (truths, "ground_truths_per_image"))
    edges = [arrays.below(x, segments.from_counts(native(at.columns[side]))) for x, side in both]
    width, many = (x[1:] - x[:-1] for x in edges)
    some = (width > 0) & (many > 0)
    places = [x[arrays.repeat(some, y)] for (x, _), y in zip(both, (width, many), strict=True)]
    width, many = width[some], many[some]
    group = arrays.tensor(arrays.repeat(arrays.arange_like(len(width), width), width))
    first, width = (arrays.tensor(arrays.repeat(x, many)) for x in (segments.from_zero(width)[:-1], width))
    rows, truths, no_crowd = map(arrays.tensor, (*places, arrays.full(len(places[1]), False, some)))
    pair_iou = swap_sides(at.settings.similarity(at.columns, at.iou_type, rows, truths, no_crowd))
    overlapping = candidate_pairs.overlapping(Candidates(truths, first, width, rows, group), pair_iou, least)
    members = zip(places, (overlapping.truth, overlapping.detection), strict=True)
    rows_of_pairs = (arrays.take(x, native(y)) for x, y in members)
    return Pairs(*map(arrays.tensor, (*rows_of_pairs, native(overlapping.iou))))


DETECTION_KINDS = ("true positive", "classification", "localization", "both", "duplicate", "background", "ignored")
"""Outcomes of a detection, in the order of the codes of ``detections_table()``."""

HIT, CLASSIFICATION, LOCALIZATION, BOTH, DUPLICATE, BACKGROUND, IGNORED = range(len(DETECTION_KINDS))


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcomes of the N ranked detections and the G ground truths.

    Attributes:
        at: the matches at the IoU threshold.
        outcome: (N,) int64, an index of ``DETECTION_KINDS``.
        truth: (N,) int64, the row of the ground truth that matches or that the error concerns; -1 for none.
        iou: (N,) float64, the IoU with this ground truth; NaN for none.
        truth_category: (G,) int64, by row.
        valid: (G,) bool, by row: whether the ground truth counts.
        detected: (G,) bool, by row: whether a detection matches it.
    """

    at: MatchesAt
    outcome: Tensor
    truth: Tensor
    iou: Tensor
    truth_category: Tensor
    valid: Tensor
    detected: Tensor

    @cached_property
    def fixable(self) -> Tensor:
        """(M,) errors of class or place that concern an undetected ground truth."""
        outcome, truth, detected = map(native, (self.outcome, self.truth, self.detected))
        rows = arrays.true_indices((outcome == CLASSIFICATION) | (outcome == LOCALIZATION))
        return arrays.tensor(rows[~detected[truth[rows]]])

    @cached_property
    def down(self) -> Tensor:
        """(N,) int64, whole numbers in [0, 2^32) that ascend as the scores descend."""
        return descending(self.at.matches.ranked.score)

    @cached_property
    def missed(self) -> Tensor:
        """(G,) bool, by row: undetected ground truths that no error concerns."""
        missed = native(self.valid) & ~native(self.detected)
        missed[native(self.truth)[native(self.fixable)]] = False
        return arrays.tensor(missed)

    @property
    def fixed(self) -> Tensor:
        """(N,) bool: for each ground truth the error of the highest score, which is a true positive once fixed.

        The other errors are then duplicates. Equal scores are taken in the order of input.
        """
        errors, truth = native(self.fixable), native(self.truth)
        for key in map(native, (self.down, self.at.matches.ranked.rows)):
            least = arrays.full(len(self.valid), -(1 << 62), truth)  # negated, because values are raised
            arrays.raise_to(least, truth[errors], -key[errors])
            errors = errors[key[errors] == -least[truth[errors]]]
        fixed = arrays.full(len(truth), False, native(self.detected))
        fixed[errors] = True
        return arrays.tensor(fixed)


def outcomes_of(at: MatchesAt, background: float) -> Outcomes:
    """Return the outcomes at one IoU threshold, in the first area range.

    The first rule that applies to a false positive decides. It is an error of localization if its highest IoU with a
    ground truth of its class is between the two thresholds, inclusively; of classification if an IoU with another class
    reaches the upper threshold; a duplicate if an IoU with its class does; background if no IoU is above the lower
    threshold; else both.

    Args:
        at: the matches; their IoU threshold is the upper one.
        background: the lower threshold, at most the upper one.
    """
    outcomes = _initial_outcomes(at)
    pairs = _ranked_pairs(
        at, native(outcomes.outcome) == BACKGROUND, arrays.true_indices(native(outcomes.valid)), background
    )
    return _classify_errors(outcomes, *_best_truths(outcomes, pairs), (background, at.iou_threshold))


def detections_of(outcomes: Outcomes, ids: Tensor) -> dict[str, Tensor]:
    """Return a table with one row per detection, in the order of input.

    Args:
        outcomes: the outcomes of the detections that were ranked; the others are ignored.
        ids: (B,) ids of the images.
    """
    columns, rows = outcomes.at.columns, native(outcomes.at.matches.ranked.rows)
    counts = columns["detections_per_image"]
    images = image_ids(counts)
    places = torch.arange(len(images), device=images.device)
    first_detection, first_truth = (
        segments.repeat(segments.from_counts(columns[f"{side}s_per_image"])[:-1], counts)
        for side in ("detection", "ground_truth")
    )
    row_in_image = columns.get("detection_row")  # if some rows of images were removed

    def column_of_rows(values: Tensor, default: float) -> Tensor:
        column = arrays.full(len(images), default, native(values))
        column[rows] = native(values)
        return arrays.tensor(column)

    truth = column_of_rows(outcomes.truth, -1)
    return {
        "image": ids[images],
        "detection": places - first_detection if row_in_image is None else row_in_image.long(),
        "class": columns["detection_labels"].clone(),
        "score": columns["detection_scores"].clone(),
        "kind": column_of_rows(outcomes.outcome, IGNORED),
        "ground_truth": torch.where(truth >= 0, truth - first_truth, -1),
        "iou": column_of_rows(outcomes.iou, torch.nan),
    }


def _initial_outcomes(at: MatchesAt) -> Outcomes:
    """Return outcomes with all false positives as background; ground truths that were not matched are not valid."""
    matches, index, truths = at.matches, at.threshold_index, len(at.columns["ground_truth_labels"])
    partners, xp = matches.partners, arrays.namespace(native(matches.at))
    assert partners is not None
    matched, hit = (
        native(matches.criteria.threshold_flags(x, 0, index)) for x in (matches.matched, matches.true_positive)
    )
    pair, rows = arrays.true_indices(matched), native(partners.rows)
    detection, row, is_hit = native(matches.at)[pair], rows[native(partners.truth)[pair]], hit[pair]
    outcome = xp.where(native(matches.inside)[0], BACKGROUND, IGNORED)
    outcome[detection] = xp.where(is_hit, HIT, IGNORED)
    truth, overlap = xp.full_like(outcome, -1), native(partners.iou)
    iou = xp.full_like(outcome, xp.nan, dtype=overlap.dtype)
    truth[detection], iou[detection] = row, overlap[pair]
    category, valid = arrays.full(truths, -1, rows), arrays.full(truths, False, is_hit)
    category[rows], valid[rows] = native(matches.truth_category), native(matches.valid)[0]
    detected = xp.zeros_like(valid)
    detected[row[is_hit]] = True
    return Outcomes(at, *map(arrays.tensor, (outcome, truth, iou, category, valid, detected)))


def _best_truths(outcomes: Outcomes, pairs: Pairs) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return the (X,) detections of any pair, and the best ground truth of each in its own class and in others.

    A best ground truth is the highest IoU, 0 for none, and the first row with it: (X,) each, native.
    """
    detection, row, iou = map(native, pairs)
    flags = arrays.full(len(outcomes.outcome), False, native(outcomes.detected))
    flags[detection] = True
    some = arrays.true_indices(flags)
    own = native(outcomes.at.matches.ranked.category)[detection] == native(outcomes.truth_category)[row]
    key = arrays.take(segments.running_counts(flags), detection) + ~own * len(some)
    best = arrays.full(2 * len(some), 0, iou)
    arrays.raise_to(best, key, iou)
    equal = arrays.true_indices(iou == best[key])
    first = arrays.full(len(best), -len(outcomes.valid), row)
    arrays.raise_to(first, key[equal], -row[equal])
    return some, [(best[side], -first[side]) for side in (slice(len(some)), slice(len(some), None))]


def _classify_errors(
    outcomes: Outcomes, some: Any, best: list[tuple[Any, Any]], thresholds: tuple[float, float]
) -> Outcomes:
    """Set the kind of each error; ``some`` and ``best`` are the results of :func:`_best_truths`."""
    (low, high), (alike, other) = thresholds, best
    rules = (
        (LOCALIZATION, (alike[0] >= low) & (alike[0] <= high), alike),
        (CLASSIFICATION, other[0] >= high, other),
        (DUPLICATE, alike[0] > high, alike),
        (BOTH, other[0] > low, other),
    )
    outcome, truth, iou = map(native, (outcomes.outcome, outcomes.truth, outcomes.iou))
    left = arrays.full(len(some), True, native(outcomes.detected))
    for kind, applies, (overlap, row) in rules:
        chosen = arrays.true_indices(applies & left)
        left[chosen], at = False, some[chosen]
        outcome[at], truth[at], iou[at] = kind, row[chosen], overlap[chosen]
    return outcomes
