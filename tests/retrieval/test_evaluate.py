"""One call for judgements and runs: any form, peers' names and numbers, several runs, bad input."""

import os
import pickle
import warnings
from functools import partial
from pathlib import Path
from string import ascii_lowercase

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval
import torch

import torch_ap
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.inference import compare_systems_per_query, mean_interval
from torch_ap.retrieval.runs import measured, names, nested, trec
from torch_ap.retrieval.runs.measure_names import CONVENTIONS, KNOWN, OF_TREC_EVAL, PLAIN, TREC_CONVENTIONS

IR = ("AP", "AP@10", "AP@100", "P@5", "P@10", "R@10", "R@100", "RR", "RR@10", "Rprec", "Success@1", "Success@10")
COUNTS = ("NumRet", "NumRel", "NumRet(rel=1)")
IR_TOO = (
    "nDCG",
    "nDCG@10",
    "Bpref",
    "infAP",
    "IPrec@0.1",
    "IPrec@0.5",
    "SetP",
    "SetR",
    "SetF",
    "AP(rel=2)",
    "P(rel=2)@5",
)
TREC = ("map", "map_cut_5", "map_cut_100", "P_5", "recall_10", "recip_rank", "Rprec", "success_5", "11pt_avg", "set_P")
TREC_TOO = ("set_recall", "set_F", "iprec_at_recall_0.20", "gm_map")


def drawn(seed=0, skill=1.0, queries=12, tied=False):
    rng = np.random.default_rng(seed)
    qrels, run = {}, {}
    for query in range(queries):
        documents = [f"d{x}" for x in rng.choice(300, 40, replace=False)]
        qrels[f"q{query}"] = {d: int(rng.integers(0, 3)) for d in documents[::2]}
        scores = rng.normal(size=40) + skill * np.array([qrels[f"q{query}"].get(d, 0) for d in documents])
        run[f"q{query}"] = dict(zip(documents, (np.round(scores) if tied else scores).tolist(), strict=True))
    return qrels, run


QRELS, RUN = drawn()
EVERY = [x if x in PLAIN else x.replace("@k", "@10").replace("@l", "@0.3") for x in KNOWN if x != "official"]


def count_equal_values(ours, measures, qrels, run):
    """Count the values of queries that equal ir_measures', one measure at a time, since RR with RR@10 is 0 there."""
    values = ours.per_query()
    found = [x for measure in measures for x in ir_measures.iter_calc([measure], qrels, run)]
    for one in found:
        assert values[str(one.measure)][one.query_id] == pytest.approx(one.value, abs=REORDERED), one
    return len(found)


def test_counts_equal_peers():
    measures = [*(ir_measures.parse_measure(x) for x in (*COUNTS, "NumRet(rel=2)")), ir_measures.NumQ]
    theirs = ir_measures.calc_aggregate([*measures, ir_measures.NumRelRet], QRELS, RUN)
    ours = torch_ap.evaluate(QRELS, RUN, [*measures, ir_measures.NumRelRet]).to_dict()
    assert ours == {str(x): value for x, value in theirs.items()}


def test_peers_names_and_values(recwarn):
    for tied in (False, True):
        qrels, run = drawn(1, tied=tied)
        # its RR@k takes the tied document with the smaller name first
        measures = [ir_measures.parse_measure(x) for x in (*IR, *IR_TOO) if not (tied and x == "RR@10")]
        ours = torch_ap.evaluate(qrels, run, measures, ties="trec9")
        assert list(ours.to_dict()) == list(map(str, measures))
        assert count_equal_values(ours, measures, qrels, run) == len(measures) * len(run)
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {x.rpartition("_")[0] if x[-1].isdigit() else x for x in TREC})
        values = theirs.evaluate(run)
        for name, mine in torch_ap.evaluate(qrels, run, TREC, ties="trec9").per_query().items():
            assert mine == pytest.approx({query: values[query][name] for query in values}, abs=REORDERED), name
    assert not [x for x in recwarn.list if x.category is UserWarning]


def test_exceptions_of_ir_measures():
    """Its RR@k and Judged@k reverse the names of tied documents; its NumQ and NumRel lack queries without documents."""
    qrels = {"q": {"a": 1, "b": 0, "c": 0}, "p": {"a": 1, "b": 1}}
    run = {"q": {"a": 2.0, "b": 2.0, "x": 1.0, "y": 1.0, "c": 1.0}}
    by_name = {"NumQ": (2, 1), "NumRel": (3, 1), "RR@2": (0.25, 0.5), "Judged@3": (1 / 3, 1 / 2)}
    measures = [ir_measures.parse_measure(x) for x in by_name]
    with pytest.warns(UserWarning, match="no documents for 1 of 2 judged queries"):
        ours = torch_ap.evaluate(qrels, run, measures, ties="trec9").to_dict()
    assert list(ours.values()) == pytest.approx([own for own, _ in by_name.values()])
    theirs = ir_measures.calc_aggregate(measures, qrels, run)
    assert [theirs[x] for x in measures] == pytest.approx([other for _, other in by_name.values()])


@pytest.fixture(scope="module")
def folder():
    found = os.environ.get("TORCH_AP_TEST_DATA")
    if not found:
        pytest.skip("TORCH_AP_TEST_DATA does not name the folder with trec_eval's test files")
    return Path(found) / "trec_eval"


