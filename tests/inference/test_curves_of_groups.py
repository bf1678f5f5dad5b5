"""Items in groups: intervals of their curves by deletion of each group, and never of independent items."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import stats

from tests.inference.test_groups import explicit_count
from tests.inference.test_simultaneous import joint_level_by_definition, precision_by_definition
from tests.support import emulated
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap import BinaryAveragePrecision, MulticlassAveragePrecision, plot, report
from torch_ap.functional import binary_curve
from torch_ap.inference import compare_decisions, groups_at_threshold, precision_band
from torch_ap.inference.groups_at_threshold import ItemGroups
from torch_ap.inference.operating_point import CHOSEN
from torch_ap.inference.resampling import Resampling, generators
from torch_ap.plot.bars import IntervalOptions, class_bars
from torch_ap.reports.content import DASH
from torch_ap.reports.thresholds import curve_of_all, cuts_of_curve, sampled_numbers

_RATIOS = ("precision", "recall", "f_beta")


@pytest.fixture
def items():
    return draw_items()


def draw_items():
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


def explicit_ends(scores, target, ids, threshold, beta=1.0, confidence_level=0.95):
    """Return the ends of precision, recall and F_beta by deletion of each group, one group after the other."""
    out = []
    for name in _RATIOS:
        values = []
        for left_out in [None, *sorted(set(ids))]:
            rows = [(s >= threshold, t) for s, t, g in zip(scores, target, ids, strict=True) if g != left_out]
            tp, n, m = (sum(x) for x in zip(*((r and t, r, t) for r, t in rows), strict=True))
            ratios = {"precision": (tp, n), "recall": (tp, m), "f_beta": ((1 + beta**2) * tp, beta**2 * m + n)}
            values.append(ratios[name][0] / ratios[name][1] if ratios[name][1] else math.nan)
        weights = []
        for group in sorted(set(ids)):
            own = [(s >= threshold, t) for s, t, g in zip(scores, target, ids, strict=True) if g == group]
            n, m = sum(r for r, _ in own), sum(t for _, t in own)
            weights.append({"precision": n, "recall": m, "f_beta": beta**2 * m + n}[name])
        estimate, kept = values[0], np.array(values[1:])[_has_objects(scores, target, ids, threshold)]
        count = len(kept)
        effective = sum(weights) ** 2 / sum(w**2 for w in weights)
        error = math.sqrt((count - 1) / count * ((kept - kept.mean()) ** 2).sum())
        half = stats.t.ppf((1 + confidence_level) / 2, effective - 1) * error / (estimate * (1 - estimate))
        center = math.log(estimate / (1 - estimate))
        out.append([1 / (1 + math.exp(-x)) for x in (center - half, center + half)])
    return out


def _has_objects(scores, target, ids, threshold):
    """Return whether each group has a positive or a retrieved item; the others do not change any ratio."""
    rows = list(zip(scores, target, ids, strict=True))
    return [any(t or s >= threshold for s, t, g in rows if g == group) for group in sorted(set(ids))]


@pytest.mark.parametrize(
    "wanted", [{}, {"beta": 2.0}, {"beta": 0.5, "precision": 0.6}, {"recall": 0.8}, {"threshold": 1.0}]
)
def test_operating_points_equal_deletion_of_each_group(items, metric, independent, wanted):
    point, other = (x.curve().operating_point(**wanted, confidence_level=0.9) for x in (metric, independent))
    assert point.method == "jackknife"
    assert (CHOSEN in point.reason) == (not wanted.keys() & {"precision", "recall", "threshold"})
    beta = wanted.get("beta", 1.0)
    expected = explicit_ends(*(x.tolist() for x in items), float(point.threshold), beta, 0.9)
    for name, ends in zip(_RATIOS, expected, strict=True):
        assert getattr(point, name) == getattr(other, name)
        found = [float(getattr(point, f"{name}_{end}")) for end in ("low", "high")]
        assert found == pytest.approx(ends, rel=REORDERED)
        width, narrow = (getattr(x, f"{name}_high") - getattr(x, f"{name}_low") for x in (point, other))
        assert width > narrow  # the effects of the groups make the items dependent


def check_two_processes(rank):
    items = draw_items()
    part = slice(0, 135) if rank == 0 else slice(135, 400)  # both have items of group 13
    for sync in ("gather", "exchange"):
        metric = BinaryAveragePrecision(sync=sync)
        scores, target, patient = (x[part] for x in items)
        metric.update(scores, target, groups=patient)
        point = metric.curve().operating_point(threshold=1.0)
        ends = [[float(getattr(point, f"{name}_{end}")) for end in ("low", "high")] for name in _RATIOS]
        for found, expected in zip(ends, explicit_ends(*(x.tolist() for x in items), 1.0), strict=True):
            assert found == pytest.approx(expected, rel=REORDERED), sync


def test_two_processes(ranks):
    ranks(check_two_processes)


def test_groups_of_one_item_agree_with_the_posteriors(items, independent):
    scores, target, _ = items
    singles = BinaryAveragePrecision()
    singles.update(scores, target, groups=torch.randperm(400, generator=torch.Generator().manual_seed(1)))
    for wanted in ({"precision": 0.7}, {"threshold": 1.0}):
        point, other = (x.curve().operating_point(**wanted) for x in (singles, independent))
        for name in (f"{x}_{end}" for x in _RATIOS for end in ("low", "high")):
            # two methods, the logit interval of the jackknife and the posterior, differ by a tenth of the width
            assert float(getattr(point, name)) == pytest.approx(float(getattr(other, name)), abs=0.015)


def test_a_given_threshold_counts_the_items_that_reach_it(items, metric, independent):
    scores, target, _ = items
    for x in (metric, independent):
        for threshold in (-100.0, 0.3, float(scores[7]), 100.0, math.inf):
            point = x.curve().operating_point(threshold=threshold)
            reached = scores >= threshold
            assert (int(point.tp), int(point.fp)) == (
                int((reached & (target == 1)).sum()),
                int((reached & (target == 0)).sum()),
            )
            assert float(point.threshold) == pytest.approx(threshold, rel=SINGLE)
            assert float(point.recall_low) <= float(point.recall) <= float(point.recall_high)
            assert ("no item reaches the threshold" in point.reason) == (not reached.any())
            assert math.isnan(point.precision_low) == (not reached.any())
    for other in ({"precision": 0.5}, {"recall": 0.5}, {"method": "bootstrap"}):
        with pytest.raises(ValueError, match="`threshold` cannot be combined with"):
            independent.curve().operating_point(threshold=0.5, **other)
    with pytest.raises(ValueError, match="`threshold` must be a number other than NaN, got nan"):
        independent.curve().operating_point(threshold=math.nan)


@pytest.mark.parametrize(("dtype", "threshold"), [(torch.int64, 1.5), (torch.int64, -math.inf), (torch.float16, 0.9)])
def test_a_given_threshold_is_not_rounded_to_the_dtype_of_the_scores(items, dtype, threshold):
    scores, target, patient = items
    scores = scores.to(dtype)
    scores[:40] = torch.tensor(0.9).to(dtype)  # half precision rounds 0.9 down
    points = []
    for preds in (scores, scores.double()):
        metric = BinaryAveragePrecision(validate_args=dtype.is_floating_point)
        metric.update(preds, target, groups=patient)
        points.append(metric.curve().operating_point(threshold=threshold))
    assert float(points[0].threshold) == pytest.approx(threshold, rel=SINGLE)
    for name in ("tp", "fp", *(f"{x}_{end}" for x in _RATIOS for end in ("low", "high"))):
        assert float(getattr(points[0], name)) == pytest.approx(float(getattr(points[1], name)), nan_ok=True)


def test_ratios_of_0_and_1_have_one_sided_intervals(items, metric):
    effective = torch.bincount(items[2][items[1] == 1]).double()
    effective = float(effective.sum() ** 2 / effective.square().sum())
    every, none = (metric.curve().operating_point(threshold=x) for x in (-100.0, 100.0))
    bound = 0.05 ** (1 / effective)
    assert (float(every.recall_low), float(every.recall_high)) == pytest.approx((bound, 1.0))
    assert (float(none.recall_low), float(none.recall_high)) == pytest.approx((0.0, 1 - bound))


def test_one_group_has_no_interval(items):
    scores, target, _ = items
    metric = BinaryAveragePrecision()
    metric.update(scores, target, groups=torch.zeros(400, dtype=torch.int64))
    point = metric.curve().operating_point(recall=0.8)
    assert point.reason.startswith("precision, recall, f_beta: fewer than two groups, or one with most hits")
    assert all(math.isnan(getattr(point, f"{x}_{end}")) for x in _RATIOS for end in ("low", "high"))


def test_equal_groups_have_no_width_with_a_reason():
    metric = BinaryAveragePrecision()
    metric.update(
        torch.tensor([3.0, 2, 1] * 12), torch.tensor([1, 0, 1] * 12), groups=torch.arange(12).repeat_interleave(3)
    )
    point = metric.curve().operating_point(threshold=2.0)
    assert float(point.precision_low) == float(point.precision) == float(point.precision_high) == 0.5
    assert point.reason == "precision, recall, f_beta: equal in all groups: the interval has no width"


def test_few_groups_warn(items):
    scores, target, patient = items
    metric = BinaryAveragePrecision()
    metric.update(scores[:60], target[:60], groups=patient[:60])
    with pytest.warns(UserWarning, match="groups with hits, but coverage is measured from 10 on"):
        point = metric.curve().operating_point(threshold=1.0)
    assert "the interval may be too narrow" in point.reason


def test_few_groups_at_or_above_the_threshold_warn():
    """All 40 groups have a hit, but the items of six reach the threshold."""
    scores = torch.arange(40).repeat_interleave(2)
    metric = BinaryAveragePrecision()
    metric.update(scores / 40, torch.arange(80) % 2, groups=scores)
    with pytest.warns(
        UserWarning, match="6 groups with items at or above the threshold, but coverage is measured from"
    ):
        metric.curve().operating_point(threshold=34 / 40)
    assert metric.curve().operating_point(threshold=30 / 40).reason.startswith("precision: equal in all groups")


def test_two_groups_of_equal_weight_by_other_counts():
    """F_2 weighs a positive four times as much as a retrieved item: 4 + 4 = 8 + 0."""
    metric = BinaryAveragePrecision()
    scores, target = torch.tensor([3.0, 3, 3, 3, 0, 0]), torch.tensor([1, 0, 0, 0, 1, 1])
    metric.update(scores, target, groups=torch.tensor([0, 0, 0, 0, 1, 1]))
    with pytest.warns(UserWarning, match="2 groups with hits"):
        point = metric.curve().operating_point(threshold=2.0, beta=2.0)
    assert float(point.f_beta_low) < float(point.f_beta) < float(point.f_beta_high)


def test_other_methods_and_weights_have_no_interval_of_groups(items, metric):
    scores, target, patient = items
    for method in ("posterior", "bootstrap"):
        with pytest.raises(ValueError, match=f"`method` must be 'jackknife' with `groups`, got '{method}'"):
            metric.curve().operating_point(method=method)
    weighted = BinaryAveragePrecision()
    weighted.update(scores, target, weights=torch.ones(400), groups=patient)
    point = weighted.curve().operating_point()
    assert point.reason == "no interval exists with weights: its formulas count items"
    assert math.isnan(point.precision_low)


def test_positives_without_a_group_have_no_interval(items):
    scores, target, patient = items
    metric = BinaryAveragePrecision(num_relevant=300)
    metric.update(scores, target, groups=patient)
    point = metric.curve().operating_point(threshold=1.0)
    assert point.reason == "positives that are not among the items have no group: the ends are NaN"
    assert float(point.recall) == float(point.tp) / 300
    assert math.isnan(point.recall_low)


def test_order_batches_and_names_of_groups_do_not_matter(items, metric):
    scores, target, patient = items
    order = torch.randperm(400, generator=torch.Generator().manual_seed(2))
    wanted = metric.curve().operating_point(recall=0.8)
    parts = [BinaryAveragePrecision() for _ in range(2)]
    for part, rows in zip(parts, order.split(200), strict=True):
        for row in rows.split(70):
            part.update(scores[row], target[row], groups=(patient[row] * 10**12 - 5).to(torch.int64))
    parts[0].merge_state(parts[1])
    found = parts[0].curve().operating_point(recall=0.8)
    for name in (f"{x}_{end}" for x in _RATIOS for end in ("low", "high")):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(wanted, name)), rel=REORDERED)


def test_operating_points_of_classes_use_their_own_items(items, classes):
    scores, target, patient = items
    preds = torch.stack([-scores, scores, scores.flip(0)], 1)
    labels = target + (torch.arange(400) % 7 == 0)
    for place, curve in enumerate(classes[0].curve()):
        single = BinaryAveragePrecision()
        single.update(preds[:, place], labels == place, groups=patient)
        assert curve.operating_point(recall=0.5) == single.curve().operating_point(recall=0.5)


def test_sampled_thresholds_equal_single_ones(metric, monkeypatch):
    curve = metric.curve()
    thresholds = curve.thresholds[::37]
    each = [curve.operating_point(threshold=float(x)) for x in thresholds]
    for cells in (1 << 22, 1):
        monkeypatch.setattr(groups_at_threshold, "_MOST_CELLS", cells)
        low, high = curve.groups.ends(thresholds, float(curve.m), 1.0, 0.95)
        for place, point in enumerate(each):
            for name, ends in (("low", low), ("high", high)):
                expected = [float(getattr(point, f"{x}_{name}")) for x in _RATIOS]
                assert ends[:, place].tolist() == pytest.approx(expected, nan_ok=True, rel=REORDERED)


def explicit_draws(scores, target, groups, levels, count):
    """Return the precision at each level under random weights of the groups, walking down the items: (B, L)."""
    draws = []
    for rng in generators(Resampling(count).seed(), range(count)):
        weights = torch.from_numpy(rng.standard_exponential(int(groups.max()) + 1))[groups]
        draws.append([precision_by_definition(scores, target, weights, float(x)) for x in levels])
    return torch.tensor(draws, dtype=torch.float64)


@pytest.mark.parametrize("distinct", [4, 300])
def test_bands_by_definition(distinct):
    generator = torch.Generator().manual_seed(1)
    groups, levels = torch.randint(0, 12, (60,), generator=generator), torch.tensor([0.4, 0.55, 0.8, 1.0])
    scores = torch.randint(0, distinct, (60,), generator=generator).double()
    target = (torch.rand(60, generator=generator) < 0.2 + 0.4 * scores / distinct).long()
    draws = explicit_draws(scores, target, groups, levels, 40)
    count, share = explicit_count(target, groups), float(target.double().mean())
    shares = explicit_draws(scores * 0, target, groups, torch.ones(1), 40)
    error = torch.cat([draws, shares], 1).std(0) * math.sqrt((count + 1) / (count - 1))
    values = [precision_by_definition(scores, target, torch.ones(60), float(x)) for x in levels]
    values = torch.tensor([*values, share], dtype=torch.float64)
    for simultaneous, level in ((False, 0.9), (True, joint_level_by_definition(draws.T.numpy(), 0.9))):
        band = precision_band(
            scores, target, levels, groups=groups, confidence_level=0.9, simultaneous=simultaneous, n_resamples=40
        )
        assert (band.method, band.confidence_level, band.reason) == ("dirichlet", 0.9, "")
        torch.testing.assert_close(band.estimate, values[:-1], rtol=REORDERED, atol=0)
        torch.testing.assert_close(band.standard_error, error[:-1], rtol=REORDERED, atol=REORDERED)
        half = stats.t.isf((1 - level) / 2, count - 1) * error / (values * (1 - values))
        low, high = (torch.sigmoid(torch.logit(values) + x) for x in (-half, half))
        low[-2] = torch.minimum(low[-2], low[-1])  # below the last hit but one
        within = REORDERED + (0.03 if simultaneous else 0)  # random draws
        torch.testing.assert_close(band.low, low[:-1], rtol=within, atol=REORDERED)
        torch.testing.assert_close(band.high, high[:-1], rtol=within, atol=REORDERED)


def test_bands_where_the_precision_is_1_or_0():
    """Without misses down to a level the lower end depends on its groups; recall of detectors may end below 1."""
    target = torch.tensor([1] * 12 + [0, 1] * 14)
    scores, groups = torch.arange(40, 0, -1.0), torch.arange(40) % 4
    levels = torch.tensor([0.0, 8 / 26, 0.9], dtype=torch.float64)
    with pytest.warns(UserWarning, match="4 groups with hits"):
        band = precision_band(scores, target, levels, groups=groups)
    assert band.high[:2].tolist() == [1, 1]
    # one hit of one group, and two hits of each of four groups
    assert band.low[:2].tolist() == pytest.approx([0.05, 0.05 ** (1 / 4)])
    curve = binary_curve(scores, target)
    whole = ItemGroups(scores, target == 1, groups, 4, torch.tensor([10, 5, 10, 5]))
    with pytest.warns(UserWarning, match="4 groups with ground truths"):
        missed = dataclasses.replace(curve, m=torch.tensor(30), groups=whole).band(torch.tensor([0.5, 0.95]))
    assert (missed.estimate[1], missed.low[1]) == (0, 0)
    assert 0 < missed.high[1] < 1
    other = dataclasses.replace(curve, m=torch.tensor(31), groups=whole).band(torch.tensor([0.5]))
    assert bool(other.low.isnan())
    assert "positives that are not among the items have no group" in other.reason


def test_the_first_and_the_last_hit_of_a_band():
    """A larger sample may have hits above all misses, and hits below all misses."""
    target, groups = torch.tensor([0] + [1] * 30 + [0] * 29), torch.arange(60) // 3
    band = precision_band(torch.arange(60, 0, -1.0), target, torch.tensor([0.0, 0.5, 0.99]), groups=groups)
    assert band.high[0] == 1
    assert band.high[1] < 1
    share = precision_band(torch.zeros(60), target, torch.tensor([1.0]), groups=groups)
    assert float(band.low[2]) == pytest.approx(float(share.low[0]))
    assert band.low[1] > share.low[0]


def test_levels_without_a_spread_count_as_one():
    """A perfect start adds nothing to the number of statements."""
    generator = torch.Generator().manual_seed(0)
    target, groups = (torch.rand(400, generator=generator) < 0.5).long(), torch.arange(400) // 10
    scores = torch.randn(400, generator=generator) + 3 * target
    perfect, level = torch.linspace(0.01, 0.05, 30), torch.tensor([0.9])
    found = [
        precision_band(scores, target, x, groups=groups, simultaneous=True)
        for x in (level, torch.cat([perfect, level]))
    ]
    assert float(found[1].standard_error[0]) == 0
    factors = [float((torch.logit(x.high) - torch.logit(x.estimate))[-1]) for x in found]
    # two independent statements instead of one
    wanted = stats.t.isf((1 - 0.95**0.5) / 2, 39) / stats.t.isf(0.025, 39)
    assert factors[1] / factors[0] == pytest.approx(wanted, rel=0.03)  # random draws


def test_bands_at_once_of_high_precision_have_a_reason():
    generator = torch.Generator().manual_seed(0)
    target, groups = (torch.rand(400, generator=generator) < 0.3).long(), torch.arange(400) // 10
    noise = torch.randn(400, generator=generator)
    for distance, expected in ((1, ""), (4, "high precision: likely too narrow")):
        for simultaneous in (False, True):
            band = precision_band(noise + distance * target, target, groups=groups, simultaneous=simultaneous)
            assert (band.estimate.mean() > 0.8) == bool(expected)
            assert band.reason.startswith(expected if simultaneous else "")
            assert bool(band.reason) == (simultaneous and bool(expected))


def test_levels_of_any_dtype():
    scores, target = torch.arange(20, 0, -1.0), torch.tensor([1] * 3 + [0] * 3 + [1] * 7 + [0] * 7)
    groups = torch.arange(20)
    for dtype in (torch.float16, torch.float32, torch.float64):
        for simultaneous in (False, True):
            level = torch.tensor([0.3], dtype=dtype)
            band = precision_band(scores, target, level, groups=groups, simultaneous=simultaneous)
            assert float(band.estimate) == 1
        assert float(precision_band(scores, target, level, simultaneous=True).estimate) == 1


def test_bands_without_an_interval():
    scores, groups = torch.arange(40.0), torch.arange(40) // 2
    for target, text in ((torch.zeros(40), "no hits"), (torch.ones(40), "no misses"), (torch.ones(0), "no hits")):
        size = len(target)
        band = precision_band(scores[:size], target.long(), torch.tensor([0.5]), groups=groups[:size])
        assert bool(band.low.isnan())
        assert text in band.reason
    curve = binary_curve(torch.arange(40.0), torch.zeros(40, dtype=torch.int64))
    whole = ItemGroups(torch.arange(40.0), torch.zeros(40, dtype=torch.bool), groups, 20, torch.ones(20).long())
    for items, simultaneous in ((whole, False), (whole, True), (None, True)):  # a detector that finds no object
        missed = dataclasses.replace(curve, m=torch.tensor(20), groups=items)
        band = missed.band(torch.tensor([0.1, 0.5]), simultaneous=simultaneous)
        assert (band.estimate.tolist(), bool(band.low.isnan().all())) == ([0, 0], True)
        assert band.reason == "no hit is retrieved: the ends are NaN"
    alike = precision_band(scores * 0, torch.arange(40) % 2, torch.tensor([0.5]), groups=groups)
    assert (float(alike.low), float(alike.estimate), float(alike.high)) == (0.5, 0.5, 0.5)
    assert "no width" in alike.reason
    single = precision_band(scores, torch.arange(40) % 2, torch.tensor([0.5]), groups=torch.arange(40))
    assert single.low < single.estimate < single.high


def test_bands_use_the_groups(metric, independent, items):
    scores, target, patient = items
    band, other = (x.curve().band(n_resamples=100) for x in (metric, independent))
    assert band == precision_band(scores, target, groups=patient.tolist(), n_resamples=100)
    middle = slice(30, 80)
    assert (band.high - band.low)[middle].mean() > 1.2 * (other.high - other.low)[middle].mean()
    assert band.reason == ""
    at_once = metric.curve().band(simultaneous=True, n_resamples=100)
    assert ((at_once.high - at_once.low)[middle] > (band.high - band.low)[middle]).all()
    places = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    shuffled = precision_band(scores[places], target[places], groups=patient[places], n_resamples=100)
    torch.testing.assert_close(shuffled.low, band.low, rtol=REORDERED, atol=REORDERED)
    for rule in ({"design": "stratified"}, {"groups": patient[:9]}, {"groups": patient.double()}):
        with pytest.raises((ValueError, TypeError), match=f"`{next(iter(rule))}`"):
            precision_band(scores, target, **{"groups": patient, **rule})
    alone = precision_band(scores, target, groups=patient * 0)
    assert bool(alone.low.isnan().all())
    assert "fewer than two groups" in alone.reason
    with pytest.raises(ValueError, match="`design`"):
        metric.curve().band(design="stratified")


@pytest.mark.gpu
def test_bands_of_a_device(items):
    scores, target, patient = items
    expected = precision_band(scores, target, groups=patient, n_resamples=20)
    with emulated.device():
        metric = BinaryAveragePrecision().to("cuda")
        metric.update(*(x.to("cuda") for x in (scores, target)), groups=patient.to("cuda"))
        band = metric.curve().band(n_resamples=20)
        assert band.low.device.type == "cuda"
        found = band.to("cpu")
    for name in ("estimate", "low", "high", "standard_error"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=REORDERED, atol=REORDERED)


def test_plots_and_pages_have_the_band(metric, tmp_path):
    figure = pytest.importorskip("matplotlib.figure")
    for simultaneous in (False, True):
        ax = plot.precision_recall(metric, band=True, simultaneous=simultaneous, ax=figure.Figure().subplots())
        (area,) = ax.collections
        band = metric.curve().band(simultaneous=simultaneous)
        drawn = area.get_paths()[0].vertices
        for end in (band.low, band.high):
            assert np.isin(end.numpy(), drawn[:, 1]).all()
        page = report(metric, tmp_path / "page.html", simultaneous=simultaneous).read_text()
        assert ("which contains the whole curve" in page) == simultaneous
    single = BinaryAveragePrecision()
    single.update(torch.arange(20.0), torch.arange(20) % 2, groups=torch.zeros(20, dtype=torch.int64))
    with pytest.warns(UserWarning, match="`band`: fewer than two groups"):
        plot.precision_recall(single, band=True, ax=figure.Figure().subplots())
    assert "confidence band" not in report(single, tmp_path / "single.html").read_text()
    with pytest.raises(ValueError, match="`simultaneous` requires two hits and a miss, two groups of items"):
        report(single, tmp_path / "single.html", simultaneous=True)


def test_bars_have_the_intervals_of_the_groups(classes):
    options = IntervalOptions(0.95, Resampling())
    expected = classes[0].confidence_interval()
    for metric in classes:
        bars = class_bars(metric, None, options).values()
        assert [x.low for x in bars] == expected.low.tolist()
        assert [x.high for x in bars] == expected.high.tolist()
        assert all(x.low != x.low for x in class_bars(metric.curve(), None, options).values())


def test_pages_use_the_groups(metric, independent, classes, tmp_path):
    page, other = (report(x, tmp_path / f"{i}.md").read_text() for i, x in enumerate((metric, independent)))
    assert "use the groups of the items, and take the threshold as fixed" in page
    assert "| 400 | 40 |" in page  # items and groups
    assert "take the threshold as fixed" in other
    assert "groups" not in other
    (row,) = [x for x in page.splitlines() if x.startswith("| precision ≥ 0.9")]
    point = metric.curve().operating_point(precision=0.9)
    assert f"{point.recall:.3f} ({point.recall_low:.3f}{DASH}{point.recall_high:.3f})" in row
    html = report(metric, tmp_path / "page.html").read_text()
    assert "confidence band of precision, level by level" in html
    cuts = sampled_numbers(cuts_of_curve(metric.curve()), 1000, 0.95)
    best = metric.curve().operating_point()
    place = cuts["best"][0]
    ends = [getattr(best, f"{x}_{end}") for x in _RATIOS for end in ("low", "high")]
    assert [row[place] for row in cuts["ends"]] == pytest.approx([float(x) for x in ends], abs=1e-3)  # 3 digits
    each = curve_of_all(classes[0].curve())
    assert len(each.groups.scores) == 1200
    assert not np.isnan(sampled_numbers(cuts_of_curve(each), 20, 0.95)["ends"]).all()


def test_comparisons_swap_the_decisions_of_groups(items, metric, independent, tmp_path):
    scores, target, patient = items
    grouped, plain = BinaryAveragePrecision(), BinaryAveragePrecision()
    grouped.update(scores + target, target, groups=patient)
    plain.update(scores + target, target)
    page, other = (
        report(a, tmp_path / f"{i}.md", other=b).read_text()
        for i, (a, b) in enumerate([(metric, grouped), (independent, plain)])
    )
    least = [x.curve().operating_point().threshold for x in (metric, grouped)]
    decisions = scores >= least[0], scores + target >= least[1]
    for text, groups in ((page, patient), (other, None)):
        (row,) = [x for x in text.splitlines() if x.startswith("| highest F1: recall ")]
        p = compare_decisions(*decisions, target, measure="recall", n_resamples=1000, groups=groups).p_value
        assert float(row.split(" | ")[6]) == pytest.approx(float(p), abs=5e-3)  # two digits
        assert ("swaps the decisions on all items of a group together" in text) == (groups is not None)


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
