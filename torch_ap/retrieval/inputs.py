"""Input validation of queries: batches in the layout of the state.

There are two layouts. *Flat*: one item per entry, with the query of each item; the items of a query may be in any order
and in any batch. *Rows*: each row is one complete query; queries are numbered in the order of arrival.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks, tensors
from torch_ap.core.metric import samples
from torch_ap.core.ranking import few_items, segments

NOT_COUNTED, NOT_RANKED = 2, 4
QueryGroups: TypeAlias = Tensor | Sequence[int] | Mapping[int, int] | None
_EXACT = 256  # every float dtype represents all integers up to here


class QueryBatch(NamedTuple):
    """Validated items in the layout of the state.

    Attributes:
        scores: (N,) in the input dtype.
        relevance: (N,) uint8: 1 relevant, 0 not relevant, 2 ignored; plus 4 for items that were not ranked.
        indexes: (N,) int64, the query of each item; None for rows.
        lengths: (Q,) int64, the length of each row; None for flat items.
        judged_queries: (J,) int64 queries with a known number of relevant items; None for rows.
        judged_counts: (J,) int64, these numbers; for rows one per row. None if `num_relevant` is None.
        grades: (N,) float64 grades of the relevant items, 0 for others; None without grades.
        broken: broken rules of ``values.VALUE_RULES`` (with grades ``GAIN_VALUE_RULES``) on an accelerator, else None.
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
    def copy_key(self) -> Tensor:
        """Column that must be equal for all copies of an item, or of a row."""
        return self.relevance if self.lengths is None else self.lengths

    def with_all_hits(self) -> "QueryBatch":
        """Return the batch with all items as hits and without judgements, so that every tie group is an entry."""
        relevance = self.relevance.clamp(min=1)
        return self._replace(relevance=relevance, judged_queries=None, judged_counts=None, grades=None)


