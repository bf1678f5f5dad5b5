"""Metric classes of detection."""
