"""The best of several systems on the same items: selection-adjusted intervals, and adjusted p-values."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.rankings import limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import builders
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.contributions import ranking_contributions
from torch_ap.inference.resampling import InferenceSettings
from torch_ap.inference.selection import METHODS, SelectionSettings, select_best

_LEVEL, _NOMINAL = 0.95, 0.05
_LEARNING = tuple(1.6 - 1.2 * math.exp(-epoch / 6) for epoch in range(30))
_RISING = tuple(1.1 + 0.4 * place / 9 for place in range(10))
# d' of each system, correlation of the scores of two systems, items, share of hits
_CASES: dict[str, tuple[tuple[float, ...], float, int, float]] = {
    "5 equal": ((1.5,) * 5, 0.5, 2000, 0.1),
    "10 equal": ((1.5,) * 10, 0.8, 2000, 0.1),
    "10 equal, close": ((1.5,) * 10, 0.95, 2000, 0.1),
    "30 equal": ((1.5,) * 30, 0.9, 2000, 0.1),
    "10 equal, 30 hits": ((1.5,) * 10, 0.8, 300, 0.1),
    "10 equal, 10 hits": ((1.5,) * 10, 0.8, 100, 0.1),
    "5 equal, AP .8, 50 hits": ((2.5,) * 5, 0.5, 500, 0.1),
    "10 rising": (_RISING, 0.9, 2000, 0.1),
    "5 of 10 on top": ((*(1.5,) * 5, *(1.3,) * 5), 0.8, 2000, 0.1),
    "30 epochs": (_LEARNING, 0.95, 2000, 0.1),
}


def truths_of(name: str) -> Tensor:
    """Return the limit of the AP of each system of a case."""
    distances, _, _, share = _CASES[name]
    return torch.tensor([limit(share, x) for x in distances], dtype=torch.float64)


def samples(name: str, repetitions: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (S, n) scores of all systems of a case and (n,) labels, with at least two of either kind."""
    distances, correlation, n, share = _CASES[name]
    shifts = torch.tensor(distances, dtype=torch.float64)[:, None]
    for _ in range(repetitions):
        relevant = torch.rand(n, generator=generator) < share
        if min(int(relevant.sum()), n - int(relevant.sum())) < 2:
            continue
        common = torch.randn(n, generator=generator, dtype=torch.float64)
        own = torch.randn(len(distances), n, generator=generator, dtype=torch.float64)
        yield math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own + shifts * relevant, relevant


def best_of_items(name: str, *, repetitions: int, generator: torch.Generator) -> Tally:
    truths, found = truths_of(name), Tally()
    for scores, relevant in samples(name, repetitions, generator):
        systems = [ranking_contributions(builders.from_scores(row, relevant), row, relevant, "iid") for row in scores]
        results = {
            "hybrid": select_best(systems, SelectionSettings("hybrid", _LEVEL, correction="holm")),
            "shifted": select_best(systems, SelectionSettings("shifted", _LEVEL, correction="max-t")),
            "simultaneous": select_best(systems, SelectionSettings("simultaneous", _LEVEL, reference=0)),
        }
        _tally_ends(found, results, truths, builders.from_scores(scores[results["hybrid"].best], relevant))
        _tally_tests(found, results, truths)
    return found


def _tally_ends(found: Tally, results: dict[str, Any], truths: Tensor, curve: Any) -> None:
    """Count the intervals that cover, and sum the errors of the values."""
    best = results["hybrid"].best
    plain = curve_interval(curve, Convention(ties="grouped"), InferenceSettings(_LEVEL))
    ends = {"plain": (plain.low[0], plain.high[0])} | {x: (results[x].low, results[x].high) for x in METHODS}
    for method, (low, high) in ends.items():
        tally(
            found, (method,), bool(low <= truths[best]) and bool(truths[best] <= high), float((high - low).nan_to_num())
        )
    every = results["hybrid"]
    inside = (every.simultaneous_low <= truths) & (truths <= every.simultaneous_high)
    tally(found, ("all at once",), bool(inside.all()))
    for name in ("value", "corrected"):
        error = getattr(every, name) - truths[best]
        tally(found, ("bias", name), error.nan_to_num())
        tally(found, ("square", name), (error**2).nan_to_num())


def _tally_tests(found: Tally, results: dict[str, Any], truths: Tensor) -> None:
    """Count samples with an error among the equal pairs, and sum the detected shares of the different pairs."""
    differ = (truths[:, None] - truths).abs() > 1e-9
    null = ~differ & ~torch.eye(len(truths), dtype=torch.bool)
    for name, p in (("holm", results["hybrid"].adjusted_p_value), ("max-t", results["shifted"].adjusted_p_value)):
        if bool(null.any()):
            tally(found, (name, "error"), bool((p[null] <= _NOMINAL).any()))
        if bool(differ.any()):
            tally(found, (name, "power"), (p[differ] <= _NOMINAL).double().mean())
    if bool(null[0].any()):
        tally(
            found, ("reference", "error"), bool((results["simultaneous"].adjusted_p_value[null[0]] <= _NOMINAL).any())
        )


def sections(options: Options) -> list[Section]:
    tasks = tasks_of(best_of_items, [(name,) for name in _CASES], options.repetitions, 250)
    return [Section(tasks, _lines)]


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    repetitions = max(x.trials for shares in found.values() for x in shares.values())
    out = [
        f"\n## The best of several systems, `best_of`: {repetitions} repetitions\n",
        'm is random, at 95%. "plain" is the interval of the best system alone; "all at once" is the share of samples '
        "in which every simultaneous interval covers. In brackets: the mean width. Bias and root mean squared error "
        "(RMSE) of the best value and of its corrected value.\n",
    ]
    names = ("plain", *METHODS)
    errors = ("bias: value", "corrected", "RMSE: value", "corrected")
    out += report.head("systems", "items, hits", "correlation", *names, "all at once", "s.e. at most", *errors)
    for (name,), shares in found.items():
        _, correlation, n, share = _CASES[name]
        cells = [f"{shares[x,].value:.3f} ({shares[x,].width / shares[x,].trials:.3f})" for x in names]
        error = report.largest_error([shares[x,] for x in (*names, "all at once")])
        biases = [f"{shares['bias', x].value:+.4f}" for x in ("value", "corrected")]
        biases += [f"{math.sqrt(shares['square', x].value):.4f}" for x in ("value", "corrected")]
        setting = (f"{n:,}, {n * share:.0f}", f"{correlation:g}")
        out.append(report.row(name, *setting, *cells, f"{shares['all at once',].value:.3f}", error, *biases))
    out += [
        "\nShare of samples in which a test at 5% rejects for any two equal systems, and share of the different pairs "
        "that it finds:\n"
    ]
    out += report.head(
        "systems", "pairs, holm", "max-t", "against the first, max-t", "s.e. at most", "power, holm", "max-t"
    )
    keys = (("holm", "error"), ("max-t", "error"), ("reference", "error"))
    for (name,), shares in found.items():
        sizes = [shares[key] for key in keys if key in shares]
        cells = [f"{shares[key].value:.3f}" if key in shares else "-" for key in keys]
        powers = [f"{shares[x, 'power'].value:.3f}" if (x, "power") in shares else "-" for x in ("holm", "max-t")]
        out.append(report.row(name, *cells, report.largest_error(sizes) if sizes else "-", *powers))
    return out
