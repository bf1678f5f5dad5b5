"""Confidence intervals of average precision: of one ranking, of each of many rankings, and of their average.

All rankings of an average rank the same items. Its standard error is computed from each item's contributions to all
rankings, or from resamples that draw an item with its scores in all rankings.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import Average, Design, Interpolation, allowed_values
from torch_ap.core.items.inputs import Batch, ClassificationInputs, counted_items
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures import averaging
from torch_ap.core.measures.convention import Convention, resolve_convention
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking import hit_curve
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import dirichlet, influence, record, resampling
from torch_ap.inference import groups as grouped
from torch_ap.inference.dirichlet import WeightedItems
from torch_ap.inference.edge_cases import FEW_GROUPS, check_convention, resolve_edge_cases, unknown_error_reason
from torch_ap.inference.groups import ValuesWithoutGroups
from torch_ap.inference.record import Ends, Interval, degrees_of_freedom, first_interval
from torch_ap.inference.resampling import InferenceSettings, Resampling
from torch_ap.inference.simultaneous import class_contributions, max_t_level, sequence_factor

Method: TypeAlias = Literal[
    "influence", "wald", "jackknife", "bootstrap-percentile", "bootstrap-bca", "bootstrap-logit", "dirichlet"
]
METHODS = allowed_values(Method)
BOOTSTRAPS = tuple(method for method in METHODS if method.startswith("bootstrap"))
_NEGLIGIBLE_BIAS = 0.25  # standard errors; a larger bias lowers the coverage of 95% by more than 0.7%
_FEW_HITS = 20  # of a confidence sequence
_RARE, _NEAR_CHANCE = 0.1, 2.0  # share of hits, and its multiple; below, "dirichlet" covers too little
_FEW_MISSES = 5  # effective number of misses above the median hit; with fewer, an interval is nearly [0, 1]


@renamed_keywords(batch="chunk_size")
def average_precision_interval(
    preds: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method | None = None,
    design: Design = "iid",
    groups: SampleIds = None,
    average: Average = "none",
    interpolation: Interpolation = None,
    convention: Convention | None = None,
    weights: Tensor | None = None,
    prevalence: float | None = None,
    sampling_weights: Tensor | None = None,
    simultaneous: bool = False,
    first_look: int | None = None,
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
    bootstrap-percentile   quantiles of the replicates                        .654 / .781 / .810  .874 / .937 / .957
    bootstrap-bca          bias-corrected and accelerated                     .711 / .784 / .811  .881 / .940 / .957
    bootstrap-logit        bootstrap SE, logit, t with k - 1                  .777 / .797 / .891  .932 / .951 / .981
    =====================  =================================================  ==================  ==================

    Coverage: minimum, median and maximum over 3,000 and 10,000 items, 50 to 1,000 hits, d' of 0 to 3, fixed m and
    ``design="stratified"``, 5,000 repetitions each (bootstraps 2,000), by ``benchmarks.coverage``. Coverage of method
    "influence" in other cases:

    - m random, "stratified": .631 / .763 / .790 and .825 / .927 / .948;
    - m random, "iid": .760 / .797 / .827 and .928 / .950 / .969;
    - m fixed, "iid": .785 / .827 / .944 and .944 / .964 / .997;
    - few hits (100 and 1,000 items, m random, 2,000 repetitions), at 95%: .983 / .989 / .999 with 2 hits on average,
      .967 / .986 / 1 with 3 and .968 / .978 / .998 with 5, too wide, at mean widths of .88, .82 and .70; no interval in
      .41, .20 and .04 of the samples, which have fewer than two hits. "dirichlet" exists from one hit on, and covers
      .924 / .984 / 1, .934 / .983 / .999 and .909 / .983 / .998 there, at mean widths of .84, .77 and .66;
    - few misses (10 to 1,000 hits, m random, 5,000 repetitions), at 95%: .988 / .993 / .997 with 2 misses, .981 / .990
      / .997 with 3, .951 / .988 / 1 with 5 and .901 / .968 / .994 with 10. With m - 1 degrees of freedom, the minima
      would be .815, .793, .805 and .842. The minima occur where few misses are above the hits: ``reason`` reports
      m (1 - AP) < 3 for 100 hits and more.

    The APs of an average are biased upwards by .1 to .5 of their standard deviations. Averaging reduces the deviation,
    not the bias. So the default for a macro or weighted average is "jackknife", with the average A_(-i) without item i:

    .. math::
        B = (n - 1) (\overline{A_{(-i)}} - A), \qquad
        SE^2 = \frac{n - 1}{n} \sum_i (A_{(-i)} - \overline{A_{(-i)}})^2 + \frac{B^2}{4}

    and the interval, on the logit scale, is around A - B. The estimate remains A, which may be above its interval. The
    result contains B as ``bias``. If another method is chosen, ``reason`` reports a bias above SE / 4.
    Coverage at 95% (2,000 repetitions), with 5 to 80 labels or 10 to 50 classes of 20 to 1,000 hits, m random: .936 to
    .974 by "jackknife", .590 to .957 by "influence". A class with one hit or one miss makes the ends NaN,
    and with ``groups`` a class with all hits, or all misses, in one group.

    With ``groups``, items of a group may depend on each other, and the groups were drawn independently. SE and degrees
    of freedom then are those of :mod:`torch_ap.inference.groups`, by default the delete-one-group jackknife up to 500
    groups. Beyond, averages use the jackknife of 500 random pools of groups, and single rankings the influence
    functions summed per group. For 10 to 200 groups of equal and of geometric sizes,
    with random effects on scores and on the share of hits, the jackknife covered .939 to .961 at 95%, the influence
    functions .901 to .948, and intervals of independent items .396 to .925.

    "dirichlet" draws random weights of all items, and of pseudo-items beyond the ends of the ranking: see
    :mod:`torch_ap.inference.dirichlet`. It stays in [0, 1], exists for one hit, one miss and AP = 1, and is the method
    for ``prevalence`` and ``sampling_weights``, where the delta method fails. ``reason`` then contains the
    effective number of misses above the median hit, (sum of w)^2 / sum of w^2; with fewer than 5, the interval is
    nearly [0, 1]. For plain samples it is wider than "influence" if AP is high, and it covers .910 for rankings at
    chance level with 1% hits: ``reason`` reports up to 10% hits with a lower end below twice their share.

    Conventions, which ``reason`` of the result explains: if AP = 1 and the method finds no spread, the upper end is 1
    and the lower end is the heuristic alpha^(1 / m), which is one-sided. An average of 1 has NaN ends. With fewer than
    two hits, or without misses, the ends are NaN. With one miss, the ends of "influence", "wald" and "jackknife" are
    NaN, unless AP = 1. The ends of "wald" may be outside [0, 1].

    Args:
        preds: (N,) scores of one ranking, or (N, C), one ranking per class or label.
        target: (N,) values 0 and 1; for (N, C) scores (N,) class ids or (N, C) values 0 and 1.
        confidence_level: nominal coverage, in (0, 1).
        method: as above; None for "dirichlet" with ``prevalence`` or ``sampling_weights``, for "jackknife" if
            ``average`` is "macro" or "weighted", otherwise for "influence". With ``groups`` "jackknife", the default of
            averages and up to 500 groups, or "influence", the default of single rankings beyond.
        design: "iid" or "stratified".
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. Requires ``design="iid"``. With fewer than 10 groups with hits, a warning is raised.
        average: for (N, C) scores: "none" for one interval per ranking; "macro", "weighted" or, for labels, "micro" for
            the interval of the average. All rankings rank the same items, so their covariances are included. The
            degrees of freedom are Welch & Satterthwaite's. A ranking without hits enters as a constant, as in
            :func:`torch_ap.functional.multilabel_average_precision`. "micro" does not support the method "jackknife";
            labels in design "stratified" support "influence" (their default) and "wald" only.
        interpolation: as for :func:`torch_ap.functional.binary_average_precision`, except areas under
            lines such as "trapezoid"; methods "bootstrap-percentile" and "bootstrap-logit" only.
        convention: definition of AP, instead of ``interpolation``; without ``top_k``, and with ties "grouped" if scores
            are tied.
        weights: must be None, because the formulas count items.
        prevalence: share of hits in the population, in (0, 1), if it differs from the share in the sample, as for
            :func:`torch_ap.functional.binary_average_precision`; by method "dirichlet" only.
        sampling_weights: (N,) reciprocals of the known probabilities with which the items were sampled, at least 1 up
            to 1e-6, for example 100 for misses of which 1% were kept; by method "dirichlet" only. The estimate is the
            AP with these numbers as ``weights``. A design that keeps all misses with high scores, and samples the
            others, has much narrower intervals than an equal rate for all.
        simultaneous: whether the confidence level is the probability that the intervals of all classes contain their
            values at once, with ``average="none"``. The method of the result is "max-t": see
            :mod:`torch_ap.inference.simultaneous`.
        first_look: if the interval is computed again and again while items arrive, the number of items of the first
            time. All these intervals contain the limit at once, with the probability of the confidence level; the
            method of the result is "confidence-sequence". Not for epochs, which are different systems.
        n_resamples: number of bootstrap resamples, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors, or of (C,) tensors without an average.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. Source: Hampel (1974) for influence functions, derived for AP in
    :mod:`torch_ap.inference.influence`; Quenouille (1956) and Tukey (1958) for the jackknife; Efron (1987) for "bca";
    Rubin (1981) for "dirichlet"; Elkan (2001) for ``prevalence``. Published intervals are in
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
    settings, curve, validated = read(
        preds, target, convention, average, prevalence=prevalence, sampling_weights=sampling_weights
    )
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    ids = grouped.validate_groups(groups, validated.scores.shape[:1], validated.scores.device)
    validated = validated._replace(groups=ids)
    name = interval_method(method, settings, design, validated)
    options = InferenceSettings(confidence_level, name, design, resampling, simultaneous, first_look)
    return interval_of_curve(settings, curve, validated, options)


def interval_method(method: str | None, settings: APSettings, design: str, validated: Batch | None) -> str:
    """Return the method of an interval, with the default for None.

    Raises:
        ValueError: for a method other than "dirichlet", or groups, where items have different weights.
    """
    has_groups = validated is not None and validated.groups is not None
    if settings.prevalence is not None or (validated is not None and validated.weights is not None):
        if method is not None and not (isinstance(method, str) and method == "dirichlet"):
            rule = "must be 'dirichlet' with `prevalence` and `sampling_weights`, where others cover too little"
            raise_invalid("method", rule, method)
        if has_groups:
            raise ValueError("`groups` cannot be combined with `prevalence` and `sampling_weights`")
        return "dirichlet"
    if method is None and has_groups:
        return grouped.DEFAULT
    corrects = is_mean(settings) and (design == "iid" or settings.inputs.classes)
    return ("jackknife" if corrects else "influence") if method is None else method


def is_mean(settings: APSettings) -> bool:
    """Whether the value is a mean of APs, whose bias is not negligible."""
    return settings.inputs.width is not None and settings.average in ("macro", "weighted")


def read(
    preds: Tensor,
    target: Tensor,
    convention: Convention,
    average: Average,
    empty_target_action: str | None = None,
    *,
    prevalence: float | None = None,
    sampling_weights: Tensor | None = None,
) -> tuple[APSettings, HitCurve, Batch]:
    """Return the settings, the rankings and the items of (N,) or (N, C) scores; the shapes determine the task."""
    wide = isinstance(preds, Tensor) and preds.ndim == 2
    classes = wide and isinstance(target, Tensor) and target.ndim == 1
    inputs = ClassificationInputs(width=preds.shape[1] if wide else None, classes=classes)
    settings = APSettings(
        inputs, convention, average=average, empty_target_action=empty_target_action, prevalence=prevalence
    )
    validated = inputs.validate_now(preds, target)
    if sampling_weights is not None:
        settings.validate_weights("sampling_weights")
        tensors.weights_form("sampling_weights", sampling_weights, inputs.weight_shapes(preds, target))
        tensors.same_device(preds=preds, sampling_weights=sampling_weights)
        tensors.SAMPLING_WEIGHTS.check(sampling_weights)
        validated = inputs.validate_now(preds, target, sampling_weights)
    return settings, settings.curve(validated), validated


def interval_of_curve(
    settings: APSettings, curve: HitCurve, validated: Batch | None, options: InferenceSettings
) -> Interval:
    """Return the interval of rankings, or of their average.

    Args:
        settings: settings of the average precision.
        curve: the rankings.
        validated: the items, required for the interval of an average; None if only counts per threshold are stored.
        options: settings of the interval.
    """
    if options.first_look is not None:
        return _sequential_intervals(settings, curve, validated, options)
    if options.simultaneous:
        return _simultaneous_intervals(settings, curve, validated, options)
    if validated is not None and validated.groups is not None:
        without = _values_without_groups(settings, curve, validated, options)
        return _grouped_interval(settings, curve, validated, options, without)
    checks.one_of("method", options.method, METHODS)
    if options.method == "dirichlet":
        intervals = _dirichlet_intervals(settings, curve, validated, options)
        return first_interval(intervals) if settings.inputs.width is None else intervals
    if settings.inputs.width is None:
        return first_interval(curve_interval(curve, settings.convention, options))
    if settings.average in ("none", None):
        return curve_interval(curve, settings.convention, options)
    check_convention(settings.convention, options.method, curve)
    return _average_interval(settings, curve, validated, options)


def _sequential_intervals(
    settings: APSettings, curve: HitCurve, validated: Batch | None, options: InferenceSettings
) -> Interval:
    """Return the current intervals of confidence sequences, one per ranking."""
    if settings.averages or options.simultaneous:
        raise ValueError("`first_look` cannot be combined with an average and `simultaneous`")
    has_groups = validated is not None and validated.groups is not None
    if not has_groups and options.method != "influence":
        raise_invalid("method", "must be 'influence' with `first_look`", options.method)
    assert options.first_look is not None
    least = int(curve.n.min())
    if options.first_look > least:
        raise_invalid("first_look", f"must be at most the number of items, {least}", options.first_look)
    note = ""
    if has_groups:
        without = _values_without_groups(settings, curve, validated, options)
        estimate, error = settings.convention(curve), grouped.standard_error(without.values)
        df, note = without.effective - 1, grouped.few_groups_reason(without.hit_groups, rankings=settings.rankings_noun)
    else:
        single = curve_interval(curve, settings.convention, options)
        estimate, error, df = single.estimate, single.standard_error, degrees_of_freedom(curve)
    factor = sequence_factor(curve.n, options.first_look, options.confidence_level)
    low, high = record.logit(estimate, error * factor, record.student_quantile(options.confidence_level, df))
    reasons = {}
    for ranking, (hits, missing) in enumerate(zip(curve.m.tolist(), low.isnan().tolist(), strict=True)):
        if missing:
            cause = FEW_GROUPS if has_groups else "one hit, one miss, or an AP of 0 or 1: the ends are NaN"
            reasons[f"ranking {ranking}"] = cause
        elif hits < _FEW_HITS:
            reasons[f"ranking {ranking}"] = f"fewer than {_FEW_HITS} hits: no coverage was measured"
    reason = next(iter(reasons.values()), "") if len(low) == 1 else record.join_reasons(reasons)
    fields = options.fields | {"method": "confidence-sequence"}
    reason = "; ".join(filter(None, [reason, note]))
    intervals = Interval(estimate, low, high, error, **fields, reason=reason)
    return first_interval(intervals) if settings.inputs.width is None else intervals


def _simultaneous_intervals(
    settings: APSettings, curve: HitCurve, validated: Batch | None, options: InferenceSettings
) -> Interval:
    """Return intervals of all rankings that contain all values at once: (C,) ends."""
    if settings.inputs.width is None or settings.averages:
        raise ValueError("`simultaneous` requires several classes or labels with `average='none'`, got one value")
    if validated is None:
        raise ValueError("`thresholds` and `bins` must be None for simultaneous intervals, which need the items")
    without = None
    if validated.groups is not None:
        without = _values_without_groups(settings, curve, validated, options)
        rows = without.values
    elif options.method != "influence":
        raise_invalid("method", "must be 'influence' for simultaneous intervals", options.method)
    else:
        rows = class_contributions(settings, curve, validated, options.design)
    level = max_t_level(rows, options.confidence_level, options.resampling)
    single = replace(options, confidence_level=level, simultaneous=False)
    if without is None:
        intervals = curve_interval(curve, settings.convention, single)
    else:
        intervals = _grouped_interval(settings, curve, validated, single, without)
    return replace(intervals, confidence_level=options.confidence_level, method="max-t")


def _values_without_groups(
    settings: APSettings, curve: HitCurve, validated: Any, options: InferenceSettings
) -> ValuesWithoutGroups:
    """Return the values without each group, after a check of the other options."""
    grouped.check_design(options.design)
    if settings.convention.interpolation is not None:
        raise_invalid("interpolation", "must be None for an interval with `groups`", settings.convention.interpolation)
    check_convention(settings.convention, options.method, curve)
    return grouped.values_without_groups(settings, curve, validated, options.method)


def _grouped_interval(
    settings: APSettings, curve: HitCurve, validated: Batch, options: InferenceSettings, without: ValuesWithoutGroups
) -> Interval:
    """Return the interval of rankings, or of their average, from the values without each group."""
    options, level = replace(options, method=without.method), options.confidence_level
    estimate = settings.value(curve, without.values.dtype, warn=is_mean(settings))
    error, df = grouped.standard_error(without.values), without.effective - 1
    if not is_mean(settings):
        estimate = settings.convention(curve)
        factor = grouped.quantile(level, without.effective, without.values.shape[-1], without.method)
        low, high = record.logit(estimate, error, factor)
        interval = resolve_edge_cases(Interval(estimate, low, high, error, **options.fields), curve, df)
        interval = first_interval(interval) if settings.inputs.width is None or settings.averages else interval
    else:
        corrects, quantile = options.method == "jackknife", record.student_quantile(level, df)
        if corrects:
            bias = grouped.jackknife_bias(estimate, without.values)
            error = torch.sqrt(error.square() + bias.square() / 4)
        else:
            bias = jackknife_of_average(settings, curve, validated)[1]
        low, high = record.logit(without_bias(estimate, bias) if corrects else estimate, error, quantile)
        low, high = (torch.where(estimate == 1, torch.nan, x) for x in (low, high))
        unknown = unknown_error_reason(settings, curve, without.in_one_group)
        reason = FEW_GROUPS if bool(df < 1) else _average_reason(options, estimate, (low, high), bias, error, unknown)
        interval = Interval(
            estimate, low, high, error, **options.fields, reason=reason, bias=bias if corrects else None
        )
    if bool(interval.low.isnan().all()):
        return interval
    reasons = filter(
        None, [interval.reason, grouped.few_groups_reason(without.hit_groups, rankings=settings.rankings_noun)]
    )
    return replace(interval, reason="; ".join(reasons))


def curve_interval(curve: HitCurve, convention: Convention, options: InferenceSettings) -> Interval:
    """Return the interval of each ranking of a curve: (S,) ends."""
    check_convention(convention, options.method, curve)
    estimate = convention(curve)
    if options.method in BOOTSTRAPS:
        low, high, error = _bootstrapped(curve, convention, estimate, options)
    else:
        if options.method == "jackknife":
            variance = influence.jackknife_variance(influence.leave_one_out(curve), options.design)
        else:
            variance = influence.variance(curve, options.design)
        error = torch.sqrt(variance)
        low, high = _ends(options, estimate, error, degrees_of_freedom(curve))
    return resolve_edge_cases(Interval(estimate, low, high, error, **options.fields), curve)


def _dirichlet_intervals(
    settings: APSettings, curve: HitCurve, validated: Batch | None, options: InferenceSettings
) -> Interval:
    """Return the interval of each ranking by Dirichlet weights: (S,) ends."""
    check_convention(settings.convention, options.method, curve)
    if settings.averages:
        raise_invalid("average", "must be 'none' for method 'dirichlet'", settings.average)
    estimate = settings.each(curve)
    convention = replace(settings.convention, ties="grouped")  # the weight of one item is no group of tied items
    low, high = torch.full((2, len(estimate)), torch.nan, dtype=torch.float64)
    reasons = {}
    for column, ranking in enumerate(hit_curve.split(curve)):
        m, n = float(ranking.m), float(ranking.n)
        # the numbers of hits and misses say nothing about the share of hits
        fixed = m / n if settings.prevalence is None and options.design == "stratified" else settings.prevalence
        if not m or (m == n and fixed is not None):
            reasons[f"ranking {column}"] = f"no {'misses' if m else 'hits'}: the ends are NaN"
            continue
        items = _weighted_items(settings, ranking, validated, column)
        measure = partial(_ap_at_prevalence, convention, fixed)
        ends = dirichlet.replicate_ends(items, measure, options.confidence_level, options.resampling)
        low[column], high[column] = ends
        if settings.prevalence is not None or curve.weighted:
            reasons[f"ranking {column}"] = _few_misses_reason(items.effective_misses, len(estimate) == 1)
        elif m <= _RARE * n and ends[0] < _NEAR_CHANCE * m / n:
            reasons[f"ranking {column}"] = "rare hits, and a lower end near chance: the interval may be too narrow"
    design = "stratified" if settings.prevalence is not None else options.design
    reason = next(iter(reasons.values()), "") if len(estimate) == 1 else record.join_reasons(reasons)
    low, high = low.to(estimate), high.to(estimate)
    fields = options.fields | {"design": design}
    return Interval(estimate, low, high, torch.full_like(estimate, torch.nan), **fields, reason=reason)


def _ap_at_prevalence(convention: Convention, prevalence: float | None, curve: HitCurve) -> Tensor:
    return convention(curve if prevalence is None else hit_curve.at_prevalence(curve, prevalence))


def _weighted_items(settings: APSettings, ranking: HitCurve, validated: Batch | None, column: int) -> WeightedItems:
    """Return the items of one ranking, with the sampling weights of a batch."""
    if validated is None or validated.weights is None:
        return WeightedItems.from_curve(ranking)
    wide = validated.scores.ndim == 2
    scores = validated.scores[:, column] if wide else validated.scores
    weights = validated.weights[:, column] if validated.weights.ndim == 2 else validated.weights
    flags, rows = influence.select_column(validated.target, column if wide else 1, settings.inputs.ignoring)
    return WeightedItems.from_items(ranking, scores[rows], flags[rows], weights[rows])


def _few_misses_reason(count: float, always: bool) -> str:
    """Return a reason with the effective number of misses above the median hit; "" unless they are few."""
    if count >= _FEW_MISSES and not always:
        return ""
    note = "" if count >= _FEW_MISSES else ", too few for a useful interval"
    return f"effective number of misses above the median hit: {count:.3g}{note}"


def _bootstrapped(
    curve: HitCurve, convention: Convention, estimate: Tensor, options: InferenceSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the low end, the high end and the standard error of each ranking, from separate resamples."""
    out = torch.full((3, len(estimate)), torch.nan, dtype=estimate.dtype, device=estimate.device)
    split = convention.reads_tie_groups
    for index, ranking in enumerate(hit_curve.split(curve)):
        if 2 <= int(ranking.m) < int(ranking.n):
            values = resampling.replicates(ranking, convention, options.design, options.resampling, split_ties=split)
            out[:, index] = torch.stack(bootstrap_ends(options, values, ranking, estimate[index]))
    return out[0], out[1], out[2]


