"""Intervals of every kind under every tie rule, against resamples and deletions computed from the definitions."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from scipy import special, stats

from tests.support import oracles_retrieval as by_order
from tests.support.oracles_inference import average_precision_by_definition
from tests.support.tolerances import FEW_TERMS, REORDERED, SINGLE
from torch_ap import (
    BinaryAveragePrecision,
    Convention,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
    RetrievalAUROC,
    RetrievalFallOut,
    RetrievalHitRate,
    RetrievalMAP,
    RetrievalMRR,
    RetrievalPrecision,
    RetrievalRecall,
)
from torch_ap.core.measures.convention import TIES
from torch_ap.core.ranking import builders
from torch_ap.inference import (
    average_precision_at_k_interval,
    average_precision_interval,
    mean_interval,
    precision_at_k_interval,
    recall_at_k_interval,
    resampling,
)
from torch_ap.inference.dirichlet import WeightedItems
from torch_ap.inference.resampling import Resampling

F = torch.float64
Q, K, B = 12, 3, 40


def items(n, rankings, tied, seed=0):
    """Return (N, C) scores and labels; about four distinct scores if tied."""
    rng = np.random.default_rng(seed)
    target = (rng.random((n, rankings)) < 0.4).astype(int)
    scores = rng.normal(size=(n, rankings)) + target
    return torch.tensor(np.round(scores) if tied else scores, dtype=F), torch.tensor(target)


def logit_ends(center, error, df):
    """Return the ends of a 95% interval by Student's t on the logit scale."""
    half = stats.t.ppf(0.975, df) * error / (center * (1 - center))
    return special.expit(special.logit(center) + np.array([-half, half]))


def bca_ends(values, estimate, acceleration):
    """Return the ends of Efron's (1987) bias-corrected and accelerated interval of 95%."""
    gaps = values - estimate
    shift = stats.norm.ppf(((gaps < -FEW_TERMS).mean() + (gaps <= FEW_TERMS).mean()) / 2)
    z = shift + stats.norm.ppf([0.025, 0.975])
    return np.quantile(values, stats.norm.cdf(shift + z / (1 - acceleration * z)))


# -- one ranking per query


def grouped_counts(scores, flags):
    """Return the hits in the top K, with a share of the tie group at the cut, and the place of the first hit."""
    order = sorted(set(scores), reverse=True)
    above, hits = 0, Fraction(0)
    for level in order:
        members = [y for s, y in zip(scores, flags, strict=True) if s == level]
        inside = max(0, min(len(members), K - above))
        hits += Fraction(inside * sum(members), len(members))
        above += len(members)
    best = max(s for s, y in zip(scores, flags, strict=True) if y)
    return hits, sum(s >= best for s in scores)


