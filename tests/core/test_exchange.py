"""Processes that exchange their items return the bits of one process; the processes are threads, in any number."""

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics import MetricCollection

import torch_ap
from tests.support.every_metric import METRICS, one_each
from tests.support.modes import quiet, same
from tests.support.parts import count, cut, mapped, with_scores
from tests.support.threads import Threads
from torch_ap import Convention
from torch_ap.core.items import exchange
from torch_ap.core.items.inputs import Batch
from torch_ap.core.metric import exchange as parts
from torch_ap.core.metric import sync as once
from torch_ap.core.ranking import pairwise, segments

CONVENTIONS = [
    *({"ties": ties} for ties in ("grouped", "expected", "optimistic", "pessimistic")),
    *({"top_k": 5, "denominator": "relevant", "ties": ties} for ties in ("grouped", "expected")),
    {"top_k": "relevant"},
    *({"top_k": 7, "denominator": "found", "ties": ties} for ties in ("grouped", "expected", "optimistic")),
    *({"interpolation": name} for name in ("11-point", "101-point", "nuscenes", "11-point-trec9", "11-point-trec10")),
    *({"interpolation": "all-points", "ties": ties} for ties in ("grouped", "optimistic")),
    *({"interpolation": name} for name in ("trapezoid", "trapezoid-anchored", "davis-goadrich")),
    *({"interpolation": name} for name in ("ultralytics", "ultralytics-8.3")),
    {"interpolation": torch.tensor([0.5, 0.1, 1.0])},
]
TASKS = {
    "binary": (torch_ap.BinaryAveragePrecision, {}),
    "multiclass": (torch_ap.MulticlassAveragePrecision, {"num_classes": 3}),
    "multilabel": (torch_ap.MultilabelAveragePrecision, {"num_labels": 3}),
}


