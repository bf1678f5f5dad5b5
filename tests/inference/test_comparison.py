import json
import math
import warnings
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.autograd import forward_ad

from benchmarks.coverage import differences, many_systems, systems
from tests.support import oracles_inference as oracles
from tests.support.each import each
from tests.support.paths import DATA
from tests.support.tolerances import DOZENS_OF_TERMS, FEW_TERMS, LAST_BITS, REORDERED, SOLVED
from torch_ap import BinaryAveragePrecision, MultilabelAveragePrecision, RetrievalMAP, inference
from torch_ap.cli.compare_runs import Settings, compare_with_baseline
from torch_ap.core.ranking import builders
from torch_ap.functional import binary_average_precision
from torch_ap.inference import (
    average_precision_at_k_interval,
    average_precision_interval,
    compare_rankings,
    compare_rankings_above_chance,
    compare_rankings_at_k,
    compare_systems,
    influence,
    normalized_average_precision_interval,
    precision_at_k_interval,
    precision_recall_gain_interval,
    recall_at_k_interval,
)
from torch_ap.inference.comparison import METHODS, swapped_differences
from torch_ap.inference.resampling import Resampling
from torch_ap.retrieval.runs.names import Result

REFERENCE = json.loads((DATA / "inference_reference.json").read_text())["paired_influence"]
F = torch.float64


def pair(n=400, share=0.15, shift=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < share).long()
    shared = torch.randn(n, generator=generator, dtype=F) + target
    noise = torch.randn(2, n, generator=generator, dtype=F)
    return shared + noise[0] + shift * target, shared + noise[1], target


def test_reference_values():
    a, b = (torch.tensor(REFERENCE[f"scores_{x}"], dtype=F) for x in "ab")
    found = compare_rankings(a, b, torch.tensor(REFERENCE["targets"]), method="influence", design="stratified")
    assert found.difference == pytest.approx(REFERENCE["delta"], abs=FEW_TERMS)
    assert found.standard_error == pytest.approx(REFERENCE["se"], abs=FEW_TERMS)
    assert found.difference / found.standard_error == pytest.approx(REFERENCE["z"], abs=SOLVED)
    plain = compare_rankings(a, b, torch.tensor(REFERENCE["targets"]), method="influence-z", design="stratified")
    assert plain.p_value == pytest.approx(2 * stats.norm.sf(REFERENCE["z"]), rel=SOLVED)
    least = min(sum(REFERENCE["targets"]), len(REFERENCE["targets"]) - sum(REFERENCE["targets"]))
    assert found.p_value == pytest.approx(2 * stats.t.sf(REFERENCE["z"], least - 1), rel=SOLVED)
    half = stats.t.isf(0.025, least - 1) * REFERENCE["se"]
    assert (found.low, found.high) == pytest.approx((REFERENCE["delta"] - half, REFERENCE["delta"] + half))


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.sampled_from([-1.0, 0.0, 3.0]), st.integers(0, 1)),
        min_size=4,
        max_size=12,
    ).filter(lambda rows: 2 <= sum(y for *_, y in rows) <= len(rows) - 2)
)
@settings(deadline=None, max_examples=60)
def test_jackknife_leaves_one_out(rows):
    a, b, target = (list(x) for x in zip(*rows, strict=True))
    gaps = np.array(
        [float(x - y) for x, y in zip(oracles.without_each(a, target), oracles.without_each(b, target), strict=True)]
    )
    kind = np.array(target, bool)
    tensors = (torch.tensor(a, dtype=F), torch.tensor(b, dtype=F), torch.tensor(target))
    parts = {"stratified": (gaps[kind], gaps[~kind]), "iid": (gaps,)}
    for design, samples in parts.items():
        wanted = sum((len(x) - 1) / len(x) * ((x - x.mean()) ** 2).sum() for x in samples)
        found = compare_rankings(*tensors, design=design, method="jackknife")
        assert found.difference == pytest.approx(float(oracles.grouped(a, target) - oracles.grouped(b, target)))
        assert found.standard_error**2 == pytest.approx(wanted, abs=FEW_TERMS)


