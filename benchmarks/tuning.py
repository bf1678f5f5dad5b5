"""What each tuning constant buys: the time and memory of a call without it, as multiples of those with it.

    python -m benchmarks.tuning [--rounds N] [--quick] [--only WORD]

prints a Markdown table, a row per constant and kind of input. "Without" is the value that switches it off, or that of
the simplest code. Both are timed by turns in one process; in seconds of the processor, or of the clock for constants of
threads and of an accelerator. Memory is the highest beyond that before the call. A constant that buys less than 5% of
either everywhere has no place in the code.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

import torch_ap.inference
from benchmarks.detection import ours
from benchmarks.detection_scenes import dense, like_coco
from benchmarks.timing import by_turns, in_ms, machine, parser, peak
from torch_ap import functional
from torch_ap.core.base import arrays
from torch_ap.core.items import inputs
from torch_ap.core.measures import average_precision, ties
from torch_ap.core.ranking import builders, few_items, many_rankings, order, segments, tie_groups
from torch_ap.detection.matching import candidate_pairs
from torch_ap.detection.shapes import masks, run_lengths
from torch_ap.inference import influence, resampling
from torch_ap.retrieval import rankings
from torch_ap.retrieval.measures import at_rank

NEVER, ALWAYS = 1 << 60, 0


class Row(NamedTuple):
    """One line: the constant, what stands in its place, and the call that is timed."""

    module: Any
    name: str
    without: Any
    inputs: str
    call: Callable[[], Any]
    threads: bool = False


def scores_of(count: int, *, share: float, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Random scores and targets."""
    return torch.randn(count).to(dtype), (torch.rand(count) < share).long()


def one(count: int, share: float, **settings: Any) -> Callable[[], Any]:
    """AP of one ranking."""
    preds, target = scores_of(count, share=share)
    return lambda: functional.binary_average_precision(preds, target, **settings)


def columns(items: int, width: int, share: float, dtype: torch.dtype = torch.float32) -> Callable[[], Any]:
    """AP of labels."""
    preds, target = (x.reshape(items, width) for x in scores_of(items * width, share=share, dtype=dtype))
    return lambda: functional.multilabel_average_precision(preds, target, width, empty_target_action="skip")


def queries(lengths: Tensor, share: float, *, dtype: torch.dtype = torch.float32, shuffle: bool = False) -> Any:
    """MAP of queries of these lengths, end to end or with their items shuffled."""
    preds, target = scores_of(int(lengths.sum()), share=share, dtype=dtype)
    indexes = torch.arange(len(lengths)).repeat_interleave(lengths)
    indexes = indexes[torch.randperm(len(indexes))] if shuffle else indexes
    return lambda: functional.retrieval_average_precision(preds, target, indexes=indexes)


def even(count: int, length: int) -> Tensor:
    """Lengths of so many queries of as many items."""
    return torch.full((count,), length)


def known_item(count: int, length: int) -> Callable[[], Any]:
    """MAP of queries of one relevant item each."""
    preds, target = torch.rand(count, length), torch.zeros(count, length, dtype=torch.int64)
    target[torch.arange(count), torch.randint(length, (count,))] = 1
    return lambda: functional.retrieval_average_precision(preds, target)


def ignoring(items: int, width: int, share: float) -> Callable[[], Any]:
    """AP of labels, a share of which does not count."""
    preds, target = (x.reshape(items, width) for x in scores_of(items * width, share=0.02))
    target = torch.where(torch.rand(items, width) < share, -1, target)
    return lambda: functional.multilabel_average_precision(preds, target, width, ignore_index=-1)


def copies(count: int) -> Callable[[], Any]:
    """A copy of the scores, as a metric keeps one."""
    preds = torch.rand(count)
    return lambda: arrays.copy(preds)


def detections(images: int, device: str = "cpu") -> Callable[[], Any]:
    """COCO's mAP of crowded images."""

    def boxes(count: int) -> Tensor:
        corner = torch.rand(count, 2) * 400
        return torch.cat([corner, corner + torch.rand(count, 2) * 100], 1)

    preds = [
        {"boxes": boxes(100), "scores": torch.rand(100), "labels": torch.randint(0, 4, (100,))} for _ in range(images)
    ]
    target = [{"boxes": boxes(30), "labels": torch.randint(0, 4, (30,))} for _ in range(images)]
    preds, target = ([{key: x.to(device) for key, x in image.items()} for image in side] for side in (preds, target))
    return lambda: functional.coco_mean_average_precision(preds, target)["map"].item()


def ragged_masks(images: int) -> Callable[[], Any]:
    """COCO's mAP of masks with a hundred runs each, all of one class."""

    def side(count: int) -> dict[str, Any]:
        counts = torch.randint(1, 200, (count, 200)).tolist()
        codes = [{"size": [200, 400], "counts": [*x, 80_000 - sum(x)]} for x in counts]
        return {"masks": codes, "labels": torch.zeros(count, dtype=torch.int64)}

    preds = [{**side(100), "scores": torch.rand(100)} for _ in range(images)]
    target = [side(100) for _ in range(images)]
    return lambda: functional.coco_mean_average_precision(preds, target, iou_type="segm")


