"""Intervals for recall and precision: at a rank, where the cut moves with the data, and at a fixed threshold."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.curve.counts import hits_at
from torch_ap.evaluation.average_precision import curve_of_one
from torch_ap.inference.interval import Ends, Interval, wilson
from torch_ap.inference.methods import DESIGNS
from torch_ap.inference.student import normal_quantile
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.options import Design, allowed

Method: TypeAlias = Literal["wilson", "clopper-pearson"]
_METHOD = "delta-wilson"
_ALL = "all items are retrieved: recall is 1 by definition"


def recall_at_k_interval(
    preds: Tensor,
    target: Tensor,
    k: int,
    *,
    confidence_level: float = 0.95,
    design: Design = "iid",
) -> Interval:
    r"""A confidence interval for recall among the top k: the delta method, in Wilson's form.

    .. math::
        iid:\ Var\ r = \frac{Var[(Y - \lambda) 1\{top\ k\} - r Y]}{n \pi^2}, \qquad
        stratified:\ Var\ r = (1 - \lambda)^2 \frac{r (1 - r)}{m}
                 + \Big(\frac{\lambda}{\pi}\Big)^2 (1 - \pi)^2 \frac{S (1 - S)}{q}

    over all n items, with Y the relevance of an item, pi = m / n, S the share of the misses among the top k, and lambda
    the share of hits near rank k (from k - w to k + w, w the larger of 10 and .3 k): a threshold that finds fewer hits
    lets more misses in, and the rank k then cuts elsewhere. Wilson's interval takes r (1 - r) / Var r for the number of
    trials, and m where r is 0 or 1. The estimand is the limit: recall, in the population, of the threshold that the
    share k / n of all items reaches.

    ==========  ======  ============  ===================  ===================
    design      m       k             covers, at 80%       covers, at 95%
    ==========  ======  ============  ===================  ===================
    iid         random  m / 2 to 5 m  .796 / .801 / .810   .948 / .951 / .958
    iid         random  1             .751 / .864 / .985   .927 / .971 / .999
    iid         random  5             .764 / .810 / .882   .923 / .949 / .964
    iid         random  10            .784 / .805 / .822   .939 / .955 / .966
    iid         random  20            .731 / .811 / .843   .915 / .956 / .964
    stratified  fixed   m / 2 to 5 m  .782 / .803 / .824   .943 / .950 / .957
    stratified  fixed   1             .739 / 1 / 1         .962 / 1 / 1
    stratified  fixed   5             .824 / .931 / 1      .896 / .950 / 1
    stratified  fixed   10            .616 / .807 / 1      .775 / .920 / 1
    stratified  fixed   20            .647 / .821 / .998   .846 / .947 / 1
    stratified  random  m / 2 to 5 m  .694 / .796 / .807   .882 / .949 / .956
    ==========  ======  ============  ===================  ===================

    Coverage: least, median and greatest over the configurations of ``benchmarks.coverage``. Design "stratified" is for
    fixed m, and weak where almost no misses stand among the top k, as for small k.

    Args:
        preds: (N,) scores of one ranking, no NaN; tied items that straddle k count by their share.
        target: (N,) of 0 and 1.
        k: 1 to N.
        confidence_level: nominal coverage, in (0, 1).
        design: "iid" (items were drawn, and the number of hits with them) or "stratified" (so many hits and so many
            misses were).

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors; NaN without hits or without misses,
        and for k = N, where recall is 1 by definition, no wider than that.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals no other package's. The transition probabilities of Su & Zhang's general form cannot be estimated from one
    ranking, and are not used. Source: the delta method, with the variances above; Wilson (1927).

    Example:
        >>> import torch
        >>> from torch_ap.inference import recall_at_k_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = recall_at_k_interval(preds, target, 10)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.343, 0.533, 0.715]
    """
    cut, reason = _checked(preds, target, k, confidence_level, design)
    found = cut.recall(confidence_level, design)
    return replace(found, reason=reason or found.reason)


def precision_at_k_interval(
    preds: Tensor,
    target: Tensor,
    k: int,
    *,
    confidence_level: float = 0.95,
    design: Design = "iid",
) -> Interval:
    r"""A confidence interval for precision among the top k: the delta method, in Wilson's form.

    .. math::
        iid:\ Var\ p = \frac{n}{k^2} Var[(Y - \lambda) 1\{top\ k\}]
                     = \frac{p (1 - p)}{k} + \frac{(p - \lambda)^2}{k} \Big(1 - \frac{k}{n}\Big)

    over all n items, with Y the relevance of an item and lambda the share of hits near rank k, as for
    :func:`recall_at_k_interval`. Wilson's interval takes p (1 - p) / Var p for the number of trials, and k where p is 0
    or 1. In design "stratified", where m is fixed and p(k) = r(k) m / k, it is the interval of recall times m / k. The
    estimand is the limit: precision, in the population, of the threshold that the share k / n of all items reaches.

    ==========  ======  ============  ===================  ===================
    design      m       k             covers, at 80%       covers, at 95%
    ==========  ======  ============  ===================  ===================
    iid         random  m / 2 to 5 m  .787 / .800 / .816   .940 / .951 / .958
    iid         random  1             .715 / .981 / 1      .833 / 1 / 1
    iid         random  5             .651 / .836 / .997   .840 / .964 / .997
    iid         random  10            .766 / .831 / .987   .843 / .949 / .987
    iid         random  20            .722 / .802 / .938   .914 / .956 / .969
    stratified  fixed   m / 2 to 5 m  .782 / .803 / .824   .943 / .950 / .957
    stratified  fixed   1             .739 / 1 / 1         .962 / 1 / 1
    stratified  fixed   5             .824 / .931 / 1      .896 / .950 / 1
    stratified  fixed   10            .616 / .807 / 1      .775 / .920 / 1
    stratified  fixed   20            .647 / .821 / .998   .846 / .947 / 1
    stratified  random  m / 2 to 5 m  .180 / .643 / .769   .270 / .838 / .935
    ==========  ======  ============  ===================  ===================

    Coverage as there. Few trials have few shares: the least figures of k up to 10 are of limits of .9 to .99, which
    Wilson's interval of the next lower share misses.

    Args:
        preds, target, k, confidence_level, design: as for :func:`recall_at_k_interval`.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors. In design "stratified" NaN without hits or
        without misses, and for k = N, where precision is m / N by definition, no wider than that.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals no other package's; for k = N Wilson's of m hits among N items. Source: as for :func:`recall_at_k_interval`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import precision_at_k_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = precision_at_k_interval(preds, target, 10)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.488, 0.8, 0.944]
    """
    cut, reason = _checked(preds, target, k, confidence_level, design)
    found = cut.precision(confidence_level, design)
    return replace(found, reason=reason or found.reason) if design == "stratified" else found


@dataclass(frozen=True, eq=False)
class Cut:
    """Rankings of n items each, cut at rank k.

    Attributes:
        n: items.
        k: the rank.
        m: 0-d or (S,) float64, hits of each ranking.
        hits: h(k), of that shape.
        local: the share of hits near rank k, of that shape.
    """

    n: int
    k: int
    m: Tensor
    hits: Tensor
    local: Tensor

    def precision(self, confidence_level: float, design: str) -> Interval:
        """The interval of precision among the top k of each ranking."""
        share = self.hits / self.k
        if design == "iid":
            variance = (share * (1 - share) + (share - self.local) ** 2 * (1 - self.k / self.n)) / self.k
            return _interval(share, variance, torch.full_like(share, self.k), confidence_level, design)
        found, scale = self.recall(confidence_level, design), self.m / self.k
        low, high, error = found.low * scale, (found.high * scale).clamp(max=1), found.standard_error * scale
        return replace(found, estimate=share, low=low, high=high, standard_error=error)

    def recall(self, confidence_level: float, design: str) -> Interval:
        """The interval of recall among the top k of each ranking; NaN without hits or without misses."""
        share, none = self.hits / self.m, torch.where((self.m > 0) & (self.m < self.n), 0.0, torch.nan)
        if self.k == self.n:
            return Interval(share, share + none, share + none, none, confidence_level, _METHOD, design, _ALL)
        variance = self._iid(share) if design == "iid" else self._stratified(share)
        return _interval(share, variance + none, self.m, confidence_level, design)

    def _iid(self, recall: Tensor) -> Tensor:
        found, lost, wrong = self.hits, self.m - self.hits, self.k - self.hits
        squares = found * (1 - self.local - recall) ** 2 + lost * recall**2 + wrong * self.local**2
        # the mean over all items of (Y - local) 1{top k} - r Y is -local k / n
        return (squares - (self.local * self.k) ** 2 / self.n) / self.m**2

    def _stratified(self, recall: Tensor) -> Tensor:
        q = self.n - self.m
        odds, fall_out = self.local * q / self.m, (self.k - self.hits) / q
        return (1 - self.local) ** 2 * recall * (1 - recall) / self.m + odds**2 * fall_out * (1 - fall_out) / q


def window(n: int, k: int) -> tuple[float, float]:
    """The ranks between which the share of hits near rank k is taken."""
    reach = max(10.0, 0.3 * k)
    return max(0.0, k - reach), min(float(n), k + reach)


def _checked(preds: Tensor, target: Tensor, k: int, confidence_level: float, design: str) -> tuple[Cut, str]:
    """One ranking cut at rank k, and why its recall has no interval."""
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("design", design, DESIGNS)
    curve = curve_of_one(preds, target)
    k = checks.rank("k", k, int(curve.n))
    n, m, (low, high) = int(curve.n), segments.as_float64(curve.m)[0], window(int(curve.n), k)
    hits, below, above = hits_at(curve, m.new_tensor([k, low, high]))
    reason = f"no {'misses' if m else 'hits'}: the ends are NaN" if m in (0, n) else ""
    return Cut(n, k, m, hits, (above - below) / (high - low)), reason


def _interval(share: Tensor, variance: Tensor, trials: Tensor, confidence_level: float, design: str) -> Interval:
    """Wilson's interval with the number of trials that has this variance, or with ``trials`` where share is 0 or 1."""
    inside = (share > 0) & (share < 1) & ~(variance <= 0)
    ends = wilson(share, torch.where(inside, share * (1 - share) / variance, trials), normal_quantile(confidence_level))
    return Interval(share, *ends, variance.sqrt(), confidence_level, _METHOD, design)


