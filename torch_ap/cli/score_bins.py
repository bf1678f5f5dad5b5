"""``torch-ap score --bins``: a file of any length in bounded memory, with bounds for the order inside the bins.

The bins of :class:`torch_ap.core.ranking.score_bins.ScoreBins` are merged while the file is
read, in any order of the rows.
``BinaryAveragePrecision(bins="adaptive")`` is no replacement: it learns its edges from the first items, so that sorted
files have wide bounds, and it has neither groups nor measures at a rank.
"""

import argparse
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli import table_inputs
from torch_ap.cli.notes import to_option_names
from torch_ap.cli.progress import Bar
from torch_ap.cli.table_results import NO_POSITIVE, MeasureResult, TableReport
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.core.columns.tables import Table as TableFile
from torch_ap.core.items.inputs import ClassificationInputs, warn_of_logits
from torch_ap.core.measures.convention import PLAIN
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.score_bins import ScoreBins
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.queries import compare_per_query, mean_interval
from torch_ap.inference.resampling import InferenceSettings

_MAX_SHARE = 0.1  # of the width of an interval: narrower bounds are not worth a note
_NO_INTERVAL = "no interval: with --bins only groups have one, and ap without weights and --ties"
_WIDE = "interval and p-value are for the estimate; the uncertainty of the bins comes on top"
_NO_COMPARISON = "no p-value: bins of two rankings do not identify their common rows; without --bins there is one"


@dataclass
class _System:
    """Counts of one system.

    Attributes:
        bins: counts; None before the first rows.
        rows: number of rows.
        digest: digest of targets and weights, to compare the rows of two files.
        undefined: value of rankings without positives: "nan"; "neg", 0, for groups and labels; "skip" for classes.
        curve: rankings whose entries are bins, after the last row.
        mixed: (E,) whether a bin has distinct scores, likewise.
    """

    bins: ScoreBins | None = None
    rows: int = 0
    digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    undefined: str = "nan"
    curve: HitCurve = field(init=False)
    mixed: Tensor = field(init=False)

    def finish(self, rankings: int, undefined: str) -> "_System":
        """Build the curves after the last row."""
        assert self.bins is not None  # a table without rows is an error
        self.curve, self.mixed, self.undefined = self.bins.curve(rankings), self.bins.mixed(), undefined
        return self

    def bounds(self, measure: Measure) -> dict[str, Tensor]:
        """Return estimate and bounds of each ranking, (S,) each."""
        bounds = measure.formula.bounds(self.curve, self.mixed)
        values = {"estimate": bounds.estimate, "at_least": bounds.low, "at_most": bounds.high}
        return {name: x.nan_to_num(0.0) if self.undefined == "neg" else x for name, x in values.items()}

    def mean(self, values: Tensor) -> float:
        """Return the mean over the rankings that count."""
        values = values.nan_to_num(0.0) if self.undefined == "neg" else values
        return float(values.nanmean() if self.undefined == "skip" else values.mean())


