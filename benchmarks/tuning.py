"""Effect of each tuning constant: time and memory of a call without the constant, as multiples of a call with it.

    python -m benchmarks.tuning [--rounds N] [--quick] [--only WORD]

This prints a Markdown table with a row per constant and kind of input. "Without" is the value that turns the constant
off, or the value of the simplest code. Both calls run in turns in one process. The time is processor time, and wall
time for constants of threads and accelerators. Memory is the additional peak memory of the call. Remove a constant that
saves less than 5% of time and memory on all inputs.
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
from benchmarks.timing import machine, milliseconds, parser, peak_memory, print_head, print_row, time_in_turns
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
    """A row of the table: the constant, its replacement, and the measured call."""

    module: Any
    name: str
    without: Any
    inputs: str
    call: Callable[[], Any]
    threads: bool = False


def random_scores(count: int, *, share: float, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return random scores and targets."""
    return torch.randn(count).to(dtype), (torch.rand(count) < share).long()


def one_ranking(count: int, share: float, **settings: Any) -> Callable[[], Any]:
    """Return the computation of the AP of one ranking."""
    preds, target = random_scores(count, share=share)
    return lambda: functional.binary_average_precision(preds, target, **settings)


def columns(items: int, width: int, share: float, dtype: torch.dtype = torch.float32) -> Callable[[], Any]:
    """Return the computation of the AP of labels."""
    preds, target = (x.reshape(items, width) for x in random_scores(items * width, share=share, dtype=dtype))
    return lambda: functional.multilabel_average_precision(preds, target, width, empty_target_action="skip")


def queries(lengths: Tensor, share: float, *, dtype: torch.dtype = torch.float32, shuffle: bool = False) -> Any:
    """Return the computation of MAP of queries of these lengths, with contiguous or shuffled items."""
    preds, target = random_scores(int(lengths.sum()), share=share, dtype=dtype)
    indexes = torch.arange(len(lengths)).repeat_interleave(lengths)
    indexes = indexes[torch.randperm(len(indexes))] if shuffle else indexes
    return lambda: functional.retrieval_average_precision(preds, target, indexes=indexes)


def equal_lengths(count: int, length: int) -> Tensor:
    """Return the lengths of ``count`` queries with ``length`` items each."""
    return torch.full((count,), length)


def known_item(count: int, length: int) -> Callable[[], Any]:
    """Return the computation of MAP of queries with one relevant item each."""
    preds, target = torch.rand(count, length), torch.zeros(count, length, dtype=torch.int64)
    target[torch.arange(count), torch.randint(length, (count,))] = 1
    return lambda: functional.retrieval_average_precision(preds, target)


def ignoring(items: int, width: int, share: float) -> Callable[[], Any]:
    """Return the computation of the AP of labels, a share of which is ignored."""
    preds, target = (x.reshape(items, width) for x in random_scores(items * width, share=0.02))
    target = torch.where(torch.rand(items, width) < share, -1, target)
    return lambda: functional.multilabel_average_precision(preds, target, width, ignore_index=-1)


def copies(count: int) -> Callable[[], Any]:
    """Return the copy of scores that a metric makes."""
    preds = torch.rand(count)
    return lambda: arrays.copy(preds)


def detections(images: int, device: str = "cpu") -> Callable[[], Any]:
    """Return the computation of COCO's mAP of crowded images."""

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
    """Return the computation of COCO's mAP of masks of one class, with a hundred runs each."""

    def side(count: int) -> dict[str, Any]:
        counts = torch.randint(1, 200, (count, 200)).tolist()
        codes = [{"size": [200, 400], "counts": [*x, 80_000 - sum(x)]} for x in counts]
        return {"masks": codes, "labels": torch.zeros(count, dtype=torch.int64)}

    preds = [{**side(100), "scores": torch.rand(100)} for _ in range(images)]
    target = [side(100) for _ in range(images)]
    return lambda: functional.coco_mean_average_precision(preds, target, iou_type="segm")


