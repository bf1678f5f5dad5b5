"""Measures of search and recommendation as metrics, averaged over queries."""

from torch_ap.metrics.discounted_gain import RetrievalNormalizedDCG
from torch_ap.metrics.embeddings import EmbeddingMAP
from torch_ap.metrics.first_hit import RetrievalHitRate, RetrievalMRR
from torch_ap.metrics.retrieval import RetrievalMAP
from torch_ap.metrics.retrieval_at_k import (
    RetrievalFallOut,
    RetrievalFBeta,
    RetrievalPrecision,
    RetrievalRecall,
    RetrievalRPrecision,
)

__all__ = [
    "EmbeddingMAP",
    "RetrievalFBeta",
    "RetrievalFallOut",
    "RetrievalHitRate",
    "RetrievalMAP",
    "RetrievalMRR",
    "RetrievalNormalizedDCG",
    "RetrievalPrecision",
    "RetrievalRPrecision",
    "RetrievalRecall",
]
