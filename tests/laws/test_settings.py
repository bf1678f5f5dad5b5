"""Settings: each one changes a result or warning, raises, or is documented as ignored."""

import functools
import inspect
import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch

import torch_ap
from tests.support import cases
from tests.support.each import each
from tests.support.every_metric import (
    centres,
    federated_images,
    flat,
    graded_flat,
    graded_rows,
    images,
    inner_product,
    judged_queries,
    open_images,
    pair,
    poses,
    vectors,
    voc_images,
    voc_poses,
)
from tests.support.modes import same
from torch_ap import Convention, functional, inference
from torch_ap.core.measures.ties import DENOMINATORS

BINARY, CLASSES, LABELS = pair(cases.binary), pair(cases.multiclass), pair(cases.multilabel)


def changed(draw, change):
    def draw_changed(size, generator):
        batch = draw(size, generator)
        return batch | change(batch)

    return draw_changed


def with_nan(batch):
    return {"preds": batch["preds"].clone().index_fill_(0, torch.tensor([0]), math.nan)}


def only_misses(batch):
    return {"target": torch.zeros_like(batch["target"])}


def saturated(batch):
    """Return scores that tie after a sigmoid or softmax in float32, but not inside one class."""
    return {
        "preds": batch["preds"] * 400 + torch.arange(len(batch["preds"])).reshape(-1, *[1] * (batch["preds"].ndim - 1))
    }


def all_different(batch):
    return {"target": torch.arange(len(batch["target"]))}


def with_many_digits(batch):
    return {"preds": batch["preds"] + torch.linspace(0, 1, len(batch["preds"]))[:, None]}


def only_hits(batch):
    return {"target": torch.ones_like(batch["target"])}


def tied(batch):
    return {"preds": torch.zeros_like(batch["preds"])}


def hits_above(batch):
    return {"preds": batch["preds"] / 2 + batch["target"] * 0.4}


def turned(batch):
    return {"target": [{**image, "boxes": -image["boxes"]} for image in batch["target"]]}


def far_away(batch):
    return {"target": [{**image, "centers": image["centers"] * math.inf} for image in batch["target"]]}


def as_corners(batch):
    """Replace sizes by corners."""
    for image in (*batch["preds"], *batch["target"]):
        image["boxes"][:, 2:] += image["boxes"][:, :2]
    return batch


def with_areas(batch):
    return {"target": [{**image, "area": torch.zeros(len(image["labels"]))} for image in batch["target"]]}


def half_a_box(*_):
    """Return a pair of boxes with IoU 1/2, or more if corners name pixels that they include."""
    whole, half = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([[0.0, 0, 10, 5]])
    label = torch.zeros(1, dtype=torch.int64)
    return {
        "preds": [{"boxes": half, "scores": torch.ones(1), "labels": label}],
        "target": [{"boxes": whole, "labels": label}],
    }


def no_detections(*_):
    """Return ten images for any metric without a detection, which cause a warning."""
    shapes, label = {"boxes": torch.ones(1, 4), "centers": torch.ones(1, 2)}, torch.zeros(1, dtype=torch.int64)
    lists = {"neg_category_ids": label[:0], "not_exhaustive_category_ids": label[:0]}
    found = {name: x[:0] for name, x in {**shapes, "scores": torch.ones(1), "labels": label}.items()}
    return {"preds": [found] * 10, "target": [{**shapes, "labels": label, **lists}] * 10}


def classification_changes(draw, many=10_000, **more):
    """Return for each keyword a value other than the default, and a batch that it affects."""
    return {
        "thresholds": ({"thresholds": 3}, draw),
        "ignore_index": ({"ignore_index": 1}, draw),
        "validate_args": ({"validate_args": False}, changed(draw, with_nan)),
        "normalization": ({"normalization": "sigmoid"}, changed(draw, saturated)),
        "top_k": ({"top_k": 3}, draw),
        "denominator": ({"top_k": 3, "denominator": "found"}, draw),
        "interpolation": ({"interpolation": "trapezoid"}, draw),
        "ties": ({"ties": "pessimistic"}, draw),
        "convention": ({"convention": Convention(ties="pessimistic")}, draw),
        "empty_target_action": ({"empty_target_action": "error"}, changed(draw, only_misses)),
        "prevalence": ({"prevalence": 0.01}, draw),
        "num_relevant": ({"num_relevant": many}, draw),
        "nan_strategy": ({"nan_strategy": "ignore"}, changed(draw, with_nan)),
        "bins": ({"bins": 2}, draw),
        "pilot": ({"pilot": 5, "bins": "adaptive", "tolerance": 1.0}, draw),
        "tolerance": ({"tolerance": 0.0, "bins": 2}, draw),
        **more,
    }


