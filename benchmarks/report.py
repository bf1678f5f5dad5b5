"""Time of a page of a detector beyond the import of torch, torchmetrics and matplotlib, and its size.

    python -m benchmarks.report

Each page is written in a process of its own, with 1,000 resamples and torch's number of threads. The time contains the
import of torch_ap, the matching, all statistics and the pictures.
"""

import subprocess
import sys

from benchmarks.timing import machine, parser, print_head, print_row

_CODE = """
import sys, tempfile, time
import torch, torchmetrics, matplotlib.figure
from benchmarks.detection_scenes import like_coco
scenes = like_coco({images})
start = time.perf_counter()
from torch_ap import MeanAveragePrecision, report
metric = MeanAveragePrecision("xywh")
metric.warn_on_many_detections = False
metric.update(scenes.preds, scenes.target)
with tempfile.TemporaryDirectory() as folder:
    size = report(metric, folder + "/page.html").stat().st_size
print(time.perf_counter() - start, size)
"""


def print_table(sizes: list[int], rounds: int) -> None:
    """Print the minimum time and the size of a page of each number of images."""
    print_head("A page of a detector", "images", "wall time, s", "size, MB")
    for images in sizes:
        runs = [
            subprocess.run(
                [sys.executable, "-c", _CODE.format(images=images)], check=True, stdout=subprocess.PIPE, text=True
            ).stdout.split()
            for _ in range(rounds)
        ]
        seconds, size = min((float(x), int(y)) for x, y in runs)
        print_row(f"{images:,}", f"{seconds:.2g}", f"{size / 1e6:.2f}")


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    arguments = options.parse_args()
    print(machine("torch", "matplotlib", "numpy"))
    print_table([20] if arguments.quick else [100, 1000, 5000], 1 if arguments.quick else min(3, arguments.rounds))


if __name__ == "__main__":
    main()
