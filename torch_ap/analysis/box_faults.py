"""Why boxes of detections match no ground truth: what is likely wrong with them, where a number would silently be 0.

Nothing here changes a number. What is said is read off the first images, up to 2,000,000 pairs of a detection and a
ground truth, and other encodings are tried on up to 40,000.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from torch_ap.analysis.encodings import CORNERS, OVERLAP, PLAIN, READINGS, SOME, Encoding, Fit, Side, better
from torch_ap.analysis.overlaps import overlaps
from torch_ap.geometry import boxes

_HITS = 5  # ground truths of a neighbouring image, of so few nothing is said
_OF_LABEL = 3  # overlaps of a label that show a step
_MOST = 0.75  # of the overlaps are of the same step
_CLEAR = 0.5  # of the best detections fit in an encoding, and SOME of the ground truths, unless it is a poor detector
_FRACTION = 2.0  # no box of pixels is that small, and detectors may place boxes over the image's edge
_EDGE = 0.1  # by which fractions leave their image
_PIXELS = 10.0  # most boxes of pixels reach that far; raw outputs do not
_PARTS = {1.0: "fractions", 100.0: "percent", 1000.0: "thousandths"}
_SLACK = 2.0  # pixels that a box may stand out of its image


@dataclass(frozen=True)
class Evidence:
    """What was read.

    Attributes:
        preds, target: packed images on CPU; without boxes nothing is said of them.
        sizes: (B, 2) width and height of each image, NaN where they are not known; or None.
        box_format: of ``preds`` and ``target``.
        given: how the detections were written.
        remedy: what to do where they were written in another way.
        true: how the ground truths were written.
        remedy_of_both: what to do where those were written in another way.
        option: the option that says the format of the detections alone; "" where there is none.
        sure: whether nothing is said that poor detectors show too: boxes that lie elsewhere, wrong classes, an encoding
            in which fewer than half would fit; and images are told by their order, not by ids.
        pairs: how many of a detection and a ground truth are looked at.
    """

    preds: Any
    target: Any
    sizes: Tensor | None = None
    box_format: str = "xyxy"
    given: Encoding = CORNERS
    remedy: str = "write the boxes as x1 y1 x2 y2 in pixels"
    true: Encoding = CORNERS
    remedy_of_both: str = "write both files in the same units and the format that is asked for"
    option: str = ""
    sure: bool = False
    pairs: int = 2_000_000


class _Sample:
    """Boxes of the first images, and how well they fit as they were read."""

    def __init__(self, evidence: Evidence) -> None:
        counts = [side["counts"] for side in (evidence.preds, evidence.target)]
        self.most = evidence.pairs
        images = int(((counts[0] * counts[1]).cumsum(0) <= self.most).sum())
        self.of = "" if images == len(counts[0]) else f" of the first {images} images"
        self.counts = counts = [each[:images] for each in counts]
        rows = [int(each.sum()) for each in counts]
        self.labels = [side["labels"][:n] for side, n in zip((evidence.preds, evidence.target), rows, strict=True)]
        self.scores = evidence.preds["scores"][: rows[0]].to(torch.float64)
        self.corners = [
            boxes.to_xyxy(side["boxes"][:n], evidence.box_format)
            for side, n in zip((evidence.preds, evidence.target), rows, strict=True)
        ]
        nowhere = torch.full((len(counts[0]), 2), float("nan"), dtype=torch.float64)
        known = nowhere if evidence.sizes is None else evidence.sizes[:images]
        self.sizes = [known.repeat_interleave(each, 0) for each in counts]
        self.found, self.true, self.iou = overlaps(self.corners, counts)

    def overlapping(self) -> tuple[float, float]:
        """The shares of detections that overlap by half a ground truth of their image, and one of their class too."""
        by_half = self.iou >= OVERLAP
        same = by_half & (self.labels[0][self.found] == self.labels[1][self.true])
        total = max(1, len(self.labels[0]))
        return len(torch.unique(self.found[by_half])) / total, len(torch.unique(self.found[same])) / total

    def inside(self) -> float:
        """The share of detections that have no negative size, and lie in their images as far as these are known."""
        low, high = self.corners[0][:, :2], self.corners[0][:, 2:]
        good = (low <= high) & (low >= -_SLACK) & ~(high > self.sizes[0] + _SLACK)
        return float(good.all(1).double().mean()) if len(good) else 1.0

    def of_neighbours(self) -> tuple[int, int, int]:
        """How many ground truths a detection of their class overlaps by half: one of their own image, of the image
        before theirs, and of the image after.
        """
        own, before, after = (
            self._hit(*(functional.pad(x, ends) for x, ends in zip(self.counts, ends_of, strict=True)))
            for ends_of in (((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, 1), (1, 0)))
        )
        return own, before, after

    def _hit(self, found: Tensor, true: Tensor) -> int:
        if int((found * true).sum()) > 2 * self.most:
            return 0
        d, g, _ = overlaps(self.corners, (found, true), OVERLAP)
        return len(torch.unique(g[self.labels[0][d] == self.labels[1][g]]))

    def shifted(self) -> str:
        """Whose ground truths the detections find, if clearly those of the next image or of the one before."""
        own, before, after = self.of_neighbours()
        most, total = max(before, after), len(self.labels[1])
        clear = most >= max(_HITS, SOME * total) and 4 * max(own, min(before, after)) <= most
        return ("next" if before > after else "previous") if clear else ""

    def label_step(self) -> int:
        """What the labels of detections are above those of what they overlap by half; 0 if not clear, for two at least.

        Detectors that know no classes, or one, give no such step.
        """
        by_half = self.iou >= OVERLAP
        found, step = self.labels[0][self.found[by_half]], self.labels[1][self.true[by_half]]
        step = found - step
        if not len(step):
            return 0
        usual = step.mode().values
        place = torch.unique(found, return_inverse=True)[1]
        every, moved = place.bincount(), place[step == usual].bincount(minlength=int(place.max()) + 1)
        clear = int(moved.sum()) >= _MOST * len(step) and int(((2 * moved >= every) & (moved >= _OF_LABEL)).sum()) > 1
        return int(usual) if clear else 0

    def touching(self) -> bool:
        """Whether any detection overlaps a ground truth of its image at all."""
        return bool((self.iou > 0).any())

    def fit(self, given: Encoding, true: Encoding) -> Fit | None:
        """An encoding that fits clearly better than those in which the files were read."""
        found = Side.of(self.corners[0], self.counts[0], self.sizes[0], given, self.scores)
        truths = Side.of(self.corners[1], self.counts[1], self.sizes[1], true)
        by_half = torch.zeros(len(self.scores), dtype=torch.bool)
        by_half[self.found[self.iou >= OVERLAP]] = True
        return better(found, truths, by_half)

    def clear(self, fit: Fit) -> bool:
        """Whether so many fit in an encoding as those of a good detector do."""
        found, true = (each[: fit.images] for each in self.counts)
        hits = fit.after * float(torch.minimum(found, true).sum())
        return fit.after >= _CLEAR and hits >= SOME * float(true.sum())


def causes(evidence: Evidence) -> Iterator[str]:
    """What is likely wrong, one sentence: boxes in another encoding, of other images, or of other classes."""
    sample = _Sample(evidence)
    if not all(map(len, sample.corners)):
        return
    fit = sample.fit(evidence.given, evidence.true)
    overlap, of_class = sample.overlapping()
    inside, sure = sample.inside(), evidence.sure
    if fit and (not sure or sample.clear(fit)):
        yield _said(fit, evidence)
    elif _fractions(sample.corners[0]) and _pixels(sample.corners[1]):
        yield "the boxes of the detections are fractions, as of the image's size, and those of the ground truths pixels"
    elif _fractions(sample.corners[1]) and _pixels(sample.corners[0]):
        yield "the boxes of the ground truths are fractions, as of the image's size, and those of the detections pixels"
    elif next_to := sample.shifted():
        yield (
            f"the detections{sample.of} overlap ground truths of the {next_to} image by half, and hardly any of their "
            f"own: are {'both in the same order' if sure else 'the image ids counted from another number'}?"
        )
    elif inside < 0.1 and not sure:
        yield f"{inside:.0%} of the detections{sample.of} lie inside their images: are the boxes in another format?"
    elif overlap >= 0.1 and of_class < overlap / 4 and (step := sample.label_step()):
        yield f"{_by_class(sample, overlap, of_class)} Most are {abs(step)} {'above' if step > 0 else 'below'} theirs"
    elif overlap >= 0.1 and of_class < overlap / 10 and not sure:
        yield _by_class(sample, overlap, of_class)
    elif not sure and not sample.touching():
        yield f"no detection{sample.of} overlaps a ground truth of its image at all: are these the right files?"


def _by_class(sample: _Sample, overlap: float, of_class: float) -> str:
    return (
        f"{overlap:.0%} of the detections{sample.of} overlap a ground truth of their image by half, but "
        f"{of_class:.0%} one of their own class: are the class ids counted from another number?"
    )


def _fractions(corners: Tensor) -> bool:
    """Whether boxes are in parts of a side, and neither points nor a network's raw outputs, which are around 0."""
    if bool((corners.abs() > _FRACTION).any()):
        return False
    inside = (corners[:, 2:] > corners[:, :2]).all(1) & (corners > -_EDGE).all(1)
    return float(inside.double().mean()) > 0.5 and float(corners.max()) > 0.5