@dataclass(frozen=True)
class QueryInputs:
    """Input format of query batches.

    Attributes:
        ignore_index: target value of items to ignore.
        relevance_level: the least target of a relevant item. None for 1; targets must then be integers of at least 0.
        copies: whether batches get memory of their own, as needed by a state.
        single: whether a batch is one ranking, (D,) scores without indexes; it counts as a row.
        graded: whether targets are stored as grades, which may be fractions. Items with grades above 0 and at least
            ``relevance_level`` are relevant.
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
        """Whether no item is ignored, targets from 1 on are relevant, and batches get memory of their own."""
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
        """Validate a batch and return it in the layout of the state; the input tensors are never changed."""
        if mask is None is num_relevant and retrieved is None and isinstance(indexes, Tensor):
            small = self.small_batch(preds, target, indexes)
            if small is not None:
                grades = small.pop() if self.graded else None
                return QueryBatch(small[0], small[1], small[2], grades=grades)
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
        m = num_relevant if isinstance(num_relevant, Tensor) else None
        tensors.same_device(preds=preds, target=target, indexes=indexes, mask=mask, num_relevant=m, retrieved=retrieved)
        queries, counts = _judgements(num_relevant, preds, indexes)
        ignored = tensors.is_ignored(target, self.ignore_index)
        if mask is not None:
            ignored = ~mask if ignored is None else ignored | ~mask
        scores = preds if retrieved is None else preds.masked_fill(~retrieved, 0)
        broken = self._check_values(scores, target, ignored, counts)
        relevance = self._relevance(target)
        if retrieved is not None:
            relevance = relevance + (~retrieved).view(torch.uint8) * NOT_RANKED
        grades, lengths = None, None
        if ignored is not None:
            relevance = relevance.masked_fill(ignored, NOT_COUNTED).flatten()
        else:
            relevance = self._flat_copy(relevance)
        if self.graded:
            grades = torch.where(relevance % 2 == 1, segments.as_float64(target.detach().flatten()), 0)
        if indexes is None:
            lengths = torch.full(preds.shape[:-1] or (1,), preds.shape[-1], device=preds.device)
        else:
            indexes = self._flat_copy(indexes).to(torch.int64)
        return QueryBatch(self._flat_copy(scores), relevance, indexes, lengths, queries, counts, grades, broken)

    def small_batch(self, preds: Tensor, target: Tensor, indexes: Tensor) -> list[Tensor] | None:
        """Return copies of the columns of a valid small batch on CPU; None for input that needs :meth:`validate`.

        Returns:
            Scores, relevance and indexes, with grades also the grades, as in :class:`QueryBatch`.
        """
        if not self._plain or indexes.dtype is not torch.int64 or not indexes.is_cpu:
            return None
        small = few_items.valid_arrays(preds, target, None, gains=self.graded)
        if small is None:
            return None
        scores, targets = small
        queries = indexes.numpy()
        if queries.shape != scores.shape:
            return None
        arrays = [targets.astype(bool).view(np.uint8), queries.copy()]
        if self.graded:
            arrays.append(targets.astype(np.float64))
        return [few_items.copy_valid(scores, preds), *map(torch.from_numpy, arrays)]

    def check_stored(self, batch: QueryBatch) -> None:
        """Check a batch that is in the layout of the state, as in a checkpoint.

        Raises:
            ValueError: for columns of inconsistent lengths, and for the first broken rule.
        """
        items = len(batch.scores)
        owners = batch.judged_queries if batch.lengths is None else batch.lengths
        if batch.lengths is not None and (batch.indexes is not None or batch.judged_queries is not None):
            raise ValueError("`indexes` must be given in every update or in none")
        lengths = [len(x) for x in (batch.relevance, batch.indexes, batch.grades) if x is not None]
        if any(length != items for length in lengths) or (items and batch.indexes is None is batch.lengths):
            raise ValueError(f"scores, relevance and indexes must have equal lengths, got {[items, *lengths]}")
        if batch.lengths is not None and (bool((batch.lengths < 0).any()) or int(batch.lengths.sum()) != items):
            raise ValueError(f"lengths of rows must add up to the {items} scores, got {int(batch.lengths.sum())}")
        judged = [0 if x is None else len(x) for x in (owners, batch.judged_counts)]
        if judged[0] != judged[1] and (batch.judged_counts is not None or batch.lengths is None):
            raise ValueError(f"there must be one number of relevant items per query, got {judged[1]} for {judged[0]}")
        most = NOT_RANKED + 1 if self.graded else NOT_COUNTED
        if items and (int(batch.relevance.max()) > most or bool((batch.relevance == 3).any())):
            raise ValueError(f"relevance must be 0, 1 or {NOT_COUNTED}, got {int(batch.relevance.max())}")
        target = batch.relevance if batch.grades is None else batch.grades
        if batch.grades is not None and not torch.equal(batch.grades > 0, batch.relevance % 2 == 1):
            raise ValueError("grades must be above 0 for relevant items, and 0 for others")
        ignored = batch.relevance == NOT_COUNTED
        self.raise_broken(batch._replace(broken=self._check_values(batch.scores, target, ignored, batch.judged_counts)))

    def raise_broken(self, batch: QueryBatch) -> None:
        """Raise ValueError for the first rule that a batch on an accelerator breaks, if any."""
        tensors.raise_first(tensors.GAIN_VALUE_RULES if self.graded else tensors.VALUE_RULES, batch.broken)

    def _check_values(
        self, preds: Tensor, target: Tensor, ignored: Tensor | None, counts: Tensor | None
    ) -> Tensor | None:
        if ignored is not None:
            preds, target = preds.masked_fill(ignored, 0), target.masked_fill(ignored, 0)
        return tensors.check_queries(preds, target, counts, grades=self.relevance_level is None, gains=self.graded)

    def _flat_copy(self, values: Tensor) -> Tensor:
        flat = values.detach().flatten()
        return arrays.copy(flat) if self.copies else flat

    def _relevance(self, target: Tensor) -> Tensor:
        """Return uint8 0 and 1 in the shape of ``target``. A bool target is not converted, which is far faster."""
        if self.graded and (self.relevance_level is None or self.relevance_level <= 0):
            return (target > 0).view(torch.uint8)
        level = 1 if self.relevance_level is None else self.relevance_level
        if target.dtype == torch.bool:
            if not 0 < level <= 1:
                return torch.full_like(target, level <= 0, dtype=torch.uint8)
            return target.view(torch.uint8)
        if not target.is_floating_point():
            level, info = math.ceil(level), torch.iinfo(target.dtype)  # equivalent for integers
            if not info.min < level <= info.max:
                return torch.full_like(target, level <= info.min, dtype=torch.uint8)
        elif abs(level) > _EXACT:
            rounded, is_integer = float(level), level == int(level)
            if is_integer and torch.tensor(rounded, dtype=target.dtype).item() < level:
                return (target > rounded).view(torch.uint8)  # the dtype rounds the level down
            level = rounded
        return (target >= level).view(torch.uint8)


def drop_copies(batch: QueryBatch, ids: Tensor) -> QueryBatch:
    """Return the batch without later copies of items, or of rows; ``ids`` has one id each."""
    is_first = samples.first_copies(ids, batch.copy_key)
    return batch if is_first is None else select_flagged(batch, is_first)


def select_flagged(batch: QueryBatch, flags: Tensor) -> QueryBatch:
    """Return the flagged items, or the flagged rows, of a batch."""
    items = flags
    if batch.lengths is not None:
        items, counts = flags.repeat_interleave(batch.lengths), batch.judged_counts
        batch = batch._replace(lengths=batch.lengths[flags], judged_counts=None if counts is None else counts[flags])
    indexes = None if batch.indexes is None else batch.indexes[items]
    grades = None if batch.grades is None else batch.grades[items]
    return batch._replace(scores=batch.scores[items], relevance=batch.relevance[items], indexes=indexes, grades=grades)


def _judgements(num_relevant: Any, preds: Tensor, indexes: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the judged queries and their numbers of relevant items; for rows and single rankings only the numbers.

    Without ``indexes``, (D,) ``preds`` are one ranking, and (Q, D) are rows.
    """
    if num_relevant is None:
        return None, None
    if isinstance(num_relevant, Mapping):
        if indexes is None:
            other = "one ranking pass an int" if preds.ndim == 1 else "rows pass a tensor"
            raise ValueError(f"`num_relevant` as a dict requires `indexes`, which name the queries; for {other}")
        return judgements_by_query(num_relevant, preds.device)
    if indexes is None and preds.ndim == 1 and not isinstance(num_relevant, Tensor):
        return None, torch.tensor([checks.count("num_relevant", num_relevant, "one ranking")], device=preds.device)
    if indexes is None:
        shape = preds.shape[:1] if preds.ndim > 1 else torch.Size([1] if num_relevant.ndim else [])
        tensors.counts(num_relevant, shape, "one per row" if preds.ndim > 1 else "or be an int, for one ranking")
        return None, num_relevant.reshape(-1).to(torch.int64, copy=True)
    tensors.counts(num_relevant, preds.shape, "for each item the number of its query")
    queries, counts = indexes.flatten().to(torch.int64), num_relevant.flatten().to(torch.int64)
    if len(queries) and queries.device.type == "cpu":  # adjacent items of a query usually repeat the same pair
        new = torch.ones_like(queries, dtype=torch.bool)
        new[1:] = (queries[1:] != queries[:-1]) | (counts[1:] != counts[:-1])
        return queries[new], counts[new]
    return queries.clone(), counts.clone()


