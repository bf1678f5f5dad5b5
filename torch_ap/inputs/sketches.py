"""Checked items added to sketches: bins that are learnt from the first items, see :mod:`torch_ap.ranking.adaptive`."""

import torch
from torch import Tensor

from torch_ap.inputs.classification import Batch, counted
from torch_ap.ranking import adaptive, bins, segments
from torch_ap.ranking.bins import Bins


def extended(sketch: Tensor, batch: Batch, settings: Bins, *, ignoring: bool) -> Tensor:
    """The sketch with all items of a batch; where it has no bins yet, they are learnt from the first ones.

    Args:
        sketch: (C, B, 5); C is 1 for (N,) scores.
        batch: of items.
        settings: how bins are learnt.
        ignoring: whether items may be marked as ignored.
    """
    scores = batch.scores if batch.scores.ndim == 2 else batch.scores[:, None]
    kept = counted(batch.target) if ignoring else None
    if not bool(adaptive.has_learnt(sketch)):
        sketch = adaptive.learnt(_known(scores[: settings.pilot], kept), sketch.shape[1])
    more = adaptive.counted(sketch, scores, batch.target, weight=batch.weights, kept=kept)
    return adaptive.added(sketch, more)


def counts_of(sketch: Tensor) -> Tensor:
    """(C, B, 2) misses and hits, highest bin first: counts, or sums of weights where there are any."""
    weights = adaptive.weights_in(sketch)
    counts = adaptive.counts_in(sketch)
    return (counts + weights if bool(weights.any()) else counts).flip(1)


def _known(scores: Tensor, kept: Tensor | None) -> Tensor:
    """The scores, NaN for those that do not count."""
    if kept is None:
        return scores
    shown = bins.spread(kept[: len(scores)], scores) if kept.ndim == 1 else kept[: len(scores)]
    return segments.as_float64(scores).masked_fill(~shown, torch.nan)
