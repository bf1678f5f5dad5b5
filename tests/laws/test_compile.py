"""Public functions and metrics give callers under ``torch.compile`` the values of plain callers."""

import doctest
import inspect
import pickle
import sys

import pytest
import torch
from torchmetrics import MetricCollection

import torch_ap
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS, one_by, one_each, updated
from tests.support.modes import life, quiet, same
from torch_ap.core.base import untraced

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.no_cover]


@pytest.fixture(autouse=True)
def _fresh_and_strict(monkeypatch):
    """Reset the compiler, and make it fail instead of giving up silently."""
    torch.compiler.reset()
    # a third of its time goes into measuring guards with flushed caches, for a log
    monkeypatch.setattr(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0, raising=False)
    strict = {"suppress_errors": False}
    if hasattr(torch._dynamo.config, "fail_on_recompile_limit_hit"):  # torch 2.4 has no such setting
        strict["fail_on_recompile_limit_hit"] = True
    with torch._dynamo.config.patch(strict):
        yield
    torch.compiler.reset()
    torch.set_flush_denormal(False)  # a library of the inductor of torch 2.4 turns this on when it is loaded


def compiled(function, backend="eager"):
    return torch.compile(function, backend=backend)


ROWS = FUNCTIONS | INFERENCE
ONE_EACH = [ROWS[name].call for name in one_each(ROWS)]


def argument_layout(row):
    """Return the names and nesting of the arguments, without keys and shapes."""

    def nesting(value):
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return type(value), frozenset(map(nesting, values))

    return tuple((name, nesting(x)) for name, x in row.batches(1)[0].items())


def returned(row):
    return str(inspect.signature(row.call).return_annotation)


@pytest.mark.parametrize("name", one_by(ROWS, returned, argument_layout))
def test_functions(name):
    """A compiler that does not trace inside distinguishes functions only by their arguments and results."""
    row = ROWS[name]
    (drawn,) = row.batches(1)
    same(quiet(compiled(row.call), **drawn, **row.settings), quiet(row.value, drawn))


SOME = [
    "binary",
    "hit_curve",
    "binary_curve",
    "counts_at_k",
    "retrieval_average_precision",
    "coco",
    "match_voc",
    "chance_test",
]


@pytest.mark.parametrize("name", SOME)
def test_callers_of_functions(name):
    row = ROWS[name]
    (drawn,) = row.batches(1)

    def caller(x):
        y = x + 1
        return row.value(drawn), y * 2

    value, beside = quiet(compiled(caller), torch.ones(3))
    same(value, quiet(row.value, drawn))
    assert beside.tolist() == [4, 4, 4]


class Holder(torch.nn.Module):
    """A module with a layer and a metric, as users compile it."""

    def __init__(self, metric):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2).requires_grad_(False)
        self.metric = metric

    def forward(self, batches):
        loss = self.layer(torch.ones(1, 2)).sum()
        return life(self.metric, batches), loss * 2


@pytest.mark.parametrize("name", one_by(METRICS, lambda row: row.kind, argument_layout))
def test_metrics(name):
    row = METRICS[name]
    (batch,) = row.batches(1)
    metric = row.new()
    same(quiet(compiled(lambda batch: metric(**batch)), batch), quiet(row.new(), **batch))


@pytest.mark.parametrize("name", [*one_by(METRICS, updated), "binary_64_bins", "binary_weighted_learnt"])
def test_the_life_of_a_metric(name):
    batches = METRICS[name].batches(2)
    same(compiled(Holder(METRICS[name].new()))(batches)[0], life(METRICS[name].new(), batches))


@pytest.mark.parametrize("name", ["binary", "query_map", "coco"])
def test_a_metric_itself_is_compiled(name):
    row = METRICS[name]
    batches = row.batches(2)
    expected = life(row.new(), batches)
    for way in ("module", "in place", "methods"):
        metric = row.new()
        if way == "in place":
            metric.compile(backend="eager")
        called = compiled(metric) if way == "module" else metric
        update, compute = (compiled(x) if way == "methods" else x for x in (metric.update, metric.compute))
        quiet(update, **batches[0])
        same(quiet(compute), expected[0])
        same(quiet(called, **batches[1]), expected[1])
        same(quiet(compute), expected[2])


def test_many_metrics_and_functions_in_one_process():
    """Use more functions than the compiler accepts for one code object."""
    batches = METRICS["binary"].batches(2)
    expected = life(METRICS["binary"].new(), batches)
    for _ in range(12):
        same(compiled(Holder(METRICS["binary"].new()))(batches)[0], expected)


