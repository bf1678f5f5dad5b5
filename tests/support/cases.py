"""Table of metrics: every law of ``test_common`` applies to every row."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import torch_ap
from tests.support import oracles
from torch_ap import functional

CLASSES = 4


@dataclass(frozen=True)
class Case:
    """A metric class, its function, how to call both, and the definition of the value."""

    metric: Callable[..., Any]
    function: Callable[..., Tensor]
    make: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
    oracle: Callable[[Tensor, Tensor], list[float]]
    settings: dict[str, Any] = field(default_factory=dict)
    logits: bool = True

    def new(self, **more: Any) -> Any:
        return self.metric(**self.settings, **more)

    def value(self, preds: Tensor, target: Tensor, **more: Any) -> Tensor:
        return self.function(preds, target, **self.settings, **more)


def scores(shape, generator):
    """Draw multiples of 1/8, so that ties are common and every float dtype represents the scores exactly."""
    return (torch.rand(shape, generator=generator) * 16).round() / 16


def binary(n, generator):
    return scores((n,), generator), torch.randint(2, (n,), generator=generator)


def binary_with_ignored(n, generator):
    return scores((n,), generator), torch.randint(-1, 2, (n,), generator=generator)


def multiclass(n, generator):
    return scores((n, CLASSES), generator), torch.randint(CLASSES, (n,), generator=generator)


def multiclass_with_ignored(n, generator):
    return scores((n, CLASSES), generator), torch.randint(-1, CLASSES, (n,), generator=generator)


def multilabel(n, generator):
    return scores((n, CLASSES), generator), torch.randint(2, (n, CLASSES), generator=generator)


def multilabel_with_ignored(n, generator):
    return scores((n, CLASSES), generator), torch.randint(-1, 2, (n, CLASSES), generator=generator)


def multilabel_with_several_ignored(n, generator):
    return scores((n, CLASSES), generator), torch.randint(-2, 2, (n, CLASSES), generator=generator)


def with_nan(make):
    """Replace some scores of the items by NaN."""

    def drawn(n, generator):
        preds, target = make(n, generator)
        return preds.masked_fill(torch.rand(preds.shape, generator=generator) < 0.1, torch.nan), target

    return drawn


def by_definition(measure=oracles.average_precision, average="none", undefined=0.0, thresholds=None):
    """Return the oracle of a case: the measure of each ranking, then the average."""

    def column_value(column_scores: Tensor, hits: Tensor) -> float | None:
        kept = (hits >= 0) & ~column_scores.isnan()
        values, relevant = column_scores[kept].double(), hits[kept].tolist()
        if thresholds is not None:
            values = (values[:, None] >= thresholds.double()).sum(1)
        exact = measure(values.tolist(), relevant)
        return float(exact) if exact is not None else undefined if relevant else None

    def value(preds: Tensor, target: Tensor) -> list[float]:
        if preds.ndim == 2 and target.ndim == 1:
            ignored = (target[:, None] < 0) | preds.isnan().any(1, keepdim=True)
            target = torch.where(ignored, -1, (target[:, None] == torch.arange(CLASSES)).long())
        if preds.ndim == 1 or average == "micro":
            columns = [(preds.flatten(), target.flatten())]
        else:
            columns = list(zip(preds.t(), target.t(), strict=True))
        values = [column_value(*column) for column in columns]
        if average in ("macro", "weighted"):
            support = [int((hits == 1).sum()) for _, hits in columns]
            values = [oracles.average(values, average, support)]
        return [math.nan if x is None else x for x in values]

    return value


def ap_at_k(k, denominator="min", ties="grouped"):
    return lambda s, r: oracles.average_precision(s, r, ties, k, denominator)


def expected(k=None):
    return lambda s, r: oracles.ap_expected(s, r, k, "min")


def ties(rule):
    return lambda s, r: oracles.average_precision(s, r, rule)


def interpolated(levels):
    return lambda s, r: oracles.interpolated_average_precision(s, r, levels)


BINARY = (torch_ap.BinaryAveragePrecision, functional.binary_average_precision, binary)
BINARY_IGNORED = (*BINARY[:2], binary_with_ignored)
MULTICLASS = (torch_ap.MulticlassAveragePrecision, functional.multiclass_average_precision, multiclass)
MULTICLASS_IGNORED = (*MULTICLASS[:2], multiclass_with_ignored)
MULTILABEL = (torch_ap.MultilabelAveragePrecision, functional.multilabel_average_precision, multilabel)
MULTILABEL_IGNORED = (*MULTILABEL[:2], multilabel_with_ignored)
C, L = {"num_classes": CLASSES}, {"num_labels": CLASSES}
FIVE = torch.linspace(0, 1, 5)
OWN = [0.25, 0.7, 0.5]
WIDE = {"tolerance": 1.0}
LEARNT = {"bins": "adaptive", "pilot": 10, **WIDE}
LEVELS = [0.0, 0.25, 0.625, 1.0]  # recall levels that floats represent exactly

CASES = {
    "binary": Case(*BINARY, by_definition()),
    "binary_ignored": Case(*BINARY_IGNORED, by_definition(), {"ignore_index": -1}),
    "binary_at_3": Case(*BINARY, by_definition(ap_at_k(3)), {"top_k": 3}),
    "binary_at_3_relevant": Case(
        *BINARY, by_definition(ap_at_k(3, "relevant")), {"top_k": 3, "denominator": "relevant"}
    ),
    "binary_at_3_found": Case(*BINARY, by_definition(ap_at_k(3, "found")), {"top_k": 3, "denominator": "found"}),
    "binary_expected": Case(*BINARY, by_definition(expected()), {"ties": "expected"}),
    "binary_expected_at_3": Case(
        *BINARY, by_definition(expected(3)), {"ties": "expected", "top_k": 3, "denominator": "min"}
    ),
    "binary_nan_left_out": Case(*BINARY[:2], with_nan(binary), by_definition(), {"nan_strategy": "ignore"}),
    "binary_optimistic": Case(*BINARY, by_definition(ties("optimistic")), {"ties": "optimistic"}),
    "binary_pessimistic": Case(*BINARY, by_definition(ties("pessimistic")), {"ties": "pessimistic"}),
    "binary_11_point": Case(
        *BINARY,
        by_definition(interpolated([oracles.Fraction(j, 10) for j in range(11)])),
        {"interpolation": "11-point"},
    ),
    "binary_101_point": Case(*BINARY, by_definition(oracles.coco_average_precision), {"interpolation": "101-point"}),
    "binary_own_levels": Case(*BINARY, by_definition(interpolated(LEVELS)), {"interpolation": torch.tensor(LEVELS)}),
    "binary_all_points": Case(*BINARY, by_definition(interpolated("all-points")), {"interpolation": "all-points"}),
    "binary_trapezoid": Case(*BINARY, by_definition(interpolated("trapezoid")), {"interpolation": "trapezoid"}),
    "binary_5_thresholds": Case(*BINARY, by_definition(thresholds=FIVE), {"thresholds": 5}, logits=False),
    "binary_ignored_5_thresholds": Case(
        *BINARY_IGNORED, by_definition(thresholds=FIVE), {"thresholds": 5, "ignore_index": -1}, logits=False
    ),
    "binary_half": Case(*BINARY, by_definition(), {"bins": "half"}),
    "binary_half_101_point": Case(
        *BINARY, by_definition(oracles.coco_average_precision), {"bins": "half", "interpolation": "101-point"}
    ),
    "binary_64_bins": Case(*BINARY, by_definition(expected()), {"bins": 64, **WIDE}, logits=False),
    "binary_own_bins": Case(
        *BINARY, by_definition(expected(), thresholds=torch.tensor(OWN)), {"bins": OWN, **WIDE}, logits=False
    ),
    "binary_adaptive": Case(*BINARY, by_definition(), {"bins": "adaptive"}),
    "binary_nan_left_out_adaptive": Case(
        *BINARY[:2], with_nan(binary), by_definition(), {"bins": "adaptive", "nan_strategy": "ignore"}
    ),
    "multiclass_64_bins": Case(
        *MULTICLASS,
        by_definition(expected(), average="macro", undefined=None),
        {**C, "bins": 64, **WIDE},
        logits=False,
    ),
    "multilabel_ignored_64_bins": Case(
        *MULTILABEL_IGNORED,
        by_definition(expected()),
        {**L, "average": None, "ignore_index": -1, "bins": 64, **WIDE},
        logits=False,
    ),
    "multilabel_micro_adaptive": Case(
        *MULTILABEL, by_definition(average="micro"), {**L, "average": "micro", "bins": "adaptive"}
    ),
    "multiclass": Case(*MULTICLASS, by_definition(average="macro", undefined=None), C),
    "multiclass_none": Case(*MULTICLASS, by_definition(undefined=None), {**C, "average": None}),
    "multiclass_weighted": Case(
        *MULTICLASS, by_definition(average="weighted", undefined=None), {**C, "average": "weighted"}
    ),
    "multiclass_ignored": Case(
        *MULTICLASS_IGNORED, by_definition(average="macro", undefined=None), {**C, "ignore_index": -1}
    ),
    "multiclass_expected": Case(
        *MULTICLASS, by_definition(expected(), undefined=None), {**C, "average": None, "ties": "expected"}
    ),
    "multiclass_nan_left_out": Case(
        *MULTICLASS[:2],
        with_nan(multiclass),
        by_definition(undefined=None),
        {**C, "average": None, "nan_strategy": "ignore"},
    ),
    "multiclass_at_2": Case(*MULTICLASS, by_definition(ap_at_k(2), average="macro", undefined=None), {**C, "top_k": 2}),
    "multiclass_5_thresholds": Case(
        *MULTICLASS,
        by_definition(undefined=None, thresholds=FIVE),
        {**C, "average": "none", "thresholds": 5},
        logits=False,
    ),
    "multilabel": Case(*MULTILABEL, by_definition(average="macro"), L),
    "multilabel_none": Case(*MULTILABEL, by_definition(), {**L, "average": None}),
    "multilabel_micro": Case(*MULTILABEL, by_definition(average="micro"), {**L, "average": "micro"}),
    "multilabel_weighted": Case(*MULTILABEL, by_definition(average="weighted"), {**L, "average": "weighted"}),
    "multilabel_several_ignored": Case(
        *MULTILABEL[:2],
        multilabel_with_several_ignored,
        by_definition(),
        {**L, "average": "none", "ignore_index": (-2, -1)},
    ),
    "multilabel_ignored": Case(*MULTILABEL_IGNORED, by_definition(), {**L, "average": "none", "ignore_index": -1}),
    "multilabel_nan_left_out": Case(
        *MULTILABEL[:2], with_nan(multilabel), by_definition(), {**L, "average": None, "nan_strategy": "ignore"}
    ),
    "multilabel_own_levels": Case(
        *MULTILABEL, by_definition(interpolated(LEVELS)), {**L, "average": None, "interpolation": torch.tensor(LEVELS)}
    ),
    "multilabel_11_point": Case(
        *MULTILABEL,
        by_definition(interpolated([oracles.Fraction(j, 10) for j in range(11)])),
        {**L, "average": None, "interpolation": "11-point"},
    ),
    "multilabel_micro_5_thresholds": Case(
        *MULTILABEL,
        by_definition(average="micro", thresholds=FIVE),
        {**L, "average": "micro", "thresholds": 5},
        logits=False,
    ),
}
