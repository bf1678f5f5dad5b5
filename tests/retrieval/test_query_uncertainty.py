"""Chance level, interval and comparison of metrics over queries, against functions and all permutations."""

import itertools
import math

import pytest
import torch
from scipy import stats
from torchmetrics import MetricCollection

import torch_ap
from tests.support.tolerances import REORDERED
from torch_ap import retrieval
from torch_ap.functional import retrieval_average_precision
from torch_ap.inference import compare_per_query, mean_interval
from torch_ap.inference.queries import bounded_mean_interval
from torch_ap.retrieval import QueryMetric, RetrievalFBeta, RetrievalMAP, RetrievalMRR, RetrievalPrecision

KEYS = {"map", "map_low", "map_high", "map_chance"}
KIN = [
    kind
    for kind in (getattr(retrieval, name) for name in retrieval.__all__)
    if isinstance(kind, type) and issubclass(kind, QueryMetric) and kind is not QueryMetric
]
CUT = {"RetrievalRPrecision": {}, "RetrievalHitRate": {"top_k": 1}}


def data(seed=0, size=240, queries=15):
    generator = torch.Generator().manual_seed(seed)
    indexes = torch.randint(0, queries, (size,), generator=torch.Generator().manual_seed(5)) * 3 - 4
    target = (torch.rand(size, generator=torch.Generator().manual_seed(6)) < 0.3).long()
    preds = torch.randn(size, generator=generator) + target
    return preds, target, indexes


def fed(metric, preds, target, indexes):
    for part in torch.arange(len(preds)).split(50):
        metric.update(preds[part], target[part], indexes[part])
    return metric


@pytest.mark.parametrize("kind", KIN)
def test_interval_equals_the_values(kind):
    metric = fed(kind(**CUT.get(kind.__name__, {"top_k": 3})), *data()).set_dtype(torch.float64)
    values = metric.per_query()[1]
    assert len(KIN) >= 11
    assert values.dtype == torch.float64
    upper = 1 - 0.8**3 if kind is retrieval.RetrievalRankBiasedPrecision else 1.0  # of three relevant items
    ends, same = metric.confidence_interval(0.9), bounded_mean_interval(values, upper, confidence_level=0.9)
    assert (float(ends.low), float(ends.high)) == pytest.approx((float(same.low), float(same.high)))
    assert ends.method == "dirichlet"
    found = metric.confidence_interval(0.9, "t")
    low, high = stats.ttest_1samp(values.numpy(), 0).confidence_interval(0.9)
    assert (float(found.low), float(found.high)) == pytest.approx((low, high))
    assert found.estimate == metric.compute()
    other = metric.confidence_interval(0.9, "bootstrap-bca", n_resamples=200)
    wanted = mean_interval(values, confidence_level=0.9, method="bootstrap-bca", n_resamples=200)
    assert (float(other.low), float(other.high)) == pytest.approx((float(wanted.low), float(wanted.high)))
    assert other.method == "bootstrap-bca"


@pytest.mark.parametrize("kind", KIN)
def test_compare_is_compare_queries(kind):
    a, b = (fed(kind(), *data(seed)).set_dtype(torch.float64) for seed in (0, 1))
    for test in ("t", "wilcoxon", "randomization"):
        wanted = compare_per_query(a.per_query()[1], b.per_query()[1], method=test, confidence_level=0.8)
        assert repr(a.compare(b, method=test, confidence_level=0.8)) == repr(wanted)
        assert a.compare(a, method=test).p_value == 1
    assert a.compare(b).method == "t"


def permuted(target, m, **words):
    """Return the mean AP over all orders of the items of one query."""
    orders = torch.tensor(list(itertools.permutations(range(len(target)))))
    preds = -torch.arange(len(target)).double().expand(orders.shape)
    counts = torch.full((len(orders),), m)
    return float(retrieval_average_precision(preds, target[orders], num_relevant=counts, **words).mean())


@pytest.mark.parametrize("words", [{}, {"top_k": 2}, {"top_k": 4}, {"top_k": 3, "denominator": "relevant"}])
@pytest.mark.parametrize("unseen", [0, 1, 3])
def test_chance_level_is_the_mean_over_all_orders(words, unseen):
    targets = [torch.tensor(x) for x in ([1, 0, 1, 0, 0], [0, 1], [1], [1, 1, 1, 0], [0, 0, 1, 0, 0, 0])]
    metric = RetrievalMAP(**words).set_dtype(torch.float64)
    for query, target in enumerate(targets):
        judged = {query: int(target.sum()) + unseen}
        metric.update(torch.rand(len(target)), target, torch.full_like(target, query), num_relevant=judged)
    wanted = [permuted(x, int(x.sum()) + unseen, **words) for x in targets]
    assert float(metric.chance_level()) == pytest.approx(sum(wanted) / 5, rel=REORDERED)
    metric.update(num_relevant={99: 2})
    assert float(metric.chance_level()) == pytest.approx(sum(wanted) / 6, rel=REORDERED)


