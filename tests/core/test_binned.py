"""Average precision from counts per bin: bounds, learnt bins, and results that are equal for every split."""

import itertools
import warnings

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import torch_ap
from tests.support.each import each
from tests.support.modes import quiet, same
from tests.support.tolerances import REORDERED
from torch_ap import functional
from torch_ap.core.ranking import adaptive, bins
from torch_ap.functional import binary_average_precision

SLACK = REORDERED
ANY = {"tolerance": 1.0}


def drawn(generator, n=3000, dtype=torch.float32):
    target = (torch.rand(n, generator=generator) < 0.1).long()
    return torch.sigmoid(torch.randn(n, generator=generator) + 2 * target).to(dtype), target


def metric_of(preds, target, weights=None, sizes=None, **arguments):
    metric = torch_ap.BinaryAveragePrecision(**{**ANY, **arguments})
    first = 0
    for size in sizes or [len(preds)]:
        part = slice(first, first + size)
        metric.update(preds[part], target[part], None if weights is None else weights[part])
        first += size
    return metric.set_dtype(torch.float64)


# -- bounds


@pytest.mark.parametrize("ties", ["grouped", "expected", "optimistic", "pessimistic"])
@pytest.mark.parametrize("kind", ["equal", "edges", "adaptive"])
def test_bounds_are_valid_and_reached(kind, ties, generator):
    """Draw 1,000 random rankings in total, with partly tied scores; the value of some equals a bound."""
    reached = torch.zeros(2)
    for case in range(84):  # one of twelve tests
        n = int(torch.randint(1, 40, (), generator=generator))
        levels = 2 + case % 12
        preds = torch.randint(levels, (n,), generator=generator) / (levels - 1)
        if case % 2:
            preds = torch.rand(n, generator=generator)
        target = torch.randint(2, (n,), generator=generator)
        target[case % n] = 1
        given_bins = {"equal": 1 + case % 7 + 1, "edges": [0.3, 0.5, 0.85][: 1 + case % 3], "adaptive": "adaptive"}[
            kind
        ]
        metric = metric_of(preds, target, bins=given_bins, ties=ties, pilot=2, empty_target_action="nan")
        found, value = metric.bounds(), binary_average_precision(preds, target, ties=ties, dtype=torch.float64)
        assert found.low - SLACK <= value <= found.high + SLACK
        assert found.low - SLACK <= found.estimate <= found.high + SLACK
        assert metric.compute() == found.estimate
        reached += torch.tensor([value <= found.low + SLACK, value >= found.high - SLACK])
    assert (reached > 0).all()


def test_grouped_ties_may_exceed_every_order():
    """Three tied misses, then two tied hits: 2/5, while hits in any order give at most 13/40."""
    metric = metric_of(torch.tensor([0.9, 0.9, 0.9, 0.1, 0.1]), torch.tensor([0, 0, 0, 1, 1]), bins=2)
    assert metric.bounds().high == pytest.approx(2 / 5, abs=SLACK)


def test_bounds_of_averages_and_of_each_class(generator):
    preds, target = torch.rand(300, 3, generator=generator), torch.randint(3, (300,), generator=generator)
    for average in ("macro", "weighted", None):
        arguments = {"num_classes": 3, "average": average, "normalization": "none"}
        metric = torch_ap.MulticlassAveragePrecision(bins=50, **ANY, **arguments)
        metric.update(preds, target)
        value, found = functional.multiclass_average_precision(preds, target, **arguments), metric.bounds()
        assert found.low.shape == value.shape
        assert ((found.low < value) & (value < found.high)).all()
    labels = torch.randint(2, (300, 3), generator=generator)
    metric = torch_ap.MultilabelAveragePrecision(3, "micro", bins="adaptive", pilot=100, **ANY)
    metric.update(preds, labels)
    value, found = functional.multilabel_average_precision(preds, labels, 3, "micro"), metric.bounds()
    assert metric.sketch.shape == (1, bins.ADAPTIVE, adaptive.FIELDS)
    assert found.low < value < found.high


