"""VOC's evaluation: from columns of images to average precision a class and threshold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.curve.interpolation import levels_of
from torch_ap.inputs.detections import Columns, DetectionInputs, Kind, image_of, int32_if_held
from torch_ap.matching import assignment, candidate_pairs, stored
from torch_ap.matching.coco import classes_of, zero_dimensional
from torch_ap.matching.geometries import ANY_AREA
from torch_ap.matching.matched import Matches, Partners, Shares
from torch_ap.matching.shape_settings import ShapeSettings, shape_settings_of
from torch_ap.matching.stored import StoredMatches
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse
from torch_ap.rules.options import Sigmas, VOCInterpolation, allowed

INTERPOLATIONS = allowed(VOCInterpolation)
LEAST = 5e-324  # what does not overlap at all has no IoU, so that a threshold of 0 is not reached


@dataclass(frozen=True, eq=False, kw_only=True)
class VocSettings(ShapeSettings):
    """All settings of VOC's mean average precision, and the steps from images to its numbers.

    Attributes:
        thresholds: T IoU thresholds.
        interpolation: "11-point" or "11-point-arange" (VOC 2007), "all-points" (VOC 2010 on), "40-point", "101-point".
        inclusive_pixels: whether corners name pixels that they include, so that sizes are one more than differences.
        strict: whether an IoU must exceed the threshold.
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
        """What is added to the differences of corners."""
        return float(self.inclusive_pixels)

    @cached_property
    def inputs(self) -> DetectionInputs:
        """How images come in."""
        return DetectionInputs(
            rows=self.rows,
            masks=self.geometries[0].masks,
            pairs=self.geometries[0].pairs,
            of_truths=("difficult",),
            similarity=self.own_similarity,
            check_values=self.check_values,
        )

    def matching(self, columns: Columns, shares: Shares | None = None) -> tuple[Tensor, Matches]:
        """(K,) the labels that occur; every detection matched at every threshold.

        Args:
            columns: all images, or what :mod:`torch_ap.matching.stored` has of their matches.
            shares: where these are the images of one process of several.
        """
        classes = classes_of(columns, shares)
        if stored.holds(columns):
            criteria = self.criteria(classes[0].device)
            found = partial(stored.matches_of, columns, criteria, classes, micro=False)
        else:
            found = partial(self._matched, columns, *classes)
        return classes[0], found() if shares is None else shares.matches(found)

    def criteria(self, device: torch.device) -> assignment.Criteria:
        """Thresholds of matching, on a device."""
        return assignment.criteria_of(self.thresholds, 1, device)

    def _matched(self, columns: Columns, labels: Tensor, detected: Tensor, true: Tensor) -> Matches:
        categories, images = max(1, len(labels)), max(1, len(columns["detections_per_image"]))
        image = [image_of(columns[f"{side}s_per_image"]) for side in ("detection", "ground_truth")]
        ranked = candidate_pairs.rank(
            columns["detection_scores"], detected, image[0], categories=categories, images=images
        )
        candidates = candidate_pairs.find_candidates(ranked, image[1] * categories + true, images * categories)
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
        # a detection of a difficult ground truth is no item: matched, but no true positive
        found = (state == 1) | ((state == 0) & hard[truth])
        order = torch.argsort(candidates.ranked[detection])
        return Matches(
            ranked=ranked,
            at=candidates.ranked[detection[order]],
            matched=criteria.pack(found[:, order]),
            true_positive=criteria.pack((found & ~hard[truth])[:, order]),
            inside=torch.ones((1, len(ranked.rows)), dtype=torch.bool, device=rows.device),
            truth_group=candidates.group,
            valid=~hard[None],
            categories=categories,
            criteria=criteria,
            partners=Partners(truth[order], iou[order], candidates.truths),
        )

    def average_precision(self, curve: HitCurve) -> Tensor:
        """(T, K) float64; NaN for classes without ground truths that count."""
        return Convention(interpolation=self.interpolation, ties="grouped")(curve).reshape(len(self.thresholds), -1)

    def levels(self, device: torch.device) -> Tensor | Literal["all-points", "nuscenes"]:
        """The recall levels of the interpolation, unless there is more to it."""
        if self.interpolation == "all-points":
            return "all-points"
        if self.interpolation == "nuscenes":
            return "nuscenes"
        return levels_of(self.interpolation, device)

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
        """The dictionary of results; ``several`` adds the mean of each threshold, ``matched`` does :meth:`matching`."""
        labels, matches = (matched or self.matching)(columns, shares)
        each = self.average_precision(matches.curve(0))
        each = each if shares is None else shares.whole(each)
        out = self.values(each, len(labels), several=several, class_metrics=class_metrics)
        found = {name: value.to(dtype) for name, value in out.items()} | {"classes": int32_if_held(labels)}
        return zero_dimensional(found)

    def values(self, each: Tensor, classes: int, *, several: bool, class_metrics: bool) -> dict[str, Tensor]:
        """The results by name: means of (T, K) average precisions, of ``classes`` that occur."""
        out = {"map": each.nanmean()}
        if several:
            out["map_per_threshold"] = each.nanmean(1)
        if class_metrics:
            out["map_per_class"] = each.mean(0)[:classes]
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
    """Settings as given, checked."""
    if isinstance(iou_threshold, int | float):
        checks.fraction("iou_threshold", iou_threshold)
        iou_threshold = [iou_threshold]
    checks.numbers_in("iou_threshold", iou_threshold, low=0, high=1)
    shapes = shape_settings_of(
        iou_type=iou_type, box_format=box_format, sigmas=sigmas, validate_args=validate_args, match=match
    )
    if len(shapes.iou_types) > 1:
        refuse("iou_type", "must be one kind", iou_type)
    checks.one_of("interpolation", interpolation, INTERPOLATIONS)
    for name, value in (("inclusive_pixels", inclusive_pixels), ("strict", strict)):
        checks.boolean(name, value)
    if iou_type != "bbox" and not inclusive_pixels:
        refuse("inclusive_pixels", "must be left out of shapes other than boxes", inclusive_pixels)
    return VocSettings(
        **vars(shapes),
        thresholds=tuple(map(float, iou_threshold)),
        interpolation=interpolation,
        inclusive_pixels=inclusive_pixels,
        strict=strict,
    )
