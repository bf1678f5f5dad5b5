"""Former public names work for one release with a warning, and removed names raise an error with their replacement."""

import importlib

import pytest
import torch

import torch_ap
from tests.support.each import each
from torch_ap import inference

MOVED = {
    "functional": {
        "curve": "functional.binary_curve",
        "precision_at_recall": "functional.binary_precision_at_fixed_recall",
        "PrecisionRecallAtK": "retrieval.PrecisionRecallAtK",
        "Curve": "curves.Curve",
        "HitCurvePoints": "curves.HitCurvePoints",
        "PrecisionRecallCurve": "curves.PrecisionRecallCurve",
        "hit_curve": "curves.hit_curve",
        "compare_hit_curves": "curves.compare_hit_curves",
        "average_precision_from_hit_curve": "curves.average_precision_from_hit_curve",
        "VOCMatch": "detection.pairs.VOCMatch",
        "box_iou": "detection.pairs.box_iou",
        "match_coco": "detection.pairs.match_coco",
        "lvis_curve": "detection.curves.lvis_curve",
    },
    "inference.hits": {
        "RandomHits": "inference.random_ranking.RandomHits",
        "rank_probability": "inference.random_ranking.rank_probability",
        "joint_rank_probability": "inference.random_ranking.joint_rank_probability",
    },
    "inference": {
        "compare_queries": "inference.compare_per_query",
        "compare_several_rankings": "inference.compare_systems",
        "random_average_precision": "inference.random_ranking.random_average_precision",
        "RandomAveragePrecision": "inference.random_ranking.RandomAveragePrecision",
    },
}
REMOVED = {
    "functional": {
        "precision_at_k": "`retrieval_precision`",
        "recall_at_k": "`retrieval_recall`",
        "f_beta_at_k": "`retrieval_f_beta`",
        "r_precision": "`retrieval_r_precision`",
        "ideal_hit_curve": "`torch_ap.curves.Curve.ideal_hit_curve`",
        "random_hit_curve": "`torch_ap.curves.Curve.random_hit_curve`",
    }
}


def public(path):
    module, _, name = f"torch_ap.{path}".rpartition(".")
    return getattr(importlib.import_module(module), name)


@each("module, former", [(module, former) for module, names in MOVED.items() for former in names])
def test_a_former_name_is_the_current_object(module, former):
    current = MOVED[module][former]
    with pytest.warns(FutureWarning, match=f"`torch_ap.{module}.{former}` is deprecated: use `torch_ap.{current}`"):
        found = public(f"{module}.{former}")
    assert found is public(current)
    assert former not in getattr(importlib.import_module(f"torch_ap.{module}"), "__all__", ())


@each("module, former", [(module, former) for module, names in REMOVED.items() for former in names])
def test_a_removed_name_raises_with_its_replacement(module, former):
    with pytest.raises(
        AttributeError, match=f"`torch_ap.{module}.{former}` was removed: use {REMOVED[module][former]}"
    ):
        public(f"{module}.{former}")


def test_a_former_module_is_the_current_module(monkeypatch):
    monkeypatch.delattr(inference, "hits", raising=False)  # set if another test imported the former module
    with pytest.warns(FutureWarning, match="use `torch_ap.inference.random_ranking`"):
        assert inference.hits is inference.random_ranking


def test_former_calls_of_compare_systems_keep_their_meaning():
    """Values of queries without a target were compared by `compare_systems`: the result is the same, with a warning."""
    values = torch.rand(3, 8, generator=torch.Generator().manual_seed(0))
    wanted = inference.compare_systems_per_query(values, method="holm")
    for args, kwargs in (((values,), {}), ((), {"values": values})):
        with pytest.warns(FutureWarning, match=r"use `compare_systems_per_query\(values\)`"):
            assert inference.compare_systems(*args, method="holm", **kwargs) == wanted
    with pytest.raises(TypeError, match="target"):
        inference.compare_systems(preds=values)


def test_former_keywords_of_resampling():
    """`batch` is `chunk_size` in functions and in methods of metrics and curves."""
    preds, target = torch.rand(30, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 2
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(preds, target)
    how = {"n_resamples": 20, "method": "bootstrap-percentile"}
    for call in (
        lambda **x: inference.average_precision_interval(preds, target, **how, **x),
        lambda **x: metric.confidence_interval(**how, **x),
        lambda **x: metric.summary(**how, **x),
        lambda **x: metric.curve().band(n_resamples=20, **x),
    ):
        with pytest.warns(FutureWarning, match="`batch` is deprecated: use `chunk_size`"):
            found = call(batch=7)
        assert found == call(chunk_size=7)
