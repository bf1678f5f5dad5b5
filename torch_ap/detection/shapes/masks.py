"""Masks as edges, and their intersection over union in integers.

The pixels of an (H, W) mask are counted column by column, as in COCO. A mask is described by its *edges*, an even
number of pixel counts where runs begin and end: [e0, e1), [e2, e3), ... are inside. The edges are the running sums
of a run-length code. Areas and intersections are integers, so every IoU is bit-identical to pycocotools.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.base.cached import memoize
from torch_ap.core.ranking import order, segments
from torch_ap.detection.shapes.boxes import Spanned
from torch_ap.detection.shapes.run_counts import PIXELS_OF_INT32

_EDGES_A_CHUNK = {"cpu": 1 << 17}
_EDGES_A_CHUNK_ON_DEVICE = 1 << 24
_PIXELS_A_CHUNK = {"cpu": 1 << 19}
_PIXELS_A_CHUNK_ON_DEVICE = 1 << 28
_FEW_EDGES = 1 << 17  # of all pairs: up to this number, intersections take less time than their bounds in columns
_CROWDED = 12  # less than for boxes, because a pair costs more


def edges_of(images: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the edges of dense masks.

    Args:
        images: at least one (N, H, W) tensor, bool, or integers that are nonzero inside.

    Returns:
        (E,) edges, mask after mask, int32, or int64 if a mask has 2^30 pixels or more; (M,) int64 edges per mask. Both
        are on the device of the first tensor.
    """
    device, changes_of_blocks = images[0].device, [torch.zeros(0, dtype=torch.int64, device=images[0].device)]
    shapes = np.array([image.shape for image in images])
    pixels = segments.from_counts(np.repeat(shapes[:, 1] * shapes[:, 2] + 1, shapes[:, 0]))
    first = segments.from_counts(shapes[:, 0])
    for image, start in zip(images, first.tolist(), strict=False):
        step = max(1, _PIXELS_A_CHUNK.get(image.device.type, _PIXELS_A_CHUNK_ON_DEVICE) // max(1, image[:1].numel()))
        for row in range(0, len(image) if image.numel() else 0, step):
            block = native(image[row : row + step])
            inside = block if image.dtype == torch.bool else block != 0
            before = int(pixels[start + row])
            changes_of_blocks += [arrays.tensor(x).to(device) + before for x in _unsorted_edges(inside)]
    # the offset of each mask is the number of pixels before it, plus 1 per mask
    changes, offsets = order.sort(torch.cat(changes_of_blocks)), torch.from_numpy(pixels).to(device)
    lengths = torch.searchsorted(changes, offsets).diff()
    edges = changes - segments.repeat(offsets[:-1], lengths)
    large = shapes[:, 1:].prod(1).max() >= PIXELS_OF_INT32
    return edges if large else edges.to(torch.int32), lengths


def _unsorted_edges(inside: Any) -> tuple[Any, ...]:
    """Return the edges of (N, H, W) native masks, plus H * W + 1 for each mask before, in any order.

    Rows are compared in memory order: each row with the row above, and the first row with the end of the column before.
    """
    count, height, width = inside.shape
    size, pixels = height * width + 1, inside.reshape(count, height * width)
    below = arrays.true_indices((pixels[:, width:] != pixels[:, :-width]).reshape(-1))
    line = below // width
    mask = line // max(1, height - 1)
    across = arrays.true_indices((pixels[:, 1:width] != pixels[:, -width:-1]).reshape(-1))
    mask_across = across // max(1, width - 1)
    return (
        mask * size + (below - line * width) * height + line - mask * (height - 1) + 1,
        mask_across * size + (across - mask_across * (width - 1) + 1) * height,
        arrays.true_indices(pixels[:, 0]) * size,
        arrays.true_indices(pixels[:, -1]) * size + size - 1,
    )


def area(edges: Tensor, lengths: Tensor) -> Tensor:
    """Return the (N,) int64 number of pixels inside each mask."""

    def total() -> Tensor:
        ends = native(edges)
        runs = segments.as_int64(ends[1::2] - ends[::2])
        return arrays.tensor(segments.total(runs, native(segments.from_counts(lengths // 2))))

    return memoize(total, area, (edges, lengths))


def bounding_boxes(edges: Tensor, lengths: Tensor, sizes: Tensor) -> Tensor:
    """Return the (N, 4) int64 boxes around masks, (x, y, width, height) in pixels; zeros for empty masks.

    Equals ``toBbox`` of pycocotools.

    Args:
        edges: (E,) edges, mask after mask.
        lengths: (N,) int64 edges per mask.
        sizes: (N, 2) int64 height and width of the image of each mask.
    """
    runs = segments.as_int64(edges).view(-1, 2)
    mask = segments.repeat(torch.arange(len(lengths), device=lengths.device), lengths // 2)
    height = sizes[mask, 0]
    first, last = runs[:, 0], runs[:, 1] - 1
    left, right, low, high = first // height, last // height, first % height, last % height
    is_one_column = left == right  # a longer run has a pixel in the first and in the last row
    low, high = torch.where(is_one_column, low, 0), torch.where(is_one_column, high, height - 1)
    box = sizes.new_zeros((4, len(lengths)))
    for row, values, reduce in ((0, left, "amin"), (1, low, "amin"), (2, right + 1, "amax"), (3, high + 1, "amax")):
        box[row].scatter_reduce_(0, mask, values, reduce, include_self=False)
    box[2:] -= box[:2]
    return box.t()


class Masks:
    """Set of masks whose rows are compared.

    Args:
        edges: (E,) int32 or int64 edges, mask after mask.
        lengths: (N,) int64 edges per mask.
        sizes: (N, 2) int64 height and width of the image of each mask.
    """

    def __init__(self, edges: Tensor, lengths: Tensor, sizes: Tensor) -> None:
        height, width = native(sizes[:, 0]), native(sizes[:, 1])
        self.edges, self.lengths, self.height = native(edges), native(lengths), arrays.clamp_min(height, 1)
        self.reach = int((height * width).max()) + 1 if len(sizes) else 1
        self.start = segments.from_counts(self.lengths)
        self.pixels = _pixels_before_runs(self.edges)
        before = arrays.tensor(arrays.take(self.pixels, self.start // 2))
        self.area = memoize(lambda: before.diff().to(torch.int64), area, (edges, lengths))
        self.first, self.last = (self._edge_at(place) for place in (self.start[:-1], self.start[1:] - 1))

    def _edge_at(self, index: Any) -> Any:
        """Return an edge of each mask, (N,); 0 for an empty mask."""
        if not len(self.edges):
            return index * 0
        edges = arrays.take(self.edges, arrays.clamp_max(index, len(self.edges) - 1))
        return segments.as_int64(edges) * (self.lengths > 0)

    def edges_of(self, masks: Any) -> Any:
        """Return the concatenated edges of some masks; all methods take and return native values."""
        lengths = arrays.take(self.lengths, masks)
        places = segments.repeat(arrays.take(self.start, masks) - segments.from_counts(lengths)[:-1], lengths)
        places += arrays.arange_like(len(places), places)
        return arrays.take(self.edges, places)

    def columns(self, masks: Any) -> tuple[Any, Any]:
        """Return the start of the first column and the end of the last column of some nonempty masks."""
        height = arrays.take(self.height, masks)
        first, last = arrays.take(self.first, masks), arrays.take(self.last, masks) - 1
        return first // height * height, (last // height + 1) * height

    def pixels_below(self, masks: Any, pixel: Any) -> Any:
        """Count the inside pixels of some nonempty masks below a pixel count each."""
        xp, beyond = arrays.namespace(masks), pixel >= arrays.take(self.last, masks)
        counts = xp.where(beyond, arrays.take(native(self.area), masks), 0)
        within = arrays.true_indices(~beyond & (pixel > arrays.take(self.first, masks)))
        counts[within] = self._search_pixels_below(arrays.take(masks, within), arrays.take(pixel, within))
        return counts

    def _search_pixels_below(self, masks: Any, pixel: Any) -> Any:
        """Count as :meth:`pixels_below`, by a search of each mask's runs."""
        xp, first = arrays.namespace(masks), arrays.take(self.start, masks) // 2
        low, high = first, first + arrays.take(self.lengths, masks) // 2
        steps = int((high - low).max()).bit_length() if len(masks) else 0
        for _ in range(steps):  # find the first run that begins beyond
            middle = (low + high) // 2
            begun = arrays.take(self.edges, 2 * xp.minimum(middle, high - 1)) < pixel
            low, high = xp.where(begun & (low < high), middle + 1, low), xp.where(begun, high, middle)
        last = arrays.take(self.edges, 2 * arrays.clamp_min(low - 1, 0) + 1)
        beyond = xp.where(low > first, arrays.clamp_min(last - pixel, 0), 0)
        return arrays.take(self.pixels, low) - arrays.take(self.pixels, first) - beyond


def _pixels_before_runs(edges: Any) -> Any:
    """Return the (E / 2 + 1,) inside pixels before each run of all masks, without further memory.

    The sums have the dtype of the edges. They can wrap around, but differences within a mask fit into the dtype and
    stay exact.
    """
    if isinstance(edges, Tensor):
        return segments.from_zero(edges[1::2] - edges[::2])
    pixels = np.empty(len(edges) // 2 + 1, edges.dtype)
    pixels[0] = 0
    np.subtract(edges[1::2], edges[::2], out=pixels[1:])
    segments.running(pixels[1:], pixels[1:])
    return pixels


def coco_pairs(detections: Masks, truths: Masks, crowd: Tensor) -> Spanned:
    """Return the function of COCO's IoU of rows of two sets of masks of equal sizes.

    IoU = i / (a + b - i), and i / a for a crowd.

    Args:
        detections: D masks.
        truths: G masks.
        crowd: (G,) bool.
    """
    areas, crowds = (native(detections.area), native(truths.area)), native(crowd)

    def iou(d: Any, g: Any, inter: Any) -> Any:
        d_area = arrays.take(areas[0], d)
        total = d_area + arrays.take(areas[1], g) - inter
        union = arrays.namespace(d).where(arrays.take(crowds, g), d_area, total)
        return segments.as_float64(inter) / segments.as_float64(arrays.clamp_min(union, 1))

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d_rows, g_rows = native(d), native(g)
        # upper bounds of the intersection, by areas and then by areas in common columns, exclude most pairs
        for bound in (_smaller_area, _smaller_area_in_columns) if least > 0 else ():
            if bound is _smaller_area_in_columns and _count_edges(detections, truths, d_rows, g_rows) <= _FEW_EDGES:
                break
            places = arrays.true_indices(iou(d_rows, g_rows, bound(detections, truths, d_rows, g_rows)) >= least)
            d_rows, g_rows = arrays.take(d_rows, places), arrays.take(g_rows, places)
        value = iou(d_rows, g_rows, _intersections(detections, truths, d_rows, g_rows))
        places = arrays.true_indices(value >= least)
        d, g, value = (arrays.tensor(arrays.take(x, places)) for x in (d_rows, g_rows, value))
        return d, g, value

    starts = arrays.tensor(detections.first), arrays.tensor(truths.first)
    ends = arrays.tensor(detections.last), arrays.tensor(truths.last)
    return Spanned(overlapping, starts, ends, crowded=_CROWDED)


def _smaller_area(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    """Return the smaller of the areas of each pair."""
    sizes = (arrays.take(native(side.area), rows) for side, rows in ((detections, d), (truths, g)))
    return arrays.namespace(d).minimum(*sizes)


def _smaller_area_in_columns(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    """Return the smaller of the pixels of each nonempty mask in the columns of the other one."""
    counts = [
        side.pixels_below(rows, end) - side.pixels_below(rows, begin)
        for side, rows, (begin, end) in ((detections, d, truths.columns(g)), (truths, g, detections.columns(d)))
    ]
    return arrays.namespace(d).minimum(*counts)


def _count_edges(detections: Masks, truths: Masks, d: Any, g: Any) -> int:
    return int(arrays.take(detections.lengths, d).sum() + arrays.take(truths.lengths, g).sum())


def _chunks(edges: Any, reach: int) -> list[slice]:
    """Split the pairs into chunks with a bounded number of edges, whose keys fit into int64."""
    cumulative = arrays.tensor(segments.from_counts(edges + 1)[1:])
    total = int(cumulative[-1]) if len(cumulative) else 0
    step = min(_EDGES_A_CHUNK.get(cumulative.device.type, _EDGES_A_CHUNK_ON_DEVICE), (1 << 62) // reach)
    cuts = torch.searchsorted(cumulative, torch.arange(0, total, step, device=cumulative.device), right=True).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(sorted({*cuts, 0, len(cumulative)}))]


def _intersections(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    """Return the number of pixels common to each pair, (P,) int64."""
    edges = arrays.take(detections.lengths, d) + arrays.take(truths.lengths, g)
    chunks = _chunks(edges, 2 * max(detections.reach, truths.reach))
    parts = [arrays.tensor(_intersect_chunk(detections, truths, d[part], g[part])) for part in chunks]
    return native(torch.cat([arrays.tensor(d[:0]), *parts]))


def _intersect_chunk(detections: Masks, truths: Masks, d: Any, g: Any) -> Any:
    """Return the intersections of one chunk.

    The edges of both masks of a pair are sorted together. Between two consecutive edges, the pixels are in both masks,
    in one or in none, according to the number of open runs: two, one or none.
    """
    reach, keys = 2 * max(detections.reach, truths.reach), []
    pair = arrays.arange_like(len(d), d) * reach
    if isinstance(pair, np.ndarray) and len(d) * reach <= np.iinfo(np.int32).max:
        pair = pair.astype(np.int32)  # half the memory to sort
    counts = arrays.take(detections.lengths, d), arrays.take(truths.lengths, g)
    for side, rows, edge_counts in ((detections, d, counts[0]), (truths, g, counts[1])):
        key = arrays.cast(side.edges_of(rows), pair)
        key *= 2
        key += segments.repeat(pair, edge_counts)
        key[1::2] += 1  # the ends of runs, as masks have even numbers of edges
        keys.append(key)
    ordered = merge_sorted(*keys)
    inside_both = arrays.true_indices(_open_runs(ordered) == 2)
    common = (arrays.take(ordered, inside_both + 1) >> 1) - (arrays.take(ordered, inside_both) >> 1)
    offsets = segments.from_counts(counts[0] + counts[1])
    return segments.total(segments.as_int64(common), arrays.namespace(inside_both).searchsorted(inside_both, offsets))


def _open_runs(ordered: Any) -> Any:
    """Return the int8 number of open runs after each edge; even numbers open a run, odd numbers close one."""
    if isinstance(ordered, Tensor):
        return (1 - 2 * (ordered & 1)).cumsum(0, dtype=torch.int8)
    steps = 1 - 2 * (ordered & 1).astype(np.int8)
    return segments.running(steps, steps)


def merge_sorted(first: Any, second: Any) -> Any:
    """Merge two ascending columns; NumPy's stable sort detects and merges sorted runs."""
    values = arrays.join(first, second)
    if isinstance(values, Tensor):
        return values.sort().values
    values.sort(kind="stable")
    return values
