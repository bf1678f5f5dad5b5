"""Operating points of a detector: the score threshold of each class, and its numbers with intervals over images.

All numbers are computed from the matches at one IoU threshold. A detection is matched before detections of lower score,
so a threshold does not change the matches above it. The best threshold is the score of a true positive, because lower
thresholds up to the next one only add false positives; no other thresholds are tried.

Detections and ground truths that count at one IoU threshold, as rankings to cut at scores, and counts per image.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.measures.counts import Counts
from torch_ap.core.ranking import order, segments
from torch_ap.detection.matching.matched import Matches
from torch_ap.inference.operating_point import CutNumbers, ThresholdCriterion
from torch_ap.inference.record import student_quantile, wilson

_FEW_BITS = 1 << 29  # cells with 4 times their number in int32, which takes half the time to sort


@dataclass(frozen=True, eq=False)
class Items:
    """Detections in order of category and descending score, and ground truths, as S rankings: K, or one of all.

    All values are native.

    Attributes:
        matches: the matches of the N detections.
        score: (N,) scores for the comparison with thresholds.
        categories: (K + 1,) offsets of the detections of each category.
        edges: (S + 1,) offsets of the detections of each ranking.
        hits: (H,) indices of the true positives, ascending.
        uncounted: (U,) indices of the detections that do not count, ascending.
    """

    matches: Matches
    score: Any
    categories: Any
    edges: Any
    hits: Any
    uncounted: Any

    @property
    def rankings(self) -> int:
        """The number of rankings S."""
        return len(self.edges) - 1

    @cached_property
    def truths(self) -> Any:
        """(M,) indices of the ground truths that count."""
        return arrays.places(native(self.matches.valid)[0])

    @property
    def n(self) -> Any:
        """(S,) numbers of detections that count in each ranking."""
        return lengths(self.above(self.edges))

    @property
    def m(self) -> Any:
        """(S,) numbers of ground truths that count in each ranking."""
        counts = native(self.matches.relevant)[0]
        return counts if self.rankings == len(counts) else arrays.whole_sum(counts)

    def above(self, places: Any) -> Any:
        """Return the numbers of detections that count before each of these ascending indices."""
        if len(places) <= len(self.uncounted):
            return places - arrays.below(self.uncounted, places)
        first = arrays.below(places, self.uncounted + 1)  # the first index after each uncounted detection
        return places - segments.count(first, len(places) + 1)[:-1].cumsum(0)

    def offsets(self, places: Any) -> Any:
        """Return the (S + 1,) offsets of the rankings in some of the detections, ascending."""
        return arrays.below(places, self.edges)

    def reached(self, least: Any, first: Any, ends: Any) -> Any:
        """Return the ends of the detections with at least a score, between two indices of a category.

        Scores descend there, so the number of detections is determined bit by bit.
        """
        xp = arrays.namespace(first)
        for bit in reversed(range(int((ends - first).max()).bit_length())):
            further = first + (1 << bit)
            inside = (further <= ends) & (self.score[arrays.at_most(further, len(self.score)) - 1] >= least)
            first = xp.where(inside, further, first)
        return first

    def ends(self, least: Any) -> Any:
        """Return the (K,) ends of the detections with at least the score, with one threshold or one per category."""
        return self.reached(least, self.categories[:-1], self.categories[1:])

    def hits_before(self, ends: Any) -> Any:
        """Return which of the hits are before the ends of their categories, ascending."""
        per_category = lengths(arrays.below(self.hits, self.categories))
        return arrays.places(self.hits < arrays.repeat(ends, per_category))

    def before(self, ends: Any) -> Any:
        """Return all detections that count before the ends of their categories, ascending."""
        every = segments.members(self.categories[:-1], ends)
        if not len(self.uncounted) or not len(every):
            return every
        counted, places = arrays.full(len(every), True, every[:0] == 0), arrays.below(every, self.uncounted)
        counted[places[arrays.take(every, arrays.at_most(places, len(every) - 1)) == self.uncounted]] = False
        return arrays.take(every, arrays.places(counted))


class ImageCounts(NamedTuple):
    """Counts of the X pairs of a ranking and an image with any object; native.

    Attributes:
        offsets: (S + 1,) offsets of the images of each ranking.
        tp, n, m: (X,) float64 numbers of true positives, detections and ground truths.
    """

    offsets: Any
    tp: Any
    n: Any
    m: Any


def lengths(offsets: Any) -> Any:
    """Return the (S,) differences of (S + 1,) offsets, native."""
    return offsets[1:] - offsets[:-1]


def items_of(matches: Matches, place: int, per_class: bool) -> Items:
    """Return the items at one IoU threshold, in one ranking per category or one of all."""
    _, hits, uncounted = map(native, matches.events(0, place))
    categories = native(matches.edges)
    return Items(
        matches=matches,
        score=native(segments.comparable(matches.ranked.score)),
        categories=categories,
        edges=categories if per_class else categories[[0, -1]],
        hits=hits,
        uncounted=uncounted,
    )


def counts_per_image(items: Items, hits: Any, kept: Any) -> ImageCounts:
    """Return the counts of each image in each ranking.

    Args:
        items: the detections.
        hits: (H,) indices of the chosen true positives, ascending, native.
        kept: (X,) indices of all chosen detections, ascending.
    """
    matches = items.matches
    n = arrays.take(native(matches.ranked.group), kept) // matches.categories
    m = arrays.take(native(matches.truth_group), items.truths) // matches.categories
    images = max((int(x.max()) + 1 for x in (n, m) if len(x)), default=1)
    starts = arrays.steps(items.rankings + 1, n) * images
    if items.rankings > 1:  # the cells of rankings, one per image, are consecutive
        n += arrays.repeat(starts[:-1], lengths(items.offsets(kept)))
        m += arrays.take(native(matches.truth_category), items.truths) * images
    hit = arrays.full(len(items.score), False, n[:0] == 0)
    hit[hits] = True
    cell, *counts = _cells(n, arrays.take(hit, kept), m, items.rankings * images)
    return ImageCounts(arrays.below(cell, starts), *map(segments.as_float64, counts))


def _cells(n: Any, hit: Any, m: Any, many: int) -> tuple[Any, ...]:
    """Return the (X,) non-empty cells, ascending, with their true positives, detections and ground truths.

    Args:
        n: the cells of the detections, native.
        hit: flags of the true positives among them.
        m: the cells of the ground truths.
        many: the number of cells.
    """
    if many <= len(n) + len(m):
        counts = [segments.count(x, many) for x in (arrays.take(n, arrays.places(hit)), n, m)]
        some = arrays.places((counts[1] > 0) | (counts[2] > 0))
        return some, *(arrays.take(x, some) for x in counts)
    keys = arrays.joined(n, m) * 4
    keys[: len(n)] += hit
    keys[len(n) :] += 2
    keys = arrays.tensor(keys)
    keys = native(order.sort(keys if many > _FEW_BITS else keys.to(torch.int32)))
    group, kind = keys >> 2, keys & 3
    start, both = segments.runs(group)
    ends = arrays.joined(start, arrays.full(1, len(keys), start))
    tp, truths = (lengths(arrays.take(segments.running_counts(kind == x), ends)) for x in (1, 2))
    return arrays.take(group, start), tp, both - truths, truths


_METHOD = "delta-wilson"
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


def operating_points(
    matches: Matches,
    place: int,
    choice: ThresholdCriterion | Tensor,
    *,
    labels: Tensor,
    names: list[str],
    beta: float,
    per_class: bool,
    confidence_level: float,
) -> OperatingPoints:
    """Return the operating points at one IoU threshold.

    Args:
        matches: the matches by COCO's or VOC's rule, in the first area range.
        place: index of the IoU threshold.
        choice: the criterion of the thresholds, or fixed thresholds from ``score_thresholds``.
        labels: (K,) labels of the categories.
        names: names of the categories.
        beta: weight of recall in F.
        per_class: whether each category has its own threshold.
        confidence_level: nominal coverage.
    """
    items = items_of(matches, place, per_class)
    m, kept = items.m, len(labels) if per_class else 1  # without labels there is still one category
    chosen = isinstance(choice, ThresholdCriterion)
    threshold = _best(items, m, choice) if isinstance(choice, ThresholdCriterion) else _each(native(choice), len(m))
    numbers = {"threshold": threshold, **_numbers_at(items, m, threshold, beta, confidence_level), "n": items.n}
    missing = threshold != threshold
    if chosen and arrays.some(missing):
        for name in _RATIO_NAMES:
            numbers[name] = arrays.namespace(missing).where(missing, torch.nan, numbers[name])
    reason = _reason({name: x[:kept] for name, x in numbers.items()}, m[:kept], choice)
    columns = {name: arrays.tensor(x)[:kept] if per_class else arrays.tensor(x)[0] for name, x in numbers.items()}
    dtype = matches.ranked.score.dtype
    if chosen and dtype.is_floating_point:
        columns["threshold"] = columns["threshold"].to(dtype)
    settings: dict[str, Any] = {"beta": beta, "confidence_level": confidence_level, "method": _METHOD}
    return OperatingPoints(**{**columns, **settings}, labels=labels, names=names, reason=reason)


def _each(threshold: Any, rankings: int) -> Any:
    """Return (S,) thresholds from a 0-d or (S,) threshold."""
    return threshold if threshold.ndim else arrays.full(rankings, threshold.item(), threshold)


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
    equal = arrays.places((value * slack >= best) & (best > -torch.inf))
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
    end, above_or_equal = hits + 1, arrays.steps(len(hits), hits) + 1
    again = arrays.places(own == arrays.take(score, arrays.at_most(end, len(score) - 1)))
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
    marks = arrays.take(own, arrays.steps(-(-hits // step), edges) * step)
    lower = arrays.below(own, marks)
    ends = items.reached(marks[:, None], edges[:-1], edges[1:])
    total = (ends - edges[:-1]).sum(1)
    tp, kept = hits - lower, total - len(without) + arrays.below(without, marks)
    value, slack = _value(criterion, tp, kept, m)
    fewest = arrays.namespace(tp).maximum(tp, arrays.joined(kept[1:], 0 * kept[:1]))
    some = arrays.places(_value(criterion, tp, fewest, m)[0] * slack >= value.max())
    first, last = int(some[0]), int(some[-1]) + 1
    tops, above = (ends[last], int(total[last])) if last < len(marks) else (edges[:-1], 0)
    between = own[int(lower[first]) : int(lower[last]) if last < len(marks) else hits]
    every = order.sort(arrays.take(items.score, segments.members(tops, ends[first])))
    all_items = above + len(every) - arrays.below(every, between)
    counts = hits - arrays.below(own, between), all_items - len(without) + arrays.below(without, between)
    return *map(arrays.flipped, (between, *counts)), arrays.steps(2, lower) * len(between)


@arrays.quiet
def _numbers_at(items: Items, m: Any, threshold: Any, beta: float, confidence_level: float) -> dict[str, Any]:
    """Return the counts at (S,) thresholds, and the ratios with the ends of their intervals; native."""
    ends, xp = items.ends(threshold), arrays.namespace(threshold)
    hits, kept = arrays.take(items.hits, items.hits_before(ends)), items.before(ends)
    tp, retrieved = (lengths(items.offsets(x)) for x in (hits, kept))
    counts = {"tp": tp, "fp": retrieved - tp, "fn": m - tp}
    at = Counts(**counts, tn=0 * tp).map(segments.as_float64)
    ratios = xp.stack([at.precision, at.recall, at.f_beta(beta)])
    most = segments.as_float64(xp.stack([retrieved, m, retrieved + m - tp]))
    low, high = _ends(counts_per_image(items, hits, kept), ratios, most, beta, confidence_level)
    rows = (row for rows in zip(ratios, low, high, strict=True) for row in rows)
    return {**dict(zip(_RATIO_NAMES, rows, strict=True)), **counts}


def _ends(images: ImageCounts, estimates: Any, most: Any, beta: float, confidence_level: float) -> tuple[Any, Any]:
    """Return the (3, S) lower and upper ends of the three ratios a / b of sums over images, by the delta method.

    Wilson's interval uses the number of trials with the variance of a / b, but at most the number of items, (3, S), and
    the quantile of Student's t with one degree of freedom less than images with any b.
    """
    offsets, tp, n, m = images
    share, xp = beta**2 / (1 + beta**2) if beta < 1 else 1 / (1 + beta**-2), arrays.namespace(tp)
    denominators = n, m, share * m + (1 - share) * n
    each = arrays.repeat(estimates, lengths(offsets))

    def total(rows: Iterable[Any]) -> Any:
        return xp.stack([segments.total(row, offsets) for row in rows])

    some = total(segments.as_float64(b > 0) for b in denominators)
    whole = arrays.joined(most[:2], total(denominators[2:]))
    residual = total((tp - ratio * b) ** 2 for ratio, b in zip(each, denominators, strict=True))
    variance = residual / whole**2 * (some / (some - 1))
    inner = estimates * (1 - estimates)
    trials = xp.minimum(xp.where((variance > 0) & (inner > 0), inner / variance, torch.inf), most)
    return wilson(estimates, trials, student_quantile(confidence_level, some - 1))


def _reason(columns: dict[str, Any], m: Any, choice: ThresholdCriterion | Tensor) -> str:
    """Return the reasons for missing numbers, with the number of classes."""
    missing, no_ends = (arrays.namespace(m).isnan(columns[x]) for x in ("threshold", "precision_low"))
    no_ends, without = no_ends | arrays.namespace(m).isnan(columns["recall_low"]), m == 0
    cases = (
        (without, "no ground truths"),
        (
            missing & ~without,
            choice.unreached.partition(":")[0] if isinstance(choice, ThresholdCriterion) else "no threshold",
        ),
        (no_ends & ~missing & ~without, "no detection is chosen, or all are in one image, which has no spread"),
    )
    texts = [(count, text) for flags, text in cases if (count := arrays.count(flags))]
    return "; ".join(f"{count} of {len(m)} classes: {text}" if len(m) > 1 else text for count, text in texts)
