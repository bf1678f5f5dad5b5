"""YOLO's text files of boxes, one per image, as input for the detection metrics.

| folder | a line is |
|---|---|
| ground truths | class id, centre x, centre y, width, height |
| detections | class id, centre x, centre y, width, height, confidence |

The four numbers are fractions of the image's width and height. The sizes are read from the headers of PNG and JPEG
files or from a file of sizes; no pixel is decoded.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from torch_ap.core.base.messages import raise_invalid, short_repr, suggest_name
from torch_ap.core.columns import text
from torch_ap.core.columns.literals import MAX_INTEGER_DIGITS
from torch_ap.detection.files import folders
from torch_ap.detection.files.entries import require
from torch_ap.detection.files.folders import Document, Folder
from torch_ap.detection.files.voc import Row, VocData, pack_rows

SUFFIXES = (".png", ".jpg", ".jpeg")
_OTHERS = (".bmp", ".gif", ".tif", ".tiff", ".webp", ".heic", ".avif", ".dng", ".mpo", ".pfm")
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # without two tables and a reserved marker
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}
_DATA, _END, _APP1 = 0xDA, 0xD9, 0xE1
_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)  # orientations with width and height exchanged

Size = tuple[int, int]
Names: TypeAlias = Sequence[str] | Mapping[int, str]


def image_sizes(source: Folder) -> dict[str, Size]:
    """Return width and height of each image by its name without suffix.

    Args:
        source: a folder of PNG and JPEG files; a UTF-8 text file with lines ``image width height``; or a mapping from
            the name of each image to its width and height.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, for an invalid header or line, or a name of two images.
    """
    if isinstance(source, Mapping):
        sizes = _sizes_in_mapping(source)
    else:
        sizes = _sizes_in_folder(Path(source)) if Path(source).is_dir() else _sizes_in_text(Path(source))
    out: dict[str, Size] = {}
    for where, name, size in sizes:
        if name in out:
            raise ValueError(f"{where}: image {short_repr(name)} must occur once, but occurs again")
        out[name] = size
    if not out:
        rule = "must be a folder with PNG or JPEG images, or a file of lines `image width height`"
        raise ValueError(f"{folders.folder_name(source, 'images')}: {rule}")
    return out


def image_size(path: str | Path) -> Size:
    """Return width and height of a PNG or JPEG image, with the orientation in a JPEG's Exif data applied.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming the file, for anything but a PNG or JPEG header.
    """
    with Path(path).open("rb") as file:
        start = file.read(2)
        try:
            size = _jpeg_size(file) if start == _JPEG else _png_size(start + file.read(22))
        except (struct.error, ValueError):
            size = (0, 0)
    if min(size) < 1:
        raise ValueError(f"{path}: must be a PNG or JPEG image with a whole header; give a file of sizes otherwise")
    return size


def _sizes_in_mapping(sizes: Mapping[str, Any]) -> Iterator[tuple[str, str, Size]]:
    """Yield the location, name and size of each entry."""
    for entry in folders.documents(sizes, "images"):
        numbers = [text.whole_number(word) or 0 for word in folders.row_text(entry.content, entry.where).split()]
        if len(numbers) != 2 or min(numbers) < 1:
            raise ValueError(f"{entry}: must be width and height, in whole pixels, got {short_repr(entry.content)}")
        yield entry.where, _image_name(entry.stem), (numbers[0], numbers[1])


def _sizes_in_folder(folder: Path) -> Iterator[tuple[str, str, Size]]:
    """Yield path, name and size of each image of a folder."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in SUFFIXES:
            yield str(path), path.stem, image_size(path)
        elif path.suffix.lower() in _OTHERS:
            raise ValueError(f"{path}: must be a PNG or JPEG image; give a file of sizes otherwise")


def _sizes_in_text(path: Path) -> Iterator[tuple[str, str, Size]]:
    """Yield the location, name and size of each line of a text file."""
    for where, words in text.lines(path):
        sizes = [text.whole_number(word) or 0 for word in words[-2:]]
        if len(words) < 3 or min(sizes) < 1:
            got = short_repr(" ".join(words))
            raise ValueError(f"{where}: must be `image width height`, in whole pixels, got {got}")
        yield where, _image_name(" ".join(words[:-2])), (sizes[0], sizes[1])


