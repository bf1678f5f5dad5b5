import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.coverage.queries import intervals
from tests.support.tolerances import REORDERED, SINGLE, SOLVED
from torch_ap.inference import compare_per_query, compare_systems_per_query, mean_interval, resampling

METHODS = ("t", "randomization", "wilcoxon", "sign")


def two(q=50, shift=0.05, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.random(q)
    return torch.from_numpy(a), torch.from_numpy(np.clip(a - shift + 0.1 * rng.standard_normal(q), 0, 1))


def p_values(a, b, **how):
    """Return the p-value of every test."""
    return {method: float(compare_per_query(a, b, method=method, **how).p_value) for method in METHODS}


def test_t_interval_is_scipys():
    a, _ = two()
    found = mean_interval(a, confidence_level=0.9, method="t")
    wanted = stats.ttest_1samp(a.numpy(), 0).confidence_interval(0.9)
    assert (float(found.low), float(found.high)) == pytest.approx((wanted.low, wanted.high), abs=REORDERED)
    assert float(found.standard_error) == pytest.approx(stats.sem(a.numpy()))


def test_bca_interval_is_scipys():
    a = torch.from_numpy(np.random.default_rng(1).random(40) ** 3)
    found = mean_interval(a, method="bootstrap-bca", n_resamples=20000)
    wanted = stats.bootstrap(
        (a.numpy(),), np.mean, n_resamples=20000, method="BCa", random_state=np.random.default_rng(0)
    )
    interval = wanted.confidence_interval
    # quantiles of 20,000 resamples from other generators
    assert (float(found.low), float(found.high)) == pytest.approx((interval.low, interval.high), abs=0.004)
    assert float(found.standard_error) == pytest.approx(wanted.standard_error, rel=0.03)  # likewise


def test_the_acceleration_of_bca_equals_the_jackknife(monkeypatch):
    x = torch.rand(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64) ** 3
    given, bca = [], resampling.bca
    monkeypatch.setattr(resampling, "bca", lambda *arguments: given.append(float(arguments[2])) or bca(*arguments))
    mean_interval(x, method="bootstrap-bca", n_resamples=50)
    off = x.mean() - torch.stack([torch.cat([x[:at], x[at + 1 :]]).mean() for at in range(12)])
    assert given == [pytest.approx(float((off**3).sum() / (6 * (off**2).sum() ** 1.5)), rel=REORDERED)]


@pytest.mark.parametrize("method", ["t", "bootstrap-bca"])
def test_methods_that_cover_too_little_with_few_queries_have_a_reason(method):
    x = torch.linspace(0, 1, 30, dtype=torch.float64)
    assert mean_interval(x, method=method, n_resamples=50).reason == ""
    assert mean_interval(x[1:], method=method, n_resamples=50).reason.startswith("29 queries: likely too narrow")
    assert mean_interval(x[1:]).reason == ""


def test_one_query_and_equal_queries():
    one = mean_interval(torch.tensor([0.4]), method="t")
    assert float(one.estimate) == pytest.approx(0.4)
    assert math.isnan(one.low)
    assert "one query" in one.reason
    for method in ("t", "bootstrap-bca"):
        equal = mean_interval(torch.full((5,), 0.5), method=method)
        assert (float(equal.low), float(equal.high)) == (0.5, 0.5)


LAWS = [
    [0.4],
    [0.2, 0.4, 0.9, 0.5],
    [0.5] * 5,
    [1, 1, 0.999],
    [0.9] * 9 + [0.1],
    [1e-9] * 5,
    [1 / 3, 0, 0, 1, 0, 0.5, 0],
]


@pytest.mark.parametrize("values", LAWS)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_dirichlet_ends_are_quantiles_of_the_bayesian_bootstrap(values, level):
    rng, x = np.random.default_rng(0), np.array([*values, 0, 1.0])
    weights = rng.gamma(np.r_[np.ones(len(values)), 0.5, 0.5], size=(200_000, len(x)))
    means = weights @ x / weights.sum(1)
    found = mean_interval(torch.tensor(values, dtype=torch.float64), confidence_level=level)
    mean, noise = np.mean(values), 2 / math.sqrt(200_000 * (1 - level))
    tails = (means < float(found.low)).mean(), (means > float(found.high)).mean()
    for end, tail, inside in ((found.low, tails[0], found.low < mean), (found.high, tails[1], found.high > mean)):
        if inside:
            # a saddlepoint approximation of tails, and the noise of the draws
            assert tail == pytest.approx((1 - level) / 2, rel=0.12 + noise), end
        else:
            assert tail < 1.1 * (1 - level) / 2, "an end moves outwards, to the mean, only"
            assert float(end) == pytest.approx(mean)
    assert 0 <= found.low <= mean <= found.high <= 1


@given(st.lists(st.sampled_from([0.0, 1e-12, 0.05, 0.5, 1 / 3, 1 - 1e-12, 1.0]), min_size=1, max_size=12))
@settings(deadline=None, max_examples=40)
def test_dirichlet_interval_of_any_values_is_inside_and_mirrors(values):
    x = torch.tensor(values, dtype=torch.float64)
    for level in (1e-6, 0.5, 0.95, 1 - 1e-12):
        found, mirrored = mean_interval(x, confidence_level=level), mean_interval(1 - x, confidence_level=level)
        assert 0 <= found.low <= found.estimate + 1e-15
        assert found.estimate - 1e-15 <= found.high <= 1
        assert float(found.low) == pytest.approx(1 - float(mirrored.high), abs=1e-5)  # the tolerance of the root search
    assert mean_interval(x, confidence_level=0.5).high <= mean_interval(x).high


@pytest.mark.parametrize(("hits", "misses"), [(0, 1), (3, 0), (0, 8), (2, 11), (40, 60)])
def test_values_of_0_and_1_have_wilsons_interval(hits, misses):
    found = mean_interval(torch.tensor([1.0] * hits + [0.0] * misses), confidence_level=0.9)
    wanted = stats.binomtest(hits, hits + misses).proportion_ci(0.9, method="wilson")
    assert (float(found.low), float(found.high)) == pytest.approx((wanted.low, wanted.high), abs=REORDERED)
    assert "Wilson" in found.reason


def test_dirichlet_takes_values_of_the_unit_interval_only():
    with pytest.raises(ValueError, match=r"`values` .*\[0, 1\] .*got 1.5 at index 1.* 't'"):
        mean_interval(torch.tensor([0.5, 1.5]))
    with pytest.raises(ValueError, match=r"got -0.1\d* at index 0"):
        mean_interval(torch.tensor([-0.1, 0.5]))
    over = torch.tensor([0.5, 1 + 2e-16 * 2, 0.25], dtype=torch.float64)
    assert mean_interval(over).high < 1, "rounding of a value such as nDCG's does not count"


@pytest.mark.parametrize("law", ["moderate", "skewed", "known-item"])
def test_default_interval_covers_few_queries(law):
    tallies = intervals(law, 10, ("dirichlet",), repetitions=250, generator=torch.Generator().manual_seed(3))
    share = tallies["dirichlet", 0.95]
    assert share.value > 0.93 - 2 * share.error
    assert tallies["dirichlet", "outside"].value == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("value", [0.1, 0.5, 0.7, 1e-9, 3e5])
@pytest.mark.parametrize("method", ["t", "bootstrap-bca"])
def test_equal_values_have_no_spread(dtype, value, method):
    values = torch.full((7,), value, dtype=dtype)
    for one in (values, values * (1 + torch.finfo(dtype).eps * torch.tensor([0, 1, 0, 0, 1, 1, 0]))):
        found = mean_interval(one.to(dtype), method=method)
        assert "same value" in found.reason
        assert float(found.low) == float(found.high) == float(found.estimate)
        assert found.standard_error == 0
        assert found.method == method
    different = mean_interval(values + torch.tensor([0, 1, 0, 0, 1, 1, 0]) * value / 9, method=method)
    assert "same value" not in different.reason
    assert different.standard_error > 0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.tensor([0.39, 0.12, 0.77, 0.5]).double(), 0.1),
        (torch.tensor([0.39, 0.12, 0.77, 0.5]), 0.1),
        (torch.tensor([0.39, 0.12, 0.77, 0.5]).bfloat16(), 0.1),
        (torch.tensor([0.39, 0.12, 0.77, 0.5]).double() + 1000, 0.1),
        (torch.tensor([1, 2, 3, 4]), 1),
        (torch.tensor([1.0, 2.0, 3.0, 4.0]), 1.0),
    ],
)
def test_equal_differences_are_no_evidence_by_t(a, b):
    found = compare_per_query(a, a - b)
    assert found.difference == pytest.approx(b, rel=0.02)  # `a - b` is rounded in the dtype of `a`
    assert math.isnan(found.effect_size)
    assert math.isnan(found.p_value)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert found.standard_error == 0
    assert "all differences are equal" in found.reason
    assert list(p_values(a, a - b).values())[1:] == [1 / 8] * 3, "two of 16 patterns of signs"
    apart = compare_per_query(a, a - b * torch.tensor([1, 2, 1, 1]))
    assert not apart.reason
    assert apart.p_value > 0.001
    assert apart.effect_size < 10


