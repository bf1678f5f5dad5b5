"""``pytrec_eval``'s evaluator: the values of each query, by the rules of trec_eval 9.

The package computes these measures over all queries at once, with sums in another order, whose last bit can differ.
This module adds the terms of a query one by one, as trec_eval does, so that all values have the same bits.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from torch_ap.core.base import checks
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr, suggest_name
from torch_ap.core.measures.names import MEASURES
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.runs.evaluate import judged_run
from torch_ap.retrieval.runs.judged import judgements_of
from torch_ap.retrieval.settings import GM_FLOOR

_EPSILON = 0.00001  # of infAP


@dataclass(frozen=True)
class _Ranking:
    """One query.

    Attributes:
        places: number of documents above each retrieved relevant document, ascending.
        n: number of retrieved documents.
        m: number of relevant documents, retrieved or not.
        gained: (place, grade) of each retrieved document with a grade above 0.
        ideal: all grades above 0, descending.
        nonrelevant: places of the retrieved documents that were judged not relevant.
        nonrelevant_judged: number of documents that were judged not relevant, retrieved or not.
        pooled: places of the retrieved documents with a negative grade.
    """

    places: list[int]
    n: int
    m: int
    gained: list[tuple[int, float]]
    ideal: list[float]
    nonrelevant: list[int]
    nonrelevant_judged: int
    pooled: list[int]

    def hits(self, k: float) -> int:
        """Return the number of relevant documents in the top k."""
        return bisect_left(self.places, k)


def _average_precision(x: _Ranking, k: float = math.inf) -> float:
    total = 0.0
    for nth, place in enumerate(x.places, 1):
        total += nth / (place + 1) if place < k else 0.0
    return total / x.m if x.m else 0.0


def _gain(x: _Ranking, k: float = math.inf) -> float:
    total = ideal = 0.0
    for place, grade in x.gained:
        total += grade / math.log2(place + 2) if place < k else 0.0
    for place, grade in enumerate(x.ideal):
        ideal += grade / math.log2(place + 2) if place < k else 0.0
    return total / ideal if ideal > 0 else 0.0


def _bpref(x: _Ranking) -> float:
    total, divisor = 0.0, min(x.nonrelevant_judged, x.m)
    for place in x.places:
        above = bisect_left(x.nonrelevant, place)
        total += 1 - min(above, x.m) / divisor if above else 1.0
    return total / x.m if x.m else 0.0


def _inferred_average_precision(x: _Ranking) -> float:
    total = 0.0
    for nth, place in enumerate(x.places):
        nonrelevant, pooled = (bisect_left(listed, place) for listed in (x.nonrelevant, x.pooled))
        if place:
            precision = (nth + _EPSILON) / (nth + nonrelevant + 2 * _EPSILON)
            total += 1 / (place + 1) + place / (place + 1) * ((nth + nonrelevant + pooled) / place) * precision
        else:
            total += 1.0
    return total / x.m if x.m else 0.0


def _interpolated(x: _Ranking, level: float) -> float:
    """Return the highest precision from the rank of a recall level on."""
    first = int(level * x.m + 0.9)
    return max([nth / (place + 1) for nth, place in enumerate(x.places, 1) if nth >= first], default=0.0)


def _mean_interpolated(x: _Ranking) -> float:
    *_, total = accumulate(_interpolated(x, level / 10) for level in reversed(range(11)))
    return total / 11


def _f_measure(x: _Ranking) -> float:
    precision, recall = _ratio(len(x.places), x.n), _ratio(len(x.places), x.m)
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _log(value: float) -> float:
    return math.log(max(value, GM_FLOOR))


_AT_CUT: dict[str, Callable[[_Ranking, Any], float]] = {
    "P": lambda x, k: x.hits(k) / k,
    "recall": lambda x, k: _ratio(x.hits(k), x.m),
    "relative_P": lambda x, k: _ratio(x.hits(k), min(k, x.m)),
    "success": lambda x, k: float(x.hits(k) > 0),
    "map_cut": _average_precision,
    "ndcg_cut": _gain,
    "iprec_at_recall": _interpolated,
}
_PLAIN: dict[str, Callable[[_Ranking], float]] = {
    "map": _average_precision,
    "gm_map": lambda x: _log(_average_precision(x)),
    "ndcg": _gain,
    "bpref": _bpref,
    "gm_bpref": lambda x: _log(_bpref(x)),
    "infAP": _inferred_average_precision,
    "11pt_avg": _mean_interpolated,
    "Rprec": lambda x: _ratio(x.hits(x.m), x.m),
    "recip_rank": lambda x: 1 / (x.places[0] + 1) if x.places else 0.0,
    "set_P": lambda x: _ratio(len(x.places), x.n),
    "set_relative_P": lambda x: _ratio(len(x.places), min(x.n, x.m)),
    "set_recall": lambda x: _ratio(len(x.places), x.m),
    "set_map": lambda x: _ratio(len(x.places) ** 2, x.n * x.m),
    "set_F": _f_measure,
    "utility": lambda x: float(len(x.places) - (x.n - len(x.places))),
    "num_q": lambda _: 1.0,
    "num_ret": lambda x: float(x.n),
    "num_rel": lambda x: float(x.m),
    "num_rel_ret": lambda x: float(len(x.places)),
    "num_nonrel_judged_ret": lambda x: float(len(x.nonrelevant)),
}
_CUTS = {x.trec_name: x.cuts for x in MEASURES if x.trec_name in _AT_CUT}
_COUNTS = ("num_q", "num_ret", "num_rel", "num_rel_ret")
_NICKNAMES = {
    "official": (*_COUNTS, "map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P"),
    "set": (*_COUNTS, "utility", "set_P", "set_relative_P", "set_recall", "set_map", "set_F"),
}


class RelevanceEvaluator:
    """Replacement of ``pytrec_eval.RelevanceEvaluator``, with values of the same bits.

    The measures ``relstring``, ``runid``, ``G``, ``binG``, ``Rndcg``, ``ndcg_rel`` and ``Rprec_mult`` are unknown, and
    the nicknames "official" and "set" leave ``runid`` out. Invalid runs raise an error.

    Args:
        query_relevance: judgements, {query: {document: grade}}.
        measures: names of trec_eval, such as "map", "ndcg_cut_10", "P.5,10", or "official" or "set".
        relevance_level: lowest relevant grade, at least 1.
        judged_docs_only_flag: whether documents without a judgement are left out of the rankings.

    Raises:
        TypeError, ValueError: for an unknown measure or an invalid argument.

    Example:
        >>> from torch_ap.compat import RelevanceEvaluator
        >>> evaluator = RelevanceEvaluator({"q": {"a": 1, "b": 0, "c": 1}}, {"map", "P_1"})
        >>> sorted(evaluator.evaluate({"q": {"a": 1.0, "b": 3.0, "c": 2.0}})["q"].items())
        [('P_1', 0.0), ('map', 0.5833333333333333)]
    """

    def __init__(
        self,
        query_relevance: Mapping[str, Mapping[str, int]],
        measures: Iterable[str],
        relevance_level: int = 1,
        judged_docs_only_flag: bool = False,
    ) -> None:
        for name, value in (("query_relevance", query_relevance), ("measures", measures)):
            if isinstance(value, str) or (name == "query_relevance" and not isinstance(value, Mapping)):
                rule = "must be several names" if name == "measures" else "must be {query: {document: grade}}"
                raise_invalid(name, rule, Plain(type(value).__name__), TypeError)
        self._level = checks.positive_int("relevance_level", relevance_level)
        checks.boolean("judged_docs_only_flag", judged_docs_only_flag)
        self._judged_only, self._qrels = judged_docs_only_flag, query_relevance
        cuts: dict[str, dict[str, None]] = {}
        for base, listed in (_parse(x) for name in measures for x in _NICKNAMES.get(name, (name,))):
            cuts.setdefault(base, {}).update(dict.fromkeys(listed))
        self._values = dict(x for base, listed in cuts.items() for x in _functions(base, listed or _CUTS.get(base, ())))

    def evaluate(self, scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Return the values of the measures by name, for each query of the run that has judgements.

        Args:
            scores: the run, {query: {document: score}}; tied documents are in descending order of their names.

        Raises:
            TypeError, ValueError: for a score that is NaN or infinite, and other invalid runs.
        """
        if not isinstance(scores, Mapping):
            raise_invalid("scores", "must be {query: {document: score}}", Plain(type(scores).__name__), TypeError)
        qrels = {query: judged for query, judged in self._qrels.items() if judged and query in scores}
        if not qrels:
            return {}
        rankings = self._rankings(qrels, {query: scores[query] for query in qrels})
        return {
            query: {name: f(x) for name, f in self._values.items()} for query, x in zip(qrels, rankings, strict=True)
        }

    def _rankings(self, qrels: Any, run: Any) -> Iterator[_Ranking]:
        """Yield the ranking of each query."""
        judged = judged_run(judgements_of(qrels, {}), run, self._level, self._judged_only)
        curves = (judged.curve, judged.graded, judged.nonrelevant, judged.unjudged)
        relevant, gained, nonrelevant, pooled = map(_ranks_of_hits, curves)
        grades, ideal = (x.tolist() for x in (judged.graded.grades, judged.graded.ideal_grades))  # type: ignore[union-attr]
        first = first_ideal = 0
        columns = (judged.curve.n, judged.curve.m, judged.graded.m, judged.nonrelevant.m)
        for at, (n, m, count, nonrelevant_judged) in enumerate(zip(*(x.tolist() for x in columns), strict=True)):
            last, last_ideal = first + len(gained[at]), first_ideal + count
            graded = list(zip(gained[at], grades[first:last], strict=True))
            best = ideal[first_ideal:last_ideal]
            yield _Ranking(relevant[at], n, m, graded, best, nonrelevant[at], nonrelevant_judged, pooled[at])
            first, first_ideal = last, last_ideal