@pytest.mark.parametrize("design", ["stratified", "iid"])
@pytest.mark.parametrize("method", METHODS)
def test_methods_agree_on_clear_differences(method, design):
    a, b, target = pair(1500, shift=0.6)
    base = compare_rankings(a, b, target, method="influence", design=design)
    found = compare_rankings(a, b, target, method=method, design=design)
    assert found.difference == base.difference
    assert found.value_a == pytest.approx(float(binary_average_precision(a, target)))
    # 1,000 to 2,000 resamples determine a standard deviation to 2%, and formulas differ
    assert found.standard_error == pytest.approx(float(base.standard_error), rel=0.1)
    assert found.low < found.difference < found.high
    assert found.p_value < 0.05
    back = compare_rankings(b, a, target, method=method, design=design)
    assert back.difference == -found.difference
    # other resamples, as the systems are in another order
    assert back.p_value == pytest.approx(float(found.p_value), abs=0.02)


@pytest.mark.parametrize("design", ["iid", "stratified"])
@pytest.mark.parametrize(("size", "distance"), [((40, 3), 2.0), ((30, 10), 1.0), ((30, 27), 0.5), ((12, 6), 4.0)])
def test_p_values_equal_the_benchmark(design, size, distance):
    """The benchmark's table has separate code for the formulas of many rankings."""
    a, b, relevant = systems.pair(design, size, distance, 0.5, True, 8, torch.Generator().manual_seed(1))
    for method, wanted in many_systems.p_values(a, b, relevant, design).items():
        each = zip(a, b, relevant.long(), strict=True)
        found = [compare_rankings(*items, method=method, design=design).p_value for items in each]
        assert found == pytest.approx(wanted.tolist(), nan_ok=True, rel=SOLVED, abs=REORDERED)


def test_the_default_keeps_its_size_and_finds_more_at_high_ap_with_few_hits():
    rejected = {}
    for better in (False, True):
        generator = torch.Generator().manual_seed(2)
        found = systems.told_apart("stratified", (100, 10), 3.0, 0.0, better, repetitions=2000, generator=generator)
        rejected |= {(method, better): share.value for (method,), share in found.items()}
    assert 0.03 < rejected["logit", False] < 0.065
    assert rejected["jackknife", False] < 0.01
    assert rejected["logit", True] > 3 * rejected["influence", True]


def test_an_ap_of_1_is_compared():
    """The logit of 1 has no standard error, so one more hit counts as not found."""
    n = torch.arange(60, 0, -1).double()
    target = (n > 48).long()
    worse = torch.where(torch.arange(60) % 3 == 1, n - 30, n)
    found = compare_rankings(n, worse, target)
    assert found.value_a == 1
    assert 0 < found.p_value < 0.05
    assert found.method == "logit"
    assert 0 < found.low < found.difference < found.high < 1
    assert "the interval may be too narrow" in found.reason


def variance_estimates_recovery(a, b, target, level):
    """Return Zou & Donner's interval of c AP(A) - c AP(B), from the contributions of the items to both APs."""
    hit = target.bool()
    k = min(int(hit.sum()), int((~hit).sum()))
    share = k / (k + 1)
    values, gradients = [], []
    for scores in (a, b):
        ap, curve = binary_average_precision(scores, target), builders.from_scores(scores, hit)
        values.append(share * float(ap))
        items = influence.contributions(curve, "iid").values_at(scores, hit).numpy()
        gradients.append(items * share / (values[-1] * (1 - values[-1])) / math.sqrt(share))
    covariance = np.array([[x @ y for x in gradients] for y in gradients])
    errors = np.sqrt(np.diag(covariance))
    r = covariance[0, 1] / errors.prod()
    logits = np.log(np.array(values) / (1 - np.array(values)))
    low, high = (1 / (1 + np.exp(-logits - sign * stats.t.isf((1 - level) / 2, k - 1) * errors)) for sign in (-1, 1))
    down, up = values - low, high - values
    below = math.sqrt(down[0] ** 2 + up[1] ** 2 - 2 * r * down[0] * up[1])
    above = math.sqrt(up[0] ** 2 + down[1] ** 2 - 2 * r * up[0] * down[1])
    return values[0] - values[1] - below, values[0] - values[1] + above


