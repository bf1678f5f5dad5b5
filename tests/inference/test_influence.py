import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.support import oracles_inference as oracles
from tests.support.paths import DATA
from tests.support.tolerances import DOZENS_OF_TERMS, FEW_TERMS, REORDERED, SINGLE, SOLVED
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.ranking import builders, hit_curve
from torch_ap.inference import influence, published, record
from torch_ap.inference.comparison import scaled_deviations
from torch_ap.inference.influence import count_misses
from torch_ap.inference.published import published_interval
from torch_ap.inference.record import normal_quantile

REFERENCE = json.loads((DATA / "inference_reference.json").read_text())

few = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0]), st.integers(0, 1)), min_size=4, max_size=14
).filter(lambda items: 2 <= sum(y for _, y in items) <= len(items) - 2)


def curve_of(scores, target):
    return builders.from_scores(torch.tensor(scores, dtype=torch.float64), torch.tensor(target))


def split(items):
    return [s for s, _ in items], [y for _, y in items]


@pytest.mark.parametrize("row", REFERENCE["influence"])
def test_reference_values(row):
    curve = curve_of(row["scores"], row["targets"])
    ap, left = average_precision(curve), influence.leave_one_out(curve)
    found = {
        "AP_grouped": ap,
        "se_IF": influence.variance(curve, "stratified").sqrt(),
        "se_IF_iid": influence.variance(curve, "iid").sqrt(),
        "theta_pi": influence.prevalence_slope(curve),
        "se_JK": influence.jackknife_variance(left, "stratified").sqrt(),
    }
    for name, value in found.items():
        assert float(value) == pytest.approx(row[name], abs=REORDERED), name
    z, boyd = normal_quantile(0.95), (ap * (1 - ap) / curve.m).sqrt()
    ends = {
        "ci95_IF_logit": record.logit(ap, found["se_IF"], z),
        "ci95_boyd_logit": record.logit(ap, boyd, z),
        "ci95_boyd_binomial": record.wald(ap, boyd, z),
    }
    for name, (low, high) in ends.items():
        assert [float(low), float(high)] == pytest.approx(row[name], abs=REORDERED), name


@given(few)
@settings(deadline=None, max_examples=60)
def test_influence_is_the_derivative_in_the_weights(items):
    scores, target = split(items)
    curve = curve_of(scores, target)
    y = torch.tensor(target).bool()
    phi = influence.influence(curve).values_at(torch.tensor(scores, dtype=torch.float64), y).numpy()
    slope = oracles.influence_by_difference(scores, target)
    for kind in (y.numpy(), ~y.numpy()):
        # weight on one item of a class reduces the other weights: only the centred derivative is defined
        wanted = slope[kind] * kind.sum()
        np.testing.assert_allclose(phi[kind] - phi[kind].mean(), wanted - wanted.mean(), atol=SINGLE)


@given(few)
@settings(deadline=None, max_examples=60)
def test_leaving_one_out_equals_its_definition(items):
    scores, target = split(items)
    y = torch.tensor(target).bool()
    values = influence.leave_one_out(curve_of(scores, target))
    found = values.values_at(torch.tensor(scores, dtype=torch.float64), y)
    wanted = [float(x) for x in oracles.without_each(scores, target)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=FEW_TERMS)
    n = len(wanted)
    iid = (n - 1) / n * sum((x - sum(wanted) / n) ** 2 for x in wanted)
    assert float(influence.jackknife_variance(values, "iid")) == pytest.approx(iid, abs=DOZENS_OF_TERMS)


@given(few)
@settings(deadline=None, max_examples=60)
def test_moments_over_groups_equal_moments_over_items(items):
    scores, target = split(items)
    y = torch.tensor(target).bool()
    values = influence.influence(curve_of(scores, target))
    each = values.values_at(torch.tensor(scores, dtype=torch.float64), y)
    for found, some in ((values.hit_moments(), each[y]), (values.miss_moments(), each[~y])):
        deviation = some - some.mean()
        assert float(found.count) == len(some)
        assert float(found.mean) == pytest.approx(float(some.mean()), abs=DOZENS_OF_TERMS)
        assert float(found.squares) == pytest.approx(float((deviation**2).sum()), abs=DOZENS_OF_TERMS)
        assert float(found.cubes) == pytest.approx(float((deviation**3).sum()), abs=DOZENS_OF_TERMS)
    shares = scaled_deviations(each, y)
    assert float(shares.square().sum()) == pytest.approx(
        float(influence.variance(values.curve, "stratified")), abs=DOZENS_OF_TERMS
    )


@given(st.lists(few, min_size=2, max_size=4))
@settings(deadline=None, max_examples=30)
def test_rankings_end_to_end_are_each_alone(many):
    curves = [curve_of(*split(items)) for items in many]
    joined = hit_curve.join(curves)
    measures = [
        *(lambda c, d=design: influence.variance(c, d) for design in ("iid", "stratified")),
        *(
            lambda c, d=design: influence.jackknife_variance(influence.leave_one_out(c), d)
            for design in ("iid", "stratified")
        ),
        lambda c: influence.acceleration(influence.influence(c)),
        published.survival,
        published.sigma_ap,
    ]
    for measure in measures:
        torch.testing.assert_close(
            measure(joined), torch.cat([measure(c) for c in curves]), rtol=0, atol=DOZENS_OF_TERMS
        )
    for one, again in zip(curves, hit_curve.split(joined), strict=True):
        for name in ("hits", "items", "hits_above", "items_above", "score", "offsets", "n", "m"):
            assert torch.equal(getattr(one, name), getattr(again, name))
    between, below = count_misses(joined)
    assert int(between.sum() + below.sum()) == sum(len(items) - sum(y for _, y in items) for items in many)


