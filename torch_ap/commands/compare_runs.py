"""Runs against the first run, query by query: difference, interval and p-values of each measure."""

from collections.abc import Mapping

import torch

from torch_ap.files.report import Result
from torch_ap.inference.queries import QueryComparison, compare_queries

NAMES = ("queries", "difference", "low", "high", "standard_error", "effect_size", "p_t", "p_randomization")
_HEAD = ("measure", "run", "queries", "minus first", "low", "high", "p (t)", "p (randomization)")
_ENDS = ("difference", "low", "high")
_P_VALUES = ("p_t", "p_randomization")

Comparisons = dict[str, dict[str, dict[str, float]]]


def compared(first: Result, other: Result, level: float = 0.95) -> QueryComparison | None:
    """The other run minus the first, over the queries that both have; None where there is none."""
    place = {query: i for i, query in enumerate(first.queries)}
    shared = [(i, place[query]) for i, query in enumerate(other.queries) if query in place]
    if not shared:
        return None
    mine, base = torch.tensor(shared).t()
    return compare_queries(other.values[mine], first.values[base], level=level)


def comparisons(results: Mapping[str, Mapping[str, Result]]) -> Comparisons:
    """The numbers of ``NAMES`` for each run but the first and each measure; only ``queries``, 0, where none is shared.

    Args:
        results: measures by name, of each run by name; the first run is what the others are compared with.
    """
    first, *others = results
    return {
        run: {name: _numbers(compared(base, results[run][name])) for name, base in results[first].items()}
        for run in others
    }


def lines(found: Comparisons) -> list[tuple[str, ...]]:
    """Rows of text under a head, a measure and a run each."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for name in next(iter(found.values()), {}):
        for run, measures in found.items():
            numbers = measures[name]
            if not numbers["queries"]:
                rows.append((name, run, "0", *["-"] * 5))
                continue
            ends, p_values = (f"{numbers[x]:+.4f}" for x in _ENDS), (f"{numbers[x]:.4g}" for x in _P_VALUES)
            rows.append((name, run, str(numbers["queries"]), *ends, *p_values))
    return rows


def _numbers(found: QueryComparison | None) -> dict[str, float]:
    if found is None:
        return {"queries": 0}
    return {name: getattr(found, name) for name in NAMES[:-2]} | {f"p_{test}": p for test, p in found.p_values.items()}