@each("levels", [5, 10**6])
@each("level", [0.5, 0.95])
def test_the_interval_of_the_default_recovers_variance_estimates(levels, level):
    a, b, target = pair(80, share=0.3)
    a, b = ((x * levels / 8).round() for x in (a, b))
    found = compare_rankings(a, b, target, confidence_level=level)
    wanted = variance_estimates_recovery(a, b, target, level)
    assert (float(found.low), float(found.high)) == pytest.approx(wanted, abs=SOLVED)
    swapped = compare_rankings(b, a, target, confidence_level=level)
    assert (float(swapped.low), float(swapped.high)) == pytest.approx((-wanted[1], -wanted[0]), abs=SOLVED)
    permuted = compare_rankings(a, b, target, confidence_level=level, method="permutation", n_resamples=2)
    assert (permuted.low, permuted.high) == (found.low, found.high)


def test_equal_values_with_a_spread_have_the_interval_of_the_method():
    """Both systems have hits at ranks 1, 2, 3 and 12, with other misses between them."""
    target = torch.tensor([1] * 4 + [0] * 20)
    a, b = torch.empty(2, 24, dtype=torch.float64)
    a[[0, 1, 2, *range(4, 12), 3, *range(12, 24)]] = torch.arange(24, 0, -1).double()
    b[[0, 1, 2, *range(16, 24), 3, *range(4, 16)]] = torch.arange(24, 0, -1).double()
    for method in ("logit", "permutation"):
        found = compare_rankings(a, b, target, method=method, n_resamples=9)
        assert (float(found.difference), float(found.p_value)) == (0, 1)
        wanted = variance_estimates_recovery(a, b, target, 0.95)
        assert (float(found.low), float(found.high)) == pytest.approx(wanted, abs=SOLVED)
    found = compare_rankings(a, b, target, method="bootstrap", n_resamples=200)
    assert float(found.p_value) == 1
    assert -found.low != found.high  # percentiles of the resamples
    single = torch.tensor([0, 0, 1, 0, 0]), torch.tensor([5.0, 4, 3, 2, 1]), torch.tensor([2.0, 1, 3, 5, 4])
    none = compare_rankings(*single[1:], single[0], method="bootstrap")
    assert (bool(none.p_value.isnan()), none.reason) == (True, "fewer than two hits, so no standard error exists")
    with pytest.warns(UserWarning, match="4 groups with hits"):
        in_groups = compare_rankings_at_k(a, b, target, 6, measure="precision", groups=torch.arange(24) % 12)
    assert (float(in_groups.difference), float(in_groups.p_value)) == (0, 1)
    assert in_groups.low < 0 < in_groups.high
    half = stats.t.isf(0.025, 11) * float(in_groups.standard_error)
    assert abs(float(in_groups.high) - half) > 1e-3  # not the plain interval of the difference


@each("method", ["permutation", "tukey"])
def test_the_least_integer_is_the_last_score(method):
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(60, generator=generator) < 0.3).long()
    a, b = (torch.randint(1000, (60,), generator=generator) + 400 * k * target for k in (2, 1))
    found = []
    for masked in (torch.iinfo(torch.int64).min, -(10**9)):
        scores = torch.where((target == 0) & (torch.arange(60) % 2 == 0), masked, a)
        if method == "tukey":
            found.append(compare_systems(torch.stack([scores, b]), target, method="tukey").p_value)
        else:
            found.append(compare_rankings(scores, b, target, method="permutation").p_value)
    assert torch.equal(found[0], found[1])


def test_the_interval_agrees_with_the_test_of_the_default():
    found = differences.differences(
        200, 0.2, 3.5, -1.0, 0.8, repetitions=150, generator=torch.Generator().manual_seed(1)
    )
    assert found["contradicts", "logit"].value < 0.03
    assert found["covers", "logit"].value > 0.9


def test_sharing_items_gains_power():
    a, b, target = pair(1000)
    alone = [compare_rankings(x, torch.zeros_like(x), target).standard_error for x in (a, b)]
    assert compare_rankings(a, b, target).standard_error < 0.8 * math.hypot(*alone)


