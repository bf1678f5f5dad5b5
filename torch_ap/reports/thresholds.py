"""The widget with a slider over score thresholds: counts, precision, recall and F1 of each ranking, with intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.measures.counts import Counts
from torch_ap.core.ranking import segments
from torch_ap.curves import Curve
from torch_ap.detection.errors.every_threshold import ThresholdNumbers
from torch_ap.inference.groups_at_threshold import ItemGroups
from torch_ap.inference.operating_point import ThresholdCriterion
from torch_ap.reports.content import Cell, Part, Table, Widget
from torch_ap.reports.estimates import ReportOptions

Array = np.ndarray[Any, Any]

HIGHEST_F1 = "highest F1"
RULES: tuple[tuple[str, dict[str, Any]], ...] = (
    (HIGHEST_F1, {"beta": 1.0}),
    ("precision ≥ 0.9", {"precision": 0.9}),
    ("recall ≥ 0.9", {"recall": 0.9}),
)
ALL = "all"  # name of the ranking of all classes
_MOST, _FEWEST, _TOTAL = 200, 20, 15_000  # thresholds of a ranking on the page, and of all rankings
_DIGITS = 3  # of the ends of intervals, as the page shows them
# heads of the confusions of detections and of classified items, and what is counted
_OBJECT_WORDS = "object", "detected as", "objects", "objects detected as another class"
_ITEM_WORDS = "class", "highest score", "items", "items whose highest score is of another class"
_GRID, _MOST_CONFUSIONS, _LISTED = 25, 300, 20  # thresholds with confusions, cells at each, rows without scripts


@dataclass(frozen=True)
class Cuts:
    """Counts of one ranking at its thresholds, descending.

    Attributes:
        name: name of the ranking.
        score: (T,) thresholds.
        tp: (T,) positives with at least the score.
        fp: (T,) other items with at least the score.
        m: number of positives.
        n: number of items; None for detections, whose negatives cannot be counted.
        ends: (6, T) low and high ends of precision, recall and F1; None to compute them.
        groups: the items, if they are in groups; None for posterior intervals of independent items.
        is_slice: whether the ranking has the items of all classes in a slice of the images.
    """

    name: str
    score: Array
    tp: Array
    fp: Array
    m: float
    n: float | None = None
    ends: Array | None = None
    groups: ItemGroups | None = None
    is_slice: bool = False


def cuts_of_curve(curve: Curve) -> Cuts:
    """Return the counts at every score of a positive, or no counts for a prevalence without negatives."""
    ranking = curve._ranking(separable=True)
    assert ranking.score is not None
    is_defined = not bool(curve.n.isnan())
    used = slice(None if is_defined else 0)
    columns = ranking.cumulative_hits, ranking.cumulative_items
    hits, items = (segments.as_float64(x[used]).cpu().numpy() for x in columns)
    score = segments.comparable(ranking.score[used]).cpu().numpy()
    has_ends = curve.groups is not None and not ranking.weighted
    m, n = float(curve.m), float(curve.n if is_defined else curve.m)
    return Cuts(curve.name, score, hits, items - hits, m, n, groups=curve.groups if has_ends else None)


def curve_of_all(curves: Sequence[Curve]) -> Curve:
    """Return the curve of all rankings together at one threshold."""
    score = torch.cat([x.thresholds for x in curves])
    hits, items = (
        torch.cat([ends.diff(prepend=ends[:1] * 0) for ends in column])
        for column in ([x.hits for x in curves], [x.items for x in curves])
    )
    order = torch.argsort(score, descending=True)
    n, m = (torch.stack([getattr(x, name) for x in curves]).sum() for name in ("n", "m"))
    hits, items = (x[order].cumsum(0) for x in (hits, items))
    grouped = [x.groups for x in curves if x.groups is not None]
    groups = None
    if grouped:
        scores, relevant, ids = (torch.cat([getattr(x, y) for x in grouped]) for y in ("scores", "relevant", "ids"))
        groups = ItemGroups(scores, relevant, ids, grouped[0].count)
    return Curve(score[order], hits, items, n, m, m * torch.nan, name=ALL, groups=groups)


def cuts_of_detections(numbers: ThresholdNumbers, names: Sequence[str], *, is_slice: bool = False) -> list[Cuts]:
    """Return the counts of the classes, or of one threshold for all classes."""
    every = np.stack([numbers.low, numbers.high], 1).reshape(6, -1)
    grouped: Sequence[ItemGroups | None] = numbers.groups or [None] * len(names)
    rows = zip(names, numbers.offsets[:-1], numbers.offsets[1:], numbers.m, grouped, strict=True)
    return [
        Cuts(
            name,
            numbers.score[a:b],
            numbers.tp[a:b],
            numbers.fp[a:b],
            float(m),
            ends=every[:, a:b] if groups is None else None,
            groups=groups,
            is_slice=is_slice,
        )
        for name, a, b, m, groups in rows
    ]


def threshold_widget(
    systems: Mapping[str, Sequence[Cuts]],
    parts: Sequence[Part],
    options: ReportOptions,
    confusions: Callable[[float], Tensor] | None = None,
) -> Widget:
    """Return the widget.

    Args:
        systems: the rankings of each system by name, in the same order in each. The slider moves over the first system.
        parts: content without JavaScript.
        options: arguments of the report.
        confusions: returns the (K + 1, K + 1) confusion matrix at a threshold for all classes, whose ranking is the
            first and has the classes and then the slices after it; None for no confusions.
    """
    (first, *others) = systems.values()
    most = max(_FEWEST, min(_MOST, _TOTAL // max(1, len(first) * len(systems))))
    is_sampled = any(len(x.score) > most for cuts in systems.values() for x in cuts)
    rows = [
        {"name": cuts.name, "m": whole(cuts.m), "n": cuts.n and whole(cuts.n), "slice": cuts.is_slice}
        | sampled_numbers(cuts, most, options.confidence_level)
        | {"others": [sampled_numbers(other[place], most, options.confidence_level) for other in others]}
        for place, cuts in enumerate(first)
    ]
    words = _OBJECT_WORDS if first[0].n is None else _ITEM_WORDS
    sampled, table = _confusions(rows, confusions, words) if confusions is not None else ([], [])
    return Widget(
        "thresholds",
        {
            "rankings": rows,
            "confusions": sampled,
            "confusion words": words,
            "systems": list(systems) if others else [""],
            "rules": [name for name, _ in RULES],
            "level": options.level,
            "most": most if is_sampled else 0,
            "first": int(first[0].name == ALL),
        },
        [*parts, *table],
    )


def grouped_ends(groups: ItemGroups, thresholds: Array, m: float, level: float) -> Array:
    """Return the ends of the intervals of precision, recall and F1 at descending thresholds, (6, T)."""
    low, high = groups.ends(torch.from_numpy(thresholds).to(groups.scores.device), m, 1.0, level)
    ends: Array = torch.stack([low, high], 1).view(6, -1).cpu().numpy()
    return ends


def _confusions(
    rows: Sequence[Mapping[str, Any]], matrix_at: Callable[[float], Tensor], words: Sequence[str]
) -> tuple[list[Any], list[Table]]:
    """Return the most frequent class confusions at some thresholds for all classes, and a table for the best F1."""
    thresholds, best = rows[0]["t"], max(rows[0]["best"][0], 0)
    if not thresholds:
        return [], []
    places = sorted({*np.linspace(0, len(thresholds) - 1, _GRID).round().astype(int).tolist(), best})
    sampled, names, table = [], [x["name"] for x in rows[1:]], list[Table]()
    for place in places:
        matrix = matrix_at(thresholds[place])[:-1, :-1].clone().fill_diagonal_(0)
        true, detected = matrix.nonzero(as_tuple=True)
        counts = matrix[true, detected]
        order = counts.argsort(descending=True, stable=True)[:_MOST_CONFUSIONS]
        cells = [x[order].tolist() for x in (true, detected, counts)]
        sampled.append({"t": thresholds[place], "cells": cells, "kinds": len(counts), "total": int(counts.sum())})
        if place == best:
            listed: list[list[Cell]] = [[names[a], names[b], n] for a, b, n in list(zip(*cells, strict=True))[:_LISTED]]
            text = f"Class confusions at score ≥ {thresholds[place]:g}, the best F1 of all classes"
            table = [Table(list(words[:-1]), listed, summary=text)] if listed else []
    return sampled, table


def sampled_numbers(cuts: Cuts, most: int, level: float) -> dict[str, Any]:
    """Return the numbers at this many thresholds at most, with the places of the best ones; the ends are rounded."""
    finite = np.isfinite(cuts.score)
    score, tp, fp = (x[finite] for x in (cuts.score, cuts.tp, cuts.fp))
    best = _best(tp, fp, cuts.m)
    places = np.arange(len(score))
    if len(score) > most:
        evenly = np.linspace(0, len(score) - 1, most).round().astype(int)
        places = np.unique(np.append(evenly, [x for x in best if x >= 0])).astype(int)
    if cuts.ends is not None:
        ends = cuts.ends[:, finite][:, places]
    elif cuts.groups is not None:
        ends = grouped_ends(cuts.groups, score[places], cuts.m, level)
    else:
        ends = _posterior_ends(tp[places], fp[places], cuts.m, level)
    return {
        "t": [_shortest(x) for x in score[places]],
        "tp": [whole(x) for x in tp[places].tolist()],
        "fp": [whole(x) for x in fp[places].tolist()],
        "ends": ends.round(_DIGITS).tolist(),
        "best": [int(np.searchsorted(places, x)) if x >= 0 else -1 for x in best],
    }


def _best(tp: Array, fp: Array, m: float) -> list[int]:
    """Return the place of the best threshold by each rule, -1 for none."""
    counts = Counts(*(torch.from_numpy(np.asarray(x, np.float64)) for x in (tp, fp, m - tp, 0 * tp)))
    weighted = bool((tp % 1).any() or (fp % 1).any())
    return [int(ThresholdCriterion(**rule).best_index(counts, weighted=weighted)) for _, rule in RULES]


def _posterior_ends(tp: Array, fp: Array, m: float, level: float) -> Array:
    """Return the ends of the intervals of ``Curve.operating_point``: (6, T); NaN with weights."""
    from scipy.special import betaincinv

    if (tp % 1).any() or (fp % 1).any():
        return np.full((6, len(tp)), np.nan)
    tails, fn = np.array([[(1 - level) / 2], [(1 + level) / 2]]), m - tp
    share = betaincinv(tp + 0.5, fp + fn + 1, tails)
    low_high = [betaincinv(tp + 0.5, fp + 0.5, tails), betaincinv(tp + 0.5, fn + 0.5, tails), 2 * share / (1 + share)]
    with np.errstate(invalid="ignore"):
        estimates = [tp / (tp + fp), tp / m, 2 * tp / (tp + fp + m)]
    pairs = [(np.minimum(x[0], y), np.maximum(x[1], y)) for x, y in zip(low_high, estimates, strict=True)]
    return np.stack([end for pair in pairs for end in pair])


def _shortest(score: Any) -> float:
    """Return the number with the fewest digits that selects the same items in float64 and in the score's dtype."""
    for digits in range(3, 17):
        number = float(f"{score:.{digits}g}")
        if number <= score and score.dtype.type(number) == score:
            return number
    return float(score)


def whole(number: float) -> float | int:
    """Return a number as an int if it is whole, else rounded."""
    return int(number) if number == int(number) else round(number, 6)
