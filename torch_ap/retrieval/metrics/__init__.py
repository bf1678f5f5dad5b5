"""Metric classes of retrieval."""
