"""What a call costs on small inputs, ours and torchmetrics': functions, one query, and the steps of a metric.

    python -m benchmarks.small_inputs [--device cuda] [--only WORD]

prints Markdown tables: microseconds per call, and torchmetrics' time as a multiple of ours. Each figure is the least of
many turns, which other work on the machine disturbs the least. torchmetrics' functions are called with their default
checks. torchmetrics ranks tied scores in the order of the input; here they count with the mean over their orders.
"""

import gc
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics import retrieval as their_queries
from torchmetrics.functional import classification as their_functions
from torchmetrics.functional import retrieval as their_retrieval

import torch_ap
from benchmarks.timing import machine, parser
from torch_ap import functional

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
    """Probabilities that depend on the target; one in five is positive, at least one."""
    target = torch.rand((size, columns) if columns else size) < 0.2
    target[0] = True
    return torch.sigmoid(torch.randn(target.shape) + 2 * target).to(device), target.long().to(device)


def functions(size: int, device: str) -> list[Row]:
    """The functions of classification."""
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
    """The functions of retrieval, which torchmetrics has only for one query; tied: at most 21 different scores."""
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
    """Update with checks against theirs without, then compute and forward with default settings."""
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
        held = [make(**settings).to(device) for make in makers]
        rows.append((f"{name}.update, theirs unchecked", updates(held[0], args), updates(unchecked, args)))
        rows += life(name, [make(**settings).to(device) for make in makers], args)
    return rows


def collections(size: int, device: str) -> list[Row]:
    """A ``MetricCollection`` of metrics that both libraries have."""
    preds, target = batch(size, device)
    made = []
    for where in (torch_ap, torchmetrics.classification):
        parts = {
            "exact": where.BinaryAveragePrecision(),
            "binned": where.BinaryAveragePrecision(thresholds=50),
            "ignoring": where.BinaryAveragePrecision(ignore_index=-1),
        }
        made.append(torchmetrics.MetricCollection(parts).to(device))
    return life("collection of 3 binary AP", made, (preds, target))


def queries(size: int, device: str, number: int) -> list[Row]:
    """The metrics of retrieval on a few queries of ``size`` items."""
    preds, target = batch(size * number, device)
    target[::size] = 1
    indexes = torch.arange(number, device=device).repeat_interleave(size)
    rows = []
    for name in CLASSES_OF_QUERIES:
        made = [getattr(where, f"Retrieval{name}")().to(device) for where in (torch_ap, their_queries)]
        rows += life(f"Retrieval{name}", made, (preds, target, indexes))
    made = [
        torchmetrics.MetricCollection([getattr(where, f"Retrieval{name}")() for name in ("MAP", "Precision", "MRR")])
        for where in (torch_ap, their_queries)
    ]
    return rows + life("collection of MAP, Precision, MRR", [one.to(device) for one in made], (preds, target, indexes))


def life(name: str, pair: list[Any], args: tuple[Tensor, ...]) -> list[Row]:
    """Update, compute and forward of our metric and theirs."""
    steps = {"update": updates, "compute": computes, "forward": forwards}
    return [
        (f"{name}.{step}", take(pair[0].clone(), args), take(pair[1].clone(), args)) for step, take in steps.items()
    ]


def updates(metric: Any, args: tuple[Tensor, ...]) -> Call:
    """An update of a metric that is emptied now and then."""
    return emptied(metric, partial(metric.update, *args))


def forwards(metric: Any, args: tuple[Tensor, ...]) -> Call:
    """A step of a metric that is emptied now and then."""
    return emptied(metric, partial(metric.forward, *args))


def emptied(metric: Any, step: Call, every: int = 20) -> Call:
    """The step; the metric is reset now and then, since each ``forward`` of theirs copies the whole state."""
    count = 0

    def run() -> None:
        nonlocal count
        step()
        count += 1
        if count % every == 0:
            metric.reset()

    return run


def computes(metric: Any, args: tuple[Tensor, ...]) -> Call:
    """The first ``compute`` after an update, which reuses nothing from the one before."""
    metric.update(*args)
    parts = list(metric.values()) if isinstance(metric, torchmetrics.MetricCollection) else [metric]

    def run() -> None:
        for part in parts:
            part._computed = None
        forget()
        metric.compute()

    return run


def forget() -> None:
    """Empty the rankings that our metrics have cached."""
    from torch_ap.core.base import cached

    cached._latest.clear()


def loop(call: Call, times: int, device: str) -> Call:
    """The call several times, until the device has finished."""

    def run() -> None:
        for _ in range(times):
            call()
        if device != "cpu":
            torch.cuda.synchronize()

    return run


def compare(rows: list[Row], calls: int, rounds: int, device: str, only: str) -> list[tuple[str, float, float]]:
    """Seconds per call of each pair, the least of the rounds."""
    found = []
    for name, ours, theirs in rows:
        if only in name:
            least = by_turns(loop(ours, calls, device), loop(theirs, calls, device), rounds)
            found.append((name, least[0] / calls, least[1] / calls))
    return found


def by_turns(ours: Call, theirs: Call, rounds: int) -> list[float]:
    """The least seconds of each, by turns, after one that does not count; garbage is not collected in between."""
    gc.collect()
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        for run, times in zip((ours, theirs), seconds, strict=True):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return [min(times[1:]) for times in seconds]


def table(title: str, heads: list[str], columns: list[list[tuple[str, float, float]]]) -> None:
    """One row per call and two columns per size: our microseconds, and theirs over ours."""
    if not columns[0]:
        return
    print(f"\n### {title}\n\n| | " + " | ".join(f"{head}, µs | torchmetrics" for head in heads) + " |")
    print("|---" * (1 + 2 * len(heads)) + "|")
    for cells in zip(*columns, strict=True):
        shown = " | ".join(f"{ours * 1e6:.0f} | {theirs / ours:.2f}" for _, ours, theirs in cells)
        print(f"| {cells[0][0]} | {shown} |", flush=True)


def main() -> None:
    """Print all tables."""
    options = parser(__doc__ or "")
    options.add_argument("--device", default="cpu", help="where the tensors lie (default cpu)")
    options.add_argument("--only", default="", help="only rows whose name contains this word")
    options.add_argument("--calls", type=int, default=10, help="calls timed together (default 10)")
    options.set_defaults(rounds=40)
    args = options.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    print(machine("torch", "torchmetrics", "numpy"))
    sizes = SIZES[:2] if args.quick else SIZES
    measure = partial(compare, calls=args.calls, rounds=args.rounds, device=args.device, only=args.only)
    heads = [f"{size:,}" for size in sizes]
    table("Functions", heads, [measure(functions(size, args.device)) for size in sizes])
    table("One query", heads, [measure(one_query(size, args.device)) for size in sizes])
    table("One query, tied", heads, [measure(one_query(size, args.device, tied=True)) for size in sizes])
    table("Metrics of classification", heads, [measure(metrics(size, args.device)) for size in sizes])
    table("Collection", heads, [measure(collections(size, args.device)) for size in sizes])
    numbers = QUERIES[:1] if args.quick else QUERIES
    for size in sizes[:2]:
        columns = [measure(queries(size, args.device, number)) for number in numbers]
        table(f"Queries of {size} items", [f"{number} queries" for number in numbers], columns)


if __name__ == "__main__":
    main()
