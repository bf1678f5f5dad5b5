"""COCO's run-length codes of masks: parsing, validation, and conversion to edges.

A code is a dict ``{"size": [height, width], "counts": ...}``.

The counts are the lengths of runs of pixels, column by column, alternating outside and inside, the first one outside.
They are integers, or compressed text. All codes of a batch are parsed together, so that validation is cheap: runs must
be at least 0 and add up to the size. Only if that fails is each code checked separately, in integers of any length, to
report the invalid code and the reason.
"""

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.class_names import is_whole
from torch_ap.core.base.messages import short_repr
from torch_ap.core.base.untraced import plain_tensor
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array
from torch_ap.detection.shapes import run_counts
from torch_ap.detection.shapes.run_counts import Runs

Size: TypeAlias = tuple[int, int]

MOST_PIXELS = 1 << 40
_NUMBERS_A_BLOCK = 1 << 18
_SIZE, _COUNTS = operator.itemgetter("size"), operator.itemgetter("counts")
_TEXT, _SIZED = {str, bytes}, str | bytes | list | tuple


class DecodedMasks(tuple[Any, ...]):
    """Run-length codes of the masks of one image, decoded and validated; immutable, because codes and edges must agree.

    Attributes:
        edges: (E,) edges, mask after mask: int32, or int64 if a mask has 2^30 pixels or more.
        lengths: (N,) int64 edges per mask.
        size: height and width; None without masks.
    """

    edges: Tensor
    lengths: Tensor
    size: Size | None

    def __new__(cls, codes: Sequence[Any], edges: Tensor, lengths: Tensor, size: Size | None) -> "DecodedMasks":
        """Create the tuple of codes, with their decoded edges as attributes."""
        self = super().__new__(cls, codes)
        self.edges, self.lengths, self.size = edges, lengths, size
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments, for pickling and copying."""
        return DecodedMasks, (tuple(self), self.edges, self.lengths, self.size)


class Decoded(NamedTuple):
    """Run-length codes of the masks of several images, decoded and validated.

    Attributes:
        edges: (E,) edges, mask after mask: int32, or int64 if a mask has 2^30 pixels or more.
        lengths: (N,) int64 edges per mask.
        sizes: height and width of each image; None for an image without masks.
    """

    edges: Tensor
    lengths: Tensor
    sizes: list[Size | None]


def decode(images: Sequence[Sequence[Any]], name: Callable[[int, int], str]) -> Decoded:
    """Decode the codes of the masks of several images.

    Args:
        images: one sequence of run-length codes per image, all of one size.
        name: returns the name of a code for messages, from its image and its index there.

    Raises:
        ValueError: for an invalid code, or one with another size than the first of its image.
    """
    counts = np.fromiter(map(len, images), np.int64, len(images))
    starts = segments.from_counts(counts)

    def code_name(row: int) -> str:
        image = int(np.searchsorted(starts, row, side="right")) - 1
        return name(image, row - int(starts[image]))

    heights, widths, numbers = _parts(list(itertools.chain.from_iterable(images)), code_name)
    first = np.repeat(starts[:-1], counts)
    mismatched = np.flatnonzero((heights != heights[first]) | (widths != widths[first]))
    if len(mismatched):
        sizes = [[int(heights[row]), int(widths[row])] for row in (first[mismatched[0]], mismatched[0])]
        where = code_name(int(mismatched[0]))
        raise ValueError(f"{where} must have the size of the first mask of its image, {sizes[0]}, got {sizes[1]}")
    edges, lengths = _edges(numbers, heights * widths, code_name)
    first = starts[:-1][counts > 0]
    sizes_of_images = zip(heights[first].tolist(), widths[first].tolist(), strict=True)
    return Decoded(
        torch.from_numpy(edges),
        torch.from_numpy(lengths),
        [next(sizes_of_images) if count else None for count in counts.tolist()],
    )


def decode_images(images: Sequence[Sequence[Any]], name: Callable[[int, int], str]) -> list[DecodedMasks]:
    """Decode the codes of several images, and return the masks of each image separately."""
    edges, lengths, sizes = decode(images, name)
    masks = torch.split(lengths, [len(codes) for codes in images])
    parts = torch.split(edges, [int(x.sum()) for x in masks])
    return [DecodedMasks(*args) for args in zip(images, parts, masks, sizes, strict=True)]


def to_dense(decoded: DecodedMasks) -> Tensor:
    """Return the masks of an image as (N, H, W) uint8 of 0 and 1; (0, 0, 0) without a mask."""
    height, width = decoded.size or (0, 0)
    flips = torch.zeros(len(decoded), height * width + 1, dtype=torch.uint8)
    mask = segments.repeat(torch.arange(len(decoded)), decoded.lengths)
    flips.index_put_((mask, decoded.edges.long()), torch.ones((), dtype=torch.uint8), accumulate=True)
    inside = flips.cumsum(1, dtype=torch.uint8)[:, :-1] % 2  # an overflow keeps the parity
    return inside.reshape(len(decoded), width, height).transpose(1, 2).contiguous()


def encode(all_edges: Tensor, lengths: Tensor, sizes: Tensor) -> list[dict[str, Any]]:
    """Return the compressed run-length code of each mask, the only form that pycocotools accepts in detections."""
    pixels, out = sizes.prod(1).tolist(), []
    for size, last, ends in zip(sizes.tolist(), pixels, torch.split(all_edges, lengths.tolist()), strict=True):
        edges = ends.tolist()
        places = [0, *edges] if edges[-1:] == [last] else [0, *edges, last]  # pycocotools writes no last run of 0
        out.append({"size": size, "counts": compress([end - start for start, end in itertools.pairwise(places)])})
    return out


def compress(runs: Sequence[int]) -> str:
    """Encode run lengths in COCO's compressed format.

    From the fourth run on, the code stores the difference to the run two before. Numbers are little-endian groups of 6
    bits: 5 bits of data and a continuation bit.
    """
    text = []
    for place, run in enumerate(runs):
        rest, more = run - (runs[place - 2] if place > 2 else 0), True
        while more:
            digit, rest = rest & 0x1F, rest >> 5
            more = rest != (-1 if digit & 0x10 else 0)
            text.append(chr(48 + digit + 32 * more))
    return "".join(text)


def _parts(codes: list[Any], code_name: Callable[[int], str]) -> tuple[Array, Array, list[Any]]:
    """Return the (N,) int64 heights and widths of codes, and their counts."""
    if (plain := _plain_parts(codes)) is not None:
        return plain
    sizes = np.array([_size(code, code_name, row) for row, code in enumerate(codes)], np.int64).reshape(-1, 2)
    return sizes[:, 0], sizes[:, 1], list(map(_COUNTS, codes))


def _plain_parts(codes: list[Any]) -> tuple[Array, Array, list[Any]] | None:
    """Return the result of :func:`_parts` without a loop for codes of common types; None if a code may be invalid."""
    if set(map(type, codes)) != {dict}:
        return None
    try:
        sizes, counts = list(map(_SIZE, codes)), list(map(_COUNTS, codes))
        if not {list, tuple}.issuperset(map(type, sizes)) or set(map(len, sizes)) != {2}:
            return None
        numbers = list(itertools.chain.from_iterable(sizes))
        values = np.fromiter(numbers, np.int64, len(numbers))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    is_plain = set(map(type, numbers)) == {int} and values.min() >= 0 and int(values.max()) ** 2 <= MOST_PIXELS
    return (values[::2], values[1::2], counts) if is_plain else None


def _size(code: Any, code_name: Callable[[int], str], row: int) -> Size:
    """Return the height and width of a code."""
    if not isinstance(code, Mapping) or "size" not in code or "counts" not in code:
        got = short_repr(list(code)) if isinstance(code, Mapping) else type(code).__name__
        raise ValueError(f"{code_name(row)} must be a dict with 'size' and 'counts', got {got}")
    size = _as_list(code["size"], "size", code_name, row)
    if isinstance(size, list | tuple) and len(size) == 2:
        height, width = map(int, size) if all(map(is_whole, size)) else (-1, -1)
        if min(height, width) >= 0 and height * width <= MOST_PIXELS:
            return height, width
    raise ValueError(
        f"{code_name(row)}: 'size' must be height and width, integers of at least 0 with a product of at most 2^40, "
        f"got {short_repr(size)}"
    )


def _as_list(value: Any, key: str, code_name: Callable[[int], str], row: int) -> Any:
    """Return a value of a code, a tensor or an array as a list."""
    if isinstance(value, Tensor):
        value = plain_tensor(f"{code_name(row).strip('`')}[{key!r}]", value)
    return value.tolist() if isinstance(value, Tensor | np.ndarray) else value


def _edges(counts: list[Any], pixels: Array, code_name: Callable[[int], str]) -> tuple[Array, Array]:
    """Return the (E,) edges of all codes, concatenated, and the (N,) edges per code."""
    if not (texts := _TEXT.issuperset(map(type, counts))):
        counts = [_as_list(value, "counts", code_name, row) for row, value in enumerate(counts)]
        texts = _TEXT.issuperset(map(type, counts))
    lengths_of_counts = map(len, counts) if texts else (len(x) if isinstance(x, _SIZED) else 0 for x in counts)
    sizes = np.fromiter(lengths_of_counts, np.int64, len(counts))
    kind = np.int32 if pixels.max(initial=0) < run_counts.PIXELS_OF_INT32 else np.int64
    edges, lengths, size = np.empty(int(sizes.sum()), kind), np.empty(len(counts), np.int64), 0
    for first, last in _blocks(sizes, None if texts else [isinstance(x, str | bytes) for x in counts]):
        block, room = counts[first:last], edges[size:]
        if isinstance(block[0], str | bytes):
            runs = run_counts.from_text(block, sizes[first:last], room)
        else:
            runs = run_counts.from_lists(block, room)
        if runs is None or not _convert_to_edges(runs, pixels[first:last]):
            faults = ((row, _fault(counts[row], int(pixels[row]))) for row in range(first, last))
            row, fault = next(pair for pair in faults if pair[1] is not None)
            raise ValueError(f"{code_name(row)}: 'counts' {fault}")
        lengths[first:last] = runs.lengths
        size += len(runs.runs)
    return edges[:size], lengths


def _blocks(sizes: Array, kinds: list[bool] | None) -> Iterator[tuple[int, int]]:
    """Yield ranges of codes of one kind each, whose numbers fit into the processor's cache."""
    block = segments.from_zero(sizes)[:-1] // _NUMBERS_A_BLOCK
    if kinds is not None:
        block = 2 * block + kinds
    cuts = np.flatnonzero(block[1:] != block[:-1]) + 1
    return itertools.pairwise([0, *cuts.tolist(), len(sizes)] if len(sizes) else [])


