"""Where to cut a detector, and its tables: CPU seconds of what is read off matches, as shares of the matching."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.detection_scenes import like_coco
from benchmarks.timing import by_turns, head, row
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.rules import coco

NAMES = (
    "operating_points",
    "one threshold for all classes",
    "confusion_matrix",
    "confusion_matrix, any score",
    "per_image",
    "detections_table",
)


def table(sizes: list[int], rounds: int) -> None:
    """CPU seconds of matching boxes, and the shares of these that the rest takes."""
    print("\n### Read off the matches, shares of the seconds of matching\n\n" + head("images", NAMES))
    for images in sizes:
        scenes, metric = like_coco(images), MeanAveragePrecision("xywh")
        metric.warn_on_many_detections = False
        metric.update(scenes.preds, scenes.target)
        columns = metric._columns()
        contenders: dict[str, Callable[[], Any]] = {
            "torch_ap": partial(coco.match, metric._settings, columns, "bbox"),
            NAMES[0]: metric.operating_points,
            NAMES[1]: partial(metric.operating_points, per_class=False),
            NAMES[2]: metric.confusion_matrix,
            NAMES[3]: partial(metric.confusion_matrix, score_threshold=0.0),
            NAMES[4]: metric.per_image,
            NAMES[5]: metric.detections_table,
        }
        print(row(f"{images:,}", by_turns(contenders, rounds, time.process_time), NAMES), flush=True)
