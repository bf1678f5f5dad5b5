"""Readers of the files that finished runs leave behind."""