def proportion_interval(
    successes: int,
    trials: int,
    *,
    confidence_level: float = 0.95,
    method: Method = "wilson",
) -> Interval:
    """A confidence interval for a share of independent trials: recall or precision at a threshold fixed in advance.

    Recall: TP of TP + FN; precision: TP of TP + FP. At a fixed *rank* these are not independent trials: use
    :func:`recall_at_k_interval`; under chance, :class:`torch_ap.inference.hits.RandomHits`. The estimand is the share
    in the population, the probability of success.

    For precision and recall of 50 to 1,000 items at 95% "wilson" covers .946 to .960 and "clopper-pearson" .954 to .988
    (``benchmarks.coverage``).

    Args:
        successes: 0 to ``trials``.
        trials: at least 0.
        confidence_level: nominal coverage, in (0, 1).
        method: "wilson", near the confidence level on average; or "clopper-pearson", never below it.

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
    trials = checks.positive_int("trials", trials, least=0)
    successes = checks.positive_int("successes", successes, least=0)
    if successes > trials:
        raise ValueError(f"`successes` must be at most `trials`, got {successes} of {trials}")
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, allowed(Method))
    count = torch.tensor(float(trials), dtype=torch.float64)
    share = successes / count
    error = torch.sqrt(share * (1 - share) / count)
    reason = "" if trials else "no trials: everything is NaN"
    if method == "wilson" or not trials:
        ends = wilson(share, count, normal_quantile(confidence_level))
    else:
        ends = _clopper_pearson(successes, trials, (1 - confidence_level) / 2)
    return Interval(share, *ends, error, confidence_level, method, "", reason)


def _clopper_pearson(successes: int, trials: int, tail: float) -> Ends:
    from scipy.special import betainccinv, betaincinv

    low = betaincinv(successes, trials - successes + 1, tail) if successes else 0.0
    high = betainccinv(successes + 1, trials - successes, tail) if successes < trials else 1.0
    return torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64)
