"""Formats of tables and the measures of ``torch-ap score``. This module does not import torch, so that help is fast."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch_ap.core.base.messages import short_repr, suggest_measure
from torch_ap.core.measures.names import MEASURES, NamedMeasure, name_of, parse, rank_of

if TYPE_CHECKING:
    from torch_ap.core.measures.measure import Measure as Formula

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))

_TABLES = [x for x in MEASURES if x.table_name]
INTERPOLATED = tuple(x.name for x in _TABLES if "interpolation" in x.settings)
OF_GROUPS = tuple(
    name for x in _TABLES if x.needs_groups for name in (x.table_name, f"{x.table_name}@k")[not x.is_plain :]
)
OF_ONE_RANKING = tuple(x.table_name for x in _TABLES if x.is_single)
KNOWN = (*(x.table_name for x in _TABLES if x.is_plain), *(f"{x.table_name}@k" for x in _TABLES if x.cut == "k"))


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes:
        name: name in results; a mean of AP is "map".
        kind: the name without k.
        k: the rank, or None.
        formula: the measure; nDCG needs a curve with grades.
    """

    name: str
    kind: str
    k: int | None
    formula: "Formula"


def measures_of(
    names: Iterable[str], *, ties: str | None, denominator: str | None, grouped: bool, classes: bool
) -> list[Measure]:
    """Return the measures of these names, without duplicates.

    Args:
        names: names of this package or of ir_measures; "map" means "ap".
        ties: tie rule; None for "grouped", or "expected" over groups except for interpolated AP.
        denominator: divisor of AP@k; None for "min".
        grouped: whether each group is a ranking.
        classes: whether each class or label is a ranking, where only AP is averaged.

    Raises:
        ValueError: for an unknown name, or a measure that is not defined for these rankings.
    """
    out = {}
    for name in names:
        entry, k, parameters = parse_known(name)
        kind, interpolated = entry.table_name, "interpolation" in entry.settings
        if entry.needs_groups and not grouped:
            raise ValueError(f"measure {short_repr(name)} requires `group`: of one ranking it says next to nothing")
        if entry.is_single and grouped:
            raise ValueError(f"measure {short_repr(name)} is of one ranking, without `group`")
        if classes and not entry.load().is_average_precision:
            raise ValueError(
                f"measure {short_repr(name)} is of one ranking: of classes there are ap, ap@k, "
                f"{', '.join(INTERPOLATED)}"
            )
        if interpolated and ties == "expected":
            raise ValueError(
                f"`ties='expected'` has no closed form for {kind}: it takes grouped, optimistic or pessimistic"
            )
        rule = ties or ("expected" if grouped and not interpolated else "grouped")
        formula = entry.make(ties=rule, top_k=k, denominator=denominator, parameters=parameters)
        label = "map" if kind == "ap" and (grouped or classes) else kind
        full_name = name_of(label, parameters, k)
        out[full_name] = Measure(full_name, kind, k, formula)
    if denominator is not None and not any(x.kind == "ap" and x.k is not None for x in out.values()):
        raise ValueError("`denominator` has no meaning without ap@k, whose divisor it is")
    return list(out.values())


class _KnownMeasure(NamedTuple):
    entry: NamedMeasure
    k: int | None
    parameters: dict[str, Any]


def parse_known(name: str) -> _KnownMeasure:
    """Return the measure of a name, with k and parameters.

    Raises:
        ValueError: for an unknown name, or an invalid k or parameter.
    """
    parts = parse(name)
    entry = next((x for x in MEASURES if parts and x.table_name and x.is_called(parts)), None)
    if parts is not None and entry is not None:
        parameters = entry.own_parameters(parts, name)
        if parts.at is None and entry.is_plain:
            return _KnownMeasure(entry, None, parameters)
        if parts.at is None:
            raise ValueError(f"measure {short_repr(name)} needs a rank: {name}@k, as {name}@10")
        if entry.cut and (k := rank_of(parts.at)) is not None:
            return _KnownMeasure(entry, k, parameters)
        if entry.cut and parts.at.isdigit() and not parts.at.strip("0"):
            raise ValueError(f"measure {short_repr(name)}: k must be at least 1")
    raise ValueError(
        f"unknown measure {short_repr(name)}{suggest_measure(name, KNOWN)}; known are {', '.join(KNOWN)}, "
        "with k of at least 1"
    )
