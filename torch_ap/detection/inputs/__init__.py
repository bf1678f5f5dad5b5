"""Validation of images, detections and ground truths."""