def test_published_variances_are_their_double_sums():
    target = [1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0]
    n, m = len(target), sum(target)
    t = [i + 1 for i, y in enumerate(target) if y]
    r = [(i + 1) / m for i in range(m)]
    survival = sum(r[min(i, j)] * (1 - r[max(i, j)]) / m / (t[i] * t[j]) for i in range(m) for j in range(m))
    share = m / n
    v = [share * (1 - share) * (n - x) / ((n - 1) * x) for x in t]
    sigma = sum(v[max(i, j)] for i in range(m) for j in range(m)) / m**2
    curve = curve_of([float(-i) for i in range(n)], target)
    assert float(published.survival(curve)) == pytest.approx(survival, rel=DOZENS_OF_TERMS)
    assert float(published.sigma_ap(curve)) == pytest.approx(sigma, rel=DOZENS_OF_TERMS)


# (hit ranks of 8 items, variance by the survival function, sigma_ap^2), by hand from the formulas of the slides
SLIDES = [
    ([1, 2, 4], Fraction(7, 54), Fraction(5, 64)),
    ([2, 5, 6], Fraction(13, 450), Fraction(97, 4032)),
]


def literal(t, n):
    """Return the two variances in exact fractions, by the formulas on the slides."""
    m, pi = len(t), Fraction(len(t), n)
    r = [Fraction(i + 1, m) for i in range(m)]
    survival = sum(r[i] * (1 - r[i]) / m / t[i] ** 2 for i in range(m))
    survival += 2 * sum(r[i] * (1 - r[j]) / m / (t[i] * t[j]) for j in range(m) for i in range(j))
    each = [(pi * (1 - pi) + (x - 1) * pi * (Fraction(m - 1, n - 1) - pi)) / x for x in t]
    sigma = sum(each) + 2 * sum(each[j] for i in range(m - 1) for j in range(i + 1, m))
    return survival, sigma / m**2


@pytest.mark.parametrize(("ranks", "survival", "sigma"), SLIDES)
def test_the_slides_examples_to_the_last_digit(ranks, survival, sigma):
    assert literal(ranks, 8) == (survival, sigma)
    target = [int(rank in ranks) for rank in range(1, 9)]
    scores = torch.arange(8, 0, -1.0)
    ap = sum(Fraction(j, rank) for j, rank in enumerate(ranks, 1)) / 3
    for method, variance in (("survival", survival), ("sigma-ap", sigma)):
        found = published_interval(scores, torch.tensor(target), method=method)
        assert float(found.standard_error) == pytest.approx(math.sqrt(variance), abs=REORDERED)
        half = stats.norm.isf(0.025) * math.sqrt(variance)
        assert [float(found.low), float(found.high)] == pytest.approx([float(ap) - half, float(ap) + half], abs=SOLVED)


def test_sigma_ap_of_evenly_spaced_hits_is_near_the_printed_one():
    """The slides print .00497 without its hit ranks."""
    n, m = 3000, 245
    target = torch.zeros(n, dtype=torch.int64)
    target[[round(j * (n + 1) / (m + 1)) - 1 for j in range(1, m + 1)]] = 1
    curve = builders.from_scores(torch.arange(n, 0, -1.0), target)
    # the digits that were published
    assert float(published.sigma_ap(curve).sqrt()) == pytest.approx(0.004957, abs=2e-6)


def test_too_few_items_to_vary_give_nan():
    for target in ([1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]):
        curve = curve_of([3.0, 2.0, 1.0], target)
        assert math.isnan(influence.variance(curve, "stratified"))
        assert math.isnan(influence.jackknife_variance(influence.leave_one_out(curve), "stratified"))
        assert math.isnan(influence.jackknife_variance(influence.leave_one_out(curve), "iid"))


@pytest.mark.parametrize("grain", [None, 2000, 5])
@pytest.mark.parametrize("unseen", [0, 1000])
def test_blocks_equal_the_whole(grain, unseen, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(150_000, generator=generator) < 0.6
    scores = torch.randn(150_000, generator=generator, dtype=torch.float64) + target
    scores = scores if grain is None else (scores * grain).round()
    m = target.sum()[None] + unseen
    curve = builders.from_scores(scores, target, m=m)
    curve = replace(curve, n=curve.n + unseen)
    assert influence.is_blockwise(curve)
    monkeypatch.setattr(influence, "is_blockwise", lambda _: False)
    whole = {design: influence.variance(curve, design) for design in ("iid", "stratified")}
    monkeypatch.undo()
    for design, wanted in whole.items():
        torch.testing.assert_close(influence.variance(curve, design), wanted, rtol=SOLVED, atol=0)


@pytest.mark.parametrize("blocks", [True, False])
def test_variance_of_small_reference(blocks, monkeypatch):
    if not blocks:
        monkeypatch.setattr(influence, "is_blockwise", lambda _: False)
    for row in REFERENCE["influence"]:
        curve = curve_of(row["scores"], row["targets"])
        assert influence.is_blockwise(curve) == blocks
        assert float(influence.variance(curve, "iid").sqrt()) == pytest.approx(row["se_IF_iid"], abs=REORDERED)
        assert float(influence.variance(curve, "stratified").sqrt()) == pytest.approx(row["se_IF"], abs=REORDERED)