def test_a_monotone_change_of_scale_changes_nothing():
    a, b, target = pair()
    for method in METHODS:
        first = compare_rankings(a, b, target, method=method)
        assert compare_rankings(a.exp() * 5, b.atan(), target, method=method) == first


def test_swaps_of_all_patterns():
    """The distribution of the swapped differences is the one of all 2^n swaps, with ties broken in all ways."""
    a, b, target = [3, 2, 1, 0], [0, 3, 1, 2], [1, 0, 1, 0]
    law = {}
    for swap in product([0, 1], repeat=4):
        ranks = [[(y, x)[s] for x, y, s in zip(r, q, swap, strict=True)] for r, q in ((a, b), (b, a))]
        sides = []
        for rank in ranks:
            orders = [o for o in _orders(4) if all(rank[o[i]] >= rank[o[i + 1]] for i in range(3))]
            sides.append([float(oracles.of_order([target[i] for i in o])) / 2 for o in orders])
        for x, y in product(*sides):
            gap = round(x - y, 9)
            law[gap] = law.get(gap, 0) + 1 / 16 / len(sides[0]) / len(sides[1])
    found = swapped_differences(torch.tensor(a), torch.tensor(b), torch.tensor(target).bool(), Resampling(20000))
    values, counts = np.unique(found[1:].numpy().round(9), return_counts=True)
    assert values.tolist() == sorted(law)
    for value, count in zip(values, counts, strict=True):
        p = law[value]
        # 5 standard errors, for many values together
        assert count / 20000 == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 20000))


def _orders(n):
    from itertools import permutations

    return list(permutations(range(n)))


@pytest.mark.parametrize("items", [4, 5, 30])
def test_resamples_of_few_items_are_no_surer_than_the_sign_test(items):
    target = (torch.arange(items) < 2).long()
    scores = torch.linspace(1, 0, items)
    found = compare_rankings(scores, -scores, target, method="bootstrap", design="stratified")
    assert found.p_value >= 2.0 ** (1 - items)
    assert found.reason.startswith(f"{items} items: ") == (items < 10)


def test_random_methods_repeat_for_every_batch():
    a, b, target = pair(120)
    for method in ("bootstrap", "permutation"):
        first = compare_rankings(a, b, target, method=method, n_resamples=50)
        again = compare_rankings(a, b, target, method=method, n_resamples=50, chunk_size=1)
        assert again.to_dict() == first.to_dict()
        seed = torch.Generator().manual_seed(9)
        seeded = compare_rankings(a, b, target, method=method, n_resamples=50, generator=seed)
        assert seeded.p_value != first.p_value


@pytest.mark.parametrize("method", METHODS)
def test_edges_have_a_defined_answer(method):
    a, _, target = pair(60)
    same = compare_rankings(a, a, target, method=method)
    assert (same.difference, same.p_value) == (0, 1)
    assert "at the same place in both rankings" in same.reason
    for labels, reason in (([0] * 5, "no hits"), ([1] + [0] * 4, "two hits"), ([1] * 4 + [0], "two misses")):
        few = compare_rankings(torch.arange(5.0), torch.arange(5.0).flip(0), torch.tensor(labels), method=method)
        assert math.isnan(few.standard_error)
        assert reason in few.reason
    no_spread = compare_rankings(
        torch.arange(6.0), torch.zeros(6), (torch.arange(6) > 3).long(), method="influence", design="stratified"
    )
    assert "standard error is 0" in no_spread.reason
    assert all(math.isnan(x) for x in (no_spread.p_value, no_spread.low, no_spread.high))


