"""Classes of metrics: shallow hierarchies, no method that only raises, no public internals."""

import ast
import functools
import inspect
import textwrap

import pytest
import torch
import torchmetrics

import torch_ap
from tests.support.every_metric import METRICS

MAX_OWN_CLASSES = 5  # metrics in the MRO of a metric
MAX_PLAIN_CLASSES = 3  # further classes there, which evaluations without a state share
KINDS = sorted({row.call for row in METRICS.values()} - {torch_ap.AveragePrecision}, key=lambda kind: kind.__name__)

SHARED = {"from_bytes", "to_bytes"}
UNCERTAIN = {"chance_level", "compare", "confidence_interval", "summary"}
ITEMS = {
    *("average", "bins", "bounds", "confmat", "convention", "curve", "empty_target_action", "ignore_index"),
    *(
        "nan_strategy",
        "normalization",
        "pilot",
        "preds",
        "prevalence",
        "num_relevant",
        "target",
        "thresholds",
        "tolerance",
        "validate_args",
    ),
    *("num_classes", "num_labels", "min_precision", "min_recall", "suspicious_labels"),
    *("noisy_interval", "prediction_powered_interval"),
}
QUERIES = {
    *("aggregation", "empty_target_action", "ignore_index", "missing_queries", "relevance_level"),
    *("indexes", "preds", "target", "adaptive_k", "max_k", "measure", "min_precision", "convention", "curve", "k"),
    *("max_fpr", "per_query", "top_k", "similarity", "relevance", "evaluate", "chance_test"),
    "prediction_powered_interval",
}
IMAGES = {
    *("average", "box_format", "class_metrics", "class_names", "coco_to_tm", "confusion_matrix", "convention"),
    *(
        "curve",
        "detections_table",
        "diagnose",
        "distance_thresholds",
        "errors",
        "expand_preds",
        "extended_summary",
    ),
    *(
        "ap_fixed",
        "group_of",
        "hierarchy",
        "inclusive_pixels",
        "interpolation",
        "iou_thresholds",
    ),
    *("iou_type", "lrp", "max_detection_thresholds", "max_detections", "operating_points", "per_class", "per_image"),
    *(
        "per_slice",
        "per_threshold",
        "rec_thresholds",
        "strict",
        "tm_to_coco",
        "suspicious_labels",
        "warn_on_many_detections",
    ),
}


@functools.cache
def inherited():
    """Return the public names of a metric of torchmetrics."""

    class Plain(torchmetrics.Metric):
        def update(self) -> None:
            pass

        def compute(self) -> torch.Tensor:
            return torch.zeros(())

    return {*dir(Plain()), "plot_legend_name"}


def public_names(metric):
    """Return the public names of a metric that are no states and that torchmetrics' base does not have."""
    return {name for name in {*dir(type(metric)), *vars(metric)} if name[0] != "_"} - {*metric._defaults} - inherited()


@pytest.mark.parametrize("kind", KINDS)
def test_the_hierarchy_of_a_metric_is_shallow(kind):
    own = [x for x in kind.__mro__ if x.__module__.startswith("torch_ap")]
    metrics = [x for x in own if issubclass(x, torchmetrics.Metric)]
    assert len(metrics) <= MAX_OWN_CLASSES, [x.__name__ for x in own]
    assert len(own) - len(metrics) <= MAX_PLAIN_CLASSES, [x.__name__ for x in own]
    assert own[-1] is torch_ap.core.metric.base.RankingMetric


def only_raises(function):
    """Whether the body of a function is a docstring and a `raise` at most."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    (node,) = ast.parse(source).body
    body = [x for x in node.body if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant))]
    return all(isinstance(x, ast.Raise) for x in body)


@pytest.mark.parametrize("kind", KINDS)
def test_no_public_method_only_raises(kind):
    methods = {name: x for name, x in inspect.getmembers(kind) if name[0] != "_" and inspect.isfunction(x)}
    own = {name: x for name, x in methods.items() if inspect.unwrap(x).__module__.startswith("torch_ap")}
    assert {"update", "compute", "reset", "merge_state"} <= own.keys()
    assert not [name for name, x in own.items() if only_raises(x)]


def test_a_method_that_only_raises_is_recognized():
    assert only_raises(torch_ap.core.metric.base.RankingMetric._forms)
    assert not only_raises(torch_ap.core.metric.base.RankingMetric.reset)


@pytest.mark.parametrize("which", METRICS)
def test_public_names_are_documented(which):
    metric = METRICS[which].new()
    names = ITEMS if hasattr(type(metric), "confmat") else IMAGES if hasattr(metric, "per_image") else QUERIES
    assert public_names(metric) <= names | UNCERTAIN | SHARED


def test_every_documented_name_exists():
    every = set().union(*(public_names(row.new()) for row in METRICS.values()))
    assert every >= ITEMS | QUERIES | IMAGES | UNCERTAIN | SHARED


def test_metrics_without_overlaps_have_no_methods_of_overlaps():
    assert not {"errors", "detections_table", "lrp", "suspicious_labels"} & {
        *dir(torch_ap.NuScenesMeanAveragePrecision)
    }
    centers = {"centers": torch.tensor([[1.0, 2.0]]), "labels": torch.tensor([0])}
    metric = torch_ap.NuScenesMeanAveragePrecision()
    metric.update([centers | {"scores": torch.tensor([0.5])}], [centers])
    assert metric.per_image(distance_threshold=2.0)["tp"].tolist() == metric.per_image(2.0)["tp"].tolist() == [1]
    for name in ("per_image", "per_class", "curve", "operating_points", "confusion_matrix"):
        parameters = inspect.signature(getattr(metric, name)).parameters
        assert "distance_threshold" in parameters
        assert "iou_threshold" not in parameters
        assert "distance_threshold" in inspect.getdoc(getattr(metric, name))
        with pytest.raises(TypeError, match="iou_threshold"):
            getattr(metric, name)(iou_threshold=2.0)
