"""Boxes and masks: areas, overlaps, encodings."""
