"""How many items are relevant to each query, as it is given, as it is kept, and whether it contradicts itself."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_ap.rules import checks, tensors
from torch_ap.runtime import memory


def given(num_relevant: Any, preds: Tensor, indexes: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Queries and their numbers of relevant items, checked; of rows, and of one ranking, only the numbers.

    Without ``indexes``, (D,) ``preds`` are one ranking, and (Q, D) are rows.
    """
    if num_relevant is None:
        return None, None
    if isinstance(num_relevant, Mapping):
        if indexes is None:
            other = "one ranking give an int" if preds.ndim == 1 else "rows give a tensor"
            raise ValueError(f"`num_relevant` as a dict needs `indexes`, which name the queries; for {other}")
        return by_query(num_relevant, preds.device)
    if indexes is None:
        return None, _of_one(num_relevant, preds.device) if preds.ndim == 1 else _of_rows(num_relevant, len(preds))
    tensors.counts(num_relevant, preds.shape, "for each item that of its query")
    queries, counts = indexes.flatten().to(torch.int64), num_relevant.flatten().to(torch.int64)
    if len(queries) and queries.device.type == "cpu":  # items of a query mostly stand together, and say it once
        new = torch.ones_like(queries, dtype=torch.bool)
        new[1:] = (queries[1:] != queries[:-1]) | (counts[1:] != counts[:-1])
        return queries[new], counts[new]
    return queries.clone(), counts.clone()


def by_query(num_relevant: Mapping[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The queries and counts of {query: m}."""
    queries, counts = tensors.counts_by_query(num_relevant)
    host = torch.tensor([queries, counts], dtype=torch.int64)
    on_device = memory.sent(host, device)
    return on_device[0], on_device[1]


def agreed(queries: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Each judged query once, ascending, with its number of relevant items.

    Raises:
        ValueError: for a query with two different numbers.
    """
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


def check_seen(counts: Tensor, seen: Tensor, names: Tensor, *, what: str = "query") -> None:
    """No ranking has fewer relevant items than were seen.

    Args:
        counts: (Q,) int64, how many are said to be relevant.
        seen: (Q,) int64, how many were seen.
        names: (Q,) int64, by which the message tells rankings apart.
        what: the message calls them; "" where there is but one, which needs no name.
    """
    short = seen > counts
    if bool(short.any()):
        first = int(short.nonzero()[0])
        whose = f" for {what} {int(names[first])}" if what else ""
        raise ValueError(
            f"`num_relevant` must be at least the relevant items among those ranked, got {int(counts[first])}{whose}, "
            f"where there are {int(seen[first])}"
        )


def _of_rows(num_relevant: Any, rows: int) -> Tensor:
    tensors.counts(num_relevant, torch.Size([rows]), "one a row")
    counts: Tensor = num_relevant.to(torch.int64, copy=True)
    return counts


def _of_one(num_relevant: Any, device: torch.device) -> Tensor:
    if not isinstance(num_relevant, Tensor):
        return torch.tensor([checks.count("num_relevant", num_relevant)], device=device)
    shape = torch.Size([1] if num_relevant.ndim else [])
    tensors.counts(num_relevant, shape, "or be an int, for one ranking")
    return num_relevant.reshape(1).to(torch.int64, copy=True)
