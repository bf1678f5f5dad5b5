"""Measures of hit curves: average precision, counts, interpolation, averaging and bounds."""
