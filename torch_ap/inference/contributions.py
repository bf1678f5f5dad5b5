"""Units of a sample, and their contributions to the errors of several systems, whose products give the covariances."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import groups as grouped
from torch_ap.inference import influence
from torch_ap.inference.groups import Groups, without_each_group


@dataclass(frozen=True, eq=False)
class Contributions:
    """Value of a system, and the contribution of each unit of the sample to its error.

    Attributes:
        value: the estimate.
        shares: (U,) float64 CPU tensor of contributions. The sum of products of the contributions to two systems is the
            covariance of their values. The units are items, queries, or resamples of images.
        df: degrees of freedom of Student's t.
        least: k, the smaller of the numbers of hits and misses, for tests on the logits of k / (k + 1) times the value;
            None for tests of the difference of the values.
        bounds: smallest and largest value, between which the logit is taken; None for an unbounded measure.
        note: why the standard error is doubtful; "" otherwise.
        bias: estimated bias of the value, such as that of an average, which its intervals correct.
    """

    value: float
    shares: Tensor
    df: float
    least: float | None = None
    bounds: tuple[float, float] | None = (0.0, 1.0)
    note: str = ""
    bias: float = 0.0


def differing_unit(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor that differs between the units of two systems; NaN equals NaN."""
    for name in {**first, **second}:
        one, other = first.get(name), second.get(name)
        if one is None or other is None or one.shape != other.shape:
            return name
        if not bool(((one == other) | ((one != one) & (other != other))).all()):
            return name
    return None


def require_all_items(top_k: int | str | None) -> None:
    """Raise ValueError for AP@k of items, whose best value has no correction."""
    if top_k is not None:
        raise ValueError(
            f"`top_k` must be None for the best of several values, which supports AP of all items, got {top_k}"
        )


def ranking_contributions(curve: HitCurve, scores: Tensor, relevant: Tensor, design: str) -> Contributions:
    """Return the contributions of the items to the AP of one ranking.

    Args:
        curve: the ranking.
        scores: (N,) scores from which the curve was made.
        relevant: (N,) bool.
        design: "iid" or "stratified".
    """
    least = int(torch.minimum(curve.m, curve.n - curve.m))
    shares = influence.contributions(curve, design).values_at(scores, relevant)
    return Contributions(float(average_precision(curve)), shares.to("cpu", torch.float64), least - 1, least)


def jackknife_contributions(
    value: float, without: Tensor, df: float, least: float | None, note: str = ""
) -> Contributions:
    """Return the contributions of G units to a value, given the (G,) values without each unit."""
    factor = math.sqrt((len(without) - 1) / len(without)) if len(without) else math.nan
    shares = factor * (without - without.mean())
    return Contributions(value, shares.to("cpu", torch.float64), df, least, note=note)


def group_contributions(curve: HitCurve, scores: Tensor, relevant: Tensor, groups: Groups) -> Contributions:
    """Return the contributions of groups of dependent items to the AP of one ranking.

    Args:
        curve: the ranking.
        scores: (N,) scores from which the curve was made.
        relevant: (N,) bool.
        groups: the groups.
    """
    hits = groups.hits(relevant)
    effective = groups.effective_count(hits)
    without = without_each_group(curve, scores, relevant, groups)
    note = grouped.few_groups_reason((hits > 0).sum(), of_best=True)
    return jackknife_contributions(float(average_precision(curve)), without, effective - 1, effective, note)


def query_contributions(
    values: Tensor, bounds: tuple[float, float] | None, groups: Groups | None = None
) -> Contributions:
    """Return the contributions of (Q,) per-query values, or of groups of dependent queries, to their mean."""
    x = values.detach().to("cpu", torch.float64)
    mean, shares, note = x.mean(), (x - x.mean()) / len(x), ""
    df = len(x) - 1.0
    if groups is not None:
        shares, df = groups.sums(shares), grouped.effective_number(groups.sizes) - 1
        note = grouped.few_groups_reason(torch.tensor(groups.count), "queries")
    count = len(shares)
    shares = shares * math.sqrt(count / (count - 1)) if count > 1 else shares * math.nan
    return Contributions(float(mean), shares, df, bounds=bounds, note=note)
