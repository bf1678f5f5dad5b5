"""Overlaps and matching of boxes and other shapes as separate functions: IoU, OKS, rules of COCO and VOC."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors, untraced
from torch_ap.core.base.messages import Plain, raise_invalid, warn_caller
from torch_ap.core.base.options import BoxFormat, RotatedFormat, Sigmas
from torch_ap.core.base.record import Record
from torch_ap.core.base.tensors import Rule
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs import rules
from torch_ap.detection.inputs.rules import check_on_cpu, radians_warning
from torch_ap.detection.matching import assignment
from torch_ap.detection.matching.candidate_pairs import Pairs
from torch_ap.detection.matching.shapes import shape_settings_of
from torch_ap.detection.rules.coco_numbers import thresholds_of
from torch_ap.detection.shapes import boxes as upright
from torch_ap.detection.shapes import keypoints, rotated
from torch_ap.detection.shapes.boxes import PairIoU

Triples = tuple[Tensor, Tensor, Tensor]


__all__ = [
    "VOCMatch",
    "box_iou",
    "interval_iou",
    "keypoint_similarity",
    "match_coco",
    "match_voc",
    "ragged_box_iou",
    "rotated_box_iou",
]


class _VOCMatch(NamedTuple):
    ground_truth: Tensor
    state: Tensor


class VOCMatch(Record, _VOCMatch):
    """Matches by VOC's rule.

    Attributes:
        ground_truth: (D,) int64, the ground truth of the highest IoU of each detection; -1 for none.
        state: (T, D) int8: 1 for the first detection of a ground truth at the threshold, 0 for a later one, -1 if the
            IoU is too low.
    """

    __slots__ = ()


def box_iou(
    preds: Tensor,
    target: Tensor,
    box_format: BoxFormat = "xyxy",
    *,
    iscrowd: Tensor | None = None,
    inclusive_pixels: bool = False,
) -> Tensor:
    """Return the intersection over union of every box with every other.

    IoU = i / (a + b - i), with i the area of the intersection, a and b the areas of the boxes; i / a for a crowd b.

    Args:
        preds: (D, 4) boxes.
        target: (G, 4) boxes.
        box_format: "xyxy", "xywh" or "cxcywh".
        iscrowd: (G,) flags of the ground truths that are crowds.
        inclusive_pixels: whether boxes include the pixels of their corners (VOC), so that sizes are larger by one.

    Returns:
        (D, G) float64; 0 without a common part.

    Raises:
        ValueError: for boxes of another width, numbers that are NaN or beyond 1e150, or an unknown format. Values are
            checked only on CPU.

    Equals ``pycocotools.mask.iou`` to the last bit.

    Source: ``bbIou`` in ``maskApi.c`` of COCO's API (Lin et al. 2014).

    Example:
        >>> import torch
        >>> from torch_ap.detection.pairs import box_iou
        >>> box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 0, 3, 2], [5, 5, 6, 6]]))
        tensor([[0.3333, 0.0000]], dtype=torch.float64)
    """
    return _all_similarities(pair_iou_of(preds, target, box_format, iscrowd, inclusive_pixels), preds, target)


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

    By descending score, then in the order of input, each detection takes the free ground truth of the highest IoU of at
    least the threshold, the last of equal ones. Ignored ground truths come after all others. A crowd is never used up.

    Args:
        scores: (D,) scores of the detections, no NaN.
        pairs: detection (P,), ground truth (P,), IoU (P,), in any order, each pair once; other pairs do not match.
        ground_truths: the number of ground truths G.
        iou_thresholds: T numbers in [0, 1]. Default: .5, .55, ..., .95.
        iscrowd: (G,) flags; crowds are ignored too.
        ignored: (G,) flags.
        group: (D,) integers of at least 0. Detections of different groups, such as images, or images and classes, share
            no ground truth. Groups are matched in parallel; without groups each detection takes a step.

    Returns:
        (T, D) int64, the ground truth of each detection, -1 for none.

    Raises:
        ValueError: for an invalid argument.

    Source: ``evaluateImg`` in ``cocoeval.py`` of COCO's API (Lin et al. 2014).

    Example:
        >>> import torch
        >>> from torch_ap.detection.pairs import match_coco
        >>> pairs = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.tensor([0.6, 0.9, 0.7])
        >>> match_coco(torch.tensor([0.8, 0.5]), pairs, 2, [0.5, 0.65])
        tensor([[ 0,  1],
                [-1,  0]])
    """
    detection, truth, iou = _validate_pairs(scores, pairs, ground_truths)
    thresholds = thresholds_of(iou_thresholds)
    device = scores.device
    crowd = flags("iscrowd", iscrowd, ground_truths, device)
    skipped = (flags("ignored", ignored, ground_truths, device) | crowd)[None]
    truth_groups = _truth_groups(group, scores, detection, truth, ground_truths)
    criteria = assignment.Criteria(torch.tensor(thresholds, dtype=torch.float64).to(device), 1)
    kept = (iou >= criteria.least).nonzero().squeeze(1)
    order = kept[_match_order(scores, detection[kept], truth[kept], group)]
    ordered = Pairs(detection[order], truth[order], iou[order])
    matched = criteria.range_flags(
        assignment.greedy(ordered, truth_groups, criteria.spread(skipped), crowd, criteria), 0
    )
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

    Each detection belongs to the ground truth of its highest IoU, the first of equal ones. The detection of the highest
    score that reaches the threshold matches it.

    Args:
        scores: (D,) scores of the detections, no NaN.
        pairs: detection (P,), ground truth (P,), IoU (P,), in any order, each pair once.
        ground_truths: the number of ground truths G.
        iou_thresholds: T numbers in [0, 1]. Default: .5.
        strict: whether an IoU must exceed the threshold.

    Returns:
        The ground truth of each detection (D,), and its state (T, D).

    Raises:
        ValueError: for an invalid argument.

    Source: ``VOCevaldet.m`` of the development kit (Everingham et al. 2010).

    Example:
        >>> import torch
        >>> from torch_ap.detection.pairs import match_voc
        >>> pairs = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.tensor([0.6, 0.9, 0.7])
        >>> match_voc(torch.tensor([0.8, 0.5]), pairs, 2).state
        tensor([[1, 0]], dtype=torch.int8)
    """
    detection, truth, iou = _validate_pairs(scores, pairs, ground_truths)
    checks.boolean("strict", strict)
    thresholds = [0.5] if iou_thresholds is None else iou_thresholds
    checks.numbers_in("iou_thresholds", thresholds, low=0, high=1)
    order = _match_order(scores, detection, truth, None)
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
    """Validate boxes and return the function of the IoU of their rows."""
    checks.one_of("box_format", box_format, upright.FORMATS)
    checks.boolean("inclusive_pixels", inclusive_pixels)
    crowd = _validate(preds, target, 4, ("boxes",), iscrowd)
    preds, target = preds.detach(), target.detach()
    if not inclusive_pixels:
        return upright.coco_pairs(upright.to_xywh(preds, box_format), upright.to_xywh(target, box_format), crowd)
    if iscrowd is not None:
        raise ValueError("`iscrowd` is COCO's and `inclusive_pixels` VOC's; give one of them")
    return upright.voc_pairs(upright.to_xyxy(preds, box_format), upright.to_xyxy(target, box_format), 1.0)


def _validate_pairs(scores: Tensor, pairs: Triples, ground_truths: int) -> Triples:
    """Validate the pairs and return them as int64, int64, float64."""
    tensors.scores("scores", scores)
    checks.positive_int("ground_truths", ground_truths, least=0)
    if scores.ndim != 1 or len(pairs) != 3 or not all(isinstance(x, Tensor) and x.ndim == 1 for x in pairs):
        raise ValueError("`scores` must be 1-D, and `pairs` three 1-D tensors: detection, ground truth, IoU")
    if len({len(x) for x in pairs}) > 1:
        raise_invalid("pairs", "must contain tensors of one length", [len(x) for x in pairs])
    tensors.same_device(scores=scores, detection=pairs[0], ground_truth=pairs[1], iou=pairs[2])
    tensors.scores("pairs[2]", pairs[2])
    for name, value in (("scores", scores), ("pairs[2]", pairs[2])):
        Rule(name, "must not contain NaN").check(value)
    detection = _indices("pairs[0]", pairs[0], "detections", len(scores))
    truth = _indices("pairs[1]", pairs[1], "ground truths", ground_truths)
    return detection, truth, segments.as_float64(pairs[2].detach())


def _indices(name: str, values: Tensor, what: str, size: int) -> Tensor:
    """Validate indices below ``size`` and return them as int64, which can contain -1, the last index for size 0."""
    tensors.integers(name, values)
    places = values.to(torch.int64)
    Rule(name, f"must contain indices of the {size} {what}", low=0, high=size - 1).check(places)
    return places


def _truth_groups(group: Tensor | None, scores: Tensor, detection: Tensor, truth: Tensor, ground_truths: int) -> Tensor:
    """Validate groups and return the (G,) int64 group of each ground truth; 0 without groups."""
    groups = torch.zeros(ground_truths, dtype=torch.int64, device=detection.device)
    if group is None:
        return groups
    tensors.tensor("group", group, hint=" or None")
    tensors.integers("group", group)
    tensors.shape("group", group, [scores.shape], like="scores")
    Rule("group", "must not be negative", low=0).check(group)
    pair_groups = group[detection].to(torch.int64)
    groups[truth] = pair_groups
    shared = (groups[truth] != pair_groups).nonzero()
    if len(shared):
        raise_invalid(
            "group", "must be one for all detections of a ground truth", Plain(f"several for {int(truth[shared[0]])}")
        )
    return groups


def flags(name: str, value: Tensor | None, size: int, device: torch.device) -> Tensor:
    """Validate flags or None and return them as (``size``,) bool."""
    if value is None:
        return torch.zeros(size, dtype=torch.bool, device=device)
    tensors.tensor(name, value, hint=" or None")
    if value.shape != (size,):
        raise_invalid(name, f"must have shape ({size},)", tuple(value.shape))
    check_on_cpu(("flags",), name, value)
    return value.bool()


def _match_order(scores: Tensor, detection: Tensor, truth: Tensor, group: Tensor | None) -> Tensor:
    """Return the (P,) order of pairs by group, then by descending score of the detection, then by ground truth."""
    rank = torch.empty(len(scores), dtype=torch.int64, device=scores.device)
    best_first = torch.sort(scores, descending=True, stable=True).indices
    rank[best_first] = torch.arange(len(scores), device=scores.device)
    order = torch.argsort(truth, stable=True)
    order = order[torch.argsort(rank[detection[order]], stable=True)]
    if group is None:
        return order
    return order[torch.argsort(group[detection[order]], stable=True)]


def rotated_box_iou(
    preds: Tensor, target: Tensor, box_format: RotatedFormat = "cxcywhr", *, iscrowd: Tensor | None = None
) -> Tensor:
    """Return the intersection over union of every rotated box with every other.

    IoU = i / (a + b - i), with i the area of the intersection, a and b the areas of the boxes; i / a for a crowd b.

    Args:
        preds: (D, 5) boxes, or (D, 8) for "xyxyxyxy".
        target: (G, 5) or (G, 8).
        box_format: torchvision's names: "cxcywhr", centre, size and angle; "xywhr", the upper left corner before the
            rotation, size and angle; "xyxyxyxy", the corners in either direction, of any quadrilateral, convex or
            not. Angles are in degrees (see ``torch.rad2deg``), counterclockwise in an image with y pointing down.
            Sizes below 1e-75 count as 0.
        iscrowd: (G,) flags of the ground truths that are crowds.

    Returns:
        (D, G) float64; 0 without a common area, also for boxes that only touch.

    Raises:
        ValueError: for boxes of another width, an unknown format, numbers beyond 1e75, negative sizes, and
            quadrilaterals whose edges cross. Values are checked only on CPU.

    Equals the areas of ``shapely``'s intersections.

    Example:
        >>> import torch
        >>> from torch_ap.detection.pairs import rotated_box_iou
        >>> boxes = torch.tensor([[0.0, 0, 2, 2, 0], [0, 0, 2, 2, 45]])
        >>> rotated_box_iou(boxes, boxes)
        tensor([[1.0000, 0.7071],
                [0.7071, 1.0000]], dtype=torch.float64)
    """
    checks.one_of("box_format", box_format, rotated.FORMATS)
    corners = box_format == "xyxyxyxy"
    rules = ("moderate", "uncrossed" if corners else "rotated")
    crowd = _validate(preds, target, 8 if corners else 5, rules, iscrowd)
    if not corners and target.is_cpu and (warning := radians_warning(target)) is not None:
        warn_caller(warning, UserWarning)
    return _all_similarities(rotated.coco_pairs(preds.detach(), target.detach(), box_format, crowd), preds, target)


def interval_iou(preds: Tensor, target: Tensor, *, iscrowd: Tensor | None = None) -> Tensor:
    """Return the intersection over union of every interval with every other, such as segments of time.

    IoU = i / (a + b - i), with i the common length, a and b the lengths of the intervals; i / a for a crowd b.

    Args:
        preds: (D, 2) start and end.
        target: (G, 2).
        iscrowd: (G,) flags of the ground truths that are crowds.

    Returns:
        (D, G) float64; 0 without a common part.

    Raises:
        ValueError: for intervals of another width, an end before the start, numbers beyond 1e300, and integers beyond
            2^53. Values are checked only on CPU.

    Example:
        >>> import torch
        >>> from torch_ap.detection.pairs import interval_iou
        >>> interval_iou(torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 4.0], [3.0, 5.0]]))
        tensor([[0.5000, 0.0000]], dtype=torch.float64)
    """
    crowd = _validate(preds, target, 2, ("intervals", "exact", "order"), iscrowd)
    one, two = (segments.as_float64(x.detach()) for x in (preds, target))
    return _all_similarities(upright.interval_pairs(one, two, crowd), preds, target)


def keypoint_similarity(
    preds: Tensor,
    target: Tensor,
    area: Tensor,
    boxes: Tensor | None = None,
    box_format: BoxFormat = "xyxy",
    *,
    sigmas: Sigmas = None,
) -> Tensor:
    r"""Return the object keypoint similarity (OKS) of every detection with every ground truth.

    .. math::
        OKS = \frac{1}{|L|} \sum_{i \in L} \exp\left(-\frac{d_i^2}{2 (2 \sigma_i)^2 (a + 2^{-52})}\right)

    over the labelled points L, with visibility above 0, their distances d and the area a of the ground truth.

    Args:
        preds: (D, K, 3) x, y and a third number, which is ignored.
        target: (G, K, 3) x, y and visibility: 0 not labelled, 1 hidden, 2 visible.
        area: (G,) areas of the objects, at least 0; COCO uses the area of the mask.
        boxes: (G, 4) boxes of the objects. If no point is labelled, d is the distance of each point to the box of twice
            the size around the same centre; without boxes the similarity is then 0.
        box_format: format of ``boxes``: "xyxy", "xywh" or "cxcywh".
        sigmas: K numbers from 1e-9 to 1e9, the spread of each point between annotators, as a share of the size.
            Default: the 17 of COCO.

    Returns:
        (D, G) float64, in [0, 1].

    Raises:
        ValueError: for an invalid argument. Values are checked only on CPU.

    Equals ``COCOeval.computeOks`` of pycocotools to the last bit on CPU.

    Source: ``computeOks`` in ``cocoeval.py`` of COCO's API (Lin et al. 2014).

    Example:
        >>> import torch
        >>> from torch_ap.detection.pairs import keypoint_similarity
        >>> target = torch.tensor([[[10.0, 10, 2], [20, 20, 2]]])
        >>> keypoint_similarity(target + 1, target, torch.tensor([100.0]), sigmas=[0.1, 0.2])
        tensor([[0.8591]], dtype=torch.float64)
    """
    settings = shape_settings_of(iou_type="keypoints", box_format=box_format, sigmas=sigmas)
    points = len(settings.sigmas)
    boxes = preds.new_full((len(target), 4), torch.nan, dtype=torch.float64) if boxes is None else boxes
    arguments = (
        ("preds", preds, ("N", points, 3), ("keypoints",)),
        ("target", target, ("N", points, 3), ("keypoints", "visibility")),
        ("area", area, (len(target),), ("size",)),
        ("boxes", boxes, (len(target), 4), ("known boxes", box_format)),
    )
    for name, value, shape, _ in arguments:
        tensors.scores(name, value)
        if value.shape[1:] != shape[1:] or shape[0] not in ("N", len(value)):
            raise_invalid(name, f"must have shape {str(shape).replace(repr('N'), 'N')}", Plain(tuple(value.shape)))
    tensors.same_device(preds=preds, target=target, area=area, boxes=boxes)
    for name, value, _, checked in arguments:
        check_on_cpu(checked, name, value)
    truths = target.detach(), segments.as_float64(area.detach()), upright.to_xywh(boxes.detach(), box_format)
    return _all_similarities(keypoints.coco_pairs(preds.detach(), *truths, settings.sigmas), preds, target)


def _validate(preds: Tensor, target: Tensor, width: int, rules: tuple[str, ...], iscrowd: Tensor | None) -> Tensor:
    """Validate all arguments and return (G,) bool flags of crowds."""
    for name, value in (("preds", preds), ("target", target)):
        tensors.scores(name, value)
        if value.ndim != 2 or value.shape[1] != width:
            raise_invalid(name, f"must have shape (N, {width})", Plain(tuple(value.shape)))
        check_on_cpu(rules, name, value)
    crowd = flags("iscrowd", iscrowd, len(target), target.device)
    tensors.same_device(preds=preds, target=target, iscrowd=iscrowd)
    return crowd


def _all_similarities(similarity: PairIoU, preds: Tensor, target: Tensor) -> Tensor:
    """Return the (D, G) similarities of all pairs; 0 for pairs that the function leaves out."""
    d, g, values = similarity(*upright.all_pairs(len(preds), len(target), preds.device), 0.0)
    return values.new_zeros(len(preds), len(target)).index_put_((d, g), values)


def ragged_box_iou(
    preds: Tensor,
    target: Tensor,
    preds_counts: Tensor,
    target_counts: Tensor,
    box_format: str = "xyxy",
    *,
    iscrowd: Tensor | None = None,
    inclusive_pixels: bool = False,
    least: float = 0.0,
) -> Triples:
    """Return the intersection over union of all pairs of boxes within each of several images.

    Args:
        preds: (D, 4) concatenated boxes of B images.
        target: (G, 4) concatenated boxes of the same images.
        preds_counts: (B,) numbers of boxes in ``preds`` per image.
        target_counts: (B,) numbers of boxes in ``target`` per image.
        box_format, iscrowd, inclusive_pixels: as for :func:`torch_ap.detection.pairs.box_iou`.
        least: the least IoU of a returned pair.

    Returns:
        Rows of ``preds`` (P,), rows of ``target`` (P,), IoU (P,) float64, by row of ``preds`` and then of ``target``.

    Raises:
        ValueError: for boxes of another width, numbers that are NaN or beyond 1e150, counts that do not add up, or an
            unknown format. Values are checked only on CPU.

    Example:
        >>> import torch
        >>> from torch_ap.detection.pairs import ragged_box_iou
        >>> boxes = torch.tensor([[0.0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 2, 2]])
        >>> one = torch.tensor([1, 2])
        >>> ragged_box_iou(boxes, boxes[:2], one, torch.tensor([1, 1]), least=0.1)
        (tensor([0, 1, 2]), tensor([0, 1, 1]), tensor([1.0000, 1.0000, 0.3333], dtype=torch.float64))
    """
    pair_iou = pair_iou_of(preds, target, box_format, iscrowd, inclusive_pixels)
    rules.counts("preds", preds_counts, len(preds))
    rules.counts("target", target_counts, len(target))
    d, g, iou = pair_iou(*upright.pairs_of_images(preds_counts, target_counts), least)
    kept = (iou >= least).nonzero().squeeze(1)
    return d[kept], g[kept], iou[kept]


untraced.untraced_package(__name__)
