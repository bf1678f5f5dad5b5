"""``torch-ap score --best``: the best of several columns of scores with the same targets."""

import argparse

from torch_ap.cli import table_inputs
from torch_ap.cli.best import BestReport
from torch_ap.cli.table_values import evaluate_systems
from torch_ap.inference import best_of_metrics


def evaluate(args: argparse.Namespace) -> BestReport:
    """Read the columns, and return the best system of each measure.

    Raises:
        ValueError: for a measure of one ranking other than ap, which has no standard error here.
    """
    measures, table, columns, _ = inputs = table_inputs.read(args)
    for measure in measures if args.group is None else ():
        if measure.kind != "ap" or measure.k is not None:
            raise ValueError(f"--best is for ap of one ranking, and for means over --group, got {measure.name}")
    results = {}
    for measure in measures:
        systems = evaluate_systems(args, measure, columns)
        level = args.confidence_level
        results[measure.name] = best_of_metrics(systems, confidence_level=level, reference=args.baseline)
    if args.report is not None:
        from torch_ap.cli import report

        report.write(args, inputs, args.report)
    level = 1 if args.relevance_level is None else args.relevance_level
    positive = int((columns.target >= level).sum())
    facts = table_inputs.table_facts(args, table, len(columns.preds), positive, 0, labels=False)
    return BestReport(args, results, facts | table_inputs.count_of_clusters(columns), args.baseline)
