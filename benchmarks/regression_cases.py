"""Cases of :mod:`benchmarks.regressions`, as a program that times them on request.

It reads a request per line of standard input and writes an answer per line, both JSON. It imports only the package and
its dependencies, because it also runs with earlier commits.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import torch_ap
from torch_ap import functional, inference

Call = Callable[[], Any]
QUALITY = {"weak": 0.0, "good": 2.0}  # distance of the means of positives and negatives, in standard deviations
SHARES = {"sparse": 0.02, "dense": 0.5}


def items(shape: int | tuple[int, ...], quality: float, share: float) -> tuple[Tensor, Tensor]:
    """Return scores and targets, at least one of which is positive."""
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(shape, generator=generator) < share
    target[0] = True
    return torch.sigmoid(torch.randn(target.shape, generator=generator) + quality * target), target.long()


def rankings() -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield cases of one ranking."""
    for size in (10, 1000, 100_000, 1_000_000):
        for quality, distance in QUALITY.items():
            for labels, share in SHARES.items():
                if size > 10 or labels == "dense":
                    yield f"AP, {quality}, {labels}, {size:,} items", partial(ap, size, distance, share)
    for dtype in (torch.bfloat16, torch.float64):
        yield f"AP, {dtype}, 100,000 items", partial(ap, 100_000, 2.0, 0.02, dtype=dtype)
    variants: dict[str, dict[str, Any]] = {
        "ties expected": {"ties": "expected"},
        "top 100": {"top_k": 100},
        "101-point": {"interpolation": "101-point"},
        "256 bins": {"bins": 256},
        "100 thresholds": {"thresholds": 100},
    }
    for name, settings in variants.items():
        for size in (1000, 100_000):
            yield f"AP, {name}, {size:,} items", partial(ap, size, 2.0, 0.1, levels=50, **settings)
    for size in (1000, 100_000):
        yield f"AP, weighted, {size:,} items", partial(ap, size, 2.0, 0.1, weights=torch.rand(size))
        yield f"interval, {size:,} items", partial(interval, size)
        yield f"precision-recall curve, {size:,} items", partial(curve, size)


def ap(
    size: int, distance: float, share: float, dtype: torch.dtype = torch.float32, levels: int = 0, **settings: Any
) -> Call:
    """Return the AP of one ranking; with ``levels``, of so many distinct scores."""
    preds, target = items(size, distance, share)
    preds = (preds * levels).round() / levels if levels else preds.to(dtype)
    return partial(functional.binary_average_precision, preds, target, **settings)


def interval(size: int) -> Call:
    """Return the default interval of one ranking."""
    return partial(inference.average_precision_interval, *items(size, 2.0, 0.1))


def curve(size: int) -> Call:
    """Return a curve."""
    return partial(functional.binary_precision_recall_curve, *items(size, 2.0, 0.1))


def columns() -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield cases of one ranking per column."""
    for size, width in ((1000, 10), (20_000, 100), (200_000, 4)):
        for labels, share in SHARES.items():
            yield f"multilabel, {labels}, {size:,} x {width}", partial(multilabel, size, width, share)
        yield f"multiclass, {size:,} x {width}", partial(multiclass, size, width)


def multilabel(size: int, width: int, share: float) -> Call:
    """Return the AP of labels."""
    return partial(functional.multilabel_average_precision, *items((size, width), 2.0, share), width)


def multiclass(size: int, width: int) -> Call:
    """Return the AP of classes."""
    preds, _ = items((size, width), 0.0, 0.5)
    target = torch.arange(size) % width
    settings: dict[str, Any] = {"normalization": "none"}
    return partial(functional.multiclass_average_precision, preds, target, width, **settings)


def steps() -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield cases of the steps of a metric."""
    variants: dict[str, dict[str, Any]] = {
        "exact": {},
        "half": {"bins": "half"},
        "adaptive": {"bins": "adaptive", "pilot": 5000},
        "100 thresholds": {"thresholds": 100},
    }
    for name, settings in variants.items():
        for step in ("update", "forward"):
            for size in (256, 4096):
                yield f"{step}, {name}, {size:,} items", partial(metric_step, step, size, settings)
    yield "compute after 900 updates of 32", many_updates
    for name in ("MAP", "NormalizedDCG"):
        yield f"update, {name}, 64 x 64", partial(query_step, name)


def metric_step(step: str, size: int, settings: dict[str, Any]) -> Call:
    """Return an update or a forward step of a metric, which is reset every 20 steps."""
    preds, target = items(size, 2.0, 0.2)
    metric = torch_ap.BinaryAveragePrecision(**settings)
    return with_resets(
        metric, partial(getattr(metric, step), preds.bfloat16() if "half" in str(settings) else preds, target)
    )


def with_resets(metric: Any, step: Call) -> Call:
    """Return the step, with a reset of the metric every 20 steps."""

    def run() -> None:
        step()
        if metric.update_count >= 20:
            metric.reset()

    return run


def many_updates() -> Call:
    """Return ``compute`` of many small batches."""
    metric = torch_ap.BinaryAveragePrecision(compute_with_cache=False)
    preds, target = items(900 * 32, 2.0, 0.2)
    for batch in zip(torch.split(preds, 32), torch.split(target, 32), strict=True):
        metric.update(*batch)
    return metric.compute


