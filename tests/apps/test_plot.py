"""Pictures: lines, bars and texts, not pixels, are compared with the computed numbers."""

import inspect
import itertools
import math
import re
import runpy
import sys

import matplotlib as mpl
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.figure import Figure
from sklearn.metrics import PrecisionRecallDisplay

import torch_ap
from tests.support.each import each
from tests.support.every_metric import METRICS
from tests.support.paths import ROOT
from tests.support.tolerances import REORDERED
from torch_ap import (
    BinaryAveragePrecision,
    MeanAveragePrecision,
    MultilabelAveragePrecision,
    RetrievalMAP,
    VOCMeanAveragePrecision,
    curves,
    functional,
    inference,
    plot,
)
from torch_ap.detection import ConfusionMatrix
from torch_ap.plot import style, vertices
from torch_ap.plot.rectangles import hits_of_all

EXAMPLES = ROOT / "examples"
OF_CURVES = {name: getattr(plot, name) for name in ("precision_recall", "hit_curve", "f_beta_thresholds", "per_class")}
RECTANGLES = plot.average_precision_rectangles


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    pyplot.close("all")


@pytest.fixture
def ax():
    return Figure().subplots()


def drawn(ax):
    """Draw the whole picture, so that invalid artists fail here."""
    ax.figure.draw_without_rendering()
    return ax


def emptied(ax):
    """Return the axes without artists; new axes cost as much as most pictures."""
    for artist in (*ax.lines, *ax.patches, *ax.collections, *ax.images, *ax.texts):
        artist.remove()
    if ax.get_legend():
        ax.get_legend().remove()
    return ax


def legend(ax):
    return [x.get_text() for x in ax.get_legend().get_texts()]


def area(line):
    return np.trapezoid(line.get_ydata(), line.get_xdata())


def ranking(size=400, shift=1.5, share=0.2, seed=0, levels=None):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(size, generator=generator) < share).long()
    scores = torch.randn(size, generator=generator, dtype=torch.float64) + shift * target
    return (scores if levels is None else (scores * levels).round()), target


def labels(classes, size=150, seed=0, missing=(), **settings):
    """Return a metric of classes, some of them without positives."""
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(size, classes, generator=generator) < 0.3).long()
    target[:, list(missing)] = 0
    metric = MultilabelAveragePrecision(classes, **settings)
    metric.update(torch.randn(size, classes, generator=generator) + target * torch.linspace(0, 3, classes), target)
    return metric


def detector(seed=0, images=12, noise=0.1, kind=MeanAveragePrecision, **settings):
    generator = torch.Generator().manual_seed(seed)
    metric = kind(**settings)
    for _ in range(images):
        corner, size = 300 * torch.rand(4, 2, generator=generator), 10 + 80 * torch.rand(4, 2, generator=generator)
        boxes, names = torch.cat([corner, corner + size], 1), torch.tensor([1, 1, 2, 7])
        found = boxes + noise * size.repeat(1, 2) * torch.randn(4, 4, generator=generator)
        scores = torch.rand(4, generator=generator)
        metric.update([{"boxes": found, "scores": scores, "labels": names}], [{"boxes": boxes, "labels": names}])
    return metric


def run(shift, queries=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(queries, 30, generator=generator) < 0.3).long()
    target[:, 0] = 1
    metric = RetrievalMAP()
    metric.update(torch.randn(queries, 30, generator=torch.Generator().manual_seed(shift)) + shift * target, target)
    return metric


# -- the drawn area is the computed area

CONVENTIONS = [
    *({"ties": ties} for ties in ("grouped", "expected", "optimistic", "pessimistic")),
    *({"ties": ties, "interpolation": "all-points"} for ties in ("grouped", "optimistic", "pessimistic")),
    *({"ties": ties, "interpolation": "trapezoid"} for ties in ("grouped", "optimistic", "pessimistic")),
    *({"interpolation": name} for name in ("trapezoid-anchored", "ultralytics", "ultralytics-8.3")),
]
AT_K = [
    {"top_k": k, "denominator": denominator, "ties": ties}
    for k in (1, 3, 50)
    for denominator in ("min", "relevant", "found")
    for ties in ("grouped", "expected", "optimistic", "pessimistic")
]
RANKINGS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=14)


@given(RANKINGS, st.sampled_from(CONVENTIONS))
def test_the_area_under_the_line_is_the_average_precision(items, convention):
    scores, target = torch.tensor(items, dtype=torch.float64).T
    curve = functional.binary_curve(scores, target.long(), **convention)
    x, y = vertices.line(curve)
    if not target.sum():
        assert not len(x)
        return
    assert np.trapezoid(y, x) == pytest.approx(float(curve.average_precision), abs=REORDERED)
    assert x[-1] == pytest.approx(1)


LEVELS = ["11-point", "11-point-arange", "101-point", "11-point-trec9", "11-point-trec10", torch.tensor([0.2, 0.7])]


@given(RANKINGS, st.sampled_from(["grouped", "optimistic", "pessimistic"]), st.sampled_from(LEVELS))
def test_the_mean_height_of_the_levels_is_the_average_precision(items, ties, interpolation):
    scores, target = torch.tensor(items, dtype=torch.float64).T
    curve = functional.binary_curve(scores, target.long(), ties=ties, interpolation=interpolation)
    if target.sum():
        height = vertices.levels(curve).precision
        assert height.mean() == pytest.approx(float(curve.average_precision), abs=REORDERED)
        line = vertices.line(curve)
        assert set(height.round(9)) <= {0.0, *line.precision.round(9)}


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_the_line_is_drawn(convention, ax):
    curve = functional.binary_curve(*ranking(40, levels=3), **convention)
    plot.precision_recall(curve, ax=ax)
    assert area(ax.lines[0]) == pytest.approx(float(curve.average_precision))
    plot.average_precision_rectangles(curve, ax=ax)
    bars = sum(x.get_width() * x.get_height() for x in ax.patches)
    assert bars == pytest.approx(0 if vertices.is_straight(curve) else float(curve.average_precision))


def test_davis_and_goadrichs_curve_is_drawn(ax):
    curve = functional.binary_curve(*ranking(40, levels=3), interpolation="davis-goadrich")
    plot.precision_recall(curve, ax=ax)
    assert area(ax.lines[0]) == pytest.approx(float(curve.average_precision), abs=1e-4)  # of 32 straight pieces


