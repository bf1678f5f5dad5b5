"""Normalized AP and the area under the precision-recall-gain curve: items in groups, and two systems."""

import functools
import itertools
import warnings
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.groups import sample
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.functional import binary_curve
from torch_ap.inference import (
    compare_rankings_above_chance,
    normalized_average_precision_interval,
    precision_recall_gain_interval,
)
from torch_ap.inference.gain import MeasureAboveChance

_MEASURES: tuple[MeasureAboveChance, ...] = ("normalized_average_precision", "precision_recall_gain")
_INTERVALS: dict[MeasureAboveChance, Any] = dict(
    zip(_MEASURES, (normalized_average_precision_interval, precision_recall_gain_interval), strict=True)
)
_EFFECTS, _DISTANCES, _CORRELATION = (0.7, 1.0, -1.5), (0.0, 1.5), 0.5
_LARGE, _DRAWS = 10_000, 200  # groups of the population, draws of weights
_SIZES = ((10, 100, "equal"), (20, 50, "geometric"), (50, 20, "equal"), (200, 5, "geometric"))
# (n, prevalence, d' of A, d' of B)
_PAIRS = ((100, 0.1, 1.5, 1.5), (300, 0.1, 3.0, 3.0), (1000, 0.1, 1.5, 1.5), (300, 0.1, 2.5, 1.5))


def _values(scores: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
    curve = binary_curve(scores.double(), target)
    values = float(curve.normalized_average_precision), float(curve.precision_recall_gain().area)
    return dict(zip(_MEASURES, values, strict=True))


@functools.cache
def population(size: int, sizes: str, distance: float) -> dict[str, float]:
    """Return the values of the items of many groups."""
    generator = torch.Generator().manual_seed(0)
    (scores,), target, _ = sample(_LARGE, size, sizes, _EFFECTS, (distance,), 0.0, generator)
    return _values(scores, target)


@functools.cache
def limits(share: float, distance: float) -> dict[str, float]:
    """Return the values of many independent items."""
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(2_000_000, generator=generator) < share).long()
    return _values(torch.randn(len(target), generator=generator) + distance * target, target)


def in_groups(
    groups: int, size: int, sizes: str, distance: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Count covering intervals of one system, and rejections for two equally good systems."""
    found, truths = Tally(), population(size, sizes, distance)
    for _ in range(repetitions):
        (a, b), target, ids = sample(groups, size, sizes, _EFFECTS, (distance,) * 2, _CORRELATION, generator)
        for name, interval in _INTERVALS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ends = interval(a, target, groups=ids)
                compared = compare_rankings_above_chance(a, b, target, measure=name, groups=ids)
            if not ends.low.isnan():
                inside = bool(ends.low <= truths[name]) and bool(truths[name] <= ends.high)
                tally(found, (name, "covers"), inside, float(ends.high - ends.low))
            if not compared.p_value.isnan():
                tally(found, (name, "rejects"), compared.p_value <= 0.05)
                tally(found, (name, "contains 0"), compared.low <= 0 <= compared.high)
    return found


def pairs(n: int, share: float, first: float, second: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count intervals of the difference that contain it, and rejections."""
    found, (a, b) = Tally(), (limits(share, x) for x in (first, second))
    for _ in range(repetitions):
        target = (torch.rand(n, generator=generator) < share).long()
        if not 0 < int(target.sum()) < n:
            continue
        common, *own = torch.randn(3, n, generator=generator)
        scores = [(common + x) / 2**0.5 + d * target for x, d in zip(own, (first, second), strict=True)]
        for name in _MEASURES:
            how: dict[str, Any] = {"measure": name, "n_resamples": _DRAWS, "generator": generator}
            compared = compare_rankings_above_chance(scores[0], scores[1], target, **how)
            inside = compared.low <= a[name] - b[name] <= compared.high
            tally(found, (name, "covers"), inside, float(compared.high - compared.low))
            tally(found, (name, "rejects"), compared.p_value <= 0.05)
    return found


def sections(options: Options) -> list[Section]:
    many = options.repetitions
    return [
        Section(
            tasks_of(in_groups, [(*x, d) for d in _DISTANCES for x in _SIZES], many, 250),
            lambda found: _lines_of_groups(found, many),
        ),
        Section(tasks_of(pairs, _PAIRS, many, 250), lambda found: _lines_of_pairs(found, many)),
    ]


def _lines_of_groups(found: dict[tuple[Any, ...], Tally], many: int) -> list[str]:
    out = [
        f"\n## Normalized AP and precision-recall gain of items in groups: {many} repetitions of each configuration\n",
        "`normalized_average_precision_interval(groups=)` and `precision_recall_gain_interval(groups=)`, and "
        "`compare_rankings_above_chance(groups=)` of two equally good systems, whose effects correlate by "
        f"{_CORRELATION:g}. The effects of a group have standard deviation {_EFFECTS[0]:g} for scores and "
        f"{_EFFECTS[1]:g} for the logit of the share of hits. The truth is the value of {_LARGE:,} "
        "groups.\n",
    ]
    columns = ("truth", "covers 95%", "s.e.", "mean width", "rejects at 5%", "interval contains 0")
    out += report.head("what", "d'", "groups", "size", *columns)
    for name, ((groups, size, sizes, distance), tallies) in itertools.product(_MEASURES, found.items()):
        covers, rejects, zero = (tallies[name, x] for x in ("covers", "rejects", "contains 0"))
        cells = f"{population(size, sizes, distance)[name]:.3f}", f"{covers.value:.3f}", f"{covers.error:.4f}"
        ends = report.width([covers]), f"{rejects.value:.3f}", f"{zero.value:.3f}"
        out.append(report.row(name.replace("_", " "), f"{distance:g}", str(groups), f"{size} {sizes}", *cells, *ends))
    return out


def _lines_of_pairs(found: dict[tuple[Any, ...], Tally], many: int) -> list[str]:
    out = [
        f"\n## Two systems by normalized AP and precision-recall gain: {many} repetitions of each configuration\n",
        f"`compare_rankings_above_chance` with {_DRAWS} draws. m random; the scores share half of the variance of "
        "their noise. Samples without hits are left out.\n",
    ]
    columns = ("difference", "covers 95%", "s.e.", "mean width", "rejects at 5%")
    out += report.head("what", "n, prevalence, d' of both", *columns)
    for name, ((n, share, *distances), tallies) in itertools.product(_MEASURES, found.items()):
        a, b = (limits(share, x)[name] for x in distances)
        covers, rejects = tallies[name, "covers"], tallies[name, "rejects"]
        cells = f"{a - b:.3f}", f"{covers.value:.3f}", f"{covers.error:.4f}", report.width([covers])
        case = ", ".join(f"{x:g}" for x in (n, share, *distances))
        out.append(report.row(name.replace("_", " "), case, *cells, f"{rejects.value:.3f}"))
    return out
