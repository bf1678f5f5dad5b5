"""Detections: boxes and masks in, matched to the ground truths, hit curves out."""