@given(RANKINGS, st.sampled_from([x for x in CONVENTIONS if x.get("interpolation") in (None, "all-points")] + AT_K))
def test_the_area_of_the_rectangles_is_the_average_precision(items, convention):
    if (convention.get("denominator"), convention.get("ties")) == ("found", "expected"):
        return  # the mean of a ratio over orders is no ratio of means
    scores, target = torch.tensor(items, dtype=torch.float64).T
    metric = BinaryAveragePrecision(**convention, empty_target_action="nan")
    metric.update(scores, target.long())
    curve = metric.curve()
    found = vertices.rectangles(curve, hits_of_all(curve))
    assert found.width @ found.height == pytest.approx(float(metric.compute()) if target.sum() else 0, abs=REORDERED)


LEVELS = ["11-point", "11-point-arange", "11-point-trec9", "11-point-trec10", torch.tensor([0.5, 0.0, 0.9])]


@pytest.mark.parametrize("interpolation", LEVELS, ids=str)
@pytest.mark.parametrize("draw", [plot.precision_recall, RECTANGLES])
def test_the_mean_over_recall_levels_is_the_average_precision(draw, interpolation, ax):
    curve = functional.binary_curve(*ranking(levels=3), interpolation=interpolation)
    draw(curve, ax=ax)
    heights = [x.get_height() for x in ax.patches] or ax.lines[1].get_ydata()
    assert len(heights) == (11 if isinstance(interpolation, str) else 3)
    assert np.mean(heights) == pytest.approx(float(curve.average_precision))


def test_weights_widen_the_steps(ax):
    scores, target = ranking(30)
    curve = functional.binary_curve(scores, target, weights=torch.rand(30, generator=torch.Generator().manual_seed(1)))
    plot.precision_recall(curve, ax=ax)
    assert area(ax.lines[0]) == pytest.approx(float(curve.average_precision))


def test_the_step_is_scikit_learns(ax):
    scores, target = ranking(200, levels=4)
    plot.precision_recall(functional.binary_curve(scores, target), ax=ax, chance_level=False)
    theirs = PrecisionRecallDisplay.from_predictions(target, scores, ax=ax).line_
    assert theirs.get_drawstyle() == "steps-post"  # over descending recall
    recall, precision = (x[::-1] for x in theirs.get_data())
    x, y = ax.lines[0].get_data()
    right = np.unique(recall[recall > 0])
    between = right - np.diff(right, prepend=0) / 2
    assert y[np.searchsorted(x, between)].tolist() == precision[np.searchsorted(recall, between)].tolist()


def test_a_detector_that_misses_objects_falls_to_0(ax):
    curves = detector(noise=0.3).curve(0.5)
    plot.precision_recall(curves, ax=ax, chance_level=False)
    order, _ = style.styles([float(x.average_precision) for x in curves])
    for line, place in zip(ax.lines, order, strict=True):
        assert line.get_xdata()[-1] == float(curves[place].recall[-1]) < 1
        assert line.get_ydata()[-1] == 0


# -- many points


@pytest.mark.parametrize("interpolation", [None, "trapezoid"])
def test_many_points_are_drawn_by_some_thousands_of_them(interpolation, ax, monkeypatch):
    curve = functional.binary_curve(*ranking(300_000, 2.0, 0.5), interpolation=interpolation)
    plot.precision_recall(curve, ax=ax)
    x, y = ax.lines[0].get_data()
    assert len(x) < 40_000
    # the tolerance for reducing 300,000 points to some thousands
    assert area(ax.lines[0]) == pytest.approx(float(curve.average_precision), abs=1e-4)
    monkeypatch.setattr(vertices, "decimated", lambda x, *_: np.arange(len(x)))
    low, high = painted(x, y)
    least, most = painted(*vertices.line(curve))
    assert (least >= wider(low, np.fmin)).all()
    assert (most <= wider(high, np.fmax)).all()


def painted(x, y, columns=4096):
    """Return the ends of the line in each column of pixels."""
    column = np.minimum((x * columns).astype(int), columns - 1)
    out = np.full((2, columns), np.nan)
    for row, extreme in zip(out, (np.fmin, np.fmax), strict=True):
        extreme.at(row, column, y)
    assert not np.isnan(out).any()
    return out


def wider(ends, extreme):
    """Return the ends widened by one column on either side."""
    return extreme(ends, extreme(np.append(ends[1:], np.nan), np.append(np.nan, ends[:-1])))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 3000), st.booleans())
def test_decimation_keeps_ends_and_extremes(values, repeats, descending):
    y = np.tile(values, repeats)
    x = np.sort(np.random.default_rng(0).random(len(y)))[:: -1 if descending else 1]
    kept = style.decimated(x, y)
    assert kept[0] == 0
    assert kept[-1] == len(x) - 1
    assert (np.diff(kept) > 0).all()
    assert len(kept) <= max(4096, 4 * 4097)
    assert (y[kept].min(), y[kept].max()) == (y.min(), y.max())


@pytest.mark.parametrize("draw", [*OF_CURVES.values(), RECTANGLES])
def test_every_picture_of_many_points_is_small(draw, ax):
    draw(functional.binary_curve(*ranking(100_000)), ax=ax)
    assert sum(len(x.get_xdata()) for x in ax.lines) < 120_000


# -- the other pictures


@pytest.mark.parametrize("fraction", [False, True])
@pytest.mark.parametrize("ties", ["grouped", "optimistic", "pessimistic"])
def test_hit_curves(fraction, ties, ax):
    scores, target = ranking(200, levels=2)
    plot.hit_curve(functional.binary_curve(scores, target, ties=ties), ax=ax, fraction=fraction)
    ideal, random, line = ax.lines
    t = torch.linspace(0, 1, 21).double() * (1 if fraction else 200)
    for found, expected in (
        (line, curves.hit_curve(scores, target, t, fraction=fraction, ties=ties)),
        (ideal, curves.hit_curve(target, target, t, fraction=fraction)),
        (random, curves.hit_curve(torch.zeros(200), target, t, fraction=fraction)),
    ):
        assert np.interp(t, *found.get_data()) == pytest.approx(expected.hits.numpy())
    assert legend(ax)[1:] == ["ideal", "random"]


def test_hit_curves_of_different_sizes_have_their_own_references(ax):
    plot.hit_curve([functional.binary_curve(*ranking(n)) for n in (50, 90)], ax=ax)
    assert len(ax.lines) == 6
    plot.hit_curve(functional.binary_curve(*ranking(50)), ax=ax, ideal=False, random=False)
    assert len(ax.lines) == 7


def test_thresholds(ax):
    curve = functional.binary_curve(*ranking(60), name="a")
    plot.f_beta_thresholds(curve, ax=ax, beta=2.0)
    line, mark, precision, recall = ax.lines
    for found, values in ((line, curve.f_beta(2.0)), (precision, curve.precision), (recall, curve.recall)):
        assert found.get_drawstyle() == "steps-pre"
        assert found.get_xdata().tolist() == curve.thresholds.flip(0).tolist()
        assert found.get_ydata().tolist() == values.flip(0).tolist()
    best = curve.operating_point(beta=2.0)
    assert mark.get_data() == (float(best.threshold), float(best.f_beta))
    assert legend(ax)[0] == f"$F_{{2}}$, highest {float(best.f_beta):.3f} at score ≥ {float(best.threshold):.3g}"


