"""Do the intervals cover, and do the tests keep their size: simulations, and a table of what they found."""
