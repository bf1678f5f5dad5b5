"""Average precision of classifiers as metrics."""

from torch_ap.metrics.by_task import AveragePrecision
from torch_ap.metrics.classification import (
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
)

__all__ = ["AveragePrecision", "BinaryAveragePrecision", "MulticlassAveragePrecision", "MultilabelAveragePrecision"]
