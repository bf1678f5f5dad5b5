"""Intervals for recall and precision: at a rank, where the cut moves with the data, and at a fixed threshold."""

import math
from typing import Literal

import torch
from torch import Tensor

from torch_ap.core import builders, checks, segments
from torch_ap.core.batch import Door
from torch_ap.core.counts import hits_at
from torch_ap.functional.evaluation import raise_broken
from torch_ap.inference import rules
from torch_ap.inference.interval import Ends, Interval, wilson
from torch_ap.inference.student import normal_quantile


def recall_at_k_interval(preds: Tensor, target: Tensor, k: int, *, level: float = 0.95) -> Interval:
    r"""A confidence interval for recall among the top k: the delta method, in Wilson's form.

    .. math::
        Var\ r = (1 - \lambda)^2 \frac{r (1 - r)}{m}
                 + \Big(\frac{\lambda}{\pi}\Big)^2 (1 - \pi)^2 \frac{S (1 - S)}{q}

    with S the share of the misses among the top k, and lambda the share of hits near rank k (from k - w to k + w, w the
    larger of 10 and .3 k): a threshold that finds fewer hits lets more misses in, and the rank k then cuts elsewhere.
    Wilson's interval takes r (1 - r) / Var r for the number of trials, and m where r is 0 or 1. Covers .79 to .83 at
    80% and .94 to .96 at 95% (``benchmarks.coverage``: k of m / 2 to 5 m, d' of 1 and 2), where r (1 - r) / m, right
    at a fixed threshold, covers .80 to .98 and .94 to 1. It is weak where almost no misses stand among the top k.

    Args:
        preds: (N,) scores of one ranking, no NaN; tied items that straddle k count by their share.
        target: (N,) of 0 and 1.
        k: 1 to N.
        level: nominal coverage, in (0, 1).

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors; NaN without hits or without misses,
        and for k = N, where recall is 1 by definition, no wider than that.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals no other package's. The transition probabilities of Su & Zhang's general form cannot be estimated from one
    ranking, and are not used. Source: the delta method, with the variance above; Wilson (1927).

    Example:
        >>> import torch
        >>> from torch_ap.inference import recall_at_k_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = recall_at_k_interval(preds, target, 10)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.389, 0.533, 0.672]
    """
    rules.level(level)
    admitted = Door()(preds, target)
    raise_broken(admitted.broken, 1)
    rules.rank("k", k, len(admitted.scores))
    curve = builders.from_scores(admitted.scores, admitted.target)
    n, m = float(curve.n), float(curve.m)
    reach = max(10.0, 0.3 * k)
    low, high = max(0.0, k - reach), min(n, k + reach)
    h, below, above = hits_at(curve, segments.real(curve.n).new_tensor([k, low, high]))
    q, share = n - m, m / n
    recall, fall_out, local = h / m, (k - h) / q, (above - below) / (high - low)
    odds = local * (1 - share) / share
    variance = (1 - local) ** 2 * recall * (1 - recall) / m + odds**2 * fall_out * (1 - fall_out) / q
    inside = (recall > 0) & (recall < 1) & (variance > 0)
    trials = torch.where(inside, recall * (1 - recall) / variance, m)
    ends = wilson(recall, trials, normal_quantile(level))
    reason = "" if m and q else f"no {'misses' if m else 'hits'}: the ends are NaN"
    nan = torch.full_like(recall, math.nan)
    if reason:
        return Interval(recall, nan, nan, nan, level, "delta-wilson", "stratified", reason)
    if k == len(admitted.scores):
        reason = "all items are retrieved: recall is 1 by definition"
        return Interval(recall, recall, recall, torch.zeros_like(recall), level, "delta-wilson", "stratified", reason)
    return Interval(recall, *ends, variance.sqrt(), level, "delta-wilson", "stratified")


def precision_at_k_interval(preds: Tensor, target: Tensor, k: int, *, level: float = 0.95) -> Interval:
    """A confidence interval for precision among the top k: that of recall, times m / k.

    Arguments, result and coverage as for :func:`recall_at_k_interval`; m is held fixed, so p(k) = r(k) m / k.

    Example:
        >>> import torch
        >>> from torch_ap.inference import precision_at_k_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = precision_at_k_interval(preds, target, 10)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.584, 0.8, 1.0]
    """
    recall = recall_at_k_interval(preds, target, k, level=level)
    scale = segments.real((target == 1).sum()) / k
    return Interval(
        recall.estimate * scale if not recall.reason.startswith("no hits") else torch.zeros_like(recall.estimate),
        recall.low * scale,
        (recall.high * scale).clamp(max=1),
        recall.standard_error * scale,
        level,
        recall.method,
        recall.design,
        recall.reason,
    )


def proportion_interval(
    successes: int, trials: int, *, level: float = 0.95, method: Literal["wilson", "clopper-pearson"] = "wilson"
) -> Interval:
    """A confidence interval for a share of independent trials: recall or precision at a threshold fixed in advance.

    Recall: TP of TP + FN; precision: TP of TP + FP. At a fixed *rank* these are not independent trials: use
    :func:`recall_at_k_interval`; under chance, :class:`torch_ap.inference.chance.RandomHits`.

    Args:
        successes: 0 to ``trials``.
        trials: at least 0.
        level: nominal coverage, in (0, 1).
        method: "wilson", near its level on average; or "clopper-pearson", never below it.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors; NaN for no trials.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Equals ``scipy.stats.binomtest(...).proportion_ci`` with "wilson" or "exact". Source: Wilson (1927); Clopper &
    Pearson (1934).

    Example:
        >>> from torch_ap.inference import proportion_interval
        >>> found = proportion_interval(20, 31)
        >>> round(float(found.low), 4), round(float(found.high), 4)
        (0.4695, 0.7888)
    """
    checks.positive_int("trials", trials, least=0)
    checks.positive_int("successes", successes, least=0)
    if successes > trials:
        raise ValueError(f"`successes` must be at most `trials`, got {successes} of {trials}")
    rules.level(level)
    checks.one_of("method", method, ("wilson", "clopper-pearson"))
    count = torch.tensor(float(trials), dtype=torch.float64)
    share = successes / count
    error = torch.sqrt(share * (1 - share) / count)
    reason = "" if trials else "no trials: everything is NaN"
    if method == "wilson" or not trials:
        ends = wilson(share, count, normal_quantile(level))
    else:
        ends = _clopper_pearson(successes, trials, (1 - level) / 2)
    return Interval(share, *ends, error, level, method, "", reason)


def _clopper_pearson(successes: int, trials: int, tail: float) -> Ends:
    from scipy.special import betainccinv, betaincinv

    low = betaincinv(successes, trials - successes + 1, tail) if successes else 0.0
    high = betainccinv(successes + 1, trials - successes, tail) if successes < trials else 1.0
    return torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64)
