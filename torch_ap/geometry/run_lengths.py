"""COCO's run-length codes of masks, ``{"size": [height, width], "counts": ...}``: read, checked, summed up to edges.

The counts are the lengths of runs of pixels, column by column, outside and inside in turn, the first one outside; plain
numbers, or compressed to text. All codes of a batch are read at once, which makes the rules cheap to check: runs of at
least 0 that add up to the size. Only if that fails is each code examined alone, in whole numbers of any length, to say
which one is wrong and why.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.order import Array
from torch_ap.rules.messages import shown

Size: TypeAlias = tuple[int, int]

_MOST_PIXELS = 1 << 40
_DIGITS_A_NUMBER = 9  # of five bits each: enough for signed differences of runs of up to 2^40 pixels
_NUMBERS_A_BLOCK = 1 << 18


class DecodedMasks(tuple[Any, ...]):
    """The run-length codes of one image's masks, decoded and checked; immutable, since its parts belong together.

    Attributes:
        edges: (E,) int64 edges, mask after mask.
        lengths: (N,) int64 edges per mask.
        size: height and width; None without masks.
    """

    edges: Tensor
    lengths: Tensor
    size: Size | None

    def __new__(cls, codes: Sequence[Any], edges: Tensor, lengths: Tensor, size: Size | None) -> "DecodedMasks":
        """The codes, together with what was decoded from them."""
        self = super().__new__(cls, codes)
        self.edges, self.lengths, self.size = edges, lengths, size
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by the arguments."""
        return DecodedMasks, (tuple(self), self.edges, self.lengths, self.size)


def decode_images(images: Sequence[Sequence[Any]], name: Callable[[int, int], str]) -> list[DecodedMasks]:
    """Decode the codes of the masks of several images.

    Args:
        images: one sequence of run-length codes per image, all of one size.
        name: gives the name of a code in messages, from its image and its place there.

    Raises:
        ValueError: for an invalid code, or one of another size than the first of its image.
    """
    counts = [len(codes) for codes in images]
    starts = np.cumsum([0, *counts])

    def named(row: int) -> str:
        image = int(np.searchsorted(starts, row, side="right")) - 1
        return name(image, row - int(starts[image]))

    codes = list(itertools.chain.from_iterable(images))
    sizes = [_size(code, named, row) for row, code in enumerate(codes)]
    first = [sizes[start] for start, count in zip(starts.tolist(), counts, strict=False) for _ in range(count)]
    for row, (size, expected) in enumerate(zip(sizes, first, strict=True)):
        if size != expected:
            raise ValueError(
                f"{named(row)} must have the size of the first mask of its image, {list(expected)}, got {list(size)}"
            )
    edges, lengths = _edges([code["counts"] for code in codes], [height * width for height, width in sizes], named)
    cumulative = segments.from_zero(lengths)[starts]
    return [
        DecodedMasks(
            codes[begin:end],
            torch.from_numpy(edges[cumulative[image] : cumulative[image + 1]]),
            torch.from_numpy(lengths[begin:end]),
            sizes[begin] if end > begin else None,
        )
        for image, (begin, end) in enumerate(itertools.pairwise(starts.tolist()))
    ]


def _size(code: Any, named: Callable[[int], str], row: int) -> Size:
    """Height and width of a code."""
    if not isinstance(code, Mapping) or "size" not in code or "counts" not in code:
        got = shown(list(code)) if isinstance(code, Mapping) else type(code).__name__
        raise ValueError(f"{named(row)} must be a dict with 'size' and 'counts', got {got}")
    size = code["size"]
    if isinstance(size, Tensor | np.ndarray):
        size = size.tolist()
    if isinstance(size, list | tuple) and len(size) == 2:
        height, width = map(int, size) if all(map(is_whole, size)) else (-1, -1)
        if min(height, width) >= 0 and height * width <= _MOST_PIXELS:
            return height, width
    raise ValueError(
        f"{named(row)}: 'size' must hold height and width, whole numbers of at least 0 with a product of at most "
        f"2^40, got {shown(size)}"
    )


def is_whole(value: Any) -> bool:
    """Whether a value is an integer; a bool is not."""
    return type(value) is int or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def _edges(counts: list[Any], pixels: list[int], named: Callable[[int], str]) -> tuple[Array, Array]:
    """(E,) int64 edges of all codes end to end, and (N,) edges per code."""
    counts = [x.tolist() if isinstance(x, Tensor | np.ndarray) else x for x in counts]
    edges, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first, last in _blocks(counts):
        block = counts[first:last]
        read = (_from_text if isinstance(block[0], str | bytes) else _from_lists)(block)
        found = read and _summed(*read, np.array(pixels[first:last], np.int64))
        if not found or not found[0]:
            for row in range(first, last):
                fault = _fault(counts[row], pixels[row])
                if fault:
                    raise ValueError(f"{named(row)}: 'counts' {fault}")
        assert found is not None
        edges.append(found[1])
        lengths.append(found[2])
    return np.concatenate(edges), np.concatenate(lengths)