def _image_name(name: str) -> str:
    """Return the name of an image without the suffix of its file."""
    return Path(name).stem if Path(name).suffix.lower() in SUFFIXES + _OTHERS else name


def _png_size(header: bytes) -> Size:
    """Return the width and height at the beginning of the first chunk, IHDR."""
    if len(header) < 24 or not header.startswith(_PNG) or header[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def _jpeg_size(file: BinaryIO) -> Size:
    """Return the width and height in the first frame header; earlier Exif data may rotate the image."""
    sideways = False
    while True:
        marker = _next_marker(file)
        if marker in _WITHOUT_LENGTH:
            continue
        if marker in (_DATA, _END):
            raise ValueError
        (length,) = struct.unpack(">H", file.read(2))
        if marker in _FRAMES:
            height, width = struct.unpack(">xHH", file.read(5))
            return (height, width) if sideways else (width, height)
        segment = file.read(length - 2) if length >= 2 else b""
        if len(segment) != length - 2:
            raise ValueError
        if marker == _APP1 and segment.startswith(b"Exif\0\0"):
            sideways = _orientation(segment[6:]) in _SIDEWAYS


def _next_marker(file: BinaryIO) -> int:
    """Return the marker: the byte after one or more bytes 0xff."""
    byte = first = file.read(1)
    while byte == b"\xff":
        byte = file.read(1)
    if first != b"\xff" or not byte:
        raise ValueError
    return byte[0]


def _orientation(exif: bytes) -> int:
    """Return the orientation tag in the first directory of Exif data; 1, upright, for data without one."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    with suppress(struct.error):  # the image may be complete although its Exif data are cut off
        (at,) = struct.unpack_from(f"{order}I", exif, 4)
        (count,) = struct.unpack_from(f"{order}H", exif, at)
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, entry)
            if tag == _ORIENTATION:
                return int(value)
    return 1


_CLASSES = "classes"
_TRUTH_RANGE = (-0.01, 1.01)  # rounded labels may be slightly outside
_DETECTION_RANGE = (-1.0, 2.0)  # detected boxes may extend beyond the image
_FORM = "class cx cy w h"
DETECTED = f"{_FORM} confidence"


def read_yolo(
    ground_truths: Folder,
    detections: Folder,
    images: Folder | None = None,
    names: str | Path | Names | None = None,
    *,
    allow_empty: bool = False,
) -> VocData:
    """Read folders of YOLO's labels and of detections. Text is UTF-8.

    Args:
        ground_truths: folder of text files, one per image; an image without a file has no object. A
            ``classes.txt`` that belongs to no image names the classes, unless ``names`` is set. Or a mapping from the
            name of each image to the content of its file: text, bytes, a list of lines, or an (N, 5) array, tensor or
            table.
        detections: folder of text files, one per image, with the confidence at the end of each line (Ultralytics:
            ``save_txt=True, save_conf=True``). Or a mapping, with (N, 6) arrays.
        images: folder of PNG and JPEG images, whose sizes are read from their headers; a text file of the lines
            ``image width height``; or a mapping from the name of each image to its width and height. Default: the path
            of the ground truths with ``images`` in place of the last ``labels``.
        names: names of the classes, by id: a YAML file with ``names`` (needs PyYAML), a text file with one per line, a
            list or a mapping.
        allow_empty: whether the folder of detections may lack text files.

    Returns:
        Boxes as corners in pixels. Their sizes lack the extra pixel of VOC's boxes: set ``inclusive_pixels=False``.
        Without names, the names of the classes are their ids.

    Raises:
        ValueError: for a folder without files, an invalid line, numbers that are not fractions, an unknown image or
            class; the message names file and line, or key and line of a mapping.
        TypeError: for another type than a path or a mapping with text as keys.
        ModuleNotFoundError: for YAML without PyYAML.

    Example:
        >>> import pathlib, tempfile
        >>> import torch
        >>> from torch_ap.detection.files.yolo import read_yolo
        >>> from torch_ap.detection.functions import voc_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name, line in (("truth", "0 0.5 0.5 0.2 0.2"), ("found", "0 0.5 0.5 0.2 0.25 0.9")):
        ...     (folder / name).mkdir()
        ...     _ = (folder / name / "one.txt").write_text(line)
        >>> _ = (folder / "sizes.txt").write_text("one.jpg 640 480")
        >>> data = read_yolo(folder / "truth", folder / "found", folder / "sizes.txt")
        >>> voc_mean_average_precision(data.preds, data.target, inclusive_pixels=False)["map"]
        tensor(1., dtype=torch.float64)
        >>> found = {"one": torch.tensor([[0, 0.5, 0.5, 0.25, 0.5, 0.9]])}
        >>> data = read_yolo({"one": "0 0.5 0.5 0.25 0.5"}, found, {"one": (640, 480)}, ["cat"])
        >>> data.preds["boxes"], data.class_names
        (tensor([[240., 120., 400., 360.]], dtype=torch.float64), ['cat'])
    """
    files = folders.documents(ground_truths, "ground_truths")
    image_source = _image_folder(ground_truths) if images is None else images
    sizes, source = image_sizes(image_source), folders.folder_name(image_source, "images")
    classes = next((file for file in files if file.stem == _CLASSES and _CLASSES not in sizes), None)
    files = [file for file in files if file is not classes]
    folders.check_truths(ground_truths, files)
    source_of_names = names if names is not None else classes
    by_id = None if source_of_names is None else class_names(source_of_names)
    truths = [row for file in files for row in _rows(file, sizes, source, by_id, False)]
    detected = folders.detection_documents(detections, allow_empty)
    rows = [row for file in detected for row in _rows(file, sizes, source, by_id, True)]
    ids = sorted({int(row.name) for row in (*truths, *rows)})
    data = pack_rows(truths, rows, sorted(sizes), list(map(str, ids)), dict(sizes))
    return data if by_id is None else replace(data, class_names=[by_id[class_id] for class_id in ids])


def class_names(source: str | Path | Document | Names) -> dict[int, str]:
    """Read the names of classes by id from ``names`` of a YAML file, the lines of a text file, a list or a mapping.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and entry, for names that are not text, repeated names and repeated keys.
        ModuleNotFoundError: for YAML without PyYAML.
    """
    names: dict[int, str]
    if isinstance(source, str | Path | Document):
        path = str(source)
        content = source.read() if isinstance(source, Document) else text.read(source)
        if path.lower().endswith((".yaml", ".yml")):
            names = _yaml_names(content, path)
        else:
            names = dict(enumerate(map(str.strip, re.split("\r\n|\r|\n", content.rstrip()))))
    else:
        path = "`names`"
        names = _names_by_id(source, f"{path}: must be a path, a list or a mapping of class ids", path)
    seen: dict[str, int] = {}
    for class_id, name in names.items():
        if not name or name in seen:
            fault = f"{short_repr(name)} is class {seen[name]} too" if name else "a name is missing"
            raise ValueError(f"{path}: class {class_id}: {fault}")
        seen[name] = class_id
    if not names:
        raise ValueError(f"{path}: must name the classes, but names none")
    return names


def _yaml_names(content: str, path: str) -> dict[int, str]:
    """Return the names of classes by id in a YAML file."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{path}: YAML needs PyYAML: pip install pyyaml (extra `detection`)") from None
    try:
        loader = yaml.SafeLoader(content)
        node = loader.get_single_node()
        fault = _yaml_fault(node, loader)
        loaded: Any = None if node is None or fault else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as reason:
        mark = getattr(reason, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(reason, "problem", None) or str(reason)
        raise ValueError(f"{path}{line}: must be YAML: {short_repr(problem)}") from None
    if fault:
        raise ValueError(f"{path}, {fault}")
    names: Any = loaded.get("names") if isinstance(loaded, dict) else None
    return _names_by_id(names, f"{path}: must have 'names', a list or a mapping of class ids", path)


def _names_by_id(names: Any, rule: str, path: str) -> dict[int, str]:
    """Return the names of classes by id in a list or a mapping."""
    if isinstance(names, list | tuple):
        names = dict(enumerate(names))
    require(isinstance(names, Mapping), rule, names)
    for class_id, name in names.items():
        is_id = isinstance(class_id, int) and not isinstance(class_id, bool) and class_id >= 0
        require(is_id, f"{path}: a class id must be a whole number of at least 0", class_id)
        is_text = isinstance(name, str | int) and not isinstance(name, bool)
        require(is_text, f"{path}: class {class_id}: the name must be text (in quotes)", name)
    return {class_id: " ".join(str(name).split()) for class_id, name in names.items()}


def _yaml_fault(node: Any, loader: Any) -> str:
    """Return the message about a repeated key in a mapping or about an integer of thousands of digits; else ""."""
    pending, seen = [node], set()
    while pending:
        node = pending.pop()
        if node is None or id(node) in seen:  # nodes may contain themselves
            continue
        seen.add(id(node))
        if node.id == "scalar" and len(node.value) > MAX_INTEGER_DIGITS and node.tag.endswith(":int"):
            return f"line {node.start_mark.line + 1}: a whole number of thousands of digits"
        keys: set[Any] = set()
        for key, value in node.value if node.id == "mapping" else ():
            pending += [key, value]
            plain = key.id == "scalar" and len(key.value) < MAX_INTEGER_DIGITS and not key.tag.endswith(":merge")
            name = loader.construct_object(key) if plain else id(key)
            if name in keys:
                fault = f"the key {short_repr(name)} must occur once, but occurs twice"
                return f"line {key.start_mark.line + 1}: {fault}"
            keys.add(name)
        if node.id == "sequence":
            pending += node.value
    return ""


def _image_folder(ground_truths: Folder) -> Path:
    """Return the folder ``images`` that corresponds to the folder ``labels``."""
    if isinstance(ground_truths, Mapping):
        raise_invalid("images", "must be a mapping of sizes or a path, if `ground_truths` is a mapping", None)
    parts = list(Path(ground_truths).resolve().parts)
    indices = [index for index, name in enumerate(parts) if name == "labels"]
    if indices:
        parts[indices[-1]] = "images"
    folder = Path(*parts)
    if not indices or not folder.is_dir():
        also = f"; there is no folder {folder}" if indices else ""
        raise ValueError(f"{ground_truths}: give the folder of its images, or a file of their sizes, as --images{also}")
    return folder


def _rows(
    document: Document, sizes: Mapping[str, Size], source: str, names: Mapping[int, str] | None, detected: bool
) -> list[Row]:
    """Return the boxes of one image as corners in pixels, with ids as names of the classes."""
    if document.stem not in sizes:
        got = f"{short_repr(document.stem)}{suggest_name(document.stem, sizes)}"
        raise ValueError(f"{document}: no image in {source} has the name {got}")
    width, height = sizes[document.stem]
    form = DETECTED if detected else _FORM
    columns, rows = len(form.split()), []
    for where, words in document.lines():
        class_id = text.whole_number(words[0])
        if len(words) != columns:
            also = _hint(len(words), detected)
            raise ValueError(f"{where}: must have {columns} columns, {form}, got {len(words)}{also}")
        if class_id is None or (names is not None and class_id not in names):
            known = "" if class_id is None else " that has a name"
            raise ValueError(f"{where}: the class must be an id{known}, got {short_repr(words[0])}")
        cx, cy, w, h, *confidence = _fractions(words[1:], where, detected)
        box = [(cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height]
        rows.append(Row(document.stem, str(class_id), box, confidence[0] if detected else 0.0))
    return rows


def _hint(columns: int, detected: bool) -> str:
    """Return the end of a message about the number of columns."""
    if detected:
        hint = " (detections need their confidence: save_conf=True; or are the folders swapped?)"
        return hint if columns == 5 else ""
    if columns == 6:
        return " (are these detections, and the folders swapped?)"
    return " (polygons are not boxes)" if columns > 6 and columns % 2 else ""


def _fractions(words: list[str], where: str, detected: bool) -> list[float]:
    """Return the numbers of a line: a box in fractions of the image's size, and the confidence of a detection."""
    values = text.numbers(words, where, "box and confidence" if detected else "box")
    low, high = _DETECTION_RANGE if detected else _TRUTH_RANGE
    if not all(low <= value <= high for value in values[:4]) or min(values[2:4]) < 0:
        got = short_repr(" ".join(words[:4]))
        raise ValueError(f"{where}: a box must contain fractions of the image's width and height, 0 to 1, got {got}")
    if detected and not 0 <= values[4] <= 1:
        raise ValueError(f"{where}: the confidence must be in [0, 1], got {short_repr(words[4])}")
    return values
