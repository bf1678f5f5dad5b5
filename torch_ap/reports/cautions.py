"""Warnings of a report: ties, saturated scores, few positives, missing classes, wide bins."""

import math
import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from torch_ap.core.measures.convention import Convention
from torch_ap.curves import Curve
from torch_ap.reports.content import Headline

_FEW_POSITIVES = 10
_FEW_QUERIES = 30
_MANY_TIED = 0.05  # share of the items
_MANY_AT_END = 0.01  # share of the scores
_WIDE = 0.01  # change of the value by other orders of the tied items
_MAX_NAMES = 5


def mean_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return the mean AP with the worst and the best order of equal scores; NaN if they are unknown."""
    if not all(Convention(x.top_k, x.denominator).is_monotone for x in curves):
        return math.nan, math.nan
    low, high = (
        torch.cat([Convention(x.top_k, x.denominator, x.interpolation, ties)(x._ranking()) for x in curves])
        for ties in ("pessimistic", "optimistic")
    )
    return float(low.double().nanmean()), float(high.double().nanmean())


def ties(group_sizes: Tensor, low: float, high: float) -> list[str]:
    """Return a warning if the order of tied items matters.

    Args:
        group_sizes: number of items of each score.
        low: value with the worst order of tied items; NaN if unknown.
        high: value with the best order; NaN if unknown.
    """
    items = float(group_sizes.sum())
    share = float(group_sizes[group_sizes > 1].sum()) / items if items else 0.0
    is_wide = high - low > _WIDE
    if not is_wide and share < _MANY_TIED:
        return []
    text = f"Tied scores: {_percent(share)} of the items share their score with others"
    if math.isnan(high - low):
        return [f"{text}."]
    return (
        [f"{text}; {_range_text('them', low, high)}."]
        if is_wide
        else [f"{text}, which changes the value by less than {_WIDE:g} here."]
    )


def wide_bins(bins: int, low: float, high: float) -> list[str]:
    """Return a warning if the order of the items in the bins matters, by the range of the value; NaN if unknown."""
    if not high - low > _WIDE:  # also for NaN
        return []
    return [f"Bins too wide: {bins:,} bins of scores leave {_range_text('their items', low, high)}."]


def _range_text(items: str, low: float, high: float) -> str:
    return f"the value would lie between {low:.3f} and {high:.3f} under other orders of {items}"


def saturation(
    scores: Tensor, counts: Tensor | None = None, tied: Tensor | bool = True, *, by_name: bool = False
) -> list[str]:
    """Return a warning for each end of the scores that many items share.

    Args:
        scores: scores, of any shape; distinct and descending with ``counts``.
        counts: number of items of each score.
        tied: whether another item of the same ranking has the score, in the shape of the scores; for all if True.
        by_name: whether the names of documents order equal scores.
    """
    total = scores.numel() if counts is None else int(counts.sum())
    if not total or float(scores.max()) == float(scores.min()):
        ranked = "only the names of the documents rank them" if by_name else "nothing is ranked"
        has_ties = total > 1 and (tied if isinstance(tied, bool) else bool(tied.any()))
        return [f"All {total:,} scores are equal: {ranked}."] if has_ties else []
    texts = []
    for name, end in (("highest", scores.max()), ("lowest", scores.min())):
        at_end = (scores == end) & tied
        count = int(at_end.sum() if counts is None else counts[at_end].sum())
        if count >= max(_FEW_POSITIVES, _MANY_AT_END * total):
            texts.append(
                f"Saturated scores: {count:,} of {total:,} ({_percent(count / total)}) are exactly "
                f"{float(end) + 0.0:g}, the {name}; their order is lost. "
                "Rank scores from before a sigmoid, a softmax or rounding."
            )
    return texts


def few_positives(positives: Mapping[str, int], units: tuple[str, str], noun: str = "positives") -> list[str]:
    """Return warnings for rankings with few positives, or none.

    Args:
        positives: number of positives of each ranking by its name.
        units: name of a ranking, singular and plural.
        noun: name of positives.
    """
    if len(positives) == 1:
        (m,) = positives.values()
        return [f"Few {noun}: {m}. One more or less would change much."] if m < _FEW_POSITIVES else []
    absent = [name for name, m in positives.items() if m == 0]
    rare = [name for name, m in positives.items() if 0 < m < _FEW_POSITIVES]
    texts = []
    if absent:
        texts.append(f"Without {noun}: {_count(absent, units)}, of {len(positives):,}, so without a value of its own.")
    if rare:
        texts.append(f"Few {noun}, fewer than {_FEW_POSITIVES}: {_count(rare, units)}.")
    return texts


def no_negatives(names: Sequence[str], units: tuple[str, str]) -> list[str]:
    """Return a warning for rankings without negatives, whose value at a prevalence is undefined."""
    if not names:
        return []
    which = f": {_count(names, units)}" if names[0] else ""
    return [f"Without negatives{which}. The value at a `prevalence` is undefined."]


def few_queries(queries: int) -> list[str]:
    """Return a warning for a mean over few queries."""
    if not 0 < queries < _FEW_QUERIES:
        return []
    return [f"Few queries: {queries}. The mean over other queries can differ much."]


def chance(head: Headline) -> list[str]:
    """Return a warning if the interval contains the chance level, or is below it."""
    if head.low <= head.chance <= head.high:
        return [f"The interval contains the chance level, {head.chance:.3f}: chance alone can reach it."]
    if head.high < head.chance:
        question = "is a higher score one for the positive class?"
        return [f"The interval is below the chance level, {head.chance:.3f}: {question}"]
    return []


def unique_reasons(texts: Sequence[str]) -> list[str]:
    """Return warnings of the metric, and of those about few groups the first of each wording.

    The intervals of both systems and their differences warn about the same groups, with other numbers of classes.
    """
    groups, unique = "`groups`: ", dict[str, str]()
    for text in texts:
        is_reason = text.startswith(groups)
        words = re.sub(r"\d+", "", text) if is_reason else text
        unique.setdefault(words, f"{text.removeprefix(groups)}." if is_reason else text)
    return list(unique.values())


def _count(names: Sequence[str], units: tuple[str, str]) -> str:
    """Return the number of names, and the first of them."""
    if len(names) == 1:
        return f"{units[0]} {names[0]}"
    more = ", ..." if len(names) > _MAX_NAMES else ""
    return f"{len(names):,} {units[1]} ({', '.join(names[:_MAX_NAMES])}{more})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
