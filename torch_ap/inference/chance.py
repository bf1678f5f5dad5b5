"""Chance level of a ranking: the mean of AP over random orders of the labels, and the test against these orders."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import Action, Average, Denominator, Interpolation, Ties, TopK, allowed_values
from torch_ap.core.items import inputs
from torch_ap.core.items.inputs import Batch
from torch_ap.core.items.settings import APSettings, validated_curve
from torch_ap.core.measures.average_precision import average_precision, average_precision_of_ranks
from torch_ap.core.measures.chance import chance_of_curve
from torch_ap.core.measures.convention import Convention, resolve_convention
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking import builders, order
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.tie_groups import Ties as TieGroups
from torch_ap.core.ranking.tie_groups import find_ties
from torch_ap.inference import enumeration
from torch_ap.inference import groups as grouped
from torch_ap.inference.average_precision import read
from torch_ap.inference.chance_moments import moments_of_sums
from torch_ap.inference.groups import Groups
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.inference.record import SAME_LISTED_VALUE, SAME_VALUE, Result
from torch_ap.inference.resampling import Resampling

Method: TypeAlias = Literal["auto", "exact", "permutation", "lognormal", "jackknife"]


@dataclass(frozen=True, eq=False, repr=False)
class ChanceTest(Result):
    """Comparison of a ranking with chance, 0-d each.

    Attributes:
        estimate: AP.
        chance_level: E(AP) over all orders of the labels.
        standard_deviation: standard deviation of AP over all orders, exact for every method.
        z: (AP - E) / sd, for description only; its normal tail is not a p-value.
        p_value: P(AP* >= AP) for a random order, one-sided.
        lift: AP / E(AP).
        corrected: (AP - E) / (1 - E): 0 for chance, 1 for a perfect ranking.
        method: method of the p-value, "exact", "permutation", "lognormal" or "jackknife"; "exact" if p follows from the
            definition; over queries "permutation" or "gamma", and "t" over groups of queries.
        reason: why numbers are NaN, p is 1 by definition, or p is the smallest possible; "" otherwise.
    """

    estimate: Tensor
    chance_level: Tensor
    standard_deviation: Tensor
    z: Tensor
    p_value: Tensor
    lift: Tensor
    corrected: Tensor
    method: str
    reason: str = ""


def chance_level(
    preds: Tensor,
    target: Tensor,
    *,
    average: Average = "none",
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
) -> Tensor:
    """Return the chance level, E(AP) or E(AP@k) over random orders of the labels, per ranking or averaged.

    It exceeds m / n, the share of hits, by about (1 - m / n) log(n) / n. With ``ties="grouped"``, tied scores remain
    tied in the random orders. With the other rules it is the chance level of rankings without ties.

    Args:
        preds: (N,) scores of one ranking, or (N, C), one ranking per class or label; no NaN.
        target: (N,) values 0 and 1; for (N, C) scores (N,) class ids or (N, C) values 0 and 1.
        average: for (N, C) scores: "none" for one level per ranking, or the chance level of the average "macro",
            "weighted" or, for labels, "micro".
        top_k: as for :func:`torch_ap.functional.binary_average_precision`.
        denominator: as for :func:`torch_ap.functional.binary_average_precision`.
        interpolation: must be None, because interpolated AP has no closed form.
        ties: as for :func:`torch_ap.functional.binary_average_precision`.
        convention: as for :func:`torch_ap.functional.binary_average_precision`.
        empty_target_action: as for :func:`torch_ap.functional.binary_average_precision`.

    Returns:
        0-d float64, or (C,) without an average.

    Raises:
        TypeError, ValueError: if an argument is invalid; also for interpolated AP and ``denominator="found"``, which
            have no closed form.

    Equals the mean of AP over all permutations of the target, and for scores without ties
    ``random_average_precision(n, m, top_k).mean``. Source: Bestgen (2015), Exact Expected Average Precision of the
    Random Baseline for System Evaluation.

    Example:
        >>> import torch
        >>> from torch_ap.inference import chance_level
        >>> chance_level(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
        tensor(0.6806, dtype=torch.float64)
    """
    convention = resolve_convention(convention, top_k, denominator, interpolation, ties)
    settings, curve, validated = read(preds, target, convention, average, empty_target_action)
    levels = chance_of_curve(curve, convention, groups=tie_groups(settings, validated))
    return settings.averaged(levels, curve, levels.dtype, warn=False)


def tie_groups(settings: APSettings, validated: Batch) -> Iterator[HitCurve | TieGroups]:
    """Yield the tie groups of the rankings of an evaluation, some columns at a time."""
    scores, is_counted = validated.scores, inputs.counted_items(validated.target)
    drops_scores = is_counted.ndim == 1 or settings.average == "micro"
    if drops_scores and settings.inputs.ignoring and not bool(is_counted.all()):
        scores, is_counted = scores[is_counted], is_counted[is_counted]
    if scores.ndim == 1 or settings.average == "micro":
        yield find_ties(scores.flatten())
        return
    width = max(1, builders.ITEMS_A_BLOCK // max(len(scores), 1))
    for span in order.blocks(slice(0, scores.shape[1]), width):
        if is_counted.ndim == 1 or bool(is_counted[:, span].all()):
            yield find_ties(scores[:, span])
        else:  # all items are hits, so that every group is an entry
            mark = torch.where(is_counted[:, span], 1, torch.iinfo(torch.uint8).max).to(torch.uint8)
            yield inputs.curve_of(Batch(scores[:, span], mark), ignoring=True)


@renamed_keywords(batch="chunk_size")
def chance_test(
    preds: Tensor,
    target: Tensor,
    *,
    method: Method = "auto",
    groups: SampleIds = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> ChanceTest:
    """Test whether a ranking is better than a random order of the same labels.

    p = P(AP* >= AP) is exact, by listing all rankings; or (b + 1) / (B + 1), if b of B random orders are at least as
    good; or from the shifted lognormal distribution. The normal distribution is not used, because its tail is far too
    small: at nominal 5 / 1 / .1% it rejects 6.1 / 2.0 / .53% of random rankings at (n, m) = (3000, 245).

    With ``groups``, items of a group may depend on each other, and p of a random order of all labels is too small: at
    nominal 5% it rejects 7 to 25% of rankings without skill, "jackknife" 2.5 to 3.7% (``benchmarks.coverage``, 10 to
    200 groups). Two other tests remain:

    - "jackknife", the default: whether AP is above chance in the population of groups. t = (logit(AP) - logit(E)) / SE,
      with SE by the values without each group and K - 1 degrees of freedom, see :mod:`torch_ap.inference.groups`,
      one-sided. Skill within groups and skill between groups both count.
    - "permutation": labels are permuted within each group, so that p is exact if labels are exchangeable within groups.
      Only skill within groups counts: p = 1 if all items of each group have the same label.

    Args:
        preds: (N,) scores of one ranking, no NaN; other shapes are flattened. Tied scores form one threshold, also in
            the random orders.
        target: values 0 and 1, with the shape of ``preds``.
        method: "exact" (requires at most 3,000,000 ways to distribute the hits over the tie groups),
            "permutation", "lognormal" (requires untied scores), or "auto": exact if possible, else permutation. With
            ``groups`` "jackknife", "permutation", or "auto" for "jackknife".
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items.
        n_resamples: number of permutations, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`ChanceTest`. Without hits, all values are NaN. Without misses, AP = 1 in any order and p = 1.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals ``scipy.stats.permutation_test`` of AP over the labels. Source: Phipson & Smyth (2010) for (b + 1) / (B + 1).

    Example:
        >>> import torch
        >>> from torch_ap.inference import chance_test
        >>> found = chance_test(torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1]), torch.tensor([1, 1, 0, 1, 0, 0, 0, 0]))
        >>> found.method, round(float(found.chance_level), 4), round(float(found.p_value), 4)
        ('exact', 0.5284, 0.0357)
    """
    checks.one_of("method", method, allowed_values(Method))
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    curve = validated_curve(preds, target, keep_all_groups=True)
    ids = grouped.validate_groups(groups, preds.flatten().shape, preds.device)
    n, m, ap = int(curve.n), int(curve.m), float(average_precision(curve))
    if not m or m == n:
        return _undefined_test(ap, "no hits" if not m else "no misses: AP is 1 in any order").to(preds.device)
    chosen, reason = _choose_method(method, curve, ids is not None), ""
    chance = random_average_precision(n, m)
    tied = len(curve.items) < n
    expected, deviation = float(chance.mean), float(chance.standard_deviation)
    if tied:
        mean, variance = moments_of_sums(curve, curve.m)
        expected, deviation = float(mean) / m, math.sqrt(variance) / m
    if chosen == "jackknife" and len(curve.items) == 1:
        p, reason = 1.0, "all scores are tied: AP is the same in any order"
    elif chosen == "jackknife" and ids is not None:
        p, reason = _grouped_p_value(
            preds.detach().flatten(), target.flatten() == 1, Groups.from_ids(ids), ap, expected
        )
    elif chosen == "permutation":
        if ids is None:
            values = _permuted(curve, resampling)
        else:
            values = _permuted_within(curve, preds.detach().flatten(), target.flatten() == 1, ids, resampling)
        reached = int((values >= ap - SAME_VALUE).sum())
        p = (reached + 1) / (len(values) + 1)
        reason = "" if reached else f"p_value is the smallest possible with {len(values)} permutations"
    elif chosen == "exact":
        listed, weights = enumeration.every_average_precision(curve.items.cpu().numpy(), m)
        p = float(weights[listed >= ap - SAME_LISTED_VALUE].sum()) / float(weights.sum())
    else:
        p = float(chance.lognormal_tail(ap))
    z = (ap - expected) / deviation if deviation > 0 else 0.0
    numbers = (ap, expected, deviation, z, p, ap / expected, (ap - expected) / (1 - expected))
    return ChanceTest.from_numbers(*numbers, method=chosen, reason=reason).to(preds.device)


def _undefined_test(ap: float, reason: str) -> ChanceTest:
    """Return the result without hits (all NaN) or without misses (AP is 1 in any order)."""
    level, spread = (1.0, 0.0) if ap == 1 else (math.nan, math.nan)
    numbers = (ap, level, spread, math.nan, level, level, math.nan)
    return ChanceTest.from_numbers(*numbers, method="exact", reason=reason)


def _choose_method(method: str, curve: HitCurve, has_groups: bool) -> str:
    if has_groups:
        checks.one_of("method", method, ("auto", "jackknife", "permutation"), or_else="another without `groups`")
        return "jackknife" if method == "auto" else method
    checks.one_of("method", method, [x for x in allowed_values(Method) if x != "jackknife"], or_else="use `groups`")
    n, m = int(curve.n), int(curve.m)
    if method == "lognormal" and len(curve.items) < n:
        raise ValueError("`method='lognormal'` is for scores without ties; use 'permutation', which keeps them")
    if method not in ("auto", "exact"):
        return method
    feasible = enumeration.can_enumerate(curve.items.cpu().numpy(), m)
    if method == "exact" and not feasible:
        raise ValueError(
            f"`method='exact'` lists at most {enumeration.MOST_LISTED:,} ways to distribute the hits over the tie "
            f"groups, got n={n}, m={m} and {len(curve.items)} different scores; use 'permutation'"
        )
    return "exact" if feasible else "permutation"


def _grouped_p_value(scores: Tensor, relevant: Tensor, groups: Groups, ap: float, expected: float) -> tuple[float, str]:
    """Return the one-sided p-value of logit(AP) - logit(E(AP)) by the values without each group, and the reason."""
    from scipy.special import stdtr

    curve, hits = builders.from_scores(scores, relevant), groups.hits(relevant)
    df = groups.effective_count(hits) - 1
    if df < 1:
        return math.nan, grouped.NO_SPREAD
    left = torch.stack([len(relevant) - groups.sizes, hits.sum() - hits], 1).long().tolist()
    chance = torch.tensor([float(random_average_precision(n, m).mean) for n, m in left], dtype=torch.float64)
    values = grouped.without_each_group(curve, scores, relevant, groups).cpu().to(torch.float64)
    error = float(grouped.standard_error(torch.logit(values) - torch.logit(chance)))
    if not error > 0 or not math.isfinite(error):
        return math.nan, "an AP of 1 without some group, or equal values without each group: no p by t"
    t = (math.log(ap / (1 - ap)) - math.log(expected / (1 - expected))) / error
    return float(stdtr(df, -t)), grouped.few_groups_reason((hits > 0).sum())


def _permuted_within(curve: HitCurve, scores: Tensor, relevant: Tensor, ids: Tensor, resampling: Resampling) -> Tensor:
    """Return the AP of random orders of the labels within each group, (B,) float64; computed on CPU."""
    place = torch.argsort(scores, descending=True, stable=True)
    group, hit = ids[place].cpu().numpy(), relevant[place].cpu().numpy()
    ends = torch.repeat_interleave(curve.cumulative_items, curve.items).cpu().numpy()
    by_group = np.argsort(group, kind="stable")
    in_order, labels = group[by_group], hit[by_group]

    def permuted_ap(rng: np.random.Generator) -> float:
        shuffled = labels[np.lexsort((rng.random(len(labels)), in_order))]
        return float(average_precision_of_ranks(np.sort(ends[by_group[shuffled]]), tied=True))

    return resampling.statistics(permuted_ap, 4 * len(labels), len(labels))


def _permuted(curve: HitCurve, resampling: Resampling) -> Tensor:
    """Return the AP of random orders of the labels over all tie groups of ``curve``, (B,) float64."""
    ends = torch.repeat_interleave(curve.cumulative_items, curve.items)
    n, m = int(curve.n), int(curve.m)
    tied = len(curve.items) < n
    if ends.device.type != "cpu":
        generator = resampling.generator_on(ends.device)

        def draw(count: int) -> tuple[Tensor]:
            return (torch.rand(count, n, generator=generator, device=ends.device),)

        def permuted_aps(keys: Tensor) -> Tensor:
            ranks = keys.topk(m, dim=1, sorted=False).indices.sort(dim=1).values
            values: Tensor = average_precision_of_ranks(ends[ranks], tied=True)
            return values

        return torch.cat([permuted_aps(*keys) for keys in resampling.draw_on_device(3 * n, draw)])
    end_of = ends.numpy()

    def permuted_ap(rng: np.random.Generator) -> float:
        hits = rng.choice(n, m, replace=False, shuffle=False)
        hits.sort()
        return float(average_precision_of_ranks(end_of[hits] if tied else hits + 1, tied=tied))

    return resampling.statistics(permuted_ap, n, m)
