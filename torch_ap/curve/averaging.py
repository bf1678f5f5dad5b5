"""One number from many rankings, and what undefined values count as."""

from typing import Any

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import Action, allowed
from torch_ap.runtime import arrays

ACTIONS = allowed(Action)
COUNTS_AS = {"neg": 0.0, "pos": 1.0}
_SAID = {"nan": "NaN", "neg": "0", "pos": "1", "skip": "left out"}


def fill_undefined(
    values: Tensor, curve: HitCurve, empty_target_action: str, *, warn: bool = False, what: str = "ranking"
) -> Tensor:
    """What the value of a ranking without relevant items counts as.

    A ranking without any item stays NaN, whatever the action: nothing was measured.

    Args:
        values: (S,) measures of the rankings, NaN where undefined.
        curve: the rankings.
        empty_target_action: "neg" gives 0, "pos" 1, "nan" NaN; "skip" NaN that averages leave out; "error" raises.
        warn: whether to warn of undefined values.
        what: what messages call a ranking: "class", "label", ...

    Raises:
        ValueError: for "error" where a ranking has items and none is relevant.
    """
    curve = curve.native
    nothing = curve.m == 0
    if values.is_cpu and not arrays.some(nothing):
        return values
    empty = nothing & (curve.n > 0)
    if empty_target_action == "error" and bool(empty.any()):
        raise ValueError(f"`target` must hold a positive in every ranking, got none in {_which(empty, what)}")
    if warn:
        _warn_of(empty, curve.n == 0, empty_target_action, what)
    return (
        torch.where(arrays.tensor(empty), COUNTS_AS[empty_target_action], values)
        if empty_target_action in COUNTS_AS
        else values
    )


def average(values: Tensor, curve: HitCurve, how: str | None, empty_target_action: str) -> Tensor:
    """The average over rankings.

    Args:
        values: (S,) values from :func:`fill_undefined`.
        curve: the rankings.
        how: "macro" for the mean, "weighted" for the mean weighted by m, "none" or None for the values themselves.
        empty_target_action: as for :func:`fill_undefined`; "skip" leaves out rankings without relevant items.

    Returns:
        0-d, or (S,) for "none"; NaN where no ranking has a value.
    """
    if how in (None, "none"):
        return values
    each, curve = arrays.native(values), curve.native
    kept = takes_part(curve.m, curve.n, empty_target_action)
    each, support = each[kept], segments.as_float64(curve.m[kept])
    if how == "weighted" and bool(support.sum() > 0):
        return arrays.tensor(each * support).sum() / arrays.tensor(support).sum()
    return arrays.tensor(each).mean()


def averages(values: Tensor, m: Tensor, n: Tensor, how: str | None, empty_target_action: str) -> Tensor:
    """The same of many samples at once: (S, b) values, relevant items and items to (b,) averages."""
    kept = takes_part(m, n, empty_target_action)
    weights = segments.as_float64(torch.where(m.sum(0) > 0, m, kept) if how == "weighted" else kept)
    return torch.where(kept, values * weights, 0).sum(0) / weights.sum(0)


def takes_part(m: Any, n: Any, empty_target_action: str) -> Any:
    """Which rankings, of m relevant ones among n items, an average is over, elementwise."""
    return m > 0 if empty_target_action in ("skip", "error") else n > 0


def _which(flags: Any, what: str) -> str:
    places = arrays.places(flags).tolist()
    if len(flags) == 1:
        return "the ranking"
    shown = ", ".join(map(str, places[:10]))
    plural = "es" if what.endswith("s") else "s"
    return f"{what}{plural if len(places) > 1 else ''} {shown}" + (", …" if len(places) > 10 else "")


def _warn_of(no_positive: Any, no_item: Any, empty_target_action: str, what: str) -> None:
    if bool(no_item.any()):
        warn_caller(
            f"No items count in {_which(no_item, what)} (none, all ignored, or of weight 0): average precision is NaN.",
            UserWarning,
        )
    if bool(no_positive.any()):
        warn_caller(
            f"No positive target counts in {_which(no_positive, what)}: average precision is undefined and "
            f"{_SAID[empty_target_action]}. Say what you want with `empty_target_action`.",
            UserWarning,
        )
