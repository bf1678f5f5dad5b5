"""PASCAL VOC's XML annotations and text files of boxes, as input of the detection metrics.

| folder | one file per | a line is |
|---|---|---|
| XML ground truths | image | – |
| text ground truths | image | class, four numbers, perhaps "difficult" |
| text detections | image (its name is the image's) | class, score, four numbers |
| the devkit's detections | class (its name ends in ``_<class>.txt``) | image, score, four numbers |

The readers of DOTA, YOLO and ActivityNet share the rows of boxes and the packing of rows.
"""

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import LONGEST, short_repr, suggest_name
from torch_ap.core.columns import text
from torch_ap.detection.files import folders
from torch_ap.detection.files.folders import Document, Folder
from torch_ap.detection.shapes import boxes

_LARGEST = 1e15  # larger boxes have inexact or infinite areas
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?")
_FRACTION = re.compile(r"[-+]?[0-9]*\.[0-9]+(e[-+]?[0-9]+)?")
_BOX, _SCORE_AND_BOX = 4, 5  # numbers of a ground truth and of a detection
_DOTA_TRUTH = [True] * 8 + [False]  # eight numbers and a class
_DOTA_DETECTION = [False] + [True] * 9  # image, score and eight numbers
_HIGHEST_FRACTION = 1.1  # of the corners in YOLO's files
_DEVKIT = re.compile(r"comp\d+_(?:det|cls)_(?:train|val|trainval|test)(?:_?\d+)?_(.+)")


@dataclass(frozen=True)
class VocData:
    """A data set and the detections in it.

    Attributes:
        preds: packed predictions for ``VOCMeanAveragePrecision.update``; ``boxes`` or ``intervals`` in float64.
        target: ground truths in the same form.
        images: names of the B images, in the order of ``preds`` and ``target``.
        class_names: names of the classes, in order of label.
        sizes: (B, 2) float64, width and height of each image; NaN if the files do not contain them.
    """

    preds: dict[str, Any]
    target: dict[str, Any]
    images: list[str]
    class_names: list[str]
    sizes: Tensor


@dataclass(frozen=True)
class Row:
    """One box of a file.

    Attributes:
        image: name of the image.
        name: class.
        box: coordinates.
        further: the score, or 1 for a difficult ground truth and 0 for another.
        where: file and line, for messages.
    """

    image: str
    name: str
    box: list[float]
    further: float
    where: str = ""


def pack_rows(
    truths: Sequence[Row],
    detections: Sequence[Row],
    images: list[str],
    names: list[str],
    sizes: dict[str, tuple[float, float]],
    key: str = "boxes",
) -> VocData:
    """Pack rows in order of image and then of the files.

    Args:
        truths: ground truths. All boxes have the same number of coordinates.
        detections: detections.
        images: names of all images.
        names: names of all classes.
        sizes: width and height of images; an image may lack them.
        key: name of the boxes in the metrics.
    """
    width = next((len(row.box) for row in (*truths, *detections)), 4)
    image_index = {image: number for number, image in enumerate(images)}
    label_of = {name: number for number, name in enumerate(names)}

    def columns(rows: Sequence[Row], further: str, dtype: torch.dtype) -> dict[str, Any]:
        rows = sorted(rows, key=lambda row: image_index[row.image])
        image = torch.tensor([image_index[row.image] for row in rows], dtype=torch.int64)
        return {
            key: torch.tensor([row.box for row in rows], dtype=torch.float64).reshape(-1, width),
            "labels": torch.tensor([label_of[row.name] for row in rows], dtype=torch.int64),
            further: torch.tensor([row.further for row in rows], dtype=torch.float64).to(dtype),
            "counts": torch.bincount(image, minlength=len(images)),
        }

    image_sizes = torch.tensor([sizes.get(image, (math.nan, math.nan)) for image in images], dtype=torch.float64)
    target = columns(truths, "difficult", torch.uint8)
    return VocData(columns(detections, "scores", torch.float64), target, images, names, image_sizes.reshape(-1, 2))


def parse_box(words: list[str], where: str, name: str) -> list[float]:
    """Return finite numbers that are small enough for exact areas; ``name`` is their name in messages."""
    values = text.numbers(words, where, name)
    if max(map(abs, values)) > _LARGEST:
        rule = f"{name} must contain numbers of at most {_LARGEST:g}"
        raise ValueError(f"{where}: {rule}, got {short_repr(' '.join(words))}")
    return values


