"""Intervals by Dirichlet weights: AP at another prevalence, AP of sampled misses, and AP of plain samples."""

from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import (
    average_precision_interval,
    normalized_average_precision_interval,
    precision_recall_gain_interval,
)

_DRAWS = 200
_SCORE = 1.645  # 95% of the misses have a lower score
# (n, prevalence of the sample, prevalence of the population, d')
PREVALENCE = ((500, 0.2, 0.02, 1.0), (400, 0.5, 0.05, 2.0), (400, 0.5, 0.005, 2.0), (400, 0.5, 0.001, 3.0))
# (n of the population's sample, prevalence, rate of misses with high scores, rate of the others, d')
SAMPLED = (
    (20_000, 0.01, 0.1, 0.1, 2.0),
    (20_000, 0.01, 0.02, 0.02, 2.0),
    (5000, 0.05, 0.2, 0.2, 1.5),
    (20_000, 0.01, 1.0, 0.02, 2.0),
)
# (n, prevalence, d')
PLAIN = ((100, 0.05, 1.0), (20, 0.5, 2.0), (300, 0.1, 3.0), (1000, 0.1, 1.5), (3000, 0.01, 0.0))
GAIN = ((100, 0.1, 1.5), (300, 0.1, 3.0), (1000, 0.1, 1.5), (1000, 0.1, 0.0), (1000, 0.5, 0.0))


def _interval(found: Tally, truth: float, *data: torch.Tensor, **options: Any) -> None:
    """Count the intervals that contain the truth; ends that do not exist contain nothing."""
    ends = average_precision_interval(*data, n_resamples=_DRAWS, **options)
    inside = bool(ends.low <= truth) and bool(truth <= ends.high)
    tally(found, ("covers",), inside, float((ends.high - ends.low).nan_to_num()))


def _items(n: int, share: float, distance: float, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores and labels of a sample."""
    target = torch.rand(n, generator=generator) < share
    return torch.randn(n, generator=generator) + distance * target, target.long()


def prevalence(
    n: int, share: float, wanted: float, distance: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    found, truth = Tally(), limit(wanted, distance)
    for _ in range(repetitions):
        _interval(found, truth, *_items(n, share, distance, generator), prevalence=wanted, generator=generator)
    return found


def sampled(
    n: int, share: float, high: float, rest: float, distance: float, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Keep all hits, and misses at a rate that depends on their score."""
    found, truth = Tally(), limit(share, distance)
    for _ in range(repetitions):
        scores, target = _items(n, share, distance, generator)
        rate = torch.where(target == 1, 1.0, torch.where(scores > _SCORE, high, rest))
        kept = torch.rand(n, generator=generator) < rate
        weights = 1 / rate[kept]
        _interval(found, truth, scores[kept], target[kept], sampling_weights=weights, generator=generator)
    return found


def plain(n: int, share: float, distance: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    found, truth = Tally(), limit(share, distance)
    for _ in range(repetitions):
        _interval(found, truth, *_items(n, share, distance, generator), method="dirichlet", generator=generator)
    return found


def gain(n: int, share: float, distance: float, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Normalized AP and the area under the precision-recall-gain curve."""
    found, area = Tally(), gain_limit(share, distance)
    normalized = (limit(share, distance) - share) / (1 - share)
    for _ in range(repetitions):
        data = _items(n, share, distance, generator)
        for name, truth, ends in (
            ("normalized AP", normalized, normalized_average_precision_interval(*data)),
            ("AUPRG", area, precision_recall_gain_interval(*data, n_resamples=_DRAWS, generator=generator)),
        ):
            inside = bool(ends.low <= truth) and bool(truth <= ends.high)
            tally(found, (name,), inside, float((ends.high - ends.low).nan_to_num()))
    return found


def gain_limit(share: float, distance: float) -> float:
    """Integrate the precision gain over the recall gain, by quadrature over recall from the share of hits to 1."""
    recall = torch.linspace(share, 1, 200_001, dtype=torch.float64)[:-1]
    fall_out = torch.special.ndtr(torch.special.ndtri(recall) - distance)
    odds = share / (1 - share)
    precision_gain, recall_gain = 1 - fall_out / recall, 1 - odds * (1 - recall) / recall
    return float(torch.trapezoid(precision_gain, recall_gain))


def sections(options: Options) -> list[Section]:
    many, at_once = options.repetitions, 50
    return [
        Section(
            tasks_of(prevalence, PREVALENCE, many, at_once),
            lambda found: _lines(
                found,
                f"AP at another prevalence: {many} repetitions",
                "`average_precision_interval(..., prevalence=)`. The truth is the limit at the prevalence of the "
                "population.",
                "n, prevalence of the sample, of the population, d'",
                lambda case: limit(case[2], case[3]),
            ),
        ),
        Section(
            tasks_of(sampled, SAMPLED, many, at_once),
            lambda found: _lines(
                found,
                f"AP of sampled misses: {many} repetitions",
                "`average_precision_interval(..., sampling_weights=)`. Of n items, all hits are kept, and misses at "
                f"one rate if their score is above {_SCORE}, as for 5% of them, and at another rate otherwise.",
                "n, prevalence, rate above, rate below, d'",
                lambda case: limit(case[1], case[4]),
            ),
        ),
        Section(
            tasks_of(plain, PLAIN, many, at_once),
            lambda found: _lines(
                found,
                f'AP by method "dirichlet", m random: {many} repetitions',
                "Samples without hits have no interval and count as not covered.",
                "n, prevalence, d'",
                lambda case: limit(case[1], case[2]),
            ),
        ),
        Section(tasks_of(gain, GAIN, many, at_once), lambda found: _gain_lines(found, many)),
    ]


def _lines(found: dict[tuple[Any, ...], Tally], title: str, text: str, case_head: str, truth: Any) -> list[str]:
    out = [f"\n## {title} of each configuration\n", f"{text}\n"]
    out += report.head(case_head, "limit", "covers 95%", "s.e.", "mean width")
    for case, tallies in found.items():
        share = tallies["covers",]
        cells = f"{share.value:.3f}", f"{share.error:.4f}", report.width([share])
        out.append(report.row(", ".join(f"{x:g}" for x in case), f"{truth(case):.3f}", *cells))
    return out


def _gain_lines(found: dict[tuple[Any, ...], Tally], many: int) -> list[str]:
    out = [f"\n## Normalized AP and precision-recall gain, m random: {many} repetitions of each configuration\n"]
    out += ["`normalized_average_precision_interval` and `precision_recall_gain_interval`.\n"]
    out += report.head("what", "n, prevalence, d'", "limit", "covers 95%", "s.e.", "mean width")
    for name in ("normalized AP", "AUPRG"):
        for case, tallies in found.items():
            _, share, distance = case
            truth = gain_limit(share, distance) if name == "AUPRG" else (limit(share, distance) - share) / (1 - share)
            one = tallies[name,]
            cells = f"{truth:.3f}", f"{one.value:.3f}", f"{one.error:.4f}", report.width([one])
            out.append(report.row(name, ", ".join(f"{x:g}" for x in case), *cells))
    return out
