"""Average precision for PyTorch: exact, named, fast."""

from torch_ap import functional
from torch_ap._version import __version__
from torch_ap.metrics.classification import (
    AveragePrecision,
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
)
from torch_ap.metrics.retrieval import (
    RetrievalFallOut,
    RetrievalFBeta,
    RetrievalHitRate,
    RetrievalMAP,
    RetrievalMRR,
    RetrievalPrecision,
    RetrievalRecall,
    RetrievalRPrecision,
)

__all__ = [
    "AveragePrecision",
    "BinaryAveragePrecision",
    "MulticlassAveragePrecision",
    "MultilabelAveragePrecision",
    "RetrievalFBeta",
    "RetrievalFallOut",
    "RetrievalHitRate",
    "RetrievalMAP",
    "RetrievalMRR",
    "RetrievalPrecision",
    "RetrievalRPrecision",
    "RetrievalRecall",
    "__version__",
    "functional",
]
