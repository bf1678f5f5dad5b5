"""Input of federated ground truth, as LVIS's: each image says which categories were looked for in it, and how well.

A category that an image neither shows nor lists as negative was not looked for there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, DetectionInputs, seen_labels
from torch_ap.rules import detections as value_rules
from torch_ap.rules import images as rules
from torch_ap.runtime import memory

NEGATIVE, NOT_EXHAUSTIVE = KEYS = ("neg_category_ids", "not_exhaustive_category_ids")


@dataclass(frozen=True)
class FederatedInputs(DetectionInputs):
    """How images come in whose targets have two lists of categories, besides.

    Attributes:
        categories: all that there are, ascending; None where that is not known.
    """

    categories: tuple[int, ...] | None = None

    @property
    def _marks(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        detected, true = super()._marks
        return detected, (*true, *KEYS)

    @property
    def states(self) -> tuple[str, ...]:
        """The names of all columns: of each list the categories of all images end to end, and how many each has."""
        return (*super().states, *(name for key in KEYS for name in (key, f"{key}_per_image")))

    def look_at(self, columns: Columns) -> Tensor | None:
        """As :meth:`DetectionInputs.look_at`."""
        for key in KEYS:
            rules.counts("target", columns[f"{key}_per_image"].cpu(), len(columns[key]), f"{key}_counts")
        return super().look_at(columns)

    def _of_images(self, target: Sequence[Mapping[str, Any]], packed: bool, device: torch.device) -> Columns:
        columns = {}
        for key in KEYS:
            columns[key], columns[f"{key}_per_image"] = _lists(target, key, packed, device)
        return columns

    def _broken(self, columns: Columns) -> Tensor | None:
        found = [value_rules.check_counts(columns[f"{key}_per_image"], len(columns[key])) for key in KEYS]
        found += [super()._broken(columns), *_contradictions(columns), *self._unknown(columns)]
        flags = [flag for flag in found if flag is not None]
        return torch.stack(flags).any(0) if flags else None

    def _unknown(self, columns: Columns) -> Sequence[Tensor | None]:
        """The rule that all labels and ids are those of categories."""
        if self.categories is None:
            return []
        owners = {
            "detection_labels": ("preds", "labels", "detections_per_image"),
            "ground_truth_labels": ("target", "labels", "ground_truths_per_image"),
            **{key: ("target", key, f"{key}_per_image") for key in KEYS},
        }
        known = torch.tensor(self.categories, dtype=torch.int64)
        found = []
        for name, (side, key, counts) in owners.items():
            values = columns[name]
            seen = seen_labels(values) if values.is_cpu else None
            if seen is not None and bool(among(seen.nonzero().squeeze(1), known).all()):
                continue
            wrong = ~among(values, memory.sent(known, values.device))
            found.append(value_rules.check_ids("categories", (side, key), values, wrong, columns[counts]))
        return found


def among(values: Tensor, some: Tensor) -> Tensor:
    """(N,) bool, which values are among ``some``; unlike ``torch.isin`` without waiting for a device."""
    if not len(some):
        return torch.zeros_like(values, dtype=torch.bool)
    ordered = some.sort().values
    return ordered[torch.searchsorted(ordered, values).clamp_(max=len(some) - 1)] == values


def _lists(target: Sequence[Mapping[str, Any]], key: str, packed: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """A list of ids of all images end to end, a copy; and (B,) how many each has."""
    rules.missing("target", target, key, packed=packed)
    values = [image[key] for image in target]
    if not rules.form_fits(key, values, None):
        rules.column("target", key, values, None, packed=packed)
    filled = [value.to(torch.int64) for value in values if len(value)]
    ids = torch.cat(filled).detach() if filled else torch.empty(0, dtype=torch.int64, device=device)
    counts = torch.tensor([len(value) for value in values], dtype=torch.int64)
    if packed:
        rules.missing("target", target, f"{key}_counts", packed=True)
        given = target[0][f"{key}_counts"]
        rules.counts("target", given, len(ids), f"{key}_counts")
        counts = given.to(torch.int64, copy=True)
    return ids, memory.sent(counts, device)


def _contradictions(columns: Columns) -> Sequence[Tensor | None]:
    """The rules that what is negative for an image has no ground truth in it, and is not in its other list."""
    ids, counts = columns[NEGATIVE], columns[f"{NEGATIVE}_per_image"]
    found = []
    others = {
        "negatives": ("ground_truth_labels", "ground_truths_per_image"),
        "one list": (NOT_EXHAUSTIVE, f"{NOT_EXHAUSTIVE}_per_image"),
    }
    for rule, (name, per_image) in others.items():
        every = torch.cat([ids, columns[name]])
        place = torch.searchsorted(every.sort().values, every)  # equal for equal ids, and small
        image = torch.cat([_image_of(counts, len(ids)), _image_of(columns[per_image], len(columns[name]))])
        key = place * (len(counts) + 1) + image
        wrong = among(key[: len(ids)], key[len(ids) :])
        found.append(value_rules.check_ids(rule, ("target", NEGATIVE), ids, wrong, counts))
    return found


def _image_of(counts: Tensor, rows: int) -> Tensor:
    """(rows,) int64 image of each row, without waiting for a device; for counts that break their rule, too."""
    return torch.searchsorted(counts.cumsum(0), torch.arange(rows, device=counts.device), right=True)