def bootstrap_ends(
    options: InferenceSettings, values: Tensor, curve: HitCurve, estimate: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the low end, the high end and the standard error from the replicates of one ranking, 0-d each.

    Args:
        options: settings with a method of ``BOOTSTRAPS``.
        values: (B,) replicates.
        curve: the ranking.
        estimate: its AP, 0-d.
    """
    error, df = resampling.standard_error(values), degrees_of_freedom(curve)[0]
    return *_ends(
        options, estimate, error, df, values, lambda: influence.acceleration(influence.influence(curve))[0]
    ), error


def _ends(
    options: InferenceSettings,
    estimate: Tensor,
    error: Tensor,
    df: Tensor,
    values: Tensor | None = None,
    acceleration: Callable[[], Tensor] | None = None,
) -> Ends:
    """Return the ends of an interval by the method of the options.

    Args:
        options: settings of the interval.
        estimate: the APs, or their average.
        error: their standard errors.
        df: their degrees of freedom.
        values: (B,) replicates of one estimate, for the bootstraps.
        acceleration: function that returns Efron's acceleration, for "bootstrap-bca".
    """
    level = options.confidence_level
    if options.method == "wald":
        return record.wald(estimate, error, record.normal_quantile(level))
    if options.method == "bootstrap-percentile" and values is not None:
        return resampling.percentile(values, level)
    if options.method == "bootstrap-bca" and values is not None and acceleration is not None:
        return resampling.bca(values, estimate, acceleration(), level)
    return record.logit(estimate, error, record.student_quantile(level, df))


def _average_interval(
    settings: APSettings, curve: HitCurve, validated: Batch | None, options: InferenceSettings
) -> Interval:
    """Return the interval of the macro, weighted or micro average: 0-d ends.

    Raises:
        ValueError: for a method without covariances, or for counts per threshold, which contain no items.
    """
    if validated is None:
        raise ValueError("`thresholds` and `bins` must be None for the interval of an average, which needs the items")
    if options.method == "jackknife" and interval_method(None, settings, options.design, None) != "jackknife":
        raise ValueError(
            "`method` must not be 'jackknife' for the micro average, nor for labels with `design='stratified'`, "
            "because each label has other strata"
        )
    estimate = settings.value(curve, torch.float64 if curve.m.device.type != "mps" else torch.float32)
    error, values, shares, bias = estimate.new_tensor(torch.nan), None, None, None
    if settings.convention.interpolation is None and is_mean(settings):
        design = options.design if settings.inputs.classes else "iid"
        variance, bias = jackknife_of_average(settings, curve, validated, design)
        error = torch.sqrt(variance + bias.square() / 4)
    if settings.convention.interpolation is None and options.method != "jackknife":
        shares = influence.item_shares(settings, validated, curve, options.design)
        error = shares.square().sum().sqrt()
    if options.method in BOOTSTRAPS:
        values = _average_replicates(settings, validated, curve, options)
        error = resampling.standard_error(values)
    df = influence.degrees_of_freedom(settings, curve, options.design)
    center = estimate
    if options.method == "jackknife" and bias is not None:
        center = without_bias(estimate, bias)
    low, high = _ends(options, center, error, df, values, None if shares is None else lambda: _acceleration(shares))
    if bool(estimate == 1):
        low = high = torch.full_like(estimate, torch.nan)
    unknown = unknown_error_reason(settings, curve)
    reason = _average_reason(options, estimate, (low, high), bias, error, unknown)
    corrected = None
    if options.method == "jackknife" and bias is not None:
        corrected = torch.where(estimate.isnan(), estimate, bias)
    return Interval(estimate, low, high, error, **options.fields, reason=reason, bias=corrected)


def jackknife_of_average(
    settings: APSettings, curve: HitCurve, validated: Batch, design: str = "iid"
) -> tuple[Tensor, Tensor]:
    """Return the delete-one variance and bias of a macro or weighted average, 0-d each."""
    changes = influence.deletion_changes(settings, validated, curve)
    return influence.jackknife_of_changes(changes, _strata(settings, validated, design))


def without_bias(estimate: Tensor, bias: Tensor) -> Tensor:
    """Return the estimate minus its bias; a noisy bias must not move it out of (0, 1)."""
    return torch.minimum(torch.maximum(estimate - bias, estimate / 2), (1 + estimate) / 2)


def _strata(settings: APSettings, validated: Batch, design: str) -> list[Tensor]:
    """Return the indices of the items of each stratum: all counted items, or the items of each class."""
    target = validated.target
    if design == "iid":
        counted = counted_items(target)
        return [(counted if target.ndim == 1 else counted.any(1)).nonzero().squeeze(1)]
    if not settings.inputs.classes:
        raise ValueError("`design` must be 'iid' for a bootstrap over labels, because each label has other strata")
    return [(target == kind).nonzero().squeeze(1) for kind in range(validated.scores.shape[1])]


def _average_replicates(settings: APSettings, validated: Batch, curve: HitCurve, options: InferenceSettings) -> Tensor:
    """Return the average under each resample of the items, (B,)."""
    target, items = validated.target, len(validated.scores)
    ignoring, micro = settings.inputs.ignoring, settings.average == "micro"
    strata = _strata(settings, validated, options.design)
    if micro:
        validated = Batch(validated.scores.reshape(-1, 1), target.reshape(-1, 1))
    rankings, split, action = [], settings.convention.reads_tie_groups, settings.action_on_empty
    for column, ranking in enumerate(hit_curve.split(curve)):
        flags, rows = influence.select_column(validated.target, 1 if micro and target.ndim == 1 else column, ignoring)
        scores = validated.scores[:, column][rows]
        rankings.append((rows, resampling.group_items(ranking, scores, flags[rows], split_ties=split)))

    def averages(weights: Tensor) -> Tensor:
        weights = weights.repeat_interleave(target.shape[1], 1) if micro else weights
        curves = [grouped.curve(weights[:, rows]) for rows, grouped in rankings]
        values = [averaging.fill_undefined(settings.convention(x), x, action, what="resample") for x in curves]
        m, n = torch.stack([x.m for x in curves]), torch.stack([x.n for x in curves])
        return averaging.averages_of_samples(torch.stack(values), m, n, settings.average, action)

    return resampling.replicate_items(averages, strata, items, options.resampling)


def _acceleration(shares: Tensor) -> Tensor:
    """Return Efron's acceleration, a sixth of the skewness of the items' contributions."""
    squares = shares.square().sum()
    return torch.where(squares > 0, (shares**3).sum() / (6 * squares**1.5), 0)


def _average_reason(
    options: InferenceSettings, estimate: Tensor, ends: Ends, bias: Tensor | None, error: Tensor, unknown: str
) -> str:
    """Return why the ends are NaN, or what the bias of the average does to the interval.

    ``unknown`` is the result of :func:`torch_ap.inference.edge_cases.unknown_error_reason`.
    """
    low, high = ends
    if bool(torch.isnan(estimate)):
        return "the average is NaN"
    if bool(estimate == 1):
        return "every AP is 1, where no standard error exists: the ends are NaN"
    if bool(torch.isnan(low)):
        return f"{unknown or 'the average has no spread'}: the ends are NaN"
    if bias is None:
        return ""
    if options.method == "jackknife":
        outside = bool((estimate < low) | (estimate > high))
        return f"the average is outside its interval, which is corrected for a bias of {float(bias):.2g}" * outside
    biased = bool(bias.abs() > _NEGLIGIBLE_BIAS * error)
    return f"likely too high: the average has a bias of {float(bias):.2g}, which 'jackknife' corrects" * biased
