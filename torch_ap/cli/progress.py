"""How far long work has come, on one line of standard error, where that is a terminal."""

import importlib.util
import sys
from pathlib import Path
from types import TracebackType

from torch_ap.rules.messages import printable

_WORTH_TELLING = 1 << 25


class Bar:
    """Tell how much of a file is done, if the file is long and somebody is watching; wipe the line at the end."""

    def __init__(self, path: str) -> None:
        self._name = printable(Path(path).name)
        self._shown = -1

    def __enter__(self) -> "Bar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown >= 0:
            sys.stderr.write("\r" + " " * (len(self._name) + 7) + "\r")

    def __call__(self, done: int, size: int) -> None:
        """Show how many of how many bytes are done."""
        percent = 100 * done // max(size, 1)
        if size >= _WORTH_TELLING and percent > self._shown and _watched():
            self._shown = percent
            sys.stderr.write(f"\r{self._name} {percent:3d} %")
            sys.stderr.flush()


def of_resamples() -> bool:
    """Whether resampling shows its bar: to somebody who watches, where tqdm is installed (extra: ``inference``)."""
    return _watched() and importlib.util.find_spec("tqdm") is not None


def _watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
