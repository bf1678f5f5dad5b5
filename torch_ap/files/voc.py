"""PASCAL VOC's XML annotations and text files of boxes, as input of the detection metrics.

| folder | one file per | a line is |
|---|---|---|
| XML ground truths | image | – |
| text ground truths | image | class, four numbers, perhaps "difficult" |
| text detections | image (its name is the image's) | class, score, four numbers |
| the devkit's detections | class (its name ends in ``_<class>.txt``) | image, score, four numbers |
"""

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch

from torch_ap.files import box_rows, text, voc_xml
from torch_ap.files.box_rows import Row, VocData, packed, text_files
from torch_ap.geometry import boxes
from torch_ap.rules import checks
from torch_ap.rules.messages import nearest, shown

_FRACTION = re.compile(r"[-+]?[0-9]*\.[0-9]+(e[-+]?[0-9]+)?")
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?")
_QUADRILATERAL = [True] * 8 + [False]  # eight numbers and a class
_OF_DOTA = 10  # image, score and eight numbers
_MOST_OF_YOLO, _OF_DETECTIONS = 1.1, 5
_DEVKIT = re.compile(r"comp\d+_(?:det|cls)_(?:train|val|trainval|test)(?:_?\d+)?_(.+)")


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
    if not Path(ground_truths).exists():
        raise ValueError(f"{ground_truths}: no such folder")
    if not xml and not texts:
        also = " (COCO's JSON is for torch-ap coco)" if Path(ground_truths).is_file() else ""
        raise ValueError(f"{ground_truths}: must be a folder with .xml or .txt files, one per image{also}")
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
        annotations = {path.stem: voc_xml.root_of(path) for path in xml}
        truths = [row for path in xml for row in voc_xml.objects(path, annotations[path.stem])]
        sizes = {name: voc_xml.size_in(root) for name, root in annotations.items()}
    else:
        lines = [row for path in texts for row in _of_text(path, box_format)]
        _refuse_yolo(lines, ground_truths)
        truths = _corners(lines, box_format)
    files = text_files(detections, allow_empty)
    known = {row.name for row in truths}
    class_of = _classes_of_files(files, set(images), known)
    found = [row for path in files for row in _detections(path, set(images), known, class_of.get(path))]
    _refuse_yolo(found, detections)
    _refuse_score_behind(found, detections)
    names = sorted(known.union(row.name for row in found))
    _refuse_further_column(set(names) - known, known, detections)
    return packed(truths, _corners(found, box_format), images, names, sizes)


def _of_text(path: Path, box_format: str) -> list[Row]:
    """The ground truths of one image: class, four numbers, perhaps "difficult"."""
    rows = []
    for where, words in text.lines(path):
        if words[0].startswith("imagesource:") or list(map(bool, map(_NUMBER.fullmatch, words[:9]))) == _QUADRILATERAL:
            got = f"got {shown(' '.join(words))}, as in DOTA's files: --format dota (`read_dota`)"
            raise ValueError(f"{where}: must hold a name and 4 numbers, {got}")
        hard = words[-1] == "difficult" and len(words) > 5
        name, box = _named(words[:-1] if hard else words, 4, where)
        sizes = (box[2] - box[0], box[3] - box[1]) if box_format == "xyxy" else box[2:]
        if min(sizes) < 0:
            yolo = name.isdecimal() and max(box) <= _MOST_OF_YOLO
            also = "in [0, 1], as in YOLO's files: --format yolo (`read_yolo`)" if yolo else "see --box-format"
            if name.split()[-1].isdecimal() and " " in name:
                also = f"the class is {shown(name)}: is there a number more than a name and a box?"
            raise ValueError(f"{where}: must have no negative size as {box_format}, got {shown(box)} ({also})")
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


def _detections(path: Path, images: set[str], classes: set[str], class_of_file: str | None) -> list[Row]:
    """The detections of one file, of an image or of a class."""
    rows = []
    for where, words in text.lines(path):
        if len(words) == _OF_DOTA and all(map(_NUMBER.fullmatch, words[1:])):
            got = f"got {shown(' '.join(words))}, as in DOTA's files: --format dota (`read_dota`)"
            raise ValueError(f"{where}: must hold a name and {_OF_DETECTIONS} numbers, {got}")
        first, numbers = _named(words, _OF_DETECTIONS, where)
        image, name = (path.stem, first) if class_of_file is None else (first, class_of_file)
        if image not in images:
            raise ValueError(f"{where}: {_unknown_image(path, image, name, images, classes)}")
        rows.append(Row(image, name, numbers[1:], numbers[0]))
    return rows


def _unknown_image(path: Path, image: str, class_of_file: str, images: set[str], classes: set[str]) -> str:
    """What is wrong with a line of a file that has no image's name: its first word, or the name of the file."""
    if class_of_file in classes:
        return (
            f"unknown image {shown(image)}{nearest(image, images)}; the file has no image's name, so that its lines "
            f"must begin with one, and all are of class {shown(class_of_file)}"
        )
    return (
        f"there are no ground truths for an image {shown(path.stem)}{nearest(path.stem, images)}; the lines of a file "
        f"of one class, here {shown(class_of_file)}, must begin with an image's name, got {shown(image)}"
    )


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
        also = " (as ground truths do: are the folders swapped?)" if numbers == len(words) == _OF_DETECTIONS else ""
        raise ValueError(f"{where}: must hold a name and {numbers} numbers, got {shown(' '.join(words))}{also}")
    if numbers == _OF_DETECTIONS and words[-numbers].isalpha():
        got = f"{shown(words[-numbers])}; ground truths have none: are the folders swapped?"
        raise ValueError(f"{where}: the score must be a finite number, got {got}")
    score = text.numbers(words[-numbers:-4], where, "score")
    if len(words) > numbers + 1 and _FRACTION.fullmatch(words[-numbers - 1]):
        also = "" if numbers == _OF_DETECTIONS else " (as detections have: are the folders swapped?)"
        one_more = f"but has one more: {shown(' '.join(words))}{also}"
        raise ValueError(f"{where}: must hold a name and {numbers} numbers, {one_more}")
    return " ".join(words[:-numbers]), score + box_rows.box(words[-4:], where, "box")


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
    if rows and all(row.name.isdecimal() and min(row.box) >= -0.1 and max(row.box) <= _MOST_OF_YOLO for row in rows):
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