def read_root(document: Document) -> ElementTree.Element:
    """Return the root of an annotation. Its text must be in the declared encoding."""
    content = document.read()
    declared = re.match(r"<\?xml[^>]*encoding\s*=\s*[\"']([^\"']*)", content)
    if declared and not content.isascii() and declared[1].lower() not in ("utf-8", "utf8"):
        raise ValueError(f"{document}, line 1: must be UTF-8 text, but is declared as {short_repr(declared[1])}")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as reason:
        line = getattr(reason, "position", (1, 0))[0]
        raise ValueError(f"{document}, line {line}: must be XML: {str(reason)[:LONGEST]}") from None
    if root.tag != "annotation" and root.find(".//object") is None:
        raise ValueError(f"{document}: must be an <annotation> with <object>s, got {short_repr(root.tag)}")
    return root


def objects(document: Document, root: ElementTree.Element) -> list[Row]:
    """Return the objects of one annotation."""
    rows = []
    for index, item in enumerate(root.iter("object")):
        where = f"{document}: object {index + 1}"
        _check_tags(item, ("name", "bndbox", "difficult"), where)
        _check_tags(item.find("bndbox"), _CORNERS, where)
        name = " ".join((item.findtext("name") or "").split())
        if not name:
            raise ValueError(f"{where}: must have a 'name'")
        corners = [(item.findtext(f"bndbox/{corner}") or "").strip() for corner in _CORNERS]
        if "" in corners:
            raise ValueError(f"{where}: must have a 'bndbox' with {', '.join(map(repr, _CORNERS))}")
        box = parse_box(corners, where, "bndbox")
        if box[2] < box[0] or box[3] < box[1]:
            raise ValueError(f"{where}: bndbox must have xmin <= xmax and ymin <= ymax, got {short_repr(box)}")
        difficult = (item.findtext("difficult") or "0").strip()
        if difficult not in ("0", "1"):
            raise ValueError(f"{where}: 'difficult' must be 0 or 1, got {short_repr(difficult)}")
        rows.append(Row(document.stem, name, box, float(difficult)))
    return rows


def _check_tags(element: ElementTree.Element | None, tags: Sequence[str], where: str) -> None:
    """Raise ValueError for a repeated tag."""
    for tag in tags:
        if element is not None and len(element.findall(tag)) > 1:
            raise ValueError(f"{where}: <{tag}> must occur once, but occurs twice")


def image_size(root: ElementTree.Element) -> tuple[float, float]:
    """Return the width and height of the image; NaN unless both are integers above 0, since many files contain 0."""
    width, height = (text.whole_number((root.findtext(f"size/{key}") or "").strip()) for key in ("width", "height"))
    return (width, height) if width and height else (math.nan, math.nan)


