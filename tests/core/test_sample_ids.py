"""Items that a sampler repeats to give all ranks the same number count once."""

import re

import pytest
import torch
from matplotlib.figure import Figure
from torch.utils.data import DistributedSampler

import torch_ap
from tests.support.every_metric import METRICS
from tests.support.modes import quiet, same
from tests.support.parts import chosen, count
from tests.support.tolerances import REORDERED
from torch_ap import plot
from torch_ap.functional import binary_average_precision
from torch_ap.reports import report

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


PAIRED = {
    "binary": lambda: torch_ap.BinaryAveragePrecision(ignore_index=-1),
    "binary_at_60": lambda: torch_ap.BinaryAveragePrecision(top_k=60),
    "multiclass": lambda: torch_ap.MulticlassAveragePrecision(3),
    "multilabel": lambda: torch_ap.MultilabelAveragePrecision(3),
    "multilabel_micro": lambda: torch_ap.MultilabelAveragePrecision(3, average="micro"),
}


def draw_pair(name, n=120):
    """Return the scores of two systems, targets in which neighbors are equal, and an order with the same targets."""
    generator = torch.Generator().manual_seed(1)
    columns = () if name.startswith("binary") else (3,)
    preds = torch.randn(2, n, *columns, generator=generator)
    target = (
        torch.arange(n) % 3 if name == "multiclass" else (torch.rand(n, *columns, generator=generator) < 0.3).long()
    )
    target = target.clamp(max=1) if name.startswith("binary") else target
    order = torch.arange(n)
    for place in range(n):  # swap equal targets, so that the order of the targets is the same
        other = int(torch.randint(n, (), generator=generator))
        if torch.equal(target[place], target[other]):
            order[[place, other]] = order[[other, place]]
    assert torch.equal(target[order], target)
    assert not torch.equal(order, torch.arange(n))
    return preds, target, order


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("name", PAIRED)
def test_items_of_two_metrics_are_paired_by_their_ids(name, groups):
    preds, target, order = draw_pair(name)
    ids = torch.arange(120) * 5 - 7
    clusters = {"groups": torch.arange(120) // 3} if groups else {}

    def updated(scores, rows, **options):
        metric = PAIRED[name]()
        options |= {key: value[rows] for key, value in clusters.items()}
        for part in rows.split(50):
            chosen_rows = torch.isin(rows, part)
            metric.update(scores[part], target[part], **{key: value[chosen_rows] for key, value in options.items()})
        return metric

    rows = torch.arange(120)
    first, same_order = updated(preds[0], rows, sample_ids=ids), updated(preds[1], rows, sample_ids=ids)
    permuted = updated(preds[1], order, sample_ids=ids[order])
    reversed_order = updated(preds[1], rows.flip(0), sample_ids=ids.flip(0))
    wanted = first.compare(same_order)
    unpaired = updated(preds[0], rows).compare(updated(preds[1], order)) if not groups else None
    for other in (permuted, reversed_order):
        found = first.compare(other)
        assert float(found.p_value) == pytest.approx(float(wanted.p_value), rel=REORDERED)
        assert float(found.standard_error) == pytest.approx(float(wanted.standard_error), rel=REORDERED)
    if unpaired is not None:
        gap = abs(float(unpaired.standard_error) - float(wanted.standard_error))
        assert gap > 1e-6  # far above rounding errors
    itself = first.compare(updated(preds[0], order, sample_ids=ids[order]))
    assert (float(itself.standard_error), float(itself.p_value)) == (0, 1)
    if name == "binary_at_60":
        return
    best = torch_ap.inference.best_of_metrics([first, same_order])
    assert torch_ap.inference.best_of_metrics([first, permuted]).low == pytest.approx(float(best.low), rel=REORDERED)
    epochs = torch_ap.BestOf(PAIRED[name](), max_units=40)
    fixed = torch_ap.BestOf(PAIRED[name](), max_units=40)
    for scores, places in ((preds[0], rows), (preds[1], order)):
        for metric, chosen_places in ((epochs, places), (fixed, rows)):
            more = {key: value[chosen_places] for key, value in clusters.items()}
            metric.update(scores[chosen_places], target[chosen_places], sample_ids=ids[chosen_places], **more)
            metric.compute()
            metric.reset()
    assert epochs.best().low == pytest.approx(float(fixed.best().low), rel=1e-5)  # float32 contributions


@pytest.mark.parametrize("groups", [False, True])
def test_rows_of_two_metrics_are_paired_by_their_ids(groups, tmp_path):
    generator = torch.Generator().manual_seed(1)
    preds, target = torch.rand(2, 60, 5, generator=generator), torch.eye(5).long()[torch.arange(60) % 5]
    rows, ids, order = torch.arange(60), torch.arange(60) * 3 - 5, torch.randperm(60, generator=generator)
    more = {"groups": torch.arange(60) // 3} if groups else {}

    def updated(scores, places):
        metric = torch_ap.RetrievalMAP()
        for part in (*places.split(25), places[:4]):  # some rows again
            options = {key: value[part] for key, value in more.items()}
            metric.update(scores[part], target[part], sample_ids=ids[part], **options)
        return metric

    first, same_order, permuted = updated(preds[0], rows), updated(preds[1], rows), updated(preds[1], order)
    assert first.compare(permuted) == first.compare(same_order)
    assert first.compare(updated(preds[0], order)).p_value == 1
    best = torch_ap.inference.best_of_metrics
    assert best([first, permuted]) == best([first, same_order])
    assert permuted.per_query()[0].tolist() == rows.tolist()
    axes = [plot.query_differences([first, x], ax=Figure().subplots()) for x in (same_order, permuted)]
    heights = [[bar.get_height() for bar in ax.patches if bar.get_width() < 1] for ax in axes]
    assert heights[0] == heights[1]
    pages = [report(first, tmp_path / "x.html", other=x, n_resamples=50).read_text() for x in (same_order, permuted)]
    # means over queries in another order have other last digits
    texts = [re.sub(r"\d+\.\d{9,}", lambda number: f"{float(number[0]):.8f}", page) for page in pages]
    assert texts[0] == texts[1]
    other = torch_ap.RetrievalMAP()
    other.update(preds[0], target, sample_ids=ids + 3, **more)
    with pytest.raises(ValueError, match=r"^`other` must .* `sample_ids`, but it lacks -5$"):
        first.compare(other)


def test_different_ids_cannot_be_paired():
    preds, target, _ = draw_pair("binary")
    metrics = [torch_ap.BinaryAveragePrecision() for _ in range(3)]
    for metric, ids in zip(metrics, (torch.arange(120), torch.arange(120) + 1, None), strict=True):
        metric.update(preds[0], target, sample_ids=ids)
    with pytest.raises(ValueError, match=r"^`other` must have been .* the same `sample_ids`, but it lacks 0$"):
        metrics[0].compare(metrics[1])
    with pytest.raises(ValueError, match=r"^`metrics`: system 1 must .* `sample_ids`, but it lacks 0$"):
        torch_ap.inference.best_of_metrics(metrics[:2])
    metrics[0].update(preds[0][:1], target[:1], sample_ids=[500])
    metrics[2].update(preds[0][:1], target[:1])
    more = torch_ap.BinaryAveragePrecision()
    more.update(preds[0], target, sample_ids=torch.arange(120))
    with pytest.raises(ValueError, match=r"but it alone has 500$"):
        more.compare(metrics[0])
    assert metrics[0].compare(metrics[2]).p_value == 1  # without ids in one of them, in the order of the updates
    epochs = torch_ap.BestOf(torch_ap.BinaryAveragePrecision())
    epochs.update(preds[0], target, sample_ids=torch.arange(120))
    epochs.compute()
    epochs.reset()
    epochs.update(preds[0], target, sample_ids=torch.arange(120) + 1)
    with pytest.raises(ValueError, match=r"^epoch 1 must .* `sample_ids`, but it lacks 0$"):
        epochs.compute()
    assert len(epochs._epochs) == 1


def test_items_are_paired_with_a_judge_by_their_ids():
    preds, target, order = draw_pair("binary")
    human = torch.where(torch.arange(120) % 2 == 0, target, -1)
    own, same_order, permuted = (torch_ap.BinaryAveragePrecision(ignore_index=-1) for _ in range(3))
    own.update(preds[0], human, sample_ids=torch.arange(120))
    same_order.update(preds[0], target, sample_ids=torch.arange(120))
    permuted.update(preds[0][order], target[order], sample_ids=order)
    wanted = own.prediction_powered_interval(same_order)
    assert own.prediction_powered_interval(permuted).low == pytest.approx(float(wanted.low), rel=REORDERED)
