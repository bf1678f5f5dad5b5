"""nuScenes' average precision for each class and distance from columns of images.

By descending score, each detection chooses the nearest free ground truth of its class if it is nearer than the
threshold. Ties follow the devkit: among equal scores the last detection comes first, among equal distances the first
ground truth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from torch_ap.core.base import checks
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching import assignment, candidate_pairs
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.rules.coco import rank_images
from torch_ap.detection.rules.coco_numbers import Classes
from torch_ap.detection.rules.voc import VocSettings, ordered_matches

DISTANCES = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class NuScenesSettings(VocSettings):
    """Settings of nuScenes' mean average precision; ``thresholds`` are T distances."""

    truth_flags: ClassVar[tuple[str, ...]] = ()

    def _matched(self, columns: Columns, classes: Classes) -> Matches:
        # rows in reverse, so that a stable order puts the last one of equals first
        last_first = [torch.arange(len(x), device=x.device).flip(0) for x in classes[1:]]
        ranked, candidates, categories = rank_images(columns, classes, rows=(last_first[0], last_first[1]))
        rows, no_crowds = ranked.rows[candidates.ranked], torch.zeros_like(candidates.truths, dtype=torch.bool)
        similarity = self.similarity(columns, self.iou_types[0], rows, candidates.truths, no_crowds)
        # a distance must be below the threshold, so the similarity, minus the distance, must be above its negative
        least = [math.nextafter(-distance, math.inf) for distance in self.thresholds]
        thresholds = segments.as_float64(torch.tensor(least, dtype=torch.float64).to(rows.device))
        criteria = assignment.Criteria(thresholds, 1)
        pairs = candidate_pairs.overlapping(candidates, similarity, criteria.least)
        matched = assignment.greedy(pairs, candidates.group, criteria.spread(no_crowds[None]), no_crowds, criteria)
        return ordered_matches(ranked, candidates, categories, criteria, pairs, (matched, matched), valid=~no_crowds)


def nuscenes_settings_of(
    distance_thresholds: float | Sequence[float], *, validate_args: bool = True
) -> NuScenesSettings:
    """Validate the arguments, and return the settings."""
    if isinstance(distance_thresholds, int | float):
        distance_thresholds = [distance_thresholds]
    checks.numbers_in("distance_thresholds", distance_thresholds, low=0, high=1e300)
    checks.boolean("validate_args", validate_args)
    return NuScenesSettings(
        iou_types=("centers",),
        box_format="xyxy",
        check_values=validate_args,
        thresholds=tuple(map(float, distance_thresholds)),
        interpolation="nuscenes",
    )
