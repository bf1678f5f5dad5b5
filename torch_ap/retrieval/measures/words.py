"""Descriptions of measures in words, with every setting that changes the value."""

from typing import Any

from torch_ap.core.base.messages import short_repr
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ties import tie_rule

_TREC_ORDERS = {
    "trec10": "Items with equal scores are in descending order of their names, as in trec_eval 10.",
    "trec9": "Items with equal scores in single precision are in descending order of their names, as in trec_eval 9.",
}
_AVERAGES = {
    "macro": "The unweighted mean over {}, each with a ranking of its own.",
    "weighted": "The mean over {}, each weighted by its positives.",
    "micro": "One ranking of all scores of all {}.",
    "none": "The metric returns one value for each of the {}; the headline is their unweighted mean.",
}
_AGGREGATIONS = {
    "mean": "The mean over queries of",
    "median": "The median over queries of",
    "min": "The lowest value over queries of",
    "max": "The highest value over queries of",
    "gm": "The geometric mean over queries, with values below 0.00001 raised to it, of",
}


def describe_over_classes(convention: Convention, average: str | None, unit: str) -> str:
    """Return the description of the average precision of one ranking, or of classes or labels.

    Args:
        convention: settings of AP.
        average: average over the rankings.
        unit: name of the rankings, in the plural; "" for a single ranking.
    """
    mean = f" {_AVERAGES[average or 'none'].format(unit)}" if unit else ""
    description = convention.describe()
    text = f"{description[0].upper()}{description[1:]}.{mean} {tie_rule(convention.ties or 'grouped').sentence}"
    return text.replace("relevant items", "positives").replace("relevant item", "positive")


def describe_over_queries(measure: Any, aggregation: Any, ties: str | None = None) -> str:
    """Return the description of a measure over queries; ``ties`` is the order of trec_eval for tied items, if any."""
    over = f"`{short_repr(aggregation)[1:-1]}` over queries of" if callable(aggregation) else _AGGREGATIONS[aggregation]
    rule = getattr(measure, "ties", None)
    order = _TREC_ORDERS[ties] if ties else tie_rule(rule).sentence if rule else ""
    return f"{over} {measure.describe()}. {order}".rstrip()
