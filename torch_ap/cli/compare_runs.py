"""Runs against the first run, query by query: difference, or ratio of geometric means, interval and p-values."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from torch_ap.cli.options import LEVEL
from torch_ap.evaluation.queries import GM_FLOOR, floored_logs
from torch_ap.files.report import Result
from torch_ap.inference.queries import QueryComparison, compare_queries

DIFFERENCES = ("queries", "difference", "low", "high", "standard_error", "effect_size", "p_t", "p_randomization")
RATIOS = ("queries", "ratio", "ratio_low", "ratio_high", "log_standard_error", "log_effect_size", *DIFFERENCES[-2:])
_UNDEFINED = "-: undefined, for one query, or where all differences are equal"


@dataclass(frozen=True)
class Compared:
    """A run against the first one by one measure.

    Attributes:
        names: of the numbers: ``DIFFERENCES``, or ``RATIOS`` where the aggregate is a geometric mean.
        numbers: by name; only "queries", 0, where no query is shared.
    """

    names: tuple[str, ...]
    numbers: dict[str, float]


Comparisons = dict[str, dict[str, Compared]]


def compared(first: Result, other: Result) -> QueryComparison | None:
    """The other run minus the first, over the queries that both have; None where there is none.

    Where the aggregate is a geometric mean, the values are logs, raised to trec_eval's floor first: the difference is
    the log of the ratio of geometric means.
    """
    place = {query: i for i, query in enumerate(first.queries)}
    shared = [(i, place[query]) for i, query in enumerate(other.queries) if query in place]
    if not shared:
        return None
    mine, base = torch.tensor(shared).t()
    a, b, bounds = other.values[mine], first.values[base], (0.0, 1.0)
    if first.geometric:
        a, b, bounds = floored_logs(a), floored_logs(b), (math.log(GM_FLOOR), 0.0)
    return compare_queries(a, b, level=LEVEL, bounds=bounds)


def comparisons(results: Mapping[str, Mapping[str, Result]]) -> Comparisons:
    """The numbers of each run but the first and each measure.

    Args:
        results: measures by name, of each run by name; the first run is what the others are compared with.
    """
    first, *others = results
    return {
        run: {name: _numbers(compared(base, results[run][name]), base) for name, base in results[first].items()}
        for run in others
    }


def tables(found: Comparisons, first: str) -> list[list[tuple[str, ...]]]:
    """Rows of text under a head, a measure and a run each: a table of differences and one of ratios, as needed.

    Args:
        found: of :func:`comparisons`.
        first: name of the run that the others are compared with.
    """
    measures = next(iter(found.values()), {})
    both = []
    for names, head in ((DIFFERENCES, f"minus {first}"), (RATIOS, f"ratio to {first}")):
        rows = [
            _row(name, run, one[name].numbers, names)
            for name in measures
            for run, one in found.items()
            if one[name].names == names
        ]
        ends = (f"{LEVEL:.0%} low", f"{LEVEL:.0%} high")
        both.append([("measure", "run", "queries", head, *ends, "p (t)", "p (randomization)"), *rows])
    return [rows for rows in both if len(rows) > 1]


def notes(found: Comparisons) -> str:
    """What the "-" in tables of these numbers stand for, a line; "" where there is none."""
    every = (x for measures in found.values() for one in measures.values() for x in one.numbers.values())
    return f"{_UNDEFINED}\n" if any(map(math.isnan, every)) else ""


def _row(name: str, run: str, numbers: Mapping[str, float], names: tuple[str, ...]) -> tuple[str, ...]:
    _, *ends, _, _, p_t, p_randomization = names
    form = "+.4f" if names == DIFFERENCES else ".4g"
    cells = (*_texts(numbers, ends, form), *_texts(numbers, (p_t, p_randomization), ".4g"))
    return (name, run, str(numbers["queries"]), *cells)


def _texts(numbers: Mapping[str, float], names: Iterable[str], form: str) -> list[str]:
    """The numbers as text; "-" for those that are missing or NaN."""
    values = [numbers.get(name, math.nan) for name in names]
    return ["-" if math.isnan(value) else format(value, form) for value in values]


def _numbers(found: QueryComparison | None, base: Result) -> Compared:
    names = RATIOS if base.geometric else DIFFERENCES
    if found is None:
        return Compared(names, {"queries": 0})
    scale = math.exp if base.geometric else float
    ends = (scale(x) for x in (found.difference, found.low, found.high))
    p_values = (found.p_values[name.removeprefix("p_")] for name in names[-2:])
    values = (found.queries, *ends, found.standard_error, found.effect_size, *p_values)
    return Compared(names, dict(zip(names, values, strict=True)))
