"""Queries that search the galleries of all ranks: queries and what they find travel, galleries stay where they are."""

import torch
from torch import Tensor

from torch_ap.evaluation.embeddings import EmbeddingBatch, EmbeddingSettings, Side
from torch_ap.exchange.ranks import Ranks
from torch_ap.inputs import embeddings as inputs
from torch_ap.ranking import products


def each_of_all(ranks: Ranks, settings: EmbeddingSettings, batch: EmbeddingBatch) -> dict[str, Tensor]:
    """The measures of the queries of all ranks, those of the first rank first: (Q,) or (Q, K), the same everywhere.

    So many queries at a time go to every rank, which says what their relevant items score in its own gallery, and then
    how many of its other items score more than any of those of all ranks.

    Args:
        ranks: each calls it with its own queries and gallery.
        settings: the same on all ranks.
        batch: of this rank.
    """
    queries, gallery, own = batch
    sizes = ranks.gather(torch.tensor([len(queries.labels)])).flatten().tolist()
    most = int(ranks.sum(torch.tensor(ranks.attempt(settings.most_relevant, gallery))))
    share = max(1, products.rows_at_once(most, settings.max_memory // 2) // ranks.size)
    step = inputs.spacing(sum(sizes))
    centre = inputs.centre(_of_all(ranks, queries.vectors[-sum(sizes[: ranks.rank]) % step :: step]))
    found, places = [], []
    for start in range(0, max(1, *sizes), share):
        ends = [slice(min(start, size), min(start + share, size)) for size in sizes]
        sent = [_of_all(ranks, x[ends[ranks.rank]]) for x in (queries.vectors, queries.labels)]
        groups = None if queries.groups is None else _of_all(ranks, queries.groups[ends[ranks.rank]])
        lengths = [end.stop - end.start for end in ends]
        itself = None
        if own is not None:
            itself = torch.full((sum(lengths),), -1, device=gallery.labels.device)
            first = sum(lengths[: ranks.rank])
            itself[first : first + lengths[ranks.rank]] = own[ends[ranks.rank]]
        found.append(settings.each(EmbeddingBatch(Side(sent[0], sent[1], groups), gallery, itself), ranks, centre))
        places += [torch.arange(end.start, end.stop) + sum(sizes[:rank]) for rank, end in enumerate(ends)]
    place = torch.argsort(torch.cat(places)).to(gallery.labels.device)
    return {name: torch.cat([part[name] for part in found])[place] for name in found[0]}


def _of_all(ranks: Ranks, rows: Tensor) -> Tensor:
    """(N, ...) rows of every rank, those of the first rank first."""
    return torch.cat(ranks.gather_unequal(rows))
