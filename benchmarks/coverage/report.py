"""Shares as table cells, and whether they agree with figures that were published."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.coverage.tasks import Share, Tally

# published figures of a simulation carry a Monte Carlo error of their own
ERRORS = 3


def head(*names: str) -> list[str]:
    return ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def by_key(found: dict[tuple[Any, ...], Tally]) -> dict[tuple[Any, ...], list[Share]]:
    """The shares of each key over all configurations."""
    keys = next(iter(found.values()))
    return {key: [shares[key] for shares in found.values()] for key in keys}


def three(shares: Sequence[Share]) -> list[Share]:
    """Return the shares of least, median and greatest value. The median of an even number is the mean of two."""
    ordered = sorted(shares, key=lambda share: share.value)
    middle = ordered[(len(ordered) - 1) // 2]
    median = statistics.median(share.value for share in ordered)
    return [ordered[0], Share(median * middle.trials, middle.trials), ordered[-1]]


def spread(shares: Sequence[Share]) -> str:
    return " / ".join(f"{share.value:.3f}" for share in three(shares))


def extent(shares: Sequence[Share]) -> str:
    ordered = three(shares)
    return f"{ordered[0].value:.3f} to {ordered[-1].value:.3f}"


def largest_error(shares: Sequence[Share]) -> str:
    """The largest Monte Carlo standard error of a configuration's share."""
    return f"{max(share.error for share in shares):.4f}"


def width(shares: Sequence[Share]) -> str:
    return f"{statistics.fmean(share.width / share.trials for share in shares):.3f}"


def agrees(share: Share, figure: float, trials: int, digits: int) -> bool:
    """Return whether a share is within three standard errors of another simulation's rounded number."""
    slack = ERRORS * _joint(share, figure, trials) + 0.5 * 10.0**-digits
    return abs(share.value - figure) <= slack


def all_agree(shares: Sequence[Share], figures: Sequence[float], trials: int, digits: int = 3) -> str:
    """ "yes", or each share that does not agree with its figure."""
    wrong = [
        f"{share.value:.3f} is not {figure:.3g}"
        for share, figure in zip(shares, figures, strict=True)
        if not agrees(share, figure, trials, digits)
    ]
    return "no: " + ", ".join(wrong) if wrong else "yes"


def _joint(share: Share, figure: float, trials: int) -> float:
    """Standard error of the difference of two independent simulations."""
    return math.sqrt(share.variance + Share(figure * trials, trials).variance)
