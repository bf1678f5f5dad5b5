"""Batches of scores and targets, and the settings of an average precision."""
