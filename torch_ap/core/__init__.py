"""The numeric core: scores to hit curves, hit curves to numbers. Nothing here knows of tasks or of state."""
