"""``torch-ap score --bins``: a file of any length in bounded memory, and the bounds that bins leave."""

import argparse
import math
from collections.abc import Sequence
from typing import Any

from torch_ap.cli.notes import named
from torch_ap.cli.progress import Bar
from torch_ap.cli.statements import NO_POSITIVE
from torch_ap.cli.tables import Report, Table, number
from torch_ap.curve.bounds import Bounds, bounds
from torch_ap.curve.convention import Convention
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.files.table_columns import Table as TableFile
from torch_ap.files.table_measures import Measure
from torch_ap.inference.intervals import interval_of_curve
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.inputs.classification import ClassificationInputs
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.score_bins import ScoreBins

_COLUMNS = ("estimate", "at_least", "at_most", "width", "chance")


def run(args: argparse.Namespace, table: TableFile, measures: Sequence[Measure]) -> int:
    """Count, bound and print."""
    for one in measures:
        if isinstance(one.formula, Convention) and not one.formula.has_bounds:
            why = "--denominator found" if one.kind == "ap" else "interpolation"
            raise ValueError(
                f"--bins has no bounds for {one.name}: they are of ap without {why}, and of P@k, R@k, F@k and Rprec"
            )
    found = ScoreBins(args.bins)
    rows = positive = 0
    with Bar(args.file) as bar:
        for batch in table.batches(bar):
            if batch.preds.ndim > 1:
                raise ValueError(f"{args.file}: --bins is for one column of scores, not for one per class")
            found.add(batch.preds, batch.target, batch.weights)
            rows, positive = rows + len(batch.preds), positive + int(batch.target.sum())
    curve, mixed = found.curve(), found.mixed()
    limits = {one.name: bounds(one.formula, curve, mixed) for one in measures}  # type: ignore[arg-type]
    said: dict[str, Any] = {"file": args.file, "items": rows, "positive": positive, "bins": len(found.low)}
    weighted = args.weights is not None
    numbers = {one.name: _numbers(limits[one.name], _chance(one, rows, positive, weighted)) for one in measures}
    if args.interval:
        for one in measures:
            numbers[one.name] |= _interval(one, curve, args.confidence_level)
    exact = "each score has a bin of its own" if not mixed.any() else "at least and at most: any order inside the bins"
    title = f"{named(args.file)}: {rows:,} items, {positive:,} positive, {len(found.low):,} bins; {exact}"
    reasons = _reasons(args, numbers, positive)
    Report(
        parts=lambda: [_table(numbers, args.confidence_level, title), *reasons],
        records=lambda: [
            ("measure", *next(iter(numbers.values()))),
            *((name, *x.values()) for name, x in numbers.items()),
        ],
        document=lambda: said | {"measures": numbers} | ({"reasons": reasons} if reasons else {}),
    ).write(args.form)
    return 0


def _reasons(args: argparse.Namespace, numbers: dict[str, dict[str, float]], positive: int) -> list[str]:
    """Why numbers are missing, of which measures."""
    undefined = [name for name, x in numbers.items() if math.isnan(x["estimate"])]
    out = [f"{', '.join(undefined)}: {NO_POSITIVE}"] if undefined and not positive else []
    others = [name for name in numbers if args.interval and name not in undefined]
    if without := [name for name in others if math.isnan(numbers[name]["low"])]:
        out.append(f"{', '.join(without)}: no interval: of bins there is one of ap alone, without weights or --ties")
    return out


def _table(numbers: dict[str, dict[str, float]], level: float, title: str) -> Table:
    heads = {"at_least": "at least", "at_most": "at most"}
    heads |= {end: f"{100 * level:.10g}% {end}" for end in ("low", "high")}
    columns = list(next(iter(numbers.values())))
    rows = [
        (name, *(number(x[key], ".3g" if key == "width" else ".6f") for key in columns)) for name, x in numbers.items()
    ]
    return Table([("measure", *(heads.get(key, key) for key in columns)), *rows], title=title)


def _numbers(limits: Bounds, chance: float) -> dict[str, float]:
    low, estimate, high = (float(x) for x in (limits.low, limits.estimate, limits.high))
    return dict(zip(_COLUMNS, (estimate, low, high, high - low, chance), strict=True))


def _chance(measure: Measure, items: int, positive: int, weighted: bool) -> float:
    """E(AP) of scores without ties; NaN of anything else."""
    if weighted or not isinstance(measure.formula, Convention) or not positive:
        return float("nan")
    denominator = measure.formula.denominator
    if denominator == "found":
        return float("nan")
    found = random_average_precision(items, positive, measure.k, denominator=denominator)  # type: ignore[arg-type]
    return float(found.mean)


def _interval(measure: Measure, curve: HitCurve, level: float) -> dict[str, float]:
    """Of AP whose bins are ties, which is its estimate but for what they leave open; NaN of anything else."""
    ends = {"low": float("nan"), "high": float("nan")}
    if measure.kind != "ap" or measure.k is not None or curve.weighted:
        return ends
    found = interval_of_curve(APSettings(ClassificationInputs()), curve, None, confidence_level=level)
    return {"low": float(found.low), "high": float(found.high)}
