"""Average precision of classifiers: metric classes."""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.classification.metrics import (
        AveragePrecision,
        BinaryAveragePrecision,
        MulticlassAveragePrecision,
        MultilabelAveragePrecision,
    )

__all__ = ["AveragePrecision", "BinaryAveragePrecision", "MulticlassAveragePrecision", "MultilabelAveragePrecision"]

__getattr__, __dir__ = lazy_exports(__name__, __all__, ("classification.metrics",))