@pytest.mark.skipif(torch.__version__.startswith("2.4."), reason="its compiler cannot read torchmetrics' collections")
@pytest.mark.parametrize("names", [("query_map", "query_precision", "query_mrr"), ("binary", "binary_expected")])
def test_a_collection_in_a_compiled_module(names):
    batches = METRICS[names[0]].batches(3)

    def run(wrap):
        collection = MetricCollection({name: METRICS[name].new() for name in names})
        holder = wrap(Holder(collection))
        return [quiet(holder, batches[:2])[0], quiet(holder, batches[1:])[0]]

    same(run(compiled), run(lambda x: x))


def test_methods_of_results():
    """Run each public method of each record of results without tracing inside."""
    scores, target = torch.rand(60, generator=torch.Generator().manual_seed(0)), (torch.arange(60) % 3 == 0).long()
    found = torch_ap.functional.binary_curve(scores, target)

    def say(x):
        points = x.operating_point(), x.operating_point(recall=0.5, method="bootstrap", n_resamples=20)
        return *points, x.hit_curve(), x.interpolated("11-point"), x.band(n_resamples=20), x.f_beta(), x.to("cpu")

    same(compiled(say)(found), say(found))
    law = torch_ap.inference.posteriors.f_beta_posterior(20, 7, 11)
    same(compiled(lambda x: x.interval(0.9))(law), law.interval(0.9))


def test_further_results_of_metrics():
    generator = torch.Generator().manual_seed(0)
    for name in ("binary", "query_map", "voc"):
        metric, other = METRICS[name].new(), METRICS[name].new()
        for each in (metric, other):
            each.update(**METRICS[name].draw(60, generator.manual_seed(1)))

        def say(metric, other):
            few = {"n_resamples": 20}
            said = metric.confidence_interval(0.9, **few), metric.compare(other, **few), metric.summary(**few)
            return *said, metric.chance_level(), metric.curve()

        same(quiet(compiled(say), metric, other), quiet(say, metric, other))
    queries = METRICS["query_map"].new()
    queries.update(**METRICS["query_map"].batches(1)[0])

    def merge_and_compute(metric, other):
        metric.reset()
        metric.merge_state(other)
        return metric.per_query()

    same(compiled(merge_and_compute)(METRICS["query_map"].new(), queries), queries.per_query())


@pytest.mark.parametrize(
    "metric", list({row.call: None for row in METRICS.values() if row.call is not torch_ap.AveragePrecision})
)
def test_every_public_method_is_left_out(metric):
    own = [base for base in metric.__mro__ if base.__module__.startswith("torch_ap")]
    names = {name for base in own for name, x in vars(base).items() if inspect.isfunction(x) and name[0] != "_"}
    made = next(row.new() for row in METRICS.values() if row.call is metric)
    assert {"update", "compute", "forward", "merge_state"} <= names
    for name in names - {"add_state"}:  # its defaults may be on the meta device
        assert getattr(made, name).__code__.co_filename == untraced.__file__, name


@pytest.mark.parametrize("function", ONE_EACH, ids=lambda function: function.__name__)
def test_every_public_function_is_left_out_and_reads_as_it_was_written(function):
    module = sys.modules[function.__module__]
    written = inspect.unwrap(function)
    assert function.__code__.co_filename == untraced.__file__
    assert not [name for name, x in sys.modules.items() if name.startswith("torch_ap") and written in _values(x)]
    assert vars(module)[function.__name__] is function
    assert inspect.signature(function) == inspect.signature(written)
    assert function.__doc__ == written.__doc__
    assert pickle.loads(pickle.dumps(function)) is function
    found = doctest.DocTestFinder().find(module)
    assert any(test.examples for test in found if test.name == f"{module.__name__}.{function.__name__}")


def _values(module):
    return [x for x in vars(module).values() if inspect.isfunction(x)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["binary_expected", "query_map"])
def test_inductor(name):
    batches = METRICS[name].batches(2)
    same(compiled(Holder(METRICS[name].new()), backend="inductor")(batches)[0], life(METRICS[name].new(), batches))
    generator = torch.Generator().manual_seed(0)
    drawn = FUNCTIONS["hit_curve"].draw(50, generator)
    same(compiled(torch_ap.curves.hit_curve, backend="inductor")(**drawn), torch_ap.curves.hit_curve(**drawn))
