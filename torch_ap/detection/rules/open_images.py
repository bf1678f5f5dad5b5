"""Open Images' matching: VOC's rule with boxes around groups of objects.

A detection without a match to a single object is compared with the boxes around groups: the share of its area inside
the box must pass the threshold. The first such detection is a true positive if groups are counted and the group is not
difficult; the other detections in the box are ignored.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import GroupOf, allowed_values, with_keywords_of
from torch_ap.detection.inputs.hierarchy import ROW, Hierarchy, Parents, expand_images
from torch_ap.detection.inputs.images import Columns, Images
from torch_ap.detection.matching import assignment, candidate_pairs
from torch_ap.detection.matching.candidate_pairs import Pairs
from torch_ap.detection.matching.matched import Matches
from torch_ap.detection.rules.coco import rank_images
from torch_ap.detection.rules.coco_numbers import Classes
from torch_ap.detection.rules.voc import LEAST, VocSettings, ordered_matches, voc_settings_of
from torch_ap.detection.shapes import boxes


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenImagesSettings(VocSettings):
    """Settings of Open Images' mean average precision.

    Attributes:
        group_of: "count" if a box around a group is one ground truth unless it is difficult, "ignore" if it is ignored.
        hierarchy: the parents of labels.
        expand_preds: whether detections are copied to the ancestors of their classes.
    """

    group_of: str = "count"
    hierarchy: Parents = field(default_factory=dict)
    expand_preds: bool = False

    truth_flags: ClassVar[tuple[str, ...]] = ("difficult", "group_of")
    detection_columns: ClassVar[tuple[str, ...]] = (ROW,)

    def prepared(self, preds: Images, target: Images) -> tuple[Images, Images]:
        """Return the images with the labels of the hierarchy, before they become columns."""
        return expand_images(preds, target, self._tree, self.expand_preds, self.inputs)

    @cached_property
    def _tree(self) -> Hierarchy:
        return Hierarchy(self.hierarchy)

    @property
    def pixel(self) -> None:
        """None, for COCO's IoU: sizes are differences of corners, and groups are crowds."""
        return

    def _matched(self, columns: Columns, classes: Classes) -> Matches:
        ranked, candidates, categories = rank_images(columns, classes)
        rows, truths = ranked.rows[candidates.ranked], candidates.truths
        group, hard = (columns[f"ground_truth_{key}"].bool()[truths] for key in ("group_of", "difficult"))
        pair_iou = self.similarity(columns, self.iou_types[0], rows, truths, group)
        pairs = candidate_pairs.overlapping(candidates, pair_iou, max(min(self.thresholds), LEAST))
        criteria = self.criteria(rows.device)
        singles, grouped = (pairs.select(flags[pairs.truth]) for flags in (~group, group))
        single_matches = self._match_singles(singles, criteria.thresholds, hard)
        group_matches = self._match_groups(grouped, criteria.thresholds, hard, single_matches, len(rows))
        columns_of_both = (torch.cat(x, -1) for x in zip(single_matches, group_matches, strict=True))
        detection, truth, iou, matched, true_positive = columns_of_both
        return ordered_matches(
            ranked,
            candidates,
            categories,
            criteria,
            Pairs(detection, truth, iou),
            (criteria.pack(matched), criteria.pack(true_positive)),
            valid=~hard if self.group_of == "count" else ~(hard | group),
            inside=self._has_size(columns)[ranked.rows],
        )

    def _has_size(self, columns: Columns) -> Tensor:
        """Whether each detection is counted, (D,) bool: False for boxes without width or height."""
        if self.iou_types[0] != "bbox":
            return torch.ones_like(columns["detection_labels"], dtype=torch.bool)
        return (boxes.to_xywh(columns["detection_boxes"], self.box_format)[:, 2:] > 0).all(1)

    def _match_singles(self, pairs: Pairs, thresholds: Tensor, hard: Tensor) -> tuple[Tensor, ...]:
        """Match detections to single objects.

        Returns:
            The best pairs as three columns (V,); whether they are matched, and whether they are true positives, (T, V).
        """
        best, state = assignment.argmax(pairs, thresholds, strict=self.strict)
        matched = (state == 1) | ((state == 0) & hard[best.truth])
        return *best, matched, matched & ~hard[best.truth]

    def _match_groups(
        self, pairs: Pairs, thresholds: Tensor, hard: Tensor, single_matches: tuple[Tensor, ...], count: int
    ) -> tuple[Tensor, ...]:
        """Match detections to boxes around groups, except the detections with a match to a single object."""
        taken = torch.zeros((len(thresholds), count), dtype=torch.bool, device=thresholds.device)
        taken[:, single_matches[0]] = single_matches[3]
        best, state = assignment.argmax(pairs, thresholds, strict=self.strict)
        matched = (state >= 0) & ~taken[:, best.detection]
        if self.group_of != "count":
            return *best, matched, torch.zeros_like(matched)
        return *best, matched, assignment.first_of_truths(matched, best.truth) & ~hard[best.truth]


@with_keywords_of(voc_settings_of)
def open_images_settings_of(
    *, iou_type: str, group_of: str, hierarchy: Parents | None, expand_preds: bool, **voc: Any
) -> OpenImagesSettings:
    """Validate the arguments, and return the settings; ``voc`` are arguments of :func:`voc_settings_of`."""
    checks.one_of("iou_type", iou_type, ("bbox", "segm"))
    checks.one_of("group_of", group_of, allowed_values(GroupOf))
    checks.boolean("expand_preds", expand_preds)
    settings = voc_settings_of(iou_type=iou_type, **voc)
    parents = Hierarchy({} if hierarchy is None else hierarchy).parents
    return OpenImagesSettings(**vars(settings), group_of=group_of, hierarchy=parents, expand_preds=expand_preds)
