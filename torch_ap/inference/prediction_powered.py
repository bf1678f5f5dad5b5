r"""Prediction-powered inference: few human labels, and labels of a judge, such as a language model, for all items.

The estimate is the value under the human labels, corrected by the judge:

.. math::
    \hat\theta = \theta_y(labeled) - \lambda [\theta_f(labeled) - \theta_f(all)]

with human labels y, which a random sample of the items has, and labels f of the judge. The difference in brackets has
the expectation 0 for any judge: errors of the judge cost width, not coverage. The variance is a quadratic function of
lambda, whose minimum in [0, 1] is used. A useless judge gets a lambda near 0, and the interval of the human labels.

For AP, the formula is on the logit scale, so that the interval is in (0, 1). The judge's AP is that of
:mod:`torch_ap.inference.pseudo_labels`, with probabilities or 0 and 1. With the terms e of the items for y and f,

.. math::
    Var\ \hat\theta = \sum_{labeled} \Big(e^y_i / n_y - \lambda e^f_i (1 / n_y - 1 / n)\Big)^2
                      + \sum_{others} \Big(\lambda e^f_i / n\Big)^2

each sum centered. For means, such as precision at k over items or MAP over queries, e is the value itself.

Source: Angelopoulos, Bates, Fannjiang, Jordan & Zrnic (2023), Prediction-Powered Inference; Angelopoulos, Duchi & Zrnic
(2023), PPI++: Efficient Prediction-Powered Inference, for lambda.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid, warn_of_reason
from torch_ap.core.items.inputs import ClassificationInputs, counted_items
from torch_ap.core.ranking import segments
from torch_ap.inference import record
from torch_ap.inference.average_precision import average_precision_interval
from torch_ap.inference.pseudo_labels import average_precision_of_pseudo_labels
from torch_ap.inference.record import Interval

_METHOD = "prediction-powered"
_UNLABELED = -1  # target of items without a human label
_FEW_LABELS = 15  # queries or items, or labels of either kind; with fewer, no coverage was measured
_FAR = 5.0  # standard errors of a mean rank
_MIN_LABELS = 200  # human labels for AP; with 100 and an AP of .85, 95% intervals cover .87


@dataclass(frozen=True, eq=False, repr=False)
class PredictionPoweredInterval(Interval):
    """An estimate from few human labels and the labels of a judge: the fields of Interval, and those below.

    Attributes:
        human_estimate: the estimate from the human labels alone.
        human_low: lower end of its interval.
        human_high: upper end of its interval.
        judge_weight: lambda, in [0, 1]; 0 if the judge does not help.
    """

    human_estimate: Tensor = field(kw_only=True)
    human_low: Tensor = field(kw_only=True)
    human_high: Tensor = field(kw_only=True)
    judge_weight: Tensor = field(kw_only=True)


def prediction_powered_average_precision_interval(
    preds: Tensor, target: Tensor, judge: Tensor, *, confidence_level: float = 0.95
) -> PredictionPoweredInterval:
    """Return the AP under human labels, which few items have, from the labels of a judge for all items.

    The estimand is the limit of the AP under human labels as items are added. The formulas are in
    :mod:`torch_ap.inference.prediction_powered`. The items with human labels must be a random
    sample of all items. The interval has Student's t for min(hits, misses) - 1 degrees of freedom, with the numbers of
    human labels. With 200 to 500 human labels, 20 to 90 of them hits, it covers .935 to .963 at 95%, at .60 to .99 of
    the width of the human labels alone. With 100 human labels, half of them hits, it covers .882
    (``benchmarks.coverage``), and ``reason`` reports it.

    Args:
        preds: (N,) scores of one ranking, no NaN.
        target: (N,) human labels 0 and 1; -1 for items without one.
        judge: (N,) labels of the judge: 0 and 1, or probabilities of a hit, calibrated or not.
        confidence_level: nominal coverage, in (0, 1).

    Returns:
        :class:`torch_ap.inference.PredictionPoweredInterval` of 0-d float64 tensors. The ends are NaN with a reason, if
        the human labels alone have no interval, or an AP of 1. ``reason`` also reports fewer than 15 hits or misses, or
        fewer than 200 human labels. It reports items with human labels whose scores, or labels of the judge, are
        clearly higher or lower than those of the others, with a warning.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent for AP; the package ppi_py has means, quantiles and regressions. Source:
    Angelopoulos et al. (2023).

    Example:
        >>> import torch
        >>> from torch_ap.inference import prediction_powered_average_precision_interval
        >>> generator = torch.Generator().manual_seed(0)
        >>> truth = (torch.rand(4000, generator=generator) < 0.2).long()
        >>> scores = torch.randn(4000, generator=generator) + 1.5 * truth
        >>> judge = torch.where(torch.rand(4000, generator=generator) < 0.05, 1 - truth, truth)
        >>> human = torch.where(torch.arange(4000) < 400, truth, -1)
        >>> found = prediction_powered_average_precision_interval(scores, human, judge)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.529, 0.609, 0.683]
        >>> [round(float(x), 3) for x in (found.human_low, found.human_high)]
        [0.506, 0.718]
    """
    batch = ClassificationInputs(ignore_index=_UNLABELED).validate_now(preds, target)
    return interval_of_judged_items(batch.scores, batch.target, _judge_labels(judge, batch.scores), confidence_level)


def interval_of_judged_items(
    scores: Tensor, target: Tensor, labels: Tensor, confidence_level: float
) -> PredictionPoweredInterval:
    """Return :func:`prediction_powered_average_precision_interval` of validated items.

    Args:
        scores: (N,) scores.
        target: (N,) human labels, with the mark of ignored items for items without one.
        labels: (N,) float64 labels of the judge.
        confidence_level: nominal coverage.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    labeled = counted_items(target)
    if not bool(labeled.any()):
        raise ValueError("`target` must have human labels, 0 or 1, got none")
    human_labels = target[labeled]
    human = average_precision_interval(scores[labeled], human_labels.long(), confidence_level=confidence_level)
    hits, count = int(human_labels.sum()), len(human_labels)
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": _METHOD, "design": "iid"}
    if not bool((human.estimate > 0) & (human.estimate < 1)) or bool(human.low.isnan()):
        nan = torch.full_like(human.estimate, torch.nan)
        reason = human.reason if bool(human.low.isnan()) else "AP of 1 under the human labels: the ends are NaN"
        return _result((human.estimate, nan, nan, nan, nan), human, reason, settings)
    value, terms = _logit_terms(scores[labeled], segments.as_float64(human_labels))
    everywhere, judged = _logit_terms(scores, labels)
    gap = _logit_terms(scores[labeled], labels[labeled])[0] - everywhere
    if not bool(gap.isfinite()):  # the judge's AP is 0, 1 or NaN
        gap, judged = torch.zeros_like(gap), torch.zeros_like(judged)
    weight, variance = _combination(terms, judged, labeled)
    center = value - weight * gap
    df = center.new_tensor(min(hits, count - hits) - 1.0)
    half = record.student_quantile(confidence_level, df) * variance.sqrt()
    estimate = torch.sigmoid(center)
    error = variance.sqrt() * estimate * (1 - estimate)
    low, high = torch.sigmoid(center - half), torch.sigmoid(center + half)
    few = min(hits, count - hits)
    reason = f"{count} human labels: likely too narrow, 100 of them covered .88" if count < _MIN_LABELS else ""
    reason = f"{few} human labels of one kind: no coverage was measured" if few < _FEW_LABELS else reason
    selected = _selection_reason({"scores": scores, "judge labels": labels}, labeled)
    reason = "; ".join(filter(None, [reason, selected]))
    return _result((estimate, low, high, error, weight), human, reason, settings)


