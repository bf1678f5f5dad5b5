"""Images as a sample, for the uncertainty of the mean average precision of detectors.

Detections are matched once per call; nothing is matched again for a resample. Before a comparison, the images of two
detectors are compared.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import InterpolationRule
from torch_ap.detection.inference.chance import chance_of_images
from torch_ap.detection.inference.comparison import (
    compare_images,
    compare_in_groups,
    compare_lists,
    compare_lists_in_groups,
)
from torch_ap.detection.inference.rankings import ResampledRankings
from torch_ap.detection.inference.resampled import (
    class_intervals,
    group_contributions,
    group_degrees_of_freedom,
    group_interval,
    image_contributions,
    image_interval,
    images_per_list,
    list_replicates,
    without_each_group,
)
from torch_ap.detection.inputs.images import Columns, image_ids
from torch_ap.detection.metrics.matched_images import MatchedImages
from torch_ap.inference.contributions import Contributions
from torch_ap.inference.groups import Groups
from torch_ap.inference.metric import Sample, chance_level_of, comparison_of, interval_of
from torch_ap.inference.record import Comparison, GroupComparison, Interval, group_comparison, join_reasons
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.simultaneous import max_t_level

_COUNTS = "ground_truths_per_image"
_KEYS = {"mask_edges": "masks", "edges_per_mask": "masks", "valid": "area` or `iscrowd"}


def check(mine: Columns, theirs: Columns, my_ids: Tensor | None, their_ids: Tensor | None) -> None:
    """Raise ValueError for images with other ground truths, or in another order.

    Args:
        mine, theirs: the images of this metric and of ``other``.
        my_ids, their_ids: (B,) ids of these images, or None.
    """
    pairs = ((name, mine[name], theirs[name]) for name in _truth_columns(mine))
    other = [name for name, x, y in pairs if x.shape != y.shape or not bool(_alike(x, y).all())]
    if other:
        ids = None if my_ids is None or their_ids is None else (my_ids, their_ids)
        how = _differing_ids(ids) or _differing_counts(mine, theirs, ids) or _differing_column(mine, theirs, other[0])
        raise ValueError(f"`other` must have been updated with the same ground truths in the same order; {how}")


def _truth_columns(columns: Columns) -> list[str]:
    """Return the names of the columns that do not depend on the detections."""
    return [name for name in columns if not name.startswith("detection") and name != "pair_ious"]


def _differing_ids(ids: tuple[Tensor, Tensor] | None) -> str | None:
    """Return a text about images that only one metric has."""
    for whose, one, other in () if ids is None else (("this metric", *ids), ("it", *ids[::-1])):
        alone = one[~torch.isin(one, other)]
        if len(alone):
            return f"{whose} alone has image {int(alone[0])}{f' and {len(alone) - 1:,} more' if len(alone) > 1 else ''}"
    return None


def _differing_counts(mine: Columns, theirs: Columns, ids: tuple[Tensor, Tensor] | None) -> str | None:
    """Return a text about different numbers of images or of ground truths."""
    one, other = mine[_COUNTS], theirs[_COUNTS]
    if len(one) != len(other):
        return f"it has {len(other):,} images, and this metric {len(one):,}"
    if ids is not None and not torch.equal(*ids):
        place = _first(ids[0] != ids[1])
        return f"the image at place {place} is {int(ids[0][place])} here and {int(ids[1][place])} there"
    if not torch.equal(one, other):
        place = _first(one != other)
        return f"the image at place {place} has {int(one[place])} ground truths here and {int(other[place])} there"
    return None


def _differing_column(mine: Columns, theirs: Columns, name: str) -> str:
    """Return a text about a different column, with its first different image if rows belong to images."""
    one, other, key = mine[name], theirs[name], name.removeprefix("ground_truth_").removesuffix("_per_image")
    text = f"`{_KEYS.get(key, key)}` in `target` differs"
    has_rows = name.startswith("ground_truth_") and len(one) == int(mine[_COUNTS].sum())
    if one.shape != other.shape or not (has_rows or len(one) == len(mine[_COUNTS])):
        return text
    row = _first((~_alike(one, other)).flatten(1).any(1) if one.ndim > 1 else ~_alike(one, other))
    return f"{text}, first of the image at place {int(image_ids(mine[_COUNTS])[row]) if has_rows else row}"


def _first(flags: Tensor) -> int:
    return int(flags.nonzero()[0])


def _alike(one: Tensor, other: Tensor) -> Tensor:
    """Return which values are equal, in any dtypes; NaN, the value of unknown boxes, equals NaN."""
    return (one == other) | (one.isnan() & other.isnan())


@dataclass(frozen=True, eq=False)
class ImageSample(Sample):
    """Images, each with its detections and ground truths.

    Attributes:
        columns: the images.
        ranked: the rankings of their matched detections.
        interpolation: interpolation of AP.
        labels: (K,) labels of the classes for an interval per class; None for an interval of their mean.
        class_names: names of these classes, for comparisons.
        image_ids: (B,) ids of the images, or None.
        groups: (B,) int64, the group of each image of ``ranked``, such as its video; None for independent images.
        simultaneous: whether the intervals of the classes contain all values at once.
        replicates: AP of each class in resamples of the images, (resamples, classes), for all intervals and comparisons
            of the classes and of their mean; None for resamples of each call.
    """

    columns: Columns
    ranked: ResampledRankings
    interpolation: InterpolationRule
    labels: Tensor | None = None
    class_names: Sequence[str] = ()
    image_ids: Tensor | None = None
    groups: Tensor | None = None
    simultaneous: bool = False
    replicates: Tensor | None = None

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the interval of ``map``, or of the AP of each class: all IoU thresholds, first area, last limit."""
        options, groups = self._options(confidence_level, resampling), self._image_groups(method)
        each, values = self.labels is not None, self.replicates
        if self.simultaneous:
            checks.one_of("method", method, (None, "bootstrap-logit", "jackknife"))
            if groups is None and values is None:
                (values,) = list_replicates([self.ranked], resampling, self.interpolation)
            options["confidence_level"] = self._joint_level(groups, values, confidence_level, resampling)
        if groups is not None:
            del options["resampling"]
            intervals = group_interval(self.ranked, groups, **options, each_list=each)
        elif not each:
            means = None if values is None else values.nanmean(1)
            method = "bootstrap-basic" if method is None else method
            intervals = image_interval(self.ranked, method=method, **options, values=means)
        else:
            method = "bootstrap-logit" if method is None else method
            intervals = class_intervals(self.ranked, method=method, **options, values=values)
        if self.labels is None:
            return intervals
        names = ("estimate", "low", "high", "standard_error")
        intervals = replace(intervals, **{name: getattr(intervals, name)[: len(self.labels)] for name in names})
        return replace(intervals, confidence_level=confidence_level, method="max-t") if self.simultaneous else intervals

    def _joint_level(
        self, groups: Groups | None, replicates: Tensor | None, confidence_level: float, resampling: Resampling
    ) -> float:
        """Return the level of the interval of a class at which the intervals of all classes hold at once.

        Classes without a spread have no interval and do not count.
        """
        assert self.labels is not None
        if groups is not None:
            rows = without_each_group(self.ranked, groups, self.interpolation, each_list=True)
            has_spread = group_degrees_of_freedom(self.ranked, groups, each_list=True)[0] >= 1
        else:
            assert replicates is not None
            rows, has_spread = replicates.t(), images_per_list(self.ranked) > 1
        has_spread &= rows.nan_to_num(-torch.inf).amax(1) > rows.nan_to_num(torch.inf).amin(1)
        rows = rows[: len(self.labels)][has_spread[: len(self.labels)]]
        return max_t_level(rows, confidence_level, resampling) if len(rows) else confidence_level

    def each_class(self) -> Tensor:
        """Return the (K,) AP of each class, if there are ``labels``; NaN without ground truths."""
        assert self.labels is not None
        every = torch.ones(1, self.ranked.images, dtype=torch.int64, device=self.ranked.image.device)
        return self.ranked.average_precision_of_lists(every, self.interpolation)[0, : len(self.labels)]

    def chance_level(self, resampling: Resampling) -> Tensor:
        """Return the mean of ``map`` over orders of the scores."""
        return chance_of_images(self.ranked, interpolation=self.interpolation, resampling=resampling)

    def compare(
        self, other: "ImageSample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> Comparison:
        """Return the comparison of two detectors on the same images."""
        self.check_images(other)
        options, pair = self._options(confidence_level, resampling), (self.ranked, other.ranked)
        in_groups: dict[str, Any] = {"confidence_level": confidence_level, "interpolation": self.interpolation}
        groups = self._image_groups(method)
        values = None
        if self.replicates is not None and other.replicates is not None:
            values = self.replicates, other.replicates
        if self.labels is None or other.labels is None:
            if groups is not None:
                return compare_in_groups(pair, groups, **in_groups)
            means = None if values is None else (values[0].nanmean(1), values[1].nanmean(1))
            method = "bootstrap-percentile" if method is None else method
            return compare_images(*pair, method=method, **options, values=means)
        has_truths = set(self.ranked.relevant_list.tolist())
        other_places = {label: place for place, label in enumerate(other.labels.tolist())}
        classes = enumerate(zip(self.labels.tolist(), self.class_names, strict=True))
        lists = {name: (k, other_places[label]) for k, (label, name) in classes if k in has_truths}
        if groups is not None:
            return compare_lists_in_groups(pair, lists, groups, **in_groups)
        method = "bootstrap-normal" if method is None else method
        return compare_lists(*pair, lists, method=method, **options, values=values)

    def check_images(self, other: "ImageSample") -> None:
        """Raise ValueError for images with other ground truths, in another order or in other groups."""
        check(self.columns, other.columns, self.image_ids, other.image_ids)
        if (self.groups is None) != (other.groups is None) or not (
            self.groups is None or other.groups is None or torch.equal(self.groups, other.groups)
        ):
            raise ValueError("`other` must have been updated with the same `groups`")

    def _image_groups(self, method: str | None) -> Groups | None:
        """Return the group of each image; None for independent images."""
        if self.groups is None:
            return None
        checks.one_of("method", method, (None, "jackknife"))
        return Groups.from_ids(self.groups)

    def contributions(self, resampling: Resampling) -> Contributions:
        """Return the contributions of resamples of the images to ``map``, or of groups of images."""
        if self.groups is not None:
            return group_contributions(self.ranked, Groups.from_ids(self.groups), interpolation=self.interpolation)
        return image_contributions(self.ranked, interpolation=self.interpolation, resampling=resampling)

    def units(self) -> dict[str, Tensor]:
        """Return the columns of the ground truths, and the ids of the images."""
        ids = {} if self.image_ids is None else {"sample_ids": self.image_ids}
        ids |= {} if self.groups is None else {"groups": self.groups}
        return {name: self.columns[name] for name in _truth_columns(self.columns)} | ids

    def _options(self, confidence_level: float, resampling: Resampling) -> dict[str, Any]:
        """Return the options that intervals and comparisons have in common."""
        return {"confidence_level": confidence_level, "interpolation": self.interpolation, "resampling": resampling}


def share_resamples(samples: Sequence[ImageSample], resampling: Resampling) -> list[ImageSample]:
    """Return samples of the classes of systems over the same images, with the same resamples for all results.

    Images in groups are not resampled, so their samples are unchanged.
    """
    for sample in samples[1:]:
        samples[0].check_images(sample)
    if samples[0].groups is not None:
        return list(samples)
    values = list_replicates([x.ranked for x in samples], resampling, samples[0].interpolation)
    return [replace(sample, replicates=x) for sample, x in zip(samples, values, strict=True)]


@dataclass(frozen=True, eq=False)
class SlicedSample(Sample):
    """Samples of slices of the images, by name.

    Attributes:
        slices: the images of each slice with their matches.
        kept: (B,) bool flags of the images of each slice.
    """

    slices: Mapping[str, ImageSample]
    kept: Mapping[str, Tensor]

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Return the intervals of ``map`` in each slice."""
        intervals = {name: one.interval(confidence_level, method, resampling) for name, one in self.slices.items()}
        every = {x: [getattr(one, x) for one in intervals.values()] for x in Interval._tensors()}
        columns: dict[str, Any] = {x: torch.stack(values) for x, values in every.items()}
        reason = join_reasons({name: one.reason for name, one in intervals.items()})
        return replace(next(iter(intervals.values())), **columns, reason=reason)

    def compare(
        self, other: "SlicedSample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> GroupComparison:
        """Return the comparison of two detectors in the same slices."""
        if any(not torch.equal(kept, other.kept[name]) for name, kept in self.kept.items()):
            raise ValueError("`other` must have been updated with the same `sample_ids` in the same order")
        comparisons = {
            name: one.compare(other.slices[name], confidence_level, method, resampling)
            for name, one in self.slices.items()
        }
        first = next(iter(comparisons.values()))
        settings = {name: getattr(first, name) for name in ("confidence_level", "method", "design")}
        return group_comparison(comparisons, **settings)

    def chance_level(self, resampling: Resampling) -> Tensor:
        """Return the (S,) means of ``map`` over orders of the scores of each slice."""
        return torch.stack([one.chance_level(resampling) for one in self.slices.values()])


@renamed_keywords(batch="chunk_size")
def confidence_interval(
    self: MatchedImages,
    confidence_level: float = 0.95,
    method: str | None = None,
    *,
    iou_type: str | None = None,
    per_class: bool = False,
    slices: Mapping[str, Any] | None = None,
    groups: Mapping[int, Hashable] | None = None,
    simultaneous: bool = False,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    """Return a confidence interval of ``map`` by the bootstrap over images: all IoU thresholds, first area, last limit.

    Images are drawn with all their detections and ground truths. A resample is a count of each image; nothing is
    matched or sorted again. Its mAP is the mAP of a data set that repeats each image as often, provided that no two
    detections of one class and image have equal scores. Classes without ground truths in a resample do not count in it.

    The estimand is the limit of ``map`` as images are added, not its mean over sets of this size. For few images or
    rare classes the coverage of every method is below its nominal level; "bootstrap-basic" comes closest. The measured
    figures are in :func:`torch_ap.detection.inference.resampled.image_interval`. ``reason`` mentions fewer than 10
    images.
    For the rest see :func:`torch_ap.inference.metric.confidence_interval`.

    Args:
        confidence_level, method, n_resamples, generator, chunk_size, progress: as there.
        iou_type: one of several ``iou_type``; default the first.
        per_class: whether to return intervals of the AP of each class over all IoU thresholds, (K,) in the order of
            ``classes``. The default method is then "bootstrap-logit", with the coverage of
            :func:`torch_ap.detection.inference.resampled.class_intervals`.
        slices: as for ``per_slice``, for intervals of ``map`` in each slice, (S,), with resamples of its images. Not
            with ``per_class``.
        groups: the group of each image, such as its video, scene or patient, by image: the ``sample_ids`` of
            ``update``, or without them the number of the image. Images of a group may depend on each other. The method
            is the jackknife of ``torch_ap.detection.inference.resampled.group_interval``. None for the ``groups`` of
            ``update``, if any.
        simultaneous: with ``per_class``, whether the confidence level is the probability that the intervals of all
            classes contain their values at once. The method of the result is "max-t", see
            :mod:`torch_ap.inference.simultaneous`; the single intervals are "bootstrap-logit", or the jackknife with
            groups. Classes without an interval do not count.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
        >>> for score, shift in ((0.9, 0), (0.8, 30), (0.7, 4), (0.6, 2)):
        ...     pred = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
        ...     metric.update([pred], [{"boxes": box, "labels": label}])
        >>> interval = metric.confidence_interval(n_resamples=200)
        >>> bool(interval.low < interval.estimate < interval.high)
        True
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    options = _options(iou_type, per_class, slices, groups)
    checks.boolean("simultaneous", simultaneous)
    if simultaneous and not per_class:
        raise ValueError("`simultaneous` requires `per_class=True`")
    return interval_of(self, confidence_level, method, resampling, **options, simultaneous=simultaneous)


@renamed_keywords(batch="chunk_size")
def compare(
    self: MatchedImages,
    other: MatchedImages,
    *,
    confidence_level: float = 0.95,
    method: str | None = None,
    iou_type: str | None = None,
    per_class: bool = False,
    slices: Mapping[str, Any] | None = None,
    groups: Mapping[int, Hashable] | None = None,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Comparison:
    """Compare this detector with another on the same images: its ``map`` minus the other ``map``.

    The method is the bootstrap over images, with the same resamples for both. The estimand is the difference of the
    limits of the two ``map`` as images are added. For the rest see :func:`torch_ap.inference.metric.compare`.

    Args:
        other, confidence_level, method, n_resamples, generator, chunk_size, progress: as there.
        iou_type: one of several ``iou_type``; default the first.
        per_class: whether to compare the AP of each class with ground truths, over all IoU thresholds. The default
            method is then "bootstrap-normal": interval and p-value from the standard deviation over resamples, by
            Student's t with one degree of freedom less than images that contain the class.
        slices: as for ``per_slice``, to compare ``map`` in each slice. Not with ``per_class``.
        groups: as for :meth:`confidence_interval`.

    Returns:
        As there; with ``per_class`` or ``slices`` a :class:`torch_ap.inference.GroupComparison` of (K,) or (S,)
        tensors, with ``names``. ``p_value`` is the p-value of each alone. ``adjusted_p_value`` allows for their number
        by Holm's method: if all of at most 5% are called real, the probability of any error is at most 5%. No p-value
        is below 2^(1 - n), the p-value of the two-sided sign test of n images that contribute; ``reason`` mentions
        this limit where it applies.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> a, b = MeanAveragePrecision(), MeanAveragePrecision()
        >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
        >>> for score, shift in ((0.9, 3), (0.8, 1), (0.7, 4), (0.6, 2)):
        ...     for metric, further in ((a, 0), (b, 4)):
        ...         pred = {"boxes": box + shift + further, "scores": torch.tensor([score]), "labels": label}
        ...         metric.update([pred], [{"boxes": box, "labels": label}])
        >>> result = a.compare(b)
        >>> round(float(result.difference), 3), round(float(result.p_value), 3)
        (0.438, 0.125)
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    options = _options(iou_type, per_class, slices, groups)
    return comparison_of(self, other, confidence_level, method, resampling, **options)


@renamed_keywords(batch="chunk_size")
def chance_level(
    self: MatchedImages,
    *,
    iou_type: str | None = None,
    slices: Mapping[str, Any] | None = None,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Tensor:
    """Return the mean of ``map`` over all orders of the scores of each class's detections.

    Detections remain true or false positives at each IoU threshold; only their scores are permuted. The level is the
    part of ``map`` due to the boxes; the rest is due to the scores. It is not the mAP of random boxes, which is about
    0. The mean of interpolated AP has no closed form: the mean of the plain sum is exact, and the contribution of the
    interpolation is a mean over random orders.

    Args:
        iou_type: one of several ``iou_type``; default the first.
        slices: as for ``per_slice``, for the chance level of ``map`` in each slice.
        n_resamples, generator, chunk_size, progress: for the random orders, as for :meth:`confidence_interval`.

    Returns:
        0-d, or (S,), in the dtype of ``compute()``; NaN without ground truths.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
        >>> for score, shift in ((0.9, 0), (0.8, 0), (0.7, 200), (0.6, 200)):
        ...     pred = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
        ...     metric.update([pred], [{"boxes": box, "labels": label}])
        >>> round(float(metric.compute()["map"]), 2), round(float(metric.chance_level()), 2)
        (0.5, 0.36)
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    return chance_level_of(self, resampling, iou_type=iou_type, slices=slices)


def _options(
    iou_type: str | None, per_class: bool, slices: Any, groups: Mapping[int, Hashable] | None = None
) -> dict[str, Any]:
    """Return the validated arguments that only metrics of images have."""
    checks.boolean("per_class", per_class)
    if per_class and slices is not None:
        raise ValueError("`per_class` must be False with `slices`: one of them can be given")
    return {"iou_type": iou_type, "per_class": per_class, "slices": slices, "groups": groups}
