"""Thumbnails of image files for a page, within a budget of bytes."""

import io
import os
from base64 import b64encode
from collections.abc import Mapping

_SIDE = 320  # pixels of the longer side
_BUDGET = 1_200_000  # bytes of all thumbnails of a page, before Base64
_MOST_BYTES = 24_000  # of one thumbnail
_QUALITIES = (70, 50, 30, 15)
_LISTED = 5  # names of missing files in a note


class Thumbnails:
    """Thumbnails of images, each read and stored once.

    Args:
        paths: path of each image by its position.
    """

    def __init__(self, paths: Mapping[int, str | os.PathLike[str]]) -> None:
        self._paths = paths
        self._read: dict[int, tuple[tuple[int, int], bytes] | None] = {}
        self._left = _BUDGET

    def size(self, image: int) -> tuple[int, int] | None:
        """Return width and height of the image file; None without a readable file."""
        found = self._find(image)
        return None if found is None else found[0]

    def reference(self, image: int, width: float, height: float) -> str:
        """Return the element that shows the thumbnail of an image in a drawing of this size, or nothing."""
        if self._find(image) is None:
            return ""
        return f'<use href="#thumbnail-{image}" transform="scale({width:g} {height:g})"/>'

    def definitions(self) -> str:
        """Return the thumbnails, to which the drawings refer."""
        images = "".join(
            f'<image id="thumbnail-{image}" width="1" height="1" preserveAspectRatio="none" '
            f'href="data:image/webp;base64,{b64encode(found[1]).decode()}"/>'
            for image, found in self._read.items()
            if found is not None and found[1]
        )
        return f'<svg class="thumbnails" aria-hidden="true"><defs>{images}</defs></svg>' if images else ""

    def note(self) -> str:
        """Return a sentence about images without a readable file; "" if all were found, or none was requested."""
        missing = [
            str(self._paths[image]) for image, found in self._read.items() if found is None and image in self._paths
        ]
        if not missing:
            return ""
        more = ", ..." if len(missing) > _LISTED else ""
        return f"No readable file of {len(missing)} of {len(self._read)} images: {', '.join(missing[:_LISTED])}{more}."

    def _find(self, image: int) -> tuple[tuple[int, int], bytes] | None:
        if image not in self._read:
            self._read[image] = self._thumbnail(image) if image in self._paths else None
        return self._read[image]

    def _thumbnail(self, image: int) -> tuple[tuple[int, int], bytes] | None:
        """Return the size of a file and its thumbnail; None if it cannot be read."""
        from PIL import Image

        try:
            with Image.open(self._paths[image]) as opened:
                size = opened.size
                opened.draft("RGB", (_SIDE, _SIDE))
                small = opened.convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None
        small.thumbnail((_SIDE, _SIDE))
        for quality in _QUALITIES:
            out = io.BytesIO()
            small.save(out, "WEBP", quality=quality)
            if out.tell() <= min(_MOST_BYTES, self._left / 20):
                break
        self._left = max(0, self._left - out.tell())
        return size, out.getvalue()
