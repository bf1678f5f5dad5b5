"""Average precision under label noise with known flip rates."""

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.items.inputs import ClassificationInputs
from torch_ap.core.measures.convention import PLAIN
from torch_ap.core.ranking import builders, segments
from torch_ap.inference import record
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.pseudo_labels import average_precision_of_pseudo_labels, sum_of_squared_deviations
from torch_ap.inference.record import Interval, first_interval
from torch_ap.inference.resampling import InferenceSettings

_METHOD = "corrected-influence"
_ERRORS = 2.0  # standard errors by which the corrected number of hits must exceed 0, and may exceed the items


def noisy_average_precision_interval(
    preds: Tensor,
    target: Tensor,
    *,
    false_positive_rate: float = 0.0,
    false_negative_rate: float = 0.0,
    confidence_level: float = 0.95,
) -> Interval:
    r"""Return the AP of the true labels, from labels that were flipped with known rates, with its interval.

    .. math::
        D_i = \frac{y_i - \alpha}{1 - \alpha - \beta}, \qquad
        AP = \frac{1}{M} \sum_t D_t \frac{h_{t-1} + 1}{t}, \qquad h_t = \sum_{s \le t} D_s, \qquad M = \sum_t D_t

    by descending score, with the false positive rate alpha and the false negative rate beta. Given the true label, D
    has its expectation. Tied items and the standard error: :mod:`torch_ap.inference.pseudo_labels`. The interval is on
    the logit scale, with Student's t for M - 1 degrees of freedom and items as a random sample.

    The estimand is the limit of the AP of true labels as items are added. The flips must not depend on the score, given
    the true label. If labels of hard items are wrong more often, the result is wrong. Compute it for all plausible
    rates: the range of the values bounds the AP.

    Args:
        preds: (N,) scores of one ranking, no NaN.
        target: (N,) noisy labels 0 and 1.
        false_positive_rate: alpha, the share of the true negatives with label 1.
        false_negative_rate: beta, the share of the true positives with label 0; alpha + beta must be below 1.
        confidence_level: nominal coverage, in (0, 1).

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors; with both rates 0 that of
        :func:`torch_ap.inference.average_precision_interval`. A corrected AP outside [0, 1] is clamped, with NaN ends
        and a reason. Everything is NaN, with a reason, if the corrected number of hits M is below two of its standard
        errors, because false labels may then explain all hits; or if M exceeds N by more than two of them, because the
        rates then contradict the labels.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Coverage at 95%: .944 to .971 with up to 52% false labels among the positive ones, where the interval of the noisy
    labels covers 0 to .573 (``benchmarks.coverage``). Source: Menon et al. (2015), Learning
    from Corrupted Binary Labels via Class-Probability Estimation, for the corrected labels.

    Example:
        >>> import torch
        >>> from torch_ap.inference import noisy_average_precision_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = noisy_average_precision_interval(preds, target, false_negative_rate=0.1)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.41, 0.872, 0.985]
    """
    batch = ClassificationInputs().validate_now(preds, target)
    rates = false_positive_rate, false_negative_rate
    return interval_of_noisy_items(batch.scores, batch.target, *rates, confidence_level)


def interval_of_noisy_items(
    scores: Tensor, target: Tensor, false_positive_rate: float, false_negative_rate: float, confidence_level: float
) -> Interval:
    """Return :func:`noisy_average_precision_interval` of validated items."""
    alpha, beta = false_positive_rate, false_negative_rate
    for name, rate in (("false_positive_rate", alpha), ("false_negative_rate", beta)):
        checks.fraction(name, rate)
    if alpha + beta >= 1:
        raise_invalid("false_positive_rate", f"must be below 1 - `false_negative_rate`, {1 - beta:g}", alpha)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    if alpha == beta == 0:
        options = InferenceSettings(confidence_level, "influence")
        return first_interval(curve_interval(builders.from_scores(scores, target), PLAIN, options))
    labels = (segments.as_float64(target) - alpha) / (1 - alpha - beta)
    ap = average_precision_of_pseudo_labels(scores, labels)
    nan = torch.full_like(ap.total, torch.nan)
    settings, margin = (confidence_level, _METHOD, "iid"), _ERRORS * float(sum_of_squared_deviations(labels).sqrt())
    if not float(ap.total) > margin:
        reason = "false labels may explain all hits: the corrected number of hits is not above its own error"
        return Interval(nan, nan, nan, nan, *settings, reason)
    if float(ap.total) - len(labels) > margin:
        reason = f"the rates contradict the labels: {float(ap.total):.4g} corrected hits of {len(labels)} items"
        return Interval(nan, nan, nan, nan, *settings, reason)
    error = sum_of_squared_deviations(labels * ap.slope + ap.offset).sqrt()
    low, high = record.logit(ap.value, error, record.student_quantile(confidence_level, ap.total - 1))
    reason = ""
    if bool(torch.isnan(low)):
        outside = f"the corrected AP, {float(ap.value):.3g}, is not between 0 and 1, and the rates may be too high"
        reason = f"{'fewer than two corrected hits' if ap.total < 2 else outside}: the ends are NaN"
    return Interval(ap.value.clamp(0, 1), low, high, error, *settings, reason)