@pytest.mark.parametrize("words", [{}, {"top_k": 3}, {"top_k": 4, "denominator": "relevant"}])
@pytest.mark.parametrize("unseen", [0, 2])
def test_tied_items_stay_tied_where_ties_are_grouped(words, unseen):
    scores = [torch.tensor(x) for x in ([0.4, 0.4, 0.2, 0.2, 0.2], [0.1] * 3, [0.3])]
    targets = [torch.tensor(x) for x in ([1, 0, 0, 1, 0], [0, 1, 0], [1])]
    metric = RetrievalMAP(ties="grouped", **words).set_dtype(torch.float64)
    wanted = []
    for query, (preds, target) in enumerate(zip(scores, targets, strict=True)):
        m = int(target.sum()) + unseen
        metric.update(preds, target, torch.full_like(target, query), num_relevant={query: m})
        orders = torch.tensor(list(itertools.permutations(target.tolist())))
        counts = torch.full((len(orders),), m)
        rows = preds.double().expand(orders.shape)
        each = retrieval_average_precision(rows, orders, num_relevant=counts, ties="grouped", **words)
        wanted.append(float(each.mean()))
    assert float(metric.chance_level()) == pytest.approx(sum(wanted) / 3, rel=REORDERED)
    metric.update(num_relevant={99: 2})
    assert float(metric.chance_level()) == pytest.approx(sum(wanted) / 4, rel=REORDERED)


OTHERS = ("Precision", "Recall", "FBeta", "FallOut", "HitRate", "MRR", "RPrecision", "AUROC")


@pytest.mark.parametrize("ties", ["expected", "grouped"])
@pytest.mark.parametrize("name", OTHERS)
def test_chance_level_of_every_measure_is_the_mean_over_all_orders(name, ties):
    """Tied items stay tied under grouped ties, and relevant items that were not retrieved count."""
    kind = getattr(retrieval, f"Retrieval{name}")
    targets = [torch.tensor(x) for x in ([1, 0, 1, 0, 0], [0, 1], [1], [1, 1, 1, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0])]
    tops = (None,) if name in ("RPrecision", "AUROC") else (None, 1, 3, 10, "relevant")
    for top_k, unseen in itertools.product(tops, (0, 2)):
        words = {"ties": ties} | ({} if top_k is None else {"top_k": top_k})
        metric, each, sizes = kind(**words).set_dtype(torch.float64), kind(**words).set_dtype(torch.float64), []
        for query, target in enumerate(targets):
            preds = torch.arange(len(target)).double() // (1 if ties == "expected" else 2)
            orders = torch.tensor(sorted(set(itertools.permutations(target.tolist()))))
            m = int(target.sum()) + unseen
            metric.update(preds, target, torch.full_like(target, query), num_relevant={query: m})
            each.update(preds.expand(orders.shape), orders, num_relevant=torch.full((len(orders),), m))
            sizes.append(len(orders))
        wanted = [float(x.mean()) for x in each.per_query()[1].split(sizes)]
        assert float(metric.chance_level()) == pytest.approx(sum(wanted) / len(wanted), rel=REORDERED), words
        metric.update(num_relevant={99: 2})
        assert float(metric.chance_level()) == pytest.approx(sum(wanted) / (len(wanted) + 1), rel=REORDERED)
    assert float(metric.summary()[f"{metric._summary_name}_chance"]) == pytest.approx(float(metric.chance_level()))


