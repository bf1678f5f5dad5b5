"""Input validation: what callers give, checked and laid out."""
