"""Bounds of average precision if the order of items inside bins of scores is unknown.

A bin of g items with r hits has t0 items and h0 hits above it. For every order inside the bin, its part of the sum of
precisions at the hits is within these bounds. In a weighted bin, the hits weigh R and the other items W:

| bound | without weights | with weights |
|---|---|---|
| lower | sum over i = 1 .. r of (h0 + i) / (t0 + g - r + i) | R - (t0 + W - h0) log(1 + R / (t0 + W)) |
| upper, distinct scores | sum over i = 1 .. r of (h0 + i) / (t0 + i) | |
| upper, equal scores "grouped" | r (h0 + r) / (t0 + r) | R (h0 + R) / (t0 + R) |

The first two lines are sharp for scores without ties (McSherry & Najork 2008). Grouped AP of tied scores can exceed the
second line, because each of three tied hits counts as the last of them. A bin with one distinct score is a tie group,
whose value is exact.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.measures.average_precision import average_precision, places_within
from torch_ap.core.measures.measure import Bounds
from torch_ap.core.measures.ties import cut_rank, divisor, rank_per_entry
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve


def ranking_bounds(convention: Any, curve: HitCurve, mixed: Tensor | None = None) -> Bounds:
    """Return the bounds of the AP of each ranking, (S,).

    Args:
        convention: :class:`torch_ap.Convention` without ``interpolation`` and with another ``denominator`` than
            "found".
        curve: S rankings whose entries are bins.
        mixed: (E,) bool, whether a bin can contain distinct scores; None if every bin can.

    Raises:
        ValueError: for another average precision, or weights without a meaning.
    """
    if not convention.has_bounds:
        raise ValueError("bounds of bins require `interpolation=None` and a `denominator` other than 'found'")
    if curve.weighted and not convention.takes_weights:
        raise ValueError("weights require `top_k=None` and `ties='grouped'`")
    ties, m = convention.rule.name, segments.as_float64(curve.m)
    rank = cut_rank(convention.top_k, curve)
    k = rank_per_entry(rank, curve.offsets)
    exact = _sums(curve, ties, k)
    if curve.weighted:
        low, estimate, high = _least_of_weights(curve), exact, _most_of_groups(curve, None)
    else:
        low, estimate = _sums(curve, "pessimistic", k), _sums(curve, "expected", k)
        high = _most_of_groups(curve, k) if convention.rule.is_threshold else _sums(curve, "optimistic", k)
    most = divisor(convention.denominator, m, rank)
    sums = (x if mixed is None else torch.where(mixed, x, exact) for x in (low, estimate, high))
    return Bounds(*(torch.where(m > 0, segments.total(x, curve.offsets) / most, torch.nan) for x in sums))


def _sums(curve: HitCurve, ties: str, k: Any) -> Tensor:
    """Return the precision sum of each bin, (E,): the AP of the bin as a ranking with one relevant item."""
    size = len(curve.hits)
    alone = replace(
        curve,
        offsets=torch.arange(size + 1, device=curve.m.device),
        n=curve.items,
        m=torch.ones_like(curve.hits),
        single=False,
    )
    return average_precision(alone, ties=ties, top_k=k, denominator="relevant")


def _most_of_groups(curve: HitCurve, k: Any) -> Tensor:
    hits, items, hits_above, above = curve.float_counts
    if k is not None:
        hits = torch.minimum(hits, places_within(items, above, k))
    return torch.where(hits > 0, hits * (hits_above + hits) / (above + hits), 0)


def _least_of_weights(curve: HitCurve) -> Tensor:
    hits, above = curve.hits, curve.items_above + (curve.items - curve.hits)
    return torch.where(above > 0, hits - (above - curve.hits_above) * torch.log1p(hits / above), hits)
