"""Queries: batches of many rankings in, and the measures that are asked of each ranking beside AP."""
