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

from torch_ap.analysis.cut_items import Items, OfImages, items_of, of_images
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
_RATIOS = ("precision", "recall", "f_beta")


@dataclass(frozen=True, eq=False, repr=False)
class OperatingPoints(CutNumbers):
    """What the detections that score at least a threshold give: (K,) each, or 0-d of one threshold for all classes.

    Attributes:
        threshold: the score, in the dtype of the scores, or, where it was given, at least float32: those with
            ``scores >= threshold`` are kept; NaN where no threshold does what is wanted, and nothing is: tp and fp are
            0 there.
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
    m = items.of_rankings(matches.relevant[0])
    threshold = _best(items, m, choice) if isinstance(choice, Wanted) else choice.repeat(1 if choice.ndim else len(m))
    numbers = {"threshold": threshold, **_at(items, m, threshold, beta, confidence_level)}
    numbers["n"] = items.n
    chosen = ~torch.isnan(threshold)
    if isinstance(choice, Wanted) and not bool(chosen.all()):
        numbers |= {name: torch.where(chosen, x, torch.nan) for name, x in numbers.items() if x.is_floating_point()}
    kept = len(labels) if per_class else 1  # without labels there is a category all the same
    numbers = {name: x[:kept] if per_class else x[0] for name, x in numbers.items()}
    settings: dict[str, Any] = {"beta": beta, "confidence_level": confidence_level, "method": _METHOD}
    reason = _reason(numbers, m[:kept], choice)
    return OperatingPoints(**{**numbers, **settings}, labels=labels, names=names, reason=reason)


def _best(items: Items, m: Tensor, wanted: Wanted) -> Tensor:
    """(S,) the score of the best threshold of each ranking; NaN where there is none.

    Args:
        items: the detections.
        m: (S,) ground truths.
        wanted: what it is chosen for.
    """
    given = items.matches.ranked.score[:0]
    out = items.score.new_full((len(m),), torch.nan, dtype=given.dtype if given.is_floating_point() else None)
    if not len(items.hits):
        return out
    in_order = items.rankings == items.matches.categories  # of score in each ranking
    score, tp, kept, offsets = _of_hits(items) if in_order else _of_all_hits(items, m, wanted)
    ranking = segments.ids(offsets)
    value, slack = _value(wanted, tp, kept, m.index_select(0, ranking))
    best = segments.repeat(segments.maximum(value, offsets), offsets.diff())
    equal = arrays.places((native(value) * slack >= native(best)) & (native(best) > -torch.inf))
    equal = arrays.tensor(equal)
    if wanted.recall is not None:
        equal = equal.flip(0)
    equal = equal[segments.run_starts(ranking[equal])]
    return out.index_copy_(0, ranking[equal], score[equal].to(out.dtype))


def _value(wanted: Wanted, tp: Tensor, kept: Tensor, m: Tensor) -> tuple[Tensor, float]:
    return wanted.value(_floats(tp=tp, fp=kept - tp, fn=m - tp, tn=torch.zeros_like(tp)), weighted=False)


def _of_hits(items: Items) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The scores of the hits, how many hits and items of their ranking have these or higher ones, and their offsets."""
    offsets = items.offsets(items.hits)
    hits, score, edges, owner = map(native, (items.hits, items.score, items.edges, segments.ids(offsets)))
    own, end, found = score[hits], hits + 1, arrays.steps(len(hits), hits) + 1
    again = arrays.places(own == score[arrays.at_most(end, len(score) - 1)])
    if len(again):  # perhaps tied with the next one
        end[again] = items.reached(own[again], hits[again], edges[1:][owner[again]])
        found[again] = arrays.below(hits, end[again])
    tp, kept = found - native(offsets)[owner], items.above(end) - items.above(edges)[owner]
    return arrays.tensor(own), arrays.tensor(tp), arrays.tensor(kept), offsets


