"""Results of detectors with boxes, decoded by ``msgspec`` into arrays.

The reader of entries (:mod:`torch_ap.detection.files.entries`) defines valid files and error messages. This reader is
3 times as fast, and returns None for every file that it cannot read with the same result.
"""

from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.columns import literals, text
from torch_ap.detection.files.entries import without_collection

_UNREAD = ("id", "area", "iscrowd", "segmentation")  # keys that results may have, whose values are not read


def read_boxes(path: str | Path, images: Sequence[Any], categories: Collection[int]) -> dict[str, Tensor] | None:
    """Read the results of a detector with boxes.

    Args:
        path: path of a JSON list of detections, plain or gzip.
        images: the ids of the images, ascending.
        categories: the ids of the categories.

    Returns:
        ``labels``, ``scores``, ``counts`` and ``boxes`` in order of image, as of
        :func:`torch_ap.detection.files.coco.read_results`. None without ``msgspec``, for invalid files, for ids of
        images that are text, and for files with other keys.
    """
    known = np.array(images)
    data = text.read_data(path)
    entries = _decode(data) if known.dtype.kind == "i" else None
    if not entries:
        return None
    try:
        image, label = (np.fromiter(map(attrgetter(x), entries), np.int64) for x in ("image_id", "category_id"))
    except OverflowError:
        return None
    place = np.searchsorted(known, image).clip(max=len(known) - 1)
    if not (known[place] == image).all() or not np.isin(label, list(categories)).all():
        return None
    order = np.argsort(place, kind="stable")
    score = np.fromiter(map(attrgetter("score"), entries), np.float64)
    boxes = np.fromiter(chain.from_iterable(map(attrgetter("bbox"), entries)), np.float64).reshape(-1, 4)
    if not _are_exact(np.concatenate([score, boxes.reshape(-1)]), data) or (boxes[:, 2:] < 0).any():
        return None
    columns = {"labels": label[order], "scores": score[order], "counts": np.bincount(place, minlength=len(known))}
    return {key: torch.from_numpy(column) for key, column in (columns | {"boxes": boxes[order]}).items()}


def _decode(data: bytes) -> Sequence[Any] | None:
    """Return the entries of results; None if they are no plain results."""
    try:
        import msgspec
    except ModuleNotFoundError:
        return None
    try:
        with without_collection():
            entries: list[Any] = _decoder().decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    # no value is text, so each key has two quotation marks; more of them belong to keys that an entry repeats
    keys, quotes = 4 * len(entries), data.count(b'"')
    if quotes > 2 * keys:
        keys += sum(getattr(entry, key) is not msgspec.UNSET for entry in entries for key in _UNREAD)
    return entries if 2 * keys == quotes else None


def _are_exact(values: Any, data: bytes) -> bool:
    """Return whether float64 represents the literals of all values of a file."""
    doubtful = values[literals.doubtful_places(values)]
    return not len(doubtful) or not (doubtful.any() or literals.may_underflow(data))


@cache
def _decoder() -> Any:
    """Return the decoder of lists of detections."""
    import msgspec

    fields: list[Any] = [
        ("image_id", int),
        ("category_id", int),
        ("score", float),
        ("bbox", tuple[float, float, float, float]),
    ]
    fields += [(key, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for key in _UNREAD]
    return msgspec.json.Decoder(list[msgspec.defstruct("Box", fields, forbid_unknown_fields=True, gc=False)])  # type: ignore[misc]