FIXED = ("thresholds", "ignore_index", "validate_args", "normalization", "empty_target_action", "nan_strategy")


def fixed_changes(draw, **more):
    return {name: x for name, x in classification_changes(draw).items() if name in FIXED} | more


def query_changes(**more):
    return {
        "empty_target_action": ({"empty_target_action": "error"}, changed(flat, only_misses)),
        "ignore_index": ({"ignore_index": 1}, flat),
        "top_k": ({"top_k": 1}, flat),
        "aggregation": ({"aggregation": "max"}, flat),
        "ties": ({"ties": "pessimistic"}, changed(flat, tied)),
        "relevance_level": ({"relevance_level": 2}, graded_rows),
        "missing_queries": ({"missing_queries": "error"}, judged_queries),
        **more,
    }


def curve_changes(**more):
    ranks = {"max_k": ({"max_k": 3}, flat), "adaptive_k": ({"max_k": 30, "adaptive_k": True}, flat)}
    return {name: x for name, x in query_changes(**ranks, **more).items() if name != "top_k"}


AT_PRECISION = {
    "min_precision": ({"min_precision": 0.3}, flat),
    "relevance_level": ({"min_precision": 0.5, "relevance_level": 2}, graded_rows),
}
AT_FIXED = {
    f"{task}{kind}": (base, draw, least)
    for task, base, draw in (
        ("Binary", {}, changed(BINARY, hits_above)),
        ("Multiclass", {**cases.C, "normalization": "none"}, CLASSES),
        ("Multilabel", cases.L, LABELS),
    )
    for kind, least in (("PrecisionAtFixedRecall", "min_recall"), ("RecallAtFixedPrecision", "min_precision"))
}
BASE = {
    **{name: {**base, least: 0.4 if base else 0.5} for name, (base, _, least) in AT_FIXED.items()},
    "EmbeddingMAP": {"similarity": "dot"},
    "AveragePrecision": {"task": "multilabel", **cases.L},
    "MulticlassAveragePrecision": {**cases.C, "normalization": "none"},
    "MultilabelAveragePrecision": cases.L,
    **{f"Retrieval{name}": {"top_k": 3} for name in ("Precision", "Recall", "FBeta", "FallOut", "HitRate", "MRR")},
    "RetrievalNormalizedDCG": {"top_k": 3},
    "RetrievalAUROC": {"top_k": 5},
    "RetrievalRecallAtFixedPrecision": {"min_precision": 0.4},
    "MeanAveragePrecision": {"box_format": "xywh"},
    "LVISMeanAveragePrecision": {"box_format": "xywh"},
}
COCO = {
    "box_format": ({"box_format": "cxcywh"}, images),
    "iou_type": ({"iou_type": "segm"}, images),
    "iou_thresholds": ({"iou_thresholds": [0.3]}, images),
    "rec_thresholds": ({"rec_thresholds": [0.4]}, images),
    "max_detection_thresholds": ({"max_detection_thresholds": [1]}, images),
    "class_metrics": ({"class_metrics": True}, images),
    "extended_summary": ({"extended_summary": True}, images),
    "average": ({"average": "micro"}, images),
    "convention": ({"convention": "ultralytics"}, images),
    "area_ranges": ({"area_ranges": {"tiny": (0, 500)}}, images),
    "class_names": ({"class_names": ["cat", "dog", "cow"]}, images),
    "iou": ({"iou": inner_product}, images),
    "box_width": ({"iou": inner_product, "box_width": 5}, images),
    "sigmas": ({"iou_type": "keypoints", "sigmas": [0.1] * 5}, poses),
    "use_given_area": ({"use_given_area": True}, changed(images, with_areas)),
    "match": ({"match": "update"}, images),
    "validate_args": ({"validate_args": False}, changed(images, turned)),
    "diagnose": ({"diagnose": False}, no_detections),
}
OF_COCO = ("box_format", "iou_type", "iou_thresholds", "rec_thresholds", "class_metrics", "area_ranges", "class_names")
LVIS = {
    **{name: (COCO[name][0], federated_images) for name in OF_COCO},
    "max_detections": ({"max_detections": 1}, federated_images),
    "ap_fixed": ({"ap_fixed": True}, federated_images),
    "frequencies": ({"frequencies": dict.fromkeys(range(3), "f")}, federated_images),
    "use_given_area": ({"use_given_area": True}, changed(federated_images, with_areas)),
    "match": ({"match": "update"}, federated_images),
    "validate_args": ({"validate_args": False}, changed(federated_images, turned)),
    "diagnose": ({"diagnose": False}, no_detections),
}
VOC = {
    "convention": ({"convention": "ultralytics"}, voc_images),
    "box_format": ({"box_format": "cxcywh"}, voc_images),
    "iou_thresholds": ({"iou_thresholds": 0.3}, voc_images),
    "interpolation": ({"interpolation": "11-point"}, voc_images),
    "inclusive_pixels": ({"iou_thresholds": 0.52, "inclusive_pixels": False}, half_a_box),
    "strict": ({"inclusive_pixels": False, "strict": True}, half_a_box),
    "class_metrics": ({"class_metrics": True}, voc_images),
    "iou_type": ({"iou_type": "segm"}, voc_images),
    "sigmas": ({"iou_type": "keypoints", "sigmas": [0.1] * 5}, voc_poses),
    "match": ({"match": "update"}, voc_images),
    "class_names": ({"class_names": ["cat", "dog", "cow"]}, voc_images),
    "validate_args": ({"validate_args": False}, changed(voc_images, turned)),
    "diagnose": ({"diagnose": False}, no_detections),
}
OPEN_IMAGES = {
    "box_format": ({"box_format": "cxcywh"}, voc_images),
    "iou_thresholds": ({"iou_thresholds": 0.3}, voc_images),
    "hierarchy": ({"hierarchy": {0: 9}}, voc_images),
    "class_names": ({"class_names": {0: "cat"}}, voc_images),
    "group_of": ({"group_of": "ignore"}, changed(open_images, as_corners)),
    "expand_preds": ({"hierarchy": {0: 9}, "expand_preds": True}, voc_images),
    "class_metrics": ({"class_metrics": True}, voc_images),
    "iou_type": ({"iou_type": "segm"}, voc_images),
    "validate_args": ({"validate_args": False}, changed(voc_images, turned)),
    "diagnose": ({"diagnose": False}, no_detections),
}
NUSCENES = {
    "distance_thresholds": ({"distance_thresholds": 0.3}, centres),
    "class_names": ({"class_names": {0: "cat"}}, centres),
    "class_metrics": ({"class_metrics": True}, centres),
    "validate_args": ({"validate_args": False}, changed(centres, far_away)),
    "diagnose": ({"diagnose": False}, no_detections),
}
CHANGES = {
    **{
        name: fixed_changes(
            draw,
            **{least: ({least: 1.0}, draw)},
            **{width: ({width: 3}, draw) for width in ("num_classes", "num_labels") if width in base},
        )
        for name, (base, draw, least) in AT_FIXED.items()
    },
    "AveragePrecision": {
        name: (settings, draw)
        for name, (settings, draw) in classification_changes(
            LABELS,
            [10_000] * cases.CLASSES,
            task=({"task": "multiclass", **cases.C}, LABELS),
            num_classes=({"task": "multiclass", "num_classes": 3}, CLASSES),
            num_labels=({"num_labels": 3}, LABELS),
            average=({"average": "none"}, LABELS),
        ).items()
        if name in inspect.signature(torch_ap.AveragePrecision).parameters
    },
    "BinaryAveragePrecision": classification_changes(BINARY),
    "MulticlassAveragePrecision": classification_changes(
        CLASSES,
        [10_000] * cases.CLASSES,
        num_classes=({"num_classes": 3}, CLASSES),
        average=({"average": "weighted"}, CLASSES),
    ),
    "MultilabelAveragePrecision": classification_changes(
        LABELS,
        [10_000] * cases.CLASSES,
        num_labels=({"num_labels": 3}, LABELS),
        average=({"average": "micro"}, LABELS),
    ),
    "RetrievalMAP": query_changes(
        denominator=({"top_k": 2, "denominator": "found"}, flat),
        interpolation=({"interpolation": "11-point", "ties": "grouped"}, flat),
        convention=({"convention": Convention(ties="pessimistic")}, flat),
    ),
    "EmbeddingMAP": {
        "similarity": ({"similarity": "euclidean"}, vectors),
        "relevance": ({"relevance": lambda query, gallery: query[:, None] >= gallery, "similarity": "dot"}, vectors),
        "top_k": ({"top_k": 3, "similarity": "dot"}, vectors),
        "denominator": ({"top_k": 3, "denominator": "found", "similarity": "dot"}, vectors),
        "interpolation": ({"interpolation": "trapezoid", "ties": "grouped", "similarity": "dot"}, vectors),
        "ties": ({"ties": "pessimistic", "similarity": "dot"}, vectors),
        "convention": ({"convention": Convention(ties="pessimistic"), "similarity": "dot"}, vectors),
        "empty_target_action": ({"empty_target_action": "error", "similarity": "dot"}, changed(vectors, all_different)),
        "ignore_index": ({"ignore_index": 1, "similarity": "dot"}, vectors),
        "product_dtype": ({"product_dtype": torch.bfloat16, "similarity": "dot"}, changed(vectors, with_many_digits)),
    },
    "RetrievalPrecision": query_changes(adaptive_k=({"top_k": 30, "adaptive_k": True}, flat)),
    "RetrievalFBeta": query_changes(beta=({"beta": 3}, flat)),
    "RetrievalPrecisionRecallCurve": curve_changes(),
    "RetrievalRecallAtFixedPrecision": {
        name: x for name, x in curve_changes(**AT_PRECISION).items() if name != "aggregation"
    },
    "RetrievalRPrecision": {name: x for name, x in query_changes().items() if name != "top_k"},
    "RetrievalFallOut": query_changes(empty_target_action=({"empty_target_action": "error"}, changed(flat, only_hits))),
    **{f"Retrieval{name}": query_changes() for name in ("Recall", "HitRate", "MRR")},
    "RetrievalAUROC": query_changes(max_fpr=({"max_fpr": 0.5}, flat)),
    "RetrievalRankBiasedPrecision": query_changes(p=({"p": 0.3}, flat)),
    "RetrievalNormalizedDCG": query_changes(gains=({"gains": "exponential"}, graded_flat)),
    "MeanAveragePrecision": COCO,
    "LVISMeanAveragePrecision": LVIS,
    "VOCMeanAveragePrecision": VOC,
    "OpenImagesMeanAveragePrecision": OPEN_IMAGES,
    "NuScenesMeanAveragePrecision": NUSCENES,
}
IGNORED = {("MeanAveragePrecision", "backend"), ("EmbeddingMAP", "max_memory")}
# checks another state: see `test_stored_matches`
SAME_VALUES = {(f"{of}MeanAveragePrecision", "match") for of in ("", "LVIS", "VOC")}
OF_ALL_QUERIES = ("relevance_level", "missing_queries")
ROWS = [(name, keyword) for name, table in CHANGES.items() for keyword in table]


