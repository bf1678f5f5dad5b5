"""Open Images' detection: VOC's rule with boxes around groups of objects.

A detection that finds nothing alone may lie in a box around a group: the share of its own area that does is compared
with the threshold. The first to do so finds the group, where groups are to be found; what else lies there does not
count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from torch_ap.geometry import boxes
from torch_ap.inputs.detections import Columns, DetectionInputs, Images
from torch_ap.inputs.hierarchy import ROW, Hierarchy, Parents, prepared
from torch_ap.matching import assignment, candidate_pairs
from torch_ap.matching.candidate_pairs import Candidates, Pairs, Ranked
from torch_ap.matching.matched import Matches, Partners
from torch_ap.matching.shape_settings import shape_settings_of
from torch_ap.matching.voc import LEAST, VocSettings
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.options import GroupOf, allowed


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenImagesSettings(VocSettings):
    """All settings of Open Images' mean average precision.

    Attributes:
        group_of: "count" where a box around a group is to be found once, "ignore" where it need not be found.
        hierarchy: the parents of labels.
        expand_preds: whether detections are of the ancestors of their classes too.
    """

    group_of: str = "count"
    hierarchy: Parents = field(default_factory=dict)
    expand_preds: bool = False

    def prepared(self, preds: Images, target: Images) -> tuple[Images, Images]:
        """Images as the rules count them, before they become columns."""
        return prepared(preds, target, self._tree, self.expand_preds, self.inputs)

    @cached_property
    def _tree(self) -> Hierarchy:
        return Hierarchy(self.hierarchy)

    @property
    def pixel(self) -> None:
        """Sizes are differences of corners, and boxes are compared as COCO's are, groups as crowds."""
        return

    @cached_property
    def inputs(self) -> DetectionInputs:
        """How images come in."""
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
        alone = self._alone(_those(pairs, ~group[pairs.truth]), criteria.thresholds, hard)
        in_group = self._in_groups(_those(pairs, group[pairs.truth]), criteria.thresholds, alone, len(rows))
        both = [torch.cat([one, two], -1) for one, two in zip(alone, in_group, strict=True)]
        order = torch.argsort(candidates.ranked[both[0]], stable=True)
        at, truth, iou, found, right = (column[..., order] for column in both)
        counted = torch.where(group, self.group_of == "count", ~hard)
        return Matches(
            ranked=ranked,
            at=candidates.ranked[at],
            matched=criteria.pack(found),
            true_positive=criteria.pack(right),
            inside=self._of_some_size(columns)[None, ranked.rows],
            truth_group=candidates.group,
            valid=counted[None],
            categories=categories,
            criteria=criteria,
            partners=Partners(truth, iou, truths),
        )

    def _of_some_size(self, columns: Columns) -> Tensor:
        """(D,) bool, which detections count: boxes without width or height are left out."""
        if self.iou_types[0] != "bbox":
            return torch.ones_like(columns["detection_labels"], dtype=torch.bool)
        return (boxes.to_xywh(columns["detection_boxes"], self.box_format)[:, 2:] > 0).all(1)

    def _alone(self, pairs: Pairs, thresholds: Tensor, hard: Tensor) -> tuple[Tensor, ...]:
        """Pairs with an object alone, (V,) each; (T, V) whether they are matched, and to one that is to be found."""
        pair, state = assignment.argmax(pairs, thresholds, strict=self.strict)
        found = (state == 1) | ((state == 0) & hard[pair.truth])
        return *pair, found, found & ~hard[pair.truth]

    def _in_groups(self, pairs: Pairs, thresholds: Tensor, alone: tuple[Tensor, ...], count: int) -> tuple[Tensor, ...]:
        """The same of boxes around groups, for the detections that found nothing alone."""
        taken = torch.zeros((len(thresholds), count), dtype=torch.bool, device=thresholds.device)
        taken[:, alone[0]] = alone[3]
        pair, state = assignment.argmax(pairs, thresholds, strict=self.strict)
        truth, found = pair.truth, (state >= 0) & ~taken[:, pair.detection]
        if self.group_of != "count":
            return *pair, found, torch.zeros_like(found)
        by_truth = torch.argsort(truth, stable=True)
        ordered = found[:, by_truth].to(torch.int64)
        before = segments.from_zero(ordered)[:, :-1]
        first = segments.run_starts(truth[by_truth])
        length = first.diff(append=first.new_tensor([len(truth)]))
        before = before - before[:, segments.repeat(first, length)]
        right = torch.empty_like(found)
        right[:, by_truth] = (ordered == 1) & (before == 0)
        return *pair, found, right


def _those(pairs: Pairs, kept: Tensor) -> Pairs:
    return Pairs(pairs.detection[kept], pairs.truth[kept], pairs.iou[kept])


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
    """Settings as given, checked."""
    if isinstance(iou_threshold, int | float):
        checks.fraction("iou_threshold", iou_threshold)
        iou_threshold = [iou_threshold]
    checks.numbers_in("iou_threshold", iou_threshold, low=0, high=1)
    checks.one_of("iou_type", iou_type, ("bbox", "segm"))
    checks.one_of("group_of", group_of, allowed(GroupOf))
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
