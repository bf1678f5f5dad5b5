"""Items in groups with random effects: intervals of AP@k, P@k and R@k, and comparisons at rank k."""

import functools
import itertools
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.groups import sample
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.base.options import Denominator
from torch_ap.core.measures.top_share import (
    average_precision_in_top_share,
    precision_in_top_share,
    recall_in_top_share,
)
from torch_ap.core.ranking.builders import from_scores
from torch_ap.inference import (
    average_precision_at_k_interval,
    compare_rankings_at_k,
    precision_at_k_interval,
    recall_at_k_interval,
)

_LEVEL, _NOMINAL = 0.95, 0.05
_LARGE = 20_000  # groups of the population
_SIZES = ((10, 100, "equal"), (20, 50, "geometric"), (50, 20, "equal"), (200, 5, "geometric"))
# effects as in `groups`, d' and k of 1,000 items; with d' = 5 most hits are above the misses
_CUTS = (
    ((0.5, 1.0, -2.0), 1.5, 30), ((0.5, 1.0, -2.0), 5.0, 100), ((1.0, 1.0, -1.0), 1.5, 100),
    ((1.0, 1.0, -1.0), 5.0, 100),
)  # fmt: skip
_DENOMINATORS: tuple[Denominator, ...] = ("min", "relevant", "found")
_DRAWN, _DRAWS = 30, 200  # repetitions of each task with intervals of independent items, and their draws
_MEASURES: dict[str, Any] = {
    **{f"AP@k, {x}": partial(average_precision_in_top_share, denominator=x) for x in _DENOMINATORS},
    "P@k": precision_in_top_share,
    "R@k": recall_in_top_share,
}
_COMPARED: dict[str, Any] = {
    "AP@k, min": {}, "AP@k, relevant": {"denominator": "relevant"}, "P@k": {"measure": "precision"},
    "R@k": {"measure": "recall"},
}  # fmt: skip


@functools.cache
def limits(size: int, sizes: str, effects: Any, distance: float, share: float) -> dict[str, float]:
    """Return the measures of the items of many groups, cut at a share of them."""
    (scores,), target, _ = sample(_LARGE, size, sizes, effects, (distance,), 0.0, torch.Generator().manual_seed(0))
    curve = from_scores(scores.double(), target.bool())
    return {name: float(measure(curve, share)) for name, measure in _MEASURES.items()}


def intervals(
    groups: int, size: int, sizes: str, effects: Any, distance: float, k: int, *, repetitions: int, generator: Any
) -> Tally:
    """Return how often each interval contains the limit."""
    share, found = k / (groups * size), Tally()
    truths = limits(size, sizes, effects, distance, share)
    for place in range(repetitions):
        (scores,), target, ids = sample(groups, size, sizes, effects, (distance,), 0.0, generator)
        cut = max(1, round(share * len(scores)))
        own: dict[str, Any] = {"confidence_level": _LEVEL, "groups": ids}
        calls: list[tuple[str, str, Any]] = [
            (f"AP@k, {x}", "groups", partial(average_precision_at_k_interval, denominator=x, **own))
            for x in _DENOMINATORS
        ]
        calls += [("P@k", "groups", partial(precision_at_k_interval, **own))]
        calls += [("R@k", "groups", partial(recall_at_k_interval, **own))]
        if place < _DRAWN:
            calls += [("AP@k, min", "independent items", partial(average_precision_at_k_interval, n_resamples=_DRAWS))]
        for name, method, call in calls:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                interval = call(scores, target, cut)
            if not interval.low.isnan():
                inside = interval.low <= truths[name] <= interval.high
                tally(found, (name, method), inside, float(interval.high - interval.low))
    return found


def comparisons(groups: int, size: int, sizes: str, correlation: float, *, repetitions: int, generator: Any) -> Tally:
    """Return how often the tests reject for two equally good systems, and how often the intervals contain 0."""
    found = Tally()
    for _ in range(repetitions):
        scores, target, ids = sample(groups, size, sizes, (0.7, 1.0, -1.5), (1.5, 1.5), correlation, generator)
        for name, settings in _COMPARED.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                k = max(1, round(0.1 * len(target)))
                comparison = compare_rankings_at_k(scores[0], scores[1], target, k, groups=ids, **settings)
            if not comparison.p_value.isnan():
                tally(found, (name,), comparison.p_value <= _NOMINAL)
                tally(found, (name, "interval"), comparison.low <= 0 <= comparison.high)
    return found


def sections(options: Options) -> list[Section]:
    one = [(*sizes, *cut) for sizes, cut in itertools.product(_SIZES, _CUTS)]
    two = [(*sizes, correlation) for sizes, correlation in itertools.product(_SIZES, (0.0, 0.8))]
    return [
        Section(tasks_of(intervals, one, options.repetitions, 250), _interval_lines),
        Section(tasks_of(comparisons, two, options.repetitions, 250), _comparison_lines),
    ]


def _interval_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    columns = [(name, "groups") for name in _MEASURES] + [("AP@k, min", "independent items")]
    trials, error = _extent(found, columns[:-1])
    out = [
        "\n## Measures at rank k of items in groups (`groups=`): coverage of 95%\n",
        "About 1,000 items with the effects of the section on AP in groups, and the limits of "
        f"{_LARGE:,} groups. Delete-one-group jackknife. "
        f"{trials} repetitions, s.e. up to {error:.4f}. The last column is the default without `groups`, with "
        f"{_DRAWN} of 250 repetitions.\n",
    ]
    names = [f"{name}{', independent' * (method != 'groups')}" for name, method in columns]
    out += report.head("groups", "size", "effects", "d'", "k", "AP@k, min", *(f"{x}: covers" for x in names))
    for (groups, size, sizes, effects, distance, k), tallies in found.items():
        truth = limits(size, sizes, effects, distance, k / (groups * size))["AP@k, min"]
        cells = [str(groups), f"{size} {sizes}", f"{effects[0]:g}, {effects[1]:g}", f"{distance:g}", str(k)]
        out.append(report.row(*cells, f"{truth:.2f}", *(f"{tallies[x].value:.3f}" for x in columns)))
    return out


def _comparison_lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    trials, error = _extent(found, [(name,) for name in _COMPARED])
    out = [
        "\n## Two equally good systems at rank k on items in groups, `compare_rankings_at_k(groups=)`: nominal 5%\n",
        "Effects as in the section on two systems in groups; k is a tenth of the items. Interval and test of the "
        f"logits, from the values without each group. {trials} repetitions, s.e. up to {error:.4f}.\n",
    ]
    names = [f"{name}: rejects" for name in _COMPARED] + [f"{name}: interval covers" for name in _COMPARED]
    out += report.head("groups", "size", "correlation", *names)
    for (groups, size, sizes, correlation), tallies in found.items():
        shares = [tallies[(name,)] for name in _COMPARED] + [tallies[name, "interval"] for name in _COMPARED]
        cells = [str(groups), f"{size} {sizes}", f"{correlation:g}"]
        out.append(report.row(*cells, *(f"{x.value:.3f}" for x in shares)))
    return out


def _extent(found: dict[tuple[Any, ...], Tally], keys: Sequence[tuple[str, ...]]) -> tuple[int, float]:
    """Return the largest number of repetitions and the largest standard error."""
    shares = [tallies[key] for tallies in found.values() for key in keys]
    return max(x.trials for x in shares), max(x.error for x in shares)
