"""Small batches take a shorter way into the state of a metric: equal states and equal errors."""

import pickle
from functools import partial

import pytest
import torch
import torchmetrics

import torch_ap
from torch_ap.core.metric.base import RankingMetric
from torch_ap.core.ranking import few_items
from torch_ap.retrieval import QueryMetric

BINARY = {
    "binary": partial(torch_ap.BinaryAveragePrecision),
    "unchecked": partial(torch_ap.BinaryAveragePrecision, validate_args=False),
    "ignoring 1": partial(torch_ap.BinaryAveragePrecision, ignore_index=1),
    "ignoring -1": partial(torch_ap.BinaryAveragePrecision, ignore_index=(-1, 7)),
    "sigmoid": partial(torch_ap.BinaryAveragePrecision, normalization="sigmoid"),
    "without NaN": partial(torch_ap.BinaryAveragePrecision, nan_strategy="ignore"),
    "thresholds": partial(torch_ap.BinaryAveragePrecision, thresholds=5),
}
WIDE = {
    "multiclass": partial(torch_ap.MulticlassAveragePrecision, 3),
    "ignoring a class": partial(torch_ap.MulticlassAveragePrecision, 3, ignore_index=2),
    "many classes": partial(torch_ap.MulticlassAveragePrecision, 300, normalization="none"),
    "multilabel": partial(torch_ap.MultilabelAveragePrecision, 3),
}
QUERIES = {
    "MAP": torch_ap.RetrievalMAP,
    "MAP of level 2": partial(torch_ap.RetrievalMAP, relevance_level=2),
    "MAP ignoring 0": partial(torch_ap.RetrievalMAP, ignore_index=0),
    "nDCG": torch_ap.RetrievalNormalizedDCG,
    "nDCG of level 1": partial(torch_ap.RetrievalNormalizedDCG, relevance_level=1),
}
SCORES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8, torch.int32, torch.int64)
TARGETS = (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)


