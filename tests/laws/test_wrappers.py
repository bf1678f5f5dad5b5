"""Wrappers and containers of torchmetrics around every metric.

``FeatureShare`` is excluded: it shares a feature network, and no metric here has one.
"""

import functools
import warnings

import pytest
import torch
from torchmetrics import MetricCollection, MetricTracker
from torchmetrics.wrappers import (
    BinaryTargetTransformer,
    BootStrapper,
    ClasswiseWrapper,
    LambdaInputTransformer,
    MinMaxMetric,
    MultioutputWrapper,
    MultitaskWrapper,
    Running,
)
from torchmetrics.wrappers.bootstrapping import _bootstrap_sampler

import torch_ap
from tests.support.each import each
from tests.support.every_metric import METRICS
from tests.support.modes import same

BATCHES, WINDOW = 3, 2


@pytest.fixture(autouse=True)
def _ignore_warnings_of_undefined_values():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@functools.cache
def batches_of(name):
    return METRICS[name].batches(BATCHES, size=12)


@functools.cache
def value_of(name, *places):
    """Compute the value of some batches, in the order of their places."""
    row, batches = METRICS[name], batches_of(name)
    if row.learns:  # each batch learns its own bins
        metrics = [row.new() for _ in places]
        for metric, place in zip(metrics, places, strict=True):
            metric.update(**batches[place])
        return torch_ap.merge(metrics).compute()
    metric = row.new()
    for place in places:
        metric.update(**batches[place])
    return metric.compute()


def takes_tensors_of_samples(name):
    """Whether all arguments are tensors with one entry or row per sample."""
    values = list(batches_of(name)[0].values())
    return all(isinstance(x, torch.Tensor) and len(x) == len(values[0]) for x in values)


@pytest.mark.parametrize("way", ["update", "forward"])
@each("name", list(METRICS))
def test_running_computes_the_value_of_the_window(name, way):
    metric, batches = Running(METRICS[name].new(), window=WINDOW), batches_of(name)
    call = metric if way == "forward" else metric.update
    values = [call(**batch) for batch in batches]
    same(metric.compute(), value_of(name, 1, 2))  # torchmetrics merges each of its two slots in front of the first
    if way == "forward" and not METRICS[name].learns:
        same(values[1], value_of(name, 1))
    metric.reset()
    call(**batches[0])
    same(metric.compute(), value_of(name, 0))


@each("name", list(METRICS))
def test_tracker_keeps_one_metric_per_step(name):
    tracker = MetricTracker(METRICS[name].new(), maximize=None)
    for place, batch in enumerate(batches_of(name)[:2]):
        tracker.increment()
        tracker.update(**batch)
        same(tracker.compute(), value_of(name, place))
    tracker.reset()
    tracker.update(**batches_of(name)[0])
    same(tracker.compute(), value_of(name, 0))


@each("name", list(METRICS))
def test_tasks_are_separate(name):
    first, second, *_ = batches_of(name)
    tasks = MultitaskWrapper({"a": METRICS[name].new(), "b": METRICS[name].new()})
    if first.keys() != {"preds", "target"}:
        pytest.skip("the wrapper passes two arguments to each task")
    sides = [{"a": first[side], "b": second[side]} for side in ("preds", "target")]
    expected = {"a": value_of(name, 0), "b": value_of(name, 1)}
    same(tasks(*sides), expected)
    tasks.reset()
    tasks.update(*sides)
    same(tasks.compute(), expected)


@each("name", list(METRICS))
def test_transformers_pass_on_transformed_input(name):
    first = dict(batches_of(name)[0])
    positional = first.pop("preds"), first.pop("target")
    metric = LambdaInputTransformer(METRICS[name].new(), lambda preds: preds, lambda target: target)
    metric.update(*positional, **first)
    same(metric.compute(), value_of(name, 0))
    same(metric(*positional, **first), value_of(name, 0))
    metric.reset()
    metric.update(*positional, **first)
    same(metric.compute(), value_of(name, 0))


