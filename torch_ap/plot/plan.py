"""Plot of a plan: half widths over the number of units, or the power of a comparison."""

from typing import Any

import numpy as np

from torch_ap.core.base.messages import raise_invalid
from torch_ap.inference.planning import ComparisonPlan, IntervalPlan
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, FAINT, GREY, Axes


def plan(plan: IntervalPlan | ComparisonPlan, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how many positives, queries or images a plan needs.

    - Of :func:`torch_ap.inference.plan_interval`: the half width over the number of units, on logarithmic axes, with
      the range of each number as a horizontal line, and the pilot.
    - Of :func:`torch_ap.inference.plan_comparison`: the power over the number of units, the requested power, and the
      number that it needs with its range.

    Args:
        plan: the plan.
        ax: the axes to draw on; None for the axes of a new figure.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.

    Equals the tensors of the plan.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.inference import plan_interval, reported_average_precision_interval
        >>> pilot = reported_average_precision_interval(0.6, m=50)
        >>> ax = plot.plan(plan_interval(pilot, 50, [0.1, 0.05]), ax=Figure().subplots())
        >>> ax.lines[0].get_xdata().tolist()
        [89.0, 353.0]
    """
    if not isinstance(plan, IntervalPlan | ComparisonPlan):
        raise_invalid("plan", "must be an IntervalPlan or a ComparisonPlan", type(plan).__name__, TypeError)
    ax = style.axes_of(ax)
    entries = _draw_widths(ax, plan) if isinstance(plan, IntervalPlan) else _draw_power(ax, plan)
    style.legend(ax, entries)
    return ax


def _draw_widths(ax: "Axes", plan: IntervalPlan) -> list[tuple[Any, str]]:
    order = np.argsort(style.array(plan.units))
    columns = (plan.units, plan.half_width, plan.units_low, plan.units_high)
    units, width, low, high = (style.array(x)[order] for x in columns)
    (line,) = ax.plot(units, width, "o-", color=COLORS[0], markersize=4, zorder=3)
    bars = ax.hlines(width, low, high, color=COLORS[0], alpha=2 * FAINT, linewidth=4, zorder=2)
    (pilot,) = ax.plot([plan.pilot_units], [plan.pilot_half_width], "D", color=COLORS[1], zorder=4)
    style.frame(ax, xlabel="positives, queries or images", ylabel="half width", xscale="log", yscale="log")
    return [(line, "needed number"), (bars, "range for the error of the pilot"), (pilot, "pilot")]


def _draw_power(ax: "Axes", plan: ComparisonPlan) -> list[tuple[Any, str]]:
    order = np.argsort(style.array(plan.units))
    units, power = (style.array(x)[order] for x in (plan.units, plan.power))
    (line,) = ax.plot(units, power, "o-", color=COLORS[0], markersize=4, zorder=3)
    wanted = ax.axhline(plan.requested_power, color=GREY, linewidth=1)
    (needed,) = ax.plot([float(plan.needed)], [plan.requested_power], "D", color=COLORS[1], zorder=4)
    ends = float(plan.needed_low), float(plan.needed_high)
    bar = ax.hlines([plan.requested_power], *ends, color=COLORS[1], alpha=2 * FAINT, linewidth=4, zorder=2)
    style.frame(ax, xlabel="positives, queries or images", ylabel="power", xscale="log", ylim=(0, 1.02))
    return [
        (line, f"power for a difference of {plan.difference:g}"),
        (wanted, f"requested power, {plan.requested_power:g}"),
        (needed, "needed number"),
        (bar, "range for the error of the pilot"),
    ]
