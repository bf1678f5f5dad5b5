"""Scores to hit curves: keys, sorts, tie groups, segments and bins."""
