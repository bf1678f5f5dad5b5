"""What a metric says of its own value: interval, comparison with another system, chance level, and a summary for logs.

All of it is computed from the state, over all ranks where there are several, so every rank must call it. What a state
is a sample of, items, queries or images, is said once, by its :class:`Sample`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from torch_ap.inference.difference import Comparison
from torch_ap.inference.interval import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.metrics.base import RankingMetric
from torch_ap.metrics.representation import check_class, check_settings, named_values
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse


@dataclass(frozen=True, eq=False)
class Sample(ABC):
    """The state of a metric as a statistical sample. ``method`` is None for the default of the kind.

    Attributes:
        dtype: of the metric's value.
    """

    dtype: torch.dtype

    @property
    def has_chance_level(self) -> bool:
        """Whether :meth:`chance_level` gives a number."""
        return True

    @property
    def names(self) -> Sequence[str] | None:
        """Of the values, where there are several that are of no classes."""
        return None

    @abstractmethod
    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """The confidence interval of the metric's value."""

    @abstractmethod
    def compare(self, other: Any, confidence_level: float, method: str | None, resampling: Resampling) -> Comparison:
        """This system minus the other, of the same kind."""

    @abstractmethod
    def chance_level(self, resampling: Resampling) -> Tensor:
        """What the value is where chance ranks; an error where it has no closed form."""

    def value_and_ends(
        self, confidence_level: float, method: str | None, resampling: Resampling
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The value as ``compute()`` gives it, and the ends of its interval."""
        found = self.interval(confidence_level, method, resampling)
        return found.estimate, found.low, found.high


class UncertainMetric(RankingMetric):
    """Abstract: a metric whose state is a sample of items, of queries or of images."""

    summary_name: ClassVar[str]

    def _sample(self, **which: Any) -> Sample:
        """The state as a sample.

        Args:
            which: what the methods of one kind of metric take beside those of all: ``design`` or ``iou_type``.
        """
        raise NotImplementedError

    def _settings_of_value(self) -> Mapping[str, Any]:
        """What two metrics must have in common for their values to be compared, by the names of the arguments."""
        raise NotImplementedError

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        method: str | None = None,
        *,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Interval:
        """How far the value can be trusted.

        The estimand is the value in the population that the state is a sample of: the limit that it tends to as items,
        or images, are added (not its mean over samples of so many); of a mean over queries, the mean over all of them.

        Args:
            confidence_level: nominal coverage, in (0, 1).
            method: how the interval is found. None, the default, and what there is beside it:

                - of items (classification): "influence"; all of
                  :func:`torch_ap.inference.average_precision_interval`, which has every method's measured coverage;
                - of queries (retrieval): "dirichlet", which stays inside [0, 1]; "t" and "bootstrap-bca", see
                  :func:`torch_ap.inference.mean_interval`;
                - of images (detection): "bootstrap-basic"; "bootstrap-percentile" and "bootstrap-logit".
            n_resamples: of the methods that resample, at least 2.
            generator: their source of randomness; None for a fresh one with seed 0, so that results repeat.
            batch: how many resamples are computed at once; None for as many as fit the bound on memory.
            progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

        Returns:
            :class:`torch_ap.inference.Interval` on the metric's device; NaN, with a reason, where none exists.

        Raises:
            TypeError, ValueError: where the method has no mathematics for what the metric computes, as for weights and
                for an ``aggregation`` other than "mean" (for the geometric mean take the logs of ``per_query()``), and
                for an argument that breaks one of these rules.

        Example:
            >>> import torch
            >>> from torch_ap import RetrievalMAP
            >>> metric = RetrievalMAP()
            >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]).repeat(4, 1), torch.eye(3).long()[[0, 0, 1, 2]])
            >>> found = metric.confidence_interval()
            >>> round(float(found.low), 4), round(float(found.high), 4)
            (0.3626, 0.9211)
        """
        return self._interval(confidence_level, method, Resampling(n_resamples, generator, batch, progress))

    def compare(
        self,
        other: "UncertainMetric",
        *,
        confidence_level: float = 0.95,
        method: str | None = None,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Comparison:
        """Whether this system is better than another: its value minus the other's on the same items, queries or images.

        The estimand is the difference of the limits that the two values tend to as items, or images, are added; of
        means over queries, the mean difference over all queries that these were drawn from.

        Args:
            other: a metric of the same class and settings, updated with the same targets in the same order; over
                queries with the same queries in any order, and the same ``num_relevant``. Without that each system
                knows only what it retrieved, and whether both were judged alike is not seen.
            confidence_level: nominal coverage of the interval of the difference, in (0, 1).
            method: how the difference is tested. None, the default, and what there is beside it:

                - of items: "logit", and of an average "influence", its only method; see
                  :func:`torch_ap.inference.compare_rankings`;
                - of queries: "t"; "randomization", "wilcoxon" and "sign", see
                  :func:`torch_ap.inference.compare_queries`;
                - of images: "bootstrap-percentile", interval and p-value by counting resamples, of which none is below
                  2 / (B + 1); or "bootstrap-normal", from their standard deviation by the normal law. Of two equally
                  good detectors on 50 to 300 images both reject 3.8 to 6.3%, within 1, at nominal 5%.
            n_resamples, generator, batch, progress: as for :meth:`confidence_interval`.

        Returns:
            :class:`torch_ap.inference.Comparison`, ``value_a`` this metric's, on its device; NaN, with a reason, where
            nothing can be said; p = 1 where nothing tells the systems apart.

        Raises:
            TypeError, ValueError: if the other is not such a metric, for what :meth:`confidence_interval` refuses, and
                of classification for conventions other than plain AP, counts per threshold, and ``average="none"``.
        """
        return self._comparison(other, confidence_level, method, Resampling(n_resamples, generator, batch, progress))

    def chance_level(self) -> Tensor:
        """What chance gives: the mean of the metric's value over all orders of the items, with the same labels.

        Of AP it is E(AP) or E(AP@k) of each ranking, of every other measure of queries its mean, averaged as the metric
        is; what is undefined, missing or never retrieved counts as in ``compute()``. With ``ties="grouped"``, and
        counts per threshold, tied items stay tied. With "expected" that makes no difference; for "optimistic" and
        "pessimistic" it is the level of rankings without ties.

        Returns:
            Of the shape and dtype of ``compute()``; see :func:`torch_ap.inference.random_average_precision`.

        Raises:
            ValueError: where it has no closed form: for interpolated AP, ``denominator="found"``, and AUROC with
                ``top_k`` or ``max_fpr`` and ``ties="grouped"``, or with a ``top_k`` of which all items can be relevant,
                unless that counts 0 or 1; for weights, and for an ``aggregation`` other than "mean".

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision()
            >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
            >>> metric.chance_level()
            tensor(0.6806)
        """
        return self._chance(Resampling())

    def summary(
        self,
        confidence_level: float = 0.95,
        method: str | None = None,
        *,
        class_names: Sequence[str] | None = None,
        prefix: str | None = None,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> dict[str, Tensor]:
        """Value, ends of its interval and chance level under names for a logger, such as Lightning's ``log_dict``.

        Args:
            confidence_level, method, n_resamples, generator, batch, progress: as for :meth:`confidence_interval`.
            class_names: (C,) different names, for ``average="none"``; None for 0 to C - 1.
            prefix: what the names begin with; None for the metric's own name, which metrics of one log may share.

        Returns:
            0-d tensors in the dtype of ``compute()``: ``{"ap", "ap_low", "ap_high", "ap_chance"}``, or likewise of the
            metric's own name: "map" of :class:`torch_ap.RetrievalMAP` and of detectors, where it is the first
            ``iou_type``'s, "mrr", "auroc", "ndcg", "precision", "recall", "f_beta", "hit_rate", "fall_out",
            "r_precision". Without the last where there is no chance level. With ``average="none"`` the same of each
            class: "ap_0", "ap_0_low" and so on; where ``top_k`` is a list the same of each k: "map_5", "map_5_low". The
            ends are NaN where no interval exists, as for a ranking in which scores tie that ``ties`` does not group.

        Raises:
            TypeError, ValueError: what :meth:`confidence_interval` refuses for any scores, and for names that are not
                those of so many classes.

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
        resampling = Resampling(n_resamples, generator, batch, progress)
        checks.text("prefix", prefix, optional=True)
        if prefix == "":
            refuse("prefix", "must not be empty, as the value has no other name", prefix)
        with self._all_ranks():
            sample = self._sample()
            value, low, high = sample.value_and_ends(confidence_level, method, resampling)
            columns = {"": value, "_low": low, "_high": high}
            if sample.has_chance_level:
                columns["_chance"] = sample.chance_level(resampling)
        columns = {end: x.to(self.device, sample.dtype) for end, x in columns.items()}
        names = sample.names if class_names is None else class_names
        return named_values(self.summary_name if prefix is None else prefix, columns, names)

    # -- what the methods of one kind share, with arguments of its own

    def _interval(self, confidence_level: float, method: str | None, resampling: Resampling, **which: Any) -> Interval:
        with self._all_ranks():
            return self._sample(**which).interval(confidence_level, method, resampling).to(self.device)

    def _comparison(
        self,
        other: "UncertainMetric",
        confidence_level: float,
        method: str | None,
        resampling: Resampling,
        **which: Any,
    ) -> Comparison:
        self._check_comparable(other)
        with self._all_ranks(), other._all_ranks():
            mine, theirs = self._sample(**which), other._sample(**which)
            return mine.compare(theirs, confidence_level, method, resampling).to(self.device)

    def _chance(self, resampling: Resampling, **which: Any) -> Tensor:
        with self._all_ranks():
            sample = self._sample(**which)
            return sample.chance_level(resampling).to(self.device, sample.dtype)

    def _check_comparable(self, other: "UncertainMetric") -> None:
        """Refuse a metric that measures something else, or elsewhere."""
        check_class(self, other, "other")
        if other.device != self.device:
            raise ValueError(f"`other` must lie on the same device, {self.device}, got {other.device}")
        check_settings(self._settings_of_value(), other._settings_of_value())
        self._check_identity(other.first_violation, "other")
