"""The chance level of rankings under a convention: E(AP) or E(AP@k) where the same items stand in random order."""

import torch
from torch import Tensor

from torch_ap.core.convention import Convention
from torch_ap.core.hit_curve import HitCurve
from torch_ap.inference.random_ranking import expected_average_precision


def chance_level(curve: HitCurve, convention: Convention, seen: Tensor | None = None) -> Tensor:
    """E(AP) of each ranking: (S,) float64, NaN where nothing is relevant.

    Args:
        curve: S unweighted rankings of n items.
        convention: what AP means. Its ``ties`` have no part in it: random orders have none.
        seen: (S,) int64 relevant items among the n, where more exist that were never retrieved; None for m.

    Raises:
        ValueError: for interpolated AP or ``denominator="found"``, which have no closed form.
    """
    if convention.interpolation is not None:
        raise ValueError(f"`interpolation` has no closed form of its chance level, got {convention.interpolation!r}")
    k, denominator = convention.top_k, convention.denominator
    if k is not None and denominator == "found":
        raise ValueError("`denominator='found'` has no closed form of its chance level; use 'min' or 'relevant'")
    if seen is None:
        return expected_average_precision(curve.n, curve.m, k, denominator=denominator)
    total = expected_average_precision(curve.n.clamp(min=1), seen, k, denominator="relevant") * seen
    norm = curve.m if k is None or denominator == "relevant" else curve.m.clamp(max=k)
    return torch.where(curve.m > 0, torch.where(seen > 0, total, 0) / norm, torch.nan)
