"""Results of one run or several: means, intervals, values per query, and tables as text, Markdown and LaTeX."""

import math
import warnings
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain, count, product
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base.messages import escape_unprintable, raise_invalid
from torch_ap.core.base.record import Record, html_table
from torch_ap.inference.comparisons import PairwiseComparison, compare_systems_per_query
from torch_ap.inference.groups import Groups, ids_of_groups
from torch_ap.inference.queries import QueryMethod, bounded_mean_interval, mean_interval
from torch_ap.inference.record import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.simultaneous import max_t_level
from torch_ap.retrieval.runs.names import Result
from torch_ap.retrieval.settings import floored_logs


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        rows: texts, the head first.
        names: number of columns from the left that are names; the others are numbers.
        title: a line above the table, or "".
        best: (row, column) of highlighted numbers.
    """

    rows: Sequence[Sequence[str]]
    names: int = 1
    title: str = ""
    best: Collection[tuple[int, int]] = ()

    def lines(self) -> list[str]:
        """Return aligned columns: names to the left, numbers to the right, highlighted numbers with a star."""
        columns = {column for _, column in self.best}
        cells = self._format_cells(lambda text, at: f"{text}{'*' if at in self.best else ' ' * (at[1] in columns)}")
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = ["  ".join(self._pad(row, widths)).rstrip() for row in cells]
        return [self.title, *rows] if self.title else rows

    def markdown(self) -> list[str]:
        """Return the table in Markdown, with highlighted numbers in bold."""
        cells = self._format_cells(lambda text, at: f"**{text}**" if at in self.best else text.replace("|", r"\|"))
        head, *rows = [f"| {' | '.join(row)} |" for row in cells]
        rule = "".join("|---" if place < self.names else "|---:" for place in range(len(self.rows[0])))
        return [*([self.title, ""] if self.title else []), head, f"{rule}|", *rows]

    def latex(self, marks: Mapping[tuple[int, int], str] | None = None) -> list[str]:
        """Return the table in LaTeX with booktabs, highlighted numbers in bold, with ``marks`` as superscripts."""

        def cell(text: str, at: tuple[int, int]) -> str:
            raised = (marks or {}).get(at, "")
            shown = _escape(text)
            return (rf"\textbf{{{shown}}}" if at in self.best else shown) + (f"$^{{{raised}}}$" if raised else "")

        head, *rows = [f"{' & '.join(row)} {chr(92) * 2}" for row in self._format_cells(cell)]
        form = "l" * self.names + "r" * (len(self.rows[0]) - self.names)
        begin, end = rf"\begin{{tabular}}{{{form}}}", r"\end{tabular}"
        return [begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", end]

    def _format_cells(self, cell: Callable[[str, tuple[int, int]], str]) -> list[list[str]]:
        return [
            [cell(escape_unprintable(text), (row, column)) for column, text in enumerate(line)]
            for row, line in enumerate(self.rows)
        ]

    def _pad(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        cells = enumerate(zip(row, widths, strict=True))
        return [cell.ljust(w) if place < self.names else cell.rjust(w) for place, (cell, w) in cells]


def _escape(text: str) -> str:
    """Return a text with all special characters of LaTeX escaped."""
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(words.get(x, f"\\{x}" if x in "&%$#_{}" else x) for x in text)


def number(value: int | float | None, form: str = ".4f") -> str:
    """Return a number as text, a count unchanged; "-" for None and NaN."""
    if isinstance(value, int):
        return str(value)
    return "-" if value is None or math.isnan(value) else format(value, form)


_MEAN_TOLERANCE = 1e-12  # closer means count as equal


class _Printed(Record):
    """Abstract base of results with tables and notes."""

    notes: Sequence[str]

    def _table(self) -> Table:
        raise NotImplementedError

    def _records(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return the table as a ``pandas.DataFrame``, with all digits."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ModuleNotFoundError("`to_pandas` needs pandas: pip install pandas") from error
        return pandas.DataFrame(self._records())

    def to_markdown(self) -> str:
        """Return the table as Markdown, with the best run in bold."""
        return "\n".join(self._table().markdown())

    def to_latex(self) -> str:
        """Return the table as LaTeX, for the package booktabs."""
        return "\n".join(self._table().latex())

    def _reasons(self) -> Sequence[str]:
        """Return why numbers in the table do not exist."""
        return ()

    def _repr_html_(self) -> str:
        """Return the table as HTML, which notebooks show."""
        table = self._table()
        head, *rows = table.rows
        return html_table(rows, table.title, head)

    def __repr__(self) -> str:
        """Return the table as text, and the notes."""
        return "\n".join([*self._table().lines(), *self._reasons(), *self.notes])


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(_Printed):
    """Measures of one run; see :func:`torch_ap.evaluate`.

    Attributes:
        results: by the requested name of the measure: ``queries``, ``values`` (Q,) float64, ``aggregate``.
        conventions: description of each measure, with every setting that changes it.
        notes: items that do not count, or count 0, and their number.
        confidence_level: nominal coverage of the intervals.
        groups: the group of each query, such as its topic or user; None for independent queries.
    """

    results: Mapping[str, Result]
    conventions: Mapping[str, str]
    notes: Sequence[str] = ()
    confidence_level: float = 0.95
    groups: Mapping[Any, Hashable] | None = None

    def to_dict(self) -> dict[str, float]:
        """Return the mean over queries by the name of the measure; for gm_map the geometric mean."""
        return {name: result.aggregate for name, result in self.results.items()}

    def per_query(self) -> dict[str, dict[Any, float]]:
        """Return the value of each query, by the name of the measure and then by the query."""
        return {
            name: dict(zip(result.queries, result.values.tolist(), strict=True))
            for name, result in self.results.items()
        }

    @cached_property
    def _intervals(self) -> dict[str, Interval]:
        with _without_warnings_of_groups():
            return {
                name: result_interval(result, self.confidence_level, self._group_ids(result))
                for name, result in self.results.items()
            }

    def confidence_interval(self) -> dict[str, Interval]:
        """Return the interval of each mean by :func:`torch_ap.inference.mean_interval`; NaN, with a reason, for counts.

        The interval of gm_map is computed for the mean log.
        """
        return dict(self._intervals)

    def _reasons(self) -> Sequence[str]:
        return [
            f"{name}: no interval, {x.reason}"
            for name, x in self._intervals.items()
            if not self.results[name].counted and bool(x.low.isnan()) and x.reason
        ]

    def _group_ids(self, result: Result) -> Tensor | None:
        return None if self.groups is None else ids_of_groups(result.queries, self.groups, "query")

    def _count_text(self) -> str:
        queries = max((x.queries for x in self.results.values()), key=len)
        text = f"{len(queries):,} {'query' if len(queries) == 1 else 'queries'}"
        if self.groups is None or not len(queries):
            return text
        groups = len({self.groups[x] for x in queries})
        return f"{text} in {groups:,} {'group' if groups == 1 else 'groups'}"

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"measure": name, "mean": self.results[name].aggregate, "low": float(x.low), "high": float(x.high)}
            for name, x in self._intervals.items()
        ]

    def _table(self) -> Table:
        rows = [(x["measure"], *(number(x[name]) for name in ("mean", "low", "high"))) for x in self._records()]
        return Table([("measure", "mean", *_ends(self.confidence_level)), *rows], title=self._count_text())


@dataclass(frozen=True, eq=False, repr=False)
class RunComparison(_Printed):
    """The same measures and queries for several runs; see :func:`torch_ap.evaluate`.

    Attributes:
        runs: each run's :class:`Evaluation` by its name.
        notes: items that do not count, or count 0, and their number.
    """

    runs: Mapping[str, Evaluation]
    notes: Sequence[str] = ()

    @property
    def confidence_level(self) -> float:
        """Nominal coverage of the intervals."""
        return next(iter(self.runs.values())).confidence_level

    @property
    def conventions(self) -> Mapping[str, str]:
        """Description of each measure."""
        return next(iter(self.runs.values())).conventions

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the means by the name of the run and then of the measure."""
        return {name: run.to_dict() for name, run in self.runs.items()}

    def per_query(self) -> dict[str, dict[str, dict[Any, float]]]:
        """Return the values of queries by the name of the run, the measure, and the query."""
        return {name: run.per_query() for name, run in self.runs.items()}

    def values(self, measure: str) -> Tensor:
        """Return the values of a measure, (S, Q) float64, one row per run, for ``torch_ap.inference``."""
        if measure not in self.conventions:
            raise_invalid("measure", f"must be one of the evaluated measures: {', '.join(self.conventions)}", measure)
        return torch.stack([run.results[measure].values for run in self.runs.values()])

    @cached_property
    def best(self) -> dict[str, list[str]]:
        """The runs with the greatest mean by each measure; none for counts."""
        best = {}
        for measure in self.conventions:
            results = {name: run.results[measure] for name, run in self.runs.items()}
            most = max(x.aggregate for x in results.values()) - _MEAN_TOLERANCE
            best[measure] = [name for name, x in results.items() if x.aggregate >= most and not x.counted]
        return best

    @cached_property
    def comparisons(self) -> dict[str, PairwiseComparison]:
        """Comparisons of all pairs of runs by each measure: paired t tests, over ``groups`` if given, adjusted by Holm.

        See :func:`torch_ap.inference.compare_systems_per_query`. Values of gm_map are compared as logs. Without counts;
        empty for one run.
        """
        if len(self.runs) < 2:
            return {}
        first = next(iter(self.runs.values()))
        with _without_warnings_of_groups():
            return {
                name: compare_systems_per_query(
                    floored_logs(self.values(name)) if x.geometric else self.values(name),
                    method="holm",
                    groups=first._group_ids(x),
                )
                for name, x in first.results.items()
                if not x.counted
            }

    def to_latex(self) -> str:
        """Return a row per run and a column per measure, for the package booktabs, with the best run in bold.

        A superscript letter names a run that is worse with p below 1 - ``confidence_level``.
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
        of_pairs = [
            f"{name}: no p-value of some pair, {x.reason}"
            for name, x in self.comparisons.items()
            if bool(x.p_value.isnan().any())
        ]
        return [f"{name}, {reason}" for name, run in self.runs.items() for reason in run._reasons()] + of_pairs

    def _pair(self, measure: str, name: str, other: str, number: str) -> float:
        if name == other:
            return float("nan")
        places = list(self.runs)
        return float(getattr(self.comparisons[measure], number)[places.index(name), places.index(other)])

    def _records(self) -> list[dict[str, Any]]:
        """Return a row per measure and run; the p-value compares the run with the best run, NaN for the best."""
        rows = {name: {x["measure"]: x for x in run._records()} for name, run in self.runs.items()}
        records = []
        for measure, best in self.best.items():
            for name in self.runs:
                is_worse = best and name not in best
                p_value = self._pair(measure, name, best[0], "adjusted_p_value") if is_worse else float("nan")
                row = {"measure": measure, "run": name} | rows[name][measure]
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
        first = next(iter(self.runs.values()))
        test = "paired t" if first.groups is None else "paired t over groups"
        p = f"; p: against the best, {test}, Holm over all pairs" if len(self.runs) > 1 else ""
        best = {(line + 1, 2) for line, x in enumerate(records) if x["best"]}
        head = ("measure", "run", "mean", *_ends(self.confidence_level), "p")
        return Table([head, *rows], names=2, title=f"{first._count_text()}{p}", best=best)


@contextmanager
def _without_warnings_of_groups() -> Iterator[None]:
    """Suppress warnings of few groups, which ``evaluate`` gives once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`groups`: ", UserWarning)
        yield


