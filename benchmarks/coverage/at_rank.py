"""Recall among the top k: the interval for a fixed rank, and the one that is right at a fixed threshold only."""

import itertools
from typing import Any

import torch

from benchmarks.coverage import expected, report
from benchmarks.coverage.rankings import LEVELS, labels
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.inference import proportion_interval, recall_at_k_interval

_SIZES = list(itertools.product(((3000, 245), (10_000, 1000)), (1.0, 2.0), (0.5, 1.0, 2.0, 5.0)))


def limit(share: float, distance: float, depth: float) -> float:
    """Recall of the threshold above which this share of all items lies."""
    low, high = torch.tensor(-12.0, dtype=torch.float64), torch.tensor(12.0 + distance, dtype=torch.float64)
    for _ in range(100):
        middle = (low + high) / 2
        above = share * torch.special.ndtr(distance - middle) + (1 - share) * torch.special.ndtr(-middle)
        low, high = (middle, high) if above > depth else (low, middle)
    return float(torch.special.ndtr(distance - low))


def recall(
    size: tuple[int, int], distance: float, depth: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """At rank k = depth * m."""
    (n, m), found = size, Tally()
    k = int(depth * m)
    truth = limit(m / n, distance, k / n)
    for target in labels(n, m, False, repetitions, generator):
        preds = torch.randn(n, generator=generator) + distance * target
        hits = int(target[preds.topk(k, sorted=False).indices].sum())
        for level in LEVELS:
            ends = recall_at_k_interval(preds, target.long(), k, level=level)
            fixed = proportion_interval(hits, m, level=level)
            for name, one in (("delta-wilson", ends), ("r (1 - r) / m", fixed)):
                inside = bool(one.low <= truth) and bool(truth <= one.high)
                tally(found, (name, level), inside, float(one.high - one.low))
    return found


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(recall, _SIZES, options.repetitions, 500), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## Recall at rank k, m fixed: {options.repetitions} repetitions of each of {len(_SIZES)} configurations\n",
        "(n, m) = (3000, 245) or (10000, 1000), d' of 1 or 2, k = m / 2, m, 2 m or 5 m; both intervals in Wilson's "
        "form. Deep in a ranking few hits stand near rank k, and the two variances are nearly the same. The "
        "independent simulation does not name its configurations: ours should lie inside its range.\n",
    ]
    out += report.head(
        "variance", "level", "covers: least / median / greatest", "s.e. at most", "mean width",
        "independent simulation", "inside it",
    )  # fmt: skip
    for (name, level), shares in _ordered(found):
        figures = expected.RECALL[name][LEVELS.index(level)]
        out.append(
            report.row(
                name,
                f"{level:.0%}",
                report.spread(shares),
                report.largest_error(shares),
                report.width(shares),
                report.figures(figures, " to "),
                report.within(shares, figures, expected.TRIALS, 2),
            )
        )
    return out


def _ordered(found: dict[tuple[Any, ...], Tally]) -> list[tuple[tuple[Any, ...], list[Share]]]:
    return sorted(report.by_key(found).items())
