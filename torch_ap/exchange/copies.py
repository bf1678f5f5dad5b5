"""Samples of which ranks have copies, found without any rank having the ids of all."""

import torch
from torch import Tensor

from torch_ap.exchange.ranks import Ranks, Route, spread
from torch_ap.inputs import samples


def first_copies(ranks: Ranks, ids: Tensor, facts: Tensor, unlike_in: str = "targets") -> Tensor:
    """Which samples here are the first of their id over all ranks, in the order of ranks: (N,) bool.

    Args:
        ranks: each calls it with its own samples.
        ids: (N,) int64.
        facts: (N, ...) what copies of one sample must have in common.
        unlike_in: what these are, for the message.

    Raises:
        ValueError: on every rank, where an id stands for two different samples.
    """
    route = Route(ranks, spread(ids, ranks.size))
    sent = route.send(ids)
    kept = ranks.attempt(samples.first_copies, sent, route.send(facts), unlike_in)
    return route.send_back(torch.ones_like(sent, dtype=torch.bool) if kept is None else kept)
