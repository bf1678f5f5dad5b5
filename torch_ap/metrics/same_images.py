"""How the images of two detectors differ that are to be compared, where they do."""

import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, image_of

_COUNTS = "ground_truths_per_image"
_KEYS = {"mask_edges": "masks", "edges_per_mask": "masks", "valid": "area` or `iscrowd"}


def check(mine: Columns, theirs: Columns, my_ids: Tensor | None, their_ids: Tensor | None) -> None:
    """Refuse images with other ground truths, or in another order.

    Args:
        mine, theirs: the images of this metric and of ``other``.
        my_ids, their_ids: (B,) their ids, where updates gave any.
    """
    columns = [name for name in mine if not name.startswith("detection") and name != "pair_ious"]
    other = [name for name in columns if not _equal(mine[name], theirs[name])]
    if other:
        ids = None if my_ids is None or their_ids is None else (my_ids, their_ids)
        how = _of_ids(ids) or _of_counts(mine, theirs, ids) or _of_column(mine, theirs, other[0])
        raise ValueError(f"`other` must have been updated with the same ground truths in the same order; {how}")


def _of_ids(ids: tuple[Tensor, Tensor] | None) -> str | None:
    """Images that only one of them has."""
    for whose, one, other in () if ids is None else (("this metric", *ids), ("it", *ids[::-1])):
        alone = one[~torch.isin(one, other)]
        if len(alone):
            return f"{whose} alone has image {int(alone[0])}{f' and {len(alone) - 1:,} more' if len(alone) > 1 else ''}"
    return None


def _of_counts(mine: Columns, theirs: Columns, ids: tuple[Tensor, Tensor] | None) -> str | None:
    """Numbers of images and of their ground truths."""
    one, other = mine[_COUNTS], theirs[_COUNTS]
    if len(one) != len(other):
        return f"it has {len(other):,} images, and this metric {len(one):,}"
    if ids is not None and not torch.equal(*ids):
        place = _first(ids[0] != ids[1])
        return f"the image at place {place} is {int(ids[0][place])} here and {int(ids[1][place])} there"
    if not torch.equal(one, other):
        place = _first(one != other)
        return f"the image at place {place} has {int(one[place])} ground truths here and {int(other[place])} there"
    return None


def _of_column(mine: Columns, theirs: Columns, name: str) -> str:
    """A column that differs, and the first image that it does in, where rows are of one."""
    one, other, key = mine[name], theirs[name], name.removeprefix("ground_truth_").removesuffix("_per_image")
    said = f"`{_KEYS.get(key, key)}` in `target` differs"
    of_rows = name.startswith("ground_truth_") and len(one) == int(mine[_COUNTS].sum())
    if one.shape != other.shape or not (of_rows or len(one) == len(mine[_COUNTS])):
        return said
    row = _first((~_alike(one, other)).flatten(1).any(1) if one.ndim > 1 else ~_alike(one, other))
    return f"{said}, first of the image at place {int(image_of(mine[_COUNTS])[row]) if of_rows else row}"


def _first(flags: Tensor) -> int:
    return int(flags.nonzero()[0])


def _alike(one: Tensor, other: Tensor) -> Tensor:
    """Which values are equal, of whatever dtypes; NaN, as boxes that are not known have it, equals NaN."""
    return (one == other) | (one.isnan() & other.isnan())


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(_alike(one, other).all())
