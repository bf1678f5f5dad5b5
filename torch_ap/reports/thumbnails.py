"""Thumbnails of image files for a page, within a budget of bytes."""

import io
import os
from base64 import b64encode
from collections.abc import Mapping

_BUDGET = 1_200_000  # bytes of all thumbnails of a page, before Base64
_MOST_PICTURES = 250  # of a page
_MOST_BYTES = 24_000  # of one thumbnail
_FORMS = ((320, 70), (320, 40), (240, 40), (240, 15), (160, 15), (80, 15), (40, 15))  # longer side and quality
_LISTED = 5  # names of missing files in a note


class Thumbnails:
    """Thumbnails of images, each read and stored once.

    Args:
        paths: path of each image by its position.
    """

    def __init__(self, paths: Mapping[int, str | os.PathLike[str]]) -> None:
        self._paths = paths
        self._read: dict[int, tuple[tuple[int, int], bytes] | None] = {}
        self._most = min(_MOST_BYTES, _BUDGET // max(1, min(len(paths), _MOST_PICTURES)))

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
                opened.draft("RGB", (_FORMS[0][0], _FORMS[0][0]))
                small = opened.convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None
        for side, quality in _FORMS:  # the first form that is small enough, else the smallest
            small.thumbnail((side, side))
            out = io.BytesIO()
            small.save(out, "WEBP", quality=quality)
            if out.tell() <= self._most:
                break
        return size, out.getvalue()
