"""Mean and variance of average precision over random orders of the labels, where tied items share a threshold.

m times AP is a sum over hits and pairs of hits: 1 / t for each hit of a group that ends at rank t, 2 / t for each pair
in the group, and 1 / t for each pair of a hit of it and one above it. Hoeffding's decomposition for draws without
replacement splits its variance into that of single hits and that of pairs, neither of which is a small difference of
large numbers.
"""

import math

from torch import Tensor

from torch_ap.ranking import segments


def tied_moments(sizes: Tensor, m: int) -> tuple[float, float]:
    r"""E(AP) and the standard deviation of AP over all orders of the labels.

    With c_a = 1 / t what item a adds as a hit, d_ab what the pair a, b adds, D_a the sum of d_ab over all b, and D that
    over all pairs:

    .. math::
        E(m AP) = \frac{m}{n} \sum_a c_a + \frac{m (m - 1)}{n (n - 1)} D

    .. math::
        Var(m AP) = \frac{m (n - m)}{n (n - 1)} \sum_a l_a^2
                  + \frac{m (m - 1) (n - m) (n - m - 1)}{n (n - 1) (n - 2) (n - 3)} \sum_{a < b} e_{ab}^2

    with l_a the c_a + D_a (m - 1) / (n - 2) less their mean, and e_ab = d_ab - (D_a + D_b) / (n - 2) + 2 D / ((n - 1)
    (n - 2)). Costs one pass over the groups.

    Args:
        sizes: (G,) int64 items of each tie group, best first.
        m: hits, at least 1 and fewer than the items.

    Equals mean and standard deviation over all permutations, and for groups of one item
    :func:`torch_ap.inference.random_average_precision`. Source: Hoeffding (1948); the pair sums as above.
    """
    g, t = segments.as_float64(sizes), segments.as_float64(sizes.cumsum(0))
    n = int(sizes.sum())
    if len(sizes) == 1:  # one threshold: AP is m / n in any order
        return m / n, 0.0
    p1, p2 = m / n, m * (m - 1) / (n * max(n - 1, 1))
    below = (g / t).flip(0).cumsum(0).flip(0) - g / t
    pairs = (2 * (g - 1) + (t - g)) / t + below
    every = float((g * pairs).sum()) / 2
    mean = p1 * float((g / t).sum()) + p2 * every
    single = 1 / t + pairs * ((m - 1) / max(n - 2, 1))
    single = single - (g * single).sum() / n
    variance = m * (n - m) / (n * max(n - 1, 1)) * float((g * single**2).sum())
    if min(m, n - m) > 1:
        centred = pairs - 2 * every / n
        squares = (2 * g * (g - 1) + g * (t - g)) / t**2
        left = float(squares.sum()) - 2 * every**2 / (n * (n - 1)) - float((g * centred**2).sum()) / (n - 2)
        variance += p2 * (n - m) * (n - m - 1) / ((n - 2) * (n - 3)) * left
    return mean / m, math.sqrt(max(variance, 0.0)) / m
