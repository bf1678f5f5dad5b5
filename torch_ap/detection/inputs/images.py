"""Input validation of detection: images of detections and ground truths as flat columns.

There are two input forms: torchmetrics' lists of dicts, one per image, and the packed form, one dict whose tensors
contain the rows of all images in order, with ``counts``, the number of rows per image. The output is a dict of columns
by state name. A column is flat: rows of later images follow rows of earlier images.

One side of a batch of images, predictions or targets, as columns, and the similarities of pairs.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, tensors
from torch_ap.core.base.arrays import native
from torch_ap.core.base.messages import raise_invalid, warn_caller
from torch_ap.core.base.untraced import plain_result, with_plain_tensors
from torch_ap.detection.inputs import masks, rules
from torch_ap.detection.inputs.rules import FLAGS, LISTS

Columns: TypeAlias = dict[str, Tensor]
OwnSimilarity: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Tensor]
Kind: TypeAlias = str | OwnSimilarity  # an ``iou_type``
Images: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, Any]

SIDES = {"preds": "detection", "target": "ground_truth"}
_RULES_OF_KEY = {
    "iscrowd": "COCO's and KITTI's",
    "difficult": "VOC's, Open Images' and KITTI's",
    "ignore": "LVIS's and KITTI's",
    "group_of": "Open Images'",
} | dict.fromkeys(LISTS, "LVIS's")


class Side:
    """Predictions or targets to convert to columns.

    Args:
        name: "preds" or "target".
        images: the dicts, with any tensors.
        packed: whether a single dict contains all images.
        copy: whether columns must not share memory with the input.
        joined_keys: keys whose tensors need no conversion if their column is plain.

    Attributes:
        keys: the keys of any image.
        lengths: the number of rows of each dict.
        counts: (B,) int64, the number of rows of each image, on the device of the labels.
    """

    def __init__(
        self, name: str, images: Sequence[Mapping[str, Any]], packed: bool, copy: bool, joined_keys: Set[str]
    ) -> None:
        self.name, self.prefix, self._given, self.packed, self.copy = name, SIDES[name], images, packed, copy
        self.keys: set[str] = set().union(*images)
        if not self.keys <= joined_keys:
            images = self._given = self.images
        self._keys_are_equal = set(map(len, images)) == {len(self.keys)}
        self.require_key("labels")
        labels = rules.join_usual("labels", [image["labels"] for image in images], copy=copy)
        if labels is None:
            values = [image["labels"] for image in self.images]
            if not rules.form_fits("labels", values, None):
                rules.raise_invalid_column(name, "labels", values, None, packed=packed)
            self.lengths = list(map(len, values))
        else:
            self.lengths = [image["labels"].numel() for image in images]
        self._labels = labels
        if packed:
            self.require_key("counts")
            rules.counts(name, self.images[0]["counts"], self.lengths[0])
            counts = self.images[0]["counts"].to(torch.int64, copy=True)
        else:
            counts = torch.from_numpy(np.array(self.lengths, np.int64))  # in a third of the time of `torch.tensor`
        is_on_cpu = labels is not None or not images
        self.counts: Tensor = counts if is_on_cpu else arrays.to_device(counts, self.images[0]["labels"].device)

    @cached_property
    def images(self) -> Sequence[Mapping[str, Any]]:
        """The images with plain tensors."""
        if not self.packed:
            images: Sequence[Mapping[str, Any]] = with_plain_tensors(self.name, self._given)
            return images
        return [with_plain_tensors(self.name, self._given[0])]

    def require_key(self, key: str) -> None:
        """Raise ValueError unless every dict has the key."""
        if not self._all_have(key):
            rules.require_key(self.name, self._given, key, packed=self.packed)

    def _all_have(self, key: str) -> bool:
        return (self._keys_are_equal and key in self.keys) or all(key in image for image in self._given)

    def column(self, key: str, row: tuple[int, ...] = (), *, real: bool = False, optional: bool = False) -> Tensor:
        """Return one key of all images, concatenated; with ``real``, integers become float64."""
        joined = self._join_usual(key, row)
        if joined is None:
            if not optional:
                self.require_key(key)
            joined = self._join(key, row, real=real)
        return joined.to(torch.float64) if real and not joined.is_floating_point() else joined

    def labels(self) -> Tensor:
        """Return the int64 labels of all images, concatenated."""
        return (self._join("labels", (), real=False) if self._labels is None else self._labels).to(torch.int64)

    def _join_usual(self, key: str, row: tuple[int, ...]) -> Tensor | None:
        """Return the concatenated values of a key in the usual form; None for others, which :meth:`_join` checks."""
        if not self._all_have(key):
            return None
        return rules.join_usual(key, [image[key] for image in self._given], self.lengths, row, copy=self.copy)

    def _join(self, key: str, row: tuple[int, ...], *, real: bool) -> Tensor:
        """Return the concatenated values of a key in any valid form."""
        values, filled = self._values(key, row, torch.nan, torch.get_default_dtype())
        if not filled:
            device = values[0].device if values else None
            return torch.empty((0, *row), dtype=torch.int64 if key == "labels" else torch.float32, device=device)
        if len({value.dtype for value in filled}) > 1:
            if real:
                filled = [value if value.is_floating_point() else value.to(torch.float64) for value in filled]
            elif key == "labels":
                filled = [value.to(torch.int64) for value in filled]
            else:
                image = next((i for i, value in enumerate(values) if value.dtype == torch.int64 and len(value)), 0)
                return arrays.concatenate(filled, f"{self.name}[{image}]['{key}']").detach()
        is_view = len(filled) == 1 and not self.copy
        return filled[0].detach().resolve_neg().contiguous() if is_view else torch.cat(filled).detach()

    def _values(
        self, key: str, row: tuple[int, ...], default: float, dtype: torch.dtype
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the checked values of all images, with defaults for missing ones, and the non-empty values."""
        if self._all_have(key):
            values = [image[key] for image in self.images]
        else:
            values = [
                image[key]
                if key in image
                else torch.full((length, *row), default, dtype=dtype, device=image["labels"].device)
                for image, length in zip(self.images, self.lengths, strict=True)
            ]
        if not rules.form_fits(key, values, self.lengths, row):
            rules.raise_invalid_column(self.name, key, values, self.lengths, row, packed=self.packed)
        if 0 not in self.lengths:
            return values, values
        return values, [value for value, length in zip(values, self.lengths, strict=True) if length]

    def optional(self, key: str, labels: Tensor, *, check_values: bool) -> Tensor:
        """Return one key that images may lack, with zeros for missing values: uint8 flags or float64 areas."""
        dtype = torch.uint8 if key in FLAGS else torch.float64
        if key not in self.keys:
            return torch.zeros_like(labels, dtype=dtype)
        joined = self._join_usual(key, ())
        if joined is None:
            filled = self._values(key, (), 0, dtype)[1]
            if dtype == torch.float64:
                filled = [value.to(dtype) for value in filled]
            joined = torch.cat(filled).detach() if filled else torch.zeros_like(labels, dtype=dtype)
        if dtype == torch.uint8 and joined.dtype not in (torch.bool, torch.uint8):
            # checked before the cast, which could turn another value into 0 or 1
            joined = joined.to(torch.float64) if joined.dtype in tensors.UNSIGNED else joined
            if check_values and joined.device.type == "cpu":
                rules.check(("flags",), (self.name, key), joined, self.counts)
                return joined.to(dtype)
            return torch.where((joined == 0) | (joined == 1), joined.to(dtype), 255)
        return joined.to(dtype)

    def unused_key_warning(self, known_keys: Collection[str]) -> str | None:
        """Return a warning for the first key that only other metrics use, or None.

        Flags are ignored if the metric reads another flag: such images are made for metrics of several rules.

        Args:
            known_keys: the keys that the metric reads.
        """
        unknown = self.keys.difference(known_keys).intersection(_RULES_OF_KEY)
        if not unknown:
            return None
        candidates = LISTS if self.keys.intersection(known_keys, FLAGS) else _RULES_OF_KEY
        for key in (key for key in candidates if key in unknown):
            image = self._first_marked(key)
            if image is None:
                continue
            where = self.name if self.packed else f"{self.name}[{image}]"
            rules_text = f"by {_RULES_OF_KEY[key]} rules, which this metric does not use"
            if key in LISTS:
                return f"`{where}['{key}']` lists categories {rules_text}: detections of all categories count"
            flags = " and ".join(f"`{x}`" for x in known_keys if x in FLAGS)
            alternative = f"; it reads {flags}" if flags else ""
            return f"`{where}['{key}']` marks objects {rules_text}: they count as all others{alternative}"
        return None

    def _first_marked(self, key: str) -> int | None:
        """Return the first image on CPU whose ``key`` has a set flag or a list that is not empty."""
        values = {index: image.get(key) for index, image in enumerate(self.images)}
        tensors_on_cpu = {index: x for index, x in values.items() if isinstance(x, Tensor) and x.is_cpu}
        if key in LISTS:
            return next((index for index, x in tensors_on_cpu.items() if x.numel()), None)
        flags = tensors_on_cpu.values()
        if {(x.dtype, x.ndim) for x in flags} == {(torch.int64, 1)} and not torch.cat([*flags]).any():
            return None  # the usual case, in one step
        return next((index for index, x in tensors_on_cpu.items() if x.any()), None)


