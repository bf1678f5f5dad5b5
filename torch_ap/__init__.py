"""Average precision for PyTorch: exact, named, fast."""

from torch_ap import functional
from torch_ap._version import __version__
from torch_ap.metrics.classification import (
    AveragePrecision,
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
)

__all__ = [
    "AveragePrecision",
    "BinaryAveragePrecision",
    "MulticlassAveragePrecision",
    "MultilabelAveragePrecision",
    "__version__",
    "functional",
]
