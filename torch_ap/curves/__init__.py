"""Curves of rankings: records, functions of hit curves, and average precision from points of a curve."""

from torch_ap.core.base import untraced
from torch_ap.curves.hit_curves import (
    HitCurveComparison,
    HitCurveHull,
    HitCurvePoints,
    SurvivalPoints,
    area_under_hit_curve,
    compare_hit_curves,
    hit_curve,
    hit_curve_hull,
    survival_function,
)
from torch_ap.curves.points import (
    InterpolatedPrecision,
    PrecisionAtRecall,
    average_precision_from_hit_curve,
    average_precision_from_precision_recall,
)
from torch_ap.curves.precision_recall import PrecisionRecallCurve
from torch_ap.curves.record import Curve, PrecisionRecallGain

__all__ = [
    "Curve",
    "HitCurveComparison",
    "HitCurveHull",
    "HitCurvePoints",
    "InterpolatedPrecision",
    "PrecisionAtRecall",
    "PrecisionRecallCurve",
    "PrecisionRecallGain",
    "SurvivalPoints",
    "area_under_hit_curve",
    "average_precision_from_hit_curve",
    "average_precision_from_precision_recall",
    "compare_hit_curves",
    "hit_curve",
    "hit_curve_hull",
    "survival_function",
]

untraced.untraced_package(__name__)
