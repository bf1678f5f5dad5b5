"""LVIS's evaluation: COCO's, of what counts where each image lists the categories that were looked for in it.

A detection counts only in an image that shows its category or lists it as negative. An unmatched one is forgiven where
not all objects of its category are marked. The limit on detections is one on all of an image, or, for AP-Fixed, on
those of each category in the whole data set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, Kind, image_of
from torch_ap.inputs.federated import NEGATIVE, NOT_EXHAUSTIVE, FederatedInputs, among
from torch_ap.matching import candidate_pairs
from torch_ap.matching.coco_settings import Classes, CocoSettings, Objects, settings_of
from torch_ap.matching.stored import StoredMatches
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.integers import is_int64
from torch_ap.rules.messages import refuse, shown

Frequency: TypeAlias = Literal["r", "c", "f"]

GROUPS: Mapping[str, str] = {"rare": "r", "common": "c", "frequent": "f"}
_LARGEST_TABLE = 1 << 28  # bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class LvisSettings(CocoSettings):
    """All settings of one LVIS mean average precision.

    Attributes:
        fixed: whether the limit is one on each category in all images, in place of each image.
        frequencies: "r", "c" or "f" of each category; None where their groups are not asked for.
    """

    fixed: bool = False
    frequencies: Mapping[int, Frequency] | None = None

    def _form(self) -> StoredMatches:
        return replace(super()._form(), leaves_out=True)

    data_set: ClassVar[str] = "LVIS"
    by_levels: ClassVar[bool] = False

    @cached_property
    def inputs(self) -> FederatedInputs:
        """How images come in."""
        known = None if self.frequencies is None else tuple(sorted(self.frequencies))
        return FederatedInputs(**self._images() | {"of_truths": ("ignore", "area"), "categories": known})

    @property
    def most(self) -> str:
        """How many detections count, in words."""
        return f"{self.limits[-1]} detections per {'class' if self.fixed else 'image'}"

    @property
    def groups(self) -> Mapping[str, Tensor]:
        """The labels of rare, common and frequent categories."""
        given = self.frequencies
        if given is None:
            return {}
        return {
            name: torch.tensor([label for label, one in given.items() if one == letter], dtype=torch.int64)
            for name, letter in GROUPS.items()
        }

    def objects(self, columns: Columns, iou_type: Kind, classes: Classes) -> Objects:
        """What the rules ask of the shapes of all images."""
        return FederatedObjects(self, columns, iou_type, classes)


class FederatedObjects(Objects):
    """The same with those that take part, and those that are forgiven. There are no crowds."""

    def __init__(self, settings: LvisSettings, columns: Columns, iou_type: Kind, classes: Classes) -> None:
        super().__init__(settings, columns | {"ground_truth_iscrowd": columns["ground_truth_ignore"]}, iou_type)
        self.crowd = torch.zeros_like(self.crowd)
        size, per_image = max(1, len(classes[0])), columns["detections_per_image"]
        image = image_of(per_image)
        truths = _has_size(self.truth_area).nonzero().squeeze(1)
        true = (image_of(columns["ground_truths_per_image"]) * size + classes[2]).index_select(0, truths)
        negative, not_exhaustive = (_keys_of(columns, key, classes[0]) for key in (NEGATIVE, NOT_EXHAUSTIVE))
        detected = image * size + classes[1]
        looked_for, self.forgiven = _within(
            (torch.cat([negative, true]), not_exhaustive), detected, size * max(1, len(per_image))
        )
        takes_part = looked_for & _has_size(self.detection_area)
        if settings.fixed:
            group, counts = classes[1], segments.count(classes[1], size)
        else:
            group, counts = image, per_image
        best = _best(columns["detection_scores"], group, counts, settings.limits[-1])
        self.rows = (takes_part if best is None else takes_part & best).nonzero().squeeze(1), truths


def _has_size(area: Tensor) -> Tensor:
    """What LVIS reads at all: what has an area, and a finite one."""
    return (area > 0) & (area < torch.inf)


def _keys_of(columns: Columns, name: str, labels: Tensor) -> Tensor:
    """Those of image * K + place of a list's categories, those of them that occur as labels."""
    ids, image = columns[name], image_of(columns[f"{name}_per_image"])
    known = among(ids, labels).nonzero().squeeze(1)
    return image[known] * max(1, len(labels)) + torch.searchsorted(labels, ids[known])


def _within(sets: tuple[Tensor, Tensor], keys: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """(N,) bool each, which keys, of so many possible ones, are in the one and in the other set."""
    if total > _LARGEST_TABLE:
        return among(keys, sets[0]), among(keys, sets[1])
    table = torch.zeros(total, dtype=torch.uint8, device=keys.device)
    table[sets[0]] = 1
    table[sets[1]] += 2
    found = table.index_select(0, keys)
    return (found & 1).bool(), found >= 2


def _best(scores: Tensor, group: Tensor, counts: Tensor, most: int) -> Tensor | None:
    """(D,) bool, the so many best detections of each group, the first of equal ones; None for all.

    Args:
        scores: (D,).
        group: (D,) int64.
        counts: how many each group has.
        most: how many are the best.
    """
    full = counts > most
    if not bool(full.any()):
        return None
    best = ~full[group]
    some = (~best).nonzero().squeeze(1)
    one = torch.zeros_like(some)
    ranked = candidate_pairs.rank(scores[some], group[some], one, categories=len(counts), images=1, most=most)
    best[some[ranked.rows]] = True
    return best


def usual_limit(fixed: bool) -> int:
    """How many detections count of an image; or of a category."""
    return 10_000 if fixed else 300


def lvis_settings_of(
    *,
    max_detections: int | None,
    fixed: bool,
    frequencies: Mapping[int, Frequency] | None,
    iou_type: Kind | tuple[Kind, ...],
    **coco: Any,
) -> LvisSettings:
    """Settings as given, checked; ``coco`` are those of :func:`settings_of`."""
    checks.boolean("fixed", fixed)
    if fixed and coco.get("match") == "update":
        refuse("match", "must be 'compute' with `fixed=True`, whose limits are those of all images", "update")
    most = checks.positive_int("max_detections", max_detections, optional=True)
    limits = [usual_limit(fixed) if most is None else most]
    settings = settings_of(iou_type=iou_type, max_detection_thresholds=limits, average="macro", iou=None, **coco)
    if any(one.alone or one.pairs for one in settings.geometries):
        refuse("iou_type", "must be 'bbox', 'segm' or 'boundary', or several of them", iou_type)
    _check_frequencies(frequencies)
    known = None if frequencies is None else dict(frequencies)
    return LvisSettings(**vars(settings), fixed=fixed, frequencies=known)


def _check_frequencies(given: Any) -> None:
    """Refuse what are no frequencies of categories."""
    if given is None:
        return
    rule = "must be None or a dict of ids of categories to 'r', 'c' or 'f'"
    if not isinstance(given, Mapping):
        refuse("frequencies", rule, given)
    letters = get_args(Frequency)
    for key, value in given.items():
        if not isinstance(value, str) or value not in letters or not is_int64(key):
            raise ValueError(f"`frequencies` {rule}, got {shown({key: value})}")
