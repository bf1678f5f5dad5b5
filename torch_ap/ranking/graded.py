"""Grades of relevance for hit curves: those of the hits, tie group by tie group, and those of the ideal ranking."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import hit_curve, order, segments, tie_groups
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays


class Relevant(NamedTuple):
    """All relevant items of S rankings, in any order.

    Attributes:
        segment: (R,) int64, the ranking of each.
        grades: (R,) float64, above 0.
        scores: (R,) of any real dtype; those of unranked items may be anything but NaN.
        ranked: (R,) bool, which of them were ranked; None for all.
    """

    segment: Tensor
    grades: Tensor
    scores: Tensor
    ranked: Tensor | None = None


def with_grades(curve: HitCurve, relevant: Relevant) -> HitCurve:
    """The curve whose hits are the ranked ones of these items, with their grades.

    Where m counts more than these items, the others have grade 1.

    Args:
        curve: S rankings without weights; every tie group that holds a hit is an entry.
        relevant: its hits, and the relevant items that were not ranked.
    """
    m = curve.native.m
    segment, grades = arrays.native(relevant.segment), arrays.native(relevant.grades)
    unknown, ideal = m - segments.count(segment, len(m)), (segment, grades)
    if arrays.some(unknown > 0):
        more = segments.ids(segments.from_counts(arrays.at_least(unknown, 0)))
        ideal = arrays.joined(segment, more), arrays.joined(grades, segments.as_float64(more * 0 + 1))
    scores, ranked = relevant.scores, relevant.ranked
    if ranked is not None:
        scores, ranked = scores[ranked], arrays.native(ranked)
        segment, grades = segment[ranked], grades[ranked]
    by_score = _by_score(segment, arrays.native(order.sortable(scores)))
    return hit_curve.with_grades(curve, *(arrays.tensor(x) for x in (grades[by_score], _descending(*ideal))))


def _by_score(segment: Any, scores: Any) -> Any:
    """Indices that sort items by ranking, and by descending score in each; equal scores in any order."""
    if isinstance(segment, Tensor):
        return torch.argsort(tie_groups.group_keys(scores, segment)[0])
    keys = order.array_keys(scores)
    if keys.dtype.itemsize > order.KEYED_BYTES:
        return np.lexsort((~keys, segment))
    return ((segment << 32) - keys).argsort()


@arrays.quiet
def _descending(segment: Any, grades: Any) -> Any:
    """The grades by ranking, the highest of each first."""
    if isinstance(segment, Tensor):
        keys, levels = tie_groups.group_keys(grades, segment)
        return tie_groups.scores_of_group_keys(torch.sort(keys).values, levels, grades.dtype)
    short = grades.astype(np.float32)
    if np.count_nonzero(short != grades):
        return grades[np.lexsort((-grades, segment))]
    keys = (segment << 32) - order.array_keys(short)  # which hold the grades themselves
    keys.sort()
    return (-keys & 0xFFFFFFFF).astype(np.int32).view(np.float32).astype(np.float64)
