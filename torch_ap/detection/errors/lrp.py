"""Localization-recall-precision: one number for missed objects, false detections and the fit of boxes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.ranking import segments
from torch_ap.detection.errors.matches_at import MatchesAt
from torch_ap.inference.record import Result


@dataclass(frozen=True, eq=False, repr=False)
class OptimalLRP(Result):
    r"""Localization-recall-precision error at the best score threshold, and its parts; lower is better.

    TP, FP and FN count the detections of at least a score, matched at an IoU of at least :math:`\tau`:

    .. math::
        LRP = \frac{\sum_{TP} (1 - IoU) / (1 - \tau) + FP + FN}{TP + FP + FN}

    The method ``lrp()`` of the detection metrics returns it.

    Attributes:
        lrp: 0-d, the mean over classes with ground truths of the least LRP of any score threshold. A threshold does not
            separate equal scores.
        localization: 0-d, the mean over classes with true positives of their mean 1 - IoU at this threshold.
        false_positives: 0-d, the mean over these classes of the share of false positives, 1 - precision.
        false_negatives: 0-d, the mean over classes with ground truths of the share of missed ones, 1 - recall.
        per_class: a table with one row per class: ``class``, ``name``, these four numbers, and their
            ``score_threshold``. NaN without ground truths. For a class without true positives ``lrp`` and
            ``false_negatives`` are 1 and the others NaN.
        iou_threshold: :math:`\tau`.
    """

    lrp: Tensor
    localization: Tensor
    false_positives: Tensor
    false_negatives: Tensor
    per_class: dict[str, Any] = field(repr=False)
    iou_threshold: float


def optimal_lrp(at: MatchesAt) -> OptimalLRP:
    """Return the record for an IoU threshold below 1, in the first area range.

    A threshold does not separate equal scores. Among equal LRPs the highest score is chosen, but thresholds with true
    positives precede thresholds without.
    """
    matches, iou_threshold = at.matches, at.iou_threshold
    category = matches.ranked.category
    edges = matches.edges
    tp, fp, off = (segments.as_float64(x) for x in _running(at, edges))
    m = segments.as_float64(matches.relevant[0])
    fn = m[category] - tp
    lrp = (off / (1 - iou_threshold) + fp + fn) / (tp + fp + fn)
    score = segments.as_float64(matches.ranked.score)
    best = _lowest(torch.where(_last_of_score(score, edges) & (tp > 0), lrp, torch.inf), edges)
    lrp, tp, fp, fn, off, score = _values_at([lrp, tp, fp, fn, off, score], best, edges)
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
    per_class = {name: x[: len(at.labels)] for name, x in columns.items()}
    table = {"class": at.labels, "name": list(at.names), **per_class}
    return OptimalLRP(**means, per_class=table, iou_threshold=iou_threshold)


def _running(at: MatchesAt, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (N,) running true positives, false positives and sums of 1 - IoU of the first, within each class."""
    matches = at.matches
    assert matches.partners is not None
    true, false = matches.flags(0, at.threshold_index)
    pairs = matches.criteria.range_flags(matches.true_positive, 0)[at.threshold_index]
    off = segments.as_float64(torch.zeros_like(true))
    off[matches.at[pairs]] = 1 - matches.partners.iou[pairs]
    tp, fp, off = (segments.cumulative(x, edges) for x in (true.to(torch.int64), false.to(torch.int64), off))
    return tp, fp, off


def _last_of_score(score: Tensor, edges: Tensor) -> Tensor:
    """Return (N,) bool flags of the last detection of each score of a class, where a threshold can cut."""
    last = torch.ones_like(score, dtype=torch.bool)
    torch.ne(score[1:], score[:-1], out=last[:-1])
    return last.index_fill_(0, edges[edges > 0] - 1, True)


def _lowest(values: Tensor, edges: Tensor) -> Tensor:
    """Return the (K,) index of the first lowest value of each class; any index for an empty class."""
    lowest, category = -segments.maximum(-values, edges), segments.ids(edges)
    places = (values == lowest[category]).nonzero().squeeze(1)
    return torch.cat([places, edges[-1:]])[torch.searchsorted(places, edges[:-1])]


def _values_at(columns: Sequence[Tensor], places: Tensor, edges: Tensor) -> list[Tensor]:
    """Return (K,) values of each column at one index per class; 0 for a class without detections."""
    last = len(columns[0]) - 1
    if last < 0:
        return [values.new_zeros(len(edges) - 1) for values in columns]
    some, places = edges.diff() > 0, places.clamp(min=0, max=last)
    return [torch.where(some, values[places], 0) for values in columns]
