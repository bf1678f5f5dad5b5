"""Input validation: what callers give, checked, in one layout."""
