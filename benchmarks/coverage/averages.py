"""Macro and weighted averages over labels or classes. Hits score as N(d', 1), misses as N(0, 1), as in ``rankings``."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.rankings import limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference.record import logit, student_quantile

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
    ("classes", 1500, (0.02,) * 50, 2.0, 0.3),
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


def _sum_from_below(values: Tensor) -> Tensor:
    """Return the sum of each column from the row below to the end."""
    return values.flip(0).cumsum(0).flip(0) - values


def intervals(preds: Tensor, target: Tensor, weighted: bool) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the ends by "jackknife" and by "influence", from sorted columns without ties; NaN as in the package.

    The same as :func:`torch_ap.inference.average_precision_interval`, many times as fast.
    """
    n, classes = preds.shape
    labels = torch.nn.functional.one_hot(target, classes) if target.ndim == 1 else target
    order = preds.argsort(0, descending=True)
    y = labels.gather(0, order).double()
    h, t = y.cumsum(0), torch.arange(1, n + 1, dtype=torch.float64)[:, None]
    m = h[-1]
    q, above, sums = n - m, (t - 1).clamp(min=1), (y * h / t).sum(0)
    values = sums / m
    weights = m / m.sum() if weighted else torch.full_like(m, 1 / classes)
    # the sum of precisions without each item
    without_miss = sums + _sum_from_below(y * h / (t * above))
    without_hit = sums - h / t + _sum_from_below(y * ((h - 1) / above - h / t))
    changed = torch.where(y > 0, without_hit, without_miss)
    influence = torch.where(
        y > 0,
        h / t + y / t * (1 - h / t) + _sum_from_below(y * (1 - h / t) / t),
        -q / m * _sum_from_below(y * h / t**2),
    )
    slope = (y * h * (t - h) / t**2).sum(0) * n * n / (m * m * q)
    mean, scale = (y * influence).sum(0) / m, (m * (m - 1)).sqrt()
    other_mean, other_scale = ((1 - y) * influence).sum(0) / q, (q * (q - 1)).sqrt()
    shares = torch.where(y > 0, (influence - mean) / scale, (influence - other_mean) / other_scale)
    shares += (y - m / n) * slope / n
    v = weights**2 * shares.square().sum(0)
    df = v.sum() ** 2 / (v**2 / (torch.minimum(m, q) - 1)).sum()
    estimate = (weights * values).sum()

    def by_item(x: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter_(0, order, x).sum(1)

    if weighted:
        hits = labels.sum(1)
        changes = (m.sum() * estimate + by_item(changed - sums)) / (m.sum() - hits) - estimate
        total = by_item(weights * shares + (y - m / n) * (values - estimate) / m.sum())
    else:
        changes = by_item(torch.where(y > 0, changed / (m - 1), changed / m) - values) / classes
        total = by_item(weights * shares)
    bias = (n - 1) * changes.mean()
    error = ((n - 1) / n * (changes - changes.mean()).square().sum() + bias**2 / 4).sqrt()
    quantile = student_quantile(0.95, df)
    return {
        "jackknife": logit(estimate - bias, error, quantile),
        "influence": logit(estimate, total.square().sum().sqrt(), quantile),
    }


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
    by_share = {share: limit(share, distance) for share in set(shares)}
    limits, weights = torch.tensor([by_share[share] for share in shares]), torch.tensor(shares)
    truths = {"macro": float(limits.mean()), "weighted": float((limits * weights).sum() / weights.sum())}
    found: Tally = {}
    for _ in range(repetitions):
        preds, target = drawn(task, n, shares, distance, correlation, generator)
        for average in ("macro", "weighted") if task == "classes" else ("macro",):
            for method, (low, high) in intervals(preds, target, average == "weighted").items():
                if not math.isnan(low):
                    tally(found, (average, method), bool(low <= truths[average] <= high), float(high - low))
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
