"""Width and height of images, from the headers of PNG and JPEG files or from a file of sizes; no pixel is decoded."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from torch_ap.files import text
from torch_ap.rules.messages import shown

SUFFIXES = (".png", ".jpg", ".jpeg")
_OTHERS = (".bmp", ".gif", ".tif", ".tiff", ".webp", ".heic", ".avif", ".dng", ".mpo", ".pfm")
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the other three are two tables and a reserved marker
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}
_DATA, _END, _APP1 = 0xDA, 0xD9, 0xE1
_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)  # orientations that are shown with width and height exchanged

Size = tuple[int, int]


def image_sizes(path: str | Path) -> dict[str, Size]:
    """Width and height of each image by its name without suffix.

    Args:
        path: a folder of PNG and JPEG files; or a UTF-8 text file with lines ``image width height``.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, for a header or a line that cannot be read, or a name that two images have.
    """
    path = Path(path)
    out: dict[str, Size] = {}
    for where, name, size in _of_folder(path) if path.is_dir() else _of_lines(path):
        if name in out:
            raise ValueError(f"{where}: image {shown(name)} must be given once, but is given again")
        out[name] = size
    if not out:
        raise ValueError(f"{path}: must be a folder with PNG or JPEG images, or a file of lines `image width height`")
    return out


def image_size(path: str | Path) -> Size:
    """Width and height of a PNG or JPEG image as it is shown, with the orientation in a JPEG's Exif data applied.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming the file, for anything but a PNG or JPEG header.
    """
    with Path(path).open("rb") as file:
        start = file.read(2)
        try:
            size = _of_jpeg(file) if start == _JPEG else _of_png(start + file.read(22))
        except (struct.error, ValueError):
            size = (0, 0)
    if min(size) < 1:
        raise ValueError(f"{path}: must be a PNG or JPEG image with a whole header; give a file of sizes otherwise")
    return size


def _of_folder(folder: Path) -> Iterator[tuple[str, str, Size]]:
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in SUFFIXES:
            yield str(path), path.stem, image_size(path)
        elif path.suffix.lower() in _OTHERS:
            raise ValueError(f"{path}: must be a PNG or JPEG image; give a file of sizes otherwise")


def _of_lines(path: Path) -> Iterator[tuple[str, str, Size]]:
    for where, words in text.lines(path):
        sizes = [text.whole_number(word) or 0 for word in words[-2:]]
        if len(words) < 3 or min(sizes) < 1:
            raise ValueError(f"{where}: must be `image width height`, in whole pixels, got {shown(' '.join(words))}")
        name = " ".join(words[:-2])
        yield where, Path(name).stem if Path(name).suffix.lower() in SUFFIXES + _OTHERS else name, (sizes[0], sizes[1])


def _of_png(header: bytes) -> Size:
    """Width and height from the first chunk, IHDR, which begins with them."""
    if len(header) < 24 or not header.startswith(_PNG) or header[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def _of_jpeg(file: BinaryIO) -> Size:
    """Width and height from the first frame header; Exif data before it may turn the image."""
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
    """The marker: the byte after one or more bytes 0xff."""
    if file.read(1) != b"\xff":
        raise ValueError
    byte = b"\xff"
    while byte == b"\xff":
        byte = file.read(1)
    if not byte:
        raise ValueError
    return byte[0]


def _orientation(exif: bytes) -> int:
    """The orientation tag in the first directory of Exif data; 1, upright, where there is none."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return 1
    try:
        (at,) = struct.unpack_from(f"{order}I", exif, 4)
        (count,) = struct.unpack_from(f"{order}H", exif, at)
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, entry)
            if tag == _ORIENTATION:
                return int(value)
    except struct.error:  # Exif data that are cut off say nothing; the image itself may be whole
        return 1
    return 1
