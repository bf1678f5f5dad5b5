"""COCO's evaluation: from columns of images to matches; the steps that the function and the metric share."""

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, distinct_labels, image_of
from torch_ap.matching import assignment, candidate_pairs
from torch_ap.matching.candidate_pairs import Candidates, Pairs
from torch_ap.matching.coco_numbers import CocoNumbers
from torch_ap.matching.coco_settings import CocoSettings
from torch_ap.matching.matched import Matches
from torch_ap.matching.similarity import Shapes


def classes_of(columns: Columns) -> tuple[Tensor, Tensor, Tensor]:
    """(K,) the labels that occur, ascending; and for each detection and ground truth its place among them."""
    one, two = columns["detection_labels"], columns["ground_truth_labels"]
    distinct, place = distinct_labels(torch.cat([one, two]))
    return distinct, place[: len(one)], place[len(one) :]


def match(settings: CocoSettings, columns: Columns, iou_type: str, *, micro: bool = False) -> CocoNumbers:
    """Match every detection, in all cells.

    Args:
        settings: thresholds, area ranges and limits.
        columns: all images.
        iou_type: one of the settings' ``iou_types``.
        micro: whether all labels are one category.
    """
    labels, ranked, candidates, categories = _lay_out(settings, columns, micro)
    shapes = Shapes(settings, columns, iou_type)
    return CocoNumbers(settings, _matches(settings, ranked, candidates, shapes, categories), labels)


def all_pairs(
    settings: CocoSettings, columns: Columns, iou_type: str, *, micro: bool = False
) -> tuple[Candidates, Pairs, int]:
    """Every pair of one image and category with its IoU, whatever that is; and the number of categories."""
    _, ranked, candidates, categories = _lay_out(settings, columns, micro)
    pair_iou = Shapes(settings, columns, iou_type).pair_iou(ranked.rows[candidates.ranked], candidates.truths)
    return candidates, candidate_pairs.overlapping(candidates, pair_iou, 0.0), categories


def _lay_out(
    settings: CocoSettings, columns: Columns, micro: bool
) -> tuple[Tensor, candidate_pairs.Ranked, Candidates, int]:
    """Labels, ranked detections, those that meet ground truths, number of categories."""
    labels, detected, true = classes_of(columns)
    if micro:
        detected, true = torch.zeros_like(detected), torch.zeros_like(true)
    categories = 1 if micro else max(1, len(labels))
    image = [image_of(columns[f"{side}s_per_image"]) for side in ("detection", "ground_truth")]
    images = max(1, len(columns["detections_per_image"]))
    ranked = candidate_pairs.rank(
        columns["detection_scores"],
        detected,
        image[0],
        categories=categories,
        images=images,
        most=settings.limits[-1],
    )
    candidates = candidate_pairs.find_candidates(ranked, image[1] * categories + true, images * categories)
    return labels, ranked, candidates, categories


def _matches(
    settings: CocoSettings, ranked: candidate_pairs.Ranked, candidates: Candidates, shapes: Shapes, categories: int
) -> Matches:
    """Find the candidate pairs, play, and keep the pairs that matched."""
    crowd = shapes.crowd[candidates.truths]
    cells = settings.cells(crowd.device)
    pair_iou = shapes.pair_iou(ranked.rows[candidates.ranked], candidates.truths)
    pairs = candidate_pairs.overlapping(candidates, pair_iou, cells.least)
    ignored = ~settings.inside(shapes.truth_area[candidates.truths]) | crowd
    matched = assignment.greedy(pairs, candidates.group, ignored, crowd, cells)
    kept = (matched != 0).any(0).nonzero().squeeze(1)
    kept = kept[torch.argsort(candidates.ranked[pairs.detection[kept]])]
    truth, matched = pairs.truth[kept], matched[:, kept]
    skipped = torch.stack([cells.spread(ignored, word)[truth] for word in range(cells.words)])
    return Matches(
        ranked=ranked,
        at=candidates.ranked[pairs.detection[kept]],
        matched=matched,
        real=matched & ~skipped,
        inside=settings.inside(shapes.detection_area[ranked.rows]),
        truth_group=candidates.group,
        valid=~ignored,
        categories=categories,
        cells=cells,
    )
