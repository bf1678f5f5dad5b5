"""Tables of classes, images and slices: methods of the detection metrics."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import label_names
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.detection.errors.images import per_image as rows_of
from torch_ap.detection.metrics.image_sample import confidence_interval
from torch_ap.detection.metrics.matched_images import MatchedImages

_MAX_SLICES = 10  # of one group, whose tables take as many times the memory of one slice


@renamed_keywords(batch="chunk_size")
def per_class(
    self: MatchedImages,
    iou_threshold: float | None = None,
    score_threshold: float = float("-inf"),
    iou_type: str | None = None,
    *,
    interval: bool = False,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Return a table with one row per class.

    Args:
        iou_threshold: one of the IoU thresholds, for the counts ``tp`` and ``fp``; default 0.5, or the lowest
            without it.
        score_threshold: the lowest score for these counts.
        iou_type: one of several ``iou_type``; default the first.
        interval: whether to add the ends of the interval of each AP by ``confidence_interval(per_class=True)``.
        confidence_level, n_resamples, generator, chunk_size, progress: as for :meth:`confidence_interval`.

    Returns:
        Columns of one length, in the order of ``classes``: ``class``; ``name``, the label if it has no name; ``ap``,
        float64, over all IoU thresholds; ``ground_truths`` that count; ``detections``; ``tp`` and ``fp``. COCO's and
        LVIS's rules add ``ap_50``, ``ap_75`` and ``ar``. For a class without ground truths these and ``ap`` are -1;
        by other rules ``ap`` is NaN. With ``interval`` also ``ap_low`` and ``ap_high``, NaN for such a class.

    Raises:
        TypeError, ValueError: for a threshold that the metric does not have, and another invalid argument.

    Example:
        >>> import torch
        >>> from torch_ap import VOCMeanAveragePrecision
        >>> metric = VOCMeanAveragePrecision(class_names=["cat", "dog"])
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes[:1], "labels": torch.tensor([0])}])
        >>> table = metric.per_class(score_threshold=0.5)
        >>> table["name"], table["ap"], table["tp"], table["fp"]
        (['cat'], tensor([1.], dtype=torch.float64), tensor([1]), tensor([1]))
    """
    place, score = self._threshold_index(iou_threshold), checks.number("score_threshold", score_threshold)
    checks.boolean("interval", interval)
    with self._all_ranks():
        matches, labels, values = self._class_values(self._columns(), iou_type)
    tp, fp = matches.counts_at(0, place, score)
    truths, detections = matches.relevant[0].clone(), matches.edges.diff()
    columns = {**values, "ground_truths": truths, "detections": detections, "tp": tp, "fp": fp}
    table: dict[str, Any] = {"class": labels.clone(), "name": label_names(labels, self._class_names)}
    table |= {name: column[: len(labels)] for name, column in columns.items()}
    if not interval:
        return table
    ends = confidence_interval(
        self,
        confidence_level,
        iou_type=iou_type,
        per_class=True,
        n_resamples=n_resamples,
        generator=generator,
        chunk_size=chunk_size,
        progress=progress,
    )
    return table | {"ap_low": ends.low, "ap_high": ends.high}


def per_image(
    self: MatchedImages,
    iou_threshold: float | None = None,
    score_threshold: float = float("-inf"),
    iou_type: str | None = None,
) -> dict[str, Tensor]:
    """Return a table with one row per image, for example to find the worst images.

    Args:
        iou_threshold: one of the IoU thresholds, for ``f1``, ``tp``, ``fp`` and ``missed``;
            default 0.5, or the lowest without it.
        score_threshold: the lowest score for these counts.
        iou_type: one of several ``iou_type``; default the first.

    Returns:
        (B,) columns in the order of the images: ``image``, its ``sample_ids`` or its position; ``ap``, float64, ``map``
        of this image alone, over all IoU thresholds and the classes in the image, NaN without ground truths; ``f1``,
        float64, 2 tp / (2 tp + fp + missed), NaN for an empty image without detections; ``tp``, ``fp`` and
        ``missed``, int64. Classes are separate, also with ``average="micro"``. With LVIS's ``ap_fixed`` the detections
        that count among all images are used.

    Raises:
        ValueError: for a threshold that the metric does not have.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
        >>> for score, shift in ((0.9, 0), (0.8, 30)):
        ...     pred = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
        ...     metric.update([pred], [{"boxes": box, "labels": label}])
        >>> table = metric.per_image()
        >>> table["ap"], table["missed"]
        (tensor([1., 0.], dtype=torch.float64), tensor([0, 1]))
    """
    score = checks.number("score_threshold", score_threshold)
    with self._all_ranks():
        at = self._matches_at(iou_threshold, iou_type, class_names={})
        ids = self._image_ids(at.columns)
    return {"image": ids.clone(), **rows_of(at, score)}


def per_slice(self: MatchedImages, slices: Mapping[str, Any], iou_type: str | None = None) -> dict[str, Any]:
    """Return a table with one row per slice of the images, for example by day and by night, by city, by camera.

    A slice has the numbers of a metric of its images alone; no detection is matched again. With LVIS's ``ap_fixed`` the
    best detections of a class are chosen from all images, not from the slice. A class without ground truths in a slice
    is undefined there and does not count in its means.

    Args:
        slices: the images of each slice by name, without repetition: the ``sample_ids`` of ``update``, or without them
            positions from 0 in the order of updates, over processes in their order. An image may belong to any
            number of slices; a slice may be empty. Every process passes the same slices.
        iou_type: one of several ``iou_type``; default the first.

    Returns:
        Columns of one length: ``slice``, the names; ``images``, counted ``ground_truths`` and ``detections``, int64;
        and every number of ``compute()`` by its name, float64.

    Raises:
        TypeError, ValueError: for invalid slices and unknown images, with the names of slice and image.

    Example:
        >>> import torch
        >>> from torch_ap import MeanAveragePrecision
        >>> metric = MeanAveragePrecision()
        >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
        >>> for image, shift in enumerate((0, 0, 30, 2)):
        ...     pred = {"boxes": box + shift, "scores": torch.tensor([0.9]), "labels": label}
        ...     metric.update([pred], [{"boxes": box, "labels": label}], torch.tensor([100 + image]))
        >>> table = metric.per_slice({"day": [100, 101], "night": [102, 103]})
        >>> table["slice"], table["map_50"].tolist()
        (['day', 'night'], [1.0, 0.2524752475247525])
    """
    with self._all_ranks():
        columns = self._columns()
        kept = self._image_flags(slices, columns)
        values_in, tables = self._values_in(columns, iou_type), []
        for flags in _together(list(kept.values())):
            matches, values = values_in(flags)
            counts = matches.relevant[0], matches.edges.diff()
            truths, detections = (count.view(len(flags), -1).sum(1) for count in counts)
            tables.append({"images": flags.sum(1), "ground_truths": truths, "detections": detections, **values})
    return {"slice": list(kept), **{name: torch.cat([table[name] for table in tables]) for name in tables[0]}}


def _together(kept: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield (S, B) bool flags of groups of slices: one slice, or slices with at most B images in all."""
    sizes, first, images = [int(flags.sum()) for flags in kept], 0, 0
    for place, size in enumerate(sizes):
        if place > first and (place - first == _MAX_SLICES or images + size > len(kept[place])):
            yield torch.stack(list(kept[first:place]))
            first, images = place, 0
        images += size
    yield torch.stack(list(kept[first:]))
