"""``torch-ap score --bins``: a file of any length in bounded memory, with bounds for the order inside the bins.

The bins of :class:`torch_ap.core.ranking.score_bins.ScoreBins` are merged while the file is
read, in any order of the rows.
``BinaryAveragePrecision(bins="adaptive")`` is no replacement: it learns its edges from the first items, so that sorted
files have wide bounds, and it has neither groups nor measures at a rank.
"""

import argparse
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli import table_inputs, table_intervals
from torch_ap.cli.gates import Estimate, Gate, gates_of
from torch_ap.cli.notes import file_name, to_option_names
from torch_ap.cli.progress import Bar
from torch_ap.cli.table_results import NO_POSITIVE, NO_WEIGHT, MeasureResult, TableReport
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.core.columns.tables import Table as TableFile
from torch_ap.core.items.inputs import ClassificationInputs, warn_of_logits
from torch_ap.core.measures.convention import PLAIN
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.score_bins import ScoreBins
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.queries import compare_per_query, mean_interval
from torch_ap.inference.record import Comparison, Interval, number
from torch_ap.inference.resampling import InferenceSettings

_MAX_SHARE = 0.1  # of the width of an interval: narrower bounds are not worth a note
_NO_INTERVAL = "no interval: with --bins only groups have one, and ap without weights and --ties"
_WIDE = "interval and p-value are for the estimate; the uncertainty of the bins comes on top"
_NO_COMPARISON = "no p-value: bins of two rankings do not identify their common rows; without --bins there is one"


