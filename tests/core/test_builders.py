"""All algorithms that convert scores to a hit curve return the same curve, equal to the definition's."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support import oracles
from tests.support.strategies import FLOATS, SCORES, rankings, tables
from torch_ap import Convention
from torch_ap.core.ranking import builders, hit_curve, order, segments
from torch_ap.core.ranking.builders import from_bins, from_columns, from_ordered, from_scores

FIELDS = ["hits", "items", "hits_above", "items_above", "score", "offsets", "n", "m"]


def same(first, second):
    for name in FIELDS:
        a, b = getattr(first, name), getattr(second, name)
        assert a.dtype == b.dtype, name
        assert torch.equal(a, b), name


def packed(scores, relevant, **settings):
    """Run the algorithm for many rankings on a single one."""
    return from_scores(scores, relevant, segment=torch.zeros(len(scores), dtype=torch.int64), **settings)


def entries(curve):
    columns = (curve.hits, curve.items, curve.hits_above, curve.items_above, curve.score)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(rankings())
def test_entries_are_the_tie_groups_with_a_hit(ranking):
    scores, relevant = ranking
    expected, items, hits = [], 0, 0
    for score, group in zip(sorted(set(scores), reverse=True), oracles.tie_groups(*ranking), strict=True):
        if sum(group):
            expected.append((sum(group), len(group), hits, items, score))
        items, hits = items + len(group), hits + sum(group)
    curve = from_scores(torch.tensor(scores), torch.tensor(relevant))
    assert entries(curve) == expected
    assert (curve.n.tolist(), curve.m.tolist()) == ([len(scores)], [sum(relevant)])


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8, torch.int64, torch.uint8])
@given(ranking=rankings())
def test_counted_packed_and_ordered_agree(dtype, ranking):
    scores, relevant = (torch.tensor(x, dtype=torch.float64) for x in ranking)
    if not dtype.is_floating_point:
        scores = scores.clamp(0 if dtype == torch.uint8 else -100, 100)
    scores, relevant = scores.to(dtype), relevant.long()
    counted = from_scores(scores, relevant)
    same(counted, packed(scores, relevant))
    keys = order.keys(scores).long()
    places = torch.argsort(keys, descending=True, stable=True)
    last = torch.ones(len(keys), dtype=torch.bool)
    last[:-1] = keys[places].diff() != 0
    offsets = torch.tensor([0, len(keys)])
    ordered = from_ordered(relevant[places], last, offsets, score=(scores + 0)[places])
    same(counted, ordered)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rate", [0.02, 0.5])
@pytest.mark.parametrize("steps", [10, 10**9])
def test_algorithms_agree_on_long_rankings(dtype, rate, steps, generator):
    """The rankings are long enough for threads and for both ways to chunk, with many ties and with few."""
    size = 1 << 18
    relevant = torch.rand(size, generator=generator) < rate
    scores = ((torch.randn(size, generator=generator) * steps).round() / steps).to(dtype)
    same(from_scores(scores, relevant), packed(scores, relevant))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("steps", [0, 2, 10**9])
def test_rankings_with_many_hits_have_the_counts_of_each_score(threads, steps, generator, monkeypatch):
    """Scores of both signs, equal scores, zeros of both signs and infinities, in any number of threads."""
    monkeypatch.setattr(order, "workers", lambda _: threads)
    scores = (torch.randn(1 << 16, generator=generator) * steps).round() / max(steps, 1)
    scores[::7], scores[1::7] = 0.0, -0.0
    scores[2::1000], scores[3::1000] = torch.inf, -torch.inf
    relevant = torch.rand(len(scores), generator=generator) < 0.5
    curve = from_scores(scores, relevant)
    distinct, group = np.unique(-scores.numpy(), return_inverse=True)
    items, hits = np.bincount(group), np.bincount(group, weights=relevant.numpy()).astype(int)
    kept = hits > 0
    columns = (hits, items, hits.cumsum() - hits, items.cumsum() - items, 0.0 - distinct)
    assert entries(curve) == list(zip(*(column[kept].tolist() for column in columns), strict=True))
    assert (curve.n.tolist(), curve.m.tolist()) == ([len(scores)], [int(relevant.sum())])


@pytest.mark.parametrize("exponents", [0, 30, 300])
@pytest.mark.parametrize("items", [1, 2, 200])
def test_sums_of_weights_are_the_same_with_and_without_slices(items, exponents, generator, monkeypatch):
    """Weights of nearly equal size need no slices, weights of very different sizes do; some are 0."""
    exponent = torch.randint(-exponents, 1, (items,), generator=generator)
    weight = torch.ldexp(torch.rand(items, generator=generator), exponent.double())
    weight[1::7] = 0
    scores, relevant = torch.randint(40, (items,), generator=generator), torch.rand(items, generator=generator) < 0.4
    curve = from_scores(scores, relevant, weight=weight)
    with monkeypatch.context() as patch:
        patch.setattr(segments, "slices_of_one", lambda x: segments.slices(x, np.array([0, len(x)])))
        same(curve, from_scores(scores, relevant, weight=weight))
    same(curve, packed(scores, relevant, weight=weight))
    assert (len(segments.slices_of_one(weight.numpy())) == 1) == (exponents == 0 or items < 200)


@given(tables())
def test_columns_are_rankings(table):
    scores, relevant = table
    each = [from_scores(scores[:, c], relevant[:, c]) for c in range(scores.shape[1])]
    same(from_columns(scores, relevant), hit_curve.join(each))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_long_columns_are_rankings(dtype, generator):
    scores = torch.randn(3000, 70, generator=generator).to(dtype)
    relevant = torch.rand(3000, 70, generator=generator) < 0.1
    relevant[:, 5] = False
    each = [from_scores(scores[:, c], relevant[:, c]) for c in range(70)]
    same(from_columns(scores, relevant), hit_curve.join(each))


@pytest.mark.parametrize("items", [50, 3000])
def test_class_ids_are_one_hot_columns(items, generator):
    scores = torch.randn(items, 40, generator=generator)
    target = torch.randint(38, (items,), generator=generator)
    same(from_columns(scores, target), from_columns(scores, torch.nn.functional.one_hot(target, 40)))


def test_blocks_of_columns_join(generator, monkeypatch):
    scores, relevant = torch.randn(30, 9, generator=generator), torch.rand(30, 9, generator=generator) < 0.3
    weight = torch.rand(30, generator=generator)
    whole = from_columns(scores, relevant), from_columns(scores, relevant, weight=weight)
    monkeypatch.setattr(builders, "ITEMS_A_BLOCK", 60)
    same(from_columns(scores, relevant), whole[0])
    blocks = from_columns(scores, relevant, weight=weight)
    torch.testing.assert_close(blocks.hits_above, whole[1].hits_above)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(SCORES), st.integers(0, 1)), max_size=20))
def test_segments_are_rankings(items):
    segment, scores, relevant = (torch.tensor([item[i] for item in items]) for i in range(3))
    segment, relevant, scores = segment.long(), relevant.long(), scores.float()
    parts = [from_scores(scores[segment == s], relevant[segment == s]) for s in range(4)]
    same(from_scores(scores, relevant, segment=segment, segments_count=4), hit_curve.join(parts))


@given(rankings())
def test_unit_weights_change_no_count(ranking):
    scores, relevant = (torch.tensor(x) for x in ranking)
    plain = from_scores(scores, relevant)
    weighted = from_scores(scores, relevant, weight=torch.ones(len(scores)))
    assert weighted.weighted
    assert not plain.weighted
    for name in ("hits", "items", "hits_above", "items_above", "n", "m"):
        assert torch.equal(getattr(weighted, name), getattr(plain, name).double())


@given(rankings())
def test_order_of_items_does_not_matter(ranking):
    scores, relevant = (torch.tensor(x) for x in ranking)
    places = torch.randperm(len(scores), generator=torch.Generator().manual_seed(len(scores)))
    same(from_scores(scores, relevant), from_scores(scores[places], relevant[places]))


@given(rankings(min_size=1))
def test_bins_of_every_score_are_the_curve(ranking):
    groups = oracles.tie_groups(*ranking)
    bins = from_bins(torch.tensor([[sum(g) for g in groups]]), torch.tensor([[len(g) for g in groups]]))
    curve = from_scores(*(torch.tensor(x) for x in ranking))
    for name in ("hits", "items", "hits_above", "items_above", "offsets", "n", "m"):
        assert torch.equal(getattr(bins, name), getattr(curve, name))


@given(rankings())
def test_keeping_all_groups_adds_only_groups_without_hits(ranking):
    scores, relevant = (torch.tensor(x) for x in ranking)
    every = from_scores(scores, relevant, keep_all_groups=True)
    assert len(every.hits) == len(set(ranking[0]))
    assert [entry for entry in entries(every) if entry[0]] == entries(from_scores(scores, relevant))


def test_relevant_items_that_were_not_ranked_count_in_m():
    curve = from_scores(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]), m=torch.tensor([4]))
    assert curve.m.tolist() == [4]
    assert curve.hits_seen.tolist() == [1]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
def test_devices_agree(dtype, generator):
    scores = (torch.randn(50_000, generator=generator) * 50).round().to(dtype)
    relevant = torch.rand(50_000, generator=generator) < 0.1
    on_device = from_scores(scores.cuda(), relevant.cuda())
    here = from_scores(scores, relevant)
    for name in FIELDS:
        assert torch.equal(getattr(on_device, name).cpu(), getattr(here, name))


@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 1.0, 2.0])])
def test_measures_leave_the_curve_as_it_was(weight):
    scores, relevant = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1, 0, 1])
    curve, again = (from_scores(scores, relevant, weight=weight) for _ in range(2))
    for _ in range(2):
        assert curve.precision.max() <= 1
        Convention()(curve)
        Convention(interpolation="trapezoid")(curve)
    same(curve, again)


def test_reversed_native_values_are_copied():
    native = SimpleNamespace(**{name: np.arange(3)[::-1] for name in hit_curve._COUNTS})
    assert hit_curve.from_native(native, None).m.tolist() == [2, 1, 0]
