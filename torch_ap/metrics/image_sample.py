"""Images as a sample, for the mean average precision of detectors.

Detections are matched once a call; nothing is matched again for a resample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from torch_ap.inference.difference import Comparison
from torch_ap.inference.images.bootstrap import class_intervals, image_interval
from torch_ap.inference.images.chance import chance_of_images
from torch_ap.inference.images.comparison import compare_images, compare_lists
from torch_ap.inference.images.resampled_rankings import InterpolationRule, ResampledRankings
from torch_ap.inference.interval import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.detections import Columns
from torch_ap.metrics import same_images
from torch_ap.metrics.uncertainty import Sample, UncertainMetric
from torch_ap.rules import checks


@dataclass(frozen=True, eq=False)
class ImageSample(Sample):
    """Images, each with its detections and ground truths.

    Attributes:
        columns: the images.
        ranked: the rankings that matching makes of their detections.
        interpolation: of AP.
        labels: (K,) of the classes, where an interval is of each; None where it is of their mean.
        class_names: of these, to compare each.
        image_ids: (B,) of the images, where updates gave any.
    """

    columns: Columns
    ranked: ResampledRankings
    interpolation: InterpolationRule
    labels: Tensor | None = None
    class_names: Sequence[str] = ()
    image_ids: Tensor | None = None

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Of ``map``, or of the AP of each class: over all IoU thresholds, the first area and the last limit."""
        if self.labels is not None:
            found = class_intervals(
                self.ranked,
                confidence_level=confidence_level,
                method=method or "bootstrap-logit",
                interpolation=self.interpolation,
                resampling=resampling,
            )
            names = ("estimate", "low", "high", "standard_error")
            return replace(found, **{name: getattr(found, name)[: len(self.labels)] for name in names})
        return image_interval(
            self.ranked,
            confidence_level=confidence_level,
            method=method or "bootstrap-basic",
            interpolation=self.interpolation,
            resampling=resampling,
        )

    def each_class(self) -> Tensor:
        """(K,) the AP of each class, where there are ``labels``; NaN without ground truths."""
        assert self.labels is not None
        every = torch.ones(1, self.ranked.images, dtype=torch.int64, device=self.ranked.image.device)
        return self.ranked.average_precision_of_lists(every, self.interpolation)[0, : len(self.labels)]

    def chance_level(self, resampling: Resampling) -> Tensor:
        """The mean of ``map`` over orders of the scores."""
        return chance_of_images(self.ranked, interpolation=self.interpolation, resampling=resampling)

    def compare(
        self, other: "ImageSample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> Comparison:
        """Of two detectors on the same images."""
        same_images.check(self.columns, other.columns, self.image_ids, other.image_ids)
        how: dict[str, Any] = {"confidence_level": confidence_level, "resampling": resampling}
        how["interpolation"] = self.interpolation
        if self.labels is None:
            return compare_images(self.ranked, other.ranked, method=method or "bootstrap-percentile", **how)
        places = self._places(), other._places()
        lists = {name: (places[0][label], places[1][label]) for label, name in self._classes_to_find()}
        return compare_lists(self.ranked, other.ranked, lists, method=method or "bootstrap-normal", **how)

    def _places(self) -> dict[int, int]:
        """The place of each label."""
        assert self.labels is not None
        return {label: place for place, label in enumerate(self.labels.tolist())}

    def _classes_to_find(self) -> list[tuple[int, str]]:
        """Label and name of those that have something to find, as both of two detectors know them."""
        assert self.labels is not None
        some = set(self.ranked.relevant_list.tolist())
        named = zip(self.labels.tolist(), self.class_names, strict=True)
        return [pair for place, pair in enumerate(named) if place in some]


class UncertainImages(UncertainMetric):
    """Abstract: a metric whose state is a sample of images, and whose value is ``map``."""

    summary_name = "map"

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        method: str | None = None,
        *,
        iou_type: str | None = None,
        per_class: bool = False,
        slices: Mapping[str, Any] | None = None,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Interval:
        """How far ``map`` can be trusted, by the bootstrap over images: all IoU thresholds, the first area, last limit.

        Images are drawn with all that they hold. Nothing is matched or sorted again: a resample is how often each image
        occurs, and its mAP that of a data set in which the images are written out so often, where no two detections of
        one class and image have the same score. Classes that have no ground truth in a resample have no part in it.

        The estimand is the limit that ``map`` tends to as images are added, not its mean over sets of so many. Every
        method covers less than it says for few images or rare classes, "bootstrap-basic" comes closest; measured
        figures are in :func:`torch_ap.inference.images.bootstrap.image_interval`; ``reason`` says where there are fewer
        than 10 images. For the rest see
        :meth:`UncertainMetric.confidence_interval`.

        Args:
            confidence_level, method, n_resamples, generator, batch, progress: as there.
            iou_type: which one, where there are several; default the first.
            per_class: whether it is of the AP of each class over all IoU thresholds, (K,) in the order of ``classes``,
                by default by "bootstrap-logit", with the coverage of
                :func:`torch_ap.inference.images.bootstrap.class_intervals`.
            slices: as for ``per_slice``: it is of ``map`` in each of them, (S,) in their order, its images
                resampled among themselves. Not with ``per_class``.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 30), (0.7, 4), (0.6, 2)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> found = metric.confidence_interval(n_resamples=200)
            >>> bool(found.low < found.estimate < found.high)
            True
        """
        resampling = Resampling(n_resamples, generator, batch, progress)
        which = self._which(iou_type, per_class, slices)
        return self._interval(confidence_level, method, resampling, **which)

    def compare(
        self,
        other: UncertainMetric,
        *,
        confidence_level: float = 0.95,
        method: str | None = None,
        iou_type: str | None = None,
        per_class: bool = False,
        slices: Mapping[str, Any] | None = None,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Comparison:
        """Whether this detector is better than another on the same images: its ``map`` minus the other's.

        By the bootstrap over images, which both share. The estimand is the difference of the limits that the two
        ``map`` tend to as images are added. For the rest see :meth:`UncertainMetric.compare`.

        Args:
            other, confidence_level, method, n_resamples, generator, batch, progress: as there.
            iou_type: which one, where there are several; default the first.
            per_class: whether the AP of each class that has ground truths is compared, over all IoU thresholds, by
                default by "bootstrap-normal": interval and p-value from the standard deviation over resamples, by
                Student's t with as many degrees of freedom as images hold the class, less one.
            slices: as for ``per_slice``: whether ``map`` is compared in each of them. Not with ``per_class``.

        Returns:
            As there; with ``per_class`` or ``slices`` a :class:`torch_ap.inference.GroupComparison` of (K,) or (S,)
            tensors, with ``names``. ``p_value`` is of each alone; ``adjusted_p_value`` allows for their number by
            Holm's method: to take all those of at most 5% for real is wrong of any with a probability of at most 5%. p
            is no less than 2^(1 - n), that of the two-sided sign test, of n images that have a part in it; where that
            bites ``reason`` says so.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> a, b = MeanAveragePrecision(), MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 3), (0.8, 1), (0.7, 4), (0.6, 2)):
            ...     for metric, further in ((a, 0), (b, 4)):
            ...         found = {"boxes": box + shift + further, "scores": torch.tensor([score]), "labels": label}
            ...         metric.update([found], [{"boxes": box, "labels": label}])
            >>> found = a.compare(b)
            >>> round(float(found.difference), 3), round(float(found.p_value), 3)
            (0.438, 0.125)
        """
        resampling = Resampling(n_resamples, generator, batch, progress)
        which = self._which(iou_type, per_class, slices)
        return self._comparison(other, confidence_level, method, resampling, **which)

    def chance_level(
        self,
        *,
        iou_type: str | None = None,
        slices: Mapping[str, Any] | None = None,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> Tensor:
        """What chance gives: the mean of ``map`` over all orders of the scores of each class's detections.

        Detections stay matched as they are, true or false positives at each IoU threshold, and only the scores are
        exchanged: it says what ``map`` owes to where the boxes are, and what is above it, to the scores. It is not the
        mAP of random boxes, which is about 0. Interpolated AP has no closed form of its mean; the plain sum's is exact,
        and what interpolation adds to it is the mean over random orders.

        Args:
            iou_type: which one, where there are several; default the first.
            slices: as for ``per_slice``: it is of ``map`` in each of them.
            n_resamples, generator, batch, progress: of the random orders, as for :meth:`confidence_interval`.

        Returns:
            0-d, or (S,), in the dtype of ``compute()``; NaN where there is no ground truth.

        Raises:
            TypeError, ValueError: for an argument that breaks one of these rules.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 0), (0.7, 200), (0.6, 200)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> round(float(metric.compute()["map"]), 2), round(float(metric.chance_level()), 2)
            (0.5, 0.36)
        """
        return self._chance(Resampling(n_resamples, generator, batch, progress), iou_type=iou_type, slices=slices)

    def _which(self, iou_type: str | None, per_class: bool, slices: Any) -> dict[str, Any]:
        """What the methods of detection take beside those of all, checked."""
        checks.boolean("per_class", per_class)
        if per_class and slices is not None:
            raise ValueError("`per_class` must be False with `slices`: one of them can be given")
        return {"iou_type": iou_type, "per_class": per_class, "slices": slices}
