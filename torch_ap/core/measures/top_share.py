"""Measures of the top of a ranking, cut at a share of the total weight: precision, recall and AP.

They are the measures at rank k for items with weights, where a rank has no meaning. The cut c is the share k / n of the
total weight. A tie group that straddles it enters with the part of its weight above it, and with the same part of its
hits. For weights of 1 they equal the measures at rank k with ties "grouped", or for AP "expected".
"""

from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.measures.ties import DENOMINATORS, harmonic_difference
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve

_ROUNDING = 1e-12  # relative error of sums of weights: a recall equal to the level must reach it


def precision_in_top_share(curve: HitCurve, share: float) -> Tensor:
    """Return the weight of the hits above the cut divided by the weight of the cut: (S,) float64."""
    precision: Tensor = curve.total(_hits_in_top(curve, share)[0]) / (share * segments.as_float64(curve.n))
    return precision


def recall_in_top_share(curve: HitCurve, share: float) -> Tensor:
    """Return the weight of the hits above the cut divided by the weight of all hits: (S,) float64."""
    recall: Tensor = curve.total(_hits_in_top(curve, share)[0]) / segments.as_float64(curve.m)
    return recall


def average_precision_in_top_share(
    curve: HitCurve, share: float, denominator: str = "min", ties: str = "grouped"
) -> Tensor:
    """Return AP at the cut, the sum over the hits above the cut of their precision, divided by ``denominator``.

    Args:
        curve: S rankings, weighted or not, with a threshold per tie group.
        share: the cut as a share of the total weight, in (0, 1].
        denominator: "min" for the smaller of the cut and the weight of all hits, "relevant" for the weight of all
            hits, "found" for the weight of the hits above the cut (0 / 0 counts as 0).
        ties: "grouped", or "expected" for the mean over the orders of tied items without weights. A cut between two
            ranks then counts the part of the next rank.

    Returns:
        (S,) float64; NaN without hits.
    """
    checks.one_of("denominator", denominator, DENOMINATORS)
    hits, places = _hits_in_top(curve, share)
    h, t = segments.as_float64(curve.hits_above) + hits, segments.as_float64(curve.items_above) + places
    sums = torch.where(hits > 0, hits * (h / t), 0) if ties == "grouped" else _expected_sums(curve, places)
    total, m = curve.total(sums), segments.as_float64(curve.m)
    if denominator == "found":
        divisor = curve.total(hits)
        return torch.where(m > 0, torch.where(divisor > 0, total / divisor, 0), torch.nan)
    divisor = torch.minimum(m, share * segments.as_float64(curve.n)) if denominator == "min" else m
    return torch.where(m > 0, total / divisor, torch.nan)


def precision_at_recall(curve: HitCurve, levels: Tensor) -> Tensor:
    """Return precision where recall first reaches each level, with counts on straight lines inside tie groups.

    At levels below the recall of the first tie group, it is the precision of this group.

    Args:
        curve: S rankings, weighted or not, with equal numbers of entries and at least one hit.
        levels: (L,) in [0, 1].

    Returns:
        (S, L) float64; 0 at levels that the ranking does not reach.
    """
    hits, items, h, t = (x.reshape(len(curve.m), -1) for x in curve.float_counts)
    wanted = segments.as_float64(curve.m)[:, None] * segments.as_float64(levels)
    entry, first, is_reached = entries_at_recall(curve, levels)
    hits, items, h, t = (x.gather(1, entry) for x in (hits, items, h, t))
    part = torch.where(entry == first, 1.0, ((wanted - h) / hits).clamp(0, 1))
    precision = (h + part * hits) / (t + part * items)
    return torch.where(is_reached, precision, 0)


def entries_at_recall(curve: HitCurve, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return where recall first reaches each level, up to the rounding of the levels in their dtype.

    Args:
        curve: as for :func:`precision_at_recall`.
        levels: (L,) in [0, 1].

    Returns:
        (S, L) entries of the rankings, (S, 1) first entry with hits, and (S, L) whether a level is reached.
    """
    hits, _, h, _ = (x.reshape(len(curve.m), -1) for x in curve.float_counts)
    end, rounding = h + hits, max(_ROUNDING, torch.finfo(levels.dtype).eps)
    reached = segments.as_float64(curve.m)[:, None] * segments.as_float64(levels) * (1 - rounding)
    first = (hits > 0).to(torch.int8).argmax(1, keepdim=True)
    entry = torch.searchsorted(end, reached.contiguous()).clamp(max=end.shape[1] - 1).maximum(first)
    return entry, first, reached <= end[:, -1:]


def _hits_in_top(curve: HitCurve, share: float) -> tuple[Tensor, Tensor]:
    """Return the weight of the hits and of the items of each tie group above the cut, (E,) float64 each."""
    hits, items, above, n = (segments.as_float64(x) for x in (curve.hits, curve.items, curve.items_above, curve.n))
    cut: Any = segments.each_entry(share * n, curve.offsets)
    places = torch.minimum(items, (cut - above).clamp(min=0))
    return torch.where(items > 0, hits * (places / items), 0), places


def _expected_sums(curve: HitCurve, places: Tensor) -> Tensor:
    """Return the mean over the orders of tied items of the sum of precisions at the hits above the cut: (E,)."""
    hits, items, h, t = curve.float_counts
    whole = places.floor()
    steps = harmonic_difference(t, whole) + (places - whole) / (t + whole + 1)  # the sum of 1 / rank
    chance = (hits - 1).clamp(min=0) / (items - 1).clamp(min=1)
    sums: Tensor = hits / items.clamp(min=1) * ((h + 1 - chance * (t + 1)) * steps + chance * places)
    return sums