def _of_all_hits(items: Items, m: Tensor, wanted: Wanted) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same of one ranking of all, the best first, of those hits alone among which the best threshold is.

    At every so many hits it is known what there is, and so between two of them how good it is at most.
    """
    own, without = (native(order.sort(items.score.index_select(0, x))) for x in (items.hits, items.uncounted))
    edges, hits = native(items.matches.edges), len(own)
    marks = own[:: -(-hits // _MARKS)]
    lower = arrays.below(own, marks)
    ends = items.reached(marks[:, None], edges[:-1], edges[1:])
    total = (ends - edges[:-1]).sum(1)
    tp, kept = map(arrays.tensor, (hits - lower, total - len(without) + arrays.below(without, marks)))
    value, slack = _value(wanted, tp, kept, m)
    most = _value(wanted, tp, torch.maximum(tp, torch.cat([kept[1:], kept.new_zeros(1)])), m)[0]
    some = arrays.places(native(most) * slack >= native(value.max()))
    first, last = int(some[0]), int(some[-1]) + 1
    tops, above = (ends[last], int(total[last])) if last < len(marks) else (edges[:-1], 0)
    low, high = int(lower[first]), int(lower[last]) if last < len(marks) else hits
    every = native(order.sort(arrays.tensor(native(items.score)[segments.members(tops, ends[first])])))
    own_lower = arrays.below(own, own[low:high])
    all_of = above + len(every) - arrays.below(every, own[low:high])
    kept = arrays.tensor(all_of - len(without) + arrays.below(without, own[low:high])).flip(0)
    found = arrays.tensor(own[low:high]).flip(0), arrays.tensor(hits - own_lower).flip(0)
    return *found, kept, kept.new_tensor([0, len(kept)])


def _at(items: Items, m: Tensor, threshold: Tensor, beta: float, confidence_level: float) -> dict[str, Tensor]:
    """What (S,) thresholds give: counts, and the ratios with their ends."""
    right, counted = items.kept(segments.comparable(threshold))
    hits, kept = items.hits.index_select(0, right), segments.places(counted)
    tp, retrieved = (items.offsets(x).diff() for x in (hits, kept))
    counts = {"tp": tp, "fp": retrieved - tp, "fn": m - tp}
    at = _floats(**counts, tn=torch.zeros_like(tp))
    ratios = torch.stack([at.precision, at.recall, at.f_beta(beta)])
    most = segments.as_float64(torch.stack([retrieved, m, retrieved + m - tp]))
    low, high = _ends(of_images(items, hits, kept), ratios, most, beta, confidence_level)
    rows = zip(_RATIOS, ratios, low, high, strict=True)
    named = {f"{name}{end}": x for name, *row in rows for end, x in zip(("", "_low", "_high"), row, strict=True)}
    return {**named, **counts}


def _ends(
    images: OfImages, estimates: Tensor, most: Tensor, beta: float, confidence_level: float
) -> tuple[Tensor, Tensor]:
    """(3, S) lower and upper ends of the three ratios, each of which is a / b with sums over images: the delta method.

    Wilson's interval takes the number of trials that has the variance of a / b, at most that of the items, (3, S), and
    the quantile of Student's t with as many degrees of freedom as images have any of b, less one.
    """
    offsets, tp, n, m = map(native, images)
    share = beta**2 / (1 + beta**2) if beta < 1 else 1 / (1 + beta**-2)
    denominators = n, m, share * m + (1 - share) * n
    each = arrays.repeat(native(estimates), offsets[1:] - offsets[:-1])

    def total(rows: Iterable[Any]) -> Tensor:
        return torch.stack([arrays.tensor(segments.total(row, offsets)) for row in rows])

    some = total(segments.as_float64(b > 0) for b in denominators)
    whole = torch.cat([most[:2], total(denominators[2:])])
    residual = total((tp - ratio * b) ** 2 for ratio, b in zip(each, denominators, strict=True))
    variance = residual / whole.square() * (some / (some - 1))
    inner = estimates * (1 - estimates)
    trials = torch.where((variance > 0) & (inner > 0), inner / variance, torch.inf).minimum(most)
    return wilson(estimates, trials, student_quantile(confidence_level, some - 1))


def _reason(found: dict[str, Tensor], m: Tensor, choice: Wanted | Tensor) -> str:
    """Why numbers are missing, of how many classes."""
    missing, without = torch.isnan(found["threshold"]), m == 0
    no_ends = torch.isnan(found["precision_low"]) | torch.isnan(found["recall_low"])
    told = (
        (without, "no ground truths"),
        (missing & ~without, choice.unreached.partition(":")[0] if isinstance(choice, Wanted) else "no threshold"),
        (no_ends & ~missing & ~without, "nothing is kept, or all stands in one image, which has no spread"),
    )
    said = [(int(flags.sum()), text) for flags, text in told if bool(flags.any())]
    return "; ".join(f"{count} of {len(m)} classes: {text}" if len(m) > 1 else text for count, text in said)


def _floats(**counts: Tensor) -> Counts:
    return Counts(**{name: segments.as_float64(x) for name, x in counts.items()})
