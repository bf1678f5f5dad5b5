"""Jobs of metrics: each partition updates a copy of a metric, and the states are merged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.classification.state import ItemMetric
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.metric.merging import merge
from torch_ap.core.metric.state import emptied
from torch_ap.detection.metrics.images import ImageState
from torch_ap.engines.jobs import ColumnNames, Job, decode, encode, sorted_names


@dataclass(frozen=True)
class _MetricJob:
    """Base of jobs whose results are states of a metric by name.

    Attributes:
        metric: the metric, without a state.
        columns: names of the columns.
    """

    metric: Any
    columns: ColumnNames

    def merge(self, first: bytes, second: bytes) -> bytes:
        """Merge the states with the same name."""
        parts = [decode(x)[0] for x in (first, second)]
        named = {name: [x[name] for x in parts if name in x] for part in parts for name in part}
        load = self.metric.from_bytes
        return encode({name: x[0] if len(x) == 1 else merge(map(load, x)).to_bytes() for name, x in named.items()})


class ItemJob(_MetricJob):
    """A metric of classification with all rows; one per group if there is a column of groups."""

    def partial(self, batches: Iterable[Any], partition: str) -> bytes:
        """Return the states of the metrics of a partition by group."""
        metrics = {} if self.columns.group is not None else {"": emptied(self.metric)}
        for table, columns, first in self.columns.read(batches, partition):
            values = [x for x in (columns.preds, columns.target, columns.weights) if x is not None]
            groups, every = list(table.groups), torch.arange(len(columns.preds))
            parts = {"": every} if columns.group is None else _rows_of_groups(columns.group, groups)
            for name, rows in parts.items():
                if name not in metrics:
                    metrics[name] = emptied(self.metric)
                _update(metrics[name], [x[rows] for x in values], partition, (first + rows).tolist())
        return encode({name: metric.to_bytes() for name, metric in metrics.items()})

    def finish(self, data: bytes) -> Any:
        """Return the metric, or the metrics by group."""
        metrics = {name: self.metric.from_bytes(state) for name, state in decode(data)[0].items()}
        return metrics[""] if self.columns.group is None else {name: metrics[name] for name in sorted_names(metrics)}


class ImageJob(_MetricJob):
    """A detection metric with all images, one per row, in two columns of structs."""

    def partial(self, batches: Iterable[Any], partition: str) -> bytes:
        """Return the state of the images of a partition."""
        metric, first = emptied(self.metric), 1
        for batch in batches:
            images = [_images(batch, side[0]) for side in self.columns[:2]]
            if images[0]:
                _update(metric, images, partition, range(first, first + len(images[0])))
            first += len(images[0])
        return encode({"": metric.to_bytes()})

    def finish(self, data: bytes) -> Any:
        """Return the metric."""
        return self.metric.from_bytes(decode(data)[0][""])


def _update(metric: Any, columns: Sequence[Any], partition: str, rows: Sequence[int]) -> None:
    """Update a metric with some rows; the message of an error contains the number of the first invalid row."""
    try:
        metric.update(*columns)
    except (TypeError, ValueError) as error:
        valid, invalid = 0, len(rows)
        while invalid - valid > 1:
            middle = (valid + invalid) // 2
            try:
                emptied(metric).update(*(x[valid:middle] for x in columns))
                valid = middle
            except (TypeError, ValueError):
                invalid = middle
        raise type(error)(f"{partition}, row {rows[valid]}: {error}") from None


def _rows_of_groups(group: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """Return the rows of each group by its name; ``group`` is (N,) int64."""
    present, counts = np.unique(group.numpy(), return_counts=True)
    rows = torch.split(group.argsort(stable=True), counts.tolist())
    return {names[x]: part for x, part in zip(present.tolist(), rows, strict=True)}


def _images(batch: Any, column: str) -> list[dict[str, Tensor]]:
    """Return the dict of each image from a column of structs of lists, or from dicts of arrays or tensors."""
    if isinstance(batch, list):
        return [{key: torch.as_tensor(value) for key, value in row[column].items()} for row in batch]
    array = batch.column(column)
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    fields = {name: array.field(name) for name in names}
    return [
        {name: _tensor(field[row].values) for name, field in fields.items() if field[row].is_valid}
        for row in range(batch.num_rows)
    ]


def _tensor(values: Any) -> Tensor:
    """Return an Arrow array of numbers, or of lists of equal length, as a tensor."""
    rows = len(values)
    is_nested = hasattr(values, "flatten") and values.type.num_fields
    numbers = (values.flatten() if is_nested else values).to_numpy(zero_copy_only=False)
    return torch.tensor(numbers).reshape(rows, -1 if rows else 4) if is_nested else torch.tensor(numbers)


def metric_job(metric: Any, columns: ColumnNames) -> Job:
    """Return the job of a metric.

    Raises:
        TypeError: for a metric of another kind.
        ValueError: for columns that the metric does not take.
    """
    if isinstance(metric, ItemMetric):
        return ItemJob(metric, columns)
    if not isinstance(metric, ImageState):
        rule = "must be a metric of classification or detection; use `evaluate_queries` for measures of queries"
        raise_invalid("metric", rule, type(metric).__name__, TypeError)
    for name in ("group", "weights"):
        if getattr(columns, name) is not None:
            raise_invalid(name, "must be None for a detection metric", getattr(columns, name))
    return ImageJob(metric, columns)
