"""Oracle of the errors of a detector, one detection and ground truth after another, and runs of tidecv."""

import contextlib
import io
from functools import cache

import numpy as np
import pytest
import torch

KINDS = ("classification", "localization", "both", "duplicate", "background", "missed")


def matched_by_coco(ious, ignored, crowd, threshold):
    """Return the ground truth of each detection of one image and class, best first; None if unmatched."""
    taken, out = set(), []
    for row in ious:
        best = None
        for only_ignored in (False, True):
            for j, iou in enumerate(row):
                if ignored[j] == only_ignored and (j not in taken or crowd[j]) and iou >= min(threshold, 1 - 1e-10):
                    best = j if best is None or iou >= row[best] else best
            if best is not None:
                break
        taken.add(best)
        out.append(best)
    return out


def matched_by_voc(ious, ignored, _, threshold):
    """Match the detections of one image and class by VOC's rule."""
    taken, out = set(), []
    for row in ious:
        best = max(range(len(row)), key=lambda j: row[j], default=None) if len(row) and max(row) > 0 else None
        best = None if best is None or row[best] < threshold or (best in taken and not ignored[best]) else best
        taken.add(best)
        out.append(best)
    return out


@cache
def average_precision(points, m, levels):
    """Return the mean precision at recall levels of (score, order, hit), best score first, ties by order."""
    if m == 0:
        return 0.0
    hits, found, each = 0, [], sorted(points, key=lambda x: (-x[0], x[1]))
    for place, (_, _, hit) in enumerate(each):
        hits += hit
        found.append((hits / m, hits / (place + 1)))
    recall, precision = np.array(found).reshape(-1, 2).T
    highest = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0)
    if isinstance(levels, str):
        return float(sum(highest[i] for i, (_, _, hit) in enumerate(each) if hit)) / m
    return float(highest[np.searchsorted(recall, levels)].mean())


class Errors:
    """Outcome of every detection and ground truth, for images as dicts.

    Args:
        preds, target: lists of dicts; ``iscrowd`` or ``difficult``.
        ious: two (D, G) float64 matrices per image, with crowds and with all ground truths as ordinary ones.
        levels: recall levels, or "all-points".
        matched: a rule of matching.
    """

    def __init__(self, preds, target, ious, levels, *, matched=matched_by_coco, threshold=0.5, background=0.1):
        self.levels, self.background, self.threshold = levels, background, threshold
        self.detections, self.truths = [], []
        for image, (p, t, (crowded, plain)) in enumerate(zip(preds, target, ious, strict=True)):
            crowd = [bool(x) for x in t["iscrowd" if "iscrowd" in t else "difficult"]]
            truths = [
                {"image": image, "row": j, "class": c, "valid": not crowd[j], "found": False, "about": []}
                for j, c in enumerate(t["labels"].tolist())
            ]
            detections = [
                {"image": image, "row": i, "class": c, "score": s, "truth": None, "iou": float("nan"), "kind": None}
                for i, (c, s) in enumerate(zip(p["labels"].tolist(), p["scores"].tolist(), strict=True))
            ]
            order = sorted(detections, key=lambda x: -x["score"])
            for c in {x["class"] for x in detections}:
                rows = [x for x in order if x["class"] == c]
                own = [j for j, x in enumerate(truths) if x["class"] == c]
                ignored = [crowd[j] for j in own]
                found = matched([[crowded[x["row"], j] for j in own] for x in rows], ignored, ignored, threshold)
                for x, j in zip(rows, found, strict=True):
                    if j is not None:
                        x |= {"truth": truths[own[j]], "iou": crowded[x["row"], own[j]]}
                        x["kind"] = "true positive" if truths[own[j]]["valid"] else "ignored"
                        truths[own[j]]["found"] = truths[own[j]]["valid"]
            for x in order:
                if x["kind"] is None:
                    self._explain(x, truths, plain[x["row"]])
            self.detections += detections
            self.truths += truths
        for order, x in enumerate(self.detections):
            x["order"] = order

    def _explain(self, x, truths, ious):
        def best(own):
            each = [(ious[t["row"]], t) for t in truths if t["valid"] and (t["class"] == x["class"]) == own]
            return max(each, key=lambda pair: pair[0], default=(0.0, None))

        (own, own_truth), (other, other_truth) = best(True), best(False)
        if self.background <= own <= self.threshold:
            x |= {"kind": "localization", "truth": own_truth, "iou": own}
        elif other >= self.threshold:
            x |= {"kind": "classification", "truth": other_truth, "iou": other}
        elif own > self.threshold:
            x |= {"kind": "duplicate", "truth": own_truth, "iou": own}
        elif other > self.background:
            x |= {"kind": "both", "truth": other_truth, "iou": other}
        else:
            x["kind"] = "background"
        if x["kind"] in ("localization", "classification") and not x["truth"]["found"]:
            x["truth"]["about"].append(x)

    def points(self, fixed=()):
        """Return {class: [(score, order, hit)]} with errors of these kinds fixed."""
        out = {}
        for x in self.detections:
            name, hit = x["class"], x["kind"] == "true positive"
            if x["kind"] == "ignored":
                continue
            if x["kind"] in fixed:
                about = (x["truth"] or {}).get("about", [])
                if not about or x["kind"] not in ("localization", "classification") or about[0] is not x:
                    continue
                name, hit = x["truth"]["class"], True
            out.setdefault(name, []).append((x["score"], x["order"], hit))
        return out

    def relevant(self, fixed=()):
        """Return {class: ground truths}, without the missed ones or the undetected ones if these kinds are fixed."""
        out = {}
        for t in self.truths:
            lost = t["valid"] and not t["found"]
            gone = ("missed" in fixed and lost and not t["about"]) or ("false_negatives" in fixed and lost)
            out[t["class"]] = out.get(t["class"], 0) + (t["valid"] and not gone)
        return out

    def ap(self, fixed=()):
        """Return {class: AP} of classes with ground truths; None if neither truths nor detections remain."""
        points, m = self.points(fixed), self.relevant(fixed)
        if "false_positives" in fixed:
            points = {c: [x for x in each if x[2]] for c, each in points.items()}
        return {
            c: average_precision(tuple(points.get(c, ())), m[c], self.levels) if m[c] or points.get(c) else None
            for c, count in self.relevant().items()
            if count
        }

    def costs(self):
        """Return {kind: ({class: cost}, cost)} and the AP."""
        before = self.ap()
        mean = np.mean([*before.values()])
        out = {}
        for kind in (*KINDS, "false_positives", "false_negatives"):
            after = self.ap((kind,))
            left = [x for x in after.values() if x is not None]
            each = {c: float("nan") if x is None else x - before[c] for c, x in after.items()}
            out[kind] = each, (np.mean(left) if left else float("nan")) - mean
        return out, mean

    def counts(self):
        """Return {kind: {class: number of errors}}."""
        out = {kind: {} for kind in (*KINDS, "false_positives", "false_negatives")}

        def add(kind, name):
            out[kind][name] = out[kind].get(name, 0) + 1

        for x in self.detections:
            if x["kind"] not in ("true positive", "ignored"):
                add(x["kind"], x["class"])
                add("false_positives", x["class"])
        for t in self.truths:
            if t["valid"] and not t["found"]:
                add("false_negatives", t["class"])
                if not t["about"]:
                    add("missed", t["class"])
        return out


