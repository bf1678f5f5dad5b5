"""Which of two hit curves lies above the other, and where they cross."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from torch_ap.curve import shape
from torch_ap.evaluation.average_precision import curve_of_one
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


class HitCurveComparison(NamedTuple):
    """Two hit curves of the same items.

    Attributes:
        above: "a" or "b" where that curve is nowhere below the other and somewhere above it, "equal" where they are
            the same, "neither" where they cross.
        crossings: (X,) float64 depths t* at which the lead changes, ascending; where the curves run together first, the
            depth at which they part.
        t: (K,) float64 depths at which either curve bends, from 0 to n.
        difference: (K,) float64 h_A(t) - h_B(t), a straight line in between.
    """

    above: Literal["a", "b", "equal", "neither"]
    crossings: Tensor
    t: Tensor
    difference: Tensor


def compare_hit_curves(
    preds_a: Tensor, preds_b: Tensor, target: Tensor, *, fraction: bool = False
) -> HitCurveComparison:
    """Whether one system's hit curve lies above another's everywhere, and where the two cross.

    A system whose curve lies above finds at least as many hits at every depth, so that every measure at every cut, and
    AP, are at least as high. Where curves cross, the measures may disagree. It says nothing of chance: for that see
    :func:`torch_ap.inference.compare_rankings`.

    Args:
        preds_a: (N, ...) scores of system A, no NaN. Tied items share their places evenly.
        preds_b: scores of system B of the same items; the scales need not be alike.
        target: (N, ...) integers or bool, 0 or 1.
        fraction: whether depths and hits are fractions of n, as in Zhu's paper, instead of numbers of items.

    Returns:
        :class:`HitCurveComparison`. Which curve leads is decided in whole numbers, without rounding.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Source: Zhu (2004), section 1 and Figure 2.

    Example:
        >>> import torch
        >>> from torch_ap.functional import compare_hit_curves
        >>> a, b = torch.tensor([6.0, 5, 4, 3, 2, 1]), torch.tensor([4.0, 6, 5, 3, 2, 1])
        >>> compare_hit_curves(a, b, torch.tensor([1, 0, 1, 0, 0, 0])).above
        'a'
        >>> compare_hit_curves(a, b, torch.tensor([1, 1, 1, 0, 0, 1])).above
        'equal'
        >>> found = compare_hit_curves(a, torch.tensor([4.0, 6, 3, 2, 1, 5]), torch.tensor([1, 0, 0, 0, 0, 1]))
        >>> found.above, found.crossings
        ('neither', tensor([2.], dtype=torch.float64))
    """
    a, b = _curve("preds_a", preds_a, target), _curve("preds_b", preds_b, target)
    gap = shape.gap(a, b)
    leads = [bool((gap.sign > 0).any()), bool((gap.sign < 0).any())]
    above: Literal["a", "b", "equal", "neither"]
    above = "neither" if all(leads) else "equal" if not any(leads) else "a" if leads[0] else "b"
    unit = segments.as_float64(a.n) if fraction else torch.ones(1, dtype=torch.float64, device=a.n.device)
    return HitCurveComparison(above, shape.crossings(gap) / unit, segments.as_float64(gap.t) / unit, gap.value / unit)


def _curve(name: str, preds: Tensor, target: Tensor) -> HitCurve:
    """The curve of one system; errors name it."""
    try:
        return curve_of_one(preds, target)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`preds`", f"`{name}`")) from None
