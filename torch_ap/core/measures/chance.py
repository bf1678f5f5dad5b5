"""Chance level of rankings under a convention: E(AP) or E(AP@k) for the same labels in random order.

If ties are grouped, the groups are fixed and the labels are permuted. A group has g items, t0 items above it, and L of
its places among the first k (all g without a cut). One item is relevant with probability p1, and two with p2:

    E(AP) = (p1 sum of L^2 / (g (t0 + L)) + p2 sum of L (t0 + L (g - 1) / g) / (t0 + L)) / norm

over all groups. This is the expectation of r L / g (h0 + r L / g) / (t0 + L), with r hits in a group and h0 above it.
Groups of one item have closed sums, H(k) and k - H(k) with harmonic numbers H. If only the tie groups are available,
the sums of their places are replaced in these closed sums.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.measures.average_precision import places_within
from torch_ap.core.measures.ties import cut_rank, divisor, harmonic_difference, rank_per_entry
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.tie_groups import Ties


def expected_average_precision(
    n: Tensor, m: Tensor, k: int | Tensor | None = None, *, denominator: str = "min"
) -> Tensor:
    """Return E(AP), or E(AP@k), of random rankings, elementwise: float64, NaN if nothing is relevant.

    Args:
        n: int64 items, of any shape, each at least 1.
        m: int64 relevant items, 0 to n, of the shape of ``n``.
        k: rank of AP@k, at least 1, or float64 ranks in the shape of ``n``; None for all.
        denominator: divisor of AP@k: "min" min(k, m), or "relevant" m.

    Returns:
        float64 of the shape of ``n``, on its device.

    Equals ``random_average_precision(n, m, k).mean``. Source: Bestgen (2015).

    Example:
        >>> import torch
        >>> from torch_ap.core.measures.chance import expected_average_precision
        >>> [round(x, 4) for x in expected_average_precision(torch.tensor([8, 3000]), torch.tensor([3, 245])).tolist()]
        [0.5284, 0.084]
    """
    items, hits = segments.as_float64(n), segments.as_float64(m)
    cut = items if k is None else items.clamp(max=k)
    one = hits / items
    two = one * (hits - 1) / (items - 1).clamp(min=1)
    harmonic = harmonic_difference(torch.zeros_like(cut), cut)
    total = one * harmonic + two * (cut - harmonic)
    return torch.where(hits > 0, total / divisor(denominator, hits, k), torch.nan)


def chance_of_curve(
    curve: HitCurve, convention: Any, *, seen: Tensor | None = None, groups: Iterable[HitCurve | Ties] | None = None
) -> Tensor:
    """Return E(AP) of each ranking: (S,) float64, NaN if nothing is relevant.

    Args:
        curve: S unweighted rankings of n items.
        convention: settings of AP.
        seen: (S,) int64 relevant items among the n items, if others were never retrieved; None for m.
        groups: ties, or curves with an entry for every tie group, of the same rankings (the last rankings may be
            missing if they have no items); used if ties are grouped. Without groups, and under the other tie rules, the
            random rankings have no ties.

    Raises:
        ValueError: for interpolated AP or ``denominator="found"``, which have no closed form.
    """
    if convention.interpolation is not None:
        raise_invalid("interpolation", "has no closed form of its chance level", convention.interpolation)
    k, denominator = cut_rank(convention.top_k, curve), convention.denominator
    if k is not None and denominator == "found":
        raise ValueError("`denominator='found'` has no closed form of its chance level; use 'min' or 'relevant'")
    hits = curve.m if seen is None else seen
    if groups is not None and convention.rule.is_threshold:
        total = _total_of_groups(groups, segments.as_float64(curve.n), segments.as_float64(hits), k)
    elif seen is None:
        return expected_average_precision(curve.n, curve.m, k, denominator=denominator)
    else:
        total = expected_average_precision(curve.n.clamp(min=1), seen, k, denominator="relevant") * seen
    norm = divisor(denominator, curve.m, k)
    return torch.where(curve.m > 0, torch.where(hits > 0, total, 0) / norm, torch.nan)


def _total_of_groups(groups: Iterable[HitCurve | Ties], n: Tensor, hits: Tensor, k: Any) -> Tensor:
    """Return the expected sum of the precisions at the hits: (S,)."""
    if not len(n):
        return segments.as_float64(n)
    parts, first = [], 0
    for part in groups:
        count = len(part.offsets) - 1
        rank = k if k is None or isinstance(k, int) else k[first : first + count]
        parts.append(_sums_with_ties(part, rank) if isinstance(part, Ties) else _sums_over_groups(part, rank))
        first += count
    alone, pairs = (torch.cat([*sums, n.new_zeros(len(n) - sum(map(len, sums)))]) for sums in zip(*parts, strict=True))
    one = hits / n.clamp(min=1)
    return one * alone + one * (hits - 1) / (n - 1).clamp(min=1) * pairs


def _sums_with_ties(ties: Ties, k: Any) -> tuple[Tensor, Tensor]:
    """Return :func:`_sums_over_groups` from the tie groups alone."""
    n = segments.as_float64(ties.n)
    every = n if k is None else n.clamp(max=k)
    harmonic = harmonic_difference(torch.zeros_like(n), every)
    above = segments.as_float64(ties.items_above)
    places = segments.as_float64(ties.items)
    if k is not None:
        places = places_within(ties.items, above, rank_per_entry(k, ties.offsets))
    steps = harmonic_difference(above, places)
    alone, pairs = _sums_over_groups(ties, k)
    return (
        harmonic + (alone - segments.total(steps, ties.offsets)),
        every - harmonic + (pairs - segments.total(places - steps, ties.offsets)),
    )


def _sums_over_groups(curve: HitCurve | Ties, k: Any) -> tuple[Tensor, Tensor]:
    """Return the two sums of each ranking over the groups, with the weights p1 and p2."""
    g, above = segments.as_float64(curve.items), segments.as_float64(curve.items_above)
    places = g if k is None else places_within(g, above, rank_per_entry(k, curve.offsets))
    share, end = places / g, (above + places).clamp(min=1)
    alone = segments.total(share * places / end, curve.offsets)
    return alone, segments.total(places * (above + share * (g - 1)) / end, curve.offsets)
