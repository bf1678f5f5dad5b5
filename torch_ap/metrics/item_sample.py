"""Items of one or many rankings as a sample, for the average precision of classifiers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference.average_comparison import compare_averages
from torch_ap.inference.chance_of_rankings import chance_of_curve, tie_groups
from torch_ap.inference.comparison import compare_checked
from torch_ap.inference.difference import Comparison
from torch_ap.inference.interval import Interval
from torch_ap.inference.intervals import interval_of_curve
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.classification import Batch, counted
from torch_ap.metrics.uncertainty import Sample, UncertainMetric
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules.options import Design


@dataclass(frozen=True, eq=False)
class ItemSample(Sample):
    """Items, each of which has a place in one ranking or in one per class.

    Attributes:
        settings: of the average precision.
        curve: the rankings.
        batch: the items; None where only counts were kept.
        all_bins: where they were: the rankings with all items as hits, whose entries are all bins.
        design: whether the number of hits is random, "iid", or fixed, "stratified".
    """

    settings: APSettings
    curve: HitCurve
    batch: Batch | None
    all_bins: Callable[[], HitCurve]
    design: Design = "iid"

    def __post_init__(self) -> None:
        if self.curve.weighted or (self.batch is not None and self.batch.weights is not None):
            raise ValueError("`weights` have no chance level and no interval: their formulas count items")

    @property
    def has_chance_level(self) -> bool:
        """Whether E(AP) has a closed form."""
        return self.settings.convention.has_chance_level

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Of each ranking, or of the average; of bins, that of their tied items, as much longer as they leave open."""
        found = interval_of_curve(
            self._tied if self.settings.mixed else self.settings,
            self.curve,
            self.batch,
            confidence_level=confidence_level,
            method=method or "influence",
            design=self.design,
            resampling=resampling,
        )
        if not self.settings.mixed:
            return found
        bounds = self.settings.bounds(self.curve)
        low = (bounds.low - (found.estimate - found.low)).clamp(min=0)
        high = (bounds.high + (found.high - found.estimate)).clamp(max=1)
        reason = "; ".join(filter(None, [found.reason, "widened by the bounds of the bins"]))
        return replace(found, estimate=bounds.estimate, low=low, high=high, reason=reason)

    @property
    def _tied(self) -> APSettings:
        """The settings with the items of each bin tied."""
        convention = replace(self.settings.convention, ties="grouped")
        return replace(self.settings, bins=None, convention=convention)

    def value_and_ends(
        self, confidence_level: float, method: str | None, resampling: Resampling
    ) -> tuple[Tensor, Tensor, Tensor]:
        """With NaN ends where ties leave no interval of a ranking, so that a logger does not stop for equal scores."""
        settings = self.settings
        if settings.mixed:
            found = self.interval(confidence_level, method, resampling)
            return found.estimate.to(self.dtype), found.low, found.high
        value = settings.value(self.curve, self.dtype, warn=False)
        tied = segments.total((self.curve.items > 1).to(torch.int64), self.curve.offsets) > 0
        if settings.convention.ties == "grouped" or settings.averages or not bool(tied.any()):
            found = self.interval(confidence_level, method, resampling)
            return value, found.low, found.high
        grouped = replace(settings, convention=replace(settings.convention, ties="grouped"))  # alike without ties
        found = replace(self, settings=grouped).interval(confidence_level, method, resampling)
        low, high = (torch.where(tied.reshape(end.shape), torch.nan, end) for end in (found.low, found.high))
        return value, low, high

    def chance_level(self, resampling: Resampling) -> Tensor:  # noqa: ARG002 - it has a closed form
        """E(AP) of each ranking, averaged as the metric is."""
        groups = None  # of bins whose order is not known, the level of scores without ties
        if not self.settings.mixed:
            groups = [self.all_bins()] if self.batch is None else tie_groups(self.settings, self.batch)
        each = chance_of_curve(self.curve, self.settings.convention, groups=groups)
        return self.settings.averaged(each, self.curve, self.dtype, warn=False)

    def compare(
        self, other: "ItemSample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> Comparison:
        """Of one ranking, or of an average."""
        mine, theirs = _paired(self.batch, other.batch)
        curves = self.curve, other.curve
        if self.settings.inputs.width is not None:
            return compare_averages(
                self.settings,
                (mine, theirs),
                curves,
                confidence_level=confidence_level,
                method=method or "influence",
                design=self.design,
            )
        kept = counted(mine.target)
        return compare_checked(
            curves,
            (mine.scores[kept], theirs.scores[kept]),
            mine.target[kept] == 1,
            self.settings.convention,
            confidence_level=confidence_level,
            method=method or "logit",
            design=self.design,
            resampling=resampling,
        )


def _paired(mine: Batch | None, theirs: Batch | None) -> tuple[Batch, Batch]:
    """Both metrics' items, which must be the same."""
    if mine is None or theirs is None:
        raise ValueError("`thresholds` and `bins` must be None for a comparison: counts keep no items")
    if not torch.equal(mine.target, theirs.target):
        raise ValueError("`other` must have been updated with the same targets in the same order")
    return mine, theirs


class UncertainItems(UncertainMetric):
    """Abstract: a metric whose state is a sample of items."""

    summary_name = "ap"

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        method: str | None = None,
        *,
        design: Design = "iid",
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Interval:
        """How far the value can be trusted, for each ranking or for the average that the metric computes.

        The estimand is the limit that the value tends to as items are added, not its mean over samples of so many. For
        the rest see :meth:`UncertainMetric.confidence_interval`.

        Args:
            confidence_level, method, n_resamples, generator, batch, progress: as there.
            design: "iid", items were drawn, and the number of hits with them; "stratified", so many hits and so many
                misses were.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision()
            >>> metric.update(torch.arange(10.0, 0, -1), torch.tensor([1, 1, 0, 1, 0, 1, 0, 0, 0, 1]))
            >>> found = metric.confidence_interval(0.8)
            >>> round(float(found.low), 4), round(float(found.high), 4)
            (0.4682, 0.9369)
        """
        resampling = Resampling(n_resamples, generator, batch, progress)
        return self._interval(confidence_level, method, resampling, design=design)

    def compare(
        self,
        other: UncertainMetric,
        *,
        confidence_level: float = 0.95,
        method: str | None = None,
        design: Design = "iid",
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Comparison:
        """Whether this system is better than another on the same items: its value minus the other's.

        The estimand is the difference of the limits that the two values tend to as items are added. For the rest see
        :meth:`UncertainMetric.compare`.

        Args:
            other, confidence_level, method, n_resamples, generator, batch, progress: as there.
            design: as for :meth:`confidence_interval`.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> a, b = BinaryAveragePrecision(), BinaryAveragePrecision()
            >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 0, 1, 0, 0])
            >>> a.update(torch.arange(10.0, 0, -1), target)
            >>> b.update(torch.tensor([3.0, 9, 8, 2, 7, 6, 5, 4, 1, 0]), target)
            >>> round(float(a.compare(b).difference), 4)
            0.247
        """
        resampling = Resampling(n_resamples, generator, batch, progress)
        return self._comparison(other, confidence_level, method, resampling, design=design)
