"""Targets that may be wrong: confident errors of a classifier, by the average precision after their correction."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.items.inputs import Batch, counted_items
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures import averaging
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.builders import from_rows
from torch_ap.inference.suspicious import SuspiciousLabels, best_first, selected

_ENTRIES_A_CHUNK = 1 << 21  # of the rankings that are computed together
_MIN_CANDIDATES = 100  # of each kind and class, so that smaller limits return the first rows of the same ranking
_HIGH, _LOW = "high score, labelled negative", "low score, labelled positive"
_OTHER = "predicted as another class"


def suspicious_labels(
    self: Any, *, limit: int | None = 100, class_names: Sequence[str] | None = None
) -> SuspiciousLabels:
    """Return targets that may be wrong, by how much the value would change if each were corrected.

    ==================================  ==========================================================  ==================
    kind                                target                                                      correction
    ==================================  ==========================================================  ==================
    ``high score, labelled negative``   0 at a score of at least the threshold of the highest F1    is 1
    ``low score, labelled positive``    1 at a score below this threshold                           is 0
    ``predicted as another class``      multiclass: a class whose score is not the highest          is the class of
                                                                                                    the highest score
    ==================================  ==========================================================  ==================

    Each change is exact: the rankings of the classes are computed again with the correction. With a ``limit`` the most
    confident targets of each kind and class are candidates, at least 100 and at least ``limit``. In one ranking the
    others gain less: AP does not decrease if a positive moves up, so the highest negatives and the lowest positives
    gain most.

    Args:
        limit: the largest number of rows; None for all.
        class_names: (C,) different names; None for 0 to C - 1.

    Returns:
        :class:`torch_ap.inference.SuspiciousLabels` with the value of ``compute()`` in float64. Further columns are
        ``item``, the ``sample_ids`` of ``update`` or the position of the item; ``class``, the name of the class or
        label of the target; with classes ``predicted_class``; and ``score``, of the predicted class if there is one.

    Raises:
        ValueError: for ``thresholds`` and ``bins``, which store no items; for weights, ``num_relevant`` and
            ``average="none"``; and for an invalid argument.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> metric = BinaryAveragePrecision()
        >>> scores = torch.tensor([0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.1])
        >>> metric.update(scores, torch.tensor([1, 0, 1, 0, 0, 0, 1]), sample_ids=[3, 4, 5, 6, 7, 8, 9])
        >>> for row in metric.suspicious_labels().rows():
        ...     print(f"{row['item']}: {row['kind']}, {row['change']:+.3f}")
        4: high score, labelled negative, +0.194
        9: low score, labelled positive, +0.135
    """
    return labels_of_metric(self, self._settings, limit, class_names)


def labels_of_metric(
    metric: Any, settings: APSettings, limit: int | None, class_names: Sequence[str] | None
) -> SuspiciousLabels:
    """Return the record of suspicious labels of a metric by the value of these settings."""

    def items() -> tuple[Batch, Tensor]:
        with metric._all_ranks():
            metric._raise_broken()
            return metric._batch(), metric._item_ids()

    return labels_of_items(settings, items, limit, class_names)


def labels_of_items(
    settings: APSettings,
    items: Callable[[], tuple[Batch, Tensor]],
    limit: int | None,
    class_names: Sequence[str] | None,
) -> SuspiciousLabels:
    """Return the record of suspicious labels.

    Args:
        settings: settings of the average precision.
        items: returns the items and their (N,) ids; it is called with valid settings.
        limit: the largest number of rows.
        class_names: names of the classes.
    """
    limit = checks.positive_int("limit", limit, optional=True)
    if settings.bins is not None:
        raise ValueError("`thresholds` and `bins` must be None for suspicious labels, which are single items")
    if settings.num_relevant is not None:
        raise ValueError("`num_relevant` must be None for suspicious labels, which need scores of all positives")
    single = settings.inputs.width is None
    if not single and settings.average in ("none", None):
        raise ValueError("`average` must not be 'none' for suspicious labels, which are ranked by one value")
    names = [""] if single else checks.names_of_classes(class_names, settings.inputs.width or 0)
    if single and class_names is not None:
        raise_invalid("class_names", "must be None for a single ranking", class_names)
    batch, ids = items()
    if batch.weights is not None:
        raise ValueError("`weights` must be None for suspicious labels, whose ranks count items")
    ranked = settings.rankings(batch)
    candidates = None if limit is None else max(limit, _MIN_CANDIDATES)
    found = (_Confused if settings.inputs.classes else _Contradicted)(settings, ranked, candidates)
    labels, changes = found.labels, found.corrected() - found.value
    item, column = labels["item"], labels["column"]
    if settings.average == "micro":  # one ranking of all scores
        item, column = item // len(names), item % len(names)
    kinds = (_OTHER,) if settings.inputs.classes else (_HIGH, _LOW)
    table: dict[str, Any] = {"kind": labels["kind"], "change": changes, "item": ids[item]}
    if not single:
        table["class"] = [names[k] for k in labels.get("class", column).tolist()]
    if settings.inputs.classes:
        table["predicted_class"] = [names[k] for k in column.tolist()]
    table["score"] = segments.as_float64(batch.scores[item] if single else batch.scores[item, column])
    table = selected(table, best_first(changes, limit))
    table["kind"] = [kinds[kind] for kind in table["kind"].tolist()]
    return SuspiciousLabels(found.value, dict(zip(kinds, found.counts, strict=True)), table)


class _Column:
    """One ranking whose items can change their target one by one.

    Args:
        settings: settings of the average precision.
        scores: (n,) scores.
        relevant: (n,) bool.
    """

    def __init__(self, settings: APSettings, scores: Tensor, relevant: Tensor) -> None:
        distinct, inverse = order.dense_ranks(order.keys(scores))
        self._settings, size = settings, len(distinct)
        self.group = size - 1 - inverse  # the tie group of each item, the highest score first
        self.items = segments.count(self.group, size)
        self.hits = segments.count(self.group[relevant], size)
        self.n, self.m = len(scores), int(self.hits.sum())

    def best_f1_group(self) -> int:
        """Return the last tie group above the threshold of the highest F1; -1 without positives."""
        if not self.m:
            return -1
        hits, items = self.hits.cumsum(0), self.items.cumsum(0)
        return int((segments.as_float64(hits) / (items + self.m)).argmax())

    def values(self, group: Tensor, change: Tensor) -> Tensor:
        """Return the (X,) AP after a change of the hits of one tie group, 1, -1, or 0 for none."""
        kept = (self.hits > 0).index_fill(0, group, True).nonzero().squeeze(1)
        size, parts = max(1, len(kept)), []
        place = torch.searchsorted(kept, group)
        step = max(1, _ENTRIES_A_CHUNK // size)
        for first in range(0, len(group), step):
            rows = slice(first, first + step)
            changed = change[rows]
            number = torch.arange(len(changed), device=group.device)
            hits = self.hits[kept].repeat(len(changed), 1)
            hits[number, place[rows]] += changed
            items = self.items[kept].expand_as(hits)
            items_above = (self.items.cumsum(0) - self.items)[kept].expand_as(hits)
            hits_above, n = hits.cumsum(1) - hits, torch.full_like(changed, self.n)
            ends = hits.new_tensor([0, len(kept)])
            curve = from_rows(hits, items, hits_above, items_above, ends, n, self.m + changed)
            parts.append(self._settings.each(curve))
        return torch.cat(parts) if parts else segments.as_float64(group)


class _Suspects:
    """Suspicious targets, and the values after their corrections.

    Attributes:
        value: 0-d float64, the value without corrections.
        counts: the number of suspicious targets of each kind.
        labels: (X,) int64 columns: "kind"; "item"; "column", the ranking of the score; with classes "class", the
            target.
    """

    counts: list[int]
    labels: dict[str, Tensor]

    def __init__(self, settings: APSettings, columns: int, device: torch.device) -> None:
        self._settings, self._after = settings, list[tuple[Tensor, Tensor, Tensor, Tensor]]()
        self._each = torch.full((columns,), torch.nan, dtype=segments.widest(device), device=device)
        self._n, self._m = (torch.zeros(columns, dtype=torch.int64, device=device) for _ in range(2))

    def add_column(self, place: int, column: _Column, label: Tensor, group: Tensor, change: Tensor) -> None:
        """Add a ranking, and the changes of its hits that correct some of the labels; (X,) int64 each."""
        values = group[:0]
        if column.n:  # the first value has no change
            values = column.values(*(torch.cat([x.new_zeros(1), x]) for x in (group, change)))
            self._each[place], values = values[0], values[1:]
        self._n[place], self._m[place] = column.n, column.m
        self._after.append((torch.full_like(label, place), label, values, column.m + change))

    @property
    def value(self) -> Tensor:
        """The value without corrections."""
        return self._average(self._each[:, None], self._m[:, None])[0]

    def corrected(self) -> Tensor:
        """Return the (X,) values after each correction."""
        total, columns = len(self.labels["item"]), len(self._each)
        if not self._after:
            return self._each[:0]
        place, label, value, m = (torch.cat(x) for x in zip(*self._after, strict=True))
        by_label = label.argsort()
        place, label, value, m = (x[by_label] for x in (place, label, value, m))
        parts = []
        step = max(1, _ENTRIES_A_CHUNK // max(1, columns))
        for first in range(0, total, step):
            end = min(first + step, total)
            low, high = torch.searchsorted(label, label.new_tensor([first, end])).tolist()
            each, relevant = (x[:, None].repeat(1, end - first) for x in (self._each, self._m))
            where = place[low:high], label[low:high] - first
            each[where], relevant[where] = value[low:high], m[low:high]
            parts.append(self._average(each, relevant))
        return torch.cat(parts) if parts else self._each[:0]

    def _average(self, each: Tensor, m: Tensor) -> Tensor:
        """Return the (b,) averages of (S, b) values; NaN where no ranking has a value."""
        settings, n = self._settings, self._n[:, None].expand_as(m)
        action = settings.action_on_empty
        each = torch.where((m == 0) & (n > 0), averaging.UNDEFINED_AS[action].value, each)
        if len(each) == 1:
            return each[0]
        return averaging.averages_of_samples(each, m, n, settings.average, action)


class _Contradicted(_Suspects):
    """Targets of 0 and 1 on the wrong side of the threshold with the highest F1 of their ranking."""

    def __init__(self, settings: APSettings, batch: Batch, candidates: int | None) -> None:
        scores, target = (x if x.ndim == 2 else x[:, None] for x in (batch.scores, batch.target))
        super().__init__(settings, scores.shape[1], scores.device)
        self.counts, parts, labels = [0, 0], list[tuple[Tensor, ...]](), 0
        for place in range(scores.shape[1]):
            items = counted_items(target[:, place]).nonzero().squeeze(1)
            relevant = target[items, place] == 1
            column = _Column(settings, scores[items, place], relevant)
            is_high = column.group <= column.best_f1_group()
            for kind, flags, sign in ((0, is_high & ~relevant, 1), (1, ~is_high & relevant, -1)):
                rows = flags.nonzero().squeeze(1)
                self.counts[kind] += len(rows)
                rows = rows[(sign * column.group[rows]).argsort(stable=True)[:candidates]]
                parts.append((torch.full_like(rows, kind), items[rows], torch.full_like(rows, place), rows))
            both = torch.cat([x[3] for x in parts[-2:]])
            label = labels + torch.arange(len(both), device=both.device)
            change = torch.where(relevant[both], -1, 1)
            self.add_column(place, column, label, column.group[both], change)
            labels += len(both)
        columns = (torch.cat(x) for x in zip(*parts, strict=True))
        self.labels = dict(zip(("kind", "item", "column"), columns, strict=False))


class _Confused(_Suspects):
    """Items whose target does not have the highest score."""

    def __init__(self, settings: APSettings, batch: Batch, candidates: int | None) -> None:
        super().__init__(settings, batch.scores.shape[1], batch.scores.device)
        items = counted_items(batch.target).nonzero().squeeze(1)
        scores, target = batch.scores[items], batch.target[items].long()
        if not len(items):
            self.counts, self.labels = [0], dict.fromkeys(("kind", "item", "column", "class"), target)
            return
        highest = scores.max(1)
        wrong = (scores.gather(1, target[:, None]).squeeze(1) < highest.values).nonzero().squeeze(1)
        self.counts = [len(wrong)]
        predicted = highest.indices[wrong]
        margin = segments.as_float64(highest.values[wrong]) - segments.as_float64(scores[wrong, target[wrong]])
        by_margin = margin.argsort(descending=True, stable=True)
        by_class = by_margin[order.stable_argsort(predicted[by_margin], scores.shape[1])]
        if candidates is not None:
            ordered = predicted[by_class]
            first = segments.from_counts(segments.count(ordered, scores.shape[1]))[ordered]
            by_class = by_class[torch.arange(len(ordered), device=first.device) - first < candidates]
        wrong, predicted = wrong[by_class], predicted[by_class]
        own = target[wrong]
        self.labels = {"kind": torch.zeros_like(wrong), "item": items[wrong], "column": predicted, "class": own}
        for place in range(scores.shape[1]):
            column = _Column(settings, scores[:, place], target == place)
            label = ((own == place) | (predicted == place)).nonzero().squeeze(1)
            change = torch.where(own[label] == place, -1, 1)
            self.add_column(place, column, label, column.group[wrong[label]], change)
