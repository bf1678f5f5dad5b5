"""Hit curve, its concave hull, area and survival function, and comparison of the hit curves of two systems."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.options import IgnoreIndex, Ties
from torch_ap.core.base.record import Record
from torch_ap.core.items.settings import result_dtype, validated_curve
from torch_ap.core.measures import average_precision, counts
from torch_ap.core.measures.ties import TIES, check_ties
from torch_ap.core.ranking import segments
from torch_ap.curves.counts import curves_of_rows
from torch_ap.curves.points import area_of_precision


class _HitCurvePoints(NamedTuple):
    t: Tensor
    hits: Tensor
    recall: Tensor
    precision: Tensor


class HitCurvePoints(Record, _HitCurvePoints):
    """Hit curve, recall and precision at given depths; p(t) = pi r(t) / t (Zhu 2004, lemma 1).

    Attributes:
        t: (T,) depths: ranks, or fractions of n.
        hits: (T,) h(t): number of positives among the top t, or this number as a fraction of n.
        recall: (T,) r(t), the fraction of all positives; NaN without positives.
        precision: (T,) p(t), h(t) / t; NaN at t = 0.
    """

    __slots__ = ()


def hit_curve(
    preds: Tensor,
    target: Tensor,
    t: Tensor | None = None,
    *,
    fraction: bool = False,
    ties: Ties = "grouped",
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
) -> HitCurvePoints:
    r"""Return the hit curve h(t), recall r(t) and precision p(t) of one ranking at given depths t.

    .. math::
        r(t) = \frac{h(t)}{\pi}, \qquad p(t) = \frac{h(t)}{t}, \qquad \pi = \frac{m}{n}

    in fractions of n; in ranks r(t) = h(t) / m.

    Args:
        preds: (N, ...) floating or integer scores.
        target: (N, ...) integers or bool, 0 or 1.
        t: (T,) depths: ranks in [0, n], or fractions of n in [0, 1]. Between whole ranks h is linear. Default: all
            ranks from 1 to n, or their fractions.
        fraction: whether t and h are fractions of n, as in Zhu's paper, instead of numbers of items.
        ties: ranks of the hits inside a tie group: evenly spread with "grouped" and "expected", first with
            "optimistic", last with "pessimistic".
        ignore_index: target value of items to ignore, or a sequence of such values.
        validate_args: whether to check values.

    Returns:
        t, hits, recall, precision, each (T,) float64.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Source: Zhu (2004), section 1 and eq. 1.

    Example:
        >>> import torch
        >>> from torch_ap.curves import hit_curve
        >>> points = hit_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> points.hits
        tensor([1., 1., 2., 2.], dtype=torch.float64)
        >>> points.precision
        tensor([1.0000, 0.5000, 0.6667, 0.5000], dtype=torch.float64)
    """
    checks.boolean("fraction", fraction)
    check_ties(ties, TIES)
    curve = validated_curve(preds, target, ignore_index=ignore_index, validate_args=validate_args)
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    depth = torch.arange(1, int(n) + 1, device=n.device, dtype=n.dtype)
    if t is not None:
        tensors.depths("t", t, 1.0 if fraction else float(n))
        depth = t.detach().to(n.device, n.dtype) * (n if fraction else 1)
    hits = counts.hits_at(curve, depth, ties=ties)
    unit = n if fraction else torch.ones_like(n)
    return HitCurvePoints(depth / unit, hits / unit, hits / m, hits / depth)


class _HitCurveComparison(NamedTuple):
    above: Literal["a", "b", "equal", "neither"]
    crossings: Tensor
    t: Tensor
    difference: Tensor


class HitCurveComparison(Record, _HitCurveComparison):
    """Two hit curves of the same items.

    Attributes:
        above: "a" or "b" if that curve is never below the other one and not equal to it, "equal" if they are equal,
            "neither" if they cross.
        crossings: (X,) float64 depths t* where the lead changes, ascending. If the curves coincide before, the end of
            the common part.
        t: (K,) float64 depths of the corners of both curves, from 0 to n.
        difference: (K,) float64 h_A(t) - h_B(t), linear in between.
    """

    __slots__ = ()


def compare_hit_curves(
    preds_a: Tensor, preds_b: Tensor, target: Tensor, *, fraction: bool = False
) -> HitCurveComparison:
    """Compare the hit curves of two systems: the higher one, and the depths where they cross.

    The system with the higher curve has at least as many hits at every depth. Its AP, and each measure at each cut, are
    at least as high. If the curves cross, the measures can disagree. For the role of chance see
    :func:`torch_ap.inference.compare_rankings`.

    Args:
        preds_a: (N, ...) scores of system A, no NaN. The hits of tied items are spread evenly.
        preds_b: (N, ...) scores of system B for the same items, on any scale.
        target: (N, ...) integers or bool, 0 or 1.
        fraction: whether depths and hits are fractions of n, as in Zhu's paper, instead of numbers of items.

    Returns:
        :class:`HitCurveComparison`, computed with integers and therefore without rounding errors in ``above``.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Source: Zhu (2004), section 1 and Figure 2.

    Example:
        >>> import torch
        >>> from torch_ap.curves import compare_hit_curves
        >>> a, b = torch.tensor([6.0, 5, 4, 3, 2, 1]), torch.tensor([4.0, 6, 5, 3, 2, 1])
        >>> compare_hit_curves(a, b, torch.tensor([1, 0, 1, 0, 0, 0])).above
        'a'
        >>> compare_hit_curves(a, b, torch.tensor([1, 1, 1, 0, 0, 1])).above
        'equal'
        >>> comparison = compare_hit_curves(a, torch.tensor([4.0, 6, 3, 2, 1, 5]), torch.tensor([1, 0, 0, 0, 0, 1]))
        >>> comparison.above, comparison.crossings
        ('neither', tensor([2.], dtype=torch.float64))
    """
    for name, preds in (("preds_a", preds_a), ("preds_b", preds_b)):
        tensors.scores(name, preds)
        tensors.check_scores(name, preds, target)
        tensors.same_device(**{name: preds}, target=target)
    a, b = validated_curve(preds_a, target), validated_curve(preds_b, target)
    gap = average_precision.gap(a, b)
    leads = [bool((gap.sign > 0).any()), bool((gap.sign < 0).any())]
    above: Literal["a", "b", "equal", "neither"]
    above = "neither" if all(leads) else "equal" if not any(leads) else "a" if leads[0] else "b"
    unit = segments.as_float64(a.n) if fraction else torch.ones(1, dtype=torch.float64, device=a.n.device)
    return HitCurveComparison(
        above, average_precision.crossings(gap) / unit, segments.as_float64(gap.t) / unit, gap.value / unit
    )


class _HitCurveHull(NamedTuple):
    t: Tensor
    hits: Tensor
    thresholds: Tensor
    average_precision: Tensor


class HitCurveHull(Record, _HitCurveHull):
    """The corners of the concave hull of a hit curve, and its AP.

    Attributes:
        t: (V,) ranks, from 0 to n; or fractions of n.
        hits: (V,) h at these ranks, from 0 to m; or fractions of n.
        thresholds: (V,) score that retrieves the top t: +inf at t = 0, -inf at t = n if no hit has the lowest score.
        average_precision: 0-d, Lemma 4's integral over the straight lines; NaN without positives.
    """

    __slots__ = ()


class _SurvivalPoints(NamedTuple):
    t: Tensor
    survival: Tensor
    variance: Tensor


class SurvivalPoints(Record, _SurvivalPoints):
    """The survival function of the ranks of the hits, and its variance by Su & Zhang.

    Attributes:
        t: (T,) ranks.
        survival: (T,) S(t), the fraction of the hits below rank t; NaN without positives.
        variance: (T,) S(t) (1 - S(t)) / m.
    """

    __slots__ = ()


def area_under_hit_curve(preds: Tensor, target: Tensor, *, ties: Ties = "grouped") -> Tensor:
    r"""Return the area under the hit curve h(t), in fractions of n.

    .. math::
        \int_0^1 h(t)\,dt = \pi (1 - \pi)\, \mathrm{AUC} + \frac{\pi^2}{2}

    with pi = m / n and AUC the area under the ROC curve. It is pi / 2 for random selection and at most pi (1 - pi / 2).
    It weights all ranks equally, while AP emphasizes the top. Zhu advises against it as a measure of a ranking.

    Args:
        preds: (N,) one ranking, or (Q, N) one per row: floating or integer scores, no NaN.
        target: integers or bool in the shape of ``preds``, 0 or 1.
        ties: ranks of the hits inside a tie group: evenly spread with "grouped" and "expected", first with
            "optimistic", last with "pessimistic".

    Returns:
        0-d, or (Q,); float64 for float64 scores, else float32. NaN without items.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals pi (1 - pi) ``sklearn.metrics.roc_auc_score`` + pi^2 / 2.

    Source: Zhu (2004), section 4.1.

    Example:
        >>> import torch
        >>> from torch_ap.curves import area_under_hit_curve
        >>> area_under_hit_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        tensor(0.3125)
    """
    curve, _ = curves_of_rows(preds, target, ties)
    return average_precision.area(curve, ties=ties).reshape(preds.shape[:-1]).to(result_dtype(preds.dtype))


def survival_function(preds: Tensor, target: Tensor, t: Tensor | None = None) -> SurvivalPoints:
    """Return S(t) = 1 - r(t), the fraction of the hits below rank t, and its variance.

    The variance S (1 - S) / m assumes a fixed threshold, like :func:`torch_ap.inference.proportion_interval` of r(t).
    For a fixed rank see :func:`torch_ap.inference.recall_at_k_interval`.

    Args:
        preds: (N, ...) floating or integer scores, no NaN; the hits of tied items are spread evenly.
        target: (N, ...) integers or bool, 0 or 1.
        t: (T,) ranks in [0, n]. Default: all ranks from 1 to n.

    Returns:
        t, survival, variance, each (T,) float64.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals 1 - ``hit_curve(preds, target, t).recall``, and on untied scores the Kaplan-Meier curve of the hits' ranks.

    Source: Su & Zhang, Statistical Inference for Recall, Precision and Average Precision, "A More General Approach".

    Example:
        >>> import torch
        >>> from torch_ap.curves import survival_function
        >>> survival_function(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0])).survival
        tensor([0.5000, 0.5000, 0.0000, 0.0000], dtype=torch.float64)
    """
    points = hit_curve(preds, target, t)
    share = 1 - points.recall
    return SurvivalPoints(points.t, share, share * (1 - share) / segments.as_float64(target.sum()))


def hit_curve_hull(preds: Tensor, target: Tensor, *, fraction: bool = False) -> HitCurveHull:
    """Return the concave hull of the hit curve, and its AP.

    Zhu assumes that r''(t) <= 0 (Proposition 1): the hit rate decreases along the ranking. If an observed curve
    violates this, a random choice between two thresholds gives every point of the straight line between them. The hull
    consists of such lines. Its AP is at least the AP of the ranking with tied scores grouped.

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        fraction: whether t and h are fractions of n, instead of numbers of items.

    Returns:
        :class:`HitCurveHull` of float64 tensors.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals the cumulative sum of the antitonic regression of the targets
    (``sklearn.isotonic.IsotonicRegression(increasing=False)`` along the ranking), and the ROC convex hull in other
    coordinates.

    Source: Zhu (2004), Proposition 1 and Lemma 4; Ayer et al. (1955) for the pooling; Fawcett & Niculescu-Mizil (2007),
    PAV and the ROC convex hull.

    Example:
        >>> import torch
        >>> from torch_ap.curves import hit_curve_hull
        >>> hull = hit_curve_hull(torch.tensor([6.0, 5, 4, 3, 2, 1]), torch.tensor([1, 0, 0, 1, 1, 0]))
        >>> hull.t.tolist(), hull.hits.tolist()
        ([0.0, 1.0, 5.0, 6.0], [0.0, 1.0, 3.0, 3.0])
        >>> hull.average_precision
        tensor(0.8008, dtype=torch.float64)
    """
    curve = validated_curve(preds, target)
    corners = average_precision.hull_corners(curve)
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    t, hits = segments.as_float64(curve.cumulative_items[corners]), segments.as_float64(curve.cumulative_hits[corners])
    score = segments.as_float64(preds.new_zeros(0) if curve.score is None else curve.score[corners])
    tail = (t[-1:] < n) if len(t) else n > 0
    start, rest = n.new_zeros(1), n[tail]
    t, hits = torch.cat([start, t, rest]), torch.cat([start, hits, m[tail]])
    thresholds = torch.cat([start + torch.inf, score, torch.full_like(rest, -torch.inf)])
    unit = n if fraction else torch.ones_like(n)
    return HitCurveHull(t / unit, hits / unit, thresholds, area_of_precision(t, hits, m[0]))
