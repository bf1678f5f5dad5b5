"""A convention as one value equals its separate keywords, wherever it is accepted."""

import inspect

import pytest
import torch

from tests.support.each import each
from tests.support.every_metric import FUNCTIONS, METRICS
from tests.support.modes import same
from torch_ap import BinaryAveragePrecision, Convention, RetrievalMAP, functional

LEVELS = torch.tensor([0.1, 0.55])
GIVEN = [
    {"top_k": 3, "denominator": "relevant", "ties": "expected"},
    {"top_k": 2, "ties": "pessimistic"},
    {"interpolation": "11-point", "ties": "grouped"},
    {"interpolation": LEVELS, "ties": "optimistic"},
    {"ties": "grouped"},
]
FIXED = {"top_k", "ties", "interpolation", "denominator", "aggregation", "bins"}
ROWS = {
    row.call.__name__: row
    for row in (*METRICS.values(), *FUNCTIONS.values())
    if "convention" in inspect.signature(row.call).parameters
    and "iou_type" not in inspect.signature(row.call).parameters  # conventions of detectors are names
    and not row.settings.keys() & FIXED
    and "weights" not in row.batches(1)[0]
}
SYSTEMS = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]), torch.tensor([1, 0, 0, 1, 1])


def value_of(row, **more):
    """Return the complete output of a class or function for one batch."""
    (batch,) = row.batches(1)
    if not isinstance(row.call, type):
        return row.call(**batch, **row.settings, **more)
    metric = row.new(**more)
    metric.update(**batch)
    return metric.compute(), repr(metric)


def test_all_that_compute_average_precision_take_a_convention():
    wanted = {"AveragePrecision", *(f"{kind}AveragePrecision" for kind in ("Binary", "Multiclass", "Multilabel"))}
    functions = {"average_precision", *(f"{x}_average_precision" for x in ("binary", "multiclass", "multilabel"))}
    curves = {"binary_curve", "multiclass_curve", "multilabel_curve", "retrieval_curve"}
    queries = {"RetrievalMAP", "EmbeddingMAP", "retrieval_average_precision"}
    assert ROWS.keys() == wanted | functions | curves | queries


@each("name", list(ROWS))
@each("words", GIVEN)
def test_a_convention_is_its_keywords(name, words):
    same(value_of(ROWS[name], convention=Convention(**words)), value_of(ROWS[name], **words))


@each("name", list(ROWS))
@each(
    "keyword, value",
    [
        ("top_k", 3),
        ("denominator", "found"),
        ("interpolation", "11-point"),
        ("interpolation", LEVELS),
        ("ties", "optimistic"),
    ],
)
def test_keywords_next_to_a_convention_are_refused(name, keyword, value):
    with pytest.raises(ValueError, match=f"`{keyword}` cannot be combined with `convention`"):
        value_of(ROWS[name], convention=Convention(), **{keyword: value})


@each("name", list(ROWS))
def test_other_types_than_conventions_are_refused(name):
    with pytest.raises(TypeError, match=r"`convention` must be a torch_ap\.Convention or None, got dict"):
        value_of(ROWS[name], convention={"top_k": 3})


@pytest.mark.parametrize("given", [{}, {"top_k": 2}, {"interpolation": "11-point"}, {"ties": "grouped"}])
def test_a_convention_equals_its_keywords(given):
    """Undefined tie rules are included: over queries they are "expected", but "grouped" if AP is interpolated."""
    preds, target = torch.zeros(4), torch.tensor([1, 0, 0, 0])
    for function in (functional.retrieval_average_precision, functional.binary_average_precision):
        assert function(preds, target, convention=Convention(**given)) == function(preds, target, **given)
    for kind in (RetrievalMAP, BinaryAveragePrecision):
        assert kind(convention=Convention(**given)).convention == kind(**given).convention


def test_conventions_are_values():
    assert Convention(top_k=2) == Convention(top_k=2) != Convention(top_k=3)
    assert Convention(interpolation=LEVELS) == Convention(interpolation=LEVELS.clone())
    assert Convention() != "11-point"
    assert len({Convention(), Convention(ties=None), Convention(interpolation=LEVELS)}) == 2


def test_scikit_learn_takes_a_convention():
    pytest.importorskip("sklearn")
    from torch_ap.sklearn import average_precision_score

    preds, target = (x.numpy() for x in SYSTEMS)
    found = average_precision_score(target, preds, convention=Convention(top_k=2, denominator="relevant"))
    assert found == average_precision_score(target, preds, top_k=2, denominator="relevant") == 1 / 3


def test_recall_levels_of_another_dtype_are_another_convention():
    preds, target = torch.arange(17.0, 0, -1), torch.tensor([1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0])
    levels = torch.tensor([0.3, 0.7, 0.1])
    assert Convention(interpolation=levels) != Convention(interpolation=levels.double())
    narrow, wide = (
        functional.binary_average_precision(preds, target, interpolation=x, dtype=torch.float64)
        for x in (levels, levels.double())
    )
    assert narrow > wide  # rounded to float32, 7 of 10 hits reach the level 0.7