def test_thresholds_of_several_are_sorted_by_their_best(ax):
    plot.f_beta_thresholds(
        {x: functional.binary_curve(*ranking(60, shift)) for x, shift in (("a", 1), ("b", 3))}, ax=ax
    )
    assert [x.split()[1] for x in legend(ax)] == ["b", "a"]


def test_infinite_scores_have_no_place_among_thresholds(ax):
    scores = torch.tensor([torch.inf, 2, 1, -torch.inf])
    drawn(plot.f_beta_thresholds(functional.binary_curve(scores, torch.tensor([1, 0, 1, 0])), ax=ax))
    assert ax.lines[0].get_xdata().tolist() == [1, 2]


def test_bars_of_classes_are_values_and_intervals(ax):
    metric = labels(5, average="none", missing=[2], empty_target_action="nan")
    plot.per_class(metric, ax=ax, class_names=list("abcde"), confidence_level=0.8)
    value, found = metric.compute(), metric.confidence_interval(0.8)
    order = [4, 3, 1, 0, 2]
    assert [x.get_width() for x in ax.patches] == pytest.approx([float(value[i]) for i in order[:-1]] + [0])
    assert [x.get_text()[0] for x in ax.get_yticklabels()] == ["abcde"[i] for i in order]
    assert whiskers(ax) == pytest.approx(torch.stack([found.low, found.high], 1)[order[:-1]].numpy())
    assert [x.get_text() for x in ax.texts] == ["no positives"]
    assert legend(ax) == [f"mean {float(value.nanmean()):.3f}"]


def test_bars_of_systems_are_side_by_side(ax):
    plot.per_class({"one": labels(3), "two": labels(3, seed=1)}, ax=ax, interval=False)
    assert len(ax.patches) == 6
    assert {x.get_hatch() for x in ax.patches} == {"", "//"}
    assert sorted(x.split()[1] for x in legend(ax)) == ["one", "two"]
    assert legend(ax) == sorted(legend(ax), reverse=True)


def test_one_system_by_name(ax):
    plot.per_class({"one": labels(3)}, ax=ax)
    assert len(ax.patches) == 3


def test_bars_have_names_of_their_own(ax):
    curves = [functional.binary_curve(*ranking(60, shift), ties="expected") for shift in (1, 3)]
    plot.per_class(curves, ax=ax)
    assert [x.get_text()[0] for x in ax.get_yticklabels()] == ["1", "0"]
    assert any(hasattr(x, "has_xerr") for x in ax.containers), "without ties the interval is that of grouped ones"
    with pytest.raises(ValueError, match="`curves` must have different names, got 'a' twice"):
        plot.per_class([functional.binary_curve(*ranking(60, shift), name="a") for shift in (1, 3)])


def whiskers(ax):
    """Return the ends of the intervals, from the top."""
    (bars,) = (x.lines[2][0] for x in ax.containers if hasattr(x, "has_xerr"))
    return np.array([[point[0] for point in segment] for segment in bars.get_segments()])


@pytest.mark.parametrize("kind", [MeanAveragePrecision, VOCMeanAveragePrecision])
def test_intervals_of_detectors_are_over_images(kind, ax):
    metric = detector(kind=kind, noise=0.2)
    plot.per_class(metric, ax=ax, n_resamples=50, confidence_level=0.8)
    found = metric.confidence_interval(0.8, per_class=True, n_resamples=50)
    order = torch.argsort(found.estimate, descending=True)
    assert [x.get_width() for x in ax.patches] == pytest.approx(found.estimate[order].tolist())
    assert whiskers(ax) == pytest.approx(torch.stack([found.low, found.high], 1)[order].numpy())


def test_intervals_of_interpolated_precision_equal_the_metric(ax):
    metric = labels(3, average="none", interpolation="11-point")
    plot.per_class(metric, ax=ax, n_resamples=50)
    found = metric.confidence_interval(method="bootstrap-logit", n_resamples=50)
    order = torch.argsort(found.estimate, descending=True)
    assert whiskers(ax) == pytest.approx(torch.stack([found.low, found.high], 1)[order].numpy())
    ax.clear()
    plot.per_class(labels(3, interpolation="trapezoid"), ax=ax)
    assert not len(whiskers(ax)), "which no method has"


def test_curves_of_detectors_have_no_interval(ax):
    plot.per_class(detector().curve(0.75), ax=ax)
    assert len(ax.patches) == 3
    assert not [x for x in ax.containers if getattr(x, "has_xerr", False) and x.lines[2][0].get_segments()]


def test_curves_by_name_are_bars_of_one_system(ax):
    plot.per_class({x: functional.binary_curve(*ranking(60, shift)) for x, shift in (("a", 1), ("b", 3))}, ax=ax)
    assert [x.get_text()[0] for x in ax.get_yticklabels()] == ["b", "a"]


def test_bars_of_detectors_are_the_mean_over_thresholds(ax):
    metric = detector(class_names={1: "cat"})
    plot.per_class(metric, ax=ax)
    table = metric.per_class()
    assert sorted(x.get_width() for x in ax.patches) == pytest.approx(sorted(table["ap"].tolist()))
    assert {x.get_text().rsplit("  ", 1)[0] for x in ax.get_yticklabels()} == {"cat", "class 2", "class 7"}


def test_lines_of_detectors_are_cocos_numbers(ax):
    metric = detector(extended_summary=True)
    plot.iou_thresholds(metric, ax=ax)
    found = metric.compute()
    means = {line.get_label(): line.get_ydata().mean() for line in ax.lines}
    assert next(iter(means.values())) == pytest.approx(float(found["map"]))
    for text in legend(ax):
        value, area_range = text.removesuffix(": no objects").split()
        expected = float(found["map" if area_range == "all" else f"map_{area_range}"])
        assert value == ("-" if expected == -1 else f"{expected:.3f}")
    precision = found["precision"][:, :, :, 0, -1]
    assert ax.lines[0].get_ydata() == pytest.approx(precision.mean((1, 2)).numpy())
    assert ax.lines[0].get_xdata() == pytest.approx(metric.iou_thresholds)


