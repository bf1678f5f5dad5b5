"""Intervals of precision and recall: at a rank, where the threshold is random; at a threshold; at each recall."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import Design, allowed_values
from torch_ap.core.items.settings import validated_curve
from torch_ap.core.measures import interpolation
from torch_ap.core.measures.counts import hits_at
from torch_ap.core.measures.top_share import precision_at_recall, precision_in_top_share, recall_in_top_share
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking import hit_curve, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import dirichlet
from torch_ap.inference import groups as grouped
from torch_ap.inference import resampling as bootstrap
from torch_ap.inference.dirichlet import WeightedItems
from torch_ap.inference.groups import Groups
from torch_ap.inference.groups_at_k import grouped_interval_at_k
from torch_ap.inference.groups_at_recall import NO_RETRIEVED, grouped_band
from torch_ap.inference.groups_at_threshold import ItemGroups
from torch_ap.inference.record import Ends, Interval, normal_quantile, wilson
from torch_ap.inference.resampling import DESIGNS, Resampling
from torch_ap.inference.simultaneous import band_ends

Method: TypeAlias = Literal["wilson", "clopper-pearson"]
MethodAtK: TypeAlias = Literal["dirichlet", "delta-wilson"]
METHODS_AT_K = allowed_values(MethodAtK)
_METHOD = "delta-wilson"
_FEW_IN_TOP = 3  # hits or misses in the top k; with fewer, the delta method covers too little (benchmarks.coverage)
_ALL = "all items are retrieved: recall is 1 by definition"


@renamed_keywords(k="top_k")
def recall_at_k_interval(
    preds: Tensor,
    target: Tensor,
    top_k: int,
    *,
    confidence_level: float = 0.95,
    method: MethodAtK | None = None,
    design: Design = "iid",
    groups: SampleIds = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    r"""Return a confidence interval for recall at k, by Dirichlet weights of the items, or by the delta method.

    Method "dirichlet", the default of design "iid", draws weights of the items and cuts the ranking at the share k / n
    of their sum, see :mod:`torch_ap.inference.dirichlet`. It also covers on a cliff of the curve, where a good ranker
    has nearly all hits above a rank k near m. There "delta-wilson" covers as little as .773 at 95%. Over 8
    configurations on and off a cliff, "dirichlet" covers .912 to .975 (``benchmarks.coverage``). The least is on a
    cliff, with 70% of the hits scattered among the misses below it; elsewhere it covers .956 and more.

    Method "delta-wilson", for design "stratified" and for k = N, is the delta method in Wilson's form:

    .. math::
        iid:\ Var\ r = \frac{Var[(Y - \lambda) 1\{top\ k\} - r Y]}{n \pi^2}, \qquad
        stratified:\ Var\ r = (1 - \lambda)^2 \frac{r (1 - r)}{m}
                 + \Big(\frac{\lambda}{\pi}\Big)^2 (1 - \pi)^2 \frac{S (1 - S)}{q}

    over all n items, with Y the relevance of an item, pi = m / n, S the share of the misses among the top k, and lambda
    the share of hits near rank k (from k - w to k + w with w = max(10, .3 k)). Lambda accounts for the random threshold
    at rank k. The number of trials in Wilson's interval is r (1 - r) / Var r, or m if r is 0 or 1. The estimand is the
    limit: the recall, in the population, at the threshold that the share k / n of all items reaches.

    ==========  ======  ============  ===================  ===================
    design      m       k             coverage, at 80%     coverage, at 95%
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

    Coverage of "delta-wilson": minimum, median and maximum over the configurations of ``benchmarks.coverage``. Design
    "stratified" is for fixed m. It is unreliable if the top k contain almost no misses, as for small k: ``reason``
    reports fewer than 3 hits or misses there.

    Args:
        preds: (N,) scores of one ranking, no NaN; tied items on both sides of rank k count proportionally.
        target: (N,) values 0 and 1.
        top_k: rank, 1 to N.
        confidence_level: nominal coverage, in (0, 1).
        method: "dirichlet" or "delta-wilson"; None for the default, as above.
        design: "iid" (items were sampled, so the number of hits is random) or "stratified" (the numbers of hits and
            misses were fixed).
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. The delete-one-group jackknife is the method, see :mod:`torch_ap.inference.groups_at_k`. It covers
            .953 to .993 with 10 to 200 groups. Requires ``design="iid"``.
        n_resamples: number of draws of weights, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors; NaN without hits or without misses. For
        k = N, where recall is 1 by definition, both ends are 1.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. The transition probabilities of Su & Zhang's general form cannot be estimated
    from one ranking and are not used. Source: Rubin (1981) for Dirichlet weights; the delta method, with the variances
    above; Wilson (1927).

    Example:
        >>> import torch
        >>> from torch_ap.inference import recall_at_k_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = recall_at_k_interval(preds, target, 10)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.287, 0.533, 0.755]
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    curve, cut, reason, items = _validate_cut(preds, target, top_k, confidence_level, design, method, groups)
    interval, level = cut.recall(confidence_level, design), confidence_level
    if items is not None and cut.k < cut.n:
        return grouped_interval_at_k(interval.estimate, curve, *items, cut.k, recall_in_top_share, level, "R@k")
    if not cut.is_drawn(design, method):
        return replace(interval, reason=reason or interval.reason or cut.few_in_top)
    return ends_by_weights(interval, curve, cut.k, recall_in_top_share, resampling)