class _Reader:
    """Reader of tables into bins.

    Args:
        args: arguments of the command.

    Attributes:
        classes: number of rankings of each row; 0 for one ranking or groups.
        labels: whether these have a target each.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._inputs: ClassificationInputs | None = None
        self.classes, self.labels = 0, False

    def read(self, table: TableFile) -> tuple[_System, _System | None]:
        """Return the system of a file, and the baseline if that is a column of it."""
        system, baseline = _System(), None if table.baseline is None else _System()
        with Bar(str(table.path)) as bar:
            for batch in table.batches(bar):
                self._add(system, batch, batch.preds)
                if baseline is not None and batch.baseline is not None:
                    self._add(baseline, batch, batch.baseline)
        return system, baseline

    def _add(self, system: _System, batch: Columns, preds: Tensor) -> None:
        system.rows += len(preds)
        for column in (batch.target, batch.weights):
            if column is not None:
                system.digest.update(column.contiguous().numpy())
        if batch.group is not None:
            level = 1 if self._args.relevance_level is None else self._args.relevance_level
            self._count(system, preds, batch.target >= level, None, batch.group)
        elif preds.ndim == 1:
            self._count(system, preds, batch.target, batch.weights, None)
        else:
            self._add_classes(system, batch, preds)

    def _add_classes(self, system: _System, batch: Columns, preds: Tensor) -> None:
        if self._inputs is None:
            self.classes, self.labels = preds.shape[1], batch.target.ndim == 2
            self._inputs = ClassificationInputs(self.classes, not self.labels, normalization=self._args.normalization)
        if preds.shape[1] != self.classes:  # in another file
            raise ValueError(
                f"{self._args.baseline}: must have as many scores in a row as {self._args.file}, {self.classes}, "
                f"got {preds.shape[1]}"
            )
        inputs = self._inputs.validate(preds, batch.target, batch.weights)
        if system.bins is None:
            warn_of_logits(self._inputs, inputs)
        column, shape = torch.arange(self.classes), inputs.scores.shape
        hits = inputs.target if self.labels else inputs.target[:, None] == column
        weights = None if inputs.weights is None else inputs.weights[:, None].expand(shape).flatten()
        self._count(system, inputs.scores.flatten(), hits.flatten(), weights, column.expand(shape).flatten())

    def _count(
        self, system: _System, scores: Tensor, hits: Tensor, weights: Tensor | None, ranking: Tensor | None
    ) -> None:
        """Count items in N bins of all groups together, or in N bins of each class."""
        if system.bins is None:
            system.bins = ScoreBins(self._args.bins * max(1, self.classes))
        try:
            system.bins.add(scores, hits.to(torch.uint8), weights, ranking)
        except ValueError as error:  # fewer bins than groups
            message = to_option_names(str(error), self._args.option_names).replace("rankings", "groups")
            raise ValueError(f"{self._args.file}: {message}") from None


def evaluate(args: argparse.Namespace) -> TableReport:
    """Count the rows in bins and return the bounds of all measures."""
    measures, table = table_inputs.prepare(args)
    for measure in measures:
        _check_bounds_exist(measure)
    reader, grouped = _Reader(args), args.group is not None
    system, baseline = reader.read(table)
    classes, labels = reader.classes, reader.labels
    measures = table_inputs.measures_of_rankings(args, measures, bool(classes))
    if table_inputs.is_file(args.baseline):
        baseline, _ = reader.read(table_inputs.baseline_table(args, table))
        if not grouped:
            _check_same_rows(args, system, baseline)
    systems = [x for x in (system, baseline) if x is not None]
    for x in systems:
        x.finish(
            len(table.groups) if grouped else classes or 1,
            "neg" if grouped or labels else "skip" if classes else "nan",
        )
    rows = table_inputs.requested_rows(args, table, classes)
    if baseline is not None and grouped:
        table_inputs.check_same_groups(args, table, system.curve.n, baseline.curve.n)
    results = {x.name: _result_of(args, x, system, baseline, rows) for x in measures}
    if classes or grouped:
        table_inputs.note_without_positives(args, table, system.curve.m, labels=labels)
    assert system.bins is not None
    is_mixed = any(bool(x.mixed.any()) for x in systems)
    convention = "at least and at most: any order inside the bins" if is_mixed else "each score has a bin of its own"
    positives = int(system.curve.m.sum())
    facts = table_inputs.table_facts(args, table, system.rows, positives, classes, labels=labels)
    return TableReport(args, results, facts | {"bins": len(system.bins.low)}, convention)


def _check_bounds_exist(measure: Measure) -> None:
    """Raise ValueError for a measure without bounds."""
    if measure.formula.graded:
        raise ValueError(f"--bins stores counts of relevant rows, but {measure.name} needs grades")
    if not measure.formula.has_bounds:
        excluded = "--denominator found" if measure.kind == "ap" else "interpolation"
        raise ValueError(
            f"--bins has no bounds for {measure.name}: they are of ap without {excluded}, and of measures at a rank"
        )


def _check_same_rows(args: argparse.Namespace, system: _System, baseline: _System) -> None:
    """Raise ValueError unless two files have equal targets and weights in the same order."""
    if (system.rows, system.digest.digest()) != (baseline.rows, baseline.digest.digest()):
        rule = "the same targets and weights"
        if system.rows != baseline.rows:
            rule = f"{system.rows:,} rows, got {baseline.rows:,}"
        raise ValueError(f"{args.baseline}: must have the rows of {args.file} in the same order: {rule}")


def _result_of(
    args: argparse.Namespace, measure: Measure, system: _System, baseline: _System | None, rows: tuple[str, ...]
) -> MeasureResult:
    """Return estimate, bounds and chance level of a measure, with interval, comparison and rows if requested."""
    columns = system.bounds(measure)
    means = {name: system.mean(x) for name, x in columns.items()}
    result = MeasureResult(means | {"width": means["at_most"] - means["at_least"], "chance": _chance(measure, system)})
    if math.isnan(means["estimate"]) and not bool(system.curve.m.any()):
        result.reasons.append(NO_POSITIVE)
    if args.interval:
        ends = _interval(args, measure, system, columns["estimate"])
        is_single = len(ends["low"]) == 1
        result.numbers |= {end: float(x[0]) if is_single else math.nan for end, x in ends.items()}
        if math.isnan(result.numbers["low"]) and not result.reasons:
            result.reasons.append(_NO_INTERVAL)
        columns |= ends if args.group is None else {}
    result.rows = {name: {key: float(x[place]) for key, x in columns.items()} for place, name in enumerate(rows)}
    if baseline is not None:
        _compare(args, result, columns["estimate"], baseline, baseline.bounds(measure))
    widths = [x["high"] - x["low"] for x in (result.numbers, result.compared) if "low" in x]
    if any(result.numbers["width"] > _MAX_SHARE * x for x in widths):
        result.reasons.append(_WIDE)
    return result


def _chance(measure: Measure, system: _System) -> float:
    """Return the mean over random orders of scores without ties; NaN with weights."""
    if system.curve.weighted:
        return math.nan
    untied: Any = replace(measure.formula, ties="expected")  # type: ignore[call-arg]
    return system.mean(untied.chance_level(system.curve))


def _interval(args: argparse.Namespace, measure: Measure, system: _System, estimate: Tensor) -> dict[str, Tensor]:
    """Return the interval of the mean over groups, (1,), or of each ranking, (S,), with bins as ties; or NaN."""
    if args.group is not None:
        mean = mean_interval(estimate, confidence_level=args.confidence_level, n_resamples=args.n_resamples)
        return {"low": mean.low[None], "high": mean.high[None]}
    is_plain = measure.kind == "ap" and measure.k is None and not system.curve.weighted
    if not is_plain or args.ties not in (None, "grouped"):
        return dict.fromkeys(("low", "high"), torch.full_like(estimate, math.nan))
    intervals = curve_interval(system.curve, PLAIN, InferenceSettings(args.confidence_level))
    return {"low": intervals.low, "high": intervals.high}


def _compare(
    args: argparse.Namespace,
    result: MeasureResult,
    estimate: Tensor,
    baseline: _System,
    columns: Mapping[str, Tensor],
) -> None:
    """Add the difference and its bounds; for groups also interval and p-value."""
    own, other = result.numbers, {name: baseline.mean(x) for name, x in columns.items()}
    result.compared = {
        "baseline": other["estimate"],
        "difference": own["estimate"] - other["estimate"],
        "at_least": own["at_least"] - other["at_most"],
        "at_most": own["at_most"] - other["at_least"],
        **dict.fromkeys(("low", "high", "p_value"), math.nan),
    }
    if args.group is None:
        result.reasons += [_NO_COMPARISON] if NO_POSITIVE not in result.reasons else []
        return
    comparison = compare_per_query(
        estimate, columns["estimate"], confidence_level=args.confidence_level, bounds=(0, 1)
    ).to_dict()
    result.compared |= {name: comparison[name] for name in ("low", "high", "p_value")}
    if comparison["reason"]:
        result.reasons.append(f"comparison: {comparison['reason']}")
