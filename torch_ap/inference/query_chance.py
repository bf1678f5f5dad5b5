r"""Test of mean average precision against chance: the labels of each query in random order.

Under chance, the queries are independent, so mean and variance of MAP are sums over the queries, and exact. The
p-value comes from random orders of the labels, drawn for each query. Below 1 / B, which B orders cannot resolve, it
comes from a gamma distribution with the same mean E, variance V and least value l:

.. math::
    MAP - l \sim Gamma\Big(\frac{(E - l)^2}{V}, \frac{V}{E - l}\Big), \qquad
    l = \frac{1}{Q} \sum_q \frac{1}{norm_q} \sum_{j : n - m + j \le k} \frac{j}{n - m + j}

l is the value with all relevant documents last, without ties. A normal distribution is not used, because its tail is
far too small for few queries. For 3 to 300 queries, the gamma distribution rejects 4.7 to 5.5% of random rankings at
nominal 5%, .9 to 2.4% at 1% and .01 to .5% at .1%; the normal distribution 5.8 to 6.8%, 1.6 to 3.9% and .3 to 2.8%
(``benchmarks.coverage``, 20,000 draws). So p-values below 1 / B are approximate. They are too small for long rankings
with few relevant documents: at .1%, with 20 of 1,000 documents relevant, by a factor of 6 for 10 queries and of 2 for
300. For a single ranking, the factor is 11 there, and 1.5 for 10 of 100 (400,000 draws). The gamma distribution is
therefore not used for one ranking, unless ``method="gamma"`` requests it.

Queries in groups, such as a topic or a user, may depend on each other, also under chance. "t" then tests whether MAP is
above its chance level in the population of groups, one-sided: with d_q the AP of a query minus its chance level,

.. math::
    t = \frac{\bar d}{SE}, \qquad SE^2 = \frac{G}{G - 1} \sum_g \Big(\frac{1}{Q} \sum_{q \in g} (d_q - \bar d)\Big)^2

with the degrees of freedom of :func:`torch_ap.inference.mean_interval` for queries in groups. SE is at least the exact
standard deviation of MAP under chance for independent queries. Perfect rankings have no spread, so that the data do not
show how much the queries of a group depend on each other. If all APs are equal, SE is therefore at least the largest
standard deviation under chance for any dependence inside the groups, with the standard deviation s_q of each AP,

.. math::
    SE^2 \ge \frac{1}{Q^2} \sum_g \Big(\sum_{q \in g} s_q\Big)^2
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import DenominatorOfChance, allowed_values
from torch_ap.core.items.inputs import ClassificationInputs
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ties import cut_rank, divisor, harmonic_difference
from torch_ap.core.measures.top_share import average_precision_in_top_share
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking import builders, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference.chance import ChanceTest
from torch_ap.inference.chance_moments import moments_of_sums
from torch_ap.inference.comparison import PairedGroups, logit_test
from torch_ap.inference.groups import NO_SPREAD, Groups, effective_number, few_groups_reason, validate_groups
from torch_ap.inference.groups_at_k import effective_count_in_top, values_without_groups_at_k
from torch_ap.inference.queries import grouped_error
from torch_ap.inference.record import SAME_VALUE, student_tail
from torch_ap.inference.resampling import Resampling, curve_from_counts

QueryChanceMethod: TypeAlias = Literal["auto", "permutation", "gamma", "t"]
_ANY_LEVEL = 0.95  # of an interval that is not used
_NO_P_VALUE = "equal values without each group: no p by t"
ChanceTies: TypeAlias = Literal["expected", "grouped"]


def chance_test_of_queries(
    preds: Tensor,
    target: Tensor,
    indexes: Tensor | None = None,
    *,
    top_k: int | None = None,
    denominator: DenominatorOfChance = "min",
    ties: ChanceTies = "expected",
    method: QueryChanceMethod = "auto",
    groups: SampleIds = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> ChanceTest:
    """Test whether MAP or MAP@k is better than the MAP of random orders of each query's labels.

    p = P(MAP* >= MAP) is (b + 1) / (B + 1), if b of B random orders are at least as good. Then P(p <= alpha) <= alpha
    for any number of queries. If no order is, p of several queries is the smaller of 1 / (B + 1) and the tail of the
    gamma distribution of :mod:`torch_ap.inference.query_chance`, which is approximate. For one ranking, whose AP has a
    much longer tail, p is 1 / (B + 1): use more random orders, or for AP of few items the exact p-value of
    :func:`torch_ap.inference.chance_test`.

    Args:
        preds: scores of the documents, no NaN: (N,), (Q, N) with one query per row, or any shape with ``indexes``. Ties
            remain in the random orders.
        target: values 0 and 1, with the shape of ``preds``.
        indexes: integers in the shape of ``preds``: the query of each document; None for rows, and for one ranking,
            (N,), to test AP@k. A query without relevant documents does not count, because its order has no effect.
        top_k: k of MAP@k, at least 1; None for MAP.
        denominator: divisor of AP@k: "min" min(k, m), or "relevant" m.
        ties: "expected" (mean over the orders of tied scores) or "grouped" (they form one threshold).
        method: "permutation", "gamma", or "auto": permutation, and gamma if no order of several queries is as good.
            With ``groups`` of queries "auto" is "t", the test of :mod:`torch_ap.inference.query_chance`; the other two
            then require that the labels of different queries are independent.
        groups: (N,) integers, a tensor or a list, None for independent items. The group of each document's query, such
            as a topic or a user, for rows (Q,), or for AP@k of one ranking the group of each item, such as a patient.
            Whether AP@k is above chance in the population of groups of items is tested as by "jackknife" in
            :func:`torch_ap.inference.chance_test`: by the logits of AP@k and of its chance level, from both values
            without each group. At nominal 5%, with 10 to 200 groups, it rejects .8 to 4.6% of rankings without skill,
            and "t" for queries .9 to 2.6%, where independent queries are assumed 11 to 19% (``benchmarks.coverage``).
        n_resamples: number B of random orders, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`ChanceTest`; its ``estimate`` is MAP over the queries with relevant documents, and its mean and
        standard deviation are exact. All values are NaN if no query has a relevant document.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals ``scipy.stats.permutation_test`` of MAP over the labels of each query. The method of
    :class:`torch_ap.RetrievalMAP` also accounts for documents that were not retrieved. Source: Phipson & Smyth (2010)
    for (b + 1) / (B + 1); Hoeffding (1948) for the moments.

    Example:
        >>> import torch
        >>> from torch_ap.inference import chance_test_of_queries
        >>> indexes = torch.arange(6).repeat_interleave(5)
        >>> target = torch.tensor([1, 0, 0, 0, 0, 1, 0, 1, 0, 0]).repeat(3)
        >>> found = chance_test_of_queries(-torch.arange(30.0), target, indexes)
        >>> round(float(found.estimate), 4), round(float(found.chance_level), 4), round(float(found.p_value), 4)
        (0.9167, 0.5246, 0.001)
    """
    checks.one_of("denominator", denominator, allowed_values(DenominatorOfChance))
    checks.one_of("ties", ties, allowed_values(ChanceTies))
    measure = Convention(top_k=checks.positive_int("top_k", top_k, optional=True), denominator=denominator, ties=ties)
    checks.one_of("method", method, allowed_values(QueryChanceMethod))
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    batch = ClassificationInputs().validate_now(preds, target)
    relevant = batch.target.flatten() == 1
    has_rows = indexes is None and preds.ndim == 2
    if indexes is None:
        tensors.rows("preds", preds)
        number = torch.arange(len(preds) if has_rows else 1, device=preds.device)
        indexes = (number[:, None] if has_rows else number).expand_as(preds)
    tensors.indexes(indexes, preds)
    queries = Groups.from_ids(segments.as_int64(indexes.detach().flatten()))
    curve = builders.from_scores(
        batch.scores.flatten(), relevant, segment=queries.ids, segments_count=queries.count, keep_all_groups=True
    )
    has_hits = curve.m > 0
    weights = segments.as_float64(has_hits) / has_hits.sum().clamp(min=1)
    shape, unit = (preds.shape[:1], "row") if has_rows else (relevant.shape, "item")
    ids = validate_groups(groups, shape, relevant.device, unit)
    if ids is not None and has_rows:
        ids = ids[indexes.flatten()]
    is_split = has_rows or queries.count != 1
    group = None if ids is None or not is_split else _groups_of_queries(queries, ids).where(has_hits, -1)
    rankings = RandomLabels(curve, curve, curve.hits_seen, measure, weights, group=group)
    if ids is None or is_split:
        return rankings.test(method, resampling).to(preds.device)
    if top_k is None:
        raise_invalid("top_k", "must be a rank with `groups` of items; for AP use `chance_test`", top_k)
    if method != "auto":
        raise_invalid("method", "must be 'auto' with `groups` of items", method)
    if not 0 < int(relevant.sum()) < len(relevant) or len(curve.items) == 1:  # all orders are alike
        return rankings.test(method, resampling).to(preds.device)
    return _test_in_groups(rankings, batch.scores.flatten(), relevant, ids).to(preds.device)


def _groups_of_queries(queries: Groups, ids: Tensor) -> Tensor:
    """Return the number of the group of each query, (Q,), from the groups of its documents."""
    ids = Groups.from_ids(ids).ids
    groups = ids.new_zeros(queries.count).scatter_(0, queries.ids, ids)
    differ = groups[queries.ids] != ids
    if bool(differ.any()):
        raise_invalid("groups", "must be equal for all documents of a query", Plain("two for one query"))
    return groups


def _test_in_groups(rankings: "RandomLabels", scores: Tensor, relevant: Tensor, ids: Tensor) -> ChanceTest:
    """Return the comparison of AP@k of one ranking with chance, by both values without each group.

    The chance level of the items outside a group is that at the same share k / n, without ties.
    """
    measure, groups, n = rankings.measure, Groups.from_ids(ids).pooled(), len(relevant)
    assert isinstance(measure.top_k, int)
    value, (mean, variance, _) = float(measure(rankings.curve)), rankings.moments
    k = min(measure.top_k, n)
    top = partial(average_precision_in_top_share, denominator=measure.denominator, ties=measure.rule.name)
    without = values_without_groups_at_k(builders.from_scores(scores, relevant), scores, relevant, groups, k, top)
    # one tie group of all items outside each group, whose mean over all orders is the chance level
    m, none = relevant.sum() - groups.hits(relevant), torch.zeros_like(groups.sizes)
    misses = n - groups.sizes - m
    alike = curve_from_counts(torch.stack([m, none], 1), torch.stack([none, none, misses], 1))
    values = [without, average_precision_in_top_share(alike, k / n, measure.denominator, "expected")]
    pair = PairedGroups(values, groups, relevant, effective_count_in_top(groups, scores, k))
    p, reason = 1.0, pair.reason
    if pair.df < 1:
        p = math.nan
    elif value > 0:  # a value of 0 has no logit
        two_sided = logit_test((value, mean), pair, _ANY_LEVEL)[2]
        p = two_sided / 2 if value > mean else 1 - two_sided / 2
        reason = reason or (_NO_P_VALUE if math.isnan(p) else "")
    deviation = math.sqrt(variance)
    numbers = (value, mean, deviation, (value - mean) / deviation, p, value / mean, (value - mean) / (1 - mean))
    return ChanceTest.from_numbers(*numbers, method="jackknife", reason=reason)


@dataclass(frozen=True, eq=False)
class RandomLabels:
    """Weighted sum of the APs of S rankings, whose labels can be drawn in random order.

    Attributes:
        curve: the rankings.
        groups: rankings with an entry for every tie group of the same items; the last ones may be missing if they
            have no items.
        hits: (S,) int64 relevant items among the ranked items.
        measure: AP or AP@k, with ties "expected" or "grouped" and a closed form of its chance level.
        weights: (S,) float64 weight of each AP; 0 for rankings whose AP is undefined.
        constant: added to the sum, for rankings without relevant items.
        group: (S,) int64 group of each ranking that counts in the mean, -1 for the others; None for independent ones.
    """

    curve: HitCurve
    groups: HitCurve
    hits: Tensor
    measure: Convention
    weights: Tensor
    constant: float = 0.0
    group: Tensor | None = None

    def __post_init__(self) -> None:
        check_convention(self.measure)

    def test(self, method: str, resampling: Resampling) -> ChanceTest:
        """Return the comparison of the sum with its distribution under random orders of the labels."""
        if method == "t" and self.group is None:
            raise_invalid("method", "must be 'auto', 'permutation' or 'gamma' without `groups`", method)
        value = self._sum(self.measure(self.curve)[None])[0].item()
        if math.isnan(value) or not bool((self.weights * self.hits > 0).any()):
            reason = "a query's value is NaN" if math.isnan(value) else "no query has a ranked relevant item"
            return ChanceTest.from_numbers(*[math.nan] * 7, method="permutation", reason=reason)
        mean, variance, least = self.moments
        deviation = math.sqrt(variance)
        tail = gamma_tail(value, mean, variance, least)
        chosen, p, reason = "gamma", tail, ""
        is_single = int((self.weights * self._parts[1] > 0).sum()) == 1
        if self.group is not None and method in ("auto", "t"):
            chosen, (p, reason) = "t", self._grouped_p_value(Groups.from_ids(self.group[self.group >= 0]))
        elif method != "gamma":
            values = self.draw(resampling)
            reached, count = int((values >= value - SAME_VALUE).sum()), len(values)
            p, chosen = (reached + 1) / (count + 1), "permutation"
            if not reached and method == "auto" and tail < p and not is_single:
                p, chosen, reason = tail, "gamma", f"none of {count} permutations is as good: p by the gamma law"
            elif not reached:
                reason = f"p_value is the smallest possible with {count} permutations"
        elif is_single:
            reason = "the tail of the gamma law is too light for one ranking: p is likely too small"
        z = (value - mean) / deviation if deviation > 0 else 0.0
        corrected = (value - mean) / (1 - mean) if 1 - mean > SAME_VALUE else math.nan
        numbers = (value, mean, deviation, z, p, value / mean, corrected)
        return ChanceTest.from_numbers(*numbers, method=chosen, reason=reason)

    def _grouped_p_value(self, groups: Groups) -> tuple[float, str]:
        """Return the one-sided p-value of the mean of the values minus their chance levels by t, and the reason.

        Args:
            groups: the groups of the rankings that count in the mean.
        """
        assert self.group is not None
        mean, variance, _ = self._parts
        columns = torch.stack([self.measure(self.curve), mean, variance.sqrt()])
        own, expected, spread = torch.where(self.weights > 0, columns, 0)[:, self.group >= 0]
        df = effective_number(groups.sizes) - 1
        if df < 1:
            return math.nan, f"{NO_SPREAD}: no p by t"
        gap = own - expected
        is_equal = bool((own.amax() - own.amin()) < SAME_VALUE)
        least = float((groups.sums(spread) if is_equal else spread).norm()) / len(own)
        error = float(grouped_error(gap, groups))
        if not max(error, least) > SAME_VALUE:
            return 1.0, "all differences are zero: p = 1 by definition"
        reason = few_groups_reason(torch.tensor(groups.count), "queries")
        if error < least:
            what = "all values are equal" if is_equal else "the values vary less than under chance"
            reason = "; ".join(filter(None, [reason, f"{what}: the standard error is that of random orders"]))
        p = student_tail(abs(float(gap.mean())) / max(error, least), df) / 2
        return p if gap.mean() > 0 else 1 - p, reason

    def draw(self, resampling: Resampling) -> Tensor:
        """Return the sum for random orders of the labels, (B,) float64."""
        labels = self._labels

        def evaluate(rngs: list[np.random.Generator]) -> Tensor:
            curve = labels.curve(np.stack([labels.draw(rng) for rng in rngs]))
            return self._sum(self.measure(curve).reshape(len(rngs), -1))

        return torch.cat(resampling.map_tasks(evaluate, 4 * int(self.groups.n.sum())))

    def _sum(self, values: Tensor) -> Tensor:
        weights = self.weights.cpu()
        return torch.where(weights > 0, values.cpu(), 0) @ weights + self.constant

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """Exact mean and variance of the sum, and its value with all hits last."""
        mean, variance, least = self._parts
        return (
            float(self.weights @ mean) + self.constant,
            float(self.weights.square() @ variance),
            float(self.weights @ least) + self.constant,
        )

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance of the AP of each ranking, and its value with all hits last, (S,) each."""
        k = cut_rank(self.measure.top_k, self.curve)
        size = len(self.weights)
        rank = k if k is None or isinstance(k, int) else k[: len(self.groups.n)]
        sums = moments_of_sums(self.groups, self.hits[: len(self.groups.n)], rank, self.measure.rule.name)
        mean, variance = (torch.cat([x, x.new_zeros(size - len(x))]) for x in sums)
        n, hits = segments.as_float64(self.curve.n), segments.as_float64(self.hits)
        misses = n - hits
        last = ((n if k is None else n.clamp(max=k)) - misses).clamp(min=0)
        least = last - misses * harmonic_difference(misses, last)
        norm = torch.where(self.weights > 0, segments.as_float64(divisor(self.measure.denominator, self.curve.m, k)), 1)
        return mean / norm, variance / norm.square(), least / norm

    @cached_property
    def _labels(self) -> "_Labels":
        return _Labels(self.groups, self.curve.m, self.hits)


