"""Every public function, method and record agrees with the tables of docs/api.md."""

import importlib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest
import torch
import torchmetrics
from torch import Tensor

import torch_ap
from tests.support.each import each
from tests.support.every_metric import FUNCTIONS, INFERENCE, METRICS
from tests.support.paths import ROOT
from tests.support.tolerances import REORDERED
from torch_ap import curves, detection, functional, inference, plot, retrieval
from torch_ap.cli import main
from torch_ap.core.base.options import DetectionConvention, TopK, TopKs
from torch_ap.core.metric.base import RankingMetric
from torch_ap.inference.record import Result
from torch_ap.inference.resampling import Resampling

PAGE = (ROOT / "docs" / "api.md").read_text()
MODULES = [x for x in re.findall(r"`(torch_ap[.\w]*)`", PAGE.split("## Where names are")[1]) if x != "torch_ap.files"]
INFERENCE_MODULES = [x for x in MODULES if x.startswith("torch_ap.inference")]
RESAMPLING = ["n_resamples", "generator", "chunk_size", "progress"]
CONVENTION = {"top_k", "denominator", "interpolation", "ties"}
# functions that flip or permute values instead of resampling items
FLIPPED = ("inference.compare_per_query", "inference.compare_systems_per_query", "inference.compare_decisions")


def table(head):
    """Return the rows of a table: the names in each cell, or its text if it has none."""
    lines = PAGE[PAGE.index(head) :].splitlines()[2:]
    rows = [x.strip("| ").split(" | ") for x in lines[: next(i for i, x in enumerate(lines) if not x.startswith("|"))]]
    return [[re.findall(r"`([^`]+)`", cell) or cell.strip(" |") for cell in row] for row in rows]


def members(module):
    return {name: getattr(module, name) for name in module.__all__ if name != "__version__"}


def public():
    """Return every public function, class and method by its name."""
    out = {}
    for module in map(importlib.import_module, MODULES):
        for name, value in members(module).items():
            path = f"{module.__name__}.{name}".removeprefix("torch_ap.")
            if value in out.values():
                continue  # a class that its task's package also exports
            if inspect.isclass(value):
                out[path] = value
                peers = {"__init__", *dir(torchmetrics.Metric)} - {"update", "compute"}
                methods = {x: f for x, f in inspect.getmembers(value, inspect.isfunction) if x not in peers}
                out |= {f"{path}.{x}": f for x, f in methods.items() if not x.startswith("_")}
            elif inspect.isfunction(value):
                out[path] = value
    return out


PUBLIC = public()
RECORDS = {path: value for path, value in PUBLIC.items() if inspect.isclass(value) and issubclass(value, Result)}
# documented as without an interval
AT_FIXED = tuple(
    f"{task}{kind}"
    for task in ("Binary", "Multiclass", "Multilabel", "Retrieval")
    for kind in ("PrecisionAtFixedRecall", "RecallAtFixedPrecision")
)
WITHOUT_INTERVAL = ("RetrievalPrecisionRecallCurve", *AT_FIXED)
METRIC_CLASSES = {x for x in members(torch_ap).values() if inspect.isclass(x) and issubclass(x, RankingMetric)}


def parameters(call):
    return inspect.signature(call).parameters


TYPES = {
    "float": float,
    "int": int,
    "bool": bool,
    "int or None": int | None,
    'int, "relevant" or None': (TopK, TopKs, int | None, int),  # a single curve takes an int
    "torch.Generator or None": torch.Generator | None,
    "Tensor or None": Tensor | None,
    "torch.dtype or None": torch.dtype | None,
    "Convention or None": (torch_ap.Convention | None, DetectionConvention | None),  # a name for detections
    "names or None": (Sequence[str] | None, Mapping[int, str] | Sequence[str] | None),  # COCO accepts any ids
}
ARGUMENTS = {name[0]: (kind[0], eval(default[0])) for name, kind, default, _ in table("| argument | type |")}


