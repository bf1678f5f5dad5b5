"""Measures of search and recommendation, averaged over queries: metric classes."""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports
from torch_ap.core.measures.names import METRICS

if TYPE_CHECKING:
    from torch_ap.retrieval.functions import PrecisionRecallAtK
    from torch_ap.retrieval.metrics.at_k import (
        RetrievalFallOut,
        RetrievalFBeta,
        RetrievalHitRate,
        RetrievalPrecision,
        RetrievalRecall,
        RetrievalRPrecision,
    )
    from torch_ap.retrieval.metrics.embeddings import EmbeddingMAP
    from torch_ap.retrieval.metrics.measures import RetrievalAUROC, RetrievalMAP, RetrievalMRR, RetrievalNormalizedDCG
    from torch_ap.retrieval.metrics.measures import RetrievalRankBiasedPrecision as RetrievalRankBiasedPrecision
    from torch_ap.retrieval.metrics.precision_recall import (
        RetrievalPrecisionRecallCurve,
        RetrievalRecallAtFixedPrecision,
    )
    from torch_ap.retrieval.metrics.query_metric import QueryMetric
    from torch_ap.retrieval.rankings import IndexEncoder, indexes_from_sizes
    from torch_ap.retrieval.runs.suspicious import suspicious_labels

__all__ = [
    "EmbeddingMAP",
    "IndexEncoder",
    "PrecisionRecallAtK",
    "QueryMetric",
    "RetrievalAUROC",
    "RetrievalFBeta",
    "RetrievalFallOut",
    "RetrievalHitRate",
    "RetrievalMAP",
    "RetrievalMRR",
    "RetrievalNormalizedDCG",
    "RetrievalPrecision",
    "RetrievalPrecisionRecallCurve",
    "RetrievalRPrecision",
    "RetrievalRecall",
    "RetrievalRecallAtFixedPrecision",
    "indexes_from_sizes",
    "suspicious_labels",
    *METRICS,
]

_METRICS = ("measures", "at_k", "query_metric", "precision_recall", "embeddings")
__getattr__, __dir__ = lazy_exports(
    __name__,
    __all__,
    (
        "retrieval.rankings",
        "retrieval.functions",
        "retrieval.runs.suspicious",
        *(f"retrieval.metrics.{name}" for name in _METRICS),
    ),
    objects=METRICS,
)
