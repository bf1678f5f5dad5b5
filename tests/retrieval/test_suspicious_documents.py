"""Documents without judgement: each change equals a second evaluation with the document judged as relevant."""

import random

import pytest

import torch_ap
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.retrieval import suspicious_labels


def drawn(seed):
    """Draw judgements and a run with many ties; some queries have no documents or no judgements."""
    r = random.Random(seed)
    names = [f"d{k}" for k in range(12)]
    qrels = {f"q{q}": {x: r.choice([-1, 0, 0, 1, 2]) for x in r.sample(names, r.randint(1, 6))} for q in range(5)}
    run = {f"q{q}": {x: r.randint(0, 4) / 4 for x in r.sample(names, r.randint(0, 12))} for q in range(1, 6)}
    run = {query: documents for query, documents in run.items() if documents}
    return qrels, run


def ranked(documents):
    return sorted(documents, key=lambda x: (documents[x], x), reverse=True)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of queries without documents
@each("seed", range(12))
def test_each_change_is_that_of_a_relevant_document(seed):
    qrels, run = drawn(seed)
    options = {
        "relevance_level": 1 + seed % 2,
        "missing_queries": ("neg", "skip")[seed // 2 % 2],
        "ties": ("trec10", "trec9")[seed // 4 % 2],
    }
    try:
        before = torch_ap.evaluate(qrels, run, "AP", **options).to_dict()["AP"]
    except ValueError:
        return  # no common query
    found = suspicious_labels(qrels, run, depth=7, limit=None, **options)
    assert found.value.item() == pytest.approx(before, abs=REORDERED)
    rows = found.rows()
    expected = {
        (query, document)
        for query, documents in run.items()
        if query in qrels
        for document in ranked(documents)[:7]
        if qrels[query].get(document, -1) < 0
    }
    assert {(row["query"], row["document"]) for row in rows} == expected
    assert found.counts == {"without judgement": len(expected)}
    for row in rows:
        assert ranked(run[row["query"]])[row["rank"] - 1] == row["document"]
        assert run[row["query"]][row["document"]] == row["score"]
        changed = qrels | {row["query"]: qrels[row["query"]] | {row["document"]: 2}}
        after = torch_ap.evaluate(changed, run, "AP", **options).to_dict()["AP"]
        assert row["change"] == pytest.approx(after - before, abs=REORDERED), row
    changes = [row["change"] for row in rows]
    assert changes == sorted(changes, reverse=True)
    assert suspicious_labels(qrels, run, depth=7, limit=2, **options).rows() == rows[:2]


def test_nothing_without_judgement():
    found = suspicious_labels({"q": {"a": 1, "b": 0}}, {"q": {"a": 0.5, "b": 0.7}})
    assert found.rows() == []
    assert found.value.item() == 0.5
    found = suspicious_labels({"q": {"a": 0}}, {"q": {"b": 0.7, "a": 0.5}})
    assert [row["change"] for row in found.rows()] == [1.0], "the first relevant document of a query"


@each(
    "options, match",
    [({"depth": 0}, "depth"), ({"limit": 0}, "limit"), ({"ties": "expected"}, "ties"), ({"run": 5}, "run")],
)
def test_bad_arguments(options, match):
    arguments = {"qrels": {"q": {"a": 1}}, "run": {"q": {"a": 1.0}}} | options
    with pytest.raises((TypeError, ValueError), match=match):
        suspicious_labels(**arguments)


def files(folder):
    (folder / "q.txt").write_text("q1 0 d1 1\nq1 0 d4 1\nq1 0 d3 0\nq2 0 d2 1\n")
    lines = ["q1 Q0 d1 1 0.9 t", "q1 Q0 d2 2 0.5 t", "q1 Q0 d3 3 0.3 t", "q2 Q0 <b>\u202e 1 2.0 t", "q2 Q0 d2 2 1.0 t"]
    (folder / "r.txt").write_text("\n".join(lines), encoding="utf-8")
    return [str(folder / "q.txt"), str(folder / "r.txt")]


def test_command_and_page(tmp_path, capsys):
    words = ["trec", *files(tmp_path), "-m", "map", "--suspicious-labels"]
    page = tmp_path / "x.html"
    assert main.main([*words, "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "Suspicious labels: without judgement 2" in printed
    assert "without judgement  +0.0833     q1         d2     2    0.5" in printed
    text = page.read_text("utf-8")
    assert "Labels that may be wrong" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "\u202e" not in text
    assert main.main([*words, "--csv"]) == 0
    assert "suspicious_labels.2.change,all,0.0833" in capsys.readouterr().out
    assert main.main([*words, "--json"]) == 0
    assert '"without judgement": 2' in capsys.readouterr().out
    for more in (["-J"], ["--convention", "expected"]):
        assert main.main([*words, *more]) == 2
        assert "--suspicious-labels needs" in capsys.readouterr().err
