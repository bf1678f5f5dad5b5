"""The normal laws that Su & Zhang propose for a random ranking, under their names, and how far off they are."""

import math
from dataclasses import dataclass

from torch import Tensor

from torch_ap.core import builders, checks
from torch_ap.inference import published, rules
from torch_ap.inference.hits import RandomHits


@dataclass(frozen=True)
class NormalLaw:
    """A normal distribution in the place of another.

    Attributes:
        name: of what it stands for.
        mean: its centre.
        standard_deviation: its spread.
    """

    name: str
    mean: float
    standard_deviation: float

    def tail(self, value: float) -> float:
        """P(X >= value)."""
        if not self.standard_deviation > 0:
            return float(value <= self.mean)
        return math.erfc((value - self.mean) / (self.standard_deviation * math.sqrt(2))) / 2


def normal_recall(n: int, m: int, t: int) -> NormalLaw:
    """Su & Zhang's law of r(t): mean t / n, Var h(t) / m^2. Both moments are exact.

    The shape is not: h(t) is a whole number. At (n, m) = (3000, 245) intervals of nominal 80 / 95% around the observed
    r(t) cover 75 / 92% at t = 50 and 82 / 96% at t = 1500. Use the quantiles of
    :class:`torch_ap.inference.chance.RandomHits`.
    """
    hits = RandomHits(n, m, t)
    checks.positive_int("m", m)
    return NormalLaw("r(t)", hits.mean / m, math.sqrt(hits.variance) / m)


def normal_precision(n: int, m: int, t: int) -> NormalLaw:
    """Su & Zhang's law of p(t): mean m / n, Var h(t) / t^2; right and wrong as :func:`normal_recall` is."""
    hits = RandomHits(n, m, t)
    return NormalLaw("p(t)", hits.mean / t, math.sqrt(hits.variance) / t)


def normal_average_precision(preds: Tensor, target: Tensor) -> NormalLaw:
    """Su & Zhang's law of AP: mean pi = m / n, standard deviation sigma_ap with the observed ranks held fixed.

    At (n, m) = (3000, 245) its centre lies 0.41 standard deviations below E(AP), its spread is 10% too small, and the
    skewness of .5 is not in it. At nominal 5 / 1 / .1% a normal law about pi, of the exact spread even, rejects
    11.2 / 4.0 / 1.1%, at (100, 10) 15.8 / 7.7 / 3.3%. Use :func:`torch_ap.inference.chance.chance_test`.

    Args:
        preds: (N,) scores.
        target: (N,) of 0 and 1, one hit at least.
    """
    rules.paired(preds, target, "preds", "target")
    curve = builders.from_scores(preds, target)
    checks.positive_int("m", int(curve.m))
    return NormalLaw("AP", int(curve.m) / int(curve.n), math.sqrt(float(published.sigma_ap(curve))))