def _blocks(counts: list[Any]) -> Iterator[tuple[int, int]]:
    """Ranges of codes that are all text or all lists, with no more numbers than fit into the processor's cache."""
    first, held = 0, 0
    for place, one in enumerate(counts):
        size = max(1, len(one)) if isinstance(one, str | bytes | list | tuple) else 1
        other = place > first and isinstance(one, str | bytes) != isinstance(counts[first], str | bytes)
        if other or (place > first and held + size > _NUMBERS_A_BLOCK):
            yield first, place
            first, held = place, 0
        held += size
    if len(counts) > first:
        yield first, len(counts)


def _from_lists(counts: list[Any]) -> tuple[Array, Array] | None:
    """Runs of all codes end to end, and where each begins and ends; None if one is not a list of integers."""
    if not all(isinstance(one, list | tuple) for one in counts):
        return None
    starts = np.cumsum([0, *map(len, counts)])
    kinds = set(map(type, itertools.chain.from_iterable(counts)))
    if not all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return None
    try:
        return np.fromiter(itertools.chain.from_iterable(counts), np.int64, count=int(starts[-1])), starts
    except OverflowError:
        return None


def _from_text(counts: list[str | bytes]) -> tuple[Array, Array] | None:
    """The same from COCO's text: digits of six bits from low to high, five the value, one for "more follows".

    From the fourth on, each number is the difference to the one two places before.
    """
    texts = [_bytes(one) for one in counts]
    digits = np.frombuffer(b"".join(texts), np.uint8) - np.uint8(48)
    cumulative = np.cumsum([0, *map(len, texts)])
    last = digits < 32
    if (digits > 63).any() or not last[cumulative[1:][np.diff(cumulative) > 0] - 1].all():
        return None
    ends = np.flatnonzero(last)
    first = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    numbers = _numbers(digits, first, ends)
    if numbers is None:
        return None
    starts = np.searchsorted(ends, cumulative)
    return _undo_differences(numbers, starts), starts


def _bytes(text: str | bytes) -> bytes:
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text


def _numbers(digits: Array, first: Array, ends: Array) -> Array | None:
    """The numbers whose digits begin and end there, in two's complement; None if one is too long."""
    many = ends - first + 1
    if len(many) and many.max() > _DIGITS_A_NUMBER:
        return None
    negative = (digits[ends] & 16) != 0
    numbers = (digits[first] & 31).astype(np.int64)
    longer = np.flatnonzero(many > 1)
    place = 1
    while len(longer):
        numbers[longer] += (digits[first[longer] + place] & 31).astype(np.int64) << (5 * place)
        place += 1
        longer = longer[many[longer] > place]
    numbers[negative] -= np.int64(1) << (5 * many[negative])
    return numbers


def _undo_differences(numbers: Array, starts: Array) -> Array:
    """Runs from the numbers of codes end to end: sums of every second number, except the first of a code."""
    sums = np.empty(len(numbers) + 2, np.int64)  # two zeros before the first
    sums[:2] = 0
    for odd in (0, 1):
        np.cumsum(numbers[odd::2], out=sums[2 + odd :: 2])
    filled = np.diff(starts) > 0
    start, length = starts[:-1][filled], np.diff(starts)[filled]
    runs: Array = sums[2:] - np.repeat(sums[start + 2], length)
    # places at an odd distance from the first belong to the other sum
    place = np.arange(len(numbers)) - np.repeat(start, length)
    odd_places = np.flatnonzero(place & 1)
    before = sums[start + 1] - sums[start + 2]
    runs[odd_places] -= np.repeat(before, length // 2)
    runs[start] = numbers[start]
    return runs


def _summed(runs: Array, starts: Array, pixels: Array) -> tuple[bool, Array, Array]:
    """The edges of all codes end to end, and the even number of edges of each.

    Before them comes whether all runs are at least 0 and those of each code add up to its pixels; if not, or if int64
    is too small to tell, the edges mean nothing.
    """
    cumulative, expected = segments.from_zero(runs), segments.from_zero(pixels)
    fits = not len(runs) or (int(runs.min()) >= 0 and int(runs.max()) * len(runs) < 1 << 63)
    fits = fits and bool((cumulative[starts] == expected).all())
    lengths = np.diff(starts)
    edges = cumulative[1:]
    edges -= np.repeat(expected[:-1], lengths)
    outside = lengths & 1  # the last run
    if outside.any():
        kept = np.ones(len(edges), bool)
        kept[starts[1:][outside > 0] - 1] = False
        edges = edges[kept]
    return fits, edges, lengths - outside


def _fault(counts: Any, pixels: int) -> str | None:
    """What is wrong with the counts of one code, if anything is."""
    if isinstance(counts, str | bytes):
        runs: Sequence[Any] | str = _runs_of_text(_bytes(counts))
    elif isinstance(counts, list | tuple):
        runs = counts
    else:
        return f"must be text or a list of whole numbers, got {shown(counts)}"
    if isinstance(runs, str):
        return f"{runs}, got {shown(counts)}"
    for place, run in enumerate(runs):
        if not is_whole(run) or run < 0:
            return f"must be runs of whole numbers of at least 0, got {shown(run)} as run {place}"
    total = sum(map(int, runs))
    if total != pixels:
        return f"must be runs that add up to height times width, {pixels}, got {shown(total)}"
    return None


def _runs_of_text(text: bytes) -> list[int] | str:
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
