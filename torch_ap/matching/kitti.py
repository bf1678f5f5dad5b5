"""KITTI's detection: from columns of images to average precision by the rules of its development kit.

Precision is taken at up to 41 thresholds of the score, those of the true positives whose recall is nearest to 0, 1/40,
..., 1, and the detections are matched anew at each. Ground truths choose, in the order given: to find the thresholds
the free detection of the highest score that overlaps enough, and at a threshold that of the highest overlap.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan, nextafter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, DetectionInputs, Kind, image_of
from torch_ap.matching import candidate_pairs
from torch_ap.matching.coco import classes_of
from torch_ap.matching.shape_settings import ShapeSettings, shape_settings_of
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_STEPS = 40
INTERPOLATIONS = {"40-point": slice(1, None), "11-point": slice(0, None, 4)}  # which of the thresholds are averaged


@dataclass(frozen=True, eq=False, kw_only=True)
class KittiSettings(ShapeSettings):
    """All settings of KITTI's average precision.

    Attributes:
        threshold: what an overlap must exceed.
        interpolation: "40-point" or "11-point".
    """

    threshold: float
    interpolation: str

    @cached_property
    def inputs(self) -> DetectionInputs:
        """How images come in."""
        geometry = self.geometries[0]
        return DetectionInputs(
            rows=self.rows,
            masks=geometry.masks,
            pairs=geometry.pairs,
            of_truths=("difficult", "iscrowd"),
            of_detections=("ignore",),
            similarity=self.own_similarity,
            check_values=self.check_values,
        )

    def average_precision(self, columns: Columns) -> tuple[Tensor, Tensor]:
        """(K,) the labels that occur, and (K,) float64, NaN for classes without ground truths that count."""
        labels, detected, true = classes_of(columns)
        scenes = self._scenes(columns, detected, true, max(1, len(labels)))
        precision = scenes.precision(scenes.thresholds())
        highest = precision.flip(0).cummax(0).values.flip(0)
        found = highest[INTERPOLATIONS[self.interpolation]].mean(0)
        return labels, torch.where(scenes.total > 0, found, nan)[: len(labels)]

    def _scenes(self, columns: Columns, detected: Tensor, true: Tensor, size: int) -> "_Scenes":
        image = [image_of(columns[f"{side}s_per_image"]) for side in ("detection", "ground_truth")]
        images, scores = max(1, len(columns["detections_per_image"])), columns["detection_scores"]
        ranked = candidate_pairs.rank(scores, detected, image[0], categories=size, images=images)
        candidates = candidate_pairs.find_candidates(ranked, image[1] * size + true, images * size)
        region, hard = (columns[f"ground_truth_{key}"].bool()[candidates.truths] for key in ("iscrowd", "difficult"))
        if (ignored := self.ignored(columns, self.iou_types[0])) is not None:
            hard = hard | ignored[candidates.truths]
        rows = ranked.rows[candidates.ranked]
        overlap = self.similarity(columns, self.iou_types[0], rows, candidates.truths, region)
        pairs = candidate_pairs.overlapping(candidates, overlap, nextafter(self.threshold, inf))
        every = _Pairs(rows[pairs.detection], pairs.truth, pairs.iou)
        return _Scenes(
            score=segments.comparable(scores),
            low=columns["detection_ignore"].bool(),
            detected=detected,
            counted=~hard & ~region,
            true=true[candidates.truths],
            place=arrays.tensor(candidate_pairs.places(native(candidates.group))),
            objects=every.at(~region[every.truth]),
            regions=every.at(region[every.truth]),
            size=size,
        )


class _Pairs(NamedTuple):
    """Detections and ground truths of one image and class that overlap enough.

    Attributes:
        detection: (P,) int64, rows.
        truth: (P,) int64, places in order of image and class.
        overlap: (P,) float64.
    """

    detection: Tensor
    truth: Tensor
    overlap: Tensor

    def at(self, which: Tensor | slice) -> "_Pairs":
        """Some of them, or all in another order."""
        return _Pairs(*(x[which] for x in self))

    def preferred(self, value: Tensor) -> "_Pairs":
        """Those of each ground truth by descending value, of equal ones the detection that was given first."""
        places = torch.argsort(self.detection, stable=True)
        places = places[torch.sort(value[places], descending=True, stable=True).indices]
        return self.at(places[torch.argsort(self.truth[places], stable=True)])


@dataclass(frozen=True, eq=False)
class _Scenes:
    """D detections in the order given, and G ground truths in order of image and class.

    Attributes:
        score: (D,) of the detections.
        low: (D,) bool, which are too low to count.
        detected: (D,) int64, their classes.
        counted: (G,) bool, which ground truths are to be found.
        true: (G,) int64, their classes.
        place: (G,) int64, how many of its image and class come before each.
        objects: pairs with objects.
        regions: pairs with regions not to care about.
        size: K.
    """

    score: Tensor
    low: Tensor
    detected: Tensor
    counted: Tensor
    true: Tensor
    place: Tensor
    objects: _Pairs
    regions: _Pairs
    size: int

    @cached_property
    def total(self) -> Tensor:
        """(K,) int64, ground truths that are to be found."""
        return segments.count(self.true[self.counted], self.size)

    def thresholds(self) -> Tensor:
        """(41, K) scores at which precision is taken; NaN beyond the last."""
        found = self._chosen(self.score[self.objects.detection], torch.ones_like(self.low)[None])
        _, truth = self._right(found).nonzero(as_tuple=True)
        scores, true = self.score[found[0, truth]], self.true[truth]
        out = torch.full((_STEPS + 1, self.size), nan, dtype=scores.dtype, device=scores.device)
        for label, total in enumerate(self.total.tolist()):
            ordered = scores[true == label].sort(descending=True).values
            places = torch.tensor(sampled(len(ordered), total), dtype=torch.int64, device=scores.device)
            out[: len(places), label] = ordered[places]
        return out

    def precision(self, thresholds: Tensor) -> Tensor:
        """(T, K) float64 of the detections of at least each of (T, K) thresholds; 0 without true positives."""
        kept = self.score >= thresholds[:, self.detected]
        found = self._chosen(torch.where(self.low[self.objects.detection], -inf, self.objects.overlap), kept)
        cut, truth = (found >= 0).nonzero(as_tuple=True)
        wrong = kept & ~self.low
        wrong[cut, found[cut, truth]] = False
        wrong[:, self.regions.detection] = False
        tp = segments.as_float64(self._by_class(self._right(found), self.true))
        return torch.where(tp > 0, tp / (tp + self._by_class(wrong, self.detected)), 0)

    def _right(self, found: Tensor) -> Tensor:
        """(T, G) bool, which ground truths that are to be found have a detection that counts."""
        if not len(self.low):
            return found >= 0
        return (found >= 0) & self.counted & ~self.low[found.clamp(min=0)]

    def _by_class(self, flags: Tensor, category: Tensor) -> Tensor:
        """(T, K) how many of (T, N) flags of each class are set."""
        cut, place = flags.nonzero(as_tuple=True)
        return segments.count(cut * self.size + category[place], len(flags) * self.size).reshape(-1, self.size)

    def _chosen(self, value: Tensor, kept: Tensor) -> Tensor:
        """(T, G) int64, the detection of each ground truth, the free one of the highest value; -1 for none.

        Args:
            value: (P,) of the pairs with objects.
            kept: (T, D) bool, which detections there are.
        """
        pairs, free = self.objects.preferred(value), kept.clone()
        out = torch.full((len(kept), len(self.true)), -1, dtype=torch.int64, device=kept.device)
        step = self.place[pairs.truth]
        ends = torch.bincount(step).cumsum(0).tolist()
        pairs = pairs.at(torch.argsort(step, stable=True))
        for start, end in itertools.pairwise([0, *ends]):
            if start == end:
                continue
            detection, truth, _ = pairs.at(slice(start, end))
            opening = segments.run_starts(truth)
            owner = segments.ids(torch.cat([opening, opening.new_tensor([len(truth)])]))
            number = torch.arange(len(truth), device=truth.device)
            first = torch.where(free[:, detection], number, len(truth))
            best = first.new_full((len(free), len(opening)), len(truth))
            best.scatter_reduce_(1, owner.expand(len(free), -1), first, "amin")
            cut, place = (best < len(truth)).nonzero(as_tuple=True)
            chosen = detection[best[cut, place]]
            out[cut, truth[opening][place]] = chosen
            free[cut, chosen] = False
        return out


def sampled(found: int, total: int) -> list[int]:
    """Which of the true positives, in order of descending score, have their scores as thresholds.

    Each recall 0, 1/40, ... has the next true positive whose own recall is nearer to it than that of the one after.

    Args:
        found: how many true positives there are.
        total: how many ground truths.
    """
    place, out, wanted = np.arange(1, found + 1), [], 0.0
    while len(place):
        skipped = (place + 1) / total - wanted < wanted - place / total
        skipped[-1] = False  # the last is always taken
        place = place[int(np.argmin(skipped)) :]
        out.append(int(place[0]) - 1)
        place, wanted = place[1:], wanted + 1 / _STEPS
    return out


def kitti_settings_of(
    *,
    box_format: str,
    iou_threshold: float,
    interpolation: str,
    iou_type: Kind | Sequence[Kind],
    validate_args: bool = True,
) -> KittiSettings:
    """Settings as given, checked."""
    checks.fraction("iou_threshold", iou_threshold)
    checks.one_of("interpolation", interpolation, tuple(INTERPOLATIONS))
    shapes = shape_settings_of(iou_type=iou_type, box_format=box_format, validate_args=validate_args)  # type: ignore[arg-type]
    if len(shapes.iou_types) > 1:
        refuse("iou_type", "must be one kind", iou_type)
    return KittiSettings(**vars(shapes), threshold=float(iou_threshold), interpolation=interpolation)
