"""Former public names work for one release with a warning, and removed names raise an error with their replacement."""

import importlib
import inspect

import pytest
import torch

import torch_ap
from tests.support.each import each
from torch_ap import curves, detection, functional, inference

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
    "plot": {"coco": "plot.iou_thresholds", "errors": "plot.error_costs"},
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
    monkeypatch.delitem(vars(inference), "hits", raising=False)  # set if another test imported the former module
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


PREDS, TARGET = torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 1])
BOX = {"boxes": torch.tensor([[10.0, 10, 50, 50]]), "labels": torch.tensor([1])}
FOUND = BOX | {"scores": torch.tensor([0.9])}
NEGATIVES = {x: torch.zeros(0, dtype=torch.int64) for x in ("neg_category_ids", "not_exhaustive_category_ids")}
AREA = {"area": torch.tensor([1600.0])}
CENTRE = {"centers": torch.tensor([[10.0, 5.0]]), "labels": torch.tensor([1])}
KEYWORDS = {  # former and current keyword, value, and a call that takes them
    "counts_at_k": ("k", "top_k", 2, lambda **x: functional.counts_at_k(PREDS, TARGET, **x)),
    "recall_at_k": ("k", "top_k", 2, lambda **x: inference.recall_at_k_interval(PREDS, TARGET, **x)),
    "precision_at_k": ("k", "top_k", 2, lambda **x: inference.precision_at_k_interval(PREDS, TARGET, **x)),
    "random": ("k", "top_k", 2, lambda **x: inference.random_ranking.random_average_precision(9, 3, **x)),
    "recommendation": ("k", "top_k", [2], lambda **x: functional.recommendation_at_k(PREDS[None], TARGET[:1], **x)),
    "scores": ("scores", "preds", PREDS[None], lambda **x: functional.recommendation_at_k(target=TARGET[:1], **x)),
    "hit curve": (
        *("between", "interpolate", "line"),
        lambda **x: curves.average_precision_from_hit_curve(TARGET.cumsum(0), **x),
    ),
    "voc": (
        *("iou_threshold", "iou_thresholds", [0.3, 0.5]),
        lambda **x: functional.voc_mean_average_precision([FOUND], [BOX], **x),
    ),
    "open images": (
        *("iou_threshold", "iou_thresholds", 0.3),
        lambda **x: functional.open_images_mean_average_precision([FOUND], [BOX], **x),
    ),
    "nuscenes": (
        *("distance_threshold", "distance_thresholds", 0.3),
        lambda **x: functional.nuscenes_mean_average_precision(
            [CENTRE | {"scores": torch.tensor([0.9])}], [CENTRE], **x
        ),
    ),
    "coco": (
        *("area_as_given", "use_given_area", True),
        lambda **x: functional.coco_mean_average_precision([FOUND], [BOX | AREA], **x),
    ),
    "lvis": (
        *("fixed", "ap_fixed", True),
        lambda **x: functional.lvis_mean_average_precision([FOUND], [BOX | NEGATIVES], **x),
    ),
    "lvis curve": (
        *("area_as_given", "use_given_area", True),
        lambda **x: detection.curves.lvis_curve([FOUND], [BOX | NEGATIVES | AREA], **x)[0].to_dict(),
    ),
}


@each("former, current, value, call", KEYWORDS)
def test_a_former_keyword_gives_the_same_result(former, current, value, call):
    with pytest.warns(FutureWarning, match=f"`{former}` is deprecated: use `{current}`"):
        found = call(**{former: value})
    assert repr(found) == repr(call(**{current: value}))


CLASSES = {
    "voc": (torch_ap.VOCMeanAveragePrecision, "iou_threshold", [0.3]),
    "open images": (torch_ap.OpenImagesMeanAveragePrecision, "iou_threshold", 0.3),
    "nuscenes": (torch_ap.NuScenesMeanAveragePrecision, "distance_threshold", 0.3),
    "lvis": (torch_ap.LVISMeanAveragePrecision, "fixed", True),
}


@each("kind, former, value", CLASSES)
def test_former_attributes_of_metrics(kind, former, value):
    current = {"fixed": "ap_fixed"}.get(former, f"{former}s")
    with pytest.warns(FutureWarning, match=f"`{former}` is deprecated: use `{current}`"):
        metric = kind(**{former: value})
    with pytest.warns(FutureWarning, match=f"`{former}` is deprecated: use `{current}`"):
        assert getattr(metric, former) == getattr(metric, current) == value


RESAMPLED = (  # functions of torch_ap.inference that resampled in version 0.1, under these or former names
    *("average_precision_interval", "chance_test", "compare_decisions", "compare_per_query", "compare_rankings"),
    *("compare_systems", "compare_systems_per_query", "mean_interval", "precision_band"),
)


def resampling_functions():
    """Return the functions that resampled before, and all methods that resample, by name."""
    found = {name: getattr(inference, name) for name in RESAMPLED}
    for kind in {*(getattr(torch_ap, name) for name in torch_ap.__all__), curves.Curve}:
        if inspect.isclass(kind):
            methods = inspect.getmembers(kind, inspect.isfunction)
            found |= {f"{kind.__name__}.{name}": f for name, f in methods if name[0] != "_"}
    return {name: f for name, f in found.items() if "chunk_size" in inspect.signature(f).parameters}


@each("name", resampling_functions().keys())
def test_every_function_that_resamples_accepts_its_former_keyword(name):
    with pytest.raises(TypeError, match="`batch` is the former name of `chunk_size`"):
        resampling_functions()[name](batch=1, chunk_size=1)
