"""The single errors of each kind that cost most AP: AP without this error, minus AP."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.detection.errors import outcomes
from torch_ap.detection.errors.corrections import Changes, RankedOutcomes, no_changes
from torch_ap.detection.errors.outcomes import Outcomes
from torch_ap.detection.matching.candidate_pairs import places_in_runs


class CostlyErrors(NamedTuple):
    """X errors of one kind, the costliest first.

    Attributes:
        row: (X,) int64, the rows of false positives among the detections, or of missed ground truths.
        cost: (X,) float64, the mean AP over classes without this detection or ground truth, minus AP.
        total: the number of errors of this kind.
    """

    row: Tensor
    cost: Tensor
    total: int


def costliest_errors(detections: Outcomes, limit: int) -> dict[str, CostlyErrors]:
    """Return the costliest false positives of each kind, and the costliest missed ground truths as "missed".

    A false positive that is ranked higher in its class costs at least as much, so only the first ``limit`` of each
    class are computed. The ground truths that no detection of a class matches have equal costs.

    Args:
        detections: the outcomes of the detections.
        limit: the largest number of errors of a kind.
    """
    at, ranked = detections.at, detections.at.matches.ranked
    hit, miss = at.matches.flags(0, at.threshold_index)
    before, m = RankedOutcomes(at, hit, hit | miss), at.matches.relevant[0]
    every = torch.arange(len(m), device=m.device)
    ap = before.average_precision(every, m, no_changes(every))
    classes = int((~ap.isnan()).sum())

    def costliest(flags: Tensor, category: Tensor, rows: Tensor, missed: bool = False) -> CostlyErrors:
        """Return the costliest of the errors with flags, from the category and the row of each detection or truth."""
        place = flags.nonzero().squeeze(1)
        total, place = len(place), place[category[place].argsort(stable=True)]
        place = place[arrays.tensor(places_in_runs(native(category[place]))) < limit]
        category = category[place]
        removed = torch.zeros_like(place, dtype=torch.bool)
        number = torch.arange(len(place), device=place.device)
        changes = no_changes(place) if missed else Changes(number, place, removed, removed)
        after, own = before.average_precision(category, m[category] - int(missed), changes), ap[category]
        size = classes - (~own.isnan()).long() + (~after.isnan()).long()  # a class can lose its last ground truth
        cost = (ap.nansum() - own.nan_to_num() + after.nan_to_num()) / size - ap.nanmean()
        best = cost.argsort(descending=True, stable=True)[:limit]
        return CostlyErrors(rows[place[best]], cost[best], total)

    found = {}
    for kind in range(outcomes.CLASSIFICATION, outcomes.IGNORED):
        name = outcomes.DETECTION_KINDS[kind]
        found[name] = costliest(detections.outcome == kind, ranked.category, ranked.rows)
    truths = torch.arange(len(detections.missed), device=m.device)
    return found | {"missed": costliest(detections.missed, detections.truth_category, truths, missed=True)}
