"""Runs against a baseline, the first run, query by query: difference or ratio of geometric means, with p-values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from torch_ap.cli.tables import number
from torch_ap.evaluation.queries import GM_FLOOR, floored_logs
from torch_ap.files.report import Result
from torch_ap.inference.queries import Method, QueryComparison, compare_queries

DIFFERENCES = ("queries", "difference", "low", "high", "standard_error", "effect_size", "p_t", "p_randomization")
RATIOS = ("queries", "ratio", "ratio_low", "ratio_high", "log_standard_error", "log_effect_size", *DIFFERENCES[-2:])
_TESTS: tuple[Method, ...] = ("t", "randomization")
_UNDEFINED = "-: undefined, for one query, or where all differences are equal"


@dataclass(frozen=True)
class Settings:
    """What ``--confidence-level`` and ``--n-resamples`` say."""

    confidence_level: float = 0.95
    n_resamples: int = 10_000


@dataclass(frozen=True)
class Compared:
    """A run against the baseline by one measure.

    Attributes:
        names: of the numbers: ``DIFFERENCES``, or ``RATIOS`` where the aggregate is a geometric mean.
        numbers: by name; only "queries", 0, where no query is shared.
    """

    names: tuple[str, ...]
    numbers: dict[str, float]


Comparisons = dict[str, dict[str, Compared]]


def compared(run: Result, baseline: Result, settings: Settings) -> dict[str, QueryComparison]:
    """The run minus the baseline, over the queries that both have, by name of the test; none where none is shared.

    Where the aggregate is a geometric mean, the values are logs, raised to trec_eval's floor first: the difference is
    the log of the ratio of geometric means.
    """
    place = {query: i for i, query in enumerate(baseline.queries)}
    shared = [(i, place[query]) for i, query in enumerate(run.queries) if query in place]
    if not shared:
        return {}
    mine, base = torch.tensor(shared).t()
    a, b, bounds = run.values[mine], baseline.values[base], (0.0, 1.0)
    if baseline.geometric:
        a, b, bounds = floored_logs(a), floored_logs(b), (math.log(GM_FLOOR), 0.0)
    level, count = settings.confidence_level, settings.n_resamples
    return {
        x: compare_queries(a, b, confidence_level=level, method=x, bounds=bounds, n_resamples=count) for x in _TESTS
    }


def comparisons(results: Mapping[str, Mapping[str, Result]], settings: Settings) -> Comparisons:
    """The numbers of each run but the baseline and each measure.

    Args:
        results: measures by name, of each run by name; the first run is the baseline.
        settings: of the interval and the test.
    """
    first, *others = results
    return {
        run: {
            name: _numbers(compared(results[run][name], base, settings), base.geometric)
            for name, base in results[first].items()
            if not base.counted
        }
        for run in others
    }


def tables(found: Comparisons, baseline: str, settings: Settings) -> list[list[tuple[str, ...]]]:
    """Rows of text under a head, one per measure and run: a table of differences and one of ratios, as needed.

    Args:
        found: of :func:`comparisons`.
        baseline: name of the run that the others are compared with.
        settings: those of :func:`comparisons`.
    """
    measures = next(iter(found.values()), {})
    both = []
    for names, head in ((DIFFERENCES, f"run - {baseline}"), (RATIOS, f"run / {baseline}")):
        rows = [
            _row(name, run, one[name].numbers, names)
            for name in measures
            for run, one in found.items()
            if one[name].names == names
        ]
        ends = [f"{100 * settings.confidence_level:.10g}% {end}" for end in ("low", "high")]
        both.append([("measure", "run", "queries", head, *ends, "p (t)", "p (randomization)"), *rows])
    return [rows for rows in both if len(rows) > 1]


def notes(found: Comparisons) -> list[str]:
    """What the "-" in tables of these numbers stands for, one line; none where there is none."""
    every = (x for measures in found.values() for one in measures.values() for x in one.numbers.values())
    return [_UNDEFINED] if any(map(math.isnan, every)) else []


def _row(name: str, run: str, numbers: Mapping[str, float], names: tuple[str, ...]) -> tuple[str, ...]:
    _, *ends, _, _, p_t, p_randomization = names
    form = "+.4f" if names == DIFFERENCES else ".4g"
    cells = [number(numbers.get(x), form) for x in ends] + [
        number(numbers.get(x), ".4g") for x in (p_t, p_randomization)
    ]
    return (name, run, str(numbers["queries"]), *cells)


def _numbers(by_test: Mapping[str, QueryComparison], geometric: bool) -> Compared:
    names = RATIOS if geometric else DIFFERENCES
    if not by_test:
        return Compared(names, {"queries": 0})
    found = by_test["t"]
    scale = math.exp if geometric else float
    ends = (scale(x) for x in (found.difference, found.low, found.high))
    p_values = (float(by_test[test].p_value) for test in _TESTS)
    values = (found.queries, *ends, float(found.standard_error), float(found.effect_size), *p_values)
    return Compared(names, dict(zip(names, values, strict=True)))
