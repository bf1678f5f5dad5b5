"""What a detector's matches tell beyond its number: where to cut it, and what it confuses."""
