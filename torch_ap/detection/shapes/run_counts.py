"""Parsers of the counts of run-length codes: plain lists, and COCO's compressed text."""

import itertools
import sys
from typing import Any, NamedTuple

import numpy as np

from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array

_CHARACTERS_A_NUMBER = 9  # of five bits each: enough for signed differences of runs of up to 2^40 pixels
_CONTINUED = 80  # the first character that is not the highest of its number
_LAST = 128  # added to the last character of a code whose last number is not part of a pair
# all characters but the highest of paired numbers, and the values of the other characters in two's complement
_DROPPED = bytes([*range(_CONTINUED, 112), *range(_LAST + 48, _LAST + _CONTINUED)])
_VALUES = bytes(((char - 48) ^ 16) - 16 & 255 for char in range(256))
PIXELS_OF_INT32 = 1 << 30  # edges of smaller masks, and their differences, fit into int32


class Runs(NamedTuple):
    """The runs of several codes, without trailing runs outside the mask.

    Attributes:
        runs: (E,) concatenated runs of all codes: an even number of each, alternating outside and inside.
        lengths: (N,) int64, the number of these runs of each code.
        last: (N,) int64, the trailing run outside; 0 if a code ends inside.
    """

    runs: Array
    lengths: Array
    last: Array


def from_lists(counts: list[Any], room: Array) -> Runs | None:
    """Return the runs of plain lists; None if a code is not a list of integers, or contains an impossible integer.

    Args:
        counts: N lists.
        room: output array for the runs: int32 if all masks have less than 2^30 pixels, else int64.
    """
    if not all(isinstance(code, list | tuple) for code in counts):
        return None
    kinds = set(map(type, itertools.chain.from_iterable(counts)))
    if not all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return None
    numbers = np.fromiter(map(len, counts), np.int64, len(counts))
    try:
        values = np.fromiter(itertools.chain.from_iterable(counts), np.int64, int(numbers.sum()))
    except OverflowError:
        return None
    if values.min(initial=0) < 0 or values.max(initial=0) > np.iinfo(room.dtype).max:
        return None
    odd, last = np.flatnonzero(numbers & 1), np.zeros_like(numbers)
    ends = numbers.cumsum()[odd] - 1
    last[odd] = values[ends]
    runs = room[: len(values) - len(odd)]
    runs[:] = np.delete(values, ends)
    return Runs(runs, numbers - (numbers & 1), last)