def tied_queries(count: int, length: int) -> Callable[[], Any]:
    """Mean reciprocal rank of queries whose scores are all equal, a few items of each relevant."""
    target = (torch.rand(count, length) < 4 / length).long()
    return lambda: functional.retrieval_reciprocal_rank(torch.zeros(count, length), target, ties="expected")


def interval(count: int, share: float, method: Any, **settings: Any) -> Callable[[], Any]:
    """A confidence interval of one AP."""
    preds, target = scores_of(count, share=share)
    return lambda: torch_ap.inference.average_precision_interval(preds, target, method=method, **settings)


def macro_interval(items: int, width: int) -> Callable[[], Any]:
    """A confidence interval of the mean AP of labels."""
    preds, target = (x.reshape(items, width) for x in scores_of(items * width, share=0.02))
    return lambda: torch_ap.inference.average_precision_interval(preds, target, average="macro")


def detectors_interval(images: int, classes: int) -> Callable[[], Any]:
    """A confidence interval of COCO's mAP: 1,000 resamples of a few images."""
    metric, scenes = torch_ap.MeanAveragePrecision("xywh"), like_coco(images, classes)
    metric.update(scenes.preds, scenes.target)
    return metric.confidence_interval


def often(call: Callable[[], Any], times: int = 200) -> Callable[[], Any]:
    """Many calls, where one is too short to be timed."""
    return lambda: [call() for _ in range(times)]


