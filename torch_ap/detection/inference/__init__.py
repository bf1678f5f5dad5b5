"""Intervals, comparisons and chance level of detection metrics."""