def pair_ious(detections: Side, truths: Side, similarity: OwnSimilarity | None) -> Tensor:
    """Return the (P,) float64 similarities of all pairs: images in order, in each image row by row.

    Args:
        detections: predictions, with ``ious`` unless there is a function.
        truths: targets.
        similarity: the user's function of the two dicts of an image.
    """
    packed = detections.packed
    if packed and similarity is not None:
        raise ValueError("`preds` and `target` must be lists of dicts, one per image, where `iou_type` is a function")
    if similarity is None:
        detections.require_key("ious")
    if packed:
        values = [detections.images[0]["ious"]]
        total = [int((detections.counts * truths.counts).sum())] if detections.counts.is_cpu else None
        if not rules.form_fits("ious", values, total):
            rules.raise_invalid_column("preds", "ious", values, total, packed=True)
    else:
        images = range(len(detections.lengths))
        values = [_image_similarity(detections, truths, similarity, image) for image in images]
    if not values:
        return torch.empty(0, dtype=torch.float64)
    return torch.cat([rules.similarities(value.detach().reshape(-1)) for value in values])


def _image_similarity(detections: Side, truths: Side, similarity: OwnSimilarity | None, image: int) -> Tensor:
    """Return the (D, G) similarities of the pairs of an image; the function is only called if there are pairs."""
    preds, target = detections.images[image], truths.images[image]
    shape = (detections.lengths[image], truths.lengths[image])
    argument, rule = f"preds[{image}]['ious']", "must have"
    value: Any = preds["ious"] if similarity is None else torch.empty(0, device=preds["labels"].device)
    if similarity is not None and shape[0] and shape[1]:
        try:
            returned = similarity(preds, target)
        except Exception as error:
            if hasattr(error, "add_note"):  # from Python 3.11 on
                error.add_note(f"`iou_type` was called with `preds[{image}]` and `target[{image}]`")
            raise
        argument, rule = "iou_type", f"must return, for image {image}, a tensor of"
        value = plain_result(argument, returned)
    is_empty = isinstance(value, Tensor) and not value.numel() and not shape[0] * shape[1]
    if not is_empty:
        tensors.check_returned(argument, f"{rule} shape {shape}", value, shape)
    result: Tensor = value if similarity is None else value.to(preds["labels"].device)
    return result


