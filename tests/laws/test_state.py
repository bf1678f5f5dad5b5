"""Metric states: every metric applies the same checks to every fault on every path into its state."""

import copy
import functools
import sys
import threading
import types
import warnings

import pytest
import torch
import torchmetrics
from distributed import protocol
from torchmetrics import MetricCollection

import torch_ap
from tests.support.every_metric import METRICS, one_each, one_of_each_state
from tests.support.modes import same
from torch_ap.core.metric import samples

# large states take long; test_binned covers merging of bins that were learnt separately
KINDS = {
    name: row for name, row in one_of_each_state().items() if row.settings.get("bins") != "half" and not row.learns
}
# one row per class, enough to check the arguments that a collection passes on
SOME = {id(METRICS[name]) for name in one_each(METRICS)}
NAMES = {id(row): name for name, row in KINDS.items()}
each_metric = pytest.mark.parametrize("row", KINDS.values(), ids=KINDS.keys())


@pytest.fixture(autouse=True)
def _undefined_values_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


# -- other batches of the same kind of data: most are compatible with the first one, some are not


def _scores(change):
    def changed(batch):
        preds = batch["preds"]
        if isinstance(preds, torch.Tensor):
            return {**batch, "preds": change(preds)}
        if isinstance(preds, dict):
            return {**batch, "preds": {**preds, "scores": change(preds["scores"])}}
        return {**batch, "preds": [{**image, "scores": change(image["scores"])} for image in preds]}

    return changed


def _weights(shape_of):
    def changed(batch):
        preds = batch["preds"]
        if "indexes" in batch or not isinstance(preds, torch.Tensor) or (preds.ndim == 2 and batch["target"].ndim == 0):
            return None
        return {**batch, "weights": torch.full(shape_of(preds), 0.5)}

    return changed


def _drop_keys(*names):
    """Remove keys from a batch; return None for a batch without these keys."""
    return lambda batch: {name: x for name, x in batch.items() if name not in names} if batch.keys() & names else None