@each("method", list(METHODS))
@each("labels", [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
def test_systems_that_no_item_distinguishes_have_p_1(method, labels):
    a, target = torch.tensor([3.0, 2, 1]), torch.tensor(labels)
    for b in (a, a.exp()):
        found = compare_rankings(a, b, target, method=method)
        assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)
        assert "at the same place in both rankings" in found.reason
    if 0 not in labels:
        other = compare_rankings(a, a.flip(0), target, method=method)
        assert (other.difference, other.p_value) == (0, 1)
        assert other.low.isnan()
        assert "no misses" in other.reason
    tied = compare_rankings(a, torch.tensor([3.0, 1, 1]), torch.tensor([1, 0, 0]), method=method)
    assert math.isnan(tied.standard_error)


def test_a_difference_without_spread_has_no_interval():
    four, six = torch.tensor([4.0, 3, 2, 1]), torch.arange(6.0)
    cases = {
        "jackknife": (four, four.flip(0), torch.tensor([1, 1, 0, 0])),
        "logit": (six, torch.zeros(6), (six > 3).long()),
        "permutation": (six, torch.zeros(6), (six > 3).long()),
    }
    for method, items in cases.items():
        found = compare_rankings(*items, method=method, design="stratified")
        assert found.difference > 0.5
        assert math.isnan(found.low)
        assert ("p-value" in found.reason) == math.isnan(found.p_value) == (method != "permutation")


def test_bad_arguments_are_refused_by_name():
    a, b, target = pair(20)
    with pytest.raises(ValueError, match=r"`preds_a` and `preds_b` .*length.* 20 .* 19 "):
        compare_rankings(a, b[:-1], target)
    with pytest.raises(ValueError, match=r"`preds_a` must have the shape of `target`"):
        compare_rankings(a, b, target[:-1])
    with pytest.raises(ValueError, match="`preds_b` must be 1-D"):
        compare_rankings(a, b[:, None], target)
    weights = (torch.ones(20), [1.0] * 20, 3)
    invalid = {"confidence_level": [1.0], "method": ["z", torch.tensor([])], "design": ["x"], "weights": weights}
    for name, value in ((name, value) for name, values in invalid.items() for value in values):
        with pytest.raises(ValueError, match=f"`{name}`"):
            compare_rankings(a, b, target, **{name: value})
    with pytest.raises(ValueError, match=r"`preds_b` .*NaN.* at index 2"):
        compare_rankings(a, b.index_fill(0, torch.tensor([2]), torch.nan), target)


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_on_cuda(method):
    a, b, target = pair(700)
    here = compare_rankings(a, b, target, method=method)
    there = compare_rankings(a.cuda(), b.cuda(), target.cuda(), method=method)
    assert there.p_value.device.type == "cuda"
    there = there.to("cpu")
    again = [compare_rankings(a.cuda(), b.cuda(), target.cuda(), method=method, chunk_size=x) for x in (300, 2000)]
    assert all(x.to("cpu") == there for x in again)
    assert there.difference == pytest.approx(float(here.difference), abs=DOZENS_OF_TERMS)
    # 1,000 to 2,000 resamples determine a standard deviation to 2%, and formulas differ
    assert there.standard_error == pytest.approx(float(here.standard_error), rel=0.1)
    assert there.p_value == pytest.approx(float(here.p_value), abs=0.03)  # resamples of another generator


FAR, NEAR = torch.tensor([1.0, 0.9]).double(), torch.tensor([0.0, 0.1]).double()
HITS_FIRST, HITS_LAST = torch.tensor([5.0, 4, 2, 3, 1]), torch.tensor([1.0, 2, 4, 3, 5])


def compare_with_metric(kind, systems, target):
    metrics = [kind() for _ in systems]
    for metric, preds in zip(metrics, systems, strict=True):
        metric.update(preds, target)
    return metrics[0].compare(metrics[1])


EVERY_DIFFERENCE = {
    "compare_per_query": lambda: inference.compare_per_query(FAR, NEAR, bounds=(0, 1)),
    "compare_splits": lambda: inference.compare_splits(FAR, NEAR, 9, 1, bounds=(0, 1)),
    "torch-ap trec": lambda: compare_with_baseline(*(Result(["a", "b"], x, 0.5) for x in (FAR, NEAR)), Settings())["t"],
    "RetrievalMAP": lambda: compare_with_metric(
        RetrievalMAP, (torch.eye(3)[:2], 1 - torch.eye(3)[:2]), torch.tensor([[1, 0, 0], [0, 1, 1]])
    ),
    **{
        f"compare_rankings, {method}": lambda method=method: compare_rankings(
            HITS_FIRST, HITS_LAST, torch.tensor([1, 1, 0, 0, 0]), method=method
        )
        for method in METHODS
    },
    "BinaryAveragePrecision": lambda: compare_with_metric(
        BinaryAveragePrecision, (HITS_FIRST, HITS_LAST), torch.tensor([1, 1, 0, 0, 0])
    ),
}


@pytest.mark.parametrize("find", EVERY_DIFFERENCE.values(), ids=EVERY_DIFFERENCE)
def test_no_interval_of_a_difference_leaves_the_possible_range(find):
    found = find()
    assert -1 <= found.low <= found.difference <= found.high <= 1


def test_the_range_of_a_difference_is_that_of_its_values():
    for compare in (inference.compare_per_query, lambda *x, **how: inference.compare_splits(*x, 9, 1, **how)):
        free, scaled = compare(FAR, NEAR), compare(10 * FAR, 10 * NEAR, bounds=(0, 10))
        assert free.low < -1 or free.high > 1
        assert (float(scaled.low), float(scaled.high)) == pytest.approx((max(10 * float(free.low), -10), 10))
        with pytest.raises(ValueError, match=r"`values_a` must be within `bounds`, \(0, 1\), got 10"):
            compare(10 * FAR, NEAR, bounds=(0, 1))
        for bad in ((1, 0), 1, (0, None)):
            with pytest.raises(ValueError, match="`bounds` must be None or two ascending numbers"):
                compare(FAR, NEAR, bounds=bad)


@pytest.mark.parametrize("method", ["logit", "bootstrap"])
def test_one_hit_of_dual_tensors_equals_plain_tensors(method):
    scores, target = torch.tensor([[3.0, 2.0, 1.0, 2.0], [1.0, 2.0, 3.0, 2.0]]), torch.tensor([1, 0, 0, 0])
    wanted = compare_rankings(*scores, target, method=method)
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)  # the first dual tensor of a process scripts functions
        found = compare_rankings(*(forward_ad.make_dual(x, torch.ones(4)) for x in scores), target, method=method)
    assert str(found) == str(wanted)


