"""Does this ranking beat chance: the test, and the level that chance gives."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.average_precision import average_precision, average_precision_of_ranks
from torch_ap.curve.convention import Convention, convention_of
from torch_ap.evaluation.average_precision import curve_of_one
from torch_ap.inference import enumeration
from torch_ap.inference.chance_of_rankings import chance_of_curve, tie_groups
from torch_ap.inference.intervals import read
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.inference.resampling import Resampling, generators, rows
from torch_ap.inference.result import Result, number
from torch_ap.inference.rounding import SAME_LISTED_VALUE, SAME_VALUE
from torch_ap.inference.tied_moments import tied_moments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import Action, Average, Denominator, Interpolation, Ties, TopK, allowed

Method: TypeAlias = Literal["auto", "exact", "permutation", "lognormal"]


@dataclass(frozen=True, eq=False, repr=False)
class ChanceTest(Result):
    """A ranking against chance, 0-d each.

    Attributes:
        estimate: AP.
        chance_level: E(AP) over all orders of the labels.
        standard_deviation: of AP over them, exact whatever the method.
        z: (AP - E) / sd, a description; its normal tail is not a p-value.
        p_value: P(AP* >= AP) for a random order, one-sided.
        lift: AP / E(AP).
        corrected: (AP - E) / (1 - E): 0 for chance, 1 for perfect.
        method: "exact", "permutation" or "lognormal": what gave p; "exact" where p is a matter of definition.
        reason: why numbers are NaN, p is 1 by definition, or no permutation could make p smaller; "" otherwise.
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
    """What chance gives: E(AP) or E(AP@k) where the same labels stand in random order, of each ranking or averaged.

    It lies above m / n, the share of hits, by about (1 - m / n) log(n) / n. With ``ties="grouped"`` tied scores stay
    tied. With "expected" that makes no difference; for "optimistic" and "pessimistic" it is the level of rankings
    without ties.

    Args:
        preds: (N,) scores of one ranking, or (N, C), one ranking per class or label; no NaN.
        target: (N,) of 0 and 1; for (N, C) scores (N,) class ids or (N, C) of 0 and 1.
        average: for (N, C) scores: "none" for a level each, or the average of which the level is wanted: "macro",
            "weighted" or, of labels, "micro".
        top_k, denominator, interpolation, ties, convention, empty_target_action: as for
            :func:`torch_ap.functional.binary_average_precision`.

    Returns:
        0-d float64, or (C,) for no average.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules, and for interpolated AP and
            ``denominator="found"``, which have no closed form.

    Equals the mean of AP over all permutations of the target, and for scores without ties
    ``random_average_precision(n, m, top_k).mean``. Source: Bestgen (2015), Exact Expected Average Precision of the
    Random Baseline for System Evaluation.

    Example:
        >>> import torch
        >>> from torch_ap.inference import chance_level
        >>> chance_level(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
        tensor(0.6806, dtype=torch.float64)
    """
    convention = convention_of(convention, top_k, denominator, interpolation, ties)
    settings, curve, validated = read(preds, target, convention, average, empty_target_action)
    each = chance_of_curve(curve, convention, groups=tie_groups(settings, validated))
    return settings.averaged(each, curve, each.dtype, warn=False)


