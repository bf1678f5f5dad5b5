"""Boxes as rows of an image, a class and numbers, as files of ground truths and detections hold them, packed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_ap.files import text
from torch_ap.rules.messages import shown

_LARGEST = 1e15  # areas of larger boxes would not be exact, those of much larger boxes infinite


@dataclass(frozen=True)
class VocData:
    """A data set and the detections in it.

    Attributes:
        preds: packed, of ``VOCMeanAveragePrecision.update``; ``boxes`` or ``intervals`` in float64.
        target: likewise.
        images: names of the B images, in the order of ``preds`` and ``target``.
        class_names: names of the classes, in order of label.
        sizes: (B, 2) float64, width and height of each image; NaN where the files do not say.
    """

    preds: dict[str, Any]
    target: dict[str, Any]
    images: list[str]
    class_names: list[str]
    sizes: Tensor


@dataclass(frozen=True)
class Row:
    """One box: the name of its image, its class, its numbers, its score or whether it is difficult, and its line."""

    image: str
    name: str
    box: list[float]
    further: float
    where: str = ""


def text_files(folder: str | Path, allow_empty: bool) -> list[Path]:
    """The text files of a folder of detections, at least one unless ``allow_empty``."""
    if not Path(folder).exists():
        raise ValueError(f"{folder}: no such folder")
    if not Path(folder).is_dir() or not (allow_empty or any(Path(folder).glob("*.txt"))):
        also = " (--allow-empty lets it pass)" if Path(folder).is_dir() else ""
        if any(Path(folder).glob("*.xml")):
            also = "; it has .xml files, as ground truths do: are the folders swapped?"
        raise ValueError(f"{folder}: must be a folder with .txt files of detections{also}")
    return sorted(Path(folder).glob("*.txt"))


def packed(
    truths: Sequence[Row],
    found: Sequence[Row],
    images: list[str],
    names: list[str],
    sizes: dict[str, tuple[float, float]],
    key: str = "boxes",
) -> VocData:
    """Rows packed in order of image and then as they were read.

    Args:
        truths, found: rows whose boxes have equally many numbers.
        images: names of all images.
        names: of all classes.
        sizes: width and height of the images where they are known.
        key: what the metrics call the boxes.
    """
    width = next((len(row.box) for row in (*truths, *found)), 4)
    place = {image: number for number, image in enumerate(images)}
    label = {name: number for number, name in enumerate(names)}

    def columns(rows: Sequence[Row], further: str, dtype: torch.dtype) -> dict[str, Any]:
        rows = sorted(rows, key=lambda row: place[row.image])
        image = torch.tensor([place[row.image] for row in rows], dtype=torch.int64)
        return {
            key: torch.tensor([row.box for row in rows], dtype=torch.float64).reshape(-1, width),
            "labels": torch.tensor([label[row.name] for row in rows], dtype=torch.int64),
            further: torch.tensor([row.further for row in rows], dtype=torch.float64).to(dtype),
            "counts": torch.bincount(image, minlength=len(images)),
        }

    known = torch.tensor([sizes.get(image, (math.nan, math.nan)) for image in images], dtype=torch.float64)
    target = columns(truths, "difficult", torch.uint8)
    return VocData(columns(found, "scores", torch.float64), target, images, names, known.reshape(-1, 2))


def box(words: list[str], where: str, what: str) -> list[float]:
    """Finite numbers, none so large that areas fail; ``what`` they are is for the message."""
    values = text.numbers(words, where, what)
    if max(map(abs, values)) > _LARGEST:
        raise ValueError(f"{where}: {what} must hold numbers of at most {_LARGEST:g}, got {shown(' '.join(words))}")
    return values