def _flat(batch):
    if "indexes" in batch or not isinstance(batch["preds"], torch.Tensor):
        return None
    flat = {name: batch[name].flatten() for name in ("preds", "target")}
    return {**flat, "indexes": torch.arange(len(flat["preds"])) // 3}


def _rows(batch):
    return {name: batch[name].reshape(-1, 3) for name in ("preds", "target")} if "indexes" in batch else None


def _judged(batch):
    if "indexes" in batch:
        return {**batch, "num_relevant": {int(query): 1000 + int(query) // 10**9 for query in batch["indexes"]}}
    return {**batch, "num_relevant": torch.full((len(batch["preds"]),), 99)}


CHANGES = {
    "as it is": lambda batch: batch,
    "whole": _scores(lambda x: (x * 16).long()),
    "int32": _scores(lambda x: (x * 16).int()),
    "double": _scores(torch.Tensor.double),
    "half": _scores(torch.Tensor.half),
    "weighted": _weights(lambda preds: preds.shape[:1]),
    "weighted by column": _weights(lambda preds: preds.shape),
    "unweighted": _drop_keys("weights"),
    "flat": _flat,
    "rows": _rows,
    "judged": _judged,
    "judgements alone": lambda batch: {"num_relevant": {10**9: 1001}} if "indexes" in batch else None,
    "not judged": _drop_keys("num_relevant", "mask"),
}


@functools.cache
def others(name):
    """Return a batch, and other batches that a fresh metric accepts."""
    row = KINDS[name]
    first, second = row.batches(2)
    found = {}
    for name, change in CHANGES.items():
        try:
            other = change(second)
            if other is None:
                continue
            metric = row.new()
            metric.update(**other)
        except (TypeError, ValueError, AttributeError, KeyError):
            continue
        found[name] = other
    return first, found


def copied_state(metric):
    return copy.deepcopy({name: _whole(x) for name, x in metric.metric_state.items()})


def _whole(x):
    return torch.cat(x) if isinstance(x, list) and x and len({(y.dtype, y.ndim) for y in x}) == 1 else x


def assert_state(metric, before):
    """Assert that the state is unchanged; unlike ``copied_state``, make no copies."""
    same({name: _whole(x) for name, x in metric.metric_state.items()}, before)


def error_message(call):
    """Return the error message, or None."""
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return None


@each_metric
def test_every_path_accepts_the_same_batches_and_accepted_ones_compute(row):
    first, batches = others(NAMES[id(row)])
    assert "as it is" in batches
    fresh = row.new()
    fresh.update(**first)
    before, value = copied_state(fresh), fresh.compute()
    for name, batch in batches.items():
        ways = [lambda x: (x, x.update), lambda x: (x, x)]
        if id(row) in SOME:
            ways += [lambda x: ((c := MetricCollection([x]))[type(x).__name__], c.update)]
            ways += [lambda x: ((c := MetricCollection([x]))[type(x).__name__], c)]
        answers = []
        for way in ways:
            metric, call = way(row.new())
            call(**first)
            answers.append(error_message(lambda call=call, batch=batch: call(**batch)))
            if answers[-1] is not None:
                assert_state(metric, before)
                assert metric.update_count == 1
                metric._computed = None
                same(metric.compute(), value)
            call(**first)
            metric.compute()
        assert len(set(answers)) == 1, (name, answers)


class Ranks:
    """Metrics as ranks, one per thread, that gather from one another."""

    def __init__(self, metrics):
        self.metrics, self.barrier, self.given = metrics, threading.Barrier(len(metrics), timeout=5), {}

    def __call__(self, work):
        """Return the result of each metric, or its error."""
        answers = {}

        def run(rank):
            def gather(tensor, **_):
                self.given[rank] = tensor
                self.barrier.wait()
                gathered = [self.given[other].clone() for other in range(len(self.metrics))]
                self.barrier.wait()
                return gathered

            metric = self.metrics[rank]
            metric.dist_sync_fn, metric.distributed_available_fn = gather, lambda: True
            try:
                answers[rank] = work(metric)
            except Exception as error:  # the test checks it
                answers[rank] = error
            metric.distributed_available_fn = lambda: False

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(self.metrics))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [answers[rank] for rank in range(len(self.metrics))]


@each_metric
def test_metrics_checkpoints_and_ranks_go_together_where_batches_do(row):
    first, batches = others(NAMES[id(row)])
    for name, batch in batches.items():
        together, one, other = row.new(), row.new(), row.new()
        together.update(**first)
        one.update(**first)
        other.update(**batch)
        refused = error_message(lambda together=together, batch=batch: together.update(**batch)) is not None
        value = together.compute()
        answers = Ranks([one, other])(lambda metric: metric.compute())
        if refused:
            assert len(set(map(str, answers))) == 1, (name, answers)
            assert all(isinstance(x, ValueError) for x in answers), (name, answers)
        else:
            same(answers, [value, value])
        states, before = one.metric_state, copied_state(one)
        both = {key: [*x, *other.metric_state[key]] if isinstance(x, list) else x for key, x in states.items()}
        assert (error_message(lambda one=one, other=other: one.merge_state(other)) is not None) == refused, name
        if refused:
            assert_state(one, before)
            assert error_message(lambda both=both: load(row.new(), both)) is not None, name
        else:
            assert error_message(one.compute) is None


# -- states that no updates make


def _first_filled(state):
    """Yield the name of each state, its part for the fault, and a function that replaces this part."""
    for name, x in state.items():
        parts = x if isinstance(x, list) else [x]
        place = next((i for i, part in enumerate(parts) if part.numel()), None)
        if place is not None:

            def put(part, name=name, x=x, place=place):
                return {**state, name: part if not isinstance(x, list) else [*x[:place], part, *x[place + 1 :]]}

            yield name, parts[place], put


NOT_NEGATIVE = ("weights", "counts", "weight_sums", "image_sizes", "detection_row")


def faults(state):
    """Yield states with one fault each."""
    yield "foreign", {**state, "another": torch.zeros(1)}
    for name, part, put in _first_filled(state):
        if name not in samples.ADDED[1:]:  # older checkpoints have none
            yield f"{name}: missing", {key: x for key, x in state.items() if key != name}
        yield f"{name}: none", {**state, name: None}
        yield f"{name}: number", {**state, name: 3}
        yield f"{name}: no tensor", put(part.tolist())
        yield f"{name}: short", put(part[:-1])
        yield f"{name}: long", put(torch.cat([part, part[:1]]))
        yield f"{name}: deep", put(part[..., None])
        if isinstance(state[name], list) and name != "labels":  # which can have more dimensions
            yield f"{name}: deep throughout", {**state, name: [x[..., None] for x in state[name]]}
        yield f"{name}: 0-d", put(part.flatten()[0])
        yield f"{name}: complex", put(part.to(torch.complex64))
        yield f"{name}: bool", put(part.bool())
        yield f"{name}: sparse", put(part.to_sparse())
        if part.is_floating_point() and name != "detection_boxes":
            yield f"{name}: NaN", put(torch.full_like(part, torch.nan).index_fill(-1, torch.tensor([0]), 1))
        if name in NOT_NEGATIVE or name.endswith(("per_image", "lengths", "counts")):
            yield f"{name}: negative", put(-1 - part)
        if name == "image_sizes":
            yield f"{name}: no mask is so large", put(torch.full_like(part, 1 << 31))
            yield f"{name}: no number is so large", put(torch.full_like(part, 1 << 32))
        if name.endswith("mask_edges"):
            yield f"{name}: beyond the image", put(part + (1 << 20))
        if name in ("targets", "query_relevance"):
            yield f"{name}: no such target", put(torch.full_like(part, torch.iinfo(part.dtype).max - 1))


def load(metric, state):
    """Load the state as part of a model, as in checkpoints."""
    holder = torch.nn.Module()
    holder.metric = metric
    return holder.load_state_dict({f"metric.{name}": x for name, x in state.items()}, strict=False)


@each_metric
def test_invalid_states_raise_and_change_nothing(row):
    metric, source = row.new(), row.new()
    first, second = row.batches(2)
    metric.update(**first)
    source.update(**second)
    source.update(**first)
    value, before = metric.compute(), copied_state(metric)
    sound = copy.deepcopy(source.metric_state)
    for fault, state in faults(sound):
        if row.settings.get("validate_args") is False and ("NaN" in fault or "target" in fault or "negative" in fault):
            continue
        if fault != "foreign":  # torch raises itself with strict loading
            message = str(error_message(lambda state=state: load(metric, state)))
            assert "metric: `state_dict` is not the state of valid updates: " in message, (fault, message)
            assert metric._computed is not None
        assert "`incoming_state" in str(error_message(lambda state=state: metric.merge_state(state))), fault
        assert_state(metric, before)
    same(metric.compute(), value)
    load(metric, sound)
    same(copied_state(metric), copied_state(source))
    same(metric.compute(), source.compute())
    same(copied_state(source), {name: torch.cat(x) if isinstance(x, list) and x else x for name, x in sound.items()})


# -- checkpoints of torchmetrics' classes with the same names


def theirs(cls, settings, batches):
    metric = getattr(torchmetrics.classification, cls)(**settings)
    metric.persistent(True)
    for batch in batches:
        metric.update(*batch)
    return metric


@pytest.mark.parametrize("scale", [1, 8], ids=["probabilities", "logits"])
@pytest.mark.parametrize("ignored", [{}, {"ignore_index": -1}])
@pytest.mark.parametrize("kind", ["Binary", "Multiclass", "Multilabel"])
def test_a_checkpoint_of_torchmetrics_is_read(kind, ignored, scale, generator):
    shape = {"Binary": (40,), "Multiclass": (40, 4), "Multilabel": (40, 4)}[kind]
    own = {"Binary": {}, "Multiclass": {"num_classes": 4}, "Multilabel": {"num_labels": 4}}[kind]
    low = -1 if ignored else 0
    batches = []
    for _ in range(4):
        preds = torch.rand(shape, generator=generator)
        preds = preds.softmax(1) if kind == "Multiclass" and scale == 1 else preds
        high, size = (4, shape[:1]) if kind == "Multiclass" else (2, shape)
        batches.append((preds * scale - (scale > 1) * 4, torch.randint(low, high, size, generator=generator)))
    name, settings = f"{kind}AveragePrecision", {**own, **ignored}
    *read, further = batches
    other = theirs(name, settings, read)
    normalization = {"Multiclass": "softmax"}.get(kind, "sigmoid") if scale > 1 else None
    metric = getattr(torch_ap, name)(**settings, normalization=normalization)
    load(metric, other.state_dict())
    torch.testing.assert_close(metric.compute(), other.compute())
    metric.update(*further)
    again = getattr(torch_ap, name)(**settings, normalization=normalization)
    for batch in batches:
        again.update(*batch)
    torch.testing.assert_close(metric.compute(), again.compute())
    metric.load_state_dict(theirs(name, settings, []).state_dict())
    assert metric.scores == []


def test_unreadable_checkpoints_of_torchmetrics_raise():
    batch = torch.tensor([0.1, 0.6]), torch.tensor([0, 1])
    counts = theirs("BinaryAveragePrecision", {"thresholds": 5}, [batch]).state_dict()
    for settings in ({}, {"thresholds": 5}):
        metric = torch_ap.BinaryAveragePrecision(**settings)
        metric.update(*batch)
        value = metric.compute()
        with pytest.raises(RuntimeError, match=r"states \['confmat'\] .*torchmetrics' class .*cannot be loaded"):
            load(metric, counts)
        assert metric.compute() == value
    items = theirs("BinaryAveragePrecision", {}, [batch]).state_dict()
    binned = torch_ap.BinaryAveragePrecision(thresholds=5)
    load(binned, items)
    assert binned.counts.sum() == 2
    with pytest.raises(RuntimeError, match=r"`target` .*from 0 to 1"):
        load(torch_ap.BinaryAveragePrecision(), {**items, "target": [torch.tensor([0, 3])]})
    with pytest.raises(RuntimeError, match=r"states .*'groundtruth_box'.* cannot be loaded"):
        load(torch_ap.MeanAveragePrecision(), {"detection_box": [], "groundtruth_box": [], "detection_scores": []})


def test_a_checkpoint_of_torchmetrics_queries_is_read(generator):
    other, metric = torchmetrics.retrieval.RetrievalMRR(), torch_ap.RetrievalMRR()
    other.persistent(True)
    for _ in range(2):
        preds, target = torch.rand(30, generator=generator), torch.randint(2, (30,), generator=generator)
        other.update(preds, target, indexes=torch.randint(5, (30,), generator=generator))
    load(metric, other.state_dict())
    torch.testing.assert_close(metric.compute(), other.compute())


def test_a_metric_of_torchmetrics_is_named_with_its_module():
    other = torchmetrics.classification.BinaryAveragePrecision()
    with pytest.raises(ValueError, match=r"torch_ap\..*BinaryAveragePrecision, got a torchmetrics\."):
        torch_ap.BinaryAveragePrecision().merge_state(other)


def test_weights_of_items_and_of_scores_mix(generator):
    preds, target = torch.rand(30, 3, generator=generator), torch.randint(2, (30, 3), generator=generator)
    by_item, by_score = torch.rand(30, generator=generator), torch.rand(30, 3, generator=generator)
    whole = torch.cat([by_item[:, None].expand(-1, 3), by_score, by_item[:, None].expand(-1, 3)])
    for average in ("macro", "micro"):
        metric = torch_ap.MultilabelAveragePrecision(3, average)
        for weights in (by_item, by_score, by_item):
            metric.update(preds, target, weights)
        alone = torch_ap.functional.multilabel_average_precision(
            preds.repeat(3, 1), target.repeat(3, 1), 3, average, weights=whole
        )
        assert torch.equal(metric.compute(), alone)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.float64])
