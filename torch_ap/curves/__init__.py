"""Curves of rankings as records and functions."""
