"""Counts between thresholds against one comparison for each score and threshold."""

import pytest
import torch
from hypothesis import given

from tests.strategies import tables
from torch_ap.ranking import bins

THRESHOLDS = torch.tensor([-1.0, 0.0, 0.5])


def slow(scores, relevant, weights):
    """At or above each threshold, highest first, then everything: counts of misses and hits."""
    cumulative = []
    for threshold in [*sorted(THRESHOLDS.tolist(), reverse=True), -torch.inf]:
        taken = (scores >= threshold) * weights
        cumulative.append(torch.stack([(taken * (1 - relevant)).sum(0), (taken * relevant).sum(0)], 1))
    return torch.stack(cumulative, 1).diff(dim=1, prepend=torch.zeros(scores.shape[1], 1, 2))


@given(tables())
def test_counts(table):
    scores, relevant = table
    counted = bins.count(scores, relevant, THRESHOLDS)
    assert counted.dtype == torch.int64
    assert torch.equal(counted.float(), slow(scores, relevant, torch.ones_like(scores)))
    weights = torch.arange(1.0, len(scores) + 1)
    weighted = bins.count(scores, relevant, THRESHOLDS, weight=weights)
    assert torch.equal(weighted.float(), slow(scores, relevant, weights[:, None].expand(scores.shape)))
    kept = scores != 1.0
    some = bins.count(scores, relevant, THRESHOLDS, counted=kept)
    assert torch.equal(some.float(), slow(scores, relevant, kept.float()))


def test_class_ids(generator):
    scores = torch.randn(40, 5, generator=generator)
    target = torch.randint(5, (40,), generator=generator)
    one_hot = torch.nn.functional.one_hot(target, 5)
    assert torch.equal(bins.count(scores, target, THRESHOLDS), bins.count(scores, one_hot, THRESHOLDS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_score_on_a_threshold_is_above_it(dtype):
    scores = torch.tensor([0.5, 0.25, -1.0, -2.0], dtype=dtype)
    assert bins.bin_of(scores, THRESHOLDS).tolist() == [0, 1, 2, 3]


def test_thresholds():
    assert torch.equal(bins.thresholds_from(5), torch.linspace(0, 1, 5))
    assert bins.thresholds_from([0.5, 0.1]).tolist() == pytest.approx([0.1, 0.5])
    assert bins.thresholds_from(torch.tensor([1, 0])).tolist() == [0, 1]


def test_large_whole_numbers_are_not_rounded():
    scores = torch.tensor([2**24, 2**24 + 1])
    assert bins.bin_of(scores, torch.tensor([2**24 + 1])).tolist() == [1, 0]
    assert bins.bin_of(scores, torch.tensor([2.0**24 + 1], dtype=torch.float64)).tolist() == [1, 0]
    assert bins.bin_of(scores.double(), torch.tensor([2**24 + 1])).tolist() == [1, 0]
