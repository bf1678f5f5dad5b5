"""Lists of objects in JSON files, read by one table of keys and rules; every error names file, list, index and key.

The masks of COCO's JSON files, run-length codes and polygons, validated and decoded; errors name their entries.
"""

import itertools
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.class_names import is_whole
from torch_ap.core.base.collection import without_collection
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr, suggest_id
from torch_ap.core.columns import literals
from torch_ap.core.columns import text as text_files
from torch_ap.detection.inputs.rules import MOST_FAR
from torch_ap.detection.shapes import polygons, run_lengths
from torch_ap.detection.shapes.run_lengths import DecodedMasks, Size

Entry: TypeAlias = Mapping[str, Any]
Value = TypeVar("Value")

_NUMBERS = {int, float}
_JSON_SCALARS = {*_NUMBERS, str, bool, type(None)}
_INT64 = 1 << 63
_LARGEST_TIME = 1e9  # seconds


def load(path: str | Path) -> Any:
    """Return the content of a JSON file in UTF-8, with or without a byte-order mark, plain or gzip.

    A file with one object per line (JSON Lines) is read as the list of these objects.

    Raises:
        ValueError: for another encoding, for content that is not JSON, and for an object with a repeated key; the
            message names file and place. An integer of thousands of digits becomes one that breaks the rule of its key.
    """
    content = text_files.read(path)
    if not content.strip():
        raise ValueError(f"{path}: must be JSON, but is empty")
    repeated: list[tuple[Entry, str]] = []

    def unique_keys(pairs: list[tuple[str, Any]]) -> Entry:
        entry = dict(pairs)
        if len(entry) < len(pairs):
            repeated.append((entry, str(literals.first_repeated(key for key, _ in pairs))))
        return entry

    decode = partial(
        json.loads, object_pairs_hook=unique_keys, parse_int=literals.integer_of_digits, parse_float=literals.parse_json
    )
    try:
        with without_collection():
            loaded = decode(content)
    except RecursionError:
        raise ValueError(f"{path}: must be JSON of less depth, its lists or objects are nested too deeply") from None
    except ValueError as reason:
        repeated.clear()
        loaded = _json_lines(path, content, decode)
        if not loaded:
            raise ValueError(f"{path}: must be JSON: {reason}") from None
    if repeated:
        _raise_repeated(path, loaded, {id(entry): key for entry, key in repeated})
    return loaded


def named_content(source: Any, argument: str) -> tuple[str, Any]:
    """Return the name of a source in messages, and its content.

    Args:
        source: path of a JSON file; its content as a dict or list; an object with a ``dataset``, such as pycocotools'
            COCO; or a table (pandas, Polars, Arrow) with a row per entry. Values of NumPy and tensors become numbers
            and lists, bytes become text. The source does not change.
        argument: name of the argument.

    Raises:
        TypeError: for a source of another type.
    """
    if isinstance(source, str | Path):
        return str(source), load(source)
    content = getattr(source, "dataset", source)
    for method, settings in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):
        if not isinstance(content, Mapping) and hasattr(content, method):
            content = getattr(content, method)(*settings)
    if not isinstance(content, Mapping | list | tuple):
        rule = "must be a path, a dict, a list, a COCO object or a table"
        raise_invalid(argument, rule, Plain(type(source).__name__), TypeError)
    return f"`{argument}`", plain_value(content)