def prediction_powered_mean_interval(
    values: Tensor, judge_values: Tensor, *, confidence_level: float = 0.95
) -> PredictionPoweredInterval:
    r"""Return the mean of values under human labels, which few units have, from the judge's values of all units.

    .. math::
        \hat\theta = \bar y_{labeled} - \lambda (\bar f_{labeled} - \bar f_{all})

    The estimand is the mean over the population of the units. The units are queries with a value such as AP, P@k or
    nDCG, so that the mean is MAP; or the top k items of a ranking with labels 0 and 1, so that it is P@k. The units
    with human labels must be a random sample of all. The interval is Wilson's with the number of trials
    theta (1 - theta) / Var, and Student's t for one degree of freedom less than human values.

    Args:
        values: (Q,) values in [0, 1] under human labels; NaN for units without them.
        judge_values: (Q,) values of the same units under the labels of the judge, in [0, 1].
        confidence_level: nominal coverage, in (0, 1).

    Returns:
        :class:`torch_ap.inference.PredictionPoweredInterval` of 0-d float64 tensors; NaN ends for a single human value.
        ``reason`` also reports fewer than 15 human values, and, with a warning, units with human values whose judge
        values are clearly higher or lower than those of the others.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    The estimate equals ``ppi_py.ppi_mean_pointestimate`` with the same ``lam``. Source: Angelopoulos et al. (2023),
    section 2; Wilson (1927).

    Example:
        >>> import torch
        >>> from torch_ap.inference import prediction_powered_mean_interval
        >>> judge = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> human = torch.where(torch.arange(200) % 8 == 3, judge**1.2, torch.nan)
        >>> found = prediction_powered_mean_interval(human, judge)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.411, 0.455, 0.499]
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    values = _unit_values("values", values)
    judged = _unit_values("judge_values", judge_values)
    if values.shape != judged.shape:
        raise_invalid("judge_values", f"must have the shape of `values`, {tuple(values.shape)}", Plain(judged.shape))
    if bool(judged.isnan().any()):
        raise ValueError("`judge_values` must not contain NaN: the judge labels all units")
    labeled = ~values.isnan()
    count = int(labeled.sum())
    if not count:
        raise ValueError("`values` must have at least one human value, got NaN only")
    human = values[labeled]
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": _METHOD}
    df = human.new_tensor(count - 1.0)
    t = record.student_quantile(confidence_level, df)
    weight, variance = _combination(human, judged, labeled)
    estimate = human.mean() - weight * (judged[labeled].mean() - judged.mean())
    own = _moment(human / count, human / count)
    alone = Interval(human.mean(), *_wilson(human.mean(), own, count, t), own.sqrt(), **settings)
    inside = estimate.clamp(0, 1)
    low, high = _wilson(inside, variance, count, t)
    reason = f"{count} units with human labels: no coverage was measured" if count < _FEW_LABELS else ""
    reason = "one unit with a human label, which has no spread: the ends are NaN" if count == 1 else reason
    reason = "; ".join(filter(None, [reason, _selection_reason({"judge values": judged}, labeled)]))
    return _result((inside, low, high, variance.sqrt(), weight), alone, reason, settings)


def _selection_reason(columns: Mapping[str, Tensor], labeled: Tensor) -> str:
    """Warn if the labeled units are no random sample by a test of their mean rank, and return the reason; "" else.

    Args:
        columns: (N,) values of all units by name.
        labeled: (N,) bool, whether a unit has a human label.
    """
    count, total, names = int(labeled.sum()), len(labeled), []
    for name, values in columns.items():
        _, place, counts = torch.unique(values.detach(), return_inverse=True, return_counts=True)
        rank = (segments.as_float64(counts.cumsum(0)) - segments.as_float64(counts) / 2)[place]  # the same if tied
        deviations = rank - rank.mean()
        variance = deviations.square().mean() * count * (total - count) / max(total - 1, 1)
        shift = deviations[labeled].sum()
        if bool(shift.abs() > _FAR * variance.sqrt()) and bool(variance > 0):
            names.append(f"{'higher' if shift > 0 else 'lower'} {name}")
    if not names:
        return ""
    reason = f"the units with human labels have {' and '.join(names)} than the others, so they are no random sample"
    warn_of_reason("target", reason)
    return reason


def _judge_labels(judge: Tensor, scores: Tensor) -> Tensor:
    tensors.tensor("judge", judge)
    tensors.shape("judge", judge, [scores.shape], like="preds")
    labels = segments.as_float64(judge.detach())
    if not bool(((labels >= 0) & (labels <= 1)).all()):
        wrong = labels[~((labels >= 0) & (labels <= 1))]
        raise_invalid("judge", "must contain labels or probabilities in [0, 1]", float(wrong[0]))
    return labels


def _unit_values(name: str, values: Tensor) -> Tensor:
    tensors.tensor(name, values)
    if values.ndim != 1:
        raise_invalid(name, "must be of shape (Q,)", Plain(tuple(values.shape)))
    numbers = segments.as_float64(values.detach())
    if bool(((numbers < 0) | (numbers > 1)).any()):
        wrong = numbers[(numbers < 0) | (numbers > 1)]
        raise_invalid(name, "must be in [0, 1]", float(wrong[0]))
    return numbers


def _logit_terms(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logit of the AP of labels, and n times the term of each item."""
    ap = average_precision_of_pseudo_labels(scores, labels)
    terms = (labels * ap.slope + ap.offset) / (ap.value * (1 - ap.value))
    return torch.logit(ap.value), terms * len(labels)


