"""Masks as the places where they begin and end, and their intersection over union in whole numbers.

The pixels of an (H, W) mask are counted column by column, as in COCO. A mask is described by its *edges*, the
even number of pixel counts at which it begins and ends: [e0, e1), [e2, e3), ... are inside. The edges are the sums of a
run-length code. Areas and intersections are whole numbers, so every IoU equals pycocotools' to the last bit.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.geometry import run_lengths
from torch_ap.geometry.boxes import PairIoU
from torch_ap.geometry.run_lengths import DecodedMasks, Size
from torch_ap.ranking import segments
from torch_ap.rules.images import missing
from torch_ap.rules.messages import Plain, refuse
from torch_ap.runtime import memory

_EDGES_A_CHUNK = 1 << 20


def edges_of(masks: Tensor) -> tuple[Tensor, Tensor]:
    """The edges of dense masks.

    Args:
        masks: (N, H, W) bool, or integers, where all but 0 is inside.

    Returns:
        (E,) int64 edges, mask after mask; (N,) int64 edges per mask.
    """
    count, height, width = masks.shape
    inside = masks if masks.dtype == torch.bool else masks != 0
    # all masks end to end, with a pixel outside before each and after the last
    size = height * width + 1
    framed = torch.zeros(count * size + 1, dtype=torch.bool, device=masks.device)
    rows = framed[1:].view(count, size)[:, : size - 1].view(count, width, height)
    rows.copy_(inside.transpose(1, 2))
    if masks.device.type == "cpu":
        pixels = framed.numpy()
        changes = torch.from_numpy(np.flatnonzero(pixels[1:] != pixels[:-1]))
    else:
        changes = (framed[1:] != framed[:-1]).nonzero().squeeze(1)
    return changes % size, segments.count(changes // size, count)


def columns_of_images(
    preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]], packed: bool
) -> dict[str, Tensor]:
    """The mask columns of images whose ``masks`` are (N, H, W) tensors or lists of run-length codes.

    Raises:
        ValueError: for an invalid run-length code, and where an image has not one mask per label, or masks of different
            sizes.
    """
    if packed:
        raise ValueError("`preds` and `target` must be lists of dicts, one per image, where they have `masks`")
    given = _decoded({"preds": preds, "target": target})
    found = {
        "detection": _coded("preds", preds, given["preds"]),
        "ground_truth": _coded("target", target, given["target"]),
    }
    sizes = []
    for place, (one, two) in enumerate(zip(found["detection"], found["ground_truth"], strict=True)):
        known = {side[2] for side in (one, two) if side[2] is not None}
        if len(known) > 1:
            raise ValueError(
                f"`preds[{place}]['masks']` and `target[{place}]['masks']` must have the same height and width, got "
                f"{one[2]} and {two[2]}"
            )
        sizes.append(known.pop() if known else (0, 0))
    columns = {"image_sizes": torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2)}
    for side, images in found.items():
        nothing = torch.empty(0, dtype=torch.int64, device=images[0][0].device if images else None)
        columns[f"{side}_mask_edges"] = torch.cat([nothing, *(edges.to(nothing.device) for edges, _, _ in images)])
        columns[f"{side}_edges_per_mask"] = torch.cat([nothing, *(many.to(nothing.device) for _, many, _ in images)])
    return {name: memory.sent(x, preds[0]["labels"].device) if preds else x for name, x in columns.items()}


def _decoded(sides: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[Tensor | DecodedMasks]]:
    """The masks of each image on each side: dense ones as they are, run-length codes decoded all at once."""
    given: dict[str, list[Any]] = {}
    for name, images in sides.items():
        missing(name, images, "masks")
        given[name] = [image["masks"] for image in images]
    coded = [
        (name, place)
        for name, masks in given.items()
        for place, one in enumerate(masks)
        if not isinstance(one, Tensor | DecodedMasks)
    ]
    for name, place in coded:
        if not isinstance(given[name][place], list | tuple):
            refuse(
                f"{name}[{place}]['masks']",
                "must be a tensor, or a list of dicts with 'size' and 'counts'",
                Plain(type(given[name][place]).__name__),
            )
    decoded = run_lengths.decode_images(
        [given[name][place] for name, place in coded],
        lambda image, mask: f"`{coded[image][0]}[{coded[image][1]}]['masks'][{mask}]`",
    )
    for (name, place), one in zip(coded, decoded, strict=True):
        given[name][place] = one
    return given


def _coded(
    name: str, images: Sequence[Mapping[str, Any]], given: Sequence[Tensor | DecodedMasks]
) -> list[tuple[Tensor, Tensor, Size | None]]:
    """Edges, edges per mask and size of each image's masks."""
    out = []
    for place, (image, masks) in enumerate(zip(images, given, strict=True)):
        where = f"`{name}[{place}]['masks']`"
        found = _dense(where, masks) if isinstance(masks, Tensor) else (masks.edges, masks.lengths, masks.size)
        if len(found[1]) != len(image["labels"]):
            raise ValueError(
                f"{where} must hold one mask for each of {len(image['labels'])} labels, got {len(found[1])}"
            )
        out.append(found)
    return out


def _dense(where: str, masks: Tensor) -> tuple[Tensor, Tensor, Size | None]:
    """Edges, edges per mask and size of (N, H, W) masks, or of (N, 1, H, W), as torchvision's models have them."""
    if masks.ndim == 4 and masks.shape[1] == 1:
        masks = masks.squeeze(1)
    if masks.numel() and masks.ndim != 3:
        raise ValueError(f"{where} must have shape (N, height, width), got {tuple(masks.shape)}")
    if masks.numel() and (masks.is_floating_point() or masks.is_complex()):
        raise ValueError(
            f"{where} must be a bool or integer tensor, got {masks.dtype}; threshold it, as in `masks > 0.5`"
        )
    size = (int(masks.shape[1]), int(masks.shape[2])) if masks.ndim == 3 and len(masks) else None
    return *edges_of(masks.reshape(len(masks), *(size or (0, 0)))), size


