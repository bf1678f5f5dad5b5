"""The normal laws that Su & Zhang propose for a random ranking, under their names, and how far off they are."""

import math
from dataclasses import dataclass

from torch import Tensor

from torch_ap.evaluation.average_precision import curve_of_one
from torch_ap.inference.hits import RandomHits
from torch_ap.inference.published import variances
from torch_ap.inference.result import Result, number
from torch_ap.ranking import segments
from torch_ap.rules import checks


@dataclass(frozen=True, eq=False, repr=False)
class NormalLaw(Result):
    """A normal distribution in the place of another.

    Attributes:
        name: of what it stands for.
        mean: its centre.
        standard_deviation: its spread.
    """

    name: str
    mean: Tensor
    standard_deviation: Tensor

    def tail(self, value: float) -> Tensor:
        """P(X >= value)."""
        value = checks.number("value", value)
        mean, deviation = float(self.mean), float(self.standard_deviation)
        if not deviation > 0:
            return number(float(value <= mean))
        return number(math.erfc((value - mean) / (deviation * math.sqrt(2))) / 2)


def normal_recall(n: int, m: int, t: int) -> NormalLaw:
    r"""Su & Zhang's law of r(t), the recall at rank t of a random ranking: a normal one with its exact moments.

    .. math::
        E(r(t)) = \frac{t}{n}, \qquad Var(r(t)) = \frac{t}{m^2} \pi (1 - \pi) \frac{n - t}{n - 1}, \; \pi = \frac{m}{n}

    The shape is not exact: h(t) = m r(t) is a whole number. At (n, m) = (3000, 245) r(t) falls within mean ± z sd of
    nominal 80 / 95% with probability 81.6 / 93.9% for t = 50 and 81.8 / 95.5% for t = 1500; at (100, 10) 68.2 / 90.8%
    for t = 50. Use the quantiles of :class:`torch_ap.inference.hits.RandomHits`.

    Args:
        n: items, at least 1.
        m: relevant items, 1 to n.
        t: rank, 1 to n.

    Returns:
        :class:`NormalLaw`.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Equals mean and variance of ``scipy.stats.hypergeom(n, m, t)``, over m and m^2. Source: Su & Zhang, Statistical
    Inference for Recall, Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.published import normal_recall
        >>> law = normal_recall(3000, 245, 50)
        >>> round(float(law.mean), 6), round(float(law.standard_deviation), 6)
        (0.016667, 0.007839)
    """
    hits = RandomHits(n, m, t)
    checks.positive_int("m", m)
    return NormalLaw("r(t)", hits.mean / m, hits.variance.sqrt() / m)


def normal_precision(n: int, m: int, t: int) -> NormalLaw:
    r"""Su & Zhang's law of p(t), the precision at rank t of a random ranking: a normal one with its exact moments.

    .. math::
        E(p(t)) = \pi, \qquad Var(p(t)) = \frac{\pi (1 - \pi)}{t} \frac{n - t}{n - 1}, \quad \pi = \frac{m}{n}

    The shape is not exact: p(t) = m r(t) / t falls within mean ± z sd as often as r(t) does, see :func:`normal_recall`.

    Args:
        n: items, at least 1.
        m: relevant items, 0 to n.
        t: rank, 1 to n.

    Returns:
        :class:`NormalLaw`.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Equals mean and variance of ``scipy.stats.hypergeom(n, m, t)``, over t and t^2. Source: Su & Zhang, Statistical
    Inference for Recall, Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.published import normal_precision
        >>> law = normal_precision(3000, 245, 50)
        >>> round(float(law.mean), 6), round(float(law.standard_deviation), 6)
        (0.081667, 0.038411)
    """
    hits = RandomHits(n, m, t)
    return NormalLaw("p(t)", hits.mean / t, hits.variance.sqrt() / t)


def normal_average_precision(preds: Tensor, target: Tensor) -> NormalLaw:
    r"""Su & Zhang's law of AP: mean pi = m / n, and a variance with the observed ranks t_j of the hits held fixed.

    .. math::
        \sigma_{ap}^2 = \frac{1}{m^2} \sum_{j=1}^m (2j - 1) \frac{\pi (1 - \pi)}{t_j} \frac{n - t_j}{n - 1}

    At (n, m) = (3000, 245) its centre lies 0.41 standard deviations below E(AP), its spread is 10% too small, and the
    skewness of .5 is not in it. At nominal 5 / 1 / .1% a normal law about pi, of the exact spread even, rejects
    11.2 / 4.0 / 1.1%, at (100, 10) 15.8 / 7.7 / 3.3%. Use :func:`torch_ap.inference.chance_test`.

    Args:
        preds: (N,) scores of one ranking, no NaN; other shapes are flattened. Tied hits take the lowest ranks of their
            group.
        target: of 0 and 1, in the shape of ``preds``, at least one hit.

    Returns:
        :class:`NormalLaw`.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals no other package's. Source: Su & Zhang, Statistical Inference for Recall, Precision and Average Precision.

    Example:
        >>> import torch
        >>> from torch_ap.inference.published import normal_average_precision
        >>> preds, target = torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1]), torch.tensor([1, 1, 0, 1, 0, 0, 0, 0])
        >>> law = normal_average_precision(preds, target)
        >>> round(float(law.mean), 4), round(float(law.standard_deviation), 4)
        (0.375, 0.2795)
    """
    curve = curve_of_one(preds, target)
    if not int(curve.m):
        raise ValueError(f"`target` must hold one hit at least, got none among {int(curve.n)} items")
    mean = segments.as_float64(curve.m) / segments.as_float64(curve.n)
    return NormalLaw("AP", mean[0], variances.sigma_ap(curve).sqrt()[0])
