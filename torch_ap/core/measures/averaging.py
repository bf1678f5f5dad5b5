"""Averages over rankings, and the values that replace undefined ones."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.messages import raise_invalid, warn_caller
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve


class UndefinedAs(NamedTuple):
    """The replacement of an undefined value.

    Attributes:
        value: the number that replaces the undefined value.
        takes_part: whether averages include it.
        words: description for warnings.
    """

    value: float
    takes_part: bool
    words: str


UNDEFINED_AS = {  # by `empty_target_action`; "error" raises where a value is undefined
    "nan": UndefinedAs(math.nan, True, "NaN"),
    "neg": UndefinedAs(0.0, True, "0"),
    "pos": UndefinedAs(1.0, True, "1"),
    "skip": UndefinedAs(math.nan, False, "left out"),
    "error": UndefinedAs(math.nan, False, "an error"),
}
NO_ITEMS = "No items count in {} (none, all ignored, or of weight 0): average precision is NaN."
ACTIONS = tuple(UNDEFINED_AS)
COUNTS_AS = {action: x.value for action, x in UNDEFINED_AS.items() if x.value == x.value}
_WEIGHTS: dict[str | None, Callable[[Any, Any], Any]] = {  # from the number of hits, and whether a ranking takes part
    "macro": lambda m, included: included,  # noqa: ARG005
    "micro": lambda m, included: included,  # noqa: ARG005 - a single ranking of all classes
    "weighted": lambda m, included: torch.where(m.sum(0) > 0, m, included),
}


def fill_undefined(
    values: Tensor, curve: HitCurve, empty_target_action: str, *, warn: bool = False, what: str = "ranking"
) -> Tensor:
    """Replace the values of rankings without relevant items.

    The value of a ranking without items is NaN for every action, because nothing was measured.

    Args:
        values: (S,) measures of the rankings, NaN where undefined.
        curve: the rankings.
        empty_target_action: "neg" gives 0, "pos" 1, "nan" NaN, "skip" NaN that averages leave out; "error" raises.
        warn: whether to warn of undefined values.
        what: name of a ranking in messages: "class", "label", ...

    Raises:
        ValueError: for "error" if a ranking has items but no relevant one.
    """
    curve = curve.native
    has_no_hit = curve.m == 0
    if values.is_cpu and not arrays.any_true(has_no_hit):
        return values
    empty = has_no_hit & (curve.n > 0)
    if empty_target_action == "error" and bool(empty.any()):
        raise ValueError(
            f"`target` must contain a positive in every ranking, got none in {_list_rankings(empty, what)}"
        )
    if warn:
        _warn_undefined(empty, curve.n == 0, empty_target_action, what)
    return torch.where(arrays.tensor(empty), UNDEFINED_AS[empty_target_action].value, values)


def average(values: Tensor, curve: HitCurve, how: str | None, empty_target_action: str) -> Tensor:
    """Return the average over rankings.

    Args:
        values: (S,) values from :func:`fill_undefined`.
        curve: the rankings.
        how: "macro" for the mean, "weighted" for the mean weighted by m, "none" or None for the values themselves.
        empty_target_action: as for :func:`fill_undefined`; "skip" leaves out rankings without relevant items.

    Returns:
        0-d, or (S,) for "none"; NaN if no ranking has a value.
    """
    if how in (None, "none"):
        return values
    if how not in _WEIGHTS:
        raise_invalid("average", f"must be one of {', '.join(map(repr, _WEIGHTS))}", how)
    per_ranking, curve = arrays.native(values), curve.native
    included = takes_part(curve.m, curve.n, empty_target_action)
    per_ranking, support = per_ranking[included], segments.as_float64(curve.m[included])
    if how == "weighted" and bool(support.sum() > 0):
        return arrays.tensor(per_ranking * support).sum() / arrays.tensor(support).sum()
    return arrays.tensor(per_ranking).mean()


def averages_of_samples(values: Tensor, m: Tensor, n: Tensor, how: str | None, empty_target_action: str) -> Tensor:
    """Return the average over rankings for each of b samples, (b,); all tensor arguments are (S, b)."""
    included = takes_part(m, n, empty_target_action)
    weights = segments.as_float64(_WEIGHTS[how](m, included))
    mean: Tensor = torch.where(included, values * weights, 0).sum(0) / weights.sum(0)
    return mean


def takes_part(m: Any, n: Any, empty_target_action: str) -> Any:
    """Return whether an average includes a ranking of n items with m relevant ones, elementwise."""
    return n > 0 if UNDEFINED_AS[empty_target_action].takes_part else m > 0


def _list_rankings(flags: Any, what: str) -> str:
    places = arrays.true_indices(flags).tolist()
    if len(flags) == 1:
        return "the ranking"
    numbers = ", ".join(map(str, places[:10]))
    plural = "es" if what.endswith("s") else "s"
    return f"{what}{plural if len(places) > 1 else ''} {numbers}" + (", …" if len(places) > 10 else "")


def _warn_undefined(no_positive: Any, no_item: Any, empty_target_action: str, what: str) -> None:
    if bool(no_item.any()):
        rankings = _list_rankings(no_item, what)
        warn_caller(NO_ITEMS.format(rankings), UserWarning)
    if bool(no_positive.any()):
        warn_caller(
            f"No positive target counts in {_list_rankings(no_positive, what)}: average precision is undefined and "
            f"{UNDEFINED_AS[empty_target_action].words}. Set `empty_target_action` to choose the value.",
            UserWarning,
        )
