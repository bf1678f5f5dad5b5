"""Progress of long work, on standard error if that is a terminal."""

import argparse
import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from torch_ap.core.base.messages import escape_unprintable

_PATIENCE = 2.0  # seconds of silence
_MIN_BYTES = 1 << 25  # shorter files take less than a second


class Bar:
    """Percentage of a long file that has been read; the line is cleared at the end."""

    def __init__(self, path: str) -> None:
        self._name = escape_unprintable(Path(path).name)
        self._percent = -1

    def __enter__(self) -> "Bar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._percent >= 0:
            sys.stderr.write("\r" + " " * (len(self._name) + 7) + "\r")

    def __call__(self, done: int, size: int) -> None:
        """Show the share of ``size`` bytes that is done."""
        percent = 100 * done // max(size, 1)
        if size >= _MIN_BYTES and percent > self._percent and _is_terminal():
            self._percent = percent
            sys.stderr.write(f"\r{self._name} {percent:3d} %")
            sys.stderr.flush()


def resampling_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of functions that resample.

    A progress bar appears on a terminal if tqdm is installed (extra: ``inference``).
    """
    shows_progress = _is_terminal() and importlib.util.find_spec("tqdm") is not None
    return {"n_resamples": args.n_resamples, "progress": shows_progress}


@contextlib.contextmanager
def announced(path: str) -> Iterator[None]:
    """Write that a file is being written, if that takes more than 2 seconds."""
    timer = threading.Timer(_PATIENCE, lambda: sys.stderr.write(f"torch-ap: writing {escape_unprintable(path)} ...\n"))
    if _is_terminal():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