@pytest.mark.parametrize("has_groups", [False, True])
def test_empty_queries_that_count_as_1_are_inside_the_interval(has_groups):
    """A precision at 10 of rankings of 5 items is at most 1/2, but that of queries without relevant items is 1."""
    generator = torch.Generator().manual_seed(0)
    metric = RetrievalPrecision(top_k=10, empty_target_action="pos")
    metric.update(torch.rand(40, 5, generator=generator), torch.rand(40, 5, generator=generator) < 0.25)
    groups = {query: query % 20 for query in range(40)} if has_groups else None
    found = metric.confidence_interval(groups=groups)
    values = metric.per_query()[1]
    ids = torch.arange(40) % 20 if has_groups else None
    wanted = mean_interval(values, groups=ids)
    metric.reset()  # without empty queries, the value is at most 1/2
    metric.update(torch.rand(40, 5, generator=generator), torch.arange(200).reshape(40, 5) % 5 <= 3)
    assert metric.confidence_interval(groups=groups).high <= 0.5
    assert 0.25 < found.low < found.estimate < found.high < 0.6
    assert [float(found.low), float(found.high)] == pytest.approx([float(wanted.low), float(wanted.high)])


@pytest.mark.parametrize("action", ["neg", "pos"])
def test_chance_level_of_auroc_in_the_top_k_is_the_mean_over_all_orders(action):
    """AUROC is undefined if all of the top k are relevant; the action sets the value of these orders."""
    targets = [torch.tensor(x) for x in ([1, 0, 1, 0, 0], [0, 1], [1], [1, 1, 1, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0])]
    for top_k, unseen, max_fpr in itertools.product((None, 1, 3, "relevant"), (0, 2), (None, 0.3)):
        metric, wanted = retrieval.RetrievalAUROC(action, top_k=top_k, max_fpr=max_fpr).set_dtype(torch.float64), []
        for query, target in enumerate(targets):
            orders = torch.tensor(sorted(set(itertools.permutations(target.tolist()))))
            m, preds = int(target.sum()) + unseen, torch.arange(len(target)).double()
            metric.update(preds, target, torch.full_like(target, query), num_relevant={query: m})
            each = retrieval.RetrievalAUROC(action, top_k=top_k, max_fpr=max_fpr).set_dtype(torch.float64)
            each.update(preds.expand(orders.shape), orders, num_relevant=torch.full((len(orders),), m))
            wanted.append(float(each.compute()))
        assert float(metric.chance_level()) == pytest.approx(sum(wanted) / len(wanted), rel=REORDERED)
        metric.update(num_relevant={99: 2})
        assert float(metric.chance_level()) == pytest.approx(sum(wanted) / (len(wanted) + 1), rel=REORDERED)


@pytest.mark.parametrize(
    ("action", "wanted"), [("neg", 0.75 / 2), ("pos", 1.75 / 2), ("skip", 0.75), ("nan", math.nan)]
)
def test_undefined_queries_count_as_in_compute(action, wanted):
    metric = RetrievalMAP(action)
    metric.update(torch.tensor([[0.2, 0.1], [0.3, 0.4]]), torch.tensor([[0, 1], [0, 0]]))
    assert float(metric.chance_level()) == pytest.approx(wanted, nan_ok=True)
    found = metric.confidence_interval()
    assert float(found.estimate) == pytest.approx(float(metric.compute()), nan_ok=True)
    assert bool(found.reason) == (action in ("skip", "nan"))
    assert bool(torch.isnan(found.low)) == (action == "nan")
    if action == "nan":
        with pytest.raises(ValueError, match=r"NaN .*query 1.* `empty_target_action`"):
            metric.compare(metric)


def test_summary_is_loggable():
    metric = fed(RetrievalMAP(), *data())
    summary = metric.summary()
    assert set(summary) == KEYS
    assert all(x.ndim == 0 and x.dtype == torch.float32 for x in summary.values())
    assert summary["map"] == metric.compute()
    assert summary["map_chance"] < summary["map_low"] < summary["map"] < summary["map_high"]
    wider = metric.summary(0.99)
    assert wider["map_low"] < summary["map_low"]


def test_interval_of_few_queries_stays_in_the_range_of_means():
    metric = RetrievalMAP()
    metric.update(torch.tensor([[0.9, 0.5, 0.1]] * 2), torch.eye(3).long()[[0, 2]])
    found, ends, plain = metric.summary(), metric.confidence_interval(), metric.confidence_interval(method="t")
    assert plain.low < 0
    assert plain.high > 1
    assert 0 < ends.low < ends.high < 1
    assert (found["map_low"], found["map_high"]) == (ends.low.float(), ends.high.float())


