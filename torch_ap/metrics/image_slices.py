"""Slices of the images of a detection metric: every number of each, from one matching."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.inference.difference import GroupComparison, of_groups, reasons
from torch_ap.inference.interval import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inputs import samples
from torch_ap.inputs import slices as slices_of
from torch_ap.inputs.detections import Columns
from torch_ap.matching.matched import Matches
from torch_ap.metrics.image_sample import ImageSample, UncertainImages
from torch_ap.metrics.uncertainty import Sample

_TOGETHER = 10  # slices at most, whose tables take that many times the memory of one

ValuesIn: TypeAlias = Callable[[Tensor], tuple[Matches, dict[str, Tensor]]]


@dataclass(frozen=True, eq=False)
class SlicedSample(Sample):
    """Samples of some of the images each, by name.

    Attributes:
        slices: what matching found in all images, of those of the slice.
        kept: (B,) bool, which images these are.
    """

    slices: Mapping[str, ImageSample]
    kept: Mapping[str, Tensor]

    def interval(self, confidence_level: float, method: str | None, resampling: Resampling) -> Interval:
        """Of ``map`` in each slice."""
        found = {name: one.interval(confidence_level, method, resampling) for name, one in self.slices.items()}
        every = {x: [getattr(one, x) for one in found.values()] for x in Interval._tensors()}
        columns: dict[str, Any] = {x: torch.stack(values) for x, values in every.items()}
        reason = reasons({name: one.reason for name, one in found.items()})
        return replace(next(iter(found.values())), **columns, reason=reason)

    def compare(
        self, other: "SlicedSample", confidence_level: float, method: str | None, resampling: Resampling
    ) -> GroupComparison:
        """Of two detectors in the same slices."""
        if any(not torch.equal(kept, other.kept[name]) for name, kept in self.kept.items()):
            raise ValueError("`other` must have been updated with the same `sample_ids` in the same order")
        found = {
            name: one.compare(other.slices[name], confidence_level, method, resampling)
            for name, one in self.slices.items()
        }
        first = next(iter(found.values()))
        settings = {name: getattr(first, name) for name in ("confidence_level", "method", "design")}
        return of_groups(found, **settings)

    def chance_level(self, resampling: Resampling) -> Tensor:
        """(S,) the mean of ``map`` over orders of the scores of each."""
        return torch.stack([one.chance_level(resampling) for one in self.slices.values()])


class SlicedImages(UncertainImages):
    """Abstract: a detection metric that knows its images by their ids, or by their places."""

    sample_ids: list[Tensor]

    def _columns(self) -> Columns:
        """All images so far."""
        raise NotImplementedError

    def _image_ids(self) -> Tensor:
        """(B,) int64, their ids, or their places where updates gave none."""
        raise NotImplementedError

    def _values_in(self, columns: Columns, iou_type: str | None) -> ValuesIn:
        """What gives the matches in slices, (S, B) bool, and every number of them, (S, ...); for concrete classes."""
        raise NotImplementedError

    def _members(self, slices: Any, columns: Columns) -> dict[str, Tensor]:
        """The images of each slice, (B,) bool."""
        count = len(columns["detections_per_image"])
        places = f"be places of the {count} images, from 0"
        rule = f"be `{samples.STATE}` of updates" if len(self.sample_ids) else places
        return slices_of.members(slices, self._image_ids(), rule)

    def per_slice(self, slices: Mapping[str, Any], iou_type: str | None = None) -> dict[str, Any]:
        """A table with one row per slice of the images: by day and by night, by city, by camera.

        A slice has the numbers of a metric that has seen its images alone; no detection is matched again. With LVIS's
        ``fixed`` the detections of a class that count are the best ones of all images, not of the slice. A class that
        has ground truths only elsewhere is undefined in it, and has no part in its means.

        Args:
            slices: names to the images of each, once each: the ``sample_ids`` that were given to ``update``, or, where
                none were, places from 0 on in the order of updates, over ranks in their order. An image may belong to
                any number of slices, or to none; a slice may be empty. The same on every rank.
            iou_type: which one, where there are several; default the first.

        Returns:
            Columns of one length: ``slice``, the names; ``images``, ``ground_truths`` (those that count) and
            ``detections``, int64; and every number of ``compute()`` by its name there, float64, undefined as there.

        Raises:
            TypeError, ValueError: for slices that are none, and for images that are not there, naming slice and image.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for image, shift in enumerate((0, 0, 30, 2)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([0.9]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}], torch.tensor([100 + image]))
            >>> table = metric.per_slice({"day": [100, 101], "night": [102, 103]})
            >>> table["slice"], table["map_50"].tolist()
            (['day', 'night'], [1.0, 0.2524752475247525])
        """
        with self._all_ranks():
            columns = self._columns()
            kept = self._members(slices, columns)
            values_in, found = self._values_in(columns, iou_type), []
            for flags in _together(list(kept.values())):
                matches, values = values_in(flags)
                counts = matches.relevant[0], matches.edges.diff()
                truths, detections = (count.view(len(flags), -1).sum(1) for count in counts)
                found.append({"images": flags.sum(1), "ground_truths": truths, "detections": detections, **values})
        return {"slice": list(kept), **{name: torch.cat([part[name] for part in found]) for name in found[0]}}


def _together(kept: Sequence[Tensor]) -> Iterator[Tensor]:
    """(S, B) bool of slices that are looked at together, which have no more images than there are, or are one slice."""
    sizes, first, images = [int(flags.sum()) for flags in kept], 0, 0
    for place, size in enumerate(sizes):
        if place > first and (place - first == _TOGETHER or images + size > len(kept[place])):
            yield torch.stack(list(kept[first:place]))
            first, images = place, 0
        images += size
    yield torch.stack(list(kept[first:]))