def test_a_table_of_thresholds_has_the_averaged_thresholds():
    for metric in (detector(), detector(average="micro")):
        table, found = metric.per_threshold(), metric.compute()
        assert list(table) == ["iou_threshold", "all", "small", "medium", "large"]
        assert float(table["all"].mean()) == pytest.approx(float(found["map"]))
        assert float(table["all"][5]) == pytest.approx(float(found["map_75"]))
        assert float(table["small"].mean()) == pytest.approx(float(found["map_small"]))


def test_detectors_by_name(ax):
    plot.iou_thresholds({"a": detector(), "b": detector(1)}, ax=ax, areas=["all"])
    assert {x.split("  ")[1] for x in legend(ax)} == {"a: all", "b: all"}
    with pytest.raises(ValueError, match=r"`areas` .*'tiny'"):
        plot.iou_thresholds(detector(), areas=["tiny"])
    with pytest.raises(TypeError, match=r"`metrics` .*MeanAveragePrecision"):
        plot.iou_thresholds(labels(2))


def test_bars_of_errors(ax):
    one, other = detector(), detector(1, kind=VOCMeanAveragePrecision)
    plot.error_costs({"a": one, "b": other.errors()}, ax=ax)
    kinds = [x.get_text().replace(" ", "_") for x in ax.get_yticklabels()]
    for bars, found in zip(ax.containers, (one.errors(), other.errors()), strict=True):
        assert [bar.get_width() for bar in bars] == [float(getattr(found, kind)) for kind in kinds]
    counts = [x.get_text().split()[1] for x in ax.texts[: len(kinds)]]
    assert counts == [str(int(one.errors().counts[kind])) for kind in kinds]
    assert legend(ax) == [
        f"{float(x.errors().average_precision):.3f}  {name}" for x, name in ((one, "a"), (other, "b"))
    ]
    with pytest.raises(TypeError, match=r"`detectors` must be .* got"):
        plot.error_costs(labels(2))


def test_bars_of_queries(ax):
    one, other = run(2), run(1)
    plot.query_differences({"a_b": one, "c": other}, ax=ax, query_names={0: "first"})
    difference = (one.per_query()[1] - other.per_query()[1]).tolist()
    bars = [x.get_height() for x in ax.patches if x.get_width() < 1]
    assert bars == pytest.approx(sorted(difference, reverse=True))
    found = one.compare(other)
    assert float(ax.lines[0].get_ydata()[0]) == pytest.approx(float(found.difference))
    assert "first" in [x.get_text() for x in ax.get_xticklabels()]
    assert ax.get_ylabel() == "a_b - c"


def test_many_queries_are_an_area(ax):
    plot.query_differences([run(2, 700), run(1, 700)], ax=ax)
    assert len(ax.patches) < 3
    assert len(ax.collections) == 2
    assert len(drawn(ax).get_xticks()) == 0


@pytest.mark.parametrize("runs", [[run(1)], [run(1), 3], {"a": labels(2), "b": labels(2)}])
def test_other_than_two_runs_raise(runs):
    with pytest.raises(TypeError, match="`runs` must be two metrics over queries"):
        plot.query_differences(runs)


# -- guides in a precision-recall curve


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_iso_lines_have_their_f(beta, ax):
    plot.precision_recall([], ax=ax, iso_f=(0.3, 0.9), beta=beta)
    for line, wanted in zip(ax.lines, (0.3, 0.9), strict=True):
        recall, precision = line.get_data()
        assert (1 + beta**2) * precision * recall / (beta**2 * precision + recall) == pytest.approx(wanted)
        assert (precision[0], recall[-1]) == pytest.approx((1, 1))
    with pytest.raises(ValueError, match=r"`iso_f`.*1"):
        plot.precision_recall([], ax=ax, iso_f=(1.0,))


def test_the_band_equals_inference(ax):
    scores, target = ranking(80)
    plot.precision_recall(functional.binary_curve(scores, target), ax=ax, band=True, confidence_level=0.8)
    found = inference.precision_band(scores, target, confidence_level=0.8)
    corners = ax.collections[0].get_paths()[0].vertices
    assert corners[1:102, 1] == pytest.approx(found.low.numpy())
    assert corners[103:204, 1][::-1] == pytest.approx(found.high.numpy())


@pytest.mark.parametrize("wanted", [{"beta": 2.0}, {"recall": 0.8}, {"precision": 0.7}])
def test_operating_points(wanted, ax):
    curve = functional.binary_curve(*ranking())
    plot.precision_recall(curve, ax=ax, **wanted)
    found = curve.operating_point(**wanted)
    mark = ax.lines[1]
    assert [float(x[0]) for x in mark.get_data()] == [float(found.recall), float(found.precision)]
    across, upright = (x.get_segments()[0] for x in ax.collections)
    ends = [*across[:, 0], *upright[:, 1]]
    expected = [found.recall_low, found.recall_high, found.precision_low, found.precision_high]
    assert ends == pytest.approx([float(x) for x in expected])
    assert f"at score ≥ {float(found.threshold):.3g}" in legend(ax)[0]


def test_an_operating_point_that_does_not_exist_is_not_marked(ax):
    plot.precision_recall(functional.binary_curve(torch.tensor([2.0, 1]), torch.tensor([0, 1])), ax=ax, precision=0.9)
    assert legend(ax) == ["0.500", "chance level of precision: 0.500"]


def test_chance_levels(ax):
    same = [functional.binary_curve(*ranking(100, shift)) for shift in (1, 2)]
    plot.precision_recall(same, ax=ax)
    assert ax.lines[-1].get_ydata()[0] == float(same[0].chance_level)
    assert legend(ax)[-1] == f"chance level of precision: {float(same[0].chance_level):.3f}"
    other = functional.binary_curve(*ranking(100, share=0.7))
    low, high = float(same[0].chance_level), float(other.chance_level)
    ax.clear()
    plot.precision_recall([same[0], other], ax=ax)
    assert sorted(float(x.get_ydata()[0]) for x in ax.lines[-2:]) == [low, high]
    assert {x.get_color() for x in ax.lines[-2:]} == {x.get_color() for x in ax.lines[:2]}
    assert legend(ax)[-1] == "chance levels of precision, at the right"
    ax.clear()
    plot.precision_recall([*same, other], ax=ax)
    (band,) = ax.patches
    assert sorted(band.get_corners()[:, 1])[::3] == pytest.approx([low, high])
    assert len(ax.lines) == 3
    assert legend(ax)[-1] == f"chance levels of precision: {low:.3f} to {high:.3f}"


def test_curves_of_queries_are_trecs(ax):
    curve = run(2).curve()
    plot.precision_recall({"run": curve}, ax=ax, band=True, beta=1.0)
    assert ax.lines[0].get_data()[1].tolist() == curve.interpolated_precision.tolist()
    assert legend(ax) == [f"{float(curve.average_precision):.3f}  run"]
    with pytest.raises(TypeError, match="single rankings"):
        plot.hit_curve(curve, ax=ax)


