"""Jobs over partitions in the order of scores, and over partitions of whole queries."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.columns.streams import pyarrow
from torch_ap.core.columns.table_names import Measure, measures_of
from torch_ap.core.items.settings import APSettings, average_precision_settings, result_dtype
from torch_ap.core.measures import ranges
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ranges import RangeCounts, RankedRange
from torch_ap.core.ranking.pairwise import Piece
from torch_ap.engines.jobs import ColumnNames, Job, Names, decode, encode, sorted_names
from torch_ap.retrieval.metrics.measures import metric_of_measure
from torch_ap.retrieval.runs.names import Result
from torch_ap.retrieval.runs.results import Evaluation

SCORE, HIT = "score", "hit"  # columns of validated rows


@dataclass(frozen=True)
class ExactRanking:
    """The exact AP of one ranking in two passes over partitions in the order of scores.

    Attributes:
        columns: the column of scores and the column of targets.
        settings: convention and value without positives.
        dtype: dtype of the result; None for that of the scores.
    """

    columns: ColumnNames
    settings: APSettings
    dtype: torch.dtype | None = None

    def validated_rows(self, batches: Iterable[Any], partition: str) -> Iterator[Any]:
        """Yield the rows as batches of a score and a hit, 0 or 1, before the engine sorts them.

        A score of -0 becomes 0: both are equal, and engines may put them into two partitions.
        """
        arrow = pyarrow()
        for _, columns, _ in self.columns.read(batches, partition):
            scores = (columns.preds + 0).numpy()
            yield arrow.RecordBatch.from_arrays([scores, columns.target.numpy().astype(np.int8)], [SCORE, HIT])

    def value(self, run: Callable[[Job], bytes]) -> Tensor:
        """Return the AP; ``run`` returns the merged result of a job over the sorted rows."""
        counted = run(CountJob())
        ranked = CountJob().finish(counted)
        job = SumJob(ranked, self.settings.convention)
        pieces = job.finish(run(job))
        each, curve = ranges.average_precision_of_pieces(pieces, ranked, self.settings.convention)
        names = {name for frame in decode(counted) for name in frame}
        default = result_dtype(getattr(torch, names.pop() if names else "float32"))
        return self.settings.averaged(each, curve, self.dtype or default)


class _AppendingJob:
    """Base of jobs whose results are the frames of all partitions."""

    def merge(self, first: bytes, second: bytes) -> bytes:
        """Concatenate the frames."""
        return first + second


@dataclass(frozen=True)
class CountJob(_AppendingJob):
    """First pass: the counts of each range of scores, after which the ranges are in order."""

    def partial(self, batches: Iterable[Any], partition: str) -> bytes:  # noqa: ARG002 - the rows are valid
        """Return the counts of a range."""
        scores, hits = _items(batches)
        if not len(scores):
            return b""
        return encode({str(scores.dtype)[len("torch.") :]: json.dumps(ranges.count_range(scores, hits)).encode()})

    def finish(self, data: bytes) -> list[RankedRange]:
        """Return the ranges by descending score."""
        return ranges.rank_ranges([RangeCounts(*json.loads(x)) for frame in decode(data) for x in frame.values()])


@dataclass(frozen=True)
class SumJob(_AppendingJob):
    """Second pass: the part of the sum over hits of each range."""

    ranked: Sequence[RankedRange]
    convention: Convention

    def partial(self, batches: Iterable[Any], partition: str) -> bytes:  # noqa: ARG002 - the rows are valid
        """Return the part of a range."""
        scores, hits = _items(batches)
        if not len(scores):
            return b""
        piece = ranges.sum_range(scores, hits, self.ranked, self.convention)
        return encode({f"{piece.first} {piece.length}": piece.sums.tobytes(), "rest": piece.rest.tobytes()})

    def finish(self, data: bytes) -> list[Piece]:
        """Return the parts in any order."""
        pieces = []
        for frame in decode(data):
            (place, sums), (_, rest) = frame.items()
            first, length = map(int, place.split())
            pieces.append(Piece(first, length, np.frombuffer(sums), np.frombuffer(rest)))
        return pieces


@dataclass(frozen=True)
class QueryJob(_AppendingJob):
    """Measures of queries, each of which is in one partition.

    Attributes:
        columns: columns of scores, targets and queries.
        measures: measures by name.
        relevance_level: lowest relevant grade of measures without grades.
        confidence_level: nominal coverage of the intervals.
    """

    columns: ColumnNames
    measures: Mapping[str, Measure]
    relevance_level: int | None
    confidence_level: float

    def partial(self, batches: Iterable[Any], partition: str) -> bytes:
        """Return the names of the queries of a partition, and the value of each measure."""
        parts = list(self.columns.read(batches, partition))
        if not parts:
            return b""
        names = list(parts[0][0].groups)
        values = {"": json.dumps(names).encode()}
        for name, measure in self.measures.items():
            level: dict[str, Any] = {} if measure.formula.graded else {"relevance_level": self.relevance_level}
            metric = metric_of_measure(measure.formula, **level)
            for _, columns, _ in parts:
                metric.update(columns.preds, columns.target, indexes=columns.group)
            values[name] = metric.per_query()[1].to(torch.float64).numpy().tobytes()
        return encode(values)

    def finish(self, data: bytes) -> Evaluation:
        """Return the values of all queries, sorted by name, and their means."""
        frames = decode(data)
        queries = [name for frame in frames for name in json.loads(frame[""])]
        if len(set(queries)) < len(queries):
            repeated = next(name for place, name in enumerate(queries) if name in queries[:place])
            raise ValueError(f"each query must be in one partition, got {repeated!r} in several")
        ordered, results = sorted_names(queries), {}
        for name in self.measures:
            values = torch.from_numpy(np.concatenate([np.zeros(0), *(np.frombuffer(x[name]) for x in frames)]))
            results[name] = Result(queries, values, 0.0).with_values(queries, values).reorder(ordered)
        conventions = {name: measure.formula.describe() for name, measure in self.measures.items()}
        return Evaluation(results, conventions, (), self.confidence_level)


def exact_ranking(preds: str, target: str, options: dict[str, Any]) -> ExactRanking:
    """Return the plan of an exact AP.

    Args:
        preds: column of scores.
        target: column of targets.
        options: keywords of :func:`torch_ap.functional.binary_average_precision`: ``top_k``, ``denominator``, ``ties``,
            ``convention``, ``empty_target_action`` and ``dtype``.

    Raises:
        TypeError, ValueError: for an invalid option, and for a convention that needs all items in one process.
    """
    known = ("top_k", "denominator", "ties", "convention", "empty_target_action", "dtype")
    for name in options.keys() - set(known):
        raise_invalid(
            name, f"must be absent: an exact AP of a distributed table takes {', '.join(known)}", options[name]
        )
    dtype = options.pop("dtype", None)
    checks.floating_dtype("dtype", dtype)
    columns = ColumnNames.from_arguments(preds, target)
    if len(columns.preds) > 1:
        raise_invalid("preds", "must be one column", preds)
    settings = average_precision_settings((None, None), "none", None, None, True, None, **options)
    ranges.check_convention(settings.convention)
    return ExactRanking(columns, settings, dtype)


def query_job(
    columns: ColumnNames,
    measures: Names,
    *,
    ties: str | None = None,
    denominator: str | None = None,
    relevance_level: int | None = None,
    confidence_level: float = 0.95,
) -> QueryJob:
    """Return the job of measures by name; arguments as for ``evaluate_queries`` of the engines."""
    names = [measures] if isinstance(measures, str) else list(measures)
    if not names:
        raise_invalid("measures", "must name at least one measure", measures)
    found = measures_of(names, ties=ties, denominator=denominator, grouped=True, classes=False)
    level = checks.open_fraction("confidence_level", confidence_level)
    return QueryJob(columns, {x.name: x for x in found}, relevance_level, level)


def _items(batches: Iterable[Any]) -> tuple[Tensor, Tensor]:
    """Return the scores and hits of validated rows."""
    parts = [[batch.column(name).to_numpy(zero_copy_only=False) for name in (SCORE, HIT)] for batch in batches]
    if not parts:
        return torch.zeros(0), torch.zeros(0, dtype=torch.int8)
    scores, hits = (torch.from_numpy(np.concatenate(x)) for x in zip(*parts, strict=True))
    return scores, hits