def test_weights_have_bounds(generator):
    for case in range(40):
        preds, target = drawn(generator, 200)
        weights = torch.randint(1, 9, (200,), generator=generator) / 8
        value = binary_average_precision(preds, target, weights=weights, dtype=torch.float64)
        for given_bins in (5 + case, "adaptive"):
            found = metric_of(preds, target, weights, [90, 110], bins=given_bins, pilot=50).bounds()
            assert found.low - SLACK <= value <= found.high + SLACK


def test_the_exact_state_has_bounds_without_width(generator):
    preds, target = drawn(generator)
    found = metric_of(preds, target, tolerance=0.1).bounds()
    assert found.low == found.high == found.estimate == binary_average_precision(preds, target, dtype=torch.float64)
    with pytest.raises(ValueError, match="`thresholds` must be None for bounds"):
        torch_ap.BinaryAveragePrecision(thresholds=5).bounds()


def test_the_interval_is_widened(generator):
    preds, target = drawn(generator)
    exact, coarse = metric_of(preds, target), metric_of(preds, target, bins=64)
    found, wide, bounds = exact.confidence_interval(), coarse.confidence_interval(), coarse.bounds()
    assert wide.low < found.low < found.high < wide.high
    assert wide.high - wide.low >= bounds.high - bounds.low
    assert wide.estimate == bounds.estimate
    assert "widened" in wide.reason
    half = metric_of(preds.half(), target, bins="half")
    same(half.confidence_interval(), metric_of(preds.half(), target).confidence_interval())
    summary = coarse.summary()
    assert (summary["ap_low"], summary["ap_high"]) == (wide.low, wide.high)
    assert summary["ap_chance"] == pytest.approx(float(exact.chance_level()))
    with pytest.raises(ValueError, match="`thresholds` and `bins` must be None for a comparison"):
        coarse.compare(coarse)


def test_a_wide_bound_warns(generator):
    preds, target = drawn(generator)
    metric = torch_ap.BinaryAveragePrecision(bins=8)
    metric.update(preds, target)
    with pytest.warns(UserWarning, match=r"uncertain by 0\.\d+, more than `tolerance`, 0.01: `bounds\(\)`"):
        metric.compute()
    with pytest.warns(UserWarning, match="more than `tolerance`"):
        binary_average_precision(preds, target, bins=8, tolerance=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric_of(preds, target, bins=8, tolerance=1).compute()


# -- one bin per number of 16 bits


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("convention", [{}, {"ties": "expected"}, {"top_k": 50}, {"interpolation": "all-points"}])
def test_half_is_exact_to_the_bit(dtype, convention, generator):
    for scale in (1, 1e-6, 3e4):
        preds, target = torch.randn(4000, generator=generator), torch.randint(2, (4000,), generator=generator)
        preds = (preds * scale).to(dtype)
        preds[:6] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 1, -1])
        metric = metric_of(preds, target, sizes=[1000, 3000], bins="half", **convention)
        exact = binary_average_precision(preds, target, dtype=torch.float64, **convention)
        assert metric.compute() == exact
        assert binary_average_precision(preds, target, bins="half", dtype=torch.float64, **convention) == exact


@pytest.mark.parametrize("average", ["none", "micro"])
def test_half_of_columns_is_exact_to_the_bit(average, generator):
    """Test classes and labels, weights of each score, and ignored targets."""
    preds = torch.randn(300, 4, generator=generator).half()
    target, classes = (torch.randint(-1, n, s, generator=generator) for n, s in ((2, (300, 4)), (4, (300,))))
    weights = torch.randint(1, 9, (300, 4), generator=generator) / 8
    kinds = [(torch_ap.MultilabelAveragePrecision, (target,)), (torch_ap.MultilabelAveragePrecision, (target, weights))]
    kinds += [(torch_ap.MulticlassAveragePrecision, (classes,))] * (average == "none")
    for kind, targets in kinds:
        found, exact = (
            kind(4, average, ignore_index=-1, **bins).set_dtype(torch.float64) for bins in ({"bins": "half"}, {})
        )
        for part in (slice(0, 100), slice(100, 300)):
            for metric in (found, exact):
                metric.update(preds[part], *(x[part] for x in targets))
        same(found.compute(), exact.compute())


