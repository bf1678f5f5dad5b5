"""Items in groups with random effects: precision, recall and F at a threshold, and two systems' decisions."""

import functools
import itertools
import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.groups import sample
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap import functional
from torch_ap.core.ranking.builders import from_scores
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import compare_decisions
from torch_ap.inference.groups_at_threshold import ItemGroups
from torch_ap.inference.operating_point import ThresholdCriterion

_LEVEL = 0.95
_LARGE, _DISTANCE = 20_000, 1.5  # groups of the population, and d'
_SIZES = (
    (6, 100, "equal"), (10, 100, "equal"), (10, 100, "geometric"), (20, 50, "equal"), (20, 50, "geometric"),
    (50, 20, "equal"), (50, 20, "geometric"), (200, 5, "equal"), (200, 5, "geometric"),
)  # fmt: skip
_COMPARED = ((10, 100, "equal"), (20, 50, "geometric"), (50, 20, "equal"), (200, 5, "geometric"))
_EFFECTS = ((0.5, 1.0, -2.0), (1.0, 1.0, -1.0))  # as in the section on AP of items in groups
_WANTED: dict[str, dict[str, Any]] = {
    "fixed at 1": {"threshold": 1.0}, "fixed at 2": {"threshold": 2.0}, "precision 0.7": {"precision": 0.7},
    "recall 0.8": {"recall": 0.8}, "best F1": {},
}  # fmt: skip
_RATIOS = ("precision", "recall", "f_beta")
_POSTERIORS = 5  # repetitions of each task with intervals of independent items
_SWAPS, _FEW = 400, 10  # random swaps of more groups


@functools.cache
def population(size: int, sizes: str, effects: Any) -> tuple[Tensor, Tensor]:
    """Return the scores of the items of many groups, negated and ascending, and the running number of hits."""
    (scores,), target, _ = sample(_LARGE, size, sizes, effects, (_DISTANCE,), 0.0, torch.Generator().manual_seed(0))
    ordered, place = scores.sort(descending=True)
    return -ordered, target[place].cumsum(0)


def truths(size: int, sizes: str, effects: Any, threshold: Tensor) -> tuple[float, float, float]:
    """Return precision, recall and F1 of a threshold in the population."""
    negated, hits = population(size, sizes, effects)
    n = max(1, int(torch.searchsorted(negated, -threshold, right=True)))
    tp, m = float(hits[n - 1]), float(hits[-1])
    return tp / n, tp / m, 2 * tp / (n + m)


def covered(groups: int, size: int, sizes: str, effects: Any, *, repetitions: int, generator: Any) -> Tally:
    """Return how often the intervals contain the ratios of the population at the threshold."""
    found = Tally()
    for place in range(repetitions):
        (scores,), target, ids = sample(groups, size, sizes, effects, (_DISTANCE,), 0.0, generator)
        if not target.any():
            continue
        ranking, items = from_scores(scores, target == 1), ItemGroups(scores, target == 1, ids, groups)
        every = {wanted: threshold_of(ranking, settings) for wanted, settings in _WANTED.items()}
        thresholds = {wanted: x for wanted, x in every.items() if x is not None}
        names = list(thresholds)
        given, order = torch.stack(list(thresholds.values())).sort(descending=True)
        low, high = items.ends(given, float(target.sum()), 1.0, _LEVEL)
        for column, index in enumerate(order.tolist()):
            wanted, truth = names[index], truths(size, sizes, effects, given[column])
            ends: dict[str, list[Any]] = {
                "groups": list(zip(low[:, column].tolist(), high[:, column].tolist(), strict=True))
            }
            if place < _POSTERIORS:
                point = functional.binary_curve(scores, target).operating_point(**_WANTED[wanted])
                ends["independent"] = [
                    [float(getattr(point, f"{x}_{end}")) for end in ("low", "high")] for x in _RATIOS
                ]
            for method, pairs in ends.items():
                for name, value, (a, b) in zip(_RATIOS, truth, pairs, strict=True):
                    if not math.isnan(a):
                        tally(found, (wanted, name, method), a <= value <= b, b - a)
    return found


