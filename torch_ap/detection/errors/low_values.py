"""Diagnosis of low values of detection metrics: the usual mistakes in boxes, labels and the order of images.

A bounded sample of the best-scored detections is compared with the ground truths, as they are and with each mistake
corrected. A cause is reported only if nearly all detections fit after the correction and hardly any fit before, so that
detectors that are merely weak cause no warning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

_FIT = 0.7  # least IoU of a detection that fits a ground truth
_SHARE, _TIMES = 0.8, 3  # least share of detections that fit after the correction, and least growth of the share
_MIN_PLACES = 5  # different boxes that must fit, because a fixed camera shows the same objects in every image
_MIN_VOTES = 3  # least detections of a label that identify its intended label
_FRACTION, _PIXELS = 2.0, 10.0  # highest fraction, as boxes may leave the image; least highest pixel
_MARGIN = 0.05  # least gain in mean IoU of a scale over detections of object parts
_NEAR, _MAX_VOTES = 0.1, 500  # maximal distance of log scales that agree; maximal number of compared scales
_SAME_SIZE = 0.05  # smaller log scales result from rounding
_MAX_TURN = 10.0  # maximal difference in degrees between angles that fit
_COCO_IDS = np.array([x for x in range(1, 91) if x not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)])
_FORMATS = ("xyxy", "xywh", "cxcywh")
_NEIGHBORS = {0: "previous", 2: "next"}  # by place within reach
_TO_DEGREES = np.array([1, 1, 1, 1, 180 / np.pi])[:, None]
_Corrections = Iterator[tuple[Sequence[str], Array, Array]]


class _Size(NamedTuple):
    """Size of a sample, and the share of its detections that a correction must make fit."""

    images: int
    pairs: int
    detections: int  # the best-scored of each image
    share: float


_QUICK = _Size(16, 1_000, 1, 0.55)  # few detectors without a mistake pass this first sample
_FULL = _Size(100, 2_000, 3, _SHARE)


def _readings(given: str) -> tuple[list[str], Array, Array]:
    """Return the clauses of E other readings, and the (4 E, 4) matrices that convert the boxes to corners."""
    plain, others = _corners(np.eye(4), given), [x for x in _FORMATS if x != given]
    read = [_corners(np.eye(4), x) for x in others]
    seem = [f"seem to be `{x}`, but are read as `{given}`" for x in others]
    clauses = [f"the boxes of the {side} {x}" for side in ("detections", "ground truths") for x in seem]
    detected, true = [*read, plain, plain, plain[[1, 0, 3, 2]]], [plain, plain, *read, plain]
    exchanged = "the boxes of the detections seem to have x and y exchanged"
    return [*clauses, exchanged], np.concatenate(detected), np.concatenate(true)


def likely_cause(
    preds: Mapping[str, Tensor], target: Mapping[str, Tensor], box_format: str, *, with_classes: bool = True
) -> str | None:
    """Return the likely cause of a low value as a clause, or None.

    Args:
        preds: packed images with ``boxes``, ``labels``, ``scores`` and ``counts``; without ``boxes`` only a missing
            detection is a cause.
        target: packed images with the same keys except ``scores``.
        box_format: "xyxy", "xywh" or "cxcywh", with a final "r" for rotated boxes.
        with_classes: whether a detection must have the label of its ground truth.
    """
    if not len(target["labels"]):
        return None
    if not len(preds["labels"]):
        return f"there is no detection in any of the {len(preds['counts']):,} images"
    if "boxes" not in preds or "boxes" not in target:
        return None
    how = box_format.removesuffix("r"), with_classes
    with np.errstate(all="ignore"):  # boxes without area, and numbers near the end of float64
        if next(_Sample((preds, target), _QUICK, 1).causes(*how), None) is None:
            return None
        samples = (_Sample((preds, target), _FULL, reach) for reach in (0, 1))
        return next((cause for sample in samples for cause in sample.causes(*how)), None)


class _Sample:
    """The best-scored detections of some images, paired with all ground truths of the images within reach.

    Pairs are sorted by detection, then by image. Boxes are (4, P), or (5, P) with angles.
    """

    def __init__(self, sides: Sequence[Mapping[str, Tensor]], size: _Size, reach: int) -> None:
        self.sides, self.size, self.reach = sides, size, reach
        self.times = 2 if size is _QUICK else _TIMES
        detected, true = (side["counts"].cpu().numpy() for side in sides)
        images = ((detected > 0) & (true > 0)).nonzero()[0]
        number = min(len(images), size.images)
        images = images[np.arange(number) * len(images) // max(1, number)]
        margin = np.zeros(reach, np.int64)
        near = np.concatenate([margin, true, margin])[images[:, None] + np.arange(2 * reach + 1)]
        sizes = np.minimum(np.minimum(detected[images], true[images]), size.detections)
        pairs = sizes * near.sum(1)
        if (total := int(pairs.sum())) > size.pairs:  # keep evenly spaced images, up to the limit
            chosen = np.arange(0, number, -(-total // size.pairs))
            chosen = chosen[pairs[chosen].cumsum() <= size.pairs]
            images, near, sizes = images[chosen], near[chosen], sizes[chosen]
        self.images, self.near = np.repeat(images, sizes), np.repeat(near, sizes, 0)  # of each detection
        if len(images):
            self.rows = self._best_rows(detected[images], (detected.cumsum() - detected)[images], sizes)
            pairs = self.near.sum(1)
            first = (true.cumsum() - true)[self.images] - self.near[:, :reach].sum(1)
            self.detection, self.truth = np.repeat(np.arange(len(pairs)), pairs), _ranges(first, pairs)

    def _column(self, side: int, key: str, rows: Array) -> Array:
        """Return the values of rows of a column; boxes and scores in float64."""
        column = self.sides[side][key]
        values = column[torch.from_numpy(rows).to(column.device)].detach()
        return np.asarray((values if key == "labels" else values.to(torch.float64)).cpu())

    def _best_rows(self, counts: Array, starts: Array, sizes: Array) -> Array:
        """Return the rows of the best-scored detections of each image, in the order of the images."""
        first, rows = counts.cumsum() - counts, _ranges(starts, counts)
        scores = np.fmax(self._column(0, "scores", rows), -np.finfo(np.float64).max)
        best = np.full((len(counts), self.size.detections), -1)
        for place in range(self.size.detections):
            top = (scores == np.repeat(np.maximum.reduceat(scores, first), counts)).nonzero()[0]
            top = top[np.searchsorted(top, first)]
            best[:, place] = np.where(place < sizes, rows[top], -1)
            scores[top] = -np.inf
        return best[best >= 0]

    def causes(self, box_format: str, with_classes: bool) -> Iterator[str]:
        """Yield each cause whose correction makes enough detections fit."""
        if not len(self.images):
            return
        boxes = self._column(0, "boxes", self.rows).T
        if not boxes[:4].any():
            yield "all boxes of the best-scored detections are zero"
            return
        raw = boxes[:, self.detection], self._column(1, "boxes", self.truth).T
        every = _corners(raw[1], box_format)
        overlap = _overlap(_corners(raw[0], box_format), every)
        image = np.repeat(np.arange(self.near.size) % self.near.shape[1], self.near.ravel())
        own = image == self.reach
        best = self._best(overlap, self.near.ravel()).reshape(self.near.shape)
        shares = (np.count_nonzero(best >= _FIT, axis=0) / len(best)).tolist()
        best, fit = best[:, self.reach], shares[self.reach]
        if fit >= self.size.share and with_classes:
            yield from self._label_causes(overlap[own], best, every[:, own], own)
        if fit * self.times > 1:
            return
        for place, name in _NEIGHBORS.items() if self.reach else ():
            if self._is_clear(shares[place], fit, every, overlap, image == place):
                yield _claim(f"the detections seem to belong to the {name} image", shares[place], fit)
        if self.reach == 0 or self.size is _QUICK:
            for clauses, detected, true in self._corrections(
                raw[0][:, own], raw[1][:, own], box_format, bool(best.any())
            ):
                overlaps = _overlap(detected, true)
                shares = np.count_nonzero(self._best(overlaps, self.near[:, self.reach]) >= _FIT, axis=1) / len(best)
                for clause, share, overlap, boxes in zip(clauses, shares.tolist(), overlaps, true, strict=True):
                    if self._is_clear(share, fit, boxes, overlap, True):
                        yield _claim(clause, share, fit)

    def _best(self, overlap: Array, lengths: Array) -> Array:
        """Return the highest overlap in each run of pairs, (..., pairs) to (..., runs)."""
        best, busy = np.zeros((*overlap.shape[:-1], len(lengths))), lengths.nonzero()[0]
        if len(busy):
            best[..., busy] = np.maximum.reduceat(overlap, (lengths.cumsum() - lengths)[busy], axis=-1)
        return best

    def _is_clear(self, share: float, fit: float, boxes: Array, overlap: Array, pairs: Array | bool) -> bool:
        """Whether enough detections fit after a correction, at enough different places."""
        if share < max(self.size.share, self.times * fit):
            return False
        hit = boxes[:4, (overlap >= _FIT) & pairs]
        return self.size is _QUICK or _are_new(hit[:, :: 1 + hit.shape[1] // 300]).sum() >= _MIN_PLACES

    def _corrections(self, detected: Array, true: Array, given: str, touches: bool) -> _Corrections:
        """Yield clauses for E corrections, and the (E, 4 or 5, P) corners of both sides after them."""
        values, first, limit = (detected, true), *((4, np.pi) if len(detected) > 4 else (0, _FRACTION))
        most = [float(np.abs(x[first:]).max()) for x in values]
        small = [x <= limit for x in most]
        mixed = small[0] != small[1] and (first > 0 or max(most) > _PIXELS)
        whose = "detections" if small[0] else "ground truths"
        if len(detected) > 4:
            clause = f"the angles of the {whose} seem to be radians, but are read as degrees"
            sides = [_corners(x * _TO_DEGREES if y else x, given)[None] for x, y in zip(values, small, strict=True)]
            yield from [([clause], sides[0], sides[1])] if mixed else []
            return
        clauses, *matrices = _READINGS[given]
        sides = [(x @ y).reshape(-1, 4, y.shape[1]) for x, y in zip(matrices, values, strict=True)]
        yield clauses, sides[0], sides[1]
        clause = f"the boxes of the {whose} seem to be fractions of the image's width and height"
        plain = _corners(true, given)
        for name in (given,) if touches else _FORMATS:
            also = "" if name == given else f", and to be `{name}`, but are read as `{given}`"
            read = _corners(detected, name)
            if (scaled := self._scaled(read, plain)) is not None:
                text = clause if mixed else f"the boxes of the detections seem to need multiplication by {scaled[0]}"
                yield [text + also], scaled[1][None], plain[None]
            if mixed:
                yield [clause + also], self._scaled_by_image(read, plain)[None], plain[None]

    def _scaled(self, detected: Array, true: Array) -> tuple[str, Array] | None:
        """Return the scale of most pairs and the scaled boxes, unless detections of object parts explain it."""
        scale = _scale(detected, true, len(self.images) * self.size.share * 0.75)
        if scale is None or max(abs(np.log(scale))) < _SAME_SIZE:
            return None
        scaled = detected * np.tile(scale, 2)[:, None]
        center, half = (detected[:2] + detected[2:]) / 2, (detected[2:] - detected[:2]) / 2
        anchors = np.stack([center - half, center, center + half])
        resized = [anchors + (side - anchors) * scale[:, None] for side in (detected[:2], detected[2:])]
        mean = self._best(
            _iou(np.concatenate([[scaled], np.concatenate(resized, 1)]), true), self.near[:, self.reach]
        ).mean(-1)
        if mean[0] < mean[1:].max() + _MARGIN:
            return None
        x, y = scale
        return f"{x:.3g}" if abs(np.log(x / y)) < _SAME_SIZE else f"{x:.3g} in x and {y:.3g} in y", scaled

    def _scaled_by_image(self, detected: Array, true: Array) -> Array:
        """Return the boxes after scaling each image, whose size is unknown."""
        image, scaled = np.repeat(self.images, self.near[:, self.reach]), np.zeros_like(detected)
        for one in np.unique(image):
            if (scale := _scale(detected[:, image == one], true[:, image == one], 1)) is not None:
                scaled[:, image == one] = detected[:, image == one] * np.tile(scale, 2)[:, None]
        return scaled

    def _label_causes(self, overlap: Array, best: Array, true: Array, own: Array) -> Iterator[str]:
        """Yield the cause that the detections and the ground truths have different label numbers."""
        detection, predicted = self.detection[own], self._column(0, "labels", self.rows)
        hit, intended = overlap >= _FIT, self._column(1, "labels", self.truth[own])
        before = len(np.unique(detection[hit & (predicted[detection] == intended)])) / len(predicted)
        if before * self.times > 1:
            return
        if self.size is _QUICK:
            yield ""  # too few detections for many classes
            return
        place = np.flatnonzero(hit & (overlap == best[detection]))
        place = place[np.unique(detection[place], return_index=True)[1]]
        fit, predicted, intended = len(place) / len(predicted), predicted[detection[place]], intended[place]
        new = _are_new(true[:4, place], (predicted[:, None] == predicted) & (intended[:, None] == intended))
        predicted, intended = predicted[new], intended[new]
        for clause, right, applies in _label_maps(predicted, intended):
            share = float(right[applies].mean()) * fit
            labels, votes = np.unique(predicted[right & (predicted != intended)], return_counts=True)
            has_labels = len(labels) >= _MIN_PLACES or (votes >= _MIN_VOTES).sum() > 1
            if has_labels and len(predicted) >= _MIN_PLACES and share >= max(_SHARE, _TIMES * before):
                yield _claim(clause, share, before)


def _label_maps(predicted: Array, intended: Array) -> Iterator[tuple[str, Array, Array | slice]]:
    """Yield, for each rule that maps labels of detections, its clause, where it is right, and where it applies."""
    steps, counts = np.unique(predicted - intended, return_counts=True)
    step = int(steps[counts.argmax()]) if len(steps) else 0
    if step:
        above = "above" if step > 0 else "below"
        clause = f"the labels of the detections seem to be {abs(step)} {above} the intended labels"
        yield clause, predicted - intended == step, slice(None)
    for side, (from_labels, to_labels) in {
        "detections": (predicted, intended),
        "ground truths": (intended, predicted),
    }.items():
        for first in (0, 1):
            right = (
                (from_labels >= first)
                & (from_labels < first + 80)
                & (_COCO_IDS[np.clip(from_labels - first, 0, 79)] == to_labels)
            )
            clause = f"the labels of the {side} seem to count COCO's 80 classes from {first}, the others are its 91 ids"
            yield clause, right, slice(None)
    labels, place = np.unique(predicted, return_inverse=True)
    classes, other = np.unique(intended, return_inverse=True)
    votes = np.bincount(place * len(classes) + other, minlength=len(labels) * len(classes)).reshape(len(labels), -1)
    usual, enough = votes.argmax(1), votes.sum(1) >= _MIN_VOTES
    if enough.any() and len(np.unique(usual[enough])) == enough.sum():
        pairs = np.stack([labels[enough], classes[usual[enough]]], 1)
        text = ", ".join(f"{label} for {meaning}" for label, meaning in pairs[pairs[:, 0] != pairs[:, 1]][:3])
        yield f"the labels of the detections seem to be permuted: {text}", usual[place] == other, enough[place]


def _claim(clause: str, share: float, before: float) -> str:
    return f"{clause}; {share:.0%} of the best-scored detections would then fit a ground truth, now {before:.0%} do"


def _ranges(starts: Array, counts: Array) -> Array:
    """Return the concatenated ranges of integers from each start, with the given lengths."""
    return np.repeat(starts - (counts.cumsum() - counts), counts) + np.arange(counts.sum())


def _corners(boxes: Array, box_format: str) -> Array:
    """Return the corners of (4, N) boxes of a format; for (5, N) rotated boxes without rotation, and the angles."""
    if box_format == "xyxy":
        return boxes
    low = boxes[:2] - boxes[2:4] / 2 if box_format == "cxcywh" else boxes[:2]
    return np.concatenate([low, low + boxes[2:4], boxes[4:]])


def _overlap(detected: Array, true: Array) -> Array:
    """Return the IoU of pairs of (..., 4, P) corners; with angles, 0 where the angles differ."""
    overlap = _iou(detected[..., :4, :], true[..., :4, :])
    if detected.shape[-2] > 4:
        overlap = overlap * (np.abs((detected[..., 4, :] - true[..., 4, :] + 90) % 180 - 90) <= _MAX_TURN)
    return overlap


def _iou(detected: Array, true: Array) -> Array:
    """Return the IoU of (..., 4, N) corners, 0 for boxes without area."""
    shared = _area(
        np.minimum(detected[..., 2:, :], true[..., 2:, :]) - np.maximum(detected[..., :2, :], true[..., :2, :])
    )
    areas = [_area(x[..., 2:, :] - x[..., :2, :]) for x in (detected, true)]
    return np.asarray(shared / np.maximum(areas[0] + areas[1] - shared, np.finfo(np.float64).tiny))


def _area(sides: Array) -> Array:
    """Return the area of (..., 2, N) widths and heights, 0 if one is negative."""
    sides = np.maximum(sides, 0)
    return np.asarray(sides[..., 0, :] * sides[..., 1, :])


def _are_new(corners: Array, comparable: Array | bool = True) -> Array:
    """Whether no earlier box that is comparable fits each of (4, N) boxes."""
    same = (_iou(corners.T[..., None], corners) >= _FIT) & comparable
    return np.asarray(~np.tril(same, -1).any(1))


def _scale(detected: Array, true: Array, least: float) -> Array | None:
    """Return the factors of x and y of most pairs, which must fit centers and sizes.

    Args:
        detected, true: (4, P) corners of pairs.
        least: least number of pairs that agree; None is returned for fewer.
    """
    centers = np.log((true[:2] + true[2:]) / (detected[:2] + detected[2:]))
    sizes = np.log((true[2:] - true[:2]) / (detected[2:] - detected[:2]))
    votes = centers[:, (np.abs(centers - sizes) < 0.3).all(0)][:, :_MAX_VOTES]
    if votes.shape[1] < least:
        return None
    agreeing = (np.abs(votes[:, :, None] - votes[:, None]) <= _NEAR).all(0).sum(1)
    if agreeing.max() < least:
        return None
    center = votes[:, agreeing.argmax()]
    for width in (_NEAR, _NEAR / 3, _NEAR / 10):
        near = (np.abs(votes - center[:, None]) <= width).all(0)
        center = np.median(votes[:, near], 1) if near.any() else center
    return np.asarray(np.exp(center))


_READINGS = {box_format: _readings(box_format) for box_format in _FORMATS}