@pytest.mark.parametrize(("dtype", "least"), [(torch.float64, 1e-10), (torch.float32, 3e-6)])
def test_small_differences_are_evidence_above_rounding(dtype, least):
    a = torch.tensor([0.39, 0.12, 0.77, 0.5], dtype=torch.float64)
    gap = least * torch.tensor([1.0, 2.0, 1.5, 2.0])
    found = p_values((a + gap).to(dtype), a.to(dtype))
    assert found["t"] == pytest.approx(stats.ttest_1samp(gap.numpy(), 0).pvalue, rel=0.1)  # rounded values
    assert found["sign"] == found["randomization"] == 1 / 8
    assert set(p_values((a + gap / 1000).to(dtype), a.to(dtype)).values()) == {1.0}


def test_values_that_require_grad():
    a, b = two(6)
    wanted = compare_per_query(a, b).to_dict(), mean_interval(a).to_dict()
    a.requires_grad_()
    assert (compare_per_query(a, b).to_dict(), mean_interval(a).to_dict()) == wanted
    assert compare_systems_per_query(torch.stack([a, b])).reason == ""


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9),
    st.sampled_from([torch.float64, torch.float32]),
)
@settings(deadline=None, max_examples=40)
def test_rounding_changes_no_test(counts, dtype):
    """P@5 of two systems: fifths, whose differences tie except for rounding, against whole numbers."""
    whole = torch.tensor(counts)
    fifths = (whole.double() / 5).to(dtype)
    wanted, found = (compare_per_query(x[:, 0], x[:, 1]) for x in (whole, fifths))
    of_whole, of_fifths = (p_values(x[:, 0], x[:, 1], n_resamples=100) for x in (whole, fifths))
    assert of_fifths == pytest.approx(of_whole | {"t": of_fifths["t"]}, abs=0, rel=0, nan_ok=True)
    # fifths are rounded, and variances of equal differences magnify it
    assert found.p_value == pytest.approx(of_whole["t"], rel=1e-5, nan_ok=True)
    assert found.reason == wanted.reason
    assert found.effect_size == pytest.approx(float(wanted.effect_size), rel=1e-5, abs=SINGLE, nan_ok=True)  # likewise