def _convert_to_edges(parsed: Runs, pixels: Array) -> bool:
    """Convert the runs of all codes to edges in place, and return whether all codes are valid.

    Valid codes have runs of at least 0 that add up to their pixels. Overflow cannot hide an error: the first invalid
    run or edge is less than twice the valid maximum, which fits into the dtype.
    """
    runs, lengths, last = parsed
    ends, most = pixels - last, int(pixels.max())  # ends: the last edge of each code
    if min(int(x.min(initial=0)) for x in (runs, last, ends)) < 0 or runs.max(initial=0) > most:
        return False
    filled = np.flatnonzero(lengths)
    stop, end = lengths.cumsum()[filled], ends[filled]
    runs[stop[:-1]] -= end[:-1]  # the next code begins at 0
    segments.running(runs, runs)
    return bool(runs.max(initial=0) <= most and (runs[stop - 1] == end).all()) and not ends[lengths == 0].any()


def _fault(counts: Any, pixels: int) -> str | None:
    """Return the reason why the counts of one code are invalid, or None."""
    if isinstance(counts, str | bytes):
        runs: Sequence[Any] | str = run_counts.runs_of_text(run_counts.as_bytes(counts))
    elif isinstance(counts, list | tuple):
        runs = counts
    else:
        return f"must be text or a list of integers, got {short_repr(counts)}"
    if isinstance(runs, str):
        return f"{runs}, got {short_repr(counts)}"
    for index, run in enumerate(runs):
        if not is_whole(run) or run < 0:
            return f"must be integers of at least 0, got {short_repr(run)} as run {index}"
    total = sum(map(int, runs))
    if total != pixels:
        return f"must be runs that add up to height times width, {pixels}, got {short_repr(total)}"
    return None
