"""In which other encoding the boxes of a file would fit those of another: columns, format, units, size of the images.

An encoding is how a file writes boxes; the ones tried are a small table. A scale is found, not guessed, by votes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.analysis.overlaps import overlaps
from torch_ap.analysis.scale_votes import voted
from torch_ap.geometry import boxes

OVERLAP = 0.5
_WELL = 0.5  # if this share of the best detections overlaps, no other encoding is tried
_TRIED = 40_000  # pairs of a detection and a ground truth
SOME = 0.3  # at least this share overlaps in an encoding that is named
_ALIKE = 0.9  # encodings whose hits are this share of the most are as good; the simplest of them is named
_SURPRISE = 0.001  # of so many hits by chance, with as many trials as encodings
_PLACES = {"": ("",), "first": ("first", "last"), "last": ("last", "first")}  # of scores, the given one first
# what the numbers are: which of them are (x, y, x, y), and the format of these
READINGS: dict[str, tuple[tuple[int, int, int, int], str]] = {
    "x1 y1 x2 y2": ((0, 1, 2, 3), "xyxy"),
    "x y width height": ((0, 1, 2, 3), "xywh"),
    "centre x, centre y, width, height": ((0, 1, 2, 3), "cxcywh"),
    "y1 x1 y2 x2": ((1, 0, 3, 2), "xyxy"),
    "y x height width": ((1, 0, 3, 2), "xywh"),
    "centre y, centre x, height, width": ((1, 0, 3, 2), "cxcywh"),
    "x1 x2 y1 y2": ((0, 2, 1, 3), "xyxy"),
    "x y height width": ((0, 1, 3, 2), "xywh"),
    "centre x, centre y, height, width": ((0, 1, 3, 2), "cxcywh"),
}
PLAIN = {box_format: name for name, (order, box_format) in READINGS.items() if order == (0, 1, 2, 3)}
_KNOWN = (("fractions", 1.0), ("fractions", 100.0), ("fractions", 1000.0))  # scales that need no votes
_RESIZED = ("pixels", "fractions", "letterbox", "longer", "shorter")


@dataclass(frozen=True)
class Encoding:
    """How boxes are written: a number is (x + margin) / unit * scale.

    Attributes:
        reading: of ``READINGS``.
        unit: "pixels"; "fractions" of the image's width and height; of its "longer" or "shorter" side; or "letterbox",
            of its longer side after the shorter one got margins on both ends.
        scale: of x and of y.
        score: where the score stands, "first" or "last"; "" where it is no column.
    """

    reading: str
    unit: str = "pixels"
    scale: tuple[float, float] = (1.0, 1.0)
    score: str = ""


CORNERS = Encoding("x1 y1 x2 y2")


@dataclass(frozen=True)
class Side:
    """The detections or the ground truths of some images.

    Attributes:
        numbers: (N, 4), or (N, 5) with the score, as the file has them.
        counts: (B,) boxes per image.
        sizes: (N, 2) width and height of each box's image, NaN where they are not known.
        encoding: in which they were read.
        scores: (N,) as they were read; of ground truths there is none.
    """

    numbers: Tensor
    counts: Tensor
    sizes: Tensor
    encoding: Encoding
    scores: Tensor | None = None

    @classmethod
    def of(
        cls, corners: Tensor, counts: Tensor, sizes: Tensor, encoding: Encoding, scores: Tensor | None = None
    ) -> "Side":
        """What the file had, from the corners in pixels that were read."""
        unit, margin = units(encoding.unit, sizes)
        numbers = (corners + margin) / unit
        start, size = numbers[:, :2], numbers[:, 2:] - numbers[:, :2]
        numbers = boxes.from_xywh(torch.cat([start, size], 1), READINGS[encoding.reading][1])
        if scores is not None and encoding.score:
            columns = [scores[:, None], numbers]
            numbers = torch.cat(columns if encoding.score == "first" else columns[::-1], 1)
        return cls(numbers, counts, sizes, encoding, scores)

    def raw(self, encoding: Encoding) -> Tensor:
        """(N, 4) corners in the units of the file."""
        order, box_format = READINGS[encoding.reading]
        numbers = self.numbers[:, 1:] if encoding.score == "first" else self.numbers[:, :4]
        return boxes.to_xyxy(numbers[:, list(order)], box_format)

    def corners(self, encoding: Encoding) -> Tensor:
        """(N, 4) corners in pixels."""
        unit, margin = units(encoding.unit, self.sizes)
        scale = torch.tensor(encoding.scale * 2, dtype=torch.float64)
        return self.raw(encoding) * unit / scale - margin

    def best(self, truths: Tensor, score: str) -> Tensor:
        """Rows of the best scores: as many of an image as it has ground truths (B,), of the first images.

        What the score is depends on the encoding, and with it which detections are the best.
        """
        image = torch.arange(len(self.counts)).repeat_interleave(self.counts)
        scores = self.scores if score == self.encoding.score else self.numbers[:, 0 if score == "first" else -1]
        assert scores is not None
        order = torch.argsort(scores, descending=True, stable=True)
        order = order[torch.argsort(image[order], stable=True)]
        rank = torch.arange(len(order)) - (self.counts.cumsum(0) - self.counts)[image]
        return order[(rank < truths[image]) & _few(truths)[image]].sort().values

    def taken(self, rows: Tensor) -> "Side":
        """Some of the boxes, in the same order."""
        image = torch.arange(len(self.counts)).repeat_interleave(self.counts)[rows]
        counts = torch.bincount(image, minlength=len(self.counts))
        return Side(self.numbers[rows], counts, self.sizes[rows], self.encoding)


def _few(truths: Tensor) -> Tensor:
    """(B,) which images are looked at, the first ones."""
    return (truths**2).cumsum(0) <= _TRIED


def units(unit: str, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """(N, 4) what a number of each unit has in pixels, and the margins before x and y."""
    longer, shorter = (side(1, keepdim=True).values.expand(-1, 2) for side in (sizes.max, sizes.min))
    one = {"pixels": torch.ones_like(sizes), "fractions": sizes, "shorter": shorter}.get(unit, longer)
    margin = (longer - sizes) / 2 if unit == "letterbox" else torch.zeros_like(sizes)
    return one.repeat(1, 2), margin.repeat(1, 2)


class Fit(NamedTuple):
    """An encoding in which boxes overlap far more often.

    Attributes:
        encoding: which.
        of_truths: whether of the ground truths, not of the detections.
        before: the share of the best detections that overlap a ground truth by half as they were read.
        after: the share in this encoding.
        images: how many images were looked at, the first ones.
    """

    encoding: Encoding
    of_truths: bool
    before: float
    after: float
    images: int


def better(found: Side, truths: Side, by_half: Tensor) -> Fit | None:
    """The simplest of the encodings of one file that fit the other one clearly best; None where none does.

    Args:
        found: detections, with their scores.
        truths: ground truths.
        by_half: (D,) which detections overlap a ground truth by half as they were read.
    """
    rows = {score: found.best(truths.counts, score) for score in _PLACES[found.encoding.score]}
    best = rows[found.encoding.score]
    hits, total = int(by_half[best].sum()), max(1, len(best))
    if hits >= _WELL * total:
        return None
    detections = {score: found.taken(row) for score, row in rows.items()}
    tried = [*_tried(detections, truths, False), *_tried({"": truths}, detections[found.encoding.score], True)]
    most = max((each.hits for each in tried), default=0)
    if not _far_more(most, hits, total):
        return None
    fit = next(each for each in tried if each.hits >= _ALIKE * most)
    chance = max(hits, sorted(each.hits for each in tried)[len(tried) // 2])
    needed = _needed(fit.encoding, (truths if fit.of_truths else found).encoding)
    few = any(_places(side, needed) < needed for side in (fit.moved, fit.fixed))  # one box of all images fits by chance
    if few or _tail(fit.hits, total, chance) > _SURPRISE:
        return None
    return Fit(fit.encoding, fit.of_truths, hits / total, fit.hits / total, int(_few(truths.counts).sum()))


def _far_more(most: int, hits: int, total: int) -> bool:
    return most >= SOME * total and hits <= (most / 2 if most >= total / 2 else most / 4)


def clearly_better(most: int, hits: int, total: int) -> bool:
    """Whether so many of the best detections overlap in another encoding than as they were read, and not by chance."""
    return hits < _WELL * total and _far_more(most, hits, total) and _tail(most, total, hits) <= _SURPRISE


class _Trial(NamedTuple):
    """An encoding of the detections or the ground truths; how many overlap by half, and the boxes of either that do."""

    hits: int
    encoding: Encoding
    of_truths: bool
    moved: Tensor
    fixed: Tensor


def _tried(moved: dict[str, Side], fixed: Side, of_truths: bool) -> Iterator[_Trial]:
    """All encodings of the boxes to move, which stand by the place of their scores; scales of ground truths are not
    tried, since they are the inverse of those of detections.
    """
    other = fixed.corners(fixed.encoding)
    table = _table(moved, fixed)
    encodings = [*table] if of_truths else [*table, *_scaled(moved, fixed, other)]
    pairs = max(int((side.counts * fixed.counts).sum()) for side in moved.values())
    step = max(1, _TRIED // max(1, pairs))  # of few boxes, many encodings cost as much as one
    for some in (encodings[first : first + step] for first in range(0, len(encodings), step)):
        corners = [moved[x.score].corners(x).nan_to_num() for x in some]
        counts = torch.cat([moved[x.score].counts for x in some])
        every = torch.cat(corners), other.repeat(len(some), 1)
        d, g, _ = overlaps(every, (counts, fixed.counts.repeat(len(some))), OVERLAP)
        parts = torch.bucketize(g, len(other) * torch.arange(1, len(some)), right=True).bincount(minlength=len(some))
        each = zip(some, *(torch.split(x, parts.tolist()) for x in (d, g)), strict=True)
        for encoding, one, two in each:
            hits = min(len(torch.unique(one)), len(torch.unique(two)))  # copies of one box hit once
            yield _Trial(hits, encoding, of_truths, every[0][one], every[1][two])


def _forms(moved: dict[str, Side]) -> list[Encoding]:
    """The given encoding, and the others of its units."""
    given = next(iter(moved.values())).encoding
    readings = sorted(READINGS, key=lambda x: x != given.reading)
    return [replace(given, reading=reading, score=score) for score in moved for reading in readings]


def _table(moved: dict[str, Side], fixed: Side) -> Iterator[Encoding]:
    """The encodings whose scale is known, except the given one, from simple to unusual."""
    given, *others = _forms(moved)
    yield from others
    for unit, scale in _KNOWN if bool(fixed.sizes.isfinite().all()) else ():
        if (unit, scale) != (given.unit, given.scale[0]):
            yield from (replace(form, unit=unit, scale=(scale, scale)) for form in (given, *others))


def _scaled(moved: dict[str, Side], fixed: Side, other: Tensor) -> Iterator[Encoding]:
    """Encodings whose scale is found by votes."""
    forms, sized = _forms(moved), bool(fixed.sizes.isfinite().all())
    pairs = {score: boxes.pairs_of_images(one.counts, fixed.counts) for score, one in moved.items()}
    for unit in _RESIZED if sized else ("pixels",):
        if unit == "pixels" and forms[0].unit == "fractions":
            continue
        one, margin = units(unit, fixed.sizes) if sized else (1.0, 0.0)
        true = (other + margin) / one
        for form in forms:
            scales = voted(moved[form.score].raw(form), true, *pairs[form.score])
            if scales and unit not in ("pixels", "fractions"):  # of these, x and y have one scale
                even = abs(math.log(scales[0] / scales[1])) < 0.05
                scales = (math.sqrt(scales[0] * scales[1]),) * 2 if even else None
            if scales:
                yield replace(form, unit=unit, scale=scales)


def _needed(encoding: Encoding, given: Encoding) -> int:
    """At how many places boxes of either side must overlap: more than there are things that were chosen to fit."""
    changes = [getattr(encoding, key) != getattr(given, key) for key in ("reading", "unit", "score")]
    fitted = encoding.scale != given.scale and (encoding.unit, encoding.scale[0]) not in _KNOWN
    return 1 + changes.count(True) + (2 if fitted else 0)


def _places(truths: Tensor, most: int) -> int:
    """How many boxes of those there are that overlap none of each other by half, counted up to ``most``."""
    places = 0
    while len(truths) and places < most:
        places += 1
        others = truths[1:]  # without the box itself, which overlaps nothing where it has no area
        _, near, _ = overlaps((truths[:1], others), [torch.tensor([1]), torch.tensor([len(others)])], OVERLAP)
        truths = others[~torch.zeros(len(others), dtype=torch.bool).index_fill_(0, near, True)]
    return places


def _tail(hits: int, total: int, chance: int) -> float:
    """The probability of so many hits where each has the chance of those that are no better than chance."""
    from scipy import special

    return float(special.bdtrc(hits - 1, total, (chance + 0.5) / (total + 1)))
