"""Do the intervals cover, and do the tests keep their size: a simulation.

    python -m benchmarks.coverage > benchmarks/coverage.md

Hits score as N(d', 1), misses as N(0, 1). Coverage is of the limit of AP at these shares of hits. Each cell is the
least, median and greatest share over all configurations.
"""

import argparse
import itertools
import math
from collections import defaultdict
from typing import Literal

import torch
from torch import Tensor

from torch_ap.core import builders
from torch_ap.core.convention import Convention
from torch_ap.core.hit_curve import HitCurve
from torch_ap.inference import Resampling, compare_rankings, random_average_precision
from torch_ap.inference.interval import Interval
from torch_ap.inference.methods import METHODS, curve_interval

LEVELS = (0.8, 0.95)
SIZES = list(itertools.product((3000, 10_000), (50, 245, 1000), (0.0, 1.0, 2.0, 3.0)))
_ITEMS_AT_ONCE = 1 << 22


def limit(share: float, distance: float) -> float:
    """The AP that rankings of this share of hits tend to: the mean over hits of pi a / (pi a + (1 - pi) b)."""
    x = torch.linspace(-10, 10 + distance, 200_001, dtype=torch.float64)
    a, b = torch.special.ndtr(distance - x), torch.special.ndtr(-x)
    precision = share * a / (share * a + (1 - share) * b).clamp(min=1e-300)
    density = torch.exp(-((x - distance) ** 2) / 2) / math.sqrt(2 * math.pi)
    return float(torch.trapezoid(precision * density, x))


def samples(n: int, m: int, distance: float, repetitions: int, random_m: bool, generator: torch.Generator) -> HitCurve:
    """So many rankings, as one curve."""
    if random_m:
        target = torch.rand(repetitions, n, generator=generator) < m / n
    else:
        target = (torch.arange(n) < m).expand(repetitions, n)
    scores = torch.randn(repetitions, n, generator=generator) + distance * target
    segment = torch.arange(repetitions).repeat_interleave(n)
    return builders.from_scores(scores.flatten(), target.flatten(), segment=segment, segments_count=repetitions)


def covered(found: Interval, truth: float) -> Tensor:
    return (found.low <= truth) & (truth <= found.high)


