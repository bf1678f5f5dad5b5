"""Area under the ROC curve of queries: definition over all orders of ties, scikit-learn and torchmetrics."""

import math
from fractions import Fraction

import pytest
import torch
import torchmetrics.retrieval as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torchmetrics.functional.retrieval import retrieval_auroc as peer_function

from tests.support import oracles_retrieval as oracles
from tests.support.tolerances import REORDERED
from torch_ap import RetrievalAUROC
from torch_ap.functional import retrieval_auroc
from torch_ap.retrieval.measures import words
from torch_ap.retrieval.measures.roc import AUROC

F64 = {"dtype": torch.float64}
PARTS = st.sampled_from([None, 0.25, 0.5, 0.75, 1.0])
SCORES = st.sampled_from([0.0, 0.5, 1.0])


@given(
    st.lists(st.tuples(SCORES, st.integers(0, 1)), min_size=1, max_size=6),
    st.sampled_from([None, 1, 2, 4, 9]),
    PARTS,
    st.sampled_from(["expected", "optimistic", "pessimistic"]),
)
@settings(deadline=None, max_examples=300)
def test_definition(items, k, part, ties):
    scores, relevant = (list(x) for x in zip(*items, strict=True))
    words = {"ties": ties, "empty_target_action": "nan", **F64}
    preds, target = torch.tensor(scores), torch.tensor(relevant)
    value = retrieval_auroc(preds, target, k, part, **words)
    again = retrieval_auroc(preds, target, k, part, indexes=torch.zeros(len(items)).long(), **words)
    wanted = math.nan
    if any(relevant):
        if ties == "expected":
            orders = list(oracles.orders(scores, relevant))
        else:
            sign = -1 if ties == "optimistic" else 1
            best = sorted(items, key=lambda pair: (-pair[0], sign * pair[1]))
            orders = [[y for _, y in best]]
        values = [oracles.auroc(order, k, None if part is None else Fraction(part)) for order in orders]
        known = [x for x in values if x is not None]
        wanted = float(sum(known) / len(known)) if known else math.nan
    for found in (value, again):
        assert found.item() == pytest.approx(wanted, abs=REORDERED, nan_ok=True)


def random_rows(seed=0, queries=30, docs=25, levels=7):
    generator = torch.Generator().manual_seed(seed)
    preds = torch.randint(levels, (queries, docs), generator=generator) / 8
    return preds, (torch.rand(queries, docs, generator=generator) < 0.3).long()


@pytest.mark.parametrize("part", [None, 0.1, 0.5, 1.0])
def test_grouped_is_scikit_learns(part):
    preds, target = random_rows()
    values = retrieval_auroc(preds, target, max_fpr=part, ties="grouped", **F64)
    wanted = [roc_auc_score(y, s, max_fpr=part) for y, s in zip(target.numpy(), preds.numpy(), strict=True)]
    assert values.tolist() == pytest.approx(wanted, abs=REORDERED)
    if part is None:
        assert retrieval_auroc(preds, target, **F64).tolist() == pytest.approx(wanted, abs=REORDERED)


@pytest.mark.parametrize("k", [None, 1, 5, 40])
@pytest.mark.parametrize("part", [None, 0.5])
def test_torchmetrics_agrees_where_no_ties_straddle_the_cut(k, part):
    generator = torch.Generator().manual_seed(1)
    preds, target = torch.rand(20, 12, generator=generator), torch.rand(20, 12, generator=generator) < 0.4
    target[0], target[1] = True, False
    for s, y in zip(preds, target, strict=True):
        torch.testing.assert_close(retrieval_auroc(s, y, k, part), peer_function(s, y, k, part))


@pytest.mark.parametrize("action", ["neg", "skip"])
def test_drop_in(action):
    preds, target = random_rows(2, levels=10**6)
    preds = preds / 10**6  # torchmetrics applies a sigmoid to larger ones
    target[3] = 0
    indexes = torch.arange(30)[:, None].expand(30, 25)
    ours, theirs = (x(action, None, None, 0.5, "mean") for x in (RetrievalAUROC, peer.RetrievalAUROC))
    for metric in (ours, theirs):
        metric.update(preds, target, indexes)
    torch.testing.assert_close(ours.compute(), theirs.compute())


@pytest.mark.parametrize("aggregation", ["mean", "median", "min", "max", "gm", torch.mean])
@pytest.mark.parametrize("k", [[1, 4], [4, 1]])
def test_each_k_leaves_out_queries_of_its_own(k, aggregation):
    """The top 1 has one item and no pair: a hit in it leaves the measure undefined."""
    preds, target = (
        torch.tensor([[0.9, 0.8, 0.7, 0.6]]).repeat(3, 1),
        torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1], [0] * 4]),
    )
    words = {"aggregation": aggregation, "empty_target_action": "skip"}
    together, alone = RetrievalAUROC(top_k=k, **words), [RetrievalAUROC(top_k=x, **words) for x in k]
    for metric in (together, *alone):
        metric.update(preds, target)
    assert torch.equal(together.compute(), torch.stack([metric.compute() for metric in alone]))
    queries, values = together.per_query()
    assert queries.tolist() == [0, 1], "those that have a part at any k"
    for column, metric in zip(values.t(), alone, strict=True):
        kept = ~column.isnan()
        assert torch.equal(queries[kept], metric.per_query()[0])
        assert torch.equal(column[kept], metric.per_query()[1])


def test_unranked_items_are_in_no_pair():
    preds, target = torch.tensor([3.0, 2, 1]), torch.tensor([1, 0, 0])
    assert retrieval_auroc(preds, target, num_relevant=5) == 1
    assert retrieval_auroc(preds, target * 0, num_relevant=5, empty_target_action="pos") == 0
    assert retrieval_auroc(preds, target.flip(0), 2, empty_target_action="pos") == 0
    assert retrieval_auroc(preds, target * 0 + 1, 2, empty_target_action="pos") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"max_fpr": 0}, "`max_fpr` must be a number above 0 and at most 1, got 0"),
        ({"max_fpr": 1.5}, "`max_fpr` must be a number above 0 and at most 1, got 1.5"),
        ({"max_fpr": math.nan}, "`max_fpr` must be a number above 0"),
        ({"ties": "half"}, "`ties` must be one of"),
        ({"top_k": 0}, "`top_k` must be an int of at least 1"),
    ],
)
def test_bad_input(words, message):
    for call in (RetrievalAUROC, lambda **words: retrieval_auroc(torch.ones(2), torch.ones(2), **words)):
        with pytest.raises(ValueError, match=message):
            call(**words)


@pytest.mark.gpu
@pytest.mark.parametrize("k", [None, 6])
@pytest.mark.parametrize("ties", ["expected", "grouped", "optimistic"])
def test_accelerator(k, ties):
    here, there = (RetrievalAUROC(top_k=k, max_fpr=0.6, ties=ties) for _ in range(2))
    there = there.cuda()
    here.update(*random_rows(3))
    there.update(*(x.cuda() for x in random_rows(3)))
    torch.testing.assert_close(there.compute().cpu(), here.compute())


def test_words_name_every_choice():
    said = words.describe_over_queries(AUROC(3, 0.5, "grouped"), "mean")
    assert "area under the ROC curve up to a fall-out of 0.5, of the top 3" in said
    assert said != words.describe_over_queries(AUROC(3, 0.5), "mean")
    assert AUROC("relevant").label == "AUROC@R"