def test_an_empty_batch_sets_no_dtype(dtype):
    floats, whole = torch.tensor([0.9, 0.2]), torch.tensor([3, 1])
    target, nothing = torch.tensor([1, 0]), torch.empty(0, dtype=dtype)
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(floats, target)
    metric.update(nothing, nothing.long())
    other = torch_ap.BinaryAveragePrecision()
    other.update(whole, target)
    for refused in (
        lambda: metric.update(whole, target),
        lambda: metric(whole, target),
        lambda: metric.merge_state(other),
    ):
        with pytest.raises(ValueError, match="`preds`"):
            refused()
        assert metric.compute() == 1
    metric.update(floats, target)
    assert metric.compute() == 1


def tensors_of(state):
    return [x for value in state.values() for x in (value if isinstance(value, list) else [value])]


@each_metric
def test_a_loaded_state_stays_separate_from_its_source(row):
    source, *loaded = (row.new() for _ in range(4))
    source.persistent(True)
    source.update(**row.batches()[0])
    value = source.compute()
    checkpoint, whole = source.state_dict(), copy.deepcopy(source.metric_state)
    loaded[0].load_state_dict(checkpoint)
    loaded[1].merge_state(whole)
    loaded[2].merge_state(source)
    for tensor in [*checkpoint.values(), *tensors_of(whole), *tensors_of(source.metric_state)]:
        for one in tensor if isinstance(tensor, list) else [tensor]:
            one.zero_()
    for metric in loaded:
        same(metric.compute(), value)