def coverage(
    methods: list[str], design: str, random_m: bool, repetitions: int, how: Resampling
) -> dict[str, list[str]]:
    """Cells of each method: coverage at both levels, and the mean width at the second."""
    generator = torch.Generator().manual_seed(0)
    shares: dict[tuple[str, float], list[float]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    for n, m, distance in SIZES:
        truth = limit(m / n, distance)
        inside: dict[tuple[str, float], list[Tensor]] = defaultdict(list)
        for first in range(0, repetitions, step := max(1, _ITEMS_AT_ONCE // n)):
            curve = samples(n, m, distance, min(step, repetitions - first), random_m, generator)
            for method, level in itertools.product(methods, LEVELS):
                found = curve_interval(curve, Convention(), level=level, method=method, design=design, resampling=how)
                inside[method, level].append(covered(found, truth))
                if level == LEVELS[-1]:
                    widths[method].append(float((found.high - found.low).nanmean()))
        for key, flags in inside.items():
            shares[key].append(float(torch.cat(flags).double().mean()))
    return {
        method: [*(spread(shares[method, level]) for level in LEVELS), f"{mean(widths[method]):.3f}"]
        for method in methods
    }


def spread(values: list[float]) -> str:
    """Least, median and greatest."""
    ordered = torch.tensor(values).sort().values
    return " / ".join(f"{float(x):.3f}" for x in (ordered[0], ordered.median(), ordered[-1]))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def sizes_of_comparisons(repetitions: int, resampled: int) -> None:
    """How often two equally good systems are told apart at 5%."""
    print("\n## Two equally good systems: rejections at nominal 5%\n")
    print("| method | (1000, 50) | (3000, 245) |\n|---|---|---|")
    methods: tuple[tuple[Literal["influence", "jackknife", "bootstrap", "permutation"], int], ...] = (
        ("influence", repetitions),
        ("jackknife", repetitions),
        ("bootstrap", resampled),
        ("permutation", resampled),
    )
    for method, count in methods:
        cells = []
        for n, m in ((1000, 50), (3000, 245)):
            shares = []
            for distance, correlation in itertools.product((1.0, 2.0), (0.0, 0.8)):
                generator = torch.Generator().manual_seed(1)
                rejected = 0
                target = (torch.arange(n) < m).long()
                for _ in range(count):
                    shared, *own = torch.randn(3, n, generator=generator)
                    a, b = (math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * x for x in own)
                    how = Resampling(299, generator=generator)
                    found = compare_rankings(
                        a + distance * target, b + distance * target, target, method=method, resampling=how
                    )  # fmt: skip
                    rejected += found.p_value <= 0.05
                shares.append(rejected / count)
            cells.append(f"{min(shares):.3f} to {max(shares):.3f}")
        print(f"| {method} ({count} repetitions) | {cells[0]} | {cells[1]} |", flush=True)


def sizes_of_chance(repetitions: int) -> None:
    """How often a random ranking beats chance by each law."""
    print("\n## Random rankings: rejections in % at nominal 5 / 1 / .1\n")
    print("| law | (3000, 245) | (100, 10) |\n|---|---|---|")
    cells: dict[str, list[str]] = defaultdict(list)
    for n, m in ((3000, 245), (100, 10)):
        generator = torch.Generator().manual_seed(2)
        chance = random_average_precision(n, m)
        ranks = torch.cat([
            torch.rand(min(1000, repetitions), n, generator=generator).topk(m, 1).indices.sort(1).values + 1
            for _ in range(max(1, repetitions // 1000))
        ])  # fmt: skip
        values = (torch.arange(1, m + 1) / ranks.double()).mean(1).tolist()
        for name, tail in (("shifted lognormal", chance.lognormal_tail), ("normal", chance.normal_tail)):
            p = torch.tensor([tail(x) for x in values])
            cells[name].append(
                " / ".join(f"{100 * float((p <= size).double().mean()):.2g}" for size in (0.05, 0.01, 0.001))
            )
    for name, row in cells.items():
        print(f"| {name} | {row[0]} | {row[1]} |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description="Coverage of the intervals and size of the tests.")
    options.add_argument("--repetitions", type=int, default=5000, help="of each configuration (default 5000)")
    options.add_argument("--resampled", type=int, default=300, help="of what resamples itself (default 300)")
    given = options.parse_args()
    quick, slow = (
        [x for x in METHODS if not x.startswith("bootstrap")],
        [x for x in METHODS if x.startswith("bootstrap")],
    )
    print(
        "# Coverage of the intervals and size of the tests\n\nMade by `python -m benchmarks.coverage --repetitions "
        f"{given.repetitions} --resampled {given.resampled}`."
    )
    for title, methods, design, random_m, count in (
        ("m fixed, design stratified", quick, "stratified", False, given.repetitions),
        ("m fixed, design stratified, 500 replicates", slow, "stratified", False, given.resampled),
        ("m fixed, design iid", ["influence"], "iid", False, given.repetitions),
        ("m random, design iid", ["influence"], "iid", True, given.repetitions),
        ("m random, design stratified", ["influence"], "stratified", True, given.repetitions),
    ):
        print(f"\n## {title}: {count} repetitions each of {len(SIZES)} configurations\n")
        print("| method | covers, at 80% | covers, at 95% | mean width at 95% |\n|---|---|---|---|")
        for method, cells in coverage(methods, design, random_m, count, Resampling(500)).items():
            print(f"| {method} | {' | '.join(cells)} |", flush=True)
    sizes_of_chance(20 * given.repetitions)
    sizes_of_comparisons(given.repetitions, 4 * given.resampled)


if __name__ == "__main__":
    main()
