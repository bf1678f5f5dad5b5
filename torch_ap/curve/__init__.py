"""Hit curves to numbers."""