@dataclass(frozen=True)
class RowColumn:
    """A column with one row of real numbers per detection or ground truth, such as boxes.

    Attributes:
        key: key in the dicts.
        row: shape of a row.
        of_detections: names of the rules in ``rules.detections`` for ``preds``; None if ``preds`` has no such column.
        of_truths: names of the rules for ``target``; None if ``target`` has no such column.
        optional: whether images may lack the key; their rows are NaN then.
        warning: function from the rows of ``target`` to a warning, or to None.
        suspect_rule: name of a rule that detections may break with a warning; None for no such rule.
    """

    key: str
    row: tuple[int, ...]
    of_detections: tuple[str, ...] | None
    of_truths: tuple[str, ...] | None
    optional: bool = False
    warning: Callable[[Tensor], str | None] | None = field(default=None, repr=False)
    suspect_rule: str | None = field(default=None, repr=False)

    def rules(self, side: str) -> tuple[str, ...] | None:
        """Return the rule names for ``side``, "detection" or "ground_truth"."""
        return self.of_detections if side == "detection" else self.of_truths


class _Column(NamedTuple):
    """A column of one side.

    Attributes:
        name: name of the column.
        key: key in the dicts.
        rules: names of the rules for its values.
        shape: the column of shapes; None for one number per detection or ground truth.
    """

    name: str
    key: str
    rules: tuple[str, ...]
    shape: RowColumn | None = None


