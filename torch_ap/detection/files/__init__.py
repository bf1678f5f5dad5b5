"""Readers and writers of detection files."""