def tidecv_run(preds, target, *, key="bbox", crowds=False):
    """Return a run of ``tidecv`` on images of boxes in xywh, or of codes under "masks"."""
    pytest.importorskip("cv2")
    pytest.importorskip("appdirs")
    matplotlib, tide = pytest.importorskip("matplotlib"), pytest.importorskip("tidecv")
    from tidecv.data import Data

    truths, found = Data("truths"), Data("found")
    for image, (p, t) in enumerate(zip(preds, target, strict=True)):
        truths.add_image(image, str(image))
        for j, label in enumerate(t["labels"].tolist()):
            truths.add_class(label, str(label))
            add = truths.add_ignore_region if crowds and t["iscrowd"][j] else truths.add_ground_truth
            add(image, label, **_shape(t, j, key))
        for i, label in enumerate(p["labels"].tolist()):
            found.add_detection(image, label, float(p["scores"][i]), **_shape(p, i, key))
    with (
        contextlib.redirect_stdout(io.StringIO()),
        matplotlib.rc_context(),
    ):  # tidecv changes matplotlib's settings
        return tide.TIDE(mode=key).evaluate(truths, found)


def _shape(image, row, key):
    return {"box": image["boxes"][row].tolist()} if key == "bbox" else {"mask": image["masks"][row]}


def tidecv_costs(run):
    """Return the costs by kind and the AP in the format of :meth:`Errors.costs`, as separate values."""
    short = {"Cls": 0, "Loc": 1, "Both": 2, "Dupe": 3, "Bkg": 4, "Miss": 5}
    found = {KINDS[short[kind.short_name]]: cost / 100 for kind, cost in run.fix_main_errors().items()}
    positives, negatives = run.fix_special_errors().values()
    counts = {KINDS[short[kind.short_name]]: count for kind, count in run.count_errors().items()}
    return found | {"false_positives": positives / 100, "false_negatives": negatives / 100}, run.ap / 100, counts


def untied(preds):
    """Replace equal scores by distinct ones in the order of evaluation."""
    every = torch.cat([image["scores"] for image in preds]).double()
    order = torch.sort(every, descending=True, stable=True).indices
    rank = torch.empty(len(every), dtype=torch.float64)
    rank[order] = torch.arange(len(every), 0, -1, dtype=torch.float64) / (len(every) + 1)
    parts = rank.split([len(image["scores"]) for image in preds])
    return [{**image, "scores": part} for image, part in zip(preds, parts, strict=True)]
