"""Classes in a hierarchy, as Open Images has them: what is of a class is of its ancestors, too."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.inputs.detections import DetectionInputs
from torch_ap.inputs.image_sides import SIDES
from torch_ap.ranking import segments
from torch_ap.rules import images as rules
from torch_ap.rules.integers import is_int64, is_whole
from torch_ap.rules.messages import Plain, refuse, shown

POSITIVE, NEGATIVE = "positive_labels", "negative_labels"
_OF_IMAGE = (POSITIVE, NEGATIVE)
ROW = "row"  # of a detection in its image as given, since some are left out and others come more than once

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
        self.parents: dict[int, Sequence[int]] = {_label(child): _listed(of) for child, of in parents.items()}
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

    def verified(
        self, found: Mapping[str, Any], truth: Mapping[str, Any], where: str, check_values: bool
    ) -> Mapping[str, Any]:
        """The detections of an image whose class is known to be there, or not to be; all where nothing is said.

        Args:
            found, truth: of the image, expanded.
            where: what messages call the ground truths.
            check_values: whether a class that is there must not be said to be absent.
        """
        labels: Any = found.get("labels")
        true: Any = truth.get("labels")
        if not any(key in truth for key in _OF_IMAGE) or not _fits(labels) or not _fits(true):
            return found
        given = {key: truth[key] for key in _OF_IMAGE if key in truth}
        for key, value in given.items():
            if not _fits(value):
                refuse(f"{where}['{key}']", "must be a 1-D integer tensor, of numbers that int64 holds", value)
        nothing = true.new_empty(0, dtype=torch.int64)
        positive, negative = (given.get(key, nothing).to(true.device, torch.int64) for key in _OF_IMAGE)
        there = torch.cat([true.to(torch.int64), _with(self._up, positive)[1]])
        if check_values and bool((wrong := torch.isin(negative, there)).any()):
            rule = f"must hold no class that the image has, by its ground truths or '{POSITIVE}'"
            refuse(f"{where}['{NEGATIVE}']", rule, int(negative[wrong][0]))
        known = torch.cat([there, _with(self._down, negative)[1]])
        kept = torch.isin(labels.to(torch.int64), known.to(labels.device))
        rows, count = kept.nonzero().squeeze(1), len(labels)
        return {key: _taken(value, rows) if _rowed(value, count) else value for key, value in found.items()}


def prepared(
    preds: Any, target: Any, hierarchy: Hierarchy, expand_preds: bool, inputs: DetectionInputs
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Images as Open Images' rules count them: expanded, and without detections that nobody verified."""
    for name, side in (("preds", preds), ("target", target)):
        if isinstance(side, Mapping):
            rule = "must be a list of dicts, one per image: Open Images' rules take no packed form"
            refuse(name, rule, Plain("a dict"))
    rules.lists(preds, target)
    _check_lengths("preds", preds, inputs)
    _check_lengths("target", target, inputs)
    preds = [_numbered(image) for image in preds]
    target = [hierarchy.expanded(image) for image in target]
    if expand_preds:
        preds = [hierarchy.expanded(image) for image in preds]
    found = []
    for place, (p, t) in enumerate(zip(preds, target, strict=True)):
        found.append(hierarchy.verified(p, t, f"target[{place}]", inputs.check_values))
    return found, target


def _check_lengths(name: str, images: Sequence[Mapping[str, Any]], inputs: DetectionInputs) -> None:
    """Refuse columns that are not as long as the labels of their image, before rows are taken of them."""
    prefix = SIDES[name]
    further = ("scores",) if name == "preds" else inputs.of_truths
    keys = (*inputs.rows_of(prefix), *further, *(["masks"] if inputs.masks else []))
    for place, image in enumerate(images):
        labels: Any = image.get("labels")
        for key in keys if _fits(labels) else ():
            value: Any = image.get(key)
            rowed = value.ndim > 0 if isinstance(value, Tensor) else isinstance(value, list | tuple)
            if rowed and len(value) != len(labels):
                rule = f"must have one entry for each of {len(labels)} scores or labels"
                refuse(f"{name}[{place}]['{key}']", rule, len(value))


def _numbered(image: Mapping[str, Any]) -> Mapping[str, Any]:
    labels: Any = image.get("labels")
    if not _fits(labels):
        return image
    return {**image, ROW: torch.arange(len(labels), dtype=torch.float64, device=labels.device)}


def _label(value: Any) -> int:
    if not is_whole(value):
        refuse("hierarchy", "must hold labels, which are integers", value)
    if not is_int64(value):
        refuse("hierarchy", "must hold labels, which int64 holds", value)
    return int(value)


def _listed(value: Any) -> list[int]:
    """The parents of a label."""
    if is_whole(value):
        return [_label(value)]
    if not isinstance(value, list | tuple | set | frozenset):
        refuse("hierarchy", "must give each label a parent or a list of parents", value)
    return sorted(map(_label, value))


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