@pytest.mark.parametrize("qrels", ["qrels.test", "qrels.rel_level"])
@pytest.mark.parametrize("run", ["results.test", "results.trunc"])
@pytest.mark.filterwarnings("ignore:`run` has no documents", "ignore:3 of 3 judged queries have no document of grade 2")
def test_every_query_of_real_runs_as_peers_have_it(qrels, run, folder):
    """The defaults of ir_measures are tested, too: queries without documents count 0."""
    lines = [[line.split() for line in (folder / x).read_text().splitlines()] for x in (qrels, run)]
    given = [ir_measures.Qrel(q, d, int(grade)) for q, _, d, grade in lines[0]]
    listed = [ir_measures.ScoredDoc(q, d, float(score)) for q, _, d, _, score, *_ in lines[1]]
    measures = [ir_measures.parse_measure(x) for x in (*IR, *IR_TOO)]
    ours = torch_ap.evaluate(folder / qrels, folder / run, measures, ties="trec9")
    assert count_equal_values(ours, measures, given, listed) == len(measures) * 3
    for measure in measures:
        assert ours.to_dict()[str(measure)] == pytest.approx(
            ir_measures.calc_aggregate([measure], given, listed)[measure]
        )


def test_gains_are_requested_as_in_ir_measures():
    qrels, run = drawn(1, tied=False)
    asked = [ir_measures.nDCG(dcg="exp-log2") @ 10, ir_measures.nDCG(dcg="exp-log2"), ir_measures.nDCG(dcg="log2")]
    found = torch_ap.evaluate(qrels, run, [*asked, "ndcg_exp@10", "ndcg_exp", "ndcg"]).per_query()
    assert [found[str(x)] for x in asked] == [found[x] for x in ("ndcg_exp@10", "ndcg_exp", "ndcg")]
    gained = {query: {document: 2**grade - 1 for document, grade in listed.items()} for query, listed in qrels.items()}
    assert found["ndcg_exp@10"] == pytest.approx(torch_ap.evaluate(gained, run, "ndcg@10").per_query()["ndcg@10"])
    assert found["ndcg_exp"] != pytest.approx(found["ndcg"])


@pytest.mark.parametrize("flags", [[], ["-c"]])
@pytest.mark.filterwarnings(r"ignore:\d of \d judged queries have no document of grade 2")
def test_the_command_agrees_with_the_function(flags, folder, capsys):
    names = ["AP", "AP@10", "map_cut.10", "P.5,10", "RR@10", "gm_map", "AP(rel=2)@5", "R@100", "F@5", "iprec@0.1"]
    files = [str(folder / x) for x in ("qrels.test", "results.trunc")]
    assert main.main(["trec", *files, *flags, *(x for name in names for x in ("-m", name))]) == 0
    printed = dict(line.split()[::2] for line in capsys.readouterr().out.splitlines()[1:])
    with pytest.warns(UserWarning, match=r"no documents for 1 of 3 judged queries"):
        ours = torch_ap.evaluate(*files, names, missing_queries="neg" if flags else "skip").to_dict()
    assert list(ours) == ["AP", "AP@10", "map_cut.10", "P_5", "P_10", *names[4:]]
    assert {name.replace("map_cut.", "map_cut_"): f"{value:.4f}" for name, value in ours.items()} == printed


def test_one_way_of_ap_at_10_per_denominator():
    qrels = {"q": {f"d{x}": 1 for x in range(30)}}
    run = {"q": {f"d{x}": -float(x) for x in range(10)}}
    values = {
        x: torch_ap.evaluate(qrels, run, "AP@10", denominator=x).to_dict()["AP@10"]
        for x in ("relevant", "min", "found")
    }
    assert values == pytest.approx({"relevant": 1 / 3, "min": 1, "found": 1})
    found = torch_ap.evaluate(qrels, run, ["AP@10", "AP"], denominator="min")
    assert "divided by the smaller of 10 and the number of relevant items" in found.conventions["AP@10"]
    assert any("AP@10: divided by k or all relevant" in x for x in found.notes)


