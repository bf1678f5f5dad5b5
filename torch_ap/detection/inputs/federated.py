"""Input validation of federated ground truth, as in LVIS: each image lists the categories that annotators searched.

In an image, a category was searched if it has a ground truth or is listed as negative.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.detection.inputs import rules
from torch_ap.detection.inputs.images import Columns, DetectionInputs, Side, any_broken, label_flags

NEGATIVE, NOT_EXHAUSTIVE = KEYS = rules.LISTS


@dataclass(frozen=True)
class FederatedInputs(DetectionInputs):
    """Input format of images whose targets have two lists of categories.

    Attributes:
        categories: all categories, ascending; None to skip the check of ids.
    """

    categories: tuple[int, ...] | None = None

    @property
    def _known_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.of_detections, (*self.of_truths, *KEYS)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of all columns, with the concatenated ids of each list and their number per image."""
        return (*super().states, *(name for key in KEYS for name in (key, f"{key}_per_image")))

    def check_stored(self, columns: Columns) -> Tensor | None:
        """Check columns in the layout of the state, see :meth:`DetectionInputs.check_stored`."""
        for key in KEYS:
            rules.counts("target", columns[f"{key}_per_image"].cpu(), len(columns[key]), f"{key}_counts")
        return super().check_stored(columns)

    def _target_columns(self, target: Side) -> Columns:
        columns = {}
        for key in KEYS:
            columns[key], columns[f"{key}_per_image"] = _lists(target.images, key, target.packed, target.counts.device)
        return columns

    def _broken_rules(self, columns: Columns, absent: Collection[str] = ()) -> Tensor | None:
        flags = [rules.check_counts(columns[f"{key}_per_image"], len(columns[key])) for key in KEYS]
        flags.append(super()._broken_rules(columns, absent))
        return any_broken([*flags, *_check_lists(columns), *self._check_categories(columns)])

    def _check_categories(self, columns: Columns) -> Sequence[Tensor | None]:
        """Check that all labels and ids are among the categories."""
        if self.categories is None:
            return []
        owners = {
            "detection_labels": ("preds", "labels", "detections_per_image"),
            "ground_truth_labels": ("target", "labels", "ground_truths_per_image"),
            **{key: ("target", key, f"{key}_per_image") for key in KEYS},
        }
        known = torch.tensor(self.categories, dtype=torch.int64)
        flags = []
        for name, (side, key, counts) in owners.items():
            values = columns[name]
            occurs = label_flags(values) if values.is_cpu else None
            if occurs is not None and bool(is_among(occurs.nonzero().squeeze(1), known).all()):
                continue
            wrong = ~is_among(values, arrays.to_device(known, values.device))
            flags.append(rules.check_ids("categories", (side, key), values, wrong, columns[counts]))
        return flags


def is_among(values: Tensor, others: Tensor) -> Tensor:
    """Return which values are among ``others``, (N,) bool; unlike ``torch.isin`` without waiting for a device."""
    if not len(others):
        return torch.zeros_like(values, dtype=torch.bool)
    ordered = others.sort().values
    return ordered[torch.searchsorted(ordered, values).clamp_(max=len(others) - 1)] == values


def _lists(target: Sequence[Mapping[str, Any]], key: str, packed: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return a copy of the concatenated ids of all images, and the (B,) number of ids of each image."""
    rules.require_key("target", target, key, packed=packed)
    values = [image[key] for image in target]
    if not rules.form_fits(key, values, None):
        rules.raise_invalid_column("target", key, values, None, packed=packed)
    filled = [value.to(torch.int64) for value in values if len(value)]
    ids = torch.cat(filled).detach() if filled else torch.empty(0, dtype=torch.int64, device=device)
    counts = torch.tensor([len(value) for value in values], dtype=torch.int64)
    if packed:
        rules.require_key("target", target, f"{key}_counts", packed=True)
        counts = target[0][f"{key}_counts"]
        rules.counts("target", counts, len(ids), f"{key}_counts")
        counts = counts.to(torch.int64, copy=True)
    return ids, arrays.to_device(counts, device)


def _check_lists(columns: Columns) -> Sequence[Tensor | None]:
    """Check that the negative ids of an image neither have a ground truth nor occur in the other list."""
    ids, counts = columns[NEGATIVE], columns[f"{NEGATIVE}_per_image"]
    flags = []
    others = {
        "negatives": ("ground_truth_labels", "ground_truths_per_image"),
        "one list": (NOT_EXHAUSTIVE, f"{NOT_EXHAUSTIVE}_per_image"),
    }
    for rule, (name, per_image) in others.items():
        all_ids = torch.cat([ids, columns[name]])
        position = torch.searchsorted(all_ids.sort().values, all_ids)  # equal for equal ids, and small
        image = torch.cat([_image_ids(counts, len(ids)), _image_ids(columns[per_image], len(columns[name]))])
        key = position * (len(counts) + 1) + image
        wrong = is_among(key[: len(ids)], key[len(ids) :])
        flags.append(rules.check_ids(rule, ("target", NEGATIVE), ids, wrong, counts))
    return flags


def _image_ids(counts: Tensor, rows: int) -> Tensor:
    """Return the image index of each row, (rows,) int64, without waiting for a device, also for invalid counts."""
    return torch.searchsorted(counts.cumsum(0), torch.arange(rows, device=counts.device), right=True)
