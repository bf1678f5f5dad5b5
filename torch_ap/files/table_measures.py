"""The measures of ``torch-ap score`` by name."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from torch_ap.curve.convention import Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.measures import AtRank, FirstHit, RPrecision
from torch_ap.files.table_names import AT_RANK, INTERPOLATED, KNOWN, OF_GROUPS, PLAIN
from torch_ap.files.trec_names import GAINS, IR_MEASURES
from torch_ap.rules.messages import nearest_measure, shown

Formula: TypeAlias = Convention | AtRank | FirstHit | RPrecision | NormalizedDCG


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes:
        name: what results call it: a mean of AP is "map".
        kind: the name without k.
        k: the rank, or None.
        formula: a hit curve in, one value per ranking out; of nDCG a curve with grades.
    """

    name: str
    kind: str
    k: int | None
    formula: Formula


def measures_of(
    names: Iterable[str], *, ties: str | None, denominator: str | None, grouped: bool, classes: bool
) -> list[Measure]:
    """The measures of these names, each once.

    Args:
        names: as given, ours or those of ir_measures that stand for the same; "map" is "ap".
        ties: the rule for tied scores; None for "grouped", or "expected" over groups, but not for interpolated AP.
        denominator: of AP@k; None for "min".
        grouped: whether there is a ranking per group.
        classes: whether there is one per class or label, of which only AP is averaged.

    Raises:
        ValueError: for a name that is not known, or has no meaning here.
    """
    out = {}
    for name in names:
        kind, k = _parsed(name)
        if kind in OF_GROUPS and not grouped:
            raise ValueError(f"measure {shown(name)} needs --group: of one ranking it says next to nothing")
        if classes and kind != "ap" and kind not in INTERPOLATED:
            raise ValueError(
                f"measure {shown(name)} is of one ranking: of classes there are ap, ap@k, {', '.join(INTERPOLATED)}"
            )
        if kind in INTERPOLATED and ties == "expected":
            raise ValueError(
                f"--ties expected has no closed form for {kind}: it takes grouped, optimistic or pessimistic"
            )
        usual = "expected" if grouped and kind not in INTERPOLATED else "grouped"
        formula = _formula(kind, k, ties or usual, denominator or "min")
        called = "map" if kind == "ap" and (grouped or classes) else kind
        shown_as = called if k is None else f"{called}@{k}"
        out[shown_as] = Measure(shown_as, kind, k, formula)
    if denominator is not None and not any(x.kind == "ap" and x.k is not None for x in out.values()):
        raise ValueError("--denominator has no meaning without ap@k, whose divisor it is")
    return list(out.values())


def _parsed(name: str) -> tuple[str, int | None]:
    kind, at, rest = name.partition("@")
    kind = IR_MEASURES.get(kind, kind)
    kind = "ap" if kind == "map" else kind
    if not at and kind in PLAIN:
        return kind, None
    if not at and kind in AT_RANK:
        raise ValueError(f"measure {shown(name)} needs a rank: {name}@k, as {name}@10")
    if at and kind in AT_RANK and rest.isascii() and rest.isdigit() and not int(rest[:19]):
        raise ValueError(f"measure {shown(name)}: k must be at least 1")
    if kind in AT_RANK and rest.isascii() and rest.isdigit() and 1 <= int(rest[:19]) < 1 << 62:
        return kind, int(rest)
    raise ValueError(
        f"unknown measure {shown(name)}{nearest_measure(name, KNOWN)}; known are {', '.join(KNOWN)}, "
        "with k of at least 1"
    )


def _formula(kind: str, k: int | None, ties: str, denominator: str) -> Formula:
    if kind in INTERPOLATED:
        return Convention(None, "min", kind, ties)
    if kind == "ap":
        return Convention(k, denominator if k else "min", None, ties)
    if kind == "Rprec":
        return RPrecision(ties)
    if kind in GAINS:
        return NormalizedDCG(k, GAINS[kind], ties)
    ratios = {"P": "precision", "R": "recall", "F": "f_beta"}
    if kind in ratios:
        return AtRank(ratios[kind], k, ties=ties)
    return FirstHit("hit_rate" if kind == "success" else "reciprocal_rank", k, ties)
