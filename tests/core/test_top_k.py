"""`top_k` as a list with one value of each k, and as "relevant", the number of relevant items of each query."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_ap
from tests.support import oracles_retrieval as oracles
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import Convention, RetrievalMAP, functional, retrieval
from torch_ap.core.measures.measure import AtSeveral, deepest
from torch_ap.inference import chance_level
from torch_ap.retrieval import QueryMetric

F64 = {"dtype": torch.float64}
TIES = ("expected", "grouped", "optimistic", "pessimistic")
FUNCTIONS = {
    "average_precision": functional.retrieval_average_precision,
    "precision": functional.retrieval_precision,
    "recall": functional.retrieval_recall,
    "f_beta": functional.retrieval_f_beta,
    "fall_out": functional.retrieval_fall_out,
    "hit_rate": functional.retrieval_hit_rate,
    "reciprocal_rank": functional.retrieval_reciprocal_rank,
    "auroc": functional.retrieval_auroc,
    "normalized_dcg": functional.retrieval_normalized_dcg,
}
PUBLIC = [getattr(retrieval, name) for name in retrieval.__all__]
KIN = [x for x in PUBLIC if isinstance(x, type) and issubclass(x, QueryMetric) and x is not QueryMetric]
CLASSES = [x for x in KIN if x is not retrieval.RetrievalRPrecision]


def data(seed=0, queries=12, docs=9):
    generator = torch.Generator().manual_seed(seed)
    preds = torch.randint(6, (queries, docs), generator=generator) / 2
    target = (torch.rand(queries, docs, generator=generator) < 0.4).long()
    target[3], target[7] = 0, 1
    return preds, target, target.sum(1) + torch.randint(3, (queries,), generator=generator)


@each("ties", list(TIES))
@each("name", list(FUNCTIONS))
def test_relevant_is_the_number_of_relevant_items_of_each_query(name, ties):
    preds, target, m = data()
    function, words = FUNCTIONS[name], {"ties": ties, **F64}
    indexes = torch.arange(12)[:, None].expand(12, 9)
    rows = function(preds, target, "relevant", num_relevant=m, **words)
    flat = function(preds, target, "relevant", num_relevant=dict(enumerate(m.tolist())), indexes=indexes, **words)
    assert torch.equal(rows, flat)
    for query, k in enumerate(m.tolist()):
        words["num_relevant"] = k
        value = function(preds[query], target[query], "relevant", **words)
        assert value.item() == pytest.approx(rows[query].item(), abs=REORDERED)
        if k:
            assert value.item() == function(preds[query], target[query], k, **words).item()


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 1)), min_size=1, max_size=6),
    st.integers(0, 2),
    st.sampled_from(["min", "relevant", "found"]),
    st.sampled_from(["expected", "optimistic", "pessimistic"]),
)
@settings(deadline=None)
def test_map_at_r_is_its_definition(items, unseen, denominator, ties):
    scores, relevant = (list(x) for x in zip(*items, strict=True))
    m = sum(relevant) + unseen
    words = {"num_relevant": m, "denominator": denominator, "ties": ties, **F64}
    value = functional.retrieval_average_precision(torch.tensor(scores), torch.tensor(relevant), "relevant", **words)

    def measure(order):
        return oracles.average_precision(order, m, m, denominator) if m else 0

    assert value.item() == pytest.approx(float(oracles.over_orders(measure, scores, relevant, ties)), abs=REORDERED)


def test_pytorch_metric_learning_agrees():
    pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    generator = torch.Generator().manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(60, 5, generator=generator))
    labels = torch.randint(6, (60,), generator=generator)
    names = ("mean_average_precision_at_r", "r_precision")
    knn = CustomKNN(LpDistance(), batch_size=60)  # its default needs faiss
    theirs = AccuracyCalculator(names, k="max_bin_count", device=torch.device("cpu"), knn_func=knn).get_accuracy(
        embeddings, labels, ref_includes_query=True
    )
    others = ~torch.eye(60, dtype=torch.bool)
    scores, same = -torch.cdist(embeddings, embeddings), labels[:, None] == labels
    words = {"mask": others, **F64}
    found = functional.retrieval_average_precision(scores, same, "relevant", **words).mean().item()
    assert found == pytest.approx(theirs["mean_average_precision_at_r"], rel=1e-6)  # theirs is float32
    found = functional.retrieval_precision(scores, same, "relevant", **words).mean().item()
    assert found == pytest.approx(theirs["r_precision"], rel=1e-6)  # likewise


@pytest.mark.parametrize("denominator", ["min", "relevant"])
@pytest.mark.parametrize("ties", ["expected", "grouped"])
def test_chance_level_at_r_is_the_mean_over_all_orders(ties, denominator):
    scores = [[0.4, 0.4, 0.2, 0.2], [0.1] * 3, [0.3], [0.2, 0.1]]
    targets, unseen = [[1, 0, 0, 1], [0, 1, 0], [1], [0, 0]], [1, 0, 2, 1]
    metric, wanted = RetrievalMAP(top_k="relevant", ties=ties, denominator=denominator).set_dtype(torch.float64), []
    for query, (s, y, more) in enumerate(zip(scores, targets, unseen, strict=True)):
        m, orders = sum(y) + more, torch.tensor(list(itertools.permutations(y)))
        metric.update(torch.tensor(s), torch.tensor(y), torch.full((len(y),), query), num_relevant={query: m})
        # with `ties="expected"` the mean over orders is that of rankings without ties
        rows = torch.tensor(s if ties == "grouped" else list(range(len(s)))).double().expand(orders.shape)
        values = functional.retrieval_average_precision(
            rows, orders, "relevant", num_relevant=torch.full((len(orders),), m), ties=ties, **F64
        )
        wanted.append(values.mean().item())
    assert metric.chance_level().item() == pytest.approx(sum(wanted) / 4, rel=REORDERED)


def test_of_classes_too():
    generator = torch.Generator().manual_seed(0)
    preds = torch.randint(9, (40, 3), generator=generator) / 8
    target = (torch.rand(40, 3, generator=generator) < 0.3).long()
    words = {"num_labels": 3, "average": "none"}
    for ties in TIES:
        found = functional.multilabel_average_precision(preds, target, ties=ties, top_k="relevant", **words)
        for label in range(3):
            k = int(target[:, label].sum())
            one = functional.binary_average_precision(preds[:, label], target[:, label], ties=ties, top_k=k)
            torch.testing.assert_close(found[label], one)
    metric = torch_ap.BinaryAveragePrecision(top_k="relevant", bins=4, tolerance=1.0).set_dtype(torch.float64)
    metric.update(preds[:, 0], target[:, 0])
    exact = functional.binary_average_precision(preds[:, 0].double(), target[:, 0], top_k="relevant", ties="expected")
    bounds = metric.bounds()
    assert bounds.low <= exact <= bounds.high
    m = int(target[:, 0].sum())
    assert chance_level(preds[:, 0], target[:, 0], top_k="relevant") == chance_level(preds[:, 0], target[:, 0], top_k=m)
    assert torch_ap.BinaryAveragePrecision(top_k="relevant").convention.top_k == "relevant"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_list_has_a_value_of_each_of_few_items(name):
    """Untied queries with relevant and other items take the shortest path."""
    preds = torch.tensor([[0.9, 0.1, 0.5, 0.3], [0.2, 0.4, 0.1, 0.3]])
    target = torch.tensor([[1, 0, 0, 1], [0, 1, 0, 0]])
    function, ks = FUNCTIONS[name], [1, 3, "relevant"]
    for rows in ((preds, target), (preds[0], target[0])):
        assert torch.equal(function(*rows, ks), torch.stack([function(*rows, k) for k in ks], -1))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_list_has_a_value_of_each(name):
    preds, target, m = data(1)
    function, ks = FUNCTIONS[name], [5, 1, "relevant", 30]
    rows = function(preds, target, ks, num_relevant=m)
    assert rows.shape == (12, 4)
    for place, k in enumerate(ks):
        assert torch.equal(rows[:, place], function(preds, target, k, num_relevant=m))
    for query in range(12):
        torch.testing.assert_close(
            function(preds[query], target[query], tuple(ks), num_relevant=int(m[query])), rows[query]
        )
        plain = torch.stack([function(preds[query], target[query], k) for k in ks])
        torch.testing.assert_close(function(preds[query], target[query], ks), plain)


@each("make", list(CLASSES))
@each("aggregation", ["mean", "median", "gm", lambda values: values.sum()])
def test_a_metric_of_a_list(make, aggregation):
    preds, target, _ = data(2)
    ks = [1, 4, "relevant"]
    together, alone = make(top_k=ks, aggregation=aggregation), [make(top_k=k, aggregation=aggregation) for k in ks]
    for metric in (together, *alone):
        metric.update(preds, target)
    assert together.top_k == ks
    assert "top_k=[1, 4, 'relevant']" in repr(together)
    assert torch.equal(together.compute(), torch.stack([x.compute() for x in alone]))
    assert torch.equal(together.per_query()[1], torch.stack([x.per_query()[1] for x in alone], 1))
    if aggregation != "mean":
        return
    ends = together.confidence_interval(0.8)
    assert ends.low.tolist() == [x.confidence_interval(0.8).low.item() for x in alone]
    summary, name = together.summary(), make._summary_name
    for k, one in zip(ks, alone, strict=True):
        wanted = {f"{name}_{k}{end.removeprefix(name)}": x for end, x in one.summary().items()}
        assert {key: summary[key] for key in wanted} == wanted
    if make in (RetrievalMAP, retrieval.RetrievalNormalizedDCG):
        assert torch.equal(together.chance_level(), torch.stack([x.chance_level() for x in alone]))
    with pytest.raises(ValueError, match=r"`top_k` must be one k for a comparison, got \[1, 4, 'relevant'\]"):
        together.compare(together)
    assert alone[2].compare(alone[2]).p_value == 1


def test_one_sort_serves_all(monkeypatch):
    preds, target, _ = data()
    sorts, sort = [], torch_ap.retrieval.metrics.query_metric.QueryMetric._rankings
    monkeypatch.setattr(
        torch_ap.retrieval.metrics.query_metric.QueryMetric,
        "_rankings",
        lambda self, **words: sorts.append(1) or sort(self, **words),
    )
    metric = RetrievalMAP(top_k=[1, 2, 3])
    metric.update(preds, target)
    metric.compute()
    assert len(sorts) == 1


def test_methods_of_one_k_raise_for_a_list(tmp_path):
    metric = RetrievalMAP(top_k=[1, 2])
    metric.update(*data()[:2])
    with pytest.raises(ValueError, match=r"`top_k` must be one k for a convention and a curve, got \[1, 2\]"):
        metric.curve()
    with pytest.raises(ValueError, match=r"`metric` must have one `top_k` for a report, got \[1, 2\]"):
        torch_ap.report(metric, tmp_path / "report.html")
    metric = RetrievalMAP(top_k="relevant")
    metric.update(*data()[:2])
    assert metric.curve().top_k == "relevant"
    text = torch_ap.report(metric, tmp_path / "report.md").read_text()
    assert "AP@R" in text
    assert "average precision at R, the number of relevant items" in text


@pytest.mark.parametrize(
    ("top_k", "message"),
    [
        ([], r"one k, or a list of different ones, got \[\]"),
        ([1, 1], r"one k, or a list of different ones, got \[1, 1\]"),
        ([None, 1], r"one k, or a list of different ones, got \[None, 1\]"),
        ([1, 0], "an int of at least 1, 'relevant' or None, got 0"),
        ([1, True], "an int of at least 1, 'relevant' or None, got True"),
        ([[1]], r"an int of at least 1, 'relevant' or None, got \[1\]"),
        ("all", "an int of at least 1, 'relevant' or None, got 'all'"),
        (2.0, "an int of at least 1, 'relevant' or None, got 2.0"),
    ],
)
def test_bad_lists(top_k, message):
    preds, target, _ = data()
    for function in FUNCTIONS.values():
        with pytest.raises(ValueError, match=f"`top_k` must be {message}"):
            function(preds, target, top_k)
    for make in CLASSES:
        with pytest.raises(ValueError, match=f"`top_k` must be {message}"):
            make(top_k=top_k)


def test_lists_are_of_queries_alone():
    preds, target, _ = data()
    with pytest.raises(ValueError, match="`top_k` must be an int"):
        functional.binary_average_precision(preds[0], target[0], top_k=[1, 2])
    with pytest.raises(ValueError, match="`top_k` must be an int"):
        Convention(top_k=[1, 2])


def test_how_deep_a_measure_looks():
    at = [Convention(k) for k in (1, 7, "relevant", None)]
    assert [deepest(x) for x in (*at, AtSeveral(tuple(at[:2])), AtSeveral(tuple(at[:3])), len)] == [
        1, 7, None, None, 7, None, None
    ]  # fmt: skip
