"""Planning: how often the range contains the number of hits that is needed, and the power from pilots."""

import itertools
import statistics
from dataclasses import replace
from typing import Any

import torch

from benchmarks.coverage import many_systems, report
from benchmarks.coverage.queries import LAWS
from benchmarks.coverage.rankings import drawn, limit
from benchmarks.coverage.systems import pair
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.inference import compare_rankings, mean_interval, plan_comparison, plan_interval
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.record import Interval
from torch_ap.inference.resampling import InferenceSettings

_NEEDED, _PILOTS = 300, (30, 100)
_KINDS = ((0.1, 1.5), (0.1, 3.0), (0.05, 1.0), (0.02, 2.0))  # share of hits, d'
_LAWS = ("moderate", "skewed", "known-item", "easy")  # of the values of queries
_WIDTHS = 500  # intervals whose mean half width is planned for
_POWERS = ((1000, 100, 1.0, 0.8), (1000, 100, 2.0, 0.0), (3000, 245, 2.0, 0.8))  # items, hits, d', correlation


def intervals(n: int, m: int, distance: float, repetitions: int, generator: torch.Generator) -> Interval:
    curve = drawn(n, m, distance, True, repetitions, generator)
    return curve_interval(curve, Convention(ties="grouped"), InferenceSettings())


def ranges(hits: int, share: float, distance: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the pilots whose range contains the number of hits that gives the half width."""
    needed = intervals(round(_NEEDED / share), _NEEDED, distance, repetitions, generator)
    width, found = float((needed.high - needed.low).nanmean()) / 2, Tally()
    pilots = intervals(round(hits / share), hits, distance, repetitions, generator)
    names = ("estimate", "low", "high", "standard_error")
    for place in (pilots.low > 0).nonzero().flatten().tolist():
        pilot = replace(pilots, **{name: getattr(pilots, name)[place] for name in names})
        if pilot.standard_error > 0:
            plan = plan_interval(pilot, max(hits, 30), width)
            tally(found, ("range",), bool(plan.units_low <= _NEEDED <= plan.units_high))
            tally(found, ("ratio",), plan.units / _NEEDED)
    return found


def ranges_of_queries(queries: int, law: str, *, repetitions: int, generator: torch.Generator) -> Tally:
    """As :func:`ranges`, for the mean of values of queries."""

    def mean(size: int) -> Interval:
        return mean_interval(LAWS[law](size, generator))

    found = Tally()
    needed = [mean(_NEEDED) for _ in range(min(repetitions, _WIDTHS))]
    width = statistics.fmean(float(x.high - x.low) / 2 for x in needed)
    for _ in range(repetitions):
        plan = plan_interval(mean(queries), queries, width)
        tally(found, ("range",), bool(plan.units_low <= _NEEDED <= plan.units_high))
        tally(found, ("ratio",), plan.units / _NEEDED)
    return found


def powers(
    n: int, m: int, distance: float, correlation: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Compare the true power with the power from pilots of a third of the items, given the true difference."""
    found = Tally()
    a, b, relevant = pair("iid", (n, m), distance, correlation, True, repetitions, generator)
    tally(found, ("true",), many_systems.p_values(a, b, relevant, "iid")["logit"] <= 0.05)
    difference = limit(m / n, distance + 2.5 / m**0.5) - limit(m / n, distance)
    for one, two, hits in zip(a[:, : n // 3], b[:, : n // 3], relevant[:, : n // 3], strict=True):
        units = int(hits.sum())
        if units < 30:
            continue
        plan = plan_comparison(compare_rankings(one, two, hits.long()), units, difference, planned_units=m)
        tally(found, ("planned",), plan.power)
    return found


def sections(options: Options) -> list[Section]:
    cells = [(hits, *kind) for hits in _PILOTS for kind in _KINDS]
    tasks = [
        *tasks_of(ranges, cells, options.repetitions, 1000),
        *tasks_of(powers, _POWERS, options.repetitions, 1000),
        *tasks_of(ranges_of_queries, itertools.product(_PILOTS, _LAWS), options.repetitions, 1000),
    ]
    return [Section(tasks, _lines)]


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [
        "\n## Planning: range of `plan_interval` and power of `plan_comparison`\n",
        f"{_NEEDED} hits give the half width. The range should contain this number for 80% of the pilots.\n",
    ]
    out += report.head("hits of the pilot", "share of hits", "d'", "contains", "s.e.", "mean of planned / needed")
    for (hits, share, distance), shares in ((x, y) for x, y in found.items() if len(x) == 3):
        numbers = (f"{shares['range',].value:.3f}", f"{shares['range',].error:.4f}", f"{shares['ratio',].value:.2f}")
        out.append(report.row(str(hits), f"{share:g}", f"{distance:g}", *numbers))
    out += [f"\nThe mean over queries, of which {_NEEDED} give the half width, with the laws of the next part:\n"]
    out += report.head("queries of the pilot", "law", "contains", "s.e.", "mean of planned / needed")
    for (queries, law), shares in ((x, y) for x, y in found.items() if len(x) == 2):
        numbers = (f"{shares['range',].value:.3f}", f"{shares['range',].error:.4f}", f"{shares['ratio',].value:.2f}")
        out.append(report.row(str(queries), law, *numbers))
    out += ["\nPower of a comparison, and its mean from pilots of a third of the items, with the difference given:\n"]
    out += report.head("items, hits", "d'", "correlation", "power", "s.e.", "from pilots")
    for (n, m, distance, correlation), shares in ((x, y) for x, y in found.items() if len(x) == 4):
        numbers = (f"{shares['true',].value:.3f}", f"{shares['true',].error:.4f}", f"{shares['planned',].value:.3f}")
        out.append(report.row(f"{n:,}, {m}", f"{distance:g}", f"{correlation:g}", *numbers))
    return out