def outcome(name, settings, draw):
    """Return value, table of classes and warnings; or the error."""
    metric_class = getattr(torch_ap, name)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            metric = metric_class(**settings)
            metric.update(**draw(100, torch.Generator().manual_seed(3)))
            value = metric.compute()
            table = metric.per_class(metric._settings.thresholds[0]) if hasattr(metric, "per_class") else ()
        except (TypeError, ValueError) as error:
            return str(error)
    return value, table, [str(one.message) for one in said]


@functools.cache
def default_outcome(name, draw):
    return outcome(name, BASE.get(name, {}), draw)


def test_every_keyword_of_every_class_has_a_row():
    public = {name for name in torch_ap.__all__ if isinstance(getattr(torch_ap, name), type)} - {
        "BestOf",  # a wrapper, tested in tests/inference
        "Convention",
        "IndexEncoder",
    }
    assert public == CHANGES.keys()
    for name in public:
        parameters = inspect.signature(getattr(torch_ap, name)).parameters.values()
        keywords = {x.name for x in parameters if x.kind is not x.VAR_KEYWORD}
        keywords |= set(OF_ALL_QUERIES if name.startswith("Retrieval") else ())
        assert keywords == CHANGES[name].keys() | {keyword for owner, keyword in IGNORED if owner == name}, name


