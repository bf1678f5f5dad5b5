"""``torch-ap score --bins``: a file of any length in bounded memory, and the bounds that bins leave."""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli import table_inputs
from torch_ap.cli.binned import Rows, System
from torch_ap.cli.notes import named, note
from torch_ap.cli.statements import NO_POSITIVE
from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.curve.bounds import Bounds, bounds
from torch_ap.curve.convention import PLAIN, Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.files.table_columns import Table as TableFile
from torch_ap.files.table_measures import Measure
from torch_ap.inference.chance_of_rankings import chance_of_curve, chance_of_ratio
from torch_ap.inference.methods import curve_interval
from torch_ap.inference.queries import compare_queries
from torch_ap.inference.query_mean import mean_interval
from torch_ap.inference.resampling import Resampling
from torch_ap.ranking.hit_curve import HitCurve

NAN = math.nan
_ENDS = ("low", "high")
_NARROW = 0.1  # of the width of an interval: bounds that do not matter beside it
_NO_INTERVAL = "no interval: with --bins groups have one, and otherwise ap alone, without weights or --ties"
_WIDE = "interval and p-value are of the estimate: what the bins leave open comes on top"
_NO_COMPARISON = "no p-value: bins of two rankings do not tell which rows they share; without --bins there is one"


@dataclass
class Bounded:
    """One measure, as far as it was asked for.

    Attributes:
        numbers: ``estimate``, ``at_least``, ``at_most``, ``width``, ``chance``; and the ends of an interval.
        compared: those of the baseline, of the difference, and what is said of that.
        each: ``estimate``, ``at_least``, ``at_most`` of each group or class, by its name.
        reasons: why numbers are missing.
    """

    numbers: dict[str, float]
    compared: dict[str, float] = field(default_factory=dict)
    each: dict[str, dict[str, float]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Rankings:
    """The rankings of one system.

    Attributes:
        curve: S of them, whose entries are bins.
        mixed: (E,) whether a bin is of different scores.
        undefined: what a ranking without a relevant item counts as: "nan"; of groups and labels "neg", 0; of classes
            "skip", left out.
    """

    curve: HitCurve
    mixed: Tensor
    undefined: str

    def filled(self, values: Tensor) -> Tensor:
        """(S,) values of a measure, with 0 for those that are undefined and count so."""
        return values.nan_to_num(0.0) if self.undefined == "neg" else values

    def mean(self, values: Tensor) -> float:
        """Over the rankings that have a part in it."""
        values = self.filled(values)
        return float(values.nanmean() if self.undefined == "skip" else values.mean())

    def bounds(self, measure: Measure) -> Bounds:
        """Of each ranking."""
        formula: Any = measure.formula  # not of grades, which are refused
        found = bounds(formula, self.curve, self.mixed)
        return Bounds(*map(self.filled, (found.low, found.estimate, found.high)))


def run(args: argparse.Namespace) -> int:
    """Count, bound and print."""
    table_inputs.check(args)
    wide = len(args.preds) > 1
    measures = table_inputs.measures_asked(args, wide)
    _refuse_unbounded(measures)
    table, rows = table_inputs.table_of(args, args.file), Rows(args)
    mine, theirs = rows.read(table)
    if rows.classes and not wide:  # a column of lists
        table_inputs.check_classes(args)
        measures = table_inputs.measures_asked(args, classes=True)
    table_inputs.check_normalization(args, bool(rows.classes))
    undefined = "neg" if args.group is not None or rows.labels else "skip" if rows.classes else "nan"
    if table_inputs.is_file(args.baseline):
        theirs = _baseline(args, table, mine, rows)
    count = len(table.groups) if args.group is not None else rows.classes or 1
    own = Rankings(*mine.curve(count), undefined)
    other = None if theirs is None else Rankings(*theirs.curve(count), undefined)
    names = table_inputs.names_asked(args, table, rows.classes)
    if other is not None and args.group is not None:
        table_inputs.check_groups(args, table, own.curve.n > 0, other.curve.n > 0)
    found = {one.name: _bounded(args, one, own, other, names) for one in measures}
    for said in table_inputs.without_positives(args, own.curve.m, labels=rows.labels) if rows.classes else ():
        note(said)
    for said in table_inputs.without_relevant(args, table, own.curve.m) if args.group is not None else ():
        note(said)
    mixed = any(bool(x.mixed.any()) for x in (own, other) if x is not None)
    _report(args, found, _said(args, table, mine, own, rows), mixed).write(args.form)
    return 0


def _refuse_unbounded(measures: Sequence[Measure]) -> None:
    for one in measures:
        if isinstance(one.formula, NormalizedDCG):
            raise ValueError(f"--bins keeps counts of what is relevant, and no grades, which {one.name} is of")
        if isinstance(one.formula, Convention) and not one.formula.has_bounds:
            why = "--denominator found" if one.kind == "ap" else "interpolation"
            raise ValueError(
                f"--bins has no bounds for {one.name}: they are of ap without {why}, and of measures at a rank"
            )


def _baseline(args: argparse.Namespace, table: TableFile, mine: System, rows: Rows) -> System:
    """The system of another file, which must have the same rows in the same order, but for those of groups."""
    theirs, _ = rows.read(table_inputs.table_of_baseline(args, table))
    if args.group is None and (mine.rows, mine.digest.digest()) != (theirs.rows, theirs.digest.digest()):
        what = (
            f"{mine.rows:,} rows, got {theirs.rows:,}" if mine.rows != theirs.rows else "the same targets and weights"
        )
        raise ValueError(f"{args.baseline}: must have the rows of {args.file} in the same order: {what}")
    return theirs


def _bounded(
    args: argparse.Namespace, measure: Measure, own: Rankings, other: Rankings | None, names: Sequence[str]
) -> Bounded:
    """What is asked for of one measure."""
    limits = own.bounds(measure)
    numbers = _numbers(own, limits)
    found = Bounded(numbers | {"width": numbers["at_most"] - numbers["at_least"], "chance": _chance(measure, own)})
    if math.isnan(numbers["estimate"]) and not bool(own.curve.m.any()):
        found.reasons.append(NO_POSITIVE)
    ends = _ends(args, measure, own, limits) if args.interval else {}
    if args.interval:
        alone = args.group is not None or len(limits.estimate) == 1
        found.numbers |= {end: float(x[0]) if alone else NAN for end, x in ends.items()}
        if math.isnan(found.numbers["low"]) and not found.reasons:
            found.reasons.append(_NO_INTERVAL)
    columns = {"estimate": limits.estimate, "at_least": limits.low, "at_most": limits.high}
    columns |= ends if args.group is None else {}
    found.each = {name: {key: float(x[place]) for key, x in columns.items()} for place, name in enumerate(names)}
    if other is not None:
        _compare(args, found, measure, own, other)
    intervals = [x["high"] - x["low"] for x in (found.numbers, found.compared) if not math.isnan(x.get("low", NAN))]
    if intervals and found.numbers["width"] > _NARROW * min(intervals):
        found.reasons.append(_WIDE)
    return found


def _numbers(rankings: Rankings, limits: Bounds) -> dict[str, float]:
    """The mean of the rankings, and its bounds."""
    columns = {"estimate": limits.estimate, "at_least": limits.low, "at_most": limits.high}
    return {name: rankings.mean(x) for name, x in columns.items()}


def _chance(measure: Measure, rankings: Rankings) -> float:
    """The mean over random orders of scores without ties; NaN with weights."""
    if rankings.curve.weighted:
        return NAN
    untied: Any = replace(measure.formula, ties="expected")
    chance = chance_of_curve if isinstance(untied, Convention) else chance_of_ratio
    return rankings.mean(chance(rankings.curve, untied))


def _ends(args: argparse.Namespace, measure: Measure, own: Rankings, limits: Bounds) -> dict[str, Tensor]:
    """Of the mean over groups, (1,), or of each ranking, (S,): its bins as ties; NaN where there is no interval."""
    if args.group is not None:
        found = mean_interval(limits.estimate, confidence_level=args.confidence_level, n_resamples=args.n_resamples)
        return {"low": found.low[None], "high": found.high[None]}
    plain = measure.kind == "ap" and measure.k is None and not own.curve.weighted
    if not plain or args.ties not in (None, "grouped"):
        return dict.fromkeys(_ENDS, torch.full_like(limits.estimate, NAN))
    how: dict[str, Any] = {"method": "influence", "design": "iid", "resampling": Resampling()}
    each = curve_interval(own.curve, PLAIN, confidence_level=args.confidence_level, **how)
    return {"low": each.low, "high": each.high}


def _compare(args: argparse.Namespace, found: Bounded, measure: Measure, own: Rankings, other: Rankings) -> None:
    """The difference, which lies between those of the bounds; over groups with interval and p-value."""
    theirs = other.bounds(measure)
    numbers, its = found.numbers, _numbers(other, theirs)
    found.compared = {
        "baseline": its["estimate"],
        "difference": numbers["estimate"] - its["estimate"],
        "at_least": numbers["at_least"] - its["at_most"],
        "at_most": numbers["at_most"] - its["at_least"],
        **dict.fromkeys((*_ENDS, "p_value"), NAN),
    }
    if args.group is None:
        found.reasons += [_NO_COMPARISON] if NO_POSITIVE not in found.reasons else []
        return
    values = own.bounds(measure).estimate, theirs.estimate
    said = compare_queries(*values, confidence_level=args.confidence_level, bounds=(0, 1)).to_dict()
    found.compared |= {name: said[name] for name in (*_ENDS, "p_value")}
    if said["reason"]:
        found.reasons.append(f"comparison: {said['reason']}")


def _said(args: argparse.Namespace, table: TableFile, mine: System, own: Rankings, rows: Rows) -> dict[str, Any]:
    """How much was read."""
    assert mine.bins is not None
    found: dict[str, Any] = {"file": args.file, "items": mine.rows}
    if args.group is not None:
        found |= {"groups": len(table.groups), "relevant": int(own.curve.m.sum())}
    elif rows.classes:
        found |= {"labels" if rows.labels else "classes": rows.classes}
    else:
        found |= {"positive": int(own.curve.m)}
    return found | {"bins": len(mine.bins.low)}


def _report(args: argparse.Namespace, found: Mapping[str, Bounded], said: dict[str, Any], mixed: bool) -> Report:
    of = "group" if args.group is not None else "class"
    return Report(
        parts=lambda: _parts(args, found, said, of, mixed),
        records=lambda: _records(found, of),
        document=lambda: _document(args, found, said, "groups" if of == "group" else "classes"),
    )


def _parts(
    args: argparse.Namespace, found: Mapping[str, Bounded], said: dict[str, Any], of: str, mixed: bool
) -> Iterator[Part]:
    counts = ", ".join(f"{value:,} {name}" for name, value in said.items() if name != "file")
    exact = "at least and at most: any order inside the bins" if mixed else "each score has a bin of its own"
    level = f"{100 * args.confidence_level:.10g}%"
    heads = {"at_least": "at least", "at_most": "at most", "low": f"{level} low", "high": f"{level} high"}
    first = next(iter(found.values()))
    columns = list(first.numbers)
    rows = [
        (name, *(number(one.numbers[x], ".3g" if x == "width" else ".6f") for x in columns))
        for name, one in found.items()
    ]
    title = f"{named(args.file)}: {counts}; {exact}"
    yield Table([("measure", *(heads.get(x, x) for x in columns)), *rows], title=title)
    if first.compared:
        yield _comparison(args, found, heads)
    if first.each:
        keys = list(next(iter(first.each.values())))
        head = [x for name in found for x in (name, *(heads[key] for key in keys[1:]))]
        cells = ((name, *(number(one.each[name][x]) for one in found.values() for x in keys)) for name in first.each)
        yield Table([(of, *head), *cells])
    for reason in dict.fromkeys(x for one in found.values() for x in one.reasons):
        yield f"{', '.join(name for name, one in found.items() if reason in one.reasons)}: {reason}"


def _comparison(args: argparse.Namespace, found: Mapping[str, Bounded], heads: Mapping[str, str]) -> Table:
    run = named(args.file) if table_inputs.is_file(args.baseline) else args.preds[0]
    keys = list(next(iter(found.values())).compared)[1:]
    head = ("measure", run, named(args.baseline), *(heads.get(x, x) for x in keys[:-1]), "p")
    rows = [
        (
            name,
            *(number(x) for x in (one.numbers["estimate"], one.compared["baseline"])),
            *(number(one.compared[x], "+.4f") for x in keys[:-1]),
            number(one.compared["p_value"], ".4g"),
        )
        for name, one in found.items()
    ]
    return Table([head, *rows])


def _records(found: Mapping[str, Bounded], of: str) -> Iterator[Sequence[Any]]:
    """A row per measure and group or class; the mean's has "all" for its name, and the comparison."""
    first = next(iter(found.values()))
    numbers, compared = list(first.numbers), list(first.compared)
    yield ("measure", of, *numbers, *(x if x == "baseline" else f"compared.{x}" for x in compared))
    for measure, one in found.items():
        for name, values in one.each.items():
            yield (measure, name, *map(values.get, numbers), *(None for _ in compared))
        yield (measure, "all", *one.numbers.values(), *one.compared.values())


def _document(args: argparse.Namespace, found: Mapping[str, Bounded], said: dict[str, Any], of: str) -> dict[str, Any]:
    """{"file", counts, "measures": {name: {"estimate", "at_least", ..., "compared": {...}, "groups": {...}}}}."""
    out: dict[str, Any] = {}
    for name, one in found.items():
        out[name] = dict(one.numbers)
        if one.compared:
            further = {key: x for key, x in one.compared.items() if key != "baseline"}
            out[name]["compared"] = {"baseline": args.baseline, "estimate": one.compared["baseline"]} | further
        if one.each:
            out[name][of] = one.each
        if one.reasons:
            out[name]["reasons"] = one.reasons
    return said | {"measures": out}
