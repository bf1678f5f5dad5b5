"""MAP against chance, compared with the enumeration of all label orders, trec-like judgements and scipy."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import Convention, RetrievalMAP
from torch_ap.core.ranking.builders import from_scores
from torch_ap.functional import retrieval_average_precision
from torch_ap.inference import chance_test_of_queries
from torch_ap.inference.query_chance import gamma_tail
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.inference.record import SAME_VALUE

SETTINGS = (
    {},
    {"ties": "grouped"},
    {"top_k": 3},
    {"top_k": 2, "denominator": "relevant"},
    {"ties": "grouped", "top_k": 3},
    {"ties": "grouped", "top_k": 4, "denominator": "relevant"},
)


def few_queries(seed=0, sizes=(5, 6, 4, 1, 3), levels=4):
    """Return scores with ties, labels and indexes of small queries, one of them with only relevant items."""
    generator = torch.Generator().manual_seed(seed)
    indexes = torch.repeat_interleave(torch.arange(len(sizes)) * 7, torch.tensor(sizes))
    preds = torch.randint(levels, indexes.shape, generator=generator).double()
    target = (torch.rand(indexes.shape, generator=generator) < 0.5).long()
    target[0], target[indexes == 21] = 1, 1
    return preds, target, indexes


def all_values(scores, hits, unseen=0, **settings):
    """Return the AP of every order of the labels."""
    measure, n = Convention(**{"ties": "expected"} | settings), len(scores)
    values = []
    for places in itertools.combinations(range(n), hits):
        relevant = torch.zeros(n, dtype=torch.bool)
        relevant[list(places)] = True
        values.append(float(measure(from_scores(scores, relevant, m=torch.tensor([hits + unseen])))))
    return values


def all_means(preds, target, indexes, unseen=None, **settings):
    """Return the MAP of every combination of orders, over queries with relevant items."""
    values = []
    for query in indexes.unique().tolist():
        inside = indexes == query
        more = (unseen or {}).get(query, 0)
        if target[inside].sum() + more:
            values.append(all_values(preds[inside], int(target[inside].sum()), more, **settings))
    return np.array([np.mean(x) for x in itertools.product(*values)])


def agrees(found, means):
    value = float(found.estimate)
    assert float(found.chance_level) == pytest.approx(means.mean(), rel=REORDERED)
    assert float(found.standard_deviation) == pytest.approx(means.std(), rel=REORDERED)
    p = (means >= value - 1e-9).mean()
    assert abs(float(found.p_value) - p) < 4.5 * math.sqrt(p * (1 - p) / 2000) + 1 / 2000
    assert float(found.z) == pytest.approx((value - means.mean()) / means.std())
    assert float(found.lift) == pytest.approx(value / means.mean())
    assert float(found.corrected) == pytest.approx((value - means.mean()) / (1 - means.mean()))


@each("settings", SETTINGS)
def test_agrees_with_all_orders_of_the_labels(settings):
    preds, target, indexes = few_queries()
    found = chance_test_of_queries(preds, target, indexes, n_resamples=2000, **settings)
    agrees(found, all_means(preds, target, indexes, **settings))
    rows = retrieval_average_precision(preds, target, indexes=indexes, empty_target_action="skip", **settings)
    assert float(found.estimate) == pytest.approx(float(rows.nanmean()))
    assert found.method == "permutation"


@each("settings", SETTINGS)
def test_rows_are_queries(settings):
    preds, target, indexes = few_queries(sizes=(5,) * 5)
    rows = preds.reshape(5, 5), target.reshape(5, 5)
    found = chance_test_of_queries(*rows, n_resamples=2000, **settings)
    agrees(found, all_means(preds, target, indexes, **settings))
    metric = RetrievalMAP("skip", **settings)
    metric.update(*rows)
    assert float(metric.compute()) == pytest.approx(float(found.estimate))
    groups = torch.tensor([3, 3, 8, 9, 8])
    with pytest.warns(UserWarning, match="3 groups with queries"):
        grouped = chance_test_of_queries(*rows, groups=groups.tolist(), **settings)
    assert grouped.method == "t"
    with pytest.warns(UserWarning, match="3 groups with queries"):
        wanted = chance_test_of_queries(preds, target, indexes, groups=groups.repeat_interleave(5), **settings)
    assert grouped == wanted
    single = chance_test_of_queries(*(x[:1] for x in rows), n_resamples=50, groups=[4], **settings)
    assert "fewer than two groups" in single.reason


@each("settings", SETTINGS)
def test_metric_counts_unseen_items_and_missing_queries(settings):
    preds, target, indexes = few_queries(1)
    counts = {query: int(target[indexes == query].sum()) for query in indexes.unique().tolist()}
    unseen = {0: 2, 14: 1}
    metric = RetrievalMAP(**settings)
    metric.update(preds, target, indexes, num_relevant={q: m + unseen.get(q, 0) for q, m in counts.items()} | {99: 3})
    found = metric.chance_test(n_resamples=2000)
    means = all_means(preds, target, indexes, unseen, **settings)
    queries = sum(counts[q] + unseen.get(q, 0) > 0 for q in counts)
    agrees(found, means * queries / (len(counts) + 1))  # the other queries count 0
    assert found.estimate == pytest.approx(float(metric.compute()))
    assert found.chance_level == pytest.approx(float(metric.chance_level()), rel=1e-6)
    assert found.estimate.dtype == torch.float64


def test_undefined_queries_count_as_set():
    preds, target, indexes = few_queries(2)
    target[indexes == 0] = 0
    values = {}
    for action in ("neg", "pos", "skip", "nan"):
        metric = RetrievalMAP(action)
        metric.update(preds, target, indexes)
        values[action] = metric.chance_test(n_resamples=100)
        assert values[action].estimate == pytest.approx(float(metric.compute()), nan_ok=True)
        if action != "nan":
            # results in float32
            assert values[action].chance_level == pytest.approx(float(metric.chance_level()), rel=1e-6)
    assert values["neg"].p_value == values["pos"].p_value == values["skip"].p_value
    assert values["nan"].p_value.isnan()
    assert values["nan"].reason == "a query's value is NaN"


def test_equals_scipy_over_one_query():
    preds, target = torch.arange(9.0, 0, -1), torch.tensor([1, 0, 1, 0, 0, 1, 0, 0, 0])

    def ap(labels):
        hits = np.flatnonzero(labels) + 1
        return (np.arange(1, len(hits) + 1) / hits).mean()

    wanted = stats.permutation_test(
        (target.numpy(),), ap, permutation_type="pairings", alternative="greater", vectorized=False,
        n_resamples=20_000, rng=np.random.default_rng(0),
    )  # fmt: skip
    found = chance_test_of_queries(preds, target, torch.zeros(9, dtype=torch.int64), n_resamples=20_000)
    assert float(found.p_value) == pytest.approx(wanted.pvalue, abs=0.02)


def test_random_labels_are_uniform():
    from torch_ap.inference.query_chance import _Labels

    curve = from_scores(torch.arange(9.0, 0, -1), torch.tensor([1, 1, 0, 0, 0, 1, 1, 1, 0]).bool(),
                        segment=torch.tensor([0] * 5 + [1] * 4), segments_count=2, keep_all_groups=True)  # fmt: skip
    labels, rng = _Labels(curve, curve.m, curve.m), np.random.default_rng(0)
    draws = [tuple(labels.draw(rng).tolist()) for _ in range(4000)]
    counts = np.unique(draws, axis=0, return_counts=True)[1]
    assert len(counts) == math.comb(5, 2) * math.comb(4, 3)
    assert stats.chisquare(counts).pvalue > 0.001


def test_gamma_takes_over_where_no_order_is_as_good():
    target = torch.zeros(30, 40, dtype=torch.int64)
    target[:, :2] = 1
    preds, indexes = torch.arange(40.0, 0, -1).repeat(30, 1), torch.arange(30)[:, None].expand(30, 40)
    found = chance_test_of_queries(preds, target, indexes, n_resamples=99)
    only = chance_test_of_queries(preds, target, indexes, n_resamples=99, method="permutation")
    gamma = chance_test_of_queries(preds, target, indexes, method="gamma")
    assert found.method == gamma.method == "gamma"
    assert found.p_value == gamma.p_value < 1e-9
    assert float(only.p_value) == 0.01
    assert only.reason == "p_value is the smallest possible with 99 permutations"
    assert "none of 99 permutations" in found.reason


@each("settings", [{}, {"top_k": 10}, {"ties": "grouped"}])
def test_one_ranking_has_the_p_value_of_the_permutations(settings):
    """The AP of one random ranking has a longer tail than the gamma law."""
    target = (torch.arange(1000) < 20).long()
    found = chance_test_of_queries(torch.arange(1000, 0, -1), target, n_resamples=99, **settings)
    assert (found.method, float(found.p_value)) == ("permutation", 0.01)
    assert found.reason == "p_value is the smallest possible with 99 permutations"
    gamma = chance_test_of_queries(torch.arange(1000, 0, -1), target, method="gamma", **settings)
    assert gamma.p_value < 1e-9
    assert "too light for one ranking" in gamma.reason
    # a query whose order has no effect is none of several
    both, indexes = torch.cat([target, torch.ones(5).long()]), (torch.arange(1005) >= 1000).long()
    again = chance_test_of_queries(-torch.arange(1005.0), both, indexes, n_resamples=99, **settings)
    assert (again.method, float(again.p_value)) == ("permutation", 0.01)


def test_gamma_law_of_one_ranking_is_too_light():
    """Count the random rankings of 20 hits in 1,000 items whose p-value is at most .1%."""
    rng, law = np.random.default_rng(0), random_average_precision(1000, 20)
    ranks = np.sort(np.argpartition(rng.random((20_000, 1000), dtype=np.float32), 20, axis=1)[:, :20] + 1, axis=1)
    values = (np.arange(1, 21) / ranks).mean(1)
    tails = [gamma_tail(x, float(law.mean), float(law.variance), float(law.least)) for x in values]
    # 20 are expected, with a standard deviation of 4.5
    assert (np.array(tails) <= 0.001).sum() > 60


def test_gamma_law_has_the_moments():
    mean, variance, least = 0.3, 0.01, 0.05
    law = stats.gamma((mean - least) ** 2 / variance, loc=least, scale=variance / (mean - least))
    assert (law.mean(), law.var()) == pytest.approx((mean, variance))
    for value in (0.06, 0.3, 0.5, 0.9):
        assert gamma_tail(value, mean, variance, least) == pytest.approx(law.sf(value))
    assert gamma_tail(0.01, mean, variance, least) == 1
    assert (gamma_tail(0.3, 0.3, 0.0, 0.3), gamma_tail(0.4, 0.3, 0.0, 0.3)) == (1, 0)


def test_order_batches_and_chunks_change_nothing():
    preds, target, indexes = few_queries(3)
    found = chance_test_of_queries(preds, target, indexes, n_resamples=50)
    assert chance_test_of_queries(preds, target, indexes, n_resamples=50, chunk_size=7).p_value == found.p_value
    shuffled = torch.randperm(len(preds), generator=torch.Generator().manual_seed(0))
    again = chance_test_of_queries(preds[shuffled], target[shuffled], indexes[shuffled], n_resamples=50)
    assert again.p_value == found.p_value
    metric = RetrievalMAP("skip")
    for query in indexes.unique().flip(0):
        inside = indexes == query
        metric.update(preds[inside].half(), target[inside], indexes[inside])
    assert metric.chance_test(n_resamples=50).p_value == found.p_value


def test_no_order_changes_the_value():
    preds, indexes = torch.zeros(6), torch.tensor([0, 0, 0, 1, 1, 1])
    tied = chance_test_of_queries(preds, torch.tensor([1, 0, 0, 1, 1, 0]), indexes, n_resamples=20)
    assert (float(tied.p_value), float(tied.z), float(tied.standard_deviation)) == (1, 0, 0)
    full = chance_test_of_queries(preds, torch.ones(6).long(), indexes, n_resamples=20)
    assert (float(full.estimate), float(full.p_value)) == (1, 1)
    assert full.corrected.isnan()
    none = chance_test_of_queries(preds, torch.zeros(6).long(), indexes, n_resamples=20)
    assert none.p_value.isnan()
    assert none.reason == "no query has a ranked relevant item"
    assert RetrievalMAP().chance_test(n_resamples=20).p_value.isnan()


@each("top_k", [None, 2])
@each("action", ["neg", "pos", "skip", "nan", "error"])
def test_relevant_documents_of_which_none_is_retrieved(action, top_k):
    """The value is 0 in every order, and so is its chance level."""
    metric = RetrievalMAP(action, top_k=top_k)
    metric.update(torch.tensor([[0.9, 0.5, 0.3]] * 2), torch.zeros(2, 3).long(), num_relevant=torch.tensor([1, 2]))
    assert (metric.compute(), metric.chance_level()) == (0, 0)
    for options in ({}, {"method": "gamma"}, {"groups": {0: 0, 1: 1}}):
        found = metric.chance_test(n_resamples=20, **options)
        assert found.reason == "no query has a ranked relevant item"
        assert found.p_value.isnan()
        assert found.lift.isnan()
    metric.update(torch.tensor([[0.9, 0.5, 0.3]]), torch.tensor([[0, 1, 0]]), num_relevant=torch.tensor([1]))
    found = metric.chance_test(n_resamples=200)
    assert float(found.estimate) == pytest.approx(0.5 / 3)
    assert float(found.p_value) == pytest.approx(2 / 3, abs=0.15)  # the ranks 1 and 2 of 3


def grouped_p_value(values, levels, groups, spreads):
    """Return the one-sided p-value of the mean difference, from the sums of each group.

    The standard error is at least that of random orders, whose values have the standard deviations ``spreads``.
    """
    gap = np.asarray(values) - np.asarray(levels)
    names, counts = np.unique(groups, return_counts=True)
    sums = np.array([(gap[groups == x] - gap.mean()).sum() for x in names])
    error = math.sqrt(len(names) / (len(names) - 1) * (sums**2).sum()) / len(gap)
    spreads = np.asarray(spreads)
    if np.ptp(values) < SAME_VALUE:
        spreads = np.array([spreads[groups == x].sum() for x in names])
    error = max(error, math.sqrt((spreads**2).sum()) / len(gap))
    return stats.t.sf(gap.mean() / error, counts.sum() ** 2 / (counts**2).sum() - 1)


@each("settings", SETTINGS)
def test_queries_in_groups(settings):
    preds, target, indexes = few_queries(4, sizes=(5, 6, 4, 1, 3, 7, 4, 5, 6, 3, 4, 5, 7, 4, 6) * 2)
    target[indexes == 14] = 0  # this query does not count
    group_of = {query: (query // 7) ** 2 % 12 for query in indexes.unique().tolist()}
    queries = [x for x in group_of if target[indexes == x].any()]
    columns = []
    for query in queries:
        scores, labels = preds[indexes == query], target[indexes == query]
        value = float(Convention(**{"ties": "expected"} | settings)(from_scores(scores, labels == 1)))
        every = all_values(scores, int(labels.sum()), **settings)
        columns.append((value, np.mean(every), np.std(every)))
    values, levels, spreads = np.array(columns).T
    groups = np.array([group_of[x] for x in queries])
    wanted = grouped_p_value(values, levels, groups, spreads)
    ids = torch.tensor([group_of[x] for x in indexes.tolist()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few groups
        found = chance_test_of_queries(preds, target, indexes, groups=ids, **settings)
        assert (found.method, float(found.p_value)) == ("t", pytest.approx(wanted))
        below = chance_test_of_queries(-preds, target, indexes, groups=ids, method="t", **settings)
        metric = RetrievalMAP("skip", **settings)
        metric.update(preds, target, indexes, groups=ids)
        assert metric.chance_test().p_value == pytest.approx(wanted)
        assert metric.chance_test(groups={x: x for x in group_of}).p_value != pytest.approx(wanted)
        # undefined queries count as 0 in the value and in its chance level, and missing ones too
        metric = RetrievalMAP(**settings)
        metric.update(
            preds, target, indexes, num_relevant={q: int(target[indexes == q].sum()) for q in group_of} | {2: 4}
        )
        counted = metric.chance_test(groups=group_of | {2: 99})
    zeros, others = [0.0, 0.0], [group_of[14], 99]
    wanted = grouped_p_value([*values, *zeros], [*levels, *zeros], np.array([*groups, *others]), [*spreads, *zeros])
    assert counted.p_value == pytest.approx(wanted)
    plain = chance_test_of_queries(preds, target, indexes, n_resamples=50, **settings)
    permuted = chance_test_of_queries(
        preds, target, indexes, groups=ids, method="permutation", n_resamples=50, **settings
    )
    assert permuted == chance_test_of_queries(preds, target, indexes, method="permutation", n_resamples=50, **settings)
    assert (plain.estimate, plain.chance_level) == (found.estimate, found.chance_level)
    assert (below.p_value > 0.5) == (below.estimate < below.chance_level)


@pytest.mark.filterwarnings("ignore::UserWarning")  # few groups
@each("sizes", [(2,) * 4, (5,) * 6, (3, 4, 5, 6, 3, 4, 5, 6)])
@each("queries_of_a_group", [1, 2])
def test_perfect_rankings_in_groups(sizes, queries_of_a_group):
    """The APs have no spread: the p-value comes from the spread of random orders, for any dependence in a group."""
    sizes = [x for x in sizes for _ in range(queries_of_a_group)]
    indexes = torch.tensor([query for query, size in enumerate(sizes) for _ in range(size)])
    target = torch.tensor([int(not rank) for size in sizes for rank in range(size)])
    preds = -torch.arange(len(target))
    groups = np.arange(len(sizes)) // queries_of_a_group
    found = chance_test_of_queries(preds, target, indexes, groups=torch.from_numpy(groups)[indexes])
    every = [[1 / rank for rank in range(1, size + 1)] for size in sizes]
    means, spreads = ([f(x) for x in every] for f in (np.mean, np.std))
    assert float(found.p_value) == pytest.approx(grouped_p_value([1] * len(sizes), means, groups, spreads))
    assert found.reason.endswith("all values are equal: the standard error is that of random orders")
    # identical queries of a group are perfect together, with the probability of one of them
    exact = math.prod(1 / size for size in sizes[::queries_of_a_group])
    assert exact < float(found.p_value) < 0.1


def test_groups_without_spread():
    preds, indexes = torch.zeros(6), torch.tensor([0, 0, 0, 1, 1, 1])
    tied = torch.tensor([1, 0, 0, 1, 1, 0])
    alike = chance_test_of_queries(preds, tied, indexes, groups=indexes)
    assert (float(alike.p_value), alike.reason) == (1, "all differences are zero: p = 1 by definition")
    single = chance_test_of_queries(torch.arange(6), tied, indexes, groups=[7] * 6)
    assert single.p_value.isnan()
    assert "fewer than two groups" in single.reason
    one = chance_test_of_queries(preds, tied, top_k=2, groups=indexes)  # a single ranking, its items in groups
    assert (float(one.p_value), float(one.z)) == (1, 0)
    none = chance_test_of_queries(preds, tied * 0, indexes, groups=indexes)
    assert none.reason == "no query has a ranked relevant item"
    empty = chance_test_of_queries(preds[:0], tied[:0], indexes[:0], groups=[])
    assert empty.p_value.isnan()


@each(
    "options, match",
    [
        ({"method": "t"}, "`method` must be 'auto', 'permutation' or 'gamma' without `groups`"),
        ({"indexes": torch.zeros(3, dtype=torch.int64)}, "indexes"),
        ({"indexes": torch.zeros(4)}, "indexes"),
        ({"top_k": 0}, "top_k"),
        ({"denominator": "found"}, "denominator"),
        ({"ties": "optimistic"}, "ties"),
        ({"method": "exact"}, "method"),
        ({"n_resamples": 1}, "n_resamples"),
        ({"target": torch.tensor([0, 1, 2, 0])}, "target"),
        (dict.fromkeys(("preds", "target"), torch.zeros(2, 2, 2).long()) | {"indexes": None}, r"\(N,\) or \(Q, N\)"),
        (
            dict.fromkeys(("preds", "target"), torch.zeros(2, 2).long()) | {"indexes": None, "groups": [1] * 4},
            "`groups` must be one per row",
        ),
    ],
)
def test_invalid_arguments_raise(options, match):
    inputs = {"preds": torch.zeros(4), "target": torch.tensor([0, 1, 1, 0]), "indexes": torch.zeros(4).long()}
    with pytest.raises((ValueError, TypeError), match=match):
        chance_test_of_queries(**inputs | options)


@each(
    "settings, match",
    [
        ({"ties": "pessimistic"}, "ties"),
        ({"interpolation": "11-point"}, "interpolation"),
        ({"top_k": 3, "denominator": "found"}, "denominator"),
        ({"top_k": [1, 3]}, "top_k"),
        ({"aggregation": "median"}, "aggregation"),
    ],
)
def test_metrics_without_moments_raise(settings, match):
    metric = RetrievalMAP(**settings)
    metric.update(torch.rand(2, 5), torch.eye(5).long()[:2])
    with pytest.raises(ValueError, match=match):
        metric.chance_test()