# -- names, order, styles


def test_legends_are_sorted_by_average_precision_and_show_it(ax):
    curves = {str(shift): functional.binary_curve(*ranking(300, shift)) for shift in (1, 3, 0, 2)}
    plot.precision_recall(curves, ax=ax)
    expected = [f"{float(curves[x].average_precision):.3f}  {x}" for x in "3210"]
    assert legend(ax)[:4] == expected


def test_eighty_classes_have_the_five_best_and_the_five_worst_names(ax):
    metric = labels(80, missing=[7])
    plot.precision_recall(metric, ax=ax, class_names=[f"name {i}" for i in range(80)])
    values = [float(x.split()[0]) for x in legend(ax)[:10]]
    each = sorted((float(x.average_precision) for x in metric.curve() if x.m), reverse=True)
    assert values == pytest.approx([*each[:5], *each[-5:]], abs=5e-4)  # the picture shows three digits
    assert legend(ax)[-1] == "69 more", "without the class that has no line"
    assert (len(ax.lines), len(ax.patches)) == (11, 1), "one line for 69 classes, the chance levels as a band"
    parts = np.split(ax.lines[-1].get_xydata(), np.flatnonzero(np.isnan(ax.lines[-1].get_xdata())))[:-1]
    order = sorted(metric.curve(), key=lambda x: -float(x.average_precision.nan_to_num(-1)))
    areas = [float(np.nansum(np.diff(x[:, 0]) * x[1:, 1])) for x in parts]
    assert areas == pytest.approx([float(x.average_precision.nan_to_num()) for x in order[5:-6]])


def test_a_long_legend_is_next_to_the_axes_and_complete():
    ax = drawn(
        plot.precision_recall(labels(80), iso_f=(0.5,), class_names=[f"a long name {i} " * 3 for i in range(80)])
    )
    box, page = ax.get_legend().get_window_extent(), ax.figure.bbox
    assert ax.get_window_extent().x1 < box.x0 < box.x1 <= page.x1
    assert ax.get_window_extent().width > 500


def test_classes_without_names_have_their_number(ax):
    plot.precision_recall(labels(2), ax=ax)
    assert {x.split("  ")[1] for x in legend(ax)[:2]} == {"label 0", "label 1"}


STRANGE = [
    "a_b",
    "_hidden",
    "$x$",
    "50$ or $60",
    r"\frac",
    "x^2",
    "new\nline",
    "a name that is much longer than any legend has room for",
    "猫",
    "",
]


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
@pytest.mark.parametrize("draw", [*OF_CURVES.values(), lambda x, ax: plot.query_differences(x, ax=ax), RECTANGLES])
def test_names_are_shown_as_they_are(draw, ax):
    if draw in OF_CURVES.values():
        draw({name: functional.binary_curve(*ranking(30)) for name in STRANGE}, ax=ax)
        texts = [*legend(ax), *(x.get_text() for x in ax.get_yticklabels())]
        for name in ("a_b", "_hidden", r"\$x\$"):
            assert any(name in x for x in texts)
    elif draw is RECTANGLES:
        draw(functional.binary_curve(*ranking(30), name="$"), ax=ax)
    else:
        draw({"a$b$": run(2), "_c": run(1)}, ax)
    drawn(ax)


def test_every_named_line_is_distinct_in_grey():
    _, looks = style.styles([0.5] * 10)
    assert len(set(looks)) == 10
    for one, other in itertools.pairwise(looks):
        assert one.linestyle != other.linestyle


# -- classes together


def mean_at(curves, values, score):
    """Return the mean over curves with positives of the value at a score threshold."""
    found = []
    for curve in curves:
        kept = (curve.thresholds >= score).nonzero().flatten()
        found += [float(values(curve)[kept[-1]]) if len(kept) else math.nan if values is PRECISION else 0.0] * bool(
            curve.m
        )
    return np.nanmean(found)


PRECISION, RECALL = (lambda curve: curve.precision), (lambda curve: curve.recall)
OVER_SCORES = {"f_beta": lambda curve: curve.f_beta(2.0), "precision": PRECISION, "recall": RECALL}


@pytest.mark.parametrize("measure", OVER_SCORES)
def test_the_mean_over_classes_is_thick_and_the_others_thin(measure, ax):
    metric = detector(noise=0.3)
    plot.f_beta_thresholds(metric, ax=ax, beta=2.0, measure=measure, mean=True)
    thick, *others = [x for x in ax.lines if x.get_marker() == "None"]
    assert thick.get_linewidth() > 3 * max(x.get_linewidth() for x in others)
    assert len(others) == 3
    scores, height = thick.get_data()
    assert len(scores) == 48
    wanted = [mean_at(metric.curve(), OVER_SCORES[measure], float(x)) for x in scores]
    assert height == pytest.approx(wanted)
    assert ax.get_ylabel() == ("$F_{2}$" if measure == "f_beta" else measure)
    said = f"{max(wanted):.3f}  mean at score ≥ {scores[np.argmax(wanted)]:.3g}"
    assert legend(ax)[0] == (said if measure == "f_beta" else f"{float(metric.compute()['map_50']):.3f}  mean")
    drawn(ax)


def test_the_mean_precision_over_recall_has_the_mean_as_area(ax):
    metric = detector(noise=0.3)
    plot.precision_recall(metric, ax=ax, mean=True, chance_level=False)
    recall, precision = ax.lines[0].get_data()
    assert len(recall) == 101
    assert precision.mean() == pytest.approx(float(metric.compute()["map_50"]))
    assert legend(ax)[0] == f"{precision.mean():.3f}  mean"
    assert {x.get_linewidth() for x in ax.lines[1:]} == {0.9}
    drawn(ax)


@pytest.mark.parametrize("draw", [plot.precision_recall, plot.f_beta_thresholds])
def test_the_mean_of_no_curves_is_no_line(draw, ax):
    for nothing in ([], functional.binary_curve(torch.tensor([0.5, 0.4]), torch.tensor([0, 0]))):
        drawn(draw(nothing, ax=ax, mean=True))
        assert not any(np.isfinite(x.get_ydata()).any() for x in ax.lines if x.get_linewidth() > 3)


