"""Per-query values: intervals of their mean, and the size of the paired tests.

The APs of two equally good systems for a query are the logistic function of two normal variates of mean -1 and standard
deviation 1.5 that correlate by .8.
"""

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.rankings import LEVELS
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import compare_per_query, compare_systems_per_query, mean_interval
from torch_ap.inference.queries import METHODS

_QUERIES, _RESAMPLED = (5, 10, 30, 100), (10, 30)
_QUICK, _SLOW = ("dirichlet", "t"), ("bootstrap-bca",)
_TESTED = (("alike", 15), ("alike", 50), ("skewed", 150))
_SEVERAL = ((5, 25), (5, 50))
_REPLICATES, _FLIPS, _NOMINAL = 1000, 499, 0.05
_MEAN, _SPREAD, _SHARED = -1.0, 1.5, 0.8


Generator = torch.Generator


def _logistic_normal(mean: float, spread: float) -> Callable[[int, Generator], Tensor]:
    return lambda size, generator: torch.sigmoid(
        mean + spread * torch.randn(size, generator=generator, dtype=torch.float64)
    )


def _known_item(size: int, generator: Generator) -> Tensor:
    """Reciprocal rank of the only relevant one of 1,000 documents, whose score has d' = 1.9."""
    above = torch.special.ndtr(-1.9 - torch.randn(size, generator=generator, dtype=torch.float64))
    return 1 / (1 + torch.binomial(torch.full_like(above, 999.0), above, generator=generator))


def _hit_rate(size: int, generator: Generator) -> Tensor:
    return (torch.rand(size, generator=generator, dtype=torch.float64) < 0.2).double()


def _alike(size: int, generator: Generator) -> Tensor:
    return 0.33 + 0.05 * (2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1)


LAWS = {
    "moderate": _logistic_normal(_MEAN, _SPREAD),
    "skewed": _logistic_normal(-2.0, 1.5),
    "known-item": _known_item,
    "easy": _logistic_normal(2.0, 1.5),
    "0 or 1": _hit_rate,
    "nearly equal": _alike,
}


@cache
def moments_of_law(law: str) -> tuple[float, float, float]:
    """Mean, standard deviation and skewness, from a million values."""
    values = LAWS[law](1_000_000, torch.Generator().manual_seed(1))
    off = values - values.mean()
    return float(values.mean()), float(off.square().mean().sqrt()), float((off**3).mean() / off.square().mean() ** 1.5)


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


def intervals(law: str, queries: int, methods: Any, *, repetitions: int, generator: torch.Generator) -> Tally:
    truth, found = moments_of_law(law)[0], Tally()
    for _ in range(repetitions):
        values = LAWS[law](queries, generator)
        for method, level in itertools.product(methods, LEVELS):
            ends = mean_interval(
                values, confidence_level=level, method=method, n_resamples=_REPLICATES, generator=generator
            )
            inside = bool(ends.low <= truth) and bool(truth <= ends.high)
            tally(found, (method, level), inside, float(ends.high - ends.low))
            if level == LEVELS[-1]:
                tally(found, (method, "outside"), bool(ends.low < 0) or bool(ends.high > 1))
    return found


def tests(law: str, queries: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    found = Tally()
    for _ in range(repetitions):
        values = skewed(queries, generator) if law == "skewed" else drawn(2, queries, generator)
        for test in METHODS:
            p = compare_per_query(*values, method=test, n_resamples=_FLIPS, generator=generator).p_value
            tally(found, (test,), bool(p <= _NOMINAL))
    return found


def several(systems: int, queries: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the samples with any significant pair of equally good systems."""
    found = Tally()
    for _ in range(repetitions):
        values = drawn(systems, queries, generator)
        tukey, holm = (
            compare_systems_per_query(values, method=method, n_resamples=_FLIPS, generator=generator)
            for method in ("tukey", "holm")
        )
        tally(found, ("tukey",), bool((tukey.adjusted_p_value <= _NOMINAL).any()))
        tally(found, ("holm",), bool((holm.adjusted_p_value <= _NOMINAL).any()))
        tally(found, ("t, not adjusted",), bool((holm.p_value <= _NOMINAL).any()))
    return found


def sections(options: Options) -> list[Section]:
    many, few = options.repetitions, options.resampled
    laws = list(itertools.product(LAWS, _QUERIES))
    of_means = [
        *tasks_of(intervals, [(*x, _QUICK) for x in laws], many, 500),
        *tasks_of(intervals, [(*x, _SLOW) for x in laws if x[1] in _RESAMPLED], few, 50),
    ]
    return [
        Section(of_means, lambda found: _intervals(found, many, few)),
        Section(tasks_of(tests, _TESTED, few, 100), lambda found: _tests(found, few)),
        Section(tasks_of(several, _SEVERAL, few, 100), lambda found: _several(found, few)),
    ]


def _intervals(found: dict[tuple[Any, ...], Tally], many: int, few: int) -> list[str]:
    told = "; ".join(
        f"{law}: mean {mean:.3f}, standard deviation {spread:.3f}, skewness {skew:.2f}"
        for law in LAWS
        for mean, spread, skew in [moments_of_law(law)]
    )
    out = [
        f"\n## Mean over queries (MAP), `mean_interval`: {many} repetitions, {few} of the bootstrap\n",
        f"Distributions of the values: {told}. Known-item values are the reciprocal rank of one relevant document "
        f"among 1,000, with d' = 1.9. {_REPLICATES} replicates.\n",
    ]
    out += report.head(
        "law", "queries", "method", "covers, 80%", "covers, 95%", "s.e. at 95%", "mean width at 95%",
        "an end outside [0, 1]",
    )  # fmt: skip
    for law, queries in itertools.product(LAWS, _QUERIES):
        for methods in (_QUICK, _SLOW):
            shares = found.get((law, queries, methods), {})
            for method in methods if shares else ():
                low, high = (shares[method, level] for level in LEVELS)
                out.append(
                    report.row(
                        law, str(queries), method, f"{low.value:.3f}", f"{high.value:.3f}", f"{high.error:.4f}",
                        report.width([high]), f"{shares[method, 'outside'].value:.3f}",
                    )
                )  # fmt: skip
    return out


def _tests(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        "\n## Two systems of equal means over queries, `compare_per_query`: rejections at nominal 5%, "
        f"{count} repetitions\n",
        '"alike": one distribution for both, correlated by .8; "skewed": four queries of five gain .05 and the fifth '
        f"loses .2, with noise of .02. {_FLIPS} random flips for more than 20 queries.\n",
    ]
    out += report.head("values", "queries", "test", "rejects", "s.e.")
    for (law, queries), shares in found.items():
        for (test,), share in shares.items():
            out.append(report.row(law, str(queries), test, f"{share.value:.3f}", f"{share.error:.4f}"))
    return out


def _several(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        "\n## Five equally good systems over queries, `compare_systems_per_query`: any rejection at nominal 5%, "
        f"{count} repetitions\n"
    ]
    out += report.head("queries", "method", "rejects", "s.e.")
    for (_, queries), shares in found.items():
        for (method,), share in shares.items():
            out.append(report.row(str(queries), method, f"{share.value:.3f}", f"{share.error:.4f}"))
    return out