def drawn(task, size, values, ignored, seed, extra="", hits=0.5):
    """Draw scores with this number of distinct values (0: unlimited), targets, and weights or ids.

    Some targets are ignored with ``ignored``; ``hits`` is the share of hits among binary targets and labels.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (size,) if task == "binary" else (size, 3)
    preds = torch.rand(shape, generator=generator)
    preds = (preds * values).floor() / values if values else preds
    many = 3 if task == "multiclass" else 2
    target = torch.randint(many, shape[: 2 - (task == "multiclass")], generator=generator)
    if many == 2:
        target = (torch.rand(shape, generator=generator) < hits).long()
    if ignored:
        target[torch.rand(target.shape, generator=generator) < 0.2] = -1
    batch = {"preds": preds, "target": target}
    if extra == "weights":
        batch["weights"] = torch.rand(size, generator=generator).double() ** 9
    if extra == "sample_ids":
        batch = {name: torch.cat([x, x[: size // 3]]) for name, x in batch.items()}
        batch["sample_ids"] = torch.cat([torch.arange(size), torch.arange(size // 3)]) - 7
    return batch


def new(task, convention, **more):
    kind, given_settings = TASKS[task]
    return kind(**given_settings, **convention, **more).set_dtype(torch.float64)


def on_ranks(make, shares):
    """Return the result of ``compute`` on each rank, updated with its batches."""

    def work(rank):
        metric = make(sync="exchange", distributed_available_fn=lambda: True)
        for batch in shares[rank]:
            quiet(metric.update, **batch)
        return quiet(metric.compute)

    return Threads(len(shares))(work)


def here():
    return parts.Ranks(None, torch.device("cpu"))


def on(kind, **more):
    """Return a metric on ranks that are threads."""
    return kind(sync="exchange", distributed_available_fn=lambda: True, **more)


def whole(make, batch):
    metric = make()
    quiet(metric.update, **batch)
    return quiet(metric.compute)


def split(batch, cuts, world):
    """Split the items into updates at these places, and distribute these over the ranks in order."""
    bounds = [0, *sorted(cuts), len(batch["preds"])]
    updates = [{name: x[start:end] for name, x in batch.items()} for start, end in itertools.pairwise(bounds)]
    return [[x for place, x in enumerate(updates) if place * world // len(updates) == rank] for rank in range(world)]


@settings(max_examples=150)
@given(
    task=st.sampled_from(list(TASKS)),
    convention=st.sampled_from(CONVENTIONS),
    world=st.integers(1, 6),
    size=st.integers(0, 80),
    values=st.sampled_from([0, 1, 2, 9]),
    ignored=st.booleans(),
    cuts=st.lists(st.integers(0, 80), max_size=8),
    average=st.sampled_from(["macro", "none", "weighted", "micro"]),
    extra=st.sampled_from(["", "", "weights", "sample_ids"]),
    hits=st.sampled_from([0.5, 0.05]),
    seed=st.integers(0, 99),
)
def test_any_split_gives_the_same_bits(
    task, convention, world, size, values, ignored, cuts, average, extra, hits, seed
):
    if extra == "weights" and not Convention(**convention).takes_weights:
        extra = ""
    batch = drawn(task, size, values, ignored, seed, extra, hits)
    more = {"ignore_index": -1} if ignored else {}
    if task != "binary":
        more["average"] = "macro" if average == "micro" and task == "multiclass" else average

    def make(**also):
        return new(task, convention, **more, **also)

    expected = whole(make, batch)
    for value in on_ranks(make, split(batch, [min(x, size) for x in cuts], world)):
        same(value, expected)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "convention", [{"ties": "grouped"}, {"ties": "expected"}, {"interpolation": "all-points", "ties": "optimistic"}]
)
@pytest.mark.parametrize("world", [2, 5])
@pytest.mark.parametrize(("extra", "hits"), [("", 0.5), ("", 0.02), ("weights", 0.5)])
def test_many_items_give_the_same_bits(task, convention, world, extra, hits):
    """With many items, sums are halved over parts of two ranks, or all ranks receive the few hits."""
    if extra and not Convention(**convention).takes_weights:
        return
    batch = drawn(task, 20_000, 0, False, world, extra, hits)

    def make(**also):
        return new(task, convention, **also)

    for value in on_ranks(make, split(batch, [9, 7000, 7001, 15_000], world)):
        same(value, whole(make, batch))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8])
def test_dtypes(dtype):
    batch = drawn("binary", 500, 0, False, 1)
    batch["preds"] = (batch["preds"] * 100).to(dtype)

    def make(**also):
        return torch_ap.BinaryAveragePrecision(**also)

    for value in on_ranks(make, split(batch, [100, 350], 3)):
        same(value, whole(make, batch))


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_sums_equal_numpy(world):
    """Test runs of every length around those at which NumPy changes its order of addition, cut anywhere."""
    numbers = np.random.default_rng(world)
    lengths = np.concatenate([np.arange(0, 20), 128 + np.arange(-3, 12), numbers.integers(0, 5000, 30)])
    values = [numbers.random(length) for length in lengths]
    cuts = [np.sort(np.r_[0, numbers.integers(0, length + 1, world - 1), length]) for length in lengths]
    expected = segments.total(np.concatenate(values), segments.from_counts(lengths))

    def work(rank):
        mine = [x[cut[rank] : cut[rank + 1]] for x, cut in zip(values, cuts, strict=True)]
        offsets = segments.from_counts(np.array([len(x) for x in mine]))
        return parts.RankParts(here()).total(np.concatenate(mine), offsets)

    for found in Threads(world)(work):
        np.testing.assert_array_equal(found, expected)


def test_another_order_of_sums_would_be_seen():
    values = np.random.default_rng(0).random(5000)
    sizes = pairwise.halved(np.array([5000]), 4)[0]
    assert sizes.sum() == 5000
    assert sizes[0] == 1
    assert np.add.reduceat(values, [0])[0] != values.reshape(-1, 50).sum(1).sum()


@pytest.mark.parametrize("made", ["sorted over ranks", "three scores of four are 0", "one rank has nearly all"])
def test_no_rank_has_much_more_than_its_share(made):
    """Test the bytes sent and the bytes received."""
    size, world = 40_000, 4
    preds, target = drawn("binary", size, 0, False, 2).values()
    if made == "sorted over ranks":
        preds = preds.sort().values
    if made == "three scores of four are 0":
        preds[torch.rand(size, generator=torch.Generator().manual_seed(1)) < 0.75] = 0
    cuts = [10, 20, 30] if made.startswith("one rank") else [10_000, 20_000, 30_000]
    bounds = [0, *cuts, size]
    threads = Threads(world)

    def work(rank):
        mine = slice(bounds[rank], bounds[rank + 1])
        part = exchange.curve_part(here(), Batch(preds[mine], target[mine].byte()))
        return int(part.hits.sum())

    threads(work)
    share = preds.nbytes / world
    overhead = 20_000  # samples and sums
    assert all(sent <= (1.1 if not made.startswith("one rank") else world) * share + overhead for sent in threads.sent)
    assert all(got <= 1.1 * share + overhead for got in threads.received)


@pytest.mark.parametrize("cuts", [[10_000, 20_000, 30_000], [10, 20, 30]])
def test_few_hits_go_to_all_ranks_and_misses_to_none(cuts):
    """Exception: one rank has all hits, and the memory for them on other ranks exceeds a share."""
    preds, target = drawn("binary", 40_000, 0, False, 2, hits=0.02).values()
    bounds, threads = [0, *cuts, 40_000], Threads(4)

    def work(rank):
        mine = slice(bounds[rank], bounds[rank + 1])
        return exchange.curve_part(here(), Batch(preds[mine], target[mine].byte())).parts is None

    even, hits = cuts[0] > 10, int(target.sum())
    assert threads(work) == [even] * 4
    if even:
        assert max(threads.sent) < 4 * 4 * hits + 16 * 4 * hits + 2000


@pytest.mark.parametrize("name", [name for name, row in METRICS.items() if not row.learns])
def test_every_metric(name):
    """Test few items, on two ranks and on three, one of them empty."""
    row = METRICS[name]
    for seed, share in enumerate([lambda n: [n - n // 3, n // 3], lambda n: [n // 2, 0, n - n // 2]]):
        drawn = row.draw(40, torch.Generator().manual_seed(seed))
        batches = cut(drawn, share(count(drawn)))
        expected, metrics = row.new(sync_on_compute=False), [on(row.new) for _ in batches]
        for metric, batch in zip(metrics, batches, strict=True):
            for one in (expected, metric) if count(batch) else ():
                quiet(one.update, **batch)
        before = [copy.deepcopy(metric.metric_state) for metric in metrics]
        for value in Threads(len(metrics))(lambda rank, metrics=metrics: quiet(metrics[rank].compute)):
            same(value, quiet(expected.compute))
        for metric, state in zip(metrics, before, strict=True):
            same(metric.metric_state, state)


@pytest.mark.parametrize("name", METRICS)
def test_ranks_without_any_item(name):
    row = METRICS[name]
    expected, metrics = row.new(sync_on_compute=False), [on(row.new) for _ in range(2)]
    for value in Threads(2)(lambda rank: quiet(metrics[rank].compute)):
        same(value, quiet(expected.compute))


def test_ranks_without_a_query_have_the_dtype_of_all():
    vectors, labels = torch.rand(6, 3, dtype=torch.float64), torch.tensor([0, 0, 1, 1, 0, 1])
    metrics = [on(torch_ap.EmbeddingMAP) for _ in range(2)]
    for metric, is_query in zip(metrics, (True, False), strict=True):
        metric.update(vectors, labels, is_query=torch.full((6,), is_query))
    values = Threads(2)(lambda rank: quiet(metrics[rank].compute))
    assert [value.dtype for value in values] == [torch.float64] * 2


def test_a_metric_that_is_reset_while_it_is_synced_has_nothing_of_other_ranks():
    batches = [drawn("binary", 20, 9, False, seed) for seed in (1, 2)]

    def work(_):
        metric = on(torch_ap.BinaryAveragePrecision, sync_on_compute=False)
        metric.update(**batches[0])
        metric.sync(dist_sync_fn=metric.dist_sync_fn)
        metric.reset()
        metric.update(**batches[1])
        return metric.compute()

    wanted = whole(torch_ap.BinaryAveragePrecision, batches[1])
    assert Threads(2)(work) == [wanted, wanted]


@pytest.mark.parametrize("sync", ["gather", "exchange"])
def test_a_collection_synchronizes_shared_states_once(sync):
    preds, target = drawn("binary", 60, 9, False, 1).values()

    def collection(names, threads):
        gather = {"dist_sync_fn": threads.gather} if sync == "gather" else {}
        some = {"distributed_available_fn": lambda: True, "sync": sync, **gather}
        every = {
            "grouped": torch_ap.BinaryAveragePrecision(**some),
            "expected": torch_ap.BinaryAveragePrecision(ties="expected", **some),
            "top": torch_ap.BinaryAveragePrecision(top_k=3, **some),
        }
        return MetricCollection({name: every[name] for name in names})

    def collectives(names):
        threads = Threads(3)
        metrics = [collection(names, threads) for _ in range(3)]

        def work(rank):
            for part in (slice(0, 3), slice(3, 60)):  # the first makes the groups
                metrics[rank].update(preds[part][rank::3], target[part][rank::3])
            return metrics[rank].compute(), getattr(once._thread, "stored", None)

        for value, kept in threads(work):
            assert kept is None
            for name in names:
                convention = metrics[0][name].convention
                same(value[name], torch_ap.functional.binary_average_precision(preds, target, convention=convention))
        return threads.collectives

    alone = {name: collectives([name]) for name in ("grouped", "expected", "top")}
    together = collectives(list(alone))
    if sync == "gather":
        assert together == alone["grouped"] + 2  # the headers of the others
    else:
        assert together < 0.7 * sum(alone.values())  # each has its own sums


def test_a_metric_that_is_reset_while_synchronized_leaves_the_others_their_state():
    preds, target = drawn("binary", 60, 9, False, 1).values()
    threads = Threads(2)

    def work(rank):
        kinds = {"distributed_available_fn": lambda: True, "dist_sync_fn": threads.gather}
        every = [torch_ap.BinaryAveragePrecision(ties=ties, **kinds) for ties in ("grouped", "expected")]
        collection = MetricCollection(dict(zip(("one", "other"), every, strict=True)))
        for part in (slice(0, 4), slice(4, 60)):  # the first makes the groups
            collection.update(preds[part][rank::2], target[part][rank::2])
        one, other = collection.values(copy_state=False)
        for metric in (one, other):
            metric.sync(dist_sync_fn=metric.dist_sync_fn)
        one.reset()
        return sum(map(len, other.scores))

    assert threads(work) == [60, 60]


def test_a_snapshot_of_the_state_keeps_no_synchronized_one_alive():
    preds, target = drawn("binary", 60, 9, False, 1).values()
    metrics = [on(torch_ap.BinaryAveragePrecision) for _ in range(2)]
    for rank, metric in enumerate(metrics):
        metric.update(preds[rank::2], target[rank::2])
    snapshots = [metric.metric_state for metric in metrics]
    kept = Threads(2)(lambda rank: (metrics[rank].compute(), getattr(once._thread, "stored", None))[1])
    assert kept == [None, None]
    assert snapshots[0]["first_violation"] is metrics[0].first_violation


@pytest.mark.parametrize("name", one_each(METRICS))
def test_repr_shows_that_states_are_exchanged(name):
    row = METRICS[name]
    assert "sync" not in repr(row.new())
    for metric in (row.new(sync="exchange"), copy.deepcopy(row.new(sync="exchange"))):
        assert repr(metric) == repr(row.new())[:-1] + ", " * (repr(row.new())[-2] != "(") + "sync='exchange')"


ON_A_DEVICE = [
    *("binary_expected", "binary_all_points", "multiclass", "multilabel_ignored", "multilabel_scores_weighted"),
    *("query_map", "query_map_judged_queries", "query_ndcg_rows", "coco", "voc"),
]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_on_a_device(name, accelerator):
    """Collectives receive only tensors of the device; the device adds the sums in the order of ranks."""
    row = METRICS[name]
    drawn = row.draw(40, torch.Generator().manual_seed(3))
    batches = cut(drawn, [count(drawn) // 3, count(drawn) - count(drawn) // 3])
    expected = row.new(sync_on_compute=False)
    for batch in batches:
        quiet(expected.update, **batch)

    def work(rank):
        metric = on(row.new).to("cuda")
        quiet(metric.update, **mapped(batches[rank], lambda x: x.to("cuda")))
        value = quiet(metric.compute)
        return {name: x.cpu() for name, x in value.items()} if isinstance(value, dict) else value.cpu()

    for value in Threads(2, "cuda", accelerator)(work):
        # an accelerator adds in another order, and results are float32
        torch.testing.assert_close(value, quiet(expected.compute), rtol=1e-6, atol=1e-7, equal_nan=True)


@settings(max_examples=60)
@given(
    name=st.sampled_from(["query_map", "query_ndcg", "query_map_judged_items", "query_map_rows", "coco", "voc"]),
    world=st.integers(1, 5),
    shares=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    values=st.sampled_from([0, 3]),
    seed=st.integers(0, 999),
)
def test_any_split_of_queries_and_images_gives_the_same_bits(name, world, shares, values, seed):
    """Scores tie across ranks, too."""
    drawn = METRICS[name].draw(60, torch.Generator().manual_seed(seed))
    if values:
        drawn = with_scores(drawn, lambda x: (x * values).round() / values)
    weights = [*shares[: world - 1], 1]
    ends = (torch.tensor(weights).cumsum(0) * count(drawn) // sum(weights)).tolist()
    batches = cut(drawn, [end - start for start, end in itertools.pairwise([0, *ends])])
    expected, metrics = METRICS[name].new(sync_on_compute=False), [on(METRICS[name].new) for _ in batches]
    for metric, batch in zip(metrics, batches, strict=True):
        for one in (expected, metric) if count(batch) else ():
            quiet(one.update, **batch)
    for value in Threads(world)(lambda rank: quiet(metrics[rank].compute)):
        same(value, quiet(expected.compute))


def test_weights_that_are_no_numbers_end():
    """Unchecked, they give no value, and no endless loop."""
    metric = torch_ap.BinaryAveragePrecision(validate_args=False)
    metric.update(
        torch.rand(4), torch.tensor([0, 1, 0, 1]), weights=torch.tensor([1, float("nan"), float("inf"), 1e-300])
    )
    assert not 0 <= quiet(metric.compute) <= 1


@given(st.permutations(range(30)), st.sampled_from([0, 4]))
def test_sums_of_weights_do_not_depend_on_the_order(order, values):
    batch = drawn("binary", 30, values, False, 5, "weights")
    again = {name: x[list(order)] for name, x in batch.items()}
    value = torch_ap.functional.binary_average_precision
    same(value(**again, dtype=torch.float64), value(**batch, dtype=torch.float64))


@pytest.mark.parametrize("world", [2, 4, 8])
def test_bytes_sent_by_queries(world):
    """Queries send 13 bytes per item of a share, about equal for queries of equal length, and 17 per query."""
    queries, length = 400, 50
    generator = torch.Generator().manual_seed(0)
    preds = torch.rand(queries * length, generator=generator)
    target, indexes = preds > 0.9, torch.randint(queries, (queries * length,), generator=generator) * 64
    threads, each = Threads(world), queries * length // world

    def work(rank):
        metric, mine = on(torch_ap.RetrievalMAP), slice(rank * each, (rank + 1) * each)
        metric.update(preds[mine], target[mine], indexes[mine])
        return metric.compute()

    assert len(set(map(float, threads(work)))) == 1
    values = 17 * 1.3 * queries  # padded to the longest
    assert max(threads.received) < 13 * 1.3 * each + values + 4000


def test_bytes_sent_by_detections():
    """Send class, score, place and areas of each detection, and the place and criteria of each match."""
    row = METRICS["coco"]
    drawn = row.draw(800, torch.Generator().manual_seed(0))
    detections, batches = sum(len(x["scores"]) for x in drawn["preds"]), cut(drawn, [count(drawn) // 4] * 4)
    threads = Threads(4)

    def work(rank):
        metric = on(row.new)
        quiet(metric.update, **batches[rank])
        return quiet(metric.compute)["map"]

    assert len(set(map(float, threads(work)))) == 1
    arrays = 10 * 101 * 3 * 8 * 4  # precision of all classes in four areas
    assert max(threads.received) < 2 * detections / 3 * (8 + 4 + 8 + 4 + 24) + 2 * arrays  # three classes
