"""Grades of relevance for hit curves: those of the hits, tie group by tie group, and those of the ideal ranking."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.ranking import hit_curve, order, segments, tie_groups
from torch_ap.ranking.hit_curve import HitCurve


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
    segment, grades, scores, ranked = relevant
    unknown = (curve.m - segments.count(segment, len(curve.m))).clamp(min=0)
    more = segments.ids(segments.from_counts(unknown))
    ideal = _descending(torch.cat([segment, more]), torch.cat([grades, torch.ones_like(more, dtype=grades.dtype)]))
    if ranked is not None:
        segment, grades, scores = segment[ranked], grades[ranked], scores[ranked]
    return hit_curve.with_grades(curve, segments.pick(grades, _by_score(segment, scores)), ideal)


def _by_score(segment: Tensor, scores: Tensor) -> Tensor:
    """Indices that sort items by ranking, and by descending score in each; equal scores in any order."""
    return order.argsort(tie_groups.group_keys(scores, segment)[0])


def _descending(segment: Tensor, grades: Tensor) -> Tensor:
    """The grades by ranking, the highest of each first."""
    short = grades.float()
    exact = torch.equal(short.to(grades.dtype), grades)  # and then a key of 32 bits holds the grade itself
    keys, levels = tie_groups.group_keys(short if exact else grades, segment)
    found = tie_groups.scores_of_group_keys(order.sort(keys), levels, torch.float32 if exact else grades.dtype)
    return found.to(grades.dtype)
