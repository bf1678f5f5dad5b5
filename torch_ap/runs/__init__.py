"""Judgements and runs in any form, measured in one call."""
