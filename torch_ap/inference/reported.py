"""An interval for an average precision of which only two printed numbers are known: AP and the number of hits."""

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.inference import interval
from torch_ap.inference.interval import Interval
from torch_ap.inference.student import normal_quantile
from torch_ap.rules import checks
from torch_ap.rules.options import allowed

Method: TypeAlias = Literal["boyd-logit", "boyd-binomial"]
_FORMS = {"boyd-logit": interval.logit, "boyd-binomial": interval.wald}


def reported_average_precision_interval(
    average_precision: float | Tensor,
    m: int,
    *,
    confidence_level: float = 0.95,
    method: Method = "boyd-logit",
) -> Interval:
    r"""A confidence interval from a printed AP and the number of hits alone, where no scores are at hand.

    .. math::
        SE^2 = \frac{AP (1 - AP)}{m}, \qquad logit(AP) \pm \frac{z}{\sqrt{m\, AP (1 - AP)}} \quad\text{or}\quad
        AP \pm z\, SE

    It takes AP for a share of m trials, which is mostly too wide and never far too narrow: the coverage of the two
    methods stands in the table of :func:`torch_ap.inference.published.published_interval`, and
    :func:`torch_ap.inference.average_precision_interval` is to be preferred where scores are known. The estimand is the
    limit that AP tends to as items are added. Whether two printed APs differ it cannot tell: systems compared on the
    same items share much.

    Args:
        average_precision: the printed AP, in [0, 1]; a number, or a tensor of one.
        m: hits (relevant items), at least 1.
        confidence_level: nominal coverage, in (0, 1).
        method: the form, as above; the ends of "boyd-binomial" may leave [0, 1].

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors. AP = 1 has the one-sided lower end
        (1 - confidence_level)^(1 / m), the upper end being 1; AP = 0 and m = 1 have NaN ends. ``reason`` says so.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Equals ``published_interval`` with that method, of any ranking with this AP and m. Source: Boyd, Eng & Page
    (2013), Area under the Precision-Recall Curve, section 4.

    Example:
        >>> from torch_ap.inference import reported_average_precision_interval
        >>> found = reported_average_precision_interval(0.256, 304)
        >>> round(float(found.low), 3), round(float(found.high), 3)
        (0.21, 0.308)
    """
    value: Any = average_precision
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    checks.fraction("average_precision", value)
    m = checks.positive_int("m", m)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, allowed(Method))
    ap = torch.tensor(float(value), dtype=torch.float64)
    nan, error = torch.full_like(ap, torch.nan), torch.sqrt(ap * (1 - ap) / m)
    low, high = _FORMS[method](ap, error, normal_quantile(confidence_level))
    reason = ""
    if m == 1 or value == 0:
        low, high, reason = nan, nan, "one hit, which has no spread" if m == 1 else "AP of 0"
        reason += ": the ends are NaN"
    elif value == 1:
        low, high = torch.full_like(ap, (1 - confidence_level) ** (1 / m)), ap
        reason = "AP of 1, where no standard error exists: the lower end is the one-sided alpha^(1 / m)"
    return Interval(ap, low, high, error, confidence_level, method, "", reason)
