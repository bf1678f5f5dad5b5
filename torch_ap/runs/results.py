"""What was found of a run, or of several: means, intervals, values per query, and tables of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain, count, product
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor

from torch_ap.evaluation.queries import floored_logs
from torch_ap.files.report import Result
from torch_ap.inference.interval import Interval
from torch_ap.inference.multiple_comparisons import PairwiseComparison, compare_systems
from torch_ap.inference.query_mean import mean_interval
from torch_ap.rules.messages import refuse
from torch_ap.runs.text_table import Table, number

_SAME = 1e-12  # of means


class _Printed:
    """Abstract: what has tables and notes."""

    notes: Sequence[str]

    def _table(self) -> Table:
        raise NotImplementedError

    def _records(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``, with all digits."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ModuleNotFoundError("`to_pandas` needs pandas: pip install pandas") from error
        return pandas.DataFrame(self._records())

    def to_markdown(self) -> str:
        """The table as Markdown, bold where a run is the best."""
        return "\n".join(self._table().markdown())

    def to_latex(self) -> str:
        """The table as LaTeX, for the package booktabs."""
        return "\n".join(self._table().latex())

    def _reasons(self) -> Sequence[str]:
        """Why numbers in the table do not exist."""
        return ()

    def __repr__(self) -> str:
        """The table as text, and the notes."""
        return "\n".join([*self._table().lines(), *self._reasons(), *self.notes])


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(_Printed):
    """One run by its measures; :func:`torch_ap.evaluate` makes it.

    Attributes:
        results: by the name of the measure as asked: ``queries``, ``values`` (Q,) float64, ``aggregate``.
        conventions: what each measure is, in words, with every choice that changes it.
        notes: what to know of the numbers: what does not count, or counts 0, and how many there are of it.
        confidence_level: of the intervals.
    """

    results: Mapping[str, Result]
    conventions: Mapping[str, str]
    notes: Sequence[str] = ()
    confidence_level: float = 0.95

    def to_dict(self) -> dict[str, float]:
        """The mean over queries by the name of the measure; of gm_map the geometric mean."""
        return {name: result.aggregate for name, result in self.results.items()}

    def per_query(self) -> dict[str, dict[Any, float]]:
        """The value of each query, by the name of the measure and then by the query, as it was given."""
        return {
            name: dict(zip(result.queries, result.values.tolist(), strict=True))
            for name, result in self.results.items()
        }

    def confidence_interval(self) -> dict[str, Interval]:
        """The interval of each mean, by :func:`torch_ap.inference.mean_interval`; of gm_map that of the mean log.

        NaN, with a reason, for counts.
        """
        return {name: _interval(result, self.confidence_level) for name, result in self.results.items()}

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"measure": name, "mean": self.results[name].aggregate, "low": float(found.low), "high": float(found.high)}
            for name, found in self.confidence_interval().items()
        ]

    def _table(self) -> Table:
        rows = [(x["measure"], *(number(x[name]) for name in ("mean", "low", "high"))) for x in self._records()]
        queries = max(len(x.queries) for x in self.results.values())
        return Table([("measure", "mean", *_ends(self.confidence_level)), *rows], title=f"{_counted(queries)}")


@dataclass(frozen=True, eq=False, repr=False)
class RunComparison(_Printed):
    """Several runs by the same measures of the same queries; :func:`torch_ap.evaluate` makes it of ``runs``.

    Attributes:
        runs: each run's :class:`Evaluation` by its name.
        notes: what to know of the numbers.
    """

    runs: Mapping[str, Evaluation]
    notes: Sequence[str] = ()

    @property
    def confidence_level(self) -> float:
        """Of the intervals."""
        return next(iter(self.runs.values())).confidence_level

    @property
    def conventions(self) -> Mapping[str, str]:
        """What each measure is, in words."""
        return next(iter(self.runs.values())).conventions

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The means by the name of the run and then of the measure."""
        return {name: run.to_dict() for name, run in self.runs.items()}

    def per_query(self) -> dict[str, dict[str, dict[Any, float]]]:
        """The values of queries by the name of the run, of the measure, and the query."""
        return {name: run.per_query() for name, run in self.runs.items()}

    def values(self, measure: str) -> Tensor:
        """(S, Q) float64: the values of a measure, a row per run, for the functions of ``torch_ap.inference``."""
        if measure not in self.conventions:
            refuse("measure", f"must be one of those asked for: {', '.join(self.conventions)}", measure)
        return torch.stack([run.results[measure].values for run in self.runs.values()])

    @cached_property
    def best(self) -> dict[str, list[str]]:
        """The run with the greatest mean by each measure, or those that have it; of counts none is best."""
        found = {}
        for measure in self.conventions:
            results = {name: run.results[measure] for name, run in self.runs.items()}
            most = max(x.aggregate for x in results.values()) - _SAME
            found[measure] = [name for name, x in results.items() if x.aggregate >= most and not x.counted]
        return found

    @cached_property
    def comparisons(self) -> dict[str, PairwiseComparison]:
        """All pairs of runs by each measure: paired t tests with Holm's adjustment for the number of pairs.

        See :func:`torch_ap.inference.compare_systems`; of gm_map the logs are compared, counts are not. Empty for one
        run.
        """
        if len(self.runs) < 2:
            return {}
        return {
            name: compare_systems(floored_logs(self.values(name)) if x.geometric else self.values(name), method="holm")
            for name, x in next(iter(self.runs.values())).results.items()
            if not x.counted
        }

    def to_latex(self) -> str:
        """A row per run and a column per measure, for the package booktabs: the best is bold.

        A letter that is raised names a run that this one is better than, p below 1 - ``confidence_level``.
        """
        words = chain.from_iterable(map("".join, product(ascii_lowercase, repeat=length)) for length in count(1))
        letters = dict(zip(self.runs, words, strict=False))
        between = "," if len(letters) > len(ascii_lowercase) else ""
        rows, best, marks = [("", "run", *self.conventions)], set(), {}
        for line, (name, run) in enumerate(self.runs.items()):
            rows.append((letters[name], name, *(number(mean) for mean in run.to_dict().values())))
            for column, measure in enumerate(self.conventions):
                at = (line + 1, column + 2)
                best |= {at} if name in self.best[measure] else set()
                beaten = [other for other in self.runs if self._beats(measure, name, other)]
                marks[at] = between.join(letters[other] for other in beaten)
        return "\n".join(Table(rows, names=2, best=best).latex(marks))

    def _beats(self, measure: str, name: str, other: str) -> bool:
        return (
            measure in self.comparisons
            and self._pair(measure, name, other, "difference") > 0
            and (self._pair(measure, name, other, "adjusted_p_value") < 1 - self.confidence_level)
        )

    def _reasons(self) -> Sequence[str]:
        return [f"{name}: no p-value of some pair, {x.reason}" for name, x in self.comparisons.items() if x.reason]

    def _pair(self, measure: str, name: str, other: str, number: str) -> float:
        if name == other:
            return float("nan")
        places = list(self.runs)
        return float(getattr(self.comparisons[measure], number)[places.index(name), places.index(other)])

    def _records(self) -> list[dict[str, Any]]:
        """A row per measure and run; the p-value is of the pair of the run and the best, NaN for the best."""
        found = {name: {x["measure"]: x for x in run._records()} for name, run in self.runs.items()}
        records = []
        for measure, best in self.best.items():
            for name in self.runs:
                known = best and name not in best
                p_value = self._pair(measure, name, best[0], "adjusted_p_value") if known else float("nan")
                row = {"measure": measure, "run": name} | found[name][measure]
                records.append(row | {"best": name in best, "p_value": p_value})
        return records

    def _table(self) -> Table:
        records = self._records()
        rows = [
            (
                x["measure"],
                x["run"],
                *(number(x[name]) for name in ("mean", "low", "high")),
                number(x["p_value"], ".4g"),
            )
            for x in records
        ]
        queries = _counted(max(len(x.queries) for run in self.runs.values() for x in run.results.values()))
        p = "; p: against the best, paired t, Holm over all pairs" if len(self.runs) > 1 else ""
        best = {(line + 1, 2) for line, x in enumerate(records) if x["best"]}
        head = ("measure", "run", "mean", *_ends(self.confidence_level), "p")
        return Table([head, *rows], names=2, title=f"{queries}{p}", best=best)


def _interval(result: Result, confidence_level: float) -> Interval:
    values = result.values
    if result.counted:
        nan = values.new_tensor(torch.nan, dtype=torch.float64)
        return Interval(nan, nan, nan, nan, confidence_level, "", reason="a count has no mean")
    if result.geometric:
        logs = mean_interval(floored_logs(values), confidence_level=confidence_level, method="t")
        estimate, low, high = (x.exp() for x in (logs.estimate, logs.low, logs.high))
        error = logs.standard_error * estimate  # of a function, by its slope
        return Interval(estimate, low, high, error, confidence_level, "t", reason=logs.reason)
    inside = bool(((values >= 0) & (values <= 1)).all())
    return mean_interval(values, confidence_level=confidence_level, method="dirichlet" if inside else "t")


def _ends(confidence_level: float) -> list[str]:
    return [f"{100 * confidence_level:.10g}% {end}" for end in ("low", "high")]


def _counted(queries: int) -> str:
    return f"{queries:,} {'query' if queries == 1 else 'queries'}"
