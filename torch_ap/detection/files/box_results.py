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

from torch_ap.core.base.collection import without_collection
from torch_ap.core.columns import literals, text
from torch_ap.core.ranking.order import Array

_PART = 1 << 21  # bytes; their objects take 6 MB
_SPACE = b" \t\n\r"  # of JSON
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
    columns = _decode(data) if known.dtype.kind == "i" else None
    if columns is None:
        return None
    image, label, score, boxes = columns
    place = np.searchsorted(known, image).clip(max=len(known) - 1)
    if not (known[place] == image).all() or not np.isin(label, list(categories)).all():
        return None
    if not (_are_exact(score, data) and _are_exact(boxes.reshape(-1), data)) or (boxes[:, 2:] < 0).any():
        return None
    order = np.argsort(place, kind="stable")
    sorted_columns = {"labels": label[order], "scores": score[order]}
    sorted_columns |= {"counts": np.bincount(place, minlength=len(known)), "boxes": boxes[order]}
    return {key: torch.from_numpy(column) for key, column in sorted_columns.items()}


def _decode(data: bytes) -> list[Array] | None:
    """Return images, labels, scores and boxes of results, (N,) or (N, 4); None if they are no plain results.

    The list is decoded in parts that end behind an entry, so that only the objects of one part exist at a time. A cut
    inside an entry makes both parts invalid.
    """
    try:
        import msgspec
    except ModuleNotFoundError:
        return None
    start, last = data.find(b"[") + 1, data.rfind(b"]")
    if not start or (data[: start - 1] + data[last + 1 :]).strip(_SPACE):
        return None
    parts = []
    try:
        with without_collection():
            while start <= last:
                end = data.find(b"},", start + _PART, last) + 1 or last
                parts.append(_decode_part(b"[%b]" % data[start:end]))
                start = end + 1
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, OverflowError):
        return None
    if any(part is None for part in parts):
        return None
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _decode_part(data: bytes) -> list[Array] | None:
    """Return the columns of a list of entries; None for no entries, and for texts and repeated keys."""
    import msgspec

    entries: list[Any] = _decoder().decode(data)
    # no value is text, so each key has two quotation marks; more of them belong to keys that an entry repeats
    keys, quotes = 4 * len(entries), data.count(b'"')
    if quotes > 2 * keys:
        keys += sum(getattr(entry, key) is not msgspec.UNSET for entry in entries for key in _UNREAD)
    if 2 * keys != quotes or not entries:
        return None
    image, label = (np.fromiter(map(attrgetter(x), entries), np.int64) for x in ("image_id", "category_id"))
    score = np.fromiter(map(attrgetter("score"), entries), np.float64)
    boxes = np.fromiter(chain.from_iterable(map(attrgetter("bbox"), entries)), np.float64).reshape(-1, 4)
    return [image, label, score, boxes]


def _are_exact(values: Array, data: bytes) -> bool:
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
