"""Items that a sampler repeats to give all ranks the same number count once."""

import pytest
import torch
from torch.utils.data import DistributedSampler

import torch_ap
from tests.support.every_metric import METRICS
from tests.support.modes import quiet, same
from tests.support.parts import chosen, count
from torch_ap.functional import binary_average_precision

ROWS = {
    name: METRICS[name]
    for name in (
        *("binary", "binary_weighted", "binary_ignored", "binary_expected_at_3", "multiclass", "multilabel_ignored"),
        *("multilabel_micro", "multilabel_scores_weighted", "query_map", "query_map_rows", "query_map_judged_rows"),
        *("query_map_judged_items", "query_map_ignored", "query_precision", "query_mrr"),
        *("coco", "coco_masks", "coco_codes", "coco_given_ious", "voc"),
    )
}
each_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def with_sample_ids(drawn, places):
    """Return the items at these places, with their ids."""
    return {**chosen(drawn, torch.tensor(places)), "sample_ids": torch.tensor(places) * 7 - 3}


@each_row
@pytest.mark.parametrize("forward", [False, True])
def test_copies_count_once(row, forward):
    drawn = row.draw(90, torch.Generator().manual_seed(5))
    n = count(drawn)
    assert n % 4
    samplers = [DistributedSampler(range(n), 4, rank, shuffle=False) for rank in range(4)]
    shards = [row.new() for _ in range(4)]
    for shard, sampler in zip(shards, samplers, strict=True):
        places = list(sampler)
        for part in (places[: len(places) // 2], places[len(places) // 2 :], places[:1]):
            quiet(shard.update, **with_sample_ids(drawn, part))
    alone = row.new()
    order = list(dict.fromkeys(place for sampler in samplers for place in sampler))
    quiet(alone.update, **chosen(drawn, torch.tensor(order)))
    merged = torch_ap.merge([shard.from_bytes(shard.to_bytes()) for shard in shards])
    same(quiet(merged.compute), quiet(alone.compute))
    if forward:
        quiet(merged.forward, **with_sample_ids(drawn, order[:2]))
        same(quiet(merged.compute), quiet(alone.compute))


def check_padded(rank):
    """Distribute 11 items to 2 ranks: the sampler repeats the first one."""
    generator = torch.Generator().manual_seed(2)
    preds, target = torch.rand(11, generator=generator), torch.arange(11) % 3 == 0
    places = torch.tensor(list(DistributedSampler(range(11), 2, rank, shuffle=False)))
    assert len(places) == 6
    metric, padded = torch_ap.BinaryAveragePrecision(), torch_ap.BinaryAveragePrecision()
    metric.update(preds[places], target[places], sample_ids=places)
    padded.update(preds[places], target[places])
    assert metric.compute() == binary_average_precision(preds, target)
    assert padded.compute() != metric.compute()


def test_two_ranks(ranks):
    ranks(check_padded)


def test_of_copies_with_other_scores_the_first_counts():
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]), sample_ids=torch.tensor([4, 5, 6]))
    metric.update(torch.tensor([0.7, 0.05]), torch.tensor([1, 0]), sample_ids=torch.tensor([6, 7]))
    expected = binary_average_precision(torch.tensor([0.9, 0.8, 0.1, 0.05]), torch.tensor([1, 0, 1, 0]))
    assert metric.compute() == expected
    metric.update(torch.tensor([0.9]), torch.tensor([0]), sample_ids=torch.tensor([4]))
    with pytest.raises(ValueError, match="`sample_ids` must be unique per sample, got 4 with two different targets"):
        metric.compute()


def test_invalid_ids_raise():
    preds, target = torch.rand(4), torch.ones(4, dtype=torch.int64)
    metric = torch_ap.BinaryAveragePrecision()
    for wrong, match in (
        (torch.arange(3), r"`sample_ids` must be one per item, \(4,\), got shape \(3,\)"),
        (torch.rand(4), "`sample_ids`"),
        ([1, 2, 3], r"`sample_ids` must be one per item, \(4,\), got shape \(3,\)"),
        ([1, 2, "c", "d"], r"`sample_ids\[2\]` must be an integer .*IndexEncoder.* got 'c'"),
        ([1, 2.0, 3, 4], r"`sample_ids\[1\]` must be an integer that int64 represents, got 2.0"),
        ([True, False, True, True], r"`sample_ids\[0\]` must be an integer that int64 represents, got True"),
        ([1, [2], 3, 4], r"`sample_ids\[1\]` must be an integer that int64 represents, got \[2\]"),
        ([1, 2, 3, None], r"`sample_ids\[3\]` must be an integer that int64 represents, got None"),
        ([1, 2, 3, 2**70], r"`sample_ids\[3\]` must be an integer that int64 represents, got 1180591620717411303424"),
        ("abcd", "`sample_ids` must be a tensor, a list of integers or None, got str"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            metric.update(preds, target, sample_ids=wrong)
    metric.update(preds, target, sample_ids=torch.arange(4))
    with pytest.raises(ValueError, match="`sample_ids` must be given in every update or in none"):
        metric.update(preds, target)
    for more in ({"bins": 4}, {"bins": "adaptive"}, {"thresholds": 4}):
        with pytest.raises(ValueError, match="`sample_ids` cannot be combined with `thresholds` or `bins`"):
            torch_ap.BinaryAveragePrecision(**more).update(preds, target, sample_ids=torch.arange(4))


@each_row
@pytest.mark.parametrize("kind", [list, tuple])
def test_ids_may_be_a_list(row, kind):
    drawn = row.draw(40, torch.Generator().manual_seed(5))
    one, other = row.new(), row.new()
    for places in (list(range(count(drawn))), [0, 1]):
        batch = with_sample_ids(drawn, places)
        quiet(one.update, **batch)
        quiet(other.update, **batch | {"sample_ids": kind(batch["sample_ids"].tolist())})
    same(quiet(one.compute), quiet(other.compute))
    assert torch.equal(torch.cat(one.sample_ids), torch.cat(other.sample_ids))


def test_no_ids_are_a_list_of_none():
    metric = torch_ap.MeanAveragePrecision()
    metric.update([], [], [])
    assert metric.sample_ids[0].dtype == torch.int64


def test_checkpoints_from_before_there_were_ids_load():
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(torch.rand(4), torch.tensor([0, 1, 0, 1]))
    metric.persistent(True)
    saved = metric.state_dict()
    del saved["sample_ids"]
    loaded = torch_ap.BinaryAveragePrecision()
    loaded.load_state_dict(saved)
    assert loaded.compute() == metric.compute()


def test_of_copies_of_images_the_numbers_of_ground_truths_are_compared_alone():
    box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
    metric = torch_ap.MeanAveragePrecision()

    def update(truths):
        found = {"boxes": box, "scores": torch.tensor([0.9]), "labels": label}
        metric.update([found], [truths], torch.tensor([4]))

    update({"boxes": box, "labels": label})
    update({"boxes": box + 200, "labels": label + 1})
    assert metric.compute()["map"] == 1
    update({"boxes": box[:0], "labels": label[:0]})
    with pytest.raises(ValueError, match="got 4 with two different numbers of ground truths"):
        metric.compute()
