"""Shapes of objects: areas, overlaps and encodings."""
