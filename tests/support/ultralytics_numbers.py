"""Random scenes, and the numbers that the package ultralytics computes for them.

``python -m tests.support.ultralytics_numbers PATH`` writes the numbers of the first scenes by the installed version to
the JSON file, which has one entry per convention. The package requires torchvision, so it is no requirement of the
tests. The committed numbers are those of 8.4.190 and of 8.3.250, installed with ``pip install --no-deps``.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

COMMITTED = 40  # scenes
VALUES = ("precision", "recall", "f1")
LIBRARIES = []  # torch forgets the operators of a library that no longer exists


def scene(seed):
    """Return preds and target of some images; every second scene has whole coordinates, so that IoUs tie."""
    rng = np.random.default_rng(seed)
    classes, preds, target = rng.integers(1, 5), [], []
    for _ in range(rng.integers(1, 7)):
        true = boxes_of(rng, rng.integers(0, 9))
        copies = true[rng.integers(0, max(len(true), 1), rng.integers(0, 2 * len(true) + 1))]
        moved = copies + rng.normal(size=copies.shape) * rng.choice([1.0, 4.0])
        found = np.concatenate([moved, boxes_of(rng, rng.integers(0, 5))])
        if seed % 2:
            true, found = true.round(), found.round()
        found[:, 2:] = np.maximum(found[:, 2:], found[:, :2] + 1)
        score = np.sort(rng.permutation(np.arange(1, 4000))[: len(found)] / 4000)[::-1]
        sides = (found, rng.integers(0, classes, len(found))), (true, rng.integers(0, classes, len(true)))
        (preds_of_image, target_of_image) = (
            {"boxes": torch.tensor(x, dtype=torch.float32).reshape(-1, 4), "labels": torch.tensor(y)} for x, y in sides
        )
        preds.append({**preds_of_image, "scores": torch.tensor(score.copy(), dtype=torch.float32)})
        target.append(target_of_image)
    scores = torch.cat([x["scores"] for x in preds])  # equal scores have no order in the package
    distinct = (scores.argsort().argsort() + 1) / (len(scores) + 1)
    for image, part in zip(preds, distinct.split([len(x["scores"]) for x in preds]), strict=True):
        image["scores"] = part
    return preds, target


def boxes_of(rng, count):
    """Return boxes within 100 pixels."""
    corner = rng.uniform(0, 60, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(5, 40, (count, 2))], 1)


def numbers(preds, target):
    """Return the numbers of the installed package, by the names of torch_ap."""
    declare_operators()
    from ultralytics.engine.validator import BaseValidator
    from ultralytics.utils.metrics import ap_per_class, box_iou

    settings = SimpleNamespace(iouv=torch.linspace(0.5, 0.95, 10))
    tp = [
        BaseValidator.match_predictions(settings, p["labels"], t["labels"], box_iou(t["boxes"], p["boxes"])).numpy()
        if len(p["labels"]) and len(t["labels"])
        else np.zeros((len(p["labels"]), 10), bool)
        for p, t in zip(preds, target, strict=True)
    ]
    columns = (
        *(torch.cat([x[name] for x in preds]).numpy() for name in ("scores", "labels")),
        torch.cat([x["labels"] for x in target]).numpy(),
    )
    _, _, precision, recall, f1, ap, classes, *_ = ap_per_class(np.concatenate(tp), *columns)
    values = {"map_per_class": ap.mean(1), "map_50_per_class": ap[:, 0]}
    values |= {f"{name}_per_class": x for name, x in zip(VALUES, (precision, recall, f1), strict=True)}
    return {name: np.asarray(x, float).tolist() for name, x in values.items()} | {"classes": classes.tolist()}


def declare_operators():
    """Declare the operators whose absence prevents the import of torchvision beside another build of torch."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    LIBRARIES.append(library)


def convention():
    """Return the name of the convention of the installed package."""
    declare_operators()
    import ultralytics

    version = tuple(map(int, ultralytics.__version__.split(".")[:2]))
    return "ultralytics" if version >= (8, 4) else "ultralytics-8.3"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    stored = json.loads(path.read_text()) if path.exists() else {}
    stored[convention()] = [numbers(*scene(seed)) for seed in range(COMMITTED)]
    path.write_text(json.dumps(stored, indent=None, separators=(",", ":")) + "\n")
