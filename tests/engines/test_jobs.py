"""The jobs of the engines in one process: partial results of partitions, merged in any order."""

import functools
import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import torch_ap
from tests.support.each import each
from tests.support.tolerances import SINGLE
from torch_ap.engines.jobs import ColumnNames, to_batches
from torch_ap.engines.metrics import metric_job

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "score": RNG.random(300).round(2),
        "other": RNG.random(300).round(2),
        "label": RNG.integers(0, 2, 300),
        "weight": RNG.integers(0, 9, 300) / 8,
        "group": RNG.choice(["10", "9", "2"], 300),
    }
)
CUTS = [0, 0, 120, 121, 300]
AP = torch_ap.BinaryAveragePrecision


def result(metric, rows, preds, target, **columns):
    """Return the result of a job over partitions of a DataFrame or a list, merged from the last to the first."""
    names = ColumnNames.from_arguments(preds, target, **columns)
    job = metric_job(metric, names)
    cuts = itertools.pairwise(CUTS)
    parts = [rows.slice(a, b - a) if isinstance(rows, pa.Table) else rows[a:b] for a, b in cuts]
    partial = [job.partial(to_batches(part, names.names), f"partition {i}") for i, part in enumerate(parts)]
    return job.finish(functools.reduce(job.merge, partial[::-1]))


def updated(metric, frame, *names):
    metric.update(*(torch.from_numpy(frame[name].to_numpy(copy=True)) for name in names))
    return metric


def test_items():
    assert torch.equal(
        result(AP(), FRAME, "score", "label").compute(), updated(AP(), FRAME, "score", "label").compute()
    )


def test_groups_are_in_numerical_order():
    found = result(AP(bins=64), FRAME, "score", "label", group="group", weights="weight")
    assert list(found) == ["2", "9", "10"]
    for group, metric in found.items():
        expected = updated(AP(bins=64), FRAME[FRAME["group"] == group], "score", "label", "weight")
        assert metric.bounds().to_dict() == expected.bounds().to_dict()


def test_classes():
    metric = torch_ap.MulticlassAveragePrecision(2, average="none", validate_args=False)
    expected = torch_ap.MulticlassAveragePrecision(2, average="none", validate_args=False)
    expected.update(torch.tensor(FRAME[["score", "other"]].to_numpy()), torch.tensor(FRAME["label"].to_numpy()))
    assert torch.equal(result(metric, FRAME, ["score", "other"], "label").compute(), expected.compute())


def images(number):
    """Return images with up to three objects, some without any."""
    rows = []
    for image in range(number):
        corner = torch.rand((image % 4, 2), generator=torch.Generator().manual_seed(image)) * 50
        target = {"boxes": torch.cat([corner, corner + 20], 1), "labels": torch.arange(image % 4)}
        preds = {"boxes": target["boxes"] + 2, "labels": target["labels"], "scores": torch.rand(image % 4)}
        rows.append({"preds": preds, "target": target})
    return rows


@each("form", ["tensors", "arrow"])
def test_images(form):
    rows, metric = images(300), torch_ap.MeanAveragePrecision()
    metric.update([x["preds"] for x in rows], [x["target"] for x in rows])
    if form == "arrow":
        nested = [{side: {key: x.tolist() for key, x in row[side].items()} for side in row} for row in rows]
        rows = pa.Table.from_pylist(nested)
    found = result(torch_ap.MeanAveragePrecision(), rows, "preds", "target")
    torch.testing.assert_close(found.compute(), metric.compute(), rtol=SINGLE, atol=0, check_dtype=False)


def test_the_message_of_an_error_contains_partition_row_and_value():
    frame = FRAME.assign(score=FRAME["score"].where(FRAME.index != 130, 1.5))
    with pytest.raises(ValueError, match=r"^partition 3, row 10: .*1\.5"):
        result(AP(bins=8), frame, "score", "label")


@pytest.mark.parametrize(
    ("metric", "columns", "message"),
    [
        (torch_ap.RetrievalMAP(), {}, "`metric` must be a metric of classification or detection"),
        (torch_ap.MeanAveragePrecision(), {"group": "group"}, "`group` must be None for a detection metric"),
        (AP(), {"weights": 3}, "`weights` must be the name of a column or None"),
    ],
)
def test_invalid_arguments(metric, columns, message):
    with pytest.raises((TypeError, ValueError), match=message):
        result(metric, FRAME, "score", "label", **columns)


@pytest.mark.parametrize(("preds", "target"), [([], "label"), (["score", 3], "label"), (["score"], ["a", "b"])])
def test_invalid_columns(preds, target):
    with pytest.raises((TypeError, ValueError), match=r"`(preds|target)` must be"):
        ColumnNames.from_arguments(preds, target)
