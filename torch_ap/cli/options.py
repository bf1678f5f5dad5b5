"""Options of ``torch-ap trec`` and options shared by the sub-commands.

The modules of options do not import torch, so that help appears quickly.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeAlias

from torch_ap.cli.notes import emit, note
from torch_ap.core.base.messages import LONGEST, short_repr
from torch_ap.retrieval.runs.measure_names import CONVENTIONS, DEFAULT_MEASURES, KNOWN, QRELS_FORM, RUN_FORM

CONFIDENCE_LEVEL = 0.95
GATES = ("fail_below", "fail_if_worse")
_NEGATIVE = re.compile(r"-\.?\d.*")  # "-1,2" is a value, so that the error states the rule of its option
_PAGES = (".html", ".htm", ".md")

Subparsers: TypeAlias = "argparse._SubParsersAction[Any]"

_CONVENTION = (
    "order of documents with equal scores. trec10 (default) and trec9: as in trec_eval 10 and 9, by name in descending "
    "order, with scores in double or single precision and interpolated precision cut at round(l m) or int(l m + 0.9) "
    "hits. The others are rules for ties without an order, with neither iprec nor 11pt_avg"
)
_COMPARE = (
    "compare each run with the first run, or with BASELINE, over their common queries: mean difference, its t interval "
    "(cut off at the largest possible difference), and p-values of the paired t test and of Fisher's randomization "
    "test. For gm_map: ratio of the geometric means and its interval, from the logs of AP (at least 0.00001)"
)


_BEST_RUN = (
    "over the common queries of several runs: which run is the best, its value corrected for the selection with a "
    "selection-adjusted interval, simultaneous intervals of all, and adjusted p-values of each run and the best"
)


class HelpFormatter(argparse.HelpFormatter):
    """Formatter that keeps paragraphs and indented lines, such as examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            paragraph if "\n  " in paragraph else super(HelpFormatter, self)._fill_text(paragraph, width, indent)
            for paragraph in text.split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """Parser of a command, with errors of one line and options that need other options.

    Attributes:
        needs: by the name of an option, its default and the options of which it needs one.
        exclusive: pairs of lists of options; no option of the first can be combined with one of the second.
    """

    def __init__(self, **texts: Any) -> None:
        super().__init__(formatter_class=HelpFormatter, **texts)
        self.needs: dict[str, tuple[Any, Sequence[str]]] = {}
        self.exclusive: list[tuple[Sequence[str], Sequence[str]]] = []

    def option(self, names: str, text: str, *, needs: Sequence[str] = (), default: Any = None, **settings: Any) -> None:
        """Add an argument.

        Args:
            names: its names with spaces between them.
            text: its help.
            needs: names of options; without any of them, this option is an error.
            default: default; replaced by :func:`fill_in_defaults` if there are ``needs``.
            settings: further arguments of ``add_argument``.
        """
        action = self.add_argument(*names.split(), help=text, default=None if needs else default, **settings)
        if needs:
            self.needs[action.dest] = (default, needs)

    def flag(self, names: str, text: str) -> None:
        """Add an option without a value."""
        self.add_argument(*names.split(), action="store_true", help=text)

    def forms(self) -> None:
        """Add the forms of results, which exclude each other."""
        group = self.add_mutually_exclusive_group()
        for name, text in (("json", "JSON with all digits"), ("csv", "CSV with all digits"), ("markdown", "Markdown")):
            group.add_argument(f"--{name}", action="store_const", const=name, dest="form", help=f"write {text}")

    def measures(self, default: str) -> None:
        """Add ``--measure``, which can be repeated."""
        text = f"measure, repeatable (default: {default})"
        self.option("-m --measure", text, action="append", dest="measures", metavar="MEASURE")

    def report_path(self, content: str = "all results") -> None:
        """Add ``--report``, the path of a page."""
        text = f"also write a page with {content}, curves and warnings: .html, or .md for Markdown"
        self.option("--report", text, type=page_path, metavar="PATH")

    def gates(self, baseline: str) -> None:
        """Add the gates; ``baseline`` is the option that ``--fail-if-worse`` needs."""
        text = (
            "gate for CI, repeatable: exit with status 1 if the data show that the measure is below the bound, 3 if "
            "its interval contains the bound"
        )
        self.option("--fail-below", text, action="append", type=measure_bound, metavar="MEASURE=BOUND")
        text = (
            f"gate for CI: exit with status 1 if the paired test of {option_of(baseline)} shows that a measure is "
            "lower by more than MARGIN (default: 0), 3 if it cannot tell. Holm's procedure allows for several gates"
        )
        self.option("--fail-if-worse", text, needs=(baseline,), nargs="?", const=0.0, type=margin, metavar="MARGIN")
        text = "also write the gates as JUnit XML: undecided gates are skipped tests"
        self.option("--junit", text, needs=GATES, metavar="PATH")

    def resampling(
        self, count: int, resamples: str, *users: str, others: Sequence[str] = (), tests: Sequence[str] = ()
    ) -> None:
        """Add the options of intervals.

        Args:
            count: default number of resamples.
            resamples: help of the number of resamples.
            users: options with resamples, of which the options of intervals need one; none for intervals in any case.
            others: further options with intervals.
            tests: further options with resamples and without intervals.
        """
        content = f"the intervals of {_join_options(users, 'and')}" if users else "intervals"
        text = f"nominal coverage of {content} (default: {CONFIDENCE_LEVEL:g})"
        settings: dict[str, Any] = {"type": open_fraction, "default": CONFIDENCE_LEVEL, "metavar": "LEVEL"}
        self.option("--confidence-level", text, needs=(*users, *others), **settings)
        text = f"{resamples} (default: {count:,})"
        needs = (*users, *tests) if users else ()
        self.option("--n-resamples", text, needs=needs, default=count, type=int_from_2, metavar="N")

    def error(self, message: str) -> NoReturn:
        """Write the error as one line and exit with status 2."""
        short = re.sub(rf"'[^']{{{LONGEST},}}'|\S{{{LONGEST},}}", lambda word: short_repr(word[0].strip("'")), message)
        note(f"{short}; see {self.prog} --help")
        sys.exit(2)

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002
        """Write help or version on standard output; argparse itself would ignore errors of the stream."""
        emit(message.removesuffix("\n").split("\n"))


