"""What a number means, in words: every choice that changes it."""

from typing import Any

from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.measures import AtRank, FirstHit, PrecisionAtRecall, RPrecision
from torch_ap.curve.roc import AUROC
from torch_ap.rules.messages import shown

_TIES = {
    "grouped": "Items with equal scores enter together.",
    "expected": "Equal scores count as the mean over all their orders.",
    "optimistic": "Of equal scores the relevant items come first.",
    "pessimistic": "Of equal scores the relevant items come last.",
    "trec10": "Of equal scores the item whose name is greater comes first, as in trec_eval 10.",
    "trec9": "Of scores equal in single precision the item whose name is greater comes first, as in trec_eval 9.",
}
_DENOMINATORS = {
    "min": "the smaller of {k} and the number of relevant items",
    "relevant": "the number of all relevant items",
    "found": "the number of relevant items found there",
}
_AT_LEVELS = "the mean over {} of the highest precision at that recall or beyond"
_INTERPOLATIONS = {
    "11-point": _AT_LEVELS.format("the recall levels 0, 0.1, ..., 1"),
    "11-point-arange": _AT_LEVELS.format("the recall levels 0, 0.1, ..., 1 (those of NumPy's arange)"),
    "11-point-trec9": _AT_LEVELS.format("the recall levels 0, 0.1, ..., 1 as in trec_eval 9"),
    "11-point-trec10": _AT_LEVELS.format("the recall levels 0, 0.1, ..., 1 as in trec_eval 10"),
    "40-point": _AT_LEVELS.format("the recall levels 1/40, 2/40, ..., 1, as in KITTI"),
    "nuscenes": "the mean over the recall levels 0.11, 0.12, ..., 1 of the precision on straight lines between the "
    "points of the curve, less 0.1 and divided by 0.9, as in nuScenes",
    "101-point": _AT_LEVELS.format("the recall levels 0, 0.01, ..., 1, as in COCO"),
    "all-points": "the area under the interpolated precision-recall curve, as in VOC from 2010 on",
    "trapezoid": "the area under straight lines between the points of the precision-recall curve",
}
_AVERAGES = {
    "macro": "The unweighted mean over {}, each with a ranking of its own.",
    "weighted": "The mean over {}, each weighted by its positives.",
    "micro": "One ranking of all scores of all {}.",
    "none": "The metric gives one value for each of the {}; the headline is their unweighted mean.",
}
_AGGREGATIONS = {
    "mean": "The mean over queries of",
    "median": "The median over queries of",
    "min": "The lowest value over queries of",
    "max": "The highest value over queries of",
    "gm": "The geometric mean over queries, with values below 0.00001 raised to it, of",
}


def of_classes(convention: Convention, average: str | None, unit: str) -> str:
    """Average precision of one ranking, or of classes or labels.

    Args:
        convention: which AP.
        average: over the rankings.
        unit: what each is of, in the plural; "" for one.
    """
    mean = f" {_AVERAGES[average or 'none'].format(unit)}" if unit else ""
    said = f"{_capital(_average_precision(convention))}.{mean} {_TIES[convention.ties or 'grouped']}"
    return said.replace("relevant items", "positives").replace("relevant item", "positive")


def of_queries(measure: Any, aggregation: Any, ties: str | None = None) -> str:
    """A measure over queries; ``ties`` where an order of the items resolves them, which the measure does not see."""
    over = _AGGREGATIONS.get(aggregation) if isinstance(aggregation, str) else None
    over = over or f"`{shown(aggregation)[1:-1]}` over queries of"
    said = _TIES.get(ties or getattr(measure, "ties", None) or "", "")
    return f"{over} {_of_query(measure)}. {said}".rstrip()


def name_of(measure: Any, mean: str = "") -> str:
    """What tables call it."""
    k = getattr(measure, "top_k", None)
    at = "" if k is None else "@R" if k == "relevant" else f"@{k}"
    if isinstance(measure, Convention):
        return f"{mean}AP{at}"
    if isinstance(measure, FirstHit):
        return f"{'MRR' if measure.what == 'reciprocal_rank' else 'hit rate'}{at}"
    if isinstance(measure, NormalizedDCG):
        return f"nDCG{at}"
    if isinstance(measure, AUROC):
        return f"AUROC{at}"
    if isinstance(measure, AtRank):
        names = {"f_beta": f"F{measure.beta:g}", "fall_out": "fall-out"}
        return f"{names.get(measure.ratio, measure.ratio)}{at}"
    return "R-precision" if isinstance(measure, RPrecision) else type(measure).__name__


def _average_precision(convention: Convention) -> str:
    levels, k = convention.interpolation, str(convention.top_k)
    if isinstance(levels, Tensor):
        return f"interpolated average precision: {_AT_LEVELS.format(f'{len(levels)} recall levels')}"
    if levels is not None:
        return f"average precision, interpolated: {_INTERPOLATIONS[levels]}"
    if convention.top_k is None:
        return "average precision: the mean, over all relevant items, of the precision where each is found"
    if k == "relevant":
        k, at = "R", "R, the number of relevant items"
        divisor = _DENOMINATORS["found" if convention.denominator == "found" else "relevant"]
    else:
        at, divisor = k, _DENOMINATORS[convention.denominator].format(k=k)
    total = f"the sum of the precision where each relevant item of the top {k} is found"
    return f"average precision at {at}: {total}, divided by {divisor}"


def _of_query(measure: Any) -> str:
    k = getattr(measure, "top_k", None)
    top = "all items" if k is None else "as many items as are relevant" if k == "relevant" else f"the top {k}"
    if isinstance(measure, Convention):
        return _average_precision(measure)
    if isinstance(measure, NormalizedDCG):
        gain = "the grade of each item" if measure.gains == "linear" else "2^grade - 1 of each item"
        return f"nDCG, the sum of {gain} in {top} over log2(rank + 1), as a share of that of the ideal order"
    if isinstance(measure, AUROC):
        part = "" if measure.max_fpr is None else f" up to a fall-out of {measure.max_fpr:g}"
        return f"the area under the ROC curve{part}, of {top}"
    if isinstance(measure, RPrecision):
        return "R-precision, the precision at as many items as are relevant"
    if isinstance(measure, FirstHit):
        first = "the reciprocal rank of the first relevant item"
        return f"{first}, in {top}" if measure.what == "reciprocal_rank" else f"whether a relevant item is in {top}"
    if isinstance(measure, PrecisionAtRecall):
        return f"the highest precision at recall {measure.level:g} or beyond, as in trec_eval {measure.version}"
    if isinstance(measure, AtRank):
        adaptive = ", or of all items of a query that has fewer" if measure.adaptive_k and k is not None else ""
        what = {
            "precision": "precision, the share of relevant items in",
            "recall": "recall, the share of the relevant items that are in",
            "f_beta": f"F with beta = {measure.beta:g}, of precision and recall in",
            "fall_out": "fall-out, the share of the items not relevant that are in",
        }[measure.ratio]
        return f"{what} {top}{adaptive}"
    return f"{type(measure).__name__}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