def test_binary_target_transformer():
    preds, target = torch.tensor([0.9, 0.8, 0.7]), torch.tensor([2, 0, 5])
    for metric in (torch_ap.BinaryAveragePrecision(), torch_ap.RetrievalMAP()):
        more = {"indexes": torch.zeros(3, dtype=torch.int64)} if isinstance(metric, torch_ap.RetrievalMAP) else {}
        wrapper = BinaryTargetTransformer(metric, threshold=1)
        wrapper.update(preds, target, **more)
        assert wrapper.compute() == torch.tensor(5 / 6)


@each("name", list(METRICS))
def test_minmax(name):
    if not (isinstance(value_of(name, 0), torch.Tensor) and value_of(name, 0).numel() == 1):
        pytest.skip("the wrapper compares scalars")
    metric = MinMaxMetric(METRICS[name].new())
    first, both = value_of(name, 0), value_of(name, 0, 1)
    metric.update(**batches_of(name)[0])
    same(metric.compute(), {"raw": first, "max": first, "min": first})
    metric.update(**batches_of(name)[1])
    if not METRICS[name].learns:
        same(metric.compute(), {"raw": both, "max": torch.max(first, both), "min": torch.min(first, both)})
    metric.reset()
    metric.update(**batches_of(name)[0])
    same(metric.compute()["raw"], first)


@each("name", list(METRICS))
def test_classwise_names_each_value(name):
    if not (isinstance(value_of(name, 0), torch.Tensor) and value_of(name, 0).ndim == 1):
        pytest.skip("the wrapper names the entries of one tensor")
    metric = ClasswiseWrapper(METRICS[name].new(), prefix="ap_")
    expected = {f"ap_{place}": x for place, x in enumerate(value_of(name, 0))}
    metric.update(**batches_of(name)[0])
    same(metric.compute(), expected)
    metric.reset()
    same(metric(**batches_of(name)[0]), expected)
    same(metric.compute(), expected)


@each("name", list(METRICS))
def test_bootstrapper_resamples_each_batch(name):
    row, batches = METRICS[name], batches_of(name)
    if not takes_tensors_of_samples(name) or not isinstance(value_of(name, 0), torch.Tensor):
        pytest.skip("the wrapper indexes and stacks tensors")
    torch.manual_seed(0)
    wrapper = BootStrapper(
        row.new(), num_bootstraps=2, mean=False, std=False, raw=True, sampling_strategy="multinomial"
    )
    metrics = [row.new() for _ in range(2)]
    for batch in batches[:2]:
        wrapper.update(**batch)
    torch.manual_seed(0)
    for batch in batches[:2]:
        for metric in metrics:
            chosen = _bootstrap_sampler(len(batch["preds"]), "multinomial")
            metric.update(**{key: x[chosen] for key, x in batch.items()})
    same(wrapper.compute()["raw"], torch.stack([metric.compute() for metric in metrics]))
    wrapper.reset()
    assert [metric.update_count for metric in wrapper.metrics] == [0, 0]


@pytest.mark.parametrize("name", ["binary", "binary_5_thresholds", "binary_64_bins", "binary_adaptive"])
def test_multioutput(name):
    row, (first, second) = METRICS[name], batches_of(name)[:2]
    wrapper = MultioutputWrapper(row.new(), 2)
    columns = [torch.stack([first[side], second[side]], 1) for side in ("preds", "target")]
    expected = torch.stack([value_of(name, place) for place in (0, 1)])
    same(wrapper(*columns), expected)
    same(wrapper.compute(), expected)
    wrapper.reset()
    wrapper.update(*columns)
    same(wrapper.compute(), expected)


@each("name", list(METRICS))
def test_collection_shares_one_state(name):
    row, batches = METRICS[name], batches_of(name)
    collection = MetricCollection({"a": row.new(), "b": row.new()})
    for batch in batches[:2]:
        collection.update(**batch)
    if "nan_left_out" not in name:  # torchmetrics compares states by `allclose`, and NaN is unequal to NaN
        assert len(collection.compute_groups) == 1
    collection(**batches[2])
    alone = row.new()
    for call, batch in zip((alone.update, alone.update, alone), batches, strict=True):
        call(**batch)
    expected = alone.compute()
    collection.compute()  # restores the references to the shared state
    for metric in collection.values(copy_state=False):
        same(metric.compute(), expected)
    collection.reset()
    collection.update(**batches[0])
    for metric in collection.values():
        same(metric.compute(), value_of(name, 0))
