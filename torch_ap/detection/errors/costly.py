"""The single errors of each kind that cost most AP: AP without this error, minus AP."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.core.ranking import segments
from torch_ap.detection.errors import outcomes
from torch_ap.detection.errors.corrections import Changes, RankedOutcomes
from torch_ap.detection.errors.outcomes import Outcomes


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
    nothing = every[:0], every[:0], hit[:0], hit[:0]
    ap = before.average_precision(every, m, Changes(*nothing))
    classes = int((~ap.isnan()).sum())

    def costs(category: Tensor, m: Tensor, changes: Changes) -> Tensor:
        after, own = before.average_precision(category, m, changes), ap[category]
        number = classes - (~own.isnan()).long() + (~after.isnan()).long()  # a class can lose its last ground truth
        return (ap.nansum() - own.nan_to_num() + after.nan_to_num()) / number - ap.nanmean()

    found = {}
    for kind in range(outcomes.CLASSIFICATION, outcomes.IGNORED):
        place = (detections.outcome == kind).nonzero().squeeze(1)
        count, place = len(place), place[_first_of_runs(ranked.category[place], limit)]
        flags = torch.zeros_like(place, dtype=torch.bool)
        number = torch.arange(len(place), device=place.device)
        category = ranked.category[place]
        cost = costs(category, m[category], Changes(number, place, flags, flags))
        best = cost.argsort(descending=True, stable=True)[:limit]
        found[outcomes.DETECTION_KINDS[kind]] = CostlyErrors(ranked.rows[place[best]], cost[best], count)
    row = detections.missed.nonzero().squeeze(1)
    by_class = detections.truth_category[row].argsort(stable=True)
    count, row = len(row), row[by_class]
    row = row[_first_of_runs(detections.truth_category[row], limit)]
    category = detections.truth_category[row]
    cost = costs(category, m[category] - 1, Changes(*nothing))
    best = cost.argsort(descending=True, stable=True)[:limit]
    return found | {"missed": CostlyErrors(row[best], cost[best], count)}


def _first_of_runs(values: Tensor, limit: int) -> Tensor:
    """Return which of the sorted values are among the first ``limit`` of their run, (N,) bool."""
    starts = segments.run_starts(values)
    offsets = torch.cat([starts, starts.new_tensor([len(values)])])
    return torch.arange(len(values), device=values.device) - starts[segments.ids(offsets)] < limit
