"""Resamples of items that several rankings share: every ranking is weighed by the same draw.

An item keeps its place in each ranking, so a resample is a weight per item, and a ranking's AP under it comes from the
weights summed over the groups of its own curve.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference.bootstrap import curve_of_counts
from torch_ap.inference.item_values import ItemValues
from torch_ap.inference.resampling import Resampling, generators, multinomial, multinomial_on_device, rows
from torch_ap.ranking.hit_curve import HitCurve


def groups_of(curve: HitCurve, scores: Tensor, relevant: Tensor) -> Tensor:
    """The group of each item of one ranking, those of hits first: (N,) int64 below 2 (E + 1)."""
    groups = len(curve.hits)
    place = torch.arange(groups, device=scores.device)
    beyond = place.new_full((1,), groups)
    values = ItemValues(curve, place, place + groups + 1, beyond, beyond + groups + 1)
    return values.of_items(scores, relevant)


def curve_of(group: Tensor, groups: int, weights: Tensor) -> HitCurve:
    """One ranking under each row of weights, as b rankings.

    Args:
        group: (N,) of :func:`groups_of`.
        groups: E, the groups of its curve.
        weights: (b, N) int64.
    """
    counts = weights.new_zeros(len(weights), 2 * (groups + 1)).index_add_(1, group, weights)
    return curve_of_counts(counts[:, : groups + 1], counts[:, groups + 1 :])


def replicates(
    measure: Callable[[Tensor], Tensor], strata: Sequence[Tensor], items: int, resampling: Resampling
) -> Tensor:
    """A measure under B resamples of the items: (B, ...).

    Args:
        measure: (b, N) int64 weights to (b, ...) values.
        strata: places of the items that are resampled among themselves; together all items.
        items: N.
        resampling: how many, from which generator, in how much memory.
    """
    device = strata[0].device
    if device.type != "cpu":
        drawn = resampling.drawn_on_device(4 * items, partial(_drawn_on_device, resampling.on(device), strata, items))
        return torch.cat([measure(*weights) for weights in drawn])
    seed = resampling.seed()
    return torch.cat([measure(_drawn(seed, span, strata, items)) for span in resampling.batches(4 * items)])


def _drawn(seed: int, span: range, strata: Sequence[Tensor], items: int) -> Tensor:
    """(b, N) how often each item was drawn."""

    def one(rng: np.random.Generator) -> Tensor:
        row = np.empty(items, np.int64)
        for places in strata:
            row[places.numpy()] = multinomial(rng, np.ones(len(places), np.int64), len(places))
        return torch.from_numpy(row)

    return torch.stack(rows(one, generators(seed, span), items))


def _drawn_on_device(generator: torch.Generator, strata: Sequence[Tensor], items: int, count: int) -> tuple[Tensor]:
    weights = torch.zeros(count, items, dtype=torch.int64, device=generator.device)
    for places in strata:
        sizes = torch.ones_like(places)
        draws = sizes.sum().expand(count)
        weights[:, places] = multinomial_on_device(generator, sizes, draws)
    return (weights,)