def batches(shape, target_shape, *indexes):
    """Yield valid and invalid batches of every dtype and of unusual memory."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(shape, generator=generator)
    target = torch.randint(0, 2, target_shape, generator=generator)
    for dtype in SCORES:
        yield (scores * (1 if dtype.is_floating_point else 9)).to(dtype), target, *indexes
    for dtype in TARGETS:
        yield scores, target.to(dtype), *indexes
    for value in (torch.nan, torch.inf, -torch.inf, -0.0, 2.0):
        for dtype in SCORES[:4]:
            yield scores.to(dtype).index_fill(0, torch.tensor([1]), value), target, *indexes
    for value in (2, 3, 299, 300, -1, 7):
        yield scores, target.index_fill(0, torch.tensor([1]), value), *indexes
    for value in (0.5, 2.0, torch.nan, torch.inf, -1.0, 1e300):
        yield scores, target.double().index_fill(0, torch.tensor([1]), value), *indexes
    yield scores.flip(0), target.flip(0), *indexes
    yield torch.stack([scores, scores], -1)[..., 0], target, *indexes
    yield scores[:1].expand(shape), target[:1].expand(target_shape), *indexes
    yield scores[:0], target[:0], *(x[:0] for x in indexes)
    yield scores[:-1], target, *indexes
    yield scores[None], target[None], *(x[None] for x in indexes)
    yield scores[0], target[0], *(x[0] for x in indexes)
    yield scores.tolist(), target, *indexes
    yield scores, *indexes


def query_batches():
    """Yield batches with indexes, without them and with unusual ones."""
    indexes = torch.tensor([0, 0, 1, 1, 2, 2, -(1 << 62), 5])
    yield from batches((8,), (8,), indexes)
    scores, target = next(batches((8,), (8,)))
    for dtype in (torch.uint8, torch.int32, torch.float32, torch.bool):
        yield scores, target, indexes.to(dtype)
    yield scores, target, indexes[::2]
    yield scores.view(2, 4), target.view(2, 4)
    yield scores, target, None
    yield scores, target, indexes.to("meta")


CASES = {
    **{name: (make, lambda: batches((8,), (8,))) for name, make in BINARY.items()},
    **{name: (make, lambda: batches((8, 3), (8,))) for name, make in WIDE.items() if name != "many classes"},
    "many classes": (WIDE["many classes"], lambda: batches((8, 300), (8,))),
    "multilabel": (WIDE["multilabel"], lambda: batches((8, 3), (8, 3))),
    **{name: (make, query_batches) for name, make in QUERIES.items()},
}


def updated(metric, batch):
    """Return the error of an update, if any, and the dtype and values of each tensor of the state after it."""
    error = None
    try:
        metric.update(*batch)
    except (TypeError, ValueError) as raised:
        error = type(raised), str(raised)
    states = ([x] if isinstance(x, torch.Tensor) else x for x in metric.metric_state.values())
    return (
        error,
        metric.update_count,
        [[(x.dtype, x.nan_to_num().tolist()) for x in y] for y in states],
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_both_ways_give_one_state(name, monkeypatch):
    """The batches follow one another, so that int64 scores and rows contradict earlier batches."""
    make, batches_of = CASES[name]
    short, long = make(), make()
    for batch in batches_of():
        outcome = updated(short, batch)
        with monkeypatch.context() as patch:
            patch.setattr(few_items, "_MOST_VALIDATED", 0)
            assert updated(long, batch) == outcome, batch
        for metric in (make(), short):  # the first batch of a metric too
            metric.reset()
            updated(metric, batch)
        long.reset()
        updated(long, batch)


@pytest.mark.parametrize("make", [*QUERIES.values(), BINARY["binary"], *WIDE.values()])
def test_later_changes_of_the_callers_tensors_have_no_effect(make):
    scores, target, indexes = torch.rand(8, 300), torch.arange(8) % 2, torch.zeros(8, dtype=torch.int64)
    metric = make()
    if isinstance(metric, torch_ap.MulticlassAveragePrecision | torch_ap.MultilabelAveragePrecision):
        width = getattr(metric, "num_classes", None) or metric.num_labels
        scores = torch.softmax(scores[:, :width], 1)
        target = target if hasattr(metric, "num_classes") else target[:, None].repeat(1, width)
        batch = [scores, target]
    else:
        batch = [scores[:, 0].contiguous(), target, *([indexes] if isinstance(metric, QueryMetric) else [])]
    for dtype in (torch.bfloat16, torch.float32):
        metric.reset()
        batch[0] = batch[0].to(dtype)
        for _ in range(2):
            metric.update(*(x.clone() for x in batch))
        expected = metric.metric_state
        again = make()
        for _ in range(2):
            given = [x.clone() for x in batch]
            again.update(*given)
            for tensor in given:
                tensor.fill_(1)
        for name, parts in again.metric_state.items():
            for part, other in zip(parts, expected[name], strict=True):
                assert torch.equal(part, other)


def count_long_updates(monkeypatch):
    """Return a list that grows with each update that does not take the shorter way."""
    calls, hold = [], RankingMetric._hold
    monkeypatch.setattr(RankingMetric, "_hold", lambda *args: (calls.append(1), hold(*args))[1])
    return calls


def test_common_batches_take_the_shorter_way(monkeypatch):
    calls, indexes = count_long_updates(monkeypatch), torch.tensor([0, 0, 1])
    scores, target = torch.tensor([0.3, 0.1, 0.6]), torch.tensor([0, 1, 1])
    for make in (torch_ap.RetrievalMAP, torch_ap.RetrievalNormalizedDCG, torch_ap.BinaryAveragePrecision):
        metric, batch = make(), (scores, target) if "Binary" in make.__name__ else (scores, target, indexes)
        metric.update(*batch)
        metric(*batch)
        pickle.loads(pickle.dumps(metric)).update(*batch)
        metric.clone().update(*batch)
        collection = torchmetrics.MetricCollection({"a": make(), "b": make()})
        for _ in range(3):
            collection.update(*batch)
        assert collection["b"].update_count == 3
        with torch.no_grad():
            metric.update(**dict(zip(("preds", "target", "indexes"), batch, strict=False)))
        assert metric.update_count == 3
    assert not calls
    with torch.inference_mode():
        metric.update(scores, target)
    assert len(calls) == 1
    assert not metric.scores[-1].is_inference()


def test_an_overridden_update_is_called():
    class Doubled(torch_ap.BinaryAveragePrecision):
        def update(self, preds, target):
            super().update(preds, target)
            super().update(preds, target)

    metric = Doubled()
    metric.update(torch.tensor([0.3, 0.6]), torch.tensor([0, 1]))
    assert len(metric.scores) == 2


def test_a_lack_of_memory_changes_nothing(monkeypatch):
    """The longer way then raises the error."""
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(torch.tensor([0.3, 0.6]), torch.tensor([0, 1]))

    def fail(*_args):
        raise MemoryError

    monkeypatch.setattr(few_items, "copy_valid", fail)
    with pytest.raises(MemoryError):
        metric.update(torch.tensor([0.3, 0.6]), torch.tensor([0, 1]))
    assert metric.update_count == len(metric.scores) == len(metric.targets) == 1


@pytest.mark.parametrize("settings", [{"bins": "half", "tolerance": 1.0}, {"thresholds": 5}])
def test_forward_copies_only_shared_counts(settings):
    scores, target = torch.tensor([0.25, 0.5, 0.75]), torch.tensor([0, 1, 1])
    alone = torch_ap.BinaryAveragePrecision(**settings)
    alone(scores, target)
    counts, first = alone.counts, alone.counts.clone()
    alone(scores, target)
    assert alone.counts is not counts
    assert torch.equal(counts, first)
    del counts
    place = alone.counts.data_ptr()
    alone(scores, target)
    assert alone.counts.data_ptr() == place
    assert torch.equal(alone.counts, 3 * first)
    members = {name: torch_ap.BinaryAveragePrecision(**settings) for name in "abc"}
    collection = torchmetrics.MetricCollection(members)
    for _ in range(2):
        collection.update(scores, target)  # the members now share one state
        collection(scores, target)
        collection.compute()
    for member in collection.values():
        assert torch.equal(member.counts, 4 * first)
    for member in members.values():
        assert torch.equal(member.counts, 4 * first)
