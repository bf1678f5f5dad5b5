"""Runs against the first run, query by query: difference, interval and p-values of each measure."""

from collections.abc import Mapping

import torch

from torch_ap.files.report import Result
from torch_ap.inference.queries import QueryComparison, compare_queries

_HEAD = ("measure", "run", "queries", "difference", "low", "high", "p (t)", "p (randomization)")


def compared(first: Result, other: Result, level: float = 0.95) -> QueryComparison | None:
    """The other run minus the first, over the queries that both have; None where there is none."""
    place = {query: i for i, query in enumerate(first.queries)}
    shared = [(i, place[query]) for i, query in enumerate(other.queries) if query in place]
    if not shared:
        return None
    mine, base = torch.tensor(shared).t()
    return compare_queries(other.values[mine], first.values[base], level=level)


def lines(results: Mapping[str, Mapping[str, Result]]) -> list[tuple[str, ...]]:
    """Rows of text under a head, a measure and a run each.

    Args:
        results: measures by name, of each run by name; the first run is what the others are compared with.
    """
    first, *others = results
    rows: list[tuple[str, ...]] = [_HEAD]
    for name, base in results[first].items():
        for other in others:
            found = compared(base, results[other][name])
            if found is None:
                rows.append((name, other, "0", *["-"] * 5))
                continue
            ends = (f"{x:+.4f}" for x in (found.difference, found.low, found.high))
            rows.append((name, other, str(found.queries), *ends, *(f"{p:.4g}" for p in found.p_values.values())))
    return rows
