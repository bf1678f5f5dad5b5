"""Values per item, where items must be told apart: for the covariance of rankings of the same items."""

import torch
from torch import Tensor

from torch_ap.core import hit_curve, segments
from torch_ap.core.batch import Batch, counted
from torch_ap.core.hit_curve import HitCurve
from torch_ap.inference import influence
from torch_ap.inference.item_values import ItemValues


def spread(values: ItemValues, scores: Tensor, relevant: Tensor) -> Tensor:
    """The value of each item of one ranking: (N,) of the dtype of the values.

    Args:
        values: of the curve of these items.
        scores: (N,) as the curve was made from.
        relevant: (N,) bool.
    """
    assert values.curve.score is not None
    ascending = _wide(values.curve.score).flip(0)
    entry = len(ascending) - torch.searchsorted(ascending, _wide(scores).contiguous(), right=True)
    of_misses = torch.cat([values.misses, values.misses_below])[entry]
    of_hits = torch.cat([values.hits, values.hits_unseen])[entry]
    return torch.where(relevant, of_hits, of_misses)


def centred(values: Tensor, relevant: Tensor) -> Tensor:
    """Each item's share of the standard error: hits and misses each centred and scaled.

    (v - mean) / sqrt(m (m - 1)) for hits, the same with q for misses, so that the squares add up to
    var(hits) / m + var(misses) / q. NaN with fewer than two of either.
    """
    out = torch.empty_like(values)
    for kind in (relevant, ~relevant):
        some = values[kind]
        scale = (len(some) * (len(some) - 1)) ** 0.5 or float("nan")
        out[kind] = (some - some.mean()) / scale
    return out


def contributions(admitted: Batch, curve: HitCurve, design: str, *, ignoring: bool, weights: Tensor) -> Tensor:
    """What each item contributes to a weighted sum of the rankings' APs; the squares add up to its variance.

    Args:
        admitted: (N, C) scores.
        curve: its C rankings.
        design: "iid" or "stratified".
        ignoring: whether single items or scores may be marked as ignored.
        weights: (C,) weight of each ranking; those of weight 0 are passed over.

    Returns:
        (N,) float64.
    """
    scores, target = admitted.scores, admitted.target
    out = torch.zeros(len(scores), dtype=weights.dtype, device=scores.device)
    singles = hit_curve.split(curve)
    for column in weights.nonzero().squeeze(1).tolist():
        flags, kept = column_of(target, column, ignoring)
        share = of_one(singles[column], scores[:, column][kept], flags[kept], design)
        out[kept] += weights[column] * share
    return out


def column_of(target: Tensor, column: int, ignoring: bool) -> tuple[Tensor, Tensor | slice]:
    """Which items are hits of a column's ranking: (N,) bool, and which items it ranks."""
    flags = target == column if target.ndim == 1 else target[:, column] == 1
    if not ignoring:
        return flags, slice(None)
    return flags, counted(target if target.ndim == 1 else target[:, column])


def of_one(curve: HitCurve, scores: Tensor, relevant: Tensor, design: str) -> Tensor:
    """Each item's contribution to the AP of one ranking: (N,) float64; the squares add up to its variance."""
    share = centred(spread(influence.influence(curve), scores, relevant), relevant)
    if design == "iid":
        n, m = segments.real(curve.n), segments.real(curve.m)
        share = share + (segments.real(relevant) - m / n) * influence.prevalence_slope(curve) / n
    return share


def _wide(scores: Tensor) -> Tensor:
    """Scores in a dtype that can be searched."""
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