@dataclass(frozen=True)
class DetectionInputs:
    """Input format of one detection metric.

    Attributes:
        rows: columns of the shapes.
        masks: whether images have masks.
        pairs: whether images have a similarity for each pair of a detection and a ground truth.
        similarity: function from the two dicts of an image to its similarities; None if ``preds`` has "ious".
        of_truths: further ground-truth columns: "iscrowd", "area", "difficult", "ignore"; zeros if absent.
        of_detections: further detection columns: "area", or "row", the row in the input image.
        check_values: whether values are checked. Types, shapes and dtypes always are.
        areas_required: whether every image must have "area", with values of at least 0, if "area" is a column.
    """

    rows: tuple[RowColumn, ...]
    masks: bool = False
    pairs: bool = False
    similarity: OwnSimilarity | None = field(default=None, repr=False)
    of_truths: tuple[str, ...] = ("iscrowd", "area")
    of_detections: tuple[str, ...] = ()
    check_values: bool = True
    areas_required: bool = False

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Names of all columns, in a fixed order."""
        names = []
        for side in SIDES.values():
            rows, keys = self.rows_of(side), ("labels", *self._further_keys(side))
            names += [f"{side}_{key}" for key in keys if key not in rows] + [f"{side}s_per_image"]
            names += [f"{side}_{key}" for key in rows]
            names += [f"{side}_mask_edges", f"{side}_edges_per_mask"] if self.masks else []
        names += ["image_sizes"] if self.masks else []
        return (*names, "pair_ious") if self.pairs else tuple(names)

    def rows_of(self, side: str) -> dict[str, RowColumn]:
        """Return the shape columns of ``side``, "detection" or "ground_truth", by key."""
        return {column.key: column for column in self.rows if column.rules(side) is not None}

    def _further_keys(self, side: str) -> tuple[str, ...]:
        """Return the keys of ``side`` in addition to labels and shapes."""
        return ("scores", *self.of_detections) if side == "detection" else self.of_truths

    @cached_property
    def _checked_columns(self) -> dict[str, list[_Column]]:
        """The columns of each side except the labels, further columns before shapes."""
        columns = {}
        for side in SIDES.values():
            shapes = self.rows_of(side)
            rule_of = rules.RULE_OF | ({"area": "size"} if self.areas_required else {})
            columns[side] = [
                _Column(f"{side}_{key}", key, (rule_of[key],)) for key in self._further_keys(side) if key not in shapes
            ]
            columns[side] += [_Column(f"{side}_{key}", key, x.rules(side) or (), x) for key, x in shapes.items()]
        return columns

    @cached_property
    def _joined_keys(self) -> dict[str, set[str]]:
        """The keys of each side whose values are joined to columns."""
        return {side: {"labels", *(x.key for x in self._checked_columns[prefix])} for side, prefix in SIDES.items()}

    def empty(self) -> Columns:
        """Return the columns of zero images."""
        return self.validate([], [])[0]

    def select_images(self, columns: Columns, selected: Tensor) -> Columns:
        """Return the columns of the images where ``selected``, (B,) bool, is true."""
        pairs = columns["detections_per_image"] * columns["ground_truths_per_image"]
        chosen = {"pair_ious": selected.repeat_interleave(pairs)}
        for prefix in SIDES.values():
            rows = chosen[prefix] = selected.repeat_interleave(columns[f"{prefix}s_per_image"])
            if (edges := columns.get(f"{prefix}_edges_per_mask")) is not None:
                chosen[f"{prefix}_mask_edges"] = rows.repeat_interleave(edges)
        for name, counts in columns.items():
            if name.endswith("_per_image") and (ids := name.removesuffix("_per_image")) in columns:
                chosen[ids] = selected.repeat_interleave(counts)
        result = {}
        for name, column in columns.items():
            side = "detection" if name.startswith("detection_") else "ground_truth"
            per_image = name.endswith("per_image") or name == "image_sizes"
            result[name] = column[selected if per_image else chosen.get(name, chosen[side])]
        return result

    def validate(self, preds: Images, target: Images, *, copy: bool = True) -> tuple[Columns, Tensor | None]:
        """Validate images and return their columns; the input tensors are neither stored nor changed.

        Args:
            preds: detections of the images.
            target: ground truths of the images.
            copy: whether columns must not share memory with the input, as columns in a state.

        Returns:
            The columns, and on an accelerator (R,) bool, the broken rules of ``VALUE_RULES``, else None.
        """
        packed = isinstance(preds, Mapping) or isinstance(target, Mapping)
        if packed:
            for name, value in (("preds", preds), ("target", target)):
                rules.packed(name, value)
            preds, target = [preds], [target]  # type: ignore[list-item]
        else:
            rules.lists(preds, target)
        both = ("preds", preds), ("target", target)
        sides = [Side(name, images, packed, copy, self._joined_keys[name]) for name, images in both]  # type: ignore[arg-type]
        columns: Columns = {}
        for side in sides:
            columns |= self._rows(side)
        if packed and len(sides[0].counts) != len(sides[1].counts):
            raise ValueError(
                "`preds` and `target` must have `counts` of the same length, got "
                f"{len(sides[0].counts)} and {len(sides[1].counts)}"
            )
        if self.masks:
            columns |= masks.columns_of_images(sides[0].images, sides[1].images, packed)
        if self.pairs:
            columns["pair_ious"] = pair_ious(sides[0], sides[1], self.similarity)
        columns |= self._target_columns(sides[1])
        if {column.is_cpu for column in columns.values()} != {True} and len(
            devices := {str(column.device) for column in columns.values()}
        ) > 1:
            raise ValueError(f"all tensors in `preds` and `target` must be on one device, got {sorted(devices)}")
        absent = {x.name for side in sides for x in self._checked_columns[side.prefix] if x.key not in side.keys}
        broken = self._broken_rules(columns, absent) if self.check_values else None
        if self.check_values and columns["detection_labels"].is_cpu:
            for side, known_keys in zip(sides, self._known_keys, strict=True):
                if (message := side.unused_key_warning(known_keys)) is not None:
                    warn_caller(message, UserWarning)
            self.warn_about_rows(columns)
        return columns, broken

    @property
    def _known_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Keys of detections and of ground truths in addition to shapes, labels and scores."""
        return self.of_detections, self.of_truths

    def warn_about_rows(self, columns: Columns) -> None:
        """Warn about valid rows that are likely wrong, if values are checked; synchronizes with an accelerator."""
        for column in self.rows if self.check_values else ():
            message = None if column.warning is None else column.warning(columns[f"ground_truth_{column.key}"])
            if column.suspect_rule is not None:
                values, counts = columns[f"detection_{column.key}"], columns["detections_per_image"]
                message = rules.box_format_warning(values, column.suspect_rule, counts)
            if message is not None:
                warn_caller(message, UserWarning)

    def needs_more_rows(self, columns: Columns) -> bool:
        """Whether warnings about rows need more images."""
        return columns["ground_truth_labels"].shape[0] < rules.FEW_ANGLES and any(x.warning for x in self.rows)

    def check_stored(self, columns: Columns) -> Tensor | None:
        """Check columns in the layout of the state, as in a checkpoint.

        Returns:
            On an accelerator (R,) bool, the broken rules of ``VALUE_RULES``, else None.

        Raises:
            ValueError: for columns of inconsistent lengths, and on CPU for values that break a rule.
        """
        images = columns["detections_per_image"]
        rows = {prefix: len(columns[f"{prefix}_labels"]) for prefix in SIDES.values()}
        for name, column in columns.items():
            expected = len(images) if name.endswith("per_image") or name == "image_sizes" else None
            if expected is None and not name.endswith(("mask_edges", "pair_ious", "category_ids")):
                expected = rows["detection" if name.startswith("detection") else "ground_truth"]
            if expected not in (None, len(column)):
                raise_invalid(name, f"must have {expected} entries, as the labels or images", len(column))
        if self.masks:
            masks.check_sizes(columns["image_sizes"])
        for side, prefix in SIDES.items():
            counts = columns[f"{prefix}s_per_image"]
            rules.counts(side, counts.cpu(), rows[prefix])
            if self.masks:
                edges = columns[f"{prefix}_mask_edges"], columns[f"{prefix}_edges_per_mask"]
                masks.check_edges(*edges, columns["image_sizes"].prod(1).repeat_interleave(counts), prefix)
        pairs = int((images * columns["ground_truths_per_image"]).sum())
        if self.pairs and len(columns["pair_ious"]) != pairs:
            rule = f"must have {pairs} entries, one per pair of an image"
            raise_invalid("pair_ious", rule, len(columns["pair_ious"]))
        return self._broken_rules(columns) if self.check_values else None

    def _rows(self, side: Side) -> Columns:
        """Return the labels, counts, shapes and further columns of one side."""
        labels = side.labels()
        columns = {f"{side.prefix}_labels": labels, f"{side.prefix}s_per_image": side.counts}
        for name, key, _, shape in self._checked_columns[side.prefix]:
            if shape is not None:
                columns[name] = side.column(key, shape.row, real=True, optional=shape.optional)
            elif key == "scores":
                columns[name] = side.column(key)
            else:
                if key == "area" and self.areas_required:
                    side.require_key(key)
                columns[name] = side.optional(key, labels, check_values=self.check_values)
        return columns

    def _target_columns(self, target: Side) -> Columns:  # noqa: ARG002
        """Return further columns from the targets of the images."""
        return {}

    def _broken_rules(self, columns: Columns, absent: Collection[str] = ()) -> Tensor | None:
        """Check the values of all columns, except ``absent`` ones of zeros; None on CPU, else the broken rules."""
        flags = []
        for side, prefix in SIDES.items():
            counts = columns[f"{prefix}s_per_image"]
            flags.append(rules.check_counts(counts, columns[f"{prefix}_labels"].shape[0]))
            for name, key, names, _ in self._checked_columns[prefix]:
                if name not in absent:
                    flags.append(rules.check(names, (side, key), columns[name], counts))
        if self.pairs:
            pairs = columns["detections_per_image"] * columns["ground_truths_per_image"]
            owner = ("preds", "ious") if self.similarity is None else ("iou_type", "")
            flags.append(rules.check(("ious",), owner, columns["pair_ious"], pairs))
        return any_broken(flags)


def any_broken(flags: Sequence[Tensor | None]) -> Tensor | None:
    """Return the rules that any of the (R,) flags marks as broken; None without flags."""
    tensors = [flag for flag in flags if flag is not None]
    return torch.stack(tensors).any(0) if tensors else None


def image_ids(counts: Tensor) -> Tensor:
    """Return the image index of each row from the rows per image, (rows,) int64."""
    lengths = native(counts)
    return arrays.tensor(arrays.repeat(arrays.arange_like(len(lengths), lengths), lengths))


def label_flags(labels: Tensor) -> Tensor | None:
    """Return which labels occur, (highest + 1,) bool; None if labels are negative or at least 2^16."""
    values = native(labels)
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if low < 0 or high >= 1 << 16:
        return None
    occurs = labels.new_zeros(high + 1, dtype=torch.bool)
    native(occurs)[values] = True
    return occurs
