"""Where to cut a detector: the score threshold of each class, and what it gives, with intervals over images.

Everything is read off the matches at one IoU threshold: a detection chooses its ground truth before those that score
less, so that what a threshold leaves is matched as it was. The best threshold is the score of a true positive, as from
there to the next one there are only more false ones: no others are tried.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.curve.counts import Counts
from torch_ap.inference.interval import wilson
from torch_ap.inference.operating_point import CutNumbers, Wanted
from torch_ap.inference.student import student_quantile
from torch_ap.matching.candidate_pairs import descending
from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_METHOD = "delta-wilson"
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


class _Items(NamedTuple):
    """Detections in order of category and descending score, and ground truths, as S rankings: K, or one of all.

    Attributes:
        score: (N,) of the detections.
        group: (N,) image * K + category of each.
        ranking: (N,) of each, non-decreasing.
        edges: (S + 1,) where the detections of each ranking begin and end.
        counted: (N,) bool, which of them count.
        hits: (H,) the true positives among them, ascending.
        hit_ranking: (H,) the ranking of each.
        truths: (M,) the group of each ground truth that counts.
        truth_ranking: (M,) its ranking.
        size: K.
    """

    score: Tensor
    group: Tensor
    ranking: Tensor
    edges: Tensor
    counted: Tensor
    hits: Tensor
    hit_ranking: Tensor
    truths: Tensor
    truth_ranking: Tensor
    size: int

    @property
    def rankings(self) -> int:
        """S."""
        return len(self.edges) - 1

    def number_of(self, places: Tensor) -> Tensor:
        """(S,) how many of these detections each ranking has."""
        return segments.count(self.ranking[places], self.rankings)


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
    items = _items_of(matches, place, per_class)
    m = segments.count(items.truth_ranking, items.rankings)
    above = segments.running_counts(items.counted)
    threshold = (
        _best(items, above, m, choice) if isinstance(choice, Wanted) else choice.repeat(1 if choice.ndim else len(m))
    )
    numbers = {"threshold": threshold, **_at(items, m, threshold, beta, confidence_level)}
    numbers["n"] = above[items.edges].diff().to(torch.int64)
    if isinstance(choice, Wanted):
        chosen = ~torch.isnan(threshold)
        numbers |= {name: torch.where(chosen, x, torch.nan) for name, x in numbers.items() if x.is_floating_point()}
    kept = len(labels) if per_class else 1  # without labels there is a category all the same
    numbers = {name: x[:kept] if per_class else x[0] for name, x in numbers.items()}
    settings: dict[str, Any] = {"beta": beta, "confidence_level": confidence_level, "method": _METHOD}
    reason = _reason(numbers, m[:kept], choice)
    return OperatingPoints(**{**numbers, **settings}, labels=labels, names=names, reason=reason)


def _items_of(matches: Matches, place: int, per_class: bool) -> _Items:
    """What counts at one IoU threshold."""
    (hits, found), ranked, size = matches.events(0, place), matches.ranked, matches.categories
    counted = matches.inside[0].index_fill(0, found, False).index_fill_(0, hits, True)
    truths = matches.truth_group.index_select(0, segments.places(matches.valid[0]))
    rankings = size if per_class else 1
    edges = torch.arange(rankings + 1, device=hits.device)
    ranking, of_truths = ranked.category, arrays.tensor(native(truths) % size)
    if not per_class:
        ranking, of_truths = torch.zeros_like(ranking), torch.zeros_like(truths)
    edges = torch.searchsorted(ranking, edges)
    return _Items(
        ranked.score,
        ranked.group,
        ranking,
        edges,
        counted,
        hits,
        ranking.index_select(0, hits),
        truths,
        of_truths,
        size,
    )


def _best(items: _Items, above: Tensor, m: Tensor, wanted: Wanted) -> Tensor:
    """(S,) the score of the best threshold of each ranking; NaN where there is none.

    Args:
        items: the detections.
        above: (N + 1,) how many of those before each count.
        m: (S,) ground truths.
        wanted: what it is chosen for.
    """
    score = items.score if items.score.is_floating_point() else segments.as_float64(items.score)
    out = score.new_full((len(m),), torch.nan)
    if not len(items.hits):
        return out
    in_order = items.size == items.rankings  # of score in each ranking
    hits, ranking, tp, kept = _of_hits(items, above) if in_order else _of_all_hits(items)
    offsets = segments.from_counts(segments.count(ranking, items.rankings))
    counts = _floats(tp=tp, fp=kept - tp, fn=m.index_select(0, ranking) - tp, tn=torch.zeros_like(tp))
    value, slack = wanted.value(counts, weighted=False)
    best = segments.repeat(segments.maximum(value, offsets), offsets.diff())
    equal = segments.places((value * slack >= best) & (best > -torch.inf))
    if wanted.recall is not None:
        equal = equal.flip(0)
    equal = equal[segments.run_starts(ranking[equal])]
    return out.index_copy_(0, ranking[equal], score[hits[equal]])


def _of_hits(items: _Items, above: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The hits, their rankings, and how many hits and items of these have their score or a higher one."""
    hits, score, ranking = items.hits, items.score, items.hit_ranking
    after = (hits + 1).clamp_(max=len(score) - 1)
    tied = (score.index_select(0, after) == score.index_select(0, hits)) & (after > hits)
    tied = segments.places(tied & (items.ranking.index_select(0, after) == ranking))
    end, found = hits, torch.arange(1, len(hits) + 1, device=hits.device)
    if len(tied):
        last = torch.ones_like(items.counted)
        torch.ne(score[1:], score[:-1], out=last[:-1])
        last[items.edges[1:-1] - 1] = True
        last, one = segments.places(last), hits.index_select(0, tied)
        one = last.index_select(0, torch.searchsorted(last, one))
        end = hits.index_copy(0, tied, one)
        found[tied] = torch.searchsorted(hits, one, right=True)
    before = torch.searchsorted(hits, items.edges).index_select(0, ranking)
    first = above.index_select(0, items.edges).index_select(0, ranking)
    return hits, ranking, found - before, (above.index_select(0, end + 1) - first).long()