def perfect_pair():
    """Return two perfect rankings of 90 items with different orders, their labels, and groups of 5 items."""
    a, b, target = pair(90)
    return a + 100 * target, b + 100 * target, target, torch.arange(90) // 5


AT_K = {
    "average_precision": average_precision_at_k_interval,
    "precision": precision_at_k_interval,
    "recall": recall_at_k_interval,
}
ABOVE_CHANCE = {
    "normalized_average_precision": normalized_average_precision_interval,
    "precision_recall_gain": precision_recall_gain_interval,
}
EQUAL_VALUES = {
    **{method: (compare_rankings, average_precision_interval, (), {"method": method}) for method in METHODS},
    "stratified": (compare_rankings, average_precision_interval, (), {"design": "stratified"}),
    "groups": (compare_rankings, average_precision_interval, (), {"groups": True}),
    **{x: (compare_rankings_at_k, AT_K[x], (10,), {"measure": x, "groups": True}) for x in AT_K},
    **{x: (compare_rankings_above_chance, y, (), {"measure": x, "groups": True}) for x, y in ABOVE_CHANCE.items()},
}


@pytest.mark.filterwarnings("ignore:`groups`")
@pytest.mark.parametrize("case", EQUAL_VALUES)
def test_equal_values_of_different_rankings_have_the_width_of_both_intervals(case):
    compare, interval, rank, options = EQUAL_VALUES[case]
    a, b, target, ids = perfect_pair()
    options = options | ({"groups": ids} if "groups" in options else {})
    shared = {name: value for name, value in options.items() if name in ("groups", "design")}
    found = compare(a, b, target, *rank, **options)
    first, second = (interval(x, target, *rank, **shared) for x in (a, b))
    low = math.hypot(first.estimate - first.low, second.high - second.estimate)
    high = math.hypot(first.high - first.estimate, second.estimate - second.low)
    assert (float(found.low), float(found.high)) == pytest.approx((-low, high), abs=LAST_BITS)
    assert found.low < 0 < found.high
    assert (found.p_value, found.standard_error) == (1, 0)
    assert "the rankings differ" in found.reason
    alike = compare(a, 2 * a, target, *rank, **options)
    assert (alike.low, alike.high, alike.p_value) == (0, 0, 1)
    assert "at the same place in both rankings" in alike.reason
    worst_first = a.clone()
    worst_first[target == 0] *= -1  # the misses of a perfect ranking in reverse order
    assert compare(a, worst_first, target, *rank, **options).low < 0


