"""The similarity of every detection with every ground truth, for shapes other than upright boxes."""

import torch
from torch import Tensor

from torch_ap.geometry import boxes as upright
from torch_ap.geometry import keypoints
from torch_ap.geometry.boxes import PairIoU
from torch_ap.matching.geometries import shape_settings_of
from torch_ap.ranking import segments
from torch_ap.rules import tensors
from torch_ap.rules.detections import check
from torch_ap.rules.messages import refuse


def keypoint_similarity(
    preds: Tensor,
    target: Tensor,
    area: Tensor,
    boxes: Tensor | None = None,
    box_format: str = "xyxy",
    *,
    sigmas: list[float] | None = None,
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
        ValueError: for an argument that breaks one of these rules.

    Equals ``COCOeval.computeOks`` of pycocotools to the last bit on CPU.

    Source: ``computeOks`` in ``cocoeval.py`` of COCO's API (Lin et al. 2014).

    Example:
        >>> import torch
        >>> from torch_ap.functional import keypoint_similarity
        >>> target = torch.tensor([[[10.0, 10, 2], [20, 20, 2]]])
        >>> keypoint_similarity(target + 1, target, torch.tensor([100.0]), sigmas=[0.1, 0.2])
        tensor([[0.8590]], dtype=torch.float64)
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
            refuse(name, f"must have shape {(rows, *row)}".replace("'", ""), tuple(value.shape))
    tensors.same_device(preds=preds, target=target, area=area, boxes=boxes)
    for rules, owner, value in (
        (("keypoints",), "preds", preds),
        (("keypoints", "visibility"), "target", target),
        (("size",), "area", area),
    ):
        check(rules, (owner, ""), value, None)
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


def _every(similarity: PairIoU, preds: Tensor, target: Tensor) -> Tensor:
    """(D, G) of all pairs."""
    d, g = upright.all_pairs(len(preds), len(target), preds.device)
    return similarity(d, g, 0.0)[2].reshape(len(preds), len(target))
