"""Intervals of one ranking's AP. Hits score as N(d', 1), misses as N(0, 1); the truth is the limit of AP."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import builders, hit_curve
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import published, resampling
from torch_ap.inference.average_precision import BOOTSTRAPS, METHODS, bootstrap_ends, curve_interval
from torch_ap.inference.resampling import InferenceSettings, Resampling

LEVELS = (0.8, 0.95)
SIZES = list(itertools.product((3000, 10_000), (50, 245, 1000), (0.0, 1.0, 2.0, 3.0)))
QUICK = [*(method for method in METHODS if method not in (*BOOTSTRAPS, "dirichlet")), *published.METHODS]
_REPLICATES = 500


def limit(share: float, distance: float) -> float:
    """The AP that rankings of this share of hits tend to: the mean over hits of pi a / (pi a + (1 - pi) b)."""
    x = torch.linspace(-10, 10 + distance, 200_001, dtype=torch.float64)
    a, b = torch.special.ndtr(distance - x), torch.special.ndtr(-x)
    precision = share * a / (share * a + (1 - share) * b).clamp(min=1e-300)
    density = torch.exp(-((x - distance) ** 2) / 2) / math.sqrt(2 * math.pi)
    return float(torch.trapezoid(precision * density, x))


def labels(n: int, m: int, random_m: bool, repetitions: int, generator: torch.Generator) -> Tensor:
    """(R, n) bool: m hits, or so many on average."""
    if random_m:
        return torch.rand(repetitions, n, generator=generator) < m / n
    return (torch.arange(n) < m).expand(repetitions, n)


def curve_of(scores: Tensor, target: Tensor) -> HitCurve:
    """(R, n) scores and labels as R rankings."""
    segment = torch.arange(len(scores)).repeat_interleave(scores.shape[1])
    return builders.from_scores(scores.flatten(), target.flatten(), segment=segment, segments_count=len(scores))


def drawn(n: int, m: int, distance: float, random_m: bool, repetitions: int, generator: torch.Generator) -> HitCurve:
    target = labels(n, m, random_m, repetitions, generator)
    return curve_of(torch.randn(repetitions, n, generator=generator) + distance * target, target)


def analytic(n: int, m: int, distance: float, random_m: bool, *, repetitions: int, generator: torch.Generator) -> Tally:
    curve, truth, found = drawn(n, m, distance, random_m, repetitions, generator), limit(m / n, distance), Tally()
    wanted = [("influence", "iid"), *((method, "stratified") for method in (["influence"] if random_m else QUICK))]
    for (method, design), level in itertools.product(wanted, LEVELS):
        if method in published.METHODS:
            ends = published.curve_interval(curve, level, method)
        else:
            ends = curve_interval(curve, Convention(ties="grouped"), InferenceSettings(level, method, design))
        width = float((ends.high - ends.low).nansum())
        tally(found, (method, design, level), (ends.low <= truth) & (truth <= ends.high), width)
    return found


def bootstrapped(
    n: int, m: int, distance: float, random_m: bool, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """All three methods and both levels from the same replicates."""
    curve, truth, found = drawn(n, m, distance, random_m, repetitions, generator), limit(m / n, distance), Tally()
    design = "iid" if random_m else "stratified"
    for estimate, one in zip(Convention()(curve), hit_curve.split(curve), strict=True):
        values = resampling.replicates(one, Convention(ties="grouped"), design, Resampling(_REPLICATES, generator))
        for method, level in itertools.product(BOOTSTRAPS, LEVELS):
            low, high, _ = bootstrap_ends(InferenceSettings(level, method, design), values, one, estimate)
            tally(found, (method, design, level), (low <= truth) & (truth <= high), float(high - low))
    return found


def sections(options: Options) -> list[Section]:
    fixed, random = ([(*size, random_m) for size in SIZES] for random_m in (False, True))
    many, few, at_once = options.repetitions, options.resampled, 500
    return [
        Section(tasks_of(analytic, fixed, many, at_once), lambda found: _fixed(found, many)),
        Section(tasks_of(bootstrapped, fixed, few, 25), lambda found: _bootstrapped(found, few)),
        Section(tasks_of(analytic, random, many, at_once), lambda found: _random(found, many)),
        Section(tasks_of(bootstrapped, random, few, 25), lambda found: _resampled_random(found, few)),
    ]


_COLUMNS = ("method", "design", "level", "covers: least / median / greatest", "s.e. at most", "mean width")


def _table(found: dict[tuple[Any, ...], Tally]) -> dict[tuple[str, str, float], str]:
    """A row of each method, design and level."""
    return {
        (method, design, level): report.row(
            method, design, f"{level:.0%}", report.spread(shares), report.largest_error(shares), report.width(shares)
        )
        for (method, design, level), shares in report.by_key(found).items()
    }


def _fixed(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [f"\n## AP, m fixed: {count} repetitions of each of {len(SIZES)} configurations\n"]
    return [*out, *report.head(*_COLUMNS), *_table(found).values()]


def _bootstrapped(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [f"\n## AP, m fixed, {_REPLICATES} replicates: {count} repetitions of each of {len(SIZES)} configurations\n"]
    return [*out, *report.head(*_COLUMNS), *_table(found).values()]


def _random(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [f"\n## AP, m random: {count} repetitions of each of {len(SIZES)} configurations\n"]
    return [*out, *report.head(*_COLUMNS), *_table(found).values()]


def _resampled_random(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [f"\n## AP, m random, {_REPLICATES} replicates: {count} repetitions of each of {len(SIZES)} configurations\n"]
    return [*out, *report.head(*_COLUMNS), *_table(found).values()]