@pytest.mark.parametrize("q", [8, 50])
def test_paired_tests_equal_scipys(q):
    a, b = two(q)
    found, p = compare_per_query(a, b), p_values(a, b)
    gap = (a - b).numpy()
    assert p["t"] == found.p_value == pytest.approx(stats.ttest_rel(a.numpy(), b.numpy()).pvalue, rel=SOLVED)
    assert p["wilcoxon"] == pytest.approx(stats.wilcoxon(gap).pvalue)
    assert p["sign"] == pytest.approx(stats.binomtest(int((gap > 0).sum()), q).pvalue)
    peer = stats.permutation_test(
        (a.numpy(), b.numpy()), lambda x, y, axis: np.mean(x - y, axis), permutation_type="samples",
        n_resamples=20000, random_state=np.random.default_rng(0),
    )  # fmt: skip
    assert p["randomization"] == pytest.approx(peer.pvalue, abs=REORDERED if q == 8 else 0.01)
    assert found.effect_size == pytest.approx(gap.mean() / gap.std(ddof=1))
    ends = stats.ttest_rel(a.numpy(), b.numpy()).confidence_interval()
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


@given(st.lists(st.sampled_from([-2, -1, 0, 1, 3]), min_size=1, max_size=9))
@settings(deadline=None, max_examples=60)
def test_exact_randomization_counts_sign_patterns(gaps):
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(gaps))).reshape(len(gaps), -1)
    sums = np.array(gaps) @ signs
    wanted = float((abs(sums) >= abs(sum(gaps))).mean())
    found = compare_per_query(torch.tensor(gaps).double(), torch.zeros(len(gaps)), method="randomization")
    assert found.p_value == pytest.approx(wanted)


def test_randomization_repeats_under_a_generator():
    a, b = two(200, 0.01)

    def p(seed, **how):
        generator = torch.Generator().manual_seed(seed)
        found = compare_per_query(a, b, method="randomization", n_resamples=500, generator=generator, **how)
        return found.p_value

    assert p(1) == p(1, chunk_size=1)
    assert len({p(seed) for seed in range(6)}) > 1
    assert p(1) > 0