def _ranks_of_hits(curve: HitCurve) -> list[list[int]]:
    """Return the number of documents above each hit of each ranking without ties."""
    above, ends = curve.items_above.tolist(), curve.offsets.tolist()
    return [above[first:last] for first, last in pairwise(ends)]


def _parse(name: str) -> tuple[str, list[str]]:
    """Return a name without its ranks or levels, and these; none for the defaults of trec_eval."""
    match = re.fullmatch(r"(.+?)[._]([0-9.,]+)", name)
    base, cuts = match.groups() if match else (name, "")
    if base not in _AT_CUT and (cuts or base not in _PLAIN):
        known = (*_AT_CUT, *_PLAIN, *_NICKNAMES)
        raise ValueError(
            f"unsupported measure {short_repr(name)}{suggest_name(base, known)}; known are {', '.join(known)}"
        )
    return base, cuts.split(",") if cuts else []


def _functions(base: str, cuts: Iterable[str]) -> Iterator[tuple[str, Callable[[_Ranking], float]]]:
    """Yield the name and the function of a measure, at each rank or level if it has some."""
    if base in _PLAIN:
        yield base, _PLAIN[base]
    for cut in cuts:
        is_level = base == "iprec_at_recall"
        try:
            at = float(cut) if is_level else int(cut)
        except ValueError:
            at = -1
        if not (0 <= at <= 1 if is_level else at >= 1):
            rule = "a level in [0, 1]" if is_level else "a rank of at least 1"
            raise ValueError(f"measure {base} takes {rule}, got {short_repr(cut)}")
        yield f"{base}_{at:.2f}" if is_level else f"{base}_{at}", lambda x, at=at: _AT_CUT[base](x, at)  # type: ignore[misc]