def rows(scale: int) -> list[Row]:
    """Every constant with the inputs that it is for."""
    n, wide = 10**6 // scale, torch.float64
    uneven = torch.randint(100, 1900, (2000 // scale,))
    return [
        Row(few_items, "FEW_ITEMS", ALWAYS, "one ranking, 1,000 items", one(1000, 0.05)),
        Row(few_items, "FEW_ITEMS", ALWAYS, "one ranking, 8,000 items", one(8000, 0.05)),
        Row(few_items, "FEW_OF_SEVERAL", ALWAYS, "queries of 100, 10,000 items", often(queries(even(100, 100), 0.1))),
        Row(
            tie_groups,
            "_narrow_keys",
            _no_narrow_keys,
            "queries of 1,000, 10% hits",
            queries(even(2000 // scale, 1000), 0.1),
        ),
        Row(
            many_rankings,
            "_count_by_comparing",
            many_rankings._count_by_searching,
            "known item",
            known_item(2000 // scale, 1000),
        ),
        Row(
            *(many_rankings, "_ITEMS_A_BLOCK", NEVER, "queries of 1,000, float64"),
            queries(even(2000 // scale, 1000), 0.1, dtype=wide),
        ),
        Row(many_rankings, "_MOST_PADDING", 1, "queries of 100 to 1,900", queries(uneven, 0.05)),
        Row(builders, "_LONG_COLUMN", ALWAYS, "2,000 x 1,000 labels", columns(2000, 1000 // scale, 0.02)),
        Row(builders, "_LONG_COLUMN", NEVER, "500,000 x 4 labels", columns(500_000 // scale, 4, 0.01)),
        Row(builders, "_LONG_WIDE_COLUMN", ALWAYS, "500 x 2,000, float64", columns(500, 2000 // scale, 0.02, wide)),
        Row(builders, "_LONG_WIDE_COLUMN", NEVER, "20,000 x 50, float64", columns(20_000 // scale, 50, 0.5, wide)),
        Row(builders, "ITEMS_A_BLOCK", NEVER, "20,000 x 5,000 labels", columns(20_000 // scale, 5000, 0.02)),
        Row(order, "_THREADING_PAYS", ALWAYS, "one ranking, 30,000 items", one(30_000, 0.05), True),
        Row(order, "_THREADING_PAYS", NEVER, "one ranking, 10,000,000 items", one(10 * n, 0.05), True),
        Row(order, "COLUMNS_A_TASK", NEVER, "100,000 x 256 labels", columns(100_000 // scale, 256, 0.02), True),
        Row(order, "COLUMNS_A_TASK", 1, "100,000 x 256 labels", columns(100_000 // scale, 256, 0.02), True),
        Row(segments, "LONG_SUM", NEVER, "300 crowded images", detections(300 // scale)),
        Row(segments, "LONG_SUM", ALWAYS, "one ranking, 1,000 items", one(1000, 0.05)),
        Row(average_precision, "_FEW_GROUPS", ALWAYS, "expected AP, 3 items, 200 times", often(_tied(3))),
        Row(average_precision, "_FEW_GROUPS", ALWAYS, "expected AP, 10 items, 200 times", often(_tied(10))),
        Row(ties, "_KEPT", ALWAYS, "expected AP, 1,000 items", _tied(1000)),
        Row(at_rank, "_MOST_AT_ONCE", NEVER, "20,000 tied queries of 1,000", tied_queries(20_000 // scale, 1000)),
        Row(inputs, "_FEW_IGNORED", NEVER, "labels, 2% ignored", ignoring(20_000 // scale, 50, 0.02)),
        Row(rankings, "_ITEMS_A_RUN", 1, "queries of 2 items", queries(even(n // 10, 2), 0.3)),
        Row(rankings, "_MOST_GAPS", ALWAYS, "shuffled", queries(even(1000, 100), 0.02, shuffle=True)),
        Row(arrays, "_LARGE", NEVER, "a copy of 40 MB", copies(10**7 // scale)),
        Row(candidate_pairs, "_PAIRS_A_CHUNK", {"cpu": NEVER}, "300 crowded images", detections(300 // scale)),
        Row(candidate_pairs, "_CROWDED", NEVER, "20 images of 200 objects", partial(ours, dense(20 // min(scale, 10)))),
        Row(masks, "_EDGES_A_CHUNK", {"cpu": NEVER}, "20 images of 100 masks", ragged_masks(20 // min(scale, 10))),
        Row(run_lengths, "_NUMBERS_A_BLOCK", NEVER, "100 images of 100 masks", ragged_masks(100 // min(scale, 10))),
        Row(resampling, "_DRAWS_PER_GROUP", NEVER, "bootstrap, 20 hits", interval(20_000, 0.001, "bootstrap-bca")),
        Row(resampling, "_NUMBERS_PER_BATCH", NEVER, "bootstrap, 2,000 hits", interval(n // 10, 0.02, "bootstrap-bca")),
        Row(resampling, "_NUMBERS_PER_TASK", ALWAYS, "bootstrap, 50 images of 3 classes", detectors_interval(50, 3)),
        Row(influence, "_BLOCK", NEVER, "influence, half of 1,000,000 hits", interval(n, 0.5, "influence")),
        Row(influence, "_THREADED", NEVER, "influence, 5,000,000 hits", interval(10 * n, 0.5, "influence"), True),
        Row(influence, "_THREADED", ALWAYS, "influence, 500,000 hits", interval(n, 0.5, "influence"), True),
        Row(influence, "_COLUMNS", NEVER, "mean of 64 labels", macro_interval(100_000 // scale, 64), True),
        Row(influence, "_COLUMNS", 1, "mean of 64 labels", macro_interval(100_000 // scale, 64), True),
        *rows_of_accelerators(scale),
    ]


def rows_of_accelerators(scale: int) -> list[Row]:
    """Those that only an accelerator can measure; none where there is none."""
    if not torch.cuda.is_available():
        return []
    images = detections(3000 // scale, "cuda")
    return [
        Row(candidate_pairs, "_PAIRS_A_CHUNK_ON_DEVICE", 1 << 16, "3,000 crowded images on a GPU", images, True),
        Row(candidate_pairs, "_PAIRS_A_CHUNK_ON_DEVICE", NEVER, "3,000 crowded images on a GPU", images, True),
    ]


def _no_narrow_keys(_: Any) -> None:
    """Every key has 64 bits."""


def _tied(count: int) -> Callable[[], Any]:
    preds, target = (torch.rand(count) * count / 3).round(), (torch.rand(count) < 0.3).long()
    return lambda: functional.binary_average_precision(preds, target, ties="expected")


def measured(row: Row, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds, and MB of memory, with the constant and without it."""

    def without() -> None:
        with patch.object(row.module, row.name, row.without):
            row.call()

    contenders = {"with": row.call, "without": without}
    clock = time.perf_counter if row.threads else time.process_time
    return by_turns(contenders, rounds, clock), {name: peak(run) for name, run in contenders.items()}


def ratio(found: dict[str, float], least: float) -> str:
    """Without / with, where what is without is so much at least."""
    return f"{found['without'] / max(found['with'], least):.2f}" if found["without"] >= least else ""


def main() -> None:
    """Print the table."""
    options = parser(__doc__ or "")
    options.add_argument("--only", default="", help="rows whose constant or input holds this word")
    arguments = options.parse_args()
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    head = "| constant | input | with, ms | without / with | with, MB | without / with |"
    print(machine("torch", "numpy") + f"\n\n{head}\n|---|---|---|---|---|---|")
    for row in rows(20 if arguments.quick else 1):
        name = f"{row.module.__name__.removeprefix('torch_ap.')}.{row.name}"
        if arguments.only in name or arguments.only in row.inputs:
            torch.set_num_threads(threads if row.threads else 1)
            seconds, memory_used = measured(row, arguments.rounds)
            cells = (in_ms(seconds["with"]), ratio(seconds, 0), f"{memory_used['with']:.0f}", ratio(memory_used, 1))
            print(f"| `{name}` | {row.inputs} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