@pytest.mark.parametrize("shift", [0.0, 0.01, 0.03])
def test_ranx_agrees(shift):
    ranx = pytest.importorskip("ranx.statistical_tests")
    a, b = two(60, shift)
    found = p_values(a, b, n_resamples=5000)
    p, _ = ranx.paired_student_t_test(a.numpy(), b.numpy(), max_p=0.01)
    assert found["t"] == pytest.approx(float(p), abs=SOLVED)
    p, _ = ranx.fisher_randomization_test(a.numpy(), b.numpy(), n_permutations=2000)
    error = math.sqrt(p * (1 - p) * (1 / 5000 + 1 / 2000))
    # 4 standard errors of the difference, and the observed case itself
    assert found["randomization"] == pytest.approx(float(p), abs=4 * error + 1 / 5000)


def test_edges_have_a_defined_answer():
    a, b = two(30)
    same = compare_per_query(a, a)
    assert set(p_values(a, a).values()) == {1.0}
    assert "all differences are zero" in same.reason
    assert (same.difference, same.effect_size, same.low, same.high) == (0, 0, 0, 0)
    one = compare_per_query(a[:1], b[:1])
    assert math.isnan(one.p_value)
    assert p_values(a[:1], b[:1])["randomization"] == 1
    assert "one query" in one.reason
    alone = compare_per_query(a[:1], a[:1])
    assert set(p_values(a[:1], a[:1]).values()) == {1.0}
    assert math.isnan(alone.low)
    assert "zero" in alone.reason
    assert "one query" in alone.reason


def test_all_but_p_is_the_same_by_every_method():
    a, b = two(9)
    found = [compare_per_query(a, b, method=method) for method in METHODS]
    assert [x.method for x in found] == [*METHODS]
    rest = [{**x.to_dict(), "method": "", "p_value": 0} for x in found]
    assert all(x == rest[0] for x in rest)


def test_bad_arguments_raise_by_name():
    a, b = two(5)
    with pytest.raises(ValueError, match=r"`values_a` and `values_b` .*length.* 5 .* 3 "):
        compare_per_query(a, b[:3])
    with pytest.raises(ValueError, match=r"`values_a` .*one query.* \(0,\)"):
        compare_per_query(a[:0], b[:0])
    with pytest.raises(ValueError, match="`values_b` must be finite"):
        compare_per_query(a, b.index_fill(0, torch.tensor([1]), torch.nan))
    for method in ("z", ("t", "sign"), None):
        with pytest.raises(ValueError, match=r"`method` .*'t', .*got "):
            compare_per_query(a, b, method=method)
    with pytest.raises(ValueError, match="`confidence_level`"):
        mean_interval(a, confidence_level=2)
    with pytest.raises(ValueError, match="`values`"):
        mean_interval(a[:, None])
    for values in (a, a[None]):
        with pytest.raises(ValueError, match="`values`"):
            compare_systems_per_query(values)
    with pytest.raises(ValueError, match="`method`"):
        compare_systems_per_query(torch.stack([a, b]), method="bonferroni")
    with pytest.raises(ValueError, match="`method` must be 'holm' with `groups`, whose queries"):
        compare_systems_per_query(torch.stack([a, b]), groups=list(range(5)))
    with pytest.raises(ValueError, match="`test` must be 't' with `groups`"):
        compare_systems_per_query(torch.stack([a, b]), method="holm", test="randomization", groups=list(range(5)))
    with pytest.raises(ValueError, match="`groups`"):
        compare_systems_per_query(torch.stack([a, b]), method="holm", groups=[0, 1])


# -- several systems


