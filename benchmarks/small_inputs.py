"""Time of calls on small inputs, compared with torchmetrics: functions, one query, and the steps of a metric.

    python -m benchmarks.small_inputs [--device cuda] [--only WORD]

The Markdown tables show microseconds per call, and the time of torchmetrics as a multiple of torch_ap. Each number is
the minimum of many turns, which other work on the machine disturbs least. The functions of torchmetrics run with their
default checks. torchmetrics ranks tied scores in the order of the input; torch_ap computes the mean over all orders.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics import retrieval as their_queries
from torchmetrics.functional import classification as their_functions
from torchmetrics.functional import retrieval as their_retrieval

import torch_ap
from benchmarks.timing import machine, parser, print_head, print_row, time_in_turns
from torch_ap import functional
from torch_ap.core.base import cached

SIZES = (10, 256, 1000, 4096)
CLASSES = 5
QUERIES = (1, 4, 16)
Call = Callable[[], Any]
Row = tuple[str, Call, Call]

RETRIEVAL: dict[str, tuple[dict[str, Any], ...]] = {
    "average_precision": ({}, {"top_k": 5}),
    "precision": ({}, {"top_k": 5}),
    "recall": ({}, {"top_k": 5}),
    "fall_out": ({}, {"top_k": 5}),
    "hit_rate": ({}, {"top_k": 5}),
    "reciprocal_rank": ({}, {"top_k": 5}),
    "r_precision": ({},),
    "normalized_dcg": ({}, {"top_k": 5}),
}
CLASSES_OF_QUERIES = ("MAP", "Precision", "Recall", "FallOut", "HitRate", "MRR", "RPrecision", "NormalizedDCG")


def batch(size: int, device: str, columns: int | None = None) -> tuple[Tensor, Tensor]:
    """Return probabilities that depend on the target, and the target. At least one item and about 20% are positive."""
    target = torch.rand((size, columns) if columns else size) < 0.2
    target[0] = True
    return torch.sigmoid(torch.randn(target.shape) + 2 * target).to(device), target.long().to(device)


def functions(size: int, device: str) -> list[Row]:
    """Return the rows of the functions of classification."""
    preds, target = batch(size, device)
    wide, labels = batch(size, device, CLASSES)
    shares, classes = wide / wide.sum(1, keepdim=True), torch.arange(size, device=device) % CLASSES
    ours, theirs = functional, their_functions
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("binary", (preds, target)),
        ("multiclass", (shares, classes, CLASSES)),
        ("multilabel", (wide, labels, CLASSES)),
    ]
    return [
        (
            f"{task}_average_precision",
            partial(getattr(ours, f"{task}_average_precision"), *args),
            partial(getattr(theirs, f"{task}_average_precision"), *args),
        )
        for task, args in calls
    ]


def one_query(size: int, device: str, *, tied: bool = False) -> list[Row]:
    """Return the rows of the functions of retrieval, for one query. ``tied``: at most 21 distinct scores."""
    preds, target = batch(size, device)
    if tied:
        preds = (preds * 20).round() / 20
    return [
        (
            f"retrieval_{name}" + "".join(f", {key}={value}" for key, value in settings.items()),
            partial(getattr(functional, f"retrieval_{name}"), preds, target, **settings),
            partial(getattr(their_retrieval, f"retrieval_{name}"), preds, target, **settings),
        )
        for name, variants in RETRIEVAL.items()
        for settings in variants
    ]


def metrics(size: int, device: str) -> list[Row]:
    """Return the rows of the metrics: a checked update and torchmetrics' unchecked one, and the default settings."""
    preds, target = batch(size, device)
    wide, labels = batch(size, device, CLASSES)
    classes = torch.arange(size, device=device) % CLASSES
    rows = []
    for name, settings, args in (
        ("BinaryAveragePrecision", {}, (preds, target)),
        ("MulticlassAveragePrecision", {"num_classes": CLASSES}, (torch.softmax(wide, 1), classes)),
        ("MultilabelAveragePrecision", {"num_labels": CLASSES}, (wide, labels)),
    ):
        makers = [getattr(where, name) for where in (torch_ap, torchmetrics.classification)]
        unchecked = makers[1](validate_args=False, **settings).to(device)
        checked = makers[0](**settings).to(device)
        name_of_row = f"{name}.update, torchmetrics unchecked"
        rows.append((name_of_row, repeat_update(checked, args), repeat_update(unchecked, args)))
        rows += step_rows(name, [make(**settings).to(device) for make in makers], args)
    return rows


def collections(size: int, device: str) -> list[Row]:
    """Return the rows of a ``MetricCollection`` of metrics that both packages have."""
    preds, target = batch(size, device)
    pair = []
    for where in (torch_ap, torchmetrics.classification):
        metrics = {
            "exact": where.BinaryAveragePrecision(),
            "binned": where.BinaryAveragePrecision(thresholds=50),
            "ignoring": where.BinaryAveragePrecision(ignore_index=-1),
        }
        pair.append(torchmetrics.MetricCollection(metrics).to(device))
    return step_rows("collection of 3 binary AP", pair, (preds, target))


