"""The similarity of every detection with every ground truth, for shapes other than upright boxes."""

import torch
from torch import Tensor

from torch_ap.functional.matching import flags
from torch_ap.geometry import boxes as upright
from torch_ap.geometry import intervals, keypoints, rotated
from torch_ap.geometry.boxes import PairIoU
from torch_ap.matching.shape_settings import shape_settings_of
from torch_ap.ranking import segments
from torch_ap.rules import checks, tensors
from torch_ap.rules.detections import check_given, seem_radians
from torch_ap.rules.messages import Plain, refuse, warn_caller
from torch_ap.rules.options import BoxFormat, RotatedFormat, Sigmas


def rotated_box_iou(
    preds: Tensor, target: Tensor, box_format: RotatedFormat = "cxcywhr", *, iscrowd: Tensor | None = None
) -> Tensor:
    """Intersection over union of every rotated box with every other.

    IoU = i / (a + b - i), with i the area of the intersection, a and b those of the boxes; i / a for a crowd b.

    Args:
        preds: (D, 5) boxes, or (D, 8) for "xyxyxyxy".
        target: (G, 5) or (G, 8).
        box_format: as torchvision names them: "cxcywhr", centre, size and angle; "xywhr", the corner that is the upper
            left one before the rotation, size and angle; "xyxyxyxy", the corners in order, either way round, of any
            quadrilateral, convex or not. Angles are in degrees (``torch.rad2deg`` makes them), against the clock in an
            image, whose y points down. Sizes below 1e-75 count as none.
        iscrowd: (G,) flags of the ground truths that are crowds.

    Returns:
        (D, G) float64; 0 where no area is common, as with boxes that only touch.

    Raises:
        ValueError: for boxes of another width, an unknown format, numbers beyond 1e75, negative sizes, and
            quadrilaterals whose edges cross. Values are looked at on CPU alone.

    Equals the areas of ``shapely``'s intersections.

    Example:
        >>> import torch
        >>> from torch_ap.functional import rotated_box_iou
        >>> boxes = torch.tensor([[0.0, 0, 2, 2, 0], [0, 0, 2, 2, 45]])
        >>> rotated_box_iou(boxes, boxes)
        tensor([[1.0000, 0.7071],
                [0.7071, 1.0000]], dtype=torch.float64)
    """
    checks.one_of("box_format", box_format, rotated.FORMATS)
    corners = box_format == "xyxyxyxy"
    rules = ("moderate", "uncrossed" if corners else "rotated")
    crowd = _checked(preds, target, 8 if corners else 5, rules, iscrowd)
    if not corners and target.is_cpu and (said := seem_radians(target)) is not None:
        warn_caller(said, UserWarning)
    return _every(rotated.coco_pairs(preds.detach(), target.detach(), box_format, crowd), preds, target)


def interval_iou(preds: Tensor, target: Tensor, *, iscrowd: Tensor | None = None) -> Tensor:
    """Intersection over union of every interval with every other, as of segments of time.

    IoU = i / (a + b - i), with i the length in common, a and b those of the intervals; i / a for a crowd b.

    Args:
        preds: (D, 2) start and end.
        target: (G, 2).
        iscrowd: (G,) flags of the ground truths that are crowds.

    Returns:
        (D, G) float64; 0 where nothing is common.

    Raises:
        ValueError: for intervals of another width, an end before the start, numbers beyond 1e300, and integers beyond
            2^53. Values are looked at on CPU alone.

    Example:
        >>> import torch
        >>> from torch_ap.functional import interval_iou
        >>> interval_iou(torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 4.0], [3.0, 5.0]]))
        tensor([[0.5000, 0.0000]], dtype=torch.float64)
    """
    crowd = _checked(preds, target, 2, ("intervals", "exact", "order"), iscrowd)
    one, two = (segments.as_float64(x.detach()) for x in (preds, target))
    return _every(intervals.coco_pairs(one, two, crowd), preds, target)


