"""Input validation of detection: images of detections and ground truths, checked, as flat columns.

Two forms come in: torchmetrics' lists of dicts, one per image; and the packed form, one dict whose tensors hold the
rows of all images end to end, with ``counts``, rows per image. One form goes out: columns by the name of their state. A
column is flat and concatenable: images that come later are rows that come later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.geometry import mask_columns
from torch_ap.inputs.image_sides import SIDES, Side, pair_ious
from torch_ap.inputs.image_sides import packed as packed_side
from torch_ap.ranking import segments
from torch_ap.rules import detections as value_rules
from torch_ap.rules import images as rules
from torch_ap.rules.messages import refuse, warn_caller
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

Columns: TypeAlias = dict[str, Tensor]
OwnSimilarity: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Tensor]
Kind: TypeAlias = str | OwnSimilarity  # of shapes
Images: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, Any]


@dataclass(frozen=True)
class RowColumn:
    """A column with one row of real numbers per detection or ground truth, such as boxes.

    Attributes:
        key: of the dicts.
        row: shape of a row.
        of_detections: names of the rules of ``rules.detections`` that it keeps in ``preds``; None where it is no column
            there.
        of_truths: likewise in ``target``.
        optional: whether images may lack it; their rows are NaN then.
        remark: what a warning says of the rows of ``target``, if anything.
        doubtful: name of the rule which detections may break, with a warning; None for no such rule.
    """

    key: str
    row: tuple[int, ...]
    of_detections: tuple[str, ...] | None
    of_truths: tuple[str, ...] | None
    optional: bool = False
    remark: Callable[[Tensor], str | None] | None = field(default=None, repr=False)
    doubtful: str | None = field(default=None, repr=False)

    def rules(self, side: str) -> tuple[str, ...] | None:
        """Those of "detection" or "ground_truth"."""
        return self.of_detections if side == "detection" else self.of_truths


@dataclass(frozen=True)
class DetectionInputs:
    """How images of one metric come in.

    Attributes:
        rows: the columns of shapes.
        masks: whether images have masks.
        pairs: whether they have a number for each pair of a detection and a ground truth.
        similarity: what gives these of the two dicts of an image; None where they are given as "ious".
        of_truths: further columns of ground truths: "iscrowd", "area", "difficult", "ignore"; zeros where not given.
        of_detections: further columns of detections: "area", or "row", which they have in the image as given.
        check_values: whether values are checked. Form always is.
        areas_required: whether every image must have its "area", of at least 0, where that is a column.
    """

    rows: tuple[RowColumn, ...]
    masks: bool = False
    pairs: bool = False
    similarity: OwnSimilarity | None = field(default=None, repr=False)
    of_truths: tuple[str, ...] = ("iscrowd", "area")
    of_detections: tuple[str, ...] = ()
    check_values: bool = True
    areas_required: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        """The names of all columns, in a fixed order."""
        names = []
        for side, further in (("detection", ("scores", *self.of_detections)), ("ground_truth", self.of_truths)):
            rows = self.rows_of(side)
            names += [f"{side}_{key}" for key in ("labels", *further) if key not in rows] + [f"{side}s_per_image"]
            names += [f"{side}_{key}" for key in rows]
            names += [f"{side}_mask_edges", f"{side}_edges_per_mask"] if self.masks else []
        names += ["image_sizes"] if self.masks else []
        return (*names, "pair_ious") if self.pairs else tuple(names)

    def rows_of(self, side: str) -> dict[str, RowColumn]:
        """The columns of shapes that "detection" or "ground_truth" has, by key."""
        return {column.key: column for column in self.rows if column.rules(side) is not None}

    def empty(self) -> Columns:
        """The columns of no images."""
        return self.validate([], [])[0]

    def of_images(self, columns: Columns, kept: Tensor) -> Columns:
        """As :func:`of_images`."""
        return of_images(columns, kept)

    def validate(self, preds: Images, target: Images, *, copy: bool = True) -> tuple[Columns, Tensor | None]:
        """Check images and make columns of them; the tensors given are neither kept nor written to.

        Args:
            preds, target: the images.
            copy: whether no column may share memory with them, as columns that are kept.

        Returns:
            The columns; and None, or on an accelerator (R,) bool, the rules of ``VALUE_RULES`` that they break.
        """
        packed = isinstance(preds, Mapping) or isinstance(target, Mapping)
        if packed:
            preds, target = ([packed_side(name, x)] for name, x in (("preds", preds), ("target", target)))
        else:
            rules.lists(preds, target)
        sides = [Side(name, images, packed, copy) for name, images in (("preds", preds), ("target", target))]  # type: ignore[arg-type]
        columns: Columns = {}
        for side, further in zip(sides, (("scores", *self.of_detections), self.of_truths), strict=True):
            columns |= self._rows(side, further)
        if len(columns["detections_per_image"]) != len(columns["ground_truths_per_image"]):
            raise ValueError(
                "`preds` and `target` must have `counts` of the same length, got "
                f"{len(columns['detections_per_image'])} and {len(columns['ground_truths_per_image'])}"
            )
        if self.masks:
            columns |= mask_columns.columns_of_images(sides[0].images, sides[1].images, packed)
        if self.pairs:
            columns["pair_ious"] = pair_ious(sides[0], sides[1], self.similarity)
        columns |= self._of_images(sides[1].images, packed, columns["ground_truth_labels"].device)
        devices = {str(column.device) for column in columns.values()}
        if len(devices) > 1:
            raise ValueError(f"all tensors in `preds` and `target` must lie on one device, got {sorted(devices)}")
        broken = self._broken(columns) if self.check_values else None
        if self.check_values and columns["detection_labels"].is_cpu:
            self._remark(sides, columns)
        return columns, broken

    def _remark(self, sides: Sequence[Side], columns: Columns) -> None:
        """Warn, on CPU, of what is allowed and likely wrong."""
        for side, known in zip(sides, self._marks, strict=True):
            if (said := side.of_other_rules(known)) is not None:
                warn_caller(said, UserWarning)
        self.remark_on_rows(columns)

    @property
    def _marks(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is read of detections and of ground truths beside shapes, labels and scores."""
        return self.of_detections, self.of_truths

    def remark_on_rows(self, columns: Columns) -> None:
        """Warn of rows that are allowed and likely wrong, where values are checked. Waits for an accelerator."""
        for column in self.rows if self.check_values else ():
            said = None if column.remark is None else column.remark(columns[f"ground_truth_{column.key}"])
            if column.doubtful is not None:
                values, counts = columns[f"detection_{column.key}"], columns["detections_per_image"]
                said = value_rules.seem_of_another_format(values, column.doubtful, counts)
            if said is not None:
                warn_caller(said, UserWarning)

    def too_few(self, columns: Columns) -> bool:
        """Whether there may be more to remark on rows once more images have come."""
        return len(columns["ground_truth_labels"]) < value_rules.FEW_ANGLES and any(x.remark for x in self.rows)

    def look_at(self, columns: Columns) -> Tensor | None:
        """Check columns that come as such, as :meth:`validate` does those that it makes.

        Returns:
            As its second.

        Raises:
            ValueError: for columns that do not go together, and on CPU for values that break a rule.
        """
        images = columns["detections_per_image"]
        rows = {prefix: len(columns[f"{prefix}_labels"]) for prefix in SIDES.values()}
        of = {"image": len(images)} | rows
        for name, column in columns.items():
            wanted = of["image"] if name.endswith("per_image") or name == "image_sizes" else None
            if wanted is None and not name.endswith(("mask_edges", "pair_ious", "category_ids")):
                wanted = rows["detection" if name.startswith("detection") else "ground_truth"]
            if wanted not in (None, len(column)):
                refuse(name, f"must have {wanted} entries, as the labels or images", len(column))
        if self.masks:
            mask_columns.check_sizes(columns["image_sizes"])
        for side, prefix in SIDES.items():
            counts = columns[f"{prefix}s_per_image"]
            rules.counts(side, counts.cpu(), rows[prefix])
            if self.masks:
                edges = columns[f"{prefix}_mask_edges"], columns[f"{prefix}_edges_per_mask"]
                mask_columns.check_edges(*edges, columns["image_sizes"].prod(1).repeat_interleave(counts), prefix)
        pairs = int((images * columns["ground_truths_per_image"]).sum())
        given = len(columns["pair_ious"]) if self.pairs else pairs
        if given != pairs:
            refuse("pair_ious", f"must have {pairs} entries, one per pair of an image", given)
        return self._broken(columns) if self.check_values else None

    def _rows(self, side: Side, further: tuple[str, ...]) -> Columns:
        """Labels, counts, boxes and the further columns of one side."""
        needed = ["labels", *(["scores"] if "scores" in further else [])]
        labels = side.column("labels")
        columns = {f"{side.prefix}_labels": labels, f"{side.prefix}s_per_image": side.counts}
        for key in further:
            if key in self.rows_of(side.prefix):
                continue
            if key in needed:
                columns[f"{side.prefix}_{key}"] = side.column(key)
            else:
                if key == "area" and self.areas_required:
                    rules.missing(side.name, side.images, key, packed=side.packed)
                columns[f"{side.prefix}_{key}"] = side.optional(
                    key, len(labels), labels.device, check_values=self.check_values
                )
        for key, column in self.rows_of(side.prefix).items():
            columns[f"{side.prefix}_{key}"] = side.column(key, column.row, real=True, optional=column.optional)
        return columns

    def _of_images(self, target: Sequence[Mapping[str, Any]], packed: bool, device: torch.device) -> Columns:  # noqa: ARG002
        """Further columns, of images as such, from their targets."""
        return {}

    def _broken(self, columns: Columns) -> Tensor | None:
        """Check values; everything is looked at before anything is said to be fine."""
        flags = []
        for name, prefix in SIDES.items():
            counts = columns[f"{prefix}s_per_image"]
            flags.append(value_rules.check_counts(counts, len(columns[f"{prefix}_labels"])))
            further = self.of_truths if name == "target" else ("scores", *self.of_detections)
            looks: dict[str, tuple[str, ...]] = {key: (value_rules.RULE_OF[key],) for key in further}
            looks |= {"area": ("size",)} if self.areas_required and "area" in further else {}
            looks |= {key: column.rules(prefix) or () for key, column in self.rows_of(prefix).items()}
            for key, names in looks.items():
                flags.append(value_rules.check(names, (name, key), columns[f"{prefix}_{key}"], counts))
        if self.pairs:
            pairs = columns["detections_per_image"] * columns["ground_truths_per_image"]
            owner = ("preds", "ious") if self.similarity is None else ("iou_type", "")
            flags.append(value_rules.check(("ious",), owner, columns["pair_ious"], pairs))
        found = [flag for flag in flags if flag is not None]
        return torch.stack(found).any(0) if found else None