def result_interval(result: Result, confidence_level: float, groups: Tensor | None = None) -> Interval:
    """Return the interval of a mean over queries; NaN, with a reason, for a count.

    Args:
        result: values of the queries.
        confidence_level: nominal coverage.
        groups: (Q,) the group of each query, such as its topic; None for independent queries.
    """
    values = result.values
    if result.counted:
        nan = values.new_tensor(torch.nan, dtype=torch.float64)
        return Interval(nan, nan, nan, nan, confidence_level, "", reason="a count has no mean")
    if result.geometric:
        logs = mean_interval(floored_logs(values), confidence_level=confidence_level, method="t", groups=groups)
        estimate, low, high = (x.exp() for x in (logs.estimate, logs.low, logs.high))
        error = logs.standard_error * estimate  # delta method
        return Interval(estimate, low, high, error, confidence_level, "t", reason=logs.reason)
    inside = result.is_share and bool(((values >= 0) & (values <= 1)).all())
    method: QueryMethod = "dirichlet" if inside and groups is None else "t"
    bound = result.upper_bound if inside else 1.0
    return bounded_mean_interval(values, bound, confidence_level=confidence_level, method=method, groups=groups)


def joint_level(results: Sequence[Result], confidence_level: float, groups: Tensor | None = None) -> float:
    """Return the level of :func:`result_interval` at which the intervals of all measures of a run hold at once.

    Args:
        results: means over the same queries, which are no counts and no geometric means.
        confidence_level: nominal probability that all intervals contain their values.
        groups: as for :func:`result_interval`.
    """
    rows = torch.stack([x.values for x in results]).to(torch.float64)
    if groups is not None:
        rows = torch.stack([Groups.from_ids(groups).sums(row - row.mean()) for row in rows])
    return max_t_level(rows, confidence_level, Resampling())


def _ends(confidence_level: float) -> list[str]:
    return [f"{100 * confidence_level:.10g}% {end}" for end in ("low", "high")]
