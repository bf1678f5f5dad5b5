"""Headline of a metric: value, interval and chance level, with the reasons for missing numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from torch import Tensor

from torch_ap.inference.metric import Sample
from torch_ap.inference.record import Comparison, Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.reports.content import Headline

_FEW_RESAMPLES = 200


@dataclass(frozen=True)
class ReportOptions:
    """Arguments of a report.

    Attributes:
        other: metric of the second system, or None.
        systems: names of the first two systems.
        confidence_level: nominal coverage of all intervals.
        resampling: settings of intervals that resample.
        names: names of classes or queries.
        images: path of each image of a detector by its position, or None.
        image_names: name of each image by its position, or None.
        has_pictures: whether the form of the report has pictures.
        slices: ids of the images of further slices by name, or None.
        every: metric of each system by name, if there are more than two; else empty.
        labels: suspicious labels of a search run, or None.
        simultaneous: whether the band of a ranking contains the whole curve, and intervals of classes all values.
        item_names: names of single items, or None.
    """

    other: Any
    systems: tuple[str, str]
    confidence_level: float
    resampling: Resampling
    names: Any = None
    images: Any = None
    image_names: Any = None
    has_pictures: bool = True
    slices: Any = None
    every: Mapping[str, Any] = field(default_factory=dict)
    labels: Any = None
    simultaneous: bool = False
    item_names: Mapping[int, str] | None = None

    @property
    def level(self) -> str:
        """Confidence level as "95%"."""
        return f"{100 * self.confidence_level:.10g}%"

    @property
    def class_level(self) -> str:
        """Confidence level of the intervals of classes, as "95%" or "simultaneous 95%"."""
        return f"simultaneous {self.level}" if self.simultaneous else self.level

    @property
    def fewer_resamples(self) -> Resampling:
        """The resampling with at most 200 resamples, for standard errors of many numbers (5% off on average)."""
        return replace(self.resampling, n_resamples=min(self.resampling.n_resamples, _FEW_RESAMPLES))

    @property
    def one_of_several(self) -> str:
        """The name of the first system if there are several; "" for one."""
        return "" if self.other is None else self.systems[0]

    def per_system(self, value: Any, other_value: Callable[[], Any]) -> dict[str, Any]:
        """Return the value of each system by name; ``other_value`` is called if there is a second system."""
        return dict(zip(self.systems, [value, other_value()] if self.other is not None else [value], strict=False))


def interval_and_chance(
    interval: Callable[[], Interval], chance_level: Callable[[], Tensor]
) -> tuple[dict[str, float], list[str]]:
    """Return ``low``, ``high`` and ``chance``, NaN if undefined, and the reasons.

    Args:
        interval: returns the interval, or raises ValueError with the reason if none exists.
        chance_level: returns the chance level, 0-d; likewise.
    """
    numbers = dict.fromkeys(("low", "high", "chance"), math.nan)
    no_chance = ""
    try:
        ends = interval()
        numbers |= {"low": float(ends.low), "high": float(ends.high)}
        reason = ends.reason
    except ValueError as error:
        reason = _strip_period(error)
    try:
        numbers["chance"] = float(chance_level())
    except ValueError as error:
        no_chance = _strip_period(error)
    reasons = [f"no chance level: {no_chance}"] if no_chance and no_chance != reason else []
    if reason:
        subject = "no interval" if math.isnan(numbers["low"]) else "interval"
        reasons.append(f"{subject}{' and no chance level' if no_chance == reason else ''}: {reason}")
    return numbers, reasons


def numbers_of_comparison(comparison: Callable[[], Comparison], missing: str = "") -> dict[str, Any]:
    """Return a comparison as a dict; NaN with a reason if none exists.

    Args:
        comparison: returns the comparison, or raises ValueError with the reason if none exists.
        missing: reason why there is no comparison, if known.
    """
    numbers = dict.fromkeys(("difference", "low", "high", "p_value"), math.nan)
    if missing:
        return {**numbers, "reason": missing}
    try:
        return comparison().to_dict()
    except ValueError as error:
        return {**numbers, "reason": _strip_period(error)}


def headline(
    metric: Any,
    name: str,
    value_of: Callable[[Any], float],
    options: ReportOptions,
    *,
    method: str | None = None,
    interval: Interval | None = None,
    orders: int | None = None,
    **changes: Any,
) -> Headline:
    """Return the value with interval and chance level, and the value of the second system, if any.

    Args:
        metric: metric of the system.
        name: name of the measure.
        value_of: returns the value of a metric.
        options: arguments of the report.
        method: method of the interval.
        interval: the interval, if it is known.
        orders: largest number of random orders for the chance level; None for the number of resamples.
        changes: fields of the sample to replace.
    """

    @cache
    def sample() -> Sample:
        sample: Sample = replace(metric._sample(), **changes)
        return sample

    value, most = value_of(metric), options.resampling.n_resamples
    resampling = replace(options.resampling, n_resamples=min(orders or most, most))
    with metric._all_ranks():
        numbers, reasons = interval_and_chance(
            lambda: interval or sample().interval(options.confidence_level, method, options.resampling),
            lambda: sample().chance_level(resampling),
        )
    remarks = [f"{x[0].upper()}{x[1:]}." for x in reasons]
    head = Headline(name, value, level=options.level, remarks=remarks, **numbers)
    return head if options.other is None else replace(head, other=value_of(options.other))


def _strip_period(error: ValueError) -> str:
    return str(error).rstrip(".")