def add_command(subparsers: Subparsers, name: str, **texts: Any) -> Parser:
    """Add a sub-command; ``texts`` are its help, description and epilog."""
    parser: Parser = subparsers.add_parser(name, **texts)
    parser.set_defaults(command=name, needs=parser.needs, exclusive=parser.exclusive)
    parser._negative_number_matcher = _NEGATIVE
    return parser


def fill_in_defaults(args: argparse.Namespace) -> argparse.Namespace:
    """Set the defaults of options that need others; see :meth:`Parser.option`.

    Raises:
        ValueError: if such an option is present without the others, and for options that exclude each other.
    """
    for names, others in args.exclusive:
        for other in others:
            if _is_present(args, other):
                exclude_options(args, names, f"with {option_of(other)}", "cannot be combined")
    for name, (default, users) in args.needs.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif not any(_is_present(args, user) for user in users):
            raise ValueError(f"{option_of(name)} has no meaning without {_join_options(users, 'or')}")
    return args


def option_of(name: str) -> str:
    """Return the option of an attribute, as ``--n-resamples``."""
    return f"--{name.replace('_', '-')}"


def exclude_options(
    args: argparse.Namespace, names: Iterable[str], condition: str, verb: str = "has no meaning"
) -> None:
    """Raise ValueError for options that have no meaning under a condition, as "with --best"."""
    for name in names:
        if _is_present(args, name):
            raise ValueError(f"{option_of(name)} {verb} {condition}")


def _is_present(args: argparse.Namespace, name: str) -> bool:
    value = getattr(args, name)
    return value is not None and value is not False  # 0 is a value


def _join_options(names: Sequence[str], word: str) -> str:
    *first, last = map(option_of, names)
    return f"{', '.join(first)} {word} {last}" if first else last


