"""Confidence intervals of average precision, for one ranking, each of many rankings, and their mean.

Interval of an average over rankings of the same items, from the sum of each item's contributions.

Resamples of items that several rankings share, so that all rankings are weighted by the same draw.

An item keeps its position in each ranking. A resample is a weight per item, and the curve of each ranking comes from
the sums of the weights over its groups.

Interval of a published average precision, from its value and the number of hits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import Average, Design, Interpolation, allowed_values
from torch_ap.core.items.inputs import Batch, ClassificationInputs
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures import averaging
from torch_ap.core.measures.convention import Convention, resolve_convention
from torch_ap.core.ranking import hit_curve
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import influence, record
from torch_ap.inference import resampling as bootstrap
from torch_ap.inference.influence import ItemValues
from torch_ap.inference.methods import DESIGNS, METHODS, Method, curve_interval, refuse_convention
from torch_ap.inference.record import Interval, first_interval, normal_quantile, student_quantile
from torch_ap.inference.resampling import (
    Resampling,
    curve_from_counts,
    generators,
    multinomial,
    multinomial_on_device,
    rows,
)


@dataclass(frozen=True, eq=False)
class GroupedItems:
    """Items of one ranking, assigned to the groups of its hit curve.

    Attributes:
        group: (N,) int64 in [0, G), the group of each item: the hits of each of E tie groups, the hits never retrieved,
            the misses above each tie group, the misses below the last one, and the misses that tie with hits.
        sizes: E + 1 groups of hits, and E + 1 or 2E + 1 groups of misses, as in :func:`curve_from_counts`.
    """

    group: Tensor
    sizes: tuple[int, int]

    def curve(self, weights: Tensor) -> HitCurve:
        """Return the hit curves of b resamples.

        Args:
            weights: (b, N) int64, how often each item occurs.
        """
        counts = weights.new_zeros(len(weights), sum(self.sizes)).index_add_(1, self.group, weights)
        return curve_from_counts(counts[:, : self.sizes[0]], counts[:, self.sizes[0] :])


def group_items(curve: HitCurve, scores: Tensor, relevant: Tensor, *, split_ties: bool = False) -> GroupedItems:
    """Return the group of each item of one ranking.

    Args:
        curve: the ranking.
        scores: (N,) scores from which the curve was made.
        relevant: (N,) bool.
        split_ties: as for :func:`torch_ap.inference.resampling.replicates`.
    """
    groups = len(curve.hits)
    place = torch.arange(groups, device=scores.device)
    beyond = place.new_full((1,), groups)
    values = ItemValues(curve, place, place + groups + 1, beyond, beyond + groups + 1)
    group = values.values_at(scores, relevant)
    if not split_ties or not bool((curve.items > curve.hits).any()):
        return GroupedItems(group, (groups + 1, groups + 1))
    assert curve.score is not None
    above = (group - groups - 1).clamp(0, groups - 1)  # the tie group of a miss that is not below the last
    tied = ~relevant & (scores == curve.score[above])
    return GroupedItems(group + tied * (groups + 1), (groups + 1, 2 * groups + 1))


def replicates(
    measure: Callable[[Tensor], Tensor], strata: Sequence[Tensor], items: int, resampling: Resampling
) -> Tensor:
    """Compute a measure under B resamples of the items: (B, ...).

    Args:
        measure: function of (b, N) int64 weights that returns (b, ...) values.
        strata: indices of the items of each stratum, which is resampled separately. Items of no stratum, such as
            ignored items, are never drawn.
        items: N.
        resampling: number of resamples, generator and memory limit.
    """
    device = strata[0].device
    if device.type != "cpu":
        draw = partial(_draw_on_device, resampling.generator_on(device), strata, items)
        return torch.cat([measure(*weights) for weights in resampling.draw_on_device(4 * items, draw)])
    seed = resampling.seed()
    return torch.cat([measure(_draw(seed, span, strata, items)) for span in resampling.batches(4 * items)])


def _draw(seed: int, span: range, strata: Sequence[Tensor], items: int) -> Tensor:
    """Return the number of times each item is drawn, (b, N)."""

    def draw_weights(rng: np.random.Generator) -> Tensor:
        row = np.zeros(items, np.int64)
        for places in strata:
            row[places.numpy()] = multinomial(rng, np.ones(len(places), np.int64), len(places))
        return torch.from_numpy(row)

    return torch.stack(rows(draw_weights, generators(seed, span), items))


def _draw_on_device(generator: torch.Generator, strata: Sequence[Tensor], items: int, count: int) -> tuple[Tensor]:
    weights = torch.zeros(count, items, dtype=torch.int64, device=generator.device)
    for places in strata:
        sizes = torch.ones_like(places)
        weights[:, places] = multinomial_on_device(generator, sizes, sizes.sum().expand(count))
    return (weights,)


ReportedMethod: TypeAlias = Literal["boyd-logit", "boyd-binomial"]
_FORMS = {"boyd-logit": record.logit, "boyd-binomial": record.wald}


def reported_average_precision_interval(
    average_precision: float | Tensor, m: int, *, confidence_level: float = 0.95, method: ReportedMethod = "boyd-logit"
) -> Interval:
    r"""Return a confidence interval from a published AP and the number of hits, without scores.

    .. math::
        SE^2 = \frac{AP (1 - AP)}{m}, \qquad logit(AP) \pm \frac{z}{\sqrt{m\, AP (1 - AP)}} \quad\text{or}\quad
        AP \pm z\, SE

    The formula treats AP as a share of m trials. The interval is mostly too wide and never far too narrow; the coverage
    is in the table of :func:`torch_ap.inference.published.published_interval`. If scores are available, prefer
    :func:`torch_ap.inference.average_precision_interval`. The estimand is the limit of AP as items are added. The
    intervals of two systems on the same items do not show whether the systems differ, because their errors are
    correlated.

    Args:
        average_precision: the published AP, in [0, 1]; a number, or a tensor with one value.
        m: number of hits (relevant items), at least 1.
        confidence_level: nominal coverage, in (0, 1).
        method: the formula, as above; the ends of "boyd-binomial" may be outside [0, 1].

    Returns:
        :class:`torch_ap.inference.record.Interval` of 0-d float64 tensors. For AP = 1, the upper end is 1 and the
        lower end is the one-sided (1 - confidence_level)^(1 / m). For AP = 0 and for m = 1, the ends are NaN.
        ``reason`` explains these cases.

    Raises:
        ValueError: if an argument is invalid.

    Equals ``published_interval`` with the same method, for any ranking with this AP and m. Source: Boyd, Eng & Page
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
    checks.one_of("method", method, allowed_values(ReportedMethod))
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


