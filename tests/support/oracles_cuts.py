"""Oracles of operating points and confusion matrices of detectors, one detection after another."""

import math

import numpy as np
from scipy import stats


def plain(images):
    """Convert images to lists of numbers."""
    return [{key: x.tolist() for key, x in image.items()} for image in images]


def coco_iou(one, two, crowd=False):
    """Return the IoU of two boxes in xywh."""
    wide = min(one[0] + one[2], two[0] + two[2]) - max(one[0], two[0])
    if wide <= 0:
        return 0.0
    high = min(one[1] + one[3], two[1] + two[3]) - max(one[1], two[1])
    if high <= 0:
        return 0.0
    size, inter = one[2] * one[3], wide * high
    return inter / (size if crowd else size + two[2] * two[3] - inter)


def matched(p, t, iou_threshold=0.5):
    """Return the ground truth that each detection of an image matches by COCO's rule, or None."""
    out, free = [None] * len(p["labels"]), [True] * len(t["labels"])
    for i in sorted(range(len(out)), key=lambda i: -p["scores"][i]):
        crowd, found = t["iscrowd"], []
        for j, label in enumerate(t["labels"]):
            if label == p["labels"][i] and free[j]:
                iou = coco_iou(p["boxes"][i], t["boxes"][j], crowd[j])
                found += [(not crowd[j], iou, j)] if iou >= iou_threshold else []
        if found:
            out[i] = max(found)[2]
            free[out[i]] = bool(crowd[out[i]])
    return out


def coco_items(preds, target):
    """Return by label the counted detections (image, score, is hit) and the image of each ground truth."""
    out = {}
    for image, (p, t) in enumerate(zip(preds, target, strict=True)):
        for label, crowd in zip(t["labels"], t["iscrowd"], strict=True):
            out.setdefault(label, ([], []))[1].extend([image] * (not crowd))
        for label, score, j in zip(p["labels"], p["scores"], matched(p, t), strict=True):
            items = out.setdefault(label, ([], []))[0]
            if j is None or not t["iscrowd"][j]:
                items.append((image, score, j is not None))
    return dict(sorted(out.items()))


def f_beta(tp, fp, fn, beta=1.0):
    return (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp) if tp + fp + fn else math.nan


def counts(items, truths, threshold):
    kept = [hit for _, score, hit in items if score >= threshold]
    return sum(kept), len(kept) - sum(kept), len(truths) - sum(kept)


def every_count(items, truths):
    """Yield the counts at every threshold, in descending order."""
    return [(x, counts(items, truths, x)) for x in sorted({score for _, score, _ in items}, reverse=True)]


def best(every, *, beta=1.0, precision=None, recall=None):
    """Return the best threshold of :func:`every_count`, or NaN if there is none."""
    chosen, highest = math.nan, -math.inf
    for threshold, (tp, fp, fn) in every:
        value = f_beta(tp, fp, fn, beta)
        if precision is not None:
            value = tp if tp and tp / (tp + fp) >= precision else -math.inf
        if recall is not None:
            value = tp / (tp + fp) if tp and tp / (tp + fn) >= recall else -math.inf
        if tp and (value > highest or (recall is not None and value == highest > -math.inf)):
            chosen, highest = threshold, value
    return chosen


def ends(items, truths, threshold, *, beta=1.0, level=0.95):
    """Return the interval ends of precision, recall and F, image by image."""
    images = sorted({*truths, *(image for image, score, _ in items if score >= threshold)})
    rows = []
    for image in images:
        kept = [hit for where, score, hit in items if where == image and score >= threshold]
        rows.append((sum(kept), len(kept), truths.count(image)))
    tp, n, m = (np.array(x, dtype=float) for x in zip(*rows, strict=True)) if rows else (np.zeros(0),) * 3
    out = []
    for a, b, most in (
        (tp, n, n.sum()),
        (tp, m, m.sum()),
        ((1 + beta**2) * tp, beta**2 * m + n, (n + m - tp).sum()),
    ):
        held = int((b > 0).sum())
        if held < 2:
            out.append((math.nan, math.nan))
            continue
        p = a.sum() / b.sum()
        variance = ((a - p * b) ** 2).sum() / b.sum() ** 2 * held / (held - 1)
        trials = min(most, p * (1 - p) / variance) if variance > 1e-18 and 0 < p < 1 else most
        t = stats.t.isf((1 - level) / 2, held - 1)
        centre = (p + t * t / (2 * trials)) / (1 + t * t / trials)
        half = t * math.sqrt(p * (1 - p) / trials + t * t / (4 * trials**2)) / (1 + t * t / trials)
        out.append((max(0.0, centre - half), min(1.0, centre + half)))
    return out


def confusion(preds, target, labels, score_threshold, iou_threshold=0.5, *, by_iou=False):
    """Return the confusion matrix, matched by COCO's rule or by IoU in each class, then across classes."""
    place = {label: k for k, label in enumerate(labels)}
    matrix = np.zeros((len(labels) + 1, len(labels) + 1), dtype=np.int64)
    for p, t in zip(preds, target, strict=True):
        partner = matched(p, t, iou_threshold)
        detected = {i for i, x in enumerate(p["scores"]) if x >= score_threshold}
        detected -= {i for i, j in enumerate(partner) if j is not None and t["iscrowd"][j]}
        true = {j for j, crowd in enumerate(t["iscrowd"]) if not crowd}
        one, two = ([place[x] for x in side["labels"]] for side in (p, t))
        for i in [i for i in detected if partner[i] is not None and not by_iou]:
            detected.remove(i)
            true.remove(partner[i])
            matrix[one[i], one[i]] += 1
        overlap = {(i, j): coco_iou(p["boxes"][i], t["boxes"][j]) for i in detected for j in true}
        pairs = [((one[i] != two[j], -x, -p["scores"][i]), i, j) for (i, j), x in overlap.items() if x >= iou_threshold]
        for *_, i, j in sorted(pairs):
            if i in detected and j in true:
                detected.remove(i)
                true.remove(j)
                matrix[two[j], one[i]] += 1
        for j in true:
            matrix[two[j], -1] += 1
        for i in detected:
            matrix[-1, one[i]] += 1
    return matrix
