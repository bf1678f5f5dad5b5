"""Metrics of Spark DataFrames, computed by its executors (``pip install pyspark``, with Java and pyarrow)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor

from torch_ap.engines.jobs import ColumnNames, Job, Names, check_columns, task_errors
from torch_ap.engines.metrics import metric_job
from torch_ap.engines.rankings import HIT, SCORE, exact_ranking, query_job
from torch_ap.retrieval.runs.results import Evaluation

__all__ = ["aggregate", "binary_average_precision", "evaluate_queries"]


def aggregate(
    data: Any, metric: Any, preds: Names, target: Names, *, group: str | None = None, weights: str | None = None
) -> Any:
    """Return a metric with the rows of all partitions: ``mapInArrow``, and ``treeReduce`` of the states.

    Args:
        data: a ``pyspark.sql.DataFrame``.
        metric: see :func:`torch_ap.engines.dask.aggregate`, as for the other arguments and the result.
        preds: see there.
        target: see there.
        group: see there.
        weights: see there.

    Returns:
        A new metric; with ``group`` a dict of metrics by the name of the group.

    Raises:
        TypeError, ValueError: as that function.
    """
    columns = ColumnNames.from_arguments(preds, target, group, weights)
    job = metric_job(metric, columns)
    return job.finish(_reduce(_select(data, columns.names), job))


def binary_average_precision(data: Any, preds: str, target: str, **options: Any) -> Tensor:
    """Return the exact AP of one ranking of all rows, which no process needs to store or sort.

    Spark divides the rows into ranges of scores (``repartitionByRange``). Each partition then counts its rows, and in a
    second pass adds its part of the sum over positives. The value has the same bits as
    :func:`torch_ap.functional.binary_average_precision` of all rows.

    Args:
        data: see :func:`aggregate`.
        preds: column of scores, no NaN.
        target: column of targets, 0 and 1.
        **options: see :func:`torch_ap.engines.dask.binary_average_precision`.

    Returns:
        0-d tensor.

    Raises:
        TypeError, ValueError: as :func:`aggregate`, and for an option that needs all rows in one process.
    """
    plan = exact_ranking(preds, target, options)
    rows = _select(data, plan.columns.names)

    def validated(batches: Iterable[Any]) -> Iterator[Any]:
        yield from plan.validated_rows(batches, _partition_name())

    kind = rows.schema[plan.columns.preds[0]].dataType.simpleString()
    valid = rows.mapInArrow(validated, f"{SCORE} {kind}, {HIT} tinyint")
    ranges = valid.repartitionByRange(max(rows.rdd.getNumPartitions(), 1), SCORE).persist()
    try:
        return plan.value(lambda job: _reduce(ranges, job))
    finally:
        ranges.unpersist()


def evaluate_queries(data: Any, measures: Names, preds: str, target: str, query: str, **options: Any) -> Evaluation:
    """Return measures of each query, and their means, after Spark has brought the rows of each query together.

    Args:
        data: see :func:`aggregate`.
        measures: see :func:`torch_ap.engines.dask.evaluate_queries`, as for the other arguments and the result.
        preds: see there.
        target: see there.
        query: see there.
        **options: see there.

    Returns:
        :class:`torch_ap.retrieval.runs.Evaluation`.

    Raises:
        TypeError, ValueError: as :func:`aggregate`, and for an unknown measure.
    """
    columns = ColumnNames.from_arguments(preds, target, query)
    job = query_job(columns, measures, **options)
    return job.finish(_reduce(_select(data, columns.names).repartition(_quoted(query)), job))


def _reduce(data: Any, job: Job) -> bytes:
    """Return the merged result of all partitions."""

    def partial(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        state = job.partial(batches, _partition_name())
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([state], "binary")], ["state"])

    with task_errors():  # with adaptive execution, `rdd` runs the stages before it
        states = data.mapInArrow(partial, "state binary").rdd.map(lambda row: bytes(row.state))
        return states.treeReduce(job.merge) if states.getNumPartitions() else job.partial([], "")


def _select(data: Any, columns: Sequence[str]) -> Any:
    check_columns(columns, data.columns)
    return data.select(*map(_quoted, columns))


def _quoted(column: str) -> str:
    """Return the name of a column that may contain dots."""
    return "`" + column.replace("`", "``") + "`"


def _partition_name() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return f"partition {context.partitionId()}" if context else "partition"