@pytest.mark.parametrize("normalize", ["true", "pred", "all", None])
def test_shades_are_the_numbers_of_the_matrix(normalize, ax):
    metric = detector(noise=0.3)
    matrix = metric.confusion_matrix(class_names={1: "cat"})
    plot.confusion_matrix(matrix, ax=ax, normalize=normalize)
    values = np.nan_to_num(style.array(matrix.matrix if normalize is None else matrix.normalized(normalize)))
    found = {(round(x.get_position()[1]), round(x.get_position()[0])): x.get_text() for x in ax.texts}
    form = "{:.0f}" if normalize is None else "{:.2f}"
    assert found == {(i, j): form.format(values[i, j]) for i, j in zip(*values.nonzero(), strict=True)}
    shade = np.asarray(ax.images[0].get_array())[..., 3]
    assert shade.tolist() == pytest.approx(values / (1 if normalize in ("true", "pred") else values.max()))
    assert [x.get_text() for x in ax.get_yticklabels()] == ["cat", "2", "7", "background"]
    drawn(ax)


@pytest.mark.parametrize("classes", [0, 30, 60])
def test_matrices_of_many_classes_have_no_numbers(classes, ax):
    matrix = torch.arange((classes + 1) ** 2).reshape(classes + 1, -1)
    names = [f"a ${k}$" for k in range(classes)]
    plot.confusion_matrix(ConfusionMatrix(matrix, torch.arange(classes), [*names, "-"], 0.5, 0.25), ax=ax)
    assert not ax.texts
    assert len(ax.get_xticklabels()) == (classes + 1 if classes < 41 else 0)
    drawn(ax)


# -- axes, state, extras


def plan_of_interval():
    return inference.plan_interval(inference.reported_average_precision_interval(0.6, m=50), 50, [0.05, 0.1])


def test_plans_show_their_numbers(ax):
    plan = plan_of_interval()
    plot.plan(plan, ax=ax)
    line, pilot = ax.lines
    assert line.get_xdata().tolist() == sorted(plan.units.tolist())
    assert line.get_ydata().tolist() == [0.1, 0.05]
    assert (pilot.get_xdata()[0], pilot.get_ydata()[0]) == (50, plan.pilot_half_width)
    ends = [path.vertices[:, 0].tolist() for path in ax.collections[0].get_paths()]
    assert sorted(ends) == sorted(map(list, zip(plan.units_low.tolist(), plan.units_high.tolist(), strict=True)))
    drawn(ax)


def test_plans_of_comparisons_show_their_power(ax):
    a, b = torch.tensor([0.5, 0.6, 0.9, 0.4] * 10), torch.tensor([0.4, 0.4, 0.6, 0.5] * 10)
    compared = inference.compare_per_query(a, b)
    plan = inference.plan_comparison(compared, 40, difference=0.05, planned_units=[100, 40, 200])
    plot.plan(plan, ax=ax)
    assert ax.lines[0].get_xdata().tolist() == [40, 100, 200]
    assert ax.lines[0].get_ydata().tolist() == sorted(plan.power.tolist())
    assert ax.lines[1].get_ydata()[0] == 0.8
    assert ax.lines[2].get_xdata()[0] == float(plan.needed)
    drawn(ax)
    with pytest.raises(TypeError, match=r"`plan` must be an IntervalPlan or a ComparisonPlan, got Comp|QueryComp"):
        plot.plan(compared)


def drawable(name):
    """Return an object that has a picture."""
    others = {
        "iou_thresholds": detector,
        "confusion_matrix": detector,
        "error_costs": detector,
        "query_differences": lambda: [run(2), run(1)],
        "plan": lambda: plan_of_interval(),
        "epochs": lambda: inference.best_of(torch.stack([ranking(50, x)[0] for x in (0, 1)]), ranking(50)[1]),
    }
    return others.get(name, lambda: functional.binary_curve(*ranking(50)))()


@pytest.mark.parametrize("name", plot.__all__)
def test_axes_are_returned_and_global_state_is_unchanged(name, ax):
    draw = getattr(plot, name)
    what = drawable(name)
    before = dict(mpl.rcParams)
    assert draw(what, ax=ax) is ax
    assert not pyplot.get_fignums()
    assert dict(mpl.rcParams) == before
    drawn(ax)
    new = draw(what)
    assert pyplot.get_fignums() == [new.figure.number]
    with pytest.raises(TypeError, match=r"`ax` must be .* got tuple"):
        draw(what, ax=(ax,))


@pytest.mark.parametrize("name", plot.__all__)
def test_text_has_the_colour_of_the_style(name):
    draw = getattr(plot, name)
    what = drawable(name)
    with pyplot.style.context("dark_background"):
        ax = drawn(draw(what))
        texts = [ax.xaxis.label, ax.title, *(ax.get_legend().get_texts() if ax.get_legend() else ())]
        assert {x.get_color() for x in texts} == {"white"}
        assert not {mpl.colors.to_hex(x.get_color()) for x in ax.lines} & {"#000000"}


@pytest.mark.parametrize("name", plot.__all__)
def test_without_matplotlib_the_extra_is_named(name, monkeypatch):
    what = drawable(name)
    for module in [x for x in sys.modules if x.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"needs matplotlib: .*extra `plot`"):
        getattr(plot, name)(what)
    with pytest.raises(ModuleNotFoundError, match=r"needs matplotlib: .*extra `plot`"):
        run(1).plot()


def test_metrics_without_curves_raise():
    for what in (3, torch_ap.RetrievalMRR()):
        with pytest.raises(TypeError, match=r"`curves` must be a Curve.* got"):
            plot.precision_recall(what)
    with pytest.raises(ValueError, match="must be one curve, got 3"):
        RECTANGLES(labels(3))


# -- edge cases

SMALL = {
    "no positives": ([3.0, 2, 1], [0, 0, 0]),
    "no misses": ([3.0, 2, 1], [1, 1, 1]),
    "one hit": ([3.0], [1]),
    "one miss": ([3.0], [0]),
    "all tied": ([1.0] * 4, [1, 0, 1, 0]),
    "nothing": ([], []),
    "infinite": ([torch.inf, -torch.inf], [0, 1]),
}


