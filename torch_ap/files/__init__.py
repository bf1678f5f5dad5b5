"""Readers of the files that rankings and judgements come in."""
