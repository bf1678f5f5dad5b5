"""The counts of run-length codes as numbers: of plain lists, and of COCO's compressed text."""

import itertools
import sys
from typing import Any, NamedTuple

import numpy as np

from torch_ap.ranking import segments
from torch_ap.ranking.order import Array

_CHARACTERS_A_NUMBER = 9  # of five bits each: enough for signed differences of runs of up to 2^40 pixels
_FOLLOWED = 80  # the first character that is not the highest of its number
_LAST = 128  # is added to the last character of a code whose last number is no run of a pair
_LEFT_OUT = bytes([*range(_FOLLOWED, 112), *range(_LAST + 48, _LAST + _FOLLOWED)])  # of pairs of highest characters
_VALUES = bytes(((char - 48) ^ 16) - 16 & 255 for char in range(256))  # of the others, in two's complement
PIXELS_OF_INT32 = 1 << 30  # of masks for whose edges, and their differences, int32 is enough


class Runs(NamedTuple):
    """The runs of several codes, without those that are outside behind everything inside.

    Attributes:
        runs: (E,) of all codes end to end: of each an even number, outside and inside in turn.
        lengths: (N,) int64, how many of them each code has.
        last: (N,) int64, the run outside behind them; 0 where a code ends inside.
    """

    runs: Array
    lengths: Array
    last: Array


def from_lists(counts: list[Any], room: Array) -> Runs | None:
    """The runs of plain lists; None if one is not a list of integers, or holds one that no mask has.

    Args:
        counts: N lists.
        room: what the runs are written to: int32 where all masks have less than 2^30 pixels, else int64.
    """
    if not all(isinstance(one, list | tuple) for one in counts):
        return None
    kinds = set(map(type, itertools.chain.from_iterable(counts)))
    if not all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return None
    numbers = np.fromiter(map(len, counts), np.int64, len(counts))
    try:
        every = np.fromiter(itertools.chain.from_iterable(counts), np.int64, int(numbers.sum()))
    except OverflowError:
        return None
    if every.min(initial=0) < 0 or every.max(initial=0) > np.iinfo(room.dtype).max:
        return None
    odd, last = np.flatnonzero(numbers & 1), np.zeros_like(numbers)
    ends = numbers.cumsum()[odd] - 1
    last[odd] = every[ends]
    runs = room[: len(every) - len(odd)]
    runs[:] = np.delete(every, ends)
    return Runs(runs, numbers - (numbers & 1), last)


