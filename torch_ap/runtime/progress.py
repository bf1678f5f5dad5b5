"""A progress bar, where one is asked for."""

import importlib
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def with_bar(steps: Iterable[T], progress: bool) -> Iterable[T]:
    """The steps; with ``progress`` a bar shows how many are done (tqdm; extra: ``inference``)."""
    if not progress:
        return steps
    try:
        bars: Any = importlib.import_module("tqdm.auto")
    except ImportError as error:
        raise ModuleNotFoundError("`progress=True` needs tqdm: pip install tqdm (extra `inference`)") from error
    bar: Iterable[T] = bars.tqdm(steps)
    return bar
