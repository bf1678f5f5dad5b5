"""Precision and recall among the top k: the intervals of both designs, where m is fixed and where it is random."""

import itertools
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.rankings import LEVELS, labels
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.inference.precision_recall import Cut, window
from torch_ap.inference.record import normal_quantile, wilson

# (n, pi, d', k)
BOTH_DESIGNS = (
    (1000, 0.1, 1.5, 100),
    (1000, 0.1, 1.5, 300),
    (300, 0.1, 3.0, 30),
    (200, 0.5, 1.5, 50),
    (1000, 0.1, 1.5, 10),
)
_DEEP = [
    (n, m / n, distance, int(depth * m))
    for (n, m), distance, depth in itertools.product(((3000, 245), (10_000, 1000)), (1.0, 2.0), (0.5, 1.0, 2.0, 5.0))
]
_SIZES = ((100, 0.2), (1000, 0.1), (1000, 0.02))
_SMALL = [(*size, distance, k) for k, size, distance in itertools.product((1, 3, 5, 10, 20), _SIZES, (1.0, 2.0, 3.0))]
_BINOMIAL = "r (1 - r) / m"


def limit(share: float, distance: float, depth: float) -> float:
    """Recall of the threshold above which this share of all items lies."""
    low, high = torch.tensor(-12.0, dtype=torch.float64), torch.tensor(12.0 + distance, dtype=torch.float64)
    for _ in range(100):
        middle = (low + high) / 2
        above = share * torch.special.ndtr(distance - middle) + (1 - share) * torch.special.ndtr(-middle)
        low, high = (middle, high) if above > depth else (low, middle)
    return float(torch.special.ndtr(distance - low))


def cuts(scores: Tensor, relevant: Tensor, k: int) -> Cut:
    """(R, n) scores without ties and their labels, cut at rank k."""
    n, (low, high) = scores.shape[1], window(scores.shape[1], k)
    best = scores.topk(min(n, int(high) + 1), dim=1).indices
    ordered = relevant.gather(1, best).double()
    found = torch.cat([ordered.new_zeros(len(ordered), 1), ordered.cumsum(1)], 1)

    def hits(t: float) -> Tensor:
        """Between whole ranks h is a straight line."""
        whole = int(t)
        return found[:, whole] + (t - whole) * ordered[:, whole] if t > whole else found[:, whole]

    return Cut(n, k, relevant.sum(1).double(), hits(k), (hits(high) - hits(low)) / (high - low))


def intervals(
    n: int, share: float, distance: float, k: int, random_m: bool, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Both designs' intervals of precision and recall; ends that do not exist cover nothing."""
    target = labels(n, round(n * share), random_m, repetitions, generator)
    cut = cuts(torch.randn(repetitions, n, generator=generator) + distance * target, target, k)
    recall, found = limit(share, distance, k / n), Tally()
    truths = {"P@k": recall * share * n / k, "R@k": recall}
    for level, design in itertools.product(LEVELS, ("iid", "stratified")):
        for name, one in (("P@k", cut.precision(level, design)), ("R@k", cut.recall(level, design))):
            _tally(found, (name, design, level), truths[name], one.low, one.high)
    for level in LEVELS:
        _tally(found, ("R@k", _BINOMIAL, level), recall, *wilson(cut.hits / cut.m, cut.m, normal_quantile(level)))
    return found


def _tally(found: Tally, key: tuple[Any, ...], truth: float, low: Tensor, high: Tensor) -> None:
    tally(found, key, (low <= truth) & (truth <= high), float((high - low).nansum()))


def sections(options: Options) -> list[Section]:
    many, at_once = options.repetitions, 500
    both = [(*case, True) for case in BOTH_DESIGNS]
    deep = [(*case, random_m) for random_m in (True, False) for case in _DEEP]
    small = [(*case, random_m) for random_m in (True, False) for case in _SMALL]
    return [
        Section(tasks_of(intervals, both, many, at_once), lambda found: _both(found, many)),
        Section(tasks_of(intervals, deep, many, at_once), lambda found: _deep(found, many)),
        Section(tasks_of(intervals, small, many, at_once), lambda found: _small(found, many)),
    ]


def _both(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        "\n## Precision and recall at rank k, both designs where m is random: "
        f"{count} repetitions of each configuration\n",
        'Design "stratified" assumes a fixed m, which is wrong here.\n',
    ]
    out += report.head(
        "what", "design", "(n, pi, d', k)", "limit", "covers 80%", "covers 95%", "s.e. at most", "mean width at 95%",
    )  # fmt: skip
    for name, design in itertools.product(("P@k", "R@k"), ("iid", "stratified")):
        for case, tallies in found.items():
            n, share, distance, k, _ = case
            recall = limit(share, distance, k / n)
            shares = [tallies[name, design, level] for level in LEVELS]
            out.append(
                report.row(
                    name,
                    design,
                    f"({n}, {share}, {distance}, {k})",
                    f"{recall * share * n / k if name == 'P@k' else recall:.3f}",
                    *(f"{one.value:.3f}" for one in shares),
                    report.largest_error(shares),
                    report.width(shares[-1:]),
                )
            )
    return out


_COLUMNS = ("covers: least / median / greatest", "s.e. at most", "mean width")


def _deep(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Precision and recall at rank k, deep: {count} repetitions of each of {len(_DEEP)} configurations\n",
        "(n, m) = (3000, 245) or (10000, 1000), d' of 1 or 2, k = m / 2, m, 2 m or 5 m; all intervals in Wilson's "
        f'form. The variance "{_BINOMIAL}" is correct for recall at a fixed threshold. Deep in a ranking, with few '
        "hits near rank k, the stratified variance of recall is nearly equal to it.\n",
    ]
    out += report.head("m", "what", "variance", "level", *_COLUMNS)
    for random_m in (True, False):
        here = {case: tallies for case, tallies in found.items() if case[-1] == random_m}
        for (name, design, level), shares in _ordered(here):
            m = "random" if random_m else "fixed"
            out.append(report.row(m, name, design, f"{level:.0%}", *_cells(shares)))
    return out


def _small(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    cases = len(_SMALL) // len({case[-1] for case in _SMALL})
    out = [
        f"\n## Precision and recall at rank k, small k: {count} repetitions of each of {cases} configurations "
        "per row\n",
        f"(n, pi) = {', '.join(map(str, _SIZES))}, d' of 1, 2 or 3; each design with its samples: \"iid\" with random "
        'm, "stratified" with fixed m.\n',
    ]  # fmt: skip
    out += report.head("k", "what", "design", "level", *_COLUMNS)
    for k, (random_m, own) in itertools.product(
        sorted({case[-1] for case in _SMALL}), ((True, "iid"), (False, "stratified"))
    ):
        here = {case: tallies for case, tallies in found.items() if case[3:] == (k, random_m)}
        for (name, design, level), shares in _ordered(here):
            if design == own:
                out.append(report.row(str(k), name, design, f"{level:.0%}", *_cells(shares)))
    return out


def _cells(shares: list[Share]) -> tuple[str, str, str]:
    return report.spread(shares), report.largest_error(shares), report.width(shares)


def _ordered(found: dict[tuple[Any, ...], Tally]) -> list[tuple[tuple[Any, ...], list[Share]]]:
    return sorted(report.by_key(found).items())
