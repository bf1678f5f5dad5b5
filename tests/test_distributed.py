"""Two gloo processes with unequal shares, one of them empty, against one process with everything."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import torch_ap
from tests.cases import CASES

SHARES = {"unequal": (27, 13), "empty_rank": (40, 0)}


def data(case):
    return case.make(40, torch.Generator().manual_seed(7))


def join(rank, world, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)


def part(rank, share, tensors):
    return [x.split(list(share))[rank] for x in tensors]


def check_cases(rank, store):
    join(rank, 2, store)
    for share in SHARES.values():
        for name, case in CASES.items():
            metric = case.new()
            mine = part(rank, share, data(case))
            if len(mine[0]):
                metric.update(*(x[:5] for x in mine))
                metric.update(*(x[5:] for x in mine))
            expected = case.value(*data(case))
            value = metric.compute()
            assert torch.equal(value, expected), (name, value, expected)
            if "thresholds" not in case.settings:
                held = sum(map(len, metric.scores))
                assert held == len(mine[0]), "the local state comes back after the sync"
    check_mixed_dtypes(rank)
    check_weights(rank)
    dist.destroy_process_group()


def check_mixed_dtypes(rank):
    """One rank scores in bfloat16, the other in float32: both are float32 numbers, and rank as such."""
    preds, target = torch.rand(30, generator=torch.Generator().manual_seed(3)), torch.arange(30) % 3 == 0
    halves = preds[:15].bfloat16(), preds[15:]
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(halves[rank], target[15 * rank : 15 * (rank + 1)])
    expected = torch_ap.functional.binary_average_precision(torch.cat([halves[0].float(), halves[1]]), target)
    assert torch.equal(metric.compute(), expected)


def check_weights(rank):
    """Weights travel; where one rank has none, both ranks say so."""
    preds, target = torch.rand(20, generator=torch.Generator().manual_seed(3)), torch.arange(20) % 3 == 0
    weights, mine = torch.arange(1.0, 21), slice(10 * rank, 10 * (rank + 1))
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(preds[mine], target[mine], weights[mine])
    expected = torch_ap.functional.binary_average_precision(preds, target, weights=weights)
    assert torch.equal(metric.compute(), expected)
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(preds[mine], target[mine], weights[mine] if rank else None)
    with pytest.raises(ValueError, match="`weights` must be given on every rank or on none"):
        metric.compute()


def test_every_case_on_two_ranks(tmp_path):
    mp.spawn(check_cases, (str(tmp_path / "store"),), nprocs=2)


def check_failure(rank, store):
    join(rank, 2, store)
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(torch.rand(3), torch.tensor([1, 0, 1]))
    assert metric.compute() == 0, "this check fails on purpose"


def test_a_failure_on_a_rank_is_seen(tmp_path):
    with pytest.raises(mp.ProcessRaisedException, match="fails on purpose"):
        mp.spawn(check_failure, (str(tmp_path / "store"),), nprocs=2)
