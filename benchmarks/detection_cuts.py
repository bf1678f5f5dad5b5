"""Operating points and tables of a detector: processor time after the matching, as a share of the matching."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.detection_scenes import like_coco
from benchmarks.timing import print_peer_head, print_peer_row, time_in_turns
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


def print_table(sizes: list[int], rounds: int) -> None:
    """Print the time of the matching, and the time of each result as a share of it."""
    print_peer_head("Results after the matching, as shares of its time", "images", NAMES)
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
        print_peer_row(f"{images:,}", time_in_turns(contenders, rounds, time.process_time), NAMES)
