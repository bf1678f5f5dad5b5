"""Embeddings that search one another: all measures of all ranks, beside the product alone and the peers.

    python -m benchmarks.embeddings

prints Markdown tables; a peer's figure is its time as a multiple of ours, measured by turns in the same run.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from benchmarks.timing import by_turns, head, machine, parser, peak, row
from torch_ap.functional import embedding_average_precision

Contenders: TypeAlias = dict[str, Callable[[], object]]
BLOCK = 1024
COLUMNS = ["product alone", "argsort of the rows", "pytorch-metric-learning"]


def embeddings(size: int, each: int, dimensions: int = 128) -> tuple[Tensor, Tensor]:
    """Embeddings of length 1 that are a little like those of their label, of which there are about ``each``."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(size // each, (size,), generator=generator)
    centres = torch.randn(size // each, dimensions, generator=generator)
    vectors = centres[labels] * 0.4 + torch.randn(size, dimensions, generator=generator)
    return torch.nn.functional.normalize(vectors), labels


def product(vectors: Tensor) -> None:
    """All similarities, a block of rows at a time."""
    out = torch.empty(BLOCK, len(vectors))
    for rows in torch.split(vectors, BLOCK):
        torch.mm(rows, vectors.t(), out=out[: len(rows)])


def ordered(vectors: Tensor) -> None:
    """All similarities, and each row in order."""
    for rows in torch.split(vectors, BLOCK):
        (rows @ vectors.t()).argsort(1, descending=True)


def ours(vectors: Tensor, labels: Tensor) -> float:
    return float(embedding_average_precision(vectors, None, labels).map)


def metric_learning(vectors: Tensor, labels: Tensor) -> float:
    """AccuracyCalculator over all ranks, with torch's own search."""
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    search = CustomKNN(CosineSimilarity(), BLOCK)
    calculator = AccuracyCalculator(
        include=("mean_average_precision", "mean_average_precision_at_r", "precision_at_1", "r_precision"),
        k=len(vectors) - 1,
        knn_func=search,
        device=vectors.device,
    )
    return float(calculator.get_accuracy(vectors, labels)["mean_average_precision"])


def speed(sizes: list[tuple[int, int]], slow: int, rounds: int) -> None:
    """CPU seconds; peers that sort up to ``slow`` embeddings."""
    print("\n### Embeddings of 128 dimensions: CPU time\n\n" + head("embeddings, relevant", COLUMNS))
    for size, each in sizes:
        vectors, labels = embeddings(size, each)
        contenders: Contenders = {"torch_ap": partial(ours, vectors, labels), COLUMNS[0]: partial(product, vectors)}
        seconds = by_turns(contenders, rounds, time.process_time)
        if size <= slow:
            peers: Contenders = {
                COLUMNS[1]: partial(ordered, vectors),
                COLUMNS[2]: partial(metric_learning, vectors, labels),
            }
            seconds |= by_turns(peers, 0, time.process_time)
        print(row(f"{size:,}, about {each}", seconds, COLUMNS), flush=True)


def memory(size: int) -> None:
    """Highest resident memory beyond the embeddings."""
    vectors, labels = embeddings(size, 12)
    ours(vectors[:3000], labels[:3000])
    print(f"\n{size:,} embeddings, {vectors.nbytes / 1e6:.0f} MB: {peak(partial(ours, vectors, labels)):.0f} MB more")


def main() -> None:
    """Print all tables."""
    options = parser(__doc__ or "").parse_args()
    warnings.simplefilter("ignore")
    print(machine("torch", "numpy", "pytorch-metric-learning"))
    small = options.quick
    speed([(2000, 12)] if small else [(2000, 12), (12_000, 3), (12_000, 12), (12_000, 200)], 12_000, options.rounds)
    memory(6000 if small else 60_000)


if __name__ == "__main__":
    main()
