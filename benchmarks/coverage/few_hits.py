"""AP of rankings with few hits: how often an interval exists, how often it covers, and how wide it is."""

import itertools
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import drawn, labels, limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.inference import average_precision_interval
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.resampling import InferenceSettings

_HITS, _ITEMS, _DISTANCES, _DRAWS = (2, 3, 5, 10), (100, 1000), (1.0, 2.0, 3.0), 200


def intervals(n: int, m: int, distance: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the samples without an interval, and the samples whose interval covers."""
    found, truth = Tally(), limit(m / n, distance)
    ends = curve_interval(drawn(n, m, distance, True, repetitions, generator), Convention(), InferenceSettings(0.95))
    exists = ~ends.low.isnan()
    tally(found, ("missing",), ~exists)
    low, high = ends.low[exists], ends.high[exists]
    tally(found, ("covers",), (low <= truth) & (truth <= high), float((high - low).sum()))
    return found


def drawn_intervals(n: int, m: int, distance: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the samples without hits, and the samples whose interval by Dirichlet weights covers."""
    found, truth = Tally(), limit(m / n, distance)
    for relevant in labels(n, m, True, repetitions, generator):
        tally(found, ("missing",), not relevant.any())
        if relevant.any():
            scores = torch.randn(n, generator=generator) + distance * relevant
            ends = average_precision_interval(scores, relevant.long(), method="dirichlet", n_resamples=_DRAWS)
            tally(found, ("covers",), bool(ends.low <= truth <= ends.high), float(ends.high - ends.low))
    return found


def sections(options: Options) -> list[Section]:
    cases, many, few = list(itertools.product(_ITEMS, _HITS, _DISTANCES)), options.repetitions, options.resampled
    return [
        Section(tasks_of(intervals, cases, many, 500), lambda found: _lines(found, many, "influence")),
        Section(tasks_of(drawn_intervals, cases, few, 50), lambda found: _lines(found, few, "dirichlet")),
    ]


def _lines(found: dict[tuple[Any, ...], Tally], repetitions: int, method: str) -> list[str]:
    least = {"influence": "fewer than two hits", "dirichlet": "no hits"}[method]
    out = [
        f'\n## AP of few hits by method "{method}", m random: {repetitions} repetitions of each configuration\n',
        f"100 and 1,000 items, d' of 1, 2 and 3. Samples with {least} have no interval; coverage and width are of the "
        "other samples. A row has the least, median and greatest share of six configurations.\n",
    ]
    out += report.head("mean m", "covers 95%", "s.e. at most", "mean width", "no interval")
    for m in _HITS:
        tallies = [x for (_, hits, _), x in found.items() if hits == m]
        shares, missing = ([x[key,] for x in tallies] for key in ("covers", "missing"))
        cells = report.spread(shares), report.largest_error(shares), report.width(shares), report.spread(missing)
        out.append(report.row(str(m), *cells))
    return out
