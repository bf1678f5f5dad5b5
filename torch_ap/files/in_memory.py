"""Detections and ground truths that another package holds in memory, as input of the detection metrics."""

from dataclasses import dataclass
from typing import Any, TypeAlias

Image: TypeAlias = dict[str, Any]

OF_MASKS = ("segm", "boundary")


@dataclass(frozen=True)
class InMemoryData:
    """A data set and the detections in it.

    Attributes:
        preds: of the detection metrics' ``update``, a dict per image; boxes are corners in pixels.
        target: likewise.
        class_names: name of each label, as far as it has one.
    """

    preds: list[Image]
    target: list[Image]
    class_names: dict[int, str]