def threshold_of(ranking: HitCurve, settings: dict[str, float]) -> Tensor | None:
    """Return the threshold of settings of ``Curve.operating_point``, 0-d; None if there is none."""
    assert ranking.score is not None
    if "threshold" in settings:
        return torch.tensor(settings["threshold"])
    entry = int(ThresholdCriterion(**settings).best_entries(ranking)[0])
    return ranking.score[entry] if entry < len(ranking.score) else None


def decisions(groups: int, size: int, sizes: str, correlation: float, *, repetitions: int, generator: Any) -> Tally:
    """Return how often the tests reject for two equally good systems that decide at a threshold of 1."""
    found = Tally()
    for _ in range(repetitions):
        effects, distances = (0.7, 1.0, -1.5), (_DISTANCE, _DISTANCE)
        (a, b), target, ids = sample(groups, size, sizes, effects, distances, correlation, generator)
        for measure in ("precision", "recall", "f_beta"):
            test = functools.partial(compare_decisions, a >= 1, b >= 1, target, measure=measure, n_resamples=_SWAPS)
            # 2^20 cases would take most of the time
            exact = {} if groups <= _FEW else {"method": "randomization", "generator": generator}
            for method, p in (("groups", test(groups=ids, **exact).p_value), ("independent", test().p_value)):
                if not p.isnan():
                    tally(found, (measure, method), p <= 1 - _LEVEL)
    return found


def sections(options: Options) -> list[Section]:
    cases = [(*sizes, effects) for sizes, effects in itertools.product(_SIZES, _EFFECTS)]
    pairs = [(*sizes, correlation) for sizes, correlation in itertools.product(_COMPARED, (0.0, 0.8))]
    return [
        Section(tasks_of(covered, cases, options.repetitions, 100), _lines),
        Section(tasks_of(decisions, pairs, options.repetitions, 250), _lines_of_decisions),
    ]


def _lines_of_decisions(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    shares = [x for tallies in found.values() for x in tallies.values()]
    out = [
        "\n## Decisions of two equally good systems on items in groups, `compare_decisions(groups=)`: rejections at "
        "nominal 5%\n",
        "Effects as in the section on two systems in groups; both systems decide at a threshold of 1. The decisions on "
        f"all items of a group are swapped together, in all ways up to {_FEW} groups, else in {_SWAPS} random ways. "
        f"{max(x.trials for x in shares)} repetitions, s.e. up to {report.largest_error(shares)}. The last column "
        "takes the items as independent.\n",
    ]
    names = ("precision", "recall", "F1")
    out += report.head("groups", "size", "correlation", *(f"{x}: rejects" for x in names), "independent")
    for (groups, size, sizes, correlation), tallies in found.items():
        rows = {method: [tallies[x, method] for x in _RATIOS] for method in ("groups", "independent")}
        cells = [str(groups), f"{size} {sizes}", f"{correlation:g}", *(f"{x.value:.3f}" for x in rows["groups"])]
        out.append(report.row(*cells, report.extent(rows["independent"])))
    return out


def _lines(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    shares = [x for tallies in found.values() for key, x in tallies.items() if key[2] == "groups"]
    out = [
        "\n## Precision, recall and F1 of items in groups at a threshold, `Curve.operating_point`: coverage of 95%\n",
        "About 1,000 items with the effects of the section on AP in groups, and the ratios of the items of "
        f"{_LARGE:,} groups at the threshold of the sample. Delete-one-group jackknife. "
        f"{max(x.trials for x in shares)} repetitions, s.e. up to {report.largest_error(shares)}. Samples without a "
        "threshold or without an interval are left out. The last column is the range of the posteriors, which take "
        f"the items as independent, with {_POSTERIORS} of 100 repetitions.\n",
    ]
    names = [f"{name}: covers" for name in ("precision", "recall", "F1")]
    out += report.head("groups", "size", "effects", "threshold", *names, "independent")
    for ((groups, size, sizes, effects), tallies), wanted in itertools.product(found.items(), _WANTED):
        cells = [str(groups), f"{size} {sizes}", f"{effects[0]:g}, {effects[1]:g}", wanted]
        covers = [tallies[wanted, name, "groups"] for name in _RATIOS]
        others = [tallies[wanted, name, "independent"] for name in _RATIOS]
        out.append(report.row(*cells, *(f"{x.value:.3f}" for x in covers), report.extent(others)))
    return out