@each("name, keyword", ROWS)
def test_every_setting_has_an_effect(name, keyword):
    if (name, keyword) in SAME_VALUES:
        pytest.skip("the same values of another state")
    more, draw = CHANGES[name][keyword]
    base = BASE.get(name, {})
    others = {key: value for key, value in more.items() if key != keyword}
    without = outcome(name, base | others, draw) if others else default_outcome(name, draw)
    with pytest.raises(AssertionError):
        same(outcome(name, base | more, draw), without)


@pytest.mark.parametrize(("name", "keyword"), sorted(IGNORED))
def test_ignored_settings_are_documented(name, keyword):
    (line,) = (x for x in getattr(torch_ap, name).__doc__.splitlines() if x.strip().startswith(f"{keyword}:"))
    assert re.search("ignored|No result depends", line)


VOID = [
    *[
        ({"interpolation": "11-point", "denominator": x}, "`denominator` cannot be combined")
        for x in ("relevant", "found")
    ],
    ({"interpolation": "11-point", "top_k": 3}, "`top_k` cannot be combined"),
]


@each("name", [name for name in CHANGES if "denominator" in CHANGES[name]])
@each("settings, message", list(VOID))
def test_settings_without_a_joint_meaning_raise(name, settings, message):
    with pytest.raises(ValueError, match=message):
        getattr(torch_ap, name)(**BASE.get(name, {}), **settings)