def tied_queries(count: int, length: int) -> Callable[[], Any]:
    """Return the computation of the mean reciprocal rank of queries with equal scores and about 4 relevant items."""
    target = (torch.rand(count, length) < 4 / length).long()
    return lambda: functional.retrieval_reciprocal_rank(torch.zeros(count, length), target, ties="expected")


def interval(count: int, share: float, method: Any, **settings: Any) -> Callable[[], Any]:
    """Return the computation of the interval of one AP."""
    preds, target = random_scores(count, share=share)
    return lambda: torch_ap.inference.average_precision_interval(preds, target, method=method, **settings)


def macro_interval(items: int, width: int) -> Callable[[], Any]:
    """Return the computation of the interval of the mean AP of labels."""
    preds, target = (x.reshape(items, width) for x in random_scores(items * width, share=0.02))
    return lambda: torch_ap.inference.average_precision_interval(preds, target, average="macro")


def detectors_interval(images: int, classes: int) -> Callable[[], Any]:
    """Return the computation of the interval of COCO's mAP, with 1,000 resamples of the images."""
    metric, scenes = torch_ap.MeanAveragePrecision("xywh"), like_coco(images, classes)
    metric.update(scenes.preds, scenes.target)
    return metric.confidence_interval


def repeat_call(call: Callable[[], Any], times: int = 200) -> Callable[[], Any]:
    """Return many calls, for a call that is too short to be measured."""
    return lambda: [call() for _ in range(times)]


