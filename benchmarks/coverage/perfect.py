"""Rankings whose AP is often 1: no standard error exists there, and the lower end is a one-sided heuristic."""

import itertools
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import curve_of, labels, limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.resampling import InferenceSettings

_LEVEL = 0.95
_CASES = list(itertools.product(((100, 5), (100, 10), (200, 20)), (3.0, 4.0, 5.0)))


def perfect(size: tuple[int, int], distance: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the covering default intervals of all rankings, and of rankings with an AP of 1."""
    (n, m), found = size, Tally()
    target = labels(n, m, True, repetitions, generator)
    curve = curve_of(torch.randn(repetitions, n, generator=generator) + distance * target, target)
    ends = curve_interval(curve, Convention(ties="grouped"), InferenceSettings(_LEVEL))
    truth, two_sided = limit(m / n, distance), ((1 - _LEVEL) / 2) ** (1 / curve.m.double())
    one = (ends.estimate == 1) & ~ends.low.isnan()
    inside, width = (ends.low <= truth) & (truth <= ends.high), ends.high - ends.low
    tally(found, ("AP of 1",), one)
    tally(found, ("all",), inside, float(width.nansum()))
    tally(found, ("of 1",), inside[one], float(width[one].sum()))
    tally(found, ("two-sided",), (two_sided <= truth)[one], float((1 - two_sided)[one].sum()))
    return found


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(perfect, _CASES, options.repetitions, 2500), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## AP of 1, m random: {options.repetitions} repetitions\n",
        'Method "influence", design "iid", at 95%. If AP = 1, the lower end is .05^(1 / m); the last column shows '
        "the two-sided .025^(1 / m) for comparison. In brackets: the mean width. Rankings with fewer than two hits "
        "have no interval and count as not covered.\n",
    ]
    columns = ("covers", "s.e.", "covers where AP = 1", "two-sided, where AP = 1")
    out += report.head("n, m on average", "d'", "limit", "AP = 1", *columns)
    for ((n, m), distance), tallies in found.items():
        perfect_ones, everything = tallies["AP of 1",], tallies["all",]
        known = [tallies[key,] for key in ("of 1", "two-sided")]
        cells = [f"{one.value:.3f} ({one.width / one.trials:.3f})" if one.trials else "" for one in known]
        out.append(
            report.row(
                f"{n}, {m}",
                f"{distance:g}",
                f"{limit(m / n, distance):.4f}",
                f"{perfect_ones.value:.3f}",
                f"{everything.value:.3f} ({everything.width / everything.trials:.3f})",
                f"{everything.error:.4f}",
                *cells,
            )
        )
    return out