def test_modules_parameters_and_buffers_are_overwritten_as_in_any_module():
    metric = torch_ap.MeanAveragePrecision()
    metric.encoder, metric.weight = torch.nn.Linear(1, 1), torch.nn.Parameter(torch.ones(1))
    metric.register_buffer("shift", torch.ones(1))
    with pytest.raises(TypeError, match="child module"):
        metric.encoder = 5
    metric.encoder = metric.weight = metric.shift = None
    assert not list(metric.parameters())
    assert not list(metric.children())
    assert not metric.state_dict()
    del metric.encoder
    assert not hasattr(metric, "encoder")


# -- copies of a metric by Dask


def with_tuples(metric):
    """Turn the lists of a metric into tuples, as Dask does when it copies attributes."""
    own = vars(metric)
    own["_defaults"] = {name: () if isinstance(x, list) else x for name, x in metric._defaults.items()}
    own |= {name: tuple(own[name]) for name, default in own["_defaults"].items() if default == ()}
    own["_identity"] = tuple(metric._identity)
    return metric


def loaded_from(metric):
    """Return a metric with the checkpoint of another."""
    metric.persistent(True)
    loaded = metric._emptied()
    loaded.load_state_dict(metric.state_dict())
    return loaded


USES_OF_TUPLES = {
    "merge": lambda one, other, _: torch_ap.merge([one, other]),
    "merge_state": lambda one, other, _: other.merge_state(one) or other,
    "merge_state of a dict": lambda one, other, _: other.merge_state(one.metric_state) or other,
    "to_bytes": lambda one, other, _: torch_ap.merge([one.from_bytes(one.to_bytes()), other]),
    "update": lambda one, _, batch: one.update(**batch) or one,
    "forward": lambda one, _, batch: (one(**batch), one)[1],
    "load_state_dict": lambda one, other, _: torch_ap.merge([loaded_from(one), other]),
    "a copy": lambda one, _, batch: (again := copy.deepcopy(one)).update(**batch) or again,
    "reset": lambda one, other, batch: (one.reset(), other.reset(), one.update(**batch), other.merge_state(one), other)[
        -1
    ],
}


