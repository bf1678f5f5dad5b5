"""The tables of rows cover every public name, and their random input is valid for their metric."""

import dataclasses
import inspect
import math
import re
import warnings

import pytest
import torch
import torchmetrics

import torch_ap
from tests.support.each import each
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS
from torch_ap import curves, detection, functional, inference
from torch_ap.inference import posteriors, published, random_ranking


def test_every_public_metric_has_a_row():
    public = {x for name in torch_ap.__all__ if isinstance(x := getattr(torch_ap, name), type)} - {
        torch_ap.BestOf,
        torch_ap.Convention,
        torch_ap.IndexEncoder,
    }
    assert all(issubclass(x, torchmetrics.Metric) for x in public)
    assert public == {row.call for row in METRICS.values()}


@pytest.mark.parametrize(
    ("modules", "table"),
    [
        ((functional, curves, detection.curves, detection.pairs), FUNCTIONS),
        ((inference, posteriors, published, random_ranking), INFERENCE),
    ],
)
def test_every_public_function_has_a_row(modules, table):
    public = {name for module in modules for name in module.__all__ if inspect.isfunction(getattr(module, name))}
    assert public == {row.call.__name__ for row in table.values()}


def numbers(found):
    """Return all numbers in a result."""
    if isinstance(found, torch.Tensor):
        yield from found.flatten().tolist()
    elif isinstance(found, dict | list | tuple):
        for part in found.values() if isinstance(found, dict) else found:
            yield from numbers(part)
    elif dataclasses.is_dataclass(found):
        yield from numbers(vars(found))
    elif isinstance(found, int | float):
        yield found


@each("row", METRICS)
def test_random_input_has_defined_values(row):
    """The values of the rows are defined, so that no law is trivially true."""
    metric = row.new()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for batch in row.batches(6):
            metric.update(**batch)
        found = metric.compute()
    values = list(numbers(found["map"] if isinstance(found, dict) and "map" in found else found))
    assert any(0 < x <= 1 for x in values)
    assert metric.update_count == 6


@pytest.mark.parametrize("table", [FUNCTIONS, INFERENCE])
def test_random_input_is_valid(table):
    for name, row in table.items():
        assert any(math.isfinite(x) and x != 0 for x in numbers(row.value(row.batches(1)[0]))), name


def nothing_to_find():
    """Call with input that warns: absent classes and labels, logits, NaN scores, empty queries, many detections."""
    zeros = torch.zeros(4, dtype=torch.int64)
    scores = torch.eye(3)[[0, 1, 2, 0]]
    box = {"boxes": torch.ones(101, 4), "labels": torch.zeros(101, dtype=torch.int64)}
    found = [box | {"scores": torch.rand(101)}]
    return {
        "binary": (torch_ap.BinaryAveragePrecision(), (scores[:, 0], zeros), "No positive target"),
        "multiclass": (torch_ap.MulticlassAveragePrecision(3), (scores, zeros), r"in classes 1, 2\b"),
        "multilabel": (torch_ap.MultilabelAveragePrecision(3), (scores, scores.long() * 0), r"in labels 0, 1, 2\b"),
        "logits": (torch_ap.MulticlassAveragePrecision(3), (scores * 9, zeros), "not distributions"),
        "nan": (
            torch_ap.BinaryAveragePrecision(nan_strategy="warn"),
            (torch.tensor([0.5, torch.nan]), torch.tensor([1, 0])),
            "NaN",
        ),
        "queries": (
            torch_ap.RetrievalMAP(empty_target_action="skip"),
            (scores[:, 0], zeros, zeros),
            "No query has a value",
        ),
        "detections": (torch_ap.MeanAveragePrecision(), (found, [box]), "only the best 100 count"),
    }


@pytest.mark.parametrize("kind", nothing_to_find())
def test_warnings_point_at_the_line_of_the_caller(kind):
    metric, arguments, message = nothing_to_find()[kind]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        metric.update(*arguments)
        metric.compute()
        metric(*arguments)
        metric.reset()
        torchmetrics.MetricCollection({"x": metric})(*arguments)
    told = [x for x in said if re.search(message, str(x.message))]
    assert told
    assert {x.filename for x in told} == {__file__}


def test_functions_warn_at_the_line_of_the_caller():
    with pytest.warns(UserWarning, match="No positive target") as said:
        functional.binary_average_precision(torch.rand(3), torch.zeros(3, dtype=torch.int64))
    assert said[0].filename == __file__


def test_the_public_modules_list_the_classes():
    modules = [getattr(torch_ap, module) for module in ("classification", "retrieval", "detection")]
    listed = [name for module in modules for name in module.__all__ if hasattr(torch_ap, name)]  # the rest are records
    classes = {name for name in torch_ap.__all__ if isinstance(getattr(torch_ap, name), type)} - {
        "BestOf",
        "Convention",
        "IndexEncoder",
    }
    assert len(listed) == len(set(listed))
    assert {*listed} - {"IndexEncoder"} == classes
    for module in modules:
        assert all(getattr(module, name) is getattr(torch_ap, name) for name in module.__all__ if name in listed)


@each("row", METRICS)
def test_an_unknown_argument_is_named_with_the_nearest(row):
    """Test arguments of the class itself and of all metrics."""
    own = [name for name in inspect.signature(row.call).parameters if name not in ("kwargs", *row.settings)]
    for name in (own[-1], "sync_on_compute"):
        with pytest.raises(ValueError, match=rf"`{name}x`; did you mean '{name}'\?"):
            row.call(**row.settings, **{f"{name}x": None})
    with pytest.raises(ValueError, match=r"`qqqqqq`$"):
        row.call(**row.settings, qqqqqq=None)
