"""The p-values of ``compare_rankings`` of many pairs of rankings at once: the same formulas, row by row of a table.

``tests/inference/test_comparison.py`` holds both against each other.
"""

import torch
from scipy.special import ndtr, stdtr
from torch import Tensor

METHODS = ("logit", "influence", "influence-z", "jackknife", "jackknife-z")


def p_values(a: Tensor, b: Tensor, relevant: Tensor, design: str) -> dict[str, Tensor]:
    """(R,) two-sided p by each method, of (R, n) untied scores with two hits and two misses in each row at least.

    NaN where a system's standard error is 0, and where its AP and the other's are the same.
    """
    m, n = relevant.sum(1).double(), relevant.shape[1]
    least = torch.minimum(m, n - m)
    first, second = _Rows(a, relevant), _Rows(b, relevant)
    gap = (first.ap - second.ap).abs()

    def error(slope: Tensor, other: Tensor) -> Tensor:
        hits, misses, _ = _squares(slope[:, None] * first.phi - other[:, None] * second.phi, relevant)
        value = hits / (m * (m - 1)) + misses / ((n - m) * (n - m - 1))
        if design == "iid":
            value = value + m * (n - m) / n**3 * (slope * first.slope - other * second.slope) ** 2
        return value.sqrt()

    ones, share = torch.ones_like(m), least / (least + 1)
    inside = [share * x.ap for x in (first, second)]
    of_logits = error(*(share / (x * (1 - x)) for x in inside))
    apart = (torch.logit(inside[0]) - torch.logit(inside[1])).abs()
    by_influence, by_jackknife = gap / error(ones, ones), gap / _jackknife_error(first, second, relevant, design)
    found = {
        "logit": _tail(apart / of_logits * share.sqrt(), least - 1),
        "influence": _tail(by_influence, least - 1),
        "influence-z": _tail(by_influence),
        "jackknife": _tail(by_jackknife, least - 1),
        "jackknife-z": _tail(by_jackknife),
    }
    # one more item gives the same AP, so that no difference at all has p = 1, and one without a standard error none
    return {name: torch.where(gap == 0, 1.0, p) for name, p in found.items()}


class _Rows:
    """AP of each row, and for each item its influence, and AP without it."""

    def __init__(self, scores: Tensor, relevant: Tensor) -> None:
        places = scores.argsort(1, descending=True)
        y = relevant.gather(1, places).double()
        n, h = y.shape[1], y.cumsum(1)
        t, m = torch.arange(1.0, n + 1, dtype=torch.float64), h[:, -1:]
        p, shorter = h / t, (t - 1).clamp(min=1)
        total = (y * p).sum(1, keepdim=True)
        self.ap = (total / m)[:, 0]
        phi = torch.where(y > 0, p + _from_below(y * (1 - p) / t), -(n - m) / m * _from_below(y * p / t))
        without_hit = total - _from_below(y * p) + _from_below(y * (h - 1) / shorter) - (h - 1) / shorter
        without_miss = total + _from_below(y * h / (t * shorter) * (t > 1))
        left_out = torch.where(y > 0, without_hit / (m - 1), without_miss / m)
        self.slope = (y * h * (t - h) / t**2).sum(1) * n**2 / (m**2 * (n - m))[:, 0]
        self.phi, self.left_out = (torch.empty_like(x).scatter_(1, places, x) for x in (phi, left_out))


def _from_below(values: Tensor) -> Tensor:
    """Return the sum of each entry and all later entries."""
    return values.flip(1).cumsum(1).flip(1)


def _squares(values: Tensor, relevant: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of squared deviations, of hits and of misses, and the difference of their means."""
    y = relevant.double()
    m, q = y.sum(1), (1 - y).sum(1)
    means = (values * y).sum(1) / m, (values * (1 - y)).sum(1) / q
    off = (values - torch.where(relevant, means[0][:, None], means[1][:, None])) ** 2
    return (off * y).sum(1), (off * (1 - y)).sum(1), means[0] - means[1]


def _jackknife_error(first: _Rows, second: _Rows, relevant: Tensor, design: str) -> Tensor:
    hits, misses, apart = _squares(first.left_out - second.left_out, relevant)
    m, n = relevant.sum(1).double(), relevant.shape[1]
    if design == "iid":
        return ((n - 1) / n * (hits + misses + m * (n - m) / n * apart**2)).sqrt()
    return (hits * (m - 1) / m + misses * (n - m - 1) / (n - m)).sqrt()


def _tail(size: Tensor, df: Tensor | None = None) -> Tensor:
    lower = ndtr(-size.numpy()) if df is None else stdtr(df.numpy(), -size.numpy())
    return torch.as_tensor(2 * lower)
