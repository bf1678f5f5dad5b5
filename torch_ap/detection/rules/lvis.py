"""LVIS's evaluation: COCO's matching for images with federated annotations.

A detection is evaluated only in images that contain its category or list it as negative. An unmatched detection is
ignored if the image does not annotate all objects of its category. The limit applies to all detections of an image, or,
for AP-Fixed, to the detections of each category in the whole data set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import is_int64
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import with_keywords_of
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs.federated import NEGATIVE, NOT_EXHAUSTIVE, FederatedInputs, is_among
from torch_ap.detection.inputs.images import Columns, Kind, image_ids
from torch_ap.detection.matching import candidate_pairs
from torch_ap.detection.matching.stored import StoredMatches
from torch_ap.detection.rules.coco_numbers import Classes, CocoSettings, Objects, settings_of

Frequency: TypeAlias = Literal["r", "c", "f"]

GROUPS: Mapping[str, str] = {"rare": "r", "common": "c", "frequent": "f"}
_LARGEST_TABLE = 1 << 28  # bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class LvisSettings(CocoSettings):
    """Settings of LVIS's mean average precision.

    Attributes:
        ap_fixed: whether the limit applies to each category in all images, instead of to each image.
        frequencies: "r", "c" or "f" of each category; None to leave out the groups.
    """

    ap_fixed: bool = False
    frequencies: Mapping[int, Frequency] | None = None

    def _form(self) -> StoredMatches:
        return replace(super()._form(), leaves_out=True)

    data_set: ClassVar[str] = "LVIS"
    by_levels: ClassVar[bool] = False

    @cached_property
    def inputs(self) -> FederatedInputs:
        """The validation of images."""
        categories = None if self.frequencies is None else tuple(sorted(self.frequencies))
        return FederatedInputs(**self._input_options() | {"of_truths": ("ignore", "area"), "categories": categories})

    @property
    def most(self) -> str:
        """The limit on detections, as text."""
        return f"{self.limits[-1]} detections per {'class' if self.ap_fixed else 'image'}"

    @property
    def groups(self) -> Mapping[str, Tensor]:
        """The labels of rare, common and frequent categories."""
        if self.frequencies is None:
            return {}
        labels_of: dict[str, list[int]] = {letter: [] for letter in GROUPS.values()}
        for label, letter in self.frequencies.items():
            labels_of[letter].append(label)
        return {name: torch.tensor(labels_of[letter], dtype=torch.int64) for name, letter in GROUPS.items()}

    def objects(self, columns: Columns, iou_type: Kind, classes: Classes) -> Objects:
        """Return the properties of all shapes that the matching rules require."""
        return FederatedObjects(self, columns, iou_type, classes)


class FederatedObjects(Objects):
    """Properties of the shapes for federated annotations: evaluated and ignored ones; there are no crowds."""

    def __init__(self, settings: LvisSettings, columns: Columns, iou_type: Kind, classes: Classes) -> None:
        super().__init__(settings, columns | {"ground_truth_iscrowd": columns["ground_truth_ignore"]}, iou_type)
        self.crowd = torch.zeros_like(self.crowd)
        size, per_image = max(1, len(classes[0])), columns["detections_per_image"]
        image = image_ids(per_image)
        truths = _has_size(self.truth_area).nonzero().squeeze(1)
        true = (image_ids(columns["ground_truths_per_image"]) * size + classes[2]).index_select(0, truths)
        negative, not_exhaustive = (_keys_of(columns, key, classes[0]) for key in (NEGATIVE, NOT_EXHAUSTIVE))
        detected = image * size + classes[1]
        keys, groups = (torch.cat([negative, true]), not_exhaustive), size * max(1, len(per_image))
        is_evaluated, self.ignored_if_unmatched = _is_in_sets(keys, detected, groups)
        is_evaluated &= _has_size(self.detection_area)
        if settings.ap_fixed:
            group, counts = classes[1], segments.count(classes[1], size)
        else:
            group, counts = image, per_image
        best = _best(columns["detection_scores"], group, counts, settings.limits[-1])
        self.rows = (is_evaluated if best is None else is_evaluated & best).nonzero().squeeze(1), truths


def _has_size(area: Tensor) -> Tensor:
    """Whether each area is positive and finite; LVIS ignores other shapes."""
    return (area > 0) & (area < torch.inf)


def _keys_of(columns: Columns, name: str, labels: Tensor) -> Tensor:
    """Return image * K + category of a list of categories per image, without categories that do not occur as labels."""
    ids, image = columns[name], image_ids(columns[f"{name}_per_image"])
    in_labels = is_among(ids, labels).nonzero().squeeze(1)
    return image[in_labels] * max(1, len(labels)) + torch.searchsorted(labels, ids[in_labels])


def _is_in_sets(sets: tuple[Tensor, Tensor], keys: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """Whether each key in [0, total) is in the first and in the second set: (N,) bool each."""
    if total > _LARGEST_TABLE:
        return is_among(keys, sets[0]), is_among(keys, sets[1])
    table = torch.zeros(total, dtype=torch.uint8, device=keys.device)
    table[sets[0]] = 1
    table[sets[1]] += 2
    bits = table.index_select(0, keys)
    return (bits & 1).bool(), bits >= 2


def _best(scores: Tensor, group: Tensor, counts: Tensor, most: int) -> Tensor | None:
    """Whether each detection is among the best ``most`` of its group, ties by input order: (D,) bool.

    None means that no group has more than ``most``.

    Args:
        scores: (D,) the scores.
        group: (D,) int64, the groups.
        counts: the number of detections of each group.
        most: the maximum number of detections per group.
    """
    full = counts > most
    if not bool(full.any()):
        return None
    best = ~full[group]
    rows = (~best).nonzero().squeeze(1)
    image = torch.zeros_like(rows)
    ranked = candidate_pairs.rank(scores[rows], group[rows], image, categories=len(counts), images=1, most=most)
    best[rows[ranked.rows]] = True
    return best


def usual_limit(ap_fixed: bool) -> int:
    """Return the default limit on the detections of an image, or of a category if ``ap_fixed``."""
    return 10_000 if ap_fixed else 300


@with_keywords_of(settings_of)
def lvis_settings_of(
    *,
    max_detections: int | None,
    ap_fixed: bool,
    frequencies: Mapping[int, Frequency] | None,
    iou_type: Kind | tuple[Kind, ...],
    **coco: Any,
) -> LvisSettings:
    """Validate the arguments, and return the settings; ``coco`` are arguments of :func:`settings_of`."""
    checks.boolean("ap_fixed", ap_fixed)
    if ap_fixed and coco.get("match") == "update":
        raise_invalid(
            "match", "must be 'compute' with `ap_fixed=True`, because the limit depends on all images", "update"
        )
    most = checks.positive_int("max_detections", max_detections, optional=True)
    limits = [usual_limit(ap_fixed) if most is None else most]
    settings = settings_of(iou_type=iou_type, max_detection_thresholds=limits, **coco)
    if any(kind.alone or kind.pairs for kind in settings.geometries):
        raise_invalid("iou_type", "must be 'bbox', 'segm' or 'boundary', or several of them", iou_type)
    rule, letters = "must be None or a dict of ids of categories to 'r', 'c' or 'f'", get_args(Frequency)
    if frequencies is None:
        return LvisSettings(**vars(settings), ap_fixed=ap_fixed)
    if not isinstance(frequencies, Mapping):
        raise_invalid("frequencies", rule, frequencies)
    for key, value in frequencies.items():
        if not isinstance(value, str) or value not in letters or not is_int64(key):
            raise_invalid("frequencies", rule, {key: value})
    return LvisSettings(**vars(settings), ap_fixed=ap_fixed, frequencies=dict(frequencies))