def plain_value(value: Any) -> Any:
    """Return a copy of a value with the types that JSON has."""
    if isinstance(value, Mapping):
        return {key: plain_value(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return list(value) if _JSON_SCALARS.issuperset(map(type, value)) else [plain_value(x) for x in value]
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return plain_value(value.tolist())
    return value.decode("ascii", "backslashreplace") if isinstance(value, bytes) else value


def _json_lines(path: str | Path, content: str, decode: Callable[[str], Any]) -> list[Any]:
    """Return the objects of JSON Lines; an empty list for a single line, or if the first line is not an object."""
    lines = [(number, line) for number, line in enumerate(content.split("\n"), 1) if line.strip()]
    values: list[Any] = []
    try:
        for _, line in lines if lines[1:] and lines[0][1].startswith("{") else ():
            values.append(decode(line))
    except (ValueError, RecursionError) as reason:
        if values:
            raise ValueError(f"{path}: line {lines[len(values)][0]} must be JSON: {reason}") from None
    return values


def _raise_repeated(path: str | Path, loaded: Any, keys: Mapping[int, str]) -> None:
    """Raise ValueError for a repeated key and name its object; the intended value is unknown."""
    pending = [("", loaded)]
    while pending:
        where, value = pending.pop()
        if id(value) in keys:
            entry = where if not where or where.startswith("[") else f": {where}"
            raise ValueError(f"{path}{entry}: the key {short_repr(keys[id(value)])} must occur once, but occurs twice")
        if isinstance(value, dict):
            pending += [(f"{where}.{key}".removeprefix("."), item) for key, item in reversed(value.items())]
        elif isinstance(value, list) and value and not isinstance(value[0], int | float | str):
            pending += [(f"{where}[{index}]", item) for index, item in reversed([*enumerate(value)])]


def require(valid: bool, rule: str, value: Any) -> None:
    """Raise ValueError that contains the rule and the value, unless the value is valid."""
    if not valid:
        raise ValueError(f"{rule}, got {short_repr(value)}")


class Rule(NamedTuple):
    """A rule of values.

    Attributes:
        text: the rule in messages.
        is_valid: returns whether a value, or part of a value, obeys the rule. It obeys the earlier rules of the key.
        parts: returns the parts of a value to check; None for the value itself.
    """

    text: str
    is_valid: Callable[[Any], bool]
    parts: Callable[[Any], Iterable[Any]] | None = None


class Field(NamedTuple):
    """A key of the objects in a file.

    Attributes:
        rules: the rules of its values, in the order of the checks.
        least: the lower bound of each number, if a value consists of finite numbers.
        default: the value of entries without the key; None for a required key.
        hint: text that the message of a missing key adds.
    """

    rules: Sequence[Rule]
    least: tuple[float, ...] = ()
    default: Any = None
    hint: str = ""


def _is_finite(value: Any, least: float = -math.inf) -> bool:
    """Return whether a value is a finite number of at least ``least``. Text and bool are not numbers."""
    return type(value) in _NUMBERS and abs(value) <= sys.float_info.max and bool(value >= least)


def _numbers(least: float = -math.inf, none: bool = False) -> list[Rule]:
    """Return the rules of a finite number that float64 represents; ``none`` allows null."""

    def is_number(value: Any) -> bool:
        return isinstance(value, literals.Unrepresented) or (none and value is None) or _is_finite(value, least)

    bound = "" if least == -math.inf else f" of at least {least:g}"
    return [Rule(f"must be a finite number{bound}", is_number), _REPRESENTED]


_REPRESENTED = Rule(
    "must be a number that float64 represents", lambda x: x is None or (type(x) in _NUMBERS and float(x) == x)
)
_FINITE_NUMBERS = Rule(
    "must contain finite numbers", lambda x: all(_is_finite(part) and float(part) == part for part in x)
)
INTEGER = Rule("must be an integer", lambda x: type(x) is int and -_INT64 <= x < _INT64)
INTEGER_OR_TEXT = Rule("must be an integer or text", lambda x: type(x) in (int, str))
TEXT = Rule("must be text", lambda x: isinstance(x, str))
LABEL = Rule("must be an integer, as labels are (only ids of images may be text)", lambda x: not isinstance(x, str))
_TRIPLES = "must contain x, y and a third number of each keypoint"
POINTS = [Rule(_TRIPLES, lambda x: isinstance(x, list) and len(x) > 0 == len(x) % 3), _FINITE_NUMBERS]
_LABELS = "must contain 0, 1 or 2 as the visibility of each keypoint"
VISIBILITY = Rule(_LABELS, lambda x: x in (0, 1, 2), lambda x: x[2::3])
_FLAG = Rule("must be 0 or 1", lambda x: isinstance(x, int | float) and x in (0, 1))
_FREQUENCY = Rule("must be 'r', 'c' or 'f'", lambda x: x in ("r", "c", "f"))
_BOX = [
    Rule("must contain x, y, width and height", lambda x: isinstance(x, list) and len(x) == 4),
    _FINITE_NUMBERS,
    Rule("must contain numbers at most 1e150 from 0", lambda x: max(map(abs, x)) <= MOST_FAR),
    Rule("must contain a width and a height of at least 0", lambda x: min(x[2:]) >= 0),
]
_TIMES = "must contain start and end in seconds, the start first"
_SEGMENT = [
    Rule(_TIMES, lambda x: isinstance(x, list) and len(x) == 2),
    *(rule._replace(parts=list) for rule in _numbers()),
    Rule(_TIMES, lambda x: -_LARGEST_TIME <= x[0] <= x[1] <= _LARGEST_TIME),
]
_LIST = "must be a list of ids of categories"
_IDS = [
    Rule(_LIST, lambda x: isinstance(x, list)),
    Rule(f"{_LIST}, each of which must be an integer", INTEGER[1], list),
]
_OTHER_SHAPES = (
    " (for masks alone: iou_type 'segm', `--iou-type segm`; for keypoints: 'keypoints', `--iou-type keypoints`)"
)
FIELDS = {
    "name": Field([TEXT]),
    "label": Field([TEXT]),
    "frequency": Field([_FREQUENCY]),
    "score": Field(_numbers(), (-math.inf,)),
    "area": Field(_numbers(0), (0,)),
    "bbox": Field(_BOX, (-math.inf, -math.inf, 0, 0), hint=_OTHER_SHAPES),
    "segment": Field(_SEGMENT),
    **dict.fromkeys(("iscrowd", "ignore"), Field([_FLAG], default=0)),
    **dict.fromkeys(("width", "height"), Field(_numbers(0, none=True), default=0)),
    "neg_category_ids": Field(_IDS, hint=" (of LVIS's files; COCO's are for `torch-ap coco`)"),
    "not_exhaustive_category_ids": Field(_IDS),
}


@dataclass(frozen=True)
class Entries:
    """Objects of one list of a file, in any order.

    Attributes:
        entries: the objects.
        where: the name of the list in messages.
        places: the index of each object in the list.
    """

    entries: list[Entry]
    where: str
    places: Sequence[int]

    @classmethod
    def from_list(cls, entries: list[Any], where: str) -> "Entries":
        """Return the entries of a list of objects."""
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise ValueError(f"{where}[{index}]: must be an object, got {type(entry).__name__}")
        return cls(entries, where, range(len(entries)))

    def name(self, row: int) -> str:
        """Return the name of an entry in messages."""
        return f"{self.where}[{self.places[row]}]"

    def reordered(self, order: Sequence[int]) -> "Entries":
        """Return the entries in another order."""
        return Entries([self.entries[row] for row in order], self.where, [self.places[row] for row in order])

    def values(self, key: str, field: Field | None = None, default: Any = None) -> list[Any]:
        """Return the value of a key in each entry.

        Args:
            key: key of the entries.
            field: the rule of the key; None for the rule in :data:`FIELDS`.
            default: value of entries without the key; None for the default of the rule.

        Raises:
            ValueError: for the first entry that lacks a required key or breaks its rule.
        """
        field = field or FIELDS[key]
        default = field.default if default is None else default
        out = []
        for row, entry in enumerate(self.entries):
            if default is None and key not in entry:
                raise ValueError(
                    f"{self.name(row)}: must have the key '{key}'{field.hint}, got {short_repr(list(entry))}"
                )
            value = entry.get(key, default)
            for rule, is_valid, parts in field.rules:
                for part in (value,) if parts is None else parts(value):
                    if not is_valid(part):
                        raise ValueError(f"{self.name(row)}: '{key}' {rule}, got {short_repr(part)}")
            out.append(value)
        return out

    def numbers(self, key: str, field: Field | None = None, default: float | None = None) -> Tensor:
        """Return :meth:`values` as (N,) float64, or (N, K) for K numbers per value; in one step if all are plain."""
        field = field or FIELDS[key]
        values = [entry.get(key, default) for entry in self.entries]
        shape = (-1, len(field.least))[: len(field.least)]
        if len(field.least) > 1:
            listed = set(map(type, values)) == {list} and set(map(len, values)) == {len(field.least)}
            values = list(chain.from_iterable(values)) if listed else [None]
        if set(map(type, values)) <= _NUMBERS:
            with suppress(OverflowError):
                out = np.array(values, np.float64).reshape(shape)
                if (np.abs(out) < literals.LARGEST_EXACT).all() and (out >= np.array(field.least)).all():
                    return torch.from_numpy(out)
        return torch.tensor(self.values(key, field, default), dtype=torch.float64).reshape(shape)

    def keypoints(self, rules: Sequence[Rule], count: int | None = None) -> Tensor:
        """Return keypoints as (N, K, 3) float64.

        Args:
            rules: the rules of their values.
            count: the number K of the annotations; None for the number of the first entry.
        """
        first = self.entries[0].get("keypoints") if self.entries else None
        length = 3 * count if count else len(first) if isinstance(first, list) and first and len(first) % 3 == 0 else 3
        others = "those of the annotations" if count else f"that of {self.name(0) if self.entries else ''}"
        same = Rule(f"must contain {length} numbers, as {others}", lambda n: n == length, lambda x: (len(x),))
        field = Field([*rules, same], (-math.inf,) * length)
        out = self.numbers("keypoints", field).reshape(-1, length // 3, 3)
        if VISIBILITY in rules and not np.isin(out[..., 2], (0, 1, 2)).all():
            self.values("keypoints", field)  # which raises
        return out

    def unique(self, key: str, rules: Sequence[Rule]) -> list[Any]:
        """Return :meth:`values`, and check that they differ from each other."""
        values = self.values(key, Field(rules))
        seen: set[Any] = set()
        for row, value in enumerate(values):
            if value in seen:
                raise ValueError(f"{self.name(row)}: '{key}' must occur once, got {short_repr(value)} again")
            seen.add(value)
        return values

    def lookup(self, key: str, allowed: Mapping[Any, Value]) -> list[Value]:
        """Return the value of ``allowed`` for the id in each entry."""
        example = next(iter(allowed), None)
        values = [entry.get(key) for entry in self.entries]
        if set(map(type, values)) == {type(example)}:
            with suppress(KeyError):
                return [allowed[value] for value in values]
        usual, other, name = (TEXT, int, "text") if isinstance(example, str) else (INTEGER, str, "an integer")
        rule = f"must be {name}, as the ids that it refers to are, such as {short_repr(example)}"
        mixed = Rule("must be an integer", lambda x: isinstance(x, str) or INTEGER.is_valid(x))
        rules = [mixed] if example is None else [Rule(rule, lambda x: type(x) is not other), usual]
        for row, value in enumerate(self.values(key, Field(rules))):
            if value not in allowed:
                raise ValueError(
                    f"{self.name(row)}: unknown {key} {short_repr(value)}{_suggestion(value, values, allowed)}"
                )
        return [allowed[value] for value in values]


def _suggestion(unknown: Any, values: Sequence[Any], allowed: Collection[Any]) -> str:
    """Return the end of a message about an unknown id: that ids count from 0, or the most similar id."""
    is_number = isinstance(unknown, int) and 0 not in allowed
    if is_number and min(values) == 0 and max(values) < max(allowed, default=0):
        return "; these count from 0, as places in a list do, and the ids that are known do not"
    return suggest_id(unknown, allowed)


_KEY = "segmentation"
_MOST_PIXELS = 1 << 32  # pycocotools counts the pixels of polygons in 32 bits
_FARTHEST = 10  # sides of the image


def decode(listed: Entries, counts: Tensor, images: Entries) -> list[DecodedMasks]:
    """Return the masks of entries, image after image.

    Args:
        listed: entries in order of image.
        counts: (B,) int64 entries per image.
        images: the B images. The masks of an image with ``height`` and ``width`` must have this size.

    Raises:
        ValueError: for an invalid mask, or one of another size than its image, naming file and entry.
    """
    ends = np.cumsum([0, *counts.tolist()]).tolist()
    sizes = [_image_size(images, image) if count else None for image, count in enumerate(counts.tolist())]
    image_of = np.repeat(np.arange(len(counts)), counts.numpy()).tolist()
    codes = [_code(listed, row, sizes[image], images, image) for row, image in enumerate(image_of)]
    return run_lengths.decode_images(
        [codes[start:end] for start, end in itertools.pairwise(ends)],
        lambda image, mask: f"{listed.name(ends[image] + mask)}: '{_KEY}'",
    )


def check_sizes(results: str, masks: Sequence[DecodedMasks], truths: Sequence[DecodedMasks], images: Entries) -> None:
    """Raise ValueError unless the masks of an image have the same size in results and annotations."""
    for row, (size, true_size) in enumerate((x.size, y.size) for x, y in zip(masks, truths, strict=True)):
        if size is not None and true_size is not None and size != true_size:
            raise ValueError(
                f"{results}: the masks of {images.name(row)} must have the height and width of those in the "
                f"annotations, {list(true_size)}, got {list(size)}"
            )


def _image_size(images: Entries, row: int) -> Size | None:
    """Return the height and width of an image; None for an image with neither key."""
    image = images.entries[row]
    if "height" not in image and "width" not in image:
        return None
    for key in ("height", "width"):
        value: Any = image.get(key)
        valid = is_whole(value) and 1 <= value < 1 << 31
        require(valid, f"{images.name(row)}: '{key}' must be a whole number from 1 to 2^31 - 1", value)
    return image["height"], image["width"]


def _code(listed: Entries, row: int, size: Size | None, images: Entries, image: int) -> Any:
    """Return the run-length code of the mask of one entry. Decoding validates the codes of the file."""
    mask: Any = listed.entries[row].get(_KEY)
    if isinstance(mask, dict):
        own: Any = mask.get("size")
        known = isinstance(own, list) and len(own) == 2 and all(map(is_whole, own))
        if size is not None and known and tuple(own) != size:
            rule = f"'{_KEY}' must have the height and width of {images.name(image)}, {list(size)}"
            raise ValueError(f"{listed.name(row)}: {rule}, got {own}")
        return mask
    name = listed.name(row)
    require(
        isinstance(mask, list) and len(mask) > 0, f"{name}: must have '{_KEY}', polygons or a run-length code", mask
    )
    if size is None:
        image_id = listed.entries[row]["image_id"]
        raise ValueError(f"{name}: its image {image_id} must have 'height' and 'width', since the mask is polygons")
    for polygon in mask:
        if fault := _fault(polygon, size):
            raise ValueError(f"{name}: '{_KEY}' must contain polygons, {fault}, got {short_repr(polygon)}")
    return _code_of_polygons(mask, size)


def _code_of_polygons(listed: Sequence[Sequence[float]], size: Size) -> Any:
    """Return the run-length code of the union of polygons."""
    with suppress(ModuleNotFoundError):  # pycocotools returns the same code in a tenth of the time
        from pycocotools import mask as coco_mask

        return coco_mask.merge(coco_mask.frPyObjects(listed, *size))
    edges = np.concatenate([polygons.edges_of_polygon(polygon, *size) for polygon in listed])
    union = torch.from_numpy(polygons.edges_of_union(edges))
    return run_lengths.encode(union, torch.tensor([len(union)]), torch.tensor([size]))[0]


def _fault(polygon: Any, size: Size) -> str | None:
    """Return the rule that a polygon breaks; None for a valid polygon."""
    if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
        return "lists of x and y alternating, with at least three points"
    if not set(map(type, polygon)) <= {int, float}:
        return "lists of numbers"
    if not all(abs(x) <= _FARTHEST * max(size) for x in polygon):
        return f"whose points are in or near their image, {size[0]} by {size[1]}, at most {_FARTHEST} sides from it"
    if size[0] * size[1] >= _MOST_PIXELS:
        return f"whose images have less than 2^32 pixels, not {size[0]} by {size[1]}"
    return None
