"""Suspicious targets of classifiers: each change equals the value of a second metric with the corrected target."""

import pytest
import torch

from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import BinaryAveragePrecision, MulticlassAveragePrecision, MultilabelAveragePrecision
from torch_ap.classification import suspicious, suspicious_labels

HIGH, LOW, OTHER = "high score, labelled negative", "low score, labelled positive", "predicted as another class"
OPTIONS = [
    {},
    {"ties": "expected"},
    {"top_k": 5, "denominator": "relevant"},
    {"interpolation": "101-point"},
    {"prevalence": 0.3},
    {"ignore_index": -1},
    {"empty_target_action": "neg"},
]
NEW = {
    "binary": BinaryAveragePrecision,
    "macro": lambda **options: MulticlassAveragePrecision(3, normalization="none", **options),
    "weighted": lambda **options: MulticlassAveragePrecision(3, "weighted", normalization="none", **options),
    "labels": lambda **options: MultilabelAveragePrecision(3, **options),
    "weighted labels": lambda **options: MultilabelAveragePrecision(3, "weighted", **options),
    "micro": lambda **options: MultilabelAveragePrecision(3, "micro", **options),
}
ARGUMENTS = {
    "binary": ("binary",),
    "macro": ("multiclass", 3),
    "weighted": ("multiclass", 3, None, "weighted"),
    "labels": ("multilabel", None, 3),
    "weighted labels": ("multilabel", None, 3, "weighted"),
    "micro": ("multilabel", None, 3, "micro"),
}


def updated(metric, scores, target, *more):
    metric.update(scores, target, *more)
    return metric


def drawn(kind, seed, options):
    """Draw scores with many ties."""
    generator = torch.Generator().manual_seed(seed)
    items = int(torch.randint(1, 30, (1,), generator=generator))
    scores = torch.randint(0, 8, (items,) if kind == "binary" else (items, 3), generator=generator).double() / 8
    if kind in ("macro", "weighted"):
        target = torch.randint(0, 3, (items,), generator=generator)
    else:
        target = (torch.rand(scores.shape, generator=generator) < 0.4).long()
    if "ignore_index" in options:
        target[torch.rand(target.shape, generator=generator) < 0.2] = -1
    return scores, target


def corrected(row, target):
    target = target.clone()
    if "predicted_class" in row:
        target[row["item"]] = int(row["predicted_class"])
    else:
        place = (row["item"], int(row["class"])) if "class" in row else row["item"]
        target[place] = 1 - target[place]
    return target


@pytest.mark.filterwarnings("ignore::UserWarning")  # of targets without positives
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", NEW)
def test_each_change_is_that_of_the_corrected_target(kind, options, monkeypatch):
    monkeypatch.setattr(suspicious, "_ENTRIES_A_CHUNK", 20)  # many chunks
    for seed in range(2):
        scores, target = drawn(kind, seed, options)
        metric = updated(NEW[kind](**options), scores, target)
        found, value = metric.suspicious_labels(limit=None), metric.compute().item()
        assert found.value.item() == pytest.approx(value, abs=REORDERED, nan_ok=True)
        rows = found.rows()
        function = suspicious_labels(scores, target, *ARGUMENTS[kind], limit=None, normalization="none", **options)
        assert repr(function.to_dict()) == repr(found.to_dict())
        assert len(rows) == sum(found.counts.values())
        for row in rows[:: 1 + len(rows) // 6]:
            after = updated(NEW[kind](**options), scores, corrected(row, target)).compute().item()
            assert row["change"] == pytest.approx(after - value, abs=REORDERED, nan_ok=True), row
        changes = [x for x in found.table["change"].tolist() if x == x]
        assert changes == sorted(changes, reverse=True)


def test_no_other_target_of_one_ranking_changes_ap_by_more():
    generator = torch.Generator().manual_seed(0)
    scores, target = torch.randn(60, generator=generator), torch.arange(60) % 3 // 2
    metric = updated(BinaryAveragePrecision(), scores.double(), target)
    value, changes = metric.compute().item(), []
    for item in range(60):
        other = target.clone()
        other[item] = 1 - other[item]
        changes.append(updated(BinaryAveragePrecision(), scores.double(), other).compute().item() - value)
    found = metric.suspicious_labels(limit=5)
    assert found.table["change"].tolist() == pytest.approx(sorted(changes, reverse=True)[:5], abs=REORDERED)
    assert found.table["item"].tolist() == sorted(range(60), key=lambda x: -changes[x])[:5]


@pytest.mark.parametrize("kind", NEW)
def test_smaller_limits_keep_the_first_rows(kind):
    generator = torch.Generator().manual_seed(0)
    width = () if kind == "binary" else (3,)
    scores = torch.randn((400, *width), generator=generator).double()
    shape = (400,) if kind in ("macro", "weighted") else (400, *width)
    target = torch.randint(0, 3 if kind in ("macro", "weighted") else 2, shape, generator=generator)
    metric = updated(NEW[kind](), scores, target)
    rows = metric.suspicious_labels().rows()
    assert len(rows) == 100
    for limit in (1, 20, 99):
        assert metric.suspicious_labels(limit=limit).rows() == rows[:limit]


def test_kinds_ids_and_names():
    scores, target = torch.tensor([0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.1]), torch.tensor([1, 0, 1, 0, 0, 0, 1])
    found = updated(BinaryAveragePrecision(), scores, target, None, list(range(3, 10))).suspicious_labels()
    assert found.counts == {HIGH: 1, LOW: 1}
    rows = {(row["item"], row["kind"], round(row["score"], 4)) for row in found.rows()}
    assert rows == {(4, HIGH, 0.8), (9, LOW, 0.1)}
    assert "class" not in found.table
    scores, target = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.1, 0.2, 0.7]]), torch.tensor([0, 2, 2])
    found = updated(MulticlassAveragePrecision(3), scores, target).suspicious_labels(class_names=["ant", "bee", "cow"])
    (row,) = found.rows()
    assert (row["kind"], row["item"], row["class"], row["predicted_class"]) == (OTHER, 1, "cow", "bee")
    assert row["score"] == pytest.approx(0.6)
    found = updated(MultilabelAveragePrecision(3), scores, 1 - scores.round().long()).suspicious_labels(limit=1)
    assert len(found.rows()) == 1 < sum(found.counts.values())
    assert found.rows()[0]["class"] in "012"