@dataclass
class _System:
    """Counts of one system.

    Attributes:
        args: arguments of the command.
        classes: number of rankings of each row; 0 for one ranking or groups.
        labels: whether the classes have a target each.
        rows: number of rows.
        digest: digest of targets and weights, to compare the rows of two files.
        bins: counts; None before the first rows.
        inputs: rules for the scores of classes, likewise.
        curve: rankings whose entries are bins, after the last row.
        mixed: (E,) whether a bin has distinct scores, likewise.
    """

    args: argparse.Namespace
    classes: int = 0
    labels: bool = False
    rows: int = 0
    digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    bins: ScoreBins | None = None
    inputs: ClassificationInputs | None = None
    curve: HitCurve = field(init=False)
    mixed: Tensor = field(init=False)

    def add(self, batch: Columns, preds: Tensor) -> None:
        """Count rows in N bins of all groups together, or in N bins of each class."""
        self.rows += len(preds)
        for column in (batch.target, batch.weights):
            if column is not None:
                self.digest.update(column.contiguous().numpy())
        hits, weights, ranking = batch.target, batch.weights, batch.group
        if ranking is not None:
            hits = hits >= (1 if self.args.relevance_level is None else self.args.relevance_level)
        elif preds.ndim == 2:
            preds, hits, weights, ranking = self._items_of_classes(batch, preds)
        if self.bins is None:
            self.bins = ScoreBins(self.args.bins * max(1, self.classes))
        try:
            self.bins.add(preds, hits.to(torch.uint8), weights, ranking)
        except ValueError as error:  # fewer bins than groups
            message = to_option_names(str(error), self.args.option_names).replace("rankings", "groups")
            raise ValueError(f"{self.args.file}: {message}") from None

    def _items_of_classes(self, batch: Columns, preds: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        """Return score, hit, weight and class of each item, (N C,)."""
        if self.classes not in (0, preds.shape[1]):  # the number of classes in the other file
            raise ValueError(
                f"{self.args.baseline}: must have as many scores in a row as {self.args.file}, {self.classes}, "
                f"got {preds.shape[1]}"
            )
        is_first, self.classes, self.labels = self.inputs is None, preds.shape[1], batch.target.ndim == 2
        if self.inputs is None:
            normalization = self.args.normalization
            self.inputs = ClassificationInputs(self.classes, not self.labels, normalization=normalization)
        inputs = self.inputs.validate(preds, batch.target, batch.weights)
        if is_first:
            warn_of_logits(self.inputs, inputs)
        column, shape = torch.arange(self.classes), inputs.scores.shape
        hits = inputs.target if self.labels else inputs.target[:, None] == column
        weights = None if inputs.weights is None else inputs.weights[:, None].expand(shape).flatten()
        return inputs.scores.flatten(), hits.flatten(), weights, column.expand(shape).flatten()

    def finish(self, groups: int) -> None:
        """Build the curves after the last row."""
        assert self.bins is not None  # a table without rows is an error
        self.curve, self.mixed = self.bins.curve(groups or self.classes or 1), self.bins.mixed()

    def bounds(self, measure: Measure) -> dict[str, Tensor]:
        """Return estimate and bounds of each ranking, (S,) each."""
        bounds = measure.formula.bounds(self.curve, self.mixed)
        values = {"estimate": bounds.estimate, "at_least": bounds.low, "at_most": bounds.high}
        return {name: self._count_empty(x) for name, x in values.items()}

    def mean(self, values: Tensor) -> float:
        """Return the mean over the rankings; classes without positives are left out."""
        values = self._count_empty(values)
        return float(values.nanmean() if self.classes and not self.labels else values.mean())

    def _count_empty(self, values: Tensor) -> Tensor:
        """Replace the value of groups and labels without positives by 0."""
        return values.nan_to_num(0.0) if self.args.group is not None or self.labels else values


def _read(table: TableFile, systems: Sequence[_System]) -> None:
    """Count the rows of a file for the system of its scores, and for the system of its column of the baseline."""
    with Bar(str(table.path)) as bar:
        for batch in table.batches(bar):
            for system, preds in zip(systems, (batch.preds, batch.baseline), strict=False):
                assert preds is not None
                system.add(batch, preds)


def evaluate(args: argparse.Namespace) -> tuple[TableReport, list[Gate]]:
    """Count the rows in bins; return the bounds of all measures, and the gates."""
    measures, table = table_inputs.prepare(args)
    for measure in measures:
        _check_bounds_exist(measure)
    system, grouped = _System(args), args.group is not None
    baseline = None if table.baseline is None else _System(args)
    _read(table, [system] if baseline is None else [system, baseline])
    classes, labels = system.classes, system.labels
    measures = table_inputs.measures_of_rankings(args, measures, bool(classes))
    if table_inputs.is_file(args.baseline):
        baseline = _System(args, classes)
        _read(table_inputs.baseline_table(args, table), [baseline])
        if not grouped:
            _check_same_rows(args, system, baseline)
    systems = [x for x in (system, baseline) if x is not None]
    for x in systems:
        x.finish(len(table.groups))
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
    report = TableReport(args, results, facts | {"bins": len(system.bins.low)}, convention)
    values = {x.name: _gated_value(args, x, system, results[x.name].numbers) for x in measures}
    differences = {x.name: _gated_difference(args, x, system, baseline, results[x.name].compared) for x in measures}
    names = (file_name(args.file), file_name(args.baseline or ""))

    def full_name(name: str) -> str:
        return table_intervals.full_name(args, name, has_classes=bool(classes))

    return report, gates_of(args, names[0], values, differences, names[1], full_name)


def _gated_value(args: argparse.Namespace, measure: Measure, system: _System, numbers: Mapping[str, float]) -> Estimate:
    """Return the interval of the estimate as a function of its level, widened by the bounds of the bins."""

    def estimate(level: float) -> Interval:
        ends = _interval(args, measure, system, system.bounds(measure)["estimate"], level)
        if len(ends["low"]) > 1 or (math.isnan(ends["low"][0]) and bool(system.curve.m.any())):
            raise ValueError(f"--fail-below {measure.name}: {_NO_INTERVAL}")
        low = ends["low"][0] + numbers["at_least"] - numbers["estimate"]
        high = ends["high"][0] + numbers["at_most"] - numbers["estimate"]
        return Interval(number(numbers["estimate"]), low, high, number(math.nan), level, "")

    return estimate


def _gated_difference(
    args: argparse.Namespace, measure: Measure, system: _System, baseline: _System | None, numbers: Mapping[str, float]
) -> Estimate:
    """Return the comparison of the estimates as a function of its level, widened by the bounds of the bins."""

    def estimate(level: float) -> Comparison:
        if baseline is None or args.group is None:
            raise ValueError(f"--fail-if-worse of {measure.name}: {_NO_COMPARISON}")
        values = (x.bounds(measure)["estimate"] for x in (system, baseline))
        comparison = compare_per_query(*values, confidence_level=level, bounds=(0, 1))
        low = comparison.low + numbers["at_least"] - numbers["difference"]
        high = comparison.high + numbers["at_most"] - numbers["difference"]
        p_value = comparison.p_value if numbers["at_least"] == numbers["at_most"] else number(math.nan)
        return replace(comparison, low=low, high=high, p_value=p_value)

    return estimate


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
    is_undefined = math.isnan(means["estimate"]) and not bool(system.curve.m.any())
    if is_undefined:
        result.reasons.append(NO_POSITIVE if bool(system.curve.n.any()) else NO_WEIGHT)
    if args.interval:
        ends = _interval(args, measure, system, columns["estimate"], args.confidence_level)
        is_single = len(ends["low"]) == 1
        result.numbers |= {end: float(x[0]) if is_single else math.nan for end, x in ends.items()}
        if math.isnan(result.numbers["low"]) and not is_undefined:
            result.reasons.append(_NO_INTERVAL)
        columns |= ends if args.group is None else {}
    result.rows = {name: {key: float(x[place]) for key, x in columns.items()} for place, name in enumerate(rows)}
    if baseline is not None:
        others = baseline.bounds(measure)
        theirs = {name: baseline.mean(x) for name, x in others.items()}
        result.compared = {
            "baseline": theirs["estimate"],
            "difference": means["estimate"] - theirs["estimate"],
            "at_least": means["at_least"] - theirs["at_most"],
            "at_most": means["at_most"] - theirs["at_least"],
            **dict.fromkeys(("low", "high", "p_value"), math.nan),
        }
        if args.group is not None:
            settings: dict[str, Any] = {"confidence_level": args.confidence_level, "bounds": (0, 1)}
            comparison = compare_per_query(columns["estimate"], others["estimate"], **settings).to_dict()
            result.compared |= {name: comparison[name] for name in ("low", "high", "p_value")}
            result.reasons += [f"comparison: {comparison['reason']}"] if comparison["reason"] else []
        elif not is_undefined:
            result.reasons.append(_NO_COMPARISON)
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


def _interval(
    args: argparse.Namespace, measure: Measure, system: _System, estimate: Tensor, level: float
) -> dict[str, Tensor]:
    """Return the interval of the mean over groups, (1,), or of each ranking, (S,), with bins as ties; or NaN."""
    if args.group is not None:
        mean = mean_interval(estimate, confidence_level=level, n_resamples=args.n_resamples)
        return {"low": mean.low[None], "high": mean.high[None]}
    is_plain = measure.kind == "ap" and measure.k is None and not system.curve.weighted
    if not is_plain or args.ties not in (None, "grouped"):
        return dict.fromkeys(("low", "high"), torch.full_like(estimate, math.nan))
    intervals = curve_interval(system.curve, PLAIN, InferenceSettings(level))
    return {"low": intervals.low, "high": intervals.high}
