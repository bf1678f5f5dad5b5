"""Embeddings that search one another: all measures at all ranks, compared with the product alone and with peers.

    python -m benchmarks.embeddings

The Markdown tables show the time of a peer as a multiple of torch_ap, measured in turns in the same run.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from benchmarks.timing import machine, parser, peak_memory, print_peer_head, print_peer_row, time_in_turns
from torch_ap.functional import embedding_average_precision, retrieval_average_precision

Contenders: TypeAlias = dict[str, Callable[[], object]]
BLOCK = 1024
COLUMNS = ["product alone", "product and sort of the rows", "argsort of the rows", "pytorch-metric-learning"]


def embeddings(size: int, each: int, dimensions: int = 128) -> tuple[Tensor, Tensor]:
    """Return unit vectors near the centre of their label, with about ``each`` vectors per label."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(size // each, (size,), generator=generator)
    centres = torch.randn(size // each, dimensions, generator=generator)
    vectors = centres[labels] * 0.4 + torch.randn(size, dimensions, generator=generator)
    return torch.nn.functional.normalize(vectors), labels


def product(vectors: Tensor) -> None:
    """Compute all similarities in blocks of rows."""
    out = torch.empty(BLOCK, len(vectors))
    for rows in torch.split(vectors, BLOCK):
        torch.mm(rows, vectors.t(), out=out[: len(rows)])


def sort_rows(vectors: Tensor) -> None:
    """Compute all similarities and sort each row, without the order of the items."""
    for rows in torch.split(vectors, BLOCK):
        (rows @ vectors.t()).numpy().sort(1)


def argsort_rows(vectors: Tensor) -> None:
    """Compute all similarities and the order of the items in each row."""
    for rows in torch.split(vectors, BLOCK):
        (rows @ vectors.t()).argsort(1, descending=True)


def ours(vectors: Tensor, labels: Tensor) -> float:
    """Return the mean AP."""
    return float(embedding_average_precision(vectors, None, labels).map)


def metric_learning(vectors: Tensor, labels: Tensor) -> float:
    """Return the mean AP of AccuracyCalculator over all ranks, with a search in torch."""
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


def print_times(sizes: list[tuple[int, int]], largest: int, rounds: int) -> None:
    """Print the processor time. Peers that sort run only on up to ``largest`` embeddings."""
    print_peer_head("Embeddings of 128 dimensions: processor time", "embeddings, relevant", COLUMNS)
    for size, each in sizes:
        vectors, labels = embeddings(size, each)
        contenders: Contenders = {
            "torch_ap": partial(ours, vectors, labels),
            COLUMNS[0]: partial(product, vectors),
            COLUMNS[1]: partial(sort_rows, vectors),
        }
        seconds = time_in_turns(contenders, rounds, time.process_time)
        if size <= largest:
            peers: Contenders = {
                COLUMNS[2]: partial(argsort_rows, vectors),
                COLUMNS[3]: partial(metric_learning, vectors, labels),
            }
            seconds |= time_in_turns(peers, 0, time.process_time)
        print_peer_row(f"{size:,}, about {each}", seconds, COLUMNS)


def print_rows_of_similarities(size: int, each: int, rounds: int) -> None:
    """Print the processor time of the AP of all rows of similarities, which the user computes in blocks."""
    vectors, labels = embeddings(size, each)

    def average_precision_of_rows() -> None:
        for rows, row_labels in zip(torch.split(vectors, BLOCK), torch.split(labels, BLOCK), strict=True):
            retrieval_average_precision(rows @ vectors.t(), row_labels[:, None] == labels)

    contenders: Contenders = {"torch_ap": average_precision_of_rows, COLUMNS[1]: partial(sort_rows, vectors)}
    seconds = time_in_turns(contenders, rounds, time.process_time)
    print_peer_row(f"{size:,}, about {each}: `retrieval_average_precision` of rows", seconds, COLUMNS)


def print_memory(size: int) -> None:
    """Print the peak memory in addition to the embeddings."""
    vectors, labels = embeddings(size, 12)
    ours(vectors[:3000], labels[:3000])
    used = peak_memory(partial(ours, vectors, labels))
    print(f"\n{size:,} embeddings, {vectors.nbytes / 1e6:.0f} MB: {used:.0f} MB more")


def main() -> None:
    """Print all tables."""
    options = parser(__doc__ or "").parse_args()
    warnings.simplefilter("ignore")
    print(machine("torch", "numpy", "pytorch-metric-learning"))
    small = options.quick
    sizes = [(2000, 12), (12_000, 3), (12_000, 12), (12_000, 200), (12_000, 2000)]
    print_times(sizes[:1] if small else sizes, 12_000, options.rounds)
    print_rows_of_similarities(*(sizes[0] if small else sizes[-1]), options.rounds)
    print_memory(6000 if small else 60_000)


if __name__ == "__main__":
    main()
