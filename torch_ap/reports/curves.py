"""What a report shows of curves: pictures, the same as numbers, and operating points."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from torch_ap import plot
from torch_ap.functional import Curve
from torch_ap.inference import OperatingPoint
from torch_ap.plot.given import with_kind
from torch_ap.reports.content import DASH, NAN, Cell, Picture, Section, Table
from torch_ap.reports.statement import Asked

Systems = Mapping[str, Sequence[Curve]]

_WANTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("highest F1", {"beta": 1.0}),
    ("precision ≥ 0.9", {"precision": 0.9}),
    ("recall ≥ 0.9", {"recall": 0.9}),
)
AS_NUMBERS = "The curve as numbers: the highest precision at each recall or beyond"
_MOST_FOR_A_BAND = 100_000  # items of 1,000 resamples
_ROW, _LEAST, _MOST = 0.24, 1.3, 9.0  # inches of pictures of classes
_BESIDE = 6  # names that fit inside a picture
_MOST_CURVES = 200


def of_one(systems: Systems, asked: Asked) -> list[Section]:
    """Of one ranking, or of two systems' rankings of the same items."""
    named = {name: one for name, (one,) in systems.items()}
    curve = next(iter(named.values()))
    if not float(curve.m):
        return []
    band = len(named) == 1 and not curve.hits.is_floating_point() and float(curve.n) <= _MOST_FOR_A_BAND
    level = f"{100 * asked.confidence_level:.10g}%"
    shaded = f" The shade is the {level} confidence band of interpolated precision, level by level." if band else ""
    drawn: Any = named if len(named) > 1 else curve
    pictures = [
        Picture(
            f"Precision over recall, drawn as it is integrated; the dot is the highest F1.{shaded}",
            partial(_precision_recall, drawn, band and bool(curve.m > 1) and bool(curve.m < curve.n), asked),
        ),
        Picture(f"F1 over the score threshold{'' if len(named) > 1 else ', precision and recall'}.", _f_beta(drawn)),
    ]
    return [
        Section("Precision and recall", [pictures[0], _levels(named)]),
        Section(
            "Operating points",
            [
                f"Items that score at least the threshold are called positive. Intervals ({level}) take the threshold "
                "as fixed in advance: of one chosen on these items they promise a little too much.",
                *(_operating_points(name if len(named) > 1 else "", x, asked) for name, x in named.items()),
                pictures[1],
            ],
        ),
    ]


def of_classes(
    metric: Any, found: Sequence[Curve], units: str, asked: Asked, bars_of: str, at: str = ""
) -> list[Section]:
    """Bars of the metric's classes, of both systems where there are two, and its curves.

    Args:
        metric: the system; the other is in ``asked``.
        found: its curves.
        units: what they are of.
        asked: with which level.
        bars_of: what the bars show.
        at: of which the curves are.
    """
    several, title = asked.other is not None, f"{units[0].upper()}{units[1:]}"
    absent = any(not float(x.m) for x in found)
    drawn = dict(zip(asked.systems, (metric, asked.other), strict=True)) if several else metric
    height = min(_MOST, _LEAST + _ROW * len(found) * (1.5 if several else 1))
    how: dict[str, Any] = {"confidence_level": asked.confidence_level, **vars(asked.resampling)}
    level = f"{100 * asked.confidence_level:.10g}%"
    bars = Picture(
        f"{bars_of} with {level} intervals.{' The mean in the legend is of those with positives.' * absent}",
        lambda ax: plot.per_class(drawn, ax=ax, class_names=asked.names, **how),
        (7.0, height),
    )
    if len(found) > _MOST_CURVES:
        return [Section(title, [bars])]
    named = [replace(x, name=with_kind(metric, x.name)) for x in found]  # as the bars are
    lines = Picture(
        f"Precision over recall of {units}{at}.",
        lambda ax: plot.precision_recall(named, ax=ax, chance_level=False),
        (8.4 if len(found) > _BESIDE else 6.4, 4.2),
    )
    return [Section(title, [bars, lines])]


def best_f1(curve: Curve) -> list[Cell]:
    """The highest F1, with its threshold, precision and recall."""
    f1 = curve.f_beta().nan_to_num(-1.0)
    if not len(f1) or not float(curve.m):
        return [NAN, NAN, NAN, NAN]
    place = int(torch.argmax(f1))
    return [float(x[place]) for x in (f1, curve.thresholds, curve.precision, curve.recall)]


def _precision_recall(drawn: Any, band: bool, asked: Asked, ax: Any) -> None:
    level = asked.confidence_level
    plot.precision_recall(drawn, ax=ax, band=band, beta=1.0, confidence_level=level)


def _f_beta(drawn: Any) -> Any:
    return lambda ax: plot.f_beta_thresholds(drawn, ax=ax)


def _levels(named: Mapping[str, Curve]) -> Table:
    """The curve as numbers: the highest precision at each of eleven recall levels or beyond."""
    names = ["precision"] if len(named) == 1 else list(named)
    columns = dict(zip(names, (x.interpolated("11-point") for x in named.values()), strict=True))
    rows: list[list[Cell]] = [
        [f"{level / 10:.1f}", *(float(x.precision[level]) for x in columns.values())] for level in range(11)
    ]
    return Table(["recall of at least", *columns], rows, folded=AS_NUMBERS)


def _operating_points(name: str, curve: Curve, asked: Asked) -> Table:
    rows: list[list[Cell]] = []
    for said, wanted in _WANTED:
        found = curve.operating_point(confidence_level=asked.confidence_level, **wanted)
        numbers = [_with_ends(found, x) for x in ("precision", "recall", "f_beta")]
        counts: list[Cell] = [DASH if x != x else f"{float(x):,.10g}" for x in (found.tp, found.fp, found.fn)]
        threshold = "no threshold" if found.threshold != found.threshold else f"{float(found.threshold):.4g}"
        rows.append([said, threshold, *numbers, *counts])
    return Table([f"{name}: wanted" if name else "wanted", "score ≥", "precision", "recall", "F1", *_COUNTS], rows)


_COUNTS = ("TP", "FP", "FN")


def _with_ends(found: OperatingPoint, name: str) -> str:
    value, low, high = (float(getattr(found, f"{name}{end}")) for end in ("", "_low", "_high"))
    if value != value:
        return DASH
    return f"{value:.3f}" if low != low else f"{value:.3f} ({low:.3f}{DASH}{high:.3f})"
