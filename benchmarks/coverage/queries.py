"""Per-query values: intervals of their mean, and the size of the paired tests.

A query's AP is the logistic function of a normal variate of mean -1 and standard deviation 1.5; of two systems that
are equally good the variates correlate by .8.
"""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import expected, report
from benchmarks.coverage.rankings import LEVELS
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import Resampling, compare_queries, compare_systems, mean_interval
from torch_ap.inference.queries import TESTS
from torch_ap.inference.query_mean import METHODS

_QUERIES = ((10,), (25,), (50,), (200,))
_TESTED = (("alike", 15), ("alike", 50), ("skewed", 150))
_SEVERAL = ((5, 25), (5, 50))
_REPLICATES, _FLIPS, _NOMINAL = 1000, 499, 0.05
_MEAN, _SPREAD, _SHARED = -1.0, 1.5, 0.8


def mean_of_law() -> float:
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return float(torch.trapezoid(torch.sigmoid(_MEAN + _SPREAD * x) * density, x))


def drawn(systems: int, queries: int, generator: torch.Generator) -> Tensor:
    """(S, Q) float64 values of equally good systems."""
    shared = torch.randn(queries, generator=generator, dtype=torch.float64)
    own = torch.randn(systems, queries, generator=generator, dtype=torch.float64)
    return torch.sigmoid(_MEAN + _SPREAD * (math.sqrt(_SHARED) * shared + math.sqrt(1 - _SHARED) * own))


def skewed(queries: int, generator: torch.Generator) -> Tensor:
    """(2, Q) values of equal means: four queries of five gain .05 on average, the fifth loses .2."""
    loses = torch.rand(queries, generator=generator, dtype=torch.float64) < 0.2
    noise = 0.02 * torch.randn(queries, generator=generator, dtype=torch.float64)
    return torch.stack([torch.where(loses, -0.2, 0.05) + noise, torch.zeros_like(noise)])


def intervals(queries: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    truth, found = mean_of_law(), Tally()
    for _ in range(repetitions):
        values = drawn(1, queries, generator)[0]
        for method, level in itertools.product(METHODS, LEVELS):
            how = Resampling(_REPLICATES, generator)
            ends = mean_interval(values, level=level, method=method, resampling=how)  # type: ignore[arg-type]
            inside = bool(ends.low <= truth) and bool(truth <= ends.high)
            tally(found, (method, level), inside, float(ends.high - ends.low))
    return found


def tests(law: str, queries: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    found = Tally()
    for _ in range(repetitions):
        values = skewed(queries, generator) if law == "skewed" else drawn(2, queries, generator)
        p = compare_queries(*values, tests=TESTS, resampling=Resampling(_FLIPS, generator)).p_values
        for test in TESTS:
            tally(found, (test,), p[test] <= _NOMINAL)
    return found


def several(systems: int, queries: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """How often any pair of equally good systems is told apart."""
    found = Tally()
    for _ in range(repetitions):
        values = drawn(systems, queries, generator)
        how = Resampling(_FLIPS, generator)
        tukey, holm = (compare_systems(values, method=method, resampling=how) for method in ("tukey", "holm"))
        tally(found, ("tukey",), bool((tukey.adjusted <= _NOMINAL).any()))
        tally(found, ("holm",), bool((holm.adjusted <= _NOMINAL).any()))
        tally(found, ("t, not adjusted",), bool((holm.p_value <= _NOMINAL).any()))
    return found


def sections(options: Options) -> list[Section]:
    few = options.resampled
    return [
        Section(tasks_of(intervals, _QUERIES, few, 100), lambda found: _intervals(found, few)),
        Section(tasks_of(tests, _TESTED, few, 100), lambda found: _tests(found, few)),
        Section(tasks_of(several, _SEVERAL, few, 100), lambda found: _several(found, few)),
    ]


def _intervals(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Mean over queries (MAP), `mean_interval`: {count} repetitions\n",
        f"Logistic-normal values of mean {mean_of_law():.3f}; {_REPLICATES} replicates.\n",
    ]
    out += report.head("queries", "method", "level", "covers", "s.e.", "mean width")
    for (queries,), shares in found.items():
        for (method, level), share in shares.items():
            out.append(
                report.row(
                    str(queries),
                    method,
                    f"{level:.0%}",
                    f"{share.value:.3f}",
                    f"{share.error:.4f}",
                    report.width([share]),
                )
            )
    return out


def _tests(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Two systems of equal means over queries, `compare_queries`: rejections at nominal 5% of {count}\n",
        '"alike": the same law for both, correlated by .8; "skewed": four queries of five gain .05, the fifth loses '
        f".2, with a noise of .02. {_FLIPS} random flips where there are more than 20 queries.\n",
    ]
    out += report.head("values", "queries", "test", "rejects", "s.e.", "independent simulation, of another law")
    for (law, queries), shares in found.items():
        for (test,), share in shares.items():
            figure = expected.SKEWED.get(test) if law == "skewed" else None
            told = f"{figure:.2f}" if figure else ""
            out.append(report.row(law, str(queries), test, f"{share.value:.3f}", f"{share.error:.4f}", told))
    return out


def _several(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [f"\n## Five equally good systems over queries, `compare_systems`: any rejection at nominal 5% of {count}\n"]
    out += report.head("queries", "method", "rejects", "s.e.")
    for (_, queries), shares in found.items():
        for (method,), share in shares.items():
            out.append(report.row(str(queries), method, f"{share.value:.3f}", f"{share.error:.4f}"))
    return out
