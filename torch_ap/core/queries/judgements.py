"""How many items are relevant to each query, as it is given, as it is kept, and whether it contradicts itself."""

from collections.abc import Mapping

import torch
from torch import Tensor

from torch_ap.core.queries import rules


def given(
    num_relevant: Tensor | Mapping[int, int] | None, preds: Tensor, indexes: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Queries and their numbers of relevant items; of rows only the numbers."""
    if num_relevant is None:
        return None, None
    if isinstance(num_relevant, Mapping):
        if indexes is None:
            raise ValueError("`num_relevant` as a dict needs `indexes`, which name the queries; for rows give a tensor")
        return by_query(num_relevant, preds.device)
    if indexes is None:
        rules.counts_tensor(num_relevant, preds.shape[:1], "one a row")
        return None, num_relevant.to(torch.int64, copy=True)
    rules.counts_tensor(num_relevant, preds.shape, "for each item that of its query")
    queries, counts = indexes.flatten().to(torch.int64), num_relevant.flatten().to(torch.int64)
    if len(queries) and queries.device.type == "cpu":  # items of a query mostly stand together, and say it once
        new = torch.ones_like(queries, dtype=torch.bool)
        new[1:] = (queries[1:] != queries[:-1]) | (counts[1:] != counts[:-1])
        return queries[new], counts[new]
    return queries.clone(), counts.clone()


def by_query(num_relevant: Mapping[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The queries and counts of {query: m}."""
    rules.counts_by_query(num_relevant)
    queries = torch.tensor(list(num_relevant), dtype=torch.int64, device=device)
    return queries, torch.tensor(list(num_relevant.values()), dtype=torch.int64, device=device)


def agreed(queries: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Each judged query once, ascending, with its number of relevant items."""
    known, place = torch.unique(queries, return_inverse=True)
    lowest, highest = (
        torch.zeros_like(known).scatter_reduce_(0, place, counts, how, include_self=False) for how in ("amin", "amax")
    )
    differ = lowest != highest
    if bool(differ.any()):
        first = int(differ.nonzero()[0])
        raise ValueError(
            f"`num_relevant` must be the same wherever a query is judged, got {int(lowest[first])} and "
            f"{int(highest[first])} for query {int(known[first])}"
        )
    return known, highest
