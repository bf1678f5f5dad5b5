"""Average precision of a curve given as points, where the ranking behind it is not available."""

from typing import Any, Literal

import torch
from torch import Tensor

from torch_ap.curve import interpolation
from torch_ap.ranking import segments
from torch_ap.rules import checks, tensors
from torch_ap.rules.options import PointsInterpolation, allowed

_EPSILONS = 8  # hits and depths are rounded once each, as fractions of n maybe, and so are their differences and sums


def average_precision_from_hit_curve(
    hits: Tensor, t: Tensor | None = None, *, m: float | None = None, between: Literal["step", "line"] = "step"
) -> Tensor:
    r"""Average precision of a hit curve h(t) that is given as points.

    .. math::
        AP = \int_0^1 p\,dr = \int \frac{\pi r(t) r'(t)}{t} dt = \frac{1}{m} \int \frac{h(t) h'(t)}{t} dt

    "step" is the sum that the integral is in practice, of p(t_i) (r(t_i) - r(t_{i-1})): what lies between two points is
    one tie group. "line" is the integral itself, of a curve that is straight between its points, as that of a large
    collection may be drawn.

    Args:
        hits: (T,) h at each depth, not negative and not decreasing: numbers of items, or fractions of n.
        t: (T,) depths above 0, ascending, in the unit of ``hits``. None for the ranks 1 to T. From (0, 0), which is not
            to be given, to the first point the curve is straight; so it may rise by at most 1 per rank (Lemma 5).
        m: all relevant items, in the same unit (Zhu's pi): what the curve has not found counts 0. None for the last h.
        between: as above.

    Returns:
        0-d float64; NaN where m is 0.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals :func:`torch_ap.functional.binary_average_precision` of the ranking, where h is given at every rank or at
    every tie group.

    Source: Zhu (2004), Lemma 4 ("line") and example 3 ("step").

    Example:
        >>> import torch
        >>> from torch_ap.functional import average_precision_from_hit_curve
        >>> average_precision_from_hit_curve(torch.tensor([1, 2, 2, 3, 3, 3, 3, 3]))
        tensor(0.9167, dtype=torch.float64)
        >>> t, h = torch.tensor([0.05, 1.0]), torch.tensor([0.05, 0.05])
        >>> average_precision_from_hit_curve(h, t, between="line")
        tensor(1., dtype=torch.float64)
    """
    checks.one_of("between", between, ("step", "line"))
    tensors.numbers("hits", hits)
    if t is not None:
        tensors.numbers("t", t)
        tensors.paired_lengths(hits=hits, t=t)
    h = segments.as_float64(hits.detach())
    depth = (
        torch.arange(1, len(h) + 1, device=h.device, dtype=h.dtype) if t is None else segments.as_float64(t.detach())
    )
    floats = (x.dtype for x in (hits, depth if t is None else t) if x.is_floating_point())
    slack = _EPSILONS * max((torch.finfo(dtype).eps for dtype in floats), default=0.0)
    _check_hit_curve(h, depth, slack)
    total = h[-1]
    if m is not None:
        checks.not_negative("m", m)
        if m < float(total) * (1 - slack):
            raise ValueError(f"`m` must be at least the last of `hits`, got m={m} and {float(total)}")
        total = torch.full_like(total, float(m))
    if between == "line":
        start = h.new_zeros(1)
        return area_of_precision(torch.cat([start, depth]), torch.cat([start, h]), total)
    rise = torch.diff(h, prepend=h.new_zeros(1))
    return (rise * h / depth).sum() / total


