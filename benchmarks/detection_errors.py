"""Errors of a detector: ``errors``, ``lrp`` and ``confusion_matrix``, compared with hotcoco, vernier and tidecv."""

import contextlib
import importlib
import io
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.detection_peers import box_annotations
from benchmarks.detection_scenes import Scenes, like_coco
from benchmarks.timing import print_peer_head, print_peer_row, time_in_turns, time_once
from torch_ap.detection import MeanAveragePrecision

Files = tuple[dict[str, Any], list[dict[str, Any]]]
PEERS = ("hotcoco", "vernier", "tidecv")
SCORE = 0.25  # least score of the detections of the confusion matrix, the default of torch_ap


def ours(scenes: Scenes, method: str) -> None:
    """Call a method of a new metric, which has no cached matches."""
    metric = MeanAveragePrecision("xywh")
    metric.update(scenes.preds, scenes.target)
    getattr(metric, method)()


def hotcoco(files: Files) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return hotcoco's evaluation with errors, and its confusion matrix. The files are loaded before."""
    package = importlib.import_module("hotcoco")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("truths.json", "found.json")]
        for path, content in zip(paths, files, strict=True):
            path.write_text(json.dumps(content))
        truths = package.COCO(str(paths[0]))
        found = truths.load_res(str(paths[1]))

    def errors() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = package.COCOeval(truths, found, "bbox")
            evaluation.evaluate()
            evaluation.tide_errors()

    return errors, lambda: package.COCOeval(truths, found, "bbox").confusion_matrix(min_score=SCORE)


def vernier(files: Files, function: str) -> Callable[[], Any]:
    """Return the call of a function of vernier, which parses text."""
    call = getattr(importlib.import_module("vernier.instance"), function)
    truths, found = (json.dumps(content).encode() for content in files)
    return lambda: call(truths, found)


def tidecv(files: Files) -> Callable[[], Any]:
    """Return the evaluation and errors of tidecv. The data are loaded before."""
    package, data = importlib.import_module("tidecv"), importlib.import_module("tidecv.data").Data
    truths, found = data("truths"), data("found")
    for image in files[0]["images"]:
        truths.add_image(image["id"], str(image["id"]))
    for truth in files[0]["annotations"]:
        add = truths.add_ignore_region if truth["iscrowd"] else truths.add_ground_truth
        truths.add_class(truth["category_id"], "")
        add(truth["image_id"], truth["category_id"], truth["bbox"])
    for detection in files[1]:
        found.add_detection(detection["image_id"], detection["category_id"], detection["score"], detection["bbox"])

    def run() -> None:
        evaluation = package.TIDE().evaluate(truths, found)
        evaluation.fix_main_errors()
        evaluation.fix_special_errors()

    return run


def print_tables(sizes: list[int], rounds: int) -> None:
    """Print the processor time from loaded images to errors, LRP and confusion matrix. The slow tidecv runs once."""
    names = [name for name in PEERS if find_spec(name)]
    print_peer_head("Errors of images in memory, processor time", "images", names)
    for images in sizes:
        scenes = like_coco(images)
        files = box_annotations(scenes)
        contenders: dict[str, Callable[[], Any]] = {"torch_ap": partial(ours, scenes, "errors")}
        confusion: dict[str, Callable[[], Any]] = {"torch_ap": partial(ours, scenes, "confusion_matrix")}
        if "hotcoco" in names:
            contenders["hotcoco"], confusion["hotcoco"] = hotcoco(files)
        contenders |= {"vernier": vernier(files, "error_decomposition")} if "vernier" in names else {}
        seconds = time_in_turns(contenders, rounds, time.process_time, warm_up=True)
        seconds |= time_once({"tidecv": tidecv(files)}, time.process_time) if "tidecv" in names else {}
        print_peer_row(f"{images:,}", seconds, names)
        if "vernier" in names:
            lrp: dict[str, Callable[[], Any]] = {
                "torch_ap": partial(ours, scenes, "lrp"),
                "vernier": vernier(files, "optimal_lrp"),
            }
            print_peer_row(f"{images:,}, LRP", time_in_turns(lrp, rounds, time.process_time, warm_up=True), names)
        if "hotcoco" in names:
            took = time_in_turns(confusion, rounds, time.process_time, warm_up=True)
            print_peer_row(f"{images:,}, confusion matrix", took, names)
