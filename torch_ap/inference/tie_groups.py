"""Tie groups of the rankings of an evaluation, for chance levels with tied items."""

from collections.abc import Iterator

import torch

from torch_ap.core.items import inputs
from torch_ap.core.items.inputs import Batch, counted
from torch_ap.core.items.settings import APSettings
from torch_ap.core.ranking import builders, order
from torch_ap.core.ranking import tie_groups as tied
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.tie_groups import Ties


def tie_groups(settings: APSettings, validated: Batch) -> Iterator[HitCurve | Ties]:
    """Yield the tie groups of the rankings of an evaluation, some columns at a time."""
    scores, kept = validated.scores, counted(validated.target)
    if settings.inputs.ignoring and not bool(kept.all()):
        scores, kept = (scores[kept], kept[kept]) if kept.ndim == 1 else (scores, kept)
        if settings.average == "micro" and kept.ndim == 2:
            scores, kept = scores[kept], kept[kept]
    if scores.ndim == 1 or settings.average == "micro":
        yield tied.find_ties(scores.flatten())
        return
    width = max(1, builders.ITEMS_A_BLOCK // max(len(scores), 1))
    for span in order.blocks(slice(0, scores.shape[1]), width):
        if kept.ndim == 1 or bool(kept[:, span].all()):
            yield tied.find_ties(scores[:, span])
        else:  # all items are hits, so that every group is an entry
            mark = torch.where(kept[:, span], 1, torch.iinfo(torch.uint8).max).to(torch.uint8)
            yield inputs.curve_of(Batch(scores[:, span], mark), ignoring=True)