AVERAGE_METHODS = ("influence", "wald", "bootstrap-percentile", "bootstrap-bca", "bootstrap-logit")


def average_interval(
    settings: APSettings,
    curve: HitCurve,
    validated: Batch | None,
    *,
    confidence_level: float,
    method: str,
    design: str,
    resampling: Resampling,
) -> Interval:
    """Return the interval of the macro, weighted or micro average: 0-d ends.

    Args:
        settings: all settings.
        curve: the rankings.
        validated: the items of the rankings.
        confidence_level: as for an interval of one ranking.
        method: as for an interval of one ranking.
        design: as for an interval of one ranking.
        resampling: as for an interval of one ranking.

    Raises:
        ValueError: for a method without covariances, or for counts per threshold, which contain no items.
    """
    if validated is None:
        raise ValueError("`thresholds` and `bins` must be None for the interval of an average, which needs the items")
    if method not in AVERAGE_METHODS:
        raise_invalid("method", f"must be one of {', '.join(map(repr, AVERAGE_METHODS))} for an average", method)
    estimate = settings.value(curve, torch.float64 if curve.m.device.type != "mps" else torch.float32, warn=False)
    plain = settings.convention.interpolation is None
    shares = influence.item_shares(settings, validated, curve, design) if plain else None
    error = estimate.new_tensor(torch.nan) if shares is None else shares.square().sum().sqrt()
    quantile = student_quantile(confidence_level, influence.degrees_of_freedom(settings, curve, design))
    if method.startswith("bootstrap"):
        values = _replicates(settings, validated, curve, design, resampling)
        error = bootstrap.standard_error(values)
    if method == "bootstrap-percentile":
        ends = bootstrap.percentile(values, confidence_level)
    elif method == "bootstrap-bca":
        assert shares is not None
        ends = bootstrap.bca(values, estimate, _skew(shares), confidence_level)
    else:
        ends = record.wald(estimate, error, normal_quantile(confidence_level))
        ends = ends if method == "wald" else record.logit(estimate, error, quantile)
    if bool(estimate == 1):
        ends = (torch.full_like(estimate, torch.nan),) * 2
    return Interval(estimate, *ends, error, confidence_level, method, design, _reason(estimate, ends[0]))


