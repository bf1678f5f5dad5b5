"""What a detector gets wrong: CPU seconds of all that says so, against hotcoco, vernier and tidecv."""

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

from benchmarks.detection_scenes import Scenes, like_coco
from benchmarks.timing import by_turns, head, once, row
from torch_ap.detection import MeanAveragePrecision

Files = tuple[dict[str, Any], list[dict[str, Any]]]
PEERS = ("hotcoco", "vernier", "tidecv")


def ours(scenes: Scenes, method: str) -> None:
    """A method of a new metric, which has kept no matches."""
    metric = MeanAveragePrecision("xywh")
    metric.update(scenes.preds, scenes.target)
    getattr(metric, method)()


def hotcoco(files: Files) -> Callable[[], Any]:
    """Its evaluation and its errors, of files that are loaded before."""
    package = importlib.import_module("hotcoco")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("truths.json", "found.json")]
        for path, content in zip(paths, files, strict=True):
            path.write_text(json.dumps(content))
        truths = package.COCO(str(paths[0]))
        found = truths.load_res(str(paths[1]))

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = package.COCOeval(truths, found, "bbox")
            evaluation.evaluate()
            evaluation.tide_errors()

    return run


def vernier(files: Files, function: str) -> Callable[[], Any]:
    """One of its functions, which read text."""
    call = getattr(importlib.import_module("vernier.instance"), function)
    truths, found = (json.dumps(content).encode() for content in files)
    return lambda: call(truths, found)


def tidecv(files: Files) -> Callable[[], Any]:
    """Its evaluation and its errors, of data that are loaded before."""
    package, data = importlib.import_module("tidecv"), importlib.import_module("tidecv.data").Data
    truths, found = data("truths"), data("found")
    for image in files[0]["images"]:
        truths.add_image(image["id"], str(image["id"]))
    for one in files[0]["annotations"]:
        add = truths.add_ignore_region if one["iscrowd"] else truths.add_ground_truth
        truths.add_class(one["category_id"], "")
        add(one["image_id"], one["category_id"], one["bbox"])
    for one in files[1]:
        found.add_detection(one["image_id"], one["category_id"], one["score"], one["bbox"])

    def run() -> None:
        evaluation = package.TIDE().evaluate(truths, found)
        evaluation.fix_main_errors()
        evaluation.fix_special_errors()

    return run


def table(sizes: list[int], rounds: int, as_annotations: Callable[[Scenes], Files]) -> None:
    """CPU seconds from loaded images to errors, and to LRP, of the peers that are installed; tidecv runs once."""
    names = [name for name in PEERS if find_spec(name)]
    print("\n### Errors of images in memory, CPU seconds\n\n" + head("images", names))
    for images in sizes:
        scenes = like_coco(images)
        files = as_annotations(scenes)
        contenders: dict[str, Callable[[], Any]] = {"torch_ap": partial(ours, scenes, "errors")}
        contenders |= {"hotcoco": hotcoco(files)} if "hotcoco" in names else {}
        contenders |= {"vernier": vernier(files, "error_decomposition")} if "vernier" in names else {}
        seconds = by_turns(contenders, rounds, time.process_time, warmed=True)
        seconds |= once({"tidecv": tidecv(files)}, time.process_time) if "tidecv" in names else {}
        print(row(f"{images:,}", seconds, names), flush=True)
        if "vernier" in names:
            lrp: dict[str, Callable[[], Any]] = {
                "torch_ap": partial(ours, scenes, "lrp"),
                "vernier": vernier(files, "optimal_lrp"),
            }
            print(row(f"{images:,}, LRP", by_turns(lrp, rounds, time.process_time, warmed=True), names), flush=True)
