"""Options of ``torch-ap trec`` and options shared by the sub-commands.

The modules of options do not import torch, so that help appears quickly.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from torch_ap.core.base.messages import short_repr
from torch_ap.retrieval.runs.measure_names import CONVENTIONS, DEFAULT_MEASURES, KNOWN, QRELS_FORM, RUN_FORM

CONFIDENCE_LEVEL = 0.95
_NEGATIVE = re.compile(r"-\.?\d.*")  # argparse takes "-1,2" for a value, so that the rule of the option is reported
_PAGES = (".html", ".htm", ".md")

Subparsers: TypeAlias = "argparse._SubParsersAction[Any]"

_CONVENTION = (
    "order of tied scores. trec10 (default) and trec9: as these versions of trec_eval, documents descending, scores in "
    "double or single precision, interpolated precision cut at round(l m) or int(l m + 0.9) hits. The others: rules "
    "for ties without an order, with neither iprec nor 11pt_avg"
)
_COMPARE = (
    "compare each run with the first, the baseline, over their common queries: mean difference, its t interval, cut "
    "off at the largest possible difference, and p-values of the paired t test and of Fisher's randomization test; of "
    "gm_map: ratio of geometric means and its interval, from the logs of AP (at least 0.00001)"
)


class HelpFormatter(argparse.HelpFormatter):
    """Formatter that keeps paragraphs and indented lines, such as examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            paragraph if "\n  " in paragraph else super(HelpFormatter, self)._fill_text(paragraph, width, indent)
            for paragraph in text.split("\n\n")
        )


def add_command(subparsers: Subparsers, name: str, **texts: Any) -> argparse.ArgumentParser:
    """Add a sub-command; ``texts`` are its help, description and epilog."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, formatter_class=HelpFormatter, **texts)
    parser.set_defaults(command=name)
    parser._negative_number_matcher = _NEGATIVE
    return parser


def add_trec(subparsers: Subparsers) -> None:
    """Add ``torch-ap trec``."""
    parser = add_command(
        subparsers,
        "trec",
        help="measures of TREC runs",
        description="Compute measures of TREC runs from relevance judgements. Files are plain or gzip.",
        epilog=f"Measures: {', '.join(KNOWN)}, or trec_eval's names for them (P.5,10 is P_5 and P_10). map@k "
        "divides by all relevant documents, as trec_eval's map_cut; iprec@l is interpolated precision at recall l; F@k "
        "is F1 at k; set_ measures take the whole run; ndcg has the grades as gains, ndcg_exp 2^grade - 1. Names of "
        "trec_eval without a rank (P, ndcg_cut) mean its default ranks, official the measures that it prints by "
        "default.\n\n"
        "Examples:\n"
        "  torch-ap trec qrels.txt run.txt\n"
        "  torch-ap trec qrels.txt bm25.run dense.run -m map -m P@10 --compare\n"
        "  torch-ap trec qrels.txt run.txt.gz -m map@100 --per-query --csv > queries.csv\n"
        "  torch-ap trec qrels.txt run.txt -m map --interval --report run.html\n"
        "  retrieve | torch-ap trec qrels.txt - -m recip_rank --json",
    )
    parser.add_argument("qrels", metavar="QRELS", help=f"judgements: {QRELS_FORM}; - for standard input")
    parser.add_argument("runs", metavar="RUN", nargs="+", help=f"run: {RUN_FORM}; - for standard input")
    add_measures(parser, " ".join(DEFAULT_MEASURES))
    parser.add_argument("-q", "--per-query", action="store_true", help="add the value of each query")
    parser.add_argument(
        "-l", "--relevance-level", type=int, default=1, metavar="GRADE", help="lowest relevant grade (default: 1)"
    )
    parser.add_argument("-c", "--complete", action="store_true", help="count 0 for judged queries without documents")
    parser.add_argument("--convention", choices=CONVENTIONS, default="trec10", help=_CONVENTION)
    add_forms(parser)
    parser.add_argument("--compare", action="store_true", help=_COMPARE)
    text = "add the interval of each mean over queries, and its chance level: the mean over all orders of each ranking"
    parser.add_argument("--interval", action="store_true", help=text)
    add_report_path(parser, "the first measure of a run, or with --compare of two runs")
    resamples = "flips of the randomization test, and resamples of the interval"
    add_resampling(parser, 10_000, resamples, "compare", "interval", "report")
    add_allow_empty(parser, "a run without documents")


def add_measures(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--measure``, which can be repeated."""
    text = f"measure, repeatable (default: {default})"
    parser.add_argument("-m", "--measure", action="append", dest="measures", metavar="MEASURE", help=text)