GROUPED = {
    RetrievalMAP: lambda scores, flags: average_precision_by_definition(scores, flags, "grouped"),
    RetrievalPrecision: lambda scores, flags: grouped_counts(scores, flags)[0] / K,
    RetrievalRecall: lambda scores, flags: grouped_counts(scores, flags)[0] / sum(flags),
    RetrievalFallOut: lambda scores, flags: (K - grouped_counts(scores, flags)[0]) / (len(flags) - sum(flags)),
    RetrievalMRR: lambda scores, flags: Fraction(1, grouped_counts(scores, flags)[1]),
}
ORDERED = {
    RetrievalMAP: lambda order: by_order.average_precision(order, sum(order)),
    RetrievalPrecision: lambda order: by_order.precision(order, K),
    RetrievalRecall: lambda order: by_order.recall(order, sum(order), K),
    RetrievalFallOut: lambda order: by_order.fall_out(order, K),
    RetrievalMRR: by_order.reciprocal_rank,
    RetrievalHitRate: lambda order: by_order.hit_rate(order, K),
    RetrievalAUROC: by_order.auroc,
}
AT_K = (RetrievalPrecision, RetrievalRecall, RetrievalFallOut, RetrievalHitRate)
QUERY_CASES = [(metric, ties) for metric in ORDERED for ties in TIES if ties != "grouped" or metric in GROUPED]


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize(("metric", "ties"), QUERY_CASES)
def test_intervals_of_means_over_queries(metric, ties, tied):
    scores, target = (x.T for x in items(5, Q, tied, seed=3))
    target = target.clone()
    target[:, 0], target[:, 1] = 1, 0
    measure = GROUPED[metric] if ties == "grouped" else partial(by_order.over_orders, ORDERED[metric], ties=ties)
    lists = zip(scores.tolist(), target.tolist(), strict=True)
    values = np.array([float(measure(list(x), list(y))) for x, y in lists])
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(Q)
    metric = metric(ties=ties, **({"top_k": K} if metric in AT_K else {}))
    metric.update(scores, target)
    wanted = {"t": mean + np.array([-1, 1]) * stats.t.ppf(0.975, Q - 1) * error}
    drawn = [
        resampling.multinomial(rng, np.ones(Q, np.int64), Q)
        for rng in resampling.generators(Resampling().seed(), range(B))
    ]
    replicates = np.array([values.repeat(weights).mean() for weights in drawn])
    deviations = values - mean
    acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    wanted["bootstrap-bca"] = bca_ends(replicates, mean, acceleration)
    found = mean_interval(torch.tensor(values))  # compared with the Bayesian bootstrap in `test_queries`
    wanted["dirichlet"] = float(found.low), float(found.high)
    for method, ends in wanted.items():
        found = metric.confidence_interval(method=method, n_resamples=B)
        assert (float(found.low), float(found.high)) == pytest.approx(tuple(ends), abs=SINGLE), method
        assert float(found.estimate) == pytest.approx(mean, abs=SINGLE)
    groups = {query: query // 2 for query in range(Q)}
    sums = deviations.reshape(-1, 2).sum(1)
    error = math.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / Q
    with pytest.warns(UserWarning, match="6 groups"):
        found = metric.confidence_interval(groups=groups)
    ends = logit_ends(mean, error, len(sums) - 1)
    assert (float(found.low), float(found.high)) == pytest.approx(tuple(ends), abs=SINGLE)


# -- rankings of the same items


def average(metric, scores, target, ties):
    """Return the value of a metric of (N, C) scores and labels by definition."""
    if metric.average == "micro":
        return average_precision_by_definition(scores.flatten().tolist(), target.flatten().tolist(), ties)
    columns = zip(scores.T.tolist(), target.T.tolist(), strict=True)
    values = [average_precision_by_definition(*column, ties) for column in columns]
    shares = target.sum(0).double() if metric.average == "weighted" else (target.sum(0) > 0).double()
    return float((torch.tensor(values, dtype=F).nan_to_num() * shares).sum() / shares.sum())


def metrics_of(average_name, ties, tied=False, groups=None):
    """Return a metric of labels, and for macro and weighted averages one of classes, each with its targets."""
    scores, target = items(24, 3, tied, seed=5)
    labels = MultilabelAveragePrecision(3, average=average_name, ties=ties)
    labels.update(scores, target, groups=groups)
    yield labels, scores, target
    if average_name != "micro":
        classes = MulticlassAveragePrecision(3, average=average_name, ties=ties, normalization="none")
        ids = torch.arange(24) % 3
        classes.update(scores, ids, groups=groups)
        yield classes, scores, torch.nn.functional.one_hot(ids, 3)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("average_name", ["macro", "weighted", "micro"])
def test_intervals_of_averages(average_name, ties):
    for metric, scores, target in metrics_of(average_name, ties):
        value = average(metric, scores, target, ties)
        assert float(metric.compute()) == pytest.approx(value, abs=SINGLE)
        drawn = resampling.replicate_items(lambda x: x, [torch.arange(24)], 24, Resampling(B))
        rows = [torch.arange(24).repeat_interleave(weights) for weights in drawn]
        values = np.array([average(metric, scores[x], target[x], ties) for x in rows])
        found = metric.confidence_interval(method="bootstrap-percentile", n_resamples=B)
        ends = np.quantile(values, [0.025, 0.975])
        assert (float(found.low), float(found.high)) == pytest.approx(tuple(ends), abs=REORDERED)
        assert float(found.standard_error) == pytest.approx(values.std(ddof=1), abs=REORDERED)
        if average_name == "micro":
            continue
        kept = [torch.arange(24) != item for item in range(24)]
        without = np.array([average(metric, scores[x], target[x], ties) for x in kept])
        bias = 23 * (without.mean() - value)
        error = math.sqrt(23 / 24 * ((without - without.mean()) ** 2).sum() + bias**2 / 4)
        found = metric.confidence_interval()
        assert found.method == "jackknife"
        assert float(found.standard_error) == pytest.approx(error, abs=REORDERED)
        assert float(found.bias) == pytest.approx(bias, abs=REORDERED)


@pytest.mark.parametrize("ties", TIES)
def test_delete_one_intervals_of_one_ranking(ties):
    scores, target = (x[:, 0] for x in items(20, 1, tied=False, seed=4))
    metric = BinaryAveragePrecision(ties=ties)
    metric.update(scores, target)
    lists = scores.tolist(), target.tolist()
    value = average_precision_by_definition(*lists, ties)
    without = [average_precision_by_definition(*(x[:i] + x[i + 1 :] for x in lists), ties) for i in range(20)]
    error = math.sqrt(19 / 20 * ((np.array(without) - np.mean(without)) ** 2).sum())
    m = int(target.sum())
    found = metric.confidence_interval(method="jackknife")
    assert float(found.standard_error) == pytest.approx(error, abs=REORDERED)
    ends = logit_ends(value, error, min(m, 20 - m) - 1)
    assert (float(found.low), float(found.high)) == pytest.approx(tuple(ends), abs=REORDERED)


# with tied scores, intervals exist for grouped ties only
TIES_AND_TIED = [*((ties, False) for ties in TIES), ("grouped", True)]
STEP = 1e-6  # of weights in finite differences


def weighted_ap(scores, target, weights):
    """Return the AP of items with weights and grouped ties; without ties all rules agree."""
    hits = items = total = 0.0
    for score in sorted(set(scores.tolist()), reverse=True):
        group = scores == score
        found = float((weights * target)[group].sum())
        hits, items = hits + found, items + float(weights[group].sum())
        total += found * hits / items
    return total / hits


def explicit_influence(scores, target):
    """Return the scaled deviations of hits and of misses, and the slope in the share of hits, by finite differences."""
    n, m = len(target), int(target.sum())
    ones, share = torch.ones(n, dtype=F), m / n
    slopes = []
    for item in range(n):
        change = STEP * (torch.arange(n) == item)
        slopes.append(
            (weighted_ap(scores, target, ones + change) - weighted_ap(scores, target, ones - change)) / STEP / 2
        )
    scaled = torch.tensor(slopes, dtype=F)
    for kind, size in ((target == 1, m), (target == 0, n - m)):
        scaled[kind] = size * (scaled[kind] - scaled[kind].mean()) / math.sqrt(size * (size - 1))
    more, fewer = (
        weighted_ap(scores, target, torch.where(target == 1, ones + x / share, ones - x / (1 - share)))
        for x in (STEP, -STEP)
    )
    return scaled, (more - fewer) / STEP / 2


@pytest.mark.parametrize(("ties", "tied"), TIES_AND_TIED)
@pytest.mark.parametrize("design", ["iid", "stratified"])
def test_influence_intervals_of_one_ranking(design, ties, tied):
    scores, target = (x[:, 0] for x in items(24, 1, tied, seed=4))
    metric = BinaryAveragePrecision(ties=ties)
    metric.update(scores, target)
    value = average_precision_by_definition(scores.tolist(), target.tolist(), ties)
    scaled, slope = explicit_influence(scores, target)
    m = int(target.sum())
    spread = m / 24 * (1 - m / 24) * slope**2 / 24 if design == "iid" else 0.0
    error = math.sqrt(float(scaled.square().sum()) + spread)
    found = metric.confidence_interval(design=design)
    assert (found.method, float(found.standard_error)) == ("influence", pytest.approx(error, rel=1e-6))  # differences
    ends = logit_ends(value, error, min(m, 24 - m) - 1)
    assert (float(found.low), float(found.high)) == pytest.approx(tuple(ends), abs=1e-6)  # differences
    wald = metric.confidence_interval(method="wald", design=design)
    assert float(wald.high - wald.low) == pytest.approx(2 * stats.norm.ppf(0.975) * error, rel=1e-6)  # differences


@pytest.mark.parametrize(("ties", "tied"), TIES_AND_TIED)
@pytest.mark.parametrize("average_name", ["macro", "weighted"])
def test_stratified_intervals_of_averages(average_name, ties, tied):
    for metric, scores, target in metrics_of(average_name, ties, tied):
        hits = target.sum(0).double()
        shares = hits / hits.sum() if average_name == "weighted" else torch.full((3,), 1 / 3, dtype=F)
        columns = [explicit_influence(scores[:, k], target[:, k])[0] for k in range(3)]
        total = shares @ torch.stack(columns)
        if isinstance(metric, MulticlassAveragePrecision):  # the classes are the strata
            total = total - torch.stack([total[target[:, k] == 1].mean() for k in range(3)])[torch.arange(24) % 3]
        error = float(total.square().sum().sqrt())
        found = metric.confidence_interval(method="influence", design="stratified")
        assert float(found.standard_error) == pytest.approx(error, rel=1e-6)  # differences
        if isinstance(metric, MultilabelAveragePrecision):  # each label has other strata
            continue
        strata = [torch.arange(24)[torch.arange(24) % 3 == kind] for kind in range(3)]
        drawn = resampling.replicate_items(lambda x: x, strata, 24, Resampling(B))
        rows = [torch.arange(24).repeat_interleave(weights) for weights in drawn]
        values = np.array([average(metric, scores[x], target[x], ties) for x in rows])
        found = metric.confidence_interval(method="bootstrap-percentile", design="stratified", n_resamples=B)
        ends = np.quantile(values, [0.025, 0.975])
        assert (float(found.low), float(found.high)) == pytest.approx(tuple(ends), abs=REORDERED)


@pytest.mark.parametrize(("ties", "tied"), TIES_AND_TIED)
@pytest.mark.parametrize("average_name", ["macro", "weighted", "micro"])
def test_intervals_of_averages_of_groups(average_name, ties, tied):
    groups = torch.arange(24) // 2
    for metric, scores, target in metrics_of(average_name, ties, tied, groups):
        value = average(metric, scores, target, ties)
        without = np.array([average(metric, scores[groups != x], target[groups != x], ties) for x in range(12)])
        corrects = average_name != "micro"
        bias = 11 * (without.mean() - value) * corrects
        error = math.sqrt(11 / 12 * ((without - without.mean()) ** 2).sum() + bias**2 / 4)
        sizes = target.sum(1).reshape(12, 2).sum(1).double().numpy()
        counts = [12.0, sizes.sum() ** 2 / (sizes**2).sum()]
        if not corrects:
            counts.append((6 - sizes).sum() ** 2 / ((6 - sizes) ** 2).sum())
        found = metric.confidence_interval()
        assert found.method == "jackknife"
        assert float(found.standard_error) == pytest.approx(error, abs=REORDERED)
        count = min(counts)
        df, factor = count - 1, 1.0
        if not corrects:  # one ranking
            df, factor = min(11, count * (count - 1) / 2), math.sqrt(1 + 2 / count)
        ends = logit_ends(value - bias, error * factor, df)
        assert (float(found.low), float(found.high)) == pytest.approx(tuple(ends), abs=REORDERED)


@pytest.mark.parametrize("ties", [x for x in TIES if x != "grouped"])
@pytest.mark.parametrize("average_name", ["macro", "weighted", "micro", "none"])
def test_tied_scores_have_intervals_for_grouped_ties_only(average_name, ties):
    scores, target = items(24, 3, tied=True, seed=5)
    metric = MultilabelAveragePrecision(3, average=average_name, ties=ties)
    metric.update(scores, target)
    for method in (None, "influence", "bootstrap-percentile", "dirichlet"):
        with pytest.raises(ValueError, match=r"`(ties|method)` must be"):
            metric.confidence_interval(method=method)


# -- the top of one ranking


def top_of_groups(hits, misses, share, measure):
    """Return a measure of the top share of the weight, from the weights of hits and misses of each tie group."""
    cut = share * (sum(hits) + sum(misses))
    found = above = total = 0.0
    for hit, miss in zip(hits, misses, strict=True):
        part = min(1.0, max(cut - above, 0.0) / (hit + miss)) if hit + miss else 0.0
        if part * hit:
            total += part * hit * (found + part * hit) / (above + part * (hit + miss))
        found, above = found + part * hit, above + hit + miss
    divisor = {"min": min(cut, sum(hits)), "relevant": sum(hits), "found": found}
    return {"precision": found / cut, "recall": found / sum(hits)}.get(measure) or total / divisor[measure]


TOP = {
    "precision": precision_at_k_interval,
    "recall": recall_at_k_interval,
    **{name: partial(average_precision_at_k_interval, denominator=name) for name in ("min", "relevant", "found")},
}


def drawn_ends(scores, target, share, measure):
    """Return both ends of the interval of a measure of the top share, with each draw's weights placed by hand."""
    ends, tied = [[], []], len(set(scores.tolist())) < len(scores)
    drawn = WeightedItems.from_curve(builders.from_scores(scores, target))
    for rng in resampling.generators(Resampling().seed(), range(B)):
        weights, (miss_on_top, hit_below, hit_on_top) = drawn.draw(rng)
        size = drawn.entries
        hits, unseen, above, below = np.split(weights[: 2 * size + 2], [size, size + 1, 2 * size + 1])
        inside = weights[2 * size + 2 :] if tied else np.zeros(size)
        groups = [(0.0, 0.0)]
        for hit, miss_above, tied_miss in zip(hits, above, inside, strict=True):
            groups += [(0.0, miss_above), (hit, tied_miss)]
        groups += [(0.0, below[0]), (unseen[0], 0.0)]
        low = [(0.0, miss_on_top), *groups[1:-2], groups[-2], (hit_below, 0.0)]
        high = [(hit_on_top, 0.0), *groups[1:]]
        for values, rows in zip(ends, (low, high), strict=True):
            values.append(top_of_groups(*zip(*rows, strict=True), share, measure))
    return np.quantile(ends[0], 0.025), np.quantile(ends[1], 0.975)


@pytest.mark.filterwarnings("ignore:`top_k`. .* hits in the top")
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("measure", TOP)
def test_intervals_of_the_top_k(measure, tied):
    scores, target = (x[:, 0] for x in items(30, 1, tied, seed=7))
    k = 8
    lists = scores.tolist(), target.tolist()
    levels = sorted(set(lists[0]), reverse=True)
    counts = [[sum(y == flag and s == x for s, y in zip(*lists, strict=True)) for x in levels] for flag in (1, 0)]
    estimate = top_of_groups(*counts, k / 30, measure)
    found = TOP[measure](scores, target, k, n_resamples=B)
    assert float(found.estimate) == pytest.approx(estimate, abs=REORDERED)
    wanted = drawn_ends(scores, target, k / 30, measure)
    assert (float(found.low), float(found.high)) == pytest.approx(
        (min(wanted[0], estimate), max(wanted[1], estimate)), abs=REORDERED
    )


@pytest.mark.filterwarnings("ignore:`top_k`. .* hits in the top")
@pytest.mark.parametrize(("ties", "tied"), TIES_AND_TIED)
@pytest.mark.parametrize("top_k", [8, None])
def test_dirichlet_weights_of_one_item_are_no_ties(top_k, ties, tied):
    scores, target = (x[:, 0] for x in items(30, 1, tied, seed=7))
    wanted = drawn_ends(scores, target, (top_k or 30) / 30, "min" if top_k else "relevant")
    metric = BinaryAveragePrecision(ties=ties, top_k=top_k)
    metric.update(scores, target)
    found = [metric.confidence_interval(method="dirichlet", n_resamples=B)]
    if top_k is None:
        options = {"method": "dirichlet", "convention": Convention(ties=ties), "n_resamples": B}
        found.append(average_precision_interval(scores, target, **options))
        labels = MultilabelAveragePrecision(2, average="none", ties=ties)
        labels.update(torch.stack([-scores, scores], 1), torch.stack([target, target], 1))
        both = labels.confidence_interval(method="dirichlet", n_resamples=B)
        found.append(replace(both, low=both.low[1], estimate=both.estimate[1], high=both.high[1]))
    for interval in found:
        assert (float(interval.low), float(interval.high)) == pytest.approx(wanted, abs=SINGLE)
        assert interval.low < interval.estimate < interval.high