def judgements_by_query(num_relevant: Mapping[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the queries and counts of a dict from query to m as tensors."""
    queries, counts = tensors.counts_by_query(num_relevant)
    on_device = arrays.to_device(torch.tensor([queries, counts], dtype=torch.int64), device)
    return on_device[0], on_device[1]


def query_groups(groups: QueryGroups, preds: Tensor | None, batch: QueryBatch) -> tuple[Tensor | None, Tensor | None]:
    """Return the queries of the argument ``groups`` and the group of each; for rows only the groups.

    Args:
        groups: argument of ``update``.
        preds: the scores, or None for judgements alone.
        batch: the validated batch.

    Raises:
        TypeError, ValueError: if the argument is invalid, or a query has two groups.
    """
    name, device = samples.GROUPS, batch.scores.device
    if groups is None:
        return None, None
    if batch.lengths is not None:
        if isinstance(groups, Mapping):
            raise ValueError(f"`{name}` as a dict requires `indexes`, which name the queries; for rows pass a tensor")
        return None, samples.validate_ids(name, groups, batch.lengths.shape, device, "row")
    if isinstance(groups, Mapping):
        size = torch.Size([len(groups)])
        queries, values = list(groups), list(groups.values())
        ids, numbers = (samples.validate_ids(name, x, size, device, "query") for x in (queries, values))
        return ids, numbers
    if preds is None or batch.indexes is None:
        raise ValueError(f"`{name}` must be a dict for `num_relevant` without items")
    ids = samples.validate_ids(name, groups, preds.shape, device, "item")
    assert ids is not None
    if not ids.is_cpu:
        return batch.indexes.clone(), ids
    return distinct_groups(batch.indexes, ids)


def distinct_groups(queries: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Return each query once, ascending, and its group.

    Raises:
        ValueError: for a query with two groups.
    """
    order = queries.argsort(stable=True)
    queries, groups = queries[order], groups[order]
    repeats = queries[1:] == queries[:-1]
    differs = repeats & (groups[1:] != groups[:-1])
    if bool(differs.any()):
        place = int(differs.nonzero()[0])
        pair = f"{int(groups[place])} and {int(groups[place + 1])}"
        raise ValueError(f"`groups` must be one per query, got {pair} for query {int(queries[place])}")
    is_new = torch.cat([repeats.new_ones(min(len(queries), 1)), ~repeats])
    return queries[is_new], groups[is_new]
