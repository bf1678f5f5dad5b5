"""Scores to hit curves."""
