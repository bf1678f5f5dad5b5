"""The counts of run-length codes as numbers: of plain lists, and of COCO's compressed text."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import torch

from torch_ap.ranking.order import Array

_DIGITS_A_NUMBER = 9  # of five bits each: enough for signed differences of runs of up to 2^40 pixels


class Runs(NamedTuple):
    """The runs of several codes, without those that are outside behind everything inside.

    Attributes:
        runs: (E,) int64 of all codes end to end: of each an even number, outside and inside in turn.
        lengths: (N,) int64, how many of them each code has.
        last: (N,) int64, the run outside behind them; 0 where a code ends inside.
    """

    runs: Array
    lengths: Array
    last: Array


def from_lists(counts: list[Any]) -> Runs | None:
    """The runs of plain lists; None if one is not a list of integers."""
    if not all(isinstance(one, list | tuple) for one in counts):
        return None
    kinds = set(map(type, itertools.chain.from_iterable(counts)))
    if not all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return None
    numbers = np.fromiter(map(len, counts), np.int64, len(counts))
    try:
        runs = np.fromiter(itertools.chain.from_iterable(counts), np.int64, int(numbers.sum()))
    except OverflowError:
        return None
    odd, last = np.flatnonzero(numbers & 1), np.zeros_like(numbers)
    ends = numbers.cumsum()[odd] - 1
    last[odd] = runs[ends]
    return Runs(np.delete(runs, ends), numbers - (numbers & 1), last)


def from_text(counts: list[str | bytes]) -> Runs | None:
    """The runs in COCO's text: digits of six bits from low to high, five the value, one for "more follows".

    None if a text holds anything else. The runs outside and those inside are running sums of every other number.
    """
    texts: list[bytes] = counts if set(map(type, counts)) == {bytes} else list(map(as_bytes, counts))  # type: ignore[assignment]
    digits = np.frombuffer(b"".join(texts), np.uint8) - np.uint8(48)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    stops, more = sizes.cumsum(), digits >= 32
    if len(digits) and (digits.max() > 63 or more[stops[sizes > 0] - 1].any()):
        return None
    low = np.flatnonzero(more)  # digits that are not the highest of their number
    ends = low[~more[low + 1]] + 1
    long = _of_several_digits(digits, ends)
    if long is None:
        return None
    numbers = _signed(digits).astype(np.int64)  # where their highest digits are
    numbers[ends] = long
    count = sizes - np.diff(low.searchsorted(stops), prepend=0)
    odd, last, highest = np.flatnonzero(count & 1), np.zeros_like(sizes), ~more
    behind = stops[odd] - 1
    last[odd], highest[behind] = numbers[behind], False
    runs, lengths = numbers[highest], count - (count & 1)
    _sum_differences(runs, lengths)
    differs = odd[count[odd] > 3]
    last[differs] += runs[lengths.cumsum()[differs] - 2]
    return Runs(runs, lengths, last)


def _signed(digits: Array) -> Array:
    """The highest digits of numbers, in two's complement: int8."""
    return ((digits ^ np.uint8(16)) - np.uint8(16)).view(np.int8)


def _of_several_digits(digits: Array, ends: Array) -> Array | None:
    """The numbers whose highest digits, which are not their only ones, are there; None if one is too long."""
    numbers: Array = 32 * _signed(digits[ends]).astype(np.int64) + (digits[ends - 1] & 31)
    rows, at = np.arange(len(ends)), ends - 1
    for _ in range(_DIGITS_A_NUMBER - 1):
        further = np.flatnonzero(digits[at - 1] >= 32)  # that before the first is a code's last, and not among them
        if not len(further):
            return numbers
        rows, at = rows[further], at[further] - 1
        numbers[rows] = 32 * numbers[rows] + (digits[at] & 31)
    return None


def _sum_differences(runs: Array, lengths: Array) -> None:
    """Make runs of the numbers in a text: from the fourth on, each is the difference to the run two places before.

    Over all codes end to end: the first two of a code take off what the sums have come to by then.
    """
    filled = np.flatnonzero(lengths)
    start = (lengths.cumsum() - lengths)[filled]
    third = start[lengths[filled] > 2] + 2
    runs[third] -= runs[third - 2]
    totals = [np.add.reduceat(runs[side::2], start // 2) for side in (0, 1)]
    for side, total in enumerate(totals):
        runs[start[1:] + side] -= total[:-1]
    pairs = torch.from_numpy(runs).view(-1, 2)
    torch.cumsum(pairs, 0, out=pairs)


def as_bytes(text: str | bytes) -> bytes:
    """The text of a code, whose characters are ASCII where it is one."""
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text


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
