"""Notes on files of annotations and detections that are valid but probably wrong: classes, flags and boxes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.cli.notes import note
from torch_ap.core.base.messages import short_repr, suggest_name
from torch_ap.detection.errors import low_values, unmatchable
from torch_ap.detection.files.coco import CocoAnnotations, extents, mask_areas
from torch_ap.detection.inputs.images import image_ids
from torch_ap.detection.shapes import boxes

_MAX_NAMES = 3  # further names are only counted
_PIXEL = 1.0  # boxes can leave their image by a pixel after rounding
_MAX_OUTSIDE = 0.1  # share of the boxes that may leave their image
_PIXELS = 10.0  # some box of an image in pixels is larger
_XYWH = "`bbox` is read as [x, y, width, height] in pixels"
_ODD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, which spreads the bits of products
_MIN_COPIES = 0.1  # share of repeated detections that is reported


def check_not_empty(detections: int, path: str, is_allowed: bool) -> None:
    """Raise ValueError for a list without detections, unless ``--allow-empty`` is present: it may be a wrong file."""
    if not detections and not is_allowed:
        raise ValueError(f"{path}: contains no detections (--allow-empty lets it pass)")


def note_copies(preds: Any, path: str) -> None:
    """Write a note if a tenth of the boxes or more repeat another; each copy of a match is a false positive."""
    if "boxes" not in preds:  # nor in a list, as for other shapes
        return
    image = image_ids(preds["counts"])
    columns = [x.numpy() for x in (*preds["boxes"].t(), preds["scores"], preds["labels"], image)]
    least = max(1, _MIN_COPIES * len(image))
    hashes = np.sort(_hash(columns))
    if np.count_nonzero(hashes[1:] == hashes[:-1]) < least:  # equal rows have equal hashes
        return
    order = np.lexsort(columns)
    copies = np.count_nonzero(np.logical_and.reduce([x[order[1:]] == x[order[:-1]] for x in columns]))
    if copies >= least:
        note(
            f"{path}: {copies:,} of {len(image):,} detections repeat another of their image, with its class, score "
            "and box: was the list concatenated with itself?"
        )


def _hash(columns: Sequence[Any]) -> Any:
    """Return (N,) uint64 that are equal for equal rows of the columns, and seldom for others."""
    out = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        out *= np.uint64(_ODD)
        out ^= (column + 0.0).view(np.uint64)  # -0 becomes 0
        out ^= out >> np.uint64(29)
    return out


def note_no_match(evaluation: Any, path: str, similarity: str = "an IoU") -> None:
    """Write a note if the mean is 0 because no detection matches, without a known cause."""
    if evaluation.compute()["map"] != 0:
        return
    least = f"{min(evaluation._settings.thresholds):g}"
    limit = f"above {least}" if evaluation._settings.strict else f"of {least} or more"
    if evaluation._matches_at().matches.matched.any():
        note(f"{path}: at {similarity} {limit}, detections match only ignored ground truths, such as crowds")
        return
    note(
        f"{path}: no detection matches a ground truth of its image and class at {similarity} {limit}: "
        "are these the right files?"
    )


def low_value_causes(preds: Any, target: Any, box_format: str, class_names: Mapping[int, str]) -> Iterator[str]:
    """Yield the reason why no detection can match, or else the likely cause of a low value.

    Args:
        preds: packed images, or a list of dicts; only labels and flags of a list are checked.
        target: likewise.
        box_format: format of ``boxes``; only boxes with 4 numbers are checked.
        class_names: names of labels.
    """
    detected, true = (_column(side, "labels") for side in (preds, target))
    if not len(true):
        yield "the ground truths contain no object, so that no detection can match"
        return
    for key, meaning in (("iscrowd", "a crowd (`iscrowd` 1)"), ("difficult", "difficult")):
        flags = _column(target, key)
        if len(flags) and bool(flags.all()):
            yield f"every ground truth is {meaning}; these are left out, so that no number is defined"
            return
    if not len(detected):
        return
    if not bool(torch.isin(detected, true).any()):
        yield _no_common_class(*([class_names[x] for x in torch.unique(y).tolist()] for y in (detected, true)))
    elif isinstance(preds, Mapping) and preds.get("boxes", torch.empty(0)).shape[1:] == (4,):
        cause = low_values.likely_cause(preds, target, box_format)
        yield from () if cause is None else (cause,)


def classes_without_truths(preds: Any, target: Any, class_names: Mapping[int, str]) -> Iterator[str]:
    """Yield the classes of detections without ground truths, misspelt names first."""
    labels, detections = torch.unique(_column(preds, "labels"), return_counts=True)
    known = torch.unique(_column(target, "labels"))
    true = torch.isin(labels, known)
    if not true.any() or true.all():
        return
    others = [class_names[label] for label in known.tolist()]
    names = [class_names[label] for label in labels[~true].tolist()]
    hints = ["" if name.isdecimal() else suggest_name(name, others) for name in names]  # ids are not misspelt
    rows = sorted(zip(names, detections[~true].tolist(), hints, strict=True), key=lambda row: not row[2])
    for name, count, hint in rows[:_MAX_NAMES]:
        are = "is 1 detection" if count == 1 else f"are {count:,} detections"
        yield f"no ground truth is of class {short_repr(name)}, but there {are}: left out of the mean{hint}"
    if len(rows) > _MAX_NAMES:
        yield f"no ground truth is of {len(rows) - _MAX_NAMES:,} more classes, which are left out of the mean, too"


def annotation_notes(annotations: CocoAnnotations, rules: str, flag: str) -> Iterator[str]:
    """Yield a note for each oddity of a COCO annotation file.

    Args:
        annotations: content of the file.
        rules: "COCO" or "LVIS".
        flag: key that these rules read.
    """
    for key, count in annotations.unread.items():
        yield (
            f"`{key}` is 1 of {count:,} annotations; {rules}'s rules read only `{flag}`, so that these count as "
            "single objects"
        )
    ids: dict[str, list[int]] = {}
    for label, name in annotations.class_names.items():
        ids.setdefault(name, []).append(label)
    repeated = {name: labels for name, labels in ids.items() if len(labels) > 1}
    for name, labels in [*repeated.items()][:_MAX_NAMES]:
        ids_text = short_repr(", ".join(map(str, labels)))
        yield f"the categories {ids_text} have one name, {short_repr(name)}; they count separately"
    if len(repeated) > _MAX_NAMES:
        yield f"{len(repeated) - _MAX_NAMES:,} more names are also shared by several categories"
    yield from _boxes_outside(annotations)
    if (text := _area_note(annotations, rules, flag)) is not None:
        yield text


def _area_note(annotations: CocoAnnotations, rules: str, flag: str) -> str | None:
    """Return a sentence about ground truths without a pixel or an area, or None."""
    target = annotations.target
    if "keypoints" in target:
        return None
    ignored = target[flag] != 0
    if rules == "LVIS":  # LVIS leaves out ground truths whose `area` is not above 0
        ignored = ignored | ~(target["area"] > 0)
    if annotations.codes is not None:
        return unmatchable.sentence(mask_areas(annotations.codes), ignored, "pixel")
    return unmatchable.sentence(boxes.area(target["boxes"]), ignored, "area")


def _boxes_outside(annotations: CocoAnnotations) -> Iterator[str]:
    """Yield a note if many boxes leave their images, as corners do if they are read as a size."""
    target = annotations.target
    if "boxes" in target:
        found = _outside(target, extents(annotations.entries))
        if found.share > _MAX_OUTSIDE:
            hint = "; as x1 y1 x2 y2 all would lie inside" if found.are_corners else ""
            yield f"{found.number} boxes of the annotations leave their images{hint}: {_XYWH}"


def detections_in_other_units(preds: Any, target: Any, sizes: Tensor | None) -> Iterator[str]:
    """Yield a note if the detected boxes are certainly not in the unit or the format of COCO's results.

    Unlike :func:`low_value_causes`, it does not require that detections fit a ground truth.

    Args:
        preds, target: packed images, or lists of dicts, which are not checked.
        sizes: (B, 2) widths and heights of the images, NaN if unknown, or None.
    """
    sides = [x["boxes"] for x in (preds, target) if isinstance(x, Mapping) and "boxes" in x]
    if len(sides) < 2 or not all(map(len, sides)):
        return
    if sides[0].abs().max() <= 1 and sides[1].max() > _PIXELS:
        yield f"all boxes of the detections are fractions, from -1 to 1: {_XYWH}"
    elif sizes is not None and (found := _outside(preds, sizes)).share > _MAX_OUTSIDE and found.are_corners:
        yield f"{found.number} boxes of the detections leave their images; as x1 y1 x2 y2 all would lie inside: {_XYWH}"


class _Outside(NamedTuple):
    """The boxes that leave their images: number of all, share, and whether all would lie inside as corners."""

    number: str
    share: float
    are_corners: bool


def _outside(images: Mapping[str, Any], sizes: Tensor) -> _Outside:
    """Return how many boxes of packed images leave their images, whose sizes are (B, 2)."""
    xywh, extent = images["boxes"], sizes.repeat_interleave(images["counts"], 0)
    outside = int((xywh[:, :2] + xywh[:, 2:] > extent + _PIXEL).any(1).sum())  # False for unknown sizes, NaN
    known = int(extent.isfinite().all(1).sum())
    corners = bool(((xywh[:, 2:] >= xywh[:, :2]) & ~(xywh[:, 2:] > extent + _PIXEL)).all())
    return _Outside(f"{outside:,} of {known:,}", outside / max(1, known), corners)


def _column(images: Any, key: str) -> Tensor:
    """Return a column of all images, empty if they lack it."""
    nothing = torch.empty(0, dtype=torch.int64)
    if isinstance(images, Mapping):
        column: Tensor = images.get(key, nothing)
        return column
    return torch.cat([nothing, *(image[key] for image in images if key in image)])


def _no_common_class(detected: Sequence[str], true: Sequence[str]) -> str:
    """Return the note that the two sides have no class in common."""
    if {x.casefold() for x in detected} & {x.casefold() for x in true}:
        reason = "; they differ in upper and lower case"
    elif {"ids", "names"} == {_kind(detected), _kind(true)}:
        reason = "; class ids here, names there"
    else:
        reason = next(filter(None, (suggest_name(name, true) for name in detected if not name.isdecimal())), "")
    ours, theirs = (short_repr(", ".join(names)) for names in (detected, true))
    return f"no class of the detections ({ours}) is one of the ground truths ({theirs}), so that none can match{reason}"


def _kind(classes: Sequence[str]) -> str:
    """Return "ids" if all classes are numbers, "names" if none is, else "both"."""
    ids = sum(name.isdecimal() for name in classes)
    return "names" if not ids else "ids" if ids == len(classes) else "both"
