"""One side of images, predictions or targets, on its way into columns; and the numbers of its pairs with the other."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.rules import detections as value_rules
from torch_ap.rules import images as rules
from torch_ap.rules import tensors
from torch_ap.rules.messages import Plain, refuse
from torch_ap.runtime import memory

_Similarity: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Tensor]

SIDES = {"preds": "detection", "target": "ground_truth"}
_INTEGER_FLAGS = ("iscrowd", "difficult", "ignore", "group_of")
_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
_WHOSE = {
    "iscrowd": "COCO's and KITTI's",
    "difficult": "VOC's, Open Images' and KITTI's",
    "ignore": "LVIS's and KITTI's",
    "group_of": "Open Images'",
} | dict.fromkeys(_LISTS, "LVIS's")


class Side:
    """Predictions or targets on their way into columns, which with ``copy`` share no memory with them."""

    def __init__(self, name: str, images: Sequence[Mapping[str, Any]], packed: bool, copy: bool) -> None:
        self.name, self.prefix, self.images, self.packed, self.copy = name, SIDES[name], images, packed, copy
        rules.missing(name, images, "labels", packed=packed)
        values = [image["labels"] for image in images]
        if not rules.form_fits("labels", values, None):
            rules.column(name, "labels", values, None, packed=packed)
        self.lengths = [value.shape[0] for value in values]
        if packed:
            rules.missing(name, images, "counts")
            rules.counts(name, images[0]["counts"], self.lengths[0])
        self.counts = self._counts()

    def _counts(self) -> Tensor:
        """(B,) int64 rows per image, beside the labels."""
        if self.packed:
            counts: Tensor = self.images[0]["counts"]
            return memory.sent(counts.to(torch.int64, copy=True), self.images[0]["labels"].device)
        counts = torch.tensor(self.lengths, dtype=torch.int64)
        return memory.sent(counts, self.images[0]["labels"].device) if self.images else counts

    def column(self, key: str, row: tuple[int, ...] = (), *, real: bool = False, optional: bool = False) -> Tensor:
        """One key of all images end to end. Where rows are ``real`` numbers, integers become float64."""
        if not optional:
            rules.missing(self.name, self.images, key, packed=self.packed)
        values = [
            image[key] if key in image else torch.full((length, *row), torch.nan, device=image["labels"].device)
            for image, length in zip(self.images, self.lengths, strict=True)
        ]
        if not rules.form_fits(key, values, self.lengths, row):
            rules.column(self.name, key, values, self.lengths, row, packed=self.packed)
        filled = [value for value, length in zip(values, self.lengths, strict=True) if length]
        if not filled:
            device = values[0].device if values else None
            return torch.empty((0, *row), dtype=torch.int64 if key == "labels" else torch.float32, device=device)
        if real:
            filled = [value if value.is_floating_point() else value.to(torch.float64) for value in filled]
        elif key == "labels":
            filled = [value.to(torch.int64) for value in filled]
        elif len({value.dtype for value in filled}) > 1:
            odd = next((place for place, value in enumerate(values) if value.dtype == torch.int64 and len(value)), 0)
            return memory.joined(filled, f"{self.name}[{odd}]['{key}']").detach()
        if len(filled) == 1 and not self.copy:
            return filled[0].detach().resolve_neg().contiguous()
        return torch.cat(filled).detach()

    def optional(self, key: str, rows: int, device: torch.device, *, check_values: bool) -> Tensor:
        """One key that images may lack; zeros for those that do. uint8 flags, float64 areas."""
        dtype = torch.uint8 if key in _INTEGER_FLAGS else torch.float64
        if not any(key in image for image in self.images):
            return torch.zeros(rows, dtype=dtype, device=device)
        values = [
            image[key] if key in image else torch.zeros(length, dtype=dtype, device=device)
            for image, length in zip(self.images, self.lengths, strict=True)
        ]
        if not rules.form_fits(key, values, self.lengths):
            rules.column(self.name, key, values, self.lengths, packed=self.packed)
        filled = [value for value, length in zip(values, self.lengths, strict=True) if length]
        if dtype == torch.float64:
            filled = [value.to(dtype) for value in filled]
        joined = torch.cat(filled).detach() if filled else torch.zeros(0, dtype=dtype, device=device)
        if dtype == torch.uint8 and joined.dtype not in (torch.bool, torch.uint8):
            # a value that is neither 0 nor 1 must not become one by a cast, and is what a message shows
            joined = joined.to(torch.float64) if joined.dtype in tensors.UNSIGNED else joined
            if check_values and joined.device.type == "cpu":
                value_rules.check(("flags",), (self.name, key), joined, self.counts)
                return joined.to(dtype)
            return torch.where((joined == 0) | (joined == 1), joined.to(dtype), 255)
        return joined.to(dtype)

    def of_other_rules(self, known: Collection[str]) -> str | None:
        """What to say of the first key that means something to the rules of another metric alone, if any does.

        Nothing of flags beside those that are read: such images are for metrics of several rules.

        Args:
            known: the keys that are read.
        """
        given = set().union(*[image.keys() for image in self.images])
        told = _LISTS if given.intersection(known, _INTEGER_FLAGS) else _WHOSE
        for key in (key for key in told if key in given.difference(known)):
            place = self._marked(key)
            if place is None:
                continue
            where = self.name if self.packed else f"{self.name}[{place}]"
            said = f"by {_WHOSE[key]} rules, which this metric does not know"
            if key in _LISTS:
                return f"`{where}['{key}']` lists categories {said}: detections of all categories count"
            own = " and ".join(f"`{x}`" for x in known if x in _INTEGER_FLAGS)
            also = f"; it reads {own}" if own else ""
            return f"`{where}['{key}']` marks objects {said}: they count as all others{also}"
        return None

    def _marked(self, key: str) -> int | None:
        """The first image whose ``key`` says something, on CPU: a flag that is set, a list that is not empty."""
        every = {place: image.get(key) for place, image in enumerate(self.images)}
        given = {place: x for place, x in every.items() if isinstance(x, Tensor) and x.is_cpu}
        if key in _LISTS:
            return next((place for place, x in given.items() if x.numel()), None)
        if {(x.dtype, x.ndim) for x in given.values()} == {(torch.int64, 1)} and not torch.cat([*given.values()]).any():
            return None  # as most data sets have it, in one step
        return next((place for place, x in given.items() if x.any()), None)


def packed(name: str, value: Any) -> Mapping[str, Any]:
    """The packed form of a side, which both must have."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"`preds` and `target` must both be lists of dicts, or both be dicts with `counts`; `{name}` is a "
            f"{type(value).__name__}"
        )
    if "counts" not in value:
        got = f"a dict with the keys {sorted(value, key=str)}"
        refuse(name, "must be a list of dicts, one per image, or a dict with `counts`, the rows per image", Plain(got))
    return value