def average_precision_from_precision_recall(
    precision: Tensor, recall: Tensor, *, interpolation: PointsInterpolation = None
) -> Tensor:
    """Average precision of a precision-recall curve that is given as points, from a file or another package.

    The sum of precision times the gain in recall; where several points have one recall, the highest precision counts,
    which is that of the threshold that first reaches it. Recall that no point reaches counts 0. Points at recall 0, as
    the (1, 0) in which curves end by convention, count for the trapezoid alone.

    Args:
        precision: (T,) numbers in [0, 1]; NaN where the recall is 0 and nothing retrieved.
        recall: (T,) numbers in [0, 1], ascending or descending, equal neighbours allowed.
        interpolation: None for that sum; "all-points", "11-point", "11-point-arange", "101-point" or a 1-D tensor of
            recall levels for the highest precision at that recall or beyond, and what
            :func:`torch_ap.functional.binary_average_precision` makes of it ("11-point-arange" of float64
            recall only: in float32 its levels are those of "11-point");
            "trapezoid" for the area under straight lines between the points as they are given, from recall 0 at the
            precision of the first.

    Returns:
        0-d float64.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals :func:`torch_ap.functional.binary_average_precision`, and ``sklearn.metrics.average_precision_score``, of the
    ranking whose :func:`torch_ap.functional.precision_recall_curve` is given; "trapezoid"
    ``sklearn.metrics.auc(recall, precision)`` of points from recall 0 on.

    Source: Zhu (2004), Definition 1 and Lemma 4.

    Example:
        >>> import torch
        >>> from torch_ap.functional import average_precision_from_precision_recall
        >>> precision, recall = torch.tensor([1.0, 1.0, 0.75, 0.5]), torch.tensor([0.25, 0.5, 0.75, 1.0])
        >>> average_precision_from_precision_recall(precision, recall)
        tensor(0.8125, dtype=torch.float64)
    """
    for name, value in (("precision", precision), ("recall", recall)):
        tensors.numbers(name, value)
    tensors.paired_lengths(precision=precision, recall=recall)
    if isinstance(interpolation, Tensor):
        tensors.recall_levels("interpolation", interpolation)
    else:
        checks.one_of(
            "interpolation", interpolation, allowed(PointsInterpolation), or_else="a 1-D tensor of recall levels"
        )
    p, r = _ascending_points(precision, recall)
    if isinstance(interpolation, str) and interpolation == "trapezoid":
        return torch.trapezoid(p, r) + (p[:1] * r[:1]).sum()
    return _area_of_points(p[r > 0], r[r > 0], recall.dtype, interpolation)


def area_of_precision(t: Tensor, hits: Tensor, m: Tensor) -> Tensor:
    """The integral of p dr along straight lines between the points of a hit curve, from (0, 0): 0-d float64.

    On a line h = a + b t it is (b / m) (a log(t1 / t0) + b (t1 - t0)), and a = 0 where t0 = 0.
    """
    run, rise = t.diff(), hits.diff()
    start, slope = t[:-1], rise / run
    below = hits[:-1] - slope * start
    logs = torch.where(start > 0, torch.log1p(run / start), 0)
    return (slope * (torch.where(start > 0, below, 0) * logs + rise)).sum() / m


def _check_hit_curve(h: Tensor, t: Tensor, slack: float) -> None:
    """A curve that starts at (0, 0), never falls, and rises by at most 1 per rank."""
    run, rise = (torch.diff(x, prepend=x.new_zeros(1)) for x in (t, h))
    for name, bad, rule in (
        ("t", ~(run > 0), "ascend from above 0"),
        ("hits", ~(rise >= 0), "not be negative and not decrease"),
        ("hits", ~(rise <= run + slack * t), "rise by at most 1 per rank"),
    ):
        if bool(bad.any()):
            place = int(bad.nonzero()[0])
            value = float((t if name == "t" else h)[place])
            raise ValueError(f"`{name}` must {rule}; got {value:g} at index {place}")


def _ascending_points(precision: Tensor, recall: Tensor) -> tuple[Tensor, Tensor]:
    """Checked points by ascending recall, float64, without those at which nothing is retrieved."""
    p, r = segments.as_float64(precision.detach()), segments.as_float64(recall.detach())
    nothing = torch.isnan(p) & (r == 0)
    for name, value in (("precision", p), ("recall", r)):
        bad = ~((value >= 0) & (value <= 1)) & ~nothing
        if bool(bad.any()):
            place = int(bad.nonzero()[0])
            raise ValueError(f"`{name}` must lie in [0, 1]; got {float(value[place]):g} at index {place}")
    p, r = p[~nothing], r[~nothing]
    steps = r.diff()
    if bool((steps < 0).any()):
        if bool((steps > 0).any()):
            raise ValueError(f"`recall` must ascend or descend; it does both, at index {int((steps > 0).nonzero()[0])}")
        p, r = p.flip(0), r.flip(0)
    return p, r


def _area_of_points(p: Tensor, r: Tensor, dtype: torch.dtype, how: Any) -> Tensor:
    """The step sum, or one of the areas under interpolated precision."""
    r, group = torch.unique_consecutive(r, return_inverse=True)
    p, whole = torch.zeros_like(r).scatter_reduce_(0, group, p, "amax"), torch.tensor([0, len(r)], device=r.device)
    if how is None or (isinstance(how, str) and how == "all-points"):
        height = p if how is None else segments.maximum_from_right(p, whole)
        return (torch.diff(r, prepend=r.new_zeros(1)) * height).sum()
    levels = how.to(r.device) if isinstance(how, Tensor) else interpolation.levels_of(how, r.device)
    # levels are rounded as the recall is, so that a recall of 7 / 10 reaches the level .7 in float32 too
    levels = levels.to(dtype) if dtype.is_floating_point else levels
    return interpolation.highest_from(p, r, segments.as_float64(levels), whole)[0].mean()