EXCEPT = {
    **{(name, "n_resamples"): 10_000 for name in FLIPPED},
    **{
        (x, "n_resamples"): 10_000
        for x in PUBLIC
        if re.fullmatch(r"(Retrieval\w+|EmbeddingMAP|retrieval\.QueryMetric)\.compare", x)
    },
    ("functional.voc_mean_average_precision", "interpolation"): "all-points",
    ("VOCMeanAveragePrecision", "interpolation"): "all-points",
    ("detection.curves.voc_curve", "interpolation"): "all-points",
    ("functional.kitti_mean_average_precision", "interpolation"): "40-point",
    ("evaluate", "denominator"): "relevant",
    ("compat.COCOeval.summarize", "confidence_level"): None,
}
# ranks that have no default, or several ranks, whose results have a field `k`
OTHER_TOP_K = {
    **dict.fromkeys(
        ("functional.counts_at_k", "inference.precision_at_k_interval", "inference.average_precision_at_k_interval"),
        inspect.Parameter.empty,
    ),
    "inference.recall_at_k_interval": inspect.Parameter.empty,
    "inference.compare_rankings_at_k": inspect.Parameter.empty,
    "functional.embedding_average_precision": (1, 5, 10),
    "EmbeddingMAP.evaluate": (1, 5, 10),
    "explain": 10,
    "functional.recommendation_at_k": (5, 10, 20),
}


def is_kind(annotation, kind):
    """Whether a type is the kind named on the page, or a choice of strings."""
    if kind in TYPES:
        return annotation == TYPES[kind] or (isinstance(TYPES[kind], tuple) and annotation in TYPES[kind])
    choices = {x for part in (annotation, *get_args(annotation)) for x in (part, *get_args(part))}
    return str in choices or any(isinstance(x, str) for x in choices)


def test_the_page_has_arguments_and_records():
    assert {"confidence_level", *RESAMPLING, *CONVENTION} - {"ties"} <= set(ARGUMENTS)
    assert len(PUBLIC) > 150
    assert len(RECORDS) > 10


@each("name", PUBLIC.keys())
def test_arguments_have_their_type_and_default(name):
    for argument, given in parameters(PUBLIC[name]).items():
        if argument == "top_k" and name in OTHER_TOP_K:
            assert given.default == OTHER_TOP_K[name]
        elif argument in ARGUMENTS and name not in RECORDS:  # records, whose fields have no defaults
            kind, default = ARGUMENTS[argument]
            optional = (name, argument) == ("compat.COCOeval.summarize", "confidence_level")  # None: no interval
            assert is_kind(given.annotation, kind) or optional, argument
            assert given.default == EXCEPT.get((name, argument), default), argument


@each("name", PUBLIC.keys())
def test_every_argument_is_spelled_out_under_its_name(name):
    call = PUBLIC[name]
    found = parameters(call)
    words = re.findall(r"`(\w+)`", PAGE[PAGE.index("These words are not argument names") :].split("\n\n")[0])
    assert len(words) == 8
    assert not set(words) & set(found)
    assert ("sample_weight" in found) == (name.startswith("sklearn.") and name.endswith("_score"))
    open_ended = {x for x, given in found.items() if given.kind is given.VAR_KEYWORD}
    if inspect.isclass(call) and issubclass(call, RankingMetric):
        assert open_ended <= {"kwargs"}
    elif re.fullmatch(r"compat\.(COCOe|LVISE)val\.report", name):  # the options of the function in its docstring
        assert open_ended <= {"options"}
    elif not name.startswith(("AveragePrecision", "classification.AveragePrecision", "BestOf.update")):
        assert not open_ended


@each("name", PUBLIC.keys())
def test_resampling_functions_take_the_same_four_keywords(name):
    found = parameters(PUBLIC[name])
    given = [x for x in found if x in RESAMPLING]
    assert given in ([], ["progress"], RESAMPLING)  # slow functions show their progress even without resamples
    assert all(found[x].kind is inspect.Parameter.KEYWORD_ONLY for x in given)
    assert not any("Resampling" in str(x.annotation) for x in found.values())
    for argument in given:
        assert argument in inspect.getdoc(PUBLIC[name])


