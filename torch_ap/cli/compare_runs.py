"""Comparison of runs with a baseline, query by query: difference or ratio of geometric means, with p-values."""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli.best import BestReport
from torch_ap.cli.tables import level_heads, number
from torch_ap.core.base.messages import short_repr
from torch_ap.core.columns.text import lines
from torch_ap.inference import best_of_per_query
from torch_ap.inference.groups import ids_of_groups
from torch_ap.inference.queries import Method, QueryComparison, compare_per_query
from torch_ap.inference.record import holm_of_defined
from torch_ap.retrieval.runs.names import Result
from torch_ap.retrieval.settings import GM_FLOOR, floored_logs

_P_VALUES = ("p_t", "p_randomization", "adjusted_p_t")
DIFFERENCES = ("queries", "difference", "low", "high", "standard_error", "effect_size", *_P_VALUES)
RATIOS = ("queries", "ratio", "ratio_low", "ratio_high", "log_standard_error", "log_effect_size", *_P_VALUES)
UNDEFINED = "-: undefined, for one query, where all differences are equal, or (randomization) for clusters"
_TESTS: tuple[Method, ...] = ("t", "randomization")


@dataclass(frozen=True)
class Clusters:
    """Clusters of the units of an evaluation, such as the topic of each query, from the file of ``--cluster``.

    Attributes:
        path: the file.
        unit: name of a unit.
        names: cluster of each unit.
    """

    path: str
    unit: str
    names: Mapping[str, str]

    @classmethod
    def read(cls, path: str, unit: str = "query") -> "Clusters":
        """Read the lines ``unit cluster`` of a file.

        Raises:
            OSError: if it cannot be read.
            ValueError: for a line without two fields, and for a unit with two clusters.
        """
        names: dict[str, str] = {}
        for where, words in lines(path):
            if len(words) != 2:
                raise ValueError(f"{where}: must have two fields, `{unit} cluster`, got {len(words)}")
            if names.setdefault(*words) != words[1]:
                raise ValueError(f"{where}: {unit} {short_repr(words[0])} must have one cluster, got a second one")
        return cls(path, unit, names)

    def ids(self, units: Sequence[str]) -> Tensor:
        """Return the number of each unit's cluster, (U,) int64.

        Raises:
            ValueError: for a unit without a cluster.
        """
        for x in units:
            if x not in self.names:
                rule = f"must have a line `{self.unit} cluster` for every {self.unit}"
                raise ValueError(f"{self.path} (--cluster): {rule}, got none for {short_repr(x)}")
        return ids_of_groups(units, self.names, self.unit)


@dataclass(frozen=True)
class Settings:
    """Values of ``--confidence-level`` and ``--n-resamples``, and the clusters of the queries by ``--cluster``."""

    confidence_level: float = 0.95
    n_resamples: int = 10_000
    clusters: Clusters | None = None

    def groups_of(self, queries: Sequence[str]) -> Tensor | None:
        """Return the number of each query's cluster, (Q,) int64; None for independent queries."""
        return None if self.clusters is None else self.clusters.ids(queries)


@dataclass(frozen=True)
class Compared:
    """Comparison of a run with the baseline by one measure.

    Attributes:
        names: names of the numbers: ``DIFFERENCES``, or ``RATIOS`` for geometric means.
        numbers: numbers by name; only "queries", 0, for runs without common queries.
    """

    names: tuple[str, ...]
    numbers: dict[str, float]


Comparisons = dict[str, dict[str, Compared]]


def compare_with_baseline(
    run: Result, baseline: Result, settings: Settings, tests: Sequence[Method] = _TESTS
) -> dict[str, QueryComparison]:
    """Compare a run with the baseline over their common queries.

    For geometric means the values are logs, after raising to trec_eval's floor: the difference is the log of the ratio
    of geometric means.

    Returns:
        The comparison by each test; empty without common queries.
    """
    place = {query: i for i, query in enumerate(baseline.queries)}
    shared = [(i, place[query]) for i, query in enumerate(run.queries) if query in place]
    if not shared:
        return {}
    own, other = torch.tensor(shared).t()
    a, b, bounds = run.values[own], baseline.values[other], (0.0, 1.0) if run.is_share else None
    if baseline.geometric:
        a, b, bounds = floored_logs(a), floored_logs(b), (math.log(GM_FLOOR), 0.0)
    options: dict[str, Any] = {
        "confidence_level": settings.confidence_level,
        "n_resamples": settings.n_resamples,
        "groups": settings.groups_of([run.queries[place] for place in own.tolist()]),
    }
    if settings.clusters is not None:
        tests = ("t",)  # the signs of single queries of a cluster are not exchangeable
    return {x: compare_per_query(a, b, method=x, bounds=bounds, **options) for x in tests}


