"""Optional progress bars."""

import importlib
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def progress_bar(steps: Iterable[T], progress: bool) -> Iterable[T]:
    """Return the steps, with ``progress`` wrapped in a bar (tqdm; extra: ``inference``)."""
    if not progress:
        return steps
    try:
        bars: Any = importlib.import_module("tqdm.auto")
    except ImportError as error:
        raise ModuleNotFoundError("`progress=True` requires tqdm: pip install tqdm (extra `inference`)") from error
    bar: Iterable[T] = bars.tqdm(steps)
    return bar