@each("name", PUBLIC.keys())
def test_a_convention_next_to_its_four_keywords(name):
    found = set(parameters(PUBLIC[name]))
    if name.endswith("Convention") or name in RECORDS or name in OTHER_TOP_K:
        return
    assert not found >= CONVENTION or "convention" in found
    if "convention" in found:
        assert len(found) > 8


# -- results


def documented_fields():
    """Return the fields of each record on the page: (tensors, plain)."""
    out = {}
    for (name,), _, *kinds in table("| record | of |"):
        cells = [set(cell) if isinstance(cell, list) else set() for cell in kinds]
        inherited = [out["Comparison"][i] if "Comparison" in cell else set() for i, cell in enumerate(cells)]
        out[name] = tuple(cell - {"Comparison"} | more for cell, more in zip(cells, inherited, strict=True))
    return out


def test_every_record_has_the_fields_of_the_page():
    found = {path.removeprefix("inference."): kind for path, kind in RECORDS.items()}
    assert set(found) == set(documented_fields())
    for name, (tensors, plain) in documented_fields().items():
        assert {x.name for x in fields(found[name]) if x.type is Tensor} == tensors, name
        assert {x.name for x in fields(found[name]) if x.type is not Tensor} == plain, name


def test_every_record_of_inference_is_a_result():
    for module in map(importlib.import_module, INFERENCE_MODULES):
        for name, value in members(module).items():
            if inspect.isclass(value):
                assert is_dataclass(value), name
                assert issubclass(value, Result), name
                assert value.__repr__ is Result.__repr__, name
                assert value.__eq__ is Result.__eq__, name
                assert value.__dataclass_params__.frozen, name


