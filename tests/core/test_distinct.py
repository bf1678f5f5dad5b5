"""Equal rankings are found once."""

import itertools

import pytest
import torch

from tests.support import emulated
from torch_ap.core.ranking import distinct, segments
from torch_ap.core.ranking.hit_curve import HitCurve


def rankings(seed, size=300):
    """Draw short rankings, many of them equal, some of which differ in one number only."""
    draw = torch.Generator().manual_seed(seed)
    flags = torch.rand(size, 4, generator=draw) < 0.4
    ranking, items_above = flags.nonzero(as_tuple=True)
    offsets = segments.from_counts(flags.sum(1))
    ones = torch.ones_like(ranking)
    hits_above = torch.arange(len(ranking)) - offsets[ranking]
    n, m = torch.randint(4, 6, (size,), generator=draw), torch.randint(4, 6, (size,), generator=draw)
    return HitCurve(ones, ones, hits_above, items_above, None, offsets, n, m)


def as_numbers(curve):
    """Return each ranking as plain numbers."""
    ends, above = curve.offsets.tolist(), curve.items_above.tolist()
    each = [tuple(above[first:last]) for first, last in itertools.pairwise(ends)]
    return list(zip(curve.n.tolist(), curve.m.tolist(), each, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_every_ranking_is_there_once(seed):
    curve = rankings(seed)
    found, which = distinct.distinct_rankings(curve)
    assert sorted(as_numbers(found)) == sorted(set(as_numbers(curve)))
    assert [as_numbers(found)[place] for place in which.tolist()] == as_numbers(curve)
    assert found.hits_above.tolist() == [place for _, _, hits in as_numbers(found) for place in range(len(hits))]


@pytest.mark.parametrize("factors", [(0, 0, 0), (1, 1, 1), (0, 1, 1)])
def test_chance_decides_nothing(factors, monkeypatch):
    monkeypatch.setattr(distinct, "_FACTORS", factors)
    curve = rankings(0)
    found, which = distinct.distinct_rankings(curve)
    assert [as_numbers(found)[place] for place in which.tolist()] == as_numbers(curve)


def test_no_rankings():
    found, which = distinct.distinct_rankings(rankings(0, 0))
    assert len(found.m) == len(which) == 0


@pytest.mark.gpu
def test_on_a_device():
    curve = rankings(1)
    expected, places = distinct.distinct_rankings(curve)
    names = ("hits", "items", "hits_above", "items_above", "offsets", "n", "m")
    with emulated.device():
        there = HitCurve(**{name: getattr(curve, name).cuda() for name in names}, score=None)
        found, which = distinct.distinct_rankings(there)
        assert which.tolist() == places.tolist()
        assert as_numbers(found) == as_numbers(expected)
