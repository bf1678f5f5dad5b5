"""Detections and ground truths as flat columns, in the order in which detection is evaluated.

A *group* is one category in one image: only inside it are detections and ground truths compared. Detections are ranked
within their category, by descending score, ties in the order of images and then of input, as COCO ranks them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.geometry.boxes import PairIoU
from torch_ap.ranking import order, segments

_PAIRS_A_CHUNK = {"cpu": 1 << 16}
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
    category = category[rows]
    group = (image[rows] * categories).add_(category)
    by_group = order.stable_argsort(group, images * categories)
    place = torch.empty_like(by_group).scatter_(0, by_group, _places(group[by_group]))
    if most is not None and len(place) and bool(place.max() >= most):
        kept = (place < most).nonzero().squeeze(1)
        renumbered = (place < most).cumsum(0) - 1
        by_group = by_group[place[by_group] < most]
        rows, category, group, place, by_group = (
            rows[kept],
            category[kept],
            group[kept],
            place[kept],
            renumbered[by_group],
        )
    return Ranked(rows, category, scores[rows], group, place, by_group)


def find_candidates(ranked: Ranked, truth_group: Tensor, groups: int) -> Candidates:
    """Find the detections that have ground truths in their group.

    Args:
        ranked: the detections.
        truth_group: (G,) int64 in [0, groups), image * K + category of each ground truth.
        groups: B * K.
    """
    truths = order.stable_argsort(truth_group, groups)
    ordered = truth_group[truths]
    start = segments.run_starts(ordered)
    count = start.diff(append=start.new_tensor([len(ordered)]))
    detection_group = ranked.group[ranked.by_group]
    low = torch.searchsorted(detection_group, ordered[start])
    detections = torch.searchsorted(detection_group, ordered[start], right=True) - low
    offsets = segments.from_counts(detections)
    run = segments.ids(offsets)
    inside = torch.arange(len(run), device=run.device) - offsets[run]
    return Candidates(ranked.by_group[low[run] + inside], start[run], count[run], truths, ordered)


def overlapping(candidates: Candidates, pair_iou: PairIoU, least: float) -> Pairs:
    """All pairs of one group whose IoU is at least ``least``; a chunk of pairs at a time, so that memory is bounded."""
    chunks = [pair_iou(detection, truth, least) for detection, truth in _chunks(candidates)]
    if not chunks:
        nothing = candidates.first[:0]
        return Pairs(nothing, nothing, segments.as_float64(nothing))
    return Pairs(*(torch.cat(column) for column in zip(*chunks, strict=True)))


def _chunks(candidates: Candidates) -> Iterator[tuple[Tensor, Tensor]]:
    """Detection and ground truth of every pair of one group, so many pairs at a time."""
    cumulative = candidates.width.cumsum(0)
    size = _PAIRS_A_CHUNK.get(cumulative.device.type, _PAIRS_A_CHUNK_ON_DEVICE)
    total = int(cumulative[-1]) if len(cumulative) else 0
    edges = torch.searchsorted(cumulative, torch.arange(0, total, size, device=cumulative.device), right=True).tolist()
    edges = sorted({*edges, len(cumulative)} - {0})
    last = 0
    for edge in edges:
        count = candidates.width[last:edge]
        detection = segments.repeat(torch.arange(last, edge, device=count.device), count)
        begin = (cumulative[last:edge] - count - (cumulative[last - 1] if last else 0)).sub_(
            candidates.first[last:edge]
        )
        truth = torch.arange(len(detection), device=count.device).sub_(segments.repeat(begin, count))
        yield detection, truth
        last = edge


def descending(scores: Tensor) -> Tensor:
    """Whole numbers in [0, 2^32) that ascend as the scores descend."""
    keys = order.keys(scores)
    if keys.dtype == torch.int64:
        distinct, keys = order.dense_ranks(keys)
        return len(distinct) - 1 - keys
    return torch.iinfo(keys.dtype).max - keys.to(torch.int64)


def _places(groups: Tensor) -> Tensor:
    """(N,) how many equal values precede each of the sorted values."""
    start = segments.run_starts(groups)
    length = start.diff(append=start.new_tensor([len(groups)]))
    return torch.arange(len(groups), device=groups.device).sub_(segments.repeat(start, length))
