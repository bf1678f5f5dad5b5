"""nuScenes' average precision for each class and distance from columns of images.

By descending score, each detection chooses the nearest free ground truth of its class if it is nearer than the
threshold. Ties follow the devkit: among equal scores the last detection comes first, among equal distances the first
ground truth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs.images import Columns, DetectionInputs, image_ids
from torch_ap.detection.matching import assignment, candidate_pairs
from torch_ap.detection.matching.matched import Matches, Partners
from torch_ap.detection.rules.voc import VocSettings

DISTANCES = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class NuScenesSettings(VocSettings):
    """Settings of nuScenes' mean average precision; ``thresholds`` are T distances."""

    @cached_property
    def inputs(self) -> DetectionInputs:
        """The validation of images."""
        return DetectionInputs(rows=self.rows, of_truths=(), check_values=self.check_values)

    def _matched(self, columns: Columns, labels: Tensor, detected: Tensor, true: Tensor) -> Matches:
        categories, images = max(1, len(labels)), max(1, len(columns["detections_per_image"]))
        image = [image_ids(columns[f"{side}s_per_image"]) for side in ("detection", "ground_truth")]
        # reversed input, so that a stable order puts the last one of equals first
        ranked = candidate_pairs.rank(
            columns["detection_scores"].flip(0),
            detected.flip(0),
            image[0].flip(0),
            categories=categories,
            images=images,
        )
        ranked = ranked._replace(rows=len(detected) - 1 - ranked.rows)
        group = image[1] * categories + true
        candidates = candidate_pairs.find_candidates(ranked, group.flip(0), images * categories)
        candidates = candidates._replace(truths=len(true) - 1 - candidates.truths)
        rows, no_crowds = ranked.rows[candidates.ranked], torch.zeros_like(candidates.truths, dtype=torch.bool)
        similarity = self.similarity(columns, self.iou_types[0], rows, candidates.truths, no_crowds)
        # a distance must be below the threshold, so the similarity, minus the distance, must be above its negative
        least = [math.nextafter(-distance, math.inf) for distance in self.thresholds]
        thresholds = segments.as_float64(torch.tensor(least, dtype=torch.float64).to(rows.device))
        criteria = assignment.Criteria(thresholds, 1)
        pairs = candidate_pairs.overlapping(candidates, similarity, criteria.least)
        matched = assignment.greedy(pairs, candidates.group, criteria.spread(no_crowds[None]), no_crowds, criteria)
        kept = (matched != 0).any(0).nonzero().squeeze(1)
        kept = kept[torch.argsort(candidates.ranked[pairs.detection[kept]])]
        return Matches(
            ranked=ranked,
            at=candidates.ranked[pairs.detection[kept]],
            matched=matched[:, kept],
            true_positive=matched[:, kept],
            inside=torch.ones((1, len(ranked.rows)), dtype=torch.bool, device=rows.device),
            truth_group=candidates.group,
            valid=~no_crowds[None],
            categories=categories,
            criteria=criteria,
            partners=Partners(pairs.truth[kept], pairs.iou[kept], candidates.truths),
        )


def nuscenes_settings_of(
    distance_threshold: float | Sequence[float], *, validate_args: bool = True
) -> NuScenesSettings:
    """Validate the arguments, and return the settings."""
    if isinstance(distance_threshold, int | float):
        distance_threshold = [distance_threshold]
    checks.numbers_in("distance_threshold", distance_threshold, low=0, high=1e300)
    checks.boolean("validate_args", validate_args)
    return NuScenesSettings(
        iou_types=("centers",),
        box_format="xyxy",
        check_values=validate_args,
        thresholds=tuple(map(float, distance_threshold)),
        interpolation="nuscenes",
    )
