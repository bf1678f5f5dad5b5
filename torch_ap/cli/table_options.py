"""Options of ``torch-ap score`` and ``torch-ap report``; without torch, as the other options."""

import argparse
from collections.abc import Sequence
from typing import Any

from torch_ap.cli.options import Parser, Subparsers, add_command, fraction, int_from_2, open_fraction, page_path
from torch_ap.core.columns.table_names import FORMATS, INTERPOLATED, OF_GROUPS, OF_ONE_RANKING
from torch_ap.retrieval.runs.measure_names import TIE_RULES

_FILE = (
    "CSV or TSV (the first line names the columns) or JSON Lines, also as gzip; Parquet, Arrow or NPZ; - for standard "
    "input. Several files, folders and patterns (quoted, as 'part-*.parquet') are read as one table, also as URIs of "
    "object stores (s3://, gs://), with pyarrow"
)
_EXACT = (
    "read a file of any length in bounded memory, and compute ap exactly: the rows are written to temporary files by "
    "ranges of scores, at most 17 bytes per row, and each range is sorted. For one ranking, without weights"
)
_TARGET = (
    "targets. One ranking: 0 and 1, or true and false. Groups: also grades, relevant from 1. Classes: the names of the "
    "score columns, or numbers from 0. Labels: as many columns as --preds, of 0 and 1"
)
_BASELINE = (
    "another system to compare with: a column of FILE with its scores, or a file, folder/, pattern or URI with the "
    "same columns and rows in the same order (with --group or --id in any order). Adds the difference FILE minus "
    "OTHER, its interval and its p-value"
)
_ID = (
    "id of each row, a name or a number: labels that may be wrong have the ids of their rows instead of numbers from "
    "1, and a file as --baseline can have its rows in any order"
)
_BEST = (
    "treat the columns of --preds as systems with the same targets: which is the best, its value corrected for the "
    "selection with a selection-adjusted interval, simultaneous intervals of all, and adjusted p-values of each system "
    "and the best, or with --baseline COL of each system and the baseline"
)
_PREVALENCE = "share of positive rows in the population, for ap; without it the share in FILE"
_SAMPLING_WEIGHTS = (
    "1 / probability with which each row was sampled, such as 100 for negatives of which 1%% were kept; the weights of "
    "ap, also of its interval"
)
_CHANCE_TEST = (
    "add the p-value of ap or ap@k, with --group of the mean, against random orders of the rows, and the mean and "
    "standard deviation over these orders. With --cluster, p is of a t test over the clusters"
)
_JUDGE = (
    "labels of a judge, such as a language model, or its probabilities, for all rows. --target may then be empty, and "
    "has human labels of a random sample of the rows: ap under human labels, its interval, and that of the human "
    "labels alone. With --group the means over the groups, a random sample of which has human labels of all rows; "
    "with probabilities the judge's values are means over 20 random labelings"
)
_SIMULTANEOUS = (
    "with --interval and --per-class: intervals that contain the values of all classes at once. With --report, of one "
    "ranking: a band that contains the whole curve"
)
_FIRST_LOOK = (
    "number of rows when the interval of ap was first computed, if that is repeated while rows are added: the "
    "intervals of all looks contain the value at once. With classes only those of --per-class, not of their mean"
)
_RESAMPLES = "resamples of measures whose interval has no formula: interpolated ap, --prevalence, --sampling-weights"
_BINS = (
    "read a file of any length in bounded memory: count the rows in at most N bins of scores (N bins for all groups "
    "together, or for each class), and give bounds for any order inside the bins. The result is exact while there are "
    "at most N distinct scores. Otherwise N/2 to N bins remain; with N = 65536 the bounds of one ranking are about "
    "0.0002 apart"
)


OTHER_SAMPLES = ("prevalence", "sampling_weights")  # options of rows that are no plain sample of the population
LABELS = ("judge", "false_positive_rate", "false_negative_rate")  # options of labels that are not the truth
_WITHOUT_LABELS = (
    "baseline", "cluster", "weights", *OTHER_SAMPLES, "normalization", "report", "per_class", "fail_below",
    "chance_test", "ties", "suspicious_labels", "per_group", "relevance_level", "simultaneous", "first_look", "id",
)  # fmt: skip


