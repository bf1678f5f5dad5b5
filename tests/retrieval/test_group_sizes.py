"""Sizes of groups as indexes, against a loop, in metrics, and invalid sizes."""

import numpy as np
import pytest
import torch

from torch_ap import RetrievalMAP, functional
from torch_ap.retrieval import indexes_from_sizes


@pytest.mark.parametrize("sizes", [[], [0], [3], [2, 0, 1], [1, 1, 1]])
def test_equals_a_loop(sizes):
    expected = [5 + group for group, size in enumerate(sizes) for _ in range(size)]
    forms = [sizes, tuple(sizes), np.array(sizes, np.int32), torch.tensor(sizes, dtype=torch.uint8)]
    for form in forms:
        indexes = indexes_from_sizes(form, 5)
        assert indexes.dtype == torch.int64
        assert indexes.tolist() == expected


def test_batches_of_groups(generator):
    sizes = torch.randint(1, 6, (20,), generator=generator)
    preds, target = torch.rand(int(sizes.sum()), generator=generator), torch.arange(int(sizes.sum())) % 2
    cut, metric = int(sizes[:8].sum()), RetrievalMAP(empty_target_action="skip")
    metric.update(preds[:cut], target[:cut], indexes_from_sizes(sizes[:8]))
    metric.update(preds[cut:], target[cut:], indexes_from_sizes(sizes[8:], first=8))
    alone = [
        functional.retrieval_average_precision(*items)
        for items in zip(preds.split(sizes.tolist()), target.split(sizes.tolist()), strict=True)
        if items[1].any()
    ]
    torch.testing.assert_close(metric.compute(), torch.stack(alone).mean())
    with pytest.raises(ValueError, match="`indexes` must have the shape of `preds`"):
        metric.update(preds, target, indexes_from_sizes(sizes[1:]))


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ([2, -1], ValueError, "`sizes` .*at least 0, got -1"),
        ([1.0], TypeError, r"`sizes\[0\]` must be an integer"),
        ([[1], [2]], TypeError, r"`sizes\[0\]` must be an integer"),
        (np.ones((2, 2), np.int64), TypeError, r"`sizes\[0\]` must be an integer"),
        (torch.ones(2), ValueError, "`sizes` must be an integer tensor"),
        (torch.ones(2, 2, dtype=torch.int64), ValueError, "`sizes` must be one per group"),
        (torch.tensor(3), ValueError, "`sizes` must be one per group"),
        (3, TypeError, "`sizes` must be a tensor, an array or a list"),
        (None, TypeError, "`sizes` must be a tensor, an array or a list"),
        ("12", TypeError, "`sizes` must be a tensor, an array or a list"),
    ],
)
def test_invalid_sizes(sizes, error, message):
    with pytest.raises(error, match=message):
        indexes_from_sizes(sizes)


@pytest.mark.parametrize("first", [-1, 1.0, True, None])
def test_invalid_first(first):
    with pytest.raises(ValueError, match="`first` must be an int of at least 0"):
        indexes_from_sizes([1], first)
