"""The hit curve at chosen depths, and the recall and precision that follow from it."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.curve import counts
from torch_ap.curve.convention import TIES
from torch_ap.evaluation.average_precision import curve_of_one
from torch_ap.ranking import segments
from torch_ap.rules import checks, tensors
from torch_ap.rules.options import Ties


class HitCurvePoints(NamedTuple):
    """The hit curve and what follows from it, at chosen depths; p(t) = pi r(t) / t throughout (Zhu 2004, lemma 1).

    Attributes:
        t: (T,) depths: ranks, or fractions of n.
        hits: (T,) h(t): number of positives among the top t, or their fraction of n.
        recall: (T,) r(t), the fraction of all positives; NaN without positives.
        precision: (T,) p(t), h(t) / t; NaN at t = 0.
    """

    t: Tensor
    hits: Tensor
    recall: Tensor
    precision: Tensor


def hit_curve(
    preds: Tensor,
    target: Tensor,
    t: Tensor | None = None,
    *,
    fraction: bool = False,
    ties: Ties = "grouped",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> HitCurvePoints:
    r"""The hit curve h(t), recall r(t) and precision p(t) of one ranking at any depth t.

    .. math::
        r(t) = \frac{h(t)}{\pi}, \qquad p(t) = \frac{h(t)}{t}, \qquad \pi = \frac{m}{n}

    in fractions of n; in ranks r(t) = h(t) / m.

    Args:
        preds: (N, ...) floating or integer scores.
        target: (N, ...) integers or bool, 0 or 1.
        t: (T,) depths: ranks in [0, n], or fractions of n in [0, 1]. Between whole ranks h is a straight line. Default:
            every rank, 1 to n, or its fraction.
        fraction: whether t and h are fractions of n, as in Zhu's paper, instead of numbers of items.
        ties: where a tie group's hits lie inside it: "grouped" and "expected" evenly, "optimistic" first, "pessimistic"
            last.
        ignore_index: target value of items that do not count.
        validate_args: whether values are checked.

    Returns:
        t, hits, recall, precision, each (T,) float64.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Source: Zhu (2004), section 1 and eq. 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import hit_curve
        >>> points = hit_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> points.hits
        tensor([1., 1., 2., 2.], dtype=torch.float64)
        >>> points.precision
        tensor([1.0000, 0.5000, 0.6667, 0.5000], dtype=torch.float64)
    """
    checks.boolean("fraction", fraction)
    checks.one_of("ties", ties, TIES)
    curve = curve_of_one(preds, target, ignore_index=ignore_index, validate_args=validate_args)
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    depth = torch.arange(1, int(n) + 1, device=n.device, dtype=n.dtype)
    if t is not None:
        tensors.depths("t", t, 1.0 if fraction else float(n))
        depth = t.detach().to(n.device, n.dtype) * (n if fraction else 1)
    hits = counts.hits_at(curve, depth, ties=ties)
    unit = n if fraction else torch.ones_like(n)
    return HitCurvePoints(depth / unit, hits / unit, hits / m, hits / depth)
