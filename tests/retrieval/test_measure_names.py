"""Names of ranx, BEIR and ir_measures, measures of runs alone, condensed lists, and other orders of tied documents."""

import itertools
import math
import random
import warnings
from dataclasses import replace

import ir_measures
import pytest
import pytrec_eval
import torch

import torch_ap
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import Convention
from torch_ap.compat import RelevanceEvaluator
from torch_ap.core.ranking.builders import from_scores
from torch_ap.retrieval.measures.roc import AUROC
from torch_ap.retrieval.runs.names import formula

DRAWS = 40


def draw_run(seed, ties=False):
    draw = random.Random(seed)
    documents = [f"d{x}" for x in range(draw.choice([3, 8, 40]))]
    qrels = {
        f"q{q}": {x: draw.choice([-1, 0, 0, 1, 1, 2, 3]) for x in documents if draw.random() < 0.6} | {"d0": 1}
        for q in range(draw.randint(1, 20))
    }
    run = {}
    for query in qrels:
        scores = [float(draw.randint(0, 3)) if ties else draw.random() for _ in range(len(documents) + 2)]
        listed = dict(zip([*documents, "u1", "u2"], scores, strict=True))
        run[query] = {x: score for x, score in listed.items() if draw.random() < 0.8} or {"d0": 1.0}
    return qrels, run


TREC_NAMES = (
    *("map", "gm_map", "ndcg", "bpref", "gm_bpref", "infAP", "11pt_avg", "Rprec", "recip_rank", "utility", "set_P"),
    *("set_relative_P", "set_recall", "set_map", "set_F", "num_q", "num_ret", "num_rel", "num_rel_ret"),
    *("num_nonrel_judged_ret", "P", "P.3,7", "recall_5", "relative_P.5", "success", "map_cut_3", "ndcg_cut.4,10"),
    "iprec_at_recall.0.25",
)


@pytest.mark.parametrize("judged_only", [False, True])
def test_values_equal_pytrec_eval_bit_by_bit(judged_only):
    for seed in range(DRAWS):
        qrels, run = draw_run(seed, ties=seed % 2 == 0)
        run |= {"unjudged": {"d1": 1.0}, "q0": {}} if seed % 5 == 0 else {}
        measures, level = set(random.Random(seed).sample(TREC_NAMES, 9)), 1 + seed % 3 // 2
        settings = (measures, level, judged_only)
        expected = pytrec_eval.RelevanceEvaluator(qrels, *settings).evaluate(run)
        found = RelevanceEvaluator(qrels, *settings).evaluate(run)
        for values in expected.values():  # 0 / 0 there, for queries without judged documents
            values |= {name: 0.0 for name, value in values.items() if math.isnan(value)}
        assert found == expected


def test_evaluator_of_other_forms_and_faults():
    assert RelevanceEvaluator({"q": {"a": 1}}, {"map"}).evaluate({}) == {}
    assert RelevanceEvaluator({"q": {"a": 1}, "p": {}}, {"map"}).evaluate({"q": {}, "p": {"a": 1.0}}) == {
        "q": {"map": 0.0}
    }
    table = {"q": {"a": 2**53 - 1, "b": 2.0**54}}  # without the fast path
    assert RelevanceEvaluator({"q": {"a": 1}}, {"map"}).evaluate(table) == {"q": {"map": 0.5}}
    for nickname in ("official", "set"):
        names = RelevanceEvaluator({"q": {"a": 1}}, {nickname}).evaluate({"q": {"a": 1.0}})["q"]
        theirs = pytrec_eval.RelevanceEvaluator({"q": {"a": 1}}, {nickname}).evaluate({"q": {"a": 1.0}})["q"]
        assert names == {name: value for name, value in theirs.items() if name != "runid"}
    for arguments, kind, part in (
        (({"q": {}}, "map"), TypeError, "`measures` must be several names"),
        (([], ["map"]), TypeError, "`query_relevance` must be"),
        (({}, ["mpa"]), ValueError, "unsupported measure 'mpa'; did you mean 'map'?"),
        (({}, ["map_5"]), ValueError, "unsupported measure 'map_5'"),
        (({}, ["P_0"]), ValueError, "measure P takes a rank of at least 1, got '0'"),
        (({}, ["P_1.5"]), ValueError, "measure P takes a rank of at least 1, got '1.5'"),
        (({}, ["iprec_at_recall_2"]), ValueError, r"takes a level in \[0, 1\]"),
        (({}, ["map"], 0), ValueError, "`relevance_level` must be"),
    ):
        with pytest.raises(kind, match=part.replace("?", r"\?")):
            RelevanceEvaluator(*arguments)
    evaluator = RelevanceEvaluator({"q": {"a": 1}}, {"map"})
    for run in ([], {"q": {"a": math.nan}}, {"q": {"a": "high"}}, {"q": {"a": 2**60 + 1}}):
        with pytest.raises((TypeError, ValueError)):
            evaluator.evaluate(run)


