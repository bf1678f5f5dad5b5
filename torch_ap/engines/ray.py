"""Metrics of data sets of Ray Data, computed by its tasks (``pip install 'ray[data]'``)."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from torch_ap.engines.jobs import ColumnNames, Job, Names, check_columns, task_errors, to_batches
from torch_ap.engines.metrics import metric_job
from torch_ap.engines.rankings import SCORE, exact_ranking, query_job
from torch_ap.retrieval.runs.results import Evaluation

__all__ = ["aggregate", "binary_average_precision", "evaluate_queries"]

_STATE = "state"


def aggregate(
    data: Any, metric: Any, preds: Names, target: Names, *, group: str | None = None, weights: str | None = None
) -> Any:
    """Return a metric with the rows of all blocks: ``map_batches``, and an aggregation of the states.

    Args:
        data: a ``ray.data.Dataset``.
        metric: see :func:`torch_ap.engines.dask.aggregate`, as for the other arguments and the result.
        preds: see there.
        target: see there.
        group: see there.
        weights: see there.

    Returns:
        A new metric; with ``group`` a dict of metrics by the name of the group.

    Raises:
        TypeError, ValueError: as that function; messages name the block, in the order of reading, as the partition.
    """
    columns = ColumnNames.from_arguments(preds, target, group, weights)
    job = metric_job(metric, columns)
    return job.finish(_reduce(_select(data, columns.names), job))


def binary_average_precision(data: Any, preds: str, target: str, **options: Any) -> Tensor:
    """Return the exact AP of one ranking of all rows, which no process needs to store or sort.

    Ray sorts the rows by score. Each block then counts its rows, and in a second pass adds its part of the sum over
    positives. The value has the same bits as :func:`torch_ap.functional.binary_average_precision` of all rows.

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
    import pyarrow

    plan = exact_ranking(preds, target, options)

    def validated(rows: Any) -> Any:
        batches = list(plan.validated_rows(to_batches(rows, plan.columns.names), _block_name()))
        return pyarrow.Table.from_batches(batches)

    with task_errors():
        rows = _map_blocks(_select(data, plan.columns.names), validated).sort(SCORE).materialize()
    return plan.value(lambda job: _reduce(rows, job))


def evaluate_queries(data: Any, measures: Names, preds: str, target: str, query: str, **options: Any) -> Evaluation:
    """Return measures of each query, and their means, after Ray has brought the rows of each query together.

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
    from ray.data import DataContext

    columns = ColumnNames.from_arguments(preds, target, query)
    job = query_job(columns, measures, **options)
    blocks = DataContext.get_current().default_hash_shuffle_parallelism
    return job.finish(_reduce(_select(data, columns.names).repartition(blocks, keys=[query]), job))


def _reduce(data: Any, job: Job) -> bytes:
    """Return the merged result of all blocks."""
    import pyarrow
    from ray.data.aggregate import AggregateFn

    def partial(rows: Any) -> Any:
        return pyarrow.table({_STATE: pyarrow.array([job.partial(rows.to_batches(), _block_name())], "binary")})

    def merge(first: bytes, second: bytes) -> bytes:
        return job.merge(first, second) if first and second else first or second

    def add(state: bytes, row: Any) -> bytes:
        return merge(state, row[_STATE])

    with task_errors():
        states = _map_blocks(data, partial)
        merged = states.aggregate(AggregateFn(init=lambda _: b"", accumulate_row=add, merge=merge, name=_STATE))
    return merged[_STATE] or job.partial([], "")


def _map_blocks(data: Any, function: Callable[[Any], Any]) -> Any:
    return data.map_batches(function, batch_size=None, batch_format="pyarrow")


def _select(data: Any, columns: Sequence[str]) -> Any:
    check_columns(columns, data.schema().names)
    return data.select_columns(list(columns))


def _block_name() -> str:
    """Return the name of the block that this task reads."""
    from ray.data._internal.execution.interfaces import TaskContext

    context = TaskContext.get_current()
    return f"partition {context.task_idx}" if context else "partition"