def from_text(counts: list[str | bytes], sizes: Array, room: Array) -> Runs | None:
    """Return the runs of COCO's texts; None if a text is invalid, or contains an impossible number.

    Numbers are characters from "0" on, from low to high; each has five bits of the value and one continuation bit.

    Args:
        counts: N texts.
        sizes: (N,) int64, the lengths of the texts.
        room: as for :func:`from_lists`.
    """
    texts: list[bytes] = counts if set(map(type, counts)) == {bytes} else list(map(as_bytes, counts))  # type: ignore[assignment]
    if room.dtype != np.int32 or sys.byteorder != "little":
        return _from_long_text(texts, sizes, room)
    text = bytearray().join(texts)
    chars, stop = np.frombuffer(text, np.uint8), sizes.cumsum()
    if len(chars) and (chars.min() < 48 or chars.max() > 111 or chars[stop[sizes > 0] - 1].max() >= _CONTINUED):
        return None
    low = np.flatnonzero(chars >= _CONTINUED)
    lows = np.diff(low.searchsorted(stop), prepend=0)
    parsed, numbers = _parse_differences(text, low, lows, sizes - lows, room), sizes - lows
    if parsed is None:
        return None
    (runs, last), lengths = parsed, numbers - (numbers & 1)
    _sum_differences(runs.view(np.int64), lengths // 2)
    differs = np.flatnonzero((lengths < numbers) & (lengths > 2))
    last[differs] += runs[lengths.cumsum()[differs] - 2]
    return Runs(runs, lengths, last)


def _from_long_text(texts: list[bytes], sizes: Array, room: Array) -> Runs | None:
    """Return the runs of masks of any size.

    The codes are parsed as :func:`from_text` does for smaller masks, or one by one if a run is too long for that.
    """
    parsed = None
    if sys.byteorder == "little":
        parsed = from_text([*texts], sizes, np.empty(int(sizes.sum()), np.int32))
    if parsed is None or parsed.runs.max(initial=0) >= PIXELS_OF_INT32:
        return from_lists(list(map(runs_of_text, texts)), room)
    runs = room[: len(parsed.runs)]
    runs[:] = parsed.runs
    return parsed._replace(runs=runs)


def _parse_differences(
    text: bytearray, low: Array, lows: Array, numbers: Array, room: Array
) -> tuple[Array, Array] | None:
    """Return the numbers in concatenated texts; None if one is too long or too large.

    Args:
        text: the texts of N codes; overwritten.
        low: the indices of characters that are not the highest of their number.
        lows: (N,) the number of these characters of each code.
        numbers: (N,) the number of numbers of each code.
        room: int32 output array.

    Returns:
        An even number of numbers of each code, int32, paired as by :func:`_decode_highest_characters`; (N,) int64, the
        number after them.
    """
    chars, odd = np.frombuffer(text, np.uint8), numbers & 1
    final, last = ((numbers + lows).cumsum() - 1)[odd == 1], np.zeros_like(numbers)
    last[odd == 1] = _signed(chars[final])
    chars[final] += np.uint8(_LAST)
    lower_parts = _decode_lower_characters(chars, low)
    if lower_parts is None:
        return None
    nth, increments = lower_parts
    at, removed = low.take(nth), np.repeat(odd.cumsum() - odd, lows).take(nth)
    ends = np.flatnonzero(chars.take(at + 1) >= _LAST)
    last[lows.cumsum().searchsorted(nth[ends], "right")] += increments[ends]
    increments[ends] = 0  # the next number has this index now, and its own increment comes later
    runs, number_index = _decode_highest_characters(text, room), at - nth - removed
    count = number_index.searchsorted(len(runs))
    runs[number_index[:count]] += increments[:count]
    return runs, last


def _decode_highest_characters(text: bytearray, room: Array) -> Array:
    """Return the numbers of a text as if each had only its highest character, in two's complement.

    Each pair of numbers forms an int64: if the lower half is negative, the upper half is less by 1.
    """
    numbers = np.frombuffer(text.translate(_VALUES, _DROPPED), np.int8)
    pairs, runs = numbers.view(np.int16), room[: len(numbers)]
    pairs -= (pairs & np.int16(128)) << np.int16(1)
    runs[:] = numbers
    return runs


def _decode_lower_characters(chars: Array, low: Array) -> tuple[Array, Array] | None:
    """Return the last lower character of each number that has any, and the increment to its highest character.

    None if a number is too long or too large.
    """
    above, lower = chars.take(low + 1), chars.take(low) - np.uint8(_CONTINUED)
    nth = np.flatnonzero((above & np.uint8(_LAST - 1)) < _CONTINUED)
    highest, characters_per_number = _signed(above.take(nth)), np.diff(nth, prepend=-1)
    numbers, longest = 32 * highest + lower.take(nth), int(characters_per_number.max(initial=0))
    if longest >= _CHARACTERS_A_NUMBER:
        return None
    for place in range(1, longest):
        rows = np.flatnonzero(characters_per_number > place)
        numbers[rows] = 32 * numbers[rows] + lower[nth[rows] - place]
    if max(numbers.max(initial=0), -numbers.min(initial=0)) >= PIXELS_OF_INT32:
        return None
    return nth, numbers - highest


def _signed(chars: Array) -> Array:
    """Return the int64 values of highest characters, in two's complement."""
    digits = (chars - np.uint8(48)) & np.uint8(31)
    return ((digits ^ np.uint8(16)) - np.uint8(16)).view(np.int8).astype(np.int64)


def _sum_differences(pairs: Array, counts: Array) -> None:
    """Convert the numbers in a text to runs: from the fourth on, each is the difference to the run two places before.

    Runs outside and runs inside are summed together, as halves of int64. One half overflows into the other only after a
    run that no mask has, below 0 or above its number of pixels. The sum covers all concatenated codes: the running sum
    up to a code is subtracted from its first pair.

    Args:
        pairs: concatenated pairs of all codes.
        counts: (N,) int64, pairs per code.
    """
    first = counts.cumsum() - counts
    start, second = first[counts > 0], first[counts > 1] + 1
    pairs[second] -= pairs[second - 1].astype(np.int32)
    pairs[start[1:]] -= np.add.reduceat(pairs, start)[:-1]
    segments.running(pairs, pairs)


def as_bytes(text: str | bytes) -> bytes:
    """Return the text of a code as bytes; valid codes are ASCII."""
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text


def runs_of_text(text: bytes) -> list[int] | str:
    """Return the runs in the text of a code, or the reason why the text is invalid."""
    runs: list[int] = []
    number, characters = 0, 0
    for at, byte in enumerate(text):
        digit = byte - 48
        if not 0 <= digit < 64:
            return f"must be COCO's compressed text, whose characters are '0' to 'o', not {chr(byte)!r} at {at}"
        number |= (digit & 31) << (5 * characters)
        characters += 1
        if characters > _CHARACTERS_A_NUMBER:
            return f"must be COCO's compressed text, whose numbers have at most {_CHARACTERS_A_NUMBER} characters"
        if digit < 32:
            number -= (digit & 16) << (5 * characters - 4)
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number, characters = 0, 0
    return "must be COCO's compressed text, but is cut off within a number" if characters else runs
