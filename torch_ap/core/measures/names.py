"""Registry of the measures that have a name in ``torch_ap.evaluate``, ``torch-ap trec`` and ``torch-ap score``.

This module does not import torch, so that ``--help`` is fast. A new measure is one module and one line in
:data:`MEASURES`.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from torch_ap.core.base.messages import short_repr

_CUTS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")  # trec_eval's, for a name without a rank
_LEVELS = tuple(f"{level / 10:.2f}" for level in range(11))
_MOST_DIGITS = 19  # a rank with more is above 2^62
_FORM = re.compile(r"(?P<kind>[\w.-]+?)(?:\((?P<parameters>[^()]*)\))?(?:@(?P<at>.*))?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, eq=False)
class NamedMeasure:
    """A measure by name.

    Attributes:
        name: the name in ``torch_ap.evaluate`` and ``torch-ap trec``.
        home: module and class of the measure; "" for a count.
        settings: fixed settings of the class.
        aliases: the names in ir_measures, ranx, BEIR and sentence-transformers.
        spellings: parameters in ir_measures that select this measure among the measures with the same alias.
        trec_name: the name in trec_eval before a rank or level.
        cuts: the ranks or levels that trec_eval takes for a name without one.
        cut: "k" if the name takes a rank, "l" for a recall level, "" for neither.
        is_plain: whether the name is valid without a rank.
        parameters: settings that the name takes in parentheses, with their type.
        converted: functions from the value of a parameter to the value of the setting, where they differ.
        in_runs: whether runs have the measure.
        table_name: the name in ``torch-ap score``; "" if tables do not have the measure.
        needs_groups: whether tables have the measure over groups only.
        is_single: whether tables have the measure of one ranking only.
        is_trec_only: whether only the tie orders of trec_eval define the measure.
        takes_level: whether the lowest relevant grade changes the value.
        is_divided: whether ``denominator`` applies at a rank.
        aggregation: how the values of queries become one: "mean", "gm" or "sum".
        is_share: whether all values are in [0, 1].
        sentence: description, if the class cannot describe the measure without a run.
        metric: module and name of a public class for :mod:`torch_ap.retrieval`; "" for none.
        function: module and name of a public function for :mod:`torch_ap.functional`; "" for none.
    """

    name: str
    home: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    spellings: Mapping[str, Any] = field(default_factory=dict)
    trec_name: str = ""
    cuts: tuple[str, ...] = _CUTS
    cut: str = ""
    is_plain: bool = True
    parameters: Mapping[str, type] = field(default_factory=dict)
    converted: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    in_runs: bool = True
    table_name: str = ""
    needs_groups: bool = False
    is_single: bool = False
    is_trec_only: bool = False
    takes_level: bool = True
    is_divided: bool = False
    aggregation: str = "mean"
    is_share: bool = True
    sentence: str = ""
    metric: str = ""
    function: str = ""

    def is_called(self, parts: "Parsed") -> bool:
        """Return whether this is a name of the measure."""
        if parts.kind in (self.name, self.table_name):
            return True
        spelled = {key: x for key, x in parts.parameters.items() if key in self.spellings}
        return parts.kind in self.aliases and (spelled or self.spellings) == self.spellings and self._is_usual(parts)

    def _is_usual(self, parts: "Parsed") -> bool:
        """Return whether the measure is the first of its aliases with or without a rank, or spelled out."""
        has_rank = parts.at is not None
        same = [x for x in MEASURES if parts.kind in x.aliases]
        first = next((x for x in same if (bool(x.cut) if has_rank else x.is_plain)), same[0])
        return first is self or any(key in self.spellings for key in parts.parameters)

    def own_parameters(self, parts: "Parsed", name: str, others: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the settings in the parentheses of a name.

        Args:
            parts: the name in its parts.
            name: the name, for messages.
            others: parameters that the caller takes.

        Raises:
            ValueError: for a parameter that the measure does not take, or a value of another type.
        """
        own = {key: x for key, x in parts.parameters.items() if key not in (*others, *self.spellings)}
        for key, value in own.items():
            kind = self.parameters.get(key)
            if kind is None:
                takes = ", ".join((*self.parameters, *others)) or "none"
                raise ValueError(
                    f"measure {short_repr(name)} must have only these parameters: {takes}; got {short_repr(key)}"
                )
            if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
                raise ValueError(
                    f"measure {short_repr(name)}: {key} must be of type {kind.__name__}, got {short_repr(value)}"
                )
        return own

    def load(self) -> Any:
        """Return the class of the measure."""
        return _load(self.home)

    def make(
        self,
        *,
        ties: str,
        top_k: int | None = None,
        denominator: str | None = None,
        parameters: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        """Return the measure with these settings.

        Args:
            ties: name of a tie rule.
            top_k: the rank, or None for all items.
            denominator: what AP@k divides by; None for the default.
            parameters: values of ``parameters``.
        """
        given = {name: self.converted[name](x) if name in self.converted else x for name, x in parameters.items()}
        settings = {**self.settings, **given, "ties": ties}
        if top_k is not None:
            settings["top_k"] = top_k
            if self.is_divided and denominator is not None:
                settings["denominator"] = denominator
        return self.load()(**settings)


def _load(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def registered(homes: Mapping[str, str]) -> dict[str, Any]:
    """Return the objects of these modules and names, by name."""
    return {name: _load(home) for name, home in homes.items()}


class Parsed(NamedTuple):
    """A name in its parts, as ``RBP(p=0.5,rel=2)@10``.

    Attributes:
        kind: the part before parentheses and rank.
        parameters: the parameters in parentheses, in their order.
        at: the text after "@"; None without one.
    """

    kind: str
    parameters: dict[str, Any]
    at: str | None


def parse(name: str) -> Parsed | None:
    """Return the parts of a name of ir_measures' form; None for a name of another form."""
    match = _FORM.fullmatch(name)
    if match is None:
        return None
    parameters: dict[str, Any] = {}
    for part in (match["parameters"] or "").split(",") if match["parameters"] is not None else ():
        key, equals, text = part.partition("=")
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError):
            return None
        if not equals or key.strip() in parameters:
            return None
        parameters[key.strip()] = value
    return Parsed(match["kind"], parameters, match["at"])


def name_of(kind: str, parameters: Mapping[str, Any], at: object) -> str:
    """Return the name of these parts."""
    inner = f"({','.join(f'{key}={value!r}' for key, value in parameters.items())})" if parameters else ""
    return f"{kind}{inner}" if at is None else f"{kind}{inner}@{at}"


def rank_of(text: str) -> int | None:
    """Return a rank of at least 1 and below 2^62 that is written in digits; None for other text."""
    if not (text.isascii() and text.isdigit() and len(text.lstrip("0")) <= _MOST_DIGITS):
        return None
    return int(text) if 1 <= int(text) < 1 << 62 else None


_AP = "torch_ap.core.measures.convention:Convention"
_GAIN = "torch_ap.retrieval.measures.gain:NormalizedDCG"
_RATIO = "torch_ap.retrieval.measures.at_rank:AtRank"
_RELATIVE = "torch_ap.core.measures.relative:"
_FIRST = "torch_ap.retrieval.measures.at_rank:FirstHit"
_JUDGED = "torch_ap.retrieval.measures.judged:"
_AT_K: dict[str, Any] = {"cut": "k", "is_plain": False}
_GROUPED: dict[str, Any] = {"cut": "k", "needs_groups": True}
_BPREF = (
    "The mean over queries of bpref: the mean, over all R relevant documents, of 1 - n / min(R, N), or 0 for what was "
    "not retrieved, where n of the N documents that were judged to be not relevant, at most R, are above; as in "
    "trec_eval."
)
_JUDGED_SHARE = (
    "The mean over queries of the share of the retrieved documents, or of those in the top k, that have a judgement."
)
_INFERRED = "The mean over queries of inferred average precision, where only a sample was judged; as in trec_eval."


def _ratio(name: str, ratio: str, *aliases: str, **more: Any) -> NamedMeasure:
    return NamedMeasure(name, _RATIO, {"ratio": ratio}, aliases, **more)


def _gain(name: str, gains: str, dcg: str, *aliases: str, **more: Any) -> NamedMeasure:
    more |= {**_GROUPED, "table_name": name, "takes_level": False}
    return NamedMeasure(name, _GAIN, {"gains": gains}, ("nDCG", "NDCG", *aliases), {"dcg": dcg}, **more)


def _total_gain(name: str, gains: str, *aliases: str) -> NamedMeasure:
    more = {**_GROUPED, "table_name": name, "takes_level": False, "is_share": False}
    return NamedMeasure(name, "torch_ap.retrieval.measures.gain:DCG", {"gains": gains}, aliases, **more)


def _first_hit(name: str, what: str, *aliases: str, **more: Any) -> NamedMeasure:
    return NamedMeasure(name, _FIRST, {"what": what}, aliases, table_name=name, **_GROUPED, **more)


def _count(name: str, alias: str, sentence: str, **more: Any) -> NamedMeasure:
    more |= {"aliases": (alias,) if alias else (), "aggregation": "sum", "is_share": False}
    return NamedMeasure(name, sentence=f"The number of {sentence}.", **more)


def _relative(name: str, measure: str) -> NamedMeasure:
    more: dict[str, Any] = {"in_runs": False, "table_name": name, "is_single": True, "is_share": False}
    return NamedMeasure(name, f"{_RELATIVE}{measure}", **more)


def _interpolated(name: str) -> NamedMeasure:
    return NamedMeasure(name, _AP, {"interpolation": name}, in_runs=False, table_name=name)


MEASURES = (
    NamedMeasure("map", _AP, aliases=("AP", "MAP"), trec_name="map_cut", cut="k", table_name="ap", is_divided=True),
    NamedMeasure("gm_map", _AP, aggregation="gm"),
    _gain("ndcg", "linear", "log2", trec_name="ndcg_cut"),
    _gain("ndcg_exp", "exponential", "exp-log2", "ndcg_burges"),
    _total_gain("dcg", "linear"),
    _total_gain("dcg_exp", "exponential", "dcg_burges"),
    NamedMeasure(
        "ERR",
        "torch_ap.retrieval.measures.expected_reciprocal_rank:ExpectedReciprocalRank",
        cut="k",
        parameters={"max_grade": int},
        takes_level=False,
    ),
    NamedMeasure(
        "Rprec",
        "torch_ap.retrieval.measures.at_rank:RPrecision",
        aliases=("Rprec", "RPrec", "r-precision"),
        table_name="Rprec",
    ),
    NamedMeasure("bpref", f"{_JUDGED}BPref", aliases=("Bpref", "BPref"), is_trec_only=True, sentence=_BPREF),
    NamedMeasure("infAP", f"{_JUDGED}InferredAP", aliases=("infAP",), is_trec_only=True, sentence=_INFERRED),
    NamedMeasure("Judged", f"{_JUDGED}JudgedShare", cut="k", sentence=_JUDGED_SHARE, takes_level=False),
    _ratio("P", "precision", "P", "Precision", "precision", trec_name="P", table_name="P", **_AT_K),
    _ratio("R", "recall", "R", "Recall", "recall", trec_name="recall", table_name="R", **_AT_K),
    _ratio("F", "f_beta", "F1", "f1", table_name="F", parameters={"beta": float}, **_AT_K),
    _ratio("hits", "hits", cut="k", is_share=False),
    _ratio("R_cap", "capped_recall", trec_name="relative_P", **_AT_K),
    _first_hit("recip_rank", "reciprocal_rank", "RR", "MRR", "mrr"),
    _first_hit(
        "success",
        "hit_rate",
        *("Success", "hit_rate", "Accuracy", "accuracy"),
        trec_name="success",
        cuts=("1", "5", "10"),
        is_plain=False,
    ),
    NamedMeasure(
        "iprec",
        "torch_ap.retrieval.measures.at_rank:PrecisionAtRecall",
        aliases=("IPrec",),
        trec_name="iprec_at_recall",
        cuts=_LEVELS,
        cut="l",
        is_plain=False,
        is_trec_only=True,
    ),
    NamedMeasure("11pt_avg", _AP, is_trec_only=True),
    _ratio("set_P", "precision", "SetP", "precision", spellings={"relative": False}),
    _ratio("set_relative_P", "capped_recall", "SetP", "SetRelP", spellings={"relative": True}),
    _ratio("set_recall", "recall", "SetR"),
    _ratio("set_map", "precision_times_recall", "SetAP"),
    # in trec_eval and ir_measures the parameter is the weight of recall, the square of beta
    _ratio("set_F", "f_beta", "SetF", "f1", parameters={"beta": float}, converted={"beta": lambda x: x**0.5}),
    _count("num_q", "NumQ", "queries", takes_level=False),
    _count("num_ret", "NumRet", "documents that were retrieved, of all queries"),
    _count("num_rel", "NumRel", "relevant documents, retrieved or not, of all queries"),
    _count("num_rel_ret", "NumRelRet", "relevant documents that were retrieved, of all queries"),
    _count("num_nonrel_judged_ret", "", "documents that were retrieved and judged not relevant, of all queries"),
    *map(_interpolated, ("11-point", "11-point-arange", "40-point", "101-point")),
    *map(_interpolated, ("nuscenes", "all-points", "trapezoid", "trapezoid-anchored", "davis-goadrich")),
    *map(_interpolated, ("ultralytics", "ultralytics-8.3")),
    _relative("normalized_ap", "NormalizedAveragePrecision"),
    _relative("auprg", "PrecisionRecallGainArea"),
    NamedMeasure(
        "RBP",
        "torch_ap.retrieval.measures.rank_biased:RankBiasedPrecision",
        parameters={"p": float},
        table_name="RBP",
        metric="torch_ap.retrieval.metrics.measures:RetrievalRankBiasedPrecision",
        function="torch_ap.retrieval.measures.rank_biased:retrieval_rank_biased_precision",
        **_GROUPED,
    ),
)
TOTALS = {name for x in MEASURES if not x.is_share for name in (x.name, *x.aliases)}
METRICS = {x.metric.partition(":")[2]: x.metric for x in MEASURES if x.metric}  # exported by torch_ap.retrieval
FUNCTIONS = {x.function.partition(":")[2]: x.function for x in MEASURES if x.function}  # exported by functional
