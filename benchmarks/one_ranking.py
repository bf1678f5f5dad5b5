"""Average precision of classifiers: compute, update, forward, state and accuracy, compared with other packages.

    python -m benchmarks.one_ranking [--largest N]

The Markdown tables show the time of a peer as a multiple of torch_ap, measured in turns in the same run.
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
from benchmarks.timing import (
    machine,
    parser,
    print_head,
    print_peer_head,
    print_peer_row,
    print_row,
    time_in_turns,
    time_once,
)
from torch_ap import functional

PEERS = ["torchmetrics", "scikit-learn", "torcheval"]
LONGEST = 1.0  # s; slower contenders have one round that counts, as a few percent do not matter for their multiples


def scores(shape: tuple[int, ...], rate: float) -> tuple[Tensor, Tensor]:
    """Return probabilities that depend on the target, and the target."""
    target = torch.rand(shape) < rate
    return torch.sigmoid(torch.randn(shape) - 2 + 2 * target), target.long()


def print_one_ranking(sizes: list[int], rounds: int) -> None:
    """Print the time of compute for one ranking."""
    names = [*PEERS, "np.sort of the scores"]
    print_peer_head("One ranking: compute from the state of the metric", "N, positives", names)
    for rate in (0.02, 0.5):
        for size in sizes:
            preds, target = scores((size,), rate)
            packages = {"torch_ap": torch_ap, "torchmetrics": their_classes}
            metrics: dict[str, Any] = {
                name: package.BinaryAveragePrecision(compute_with_cache=False) for name, package in packages.items()
            }
            for metric in metrics.values():
                metric.update(preds, target)
            contenders = {
                **{name: metric.compute for name, metric in metrics.items()},
                "scikit-learn": partial(average_precision_score, target.numpy(), preds.numpy()),
                "torcheval": partial(torcheval.binary_auprc, preds, target),
                "np.sort of the scores": partial(np.sort, preds.numpy()),
            }
            print_peer_row(f"{size:.0e}, {rate:.0%}", time_in_turns(contenders, rounds, longest=LONGEST), names)


def print_columns(columns: list[int], rounds: int) -> None:
    """Print the time of the functions for one ranking per column, and of the sort of each column alone."""
    names = [*PEERS, "np.sort of each column"]
    print_peer_head("50,000 items, one ranking per column", "task, columns", names)
    for width in columns:
        hard = (("half positive", 0.5, torch.float32), ("float16", 0.02, torch.float16)) if width <= 100 else ()
        for kind, rate, dtype in (("", 0.02, torch.float32), *hard):
            preds, target = scores((50_000, width), rate)
            classes, preds = torch.randint(width, (50_000,)), preds.to(dtype)
            multilabel: dict[str, Callable[[], object]] = {
                "torch_ap": partial(functional.multilabel_average_precision, preds, target, width),
                "torchmetrics": partial(torchmetrics.multilabel_average_precision, preds, target, width),
                "scikit-learn": partial(average_precision_score, target.numpy(), preds.numpy()),
                "torcheval": partial(torcheval.multilabel_auprc, preds, target, num_labels=width),
            }
            multiclass: dict[str, Callable[[], object]] = {
                "torch_ap": partial(functional.multiclass_average_precision, preds, classes, width),
                "torchmetrics": partial(torchmetrics.multiclass_average_precision, preds, classes, width),
                "torcheval": partial(torcheval.multiclass_auprc, preds, classes, num_classes=width),
            }
            for task, contenders in (("multilabel", multilabel), ("multiclass", multiclass)):
                if task == "multiclass" and rate == 0.5:  # the same labels as at another rate
                    continue
                contenders[names[-1]] = partial(sort_columns, preds)
                name = ", ".join(filter(None, (task, str(width), kind)))
                print_peer_row(name, time_in_turns(contenders, rounds, longest=LONGEST), names)


def sort_columns(preds: Tensor) -> None:
    """Sort each column, without indices."""
    preds.t().contiguous().numpy().sort(1)


def print_updates(rounds: int) -> None:
    """Print the time of one ``update`` with checks, and of torchmetrics with and without checks."""
    names = ["torchmetrics, unchecked", "torchmetrics, checked"]
    print_peer_head("One update", "metric, batch", names)
    for size in (256, 8192):
        preds, target = scores((size, 100), 0.1)
        column, binary, classes = preds[:, 0].clone(), target[:, 0].clone(), torch.randint(100, (size,))
        ours, theirs = torch_ap, their_classes
        for what, name, args, settings in (
            ("binary", "BinaryAveragePrecision", (column, binary), {}),
            ("binary, 200 thresholds", "BinaryAveragePrecision", (column, binary), {"thresholds": 200}),
            ("multiclass, 100", "MulticlassAveragePrecision", (preds, classes), {"num_classes": 100}),
            ("multilabel, 100", "MultilabelAveragePrecision", (preds, target), {"num_labels": 100}),
        ):
            contenders = {
                "torch_ap": repeat_update(getattr(ours, name)(**settings), *args),
                names[0]: repeat_update(getattr(theirs, name)(validate_args=False, **settings), *args),
                names[1]: repeat_update(getattr(theirs, name)(**settings), *args),
            }
            seconds = {name: took / 100 for name, took in time_in_turns(contenders, rounds).items()}
            print_peer_row(f"{what}, {size}", seconds, names)


def repeat_update(metric: Any, *args: Tensor) -> Callable[[], None]:
    """Return a function of 100 updates. The state is emptied after 100 updates, or after 10 large batches."""
    stored = 10 if args[0].numel() > 1 << 14 else 100

    def run() -> None:
        for _ in range(100 // stored):
            for _ in range(stored):
                metric.update(*args)
            for state in metric.metric_state.values():
                if isinstance(state, list):
                    state.clear()

    return run


def print_forward(steps: int) -> None:
    """Print the time of an epoch of ``forward``, which returns the value of each batch and updates the state."""
    names = ["torchmetrics", "torch_ap's update"]
    print_peer_head(f"{steps:,} steps of forward, batches of 4,096", "metric", names)
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
    print_peer_row("binary", time_once(contenders), names)


def print_state() -> None:
    """Print the bytes of state per sample."""
    print_head("State, bytes per sample", "scores", "torch_ap", "torchmetrics")
    preds, target = scores((10_000,), 0.1)
    for dtype in (torch.float32, torch.float16, torch.float64):
        sizes = []
        for metric in (torch_ap.BinaryAveragePrecision(), their_classes.BinaryAveragePrecision()):
            metric.update(preds.to(dtype), target)
            lists = [x for state in metric.metric_state.values() if isinstance(state, list) for x in state]
            sizes.append(sum(x.nbytes for x in lists) / 10_000)
        print_row(str(dtype).removeprefix("torch."), *(f"{size:.0f}" for size in sizes))


def print_accuracy(size: int) -> None:
    """Print the differences from a sum in extended precision."""
    preds, target = scores((size,), 0.02)
    order = torch.argsort(preds, descending=True, stable=True)
    scores_in_order, relevant = preds[order].numpy(), target[order].numpy()
    group_ends = np.append(scores_in_order[1:] != scores_in_order[:-1], True)
    hits = np.cumsum(relevant)[group_ends]
    ranks = np.flatnonzero(group_ends) + 1
    gains = np.diff(hits, prepend=0)
    exact = np.sum(gains * (hits.astype(np.longdouble) / ranks)) / hits[-1]
    ours = functional.binary_average_precision(preds, target, dtype=torch.float64).item()
    theirs = torchmetrics.binary_average_precision(preds, target).item()
    peer = average_precision_score(target.numpy(), preds.numpy())
    print_head(f"Accuracy at N = {size:.0e}", "", "difference from extended precision")
    for name, value in (("torch_ap, float64 result", ours), ("torchmetrics", theirs), ("scikit-learn", peer)):
        print_row(name, f"{abs(float(value - exact)):.1e}")


def main() -> None:
    """Print all tables."""
    words = parser(__doc__ or "")
    words.add_argument("--largest", type=int, default=10**7, help="items of the table of accuracy (default 10^7)")
    options = words.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    print(machine("torch", "torchmetrics", "scikit-learn", "torcheval", "numpy"))
    small = options.quick
    print_one_ranking([10**5] if small else [10**5, 10**6, 10**7], options.rounds)
    print_columns([10] if small else [100, 1000], 1 if small else min(3, options.rounds))
    print_updates(options.rounds)
    print_forward(50 if small else 500)
    print_state()
    print_accuracy(10**6 if small else options.largest)


if __name__ == "__main__":
    main()
