"""Data of one call in place of a metric's state, for analyses without torchmetrics, whose import takes two seconds."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Evaluation:
    """Abstract: data of one call in one process, with the attributes that analyses read from metrics.

    Its ``repr`` is the repr of a metric with the same settings, for pages.
    """

    first_violation = None  # invalid values raise when the data is added
    update_called = True

    def _all_ranks(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _check_identity(self, *_: Any) -> None:
        """Return: the settings of the value include all settings of the data."""