def read_voc(
    ground_truths: Folder, detections: Folder, box_format: str = "xyxy", *, allow_empty: bool = False
) -> VocData:
    """Read folders of ground truths and of detections. Text is UTF-8.

    Args:
        ground_truths: folder of XML annotations, or of text files, one per image; or a mapping from the name of each
            image to the content of its file: text, bytes, a list of lines, or an array, tensor or table of rows.
        detections: folder of text files, one per image, or one per class as in the devkit. The class is then the part
            after ``comp4_det_test_`` in the name of the file. After another beginning it is the longest class of the
            ground truths at the end of the name, or else the part after the last underscore. Or a mapping, whose keys
            are the names of the files without suffix.
        box_format: format of the text files, "xyxy", "xywh" or "cxcywh"; XML names its corners.
        allow_empty: whether the folder of detections may lack text files.

    Returns:
        Boxes as corners, for every format of the files.

    Raises:
        ValueError: for an empty folder, a line that cannot be read, an unknown image, a ground truth of negative size;
            files that look like YOLO's, or with the score after the box. The message names file and line, or key and
            line of a mapping.
        TypeError: for another type than a path or a mapping with text as keys.

    Example:
        >>> import pathlib, tempfile
        >>> from torch_ap.detection.files.voc import read_voc
        >>> from torch_ap.detection.functions import voc_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name, line in (("truth", "cat 10 10 50 50"), ("found", "cat 0.9 12 10 50 50")):
        ...     (folder / name).mkdir()
        ...     _ = (folder / name / "one.txt").write_text(line)
        >>> data = read_voc(folder / "truth", folder / "found")
        >>> voc_mean_average_precision(data.preds, data.target)["map"]
        tensor(1., dtype=torch.float64)
        >>> data = read_voc({"one": "cat 10 10 50 50"}, {"one": ["cat 0.9 12 10 50 50"]})
        >>> data.preds["boxes"]
        tensor([[12., 10., 50., 50.]], dtype=torch.float64)
    """
    checks.one_of("box_format", box_format, boxes.FORMATS)
    xml, texts = (folders.documents(ground_truths, "ground_truths", suffix) for suffix in ("xml", "txt"))
    folders.check_truths(ground_truths, xml + texts, ".xml or .txt")
    if isinstance(ground_truths, Mapping):
        xml, texts = (xml, []) if _is_xml(texts) else ([], texts)
    if xml and texts:
        source = f"the ground truths are read from its {len(xml)} .xml files"
        warnings.warn(f"{ground_truths}: {source}; its {len(texts)} .txt files are left out", UserWarning, stacklevel=2)
    images = [path.stem for path in xml or texts]
    sizes = {}
    if xml:
        annotations = {path.stem: read_root(path) for path in xml}
        truths = [row for path in xml for row in objects(path, annotations[path.stem])]
        sizes = {name: image_size(root) for name, root in annotations.items()}
    else:
        lines = [row for path in texts for row in _ground_truths(path, box_format)]
        _check_not_yolo(lines, folders.folder_name(ground_truths, "ground_truths"))
        truths = _corners(lines, box_format)
    files, names = folders.detection_documents(detections, allow_empty), set(images)
    folder, known = folders.folder_name(detections, "detections"), {row.name for row in truths}
    named = folders.documents_by_class([x for x in files if x.stem not in names], lambda stem: _class_in(stem, known))
    classes = {file.stem: name for file, name in named}
    rows = [row for file in files for row in _detections(file, names, known, classes.get(file.stem))]
    _check_not_yolo(rows, folder)
    _check_score_first(rows, folder)
    class_names = sorted(known.union(row.name for row in rows))
    _check_columns(set(class_names) - known, known, folder)
    return pack_rows(truths, _corners(rows, box_format), images, class_names, sizes)


def _is_xml(files: Sequence[Document]) -> bool:
    """Return whether the first document that is not blank is XML."""
    return next((content for file in files if (content := file.read().lstrip())), "").startswith("<")


def _ground_truths(document: Document, box_format: str) -> list[Row]:
    """Return the ground truths of one image: class, four numbers, perhaps "difficult"."""
    rows = []
    for where, words in document.lines():
        is_dota = words[0].startswith("imagesource:") or _are_numbers(words[:9]) == _DOTA_TRUTH
        hard = words[-1] == "difficult" and len(words) > 5
        name, box = _name_and_numbers(words[:-1] if hard else words, _BOX, where, is_dota)
        sizes = (box[2] - box[0], box[3] - box[1]) if box_format == "xyxy" else box[2:]
        if min(sizes) < 0:
            yolo = name.isdecimal() and max(box) <= _HIGHEST_FRACTION
            also = "in [0, 1], as in YOLO's files: --format yolo (`read_yolo`)" if yolo else "see --box-format"
            if name.split()[-1].isdecimal() and " " in name:
                also = f"the class is {short_repr(name)}: is there a number more than a name and a box?"
            raise ValueError(f"{where}: must have no negative size as {box_format}, got {short_repr(box)} ({also})")
        rows.append(Row(document.stem, name, box, float(hard)))
    return rows


def _detections(document: Document, images: set[str], classes: set[str], class_of_file: str | None) -> list[Row]:
    """Return the detections of one file, of an image or of a class."""
    rows = []
    for where, words in document.lines():
        is_dota = [False, *_are_numbers(words[1:])] == _DOTA_DETECTION
        first, numbers = _name_and_numbers(words, _SCORE_AND_BOX, where, is_dota)
        image, name = (document.stem, first) if class_of_file is None else (first, class_of_file)
        if image not in images:
            raise ValueError(f"{where}: {_unknown_image(document, image, name, images, classes)}")
        rows.append(Row(image, name, numbers[1:], numbers[0]))
    return rows