def test_half_takes_both_dtypes_and_wider_ones_with_their_numbers(generator):
    preds, target = drawn(generator)
    parts = [preds.half(), preds.bfloat16(), preds.half().float(), preds.bfloat16().double()]
    metric = torch_ap.BinaryAveragePrecision(bins="half").set_dtype(torch.float64)
    for part in parts:
        metric.update(part, target)
    together = torch.cat([part.double() for part in parts])
    assert metric.compute() == binary_average_precision(together, target.repeat(4))
    curve, exact = metric.curve(), functional.binary_curve(together, target.repeat(4))
    assert torch.equal(curve.thresholds.double(), exact.thresholds)
    assert torch.equal(curve.hits, exact.hits)
    with pytest.raises(ValueError, match=r"`preds` must be numbers of float16 or bfloat16 .* got 0\.\d+ at index 0"):
        metric.update(torch.tensor([0.123456789]), torch.tensor([1]))


# -- invalid input


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"bins": 1}, "`bins` must be an int of at least 2, got 1"),
        ({"bins": 1 << 30}, "`bins` must be at most 16,777,216"),
        ({"bins": "float16"}, "`bins` must be one of 'half', 'adaptive' or an int"),
        ({"bins": []}, "`bins` as a list must contain finite numbers"),
        ({"bins": [0.1, torch.nan]}, "`bins` as a list must contain finite numbers"),
        ({"bins": torch.tensor([[0.1]])}, "`bins` as a tensor must be 1-D"),
        ({"bins": 0.5}, "`bins` must be None, 'half', 'adaptive', an int"),
        ({"bins": 8, "thresholds": 5}, "`bins` cannot be combined with `thresholds`"),
        ({"bins": "adaptive", "pilot": 1}, "`pilot` must be an int of at least 2"),
        ({"bins": 8, "tolerance": -1}, "`tolerance` must be a finite number"),
        ({"bins": 8, "interpolation": "101-point"}, "`bins` must be None or 'half' with `interpolation`"),
        ({"bins": 8, "top_k": 3, "denominator": "found"}, "`bins` must be None or 'half' with"),
    ],
)
def test_bins_that_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        torch_ap.BinaryAveragePrecision(**arguments)


def test_errors_of_scores_outside_name_the_alternative():
    with pytest.raises(
        ValueError, match=r"`preds` must be in \[0, 1\].*normalization='sigmoid'.*bins='adaptive'.*got 2.0"
    ):
        torch_ap.BinaryAveragePrecision(bins=8).update(torch.tensor([0.5, 2.0]), torch.tensor([0, 1]))


