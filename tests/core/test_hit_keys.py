"""Hit keys sort as the scores do and contain relevance and score, in 32 and 64 bits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_ap.core.ranking import order, tie_groups

INF = float("inf")
TINY = 2.0**-48
NARROW = [
    [0.0, -0.0, 0.25, 1.0],
    [0.0, 1e-45, INF],
    [-1.99, 0.0, 1e-45, 1.99],
    [-INF, -1.0],
    [-12.5, -0.0, 0.0, TINY, 30.0],
    [-INF, -3.0, 0.0, 2.0**31],
    [-(2.0**79), 2.0**79],
]
WIDE = [[-2.0, 1e-30, 2.0], [-INF, INF], [-(2.0**81), 1.0, 2.0**81], [-3.0, -TINY / 2, 3.0]]
INTEGERS = [[-(2**31), -1], [-5, 0, 2**31 - 6], [0, 2**31 - 1]]
WIDE_INTEGERS = [[-(2**31), 2**31 - 1], [-(2**31), 0], [-1, 2**31 - 1]]


def check(scores, relevant):
    keys = tie_groups.narrowest_keys(scores, relevant)
    wanted = order.keys(torch.from_numpy(scores.copy())).long().numpy()
    assert keys.score_keys(keys.packed).tolist() == wanted.tolist()
    assert (keys.packed & 1).tolist() == relevant.tolist()
    expected = sorted(range(len(scores)), key=lambda i: (-int(wanted[i]), bool(relevant[i])))
    assert np.sort(keys.packed).tolist() == keys.packed[expected].tolist()
    wide = tie_groups.wide_keys(scores, relevant)
    assert (np.sort(wide) == wide[expected]).all()
    assert (-(wide >> 1)).tolist() == wanted.tolist()
    return keys


@pytest.mark.parametrize("values", NARROW)
def test_in_32_bits(values):
    assert check(np.array(values, np.float32), np.arange(len(values)) % 2 == 0).packed.dtype == np.uint32


@pytest.mark.parametrize("values", WIDE)
def test_in_64_bits(values):
    assert check(np.array(values, np.float32), np.arange(len(values)) % 2 == 0).packed.dtype == np.int64


@pytest.mark.parametrize("values", INTEGERS)
def test_integers(values):
    assert check(np.array(values, np.int32), np.arange(len(values)) % 2 == 0).packed.dtype == np.uint32


@pytest.mark.parametrize("values", WIDE_INTEGERS)
def test_integers_that_span_too_much(values):
    assert check(np.array(values, np.int32), np.array([True, False])).packed.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_few_bits(dtype):
    ends = np.iinfo(dtype)
    assert check(np.array([ends.min, 0, ends.max], dtype), np.array([True, False, True])).packed.dtype == np.int32


def test_no_scores():
    assert tie_groups.narrowest_keys(np.empty((0, 3), np.float32), np.empty((0, 3), bool)).packed.size == 0


@given(st.data())
@settings(deadline=None)
def test_any_floats(data):
    scores = data.draw(
        st.lists(st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, INF, -INF]), min_size=1)
    )
    relevant = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    check(np.array(scores, np.float32), np.array(relevant))


@given(st.data())
@settings(deadline=None)
def test_any_integers(data):
    scores = data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1))
    relevant = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    check(np.array(scores, np.int32), np.array(relevant))


@pytest.mark.parametrize("block", [1, 2, 7, 1 << 16])
@pytest.mark.parametrize("levels", [1, 2, 30, 10_000])
@pytest.mark.parametrize(
    "keys", [tie_groups.narrowest_keys, lambda *x: tie_groups.HitKeys(tie_groups.wide_keys(*x), 0, 0)]
)
def test_groups_of_one_ranking_in_blocks(block, levels, keys, monkeypatch):
    monkeypatch.setattr(tie_groups, "_BLOCK", block)
    random = np.random.default_rng(levels)
    for items in (0, 1, 2, 500):
        scores = (random.integers(0, levels, items) / levels - 0.5).astype(np.float32)
        relevant = random.random(items) < 0.4
        found = tie_groups.groups_of_sorted_ranking(np.sort(keys(scores, relevant).packed))
        slow = [(relevant[scores == x].sum(), (scores > x).sum(), (scores >= x).sum()) for x in np.unique(scores)[::-1]]
        slow = np.array([x for x in slow if x[0]], np.int64).reshape(-1, 3)
        assert np.array_equal(np.stack([found.hits, found.above, found.cumulative], 1), slow)
        whole = tie_groups.groups_of_sorted_keys(np.sort(keys(scores, relevant).packed), np.array([0, items]))
        for one, other in zip(found, whole, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
