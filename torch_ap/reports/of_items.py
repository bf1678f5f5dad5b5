"""The report of a classifier: one ranking, or one per class or label."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from torch_ap.curve import words
from torch_ap.functional import Curve
from torch_ap.metrics.classification import MulticlassAveragePrecision
from torch_ap.metrics.items import ClassificationAveragePrecision
from torch_ap.reports import cautions, curves
from torch_ap.reports.content import Cell, Content, Section, Table, bounded
from torch_ap.reports.statement import Asked, compared, headline
from torch_ap.rules.messages import refuse

_ENDS = ("low", "high", "chance")


def content_of(metric: ClassificationAveragePrecision, asked: Asked) -> Content:
    """All that the report says."""
    found = _curves(metric, asked.names)
    several = metric._settings.inputs.width is not None
    one = len(found) == 1 and not found[0].name
    units = ("class", "classes") if isinstance(metric, MulticlassAveragePrecision) else ("label", "labels")
    value, average = _value(metric), metric.average or "none"
    name = words.name_of(metric.convention, "mean " if several and not one else "")
    changed = {} if average != "none" or one else {"settings": replace(metric._settings, average="macro")}
    head = headline(metric, name, value, asked, method=_method(metric), **changed)
    others = [] if asked.other is None else _curves(asked.other, asked.names)
    sections = []
    if asked.other is not None:
        head = replace(head, other=_value(asked.other))
        sections.append(compared(metric, asked, (value, head.other), {"unit": "items"}))
    both = {asked.systems[0]: found, asked.systems[1]: others} if others else {asked.systems[0]: found}
    sections += curves.of_one(both, asked) if one else _of_classes(metric, asked, both, units)
    return Content(
        title="",
        systems=asked.systems,
        headline=head,
        convention=words.of_classes(metric.convention, average, units[1] if several else ""),
        facts=_facts(found, one, units),
        warnings=[*_cautions(metric, found, units), *cautions.inside(head.low, head.high, head.chance)],
        sections=sections,
        source=repr(metric),
    )


def _curves(metric: Any, names: Any) -> list[Curve]:
    """One per ranking."""
    if hasattr(metric, "num_classes") or (hasattr(metric, "num_labels") and metric.average != "micro"):
        return list(metric.curve(class_names=names))
    if names is not None:
        refuse("class_names", "must be None where there is one ranking", names)
    return [metric.curve()]


def _value(metric: ClassificationAveragePrecision) -> float:
    """The metric's, or the mean of its values that exist."""
    return float(metric.compute().double().nanmean())


def _method(metric: ClassificationAveragePrecision) -> str | None:
    """The default, but interpolated precision has no influence function."""
    return None if metric.convention.interpolation is None else "bootstrap-logit"


def _facts(found: Sequence[Curve], one: bool, units: tuple[str, str]) -> Mapping[str, Cell]:
    n, m = max(float(x.n) for x in found), sum(float(x.m) for x in found)
    sums = found[0].hits.is_floating_point()
    facts: dict[str, Cell] = {"weight of items" if sums else "items": round(n, 3) if sums else int(n)}
    if not one:
        return facts | {units[1]: len(found)}
    return facts | {"positives": round(m, 3) if sums else int(m), "share of positives": f"{100 * m / n:.3g}%"}


def _cautions(metric: ClassificationAveragePrecision, found: Sequence[Curve], units: tuple[str, str]) -> list[str]:
    said = cautions.few({x.name: round(float(x.m)) for x in found}, units)
    if found[0].hits.is_floating_point():
        return said  # sums of weights do not say how many items are tied
    ends = cautions.mean_range(found)
    if metric.thresholds is not None:
        return said + cautions.ties(0, 1, *ends, bins=len(metric.thresholds) + 1)
    groups = [x.items.diff(prepend=x.items.new_zeros(1)) for x in found]
    said += cautions.ties(*cautions.tied_items(torch.cat(groups)), *ends)
    scores, counts = torch.cat([x.thresholds for x in found]), torch.cat(groups)
    return said + cautions.saturation(scores, counts)


def _of_classes(
    metric: ClassificationAveragePrecision, asked: Asked, both: Mapping[str, Sequence[Curve]], units: tuple[str, str]
) -> list[Section]:
    """Bars, curves and the table of all classes."""
    found, *others = both.values()
    columns = _each(metric, asked)
    head = [units[0], "AP", *columns, "positives", "best F1", "at score", "precision", "recall"]
    rows: list[list[Cell]] = []
    for place, curve in enumerate(found):
        row: list[Cell] = [curve.name, float(curve.average_precision), *(x[place] for x in columns.values())]
        rows.append([*row, round(float(curve.m)), *curves.best_f1(curve)])
    if others:
        head[2:2] = [f"AP of {asked.systems[1]}", "difference"]
        for row, curve in zip(rows, others[0], strict=True):
            ap = float(curve.average_precision)
            row[2:2] = [ap, float(row[1]) - ap]
    rows.sort(key=lambda row: (row[1] != row[1], -float(row[1])))
    kept, said = bounded(rows, units[1])
    table = Table(head, kept, {"at score": ".4g", "difference": "+.3f"}, sortable=True)
    text = "Each has a ranking of its own. best F1 is the highest F1 of all thresholds, with what that one gives."
    return [
        *curves.of_classes(
            metric, found, units[1], asked, f"Average precision of {units[1]}, chance levels as strokes,"
        ),
        Section(f"All {units[1]}", [f"{text} {said}".strip(), table]),
    ]


def _each(metric: ClassificationAveragePrecision, asked: Asked) -> dict[str, list[float]]:
    """Interval and chance level of each class, where they exist."""
    with metric._all_ranks():
        try:
            sample = replace(metric._sample(), settings=replace(metric._settings, average="none"))
            method, how = _method(metric), asked.resampling
            ends = sample.value_and_ends(asked.confidence_level, method, how)[1:]
            chance = [sample.chance_level(how)] if sample.has_chance_level else []
        except ValueError:
            return {}
    return {name: x.double().tolist() for name, x in zip(_ENDS, (*ends, *chance), strict=False)}
