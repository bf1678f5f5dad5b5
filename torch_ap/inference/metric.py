"""Uncertainty of the value of a metric: interval, comparison with another system, chance level, summary for logs.

:func:`confidence_interval`, :func:`compare`, :func:`chance_level` and :func:`summary` are methods of the metrics. Some
kinds of samples have functions of their own with these names. All results are computed from the state of all processes,
so every process must call them. A :class:`Sample` is the state of a metric as a sample of items, queries or images.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid, without_reasons
from torch_ap.core.metric.samples import places_of_ids
from torch_ap.core.metric.state import check_class, check_settings, named_values
from torch_ap.inference.contributions import Contributions
from torch_ap.inference.prediction_powered import PredictionPoweredInterval
from torch_ap.inference.record import Comparison, Interval
from torch_ap.inference.resampling import Resampling

if TYPE_CHECKING:
    from typing_extensions import Self

    from torch_ap.core.metric.base import RankingMetric


@dataclass(frozen=True, eq=False)
class Sample(ABC):
    """State of a metric as a statistical sample. ``method`` is None for the default of the kind.

    Attributes:
        dtype: the dtype of the metric's value.
    """

    dtype: torch.dtype

    @property
    def has_chance_level(self) -> bool:
        """Whether :meth:`chance_level` returns a number."""
        return True

    @property
    def names(self) -> Sequence[str] | None:
        """Names of the values, if there are several and they belong to no classes."""
        return None

    @property
    def unit_ids(self) -> Tensor | None:
        """(N,) different int64 ids of the units, by which systems are paired; None if they are paired by order."""
        return None

    def ordered_as(self, ids: Tensor | None, name: str) -> "Self":
        """Return the sample with its units in the order of the ids of another system.

        Without ids of both systems the sample is unchanged.

        Args:
            ids: ``unit_ids`` of the other system.
            name: the metric of this sample, for messages.

        Raises:
            ValueError: with the first id that only one of the systems has.
        """
        if ids is None or self.unit_ids is None or torch.equal(self.unit_ids, ids):
            return self
        return self._select(places_of_ids(self.unit_ids, ids, name))

    def _select(self, units: Tensor) -> "Self":
        """Return the sample with its units at (N,) int64 places."""
        raise NotImplementedError

    @abstractmethod
    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the confidence interval of the metric's value."""

    @abstractmethod
    def compare(self, other: Any, confidence_level: float, method: str | None, resampling: Resampling) -> Comparison:
        """Return the comparison of this system with another of the same kind."""

    @abstractmethod
    def chance_level(self, resampling: Resampling) -> Tensor:
        """Return the chance level; raise ValueError if it has no closed form."""

    def interval_of_value(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the interval, with the value of ``compute()`` as its estimate."""
        return self.interval(confidence_level, method, resampling)

    def contributions(self, resampling: Resampling) -> Contributions:
        """Return the contributions of the units to the value, for the selection of the best of several systems."""
        raise NotImplementedError

    def judged_interval(self, judge: Any, confidence_level: float) -> PredictionPoweredInterval:
        """Return the interval of the value under human labels, from the same scores with the labels of a judge."""
        raise NotImplementedError

    def units(self) -> Mapping[str, Tensor]:
        """Return tensors that are equal for all systems over the same units with the same targets."""
        raise NotImplementedError


@renamed_keywords(batch="chunk_size")
def confidence_interval(
    self: "RankingMetric",
    confidence_level: float = 0.95,
    method: str | None = None,
    *,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    """Return a confidence interval of the value.

    The estimand is the value in the population from which the items, queries or images were sampled: the limit of the
    value as items or images are added, or the mean over all queries. It is not the mean over samples of this size.

    Args:
        confidence_level: nominal coverage, in (0, 1).
        method: method of the interval; None for the default, which is the first of its kind:

            - items (classification): "influence", for averages "jackknife", and the other methods of
              :func:`torch_ap.inference.average_precision_interval`, with their measured coverage;
            - queries (retrieval): "dirichlet", which stays inside [0, 1], "t" and "bootstrap-bca", see
              :func:`torch_ap.inference.mean_interval`;
            - images (detection): "bootstrap-basic", "bootstrap-percentile" and "bootstrap-logit".
        n_resamples: number of resamples, at least 2, of the methods that resample.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` on the metric's device; NaN, with a reason, if no interval exists.

    Raises:
        TypeError, ValueError: if the method does not support the metric, for example weights or an ``aggregation``
            other than "mean" (for the geometric mean use the logs of ``per_query()``), and for an invalid argument.

    Example:
        >>> import torch
        >>> from torch_ap import RetrievalMAP
        >>> metric = RetrievalMAP()
        >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]).repeat(4, 1), torch.eye(3).long()[[0, 0, 1, 2]])
        >>> interval = metric.confidence_interval()
        >>> round(float(interval.low), 4), round(float(interval.high), 4)
        (0.3626, 0.9211)
    """
    return interval_of(self, confidence_level, method, Resampling(n_resamples, generator, chunk_size, progress))


@renamed_keywords(batch="chunk_size")
def compare(
    self: "RankingMetric",
    other: "RankingMetric",
    *,
    confidence_level: float = 0.95,
    method: str | None = None,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Comparison:
    """Compare this system with another on the same items, queries or images: its value minus the other value.

    The estimand is the difference of the limits of the two values as items or images are added, or the mean difference
    over all queries in the population.

    Args:
        other: a metric of the same class and settings, updated with the same targets in the same order. Items and
            rows may be in any order if both metrics have their ``sample_ids``. Queries may be in any order, and
            ``num_relevant`` must be the same. Without ``num_relevant``, each metric contains only the retrieved
            documents, so that differences of the judgements are not detected.
        confidence_level: nominal coverage of the interval of the difference, in (0, 1).
        method: test of the difference; None for the default, which is the first of its kind:

            - items: "logit", or "influence" for an average, its only method; see
              :func:`torch_ap.inference.compare_rankings`;
            - queries: "t", "randomization", "wilcoxon" and "sign", see
              :func:`torch_ap.inference.compare_per_query`;
            - images: "bootstrap-percentile", which counts resamples, so that no p-value is below 2 / (B + 1), or
              "bootstrap-normal", the normal distribution with the standard deviation of the resamples. For two equally
              good detectors on 50 to 300 images, both reject in 3.8 to 6.3% (± 1%) of the cases, at nominal 5%.
        n_resamples, generator, chunk_size, progress: as for :meth:`confidence_interval`.

    Returns:
        :class:`torch_ap.inference.Comparison` on the metric's device, with this metric as ``value_a``; NaN, with a
        reason, if it is undefined; p = 1 if the systems do not differ.

    Raises:
        TypeError, ValueError: if ``other`` is not such a metric, for the errors of :meth:`confidence_interval`, and in
            classification for conventions other than plain AP, counts per threshold, and ``average="none"``.
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    return comparison_of(self, other, confidence_level, method, resampling)


def prediction_powered_interval(
    self: "RankingMetric", judge: "RankingMetric", *, confidence_level: float = 0.95
) -> PredictionPoweredInterval:
    """Return the value under human labels, which few items or queries have, from the labels of a judge for all.

    This metric has human labels of a random sample: items without one have ``ignore_index`` as their target, and
    queries without human labels are left out. The estimand is the limit of the value under human labels as items are
    added, or its mean over the population of queries. The formulas are in
    :mod:`torch_ap.inference.prediction_powered`.

    Args:
        judge: a metric of the same class and settings, updated with the same scores and the labels of the judge as
            targets: of all items in the same order, or of all queries with the same ``indexes``. For probabilities of
            a judge use :func:`torch_ap.inference.prediction_powered_average_precision_interval`.
        confidence_level: nominal coverage, in (0, 1).

    Returns:
        :class:`torch_ap.inference.PredictionPoweredInterval` on the metric's device, with the interval of the human
        labels alone; NaN ends with a reason where these have no interval. The coverage, and the numbers of labels with
        a reason, are those of :func:`torch_ap.inference.prediction_powered_average_precision_interval` for items, and
        of :func:`torch_ap.inference.prediction_powered_mean_interval` for queries.

    Raises:
        TypeError, ValueError: if ``judge`` is not such a metric, or lacks a label; for groups, weights, counts per
            threshold, and conventions other than plain AP for items; for an ``aggregation`` other than "mean", several
            k, or undefined queries that are left out.

    Example:
        >>> import torch
        >>> from torch_ap import RetrievalMAP
        >>> human, judge = RetrievalMAP(), RetrievalMAP()
        >>> preds = torch.tensor([[0.9, 0.5, 0.1]]).repeat(80, 1)
        >>> targets = torch.eye(3).long()[torch.arange(80) % 5 % 3]
        >>> indexes = torch.arange(80).repeat_interleave(3)
        >>> judge.update(preds.flatten(), targets.flatten(), indexes)
        >>> human.update(preds[:20].flatten(), targets[:20].flatten(), indexes[:60])
        >>> found = human.prediction_powered_interval(judge)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high, found.human_low, found.human_high)]
        [0.598, 0.667, 0.729, 0.525, 0.784]
    """
    check_comparable(self, judge, "judge")
    with self._all_ranks(), judge._all_ranks():
        interval: PredictionPoweredInterval = self._sample().judged_interval(judge._sample(), confidence_level)
        return interval.to(self.device)


def chance_level(self: Any) -> Tensor:
    """Return the chance level: the mean of the value over all orders of the items, with the same labels.

    It is E(AP) or E(AP@k) of each ranking, or the mean of another measure, averaged in the same way as the value.
    Undefined, missing and never retrieved rankings count as in ``compute()``. With ``ties="grouped"``, and for counts
    per threshold, tied items stay tied. With "expected", ties make no difference. With "optimistic" and "pessimistic",
    the result is the chance level of rankings without ties.

    Returns:
        Tensor of the shape and dtype of ``compute()``; see
        :func:`torch_ap.inference.random_ranking.random_average_precision`.

    Raises:
        ValueError: if there is no closed form: for interpolated AP, for ``denominator="found"``, and for AUROC with
            ``top_k`` or ``max_fpr`` and ``ties="grouped"``, or with a ``top_k`` up to the number of relevant items,
            unless ``empty_target_action`` is "neg" or "pos". Also for weights, and for an ``aggregation`` other than
            "mean".

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> metric = BinaryAveragePrecision()
        >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
        >>> metric.chance_level()
        tensor(0.6806)
    """
    return chance_level_of(self, Resampling())


@renamed_keywords(batch="chunk_size")
def summary(
    self: "RankingMetric",
    confidence_level: float = 0.95,
    method: str | None = None,
    *,
    class_names: Sequence[str] | None = None,
    prefix: str | None = None,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> dict[str, Tensor]:
    """Return value, interval ends and chance level by name for a logger, such as Lightning's ``log_dict``.

    Args:
        confidence_level, method, n_resamples, generator, chunk_size, progress: as for :meth:`confidence_interval`.
        class_names: (C,) different names, for ``average="none"``; None for 0 to C - 1.
        prefix: beginning of the names; None for the name of the metric, which metrics of one log may share.

    Returns:
        0-d tensors in the dtype of ``compute()``: ``{"ap", "ap_low", "ap_high", "ap_chance"}``, or other names
        instead of "ap": "map" for :class:`torch_ap.RetrievalMAP` and detectors (of the first ``iou_type``), "mrr",
        "auroc", "ndcg", "precision", "recall", "f_beta", "hit_rate", "fall_out", "r_precision". An interval
        that is corrected for a bias adds "_bias". "_chance" is absent if there is no chance level. With
        ``average="none"`` each class has its names: "ap_0", "ap_0_low" and so on; with a list as ``top_k`` each k:
        "map_5", "map_5_low". The ends are NaN if no interval exists, for example for a ranking with tied scores that
        ``ties`` does not group, for items with ``weights``, and for ``groups`` with ``prevalence``. A doubtful
        interval, such as of few groups, raises no warning here: ``reason`` of
        :meth:`confidence_interval` has the cause.

    Raises:
        TypeError, ValueError: for the errors of :meth:`confidence_interval` that do not depend on the scores, and for
            ``class_names`` of another number of classes.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> metric = BinaryAveragePrecision()
        >>> metric.update(torch.arange(10.0, 0, -1), torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1]))
        >>> {name: round(float(value), 3) for name, value in metric.summary().items()}
        {'ap': 0.783, 'ap_low': 0.219, 'ap_high': 0.979, 'ap_chance': 0.607}
        >>> list(metric.summary(prefix="valid/ap"))
        ['valid/ap', 'valid/ap_low', 'valid/ap_high', 'valid/ap_chance']
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    checks.text("prefix", prefix, optional=True)
    if prefix == "":
        raise_invalid("prefix", "must not be empty, because it is the name of the value", prefix)
    with self._all_ranks():
        sample = self._sample_of_value()
        with without_reasons():
            interval = sample.interval_of_value(confidence_level, method, resampling)
        columns = {"": interval.estimate, "_low": interval.low, "_high": interval.high}
        if interval.bias is not None:
            columns["_bias"] = interval.bias
        if sample.has_chance_level:
            columns["_chance"] = sample.chance_level(resampling)
    columns = {end: x.to(self.device, sample.dtype) for end, x in columns.items()}
    names = sample.names if class_names is None else class_names
    return named_values(self._summary_name if prefix is None else prefix, columns, names)


def interval_of(
    metric: Any, confidence_level: float, method: str | None, resampling: Resampling, **options: Any
) -> Interval:
    """Return the confidence interval of a metric; the options are arguments of its ``_sample``."""
    with metric._all_ranks():
        interval: Interval = metric._sample(**options).interval(confidence_level, method, resampling)
        return interval.to(metric.device)


def comparison_of(
    metric: Any, other: Any, confidence_level: float, method: str | None, resampling: Resampling, **options: Any
) -> Comparison:
    """Return the comparison of two metrics; the options are arguments of their ``_sample``."""
    check_comparable(metric, other)
    with metric._all_ranks(), other._all_ranks():
        mine, theirs = paired_samples(metric, other, **options)
        comparison: Comparison = mine.compare(theirs, confidence_level, method, resampling)
        return comparison.to(metric.device)


def paired_samples(metric: Any, other: Any, **options: Any) -> tuple[Any, Any]:
    """Return the samples of two metrics, the second one in the order of the sample ids of the first.

    Args:
        metric, other: comparable metrics, whose states contain the samples of all processes.
        **options: arguments of ``_sample`` of the metrics.
    """
    mine, theirs = metric._sample(**options), other._sample(**options)
    return mine, theirs.ordered_as(mine.unit_ids, "`other`")


def check_comparable(metric: Any, other: Any, name: str = "other") -> None:
    """Raise ValueError if the other metric has another class, other settings or another device."""
    check_class(metric, other, name)
    if other.device != metric.device:
        raise ValueError(f"`{name}` must be on the same device, {metric.device}, got {other.device}")
    check_settings(metric._settings_of_value(), other._settings_of_value(), name)
    metric._check_identity(other.first_violation, name)


def chance_level_of(metric: Any, resampling: Resampling, **options: Any) -> Tensor:
    """Return the chance level of a metric; the options are arguments of its ``_sample``."""
    with metric._all_ranks():
        sample: Sample = metric._sample(**options)
        return sample.chance_level(resampling).to(metric.device, sample.dtype)