# a comparison compares these settings: not the form of a result, nor settings of one class only
FREE = (
    "diagnose",
    "class_metrics",
    "extended_summary",
    "class_names",
    "num_classes",
    "num_labels",
    "task",
    "aggregation",
    "iou",
)
FREE += ("convention",)  # the message names its parts
FREE += ("diagnose",)
WITH_COMPARE = {name for name in CHANGES if hasattr(getattr(torch_ap, name), "compare")} - {"AveragePrecision"}
PAIRS = [(name, keyword) for name, keyword in ROWS if name in WITH_COMPARE and keyword not in FREE]


@each("name, keyword", PAIRS)
def test_a_comparison_names_the_settings_that_differ_and_no_others(name, keyword):
    more, base = CHANGES[name][keyword][0], BASE.get(name, {})
    without = base | {key: value for key, value in more.items() if key != keyword}
    one, other = (getattr(torch_ap, name)(**settings) for settings in (without, base | more))
    with pytest.raises(ValueError, match=f"^`other` must have the same settings; {keyword}: ") as error:
        one.compare(other)
    assert str(error.value).count(" here, ") == 1


@pytest.mark.parametrize("name", ["BinaryAveragePrecision", "RetrievalMAP"])
def test_denominators_without_a_cut_are_equal_and_documented(name):
    values = [outcome(name, {"denominator": x}, BINARY if name.startswith("B") else flat) for x in DENOMINATORS]
    same(values[1:], values[:1] * 2)
    text = " ".join(getattr(torch_ap, name).__doc__.split())
    assert "no effect without ``top_k``" in text or "Without effect if ``top_k`` is None" in text


@each("name", sorted({name for name, _ in ROWS} - {"AveragePrecision"}))
def test_errors_of_arguments_name_no_internal_class(name):
    kind = getattr(torch_ap, name)
    methods = [x for x, f in inspect.getmembers(kind, inspect.isfunction) if f.__module__.startswith("torch_ap")]
    for method in [x for x in methods if not x.startswith("_")]:
        assert getattr(kind, method).__qualname__ == method


@pytest.mark.parametrize("value", [np.int64(7), np.uint8(7), np.array(7)])
def test_integers_of_arrays_are_ints(value):
    preds, target = torch.arange(20.0), torch.arange(20) % 3 == 0
    a, b = torch.rand(2, 9, generator=torch.Generator().manual_seed(1))
    calls = {
        "top_k": lambda x: functional.binary_average_precision(preds, target, top_k=x, ties="expected"),
        "convention": lambda x: Convention(top_k=x),
        "reciprocal rank": lambda x: functional.retrieval_reciprocal_rank(preds, target, top_k=x),
        "k": lambda x: functional.counts_at_k(preds, target, x),
        "rank": lambda x: inference.recall_at_k_interval(preds, target, x),
        "n_resamples": lambda x: inference.compare_per_query(a, b, method="randomization", n_resamples=x),
        "n, m, k": lambda x: inference.random_ranking.random_average_precision(x, x - 3, x),
        "successes": lambda x: inference.proportion_interval(x, x),
    }
    for name, call in calls.items():
        assert repr(call(value)) == repr(call(7)), name


def test_a_fraction_is_a_confidence_level():
    preds, target = torch.arange(20.0), torch.arange(20) % 3 == 0
    a, b = torch.rand(2, 9, generator=torch.Generator().manual_seed(1))
    for call in (
        lambda x: inference.average_precision_interval(preds, target, confidence_level=x),
        lambda x: inference.average_precision_interval(preds, target, method="bootstrap-bca", confidence_level=x),
        lambda x: inference.compare_per_query(a, b, confidence_level=x),
        lambda x: inference.mean_interval(a, confidence_level=x),
        lambda x: inference.recall_at_k_interval(preds, target, 5, confidence_level=x),
        lambda x: inference.precision_band(preds, target, confidence_level=x),
    ):
        assert call(Fraction(3, 4)) == call(0.75)


def test_a_rank_beyond_the_limit_raises_with_the_limit():
    with pytest.raises(
        ValueError, match=r"`top_k` must be .* at least 1 and below 2\^62, 'relevant' or None, got 4611"
    ):
        Convention(top_k=2**62)
