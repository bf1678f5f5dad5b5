"""Macro and weighted averages over labels or classes. Hits score as N(d', 1), misses as N(0, 1), as in ``rankings``."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.rankings import limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.base.options import Average
from torch_ap.inference import average_precision_interval
from torch_ap.inference.average_precision import Method

_FIVE = (0.05, 0.1, 0.2, 0.3, 0.5)
_TWENTY = tuple(float(x) for x in torch.logspace(-2, math.log10(0.3), 20))
# (task, items, share of hits of each label or class, d', correlation of the scores of different labels)
CASES: tuple[tuple[str, int, tuple[float, ...], float, float], ...] = (
    ("labels", 500, _FIVE, 1.5, 0.0),
    ("labels", 500, _FIVE, 1.5, 0.5),
    ("labels", 2000, _FIVE, 1.5, 0.0),
    ("labels", 2000, _FIVE, 1.5, 0.5),
    ("labels", 500, (0.05,) * 10, 1.0, 0.0),
    ("labels", 500, (0.05,) * 10, 1.0, 0.8),
    ("labels", 2000, _TWENTY, 1.5, 0.5),
    ("labels", 1000, (0.02,) * 80, 2.0, 0.3),
    ("labels", 2000, (0.05,) * 80, 1.5, 0.3),
    ("labels", 5000, (0.02,) * 80, 2.0, 0.3),
    ("classes", 500, (0.1,) * 10, 1.5, 0.0),
    ("classes", 1000, (0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.03, 0.03, 0.02, 0.02), 2.0, 0.0),
    ("classes", 3000, (0.01,) * 100, 2.0, 0.3),
)


def drawn(
    task: str, n: int, shares: Sequence[float], distance: float, correlation: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return (n, C) scores and their target: (n, C) labels or (n,) class ids."""
    share = torch.tensor(shares)
    noise = math.sqrt(correlation) * torch.randn(n, 1, generator=generator)
    noise = noise + math.sqrt(1 - correlation) * torch.randn(n, len(shares), generator=generator)
    if task == "labels":
        target = (torch.rand(n, len(shares), generator=generator) < share).long()
        return noise + distance * target, target
    target = torch.multinomial(share, n, replacement=True, generator=generator)
    return noise + distance * torch.nn.functional.one_hot(target, len(shares)), target


def averages(
    task: str,
    n: int,
    shares: Sequence[float],
    distance: float,
    correlation: float,
    *,
    repetitions: int,
    generator: torch.Generator,
) -> Tally:
    """Intervals of the macro average, and for classes of the weighted one; those with NaN ends are left out."""
    limits, weights = torch.tensor([limit(x, distance) for x in shares]), torch.tensor(shares)
    weighted = float((limits * weights).sum() / weights.sum())
    truths: dict[Average, float] = {"macro": float(limits.mean()), "weighted": weighted}
    wanted: list[tuple[Average, Method]] = [("macro", "jackknife"), ("macro", "influence")]
    wanted += [("weighted", "jackknife")] if task == "classes" else []
    found: Tally = {}
    for _ in range(repetitions):
        preds, target = drawn(task, n, shares, distance, correlation, generator)
        for average, method in wanted:
            ends = average_precision_interval(preds, target, method=method, average=average)
            if not math.isnan(ends.low):
                is_covered = bool(ends.low <= truths[average] <= ends.high)
                tally(found, (average, method), is_covered, float(ends.high - ends.low))
    return found


def sections(options: Options) -> list[Section]:
    many, at_once = options.repetitions, 100
    return [Section(tasks_of(averages, CASES, many, at_once), lambda found: _lines(found, many))]


def _lines(found: dict[tuple[Any, ...], Tally], count: int) -> list[str]:
    out = [
        f"\n## Averages over labels or classes, m random: {count} repetitions of each row\n",
        "In each label, the scores of hits are N(d', 1) and the scores of misses N(0, 1); the scores of different "
        "labels correlate. Every item has one class. Samples in which a label has fewer than two hits have no interval "
        'and are left out. "jackknife" is the default; "influence" does not correct the bias of the average.\n',
    ]
    out += report.head(
        "average", "task", "items", "hits per label", "d'", "correlation", "method", "covers 95%", "s.e.", "mean width",
    )  # fmt: skip
    for (task, n, shares, distance, correlation), tallies in found.items():
        hits = sorted({round(n * share) for share in shares})
        each = f"{len(shares)} of {hits[0]}" + (f" to {hits[-1]}" if len(hits) > 1 else "")
        for (average, method), share in tallies.items():
            cells = (average, task, str(n), each, str(distance), str(correlation), method)
            out.append(report.row(*cells, f"{share.value:.3f}", f"{share.error:.4f}", report.width([share])))
    return out
