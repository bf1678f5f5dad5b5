"""Masks of images as columns of edges, and their validation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.ranking import segments
from torch_ap.detection.inputs.rules import require_key
from torch_ap.detection.shapes import run_lengths
from torch_ap.detection.shapes.masks import edges_of
from torch_ap.detection.shapes.run_lengths import MOST_PIXELS, Decoded, DecodedMasks


def columns_of_images(
    preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]], packed: bool
) -> dict[str, Tensor]:
    """Return the mask columns of images whose ``masks`` are (N, H, W) tensors or lists of run-length codes.

    Raises:
        ValueError: for an invalid run-length code, a number of masks that differs from the number of labels, or masks
            of different sizes in an image.
    """
    if packed:
        raise ValueError("`preds` and `target` must be lists of dicts, one per image, where they have `masks`")
    require_key("preds", preds, "masks")
    require_key("target", target, "masks")
    masks, count = [*_valid_masks("preds", preds), *_valid_masks("target", target)], len(preds)

    def code_name(image: int, mask: int) -> str:
        name = f"preds[{image}]" if image < count else f"target[{image - count}]"
        return f"`{name}['masks'][{mask}]`"

    edges, lengths, all_sizes = _read_masks(masks, code_name)
    sizes = []
    for image, (d_size, g_size) in enumerate(zip(all_sizes[:count], all_sizes[count:], strict=True)):
        if d_size is not None and g_size is not None and d_size != g_size:
            both = f"`preds[{image}]['masks']` and `target[{image}]['masks']`"
            raise ValueError(f"{both} must have the same height and width, got {d_size} and {g_size}")
        sizes.append(d_size or g_size or (0, 0))
    detections = sum(map(len, masks[:count]))
    first_of_truths = int(lengths[:detections].sum())
    columns = {
        "image_sizes": torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2),
        "detection_mask_edges": edges[:first_of_truths],
        "detection_edges_per_mask": lengths[:detections],
        "ground_truth_mask_edges": edges[first_of_truths:],
        "ground_truth_edges_per_mask": lengths[detections:],
    }
    return {name: arrays.to_device(x, preds[0]["labels"].device) if preds else x for name, x in columns.items()}


def _valid_masks(name: str, images: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the masks of each image of "preds" or "target", dense masks as (N, H, W)."""
    masks = [image["masks"] for image in images]
    for index, (image, x) in enumerate(zip(images, masks, strict=True)):
        if isinstance(x, Tensor):
            masks[index] = _validate_dense(f"`{name}[{index}]['masks']`", x)
        elif not isinstance(x, list | tuple):  # as DecodedMasks are
            rule = "must be a tensor, or a list of dicts with 'size' and 'counts'"
            raise_invalid(f"{name}[{index}]['masks']", rule, Plain(type(x).__name__))
        if len(masks[index]) != len(image["labels"]):
            count, got = len(image["labels"]), len(masks[index])
            raise ValueError(f"`{name}[{index}]['masks']` must have one mask for each of {count} labels, got {got}")
    return masks


def _read_masks(masks: list[Any], code_name: Callable[[int, int], str]) -> Decoded:
    """Return the masks of all images; all run-length codes are decoded in one step.

    Args:
        masks: (N, H, W) masks or codes of each image.
        code_name: returns the name of a code for messages, from its image and its index there.
    """
    coded = [index for index, x in enumerate(masks) if not isinstance(x, Tensor | DecodedMasks)]
    codes = [masks[index] for index in coded]
    if len(coded) == len(masks):
        return run_lengths.decode(codes, code_name)
    decoded = run_lengths.decode_images(codes, lambda image, mask: code_name(coded[image], mask))
    read = dict(zip(coded, decoded, strict=True))
    return _concatenate_masks([read.get(index, x) for index, x in enumerate(masks)])


def _concatenate_masks(images: list[Tensor | DecodedMasks]) -> Decoded:
    """Concatenate the decoded or (N, H, W) masks of images."""
    dense = [masks for masks in images if isinstance(masks, Tensor)]
    if len(dense) == len(images):
        edges, lengths = edges_of(dense)
    else:
        parts = [edges_of([masks]) if isinstance(masks, Tensor) else (masks.edges, masks.lengths) for masks in images]
        device = parts[0][0].device
        edges, lengths = (arrays.concatenate([x.to(device) for x in column]) for column in zip(*parts, strict=True))
    sizes = [
        masks.size if isinstance(masks, DecodedMasks) else (masks.shape[1], masks.shape[2]) if len(masks) else None
        for masks in images
    ]
    return Decoded(edges, lengths, sizes)


def _validate_dense(where: str, masks: Tensor) -> Tensor:
    """Return masks as (N, H, W), from (N, H, W) or torchvision's (N, 1, H, W); 0 by 0 without masks."""
    if masks.ndim == 4 and masks.shape[1] == 1:
        masks = masks.squeeze(1)
    if masks.numel() and masks.ndim != 3:
        raise ValueError(f"{where} must have shape (N, height, width), got {tuple(masks.shape)}")
    if masks.numel() and (masks.is_floating_point() or masks.is_complex()):
        rule = "must be a bool or integer tensor"
        raise ValueError(f"{where} {rule}, got {masks.dtype}; threshold it, as in `masks > 0.5`")
    return masks if masks.ndim == 3 and len(masks) else masks.reshape(len(masks), 0, 0)


def check_sizes(sizes: Tensor) -> None:
    """Validate the (B, 2) heights and widths of images.

    Raises:
        ValueError: if a size is negative, or an image has more pixels than a mask can have.
    """
    wrong = (sizes < 0).any(1) | (sizes.double().prod(1) > MOST_PIXELS)
    if bool(wrong.any()):
        rule = "must be heights and widths of at least 0 whose product is at most 2^40"
        raise_invalid("image_sizes", rule, sizes[wrong][0].tolist())


def check_edges(edges: Tensor, lengths: Tensor, pixels: Tensor, name: str) -> None:
    """Validate that the edges of each mask are even in number, ascending, and from 0 to the ``pixels`` of its image.

    Raises:
        ValueError: if they are invalid; the message contains ``name``, the side of the edges.
    """
    fits = bool(((lengths >= 0) & (lengths % 2 == 0)).all()) and int(lengths.sum()) == len(edges)
    if fits and len(edges):
        mask = segments.ids(segments.from_counts(lengths))
        inside = (edges >= 0) & (edges <= pixels[mask])
        fits = bool(inside.all() & ((edges[1:] >= edges[:-1]) | (mask[1:] != mask[:-1])).all())
    if not fits:
        rule = f"must have `{name}_edges_per_mask` edges of each mask, in pairs, ascending and within its image"
        raise ValueError(f"`{name}_mask_edges` {rule}")
