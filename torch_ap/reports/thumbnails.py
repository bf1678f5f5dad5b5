"""Thumbnails of image files for a page, in the bytes that the rest of the page leaves."""

import io
import os
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

_MOST_BYTES, _LEAST_BYTES = 24_000, 300  # of one thumbnail
_MOST_SIDE, _LEAST_SIDE = 320, 16  # pixels of the longer side
_QUALITY = 50  # of WebP
_BYTES_PER_PIXEL = 0.06  # of a square around a typical photograph, to begin with
_TAG = 150  # bytes of the element around a thumbnail
_LISTED = 5  # names of missing files in a note


class Thumbnails:
    """Thumbnails of images, each read and stored once.

    Args:
        paths: path of each image by its position.
    """

    def __init__(self, paths: Mapping[int, str | os.PathLike[str]]) -> None:
        self._paths = paths
        self._read: dict[int, tuple[tuple[int, int], Any] | None] = {}

    def size(self, image: int) -> tuple[int, int] | None:
        """Return width and height of the image file; None without a readable file."""
        found = self._find(image)
        return None if found is None else found[0]

    def reference(self, image: int, width: float, height: float) -> str:
        """Return the element that shows the thumbnail of an image in a drawing of this size, or nothing."""
        if self._find(image) is None:
            return ""
        return f'<use href="#thumbnail-{image}" transform="scale({width:g} {height:g})"/>'

    def definitions(self, budget: int) -> str:
        """Return the thumbnails, to which the drawings refer, and a sentence about their size.

        Args:
            budget: the largest number of bytes of all thumbnails in the page.
        """
        read = {image: found[1] for image, found in self._read.items() if found is not None}
        if not read:
            return ""
        most = max(_LEAST_BYTES, min(_MOST_BYTES, (budget // len(read) - _TAG) * 3 // 4))  # of Base64
        encoded = {image: _encode(small, most) for image, small in read.items()}
        images = "".join(
            f'<image id="thumbnail-{image}" width="1" height="1" preserveAspectRatio="none" '
            f'href="data:image/webp;base64,{b64encode(data).decode()}"/>'
            for image, data in encoded.items()
        )
        total = sum(map(len, encoded.values()))
        text = (
            f"{len(read):,} thumbnails in {total / 1e3:,.0f} kB: each has at most {most / 1e3:.1f} kB, so that the "
            "page stays below 3 MB."
        )
        return f'<p class="source">{text}</p><svg class="thumbnails" aria-hidden="true"><defs>{images}</defs></svg>'

    def note(self) -> str:
        """Return a sentence about images without a readable file; "" if all were found, or none was requested."""
        missing = [
            str(self._paths[image]) for image, found in self._read.items() if found is None and image in self._paths
        ]
        if not missing:
            return ""
        more = ", ..." if len(missing) > _LISTED else ""
        return f"No readable file of {len(missing)} of {len(self._read)} images: {', '.join(missing[:_LISTED])}{more}."

    def _find(self, image: int) -> tuple[tuple[int, int], Any] | None:
        if image not in self._read:
            self._read[image] = self._open(image) if image in self._paths else None
        return self._read[image]

    def _open(self, image: int) -> tuple[tuple[int, int], Any] | None:
        """Return the size of a file and its image in small; None if it cannot be read."""
        from PIL import Image

        try:
            with Image.open(self._paths[image]) as opened:
                size = opened.size
                opened.draft("RGB", (_MOST_SIDE, _MOST_SIDE))
                small = opened.convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None
        small.thumbnail((_MOST_SIDE, _MOST_SIDE))
        return size, small


def _encode(small: Any, most: int) -> bytes:
    """Return an image as WebP of at most this many bytes, with the side that its content allows."""
    side = min(_MOST_SIDE, int((most / _BYTES_PER_PIXEL) ** 0.5))
    while True:
        smaller, out = small.copy(), io.BytesIO()
        smaller.thumbnail((side, side))
        smaller.save(out, "WEBP", quality=_QUALITY, method=2)
        if out.tell() <= most or side == _LEAST_SIDE:
            return out.getvalue()
        side = max(_LEAST_SIDE, int(side * min(0.8, (most / out.tell()) ** 0.5)))