def several(systems=4, q=40, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(
        rng.random(q) + 0.2 * rng.standard_normal((systems, q)) + 0.06 * np.arange(systems)[:, None]
    )


def test_holm_of_queries_in_groups():
    values, groups = several(), [x // 3 for x in range(40)]
    found = compare_systems_per_query(values, method="holm", groups=groups)
    wanted = torch.stack(
        [torch.stack([compare_per_query(a, b, groups=groups).p_value for b in values]) for a in values]
    )
    torch.testing.assert_close(found.p_value, wanted, rtol=0, atol=0)
    first, second = torch.triu_indices(4, 4, 1)
    raw = wanted[first, second].tolist()
    multiples = {p: min(1.0, p * sum(x >= p for x in raw)) for p in raw}
    adjusted = [max(y for x, y in multiples.items() if x <= p) for p in raw]
    assert found.adjusted_p_value[first, second].tolist() == pytest.approx(adjusted, rel=SOLVED)
    torch.testing.assert_close(found.means, values.mean(1))
    one_group = compare_systems_per_query(values, method="holm", groups=[0] * 40)
    assert one_group.reason.endswith("no p by t")
    assert one_group.p_value[0, 1].isnan()


def test_holm_is_the_definition():
    values = several()
    found = compare_systems_per_query(values, method="holm")
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    raw = {(i, j): stats.ttest_rel(values[i], values[j]).pvalue for i, j in pairs}
    highest = 0.0
    for place, (i, j) in enumerate(sorted(pairs, key=raw.get)):
        highest = max(highest, min(1.0, raw[i, j] * (len(pairs) - place)))
        assert float(found.difference[i, j]) == pytest.approx(float(values[i].mean() - values[j].mean()))
        assert float(found.p_value[i, j]) == pytest.approx(raw[i, j], rel=SOLVED)
        assert (
            float(found.adjusted_p_value[j, i])
            == float(found.adjusted_p_value[i, j])
            == pytest.approx(highest, rel=SOLVED)
        )


def test_tukey_of_two_is_randomization():
    values = several(2)
    found = compare_systems_per_query(values, test="randomization", n_resamples=4000)
    # 4,000 different resamples each: 2 standard errors at worst
    assert float(found.adjusted_p_value[0, 1]) == pytest.approx(float(found.p_value[0, 1]), abs=0.02)


def test_tukey_controls_the_family_wise_error():
    rng = np.random.default_rng(3)
    rejected = 0
    for seed in range(150):
        values = torch.from_numpy(rng.random(20) + 0.3 * rng.standard_normal((5, 20)))
        found = compare_systems_per_query(values, n_resamples=99, generator=torch.Generator().manual_seed(seed))
        rejected += bool((found.adjusted_p_value <= 0.1).any())
    assert rejected <= 15 + 4 * math.sqrt(13.5)
    assert rejected > 2


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_tukey_equals_ranx_for_independent_queries(shared):
    """ranx takes the test for independent samples from scipy, which ignores pairs."""
    ranx = pytest.importorskip("ranx.statistical_tests")
    rng = np.random.default_rng(4)
    values = shared * rng.standard_normal(300) + rng.standard_normal((3, 300)) + 0.12 * np.arange(3)[:, None]
    found = compare_systems_per_query(torch.from_numpy(values), n_resamples=4000).adjusted_p_value
    rows = ranx.tukey_hsd_test(model_names=[0, 1, 2], scores=list(values), max_p=0.05)
    theirs = {(row["control"], row["treatment"]): float(row["p-value"]) for row in rows}
    for (i, j), p in theirs.items():
        if shared and i != j:
            assert float(found[i, j]) < p
        else:
            # ours uses 4,000 resamples, theirs a normal distribution
            assert float(found[i, j]) == pytest.approx(p, abs=0.04)


def test_tukey_is_wider_than_a_single_pair():
    found = compare_systems_per_query(several())
    off = ~torch.eye(4, dtype=torch.bool)
    assert (found.adjusted_p_value[off] >= found.p_value[off] - 0.01).all()
    assert torch.equal(found.adjusted_p_value.diag(), torch.ones(4, dtype=torch.float64))
    equal = compare_systems_per_query(torch.ones(3, 5), n_resamples=50)
    assert (equal.adjusted_p_value == 1).all()


@pytest.mark.parametrize("method", ["holm", "tukey"])
def test_several_systems_on_one_query_give_a_reason_for_no_p(method):
    values = torch.tensor([[0.2], [0.5], [0.5]])
    found = compare_systems_per_query(values, method=method, n_resamples=50)
    assert math.isnan(found.p_value[0, 1])
    assert found.p_value[1, 2] == 1, "no difference"
    assert "one query" in found.reason
    assert math.isnan(found.adjusted_p_value[0, 1]) == (method == "holm")
    signs = compare_systems_per_query(values, method=method, test="randomization", n_resamples=50)
    assert (signs.p_value == 1).all()
    assert (signs.adjusted_p_value == 1).all()
    assert signs.reason == compare_systems_per_query(several(), method=method).reason == ""


def test_several_with_a_pair_of_equal_differences():
    a, b = two(12)
    values = torch.stack([a, a - 0.1, b])
    found = compare_systems_per_query(values, method="holm")
    assert math.isnan(found.p_value[0, 1])
    assert math.isnan(found.adjusted_p_value[0, 1])
    assert "all equal" in found.reason
    raw = [stats.ttest_rel(values[i], values[2]).pvalue for i in (0, 1)]
    assert found.p_value[:2, 2].tolist() == pytest.approx(raw)
    smaller, larger = sorted(raw)
    wanted = {smaller: min(1, 3 * smaller), larger: min(1, max(3 * smaller, 2 * larger))}
    assert found.adjusted_p_value[:2, 2].tolist() == pytest.approx([wanted[p] for p in raw])