def add_trec(subparsers: Subparsers) -> None:
    """Add ``torch-ap trec``."""
    parser = add_command(
        subparsers,
        "trec",
        help="measures of TREC runs",
        description="Compute measures of TREC runs from relevance judgements. Files are plain or gzip.",
        epilog=f"Measures: {', '.join(KNOWN)}, or trec_eval's names for them (P.5,10 is P_5 and P_10). map@k "
        "divides by all relevant documents, as trec_eval's map_cut; iprec@l is interpolated precision at recall l; F@k "
        "is F1 at k; measures with set_ use the whole run; the gains of ndcg are the grades, of ndcg_exp 2^grade - 1. "
        "Names of trec_eval without a rank (P, ndcg_cut) mean its default ranks; official means the measures that it "
        "prints by default.\n\n"
        "Examples:\n"
        "  torch-ap trec qrels.txt run.txt\n"
        "  torch-ap trec qrels.txt bm25.run dense.run -m map -m P@10 --compare\n"
        "  torch-ap trec qrels.txt run.txt.gz -m map@100 --per-query --csv > queries.csv\n"
        "  torch-ap trec qrels.txt run.txt -m map --interval --report run.html\n"
        "  torch-ap trec human.qrels run.txt -m map --judge model.qrels\n"
        "  retrieve | torch-ap trec qrels.txt - -m recip_rank --json",
    )
    parser.option("qrels", f"judgements: {QRELS_FORM}; - for standard input", metavar="QRELS")
    parser.option("runs", f"run: {RUN_FORM}; - for standard input", metavar="RUN", nargs="+")
    parser.measures(" ".join(DEFAULT_MEASURES))
    parser.flag("-q --per-query", "add the value of each query")
    parser.option("-l --relevance-level", "lowest relevant grade (default: 1)", type=int, default=1, metavar="GRADE")
    parser.flag("-c --complete", "count 0 for judged queries without documents")
    parser.flag("-J --judged-only", "leave documents without a judgement out of the rankings (condensed lists)")
    parser.option("--convention", _CONVENTION, choices=CONVENTIONS, default="trec10")
    parser.forms()
    parser.option("--compare", _COMPARE, metavar="BASELINE", nargs="?", const=True)
    parser.flag("--best", _BEST_RUN)
    text = "add the interval of each mean over queries, and its chance level: the mean over all orders of each ranking"
    parser.flag("--interval", text)
    text = "with --interval: intervals that contain the values of all measures of a run at once"
    parser.option("--simultaneous", text, needs=("interval",), default=False, action="store_true")
    text = (
        "add the p-value of MAP, or map@k, against random orders of the retrieved documents of each query, and the "
        "mean and standard deviation over these orders. With --cluster, p is of a t test over the clusters"
    )
    parser.flag("--chance-test", text)
    text = "add documents without a judgement in the first 10 ranks, by how much map would change if each were relevant"
    parser.flag("--suspicious-labels", text)
    text = "lines `query cluster`: queries of a topic or user may depend on each other in intervals and comparisons"
    clustered = ("interval", "chance_test", "compare", "fail_below", "best", "report")
    parser.option("--cluster", text, needs=clustered, metavar="FILE")
    text = (
        "judgements of a judge, such as a language model, of all queries of one run, where QRELS has human judgements "
        "of a random sample of them: the means under human judgements, their intervals, and those of the humans alone"
    )
    parser.option("--judge", text, metavar="FILE")
    parser.report_path("the first measure of a run, or with --compare of several runs")
    resamples = "flips of the randomization test, resamples of the interval, and random orders"
    users = ("compare", "interval", "report")
    parser.resampling(10_000, resamples, *users, others=("fail_below", "best", "judge"), tests=("chance_test",))
    parser.gates("compare")
    parser.flag("--allow-empty", "accept a run without documents")