def of_images(columns: Columns, kept: Tensor) -> Columns:
    """The columns of some of the images: those where ``kept``, (B,) bool, is true."""
    pairs = columns["detections_per_image"] * columns["ground_truths_per_image"]
    chosen = {"pair_ious": kept.repeat_interleave(pairs)}
    for prefix in SIDES.values():
        rows = chosen[prefix] = kept.repeat_interleave(columns[f"{prefix}s_per_image"])
        if (edges := columns.get(f"{prefix}_edges_per_mask")) is not None:
            chosen[f"{prefix}_mask_edges"] = rows.repeat_interleave(edges)
    for name, counts in columns.items():
        if name.endswith("_per_image") and (ids := name.removesuffix("_per_image")) in columns:
            chosen[ids] = kept.repeat_interleave(counts)
    found = {}
    for name, column in columns.items():
        side = "detection" if name.startswith("detection_") else "ground_truth"
        of_image = name.endswith("per_image") or name == "image_sizes"
        found[name] = column[kept if of_image else chosen.get(name, chosen[side])]
    return found


def image_of(counts: Tensor) -> Tensor:
    """(rows,) int64 image of each row, from the rows per image."""
    each = native(counts)
    return arrays.tensor(arrays.repeat(arrays.steps(len(each), each), each))


def distinct_labels(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The labels that occur, ascending; and each label's place among them."""
    if (seen := seen_labels(labels)) is None:
        distinct, place = torch.unique(labels, return_inverse=True)
        return distinct, place
    place = native(seen).cumsum(0) - 1
    return segments.places(seen), arrays.tensor(place[native(labels)])


def seen_labels(labels: Tensor) -> Tensor | None:
    """(highest + 1,) bool, which labels occur; None where some are negative or large."""
    each = native(labels)
    span = (int(each.min()), int(each.max())) if len(each) else (0, 0)
    if span[0] < 0 or span[1] >= 1 << 16:
        return None
    seen = labels.new_zeros(span[1] + 1, dtype=torch.bool)
    native(seen)[each] = True
    return seen


def int32_if_held(labels: Tensor) -> Tensor:
    """Labels as int32, which torchmetrics gives, if it holds all of them; else as they are."""
    narrow = labels.to(torch.int32)
    return narrow if torch.equal(narrow.to(labels.dtype), labels) else labels
