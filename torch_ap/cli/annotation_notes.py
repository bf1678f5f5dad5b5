"""What is odd in a file of annotations in COCO's form, though it can be read: marks, names and boxes."""

from collections.abc import Iterator

from torch_ap.files.coco import CocoAnnotations, extents
from torch_ap.rules.messages import shown

_PIXEL = 1.0  # that boxes may leave their image by, as rounding does
_MANY = 0.1  # of the boxes
_FEW = 3  # names that are told one by one


def of(annotations: CocoAnnotations, rules: str, flag: str) -> Iterator[str]:
    """One sentence per oddity.

    Args:
        annotations: what was read.
        rules: whose they are: "COCO" or "LVIS".
        flag: the mark of annotations that these look at.
    """
    for key, count in annotations.unread.items():
        yield (
            f"`{key}` is 1 of {count:,} annotations; {rules}'s rules look at `{flag}` alone, so that these count as "
            "single objects"
        )
    yield from _names(annotations.class_names)
    yield from _outside(annotations)


def _names(class_names: dict[int, str]) -> Iterator[str]:
    """Categories that have one name."""
    ids: dict[str, list[int]] = {}
    for label, name in class_names.items():
        ids.setdefault(name, []).append(label)
    alike = {name: labels for name, labels in ids.items() if len(labels) > 1}
    for name, labels in [*alike.items()][:_FEW]:
        yield f"the categories {shown(', '.join(map(str, labels)))} have one name, {shown(name)}; they count apart"
    if len(alike) > _FEW:
        yield f"{len(alike) - _FEW:,} more names are each of several categories, too"


def _outside(annotations: CocoAnnotations) -> Iterator[str]:
    """Many boxes that leave their images, as corners do that are read as a size."""
    target = annotations.target
    if "boxes" not in target:
        return
    boxes, sizes = target["boxes"], extents(annotations.entries).repeat_interleave(target["counts"], 0)
    outside = (boxes[:, :2] + boxes[:, 2:] > sizes + _PIXEL).any(1)  # not where the size is NaN, which is unknown
    known = int(sizes.isfinite().all(1).sum())
    if int(outside.sum()) <= _MANY * known or not known:
        return
    corners = bool(((boxes[:, 2:] >= boxes[:, :2]) & ~(boxes[:, 2:] > sizes + _PIXEL)).all())
    also = "; as x1 y1 x2 y2 all would lie inside" if corners else ""
    of = f"{int(outside.sum()):,} of {known:,}"
    yield f"{of} boxes of the annotations leave their images{also}: `bbox` is read as [x, y, width, height] in pixels"
