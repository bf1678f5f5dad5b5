"""The permutation test of two rankings of the same items: swap the two systems' ranks item by item.

If the systems are alike, an item might as well have had its rank of A under B. Scores of two systems have no common
scale, so their ranks are swapped; the ties that this makes are broken at random.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.average_precision import average_precision_of_ranks
from torch_ap.inference.resampling import Resampling, generators, rows
from torch_ap.ranking import order
from torch_ap.ranking.order import Array

_TIE_BITS = 31


def swapped_differences(preds_a: Tensor, preds_b: Tensor, relevant: Tensor, resampling: Resampling) -> Tensor:
    """AP(A) - AP(B) as it is, ties broken at random, then of B random swaps: (B + 1,) float64.

    Args:
        preds_a: (N,) scores.
        preds_b: (N,) scores.
        relevant: (N,) bool, at least one hit.
        resampling: how many swaps, from which generator.
    """
    if preds_a.device.type != "cpu":
        return _on_device(preds_a, preds_b, relevant, resampling)
    seed, hit = resampling.seed(), relevant.numpy().astype(np.int64)
    first = np.random.Generator(np.random.SFC64([seed]))
    ranks = [random_ranks(preds, first) for preds in (preds_a, preds_b)]

    def difference(rng: np.random.Generator, swap: bool = True) -> float:
        a, b = ranks
        if swap:
            chosen = rng.integers(0, 2, len(hit), dtype=np.uint8).astype(bool)
            a, b = np.where(chosen, b, a), np.where(chosen, a, b)
        return average_precision_untied(a, hit, rng) - average_precision_untied(b, hit, rng)

    drawn = [difference(first, swap=False)]
    for span in resampling.batches(8 * len(hit)):
        drawn += rows(difference, generators(seed, span), len(hit))
    return torch.tensor(drawn, dtype=torch.float64)


def random_ranks(preds: Tensor, rng: np.random.Generator) -> Array:
    """Ranks from 0, best first; tied scores in random order."""
    down = -order.keys(preds).to(torch.int64).numpy()
    out = np.empty(len(down), np.int64)
    out[np.lexsort((rng.random(len(down)), down))] = np.arange(len(down))
    return out


def average_precision_untied(ranks: Array, hit: Array, rng: np.random.Generator) -> float:
    """AP of ranks in which ties are broken at random."""
    key = (ranks << (_TIE_BITS + 1)) | (rng.integers(0, 1 << _TIE_BITS, len(ranks), dtype=np.uint32) << 1) | hit
    return float(average_precision_of_ranks(np.flatnonzero(order.sort_in_place(key) & 1) + 1))


def _on_device(preds_a: Tensor, preds_b: Tensor, relevant: Tensor, resampling: Resampling) -> Tensor:
    generator, n, m = resampling.on(preds_a.device), len(relevant), int(relevant.sum())

    def ties(count: int) -> Tensor:
        return torch.randint(1 << _TIE_BITS, (count, n), generator=generator, device=relevant.device)

    def draw(count: int) -> tuple[Tensor, Tensor, Tensor]:
        swap = torch.randint(2, (count, n), generator=generator, device=relevant.device).bool()
        return swap, ties(count), ties(count)

    def average_precision(ranks: Tensor, tie: Tensor) -> Tensor:
        key = (ranks << (_TIE_BITS + 1)) | (tie << 1) | relevant
        hits = (torch.sort(key, dim=1).values & 1).bool()
        found: Tensor = average_precision_of_ranks(hits.nonzero()[:, 1].reshape(len(ranks), m) + 1)
        return found

    def ranks_of(preds: Tensor) -> Tensor:
        shuffled = torch.randperm(n, generator=generator, device=preds.device)
        places = shuffled[torch.argsort(preds[shuffled], stable=True, descending=True)]
        out = torch.empty_like(places)
        out[places] = torch.arange(n, device=places.device)
        return out[None]

    a, b = ranks_of(preds_a), ranks_of(preds_b)
    parts = [average_precision(a, ties(1)) - average_precision(b, ties(1))]
    for swap, first, second in resampling.drawn_on_device(6 * n, draw):
        mine, theirs = torch.where(swap, b, a), torch.where(swap, a, b)
        parts.append(average_precision(mine, first) - average_precision(theirs, second))
    return torch.cat(parts)
