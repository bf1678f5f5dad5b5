"""Modes of PyTorch: every metric and function gives the same bits in all of them."""

import contextlib
import functools

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils._pytree import tree_map_only
from torchmetrics import MetricCollection

import torch_ap
from tests.support.each import each
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS, one_each, one_of_each_kind
from tests.support.modes import life, quiet, same
from torch_ap.core.base.cached import memoize
from torch_ap.retrieval import QueryMetric


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


MODES = {
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default_float64": lambda: default_dtype(torch.float64),
    "default_bfloat16": lambda: default_dtype(torch.bfloat16),
}
ROWS = FUNCTIONS | INFERENCE
METRICS_OF_A_KIND, ROWS_OF_A_KIND = one_of_each_kind(METRICS), one_of_each_kind(ROWS)
WITH_CURVES = {name: METRICS[name] for name in METRICS_OF_A_KIND if hasattr(METRICS[name].call, "curve")}
pytestmark = pytest.mark.no_cover  # the plain mode covers the same lines


def rows_with_modes(rows, kinds):
    """Return names of rows with each mode that they run in.

    The default dtype can affect single settings, so all rows run in it. The other modes depend on the kind of arguments
    only; the weaker modes run one row of each class or function.
    """
    few = {"default_bfloat16": rows, **dict.fromkeys(("no_grad", "default_float64"), tuple(one_each(rows)))}
    return [(name, mode) for mode in MODES for name in few.get(mode, kinds)]


@functools.cache
def results_without_mode(name):
    """Return batches, results of a metric's life without a mode, and its value after further batches."""
    row = METRICS[name]
    batches = row.batches(2)
    fresh = row.new()
    for batch in [*batches, batches[0]]:
        quiet(fresh.update, **batch)
    return batches, life(row.new(), batches), quiet(fresh.compute)


@functools.cache
def value(name):
    """Return the arguments of a function and its value without a mode."""
    (drawn,) = ROWS[name].batches(1)
    return drawn, quiet(ROWS[name].value, drawn)


def copies(drawn, change=torch.clone):
    return tree_map_only(torch.Tensor, change, drawn)


def states_of(metric):
    return [x for state in metric.metric_state.values() for x in (state if isinstance(state, list) else [state])]


def assert_same(mode, value, expected):
    """Assert equal bits; a default dtype is also the dtype of a metric's result, as in torchmetrics."""
    same(value, expected, dtype=not mode.startswith("default"))


@each("name, mode", rows_with_modes(METRICS, METRICS_OF_A_KIND))
def test_metrics(name, mode):
    row, (batches, expected, after) = METRICS[name], results_without_mode(name)
    outside = row.new()  # like a module that is trained and validated in turn
    with MODES[mode]():
        assert_same(mode, life(row.new(), copies(batches)), expected)
        assert_same(mode, life(outside, copies(batches)), expected)
    assert not any(x.is_inference() for x in states_of(outside))  # PyTorch does not count writes to inference tensors
    quiet(outside.update, **batches[0])
    same(quiet(outside.compute), after)


@each("name, mode", rows_with_modes(ROWS, ROWS_OF_A_KIND))
def test_functions(name, mode):
    drawn, expected = value(name)
    with MODES[mode]():
        same(quiet(ROWS[name].value, copies(drawn)), expected)


@each("name, mode", rows_with_modes(WITH_CURVES, WITH_CURVES))
def test_curves_of_metrics(name, mode):
    batches = METRICS[name].batches(2)
    here, there = METRICS[name].new(), METRICS[name].new()
    for batch in batches:
        quiet(here.update, **batch)
    with MODES[mode]():
        for batch in copies(batches):
            quiet(there.update, **batch)
        same(there.curve(), here.curve())
    same(there.curve(), here.curve())


@pytest.mark.parametrize("mode", MODES)
def test_results_of_curves(mode):
    curve = FUNCTIONS["binary_curve"].value(FUNCTIONS["binary_curve"].batches(1)[0])

    def curve_results():
        points = [curve.operating_point(method=x, n_resamples=20) for x in ("posterior", "bootstrap")]
        return [*points, curve.hit_curve(), curve.interpolated("11-point"), curve.band(n_resamples=20), curve.f_beta()]

    expected = curve_results()
    with MODES[mode]():
        same(curve_results(), expected)


def with_grad(x):
    return x.clone().requires_grad_() if x.is_floating_point() else x


