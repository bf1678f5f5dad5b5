"""Masks as the places where they begin and end, and their intersection over union in whole numbers.

The pixels of an (H, W) mask are counted column by column, as in COCO. A mask is described by its *edges*, the
even number of pixel counts at which it begins and ends: [e0, e1), [e2, e3), ... are inside. The edges are the sums of a
run-length code. Areas and intersections are whole numbers, so every IoU equals pycocotools' to the last bit.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.geometry.boxes import Spanned
from torch_ap.geometry.run_counts import PIXELS_OF_INT32
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native
from torch_ap.runtime.cached import memoize

_EDGES_A_CHUNK = {"cpu": 1 << 17}
_EDGES_A_CHUNK_ON_DEVICE = 1 << 24
_PIXELS_A_CHUNK = {"cpu": 1 << 19}
_PIXELS_A_CHUNK_ON_DEVICE = 1 << 28
_CROWDED = 12  # less than for boxes, as a pair costs more


def edges_of(images: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The edges of dense masks.

    Args:
        images: at least one tensor, (N, H, W) bool, or integers, where all but 0 is inside.

    Returns:
        (E,) edges, mask after mask, int32, or int64 where a mask has 2^30 pixels or more; (M,) int64 edges per mask.
        Both on the device of the first tensor.
    """
    device, found = images[0].device, [torch.zeros(0, dtype=torch.int64, device=images[0].device)]
    shapes = np.array([image.shape for image in images])
    pixels = segments.from_counts(np.repeat(shapes[:, 1] * shapes[:, 2] + 1, shapes[:, 0]))
    first = segments.from_counts(shapes[:, 0])
    for image, start in zip(images, first.tolist(), strict=False):
        step = max(1, _PIXELS_A_CHUNK.get(image.device.type, _PIXELS_A_CHUNK_ON_DEVICE) // max(1, image[:1].numel()))
        for row in range(0, len(image) if image.numel() else 0, step):
            block = native(image[row : row + step])
            inside = block if image.dtype == torch.bool else block != 0
            found += [arrays.tensor(x).to(device) + int(pixels[start + row]) for x in _changes(inside)]
    # so many pixels, and one more, come before each mask
    changes, before = order.sort(torch.cat(found)), torch.from_numpy(pixels).to(device)
    lengths = torch.searchsorted(changes, before).diff()
    edges = changes - segments.repeat(before[:-1], lengths)
    large = shapes[:, 1:].prod(1).max() >= PIXELS_OF_INT32
    return edges if large else edges.to(torch.int32), lengths


def _changes(inside: Any) -> tuple[Any, ...]:
    """The edges of (N, H, W) native masks, plus H * W + 1 for each mask before, in any order.

    Rows are compared as they lie in memory: with those above them, and the first with the end of the column before.
    """
    count, height, width = inside.shape
    size, pixels = height * width + 1, inside.reshape(count, height * width)
    below = arrays.places((pixels[:, width:] != pixels[:, :-width]).reshape(-1))
    line = below // width
    mask = line // max(1, height - 1)
    beside = arrays.places((pixels[:, 1:width] != pixels[:, -width:-1]).reshape(-1))
    other = beside // max(1, width - 1)
    return (
        mask * size + (below - line * width) * height + line - mask * (height - 1) + 1,
        other * size + (beside - other * (width - 1) + 1) * height,
        arrays.places(pixels[:, 0]) * size,
        arrays.places(pixels[:, -1]) * size + size - 1,
    )


def area(edges: Tensor, lengths: Tensor) -> Tensor:
    """(N,) int64 pixels inside each mask."""

    def total() -> Tensor:
        ends = native(edges)
        runs = segments.as_int64(ends[1::2] - ends[::2])
        return arrays.tensor(segments.total(runs, native(segments.from_counts(lengths // 2))))

    return memoize(total, area, (edges, lengths))


class Masks:
    """One set of masks, of which rows are compared.

    Args:
        edges: (E,) int32 or int64 edges, mask after mask.
        lengths: (N,) int64 edges per mask.
        sizes: (N, 2) int64 height and width of the image of each.
    """

    def __init__(self, edges: Tensor, lengths: Tensor, sizes: Tensor) -> None:
        height, width = native(sizes[:, 0]), native(sizes[:, 1])
        self.edges, self.lengths, self.height = native(edges), native(lengths), arrays.at_least(height, 1)
        self.reach = int((height * width).max()) + 1 if len(sizes) else 1
        self.start = segments.from_counts(self.lengths)
        self.pixels = _before_runs(self.edges)
        before = arrays.tensor(arrays.take(self.pixels, self.start // 2))
        self.area = memoize(lambda: before.diff().to(torch.int64), area, (edges, lengths))
        self.first, self.last = (self._edge_at(place) for place in (self.start[:-1], self.start[1:] - 1))

    def _edge_at(self, place: Any) -> Any:
        """(N,) an edge of each mask; 0 of an empty one."""
        if not len(self.edges):
            return place * 0
        edges = arrays.take(self.edges, arrays.at_most(place, len(self.edges) - 1))
        return segments.as_int64(edges) * (self.lengths > 0)

    def edges_of(self, masks: Any) -> Any:
        """The edges of some masks, end to end; all of this class in native values."""
        lengths = arrays.take(self.lengths, masks)
        places = segments.repeat(arrays.take(self.start, masks) - segments.from_counts(lengths)[:-1], lengths)
        places += arrays.steps(len(places), places)
        return arrays.take(self.edges, places)

    def columns(self, masks: Any) -> tuple[Any, Any]:
        """Where the first column begins and the last one ends of some masks, none of which is empty."""
        height = arrays.take(self.height, masks)
        first, last = arrays.take(self.first, masks), arrays.take(self.last, masks) - 1
        return first // height * height, (last // height + 1) * height

    def below(self, masks: Any, place: Any) -> Any:
        """The pixels of some masks, none of which is empty, below a count of pixels each."""
        xp, beyond = arrays.namespace(masks), place >= arrays.take(self.last, masks)
        found = xp.where(beyond, arrays.take(native(self.area), masks), 0)
        within = arrays.places(~beyond & (place > arrays.take(self.first, masks)))
        found[within] = self._below(arrays.take(masks, within), arrays.take(place, within))
        return found

    def _below(self, masks: Any, place: Any) -> Any:
        """The same, by a search of each mask's runs."""
        xp, first = arrays.namespace(masks), arrays.take(self.start, masks) // 2
        low, high = first, first + arrays.take(self.lengths, masks) // 2
        for _ in range(int((high - low).max()).bit_length() if len(masks) else 0):  # the first run that begins beyond
            middle = (low + high) // 2
            begun = arrays.take(self.edges, 2 * xp.minimum(middle, high - 1)) < place
            low, high = xp.where(begun & (low < high), middle + 1, low), xp.where(begun, high, middle)
        last = arrays.take(self.edges, 2 * arrays.at_least(low - 1, 0) + 1)
        beyond = xp.where(low > first, arrays.at_least(last - place, 0), 0)
        return arrays.take(self.pixels, low) - arrays.take(self.pixels, first) - beyond


def _before_runs(edges: Any) -> Any:
    """(E / 2 + 1,) pixels inside before each run of all masks, in memory for no more than them.

    In the dtype of the edges, which what lies between two runs of a mask fits into, as sums that wrap around tell it.
    """
    if isinstance(edges, Tensor):
        return segments.from_zero(edges[1::2] - edges[::2])
    pixels = np.empty(len(edges) // 2 + 1, edges.dtype)
    pixels[0] = 0
    np.subtract(edges[1::2], edges[::2], out=pixels[1:])
    segments.running(pixels[1:], pixels[1:])
    return pixels


def coco_pairs(detections: Masks, truths: Masks, crowd: Tensor) -> Spanned:
    """COCO's IoU of rows of two sets of masks of equal sizes: i / (a + b - i), and i / a for a crowd.

    Args:
        detections: D masks.
        truths: G masks.
        crowd: (G,) bool.
    """
    areas, crowds = (native(detections.area), native(truths.area)), native(crowd)

    def iou(d: Any, g: Any, inter: Any) -> Any:
        one = arrays.take(areas[0], d)
        both = one + arrays.take(areas[1], g) - inter
        union = arrays.namespace(d).where(arrays.take(crowds, g), one, both)
        return segments.as_float64(inter) / segments.as_float64(arrays.at_least(union, 1))

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        one, two = native(d), native(g)
        # no IoU is above that of the largest intersection that there can be, by areas, then by areas in common columns
        for largest in (_smaller_area, _in_columns) if least > 0 else ():
            kept = arrays.places(iou(one, two, largest(detections, truths, one, two)) >= least)
            one, two = arrays.take(one, kept), arrays.take(two, kept)
        value = iou(one, two, _intersections(detections, truths, one, two))
        kept = arrays.places(value >= least)
        one, two, value = (arrays.tensor(arrays.take(x, kept)) for x in (one, two, value))
        return one, two, value

    starts = arrays.tensor(detections.first), arrays.tensor(truths.first)
    ends = arrays.tensor(detections.last), arrays.tensor(truths.last)
    return Spanned(overlapping, starts, ends, crowded=_CROWDED)


def _smaller_area(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    sizes = (arrays.take(native(side.area), rows) for side, rows in ((detections, d), (truths, g)))
    return arrays.namespace(d).minimum(*sizes)


def _in_columns(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    """The pixels that each has in the columns of the other, those of the one that has less; none of them is empty."""
    counts = [
        side.below(rows, end) - side.below(rows, begin)
        for side, rows, (begin, end) in ((detections, d, truths.columns(g)), (truths, g, detections.columns(d)))
    ]
    return arrays.namespace(d).minimum(*counts)


def _chunks(edges: Any, reach: int) -> list[slice]:
    """The pairs in chunks that have so many edges each, and fit into int64 end to end."""
    cumulative = arrays.tensor(segments.from_counts(edges + 1)[1:])
    total = int(cumulative[-1]) if len(cumulative) else 0
    step = min(_EDGES_A_CHUNK.get(cumulative.device.type, _EDGES_A_CHUNK_ON_DEVICE), (1 << 62) // reach)
    cuts = torch.searchsorted(cumulative, torch.arange(0, total, step, device=cumulative.device), right=True).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(sorted({*cuts, 0, len(cumulative)}))]


def _intersections(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    """(P,) int64 pixels common to each pair."""
    edges = arrays.take(detections.lengths, d) + arrays.take(truths.lengths, g)
    chunks = _chunks(edges, 2 * max(detections.reach, truths.reach))
    found = [arrays.tensor(_common(detections, truths, d[part], g[part])) for part in chunks]
    return native(torch.cat([arrays.tensor(d[:0]), *found]))


def _common(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    """The same of one chunk.

    The edges of both masks of a pair in ascending order: between an edge and the next lies a part of both masks, of
    one, or of none, as two, one or no run has begun and not ended.
    """
    reach, keys = 2 * max(detections.reach, truths.reach), []
    pair = arrays.steps(len(d), d) * reach
    if isinstance(pair, np.ndarray) and len(d) * reach <= np.iinfo(np.int32).max:
        pair = pair.astype(np.int32)  # half as much to sort
    counts = arrays.take(detections.lengths, d), arrays.take(truths.lengths, g)
    for side, rows, many in ((detections, d, counts[0]), (truths, g, counts[1])):
        key = arrays.cast(side.edges_of(rows), pair)
        key *= 2
        key += segments.repeat(pair, many)
        key[1::2] += 1  # the ends of runs, as masks have even numbers of edges
        keys.append(key)
    ordered = merged(*keys)
    both = arrays.places(_begun(ordered) == 2)
    common = (arrays.take(ordered, both + 1) >> 1) - (arrays.take(ordered, both) >> 1)
    offsets = segments.from_counts(counts[0] + counts[1])
    return segments.total(segments.as_int64(common), arrays.namespace(both).searchsorted(both, offsets))


def _begun(ordered: Any) -> Any:
    """How many runs have begun and not ended, int8; even numbers begin one, odd ones end one."""
    if isinstance(ordered, Tensor):
        return (1 - 2 * (ordered & 1)).cumsum(0, dtype=torch.int8)
    steps = 1 - 2 * (ordered & 1).astype(np.int8)
    return segments.running(steps, steps)


def merged(one: Any, two: Any) -> Any:
    """Two ascending columns as one; NumPy's stable sort finds them and merges them."""
    both = arrays.joined(one, two)
    if isinstance(both, Tensor):
        return both.sort().values
    both.sort(kind="stable")
    return both
