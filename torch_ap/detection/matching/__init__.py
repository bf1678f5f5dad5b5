"""Matching of detections to ground truths."""
