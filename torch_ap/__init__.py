"""Average precision for PyTorch: exact, named, fast."""

from torch_ap import functional, inference
from torch_ap._version import __version__
from torch_ap.metrics.classification import (
    AveragePrecision,
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
)
from torch_ap.metrics.detection import MeanAveragePrecision, VOCMeanAveragePrecision
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
    "MeanAveragePrecision",
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
    "VOCMeanAveragePrecision",
    "__version__",
    "functional",
    "inference",
]
