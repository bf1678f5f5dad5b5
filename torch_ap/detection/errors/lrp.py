"""Localization-recall-precision: one number for missed objects, false detections and the fit of boxes.

Validation of score thresholds: one for all classes, or one per class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking import segments
from torch_ap.detection.errors.operating_points import OperatingPoints
from torch_ap.detection.matching.matched import Matches
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


def optimal_lrp(matches: Matches, place: int, iou_threshold: float, labels: Tensor, names: Sequence[str]) -> OptimalLRP:
    """Return the record for the matches at one IoU threshold, in the first area range.

    A threshold does not separate equal scores. Among equal LRPs the highest score is chosen, but thresholds with true
    positives come before those without.

    Args:
        matches: the matches of all images.
        place: index of the IoU threshold.
        iou_threshold: its value, below 1.
        labels: (K,) labels of the classes.
        names: (K,) names of the classes.
    """
    category = matches.ranked.category
    edges = matches.edges
    tp, fp, off = (segments.as_float64(x) for x in _running(matches, place, edges))
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
    table: dict[str, Any] = {"class": labels, "name": list(names), **columns}
    return OptimalLRP(
        **means, per_class={name: x[: len(labels)] for name, x in table.items()}, iou_threshold=iou_threshold
    )


def _running(matches: Matches, place: int, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (N,) running true positives, false positives and sums of 1 - IoU of the first, within each class."""
    assert matches.partners is not None
    true, false = matches.flags(0, place)
    pairs = matches.criteria.of_range(matches.true_positive, 0)[place]
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


Given = float | Tensor | list[float] | Mapping[int, float] | OperatingPoints

_NAME = "score_threshold"


def score_thresholds(given: Any, labels: Tensor | None, scores: Tensor) -> Tensor:
    """Return a 0-d score threshold, or one per class, (K,), in the dtype of ``segments.comparable``, as a copy.

    Args:
        given: a number; (K,) numbers in the order of the labels; or a dict by label or operating points.
        labels: (K,) labels of the classes; None for one threshold for all.
        scores: scores of the detections.
    """
    dtype = segments.comparable(scores[:0]).dtype
    return torch.as_tensor(_checked_thresholds(given, labels), dtype=dtype).to(scores.device, copy=True)


def _checked_thresholds(given: Any, labels: Tensor | None) -> Any:
    points = isinstance(given, OperatingPoints)
    values = given.threshold if points else given.detach() if isinstance(given, Tensor) else given
    if points and values.ndim:
        values = dict(zip(given.labels.tolist(), values.tolist(), strict=True))
    if isinstance(values, Mapping) and labels is not None:
        missing = [label for label in labels.tolist() if label not in values]
        if missing:
            raise_invalid(_NAME, f"must have a threshold of each class, and has none of label {missing[0]}", values)
        values = [values[label] for label in labels.tolist()]
    if isinstance(values, Tensor) and values.ndim == 1:
        kept, number = len(values), checks.is_real(values.dtype)
    elif isinstance(values, list | tuple):
        kept, number = len(values), all(map(checks.is_number, values))
    else:
        return checks.number(_NAME, values, _rule(labels))
    if not number or kept != (1 if labels is None else len(labels)):
        shape = number and isinstance(given, Tensor)
        raise_invalid(_NAME, _rule(labels), tuple(given.shape) if shape else given)
    return values


def _rule(labels: Tensor | None) -> str:
    if labels is None:
        return "must be a number other than NaN, or OperatingPoints of one threshold, where `per_class=False`"
    each = f"one for each of the {len(labels)} classes"
    return f"must be a number other than NaN, OperatingPoints, a dict of label to number, or a list or tensor of {each}"
