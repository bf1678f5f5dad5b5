"""What a metric of average precision says about its own value: chance level, interval, and comparison with another.

All of it is computed from the state, over all ranks where there are several, so every rank must call it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference import rules
from torch_ap.inference.average_comparison import compare_averages
from torch_ap.inference.chance_level import chance_level, tie_groups
from torch_ap.inference.comparison import Comparison, compare_checked
from torch_ap.inference.interval import Interval
from torch_ap.inference.intervals import interval_of_curve
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.classification import Batch, counted
from torch_ap.metrics.base import RankingMetric
from torch_ap.metrics.representation import check_class, check_settings
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules.values import NAN_SCORE


class UncertainMetric(RankingMetric):
    """Abstract: a metric whose state is one or many rankings, of items that it may still hold."""

    _settings: APSettings

    def _held(self) -> tuple[HitCurve, Batch | None, torch.dtype]:
        """The rankings of all items so far, the items unless only counts were kept, and the dtype of the scores."""
        raise NotImplementedError

    def _settings_of_values(self) -> dict[str, Any]:
        """The arguments of the class, by name, as they were given."""
        raise NotImplementedError

    def _every_bin(self) -> HitCurve:
        """Where only counts were kept: the rankings with all items as hits, whose entries are all bins."""
        raise NotImplementedError

    def _raise_broken(self) -> None:
        inputs = self._settings.inputs
        warned = {NAN_SCORE: inputs.warn_of_nan} if inputs.nan_strategy == "warn" else {}
        self._raise_noted(warned, top=inputs.top)

    @contextmanager
    def _all_ranks(self) -> Iterator[tuple[HitCurve, Batch | None, torch.dtype]]:
        """What is held by all ranks together."""
        should_sync = self._to_sync and not self._is_synced
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=should_sync, should_unsync=self._should_unsync and should_sync
        ):
            self._raise_broken()
            curve, batch, scores = self._held()
            if curve.weighted or (batch is not None and batch.weights is not None):
                raise ValueError("`weights` have no chance level and no interval: their formulas count items")
            yield curve, batch, self._dtype_of_result(scores)

    def baseline(self) -> Tensor:
        """What chance gives: E(AP) or E(AP@k) where the same labels stand in random order, averaged as the metric is.

        With ``ties="grouped"`` and counts per threshold the tied items stay tied. With ``ties="expected"`` that makes
        no difference; for "optimistic" and "pessimistic" it is the level of rankings without ties.

        Returns:
            Of the shape and dtype of ``compute()``; see :func:`torch_ap.inference.random_average_precision`.

        Raises:
            ValueError: for interpolated AP or ``denominator="found"``, which have no closed form, and for weights.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision()
            >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
            >>> metric.baseline()
            tensor(0.6806)
        """
        with self._all_ranks() as (curve, batch, dtype):
            return self._chance(curve, batch, dtype)

    def confidence_interval(
        self,
        level: float = 0.95,
        method: str = "influence",
        *,
        design: str = "iid",
        resampling: Resampling | None = None,
    ) -> Interval:
        """How far the value can be trusted, for each ranking or for the average that the metric computes.

        The estimand is the limit that the value tends to as items are added, not its mean over samples of so many.

        Args:
            level: nominal coverage, in (0, 1).
            method, design, resampling: as for :func:`torch_ap.inference.average_precision_interval`, which has every
                method's measured coverage.

        Returns:
            :class:`torch_ap.inference.Interval`, in the dtype of ``compute()``.

        Raises:
            ValueError: where the method has no mathematics for the metric's convention, and for weights.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision()
            >>> metric.update(torch.arange(10.0, 0, -1), torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1]))
            >>> found = metric.confidence_interval(level=0.8)
            >>> found.low, found.high
            (tensor(0.4682), tensor(0.9369))
        """
        with self._all_ranks() as (curve, batch, dtype):
            found = interval_of_curve(
                self._settings, curve, batch, level=level, method=method, design=design, resampling=resampling
            )
            return found.to(dtype)

    def compare(
        self,
        other: "UncertainMetric",
        *,
        level: float = 0.95,
        method: str | None = None,
        design: str = "iid",
        resampling: Resampling | None = None,
    ) -> Comparison:
        """Whether this system beats another on the same items.

        The estimand is the difference of the limits that the two values tend to as items are added.

        Args:
            other: a metric of the same class and settings, updated with the same targets in the same order.
            level: nominal coverage, in (0, 1).
            method: as for :func:`torch_ap.inference.compare_rankings`. Default "logit"; of an average "influence",
                its only method.
            design, resampling: as there.

        Returns:
            :class:`torch_ap.inference.Comparison` of floats.

        Raises:
            ValueError: if the other is not such a metric, for conventions other than plain AP, counts per threshold,
                ``average="none"``, or weights.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> a, b = BinaryAveragePrecision(), BinaryAveragePrecision()
            >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 0, 1, 0, 0])
            >>> a.update(torch.arange(10.0, 0, -1), target)
            >>> b.update(torch.tensor([3.0, 9, 8, 2, 7, 6, 5, 4, 1, 0]), target)
            >>> round(a.compare(b).difference, 4)
            0.247
        """
        check_class(self, other, "other")
        check_settings(self._settings_of_values(), other._settings_of_values())
        self._check_identity(other.first_violation, "other")
        with self._all_ranks() as (_, mine, _), other._all_ranks() as (_, theirs, _):
            pair = _paired(mine, theirs)
            one = self._settings.inputs.width is None
            method = method or ("logit" if one else "influence")
            how: dict[str, Any] = {
                "level": level,
                "method": method,
                "design": design,
                "resampling": rules.resampling(resampling),
            }
            if not one:
                return compare_averages(self._settings, *pair, **how)
            kept = counted(pair[0].target)
            a, b = (batch.scores[kept] for batch in pair)
            return compare_checked(a, b, pair[0].target[kept] == 1, self._settings.convention, **how)

    def summary(self, level: float = 0.95) -> dict[str, Tensor]:
        """Value, ends of its interval and chance level under names for a logger: 0-d tensors.

        Args:
            level: nominal coverage of the interval, in (0, 1).

        Returns:
            ``{"ap", "ap_low", "ap_high", "ap_chance"}``; the ends are NaN where no interval exists, as for one
            ranking in which scores tie that ``ties`` does not group.

        Raises:
            ValueError: for ``average="none"``, and what :meth:`baseline` and :meth:`confidence_interval` refuse for any
                scores: ``top_k``, ``interpolation``, weights, and of an average ``thresholds``.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision()
            >>> metric.update(torch.arange(10.0, 0, -1), torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1]))
            >>> {name: round(float(value), 3) for name, value in metric.summary().items()}
            {'ap': 0.783, 'ap_low': 0.219, 'ap_high': 0.979, 'ap_chance': 0.607}
        """
        if self._settings.inputs.width is not None and self._settings.average in ("none", None):
            raise ValueError("`average` must not be 'none' for a summary, which is one value a name")
        if self._settings.convention.interpolation is not None:
            raise ValueError(
                "`interpolation` has no summary, since its chance level has no closed form; `confidence_interval` has "
                "intervals by bootstrap"
            )
        with self._all_ranks() as (curve, batch, dtype):
            value = self._settings.value(curve, dtype, warn=False)
            ends = self._ends(curve, batch, level)
            chance = self._chance(curve, batch, dtype)
        return {"ap": value, "ap_low": ends[0].to(dtype), "ap_high": ends[1].to(dtype), "ap_chance": chance}

    def _ends(self, curve: HitCurve, batch: Batch | None, level: float) -> tuple[Tensor, Tensor]:
        """Of the interval; NaN where ties leave none, so that a logger does not stop for two equal scores."""
        one, grouped = self._settings.inputs.width is None, self._settings.convention.ties == "grouped"
        if one and not grouped and bool((curve.items > 1).any()):
            return (torch.full_like(segments.as_float64(curve.m[0]), torch.nan),) * 2
        found = interval_of_curve(self._settings, curve, batch, level=level)
        return found.low, found.high

    def _chance(self, curve: HitCurve, batch: Batch | None, dtype: torch.dtype) -> Tensor:
        groups = [self._every_bin()] if batch is None else tie_groups(self._settings, batch)
        each = chance_level(curve, self._settings.convention, groups=groups)
        return self._settings.averaged(each, curve, dtype, warn=False)


def _paired(mine: Batch | None, theirs: Batch | None) -> tuple[Batch, Batch]:
    """Both metrics' items, which must be the same."""
    if mine is None or theirs is None:
        raise ValueError("`thresholds` must be None for a comparison: counts per threshold keep no items")
    if not torch.equal(mine.target, theirs.target):
        raise ValueError("`other` must have been updated with the same targets in the same order")
    return mine, theirs
