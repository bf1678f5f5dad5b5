"""Images as a sample, for the mean average precision of detectors.

Detections are matched once a call; nothing is matched again for a resample.
"""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from torch_ap.inference.difference import Comparison
from torch_ap.inference.images.bootstrap import class_intervals, image_interval
from torch_ap.inference.images.chance import chance_of_images
from torch_ap.inference.images.comparison import compare_images
from torch_ap.inference.images.resampled_rankings import InterpolationRule, ResampledRankings
from torch_ap.inference.interval import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.detections import Columns
from torch_ap.metrics.uncertainty import Sample, UncertainMetric
from torch_ap.rules import checks


@dataclass(frozen=True, eq=False)
class ImageSample(Sample):
    """Images, each with its detections and ground truths.

    Attributes:
        columns: the images.
        ranked: the rankings that matching makes of their detections.
        interpolation: of AP.
        classes: how many classes occur, where an interval is of each; None where it is of their mean.
    """

    columns: Columns
    ranked: ResampledRankings
    interpolation: InterpolationRule
    classes: int | None = None

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Of ``map``, or of the AP of each class: over all IoU thresholds, the first area and the last limit."""
        if self.classes is not None:
            found = class_intervals(
                self.ranked,
                confidence_level=confidence_level,
                method=method or "bootstrap-logit",
                interpolation=self.interpolation,
                resampling=resampling,
            )
            names = ("estimate", "low", "high", "standard_error")
            return replace(found, **{name: getattr(found, name)[: self.classes] for name in names})
        return image_interval(
            self.ranked,
            confidence_level=confidence_level,
            method=method or "bootstrap-basic",
            interpolation=self.interpolation,
            resampling=resampling,
        )

    def each_class(self) -> Tensor:
        """(K,) the AP of each class, where ``classes`` is their number; NaN without ground truths."""
        every = torch.ones(1, self.ranked.images, dtype=torch.int64, device=self.ranked.image.device)
        return self.ranked.average_precision_of_lists(every, self.interpolation)[0, : self.classes]

    def chance_level(self, resampling: Resampling) -> Tensor:
        """The mean of ``map`` over orders of the scores."""
        return chance_of_images(self.ranked, interpolation=self.interpolation, resampling=resampling)

    def compare(
        self, other: "ImageSample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> Comparison:
        """Of two detectors on the same images."""
        for name, column in self.columns.items():
            of_detector = name.startswith("detection") or name == "pair_ious"
            if not of_detector and not _equal(column, other.columns[name]):
                raise ValueError(
                    f"`other` must have been updated with the same ground truths in the same order; `{name}` differs"
                )
        return compare_images(
            self.ranked,
            other.ranked,
            confidence_level=confidence_level,
            method=method or "bootstrap-percentile",
            interpolation=self.interpolation,
            resampling=resampling,
        )


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether values are equal, of whatever dtypes; NaN, as boxes that are not known have it, equals NaN."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


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
        figures are in :func:`torch_ap.inference.images.bootstrap.image_interval`. For the rest see
        :meth:`UncertainMetric.confidence_interval`.

        Args:
            confidence_level, method, n_resamples, generator, batch, progress: as there.
            iou_type: which one, where there are several; default the first.
            per_class: whether it is of the AP of each class over all IoU thresholds, (K,) in the order of ``classes``,
                by default by "bootstrap-logit", with the coverage of
                :func:`torch_ap.inference.images.bootstrap.class_intervals`.

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
        checks.boolean("per_class", per_class)
        return self._interval(confidence_level, method, resampling, iou_type=iou_type, per_class=per_class)

    def compare(
        self,
        other: UncertainMetric,
        *,
        confidence_level: float = 0.95,
        method: str | None = None,
        iou_type: str | None = None,
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
            >>> round(float(found.difference), 3), bool(found.p_value < 0.05)
            (0.438, True)
        """
        resampling = Resampling(n_resamples, generator, batch, progress)
        return self._comparison(other, confidence_level, method, resampling, iou_type=iou_type)

    def chance_level(
        self,
        *,
        iou_type: str | None = None,
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
            n_resamples, generator, batch, progress: of the random orders, as for :meth:`confidence_interval`.

        Returns:
            0-d, in the dtype of ``compute()``; NaN where there is no ground truth.

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
        return self._chance(Resampling(n_resamples, generator, batch, progress), iou_type=iou_type)