def keypoint_similarity(
    preds: Tensor,
    target: Tensor,
    area: Tensor,
    boxes: Tensor | None = None,
    box_format: BoxFormat = "xyxy",
    *,
    sigmas: Sigmas = None,
) -> Tensor:
    r"""Object keypoint similarity (OKS) of every detection with every ground truth.

    .. math::
        OKS = \frac{1}{|L|} \sum_{i \in L} \exp\left(-\frac{d_i^2}{2 (2 \sigma_i)^2 (a + 2^{-52})}\right)

    over the labelled points L, those of visibility above 0, with d their distances and a the area of the ground truth.

    Args:
        preds: (D, K, 3) x, y and any third number, which does not count.
        target: (G, K, 3) x, y and visibility: 0 not labelled, 1 hidden, 2 visible.
        area: (G,) of the objects, at least 0; COCO has that of the mask.
        boxes: (G, 4) of the objects. Where no point is labelled, d is the distance of each point to the box of twice
            the size around the same centre; without boxes the similarity is 0 there.
        box_format: of ``boxes``: "xyxy", "xywh" or "cxcywh".
        sigmas: K numbers from 1e-9 to 1e9, how far apart two people put each point, as a share of the size. Default:
            COCO's, for K = 17.

    Returns:
        (D, G) float64, in [0, 1].

    Raises:
        ValueError: for an argument that breaks one of these rules. Values are looked at on CPU alone.

    Equals ``COCOeval.computeOks`` of pycocotools to the last bit on CPU.

    Source: ``computeOks`` in ``cocoeval.py`` of COCO's API (Lin et al. 2014).

    Example:
        >>> import torch
        >>> from torch_ap.functional import keypoint_similarity
        >>> target = torch.tensor([[[10.0, 10, 2], [20, 20, 2]]])
        >>> keypoint_similarity(target + 1, target, torch.tensor([100.0]), sigmas=[0.1, 0.2])
        tensor([[0.8591]], dtype=torch.float64)
    """
    settings = shape_settings_of(iou_type="keypoints", box_format=box_format, sigmas=sigmas)
    points = len(settings.sigmas)
    boxes = preds.new_full((len(target), 4), torch.nan, dtype=torch.float64) if boxes is None else boxes
    for name, value, row in (
        ("preds", preds, (points, 3)),
        ("target", target, (points, 3)),
        ("area", area, ()),
        ("boxes", boxes, (4,)),
    ):
        tensors.scores(name, value)
        rows = len(target) if name in ("area", "boxes") else "N"
        if value.shape[1:] != row or rows not in ("N", len(value)):
            shape = f"({', '.join(map(str, (rows, *row)))}{'' if row else ','})"
            refuse(name, f"must have shape {shape}", Plain(tuple(value.shape)))
    tensors.same_device(preds=preds, target=target, area=area, boxes=boxes)
    for rules, owner, value in (
        (("keypoints",), "preds", preds),
        (("keypoints", "visibility"), "target", target),
        (("size",), "area", area),
        (("known boxes", box_format), "boxes", boxes),
    ):
        check_given(rules, owner, value)
    return _every(
        keypoints.coco_pairs(
            preds.detach(),
            target.detach(),
            segments.as_float64(area.detach()),
            upright.to_xywh(boxes.detach(), box_format),
            settings.sigmas,
        ),
        preds,
        target,
    )


def _checked(preds: Tensor, target: Tensor, width: int, rules: tuple[str, ...], iscrowd: Tensor | None) -> Tensor:
    """(G,) bool, which ground truths are crowds, after checks of all arguments."""
    for name, value in (("preds", preds), ("target", target)):
        tensors.scores(name, value)
        if value.ndim != 2 or value.shape[1] != width:
            refuse(name, f"must have shape (N, {width})", Plain(tuple(value.shape)))
        check_given(rules, name, value)
    crowd = flags("iscrowd", iscrowd, len(target), target.device)
    tensors.same_device(preds=preds, target=target, iscrowd=iscrowd)
    return crowd


def _every(similarity: PairIoU, preds: Tensor, target: Tensor) -> Tensor:
    """(D, G) of all pairs."""
    d, g = upright.all_pairs(len(preds), len(target), preds.device)
    return similarity(d, g, 0.0)[2].reshape(len(preds), len(target))
