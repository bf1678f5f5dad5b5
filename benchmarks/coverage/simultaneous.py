"""Simultaneous statements: a whole precision-recall curve, all classes, all looks."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import average_precision_interval, precision_band

_RECALL = torch.arange(2, 19, dtype=torch.float64) / 20  # .1 to .9
_DRAWS = 500
# (n, prevalence, d')
BANDS = ((300, 0.1, 1.0), (300, 0.1, 2.0), (300, 0.1, 3.0), (2000, 0.02, 3.0), (1000, 0.1, 1.5))
# (n, classes, lowest and highest prevalence, d', correlation of the scores)
CLASSES = ((1000, 10, 0.1, 0.1, 1.5, 0.5), (2000, 20, 0.01, 0.3, 1.5, 0.5), (500, 10, 0.05, 0.05, 1.0, 0.8))
# (prevalence, d', items at the first and the last look, looks)
LOOKS = ((0.1, 1.5, 200, 5000, 25), (0.1, 3.0, 500, 5000, 10), (0.02, 2.0, 1000, 20_000, 20))


def band(n: int, share: float, distance: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the bands that contain the curve of the population at all levels."""
    found = Tally()
    fall_out = torch.special.ndtr(torch.special.ndtri(_RECALL) - distance)
    truth = share * _RECALL / (share * _RECALL + (1 - share) * fall_out)
    for _ in range(repetitions):
        target = torch.rand(n, generator=generator) < share
        scores = torch.randn(n, generator=generator) + distance * target
        for name in ("pointwise", "simultaneous"):
            ends = precision_band(
                scores, target.long(), _RECALL, simultaneous=name == "simultaneous", n_resamples=_DRAWS,
                generator=generator,
            )  # fmt: skip
            inside = bool(((ends.low <= truth) & (truth <= ends.high)).all())
            tally(found, (name,), inside, float((ends.high - ends.low).mean().nan_to_num()))
    return found


def classes(
    n: int, count: int, low: float, high: float, distance: float, correlation: float,
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    """Count the samples in which the intervals of all classes contain their limits."""
    shares = torch.logspace(math.log10(low), math.log10(high), count)
    truth, found = torch.tensor([limit(float(share), distance) for share in shares]), Tally()
    for _ in range(repetitions):
        target = torch.rand(n, count, generator=generator) < shares
        shared, own = torch.randn(n, 1, generator=generator), torch.randn(n, count, generator=generator)
        scores = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own + distance * target
        for name in ("pointwise", "simultaneous"):
            ends = average_precision_interval(
                scores, target.long(), simultaneous=name == "simultaneous", generator=generator
            )
            inside = bool(((ends.low <= truth) & (truth <= ends.high)).all())
            tally(found, (name,), inside, float((ends.high - ends.low).nanmean()))
    return found


def looks(
    share: float, distance: float, first: int, last: int, count: int,
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    """Count the samples in which the intervals of all looks contain the limit."""
    truth, found = limit(share, distance), Tally()
    sizes = np.unique(np.geomspace(first, last, count).astype(int)).tolist()
    for _ in range(repetitions):
        target = torch.rand(last, generator=generator) < share
        scores, target = torch.randn(last, generator=generator) + distance * target, target.long()
        for name, first_look in (("pointwise", None), ("simultaneous", first)):
            every = [average_precision_interval(scores[:n], target[:n], first_look=first_look) for n in sizes]
            inside = all(bool(x.low <= truth) and bool(truth <= x.high) for x in every)
            tally(found, (name,), inside, float((every[-1].high - every[-1].low).nan_to_num()))
    return found


def sections(options: Options) -> list[Section]:
    many = options.repetitions
    parts: tuple[tuple[Any, Any, int, str, str, str], ...] = (
        (
            band, BANDS, 50, "A whole precision-recall curve",
            f"All {len(_RECALL)} levels of recall from .1 to .9; `precision_band(..., simultaneous=True)`.",
            "n, prevalence, d'",
        ),
        (
            classes, CLASSES, 50, "All classes",
            "`average_precision_interval(..., simultaneous=True)` of labels, whose prevalences are spaced evenly on a "
            "logarithmic scale.",
            "n, labels, lowest and highest prevalence, d', correlation of the scores",
        ),
        (
            looks, LOOKS, 25, "All looks at a growing sample",
            "`average_precision_interval(..., first_look=)`; the width is that of the last look.",
            "prevalence, d', items at the first look, at the last look, looks",
        ),
    )  # fmt: skip
    return [
        Section(
            tasks_of(run, cases, many, at_once),
            partial(lines, many, title, text, head),
        )
        for run, cases, at_once, title, text, head in parts
    ]


def lines(many: int, title: str, text: str, head: str, found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [f"\n## {title}, at once: {many} repetitions of each configuration\n", f"{text}\n"]
    names = ("pointwise", "simultaneous")
    out += report.head(head, *(f"{name} covers 95%" for name in names), "s.e. at most", *(f"{x} width" for x in names))
    for case, tallies in found.items():
        shares = [tallies[name,] for name in names]
        cells = *(f"{x.value:.3f}" for x in shares), report.largest_error(shares), *(report.width([x]) for x in shares)
        out.append(report.row(", ".join(f"{x:g}" for x in case), *cells))
    return out
