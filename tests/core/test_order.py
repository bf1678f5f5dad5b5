"""Keys keep the order of scores, and the two sorts agree."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import FLOATS
from torch_ap.core.ranking import order

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def all_halves(dtype):
    values = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    return values[~values.isnan()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_half_precision_number_keeps_its_place(dtype):
    scores = all_halves(dtype)
    scores = scores[torch.sort(scores.double(), stable=True).indices]
    keys = order.keys(scores).int()
    assert torch.equal(keys.diff() > 0, scores.double().diff() > 0)
    assert torch.equal(order.values(order.keys(scores), dtype), scores + 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_keep_their_places(dtype):
    info = torch.finfo(dtype)
    scores = torch.tensor([-torch.inf, info.min, -1, -info.tiny, 0, info.tiny, 1, info.max, torch.inf], dtype=dtype)
    keys = order.keys(scores)
    assert (keys[1:] > keys[:-1]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_are_one_score(dtype):
    keys = order.keys(torch.tensor([-0.0, 0.0], dtype=dtype))
    assert keys[0] == keys[1]
    assert not torch.signbit(order.values(keys, dtype)).any()


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=30))
def test_keys_sort_as_the_scores_do(scores):
    scores = torch.tensor(scores, dtype=torch.float32)
    by_key = order.values(order.sort(order.keys(scores)), torch.float32)
    assert torch.equal(by_key, torch.sort(scores).values + 0)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_their_own_keys(dtype):
    scores = torch.tensor([0, torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype=dtype)
    assert torch.equal(order.keys(scores), scores)
    assert torch.equal(order.values(order.keys(scores), dtype), scores)


def test_sort_leaves_its_input_alone():
    scores = torch.tensor([3.0, 1.0, 2.0])
    assert order.sort(scores).tolist() == [1, 2, 3]
    assert scores.tolist() == [3, 1, 2]


def test_dense_ranks():
    distinct, ranks = order.dense_ranks(torch.tensor([50, -7, 50]))
    assert distinct.tolist() == [-7, 50]
    assert ranks.tolist() == [1, 0, 1]


@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_equal_range_is_two_searches(values, queries):
    values, queries = np.sort(np.array(values, int)), np.sort(np.array(queries, int))
    below, at_or_below = order.equal_range(values, queries)
    assert np.array_equal(below, np.searchsorted(values, queries, "left"))
    assert np.array_equal(at_or_below, np.searchsorted(values, queries, "right"))


def test_equal_range_over_many_blocks_of_queries(generator):
    values = torch.randint(5000, (40_000,), generator=generator).sort().values.numpy()
    queries = torch.randint(-5, 5005, (3 * 4096 + 7,), generator=generator).sort().values.numpy()
    below, at_or_below = order.equal_range(values, queries)
    assert np.array_equal(below, np.searchsorted(values, queries, "left"))
    assert np.array_equal(at_or_below, np.searchsorted(values, queries, "right"))


def test_threads_answer_in_the_order_of_the_tasks():
    assert order.run_in_threads(lambda x: x * x, range(20), 2) == [x * x for x in range(20)]
    assert [(span.start, span.stop) for span in order.slices(10, 3)] == [(0, 3), (3, 6), (6, 10)]


@pytest.mark.parametrize("threads", [1, 3])
def test_whole_numbers_are_counted_by_any_number_of_threads(threads, monkeypatch):
    monkeypatch.setattr(order, "workers", lambda _: threads)
    values = np.random.default_rng(0).integers(0, 9, 1000)
    assert order.extremes(values - 4) == (-4, 4)
    assert order.bincount(values, 11).tolist() == [int((values == x).sum()) for x in range(11)]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 5), (5, 1), (70, 90)])
def test_columns_as_rows_are_in_memory_of_their_own(shape):
    given = torch.rand(shape)
    for columns in (given, given.t().contiguous().t(), given[:, 1:], given[:, ::2]):
        rows = order.as_rows(columns)
        assert torch.equal(rows, columns.t())
        assert rows.is_contiguous()
        before = given.clone()
        rows.fill_(7)
        assert torch.equal(given, before)


@pytest.mark.parametrize("sizes", [[], [0, 0], [5, 0, 3], [3000, 0, 9000, 1, 5000, 0], [20] * 500])
def test_sort_of_segments(sizes, generator):
    offsets = np.cumsum([0, *sizes])
    segment = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.int64))
    values = segment * 1000 + torch.randint(1000, (2, sum(sizes)), generator=generator)
    for dtype in (torch.int32, torch.int64):
        given = values.to(dtype)
        assert torch.equal(order.sort_segments(given, offsets), given.sort(1).values)
        assert torch.equal(given, values.to(dtype))
