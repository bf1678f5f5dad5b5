"""Items of one ranking in temporary files by ranges of scores, for rankings that do not fit into memory.

The first items define the ranges. A range that becomes too large is divided again, by a sample of its own scores. A
score that is too frequent becomes a range of its own, whose items are only counted. The files have no name, so that
the system removes them when the process ends in any way.
"""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking import builders, hit_curve
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array

_MAX_ROWS = 1 << 23  # of a range; sorting them takes about 185 MB
_RANGES = 256  # ranges that one division creates; each has an open file
_SAMPLE = 1 << 18  # scores that define the ranges of a division
_CHUNK = 1 << 20  # rows of a file that are read in one step


def check_space(folder: str | Path, needed: int) -> None:
    """Raise OSError unless a folder has space for a number of bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        message = f"temporary files need {needed / 1e9:,.1f} GB, but {free / 1e9:,.1f} GB are free (TMPDIR, or --spill)"
        raise OSError(errno.ENOSPC, message, str(folder))


class SpilledItems:
    """Scores and hits in temporary files.

    Args:
        folder: folder of the files.
        max_rows: number of items of a range that fits into memory.

    Attributes:
        items: number of items.
        hits: number of relevant items.
    """

    def __init__(self, folder: str | Path, max_rows: int = _MAX_ROWS) -> None:
        self._folder, self._max_rows = folder, max_rows
        self._files: list[IO[bytes]] = []
        self._edges: Array = np.zeros(0)
        self._row: Any = None  # dtype of an item
        self.items = self.hits = 0

    def __enter__(self) -> "SpilledItems":
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files:
            file.close()

    def add(self, scores: Tensor, relevant: Tensor) -> None:
        """Write items.

        Args:
            scores: (N,) scores of one dtype in all calls, no NaN.
            relevant: (N,) of 0 and 1.
        """
        rows = np.empty(len(scores), [("score", scores.numpy().dtype), ("hit", np.uint8)])
        rows["score"], rows["hit"] = scores.numpy(), relevant.numpy()
        self.items += len(rows)
        self.hits += int(np.count_nonzero(rows["hit"]))
        self._write(rows)

    def _write(self, rows: Array) -> None:
        if self._row is None and len(rows):
            self._row, self._edges = rows.dtype, _edges(rows["score"][:_SAMPLE], _RANGES)
            self._files = [tempfile.TemporaryFile(dir=self._folder) for _ in range(len(self._edges) + 1)]  # noqa: SIM115
        place = np.searchsorted(self._edges, rows["score"], side="right").astype(np.uint16)
        ordered = rows[np.argsort(place, kind="stable")]
        start = 0
        for number, length in enumerate(np.bincount(place, minlength=len(self._files)).tolist()):
            if length:
                ordered[start : start + length].tofile(self._files[number])
            start += length

    def curves(self) -> Iterator[HitCurve]:
        """Yield the curve of each range by descending score, and close its file; each can be read once."""
        while self._files:
            with self._files.pop() as file:
                length = file.seek(0, 2) // self._row.itemsize
                if length > self._max_rows:
                    yield from self._divided(file, length)
                elif length:
                    rows = _read(file, self._row, 0, length)
                    scores, hits = (torch.from_numpy(rows[name].copy()) for name in ("score", "hit"))
                    del rows
                    yield builders.from_scores(scores, hits)

    def _divided(self, file: IO[bytes], length: int) -> Iterator[HitCurve]:
        """Yield the curves of the parts of a range."""
        places = range(0, length, _CHUNK)
        ends = [(x["score"].min(), x["score"].max(), x["hit"].sum(dtype=np.int64)) for x in self._chunks(file, places)]
        low, high, hits = zip(*ends, strict=True)
        if min(low) == max(high):
            relevant = int(sum(hits))
            yield hit_curve.one_group(hit_curve.without_entries(length, relevant), torch.tensor([relevant]))
            return
        check_space(self._folder, length * self._row.itemsize)
        with SpilledItems(self._folder, self._max_rows) as parts:
            step = max(1, _SAMPLE // len(places))
            sample = [x["score"][:: max(1, len(x) // step)] for x in self._chunks(file, places)]
            parts._row, parts._edges = self._row, _edges(np.concatenate(sample), _RANGES)
            parts._files = [tempfile.TemporaryFile(dir=self._folder) for _ in range(len(parts._edges) + 1)]  # noqa: SIM115
            for rows in self._chunks(file, places):
                parts._write(rows)
            file.truncate(0)
            yield from parts.curves()

    def _chunks(self, file: IO[bytes], places: range) -> Iterator[Array]:
        return (_read(file, self._row, place, _CHUNK) for place in places)


def _read(file: IO[bytes], row: Any, first: int, length: int) -> Array:
    """Return at most ``length`` rows of a file."""
    file.seek(first * row.itemsize)
    return np.fromfile(file, row, length)


def _edges(sample: Array, ranges: int) -> Array:
    """Return ascending scores that divide a sample into ranges of about equal size; a frequent score has its own range.

    A range contains the scores from an edge to before the next one.
    """
    ordered = np.sort(sample)
    edges, counts = np.unique(ordered[np.arange(1, ranges) * len(ordered) // ranges], return_counts=True)
    frequent = edges[counts > 1]
    if frequent.dtype.kind == "f":
        after = np.nextafter(frequent, np.inf, dtype=frequent.dtype)
    else:
        after = frequent[frequent < np.iinfo(frequent.dtype).max] + 1
    return np.unique(np.concatenate([edges, after]))
