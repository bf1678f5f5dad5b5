"""VOC's average precision for each class and threshold from columns of images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import InterpolationRule, VOCInterpolation, allowed_values, with_keywords_of
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.interpolation import LEVELS, recall_levels
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.detection.inputs.images import Columns, DetectionInputs, Kind
from torch_ap.detection.matching import assignment, candidate_pairs, stored
from torch_ap.detection.matching.candidate_pairs import Candidates, Pairs, Ranked
from torch_ap.detection.matching.matched import Matches, Partners, Shares
from torch_ap.detection.matching.shapes import ANY_AREA, ShapeSettings, shape_settings_of
from torch_ap.detection.matching.stored import StoredMatches
from torch_ap.detection.rules.coco import classes_of, narrow_to_int32, rank_images, zero_dimensional
from torch_ap.detection.rules.coco_numbers import Classes, input_options

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

    truth_flags: ClassVar[tuple[str, ...]] = ("difficult",)
    detection_columns: ClassVar[tuple[str, ...]] = ()

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
        options = input_options(self)
        return DetectionInputs(**options, of_truths=self.truth_flags, of_detections=self.detection_columns)

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
            local_matches = partial(self._matched, columns, classes)
        return classes[0], local_matches() if shares is None else shares.matches(local_matches)

    def criteria(self, device: torch.device) -> assignment.Criteria:
        """Return the thresholds as criteria, on a device."""
        return assignment.criteria_of(self.thresholds, 1, device)

    def _matched(self, columns: Columns, classes: Classes) -> Matches:
        ranked, candidates, categories = rank_images(columns, classes)
        rows = ranked.rows[candidates.ranked]
        no_crowds = torch.zeros_like(candidates.truths, dtype=torch.bool)
        pair_iou = self.similarity(columns, self.iou_types[0], rows, candidates.truths, no_crowds)
        pairs = candidate_pairs.overlapping(candidates, pair_iou, max(min(self.thresholds), LEAST))
        criteria = self.criteria(rows.device)
        best, state = assignment.argmax(pairs, criteria.thresholds, strict=self.strict)
        hard = columns["ground_truth_difficult"].bool()
        if (ignored := self.ignored(columns, self.iou_types[0])) is not None:
            hard = hard | ignored
        hard = hard[candidates.truths]
        # a detection of a difficult ground truth is ignored: matched, but not a true positive
        matched = (state == 1) | ((state == 0) & hard[best.truth])
        words = (criteria.pack(matched), criteria.pack(matched & ~hard[best.truth]))
        return ordered_matches(ranked, candidates, categories, criteria, best, words, valid=~hard)

    def average_precision(self, curve: HitCurve) -> Tensor:
        """Return the AP of each threshold and class: (T, K) float64, NaN for classes without counted ground truths."""
        return Convention(interpolation=self.interpolation, ties="grouped")(curve).reshape(len(self.thresholds), -1)

    def levels(self, device: torch.device) -> InterpolationRule:
        """Return the recall levels of the interpolation, or its name if levels do not define it."""
        if self.interpolation in LEVELS and self.interpolation != "nuscenes":
            return recall_levels(self.interpolation, device)
        return self.interpolation  # type: ignore[return-value]

    def score_curves(self, matches: Matches) -> Tensor | None:  # noqa: ARG002
        """Return (2, K, ...) values of scores that :meth:`values` requires; None if it requires none."""
        return None

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
        """Return the dictionary of results.

        Args:
            columns: all images.
            dtype: the dtype of the numbers.
            several: whether to add the mean of each threshold.
            class_metrics: whether to add the AP of each class.
            shares: as in :meth:`matching`.
            matched: replaces :meth:`matching`, for instance by cached matches.
        """
        labels, matches = (matched or self.matching)(columns, shares)
        ap = self.average_precision(matches.curve(0))
        curves = self.score_curves(matches)
        if shares is not None:
            ap, curves = shares.combine(ap), curves if curves is None else shares.combine(curves)
        results = self.values(ap, len(labels), several=several, class_metrics=class_metrics, curves=curves)
        results = {name: value.to(dtype) for name, value in results.items()}
        return zero_dimensional(results | {"classes": narrow_to_int32(labels)})

    def values(
        self,
        ap: Tensor,
        classes: int,
        *,
        several: bool,
        class_metrics: bool,
        curves: Tensor | None = None,  # noqa: ARG002
    ) -> dict[str, Tensor]:
        """Return means by name.

        Args:
            ap: (T, K) average precisions.
            classes: the number of classes that occur.
            several: whether to add the mean of each threshold.
            class_metrics: whether to add the AP of each class.
            curves: result of :meth:`score_curves`.
        """
        out = {"map": ap.nanmean()}
        if several:
            out["map_per_threshold"] = ap.nanmean(1)
        if class_metrics:
            out["map_per_class"] = ap.mean(0)[:classes]
        return out


def ordered_matches(
    ranked: Ranked,
    candidates: Candidates,
    categories: int,
    criteria: assignment.Criteria,
    pairs: Pairs,
    words: tuple[Tensor, Tensor],
    *,
    valid: Tensor,
    inside: Tensor | None = None,
) -> Matches:
    """Return matches in one area range from matched pairs in any order.

    Args:
        ranked: the N ranked detections.
        candidates: the detections and ground truths of the pairs.
        categories: the number of categories.
        criteria: the thresholds.
        pairs: the E matched pairs.
        words: (W, E) int64 each, the criteria that match each pair and the criteria that count it as a true positive.
        valid: (G,) bool, False for ignored ground truths.
        inside: (N,) bool, whether each detection is counted; None for all.
    """
    at = candidates.ranked[pairs.detection]
    order = torch.argsort(at, stable=True)
    order = order[(words[0] != 0).any(0)[order]]
    matched, true_positive = (x[:, order] for x in words)
    return Matches(
        ranked=ranked,
        at=at[order],
        matched=matched,
        true_positive=true_positive,
        inside=torch.ones_like(ranked.rows, dtype=torch.bool)[None] if inside is None else inside[None],
        truth_group=candidates.group,
        valid=valid[None],
        categories=categories,
        criteria=criteria,
        partners=Partners(pairs.truth[order], pairs.iou[order], candidates.truths),
    )


@with_keywords_of(shape_settings_of)
def settings_of_one_kind(*, iou_type: Kind, **shapes: Any) -> ShapeSettings:
    """Return :func:`shape_settings_of` after checking that ``iou_type`` is one kind of shape."""
    settings = shape_settings_of(iou_type=iou_type, **shapes)
    if len(settings.iou_types) > 1:
        raise_invalid("iou_type", "must be one kind", iou_type)
    return settings


@with_keywords_of(settings_of_one_kind)
def voc_settings_of(
    *,
    iou_thresholds: float | Sequence[float],
    interpolation: str = "all-points",
    inclusive_pixels: bool = True,
    strict: bool = False,
    iou_type: Kind = "bbox",
    **shapes: Any,
) -> VocSettings:
    """Validate the arguments, and return the settings; ``shapes`` are arguments of :func:`shape_settings_of`."""
    if isinstance(iou_thresholds, int | float):
        checks.fraction("iou_thresholds", iou_thresholds)
        iou_thresholds = [iou_thresholds]
    checks.numbers_in("iou_thresholds", iou_thresholds, low=0, high=1)
    settings = settings_of_one_kind(iou_type=iou_type, **shapes)
    checks.one_of("interpolation", interpolation, INTERPOLATIONS)
    for name, value in (("inclusive_pixels", inclusive_pixels), ("strict", strict)):
        checks.boolean(name, value)
    if iou_type != "bbox" and not inclusive_pixels:
        raise_invalid("inclusive_pixels", "must be left out for shapes other than boxes", inclusive_pixels)
    return VocSettings(
        **vars(settings),
        thresholds=tuple(map(float, iou_thresholds)),
        interpolation=interpolation,
        inclusive_pixels=inclusive_pixels,
        strict=strict,
    )
