"""Measures of search and recommendation as metrics, averaged over queries."""

from torch_ap.inputs.index_encoder import IndexEncoder
from torch_ap.metrics.discounted_gain import RetrievalNormalizedDCG
from torch_ap.metrics.embeddings import EmbeddingMAP
from torch_ap.metrics.first_hit import RetrievalHitRate, RetrievalMRR
from torch_ap.metrics.ranks import RetrievalPrecisionRecallCurve, RetrievalRecallAtFixedPrecision
from torch_ap.metrics.retrieval import RetrievalMAP
from torch_ap.metrics.retrieval_at_k import (
    RetrievalFallOut,
    RetrievalFBeta,
    RetrievalPrecision,
    RetrievalRecall,
    RetrievalRPrecision,
)
from torch_ap.metrics.roc import RetrievalAUROC

__all__ = [
    "EmbeddingMAP",
    "IndexEncoder",
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
]