@renamed_keywords(k="top_k")
def precision_at_k_interval(
    preds: Tensor,
    target: Tensor,
    top_k: int,
    *,
    confidence_level: float = 0.95,
    method: MethodAtK | None = None,
    design: Design = "iid",
    groups: SampleIds = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    r"""Return a confidence interval for precision at k, by Dirichlet weights of the items, or by the delta method.

    Method "dirichlet", the default of design "iid", draws weights of the items and cuts the ranking at the share k / n
    of their sum, see :mod:`torch_ap.inference.dirichlet`. It also covers on a cliff of the curve, where a good ranker
    has nearly all hits above a rank k near m. There "delta-wilson" covers as little as .756 at 95%. Over 8
    configurations on and off a cliff, "dirichlet" covers .945 to .997 (``benchmarks.coverage``).

    Method "delta-wilson", for design "stratified" and for k = N, is the delta method in Wilson's form:

    .. math::
        iid:\ Var\ p = \frac{n}{k^2} Var[(Y - \lambda) 1\{top\ k\}]
                     = \frac{p (1 - p)}{k} + \frac{(p - \lambda)^2}{k} \Big(1 - \frac{k}{n}\Big)

    over all n items, with Y the relevance of an item and lambda the share of hits near rank k, as for
    :func:`recall_at_k_interval`. The number of trials in Wilson's interval is p (1 - p) / Var p, or k if p is 0 or 1.
    In design "stratified", where m is fixed and p(k) = r(k) m / k, it is the interval of recall times m / k. The
    estimand is the limit: the precision, in the population, at the threshold that the share k / n of all items reaches.

    ==========  ======  ============  ===================  ===================
    design      m       k             coverage, at 80%     coverage, at 95%
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

    Coverage of "delta-wilson": minimum, median and maximum over the configurations of ``benchmarks.coverage``.
    Precision at a small k has few possible values. The minima for k up to 10 occur at limits of .9 to .99, which
    Wilson's interval of the next lower value does not contain: ``reason`` reports fewer than 3 hits or misses in the
    top k.

    Args:
        preds: (N,) scores of one ranking, no NaN; tied items on both sides of rank k count proportionally.
        target: (N,) values 0 and 1.
        top_k: rank, 1 to N.
        confidence_level: nominal coverage, in (0, 1).
        method: "dirichlet" or "delta-wilson"; None for the default, as above.
        design: "iid" (items were sampled, so the number of hits is random) or "stratified" (the numbers of hits and
            misses were fixed).
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. The delete-one-group jackknife is the method, see :mod:`torch_ap.inference.groups_at_k`. It covers
            .945 to .989 with 10 to 200 groups. Requires ``design="iid"``.
        n_resamples: number of draws of weights, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors. In design "stratified", NaN without hits
        or without misses; for k = N, where precision is m / N by definition, both ends are m / N.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. For k = N, it equals Wilson's interval for m hits among N items. Source: as for
    :func:`recall_at_k_interval`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import precision_at_k_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = precision_at_k_interval(preds, target, 10)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.4, 0.8, 0.968]
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    curve, cut, reason, items = _validate_cut(preds, target, top_k, confidence_level, design, method, groups)
    interval, level = cut.precision(confidence_level, design), confidence_level
    if items is not None:
        return grouped_interval_at_k(interval.estimate, curve, *items, cut.k, precision_in_top_share, level, "P@k")
    if not cut.is_drawn(design, method):
        undefined = reason if design == "stratified" else ""
        return replace(interval, reason=undefined or interval.reason or cut.few_in_top)
    return ends_by_weights(interval, curve, cut.k, precision_in_top_share, resampling)


@dataclass(frozen=True, eq=False)
class Cut:
    """Rankings of n items each, cut at rank k.

    Attributes:
        n: number of items.
        k: the rank.
        m: 0-d or (S,) float64, number of hits of each ranking.
        hits: h(k), with the shape of ``m``.
        local: the share of hits near rank k, with the shape of ``m``.
    """

    n: int
    k: int
    m: Tensor
    hits: Tensor
    local: Tensor

    def is_drawn(self, design: str, method: str | None) -> bool:
        """Whether the interval of one ranking comes from Dirichlet weights."""
        return design == "iid" and method != "delta-wilson" and self.k < self.n and 0 < int(self.m) < self.n

    @property
    def few_in_top(self) -> str:
        """Why the interval of one ranking by the delta method may be too narrow; "" for enough hits and misses."""
        hits = float(self.hits)
        count, kind = min((hits, "hits"), (self.k - hits, "misses"))
        if count >= _FEW_IN_TOP or self.k == self.n:
            return ""
        return f"{count:g} {kind} in the top {self.k}: the interval may be too narrow"

    def precision(self, confidence_level: float, design: str) -> Interval:
        """Return the interval of precision at k of each ranking, by the delta method."""
        share = self.hits / self.k
        if design == "iid":
            variance = (share * (1 - share) + (share - self.local) ** 2 * (1 - self.k / self.n)) / self.k
            return _interval(share, variance, torch.full_like(share, self.k), confidence_level, design)
        interval, scale = self.recall(confidence_level, design), self.m / self.k
        low, high = interval.low * scale, (interval.high * scale).clamp(max=1)
        return replace(interval, estimate=share, low=low, high=high, standard_error=interval.standard_error * scale)

    def recall(self, confidence_level: float, design: str) -> Interval:
        """Return the interval of recall at k of each ranking, by the delta method; NaN without hits or misses."""
        share, mask = self.hits / self.m, torch.where((self.m > 0) & (self.m < self.n), 0.0, torch.nan)
        if self.k == self.n:
            return Interval(share, share + mask, share + mask, mask, confidence_level, _METHOD, design, _ALL)
        variance = self._iid_variance(share) if design == "iid" else self._stratified_variance(share)
        return _interval(share, variance + mask, self.m, confidence_level, design)

    def _iid_variance(self, recall: Tensor) -> Tensor:
        tp, fn, fp = self.hits, self.m - self.hits, self.k - self.hits
        squares = tp * (1 - self.local - recall) ** 2 + fn * recall**2 + fp * self.local**2
        # the mean over all items of (Y - local) 1{top k} - r Y is -local k / n
        return (squares - (self.local * self.k) ** 2 / self.n) / self.m**2

    def _stratified_variance(self, recall: Tensor) -> Tensor:
        q = self.n - self.m
        odds, fall_out = self.local * q / self.m, (self.k - self.hits) / q
        return (1 - self.local) ** 2 * recall * (1 - recall) / self.m + odds**2 * fall_out * (1 - fall_out) / q


def window(n: int, k: int) -> tuple[float, float]:
    """Return the ranks between which the share of hits near rank k is computed."""
    reach = max(10.0, 0.3 * k)
    return max(0.0, k - reach), min(float(n), k + reach)


def _validate_cut(
    preds: Tensor, target: Tensor, k: int, confidence_level: float, design: str, method: str | None, groups: SampleIds
) -> tuple[HitCurve, Cut, str, tuple[Tensor, Tensor, Tensor] | None]:
    """Return one ranking, its cut at rank k, and the reason if its recall has no interval; with groups also the items.

    The items are scores, relevance and groups, (N,) each.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("design", design, DESIGNS)
    checks.one_of("method", method, (*METHODS_AT_K, None))
    if groups is not None:
        grouped.check_design(design)
        if method is not None:
            raise_invalid("method", "must be None with `groups`", method)
    if design == "stratified" and method == "dirichlet":
        raise_invalid("method", "must be 'delta-wilson' or None in design 'stratified'", method)
    curve = validated_curve(preds, target)
    k = checks.rank("top_k", k, int(curve.n))
    n, m, (low, high) = int(curve.n), segments.as_float64(curve.m)[0], window(int(curve.n), k)
    hits, below, above = hits_at(curve, m.new_tensor([k, low, high]))
    reason = f"no {'misses' if m else 'hits'}: the ends are NaN" if m in (0, n) else ""
    ids = grouped.validate_groups(groups, target.flatten().shape, target.device)
    items = None if ids is None else (preds.detach().flatten(), target.flatten() == 1, ids)
    return curve, Cut(n, k, m, hits, (above - below) / (high - low)), reason, items


def ends_by_weights(
    interval: Interval, curve: HitCurve, k: int, measure: Callable[[HitCurve, float], Tensor], resampling: Resampling
) -> Interval:
    """Return the interval of a measure of the top items with the ends of Dirichlet weights.

    Args:
        interval: the estimate, 0-d, with other ends.
        curve: the ranking.
        k: rank of the cut.
        measure: function of a weighted curve and of the share k / n.
        resampling: settings of the draws.
    """
    items = WeightedItems.from_curve(hit_curve.top(curve, dirichlet.deepest_rank(k)))
    share, level = k / int(curve.n), interval.confidence_level
    low, high = dirichlet.replicate_ends(items, lambda drawn: measure(drawn, share), level, resampling)
    low, high = (x.to(interval.estimate) for x in (low, high))
    low, high = torch.minimum(low, interval.estimate), torch.maximum(high, interval.estimate)
    return replace(interval, low=low, high=high, method="dirichlet")


def _interval(share: Tensor, variance: Tensor, trials: Tensor, confidence_level: float, design: str) -> Interval:
    """Return Wilson's interval with the number of trials of this variance, or ``trials`` for shares of 0 and 1."""
    inside = (share > 0) & (share < 1) & ~(variance <= 0)
    ends = wilson(share, torch.where(inside, share * (1 - share) / variance, trials), normal_quantile(confidence_level))
    return Interval(share, *ends, variance.sqrt(), confidence_level, _METHOD, design)


def proportion_interval(
    successes: int, trials: int, *, confidence_level: float = 0.95, method: Method = "wilson"
) -> Interval:
    """Return a confidence interval for a proportion, such as recall or precision at a fixed threshold.

    For recall, the trials are TP + FN; for precision, TP + FP; the successes are TP. At a fixed *rank*, the trials are
    not independent: use :func:`recall_at_k_interval`, or for a random ranking
    :class:`torch_ap.inference.random_ranking.RandomHits`. The estimand is the proportion in the population, the
    probability of success.

    Coverage at 95% for precision and recall of 50 to 1,000 items: "wilson" .946 to .960, "clopper-pearson" .954 to .988
    (``benchmarks.coverage``).

    Args:
        successes: number of successes, 0 to ``trials``.
        trials: number of trials, at least 0.
        confidence_level: nominal coverage, in (0, 1).
        method: "wilson", whose mean coverage is near the confidence level; or "clopper-pearson", whose coverage is
            never below it.

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors; NaN for no trials.

    Raises:
        ValueError: if an argument is invalid.

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
    checks.one_of("method", method, allowed_values(Method))
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


@renamed_keywords(batch="chunk_size")
def precision_band(
    preds: Tensor,
    target: Tensor,
    recall_levels: Tensor | None = None,
    *,
    confidence_level: float = 0.95,
    design: str = "iid",
    groups: SampleIds = None,
    simultaneous: bool = False,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    """Return the precision at each recall level with its intervals.

    By default precision is interpolated, and the intervals are percentiles of the bootstrap. The band is pointwise: the
    coverage applies to each level separately, not to the whole curve. The estimand is the precision on the population's
    curve, the limit as items are added.

    With ``simultaneous=True``, the coverage applies to all levels together: the band contains the whole curve of the
    population. It is calibrated on draws of Dirichlet weights with pseudo-items, see
    :mod:`torch_ap.inference.simultaneous`, and exists from one hit on. The estimate is then the precision where recall
    reaches the level, without interpolation, whose maxima are biased.

    With ``groups``, items of a group may depend on each other, and the groups were drawn independently. The groups have
    random weights, and precision is not interpolated: see :mod:`torch_ap.inference.groups_at_recall`. With 10 to 200
    groups of equal and geometric sizes, the band covered .938 to .985 at recall .1 to .9, where the band of independent
    items covered as little as .058, and .963 to .991 at recall 1. With ``simultaneous=True``, it covered all 101 levels
    in .950 to .992, and in .889 to .965 for a mean precision of .9, which ``reason`` notes above .8.

    Coverage of "iid" at 95% with 30 hits of 300 items and 245 of 3,000, m random: .939 to .961 at recall .3 to .9, but
    .585 to .944 at .1, and .172 to .869 at 1, because the precision at a sample's last hit is above the limit
    (``benchmarks.coverage``, 2,000 repetitions). ``reason`` notes levels up to .1, except 0, and above .9.

    Args:
        preds: (N,) scores of one ranking, no NaN; other shapes are flattened.
        target: values 0 and 1, with the shape of ``preds``.
        recall_levels: (R,) floating tensor in [0, 1]; None for the 101 of COCO.
        confidence_level: nominal coverage, in (0, 1).
        design: "iid" or "stratified", as for :func:`torch_ap.inference.average_precision_interval`.
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. Requires ``design="iid"``. With fewer than 10 groups with hits, a warning is raised.
        simultaneous: whether the band covers all levels together.
        n_resamples: number of bootstrap resamples or draws of weights, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` of (R,) float64 tensors; NaN ends with fewer than two hits,
        without misses, or with fewer than two effective groups.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Source: Efron (1979); Rubin (1981) for Dirichlet weights; precision interpolated as in Everingham et al. (2010),
    section 4.2.

    Example:
        >>> import torch
        >>> from torch_ap.inference import precision_band
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> band = precision_band(preds, target, torch.tensor([0.0, 0.5, 1.0]))
        >>> [round(float(x), 4) for x in band.estimate]
        [1.0, 0.8, 0.75]
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    curve = validated_curve(preds, target)
    ids = grouped.validate_groups(groups, target.flatten().shape, target.device)
    items = None
    if ids is not None:
        item_groups = Groups.from_ids(ids)
        items = ItemGroups(preds.detach().flatten(), target.flatten() == 1, item_groups.ids, item_groups.count)
    options = (recall_levels, confidence_level, design, resampling)
    return band_of_curve(curve, *options, simultaneous=simultaneous, groups=items)


def band_of_curve(
    curve: HitCurve,
    recall_levels: Tensor | None,
    confidence_level: float,
    design: str,
    resampling: Resampling,
    *,
    simultaneous: bool = False,
    groups: ItemGroups | None = None,
) -> Interval:
    """Compute :func:`precision_band` of the hit curve of one unweighted ranking, with its items if in groups."""
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("design", design, DESIGNS)
    if recall_levels is not None:
        tensors.recall_levels("recall_levels", recall_levels)
    device = curve.m.device
    levels = interpolation.recall_levels("101-point", device) if recall_levels is None else recall_levels.to(device)
    checks.boolean("simultaneous", simultaneous)
    if groups is not None:
        grouped.check_design(design)
        return grouped_band(curve, groups, levels, confidence_level, resampling, simultaneous=simultaneous)
    if simultaneous:
        return _simultaneous_band(curve, levels, confidence_level, design, resampling)
    estimate = interpolation.precision_at_levels(curve, levels)[0]
    if int(curve.m) < 2 or int(curve.m) == int(curve.n):
        nan = torch.full_like(estimate, torch.nan)
        reason = "fewer than two hits, or no misses: the ends are NaN"
        return Interval(estimate, nan, nan, nan, confidence_level, "bootstrap-percentile", design, reason)
    values = bootstrap.replicates(curve, lambda x: interpolation.precision_at_levels(x, levels), design, resampling)
    tails = values.new_tensor([(1 - confidence_level) / 2, (1 + confidence_level) / 2])
    low, high = torch.nanquantile(values, tails, dim=0)
    error = values[~torch.isnan(values[:, 0])].std(0)
    reason = _reason_of_levels(levels, design)
    return Interval(estimate, low, high, error, confidence_level, "bootstrap-percentile", design, reason)


# measured coverage at 95%, at recall .1 and 1
_COVERAGE_AT_ENDS = {"iid": (".585 to .944", ".172 to .869"), "stratified": (".508 to .946", ".000 to .016")}


def _reason_of_levels(levels: Tensor, design: str) -> str:
    """Return the measured coverage if recall levels are near the ends of the curve; "" otherwise."""
    at_low, at_high = _COVERAGE_AT_ENDS[design]
    parts = [f"{at_low} at recall 0.1"] * bool(((levels > 0) & (levels <= 0.1)).any())
    parts += [f"{at_high} at recall 1"] * bool((levels > 0.9).any())
    return f"likely too high or narrow: 95% covered {' and '.join(parts)}" if parts else ""


def _simultaneous_band(
    curve: HitCurve, levels: Tensor, confidence_level: float, design: str, resampling: Resampling
) -> Interval:
    """Return the band that covers all levels together, by Dirichlet weights."""
    nan = torch.full_like(segments.as_float64(levels), torch.nan)
    m, n = int(curve.m), int(curve.n)
    if not m or (design == "stratified" and m == n):
        reason = f"no {'misses' if m else 'hits'}: the ends are NaN"
        return Interval(nan, nan, nan, nan, confidence_level, "dirichlet", design, reason)
    if not len(curve.hits):
        return Interval(torch.zeros_like(nan), nan, nan, nan, confidence_level, "dirichlet", design, NO_RETRIEVED)

    def measure(ranking: HitCurve) -> Tensor:
        ranking = hit_curve.at_prevalence(ranking, m / n) if design == "stratified" else ranking
        return precision_at_recall(ranking, levels.to(ranking.hits.device))

    draws = dirichlet.replicates(WeightedItems.from_curve(curve), measure, resampling)
    low, high = (end.to(nan) for end in band_ends(*draws, confidence_level))
    estimate = precision_at_recall(curve, levels)[0]
    low, high = torch.minimum(low, estimate), torch.maximum(high, estimate)  # misses may be above a large tie group
    return Interval(estimate, low, high, nan, confidence_level, "dirichlet", design)
