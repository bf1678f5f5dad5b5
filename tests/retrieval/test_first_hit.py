"""First hits in tied groups against exact fractions: chances, huge groups, one group and many."""

import itertools
from fractions import Fraction
from math import comb

import pytest
import torch

from tests.support.tolerances import FEW_TERMS
from torch_ap import RetrievalHitRate, RetrievalMRR
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.functional import retrieval_hit_rate, retrieval_reciprocal_rank
from torch_ap.retrieval.measures import at_rank

MILLION = 10**6


def reciprocal_rank(curve, *, ties="grouped", top_k=None):
    return at_rank.FirstHit("reciprocal_rank", top_k, ties)(curve)


def hit_rate(curve, *, ties="grouped", top_k=None):
    return at_rank.FirstHit("hit_rate", top_k, ties)(curve)


MEASURES = {"reciprocal_rank": reciprocal_rank, "hit_rate": hit_rate}


def curve_of(groups):
    """Return a curve with one ranking per group: (hits, items, items above it)."""
    hits, items, above = (torch.tensor(column) for column in zip(*groups, strict=True))
    offsets = torch.arange(len(groups) + 1)
    return HitCurve(hits, items, torch.zeros_like(hits), above, None, offsets, above + items, hits)


def exactly(name, hits, items, above, k=None):
    """Return the definition: the first hit at place x has probability C(g - x, r - 1) / C(g, r)."""
    places = range(1, min(items - hits + 1, items if k is None else k - above) + 1)
    chances = ((x, Fraction(comb(items - x, hits - 1), comb(items, hits))) for x in places)
    return sum((p / (above + x) if name == "reciprocal_rank" else p for x, p in chances), Fraction(0))


def value_over_orders(name, hits, items, above, k):
    """Return the value over all places of the hits."""
    firsts = [above + min(places) + 1 for places in itertools.combinations(range(items), hits)]
    values = [(Fraction(1, t) if name == "reciprocal_rank" else 1) if t <= k else 0 for t in firsts]
    return Fraction(sum(values)) / len(values)


SMALL = [(r, g, above) for g in (1, 2, 3, 7) for r in range(1, g + 1) for above in (0, 1, 5)]
GROUPS = [
    *SMALL,
    *[
        (r, g, above)
        for g in (15, 16, 17, 18, 40, 64, 257)
        for r in (1, 2, 3, g // 2, g - 1, g)
        for above in (0, 6, 900)
    ],
]


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("k", [1, 2, 4, 8, 20])
def test_fractions_are_the_mean_over_orders(name, k):
    for group in SMALL:
        assert exactly(name, *group, k) == value_over_orders(name, *group, k), group


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("k", [None, 1, 2, 8, 20, 33, 1000])
def test_exact_fractions(name, k):
    found = MEASURES[name](curve_of(GROUPS), ties="expected", top_k=k).tolist()
    wanted = [float(exactly(name, *group, k)) for group in GROUPS]
    assert found == pytest.approx(wanted, rel=4e-15, abs=0)  # a product of some factors, each rounded


def harmonic(items):
    return sum(1 / x for x in range(items, 0, -1))


def huge():
    """Yield groups of a million items and their mean reciprocal rank, by the definition if few terms count."""
    g = MILLION
    yield (g, g, 0), 1.0
    yield (g - 1, g, 0), float(Fraction(g - 1, g) + Fraction(1, 2 * g))
    yield (g - 1, g, g), float(Fraction(g - 1, g * (g + 1)) + Fraction(1, g * (g + 2)))
    yield (1, g, 0), harmonic(g) / g
    yield (2, g, 0), 2 / (g - 1) * (harmonic(g) - 1)  # sum of 2 (g - x) / (g (g - 1)) / x
    for r in (g // 2, g // 3, g // 1000):
        chance, total = Fraction(r, g), 0.0
        for x in range(1, 45 * g // r):
            total += float(chance) / x
            chance = Fraction(float(chance)) * Fraction(g - r + 1 - x, g - x)
        yield (r, g, 0), total


def test_a_million_items():
    groups, wanted = zip(*huge(), strict=True)
    found = reciprocal_rank(curve_of(groups), ties="expected").tolist()
    assert found == pytest.approx(wanted, rel=2e-12, abs=0)  # up to 45,000 factors, each rounded
    for group, value in zip(groups, found, strict=True):
        assert reciprocal_rank(curve_of([group]), ties="expected").tolist() == [value]


@pytest.mark.parametrize("k", [1, 2, 10])
def test_small_chances_keep_their_digits(k):
    """The difference 1 - (chance of none) would lose most digits."""
    groups = [(r, MILLION, 0) for r in (1, 2, 3, 1000, MILLION // 2, MILLION - 1, MILLION)]
    found = hit_rate(curve_of(groups), ties="expected", top_k=k).tolist()
    wanted = []
    for hits, items, _ in groups:
        none = Fraction(1)
        for x in range(k):
            none *= Fraction(items - hits - x, items - x) if items - hits > x else 0
        wanted.append(float(1 - none))
    assert found == pytest.approx(wanted, rel=4e-15, abs=0)  # a product of some factors, each rounded
    assert max(found) <= 1


def test_chances_far_below_the_least_float_do_no_harm():
    """In a group with half of its items relevant, the last places have chances of 2^-1000000."""
    group = (MILLION // 2, MILLION, 0)
    assert hit_rate(curve_of([group]), ties="expected", top_k=MILLION // 2).tolist() == [1.0]
    assert hit_rate(curve_of([group]), ties="expected", top_k=3000).tolist() == [1.0]
    low = (MILLION // 2, MILLION, 10**15)
    assert reciprocal_rank(curve_of([low]), ties="expected").item() == pytest.approx(1e-15, rel=FEW_TERMS)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("k", [None, 3, 30])
def test_one_group_and_many_give_the_same_bits(name, k):
    measure, curve = MEASURES[name], curve_of(GROUPS * 3)
    together = measure(curve, ties="expected", top_k=k)
    each = [measure(curve_of([group]), ties="expected", top_k=k).item() for group in GROUPS]
    assert together.tolist() == each * 3


def test_rows_in_blocks_change_nothing(monkeypatch):
    curve = curve_of(GROUPS * 3)
    whole = reciprocal_rank(curve, ties="expected")
    monkeypatch.setattr(at_rank, "_MOST_AT_ONCE", 40)
    assert torch.equal(reciprocal_rank(curve, ties="expected"), whole)


@pytest.mark.parametrize("top_k", [None, 1, 5, 40])
def test_function_and_class_and_batching_give_the_same_bits(top_k):
    generator = torch.Generator().manual_seed(3)
    sizes = [1, 2, 10, 33, 100, 300, 1000]
    preds = [torch.randint(0, 1 + size // 20, (size,), generator=generator).double() for size in sizes]
    target = [torch.arange(size) % 7 == size % 7 for size in sizes]
    for function, metric_class in (
        (retrieval_reciprocal_rank, RetrievalMRR),
        (retrieval_hit_rate, RetrievalHitRate),
    ):
        each = [function(*pair, top_k=top_k).item() for pair in zip(preds, target, strict=True)]
        indexes = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        assert function(torch.cat(preds), torch.cat(target), top_k=top_k, indexes=indexes).tolist() == each
        metric = metric_class(top_k=top_k)
        for query, pair in enumerate(zip(preds, target, strict=True)):
            metric.update(*pair, torch.full((sizes[query],), query))
        assert metric.per_query()[1].tolist() == each
