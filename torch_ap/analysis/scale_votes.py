"""By which scale boxes would fit others: each pair of an image votes for the one that makes its two boxes equal.

Pairs of one object agree; those of different objects do not.
"""

import math

import torch
from torch import Tensor

_VOTE = 0.1  # width of the bins of log scales


def voted(raw: Tensor, true: Tensor, d: Tensor, g: Tensor) -> tuple[float, float] | None:
    """The scale that most pairs agree on: of their centres, where that of their sizes is about the same."""
    one, two = raw[d], true[g]
    centre = (one[:, :2] + one[:, 2:]) / (two[:, :2] + two[:, 2:])
    size = (one[:, 2:] - one[:, :2]) / (two[:, 2:] - two[:, :2])
    good = (centre > 0) & (size > 0) & (centre < 1e6) & (centre > 1e-6) & (size < 1e9)
    good &= (centre / size).log().abs() < 0.3
    logs = centre[good.all(1)].log() / _VOTE
    if not len(logs):
        return None
    bins = logs.round()
    values, votes = torch.unique(bins[:, 0] * 4096 + bins[:, 1], return_counts=True)
    mode = bins[(bins[:, 0] * 4096 + bins[:, 1] == values[votes.argmax()]).nonzero()[0, 0]]
    near = logs[((logs - mode).abs() < 1).all(1)]
    return tuple(_rounded(math.exp(_VOTE * value)) for value in near.median(0).values.tolist())  # type: ignore[return-value]


def _rounded(scale: float) -> float:
    """The whole number, or its inverse, that is within a percent; else three digits."""
    for value, back in ((scale, False), (1 / scale, True)):
        whole = round(value)
        if whole and abs(value / whole - 1) < (0.02 if whole < 20 else 0.01):
            return 1 / whole if back else float(whole)
    return float(f"{scale:.3g}")
