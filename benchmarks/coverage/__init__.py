"""Simulations of the coverage of intervals and the size of tests, and the table of the results."""
