"""nDCG: against the definition over all orders of ties, scikit-learn, torchmetrics and trec_eval; its chance level."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
import torchmetrics.retrieval as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score
from torchmetrics import MetricCollection
from torchmetrics.functional.retrieval import retrieval_normalized_dcg as peer_function

from tests.support import oracles_retrieval as oracles
from tests.support.each import each
from tests.support.tolerances import LAST_BITS, REORDERED
from torch_ap import RetrievalMAP, RetrievalNormalizedDCG
from torch_ap.functional import retrieval_normalized_dcg
from torch_ap.retrieval import QueryMetric
from torch_ap.retrieval.measures.gain import DCG, NormalizedDCG, discounts, running_discounts, total_discount

F64 = {"dtype": torch.float64}
TIES = ("expected", "grouped", "optimistic", "pessimistic")
GAINS = ("linear", "exponential")
GRADES = st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0])
SCORES = st.sampled_from([-1.0, 0.0, 0.5, 2.0])
CUTS = st.sampled_from([None, 1, 2, 3, 9])


@given(
    st.lists(st.tuples(SCORES, GRADES), min_size=1, max_size=6),
    st.lists(GRADES, max_size=3),
    CUTS,
    st.sampled_from(GAINS),
    st.sampled_from(TIES),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
@settings(deadline=None, max_examples=200)
def test_definition(items, unseen, k, gains, ties, dtype):
    scores, grades = zip(*items, strict=True)
    wanted = oracles.normalized_dcg(list(scores), list(grades), [*grades, *unseen], k=k, gains=gains, ties=ties)
    preds = torch.tensor([*scores, *[math.nan] * len(unseen)]).to(dtype)
    target = torch.tensor([*grades, *unseen])
    retrieved = torch.arange(len(target)) < len(scores)
    words = {"retrieved": retrieved if unseen else None, "gains": gains, "ties": ties, **F64}
    value = retrieval_normalized_dcg(preds, target, k, **words)
    assert value.item() == pytest.approx(wanted, abs=REORDERED)
    assert 0 <= value <= 1
    for how in ({"indexes": torch.zeros(len(target)).long()}, {"empty_target_action": "nan"}):
        again = retrieval_normalized_dcg(preds, target, k, **how, **words)
        assert again.item() == pytest.approx(wanted, abs=REORDERED) or math.isnan(again)


def random_queries(seed=0, queries=40, docs=30, levels=6, grades=4):
    generator = torch.Generator().manual_seed(seed)
    shape = (queries, docs)
    preds = torch.randint(levels, shape, generator=generator) / 4 - 0.5
    return preds, torch.randint(grades, shape, generator=generator)


@pytest.mark.parametrize("k", [None, 1, 5, 100])
@pytest.mark.parametrize("layout", ["rows", "flat", "shuffled"])
def test_scikit_learn_agrees_in_every_layout(k, layout):
    preds, target = random_queries()
    wanted = [ndcg_score(y[None], s[None], k=k) for y, s in zip(target.numpy(), preds.numpy(), strict=True)]
    words = dict(F64)
    if layout != "rows":
        indexes = torch.arange(40).repeat_interleave(30)
        places = torch.arange(1200) if layout == "flat" else torch.randperm(1200)
        preds, target, words["indexes"] = preds.flatten()[places], target.flatten()[places], indexes[places]
    assert retrieval_normalized_dcg(preds, target, k, **words).tolist() == pytest.approx(wanted, abs=REORDERED)


@pytest.mark.parametrize("kind", [torch.int64, torch.float32, torch.bool])
def test_torchmetrics_agrees_with_ties(kind):
    preds, target = random_queries(1, levels=9)
    target = target.to(kind)
    for k in (None, 1, 7, 50):
        for s, y in zip(preds, target, strict=True):
            torch.testing.assert_close(retrieval_normalized_dcg(s, y, k), peer_function(s, y, k))


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("action", ["neg", "pos", "skip"])
def test_drop_in(k, action):
    preds, target = random_queries(2, levels=9)
    target[::5] = 0
    indexes = torch.arange(40)[:, None].expand(40, 30)
    for aggregation in ("mean", "median", "min", "max"):
        ours, theirs = (x(action, None, k, aggregation) for x in (RetrievalNormalizedDCG, peer.RetrievalNormalizedDCG))
        for part in torch.arange(40).split(9):
            for metric in (ours, theirs):
                metric.update(preds[part], target[part], indexes[part])
        torch.testing.assert_close(ours.compute(), theirs.compute())
    theirs.persistent(True)
    restored = RetrievalNormalizedDCG(action, None, k, aggregation)
    restored.load_state_dict(theirs.state_dict())
    assert restored.compute() == ours.compute()


def test_trec_eval_agrees_where_documents_were_not_retrieved():
    evaluator = pytest.importorskip("pytrec_eval").RelevanceEvaluator
    generator = torch.Generator().manual_seed(0)
    preds, grades = torch.rand(12, 30, generator=generator), torch.randint(-1, 4, (12, 30), generator=generator)
    grades[3] = 0
    retrieved = torch.rand(12, 30, generator=generator) < 0.6
    qrels = {f"q{q}": {f"d{d}": int(grades[q, d]) for d in range(30)} for q in range(12)}
    run = {f"q{q}": {f"d{d}": float(preds[q, d]) for d in range(30) if retrieved[q, d]} for q in range(12)}
    found = evaluator(qrels, {"ndcg", "ndcg_cut.5,20"}).evaluate(run)
    for name, k in (("ndcg", None), ("ndcg_cut_5", 5), ("ndcg_cut_20", 20)):
        values = retrieval_normalized_dcg(preds, grades, k, retrieved=retrieved, relevance_level=1, **F64)
        assert values.tolist() == pytest.approx([found[f"q{q}"][name] for q in range(12)], abs=REORDERED)


@each("ties", list(TIES))
@each("gains", list(GAINS))
@each("k", [None, 2, 4, "relevant"])
def test_chance_level_is_the_mean_over_all_orders(ties, gains, k):
    scores = [[0.4, 0.4, 0.2, 0.2, 0.2], [0.1] * 3, [0.3], [0.9, 0.8]]
    grades = [[1, 0, 3, 0, 2], [0, 1, 0], [1], [0, 0]]
    unseen = [[], [2], [], [1]]
    metric, wanted = RetrievalNormalizedDCG(top_k=k, gains=gains, ties=ties).set_dtype(torch.float64), []
    for query, (s, y, more) in enumerate(zip(scores, grades, unseen, strict=True)):
        retrieved = torch.arange(len(s + more)) < len(s)
        batch = (torch.tensor(s + [0.0] * len(more)), torch.tensor(y + more), torch.full((len(s + more),), query))
        metric.update(*batch, retrieved=retrieved)
        rule = ties if ties == "grouped" else "expected"
        rank = sum(grade > 0 for grade in y + more) if k == "relevant" else k
        values = [
            oracles.normalized_dcg(s, order, y + more, k=rank, gains=gains, ties=rule)
            for order in itertools.permutations(y)
        ]
        wanted.append(sum(values) / len(values))
    metric.update(torch.tensor([0.0]), torch.tensor([2]), torch.tensor([9]), retrieved=torch.tensor([False]))
    assert metric.chance_level().item() == pytest.approx(sum(wanted) / 5, rel=REORDERED)
    found = metric.summary()
    assert list(found) == ["ndcg", "ndcg_low", "ndcg_high", "ndcg_chance"]
    assert found["ndcg_low"] <= found["ndcg"] <= found["ndcg_high"]


def test_a_better_system_is_distinguished_from_a_worse_one():
    preds, target = random_queries(3, queries=200, levels=1000)
    better, worse = RetrievalNormalizedDCG(top_k=10), RetrievalNormalizedDCG(top_k=10)
    better.update(preds + target * 100, target)
    worse.update(preds + target, target)
    found = better.compare(worse)
    assert found.difference > 0
    assert found.p_value < 0.001
    with pytest.raises(ValueError, match="gains: 'linear' here, 'exponential' there"):
        better.compare(RetrievalNormalizedDCG(top_k=10, gains="exponential"))


def test_unknown_relevant_items_have_grade_one():
    preds, target, indexes = torch.tensor([3.0, 2, 1]), torch.tensor([0, 1, 0]), torch.tensor([4, 4, 4])
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    value = retrieval_normalized_dcg(preds, target, indexes=indexes, num_relevant={4: 3}, **F64)
    assert value.item() == pytest.approx(1 / math.log2(3) / ideal)
    metric = RetrievalNormalizedDCG().set_dtype(torch.float64)
    metric.update(preds, target, indexes)
    metric.update(num_relevant={4: 3, 8: 1})
    assert metric.per_query()[1].tolist() == pytest.approx([value.item(), 0])
    retrieved = torch.tensor([True, True, True, False])
    with pytest.raises(ValueError, match="got 1 for query 4, where there are 2"):
        metric.update(
            torch.zeros(4), torch.tensor([0, 1, 0, 2]), torch.full((4,), 4), retrieved=retrieved, num_relevant={4: 1}
        )


def test_judged_queries_without_items_count_next_to_a_single_one_with_items():
    preds, target, indexes = torch.tensor([3.0, 2, 1]), torch.tensor([2, 0, 1]), torch.tensor([4, 4, 4])
    for m in (2, 5):
        own = retrieval_normalized_dcg(preds, target, indexes=indexes, num_relevant={4: m}, **F64)
        found = retrieval_normalized_dcg(preds, target, indexes=indexes, num_relevant={4: m, 8: 3, 2: 1}, **F64)
        assert found.tolist() == [0, own.item(), 0]


def test_missing_queries_are_queries_without_retrieved_items():
    given = (torch.tensor([[2.0, 1], [2, 1], [2, 1]]), torch.tensor([[1, 0], [3, 0], [0, 0]]))
    retrieved = torch.tensor([[True, True], [False, False], [False, False]])
    assert retrieval_normalized_dcg(*given, retrieved=retrieved).tolist() == [1, 0, 0]
    skipped = retrieval_normalized_dcg(*given, retrieved=retrieved, missing_queries="skip")
    assert skipped[0] == 1
    assert skipped[1:].isnan().all()
    with pytest.raises(ValueError, match="invalid for 1, 2"):
        retrieval_normalized_dcg(*given, retrieved=retrieved, missing_queries="error")
    indexes = torch.tensor([[5, 5], [3, 3], [1, 1]])
    assert retrieval_normalized_dcg(*given, retrieved=retrieved, indexes=indexes).tolist() == [0, 0, 1]


def test_grades_below_the_level_have_no_gain():
    preds, target = torch.tensor([4.0, 3, 2, 1]), torch.tensor([1, -2, 3, 0])
    assert retrieval_normalized_dcg(preds, target, relevance_level=2).item() == pytest.approx(0.5)
    low = retrieval_normalized_dcg(preds, target, relevance_level=-5)
    assert low == retrieval_normalized_dcg(preds, target.clamp(min=0))
    assert retrieval_normalized_dcg(preds, target, ignore_index=-2) == retrieval_normalized_dcg(
        preds[[0, 2, 3]], target[[0, 2, 3]]
    )


@pytest.mark.parametrize(
    ("target", "words", "message"),
    [
        ([1, -1], {}, r"`target` must contain grades from 0 to 1e288 .*`relevance_level`.* got -1 at index 1"),
        ([1.0, math.inf], {}, r"`target` must contain grades .* got inf at index 1"),
        ([1.0, math.inf], {"relevance_level": 1}, r"`target` must contain grades .* got inf at index 1"),
        ([math.nan, 1.0], {}, "`target` must not contain NaN"),
        ([math.nan, 1.0], {"relevance_level": 0.5}, "`target` must not contain NaN"),
        ([2000, 1], {"gains": "exponential"}, "`target` must be at most 1000 with `gains='exponential'`, got 2000"),
        ([1, 0], {"gains": "log"}, "`gains` must be one of 'linear', 'exponential', got 'log'"),
        ([1, 0], {"ties": "average"}, "`ties` must be one of"),
        ([1, 0], {"top_k": 0}, "`top_k` must be an int of at least 1"),
        ([1, 0], {"retrieved": torch.ones(2)}, "`retrieved` must be a bool tensor, got torch.float32"),
        ([1, 0], {"retrieved": torch.ones(3) > 0}, r"`retrieved` must have the shape of `preds`, \(2,\), got \(3,\)"),
        ([1, 0], {"retrieved": [True, True]}, "`retrieved` must be a tensor or None, got list"),
        ([1, 1], {"num_relevant": 1}, "relevant ranked items, got 1, where there are 2"),
    ],
)
def test_bad_input(target, words, message):
    preds, target = torch.tensor([0.5, 0.2]), torch.tensor(target)
    with pytest.raises((TypeError, ValueError), match=message):
        retrieval_normalized_dcg(preds, target, **words)
    if words and words.keys() <= {"relevance_level", "gains", "ties", "top_k"}:
        with pytest.raises((TypeError, ValueError), match=message):
            RetrievalNormalizedDCG(**words)(preds, target, torch.zeros(2).long())


def test_huge_and_tiny_grades():
    preds = torch.tensor([2.0, 1])
    for grade in (1e-300, 1e287):
        target = torch.tensor([0.0, grade], dtype=torch.float64)
        assert retrieval_normalized_dcg(preds, target, **F64).item() == pytest.approx(1 / math.log2(3))
    assert retrieval_normalized_dcg(preds, torch.tensor([999, 1000]), gains="exponential") < 1


def test_exponential_gains_of_tiny_and_of_whole_grades():
    tiny, whole = torch.tensor([1e-20, 3e-17, 1e-300], dtype=torch.float64), torch.arange(31, dtype=torch.float64)
    measure = NormalizedDCG(gains="exponential")
    for form in (torch.Tensor.clone, torch.Tensor.numpy):
        assert measure.gains_of(form(tiny)).tolist() == pytest.approx(
            [x * math.log(2) for x in tiny.tolist()], rel=LAST_BITS
        )
        assert measure.gains_of(form(whole)).tolist() == [2**grade - 1 for grade in range(31)]
    target = torch.tensor([0.0, 1e-20], dtype=torch.float64)
    found = retrieval_normalized_dcg(torch.tensor([2.0, 1]), target, gains="exponential", **F64)
    assert found.item() == pytest.approx(1 / math.log2(3))


def test_a_state_from_elsewhere_is_looked_at():
    metric = RetrievalNormalizedDCG()
    metric.update(*random_queries(4, queries=3))
    good = metric.metric_state
    assert RetrievalNormalizedDCG().from_bytes(metric.to_bytes()).compute() == metric.compute()
    for change, message in (
        ({"query_grades": []}, "`query_grades` must be one per item"),
        ({"query_grades": [x[:-1] for x in good["query_grades"]]}, "must have equal lengths"),
        ({"query_grades": [-x for x in good["query_grades"]]}, "above 0"),
        ({"query_grades": [x + 1 for x in good["query_grades"]]}, "above 0"),
        ({"query_grades": [x * math.inf for x in good["query_grades"]]}, "above 0|`target` must"),
        ({"query_relevance": [torch.full_like(x, 3) for x in good["query_relevance"]]}, "relevance must be"),
    ):
        with pytest.raises(ValueError, match=message):
            RetrievalNormalizedDCG().merge_state({**good, **change})
    with pytest.raises(ValueError, match="same settings"):
        RetrievalMAP().merge_state(good)


def test_all_ndcgs_share_one_state():
    collection = MetricCollection(
        {
            "5": RetrievalNormalizedDCG(top_k=5),
            "exponential": RetrievalNormalizedDCG(gains="exponential"),
            "pessimistic": RetrievalNormalizedDCG(ties="pessimistic"),
            "map": RetrievalMAP(relevance_level=1),
        }
    )
    preds, target = random_queries(5)
    collection.update(preds, target)
    collection.update(preds, target)
    assert sorted(map(len, collection.compute_groups.values())) == [1, 3]
    together = collection.compute()
    for name, metric in collection.items():
        assert together[name] == metric.compute()


def test_targets_and_repr_follow_the_settings():
    metric = RetrievalNormalizedDCG(top_k=3, gains="exponential", ignore_index=9)
    metric.update(torch.tensor([0.5, 0.4, 0.3]), torch.tensor([2.5, 9, 0]), torch.tensor([1, 1, 1]))
    assert [x.tolist() for x in metric.target] == [[2.5, 0]]
    assert repr(metric) == "RetrievalNormalizedDCG(ignore_index=9, top_k=3, gains='exponential')"


def test_sums_of_discounts_lose_no_digits():
    """The sum equals the exact sum of the rounded discounts; a plain running sum is off by thousands of last bits."""
    size, start = 1 << 20, (1 << 20) - 3
    like = torch.zeros(1).long().numpy()
    single, running = discounts(size, like), running_discounts(size, like)
    exact = float(sum(map(Fraction, single[start:].tolist())))
    assert total_discount(torch.tensor([1, 2])).tolist() == pytest.approx([1, 1 + 1 / math.log2(3)])
    difference = (running[0][-1] - running[0][start]) / 2**32 + (running[1][-1] - running[1][start])
    assert difference == pytest.approx(exact, rel=4e-16)  # two last bits
    assert single.cumsum()[-1] - single.cumsum()[start - 1] != pytest.approx(exact, rel=1e-12)  # 8,000 last bits


@pytest.mark.gpu
@pytest.mark.parametrize("ties", TIES)
def test_accelerator(ties):
    preds, target = random_queries(6)
    retrieved = torch.rand(40, 30, generator=torch.Generator().manual_seed(1)) < 0.8
    here, there = (RetrievalNormalizedDCG(top_k=7, ties=ties, gains="exponential") for _ in range(2))
    there = there.cuda()
    here.update(preds, target, retrieved=retrieved)
    on_device = [x.cuda() for x in (preds, target, retrieved)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        there.update(*on_device[:2], retrieved=on_device[2])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(there.compute().cpu(), here.compute())
    torch.testing.assert_close(there.chance_level().cpu(), here.chance_level())


@each("action", ("skip", "pos", "neg", "nan"))
def test_chance_level_of_queries_without_gains(action):
    """A query without a gain has no DCG in any order, so both means take it by the same rule."""
    metric = QueryMetric(DCG(), empty_target_action=action)
    metric.update(torch.arange(6.0), torch.tensor([1, 0, 3, 0, 0, 0]), indexes=torch.tensor([0, 0, 0, 1, 1, 1]))
    mean = sum(math.log(2) / math.log(rank + 1) for rank in (1, 2, 3)) * 4 / 3
    expected = {"skip": mean, "pos": (mean + 1) / 2, "neg": mean / 2, "nan": math.nan}[action]
    assert float(metric.chance_level()) == pytest.approx(expected, nan_ok=True)
