"""The counts of run-length codes as numbers: of plain lists, and of COCO's compressed text."""

import itertools
import sys
from typing import Any, NamedTuple

import numpy as np

from torch_ap.ranking import segments
from torch_ap.ranking.order import Array

_CHARACTERS_A_NUMBER = 9  # of five bits each: enough for signed differences of runs of up to 2^40 pixels
_FOLLOWED = 80  # the first character that is not the highest of its number
_ALL_FOLLOWED = bytes(range(_FOLLOWED, 112))
_VALUES = bytes(((char - 48) ^ 16) - 16 & 255 for char in range(256))  # of the others, in two's complement
PIXELS_OF_INT32 = 1 << 30  # of masks for whose edges, and their differences, int32 is enough


class Runs(NamedTuple):
    """The runs of several codes, in pairs of one outside and one inside.

    Attributes:
        runs: (E,) int32 or int64 of all codes end to end.
        lengths: (N,) int64, how many of them each code has.
        outside: (N,) bool, whether a code ends outside; the last of its runs is then one of 0 inside, and no number.
    """

    runs: Array
    lengths: Array
    outside: Array


def from_lists(counts: list[Any]) -> Runs | None:
    """The runs of plain lists, int64; None if one is not a list of integers."""
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
    outside = numbers % 2 == 1
    return Runs(np.insert(runs, numbers.cumsum()[outside], 0), numbers + outside, outside)


def from_text(counts: list[str | bytes], sizes: Array, most: int) -> Runs | None:
    """The runs in COCO's text; None if a text holds anything else, or a number that no mask has.

    Numbers are characters from "0" on, from low to high: five bits of the value each, and one for "more follows".

    Args:
        counts: N texts.
        sizes: (N,) int64, their lengths.
        most: pixels of the largest mask.
    """
    texts: list[bytes] = counts if set(map(type, counts)) == {bytes} else list(map(as_bytes, counts))  # type: ignore[assignment]
    if most >= PIXELS_OF_INT32 or sys.byteorder == "big":
        return from_lists(list(map(runs_of_text, texts)))
    text = bytearray(b"0").join([*texts, b""])  # a number more for each code
    chars, behind = np.frombuffer(text, np.uint8), (sizes + 1).cumsum() - 1
    if chars.min() < 48 or chars.max() > 111 or chars[behind - 1].max() >= _FOLLOWED:
        return None
    low = np.flatnonzero(chars >= _FOLLOWED)
    lows = np.diff(low.searchsorted(behind), prepend=0)
    outside = (sizes - lows) % 2 == 1
    chars[behind[~outside]] = _FOLLOWED  # none more where numbers are in pairs: what is followed is left out below
    long = _of_several_characters(chars, low)
    if long is None:
        return None
    runs, left_out = _of_highest_characters(text), np.cumsum(~outside) - ~outside
    place = low - np.arange(len(low)) - np.repeat(left_out, lows)
    runs[place[long[0]]] += long[1]
    lengths = sizes - lows + outside
    _sum_differences(runs.view(np.int64), lengths // 2, outside)
    return Runs(runs, lengths, outside)


def _of_highest_characters(text: bytearray) -> Array:
    """The numbers of a text, int32, as if the highest character of each, in two's complement, were the only one.

    A pair of them is an int64, whose upper half is one less where the lower one is negative.
    """
    numbers = np.frombuffer(text.translate(_VALUES, _ALL_FOLLOWED), np.int8)
    pairs = numbers.view(np.int16)
    pairs -= (pairs & np.int16(128)) << np.int16(1)
    return numbers.astype(np.int32)


def _of_several_characters(chars: Array, low: Array) -> tuple[Array, Array] | None:
    """The numbers that have characters at ``low`` too: which of these is their last, and what they add to the highest.

    None if one is too long or too large.
    """
    above, lower = chars[low + 1], chars[low] - np.uint8(_FOLLOWED)
    last = np.flatnonzero(above < _FOLLOWED)
    highest, many = _signed(above[last]), np.diff(last, prepend=-1)
    numbers, longest = 32 * highest + lower[last], int(many.max(initial=0))
    if longest >= _CHARACTERS_A_NUMBER:
        return None
    for place in range(1, longest):
        rows = np.flatnonzero(many > place)
        numbers[rows] = 32 * numbers[rows] + lower[last[rows] - place]
    if max(numbers.max(initial=0), -numbers.min(initial=0)) >= PIXELS_OF_INT32:
        return None
    return last, (numbers - highest).astype(np.int32)


def _signed(chars: Array) -> Array:
    """The values of highest characters, in two's complement: int64."""
    return (((chars - np.uint8(48)) ^ np.uint8(16)) - np.uint8(16)).view(np.int8).astype(np.int64)


def _sum_differences(pairs: Array, counts: Array, outside: Array) -> None:
    """Make runs of the numbers in a text: from the fourth on, each is the difference to the run two places before.

    Those outside and those inside are summed in one go, as halves of int64. Halves overflow into one another only
    behind a run that no mask has, below 0 or beyond its pixels. Over all codes end to end: the first pair of a code
    takes off what the sums have come to by then.

    Args:
        pairs: of all codes end to end.
        counts: (N,) int64, pairs per code.
        outside: (N,) bool, of which codes the last pair has no number inside.
    """
    stop = counts.cumsum()
    start, second = (stop - counts)[counts > 0], (stop - counts)[counts > 1] + 1
    pairs[second] -= pairs[second - 1].astype(np.int32)
    pairs[start[1:]] -= np.add.reduceat(pairs, start)[:-1]
    segments.running(pairs, pairs)
    pairs[stop[outside] - 1] &= 0xFFFFFFFF


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
        if place > _CHARACTERS_A_NUMBER:
            return f"must be COCO's compressed text, whose numbers have at most {_CHARACTERS_A_NUMBER} characters"
        if digit < 32:
            number -= (digit & 16) << (5 * place - 4)
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number, place = 0, 0
    return "must be COCO's compressed text, but is cut off within a number" if place else runs