def compare_all_runs(results: Mapping[str, Mapping[str, Result]], settings: Settings) -> Comparisons:
    """Compare all runs with the first by each measure that is not a count.

    ``adjusted_p_t`` is the p-value of the t test, adjusted by Holm's method for all measures and runs.

    Args:
        results: measures by name, of each run by name; the first run is the baseline.
        settings: settings of the interval and the test.
    """
    first, *others = results
    compared = {
        run: {
            name: _numbers(compare_with_baseline(results[run][name], base, settings), base.geometric)
            for name, base in results[first].items()
            if not base.counted
        }
        for run in others
    }
    tested = [x for by_measure in compared.values() for x in by_measure.values() if "p_t" in x.numbers]
    adjusted = holm_of_defined(torch.tensor([x.numbers["p_t"] for x in tested], dtype=torch.float64))
    for x, p in zip(tested, adjusted.tolist(), strict=True):
        x.numbers["adjusted_p_t"] = p
    return compared


def best_of_runs(args: argparse.Namespace, results: Mapping[str, Mapping[str, Result]]) -> BestReport:
    """Return the best run by each measure over the common queries of all runs.

    Args:
        args: arguments of the command.
        results: measures by name, of each run by name.

    Raises:
        ValueError: for a measure that is no mean over queries, and without common queries.
    """
    settings = Settings(args.confidence_level, args.n_resamples, args.clusters)
    found, facts = {}, {"file": args.qrels, "runs": len(results)}
    for name, first in next(iter(results.values())).items():
        if first.geometric or first.counted:
            raise ValueError(f"--best is for means over queries, got {name}")
        runs = {run: x[name] for run, x in results.items()}
        places = [{query: i for i, query in enumerate(x.queries)} for x in runs.values()]
        queries = [query for query in first.queries if all(query in x for x in places)]
        if not queries:
            raise ValueError("--best needs queries that all runs have, got none")
        values = [x.values[[place[q] for q in queries]] for x, place in zip(runs.values(), places, strict=True)]
        groups = settings.groups_of(queries)
        facts |= {"queries": len(queries)} | ({} if groups is None else {"clusters": len(torch.unique(groups))})
        found[name] = best_of_per_query(
            torch.stack(values),
            confidence_level=settings.confidence_level,
            bounds=(0, 1) if first.is_share else None,
            groups=groups,
            names=list(runs),
        )
    return BestReport(args, found, facts)


def has_adjusted_p_values(runs: Comparisons) -> bool:
    """Whether there are several comparisons, so that adjusted p-values can differ from single ones."""
    return sum(map(len, runs.values())) > 1


def tables(runs: Comparisons, baseline: str, settings: Settings) -> list[list[tuple[str, ...]]]:
    """Return rows of text with a head: a table of differences and a table of ratios, without empty ones.

    Args:
        runs: result of :func:`compare_all_runs`.
        baseline: name of the baseline.
        settings: settings of the comparisons.
    """
    measures = next(iter(runs.values()), {})
    both, heads = [], {"p_t": "p (t)", "p_randomization": "p (randomization)"}
    if has_adjusted_p_values(runs):
        heads["adjusted_p_t"] = "p (t, Holm)"
    for names, head in ((DIFFERENCES, f"run - {baseline}"), (RATIOS, f"run / {baseline}")):
        _, value, low, high, *_ = names
        formats = dict.fromkeys((value, low, high), "+.4f" if names == DIFFERENCES else ".4g")
        formats |= dict.fromkeys(heads, ".4g")
        rows = [
            (name, run, str(x.numbers["queries"]), *(number(x.numbers.get(y), form) for y, form in formats.items()))
            for name in measures
            for run, x in ((run, by_measure[name]) for run, by_measure in runs.items())
            if x.names == names
        ]
        ends = level_heads(settings.confidence_level)
        both.append([("measure", "run", "queries", head, *ends, *heads.values()), *rows])
    return [rows for rows in both if len(rows) > 1]


def _numbers(by_test: Mapping[str, QueryComparison], geometric: bool) -> Compared:
    names = RATIOS if geometric else DIFFERENCES
    if not by_test:
        return Compared(names, {"queries": 0})
    first = by_test["t"]
    scale = math.exp if geometric else float
    ends = (scale(x) for x in (first.difference, first.low, first.high))
    p_values = (float(by_test[test].p_value) if test in by_test else math.nan for test in _TESTS)
    values = (first.queries, *ends, float(first.standard_error), float(first.effect_size), *p_values)
    return Compared(names, dict(zip(names, values, strict=False)))  # the adjusted p-value follows
