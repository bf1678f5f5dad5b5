"""COCO's matches of a few boxes on CPU, in Python, which takes less time than NumPy's calls for an image or two.

The results equal the results of the vectorized matching (:mod:`torch_ap.detection.matching.assignment`) to the last
bit: the same operations on float64 numbers, in the same order.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.matching.assignment import Criteria
from torch_ap.detection.matching.candidate_pairs import Ranked
from torch_ap.detection.matching.matched import Matches, Partners

_Box: TypeAlias = tuple[float, float, float, float, float]
"""Left, lower, right and upper side, and the area."""


class _Truth(NamedTuple):
    """A ground truth: its number, its box, whether it is a crowd, and the bits of the criteria that ignore it."""

    number: int
    box: _Box
    is_crowd: bool
    skipped: int


class _MatchedPair(NamedTuple):
    """A pair of a detection and a ground truth, with the bits of the criteria that match it, and that count it."""

    detection: int
    truth: int
    iou: float
    matched: int
    counted: int


def match(
    columns: Columns,
    box_format: str,
    areas: Sequence[tuple[float, float]],
    criteria: Criteria,
    most: int,
    *,
    use_given_area: bool,
    micro: bool,
) -> tuple[Tensor, Matches] | None:
    """Return the (K,) labels and the matches of all images; None for scores with NaN.

    Args:
        columns: all images.
        box_format: the format of the boxes.
        areas: the bounds of the area ranges.
        criteria: thresholds and area ranges.
        most: the maximum number of detections per image and category.
        use_given_area: whether areas of ground truths of 0 or less are not replaced by the areas of the boxes.
        micro: whether all labels are one category.
    """
    scores = columns["detection_scores"].tolist()
    if math.isnan(sum(scores)):  # or infinities of both signs
        return None
    labels, categories, (groups, truth_groups) = _groups(columns, micro=micro)
    found, true = (_boxes(columns[f"{side}_boxes"], box_format) for side in ("detection", "ground_truth"))
    by_score = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    by_score.sort(key=[group % categories for group in groups].__getitem__)
    rows, places, members = list[int](), list[int](), dict[int, list[int]]()
    for row in by_score:
        earlier = members.setdefault(groups[row], [])
        if len(earlier) < most:
            places.append(len(earlier))
            earlier.append(len(rows))
            rows.append(row)

    truth_rows = sorted(range(len(true)), key=truth_groups.__getitem__)
    given, is_crowd = (columns[f"ground_truth_{key}"].tolist() for key in ("area", "iscrowd"))
    sizes = given if use_given_area else [x if x > 0 else box[4] for x, box in zip(given, true, strict=True)]
    valid = [[not is_crowd[row] and low <= sizes[row] <= high for row in truth_rows] for low, high in areas]
    inside = [[low <= found[row][4] <= high for row in rows] for low, high in areas]
    truths: dict[int, list[_Truth]] = {}
    for index, (row, *counts) in enumerate(zip(truth_rows, *valid, strict=True)):
        skipped = sum(word for word, counted in zip(criteria.plain_values[2], counts, strict=True) if not counted)
        truths.setdefault(truth_groups[row], []).append(_Truth(index, true[row], is_crowd[row], skipped))
    pairs = [
        pair
        for group in truths.keys() & members.keys()
        for pair in _match_group([(x, found[rows[x]]) for x in members[group]], truths[group], criteria)
    ]
    pairs.sort()
    detection, truth, iou, matched, counted = zip(*pairs, strict=True) if pairs else ((), (), (), (), ())
    group = [groups[row] for row in rows]
    by_group = [*chain.from_iterable(members[x] for x in sorted(members))]
    kept, *ranked = _integers(rows, [x % categories for x in group], group, places, by_group)
    at, truth_of_pair = _integers(detection, truth)
    bits = _integers(matched, counted)
    truth_index, truth_group = _integers(truth_rows, [truth_groups[row] for row in truth_rows])
    return labels, Matches(
        ranked=Ranked(kept, ranked[0], columns["detection_scores"].index_select(0, kept), *ranked[1:]),
        at=at,
        matched=bits[0][None],
        true_positive=bits[1][None],
        inside=_flags(inside),
        truth_group=truth_group,
        valid=_flags(valid),
        categories=categories,
        criteria=criteria,
        partners=Partners(truth_of_pair, torch.from_numpy(np.array(iou, np.float64)), truth_index),
    )


def _groups(columns: Columns, *, micro: bool) -> tuple[Tensor, int, list[list[int]]]:
    """Return the distinct labels, the number of categories, and the groups of detections and of ground truths."""
    labels = [columns[f"{side}_labels"].tolist() for side in ("detection", "ground_truth")]
    distinct = sorted({*labels[0], *labels[1]})
    place = dict.fromkeys(distinct, 0) if micro else {label: at for at, label in enumerate(distinct)}
    size = 1 if micro else max(1, len(distinct))
    groups = []
    for side, own in zip(("detection", "ground_truth"), labels, strict=True):
        images = chain.from_iterable(map(repeat, itertools.count(), columns[f"{side}s_per_image"].tolist()))
        groups.append([image * size + place[label] for image, label in zip(images, own, strict=True)])
    return _integers(distinct)[0], size, groups


def _boxes(boxes: Tensor, box_format: str) -> list[_Box]:
    """Return boxes with the operations of ``boxes.to_xywh`` and ``boxes.coco_pairs``."""
    rows = boxes.tolist()
    if box_format == "xyxy":
        rows = [(left, lower, right - left, upper - lower) for left, lower, right, upper in rows]
    elif box_format == "cxcywh":
        rows = [(x - 0.5 * width, y - 0.5 * height, width, height) for x, y, width, height in rows]
    return [(left, lower, left + width, lower + height, width * height) for left, lower, width, height in rows]


def _match_group(
    found: Sequence[tuple[int, _Box]], truths: Sequence[_Truth], criteria: Criteria
) -> Iterator[_MatchedPair]:
    """Yield the matched pairs of an image and category.

    Args:
        found: the index and the box of each detection, by descending score.
        truths: the ground truths.
        criteria: thresholds and area ranges.
    """
    ascending, words, _ = criteria.plain_values
    free = [-1] * len(truths)
    for detection, box in found:
        candidates = _candidates(box, truths, ascending[0])
        if not candidates:
            continue
        candidates.sort(reverse=True)  # the last one first among equals
        reached = [words[bisect_right(ascending, iou)] & free[place] for iou, place in candidates]
        matched, taken = [0] * len(candidates), 0  # taken: the criteria that have a match
        for is_ignored in (False, True):  # ignored ground truths come after all others
            for preference, (_, place) in enumerate(candidates):
                skipped = truths[place].skipped
                choice = reached[preference] & ~taken & (skipped if is_ignored else ~skipped)
                matched[preference] |= choice
                taken |= choice
        for (iou, place), word in zip(candidates, matched, strict=True):
            if word:
                truth = truths[place]
                yield _MatchedPair(detection, truth.number, iou, word, word & ~truth.skipped)
                free[place] ^= 0 if truth.is_crowd else word


def _candidates(box: _Box, truths: Sequence[_Truth], least: float) -> list[tuple[float, int]]:
    """Return the IoU of at least ``least`` with a detection, and the place, of the ground truths that reach it."""
    left, lower, right, upper, area = box
    candidates = []
    for place, truth in enumerate(truths):
        other_left, other_lower, other_right, other_upper, other_area = truth.box
        if left < other_right and other_left < right and lower < other_upper and other_lower < upper:
            wide = (right if right < other_right else other_right) - (left if left > other_left else other_left)
            high = (upper if upper < other_upper else other_upper) - (lower if lower > other_lower else other_lower)
            inter = wide * high
            union = area if truth.is_crowd else area + other_area - inter
            iou = inter / union if union else math.inf if inter else math.nan  # as NumPy divides by 0
            if wide > 0 and high > 0 and iou >= least:
                candidates.append((iou, place))
    return candidates


def _integers(*columns: Sequence[int]) -> Sequence[Tensor]:
    """Return columns of equal lengths as int64 tensors."""
    return [torch.from_numpy(column) for column in np.array(columns, np.int64)]  # `unbind` takes twice as long


def _flags(rows: Sequence[Sequence[bool]]) -> Tensor:
    return torch.from_numpy(np.array(rows, np.bool_))
