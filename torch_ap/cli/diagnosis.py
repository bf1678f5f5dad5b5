"""Why detections of files match no ground truth: what is likely wrong, where a number would silently be 0."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_ap.analysis import box_faults
from torch_ap.analysis.box_faults import Evidence
from torch_ap.rules.messages import nearest, shown

_FEW = 3  # classes that are told one by one


def causes(evidence: Evidence, class_names: Mapping[int, str]) -> Iterator[str]:
    """What is likely wrong, one sentence per fault; nothing where detections can match, or where there is none.

    Args:
        evidence: packed images; or lists of dicts, of which the labels alone are looked at.
        class_names: of labels.
    """
    found, true = (_column(side, "labels") for side in (evidence.preds, evidence.target))
    if not len(true):
        yield "the ground truths hold no object, so that no detection can match"
        return
    for key, what in (("iscrowd", "a crowd (`iscrowd` 1)"), ("difficult", "difficult")):
        flags = _column(evidence.target, key)
        if len(flags) and bool(flags.all()):
            yield f"every ground truth is {what}; these are left out, so that there is nothing to find and no number"
            return
    if not len(found):
        return
    if not bool(torch.isin(found, true).any()):
        yield _other_classes(*([class_names[x] for x in torch.unique(labels).tolist()] for labels in (found, true)))
        return
    if isinstance(evidence.preds, Mapping) and "boxes" in evidence.preds:
        yield from box_faults.causes(evidence)


def without_truths(evidence: Evidence, class_names: Mapping[int, str]) -> Iterator[str]:
    """Which classes of the detections no ground truth has, those first that may be misspelt. Nothing where no class has
    any, of which :func:`causes` tells.
    """
    labels, detections = torch.unique(_column(evidence.preds, "labels"), return_counts=True)
    known = torch.unique(_column(evidence.target, "labels"))
    true = torch.isin(labels, known)
    if not true.any() or true.all():
        return
    others = [class_names[label] for label in known.tolist()]
    names = [class_names[label] for label in labels[~true].tolist()]
    meanings = ["" if name.isdecimal() else nearest(name, others) for name in names]  # ids are not misspelt
    found = sorted(zip(names, detections[~true].tolist(), meanings, strict=True), key=lambda one: not one[2])
    for name, count, meant in found[:_FEW]:
        are = "is 1 detection" if count == 1 else f"are {count:,} detections"
        yield f"no ground truth is of class {shown(name)}, of which there {are}: left out of the mean{meant}"
    if len(found) > _FEW:
        yield f"no ground truth is of {len(found) - _FEW:,} more classes, which are left out of the mean, too"


def _column(images: Any, key: str) -> Tensor:
    """A column of all images, which may lack it."""
    nothing = torch.empty(0, dtype=torch.int64)
    if isinstance(images, Mapping):
        column: Tensor = images.get(key, nothing)
        return column
    return torch.cat([nothing, *(image[key] for image in images if key in image)])


def _other_classes(found: Sequence[str], true: Sequence[str]) -> str:
    """No class in common."""
    why = ""
    if {x.casefold() for x in found} & {x.casefold() for x in true}:
        why = "; they differ in upper and lower case"
    elif {"ids", "names"} == {_kind(found), _kind(true)}:
        why = "; class ids here, names there"
    else:
        why = next(filter(None, (nearest(name, true) for name in found if not name.isdecimal())), "")
    ours, theirs = (shown(", ".join(names)) for names in (found, true))
    return f"no class of the detections ({ours}) is one of the ground truths ({theirs}), so that none can match{why}"


def _kind(classes: Sequence[str]) -> str:
    ids = sum(name.isdecimal() for name in classes)
    return "names" if not ids else "ids" if ids == len(classes) else "both"