def _pixels(corners: Tensor) -> bool:
    return float(corners.amax(1).median()) > _PIXELS


def _said(fit: Fit, evidence: Evidence) -> str:
    """What another encoding would do, and what to write."""
    new, old = fit.encoding, evidence.true if fit.of_truths else evidence.given
    ways = []
    same_columns, same_units = (new.reading, new.score) == (old.reading, old.score), _units(new) == _units(old)
    if not same_columns:
        ways.append(f"read as {' instead of '.join(_columns(x, new.score != old.score) for x in (new, old))}")
    if not same_units:
        ways.append(_units(new))
    remedy = evidence.remedy_of_both if fit.of_truths else evidence.remedy
    of_option = same_units and new.score == old.score and new.reading in PLAIN.values()
    if evidence.option and of_option and not fit.of_truths:
        remedy = f"give {evidence.option} {READINGS[new.reading][1]}"
    of = "" if fit.images == len(evidence.preds["counts"]) else f" of the first {fit.images} images"
    whose = "the ground truths " if fit.of_truths else ""
    return (
        f"{fit.before:.0%} of the best detections{of} overlap a ground truth of their image by half; "
        f"{whose}{' and '.join(ways)}, {fit.after:.0%} would: {remedy}"
    )


def _columns(encoding: Encoding, with_score: bool) -> str:
    columns = [encoding.reading]
    if with_score:
        columns.insert(0 if encoding.score == "first" else 1, "score")
    return ", ".join(columns)


def _units(encoding: Encoding) -> str:
    """What the numbers are."""
    x, y = encoding.scale
    if encoding.unit == "pixels" or (encoding.unit == "fractions" and max(x, y) < 4 and (x, y) != (1, 1)):
        return f"multiplied by {1 / x:.4g}" if x == y else f"x multiplied by {1 / x:.4g} and y by {1 / y:.4g}"
    if encoding.unit == "fractions" and x == y and x in _PARTS:
        return f"taken as {_PARTS[x]} of the image's width and height"
    size = f"about {x:.0f} by {y:.0f} pixels"
    return (
        "taken for those of images "
        + {
            "fractions": f"resized to {size}",
            "letterbox": f"resized to fit into {size}, with equal margins on both ends",
            "longer": f"resized to about {x:.0f} pixels of the longer side",
            "shorter": f"resized to about {x:.0f} pixels of the shorter side",
        }[encoding.unit]
    )
