"""Measures over judged runs, by the names that reports give them.

| name | trec_eval's name | measure |
|---|---|---|
| map, map@k | map, map_cut_k | AP; AP@k, divided by m |
| gm_map | gm_map | AP, whose aggregate is the geometric mean with a floor of 0.00001 |
| ndcg, ndcg@k | ndcg, ndcg_cut_k | nDCG of the grades, whatever the relevance level |
| ndcg_exp, ndcg_exp@k | | nDCG of gains 2^grade - 1 |
| bpref, infAP | the same | binary preference, inferred AP: of documents that were judged |
| P@k, R@k | P_k, recall_k | precision and recall at k |
| F@k | | F1 at k |
| Rprec | Rprec | precision at m |
| recip_rank, recip_rank@k | recip_rank | 1 / (rank of the first relevant document) |
| success@k | success_k | whether a relevant document is in the top k |
| iprec@l | iprec_at_recall_l | interpolated precision from recall l on |
| 11pt_avg | 11pt_avg | mean of iprec at 0, 0.1, ..., 1 |
| set_P, set_recall, set_F | the same | precision, recall and F1 of all that was retrieved |
| num_ret, num_rel, num_rel_ret | the same | documents retrieved, relevant, both; their aggregate is the sum |
| num_q | num_q | how many queries there are |
| official | official | those that trec_eval prints where none is asked for |
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.judgements import BPref, InferredAP
from torch_ap.curve.measures import AtRank, FirstHit, PrecisionAtRecall, RPrecision
from torch_ap.evaluation.queries import floored_logs
from torch_ap.files.judged import Judged
from torch_ap.files.trec_names import (
    AT_RANK,
    COUNTS,
    DEFAULTS,
    GAINS,
    IR_MEASURES,
    KNOWN,
    LEVELLESS,
    OF_TREC_EVAL,
    OFFICIAL,
    PLAIN,
    TREC_CONVENTIONS,
    TREC_NAMES,
)
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.rules.messages import nearest_measure, shown
from torch_ap.runtime import cached

_EXPONENTIAL = "nDCG(dcg='exp-log2')", "ndcg_exp"  # ir_measures' name, and ours


@dataclass(frozen=True, eq=False)
class Result:
    """One measure of one run.

    Attributes:
        queries: Q names; none for the number of queries.
        values: (Q,) float64, one per query; 0 for a query without relevant documents.
        aggregate: the mean over the queries, for gm_map the geometric mean, of counts the sum; NaN without queries.
        geometric: whether the aggregate is a geometric mean.
        counted: whether the values are counts, which have no mean.
    """

    queries: list[Any]
    values: Tensor
    aggregate: float
    geometric: bool = False
    counted: bool = False

    def of(self, queries: list[Any], values: Tensor) -> "Result":
        """The same measure of these queries."""
        if self.counted:
            aggregate: float = int(values.sum())
        else:
            aggregate = _geometric_mean(values) if self.geometric else _means(values.numpy()[None])[0]
        return replace(self, queries=queries, values=values, aggregate=aggregate)

    def in_order(self, queries: list[Any]) -> "Result":
        """The same of some of these queries, in this order."""
        if not self.queries:
            return replace(self, aggregate=len(queries) if self.counted else math.nan)
        if queries == self.queries:
            return self
        places = {query: place for place, query in enumerate(self.queries)}
        return self.of(queries, self.values[[places[query] for query in queries]])


@dataclass(frozen=True)
class Asked:
    """A measure that was asked for.

    Attributes:
        asked: the name that results know it by.
        name: a name in the table above.
        level: the lowest relevant grade.
    """

    asked: str
    name: str
    level: int


def asked(given: str, relevance_level: int = 1) -> list[Asked]:
    """The measures that a name stands for in trec_eval: "P.5,10" are P_5 and P_10, "P" is P_5 to P_1000. Any other
    name, also of ir_measures, stands for itself.

    Args:
        given: the name.
        relevance_level: the lowest relevant grade, where the name does not say it, as "AP(rel=2)" does.

    Raises:
        ValueError: for a name that is not known.
    """
    if given == "official":
        return [one for x in OFFICIAL for one in asked(x, relevance_level)]
    parsed = re.fullmatch(r"(\w+?)(?:\(rel=([0-9]{1,9})\))?(@.+)?", given.replace(*_EXPONENTIAL))
    kind, level, at = parsed.groups(default="") if parsed else (given, "", "")
    name = IR_MEASURES.get(kind, kind) + at if parsed and (at or level or kind not in TREC_NAMES) else given
    kind, dot, rest = name.partition(".")
    names = [f"{kind}_{at}" for at in (rest.split(",") if dot else DEFAULTS[kind])] if kind in TREC_NAMES else [name]
    if level and names == ["num_ret"]:
        names = ["num_rel_ret"]  # as in ir_measures: only without a level relevance does not matter
    found = []
    for one in names:
        levelless = _parsed(one, given)[0] in LEVELLESS
        if levelless and level:
            raise ValueError(f"measure {shown(given)} must have no `rel`: {one} is the same whatever is relevant")
        lowest = 1 if levelless else int(level or relevance_level)
        found.append(Asked(one if kind in TREC_NAMES else given, one, lowest))
    return found


def evaluate(judged: Judged, names: Sequence[str], *, denominator: str = "relevant") -> dict[str, Result]:
    """Measures of a judged run, by name.

    Args:
        judged: of :func:`torch_ap.files.judged.judge`.
        names: of measures, as in the table above, or trec_eval's own.
        denominator: what AP@k divides by; see :class:`torch_ap.Convention`.

    Returns:
        A result for each name, in their order.

    Raises:
        ValueError: for an unknown name, or a measure that is trec_eval's alone with a convention that is not.
    """
    for name in names:
        check(name, judged.convention)
    of_ranks = [name for name in names if name not in COUNTS]
    values = np.array([_values(measure_of(name, judged, denominator), judged) for name in of_ranks], np.float64)
    values = values.reshape(len(of_ranks), len(judged.queries))  # where there are none of either, too
    values[values != values] = 0  # where nothing is relevant
    rows = zip(of_ranks, map(torch.from_numpy, values), _means(values), strict=True)
    found = {name: _result(name, judged.queries, row, mean) for name, row, mean in rows}
    return found if len(found) == len(names) else {name: found.get(name) or _counts(name, judged) for name in names}


def _values(measure: Any, judged: Judged) -> Any:
    """(S,) the value of each query."""
    graded = isinstance(measure, NormalizedDCG)
    few = judged.few_graded if graded else judged.few
    if few is not None and hasattr(measure, "of_few"):
        found = measure.of_few(few)
        if found is not None:
            return found
    return measure(judged.graded if graded else judged.curve).numpy()


def _result(name: str, queries: list[Any], values: Tensor, mean: float) -> Result:
    if name != "gm_map":
        return Result(queries, values, mean)
    return Result(queries, values, _geometric_mean(values), geometric=True)


def _means(values: Array) -> list[float]:
    """The mean of each row; NaN of rows without values."""
    queries = values.shape[1]
    return (np.add.reduce(values, 1) / queries).tolist() if queries else [math.nan] * len(values)


def _geometric_mean(values: Tensor) -> float:
    return floored_logs(values).mean().exp().item()


def _counts(name: str, judged: Judged) -> Result:
    """How many documents, or queries, there are; of queries only all together."""
    if name == "num_q":
        return Result([], torch.zeros(0, dtype=torch.int64), len(judged.queries), counted=True)
    curve = judged.curve
    values = {"num_ret": curve.n, "num_rel": curve.m, "num_rel_ret": curve.hits_seen}[name]
    return Result(judged.queries, values, int(values.sum()), counted=True)


def measure_of(name: str, judged: Judged, denominator: str = "relevant") -> Callable[[HitCurve], Tensor]:
    """The measure of that name under the run's convention, but for counts."""
    if name == "bpref":
        return BPref(judged.nonrelevant)
    if name == "infAP":
        return InferredAP(judged.nonrelevant, judged.unjudged)
    return formula(name, judged.convention, denominator)


