"""Localization-recall-precision: one number of what is found, missed, made up, and how well boxes fit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.inference.result import Result
from torch_ap.matching.matched import Matches
from torch_ap.ranking import segments


@dataclass(frozen=True, eq=False, repr=False)
class OptimalLRP(Result):
    r"""Localization-recall-precision error at the score threshold where it is least, and its parts; lower is better.

    With the detections of at least a score, of which TP match a ground truth at an IoU of at least :math:`\tau`:

    .. math::
        LRP = \frac{\sum_{TP} (1 - IoU) / (1 - \tau) + FP + FN}{TP + FP + FN}

    Made by the method ``lrp()`` of the detection metrics.

    Attributes:
        lrp: 0-d, the mean over classes with ground truths of the least LRP of any score threshold; detections of one
            score are kept or left together.
        localization: 0-d, the mean of the mean 1 - IoU of the true positives there, over classes that have some.
        false_positives: 0-d, likewise of the share of false positives in the detections, 1 - precision.
        false_negatives: 0-d, the mean over classes with ground truths of the share not found, 1 - recall.
        per_class: a table with one row per class: ``class``, ``name``, these four, and ``score_threshold``, at which
            they are. NaN without ground truths; of a class without true positives ``lrp`` and ``false_negatives`` are 1
            and the others NaN.
        iou_threshold: :math:`\tau`.
    """

    lrp: Tensor
    localization: Tensor
    false_positives: Tensor
    false_negatives: Tensor
    per_class: dict[str, Any] = field(repr=False)
    iou_threshold: float


def optimal_lrp(matches: Matches, place: int, iou_threshold: float, labels: Tensor, names: Sequence[str]) -> OptimalLRP:
    """The record of the matches at one IoU threshold, in the first area range.

    Detections of one score are kept or left together, as a threshold can do no other; of equal LRPs that of the highest
    score is taken, but one with true positives before all without.

    Args:
        matches: of all images.
        place: of the IoU threshold among all.
        iou_threshold: itself, below 1.
        labels: (K,) of the classes.
        names: (K,) of the classes.
    """
    category = matches.ranked.category
    edges = matches.edges
    tp, fp, off = (segments.as_float64(x) for x in _running(matches, place, edges))
    m = segments.as_float64(matches.relevant[0])
    fn = m[category] - tp
    lrp = (off / (1 - iou_threshold) + fp + fn) / (tp + fp + fn)
    score = segments.as_float64(matches.ranked.score)
    best = _lowest(torch.where(_last_of_score(score, edges) & (tp > 0), lrp, torch.inf), edges)
    lrp, tp, fp, fn, off, score = _at([lrp, tp, fp, fn, off, score], best, edges)
    known, some = m > 0, tp > 0
    columns = {
        "lrp": lrp,
        "localization": off / tp,
        "false_positives": fp / (tp + fp),
        "false_negatives": fn / m,
        "score_threshold": score,
    }
    for name, values in columns.items():
        without = 1.0 if name in ("lrp", "false_negatives") else torch.nan
        columns[name] = torch.where(known, torch.where(some, values, without), torch.nan)
    means = {name: values.nanmean() for name, values in columns.items() if name != "score_threshold"}
    table: dict[str, Any] = {"class": labels, "name": list(names), **columns}
    return OptimalLRP(
        **means, per_class={name: x[: len(labels)] for name, x in table.items()}, iou_threshold=iou_threshold
    )


def _running(matches: Matches, place: int, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N,) true positives, false positives, and the sum of 1 - IoU of the first, down to each detection of a class."""
    assert matches.partners is not None
    true, false = matches.flags(0, place)
    pairs = matches.criteria.of_range(matches.true_positive, 0)[place]
    off = segments.as_float64(torch.zeros_like(true))
    off[matches.at[pairs]] = 1 - matches.partners.iou[pairs]
    tp, fp, off = (segments.cumulative(x, edges) for x in (true.to(torch.int64), false.to(torch.int64), off))
    return tp, fp, off


def _last_of_score(score: Tensor, edges: Tensor) -> Tensor:
    """(N,) bool, whether no later detection of its class has the score of each: where a threshold can cut."""
    last = torch.ones_like(score, dtype=torch.bool)
    torch.ne(score[1:], score[:-1], out=last[:-1])
    return last.index_fill_(0, edges[edges > 0] - 1, True)


def _lowest(values: Tensor, edges: Tensor) -> Tensor:
    """(K,) where the lowest value of each class stands, the first of equals; any place where it has none."""
    lowest, category = -segments.maximum(-values, edges), segments.ids(edges)
    places = (values == lowest[category]).nonzero().squeeze(1)
    return torch.cat([places, edges[-1:]])[torch.searchsorted(places, edges[:-1])]


def _at(columns: Sequence[Tensor], places: Tensor, edges: Tensor) -> list[Tensor]:
    """(K,) each, the values of columns at some place of each class; 0 where it has no detections."""
    last = len(columns[0]) - 1
    if last < 0:
        return [values.new_zeros(len(edges) - 1) for values in columns]
    some, places = edges.diff() > 0, places.clamp(min=0, max=last)
    return [torch.where(some, values[places], 0) for values in columns]
