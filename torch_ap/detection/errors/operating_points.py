"""Operating points of a detector: the score threshold of each class, and its numbers with intervals over images.

All numbers are computed from the matches at one IoU threshold. A detection is matched before detections of lower score,
so a threshold does not change the matches above it. The best threshold is the score of a true positive, because lower
thresholds up to the next one only add false positives; no other thresholds are tried.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.arrays import native
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.measures.counts import Counts
from torch_ap.core.ranking import order, segments
from torch_ap.detection.errors.matches_at import Items, MatchesAt, counts_per_image, lengths
from torch_ap.inference.groups import NO_SPREAD
from torch_ap.inference.groups_at_threshold import METHOD, UnitCounts, grouped_ratio_ends
from torch_ap.inference.operating_point import CHOSEN, CutNumbers, ThresholdCriterion, few_groups_at_threshold
from torch_ap.inference.record import student_quantile, wilson

_METHOD = "delta-wilson"
_NAME = "score_threshold"
_MARKS = 64  # hits of a first search for the best threshold of all classes
_RATIO_NAMES = [f"{name}{end}" for name in ("precision", "recall", "f_beta") for end in ("", "_low", "_high")]


@dataclass(frozen=True, eq=False, repr=False)
class OperatingPoints(CutNumbers):
    """Numbers of the detections with at least a threshold: (K,) each, or 0-d for one threshold for all classes.

    Attributes:
        threshold: the least score, in the dtype of the scores, but at least float32 for a fixed threshold and float64
            for integers. NaN if no threshold has the required value; then no detection is chosen, and tp and fp are 0.
        precision: tp / (tp + fp).
        precision_low: lower end of its interval; NaN if there is none.
        precision_high: upper end.
        recall: tp / (tp + fn).
        recall_low: lower end.
        recall_high: upper end.
        f_beta: F_beta.
        f_beta_low: lower end.
        f_beta_high: upper end.
        tp: int64, true positives.
        fp: false positives.
        fn: undetected ground truths.
        n: detections of any score.
        labels: (K,) int64, the labels of the images.
        names: names of the labels.
        beta: weight of recall relative to precision in F.
        confidence_level: nominal coverage of each interval.
        method: method of the intervals.
        reason: why numbers are NaN; "" otherwise.
    """

    labels: Tensor
    names: list[str]
    beta: float
    confidence_level: float
    method: str
    reason: str = ""


ScoreThreshold = float | Tensor | list[float] | Mapping[int, float] | OperatingPoints


def operating_points(
    at: MatchesAt,
    criterion: ThresholdCriterion,
    thresholds: Tensor | None = None,
    *,
    per_class: bool,
    confidence_level: float,
) -> OperatingPoints:
    """Return the operating points in the first area range.

    Args:
        at: the matches.
        criterion: the criterion of the best thresholds; with fixed thresholds only its ``beta`` is used.
        thresholds: fixed thresholds, the result of :func:`score_thresholds`; None for the best ones.
        per_class: whether each category has its own threshold.
        confidence_level: nominal coverage.
    """
    items = at.items(per_class)
    m, size = items.m, len(at.labels) if per_class else 1  # without labels there is still one category
    if thresholds is None:
        threshold, unreached = _best(items, m, criterion), criterion.unreached.partition(":")[0]
    else:
        threshold, unreached = native(thresholds if thresholds.ndim else thresholds.repeat(len(m))), "no threshold"
    numbers = {"threshold": threshold, "n": items.n}
    counts, units = _counts_at(items, m, threshold)
    numbers |= counts | _ratios_with_ends(
        counts, units, m, items.image_group is not None, criterion.beta, confidence_level
    )
    missing = threshold != threshold
    if thresholds is None and arrays.any_true(missing):
        numbers |= {name: arrays.namespace(m).where(missing, torch.nan, numbers[name]) for name in _RATIO_NAMES}
    one_unit = (
        f"no detection is chosen, or {'all are in one image, which has no spread' if at.groups is None else NO_SPREAD}"
    )
    reason = _reason({name: x[:size] for name, x in numbers.items()}, m[:size], unreached, one_unit)
    if at.groups is not None:
        has_best_f = thresholds is None and criterion.precision is None and criterion.recall is None
        has_ends = ~arrays.namespace(m).isnan(numbers["recall_low"])
        found = (segments.total(segments.as_int64(x > 0), units.offsets) for x in (units.m, units.n))
        truths, chosen = (arrays.tensor(arrays.namespace(m).where(has_ends, x, 0)[:size]) for x in found)
        few = few_groups_at_threshold(truths, chosen, "ground truths", "classes")
        reason = "; ".join(filter(None, [reason, few, CHOSEN if has_best_f and arrays.any_true(has_ends) else ""]))
    shown = slice(size) if per_class else 0
    columns: dict[str, Any] = {name: arrays.tensor(x)[shown] for name, x in numbers.items()}
    dtype = at.matches.ranked.score.dtype
    if thresholds is None and dtype.is_floating_point:
        columns["threshold"] = columns["threshold"].to(dtype)
    columns |= {"beta": criterion.beta, "confidence_level": confidence_level}
    columns["method"] = _METHOD if at.groups is None else METHOD
    return OperatingPoints(**columns, labels=at.labels, names=at.names, reason=reason)


@arrays.quiet
def _best(items: Items, m: Any, criterion: ThresholdCriterion) -> Any:
    """Return the (S,) best threshold of each ranking, native; NaN if there is none.

    Args:
        items: the detections.
        m: (S,) numbers of ground truths.
        criterion: the criterion.
    """
    out = arrays.full(len(m), torch.nan, items.score)
    if not len(items.hits):
        return out
    in_order = items.rankings == items.matches.categories  # by score in each ranking
    score, tp, kept, offsets = _all_hits(items) if in_order else _candidate_hits(items, m, criterion)
    ranking = segments.ids(offsets)
    value, slack = _value(criterion, tp, kept, arrays.take(m, ranking))
    best = arrays.repeat(segments.maximum(value, offsets), lengths(offsets))
    equal = arrays.true_indices((value * slack >= best) & (best > -torch.inf))
    first, times = segments.runs(ranking[equal])
    equal = equal[first if criterion.recall is None else first + times - 1]
    out[ranking[equal]] = score[equal]
    return out


def _value(criterion: ThresholdCriterion, tp: Any, kept: Any, m: Any) -> tuple[Any, float]:
    tp, kept, m = map(segments.as_float64, (tp, kept, m))
    return criterion.value(Counts(tp=tp, fp=kept - tp, fn=m - tp, tn=0 * tp), weighted=False)


def _all_hits(items: Items) -> tuple[Any, Any, Any, Any]:
    """Return the scores of the hits, the hits and items of at least this score in their ranking, and their offsets."""
    hits, score, offsets = items.hits, items.score, items.offsets(items.hits)
    owner, own = segments.ids(offsets), arrays.take(score, hits)
    end, above_or_equal = hits + 1, arrays.arange_like(len(hits), hits) + 1
    again = arrays.true_indices(own == arrays.take(score, arrays.clamp_max(end, len(score) - 1)))
    if len(again):  # may be tied with the next detection
        end[again] = items.reached(own[again], hits[again], items.edges[1:][owner[again]])
        above_or_equal[again] = arrays.below(hits, end[again])
    above = arrays.take(items.above(items.edges), owner)
    return own, above_or_equal - arrays.take(offsets, owner), items.above(end) - above, offsets


def _candidate_hits(items: Items, m: Any, criterion: ThresholdCriterion) -> tuple[Any, Any, Any, Any]:
    """Return the hits of one ranking of all classes that can be the best threshold, by descending score.

    The result has the form of :func:`_all_hits`. Counts at every n-th hit bound the value between two of them.
    """
    own, without = (order.sort(arrays.take(items.score, x)) for x in (items.hits, items.uncounted))
    edges, hits, step = items.categories, len(own), -(-len(items.hits) // _MARKS)
    marks = arrays.take(own, arrays.arange_like(-(-hits // step), edges) * step)
    lower = arrays.below(own, marks)
    ends = items.reached(marks[:, None], edges[:-1], edges[1:])
    total = (ends - edges[:-1]).sum(1)
    tp, kept = hits - lower, total - len(without) + arrays.below(without, marks)
    value, slack = _value(criterion, tp, kept, m)
    fewest = arrays.namespace(tp).maximum(tp, arrays.join(kept[1:], 0 * kept[:1]))
    some = arrays.true_indices(_value(criterion, tp, fewest, m)[0] * slack >= value.max())
    first, last = int(some[0]), int(some[-1]) + 1
    tops, above = (ends[last], int(total[last])) if last < len(marks) else (edges[:-1], 0)
    between = own[int(lower[first]) : int(lower[last]) if last < len(marks) else hits]
    every = order.sort(arrays.take(items.score, segments.members(tops, ends[first])))
    all_items = above + len(every) - arrays.below(every, between)
    counts = hits - arrays.below(own, between), all_items - len(without) + arrays.below(without, between)
    return *map(arrays.flipped, (between, *counts)), arrays.arange_like(2, lower) * len(between)


def _counts_at(items: Items, m: Any, threshold: Any) -> tuple[dict[str, Any], UnitCounts]:
    """Return the counts at (S,) thresholds, and of each image or group of images there; native."""
    ends = items.ends(threshold)
    hits, kept = arrays.take(items.hits, items.hits_before(ends)), items.before(ends)
    tp, retrieved = (lengths(items.offsets(x)) for x in (hits, kept))
    return {"tp": tp, "fp": retrieved - tp, "fn": m - tp}, counts_per_image(items, hits, kept)


@arrays.quiet
def _ratios_with_ends(
    counts: dict[str, Any], units: UnitCounts, m: Any, in_groups: bool, beta: float, confidence_level: float
) -> dict[str, Any]:
    """Return the ratios with the ends of their intervals; native."""
    at = Counts(**counts, tn=0 * m).map(segments.as_float64)
    ratios = arrays.namespace(m).stack([at.precision, at.recall, at.f_beta(beta)])
    if in_groups:
        low, high = grouped_ratio_ends(units, beta, confidence_level)
    else:
        most = segments.as_float64(arrays.namespace(m).stack([counts["tp"] + counts["fp"], m, m + counts["fp"]]))
        low, high = _ends(units, ratios, most, beta, confidence_level)
    rows = (row for rows in zip(ratios, low, high, strict=True) for row in rows)
    return dict(zip(_RATIO_NAMES, rows, strict=True))


def _ends(images: UnitCounts, estimates: Any, most: Any, beta: float, confidence_level: float) -> tuple[Any, Any]:
    """Return the (3, S) lower and upper ends of the three ratios a / b of sums over images, by the delta method.

    Wilson's interval uses the number of trials with the variance of a / b, but at most the number of items, (3, S), and
    the quantile of Student's t with one degree of freedom less than images with any b.
    """
    offsets, tp, xp = images.offsets, images.tp, arrays.namespace(estimates)
    denominators = images.denominators(beta)
    each = arrays.repeat(estimates, lengths(offsets))

    def total(rows: Iterable[Any]) -> Any:
        return xp.stack([segments.total(row, offsets) for row in rows])

    some = total(segments.as_float64(b > 0) for b in denominators)
    whole = arrays.join(most[:2], total(denominators[2:]))
    residual = total((tp - ratio * b) ** 2 for ratio, b in zip(each, denominators, strict=True))
    return ratio_ends(estimates, residual, whole, some, most, confidence_level)


def ratio_ends(
    estimates: Any, residual: Any, whole: Any, some: Any, most: Any, confidence_level: float
) -> tuple[Any, Any]:
    """Return the lower and upper ends of ratios of sums over images.

    Args:
        estimates: the ratios a / b.
        residual: sums of (a - ratio b)^2 over images.
        whole: sums of b.
        some: numbers of images with any b.
        most: largest numbers of trials.
        confidence_level: nominal coverage.
    """
    xp = arrays.namespace(estimates)
    variance = residual / whole**2 * (some / (some - 1))
    inner = estimates * (1 - estimates)
    trials = xp.minimum(xp.where((variance > 0) & (inner > 0), inner / variance, torch.inf), most)
    return wilson(estimates, trials, _quantiles(confidence_level, some - 1))


def _quantiles(confidence_level: float, df: Any) -> Any:
    """Return the quantiles of Student's t for whole degrees of freedom, of many NumPy values from a table."""
    if isinstance(df, Tensor) or df.size <= df.max(initial=0):
        return student_quantile(confidence_level, df)
    each: Any = student_quantile(confidence_level, np.arange(df.max(initial=0) + 1))
    return each[np.maximum(df, 0).astype(np.int64)]


def _reason(columns: dict[str, Any], m: Any, unreached: str, one_unit: str) -> str:
    """Return the reasons for missing numbers, with the number of classes."""
    missing, no_ends = (arrays.namespace(m).isnan(columns[x]) for x in ("threshold", "precision_low"))
    no_ends, without = no_ends | arrays.namespace(m).isnan(columns["recall_low"]), m == 0
    cases = (
        (without, "no ground truths"),
        (missing & ~without, unreached),
        (no_ends & ~missing & ~without, one_unit),
    )
    texts = [(count, text) for flags, text in cases if (count := arrays.count(flags))]
    return "; ".join(f"{count} of {len(m)} classes: {text}" if len(m) > 1 else text for count, text in texts)


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