@each("case", list(SMALL))
@each("draw", [*OF_CURVES.values(), RECTANGLES])
def test_small_rankings(draw, case, ax):
    """The picture shows the numbers of the curve, including undefined ones."""
    scores, target = (torch.tensor(x) for x in SMALL[case])
    more = {"band": True, "beta": 1.0, "iso_f": (0.5,)} if draw is plot.precision_recall else {}
    for convention in ({}, {"ties": "expected"}, {"interpolation": "11-point"}, {"interpolation": "trapezoid"}):
        curve = functional.binary_curve(scores, target.long(), **convention)
        value = float(curve.average_precision)
        assert np.isnan(value) == (not target.any())
        draw(curve, ax=emptied(ax), **more)
        shown = style.number(value)
        if draw is RECTANGLES:
            assert ax.get_title().endswith(f"= {shown}" if target.any() else "-: no positives")
        elif draw is plot.per_class:
            assert [x.get_text().split()[-1] for x in ax.get_yticklabels()] == [shown]
            assert [x.get_width() for x in ax.patches] == [pytest.approx(0 if np.isnan(value) else value)]
            assert [x.get_text() for x in ax.texts] == ["no positives"] * int(np.isnan(value))
        elif draw is plot.hit_curve:
            assert legend(ax)[0].split() == [shown]
            *_, line = ax.lines
            assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (len(scores), int(target.sum()))
        elif draw is plot.f_beta_thresholds:
            best = curve.operating_point()
            assert legend(ax)[0].startswith(f"$F_{{1}}$, highest {style.number(float(best.f_beta))}")
            finite = torch.isfinite(curve.thresholds) & ~torch.isnan(curve.f_beta())
            line = next(x for x in ax.lines if x.get_drawstyle() == "steps-pre")
            assert line.get_ydata().tolist() == curve.f_beta()[finite].flip(0).tolist()
        else:
            assert legend(ax)[0].split()[0] == shown
            line = next(x for x in ax.lines if x.get_color() == style.COLORS[0])
            assert len(line.get_xdata()) == len(vertices.line(curve).recall)
            if target.any() and convention.get("interpolation") != "11-point":
                assert area(line) == pytest.approx(value)
    drawn(ax)


@pytest.mark.parametrize("draw", OF_CURVES.values())
@pytest.mark.parametrize("nothing", [list, dict, MeanAveragePrecision, VOCMeanAveragePrecision])
def test_no_curves_at_all(draw, nothing, ax):
    drawn(draw(nothing(), ax=ax))
    assert not ax.patches
    assert not any(len(x.get_xdata()) for x in ax.lines)
    assert ax.get_legend() is None
    assert ax.get_xlabel() in ("recall", "depth t", "score threshold", "average precision")


def test_detectors_without_images(ax):
    drawn(plot.iou_thresholds(MeanAveragePrecision(), ax=ax))
    assert legend(ax) == [f"-  {area}: no objects" for area in ("all", "small", "medium", "large")]
    assert not any(np.isfinite(x.get_ydata()).any() for x in ax.lines)


def test_lines_of_voc_equal_its_curves(ax):
    metric = detector(kind=VOCMeanAveragePrecision, noise=0.3)
    plot.precision_recall(metric, ax=ax, chance_level=False)
    curves = sorted(metric.curve(), key=lambda x: -float(x.average_precision))
    assert legend(ax) == [f"{float(x.average_precision):.3f}  class {x.name}" for x in curves]
    for line, curve in zip(ax.lines, curves, strict=True):
        assert area(line) == pytest.approx(float(curve.average_precision))


@pytest.mark.parametrize("classes", [80, 300])
def test_bars_too_many_for_names_are_a_profile(classes, ax):
    drawn(plot.per_class(labels(classes, missing=[3]), ax=ax))
    assert not ax.patches
    assert ax.get_ylabel() == f"{classes} classes"
    own = plot.per_class(labels(80, missing=[3]))
    assert len(own.get_yticklabels()) == 80


# -- the value of a metric


def test_steps_draw_each_measure_of_any_step(ax):
    steps = [{"map": 0.5, "map_small": -1.0, "map_class_cat": 0.5}, {"map": 0.6, "map_small": 0.2, "map_large": -1.0}]
    MeanAveragePrecision().plot([{name: torch.tensor(x) for name, x in step.items()} for step in steps], ax=ax)
    drawn_lines = {line.get_label(): np.array(line.get_ydata()) for line in ax.lines}
    assert drawn_lines.keys() == {"map", "map_small"}
    np.testing.assert_array_equal(drawn_lines["map_small"], np.float32([np.nan, 0.2]))


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("row", METRICS)
def test_metrics_draw_their_measures(row, ax):
    metric = row.new()
    values = [metric(**batch) for batch in row.batches(3)]
    figure, same = metric.plot(ax=emptied(ax))
    assert (figure, same) == (ax.figure, ax)
    found = metric.compute()
    if isinstance(found, tuple):  # the line or the first number is drawn
        assert len(ax.lines) == (found[0].numel() if "AtFixed" in row.call.__name__ else 1)
        return
    expected = found.reshape(-1).tolist() if isinstance(found, torch.Tensor) else measures(found).values()
    assert [float(x) for line in ax.lines for x in line.get_ydata()] == pytest.approx(list(expected), nan_ok=True)
    if isinstance(found, dict):
        metric.plot(values, ax=emptied(ax))
        assert {line.get_label() for line in ax.lines} == {name for x in values for name in measures(x)}
        assert {len(line.get_ydata()) for line in ax.lines} <= {3}


def measures(found):
    """Return the numbers of COCO, LVIS and VOC that average one measure."""
    wanted = {"map", "map_50", "map_75", "map_small", "map_medium", "map_large"}
    wanted |= {"map_rare", "map_common", "map_frequent", "precision", "recall", "f1", "score"}
    names = [x for x in found if x.removeprefix("bbox_").removeprefix("segm_") in wanted or "mar_" in x]
    names = [x for x in names if "class" not in x]
    return {x: float(found[x]) for x in names if found[x].numel() == 1 and float(found[x]) != -1}


def test_long_legends_are_next_to_the_axes():
    _, ax = detector().plot()
    assert len(ax.get_legend().get_texts()) > 6
    assert drawn(ax).get_legend().get_window_extent().x0 >= ax.get_window_extent().x1
    _, ax = labels(80, average="none").plot()
    assert ax.get_legend() is None


# -- the figures of the literature


def test_figures_of_the_literature_have_its_numbers():
    figures = runpy.run_path(str(EXAMPLES / "figures.py"))["FIGURES"]
    printed = {
        "zhu_2": ["0.260  A", "0.200  B"],
        "su_zhang_algorithms": ["0.917  algorithm 1", "0.467  algorithm 2"],
    }
    for name, texts in printed.items():
        assert legend(figures[name]().axes[0])[: len(texts)] == texts
    titles = {
        "gorman_at_3": "AP@3 = (1 + 1) / 3 = 0.667",
        "geese_curve": "AP = (1 + 1 + 0.75 + 0.667 + 0.5) / 5 = 0.783",
    }
    for name, title in titles.items():
        assert figures[name]().axes[1].get_title() == title


@pytest.mark.parametrize("name", plot.__all__)
def test_every_function_has_a_picture_on_its_page_and_a_row(name):
    docs = ROOT / "docs"
    assert f"plot.{name}(" in (docs / "plots.md").read_text()
    table = (docs / "api.md").read_text().split("## Pictures")[1].splitlines()
    row = next(x for x in table if x.startswith(f"| `{name}` |"))
    _, *found = inspect.signature(getattr(plot, name)).parameters.values()
    assert all(x.kind is x.KEYWORD_ONLY for x in found)
    assert ["ax", *re.findall(r"`(\w+)`", row.rstrip("| ").split(" | ")[-1])] == [x.name for x in found]


