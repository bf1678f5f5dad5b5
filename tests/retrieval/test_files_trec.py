"""TREC files: the published output of trec_eval, agreement with peers, and errors that name file and line."""

import gzip
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.runs import evaluate_by_name
from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.cli.progress import Bar
from torch_ap.core.columns import columns
from torch_ap.files import read_qrels, read_run
from torch_ap.functional import retrieval_normalized_dcg
from torch_ap.retrieval.runs import judge
from torch_ap.retrieval.runs.measure_names import CONVENTIONS

EXACT = ("map", "gm_map", "Rprec", "recip_rank", "11pt_avg", "set_P", "set_recall", "set_F", "ndcg", "bpref", "infAP")
EXACT += ("num_q", "num_ret", "num_rel", "num_rel_ret")
AT = ("P_", "recall_", "map_cut_", "success_", "iprec_at_recall_", "ndcg_cut_")
PUBLISHED = {
    "out.test.a": ("qrels.test", "results.test", []),
    "out.test.aq": ("qrels.test", "results.test", ["-q"]),
    "out.test.aqc": ("qrels.test", "results.trunc", ["-q", "-c"]),
    "out.test.aql": ("qrels.rel_level", "results.test", ["-q", "-l", "2"]),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    found = os.environ.get("TORCH_AP_TEST_DATA")
    if not found:
        pytest.skip("TORCH_AP_TEST_DATA does not name the folder with trec_eval's test files")
    return Path(found) / "trec_eval"


def published(path: Path) -> dict[tuple[str, str], str]:
    """Return {(measure, query): printed value} of the lines with our measures."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return {(name, query): value for name, query, value in lines if name in EXACT or name.startswith(AT)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(name, folder):
    qrels_name, run_name, flags = PUBLISHED[name]
    expected = published(folder / name)
    assert len(expected) >= 45
    level = 2 if "-l" in flags else 1
    matched = judge(
        read_qrels(folder / qrels_name),
        read_run(folder / run_name),
        relevance_level=level,
        convention="trec10",
        complete="-c" in flags,
    )
    results = evaluate_by_name(matched, list(dict.fromkeys(measure for measure, _ in expected)))
    for (measure, query), value in expected.items():
        result = results[measure]
        ours = result.aggregate if query == "all" else result.values[result.queries.index(query)].item()
        assert (f"{ours:.4f}" if isinstance(ours, float) else f"{ours}") == value, (measure, query)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values_by_the_command(name, folder, capsys):
    qrels_name, run_name, flags = PUBLISHED[name]
    expected = published(folder / name)
    measures = [x for measure in dict.fromkeys(measure for measure, _ in expected) for x in ("-m", measure)]
    files = [str(folder / qrels_name), str(folder / run_name)]
    assert main.main(["trec", *files, "--convention", "trec10", *flags, *measures]) == 0
    printed = {tuple(line.split()[:2]): line.split()[2] for line in capsys.readouterr().out.splitlines()[1:]}
    assert {pair: printed[pair] for pair in expected} == expected


def test_tag_and_counts(folder):
    run = read_run(folder / "results.trunc")
    assert run.tag == "STANDARD"
    assert len(run.scores) == 584
    assert sorted(run.queries) == ["301", "303"]
    qrels = read_qrels(folder / "qrels.test")
    assert len(qrels.relevance) == 3681
    assert qrels.queries == ["301", "302", "303"]
    assert qrels.documents[0] == b"CR93E-10279"


def random_files(tmp_path, seed, tied):
    rng = np.random.default_rng(seed)
    qrels, run = {}, {}
    for query in rng.choice(1000, 12, replace=False).astype(str):
        documents = [f"D-{x}" for x in rng.choice(10**6, 60, replace=False)]
        if rng.random() < 0.9:
            qrels[query] = {d: int(rng.integers(-1, 3)) for d in documents if rng.random() < 0.5} or {documents[0]: 1}
        if rng.random() < 0.9:
            scores = rng.integers(0, 5, 60) / 4 if tied else rng.permutation(60) / 7
            run[query] = {d: float(s) for d, s in zip(documents, scores, strict=True) if rng.random() < 0.7}
    shuffled = [(q, d, s) for q, scores in run.items() for d, s in scores.items()]
    rng.shuffle(shuffled)
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {r}\n" for q, x in qrels.items() for d, r in x.items()))
    (tmp_path / "run").write_text("".join(f"{q} Q0 {d} 0 {float(s)!r} tag\n" for q, d, s in shuffled))
    return qrels, run


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("tied", [False, True])
def test_pytrec_eval_agrees(seed, tied, tmp_path):
    peer = pytest.importorskip("pytrec_eval")
    qrels, run = random_files(tmp_path, seed, tied)
    names = ["map", "Rprec", "recip_rank", "11pt_avg", "P_5", "P_10", "recall_5", "map_cut_10", "success_1", "set_F"]
    names += ["iprec_at_recall_0.00", "iprec_at_recall_0.30", "iprec_at_recall_1.00"]
    names += ["ndcg", "ndcg_cut_5", "ndcg@10", "bpref", "infAP", "num_ret", "num_rel", "num_rel_ret"]
    families = {"P.5,10", "recall.5", "map_cut.10", "success.1", "map", "Rprec", "recip_rank", "11pt_avg", "set_F"}
    families |= {"ndcg", "ndcg_cut.5,10", "bpref", "infAP", "num_ret", "num_rel", "num_rel_ret"}
    expected = peer.RelevanceEvaluator(qrels, families | {"iprec_at_recall"}).evaluate(run)
    matched = judge(read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run"), convention="trec9")
    results = evaluate_by_name(matched, names)
    assert set(matched.queries) == set(expected)
    for name in names:
        for query, value in zip(results[name].queries, results[name].values.tolist(), strict=True):
            theirs = expected[query][name.replace("ndcg@", "ndcg_cut_")]
            assert value == pytest.approx(theirs, abs=REORDERED), (name, query)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [1, 2])
def test_pytrec_eval_agrees_on_levels(seed, level, tmp_path):
    peer = pytest.importorskip("pytrec_eval")
    qrels, run = random_files(tmp_path, seed, tied=True)
    names = {"map", "ndcg", "ndcg_cut.5", "bpref", "infAP", "num_rel", "num_rel_ret"}
    expected = peer.RelevanceEvaluator(qrels, names, relevance_level=level).evaluate(run)
    files = read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run")
    results = evaluate_by_name(
        judge(*files, convention="trec9", relevance_level=level), [name.replace(".", "_") for name in names]
    )
    for name, result in results.items():
        theirs = [expected[query][name] for query in result.queries]
        assert result.values.tolist() == pytest.approx(theirs, abs=REORDERED), name
        wanted = sum(theirs) if name.startswith("num") else sum(theirs) / len(theirs)
        assert result.aggregate == pytest.approx(wanted, abs=REORDERED)


@pytest.mark.parametrize("convention", ["expected", "grouped", "optimistic", "pessimistic"])
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(("level", "gains"), [(1, "linear"), (2, "linear"), (1, "exponential")])
def test_ndcg_by_our_rules_for_ties_is_that_of_the_function(convention, complete, level, gains, tmp_path):
    qrels, run = random_files(tmp_path, 3, tied=True)
    files = read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run")
    judged = judge(*files, convention=convention, complete=complete, relevance_level=level)
    name = "ndcg@5" if gains == "linear" else "ndcg_exp@5"
    found = evaluate_by_name(judged, [name])[name]
    assert set(found.queries) == (qrels.keys() if complete else qrels.keys() & run.keys())
    for query, value in zip(found.queries, found.values.tolist(), strict=True):
        scores, grades = run.get(query, {}), qrels[query]
        documents = list(scores.keys() | grades.keys())
        wanted = retrieval_normalized_dcg(
            torch.tensor([scores.get(x, 0.0) for x in documents]),
            torch.tensor([grades.get(x, 0) for x in documents]),
            5,
            retrieved=torch.tensor([x in scores for x in documents]),
            ties=convention,
            gains=gains,
            relevance_level=1,
            dtype=torch.float64,
        )
        assert value == pytest.approx(wanted.item(), abs=REORDERED)


@pytest.mark.parametrize("seed", range(4))
def test_ranx_agrees_where_nothing_is_tied(seed, tmp_path):
    ranx = pytest.importorskip("ranx")
    qrels, run = random_files(tmp_path, seed, tied=False)
    both = sorted(qrels.keys() & run.keys())
    theirs = ranx.evaluate(
        ranx.Qrels({q: {d: max(r, 0) for d, r in qrels[q].items()} for q in both}),
        ranx.Run({q: run[q] for q in both}),
        ["map", "map@10", "precision@5", "recall@5", "r-precision", "mrr", "hit_rate@3"],
        return_mean=False,
    )
    matched = judge(read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run"), convention="expected")
    names = {"map": "map", "map@10": "map@10", "P@5": "precision@5", "R@5": "recall@5", "Rprec": "r-precision"}
    names |= {"recip_rank": "mrr", "success@3": "hit_rate@3"}
    results = evaluate_by_name(matched, list(names))
    for ours, other in names.items():
        values = dict(zip(results[ours].queries, results[ours].values.tolist(), strict=True))
        assert [values[q] for q in both] == pytest.approx(list(theirs[other]), abs=REORDERED)


def write(tmp_path, text, name="file"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_layout_of_lines(tmp_path):
    text = "# a comment\n\n  q1\tQ0  d1\t1 2.5\ttag more words \r\n\n# another\n"
    text += "q2 Q0 d\xe9 9 -1e-3 other"
    run = read_run(write(tmp_path, text))
    assert run.queries == ["q1", "q2"]
    assert [d.decode() for d in run.documents.tolist()] == ["d1", "d\xe9"]
    assert run.scores.tolist() == [2.5, -1e-3]
    assert run.tag == "other"


def test_gzip_is_read_alike(tmp_path):
    random_files(tmp_path, 0, tied=True)
    data = (tmp_path / "run").read_bytes()
    plain, zipped = read_run(tmp_path / "run"), read_run(write(tmp_path, gzip.compress(data), "run.gz"))
    assert torch.equal(plain.scores, zipped.scores)
    assert plain.documents.tolist() == zipped.documents.tolist()
    assert plain.queries == zipped.queries
    with pytest.raises(ValueError, match="broken gzip file"):
        read_run(write(tmp_path, gzip.compress(data)[:-20], "cut.gz"))


@pytest.fixture
def pipe(tmp_path):
    """Return a function that creates a named pipe and writes the data to its reader."""
    writers = []

    def make(name, data):
        path = tmp_path / name
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(data,)))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join(10)
        assert not writer.is_alive()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pipes_are_read_alike(pack, tmp_path, pipe):
    random_files(tmp_path, 0, tied=True)
    plain, told = read_run(tmp_path / "run"), []
    piped = read_run(pipe("pipe", pack((tmp_path / "run").read_bytes())), progress=lambda *x: told.append(x))
    assert torch.equal(plain.scores, piped.scores)
    assert plain.documents.tolist() == piped.documents.tolist()
    assert plain.queries == piped.queries
    assert told == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_the_command_reads_pipes(two_runs, pipe, capsys):
    files = [str(pipe(f"pipe {place}", Path(path).read_bytes())) for place, path in enumerate(two_runs[:2])]
    for paths in (two_runs[:2], files):
        assert main.main(["trec", *paths, "-m", "map"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["map", "all", "0.5000"]


@pytest.mark.parametrize("size", [64, 100, 1 << 22])
def test_blocks_change_nothing(size, tmp_path, monkeypatch):
    random_files(tmp_path, 1, tied=True)
    lines = (tmp_path / "run").read_text().splitlines()
    monkeypatch.setattr(columns, "_BLOCK", size)
    told = []
    run = read_run(tmp_path / "run", progress=lambda done, total: told.append((done, total)))
    fields = [line.split() for line in lines]
    assert [run.queries[q] for q in run.query.tolist()] == [x[0] for x in fields]
    assert [d.decode() for d in run.documents.tolist()] == [x[2] for x in fields]
    assert run.scores.tolist() == [float(x[4]) for x in fields]
    assert told[-1][0] == told[-1][1]


NUMBERS = ["0", "-0", "1", "+1", "007", ".5", "5.", "-.25", "1e3", "1E-300", "0.1"]
NUMBERS += ["0.30000000000000004", "123456789.123456789", "9007199254740994", "1.2345678901234568e22"]
NUMBERS += ["1.7976931348623157e308", "4.9e-324"]
NUMBERS += [repr(float(x)) for x in np.random.default_rng(0).standard_normal(200)]
NUMBERS += [f"{x:.6f}" for x in np.random.default_rng(1).standard_normal(200) * 1000]


def test_numbers_are_rounded_as_python_rounds_them(tmp_path):
    run = read_run(write(tmp_path, "".join(f"q Q0 d{i} 0 {x} t\n" for i, x in enumerate(NUMBERS))))
    assert run.scores.tolist() == [float(x) for x in NUMBERS]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "q Q0 d 1 2.0 t\n\nq Q0 d2 1 2.0\n",
            "line 3: must have at least 6 columns, query Q0 document rank score tag, got 5",
        ),
        ("# c\nq Q0 d 1 two t\n", "line 2: 'two' is not a number"),
        ("q Q0 d 1 nan t\n", "line 1: 'nan' is not a number"),
        ("q Q0 d 1 1_0 t\n", "line 1: '1_0' is not a number"),
        ("q Q0 c 1 1 t\nq Q0 d 1 inf t\n", "line 2: 'inf' is not a finite number"),
        ("q Q0 d 1 -Infinity t\n", "line 1: '-Infinity' is not a finite number"),
        ("q Q0 d 1 1e999 t\n", "line 1: '1e999' is not a finite number"),
        ("q Q0 d 1 - t\n", "line 1: '-' is not a number"),
        ("q Q0 d 1 1.2.3 t\n", "line 1: '1.2.3' is not a number"),
        (
            "q Q0 d 1 3 t\nr Q0 d 1 3 t\n#\nq Q0 d 2 4 t\n",
            "line 4: document 'd' occurs a second time for query 'q'",
        ),
        ("q Q0 " + "d" * 5000 + " 1 3 t\n", "line 1: a field of 5000 characters is too long"),
    ],
)
def test_bad_runs(text, message, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{path}, {message}"):
        read_run(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q 0 d\n", "line 1: must have 4 columns, query iteration document relevance, got 3"),
        ("q 0 d 1 x\n", "line 1: must have 4 columns, query iteration document relevance, got 5"),
        ("q 0 d 1\nq 0 e 1.5\n", "line 2: '1.5' is not a whole number"),
        ("q 0 d 1\nq 0 e 99999999999999999999\n", "line 2: '9+' is not a whole number"),
        ("q 0 d 1\nq 0 d 2\n", "line 2: document 'd' occurs a second time for query 'q', after line 1"),
    ],
)
def test_bad_qrels(text, message, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{path}, {message}"):
        read_qrels(path)


def test_empty_files(tmp_path):
    empty = write(tmp_path, "")
    matched = judge(read_qrels(empty), read_run(empty))
    assert matched.queries == []
    assert np.isnan(evaluate_by_name(matched, ["map"])["map"].aggregate)


@pytest.mark.parametrize("text", ["", "# nothing\n\n"])
@pytest.mark.parametrize("empty", [0, 1])
def test_an_empty_file_is_named(text, empty, two_runs, capsys, tmp_path):
    paths = two_runs[:2]
    paths[empty] = str(write(tmp_path, text, "empty"))
    assert main.main(["trec", *paths]) == 2
    said = "contains no documents (--allow-empty lets it pass)" if empty else "contains no judgements"
    said = f"torch-ap: {paths[empty]}: {said}\n"
    assert capsys.readouterr().err == said
    assert main.main(["trec", *paths, "-c"]) == 2
    assert capsys.readouterr().err == said


def test_float32_ties_of_version_9(tmp_path):
    qrels = read_qrels(write(tmp_path, "q 0 a 1\n", "qrels"))
    run = read_run(write(tmp_path, "q Q0 a 1 1.00000000001 t\nq Q0 b 1 1.0 t\n", "run"))
    matched = {name: judge(qrels, run, convention=name) for name in CONVENTIONS}
    values = {name: evaluate_by_name(one, ["map"])["map"].aggregate for name, one in matched.items()}
    assert values == {"trec9": 0.5, "trec10": 1, "expected": 1, "grouped": 1, "optimistic": 1, "pessimistic": 1}


def test_the_same_document_of_another_query_is_not_judged(tmp_path):
    qrels = read_qrels(write(tmp_path, "q 0 a 1\nr 0 b 1\n", "qrels"))
    run = read_run(write(tmp_path, "r Q0 a 1 3 t\nr Q0 b 1 2 t\nq Q0 b 1 2 t\nz Q0 a 1 2 t\n", "run"))
    result = evaluate_by_name(judge(qrels, run), ["map"])["map"]
    assert dict(zip(result.queries, result.values.tolist(), strict=True)) == {"q": 0, "r": 0.5}


def test_equal_hashes_are_no_match(tmp_path):
    qrels = read_qrels(write(tmp_path, "q 0 a 1\n", "qrels"))
    run = read_run(write(tmp_path, "q Q0 x 1 3 t\nq Q0 a 1 2 t\nr Q0 a 1 2 t\n", "run"))
    run = replace(run, key=np.repeat(qrels.key, 3))
    result = evaluate_by_name(judge(qrels, run), ["map"])["map"]
    assert result.values.tolist() == [0.5]
    twice = replace(qrels, **{name: torch.cat([getattr(qrels, name)] * 2) for name in ("query", "relevance")})
    twice = replace(twice, key=np.repeat(qrels.key, 2), documents=np.array([b"a", b"b"]))
    with pytest.raises(ValueError, match=r"two .*documents .*64-bit hash"):
        judge(twice, run)


def test_unknown_measures(tmp_path):
    qrels = read_qrels(write(tmp_path, "q 0 a 1\n", "qrels"))
    run = read_run(write(tmp_path, "q Q0 a 1 3 t\n", "run"))
    for name in ("rbp", "ndcg@0", "P@0", "P@", "map@1.5", "iprec@2", "P_x"):
        with pytest.raises(ValueError, match=f"unknown measure '{name}'"):
            evaluate_by_name(judge(qrels, run), [name])
    with pytest.raises(ValueError, match="needs `ties='trec9'` or `ties='trec10'`"):
        evaluate_by_name(judge(qrels, run, convention="grouped"), ["iprec@0.5"])
    for name in ("bpref", "infAP", "11pt_avg"):
        with pytest.raises(
            ValueError, match=f"'{name}' is defined by trec_eval only: it needs `ties='trec9'` or `ties='trec10'`"
        ):
            evaluate_by_name(judge(qrels, run, convention="expected"), [name])


@pytest.fixture
def two_runs(tmp_path):
    files = {
        "qrels": "1 0 a 1\n1 0 b 0\n2 0 a 2\n2 0 c 1\n",
        "one": "1 Q0 b 1 2 A\n1 Q0 a 2 1 A\n2 Q0 a 1 2 A\n",
        "two": "1 Q0 a 1 2 A\n1 Q0 b 2 1 A\n",
    }
    return [str(write(tmp_path, text, name)) for name, text in files.items()]


def test_official_equals_the_output_of_trec_eval(folder, capsys):
    files = [str(folder / "qrels.test"), str(folder / "results.test")]
    assert main.main(["trec", *files, "-m", "official"]) == 0
    printed = [tuple(line.split()) for line in capsys.readouterr().out.splitlines()[1:]]
    published = [tuple(line.split()) for line in (folder / "out.test.a").read_text().splitlines()]
    assert printed == published[1:30]  # all its default output except the name of the run, which is our head
    assert main.main(["trec", *files, "-m", "ndcg_cut", "-m", "success", "-m", "iprec_at_recall", "-q"]) == 0
    names = dict.fromkeys(line.split()[0] for line in capsys.readouterr().out.splitlines()[1:])
    assert [*names][:9] == [f"ndcg_cut_{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]
    assert [*names][9:12] == ["success_1", "success_5", "success_10"]
    assert [*names][12:] == [f"iprec_at_recall_{level / 10:.2f}" for level in range(11)]


def test_counts_are_whole_numbers_and_not_compared(two_runs, capsys):
    flags = ["-m", "num_q", "-m", "num_rel", "-m", "num_rel_ret", "-m", "map", "-q", "-c"]
    assert main.main(["trec", *two_runs, *flags]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines[0] == ["num_q", "all", "2", "2"]
    assert lines[1:4] == [["num_rel", "1", "1", "1"], ["num_rel", "2", "2", "2"], ["num_rel", "all", "3", "3"]]
    assert main.main(["trec", *two_runs, *flags, "--compare", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["num_rel_ret"] for run in found.values()] == [
        {"all": 2, "queries": {"1": 1, "2": 1}},
        {"all": 1, "queries": {"1": 1, "2": 0}},
    ]
    assert {name for run in found.values() for name, one in run.items() if "compared" in one} == {"map"}
    assert main.main(["trec", *two_runs, "-m", "num_q"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["num_q", "all", "2", "1"]


def test_two_runs_are_two_columns(two_runs, capsys):
    assert main.main(["trec", *two_runs, "-m", "map", "-m", "P@1", "--per-query"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["measure", "query", "one", "two"],
        ["map", "1", "0.5000", "1.0000"],
        ["map", "2", "0.5000", "-"],
        ["map", "all", "0.5000", "1.0000"],
        ["P@1", "1", "0.0000", "1.0000"],
        ["P@1", "2", "1.0000", "-"],
        ["P@1", "all", "0.5000", "1.0000"],
    ]


def test_means_over_other_queries_are_noted(two_runs, capsys):
    said = "torch-ap: the runs differ in their queries: each mean is over the queries of its run (see -c)\n"
    for arguments, note in (
        (two_runs, said),
        ([*two_runs, "-c"], ""),
        (two_runs[:2], ""),
        ([*two_runs, "--json"], said),
        (
            [two_runs[0], two_runs[2]],
            "torch-ap: 1 of 2 judged queries have no documents and are left out (see -c)\n",
        ),
        ([two_runs[0], two_runs[2], "-c"], ""),
    ):
        assert main.main(["trec", *arguments]) == 0
        assert capsys.readouterr().err == note


def test_a_query_named_as_the_mean_is(tmp_path, capsys):
    files = [
        str(write(tmp_path, "all 0 a 1\n", "qrels")),
        str(write(tmp_path, "all Q0 b 1 2 A\nall Q0 a 1 1 A\n", "run")),
    ]
    command = ["trec", *files, "-m", "map"]
    for form in ([], ["--csv"]):
        assert main.main([*command, "-q", *form]) == 2
        assert capsys.readouterr().err.startswith(f"torch-ap: {files[1]}: query 'all' has the name of the mean with")
        assert main.main([*command, *form]) == 0
        capsys.readouterr()
    assert main.main([*command, "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"A": {"map": {"all": 0.5, "queries": {"all": 0.5}}}}


def test_help_lists_the_requirements_of_interpolation(capsys):
    with pytest.raises(SystemExit):
        main.main(["trec", "--help"])
    assert "neither iprec nor 11pt_avg" in " ".join(capsys.readouterr().out.split())


def test_json_and_csv(two_runs, capsys):
    assert main.main(["trec", *two_runs[:2], "-m", "map", "--json", "--per-query"]) == 0
    assert json.loads(capsys.readouterr().out) == {"A": {"map": {"all": 0.5, "queries": {"1": 0.5, "2": 0.5}}}}
    assert main.main(["trec", *two_runs[:2], "-m", "map", "--csv", "--relevance-level", "2", "-c"]) == 0
    assert capsys.readouterr().out == "measure,query,A\nmap,all,0.5\n"


def test_measures_in_one_name_as_trec_eval_takes_them(two_runs, capsys):
    assert main.main(["trec", *two_runs[:2], "-m", "P.5,1", "-m", "map_cut.10", "-m", "iprec_at_recall.0.5,1"]) == 0
    said = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert said == ["P_5", "P_1", "map_cut_10", "iprec_at_recall_0.5", "iprec_at_recall_1"]
    for wrong in ("P.5,", "P.", "P.0", "P.5, 10", "map.5", "iprec_at_recall.2"):
        assert main.main(["trec", *two_runs[:2], "-m", wrong, "-m", "map"]) == 2
        assert capsys.readouterr().err.startswith(f"torch-ap: unknown measure {wrong!r}; did you mean '")


def test_a_level_that_no_grade_reaches_is_noted(two_runs, capsys):
    assert main.main(["trec", *two_runs[:2], "-m", "map", "-l", "9"]) == 0
    said = capsys.readouterr()
    assert said.err == f"torch-ap: {two_runs[0]}: no grade is 9 or more, so nothing is relevant\n"
    assert said.out.split()[-1] == "0.0000"
    assert main.main(["trec", *two_runs[:2], "-m", "map(rel=1)", "-m", "ndcg", "-m", "P(rel=8)@5", "-l", "9"]) == 0
    assert capsys.readouterr().err == f"torch-ap: {two_runs[0]}: no grade is 8 or more, so nothing is relevant\n"
    assert main.main(["trec", *two_runs[:2], "-m", "map", "-l", "0"]) == 2
    assert capsys.readouterr().err == "torch-ap: --relevance-level must be an int of at least 1, got 0\n"


def test_queries_that_count_0_or_do_not_count_are_noted(tmp_path, capsys):
    (tmp_path / "qrels").write_text("a 0 d1 1\nb 0 d1 0\nc 0 d1 0\n")
    (tmp_path / "run").write_text("a Q0 d1 1 2 t\nb Q0 d1 1 2 t\nx Q0 d1 1 2 t\ny Q0 d1 1 2 t\n")
    files = [str(tmp_path / name) for name in ("qrels", "run")]
    for flags, said in (
        ([], "1 of 2 judged queries has no document of grade 1 or more, and counts 0"),
        (["-c"], "2 of 3 judged queries have no document of grade 1 or more, and count 0"),
    ):
        assert main.main(["trec", *files, *flags]) == 0
        found = capsys.readouterr().err
        assert f"qrels: {said}" in found
        assert "run has 2 queries without judgements, which do not count" in found


def test_a_run_of_other_documents_is_noted(two_runs, capsys, tmp_path):
    other = tmp_path / "other"
    lines = [line.split() for line in Path(two_runs[1]).read_text().splitlines()]
    other.write_text("".join(" ".join([*x[:2], "no" + x[2], *x[3:]]) + "\n" for x in lines))
    assert main.main(["trec", two_runs[0], two_runs[1], str(other), "-m", "map"]) == 0
    assert capsys.readouterr().err == f"torch-ap: {other}: none of its documents is relevant by {two_runs[0]}\n"


@pytest.fixture
def from_standard_input(monkeypatch, capsys):
    """Return a function that runs the command on an open file or a pipe of bytes; it returns status and output."""

    def run(stdin, *arguments):
        if isinstance(stdin, bytes):
            reader, writer = os.pipe()
            assert os.write(writer, stdin) == len(stdin)
            os.close(writer)
            stdin = reader
        with open(stdin) as stream:  # noqa: PTH123
            monkeypatch.setattr(sys, "stdin", stream)
            done = main.main(["trec", *map(str, arguments), "-m", "map", "--csv"])
        return done, *capsys.readouterr()

    return run


HALF = (0, "measure,query,A\nmap,all,0.5\n", "")


def test_standard_input_is_a_dash(two_runs, from_standard_input):
    qrels, run = (Path(path) for path in two_runs[:2])
    assert from_standard_input(run.read_bytes(), qrels, "-") == HALF
    assert from_standard_input(gzip.compress(run.read_bytes()), qrels, "-") == HALF
    assert from_standard_input(qrels.read_bytes(), "-", run) == HALF
    assert from_standard_input(os.open(run, os.O_RDONLY), qrels, "-") == HALF


def test_standard_input_starts_at_its_current_position(two_runs, tmp_path, from_standard_input):
    """Another process has read from standard input and moved the shared position in the file."""
    qrels, run = (Path(path) for path in two_runs[:2])
    longer = tmp_path / "longer"
    longer.write_bytes(b"not a line of a run\n" + run.read_bytes())
    begun = os.open(longer, os.O_RDONLY)
    assert os.read(begun, 20) == b"not a line of a run\n"
    assert from_standard_input(begun, qrels, "-") == HALF


def test_standard_input_has_one_reader(two_runs, capsys, monkeypatch, from_standard_input):
    assert main.main(["trec", two_runs[0], "-", "-"]) == 2
    assert capsys.readouterr().err == "torch-ap: - can appear only once, since standard input can be read once\n"
    done = from_standard_input(b"q Q0 d 1 x t\n", two_runs[0], "-")
    assert done == (2, "", "torch-ap: standard input, line 1: 'x' is not a number\n")
    monkeypatch.setattr(sys, "stdin", None)
    assert main.main(["trec", two_runs[0], "-"]) == 2
    assert capsys.readouterr().err == "torch-ap: standard input cannot be read\n"


def test_default_measures(two_runs, capsys):
    assert main.main(["trec", *two_runs]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "run"], "torch-ap: nowhere: No such file or directory\n"),
        (["QRELS", "QRELS"], "torch-ap: QRELS, line 1: must have at least 6 columns, query Q0 document "),
        (
            ["RUN", "QRELS"],
            "torch-ap: RUN, line 1: must have 4 columns, query iteration document relevance, got 6, as runs have: are ",
        ),
        (["QRELS", "RUN", "-m", "xyz"], "torch-ap: unknown measure 'xyz'; known are"),
        (["QRELS", "RUN", "-l", "0"], "torch-ap: --relevance-level must be an int of at least 1, got 0\n"),
        (["RUN2", "RUN"], "torch-ap: RUN: no query of the run has judgements in RUN2\n"),
    ],
)
def test_errors_are_one_line(arguments, message, two_runs, capsys, tmp_path):
    other = str(write(tmp_path, "9 0 a 1\n", "other"))
    names = {"QRELS": two_runs[0], "RUN": two_runs[1], "RUN2": other}
    assert main.main(["trec", *(names.get(x, x) for x in arguments)]) == 2
    said = capsys.readouterr().err
    for name, path in sorted(names.items(), key=lambda pair: -len(pair[0])):
        message = message.replace(name, path)
    assert said.startswith(message)
    assert said.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["trec"], ["trec", "a", "b", "--convention", "best"], ["other"]])
def test_wrong_usage_is_one_line_too(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main.main(arguments)
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("torch-ap: ")
    assert said.count("\n") == 1


def test_progress_on_long_files(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for size in (1000, 1 << 26):
        with Bar("folder/run.txt") as bar:
            for done in (0, 1, size // 2, size):
                bar(done, size)
    said = capsys.readouterr().err
    assert said.count("\r") == 5
    assert "run.txt  50 %" in said
    assert said.endswith("\r")
