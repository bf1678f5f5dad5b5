"""Ground truths that may be wrong: candidates from the errors of detectors, by the AP after their correction."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import segments
from torch_ap.detection.errors import outcomes
from torch_ap.detection.errors.corrections import (
    Corrections,
    Matching,
    corrected_average_precision,
    pick_or,
    pick_rows,
)
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.detection.errors.outcomes import Outcomes, row_pairs
from torch_ap.detection.inputs.images import image_ids
from torch_ap.detection.shapes import boxes, masks
from torch_ap.inference.suspicious import SuspiciousLabels, best_first, selected

KINDS = ("missing annotation", "wrong class", "missed by all", "duplicate")
_MISSING, _CLASS, _MISSED, _DUPLICATE = range(len(KINDS))


@dataclass(frozen=True, eq=False)
class _Candidates:
    """C suspicious labels; rows are rows of all images, -1 for none.

    Attributes:
        kind: (C,) int64, an index of ``KINDS``.
        detection: (C,) int64, the detection that contradicts the label.
        truth: (C,) int64, the ground truth.
        other: (C,) int64, the ground truth of which this one is a copy.
        iou: (C,) float64, the IoU of ``truth`` with the detection or the other ground truth; NaN for none.
    """

    kind: Tensor
    detection: Tensor
    truth: Tensor
    other: Tensor
    iou: Tensor

    @classmethod
    def concatenate(cls, *groups: tuple[int, dict[str, Tensor]]) -> "_Candidates":
        """Return the candidates of several kinds, each with some of the columns."""
        parts: dict[str, list[Tensor]] = {field.name: [] for field in fields(cls)}
        for kind, columns in groups:
            like = next(iter(columns.values()))
            no_iou = segments.as_float64(like, copy=True).fill_(torch.nan)
            columns = {"kind": torch.full_like(like, kind), "iou": no_iou} | columns
            for name, column in parts.items():
                column.append(columns.get(name, torch.full_like(like, -1)))
        return cls(*map(torch.cat, parts.values()))


def suspicious_labels_of(
    detections: Outcomes,
    others: Sequence[Tensor],
    ids: Tensor,
    match: Matching,
    *,
    least_scores: Tensor,
    duplicate_threshold: float,
    limit: int | None,
) -> SuspiciousLabels:
    """Return the record of suspicious labels.

    Args:
        detections: the outcomes of the detections.
        others: (G,) bool flags each, the ground truths that another detector matches.
        ids: (B,) ids of the images.
        match: returns the labels and matches of other columns, in each class.
        least_scores: least score of a detection that contradicts a label, 0-d or (K,).
        duplicate_threshold: least IoU of two ground truths of a class that are duplicates.
        limit: the largest number of rows.
    """
    at = detections.at
    columns, ranked = at.columns, at.matches.ranked
    found = _candidates(detections, others, least_scores, duplicate_threshold)
    sides = ("detection", "ground_truth")
    images = [image_ids(columns[f"{side}s_per_image"]) for side in sides]
    category = torch.full_like(columns["detection_labels"], -1)
    category[ranked.rows] = ranked.category
    image = torch.where(found.truth < 0, pick_or(images[0], found.detection), pick_or(images[1], found.truth))
    detected = pick_or(category, found.detection)
    is_missing = found.kind == _MISSING
    corrections = Corrections(image, found.truth, detected, torch.where(is_missing, found.detection, -1))
    value, corrected = corrected_average_precision(at, corrections, match, limit)
    first = [segments.from_counts(columns[f"{side}s_per_image"])[image] for side in sides]
    given_rows, names = columns.get("detection_row"), [*at.names, None]
    detection = _row_in_image(found.detection, first[0])
    table: dict[str, Any] = {
        "kind": found.kind,
        "change": corrected - value,
        "image": ids[image],
        "ground_truth": _row_in_image(found.truth, first[1]),
        "class": [names[k] for k in pick_or(detections.truth_category, found.truth).tolist()],
        "detection": detection if given_rows is None else pick_or(given_rows.long(), found.detection),
        "detected_class": [names[k] for k in detected.tolist()],
        "score": pick_or(segments.as_float64(columns["detection_scores"]), found.detection, torch.nan),
        "other": _row_in_image(found.other, first[1]),
        "iou": found.iou,
    }
    chosen = best_first(corrected - value, limit)
    table = selected(table, chosen)
    table["box"] = _detected_boxes(at, found.detection[chosen], image[chosen])
    table["kind"] = [KINDS[kind] for kind in table["kind"].tolist()]
    counts = segments.count(found.kind, len(KINDS)).tolist()
    return SuspiciousLabels(value, dict(zip(KINDS, counts, strict=True)), table)


def _detected_boxes(at: MatchesAt, detection: Tensor, image: Tensor) -> list[list[float] | None]:
    """Return the box of each detection, or around its mask or keypoints, in the format of the metric; None for -1.

    Args:
        at: the matches.
        detection: (X,) int64 rows of detections; -1 for none.
        image: (X,) int64 positions of their images.
    """
    is_known = detection >= 0
    picked = pick_rows(at.columns, "detection", detection[is_known])
    columns = {name.removeprefix("detection_"): x for name, x in picked.items()}
    if at.iou_type == "keypoints":
        points = segments.as_float64(columns["keypoints"][..., :2])
        low, high = points.amin(1), points.amax(1)
        found = boxes.from_xywh(torch.cat([low, high - low], 1), at.settings.box_format)
    elif "mask_edges" in columns and at.iou_type != "bbox":
        sizes = at.columns["image_sizes"][image[is_known]]
        around = masks.bounding_boxes(columns["mask_edges"], columns["edges_per_mask"], sizes)
        found = boxes.from_xywh(segments.as_float64(around), at.settings.box_format)
    else:
        found = segments.as_float64(columns["intervals" if at.iou_type == "intervals" else "boxes"])
    rows = iter(found.tolist())
    return [next(rows) if x else None for x in is_known.tolist()]


def _row_in_image(rows: Tensor, first: Tensor) -> Tensor:
    return torch.where(rows >= 0, rows - first, -1)


def _candidates(
    detections: Outcomes, others: Sequence[Tensor], least_scores: Tensor, duplicate_threshold: float
) -> _Candidates:
    """Return the suspicious labels of all kinds; each ground truth occurs once at most."""
    matches, outcome = detections.at.matches, detections.outcome
    score = segments.comparable(matches.ranked.score)
    category = matches.ranked.category
    is_confident = score >= (least_scores[category] if least_scores.ndim else least_scores)
    missing = (is_confident & (outcome == outcomes.BACKGROUND)).nonzero().squeeze(1)
    confused = (is_confident & (outcome == outcomes.CLASSIFICATION)).nonzero().squeeze(1)
    confused = confused[score[confused].argsort(descending=True, stable=True)]
    confused = confused[_first_of_each(detections.truth[confused])]

    undetected = detections.valid & ~torch.stack([detections.detected, *others]).any(0)
    copies, originals, iou = _duplicates(detections, duplicate_threshold)
    left = detections.valid.index_fill(0, detections.truth[confused], False)
    chosen = left[copies]
    copies, originals, iou = copies[chosen], originals[chosen], iou[chosen]
    missed = (undetected & left.index_fill(0, copies, False)).nonzero().squeeze(1)

    rows = matches.ranked.rows
    return _Candidates.concatenate(
        (_MISSING, {"detection": rows[missing]}),
        (_CLASS, {"detection": rows[confused], "truth": detections.truth[confused], "iou": detections.iou[confused]}),
        (_MISSED, {"truth": missed}),
        (_DUPLICATE, {"truth": copies, "other": originals, "iou": iou}),
    )


def _first_of_each(values: Tensor) -> Tensor:
    """Return the first place of each distinct value, ascending."""
    ordered = values.sort(stable=True)
    return ordered.indices[segments.run_starts(ordered.values)].sort().values


def _duplicates(detections: Outcomes, least: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return ground truths that repeat another one of their image and class, the other one, and their IoU.

    The later one is the copy, unless it alone is detected. Of several others the one with the highest IoU is returned.
    """
    at, valid = detections.at, detections.valid
    prefix = "ground_truth_"
    twins = {f"detection_{x.removeprefix(prefix)}": y for x, y in at.columns.items() if x.startswith(prefix)}
    twins["detections_per_image"] = at.columns["ground_truths_per_image"]
    truths = arrays.true_indices(native(valid))
    pairs = row_pairs(replace(at, columns=at.columns | twins), native(valid), truths, least)
    category = detections.truth_category
    same = (pairs.detection < pairs.truth) & (category[pairs.detection] == category[pairs.truth])
    earlier, later, iou = (x[same] for x in pairs)
    is_swapped = detections.detected[later] & ~detections.detected[earlier]
    copy, original = torch.where(is_swapped, earlier, later), torch.where(is_swapped, later, earlier)
    best = iou.argsort(descending=True, stable=True)
    best = best[_first_of_each(copy[best])]
    return copy[best], original[best], iou[best]
