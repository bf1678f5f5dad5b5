"""Labels with known noise, and few human labels with the labels of a judge."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.rankings import limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import (
    PredictionPoweredInterval,
    average_precision_interval,
    noisy_average_precision_interval,
    prediction_powered_average_precision_interval,
    prediction_powered_mean_interval,
)

# (n, prevalence, d', false positive rate, false negative rate)
NOISE = (
    (2000, 0.1, 2.0, 0.01, 0.1),
    (5000, 0.05, 1.5, 0.02, 0.1),
    (1000, 0.3, 1.5, 0.05, 0.05),
    (2000, 0.1, 2.0, 0.1, 0.1),
    (20_000, 0.01, 2.0, 0.01, 0.1),
    (2000, 0.02, 2.0, 0.1, 0.1),
)
# (n, human labels, prevalence, d', judge): share of wrong labels of the judge, .5 for labels at random
JUDGED = (
    (5000, 500, 0.1, 1.5, 0.1),
    (5000, 500, 0.1, 1.5, 0.5),
    (5000, 500, 0.1, 3.0, 0.1),
    (5000, 200, 0.1, 1.5, 0.05),
    (5000, 300, 0.3, 1.5, 0.1),
    (2000, 100, 0.5, 1.5, 0.1),
)
# (units, human values, "AP" or precision, error of the judge)
MEANS = (
    (200, 15, "AP", 0.12),
    (200, 30, "AP", 0.12),
    (200, 30, "AP", 9.0),
    (100, 20, "P@k", 0.1),
    (1000, 100, "P@k", 0.1),
)


def _count(found: Tally, name: str, ends: tuple[Tensor, Tensor], truth: float) -> None:
    low, high = ends
    tally(found, (name,), bool(low <= truth) and bool(truth <= high), float((high - low).nan_to_num()))


def noise(
    n: int, share: float, distance: float, alpha: float, beta: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    found, truth = Tally(), limit(share, distance)
    for _ in range(repetitions):
        target = torch.rand(n, generator=generator) < share
        scores = torch.randn(n, generator=generator) + distance * target
        chance = torch.rand(n, generator=generator)
        noisy = torch.where(target, chance >= beta, chance < alpha).long()
        plain = average_precision_interval(scores, noisy)
        fixed = noisy_average_precision_interval(scores, noisy, false_positive_rate=alpha, false_negative_rate=beta)
        _count(found, "before", (plain.low, plain.high), truth)
        _count(found, "after", (fixed.low, fixed.high), truth)
    return found


def judged(
    n: int, labels: int, share: float, distance: float, errors: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    found, truth = Tally(), limit(share, distance)
    for _ in range(repetitions):
        target = (torch.rand(n, generator=generator) < share).long()
        scores = torch.randn(n, generator=generator) + distance * target
        wrong = torch.rand(n, generator=generator) < errors
        judge, human = torch.where(wrong, 1 - target, target), torch.full_like(target, -1)
        chosen = torch.randperm(n, generator=generator)[:labels]
        human[chosen] = target[chosen]
        _both(found, prediction_powered_average_precision_interval(scores, human, judge), truth)
    return found


def means(units: int, labels: int, what: str, error: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Values of queries are Beta(1.2, 2); labels of items are 1 with probability .6."""
    found, rates = Tally(), torch.tensor([1.2, 2.0], dtype=torch.float64)
    for _ in range(repetitions):
        if what == "AP":
            gamma = torch._standard_gamma(rates.expand(units, 2), generator)
            values = gamma[:, 0] / gamma.sum(1)
            noise = error * torch.randn(units, generator=generator, dtype=torch.float64)
            judge, truth = (values + noise).clamp(0, 1), 1.2 / 3.2
        else:
            values = (torch.rand(units, generator=generator) < 0.6).double()
            wrong = torch.rand(units, generator=generator) < error
            judge, truth = torch.where(wrong, 1 - values, values), 0.6
        human = torch.full_like(values, torch.nan)
        chosen = torch.randperm(units, generator=generator)[:labels]
        human[chosen] = values[chosen]
        _both(found, prediction_powered_mean_interval(human, judge), truth)
    return found


def _both(found: Tally, ends: PredictionPoweredInterval, truth: float) -> None:
    _count(found, "before", (ends.human_low, ends.human_high), truth)
    _count(found, "after", (ends.low, ends.high), truth)


def sections(options: Options) -> list[Section]:
    many = options.repetitions
    parts: tuple[tuple[Any, Any, str, str, str, str], ...] = (
        (
            noise, NOISE, "AP of noisy labels", "`noisy_average_precision_interval`; where the ends are NaN, the truth "
            "is not covered.", "n, prevalence, d', false positive and false negative rate", "noisy labels",
        ),
        (
            judged, JUDGED, "AP of few human labels and a judge",
            "`prediction_powered_average_precision_interval`; the judge errs with the last probability, and .5 is a "
            "judge without information.",
            "n, human labels, prevalence, d', errors", "human labels",
        ),
        (
            means, MEANS, "Means of few human values and a judge", "`prediction_powered_mean_interval`: MAP of queries "
            "whose AP the judge changes by a normal error, and P@k of items whose label the judge changes.",
            "units, human values, what, error of the judge", "human values",
        ),
    )  # fmt: skip
    return [
        Section(
            tasks_of(run, cases, many, 200),
            partial(_lines, many, title, text, head, alone),
        )
        for run, cases, title, text, head, alone in parts
    ]


def _lines(many: int, title: str, text: str, head: str, alone: str, found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [f"\n## {title}: {many} repetitions of each configuration\n", f"{text}\n"]
    out += report.head(head, f"{alone} cover 95%", "corrected covers", "s.e. at most", "width before", "width after")
    for case, tallies in found.items():
        shares = [tallies[name,] for name in ("before", "after")]
        cells = *(f"{x.value:.3f}" for x in shares), report.largest_error(shares), *(report.width([x]) for x in shares)
        out.append(report.row(", ".join(x if isinstance(x, str) else f"{x:g}" for x in case), *cells))
    return out
