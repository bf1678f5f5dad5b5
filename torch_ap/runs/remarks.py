"""What to know of numbers: what counts 0, or does not count, and how many there are of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch_ap.files.report import Asked
from torch_ap.files.trec_names import COUNTS
from torch_ap.rules.messages import warn_caller
from torch_ap.runs.judgements import Judgements
from torch_ap.runs.measured import Measured

_ONE = {"s": "s", "are": "is", "do": "does", "have": "has", "query": "query", "these": "this document", "them": "it"}
_MORE = {
    "s": "",
    "are": "are",
    "do": "do",
    "have": "have",
    "query": "queries",
    "these": "these documents",
    "each": "each",
}


def on_run(qrels: Judgements, run: Measured, name: str, complete: bool) -> Iterator[str]:
    """Of a run; what is hardly meant is a warning, too."""
    said = []
    if run.missing:
        missing, judged = len(run.missing), len(qrels.queries)
        what = "which count{s} 0" if complete else "which {are} left out"
        said.append(f"`{name}` has no documents for {missing:,} of {judged:,} judged queries, {_of(missing, what)}")
    if run.blind:
        alone = run.documents == 1
        said.append(
            f"{'the one document' if alone else f'none of the {run.documents:,} documents'} of `{name}` is "
            f"{'not ' if alone else ''}relevant"
        )
    if run.scores_are_ranks:
        said.append(f"the scores of the first query of `{name}` rise by one per document, as ranks do")
    for one in said:
        warn_caller(f"{one}.", UserWarning)
    yield from said
    if run.unjudged:
        yield f"`{name}` {of_unjudged(run.unjudged)}"
    if unjudged := run.documents - run.judged:
        which = f"{unjudged:,} of the {run.documents:,} documents" if run.documents > 1 else "the one document"
        yield f"{which} of `{name}` {_of(unjudged, '{have} no judgement, and {are} not relevant')}"


def on_judgements(qrels: Judgements, counted: Sequence[Any], measures: Sequence[Asked]) -> Iterator[str]:
    """Of the judgements, a warning too where nothing is relevant; ``counted`` are the queries that are not left out."""
    for level in levels_of(measures):
        if without := len(qrels.without(level).intersection(counted)):
            said = of_nothing_relevant(without, len(counted), level)
            if without == len(counted):
                warn_caller(f"{said}.", UserWarning)
            yield said
    negative, grades = qrels.negative()
    if negative:
        yield f"{negative:,} of {grades:,} grades {_of(negative, '{are} negative: {these} {are} not relevant')}"


def levels_of(measures: Sequence[Asked]) -> list[int]:
    """The lowest relevant grades of measures that are no counts."""
    return list(dict.fromkeys(x.level for x in measures if x.name not in COUNTS))


def of_unjudged(queries: int) -> str:
    """Of a run that has so many queries without judgements."""
    return f"has {queries:,} {_of(queries, '{query} without judgements, which {do} not count')}"


def of_nothing_relevant(without: int, judged: int, level: int) -> str:
    """Of so many of the judged queries nothing is relevant."""
    what = _of(without, "{have} no document of grade {level} or more, and count{s} 0", level)
    return f"{without:,} of {judged:,} judged queries {what}"


def on_left_out(qrels: Judgements, counted: Sequence[Any]) -> Iterator[str]:
    """Of queries that no run is measured by, for one of them lacks documents; ``counted`` are the others."""
    if left_out := len(qrels.queries) - len(counted):
        what = _of(left_out, "{are} left out of all, for not every run has documents for {them}")
        yield f"{left_out:,} of {len(qrels.queries):,} judged queries {what}"


def on_conventions(measures: Sequence[Asked], denominator: str) -> Iterator[str]:
    """Of names by which others mean something else."""
    cut = [x.asked for x in measures if x.name.startswith(("map@", "map_cut_"))]
    divisor = {"relevant": "all relevant documents", "min": "k or all relevant documents, whichever are fewer"}
    if cut:
        found = divisor.get(denominator, "the relevant documents in the top k")
        yield f"{', '.join(cut)}: divided by {found} (`denominator={denominator!r}`)"


def _of(count: int, words: str, level: int = 1) -> str:
    """The words as they are of one or of more."""
    return words.format(level=level, **(_ONE if count == 1 else _MORE))
