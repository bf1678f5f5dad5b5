"""Run-length codes of masks with the functions of ``pycocotools.mask``: same names, arguments and results.

A code is a dict ``{"size": [height, width], "counts": bytes}``. Results equal those of pycocotools to the last bit. An
invalid code raises ValueError, where pycocotools may read beyond its memory.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking.order import Array
from torch_ap.detection.pairs import box_iou
from torch_ap.detection.shapes import masks, polygons, run_lengths
from torch_ap.detection.shapes.run_lengths import DecodedMasks

__all__ = ["area", "decode", "encode", "frPyObjects", "iou", "merge", "toBbox"]

Code = dict[str, Any]


def encode(bimask: Array) -> Code | list[Code]:
    """Return the codes of masks.

    Args:
        bimask: (H, W) array of 0 and 1 for one code, or (H, W, N) for a list of N codes.

    Example:
        >>> import numpy as np
        >>> from torch_ap.compat import mask
        >>> mask.encode(np.array([[0, 1], [0, 1]], np.uint8))
        {'size': [2, 2], 'counts': b'22'}
    """
    dense = torch.from_numpy(np.ascontiguousarray(bimask))
    if dense.ndim not in (2, 3):
        raise_invalid("bimask", "must be of shape (H, W) or (H, W, N)", tuple(dense.shape))
    stacked = (dense[:, :, None] if dense.ndim == 2 else dense).permute(2, 0, 1).contiguous()
    codes = _codes(*masks.edges_of([stacked]), dense.shape[:2])
    return codes[0] if dense.ndim == 2 else codes


def decode(rleObjs: Code | Sequence[Code]) -> Array:
    """Return the masks of codes: (H, W) uint8 of 0 and 1 for one code, (H, W, N) for N codes."""
    dense = np.asfortranarray(run_lengths.to_dense(_decoded(rleObjs)).permute(1, 2, 0).numpy())
    return dense[:, :, 0] if isinstance(rleObjs, dict) else dense


def area(rleObjs: Code | Sequence[Code]) -> Any:
    """Return the number of pixels of each mask: a uint32 for one code, (N,) for N codes."""
    decoded = _decoded(rleObjs)
    areas = masks.area(decoded.edges, decoded.lengths).numpy().astype(np.uint32)
    return areas[0] if isinstance(rleObjs, dict) else areas


def toBbox(rleObjs: Code | Sequence[Code]) -> Array:
    """Return the box around each mask, x, y, width and height: (4,) float64 for one code, (N, 4) for N codes."""
    decoded = _decoded(rleObjs)
    sizes = torch.tensor([decoded.size or (1, 1)]).expand(len(decoded), 2)
    out = masks.bounding_boxes(decoded.edges, decoded.lengths, sizes).numpy().astype(np.float64)
    return out[0] if isinstance(rleObjs, dict) else out


def iou(dt: Any, gt: Any, pyiscrowd: Sequence[int]) -> Any:
    """Return the IoU of every detection with every ground truth; the share of the detection for a crowd.

    Args:
        dt: D codes, or (D, 4) boxes as x, y, width, height.
        gt: G codes or boxes.
        pyiscrowd: G flags of ground truths that are crowds.

    Returns:
        (D, G) float64; an empty list without detections or ground truths.
    """
    if len(dt) == 0 or len(gt) == 0:
        return []
    crowd = torch.tensor([bool(x) for x in pyiscrowd])
    if len(crowd) != len(gt):
        raise_invalid("pyiscrowd", f"must have one flag per ground truth, {len(gt)}", len(crowd))
    if not isinstance(dt[0], dict):
        boxes = [torch.from_numpy(np.asarray(x, np.float64).reshape(-1, 4)) for x in (dt, gt)]
        return box_iou(boxes[0], boxes[1], "xywh", iscrowd=crowd).numpy()
    detected, true = _decoded(dt), _decoded(gt)
    if detected.size != true.size:
        raise ValueError(f"`dt` and `gt` must have masks of one size, got {detected.size} and {true.size}")
    sides = [masks.Masks(x.edges, x.lengths, torch.tensor([x.size] * len(x))) for x in (detected, true)]
    d, g = (x.flatten() for x in torch.meshgrid(torch.arange(len(dt)), torch.arange(len(gt)), indexing="ij"))
    return masks.coco_pairs(sides[0], sides[1], crowd)(d, g, 0.0)[2].reshape(len(dt), len(gt)).numpy()


def merge(rleObjs: Sequence[Code], intersect: bool = False) -> Code:
    """Return the code of the union of masks of one size, or of their intersection."""
    decoded = _decoded(rleObjs)
    if len(decoded) == 1:
        return _codes(decoded.edges, decoded.lengths, decoded.size)[0]
    least = len(decoded) if intersect else 1
    edges = torch.from_numpy(polygons.edges_of_union(decoded.edges.numpy(), least))
    return _codes(edges, torch.tensor([len(edges)]), decoded.size)[0]


def frPyObjects(pyobj: Any, h: int, w: int) -> Any:
    """Return the codes of polygons, boxes or plain run lengths.

    Args:
        pyobj: a list of polygons, each x and y in turn; a list or (N, 4) array of boxes, x, y, width, height; or a dict
            with plain ``counts``. A single polygon, box or dict gives a single code.
        h: height of the image.
        w: width of the image.
    """
    if isinstance(pyobj, dict):
        return frPyObjects([pyobj], h, w)[0]
    if isinstance(pyobj, np.ndarray):
        pyobj = pyobj.tolist()
    if not isinstance(pyobj, list | tuple) or not len(pyobj):
        raise_invalid("pyobj", "must be polygons, boxes or run lengths", pyobj)
    if isinstance(pyobj[0], int | float):
        return frPyObjects([pyobj], h, w)[0]
    if isinstance(pyobj[0], dict):
        _decoded(pyobj)  # which validates them
        return [{"size": list(x["size"]), "counts": run_lengths.compress(x["counts"]).encode()} for x in pyobj]
    edges = [polygons.edges_of_polygon(_corners(x), h, w) for x in pyobj]
    lengths = torch.tensor([len(x) for x in edges])
    return _codes(torch.from_numpy(np.concatenate(edges)), lengths, (h, w))


def _corners(shape: Sequence[float]) -> Sequence[float]:
    """Return the corners of a polygon, or of a box of four numbers."""
    if len(shape) != 4:
        return shape
    x, y, width, height = shape
    return [x, y, x, y + height, x + width, y + height, x + width, y]


def _decoded(codes: Code | Sequence[Code]) -> DecodedMasks:
    """Return one or several codes as edges; raise ValueError for an invalid code or different sizes."""
    listed = [codes] if isinstance(codes, dict) else list(codes)
    return run_lengths.decode_images([listed], lambda _, place: f"`rleObjs`[{place}]")[0]


def _codes(edges: Tensor, lengths: Tensor, size: Sequence[int] | None) -> list[Code]:
    """Return the codes of masks of one size, whose counts are bytes as in pycocotools."""
    sizes = torch.tensor([list(size or (0, 0))] * len(lengths)).reshape(-1, 2)
    return [code | {"counts": code["counts"].encode()} for code in run_lengths.encode(edges, lengths, sizes)]
