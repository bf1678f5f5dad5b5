"""PASCAL VOC's XML annotations and text files of boxes, as input of the detection metrics.

| folder | one file per | a line is |
|---|---|---|
| XML ground truths | image | – |
| text ground truths | image | class, four numbers, perhaps "difficult" |
| text detections | image (its name is the image's) | class, score, four numbers |
| the devkit's detections | class (its name ends in ``_<class>.txt``) | image, score, four numbers |
"""

import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch
from torch import Tensor

from torch_ap.files import text
from torch_ap.geometry import boxes
from torch_ap.rules import checks
from torch_ap.rules.messages import LONGEST, shown

_LARGEST = 1e15  # areas of larger boxes would not be exact, those of much larger boxes infinite
_FRACTION = re.compile(r"[-+]?[0-9]*\.[0-9]+(e[-+]?[0-9]+)?")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_DEVKIT = re.compile(r"comp\d+_(?:det|cls)_(?:train|val|trainval|test)(?:_?\d+)?_(.+)")


@dataclass(frozen=True)
class VocData:
    """A data set and the detections in it.

    Attributes:
        preds: packed, of ``VOCMeanAveragePrecision.update``; boxes float64, xyxy.
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
    """One box: the name of its image, its class, four numbers, and its score or whether it is difficult."""

    image: str
    name: str
    box: list[float]
    further: float


def read_voc(
    ground_truths: str | Path, detections: str | Path, box_format: str = "xyxy", *, allow_empty: bool = False
) -> VocData:
    """Read folders of ground truths and of detections. Text is UTF-8.

    Args:
        ground_truths: folder of XML annotations, or of text files, one per image.
        detections: folder of text files, one per image, or one per class as in the devkit. The class is then what
            follows ``comp4_det_test_`` in the name of the file; after another beginning it is the longest class of the
            ground truths that the name ends in, or else what follows the last underscore.
        box_format: of the text files, "xyxy", "xywh" or "cxcywh"; XML names its corners.
        allow_empty: whether the folder of detections may lack text files.

    Returns:
        Boxes as corners, whatever they are in the files.

    Raises:
        ValueError: for an empty folder, a line that cannot be read, an unknown image, a ground truth of negative size;
            files that look like YOLO's, or have the score after the box. The message names file and line.

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
    checks.one_of("box_format", box_format, boxes.FORMATS)
    xml, texts = (sorted(Path(ground_truths).glob(f"*.{suffix}")) for suffix in ("xml", "txt"))
    if not xml and not texts:
        raise ValueError(f"{ground_truths}: must be a folder with .xml or .txt files, one per image")
    if xml and texts:
        warnings.warn(
            f"{ground_truths}: the ground truths are read from its {len(xml)} .xml files; its {len(texts)} .txt files "
            "are left out",
            UserWarning,
            stacklevel=2,
        )
    images = [path.stem for path in xml or texts]
    sizes = {}
    if xml:
        annotations = {path.stem: _root_of(path) for path in xml}
        truths = [row for path in xml for row in _of_xml(path, annotations[path.stem])]
        sizes = {name: _size_in(root) for name, root in annotations.items()}
    else:
        lines = [row for path in texts for row in _of_text(path, box_format)]
        _refuse_yolo(lines, ground_truths)
        truths = _corners(lines, box_format)
    files = text_files(detections, allow_empty)
    known = {row.name for row in truths}
    class_of = _classes_of_files(files, set(images), known)
    found = [row for path in files for row in _detections(path, set(images), class_of.get(path))]
    _refuse_yolo(found, detections)
    _refuse_score_behind(found, detections)
    names = sorted(known.union(row.name for row in found))
    _refuse_further_column(set(names) - known, known, detections)
    return packed(truths, _corners(found, box_format), images, names, sizes)


def text_files(folder: str | Path, allow_empty: bool) -> list[Path]:
    """The text files of a folder of detections, at least one unless ``allow_empty``."""
    if not Path(folder).is_dir() or not (allow_empty or any(Path(folder).glob("*.txt"))):
        also = " (--allow-empty lets it pass)" if Path(folder).is_dir() else ""
        raise ValueError(f"{folder}: must be a folder with .txt files of detections{also}")
    return sorted(Path(folder).glob("*.txt"))