@cached.settings_cache
def check(name: str, convention: str) -> None:
    """Refuse a measure that is trec_eval's alone under a convention that is not."""
    if _parsed(name)[0] in OF_TREC_EVAL and convention not in TREC_CONVENTIONS:
        raise ValueError(f"measure {shown(name)} is trec_eval's: it needs ties as in trec9 or trec10")


@cached.settings_cache
def formula(name: str, convention: str, denominator: str = "relevant") -> Callable[[HitCurve], Tensor]:
    """The measure of that name, where it is of one curve."""
    kind, at = _parsed(name)
    ties, version = convention, 9 if convention == "trec9" else 10
    if convention in TREC_CONVENTIONS:
        ties = "grouped"  # of which there are none
    if kind == "iprec":
        return PrecisionAtRecall(at or 0.0, version)
    k = None if at is None else int(at)
    if kind in ("map", "gm_map"):
        return Convention(k, denominator if k else "min", None, ties)
    if kind in GAINS:
        return NormalizedDCG(k, GAINS[kind], ties)
    if kind in ("P", "set_P"):
        return AtRank("precision", k, ties=ties)
    if kind in ("R", "set_recall"):
        return AtRank("recall", k, ties=ties)
    if kind in ("F", "set_F"):
        return AtRank("f_beta", k, ties=ties)
    if kind == "Rprec":
        return RPrecision(ties)
    if kind == "11pt_avg":
        return Convention(None, "min", f"11-point-trec{version}", "grouped")
    return FirstHit("reciprocal_rank" if kind == "recip_rank" else "hit_rate", k, ties)


@cached.settings_cache
def _parsed(name: str, given: str = "") -> tuple[str, float | None]:
    """The kind of a measure and the number after its "@": "P@5" and "P_5" are ("P", 5). Errors name ``given``."""
    if name in PLAIN:
        return name, None
    kind, at, rest = name.partition("@")
    if not at:
        kind, _, rest = name.rpartition("_")
        kind = TREC_NAMES.get(kind, "")
    if kind in AT_RANK and rest.isascii() and rest.isdigit() and len(rest) < 19 and int(rest) >= 1:
        return kind, int(rest)
    if kind == "iprec" and rest.replace(".", "", 1).isdecimal() and float(rest) <= 1:
        return kind, float(rest)
    rules = dict.fromkeys(AT_RANK, "; k must be a whole number of at least 1") | {"iprec": "; l must be in [0, 1]"}
    raise ValueError(
        f"unknown measure {shown(given or name)}{_meant(name)}{rules.get(kind, '')}; known are {', '.join(KNOWN)} "
        f"with k of at least 1 and l in [0, 1], and other names for them: trec_eval's, and "
        f"ir_measures' {', '.join(IR_MEASURES)}"
    )


def _meant(name: str) -> str:
    """The known name, ours or trec_eval's, that is most like one that is not."""
    ir_measures = (x for name in IR_MEASURES for x in (name, f"{name}@k"))
    return nearest_measure(name, [*ir_measures, *(f"{theirs}_k" for theirs in TREC_NAMES), *KNOWN])