def _unknown_image(document: Document, image: str, class_of_file: str, images: set[str], classes: set[str]) -> str:
    """Return the message about a line without an image's name: its first word or the name of the file is wrong."""
    if class_of_file in classes:
        rule = f"its lines must begin with one, and all are of class {short_repr(class_of_file)}"
        unknown = f"unknown image {short_repr(image)}{suggest_name(image, images)}"
        return f"{unknown}; the file has no image's name, so that {rule}"
    fault = f"there are no ground truths for an image {short_repr(document.stem)}{suggest_name(document.stem, images)}"
    rule = f"the lines of a file of one class, here {short_repr(class_of_file)}, must begin with an image's name"
    return f"{fault}; {rule}, got {short_repr(image)}"


def _class_in(stem: str, classes: Iterable[str]) -> str:
    """Return the class in the name of a devkit's file. A space in a class may be an underscore there."""
    known = {name.replace(" ", "_"): name for name in classes} | {name: name for name in classes}
    official = _DEVKIT.fullmatch(stem)
    if official:
        return known.get(official[1], official[1])
    endings = [name for name in known if f"_{stem}".endswith(f"_{name}")]
    return known[max(endings, key=len)] if endings else stem.rsplit("_", 1)[-1]


def _are_numbers(words: list[str]) -> list[bool]:
    """Return which words are numbers."""
    return [_NUMBER.fullmatch(word) is not None for word in words]


def _name_and_numbers(words: list[str], numbers: int, where: str, is_dota: bool) -> tuple[str, list[float]]:
    """Return a name, which may contain spaces, and ``numbers`` numbers; the last four are a box."""
    detected, fault = numbers == _SCORE_AND_BOX, ""
    line = short_repr(" ".join(words))
    if is_dota:
        fault = f"got {line}, as in DOTA's files: --format dota (`read_dota`)"
    elif len(words) <= numbers:
        swapped = detected and len(words) == numbers
        fault = f"got {line}{' (as ground truths do: are the folders swapped?)' if swapped else ''}"
    elif len(words) > numbers + 1 and _FRACTION.fullmatch(words[-numbers - 1]):
        fault = f"but has one more: {line}{'' if detected else ' (as detections have: are the folders swapped?)'}"
    elif detected and words[-numbers].isalpha():
        got = f"{short_repr(words[-numbers])}; ground truths have none: are the folders swapped?"
        raise ValueError(f"{where}: the score must be a finite number, got {got}")
    if fault:
        raise ValueError(f"{where}: must contain a name and {numbers} numbers, {fault}")
    score = text.numbers(words[-numbers:-_BOX], where, "score")
    return " ".join(words[:-numbers]), score + parse_box(words[-_BOX:], where, "box")


def _corners(rows: list[Row], box_format: str) -> list[Row]:
    """Return the rows with boxes as corners."""
    if box_format == "xyxy" or not rows:
        return rows
    corners = boxes.to_xyxy(torch.tensor([row.box for row in rows], dtype=torch.float64), box_format).tolist()
    return [replace(row, box=box) for row, box in zip(rows, corners, strict=True)]


def _check_columns(unknown: set[str], classes: set[str], folder: str) -> None:
    """Raise ValueError for a class that is a known class and a number, such as a track id."""
    for name in sorted(unknown):
        first, _, last = name.rpartition(" ")
        if first in classes and last.isdecimal():
            fault = f"no ground truth is of class {short_repr(name)}, but some are of {short_repr(first)}"
            raise ValueError(f"{folder}: {fault}: the lines seem to have one more column, {short_repr(last)}")


def _check_not_yolo(rows: list[Row], folder: str) -> None:
    """Raise ValueError for class ids with fractions only, as in YOLO's files, whose columns differ."""
    if rows and all(row.name.isdecimal() and -0.1 <= min(row.box) <= max(row.box) <= _HIGHEST_FRACTION for row in rows):
        fault = "its classes are numbers and its boxes are in [0, 1], as in YOLO's files"
        raise ValueError(f"{folder}: {fault}: read them with --format yolo (`read_yolo`)")


def _check_score_first(rows: list[Row], folder: str) -> None:
    """Raise ValueError if the last number of all lines is a fraction and the first is not: the score is last."""
    last, first = [row.box[3] for row in rows], [row.further for row in rows]
    fractions = all(0 <= x <= 1 for x in last) and any(0 < x < 1 for x in last)
    if fractions and any(not 0 <= x <= 1 for x in first) and any(max(row.box) > 1 for row in rows):
        rule = "the score must come before the box: class, score, four numbers"
        raise ValueError(f"{folder}: the last number of every line is in [0, 1], as a score does; {rule}")
