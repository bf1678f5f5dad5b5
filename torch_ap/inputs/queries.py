"""Input validation of queries: batches checked, in the layout of the state.

Two layouts. *Flat*: one item per line, with the query it belongs to; the items of a query may come in any order and in
any batch. *Rows*: one query per row, ended by the row; queries are numbered in the order they came.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.inputs import samples
from torch_ap.ranking import few_items, segments
from torch_ap.rules import checks, tensors, values
from torch_ap.runtime import memory

NOT_COUNTED, NOT_RANKED = 2, 4
_EXACT = 256  # every float dtype holds the whole numbers up to here


class QueryBatch(NamedTuple):
    """Checked items in the layout of the state.

    Attributes:
        scores: (N,) in the dtype given.
        relevance: (N,) uint8, 1 for relevant, 0 for not, 2 for what does not count; 4 more for what was not ranked.
        indexes: (N,) int64, the query of each item; None for rows.
        lengths: (Q,) int64, the length of each row; None for flat items.
        judged_queries: (J,) int64 queries whose number of relevant items is known; None for rows.
        judged_counts: (J,) int64, those numbers; for rows one per row. None if not given.
        grades: (N,) float64 of each item, used of relevant ones; None where relevance is all that counts.
        broken: None, or on an accelerator the rules of ``values.VALUE_RULES`` (with grades ``GAIN_VALUE_RULES``) that
            the batch breaks.
    """

    scores: Tensor
    relevance: Tensor
    indexes: Tensor | None = None
    lengths: Tensor | None = None
    judged_queries: Tensor | None = None
    judged_counts: Tensor | None = None
    grades: Tensor | None = None
    broken: Tensor | None = None

    @property
    def facts(self) -> Tensor:
        """What copies of an item, or of a row, must have in common."""
        return self.relevance if self.lengths is None else self.lengths


@dataclass(frozen=True)
class QueryInputs:
    """How batches of queries come in.

    Attributes:
        ignore_index: target value of items that do not count.
        relevance_level: an item is relevant where its target is at least this. None for 1, and targets must then be
            whole numbers of at least 0.
        copies: whether batches get memory of their own, for those who keep them.
        single: whether a batch is one ranking, (D,) scores without indexes; it counts as a row.
        graded: whether targets are grades that are kept, of which relevant are those above 0 (and of at least
            ``relevance_level``); they may then be fractions.
    """

    ignore_index: int | None = None
    relevance_level: float | None = None
    copies: bool = True
    single: bool = False
    graded: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore_index", checks.integer("ignore_index", self.ignore_index))
        checks.finite("relevance_level", self.relevance_level)

    @cached_property
    def _plain(self) -> bool:
        """Whether every item counts, relevant from 1 on, and is kept."""
        level = None if self.graded else 1
        return self.ignore_index is None and self.relevance_level in (None, level) and self.copies

    def validate(
        self,
        preds: Tensor,
        target: Tensor,
        indexes: Tensor | None = None,
        mask: Tensor | None = None,
        num_relevant: Tensor | Mapping[int, int] | int | None = None,
        retrieved: Tensor | None = None,
    ) -> QueryBatch:
        """Check a batch and bring it into the layout of the state; the tensors given are never written to."""
        if mask is None is num_relevant and retrieved is None and self._plain and isinstance(indexes, Tensor):
            small = few_items.valid_arrays(preds, target, graded=True, gains=self.graded)
            if small is not None and indexes.dtype is torch.int64 and indexes.is_cpu and indexes.shape == preds.shape:
                grades = torch.from_numpy(small[2].astype(np.float64)) if self.graded else None
                own = torch.from_numpy(small[0].copy()), torch.from_numpy(small[1]), indexes.clone()
                return QueryBatch(*own, grades=grades)
        tensors.scores("preds", preds)
        tensors.graded_target(target)
        tensors.same_shape(preds, target)
        if indexes is not None:
            tensors.indexes(indexes, preds)
        elif not self.single:
            tensors.query_rows(preds)
        for name, flags in (("mask", mask), ("retrieved", retrieved)):
            if flags is not None:
                tensors.mask(flags, preds, name)
        given = num_relevant if isinstance(num_relevant, Tensor) else None
        tensors.same_device(
            preds=preds, target=target, indexes=indexes, mask=mask, num_relevant=given, retrieved=retrieved
        )
        queries, counts = _judgements(num_relevant, preds, indexes)
        ignored = self._ignored(target, mask)
        scores = preds if retrieved is None else preds.masked_fill(~retrieved, 0)
        broken = self._check_values(scores, target, ignored, counts)
        relevance = self._relevance(target)
        if retrieved is not None:
            relevance = relevance + (~retrieved).view(torch.uint8) * NOT_RANKED
        relevance = self._own(relevance) if ignored is None else relevance.masked_fill(ignored, NOT_COUNTED).flatten()
        grades = None
        if self.graded:
            grades = torch.where(relevance % 2 == 1, segments.as_float64(target.detach().flatten()), 0)
        return QueryBatch(
            scores=self._own(scores),
            relevance=relevance,
            indexes=None if indexes is None else self._own(indexes).to(torch.int64),
            lengths=_lengths(preds) if indexes is None else None,
            judged_queries=queries,
            judged_counts=counts,
            grades=grades,
            broken=broken,
        )

    def look_at(self, batch: QueryBatch) -> None:
        """Check a batch that comes in that layout, as :meth:`validate` does the others.

        Raises:
            ValueError: for columns that do not go together, and for the first rule that is broken.
        """
        items = len(batch.scores)
        owners = batch.judged_queries if batch.lengths is None else batch.lengths
        if batch.lengths is not None and (batch.indexes is not None or batch.judged_queries is not None):
            raise ValueError("`indexes` must be given in every update or in none")
        of_items = [len(x) for x in (batch.relevance, batch.indexes, batch.grades) if x is not None]
        if any(length != items for length in of_items) or (items and batch.indexes is None is batch.lengths):
            raise ValueError(f"scores, relevance and indexes must be of as many items, got {[items, *of_items]}")
        if batch.lengths is not None and (bool((batch.lengths < 0).any()) or int(batch.lengths.sum()) != items):
            raise ValueError(f"lengths of rows must add up to the {items} scores, got {int(batch.lengths.sum())}")
        judged = [0 if x is None else len(x) for x in (owners, batch.judged_counts)]
        if judged[0] != judged[1] and (batch.judged_counts is not None or batch.lengths is None):
            raise ValueError(f"numbers of relevant items must be one per query, got {judged[1]} of {judged[0]}")
        most = NOT_RANKED + 1 if self.graded else NOT_COUNTED
        if items and (int(batch.relevance.max()) > most or bool((batch.relevance == 3).any())):
            raise ValueError(f"relevance must be 0, 1 or {NOT_COUNTED}, got {int(batch.relevance.max())}")
        target = batch.relevance if batch.grades is None else batch.grades
        if batch.grades is not None and not torch.equal(batch.grades > 0, batch.relevance % 2 == 1):
            raise ValueError("grades must be above 0 for relevant items, and 0 for others")
        ignored = batch.relevance == NOT_COUNTED
        self.raise_broken(batch._replace(broken=self._check_values(batch.scores, target, ignored, batch.judged_counts)))

    def raise_broken(self, batch: QueryBatch) -> None:
        """Raise for the rules that a batch on an accelerator was found to break."""
        values.raise_first(values.GAIN_VALUE_RULES if self.graded else values.VALUE_RULES, batch.broken)

    def _check_values(
        self, preds: Tensor, target: Tensor, ignored: Tensor | None, counts: Tensor | None
    ) -> Tensor | None:
        if ignored is not None:
            preds, target = preds.masked_fill(ignored, 0), target.masked_fill(ignored, 0)
        return values.of_queries(preds, target, counts, grades=self.relevance_level is None, gains=self.graded)

    def _own(self, given: Tensor) -> Tensor:
        flat = given.detach().flatten()
        return memory.copied(flat) if self.copies else flat

    def _relevance(self, target: Tensor) -> Tensor:
        """Uint8 of 0 and 1, of the shape of ``target``. A bool target is compared as such, which is far faster."""
        if self.graded and (self.relevance_level is None or self.relevance_level <= 0):
            return (target > 0).view(torch.uint8)
        level = 1 if self.relevance_level is None else self.relevance_level
        if target.dtype == torch.bool:
            if not 0 < level <= 1:
                return torch.full_like(target, level <= 0, dtype=torch.uint8)
            return target.view(torch.uint8)
        if not target.is_floating_point():
            level, info = math.ceil(level), torch.iinfo(target.dtype)  # whole numbers reach it where they reach this
            if not info.min < level <= info.max:
                return torch.full_like(target, level <= info.min, dtype=torch.uint8)
        elif abs(level) > _EXACT:
            near, whole = float(level), level == int(level)
            if whole and torch.tensor(near, dtype=target.dtype).item() < level:
                return (target > near).view(torch.uint8)  # which compares with the number of that dtype just below
            level = near
        return (target >= level).view(torch.uint8)

    def _ignored(self, target: Tensor, mask: Tensor | None) -> Tensor | None:
        """Which items do not count; None for all do."""
        ignored = values.is_ignored(target, self.ignore_index)
        return ignored if mask is None else (~mask if ignored is None else ignored | ~mask)


def without_copies(batch: QueryBatch, ids: Tensor) -> QueryBatch:
    """The batch without the copies of items, or of rows, that came before; an id each."""
    kept = samples.first_copies(ids, batch.facts)
    return batch if kept is None else chosen(batch, kept)


def chosen(batch: QueryBatch, kept: Tensor) -> QueryBatch:
    """Some of the items, or of the rows: a flag each."""
    items = kept
    if batch.lengths is not None:
        items, counts = kept.repeat_interleave(batch.lengths), batch.judged_counts
        batch = batch._replace(lengths=batch.lengths[kept], judged_counts=None if counts is None else counts[kept])
    indexes = None if batch.indexes is None else batch.indexes[items]
    grades = None if batch.grades is None else batch.grades[items]
    return batch._replace(scores=batch.scores[items], relevance=batch.relevance[items], indexes=indexes, grades=grades)


def _lengths(preds: Tensor) -> Tensor:
    """(Q,) int64 lengths of rows; a single ranking is one."""
    return torch.full(preds.shape[:-1] or (1,), preds.shape[-1], device=preds.device)


def _judgements(num_relevant: Any, preds: Tensor, indexes: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Queries and their numbers of relevant items, checked; of rows, and of one ranking, only the numbers.

    Without ``indexes``, (D,) ``preds`` are one ranking, and (Q, D) are rows.
    """
    if num_relevant is None:
        return None, None
    if isinstance(num_relevant, Mapping):
        if indexes is None:
            other = "one ranking give an int" if preds.ndim == 1 else "rows give a tensor"
            raise ValueError(f"`num_relevant` as a dict needs `indexes`, which name the queries; for {other}")
        return judgements_by_query(num_relevant, preds.device)
    if indexes is None:
        return None, _of_one(num_relevant, preds.device) if preds.ndim == 1 else _of_rows(num_relevant, len(preds))
    tensors.counts(num_relevant, preds.shape, "for each item that of its query")
    queries, counts = indexes.flatten().to(torch.int64), num_relevant.flatten().to(torch.int64)
    if len(queries) and queries.device.type == "cpu":  # items of a query mostly stand together, and say it once
        new = torch.ones_like(queries, dtype=torch.bool)
        new[1:] = (queries[1:] != queries[:-1]) | (counts[1:] != counts[:-1])
        return queries[new], counts[new]
    return queries.clone(), counts.clone()


def judgements_by_query(num_relevant: Mapping[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The queries and counts of {query: m}."""
    queries, counts = tensors.counts_by_query(num_relevant)
    host = torch.tensor([queries, counts], dtype=torch.int64)
    on_device = memory.sent(host, device)
    return on_device[0], on_device[1]


def _of_rows(num_relevant: Any, rows: int) -> Tensor:
    tensors.counts(num_relevant, torch.Size([rows]), "one per row")
    counts: Tensor = num_relevant.to(torch.int64, copy=True)
    return counts


def _of_one(num_relevant: Any, device: torch.device) -> Tensor:
    if not isinstance(num_relevant, Tensor):
        return torch.tensor([checks.count("num_relevant", num_relevant, "one ranking")], device=device)
    shape = torch.Size([1] if num_relevant.ndim else [])
    tensors.counts(num_relevant, shape, "or be an int, for one ranking")
    return num_relevant.reshape(1).to(torch.int64, copy=True)