def _replicates(settings: APSettings, validated: Batch, curve: HitCurve, design: str, resampling: Resampling) -> Tensor:
    """Return the average under each resample of the items, (B,)."""
    target, items = validated.target, len(validated.scores)
    ignoring, micro = settings.inputs.ignoring, settings.average == "micro"
    if design == "stratified" and not settings.inputs.classes:
        raise ValueError("`design` must be 'iid' for a bootstrap over labels: they divide the items in different ways")
    if design == "stratified":
        strata = [(target == kind).nonzero().squeeze(1) for kind in range(len(curve.m))]
    else:
        strata = [torch.arange(items, device=target.device)]
    if micro:
        validated = Batch(validated.scores.reshape(-1, 1), target.reshape(-1, 1))
    rankings, split = [], settings.convention.reads_tie_groups
    for column, ranking in enumerate(hit_curve.split(curve)):
        flags, rows = influence.select_column(validated.target, 1 if micro and target.ndim == 1 else column, ignoring)
        scores = validated.scores[:, column][rows]
        rankings.append((rows, group_items(ranking, scores, flags[rows], split_ties=split)))

    def measure(weights: Tensor) -> Tensor:
        weights = weights.repeat_interleave(target.shape[1], 1) if micro else weights
        return _average(settings, [grouped.curve(weights[:, rows]) for rows, grouped in rankings])

    return replicates(measure, strata, items, resampling)


def _average(settings: APSettings, curves: list[HitCurve]) -> Tensor:
    """Return the average over rankings, (b,), for curves of b resamples each."""
    action = settings.action_on_empty
    values = torch.stack(
        [averaging.fill_undefined(settings.convention(curve), curve, action, what="resample") for curve in curves]
    )
    m, n = (torch.stack([getattr(curve, name) for curve in curves]) for name in ("m", "n"))
    return averaging.averages_of_samples(values, m, n, settings.average, action)


def _skew(shares: Tensor) -> Tensor:
    squares = shares.square().sum()
    return torch.where(squares > 0, (shares**3).sum() / (6 * squares**1.5), 0)


def _reason(estimate: Tensor, low: Tensor) -> str:
    if not bool(torch.isnan(low)):
        return ""
    if bool(torch.isnan(estimate)):
        return "the average is NaN"
    if bool(estimate == 1):
        return "every AP is 1, where no standard error exists: the ends are NaN"
    return "a ranking has one hit, or one miss, and so no spread: the ends are NaN"


