"""Items in groups: their curves have no intervals of independent items."""

import math

import pytest
import torch

from torch_ap import BinaryAveragePrecision, MulticlassAveragePrecision, plot, report
from torch_ap.inference.resampling import Resampling
from torch_ap.plot.bars import IntervalOptions, class_bars

_REASON = "the interval takes items as independent, but the items are in groups"
_RATIOS = ("precision", "recall", "f_beta")


@pytest.fixture
def items():
    generator = torch.Generator().manual_seed(0)
    patient = torch.arange(400) // 10
    effect = torch.randn(40, generator=generator)[patient]
    target = (torch.rand(400, generator=generator) < torch.sigmoid(effect - 1)).long()
    return torch.randn(400, generator=generator) + 1.5 * target + effect, target, patient


@pytest.fixture
def metric(items):
    scores, target, patient = items
    metric = BinaryAveragePrecision()
    metric.update(scores, target, groups=patient)
    return metric


@pytest.fixture
def independent(items):
    metric = BinaryAveragePrecision()
    metric.update(*items[:2])
    return metric


@pytest.fixture
def classes(items):
    scores, target, patient = items
    preds = torch.stack([-scores, scores, scores.flip(0)], 1)
    metrics = [MulticlassAveragePrecision(num_classes=3, average=x) for x in ("none", "macro")]
    for metric in metrics:
        metric.update(preds, target + (torch.arange(400) % 7 == 0), groups=patient)
    return metrics


@pytest.mark.parametrize("method", ["posterior", "bootstrap"])
def test_operating_points_have_no_interval(metric, independent, method):
    point, other = (x.curve().operating_point(method=method, n_resamples=20) for x in (metric, independent))
    assert point.reason == f"{_REASON}: the ends are NaN"
    assert not other.reason
    for name in _RATIOS:
        assert getattr(point, name) == getattr(other, name)
        for end in ("low", "high"):
            assert getattr(point, f"{name}_{end}").isnan()
            assert not getattr(other, f"{name}_{end}").isnan()


def test_bands_have_no_ends(metric, independent):
    band, other = (x.curve().band(n_resamples=20) for x in (metric, independent))
    assert band.reason == f"{_REASON}: the ends are NaN"
    assert bool(band.low.isnan().all())
    assert bool(band.high.isnan().all())
    assert torch.equal(band.estimate, other.estimate)


def test_plots_warn_of_a_missing_band(metric):
    figure = pytest.importorskip("matplotlib.figure")
    with pytest.warns(UserWarning, match=_REASON):
        plot.precision_recall(metric, band=True, ax=figure.Figure().subplots())


def test_simultaneous_bands_raise(metric, tmp_path):
    figure = pytest.importorskip("matplotlib.figure")
    calls = (
        lambda: metric.curve().band(simultaneous=True),
        lambda: plot.precision_recall(metric, band=True, simultaneous=True, ax=figure.Figure().subplots()),
        lambda: report(metric, tmp_path / "page.html", simultaneous=True),
    )
    for call in calls:
        with pytest.raises(ValueError, match="`simultaneous` cannot be combined with `groups`"):
            call()
    assert not list(tmp_path.iterdir())


def test_bars_have_the_intervals_of_the_groups(classes):
    from torch_ap.inference.resampling import Resampling
    from torch_ap.plot.bars import IntervalOptions, class_bars

    options = IntervalOptions(0.95, Resampling())
    expected = classes[0].confidence_interval()
    for metric in classes:
        bars = class_bars(metric, None, options).values()
        assert [x.low for x in bars] == expected.low.tolist()
        assert [x.high for x in bars] == expected.high.tolist()
        assert all(x.low != x.low for x in class_bars(metric.curve(), None, options).values())


def test_pages_name_the_groups(metric, independent, classes, tmp_path):
    with_groups = "independent, but the items are in groups"
    page, other = (report(x, tmp_path / f"{i}.md").read_text() for i, x in enumerate((metric, independent)))
    assert with_groups in page
    assert with_groups not in other
    assert "take the threshold as fixed in advance" in other
    assert "take the threshold as fixed" not in page
    points = page[page.index("## Operating points") :]
    rows = [line for line in points.splitlines() if line.startswith("| highest F1")]
    assert len(rows) == 1
    assert "(" not in rows[0]
    html = report(metric, tmp_path / "page.html").read_text()
    assert with_groups in html
    assert "confidence band" not in html
    assert with_groups in report(classes[1], tmp_path / "classes.md").read_text()


def test_comparisons_do_not_describe_a_test_that_they_omit(items, metric, independent, tmp_path):
    scores, target, patient = items
    grouped, plain = BinaryAveragePrecision(), BinaryAveragePrecision()
    grouped.update(scores + target, target, groups=patient)
    plain.update(scores + target, target)
    page, other = (
        report(a, tmp_path / f"{i}.md", other=b).read_text()
        for i, (a, b) in enumerate([(metric, grouped), (independent, plain)])
    )
    assert "randomization test" in other
    assert "randomization test" not in page
    assert "The highest F1 has an interval of the delta method" in page


@pytest.mark.parametrize("options", [{"interpolation": "101-point"}, {"interpolation": "trapezoid"}, {"top_k": 20}])
def test_bars_without_an_interval_of_groups(options):
    draw = torch.Generator().manual_seed(0)
    metric = BinaryAveragePrecision(**options)
    target = torch.randint(2, (200,), generator=draw)
    metric.update(torch.rand(200, generator=draw), target, groups=torch.arange(200) // 10)
    (bar,) = class_bars(metric, None, IntervalOptions(0.95, Resampling(20))).values()
    assert bar.value == pytest.approx(float(metric.compute()))
    assert math.isnan(bar.low)
    assert math.isnan(bar.high)