def pair_ious(detections: Side, truths: Side, similarity: _Similarity | None) -> Tensor:
    """(P,) float64 of every detection with every ground truth of its image, row by row, image after image."""
    if similarity is not None:
        values = _similarities(detections, truths, similarity)
    elif not detections.packed:
        rules.missing("preds", detections.images, "ious")
        values = [image["ious"] for image in detections.images]
        for place, value in enumerate(values):
            _check_pairs(f"preds[{place}]['ious']", "must have", value, detections, truths, place)
    else:
        return _packed_ious(detections, truths)
    if not values:
        return torch.empty(0, dtype=torch.float64)
    return torch.cat([value_rules.similarities(value.detach().reshape(-1)) for value in values])


def _similarities(detections: Side, truths: Side, similarity: _Similarity) -> list[Tensor]:
    """What a function gives of each image that has both."""
    if detections.packed:
        raise ValueError("`preds` and `target` must be lists of dicts, one per image, where `iou_type` is a function")
    values = []
    for place, (found, true) in enumerate(zip(detections.images, truths.images, strict=True)):
        device = found["labels"].device
        value = torch.empty(0, device=device)
        if detections.lengths[place] and truths.lengths[place]:
            value = _asked(similarity, found, true, place)
            _check_pairs("iou_type", f"must return, for image {place}, a tensor of", value, detections, truths, place)
        values.append(value.to(device))
    return values


def _asked(similarity: _Similarity, preds: Mapping[str, Any], target: Mapping[str, Any], place: int) -> Any:
    """What a function gives of an image; its error, if it raises one, says of which."""
    try:
        return similarity(preds, target)
    except Exception as error:
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"`iou_type` was given `preds[{place}]` and `target[{place}]`")
        raise


def _check_pairs(argument: str, rule: str, value: Any, detections: Side, truths: Side, place: int) -> None:
    """One number for each pair of an image."""
    shape = (detections.lengths[place], truths.lengths[place])
    empty = isinstance(value, Tensor) and not value.numel() and not shape[0] * shape[1]
    if not empty:
        tensors.returned(argument, f"{rule} shape {shape}", value, shape)


def _packed_ious(detections: Side, truths: Side) -> Tensor:
    """Those of the packed form."""
    key = "ious"
    rules.missing("preds", detections.images, key, packed=True)
    values = [image[key] for image in detections.images]
    total = None
    if detections.counts.device.type == "cpu":
        total = [int((detections.counts * truths.counts).sum())]
    if not rules.form_fits(key, values, total):
        rules.column("preds", key, values, total, packed=True)
    given: Tensor = values[0]
    return value_rules.similarities(given.detach())