def test_a_state_that_cannot_fit_is_refused():
    for given_bins, size in (({"bins": 1 << 24}, 32), ({"bins": "adaptive"}, 40), ({"thresholds": 1 << 20}, 32)):
        (name,) = given_bins
        with pytest.raises(
            ValueError, match=rf"`{name}` must set a state that fits into memory, .* takes {size} bytes"
        ):
            torch_ap.MultilabelAveragePrecision(10**8, **given_bins)
    torch_ap.MultilabelAveragePrecision(10**8, "micro", bins="adaptive")  # one ranking


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("enters", ["update", "forward", "merge_state"])
def test_failures_while_items_are_counted_change_nothing(enters, weighted, generator, monkeypatch):
    preds, target = drawn(generator, 400)
    weights = torch.ones(400) if weighted else None
    metric, twin, other = (metric_of(preds, target, weights, [250, 150], bins="adaptive", pilot=200) for _ in range(3))

    def enter(metric):
        if enters == "merge_state":
            metric.merge_state(other)
        else:
            quiet(metric if enters == "forward" else metric.update, preds, target, weights)

    before = states(metric)
    with monkeypatch.context() as patched:
        patched.setattr(adaptive, "count_items", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            enter(metric)
    same(states(metric), before)
    enter(metric)
    enter(twin)
    same(states(metric), states(twin))


# -- splits


def states(metric):
    return {name: torch.cat(x) if isinstance(x, list) and x else x for name, x in metric.metric_state.items()}


@settings(max_examples=15)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(2, 300), st.booleans())
def test_any_batching_learns_the_same_bins(sizes, pilot, forward):
    generator = torch.Generator().manual_seed(0)
    n = sum(sizes)
    preds, target = torch.randn(n, generator=generator), torch.randint(2, (n,), generator=generator)
    whole = metric_of(preds, target, bins="adaptive", pilot=pilot)
    parts = torch_ap.BinaryAveragePrecision(bins="adaptive", pilot=pilot, **ANY).set_dtype(torch.float64)
    for x, y in zip(preds.split(sizes), target.split(sizes), strict=True):
        quiet(parts if forward else parts.update, x, y)
    assert parts.sketch[0, 0, 0] == whole.sketch[0, 0, 0]
    same(quiet(parts.compute), quiet(whole.compute))
    same(quiet(parts.bounds), quiet(whole.bounds))
    assert sum(map(len, parts.scores)) <= pilot


MODES = {
    "exact": {},
    "equal": {"bins": 64},
    "edges": {"bins": [0.2, 0.5, 0.9]},
    "thresholds": {"thresholds": 5},
    "adaptive": {"bins": "adaptive", "pilot": 40},
}
# (items, shard) of each update
UPDATES = st.lists(st.tuples(st.sampled_from([0, 1, 15, 30, 60]), st.integers(0, 3)), min_size=1, max_size=8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=20)
@given(UPDATES, st.permutations(range(4)), st.integers(1, 3), st.booleans())
def test_any_split_into_updates_and_merges_gives_the_same_bits(mode, weighted, updates, order, cut, travels):
    """The sums of weights are exact in float64. Shards that learn bins learn the same from any updates."""
    generator = torch.Generator().manual_seed(2)
    shards = [torch_ap.BinaryAveragePrecision(**MODES[mode], tolerance=1.0).set_dtype(torch.float64) for _ in order]
    items = [[] for _ in order]
    for size, shard in updates:
        target = torch.randint(2, (size,), generator=generator)
        preds = torch.rand(size, generator=generator).maximum(target * 0.3).half().float()
        batch = [preds, target] + [torch.randint(1, 9, (size,), generator=generator) / 8] * weighted
        items[shard].append(batch)
        shards[shard].update(*batch)
    if mode == "adaptive":
        parts = [
            metric_of(*map(torch.cat, zip(*x, strict=True)), **MODES[mode]) if x else shards[0]._emptied()
            for x in items
        ]
        expected = torch_ap.merge(parts)
    else:
        batches = [batch for some in items for batch in some]
        expected = metric_of(*map(torch.cat, zip(*batches, strict=True)), **MODES[mode])
    if travels:
        shards = [shard.from_bytes(shard.to_bytes()) for shard in shards]
    chosen = [shards[place] for place in order]
    found = torch_ap.merge([torch_ap.merge(chosen[:cut]), torch_ap.merge(chosen[cut:])])
    same(quiet(found.compute), quiet(expected.compute))
    if mode != "thresholds":
        same(quiet(found.bounds), quiet(expected.bounds))


