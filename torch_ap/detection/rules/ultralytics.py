"""Ultralytics' numbers for each class and threshold from columns of images.

In version 8.4.190, by descending score, each detection chooses the free ground truth of its class with the highest IoU.
Up to version 8.4.155 it belongs to the ground truth with the highest IoU, and there is no second choice, as in VOC.
Crowds and difficult ground truths are left out, as Ultralytics' converters do. There are no area ranges.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import DetectionConvention, allowed_values, with_keywords_of
from torch_ap.core.ranking.order import Array
from torch_ap.detection.inputs.images import Columns, Kind
from torch_ap.detection.matching import assignment, candidate_pairs
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.matching.shapes import threshold_index
from torch_ap.detection.rules.coco import rank_images
from torch_ap.detection.rules.coco_numbers import THRESHOLDS, Classes
from torch_ap.detection.rules.voc import LEAST, VocSettings, ordered_matches, voc_settings_of
from torch_ap.detection.shapes import boxes
from torch_ap.detection.shapes.boxes import PairIoU

_SCORES = np.linspace(0, 1, 1000)  # grid of precision and recall
_SMOOTHED = 101  # neighbouring scores whose F1 is averaged
_TINY = 1e-16  # in the divisor of F1
_KINDS = ("bbox", "segm", "precomputed")


@dataclass(frozen=True, eq=False, kw_only=True)
class UltralyticsSettings(VocSettings):
    """Settings of Ultralytics' numbers; ``interpolation`` is the name of the convention."""

    truth_flags: ClassVar[tuple[str, ...]] = ("difficult", "iscrowd")

    @property
    def _shapes_text(self) -> str:
        return f"{super()._shapes_text}|{self.interpolation}"

    def criteria(self, device: torch.device) -> assignment.Criteria:
        """Return the thresholds as criteria, on a device; for boxes in float32, as their IoU."""
        values = self.thresholds
        if self.iou_types[0] == "bbox":
            values = tuple(torch.tensor(values, dtype=torch.float32).tolist())
        return assignment.criteria_of(values, 1, device)

    def similarity(self, columns: Columns, iou_type: Kind, rows: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
        """Return the similarity of pairs of detections and ground truths; the IoU of boxes is float32."""
        if iou_type != "bbox":
            return super().similarity(columns, iou_type, rows, truths, crowd)
        detected, true = (
            boxes.to_xyxy(columns[f"{side}_boxes"].index_select(0, x), self.box_format).float()
            for side, x in (("detection", rows), ("ground_truth", truths))
        )
        return boxes.ultralytics_pairs(detected, true)

    def _matched(self, columns: Columns, classes: Classes) -> Matches:
        left_out = columns["ground_truth_difficult"].bool() | columns["ground_truth_iscrowd"].bool()
        # rows in reverse: of equal IoUs, the first ground truth comes first in 8.4.190, the last one up to 8.3
        truth_rows = (~left_out).nonzero().squeeze(1).flip(0)
        every_row = torch.arange(len(classes[1]), device=truth_rows.device)
        ranked, candidates, categories = rank_images(columns, classes, rows=(every_row, truth_rows))
        rows, none = ranked.rows[candidates.ranked], torch.zeros_like(candidates.truths, dtype=torch.bool)
        criteria = self.criteria(rows.device)
        similarity = self.similarity(columns, self.iou_types[0], rows, candidates.truths, none)
        pairs = candidate_pairs.overlapping(candidates, similarity, max(criteria.least, LEAST))
        if self.interpolation == "ultralytics":
            words = assignment.greedy(pairs, candidates.group, criteria.spread(none[None]), none, criteria)
        else:
            pairs, state = assignment.argmax(pairs, criteria.thresholds, strict=False)
            words = criteria.pack(state == 1)
        return ordered_matches(ranked, candidates, categories, criteria, pairs, (words, words), valid=~none)

    def score_curves(self, matches: Matches) -> Tensor:
        """Return precision and recall of each class at 1,000 scores from 0 to 1: (2, K, 1000) float64.

        Between the scores of two detections, both are linear. NaN for classes without ground truths, and for all
        classes if a score is outside [0, 1], where the curves do not contain the best score.
        """
        ranking = matches.rankings(0, threshold_index(None, self.thresholds))
        assert ranking.score is not None
        columns = (
            ranking.score.double(),
            ranking.cumulative_hits,
            ranking.cumulative_items,
            ranking.offsets,
            ranking.m,
        )
        scores, hits, items, offsets, relevant = (x.cpu().numpy() for x in columns)
        curves = np.zeros((2, len(relevant), len(_SCORES)))
        curves[:, relevant == 0] = np.nan
        if len(scores) and not (scores.min() >= 0 and scores.max() <= 1):
            return torch.full(curves.shape, torch.nan, dtype=torch.float64, device=matches.at.device)
        for number in np.flatnonzero((relevant > 0) & (np.diff(offsets) > 0)):
            part = slice(offsets[number], offsets[number + 1])
            curves[0, number] = np.interp(-_SCORES, -scores[part], hits[part] / items[part], left=1)
            curves[1, number] = np.interp(-_SCORES, -scores[part], hits[part] / relevant[number], left=0)
        return torch.from_numpy(curves).to(matches.at.device)

    def values(
        self, ap: Tensor, classes: int, *, several: bool, class_metrics: bool, curves: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return means of (T, K) average precisions, and precision, recall and F1 at the best score, by name."""
        assert curves is not None
        out = super().values(ap, classes, several=several, class_metrics=class_metrics)
        fixed = {f"map_{100 * x:.0f}": ap[index] for index, x in enumerate(self.thresholds) if x in (0.5, 0.75)}
        rates, score = _best_rates(curves.cpu().numpy())
        each = fixed | {name: torch.from_numpy(x).to(ap.device) for name, x in rates.items()}
        out |= {name: x.nanmean() for name, x in each.items()} | {"score": ap.new_tensor(score)}
        if class_metrics:
            out |= {f"{name}_per_class": x[:classes] for name, x in each.items()}
        return out


def _best_rates(curves: Array) -> tuple[dict[str, Array], float]:
    """Return precision, recall and F1 of each class, (K,), and the score with the highest smoothed mean F1."""
    precision, recall = curves
    f1 = 2 * precision * recall / (precision + recall + _TINY)
    defined = f1[~np.isnan(f1[:, 0])]
    if not len(defined):
        nothing = f1[:, 0]
        return {"precision": nothing, "recall": nothing, "f1": nothing}, float("nan")
    mean, margin = defined.mean(0), np.ones(_SMOOTHED // 2)
    padded = np.concatenate((margin * mean[0], mean, margin * mean[-1]))
    best = np.convolve(padded, np.ones(_SMOOTHED) / _SMOOTHED, mode="valid").argmax()
    rates = {"precision": precision, "recall": recall, "f1": f1}
    return {name: x[:, best].copy() for name, x in rates.items()}, float(_SCORES[best])


@with_keywords_of(voc_settings_of)
def settings_by_convention(
    *, convention: str | None = None, iou_thresholds: float | Sequence[float] | None = None, **voc: Any
) -> VocSettings:
    """Validate the arguments, and return VOC's settings, or the settings of a convention.

    Args:
        convention: "ultralytics", "ultralytics-8.3", or None for VOC's rules.
        iou_thresholds: a number in [0, 1], or several; default 0.5, with a convention 0.5, 0.55, ..., 0.95.
        voc: the other arguments of :func:`torch_ap.detection.rules.voc.voc_settings_of`.

    Raises:
        ValueError: for an argument that the convention determines, and for shapes that it does not define.
    """
    checks.one_of("convention", convention, (*allowed_values(DetectionConvention), None))
    if iou_thresholds is None:
        iou_thresholds = 0.5 if convention is None else THRESHOLDS
    settings = voc_settings_of(iou_thresholds=iou_thresholds, **voc)
    if convention is None:
        return settings
    for name, default in (("interpolation", "all-points"), ("inclusive_pixels", True), ("strict", False)):
        if getattr(settings, name) != default:
            raise_invalid(name, "cannot be combined with `convention`", getattr(settings, name))
    kind = settings.iou_types[0]
    if isinstance(kind, str) and kind not in _KINDS:
        raise_invalid("iou_type", f"must be {', '.join(map(repr, _KINDS))} or a function with `convention`", kind)
    return UltralyticsSettings(**vars(settings) | {"interpolation": convention, "inclusive_pixels": False})


def arguments_by_convention(
    arguments: Mapping[str, Any], by_coco: Callable[..., Any], by_voc: Callable[..., Any]
) -> dict[str, Any]:
    """Return the arguments of COCO's function or metric that a convention does not determine.

    Args:
        arguments: all arguments by name.
        by_coco: the function or metric with these arguments.
        by_voc: the function or metric that computes the numbers of a convention.

    Raises:
        ValueError: for an argument that ``by_voc`` lacks, unless it has its default.
    """
    accepted = inspect.signature(by_voc).parameters
    for name, parameter in inspect.signature(by_coco).parameters.items():
        value, default = arguments.get(name), parameter.default
        if name in arguments and name not in accepted and not (type(value) is type(default) and value == default):
            raise_invalid(name, "cannot be combined with `convention`", value)
    return {name: value for name, value in arguments.items() if name in accepted}
