"""Ranked detections and candidate pairs as flat columns.

A *group* is one category in one image; detections are compared only with ground truths of their group. Detections are
ranked within their category by descending score, ties by image and then by input order, as in COCO.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import order, segments
from torch_ap.detection.shapes.boxes import BlockIoU, PairIoU, Spanned

_PAIRS_A_CHUNK = {"cpu": 1 << 18}
_PAIRS_A_CHUNK_ON_DEVICE = 1 << 24
_PAIRS_A_BLOCK = 1 << 14  # columns of this length stay in a processor's cache
_BLOCK = 1 << 12  # pairs; from here a call for one group costs less than it saves
_BLOCK_WIDTH = 48  # ground truths of a group; below, no group is large enough
_BLOCK_GAIN = 4  # a block is this many times as fast as single pairs


class Ranked(NamedTuple):
    """N detections by category and descending score.

    Attributes:
        rows: (N,) int64, the input row of each detection.
        category: (N,) int64 in [0, K), non-decreasing.
        score: (N,) in the dtype of the input.
        group: (N,) int64, image * K + category.
        place: (N,) int64, the number of earlier detections of the same group.
        by_group: (N,) int64, the detections by group and place.
    """

    rows: Tensor
    category: Tensor
    score: Tensor
    group: Tensor
    place: Tensor
    by_group: Tensor


class Candidates(NamedTuple):
    """The V detections whose group has ground truths, by group and place, and all ground truths by group.

    Attributes:
        ranked: (V,) int64, indices into the ranking.
        first: (V,) int64, the first ground truth of the group, as an index into ``truths``.
        width: (V,) int64, the number of ground truths of the group.
        truths: (G,) int64, the input rows of all ground truths, by group, then by input order.
        group: (G,) int64, the groups of ``truths``.
    """

    ranked: Tensor
    first: Tensor
    width: Tensor
    truths: Tensor
    group: Tensor


class Pairs(NamedTuple):
    """Candidate pairs by group and place.

    Attributes:
        detection: (P,) int64, non-decreasing, indices of detections of :class:`Candidates`.
        truth: (P,) int64, indices into ``Candidates.truths``.
        iou: (P,) float64.
    """

    detection: Tensor
    truth: Tensor
    iou: Tensor

    def select(self, index: Any) -> "Pairs":
        """Return the pairs at indices, in a slice or with flags."""
        return Pairs(*(column[index] for column in self))


def rank(
    scores: Tensor, category: Tensor, image: Tensor, *, categories: int, images: int, most: int | None = None
) -> Ranked:
    """Rank detections within their category, and limit the detections of each group.

    Args:
        scores: (D,) any real dtype, no NaN.
        category: (D,) int64 in [0, categories).
        image: (D,) int64 in [0, images), non-decreasing.
        categories: the number of categories, K.
        images: the number of images, B.
        most: the maximum number of detections per group, by descending score; None for no limit.
    """
    down = descending(scores)
    rows = order.stable_argsort((category << 32).add_(down), categories << 32)
    at = native(rows)
    category = arrays.take(native(category), at)
    group = arrays.take(native(image), at) * categories + category
    by_group = native(order.stable_argsort(arrays.tensor(group), images * categories))
    place = native(torch.empty_like(rows))
    place[by_group] = places_in_runs(arrays.take(group, by_group))
    if most is not None and arrays.any_true(place >= most):
        within = place < most
        by_group = (within.cumsum(0) - 1)[by_group[within[by_group]]]
        at, category, group, place = (x[within] for x in (at, category, group, place))
    rows, category, group, place, by_group = map(arrays.tensor, (at, category, group, place, by_group))
    return Ranked(rows, category, scores.index_select(0, rows), group, place, by_group)


def find_candidates(ranked: Ranked, truth_group: Tensor, groups: int) -> Candidates:
    """Return the detections whose group has ground truths.

    Args:
        ranked: the detections.
        truth_group: (G,) int64 in [0, groups), image * K + category of each ground truth.
        groups: the number of groups, B * K.
    """
    truths = order.stable_argsort(truth_group, groups)
    ordered = arrays.take(native(truth_group), native(truths))
    start, count = segments.runs(ordered)
    detection_group = arrays.take(native(ranked.group), native(ranked.by_group))
    group = arrays.take(ordered, start)
    low, end = (arrays.below(detection_group, x) for x in (group, group + 1))
    run = arrays.repeat(arrays.arange_like(len(group), group), end - low)
    inside = arrays.take(low - (end - low).cumsum(0) + (end - low), run)
    inside += arrays.arange_like(len(inside), inside)
    columns = ((native(ranked.by_group), inside), (start, run), (count, run))
    rows, first, width = (arrays.tensor(arrays.take(*x)) for x in columns)
    return Candidates(rows, first, width, truths, arrays.tensor(ordered))


def overlapping(candidates: Candidates, pair_iou: PairIoU, least: float) -> Pairs:
    """Return all pairs within groups whose IoU is at least ``least``, chunk by chunk to bound the memory."""
    if least > 0 and isinstance(pair_iou, Spanned):
        if _is_crowded(candidates, pair_iou.crowded):
            fewer, by_start = _common_spans(candidates, pair_iou)
            if pair_iou.block is None or _BLOCK_GAIN * _size(fewer) < _size(candidates):
                return _pairs_of_spans(fewer, by_start, pair_iou, least)
        if pair_iou.block is not None and bool((native(candidates.width) >= _BLOCK_WIDTH).any()):
            return _join_chunks(_block_pairs(candidates, pair_iou, pair_iou.block, least), candidates)
    return _join_chunks((pair_iou(*pair, least) for pair in _chunks(candidates)), candidates)


def _join_chunks(chunks: Iterable[tuple[Tensor, Tensor, Tensor]], candidates: Candidates) -> Pairs:
    """Join the pairs of consecutive chunks."""
    columns = list(zip(*chunks, strict=True))
    if not columns:
        nothing = candidates.first[:0]
        return Pairs(nothing, nothing, segments.as_float64(nothing))
    return Pairs(*map(arrays.concatenate, columns))


def _size(candidates: Candidates) -> int:
    """Count the pairs within groups."""
    return int(native(candidates.width).sum())


def _is_crowded(candidates: Candidates, least: int) -> bool:
    """Whether there are more than ``least`` pairs per detection and ground truth."""
    return _size(candidates) > least * (len(candidates.width) + len(candidates.truths))


def _common_spans(candidates: Candidates, pair_iou: Spanned) -> tuple[Candidates, Tensor]:
    """Reduce the ground truths of each detection to a range that includes all overlapping spans.

    The ground truths are sorted by group and start. The ground truths that start before the end of a detection are the
    first ones of their group. The running maximum of the ends never decreases, so a binary search finds the first
    ground truth that can end after the start of the detection. Both searches use ranks instead of starts and ends,
    offset by group.

    Returns:
        The candidates, with ranges of the sorted ground truths; and (G,) int64, the sort order.
    """
    start, end = pair_iou.starts[1], pair_iou.ends[1]
    group = segments.ids(segments.run_starts(torch.cat([candidates.group, candidates.group[-1:] + 1])))
    lift, starts, ends = group * (len(group) + 1), start.sort().values, end.sort().values
    by_start = torch.argsort(lift + torch.searchsorted(starts, start))
    begin = (lift + torch.searchsorted(starts, start))[by_start]
    highest = (lift + torch.searchsorted(ends, end))[by_start].cummax(0).values
    own = lift[candidates.first]
    before = torch.searchsorted(begin, own + torch.searchsorted(starts, pair_iou.ends[0]))
    after = torch.searchsorted(highest, own + torch.searchsorted(ends, pair_iou.starts[0], right=True))
    return candidates._replace(first=after, width=(before - after).clamp(min=0)), by_start


def _pairs_of_spans(fewer: Candidates, by_start: Tensor, pair_iou: Spanned, least: float) -> Pairs:
    """Return :func:`overlapping` of the candidates of :func:`_common_spans`."""
    pairs = _join_chunks((pair_iou(detection, by_start[truth], least) for detection, truth in _chunks(fewer)), fewer)
    total = len(by_start)
    ordered = order.stable_argsort(pairs.detection * total + pairs.truth, len(fewer.first) * total)
    return pairs.select(ordered)


def _block_pairs(
    candidates: Candidates, pair_iou: PairIoU, block: BlockIoU, least: float
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the pairs of consecutive detections; large groups are computed block by block."""
    width = native(candidates.width)
    start, rows = segments.runs(native(candidates.first))
    large = arrays.true_indices(arrays.take(width, start) * rows >= _BLOCK)
    last = 0
    for low, high in zip(arrays.take(start, large).tolist(), arrays.take(start + rows, large).tolist(), strict=True):
        if last < low:
            yield from (pair_iou(*pair, least) for pair in _chunks(candidates, slice(last, low)))
        first, size = int(candidates.first[low]), int(width[low])
        step = max(_PAIRS_A_BLOCK // size, 1)
        for row in range(low, high, step):
            yield block(slice(row, min(row + step, high)), slice(first, first + size), least)
        last = high
    if last < len(width):
        yield from (pair_iou(*pair, least) for pair in _chunks(candidates, slice(last, None)))


def _chunks(candidates: Candidates, rows: slice = slice(None)) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the detection and the ground truth of all pairs within groups, chunk by chunk."""
    width = native(candidates.width)[rows]
    end = width.cumsum(0)
    shift, number = native(candidates.first)[rows] - end + width, arrays.arange_like(len(end), end)
    size = _PAIRS_A_CHUNK.get(candidates.width.device.type, _PAIRS_A_CHUNK_ON_DEVICE)
    marks = range(size, int(end[-1]) if len(end) else 0, size)
    edges = arrays.below(end, native(candidates.width.new_tensor(marks)) + 1).tolist() if marks else []
    last = 0
    for edge in sorted({*edges, len(end)} - {0}):
        detection = arrays.repeat(number[last:edge], width[last:edge])
        truth = arrays.take(shift, detection) + (end[last - 1] if last else 0)
        truth += arrays.arange_like(len(truth), truth)
        yield arrays.tensor(detection + rows.start if rows.start else detection), arrays.tensor(truth)
        last = edge


def descending(scores: Tensor) -> Tensor:
    """Return integers in [0, 2^32) in the order of descending scores."""
    if scores.dtype == torch.float64 and torch.equal(scores, single := scores.float()):
        scores = single  # as from most detectors; their keys have 32 bits
    has_numpy = scores.is_cpu and scores.dtype != torch.bfloat16  # NumPy has no bfloat16
    keys = arrays.tensor(order.array_keys(scores.numpy())) if has_numpy else order.keys(scores)
    if keys.dtype == torch.int64:
        distinct, keys = order.dense_ranks(keys)
        return len(distinct) - 1 - keys
    return arrays.tensor(torch.iinfo(keys.dtype).max - segments.as_int64(native(keys)))


def places_in_runs(groups: Any) -> Any:
    """Count the equal values before each of the sorted native values, (N,)."""
    start, length = segments.runs(groups)
    return arrays.arange_like(len(groups), start) - arrays.repeat(start, length)
