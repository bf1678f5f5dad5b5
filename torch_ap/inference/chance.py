"""Does this ranking beat chance: the test, its baseline, and the laws of a random ranking that it rests on."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.average_precision import average_precision, average_precision_of_ranks
from torch_ap.evaluation.average_precision import curve_of_one
from torch_ap.inference import enumeration, rules
from torch_ap.inference.exact_distribution import CLOSE, Distribution, exact_distribution
from torch_ap.inference.hits import RandomHits, joint_rank_probability, rank_probability
from torch_ap.inference.published.normal_laws import (
    NormalLaw,
    normal_average_precision,
    normal_precision,
    normal_recall,
)
from torch_ap.inference.random_ranking import (
    RandomAveragePrecision,
    expected_average_precision,
    random_average_precision,
)
from torch_ap.inference.resampling import Resampling, generators, rows
from torch_ap.inference.rounding import SAME
from torch_ap.inference.tied_moments import tied_moments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks

__all__ = [
    "ChanceTest",
    "Distribution",
    "NormalLaw",
    "RandomAveragePrecision",
    "RandomHits",
    "chance_test",
    "exact_distribution",
    "expected_average_precision",
    "joint_rank_probability",
    "normal_average_precision",
    "normal_precision",
    "normal_recall",
    "random_average_precision",
    "rank_probability",
]

_METHODS = ("auto", "exact", "permutation", "lognormal")


@dataclass(frozen=True)
class ChanceTest:
    """A ranking against chance.

    Attributes:
        estimate: AP.
        expected: E(AP) over all orders of the labels.
        standard_deviation: of AP over them, exact whatever the method.
        z: (AP - E) / sd, a description; its normal tail is no p-value.
        p_value: P(AP* >= AP) for a random order, one-sided.
        lift: AP / E(AP).
        corrected: (AP - E) / (1 - E): 0 for chance, 1 for perfect.
        method: "exact", "permutation" or "lognormal": what gave p; "exact" where p is a matter of definition.
        reason: why numbers are NaN, p is 1 by definition, or no permutation could make p smaller; "" otherwise.
    """

    estimate: float
    expected: float
    standard_deviation: float
    z: float
    p_value: float
    lift: float
    corrected: float
    method: str
    reason: str = ""


def chance_test(
    preds: Tensor,
    target: Tensor,
    *,
    method: Literal["auto", "exact", "permutation", "lognormal"] = "auto",
    resampling: Resampling | None = None,
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
        resampling: of the permutations; None for 1,000 that repeat.

    Returns:
        :class:`ChanceTest` of floats. Without hits all NaN; without misses AP = 1 always and p = 1.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``scipy.stats.permutation_test`` of AP over the labels. Source: Phipson & Smyth (2010) for (b + 1) / (B + 1).

    Example:
        >>> import torch
        >>> from torch_ap.inference import chance_test
        >>> found = chance_test(torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1]), torch.tensor([1, 1, 0, 1, 0, 0, 0, 0]))
        >>> found.method, round(found.expected, 4), round(found.p_value, 4)
        ('exact', 0.5284, 0.0357)
    """
    checks.one_of("method", method, _METHODS)
    how = rules.resampling(resampling)
    curve = curve_of_one(preds, target, keep_all_groups=True)
    n, m, ap = int(curve.n), int(curve.m), float(average_precision(curve))
    if not m or m == n:
        return _void(ap, "no hits" if not m else "no misses: AP is 1 in any order")
    chosen, reason = _choose(method, curve), ""
    chance = random_average_precision(n, m)
    tied = len(curve.items) < n
    expected, deviation = tied_moments(curve.items, m) if tied else (chance.mean, chance.standard_deviation)
    if chosen == "permutation":
        found = _permuted(curve, how)
        beaten = int((found >= ap - SAME).sum())
        p = (beaten + 1) / (len(found) + 1)
        reason = "" if beaten else f"p_value is the least that {len(found)} permutations can give"
    else:
        p = _listed_tail(curve, ap) if chosen == "exact" else chance.lognormal_tail(ap)
    z = (ap - expected) / deviation if deviation > 0 else 0.0
    corrected = (ap - expected) / (1 - expected)
    return ChanceTest(ap, expected, deviation, z, p, ap / expected, corrected, chosen, reason)


def _void(ap: float, reason: str) -> ChanceTest:
    nan = math.nan
    always = ap == 1
    expected, p, lift = (1.0, 1.0, 1.0) if always else (nan, nan, nan)
    return ChanceTest(ap, expected, 0.0 if always else nan, nan, p, lift, nan, "exact", reason)


def _choose(method: str, curve: HitCurve) -> str:
    n, m = int(curve.n), int(curve.m)
    if method == "lognormal" and len(curve.items) < n:
        raise ValueError("`method='lognormal'` is for scores without ties; use 'permutation', which keeps them")
    if method not in ("auto", "exact"):
        return method
    feasible = enumeration.is_feasible(curve.items.cpu().numpy(), m)
    if method == "exact" and not feasible:
        raise ValueError(
            f"`method='exact'` lists at most {enumeration.MOST:,} ways to give the hits to the tie groups, got n={n}, "
            f"m={m} and {len(curve.items)} different scores; use 'permutation'"
        )
    return "exact" if feasible else "permutation"


def _listed_tail(curve: HitCurve, ap: float) -> float:
    """P(AP* >= ap) by listing."""
    values, weights = enumeration.every_average_precision(curve.items.cpu().numpy(), int(curve.m))
    return float(weights[values >= ap - CLOSE].sum()) / float(weights.sum())


def _permuted(curve: HitCurve, resampling: Resampling) -> Tensor:
    """(B,) float64 AP of random orders of the labels over the tie groups of ``curve``, which holds all of them."""
    ends = torch.repeat_interleave(curve.cumulative_items, curve.items)
    n, m = int(curve.n), int(curve.m)
    tied = len(curve.items) < n
    if ends.device.type != "cpu":
        generator = resampling.on(ends.device)
        parts = [_on_device(ends, m, len(span), generator) for span in resampling.batches(3 * n)]
        return torch.cat(parts)
    end_of = ends.numpy()

    def one(rng: np.random.Generator) -> float:
        places = rng.choice(n, m, replace=False, shuffle=False)
        places.sort()
        return float(average_precision_of_ranks(end_of[places] if tied else places + 1, tied=tied))

    seed = resampling.seed()
    drawn = [x for span in resampling.batches(n) for x in rows(one, generators(seed, span), m)]
    return torch.tensor(drawn, dtype=torch.float64)


def _on_device(ends: Tensor, m: int, count: int, generator: torch.Generator) -> Tensor:
    keys = torch.rand(count, len(ends), generator=generator, device=ends.device)
    t = ends[keys.topk(m, dim=1, sorted=False).indices.sort(dim=1).values]
    drawn: Tensor = average_precision_of_ranks(t, tied=True)
    return drawn
