"""Training runs: the plot of the epochs, and the report with the best epoch."""

import json
import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from tests.support.tolerances import LAST_BITS
from torch_ap import BestOf, BinaryAveragePrecision, MeanAveragePrecision, RetrievalMAP, inference, plot, report
from torch_ap.cli import main

SHARES = 1e-5  # BestOf stores the contributions of the items in float32


def scores_of_epochs(count=4, items=80):
    generator = torch.Generator().manual_seed(3)
    target = (torch.rand(items, generator=generator) < 0.3).long()
    noise = torch.randn(items, generator=generator)
    return [noise + 0.5 * torch.randn(items, generator=generator) + (1 + i % 3) * target for i in range(count)], target


def metrics_of_epochs(count=4):
    preds, target = scores_of_epochs(count)
    metrics = [BinaryAveragePrecision() for _ in preds]
    for metric, scores in zip(metrics, preds, strict=True):
        metric.update(scores, target)
    return metrics


def best_of_wrapper(count=4):
    preds, target = scores_of_epochs(count)
    metric = BestOf(BinaryAveragePrecision())
    for scores in preds:
        metric.update(scores, target)
        metric.compute()
        metric.reset()
    return metric


def detectors():
    generator = torch.Generator().manual_seed(0)
    metrics = [MeanAveragePrecision() for _ in range(3)]
    for _ in range(12):
        corner = 300 * torch.rand(3, 2, generator=generator)
        boxes, labels = torch.cat([corner, corner + 60], 1), torch.zeros(3, dtype=torch.int64)
        for metric, noise in zip(metrics, (20.0, 5.0, 10.0), strict=True):
            found = boxes + noise * torch.randn(3, 4, generator=generator).abs() * torch.tensor([-1, -1, 1, 1])
            preds = {"boxes": found, "scores": torch.rand(3, generator=generator), "labels": labels}
            metric.update([preds], [{"boxes": boxes, "labels": labels}])
    return metrics


def test_the_plot_shows_values_simultaneous_intervals_and_the_corrected_value():
    best = inference.best_of_metrics({f"step {100 * i}": x for i, x in enumerate(metrics_of_epochs())})
    for source in (best, best_of_wrapper()):
        ax = plot.epochs(source, ax=Figure().subplots())
        assert np.allclose(ax.lines[0].get_ydata(), best.values, rtol=0, atol=LAST_BITS)
        (shade, *_) = ax.collections
        low, high = (shade.get_paths()[0].vertices[:, 1].min(), shade.get_paths()[0].vertices[:, 1].max())
        assert np.allclose(
            [low, high], [best.simultaneous_low.min(), best.simultaneous_high.max()], rtol=0, atol=SHARES
        )
        (container,) = ax.containers
        assert np.allclose(container.lines[0].get_xydata(), [[best.best, best.corrected]], rtol=0, atol=SHARES)
        (ends,) = container.lines[2][0].get_segments()
        assert np.allclose(ends[:, 1], [best.low, best.high], rtol=0, atol=SHARES)
    assert [x.get_text() for x in plot.epochs(best, ax=Figure().subplots()).get_xticklabels()] == best.names


def test_the_plot_of_perfect_epochs_has_no_interval():
    target = torch.tensor([1, 1, 1, 0, 0, 0])
    ax = plot.epochs(inference.best_of(torch.stack([target, target]).double(), target), ax=Figure().subplots())
    assert [x.get_text() for x in ax.get_legend().get_texts()] == ["value", "best, 0: 1.000"]


def test_the_plot_of_many_epochs_names_some():
    ax = plot.epochs(inference.best_of_metrics(metrics_of_epochs(40)), ax=Figure().subplots())
    names = [x.get_text() for x in ax.get_xticklabels()]
    assert len(names) == 12
    assert (names[0], names[-1]) == ("0", "39")
    with pytest.raises(TypeError, match="best"):
        plot.epochs([0.5, 0.6])
    with pytest.raises(ValueError, match="at least two"):
        plot.epochs(BestOf(BinaryAveragePrecision()))