@settings(max_examples=10)
@given(st.permutations(range(6)), st.integers(1, 5))
def test_merges_in_any_order_and_grouping_give_the_same_bits(order, cut):
    """Merge shards that learnt their own bins, that learnt none yet, and an empty one."""
    generator = torch.Generator().manual_seed(1)
    shards = []
    for size in (300, 40, 500, 0, 99, 260):
        preds, target = torch.randn(size, generator=generator), torch.randint(2, (size,), generator=generator)
        shards.append(metric_of(preds, target, bins="adaptive", pilot=100))
    expected = torch_ap.merge(shards)
    chosen = [shards[place] for place in order]
    found = torch_ap.merge([torch_ap.merge(chosen[:cut]), torch_ap.merge(chosen[cut:])])
    assert torch.equal(found.bounds().low, expected.bounds().low)
    assert torch.equal(found.bounds().high, expected.bounds().high)
    assert torch.equal(found.compute(), expected.compute())


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4), st.integers(2, 5))
@example([[], [0, 9]], 2)  # all bins are used
def test_sketches_add_up_over_the_ends_that_all_have(shards, size):
    """Compare with a loop over the bins of each sketch; sketches that have learnt nothing have no effect."""
    sketches = []
    for scores in shards:
        items = torch.tensor(scores, dtype=torch.float64)[:, None]
        sketch = adaptive.learn_bins(items, size) if scores else adaptive.empty_sketch(1, size)
        target = (items > 4).long()
        if scores:
            for weight in (None, items[:, 0] / 8):
                counts = adaptive.count_items(sketch, bins.Items(items, target, weight))
                sketch = adaptive.add_counts(sketch, counts)
        sketches.append(sketch)
    merged = adaptive.merge_sketches(torch.stack(sketches))
    ends = [[end for end in sketch[0, :, 0].tolist() if end != adaptive._UNUSED] for sketch in sketches]
    common = sorted(set.intersection(*map(set, filter(None, ends)))) if any(ends) else []
    assert merged[0, :, 0].tolist() == common + [adaptive._UNUSED] * (size - len(common))
    for place, end in enumerate(common):
        inside = [
            (sketch[:, at], adaptive.sketch_weights(sketch)[:, at])
            for sketch, known in zip(sketches, ends, strict=True)
            for at, key in enumerate(known)
            if max(x for x in common if x <= key) == end
        ]
        assert torch.equal(merged[:, place, 1:3], sum(x[:, 1:3] for x, _ in inside))
        assert torch.equal(adaptive.sketch_weights(merged)[:, place], sum(weights for _, weights in inside))
    assert adaptive.is_sketch(merged)


def test_learnt_bins_are_fine_where_ranks_weigh_most(generator):
    target = (torch.rand(100_000, generator=generator) < 0.02).long()
    logits = torch.randn(100_000, generator=generator) + 2 * target
    for preds in (logits, torch.sigmoid(logits - 12), -1 / logits.exp(), (logits * 1e6).long()):
        found = metric_of(preds, target, bins="adaptive", pilot=20_000).bounds()
        value = binary_average_precision(preds, target, dtype=torch.float64)
        assert found.low - SLACK <= value <= found.high + SLACK
        assert found.high - found.low < 0.01
        assert abs(found.estimate - value) < 1e-3


def test_shards_of_other_scores_share_common_bins(generator):
    """Bounds are valid even if the shards have no scores in common."""
    parts = [drawn(generator, 2000), drawn(generator, 2000)]
    parts[1] = parts[1][0] - 50, parts[1][1]
    merged = torch_ap.merge([metric_of(*part, bins="adaptive", pilot=500) for part in parts])
    value = binary_average_precision(*(torch.cat(x) for x in zip(*parts, strict=True)), dtype=torch.float64)
    found = merged.bounds()
    assert found.low <= value <= found.high


def test_keys_are_in_the_order_of_scores():
    scores = torch.tensor([-torch.inf, -3e300, -1.5, -5e-324, 0.0, 5e-324, 1.5, 3e300, torch.inf], dtype=torch.float64)
    keys = adaptive.score_keys(scores)
    assert (keys.diff() > 0).all()
    assert torch.equal(adaptive.scores_from_keys(keys), scores)
    assert adaptive.score_keys(torch.tensor([-0.0])) == adaptive.score_keys(torch.tensor([0.0]))


