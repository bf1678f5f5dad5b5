"""Calls that users wait for in training and small evaluations, compared with torchmetrics or with a bare operation.

    python -m benchmarks.waits [--only dense | few | steps | queries]

The Markdown tables show the minimum processor time of a call on one thread, and the time of its reference as a multiple
of it, in turns in one run. The reference is torchmetrics, or the bare operation that bounds the time of the call.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torchmetrics
from torch import Tensor
from torchmetrics import retrieval as their_queries
from torchmetrics.functional import classification as theirs

import torch_ap
from benchmarks.timing import machine, parser, print_head, print_row, time_in_turns
from torch_ap import functional
from torch_ap.core.base import cached

Call = Callable[[], Any]
BATCHES = (256, 4096)


class Row(NamedTuple):
    """A row of the table: a call, its reference, and the number of calls that are timed together."""

    name: str
    call: Call
    reference: str
    other: Call
    calls: int = 1


def scores(size: int, rate: float = 0.2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return probabilities that depend on the target, and the target, at least one of which is positive."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(size, generator=generator) < rate
    target[0] = True
    return torch.sigmoid(torch.randn(size, generator=generator) + 2 * target), target.long()


def dense_rankings(size: int) -> Iterator[Row]:
    """Yield the AP of one ranking, half of whose items are positive."""
    preds, target = scores(size, 0.5)
    logits = torch.logit(preds)
    for name, values in (("probabilities", preds), ("logits", logits)):
        call = partial(functional.binary_average_precision, values, target)
        yield Row(f"AP of {size:,} {name}, half positive", call, "np.sort", partial(np.sort, values.numpy()))


def curves() -> Iterator[Row]:
    """Yield the precision-recall curves of a few items."""
    for size in (100, 2047, 5000):
        batch = scores(size)
        yield Row(
            f"`binary_precision_recall_curve`, {size:,} items",
            partial(functional.binary_precision_recall_curve, *batch),
            "torchmetrics",
            partial(theirs.binary_precision_recall_curve, *batch),
            calls=20,
        )


def weighted() -> Iterator[Row]:
    """Yield the weighted AP of a few items, compared with the unweighted AP and with the sort that weights require."""
    for size in (10, 100, 2000):
        preds, target = scores(size)
        weights = torch.rand(size)
        call = partial(functional.binary_average_precision, preds, target, weights=weights)
        name = f"weighted AP, {size:,} items"
        yield Row(name, call, "unweighted AP", partial(functional.binary_average_precision, preds, target), 20)
        yield Row(name, call, "np.argsort", partial(np.argsort, preds.numpy()), 20)


def many_updates() -> Iterator[Row]:
    """Yield ``compute`` of many small batches."""
    pair = [x.BinaryAveragePrecision(compute_with_cache=False) for x in (torch_ap, torchmetrics.classification)]
    for seed in range(900):
        for metric in pair:
            metric.update(*scores(32, seed=seed))
    yield Row("`compute` after 900 updates of 32 items", pair[0].compute, "torchmetrics", pair[1].compute, 3)


def steps(size: int) -> Iterator[Row]:
    """Yield ``forward`` and ``update`` of metrics with batches of ``size`` items."""
    preds, target = scores(size)
    peer = torchmetrics.classification.BinaryAveragePrecision
    for name, settings, batch in (
        ('`bins="half"`', {"bins": "half"}, (preds.bfloat16(), target)),
        ('`bins="adaptive"`', {"bins": "adaptive", "pilot": 1 << 14}, (preds, target)),
        ("`thresholds=100`", {"thresholds": 100}, (preds, target)),
    ):
        metric, other = torch_ap.BinaryAveragePrecision(tolerance=1.0, **settings), peer(thresholds=100)
        for _ in range((1 << 15) // size):  # adaptive bins are then learnt
            metric.update(*batch)
        for step in ("forward", "update"):
            call, their_call = (partial(getattr(x, step), *y) for x, y in ((metric, batch), (other, (preds, target))))
            yield Row(f"{size:,} items: `{step}` of {name}", call, "torchmetrics, 100 thresholds", their_call, 20)
    classes = torch.softmax(torch.randn(size, 10), 1)
    indexes = torch.arange(64).repeat_interleave(size // 64)
    for name, names, args in (
        ("bfloat16 scores", "BinaryAveragePrecision", (preds.bfloat16(), target)),
        ("float32 scores", "BinaryAveragePrecision", (preds, target)),
        ("multiclass scores, 10 classes", "MulticlassAveragePrecision", (classes, torch.arange(size) % 10)),
        ("nDCG", "RetrievalNormalizedDCG", (preds, target, indexes)),
        ("MAP", "RetrievalMAP", (preds, target, indexes)),
    ):
        where = (torch_ap, their_queries if names.startswith("Retrieval") else torchmetrics.classification)
        settings = {"num_classes": 10} if "class" in name else {}
        ours, other = (getattr(x, names)(**settings) for x in where)
        if not names.startswith("Retrieval"):
            other.validate_args = False
        yield Row(
            f"{size:,} items: `update` of {name}, checked",
            with_resets(ours, args),
            "torchmetrics, unchecked",
            with_resets(other, args),
            20,
        )
    bare = partial(check_and_copy, preds, target, indexes)
    ours = with_resets(torch_ap.RetrievalNormalizedDCG(), (preds, target, indexes))
    yield Row(f"{size:,} items: `update` of nDCG, checked", ours, "its bare calls of NumPy and torch", bare, 20)


def check_and_copy(preds: Tensor, target: Tensor, indexes: Tensor) -> list[Tensor]:
    """Return scores, relevance, queries and grades in memory that later changes of the batch do not reach.

    The calls are the fastest known ones that read the tensors, check for NaN and negative grades, and copy the columns.
    """
    scores, grades, queries = preds.numpy(), target.numpy(), indexes.numpy()
    if math.isnan(scores.item(scores.argmax())) or grades.item(grades.argmin()) < 0:
        raise ValueError("NaN scores or negative grades")
    relevant = grades.astype(bool)
    return [torch.from_numpy(x) for x in (scores.copy(), relevant, queries.copy(), grades.astype(np.float64))]


def with_resets(metric: Any, args: tuple[Tensor, ...], period: int = 20) -> Call:
    """Return the update of a metric that is reset every ``period`` calls."""
    count = 0

    def run() -> None:
        nonlocal count
        metric.update(*args)
        count += 1
        if count % period == 0:
            metric.reset()

    return run


def short_queries(size: int) -> Iterator[Row]:
    """Yield ``RetrievalMAP`` of queries of one item, compared with queries of a hundred items."""
    preds, target = scores(size)
    metrics = []
    for indexes in (torch.arange(size), torch.arange(size // 100).repeat_interleave(100)):
        metric = torch_ap.RetrievalMAP(compute_with_cache=False)
        metric.update(preds, target, indexes)
        metrics.append(metric)

    def compute(metric: Any) -> None:
        cached._latest.clear()
        metric._computed = None
        metric.compute()

    yield Row(
        f"`RetrievalMAP.compute`, {size:,} queries of 1 item",
        partial(compute, metrics[0]),
        f"{size // 100:,} queries of 100",
        partial(compute, metrics[1]),
    )


def few_items() -> Iterator[Row]:
    """Yield the rows of small calls and of many small updates."""
    yield from curves()
    yield from weighted()
    yield from many_updates()


GROUPS: dict[str, tuple[str, Callable[[int], Iterator[Row]]]] = {
    "dense": ("Dense labels", lambda scale: dense_rankings(10**7 // scale)),
    "few": ("Few items, and many updates", lambda _: few_items()),
    "steps": ("Steps of a training loop", lambda _: (row for size in BATCHES for row in steps(size))),
    "queries": ("Queries of one item", lambda scale: short_queries(10**6 // scale)),
}


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--only", choices=GROUPS, help="measure only this table")
    options.set_defaults(rounds=15)
    args = options.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    print(machine("torch", "torchmetrics", "numpy"))
    for group, (title, make) in GROUPS.items():
        if args.only not in (None, group):
            continue
        print_head(title, "call", "torch_ap, ms", "reference", "time of the reference")
        for row in make(100 if args.quick else 1):
            rounds = min(5, args.rounds) if group == "dense" else args.rounds
            seconds = time_in_turns(
                {"ours": row.call, "other": row.other}, rounds, time.process_time, statistic=min, calls=row.calls
            )
            ours, other = seconds["ours"], seconds["other"]
            print_row(row.name, f"{ours * 1000:.3g}", row.reference, f"{other / ours:.2f} times")


if __name__ == "__main__":
    main()
