"""Algorithms for the hit curves of many rankings: all give the curve that is counted item by item."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.support import oracles_retrieval as oracles
from tests.support.each import each
from torch_ap.core.ranking import builders, few_items, long_rankings, many_rankings, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.curves import area_under_hit_curve

VALUES = (-float("inf"), -2.5, -0.0, 0.0, 1.0, float("inf"))
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


@pytest.fixture(autouse=True, params=["few", "many"])
def few_or_many(request, monkeypatch):
    """Run with and without the algorithm for a small number of untied rankings."""
    if request.param == "many":
        monkeypatch.setattr(few_items, "FEW_OF_SEVERAL", 0)


def entries(curve: HitCurve) -> list[tuple]:
    assert curve.score is not None
    columns = (curve.segment, curve.score, curve.hits, curve.items, curve.hits_above, curve.items_above)
    return list(zip(*(x.tolist() for x in columns), strict=True))


def same(one: HitCurve, other: HitCurve) -> bool:
    names = ("hits", "items", "hits_above", "items_above", "score", "offsets", "n", "m")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def check(scores: Tensor, relevant: Tensor, lengths: list[int], *curves: HitCurve) -> None:
    expected = oracles.entries(scores.tolist(), relevant.tolist(), lengths)
    for curve in curves:
        assert entries(curve) == expected
        assert curve.n.tolist() == lengths
        assert curve.m.tolist() == [int(x.sum()) for x in relevant.split(lengths)]
        assert curve.score.dtype == scores.dtype


@st.composite
def rankings(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[int]]:
    lengths = draw(st.lists(st.integers(0, 7), max_size=6))
    size = sum(lengths)
    dtype = draw(st.sampled_from(DTYPES))
    ends = [] if dtype.is_floating_point else [torch.iinfo(dtype).min, torch.iinfo(dtype).max]
    values = VALUES if dtype.is_floating_point else (0, 1, 2, 100, *ends)
    scores = torch.tensor(draw(st.lists(st.sampled_from(values), min_size=size, max_size=size)), dtype=dtype)
    relevant = torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=torch.bool)
    return scores, relevant, lengths


@given(rankings())
@settings(deadline=None)
def test_end_to_end(case):
    scores, relevant, lengths = case
    check(*case, builders.from_runs(scores, relevant, segments.from_counts(torch.tensor(lengths).long())))


@given(rankings(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_in_any_order(case, random):
    scores, relevant, lengths = case
    segment = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths).long())
    mixed = list(range(len(scores)))
    random.shuffle(mixed)
    places = torch.tensor(mixed, dtype=torch.int64)
    curve = builders.from_scores(scores[places], relevant[places], segment=segment[places], segments_count=len(lengths))
    check(*case, curve)


LENGTHS = [[300] * 40, [1, 2000, 3] * 3, list(range(100))]
LARGE = [
    *itertools.product(LENGTHS, (0.0, 0.003, 0.4, 1.0), (torch.float32, torch.int64)),
    *itertools.product(LENGTHS[1:2], (0.003, 0.4), DTYPES),
]


@each("lengths, share, dtype", {str(x): x for x in LARGE})
def test_large(lengths, share, dtype):
    generator = torch.Generator().manual_seed(0)
    size = sum(lengths)
    scores = torch.randint(0, 120, (size,), generator=generator).to(dtype)
    relevant = torch.rand(size, generator=generator) < share
    offsets = segments.from_counts(torch.tensor(lengths))
    rows = builders.from_runs(scores, relevant, offsets)
    places = torch.randperm(size, generator=generator)
    mixed = builders.from_scores(
        scores[places], relevant[places], segment=segments.ids(offsets)[places], segments_count=len(lengths)
    )
    check(scores, relevant, lengths, rows, mixed)


@pytest.mark.parametrize("share", [0.005, 0.05, 0.6])
def test_threads_and_blocks_change_nothing(share, monkeypatch):
    generator = torch.Generator().manual_seed(1)
    scores = torch.randint(-500, 500, (400, 1000), generator=generator).float()
    relevant = torch.rand(400, 1000, generator=generator) < share
    offsets = torch.arange(401) * 1000
    places = torch.randperm(400_000, generator=generator)
    mixed = (scores.flatten()[places], relevant.flatten()[places])
    monkeypatch.setattr(many_rankings, "_ITEMS_A_BLOCK", 1 << 16)
    curves = []
    for count in (1, 2, 3):
        monkeypatch.setattr(order, "workers", lambda _, count=count: count)
        curves.append(builders.from_runs(scores.flatten(), relevant.flatten(), offsets))
        curves.append(
            builders.from_scores(*mixed, segment=segments.ids(offsets)[places], segments_count=len(offsets) - 1)
        )
    packed = builders._from_packed_keys(scores.flatten(), relevant.flatten(), segments.ids(offsets), offsets, None)
    for curve in curves:
        assert same(curve, packed)


def test_lengths_that_differ_much_are_not_taken_as_rows():
    offsets = torch.tensor([0, 1000, 1001, 1002, 1003])
    scores = torch.arange(1003.0)
    scores[1] = 0  # without ties, one sort serves all of them
    assert many_rankings.from_runs(scores, scores > 500, offsets) is None
    check(scores, scores > 500, [1000, 1, 1, 1], builders.from_runs(scores, scores > 500, offsets))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("relevant_each", [0, 1])
def test_one_hit_per_ranking_or_none(dtype, relevant_each):
    """Some rankings have no hit, and lengths differ a little."""
    generator = torch.Generator().manual_seed(3)
    lengths = (torch.randint(60, 101, (300,), generator=generator)).tolist()
    scores = torch.randint(-20, 20, (sum(lengths),), generator=generator).to(dtype)
    offsets = segments.from_counts(torch.tensor(lengths))
    relevant = torch.zeros(len(scores), dtype=torch.bool)
    if relevant_each:
        relevant[offsets[:-1][::2] + torch.randint(60, (150,), generator=generator)] = True
    check(scores, relevant, lengths, builders.from_runs(scores, relevant, offsets))


@pytest.mark.parametrize("share", [0.005, 0.3])
def test_one_ranking_among_many_threads(share, monkeypatch):
    """One ranking has all items: threads without a ranking add no group."""
    generator = torch.Generator().manual_seed(2)
    scores = torch.randint(0, 5000, (200_000,), generator=generator)
    relevant = torch.rand(200_000, generator=generator) < share
    lengths = torch.tensor([0, 200_000, 0])
    segment = torch.ones(200_000, dtype=torch.int64)
    monkeypatch.setattr(order, "workers", lambda _: 4)
    curve = many_rankings.from_any_order(scores.int(), relevant, segment, lengths)
    offsets = segments.from_counts(lengths)
    assert same(curve, builders._from_packed_keys(scores.int(), relevant, segments.ids(offsets), offsets, None))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rankings_of_one_item_in_any_order(dtype):
    generator = torch.Generator().manual_seed(0)
    scores, relevant = torch.tensor([2, 0, 1, 1, 0], dtype=dtype), torch.tensor([True, False, True, True, False])
    if dtype.is_floating_point:
        scores[2] = -0.0
    segment = torch.randperm(5, generator=generator)
    curve = builders.from_scores(scores, relevant, segment=segment, segments_count=5)
    places = torch.argsort(segment)
    check(scores[places], relevant[places], [1] * 5, curve)
    assert 1 / float(curve.score.double().min() or 1) > 0  # no -0.0
    more = torch.tensor([1, 2, 3, 1, 1])
    curve = builders.from_scores(scores, relevant, segment=segment, segments_count=5, m=more)
    assert curve.m.tolist() == more.tolist()


def test_more_relevant_than_ranked():
    curve = builders.from_runs(
        torch.tensor([1.0, 2.0]), torch.tensor([1, 0]), torch.tensor([0, 1, 2]), m=torch.tensor([3, 4])
    )
    assert curve.m.tolist() == [3, 4]
    assert curve.hits_seen.tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_buckets_of_any_scores(dtype, monkeypatch, generator):
    """Buckets are coarse, so that many scores share one; equal and infinite scores, zeros of both signs, any scale."""
    normal = torch.randn(3, 500, generator=generator, dtype=dtype)
    limits = torch.finfo(dtype)
    special = torch.tensor([torch.inf, -torch.inf, 0.0, -0.0, limits.tiny, limits.max, limits.min, 1.0], dtype=dtype)
    tables = {
        "normal": normal,
        "logarithmic": torch.exp(5 * normal),
        "few distinct": normal.round(),
        "equal": torch.full_like(normal, -2.5),
        "subnormal": normal * limits.tiny * 1e-3,
        "near the limits": normal.clamp(-1, 1) * limits.max,
        "special": special[torch.randint(len(special), normal.shape, generator=generator)],
    }
    relevant = torch.rand(normal.shape, generator=generator) < 0.05
    for name, table in tables.items():
        expected = many_rankings.from_table(table, relevant)
        with monkeypatch.context() as patch:
            patch.setattr(long_rankings, "_LONG", 1)
            patch.setattr(long_rankings, "_FEW_HITS", 1)
            for buckets in (4, 1 << 11):
                patch.setattr(long_rankings, "_MIN_BUCKETS", buckets)
                patch.setattr(long_rankings, "_MAX_BUCKETS", buckets)
                found = many_rankings.from_table(table, relevant)
                assert same(found, expected), (name, buckets)
                check(table.flatten(), relevant.flatten(), [500] * 3, found)
                assert same(long_rankings.from_columns(table.t(), relevant.t()), expected), (name, buckets)


def test_columns_of_float32_with_many_hits_are_longer():
    """From 2^13 items columns are counted alone, with many hits in float32 from 2^16."""
    many, few = torch.ones(1 << 13, 3, dtype=torch.bool), torch.zeros(1 << 13, 3, dtype=torch.uint8)
    for dtype, relevant, is_long in (
        (torch.float32, many, False),
        (torch.float32, few, True),
        (torch.float32, torch.zeros(1 << 13, dtype=torch.int64), False),  # class ids of 3 classes
        (torch.float16, many, True),
        (torch.float64, many[: 1 << 11], True),
    ):
        scores = torch.zeros(relevant.shape[0], 3, dtype=dtype)
        assert long_rankings.are_long(scores, relevant) == is_long, (dtype, relevant.shape)
    for size, is_long in (((1 << 16) - 1, False), (1 << 16, True)):
        assert long_rankings.are_long(torch.zeros(size, 1), torch.ones(size, 1, dtype=torch.bool)) == is_long


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_columns_by_each_algorithm(dtype, share, monkeypatch, generator):
    """Columns with and without ties, with few and many hits, with and without a hit, as flags and as class ids."""
    monkeypatch.setattr(long_rankings, "_LONG", 100)
    monkeypatch.setattr(order, "workers", lambda _: 2)
    relevant = torch.rand(300, 40, generator=generator) < share
    relevant[:, 3], relevant[:, 7] = True, False
    for scale in (3, 30_000):
        scores = torch.randn(300, 40, generator=generator) * scale
        scores = (scores.clamp(-100, 100) if dtype in (torch.int8, torch.uint8) else scores).to(dtype)
        found = long_rankings.from_columns(scores, relevant)
        check(scores.t().flatten(), relevant.t().flatten(), [300] * 40, found)
        check(scores[:, 0], relevant[:, 0], [300], long_rankings.from_columns(scores[:, :1], relevant[:, :1]))
        classes = torch.randint(38, (300,), generator=generator)
        assert same(
            long_rankings.from_columns(scores, classes),
            long_rankings.from_columns(scores, torch.nn.functional.one_hot(classes, 40)),
        )


@each("dtype", (torch.float32, torch.float64))
def test_a_long_row_with_one_tie_group(dtype, generator):
    """NumPy takes a reversed array of one item for contiguous, and torch does not."""
    scores, relevant = torch.rand(1, 9000, generator=generator, dtype=dtype), torch.zeros(1, 9000, dtype=torch.long)
    relevant[0, 5] = 1
    for row in (scores, torch.ones_like(scores)):
        assert float(area_under_hit_curve(row, relevant)) == float(area_under_hit_curve(row[0], relevant[0]))
