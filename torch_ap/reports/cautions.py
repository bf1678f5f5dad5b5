"""What speaks against a number: ties, saturated scores, few positives, classes that are absent, bins too wide."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.functional import Curve
from torch_ap.plot.vertices import ranking_of

FEW = 10
FEW_QUERIES = 30
_MANY_TIED = 0.05
_MANY_AT_END = 0.01
_WIDE = 0.01  # of what another order of the tied items would change
_NAMED = 5


def range_of(curve: Curve) -> tuple[float, float]:
    """Average precision where, of equal scores, positives come last, and where they come first."""
    low, high = (
        Convention(curve.top_k, curve.denominator, curve.interpolation, ties)(ranking_of(curve))
        for ties in ("pessimistic", "optimistic")
    )
    return float(low[0]), float(high[0])


def ties(tied: float, items: float, low: float, high: float, *, bins: int | None = None) -> list[str]:
    """Whether the order of tied items matters.

    Args:
        tied: items that share their score with others.
        items: all of them.
        low, high: the value where they come in the worst and in the best order.
        bins: of a metric with thresholds, in place of scores.
    """
    share = tied / items if items else 0.0
    wide = high - low > _WIDE
    ends = f"the value would lie between {low:.3f} and {high:.3f} under other orders of them"
    if bins is not None:
        return [f"Bins too wide: {bins:,} bins of scores leave {ends.replace('them', 'their items')}."] if wide else []
    if not wide and share < _MANY_TIED:
        return []
    said = f"Tied scores: {_percent(share)} of the items share their score with others"
    return [f"{said}; {ends}."] if wide else [f"{said}, which changes the value by less than {_WIDE:g} here."]


def saturation(scores: Tensor, counts: Tensor | None = None) -> list[str]:
    """Whether many scores are the highest, or the lowest, that there is.

    Args:
        scores: of any shape; descending and different where there are ``counts``.
        counts: items of each score.
    """
    found = []
    total = scores.numel() if counts is None else int(counts.sum())
    if not total or float(scores.max()) == float(scores.min()):
        return [f"All {total:,} scores are equal: nothing is ranked."] if total > 1 else []
    for name, end in (("highest", scores.max()), ("lowest", scores.min())):
        at_end = scores == end
        count = int(at_end.sum() if counts is None else counts[at_end].sum())
        if count >= max(FEW, _MANY_AT_END * total):
            found.append(
                f"Saturated scores: {count:,} of {total:,} ({_percent(count / total)}) are exactly {float(end):g}, the "
                f"{name}; their order is lost. Rank scores from before a sigmoid, a softmax or rounding."
            )
    return found


def few(positives: Mapping[str, int], units: tuple[str, str], what: str = "positives") -> list[str]:
    """Whether rankings have few positives, or none.

    Args:
        positives: of each ranking, by its name.
        units: what a ranking is of, one and several of them.
        what: what positives are called.
    """
    if len(positives) == 1:
        (m,) = positives.values()
        return [f"Few {what}: {m}. One more or less would change much."] if m < FEW else []
    absent = [name for name, m in positives.items() if m == 0]
    rare = [name for name, m in positives.items() if 0 < m < FEW]
    found = []
    if absent:
        found.append(f"Without {what}: {_named(absent, units)}, of {len(positives):,}, so without a value of its own.")
    if rare:
        found.append(f"Few {what}, fewer than {FEW}: {_named(rare, units)}.")
    return found


def inside(low: float, high: float, chance: float) -> list[str]:
    """Whether the interval holds the chance level, or lies below it."""
    if low <= chance <= high:
        return [f"The interval holds the chance level, {chance:.3f}: chance alone may do as well."]
    if high < chance:
        return [
            f"The interval lies below the chance level, {chance:.3f}: is a higher score one for the positive class?"
        ]
    return []


def tied_items(groups: Tensor) -> tuple[float, float]:
    """How many items are in groups of several, and how many there are; of sizes of groups."""
    return float(groups[groups > 1].sum()), float(groups.sum())


def mean_range(curves: Sequence[Curve], ends: Callable[[Curve], tuple[float, float]] = range_of) -> tuple[float, float]:
    """The mean over rankings of both ends, of those that have a value."""
    found = torch.tensor([ends(curve) for curve in curves], dtype=torch.float64)
    low, high = found.nanmean(0).tolist() if len(found) else (0.0, 0.0)
    return low, high


def _named(names: Sequence[str], units: tuple[str, str]) -> str:
    """How many they are, and the first of them."""
    if len(names) == 1:
        return f"{units[0]} {names[0]}"
    more = ", ..." if len(names) > _NAMED else ""
    return f"{len(names):,} {units[1]} ({', '.join(names[:_NAMED])}{more})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
