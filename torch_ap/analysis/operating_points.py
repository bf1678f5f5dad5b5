"""Where to cut a detector: the score threshold of each class, and what it gives, with intervals over images.

Everything is read off the matches at one IoU threshold: a detection chooses its ground truth before those that score
less, so that what a threshold leaves is matched as it was.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.curve.counts import Counts
from torch_ap.inference.interval import wilson
from torch_ap.inference.operating_point import Wanted
from torch_ap.inference.result import Result
from torch_ap.inference.student import student_quantile
from torch_ap.matching.candidate_pairs import descending
from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.rules.messages import refuse

_METHOD = "delta-wilson"
_RATIOS = ("precision", "recall", "f_beta")


@dataclass(frozen=True, eq=False, repr=False)
class OperatingPoints(Result):
    """What the detections that score at least a threshold give: (K,) each, or 0-d of one threshold for all classes.

    Attributes:
        threshold: the score, in the dtype of the scores: those with ``scores >= threshold`` are kept; NaN where no
            threshold does what is wanted, and nothing is.
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

    threshold: Tensor
    precision: Tensor
    precision_low: Tensor
    precision_high: Tensor
    recall: Tensor
    recall_low: Tensor
    recall_high: Tensor
    f_beta: Tensor
    f_beta_low: Tensor
    f_beta_high: Tensor
    tp: Tensor
    fp: Tensor
    fn: Tensor
    n: Tensor
    labels: Tensor
    names: list[str]
    beta: float
    confidence_level: float
    method: str
    reason: str = ""

    _as_given = ("threshold",)


class _Ranked(NamedTuple):
    """The detections that count, best first in each of S rankings, and what these are to find.

    (C,) whether each is a hit, its score, ranking and image; (S + 1,) where those of each ranking begin and end; (M,)
    ranking and image of the ground truths that count.
    """

    hit: Tensor
    score: Tensor
    ranking: Tensor
    image: Tensor
    offsets: Tensor
    truth_ranking: Tensor
    truth_image: Tensor


