"""Two systems trained and tested on repeated splits of one data set.

The values of the splits are not an independent sample: their training sets overlap. The variance of their mean is
larger than s^2 / J, and a paired t test on them finds differences where there are none.
"""

import math
from dataclasses import dataclass, field

from torch import Tensor

from torch_ap.inference.difference import Comparison
from torch_ap.inference.interval import of_difference
from torch_ap.inference.queries import pairs_of
from torch_ap.inference.result import number
from torch_ap.inference.rounding import deviation
from torch_ap.rules import checks, tensors
from torch_ap.rules import values as value_rules


@dataclass(frozen=True, eq=False, repr=False)
class SplitComparison(Comparison):
    """Two systems over the same splits: the means, and the mean of the differences, in the fields of Comparison.

    Attributes:
        splits: J.
    """

    splits: int = field(kw_only=True)


def compare_splits(
    values_a: Tensor,
    values_b: Tensor,
    n_train: float,
    n_test: float,
    *,
    confidence_level: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> SplitComparison:
    r"""The corrected resampled t test of two systems over repeated training-test splits, with its interval.

    .. math::
        SE^2 = \Big(\frac{1}{J} + \frac{n_{test}}{n_{train}}\Big) s^2, \qquad \bar d \pm t_{J - 1} SE

    with s^2 the variance of the J differences. Without the second term, which stands for what the overlapping training
    sets share, more splits would make any difference significant. The estimand is the mean difference of systems that
    learn from so many items, over training sets and test items. Two equally good learners are told apart, at nominal
    5%, by 10 / 50 splits: where a tenth of the items are tested 5.0 / 4.2% of the time, by paired t 15.4 / 42.5%; where
    half of them are 5.6 / 6.5%, by paired t 52.3 / 77.7%; each ± .7 (``benchmarks.coverage``).

    Args:
        values_a: (J,) finite values of system A, one per split, at least two: such as AP on each test set, by
            ``cross_val_score(..., cv=ShuffleSplit(...))`` with :data:`torch_ap.sklearn.average_precision_scorer`.
        values_b: (J,) of system B on the same splits in the same order.
        n_train: items a model is trained on in each split, above 0.
        n_test: items it is tested on, above 0.
        confidence_level: nominal coverage of the interval, in (0, 1).
        bounds: the least and the greatest value that the measure can take, (0, 1) for average precision; the ends of
            the interval then lie no further out than two values can differ. None where there are none.

    Returns:
        :class:`SplitComparison`, whose method is "t". All differences zero: p = 1. All equal: no spread, and NaN.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``scipy.stats.ttest_rel`` with its t divided by sqrt(1 + J n_test / n_train).

    Source: Nadeau & Bengio (2003), Inference for the Generalization Error; Bouckaert & Frank (2004) for r repetitions
    of k folds, where J = r k and n_test / n_train = 1 / (k - 1).

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_splits
        >>> a, b = torch.tensor([0.82, 0.78, 0.85, 0.80, 0.83]), torch.tensor([0.79, 0.77, 0.81, 0.79, 0.78])
        >>> found = compare_splits(a, b, n_train=900, n_test=100)
        >>> round(float(found.difference), 4), round(float(found.p_value), 4)
        (0.028, 0.0485)
    """
    tensors.paired(values_a=values_a, values_b=values_b)
    for name, values in (("values_a", values_a), ("values_b", values_b)):
        value_rules.of_each_query(name, values)
    if len(values_a) < 2:
        raise ValueError(f"`values_a` and `values_b` must hold two splits at least, got {len(values_a)}")
    checks.positive("n_train", n_train)
    checks.positive("n_test", n_test)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.within_bounds(bounds, values_a=values_a, values_b=values_b)
    pairs = pairs_of(values_a, values_b)
    gap, splits = pairs.gap, len(pairs.gap)
    error = float(deviation(gap, pairs.noise)) * math.sqrt(1 / splits + n_test / n_train)
    mean, reason = float(gap.mean()), ""
    low = high = p = math.nan
    if not gap.any():
        low, high, p, reason = mean, mean, 1.0, "all differences are zero: p = 1 by definition"
    elif not error > 0:
        reason = "all differences are equal, so they have no spread: ends and p are NaN"
    else:
        low, high, p = _student(mean, error, splits - 1, confidence_level)
        low, high = of_difference(low, high, bounds)
    return SplitComparison(
        value_a=pairs.value_a,
        value_b=pairs.value_b,
        difference=gap.mean(),
        low=number(low),
        high=number(high),
        standard_error=number(error),
        p_value=number(p),
        confidence_level=confidence_level,
        method="t",
        reason=reason,
        splits=splits,
    ).to(values_a.device)


def _student(mean: float, error: float, df: int, confidence_level: float) -> tuple[float, float, float]:
    """Ends of the t interval, and the two-sided p."""
    from scipy.special import stdtr, stdtrit

    half = float(stdtrit(df, (1 + confidence_level) / 2)) * error
    return mean - half, mean + half, 2 * float(stdtr(df, -abs(mean) / error))
