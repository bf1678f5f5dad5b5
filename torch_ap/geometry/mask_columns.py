"""The masks of images as columns of edges, and what is refused of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_ap.geometry import run_lengths
from torch_ap.geometry.masks import edges_of
from torch_ap.geometry.run_lengths import MOST_PIXELS, Decoded, DecodedMasks
from torch_ap.ranking import segments
from torch_ap.rules.images import missing
from torch_ap.rules.messages import Plain, refuse
from torch_ap.runtime import memory


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
    missing("preds", preds, "masks")
    missing("target", target, "masks")
    found = {"detection": _side("preds", preds), "ground_truth": _side("target", target)}
    sizes = []
    for place, (one, two) in enumerate(zip(found["detection"].sizes, found["ground_truth"].sizes, strict=True)):
        if one is not None and two is not None and one != two:
            raise ValueError(
                f"`preds[{place}]['masks']` and `target[{place}]['masks']` must have the same height and width, got "
                f"{one} and {two}"
            )
        sizes.append(one or two or (0, 0))
    columns = {"image_sizes": torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2)}
    for side, (edges, lengths, _) in found.items():
        columns |= {f"{side}_mask_edges": edges, f"{side}_edges_per_mask": lengths}
    return {name: memory.sent(x, preds[0]["labels"].device) if preds else x for name, x in columns.items()}


def _side(name: str, images: Sequence[Mapping[str, Any]]) -> Decoded:
    """The masks of all images of "preds" or "target"; run-length codes are decoded all at once."""
    given = [image["masks"] for image in images]
    coded = [place for place, one in enumerate(given) if not isinstance(one, Tensor | DecodedMasks)]
    for place in coded:
        if not isinstance(given[place], list | tuple):
            refuse(
                f"{name}[{place}]['masks']",
                "must be a tensor, or a list of dicts with 'size' and 'counts'",
                Plain(type(given[place]).__name__),
            )
    codes = [given[place] for place in coded]

    def named(image: int, mask: int) -> str:
        return f"`{name}[{coded[image]}]['masks'][{mask}]`"

    if len(coded) == len(given):
        _check_counts(name, images, list(map(len, codes)))
        return run_lengths.decode(codes, named)
    for place, one in zip(coded, run_lengths.decode_images(codes, named), strict=True):
        given[place] = one
    read = [
        one if isinstance(one, DecodedMasks) else _dense(f"`{name}[{place}]['masks']`", one)
        for place, one in enumerate(given)
    ]
    _check_counts(name, images, list(map(len, read)))
    return _end_to_end(read)


def _end_to_end(images: list[Tensor | DecodedMasks]) -> Decoded:
    """The masks of images, of which each has decoded or (N, H, W) ones."""
    dense = [one for one in images if isinstance(one, Tensor)]
    if len(dense) == len(images):
        edges, lengths = edges_of(dense)
    else:
        parts = [edges_of([one]) if isinstance(one, Tensor) else (one.edges, one.lengths) for one in images]
        device = parts[0][0].device
        edges, lengths = (memory.joined([x.to(device) for x in column]) for column in zip(*parts, strict=True))
    sizes = [
        one.size if isinstance(one, DecodedMasks) else (one.shape[1], one.shape[2]) if len(one) else None
        for one in images
    ]
    return Decoded(edges, lengths, sizes)


def _check_counts(name: str, images: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> None:
    for place, (image, count) in enumerate(zip(images, counts, strict=True)):
        if count != len(image["labels"]):
            raise ValueError(
                f"`{name}[{place}]['masks']` must hold one mask for each of {len(image['labels'])} labels, got {count}"
            )


def _dense(where: str, masks: Tensor) -> Tensor:
    """Masks as (N, H, W); (N, 1, H, W) are those of torchvision's models. 0 by 0 where there are none."""
    if masks.ndim == 4 and masks.shape[1] == 1:
        masks = masks.squeeze(1)
    if masks.numel() and masks.ndim != 3:
        raise ValueError(f"{where} must have shape (N, height, width), got {tuple(masks.shape)}")
    if masks.numel() and (masks.is_floating_point() or masks.is_complex()):
        raise ValueError(
            f"{where} must be a bool or integer tensor, got {masks.dtype}; threshold it, as in `masks > 0.5`"
        )
    return masks if masks.ndim == 3 and len(masks) else masks.reshape(len(masks), 0, 0)


def check_sizes(sizes: Tensor) -> None:
    """Check the (B, 2) heights and widths of images.

    Raises:
        ValueError: if one is negative, or an image has more pixels than a mask can have.
    """
    wrong = (sizes < 0).any(1) | (sizes.double().prod(1) > MOST_PIXELS)
    if bool(wrong.any()):
        rule = "must hold heights and widths of at least 0 whose product is at most 2^40"
        refuse("image_sizes", rule, sizes[wrong][0].tolist())


def check_edges(edges: Tensor, lengths: Tensor, pixels: Tensor, name: str) -> None:
    """Check for an even number of edges per mask, from 0 to the ``pixels`` of its image, ascending.

    Raises:
        ValueError: if they are not; ``name`` says whose edges they are.
    """
    fits = bool(((lengths >= 0) & (lengths % 2 == 0)).all()) and int(lengths.sum()) == len(edges)
    if fits and len(edges):
        mask = segments.ids(segments.from_counts(lengths))
        inside = (edges >= 0) & (edges <= pixels[mask])
        fits = bool(inside.all() & ((edges[1:] >= edges[:-1]) | (mask[1:] != mask[:-1])).all())
    if not fits:
        raise ValueError(
            f"`{name}_mask_edges` must hold `{name}_edges_per_mask` edges of each mask, in pairs, ascending and within "
            "its image"
        )
