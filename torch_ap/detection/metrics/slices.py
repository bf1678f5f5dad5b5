"""Slices of the images of a detection metric as samples, from one matching."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.detection.metrics.image_sample import ImageSample
from torch_ap.inference.metric import Sample
from torch_ap.inference.record import GroupComparison, Interval, group_comparison, join_reasons
from torch_ap.inference.resampling import Resampling


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
