"""Class hierarchies, as in Open Images: objects of a class also belong to its ancestors."""

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.core.base.class_names import is_int64, is_whole
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs import rules
from torch_ap.detection.inputs.images import SIDES, DetectionInputs

POSITIVE, NEGATIVE = "positive_labels", "negative_labels"
_IMAGE_LABELS = (POSITIVE, NEGATIVE)
ROW = "row"  # row of a detection in the input image, since rows are dropped and duplicated

Parents: TypeAlias = Mapping[int, int | Sequence[int]]


class Hierarchy:
    """Ancestors and descendants of labels.

    Args:
        parents: the parent or parents of each label that is not a root.

    Raises:
        ValueError: for invalid labels, and for a label that is its own ancestor.
    """

    def __init__(self, parents: Parents) -> None:
        if not isinstance(parents, Mapping):
            raise_invalid("hierarchy", "must be a dict of labels to their parents", Plain(type(parents).__name__))
        self.parents: dict[int, Sequence[int]] = {
            _label(child): _parent_labels(labels) for child, labels in parents.items()
        }
        self.ancestors = {label: self._ancestors_of(label) for label in self.parents}

    def _ancestors_of(self, label: int) -> list[int]:
        ancestors: set[int] = set()
        pending = list(self.parents[label])
        while pending:
            parent = pending.pop()
            if parent == label:
                raise ValueError(f"`hierarchy` must not have a label among its own ancestors, got {short_repr(label)}")
            if parent not in ancestors:
                ancestors.add(parent)
                pending += self.parents.get(parent, [])
        return sorted(ancestors)

    @cached_property
    def descendants(self) -> dict[int, list[int]]:
        """Descendants of each label that has any."""
        descendants: dict[int, list[int]] = {}
        for label, ancestors in self.ancestors.items():
            for ancestor in ancestors:
                descendants.setdefault(ancestor, []).append(label)
        return descendants

    @cached_property
    def _up(self) -> tuple[Tensor, Tensor, Tensor]:
        return _table(self.ancestors)

    @cached_property
    def _down(self) -> tuple[Tensor, Tensor, Tensor]:
        return _table(self.descendants)

    def expand(self, image: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an image with each row followed by a copy for every ancestor of its class."""
        labels: Any = image.get("labels")
        if not self.parents or not _is_label_tensor(labels):
            return image  # `DetectionInputs.validate` raises for invalid labels
        rows, expanded_labels = _expand_labels(self._up, labels)
        return {**_select_rows(image, rows), "labels": expanded_labels}

    def filter_verified(
        self, preds: Mapping[str, Any], truth: Mapping[str, Any], where: str, check_values: bool
    ) -> Mapping[str, Any]:
        """Return the detections of the image's verified classes; all detections without image labels.

        Args:
            preds: expanded detections of the image.
            truth: expanded ground truths of the image.
            where: name of the ground truths in messages.
            check_values: whether to raise for a class that is both present and labelled as absent.
        """
        labels: Any = preds.get("labels")
        true: Any = truth.get("labels")
        if not any(key in truth for key in _IMAGE_LABELS) or not _is_label_tensor(labels) or not _is_label_tensor(true):
            return preds
        image_labels = {key: truth[key] for key in _IMAGE_LABELS if key in truth}
        for key, value in image_labels.items():
            if not _is_label_tensor(value):
                rule = "must be a 1-D integer tensor of numbers that int64 represents"
                raise_invalid(f"{where}['{key}']", rule, value)
        nothing = true.new_empty(0, dtype=torch.int64)
        positive, negative = (image_labels.get(key, nothing).to(true.device, torch.int64) for key in _IMAGE_LABELS)
        present = torch.cat([true.to(torch.int64), _expand_labels(self._up, positive)[1]])
        if check_values and bool((wrong := torch.isin(negative, present)).any()):
            rule = f"must not contain a class of the image's ground truths or '{POSITIVE}'"
            raise_invalid(f"{where}['{NEGATIVE}']", rule, int(negative[wrong][0]))
        verified = torch.cat([present, _expand_labels(self._down, negative)[1]])
        rows = torch.isin(labels.to(torch.int64), verified.to(labels.device)).nonzero().squeeze(1)
        return _select_rows(preds, rows)


def expand_images(
    preds: Any, target: Any, hierarchy: Hierarchy, expand_preds: bool, inputs: DetectionInputs
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return images for Open Images' rules: expanded, and without detections of unverified classes."""
    for name, side in (("preds", preds), ("target", target)):
        if isinstance(side, Mapping):
            rule = "must be a list of dicts, one per image: Open Images' rules take no packed form"
            raise_invalid(name, rule, Plain("a dict"))
    rules.lists(preds, target)
    _check_lengths("preds", preds, inputs)
    _check_lengths("target", target, inputs)
    preds = [_number_rows(image) for image in preds]
    target = [hierarchy.expand(image) for image in target]
    if expand_preds:
        preds = [hierarchy.expand(image) for image in preds]
    images = enumerate(zip(preds, target, strict=True))
    return [hierarchy.filter_verified(*pair, f"target[{i}]", inputs.check_values) for i, pair in images], target


def _check_lengths(name: str, images: Sequence[Mapping[str, Any]], inputs: DetectionInputs) -> None:
    """Raise ValueError if a column of an image does not have the length of its labels."""
    prefix = SIDES[name]
    further = ("scores",) if name == "preds" else inputs.of_truths
    keys = (*inputs.rows_of(prefix), *further, *(["masks"] if inputs.masks else []))
    for index, image in enumerate(images):
        labels: Any = image.get("labels")
        for key in keys if _is_label_tensor(labels) else ():
            if _length(image.get(key)) not in (None, len(labels)):
                rule = f"must have one entry for each of {len(labels)} scores or labels"
                raise_invalid(f"{name}[{index}]['{key}']", rule, len(image[key]))


def _number_rows(image: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an image with the number of each row."""
    labels: Any = image.get("labels")
    if not _is_label_tensor(labels):
        return image
    return {**image, ROW: torch.arange(len(labels), dtype=torch.float64, device=labels.device)}


def _label(value: Any) -> int:
    if not is_whole(value):
        raise_invalid("hierarchy", "must contain integer labels", value)
    if not is_int64(value):
        raise_invalid("hierarchy", "must contain labels that int64 represents", value)
    return int(value)


def _parent_labels(value: Any) -> list[int]:
    """Return the validated parents of a label."""
    if is_whole(value):
        return [_label(value)]
    if not isinstance(value, list | tuple | set | frozenset):
        raise_invalid("hierarchy", "must map each label to a parent or a list of parents", value)
    return sorted(map(_label, value))


def _is_label_tensor(labels: Any) -> bool:
    return isinstance(labels, Tensor) and labels.ndim == 1 and rules.form_fits("labels", [labels], None)


def _length(value: Any) -> int | None:
    """Return the length of a tensor or list; None for other values."""
    has_length = value.ndim > 0 if isinstance(value, Tensor) else isinstance(value, list | tuple)
    return len(value) if has_length else None


def _select_rows(image: Mapping[str, Any], rows: Tensor) -> dict[str, Any]:
    """Return an image with the selected rows of all values that have a row for each label."""
    out = dict(image)
    for key, value in image.items():
        if key not in _IMAGE_LABELS and _length(value) == len(image["labels"]):
            out[key] = value[rows] if isinstance(value, Tensor) else [value[row] for row in rows.tolist()]
    return out


def _table(relatives: Mapping[int, list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels with relatives, ascending, and their lists: offsets and values, the label itself first."""
    labels = sorted(relatives)
    lists = [[label, *relatives[label]] for label in labels]
    counts = torch.tensor(list(map(len, lists)), dtype=torch.int64)
    flat = torch.tensor(list(itertools.chain.from_iterable(lists)), dtype=torch.int64)
    return torch.tensor(labels, dtype=torch.int64), segments.from_counts(counts), flat


def _expand_labels(table: tuple[Tensor, Tensor, Tensor], labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row and the label of every label and of its relatives."""
    known, offsets, flat = (x.to(labels.device) for x in table)
    labels = labels.to(torch.int64)
    if not len(known):
        return torch.arange(len(labels), device=labels.device), labels
    index = torch.searchsorted(known, labels).clamp(max=len(known) - 1)
    has_relatives = known[index] == labels
    count = torch.where(has_relatives, offsets.diff()[index], 1)
    starts = segments.from_counts(count)
    rows = segments.ids(starts)
    inside = torch.arange(len(rows), device=labels.device) - starts[rows]
    entries = flat[(offsets[index][rows] + inside).clamp(max=len(flat) - 1)]
    return rows, torch.where(has_relatives[rows], entries, labels[rows])
