"""Comparisons of two systems at rank k: coverage of the interval of the difference, size and power of the tests."""

import itertools
import warnings
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.cliffs import ap_limits, recall_limit
from benchmarks.coverage.rankings import labels
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import compare_rankings_at_k

_REPLICATES, _NOMINAL = 200, 0.05
_MEASURES: dict[str, Any] = {
    **{f"AP@k, {name}": {"denominator": name} for name in ("min", "relevant", "found")},
    "P@k": {"measure": "precision"},
    "R@k": {"measure": "recall"},
}
_PERMUTED = ("AP@k, min", "P@k")  # the permutations take most of the time
# (n, pi, share of the hits that score as N(d', 1) while the others score as misses, d' of A, d' of B, k, correlation
# of the scores)
_CASES = (
    (1000, 0.1, 1.0, 1.5, 1.5, 100, 0.8),
    (1000, 0.1, 1.0, 1.5, 2.0, 100, 0.8),
    (1000, 0.1, 0.3, 5.0, 5.0, 30, 0.5),
    (300, 0.1, 1.0, 2.0, 3.0, 30, 0.8),
    (200, 0.5, 1.0, 1.5, 1.5, 50, 0.5),
    (5000, 0.1, 1.0, 1.0, 1.0, 50, 0.0),
)


def differences(
    n: int,
    share: float,
    found_share: float,
    distance_a: float,
    distance_b: float,
    k: int,
    correlation: float,
    *,
    repetitions: int,
    generator: torch.Generator,
) -> Tally:
    """Count intervals that contain the difference of the limits, and rejections of no difference."""
    found, truths = Tally(), _truths(n, share, found_share, distance_a, distance_b, k)
    for relevant in labels(n, round(n * share), True, repetitions, generator):
        is_good = relevant & (torch.rand(n, generator=generator) < found_share)
        shared, *own = torch.randn(3, n, generator=generator)
        noise = (correlation**0.5 * shared + (1 - correlation) ** 0.5 * x for x in own)
        scores = [x + d * is_good for x, d in zip(noise, (distance_a, distance_b), strict=True)]
        for (name, settings), method in itertools.product(_MEASURES.items(), ("dirichlet", "permutation")):
            if method == "permutation" and name not in _PERMUTED:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # few hits
                options: Any = {"method": method, "n_resamples": _REPLICATES, "generator": generator, **settings}
                one = compare_rankings_at_k(scores[0], scores[1], relevant.long(), k, **options)
            tally(found, (name, method), float(one.p_value) <= _NOMINAL)
            if method == "dirichlet":
                tally(found, (name,), bool(one.low <= truths[name] <= one.high), float(one.high - one.low))
    return found


def _truths(n: int, share: float, found_share: float, first: float, second: float, k: int) -> dict[str, float]:
    """Return the difference of the limits of two systems by measure."""
    a, b = (ap_limits(share, found_share, x, k / n) for x in (first, second))
    recall = recall_limit(share, found_share, first, k / n) - recall_limit(share, found_share, second, k / n)
    aps = {name: a[x["denominator"]] - b[x["denominator"]] for name, x in _MEASURES.items() if "denominator" in x}
    return {**aps, "P@k": recall * share * n / k, "R@k": recall}


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(differences, _CASES, options.resampled, 50), lambda x: _lines(x, options.resampled))]


def _lines(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Two systems at rank k, `compare_rankings_at_k`: {count} repetitions of each configuration\n",
        "m random; a share of the hits scores as N(d', 1), and the other hits score as the misses. The truth is the "
        f"difference of the limits. {_REPLICATES} draws, and as many permutations.\n",
    ]
    columns = ("limit", "covers 95%", "s.e.", "mean width", "rejects", "rejects by permutation")
    out += report.head("measure", "(n, pi, share, d' of A, d' of B, k, correlation)", *columns)
    for name in _MEASURES:
        for case, tallies in found.items():
            one = tallies[name,]
            cells = f"{one.value:.3f}", f"{one.error:.4f}", report.width([one])
            shares = (tallies.get((name, method)) for method in ("dirichlet", "permutation"))
            rejected = ("" if x is None else f"{x.value:.3f}" for x in shares)
            truth = _truths(*case[:6])[name]
            out.append(report.row(name, f"({', '.join(map(str, case))})", f"{truth:.3f}", *cells, *rejected))
    return out
