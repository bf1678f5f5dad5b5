"""Detections and ground truths as flat columns, in the order in which detection is evaluated.

A *group* is one category in one image: only inside it are detections and ground truths compared. Detections are ranked
within their category, by descending score, ties in the order of images and then of input, as COCO ranks them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.geometry.boxes import PairIoU, Spanned
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays, memory
from torch_ap.runtime.arrays import native

_PAIRS_A_CHUNK = {"cpu": 1 << 18}
_PAIRS_A_CHUNK_ON_DEVICE = 1 << 24


class Ranked(NamedTuple):
    """N detections in order of category and descending score.

    Attributes:
        rows: (N,) int64, the row that each had in the input.
        category: (N,) int64 in [0, K), non-decreasing.
        score: (N,) in the dtype given.
        group: (N,) int64, image * K + category.
        place: (N,) int64, how many of its own group come before it.
        by_group: (N,) int64, the detections in order of group and then of place.
    """

    rows: Tensor
    category: Tensor
    score: Tensor
    group: Tensor
    place: Tensor
    by_group: Tensor


class Candidates(NamedTuple):
    """The detections that share a group with some ground truth, in order of group and place.

    Attributes:
        ranked: (V,) int64, which detection of the ranking.
        first: (V,) int64, its group's first ground truth among all in order of group.
        width: (V,) int64, how many ground truths its group has.
        truths: (G,) int64, rows of all ground truths in order of group, then of input.
        group: (G,) int64, their groups.
    """

    ranked: Tensor
    first: Tensor
    width: Tensor
    truths: Tensor
    group: Tensor


class Pairs(NamedTuple):
    """Candidate pairs in order of group, then of place.

    Attributes:
        detection: (P,) int64, non-decreasing, a row of a :class:`Candidates`.
        truth: (P,) int64, a place among its ``truths``.
        iou: (P,) float64.
    """

    detection: Tensor
    truth: Tensor
    iou: Tensor


def rank(
    scores: Tensor, category: Tensor, image: Tensor, *, categories: int, images: int, most: int | None = None
) -> Ranked:
    """Rank detections within their category, and cut each group.

    Args:
        scores: (D,) any real dtype, no NaN.
        category: (D,) int64 in [0, categories).
        image: (D,) int64 in [0, images), non-decreasing.
        categories: K.
        images: B.
        most: how many detections of a group count, the best first; None for all.
    """
    down = descending(scores)
    rows = order.stable_argsort((category << 32).add_(down), categories << 32)
    at = native(rows)
    category = arrays.take(native(category), at)
    group = arrays.take(native(image), at) * categories + category
    by_group = native(order.stable_argsort(arrays.tensor(group), images * categories))
    place = native(torch.empty_like(rows))
    place[by_group] = places(arrays.take(group, by_group))
    if most is not None and arrays.some(place >= most):
        within = place < most
        by_group = (within.cumsum(0) - 1)[by_group[within[by_group]]]
        at, category, group, place = (x[within] for x in (at, category, group, place))
    rows, category, group, place, by_group = map(arrays.tensor, (at, category, group, place, by_group))
    return Ranked(rows, category, scores.index_select(0, rows), group, place, by_group)


def find_candidates(ranked: Ranked, truth_group: Tensor, groups: int) -> Candidates:
    """Find the detections that have ground truths in their group.

    Args:
        ranked: the detections.
        truth_group: (G,) int64 in [0, groups), image * K + category of each ground truth.
        groups: B * K.
    """
    truths = order.stable_argsort(truth_group, groups)
    ordered = arrays.take(native(truth_group), native(truths))
    start, count = segments.runs(ordered)
    detection_group = arrays.take(native(ranked.group), native(ranked.by_group))
    group = arrays.take(ordered, start)
    low, end = (arrays.below(detection_group, x) for x in (group, group + 1))
    run = arrays.repeat(arrays.steps(len(group), group), end - low)
    inside = arrays.take(low - (end - low).cumsum(0) + (end - low), run)
    inside += arrays.steps(len(inside), inside)
    taken = ((native(ranked.by_group), inside), (start, run), (count, run))
    chosen, first, width = (arrays.tensor(arrays.take(*x)) for x in taken)
    return Candidates(chosen, first, width, truths, arrays.tensor(ordered))


def overlapping(candidates: Candidates, pair_iou: PairIoU, least: float) -> Pairs:
    """All pairs of one group whose IoU is at least ``least``; a chunk of pairs at a time, so that memory is bounded."""
    if least > 0 and isinstance(pair_iou, Spanned) and _crowded(candidates, pair_iou.crowded):
        return _of_common_spans(candidates, pair_iou, least)
    chunks = [pair_iou(detection, truth, least) for detection, truth in _chunks(candidates)]
    if not chunks:
        nothing = candidates.first[:0]
        return Pairs(nothing, nothing, segments.as_float64(nothing))
    return Pairs(*(memory.joined(column) for column in zip(*chunks, strict=True)))


def _crowded(candidates: Candidates, least: int) -> bool:
    """Whether there are more than so many pairs per detection and ground truth."""
    return int(native(candidates.width).sum()) > least * (len(candidates.width) + len(candidates.truths))


def _of_common_spans(candidates: Candidates, pair_iou: Spanned, least: float) -> Pairs:
    """The same where groups have many ground truths: only pairs whose spans have something in common are looked at.

    In order of group and start, the ground truths that begin before a detection ends are the first of their group; and
    the highest end so far only grows, so that those from some place on include all that end after it begins. Both
    places are searched with ranks in place of starts and ends, lifted by group.
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
    fewer = candidates._replace(first=after, width=(before - after).clamp(min=0))
    chunks = [pair_iou(detection, by_start[truth], least) for detection, truth in _chunks(fewer)]
    if not chunks:
        return Pairs(group[:0], group[:0], segments.as_float64(group[:0]))
    detection, truth, iou = (torch.cat(column) for column in zip(*chunks, strict=True))
    order_of_pairs = order.stable_argsort(detection * len(group) + truth, len(candidates.first) * len(group))
    return Pairs(detection[order_of_pairs], truth[order_of_pairs], iou[order_of_pairs])


