"""The cut-off rank of a measure, and the divisor of AP at that rank."""

from collections.abc import Callable
from typing import Any

from torch_ap.core.base import arrays
from torch_ap.core.ranking import segments


def cut_rank(top_k: Any, curve: Any) -> Any:
    """Return the cut-off rank of native rankings: an int, None for no cut, or (S,) float64.

    Args:
        top_k: an int, None, "relevant", or (S,) ranks.
        curve: S rankings.
    """
    return segments.as_float64(curve.m) if isinstance(top_k, str) else arrays.native(top_k)


_DIVISORS: dict[str, Callable[[Any, Any], Any]] = {
    "min": arrays.minimum,
    "relevant": lambda m, k: m,  # noqa: ARG005
}
DENOMINATORS = (*_DIVISORS, "found")


def divisor(denominator: str, m: Any, k: Any) -> Any:
    """Return the divisor of AP@k; m for every denominator if k is None.

    Args:
        denominator: "min" or "relevant". The divisor of "found" depends on the ranking.
        m: number of relevant items of each ranking, or of a single ranking.
        k: rank of each ranking or of all rankings, or None for all items.
    """
    return m if k is None else _DIVISORS[denominator](m, k)


def rank_per_entry(rank: Any, offsets: Any) -> Any:
    """Return the rank of each entry's ranking; an int or None is returned unchanged."""
    return rank if rank is None or isinstance(rank, int) else segments.each_entry(rank, offsets)
