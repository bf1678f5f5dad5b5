"""Oracle of LVIS: random federated scenes, and the package lvis run on them."""

import contextlib
import logging
import sys
import types
import warnings

import numpy as np
import pytest
import torch

from tests.support.oracles_detection import random_scene

# names of the numbers in lvis
NAMES = {
    "map": "AP",
    "map_50": "AP50",
    "map_75": "AP75",
    "map_small": "APs",
    "map_medium": "APm",
    "map_large": "APl",
    "map_rare": "APr",
    "map_common": "APc",
    "map_frequent": "APf",
    "mar_small": "ARs",
    "mar_medium": "ARm",
    "mar_large": "ARl",
}


def random_federated(seed, *, images=None, classes=None):
    """Draw scenes like :func:`random_scene` whose images list categories, with ties, ignored objects and zero areas."""
    preds, target = random_scene(seed, images=images, classes=classes or 3)
    r = np.random.default_rng(seed)
    return preds, [federated(r, one, classes or 3) for one in target]


def federated(r, truth, classes, least=0):
    """Convert a target of COCO to a target of LVIS, with crowds as ignored objects."""
    shown = set(truth["labels"].tolist())
    every = range(least, least + classes)
    negative = [x for x in every if x not in shown and r.random() < 0.6]
    negative += negative[:1] if r.random() < 0.1 else []  # a list may contain one category twice
    area = truth["area"].clone()
    area[torch.from_numpy(r.random(len(area)) < 0.05)] = 0
    return {
        "boxes": truth["boxes"],
        "labels": truth["labels"],
        "area": area,
        "ignore": truth["iscrowd"],
        "neg_category_ids": torch.tensor(negative, dtype=torch.int64),
        "not_exhaustive_category_ids": torch.tensor(
            [x for x in every if x not in negative and r.random() < 0.25], dtype=torch.int64
        ),
    }


def frequencies_of(classes):
    """Return the frequencies of categories, of every kind."""
    return {label: "rcf"[label % 3] for label in range(classes)}


def as_files(preds, target, frequencies, kind="bbox"):
    """Return images as the content of LVIS's files, annotations and results."""
    key, name = {"bbox": ("boxes", "bbox"), "segm": ("masks", "segmentation")}[kind]
    lists = ("neg_category_ids", "not_exhaustive_category_ids")
    images = [{"id": i, **{x: t[x].tolist() for x in lists}} for i, t in enumerate(target)]
    truths, found = [], []
    for image, (p, t) in enumerate(zip(preds, target, strict=True)):
        for i, label in enumerate(t["labels"].tolist()):
            shape = {name: t[key][i].tolist() if kind == "bbox" else t[key][i], "area": float(t["area"][i])}
            ignore = {"ignore": int(t["ignore"][i])} if "ignore" in t else {}
            truths.append({"id": len(truths) + 1, "image_id": image, "category_id": label, **shape, **ignore})
        for i, label in enumerate(p["labels"].tolist()):
            shape = {name: p[key][i].tolist() if kind == "bbox" else p[key][i], "score": float(p["scores"][i])}
            found.append({"image_id": image, "category_id": label, **shape})
    categories = [{"id": x, "name": f"c{x}", "frequency": one} for x, one in frequencies.items()]
    return {"images": images, "annotations": truths, "categories": categories}, found


def lvis_eval(truth, found, kind="bbox", most=300):
    """Return LVISEval after ``run``."""
    lvis = lvis_package()
    data = lvis.LVIS.__new__(lvis.LVIS)
    data.logger, data.dataset = logging.getLogger("lvis"), truth
    data._create_index()
    found = [dict(one) for one in found]  # lvis changes them
    # the reader of lvis requires a first result; one of an unknown category is not evaluated
    found = found or [{"image_id": 0, "category_id": -1, "score": 0.0, "bbox": [0.0, 0.0, 1.0, 1.0]}]
    with numpy_has_float(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        evaluation = lvis.LVISEval(data, lvis.LVISResults(data, found, max_dets=most), kind)
        evaluation.params.max_dets = most
        evaluation.run()
    return evaluation


def lvis_package():
    """Import lvis without OpenCV, which it needs only for drawing and which fails without a display."""
    logging.getLogger("lvis").setLevel(logging.ERROR)
    with contextlib.suppress(ImportError):
        return pytest.importorskip("lvis")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cv2", types.ModuleType("cv2"))
        return pytest.importorskip("lvis")


@contextlib.contextmanager
def numpy_has_float():
    """Provide ``numpy.float``, which lvis 0.5.3 requires and NumPy has removed."""
    if "float" in vars(np):
        yield
        return
    np.float = float  # noqa: NPY001
    try:
        yield
    finally:
        del np.float  # noqa: NPY001
