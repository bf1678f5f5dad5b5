"""Average precision of classifiers: compute, update, forward, state and accuracy beside the peers.

    python -m benchmarks.one_ranking

prints Markdown tables; a peer's figure is its time as a multiple of ours, measured by turns in the same run.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor
from torcheval.metrics import functional as torcheval
from torchmetrics import classification as their_classes
from torchmetrics.functional import classification as torchmetrics

import torch_ap
from benchmarks.timing import by_turns, head, machine, once, parser, row
from torch_ap import functional

PEERS = ["torchmetrics", "scikit-learn", "torcheval"]


def scores(shape: tuple[int, ...], rate: float) -> tuple[Tensor, Tensor]:
    """Probabilities that depend on the target."""
    target = torch.rand(shape) < rate
    return torch.sigmoid(torch.randn(shape) - 2 + 2 * target), target.long()


def one_ranking(sizes: list[int], rounds: int) -> None:
    """Compute on one ranking."""
    names = [*PEERS, "np.sort of the scores"]
    print("\n### One ranking: compute, from what the metric holds\n\n" + head("N, positives", names))
    for rate in (0.02, 0.5):
        for size in sizes:
            preds, target = scores((size,), rate)
            held = {"torch_ap": torch_ap.BinaryAveragePrecision, "torchmetrics": their_classes.BinaryAveragePrecision}
            metrics = {name: metric(compute_with_cache=False) for name, metric in held.items()}
            for metric in metrics.values():
                metric.update(preds, target)
            contenders = {
                **{name: metric.compute for name, metric in metrics.items()},
                "scikit-learn": partial(average_precision_score, target.numpy(), preds.numpy()),
                "torcheval": partial(torcheval.binary_auprc, preds, target),
                "np.sort of the scores": partial(np.sort, preds.numpy()),
            }
            print(row(f"{size:.0e}, {rate:.0%}", by_turns(contenders, rounds), names), flush=True)


def many_columns(columns: list[int], rounds: int) -> None:
    """Compute on columns."""
    print("\n### 50,000 items, one ranking per column\n\n" + head("task, columns", PEERS))
    for width in columns:
        preds, target = scores((50_000, width), 0.02)
        classes = torch.randint(width, (50_000,))
        multilabel = {
            "torch_ap": partial(functional.multilabel_average_precision, preds, target, width),
            "torchmetrics": partial(torchmetrics.multilabel_average_precision, preds, target, width),
            "scikit-learn": partial(average_precision_score, target.numpy(), preds.numpy()),
            "torcheval": partial(torcheval.multilabel_auprc, preds, target, num_labels=width),
        }
        multiclass = {
            "torch_ap": partial(functional.multiclass_average_precision, preds, classes, width),
            "torchmetrics": partial(torchmetrics.multiclass_average_precision, preds, classes, width),
            "torcheval": partial(torcheval.multiclass_auprc, preds, classes, num_classes=width),
        }
        print(row(f"multilabel, {width}", by_turns(multilabel, rounds), PEERS), flush=True)
        print(row(f"multiclass, {width}", by_turns(multiclass, rounds), PEERS), flush=True)


def updates(rounds: int) -> None:
    """One call of ``update`` with checks; torchmetrics with its checks and without."""
    names = ["torchmetrics, unchecked", "torchmetrics, checked"]
    print("\n### One update\n\n" + head("metric, batch", names))
    for size in (256, 8192):
        preds, target = scores((size, 100), 0.1)
        one, binary, classes = preds[:, 0].clone(), target[:, 0].clone(), torch.randint(100, (size,))
        ours, theirs = torch_ap, their_classes
        for what, name, args, settings in (
            ("binary", "BinaryAveragePrecision", (one, binary), {}),
            ("binary, 200 thresholds", "BinaryAveragePrecision", (one, binary), {"thresholds": 200}),
            ("multiclass, 100", "MulticlassAveragePrecision", (preds, classes), {"num_classes": 100}),
            ("multilabel, 100", "MultilabelAveragePrecision", (preds, target), {"num_labels": 100}),
        ):
            contenders = {
                "torch_ap": repeated(getattr(ours, name)(**settings), *args),
                names[0]: repeated(getattr(theirs, name)(validate_args=False, **settings), *args),
                names[1]: repeated(getattr(theirs, name)(**settings), *args),
            }
            seconds = {name: took / 100 for name, took in by_turns(contenders, rounds).items()}
            print(row(f"{what}, {size}", seconds, names), flush=True)


def repeated(metric: Any, *args: Tensor) -> Callable[[], None]:
    """100 updates; the lists are emptied after every hundred, or every ten where batches are large."""
    row = 10 if args[0].numel() > 1 << 14 else 100

    def run() -> None:
        for _ in range(100 // row):
            for _ in range(row):
                metric.update(*args)
            for held in metric.metric_state.values():
                if isinstance(held, list):
                    held.clear()

    return run


def forwards(steps: int) -> None:
    """``forward`` over an epoch, which returns the value of each batch and keeps the state."""
    names = ["torchmetrics", "torch_ap's update"]
    print(f"\n### {steps:,} steps of forward, batches of 4,096\n\n" + head("metric", names))
    batch = scores((4096,), 0.1)

    def epoch(step: Callable[..., Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(steps):
                step(*batch)

        return run

    contenders = {
        "torch_ap": epoch(torch_ap.BinaryAveragePrecision()),
        names[0]: epoch(their_classes.BinaryAveragePrecision()),
        names[1]: epoch(torch_ap.BinaryAveragePrecision().update),
    }
    print(row("binary", once(contenders), names), flush=True)


def state() -> None:
    """Bytes of state per sample."""
    print("\n### State, bytes per sample\n\n| scores | torch_ap | torchmetrics |\n|---|---|---|")
    preds, target = scores((10_000,), 0.1)
    for dtype in (torch.float32, torch.float16, torch.float64):
        held = []
        for metric in (torch_ap.BinaryAveragePrecision(), their_classes.BinaryAveragePrecision()):
            metric.update(preds.to(dtype), target)
            lists = [x for kept in metric.metric_state.values() if isinstance(kept, list) for x in kept]
            held.append(sum(x.numel() * x.element_size() for x in lists) / 10_000)
        print(f"| {str(dtype).removeprefix('torch.')} | {held[0]:.0f} | {held[1]:.0f} |")


def accuracy(size: int) -> None:
    """Distance from a sum in extended precision."""
    preds, target = scores((size,), 0.02)
    places = torch.argsort(preds, descending=True, stable=True)
    ordered, hits = preds[places].numpy(), target[places].numpy()
    last = np.append(ordered[1:] != ordered[:-1], True)
    through = np.cumsum(hits)[last]
    ranks = np.flatnonzero(last) + 1
    gains = np.diff(through, prepend=0)
    exact = np.sum(gains * (through.astype(np.longdouble) / ranks)) / through[-1]
    ours = functional.binary_average_precision(preds, target, dtype=torch.float64).item()
    theirs = torchmetrics.binary_average_precision(preds, target).item()
    peer = average_precision_score(target.numpy(), preds.numpy())
    print(f"\n### Accuracy at N = {size:.0e}\n\n| | distance from extended precision |\n|---|---|")
    for name, value in (("torch_ap, float64 result", ours), ("torchmetrics", theirs), ("scikit-learn", peer)):
        print(f"| {name} | {abs(float(value - exact)):.1e} |")


def main() -> None:
    """Print all tables."""
    options = parser(__doc__ or "").parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    print(machine("torch", "torchmetrics", "scikit-learn", "torcheval", "numpy"))
    small = options.quick
    one_ranking([10**5] if small else [10**5, 10**6, 10**7], options.rounds)
    many_columns([10] if small else [100, 1000], 1 if small else min(3, options.rounds))
    updates(options.rounds)
    forwards(50 if small else 2000)
    state()
    accuracy(10**6 if small else 5 * 10**7)


if __name__ == "__main__":
    main()
