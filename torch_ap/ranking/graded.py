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
        segment: (R,) int64, the ranking of each; None where there is one.
        grades: (R,) float64, above 0.
        scores: (R,) of any real dtype; those of unranked items may be anything but NaN.
        ranked: (R,) bool, which of them were ranked; None for all.
    """

    segment: Tensor | None
    grades: Tensor
    scores: Tensor
    ranked: Tensor | None = None

    def counts(self, rankings: int) -> Tensor:
        """How many each ranking has: (S,) int64."""
        if self.segment is not None:
            return segments.count(self.segment, rankings)
        found = torch.zeros(rankings, dtype=torch.int64, device=self.grades.device)
        found[:1] = len(self.grades)
        return found


def with_grades(curve: HitCurve, relevant: Relevant) -> HitCurve:
    """The curve whose hits are the ranked ones of these items, with their grades.

    Where m counts more than these items, the others have grade 1.

    Args:
        curve: S rankings without weights; every tie group that holds a hit is an entry.
        relevant: its hits, and the relevant items that were not ranked.
    """
    m, scores, ranked = curve.native.m, order.sortable(relevant.scores), relevant.ranked
    alone = relevant.segment is None and len(m) == 1  # judged queries without items may have come after it
    if alone and relevant.grades.is_cpu and ranked is None and m[0] == len(relevant.grades):
        grades = relevant.grades.numpy()
        found = grades[scores.numpy().argsort()[::-1]], np.sort(grades)[::-1]
        return hit_curve.with_grades(curve, *(torch.from_numpy(x.copy()) for x in found))
    segment = torch.zeros_like(relevant.grades, dtype=torch.int64) if relevant.segment is None else relevant.segment
    segment, grades = arrays.native(segment), arrays.native(relevant.grades)
    unknown, ideal = m - segments.count(segment, len(m)), (segment, grades)
    if arrays.some(unknown > 0):
        more = segments.ids(segments.from_counts(arrays.at_least(unknown, 0)))
        ideal = arrays.joined(segment, more), arrays.joined(grades, segments.as_float64(more * 0 + 1))
    if ranked is not None:
        scores, ranked = scores[ranked], arrays.native(ranked)
        segment, grades = segment[ranked], grades[ranked]
    by_score = _by_score(segment, arrays.native(scores))
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
