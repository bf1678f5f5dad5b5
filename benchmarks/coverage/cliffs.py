"""Precision, recall and AP at rank k by Dirichlet weights, where the share of hits falls at rank k and where not."""

import itertools
import warnings
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import labels
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.base.options import Denominator
from torch_ap.inference import average_precision_at_k_interval, precision_at_k_interval, recall_at_k_interval
from torch_ap.inference.precision_recall import METHODS_AT_K

# (n, pi, share of the hits that score as N(d', 1) while the others score as misses, d', k): k is near the hits found
_CLIFFS = (
    (1000, 0.02, 1.0, 5.0, 20),
    (1000, 0.1, 0.3, 5.0, 30),
    (300, 0.1, 1.0, 3.0, 30),
    (300, 0.1, 1.0, 3.0, 10),
    (1000, 0.1, 1.0, 1.5, 10),
    (1000, 0.1, 1.0, 1.5, 100),
    (1000, 0.1, 1.0, 1.5, 300),
    (200, 0.5, 1.0, 1.5, 50),
)


_REPLICATES = 200
_FUNCTIONS: dict[str, Any] = {"P@k": precision_at_k_interval, "R@k": recall_at_k_interval}


def recall_limit(share: float, found_share: float, distance: float, depth: float) -> float:
    """Return the recall of the threshold above which the share ``depth`` of all items is."""
    scores = torch.linspace(-8, 8 + distance, 100_001, dtype=torch.float64)
    good, bad = torch.special.ndtr(distance - scores), torch.special.ndtr(-scores)
    mixed = share * found_share  # the other hits are above the cut as rarely as the misses
    place = int((mixed * good + (1 - mixed) * bad > depth).sum())
    return float(found_share * good[place] + (1 - found_share) * bad[place])


def cliffs(
    n: int, share: float, found_share: float, distance: float, k: int, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Intervals by Dirichlet weights and by the delta method."""
    recall = recall_limit(share, found_share, distance, k / n)
    truths, found = {"P@k": recall * share * n / k, "R@k": recall}, Tally()
    for relevant in labels(n, round(n * share), True, repetitions, generator):
        is_good = relevant & (torch.rand(n, generator=generator) < found_share)
        items = torch.randn(n, generator=generator) + distance * is_good, relevant.long(), k
        for name, method in itertools.product(truths, METHODS_AT_K):
            interval = _FUNCTIONS[name](*items, method=method, n_resamples=_REPLICATES)
            is_covered = bool(interval.low <= truths[name] <= interval.high)
            tally(found, (name, method), is_covered, float(interval.high - interval.low))
    return found


def ap_limits(share: float, found_share: float, distance: float, depth: float) -> dict[Denominator, float]:
    """Return the limit of AP at the share ``depth`` of all items, by denominator."""
    scores = torch.linspace(9 + distance, -9, 100_001, dtype=torch.float64)
    good, bad = torch.special.ndtr(distance - scores), torch.special.ndtr(-scores)
    hits = share * (found_share * good + (1 - found_share) * bad)
    items = hits + (1 - share) * bad
    place = int((items <= depth).sum())
    precision = hits / items.clamp(min=1e-300)  # 0 above all scores
    total = float(torch.trapezoid(precision[:place], hits[:place]))
    return {"min": total / min(share, depth), "relevant": total / share, "found": total / float(hits[place])}


def ap_intervals(
    n: int, share: float, found_share: float, distance: float, k: int, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Intervals of AP@k; samples with fewer than ten hits in the top k are apart."""
    truths, found = ap_limits(share, found_share, distance, k / n), Tally()
    for relevant in labels(n, round(n * share), True, repetitions, generator):
        is_good = relevant & (torch.rand(n, generator=generator) < found_share)
        scores = torch.randn(n, generator=generator) + distance * is_good
        for denominator, truth in truths.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # few hits
                interval = average_precision_at_k_interval(
                    scores, relevant.long(), k, denominator=denominator, n_resamples=_REPLICATES
                )
            is_covered = bool(interval.low <= truth <= interval.high)
            tally(found, (denominator, bool(interval.reason)), is_covered, float(interval.high - interval.low))
    return found


def sections(options: Options) -> list[Section]:
    few = options.resampled
    return [
        Section(tasks_of(cliffs, _CLIFFS, few, 50), lambda found: _cliffs(found, few)),
        Section(tasks_of(ap_intervals, _CLIFFS, few, 50), lambda found: _ap_intervals(found, few)),
    ]


def _cliffs(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        "\n## Precision and recall at rank k on and off a cliff, m random: "
        f"{count} repetitions of each configuration\n",
        "A share of the hits scores as N(d', 1), and the other hits score as the misses, N(0, 1). On a cliff nearly "
        'all of these hits are above rank k, where the share of hits falls from near 1 to near 0. "dirichlet" is the '
        f"default, here with {_REPLICATES} draws.\n",
    ]
    out += report.head("what", "(n, pi, share, d', k)", "method", "covers 95%", "s.e.", "mean width")
    for name in _FUNCTIONS:
        for configuration, tallies in found.items():
            for method in METHODS_AT_K:
                share = tallies[name, method]
                cells = f"{share.value:.3f}", f"{share.error:.4f}", report.width([share])
                out.append(report.row(name, f"({', '.join(map(str, configuration))})", method, *cells))
    return out


def _ap_intervals(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## AP@k of one ranking, `average_precision_at_k_interval`: {count} repetitions of each configuration\n",
        "m random; a share of the hits scores as N(d', 1), and the other hits score as the misses. The truth is the "
        f"limit, cut at the share k / n of all items. {_REPLICATES} draws.\n",
    ]
    columns = ("covers 95%", "s.e.", "mean width")
    out += report.head("(n, pi, share, d', k)", "divisor", "hits in the top k", "samples", *columns)
    for configuration, tallies in found.items():
        for (denominator, is_few), share in sorted(tallies.items()):
            cells = f"{share.value:.3f}", f"{share.error:.4f}", report.width([share])
            hits, name = "fewer than 10" if is_few else "10 or more", f"({', '.join(map(str, configuration))})"
            out.append(report.row(name, denominator, hits, f"{share.trials:g}", *cells))
    return out
