"""Comparisons of two systems at rank k: coverage of the interval of the difference, size and power of the tests."""

import warnings
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.cliffs import ap_limits, recall_limit
from benchmarks.coverage.rankings import labels
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.ranking.builders import from_scores
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import compare_rankings_at_k
from torch_ap.inference.comparison_at_k import Mover, SharedItems, TopSettings
from torch_ap.inference.resampling import Resampling

_REPLICATES, _PERMUTATIONS, _NOMINAL = 200, 99, 0.05
_MEASURES: dict[str, Any] = {
    **{f"AP@k, {name}": {"denominator": name} for name in ("min", "relevant", "found")},
    "P@k": {"measure": "precision"},
    "R@k": {"measure": "recall"},
}
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
    resampling = Resampling(_REPLICATES, generator)
    for relevant in labels(n, round(n * share), True, repetitions, generator):
        is_good = relevant & (torch.rand(n, generator=generator) < found_share)
        shared, *own = torch.randn(3, n, generator=generator)
        a, b = (
            correlation**0.5 * shared + (1 - correlation) ** 0.5 * x + d * is_good
            for x, d in zip(own, (distance_a, distance_b), strict=True)
        )
        for name, low, high in _intervals(a, b, relevant, k, resampling):
            tally(found, (name,), low <= truths[name] <= high, high - low)
            tally(found, (name, "rejects"), low > 0 or high < 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few hits
            options: Any = {"method": "permutation", "n_resamples": _PERMUTATIONS, "generator": generator}
            p = compare_rankings_at_k(a, b, relevant.long(), k, **options).p_value
        tally(found, ("permutation",), float(p) <= _NOMINAL)
    return found


def _intervals(
    a: torch.Tensor, b: torch.Tensor, relevant: torch.Tensor, k: int, resampling: Resampling
) -> Iterator[tuple[str, float, float]]:
    """Yield the intervals of all measures, as :func:`compare_rankings_at_k` with the same draws for all."""
    settings = [
        TopSettings(k, **{"measure": "average_precision", "denominator": "min", **x}, confidence_level=0.95,
                    method="dirichlet", resampling=resampling)
        for x in _MEASURES.values()
    ]  # fmt: skip

    def values(curve: HitCurve) -> torch.Tensor:
        return torch.stack([x.values(curve, k / len(relevant)) for x in settings], 1)

    curves = from_scores(a, relevant), from_scores(b, relevant)
    draws = SharedItems.from_items(curves, (a, b), relevant, k).draw(values, resampling)
    pairs = zip(*(values(curve)[0].tolist() for curve in curves), strict=True)
    for place, (name, pair) in enumerate(zip(_MEASURES, pairs, strict=True)):
        yield name, *Mover(pair, draws[..., place]).ends(_NOMINAL)


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
        f"difference of the limits. {_REPLICATES} draws; {_PERMUTATIONS} permutations of AP@k with the divisor min.\n",
    ]
    columns = ("limit", "covers 95%", "s.e.", "mean width", "rejects", "rejects by permutation")
    out += report.head("measure", "(n, pi, share, d' of A, d' of B, k, correlation)", *columns)
    for name in _MEASURES:
        for case, tallies in found.items():
            one = tallies[name,]
            cells = f"{one.value:.3f}", f"{one.error:.4f}", report.width([one])
            shares = [tallies[name, "rejects"], *([tallies["permutation",]] if name == "AP@k, min" else [])]
            rejected = [f"{x.value:.3f}" for x in shares] + [""] * (2 - len(shares))
            truth = _truths(*case[:6])[name]
            out.append(report.row(name, f"({', '.join(map(str, case))})", f"{truth:.3f}", *cells, *rejected))
    return out
