"""``torch-ap score --exact``: the exact AP of a table of any length in bounded memory, by way of temporary files."""

import argparse
import math
import tempfile
from typing import Any

import numpy as np

from torch_ap.cli import table_inputs
from torch_ap.cli.options import exclude_options
from torch_ap.cli.progress import Bar
from torch_ap.cli.table_results import NO_POSITIVE, MeasureResult, TableReport
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.measures.ranges import divide_by_hits, sum_precisions
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking.pairwise import reduce_piece, sum_pieces
from torch_ap.core.ranking.spill import SpilledItems, check_space

_UNSUPPORTED = (
    *("bins", "group", "weights", "baseline", "interval", "fail_below"),
    *(
        "report",
        "per_class",
        "simultaneous",
        "normalization",
        "best",
        "prevalence",
        "sampling_weights",
        "suspicious_labels",
        "id",
    ),
)
_ROW_BYTES = 17  # a score and a target in a file, and a term of the sum
_CHUNK = 1 << 20  # terms that are added in one step


def evaluate(args: argparse.Namespace) -> TableReport:
    """Divide the rows into ranges of scores, sort each range, and return the AP of all rows.

    Raises:
        OSError: if the temporary folder has too little space.
        ValueError: for options that need all rows in memory.
    """
    exclude_options(args, _UNSUPPORTED, "with --exact, which ranks all rows once")
    measures, table = table_inputs.prepare(args)
    for measure in measures:
        if not (measure.formula.is_average_precision and measure.formula.has_bounds):
            raise ValueError(f"--exact computes ap and ap@k without --denominator found, not {measure.name}")
    folder = args.spill or tempfile.gettempdir()
    check_space(folder, _ROW_BYTES * (table.count_rows() or 0))
    with SpilledItems(folder) as items, Bar(args.file) as bar:
        for batch in table.batches(bar):
            if batch.preds.ndim == 2:
                raise ValueError(f"{args.file}: --exact needs one column of scores, got lists")
            items.add(batch.preds, batch.target)
        values = _average_precisions(items, measures, folder)
    results = {}
    for measure, value in zip(measures, values, strict=True):
        results[measure.name] = MeasureResult({"value": value}, reasons=[NO_POSITIVE] if math.isnan(value) else [])
    facts = table_inputs.table_facts(args, table, items.items, items.hits, 0, labels=False)
    return TableReport(args, results, facts, tie_rule(args.ties or "grouped").clause)


def _average_precisions(items: SpilledItems, measures: list[Measure], folder: str) -> list[float]:
    """Return the value of each measure. The terms of the sum over hits are written to files, and added at the end."""
    above, whole = (0, 0), (items.items, items.hits)
    files = [tempfile.TemporaryFile(dir=folder) for _ in measures]  # noqa: SIM115
    try:
        for curve in items.curves():
            for measure, file in zip(measures, files, strict=True):
                formula: Any = measure.formula
                sum_precisions(curve, above, whole, formula).tofile(file)
            above = above[0] + int(curve.n[0]), above[1] + int(curve.m[0])
        return [divide_by_hits(_sum(x), items.hits, y.formula) for x, y in zip(files, measures, strict=True)]  # type: ignore[arg-type]
    finally:
        for file in files:
            file.close()


def _sum(file: Any) -> float:
    """Return the sum of the float64 numbers in a file, with the bits of NumPy's sum of all."""
    total = file.tell() // 8
    file.seek(0)
    chunks = range(0, total, _CHUNK)
    return sum_pieces([reduce_piece(np.fromfile(file, np.float64, _CHUNK), first, total) for first in chunks], total)