def _combination(human: Tensor, judged: Tensor, labeled: Tensor) -> tuple[Tensor, Tensor]:
    """Return lambda and the variance of the estimate.

    Args:
        human: (n_y,) terms of the labeled items under human labels.
        judged: (N,) terms of all items under the labels of the judge.
        labeled: (N,) bool.
    """
    count, total = len(human), len(judged)
    own = human / count
    shift = judged[labeled] * (1 / count - 1 / total)
    squares, products = _moment(own, own), _moment(own, shift)
    judge = _moment(shift, shift) + _moment(judged[~labeled] / total, judged[~labeled] / total)
    weight = torch.where(judge > 0, products / judge, 0).nan_to_num().clamp(0, 1)
    return weight, (squares - 2 * weight * products + weight**2 * judge).clamp(min=0)


def _moment(x: Tensor, y: Tensor) -> Tensor:
    """Return the covariance of the sums of two kinds of terms; NaN for one item, 0 for none."""
    count = len(x)
    if count < 2:
        return x.new_tensor(torch.nan if count else 0.0)
    return ((x - x.mean()) * (y - y.mean())).sum() * count / (count - 1)


def _wilson(estimate: Tensor, variance: Tensor, count: int, t: Tensor) -> record.Ends:
    """Return Wilson's interval with the trials of this variance; ``count`` trials without variance."""
    trials = estimate * (1 - estimate) / variance
    return record.wilson(estimate, torch.where((trials > 0) & (variance > 0), trials, float(count)), t)


def _result(
    numbers: tuple[Tensor, ...], human: Interval, reason: str, settings: dict[str, Any]
) -> PredictionPoweredInterval:
    values = *numbers[:4], human.estimate, human.low, human.high, numbers[4]
    return PredictionPoweredInterval.from_numbers(*values, **settings, reason=reason)
