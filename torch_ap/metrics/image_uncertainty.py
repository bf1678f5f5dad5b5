"""What a mean average precision of detections says about its own value: chance, interval, comparison.

The images are the sample. All of it is computed from the state, over all ranks where there are several, so every rank
must call it. Detections are matched once a call; nothing is matched again for a resample.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Literal

import torch
from torch import Tensor

from torch_ap.inference.comparison import Comparison
from torch_ap.inference.images.bootstrap import image_interval
from torch_ap.inference.images.chance import chance_of_images
from torch_ap.inference.images.comparison import compare_images
from torch_ap.inference.images.from_detections import ranked_images
from torch_ap.inference.images.resampled_rankings import InterpolationRule, ResampledRankings
from torch_ap.inference.interval import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs.detections import Columns
from torch_ap.matching.coco_settings import CocoSettings
from torch_ap.matching.matched import Matches
from torch_ap.matching.voc import VocSettings
from torch_ap.metrics.images import DetectionMetric
from torch_ap.metrics.representation import check_class, check_settings
from torch_ap.rules import checks

# fields of the settings whose arguments have other names
_ARGUMENTS = {
    "iou_types": "iou_type",
    "levels": "rec_thresholds",
    "limits": "max_detection_thresholds",
    "areas": "area_ranges",
    "own_iou": "iou",
    "check_values": "validate_args",
}


class UncertainImages(DetectionMetric):
    """Abstract: a detection metric whose ``map`` is the mean AP of the rankings that matching makes."""

    @property
    def _measured(self) -> CocoSettings | VocSettings:
        """All settings of the numbers."""
        raise NotImplementedError

    def _matched(self, columns: Columns, iou_type: str | None) -> tuple[Matches, InterpolationRule]:
        """What matching finds in these images, and how AP is interpolated."""
        raise NotImplementedError

    def _check_iou_type(self, iou_type: str | None) -> None:
        checks.one_of("iou_type", iou_type, (None, *self._inputs.geometry))

    @contextmanager
    def _all_ranks(
        self, iou_type: str | None
    ) -> Iterator[tuple[Columns, ResampledRankings, InterpolationRule, torch.dtype]]:
        """Images of all ranks, their rankings, how AP is interpolated, and the dtype of the result."""
        with self._synced_columns() as columns:
            matches, interpolation = self._matched(columns, iou_type)
            ranked = ranked_images(matches, len(columns["detections_per_image"]))
            yield columns, ranked, interpolation, self._dtype_of_result(columns["detection_scores"].dtype)

    def baseline(self, *, resampling: Resampling | None = None, iou_type: str | None = None) -> Tensor:
        """What chance gives: the mean of ``map`` over all orders of the scores of each class's detections.

        Detections stay matched as they are, true or false positives at each IoU threshold, and only the scores change
        hands: it says what ``map`` owes to where the boxes are, and what is above it, to the scores. It is not the mAP
        of random boxes, which is about 0. Interpolated AP has no closed form of its mean; the plain sum's is exact, and
        what interpolation adds to it is the mean over random orders.

        Args:
            resampling: of the random orders; None for 1,000 that repeat.
            iou_type: which one, where there are several; default the first.

        Returns:
            0-d, in the dtype of ``compute()``; NaN where there is no ground truth.

        Raises:
            ValueError: for an unknown ``iou_type``.

        Example:
            >>> import torch
            >>> from torch_ap.metrics.detection import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 0), (0.7, 200), (0.6, 200)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> round(float(metric.compute()["map"]), 2), round(float(metric.baseline()), 2)
            (0.5, 0.36)
        """
        with self._all_ranks(iou_type) as (_, ranked, interpolation, dtype):
            return chance_of_images(ranked, interpolation=interpolation, resampling=resampling).to(dtype)

    def confidence_interval(
        self,
        level: float = 0.95,
        method: Literal["bootstrap-basic", "bootstrap-percentile", "bootstrap-logit"] = "bootstrap-basic",
        *,
        resampling: Resampling | None = None,
        iou_type: str | None = None,
    ) -> Interval:
        """How far ``map`` can be trusted, by the bootstrap over images: all IoU thresholds, the first area, last limit.

        Images are drawn with all that they hold. Nothing is matched or sorted again: a resample is how often each image
        occurs, and its mAP that of a data set in which the images are written out so often, where no two detections of
        one class and image have the same score. Classes that have no ground truth in a resample have no part in it. The
        estimand is the limit that ``map`` tends to as images are added, not its mean over sets of so many.

        Every method covers less than it says for few images or rare classes, "bootstrap-basic" comes closest; measured
        figures are in :func:`torch_ap.inference.images.bootstrap.image_interval`.

        Args:
            level: nominal coverage, in (0, 1).
            method: "bootstrap-basic", "bootstrap-percentile" or "bootstrap-logit".
            resampling: None for 1,000 replicates that repeat.
            iou_type: which one, where there are several; default the first.

        Returns:
            :class:`torch_ap.inference.Interval` in the dtype of ``compute()``; NaN, with a reason, where there is no
            ground truth, and for one image.

        Raises:
            ValueError: for an argument that breaks one of these rules.

        Example:
            >>> import torch
            >>> from torch_ap.inference import Resampling
            >>> from torch_ap.metrics.detection import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 30), (0.7, 4), (0.6, 2)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> found = metric.confidence_interval(resampling=Resampling(200))
            >>> bool(found.low < found.estimate < found.high)
            True
        """
        with self._all_ranks(iou_type) as (_, ranked, interpolation, dtype):
            return image_interval(
                ranked, level=level, method=method, interpolation=interpolation, resampling=resampling
            ).to(dtype)

    def compare(
        self,
        other: "UncertainImages",
        *,
        level: float = 0.95,
        method: Literal["bootstrap-percentile", "bootstrap-normal"] = "bootstrap-percentile",
        resampling: Resampling | None = None,
        iou_type: str | None = None,
    ) -> Comparison:
        """Whether this detector beats another on the same images, by the bootstrap over images that both share.

        The estimand is the difference of the limits that the two ``map`` tend to as images are added.

        Args:
            other: a metric of the same class and settings, updated with the same ground truths in the same order.
            level: nominal coverage of the interval, in (0, 1).
            method: "bootstrap-percentile", interval and p-value by counting replicates, of which none is below
                2 / (B + 1); or "bootstrap-normal", from their standard deviation by the normal law. Of two equally
                good detectors on 50 to 300 images both reject 3.8 to 6.3%, within 1, at nominal 5%.
            resampling: None for 1,000 replicates that repeat.
            iou_type: which one, where there are several; default the first.

        Returns:
            :class:`torch_ap.inference.Comparison` of floats, ``value_a`` this metric's; NaN, with a reason, where there
            is no ground truth, and for one image; p = 1 where no image tells the detectors apart.

        Raises:
            ValueError: if the other is not such a metric, and for an argument that breaks one of these rules.

        Example:
            >>> import torch
            >>> from torch_ap.metrics.detection import MeanAveragePrecision
            >>> a, b = MeanAveragePrecision(), MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 3), (0.8, 1), (0.7, 4), (0.6, 2)):
            ...     for metric, further in ((a, 0), (b, 4)):
            ...         found = {"boxes": box + shift + further, "scores": torch.tensor([score]), "labels": label}
            ...         metric.update([found], [{"boxes": box, "labels": label}])
            >>> found = a.compare(b)
            >>> round(found.difference, 3), found.p_value < 0.05
            (0.438, True)
        """
        self._check_comparable(other)
        with self._all_ranks(iou_type) as (mine, first, interpolation, _), other._all_ranks(iou_type) as theirs:
            _check_same_images(mine, theirs[0])
            return compare_images(
                first, theirs[1], level=level, method=method, interpolation=interpolation, resampling=resampling
            )

    def summary(self, level: float = 0.95, *, resampling: Resampling | None = None) -> dict[str, Tensor]:
        """Value, ends of its interval and chance level under names for a logger: 0-d tensors.

        Args:
            level: nominal coverage of the interval, in (0, 1).
            resampling: of the interval and of the chance level; None for 1,000 replicates that repeat.

        Returns:
            ``{"ap", "ap_low", "ap_high", "ap_chance"}`` of the first ``iou_type``; the ends are NaN where no interval
            exists, and all where there is no ground truth.

        Raises:
            ValueError: for a ``level`` outside (0, 1).

        Example:
            >>> import torch
            >>> from torch_ap.metrics.detection import VOCMeanAveragePrecision
            >>> metric = VOCMeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for place in range(20):
            ...     shift, score = (99, 0.4) if place % 4 == 3 else (place % 4, 0.9)
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> {name: round(float(value), 2) for name, value in metric.summary().items()}
            {'ap': 0.75, 'ap_low': 0.55, 'ap_high': 0.95, 'ap_chance': 0.62}
        """
        with self._all_ranks(None) as (_, ranked, interpolation, dtype):
            found = image_interval(ranked, level=level, interpolation=interpolation, resampling=resampling).to(dtype)
            chance = chance_of_images(ranked, interpolation=interpolation, resampling=resampling).to(dtype)
        return {"ap": found.estimate, "ap_low": found.low, "ap_high": found.high, "ap_chance": chance}

    def _check_comparable(self, other: "UncertainImages") -> None:
        """Refuse a metric that measures something else."""
        check_class(self, other, "other")
        if other.device != self.device:
            raise ValueError(f"`other` must lie on the same device, {self.device}, got {other.device}")
        check_settings(_arguments(self._measured), _arguments(other._measured))
        self._check_identity(other.first_violation, "other")


def _arguments(settings: CocoSettings | VocSettings) -> dict[str, Any]:
    """Settings by the names of the class's arguments."""
    thresholds = {"thresholds": "iou_thresholds" if isinstance(settings, CocoSettings) else "iou_threshold"}
    names = _ARGUMENTS | thresholds
    return {names.get(field.name, field.name): getattr(settings, field.name) for field in fields(settings)}


def _check_same_images(mine: Columns, theirs: Columns) -> None:
    """Refuse other ground truths."""
    for name, column in mine.items():
        if name.startswith("ground_truth") or name == "image_sizes":
            same = column.shape == theirs[name].shape and bool((column == theirs[name]).all())
            if not same:
                raise ValueError(
                    f"`other` must have been updated with the same ground truths in the same order; `{name}` differs"
                )