def evaluate_both_ways(monkeypatch, *args, **settings):
    """Return the results of dicts evaluated directly and through tables."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = torch_ap.evaluate(*args, **settings)
        with monkeypatch.context() as patched:
            patched.setattr(nested, "qrels_of_dicts", lambda _: None)
            wanted = torch_ap.evaluate(*args, **settings)
    half = len(said) // 2
    assert [str(x.message) for x in said[:half]] == [str(x.message) for x in said[half:]]
    return found, wanted


def seen_to_be_the_same(found, wanted):
    assert found.per_query() == wanted.per_query()
    assert found.to_dict() == pytest.approx(wanted.to_dict(), rel=REORDERED)
    assert found.notes == wanted.notes


@pytest.mark.parametrize("ties", CONVENTIONS)
@pytest.mark.parametrize("queries", [1, 7, 20])
def test_dicts_and_tables_have_one_value(queries, ties, monkeypatch):
    """The values are equal bit by bit, for few and many queries and documents, with ties and with missing ones."""
    excluded = () if ties in TREC_CONVENTIONS else OF_TREC_EVAL
    measures = [x for x in EVERY if x.partition("@")[0] not in excluded]
    rng = np.random.default_rng(queries)
    for case in range(6):
        qrels, run = drawn(case, queries=queries, tied=case % 3 == 0)
        for place, query in enumerate(qrels):
            size = int(rng.choice([0, 3, 40] if place else [1, 3, 40]))
            run[query] = dict(list(run[query].items())[:size]) | {
                f"x{d}": 0.5 + d // 2 for d in range(100 * (size == 3))
            }
            qrels[query] = {d: grade - case % 2 for d, grade in qrels[query].items() if rng.random() < 0.8}
        if case % 4 == 1:
            run["no judgements"] = {"d1": 1, "d2": 2, "d3": 3}
            del run["q0"]
            qrels["q"], run["q"] = {"d1": 1}, {"d1": 1}
        settings = {"missing_queries": ("neg", "skip")[case % 2], "relevance_level": 1 + case % 2, "ties": ties}
        seen_to_be_the_same(*evaluate_both_ways(monkeypatch, qrels, run, [*measures, "AP(rel=2)"], **settings))


@pytest.mark.parametrize("ties", CONVENTIONS)
def test_one_pair_of_tied_documents_among_many_short_runs(ties, monkeypatch):
    qrels = {f"q{place}": {"d1": 1, "d2": 0} for place in range(40)}
    run = {query: {"d1": 0.5, "d2": 0.25, "d3": 0.125} for query in qrels}
    run["q7"] = {"d1": 0.5, "d2": 0.5, "d3": 0.125}
    found, wanted = evaluate_both_ways(monkeypatch, qrels, run, "AP", ties=ties)
    seen_to_be_the_same(found, wanted)
    tied = {"expected": 0.75, "optimistic": 1}.get(ties, 0.5)  # d2 is the later name
    assert found.per_query()["AP"]["q7"] == tied


# -- forms


def rows(nested, value):
    return {
        "query": [query for query, listed in nested.items() for _ in listed],
        "doc": [document for listed in nested.values() for document in listed],
        value: [x for listed in nested.values() for x in listed.values()],
    }


def as_text(frame):
    return frame.astype({"query": str, "doc": str})


FORMS = {
    "pandas": pd.DataFrame,
    "pandas, shuffled": lambda x: pd.DataFrame(x).sample(frac=1, random_state=0),
    "pandas, categories": lambda x: pd.DataFrame(x).astype({"query": "category", "doc": "category"}),
    "pandas, objects": lambda x: pd.DataFrame(x).astype({"query": object, "doc": object}),
    "arrow": pa.table,
    "arrow, dictionaries": lambda x: pa.table(pa.table(x).to_pandas().astype({"doc": "category"})),
}


@pytest.mark.parametrize("form", FORMS)
def test_tables(form):
    wanted = torch_ap.evaluate(QRELS, RUN)
    qrels, run = FORMS[form](rows(QRELS, "grade")), FORMS[form](rows(RUN, "score"))
    for given in ((qrels, run), (QRELS, run), (qrels, RUN)):
        found = torch_ap.evaluate(*given)
        assert found.per_query() == {x: pytest.approx(y, abs=REORDERED) for x, y in wanted.per_query().items()}


def test_polars():
    pl = pytest.importorskip("polars")
    found = torch_ap.evaluate(pl.DataFrame(rows(QRELS, "grade")), pl.DataFrame(rows(RUN, "score")), "AP")
    assert found.to_dict() == torch_ap.evaluate(QRELS, RUN, "AP").to_dict()


KEYS = {
    "int": int,
    "NumPy's int": np.int64,
    "float": lambda x: -float(x),  # the hashes of -1.0 and -2.0 are equal
    "huge int": lambda x: int(x) << 70,
    "tuple": lambda x: ("id", x),
    "bytes": str.encode,
    "NumPy's str": np.str_,
}


def renamed(nested, key):
    return {key(query[1:]): {key(d[1:]): x for d, x in listed.items()} for query, listed in nested.items()}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_names_of_any_type(key):
    qrels, run = renamed(QRELS, key), renamed(RUN, key)
    found = torch_ap.evaluate(qrels, run, ["AP", "P@5"])
    assert found.to_dict() == torch_ap.evaluate(QRELS, RUN, ["AP", "P@5"]).to_dict()
    assert set(found.per_query()["AP"]) == set(qrels)


def test_names_of_equal_hashes():
    qrels, run = {"q": {-1.0: 1, -2.0: 0}}, {"q": {-2.0: 2.0, -1.0: 1.0}}
    assert torch_ap.evaluate(qrels, run, "RR").to_dict() == {"RR": 0.5}


@pytest.mark.parametrize("key", [int, str])
def test_numbers_are_ordered_as_the_text_that_they_are_in_files(key):
    """Among tied documents the one with the greater name as text comes first: 9 before 10."""
    qrels, run = {key(1): {key(9): 1}}, {key(1): {key(10): 1.0, key(9): 1.0}}
    assert torch_ap.evaluate(qrels, run, "RR").to_dict() == {"RR": 1}


def test_columns_by_other_names():
    qrels = pd.DataFrame(rows(QRELS, "relevance")).rename(columns={"query": "qid", "doc": "docno"})
    run = pd.DataFrame(rows(RUN, "score")).rename(columns={"query": "qid", "doc": "docno"})
    wanted = torch_ap.evaluate(QRELS, RUN, "AP").to_dict()
    assert torch_ap.evaluate(qrels, run, "AP").to_dict() == wanted
    run = run.rename(columns={"score": "rank by BM25"})
    with pytest.raises(ValueError, match=r"`run` must have one column of `score`, named 'score'; it has qid, docno"):
        torch_ap.evaluate(qrels, run, "AP")
    assert torch_ap.evaluate(qrels, run, "AP", score="rank by BM25").to_dict() == wanted
    with pytest.raises(ValueError, match=r"one column of `query`, named .* it has qid, docno, relevance, query"):
        torch_ap.evaluate(qrels.assign(query=1), run, "AP", score="rank by BM25")


def write_trec(tmp_path):
    paths = tmp_path / "qrels.txt", tmp_path / "run.txt"
    for path, dicts, line in zip(paths, (QRELS, RUN), ("{} 0 {} {}\n", "{} Q0 {} 1 {!r} tag\n"), strict=True):
        path.write_text("".join(line.format(q, d, x) for q, listed in dicts.items() for d, x in listed.items()))
    return paths


def write_parquet(tmp_path):
    paths = tmp_path / "qrels.parquet", tmp_path / "run.pq"
    for path, dicts, value in zip(paths, (QRELS, RUN), ("grade", "score"), strict=True):
        pq.write_table(pa.table(rows(dicts, value)), path, row_group_size=100)
    return paths


@pytest.mark.parametrize("write", [write_trec, write_parquet])
def test_files(write, tmp_path, capsys):
    qrels, run = write(tmp_path)
    wanted = torch_ap.evaluate(QRELS, RUN)
    objects = trec.read_qrels(qrels), trec.read_run(run)
    for given in ((qrels, run), (str(qrels), str(run)), (QRELS, run), (qrels, RUN), objects, (QRELS, objects[1])):
        assert torch_ap.evaluate(*given).per_query() == wanted.per_query()
    assert main.main(["trec", str(qrels), str(run), "-m", "map"]) == 0
    assert f"{wanted.to_dict()['AP']:.4f}" in capsys.readouterr().out


def test_integers_in_parquet_are_text(tmp_path):
    for name, value, column in (("qrels", "grade", [1, 0, 1]), ("run", "score", [1.0, 2.0, 3.0])):
        table = pa.table({"query": pa.array([301, 301, 302], "int32"), "doc": [7, 8, 9], value: column})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    found = torch_ap.evaluate(tmp_path / "qrels.parquet", {"301": {"7": 1.0, "8": 2.0}, "302": {"9": 1.0}}, "RR")
    assert found.per_query() == {"RR": {"301": 0.5, "302": 1}}
    assert torch_ap.evaluate(tmp_path / "qrels.parquet", tmp_path / "run.parquet", "RR").to_dict() == {"RR": 0.75}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"query": ["q", None], "doc": ["a", "b"], "score": [1.0, 2]}, "row 2: column 'query' must have a value"),
        ({"query": ["q", "q"], "doc": ["a", "b"], "score": [1.0, None]}, "row 2: column 'score' must have a value"),
        ({"query": ["q", "q"], "doc": ["a", "b"], "score": [1, np.inf]}, "row 2: column 'score' must contain finite"),
        (
            {"query": ["q", "q"], "doc": ["a", "b"], "score": ["1", "2"]},
            "column 'score' must contain numbers, got string",
        ),
        (
            {"query": [0.5, 1.0], "doc": ["a", "b"], "score": [1, 2]},
            "column 'query' must contain text or integers, got d",
        ),
        ({"query": ["q", "q"], "doc": ["a", "a"], "score": [1, 2]}, "line 2: document 'a' occurs a second time"),
        ({"query": ["q", "q"], "dok": ["a", "a"], "score": [1, 2]}, "one column of `document`, named 'doc'"),
    ],
)
def test_bad_parquet(columns, message, tmp_path):
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    with pytest.raises(ValueError, match=f"run.parquet.* {message}"):
        trec.read_run(tmp_path / "run.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="broken parquet file"):
        trec.read_run(tmp_path / "broken.parquet")
    with pytest.raises(FileNotFoundError):
        trec.read_run(tmp_path / "none.parquet")


# -- in parts


def parts_of(path, lines):
    return [(x.queries, len(x.scores)) for x in trec.run_parts(path, lines=lines)]


def test_a_run_in_parts_is_the_run(tmp_path, monkeypatch):
    _, run = write_trec(tmp_path)
    monkeypatch.setattr(trec.columns, "_BLOCK", 700)
    parts = [*trec.run_parts(run, lines=100)]
    assert len(parts) > 3
    assert [x for part in parts for x in part.queries] == list(RUN)
    whole = trec.read_run(run)
    assert torch.equal(torch.cat([x.scores for x in parts]), whole.scores)
    assert [x for part in parts for x in part.documents.tolist()] == whole.documents.tolist()
    qrels = trec.read_qrels(tmp_path / "qrels.txt")
    measures = [x for name in EVERY for x in names.requested_measures(name)]
    found, wanted = (measured.measure(qrels, x, measured.Rules(measures)) for x in (parts, [whole]))
    assert found.results.keys() == wanted.results.keys() == set(EVERY)
    for name, one in found.results.items():
        assert one.queries == wanted.results[name].queries
        assert torch.equal(one.values, wanted.results[name].values), name
        assert one.aggregate == wanted.results[name].aggregate, name


def test_queries_that_come_again(tmp_path, monkeypatch):
    """If queries continue in a later part, the whole run is read, which is impossible for a pipe."""
    _, run = write_trec(tmp_path)
    lines = run.read_text().splitlines(keepends=True)
    run.write_text("".join(lines[1:] + lines[:1]))
    wanted = torch_ap.evaluate(QRELS, RUN).to_dict()
    monkeypatch.setattr(trec.columns, "_BLOCK", 700)
    with pytest.raises(trec.NotGroupedError, match=r"run.txt: the lines of a query must be contiguous.* 'q0'; sort"):
        parts_of(run, 100)
    monkeypatch.setattr(measured, "run_parts", partial(trec.run_parts, lines=100))
    assert torch_ap.evaluate(QRELS, run).to_dict() == pytest.approx(wanted, abs=REORDERED)


# -- several runs


def test_several_runs():
    qrels, weak = drawn(3, 0.2)
    others = {"weak": weak, "strong": drawn(3, 2.0)[1], "middle": drawn(3, 1.0)[1]}
    measures = ["AP", "P@5", "gm_map"]
    found = torch_ap.evaluate(qrels, runs=others, measures=measures)
    assert found.best == {"AP": ["strong"], "P@5": ["strong"], "gm_map": ["strong"]}
    assert found.to_dict() == {
        x: torch_ap.evaluate(qrels, y, ["AP", "P@5", "gm_map"]).to_dict() for x, y in others.items()
    }
    wanted = compare_systems_per_query(found.values("AP"), method="holm")
    assert found.comparisons["AP"] == wanted
    records = found.to_pandas().set_index(["measure", "run"])
    assert records.loc[("AP", "weak"), "p_value"] == wanted.adjusted_p_value[0, 1]
    interval = mean_interval(found.values("AP")[0])
    assert tuple(records.loc[("AP", "weak"), ["low", "high"]]) == (float(interval.low), float(interval.high))
    assert np.isnan(records.loc[("AP", "strong"), "p_value"])
    text, markdown, latex = repr(found), found.to_markdown(), found.to_latex()
    mean = f"{found.to_dict()['strong']['AP']:.4f}"
    assert f"{mean}*" in text
    assert f"| **{mean}** |" in markdown
    assert rf"\textbf{{{mean}}}$^{{ac}}$" in latex


def test_queries_in_groups():
    qrels, weak = drawn(3, 0.2, queries=40)
    runs = {"weak": weak, "strong": drawn(3, 2.0, queries=40)[1]}
    topics = {query: place // 3 for place, query in enumerate(sorted(qrels))}
    measures = ["AP", "gm_map", "num_q"]
    found = torch_ap.evaluate(qrels, runs=runs, measures=measures, groups=topics)
    one = torch_ap.evaluate(qrels, weak, measures, groups=topics)
    queries, values = one.results["AP"].queries, one.results["AP"].values
    groups = [topics[query] for query in queries]
    assert one.confidence_interval()["AP"] == mean_interval(values, groups=groups)
    logs = mean_interval(one.results["gm_map"].values.clamp(min=1e-5).log(), method="t", groups=groups)
    assert one.confidence_interval()["gm_map"].low == logs.low.exp()
    wanted = compare_systems_per_query(found.values("AP"), method="holm", groups=groups)
    assert found.comparisons["AP"] == wanted
    assert found.runs["weak"].confidence_interval() == one.confidence_interval()
    count = f"{len(queries)} queries in {len(set(groups))} groups"
    assert repr(one).startswith(f"{count}\n")
    assert repr(found).startswith(f"{count}; p: against the best, paired t over groups, Holm over all pairs\n")
    with pytest.raises(ValueError, match="`groups` must contain every query, got none for"):
        torch_ap.evaluate(qrels, weak, groups={queries[0]: 1})
    with pytest.raises(TypeError, match="`groups` must map each query to its group"):
        torch_ap.evaluate(qrels, weak, groups=groups)
    for missing in (None, float("nan"), pd.NA):
        with pytest.raises(ValueError, match=f"`groups` must have a group for every query, got {missing} for"):
            torch_ap.evaluate(qrels, weak, groups=topics | {queries[1]: missing})
    with pytest.raises(TypeError, match="`groups` must have groups that are numbers or text, got Tensor for"):
        torch_ap.evaluate(qrels, weak, groups={x: torch.tensor(0) for x in qrels})
    for group, kind in (([0], "list"), (([0],), "tuple")):
        with pytest.raises(TypeError, match=f"`groups` must have groups that are numbers or text, got {kind} for"):
            torch_ap.evaluate(qrels, weak, groups=dict.fromkeys(qrels, group))
    lonely = torch_ap.evaluate(qrels, runs=runs, measures="AP", groups=dict.fromkeys(qrels, "all"))
    reason = "fewer than two groups, or one with most queries, so their spread is unknown: no p by t"
    assert f"AP: no p-value of some pair, {reason}" in repr(lonely)
    assert "AP: no interval, fewer than two groups" in repr(lonely.runs["weak"])
    assert "strong, AP: no interval, fewer than two groups" in repr(lonely)


def test_few_groups_of_queries_warn_once():
    qrels, run = drawn(3)
    given = {query: place % 4 for place, query in enumerate(qrels)}
    few = "4 groups with queries, but coverage is measured from 10 on: the interval may be too narrow"
    with pytest.warns(UserWarning, match=few) as caught:
        found = torch_ap.evaluate(qrels, runs={"a": run, "b": drawn(3, 2.0)[1]}, measures=["AP", "P@5"], groups=given)
    assert len(caught) == 1
    text = repr(found)  # without further warnings, which are errors in tests
    assert text.count(few) == 1
    given.clear()  # of the caller
    assert repr(found) == text


def test_more_runs_than_letters():
    qrels, best = drawn(3, 3.0)
    others = {f"run{x}": drawn(3, 0.0)[1] for x in range(27)}
    latex = torch_ap.evaluate(qrels, runs=others | {"best": best}, measures="AP").to_latex()
    assert "aa & run26 & " in latex
    assert f"$^{{{','.join([*ascii_lowercase, 'aa'])}}}$" in latex


def test_values_name_the_requested_measures():
    found = torch_ap.evaluate(QRELS, runs={"a": RUN, "b": RUN}, measures=["AP", "RR"])
    with pytest.raises(ValueError, match="`measure` must be one of the evaluated measures: AP, RR, got 'map'"):
        found.values("map")


def test_runs_that_are_equal_are_all_best():
    found = torch_ap.evaluate(QRELS, runs={"a": RUN, "b": RUN}, measures="AP")
    assert found.best == {"AP": ["a", "b"]}
    assert found.comparisons["AP"].p_value.eq(1).all()
    one = torch_ap.evaluate(QRELS, runs={"a": RUN}, measures="AP")
    assert one.comparisons == {}
    assert "p:" not in repr(one)


def test_a_p_value_that_does_not_exist_has_a_reason():
    qrels = {query: {"a": 1} for query in "qr"}
    runs = {name: {query: {"a": score, "b": 1.0} for query in qrels} for name, score in (("up", 2.0), ("down", 0.0))}
    compared = torch_ap.evaluate(qrels, runs=runs, measures="RR")
    assert any(line.startswith("RR: no p-value of some pair, ") for line in repr(compared).splitlines())


def test_missing_queries_of_one_run_are_left_out_of_all():
    less = {query: listed for query, listed in RUN.items() if query != "q3"}
    with pytest.warns(UserWarning, match=r"`less` has no documents for 1 of 12 judged queries, which is left out"):
        found = torch_ap.evaluate(QRELS, runs={"all": RUN, "less": less}, measures="AP", missing_queries="skip")
    assert found.to_dict()["all"] == found.to_dict()["less"]
    note = "1 of 12 judged queries is left out of all runs, because some run has no documents for it"
    assert note in found.notes
    assert note in found.runs["all"].notes
    assert found.values("AP").shape == (2, 11)
    fewer = {query: listed for query, listed in less.items() if query != "q4"}
    with pytest.warns(UserWarning, match="which are left out"):
        found = torch_ap.evaluate(QRELS, runs={"all": RUN, "less": fewer}, measures="AP", missing_queries="skip")
    note = "2 of 12 judged queries are left out of all runs, because some run has no documents for them"
    assert note in found.notes
    with pytest.warns(UserWarning, match="which counts 0"):
        found = torch_ap.evaluate(QRELS, less, "AP")
    assert found.per_query()["AP"]["q3"] == 0
    assert list(found.per_query()["AP"]) == list(QRELS)
    with pytest.raises(ValueError, match=r"`run` must have documents for every judged query .* none for 1, as 'q3'"):
        torch_ap.evaluate(QRELS, less, "AP", missing_queries="error")


# -- printing


def test_printing_of_results():
    found = torch_ap.evaluate({"q": {"a": 1, "b": 1}}, {"q": {"a": 2.0, "c": 1.0}}, ["AP@10", "P@1"])
    assert repr(found).splitlines() == [
        "1 query",
        "measure    mean  95% low  95% high",
        "AP@10    0.5000   0.0878    0.9122",
        "P@1      1.0000   0.2065    1.0000",
        "1 of the 2 documents of `run` has no judgement, and is not relevant",
        "AP@10: divided by all relevant documents (`denominator='relevant'`)",
    ]
    assert found.to_latex().splitlines()[2] == r"measure & mean & 95\% low & 95\% high \\"
    assert found.to_markdown().splitlines()[2:4] == ["| measure | mean | 95% low | 95% high |", "|---|---:|---:|---:|"]
    assert found.to_pandas()["mean"].tolist() == [0.5, 1.0]


def test_counts_have_a_sum_and_nothing_is_best():
    found = torch_ap.evaluate(QRELS, runs={"a": RUN, "b": RUN}, measures=["NumQ", "NumRet", "official"])
    assert repr(found).startswith("12 queries;")
    assert found.to_dict()["a"]["NumQ"] == 12
    assert found.to_dict()["a"]["num_ret"] == 480
    assert found.best["NumRet"] == []
    assert not {"NumQ", "num_rel"} & found.comparisons.keys()
    assert found.runs["a"].confidence_interval()["NumRet"].reason
    assert "of all queries" in found.conventions["NumRet"]
    assert "P_1000" in found.to_latex().replace("\\", "")


def test_a_name_is_escaped_in_latex():
    found = torch_ap.evaluate(QRELS, runs={"run_1 & 2": RUN, "x|y": RUN}, measures="P_5")
    assert r"run\_1 \& 2 & \textbf{" in found.to_latex()
    assert r"P\_5" in found.to_latex()
    assert r"x\|y" in found.to_markdown()


# -- bad input


def only(value):
    return {"q0": {"d1": value}}


@each(
    "given, message",
    [
        ((QRELS, only("high")), r"`run` must have scores that are numbers, got 'high' for document 'd1' of query 'q0'"),
        ((QRELS, only(None)), r"`run` must have scores that are numbers, got None"),
        (
            (QRELS, only(float("nan"))),
            r"`run` must have scores that are finite, as in files, got nan for document 'd1'",
        ),
        (
            (only(0.5), RUN),
            r"`qrels` must have grades that are whole numbers .* got 0.5 for document 'd1' of query 'q0'",
        ),
        ((only(float("inf")), RUN), r"`qrels` must have grades that are whole numbers below 2\^53, got inf"),
        ((only(10**30), RUN), r"`qrels` must have grades that are whole numbers below 2\^53, got 1e\+30"),
        (
            (QRELS, only(2**53 + 1)),
            r"`run` must have scores that float64 represents.* got 9007199254740993 for document 'd1'",
        ),
        ((QRELS, {"q0": {"d1": 10**400, "d2": 0.5}}), r"must have scores that are numbers.* for document 'd1'"),
        (
            (QRELS, {"q0": {"d1": 0.5, "d2": -(2**60) + 1}}),
            r"must have scores that float64 represents.* for document 'd2'",
        ),
        (
            (QRELS, pd.DataFrame({"query": ["q0"], "doc": ["d"], "score": [2**63 - 1]})),
            "scores that float64 represents",
        ),
        ((QRELS, {}), r"`run`: contains no documents"),
        ((QRELS, {"q0": {}}), r"`run`: contains no documents"),
        (({}, RUN), r"`qrels`: contains no judgements"),
        ((QRELS, {"x": {"d1": 1.0}}), r"`run`: no query of the run has judgements in `qrels`"),
        ((QRELS, [1]), r"`run` must be {query: {document: score}}, a table, the path of a file, .* got list"),
        ((QRELS, pd.Series([1])), r"`run` must be .* got Series"),
        ((QRELS, {"q0": ["d1"]}), r"`run` as a dict must be {query: {document: score}}, got list for 'q0'"),
        ((QRELS, {"a": RUN}), r"got dict for 'a'; several runs are given as `runs`"),
        ((QRELS, {"q0": {"d1": 1.0, 2: 2.0}}), r"`run` must name each document by one type, got .*2 \(int\)"),
        ((QRELS, {"q0": {None: 1.0}}), r"`run` must name each document, got None or NaN"),
        ((renamed(QRELS, int), RUN), r"must name queries by one type, got int as 0 and str as 'q0'; give both as text"),
        (
            (QRELS, {query: {int(d[1:]): x for d, x in listed.items()} for query, listed in RUN.items()}),
            r"must name documents by one type, got str as 'd\d+' and int as \d+",
        ),
        (
            ({"q0": {b"d1": 1}}, {"q0": {"d1": 1.0}}),
            r"must name documents by one type, got bytes as b'd1' and str as 'd1'; give both as text: `x.decode\(\)`",
        ),
        ((QRELS, pd.DataFrame({"query": ["q0"] * 2, "doc": ["d"] * 2, "score": [1, 2]})), "`run`, row 1: document 'd'"),
        ((QRELS, pd.DataFrame({"query": ["q0"], "doc": [np.nan], "score": [1]})), "must name each document, got None"),
        ((QRELS, RUN, "nDGC@10"), r"unknown measure 'nDGC@10'; did you mean 'ndcg@10'"),
        ((QRELS, RUN, "ndcg10"), r"did you mean 'ndcg@10'\?"),
        ((QRELS, RUN, "nDGC@10"), r"and the names of trec_eval and ir_measures: AP, MAP, nDCG"),
        (
            (QRELS, RUN, "AP(dcg='exp-log2')"),
            r"must have only these parameters: rel, judged_only; got 'dcg'",
        ),
        ((QRELS, RUN, "AP@0"), r"unknown measure 'AP@0'.*; k must be a whole number of at least 1; known are"),
        ((QRELS, RUN, "iprec@2"), r"unknown measure 'iprec@2'.*; l must be in \[0, 1\]; known"),
        ((QRELS, RUN, "Succes@10"), r"did you mean 'success@10'\?"),
        ((QRELS, pd.DataFrame({"query": ["q0"], "doc": ["d"], "score": ["1"]})), "must have scores that are numbers"),
        (
            (QRELS, pd.DataFrame({"query": ["q0"], "doc": ["d"], "score": [1j]})),
            "must have scores that are numbers, got 1j",
        ),
        ((QRELS, pd.DataFrame([["q0", "d", 1, 1]], columns=["qid", "doc", *["score"] * 2])), "one column of `score`"),
        ((QRELS, pd.DataFrame({"qid": [], "doc": [], "score": []})), "`run`: contains no documents"),
        ((QRELS, only(float("-inf"))), r"must have scores that are finite, as in files, got -inf for document 'd1'"),
        ((QRELS, {"q0": {object(): 1.0}}), r"`run` must name each document by a type with its own text"),
        ((QRELS, RUN, []), r"`measures` must name at least one"),
        ((QRELS,), r"exactly one of `run` and `runs` must be given, got neither"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        torch_ap.evaluate(*given)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"ties": "none"}, r"`ties` must be one of .*'trec10'.* got 'none'"),
        ({"denominator": "k"}, r"`denominator` must be one of"),
        ({"missing_queries": "drop"}, r"`missing_queries` must be one of"),
        ({"relevance_level": 0}, r"`relevance_level` must be an int of at least 1"),
        ({"confidence_level": 95}, r"`confidence_level` must be a number between 0 and 1"),
        ({"runs": {"a": RUN}}, r"got both"),
        ({"run": None, "runs": {}}, r"`runs` must be {name: run} of at least one run, got {}"),
        ({"run": None, "runs": {1: RUN, "1": RUN}}, r"`runs` must have names that differ as text"),
        ({"measures": "iprec@0.1", "ties": "expected"}, r"needs `ties='trec9'` or `ties='trec10'`"),
        ({"measures": "nDCG(rel=2)@10"}, r"'nDCG\(rel=2\)@10' must have no `rel`: ndcg@10 does not depend on rel"),
        ({"measures": "NumQ(rel=2)"}, r"must have no `rel`"),
        ({"measures": "P(rel=0)@5"}, r"`relevance_level` must be an int of at least 1"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        torch_ap.evaluate(QRELS, **{"run": RUN} | setting)


@pytest.mark.parametrize("queries", [2, 40])
@pytest.mark.parametrize("missing", ["neg", "skip"])
def test_a_run_of_other_queries_is_an_error(queries, missing):
    qrels = {f"q{place}": {"d1": 1} for place in range(queries)}
    for run in ({"x": {"d1": 1.0}}, {"q0": {}, "x": {"d1": 1.0}}):
        with pytest.raises(ValueError, match="`run`: no query of the run has judgements in `qrels`"):
            torch_ap.evaluate(qrels, run, "AP", missing_queries=missing)


@pytest.mark.parametrize("level", [1, 9])
@pytest.mark.parametrize("form", ["dict", "pandas"])
def test_judgements_without_relevant_documents_are_noted(level, form):
    qrels = {"q0": {"d1": level - 1, "d2": 0}, "q1": {"d1": -1}}
    run = {query: {"d1": 1.0, "d2": 0.5} for query in qrels}
    if form == "pandas":
        rows = [(query, document, grade) for query, judged in qrels.items() for document, grade in judged.items()]
        qrels = pd.DataFrame(rows, columns=["query", "doc", "grade"])
    said = f"2 of 2 judged queries have no document of grade {level} or more, and count 0"
    with pytest.warns(UserWarning, match=said):
        found = torch_ap.evaluate(qrels, run, "AP", relevance_level=level)
    assert found.to_dict() == {"AP": 0}
    assert said in found.notes


def test_queries_that_count_0_are_noted_with_their_number():
    qrels = QRELS | {"none": {"d1": 0}, "junk": {"d1": -1, "d2": 1}}
    run = RUN | {"none": {"d1": 1.0}, "junk": {"d1": 1.0}, "unjudged": {"d1": 1.0}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = torch_ap.evaluate(qrels, run, "AP")
    judged_grades = sum(map(len, qrels.values()))
    assert found.notes == (
        "`run` has 1 query without judgements, which does not count",
        "240 of the 482 documents of `run` have no judgement, and are not relevant",
        "1 of 14 judged queries has no document of grade 1 or more, and counts 0",
        f"1 of {judged_grades} grades is negative: this document is not relevant",
    )
    less = {query: listed for query, listed in run.items() if query != "none"}
    with pytest.warns(UserWarning, match="left out"):
        found = torch_ap.evaluate(qrels, less, ["AP", "nDCG", "NumRel(rel=2)"], missing_queries="skip")
    assert not any("no document of grade" in note for note in found.notes)
    found = torch_ap.evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, "nDCG", relevance_level=2)
    assert not found.notes  # nDCG has no level
    assert found.to_dict() == {"nDCG": 1}
    with pytest.warns(UserWarning, match=r"the one document of `run` is not relevant"):
        torch_ap.evaluate({"q": {"d1": 1}}, {"q": {"D1": 1.0}}, "AP")
    with pytest.warns(UserWarning, match=r"the scores of the first query of `run` rise by one per document"):
        torch_ap.evaluate({"q": {"a": 1}}, {"q": {"a": 1, "b": 2, "c": 3}}, "AP")


@pytest.mark.parametrize("measure", ["map", "bpref", "num_ret"])  # values are a list, an array and a tensor
def test_results_are_records_without_order(measure):
    qrels, run = {"q1": {"a": 1, "b": 0}, "q2": {"c": 2}}, {"q1": {"a": 2.0, "b": 1.0}, "q2": {"c": 0.5, "a": 1.0}}
    (result,) = torch_ap.evaluate(qrels, run, [measure]).results.values()
    copied = pickle.loads(pickle.dumps(result))
    assert result == result
    assert result != copied
    assert (result != result) is False
    with pytest.raises(TypeError, match="not supported between instances of 'Result'"):
        result < copied  # noqa: B015
    assert f"values={result.values!r}" in repr(result)
    assert repr(copied) == repr(result)
