"""Comparison of two systems: the differences of all numbers, and the values of both for each class, query or image."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.ranking import segments
from torch_ap.inference.metric import check_comparable
from torch_ap.inference.queries import compare_per_query, pair_values
from torch_ap.inference.ratios import compare_ratios
from torch_ap.inference.record import Comparison, GroupComparison, holm_of_defined
from torch_ap.inference.selection import best_of_metrics
from torch_ap.plot.bars import Bar
from torch_ap.reports.content import DASH, FORMS, NAN, Cell, Headline, Part, Section, Table, sorted_table
from torch_ap.reports.drawings import bars, scatter
from torch_ap.reports.estimates import ReportOptions, numbers_of_comparison

_MIN_P = 0.001  # smaller p-values have no meaningful digit
_OF_DIFFERENCES = ("difference low", "difference high", "adjusted p")  # columns of a table of classes

Numbers = Mapping[str, Any]


def comparison_sections(
    metric: Any,
    head: Headline,
    options: ReportOptions,
    unit: str,
    further: Callable[[], tuple[Mapping[str, Numbers], Sequence[Part]]] = lambda: ({}, []),
    compare: Callable[[], Comparison] | None = None,
) -> list[Section]:
    """Return the section on the differences of two systems; nothing for one system.

    Args:
        metric: metric of the first system.
        head: its value and the value of the second.
        options: arguments of the report.
        unit: unit of the sample, in the plural.
        further: returns the numbers of further comparisons by name, and further parts.
        compare: returns the comparison; None for the method ``compare``.

    Raises:
        ValueError: for a second metric with other settings or data.
    """
    if options.other is None:
        return []
    check_comparable(metric, options.other)
    how: dict[str, Any] = {"confidence_level": options.confidence_level, **vars(options.resampling)}
    compare = compare or (lambda: metric.compare(options.other, **how))
    numbers = numbers_of(numbers_of_comparison(compare), (head.value, head.other))
    if numbers["reason"].startswith("`other`"):  # other data, which the user can mend
        raise ValueError(numbers["reason"])
    rows, parts = further()
    reason = f" {numbers['reason'][0].upper()}{numbers['reason'][1:]}." if numbers["reason"] else ""
    text = f"{_verdict(numbers, options, unit)}{reason}"
    differences = difference_parts({head.name: numbers, **rows}, options)
    section = Section(f"Compared with {options.systems[1]}", [text, *differences, *parts])
    return [*([_every_system(metric, head, options)] if options.every else []), section]


def _every_system(metric: Any, head: Headline, options: ReportOptions) -> Section:
    """Return the values of more than two systems, and the comparisons of each with the first."""
    how: dict[str, Any] = {"confidence_level": options.confidence_level, **vars(options.resampling)}
    title, first, level = "All systems", options.systems[0], options.level
    for x in options.every.values():
        check_comparable(metric, x)
    try:
        found = best_of_metrics(options.every, reference=0, **how)
        compared = [metric.compare(x, **how) for name, x in options.every.items() if name != first]
    except ValueError as error:
        if str(error).startswith(("`metrics`", "`other`")):  # other data, which the user can mend
            raise
        return Section(title, [f"No comparison of all systems: {str(error).rstrip('.')}."])
    values, low, high, p = (
        x.tolist() for x in (found.values, found.simultaneous_low, found.simultaneous_high, found.adjusted_p_value)
    )
    differences = [[NAN] * 3, *([float(x.difference), float(x.low), float(x.high)] for x in compared)]
    head_of_table = ["system", head.name, "simultaneous low", "simultaneous high"]
    head_of_table += ["difference", "difference low", "difference high", "adjusted p"]
    columns = zip(found.names, values, low, high, differences, [NAN, *p[1:]], strict=True)
    rows: list[list[Cell]] = [[name, *numbers, *gaps, last] for name, *numbers, gaps, last in columns]
    table, _ = sorted_table(head_of_table, rows, "systems", FORMS, order=(head.name, "descending"))
    best, corrected = found.names[found.best], f"{float(found.corrected):.3f}"
    ends = "" if math.isnan(found.low) else f", {level} interval {float(found.low):.3f} to {float(found.high):.3f}"
    text = (
        f"Best: {best}, {float(found.value):.3f}; without the optimism of the selection {corrected}{ends}. The "
        f"simultaneous intervals contain the true values of all systems at once ({level}). A difference is {first} "
        f"minus the system, with an interval of its own; its p-value is adjusted for all comparisons with {first} "
        f"({found.correction})."
    )
    reason = [f"{found.reason[0].upper()}{found.reason[1:]}."] if found.reason else []
    order = sorted(range(len(values)), key=lambda place: -values[place])
    drawing = bars(
        f"{head.name} of all systems with simultaneous intervals.",
        [found.names[x] for x in order],
        {"": [Bar(values[x], low[x], high[x]) for x in order]},
    )
    return Section(title, [text, *reason, drawing, table])


def numbers_of(found: Mapping[str, Any], values: tuple[float, float] = (NAN, NAN)) -> dict[str, Any]:
    """Return the numbers of a comparison with the values of both systems, also if there is no comparison.

    Args:
        found: the comparison as a dict, which may lack numbers.
        values: values of both systems.
    """
    names = ("value_a", "value_b", "difference", "low", "high", "p_value")
    numbers = {**dict(zip(names, (*values, *[NAN] * 4), strict=True)), "reason": "", **found}
    if math.isnan(numbers["difference"]):
        numbers["difference"] = numbers["value_a"] - numbers["value_b"]
    return numbers


def f1_difference(
    sides: Sequence[tuple[Tensor, Tensor]], relevant: Tensor, groups: Tensor | None, options: ReportOptions
) -> dict[str, Any]:
    """Return the comparison of the F1 of two systems at one threshold each.

    Args:
        sides: numbers of true positives and of positive decisions of each item or image, (U,), of both systems.
        relevant: (U,) numbers of positives.
        groups: (U,) group of each item or image, or None for independent ones.
        options: arguments of the report.
    """

    def total(values: Tensor) -> Tensor:
        values = segments.as_float64(values)
        if groups is None:
            return values
        group, place = torch.unique(groups, return_inverse=True)
        return values.new_zeros(len(group)).index_add_(0, place, values)

    a, b = ((total(2 * tp), total(n + relevant)) for tp, n in sides)
    return numbers_of(compare_ratios(a, b, confidence_level=options.confidence_level).to_dict())


def thresholds_text(thresholds: Sequence[Tensor], options: ReportOptions) -> str:
    """Return the thresholds of the highest F1 of two systems as a sentence."""
    listed = ", ".join(f"{float(x):.4g} for {name}" for name, x in zip(options.systems, thresholds, strict=False))
    return (
        f"The highest F1 is at score ≥ {listed}. The page has no interval for the difference of these thresholds, "
        "because none is known to cover the place of a maximum. The interval of F1 takes them as fixed."
    )


def difference_parts(rows: Mapping[str, Numbers], options: ReportOptions) -> list[Part]:
    """Return a table of comparisons by name, of which the first is the one that the page is about.

    Several further p-values are followed by adjusted ones, with a sentence.
    """
    level = options.level
    head = ["number", *options.systems[:2], "difference", f"{level} low", f"{level} high", "p-value"]
    cells: list[list[Cell]] = [
        [name, *(x[key] for key in ("value_a", "value_b", "difference", "low", "high")), _p_cell(x["p_value"])]
        for name, x in rows.items()
    ]
    first, *further = rows
    adjusted = holm_of_defined(torch.tensor([rows[x]["p_value"] for x in further], dtype=torch.float64)).tolist()
    count = sum(not math.isnan(p) for p in adjusted)
    if count > 1:
        head.append("adjusted p")
        cells = [[*row, _p_cell(p)] for row, p in zip(cells, [NAN, *adjusted], strict=True)]
    text = f"The adjusted p-values allow for all {count} comparisons below {first}, which the page is about (Holm)."
    return [Table(head, cells, dict.fromkeys(head[3:6], "+.3f")), *([text] if count > 1 else [])]


class ClassDifferences:
    """AP of each class of two systems, with differences.

    Args:
        names: name of each class.
        values: (K,) AP of both systems.
        compare: returns the comparison of all classes that have one, or raises ValueError with the reason.
        compared_names: name of each class in the comparison.
        options: arguments of the report.

    Attributes:
        columns: columns for the table of classes.
        reason: reason of missing or doubtful differences.
    """

    def __init__(
        self,
        names: Sequence[str],
        values: tuple[Tensor, Tensor],
        compare: Callable[[], GroupComparison],
        compared_names: Sequence[str],
        options: ReportOptions,
    ) -> None:
        self.names, self.values, self.reason = names, values, ""
        a, b = (x.double().tolist() for x in values)
        self.columns = {f"AP of {options.systems[1]}": b, "difference": [x - y for x, y in zip(a, b, strict=True)]}
        self.columns |= {name: [NAN] * len(names) for name in _OF_DIFFERENCES}
        try:
            found = compare()
        except ValueError as error:
            self.reason = str(error).rstrip(".")
            return
        places = [list(compared_names).index(name) for name in found.names]
        for column, numbers in zip(_OF_DIFFERENCES, (found.low, found.high, found.adjusted_p_value), strict=True):
            for place, number in zip(places, numbers.tolist(), strict=True):
                self.columns[column][place] = number
        self.reason = found.reason

    def paired(self, units: str, options: ReportOptions) -> list[Part]:
        """Return wins, losses and a scatter of the classes."""
        adjusted = torch.tensor(self.columns["adjusted p"], dtype=torch.float64)
        keys = range(len(self.names))
        return paired_parts(
            units, "AP", self.names, self.values, options, adjusted=adjusted, keys=keys, opens="thresholds"
        )


def reasons_of(differences: ClassDifferences | None) -> list[str]:
    """Return the reason of missing or doubtful differences as a paragraph."""
    return [f"Differences: {differences.reason}."] if differences is not None and differences.reason else []


def paired_parts(
    units: str,
    measure: str,
    names: Sequence[str],
    values: tuple[Tensor, Tensor],
    options: ReportOptions,
    *,
    adjusted: Tensor | None = None,
    keys: Sequence[int | str] = (),
    opens: str = "",
    in_groups: bool = False,
) -> list[Part]:
    """Return how often each system is ahead, and the values of both as a scatter.

    Args:
        units: name of the classes, queries or images, in the plural.
        measure: name of the value.
        names: name of each unit.
        values: values of both systems; units with NaN are left out.
        options: arguments of the report.
        adjusted: p-value of each unit, adjusted for all of them; None for units that are a sample, which have a sign
            test.
        keys: argument of the widget that shows a unit.
        opens: name of this widget.
        in_groups: whether units that are a sample are in groups, which have no sign test.
    """
    defined = ~(values[0].isnan() | values[1].isnan())
    if not bool(defined.any()):
        return []
    a, b = (x[defined] for x in values)
    gap = pair_values(a, b).gap
    counts = [int(x.sum()) for x in (gap > 0, gap < 0, gap == 0)]
    first, second = options.systems[:2]
    head, columns = ["result", units], [[f"ahead: {first}", f"ahead: {second}", "equal"], counts]
    if in_groups:
        text = f"There is no sign test: it takes {units} as independent, but they are in groups."
    elif adjusted is None:
        p = compare_per_query(a, b, method="sign").p_value
        text = f"The sign test of all {units} has p {_p_text(float(p))}; it ignores how large a difference is."
    else:
        alpha = 1 - options.confidence_level
        significant = adjusted.cpu()[defined.cpu()] < alpha
        columns.append([int((significant & x).sum()) for x in (gap > 0, gap < 0)] + [0])
        head.append("significant")
        text = f"Significant: the p-value, adjusted for all {units} (Holm), is below {alpha:.2g}."
    rows: list[list[Cell]] = list(map(list, zip(*columns, strict=True)))
    caption = f"{measure} of {units}: points above the diagonal favor {first}."
    drawing = scatter(caption, (first, second), names, (values[0].tolist(), values[1].tolist()), keys=keys, opens=opens)
    return [text, Table(head, rows), drawing]


def _verdict(numbers: Numbers, options: ReportOptions, unit: str) -> str:
    """Return the comparison as a sentence."""
    system, other = options.systems[:2]
    p, difference = numbers["p_value"], numbers["difference"]
    if math.isnan(p):
        return f"The difference is {system} minus {other}; there is no test for it."
    if difference == 0:
        return f"Both have the same value on the same {unit}."
    ahead, often = system if difference > 0 else other, "rarely" if p < 1 - options.confidence_level else "often"
    return (
        f"Ahead: {ahead}, by {abs(difference):.3f} on the same {unit}. Two equally good systems would {often} differ "
        f"by as much (p {_p_text(p)}, method {numbers['method']!r})."
    )


def _p_cell(p: float) -> str:
    return DASH if math.isnan(p) else _p_text(p).removeprefix("= ")


def _p_text(p: float) -> str:
    return "< 0.001" if p < _MIN_P else f"= {p:.2g}"