def from_text(counts: list[str | bytes], sizes: Array, room: Array) -> Runs | None:
    """The runs in COCO's text; None if a text holds anything else, or a number that no mask has.

    Numbers are characters from "0" on, from low to high: five bits of the value each, and one for "more follows".

    Args:
        counts: N texts.
        sizes: (N,) int64, their lengths.
        room: as for :func:`from_lists`.
    """
    texts: list[bytes] = counts if set(map(type, counts)) == {bytes} else list(map(as_bytes, counts))  # type: ignore[assignment]
    if room.dtype != np.int32 or sys.byteorder != "little":
        return _from_long_text(texts, sizes, room)
    text = bytearray().join(texts)
    chars, stop = np.frombuffer(text, np.uint8), sizes.cumsum()
    if len(chars) and (chars.min() < 48 or chars.max() > 111 or chars[stop[sizes > 0] - 1].max() >= _FOLLOWED):
        return None
    low = np.flatnonzero(chars >= _FOLLOWED)
    lows = np.diff(low.searchsorted(stop), prepend=0)
    found, numbers = _differences(text, low, lows, sizes - lows, room), sizes - lows
    if found is None:
        return None
    (runs, last), lengths = found, numbers - (numbers & 1)
    _sum_differences(runs.view(np.int64), lengths // 2)
    differs = np.flatnonzero((lengths < numbers) & (lengths > 2))
    last[differs] += runs[lengths.cumsum()[differs] - 2]
    return Runs(runs, lengths, last)


def _from_long_text(texts: list[bytes], sizes: Array, room: Array) -> Runs | None:
    """The same of masks of any size: as of smaller ones, if no run is too long for these, else one by one."""
    found = None
    if sys.byteorder == "little":
        found = from_text([*texts], sizes, np.empty(int(sizes.sum()), np.int32))
    if found is None or found.runs.max(initial=0) >= PIXELS_OF_INT32:
        return from_lists(list(map(runs_of_text, texts)), room)
    runs = room[: len(found.runs)]
    runs[:] = found.runs
    return found._replace(runs=runs)


def _differences(text: bytearray, low: Array, lows: Array, numbers: Array, room: Array) -> tuple[Array, Array] | None:
    """The numbers in texts end to end; None if one is too long or too large.

    Args:
        text: of N codes; used up.
        low: the places of characters that are not the highest of their number.
        lows: (N,) how many of them each code has.
        numbers: (N,) how many numbers each code has.
        room: int32, to which they are written.

    Returns:
        An even number of each code, int32, as :func:`_of_highest_characters` pairs them; (N,) int64, the one behind.
    """
    chars, odd = np.frombuffer(text, np.uint8), numbers & 1
    final, last = ((numbers + lows).cumsum() - 1)[odd == 1], np.zeros_like(numbers)
    last[odd == 1] = _signed(chars[final])
    chars[final] += np.uint8(_LAST)
    long = _of_several_characters(chars, low)
    if long is None:
        return None
    nth, added = long
    at, gone = low.take(nth), np.repeat(odd.cumsum() - odd, lows).take(nth)
    ends = np.flatnonzero(chars.take(at + 1) >= _LAST)
    last[lows.cumsum().searchsorted(nth[ends], "right")] += added[ends]
    added[ends] = 0  # to the number that has come in its place: what is added to that itself comes later, and counts
    runs, place = _of_highest_characters(text, room), at - nth - gone
    held = place.searchsorted(len(runs))
    runs[place[:held]] += added[:held]
    return runs, last


def _of_highest_characters(text: bytearray, room: Array) -> Array:
    """The numbers of a text as if the highest character of each, in two's complement, were the only one.

    In pairs, each of which is an int64: where its lower half is negative, the upper one is less by 1.
    """
    numbers = np.frombuffer(text.translate(_VALUES, _LEFT_OUT), np.int8)
    pairs, runs = numbers.view(np.int16), room[: len(numbers)]
    pairs -= (pairs & np.int16(128)) << np.int16(1)
    runs[:] = numbers
    return runs


def _of_several_characters(chars: Array, low: Array) -> tuple[Array, Array] | None:
    """The numbers that have lower characters: which of these is their last, and what they add to the highest.

    None if one is too long or too large.
    """
    above, lower = chars.take(low + 1), chars.take(low) - np.uint8(_FOLLOWED)
    nth = np.flatnonzero((above & np.uint8(_LAST - 1)) < _FOLLOWED)
    highest, many = _signed(above.take(nth)), np.diff(nth, prepend=-1)
    numbers, longest = 32 * highest + lower.take(nth), int(many.max(initial=0))
    if longest >= _CHARACTERS_A_NUMBER:
        return None
    for place in range(1, longest):
        rows = np.flatnonzero(many > place)
        numbers[rows] = 32 * numbers[rows] + lower[nth[rows] - place]
    if max(numbers.max(initial=0), -numbers.min(initial=0)) >= PIXELS_OF_INT32:
        return None
    return nth, numbers - highest


def _signed(chars: Array) -> Array:
    """The values of highest characters, in two's complement: int64."""
    digits = (chars - np.uint8(48)) & np.uint8(31)
    return ((digits ^ np.uint8(16)) - np.uint8(16)).view(np.int8).astype(np.int64)


def _sum_differences(pairs: Array, counts: Array) -> None:
    """Make runs of the numbers in a text: from the fourth on, each is the difference to the run two places before.

    Those outside and those inside are summed in one go, as halves of int64. Halves overflow into one another only
    behind a run that no mask has, below 0 or beyond its pixels. Over all codes end to end: the first pair of a code
    takes off what the sums have come to by then.

    Args:
        pairs: of all codes end to end.
        counts: (N,) int64, pairs per code.
    """
    first = counts.cumsum() - counts
    start, second = first[counts > 0], first[counts > 1] + 1
    pairs[second] -= pairs[second - 1].astype(np.int32)
    pairs[start[1:]] -= np.add.reduceat(pairs, start)[:-1]
    segments.running(pairs, pairs)


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
