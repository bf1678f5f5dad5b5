"""Rank-biased precision: definition under every tie rule, chance level, bounds, peers, evaluate and the command."""

import itertools
from fractions import Fraction
from functools import partial

import pytest
import torch

import torch_ap
from tests.support import oracles_retrieval as oracles
from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.core.ranking.builders import from_bins
from torch_ap.functional import retrieval_rank_biased_precision
from torch_ap.retrieval.measures.rank_biased import RankBiasedPrecision

SCORES, RELEVANT = [0.9, 0.5, 0.5, 0.5, 0.2, 0.2, 0.1], [0, 1, 0, 1, 1, 0, 1]
PREDS, TARGET = torch.tensor(SCORES, dtype=torch.float64), torch.tensor(RELEVANT)
P = Fraction(3, 5)
CUTS = (None, 1, 2, 3, 4, 6, 9)


@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
def test_definition(ties):
    for k in CUTS:
        found = retrieval_rank_biased_precision(PREDS, TARGET, k, 0.6, ties=ties)
        exact = oracles.over_orders(partial(oracles.rank_biased_precision, k=k, p=P), SCORES, RELEVANT, ties)
        assert found.item() == pytest.approx(float(exact), abs=REORDERED)


def grouped(k):
    """Count each group at the rank of its end, and at k with its share of the places."""
    total, above = Fraction(0), 0
    for score in sorted(set(SCORES))[::-1]:
        group = [y for s, y in zip(SCORES, RELEVANT, strict=True) if s == score]
        places = max(0, min(len(group), k - above))
        total += Fraction(sum(group) * places, len(group)) * (1 - P) * P ** (above + places - 1) if places else 0
        above += len(group)
    return total


def test_grouped_ties_count_at_the_end_of_their_group():
    for k in CUTS[1:]:
        found = retrieval_rank_biased_precision(PREDS, TARGET, k, 0.6, ties="grouped")
        assert found.item() == pytest.approx(float(grouped(k)), abs=REORDERED)


@pytest.mark.parametrize("ties", ["expected", "grouped"])
def test_chance_level_is_the_mean_over_all_orders_of_the_labels(ties):
    for top_k, k in ((None, None), (3, 3), ("relevant", 5)):
        metric = torch_ap.RetrievalRankBiasedPrecision(p=0.6, top_k=top_k, ties=ties)
        metric.update(PREDS[None], TARGET[None], num_relevant=torch.tensor([5]))  # one was not retrieved
        metric.set_dtype(torch.float64)
        labels = torch.tensor(sorted(set(itertools.permutations(RELEVANT))))
        rows = PREDS.expand(len(labels), -1) if ties == "grouped" else -torch.arange(7.0).expand(len(labels), -1)
        values = retrieval_rank_biased_precision(rows, labels, k, 0.6, ties=ties, dtype=torch.float64)
        assert metric.chance_level().item() == pytest.approx(values.mean().item(), abs=REORDERED)


@pytest.mark.parametrize("ties", ["expected", "grouped", "optimistic", "pessimistic"])
def test_bounds_contain_every_order_inside_the_bins(ties):
    curve = from_bins(torch.tensor([[1, 2, 1]]), torch.tensor([[3, 3, 1]]))
    for k in (None, 1, 2, 4):
        bounds = RankBiasedPrecision(0.6, k, ties).bounds(curve, torch.tensor([True, True, False]))
        ends = [bounds.low.item(), bounds.high.item()]
        for first, second in itertools.product(range(3), itertools.combinations(range(3), 2)):
            relevant = [int(i == first) for i in range(3)] + [int(i in second) for i in range(3)] + [1]
            for scores in ([7, 6, 5, 4, 3, 2, 1], [7, 7, 7, 4, 3, 2, 1], [7, 6, 6, 4, 4, 2, 1]):
                preds = torch.tensor(scores, dtype=torch.float64)
                value = retrieval_rank_biased_precision(preds, torch.tensor(relevant), k, 0.6, ties=ties).item()
                assert ends[0] - REORDERED <= value <= ends[1] + REORDERED


def test_ranx_gives_the_same_values():
    ranx = pytest.importorskip("ranx")
    generator = torch.Generator().manual_seed(0)
    grades = (torch.rand(5, 20, generator=generator) < 0.3).long()
    scores = torch.rand(5, 20, generator=generator).double()
    qrels = {f"q{q}": {f"d{d}": int(y) for d, y in enumerate(row)} for q, row in enumerate(grades)}
    run = {f"q{q}": {f"d{d}": float(s) for d, s in enumerate(row)} for q, row in enumerate(scores)}
    relevant = {q: {d: y for d, y in judged.items() if y} for q, judged in qrels.items()}
    theirs = ranx.evaluate(ranx.Qrels(relevant), ranx.Run(run), ["rbp.80", "rbp.50"])
    ours = torch_ap.evaluate(qrels, run, ["RBP", "RBP(p=0.5)"]).to_dict()
    assert list(ours.values()) == pytest.approx(list(theirs.values()), abs=REORDERED)


QRELS, RUN = {"q": {"a": 2, "b": 1, "d": 2}}, {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}


def test_names_with_parameters():
    values = {
        "RBP": 0.2 * (1 + 0.8 + 0.8**3),
        "RBP(p=0.5)": 0.5 + 0.25 + 0.0625,
        "RBP(p=0.5)@2": 0.75,
        "RBP(p=0.5,rel=2)@4": 0.5 + 0.0625,
        "RBP(p=0.5, rel=2)": 0.5 + 0.0625,
        "F(beta=2)@1": 5 / (4 * 3 + 1),
        "nDCG(dcg='exp-log2')@1": 1.0,
        "P(rel=2)@4": 0.5,
    }
    assert torch_ap.evaluate(QRELS, RUN, list(values)).to_dict() == pytest.approx(values)
    for name, message in {
        "RBP(p=2)": r"`p` .* got 2",
        "RBP(p='x')": "p must be of type float, got 'x'",
        "RBP(q=1)": "must have only these parameters: p, rel, judged_only; got 'q'",
        "RBP(p=0.5": "unknown measure 'RBP",
        "RBP(rel=0)": "`relevance_level` .* got 0",
        "RBP@0": "k must be a whole number",
        "nDCG(dcg='log10')": "unknown measure",
    }.items():
        with pytest.raises(ValueError, match=message):
            torch_ap.evaluate(QRELS, RUN, name)


def test_commands(tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text("score,rel,q\n4,2,a\n3,1,a\n2,0,a\n1,2,a\n")
    columns = ["--preds", "score", "--target", "rel", "--group", "q", "-m", "RBP(p=0.5)@2"]
    assert main.main(["score", str(table), *columns, "--interval", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("RBP(p=0.5)@2,all,0.75,")
    assert main.main(["score", str(table), *columns, "--bins", "4"]) == 0
    assert "0.75" in capsys.readouterr().out
    assert main.main(["score", str(table), *columns[:4], "-m", "RBP"]) == 2
    assert "requires --group" in capsys.readouterr().err
