"""What is to be measured, and how: the settings of a call, checked once and kept for calls of the same."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch_ap.curve.convention import DENOMINATORS
from torch_ap.files import report
from torch_ap.files.report import Asked
from torch_ap.files.trec_names import CONVENTIONS
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse
from torch_ap.rules.options import MissingQueries, allowed
from torch_ap.runs import remarks
from torch_ap.runs.meanings import meaning
from torch_ap.runs.measured import Rules
from torch_ap.runtime import cached


@dataclass(frozen=True)
class Plan:
    """The settings of :func:`torch_ap.evaluate`.

    Attributes:
        measures: by name; one that is given once has the name that it was given.
        rules: how runs are judged.
        missing_queries: what a judged query without documents counts as.
        confidence_level: of the intervals.
        conventions: (name as asked, what the measure is in words).
        notes: on names by which others mean something else.
    """

    measures: tuple[Asked, ...]
    rules: Rules
    missing_queries: str
    confidence_level: float
    conventions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def plan_of(measures: Any, *settings: Any) -> Plan:
    """The plan of these measures, by name or ir_measures' own; the settings are those of :func:`_plan`."""
    several = isinstance(measures, Iterable) and not isinstance(measures, str)
    names = tuple(map(str, measures)) if several else (str(measures),)
    if not names:
        refuse("measures", "must name at least one", measures)
    return _plan(names, *settings)


@cached.settings_cache
def _plan(
    names: tuple[str, ...],
    relevance_level: int,
    ties: str,
    denominator: str,
    missing_queries: str,
    confidence_level: float,
) -> Plan:
    checks.one_of("ties", ties, CONVENTIONS)
    checks.one_of("denominator", denominator, DENOMINATORS)
    checks.one_of("missing_queries", missing_queries, allowed(MissingQueries))
    checks.positive_int("relevance_level", relevance_level)
    found: dict[str, Asked] = {}
    for name in names:
        each = report.asked(name, relevance_level)
        found |= {x.asked: x for x in each} if len(each) > 1 else {name: replace(each[0], asked=name)}
    for x in found.values():
        checks.positive_int("relevance_level", x.level)
        report.check(x.name, ties)
    return Plan(
        tuple(found.values()),
        Rules(ties, missing_queries == "neg", denominator),
        missing_queries,
        checks.open_fraction("confidence_level", confidence_level),
        tuple((x.asked, meaning(x.name, ties, denominator)) for x in found.values()),
        tuple(remarks.on_conventions(list(found.values()), denominator)),
    )