def test_sketches_that_updates_cannot_make(generator):
    metric = metric_of(*drawn(generator), bins="adaptive", pilot=500)
    assert adaptive.is_sketch(metric.sketch)
    assert adaptive.is_sketch(adaptive.empty_sketch(2, 8))
    for bin_, field, value in ((0, 0, 5), (7, 0, 5), (3, 1, -1), (-1, 3, -1), (2, 4, torch.tensor(torch.nan).double())):
        wrong = metric.sketch.clone()
        wrong[0, bin_, field] = value.view(torch.int64) if isinstance(value, torch.Tensor) else value
        assert not adaptive.is_sketch(wrong)
        state = {**metric.metric_state, "sketch": wrong}
        with pytest.raises(ValueError, match="`sketch` must contain ascending ends"):
            torch_ap.BinaryAveragePrecision(bins="adaptive", pilot=500).merge_state(state)


def test_the_curve_of_bins(generator):
    preds, target = drawn(generator)
    for given_bins in (32, [0.2, 0.7], "adaptive"):
        metric = metric_of(preds, target, bins=given_bins, pilot=100)
        curve = metric.curve()
        assert curve.items[-1] == 3000
        for threshold, hits, items in zip(curve.thresholds, curve.hits, curve.items, strict=True):
            reached = preds.double() >= threshold
            assert (hits, items) == (target[reached].sum(), reached.sum())
        assert curve.average_precision == metric.compute()


@pytest.mark.gpu
def test_bins_are_learnt_on_the_device(generator):
    preds, target = drawn(generator)
    here = metric_of(preds, target, sizes=[1000, 2000], bins="adaptive", pilot=500)
    there = torch_ap.BinaryAveragePrecision(bins="adaptive", pilot=500, **ANY).to("cuda").set_dtype(torch.float64)
    for part in (slice(1000), slice(1000, 3000)):
        there.update(preds[part].cuda(), target[part].cuda())
    assert torch.equal(there.sketch.cpu(), here.sketch)
    assert abs(there.compute().cpu() - here.compute()) < SLACK


@pytest.mark.parametrize("enters", ["merge_state", "load_state_dict", "from_bytes"])
def test_loaded_and_merged_states_restart_the_pilot(enters):
    """A metric that was used before learns its bins from as many items as a new one."""

    def metric(items):
        made = torch_ap.BinaryAveragePrecision(bins="adaptive", pilot=100)
        made.persistent(True)
        made.update(torch.arange(items) / items, torch.arange(items) % 2)
        return made

    used, other = metric(200), metric(50)
    if enters == "from_bytes":
        used = used.from_bytes(other.to_bytes())
    elif enters == "load_state_dict":
        used = metric(90)
        used.load_state_dict(other.state_dict())
    else:
        used.reset()
        used.merge_state(other)
    used.update(torch.arange(45) / 45, torch.arange(45) % 2)
    assert not adaptive.has_bins(used.sketch)
    assert sum(map(len, used.scores)) == 95


@each("ways", itertools.product(["update", "forward", "reset"], repeat=4))
def test_items_wait_until_they_exceed_the_pilot_in_every_order_of_calls(ways):
    metric, waiting, learnt = torch_ap.BinaryAveragePrecision(bins="adaptive", pilot=10), 0, False
    for way in ways:
        batch = () if way == "reset" else (torch.arange(4.0), torch.tensor([0, 1, 0, 1]))
        {"update": metric.update, "forward": metric, "reset": metric.reset}[way](*batch)
        waiting = waiting + 4 if batch else 0
        learnt = bool(batch) and (learnt or waiting > 10)
        waiting = 0 if waiting > 10 else waiting
        assert bool(adaptive.has_bins(metric.sketch)) == learnt
        assert learnt or sum(map(len, metric.scores)) == waiting