def test_copies_of_a_sample_are_one_item():
    scores, target = torch.tensor([0.9, 0.8, 0.9, 0.3]), torch.tensor([0, 1, 0, 1])
    found = updated(BinaryAveragePrecision(), scores, target, None, [4, 5, 4, 6]).suspicious_labels()
    assert [row["item"] for row in found.rows()] == [4]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_and_one_item():
    for new in (BinaryAveragePrecision, lambda: MulticlassAveragePrecision(3), lambda: MultilabelAveragePrecision(3)):
        found = new().suspicious_labels()
        assert found.rows() == []
        assert found.value.isnan()
    for target in (0, 1):
        found = updated(BinaryAveragePrecision(), torch.tensor([0.5]), torch.tensor([target])).suspicious_labels()
        assert found.counts == {HIGH: 0, LOW: 0}


@each("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_dtypes_and_infinities(dtype):
    scores = torch.tensor([5, 4, 3, 0, 0, -1, -2, -3]).to(dtype)
    if dtype.is_floating_point:
        scores[0], scores[-1], scores[4] = torch.inf, -torch.inf, -0.0
    target = torch.tensor([0, 1, 1, 0, 0, 0, 0, 1])
    rows = updated(BinaryAveragePrecision(), scores, target).suspicious_labels().rows()
    assert {(row["item"], row["kind"]) for row in rows} == {(0, HIGH), (7, LOW)}


@each(
    "metric, arguments, match",
    [
        (BinaryAveragePrecision(thresholds=5), {}, "thresholds"),
        (BinaryAveragePrecision(bins=5), {}, "bins"),
        (BinaryAveragePrecision(num_relevant=5), {}, "num_relevant"),
        (MulticlassAveragePrecision(3, average="none"), {}, "average"),
        (BinaryAveragePrecision(), {"limit": 0}, "limit"),
        (BinaryAveragePrecision(), {"class_names": ["a"]}, "class_names"),
        (MulticlassAveragePrecision(3), {"class_names": ["a"]}, "class_names"),
        (
            updated(BinaryAveragePrecision(), torch.tensor([0.5]), torch.tensor([1]), torch.tensor([2.0])),
            {},
            "weights",
        ),
    ],
)
def test_bad_arguments(metric, arguments, match):
    with pytest.raises(ValueError, match=match):
        metric.suspicious_labels(**arguments)


@each("arguments, match", [({"task": "ranking"}, "task"), ({"num_relevant": 3}, "num_relevant"), ({"bins": 5}, "bins")])
def test_bad_arguments_of_the_function(arguments, match):
    with pytest.raises(ValueError, match=match):
        suspicious_labels(torch.tensor([0.5, 0.2]), torch.tensor([1, 0]), **{"task": "binary", **arguments})
