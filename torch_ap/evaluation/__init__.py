"""From validated batches to a number, for functions and metrics alike."""
