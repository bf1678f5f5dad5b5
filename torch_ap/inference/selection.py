"""The best of several systems: its value without the optimism of the selection, and comparisons of all systems.

The module ``selection_intervals`` describes the intervals of the best system.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.messages import Plain, distinct_reasons, raise_invalid, short_repr
from torch_ap.core.base.options import Design, allowed_values
from torch_ap.core.items.inputs import ClassificationInputs
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking import builders
from torch_ap.core.ranking.order import Array
from torch_ap.inference import groups as grouped
from torch_ap.inference import record
from torch_ap.inference.comparisons import check_systems
from torch_ap.inference.contributions import (
    Contributions,
    differing_unit,
    group_contributions,
    query_contributions,
    ranking_contributions,
)
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import SAME_VALUE, Result
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.selection_intervals import INTERVALS, JointDistribution, selection_errors, student_draws

SelectionMethod: TypeAlias = Literal["hybrid", "shifted", "simultaneous"]
SelectionCorrection: TypeAlias = Literal["max-t", "holm"] | None
METHODS = allowed_values(SelectionMethod)
CORRECTIONS = allowed_values(SelectionCorrection)
_MOST_FOR_HOLM = 10  # systems; for more, max-T has more power for all pairs
_NO_VARIANCE = 1e-12  # variance of a difference, relative to the variances of the two values, that is a rounding error


@dataclass(frozen=True, eq=False, repr=False)
class BestSystem(Result):
    """The best of S systems.

    Attributes:
        names: name of each system.
        values: (S,) value of each system.
        best: index of the system with the largest value; of several, the first.
        value: its value.
        corrected: its value without the optimism of the selection, and for a macro or weighted average also without
            the bias of :func:`torch_ap.inference.average_precision_interval`.
        optimism: ``value`` minus ``corrected``.
        low: lower end of the selection-adjusted interval of the best system; NaN if none exists.
        high: upper end.
        simultaneous_low: (S,) lower ends of intervals that contain the true values of all systems at once; NaN for a
            system without an interval.
        simultaneous_high: (S,) upper ends.
        adjusted_p_value: two-sided p-values, adjusted for all comparisons: (S, S) of all pairs, or (S,) of each system
            and the reference; 1 for a system and itself.
        confidence_level: nominal coverage.
        method: "hybrid", "shifted" or "simultaneous".
        correction: adjustment of the p-values, "holm" or "max-t".
        reference: index of the reference, or None.
        reason: why numbers are NaN or doubtful; "" otherwise.
    """

    names: list[str]
    values: Tensor
    best: int
    value: Tensor
    corrected: Tensor
    optimism: Tensor
    low: Tensor
    high: Tensor
    simultaneous_low: Tensor
    simultaneous_high: Tensor
    adjusted_p_value: Tensor
    confidence_level: float
    method: str
    correction: str
    reference: int | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class SelectionSettings:
    """Validated settings of a selection, named as in the public functions.

    Args:
        method: one of ``METHODS``.
        confidence_level: nominal coverage, in (0, 1).
        reference: index or name of the system with which the others are compared; None for all pairs.
        correction: one of ``CORRECTIONS``.
        names: name of each system; None for the numbers from 0.
    """

    method: str = "hybrid"
    confidence_level: float = 0.95
    reference: int | str | None = None
    correction: str | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        checks.one_of("method", self.method, METHODS)
        checks.one_of("correction", self.correction, CORRECTIONS)
        level = checks.open_fraction("confidence_level", self.confidence_level)
        object.__setattr__(self, "confidence_level", level)

    def reference_index(self, names: Sequence[str]) -> int | None:
        """Return the index of the reference among the names, or None."""
        reference = self.reference
        if reference is None:
            return None
        if isinstance(reference, str):
            if reference not in names:
                raise_invalid("reference", f"must be one of {', '.join(map(repr, names))}", reference)
            return list(names).index(reference)
        index: int = checks.positive_int("reference", reference, least=0)
        if index >= len(names):
            raise_invalid("reference", f"must be below the number of systems, {len(names)}", reference)
        return index


def select_best(systems: Sequence[Contributions], settings: SelectionSettings) -> BestSystem:
    """Return the best of several systems over the same units."""
    shares = torch.stack([x.shares for x in systems])
    return select_by_covariance(systems, (shares @ shares.t()).numpy(), settings)


def select_by_covariance(
    systems: Sequence[Contributions], covariance: Array, settings: SelectionSettings
) -> BestSystem:
    """Return the best of several systems, given the (S, S) covariance of their values."""
    count, alpha = len(systems), 1 - settings.confidence_level
    names = checks.names_of_classes(settings.names, count, "names")
    reference, bounds = settings.reference_index(names), systems[0].bounds
    correction = settings.correction or ("holm" if reference is None and count <= _MOST_FOR_HOLM else "max-t")
    values, df = np.array([x.value for x in systems]), min(x.df for x in systems)
    best = 0 if np.isnan(values).all() else int(np.nanargmax(values))
    pairs = _pairs(count, reference)
    corrected = low = high = math.nan
    simultaneous, p_values = np.full((2, count), np.nan), np.full(len(pairs), np.nan)
    reason, notes = _missing_distribution(values, covariance, df), []
    if not reason:
        draws = student_draws(covariance, df)
        p_values = adjusted_p_values(_differences(systems, covariance), draws, pairs, df, correction)
        joint, shifts = _joint_distribution(systems, covariance, draws, df)
        simultaneous = _from_logits(joint.simultaneous(alpha) - shifts, bounds)
        reason = joint.reason(best, "the best value")
        if np.isnan(p_values).any():
            notes.append("two systems have a difference without a standard error, and so no p-value")
        others = {f"system {x}": joint.reason(k, "the value") for k, x in enumerate(names) if k != best}
        notes.append(record.join_reasons(others))
    if not reason:
        at_best, ends = joint.values[best], INTERVALS[settings.method](joint, best, alpha)
        logits = at_best - selection_errors(joint).mean(), min(at_best, ends[0]), max(at_best, ends[1])
        corrected, low, high = _from_logits(np.array(logits) - shifts[best], bounds)
        reason = systems[best].note
        if abs(systems[best].bias) < SAME_VALUE:  # an end at the value has the rounding error of the logit
            low, high = min(low, values[best]), max(high, values[best])
        elif not low <= values[best] <= high:
            bias = f"{systems[best].bias:.2g}"
            notes.append(f"the value is outside its interval, which is corrected for a bias of {bias}")
    arrays = [torch.as_tensor(x, dtype=torch.float64) for x in (values, *simultaneous)]
    value, table = values[best], _table(p_values, pairs, count, reference)
    return BestSystem.from_numbers(
        arrays[0], value, corrected, value - corrected, low, high, *arrays[1:], table,
        names=names, best=best, confidence_level=settings.confidence_level, method=settings.method,
        correction=correction, reference=reference, reason="; ".join(filter(None, [reason, *notes])),
    )  # fmt: skip


def _missing_distribution(values: Array, covariance: Array, df: float) -> str:
    """Return why the values have no joint distribution; "" if they have one."""
    if np.isnan(values).any():
        return "the value of a system is NaN"
    if not df >= 1 or np.isnan(covariance).any():
        return "too few hits, misses, queries or images for a standard error"
    return ""


def _joint_distribution(
    systems: Sequence[Contributions], covariance: Array, draws: Array, df: float
) -> tuple[JointDistribution, Array]:
    """Return the distribution of the values on the scale of the intervals, and the (S,) biases on this scale.

    The selection depends on the values, so the distribution is around them, and the biases are subtracted from its
    intervals. As for the interval of an average, half of a bias is a standard error; the errors of the biases are
    common to the systems.
    """
    values, biases = (np.array([getattr(x, name) for x in systems]) for name in ("value", "bias"))
    bounds = systems[0].bounds
    logits = _to_logits(values, covariance, bounds)
    if not biases.any():
        return JointDistribution(*logits, draws), np.zeros_like(values)
    widened = covariance + np.outer(biases, biases) / 4
    corrected, widened = _to_logits(values - biases, widened, bounds)
    draws = student_draws(np.nan_to_num(widened), df)  # 0 for values at the bounds, whose covariance is NaN
    return JointDistribution(logits[0], widened, draws), logits[0] - corrected


def _to_logits(values: Array, covariance: Array, bounds: tuple[float, float] | None) -> tuple[Array, Array]:
    """Return values and covariance on the logit scale between the bounds; NaN at the bounds."""
    if bounds is None:
        return values, covariance
    share, width = (values - bounds[0]) / (bounds[1] - bounds[0]), bounds[1] - bounds[0]
    share = np.where((share > 0) & (share < 1), share, np.nan)
    slopes = 1 / (share * (1 - share) * width)
    return np.log(share / (1 - share)), covariance * np.outer(slopes, slopes)


def _from_logits(values: Array, bounds: tuple[float, float] | None) -> Array:
    """Return the values of numbers on the logit scale between the bounds."""
    if bounds is None:
        return values
    from scipy.special import expit

    out: Array = bounds[0] + (bounds[1] - bounds[0]) * expit(values)
    return out


def _pairs(count: int, reference: int | None) -> Array:
    """Return the indices of all pairs, or of each other system and the reference: (P, 2)."""
    if reference is None:
        return np.stack(np.triu_indices(count, 1), 1)
    others = np.delete(np.arange(count), reference)
    return np.stack([others, np.full_like(others, reference)], 1)


def _table(p_values: Array, pairs: Array, count: int, reference: int | None) -> Tensor:
    """Return the p-values of pairs as (S, S), or as (S,) against the reference."""
    out = torch.ones(count, count, dtype=torch.float64)
    first, second = torch.from_numpy(pairs).t()
    out[first, second] = out[second, first] = torch.from_numpy(p_values)
    return out if reference is None else out[reference]


def _differences(systems: Sequence[Contributions], covariance: Array) -> tuple[Array, Array, float]:
    """Return the values whose differences are tested, their (S, S) covariance, and a factor of the statistic.

    With a ``least`` k these are the logits of k / (k + 1) times the value, as in
    :func:`torch_ap.inference.compare_rankings`.
    """
    values, least = np.array([x.value for x in systems]), systems[0].least
    if least is None:
        return values, covariance, 1.0
    share = least / (least + 1)
    shrunk = share * values
    slopes = share / (shrunk * (1 - shrunk))
    return np.log(shrunk / (1 - shrunk)), covariance * np.outer(slopes, slopes), math.sqrt(share)


def adjusted_p_values(
    tested: tuple[Array, Array, float], draws: Array, pairs: Array, df: float, correction: str
) -> Array:
    """Return two-sided p-values of pairs of systems, adjusted for their number: (P,); NaN without a standard error.

    Args:
        tested: values, covariance and factor of :func:`_differences`.
        draws: (S, B) of multivariate t with the correlation of the values.
        pairs: (P, 2) indices of systems.
        df: degrees of freedom.
        correction: "holm" or "max-t".
    """
    from scipy.special import stdtr

    values, covariance, factor = tested
    first, second = pairs.T
    variance, errors = np.diag(covariance), np.sqrt(np.diag(covariance))
    gap, total = np.abs(values[first] - values[second]), variance[first] + variance[second]
    apart = total - 2 * covariance[first, second]
    error = np.sqrt(np.where(apart > _NO_VARIANCE * total, apart, 0))
    same = gap < SAME_VALUE
    size = np.divide(factor * gap, error, out=np.where(same, 0.0, np.nan), where=(error > 0) & ~same)
    if correction == "holm":
        return record.holm(torch.from_numpy(2 * stdtr(df, -size))).numpy()
    out, valid = np.full(len(size), np.nan), ~np.isnan(size)
    order = np.flatnonzero(valid)[np.argsort(-size[valid], kind="stable")]
    reached, largest = np.zeros(len(order)), np.zeros(draws.shape[1])
    for place in range(len(order) - 1, -1, -1):  # from the smallest statistic, so that the maximum grows
        pair = order[place]
        if error[pair] > 0:
            contrast = draws[first[pair]] * errors[first[pair]] - draws[second[pair]] * errors[second[pair]]
            np.maximum(largest, np.abs(contrast) / error[pair], out=largest)
        reached[place] = (largest >= size[pair]).sum()
    out[order] = np.maximum.accumulate((reached + 1) / (draws.shape[1] + 1))
    return out


@distinct_reasons()
def best_of(
    preds: Tensor,
    target: Tensor,
    *,
    method: SelectionMethod = "hybrid",
    confidence_level: float = 0.95,
    design: Design = "iid",
    groups: SampleIds = None,
    reference: int | str | None = None,
    correction: SelectionCorrection = None,
    names: Sequence[str] | None = None,
) -> BestSystem:
    """Return the best of several systems by AP on the same items, with its value corrected for the selection.

    The value of the best system is too high on average, because the selection prefers systems with favorable errors.
    ``corrected`` is its value without this optimism, and the interval from ``low`` to ``high`` allows for the
    selection. The estimand is the AP of the selected system in the population, the limit as items are added.

    - "hybrid": the distribution of the best value given the selection, within the simultaneous interval.
    - "shifted": the value minus quantiles of the error of the best system in parametric draws; the narrowest.
    - "simultaneous": the interval of the system among intervals that contain the true values of all systems at once.

    Args:
        preds: (S, N) scores, one system per row, at least two; no NaN. The systems may have different scales.
        target: (N,) values 0 and 1.
        method: as above; ``corrected`` does not depend on it.
        confidence_level: nominal coverage, in (0, 1).
        design: "iid" (the number of hits is random) or "stratified" (the numbers of hits and misses were fixed).
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. Errors are those of :mod:`torch_ap.inference.groups`, with K - 1 degrees of freedom. Requires
            ``design="iid"``. With fewer than 20 groups with hits, a warning is raised: with 10 groups the interval of
            the best of five equal systems covers .897, with 20 to 200 groups .923 to .954.
        reference: index or name of the system with which the p-values compare the others, such as the model in use;
            None for the p-values of all pairs.
        correction: adjustment of the p-values for their number: "holm", or "max-t" for the distribution of the largest
            statistic in draws, step-down. None for "holm" if all pairs of at most ten systems are compared, and
            otherwise for "max-t", which has more power then. The single tests are the test "logit" of
            :func:`torch_ap.inference.compare_rankings`. With ``groups``, they use K - 1 degrees of freedom, while
            ``compare_rankings`` uses min(G - 1, K (K - 1) / 2).
        names: (S,) different names of the systems; None for the numbers from 0.

    Returns:
        :class:`torch_ap.inference.BestSystem`. Of several systems with the largest value, the first is the best. The
        interval is NaN, with a reason, if the best AP is 1, and with fewer than two hits or two misses.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. With "holm" and without ``groups``, ``adjusted_p_value`` equals
    :func:`torch_ap.inference.compare_systems`, except for fewer than two hits or two misses: all pairs are NaN then,
    while ``compare_systems`` returns 1 for equal rankings. Source: Andrews, Kitagawa & McCloskey (2024), Inference on
    Winners, for "hybrid"; Westfall & Young (1993), Resampling-Based Multiple Testing, for "max-t"; Holm (1979).

    Example:
        >>> import torch
        >>> from torch_ap.inference import best_of
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 1, 0, 0, 0] * 6)
        >>> noise = torch.linspace(-1, 1, 60).mul(7).sin()
        >>> preds = torch.stack([target * gap + noise.roll(shift) for gap, shift in ((0.9, 0), (1.0, 9), (0.9, 21))])
        >>> found = best_of(preds, target)
        >>> found.best, round(float(found.value), 3), round(float(found.corrected), 3)
        (1, 0.798, 0.734)
    """
    settings = SelectionSettings(method, confidence_level, reference, correction, names)
    checks.one_of("design", design, allowed_values(Design))
    check_systems(preds, target)
    batches = [ClassificationInputs().validate_now(row, target) for row in preds]
    relevant = batches[0].target == 1
    ids = grouped.validate_groups(groups, target.shape, target.device)
    if ids is not None and design != "iid":
        raise_invalid("design", "must be 'iid' with `groups`, whose numbers of hits are random", design)
    units = None if ids is None else Groups.from_ids(ids)
    curves = [builders.from_scores(x.scores, relevant) for x in batches]
    systems = [
        ranking_contributions(curve, batch.scores, relevant, design)
        if units is None
        else group_contributions(curve, batch.scores, relevant, units)
        for curve, batch in zip(curves, batches, strict=True)
    ]
    return select_best(systems, settings).to(preds.device)


@distinct_reasons()
def best_of_per_query(
    values: Tensor,
    *,
    method: SelectionMethod = "hybrid",
    confidence_level: float = 0.95,
    bounds: tuple[float, float] | None = (0, 1),
    groups: SampleIds = None,
    reference: int | str | None = None,
    correction: SelectionCorrection = None,
    names: Sequence[str] | None = None,
) -> BestSystem:
    """Return the best of several systems by their means over the same queries, corrected for the selection.

    The estimand is the mean of the selected system over the population of queries. For the rest see
    :func:`torch_ap.inference.best_of`.

    Args:
        values: (S, Q) finite per-query values of at least two systems and one query, in the same order of the queries.
        method, confidence_level, reference, correction, names: as for :func:`torch_ap.inference.best_of`.
            The single tests are paired t tests.
        bounds: smallest and largest value of the measure, between which the intervals are computed on the logit scale;
            None for an unbounded measure.
        groups: (Q,) integers, a tensor or a list, the group of each query, such as a topic or a user; None for
            independent queries. With fewer than 10 groups, a warning is raised.

    Returns:
        :class:`torch_ap.inference.BestSystem`; NaN, with a reason, for one query, and if the mean of the best system is
        one of the bounds or has no spread.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    With "holm", ``adjusted_p_value`` equals :func:`torch_ap.inference.compare_systems_per_query` with this method,
    except for one query or fewer than two effective groups: all pairs are NaN then, while
    ``compare_systems_per_query`` returns 1 for equal values. Source: as for :func:`torch_ap.inference.best_of`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import best_of_per_query
        >>> values = torch.tensor([[0.5, 0.6, 0.9, 0.4], [0.4, 0.4, 0.6, 0.3], [0.5, 0.5, 0.8, 0.5]])
        >>> found = best_of_per_query(values, names=["dense", "bm25", "sparse"])
        >>> found.names[found.best], round(float(found.value), 3), round(float(found.corrected), 3)
        ('dense', 0.6, 0.575)
    """
    settings = SelectionSettings(method, confidence_level, reference, correction, names)
    tensors.check_query_values("values", values, ndim=2)
    if len(values) < 2:
        raise_invalid("values", "must contain at least two systems", len(values))
    checks.check_bounds(bounds, values=values)
    ids = grouped.validate_groups(groups, values.shape[1:], values.device)
    units = None if ids is None else Groups.from_ids(ids.cpu())
    return select_best([query_contributions(row, bounds, units) for row in values], settings).to(values.device)


@distinct_reasons()
def best_of_metrics(
    metrics: Sequence[Any] | Mapping[str, Any],
    *,
    method: SelectionMethod = "hybrid",
    confidence_level: float = 0.95,
    reference: int | str | None = None,
    correction: SelectionCorrection = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> BestSystem:
    """Return the best of several metrics on the same items, queries or images, corrected for the selection.

    All processes must call this function, because it reads the states of all processes. For the rest see
    :func:`torch_ap.inference.best_of`; :class:`torch_ap.BestOf` collects the epochs of a training.

    ``corrected`` and the intervals of macro and weighted averages are also corrected for the bias B of each average.
    Half of B is a standard error, as in :func:`torch_ap.inference.average_precision_interval`, that the systems have in
    common. With three equal systems, 500 items and d' = 1, "hybrid" covered .953 with 10 labels of 25 hits, and .961
    with 40 labels of 20 hits, and all simultaneous intervals at once .952 and .969. ``value`` remains the value of the
    metric, which may be above its interval; ``reason`` then contains B. The p-values are those of differences, without
    this correction. Of five equal detectors, "hybrid" covered .939 with 200 images, .911 with 50, and .943 with 50
    groups of 4 images (``benchmarks.coverage``).

    Args:
        metrics: at least two metrics of the same class and settings with an ``interval``, updated with the same
            targets, in a sequence, or in a mapping from the names of the systems. Items with ``sample_ids`` are in any
            order.
        method, confidence_level, reference, correction: as for :func:`torch_ap.inference.best_of`. The single tests are
            tests of the difference by Student's t for averages, queries and images, and "logit" for one ranking.
        n_resamples: number of resamples of the images for detectors, at least 2.
        generator: random number generator of the resamples; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.BestSystem` on the device of the metrics.

    Raises:
        TypeError, ValueError: if an argument is invalid, or the metrics differ in their targets or settings; for the
            errors of ``confidence_interval`` of the metrics.

    No other package has an equivalent. Source: as for :func:`torch_ap.inference.best_of`; images are resampled as for
    ``confidence_interval``.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> from torch_ap.inference import best_of_metrics
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 1, 0, 0, 0] * 6)
        >>> metrics = {name: BinaryAveragePrecision() for name in ("small", "large")}
        >>> for gap, metric in zip((0.5, 1.5), metrics.values()):
        ...     metric.update(target * gap + torch.linspace(-1, 1, 60).mul(7).sin(), target)
        >>> found = best_of_metrics(metrics)
        >>> found.names[found.best], round(float(found.optimism), 3)
        ('large', 0.0)
    """
    from torch_ap.inference.metric import check_comparable

    if not isinstance(metrics, Iterable):
        raise_invalid("metrics", "must be a sequence or mapping of metrics of torch_ap", metrics, TypeError)
    names = list(metrics) if isinstance(metrics, Mapping) else None
    listed = list(metrics.values() if isinstance(metrics, Mapping) else metrics)
    for place, metric in enumerate(listed):
        if not hasattr(metric, "_sample"):  # a test of the class would import torchmetrics
            got = Plain(f"{short_repr(metric)} as system {place}")
            raise_invalid("metrics", "must contain metrics of torch_ap", got, TypeError)
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    state = None if generator is None else generator.get_state()
    settings = SelectionSettings(method, confidence_level, reference, correction, names)
    if len(listed) < 2:
        raise_invalid("metrics", "must contain at least two metrics", len(listed))
    systems: list[Contributions] = []
    ids: Tensor | None = None
    units: Mapping[str, Tensor] | None = None
    for place, metric in enumerate(listed):
        check_comparable(listed[0], metric)
        with metric._all_ranks():
            sample = metric._sample().ordered_as(ids, f"`metrics`: system {place}")
            ids = ids if place else sample.unit_ids
            units = sample.units() if units is None else units
            if (name := differing_unit(units, sample.units())) is not None:
                rule = "must have been updated with the same targets in the same order"
                raise ValueError(f"`metrics` {rule}, but `{name}` of system {place} differs from system 0")
            if generator is not None and state is not None:
                generator.set_state(state)  # the systems share the resamples of the images
            systems.append(sample.contributions(resampling))
    return select_best(systems, settings).to(listed[0].device)