def queries(size: int, device: str, number: int) -> list[Row]:
    """Return the rows of the metrics of retrieval on a few queries of ``size`` items."""
    preds, target = batch(size * number, device)
    target[::size] = 1
    indexes = torch.arange(number, device=device).repeat_interleave(size)
    rows = []
    for name in CLASSES_OF_QUERIES:
        pair = [getattr(where, f"Retrieval{name}")().to(device) for where in (torch_ap, their_queries)]
        rows += step_rows(f"Retrieval{name}", pair, (preds, target, indexes))
    names = ("MAP", "Precision", "MRR")
    pair = [
        torchmetrics.MetricCollection([getattr(where, f"Retrieval{name}")() for name in names]).to(device)
        for where in (torch_ap, their_queries)
    ]
    return rows + step_rows("collection of MAP, Precision, MRR", pair, (preds, target, indexes))


def step_rows(name: str, pair: list[Any], args: tuple[Tensor, ...]) -> list[Row]:
    """Return the rows of update, compute and forward of a metric of torch_ap and one of torchmetrics."""
    steps = {"update": repeat_update, "compute": repeat_compute, "forward": repeat_forward}
    return [
        (f"{name}.{step}", make(pair[0].clone(), args), make(pair[1].clone(), args)) for step, make in steps.items()
    ]


def repeat_update(metric: Any, args: tuple[Tensor, ...]) -> Call:
    """Return the update of a metric that is sometimes reset."""
    return with_resets(metric, partial(metric.update, *args))


def repeat_forward(metric: Any, args: tuple[Tensor, ...]) -> Call:
    """Return the forward step of a metric that is sometimes reset."""
    return with_resets(metric, partial(metric.forward, *args))


def with_resets(metric: Any, step: Call, period: int = 20) -> Call:
    """Return the step with a reset every ``period`` calls, because torchmetrics' ``forward`` copies the whole state."""
    count = 0

    def run() -> None:
        nonlocal count
        step()
        count += 1
        if count % period == 0:
            metric.reset()

    return run


def repeat_compute(metric: Any, args: tuple[Tensor, ...]) -> Call:
    """Return ``compute`` without the caches of the call before."""
    metric.update(*args)
    metrics = list(metric.values()) if isinstance(metric, torchmetrics.MetricCollection) else [metric]

    def run() -> None:
        for member in metrics:
            member._computed = None
        cached._latest.clear()
        metric.compute()

    return run


def wait_for(call: Call) -> Call:
    """Return the call with a wait for the accelerator."""

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


def compare(rows: list[Row], calls: int, rounds: int, device: str, only: str) -> list[tuple[str, float, float]]:
    """Return the name, and the minimum seconds per call of torch_ap and of torchmetrics, of each row."""
    results = []
    for name, ours, theirs in rows:
        if only in name:
            contenders = {"ours": ours, "theirs": theirs}
            if device != "cpu":
                contenders = {package: wait_for(call) for package, call in contenders.items()}
            seconds = time_in_turns(contenders, rounds, statistic=min, calls=calls)
            results.append((name, seconds["ours"], seconds["theirs"]))
    return results


def print_table(title: str, heads: list[str], columns: list[list[tuple[str, float, float]]]) -> None:
    """Print a row per call and two columns per size: microseconds of torch_ap, and the multiple of torchmetrics."""
    if not columns[0]:
        return
    print_head(title, "", *(column for head in heads for column in (f"{head}, µs", "torchmetrics")))
    for cells in zip(*columns, strict=True):
        print_row(cells[0][0], *(x for _, ours, theirs in cells for x in (f"{ours * 1e6:.0f}", f"{theirs / ours:.2f}")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print all tables."""
    options = parser(__doc__ or "")
    options.add_argument("--device", default="cpu", help="device of the tensors (default cpu)")
    options.add_argument("--only", default="", help="only rows whose name contains this word")
    options.add_argument("--calls", type=int, default=10, help="calls timed together (default 10)")
    options.set_defaults(rounds=40)
    args = options.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    print(machine("torch", "torchmetrics", "numpy"))
    sizes = SIZES[:2] if args.quick else SIZES
    measure = partial(compare, calls=args.calls, rounds=args.rounds, device=args.device, only=args.only)
    heads = [f"{size:,}" for size in sizes]
    print_table("Functions", heads, [measure(functions(size, args.device)) for size in sizes])
    print_table("One query", heads, [measure(one_query(size, args.device)) for size in sizes])
    print_table("One query, tied", heads, [measure(one_query(size, args.device, tied=True)) for size in sizes])
    print_table("Metrics of classification", heads, [measure(metrics(size, args.device)) for size in sizes])
    print_table("Collection", heads, [measure(collections(size, args.device)) for size in sizes])
    numbers = QUERIES[:1] if args.quick else QUERIES
    for size in sizes[:2]:
        columns = [measure(queries(size, args.device, number)) for number in numbers]
        print_table(f"Queries of {size} items", [f"{number} queries" for number in numbers], columns)


if __name__ == "__main__":
    main()
