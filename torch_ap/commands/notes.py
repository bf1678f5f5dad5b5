"""What a command says beside its results: lines on standard error."""

import sys


def note(message: str) -> None:
    """Write a message on standard error, as one line."""
    if sys.stderr is not None:
        sys.stderr.write(f"torch-ap: {' '.join(message.split())}\n")
