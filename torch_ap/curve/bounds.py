"""What a measure can be where the order of items is known between bins of scores, and not inside them.

A bin of g items with r hits has t0 items and h0 hits above it. What it adds to the sum of precisions at the hits lies
between these, whatever the order inside it:

| | hits first, or last | weights, of which R are the hits' and W the others' |
|---|---|---|
| least | sum over i = 1 .. r of (h0 + i) / (t0 + g - r + i) | R - (t0 + W - h0) log(1 + R / (t0 + W)) |
| most, no two scores equal | sum over i = 1 .. r of (h0 + i) / (t0 + i) | |
| most, equal scores "grouped" | r (h0 + r) / (t0 + r) | R (h0 + R) / (t0 + R) |

The least and the second line are sharp for scores without ties (McSherry & Najork 2008). Grouped AP of tied scores may
lie above the second line: three hits that tie count as the last of them. A bin of one score is a tie group, and exact.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.average_precision import average_precision, places_within
from torch_ap.curve.convention import Convention
from torch_ap.curve.measures import AtRank, FirstHit, RPrecision
from torch_ap.curve.top_k import at_entries, rank_of
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


@dataclass(frozen=True, eq=False)
class Bounds:
    """Of each ranking, (S,) float64 each, or of their average, 0-d; NaN where nothing is relevant.

    Attributes:
        low: the least that it can be.
        estimate: what it is on average over all orders inside the bins; with weights, where the bins are tied.
        high: the most that it can be.
    """

    low: Tensor
    estimate: Tensor
    high: Tensor


def bounds(measure: Convention | AtRank | FirstHit | RPrecision, curve: HitCurve, mixed: Tensor) -> Bounds:
    """The bounds of a measure of each ranking of bins, (S,).

    Args:
        measure: AP without ``interpolation`` and by another ``denominator`` than "found", or a measure at a rank or of
            the first hit.
        curve: S rankings whose entries are bins.
        mixed: (E,) bool, whether a bin holds different scores.

    Raises:
        ValueError: for another average precision, or where weights have no meaning.
    """
    if isinstance(measure, Convention):
        return of_rankings(measure, curve, mixed)
    if curve.weighted:
        raise ValueError("weights have a meaning for average precision alone: a rank has no weight")
    if isinstance(measure, FirstHit):
        open_ = curve.hits_above == 0
    else:
        k = getattr(measure, "top_k", None)
        rank = k if isinstance(k, int) else segments.as_float64(curve.m)[curve.segment]
        open_ = (curve.items_above < rank) & (curve.items_above + curve.items > rank)
    known = segments.total((open_ & mixed).to(torch.int64), curve.offsets) == 0
    exact = measure(curve)
    # a group that enters at once may end below the place of the first hit in any order
    least = "grouped" if isinstance(measure, FirstHit) and measure.ties == "grouped" else "pessimistic"
    each = [replace(measure, ties=ties)(curve) for ties in (least, "expected", "optimistic")]
    if isinstance(measure, AtRank) and measure.ratio == "fall_out":  # hits that come first keep misses out
        each.reverse()
    return Bounds(*(torch.where(known, exact, x) for x in each))


def of_rankings(convention: Convention, curve: HitCurve, mixed: Tensor | None = None) -> Bounds:
    """The bounds of the AP of each ranking, (S,).

    Args:
        convention: AP without ``interpolation`` and by another ``denominator`` than "found".
        curve: S rankings whose entries are bins.
        mixed: (E,) bool, whether a bin holds different scores; None for all of them.

    Raises:
        ValueError: for another average precision, or where weights have no meaning.
    """
    if not convention.has_bounds:
        raise ValueError("bins bound average precision without `interpolation` and with another divisor than 'found'")
    if curve.weighted and not convention.takes_weights:
        raise ValueError("weights have a meaning only without a rank k and with ties 'grouped'")
    ties, m = convention.ties or "grouped", segments.as_float64(curve.m)
    rank = rank_of(convention.top_k, curve)
    k = at_entries(rank, curve.offsets)
    exact, grouped = _sums(curve, ties, k), ties == "grouped"
    if curve.weighted:
        low, estimate, high = _least_of_weights(curve), exact, _most_of_groups(curve, None)
    else:
        low, estimate = _sums(curve, "pessimistic", k), _sums(curve, "expected", k)
        high = _most_of_groups(curve, k) if grouped else _sums(curve, "optimistic", k)
    most = m if rank is None or convention.denominator == "relevant" else m.clamp(max=rank)
    sums = (x if mixed is None else torch.where(mixed, x, exact) for x in (low, estimate, high))
    return Bounds(*(torch.where(m > 0, segments.total(x, curve.offsets) / most, torch.nan) for x in sums))


def _sums(curve: HitCurve, ties: str, k: Any) -> Tensor:
    """(E,) what each bin adds to the sum of precisions, as the AP of a ranking of its own with one relevant item."""
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
    hits, items, hits_above, above = (
        segments.as_float64(x) for x in (curve.hits, curve.items, curve.hits_above, curve.items_above)
    )
    if k is not None:
        hits = torch.minimum(hits, places_within(items, above, k))
    return torch.where(hits > 0, hits * (hits_above + hits) / (above + hits), 0)


def _least_of_weights(curve: HitCurve) -> Tensor:
    hits, above = curve.hits, curve.items_above + (curve.items - curve.hits)
    return torch.where(above > 0, hits - (above - curve.hits_above) * torch.log1p(hits / above), hits)
