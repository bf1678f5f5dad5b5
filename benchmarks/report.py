"""Time of a page of a good or weak detector beyond the import of torch, torchmetrics and matplotlib, and its size.

    python -m benchmarks.report

Each page is written in a process of its own, with 1,000 resamples and torch's number of threads. The time contains the
import of torch_ap, the matching, all statistics and the pictures, but not the
compilation of modules, which pip does at the installation.
"""

import os
import subprocess
import sys

from benchmarks.timing import machine, parser, print_head, print_row

_CODE = """
import sys, tempfile, time
import torch, torchmetrics, matplotlib.figure
from benchmarks.detection_scenes import like_coco
from benchmarks.detection_weak import displaced, weak
scenes = {{"good": lambda x: x, "displaced": displaced, "at random places": weak}}["{kind}"](like_coco({images}))
start, processor = time.perf_counter(), time.process_time()
from torch_ap import MeanAveragePrecision, report
metric = MeanAveragePrecision("xywh")
metric.warn_on_many_detections = False
metric.update(scenes.preds, scenes.target)
with tempfile.TemporaryDirectory() as folder:
    size = report(metric, folder + "/page.html").stat().st_size
print(time.perf_counter() - start, time.process_time() - processor, size)
"""
_KINDS = ("good", "displaced", "at random places")


def print_table(sizes: list[int], rounds: int) -> None:
    """Print the minimum times and the size of a page of each number of images and kind of detections."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # else each run compiles torch_ap, for 0.3 s
    print_head("A page of a detector", "images", "detections", "wall time, s", "processor time, s", "size, MB")
    for images in sizes:
        for kind in _KINDS:
            command = [sys.executable, "-c", _CODE.format(images=images, kind=kind)]
            runs = [
                subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
                for _ in range(rounds)
            ]
            wall, processor, size = map(min, zip(*(map(float, x.split()) for x in runs), strict=True))
            print_row(f"{images:,}", kind, f"{wall:.2g}", f"{processor:.2g}", f"{size / 1e6:.2f}")


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    arguments = options.parse_args()
    print(machine("torch", "matplotlib", "numpy"))
    print_table([20] if arguments.quick else [100, 1000, 5000], 1 if arguments.quick else min(3, arguments.rounds))


if __name__ == "__main__":
    main()
