"""Notes and warnings on an evaluation: items that count 0 or do not count, and their number."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from torch_ap.core.base.messages import warn_caller
from torch_ap.retrieval.runs.judged import Judgements
from torch_ap.retrieval.runs.measure_names import COUNTS
from torch_ap.retrieval.runs.measured import ORDERS, Measured
from torch_ap.retrieval.runs.names import RequestedMeasure

_DIVISORS = {
    "relevant": "all relevant documents",
    "min": "k or all relevant documents, whichever are fewer",
    "found": "the relevant documents in the top k",
}
_MOST_RANGES = 3  # measures in one note
_SAME_MEAN = 1e-12  # closer means are equal
_FORMS = (  # in the singular and in the plural
    {"s": "s", "are": "is", "do": "does", "have": "has", "query": "query", "these": "this document", "them": "it"},
    {"s": "", "are": "are", "do": "do", "have": "have", "query": "queries", "these": "these documents", "them": "them"},
)


def run_notes(qrels: Judgements, run: Measured, name: str, complete: bool, counted: Sequence[Any]) -> Iterator[str]:
    """Yield the notes on a run; probable mistakes are also warnings. ``counted`` are the queries that count."""
    warnings = []
    if run.missing:
        missing, judged = len(run.missing), len(qrels.queries)
        effect = _inflect(missing, "which count{s} 0" if complete else "which {are} left out")
        warnings.append(f"`{name}` has no documents for {missing:,} of {judged:,} judged queries, {effect}")
    documents = run.documents.documents
    if run.blind_level is not None:
        subject = "the one document" if documents == 1 else f"none of the {documents:,} documents"
        warnings.append(f"{subject} of `{name}` is {'not ' if documents == 1 else ''}relevant{describe_level(run)}")
    if run.scores_are_ranks:
        warnings.append(f"the scores of the first query of `{name}` rise by one per document, as ranks do")
    for text in warnings:
        warn_caller(f"{text}.", UserWarning)
    yield from warnings
    if run.unjudged:
        yield f"`{name}` {describe_unjudged(run.unjudged)}"
    if run.by_name:
        yield f"`{name}` {describe_name_ties(run.by_name)}{describe_orders(run, list(counted))}"
    if unjudged := documents - run.documents.judged:
        subject = f"{unjudged:,} of the {documents:,} documents" if documents > 1 else "the one document"
        yield f"{subject} of `{name}` {_inflect(unjudged, '{have} no judgement, and {are} not relevant')}"


def judgement_notes(qrels: Judgements, counted: Sequence[Any], measures: Sequence[RequestedMeasure]) -> Iterator[str]:
    """Yield the notes on the judgements, and warn if nothing is relevant; ``counted`` are the queries that count."""
    for level in levels_of(measures):
        if without := len(qrels.queries_without(level).intersection(counted)):
            note = describe_without_relevant(without, len(counted), level)
            if without == len(counted):
                warn_caller(f"{note}.", UserWarning)
            yield note
    negative, grades = qrels.count_negative()
    if negative:
        yield f"{negative:,} of {grades:,} grades {_inflect(negative, '{are} negative: {these} {are} not relevant')}"


def levels_of(measures: Sequence[RequestedMeasure]) -> list[int]:
    """Return the lowest relevant grades of the measures that are not counts."""
    return list(dict.fromkeys(x.level for x in measures if x.name not in COUNTS))


def describe_level(run: Measured) -> str:
    """Return the end of a sentence about the grade that no document has; "" for measures with one relevant grade."""
    return f" at grade {run.blind_level} or more" if len(run.counts) > 1 else ""


def describe_unjudged(queries: int) -> str:
    """Return the end of a sentence about a run with this number of queries without judgements."""
    return f"has {queries:,} {_inflect(queries, '{query} without judgements, which {do} not count')}"


def describe_name_ties(queries: int) -> str:
    """Return the end of a sentence about a run where the order of names decides the ranks in some queries."""
    return (
        f"has tied scores in {queries:,} {_inflect(queries, '{query}')}, where the order of the documents' names "
        "decides between relevant and other documents: descending as text, so that 'd9' precedes 'd10'"
    )


def describe_orders(run: Measured, counted: list[Any] | None = None) -> str:
    """Return the end of a sentence with the range of the measures that depend on the order; "" if there is none.

    The range is unknown if hits first and hits last are not the extreme orders.

    Args:
        run: measures of a run.
        counted: queries that count; None for all queries of the run.
    """
    ranges = []
    for name, result in run.results.items():
        results = [result, *(run.by_order.get(rule, {}).get(name) for rule in ORDERS)]
        value, low, mean, high = (
            math.nan if x is None else (x if counted is None else x.reorder(counted)).aggregate for x in results
        )
        if high - low > _SAME_MEAN:
            expected = "" if math.isnan(mean) else f", on average {mean:.4f}"
            ranges.append(f"{name} is {value:.4f}, in other orders {low:.4f} to {high:.4f}{expected}")
        elif math.isnan(high) and abs(value - mean) > _SAME_MEAN:
            ranges.append(f"{name} is {value:.4f}, over all orders on average {mean:.4f}")
    rest = f"; and {len(ranges) - _MOST_RANGES} more" if len(ranges) > _MOST_RANGES else ""
    return f": {'; '.join(ranges[:_MOST_RANGES])}{rest}" if ranges else ""


def describe_without_relevant(without: int, judged: int, level: int) -> str:
    """Return the sentence on judged queries without a relevant document."""
    predicate = _inflect(without, "{have} no document of grade {level} or more, and count{s} 0", level)
    return f"{without:,} of {judged:,} judged queries {predicate}"


def left_out_notes(qrels: Judgements, counted: Sequence[Any]) -> Iterator[str]:
    """Yield the note on queries that are left out for all runs because one run has no documents for them."""
    if left_out := len(qrels.queries) - len(counted):
        predicate = _inflect(left_out, "{are} left out of all runs, because some run has no documents for {them}")
        yield f"{left_out:,} of {len(qrels.queries):,} judged queries {predicate}"


def convention_notes(measures: Sequence[RequestedMeasure], denominator: str) -> Iterator[str]:
    """Yield notes on names that have several meanings."""
    cut = [x.requested_name for x in measures if x.name.startswith(("map@", "map_cut_"))]
    if cut:
        yield f"{', '.join(cut)}: divided by {_DIVISORS[denominator]} (`denominator={denominator!r}`)"


def _inflect(count: int, words: str, level: int = 1) -> str:
    """Return a text with the forms of its words for this count."""
    return words.format(level=level, **_FORMS[count != 1])
