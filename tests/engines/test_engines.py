"""Dask, Ray and Spark return the results of one process."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import torch_ap
from tests.support import engines
from tests.support.each import each
from torch_ap.engines.jobs import ColumnNames
from torch_ap.functional import binary_average_precision

AP = torch_ap.BinaryAveragePrecision


def table(rows, seed=0):
    """Return scores of both signs, some of them tied, targets, classes, weights, groups and queries."""
    random = np.random.default_rng(seed)
    label = (random.random(rows) < 0.1).astype(np.int64)
    score = (random.normal(size=rows) + label).astype(np.float32)
    score[: rows // 5] = score[: rows // 5].round(1)
    return pd.DataFrame(
        {
            "score": score,
            "label": label,
            "weight": random.integers(0, 9, rows) / 8,
            "group": np.array(["b", "a"])[random.integers(0, 2, rows)],
            "query": random.integers(0, rows // 50 + 1, rows),
            "chance": random.random(rows),
        }
    )


LARGE = table(1_000_000)[["score", "label"]]
LARGE_SIZES = [0, 700_000, 10, 299_990, 0]
MEDIUM = LARGE[:100_000]
MEDIUM_SIZES = [0, 70_000, 10, 29_990, 0]
SMALL = table(3000, 1)
SMALL_SIZES = [1000, 0, 1999, 1]


def tensors(frame, *names):
    return [torch.from_numpy(frame[name].to_numpy(copy=True)) for name in names]


def in_memory(metric, frame, *names):
    metric.update(*tensors(frame, *names))
    return metric


def assert_same(found, expected):
    """Compare the value, its bounds and its interval, bit for bit."""
    assert torch.equal(found.compute(), expected.compute())
    assert found.bounds().to_dict() == expected.bounds().to_dict()
    assert found.confidence_interval().to_dict() == expected.confidence_interval().to_dict()


def check_counts(engine):
    edges = torch.linspace(-3, 3, 500)
    found = engine.module.aggregate(engine.data(engines.split(LARGE, LARGE_SIZES)), AP(bins=edges), "score", "label")
    assert_same(found, in_memory(AP(bins=edges), LARGE, "score", "label"))


def check_all_scores(engine):
    found = engine.module.aggregate(engine.data(engines.split(MEDIUM, MEDIUM_SIZES)), AP(), "score", "label")
    assert_same(found, in_memory(AP(), MEDIUM, "score", "label"))


def check_adaptive(engine):
    data = engine.data(engines.split(MEDIUM, MEDIUM_SIZES))
    found = engine.module.aggregate(data, AP(bins="adaptive"), "score", "label")
    exact = binary_average_precision(*tensors(MEDIUM, "score", "label"))
    bounds = found.bounds()
    assert bounds.low <= exact <= bounds.high <= bounds.low + 0.05  # the first rows of a partition are rounded


def check_half(engine):
    frame = SMALL.assign(score=SMALL["score"].astype(np.float16).astype(np.float32))
    found = engine.module.aggregate(engine.data(engines.split(frame, SMALL_SIZES)), AP(bins="half"), "score", "label")
    assert_same(found, in_memory(AP(bins="half"), frame, "score", "label"))


def check_groups_and_weights(engine):
    data = engine.data(engines.split(SMALL, SMALL_SIZES))
    found = engine.module.aggregate(data, AP(bins=64), "chance", "label", group="group", weights="weight")
    assert list(found) == ["a", "b"]
    for group, metric in found.items():
        expected = in_memory(AP(bins=64), SMALL[SMALL["group"] == group], "chance", "label", "weight")
        assert metric.bounds().to_dict() == expected.bounds().to_dict()


def check_classes(engine):
    classes = SMALL.assign(other=1 - SMALL["chance"])
    data = engine.data(engines.split(classes, SMALL_SIZES))
    metric = torch_ap.MulticlassAveragePrecision(2, average="none")
    found = engine.module.aggregate(data, metric, ["chance", "other"], "label")
    metric.update(torch.stack(tensors(classes, "chance", "other"), 1), *tensors(classes, "label"))
    assert torch.equal(found.compute(), metric.compute())


def check_exact(engine):
    options = {"ties": "expected", "top_k": 30_000, "denominator": "relevant", "dtype": torch.float64}
    for frame, sizes, settings in ((LARGE, LARGE_SIZES, {}), (MEDIUM, MEDIUM_SIZES, options)):
        found = engine.module.binary_average_precision(
            engine.data(engines.split(frame, sizes)), "score", "label", **settings
        )
        expected = binary_average_precision(*tensors(frame, "score", "label"), **settings)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def check_exact_of_few_distinct_scores(engine):
    zeros = SMALL.assign(score=np.where(SMALL["chance"] < 0.5, -0.0, 0.0))
    two = SMALL.assign(score=(SMALL["chance"] < 0.3).astype(np.int64))
    for frame in (zeros, two, SMALL[:1]):
        sizes = SMALL_SIZES if len(frame) > 1 else [1]
        found = engine.module.binary_average_precision(
            engine.data(engines.split(frame, sizes)), "score", "label", ties="expected", empty_target_action="nan"
        )
        expected = binary_average_precision(
            *tensors(frame, "score", "label"), ties="expected", empty_target_action="nan", validate_args=False
        )
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def check_queries(engine):
    data = engine.data(engines.split(SMALL, SMALL_SIZES))
    found = engine.module.evaluate_queries(data, ["map@10", "ndcg"], "score", "label", "query")
    metrics = {"map@10": torch_ap.RetrievalMAP(top_k=10), "ndcg": torch_ap.RetrievalNormalizedDCG()}
    for name, metric in metrics.items():
        score, label, query = tensors(SMALL, "score", "label", "query")
        metric.update(score, label, indexes=query)
        queries, values = metric.per_query()
        assert found.per_query()[name] == dict(zip(map(str, queries.tolist()), values.tolist(), strict=True))
        assert found.to_dict()[name] == pytest.approx(values.double().mean().item(), rel=1e-14)  # order of addition
        interval, expected = found.confidence_interval()[name], metric.confidence_interval()
        torch.testing.assert_close([interval.low, interval.high], [expected.low, expected.high], check_dtype=False)


def check_images(engine):
    generator = torch.Generator().manual_seed(0)
    rows = []
    for image in range(12):
        corner = torch.rand((image % 4, 2), generator=generator) * 50
        target = {"boxes": torch.cat([corner, corner + 20], 1), "labels": torch.arange(image % 4)}
        preds = {"boxes": target["boxes"] + 2, "scores": torch.rand(image % 4, generator=generator)}
        rows.append({"preds": preds | {"labels": target["labels"]}, "target": target})
    data = engine.images([rows[:5], rows[5:11], rows[11:]])
    found = engine.module.aggregate(data, torch_ap.MeanAveragePrecision(), "preds", "target")
    metric = torch_ap.MeanAveragePrecision()
    metric.update([x["preds"] for x in rows], [x["target"] for x in rows])
    torch.testing.assert_close(found.compute(), metric.compute(), rtol=0, atol=0)


def check_invalid_values(engine):
    label, score, chance = (SMALL[x].to_numpy(copy=True) for x in ("label", "score", "chance"))
    label[1016], score[2999], chance[1009] = 7, np.nan, 1.5
    frame = pd.DataFrame({"label": label, "score": score, "chance": chance, "right": SMALL["label"], "group": "a"})
    data = engine.data(engines.split(frame, [1000, 1999, 1]))
    calls = {
        r"partition 1, row 17: column 'label' must be 0 or 1, got 7": ("aggregate", AP(), "chance", "label"),
        r"partition 2, row 1: column 'score' must (not contain NaN|have a value)": (
            "binary_average_precision",
            "score",
            "right",
        ),
        r"partition 1, row 10: .*1\.5": ("aggregate", AP(bins=8), "chance", "right"),
    }
    for message, (name, *args) in calls.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            getattr(engine.module, name)(data, *args)
    with pytest.raises(ValueError, match="`scor` must be a column of the data; did you mean 'score'"):
        engine.module.aggregate(data, AP(), "scor", "label")


def check_no_rows(engine):
    data = engine.data(engines.split(SMALL[:0], [0, 0]))
    assert engine.module.aggregate(data, AP(), "score", "label").compute().isnan()
    assert engine.module.binary_average_precision(data, "score", "label").isnan()
    assert np.isnan(engine.module.evaluate_queries(data, "map", "score", "label", "query").to_dict()["map"])


def check_repeated_tasks(engine, folder):
    columns, data = ColumnNames.from_arguments("score", "label"), engine.data(engines.split(SMALL, SMALL_SIZES))
    for ends in (False, True):
        flag = folder / f"failed {ends}"
        job = engines.FailingOnce(AP(bins="adaptive"), columns, str(flag), ends)
        found = job.finish(engine.reduce(data, job, columns.names))
        assert flag.exists()
        assert_same(found, in_memory(AP(bins="adaptive"), SMALL, "score", "label"))


def check_example_of_the_page(engine):
    """Run the block of docs/scale.md that imports this engine."""
    page = (Path(torch_ap.__file__).parents[1] / "docs" / "scale.md").read_text()
    name = engine.module.__name__.rpartition(".")[2]
    (block,) = (x for x in re.findall(r"^```py\w*\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if f"on_{name}\n" in x)
    names = {"data": engine.data(engines.split(SMALL, SMALL_SIZES)), "torch": torch, "torch_ap": torch_ap}
    names |= {"logits": tensors(SMALL, "score")[0], "target": tensors(SMALL, "label")[0]}  # of the page's first block
    exec(block, names)
    if name != "dask":  # whose block is run with its printed results, too
        bounds, exact = names["bounds"], names["exact"].double()  # rounded to float32
        assert bounds.low - 1e-7 <= exact <= bounds.high + 1e-7
        assert torch.equal(names["value"], names["metric"].compute())


CHECKS = {name: check for name, check in vars().items() if name.startswith("check_")}


@pytest.fixture(scope="module", params=[engines.Dask, engines.Ray, engines.Spark], ids=lambda kind: kind.__name__)
def engine(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with engines.running(request.param) as started:
            yield started


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@each("check", CHECKS)
def test_same_as_one_process(check, engine, tmp_path):
    check(engine, tmp_path) if check is check_repeated_tasks else check(engine)
