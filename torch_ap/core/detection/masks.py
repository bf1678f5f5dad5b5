"""Masks as the places where they change, and their intersection over union in whole numbers.

The pixels of an (H, W) mask are counted column by column, as COCO counts them; a mask is its *edges*, the even number
of pixel counts at which it begins and ends: [e0, e1), [e2, e3), ... are inside. That is a run-length code, summed up.
Areas and intersections are whole numbers, so every IoU equals pycocotools' to the last bit.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import segments
from torch_ap.core.detection.boxes import PairIoU
from torch_ap.core.order import Array

_EDGES_A_CHUNK = 1 << 20


def edges_of(masks: Tensor) -> tuple[Tensor, Tensor]:
    """The edges of dense masks.

    Args:
        masks: (N, H, W) bool, or numbers of which all but 0 are inside.

    Returns:
        (E,) int64 edges, mask after mask; (N,) int64 edges a mask.
    """
    count, height, width = masks.shape
    inside = masks if masks.dtype == torch.bool else masks != 0
    # all masks end to end, a pixel outside before each and after the last
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


def edges_of_codes(codes: Sequence[Mapping[str, Any]]) -> tuple[Tensor, Tensor]:
    """The edges of COCO run-length codes, ``{"size": [height, width], "counts": ...}``.

    Args:
        codes: compressed (str or bytes) or plain (list) counts, which begin with a run outside.

    Returns:
        As :func:`edges_of`.
    """
    edges, lengths = [], []
    for code in codes:
        counts = code["counts"]
        runs = np.asarray(counts, np.int64) if isinstance(counts, list | tuple) else _decompressed(counts)
        places = np.cumsum(runs)
        if len(places) % 2:
            places = places[:-1]  # the last run is outside
        edges.append(places)
        lengths.append(len(places))
    flat = np.concatenate(edges) if edges else np.empty(0, np.int64)
    return torch.from_numpy(flat), torch.tensor(lengths, dtype=torch.int64)


def _decompressed(counts: str | bytes) -> Array:
    """COCO's run lengths from its text: six-bit digits, five of them value, one "more follows", from low to high.

    From the fourth on each number is the difference to the one two places before.
    """
    text = counts.encode() if isinstance(counts, str) else counts
    digits = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    if not len(digits):
        return digits
    last = (digits & 0x20) == 0
    ends = np.flatnonzero(last)
    starts = np.concatenate([[0], ends[:-1] + 1])
    shift = 5 * (np.arange(len(digits)) - np.repeat(starts, ends - starts + 1))
    runs = np.add.reduceat((digits & 0x1F) << shift, starts)
    runs -= np.where(digits[ends] & 0x10, np.int64(1) << (shift[ends] + 5), 0)
    runs[1::2] = np.cumsum(runs[1::2])
    runs[2::2] = np.cumsum(runs[2::2])
    return runs


def columns_of_images(
    preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]], packed: bool
) -> dict[str, Tensor]:
    """The mask columns of images whose ``masks`` are (N, H, W) tensors or lists of run-length codes.

    Raises:
        ValueError: where the masks of an image are not as many as its labels, or not of one size.
    """
    if packed:
        raise ValueError("`preds` and `target` must be lists of dicts, one an image, for `iou_type='segm'`")
    found = {"detection": _coded("preds", preds), "ground_truth": _coded("target", target)}
    sizes = []
    for place, (one, two) in enumerate(zip(found["detection"], found["ground_truth"], strict=True)):
        known = {side[2] for side in (one, two) if side[2] is not None}
        if len(known) > 1:
            raise ValueError(
                f"`preds[{place}]['masks']` and `target[{place}]['masks']` must have the same height and width, got "
                f"{one[2]} and {two[2]}"
            )
        sizes.append(known.pop() if known else (0, 0))
    device = preds[0]["labels"].device if preds else None
    columns: dict[str, Tensor] = {"image_sizes": torch.tensor(sizes, dtype=torch.int64, device=device).reshape(-1, 2)}
    for side, images in found.items():
        nothing = torch.empty(0, dtype=torch.int64, device=device)
        columns[f"{side}_mask_edges"] = torch.cat([nothing, *(edges.to(nothing.device) for edges, _, _ in images)])
        columns[f"{side}_edges_per_mask"] = torch.cat([nothing, *(many.to(nothing.device) for _, many, _ in images)])
    return columns


def _coded(name: str, images: Sequence[Mapping[str, Any]]) -> list[tuple[Tensor, Tensor, tuple[int, int] | None]]:
    """Edges, edges a mask and size of each image's masks."""
    out = []
    for place, image in enumerate(images):
        where = f"`{name}[{place}]['masks']`"
        if "masks" not in image:
            raise ValueError(f"`{name}[{place}]` must have the key 'masks', got {sorted(image)}")
        given = image["masks"]
        if isinstance(given, Tensor):
            if given.numel() and given.ndim != 3:
                raise ValueError(f"{where} must have shape (N, height, width), got {tuple(given.shape)}")
            size = (int(given.shape[1]), int(given.shape[2])) if given.ndim == 3 and len(given) else None
            edges, lengths = edges_of(given.reshape(len(given), *(size or (0, 0))))
        else:
            size = _size_of_codes(where, given)
            edges, lengths = edges_of_codes(given)
        if len(lengths) != len(image["labels"]):
            raise ValueError(
                f"{where} must hold one mask for each of {len(image['labels'])} labels, got {len(lengths)}"
            )
        out.append((edges, lengths, size))
    return out


