"""Detection oracles: random scenes, pycocotools run on them, and VOC's rules one detection at a time."""

import contextlib
import functools
import io

import numpy as np
import pytest
import torch

from torch_ap.detection.shapes import rotated


def random_scene(seed, *, images=None, classes=None):
    """Draw a small data set of hard cases: ties, crowds, equal IoUs, boundary areas, empty images and classes."""
    preds, target = ([{key: x.clone() for key, x in y.items()} for y in side] for side in _drawn(seed, images, classes))
    return preds, target


@functools.cache
def _drawn(seed, images, classes):
    r = np.random.default_rng(seed)
    images = images or int(r.integers(1, 7))
    classes = classes or int(r.integers(1, 4))
    grid = [4.0, 8.0, 16.0, 32.0][int(r.integers(4))]
    scores = np.array([0.1, 0.3, 0.5, 0.9]) if r.random() < 0.6 else r.random(50)
    preds, target = [], []
    for _ in range(images):
        g = 0 if r.random() < 0.15 else int(r.integers(0, 6))
        d = 0 if r.random() < 0.15 else int(r.integers(0, 12))
        true = _boxes(r, g, grid)
        found = _boxes(r, d, grid)
        for i in range(d):
            if g and r.random() < 0.6:
                found[i] = true[r.integers(g)]
                if r.random() < 0.7:
                    found[i] = np.maximum(found[i] + r.integers(-2, 3, 4) * grid / 4, 0)
        areas = true[:, 2] * true[:, 3] * (1 if r.random() < 0.5 else 0.7)
        if g and r.random() < 0.3:
            areas[r.integers(g)] = [1024.0, 9216.0, 1023.9999999][int(r.integers(3))]
        preds.append(
            {
                "boxes": torch.from_numpy(found),
                "scores": torch.from_numpy(r.choice(scores, d)),
                "labels": torch.from_numpy(r.integers(0, classes, d)),
            }
        )
        target.append(
            {
                "boxes": torch.from_numpy(true),
                "labels": torch.from_numpy(r.integers(0, classes, g)),
                "iscrowd": torch.from_numpy((r.random(g) < 0.2).astype(np.int64)),
                "area": torch.from_numpy(areas),
            }
        )
    return preds, target


def random_rotated(seed, *, images=None, classes=None, box_format="cxcywhr"):
    """Draw scenes like :func:`random_scene` with rotated boxes, whose ground truths have their own areas."""
    preds, target = random_scene(seed, images=images, classes=classes)
    r = np.random.default_rng(seed)
    angles = [np.array([0, 45, 90, 180]), r.integers(-400, 400, 3) / 2][int(r.integers(2))]
    for image in (*preds, *target):
        boxes = image["boxes"]
        angle = torch.from_numpy(r.choice(angles, (len(boxes), 1)).astype(np.float64))
        image["boxes"] = torch.cat([boxes, angle], 1)
        if box_format == "xyxyxyxy":
            image["boxes"] = rotated.corners(image["boxes"], "cxcywhr").flatten(1)
        image.pop("area", None)
    return preds, target


def random_intervals(seed, *, images=None, classes=None):
    """Draw scenes like :func:`random_scene` with intervals."""
    preds, target = random_scene(seed, images=images, classes=classes)
    for image in (*preds, *target):
        boxes = image.pop("boxes")
        image["intervals"] = torch.stack([boxes[:, 0], boxes[:, 0] + boxes[:, 2]], 1)
        image.pop("area", None)
    return preds, target


def joined(draw, seeds, *, groups=None, **settings):
    """Join scenes to one data set; the classes of each scene, or of its group, are distinct and three at most."""
    preds, target = [], []
    for place, seed in enumerate(seeds):
        for side, images in zip((preds, target), draw(seed, **settings), strict=True):
            side += [{**image, "labels": image["labels"] + 3 * (place % (groups or len(seeds)))} for image in images]
    return preds, target


