"""Columns of tables from text, CSV, Parquet and JSON."""