def values_of(qrels, run, measure, **settings):
    """Return the mean, without ties between names."""
    return torch_ap.evaluate(qrels, run, measure, **settings).to_dict()[str(measure)]


OTHER_NAMES = {
    "precision@5": "P@5",
    "recall@5": "R@5",
    "hit_rate@5": "Success@5",
    "Accuracy@10": "Success@10",
    "f1@5": "F@5",
    "mrr": "RR",
    "mrr@3": "RR@3",
    "r-precision": "Rprec",
    "ndcg_burges@5": "nDCG(dcg='exp-log2')@5",
    "rbp.95": "RBP(p=0.95)",
    "map@10-l2": "AP(rel=2)@10",
    "precision": "SetP",
    "f1": "SetF",
    "NDCG@10": "ndcg_cut_10",
    "MAP@10": "map_cut_10",
    "P@5": "P_5",
    "R_cap@5": "relative_P_5",
}


# without a name of trec_eval alone ("recall"), of graded relevance (RBP), or of another formula (bpref)
RANX = (
    *("hits", "hits@5", "hit_rate@5", "precision", "precision@5", "recall@5", "f1", "f1@5", "r-precision", "mrr"),
    *("mrr@3", "map", "map@5", "dcg", "dcg@5", "dcg_burges@5", "ndcg", "ndcg@5", "ndcg_burges", "ndcg_burges@5"),
    *("map@10-l2", "precision@5-l2", "mrr-l2", "r-precision-l2", "f1@5-l2", "hits@5-l2", "hit_rate@5-l2"),
)


@pytest.mark.filterwarnings("ignore")  # of numba
def test_names_of_ranx_have_its_values():
    ranx = pytest.importorskip("ranx")
    for seed in range(4):
        qrels, run = draw_run(seed)
        qrels = {query: {name: max(grade, 0) for name, grade in listed.items()} for query, listed in qrels.items()}
        theirs = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), [*RANX])
        assert torch_ap.evaluate(qrels, run, [*RANX]).to_dict() == pytest.approx(theirs, rel=REORDERED)


OF_IR_MEASURES = (
    *("AP", "AP@5", "AP(rel=2)@5", "nDCG", "nDCG@5", "P@5", "P(rel=2)@5", "R@5", "RR", "RR(rel=2)", "Rprec", "Bpref"),
    *("Success@3", "infAP", "IPrec@0.3", "NumQ", "NumRet", "NumRel", "NumRelRet", "NumRet(rel=1)"),
    *("SetP", "SetR", "SetF", "SetF(beta=2.0)", "SetF(beta=0.25)", "SetAP", "SetP(relative=True)"),
)


@pytest.mark.filterwarnings("ignore:none of the .* is relevant at grade 2 or more:UserWarning")
def test_names_of_ir_measures_have_its_values():
    measures = [*map(ir_measures.parse_measure, OF_IR_MEASURES)]
    for seed in range(6):
        qrels, run = draw_run(seed)
        theirs = ir_measures.calc_aggregate(measures, qrels, run)
        found = torch_ap.evaluate(qrels, run, measures, ties="trec9").to_dict()
        assert found == pytest.approx({str(x): theirs[x] for x in measures}, rel=REORDERED)


@each("name", {name: name for name in OTHER_NAMES})
def test_names_of_other_packages_are_the_measure(name):
    qrels, run = draw_run(3)
    assert values_of(qrels, run, name) == values_of(qrels, run, OTHER_NAMES[name])


def ranked(qrels, run, query):
    """Return the grades by rank, and the ideal grades."""
    order = sorted(run[query], key=lambda name: -run[query][name])
    grades = [max(qrels[query].get(name, 0), 0) for name in order]
    return grades, sorted((max(x, 0) for x in qrels[query].values()), reverse=True)


def mean(values):
    return sum(values) / len(values)


def expected_reciprocal_rank(grades, k, most=4):
    total, going_on = 0.0, 1.0
    for rank, grade in enumerate(grades[:k], 1):
        satisfied = (2**grade - 1) / 2**most
        total, going_on = total + going_on * satisfied / rank, going_on * (1 - satisfied)
    return total


