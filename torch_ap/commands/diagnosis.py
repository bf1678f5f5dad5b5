"""Why detections match no ground truth: what is likely wrong with the files, where a number would be 0 without a word.

Nothing here changes a number. What is said of boxes is read off the first images, up to 2,000,000 pairs of a detection
and a ground truth.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.detection import boxes
from torch_ap.core.messages import shown
from torch_ap.functional.matching import ragged_box_iou

_PAIRS = 2_000_000
_OVERLAP = 0.5
_SLACK = 2.0  # pixels that a box may stand out of its image
_READINGS = {"xyxy": "x1 y1 x2 y2", "xywh": "x y width height", "cxcywh": "centre x, centre y, width, height"}


@dataclass(frozen=True)
class Evidence:
    """What was read.

    Attributes:
        preds, target: packed images with boxes; or lists of dicts, of which the labels alone are looked at.
        class_names: of labels.
        box_format: of both.
        given: the format in which the file of detections was read; None where it can be no other.
        sizes: (B, 2) width and height of each image, NaN where they are not known; or None.
    """

    preds: Any
    target: Any
    class_names: Mapping[int, str]
    box_format: str = "xyxy"
    given: str | None = "xyxy"
    sizes: Tensor | None = None


def causes(evidence: Evidence) -> Iterator[str]:
    """What is likely wrong, a sentence each; nothing where detections can match, or where there is none."""
    found, true = _labels(evidence.preds), _labels(evidence.target)
    if not len(true):
        yield "the ground truths hold no object, so that no detection can match"
    if not len(true) or not len(found):
        return
    if not bool(torch.isin(found, true).any()):
        yield _other_classes(
            *([evidence.class_names[x] for x in torch.unique(labels).tolist()] for labels in (found, true))
        )
        return
    if isinstance(evidence.preds, Mapping):
        yield from _of_boxes(_Sample(evidence), evidence.given)


def _labels(images: Any) -> Tensor:
    if isinstance(images, Mapping):
        labels: Tensor = images["labels"]
        return labels
    return torch.cat([image["labels"] for image in images]) if len(images) else torch.empty(0, dtype=torch.int64)


def _other_classes(found: Sequence[str], true: Sequence[str]) -> str:
    """No class in common."""
    why = ""
    if {x.casefold() for x in found} & {x.casefold() for x in true}:
        why = "; they differ in upper and lower case"
    elif {"ids", "names"} == {_kind(found), _kind(true)}:
        why = "; class ids here, names there"
    ours, theirs = (shown(", ".join(names)) for names in (found, true))
    return f"no class of the detections ({ours}) is one of the ground truths ({theirs}), so that none can match{why}"


def _kind(classes: Sequence[str]) -> str:
    ids = sum(name.isdecimal() for name in classes)
    return "names" if not ids else "ids" if ids == len(classes) else "both"


class _Sample:
    """Boxes of the first images, and how well a reading of the detections fits them."""

    def __init__(self, evidence: Evidence) -> None:
        self.counts = [side["counts"] for side in (evidence.preds, evidence.target)]
        images = int(((self.counts[0] * self.counts[1]).cumsum(0) <= _PAIRS).sum())
        self.of = "" if images == len(self.counts[0]) else f" of the first {images} images"
        self.counts = [counts[:images] for counts in self.counts]
        rows = [int(counts.sum()) for counts in self.counts]
        self.labels = [side["labels"][:n] for side, n in zip((evidence.preds, evidence.target), rows, strict=True)]
        self.truths = boxes.to_xyxy(evidence.target["boxes"][: rows[1]], evidence.box_format)
        corners = boxes.to_xyxy(evidence.preds["boxes"][: rows[0]], evidence.box_format)
        self.numbers = _as(corners, evidence.given or "xyxy")
        self.sizes = None
        if evidence.sizes is not None:
            self.sizes = evidence.sizes[:images].repeat_interleave(self.counts[0], 0)

    def overlapping(self, reading: str) -> tuple[float, float]:
        """The shares of detections that overlap by half a ground truth of their image, and one of their class too."""
        corners = boxes.to_xyxy(self.numbers, reading)
        found, true, _ = ragged_box_iou(corners, self.truths, *self.counts, least=_OVERLAP)
        same = self.labels[0][found] == self.labels[1][true]
        total = max(1, len(corners))
        return len(torch.unique(found)) / total, len(torch.unique(found[same])) / total

    def inside(self, reading: str) -> float:
        """The share of detections that have no negative size, and lie in their images as far as these are known."""
        corners = boxes.to_xyxy(self.numbers, reading)
        low, high = corners[:, :2], corners[:, 2:]
        good = (low <= high) & (low >= -_SLACK)
        if self.sizes is not None:
            good &= ~(high > self.sizes + _SLACK)
        return float(good.all(1).double().mean()) if len(good) else 1.0

    def touching(self, reading: str) -> bool:
        """Whether any detection overlaps a ground truth of its image at all."""
        corners = boxes.to_xyxy(self.numbers, reading)
        return bool((ragged_box_iou(corners, self.truths, *self.counts)[2] > 0).any())


def _as(corners: Tensor, box_format: str) -> Tensor:
    """Corners as numbers of a format."""
    low, high = corners[:, :2], corners[:, 2:]
    if box_format == "xyxy":
        return corners
    return torch.cat([low if box_format == "xywh" else (low + high) / 2, high - low], 1)


def _of_boxes(sample: _Sample, given: str | None) -> Iterator[str]:
    """Boxes in another format, of other units, or of other classes."""
    read = given or "xyxy"
    if not len(sample.numbers) or not len(sample.truths):
        return
    overlap, of_class = sample.overlapping(read)
    inside = sample.inside(read)
    fit = {reading: (sample.overlapping(reading)[0], sample.inside(reading)) for reading in _READINGS}
    best = max(fit, key=lambda reading: fit[reading])
    better = fit[best]
    if given and better[0] >= 0.1 and overlap < better[0] / 4:
        yield (
            f"{overlap:.0%} of the detections{sample.of} overlap a ground truth of their image by half; read as "
            f"{_READINGS[best]} instead of {_READINGS[read]}, {better[0]:.0%} would: are the boxes in another format?"
        )
    elif bool((sample.numbers.abs() <= 2).all()) and float(sample.truths.max()) > 2:
        yield "the boxes of the detections are fractions, as of the image's size, and those of the ground truths pixels"
    elif inside < 0.1 or (given and inside < 0.7 and max(x for _, x in fit.values()) > 0.98):
        yield f"{inside:.0%} of the detections{sample.of} lie inside their images: are the boxes in another format?"
    elif overlap >= 0.1 and of_class < overlap / 10:
        yield (
            f"{overlap:.0%} of the detections{sample.of} overlap a ground truth of their image by half, but "
            f"{of_class:.0%} one of their own class: are the class ids counted from another number?"
        )
    elif not overlap and not sample.touching(read):
        yield f"no detection{sample.of} overlaps a ground truth of its image at all: are these the right files?"
