"""Intersection over union, and who is matched to whom, as functions of their own: for other geometry."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.geometry import boxes
from torch_ap.geometry.boxes import PairIoU
from torch_ap.matching import assignment
from torch_ap.matching.candidate_pairs import Pairs
from torch_ap.matching.coco_settings import thresholds_of
from torch_ap.ranking import segments
from torch_ap.rules import checks, tensors
from torch_ap.rules.detections import check_given
from torch_ap.rules.messages import Plain, refuse
from torch_ap.rules.options import BoxFormat
from torch_ap.rules.values import Rule

Triples = tuple[Tensor, Tensor, Tensor]


class VOCMatch(NamedTuple):
    """VOC's matches.

    Attributes:
        ground_truth: (D,) int64, the ground truth of the highest IoU of each detection; -1 where there is none.
        state: (T, D) int8: 1 for the first detection of a ground truth over the threshold, 0 for a later one, -1 where
            the IoU is too low.
    """

    ground_truth: Tensor
    state: Tensor


def box_iou(
    preds: Tensor,
    target: Tensor,
    box_format: BoxFormat = "xyxy",
    *,
    iscrowd: Tensor | None = None,
    inclusive_pixels: bool = False,
) -> Tensor:
    """Intersection over union of every box with every other.

    IoU = i / (a + b - i), with i the area of the intersection, a and b those of the boxes; i / a for a crowd b.

    Args:
        preds: (D, 4) boxes.
        target: (G, 4) boxes.
        box_format: "xyxy", "xywh" or "cxcywh".
        iscrowd: (G,) flags of the ground truths that are crowds.
        inclusive_pixels: whether corners name pixels that they include (VOC): sizes are then one more.

    Returns:
        (D, G) float64; 0 where nothing is common to both.

    Raises:
        ValueError: for boxes of another width or that are not finite, or an unknown format. Values are looked at on CPU
            alone.

    Equals ``pycocotools.mask.iou`` to the last bit.

    Source: ``bbIou`` in ``maskApi.c`` of COCO's API (Lin et al. 2014).

    Example:
        >>> import torch
        >>> from torch_ap.functional import box_iou
        >>> box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 0, 3, 2], [5, 5, 6, 6]]))
        tensor([[0.3333, 0.0000]], dtype=torch.float64)
    """
    pair_iou = pair_iou_of(preds, target, box_format, iscrowd, inclusive_pixels)
    d, g = boxes.all_pairs(len(preds), len(target), preds.device)
    out = torch.zeros(len(d), dtype=torch.float64, device=preds.device)
    d, g, iou = pair_iou(d, g, 0.0)
    out[d * max(len(target), 1) + g] = iou.to(out.dtype)
    return out.reshape(len(preds), len(target))


def match_coco(
    scores: Tensor,
    pairs: Triples,
    ground_truths: int,
    iou_thresholds: list[float] | None = None,
    *,
    iscrowd: Tensor | None = None,
    ignored: Tensor | None = None,
    group: Tensor | None = None,
) -> Tensor:
    """Match detections to ground truths by COCO's rule, from IoUs of any kind.

    Best score first (ties in the order given), each detection takes the free ground truth of the highest IoU of at
    least the threshold, the last of equals; an ignored one only for want of another; a crowd as often as wanted.

    Args:
        scores: (D,) of the detections, no NaN.
        pairs: detection (P,), ground truth (P,), IoU (P,), in any order, each pair once; pairs that are left out do not
            match.
        ground_truths: G, how many there are.
        iou_thresholds: T numbers in [0, 1]. Default: .5, .55, ..., .95.
        iscrowd: (G,) flags; crowds are ignored too.
        ignored: (G,) flags.
        group: (D,) integers of at least 0, such that detections of different groups share no ground truth: image, or
            image and class. Groups are matched side by side; without them it takes a step a detection.

    Returns:
        (T, D) int64, the ground truth of each detection, -1 for none.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Source: ``evaluateImg`` in ``cocoeval.py`` of COCO's API (Lin et al. 2014).

    Example:
        >>> import torch
        >>> from torch_ap.functional import match_coco
        >>> pairs = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.tensor([0.6, 0.9, 0.7])
        >>> match_coco(torch.tensor([0.8, 0.5]), pairs, 2, [0.5, 0.65])
        tensor([[ 0,  1],
                [-1,  0]])
    """
    detection, truth, iou = _checked_pairs(scores, pairs, ground_truths)
    thresholds = thresholds_of(iou_thresholds)
    device = scores.device
    crowd = flags("iscrowd", iscrowd, ground_truths, device)
    skipped = (flags("ignored", ignored, ground_truths, device) | crowd)[None]
    of_truth = _groups_of_truths(group, scores, detection, truth, ground_truths)
    criteria = assignment.Criteria(torch.tensor(thresholds, dtype=torch.float64).to(device), 1)
    kept = (iou >= criteria.least).nonzero().squeeze(1)
    order = kept[_by_rank(scores, detection[kept], truth[kept], group)]
    ordered = Pairs(detection[order], truth[order], iou[order])
    matched = criteria.of_range(assignment.greedy(ordered, of_truth, criteria.spread(skipped), crowd, criteria), 0)
    out = torch.full((len(thresholds), len(scores)), -1, dtype=torch.int64, device=device)
    threshold, place = matched.nonzero(as_tuple=True)
    out[threshold, ordered.detection[place]] = ordered.truth[place]
    return out


def match_voc(
    scores: Tensor,
    pairs: Triples,
    ground_truths: int,
    iou_thresholds: list[float] | None = None,
    *,
    strict: bool = False,
) -> VOCMatch:
    """Match detections to ground truths by PASCAL VOC's rule, from IoUs of any kind.

    Each detection belongs to the ground truth of its highest IoU, the first of equals. Best score first, the first that
    reaches the threshold has it.

    Args:
        scores: (D,) of the detections, no NaN.
        pairs: detection (P,), ground truth (P,), IoU (P,), in any order, each pair once.
        ground_truths: G, how many there are.
        iou_thresholds: T numbers in [0, 1]. Default: .5.
        strict: whether an IoU must exceed the threshold.

    Returns:
        The ground truth of each detection (D,), and (T, D) who has it.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Source: ``VOCevaldet.m`` of the development kit (Everingham et al. 2010).

    Example:
        >>> import torch
        >>> from torch_ap.functional import match_voc
        >>> pairs = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.tensor([0.6, 0.9, 0.7])
        >>> match_voc(torch.tensor([0.8, 0.5]), pairs, 2).state
        tensor([[1, 0]], dtype=torch.int8)
    """
    detection, truth, iou = _checked_pairs(scores, pairs, ground_truths)
    checks.boolean("strict", strict)
    thresholds = [0.5] if iou_thresholds is None else iou_thresholds
    checks.numbers_in("iou_thresholds", thresholds, low=0, high=1)
    order = _by_rank(scores, detection, truth, None)
    ordered = Pairs(detection[order], truth[order], iou[order])
    limits = segments.as_float64(torch.tensor(thresholds, dtype=torch.float64).to(scores.device))
    (detection, truth, _), state = assignment.argmax(ordered, limits, strict=strict)
    owner = torch.full((len(scores),), -1, dtype=torch.int64, device=scores.device)
    owner[detection] = truth
    out = torch.full((len(thresholds), len(scores)), -1, dtype=torch.int8, device=scores.device)
    out[:, detection] = state
    return VOCMatch(owner, out)


def pair_iou_of(
    preds: Tensor, target: Tensor, box_format: str, iscrowd: Tensor | None, inclusive_pixels: bool
) -> PairIoU:
    """The IoU of rows, after checks."""
    checks.one_of("box_format", box_format, boxes.FORMATS)
    checks.boolean("inclusive_pixels", inclusive_pixels)
    for name, value in (("preds", preds), ("target", target)):
        tensors.scores(name, value)
        if value.ndim != 2 or value.shape[1] != 4:
            refuse(name, "must have shape (N, 4)", tuple(value.shape))
        check_given(("boxes",), name, value)
    crowd = flags("iscrowd", iscrowd, len(target), target.device)
    tensors.same_device(preds=preds, target=target, iscrowd=crowd)
    preds, target = preds.detach(), target.detach()
    if not inclusive_pixels:
        return boxes.coco_pairs(boxes.to_xywh(preds, box_format), boxes.to_xywh(target, box_format), crowd)
    if iscrowd is not None:
        raise ValueError("`iscrowd` is COCO's and `inclusive_pixels` VOC's; give one of them")
    return boxes.voc_pairs(boxes.to_xyxy(preds, box_format), boxes.to_xyxy(target, box_format), 1.0)


def _checked_pairs(scores: Tensor, pairs: Triples, ground_truths: int) -> Triples:
    """The pairs, after checks: int64, int64, float64."""
    tensors.scores("scores", scores)
    checks.positive_int("ground_truths", ground_truths, least=0)
    if scores.ndim != 1 or len(pairs) != 3 or not all(isinstance(x, Tensor) and x.ndim == 1 for x in pairs):
        raise ValueError("`scores` must be 1-D, and `pairs` three 1-D tensors: detection, ground truth, IoU")
    if len({len(x) for x in pairs}) > 1:
        refuse("pairs", "must hold tensors of one length", [len(x) for x in pairs])
    tensors.same_device(scores=scores, detection=pairs[0], ground_truth=pairs[1], iou=pairs[2])
    tensors.scores("pairs[2]", pairs[2])
    for name, value in (("scores", scores), ("pairs[2]", pairs[2])):
        Rule(name, "must not hold NaN").refuse_first(value)
    detection = _indices("pairs[0]", pairs[0], "detections", len(scores))
    truth = _indices("pairs[1]", pairs[1], "ground truths", ground_truths)
    return detection, truth, segments.as_float64(pairs[2].detach())


def _indices(name: str, given: Tensor, what: str, size: int) -> Tensor:
    """Places among so many, after checks: int64, which holds the -1 that is the last of none."""
    tensors.integers(name, given)
    places = given.to(torch.int64)
    Rule(name, f"must hold indices of {what}, of which there are {size}", low=0, high=size - 1).refuse_first(places)
    return places


def _groups_of_truths(
    group: Tensor | None, scores: Tensor, detection: Tensor, truth: Tensor, ground_truths: int
) -> Tensor:
    """(G,) int64, the group of the detections of each ground truth, after checks; 0 without groups."""
    found = torch.zeros(ground_truths, dtype=torch.int64, device=detection.device)
    if group is None:
        return found
    tensors.tensor("group", group, hint=" or None")
    tensors.integers("group", group)
    tensors.shape("group", group, [scores.shape], of="scores")
    Rule("group", "must not be negative", low=0).refuse_first(group)
    of_pair = group[detection].to(torch.int64)
    found[truth] = of_pair
    shared = (found[truth] != of_pair).nonzero()
    if len(shared):
        refuse(
            "group", "must be one for all detections of a ground truth", Plain(f"several for {int(truth[shared[0]])}")
        )
    return found


def flags(name: str, value: Tensor | None, size: int, device: torch.device) -> Tensor:
    """(``size``,) bool of an argument that may be None."""
    if value is None:
        return torch.zeros(size, dtype=torch.bool, device=device)
    tensors.tensor(name, value, hint=" or None")
    if value.shape != (size,):
        refuse(name, f"must have shape ({size},)", tuple(value.shape))
    check_given(("flags",), name, value)
    return value.bool()


def _by_rank(scores: Tensor, detection: Tensor, truth: Tensor, group: Tensor | None) -> Tensor:
    """(P,) the pairs in order of group, then of the score of the detection, then of ground truth."""
    rank = torch.empty(len(scores), dtype=torch.int64, device=scores.device)
    best_first = torch.sort(scores, descending=True, stable=True).indices
    rank[best_first] = torch.arange(len(scores), device=scores.device)
    order = torch.argsort(truth, stable=True)
    order = order[torch.argsort(rank[detection[order]], stable=True)]
    if group is None:
        return order
    return order[torch.argsort(group[detection[order]], stable=True)]