def test_measures_of_runs_have_their_definition():
    for seed in range(12):
        qrels, run = draw_run(seed)
        lists = [ranked(qrels, run, query)[0] for query in qrels]
        for k in (1, 4, None):
            at = "" if k is None else f"@{k}"
            definitions = {
                f"ERR{at}": [expected_reciprocal_rank(x, k) for x in lists],
                f"ERR(max_grade=3){at}": [expected_reciprocal_rank(x, k, 3) for x in lists],
                f"dcg{at}": [sum(g / math.log2(t + 2) for t, g in enumerate(x[:k])) for x in lists],
                f"dcg_burges{at}": [sum((2**g - 1) / math.log2(t + 2) for t, g in enumerate(x[:k])) for x in lists],
                f"hits{at}": [float(sum(g > 0 for g in x[:k])) for x in lists],
            }
            for name, values in definitions.items():
                assert values_of(qrels, run, name) == pytest.approx(mean(values), rel=REORDERED)
            judged = ir_measures.Judged if k is None else ir_measures.Judged @ k
            if k is not None:  # ir_measures takes the length of the first query for all of them
                theirs = ir_measures.calc_aggregate([judged], qrels, run)[judged]
                assert values_of(qrels, run, judged) == pytest.approx(theirs, rel=REORDERED)
            assert torch_ap.evaluate(qrels, run, "Judged").per_query()["Judged"] == {
                query: pytest.approx(mean([name in qrels[query] for name in listed])) for query, listed in run.items()
            }


def test_graded_ties_have_their_orders():
    qrels, run = {"q": {"a": 1, "b": 3, "c": 0}}, {"q": dict.fromkeys("abcd", 1.0) | {"e": 2.0}}
    orders = [[0, *x] for x in itertools.permutations([1, 3, 0, 0])]
    values = [expected_reciprocal_rank(x, 4) for x in orders]
    gains = [sum(g / math.log2(t + 2) for t, g in enumerate(x[:4])) for x in orders]
    for ties, pick in (("optimistic", max), ("pessimistic", min)):
        assert values_of(qrels, run, "ERR@4", ties=ties) == pytest.approx(pick(values))
        assert values_of(qrels, run, "dcg@4", ties=ties) == pytest.approx(pick(gains))
    assert values_of(qrels, run, "dcg@4", ties="expected") == pytest.approx(mean(gains))
    together = (1 - (1 - 1 / 16) * (1 - 7 / 16)) / 5
    assert values_of(qrels, run, "ERR", ties="grouped") == pytest.approx(together)
    assert values_of(qrels, run, "ERR@4", ties="expected") == pytest.approx(mean(values))
    with pytest.raises(ValueError, match="ERR takes grades up to `max_grade`, 2, got 3"):
        values_of(qrels, run, "ERR(max_grade=2)")
    with pytest.raises(ValueError, match="Accuracy"):
        torch_ap.evaluate(qrels, run, ir_measures.Accuracy)


@pytest.mark.parametrize("k", [None, 1, 3, 5])
def test_the_expected_reciprocal_rank_of_ties_is_the_mean_over_all_orders(k):
    """All orders of up to seven documents with scores from 0 to 2, against the exact mean."""
    draw = random.Random(k)
    qrels, run, wanted = {}, {}, {}
    for query in map(str, range(12)):
        names = "abcdefg"[: draw.randint(1, 7)]
        qrels[query] = {name: draw.choice([0, 0, 1, 2, 4]) for name in names} | {"z": 1}
        run[query] = {name: float(draw.randint(0, 2)) for name in names}
        orders = [x for x in itertools.permutations(names) if [*map(run[query].get, x)] == sorted(run[query].values())]
        wanted[query] = mean([expected_reciprocal_rank([qrels[query][x] for x in order[::-1]], k) for order in orders])
    name = "ERR" if k is None else f"ERR@{k}"
    found = torch_ap.evaluate(qrels, run, name, ties="expected").per_query()[name]
    assert found == pytest.approx(wanted, rel=REORDERED)


CONDENSED = ("AP", "AP@5", "P@3", "RR", "Rprec", "nDCG@4", "SetP", "SetAP", "Success@2", "R@5")


