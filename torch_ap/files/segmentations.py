"""The masks of COCO's JSON files, run-length codes and polygons, checked and decoded; errors name their entries."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from torch_ap.files.entries import Entries, Entry
from torch_ap.geometry import run_lengths
from torch_ap.geometry.run_lengths import DecodedMasks, Size
from torch_ap.rules.integers import is_whole
from torch_ap.rules.messages import shown

_KEY = "segmentation"
_MOST_PIXELS = 1 << 32  # pycocotools counts the pixels of polygons in 32 bits
_FARTHEST = 10


def decode(listed: Entries, counts: Tensor, images: Entries) -> list[DecodedMasks]:
    """The masks of entries, image after image.

    Args:
        listed: entries in order of image.
        counts: (B,) int64 entries per image.
        images: the B images; where one has ``height`` and ``width``, its masks must have this size.

    Raises:
        ValueError: for an invalid mask, or one of another size than its image, naming file and entry.
        ModuleNotFoundError: for polygons without pycocotools.
    """
    ends = np.cumsum([0, *counts.tolist()]).tolist()
    sizes = [_size_of(images, image) if ends[image + 1] > ends[image] else None for image in range(len(counts))]
    image_of = np.repeat(np.arange(len(counts)), counts.numpy()).tolist()
    codes = [
        _code(entry, sizes[image], f"{listed.where}[{place}]")
        for place, entry, image in zip(listed.places, listed.entries, image_of, strict=True)
    ]

    def named(row: int) -> str:
        return f"{listed.where}[{listed.places[row]}]: '{_KEY}'"

    for row, (code, image) in enumerate(zip(codes, image_of, strict=True)):
        size, given = sizes[image], code.get("size")
        if size is not None and _is_size(given) and tuple(given) != size:
            raise ValueError(
                f"{named(row)} must have the height and width of {images.where}[{images.places[image]}], {list(size)}, "
                f"got {list(given)}"
            )
    return run_lengths.decode_images(
        [codes[start:end] for start, end in itertools.pairwise(ends)],
        lambda image, mask: named(ends[image] + mask),
    )


def _is_size(value: Any) -> bool:
    """Whether a code's size is two whole numbers; if not, decoding refuses it."""
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(is_whole, value))


def same_sizes(results: str, found: Sequence[DecodedMasks], truths: Sequence[DecodedMasks], images: Entries) -> None:
    """Raise unless the masks of an image have the same size in results and annotations."""
    for place, one, two in zip(images.places, found, truths, strict=True):
        if one.size is not None and two.size is not None and one.size != two.size:
            raise ValueError(
                f"{results}: the masks of {images.where}[{place}] must have the height and width of those in the "
                f"annotations, {list(two.size)}, got {list(one.size)}"
            )


def _size_of(images: Entries, row: int) -> Size | None:
    """Height and width of an image; None where it has neither."""
    image, name = images.entries[row], f"{images.where}[{images.places[row]}]"
    if "height" not in image and "width" not in image:
        return None
    for key in ("height", "width"):
        value: Any = image.get(key)
        if not is_whole(value) or not 1 <= value < 1 << 31:
            raise ValueError(f"{name}: '{key}' must be a whole number from 1 to 2^31 - 1, got {shown(value)}")
    return image["height"], image["width"]


def _code(entry: Entry, size: Size | None, name: str) -> Any:
    """The run-length code of one entry's mask."""
    shape = entry.get(_KEY)
    if isinstance(shape, dict):
        return shape
    if not isinstance(shape, list) or not shape:
        raise ValueError(f"{name}: must have '{_KEY}', polygons or a run-length code, got {shown(shape)}")
    if size is None:
        raise ValueError(
            f"{name}: its image {entry['image_id']} must have 'height' and 'width', since the mask is polygons"
        )
    for polygon in shape:
        fault = _fault(polygon, size)
        if fault:
            raise ValueError(f"{name}: '{_KEY}' must hold polygons, {fault}, got {shown(polygon)}")
    try:
        from pycocotools import mask
    except ModuleNotFoundError:
        raise ModuleNotFoundError("polygons need pycocotools: pip install pycocotools (extra `detection`)") from None
    return mask.merge(mask.frPyObjects(shape, *size))


def _fault(polygon: Any, size: Size) -> str | None:
    """What is wrong with one polygon, if anything is."""
    if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
        return "lists of x and y in turn, of at least three points"
    if not set(map(type, polygon)) <= {int, float}:
        return "lists of numbers"
    if not all(abs(x) <= _FARTHEST * max(size) for x in polygon):
        return f"whose points lie in or near their image, {size[0]} by {size[1]}, at most {_FARTHEST} sides from it"
    if size[0] * size[1] >= _MOST_PIXELS:
        return f"whose images have less than 2^32 pixels, not {size[0]} by {size[1]}"
    return None