def rows(scale: int) -> list[Row]:
    """Return every constant with its inputs."""
    n, wide = 10**6 // scale, torch.float64
    uneven = torch.randint(100, 1900, (2000 // scale,))
    return [
        Row(few_items, "FEW_ITEMS", ALWAYS, "one ranking, 1,000 items", one_ranking(1000, 0.05)),
        Row(few_items, "FEW_ITEMS", ALWAYS, "one ranking, 8,000 items", one_ranking(8000, 0.05)),
        Row(
            few_items,
            "FEW_OF_SEVERAL",
            ALWAYS,
            "queries of 100, 10,000 items",
            repeat_call(queries(equal_lengths(100, 100), 0.1)),
        ),
        Row(
            tie_groups,
            "_narrow_keys",
            _no_narrow_keys,
            "queries of 1,000, 10% hits",
            queries(equal_lengths(2000 // scale, 1000), 0.1),
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
            queries(equal_lengths(2000 // scale, 1000), 0.1, dtype=wide),
        ),
        Row(many_rankings, "_MOST_PADDING", 1, "queries of 100 to 1,900", queries(uneven, 0.05)),
        Row(builders, "_LONG_COLUMN", ALWAYS, "2,000 x 1,000 labels", columns(2000, 1000 // scale, 0.02)),
        Row(builders, "_LONG_COLUMN", NEVER, "500,000 x 4 labels", columns(500_000 // scale, 4, 0.01)),
        Row(builders, "_LONG_WIDE_COLUMN", ALWAYS, "500 x 2,000, float64", columns(500, 2000 // scale, 0.02, wide)),
        Row(builders, "_LONG_WIDE_COLUMN", NEVER, "20,000 x 50, float64", columns(20_000 // scale, 50, 0.5, wide)),
        Row(builders, "ITEMS_A_BLOCK", NEVER, "20,000 x 5,000 labels", columns(20_000 // scale, 5000, 0.02)),
        Row(order, "_THREADING_PAYS", ALWAYS, "one ranking, 30,000 items", one_ranking(30_000, 0.05), True),
        Row(order, "_THREADING_PAYS", NEVER, "one ranking, 10,000,000 items", one_ranking(10 * n, 0.05), True),
        Row(order, "COLUMNS_A_TASK", NEVER, "100,000 x 256 labels", columns(100_000 // scale, 256, 0.02), True),
        Row(order, "COLUMNS_A_TASK", 1, "100,000 x 256 labels", columns(100_000 // scale, 256, 0.02), True),
        Row(segments, "LONG_SUM", NEVER, "300 crowded images", detections(300 // scale)),
        Row(segments, "LONG_SUM", ALWAYS, "one ranking, 1,000 items", one_ranking(1000, 0.05)),
        Row(average_precision, "_FEW_GROUPS", ALWAYS, "expected AP, 3 items, 200 times", repeat_call(_tied(3))),
        Row(average_precision, "_FEW_GROUPS", ALWAYS, "expected AP, 10 items, 200 times", repeat_call(_tied(10))),
        Row(ties, "_KEPT", ALWAYS, "expected AP, 1,000 items", _tied(1000)),
        Row(at_rank, "_MOST_AT_ONCE", NEVER, "20,000 tied queries of 1,000", tied_queries(20_000 // scale, 1000)),
        Row(inputs, "_FEW_IGNORED", NEVER, "labels, 2% ignored", ignoring(20_000 // scale, 50, 0.02)),
        Row(rankings, "_ITEMS_A_RUN", 1, "queries of 2 items", queries(equal_lengths(n // 10, 2), 0.3)),
        Row(rankings, "_MOST_GAPS", ALWAYS, "shuffled", queries(equal_lengths(1000, 100), 0.02, shuffle=True)),
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
        *accelerator_rows(scale),
    ]


def accelerator_rows(scale: int) -> list[Row]:
    """Return the rows that require an accelerator, or an empty list without one."""
    if not torch.cuda.is_available():
        return []
    images = detections(3000 // scale, "cuda")
    return [
        Row(candidate_pairs, "_PAIRS_A_CHUNK_ON_DEVICE", 1 << 16, "3,000 crowded images on a GPU", images, True),
        Row(candidate_pairs, "_PAIRS_A_CHUNK_ON_DEVICE", NEVER, "3,000 crowded images on a GPU", images, True),
    ]


def _no_narrow_keys(_: Any) -> None:
    """Replace the function of narrow keys, so that every key has 64 bits."""


def _tied(count: int) -> Callable[[], Any]:
    preds, target = (torch.rand(count) * count / 3).round(), (torch.rand(count) < 0.3).long()
    return lambda: functional.binary_average_precision(preds, target, ties="expected")


def measure(row: Row, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds and the MB of memory with and without the constant."""

    def without() -> None:
        with patch.object(row.module, row.name, row.without):
            row.call()

    contenders = {"with": row.call, "without": without}
    clock = time.perf_counter if row.threads else time.process_time
    return time_in_turns(contenders, rounds, clock), {name: peak_memory(run) for name, run in contenders.items()}


def ratio(amounts: dict[str, float], minimum: float) -> str:
    """Return without / with, or an empty text if the amount without the constant is below the minimum."""
    return f"{amounts['without'] / max(amounts['with'], minimum):.2f}" if amounts["without"] >= minimum else ""


def main() -> None:
    """Print the table."""
    options = parser(__doc__ or "")
    options.add_argument("--only", default="", help="rows whose constant or input contains this word")
    arguments = options.parse_args()
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    print(machine("torch", "numpy"))
    print_head("", "constant", "input", "with, ms", "without / with", "with, MB", "without / with")
    for row in rows(20 if arguments.quick else 1):
        name = f"{row.module.__name__.removeprefix('torch_ap.')}.{row.name}"
        if arguments.only in name or arguments.only in row.inputs:
            torch.set_num_threads(threads if row.threads else 1)
            seconds, memory_used = measure(row, arguments.rounds)
            cells = (
                milliseconds(seconds["with"]),
                ratio(seconds, 0),
                f"{memory_used['with']:.0f}",
                ratio(memory_used, 1),
            )
            print_row(f"`{name}`", row.inputs, *cells)


if __name__ == "__main__":
    main()
