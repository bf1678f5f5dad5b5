"""Conversion between COCO's JSON files and what a detection metric takes and holds, as in torchmetrics."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_ap.files.coco import read_coco
from torch_ap.geometry import boxes, masks
from torch_ap.inputs.detections import Columns
from torch_ap.inputs.detections import Images as PackedOrList

Images = list[dict[str, Any]]


def images_of_files(
    results: str | Path, annotations: str | Path, iou_type: Sequence[str], box_format: str
) -> tuple[Images, Images]:
    """The images of a pair of files as lists of dicts, ascending by image id.

    Args:
        results: JSON list of detections.
        annotations: JSON with ``images``, ``annotations`` and ``categories``.
        iou_type: "bbox" for ``boxes``, "segm" for ``masks``, or both; "keypoints".
        box_format: of the boxes returned: "xyxy", "xywh" (as in the files, to the last bit) or "cxcywh".

    Returns:
        Predictions and targets, one dict per image of the annotations, with or without entries.
    """
    read = {kind: read_coco(annotations, results, kind) for kind in iou_type}
    sides = [[_split(getattr(data, side), box_format) for data in read.values()] for side in ("preds", "target")]
    preds, target = ([_joined(parts) for parts in zip(*side, strict=True)] for side in sides)
    return preds, target


def _split(images: PackedOrList, box_format: str) -> Images:
    """Packed images, or a list of them, as a list of dicts whose boxes have the format."""
    if not isinstance(images, Mapping):
        return [dict(image) for image in images]
    counts = images["counts"].tolist()
    columns = {key: torch.split(column, counts) for key, column in images.items() if key != "counts"}
    every = [{key: parts[place] for key, parts in columns.items()} for place in range(len(counts))]
    boxed = "boxes" in columns
    return [one | {"boxes": boxes.from_xywh(one["boxes"], box_format)} for one in every] if boxed else every


def _joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def write_files(
    name: str | Path,
    columns: Columns,
    box_format: str,
    class_names: Mapping[int, str],
    *,
    area_as_given: bool = False,
) -> None:
    """Write what a detection metric holds as ``{name}_preds.json`` and ``{name}_target.json``.

    Args:
        name: path without those endings.
        columns: the state of a metric of boxes, masks or both.
        box_format: of its boxes.
        class_names: name of each label that has one; other labels are called by their number.
        area_as_given: whether areas of 0 or less are written as they are; else that of the box or mask is.
    """
    labels = torch.unique(torch.cat([columns["ground_truth_labels"], columns["detection_labels"]])).tolist()
    images: list[dict[str, Any]] = [{"id": place} for place in range(len(columns["detections_per_image"]))]
    if "image_sizes" in columns:
        for image, (height, width) in zip(images, columns["image_sizes"].tolist(), strict=True):
            image |= {"height": height, "width": width}
    truth = {
        "info": {"description": "what a metric of torch_ap held"},
        "images": images,
        "annotations": _entries(columns, "ground_truth", box_format, area_as_given=area_as_given),
        "categories": [{"id": label, "name": class_names.get(label, str(label))} for label in labels],
    }
    found = _entries(columns, "detection", box_format)
    for kind, content in (("preds", found), ("target", truth)):
        Path(f"{name}_{kind}.json").write_text(json.dumps(content, indent=4), encoding="utf-8")


def _entries(columns: Columns, side: str, box_format: str, *, area_as_given: bool = False) -> list[dict[str, Any]]:
    """The annotations or detections of all images."""
    counts = columns[f"{side}s_per_image"]
    image = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    parts: dict[str, list[Any]] = {
        "id": list(range(1, len(image) + 1)),  # COCO's own evaluation takes an id of 0 for "none"
        "image_id": image.tolist(),
        "category_id": columns[f"{side}_labels"].tolist(),
    }
    own_area = None
    if f"{side}_boxes" in columns:
        xywh = boxes.to_xywh(columns[f"{side}_boxes"], box_format)
        parts["bbox"], own_area = xywh.tolist(), boxes.area(xywh)
    if "image_sizes" in columns:
        edges, lengths = columns[f"{side}_mask_edges"], columns[f"{side}_edges_per_mask"]
        parts["segmentation"] = _codes(edges, lengths, columns["image_sizes"][image])
        own_area = masks.area(edges, lengths)
    assert own_area is not None
    if side == "detection":
        parts["score"] = columns["detection_scores"].tolist()
    else:
        given = columns["ground_truth_area"]
        parts["iscrowd"] = columns["ground_truth_iscrowd"].tolist()
        given_counts = (given > 0) | area_as_given
        parts["area"] = torch.where(given_counts, given, own_area.to(given.dtype)).tolist()
    return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]


def _codes(edges: Tensor, lengths: Tensor, sizes: Tensor) -> list[dict[str, Any]]:
    """The compressed run-length code of each mask, the only kind that pycocotools takes in a list of detections."""
    pixels, out = sizes.prod(1).tolist(), []
    for size, last, ends in zip(sizes.tolist(), pixels, torch.split(edges, lengths.tolist()), strict=True):
        places = [0, *ends.tolist(), last]
        out.append({"size": size, "counts": _compressed([end - start for start, end in itertools.pairwise(places)])})
    return out


def _compressed(runs: Sequence[int]) -> str:
    """Run lengths as COCO writes them: from the fourth on as the difference to the one two places before, in digits of
    six bits from low to high, of which five are the value and one says "more follows".
    """
    text = []
    for place, run in enumerate(runs):
        rest, more = run - (runs[place - 2] if place > 2 else 0), True
        while more:
            digit, rest = rest & 0x1F, rest >> 5
            more = rest != (-1 if digit & 0x10 else 0)
            text.append(chr(48 + digit + 32 * more))
    return "".join(text)
