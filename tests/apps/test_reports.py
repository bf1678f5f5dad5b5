"""Reports: the page shows the metric's numbers, its warnings are true, and it works in a browser."""

import html
import json
import re
import time
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

import matplotlib as mpl
import pytest
import torch
from matplotlib import pyplot

from tests.support.each import each
from tests.support.every_metric import METRICS, one_each
from torch_ap import (
    BinaryAveragePrecision,
    Convention,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
    RetrievalMAP,
    RetrievalMRR,
    report,
)
from torch_ap.classification.analyses import EvaluatedItems
from torch_ap.cli import main, progress
from torch_ap.cli.detectors import system_names
from torch_ap.core.items.settings import average_precision_settings
from torch_ap.reports import cautions
from torch_ap.retrieval import RetrievalAUROC, RetrievalNormalizedDCG
from torch_ap.retrieval.inputs import QueryInputs
from torch_ap.retrieval.measures.gain import NormalizedDCG
from torch_ap.retrieval.metrics.analyses import EvaluatedQueries
from torch_ap.retrieval.settings import MeasureSettings

ROUNDED = 6e-4  # for three digits
SCRIPT = "<script>alert(1)</script>"


def updated(row, seed=0):
    metric = row.new()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for batch in row.batches(2, seed=seed):
            metric.update(**batch)
    return metric


def ranking(size=300, share=0.3, shift=1.5, **settings):
    generator = torch.Generator().manual_seed(1)
    target = (torch.rand(size, generator=generator) < share).long()
    metric = BinaryAveragePrecision(**settings)
    metric.update(torch.randn(size, generator=generator, dtype=torch.float64) + shift * target, target)
    return metric


def labels(classes=3, size=120, **settings):
    generator = torch.Generator().manual_seed(2)
    target = (torch.rand(size, classes, generator=generator) < 0.3).long()
    metric = MultilabelAveragePrecision(classes, **settings)
    metric.update(torch.randn(size, classes, generator=generator) + target, target)
    return metric


def queries(count=40, depth=12, shift=1.0, kind=RetrievalMAP, **settings):
    generator = torch.Generator().manual_seed(3)
    target = (torch.rand(count, depth, generator=generator) < 0.3).long()
    target[:, 0] = 1
    metric = kind(**settings)
    metric.update(torch.randn(count, depth, generator=generator) + shift * target, target)
    return metric


