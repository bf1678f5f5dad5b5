"""Why masks and keypoints of COCO's files match nothing, as far as their numbers alone say."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from torch_ap.files.coco import CocoData
from torch_ap.geometry import masks

_SPECKS = 4  # pixels: a polygon in fractions of its image has no more


def causes(data: CocoData) -> Iterator[str]:
    """What is likely wrong, one sentence per fault; nothing of boxes."""
    if not isinstance(data.preds, Mapping):
        yield from _of_masks(data.preds, data.target)
    elif "keypoints" in data.preds:
        yield from _of_keypoints(data.preds["keypoints"])


def _of_masks(preds: Sequence[Any], target: Any) -> Iterator[str]:
    """Polygons in fractions, on one side or both."""
    sides = {"detections": preds, "ground truths": target}
    if not all(any(len(image["labels"]) for image in images) for images in sides.values()):
        return
    largest = {name: _largest(images) for name, images in sides.items()}
    specks = [name for name, most in largest.items() if most <= _SPECKS]
    if len(specks) == 1 or max(largest.values()) <= 1:
        most = max(largest[name] for name in specks)
        yield (
            f"no mask of the {' or '.join(specks)} has more than {most} {'pixel' if most == 1 else 'pixels'}: are "
            "polygons fractions of the image's width and height? Write them in pixels"
        )


def _largest(images: Sequence[Any]) -> int:
    """The most pixels of any mask."""
    areas = [masks.area(image["masks"].edges, image["masks"].lengths) for image in images if len(image["labels"])]
    return int(max((area.max() for area in areas), default=0))


def _of_keypoints(points: Tensor) -> Iterator[str]:
    """All x, then all y, then all third numbers: the last ones alone are as small as scores and visibilities are."""
    count = points.shape[1]
    last = points.reshape(len(points), -1)[:, -count:]
    if count > 1 and len(points) and bool((last.abs() <= 2).all()) and not bool((points[..., 2].abs() <= 2).all()):
        yield (
            "the last third of `keypoints` are numbers up to 2, as scores and visibilities are, and the third numbers "
            "of points are not: are these all x, all y, all third numbers? Write [x, y, a third number, ...]"
        )