def many(draw, **settings):
    """Draw 2,000 images of six regular classes, one without truths, one without detections and one of crowds."""
    preds, target = joined(draw, range(80), groups=2, images=25, classes=3, **settings)
    busy = [i for i, sides in enumerate(zip(preds, target, strict=True)) if all(len(x["labels"]) for x in sides)]
    for image, label in ((preds[busy[0]], 6), (target[busy[1]], 7), (target[busy[2]], 8)):
        image["labels"] = torch.full_like(image["labels"], label)
    target[busy[2]]["iscrowd"] = torch.ones_like(target[busy[2]]["iscrowd"])
    return preds, target


def random_poses(seed, *, images=None, classes=None, points=17):
    """Draw scenes like :func:`random_scene` with keypoints, some unlabelled, and areas on a boundary."""
    preds, target = random_scene(seed, images=images, classes=classes)
    r = np.random.default_rng(seed)
    for p, t in zip(preds, target, strict=True):
        d, g = len(p["labels"]), len(t["labels"])
        sizes = 1 + t["boxes"][:, None, 2:].numpy()
        true = t["boxes"][:, None, :2].numpy() + sizes * r.random((g, points, 2)).round(2)
        flags = r.choice([0, 1, 2], (g, points, 1), p=[0, 0, 1] if r.random() < 0.4 else [0.4, 0.1, 0.5])
        flags[r.random(g) < 0.2] = 0
        found = 100 * r.random((d, points, 2))
        for i in range(d):
            if g and r.random() < 0.8:
                j = r.integers(g)
                found[i] = true[j] + r.choice([0, 0.02, 0.1, 0.3]) * sizes[j] * r.standard_normal((points, 2))
        del p["boxes"]
        p["keypoints"] = torch.from_numpy(np.concatenate([found, r.random((d, points, 1))], 2))
        t["keypoints"] = torch.from_numpy(np.concatenate([true * (flags > 0), flags], 2))
    return preds, target


def _boxes(r, count, grid):
    size = r.integers(0 if r.random() < 0.1 else 1, 6, (count, 2)) * grid
    corner = r.integers(0, 6, (count, 2)) * grid
    return np.concatenate([corner, size], 1).astype(np.float64)


def pycocotools_eval(
    preds,
    target,
    *,
    kind="bbox",
    thresholds=None,
    levels=None,
    limits=None,
    areas=None,
    sigmas=None,
    similarity=None,
):
    """Return COCOeval after ``accumulate``, for boxes in xywh, for ``keypoints``, or for codes under ``masks``.

    ``similarity`` of an image and the rows of its detections and ground truths replaces the IoU of pycocotools.
    """
    COCO = pytest.importorskip("pycocotools.coco").COCO  # noqa: N806
    COCOeval = pytest.importorskip("pycocotools.cocoeval").COCOeval  # noqa: N806
    key, name = {
        "bbox": ("boxes", "bbox"),
        "segm": ("masks", "segmentation"),
        "keypoints": ("keypoints", "keypoints"),
    }[kind]

    def shape_of(image, i):
        shape = image[key][i]
        return dict(shape) if kind == "segm" else shape.flatten().tolist()

    labels = sorted({int(x) for side in (preds, target) for image in side for x in image["labels"]})
    truths, found = [], []
    for image, (p, t) in enumerate(zip(preds, target, strict=True)):
        for i, label in enumerate(t["labels"].tolist()):
            area = float(t["area"][i])
            one = {"id": len(truths) + 1, "image_id": image, "category_id": label, "area": area}
            if kind == "keypoints":
                one |= {"bbox": t["boxes"][i].tolist(), "num_keypoints": int((t[key][i, :, 2] > 0).sum())}
            truths.append({**one, name: shape_of(t, i), "iscrowd": int(t["iscrowd"][i])})
        for i, label in enumerate(p["labels"].tolist()):
            found.append(
                {"image_id": image, "category_id": label, name: shape_of(p, i), "score": float(p["scores"][i])}
            )
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": image, "height": 64, "width": 64} for image in range(len(preds))],
            "annotations": truths,
            "categories": [{"id": label, "name": str(label)} for label in labels],
            "info": {},
        }
        truth.createIndex()
        if found:
            results = truth.loadRes(found)
        else:
            results = COCO()
            results.dataset = {**truth.dataset, "annotations": []}
            results.createIndex()
        settings = COCOeval(truth, results, kind)
        if thresholds is not None:
            settings.params.iouThrs = np.array(thresholds)
        if levels is not None:
            settings.params.recThrs = np.array(levels)
        if limits is not None:
            settings.params.maxDets = list(limits)
        if sigmas is not None:
            settings.params.kpt_oks_sigmas = np.array(sigmas)
        if areas is not None:
            settings.params.areaRng = [list(bounds) for bounds in areas]
            settings.params.areaRngLbl = [str(i) for i in range(len(areas))]
        if similarity is not None:
            settings.computeIoU = lambda image, label: _similarities(preds, target, similarity, image, label)
        settings.evaluate()
        settings.accumulate()
    return settings