def test_order_of_misses_between_two_hits_has_no_width_below_an_ap_of_1():
    a, target = torch.tensor([6.0, 5, 4, 3, 2, 1]), torch.tensor([1, 0, 0, 1, 1, 0])
    swapped = torch.tensor([6.0, 4, 5, 3, 2, 1])
    found = compare_rankings(a, swapped, target)
    assert (found.low, found.high, found.p_value) == (0, 0, 1)
    tied = compare_rankings(a, torch.tensor([6.0, 4, 4, 3, 2, 1]), target)
    assert (tied.low, tied.high) == (0, 0)


@pytest.mark.filterwarnings("ignore:`groups`")
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("has_groups", [False, True])
def test_equal_averages_of_different_rankings_have_no_ends_of_0(average, has_groups):
    a, b, target, ids = perfect_pair()
    metrics = []
    for scores in (a, b, 2 * a):
        metric = MultilabelAveragePrecision(2, average=average)
        labels = torch.stack([target, target], 1)
        metric.update(torch.stack([scores, scores], 1), labels, groups=ids if has_groups else None)
        metrics.append(metric)
    found = metrics[0].compare(metrics[1])
    assert (found.difference, found.p_value) == (0, 1)
    if has_groups and average == "micro":  # one ranking in groups has an interval
        assert found.low < 0 < found.high
    else:
        assert found.low.isnan()
        assert "no interval: every AP is 1" in found.reason
    alike = metrics[0].compare(metrics[2])
    assert (alike.low, alike.high, alike.p_value) == (0, 0, 1)


@each("average", ["macro", "weighted", "micro"])
@each("design", ["iid", "stratified"])
def test_a_perfect_average_has_the_degrees_of_freedom_of_the_other(average, design):
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(60, 3, generator=generator) < torch.tensor([0.2, 0.4, 0.6])).long()
    perfect = target + torch.rand(60, 3, generator=generator)
    other = target + torch.randn(60, 3, generator=generator)
    metrics = [MultilabelAveragePrecision(3, average) for _ in range(2)]
    for metric, scores in zip(metrics, (perfect, other), strict=True):
        metric.update(scores, target)
    found, mirrored = (x.compare(y, design=design) for x, y in (metrics, metrics[::-1]))
    rankings = (
        [(other.flatten(), target.flatten())] if average == "micro" else list(zip(other.T, target.T, strict=True))
    )
    sizes = torch.stack([y.sum() for _, y in rankings]).double()
    weights = sizes / sizes.sum() if average == "weighted" else torch.full_like(sizes, 1 / len(sizes))
    errors = [average_precision_interval(*x, method="influence", design=design).standard_error for x in rankings]
    v, least = (weights * torch.stack(errors)) ** 2, torch.minimum(sizes, len(rankings[0][1]) - sizes)
    df = float(v.sum() ** 2 / (v**2 / (least - 1)).sum())
    size = float(found.difference / found.standard_error)
    assert (found.value_a, found.reason, mirrored.reason) == (1, "", "")
    assert found.p_value == pytest.approx(2 * stats.t.sf(size, df), rel=SOLVED)
    assert found.low == pytest.approx(
        float(found.difference - stats.t.isf(0.025, df) * found.standard_error), abs=SOLVED
    )
    assert (mirrored.p_value, mirrored.low, mirrored.high) == (found.p_value, -found.high, -found.low)


@pytest.mark.filterwarnings("ignore:`groups`")
@pytest.mark.parametrize("measure", ["precision", "recall"])
def test_precision_and_recall_of_all_items_are_equal_by_definition(measure):
    a, b, target, ids = perfect_pair()
    found = compare_rankings_at_k(a, b, target, 90, measure=measure, groups=ids)
    assert (found.low, found.high, found.p_value) == (0, 0, 1)
