"""Counts between thresholds against one comparison for each score and threshold."""

import pytest
import torch
from hypothesis import given

from tests.support.strategies import tables
from torch_ap.core.ranking import bins

THRESHOLDS = torch.tensor([-1.0, 0.0, 0.5])


def slow(scores, relevant, weights):
    """Return the counts of misses and hits at or above each threshold, highest first, then of all items."""
    cumulative = []
    for threshold in [*sorted(THRESHOLDS.tolist(), reverse=True), -torch.inf]:
        taken = (scores >= threshold) * weights
        cumulative.append(torch.stack([(taken * (1 - relevant)).sum(0), (taken * relevant).sum(0)], 1))
    return torch.stack(cumulative, 1).diff(dim=1, prepend=torch.zeros(scores.shape[1], 1, 2))


@given(tables())
def test_counts(table):
    scores, relevant = table
    counted = bins.count(bins.Items(scores, relevant), THRESHOLDS)
    assert counted.dtype == torch.int64
    assert torch.equal(counted.float(), slow(scores, relevant, torch.ones_like(scores)))
    weights = torch.arange(1.0, len(scores) + 1)
    weighted = bins.count(bins.Items(scores, relevant, weights), THRESHOLDS)
    assert torch.equal(weighted.float(), slow(scores, relevant, weights[:, None].expand(scores.shape)))
    kept = scores != 1.0
    some = bins.count(bins.Items(scores, relevant, counted=kept), THRESHOLDS)
    assert torch.equal(some.float(), slow(scores, relevant, kept.float()))


def test_class_ids(generator):
    scores = torch.randn(40, 5, generator=generator)
    target = torch.randint(5, (40,), generator=generator)
    one_hot = torch.nn.functional.one_hot(target, 5)
    classes, labels = (bins.count(bins.Items(scores, x), THRESHOLDS) for x in (target, one_hot))
    assert torch.equal(classes, labels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_score_on_a_threshold_is_above_it(dtype):
    scores = torch.tensor([0.5, 0.25, -1.0, -2.0], dtype=dtype)
    assert bins.count_thresholds(scores, THRESHOLDS).tolist() == [3, 2, 1, 0]


def test_thresholds():
    assert torch.equal(bins.thresholds_from(5), torch.linspace(0, 1, 5))
    assert bins.thresholds_from([0.5, 0.1]).tolist() == pytest.approx([0.1, 0.5])
    assert bins.thresholds_from(torch.tensor([1, 0])).tolist() == [0, 1]


def test_large_whole_numbers_are_not_rounded():
    scores = torch.tensor([2**24, 2**24 + 1])
    assert bins.count_thresholds(scores, torch.tensor([2**24 + 1])).tolist() == [0, 1]
    assert bins.count_thresholds(scores, torch.tensor([2.0**24 + 1], dtype=torch.float64)).tolist() == [0, 1]
    assert bins.count_thresholds(scores.double(), torch.tensor([2**24 + 1])).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_many_scores_find_their_bins_by_tables(dtype, generator, monkeypatch):
    scores = torch.randn(3000, 2, generator=generator).to(dtype)
    scores[:4, 0] = torch.tensor([-torch.inf, -0.0, 0.5, torch.inf])
    for edges in ([0.5, -0.25, 0.0, 0.5], torch.randn(500, generator=generator), torch.linspace(0, 1, 9).double()):
        both = []
        for pays in (1, 10**9):
            monkeypatch.setattr(bins, "MIN_SCORES", pays)
            both.append(bins.from_thresholds(edges).index(scores).long())
        assert torch.equal(*both)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("size", [4, 300])
def test_counts_add_to_earlier_counts(size, classes, weighted, generator):
    """Counts are added in place if there are more cells than scores, else into new memory."""
    kind = bins.from_argument(64, 2, 1.0)
    scores = torch.rand(2, size, 3, generator=generator)
    target = torch.randint(3 if classes else 2, (2, size) if classes else (2, size, 3), generator=generator)
    weight = torch.randint(1, 9, (2, size), generator=generator) / 8 if weighted else [None, None]
    kept = torch.rand(target.shape, generator=generator) < 0.8
    batches = [bins.Items(*columns) for columns in zip(scores, target, weight, kept, strict=True)]
    first, second = (bins.count(batch, kind).clone() for batch in batches)
    expected = first + second
    before = first.clone()
    total, writes = bins.add(first, batches[1], kind)
    assert torch.equal(first, before)
    for write in writes:
        write()
    assert torch.equal(total, expected)
    assert (total is first) == (size * 3 < first.numel())
