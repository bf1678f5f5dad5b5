"""Interval of the difference of two systems: how often it covers, and how often it contradicts the p-value."""

import math
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import labels, limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import compare_rankings
from torch_ap.inference.comparison import Method

_NOMINAL = 0.05
_INTERVALS: tuple[Method, ...] = ("logit", "influence")
# (n, pi, d' of B, how much higher the d' of A is, correlation of the scores)
_DIFFERENCES = (
    (100, 0.1, 1.5, 0.0, 0.5),
    (60, 0.5, 1.5, 0.0, 0.5),
    (3000, 0.01, 1.5, 0.0, 0.5),
    (1000, 0.1, 1.5, 0.0, 0.5),
    (1000, 0.1, 1.5, 0.3, 0.5),
    (300, 0.1, 1.5, 1.0, 0.5),
    (1000, 0.05, 0.0, 0.0, 0.0),
    (200, 0.9, 1.5, 0.0, 0.5),
    (200, 0.2, 3.5, 0.0, 0.5),
    (200, 0.2, 3.5, -1.0, 0.8),
    (200, 0.2, 3.5, 0.6, 0.5),
    (200, 0.2, 3.5, 0.6, 0.9),
)


def differences(
    n: int, share: float, distance: float, gain: float, correlation: float,
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    """Intervals of the difference: how often they cover it, and how often they contradict the p-value of "logit"."""
    truth, found = limit(share, distance + gain) - limit(share, distance), Tally()
    for relevant in labels(n, round(n * share), True, repetitions, generator):
        target = relevant.long()
        if not 2 <= int(target.sum()) <= n - 2:
            continue
        shared, own = torch.randn(2, n, generator=generator)
        a = shared + (distance + gain) * target
        b = correlation * shared + math.sqrt(1 - correlation**2) * own + distance * target
        by_method = {method: compare_rankings(a, b, target, method=method) for method in _INTERVALS}
        rejects = bool(by_method["logit"].p_value <= _NOMINAL)
        for method, result in by_method.items():
            is_covered = bool(result.low <= truth <= result.high)
            tally(found, ("covers", method), is_covered, float(result.high - result.low))
            tally(found, ("contradicts", method), rejects != bool(result.low > 0 or result.high < 0))
    return found


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(differences, _DIFFERENCES, options.repetitions, 250), _lines)]


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [
        "\n## Interval of the difference of two systems, `compare_rankings`, m random\n",
        "A has a d' that is higher by the gain. The scores of both systems correlate. Samples with fewer than two hits "
        'or two misses are left out. Contradictions: the interval of 95% contains 0 and the p-value of "logit" is at '
        "most 5%, or the reverse.\n",
    ]
    out += report.head(
        "items", "pi", "d'", "gain", "correlation", "method", "covers 95%", "s.e.", "mean width", "contradicts"
    )
    for configuration, tallies in found.items():
        for method in _INTERVALS:
            share, contradictions = tallies["covers", method], tallies["contradicts", method]
            cells = f"{share.value:.3f}", f"{share.error:.4f}", report.width([share]), f"{contradictions.value:.3f}"
            out.append(report.row(*map(str, configuration), method, *cells))
    return out
