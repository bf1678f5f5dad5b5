"""What every metric says of its own value, for the top of a report: value, interval, chance level, comparison."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch_ap.inference.difference import Comparison
from torch_ap.inference.resampling import Resampling
from torch_ap.metrics.uncertainty import Sample, UncertainMetric
from torch_ap.reports.content import NAN, Cell, Headline, Section, Table
from torch_ap.rules.messages import refuse

_SMALL = 0.001  # a p-value below which no digit means anything


@dataclass(frozen=True)
class Asked:
    """What a report is to hold.

    Attributes:
        other: the second system, or None.
        systems: names of both.
        confidence_level: of all intervals.
        resampling: of those that resample.
        names: of classes or queries.
    """

    other: Any
    systems: tuple[str, str]
    confidence_level: float
    resampling: Resampling
    names: Any = None


def headline(
    metric: UncertainMetric, name: str, value: float, asked: Asked, *, method: str | None = None, **changed: Any
) -> Headline:
    """The number with its interval and chance level; where there is none, a remark says why.

    Args:
        metric: the system.
        name: of the measure.
        value: of the metric.
        asked: with which level.
        method: of the interval.
        changed: fields of the sample that are others.
    """
    found = {"low": NAN, "high": NAN, "chance": NAN}
    remarks = []
    with metric._all_ranks():
        try:
            sample: Sample = replace(metric._sample(), **changed)
            interval = sample.interval(asked.confidence_level, method, asked.resampling)
            found |= {"low": float(interval.low), "high": float(interval.high)}
            if interval.reason:
                remarks.append(f"Interval: {interval.reason}.")
        except ValueError as error:
            remarks.append(f"No interval: {_plain(error)}.")
        try:
            chance = replace(metric._sample(), **changed).chance_level(asked.resampling)
            found["chance"] = float(chance)
        except ValueError as error:
            if not remarks or _plain(error) not in remarks[0]:
                remarks.append(f"No chance level: {_plain(error)}.")
    return Headline(name, value, confidence_level=asked.confidence_level, remarks=remarks, **found)


def compared(metric: UncertainMetric, asked: Asked, values: tuple[float, float], words: Mapping[str, str]) -> Section:
    """This system minus the other.

    Args:
        metric: the system; the other is in ``asked``.
        asked: with which level.
        values: of both.
        words: what the sample is of: by "unit".

    Raises:
        ValueError: for another kind of metric, other settings or other data.
    """
    metric._check_comparable(asked.other)
    how = vars(asked.resampling)
    reason = ""
    found: dict[str, Any] = {"difference": values[0] - values[1], "low": NAN, "high": NAN, "p_value": NAN}
    try:
        comparison: Comparison = metric.compare(asked.other, confidence_level=asked.confidence_level, **how)
        found = comparison.to_dict()
        reason = found["reason"]
    except ValueError as error:
        if str(error).startswith("`other`"):
            raise
        reason = _plain(error)
    one, other = asked.systems
    level = f"{100 * asked.confidence_level:.10g}%"
    head = [one, other, "difference", f"{level} low", f"{level} high", "p-value"]
    p = found["p_value"]
    numbers: list[Cell] = [*values, *(found[x] for x in ("difference", "low", "high"))]
    numbers.append(NAN if math.isnan(p) else _said(p).removeprefix("= "))
    forms = dict.fromkeys(head[2:5], "+.3f")
    said = _verdict(found, asked, words["unit"]) + (f" {reason[0].upper()}{reason[1:]}." if reason else "")
    return Section(f"Compared with {other}", [said.strip(), Table(head, [numbers], forms)])


def _verdict(found: Mapping[str, Any], asked: Asked, unit: str) -> str:
    """The comparison in a sentence."""
    one, other = asked.systems
    p, difference = found["p_value"], found["difference"]
    if math.isnan(p):
        return f"The difference is that of {one} minus {other}; there is no test of it here."
    if difference == 0:
        return f"Both have the same value on the same {unit}."
    ahead, often = one if difference > 0 else other, "rarely" if p < 1 - asked.confidence_level else "often"
    return (
        f"Ahead: {ahead}, by {abs(difference):.3f} on the same {unit}. Two equally good systems would {often} differ "
        f"by as much (p {_said(p)}, method {found['method']!r})."
    )


def _said(p: float) -> str:
    return "< 0.001" if p < _SMALL else f"= {p:.2g}"


def check_other(metric: object, other: object) -> None:
    """Refuse what has another class than the metric."""
    if other is not None and not isinstance(other, type(metric)):
        refuse("other", f"must be a {type(metric).__name__}, as `metric` is", type(other).__name__, TypeError)


def _plain(error: ValueError) -> str:
    return str(error).rstrip(".")
