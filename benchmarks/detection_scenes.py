"""Synthetic scenes with the statistics of COCO val2017 and of a detector on it, deterministic."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

WIDTH, HEIGHT = 640.0, 480.0


@dataclass(frozen=True)
class Scenes:
    """Packed images for ``MeanAveragePrecision.update``, with boxes as xywh."""

    preds: dict[str, Tensor]
    target: dict[str, Tensor]

    def lists(self, first: int = 0, last: int | None = None) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
        """Return the images as lists of dicts."""
        sides = []
        for side in (self.preds, self.target):
            ends = side["counts"].cumsum(0).tolist()
            spans = [slice(end - count, end) for end, count in zip(ends, side["counts"].tolist(), strict=True)]
            keys = [key for key in side if key != "counts"]
            sides.append([{key: side[key][span] for key in keys} for span in spans[first:last]])
        return sides[0], sides[1]


def like_coco(images: int = 5000, classes: int = 80, seed: int = 0, *, most: int = 100, wrong: int = 60) -> Scenes:
    """Return images with about 7 ground truths (1% crowds) and 74 detections, clustered by class and position."""
    r = np.random.default_rng(seed)
    rates = 1 / np.arange(1, classes + 1) ** 1.2
    rates[0] = 0
    rates = rates / rates.sum() * 0.7
    rates[0] = 0.3  # a third of COCO's objects are persons
    objects = np.clip(r.poisson(r.gamma(1.1, 6.3, images)), 1, 62) * (r.random(images) > 0.01)
    image = np.repeat(np.arange(images), objects)
    total, first = len(image), np.repeat(np.cumsum(objects) - objects, objects)
    label = r.choice(classes, total, p=rates)
    # an object often has the class and the neighbourhood of an earlier object of its image
    earlier = first + (r.random(total) * (np.arange(total) - first)).astype(int)
    label = np.where(r.random(total) < 0.6, label[earlier], label)
    side, aspect = np.exp(r.normal(np.log(48), 1.05, total)).clip(4, 440), np.exp(r.normal(0, 0.35, total))
    size = np.stack([(side * aspect).clip(3, WIDTH - 2), (side / aspect).clip(3, HEIGHT - 2)], 1)
    corner = r.random((total, 2)) * ([WIDTH, HEIGHT] - size)
    near = corner[earlier] + r.normal(0, 0.45, (total, 2)) * size
    corner = np.where(r.random((total, 1)) < 0.35, near.clip(0, [WIDTH, HEIGHT] - size), corner)
    crowd = r.random(total) < 0.0115
    size[crowd] = np.minimum(size[crowd] * 2.5, [WIDTH, HEIGHT])
    boxes = np.round(np.concatenate([corner, size], 1), 2)
    target = {
        "boxes": torch.from_numpy(boxes),
        "labels": torch.from_numpy(label),
        "iscrowd": torch.from_numpy(crowd.astype(np.int64)),
        "area": torch.from_numpy(np.round(boxes[:, 2] * boxes[:, 3] * r.uniform(0.45, 0.95, total), 4)),
        "counts": torch.from_numpy(np.bincount(image, minlength=images)),
    }
    return Scenes(_detections(r, boxes, label, image, rates, images, most, wrong), target)


def _detections(
    r: np.random.Generator,
    boxes: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    label: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    image: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    rates: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    images: int,
    most: int,
    false_positives: int,
) -> dict[str, Tensor]:
    """Return jittered copies of most ground truths, and a number of false positives per image."""
    classes = len(rates)
    copies = np.where(r.random(len(label)) < 0.86, 1 + r.poisson(1.5, len(label)), 0)
    source = np.repeat(np.arange(len(label)), copies)
    best = np.arange(len(source)) == np.repeat(np.cumsum(copies) - copies, copies)
    jitter = np.where(best, np.abs(r.normal(0, 0.06, len(source))) + 0.01, r.uniform(0.05, 0.35, len(source)))
    found = boxes[source]
    noise = r.normal(0, 1, (len(source), 4)) * jitter[:, None]
    found = np.concatenate([found[:, :2] + noise[:, :2] * found[:, 2:], found[:, 2:] * np.exp(noise[:, 2:])], 1)
    right = _sigmoid(2.2 - 14 * jitter + r.normal(0, 0.9, len(source)))
    copied_label = np.where(r.random(len(source)) < 0.9, label[source], r.choice(classes, len(source), p=rates))
    wrong_image = np.sort(r.integers(0, images, images * false_positives))
    side, aspect = (
        np.exp(r.normal(np.log(50), 1.1, len(wrong_image))).clip(3, 440),
        np.exp(r.normal(0, 0.4, len(wrong_image))),
    )
    size = np.stack([(side * aspect).clip(2, WIDTH), (side / aspect).clip(2, HEIGHT)], 1)
    wrong = np.concatenate([r.random((len(wrong_image), 2)) * ([WIDTH, HEIGHT] - size), size], 1)
    # half of the false positives have a class that occurs in their image
    present = np.searchsorted(image, wrong_image, "left"), np.searchsorted(image, wrong_image, "right")
    pick = np.minimum((present[0] + r.random(len(wrong_image)) * (present[1] - present[0])).astype(int), len(label) - 1)
    other = r.choice(classes, len(wrong_image), p=0.5 * rates + 0.5 / classes)
    other = np.where((r.random(len(wrong_image)) < 0.5) & (present[1] > present[0]), label[pick], other)
    scores = np.concatenate([right, _sigmoid(r.normal(-2.6, 1, len(wrong_image)))]).astype(np.float32)
    all_images = np.concatenate([image[source], wrong_image])
    order = np.lexsort((-scores, all_images))
    counts = np.bincount(all_images, minlength=images)
    order = order[np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts) < most]
    return {
        "boxes": torch.from_numpy(np.concatenate([found, wrong])[order].astype(np.float32)),
        "scores": torch.from_numpy(scores[order]),
        "labels": torch.from_numpy(np.concatenate([copied_label, other])[order]),
        "counts": torch.from_numpy(counts.clip(max=most)),
    }


def dense(images: int = 200, detections: int = 1000, truths: int = 200, seed: int = 0) -> Scenes:
    """Return crowded images of one class. Each detection is a jittered ground truth."""
    generator = torch.Generator().manual_seed(seed)
    size = 20 + 20 * torch.rand(images * truths, 2, generator=generator)
    corner = torch.rand(images * truths, 2, generator=generator) * torch.tensor([WIDTH, HEIGHT])
    boxes = torch.cat([corner, size], 1)
    source = torch.randint(truths, (images, detections), generator=generator) + torch.arange(images)[:, None] * truths
    found = boxes[source.flatten()] * (1 + 0.03 * torch.randn(images * detections, 4, generator=generator))
    counts = torch.full((images,), detections), torch.full((images,), truths)
    labels = [torch.zeros(int(side.sum()), dtype=torch.int64) for side in counts]
    scores = torch.rand(images * detections, generator=generator)
    return Scenes(
        {"boxes": found, "scores": scores, "labels": labels[0], "counts": counts[0]},
        {"boxes": boxes.double(), "labels": labels[1], "counts": counts[1]}
        | {"iscrowd": torch.zeros_like(labels[1]), "area": (size[:, 0] * size[:, 1]).double()},
    )


def clustered(images: int, detections: int, truths: int, spread: float, seed: int = 0) -> Scenes:
    """Return images of one class with boxes of about 80 pixels around one position, as in crowds or images of cells.

    Args:
        images: number of images.
        detections: number of detections per image.
        truths: number of ground truths per image.
        spread: standard deviation of the corners in pixels; with 0 all boxes are equal.
        seed: seed of the random numbers.
    """
    generator = torch.Generator().manual_seed(seed)

    def boxes(count: int) -> Tensor:
        noise = torch.randn(images * count, 4, generator=generator, dtype=torch.float64)
        return torch.cat([200 + spread * noise[:, :2], 80 * torch.exp(spread / 80 * noise[:, 2:])], 1)

    found, true = boxes(detections), boxes(truths)
    labels = [torch.zeros(images * count, dtype=torch.int64) for count in (detections, truths)]
    counts = [torch.full((images,), count) for count in (detections, truths)]
    scores = torch.rand(images * detections, generator=generator)
    return Scenes(
        {"boxes": found.float(), "scores": scores, "labels": labels[0], "counts": counts[0]},
        {"boxes": true, "labels": labels[1], "counts": counts[1]}
        | {"iscrowd": torch.zeros_like(labels[1]), "area": true[:, 2] * true[:, 3]},
    )


def _sigmoid(x: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    out: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = 1 / (1 + np.exp(-x))
    return out
