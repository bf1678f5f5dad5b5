"""What the sub-commands take; those of tables and of images have modules of their own. None imports torch, so that help
appears at once.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from torch_ap.files.trec_names import CONVENTIONS, DEFAULT_MEASURES, KNOWN, QRELS_FORM, RUN_FORM
from torch_ap.rules.messages import shown

CONFIDENCE_LEVEL = 0.95
_NEGATIVE = re.compile(r"-\.?\d.*")  # "-1,2" is a value, whose rule is told, and no option
_PAGES = (".html", ".htm", ".md")

Subparsers: TypeAlias = "argparse._SubParsersAction[Any]"

_CONVENTION = (
    "how tied scores are ordered: trec10 (default) and trec9 as these versions of trec_eval, documents descending, "
    "scores in double or single precision, interpolated precision cut at round(l m) or int(l m + 0.9) hits; the others "
    "as rules for ties without an order, under which there is neither iprec nor 11pt_avg"
)
_COMPARE = (
    "each run minus the first, the baseline, over the queries that both have: mean difference, its t interval, cut off "
    "where no two values differ by more, and p-values of the paired t test and of Fisher's randomization test. "
    "For gm_map the ratio of geometric means and its interval, by the same of the logs of AP (0.00001 at least)"
)


class HelpFormatter(argparse.HelpFormatter):
    """Paragraphs stay apart, and lines that are indented stay as they are: examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            paragraph if "\n  " in paragraph else super(HelpFormatter, self)._fill_text(paragraph, width, indent)
            for paragraph in paragraphs
        )