@pytest.mark.parametrize("kind", ["wrapper", "list", "dict"])
def test_the_report_has_all_epochs_and_the_corrected_value(kind, tmp_path):
    metrics = metrics_of_epochs()
    run = {"wrapper": best_of_wrapper(), "list": metrics, "dict": {f"step {i}": x for i, x in enumerate(metrics)}}[kind]
    best = inference.best_of_metrics(metrics, confidence_level=0.8)
    lines = report(run, tmp_path / "run.md", confidence_level=0.8).read_text().splitlines()
    name = f"{'step' if kind == 'dict' else 'epoch'} {best.best}"
    assert lines[2] == (
        f"**AP of {name} {best.corrected:.4f}**; 80% interval {best.low:.4f} to {best.high:.4f}; "
        f"as measured {best.value:.4f}"
    )
    rows = [line.strip("| ").split(" | ") for line in lines[lines.index("## Epochs") :] if line.startswith("| ")][1:]
    order = best.values.argsort(descending=True, stable=True).tolist()
    assert [row[0] for row in rows] == [f"{'step ' if kind == 'dict' else ''}{i}" for i in order]
    columns = (best.values, best.simultaneous_low, best.simultaneous_high)
    assert [row[1:4] for row in rows] == [[f"{float(x[i]):.3f}" for x in columns] for i in order]
    page = report(run, tmp_path / "run.html", confidence_level=0.8).read_text()
    chart, *_ = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page)[1])
    assert chart["series"][0]["y"] == best.values.tolist()


def test_reports_of_queries_and_detectors_name_their_measure(tmp_path):
    queries = [RetrievalMAP(top_k=2) for _ in range(3)]
    relevant = (torch.rand(9, 4, generator=torch.Generator().manual_seed(0)) < 0.5).long()
    for i, metric in enumerate(queries):
        metric.update(torch.rand(9, 4, generator=torch.Generator().manual_seed(i)) + i * relevant / 9, relevant)
    for metrics, name in ((queries, "AP@2"), (detectors(), "mean AP")):
        best = inference.best_of_metrics(metrics, n_resamples=50)
        head = report(metrics, tmp_path / "run.md", n_resamples=50).read_text().splitlines()[2]
        assert head.startswith(f"**{name} of epoch {best.best} {best.corrected:.4f}**; 95% interval {best.low:.4f}")


def test_warnings_and_reasons(tmp_path):
    target = torch.tensor([1, 1, 1, 0, 0, 0])
    perfect, worse = BinaryAveragePrecision(), BinaryAveragePrecision()
    worse.update(torch.arange(6.0), target)
    perfect.update(target.double(), target)
    text = report([worse, perfect], tmp_path / "run.md").read_text()
    assert "**AP of epoch 1 1.0000**\n" in text
    assert "No interval: the best value is the largest" in text
    assert "The last epoch is the best" in text


@pytest.mark.parametrize(
    ("run", "error", "names"),
    [
        ("run", TypeError, "metric"),
        ([], ValueError, "metrics"),
        ([1, 2], TypeError, "metric"),
        ([BinaryAveragePrecision()] * 2, ValueError, "metric"),
        (BestOf(BinaryAveragePrecision()), ValueError, "at least two"),
        ({"a": metrics_of_epochs()[0], "b": RetrievalMAP()}, ValueError, "metric"),
    ],
)
def test_invalid_runs(run, error, names, tmp_path):
    with pytest.raises(error, match=names):
        report(run, tmp_path / "run.md")
    assert not list(tmp_path.iterdir())


def test_arguments_that_runs_exclude(tmp_path):
    metrics = metrics_of_epochs()
    for settings in ({"other": metrics[0]}, {"class_names": ["a"]}, {"query_names": ["a"]}):
        with pytest.raises(ValueError, match=f"{next(iter(settings))}.* must be None"):
            report(metrics, tmp_path / "run.md", **settings)


def test_commands_write_the_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    preds, target = scores_of_epochs(3)
    rows = zip(*(x.tolist() for x in preds), target.tolist(), strict=True)
    lines = ["e0,e1,e2,y", *(",".join(map(repr, row)) for row in rows)]
    (tmp_path / "run.csv").write_text("\n".join(lines))
    columns = ["run.csv", "--preds", "e0", "e1", "e2", "--target", "y", "--best"]
    expected = inference.best_of(torch.stack(preds).double(), target)
    main.main(["report", *columns, "-o", "first.md"])
    assert capsys.readouterr().out == "first.md\n"
    main.main(["score", *columns, "--report", "second.md"])
    head = (tmp_path / "first.md").read_text().splitlines()[2]
    assert head.startswith(f"**AP of e2 {expected.corrected:.4f}**; 95% interval {expected.low:.4f} to")
    assert (tmp_path / "second.md").read_text() == (tmp_path / "first.md").read_text()
    for words in (["--baseline", "e0"], ["--fail-below", "ap=0.5"]):
        assert main.main(["report", *columns, *words]) == 2
        assert f"{words[0]} has no meaning with --best" in capsys.readouterr().err