def add_report_path(parser: argparse.ArgumentParser, content: str = "all results") -> None:
    """Add ``--report``, the path of a page."""
    text = f"also write a page with {content}, curves and warnings: .html, or .md for Markdown"
    parser.add_argument("--report", type=page_path, metavar="PATH", help=text)


def add_forms(parser: argparse.ArgumentParser) -> None:
    """Add the forms of results, which exclude each other."""
    form = parser.add_mutually_exclusive_group()
    for name, text in (("json", "JSON with all digits"), ("csv", "CSV with all digits"), ("markdown", "Markdown")):
        form.add_argument(f"--{name}", action="store_const", const=name, dest="form", help=f"write {text}")


def add_resampling(parser: argparse.ArgumentParser, count: int, resamples: str, *users: str) -> None:
    """Add options of resampling, which need at least one of the options ``users``."""
    text = f"nominal coverage of the intervals of {_join_options(users, 'and')} (default: {CONFIDENCE_LEVEL:g})"
    parser.add_argument("--confidence-level", type=confidence_level, metavar="LEVEL", help=text)
    parser.add_argument("--n-resamples", type=int_from_2, metavar="N", help=f"{resamples} (default: {count:,})")
    defaults = {"confidence_level": CONFIDENCE_LEVEL, "n_resamples": count}
    parser.set_defaults(defaults=defaults, needs=dict.fromkeys(defaults, users))


def fill_in_defaults(args: argparse.Namespace) -> argparse.Namespace:
    """Set the defaults of options that need others.

    ``args.needs`` maps an option to others, one of them required, ``args.defaults`` to its default.

    Raises:
        ValueError: if such an option is present without the others.
    """
    for name, users in args.needs.items():
        if getattr(args, name) is None:
            setattr(args, name, args.defaults.get(name))
        elif all(getattr(args, user) in (None, False) for user in users):
            raise ValueError(f"--{name.replace('_', '-')} has no meaning without {_join_options(users, 'or')}")
    return args


def _join_options(names: Sequence[str], word: str) -> str:
    *first, last = (f"--{name.replace('_', '-')}" for name in names)
    return f"{', '.join(first)} {word} {last}" if first else last


def add_allow_empty(parser: argparse.ArgumentParser, content: str) -> None:
    """Add ``--allow-empty``."""
    parser.add_argument("--allow-empty", action="store_true", help=f"accept {content}")


def require(is_valid: bool, rule: str, text: str) -> None:
    """Raise an error of argparse if the text of an option breaks its rule."""
    if not is_valid:
        raise argparse.ArgumentTypeError(f"{rule}, got {short_repr(text)}")


def page_path(text: str) -> str:
    """Return the path of a page, whose suffix names its form."""
    require(text.lower().endswith(_PAGES), f"must end in {', '.join(_PAGES)}", text)
    return text


def confidence_level(text: str) -> float:
    """Return a number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    require(0 < value < 1, "must be a number between 0 and 1, ends excluded", text)
    return value


def numbers(text: str) -> list[float]:
    """Return comma-separated numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between them, got {short_repr(text)}") from None


def int_from_2(text: str) -> int:
    """Return an int of at least 2."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    require(value >= 2, "must be an int of at least 2", text)
    return value