def add_command(subparsers: Subparsers, name: str, **texts: Any) -> argparse.ArgumentParser:
    """The parser of a sub-command; ``texts`` are its help, description and epilog."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, formatter_class=HelpFormatter, **texts)
    parser.set_defaults(command=name)
    parser._negative_number_matcher = _NEGATIVE
    return parser


def add_trec(subparsers: Subparsers) -> None:
    """``torch-ap trec``."""
    parser = add_command(
        subparsers,
        "trec",
        help="measures of TREC runs against judgements",
        description="Measures of TREC runs against judgements. Files are plain or gzip.",
        epilog=f"Measures: {', '.join(KNOWN)}, or trec_eval's names for them (P.5,10 is P_5 and P_10). map@k "
        "divides by all relevant documents, as trec_eval's map_cut; iprec@l is interpolated precision at recall l; F@k "
        "is F1 at k; set_ measures take the whole run; ndcg has the grades as gains, ndcg_exp 2^grade - 1. Names of "
        "trec_eval without a rank (P, ndcg_cut) stand for its usual ranks, official for what it prints by itself.\n\n"
        "Examples:\n"
        "  torch-ap trec qrels.txt run.txt\n"
        "  torch-ap trec qrels.txt bm25.run dense.run -m map -m P@10 --compare\n"
        "  torch-ap trec qrels.txt run.txt.gz -m map@100 --per-query --csv > queries.csv\n"
        "  torch-ap trec qrels.txt run.txt -m map --interval --report run.html\n"
        "  retrieve | torch-ap trec qrels.txt - -m recip_rank --json",
    )
    parser.add_argument("qrels", metavar="QRELS", help=f"judgements: {QRELS_FORM}; - for standard input")
    parser.add_argument("runs", metavar="RUN", nargs="+", help=f"run: {RUN_FORM}; - likewise")
    said = f"repeatable; default: {' '.join(DEFAULT_MEASURES)}"
    parser.add_argument("-m", "--measure", action="append", dest="measures", metavar="MEASURE", help=said)
    parser.add_argument("-q", "--per-query", action="store_true", help="the value of each query too")
    parser.add_argument("-l", "--relevance-level", type=int, default=1, metavar="GRADE", help="lowest relevant grade")
    parser.add_argument("-c", "--complete", action="store_true", help="judged queries that a run lacks count 0")
    parser.add_argument("--convention", choices=CONVENTIONS, default="trec10", help=_CONVENTION)
    add_forms(parser)
    parser.add_argument("--compare", action="store_true", help=_COMPARE)
    said = "the interval of each mean over its queries, and its chance level: the mean over all orders of each ranking"
    parser.add_argument("--interval", action="store_true", help=said)
    add_report_path(parser, "the first measure of a run, or with --compare of two")
    add_resampling(
        parser,
        10_000,
        "flips of the randomization test, and resamples of the interval",
        "compare",
        "interval",
        "report",
    )
    add_allow_empty(parser, "a run without documents")


def add_report_path(parser: argparse.ArgumentParser, of: str = "all of this") -> None:
    """The page beside the results."""
    said = f"also write a page with {of}, curves and warnings: .html, or .md for Markdown"
    parser.add_argument("--report", type=page, metavar="PATH", help=said)


def add_forms(parser: argparse.ArgumentParser) -> None:
    """The forms of results."""
    form = parser.add_mutually_exclusive_group()
    for name, said in (("json", "as JSON, all digits"), ("csv", "as CSV, all digits"), ("markdown", "as Markdown")):
        form.add_argument(f"--{name}", action="store_const", const=name, dest="form", help=said)


def page(text: str) -> str:
    """The path of a page, whose suffix says what it is."""
    if not text.lower().endswith(_PAGES):
        raise argparse.ArgumentTypeError(f"must end in {', '.join(_PAGES)}, got {shown(text)}")
    return text


def add_resampling(parser: argparse.ArgumentParser, count: int, what: str, *of: str) -> None:
    """Options of resampling, which mean something only beside one of others."""
    _add_confidence_level(parser, *of)
    parser.add_argument("--n-resamples", type=whole, metavar="N", help=f"{what}; default {count:,}")
    parser.set_defaults(defaults={"confidence_level": CONFIDENCE_LEVEL, "n_resamples": count})


def _add_confidence_level(parser: argparse.ArgumentParser, *of: str) -> None:
    """An option that means something only beside one of others."""
    said = f"nominal coverage of the intervals of {_listed(of, 'and')}; default {CONFIDENCE_LEVEL:g}"
    parser.add_argument("--confidence-level", type=confidence_level, metavar="LEVEL", help=said)
    parser.set_defaults(defaults={"confidence_level": CONFIDENCE_LEVEL}, of=of, also={})


def _listed(options: Sequence[str], word: str) -> str:
    *some, last = (f"--{x.replace('_', '-')}" for x in options)
    return f"{', '.join(some)} {word} {last}" if some else last


def filled_in(args: argparse.Namespace) -> argparse.Namespace:
    """The arguments with the defaults of those that mean something only beside others.

    Raises:
        ValueError: where one of them is given without the others.
    """
    for name, other in vars(args).get("needs", {}).items():
        if getattr(args, name) is not None and not getattr(args, other):
            raise ValueError(f"--{name} has no meaning without {_listed([other], '')}")
    for name, default in args.defaults.items():
        of = (*args.of, *args.also.get(name, ()))
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif all(getattr(args, other) in (None, False) for other in of):
            raise ValueError(f"--{name.replace('_', '-')} has no meaning without {_listed(of, 'or')}")
    return args


def confidence_level(text: str) -> float:
    """A number between 0 and 1, by the rule of the functions' argument of this name."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, ends excluded, got {shown(text)}")
    return value


def numbers(text: str) -> list[float]:
    """Numbers with commas between them; their range is a rule of the functions' argument."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between them, got {shown(text)}") from None


def whole(text: str) -> int:
    """A whole number of at least 2."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be an int of at least 2, got {shown(text)}")
    return value


def add_allow_empty(parser: argparse.ArgumentParser, what: str) -> None:
    """What finds nothing is an error without it."""
    parser.add_argument("--allow-empty", action="store_true", help=f"{what} is not an error")
