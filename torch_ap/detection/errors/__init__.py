"""Error analysis of detectors, computed from their matches."""