def _similarities(preds, target, similarity, image, label):
    """Return the similarities of the detections of one image and class, best first, in the form of ``computeIoU``."""
    d, g = ((side[image]["labels"] == label).nonzero().flatten() for side in (preds, target))
    d = d[preds[image]["scores"][d].argsort(descending=True, stable=True)][:100]
    return similarity(image, d, g) if len(d) and len(g) else []


def voc_ap(preds, target, label, threshold, *, pixel, strict, eleven):
    """Return the AP of one class by the VOC devkit, one detection after another; NaN without ground truths.

    Boxes are xyxy, or ``ious`` contains the similarities of each image; ``difficult`` objects are neither hits nor
    misses.
    """
    truths = [
        (image, j, bool(t["difficult"][j]))
        for image, t in enumerate(target)
        for j, name in enumerate(t["labels"].tolist())
        if name == label
    ]
    found = [
        (float(p["scores"][i]), image, i)
        for image, p in enumerate(preds)
        for i, name in enumerate(p["labels"].tolist())
        if name == label
    ]
    positives = sum(not hard for _, _, hard in truths)
    if not positives:
        return float("nan")
    of_image = {}
    for place, (image, j, _) in enumerate(truths):
        of_image.setdefault(image, []).append((place, j))
    taken, hits, points = set(), 0, []
    misses = 0

    def similarity(image, i, j):
        if "ious" in preds[image]:
            return float(preds[image]["ious"][i, j]) or None
        return _voc_iou(preds[image]["boxes"][i].tolist(), target[image]["boxes"][j].tolist(), pixel)

    for _, image, i in sorted(found, key=lambda x: -x[0]):
        best, chosen = -np.inf, None
        for place, j in of_image.get(image, ()):
            overlap = similarity(image, i, j)
            if overlap is not None and overlap > best:
                best, chosen = overlap, place
        if best > threshold if strict else best >= threshold:
            if truths[chosen][2]:
                continue
            if chosen in taken:
                misses += 1
            else:
                taken.add(chosen)
                hits += 1
        else:
            misses += 1
        points.append((hits / positives, hits / (hits + misses)))
    if eleven:
        return sum(max([p for r, p in points if r >= j / 10], default=0.0) for j in range(11)) / 11
    area, last = 0.0, 0.0
    for place, (recall, _) in enumerate(points):
        if recall > last:
            area += (recall - last) * max(p for _, p in points[place:])
            last = recall
    return area


def _voc_iou(one, two, pixel):
    wide = min(one[2], two[2]) - max(one[0], two[0]) + pixel
    high = min(one[3], two[3]) - max(one[1], two[1]) + pixel
    if wide <= 0 or high <= 0:
        return None
    size = [(box[2] - box[0] + pixel) * (box[3] - box[1] + pixel) for box in (one, two)]
    return wide * high / (size[0] + size[1] - wide * high)


def packed(images):
    """Pack lists of dicts into one dict with ``counts``."""
    counts = torch.tensor([len(image["labels"]) for image in images])
    return {key: torch.cat([image[key] for image in images]) for key in images[0]} | {"counts": counts}


def to_voc(preds, target):
    """Convert scenes to xyxy, with crowds as difficult objects."""

    def corners(boxes):
        size = boxes[:, 2:].clamp(min=1)
        return torch.cat([boxes[:, :2], boxes[:, :2] + size], 1)

    preds = [{**image, "boxes": corners(image["boxes"])} for image in preds]
    target = [
        {"boxes": corners(image["boxes"]), "labels": image["labels"], "difficult": image["iscrowd"]} for image in target
    ]
    return preds, target
