"""The tables of rows leave nothing public out, and what they draw is what their metric takes."""

import inspect
import warnings

import pytest
import torchmetrics

import torch_ap
from tests.every_metric import FUNCTIONS, INFERENCE, METRICS
from torch_ap import functional, inference


def test_every_public_metric_has_a_row():
    public = {x for x in map(vars(torch_ap).get, torch_ap.__all__) if isinstance(x, type)}
    assert all(issubclass(x, torchmetrics.Metric) for x in public)
    assert public == {row.call for row in METRICS.values()}


@pytest.mark.parametrize(("package", "table"), [(functional, FUNCTIONS), (inference, INFERENCE)])
def test_every_public_function_has_a_row(package, table):
    public = {name for name in package.__all__ if inspect.isfunction(getattr(package, name))}
    assert public == {row.call.__name__ for row in table.values()}


@pytest.mark.parametrize("row", METRICS.values(), ids=METRICS)
def test_what_is_drawn_can_be_measured(row):
    metric = row.new()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for batch in row.batches(3):
            metric.update(**batch)
        metric.compute()


@pytest.mark.parametrize("table", [FUNCTIONS, INFERENCE])
def test_what_is_drawn_can_be_passed(table):
    for row in table.values():
        row.value(row.batches(1)[0])
