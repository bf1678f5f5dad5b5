"""The counts of run-length codes as numbers: of plain lists, and of COCO's compressed text."""

import itertools
from typing import Any

import numpy as np

from torch_ap.ranking import segments
from torch_ap.ranking.order import Array

_DIGITS_A_NUMBER = 9  # of five bits each: enough for signed differences of runs of up to 2^40 pixels
_FIRST = np.zeros(1, np.int64)


def from_lists(counts: list[Any]) -> tuple[Array, Array] | None:
    """The runs of all codes, a 0 after those of each, and where these are; None if one is not a list of integers."""
    if not all(isinstance(one, list | tuple) for one in counts):
        return None
    kinds = set(map(type, itertools.chain.from_iterable(counts)))
    if not all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return None
    stops = np.cumsum([len(one) + 1 for one in counts]) - 1
    every = itertools.chain.from_iterable(itertools.chain.from_iterable((one, (0,)) for one in counts))
    try:
        return np.fromiter(every, np.int64, count=int(stops[-1]) + 1), stops
    except OverflowError:
        return None


def from_text(counts: list[str | bytes]) -> tuple[Array, Array] | None:
    """The same from COCO's text: digits of six bits from low to high, five the value, one for "more follows".

    From the fourth on, each number is the difference of a run to the one two places before: that of the sum of two runs
    in a row to the sum before it. So the sums of two are running sums of the numbers, and the runs are running sums of
    these with signs in turn. A 0 after each code takes up what it adds to a running sum, so that the next begins at 0.
    """
    texts: list[bytes] = counts if set(map(type, counts)) == {bytes} else list(map(as_bytes, counts))  # type: ignore[assignment]
    digits = np.frombuffer(b"0".join([*texts, b""]), np.uint8) - np.uint8(48)
    stops = np.cumsum(list(map(len, texts))) + np.arange(len(texts))  # of the texts
    more = digits >= 32
    if digits.max() > 63 or more[stops - 1].any():
        return None
    parts = _parts(digits, more)
    if parts is None:
        return None
    ends = np.flatnonzero(~more)
    stop = ends.searchsorted(stops)  # of the numbers
    start = np.concatenate([_FIRST, stop[:-1] + 1])
    bounds = np.stack([np.concatenate([_FIRST, stops[:-1] + 1]), np.minimum(ends[start] + 1, stops)], 1)
    first, others = np.add.reduceat(parts, bounds.flatten()).reshape(-1, 2).T
    long = start + 2 < stop  # the third number is a run itself, whose sum with the second lacks the first
    parts[ends[start[long] + 2]] -= first[long]
    parts[stops] = np.where(long, -others, -first - others)
    runs = segments.running(parts, parts)[ends]
    runs[1::2] *= -1
    runs[stop] = -np.add.reduceat(runs, start)
    segments.running(runs, runs)
    runs[1::2] *= -1
    return runs, stop


def as_bytes(text: str | bytes) -> bytes:
    """The text of a code, whose characters are ASCII where it is one."""
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text


def _parts(digits: Array, more: Array) -> Array | None:
    """(B,) int64, what each digit adds to its number, in two's complement; None if a number is too long."""
    signs = ((digits & 48) == 16).view(np.uint8) << 5  # of last digits only
    parts: Array = ((digits & 31) - signs).view(np.int8).astype(np.int64)
    place, later = 1, np.flatnonzero(more) + 1
    while len(later):
        if place == _DIGITS_A_NUMBER:
            return None
        parts[later] <<= 5
        place += 1
        later = later[more[later - place]]  # the last digit of all is a code's end
    return parts


def runs_of_text(text: bytes) -> list[int] | str:
    """The runs in a code's text, or what is wrong with it."""
    runs: list[int] = []
    number, place = 0, 0
    for at, byte in enumerate(text):
        digit = byte - 48
        if not 0 <= digit < 64:
            return f"must be COCO's compressed text, whose characters are '0' to 'o', not {chr(byte)!r} at {at}"
        number |= (digit & 31) << (5 * place)
        place += 1
        if place > _DIGITS_A_NUMBER:
            return f"must be COCO's compressed text, whose numbers have at most {_DIGITS_A_NUMBER} characters"
        if digit < 32:
            number -= (digit & 16) << (5 * place - 4)
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number, place = 0, 0
    return "must be COCO's compressed text, but is cut off within a number" if place else runs
