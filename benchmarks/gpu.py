"""Tables of metrics and functions on a CUDA device, compared with torchmetrics on the same device.

    python -m benchmarks.gpu [--quick]

The Markdown tables show wall time with a wait for the device. Without a device, nothing is measured.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics import retrieval as their_queries
from torchmetrics.functional import classification as theirs

import torch_ap
from benchmarks import small_inputs
from benchmarks.detection_scenes import like_coco
from benchmarks.timing import machine, parser, print_peer_head, print_peer_row, time_in_turns
from torch_ap import functional

Call = Callable[[], Any]
Row = tuple[str, Call, Call | None]


def rankings(device: torch.device, scale: int) -> Iterator[Row]:
    """Yield one ranking, and one ranking per column."""
    for share in (0.02, 0.5):
        for size in (10**4, 10**6, 10**7):
            preds, target = batch(size // scale, device, share)
            ours, their = (partial(x.binary_average_precision, preds, target) for x in (functional, theirs))
            yield f"AP, {size // scale:,} items, {share:.0%} positive", ours, their
    for width in (100, 1000):
        preds, target = batch((50_000 // scale, width), device, 0.02)
        ours, their = (partial(x.multilabel_average_precision, preds, target, width) for x in (functional, theirs))
        yield f"multilabel, {50_000 // scale:,} x {width:,}", ours, their


def batch(shape: int | tuple[int, ...], device: torch.device, share: float) -> tuple[Tensor, Tensor]:
    """Return scores that depend on the target, and the target, on the device."""
    target = torch.rand(shape, device=device) < share
    target[0] = True
    return torch.sigmoid(torch.randn(target.shape, device=device) + 2 * target), target.long()


def steps(device: torch.device, scale: int) -> Iterator[Row]:
    """Yield the steps of metrics."""
    preds, target = batch(8192 // scale, device, 0.1)
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("exact", {}, {}),
        ("100 thresholds", {"thresholds": 100}, {"thresholds": 100}),
        ("half", {"bins": "half"}, {"thresholds": 100}),
    ]
    for name, settings, peer_settings in cases:
        metric = torch_ap.BinaryAveragePrecision(**settings).to(device)
        peer = torchmetrics.classification.BinaryAveragePrecision(**peer_settings).to(device)
        scores = preds.bfloat16() if name == "half" else preds
        for step in ("update", "forward"):
            ours = small_inputs.with_resets(metric, partial(getattr(metric, step), scores, target))
            their = small_inputs.with_resets(peer, partial(getattr(peer, step), preds, target))
            yield f"{step}, {name}, {len(preds):,} items", ours, their


def queries(device: torch.device, scale: int) -> Iterator[Row]:
    """Yield MAP of many queries; torchmetrics loops over them."""
    for count, docs in ((100, 100), (7000, 100)):
        count = max(2, count // scale)
        preds, target = batch((count, docs), device, 0.1)
        indexes = torch.arange(count, device=device).repeat_interleave(docs)
        flat = preds.flatten(), target.flatten(), indexes
        ours, their = (partial(value_of, x, flat) for x in (torch_ap.RetrievalMAP, their_queries.RetrievalMAP))
        yield f"RetrievalMAP, {count:,} x {docs}", ours, their


def value_of(kind: Any, args: tuple[Tensor, ...]) -> Tensor:
    """Return the value of a new metric."""
    metric = kind().to(args[0].device)
    metric.update(*args)
    value: Tensor = metric.compute()
    return value


def detectors(device: torch.device, scale: int) -> Iterator[Row]:
    """Yield COCO's mAP of boxes; torchmetrics computes it on the CPU."""
    for images in (500, 5000):
        scenes = like_coco(max(5, images // scale))
        preds, target = ({key: x.to(device) for key, x in side.items()} for side in (scenes.preds, scenes.target))
        ours = partial(functional.coco_mean_average_precision, preds, target, "xywh")
        yield f"COCO, {max(5, images // scale):,} images", ours, None


TABLES: dict[str, Callable[[torch.device, int], Iterator[Row]]] = {
    "Rankings": rankings,
    "Steps of a metric": steps,
    "Queries": queries,
    "Detection": detectors,
}


def print_tables(device: torch.device, rounds: int, scale: int) -> None:
    """Print all tables of this module."""
    for title, make in TABLES.items():
        print_peer_head(f"{title} on {device.type}", "call", ["torchmetrics"])
        for name, ours, their in make(device, scale):
            calls = {"torch_ap": ours} | ({} if their is None else {"torchmetrics": their})
            if device.type == "cuda":
                calls = {package: small_inputs.wait_for(call) for package, call in calls.items()}
            print_peer_row(name, time_in_turns(calls, rounds, statistic=min), ["torchmetrics"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all tables, or that there is no device."""
    options = parser(__doc__).parse_args(arguments)
    if not torch.cuda.is_available():
        print("No CUDA device: no table was measured.")
        return 0
    warnings.simplefilter("ignore")
    print(machine("torch", "torchmetrics", "numpy"))
    print(torch.cuda.get_device_name())
    print_tables(torch.device("cuda"), options.rounds, 20 if options.quick else 1)
    small_inputs.main(["--device", "cuda", *["--quick"] * options.quick])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
