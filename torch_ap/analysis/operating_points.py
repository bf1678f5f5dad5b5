"""Where to cut a detector: the score threshold of each class, and what it gives, with intervals over images.

Everything is read off the matches at one IoU threshold: a detection chooses its ground truth before those that score
less, so that what a threshold leaves is matched as it was. The best threshold is the score of a true positive, as from
there to the next one there are only more false ones: no others are tried.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.analysis.cut_items import Items, OfImages, items_of, lengths, of_images
from torch_ap.curve.counts import Counts
from torch_ap.inference.interval import wilson
from torch_ap.inference.operating_point import CutNumbers, Wanted
from torch_ap.inference.student import student_quantile
from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_METHOD = "delta-wilson"
_MARKS = 64  # hits at which one looks first for the best threshold of all classes
_OF_RATIOS = [f"{name}{end}" for name in ("precision", "recall", "f_beta") for end in ("", "_low", "_high")]


@dataclass(frozen=True, eq=False, repr=False)
class OperatingPoints(CutNumbers):
    """What the detections that score at least a threshold give: (K,) each, or 0-d of one threshold for all classes.

    Attributes:
        threshold: the score, in the dtype of the scores, or, where it was given, at least float32; float64 of integers:
            those with ``scores >= threshold`` are kept; NaN where no threshold does what is wanted, and nothing is: tp
            and fp are 0 there.
        precision: tp / (tp + fp).
        precision_low: lower end of its interval; NaN where none exists.
        precision_high: upper end.
        recall: tp / (tp + fn).
        recall_low: lower end.
        recall_high: upper end.
        f_beta: F_beta.
        f_beta_low: lower end.
        f_beta_high: upper end.
        tp: int64, true positives.
        fp: false positives.
        fn: ground truths that are not found.
        n: detections of any score.
        labels: (K,) int64, the labels that occur.
        names: of the labels.
        beta: of F: recall counts beta times as much as precision.
        confidence_level: nominal coverage of each interval.
        method: how they were found.
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
    choice: Wanted | Tensor,
    *,
    labels: Tensor,
    names: list[str],
    beta: float,
    per_class: bool,
    confidence_level: float,
) -> OperatingPoints:
    """The operating points at one IoU threshold.

    Args:
        matches: of COCO's or VOC's rule, in the first area range.
        place: which IoU threshold.
        choice: what thresholds are chosen for; or those that are given, as of ``score_thresholds``.
        labels: (K,) of the categories.
        names: theirs.
        beta: of F.
        per_class: whether each category has a threshold of its own.
        confidence_level: nominal coverage.
    """
    items = items_of(matches, place, per_class)
    m, kept = items.m, len(labels) if per_class else 1  # without labels there is a category all the same
    chosen = isinstance(choice, Wanted)
    threshold = _best(items, m, choice) if isinstance(choice, Wanted) else _each(native(choice), len(m))
    numbers = {"threshold": threshold, **_at(items, m, threshold, beta, confidence_level), "n": items.n}
    missing = threshold != threshold
    if chosen and arrays.some(missing):
        for name in _OF_RATIOS:
            numbers[name] = arrays.namespace(missing).where(missing, torch.nan, numbers[name])
    reason = _reason({name: x[:kept] for name, x in numbers.items()}, m[:kept], choice)
    found = {name: arrays.tensor(x)[:kept] if per_class else arrays.tensor(x)[0] for name, x in numbers.items()}
    given = matches.ranked.score.dtype
    if chosen and given.is_floating_point:
        found["threshold"] = found["threshold"].to(given)
    settings: dict[str, Any] = {"beta": beta, "confidence_level": confidence_level, "method": _METHOD}
    return OperatingPoints(**{**found, **settings}, labels=labels, names=names, reason=reason)


def _each(threshold: Any, rankings: int) -> Any:
    """(S,) of one for all, 0-d, or of (S,)."""
    return threshold if threshold.ndim else arrays.full(rankings, threshold.item(), threshold)


@arrays.quiet
def _best(items: Items, m: Any, wanted: Wanted) -> Any:
    """(S,) the score of the best threshold of each ranking, native; NaN where there is none.

    Args:
        items: the detections.
        m: (S,) ground truths.
        wanted: what it is chosen for.
    """
    out = arrays.full(len(m), torch.nan, items.score)
    if not len(items.hits):
        return out
    in_order = items.rankings == items.matches.categories  # of score in each ranking
    score, tp, kept, offsets = _of_hits(items) if in_order else _of_all_hits(items, m, wanted)
    ranking = segments.ids(offsets)
    value, slack = _value(wanted, tp, kept, arrays.take(m, ranking))
    best = arrays.repeat(segments.maximum(value, offsets), lengths(offsets))
    equal = arrays.places((value * slack >= best) & (best > -torch.inf))
    first, times = segments.runs(ranking[equal])
    equal = equal[first if wanted.recall is None else first + times - 1]
    out[ranking[equal]] = score[equal]
    return out