def chance_test(
    preds: Tensor,
    target: Tensor,
    *,
    method: Method = "auto",
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> ChanceTest:
    """Whether a ranking beats a random order of the same labels.

    p = P(AP* >= AP): exact by listing all rankings; by B random orders, (b + 1) / (B + 1) with b of them at least as
    good; or by the shifted lognormal law. Never by the normal law, whose tail is far too small: at nominal 5 / 1 / .1%
    it rejects 6.1 / 2.0 / .53% of random rankings of (n, m) = (3000, 245).

    Args:
        preds: (N,) scores of one ranking, no NaN; other shapes are flattened. Tied scores form one threshold, in the
            random orders too.
        target: of 0 and 1, in the shape of ``preds``.
        method: "exact" (at most 3,000,000 ways to give the hits to the tie groups, of which there are at most C(n, m)),
            "permutation", "lognormal" (no ties), or "auto": exact where that is possible, else permutation.
        n_resamples: permutations; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`ChanceTest`. Without hits all NaN; without misses AP = 1 always and p = 1.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``scipy.stats.permutation_test`` of AP over the labels. Source: Phipson & Smyth (2010) for (b + 1) / (B + 1).

    Example:
        >>> import torch
        >>> from torch_ap.inference import chance_test
        >>> found = chance_test(torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1]), torch.tensor([1, 1, 0, 1, 0, 0, 0, 0]))
        >>> found.method, round(float(found.chance_level), 4), round(float(found.p_value), 4)
        ('exact', 0.5284, 0.0357)
    """
    checks.one_of("method", method, allowed(Method))
    how = Resampling(n_resamples, generator, batch, progress)
    curve = curve_of_one(preds, target, keep_all_groups=True)
    n, m, ap = int(curve.n), int(curve.m), float(average_precision(curve))
    if not m or m == n:
        return _void(ap, "no hits" if not m else "no misses: AP is 1 in any order").to(preds.device)
    chosen, reason = _choose(method, curve), ""
    chance = random_average_precision(n, m)
    tied = len(curve.items) < n
    moments = float(chance.mean), float(chance.standard_deviation)
    expected, deviation = tied_moments(curve.items, m) if tied else moments
    if chosen == "permutation":
        found = _permuted(curve, how)
        beaten = int((found >= ap - SAME_VALUE).sum())
        p = (beaten + 1) / (len(found) + 1)
        reason = "" if beaten else f"p_value is the least that {len(found)} permutations can give"
    else:
        p = _listed_tail(curve, ap) if chosen == "exact" else float(chance.lognormal_tail(ap))
    return ChanceTest(
        estimate=number(ap),
        chance_level=number(expected),
        standard_deviation=number(deviation),
        z=number((ap - expected) / deviation if deviation > 0 else 0.0),
        p_value=number(p),
        lift=number(ap / expected),
        corrected=number((ap - expected) / (1 - expected)),
        method=chosen,
        reason=reason,
    ).to(preds.device)


def _void(ap: float, reason: str) -> ChanceTest:
    """Without hits nothing is known; without misses AP is 1 in any order."""
    nan, one = number(math.nan), number(1.0)
    known, spread = (one, number(0.0)) if ap == 1 else (nan, nan)
    return ChanceTest(number(ap), known, spread, nan, known, known, nan, "exact", reason)


def _choose(method: str, curve: HitCurve) -> str:
    n, m = int(curve.n), int(curve.m)
    if method == "lognormal" and len(curve.items) < n:
        raise ValueError("`method='lognormal'` is for scores without ties; use 'permutation', which keeps them")
    if method not in ("auto", "exact"):
        return method
    feasible = enumeration.is_feasible(curve.items.cpu().numpy(), m)
    if method == "exact" and not feasible:
        raise ValueError(
            f"`method='exact'` lists at most {enumeration.MOST_LISTED:,} ways to give the hits to the tie groups, got "
            f"n={n}, m={m} and {len(curve.items)} different scores; use 'permutation'"
        )
    return "exact" if feasible else "permutation"


def _listed_tail(curve: HitCurve, ap: float) -> float:
    """P(AP* >= ap) by listing."""
    values, weights = enumeration.every_average_precision(curve.items.cpu().numpy(), int(curve.m))
    return float(weights[values >= ap - SAME_LISTED_VALUE].sum()) / float(weights.sum())


def _permuted(curve: HitCurve, resampling: Resampling) -> Tensor:
    """(B,) float64 AP of random orders of the labels over the tie groups of ``curve``, which holds all of them."""
    ends = torch.repeat_interleave(curve.cumulative_items, curve.items)
    n, m = int(curve.n), int(curve.m)
    tied = len(curve.items) < n
    if ends.device.type != "cpu":
        generator = resampling.on(ends.device)

        def draw(count: int) -> tuple[Tensor]:
            return (torch.rand(count, n, generator=generator, device=ends.device),)

        return torch.cat([_on_device(ends, m, *keys) for keys in resampling.drawn_on_device(3 * n, draw)])
    end_of = ends.numpy()

    def one(rng: np.random.Generator) -> float:
        places = rng.choice(n, m, replace=False, shuffle=False)
        places.sort()
        return float(average_precision_of_ranks(end_of[places] if tied else places + 1, tied=tied))

    seed = resampling.seed()
    drawn = [x for span in resampling.batches(n) for x in rows(one, generators(seed, span), m)]
    return torch.tensor(drawn, dtype=torch.float64)


def _on_device(ends: Tensor, m: int, keys: Tensor) -> Tensor:
    t = ends[keys.topk(m, dim=1, sorted=False).indices.sort(dim=1).values]
    drawn: Tensor = average_precision_of_ranks(t, tied=True)
    return drawn