def check_convention(measure: Any) -> None:
    """Raise ValueError unless the measure is AP or AP@k with a closed form of its moments under chance."""
    if not isinstance(measure, Convention):
        raise ValueError("a test against chance requires average precision at one rank")
    if measure.interpolation is not None:
        raise_invalid("interpolation", "must be None for a test against chance", measure.interpolation)
    checks.one_of("ties", measure.rule.name, allowed_values(ChanceTies))
    if measure.top_k is not None:
        checks.one_of("denominator", measure.denominator, allowed_values(DenominatorOfChance))


def gamma_tail(value: float, mean: float, variance: float, least: float) -> float:
    """Return P(X >= value) for a gamma distribution shifted by ``least`` with this mean and variance."""
    if not variance > 0 or value <= least:
        return float(value <= mean + SAME_VALUE)
    excess = mean - least
    shape, x = excess**2 / variance, (value - least) * excess / variance
    return float(torch.special.gammaincc(*torch.tensor([shape, x], dtype=torch.float64)))


class _Labels:
    """Random labels of the items of rankings, and the hit curves of these labels.

    The items of each ranking have consecutive numbers, best first. Of the hits and the misses of a ranking, the rarer
    kind is drawn: numbers with replacement, of which repeated numbers are drawn again.
    """

    def __init__(self, groups: HitCurve, m: Tensor, hits: Tensor) -> None:
        sizes, above, offsets, n = (
            x.cpu().numpy() for x in (groups.items, groups.items_above, groups.offsets, groups.n)
        )
        self._m, every_hit = m.cpu().numpy(), hits.cpu().numpy()
        missing = len(self._m) - len(n)
        self._n, self._hits = np.append(n, np.zeros(missing, np.int64)), every_hit
        self._sizes, self._above, self._is_untied = sizes, above, bool((sizes == 1).all())
        self._query = segments.ids(np.append(offsets, np.repeat(offsets[-1:], missing)))
        self._group = np.repeat(np.arange(len(sizes)), sizes)
        misses = self._n - self._hits
        draws_misses, ends = misses < self._hits, self._n.cumsum()
        count = np.minimum(misses, self._hits)
        self._low, self._high = np.repeat(ends - self._n, count), np.repeat(ends, count)
        self._start = np.repeat(draws_misses, self._n)
        self._hits_before = self._hits.cumsum() - self._hits

    def draw(self, rng: "np.random.Generator") -> Array:
        """Return the tie group of each hit of one random order, (H,), ascending."""
        drawn = np.sort(rng.integers(self._low, self._high))
        while len(again := np.flatnonzero(drawn[1:] == drawn[:-1])):
            drawn[again] = rng.integers(self._low[again], self._high[again])
            drawn.sort()
        is_hit = self._start.copy()
        is_hit[drawn] ^= True
        return self._group[np.flatnonzero(is_hit)]

    def curve(self, drawn: Array) -> HitCurve:
        """Return the b * S curves of b draws, (b, H)."""
        count, total = drawn.shape
        rankings = len(self._m)
        code = (drawn + np.arange(count)[:, None] * len(self._sizes)).ravel()
        first = np.flatnonzero(np.append(True, code[1:] != code[:-1])) if code.size else code
        group, replicate = drawn.ravel()[first], first // max(total, 1)
        query = self._query[group]
        columns = (
            np.diff(np.append(first, code.size)),
            self._sizes[group],
            first - replicate * total - self._hits_before[query],
            self._above[group],
            segments.from_counts(segments.count(replicate * rankings + query, count * rankings)),
            np.tile(self._n, count),
            np.tile(self._m, count),
        )
        hits, items, hits_above, items_above, offsets, n, m = map(torch.from_numpy, columns)
        return HitCurve(hits, items, hits_above, items_above, None, offsets, n, m, untied=self._is_untied)
