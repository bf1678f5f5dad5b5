"""Bins learnt in one pass: their counts, and bounds that contain the value of every order inside the bins."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.each import each
from torch_ap import Convention
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.measures.ties import TIES
from torch_ap.core.ranking import builders
from torch_ap.core.ranking.builders import from_bins
from torch_ap.core.ranking.score_bins import ScoreBins
from torch_ap.functional import binary_average_precision
from torch_ap.retrieval.measures.at_rank import AtRank, FirstHit, RPrecision

SLACK = 1e-12  # sums in a different order


def binned(scores, target, most, batch=7, weights=None):
    found = ScoreBins(most)
    for first in range(0, len(scores), batch):
        part = slice(first, first + batch)
        found.add(scores[part], target[part], None if weights is None else weights[part])
    return found


def measures(ties):
    for k, denominator in ((None, "min"), (3, "min"), (3, "relevant"), (30, "min")):
        yield Convention(k, denominator, None, ties)
    for k in (1, 4, 30):
        yield AtRank("precision", k, ties=ties)
        yield AtRank("recall", k, ties=ties)
        yield AtRank("f_beta", k, ties=ties)
        yield AtRank("fall_out", k, ties=ties)
    yield RPrecision(ties)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=40), st.integers(2, 16))
def test_every_measure_is_within_its_bounds(items, most):
    """Some scores tie; with as many bins as scores the bounds are exact."""
    scores = torch.tensor([score for score, _ in items], dtype=torch.float32)
    target = torch.tensor([hit for _, hit in items], dtype=torch.int64)
    found = binned(scores, target, most)
    assert len(found.low) <= most
    assert (found.items.sum(), found.hits.sum()) == (len(target), target.sum())
    assert (found.high[:-1] < found.low[1:]).all()
    if not target.any():
        return
    exact = len(scores.unique()) <= most
    curve, mixed, whole = found.curve(), found.mixed(), builders.from_scores(scores, target.bool())
    for ties in TIES:
        for measure in measures(ties):
            value, limits = measure(whole)[0], measure.bounds(curve, mixed)
            if value.isnan():  # fall-out where every item is a hit
                assert limits.low.isnan()
                assert limits.high.isnan()
                continue
            assert limits.low - SLACK <= value <= limits.high + SLACK
            assert limits.low - SLACK <= limits.estimate <= limits.high + SLACK
            if exact:
                assert limits.low == limits.estimate == limits.high
                assert float(limits.low) == pytest.approx(float(value), abs=SLACK)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 3)), min_size=1, max_size=60),
    st.integers(4, 40),
)
def test_every_measure_of_every_ranking_is_within_its_bounds(items, most):
    """Many rankings with rows in any order share one number of bins."""
    scores, target, ranking = (torch.tensor(x) for x in zip(*items, strict=True))
    scores, target, count = scores.float(), target.long(), 5  # the last ranking has no item
    found = ScoreBins(most)
    for first in range(0, len(scores), 9):
        part = slice(first, first + 9)
        found.add(scores[part], target[part], ranking=ranking[part])
    assert len(found.low) <= most
    exact = len(torch.unique(torch.stack([scores.long(), ranking]), dim=1)[0]) <= most
    curve, mixed = found.curve(count), found.mixed()
    whole = builders.from_scores(scores, target.bool(), segment=ranking, segments_count=count)
    assert curve.n.tolist() == whole.n.tolist()
    assert curve.m.tolist() == whole.m.tolist()
    if exact:
        assert not mixed.any()
    for ties in TIES:
        firsts = [FirstHit(what, k, ties) for what in ("reciprocal_rank", "hit_rate") for k in (None, 1, 4)]
        for measure in (*measures(ties), *firsts):
            value, limits = measure(whole), measure.bounds(curve, mixed)
            known = ~torch.isnan(value)
            assert torch.equal(known, ~torch.isnan(limits.estimate))
            assert (limits.low <= value + SLACK)[known].all()
            assert (value <= limits.high + SLACK)[known].all()
            assert (limits.low <= limits.estimate + SLACK)[known].all()
            if exact:
                torch.testing.assert_close(limits.estimate, value, rtol=0, atol=SLACK, equal_nan=True)


def test_short_rankings_stay_exact_next_to_a_long_one(generator):
    ranking = torch.cat([torch.zeros(5000), torch.arange(1, 101).repeat_interleave(10)]).long()
    scores = torch.rand(6000, generator=generator)
    found = ScoreBins(2500)
    order = torch.randperm(6000, generator=generator)
    for part in order.split(500):
        found.add(scores[part], torch.ones_like(part), ranking=ranking[part])
    assert len(found.low) <= 2500
    assert set((found.low != found.high).nonzero()[0].tolist()) <= set((found.ranking == 0).nonzero()[0].tolist())
    few = ScoreBins(100)
    with pytest.raises(ValueError, match=r"`bins` must be at least the number of rankings, 101, got 100"):
        few.add(scores, torch.ones_like(ranking), ranking=ranking)


def test_bounds_are_sharp_without_ties():
    """The bounds are the minimum and maximum over all orders inside two bins."""
    hits, items = torch.tensor([[2, 1]]), torch.tensor([[4, 3]])
    curve = from_bins(hits, items)
    inside = [set(itertools.permutations([1] * h + [0] * (g - h))) for h, g in zip(hits[0], items[0], strict=True)]
    for convention in (Convention(ties="expected"), Convention(5, ties="expected")):
        values = [
            convention(builders.from_scores(torch.arange(7.0, 0, -1), torch.tensor([*one, *two]).bool()))[0]
            for one, two in itertools.product(*inside)
        ]
        limits = convention.bounds(curve, torch.ones(2, dtype=torch.bool))
        assert float(limits.low) == pytest.approx(float(min(values)), abs=SLACK)
        assert float(limits.high) == pytest.approx(float(max(values)), abs=SLACK)
        assert float(limits.estimate) == pytest.approx(float(sum(values) / len(values)), abs=SLACK)


def test_grouped_values_can_exceed_all_orders_without_ties():
    """The bound of untied scores does not contain this value."""
    scores, target = torch.tensor([3.0, 2, 1, 1]), torch.tensor([0, 0, 1, 1])
    curve = binned(scores, target, 2, batch=4)
    value = binary_average_precision(scores, target).double()
    untied = Convention(ties="optimistic").bounds(
        from_bins(torch.tensor([[0, 2]]), torch.tensor([[2, 2]])),
        torch.tensor([True]),
    )
    assert value > untied.high
    assert value <= Convention(ties="grouped").bounds(curve.curve(), torch.tensor([True])).high


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.integers(0, 5)), min_size=1, max_size=40),
    st.integers(2, 16),
)
def test_weighted_average_precision_is_within_its_bounds(items, most):
    scores, target, weights = (torch.tensor(x) for x in zip(*items, strict=True))
    scores, target, weights = scores.float(), target.long(), weights.double()
    if not (target * weights).any():
        return
    found = binned(scores, target, most, weights=weights)
    value = binary_average_precision(scores, target, weights=weights, dtype=torch.float64)
    limits = Convention(ties="grouped").bounds(found.curve(), found.mixed())
    assert limits.low - SLACK <= value <= limits.high + SLACK


@each("order", ["shuffled", "ascending", "descending", "hits first"])
@each("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
def test_few_bins_are_enough_in_any_order(order, dtype, generator):
    target = (torch.rand(60_000, generator=generator) < 0.02).long()
    scores = torch.randn(60_000, generator=generator) + 2 * target
    scores = (scores * 1000).to(dtype) if dtype == torch.int64 else scores.to(dtype)
    place = {
        "shuffled": torch.arange(60_000),
        "ascending": scores.argsort(),
        "descending": scores.argsort(descending=True),
        "hits first": target.argsort(descending=True),
    }[order]
    scores, target = scores[place], target[place]
    found = binned(scores, target, 4096, 5000)
    limits = Convention(ties="expected").bounds(found.curve(), found.mixed())
    value = average_precision(builders.from_scores(scores, target.bool()), ties="expected")[0]
    assert limits.low <= value <= limits.high
    assert limits.high - limits.low < 0.02
    assert abs(limits.estimate - value) < 0.002


def test_measures_without_bounds_raise():
    curve = from_bins(torch.tensor([[1.0]]), torch.tensor([[2.0]]))
    mixed = torch.tensor([True])
    for measure in (
        AtRank("precision", 1),
        Convention(2),
        Convention(interpolation="11-point"),
        Convention(2, "found"),
    ):
        with pytest.raises(ValueError, match=r"weights have a meaning|weights require|bounds of bins"):
            measure.bounds(curve, mixed)
    with pytest.raises(ValueError, match="`bins` must be an int of at least 2, got 1"):
        ScoreBins(1)
    assert torch.isnan(Convention(ties="grouped").bounds(ScoreBins(2).curve(), torch.zeros(0, dtype=torch.bool)).low)