def numbers_of(found):
    """Return the tensors of a result, including the values of its methods and properties."""
    if isinstance(found, Tensor):
        return [found]
    given = [getattr(found, x.name) for x in fields(found) if x.type is Tensor]
    names = [x for x, value in inspect.getmembers(type(found)) if isinstance(value, property) and not x.startswith("_")]
    values = [getattr(found, x) for x in names]
    assert all(isinstance(x, Tensor | bool) for x in values), names
    return [*given, *(x for x in values if isinstance(x, Tensor))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@each("row", INFERENCE)
def test_results_are_records_of_float64_tensors(row, dtype):
    drawn = {
        name: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
        for name, x in row.batches(1)[0].items()
    }
    found = row.value(drawn)
    assert isinstance(found, Tensor | Result)
    assert {x.dtype for x in numbers_of(found)} <= {torch.float64, torch.int64}
    if isinstance(found, Tensor):
        return
    plain = found.to_dict()
    assert list(plain) == [x.name for x in fields(found)]
    json.dumps(plain)
    text = repr(found)
    assert text.startswith(f"{type(found).__name__}(")
    assert "tensor(" not in text
    assert all(len(line) <= 120 for line in text.splitlines())
    assert found == row.value(drawn) == found.to("cpu")


def test_records_print_and_export_readable_values():
    found = inference.Interval(torch.tensor(2 / 3), torch.tensor(0.5), 1.0, float("nan"), 0.95, "wald")
    assert repr(found) == (
        "Interval(estimate=0.6667, low=0.5, high=1, standard_error=nan, confidence_level=0.95, method='wald')"
    )
    assert found.to_dict()["low"] == 0.5
    assert found.to_dict()["design"] == ""
    many = inference.Interval(*torch.arange(32).reshape(4, 8) / 7, 0.95, "wald", reason="x" * 100)
    assert "    estimate=[0, 0.1429, 0.2857, ..., 0.7143, 0.8571, 1],\n" in repr(many)
    table = inference.PairwiseComparison(*torch.arange(16).reshape(4, 2, 2) / 3, "holm", reason="x" * 80)
    assert "    difference=[[1.333, 1.667],\n                [2, 2.333]],\n" in repr(table)
    assert found == inference.Interval(torch.tensor(2 / 3), torch.tensor(0.5), 1.0, float("nan"), 0.95, "wald")
    assert found != inference.Interval(torch.tensor(2 / 3), torch.tensor(0.6), 1.0, float("nan"), 0.95, "wald")
    with pytest.raises(AttributeError):
        found.low = 1


@pytest.mark.gpu
@each("row", INFERENCE)
def test_results_are_on_the_device_of_the_input(row):
    drawn = row.batches(1)[0]
    moved = {name: x.cuda() if isinstance(x, Tensor) else x for name, x in drawn.items()}
    if not any(isinstance(x, Tensor) for x in drawn.values()):
        return
    found = row.value(moved)
    values = [found] if isinstance(found, Tensor) else [getattr(found, x) for x in found._tensors()]
    assert {x.device.type for x in values} == {"cuda"}
    assert {x.dtype for x in values} <= {torch.float64, torch.int64}


OF_TENSORS = {  # public names of the modules of functions
    name: value
    for module in (functional, curves, detection.pairs, detection.curves, retrieval)
    for name, value in members(module).items()
}
TUPLES = {name: value for name, value in OF_TENSORS.items() if hasattr(value, "_fields")}
RETURNED = {x: inspect.signature(f).return_annotation for x, f in OF_TENSORS.items() if inspect.isfunction(f)}
OF_TUPLES = {x for x, kind in RETURNED.items() if kind in (*TUPLES.values(), functional.Counts)}


def test_every_tuple_of_functional_is_on_the_page():
    rows = {name[0]: set(of) for name, of, _ in table("| tuple | of |")}
    assert rows == {name: {x for x, kind in RETURNED.items() if kind is TUPLES[name]} for name in TUPLES}
    others = {kind for x, kind in RETURNED.items() if x not in OF_TUPLES}
    records = {
        curves.Curve,
        list[curves.Curve],
        functional.QueryCurve,
        functional.EmbeddingRetrieval,
        functional.Recommendation,
        inference.SuspiciousLabels,
    }
    assert others == {Tensor, tuple[Tensor, Tensor, Tensor], dict[str, Any], dict[str, Tensor], *records}
    assert functional.Counts.__dataclass_params__.frozen


def dtypes_of(found):
    return {x.dtype for part in found for x in (part if isinstance(part, list) else [part]) if isinstance(x, Tensor)}


@each("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("which", [x for x, row in FUNCTIONS.items() if row.call.__name__ in OF_TUPLES])
def test_results_of_functional_have_the_documented_dtypes(which, dtype):
    row = FUNCTIONS[which]
    drawn = {
        name: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
        for name, x in row.batches(1)[0].items()
    }
    found = row.value(drawn)
    cells = {name[0]: cell for name, _, cell in table("| tuple | of |")}
    if isinstance(found, functional.Counts):
        assert {getattr(found, x.name).dtype for x in fields(found)} == {torch.float64}
        return
    cell = cells[type(found).__name__]
    if cell.startswith("dtype of AP"):
        limits = {"thresholds", "threshold"}
        values = [x for name, x in found._asdict().items() if name not in {*limits, "k"}]
        assert dtypes_of(values) == {torch.float64 if dtype == torch.float64 else torch.float32}
        given = torch.float32 if isinstance(row.settings.get("thresholds"), int) else dtype
        assert dtypes_of([x for name, x in found._asdict().items() if name in limits]) <= {given}
    else:
        assert dtypes_of(found) == {getattr(torch, x) for x in re.findall(r"float64|int64|int8", cell)}


def test_dtypes_of_thresholds_that_are_the_exceptions_of_the_page():
    scores, target = torch.tensor([3, 2, 1]), torch.tensor([1, 0, 1])
    assert functional.binary_precision_at_fixed_recall(scores, target, 0.5).threshold.dtype == torch.float64
    assert functional.precision_recall_curve(scores, target).thresholds.dtype == torch.int64
    for given, dtype in (([0.5], torch.float32), (3, torch.float32), (torch.tensor([0.5]).double(), torch.float64)):
        found = functional.precision_recall_curve(scores / 4, target, thresholds=given)
        assert found.thresholds.dtype == dtype


def test_p_values_have_one_name():
    names = {x.name for kind in RECORDS.values() for x in fields(kind)}
    assert {x for x in names if x.startswith("p_") or x.endswith(("_p", "pvalue", "p_value", "p_values"))} == {
        "p_value",
        "adjusted_p_value",
    }


SWAPPED = {"preds_a": "preds_b", "preds_b": "preds_a", "values_a": "values_b", "values_b": "values_a"}


@pytest.mark.parametrize("name", [x for x in INFERENCE if x.startswith("compare")])
def test_a_difference_is_a_minus_b(name):
    row = INFERENCE[name]
    drawn = row.batches(1, seed=1)[0]
    found = row.value(drawn)
    if hasattr(found, "means"):
        assert torch.equal(found.difference, found.means[:, None] - found.means)
        return
    assert found.difference == pytest.approx(float(found.value_a - found.value_b), abs=REORDERED)
    assert found.difference != 0, "else the sign is not seen"
    back = row.value({SWAPPED.get(x, x): value for x, value in drawn.items()})
    assert back.difference == pytest.approx(-float(found.difference), abs=REORDERED)


# -- resamples

METHODS = {
    "average_precision_at_k_interval": (None,),
    "best_of_metrics": (None,),
    "average_precision_interval": ("bootstrap-percentile", "bootstrap-bca", "bootstrap-logit", "dirichlet"),
    "average_precision_interval_classes": ("bootstrap-logit",),
    "chance_test": ("permutation",),
    "chance_test_of_queries": ("permutation",),
    "compare_decisions": ("randomization",),
    "compare_per_query": ("randomization",),
    "compare_rankings": ("bootstrap", "permutation"),
    "compare_rankings_above_chance": (None,),
    "compare_rankings_at_k": ("dirichlet", "permutation"),
    "compare_systems": ("tukey",),
    "compare_systems_per_query": ("tukey",),
    "mean_interval": ("bootstrap-bca",),
    "precision_at_k_interval": (None,),
    "precision_band": (None,),
    "recall_at_k_interval": (None,),
    "precision_recall_gain_interval": (None,),
}


def test_every_function_that_resamples_is_tested():
    resampling = {name for name, row in INFERENCE.items() if "n_resamples" in parameters(row.call)}
    assert resampling == set(METHODS)


@pytest.mark.parametrize(("name", "method"), [(x, method) for x, methods in METHODS.items() for method in methods])
def test_no_result_depends_on_the_batch(name, method):
    row = INFERENCE[name]
    drawn = {**row.batches(1, size=60)[0], **row.settings, **({"method": method} if method else {}), "n_resamples": 25}
    wanted = row.call(**drawn)
    for batch in (1, 7, 1000):
        assert row.call(**drawn, chunk_size=batch) == wanted
    seeded = [row.call(**drawn, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1, 2)]
    assert seeded[0] == wanted
    assert any(x != wanted for x in seeded[1:])


@pytest.mark.parametrize("name", METHODS)
@each(
    "argument, value", [("n_resamples", 1), ("generator", 3), ("chunk_size", 0), ("progress", 1), ("n_resamples", 2.5)]
)
def test_bad_resampling_is_refused_by_name(name, argument, value):
    row = INFERENCE[name]
    drawn = {**row.batches(1)[0], **row.settings, argument: value}
    with pytest.raises((ValueError, TypeError), match=f"`{argument}`"):
        row.call(**drawn)


def test_draws_of_a_device_do_not_depend_on_the_batch():
    """Draw blocks of one size, because a device's generator gives other numbers for other shapes."""
    generator = torch.Generator().manual_seed(0)

    def drawn(batch):
        generator.manual_seed(0)
        how = Resampling(23, chunk_size=batch)
        parts = how.draw_on_device(
            1 << 20, lambda count: (torch.rand(count, 2, generator=generator), torch.ones(count))
        )
        return [*parts]

    wanted = torch.cat([x for x, _ in drawn(None)])
    assert len(wanted) == 23
    for batch in (1, 5, 8, 20, 100):
        parts = drawn(batch)
        assert torch.equal(torch.cat([x for x, _ in parts]), wanted)
        assert [len(y) for _, y in parts] == [min(batch, 23 - start) for start in range(0, 23, batch)]


# -- metrics


@each("kind", sorted(METRIC_CLASSES - {torch_ap.AveragePrecision}, key=str))  # it makes the others
def test_methods_of_metrics_equal_the_page(kind):
    task = kind.__module__.split(".")[1]
    for (method,), _, *cells in table("| method | gives |"):
        has_chance_level = kind.__name__ not in AT_FIXED
        methods = ("compute", *["chance_level"] * has_chance_level, "to_bytes", "from_bytes")
        if kind.__name__ in WITHOUT_INTERVAL and method not in methods:
            assert not hasattr(kind, method)
            continue
        takes, *further = ([] if x == "-" else x for x in cells)
        further = further[("classification", "retrieval", "detection").index(task)]
        found = list(parameters(getattr(kind, method)))
        assert found == ["self", *sorted([*takes, *further], key=RESAMPLING.__contains__)], method
    assert not hasattr(kind, "baseline")


@each("kind", sorted(METRIC_CLASSES - {torch_ap.AveragePrecision}, key=str))
def test_curves_of_metrics_equal_the_page(kind):
    rows = {name[0]: (gives, takes) for name, gives, takes, _ in table("| metric | `curve` gives |")}
    assert hasattr(kind, "curve") == (kind.__name__ in rows)
    if kind.__name__ in rows:
        gives, takes = rows[kind.__name__]
        assert list(parameters(kind.curve)) == ["self", *([] if takes == "-" else takes)]
        text = str(inspect.signature(kind.curve).return_annotation)
        assert gives[0] in text
        record = functional.QueryCurve if gives[0] == "QueryCurve" else curves.Curve
        assert record.__name__ in text


@pytest.mark.parametrize("kind", sorted({x for x in METRIC_CLASSES if hasattr(x, "per_image")}, key=str))
def test_methods_of_detection_equal_the_page(kind):
    distances = issubclass(kind, torch_ap.NuScenesMeanAveragePrecision)
    for (method,), _, takes in table("| method of detection |"):
        if distances and method in ("errors", "detections_table", "lrp", "suspicious_labels"):  # they require overlaps
            assert not hasattr(kind, method)
            continue
        if distances:
            takes = ["distance_threshold" if x == "iou_threshold" else x for x in takes]
        assert list(parameters(getattr(kind, method))) == ["self", *takes]


def test_methods_of_curves_equal_the_page():
    found = {}
    for names, _, takes in table("| method of `Curve` |"):
        found |= {name: ["self", *([] if takes == "-" else takes)] for name in names}
    own = {name: f for name, f in vars(curves.Curve).items() if inspect.isfunction(f) and name[0] != "_"}
    assert found == {name: list(parameters(f)) for name, f in own.items()}


@pytest.mark.parametrize("head", ["| function | writes |", "| function | gives | takes, by keyword |"])
def test_functions_of_pages_and_runs_equal_the_page(head):
    ((name,), _, takes), *others = table(head)
    assert not others
    found = [x.name for x in parameters(getattr(torch_ap, name)).values() if x.kind is x.KEYWORD_ONLY]
    assert takes == found


def test_pictures_equal_the_page():
    for (name,), _, takes in table("| picture | of |"):
        _, ax, *found = parameters(getattr(plot, name))
        assert (ax, found) == ("ax", [] if takes == "-" else takes)


@pytest.mark.parametrize(
    "method",
    [
        torch_ap.BinaryAveragePrecision.noisy_interval,
        torch_ap.RetrievalMAP.prediction_powered_interval,
        torch_ap.MeanAveragePrecision.per_slice,
        torch_ap.BinaryAveragePrecision.suspicious_labels,
    ],
)
def test_calls_in_the_text_are_those_of_the_signature(method):
    (text,) = re.findall(rf"`({method.__name__}\(.+?\))`", PAGE)
    _, *found = parameters(method).values()
    required = [x for x in found if x.default is x.empty]
    assert all(x.kind is x.POSITIONAL_OR_KEYWORD for x in required)
    arguments = [x.name if x in required else f"{x.name}={x.default!r}" for x in found]
    assert text == f"{method.__name__}({', '.join(arguments)})"


# metrics without a summary, by the argument that the message names
NO_SUMMARY = {
    name: reason
    for reason, names in {
        r"`top_k` must be None for an interval of AP, got \d": ("multiclass_at_2", "multilabel_expected_at_3"),
        r"`interpolation` must be None for an interval by method 'influence', got .*use 'bootstrap-": (
            *("binary_11_point", "binary_101_point", "binary_own_levels", "binary_all_points"),
            *("multilabel_own_levels", "multilabel_11_point", "binary_half_101_point"),
        ),
        r"`interpolation` must not be 'trapezoid' for an interval": ("binary_trapezoid",),
        "`num_relevant` cannot be combined with a chance level, comparison or interval": ("binary_num_relevant",),
        r"`thresholds` and `bins` must be None for the interval of an average": (
            *("multilabel_micro_5_thresholds", "multiclass_64_bins"),
        ),
        r"`ties` must be 'grouped' for an interval .* got 'pessimistic'": ("multiclass_pessimistic",),
        r"`aggregation` must be 'mean' .* got 'gm'": ("query_map_grouped_at_3",),
        r"`aggregation` must be 'mean' .* got 'median'": ("query_recall",),
    }.items()
    for name in names
}


def test_metrics_without_a_summary_have_a_row():
    assert set(NO_SUMMARY) <= set(METRICS)


@pytest.mark.filterwarnings("ignore:`groups`. [0-9]+ groups with:UserWarning")
@each("which", list(METRICS))
def test_summaries_are_named_by_the_metric(which):
    row = METRICS[which]
    if row.call.__name__ in WITHOUT_INTERVAL:
        assert not hasattr(row.call, "summary")
        return
    names = {x: name[0] for x_s, name in table("| metric | name |") for x in x_s}
    metric = row.new()
    for batch in row.batches(3):
        metric.update(**batch)
    name = names[type(metric).__name__]
    assert type(metric)._summary_name == name
    if which in NO_SUMMARY:
        with pytest.raises(ValueError, match=NO_SUMMARY[which]):
            metric.summary(n_resamples=20)
        return
    found = metric.summary(n_resamples=20)
    keys = {x.removeprefix(name) for x in found}
    assert list(metric.summary(n_resamples=20, prefix="own")) == ["own" + x.removeprefix(name) for x in found]
    ends = {re.sub(r"^_(\d+|relevant)", "", key) for key in keys}
    assert ends - {"_bias", "_chance"} == {"", "_low", "_high"}
    assert {x.ndim for x in found.values()} == {0}
    value = metric.compute()
    value = value["map"] if isinstance(value, dict) else value
    assert {x.dtype for x in found.values()} == {value.dtype}
    every = row.settings["top_k"] if isinstance(row.settings.get("top_k"), list) else range(value.numel())
    names = [name] if value.ndim == 0 else [f"{name}_{key}" for key in every]
    order = [end for end in ("", "_low", "_high", "_bias", "_chance") if end in ends]
    assert list(found) == [one + end for one in names for end in order]
    torch.testing.assert_close(torch.stack([found[one] for one in names]), value.reshape(-1), equal_nan=True)
    assert not any(found[f"{one}_low"] > found[f"{one}_high"] for one in names)


# -- names and commands


def test_no_public_name_is_of_the_words_that_went():
    assert not {x for x in PUBLIC if re.search("baseline|Resampling|level_of", x)}
    assert inspect.isfunction(inference.chance_level)
    assert not hasattr(inference, "Resampling")


@pytest.mark.parametrize("command", ["score", "trec", "coco", "voc"])
def test_commands_take_the_words_of_the_functions(command, capsys):
    with pytest.raises(SystemExit):
        main.main([command, "--help"])
    text = capsys.readouterr().out
    assert {"--confidence-level", "--n-resamples"} <= set(re.findall(r"--[a-z-]+", text))


def test_a_wrong_name_would_be_found():
    def wrong(preds, *, resampling=None, **settings):
        pass

    PUBLIC["wrong"] = wrong
    try:
        with pytest.raises(AssertionError):
            test_every_argument_is_spelled_out_under_its_name.__wrapped__("wrong")
    finally:
        del PUBLIC["wrong"]
    assert FUNCTIONS
