"""Precision, recall and F of a threshold that is chosen on the same items."""

import itertools
import statistics
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap import functional

_CASES = [(100, 0.3, 1.5), (300, 0.1, 1.5), (1000, 0.03, 2.0), (3000, 0.1, 1.5)]
_WANTED: dict[str, dict[str, Any]] = {"best F1": {}, "precision 0.7": {"precision": 0.7}, "recall 0.8": {"recall": 0.8}}
_REPLICATES = 500
_METHODS = ("posterior", "bootstrap")
_RATIOS = ("precision", "recall", "f_beta")


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


def sections(options: Options) -> list[Section]:
    cases = [(*case, wanted) for wanted in _WANTED for case in _CASES]
    return [Section(tasks_of(chosen, cases, options.resampled // 2, 50), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## Operating points, `Curve.operating_point`, at 95%: {options.resampled // 2} repetitions of each of "
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
