"""Two gloo processes with unequal shares, one of them empty, against one process with everything."""

import copy

import pytest
import torch
import torch.distributed as dist

import torch_ap
from tests.support.every_metric import METRICS, one_each, one_of_each_state
from tests.support.modes import quiet, same
from tests.support.parts import chosen, count, cut
from tests.support.two_ranks import RankError
from torch_ap.core.base import tensors

SHARES = {"unequal": lambda n: [n - n // 3, n // 3], "one without any": lambda n: [n, 0]}
ROWS = {"unequal": one_of_each_state(), "one without any": one_each(METRICS)}


def check_rows(rank):
    """Check that the value uses all items, the first rank's first, and that each rank keeps its own items.

    Only one row per distinct state is needed: the computation from the state has tests of its own.
    """
    for name, share in ((name, share) for kind, share in SHARES.items() for name in ROWS[kind]):
        row = METRICS[name]
        if row.learns:  # each rank learns alone: test_binned
            continue
        drawn = row.draw(24, torch.Generator().manual_seed(7))
        parts = cut(drawn, share(count(drawn)))
        here, whole = row.new(), row.new(sync_on_compute=False)
        for place, part in enumerate(parts):
            if not count(part):
                continue
            for metric in [whole] + [here] * (place == rank):
                quiet(metric.update, **part)
                quiet(metric, **chosen(part, torch.arange(1)))  # forward leaves the synchronization to compute
        before = copy.deepcopy(here.metric_state)
        try:
            same(quiet(here.compute), quiet(whole.compute))
            same(here.metric_state, before)
        except AssertionError as error:
            raise AssertionError(name) from error


def check_the_rest(rank):
    check_dtypes(rank)
    check_mixed_dtypes(rank)
    check_many_classes(rank)
    check_failure_leaves_the_state()
    check_weights(rank)
    check_weights_of_items_and_of_scores(rank)
    check_what_contradicts(rank)
    check_a_rank_that_fails(rank)


def check_dtypes(rank):
    """Check every dtype of scores."""
    for dtype in tensors.SCORES:
        preds, target = torch.arange(20).to(dtype), torch.arange(20) % 3 == 0
        metric = torch_ap.BinaryAveragePrecision()
        metric.update(preds[10 * rank : 10 * rank + 10], target[10 * rank : 10 * rank + 10])
        assert torch.equal(metric.compute(), torch_ap.functional.binary_average_precision(preds, target)), dtype


def check_many_classes(rank):
    """Check class ids of two bytes."""
    preds, target = torch.rand(20, 1000, generator=torch.Generator().manual_seed(1)), torch.arange(20) * 50
    metric = torch_ap.MulticlassAveragePrecision(1000, empty_target_action="skip")
    metric.update(preds[10 * rank : 10 * rank + 10], target[10 * rank : 10 * rank + 10])
    expected = torch_ap.functional.multiclass_average_precision(preds, target, 1000, empty_target_action="skip")
    assert torch.equal(metric.compute(), expected)


def check_failure_leaves_the_state():
    """Check that a compute that fails while synchronized restores the local state."""
    metric = torch_ap.BinaryAveragePrecision(empty_target_action="error")
    metric.update(torch.rand(4), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="`target` must contain a positive"):
        metric.compute()
    assert sum(map(len, metric.scores)) == 4
    metric.update(torch.rand(2), torch.ones(2, dtype=torch.int64))
    assert 0 < metric.compute() <= 1


def check_mixed_dtypes(rank):
    """Check scores in bfloat16 on one rank and in float32 on the other, which rank together as float32."""
    preds, target = torch.rand(30, generator=torch.Generator().manual_seed(3)), torch.arange(30) % 3 == 0
    halves = preds[:15].bfloat16(), preds[15:]
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(halves[rank], target[15 * rank : 15 * (rank + 1)])
    expected = torch_ap.functional.binary_average_precision(torch.cat([halves[0].float(), halves[1]]), target)
    assert torch.equal(metric.compute(), expected)


def check_weights(rank):
    """Check weights; if one rank has none, both ranks raise."""
    preds, target = torch.rand(20, generator=torch.Generator().manual_seed(3)), torch.arange(20) % 3 == 0
    weights, mine = torch.arange(1.0, 21), slice(10 * rank, 10 * (rank + 1))
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(preds[mine], target[mine], weights[mine])
    expected = torch_ap.functional.binary_average_precision(preds, target, weights=weights)
    assert torch.equal(metric.compute(), expected)
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(preds[mine], target[mine], weights[mine] if rank else None)
    with pytest.raises(ValueError, match=r"`weights` .*every rank or on none"):
        metric.compute()


def check_weights_of_items_and_of_scores(rank):
    """Check weights of items on one rank and of scores on the other; an item's weight applies to all its scores."""
    preds, target = (
        torch.rand(20, 3, generator=torch.Generator().manual_seed(3)),
        torch.arange(60).reshape(20, 3) % 4 == 0,
    )
    weights, mine = torch.arange(1.0, 21), slice(10 * rank, 10 * (rank + 1))
    given = (weights[:10], weights[10:, None].expand(-1, 3) / torch.arange(1.0, 4))
    metric = torch_ap.MultilabelAveragePrecision(3)
    metric.update(preds[mine], target[mine], given[rank])
    whole = torch.cat([given[0][:, None].expand(-1, 3), given[1]])
    expected = torch_ap.functional.multilabel_average_precision(preds, target, 3, weights=whole)
    assert torch.equal(metric.compute(), expected)


def check_what_contradicts(rank):
    """Check that both ranks raise the same error without waiting, and that the metric stays usable."""
    binary, queries = torch_ap.BinaryAveragePrecision, torch_ap.RetrievalMAP
    preds, target, indexes = torch.rand(4), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    rows = [x.reshape(2, 2) for x in (preds, target)]
    cases = {
        r"`preds` .*int64": [(binary(), (preds, target)), (binary(), ((preds * 9).long(), target))],
        r"`weights` .*every rank or on none": [
            (binary(), (preds, target)),
            (binary(), (preds, target, preds)),
        ],
        r"`indexes` .*every rank or on none": [(queries(), (preds, target, indexes)), (queries(), rows)],
        r"`num_relevant` .*rows .*on every": [
            (queries(), rows),
            (queries(), (*rows, None), {"num_relevant": indexes[1:3] + 2}),
        ],
        r"same settings.* processes 0 and 1": [
            (binary(ignore_index=7), (preds, target)),
            (binary(thresholds=9), (preds, target)),
        ],
    }
    for message, ways in cases.items():
        metric, given, *more = ways[rank]
        metric.update(*given, **(more[0] if more else {}))
        with pytest.raises(ValueError, match=message) as caught:
            metric.compute()
        said = [None, None]
        dist.all_gather_object(said, str(caught.value))
        assert said[0] == said[1]
        metric.update(*given, **(more[0] if more else {}))
        assert metric.update_count == 2


def check_a_rank_that_fails(rank):
    """Check that a state that one rank cannot join raises the same error on the other, which would otherwise wait."""
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(torch.rand(2), torch.tensor([0, 1]))
    if rank:
        metric.scores.append("broken by hand")
    with pytest.raises(AttributeError, match="no attribute"):
        metric.compute()


def test_every_metric_on_two_ranks(ranks):
    ranks(check_rows)


def test_other_states_are_exchanged(ranks):
    ranks(check_the_rest)


def return_rank(rank):
    return rank


def check_failure(_rank):
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(torch.rand(3), torch.tensor([1, 0, 1]))
    assert metric.compute() == 0, "this check fails on purpose"


def test_a_failure_on_a_rank_is_seen_and_forgotten(ranks):
    with pytest.raises(RankError, match="fails on purpose"):
        ranks(check_failure)
    assert ranks(return_rank) == [0, 1]
