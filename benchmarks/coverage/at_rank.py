"""Precision and recall among the top k: the intervals of both designs, where m is fixed and where it is random."""

import itertools
import warnings
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.rankings import LEVELS, labels
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.core.base.options import Denominator
from torch_ap.inference import average_precision_at_k_interval, precision_at_k_interval, recall_at_k_interval
from torch_ap.inference.precision_recall import METHODS_AT_K, Cut, window
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


def cliffs(
    n: int, share: float, found_share: float, distance: float, k: int, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Intervals by Dirichlet weights and by the delta method."""
    # the limit at which the hits that score as misses are above the cut as rarely as the misses
    mixed = share * found_share
    depth = torch.linspace(-8, 8 + distance, 100_001, dtype=torch.float64)
    good, bad = torch.special.ndtr(distance - depth), torch.special.ndtr(-depth)
    place = int((mixed * good + (1 - mixed) * bad > k / n).sum())
    recall = float(found_share * good[place] + (1 - found_share) * bad[place])
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
    many, few, at_once = options.repetitions, options.resampled, 500
    both = [(*case, True) for case in BOTH_DESIGNS]
    deep = [(*case, random_m) for random_m in (True, False) for case in _DEEP]
    small = [(*case, random_m) for random_m in (True, False) for case in _SMALL]
    return [
        Section(tasks_of(intervals, both, many, at_once), lambda found: _both(found, many)),
        Section(tasks_of(intervals, deep, many, at_once), lambda found: _deep(found, many)),
        Section(tasks_of(intervals, small, many, at_once), lambda found: _small(found, many)),
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