class _Files(argparse.Action):
    """Store the paths, and a text for messages."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:  # noqa: ARG002
        """Store ``files`` and ``file``."""
        namespace.files = values
        namespace.file = values[0] if len(values) == 1 else f"{values[0]} and {len(values) - 1} more"


def add_score(subparsers: Subparsers) -> None:
    """Add ``torch-ap score``."""
    parser = add_command(
        subparsers,
        "score",
        help="average precision of the columns of a table",
        description="Compute average precision of scores and targets in columns of a table: one ranking of all rows; "
        "with --group one ranking per group, and the mean over groups (MAP); with several columns of scores one "
        "ranking per class, and the mean over classes. Parquet and Arrow need pyarrow (extra `files`).",
        epilog=f"Measures: ap, ap@k; {', '.join(INTERPOLATED)} (interpolated); P@k, R@k, F@k, Rprec; of one ranking "
        f"{', '.join(OF_ONE_RANKING)} (relative to the share of positives); with --group {', '.join(OF_GROUPS)} (ndcg "
        "of grades, ndcg_exp of 2^grade - 1). map is ap.\n\n"
        "Examples:\n"
        "  torch-ap score predictions.csv --preds score --target label --interval\n"
        "  torch-ap score predictions.parquet --preds new --target label --baseline old -m ap -m P@100\n"
        "  torch-ap score ranked.jsonl --preds score --target relevant --group query -m map@10 --per-group\n"
        "  torch-ap score classes.npz --preds cat dog bird --target class --per-class --markdown\n"
        "  torch-ap score labels.csv --preds score --target human --judge model\n"
        "  torch-ap score epochs.csv --preds epoch1 epoch2 epoch3 --target label --best\n"
        "  torch-ap score 'part-*.parquet' --preds score --target label --exact\n"
        "  zcat huge.csv.gz | torch-ap score - --format csv --preds score --target label --bins 65536",
    )
    clustered = ("interval", "chance_test", "baseline", "fail_below", "best", "report")
    _add_columns(parser, clustered, named=("suspicious_labels", "report", "baseline"))
    parser.measures("ap")
    parser.flag("--per-group", "add the values of each group")
    parser.flag("--per-class", "add the values of each class or label")
    parser.flag("--interval", "add the interval of each value, and its chance level")
    parser.flag("--simultaneous", _SIMULTANEOUS)
    looks: dict[str, Any] = {"needs": ("interval", "fail_below"), "type": int_from_2, "metavar": "N"}
    parser.option("--first-look", _FIRST_LOOK, **looks)
    text = "add the targets that may be wrong, by how much ap would change if each were corrected; row 1 is the first"
    parser.flag("--suspicious-labels", text)
    parser.flag("--chance-test", _CHANCE_TEST)
    parser.flag("--best", _BEST)
    parser.option("--judge", _JUDGE, metavar="COL")
    for kind, other in (("positive", "negative"), ("negative", "positive")):
        text = f"share of the true {other}s with a {kind} label: ap of the true labels of one ranking, and its interval"
        parser.option(f"--false-{kind}-rate", text, type=fraction, metavar="RATE")
    parser.option("--prevalence", _PREVALENCE, type=open_fraction, metavar="SHARE")
    parser.option("--sampling-weights", _SAMPLING_WEIGHTS, metavar="COL")
    parser.report_path("the first measure")
    parser.option("--bins", _BINS, type=int_from_2, metavar="N")
    parser.flag("--exact", _EXACT)
    parser.option(
        "--spill", "folder of the temporary files (default: TMPDIR, or /tmp)", needs=("exact",), metavar="FOLDER"
    )
    parser.forms()
    users = ("interval", "baseline", "report", "fail_below")
    others = ("best", "judge", "false_positive_rate", "false_negative_rate")
    parser.resampling(1000, _RESAMPLES, *users, others=others, tests=("chance_test",))
    parser.gates("baseline")
    parser.exclusive += [(_WITHOUT_LABELS, LABELS), (OTHER_SAMPLES, ("cluster",))]


def add_report(subparsers: Subparsers) -> None:
    """Add ``torch-ap report``."""
    parser = add_command(
        subparsers,
        "report",
        help="a page on the scores of a table, HTML or Markdown",
        description="Write one page on the scores of a table: the value with its convention, interval and chance "
        "level, curves, operating points, all classes or groups, a comparison, and warnings. A page of HTML needs no "
        "network. Parquet and Arrow need pyarrow (extra `files`), HTML needs matplotlib (extra `plot`).",
        epilog="Examples:\n"
        "  torch-ap report predictions.csv --preds score --target label\n"
        "  torch-ap report predictions.parquet --preds new --target label --baseline old -o week12.html\n"
        "  torch-ap report ranked.jsonl --preds score --target relevant --group query -m map@10 -o queries.md\n"
        "  torch-ap report epochs.csv --preds epoch1 epoch2 epoch3 --target label --best -o training.html\n"
        "  torch-ap report runs.csv --preds new old older --target label --systems",
    )
    _add_columns(parser)
    parser.option("-m --measure", "a measure of torch-ap score (default: ap)", default="ap", metavar="MEASURE")
    text = "path of the page: .html, or .md for Markdown without pictures (default: report.html)"
    parser.option("-o --output", text, type=page_path, default="report.html", metavar="PATH")
    parser.option("--title", "title of the page (default: name of FILE)")
    text = "treat the columns of --preds as epochs of a training: all values, and the best one without its optimism"
    parser.flag("--best", text)
    parser.flag("--systems", "treat the columns of --preds as systems: compare the first with each of the others")
    parser.flag("--simultaneous", "draw a band that contains the whole curve of one ranking")
    parser.resampling(1000, _RESAMPLES)
    parser.gates("baseline")
    absent = (
        "first_look",
        *("bins", "interval", "per_group", "per_class", "report", "prevalence", "sampling_weights"),
        *("suspicious_labels", "chance_test", "exact", *LABELS),
    )
    parser.set_defaults(**dict.fromkeys(absent))


def add_explain(subparsers: Subparsers) -> None:
    """Add ``torch-ap explain``."""
    parser = add_command(
        subparsers,
        "explain",
        help="which average precision a number is, and why two programs differ",
        description="Compute the average precision of a table, of a run or of detections under the conventions of many "
        "programs, name those that equal a reported number, and split the difference of two into steps.",
        epilog="Examples:\n"
        "  torch-ap explain predictions.csv --preds score --target label --reported 0.7833\n"
        "  torch-ap explain predictions.csv --preds score --target label --from scikit-learn --to XGBoost\n"
        "  torch-ap explain qrels.txt run.txt --top-k 10 --reported 0.412\n"
        "  torch-ap explain instances_val2017.json results.json --from COCO --to 'ultralytics mAP50-95'",
    )
    text = "a table (as for score), or judgements and a run (as for trec), or two JSON files (as for coco, boxes)"
    parser.option("data", text, metavar="DATA", nargs="+")
    parser.option("--preds", "with a table: scores; several columns: one per class", nargs="+", metavar="COL")
    parser.option("--target", "with a table: targets, as for score", nargs="+", metavar="COL")
    text = "number to identify, in [0, 1] or a percentage above 1; trailing zeros are digits"
    parser.option("--reported", text, metavar="NUMBER")
    text = "convention where the steps begin (default: the first one)"
    parser.option("--from", text, dest="first", metavar="NAME")
    text = "convention where the steps end (default: the first one that equals --reported)"
    parser.option("--to", text, dest="second", metavar="NAME")
    parser.option("--top-k", "k of AP@k, for runs (default: 10)", type=int, default=10, metavar="K")
    text = "lowest relevant grade, for runs (default: 1)"
    parser.option("-l --relevance-level", text, type=int, default=1, metavar="GRADE")
    parser.option("--picture", "also draw the steps: .png, .svg or .pdf (extra `plot`)", metavar="PATH")
    parser.forms()


def _add_columns(parser: Parser, clustered: Sequence[str] = (), named: Sequence[str] = ()) -> None:
    """Add the file, its columns, and the convention; ``--cluster`` and ``--id`` need one of these options."""
    parser.option("file", _FILE, metavar="FILE", nargs="+", action=_Files)
    parser.option("--format", "format of FILE (default: from its suffix)", choices=FORMATS)
    text = "scores, higher is better; several columns, or one column of lists: one ranking per class"
    parser.option("--preds", text, required=True, nargs="+", metavar="COL")
    parser.option("--target", _TARGET, required=True, nargs="+", metavar="COL")
    parser.option("--pos-label", "positive target, for targets other than 0 and 1", metavar="VALUE")
    parser.option("--group", "query, user or image of each row", metavar="COL")
    parser.option("-l --relevance-level", "lowest relevant grade (default: 1)", type=int, metavar="GRADE")
    parser.option("--id", _ID, needs=named, metavar="COL")
    parser.option("--weights", "weights of the rows", metavar="COL")
    text = (
        "patient, user or site of each row, or with --group of each group: rows of a cluster may depend on each other"
    )
    parser.option("--cluster", f"{text}; for intervals and comparisons", needs=clustered, metavar="COL")
    parser.option("--baseline", _BASELINE, metavar="OTHER")
    parser.option("--ties", "rule for equal scores (default: grouped; with --group: expected)", choices=TIE_RULES)
    text = "divisor of ap@k: min(k, m) (default), all m relevant rows, or those found in the top k"
    parser.option("--denominator", text, choices=("min", "relevant", "found"))
    text = "normalization of the scores of classes before the ranking"
    parser.option("--normalization", text, choices=("softmax", "sigmoid", "none"))
