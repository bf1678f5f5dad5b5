"""PASCAL VOC's XML annotations and text files of boxes, as input of the detection metrics.

| folder | a file is | a line is |
|---|---|---|
| XML ground truths | an image | – |
| text ground truths | an image | class, four numbers, perhaps "difficult" |
| text detections | an image (its name is an image's) | class, score, four numbers |
| the devkit's detections | a class (its name ends in ``_<class>.txt``) | image, score, four numbers |
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch


@dataclass(frozen=True)
class VocData:
    """A data set and the detections in it.

    Attributes:
        preds: packed, of ``VOCMeanAveragePrecision.update``; boxes float64 as they stand in the files.
        target: likewise.
        images: names of the B images, in the order of ``preds`` and ``target``.
        class_names: names of the classes, in order of label.
    """

    preds: dict[str, Any]
    target: dict[str, Any]
    images: list[str]
    class_names: list[str]


@dataclass(frozen=True)
class _Row:
    image: str
    name: str
    box: list[float]
    further: float


def read_voc(ground_truths: str | Path, detections: str | Path) -> VocData:
    """Read folders of ground truths and of detections.

    Args:
        ground_truths: folder of XML annotations, or of text files, one an image.
        detections: folder of text files, one an image, or one a class as the devkit has them.

    Raises:
        ValueError: for an empty folder, a line that cannot be read, an unknown image, a ``bndbox`` of negative size;
            the message names file and line.

    Example:
        >>> import pathlib, tempfile
        >>> from torch_ap.files.voc import read_voc
        >>> from torch_ap.functional.detection import voc_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name, line in (("truth", "cat 10 10 50 50"), ("found", "cat 0.9 12 10 50 50")):
        ...     (folder / name).mkdir()
        ...     _ = (folder / name / "one.txt").write_text(line)
        >>> data = read_voc(folder / "truth", folder / "found")
        >>> voc_mean_average_precision(data.preds, data.target)["map"]
        tensor(1., dtype=torch.float64)
    """
    xml = sorted(Path(ground_truths).glob("*.xml"))
    texts = sorted(Path(ground_truths).glob("*.txt"))
    if not xml and not texts:
        raise ValueError(f"{ground_truths}: must be a folder with .xml or .txt files, one an image")
    images = [path.stem for path in xml or texts]
    truths = [row for path in xml for row in _of_xml(path)] if xml else [r for path in texts for r in _of_text(path)]
    files = sorted(Path(detections).glob("*.txt"))
    if not files:
        raise ValueError(f"{detections}: must be a folder with .txt files")
    found = [row for path in files for row in _detections(path, set(images))]
    names = sorted({row.name for row in (*truths, *found)})
    target = _packed(truths, images, names, "difficult", torch.uint8)
    return VocData(_packed(found, images, names, "scores", torch.float64), target, images, names)


def _of_xml(path: Path) -> list[_Row]:
    """The objects of one annotation."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as reason:
        raise ValueError(f"{path}: must be XML: {reason}") from None
    rows = []
    for place, item in enumerate(root.iter("object")):
        where = f"{path}: object {place + 1}"
        name = item.findtext("name")
        if name is None:
            raise ValueError(f"{where}: must have a 'name'")
        corners = [item.findtext(f"bndbox/{corner}") for corner in ("xmin", "ymin", "xmax", "ymax")]
        box = _numbers([text or "" for text in corners], where, "bndbox")
        if box[2] < box[0] or box[3] < box[1]:
            raise ValueError(f"{where}: bndbox must have xmin <= xmax and ymin <= ymax, got {box}")
        rows.append(_Row(path.stem, name.strip(), box, float(item.findtext("difficult") or 0)))
    return rows


def _of_text(path: Path) -> list[_Row]:
    """The ground truths of one image: class, four numbers, perhaps "difficult"."""
    rows = []
    for where, words in _lines(path):
        hard = words[-1] == "difficult" and len(words) > 5
        words = words[:-1] if hard else words
        rows.append(_Row(path.stem, *_named(words, 4, where), float(hard)))
    return rows


def _detections(path: Path, images: set[str]) -> list[_Row]:
    """The detections of one file, of an image or of a class."""
    rows = []
    of_image = path.stem in images
    for where, words in _lines(path):
        first, numbers = _named(words, 5, where)
        image, name = (path.stem, first) if of_image else (first, path.stem.rsplit("_", 1)[-1])
        if image not in images:
            raise ValueError(f"{where}: unknown image {image!r}")
        rows.append(_Row(image, name, numbers[1:], numbers[0]))
    return rows


def _lines(path: Path) -> list[tuple[str, list[str]]]:
    """File and number, and words, of each line that has any."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(f"{path}:{place + 1}", line.split()) for place, line in enumerate(lines) if line.strip()]


def _named(words: list[str], numbers: int, where: str) -> tuple[str, list[float]]:
    """A name, which may hold spaces, and so many numbers."""
    if len(words) <= numbers:
        raise ValueError(f"{where}: must hold a name and {numbers} numbers, got {' '.join(words)!r}")
    return " ".join(words[:-numbers]), _numbers(words[-numbers:], where, "line")


def _numbers(words: list[str], where: str, what: str) -> list[float]:
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{where}: {what} must hold finite numbers, got {' '.join(words)!r}")
    return values


def _packed(rows: list[_Row], images: list[str], names: list[str], key: str, dtype: torch.dtype) -> dict[str, Any]:
    """Rows in order of image, then as they were read."""
    place = {image: number for number, image in enumerate(images)}
    label = {name: number for number, name in enumerate(names)}
    rows = sorted(rows, key=lambda row: place[row.image])
    image = torch.tensor([place[row.image] for row in rows], dtype=torch.int64)
    return {
        "boxes": torch.tensor([row.box for row in rows], dtype=torch.float64).reshape(-1, 4),
        "labels": torch.tensor([label[row.name] for row in rows], dtype=torch.int64),
        key: torch.tensor([row.further for row in rows], dtype=torch.float64).to(dtype),
        "counts": torch.bincount(image, minlength=len(images)),
    }
