"""YOLO's text files of boxes, one per image, as input for the detection metrics.

| folder | a line is |
|---|---|
| ground truths | class id, centre x, centre y, width, height |
| detections | class id, centre x, centre y, width, height, confidence |

The four numbers are fractions of the image's width and height, which are read from the images.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_ap.files import text
from torch_ap.files.box_rows import Row, VocData, packed, text_files
from torch_ap.files.entries import MOST_DIGITS
from torch_ap.files.image_sizes import Size, image_sizes
from torch_ap.rules.messages import nearest, shown

_CLASSES = "classes"
_TRUTH_RANGE = (-0.01, 1.01)  # rounded labels may lie a little outside
_FOUND_RANGE = (-1.0, 2.0)  # detected boxes may extend beyond the image
_FORM = "class cx cy w h"
DETECTED = f"{_FORM} confidence"


def read_yolo(
    ground_truths: str | Path,
    detections: str | Path,
    images: str | Path | None = None,
    names: str | Path | None = None,
    *,
    allow_empty: bool = False,
) -> VocData:
    """Read folders of YOLO's labels and of detections. Text is UTF-8.

    Args:
        ground_truths: folder of text files, one per image; an image without a file has no object. A
            ``classes.txt`` that belongs to no image names the classes, unless ``names`` does.
        detections: folder of text files, one per image, with the confidence at the end of each line (Ultralytics:
            ``save_txt=True, save_conf=True``).
        images: folder of PNG and JPEG images, whose sizes are read from their headers; or a text file of the lines
            ``image width height``. Default: the folder of the ground truths with ``images`` for the last ``labels``.
        names: names of the classes, by id: a YAML file with ``names`` (needs PyYAML), or a text file with one per line.
        allow_empty: whether the folder of detections may lack text files.

    Returns:
        Boxes as corners in pixels. Their sizes have no extra pixel as VOC's have: give ``inclusive_pixels=False``.
        Without names, classes are called by their ids.

    Raises:
        ValueError: for a folder without files, a line that cannot be read, numbers that are not fractions, an unknown
            image or class; the message names file and line.
        ModuleNotFoundError: for YAML without PyYAML.

    Example:
        >>> import pathlib, tempfile
        >>> from torch_ap.files.yolo import read_yolo
        >>> from torch_ap.functional.detection import voc_mean_average_precision
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name, line in (("truth", "0 0.5 0.5 0.2 0.2"), ("found", "0 0.5 0.5 0.2 0.25 0.9")):
        ...     (folder / name).mkdir()
        ...     _ = (folder / name / "one.txt").write_text(line)
        >>> _ = (folder / "sizes.txt").write_text("one.jpg 640 480")
        >>> data = read_yolo(folder / "truth", folder / "found", folder / "sizes.txt")
        >>> voc_mean_average_precision(data.preds, data.target, inclusive_pixels=False)["map"]
        tensor(1., dtype=torch.float64)
    """
    source = _images_of(ground_truths) if images is None else Path(images)
    sizes = image_sizes(source)
    files = sorted(Path(ground_truths).glob("*.txt"))
    classes = next((path for path in files if path.stem == _CLASSES and _CLASSES not in sizes), None)
    files = [path for path in files if path != classes]
    if not Path(ground_truths).exists():
        raise ValueError(f"{ground_truths}: no such folder")
    if not files:
        raise ValueError(f"{ground_truths}: must be a folder with .txt files, one per image")
    named = names if names is not None else classes
    by_id = None if named is None else class_names(named)
    truths = [row for path in files for row in _rows(path, sizes, source, by_id, False)]
    found = [row for path in text_files(detections, allow_empty) for row in _rows(path, sizes, source, by_id, True)]
    ids = sorted({int(row.name) for row in (*truths, *found)})
    data = packed(truths, found, sorted(sizes), [str(one) for one in ids], dict(sizes))
    if by_id is None:
        return data
    return VocData(data.preds, data.target, data.images, [by_id[one] for one in ids], data.sizes)


def class_names(path: str | Path) -> dict[int, str]:
    """Names of classes by id: ``names`` of a YAML file, a list or a mapping of ids; or the lines of a text file.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and entry, for names that are not text or are given twice, and for repeated keys.
        ModuleNotFoundError: for YAML without PyYAML.
    """
    path = Path(path)
    content = text.read(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        named = _of_yaml(content, path)
    else:
        named = {place: line.strip() for place, line in enumerate(re.split("\r\n|\r|\n", content.rstrip()))}
    seen: dict[str, int] = {}
    for one, name in named.items():
        if not name or name in seen:
            fault = f"{shown(name)} is class {seen[name]} too" if name else "a name is missing"
            raise ValueError(f"{path}: class {one}: {fault}")
        seen[name] = one
    if not named:
        raise ValueError(f"{path}: must name the classes, but names none")
    return named


def _of_yaml(content: str, path: Path) -> dict[int, str]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{path}: YAML needs PyYAML: pip install pyyaml (extra `detection`)") from None
    try:
        loader = yaml.SafeLoader(content)
        node = loader.get_single_node()
        fault = _fault_of(node, loader)
        loaded: Any = None if node is None or fault else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as reason:
        mark = getattr(reason, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(reason, "problem", None) or str(reason)
        raise ValueError(f"{path}{line}: must be YAML: {shown(problem)}") from None
    if fault:
        raise ValueError(f"{path}, {fault}")
    names = loaded.get("names") if isinstance(loaded, dict) else None
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, dict):
        raise ValueError(f"{path}: must have 'names', a list or a mapping of class ids, got {shown(names)}")
    for one, name in names.items():
        if isinstance(one, bool) or not isinstance(one, int) or one < 0:
            raise ValueError(f"{path}: a class id must be a whole number of at least 0, got {shown(one)}")
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ValueError(f"{path}: class {one}: the name must be text (in quotes), got {shown(name)}")
    return {one: " ".join(str(name).split()) for one, name in names.items()}


def _fault_of(node: Any, loader: Any) -> str:
    """A key given twice in one mapping (the last would win), or a whole number of thousands of digits; else ""."""
    pending, seen = [node], set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:  # nodes may contain themselves
            continue
        seen.add(id(one))
        if one.id == "scalar" and len(one.value) > MOST_DIGITS and one.tag.endswith(":int"):
            return f"line {one.start_mark.line + 1}: a whole number of thousands of digits"
        keys: set[Any] = set()
        for key, value in one.value if one.id == "mapping" else ():
            pending += [key, value]
            plain = key.id == "scalar" and len(key.value) < MOST_DIGITS and not key.tag.endswith(":merge")
            name = loader.construct_object(key) if plain else id(key)
            if name in keys:
                return f"line {key.start_mark.line + 1}: the key {shown(name)} must be given once, but is given twice"
            keys.add(name)
        if one.id == "sequence":
            pending += one.value
    return ""


def _images_of(ground_truths: str | Path) -> Path:
    """The folder that stands beside the folder of labels."""
    parts = list(Path(ground_truths).resolve().parts)
    places = [place for place, part in enumerate(parts) if part == "labels"]
    if places:
        parts[places[-1]] = "images"
    folder = Path(*parts)
    if not places or not folder.is_dir():
        also = f"; there is no folder {folder}" if places else ""
        raise ValueError(f"{ground_truths}: give the folder of its images, or a file of their sizes, as --images{also}")
    return folder


def _rows(
    path: Path, sizes: Mapping[str, Size], source: Path, names: Mapping[int, str] | None, detected: bool
) -> list[Row]:
    """The boxes of one image, as corners in pixels; classes by id."""
    if path.stem not in sizes:
        raise ValueError(f"{path}: no image in {source} has the name {shown(path.stem)}{nearest(path.stem, sizes)}")
    width, height = sizes[path.stem]
    columns, form = (6, DETECTED) if detected else (5, _FORM)
    rows = []
    for where, words in text.lines(path):
        one = text.whole_number(words[0])
        if len(words) != columns:
            also = _why(len(words), detected)
            raise ValueError(f"{where}: must have {columns} columns, {form}, got {len(words)}{also}")
        if one is None or (names is not None and one not in names):
            known = "" if one is None else " that has a name"
            raise ValueError(f"{where}: the class must be an id{known}, got {shown(words[0])}")
        cx, cy, w, h, *confidence = _fractions(words[1:], where, detected)
        box = [(cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height]
        rows.append(Row(path.stem, str(one), box, confidence[0] if detected else 0.0))
    return rows


def _why(columns: int, detected: bool) -> str:
    if detected:
        hint = " (detections need their confidence: save_conf=True; or are the folders swapped?)"
        return hint if columns == 5 else ""
    if columns == 6:
        return " (are these detections, and the folders swapped?)"
    return " (polygons are not boxes)" if columns > 6 and columns % 2 else ""


def _fractions(words: list[str], where: str, detected: bool) -> list[float]:
    """The numbers of a line: a box in fractions of the image's size, and the confidence of a detection."""
    values = text.numbers(words, where, "box and confidence" if detected else "box")
    low, high = _FOUND_RANGE if detected else _TRUTH_RANGE
    if not all(low <= value <= high for value in values[:4]) or min(values[2:4]) < 0:
        got = shown(" ".join(words[:4]))
        raise ValueError(f"{where}: a box must hold fractions of the image's width and height, 0 to 1, got {got}")
    if detected and not 0 <= values[4] <= 1:
        raise ValueError(f"{where}: the confidence must lie in [0, 1], got {shown(words[4])}")
    return values
