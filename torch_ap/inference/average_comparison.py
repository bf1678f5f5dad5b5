"""Two systems' averages over rankings of the same items: their contributions are subtracted item by item."""

import math

import torch

from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference.difference import Comparison, described
from torch_ap.inference.item_influence import degrees_of_freedom, shares_of
from torch_ap.inference.methods import DESIGNS, refuse_comparison
from torch_ap.inputs.classification import Batch
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks


def compare_averages(
    settings: APSettings,
    batches: tuple[Batch, Batch],
    curves: tuple[HitCurve, HitCurve],
    *,
    confidence_level: float,
    method: str,
    design: str,
) -> Comparison:
    """The difference of two macro, weighted or micro averages, with its standard error by influence functions.

    Student's t has Satterthwaite's degrees of freedom, of the system that has fewer.

    Args:
        settings: all settings; of an average.
        batches: items of system A, and the same items with the scores of system B.
        curves: their rankings.
        confidence_level: nominal coverage.
        method: "influence".
        design: "stratified" or "iid".

    Raises:
        ValueError: for another method, no average, or a convention other than plain AP.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("design", design, DESIGNS)
    checks.one_of("method", method, ("influence",))
    if settings.average in ("none", None):
        raise ValueError("`average` must not be 'none' for a comparison; compare one class or label at a time")
    refuse_comparison(settings.convention, method, None)
    values, shares, degrees = [], [], []
    for batch, curve in zip(batches, curves, strict=True):
        values.append(float(settings.value(curve, torch.float64, warn=False)))
        shares.append(shares_of(settings, batch, curve, design))
        degrees.append(float(degrees_of_freedom(settings, curve, design)))
    error = math.sqrt(float((shares[0] - shares[1]).square().sum()))
    reason = "a ranking has one hit, or one miss, and so no spread" if math.isnan(error) else ""
    if math.isnan(values[0]):
        error, reason = math.nan, "the averages are NaN"
    df = min(degrees) if error > 0 else math.inf
    return described(
        values[0],
        values[1],
        error,
        confidence_level=confidence_level,
        method=method,
        design=design,
        reason=reason,
        df=df,
    )
