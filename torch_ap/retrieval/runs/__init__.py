"""Evaluation of search runs: dicts, data frames and TREC files."""
