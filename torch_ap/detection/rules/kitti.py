"""KITTI's average precision from columns of images, by the rules of its development kit.

Precision is computed at up to 41 score thresholds: the scores of the true positives whose recall is nearest to 0, 1/40,
..., 1. The detections are matched again at each threshold. Ground truths choose detections in input order. To compute
the thresholds, a ground truth chooses the free overlapping detection with the highest score. At a threshold, it chooses
the free detection with the highest overlap.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan, nextafter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.arrays import native
from torch_ap.core.base.options import with_keywords_of
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs.images import Columns, DetectionInputs
from torch_ap.detection.matching import candidate_pairs
from torch_ap.detection.matching.candidate_pairs import Pairs
from torch_ap.detection.matching.shapes import ShapeSettings
from torch_ap.detection.rules.coco import classes_of, rank_images
from torch_ap.detection.rules.coco_numbers import Classes, input_options
from torch_ap.detection.rules.voc import settings_of_one_kind

_STEPS = 40
INTERPOLATIONS = {"40-point": slice(1, None), "11-point": slice(0, None, 4)}  # the thresholds that are averaged


@dataclass(frozen=True, eq=False, kw_only=True)
class KittiSettings(ShapeSettings):
    """Settings of KITTI's average precision.

    Attributes:
        threshold: the overlap of a matched pair must exceed it.
        interpolation: "40-point" or "11-point".
    """

    threshold: float
    interpolation: str

    @cached_property
    def inputs(self) -> DetectionInputs:
        """The validation of images."""
        return DetectionInputs(**input_options(self), of_truths=("difficult", "iscrowd"), of_detections=("ignore",))

    def average_precision(self, columns: Columns) -> tuple[Tensor, Tensor]:
        """Return the (K,) labels and their AP, (K,) float64, NaN for classes without counted ground truths."""
        classes = classes_of(columns)
        labels, scenes = classes[0], self._scenes(columns, classes)
        precision = scenes.precision(scenes.thresholds())
        highest = precision.flip(0).cummax(0).values.flip(0)
        ap = highest[INTERPOLATIONS[self.interpolation]].mean(0)
        return labels, torch.where(scenes.total > 0, ap, nan)[: len(labels)]

    def _scenes(self, columns: Columns, classes: Classes) -> "_Scenes":
        ranked, candidates, size = rank_images(columns, classes)
        region, hard = (columns[f"ground_truth_{key}"].bool()[candidates.truths] for key in ("iscrowd", "difficult"))
        if (ignored := self.ignored(columns, self.iou_types[0])) is not None:
            hard = hard | ignored[candidates.truths]
        rows = ranked.rows[candidates.ranked]
        overlap = self.similarity(columns, self.iou_types[0], rows, candidates.truths, region)
        pairs = candidate_pairs.overlapping(candidates, overlap, nextafter(self.threshold, inf))
        pairs = pairs._replace(detection=rows[pairs.detection])
        return _Scenes(
            score=segments.comparable(columns["detection_scores"]),
            low=columns["detection_ignore"].bool(),
            detected=classes[1],
            counted=~hard & ~region,
            true=classes[2][candidates.truths],
            place=arrays.tensor(candidate_pairs.places_in_runs(native(candidates.group))),
            objects=pairs.select(~region[pairs.truth]),
            regions=pairs.select(region[pairs.truth]),
            size=size,
        )


@dataclass(frozen=True, eq=False)
class _Scenes:
    """D detections in input order, and G ground truths by image and class.

    Attributes:
        score: (D,) the scores of the detections.
        low: (D,) bool, True for detections whose height is too small to be counted.
        detected: (D,) int64, the classes of the detections.
        counted: (G,) bool, False for ground truths that are ignored.
        true: (G,) int64, the classes of the ground truths.
        place: (G,) int64, the number of earlier ground truths of the same image and class.
        objects: the pairs with objects whose overlap exceeds the threshold; detections are input rows.
        regions: the pairs with "don't care" regions, likewise.
        size: the number of classes, K.
    """

    score: Tensor
    low: Tensor
    detected: Tensor
    counted: Tensor
    true: Tensor
    place: Tensor
    objects: Pairs
    regions: Pairs
    size: int

    @cached_property
    def total(self) -> Tensor:
        """The number of counted ground truths of each class: (K,) int64."""
        return segments.count(self.true[self.counted], self.size)

    def thresholds(self) -> Tensor:
        """Return the score thresholds of each class: (41, K), NaN after the last one."""
        chosen = self._choose_detections(self.score[self.objects.detection], torch.ones_like(self.low)[None])
        _, truth = self._is_true_positive(chosen).nonzero(as_tuple=True)
        scores, true = self.score[chosen[0, truth]], self.true[truth]
        out = torch.full((_STEPS + 1, self.size), nan, dtype=scores.dtype, device=scores.device)
        for label, total in enumerate(self.total.tolist()):
            ordered = scores[true == label].sort(descending=True).values
            places = torch.tensor(sample_recalls(len(ordered), total), dtype=torch.int64, device=scores.device)
            out[: len(places), label] = ordered[places]
        return out

    def precision(self, thresholds: Tensor) -> Tensor:
        """Return the precision of the detections that reach (T, K) thresholds: (T, K) float64, 0 without hits."""
        above = self.score >= thresholds[:, self.detected]
        overlap = torch.where(self.low[self.objects.detection], -inf, self.objects.iou)
        chosen = self._choose_detections(overlap, above)
        threshold, truth = (chosen >= 0).nonzero(as_tuple=True)
        false_positive = above & ~self.low
        false_positive[threshold, chosen[threshold, truth]] = False
        false_positive[:, self.regions.detection] = False
        tp = segments.as_float64(self._count_per_class(self._is_true_positive(chosen), self.true))
        return torch.where(tp > 0, tp / (tp + self._count_per_class(false_positive, self.detected)), 0)

    def _is_true_positive(self, chosen: Tensor) -> Tensor:
        """Whether each counted ground truth has a detection that is counted: (T, G) bool."""
        if not len(self.low):
            return chosen >= 0
        return (chosen >= 0) & self.counted & ~self.low[chosen.clamp(min=0)]

    def _count_per_class(self, flags: Tensor, category: Tensor) -> Tensor:
        """Count the (T, N) flags of each class: (T, K)."""
        threshold, index = flags.nonzero(as_tuple=True)
        return segments.count(threshold * self.size + category[index], len(flags) * self.size).reshape(-1, self.size)

    def _choose_detections(self, value: Tensor, above: Tensor) -> Tensor:
        """Return the detection that each ground truth chooses, the free one with the highest value: (T, G) int64.

        -1 means that no detection is free.

        Args:
            value: (P,) the value of each pair with an object.
            above: (T, D) bool, the detections that reach each threshold.
        """
        # by ground truth, then by descending value, then by row of the detection
        places = torch.argsort(self.objects.detection, stable=True)
        places = places[torch.sort(value[places], descending=True, stable=True).indices]
        pairs = self.objects.select(places[torch.argsort(self.objects.truth[places], stable=True)])
        free = above.clone()
        out = torch.full((len(above), len(self.true)), -1, dtype=torch.int64, device=above.device)
        step = self.place[pairs.truth]
        ends = torch.bincount(step).cumsum(0).tolist()
        pairs = pairs.select(torch.argsort(step, stable=True))
        for start, end in itertools.pairwise([0, *ends]):
            if start == end:
                continue
            detection, truth, _ = pairs.select(slice(start, end))
            opening = segments.run_starts(truth)
            owner = segments.ids(torch.cat([opening, opening.new_tensor([len(truth)])]))
            number = torch.arange(len(truth), device=truth.device)
            first = torch.where(free[:, detection], number, len(truth))
            best = first.new_full((len(free), len(opening)), len(truth))
            best.scatter_reduce_(1, owner.expand(len(free), -1), first, "amin")
            threshold, run = (best < len(truth)).nonzero(as_tuple=True)
            chosen = detection[best[threshold, run]]
            out[threshold, truth[opening][run]] = chosen
            free[threshold, chosen] = False
        return out


def sample_recalls(hits: int, total: int) -> list[int]:
    """Return the indices of the true positives, by descending score, whose scores are thresholds.

    For each recall 0, 1/40, ..., the index is the first unused true positive whose recall is nearer than the recall of
    its successor.

    Args:
        hits: the number of true positives.
        total: the number of ground truths.
    """
    ranks, out, recall = np.arange(1, hits + 1), [], 0.0
    while len(ranks):
        skipped = (ranks + 1) / total - recall < recall - ranks / total
        skipped[-1] = False  # the last one is always a threshold
        ranks = ranks[int(np.argmin(skipped)) :]
        out.append(int(ranks[0]) - 1)
        ranks, recall = ranks[1:], recall + 1 / _STEPS
    return out


@with_keywords_of(settings_of_one_kind)
def kitti_settings_of(*, iou_threshold: float, interpolation: str, **shapes: Any) -> KittiSettings:
    """Validate the arguments, and return the settings; ``shapes`` are arguments of :func:`settings_of_one_kind`."""
    checks.fraction("iou_threshold", iou_threshold)
    checks.one_of("interpolation", interpolation, tuple(INTERPOLATIONS))
    settings = settings_of_one_kind(**shapes)
    return KittiSettings(**vars(settings), threshold=float(iou_threshold), interpolation=interpolation)
