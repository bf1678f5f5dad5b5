"""Thresholded predictions in place of scores cause one warning; usual scores and batches cause none."""

import warnings

import pytest
import torch

from tests.support.each import each
from torch_ap import (
    AveragePrecision,
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
    functional,
    inference,
)
from torch_ap.cli import main
from torch_ap.core.items import inputs

N = 1200
WARNING = r"two (distinct scores|of [\d,]+ bins).*pass scores \(probabilities or logits\) instead of class predictions"


def scores_and_target(task="binary", seed=0):
    generator = torch.Generator().manual_seed(seed)
    columns = {"binary": (), "multiclass": (3,), "multilabel": (3,)}[task]
    preds = torch.rand(N, *columns, generator=generator)
    if task == "multiclass":
        target = torch.randint(3, (N,), generator=generator)
        return preds.softmax(1), target
    return preds, (torch.rand(N, *columns, generator=generator) < preds / 2).long()


def thresholded(preds, task):
    if task == "multiclass":
        return torch.nn.functional.one_hot(preds.argmax(1), 3).float()
    return (preds > 0.7).float()


def metric_of(task, **settings):
    if task == "binary":
        return BinaryAveragePrecision(**settings)
    kind = MulticlassAveragePrecision if task == "multiclass" else MultilabelAveragePrecision
    return kind(3, **settings)


def silent(work, *args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "[^.]*two (distinct|of)")
        return work(*args, **settings)


def test_functions_of_inference_do_not_warn():
    preds, target = scores_and_target()
    hard = thresholded(preds, "binary")
    with pytest.warns(UserWarning, match=WARNING):
        functional.binary_average_precision(hard, target)
    assert silent(inference.average_precision_interval, hard, target).estimate < 1
    assert silent(inference.compare_rankings, hard, hard, target).difference == 0
    assert silent(inference.best_of, torch.stack([hard, hard.roll(1)]), target).best == 0


@pytest.mark.parametrize("bins", [None, 1000, "half", "adaptive"])
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_a_metric_warns_once_at_compute(task, bins):
    preds, target = scores_and_target(task)
    preds = preds.half() if bins == "half" else preds
    settings = {"bins": bins, **({} if bins is None else {"tolerance": 1.0})}
    for found, warned in ((preds, False), (thresholded(preds, task), True)):
        metric = metric_of(task, **settings, **({"pilot": 100} if bins == "adaptive" else {}))
        for batch in zip(found.split(50), target.split(50), strict=True):
            silent(metric.update, *batch)
        if not warned:
            silent(metric.compute)
            continue
        with pytest.warns(UserWarning, match=WARNING) as caught:
            metric.compute()
        given = [x for x in caught if "class predictions" in str(x.message)]
        assert [x.filename for x in given] == [__file__]
        for batch in zip(found.split(400), target.split(400), strict=True):
            silent(metric.update, *batch)
        silent(metric.compute)
        metric.reset()
        silent(metric.update, found, target)
        silent(metric.compute)
        quiet = metric_of(task, **settings, validate_args=False)
        quiet.update(found, target)
        silent(quiet.compute)


def test_forward_and_small_or_ignored_samples_do_not_warn():
    preds, target = scores_and_target()
    found = thresholded(preds, "binary")
    metric = BinaryAveragePrecision()
    silent(metric, found, target)
    with pytest.warns(UserWarning, match=WARNING):
        metric.compute()
    small = BinaryAveragePrecision()
    small.update(found[:999], target[:999])
    silent(small.compute)
    few = BinaryAveragePrecision(thresholds=torch.linspace(0, 1, 11))
    few.update(found, target)
    silent(few.compute)
    third = found.clone()
    third[-1] = 0.5
    other = BinaryAveragePrecision()
    other.update(third, target)
    silent(other.compute)
    silent(functional.binary_average_precision, torch.full((N,), 0.5), target)
    ignored = BinaryAveragePrecision(ignore_index=-1)
    ignored.update(third, target.index_fill(0, torch.tensor([N - 1]), -1))
    with pytest.warns(UserWarning, match=WARNING):
        ignored.compute()


def test_reports_without_compute_warn_too():
    preds, target = scores_and_target()
    for report in ("summary", "confidence_interval", "curve", "bounds"):
        metric = BinaryAveragePrecision(ties="grouped")
        metric.update(thresholded(preds, "binary"), target)
        with pytest.warns(UserWarning, match=WARNING):
            getattr(metric, report)()
    by_task = AveragePrecision(task="binary")
    by_task.update(thresholded(preds, "binary"), target)
    with pytest.warns(UserWarning, match=WARNING):
        by_task.compute()


@each("dtype", [torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_functions_warn_for_every_dtype(dtype):
    preds, target = scores_and_target()
    found = thresholded(preds, "binary").to(dtype)
    functions = (functional.binary_average_precision, functional.binary_curve, functional.binary_precision_recall_curve)
    for function in functions:
        with pytest.warns(UserWarning, match=r"two distinct scores, 0 and 1, among 1,200 items"):
            function(found, target)
        silent(function, found, target, validate_args=False)
        silent(function, found[:999], target[:999])
        silent(function, preds, target)


@each("task", ["multiclass", "multilabel"])
def test_functions_of_columns_warn(task):
    preds, target = scores_and_target(task)
    how = {"multiclass": {"num_classes": 3}, "multilabel": {"num_labels": 3}}[task]
    for name in ("average_precision", "precision_recall_curve", "curve"):
        function = getattr(functional, f"{task}_{name}")
        with pytest.warns(UserWarning, match=WARNING):
            function(thresholded(preds, task), target, **how)
        silent(function, preds, target, **how)


def test_usual_scores_are_not_read_beyond_a_few(monkeypatch):
    """Include batches of one item: scores are read until three differ."""
    preds, target = scores_and_target()
    metric = BinaryAveragePrecision()
    for score, flag in zip(preds, target, strict=True):
        metric.update(score[None], flag[None])
    read = []
    monkeypatch.setattr(inputs, "_counted_scores", lambda _, part: read.append(len(part.scores)) or part.scores)
    silent(metric.compute)
    assert 2 < sum(read) <= 64


def test_the_command_notes_thresholded_scores(tmp_path, capsys):
    preds, target = scores_and_target()
    for name, found, noted in (("scores", preds, False), ("labels", thresholded(preds, "binary"), True)):
        path = tmp_path / f"{name}.csv"
        rows = [f"{score},{flag}" for score, flag in zip(found.tolist(), target.tolist(), strict=True)]
        path.write_text("\n".join(["score,target", *rows]))
        assert main.main(["score", str(path), "--preds", "score", "--target", "target"]) == 0
        assert ("two distinct scores" in capsys.readouterr().err) is noted
