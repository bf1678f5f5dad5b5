"""Measures over judged runs, by name.

| name | trec_eval's name | measure |
|---|---|---|
| map, map@k | map, map_cut_k | AP; AP@k, divided by m |
| gm_map | gm_map | AP, whose aggregate is the geometric mean with a floor of 0.00001 |
| ndcg, ndcg@k | ndcg, ndcg_cut_k | nDCG of the grades, whatever the relevance level |
| ndcg_exp, ndcg_exp@k | | nDCG of gains 2^grade - 1 |
| bpref, infAP | bpref, infAP | binary preference, inferred AP: measures of judged documents |
| P@k, R@k | P_k, recall_k | precision and recall at k |
| F@k | | F1 at k |
| Rprec | Rprec | precision at m |
| recip_rank, recip_rank@k | recip_rank | 1 / (rank of the first relevant document) |
| RBP, RBP@k | | rank-biased precision with persistence .8, or another, as in RBP(p=0.5); rbp.50 in ranx |
| ERR, ERR@k | | expected reciprocal rank, by default of grades up to 4, or of others, as in ERR(max_grade=2) |
| dcg, dcg@k, dcg_exp, dcg_exp@k | | DCG of the grades, or of gains 2^grade - 1 |
| hits, hits@k | | number of relevant documents |
| R_cap@k | relative_P_k | relevant documents in the top k, divided by their largest possible number |
| Judged, Judged@k | | share of the documents that have a judgement |
| success@k | success_k | whether a relevant document is in the top k |
| iprec@l | iprec_at_recall_l | interpolated precision from recall l on |
| 11pt_avg | 11pt_avg | mean of iprec at 0, 0.1, ..., 1 |
| set_P, set_recall, set_F | set_P, set_recall, set_F | precision, recall and F1 of all retrieved documents |
| set_map, set_relative_P | set_map, set_relative_P | precision times recall, precision by its largest possible value |
| num_ret, num_rel, num_rel_ret | num_ret, ... | documents retrieved, relevant, both; aggregated to sums |
| num_nonrel_judged_ret | num_nonrel_judged_ret | documents retrieved and judged not relevant; likewise |
| num_q | num_q | number of queries |
| official | official | the default measures of trec_eval |
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import cached
from torch_ap.core.base.messages import short_repr, suggest_measure
from torch_ap.core.base.record import Record
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.measure import Measure
from torch_ap.core.measures.names import MEASURES, TOTALS, NamedMeasure, name_of, parse, rank_of
from torch_ap.core.ranking.order import Array
from torch_ap.retrieval.measures import words
from torch_ap.retrieval.measures.at_rank import PrecisionAtRecall
from torch_ap.retrieval.measures.judged import BPref, InferredAP, JudgedShare
from torch_ap.retrieval.runs.judged import Judged
from torch_ap.retrieval.runs.measure_names import COUNTS, IR_MEASURES, KNOWN, OFFICIAL, TREC_CONVENTIONS
from torch_ap.retrieval.settings import floored_logs

_RANX = re.compile(r"(?P<name>.*?)(?:-l(?P<level>[0-9]{1,9}))?", re.DOTALL)
_ABOVE_LEVELS = 10**9  # grades are below
_BY_NAME = {x.name: x for x in MEASURES if x.in_runs}
_GEOMETRIC = {x.name for x in MEASURES if x.aggregation == "gm"}
_BY_TREC_NAME = {x.trec_name: x for x in MEASURES if x.trec_name}


class _Fields(NamedTuple):
    queries: list[Any]
    values: Any
    aggregate: float
    geometric: bool = False
    counted: bool = False
    is_share: bool = True
    upper_bound: float = 1.0


class Result(Record, _Fields):
    """One measure of one run.

    Attributes:
        queries: Q names; empty for the number of queries.
        values: (Q,) float64, one per query; 0 for a query without relevant documents. Lists and arrays are converted on
            use, because small evaluations rarely use them.
        aggregate: mean over the queries, for gm_map the geometric mean, for counts the sum; NaN without queries.
        geometric: whether the aggregate is a geometric mean.
        counted: whether the values are counts, which have no mean.
        is_share: whether all values are in [0, 1].
        upper_bound: the largest possible value for rankings of at most as many documents, for shares.
    """

    __slots__ = ()
    # tensors have no truth value, and fields have no order
    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__
    __lt__, __le__, __gt__, __ge__ = object.__lt__, object.__le__, object.__gt__, object.__ge__  # type: ignore[operator]

    def __repr__(self) -> str:
        """Return the fields as text, with values as a tensor in every case."""
        return _Fields.__repr__(self._replace(values=self.values))

    @property
    def values(self) -> Tensor:
        """(Q,) one value per query."""
        values = self[1]
        return torch.tensor(values, dtype=torch.float64) if isinstance(values, list) else torch.as_tensor(values)

    def with_values(self, queries: list[Any], values: Tensor) -> "Result":
        """Return the result of the measure for other queries."""
        if self.counted:
            aggregate: float = int(values.sum())
        else:
            aggregate = _geometric_mean(values) if self.geometric else _means([values.numpy()], len(queries))[0]
        return self._replace(queries=queries, values=values, aggregate=aggregate)

    def with_some(self, other: "Result") -> "Result":
        """Return the result with the values of another result for its queries."""
        places, values = {query: place for place, query in enumerate(self.queries)}, self.values.clone()
        values[[places[query] for query in other.queries]] = other.values
        return self.with_values(self.queries, values)

    def reorder(self, queries: list[Any]) -> "Result":
        """Return the result for some of the queries, in this order."""
        if not self.queries:
            return self._replace(aggregate=len(queries) if self.counted else math.nan)
        if queries == self.queries:
            return self
        places = {query: place for place, query in enumerate(self.queries)}
        return self.with_values(queries, self.values[[places[query] for query in queries]])


@dataclass(frozen=True)
class RequestedMeasure:
    """A requested measure.

    Attributes:
        requested_name: the name in results.
        name: a name in the table above.
        level: the lowest relevant grade.
        judged_only: whether documents without a judgement are left out of the rankings.
    """

    requested_name: str
    name: str
    level: int
    judged_only: bool = False

    @property
    def view(self) -> tuple[int, bool]:
        """The settings that select a judged run."""
        return self.level, self.judged_only


def requested_measures(
    requested: str, relevance_level: int = 1, *, judged_only: bool = False
) -> list[RequestedMeasure]:
    """Return the measures of a name.

    In trec_eval, "P.5,10" means P_5 and P_10, and "P" means P_5 to P_1000. Any other name, also of ir_measures and
    ranx, means one measure. In ranx, "map@10-l2" is AP(rel=2)@10, and "rbp.95" is RBP(p=0.95).

    Args:
        requested: the name.
        relevance_level: the lowest relevant grade of a name that does not contain it, as "AP(rel=2)" does.
        judged_only: whether documents without a judgement are left out, unless the name contains ``judged_only``.

    Raises:
        ValueError: for an unknown name.
    """
    if requested == "official":
        return [y for x in OFFICIAL for y in requested_measures(x, relevance_level, judged_only=judged_only)]
    of_ranx = _RANX.fullmatch(requested)
    assert of_ranx is not None
    given, level = of_ranx["name"], _level(None if of_ranx["level"] is None else int(of_ranx["level"]), requested)
    name = re.sub(r"^rbp\.(\d+)$", r"RBP(p=0.\1)", given)
    parts = parse(name)
    if parts is not None and (parts.at is not None or parts.parameters or parts.kind not in _BY_TREC_NAME):
        entry = next((x for x in MEASURES if x.in_runs and x.is_called(parts)), None)
        if entry is not None:
            level = _level(parts.parameters.get("rel", level), requested)
            judged_only = parts.parameters.get("judged_only", judged_only)
            if not isinstance(judged_only, bool):
                raise ValueError(f"measure {short_repr(requested)}: judged_only must be True or False")
            parameters = entry.own_parameters(parts, requested, ("rel", "judged_only"))
            name = name_of(entry.name, parameters, parts.at)
    kind, dot, rest = name.partition(".")
    trec = _BY_TREC_NAME.get(kind)
    names = [f"{kind}_{at}" for at in (rest.split(",") if dot else trec.cuts)] if trec else [name]
    if level is not None and names == ["num_ret"]:
        names = ["num_rel_ret"]  # as in ir_measures: relevance has a meaning only with a level
    measures = []
    for name in names:
        levelless = not _parse_known(name, requested).entry.takes_level
        if levelless and level is not None:
            raise ValueError(f"measure {short_repr(requested)} must have no `rel`: {name} does not depend on relevance")
        lowest = 1 if levelless else relevance_level if level is None else level
        measures.append(RequestedMeasure(name if trec else requested, name, lowest, judged_only))
    return measures


def _level(level: Any, requested: str) -> int | None:
    if level is not None and (isinstance(level, bool) or not isinstance(level, int) or not 0 <= level < _ABOVE_LEVELS):
        raise ValueError(f"measure {short_repr(requested)}: rel must be an int of at least 1, got {short_repr(level)}")
    return level


class BoundMeasure(NamedTuple):
    """A measure under the conventions of an evaluation.

    Attributes:
        requested_name: the name in results.
        name: a name in the table above.
        formula: the measure, if it takes one curve; None for counts and for measures of judged documents.
        is_count: whether the values are counts.
        geometric: whether the aggregate is a geometric mean.
        is_share: whether all values are in [0, 1].
    """

    requested_name: str
    name: str
    formula: Measure | None
    is_count: bool
    geometric: bool
    is_share: bool


def bind(requested: Mapping[str, str], convention: str, denominator: str = "relevant") -> list[BoundMeasure]:
    """Return measures that :func:`evaluate` accepts.

    Args:
        requested: names of measures in the table above, or in trec_eval, by their name in results.
        convention: the rule for tied scores of the judged run.
        denominator: divisor of AP@k; see :class:`torch_ap.Convention`.

    Raises:
        ValueError: for an unknown name, or a measure of trec_eval alone with another convention for ties.
    """
    bound = []
    for requested_name, name in requested.items():
        check(name, convention)
        is_count, is_share = name in COUNTS, name.partition("@")[0] not in TOTALS
        measure = None if is_count or needs_judgements(name) else formula(name, convention, denominator)
        bound.append(BoundMeasure(requested_name, name, measure, is_count, name in _GEOMETRIC, is_share))
    return bound


def evaluate(judged: Judged, measures: Sequence[BoundMeasure]) -> dict[str, Result]:
    """Return the measures of a judged run by their requested names, in their order.

    Args:
        judged: see :func:`torch_ap.retrieval.runs.judged.judge`.
        measures: the result of ``bind`` for the convention of the run.
    """
    queries, results = judged.queries, {}
    ranked = [x for x in measures if not x.is_count]
    rows = [_values(x.formula or measure_of(x.name, judged), judged) for x in ranked]
    for x, values, mean in zip(ranked, rows, _means(rows, len(queries)), strict=True):
        bound = _upper_bound(x.formula, judged)
        result = Result(queries, values, mean, x.geometric, is_share=x.is_share, upper_bound=bound)
        results[x.requested_name] = result.with_values(queries, result.values) if x.geometric else result
    if len(ranked) == len(measures):
        return results
    return {x.requested_name: results.get(x.requested_name) or _count_result(x.name, judged) for x in measures}


def _upper_bound(measure: Measure | None, judged: Judged) -> float:
    """Return the largest possible value for rankings of at most as many documents as the longest one."""
    if measure is None or not measure.has_depth_bound:
        return 1.0
    lists = judged.short_rankings
    if lists is not None:
        return measure.upper_bound(max([x.n for x in lists], default=1) or 1)
    lengths = judged.curve.n
    return measure.upper_bound(max(int(lengths.max()), 1) if len(lengths) else 1)


def _values(measure: Any, judged: Judged) -> list[float] | Array:
    """Return the value of each query: S floats; 0 if nothing is relevant."""
    lists = judged.short_graded_rankings if measure.graded else judged.short_rankings
    listed = None if lists is None else measure.values_of_lists(lists)
    if listed is not None:
        return listed if math.isfinite(sum(listed)) else [0.0 if x != x else x for x in listed]
    values = measure(judged.graded if measure.graded else judged.curve).numpy()
    return np.where(values == values, values, 0)


def _means(rows: Sequence[list[float] | Array], queries: int) -> list[float]:
    """Return the mean of each row of values of queries; NaN for rows without values."""
    if queries == 1:
        return [float(row[0]) for row in rows]
    if not queries:
        return [math.nan] * len(rows)
    means: list[float] = (np.add.reduce(np.array(rows).reshape(-1, queries), 1) / queries).tolist()
    return means


def _geometric_mean(values: Tensor) -> float:
    return floored_logs(values).mean().exp().item()


def _count_result(name: str, judged: Judged) -> Result:
    """Return the number of documents per query, or the number of queries."""
    if name == "num_q":
        return Result([], torch.zeros(0, dtype=torch.int64), len(judged.queries), counted=True, is_share=False)
    curve = judged.curve
    if name == "num_nonrel_judged_ret":
        values = judged.nonrelevant.hits_seen
    else:
        values = {"num_ret": curve.n, "num_rel": curve.m, "num_rel_ret": curve.hits_seen}[name]
    return Result(judged.queries, values, int(values.sum()), counted=True, is_share=False)


def measure_of(name: str, judged: Judged) -> Measure:
    """Return the measure of a name under the convention of the run; not for counts."""
    if name.partition("@")[0] in _JUDGED_MEASURES:
        entry, at, _ = _parse_known(name)
        return _JUDGED_MEASURES[entry.name](judged, at)
    return formula(name, judged.convention)


_JUDGED_MEASURES: dict[str, Callable[[Judged, float | None], Measure]] = {
    "bpref": lambda judged, _: BPref(judged.nonrelevant),
    "infAP": lambda judged, _: InferredAP(judged.nonrelevant, judged.unjudged),
    "Judged": lambda judged, at: JudgedShare(judged.judged, None if at is None else int(at)),
}


@cached.settings_cache
def check(name: str, convention: str) -> None:
    """Raise ValueError for a measure of trec_eval alone under another convention for ties."""
    if _parse_known(name).entry.is_trec_only and convention not in TREC_CONVENTIONS:
        raise ValueError(
            f"measure {short_repr(name)} is defined by trec_eval only: it needs `ties='trec9'` or `ties='trec10'`"
        )


@cached.settings_cache
def formula(name: str, convention: str, denominator: str = "relevant") -> Measure:
    """Return the measure of that name, if it takes one curve."""
    entry, at, parameters = _parse_known(name)
    if entry.name in _TREC_ONLY:
        return _TREC_ONLY[entry.name](9 if convention == "trec9" else 10, at)
    ties = "grouped" if convention in TREC_CONVENTIONS else convention  # trec_eval's order leaves no ties
    top_k = None if at is None else int(at)
    made: Measure = entry.make(ties=ties, top_k=top_k, denominator=denominator, parameters=dict(parameters))
    return made


_TREC_ONLY: dict[str, Callable[[int, float | None], Measure]] = {
    "iprec": lambda version, level: PrecisionAtRecall(level or 0.0, version),
    "11pt_avg": lambda version, _: Convention(None, "min", f"11-point-trec{version}", "grouped"),
}


@cached.settings_cache
def meaning(name: str, convention: str, denominator: str) -> str:
    """Return the description of a measure, with every setting that changes it."""
    entry = _parse_known(name).entry
    if entry.sentence:
        return entry.sentence
    order = convention if convention in TREC_CONVENTIONS else None
    return words.describe_over_queries(formula(name, convention, denominator), entry.aggregation, order)


def has_order(name: str, ties: str, denominator: str) -> bool:
    """Return whether a tie rule gives the lowest, mean or highest value of a measure over orders of tied documents."""
    entry = _parse_known(name).entry
    if name in COUNTS or entry.name in _JUDGED_MEASURES or entry.is_trec_only:
        return False
    measure = formula(name, "expected", denominator)
    return ties in measure.supported_ties and (measure.is_monotone or ties == "expected")


def needs_judgements(name: str) -> bool:
    """Return whether a measure needs more than a ranking and its relevant documents."""
    return _parse_known(name).entry.name in _JUDGED_MEASURES


def aggregation_of(name: str) -> str:
    """Return how the values of queries become one: "mean", "gm" or "sum"."""
    return _parse_known(name).entry.aggregation


class _Parsed(NamedTuple):
    entry: NamedMeasure
    at: float | None
    parameters: tuple[tuple[str, Any], ...]


@cached.settings_cache
def _parse_known(name: str, requested: str = "") -> _Parsed:
    """Return the measure of a name such as "P@5" or "P_5", its rank or level and its parameters.

    Raises:
        ValueError: for an unknown name; the message contains ``requested``.
    """
    parts = parse(name)
    kind, at = (parts.kind, parts.at) if parts else (name, None)
    entry = _BY_NAME.get(kind)
    if entry is None and at is None:
        kind, _, at = name.rpartition("_")
        entry = _BY_TREC_NAME.get(kind)
    if entry is not None and parts is not None:
        parameters = tuple(parts.parameters.items())
        if at is None and entry.is_plain:
            return _Parsed(entry, None, parameters)
        if at is not None and entry.cut == "k" and (k := rank_of(at)) is not None:
            return _Parsed(entry, k, parameters)
        if at is not None and entry.cut == "l" and at.replace(".", "", 1).isdecimal() and float(at) <= 1:
            return _Parsed(entry, float(at), parameters)
    rules = {"k": "; k must be a whole number of at least 1", "l": "; l must be in [0, 1]"}
    raise ValueError(
        f"unknown measure {short_repr(requested or name)}{_nearest(name)}{rules.get(entry.cut, '') if entry else ''}"
        f"; known are {', '.join(KNOWN)} with k of at least 1 and l in [0, 1], and the names of trec_eval and "
        f"ir_measures: {', '.join(IR_MEASURES)}"
    )


def _nearest(name: str) -> str:
    """Return a hint at the known name that is most similar to an unknown name."""
    ir_measures = (x for name in IR_MEASURES for x in (name, f"{name}@k"))
    return suggest_measure(name, [*ir_measures, *(f"{theirs}_k" for theirs in _BY_TREC_NAME), *KNOWN])
