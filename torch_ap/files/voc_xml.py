"""PASCAL VOC's XML annotations: the objects of an image, and its size."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from torch_ap.files import text
from torch_ap.files.box_rows import Row, box
from torch_ap.rules.messages import LONGEST, shown

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def root_of(path: Path) -> ElementTree.Element:
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


def objects(path: Path, root: ElementTree.Element) -> list[Row]:
    """The objects of one annotation."""
    rows = []
    for place, item in enumerate(root.iter("object")):
        where = f"{path}: object {place + 1}"
        _once(item, ("name", "bndbox", "difficult"), where)
        _once(item.find("bndbox"), _CORNERS, where)
        name = " ".join((item.findtext("name") or "").split())
        if not name:
            raise ValueError(f"{where}: must have a 'name'")
        corners = [(item.findtext(f"bndbox/{corner}") or "").strip() for corner in _CORNERS]
        if "" in corners:
            raise ValueError(f"{where}: must have a 'bndbox' with {', '.join(map(repr, _CORNERS))}")
        found = box(corners, where, "bndbox")
        if found[2] < found[0] or found[3] < found[1]:
            raise ValueError(f"{where}: bndbox must have xmin <= xmax and ymin <= ymax, got {shown(found)}")
        difficult = (item.findtext("difficult") or "0").strip()
        if difficult not in ("0", "1"):
            raise ValueError(f"{where}: 'difficult' must be 0 or 1, got {shown(difficult)}")
        rows.append(Row(path.stem, name, found, float(difficult)))
    return rows


def _once(element: ElementTree.Element | None, tags: Sequence[str], where: str) -> None:
    for tag in tags:
        if element is not None and len(element.findall(tag)) > 1:
            raise ValueError(f"{where}: <{tag}> must be given once, and is given twice")


def size_in(root: ElementTree.Element) -> tuple[float, float]:
    """Width and height of an annotation's image; NaN unless both are whole numbers above 0, since many files have 0."""
    width, height = (text.whole_number((root.findtext(f"size/{key}") or "").strip()) for key in ("width", "height"))
    return (width, height) if width and height else (math.nan, math.nan)
