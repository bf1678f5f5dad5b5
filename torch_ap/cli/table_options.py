"""What the sub-commands of tables take. This module does not import torch, so that help appears at once."""

import argparse

from torch_ap.cli.options import (
    CONFIDENCE_LEVEL,
    Subparsers,
    add_command,
    add_forms,
    add_report_path,
    add_resampling,
    confidence_level,
    page,
    whole,
)
from torch_ap.files.table_names import FORMATS, INTERPOLATED

_BASELINE = (
    "another system: a column of FILE with its scores, or a file with the same columns, and rows in the same order (of "
    "groups in any); what the values of FILE are above its, with interval and p-value"
)
_RESAMPLES = "resamples of interpolated measures, whose interval has no formula"
_BINS = (
    "read any length in bounded memory: counts in at most N bins of scores (of all groups together; of each class), "
    "and the bounds that they leave for any order inside the bins. Exact while there are at most N different scores; "
    "of more, bins are merged until half are left whenever they are full, so that N/2 to N remain; 65536 leave about "
    "0.0002 for one ranking"
)


def add_score(subparsers: Subparsers) -> None:
    """``torch-ap score``."""
    parser = add_command(
        subparsers,
        "score",
        help="average precision of the columns of a table",
        description="Average precision of scores and targets that are columns of a table: one ranking of all rows; "
        "with --group one per group, and the mean over groups (MAP); with several columns of scores one per class, and "
        "the mean over classes. Tables need pyarrow (extra `files`).",
        epilog=f"Measures: ap, ap@k; {', '.join(INTERPOLATED)} (interpolated); P@k, R@k, F@k, Rprec; with --group also "
        "recip_rank, recip_rank@k, success@k, ndcg, ndcg@k (of grades; ndcg_exp: of 2^grade - 1). map is ap.\n\n"
        "Examples:\n"
        "  torch-ap score predictions.csv --preds score --target label --interval\n"
        "  torch-ap score predictions.parquet --preds new --target label --baseline old -m ap -m P@100\n"
        "  torch-ap score ranked.jsonl --preds score --target relevant --group query -m map@10 --per-group\n"
        "  torch-ap score classes.npz --preds cat dog bird --target class --per-class --markdown\n"
        "  zcat huge.csv.gz | torch-ap score - --format csv --preds score --target label --bins 65536",
    )
    _add_table(parser)
    said = "repeatable; default: ap"
    parser.add_argument("-m", "--measure", action="append", dest="measures", metavar="MEASURE", help=said)
    parser.add_argument("--per-group", action="store_true", help="the values of each group too")
    parser.add_argument("--per-class", action="store_true", help="the values of each class or label too")
    parser.add_argument("--interval", action="store_true", help="the interval of each value, and its chance level")
    add_report_path(parser, "the first measure")
    parser.add_argument("--bins", type=whole, metavar="N", help=_BINS)
    add_forms(parser)
    add_resampling(parser, 1000, _RESAMPLES, "interval", "baseline", "report")


def add_report(subparsers: Subparsers) -> None:
    """``torch-ap report``."""
    parser = add_command(
        subparsers,
        "report",
        help="a page on the scores of such a table, HTML or Markdown",
        description="Writes one page on the scores of a table: the value with its convention, interval and chance "
        "level, curves, operating points, all classes or groups, a comparison, and warnings. A page of HTML is "
        "read without any network. Tables need pyarrow (extra `files`), HTML needs matplotlib (extra `plot`).",
        epilog="Examples:\n"
        "  torch-ap report predictions.csv --preds score --target label\n"
        "  torch-ap report predictions.parquet --preds new --target label --baseline old -o week12.html\n"
        "  torch-ap report ranked.jsonl --preds score --target relevant --group query -m map@10 -o queries.md",
    )
    _add_table(parser)
    said = "one of those of torch-ap score; default: ap"
    parser.add_argument("-m", "--measure", default="ap", metavar="MEASURE", help=said)
    said = "where to: .html, or .md for Markdown without pictures; default report.html"
    parser.add_argument("-o", "--output", type=page, default="report.html", metavar="PATH", help=said)
    parser.add_argument("--title", help="of the page; default: name of FILE")
    said = f"nominal coverage of intervals; default {CONFIDENCE_LEVEL:g}"
    parser.add_argument("--confidence-level", type=confidence_level, default=CONFIDENCE_LEVEL, help=said)
    parser.add_argument("--n-resamples", type=whole, default=1000, metavar="N", help=f"{_RESAMPLES}; default 1,000")
    none = dict.fromkeys(("bins", "per_group", "per_class", "report"))
    parser.set_defaults(defaults={}, of=(), **none)


def _add_table(parser: argparse.ArgumentParser) -> None:
    """Which columns of which file."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="CSV or TSV (the first line names the columns), JSON Lines (these gzip, too), Parquet, Arrow or NPZ; - "
        "for standard input",
    )
    parser.add_argument("--format", choices=FORMATS, help="of FILE; default: what its suffix says")
    said = "scores, the higher the better; several columns, or one of lists: one per class"
    parser.add_argument("--preds", required=True, nargs="+", metavar="COL", help=said)
    said = (
        "0 and 1, or true and false; of groups grades, relevant from 1 on; of classes their names, as the columns are "
        "called, or their numbers from 0; or as many columns as --preds, of 0 and 1 (labels)"
    )
    parser.add_argument("--target", required=True, nargs="+", metavar="COL", help=said)
    parser.add_argument("--pos-label", metavar="VALUE", help="the target that is positive, where they are not 0 and 1")
    parser.add_argument("--group", metavar="COL", help="the query, user or image that a row belongs to")
    parser.add_argument("-l", "--relevance-level", type=int, metavar="GRADE", help="of groups: lowest relevant grade")
    parser.add_argument("--weights", metavar="COL", help="weights of the rows")
    parser.add_argument("--baseline", metavar="OTHER", help=_BASELINE)
    choices = ("grouped", "expected", "optimistic", "pessimistic")
    said = "how equal scores count; default grouped, of groups expected"
    parser.add_argument("--ties", choices=choices, help=said)
    said = "what ap@k divides by: min(k, m) (default), all m relevant, or those found in the top k"
    parser.add_argument("--denominator", choices=("min", "relevant", "found"), help=said)
    said = "of the scores of classes, before they are ranked"
    parser.add_argument("--normalization", choices=("softmax", "sigmoid", "none"), help=said)
