"""``torch-ap score``: every format, kind of ranking and output form against the functions; invalid input."""

import contextlib
import csv
import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score

from tests.support.tolerances import REORDERED
from torch_ap import (
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
    RetrievalMAP,
    RetrievalNormalizedDCG,
    functional,
    inference,
)
from torch_ap.cli import main
from torch_ap.core.base.options import Interpolation, allowed_values
from torch_ap.core.columns import table_names
from torch_ap.inference import average_precision_interval
from torch_ap.retrieval.runs import measure_names

pa = pytest.importorskip("pyarrow")
FILES = ("csv", "tsv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "arrow", "feather", "npz")


def write(table, path):
    """Write a pyarrow table as a file with this suffix; .feather is a stream."""
    from pyarrow import csv as text
    from pyarrow import parquet

    suffix = path.name.split(".", 1)[1]
    if suffix.startswith(("csv", "tsv")):
        out = io.BytesIO()
        text.write_csv(table, out, text.WriteOptions(delimiter="\t" if suffix == "tsv" else ","))
        path.write_bytes(gzip.compress(out.getvalue()) if suffix.endswith("gz") else out.getvalue())
    elif suffix.startswith("jsonl"):
        lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
        path.write_bytes(gzip.compress(lines) if suffix.endswith("gz") else lines)
    elif suffix == "parquet":
        parquet.write_table(table, path, row_group_size=100)
    elif suffix == "npz":
        np.savez(path, **{name: np.array(table[name].to_pylist()) for name in table.column_names})
    else:
        kind = pa.ipc.new_file if suffix == "arrow" else pa.ipc.new_stream
        with path.open("wb") as file, kind(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    return str(path)


@pytest.fixture(scope="module")
def columns():
    draw = np.random.default_rng(3)
    hit = draw.random(400) < 0.3
    scores = (draw.normal(size=(400, 3)) + hit[:, None]).round(2)  # with ties
    return {
        "score": scores[:, 0],
        "other": scores[:, 1],
        "third": scores[:, 2],
        "label": hit.astype(np.int64),
        "inverse": 1 - hit.astype(np.int64),
        "word": np.where(hit, "spam", "ham"),
        "query": [f"q{number}" for number in draw.integers(0, 20, 400)],
        "weight": draw.random(400).round(3),
        "class": draw.integers(0, 3, 400),
        "rate": np.where(hit, 1.0, 0.25),
        "inverse_rate": np.where(hit, 1.0, 4.0),
    }


@pytest.fixture(scope="module")
def tensors(columns):
    return {name: torch.tensor(column) for name, column in columns.items() if name not in ("word", "query")}


@pytest.fixture(scope="module")
def paths(columns, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return {suffix: write(pa.table(columns), folder / f"data.{suffix}") for suffix in FILES}


@pytest.fixture
def score(capsys):
    def run(*arguments, status=0):
        assert main.main(["score", *map(str, arguments)]) == status
        return capsys.readouterr()

    return run


BINARY = ("--preds", "score", "--target", "label")


def measures(said):
    return json.loads(said.out)["measures"]


@pytest.mark.parametrize("suffix", FILES)
def test_every_format_gives_equal_output(suffix, paths, tensors, score):
    found = measures(score(paths[suffix], "--preds", "score", "--target", "word", "--pos-label", "spam", "--json"))
    value = functional.binary_average_precision(tensors["score"], tensors["label"])
    assert found == {"ap": {"value": float(value)}}
    grouped = (*BINARY, "--group", "query", "--json")
    assert measures(score(paths[suffix], *grouped)) == measures(score(paths["csv"], *grouped))


def test_suspicious_labels_of_rows_and_of_classes(paths, tensors, score):
    metric = BinaryAveragePrecision()
    metric.update(tensors["score"], tensors["label"])
    expected, words = metric.suspicious_labels(), (*BINARY, "--suspicious-labels")
    found = json.loads(score(paths["csv"], *words, "--json").out)["suspicious_labels"]
    assert found["counts"] == expected.counts
    assert [row["item"] for row in found["rows"]] == (expected.table["item"] + 1).tolist()
    assert [row["change"] for row in found["rows"]] == pytest.approx(expected.table["change"].tolist())
    text = score(paths["csv"], *words).out
    assert f"high score, labelled negative {expected.counts['high score, labelled negative']}" in text
    lines = [line.split(",") for line in score(paths["csv"], *words, "--interval", "--csv").out.splitlines()]
    assert any(line[0] == "suspicious_labels.1.change" for line in lines)
    classes = ("--preds", "score", "other", "third", "--target", "class", "--suspicious-labels")
    (row, *_) = json.loads(score(paths["csv"], *classes, "--json").out)["suspicious_labels"]["rows"]
    assert {row["class"], row["predicted_class"]} < {"score", "other", "third"}


@pytest.mark.parametrize("has_classes", [False, True])
def test_the_pages_number_suspicious_labels_by_rows_from_1(has_classes, paths, tensors, score, tmp_path):
    """The numbers are those of the terminal. Pages of classes have fewer candidates, so other rows."""
    names = ["score", "other", "third"]
    words = ("--preds", *names, "--target", "class", "--normalization", "none") if has_classes else BINARY
    preds = torch.stack([tensors[x] for x in names], 1) if has_classes else tensors["score"]
    metric = MulticlassAveragePrecision(3, normalization=None) if has_classes else BinaryAveragePrecision()
    metric.update(preds, tensors["class" if has_classes else "label"])
    expected = (metric.suspicious_labels(limit=20).table["item"] + 1).tolist()
    pages = [tmp_path / name for name in ("score.md", "report.md")]
    said = score(paths["csv"], *words, "--suspicious-labels", "--report", pages[0], "--json")
    rows = json.loads(said.out)["suspicious_labels"]["rows"]
    assert has_classes or [row["item"] for row in rows[:20]] == expected
    assert main.main(["report", paths["csv"], *words, "-o", str(pages[1])]) == 0
    for page in pages:
        section = page.read_text().split("## Labels that may be wrong")[1].split("\n## ")[0]
        head, _, *listed = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
        assert [int(row[head.index("item")].replace(",", "")) for row in listed] == expected


@pytest.fixture(scope="module")
def ids(columns):
    """Ids that are neither sorted nor numbers."""
    return [f"mail {7 * row % 400}<" for row in range(len(columns["label"]))]


@pytest.mark.parametrize("suffix", FILES)
def test_ids_name_suspicious_labels(suffix, columns, ids, score, tmp_path):
    table, page = write(pa.table(columns | {"id": ids}), tmp_path / f"x.{suffix}"), tmp_path / "page.html"
    words = (*BINARY, "--suspicious-labels", "--json")
    numbered = json.loads(score(table, *words).out)["suspicious_labels"]["rows"]
    expected = [row | {"item": ids[row["item"] - 1]} for row in numbered]
    assert json.loads(score(table, *words, "--id", "id").out)["suspicious_labels"]["rows"] == expected
    if suffix == "csv":
        assert f" {expected[0]['item']} " in score(table, *BINARY, "--id", "id", "--suspicious-labels").out
        for words in (("score", table, "--report", str(page)), ("report", table, "-o", str(page))):
            assert main.main([*words, *BINARY, "--id", "id"]) == 0
            part = page.read_text().split("Labels that may be wrong</h2>")[1].split("</section>")[0]
            assert all(f"{row['item'][:-1]}&lt;" in part for row in expected[:20])


def test_ids_pair_the_rows_of_a_baseline(columns, ids, score, tmp_path):
    places = np.random.default_rng(0).permutation(len(ids))
    table = write(pa.table(columns | {"id": ids}), tmp_path / "x.csv")
    moved = {name: [column[place] for place in places] for name, column in (columns | {"id": ids}).items()}
    other = write(pa.table(moved | {"score": moved["other"]}), tmp_path / "y.csv")
    words = (*BINARY, "--json", "--cluster", "query", "--baseline")
    expected, found = (measures(score(table, *words, *x))["ap"] for x in (("other",), (other, "--id", "id")))
    assert found["compared"] == expected["compared"] | {"baseline": other}
    assert "y.csv, row " in score(table, *words, other, status=2).err
    changed = [1 - moved["label"][0], *moved["label"][1:]]
    for change, message in (
        ({"label": changed}, f"{other}, row 1: 'label' must be as in {table}"),
        ({"id": ["x", *moved["id"][1:]]}, f"{other}: must have the ids of {table}, but has no row with id "),
        ({"id": [*moved["id"][:-1], moved["id"][0]]}, "y.csv, row 400: column 'id' must have another value in each"),
    ):
        write(pa.table(moved | change), tmp_path / "y.csv")
        assert message in score(table, *words, other, "--id", "id", status=2).err


def test_every_measure_of_one_ranking(paths, tensors, score):
    preds, target = tensors["score"], tensors["label"]
    names = ["ap", "ap@7", *table_names.INTERPOLATED, "P@7", "R@7", "F@7", "Rprec"]
    asked = [word for name in names for word in ("-m", name)]
    found = {name: one["value"] for name, one in measures(score(paths["csv"], *BINARY, *asked, "--json")).items()}
    ap = functional.binary_average_precision
    assert found == {
        "ap": pytest.approx(float(ap(preds, target))),
        "ap@7": pytest.approx(float(ap(preds, target, top_k=7))),
        **{name: pytest.approx(float(ap(preds, target, interpolation=name))) for name in table_names.INTERPOLATED},
        "P@7": pytest.approx(float(functional.retrieval_precision(preds, target, 7))),
        "R@7": pytest.approx(float(functional.retrieval_recall(preds, target, 7))),
        "F@7": pytest.approx(float(functional.retrieval_f_beta(preds, target, 7))),
        "Rprec": pytest.approx(float(functional.retrieval_r_precision(preds, target))),
    }
    for option, keywords in (
        (("--ties", "pessimistic"), {"ties": "pessimistic"}),
        (("--denominator", "relevant"), {"top_k": 3, "denominator": "relevant"}),
    ):
        said = score(paths["csv"], *BINARY, "-m", "ap@3" if "top_k" in keywords else "ap", *option, "--json")
        assert next(iter(measures(said).values()))["value"] == float(ap(preds, target, **keywords))
    weighted = measures(score(paths["csv"], *BINARY, "--weights", "weight", "--json"))["ap"]["value"]
    assert weighted == pytest.approx(float(ap(preds, target, weights=tensors["weight"])))


def test_names_of_measures_equal_the_library():
    assert set(table_names.INTERPOLATED) == {x for x in allowed_values(Interpolation) if x and "trec" not in x}


def test_interval_chance_and_comparison_are_the_librarys(paths, tensors, score):
    arguments = (*BINARY, "-m", "ap", "-m", "P@9", "--interval", "--confidence-level", "0.8", "--baseline", "other")
    found = measures(score(paths["parquet"], *arguments, "--json"))
    preds, target = tensors["score"], tensors["label"]
    interval = average_precision_interval(preds, target, confidence_level=0.8)
    compared = inference.compare_rankings(preds, tensors["other"], target, confidence_level=0.8, method="logit")
    assert [found["ap"][key] for key in ("low", "high")] == pytest.approx([float(interval.low), float(interval.high)])
    p_values = torch.tensor([x["compared"]["p_value"] for x in found.values()], dtype=torch.float64)
    adjusted = inference.record.holm(p_values).tolist()
    assert [x["compared"]["adjusted_p_value"] for x in found.values()] == pytest.approx(adjusted)
    assert found["ap"]["chance"] == pytest.approx(float(inference.chance_level(preds, target)))
    assert found["ap"]["compared"] == {
        "baseline": "other",
        "value": pytest.approx(float(compared.value_b)),
        **{key: pytest.approx(float(getattr(compared, key))) for key in ("difference", "low", "high", "p_value")},
        "adjusted_p_value": pytest.approx(adjusted[0]),
    }
    at = inference.precision_at_k_interval(preds, target, 9, confidence_level=0.8)
    assert [found["P@9"][key] for key in ("low", "high")] == pytest.approx([float(at.low), float(at.high)])
    at = inference.compare_rankings_at_k(preds, tensors["other"], target, 9, measure="precision", confidence_level=0.8)
    assert found["P@9"]["compared"]["low"] == pytest.approx(float(at.low))


def test_clusters_of_rows_and_of_groups(paths, tensors, columns, score):
    names = list(dict.fromkeys(columns["query"]))
    ids = torch.tensor([names.index(query) for query in columns["query"]])
    arguments = (
        paths["parquet"],
        *BINARY,
        "--cluster",
        "query",
        "--interval",
        "--baseline",
        "other",
        "-m",
        "ap",
        "-m",
        "R@9",
    )
    found = measures(score(*arguments, "--json"))
    preds, target = tensors["score"], tensors["label"]
    interval = inference.average_precision_interval(preds, target, groups=ids)
    assert [found["ap"][key] for key in ("low", "high")] == pytest.approx([float(interval.low), float(interval.high)])
    compared = inference.compare_rankings(preds, tensors["other"], target, groups=ids)
    assert found["ap"]["compared"]["p_value"] == pytest.approx(float(compared.p_value))
    at = inference.recall_at_k_interval(preds, target, 9, groups=ids)
    assert found["R@9"]["low"] == pytest.approx(float(at.low))
    metric = RetrievalMAP()
    metric.update(preds, target, ids)
    grouped = measures(score(paths["csv"], *BINARY, "--group", "query", "--cluster", "query", "--interval", "--json"))
    expected = metric.confidence_interval(groups={query: query for query in range(20)})
    assert grouped["map"]["low"] == pytest.approx(float(expected.low))
    words = ("--group", "query", "--cluster", "class", "--interval")
    said = score(paths["csv"], *BINARY, *words, status=2).err
    assert "column 'class' must have one cluster for all rows of a group, group 'q" in said
    assert "--cluster has no meaning with --bins" in score(*arguments[:7], "--bins", "9", "--interval", status=2).err


def test_groups_are_queries(paths, tensors, columns, score):
    metric, other = RetrievalMAP(), RetrievalMAP()
    names = list(dict.fromkeys(columns["query"]))
    indexes = torch.tensor([names.index(query) for query in columns["query"]])
    metric.update(tensors["score"], tensors["label"], indexes)
    other.update(tensors["other"], tensors["label"], indexes)
    arguments = (paths["jsonl"], *BINARY, "--group", "query", "--interval", "--baseline", "other")
    found = measures(score(*arguments, "--per-group", "-m", "map", "-m", "recip_rank@3", "--json"))
    summary, compared = metric.summary(), metric.compare(other)
    for key, name in (("value", "map"), ("low", "map_low"), ("high", "map_high"), ("chance", "map_chance")):
        assert found["map"][key] == pytest.approx(float(summary[name]))
    assert found["map"]["groups"] == pytest.approx(dict(zip(names, metric.per_query()[1].tolist(), strict=True)))
    assert found["map"]["compared"]["p_value"] == pytest.approx(float(compared.p_value))
    first = functional.retrieval_reciprocal_rank(tensors["score"], tensors["label"], indexes=indexes, top_k=3)
    assert found["recip_rank@3"]["value"] == pytest.approx(float(first.mean()))


def test_a_real_run_as_a_table_equals_its_files(public_data, tmp_path, score, capsys):
    """Recall and MAP differ: they divide by relevant documents that no row contains."""
    folder = public_data / "trec_eval"
    graded = {(q, d): g for q, _, d, g in (x.split() for x in (folder / "qrels.test").read_text().splitlines())}
    rows = [x.split()[::2] for x in (folder / "results.test").read_text().splitlines()]
    judged = {q for q, _ in graded}
    lines = [f"{q},{s},{graded.get((q, d), 0)}\n" for q, d, s in rows if q in judged]
    (tmp_path / "run.csv").write_text("query,score,grade\n" + "".join(lines))
    names = ["P@5", "P@30", "recip_rank", "success@10"]
    asked = [word for name in names for word in ("-m", name)]
    arguments = ("--preds", "score", "--target", "grade", "--group", "query", "--json")
    found = measures(score(tmp_path / "run.csv", *arguments, *asked))
    files = [str(folder / name) for name in ("qrels.test", "results.test")]
    assert main.main(["trec", *files, "--convention", "expected", "--json", *asked]) == 0
    (wanted,) = json.loads(capsys.readouterr().out).values()
    assert {name: one["value"] for name, one in found.items()} == pytest.approx({x: wanted[x]["all"] for x in names})


def test_grades_of_groups(tmp_path, score):
    path = tmp_path / "graded.csv"
    path.write_text("s,grade,q\n3,0,a\n2,1,a\n1,2,a\n2,2,b\n1,0,b\n")
    arguments = (path, "--preds", "s", "--target", "grade", "--group", "q", "--json")
    assert measures(score(*arguments))["map"]["value"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    assert measures(score(*arguments, "-l", 2))["map"]["value"] == pytest.approx((1 / 3 + 1) / 2)


def test_groups_without_relevant_items_are_counted(tmp_path, score):
    path, other = tmp_path / "some.csv", tmp_path / "all.csv"
    path.write_text("s,grade,q\n3,0,a\n2,1,b\n1,0,c\n2,2,d\n")
    arguments = (path, "--preds", "s", "--target", "grade", "--group", "q", "--json")
    for bins in ((), ("--bins", 16)):
        for level, said in ((1, "2 of 4 groups, as of 'a'"), (2, "3 of 4 groups, as of 'a'")):
            found = score(*arguments, "-l", level, *bins)
            assert f"no row is relevant of {said}: counted as 0 in the mean" in found.err
        other.write_text("s,grade,q\n3,1,a\n2,0,a\n")
        assert not score(other, *arguments[1:], *bins).err
    # nDCG counts every grade above 0
    assert "no row is relevant of 2 of 4 groups" in score(*arguments, "-l", 3, "-m", "ndcg").err
    assert "no row is relevant of 4 of 4 groups" in score(*arguments, "-l", 3, "-m", "ndcg", "-m", "map").err


def test_ndcg_of_groups_is_scikit_learns(columns, tmp_path, score):
    """scikit-learn also takes ties as expected; chance and interval are equal to the metric's."""
    draw = np.random.default_rng(5)
    grades = draw.integers(0, 4, 400)
    grades[:20] = 0  # one group or a part of it
    path = write(pa.table({**columns, "grade": grades}), tmp_path / "graded.parquet")
    named = {"ndcg": (None, "linear"), "ndcg@3": (3, "linear"), "ndcg_exp@3": (3, "exponential")}
    asked = [word for name in named for word in ("-m", name)]
    how = ("--target", "grade", "--group", "query", "--interval", "--per-group", "--baseline", "other", "--json")
    found = measures(score(path, "--preds", "score", *how, *asked))
    queries = np.array(columns["query"])
    for name, (k, gains) in named.items():
        metric = RetrievalNormalizedDCG(top_k=k, gains=gains)
        for place, query in enumerate(dict.fromkeys(columns["query"])):
            here = queries == query
            gain = grades[here] if gains == "linear" else 2 ** grades[here] - 1
            value = ndcg_score([gain], [columns["score"][here]], k=k) if gain.any() else 0.0
            assert found[name]["groups"][query] == pytest.approx(value)
            scores, targets = (torch.from_numpy(x[here]) for x in (columns["score"], grades))
            metric.update(scores, targets, torch.full_like(targets, place))
        for key, said in (("value", "ndcg"), ("low", "ndcg_low"), ("high", "ndcg_high"), ("chance", "ndcg_chance")):
            assert found[name][key] == pytest.approx(float(metric.summary()[said]))
        assert 0 <= found[name]["compared"]["p_value"] <= 1
    page = tmp_path / "page.md"
    score(path, "--preds", "score", *how[:4], "-m", "ndcg_exp@3", "--report", page)
    assert "2^grade - 1" in page.read_text()
    said = score(path, "--preds", "score", *how[:4], "-m", "ndcg@3", "--bins", 64, status=2).err
    assert "--bins stores counts of relevant rows, but " in said


def test_chance_of_groups_equals_the_metric(paths, score):
    """Include bins, which have no ties."""
    names = ("P@5", "R@5", "F@3", "Rprec", "recip_rank", "recip_rank@3", "success@2")
    arguments = (paths["csv"], *BINARY, "--group", "query", "--interval", "--json")
    arguments = (*arguments, *(x for name in names for x in ("-m", name)))
    found, binned = measures(score(*arguments)), measures(score(*arguments, "--bins", 64))
    for name in names:
        assert 0 < found[name]["chance"] < 1
        assert binned[name]["chance"] == pytest.approx(found[name]["chance"])


def test_classes_and_labels(paths, tensors, score, tmp_path):
    preds = torch.stack([tensors[name] for name in ("score", "other", "third")], 1)
    of = ("--preds", "score", "other", "third")
    metric = MulticlassAveragePrecision(3, "none", normalization="softmax").set_dtype(torch.float64)
    metric.update(preds, tensors["class"])
    arguments = (paths["arrow"], *of, "--target", "class", "--normalization", "softmax", "--interval", "--per-class")
    found = measures(score(*arguments, "--json"))["map"]
    assert found["value"] == pytest.approx(float(metric.compute().mean()))
    assert [one["value"] for one in found["classes"].values()] == pytest.approx(metric.compute().tolist())
    assert found["classes"]["third"]["low"] == pytest.approx(float(metric.confidence_interval().low[2]))
    named = tmp_path / "named.parquet"
    word = np.array(["score", "other", "third"])[tensors["class"].numpy()]
    whole = pa.FixedSizeListArray.from_arrays(preds.numpy().ravel(), 3)
    columns = {name: tensors[name].numpy() for name in ("score", "other", "third", "class")}
    write(pa.table({**columns, "word": word, "all": whole, "list": whole.cast(pa.list_(pa.float64()))}), named)
    for scores, target in (((of[1:]), "word"), (("all",), "class"), (("list",), "class")):
        said = score(named, "--preds", *scores, "--target", target, "--normalization", "softmax", "--json")
        assert measures(said)["map"]["value"] == pytest.approx(found["value"])
    metric = MultilabelAveragePrecision(2).set_dtype(torch.float64)
    metric.update(preds[:, :2], torch.stack([tensors["label"], tensors["inverse"]], 1))
    said = score(paths["npz"], "--preds", "score", "other", "--target", "label", "inverse", "--json")
    assert measures(said)["map"]["value"] == pytest.approx(float(metric.compute()))
    assert json.loads(said.out)["labels"] == 2


@pytest.mark.parametrize("further", [(), ("--group", "query"), ("--weights", "weight")])
def test_a_baseline_in_another_file(further, columns, score, tmp_path):
    order = np.random.default_rng(0).permutation(400) if further[:1] == ("--group",) else np.arange(400)
    swapped = {**columns, "score": columns["other"]}
    shuffled = {name: np.asarray(column)[order] for name, column in swapped.items()}
    mine, theirs = write(pa.table(columns), tmp_path / "a.csv"), write(pa.table(shuffled), tmp_path / "b.parquet")
    beside = measures(score(mine, *BINARY, *further, "--baseline", "other", "--json"))
    apart = measures(score(mine, *BINARY, *further, "--baseline", theirs, "--json"))
    for one in (*beside.values(), *apart.values()):
        assert one["compared"].pop("baseline")
    assert apart == beside


@pytest.mark.parametrize("further", [(), ("-m", "ap@9", "-m", "P@9", "-m", "R@9"), ("--weights", "weight")])
@pytest.mark.parametrize("most", [8, 32, 4096])
def test_bins_bound_the_value(further, most, paths, score):
    value = measures(score(paths["csv"], *BINARY, *further, "--json"))
    bounded = json.loads(score(paths["csv"], *BINARY, *further, "--bins", most, "--json").out)
    assert bounded["bins"] <= most
    for name, one in value.items():
        found = bounded["measures"][name]
        assert found["at_least"] - 1e-12 <= one["value"] <= found["at_most"] + 1e-12
        assert found["width"] == pytest.approx(found["at_most"] - found["at_least"])
        if most == 4096:  # more bins than distinct scores
            assert found["at_least"] == found["at_most"] == pytest.approx(one["value"])


def test_bins_with_interval(paths, score):
    exact = measures(score(paths["csv"], *BINARY, "--interval", "--json"))["ap"]
    found = measures(score(paths["csv"], *BINARY, "--interval", "--bins", 4096, "--json"))["ap"]
    assert [found["low"], found["high"]] == pytest.approx([exact["low"], exact["high"]])
    untied = float(
        inference.random_ranking.random_average_precision(
            400, int(json.loads(score(paths["csv"], *BINARY, "--json").out)["positive"])
        ).mean
    )
    assert found["chance"] == pytest.approx(untied)
    said = score(paths["csv"], *BINARY, "--interval", "--bins", 16).out
    head = "measure estimate at least at most width chance 95% low 95% high"
    assert " ".join(said.splitlines()[1].split()) == head
    assert "any order inside the bins" in said


def test_bins_of_groups_bound_every_measure(paths, score):
    arguments = (paths["csv"], *BINARY, "--group", "query", "--per-group", "--interval", "--baseline", "other")
    arguments = (
        *arguments,
        *(x for name in ("map", "map@3", "P@5", "R@5", "recip_rank", "success@2") for x in ("-m", name)),
    )
    value = measures(score(*arguments, "--json"))
    for most in (30, 100, 4096):
        document = json.loads(score(*arguments, "--bins", most, "--json").out)
        assert document["bins"] <= most
        assert document["groups"] == 20
        for name, one in value.items():
            found = document["measures"][name]
            assert found["at_least"] - 1e-12 <= one["value"] <= found["at_most"] + 1e-12
            assert list(found["groups"]) == list(one["groups"])
            for group, each in one["groups"].items():
                assert found["groups"][group]["at_least"] - 1e-12 <= each <= found["groups"][group]["at_most"] + 1e-12
            gap, bounds = one["compared"], found["compared"]
            assert bounds["at_least"] - 1e-12 <= gap["difference"] <= bounds["at_most"] + 1e-12
            if most == 4096:
                assert found["at_least"] == found["at_most"] == pytest.approx(one["value"])
                for key in ("low", "high"):
                    assert found[key] == pytest.approx(one[key])
                for key in ("difference", "low", "high", "p_value"):
                    assert bounds[key] == pytest.approx(gap[key])
                assert "reasons" not in found
            elif most == 30:
                assert (
                    "interval and p-value are for the estimate; the uncertainty of the bins comes on top"
                    in found["reasons"]
                )


CLASSES = ("--preds", "score", "other", "third")


@pytest.mark.parametrize(
    "further",
    [
        ("--target", "class", "--normalization", "softmax"),
        ("--target", "class", "--normalization", "none", "-m", "ap@9"),
        ("--target", "label", "inverse", "label", "--weights", "weight"),
        ("--target", "label", "inverse", "label", "--normalization", "sigmoid", "--ties", "pessimistic"),
    ],
)
def test_bins_of_classes_bound_every_class(further, paths, score):
    value = measures(score(paths["csv"], *CLASSES, *further, "--per-class", "--json"))
    for most in (16, 4096):
        document = json.loads(score(paths["csv"], *CLASSES, *further, "--per-class", "--bins", most, "--json").out)
        assert document["bins"] <= 3 * most
        (found,), (one,) = document["measures"].values(), value.values()
        assert found["at_least"] - 1e-12 <= one["value"] <= found["at_most"] + 1e-12
        for name, each in one["classes"].items():
            assert found["classes"][name]["at_least"] - 1e-12 <= each <= found["classes"][name]["at_most"] + 1e-12
        if most == 4096:
            assert found["at_least"] == found["at_most"] == pytest.approx(one["value"], rel=REORDERED)


def test_bins_of_lists_equal_bins_of_columns(paths, score, tmp_path, columns):
    scores = np.stack([columns[x] for x in CLASSES[1:]], 1)
    lists = write(pa.table({"preds": scores.tolist(), "class": columns["class"]}), tmp_path / "lists.parquet")
    how = ("--target", "class", "--normalization", "none", "--bins", 32, "--per-class", "--interval", "--json")
    found = measures(score(lists, "--preds", "preds", *how))["map"]
    (wanted,) = measures(score(paths["csv"], *CLASSES, *how)).values()
    assert {x: found[x] for x in found if x != "classes"} == {x: wanted[x] for x in wanted if x != "classes"}
    assert list(found["classes"].values()) == list(wanted["classes"].values())
    assert found["low"] is None
    assert {"low", "high"} <= set(found["classes"]["0"])
    fewer = write(pa.table({"preds": scores[:, :2].tolist(), "class": columns["class"] % 2}), tmp_path / "two.parquet")
    said = score(lists, "--preds", "preds", *how, "--baseline", fewer, status=2).err
    assert "two.parquet: must have as many scores in a row as" in said


@pytest.mark.parametrize("further", [(), ("--group", "query")])
def test_bins_of_a_baseline_in_another_file(further, paths, score, tmp_path, columns):
    theirs = write(pa.table({**columns, "score": columns["other"]}), tmp_path / "other.csv")
    how = ("--bins", 64, *further, "--json")
    beside = measures(score(paths["csv"], *BINARY, *how, "--baseline", "other"))
    apart = measures(score(paths["csv"], *BINARY, *how, "--baseline", theirs))
    for one in (*beside.values(), *apart.values()):
        assert one["compared"].pop("baseline")
    assert apart == beside
    inverse = write(pa.table({**columns, "label": columns["inverse"]}), tmp_path / "inverse.csv")
    fewer = write(pa.table(columns).slice(0, 300 if not further else 5), tmp_path / "fewer.csv")
    if further:
        assert "must have the groups of" in score(paths["csv"], *BINARY, *how, "--baseline", fewer, status=2).err
    else:
        for path, what in ((inverse, "the same targets and weights"), (fewer, "400 rows, got 300")):
            said = score(paths["csv"], *BINARY, *how, "--baseline", path, status=2).err
            assert f"in the same order: {what}" in said


def test_forms_of_bins_agree(paths, score):
    arguments = (paths["csv"], *BINARY, "-m", "ap", "-m", "P@5", "--group", "query", "--per-group", "--bins", 64)
    arguments = (*arguments, "--interval", "--baseline", "other")
    document = measures(score(*arguments, "--json"))
    rows = list(csv.DictReader(io.StringIO(score(*arguments, "--csv").out)))
    assert len(rows) == 2 * 21
    for row in rows:
        one = document[row["measure"]]
        if row["group"] != "all":
            assert float(row["at_most"]) == one["groups"][row["group"]]["at_most"]
            continue
        for name in ("estimate", "at_least", "width", "low", "high"):
            assert float(row[name]) == one[name]
        for name in ("difference", "at_least", "p_value"):
            assert float(row[f"compared.{name}"]) == one["compared"][name]
    text, markdown = score(*arguments).out, score(*arguments, "--markdown").out
    for cell in (f"{document['map']['estimate']:.6f}", f"{document['map']['compared']['difference']:+.4f}"):
        assert cell in text
        assert f"| {cell} |" in markdown


def test_score_writes_a_page_too(paths, score, tmp_path):
    page = tmp_path / "x.md"
    said = score(paths["csv"], *BINARY, "--baseline", "other", "--report", page, "--confidence-level", 0.8, "--json")
    value = measures(said)["ap"]
    assert f"**AP {value['value']:.4f}**; 80% interval" in page.read_text()
    assert f"{value['compared']['difference']:+.3f}" in page.read_text()
    assert (
        "a report of one ranking is of ap" in score(paths["csv"], *BINARY, "-m", "P@5", "--report", page, status=2).err
    )


def test_forms_agree(paths, score):
    arguments = (paths["csv"], *BINARY, "-m", "ap", "-m", "P@5", "--group", "query", "--per-group", "--interval")
    document = measures(score(*arguments, "--json"))
    rows = list(csv.DictReader(io.StringIO(score(*arguments, "--csv").out)))
    assert len(rows) == 2 * (1 + 20)
    for row in rows:
        one = document[row["measure"]]
        assert float(row["value"]) == (one["value"] if row["group"] == "all" else one["groups"][row["group"]])
        assert (row["low"] == "") == (row["group"] != "all")
    text, table = score(*arguments).out, score(*arguments, "--markdown").out
    assert f"{document['map']['value']:.4f}" in text
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    aligned = [line.split() for line in text.splitlines() if line.startswith(("map", "P@5", "q"))]
    assert [row for row in cells if row[0] not in ("measure", "group")] == aligned


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "parquet", "npz"])
def test_standard_input(form, paths, score, monkeypatch):
    """Read a file and a pipe, which can be read once only."""
    source = Path(paths["feather" if form == "arrow" else form])
    wanted = score(source, *BINARY, "--csv").out
    with source.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert score("-", "--format", form, *BINARY, "--csv").out == wanted
    with source.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert score("-", "--format", form, *BINARY).out.startswith("standard input: 400 items")
    with source.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        said = score("-", "--format", form, "--preds", "scroe", "--target", "label", status=2).err
        assert said.startswith("torch-ap: standard input: has no column 'scroe'")
    with subprocess.Popen(["cat", source], stdout=subprocess.PIPE) as piped:
        monkeypatch.setattr(sys, "stdin", piped.stdout)
        assert score("-", "--format", form, *BINARY, "--csv").out == wanted


def test_no_standard_input(score, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "torch-ap: standard input cannot be read" in score("-", "--format", "csv", *BINARY, status=2).err


def test_a_file_of_many_batches(tmp_path, monkeypatch, score):
    """Rows are counted over all of them."""
    monkeypatch.setattr("torch_ap.core.columns.tables._ROWS", 64)
    monkeypatch.setattr("torch_ap.core.columns.table_text._BLOCK", 512)
    rows = [(f"{i * 7 % 1000}", int(i % 7 == 0), f"q{i % 50}") for i in range(1000)]
    columns = {"s": [float(x) for x, _, _ in rows], "y": [y for _, y, _ in rows], "q": [q for *_, q in rows]}
    found = {
        suffix: score(
            write(pa.table(columns), tmp_path / f"x.{suffix}"),
            "--preds",
            "s",
            "--target",
            "y",
            "--group",
            "q",
            "--json",
        ).out
        for suffix in ("csv", "jsonl", "parquet", "npz", "arrow")
    }
    assert len({x.split("\n", 2)[2] for x in found.values()}) == 1
    for suffix, wrong in (("csv", "930,1,q\nx,0,q\n"), ("jsonl", '{"s": "x", "y": 1, "q": "q"}\n')):
        path = tmp_path / f"x.{suffix}"
        path.write_text(path.read_text() + wrong)
        said = score(path, "--preds", "s", "--target", "y", status=2).err
        assert f"{path}, row {1002 if suffix == 'csv' else 1001}: column 's' must " in said
        assert said.endswith("got 'x'\n")


FAULTS = {
    "no such column": ("s,y\n1,1\n", ("scores", "y"), "x.csv: has no column 'scores'; its columns are s, y"),
    "a column like it": ("score,y\n1,1\n", ("socre", "y"), "x.csv: has no column 'socre'; did you mean 'score'?;"),
    "other case": ("Score,y\n1,1\n", ("score", "y"), "did you mean 'Score'?"),
    "two columns": ("s,s,y\n1,1,1\n", ("s", "y"), "x.csv: must have one column 's', got 2"),
    "no number": ("s,y\n1,1\nx,0\n", ("s", "y"), "x.csv, row 2: column 's' must contain numbers, got 'x'"),
    "no value": ("s,y\n1,1\n,0\n", ("s", "y"), "x.csv, row 2: column 's' must have a value, got none"),
    "NaN": (
        "s,y\nnan,1\n1,0\n",
        ("s", "y"),
        "x.csv, row 1: column 's' must have a value, got none (empty, NA, NaN or null)",
    ),
    "a fraction": ("s,y\n1,1\n2,0.5\n", ("s", "y"), "x.csv, row 2: column 'y' must be 0 or 1 (or --pos-label"),
    "words": (
        "s,y\n1,yes\n",
        ("s", "y"),
        "column 'y' must be 0 or 1 (or --pos-label must say which value is positive), got 'yes'",
    ),
    "ragged": (
        "s,y\n1,1\n2\n",
        ("s", "y"),
        "x.csv, row 2: must have 2 columns, got 1",
    ),
    "no rows": ("s,y\n", ("s", "y"), "x.csv: must contain rows, but has none"),
    "nothing": ("", ("s", "y"), "x.csv: must begin with a line of the columns' names, but is empty"),
    "Latin-1": (b"s,\xfc\n1,1\n", ("s", "y"), "x.csv, line 1: must be UTF-8 text"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_of_files_name_row_and_column(fault, tmp_path, score):
    text, (preds, target), message = FAULTS[fault]
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for bins in ((), ("--bins", "8")):
        said = score(path, "--preds", preds, "--target", target, *bins, status=2)
        assert said.err.startswith("torch-ap: ")
        assert said.err.count("\n") == 1
        assert message in said.err
        assert said.out == ""


def test_binary_faults(tmp_path, score):
    arrays = {"s": np.array([1.0, np.nan]), "y": np.array([1, 0]), "long": np.zeros(3), "o": np.array([None, 1])}
    np.savez(tmp_path / "x.npz", **arrays, deep=np.zeros((2, 2, 2)), text=np.array(["a", "b"]))
    for preds, message in (
        ("s", "x.npz, row 2: column 's' must not contain NaN"),
        ("long", "x.npz: its arrays 'long', 'y' must be of equal length"),
        ("o", "x.npz: 'o' must contain numbers or text of shape (N,), or (N, C) by rows, got object"),
        ("deep", "got float64 of shape (2, 2, 2)"),
        ("text", "x.npz: column 'text' must contain numbers, got string"),
    ):
        assert message in score(tmp_path / "x.npz", "--preds", preds, "--target", "y", status=2).err
    for form in ("parquet", "npz", "arrow"):
        (tmp_path / "x.csv").write_text("s,y\n1,1\n" * 99)
        said = score(tmp_path / "x.csv", "--format", form, "--preds", "s", "--target", "y", status=2).err
        assert f"x.csv: broken {form} file (" in said
    ragged = pa.table({"s": pa.array([[1.0], [1.0, 2.0]]), "y": [0, 1]})
    said = score(write(ragged, tmp_path / "r.parquet"), "--preds", "s", "--target", "y", status=2).err
    assert "r.parquet, row 2: column 's' must contain lists of one length, 1, got 2" in said


HUGE = 3 << 20  # more than one block

MISREAD = {  # file, its text, further arguments, message
    "negative weights": (
        "x.csv",
        "s,y,w\n1,1,2\n2,0,-1\n",
        ("--weights", "w"),
        "row 2: column 'w' must be finite, not neg",
    ),
    "infinite weights": (
        "x.csv",
        "s,y,w\n1,1,2\n2,0,inf\n",
        ("--weights", "w"),
        "row 2: column 'w' must be finite, not neg",
    ),
    "no target": ("x.csv", "s,y\n1,1\n2,\n", ("--pos-label", "1"), "row 2: column 'y' must have a value"),
    "no group": ("x.csv", "s,y,g\n1,1,a\n2,0,\n", ("--group", "g"), "row 2: column 'g' must have a value"),
    "large in CSV": (
        "x.csv",
        "s,y\n1,1\n9007199254740993,0\n",
        (),
        "row 2: column 's' must contain numbers that float64 represents",
    ),
    "infinite in CSV": (
        "x.csv",
        "s,y\n1,1\n1e400,0\n",
        (),
        "row 2: column 's' must contain numbers that float64 represents",
    ),
    "large in JSON": (
        "x.jsonl",
        '{"s": 1, "y": 1}\n{"s": 9007199254740993, "y": 0}\n',
        (),
        "row 2: column 's' must contain numbers that float64 represents, got 9007199254740993",
    ),
    "too large for JSON": (
        "x.jsonl",
        '{"s": 1, "y": 1}\n{"s": 1e400, "y": 0}\n',
        (),
        "row 2: column 's' must contain numbers that float64 represents, got 1e400",
    ),
    "lists": ("x.jsonl", '{"s": 1, "y": [1]}\n', (), "row 1: column 'y' must contain one value per row, got [1]"),
    "ragged": (
        "x.jsonl",
        '{"s": [1, 2], "y": 1}\n{"s": [1], "y": 0}\n',
        (),
        "row 2: column 's' must contain lists of one len",
    ),
    "surrogate": (
        "x.jsonl",
        '{"s": 1, "y": 1}\n{"s": 2, "y": "\\ud800"}\n',
        (),
        "x.jsonl, row 2: column 'y' must be an integer, got '\\ud800'",
    ),
    "ends of lines": ("x.csv", "s,y\r1,1\r2,0\r", (), "line 1: must name the columns: new-line character"),
    "a long name": ("x.csv", f"s,{'y' * 140_000}\n1,1\n", (), "line 1: must name the columns: field larger"),
    "a long line": ("x.csv", "s,y," * (1 << 19), (), "line 1: a line of more than 1048576 bytes is too long"),
}


@pytest.mark.parametrize("fault", MISREAD)
def test_ambiguous_input_raises(fault, tmp_path, score):
    name, text, further, message = MISREAD[fault]
    (tmp_path / name).write_text(text)
    for bins in ((), ("--bins", "8")) if "--group" not in further else ((),):
        said = score(tmp_path / name, "--preds", "s", "--target", "y", *further, *bins, status=2)
        assert said.err.startswith(f"torch-ap: {tmp_path / name}")
        assert message in said.err
        assert said.out == ""


@pytest.mark.parametrize(
    ("name", "text"),
    {
        "x.jsonl": '{"s": 1, "y": 1}\n',
        "y.jsonl": '{"s": 1, "y": 1, "c": "%s"}\n' % ("a" * HUGE),
        "long.csv": f's,y,c\n1,1,"{"a" * HUGE}"\n',
        "lines.csv": "s,y,c\n" + '1,1,"a\nb"\n' * (HUGE // 10),
        "names.csv": '"a\nb",s,y\nfoo,1,1\n',
        "powers.csv": "s,y\n9007199254740992,1\n1e300,1\ninf,1\n",
    }.items(),
)
def test_valid_input_is_read(name, text, tmp_path, score):
    (tmp_path / name).write_text(text)
    for bins in ((), ("--bins", "8")):
        found = json.loads(score(tmp_path / name, "--preds", "s", "--target", "y", *bins, "--json").out)
        assert found["positive"] == found["items"] == {"lines.csv": HUGE // 10, "powers.csv": 3}.get(name, 1)


def test_broken_arrays_and_footers_are_errors_with_the_name_of_the_file(tmp_path, score, capsys):
    def npy(header, data=b"\1" * 16):
        return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + data

    right = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"
    for wrong in (right[:-2], "{'a", "(((", "", "[1"):
        _zipped(tmp_path / "x.npz", {"s.npy": npy(wrong), "y.npy": npy(right)})
        assert "x.npz: 's' must be an array" in score(tmp_path / "x.npz", *SY, status=2).err
    for member, data, message in (
        ("s", npy(right), "x.npz: has no column 's'"),
        ("s.npy", npy(right, b"\0" * 9), "x.npz: 's' is cut short"),
        (
            "s.npy",
            npy(right.replace("f8", "c16")),
            "must contain numbers or text of shape (N,), or (N, C) by rows, got complex128",
        ),
    ):
        _zipped(tmp_path / "x.npz", {member: data, "y.npy": npy(right)})
        assert message in score(tmp_path / "x.npz", *SY, status=2).err
    np.savez(tmp_path / "big.npz", s=np.array([2**64 - 1, 2**64 - 2], np.uint64), y=[1, 0])
    assert "row 1: column 's' must contain numbers below 2^63" in score(tmp_path / "big.npz", *SY, status=2).err
    np.savez(tmp_path / "wide.npz", s=np.ones(2), y=[[1], [0]])
    assert "column 'y' must contain one value per row" in score(tmp_path / "wide.npz", *SY, status=2).err
    np.savez(tmp_path / "nan.npz", s=np.ones(2), y=[1, np.nan])
    assert "row 2: column 'y' must have a value" in score(tmp_path / "nan.npz", *SY, "--pos-label", 1, status=2).err
    whole = Path(write(pa.table({"s": [1.0, 2.0], "y": [1, 0]}), tmp_path / "x.parquet")).read_bytes()
    for place in range(len(whole) - 200, len(whole) - 8, 7):
        (tmp_path / "x.parquet").write_bytes(whole[:place] + b"\xff\x7f" + whole[place + 2 :])
        status = main.main(["score", str(tmp_path / "x.parquet"), *SY])
        assert status == 0 or "x.parquet" in capsys.readouterr().err


def test_whole_numbers_of_64_bits_are_exact(tmp_path, score):
    path = write(pa.table({"s": [2**53 + 1, 2**53], "y": [1, 0]}), tmp_path / "x.parquet")
    assert measures(score(path, *SY, "--json"))["ap"]["value"] == 1


def test_integers_next_to_fractions_must_be_exact_in_float64(tmp_path, score):
    """Columns of mixed dtypes are ranked as float64, which does not represent every integer."""
    table = {"s": [2**53 + 1, 2**53, 7], "t": [0.5, 1.5, 2.5], "y": [1, 0, 0]}
    path = write(pa.table(table), tmp_path / "x.parquet")
    for bins in ((), ("--bins", "8")):
        said = score(path, "--preds", "t", "s", "--target", "y", "--normalization", "none", *bins, status=2).err
        assert "x.parquet, row 1: column 's' must contain numbers that float64 represents" in said
        assert said.endswith(f"got {2**53 + 1}\n")
    path = write(pa.table({**table, "s": [2**53, 3, 7]}), tmp_path / "x.parquet")
    found = score(path, "--preds", "t", "s", "--target", "y", "--normalization", "none", "--per-class", "--json")
    assert measures(found)["map"]["classes"]["s"] == 1


SY = ("--preds", "s", "--target", "y")


def _zipped(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


ARGUMENTS = {
    "a measure": (("-m", "apk@5"), "unknown measure 'apk@5'; did you mean 'ap@5'?; known are ap, "),
    "rank 0": (("-m", "P@0"), "measure 'P@0': k must be at least 1"),
    "of groups": (("-m", "success@5"), "measure 'success@5' requires --group"),
    "no rank": (("-m", "P"), "measure 'P' needs a rank: P@k, as P@10"),
    "bounds of interpolation": (("--bins", "8", "-m", "11-point"), "--bins has no bounds for 11-point"),
    "divisor of nothing": (("--denominator", "found"), "--denominator has no meaning without ap@k"),
    "level alone": (
        ("--confidence-level", "0.9"),
        "--confidence-level has no meaning without --interval, --baseline, --report, --fail-below, --best",
    ),
    "resamples alone": (
        ("--n-resamples", "9"),
        "--n-resamples has no meaning without --interval, --baseline, --report, --fail-below or --chance-test",
    ),
    "groups without bins": (
        ("--bins", "9", "--group", "query"),
        "csv: --bins must be at least the number of groups, 20, got 9",
    ),
    "a page of bins": (("--bins", "9", "--report", "x.md"), "--report has no meaning with --bins"),
    "each group": (("--per-group",), "--per-group has no meaning without --group"),
    "each class": (("--per-class",), "--per-class needs several columns of scores, or one of lists"),
    "weights of groups": (("--weights", "weight", "--group", "query"), "--weights has no meaning with --group"),
    "ranks of weights": (("--weights", "weight", "-m", "P@3"), "--weights is for ap of all rows, not for P@3"),
    "ties of weights": (("--weights", "weight", "--ties", "expected"), "--weights requires --ties grouped, got"),
    "neither column nor file": (("--baseline", "oher"), "has no column 'oher'; did you mean 'other'?"),
    "an unknown label": (("--pos-label", "2"), "no target is '2' (--pos-label); they are '0', '1'"),
    "classes of one": (("--normalization", "sigmoid"), "--normalization is for the scores of classes"),
    "two inputs": (("--baseline", "-"), "standard input"),
    "labels of groups": (("--suspicious-labels", "--group", "query"), "--suspicious-labels has no meaning with"),
    "labels of ranks": (("--suspicious-labels", "-m", "P@3"), "--suspicious-labels needs ap"),
    "labels of weights": (("--suspicious-labels", "--weights", "weight"), "--suspicious-labels has no meaning with"),
    "labels of bins": (("--suspicious-labels", "--bins", "9"), "--suspicious-labels has no meaning with --bins"),
    "labels of ranges": (("--suspicious-labels", "--exact"), "--suspicious-labels has no meaning with --exact"),
    "ids without rows": (("--id", "query"), "--id has no meaning without --suspicious-labels, --report or --baseline"),
    "ids of groups": (("--id", "score", "--group", "query", "--report", "x.md"), "--id has no meaning with --group"),
    "ids of a column": (("--id", "score", "--baseline", "other"), "--id has no meaning with a column as --baseline"),
    "ids of two rows": (("--id", "query", "--suspicious-labels"), "column 'query' must have another value in each row"),
}


@pytest.mark.parametrize("fault", ARGUMENTS)
def test_options_without_effect_raise(fault, paths, score):
    options, message = ARGUMENTS[fault]
    said = score(paths["csv"], *BINARY, *options, status=2)
    assert message in said.err
    assert said.out == ""


def test_a_baseline_of_other_rows_raises(tmp_path, score):
    mine, theirs = tmp_path / "a.csv", tmp_path / "b.csv"
    mine.write_text("s,y,q\n3,1,a\n2,0,b\n")
    arguments = (mine, "--preds", "s", "--target", "y", "--baseline", theirs)
    for text, further, message in (
        ("s,y,q\n3,1,a\n2,1,b\n", (), "b.csv, row 2: 'y' must be as in "),
        ("s,y,q\n3,1,a\n", (), "b.csv: must have as many rows and scores as "),
        ("s,y,q\n3,1,a\n2,0,c\n", ("--group", "q"), "but 'b' is in one alone"),
    ):
        theirs.write_text(text)
        assert message in score(*arguments, *further, status=2).err


def test_classes_that_are_none(tmp_path, score):
    path = tmp_path / "x.csv"
    path.write_text("cat,dog,y\n.5,.5,cat\n.4,.6,dgo\n")
    said = score(path, "--preds", "cat", "dog", "--target", "y", status=2).err
    message = "row 2: column 'y' must be one of the columns 'cat', 'dog', or its number, 0 to 1, got 'dgo'"
    assert f"{message}; did you mean 'dog'?" in said
    said = score(path, "--preds", "cat", "dog", "--target", "y", "-m", "P@1", status=2).err
    assert "measure 'P@1' is of one ranking" in said


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_the_error_for_binary_tables_without_pyarrow_names_the_extra(suffix, monkeypatch, paths, score):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow (extra `files`)" in score(paths[suffix], *BINARY, status=2).err


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_a_missing_file_raises_before_a_missing_package(suffix, monkeypatch, score):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert score(f"nosuch.{suffix}", *BINARY, status=2).err == f"torch-ap: nosuch.{suffix}: No such file or directory\n"


def test_measures_have_the_names_of_ir_measures_too(paths, score):
    """All those that stand for a measure of a table, as in ``torch-ap trec``."""
    for theirs, ours in measure_names.IR_MEASURES.items():
        for end in ("", "@3"):
            if ours + end in table_names.KNOWN or (end and f"{ours}@k" in table_names.KNOWN):
                given, known = (score(paths["csv"], *BINARY, "--group", "query", "-m", x + end) for x in (theirs, ours))
                assert given == known


@pytest.mark.parametrize("given", ["ndcg10", "NdCG@10"])
def test_the_nearest_measure_has_the_same_rank(given, paths, score):
    said = score(paths["csv"], *BINARY, "--group", "query", "-m", given, status=2).err
    assert said.startswith(f"torch-ap: unknown measure '{given}'; did you mean 'ndcg@10'?")


def test_without_a_positive_only_the_reason_is_printed(tmp_path, score):
    """Exact and binned scores follow one rule."""
    path = tmp_path / "x.csv"
    path.write_text("s,y,t\n1,0,1\n2,0,1\n")
    for bins in ((), ("--bins", "8")):
        for further in ((), ("--interval",)):
            said = score(path, *SY, "-m", "ap", "-m", "R@1", *further, *bins)
            assert said.err == ""
            assert set(said.out.splitlines()[2].split()[1:]) == {"-"}
            assert said.out.splitlines()[-1] == "ap, R@1: no row is positive, so the measure is undefined"
    said = score(path, "--preds", "s", "t", "--target", "y", "--normalization", "none").err
    assert said == f"torch-ap: {path}: no row is positive of class 't': left out of the mean\n"


@pytest.mark.parametrize(
    ("rows", "options", "reason"),
    [
        ("1,1,1\n2,1,1\n", ("--prevalence", "0.1"), "no row is negative"),
        ("1,1,1\n2,1,1\n", ("-m", "auprg"), "no row is negative"),
        ("1,0,1\n2,0,1\n", ("--prevalence", "0.1"), "no row is positive"),
        ("1,1,0\n2,0,1\n", ("--weights", "w"), "no row is positive"),
        ("1,1,1\n2,0,0\n", ("--weights", "w", "--prevalence", "0.1"), "no row is negative"),
        ("1,1,0\n2,0,0\n", ("--weights", "w"), "no row has weight"),
        ("1,1,0\n2,0,0\n", ("--weights", "w", "--bins", "8"), "no row has weight"),
    ],
)
def test_the_reason_of_an_undefined_measure(rows, options, reason, tmp_path, score):
    path = tmp_path / "x.csv"
    path.write_text(f"s,y,w\n{rows}")
    found = json.loads(score(path, *SY, *options, "--json").out)
    (measure,) = found["measures"].values()
    assert measure["reasons"] == [f"{reason}, so the measure is undefined"]


@pytest.mark.parametrize("ties", ["grouped", "expected"])
@pytest.mark.parametrize("further", [("--interval",), ("--baseline", "other"), ("--interval", "--bins", "8")])
def test_messages_of_the_command_name_its_own_options(ties, further, paths, capsys):
    for name in ("ap", "ap@7", "11-point", "trapezoid", "P@7", "R@7", "F@7", "Rprec"):
        more = () if "--bins" in further else ("--n-resamples", "20")
        arguments = [paths["csv"], *BINARY, "-m", name, "--ties", ties, *further, *more]
        main.main(["score", *arguments])
        said = capsys.readouterr()
        assert "`" not in said.out + said.err
        if "--interval" in further and name in ("F@7", "Rprec"):
            assert f"{name}: no interval" in said.out
    main.main(["score", paths["csv"], "--preds", "score", "other", "third", "--target", "class"])
    assert "pass --normalization softmax" in capsys.readouterr().err


@pytest.fixture
def systems_file(tmp_path):
    generator = np.random.default_rng(0)
    target, shared = (generator.random(300) < 0.2).astype(int), generator.normal(size=300)
    scores = {f"e{k}": shared + generator.normal(size=300) + target * (1 + k / 4) for k in range(3)}
    table = pa.table({**scores, "label": target, "query": np.arange(300) // 10})
    return write(table, tmp_path / "epochs.parquet"), torch.tensor(np.stack([*scores.values()])), torch.tensor(target)


BEST = ("--preds", "e0", "e1", "e2", "--target", "label", "--best")


def test_the_best_of_several_columns(systems_file, capsys):
    path, preds, target = systems_file
    for options, reference in (([], None), (["--baseline", "e0"], "e0")):
        wanted = inference.best_of(preds, target, names=["e0", "e1", "e2"], reference=reference)
        assert main.main(["score", path, *BEST, *options, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["measures"]["ap"]
        assert found == json.loads(json.dumps(wanted.to_dict()))
        assert main.main(["score", path, *BEST, *options, "--csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [row["system"] for row in rows] == ["e0", "e1", "e2"]
        (best,) = [row for row in rows if row["best"] == "1"]
        assert (best["system"], float(best["corrected"])) == (wanted.names[wanted.best], wanted.corrected)
        table = wanted.adjusted_p_value if reference else wanted.adjusted_p_value[wanted.best]
        assert [float(row["p_value"]) for row in rows] == table.tolist()
        for form in ([], ["--markdown"]):
            assert main.main(["score", path, *BEST, *options, *form]) == 0
            out = capsys.readouterr().out
            assert f"p against {reference or 'best'}" in out
            assert f"{float(wanted.corrected):.4f}" in out


def test_the_best_over_groups(systems_file, capsys):
    path, preds, target = systems_file
    assert (
        main.main(["score", path, *BEST, "--group", "query", "-m", "map", "--confidence-level", "0.8", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)["measures"]["map"]
    metrics = [RetrievalMAP() for _ in preds]
    for metric, scores in zip(metrics, preds, strict=True):
        metric.update(scores, target, indexes=torch.arange(300) // 10)
    wanted = inference.best_of_metrics(dict(zip(["e0", "e1", "e2"], metrics, strict=True)), confidence_level=0.8)
    assert found["low"] == pytest.approx(float(wanted.low))
    assert found["confidence_level"] == 0.8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*BEST, "--interval"), "--interval has no meaning with --best"),
        ((*BEST, "--bins", "9"), "--bins has no meaning with --best"),
        ((*BEST, "--baseline", "x"), "--baseline must be one of --preds"),
        (("--preds", "e0", "--target", "label", "--best"), "--best needs several different columns"),
        (("--preds", "e0", "e0", "--target", "label", "--best"), "--best needs several different columns"),
        (("--preds", "e0", "e1", "--target", "label", "label", "--best"), "--target takes one column with --best"),
        ((*BEST, "-m", "ap@5"), "--best is for ap of one ranking, and for means over --group, got ap@5"),
    ],
)
def test_options_that_the_best_excludes(systems_file, words, message, capsys):
    assert main.main(["score", systems_file[0], *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--prevalence", 0.01), ("--sampling-weights", "inverse_rate")])
def test_classes_of_another_sample_have_intervals(option, value, paths, tensors, score):
    words = ("--preds", "score", "other", "--target", "label", "inverse", option, value, "--interval", "--per-class")
    found = measures(score(paths["csv"], *words, "--json"))["map"]
    for name, target in (("score", "label"), ("other", "inverse")):
        own = {option[2:].replace("-", "_"): tensors.get(value, value)}
        wanted = average_precision_interval(tensors[name], tensors[target], **own)
        assert found["classes"][name] == pytest.approx(
            {"value": float(wanted.estimate), "low": float(wanted.low), "high": float(wanted.high)}
        )
    none = f"no interval: the mean over classes has none with {option}; each class has one (--per-class)"
    assert found["reasons"][1] == none
    assert found["reasons"][0].startswith(f"no chance level: {option} cannot be combined with a chance level")
    gate = score(paths["csv"], *words[:8], "--fail-below", "ap=0.1", status=2).err
    assert "--fail-below map has no interval: the mean over classes has none with" in gate
    interpolated = measures(score(paths["csv"], *BINARY, *words[6:9], "-m", "11-point", "--json"))["11-point"]
    assert f"no interval: interpolated ap has none with {option}" in interpolated["reasons"]


def test_messages_have_no_arguments_of_python(paths, score, tmp_path):
    words = (*BINARY, "--prevalence", "0.01", "--baseline", "other")
    (reason,) = measures(score(paths["csv"], *words, "--json"))["ap"]["reasons"]
    assert reason == "no comparison: --prevalence cannot be combined with a comparison"
    gate = score(paths["csv"], *words, "--fail-if-worse", status=2).err
    assert gate == "torch-ap: --prevalence cannot be combined with a comparison\n"
    clustered = score(paths["csv"], *BINARY, "-m", "11-point", "--cluster", "query", "--interval", "--json")
    reason = measures(clustered)["11-point"]["reasons"][-1]
    assert reason == "no interval: interpolated ap cannot be combined with an interval with --cluster"
    hard = tmp_path / "hard.csv"
    hard.write_text("score,label\n" + "1,1\n0,1\n0,0\n1,0\n" * 500)
    assert score(hard, *BINARY).err.endswith("pass scores (probabilities or logits) instead of class predictions.\n")


def test_another_prevalence_and_sampling_weights(paths, score, tensors):
    preds, target = tensors["score"], tensors["label"]
    found = measures(score(paths["csv"], *BINARY, "--prevalence", "0.01", "--interval", "--json"))["ap"]
    wanted = average_precision_interval(preds, target, prevalence=0.01)
    assert found["value"] == pytest.approx(float(wanted.estimate))
    assert (found["low"], found["high"]) == pytest.approx((float(wanted.low), float(wanted.high)))
    assert "above the median hit" in " ".join(found["reasons"])
    options = ("--sampling-weights", "inverse_rate", "--interval", "--json")
    found = measures(score(paths["csv"], *BINARY, *options))["ap"]
    wanted = average_precision_interval(preds, target, sampling_weights=tensors["inverse_rate"])
    assert (found["low"], found["high"]) == pytest.approx((float(wanted.low), float(wanted.high)))
    assert found["reasons"][0] == (
        "no chance level: --sampling-weights cannot be combined with a chance level, whose formula counts rows"
    )
    (reason,) = measures(score(paths["csv"], *BINARY, *options[:2], "--baseline", "other", "--json"))["ap"]["reasons"]
    assert reason.startswith("no comparison: --sampling-weights cannot be combined with a comparison")
    for further, message in (
        (("--sampling-weights", "weight", "--weights", "weight"), "--sampling-weights has no meaning with --weights"),
        (("--sampling-weights", "rate"), "column 'rate' must be finite and at least 1, as 1 / probability, got 0.25"),
        (("--prevalence", "2"), "must be a number between 0 and 1"),
        (("--prevalence", "0.1", "-m", "P@3"), "--prevalence is for ap of all rows, not for P@3"),
        (("--prevalence", "0.1", "--ties", "expected"), "--prevalence requires --ties grouped, got expected"),
        (("--prevalence", "0.1", "--cluster", "query"), "--prevalence cannot be combined with --cluster"),
        (("--prevalence", "0.1", "--group", "query"), "--prevalence has no meaning with --group"),
    ):
        with pytest.raises(SystemExit) if "number" in message else contextlib.nullcontext():
            assert message in score(paths["csv"], *BINARY, *further, status=2).err
