"""Relevance grades of hit curves: the grades of the hits by tie group, and the grades of the ideal ranking."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.ranking import hit_curve, order, segments, tie_groups
from torch_ap.core.ranking.hit_curve import HitCurve


class Relevant(NamedTuple):
    """Relevant items of S rankings, in any order.

    Attributes:
        segment: (R,) int64, the ranking of each item; None for a single ranking.
        grades: (R,) float64, above 0.
        scores: (R,) of any real dtype; scores of unranked items are arbitrary, but not NaN.
        ranked: (R,) bool, whether each item was ranked; None if all were.
    """

    segment: Tensor | None
    grades: Tensor
    scores: Tensor
    ranked: Tensor | None = None

    def counts(self, rankings: int) -> Tensor:
        """Return the number of items of each ranking, (S,) int64."""
        if self.segment is not None:
            return segments.count(self.segment, rankings)
        counts = torch.zeros(rankings, dtype=torch.int64, device=self.grades.device)
        counts[:1] = len(self.grades)
        return counts


def attach_grades(curve: HitCurve, relevant: Relevant) -> HitCurve:
    """Attach grades to the hits of a curve, and return the new curve.

    Relevant items counted by m that are not listed in ``relevant`` get grade 1.

    Args:
        curve: S rankings without weights; every tie group that contains a hit is an entry.
        relevant: the hits of the curve, and the relevant items that were not ranked.
    """
    m, scores, ranked = curve.native.m, order.sortable(relevant.scores), relevant.ranked
    is_single = relevant.segment is None and len(m) == 1  # judged queries without items may follow it
    if is_single and relevant.grades.is_cpu and ranked is None and m[0] == len(relevant.grades):
        grades = relevant.grades.numpy()
        sorted_grades = grades[scores.numpy().argsort()[::-1]], np.sort(grades)[::-1]
        return hit_curve.attach_grades(curve, *(torch.from_numpy(x.copy()) for x in sorted_grades))
    segment = torch.zeros_like(relevant.grades, dtype=torch.int64) if relevant.segment is None else relevant.segment
    segment, grades = arrays.native(segment), arrays.native(relevant.grades)
    unlisted, ideal = m - segments.count(segment, len(m)), (segment, grades)
    if arrays.any_true(unlisted > 0):
        extra = segments.ids(segments.from_counts(arrays.clamp_min(unlisted, 0)))
        ideal = arrays.join(segment, extra), arrays.join(grades, segments.as_float64(extra * 0 + 1))
    if ranked is not None:
        scores, ranked = scores[ranked], arrays.native(ranked)
        segment, grades = segment[ranked], grades[ranked]
    by_score = _score_order(segment, arrays.native(scores))
    return hit_curve.attach_grades(curve, *(arrays.tensor(x) for x in (grades[by_score], _sort_grades(*ideal))))


def _score_order(segment: Any, scores: Any) -> Any:
    """Return indices that sort items by ranking and descending score; items with equal scores are in any order."""
    if isinstance(segment, Tensor):
        return torch.argsort(tie_groups.group_keys(scores, segment)[0])
    keys = order.array_keys(scores)
    if keys.dtype.itemsize > order.KEYED_BYTES:
        return np.lexsort((~keys, segment))
    return ((segment << 32) - keys).argsort()


@arrays.quiet
def _sort_grades(segment: Any, grades: Any) -> Any:
    """Return the grades by ranking, the highest first."""
    if isinstance(segment, Tensor):
        keys, levels = tie_groups.group_keys(grades, segment)
        return tie_groups.scores_of_group_keys(torch.sort(keys).values, levels, grades.dtype)
    narrow = grades.astype(np.float32)
    if np.count_nonzero(narrow != grades):
        return grades[np.lexsort((-grades, segment))]
    keys = (segment << 32) - order.array_keys(narrow)  # the lower 32 bits contain the grades
    keys.sort()
    return (-keys & 0xFFFFFFFF).astype(np.int32).view(np.float32).astype(np.float64)