def _value(wanted: Wanted, tp: Any, kept: Any, m: Any) -> tuple[Any, float]:
    tp, kept, m = map(segments.as_float64, (tp, kept, m))
    return wanted.value(Counts(tp=tp, fp=kept - tp, fn=m - tp, tn=0 * tp), weighted=False)


def _of_hits(items: Items) -> tuple[Any, Any, Any, Any]:
    """The scores of the hits, how many hits and items of their ranking have these or higher ones, and their offsets."""
    hits, score, offsets = items.hits, items.score, items.offsets(items.hits)
    owner, own = segments.ids(offsets), arrays.take(score, hits)
    end, found = hits + 1, arrays.steps(len(hits), hits) + 1
    again = arrays.places(own == arrays.take(score, arrays.at_most(end, len(score) - 1)))
    if len(again):  # perhaps tied with the next one
        end[again] = items.reached(own[again], hits[again], items.edges[1:][owner[again]])
        found[again] = arrays.below(hits, end[again])
    above = arrays.take(items.above(items.edges), owner)
    return own, found - arrays.take(offsets, owner), items.above(end) - above, offsets


def _of_all_hits(items: Items, m: Any, wanted: Wanted) -> tuple[Any, Any, Any, Any]:
    """The same of one ranking of all, the best first, of those hits alone among which the best threshold is.

    At every so many hits it is known what there is, and so between two of them how good it is at most.
    """
    own, without = (order.sort(arrays.take(items.score, x)) for x in (items.hits, items.uncounted))
    edges, hits, step = items.categories, len(own), -(-len(items.hits) // _MARKS)
    marks = arrays.take(own, arrays.steps(-(-hits // step), edges) * step)
    lower = arrays.below(own, marks)
    ends = items.reached(marks[:, None], edges[:-1], edges[1:])
    total = (ends - edges[:-1]).sum(1)
    tp, kept = hits - lower, total - len(without) + arrays.below(without, marks)
    value, slack = _value(wanted, tp, kept, m)
    fewest = arrays.namespace(tp).maximum(tp, arrays.joined(kept[1:], 0 * kept[:1]))
    some = arrays.places(_value(wanted, tp, fewest, m)[0] * slack >= value.max())
    first, last = int(some[0]), int(some[-1]) + 1
    tops, above = (ends[last], int(total[last])) if last < len(marks) else (edges[:-1], 0)
    between = own[int(lower[first]) : int(lower[last]) if last < len(marks) else hits]
    every = order.sort(arrays.take(items.score, segments.members(tops, ends[first])))
    all_of = above + len(every) - arrays.below(every, between)
    counts = hits - arrays.below(own, between), all_of - len(without) + arrays.below(without, between)
    return *map(arrays.flipped, (between, *counts)), arrays.steps(2, lower) * len(between)


@arrays.quiet
def _at(items: Items, m: Any, threshold: Any, beta: float, confidence_level: float) -> dict[str, Any]:
    """What (S,) thresholds give: counts, and the ratios with their ends; native."""
    ends, xp = items.ends(threshold), arrays.namespace(threshold)
    hits, kept = arrays.take(items.hits, items.hits_before(ends)), items.before(ends)
    tp, retrieved = (lengths(items.offsets(x)) for x in (hits, kept))
    counts = {"tp": tp, "fp": retrieved - tp, "fn": m - tp}
    at = Counts(**counts, tn=0 * tp).map(segments.as_float64)
    ratios = xp.stack([at.precision, at.recall, at.f_beta(beta)])
    most = segments.as_float64(xp.stack([retrieved, m, retrieved + m - tp]))
    low, high = _ends(of_images(items, hits, kept), ratios, most, beta, confidence_level)
    rows = (row for rows in zip(ratios, low, high, strict=True) for row in rows)
    return {**dict(zip(_OF_RATIOS, rows, strict=True)), **counts}


def _ends(images: OfImages, estimates: Any, most: Any, beta: float, confidence_level: float) -> tuple[Any, Any]:
    """(3, S) lower and upper ends of the three ratios, each of which is a / b with sums over images: the delta method.

    Wilson's interval takes the number of trials that has the variance of a / b, at most that of the items, (3, S), and
    the quantile of Student's t with as many degrees of freedom as images have any of b, less one.
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


def _reason(found: dict[str, Any], m: Any, choice: Wanted | Tensor) -> str:
    """Why numbers are missing, of how many classes."""
    missing, no_ends = (arrays.namespace(m).isnan(found[x]) for x in ("threshold", "precision_low"))
    no_ends, without = no_ends | arrays.namespace(m).isnan(found["recall_low"]), m == 0
    told = (
        (without, "no ground truths"),
        (missing & ~without, choice.unreached.partition(":")[0] if isinstance(choice, Wanted) else "no threshold"),
        (no_ends & ~missing & ~without, "nothing is kept, or all stands in one image, which has no spread"),
    )
    said = [(count, text) for flags, text in told if (count := arrays.count(flags))]
    return "; ".join(f"{count} of {len(m)} classes: {text}" if len(m) > 1 else text for count, text in said)