@renamed_keywords(batch="chunk_size")
def average_precision_interval(
    preds: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method = "influence",
    design: Design = "iid",
    average: Average = "none",
    interpolation: Interpolation = None,
    convention: Convention | None = None,
    weights: Tensor | None = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    r"""Return a confidence interval for average precision, by default from its influence functions.

    .. math::
        SE^2 = \frac{\widehat{var}(\phi_+)}{m} + \frac{\widehat{var}(\phi_-)}{q} + \frac{\pi (1 - \pi) \theta_\pi^2}{n},
        \qquad logit(AP) \pm t_{k-1} \frac{SE}{AP (1 - AP)}

    with m hits, q misses, k = min(m, q), pi = m / n, and the influence functions phi of
    :mod:`torch_ap.inference.influence`. The last term of SE applies to ``design="iid"`` only: items were sampled, so
    the number of hits is random. In ``design="stratified"``, the numbers of hits and misses were fixed. The estimand is
    the limit of AP as items are added, its value in the population; not E(AP) for n items, which is larger. The default
    method costs about as much as AP itself.

    =====================  =================================================  ==================  ==================
    method                 description                                        coverage, at 80%    coverage, at 95%
    =====================  =================================================  ==================  ==================
    influence              influence functions, logit, t with k - 1           .757 / .800 / .848  .927 / .950 / .976
    wald                   influence functions, AP ± z SE                     .778 / .800 / .889  .930 / .947 / .977
    jackknife              delete one, logit, t with k - 1                    .693 / .795 / .813  .899 / .949 / .959
    bootstrap-percentile   quantiles of the replicates                        .662 / .783 / .825  .870 / .936 / .962
    bootstrap-bca          bias-corrected and accelerated                     .710 / .792 / .820  .898 / .938 / .962
    bootstrap-logit        bootstrap SE, logit, t with k - 1                  .745 / .806 / .903  .917 / .955 / .982
    =====================  =================================================  ==================  ==================

    Coverage: minimum, median and maximum over 3,000 and 10,000 items, 50 to 1,000 hits, d' of 0 to 3, fixed m and
    ``design="stratified"``, 5,000 repetitions each (bootstraps 600), by ``benchmarks.coverage``. Coverage of method
    "influence" in other cases:

    - m random, "stratified": .631 / .763 / .790 and .825 / .927 / .948;
    - m random, "iid": .760 / .797 / .827 and .928 / .950 / .969;
    - m fixed, "iid": .785 / .827 / .944 and .944 / .964 / .997;
    - macro mean of five labels, m random, "iid": .764 to .803 and .932 to .951;
    - few misses (10 to 1,000 hits, m random, 5,000 repetitions), at 95%: .988 / .993 / .997 with 2 misses, .981 / .990
      / .997 with 3, .951 / .988 / 1 with 5 and .901 / .968 / .994 with 10. With m - 1 degrees of freedom, the minima
      would be .815, .793, .805 and .842.

    Conventions, which ``reason`` of the result explains: if AP = 1 and the method finds no spread, the upper end is 1
    and the lower end is the heuristic alpha^(1 / m), which is one-sided. An average of 1 has NaN ends. With fewer than
    two hits, or without misses, the ends are NaN. With one miss, the ends of "influence", "wald" and "jackknife" are
    NaN, unless AP = 1. The ends of "wald" may be outside [0, 1].

    Args:
        preds: (N,) scores of one ranking, or (N, C), one ranking per class or label.
        target: (N,) values 0 and 1; for (N, C) scores (N,) class ids or (N, C) values 0 and 1.
        confidence_level: nominal coverage, in (0, 1).
        method: as above.
        design: "iid" or "stratified".
        average: for (N, C) scores: "none" for one interval per ranking; "macro", "weighted" or, for labels, "micro" for
            the interval of the average. All rankings rank the same items, so their covariances are included. Requires
            method "influence", "wald" or a bootstrap; the degrees of freedom are Welch & Satterthwaite's. A ranking
            without hits enters as a constant, as in :func:`torch_ap.functional.multilabel_average_precision`.
        interpolation: as for :func:`torch_ap.functional.binary_average_precision`, except "trapezoid"; methods
            "bootstrap-percentile" and "bootstrap-logit" only.
        convention: definition of AP, instead of ``interpolation``; without ``top_k``, and with ties "grouped" if scores
            are tied.
        weights: must be None, because the formulas count items.
        n_resamples: number of bootstrap resamples, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.record.Interval` of 0-d float64 tensors, or of (C,) tensors without an average.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. Source: Hampel (1974) for influence functions, derived for AP in
    :mod:`torch_ap.inference.influence`; Efron (1987) for "bca". Published intervals are in
    :mod:`torch_ap.inference.published`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import average_precision_interval
        >>> preds = torch.tensor([10.0, 9, 8, 7, 6, 5, 4, 3, 2, 1])
        >>> target = torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1])
        >>> found = average_precision_interval(preds, target, confidence_level=0.8)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.468, 0.783, 0.937]
    """
    tensors.no_weights(weights, "an interval")
    convention = resolve_convention(convention, None, "min", interpolation, "grouped")
    settings, curve, validated = read(preds, target, convention, average)
    options: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": design}
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    return interval_of_curve(settings, curve, validated, **options, resampling=resampling)


def read(
    preds: Tensor, target: Tensor, convention: Convention, average: Average, empty_target_action: str | None = None
) -> tuple[APSettings, HitCurve, Batch]:
    """Return the settings, the rankings and the items of (N,) or (N, C) scores; the shapes determine the task."""
    wide = isinstance(preds, Tensor) and preds.ndim == 2
    classes = wide and isinstance(target, Tensor) and target.ndim == 1
    inputs = ClassificationInputs(width=preds.shape[1] if wide else None, classes=classes)
    settings = APSettings(inputs, convention, average=average, empty_target_action=empty_target_action)
    validated = inputs.validate_now(preds, target)
    return settings, settings.curve(validated), validated


def interval_of_curve(
    settings: APSettings,
    curve: HitCurve,
    validated: Batch | None,
    *,
    confidence_level: float = 0.95,
    method: str = "influence",
    design: str = "iid",
    resampling: Resampling | None = None,
) -> Interval:
    """Return the interval of rankings, or of their average, under all settings of an evaluation.

    Args:
        settings: the settings.
        curve: the rankings.
        validated: the items, required for the interval of an average; None if only counts per threshold are stored.
        confidence_level: as for :func:`average_precision_interval`.
        method: as for :func:`average_precision_interval`.
        design: as for :func:`average_precision_interval`.
        resampling: settings of the bootstrap.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    checks.one_of("design", design, DESIGNS)
    options: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": design}
    options["resampling"] = resampling or Resampling()
    if settings.inputs.width is not None and settings.average not in ("none", None):
        refuse_convention(settings.convention, method, None)
        return average_interval(settings, curve, validated, **options)
    intervals = curve_interval(curve, settings.convention, **options)
    return first_interval(intervals) if settings.inputs.width is None else intervals
