"""Shares as table cells, beside the figures of an independent simulation where there are any."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.coverage.tasks import Share, Tally

# an independent simulation's figures carry a Monte Carlo error of their own
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
    """Those of least, median and greatest value; the middle of two has the mean value."""
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
    """Whether a share lies within three standard errors of another simulation's, and its rounding."""
    slack = ERRORS * _joint(share, figure, trials) + 0.5 * 10.0**-digits
    return abs(share.value - figure) <= slack


def all_agree(shares: Sequence[Share], figures: Sequence[float], trials: int, digits: int = 3) -> str:
    """Of least, median and greatest, or of any as many shares."""
    wrong = [
        f"{share.value:.3f} is not {figure:.3g}"
        for share, figure in zip(shares, figures, strict=True)
        if not agrees(share, figure, trials, digits)
    ]
    return "no: " + ", ".join(wrong) if wrong else "yes"


def within(shares: Sequence[Share], figures: tuple[float, float], trials: int, digits: int = 3) -> str:
    """Whether all shares lie in a range that another simulation found, give or take three standard errors."""
    low, *_, high = three(shares)
    slack = 0.5 * 10**-digits
    below = low.value < figures[0] - ERRORS * _joint(low, figures[0], trials) - slack
    above = high.value > figures[1] + ERRORS * _joint(high, figures[1], trials) + slack
    wrong = [f"{share.value:.3f}" for share, out in ((low, below), (high, above)) if out]
    return "no: " + ", ".join(wrong) if wrong else "yes"


def covers(shares: Sequence[Share], figures: tuple[float, float], trials: int, digits: int = 3) -> str:
    """Whether the range found here holds another simulation's, of fewer configurations."""
    low, *_, high = three(shares)
    slack = 0.5 * 10**-digits
    inside = low.value <= figures[0] + ERRORS * _joint(low, figures[0], trials) + slack
    inside &= high.value >= figures[1] - ERRORS * _joint(high, figures[1], trials) - slack
    return "yes" if inside else "no"


def figures(values: Sequence[float], joint: str = " / ") -> str:
    return joint.join(f"{value:.3f}" for value in values)


def _joint(share: Share, figure: float, trials: int) -> float:
    """Standard error of the difference of two independent simulations."""
    return math.sqrt(share.variance + Share(figure * trials, trials).variance)