# -- invalid input raises before a figure is opened

A_CURVE = functional.binary_curve(*ranking(30))
REFUSED = [
    *((f, args, {}, TypeError, "`curves` must be a Curve") for f in OF_CURVES.values() for args in ("abc", ["a"], 3)),
    (
        RECTANGLES,
        torch.ones(3),
        {},
        TypeError,
        r"got a tensor; pass `torch_ap.functional.binary_curve\(preds, target\)`",
    ),
    (RECTANGLES, BinaryAveragePrecision, {}, TypeError, "got the class BinaryAveragePrecision; pass an instance"),
    (plot.per_class, MeanAveragePrecision, {}, TypeError, "got the class MeanAveragePrecision; pass an instance"),
    (plot.f_beta_thresholds, A_CURVE, {"beta": 1e200}, ValueError, "so that its square is finite"),
    (plot.f_beta_thresholds, A_CURVE, {"beta": "x"}, ValueError, "`beta` must be a finite number above 0"),
    (plot.precision_recall, A_CURVE, {"iso_f": (0.5,), "beta": 1e200}, ValueError, "so that its square is finite"),
    (plot.precision_recall, A_CURVE, {"beta": "x"}, ValueError, "`beta` must be a finite number above 0"),
    (plot.precision_recall, A_CURVE, {"iso_f": 0.5}, TypeError, "`iso_f` must be a list of numbers"),
    (plot.precision_recall, A_CURVE, {"iso_f": "0.5"}, TypeError, "`iso_f` must be a list of numbers"),
    (plot.precision_recall, A_CURVE, {"band": 1}, ValueError, "`band` must be a bool"),
    (plot.precision_recall, A_CURVE, {"chance_level": "x"}, ValueError, "`chance_level` must be a bool"),
    (plot.precision_recall, A_CURVE, {"confidence_level": 2}, ValueError, "`confidence_level` must be"),
    (
        plot.precision_recall,
        A_CURVE,
        {"beta": 1.0, "recall": 0.9},
        ValueError,
        "`beta` and `recall` cannot be combined",
    ),
    (plot.hit_curve, A_CURVE, {"ideal": 3}, ValueError, "`ideal` must be a bool"),
    (plot.hit_curve, A_CURVE, {"random": None}, ValueError, "`random` must be a bool"),
    (plot.hit_curve, A_CURVE, {"fraction": 1}, ValueError, "`fraction` must be a bool"),
    (plot.per_class, A_CURVE, {"interval": "x"}, ValueError, "`interval` must be a bool"),
    (plot.iou_thresholds, detector(), {"areas": 3}, TypeError, "`areas` must be None or a list of names"),
    (plot.iou_thresholds, detector(), {"areas": "all"}, TypeError, "`areas` must be None or a list of names"),
    (plot.iou_thresholds, detector(), {"areas": ["x"]}, ValueError, "`areas` must be one of"),
    (plot.confusion_matrix, 3, {}, TypeError, "`matrix` must be a ConfusionMatrix, .* got 3"),
    (plot.confusion_matrix, MeanAveragePrecision, {}, TypeError, "`matrix` must be a ConfusionMatrix"),
    (plot.confusion_matrix, detector(), {"normalize": "rows"}, ValueError, "`normalize` must be one of 'true'"),
    (plot.f_beta_thresholds, A_CURVE, {"measure": "f1"}, ValueError, "`measure` must be one of 'f_beta'"),
    (plot.f_beta_thresholds, A_CURVE, {"mean": 1}, ValueError, "`mean` must be a bool"),
    (plot.precision_recall, A_CURVE, {"mean": "x"}, ValueError, "`mean` must be a bool"),
    *((plot.query_differences, x, {}, TypeError, "`runs` must be two metrics") for x in (3, None, run(1), iter([1]))),
    (plot.query_differences, [run(1), run(2)], {"query_names": 3}, TypeError, "`query_names` must be None, a list"),
]


@each("function, given, settings, kind, message", list(REFUSED))
def test_invalid_input_opens_no_figure(function, given, settings, kind, message):
    with pytest.raises(kind, match=message):
        function(given, **settings)
    assert not pyplot.get_fignums()


def test_a_weighted_band_opens_no_figure():
    scores, target = ranking(30)
    with pytest.raises(ValueError, match="`weights` cannot be combined with a confidence band"):
        plot.precision_recall(functional.binary_curve(scores, target, weights=torch.rand(30)), band=True)
    assert not pyplot.get_fignums()


def test_a_class_without_detections_has_no_chance_level(ax):
    metric = MeanAveragePrecision()
    boxes = torch.tensor([[0.0, 0, 10, 10], [20.0, 20, 30, 30]])
    preds = {"boxes": boxes[:1], "scores": torch.tensor([0.5]), "labels": torch.tensor([0])}
    metric.update([preds], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
    found, missed = metric.curve()
    assert float(found.chance_level) == 1
    assert np.isnan(float(missed.chance_level))
    drawn(plot.precision_recall(metric, ax=ax))
    assert all(np.isfinite(line.get_ydata()).all() for line in ax.lines)


def test_the_legend_of_several_systems_is_next_to_their_bars_in_order(ax):
    plot.per_class({"first": labels(3), "second": labels(3, seed=1), "third": labels(3, seed=2)}, ax=ax)
    drawn(ax)
    assert [x.split()[-1] for x in legend(ax)] == ["first", "second", "third"]
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1


def test_gains_are_drawn_from_recall_gain_0(ax):
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(60, generator=generator) < 0.3).long()
    curves = {
        name: functional.binary_curve(torch.randn(60, generator=generator) + shift * target, target)
        for name, shift in (("good", 2.0), ("poor", 0.5))
    }
    drawn(plot.precision_recall_gain(curves, ax=ax))
    gains = curves["good"].precision_recall_gain()
    x, y = ax.lines[1].get_data()
    inside = gains.recall_gain >= 0
    assert x[1:].tolist() == gains.recall_gain[inside].tolist()
    assert y[1:].tolist() == gains.precision_gain[inside].tolist()
    assert x[0] < 0
    assert ax.get_legend().get_texts()[0].get_text() == f"{float(gains.area):.3f}  good"
    no_positive = functional.binary_curve(torch.arange(3.0), torch.zeros(3).long())
    drawn(plot.precision_recall_gain(no_positive, ax=Figure().subplots()))
