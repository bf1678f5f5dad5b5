"""COCO's run-length codes of masks, ``{"size": [height, width], "counts": ...}``: read, checked, summed up to edges.

The counts are the lengths of runs of pixels, column by column, outside and inside in turn, the first one outside; plain
numbers, or compressed to text. All codes of a batch are read at once, which makes the rules cheap to check: runs of at
least 0 that add up to the size. Only if that fails is each code examined alone, in whole numbers of any length, to say
which one is wrong and why.
"""

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.geometry import run_counts
from torch_ap.geometry.run_counts import Runs
from torch_ap.ranking import segments
from torch_ap.ranking.order import Array
from torch_ap.rules.integers import is_whole
from torch_ap.rules.messages import shown

Size: TypeAlias = tuple[int, int]

MOST_PIXELS = 1 << 40
_NUMBERS_A_BLOCK = 1 << 18
_SIZE, _COUNTS = operator.itemgetter("size"), operator.itemgetter("counts")
_TEXT, _SIZED = {str, bytes}, str | bytes | list | tuple


class DecodedMasks(tuple[Any, ...]):
    """The run-length codes of one image's masks, decoded and checked; immutable, since its parts belong together.

    Attributes:
        edges: (E,) edges, mask after mask: int32, or int64 where masks of 2^30 pixels and more are among them.
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


class Decoded(NamedTuple):
    """The run-length codes of the masks of several images, decoded and checked.

    Attributes:
        edges: (E,) edges, mask after mask: int32, or int64 where masks of 2^30 pixels and more are among them.
        lengths: (N,) int64 edges per mask.
        sizes: height and width of each image; None for one without masks.
    """

    edges: Tensor
    lengths: Tensor
    sizes: list[Size | None]


def decode(images: Sequence[Sequence[Any]], name: Callable[[int, int], str]) -> Decoded:
    """Decode the codes of the masks of several images.

    Args:
        images: one sequence of run-length codes per image, all of one size.
        name: gives the name of a code in messages, from its image and its place there.

    Raises:
        ValueError: for an invalid code, or one of another size than the first of its image.
    """
    counts = np.fromiter(map(len, images), np.int64, len(images))
    starts = segments.from_counts(counts)

    def named(row: int) -> str:
        image = int(np.searchsorted(starts, row, side="right")) - 1
        return name(image, row - int(starts[image]))

    heights, widths, numbers = _parts(list(itertools.chain.from_iterable(images)), named)
    first = np.repeat(starts[:-1], counts)
    other = np.flatnonzero((heights != heights[first]) | (widths != widths[first]))
    if len(other):
        sizes = [[int(heights[row]), int(widths[row])] for row in (first[other[0]], other[0])]
        raise ValueError(
            f"{named(int(other[0]))} must have the size of the first mask of its image, {sizes[0]}, got {sizes[1]}"
        )
    edges, lengths = _edges(numbers, heights * widths, named)
    first = starts[:-1][counts > 0]
    known = zip(heights[first].tolist(), widths[first].tolist(), strict=True)
    return Decoded(
        torch.from_numpy(edges),
        torch.from_numpy(lengths),
        [next(known) if count else None for count in counts.tolist()],
    )


def decode_images(images: Sequence[Sequence[Any]], name: Callable[[int, int], str]) -> list[DecodedMasks]:
    """The same, image by image."""
    edges, lengths, sizes = decode(images, name)
    masks = torch.split(lengths, [len(codes) for codes in images])
    parts = torch.split(edges, [int(one.sum()) for one in masks])
    return [DecodedMasks(*one) for one in zip(images, parts, masks, sizes, strict=True)]


def _parts(codes: list[Any], named: Callable[[int], str]) -> tuple[Array, Array, list[Any]]:
    """(N,) int64 heights and widths of codes, and their counts."""
    if (plain := _plain_parts(codes)) is not None:
        return plain
    sizes = np.array([_size(code, named, row) for row, code in enumerate(codes)], np.int64).reshape(-1, 2)
    return sizes[:, 0], sizes[:, 1], list(map(_COUNTS, codes))


def _plain_parts(codes: list[Any]) -> tuple[Array, Array, list[Any]] | None:
    """The same all at once, where codes are what they mostly are; None where one is not, and may be wrong."""
    if set(map(type, codes)) != {dict}:
        return None
    try:
        sizes, counts = list(map(_SIZE, codes)), list(map(_COUNTS, codes))
        if not {list, tuple}.issuperset(map(type, sizes)) or set(map(len, sizes)) != {2}:
            return None
        numbers = list(itertools.chain.from_iterable(sizes))
        known = np.fromiter(numbers, np.int64, len(numbers))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    plain = set(map(type, numbers)) == {int} and known.min() >= 0 and int(known.max()) ** 2 <= MOST_PIXELS
    return (known[::2], known[1::2], counts) if plain else None


def _size(code: Any, named: Callable[[int], str], row: int) -> Size:
    """Height and width of a code."""
    if not isinstance(code, Mapping) or "size" not in code or "counts" not in code:
        got = shown(list(code)) if isinstance(code, Mapping) else type(code).__name__
        raise ValueError(f"{named(row)} must be a dict with 'size' and 'counts', got {got}")
    size = _listed(code["size"], "size", named, row)
    if isinstance(size, list | tuple) and len(size) == 2:
        height, width = map(int, size) if all(map(is_whole, size)) else (-1, -1)
        if min(height, width) >= 0 and height * width <= MOST_PIXELS:
            return height, width
    raise ValueError(
        f"{named(row)}: 'size' must hold height and width, whole numbers of at least 0 with a product of at most "
        f"2^40, got {shown(size)}"
    )


def _listed(value: Any, key: str, named: Callable[[int], str], row: int) -> Any:
    """A value of a code, as a list where it is a tensor or an array."""
    if isinstance(value, Tensor) and value.layout is not torch.strided:
        name = f"{named(row).strip('`')}[{key!r}]"
        raise ValueError(f"`{name}` is a sparse tensor ({value.layout}); give `{name}.to_dense()`")
    return value.tolist() if isinstance(value, Tensor | np.ndarray) else value


def _edges(counts: list[Any], pixels: Array, named: Callable[[int], str]) -> tuple[Array, Array]:
    """(E,) edges of all codes end to end, and (N,) edges per code."""
    if not (texts := _TEXT.issuperset(map(type, counts))):
        counts = [_listed(one, "counts", named, row) for row, one in enumerate(counts)]
        texts = _TEXT.issuperset(map(type, counts))
    known = map(len, counts) if texts else (len(one) if isinstance(one, _SIZED) else 0 for one in counts)
    sizes = np.fromiter(known, np.int64, len(counts))
    kind = np.int32 if pixels.max(initial=0) < run_counts.PIXELS_OF_INT32 else np.int64
    edges, lengths, held = np.empty(int(sizes.sum()), kind), np.empty(len(counts), np.int64), 0
    for first, last in _blocks(sizes, None if texts else [isinstance(one, str | bytes) for one in counts]):
        block, room = counts[first:last], edges[held:]
        if isinstance(block[0], str | bytes):
            runs = run_counts.from_text(block, sizes[first:last], room)
        else:
            runs = run_counts.from_lists(block, room)
        if runs is None or not _summed(runs, pixels[first:last]):
            faults = ((row, _fault(counts[row], int(pixels[row]))) for row in range(first, last))
            row, fault = next(one for one in faults if one[1] is not None)
            raise ValueError(f"{named(row)}: 'counts' {fault}")
        lengths[first:last] = runs.lengths
        held += len(runs.runs)
    return edges[:held], lengths


def _blocks(sizes: Array, kinds: list[bool] | None) -> Iterator[tuple[int, int]]:
    """Ranges of codes of one kind each, with no more numbers than fit into the processor's cache."""
    block = segments.from_zero(sizes)[:-1] // _NUMBERS_A_BLOCK
    if kinds is not None:
        block = 2 * block + kinds
    other = np.flatnonzero(block[1:] != block[:-1]) + 1
    return itertools.pairwise([0, *other.tolist(), len(sizes)] if len(sizes) else [])


def _summed(found: Runs, pixels: Array) -> bool:
    """Make edges of the runs of all codes, end to end and in place.

    False unless all runs are at least 0 and those of each code add up to its pixels. The first run or edge that is out
    of bounds is seen as such whatever the dtype, as it is less than twice as large as they allow.
    """
    runs, lengths, last = found
    ends, most = pixels - last, int(pixels.max())  # the last edge of each code
    if min(int(x.min(initial=0)) for x in (runs, last, ends)) < 0 or runs.max(initial=0) > most:
        return False
    filled = np.flatnonzero(lengths)
    stop, end = lengths.cumsum()[filled], ends[filled]
    runs[stop[:-1]] -= end[:-1]  # the next begins at 0
    segments.running(runs, runs)
    return bool(runs.max(initial=0) <= most and (runs[stop - 1] == end).all()) and not ends[lengths == 0].any()


def _fault(counts: Any, pixels: int) -> str | None:
    """What is wrong with the counts of one code, if anything is."""
    if isinstance(counts, str | bytes):
        runs: Sequence[Any] | str = run_counts.runs_of_text(run_counts.as_bytes(counts))
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
