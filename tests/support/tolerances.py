"""Tolerances of comparisons, with their reasons. Other tolerances have a comment of their own."""

LAST_BITS = 1e-15  # one float64 result of a few operations
FEW_TERMS = 1e-14  # sums of a few float64 terms, in another order
DOZENS_OF_TERMS = 1e-13  # sums of dozens of them
REORDERED = 1e-12  # sums of any number that a test has, or of rounded terms
SOLVED = 1e-9  # special functions, quadratures and roots, by other algorithms than ours
SINGLE = 1e-6  # a result in float32
UNDERFLOW = 1e-300  # values that one algorithm distinguishes from 0 and another does not