def test_condensed_lists_equal_ir_measures_and_pytrec_eval():
    for seed in range(10):
        qrels, run = draw_run(seed)
        if seed % 2:
            run = {query: {name: round(x, 1) for name, x in listed.items()} for query, listed in run.items()}
        measures = [ir_measures.parse_measure(x)(judged_only=True) for x in CONDENSED]
        theirs = ir_measures.calc_aggregate(measures, qrels, run)
        found = torch_ap.evaluate(qrels, run, measures, ties="trec9").to_dict()
        assert found == pytest.approx({str(x): theirs[x] for x in measures}, rel=REORDERED)
        for name, measure in zip(CONDENSED, measures, strict=True):
            assert values_of(qrels, run, name, ties="trec9", judged_only=True) == found[str(measure)]
    both = torch_ap.evaluate(qrels, run, ["AP", "AP(judged_only=True)"]).to_dict()
    assert both["AP"] < both["AP(judged_only=True)"]
    with pytest.raises(ValueError, match="judged_only must be True or False"):
        torch_ap.evaluate(qrels, run, "AP(judged_only=1)")


def test_the_note_on_ties_has_the_range_of_the_measures(tmp_path):
    qrels, run = {"q": {"a": 1, "b": 0}, "p": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0}, "p": {"a": 0.5}}
    text = "AP is 0.7500, in other orders 0.7500 to 1.0000, on average 0.8750; ERR is 0.0469, in other orders"
    note = next(x for x in torch_ap.evaluate(qrels, run, ["AP", "ERR", "Judged"]).notes if "tied" in x)
    assert text in note
    assert note.endswith("0.0469 to 0.0625, on average 0.0547")
    path = write_run(tmp_path / "run", run)
    note = next(x for x in torch_ap.evaluate(qrels, path, ["AP", "ERR"]).notes if "tied" in x)
    assert text in note
    many = torch_ap.evaluate(qrels, run, ["AP", "ERR", "P@1", "RR", "ndcg"])
    assert next(x for x in many.notes if "tied" in x).endswith("; and 2 more")
    assert not any("in other orders" in x for x in torch_ap.evaluate(qrels, run, "AP", ties="expected").notes)


def test_ranges_are_the_values_of_the_tie_rules():
    for seed in range(0, 8, 2):
        qrels, run = draw_run(seed, ties=True)
        note = next(x for x in torch_ap.evaluate(qrels, run, "AP", ties="trec9").notes if "tied" in x)
        low, expected, high = (
            values_of(qrels, run, "AP", ties=rule) for rule in ("pessimistic", "expected", "optimistic")
        )
        assert note.endswith(f"in other orders {low:.4f} to {high:.4f}, on average {expected:.4f}")


