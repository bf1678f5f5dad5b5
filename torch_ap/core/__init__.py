"""Shared core: rankings to numbers, without knowledge of a task."""