def _size_of_codes(where: str, codes: Any) -> tuple[int, int] | None:
    """The one size of a list of run-length codes."""
    fits = isinstance(codes, list | tuple) and all(
        isinstance(x, Mapping) and {"size", "counts"} <= set(x) for x in codes
    )
    if not fits:
        raise ValueError(
            f"{where} must be a tensor, or a list of dicts with 'size' and 'counts', got {type(codes).__name__}"
        )
    sizes = {(int(code["size"][0]), int(code["size"][1])) for code in codes}
    if len(sizes) > 1:
        raise ValueError(f"{where} must hold masks of one size, got {sorted(sizes)}")
    return sizes.pop() if sizes else None


def check_edges(edges: Tensor, lengths: Tensor, name: str) -> None:
    """An even number of edges a mask, none below 0, ascending.

    Raises:
        ValueError: where that is not so; ``name`` says whose they are.
    """
    fits = bool(((lengths >= 0) & (lengths % 2 == 0)).all()) and int(lengths.sum()) == len(edges)
    if fits and len(edges):
        mask = segments.ids(segments.from_counts(lengths))
        fits = bool((edges >= 0).all() & ((edges[1:] >= edges[:-1]) | (mask[1:] != mask[:-1])).all())
    if not fits:
        raise ValueError(f"`{name}_mask_edges` must be `{name}_edges_per_mask` ascending ends of runs, in pairs")


def area(edges: Tensor, lengths: Tensor) -> Tensor:
    """(N,) int64 pixels inside each mask."""
    signs = torch.ones_like(edges)
    signs[::2] = -1  # every mask has an even number of edges, so parity runs on from mask to mask
    return segments.total(edges * signs, segments.from_counts(lengths))


def take(edges: Tensor, lengths: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """The edges of the masks at ``places``, in that order, and edges a mask."""
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
        detections: (E,) edges and (D,) edges a mask.
        truths: the same of G ground truths.
        crowd: (G,) bool.
        height: (G,) int64, pixels a column of each ground truth's image.
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
            meets = (column[0][0] <= column[1][1]) & (column[1][0] <= column[0][1])
            kept = (meets & (areas[0][d] > 0) & (areas[1][g] > 0)).nonzero().squeeze(1)
            d, g = d[kept], g[kept]
        inter = _intersections(d, g, detections, start[0], below)
        one = areas[0][d]
        union = torch.where(crowd[g], one, one + areas[1][g] - inter)
        value = segments.real(inter) / segments.real(torch.where(inter > 0, union, 1))
        kept = (value >= least).nonzero().squeeze(1)
        return d[kept], g[kept], value[kept]

    return overlapping


def _ends(side: tuple[Tensor, Tensor], offsets: Tensor) -> tuple[Tensor, Tensor]:
    """First and last edge of each mask; 0 where it has none."""
    edges = torch.cat([side[0], side[0].new_zeros(1)])
    filled = side[1] > 0
    return torch.where(filled, edges[offsets[:-1]], 0), torch.where(filled, edges[offsets[1:] - 1], 0)


class _Below:
    """How many pixels of a mask lie below any pixel count."""

    def __init__(self, edges: Tensor, offsets: Tensor) -> None:
        mask = segments.ids(offsets)
        self.offsets, self.reach = offsets, int(edges.max()) + 1 if len(edges) else 1
        self.line = mask * self.reach + edges
        signs = torch.ones_like(edges)
        signs[::2] = -1
        # with edges e0 < e1 < ..., pixels below x: -e0 + e1 - e2 ... up to x, plus x itself while inside
        self.sums = torch.cat([edges.new_zeros(1), (edges * signs).cumsum(0)])

    def __call__(self, mask: Tensor, place: Tensor) -> Tensor:
        passed = torch.searchsorted(self.line, mask * self.reach + place.clamp(max=self.reach - 1), right=True)
        first = self.offsets[mask]
        inside = (passed - first) % 2 == 1
        return self.sums[passed] - self.sums[first] + torch.where(inside, place, 0)


def _intersections(d: Tensor, g: Tensor, masks: tuple[Tensor, Tensor], start: Tensor, below: _Below) -> Tensor:
    """(P,) int64 pixels common to each pair: for each end of a run of one, the pixels of the other below it."""
    edges, lengths = masks
    out = torch.zeros_like(d)
    through = lengths[d].cumsum(0)
    total = int(through[-1]) if len(through) else 0
    cuts = torch.searchsorted(through, torch.arange(0, total, _EDGES_A_CHUNK, device=d.device), right=True).tolist()
    cuts = sorted({*cuts, 0, len(d)})
    for first, last in itertools.pairwise(cuts):
        offsets = segments.from_counts(lengths[d[first:last]])
        pair = segments.ids(offsets)
        inside = torch.arange(len(pair), device=d.device) - offsets[pair]
        place = edges[start[d[first:last]][pair] + inside]
        pixels = below(g[first:last][pair], place)
        out[first:last] = segments.total(torch.where(inside % 2 == 1, pixels, -pixels), offsets)
    return out