def check_edges(edges: Tensor, lengths: Tensor, name: str) -> None:
    """Check for an even number of edges per mask, none below 0, ascending.

    Raises:
        ValueError: if they are not; ``name`` says whose edges they are.
    """
    fits = bool(((lengths >= 0) & (lengths % 2 == 0)).all()) and int(lengths.sum()) == len(edges)
    if fits and len(edges):
        mask = segments.ids(segments.from_counts(lengths))
        fits = bool((edges >= 0).all() & ((edges[1:] >= edges[:-1]) | (mask[1:] != mask[:-1])).all())
    if not fits:
        raise ValueError(
            f"`{name}_mask_edges` must hold `{name}_edges_per_mask` edges of each mask, in pairs and ascending"
        )


def area(edges: Tensor, lengths: Tensor) -> Tensor:
    """(N,) int64 pixels inside each mask."""
    signs = torch.ones_like(edges)
    signs[::2] = -1  # every mask has an even number of edges, so the parity of the place holds across masks
    return segments.total(edges * signs, segments.from_counts(lengths))


def take(edges: Tensor, lengths: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """The edges of the masks at ``places``, in that order, and edges per mask."""
    offsets, taken = segments.from_counts(lengths), lengths[places]
    starts = segments.from_counts(taken)
    mask = segments.ids(starts)
    inside = torch.arange(len(mask), device=edges.device) - starts[mask]
    return edges[offsets[places][mask] + inside], taken


def coco_pairs(
    detections: tuple[Tensor, Tensor], truths: tuple[Tensor, Tensor], crowd: Tensor, height: Tensor
) -> PairIoU:
    """COCO's IoU of rows of two sets of masks of equal sizes: i / (a + b - i), and i / a for a crowd.

    Args:
        detections: (E,) edges and (D,) edges per mask.
        truths: the same of G ground truths.
        crowd: (G,) bool.
        height: (G,) int64, pixels per column of each ground truth's image.
    """
    areas = [area(*side) for side in (detections, truths)]
    start = [segments.from_counts(side[1]) for side in (detections, truths)]
    ends = [_ends(side, offsets) for side, offsets in zip((detections, truths), start, strict=True)]
    below = _Below(truths[0], start[1])

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        if least > 0:  # masks whose columns do not overlap have an IoU of 0
            column = [
                (side[0][rows] // height[g], (side[1][rows] - 1) // height[g])
                for side, rows in zip(ends, (d, g), strict=True)
            ]
            overlaps = (column[0][0] <= column[1][1]) & (column[1][0] <= column[0][1])
            kept = (overlaps & (areas[0][d] > 0) & (areas[1][g] > 0)).nonzero().squeeze(1)
            d, g = d[kept], g[kept]
        inter = _intersections(d, g, detections, start[0], below)
        one = areas[0][d]
        union = torch.where(crowd[g], one, one + areas[1][g] - inter)
        value = segments.as_float64(inter) / segments.as_float64(torch.where(inter > 0, union, 1))
        kept = (value >= least).nonzero().squeeze(1)
        return d[kept], g[kept], value[kept]

    return overlapping


def _ends(side: tuple[Tensor, Tensor], offsets: Tensor) -> tuple[Tensor, Tensor]:
    """First and last edge of each mask; 0 where it has none."""
    edges = torch.cat([side[0], side[0].new_zeros(1)])
    filled = side[1] > 0
    return torch.where(filled, edges[offsets[:-1]], 0), torch.where(filled, edges[offsets[1:] - 1], 0)


class _Below:
    """The number of pixels of a mask below any pixel count."""

    def __init__(self, edges: Tensor, offsets: Tensor) -> None:
        mask = segments.ids(offsets)
        self.offsets, self.reach = offsets, int(edges.max()) + 1 if len(edges) else 1
        self.line = mask * self.reach + edges
        signs = torch.ones_like(edges)
        signs[::2] = -1
        # with edges e0 < e1 < ..., pixels below x: -e0 + e1 - e2 ... up to x, plus x itself while inside
        self.sums = segments.from_zero(edges * signs)

    def __call__(self, mask: Tensor, place: Tensor) -> Tensor:
        passed = torch.searchsorted(self.line, mask * self.reach + place.clamp(max=self.reach - 1), right=True)
        first = self.offsets[mask]
        inside = (passed - first) % 2 == 1
        return self.sums[passed] - self.sums[first] + torch.where(inside, place, 0)


def _intersections(d: Tensor, g: Tensor, masks: tuple[Tensor, Tensor], start: Tensor, below: _Below) -> Tensor:
    """(P,) int64 pixels common to each pair: for each end of a run of one, the pixels of the other below it."""
    edges, lengths = masks
    out = torch.zeros_like(d)
    cumulative = lengths[d].cumsum(0)
    total = int(cumulative[-1]) if len(cumulative) else 0
    cuts = torch.searchsorted(cumulative, torch.arange(0, total, _EDGES_A_CHUNK, device=d.device), right=True).tolist()
    cuts = sorted({*cuts, 0, len(d)})
    for first, last in itertools.pairwise(cuts):
        offsets = segments.from_counts(lengths[d[first:last]])
        pair = segments.ids(offsets)
        inside = torch.arange(len(pair), device=d.device) - offsets[pair]
        place = edges[start[d[first:last]][pair] + inside]
        pixels = below(g[first:last][pair], place)
        out[first:last] = segments.total(torch.where(inside % 2 == 1, pixels, -pixels), offsets)
    return out