def score_thresholds(given: Any, classes: int, scores: Tensor) -> Tensor:
    """A threshold of scores, 0-d, or one of each class, (K,), in the dtype of the scores; float64 of integer ones."""
    fits = isinstance(given, Tensor) and given.shape in ((), (classes,)) and given.dtype != torch.bool
    if not fits and (isinstance(given, bool) or not isinstance(given, int | float) or given != given):
        rule = f"must be a number other than NaN, or a tensor of one for each of the {classes} classes"
        refuse("score_threshold", rule, tuple(given.shape) if isinstance(given, Tensor) else given)
    dtype = scores.dtype if scores.is_floating_point() else segments.as_float64(scores[:0]).dtype
    return torch.as_tensor(given, dtype=dtype).to(scores.device)


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
        choice: what thresholds are chosen for, or as of :func:`score_thresholds`.
        labels: (K,) of the categories.
        names: theirs.
        beta: of F.
        per_class: whether each category has a threshold of its own.
        confidence_level: nominal coverage.
    """
    ranked = _ranked(matches, place, per_class)
    rankings = len(ranked.offsets) - 1
    m = segments.count(ranked.truth_ranking, rankings)
    threshold, kept = _cut(ranked, m, choice)
    retrieved = kept.clamp(min=0)
    found = segments.from_zero(ranked.hit.to(torch.int64))
    tp = found[ranked.offsets[:-1] + retrieved] - found[ranked.offsets[:-1]]
    counts = {"tp": tp, "fp": retrieved - tp, "fn": m - tp}
    at = Counts(**_floats(counts), tn=torch.zeros_like(segments.as_float64(tp)))
    ratios = torch.stack([at.precision, at.recall, at.f_beta(beta)])
    ends = _ends(ranked, retrieved, torch.where(kept >= 0, ratios, torch.nan), beta, confidence_level)
    columns = {"threshold": threshold, **ends, **counts, "n": ranked.offsets.diff()}
    size = len(labels) if per_class else 1  # without labels there is a category without any
    columns = {name: x[:size] if per_class else x[0] for name, x in columns.items()}
    settings: dict[str, Any] = {"beta": beta, "confidence_level": confidence_level, "method": _METHOD}
    reason = _reason(columns, m[:size], choice)
    return OperatingPoints(**{**columns, **settings}, labels=labels, names=names, reason=reason)


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


def _cut(ranked: _Ranked, m: Tensor, choice: Wanted | Tensor) -> tuple[Tensor, Tensor]:
    """(S,) the threshold of each ranking and (S,) how many detections it keeps, -1 where there is none."""
    if isinstance(choice, Tensor):
        threshold = choice.expand(len(m)) if choice.ndim == 0 else choice
        return threshold, segments.count(ranked.ranking[ranked.score >= threshold[ranked.ranking]], len(m))
    kept = _best(ranked, m, choice)
    score = ranked.score if ranked.score.is_floating_point() else segments.as_float64(ranked.score)
    score = torch.cat([score, score.new_full((1,), torch.nan)])  # of what has no threshold
    return score[torch.where(kept > 0, ranked.offsets[:-1] + kept - 1, len(score) - 1)], kept


def _ranked(matches: Matches, place: int, per_class: bool) -> _Ranked:
    """The detections of each category, or of all of them as one ranking."""
    rows, hit = matches.items(0, place)
    ranked, size = matches.ranked, matches.categories
    score, group, truths = ranked.score[rows], ranked.group[rows], matches.truth_group[matches.valid[0]]
    if per_class:
        ranking, rankings, truth_ranking = ranked.category[rows], size, truths % size
    else:
        best_first = order.stable_argsort(descending(score), 1 << 32)
        hit, score, group = hit[best_first], score[best_first], group[best_first]
        ranking, rankings, truth_ranking = torch.zeros_like(group), 1, torch.zeros_like(truths)
    offsets = segments.from_counts(segments.count(ranking, rankings))
    return _Ranked(hit, score, ranking, group // size, offsets, truth_ranking, truths // size)


def _best(ranked: _Ranked, m: Tensor, wanted: Wanted) -> Tensor:
    """(S,) how many detections the best threshold of each ranking keeps; -1 where there is none."""
    ranking, out = ranked.ranking, torch.full_like(m, -1)
    if not len(ranking):
        return out
    kept = torch.arange(1, len(ranking) + 1, device=ranking.device) - ranked.offsets[ranking]
    tp = segments.cumulative(ranked.hit.to(torch.int64), ranked.offsets)
    counts = _floats({"tp": tp, "fp": kept - tp, "fn": m[ranking] - tp})
    value, slack = wanted.value(Counts(**counts, tn=counts["tp"]), weighted=False)
    tied = torch.zeros_like(ranked.hit)  # no threshold parts equal scores
    tied[:-1] = (ranked.score[1:] == ranked.score[:-1]) & (ranking[1:] == ranking[:-1])
    value = torch.where(tied, -torch.inf, value)
    best = segments.maximum(value, ranked.offsets)[ranking]
    equal = ((value * slack >= best) & (best > -torch.inf)).nonzero().squeeze(1)
    if wanted.recall is not None:
        equal = equal.flip(0)
    equal = equal[segments.run_starts(ranking[equal])]
    return out.index_copy_(0, ranking[equal], kept[equal])


def _ends(
    ranked: _Ranked, retrieved: Tensor, estimates: Tensor, beta: float, confidence_level: float
) -> dict[str, Tensor]:
    """The three ratios, (3, S), with their ends, by name: each is a / b, with a and b sums over images.

    The delta method gives the variance of that.

    Wilson's interval takes the number of trials that has the variance of a / b, at most that of the items, and the
    quantile of Student's t.
    """
    tp, items, m, offsets = _per_image(ranked, retrieved)
    share = beta**2 / (1 + beta**2) if beta < 1 else 1 / (1 + beta**-2)
    a, b = torch.stack([tp, tp, tp]), torch.stack([items, m, share * m + (1 - share) * items])
    ranking = segments.ids(offsets)
    residual = (a - estimates[:, ranking] * b).square_()

    def total(values: Tensor) -> Tensor:
        return torch.stack([segments.total(row, offsets) for row in values])

    images = total((b > 0).to(torch.float64))
    variance = total(residual) / total(b).square() * (images / (images - 1))
    most = torch.stack([total(x[None])[0] for x in (items, m, items + m - tp)])
    inner = estimates * (1 - estimates)
    trials = torch.where((variance > 0) & (inner > 0), inner / variance, torch.inf).minimum(most)
    low, high = wilson(estimates, trials, student_quantile(confidence_level, images - 1))
    rows = zip(_RATIOS, estimates, low, high, strict=True)
    return {f"{name}{end}": x for name, *row in rows for end, x in zip(("", "_low", "_high"), row, strict=True)}


def _per_image(ranked: _Ranked, retrieved: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each ranking and image that has any: true positives, detections kept, ground truths; and (S + 1,) offsets."""
    place = torch.arange(len(ranked.hit), device=ranked.hit.device)
    kept = (place < (ranked.offsets[:-1] + retrieved)[ranked.ranking]).nonzero().squeeze(1)
    images = torch.cat([ranked.image, ranked.truth_image, ranked.offsets[:1]]).max() + 1
    keys = ranked.ranking[kept] * images + ranked.image[kept], ranked.truth_ranking * images + ranked.truth_image
    cells, cell = torch.unique(torch.cat(keys), return_inverse=True)
    of_items, of_truths = cell[: len(kept)], cell[len(kept) :]
    counts = (segments.count(x, len(cells)) for x in (of_items[ranked.hit[kept]], of_items, of_truths))
    tp, items, m = (segments.as_float64(x) for x in counts)
    offsets = segments.from_counts(segments.count(cells // images, len(ranked.offsets) - 1))
    return tp, items, m, offsets


def _floats(counts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: segments.as_float64(x) for name, x in counts.items()}