@each_metric
def test_tuples_are_read_as_lists(row):
    first, second = row.batches(2)
    for name, use in USES_OF_TUPLES.items():
        one, other, twin = row.new(), row.new(), row.new()
        one.update(**first)
        other.update(**second)
        for batch in [second] if name == "reset" else [first, second]:
            twin.update(**batch)
        used = use(with_tuples(one), with_tuples(other), second)
        same(used.compute(), twin.compute())


def test_dask_pickles_metrics(monkeypatch):
    registered = {}
    module = types.SimpleNamespace(dask_serialize=types.SimpleNamespace(register=registered.__setitem__))
    monkeypatch.setitem(sys.modules, "distributed.protocol.serialize", module)
    metric = torch_ap.BinaryAveragePrecision()
    (decline,) = (function for cls, function in registered.items() if isinstance(metric, cls))
    with pytest.raises(NotImplementedError):
        decline(metric)


def test_a_metric_that_dask_has_sent_can_be_updated():
    metric = torch_ap.BinaryAveragePrecision()
    batch = torch.tensor([0.9, 0.2, 0.6]), torch.tensor([1, 1, 0])
    metric.update(*batch)
    sent = protocol.deserialize(*protocol.serialize(metric, serializers=["dask", "pickle"]))
    sent.update(*batch)
    metric.update(*batch)
    assert sent.update_count == 2
    assert sent.compute() == metric.compute()
