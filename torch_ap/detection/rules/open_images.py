"""Open Images' matching: VOC's rule with boxes around groups of objects.

A detection without a match to a single object is compared with the boxes around groups: the share of its area inside
the box must pass the threshold. The first such detection is a true positive if groups are counted; the other detections
in the box are ignored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import GroupOf, allowed_values
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs.hierarchy import ROW, Hierarchy, Parents, expand_images
from torch_ap.detection.inputs.images import Columns, DetectionInputs, Images
from torch_ap.detection.matching import assignment, candidate_pairs
from torch_ap.detection.matching.candidate_pairs import Candidates, Pairs, Ranked
from torch_ap.detection.matching.matched import Matches, Partners
from torch_ap.detection.matching.shapes import shape_settings_of
from torch_ap.detection.rules.voc import LEAST, VocSettings
from torch_ap.detection.shapes import boxes


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenImagesSettings(VocSettings):
    """Settings of Open Images' mean average precision.

    Attributes:
        group_of: "count" if a box around a group is one ground truth, "ignore" if it is ignored.
        hierarchy: the parents of labels.
        expand_preds: whether detections are copied to the ancestors of their classes.
    """

    group_of: str = "count"
    hierarchy: Parents = field(default_factory=dict)
    expand_preds: bool = False

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

    @cached_property
    def inputs(self) -> DetectionInputs:
        """The validation of images."""
        geometry = self.geometries[0]
        truths = ("difficult", "group_of")
        return DetectionInputs(
            rows=self.rows,
            masks=geometry.masks,
            of_truths=truths,
            of_detections=(ROW,),
            check_values=self.check_values,
        )

    def _matches(self, ranked: Ranked, candidates: Candidates, columns: Columns, categories: int) -> Matches:
        rows, truths = ranked.rows[candidates.ranked], candidates.truths
        group, hard = (columns[f"ground_truth_{key}"].bool()[truths] for key in ("group_of", "difficult"))
        pair_iou = self.similarity(columns, self.iou_types[0], rows, truths, group)
        pairs = candidate_pairs.overlapping(candidates, pair_iou, max(min(self.thresholds), LEAST))
        criteria = self.criteria(rows.device)
        singles, grouped = (Pairs(*(x[flags[pairs.truth]] for x in pairs)) for flags in (~group, group))
        single_matches = self._match_singles(singles, criteria.thresholds, hard)
        group_matches = self._match_groups(grouped, criteria.thresholds, single_matches, len(rows))
        both = [torch.cat(columns, -1) for columns in zip(single_matches, group_matches, strict=True)]
        order = torch.argsort(candidates.ranked[both[0]], stable=True)
        at, truth, iou, matched, true_positive = (column[..., order] for column in both)
        counted = torch.where(group, self.group_of == "count", ~hard)
        return Matches(
            ranked=ranked,
            at=candidates.ranked[at],
            matched=criteria.pack(matched),
            true_positive=criteria.pack(true_positive),
            inside=self._has_size(columns)[None, ranked.rows],
            truth_group=candidates.group,
            valid=counted[None],
            categories=categories,
            criteria=criteria,
            partners=Partners(truth, iou, truths),
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
        self, pairs: Pairs, thresholds: Tensor, single_matches: tuple[Tensor, ...], count: int
    ) -> tuple[Tensor, ...]:
        """Match detections to boxes around groups, except the detections with a match to a single object."""
        taken = torch.zeros((len(thresholds), count), dtype=torch.bool, device=thresholds.device)
        taken[:, single_matches[0]] = single_matches[3]
        best, state = assignment.argmax(pairs, thresholds, strict=self.strict)
        truth, matched = best.truth, (state >= 0) & ~taken[:, best.detection]
        if self.group_of != "count":
            return *best, matched, torch.zeros_like(matched)
        by_truth = torch.argsort(truth, stable=True)
        ordered = matched[:, by_truth].to(torch.int64)
        before = segments.from_zero(ordered)[:, :-1]
        first = segments.run_starts(truth[by_truth])
        length = first.diff(append=first.new_tensor([len(truth)]))
        before = before - before[:, segments.repeat(first, length)]
        true_positive = torch.empty_like(matched)
        true_positive[:, by_truth] = (ordered == 1) & (before == 0)
        return *best, matched, true_positive


def open_images_settings_of(
    *,
    box_format: str,
    iou_threshold: float | Sequence[float],
    iou_type: str,
    group_of: str,
    hierarchy: Parents | None,
    expand_preds: bool,
    validate_args: bool = True,
) -> OpenImagesSettings:
    """Validate the arguments, and return the settings."""
    if isinstance(iou_threshold, int | float):
        checks.fraction("iou_threshold", iou_threshold)
        iou_threshold = [iou_threshold]
    checks.numbers_in("iou_threshold", iou_threshold, low=0, high=1)
    checks.one_of("iou_type", iou_type, ("bbox", "segm"))
    checks.one_of("group_of", group_of, allowed_values(GroupOf))
    checks.boolean("expand_preds", expand_preds)
    shapes = shape_settings_of(iou_type=iou_type, box_format=box_format, validate_args=validate_args)
    parents = Hierarchy({} if hierarchy is None else hierarchy).parents
    return OpenImagesSettings(
        **vars(shapes),
        thresholds=tuple(map(float, iou_threshold)),
        interpolation="all-points",
        inclusive_pixels=False,
        group_of=group_of,
        hierarchy=parents,
        expand_preds=expand_preds,
    )