def _of_all_hits(items: _Items) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same of one ranking of all, the best first."""
    score = order.sortable(items.score)
    hits = items.hits.index_select(
        0, order.stable_argsort(descending(items.score.index_select(0, items.hits)), 1 << 32)
    )
    query = score.index_select(0, hits).flip(0)  # ascending, which is searched for twice as fast
    all_of = query, order.sort(score.index_select(0, segments.places(items.counted)))
    tp, kept = (len(x) - arrays.tensor(arrays.below(native(x), native(query))).flip(0) for x in all_of)
    return hits, items.hit_ranking, tp, kept


def _at(items: _Items, m: Tensor, threshold: Tensor, beta: float, confidence_level: float) -> dict[str, Tensor]:
    """What (S,) thresholds give: counts, and the ratios with their ends."""
    least = segments.comparable(threshold)
    least = segments.repeat(least, items.edges.diff()) if len(m) > 1 else least
    reached = segments.comparable(items.score) >= least
    kept = segments.places(reached & items.counted)
    hits = items.hits.index_select(0, segments.places(reached.index_select(0, items.hits)))
    tp = items.number_of(hits)
    counts = {"tp": tp, "fp": items.number_of(kept) - tp, "fn": m - tp}
    at = _floats(**counts, tn=torch.zeros_like(tp))
    ratios = torch.stack([at.precision, at.recall, at.f_beta(beta)])
    low, high = _ends(items, hits, kept, ratios, beta, confidence_level)
    rows = zip(_RATIOS, ratios, low, high, strict=True)
    named = {f"{name}{end}": x for name, *row in rows for end, x in zip(("", "_low", "_high"), row, strict=True)}
    return {**named, **counts}


def _ends(
    items: _Items, hits: Tensor, kept: Tensor, estimates: Tensor, beta: float, confidence_level: float
) -> tuple[Tensor, Tensor]:
    """(3, S) lower and upper ends of the three ratios, each of which is a / b with sums over images: the delta method.

    Wilson's interval takes the number of trials that has the variance of a / b, at most that of the items, and the
    quantile of Student's t with as many degrees of freedom as images have any of b, less one.
    """
    offsets, (tp, n, m) = _per_image(items, hits, kept)
    share = beta**2 / (1 + beta**2) if beta < 1 else 1 / (1 + beta**-2)
    b = torch.stack([n, m, share * m + (1 - share) * n])
    each = arrays.tensor(arrays.repeat(native(estimates), native(offsets.diff())))
    residual = (tp - each * b).square_()

    def total(rows: Tensor) -> Tensor:
        return torch.stack([segments.total(row, offsets) for row in rows])

    images = total(segments.as_float64(b > 0))
    variance = total(residual) / total(b).square() * (images / (images - 1))
    most = total(torch.stack([n, m, n + m - tp]))
    inner = estimates * (1 - estimates)
    trials = torch.where((variance > 0) & (inner > 0), inner / variance, torch.inf).minimum(most)
    return wilson(estimates, trials, student_quantile(confidence_level, images - 1))


def _per_image(items: _Items, hits: Tensor, kept: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """(S + 1,) offsets of the images that each ranking has anything of, and what: hits, detections, ground truths."""
    image = arrays.tensor(native(torch.cat([items.group.index_select(0, kept), items.truths])) // items.size)
    images = int(image.max()) + 1 if len(image) else 1
    ranking = torch.cat([items.ranking.index_select(0, kept), items.truth_ranking])
    hit = torch.zeros_like(items.counted).index_fill_(0, hits, True).index_select(0, kept)
    kind = torch.cat([hit.to(torch.int64), hit.new_full((len(items.truths),), 2, dtype=torch.int64)])
    keys = order.sort((ranking * images + image).mul_(4).add_(kind))
    image_of, kind = keys >> 2, keys & 3
    start = segments.run_starts(image_of)
    ends = torch.cat([start, start.new_full((1,), len(keys))])
    tp, m = (segments.running_counts(x).index_select(0, ends).diff() for x in (kind == 1, kind == 2))
    counts = tuple(map(segments.as_float64, (tp, ends.diff() - m, m)))
    ranking = arrays.tensor(native(image_of.index_select(0, start)) // images)
    return segments.from_counts(segments.count(ranking, items.rankings)), counts


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