@each("name", METRICS_OF_A_KIND)
def test_metrics_of_tensors_that_require_grad(name):
    batches, expected, _ = results_without_mode(name)
    metric = METRICS[name].new()
    same(life(metric, copies(batches, with_grad)), expected)
    assert not any(x.requires_grad for x in states_of(metric))


@each("name", ROWS_OF_A_KIND)
def test_functions_of_tensors_that_require_grad(name):
    drawn, expected = value(name)
    same(quiet(ROWS[name].value, copies(drawn, with_grad)), expected)


class Written:
    """Memoized sum of tensors, compared before and after each way of writing to them."""

    def __init__(self, tensors):
        self.tensors, self.made = tensors, 0

    def sum(self):
        def make():
            self.made += 1
            return sum(x.sum().item() for x in self.tensors)

        return memoize(make, Written, self.tensors)

    def follows(self):
        assert self.sum() == sum(x.sum().item() for x in self.tensors)
        self.tensors[0].add_(1)
        assert self.sum() == sum(x.sum().item() for x in self.tensors)
        self.tensors[0][1] = 7
        assert self.sum() == sum(x.sum().item() for x in self.tensors)


@pytest.mark.parametrize("made_in", [False, True])
@pytest.mark.parametrize("written_in", [False, True])
def test_memoized_results_follow_writes(made_in, written_in):
    with torch.inference_mode(made_in):
        written = Written([torch.zeros(3), torch.ones(2)])
    with torch.inference_mode(made_in or written_in):  # writes to inference tensors raise outside it
        written.follows()


def test_a_collection_is_sorted_once_in_inference_mode(monkeypatch):
    sorts = []
    sort = QueryMetric._rankings
    monkeypatch.setattr(QueryMetric, "_rankings", lambda self, **kwargs: sorts.append(1) or sort(self, **kwargs))
    names = ("query_map", "query_precision", "query_mrr")
    collection = MetricCollection({name: METRICS[name].new() for name in names})
    alone = {name: METRICS[name].new() for name in names}
    batches = METRICS["query_map"].batches(2)
    with torch.inference_mode():
        for batch in batches:
            collection.update(**batch)
        sorts.clear()
        found = collection.compute()
    assert len(sorts) == 1
    for name, metric in alone.items():
        for batch in batches:
            metric.update(**batch)
        same(found[name], metric.compute())


def test_results_memoized_in_inference_mode_serve_outside():
    metric = METRICS["query_map"].new(compute_with_cache=False)
    metric.update(**METRICS["query_map"].batches(1)[0])
    with torch.inference_mode():
        expected = metric.compute()
    same(metric.compute(), expected)
    same(metric.per_query()[1].mean(), expected)
    assert metric.confidence_interval().estimate.isfinite()


class Validated(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.metrics = torch.nn.ModuleDict({name: METRICS[name].new() for name in ("query_map", "binary", "coco")})

    def validation_step(self, batch, _):
        for name, metric in self.metrics.items():
            metric.update(**batch[name])

    def on_validation_epoch_end(self):
        self.found = {name: quiet(metric.compute) for name, metric in self.metrics.items()}


def test_lightning_validates_in_inference_mode():
    batches = [
        dict(zip(("query_map", "binary", "coco"), row, strict=True))
        for row in zip(*(METRICS[name].batches(2) for name in ("query_map", "binary", "coco")), strict=True)
    ]
    module = Validated()
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.validate(module, torch.utils.data.DataLoader(batches, batch_size=None), verbose=False)
    for name, found in module.found.items():
        metric = METRICS[name].new()
        for batch in METRICS[name].batches(2):
            metric.update(**batch)
        same(found, quiet(metric.compute))


def test_thresholds_are_read_whatever_the_default_dtype():
    preds, target = torch.arange(11) / 10, torch.tensor([0, 1] * 5 + [1])
    for thresholds in (11, [0.3, 0.7], torch.tensor([0.3, 0.7])):
        metric = torch_ap.BinaryAveragePrecision(thresholds=thresholds)
        expected = metric(preds, target), metric.thresholds
        with default_dtype(torch.bfloat16):
            metric = torch_ap.BinaryAveragePrecision(thresholds=thresholds)
            same((metric(preds, target), metric.thresholds), expected)
    assert torch_ap.BinaryAveragePrecision(thresholds=[0, 1]).thresholds.dtype == torch.int64
