"""What a detector's matches tell beyond its number: where to cut it, what it gets wrong, and in which images."""
