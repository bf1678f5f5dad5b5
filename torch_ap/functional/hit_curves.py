"""Hit curves beside the observed one: the ideal, the random, the concave hull; and the area under a curve."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.curve import shape
from torch_ap.evaluation.average_precision import curve_of_one, result_dtype
from torch_ap.functional.curves import HitCurvePoints, hit_curve
from torch_ap.functional.cuts import curve_of_rows
from torch_ap.functional.given_curves import area_of_precision
from torch_ap.ranking import segments
from torch_ap.rules import checks, tensors
from torch_ap.rules.options import Ties


class HitCurveHull(NamedTuple):
    """The corners of the least concave hit curve above a given one, and the AP of that curve.

    Attributes:
        t: (V,) ranks, from 0 to n; or fractions of n.
        hits: (V,) h there, from 0 to m; or fractions of n.
        thresholds: (V,) the score that retrieves the top t: +inf at t = 0, -inf at t = n where that is no score's.
        average_precision: 0-d, by Lemma 4's integral over the straight lines; NaN without positives.
    """

    t: Tensor
    hits: Tensor
    thresholds: Tensor
    average_precision: Tensor


class SurvivalPoints(NamedTuple):
    """The survival function of the hits' ranks, and Su & Zhang's variance of it.

    Attributes:
        t: (T,) ranks.
        survival: (T,) S(t), the fraction of the hits that stand below rank t; NaN without positives.
        variance: (T,) S(t) (1 - S(t)) / m.
    """

    t: Tensor
    survival: Tensor
    variance: Tensor


def area_under_hit_curve(preds: Tensor, target: Tensor, *, ties: Ties = "grouped") -> Tensor:
    r"""The area under the hit curve h(t), in fractions of n: what Zhu warns not to judge a ranking by.

    .. math::
        \int_0^1 h(t)\,dt = \pi (1 - \pi)\, \mathrm{AUC} + \frac{\pi^2}{2}

    with pi = m / n and AUC the area under the ROC curve: pi / 2 for random selection, pi (1 - pi / 2) at best. It gives
    all of the ranking the same weight, where AP gives most to its top.

    Args:
        preds: (N,) one ranking, or (Q, N) one per row: floating or integer scores, no NaN.
        target: the shape of ``preds``; integers or bool, 0 or 1.
        ties: where a tie group's hits lie: "grouped" and "expected" evenly, "optimistic" first, "pessimistic" last.

    Returns:
        0-d, or (Q,); float64 for float64 scores, else float32. NaN without items.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals pi (1 - pi) ``sklearn.metrics.roc_auc_score`` + pi^2 / 2.

    Source: Zhu (2004), section 4.1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import area_under_hit_curve
        >>> area_under_hit_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        tensor(0.3125)
    """
    curve, _ = curve_of_rows(preds, target, ties)
    return shape.area(curve, ties=ties).reshape(preds.shape[:-1]).to(result_dtype(preds.dtype))


def ideal_hit_curve(n: int, m: int, t: Tensor | None = None, *, fraction: bool = False) -> HitCurvePoints:
    """The hit curve h_P of a perfect ranking: every item a hit, h(t) = t, until all m are found.

    Args:
        n: items, at least 1.
        m: relevant items, 0 to n.
        t: (T,) depths: ranks in [0, n], or fractions of n in [0, 1]. Default: every rank, 1 to n, or its fraction.
        fraction: whether t and h are fractions of n, as in Zhu's paper, instead of numbers of items.

    Returns:
        t, hits, recall, precision, each (T,) float64, as :func:`hit_curve` gives them.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals :func:`hit_curve` of a ranking with its m relevant items first.

    Source: Zhu (2004), example 2.

    Example:
        >>> from torch_ap.functional import ideal_hit_curve
        >>> ideal_hit_curve(5, 2).hits
        tensor([1., 2., 2., 2., 2.], dtype=torch.float64)
    """
    depth = _depths(n, m, t, fraction)
    return _points(n, m, depth, depth.clamp(max=m), fraction)


def random_hit_curve(n: int, m: int, t: Tensor | None = None, *, fraction: bool = False) -> HitCurvePoints:
    """The hit curve h_R of random selection, on average: h(t) = pi t, pi = m / n.

    Args:
        n, m, t, fraction: as for :func:`ideal_hit_curve`.

    Returns:
        t, hits, recall, precision, each (T,) float64, as :func:`hit_curve` gives them.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals :func:`hit_curve` of items that all have the same score, and the means of
    :class:`torch_ap.inference.hits.RandomHits`.

    Source: Zhu (2004), example 1.

    Example:
        >>> from torch_ap.functional import random_hit_curve
        >>> random_hit_curve(5, 2).hits
        tensor([0.4000, 0.8000, 1.2000, 1.6000, 2.0000], dtype=torch.float64)
    """
    depth = _depths(n, m, t, fraction)
    return _points(n, m, depth, depth * m / n, fraction)


def survival_function(preds: Tensor, target: Tensor, t: Tensor | None = None) -> SurvivalPoints:
    """S(t) = 1 - r(t), the fraction of the hits that a ranking has not found by rank t, and its variance.

    The variance S (1 - S) / m takes the threshold, not the rank, for fixed: it is the variance of r(t) that
    :func:`torch_ap.inference.proportion_interval` is for. For a rank see
    :func:`torch_ap.inference.recall_at_k_interval`.

    Args:
        preds: (N, ...) floating or integer scores, no NaN; tied items share their places evenly.
        target: (N, ...) integers or bool, 0 or 1.
        t: (T,) ranks in [0, n]. Default: every rank, 1 to n.

    Returns:
        t, survival, variance, each (T,) float64.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals 1 - ``hit_curve(preds, target, t).recall``, and the Kaplan-Meier curve of the hits' ranks on untied scores.

    Source: Su & Zhang, Statistical Inference for Recall, Precision and Average Precision, "A More General Approach".

    Example:
        >>> import torch
        >>> from torch_ap.functional import survival_function
        >>> survival_function(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0])).survival
        tensor([0.5000, 0.5000, 0.0000, 0.0000], dtype=torch.float64)
    """
    points = hit_curve(preds, target, t)
    share = 1 - points.recall
    return SurvivalPoints(points.t, share, share * (1 - share) / segments.as_float64(target.sum()))


def hit_curve_hull(preds: Tensor, target: Tensor, *, fraction: bool = False) -> HitCurveHull:
    """The concave hull of the hit curve, and its AP: the ranking with those neighbours pooled that it orders wrongly.

    Zhu assumes that r''(t) <= 0 (Proposition 1): a ranking finds hits ever more slowly. Where an observed curve does
    not, choosing at random between two of its thresholds gives every point of the straight line between them, and
    with it a curve that does. Its AP is at least that of the ranking, with tied scores grouped.

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        fraction: whether t and h are fractions of n, instead of numbers of items.

    Returns:
        :class:`HitCurveHull` of float64 tensors.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals the antitonic regression of the targets (``sklearn.isotonic.IsotonicRegression(increasing=False)`` along the
    ranking), summed up, and the ROC convex hull in other coordinates.

    Source: Zhu (2004), Proposition 1 and Lemma 4; Ayer et al. (1955) for the pooling; Fawcett & Niculescu-Mizil (2007),
    PAV and the ROC convex hull.

    Example:
        >>> import torch
        >>> from torch_ap.functional import hit_curve_hull
        >>> hull = hit_curve_hull(torch.tensor([6.0, 5, 4, 3, 2, 1]), torch.tensor([1, 0, 0, 1, 1, 0]))
        >>> hull.t.tolist(), hull.hits.tolist()
        ([0.0, 1.0, 5.0, 6.0], [0.0, 1.0, 3.0, 3.0])
        >>> hull.average_precision
        tensor(0.8008, dtype=torch.float64)
    """
    curve = curve_of_one(preds, target)
    corners = shape.hull_corners(curve)
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    t, hits = segments.as_float64(curve.cumulative_items[corners]), segments.as_float64(curve.cumulative_hits[corners])
    score = segments.as_float64(preds.new_zeros(0) if curve.score is None else curve.score[corners])
    tail = (t[-1:] < n) if len(t) else n > 0
    start, rest = n.new_zeros(1), n[tail]
    t, hits = torch.cat([start, t, rest]), torch.cat([start, hits, m[tail]])
    thresholds = torch.cat([start + torch.inf, score, torch.full_like(rest, -torch.inf)])
    unit = n if fraction else torch.ones_like(n)
    return HitCurveHull(t / unit, hits / unit, thresholds, area_of_precision(t, hits, m[0]))


def _depths(n: int, m: int, t: Tensor | None, fraction: bool) -> Tensor:
    """The depths in ranks, float64."""
    n, m = checks.ranking_size(n, m)
    if t is None:
        return torch.arange(1, n + 1, dtype=torch.float64)
    tensors.depths("t", t, 1.0 if fraction else float(n))
    return segments.as_float64(t.detach()) * (n if fraction else 1)


def _points(n: int, m: int, depth: Tensor, hits: Tensor, fraction: bool) -> HitCurvePoints:
    unit = n if fraction else 1
    recall = hits / m if m else torch.full_like(hits, torch.nan)
    return HitCurvePoints(depth / unit, hits / unit, recall, hits / depth)