def packed(
    truths: Sequence[Row],
    found: Sequence[Row],
    images: list[str],
    names: list[str],
    sizes: dict[str, tuple[float, float]],
) -> VocData:
    """Rows, whose boxes are corners, packed in order of image and then as they were read."""
    place = {image: number for number, image in enumerate(images)}
    label = {name: number for number, name in enumerate(names)}

    def columns(rows: Sequence[Row], key: str, dtype: torch.dtype) -> dict[str, Any]:
        rows = sorted(rows, key=lambda row: place[row.image])
        image = torch.tensor([place[row.image] for row in rows], dtype=torch.int64)
        return {
            "boxes": torch.tensor([row.box for row in rows], dtype=torch.float64).reshape(-1, 4),
            "labels": torch.tensor([label[row.name] for row in rows], dtype=torch.int64),
            key: torch.tensor([row.further for row in rows], dtype=torch.float64).to(dtype),
            "counts": torch.bincount(image, minlength=len(images)),
        }

    known = torch.tensor([sizes.get(image, (math.nan, math.nan)) for image in images], dtype=torch.float64)
    target = columns(truths, "difficult", torch.uint8)
    return VocData(columns(found, "scores", torch.float64), target, images, names, known.reshape(-1, 2))


def _root_of(path: Path) -> ElementTree.Element:
    """An annotation's root. The declared encoding must be true of all its characters."""
    content = text.read(path)
    declared = re.match(r"<\?xml[^>]*encoding\s*=\s*[\"']([^\"']*)", content)
    if declared and not content.isascii() and declared[1].lower() not in ("utf-8", "utf8"):
        raise ValueError(f"{path}, line 1: must be UTF-8 text, but is declared as {shown(declared[1])}")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as reason:
        line = getattr(reason, "position", (1, 0))[0]
        raise ValueError(f"{path}, line {line}: must be XML: {str(reason)[:LONGEST]}") from None
    if root.tag != "annotation" and root.find(".//object") is None:
        raise ValueError(f"{path}: must be an <annotation> with <object>s, got {shown(root.tag)}")
    return root


def _of_xml(path: Path, root: ElementTree.Element) -> list[Row]:
    """The objects of one annotation."""
    rows = []
    for place, item in enumerate(root.iter("object")):
        where = f"{path}: object {place + 1}"
        _once(item, ("name", "bndbox", "difficult"), where)
        _once(item.find("bndbox"), _CORNERS, where)
        name = " ".join((item.findtext("name") or "").split())
        if not name:
            raise ValueError(f"{where}: must have a 'name'")
        corners = [item.findtext(f"bndbox/{corner}") or "" for corner in _CORNERS]
        box = _box([corner.strip() for corner in corners], where, "bndbox")
        if box[2] < box[0] or box[3] < box[1]:
            raise ValueError(f"{where}: bndbox must have xmin <= xmax and ymin <= ymax, got {shown(box)}")
        difficult = (item.findtext("difficult") or "0").strip()
        if difficult not in ("0", "1"):
            raise ValueError(f"{where}: 'difficult' must be 0 or 1, got {shown(difficult)}")
        rows.append(Row(path.stem, name, box, float(difficult)))
    return rows


def _once(element: ElementTree.Element | None, tags: Sequence[str], where: str) -> None:
    for tag in tags:
        if element is not None and len(element.findall(tag)) > 1:
            raise ValueError(f"{where}: <{tag}> must be given once, and is given twice")


def _size_in(root: ElementTree.Element) -> tuple[float, float]:
    """Width and height of an annotation's image; NaN unless both are whole numbers above 0, since many files have 0."""
    width, height = (text.whole_number((root.findtext(f"size/{key}") or "").strip()) for key in ("width", "height"))
    return (width, height) if width and height else (math.nan, math.nan)


def _of_text(path: Path, box_format: str) -> list[Row]:
    """The ground truths of one image: class, four numbers, perhaps "difficult"."""
    rows = []
    for where, words in text.lines(path):
        hard = words[-1] == "difficult" and len(words) > 5
        name, box = _named(words[:-1] if hard else words, 4, where)
        sizes = (box[2] - box[0], box[3] - box[1]) if box_format == "xyxy" else box[2:]
        if min(sizes) < 0:
            raise ValueError(
                f"{where}: must have no negative size as {box_format}, got {shown(box)} (see --box-format)"
            )
        rows.append(Row(path.stem, name, box, float(hard)))
    return rows


