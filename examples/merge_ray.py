"""Score shards of the data in tasks of Ray, and merge their results.

Each task returns the states of its metrics as bytes: the exact scores, and counts in bins, whose size does not depend
on the number of items. Results of Spark tasks are merged by the same line.

Run: python examples/merge_ray.py  (needs the extra `neighbours`)

It prints:

    exact        4 tasks, macro AP 0.9850, between 0.9850 and 0.9850
    2^7 bins     4 tasks, macro AP 0.9849, between 0.9844 and 0.9855
    scikit-learn 1 process, macro AP 0.9850
"""

import logging
import os

import torch
from numpy import ndarray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

import torch_ap

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import ray  # reads its environment when it is imported

SHARDS = 4


def metrics() -> dict[str, torch_ap.MulticlassAveragePrecision]:
    """Return the metrics, with equal settings in every task."""
    return {
        "exact": torch_ap.MulticlassAveragePrecision(10),
        "2^7 bins": torch_ap.MulticlassAveragePrecision(10, bins=1 << 7),
    }


@ray.remote
def evaluate(model: LogisticRegression, images: ndarray, digits: ndarray) -> dict[str, bytes]:
    """Score the images of a task, and return the bytes of each metric."""
    scores = torch.tensor(model.predict_proba(images))
    found = {}
    for name, metric in metrics().items():
        metric.update(scores, torch.tensor(digits))
        found[name] = metric.to_bytes()
    return found


def main() -> None:
    images, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images, digits, test_size=0.5, random_state=0)
    model = LogisticRegression(C=1e-3, max_iter=1000).fit(train_x, train_y)
    ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, logging_level=logging.ERROR)
    shared = ray.put(model)
    tasks = [evaluate.remote(shared, test_x[shard::SHARDS], test_y[shard::SHARDS]) for shard in range(SHARDS)]
    payloads = ray.get(tasks)
    ray.shutdown()
    for name, metric in metrics().items():
        merged = torch_ap.merge([metric.from_bytes(payload[name]) for payload in payloads])
        bounds = merged.bounds()
        print(
            f"{name:12} {SHARDS} tasks, macro AP {merged.compute():.4f}, between {bounds.low:.4f} and {bounds.high:.4f}"
        )
    exact = average_precision_score(test_y, model.predict_proba(test_x), average="macro")
    print(f"{'scikit-learn':12} 1 process, macro AP {exact:.4f}")


if __name__ == "__main__":
    main()