def query_step(name: str) -> Call:
    """Return an update of a metric over queries."""
    metric = getattr(torch_ap, f"Retrieval{name}")()
    batch = (*items(64 * 64, 2.0, 0.1), torch.arange(64).repeat_interleave(64))
    return with_resets(metric, partial(metric.update, *batch))


def retrieval() -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield cases of queries."""
    for queries, docs in ((1, 10), (1, 1000), (100, 10), (100, 1000), (20_000, 1), (7000, 100)):
        yield f"MAP, {queries:,} x {docs:,}", partial(mean_ap, queries, docs)
    for shape in ((100, 100), (7000, 100)):
        yield f"MAP, shuffled, {shape[0]:,} x {shape[1]}", partial(mean_ap, *shape, shuffle=True)
        yield f"nDCG, {shape[0]:,} x {shape[1]}", partial(ndcg, *shape)
    for queries, docs in ((1, 10), (10, 10), (1000, 100)):
        yield f"evaluate, {queries:,} x {docs}", partial(dicts, queries, docs)
    for classes in (6, 300):
        yield f"embeddings, 1,500 of {classes} classes", partial(embeddings, classes)


def mean_ap(queries: int, docs: int, *, shuffle: bool = False) -> Call:
    """Return the AP of each query."""
    preds, target = items(queries * docs, 1.0, 0.1)
    indexes = torch.arange(queries).repeat_interleave(docs)
    if shuffle:
        indexes = indexes[torch.randperm(len(indexes), generator=torch.Generator().manual_seed(1))]
    return partial(functional.retrieval_average_precision, preds, target, indexes=indexes)


def ndcg(queries: int, docs: int) -> Call:
    """Return the nDCG of each query, of grades from 0 to 3."""
    preds, _ = items((queries, docs), 1.0, 0.1)
    grades = torch.randint(4, (queries, docs), generator=torch.Generator().manual_seed(0))
    return partial(functional.retrieval_normalized_dcg, preds, grades)


def dicts(queries: int, docs: int) -> Call:
    """Return the evaluation of nested dicts."""
    generator = np.random.default_rng(0)
    run = {f"q{q}": {f"d{d}": float(generator.random()) for d in range(docs)} for q in range(queries)}
    qrels = {q: {d: 1 for place, d in enumerate(scores) if place % 5 == 0} for q, scores in run.items()}
    return partial(torch_ap.evaluate, qrels, run, ("AP", "nDCG@10", "P@10", "R@100", "RR"))


def embeddings(classes: int) -> Call:
    """Return the measures of embeddings that search one another."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(1500, 64, generator=generator))
    labels = torch.randint(classes, (1500,), generator=generator)
    return partial(functional.embedding_average_precision, vectors, None, labels)


def detection() -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield cases of detectors."""
    for images in (1, 50, 1000):
        for quality in QUALITY:
            yield f"COCO, {quality}, {images:,} images", partial(coco, images, quality)
    yield "COCO, crowded, 5 images", partial(coco, 5, "good", spread=20.0, each=300)
    for images in (1, 500):
        yield f"COCO metric, update and compute, {images:,} images", partial(coco_metric, images)


def scenes(
    images: int, quality: str, spread: float, each: int
) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """Return detections and ground truths; weak detections are at random places."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(images):
        count = each // 3
        true = torch.rand(count, 2, generator=generator) * spread
        found = true.repeat(3, 1) + torch.randn(3 * count, 2, generator=generator) * 8
        if quality == "weak":
            found = torch.rand(3 * count, 2, generator=generator) * spread
        labels = torch.randint(10, (count,), generator=generator)
        size = torch.tensor([80.0, 60.0])
        scores = torch.rand(3 * count, generator=generator)
        preds.append({"boxes": torch.cat([found, found + size], 1), "scores": scores, "labels": labels.repeat(3)})
        target.append({"boxes": torch.cat([true, true + size], 1), "labels": labels})
    return preds, target


def coco(images: int, quality: str, spread: float = 500.0, each: int = 30) -> Call:
    """Return COCO's mAP from lists of images."""
    return partial(functional.coco_mean_average_precision, *scenes(images, quality, spread, each))


def coco_metric(images: int) -> Call:
    """Return an epoch of updates of one image and ``compute``."""
    batches = list(zip(*scenes(images, "good", 500.0, 15), strict=True))
    metric = torch_ap.MeanAveragePrecision()

    def run() -> None:
        metric.reset()
        for preds, target in batches:
            metric.update([preds], [target])
        metric.compute()

    return run


CASES = {name: make for group in (rankings, columns, steps, retrieval, detection) for name, make in group()}


def seconds_per_call(call: Call, calls: int) -> float:
    """Return the processor time of a call."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    for _ in range(calls):
        call()
    took = time.process_time() - start
    gc.enable()
    return took / calls


def answer(request: dict[str, Any], made: dict[str, Call]) -> Any:
    """Return the answer to a request; cases are prepared at the first request."""
    if request["what"] == "cases":
        return list(CASES)
    case = request["case"]
    if case not in made:
        made.clear()  # memory of the case before
        made[case] = CASES[case]()
        made[case]()
    return seconds_per_call(made[case], request["calls"])


def main() -> None:
    """Answer the requests of standard input."""
    torch.set_num_threads(1)
    made: dict[str, Call] = {}
    for line in sys.stdin:
        try:
            reply = {"result": answer(json.loads(line), made)}
        except Exception as error:  # for example a function that an earlier commit lacks
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
