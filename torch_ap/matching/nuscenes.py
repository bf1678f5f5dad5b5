"""nuScenes' detection: from columns of images to average precision a class and distance.

In order of score, each detection takes the nearest ground truth of its class that is free, if that is nearer than the
threshold. The devkit's order decides among equals: of detections of one score the last given comes first, of ground
truths at one distance the first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, DetectionInputs, image_of
from torch_ap.matching import assignment, candidate_pairs
from torch_ap.matching.matched import Matches, Partners
from torch_ap.matching.voc import VocSettings
from torch_ap.ranking import segments
from torch_ap.rules import checks

DISTANCES = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class NuScenesSettings(VocSettings):
    """All settings of nuScenes' mean average precision; ``thresholds`` are T distances."""

    @cached_property
    def inputs(self) -> DetectionInputs:
        """How images come in."""
        return DetectionInputs(rows=self.rows, of_truths=(), check_values=self.check_values)

    def _matched(self, columns: Columns, labels: Tensor, detected: Tensor, true: Tensor) -> Matches:
        categories, images = max(1, len(labels)), max(1, len(columns["detections_per_image"]))
        image = [image_of(columns[f"{side}s_per_image"]) for side in ("detection", "ground_truth")]
        # all given the other way round, so that a stable order has the last of equals first
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
        return self._greedy(ranked, candidates, columns, categories)

    def _greedy(
        self, ranked: candidate_pairs.Ranked, candidates: candidate_pairs.Candidates, columns: Columns, categories: int
    ) -> Matches:
        rows, nobody = ranked.rows[candidates.ranked], torch.zeros_like(candidates.truths, dtype=torch.bool)
        near = self.similarity(columns, self.iou_types[0], rows, candidates.truths, nobody)
        # a distance must be below the threshold, so that what is minus the distance must be above
        least = [math.nextafter(-distance, math.inf) for distance in self.thresholds]
        thresholds = segments.as_float64(torch.tensor(least, dtype=torch.float64).to(rows.device))
        criteria = assignment.Criteria(thresholds, 1)
        pairs = candidate_pairs.overlapping(candidates, near, criteria.least)
        matched = assignment.greedy(pairs, candidates.group, criteria.spread(nobody[None]), nobody, criteria)
        kept = (matched != 0).any(0).nonzero().squeeze(1)
        kept = kept[torch.argsort(candidates.ranked[pairs.detection[kept]])]
        return Matches(
            ranked=ranked,
            at=candidates.ranked[pairs.detection[kept]],
            matched=matched[:, kept],
            true_positive=matched[:, kept],
            inside=torch.ones((1, len(ranked.rows)), dtype=torch.bool, device=rows.device),
            truth_group=candidates.group,
            valid=~nobody[None],
            categories=categories,
            criteria=criteria,
            partners=Partners(pairs.truth[kept], pairs.iou[kept], candidates.truths),
        )


def nuscenes_settings_of(
    distance_threshold: float | Sequence[float], *, validate_args: bool = True
) -> NuScenesSettings:
    """Settings as given, checked."""
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