def add_plan(subparsers: Subparsers) -> None:
    """Add ``torch-ap plan``."""
    parser = add_command(
        subparsers,
        "plan",
        help="how many positives, queries or images an evaluation needs",
        description="Plan a test set from printed results of a pilot: the number of positives (or queries, or images) "
        "for a half width of the interval, or the power of a paired comparison. The range is for the error of the "
        "pilot.",
        epilog="Examples:\n"
        "  torch-ap plan --ap 0.62 --units 80 --half-width 0.05 0.02\n"
        "  torch-ap plan --interval 0.55 0.71 --units 80 --half-width 0.02 --json\n"
        "  torch-ap plan --difference -0.01 0.07 --units 80 --gap 0.02 --planned-units 80 200 500",
    )
    parser.option("--ap", "printed AP; its interval is that of Boyd, Eng & Page", type=share, metavar="AP")
    parser.option(
        "--interval", "printed interval of any measure in [0, 1]", type=float, nargs=2, metavar=("LOW", "HIGH")
    )
    text = "printed interval of the difference of two systems"
    parser.option("--difference", text, type=float, nargs=2, metavar=("LOW", "HIGH"))
    text = "positives (or queries, or images) of the pilot; clusters, if the interval is over clusters"
    parser.option("--units", text, type=int_from_2, required=True, metavar="N")
    parser.option("--half-width", "half widths of the interval, below 0.5", type=half_width, nargs="+", metavar="W")
    parser.option("--gap", "true difference that the comparison should find", type=gap, metavar="D")
    parser.option("--power", "power of the comparison (default: 0.8)", type=open_fraction, default=0.8, metavar="P")
    text = "numbers of units whose power is printed (default: that of the pilot)"
    parser.option("--planned-units", text, type=int_from_2, nargs="+", metavar="N")
    text = f"nominal coverage of the printed interval (default: {CONFIDENCE_LEVEL:g})"
    parser.option("--confidence-level", text, type=open_fraction, default=CONFIDENCE_LEVEL, metavar="LEVEL")
    parser.option("--picture", "also draw the plan: .png, .svg or .pdf (extra `plot`)", metavar="PATH")
    parser.forms()


def require(is_valid: bool, rule: str, text: str) -> None:
    """Raise an error of argparse if the text of an option breaks its rule."""
    if not is_valid:
        raise argparse.ArgumentTypeError(f"{rule}, got {short_repr(text)}")


def page_path(text: str) -> str:
    """Return the path of a page, whose suffix names its form."""
    require(text.lower().endswith(_PAGES), f"must end in {', '.join(_PAGES)}", text)
    return text


def _number_where(text: str, is_valid: Callable[[float], bool], rule: str) -> float:
    """Return a number that fulfils a rule."""
    value = _number(text)
    require(is_valid(value), f"must be a number {rule}", text)
    return value


def open_fraction(text: str) -> float:
    """Return a number between 0 and 1, ends excluded."""
    return _number_where(text, lambda x: 0 < x < 1, "between 0 and 1, ends excluded")


def fraction(text: str) -> float:
    """Return a number between 0 and 1, 1 excluded."""
    return _number_where(text, lambda x: 0 <= x < 1, "of at least 0 and below 1")


def share(text: str) -> float:
    """Return a number between 0 and 1, ends included."""
    return _number_where(text, lambda x: 0 <= x <= 1, "in [0, 1]")


def half_width(text: str) -> float:
    """Return a number between 0 and 0.5, ends excluded."""
    return _number_where(text, lambda x: 0 < x < 0.5, "above 0 and below 0.5")


def gap(text: str) -> float:
    """Return a number between -1 and 1 other than 0."""
    return _number_where(text, lambda x: 0 < abs(x) <= 1, "in [-1, 1] other than 0")


def numbers(text: str) -> list[float]:
    """Return comma-separated numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between them, got {short_repr(text)}") from None


def measure_bound(text: str) -> tuple[str, float]:
    """Return the measure and the bound of a text such as ``map=0.42``."""
    name, _, bound = text.rpartition("=")
    value = _number(bound)
    require(name != "" and math.isfinite(value), "must be MEASURE=BOUND, as map=0.42", text)
    return name, value


def margin(text: str) -> float:
    """Return a finite number of at least 0."""
    return abs(_number_where(text, lambda x: 0 <= x < math.inf, "of at least 0"))  # -0.0


def _number(text: str) -> float:
    """Return the number, or NaN for other text, which no comparison accepts."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def int_from_2(text: str) -> int:
    """Return an int of at least 2."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    require(value >= 2, "must be an int of at least 2", text)
    return value
