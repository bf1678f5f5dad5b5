"""VOC's average precision for each class and threshold from columns of images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import Sigmas, VOCInterpolation, allowed_values
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.interpolation import recall_levels
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.detection.inputs.images import Columns, DetectionInputs, Kind, narrow_to_int32
from torch_ap.detection.matching import assignment, candidate_pairs, stored
from torch_ap.detection.matching.matched import Matches, Partners, Shares
from torch_ap.detection.matching.shapes import ANY_AREA, ShapeSettings, shape_settings_of
from torch_ap.detection.matching.stored import StoredMatches
from torch_ap.detection.rules.coco import classes_of, rank_images, zero_dimensional

INTERPOLATIONS = allowed_values(VOCInterpolation)
LEAST = 5e-324  # an IoU of 0 never matches, even with a threshold of 0


@dataclass(frozen=True, eq=False, kw_only=True)
class VocSettings(ShapeSettings):
    """Settings of VOC's mean average precision, and the steps from images to its numbers.

    Attributes:
        thresholds: T IoU thresholds.
        interpolation: "11-point" or "11-point-arange" (VOC 2007), "all-points" (since VOC 2010), "40-point" or
            "101-point".
        inclusive_pixels: whether boxes include the pixels of both corners, so that sizes are differences plus 1.
        strict: whether an IoU must exceed the threshold instead of reaching it.
    """

    thresholds: tuple[float, ...]
    interpolation: str
    inclusive_pixels: bool = True
    strict: bool = False

    def _form(self) -> StoredMatches:
        return StoredMatches(
            self.thresholds, tuple(ANY_AREA.values()), None, f"{self._shapes_text}|{self.pixel}|{self.strict}"
        )

    @property
    def pixel(self) -> float | None:
        """The number that is added to the differences of corners."""
        return float(self.inclusive_pixels)

    @cached_property
    def inputs(self) -> DetectionInputs:
        """The validation of images."""
        return DetectionInputs(
            rows=self.rows,
            masks=self.geometries[0].masks,
            pairs=self.geometries[0].pairs,
            of_truths=("difficult",),
            similarity=self.own_similarity,
            check_values=self.check_values,
        )

    def matching(self, columns: Columns, shares: Shares | None = None) -> tuple[Tensor, Matches]:
        """Match all detections at all thresholds, and return the (K,) labels and the matches.

        Args:
            columns: all images, or their stored matches (:mod:`torch_ap.detection.matching.stored`).
            shares: the exchange with other processes that have the other images; None for one process.
        """
        classes = classes_of(columns, shares)
        if stored.holds(columns):
            criteria = self.criteria(classes[0].device)
            local_matches = partial(stored.matches_of, columns, criteria, classes, micro=False)
        else:
            local_matches = partial(self._matched, columns, *classes)
        return classes[0], local_matches() if shares is None else shares.matches(local_matches)

    def criteria(self, device: torch.device) -> assignment.Criteria:
        """Return the thresholds as criteria, on a device."""
        return assignment.criteria_of(self.thresholds, 1, device)

    def _matched(self, columns: Columns, labels: Tensor, detected: Tensor, true: Tensor) -> Matches:
        ranked, candidates, categories = rank_images(columns, (labels, detected, true))
        return self._matches(ranked, candidates, columns, categories)

    def _matches(
        self, ranked: candidate_pairs.Ranked, candidates: candidate_pairs.Candidates, columns: Columns, categories: int
    ) -> Matches:
        rows = ranked.rows[candidates.ranked]
        no_crowds = torch.zeros_like(candidates.truths, dtype=torch.bool)
        pair_iou = self.similarity(columns, self.iou_types[0], rows, candidates.truths, no_crowds)
        pairs = candidate_pairs.overlapping(candidates, pair_iou, max(min(self.thresholds), LEAST))
        criteria = self.criteria(rows.device)
        (detection, truth, iou), state = assignment.argmax(pairs, criteria.thresholds, strict=self.strict)
        hard = columns["ground_truth_difficult"].bool()
        if (ignored := self.ignored(columns, self.iou_types[0])) is not None:
            hard = hard | ignored
        hard = hard[candidates.truths]
        # a detection of a difficult ground truth is ignored: matched, but not a true positive
        matched = (state == 1) | ((state == 0) & hard[truth])
        order = torch.argsort(candidates.ranked[detection])
        return Matches(
            ranked=ranked,
            at=candidates.ranked[detection[order]],
            matched=criteria.pack(matched[:, order]),
            true_positive=criteria.pack((matched & ~hard[truth])[:, order]),
            inside=torch.ones((1, len(ranked.rows)), dtype=torch.bool, device=rows.device),
            truth_group=candidates.group,
            valid=~hard[None],
            categories=categories,
            criteria=criteria,
            partners=Partners(truth[order], iou[order], candidates.truths),
        )

    def average_precision(self, curve: HitCurve) -> Tensor:
        """Return the AP of each threshold and class: (T, K) float64, NaN for classes without counted ground truths."""
        return Convention(interpolation=self.interpolation, ties="grouped")(curve).reshape(len(self.thresholds), -1)

    def levels(self, device: torch.device) -> Tensor | Literal["all-points", "nuscenes"]:
        """Return the recall levels of the interpolation, or its name if levels do not define it."""
        if self.interpolation == "all-points":
            return "all-points"
        if self.interpolation == "nuscenes":
            return "nuscenes"
        return recall_levels(self.interpolation, device)

    def report(
        self,
        columns: Columns,
        dtype: torch.dtype,
        *,
        several: bool,
        class_metrics: bool,
        shares: Shares | None = None,
        matched: Callable[..., tuple[Tensor, Matches]] | None = None,
    ) -> dict[str, Tensor]:
        """Return the results; ``several`` adds the mean of each threshold, ``matched`` replaces :meth:`matching`."""
        labels, matches = (matched or self.matching)(columns, shares)
        ap = self.average_precision(matches.curve(0))
        ap = ap if shares is None else shares.whole(ap)
        results = self.values(ap, len(labels), several=several, class_metrics=class_metrics)
        results = {name: value.to(dtype) for name, value in results.items()}
        return zero_dimensional(results | {"classes": narrow_to_int32(labels)})

    def values(self, ap: Tensor, classes: int, *, several: bool, class_metrics: bool) -> dict[str, Tensor]:
        """Return means of (T, K) average precisions by name; ``classes`` is the number of classes that occur."""
        out = {"map": ap.nanmean()}
        if several:
            out["map_per_threshold"] = ap.nanmean(1)
        if class_metrics:
            out["map_per_class"] = ap.mean(0)[:classes]
        return out


def voc_settings_of(
    *,
    box_format: str,
    iou_threshold: float | Sequence[float],
    interpolation: str,
    inclusive_pixels: bool,
    strict: bool,
    validate_args: bool = True,
    iou_type: Kind = "bbox",
    sigmas: Sigmas = None,
    match: str = "compute",
) -> VocSettings:
    """Validate the arguments, and return the settings."""
    if isinstance(iou_threshold, int | float):
        checks.fraction("iou_threshold", iou_threshold)
        iou_threshold = [iou_threshold]
    checks.numbers_in("iou_threshold", iou_threshold, low=0, high=1)
    shapes = shape_settings_of(
        iou_type=iou_type, box_format=box_format, sigmas=sigmas, validate_args=validate_args, match=match
    )
    if len(shapes.iou_types) > 1:
        raise_invalid("iou_type", "must be one kind", iou_type)
    checks.one_of("interpolation", interpolation, INTERPOLATIONS)
    for name, value in (("inclusive_pixels", inclusive_pixels), ("strict", strict)):
        checks.boolean(name, value)
    if iou_type != "bbox" and not inclusive_pixels:
        raise_invalid("inclusive_pixels", "must be left out for shapes other than boxes", inclusive_pixels)
    return VocSettings(
        **vars(shapes),
        thresholds=tuple(map(float, iou_threshold)),
        interpolation=interpolation,
        inclusive_pixels=inclusive_pixels,
        strict=strict,
    )
