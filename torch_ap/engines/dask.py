"""Metrics of Dask's DataFrames and Bags, computed by its workers (``pip install 'dask[dataframe]'``)."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from torch import Tensor

from torch_ap.engines.jobs import ColumnNames, Job, Names, check_columns, to_batches
from torch_ap.engines.metrics import metric_job
from torch_ap.engines.rankings import HIT, SCORE, exact_ranking, query_job
from torch_ap.retrieval.runs.results import Evaluation

__all__ = ["aggregate", "binary_average_precision", "evaluate_queries"]

_FAN_IN = 8  # states that one task merges


def aggregate(
    data: Any, metric: Any, preds: Names, target: Names, *, group: str | None = None, weights: str | None = None
) -> Any:
    """Return a metric with the rows of all partitions.

    Each partition updates a copy of the metric, and the states are merged in a tree.

    Args:
        data: the rows: a DataFrame, or a Bag of dicts.
        metric: an empty metric of classification or detection, which does not change.
        preds: column of scores, or of lists of scores, or one column per class. For a detection metric, a column of
            structs or dicts with the detections of an image, as for ``update``: boxes, scores, labels.
        target: column of targets: 0 and 1, class numbers or names of the columns of scores; or one column per label.
            For a detection metric, a column of structs or dicts with the ground truths of the image.
        group: column of groups for a metric per group.
        weights: column of weights.

    Returns:
        A new metric; with ``group`` a dict of metrics by the name of the group. With ``bins`` its size is constant.

    Raises:
        TypeError, ValueError: for a metric of another kind, a missing column, and an invalid value; the message has the
            partition (from 0), the row in it (from 1), column and value.

    Example:
        >>> import dask.dataframe, torch_ap
        >>> from torch_ap.engines import dask as on_dask
        >>> data = dask.dataframe.from_dict({"score": [0.9, 0.8, 0.7, 0.1], "label": [1, 0, 1, 0]}, npartitions=2)
        >>> on_dask.aggregate(data, torch_ap.BinaryAveragePrecision(bins="adaptive"), "score", "label").compute()
        tensor(0.8333)
    """
    columns = ColumnNames.from_arguments(preds, target, group, weights)
    job = metric_job(metric, columns)
    return job.finish(_reduce(data, job, columns.names))


def binary_average_precision(data: Any, preds: str, target: str, **options: Any) -> Tensor:
    """Return the exact AP of one ranking of all rows, which no process needs to store or sort.

    Dask sorts the rows by score. Each partition then counts its rows, and in a second pass adds its part of the sum
    over positives. The value has the same bits as :func:`torch_ap.functional.binary_average_precision` of all rows.

    Args:
        data: see :func:`aggregate`.
        preds: column of scores, no NaN.
        target: column of targets, 0 and 1.
        **options: ``top_k``, ``denominator`` ("min" or "relevant"), ``ties``, ``convention``, ``empty_target_action``
            and ``dtype`` of that function. Weights and ``interpolation`` need all rows in one process: see
            :func:`aggregate` with ``bins``.

    Returns:
        0-d tensor.

    Raises:
        TypeError, ValueError: as :func:`aggregate`, and for an option that needs all rows in one process.

    Example:
        >>> import dask.dataframe
        >>> from torch_ap.engines import dask as on_dask
        >>> data = dask.dataframe.from_dict({"score": [0.1, 0.8, 0.7, 0.9], "label": [0, 0, 1, 1]}, npartitions=2)
        >>> on_dask.binary_average_precision(data, "score", "label", ties="expected")
        tensor(0.8333, dtype=torch.float64)
    """
    import pandas
    import pyarrow
    from dask.dataframe import from_delayed
    from dask.delayed import delayed

    plan = exact_ranking(preds, target, options)
    frame = _frame(data, plan.columns.names)
    meta = pandas.DataFrame({SCORE: [], HIT: []}).astype({SCORE: frame.dtypes[plan.columns.preds[0]], HIT: "int8"})

    def validated(rows: Any, place: int) -> Any:
        batches = list(plan.validated_rows(to_batches(rows, plan.columns.names), f"partition {place}"))
        return pyarrow.Table.from_batches(batches).to_pandas() if batches else meta

    parts = [delayed(validated)(rows, place) for place, rows in enumerate(frame.to_delayed())]
    rows = from_delayed(parts, meta=meta, verify_meta=False).sort_values(SCORE).persist()
    return plan.value(lambda job: _reduce(rows, job, [SCORE, HIT]))


def evaluate_queries(data: Any, measures: Names, preds: str, target: str, query: str, **options: Any) -> Evaluation:
    """Return measures of each query, and their means, after Dask has brought the rows of each query together.

    Args:
        data: see :func:`aggregate`.
        measures: one or several measures of ``torch-ap score --group``: "map", "map@10", "ndcg", "P@5", ...
        preds: column of scores.
        target: column of grades, whole numbers of at least 0.
        query: column with the query of each row.
        **options: ``ties``, None for "expected", or "grouped" for interpolated AP; ``denominator`` of AP@k, "min" by
            default; ``relevance_level``, the lowest relevant grade, default 1; ``confidence_level``, default 0.95.

    Returns:
        :class:`torch_ap.retrieval.runs.Evaluation`, with ``to_dict()``, ``per_query()`` and ``confidence_interval()``.
        Names of queries are text. A query without a relevant row counts 0.

    Raises:
        TypeError, ValueError: as :func:`aggregate`, and for an unknown measure.

    Example:
        >>> import dask.dataframe
        >>> from torch_ap.engines import dask as on_dask
        >>> data = dask.dataframe.from_dict({"query": [1, 2, 1], "score": [3, 2, 1], "label": [0, 1, 1]}, npartitions=2)
        >>> on_dask.evaluate_queries(data, "map", "score", "label", "query").to_dict()
        {'map': 0.75}
    """
    columns = ColumnNames.from_arguments(preds, target, query)
    job, rows = query_job(columns, measures, **options), _frame(data, columns.names).shuffle(on=query)
    return job.finish(_reduce(rows, job, columns.names))


def _reduce(data: Any, job: Job, columns: Sequence[str]) -> bytes:
    """Return the merged result of all partitions."""
    from dask.delayed import delayed

    def work(rows: Any, place: int) -> bytes:
        return job.partial(to_batches(rows, columns), f"partition {place}")

    rows = _frame(data, columns) if hasattr(data, "columns") else data
    states = [delayed(work)(part, place) for place, part in enumerate(rows.to_delayed())]
    while len(states) > 1:
        starts = range(0, len(states), _FAN_IN)
        states = [delayed(reduce)(job.merge, states[first : first + _FAN_IN]) for first in starts]
    return states[0].compute()  # type: ignore[no-any-return]


def _frame(data: Any, columns: Sequence[str]) -> Any:
    """Return the columns as a DataFrame."""
    frame = data if hasattr(data, "columns") else data.to_dataframe()
    check_columns(columns, list(frame.columns))
    return frame[list(columns)]
