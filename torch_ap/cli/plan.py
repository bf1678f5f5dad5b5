"""``torch-ap plan``: how many positives, queries or images an interval or a comparison needs."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from torch_ap.cli.notes import save_picture
from torch_ap.cli.tables import Part, Report, Table, number, percent
from torch_ap.inference import (
    Comparison,
    ComparisonPlan,
    Interval,
    IntervalPlan,
    plan_comparison,
    plan_interval,
    reported_average_precision_interval,
)
from torch_ap.inference.record import normal_quantile

_UNITS = "units: positives, queries, images or clusters, as in --units"


def run(args: argparse.Namespace) -> int:
    """Plan and print."""
    given = [name for name in ("ap", "interval", "difference") if getattr(args, name) is not None]
    if len(given) != 1:
        raise ValueError(f"one of --ap, --interval and --difference must be given, got {len(given) or 'none'}")
    wanted = "gap" if args.difference is not None else "half_width"
    if getattr(args, wanted) is None:
        raise ValueError(f"--{given[0]} needs --{wanted.replace('_', '-')}")
    report = (_intervals if args.difference is None else _comparison)(args)
    if args.picture is not None:
        from torch_ap import plot  # reports a missing package

        save_picture(plot.plan(report.plan), args.picture)
    report.write(args.form)
    return 0


def _intervals(args: argparse.Namespace) -> "PlanReport":
    """Plan half widths from a printed AP, or from a printed interval."""
    level = args.confidence_level
    if args.ap is not None:
        if args.ap in (0, 1):
            raise ValueError(f"--ap must be above 0 and below 1, because {args.ap:g} does not show a spread")
        pilot = reported_average_precision_interval(args.ap, m=args.units, confidence_level=level)
    else:
        low, high = _ascending(args, "interval")
        numbers = ((low + high) / 2, low, high, float("nan"))
        pilot = Interval.from_numbers(*numbers, confidence_level=level, method="printed")
    plan = plan_interval(pilot, args.units, args.half_width)
    columns = ("half_width", "units", "units_low", "units_high")
    rows = list(zip(*(getattr(plan, name).tolist() for name in columns), strict=True))
    width = f"for the half width of a {percent(level)} interval"
    return PlanReport(columns, rows, plan, f"{_UNITS}, {width}; low and high allow for the error of the pilot")


def _comparison(args: argparse.Namespace) -> "PlanReport":
    """Plan the power of a comparison from the printed interval of a difference."""
    low, high = _ascending(args, "difference")
    error = (high - low) / 2 / normal_quantile(args.confidence_level)
    middle, nan = (low + high) / 2, float("nan")
    numbers = (nan, nan, middle, low, high, error, nan)
    pilot = Comparison.from_numbers(*numbers, confidence_level=args.confidence_level, method="printed")
    plan = plan_comparison(pilot, args.units, args.gap, power=args.power, planned_units=args.planned_units)
    columns = ("units", "power")
    rows = list(zip(plan.units.tolist(), plan.power.tolist(), strict=True))
    text = (
        f"{int(plan.needed):,} units ({int(plan.needed_low):,} to {int(plan.needed_high):,}) find a difference of "
        f"{plan.difference:g} with power {plan.requested_power:g}; {plan.pilot_units:,} units find "
        f"{float(plan.smallest_difference):.4f}"
    )
    test = f"probability of p < {1 - args.confidence_level:.2g} in the paired test of a difference of"
    return PlanReport(columns, rows, plan, f"{_UNITS}; power: {test} {plan.difference:g}", text)


def _ascending(args: argparse.Namespace, name: str) -> tuple[float, float]:
    """Return the ends of a printed interval."""
    low, high = getattr(args, name)
    least = 0 if name == "interval" else -1
    if not least <= low < high <= 1:
        raise ValueError(f"--{name} must be LOW below HIGH in [{least}, 1], got {low:g} {high:g}")
    return low, high


class PlanReport(Report):
    """A plan as a table.

    Args:
        columns: names of the columns.
        rows: numbers of the rows.
        plan: all results.
        title: meaning of the columns.
        text: a sentence below the table; "" for none.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[float]],
        plan: IntervalPlan | ComparisonPlan,
        title: str,
        text: str = "",
    ) -> None:
        self._columns, self._rows, self.plan, self._title, self._text = columns, rows, plan, title, text

    def parts(self) -> Iterator[Part]:
        """Yield the table and the sentence."""
        formats = [",.0f" if name.startswith("units") else ".4f" for name in self._columns]
        cells = [tuple(map(number, row, formats)) for row in self._rows]
        yield Table([tuple(name.replace("_", " ") for name in self._columns), *cells], title=self._title)
        if self._text:
            yield self._text

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield the rows of the table."""
        yield self._columns
        yield from self._rows

    def document(self) -> dict[str, Any]:
        """Return all results."""
        return self.plan.to_dict()
