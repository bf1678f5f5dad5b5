"""Measures of retrieval, one family per file."""