def _chunks(candidates: Candidates) -> Iterator[tuple[Tensor, Tensor]]:
    """Detection and ground truth of every pair of one group, so many pairs at a time."""
    width = native(candidates.width)
    end = width.cumsum(0)
    shift, number = native(candidates.first) - end + width, arrays.steps(len(end), end)
    size = _PAIRS_A_CHUNK.get(candidates.width.device.type, _PAIRS_A_CHUNK_ON_DEVICE)
    marks = range(size, int(end[-1]) if len(end) else 0, size)
    edges = arrays.below(end, native(candidates.width.new_tensor(marks)) + 1).tolist() if marks else []
    last = 0
    for edge in sorted({*edges, len(end)} - {0}):
        detection = arrays.repeat(number[last:edge], width[last:edge])
        truth = arrays.take(shift, detection) + (end[last - 1] if last else 0)
        truth += arrays.steps(len(truth), truth)
        yield arrays.tensor(detection), arrays.tensor(truth)
        last = edge


def descending(scores: Tensor) -> Tensor:
    """Whole numbers in [0, 2^32) that ascend as the scores descend."""
    known = scores.is_cpu and scores.dtype != torch.bfloat16  # to NumPy
    keys = arrays.tensor(order.array_keys(scores.numpy())) if known else order.keys(scores)
    if keys.dtype == torch.int64:
        distinct, keys = order.dense_ranks(keys)
        return len(distinct) - 1 - keys
    return arrays.tensor(torch.iinfo(keys.dtype).max - segments.as_int64(native(keys)))


def places(groups: Any) -> Any:
    """(N,) how many equal values precede each of the sorted values, native as they are."""
    start, length = segments.runs(groups)
    return arrays.steps(len(groups), start) - arrays.repeat(start, length)
