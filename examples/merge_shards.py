"""Evaluate shards of the data in separate processes, as an array job does, and merge their results.

Each process writes the state of its metric as bytes: the exact scores, and counts in learnt bins, whose size does not
depend on the number of items. The last step reads the files, in any order.

Run: python examples/merge_shards.py

It prints:

    exact     AP 0.9229, between 0.9229 and 0.9229
    adaptive  AP 0.9189, between 0.8981 and 0.9416
    one job   AP 0.9229
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor

import torch_ap

SHARDS = 4


def metrics() -> dict[str, torch_ap.BinaryAveragePrecision]:
    """Return the metrics, with equal settings in every process. A pilot of 50 suits few items (default 65,536)."""
    return {
        "exact": torch_ap.BinaryAveragePrecision(),
        "adaptive": torch_ap.BinaryAveragePrecision(bins="adaptive", pilot=50, tolerance=0.1),
    }


def items() -> tuple[Tensor, Tensor]:
    """Return the mean radius of tumours as scores, and whether they are malignant."""
    measured, benign = load_breast_cancer(return_X_y=True)
    return torch.tensor(measured[:, 0]), 1 - torch.tensor(benign)


def evaluate(shard: int, folder: pathlib.Path) -> None:
    """Evaluate every fourth item, and write a file per metric."""
    preds, target = items()
    for name, metric in metrics().items():
        metric.update(preds[shard::SHARDS], target[shard::SHARDS])
        (folder / f"{name}-{shard}.ap").write_bytes(metric.to_bytes())


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        jobs = [subprocess.Popen([sys.executable, __file__, str(shard), place]) for shard in range(SHARDS)]
        codes = [job.wait() for job in jobs]
        if any(codes):
            raise SystemExit("a shard failed")
        for name, metric in metrics().items():
            files = pathlib.Path(place).glob(f"{name}-*.ap")
            merged = torch_ap.merge([metric.from_bytes(file.read_bytes()) for file in files])
            bounds = merged.bounds()
            print(f"{name:9} AP {merged.compute():.4f}, between {bounds.low:.4f} and {bounds.high:.4f}")
    exact = metrics()["exact"]
    print(f"{'one job':9} AP {exact(*items()):.4f}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        evaluate(int(sys.argv[1]), pathlib.Path(sys.argv[2]))
    else:
        main()
