"""Ties, located on CPU and by the code for devices, against counting equal scores."""

import itertools

import pytest
import torch

from tests.support.each import each
from torch_ap.core.ranking import tie_groups

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64)


def slowly(column):
    """Return (items, items above) of each group of two and more."""
    groups = [(len(list(group)), value) for value, group in itertools.groupby(sorted(column.tolist(), reverse=True))]
    above = itertools.accumulate((size for size, _ in groups), initial=0)
    return [(size, over) for (size, _), over in zip(groups, above, strict=False) if size > 1]


@each("dtype", DTYPES)
@each("values", [1, 4, 60])
@pytest.mark.parametrize("shape", [(0,), (1,), (50,), (0, 3), (40, 1), (40, 70), (5, 0)])
def test_ties(dtype, values, shape):
    generator = torch.Generator().manual_seed(values)
    scores = torch.randint(-values, values, shape, generator=generator).to(dtype)
    columns = scores[:, None] if scores.ndim == 1 else scores
    given = columns.clone()
    found = tie_groups.find_ties(scores)
    pairs = list(zip(found.items.tolist(), found.items_above.tolist(), strict=True))
    bounds = found.offsets.tolist()
    assert [pairs[a:b] for a, b in itertools.pairwise(bounds)] == [slowly(column) for column in columns.t()]
    assert found.n.tolist() == [shape[0]] * columns.shape[1]
    for one, other in zip(tie_groups._find_on_cpu(columns), tie_groups._find_on_device(columns), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(columns, given)


def test_both_zeros_tie():
    assert tie_groups.find_ties(torch.tensor([0.0, 1.0, -0.0])).items.tolist() == [2]


def test_threads_change_nothing(monkeypatch):
    scores = torch.randint(0, 900, (700, 100), generator=torch.Generator().manual_seed(0)).float()
    one = tie_groups.find_ties(scores)
    monkeypatch.setattr(tie_groups.order, "workers", lambda _: 3)
    for mine, theirs in zip(one, tie_groups.find_ties(scores), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.gpu
def test_accelerator_gives_the_same():
    scores = torch.randint(0, 900, (700, 100), generator=torch.Generator().manual_seed(0)).float()
    for mine, theirs in zip(tie_groups.find_ties(scores), tie_groups.find_ties(scores.cuda()), strict=True):
        assert torch.equal(mine, theirs.cpu())