def rows_of(text):
    """Return the cells of every line of a table in Markdown."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]


def number_in(page, kind):
    return float(re.search(rf'<data class="{kind}" value="([^"]+)"', page)[1])


def warned(text):
    return re.findall(r"^- (.*)$", text.split("## Warnings")[1].split("## ")[0], re.M) if "## Warnings" in text else []


def reported(rows):
    """Return the rows of metrics with a report; curves and lists of k have none."""
    return [
        x
        for x in rows
        if hasattr(METRICS[x].call, "summary") and not isinstance(METRICS[x].settings.get("top_k"), list)
    ]


@each("name", reported(METRICS))
def test_every_metric_has_a_report(name, tmp_path):
    metric, other = updated(METRICS[name]), updated(METRICS[name])
    path = tmp_path / "x.md"
    assert report(metric, path, other=other, n_resamples=10) == path
    text = path.read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        value = metric.compute()
    value = float((value["map"] if isinstance(value, dict) else value).double().nanmean())
    assert f"{value:.4f}**" in text.splitlines()[2]
    assert "## Compared with the other" in text
    assert "+0.000" in text


@each("name", reported(one_each(METRICS)))
def test_every_metric_has_a_page(name, tmp_path):
    page = report(updated(METRICS[name]), tmp_path / "x.html", n_resamples=10).read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg ") >= 1
    # the page loads nothing; names of XML vocabularies are not loaded
    assert not re.search(r'(src|href)="(?!data:,"|#)', page)
    assert not re.search(r"@import|url\((?!#)", page)
    twice = [x for x, count in Counter(re.findall(r'\sid="([^"]+)"', page)).items() if count > 1]
    assert not twice
    assert {*re.findall(r'(?:url\(|href=")#([^)"]+)', page)} <= {*re.findall(r'\sid="([^"]+)"', page)}
    assert "#010203" not in page


def test_the_numbers_are_the_metrics(tmp_path):
    metric = ranking()
    page = report(metric, tmp_path / "x.html").read_text()
    found = metric.confidence_interval()
    assert number_in(page, "value") == float(metric.compute())
    assert number_in(page, "low") == float(found.low)
    assert number_in(page, "high") == float(found.high)
    assert number_in(page, "chance") == float(metric.chance_level())
    point = metric.curve().operating_point(precision=0.9)
    text = report(metric, tmp_path / "x.md", confidence_level=0.8).read_text()
    (row,) = [x for x in rows_of(text) if x[0] == "precision ≥ 0.9"]
    assert row[1] == f"{float(point.threshold):.4g}"
    assert row[3].startswith(f"{float(point.recall):.3f} (")
    assert f"80% interval {float(metric.confidence_interval(0.8).low):.4f}" in text


def test_the_page_lists_suspicious_targets(tmp_path):
    metric, names = labels(), ["cat", "dog|x", SCRIPT]
    first = metric.suspicious_labels(class_names=names).rows()[0]
    page = report(metric, tmp_path / "x.html", class_names=names).read_text()
    part = page.split("<h2>Labels that may be wrong</h2>")[1].split("</section>")[0]
    assert f'data-value="{first["change"]:.8g}">{first["change"]:+.4f}</td>' in part
    assert part.count("<tr>") == 1 + 20
    assert SCRIPT not in part
    named = report(metric, tmp_path / "n.md", class_names=names, item_names={first["item"]: "<the first>"}).read_text()
    assert any(line.startswith(f"| {first['kind']} ") and "the first" in line for line in named.splitlines())
    weighted = BinaryAveragePrecision()
    weighted.update(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]), torch.tensor([1.0, 2, 3]))
    text = report(weighted, tmp_path / "y.md").read_text().split("## Labels that may be wrong")[1].strip()
    assert text.startswith(r"Not available: \`weights\` must be None for suspicious labels")
    with pytest.raises(ValueError, match="suspicious_labels"):
        report(metric, tmp_path / "x.html", suspicious_labels=metric.suspicious_labels())


def test_few_groups_warn_once_for_two_systems():
    words = "classes: 2 groups with hits, but coverage is measured from 10 on: the interval may be too narrow"
    texts = [f"`groups`: 4 of 7 {words}", "`target`: 1 of 2", f"`groups`: 5 of 6 {words}", "`target`: 2 of 2"]
    assert cautions.unique_reasons(texts) == [f"4 of 7 {words}.", "`target`: 1 of 2", "`target`: 2 of 2"]


def test_pictures_have_no_more_digits_than_a_screen_shows(tmp_path):
    page = report(ranking(), tmp_path / "x.html").read_text()
    paths = "".join(re.findall(r'<path d="M[^"]*"', page))
    assert re.search(r"\.\d\d", paths)
    assert not re.search(r"\.\d{3}", paths)


def test_suspicious_targets_without_an_average_are_those_of_the_mean(tmp_path):
    pages = [report(labels(average=x), tmp_path / f"{x}.md").read_text() for x in ("macro", "none")]
    mean, none = (x.split("## Labels that may be wrong")[1].split("## ")[0] for x in pages)
    assert none.split("`Multi")[0] == mean.split("`Multi")[0]
    assert len(rows_of(none)) == 1 + 20


def test_classes_of_a_report_equal_the_metric(tmp_path):
    metric, names = labels(), ["cat", "dog|x", SCRIPT]
    each = labels(average="none")
    text = report(metric, tmp_path / "x.md", class_names=names).read_text()
    found, value = each.confidence_interval(), each.compute()
    rows = {row[0]: row for row in rows_of(text.split("## Labels")[0])}
    assert r"dog\|x" in text
    assert SCRIPT not in text
    order = sorted(range(3), key=lambda place: value[place])
    assert [row[0] for row in rows.values()][-3:] == [re.sub(r"([|<>])", r"\\\1", names[place]) for place in order]
    for place, row in zip(order, list(rows.values())[-3:], strict=True):
        numbers = (value, found.low, found.high, each.chance_level())
        assert [row[1], *row[3:6]] == [f"{float(x[place]):.3f}" for x in numbers]
        assert row[2] == f"{float((1 - value[place]) / (1 - value).sum()):.1%}"


def test_a_comparison_equals_the_metrics(tmp_path):
    one, other = queries(shift=1.5), queries(shift=0.5)
    found = one.compare(other)
    page = report(one, tmp_path / "x.html", other=other, system_names=("new & good", "old")).read_text()
    assert number_in(page, "other") == float(other.compute())
    assert f"{float(found.difference):+.3f}" in page
    assert f"Ahead: new &amp; good, by {abs(float(found.difference)):.3f}" in page
    ids, values = one.per_query()
    gaps = dict(zip(ids.tolist(), (values - other.per_query()[1]).tolist(), strict=True))
    rows = dict(re.findall(r'<th scope="row"[^>]*>(\d+)</th>.*?([+-]\d\.\d{3})</td>', page))
    assert len(rows) == 40
    assert all(float(gap) == pytest.approx(gaps[int(name)], abs=ROUNDED) for name, gap in rows.items())


SCORES = torch.linspace(-3, 3, 400, dtype=torch.float64)
TARGET = (torch.arange(400) % 4 == 0).long()


@pytest.mark.parametrize(
    ("scores", "target", "expected"),
    [
        (SCORES, TARGET, "The interval contains the chance level"),
        ((SCORES * 2).round(), TARGET, r"Tied scores: 100% .* between 0\.\d+ and 0\.\d+"),
        (SCORES.clamp(max=1), TARGET, r"Saturated scores: 134 of 400 \(33.5%\) are exactly 1, the highest"),
        (SCORES.clamp(min=0), TARGET, r"Saturated scores: 200 of 400 \(50%\) are exactly 0, the lowest"),
        (SCORES, (torch.arange(400) % 90 == 0).long(), "Few positives: 5"),
        (torch.zeros(400), TARGET, "All 400 scores are equal"),
    ],
)
def test_warnings_of_a_ranking(scores, target, expected, tmp_path):
    metric = BinaryAveragePrecision()
    metric.update(scores, target)
    said = warned(report(metric, tmp_path / "x.md").read_text())
    assert any(re.search(expected, x.replace("\\", "")) for x in said), said


def test_scores_of_the_other_class_cause_a_warning(tmp_path):
    target, scores = ranking().target[0], -ranking().preds[0]
    metric = BinaryAveragePrecision()
    metric.update(scores, target)
    chance = f"{float(metric.chance_level()):.3f}"
    said = warned(report(metric, tmp_path / "x.md").read_text())
    assert f"The interval is below the chance level, {chance}: is a higher score one for the positive class?" in said


@pytest.mark.parametrize(
    ("run", "baseline", "names"),
    [
        ("a/new.json", "b/old.json", ("new.json", "old.json")),
        ("a/x.json", "b/x.json", ("a/x.json", "b/x.json")),
        ("x.json", "x.json", ("x.json", "x.json (baseline)")),
        ("a/x.json", None, ("x.json", "x.json (baseline)")),
        ("new", "old", ("new", "old")),
        ("-", "b/old.csv", ("standard input", "old.csv")),
    ],
)
def test_systems_are_called_by_their_file(run, baseline, names):
    assert system_names(run, baseline) == names


def test_valid_data_cause_no_warnings(tmp_path):
    assert not warned(report(ranking(), tmp_path / "x.md").read_text())
    assert not warned(report(queries(), tmp_path / "x.md").read_text())


def test_the_range_of_a_warning_equals_the_orders(tmp_path):
    target, scores = ranking().target[0], ranking().preds[0].round()
    ends = []
    for ties in ("pessimistic", "optimistic"):
        metric = BinaryAveragePrecision(ties=ties)
        metric.update(scores, target)
        ends.append(f"{float(metric.compute()):.3f}")
    metric = BinaryAveragePrecision()
    metric.update(scores, target)
    (said,) = [x for x in warned(report(metric, tmp_path / "x.md").read_text()) if "Tied" in x]
    assert re.findall(r"0\.\d{3}", said) == ends


@pytest.mark.parametrize("kind", [BinaryAveragePrecision, RetrievalMAP, RetrievalAUROC])
def test_ties_without_extreme_orders_have_no_range(kind, tmp_path):
    """AP of the found hits and AUROC in the top k can be outside the values with hits first and hits last."""
    scores, target = (SCORES * 2).round(), TARGET
    batch = (scores, target) if kind is BinaryAveragePrecision else (scores.reshape(40, 10), target.reshape(40, 10))
    has_range = []
    for settings in ({"top_k": 3}, {}):
        metric = kind(**settings | ({} if kind is RetrievalAUROC else {"denominator": "found"}))
        metric.update(*batch)
        (said,) = [x for x in warned(report(metric, tmp_path / "x.md").read_text()) if "Tied" in x]
        has_range.append("between" in said)
    assert has_range == [False, True]


def test_warnings_of_bins_classes_and_queries(tmp_path):
    binned = ranking(thresholds=4, normalization="sigmoid")
    assert any("Bins too wide: 5 bins" in x for x in warned(report(binned, tmp_path / "x.md").read_text()))
    metric = MulticlassAveragePrecision(4, normalization="none")
    metric.update(torch.randn(90, 4, generator=torch.Generator().manual_seed(0)), torch.arange(90) % 3 % 2)
    said = warned(report(metric, tmp_path / "x.md", class_names=["a", "b", "c", "d"]).read_text())
    assert any("Without positives: 2 classes (c, d), of 4" in x for x in said)
    few = queries(count=5)
    few.update(torch.rand(1, 12), torch.zeros(1, 12, dtype=torch.int64))
    said = warned(report(few, tmp_path / "x.md").read_text())
    assert any("Few queries: 6" in x for x in said)
    assert any("Without relevant items: 1 of 6 queries, which count 0" in x for x in said)


@pytest.mark.parametrize("form", ["md", "html"])
def test_pages_of_very_many_queries_are_bounded_with_a_note(form, tmp_path):
    path = report(queries(10_000, 6), tmp_path / f"x.{form}")
    text = path.read_text()
    assert "The first 500 and the last 500 of 10,000 queries; the 9,000 between them are left out" in text
    assert path.stat().st_size < 400_000


def test_a_page_of_a_thousand_classes_is_complete_and_bounded(tmp_path):
    path = report(labels(1000, 60), tmp_path / "x.html")
    assert path.stat().st_size < 3_000_000
    assert "left out" not in path.read_text()


def test_names_are_texts(tmp_path):
    other = labels(size=121)
    one = labels(size=121)
    page = report(
        one,
        tmp_path / "x.html",
        other=other,
        class_names=[SCRIPT, "$x$", "&lt;"],
        title=SCRIPT,
        system_names=("<i>", "b"),
    ).read_text()
    assert SCRIPT not in page
    assert "<i>" not in page
    assert page.count(html.escape(SCRIPT)) >= 4  # title, heading, table, picture
    assert "&amp;lt;" in page
    page = report(queries(3), tmp_path / "x.html", query_names=["<a>", "b", "c"], title="t").read_text()
    assert '<th scope="row" class="text">&lt;a&gt;</th>' in page


def test_invalid_input_raises_before_writing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metric = ranking()
    for path, kind, match in (
        (Path("x.pdf"), ValueError, r"`path` .*\.html.*x\.pdf"),
        (tmp_path / "none" / "x.html", FileNotFoundError, "none"),
        (tmp_path / "folder.md", IsADirectoryError, r"folder\.md"),
    ):
        (tmp_path / "folder.md").mkdir(exist_ok=True)
        with pytest.raises(kind, match=match):
            report(metric, path)
    path = tmp_path / "x.html"
    for arguments, kind, match in (
        ({"metric": BinaryAveragePrecision()}, ValueError, "`metric` must have been updated"),
        ({"metric": object()}, TypeError, "`metric` must be a metric of torch_ap.*object"),
        ({"metric": []}, ValueError, "`metrics` must contain at least two metrics, got 0"),
        ({"metric": [ranking(), "x"]}, TypeError, "`metric` must be a metric of torch_ap.*str"),
        ({"other": queries()}, TypeError, "`other` must be a BinaryAveragePrecision.*RetrievalMAP"),
        ({"other": BinaryAveragePrecision()}, ValueError, "`other` must have been updated"),
        ({"other": ranking(ties="optimistic")}, ValueError, "`other` must have the same settings"),
        ({"other": ranking(share=0.5)}, ValueError, "`other` must have been updated with the same targets"),
        ({"class_names": ["a"]}, ValueError, "`class_names`.*one ranking"),
        ({"query_names": ["a"]}, ValueError, "`query_names` must be None"),
        ({"item_names": 3}, ValueError, "`item_names` must be a list.*3"),
        ({"metric": queries(), "item_names": ["a"]}, ValueError, "`item_names` must be None"),
        ({"metric": queries(), "class_names": ["a"]}, ValueError, "`class_names` must be None"),
        ({"metric": queries(), "query_names": 3}, ValueError, "`query_names` must be a list.*3"),
        ({"metric": labels(), "class_names": ["a"]}, ValueError, "`class_names`.*3 different names"),
        ({"confidence_level": 1}, ValueError, "`confidence_level`"),
        ({"system_names": ("a", "a")}, ValueError, "`system_names` must be two different names"),
        ({"title": 3}, TypeError, "`title`"),
    ):
        with pytest.raises(kind, match=match):
            report(**{"metric": metric, "path": path, **arguments})
    assert not path.exists()


def test_a_report_changes_no_state(tmp_path):
    settings = dict(mpl.rcParams)
    metric = ranking()
    before = metric.compute()
    page = report(metric, tmp_path / "x.html").read_text()
    assert dict(mpl.rcParams) == settings
    assert not pyplot.get_fignums()
    assert metric.compute() is before
    with mpl.rc_context({"text.color": "red", "axes.facecolor": "black"}):
        assert report(metric, tmp_path / "x.html").read_text() == page


def on_a_rank(rank, folder):
    """Write the same page on both ranks, each with every second batch; only the first one writes."""
    for name in ("binary", "multilabel", "query_map", "coco"):
        metric = METRICS[name].new()
        for place, batch in enumerate(METRICS[name].batches(4)):
            if place % 2 == rank:
                metric.update(**batch)
        report(metric, f"{folder}/{rank}-{name}.md", n_resamples=10)


def test_on_two_ranks_the_first_writes_the_data_of_both(ranks, tmp_path):
    ranks(on_a_rank, str(tmp_path))
    for name in ("binary", "multilabel", "query_map", "coco"):
        metric = METRICS[name].new()
        batches = METRICS[name].batches(4)
        for batch in (*batches[::2], *batches[1::2]):
            metric.update(**batch)
        whole = report(metric, tmp_path / "whole.md", n_resamples=10).read_text()
        assert (tmp_path / f"0-{name}.md").read_text() == whole
        assert not (tmp_path / f"1-{name}.md").exists()


def test_a_report_of_undefined_values(tmp_path):
    metric = BinaryAveragePrecision(empty_target_action="nan")
    metric.update(torch.rand(5), torch.zeros(5, dtype=torch.int64))
    assert "nan" in report(metric, tmp_path / "x.html").read_text()
    metric = RetrievalMRR(empty_target_action="skip")
    metric.update(torch.rand(1, 5), torch.zeros(1, 5, dtype=torch.int64))
    assert "nan" in report(metric, tmp_path / "x.html").read_text()


def undefined_metrics():
    """Return metrics whose items do not count, or have no negatives for a prevalence, with the reason on the page."""
    two, positives = torch.tensor([0.1, 0.2]), torch.tensor([1, 1])
    ignored, weightless = BinaryAveragePrecision(ignore_index=-1), BinaryAveragePrecision()
    ignored.update(two, -positives)
    weightless.update(two, positives, torch.zeros(2))
    none = "No items count in the ranking (none, all ignored, or of weight 0)"
    prevalent, classes = BinaryAveragePrecision(prevalence=0.1), MulticlassAveragePrecision(2, prevalence=0.1)
    labels = MultilabelAveragePrecision(2, prevalence=0.1)
    prevalent.update(two, positives)
    classes.update(torch.stack([1 - two, two], 1), 0 * positives)
    labels.update(torch.stack([1 - two, two], 1), torch.tensor([[1, 0], [1, 1]]))
    return {
        "ignored": (ignored, none),
        "weightless": (weightless, none),
        "prevalence": (prevalent, "Without negatives."),
        "classes": (classes, "Without negatives: class 0."),
        "labels": (labels, "Without negatives: label 0."),
    }


@pytest.mark.parametrize("form", ["md", "html"])
@pytest.mark.parametrize("name", ["ignored", "weightless", "prevalence", "classes", "labels"])
def test_a_report_of_undefined_rankings_has_the_reason(name, form, tmp_path):
    metric, reason = undefined_metrics()[name]
    page = report(metric, tmp_path / f"x.{form}").read_text()
    assert reason in page
    assert "nan" in page


# -- the command


def test_the_command_writes_a_report_of_rows_without_weight(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("s,y,w\n0.1,1,0\n0.2,0,0\n")
    words = ["t.csv", "--preds", "s", "--target", "y", "--weights", "w", "--report", "x.md"]
    assert main.main(["score", *words]) == 0
    assert "No items count in the ranking" in Path("x.md").read_text()


@pytest.fixture
def table(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    metric, scores = ranking(), ranking().preds[0]
    rows = zip(scores.tolist(), (-scores).tolist(), metric.target[0].tolist(), strict=True)
    text = "".join(f"q{i % 7},{new},{old},{hit}\n" for i, (new, old, hit) in enumerate(rows))
    (tmp_path / "t.csv").write_text(f"query,new,old,hit\n{text}")
    return metric


def run(*arguments, status=0):
    assert main.main(["report", "t.csv", "--target", "hit", *arguments]) == status


def test_the_command_writes_the_same_report(table, tmp_path, capsys):
    run("--preds", "new", "-o", "x.html")
    assert capsys.readouterr().out == "x.html\n"
    assert number_in((tmp_path / "x.html").read_text(), "value") == float(table.compute())
    run("--preds", "new", "--baseline", "old", "--group", "query", "-m", "map@3", "-o", "x.md", "--title", "My page")
    text = (tmp_path / "x.md").read_text()
    assert text.startswith("# My page\n\n**mean AP@3 ")
    assert "## Compared with old" in text
    assert {row[0] for row in rows_of(text)} >= {f"q{i}" for i in range(7)}
    run("--preds", "new", "old", "--normalization", "none", "-o", "x.md")
    assert {"new", "old"} <= {row[0] for row in rows_of((tmp_path / "x.md").read_text())}
    run("--preds", "new", "--group", "query", "-m", "recip_rank")
    assert "mean MRR" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("-o", "x.pdf"), r"-o/--output: must end in \.html.*x\.pdf"),
        (("-o", "none/x.md"), "none: no such folder"),
        (("-m", "P@3"), "of one ranking is of ap.*P@3"),
        (("-m", "app"), "unknown measure 'app'; did you mean"),
    ],
)
@pytest.mark.usefixtures("table")
def test_errors_of_the_command(arguments, match, capsys):
    with suppress(SystemExit):  # the parser exits with the same status
        run("--preds", "new", *arguments, status=2)
    assert re.search(match, capsys.readouterr().err)


def test_the_commands_of_detections_write_reports_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder, line in (("truth", "cat 1 1 9 9"), ("found", "cat 0.5 1 1 9 9"), ("older", "cat 0.5 1 1 9 30")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.txt").write_text(f"{line}\n")
    few = ["--n-resamples", "10"]
    assert main.main(["voc", "truth", "found", "--compare", "older", "--report", "x.md", *few]) == 0
    entry = {"image_id": 1, "category_id": 7, "bbox": [1, 1, 8, 8]}
    truth = {"images": [{"id": 1}], "categories": [{"id": 7, "name": "cat"}], "annotations": [entry]}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps([entry | {"score": 0.5}]))
    assert main.main(["coco", "truth.json", "found.json", "--report", "y.md", *few]) == 0
    for name in ("x.md", "y.md"):
        text = (tmp_path / name).read_text()
        assert "**mean AP 1.0000**" in text
        assert [row[0] for row in rows_of(text)][-2:] == ["image", "one" if name == "x.md" else "1"]
    assert "## Compared with older" in (tmp_path / "x.md").read_text()
    assert main.main(["coco", "truth.json", "found.json", "--report", "none/y.md"]) == 2
    assert "none: no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("patience", [0.0, 1e6])
def test_long_work_is_announced_on_a_terminal(patience, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    with progress.announced("a\x1b.html"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ("torch-ap: writing a\\x1b.html ...\n" if not patience else "")


def evaluations():
    """Yield a metric, and the evaluation of the same data without a metric, as the commands make it."""
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(90, 3, generator=generator, dtype=torch.float64)
    classes, indexes = torch.randint(3, (90,), generator=generator), torch.arange(90) % 12
    relevant = (classes == 0).long()
    for columns, target, metric in (
        ((None, None), relevant, BinaryAveragePrecision(ties="expected", empty_target_action="nan")),
        (("num_classes", 3), classes, MulticlassAveragePrecision(3, normalization="softmax")),
        (("num_labels", 3), torch.eye(3).long()[classes], MultilabelAveragePrecision(3)),
    ):
        preds = scores if columns[0] else scores[:, 0]
        metric.update(preds, target)
        values = {x: getattr(metric, x) for x in ("convention", "empty_target_action")}
        yield (
            metric,
            EvaluatedItems(
                average_precision_settings(columns, metric.average, None, None, True, metric.normalization, **values),
                preds,
                target,
            ),
        )
    for metric, measure in (
        (RetrievalMAP(top_k=5, aggregation="median"), Convention(top_k=5, ties="expected")),
        (RetrievalNormalizedDCG(ties="grouped"), NormalizedDCG(ties="grouped")),
    ):
        metric.update(scores[:, 0], classes, indexes=indexes)
        inputs = QueryInputs(graded=measure.graded)
        settings = MeasureSettings(measure, inputs, aggregation=metric.aggregation)
        yield metric, EvaluatedQueries(settings, inputs.validate(scores[:, 0], classes, indexes))


def test_the_pages_of_metrics_and_of_evaluations_are_equal(tmp_path):
    for metric, evaluation in evaluations():
        assert repr(evaluation) == repr(metric)
        pages = [report(x, tmp_path / "x.md").read_text() for x in (metric, evaluation)]
        assert pages[0] == pages[1]
        assert torch.equal(evaluation.compute(), metric.compute())


@pytest.mark.parametrize(
    ("documents", "convention", "expected"),
    [
        (1, "trec10", None),
        (3, "trec10", "only the names of the documents rank them"),
        (3, "grouped", "nothing is ranked"),
    ],
)
def test_equal_scores_of_a_run(documents, convention, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = [(q, d) for q in range(40) for d in range(documents)]
    (tmp_path / "qrels").write_text("".join(f"{q} 0 d{d} {int(d == q % documents)}\n" for q, d in pairs))
    (tmp_path / "run").write_text("".join(f"{q} Q0 d{d} 1 0.5 r\n" for q, d in pairs))
    assert main.main(["trec", "qrels", "run", "-m", "map", "--convention", convention, "--report", "x.md"]) == 0
    said = [x for x in warned((tmp_path / "x.md").read_text()) if "scores are equal" in x]
    assert said == ([] if expected is None else [f"All {40 * documents} scores are equal: {expected}."])
