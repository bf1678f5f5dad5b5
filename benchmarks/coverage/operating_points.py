"""Precision, recall and F of a threshold that is chosen on the same items, and the difference of two highest F1."""

import functools
import itertools
import math
import statistics
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap import functional
from torch_ap.inference.ratios import compare_ratios

_CASES = [(100, 0.3, 1.5), (300, 0.1, 1.5), (1000, 0.03, 2.0), (3000, 0.1, 1.5)]
_WANTED: dict[str, dict[str, Any]] = {"best F1": {}, "precision 0.7": {"precision": 0.7}, "recall 0.8": {"recall": 0.8}}
_REPLICATES = 500
_METHODS = ("posterior", "bootstrap")
_RATIOS = ("precision", "recall", "f_beta")
# (n, pi, d' of both systems, correlation of their scores)
_PAIRS = (
    (60, 0.3, 1.5, 1.5, 0.5), (100, 0.3, 1.5, 1.5, 0.5), (100, 0.3, 2.5, 1.5, 0.5), (300, 0.1, 1.5, 1.5, 0.5),
    (300, 0.1, 2.5, 1.5, 0.5), (300, 0.1, 1.5, 1.5, 0.9), (1000, 0.05, 2.0, 2.0, 0.5), (1000, 0.05, 2.5, 2.0, 0.8),
)  # fmt: skip


def truths(share: float, distance: float, threshold: float) -> tuple[float, float, float]:
    """Precision, recall and F_1 of a threshold in the population."""
    normal = statistics.NormalDist()
    recall, fall_out = 1 - normal.cdf(threshold - distance), 1 - normal.cdf(threshold)
    retrieved = share * recall + (1 - share) * fall_out
    return share * recall / retrieved, recall, 2 * share * recall / (share + retrieved)


def chosen(
    n: int, share: float, distance: float, wanted: str, *, repetitions: int, generator: torch.Generator
) -> Tally:
    """Compare with the population value at the chosen threshold. Samples without a threshold are left out."""
    found: Tally = {}
    for _ in range(repetitions):
        target = (torch.rand(n, generator=generator) < share).long()
        scores = torch.randn(n, generator=generator, dtype=torch.float64) + distance * target
        curve = functional.binary_curve(scores, target)
        for method in _METHODS:
            point = curve.operating_point(**_WANTED[wanted], method=method, n_resamples=_REPLICATES)
            if torch.isnan(point.threshold):
                break
            for name, truth in zip(_RATIOS, truths(share, distance, float(point.threshold)), strict=True):
                low, high = (float(getattr(point, name + end)) for end in ("_low", "_high"))
                tally(found, (name, method), low <= truth <= high, high - low)
                # the mean of what the sample promises beyond the truth, as a width
                tally(found, (name, "optimism"), True, float(getattr(point, name)) - truth)
    return found


@functools.cache
def highest_f1(share: float, distance: float) -> float:
    """The highest F1 of any threshold in the population."""
    return max(truths(share, distance, threshold / 1000)[2] for threshold in range(-5000, 8000))


def differences(
    n: int, share: float, first: float, second: float, correlation: float,
    *, repetitions: int, generator: torch.Generator,
) -> Tally:  # fmt: skip
    """Compare with the difference of both thresholds in the population, and with that of the highest F1 there."""
    highest = highest_f1(share, first) - highest_f1(share, second)
    relevant = torch.rand(repetitions, n, generator=generator) < share
    shared, *noise = torch.randn(3, repetitions, n, generator=generator, dtype=torch.float64)
    m, sums, values = relevant.sum(1, keepdim=True), [], []
    for distance, own in zip((first, second), noise, strict=True):
        scores = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own + distance * relevant
        ordered, place = scores.sort(1, descending=True)
        f1 = 2 * relevant.gather(1, place).cumsum(1) / (torch.arange(1, n + 1) + m)
        threshold = ordered.gather(1, f1.argmax(1, keepdim=True))
        values.append([truths(share, distance, x)[2] for x in threshold.flatten().tolist()])
        decisions = scores >= threshold
        sums.append((2.0 * (decisions & relevant), decisions.double() + relevant))
    found = Tally()
    for row in m.flatten().nonzero().flatten().tolist():
        a, b = ((x[row], y[row]) for x, y in sums)
        compared = compare_ratios(a, b, confidence_level=0.95)
        for name, truth in (("at the thresholds", values[0][row] - values[1][row]), ("highest", highest)):
            inside = bool(compared.low <= truth) and bool(truth <= compared.high)
            tally(found, (name,), inside, float((compared.high - compared.low).nan_to_num()))
    return found


def sections(options: Options) -> list[Section]:
    cases = [(*case, wanted) for wanted in _WANTED for case in _CASES]
    return [
        Section(tasks_of(chosen, cases, options.resampled, 50), lambda found: _lines(found, options)),
        Section(tasks_of(differences, _PAIRS, options.repetitions, 500), _lines_of_differences),
    ]


def _lines_of_differences(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    out = [
        "\n## Difference of the highest F1 of two systems on the same items, `compare_ratios`: coverage of 95%\n",
        "Each system has the threshold of its highest F1 on these items, which the interval takes as fixed. The truth "
        "is the difference in the population, at these thresholds or of the highest F1 there. Samples without hits are "
        "left out, and intervals that do not exist contain nothing.\n",
    ]
    columns = ("repetitions", "at the thresholds", "highest F1", "s.e. at most", "mean width")
    out += report.head("n, pi, d' of both, correlation", *columns)
    for case, tallies in found.items():
        shares = [tallies["at the thresholds",], tallies["highest",]]
        cells = f"{shares[0].trials}", *(f"{x.value:.3f}" for x in shares)
        text = ", ".join(f"{x:g}" for x in case)
        out.append(report.row(text, *cells, report.largest_error(shares), report.width(shares)))
    return out


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## Operating points, `Curve.operating_point`, at 95%: {options.resampled} repetitions of each of "
        f"{len(_CASES)} configurations\n",
        "The threshold is chosen on the same items. The truth is its result in the population. m random; (n, "
        f"pi, d') = {', '.join(f'({n}, {share}, {distance:g})' for n, share, distance in _CASES)}; {_REPLICATES} "
        "resamples. Optimism is the result of the sample minus the population, mean over repetitions.\n",
    ]
    columns = ("covers: least / median / greatest", "s.e. at most", "mean width", "optimism: least to greatest")
    out += report.head("wanted", "what", "method", *columns)
    for wanted, name, method in itertools.product(_WANTED, _RATIOS, _METHODS):
        tallies = [shares for case, shares in found.items() if case[-1] == wanted]
        shares, gained = ([one[name, what] for one in tallies] for what in (method, "optimism"))
        gaps = [one.width / one.trials for one in gained]
        cells = report.spread(shares), report.largest_error(shares), report.width(shares)
        label = "F1" if name == "f_beta" else name
        out.append(report.row(wanted, label, method, *cells, f"{min(gaps):.3f} to {max(gaps):.3f}"))
    return out
