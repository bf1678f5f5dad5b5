"""Classes in a hierarchy, as Open Images has them: what is of a class is of its ancestors, too."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.geometry.run_lengths import is_whole
from torch_ap.ranking import segments
from torch_ap.rules import images as rules
from torch_ap.rules.messages import Plain, refuse, shown

POSITIVE, NEGATIVE = "positive_labels", "negative_labels"
_OF_IMAGE = (POSITIVE, NEGATIVE)

Parents: TypeAlias = Mapping[int, int | Sequence[int]]


class Hierarchy:
    """The ancestors and descendants of labels.

    Args:
        parents: the parent of each label that has one, or its parents.

    Raises:
        ValueError: for what are no labels, and for a label that is its own ancestor.
    """

    def __init__(self, parents: Parents) -> None:
        if not isinstance(parents, Mapping):
            refuse("hierarchy", "must be a dict of labels to their parents", Plain(type(parents).__name__))
        self.parents: dict[int, Sequence[int]] = {child: _listed(of) for child, of in parents.items()}
        for label in (*self.parents, *(one for of in self.parents.values() for one in of)):
            if not is_whole(label):
                refuse("hierarchy", "must hold labels, which are integers", label)
        self.ancestors = {label: self._above(label) for label in self.parents}

    def _above(self, label: int) -> list[int]:
        found: dict[int, None] = {}
        pending = list(self.parents[label])
        while pending:
            one = pending.pop(0)
            if one == label:
                raise ValueError(f"`hierarchy` must not have a label among its own ancestors, got {shown(label)}")
            if one not in found:
                found[one] = None
                pending += self.parents.get(one, [])
        return sorted(found)

    @cached_property
    def descendants(self) -> dict[int, list[int]]:
        """Of each label that has some."""
        found: dict[int, list[int]] = {}
        for label, above in self.ancestors.items():
            for one in above:
                found.setdefault(one, []).append(label)
        return found

    @cached_property
    def _up(self) -> tuple[Tensor, Tensor, Tensor]:
        return _table(self.ancestors)

    @cached_property
    def _down(self) -> tuple[Tensor, Tensor, Tensor]:
        return _table(self.descendants)

    def expanded(self, image: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rows of an image, each followed by itself as one of every ancestor of its class."""
        labels: Any = image.get("labels")
        if not self.parents or not _fits(labels):
            return image  # what is no tensor of labels is refused where all are
        rows, above = _with(self._up, labels)
        out = dict(image)
        for key, value in image.items():
            if key not in _OF_IMAGE and _rowed(value, len(labels)):
                out[key] = _taken(value, rows)
        return out | {"labels": above}

    def verified(self, found: Mapping[str, Any], truth: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """The detections of an image whose class is known to be there, or not to be; all where nothing is said.

        Args:
            found, truth: of the image, expanded.
            where: what messages call the ground truths.
        """
        labels: Any = found.get("labels")
        true: Any = truth.get("labels")
        if not any(key in truth for key in _OF_IMAGE) or not _fits(labels) or not _fits(true):
            return found
        known = [true]
        for key, table in ((POSITIVE, self._up), (NEGATIVE, self._down)):
            if key in truth:
                given = truth[key]
                if not _fits(given):
                    refuse(f"{where}['{key}']", "must be a 1-D integer tensor", given)
                known.append(_with(table, given.to(true.dtype))[1].to(true.device))
        kept = torch.isin(labels, torch.cat(known).to(labels.device))
        rows, count = kept.nonzero().squeeze(1), len(labels)
        return {key: _taken(value, rows) if _rowed(value, count) else value for key, value in found.items()}


def prepared(
    preds: Any, target: Any, hierarchy: Hierarchy, expand_preds: bool
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Images as Open Images' rules count them: expanded, and without detections that nobody verified."""
    rules.lists(preds, target)
    target = [hierarchy.expanded(image) for image in target]
    if expand_preds:
        preds = [hierarchy.expanded(image) for image in preds]
    both = zip(preds, target, strict=True)
    return [hierarchy.verified(p, t, f"target[{place}]") for place, (p, t) in enumerate(both)], target


def _listed(value: Any) -> list[int]:
    """The parents of a label."""
    if is_whole(value):
        return [value]
    if not isinstance(value, list | tuple | set | frozenset):
        refuse("hierarchy", "must give each label a parent or a list of parents", value)
    return sorted(value)


def _fits(labels: Any) -> bool:
    return isinstance(labels, Tensor) and labels.ndim == 1 and rules.form_fits("labels", [labels], None)


def _rowed(value: Any, count: int) -> bool:
    """Whether a value has a row for each of so many labels."""
    if isinstance(value, Tensor):
        return value.ndim > 0 and len(value) == count
    return isinstance(value, list | tuple) and len(value) == count


def _taken(value: Any, rows: Tensor) -> Any:
    return value[rows] if isinstance(value, Tensor) else [value[row] for row in rows.tolist()]


def _table(further: Mapping[int, list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """The labels that have others, ascending; where the others of each begin; and these, the label itself first."""
    known = sorted(further)
    lists = [[label, *further[label]] for label in known]
    counts = torch.tensor([len(one) for one in lists], dtype=torch.int64)
    flat = torch.tensor([x for one in lists for x in one], dtype=torch.int64)
    return torch.tensor(known, dtype=torch.int64), segments.from_counts(counts), flat


def _with(table: tuple[Tensor, Tensor, Tensor], labels: Tensor) -> tuple[Tensor, Tensor]:
    """Rows, and labels of these, of every label and those that belong to it."""
    known, offsets, flat = (x.to(labels.device) for x in table)
    labels = labels.to(torch.int64)
    if not len(known):
        return torch.arange(len(labels), device=labels.device), labels
    place = torch.searchsorted(known, labels).clamp(max=len(known) - 1)
    has = known[place] == labels
    count = torch.where(has, offsets.diff()[place], 1)
    starts = segments.from_counts(count)
    rows = segments.ids(starts)
    inside = torch.arange(len(rows), device=labels.device) - starts[rows]
    return rows, torch.where(has[rows], flat[(offsets[place][rows] + inside).clamp(max=len(flat) - 1)], labels[rows])
