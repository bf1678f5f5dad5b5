"""Precision, recall and F at a threshold fixed in advance: intervals of proportions, and posteriors from the counts."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch

from benchmarks.coverage import report
from benchmarks.coverage.at_rank import BOTH_DESIGNS, limit
from benchmarks.coverage.rankings import LEVELS
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.inference import proportion_interval
from torch_ap.inference.posteriors import f_beta_posterior, precision_posterior, recall_posterior

_SMALL = [(50, 0.2, 2.0, 10), (100, 0.2, 2.0, 20), (100, 0.2, 1.0, 5), (300, 0.02, 2.0, 6), (1000, 0.02, 3.0, 20)]
_PROPORTIONS: tuple[Literal["wilson", "clopper-pearson"], ...] = ("wilson", "clopper-pearson")
_PRIORS: tuple[Literal["jeffreys", "uniform"], ...] = ("jeffreys", "uniform")
_BETAS = (0.5, 1.0, 2.0)


def truths(n: int, share: float, distance: float, k: int) -> tuple[float, float]:
    """Precision and recall of the threshold that k of n items reach on average."""
    recall = limit(share, distance, k / n)
    return recall * share * n / k, recall


def at_threshold(
    n: int, share: float, distance: float, k: int, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """The counts are multinomial: an item is a hit or not, and reaches the threshold or not."""
    precision, recall = truths(n, share, distance, k)
    cells = torch.tensor([share * recall, k / n - share * recall, share * (1 - recall)], dtype=torch.float64)
    kinds = torch.cat([cells, 1 - cells.sum(0, keepdim=True)]).repeat(repetitions, 1)
    drawn = torch.multinomial(kinds, n, replacement=True, generator=generator)
    counts = torch.stack([(drawn == kind).sum(1) for kind in range(3)], 1).tolist()
    found = Tally()
    for level in LEVELS:
        shares, posteriors = cache(_shares(level)), cache(_posteriors(level))
        for tp, fp, fn in counts:
            for name, wrong, truth in (("precision", fp, precision), ("recall", fn, recall)):
                for method, low, high in (*shares(tp, wrong), *posteriors(name, tp, wrong)):
                    width = high - low if high >= low else 0.0
                    tally(found, (name, method, level), low <= truth <= high, width)
    for (tp, fp, fn), beta, prior in itertools.product(counts, _BETAS, _PRIORS):
        truth = (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
        # the central interval contains the truth if the cdf of the truth is between the tails
        below = f_beta_posterior(tp, fp, fn, beta=beta, prior=prior).cdf(truth).item()
        for level in LEVELS:
            inside = (1 - level) / 2 <= below <= (1 + level) / 2
            tally(found, (f"F, beta = {beta:g}", f"posterior, {prior}", level), inside)
    return found


_Ends = list[tuple[str, float, float]]


def _shares(level: float) -> Callable[[int, int], _Ends]:
    def ends(right: int, wrong: int) -> _Ends:
        of = [
            (name, proportion_interval(right, right + wrong, confidence_level=level, method=name))
            for name in _PROPORTIONS
        ]
        return [(name, float(one.low), float(one.high)) for name, one in of]

    return ends


def _posteriors(level: float) -> Callable[[str, int, int], _Ends]:
    def ends(name: str, right: int, wrong: int) -> _Ends:
        posterior = precision_posterior if name == "precision" else recall_posterior
        found = {prior: posterior(right, wrong, prior=prior).interval(level) for prior in _PRIORS}
        return [(f"posterior, {prior}", float(low), float(high)) for prior, (low, high) in found.items()]

    return ends


def sections(options: Options) -> list[Section]:
    cases = [*BOTH_DESIGNS, *_SMALL]
    return [Section(tasks_of(at_threshold, cases, options.repetitions, 250), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        "\n## Precision, recall and F at a threshold fixed in advance: "
        f"{options.repetitions} repetitions of each of {len(found)} configurations\n",
        "m random; on average k of n items reach the threshold, with (n, pi, d', k) = "
        f"{', '.join(f'({n}, {share}, {distance:g}, {k})' for n, share, distance, k in found)}. The "
        "intervals of the posteriors are central, with Jeffreys' prior or the uniform prior. The width was not "
        "measured for F. A share of 0 trials has no interval and counts as not covered.\n",
    ]
    columns = ("covers: least / median / greatest", "s.e. at most", "mean width")
    out += report.head("what", "method", "level", *columns)
    for (name, method, level), shares in report.by_key(found).items():
        width = "" if name.startswith("F") else report.width(shares)
        cells = report.spread(shares), report.largest_error(shares), width
        out.append(report.row(name, method, f"{level:.0%}", *cells))
    return out
