"""DOTA's text files of quadrilaterals in aerial images, as input of the detection metrics.

| folder | one file per | a line is |
|---|---|---|
| ground truths (``labelTxt``) | image | x1 y1 x2 y2 x3 y3 x4 y4 class difficult; ``imagesource:``; ``gsd:`` |
| detections (Task 1) | class (its name is ``Task1_<class>``) | image, score, x1 y1 x2 y2 x3 y3 x4 y4 |
"""

from collections.abc import Collection

import torch

from torch_ap.core.base.messages import short_repr, suggest_name
from torch_ap.core.columns import text
from torch_ap.detection.files import folders
from torch_ap.detection.files.folders import Document, Folder
from torch_ap.detection.files.voc import Row, VocData, pack_rows, parse_box
from torch_ap.detection.inputs.rules import RULES

_CORNERS = 8
_TASK = "Task1_"
_DIFFICULT = ("0", "1", "2")  # the devkit writes 2 for objects that it cuts with their images
_HEADERS = ("imagesource:", "gsd:")


def read_dota(ground_truths: Folder, detections: Folder, *, allow_empty: bool = False) -> VocData:
    """Read DOTA's folders of ground truths and of detections. Text is UTF-8.

    Args:
        ground_truths: folder of text files, one per image. Objects with 1 or 2 as the last word of the line are
            difficult, as in the devkit, which writes 2 for an object that it cuts with its image. Or a mapping from
            the name of each image to the content of its file: text, bytes, a list of lines, or a table of rows.
        detections: folder of text files, one per class, named ``Task1_plane.txt`` or ``plane.txt``; or a mapping with
            the keys ``Task1_plane`` or ``plane``.
        allow_empty: whether the folder of detections may lack text files.

    Returns:
        ``boxes`` (N, 8), corners in pixels, ``box_format`` "xyxyxyxy" with ``iou_type="rotated"``.

    Raises:
        ValueError: for a folder without files, a line that cannot be read, an unknown image or class, a class with two
            files, detections without any ground truth, corners that are all in [0, 1] and therefore not in pixels, and
            edges that cross; the message names file and line, or key and line of a mapping.
        TypeError: for another type than a path or a mapping with text as keys.

    Example:
        >>> import pathlib, tempfile
        >>> from torch_ap.detection.files.dota import read_dota
        >>> from torch_ap.detection.functions import voc_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> corners = "10 0 20 10 10 20 0 10"
        >>> for kind, name, line in (("t", "P1", f"{corners} ship 0"), ("d", "Task1_ship", f"P1 0.9 {corners}")):
        ...     (folder / kind).mkdir()
        ...     _ = (folder / kind / f"{name}.txt").write_text(line)
        >>> data = read_dota(folder / "t", folder / "d")
        >>> voc_mean_average_precision(data.preds, data.target, "xyxyxyxy", iou_type="rotated")["map"]
        tensor(1., dtype=torch.float64)
    """
    files = folders.documents(ground_truths, "ground_truths")
    folders.check_truths(ground_truths, files)
    truths = [row for file in files for row in _objects(file)]
    names, images = sorted({row.name for row in truths}), [file.stem for file in files]
    known, found = set(images), folders.detection_documents(detections, allow_empty)
    classes = folders.documents_by_class(found, lambda stem: stem.removeprefix(_TASK))
    rows = [row for file, name in classes for row in _detections(file, name, known, names)]
    truth_name = folders.folder_name(ground_truths, "ground_truths")
    if rows and not truths:
        raise ValueError(f"{truth_name}: the ground truths contain no object")
    for boxes, folder in ((truths, truth_name), (rows, folders.folder_name(detections, "detections"))):
        corners = torch.tensor([row.box for row in boxes], dtype=torch.float64).reshape(-1, _CORNERS)
        if boxes and bool(((corners >= 0) & (corners <= 1)).all()):
            raise ValueError(f"{folder}: all corners are in [0, 1]; they must be in pixels of the image")
        rule = RULES["uncrossed"]  # checked here to report the line
        for index in rule.offends(corners).nonzero()[:1, 0].tolist():
            got = f"{short_repr(boxes[index].box)}; put these in order, or leave the line out"
            raise ValueError(f"{boxes[index].where}: the corners {rule.rule}, got {got}")
    return pack_rows(truths, rows, images, names, {})


def _objects(document: Document) -> list[Row]:
    """Return the objects of one image."""
    rows = []
    for where, words in document.lines():
        if words[0].lower().startswith(_HEADERS):
            continue
        if len(words) < _CORNERS + 2:
            also = ", as detections have: are the folders swapped?" if document.stem.startswith(_TASK) else ""
            got = f"{short_repr(' '.join(words))}{also}"
            raise ValueError(f"{where}: must contain 8 numbers, a class and whether it is difficult, got {got}")
        if words[-1] not in _DIFFICULT:
            raise ValueError(f"{where}: difficult must be 0, 1 or 2, got {short_repr(words[-1])}")
        box = parse_box(words[:_CORNERS], where, "corners")
        rows.append(Row(document.stem, " ".join(words[_CORNERS:-1]), box, float(words[-1] != "0"), where))
    return rows


def _detections(document: Document, name: str, images: Collection[str], classes: Collection[str]) -> list[Row]:
    """Return the detections of one class."""
    if name not in classes and classes:
        swapped = "; the file has an image's name, as ground truths have: are the folders swapped?"
        also = swapped if name in images else suggest_name(name, classes)
        raise ValueError(f"{document}: no ground truth is of class {short_repr(name)}{also}")
    rows = []
    for where, words in document.lines():
        if len(words) != _CORNERS + 2:
            raise ValueError(
                f"{where}: must contain an image, a score and 8 numbers, got {short_repr(' '.join(words))}"
            )
        if words[0] not in images:
            raise ValueError(f"{where}: unknown image {short_repr(words[0])}{suggest_name(words[0], images)}")
        score = text.numbers(words[1:2], where, "score")[0]
        rows.append(Row(words[0], name, parse_box(words[2:], where, "corners"), score, where))
    return rows