@pytest.mark.filterwarnings("ignore:The .*compute.* method of metric")
def test_without_queries():
    metric = RetrievalMAP()
    assert all(math.isnan(x) for x in metric.summary().values())
    assert metric.confidence_interval().reason == "no query has a value"
    with pytest.raises(ValueError, match=r"none.* `update`"):
        metric.compare(RetrievalMAP())
    skipping = RetrievalMAP("skip")
    skipping.update(torch.rand(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"none.*`empty_target_action`"):
        skipping.compare(skipping)


def test_undefined_requests_raise_by_name():
    given = data()
    plain = fed(RetrievalMAP(), *given)
    for aggregation in ("median", "gm", torch.mean):
        other = fed(RetrievalMAP(aggregation=aggregation), *given)
        calls = (other.confidence_interval, other.chance_level, other.summary)
        for call in (*calls, lambda one=other: plain.compare(one), lambda one=other: one.compare(plain)):
            with pytest.raises(ValueError, match="`aggregation` must be 'mean'"):
                call()
    geometric = fed(RetrievalMAP(aggregation="gm"), *given)
    for call, name in ((geometric.confidence_interval, "mean_interval"), (lambda: geometric.compare(plain), "compare")):
        with pytest.raises(ValueError, match=f"{name}.* of `per_query.*clamp.min=1e-05..log"):
            call()
    assert geometric.per_query()[1].clamp(min=1e-5).log().mean().exp() == pytest.approx(float(geometric.compute()))
    with pytest.raises(ValueError, match=r"got 'gm'$"):
        geometric.chance_level()
    for words, name in (
        ({"interpolation": "11-point", "ties": "grouped"}, "interpolation"),
        ({"top_k": 2, "denominator": "found"}, "denominator"),
    ):
        without = fed(RetrievalMAP(**words), *given)
        with pytest.raises(ValueError, match=name):
            without.chance_level()
        assert set(without.summary()) == KEYS - {"map_chance"}
    for words in ({"top_k": 2}, {"max_fpr": 0.5}):
        without = fed(retrieval.RetrievalAUROC(**words, ties="grouped"), *given)
        with pytest.raises(
            ValueError, match=r"`ties` must have a closed form of the chance level of AUROC with `top_k` or"
        ):
            without.chance_level()
        assert set(without.summary()) == {"auroc", "auroc_low", "auroc_high"}
    with pytest.raises(ValueError, match=r"`empty_target_action` must be 'neg' or 'pos' for the chance level of AUROC"):
        fed(retrieval.RetrievalAUROC("skip", top_k=2), *given).chance_level()
    for top_k, ends in (([2, 19], 3), ([18, 19], 4)):  # no query has 18 relevant items
        assert len(fed(retrieval.RetrievalAUROC("skip", top_k=top_k), *given).summary()) == 2 * ends
    with pytest.raises(ValueError, match="`confidence_level`"):
        plain.confidence_interval(1)
    with pytest.raises(ValueError, match="`method`"):
        plain.confidence_interval(method="influence")
    for call in (plain.confidence_interval, lambda **how: plain.compare(plain, **how)):
        with pytest.raises(ValueError, match="`n_resamples` must be an int of at least 2, got 1"):
            call(n_resamples=1)


def test_only_its_like_is_compared():
    preds, target, indexes = data()
    metric = fed(RetrievalFBeta(top_k=3), preds, target, indexes)
    for other, match in (
        (RetrievalMRR(), "`other` .*RetrievalFBeta, got a RetrievalMRR"),
        (RetrievalFBeta(top_k=3, ignore_index=-1), "`other` .*ignore_index: "),
        (RetrievalFBeta(top_k=3, beta=2.0), "`other` .*beta: 1.0 here, 2.0 there"),
        (RetrievalFBeta("skip", top_k=3), "`other` .*empty_target_action: "),
    ):
        with pytest.raises(ValueError, match=match):
            metric.compare(fed(other, preds, target, indexes))
    with pytest.raises(ValueError, match=r"`other` .*same queries"):
        metric.compare(fed(RetrievalFBeta(top_k=3), preds, target, indexes + 1))


def test_systems_with_other_relevant_items_are_not_compared():
    preds, target = torch.rand(5, 8, generator=torch.Generator().manual_seed(0)), torch.eye(5, 8).long()

    def judged_metric(m):
        metric = RetrievalMAP()
        metric.update(preds, target, num_relevant=None if m is None else torch.tensor(m))
        return metric

    m = [1, 2, 3, 4, 5]
    assert judged_metric(m).compare(judged_metric(m)).difference == 0
    assert (
        judged_metric([1] * 5).compare(judged_metric(None)).difference == 0
    )  # both count the relevant items in the data
    for one, other in ((m, None), (None, m), (m, [1, 2, 3, 4, 6])):
        with pytest.raises(ValueError, match=r"`other` .*same `num_relevant`.* query [14] "):
            judged_metric(one).compare(judged_metric(other))
    a, b = RetrievalMAP(), RetrievalMAP()
    a.update(torch.rand(3), torch.tensor([1, 0, 1]), torch.tensor([7, 7, 3]), num_relevant={3: 4, 9: 2})
    b.update(torch.rand(3), torch.tensor([1, 0, 1]), torch.tensor([3, 3, 7]), num_relevant={3: 4, 9: 1})
    with pytest.raises(ValueError, match=r"query 9 .*2 .*in this metric, 1 in `other`"):
        a.compare(b)


def test_in_a_collection_that_shares_state():
    collection = MetricCollection({"map": RetrievalMAP(), "p": RetrievalPrecision(top_k=3)})
    preds, target, indexes = data()
    collection.update(preds, target, indexes=indexes)
    collection.update(preds, target, indexes=indexes)
    alone = RetrievalPrecision(top_k=3)
    for _ in range(2):
        alone.update(preds, target, indexes)
    assert collection["p"].confidence_interval().low == alone.confidence_interval().low
    assert collection["map"].summary()["map"] == collection.compute()["map"]


def check_two_ranks(rank):
    whole, parts = [], []
    for seed in (0, 1):
        given = data(seed)
        whole.append(fed(RetrievalMAP(sync_on_compute=False), *given))
        parts.append(fed(RetrievalMAP(), *(x[:90] if rank else x[90:] for x in given)))
    names = list(KEYS)
    torch.testing.assert_close([parts[0].summary()[k] for k in names], [whole[0].summary()[k] for k in names])
    assert not parts[0]._is_synced
    assert sum(map(len, parts[0].query_scores)) == (90 if rank else 150), "the local state comes back"
    assert torch.equal(parts[0].chance_level(), whole[0].chance_level())
    found, wanted = parts[0].compare(parts[1]), whole[0].compare(whole[1])
    assert found.difference == pytest.approx(float(wanted.difference))
    assert found.queries == wanted.queries == 15


def test_all_ranks_count(ranks):
    ranks(check_two_ranks)


@pytest.mark.gpu
def test_on_cuda():
    here, there = fed(RetrievalMAP(), *data()), fed(RetrievalMAP().cuda(), *(x.cuda() for x in data()))
    found = there.summary()
    assert all(x.device.type == "cuda" for x in found.values())
    torch.testing.assert_close({k: v.cpu() for k, v in found.items()}, here.summary())
    assert there.compare(there).p_value == 1


GROUPS = {query: query // 2 for query in range(24)}


def batches_of_groups(form, seed=0):
    """Yield batches of 24 queries of 6 documents with the groups of the queries in one of three forms."""
    generator = torch.Generator().manual_seed(seed)
    preds = torch.rand(24, 6, generator=generator)
    target = (torch.rand(24, 6, generator=torch.Generator().manual_seed(9)) < 0.4).long()
    for part in (slice(10), slice(10, 24)):
        queries = torch.arange(24)[part]
        indexes = {} if form == "rows" else {"indexes": queries[:, None].expand(-1, 6)}
        of_rows = torch.tensor([GROUPS[x] for x in queries.tolist()])
        groups = {"rows": of_rows, "items": of_rows[:, None].expand(-1, 6)}
        groups["dict"] = {x: GROUPS[x] for x in queries.tolist()}
        yield {"preds": preds[part], "target": target[part], **indexes, "groups": groups[form]}


def fed_with_groups(form, seed=0, metric=None):
    metric = RetrievalMAP() if metric is None else metric
    for batch in batches_of_groups(form, seed):
        metric.update(**batch)
    return metric


@pytest.mark.parametrize("form", ["rows", "items", "dict"])
def test_groups_of_update_are_those_of_the_argument(form):
    metric, other, plain = fed_with_groups(form), fed_with_groups(form, 1), RetrievalMAP()
    for batch in batches_of_groups(form):
        plain.update(**{name: x for name, x in batch.items() if name != "groups"})
    wanted = plain.confidence_interval(groups=GROUPS)
    assert metric.confidence_interval() == wanted
    assert metric.confidence_interval(method="t") != plain.confidence_interval(method="t")
    assert metric.compare(other) == metric.compare(other, groups=GROUPS)
    assert metric.compute() == plain.compute()
    with pytest.raises(ValueError, match="`other` must have been updated with the same `groups`"):
        metric.compare(plain)
    loaded = torch_ap.load(metric.to_bytes())
    assert loaded.confidence_interval() == wanted
    halves = [RetrievalMAP(), RetrievalMAP()]
    for half, batch in zip(halves, batches_of_groups(form), strict=True):
        half.update(**batch)
    assert torch_ap.merge(halves).confidence_interval() == wanted
    forwarded = RetrievalMAP()
    for batch in batches_of_groups(form):
        forwarded(**batch)
    assert forwarded.confidence_interval() == wanted
    metric.reset()
    for batch in batches_of_groups(form):
        metric.update(**{name: x for name, x in batch.items() if name != "groups"})
    assert metric.confidence_interval() == plain.confidence_interval()


def test_groups_of_update_select_the_best_of_several():
    from torch_ap.inference import best_of_metrics, best_of_per_query

    metrics = {str(seed): fed_with_groups("rows", seed) for seed in range(3)}
    found = best_of_metrics(metrics)
    values = torch.stack([x.per_query()[1] for x in metrics.values()])
    wanted = best_of_per_query(values, groups=[GROUPS[x] for x in range(24)], bounds=(0, 1))
    # the values of per_query() are float32
    torch.testing.assert_close(found.simultaneous_low, wanted.simultaneous_low, rtol=1e-5, atol=1e-6)


def test_groups_and_repeated_rows():
    metric = RetrievalMAP()
    for batch in batches_of_groups("rows"):
        size = len(batch["preds"])
        ids = torch.arange(size) + (0 if size == 10 else 10)
        metric.update(**batch, sample_ids=ids)
    padded = {"preds": torch.rand(2, 6), "target": torch.zeros(2, 6).long(), "groups": [70, 71], "sample_ids": [0, 5]}
    metric.update(**padded)
    assert metric.confidence_interval() == fed_with_groups("rows").confidence_interval()


def test_groups_that_contradict_each_other():
    preds, target = torch.tensor([0.3, 0.2, 0.9, 0.1]), torch.tensor([1, 0, 1, 0])
    indexes = torch.tensor([1, 1, 2, 2])
    metric = RetrievalMAP()
    with pytest.raises(ValueError, match="`groups` must be one per query, got 3 and 4 for query 1"):
        metric.update(preds, target, indexes, groups=[3, 4, 5, 5])
    with pytest.raises(ValueError, match="`groups` as a dict requires `indexes`"):
        metric.update(preds[None], target[None], groups={0: 1})
    with pytest.raises(ValueError, match="`groups` must be one per row"):
        metric.update(preds[None], target[None], groups=[1, 2])
    with pytest.raises(ValueError, match="`groups` must be a dict for `num_relevant` without items"):
        metric.update(num_relevant={1: 3}, groups=[1])
    with pytest.raises(TypeError, match="`groups"):
        metric.update(preds, target, indexes, groups={1: "a", 2: 3})
    metric.update(preds, target, indexes, groups={1: 3, 2: 4})
    with pytest.raises(ValueError, match="`groups` must be given in every update or in none"):
        metric.update(preds, target, indexes)
    metric.update(num_relevant={3: 2})
    with pytest.raises(ValueError, match="`groups` must contain every query, got none for 3"):
        metric.confidence_interval()
    metric.update(num_relevant={3: 2}, groups={3: 9})
    with pytest.warns(UserWarning, match="3 groups"):
        assert metric.confidence_interval().method == "t"
    metric.update(preds, target, indexes, groups={1: 3, 2: 5})
    with pytest.raises(ValueError, match=r"got 4 and 5 for query 2\. Call `reset\(\)`"):
        metric.confidence_interval()


@pytest.mark.parametrize(("k", "is_bounded"), [(3, False), (8, False), (9, True), (40, True)])
def test_rankings_of_k_items_have_the_interval_without_a_bound(k, is_bounded):
    preds, target, _ = data(size=120)
    indexes = torch.arange(120) // 8  # all rankings have 8 items
    metric = fed(retrieval.RetrievalPrecision(top_k=k), preds, target, indexes).set_dtype(torch.float64)
    values, found = metric.per_query()[1], metric.confidence_interval()
    without = mean_interval(values)
    assert (found == without) == (not is_bounded)
    assert found.estimate == without.estimate
    if is_bounded:  # the interval of the share of the largest possible value, 8 / k
        share = mean_interval(values * k / 8)
        ends = [float(x) * 8 / k for x in (share.low, share.high)]
        assert [float(found.low), float(found.high)] == pytest.approx(ends)
        assert float(found.high) <= 8 / k