def _classes_of_files(files: list[Path], images: set[str], classes: set[str]) -> dict[Path, str]:
    """The class of each file that is not named after an image; each class has one such file."""
    out: dict[Path, str] = {}
    seen: dict[str, Path] = {}
    for path in files:
        if path.stem in images:
            continue
        out[path] = name = _class_in(path.stem, classes)
        if name in seen:
            raise ValueError(f"{path}: class {shown(name)} must have one file, but has {seen[name]} too")
        seen[name] = path
    return out


def _detections(path: Path, images: set[str], class_of_file: str | None) -> list[Row]:
    """The detections of one file, of an image or of a class."""
    rows = []
    for where, words in text.lines(path):
        first, numbers = _named(words, 5, where)
        image, name = (path.stem, first) if class_of_file is None else (first, class_of_file)
        if image not in images:
            raise ValueError(
                f"{where}: unknown image {shown(image)}; the file has no image's name, so that its lines must begin "
                f"with one, and all are of class {shown(name)}"
            )
        rows.append(Row(image, name, numbers[1:], numbers[0]))
    return rows


def _class_in(stem: str, classes: Iterable[str]) -> str:
    """The class in the name of a devkit's file. A space in a class may be an underscore there."""
    known = {name.replace(" ", "_"): name for name in classes} | {name: name for name in classes}
    official = _DEVKIT.fullmatch(stem)
    if official:
        return known.get(official[1], official[1])
    endings = [name for name in known if f"_{stem}".endswith(f"_{name}")]
    return known[max(endings, key=len)] if endings else stem.rsplit("_", 1)[-1]


def _named(words: list[str], numbers: int, where: str) -> tuple[str, list[float]]:
    """A name, which may hold spaces, and ``numbers`` numbers, the last four of which are a box."""
    if len(words) <= numbers:
        raise ValueError(f"{where}: must hold a name and {numbers} numbers, got {shown(' '.join(words))}")
    score = text.numbers(words[-numbers:-4], where, "score")
    if len(words) > numbers + 1 and _FRACTION.fullmatch(words[-numbers - 1]):
        raise ValueError(f"{where}: must hold a name and {numbers} numbers, but has one more: {shown(' '.join(words))}")
    return " ".join(words[:-numbers]), score + _box(words[-4:], where, "box")


def _box(words: list[str], where: str, what: str) -> list[float]:
    values = text.numbers(words, where, what)
    if max(map(abs, values)) > _LARGEST:
        raise ValueError(f"{where}: {what} must hold numbers of at most {_LARGEST:g}, got {shown(' '.join(words))}")
    return values


def _corners(rows: list[Row], box_format: str) -> list[Row]:
    if box_format == "xyxy" or not rows:
        return rows
    corners = boxes.to_xyxy(torch.tensor([row.box for row in rows], dtype=torch.float64), box_format).tolist()
    return [Row(row.image, row.name, box, row.further) for row, box in zip(rows, corners, strict=True)]


def _refuse_further_column(unknown: set[str], classes: set[str], folder: str | Path) -> None:
    """Refuse a class that is one of the ground truths' followed by a number, such as a track id."""
    for name in sorted(unknown):
        first, _, last = name.rpartition(" ")
        if first in classes and last.isdecimal():
            raise ValueError(
                f"{folder}: no ground truth is of class {shown(name)}, but some are of {shown(first)}: the lines "
                f"seem to have one more column, {shown(last)}"
            )


def _refuse_yolo(rows: list[Row], folder: str | Path) -> None:
    """Refuse class ids with nothing but fractions, which are YOLO's: the box would be read as score and numbers."""
    if rows and all(row.name.isdecimal() and min(row.box) >= -0.1 and max(row.box) <= 1.1 for row in rows):
        raise ValueError(
            f"{folder}: its classes are numbers and its boxes lie in [0, 1], as in YOLO's files: read them with "
            "--format yolo (`read_yolo`)"
        )


def _refuse_score_behind(rows: list[Row], folder: str | Path) -> None:
    """Refuse lines whose last number is always a fraction and whose first is not: the score stands behind the box."""
    last, first = [row.box[3] for row in rows], [row.further for row in rows]
    fractions = all(0 <= x <= 1 for x in last) and any(0 < x < 1 for x in last)
    if fractions and any(not 0 <= x <= 1 for x in first) and any(max(row.box) > 1 for row in rows):
        raise ValueError(
            f"{folder}: the last number of every line lies in [0, 1], as a score does; the score must stand before the "
            "box: class, score, four numbers"
        )