def write_run(path, run):
    lines = [f"{q} Q0 {d} 1 {score} t" for q, listed in run.items() for d, score in listed.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def is_mixed(run, qrels, query, level):
    """Return whether relevant and other documents of a query share a score."""
    scores = {True: set(), False: set()}
    for document, score in run[query].items():
        scores[qrels[query].get(document, 0) >= level].add(score)
    return bool(scores[True] & scores[False])


@each("ties", ["trec9", "trec10"])
@each("seed", range(4))
def test_the_note_on_ties_does_not_depend_on_the_order_of_the_measures(ties, seed, tmp_path):
    qrels, run = draw_run(seed, ties=True)
    path = write_run(tmp_path / "run", run)
    requested = ["AP(rel=3)", "nDCG(judged_only=True)@5", "AP", "P(rel=2)@3", "num_ret", "AP(judged_only=True)"]
    queries = sum(any(is_mixed(run, qrels, query, level) for level in (1, 2, 3)) for query in run)
    for measures in (requested, requested[::-1], requested[2:] + requested[:2]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # relevance at grade 3
            notes, of_file = (torch_ap.evaluate(qrels, x, measures, ties=ties).notes for x in (run, path))
        assert sorted(notes) == sorted(of_file)
        (note,) = (x for x in notes if "tied" in x)
        assert f"has tied scores in {queries} quer" in note
        ranges = note.split("d10': ")[1].split("; ")
        named = [x.split(" is ")[0] for x in ranges if " is " in x]
        assert len(named) == 3
        assert named == [x for x in measures if x in named]
        assert any("have no judgement" in x for x in notes)  # some measures leave these documents out


def test_the_warning_on_relevance_names_the_grade_that_no_document_has(tmp_path):
    qrels, run = {"q": {"a": 1, "b": 0, "c": 2}}, {"q": {"a": 2.0, "b": 1.0}}
    for given in (run, write_run(tmp_path / "run", run)):
        for measures in (["AP", "AP(rel=2)"], ["AP(rel=2)", "AP"]):
            with pytest.warns(UserWarning, match="none of the 2 documents of `run` is relevant at grade 2 or more"):
                torch_ap.evaluate(qrels, given, measures)
        with pytest.warns(UserWarning, match=r"none of the 2 documents of `run` is relevant\.$"):
            torch_ap.evaluate(qrels, given, "AP(rel=2)")


def mean_precision_of_found(grades):
    """Return the mean of the precisions at the relevant documents of the top k, by definition; 0 without one."""
    precisions = [sum(grades[: rank + 1]) / (rank + 1) for rank, grade in enumerate(grades) if grade]
    return sum(precisions) / max(len(precisions), 1)


def test_the_note_on_ties_has_no_range_if_hits_first_and_last_are_not_the_extremes(tmp_path):
    qrels = {"r": {"a": 1}} | {f"z{i}": {"a": 1, "b": 1} for i in range(11)}
    tied = {f"z{i}": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 2.0} for i in range(11)}
    run = {"r": {"a": 1.0, "b": 1.0}} | tied
    of_r = [mean_precision_of_found(order) for order in ((1, 0), (0, 1))]
    of_z = [mean_precision_of_found((1, *order[:2])) for order in itertools.permutations((1, 0, 0))]
    mean = (sum(of_r) / 2 + 11 * sum(of_z) / 6) / 12
    value = (0.5 + 11) / 12  # the order of the names: d, c, b, and b before a
    text = f"AP@3 is {value:.4f}, over all orders on average {mean:.4f}"
    assert min(of_z) < mean_precision_of_found((1, 0, 0)) == 1  # hits last is not the worst order
    for given in (run, write_run(tmp_path / "run", run)):
        (note,) = (
            x for x in torch_ap.evaluate(qrels, given, ["AP@3", "P@1"], denominator="found").notes if "tied" in x
        )
        assert f"{text}; P@1 is 0.9167, in other orders 0.9167 to 1.0000, on average 0.9583" in note
    (note,) = (x for x in torch_ap.evaluate(qrels, run, "AP@3", denominator="min").notes if "tied" in x)
    assert "in other orders" in note


@pytest.mark.parametrize(
    "measure",
    [
        *(Convention(top_k, denominator) for top_k in (None, 3) for denominator in ("min", "relevant", "found")),
        *(Convention(None, interpolation=x) for x in ("11-point", "all-points", "trapezoid")),
        *(AUROC(top_k, max_fpr) for top_k in (None, 3) for max_fpr in (None, 0.4)),
        *(
            formula(x, "expected")
            for x in ("P@3", "R@3", "F@3", "R_cap@2", "Rprec", "recip_rank", "success@2", "RBP", "hits@3")
        ),
    ],
    ids=repr,
)
def test_hits_first_and_last_are_the_extremes_of_monotone_measures(measure):
    """The other measures have an order outside the range for some of the rankings."""
    is_inside = []
    for target in itertools.product((0, 1), repeat=5):
        scores, hits = torch.tensor([3.0, 2.0, 2.0, 2.0, 1.0]), torch.tensor(target)
        low, high = (
            float(replace(measure, ties=x)(from_scores(scores, hits == 1))) for x in ("pessimistic", "optimistic")
        )
        orders = itertools.permutations(target[1:4])
        labels = [torch.tensor([target[0], *order, target[4]]) == 1 for order in orders]
        values = [float(measure(from_scores(torch.arange(5, 0, -1.0), x))) for x in labels]
        values = [x for x in values if not math.isnan(x)]
        is_inside += [low - 1e-12 <= x <= high + 1e-12 for x in values if not math.isnan(high - low)]
    assert is_inside
    assert all(is_inside) == measure.is_monotone


def test_the_note_of_the_documents_of_pytrec_eval_56():
    """The names decide: pytrec_eval returns 1 for both queries, and the mean over the orders is 0.81."""
    qrels = {"q1": {"d3": 1}, "q2": {"d2": 1, "d3": 1}}
    run = {"q1": {"d1": 1.0, "d2": 1.0, "d3": 1.0}, "q2": {"d3": 1.0, "d2": 1.0}}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)
    assert [values["map"] for values in theirs.values()] == [1, 1]
    (note,) = (x for x in torch_ap.evaluate(qrels, run, "map").notes if "tied" in x)
    assert note.endswith("map is 1.0000, in other orders 0.6667 to 1.0000, on average 0.8056")
