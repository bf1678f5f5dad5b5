"""Variances of average precision as their authors published them, for comparison; the default is another one.

Boyd, Eng & Page (2013) treat AP as a share of m trials. Su & Zhang treat the ranks of the hits as event times
("survival"), or as if a random ranking had given them ("sigma-ap"). Coverage: least, median and greatest over the
configurations of :func:`torch_ap.inference.intervals.average_precision_interval`, which has all methods' side by side.
"""

from torch import Tensor

from torch_ap.curve.interpolation import untied
from torch_ap.inference.item_values import sum_from_below
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


def boyd(curve: HitCurve, estimate: Tensor) -> Tensor:
    """AP (1 - AP) / m, of each ranking: (S,) float64 (Boyd, Eng & Page 2013, section 4)."""
    return estimate * (1 - estimate) / segments.as_float64(curve.m)


def survival(curve: HitCurve) -> Tensor:
    r"""Su & Zhang's variance of AP = sum over hits of r(t_i) / t_i, with the r(t_i) of one empirical distribution.

    .. math::
        \sum_i \frac{r_i (1 - r_i)}{m t_i^2} + 2 \sum_{i < j} \frac{r_i (1 - r_j)}{m t_i t_j}

    AP ± z SE covers .725 / .885 / 1 at 80% and .908 / .984 / 1 at 95%: mostly too wide. Tied hits count as one
    event each at the rank of their group's end. Returns (S,) float64.
    """
    t, r = segments.as_float64(curve.cumulative_items), segments.as_float64(curve.cumulative_hits)
    hits, m = segments.as_float64(curve.hits), segments.as_float64(curve.m)
    r = r / m[curve.segment]
    pull = hits * (1 - r) / t
    later = 2 * sum_from_below(pull, curve.offsets) - pull
    return segments.total(hits * r / t * later, curve.offsets) / m


def sigma_ap(curve: HitCurve) -> Tensor:
    r"""Su & Zhang's sigma_ap^2: the ranks t_j of the hits held fixed, h(t) that of a random ranking.

    .. math::
        \frac{1}{m^2} \sum_j (2j - 1) v(t_j), \qquad v(t) = \pi (1 - \pi) \frac{n - t}{(n - 1) t}

    As a law for AP it is wrong: AP ± z sigma_ap covers .105 / .636 / 1 at 80% and .157 / .822 / 1 at 95%. Of random
    rankings of (n, m) = (3000, 245), its own case, it covers E(AP) .757 and .927, where the slides print .764 and .932.
    Tied hits take the lowest ranks of their group. Returns (S,) float64.
    """
    single = untied(curve, "pessimistic")
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    share = m / n
    t, j = segments.as_float64(single.cumulative_items), segments.as_float64(single.cumulative_hits)
    segment = single.segment
    spread = (n[segment] - t) / (t * (n[segment] - 1).clamp(min=1))
    return share * (1 - share) * segments.total((2 * j - 1) * spread, single.offsets) / (m * m)
