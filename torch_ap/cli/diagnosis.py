"""Why detections match no ground truth: what is likely wrong with the files, where a number would silently be 0.

Nothing here changes a number. What is said of boxes is read off the first images, up to 2,000,000 pairs of a detection
and a ground truth, and other encodings are tried on up to 40,000.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from torch_ap.cli.encodings import CORNERS, OVERLAP, PLAIN, READINGS, SOME, Encoding, Fit, Side, better
from torch_ap.functional.ragged import ragged_box_iou
from torch_ap.geometry import boxes
from torch_ap.rules.messages import nearest, shown

_PAIRS = 2_000_000
_HITS = 5  # ground truths of a neighbouring image, of so few nothing is said
_FEW = 3  # classes that are told one by one
_FRACTION = 2.0  # no box of pixels is that small, and detectors may place boxes over the image's edge
_PARTS = {1.0: "fractions", 100.0: "percent", 1000.0: "thousandths"}
_SLACK = 2.0  # pixels that a box may stand out of its image


@dataclass(frozen=True)
class Evidence:
    """What was read.

    Attributes:
        preds, target: packed images with boxes; or lists of dicts, of which the labels alone are looked at.
        class_names: of labels.
        sizes: (B, 2) width and height of each image, NaN where they are not known; or None.
        box_format: of ``preds`` and ``target``.
        given: how the file of detections writes boxes.
        form: what that file must hold, for messages.
        true: how the file of ground truths writes them.
        option: the option that says the format of the detections alone; "" where there is none.
    """

    preds: Any
    target: Any
    class_names: Mapping[int, str]
    sizes: Tensor | None = None
    box_format: str = "xyxy"
    given: Encoding = CORNERS
    form: str = "the boxes as x1 y1 x2 y2 in pixels"
    true: Encoding = CORNERS
    option: str = ""


def causes(evidence: Evidence) -> Iterator[str]:
    """What is likely wrong, one sentence per fault; nothing where detections can match, or where there is none."""
    found, true = (_column(side, "labels") for side in (evidence.preds, evidence.target))
    if not len(true):
        yield "the ground truths hold no object, so that no detection can match"
        return
    for key, what in (("iscrowd", "a crowd (`iscrowd` 1)"), ("difficult", "difficult")):
        flags = _column(evidence.target, key)
        if len(flags) and bool(flags.all()):
            yield f"every ground truth is {what}; these are left out, so that there is nothing to find and no number"
            return
    if not len(found):
        return
    if not bool(torch.isin(found, true).any()):
        yield _other_classes(
            *([evidence.class_names[x] for x in torch.unique(labels).tolist()] for labels in (found, true))
        )
        return
    if isinstance(evidence.preds, Mapping) and "boxes" in evidence.preds:
        yield from _of_boxes(_Sample(evidence), evidence)


def without_truths(evidence: Evidence) -> Iterator[str]:
    """Which classes of the detections no ground truth has, those first that may be misspelt. Nothing where no class has
    any, of which :func:`causes` tells.
    """
    labels, detections = torch.unique(_column(evidence.preds, "labels"), return_counts=True)
    known = torch.unique(_column(evidence.target, "labels"))
    true = torch.isin(labels, known)
    if not true.any() or true.all():
        return
    others = [evidence.class_names[label] for label in known.tolist()]
    names = [evidence.class_names[label] for label in labels[~true].tolist()]
    meanings = ["" if name.isdecimal() else nearest(name, others) for name in names]  # ids are not misspelt
    found = sorted(zip(names, detections[~true].tolist(), meanings, strict=True), key=lambda one: not one[2])
    for name, count, meant in found[:_FEW]:
        are = "is 1 detection" if count == 1 else f"are {count:,} detections"
        yield f"no ground truth is of class {shown(name)}, of which there {are}: left out of the mean{meant}"
    if len(found) > _FEW:
        yield f"no ground truth is of {len(found) - _FEW:,} more classes, which are left out of the mean, too"


def _column(images: Any, key: str) -> Tensor:
    """A column of all images, which may lack it."""
    nothing = torch.empty(0, dtype=torch.int64)
    if isinstance(images, Mapping):
        column: Tensor = images.get(key, nothing)
        return column
    return torch.cat([nothing, *(image[key] for image in images if key in image)])


def _other_classes(found: Sequence[str], true: Sequence[str]) -> str:
    """No class in common."""
    why = ""
    if {x.casefold() for x in found} & {x.casefold() for x in true}:
        why = "; they differ in upper and lower case"
    elif {"ids", "names"} == {_kind(found), _kind(true)}:
        why = "; class ids here, names there"
    else:
        why = next(filter(None, (nearest(name, true) for name in found if not name.isdecimal())), "")
    ours, theirs = (shown(", ".join(names)) for names in (found, true))
    return f"no class of the detections ({ours}) is one of the ground truths ({theirs}), so that none can match{why}"


def _kind(classes: Sequence[str]) -> str:
    ids = sum(name.isdecimal() for name in classes)
    return "names" if not ids else "ids" if ids == len(classes) else "both"


class _Sample:
    """Boxes of the first images, and how well they fit as they were read."""

    def __init__(self, evidence: Evidence) -> None:
        counts = [side["counts"] for side in (evidence.preds, evidence.target)]
        images = int(((counts[0] * counts[1]).cumsum(0) <= _PAIRS).sum())
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
        self.found, self.true, self.iou = ragged_box_iou(self.corners[0], self.corners[1], counts[0], counts[1])

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
        if int((found * true).sum()) > 2 * _PAIRS:
            return 0
        d, g, _ = ragged_box_iou(self.corners[0], self.corners[1], found, true, least=OVERLAP)
        return len(torch.unique(g[self.labels[0][d] == self.labels[1][g]]))

    def shifted(self) -> str:
        """Whose ground truths the detections find, if clearly those of the next image or of the one before."""
        own, before, after = self.of_neighbours()
        most, total = max(before, after), len(self.labels[1])
        clear = most >= max(_HITS, SOME * total) and 4 * max(own, min(before, after)) <= most
        return ("next" if before > after else "previous") if clear else ""

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


def _of_boxes(sample: _Sample, evidence: Evidence) -> Iterator[str]:
    """Boxes in another encoding, or of other classes."""
    if not all(map(len, sample.corners)):
        return
    fit = sample.fit(evidence.given, evidence.true)
    overlap, of_class = sample.overlapping()
    inside = sample.inside()
    if fit:
        yield _said(fit, evidence)
    elif _fractions(sample.corners[0]) and float(sample.corners[1].max()) > _FRACTION:
        yield "the boxes of the detections are fractions, as of the image's size, and those of the ground truths pixels"
    elif _fractions(sample.corners[1]) and float(sample.corners[0].max()) > _FRACTION:
        yield "the boxes of the ground truths are fractions, as of the image's size, and those of the detections pixels"
    elif next_to := sample.shifted():
        yield (
            f"the detections{sample.of} overlap ground truths of the {next_to} image by half, and hardly any of their "
            "own: are the image ids counted from another number?"
        )
    elif inside < 0.1:
        yield f"{inside:.0%} of the detections{sample.of} lie inside their images: are the boxes in another format?"
    elif overlap >= 0.1 and of_class < overlap / 10:
        yield (
            f"{overlap:.0%} of the detections{sample.of} overlap a ground truth of their image by half, but "
            f"{of_class:.0%} one of their own class: are the class ids counted from another number?"
        )
    elif not sample.touching():
        yield f"no detection{sample.of} overlaps a ground truth of its image at all: are these the right files?"


def _fractions(corners: Tensor) -> bool:
    return bool((corners.abs() <= _FRACTION).all())


def _said(fit: Fit, evidence: Evidence) -> str:
    """What another encoding would do, and what to write."""
    new, old = fit.encoding, evidence.true if fit.of_truths else evidence.given
    ways = []
    same_columns, same_units = (new.reading, new.score) == (old.reading, old.score), _units(new) == _units(old)
    if not same_columns:
        ways.append(f"read as {' instead of '.join(_columns(x, new.score != old.score) for x in (new, old))}")
    if not same_units:
        ways.append(_units(new))
    remedy = f"write {evidence.form}"
    if fit.of_truths:
        remedy = "write both files in the same units and the format that is asked for"
    elif evidence.option and same_units and new.score == old.score and new.reading in PLAIN.values():
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
