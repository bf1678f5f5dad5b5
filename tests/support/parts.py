"""Helpers that count, cut, reorder and change the arguments of ``update``."""

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from tests.support.every_metric import Arguments


def is_images(drawn: Arguments) -> bool:
    return not isinstance(drawn["preds"], torch.Tensor)


def count(drawn: Arguments) -> int:
    """Count items, rows or images."""
    preds = drawn["preds"]
    return len(preds["counts"]) if isinstance(preds, dict) else len(preds)


def chosen(drawn: Arguments, places: torch.Tensor) -> Arguments:
    """Select the items, rows or images at these places, in this order."""

    def select(value: Any) -> Any:
        if isinstance(value, list):
            return [value[place] for place in places.tolist()]
        if isinstance(value, dict) and "counts" in value:
            return _packed_at(value, places)
        return value[places] if isinstance(value, torch.Tensor) else value  # judgements of queries, by name

    return {name: select(value) for name, value in drawn.items()}


def _packed_at(value: dict[str, torch.Tensor], places: torch.Tensor) -> dict[str, torch.Tensor]:
    def rows(counts: torch.Tensor) -> torch.Tensor:
        owner = torch.arange(len(counts)).repeat_interleave(counts)
        return torch.cat([*((owner == place).nonzero().flatten() for place in places.tolist()), places[:0]])

    of_most = rows(value["counts"])
    return {
        key: x[places if key.endswith("counts") else rows(value[own]) if (own := f"{key}_counts") in value else of_most]
        for key, x in value.items()
    }


def cut(drawn: Arguments, sizes: list[int]) -> list[Arguments]:
    return [chosen(drawn, places) for places in torch.arange(count(drawn)).split(sizes)]


def mapped(drawn: Arguments, change: Any) -> Arguments:
    """Apply a function to every tensor."""
    return tree_map_only(torch.Tensor, change, drawn)


def with_scores(drawn: Arguments, change: Any) -> Arguments:
    """Apply a function to the scores."""
    preds = drawn["preds"]
    if isinstance(preds, torch.Tensor):
        return {**drawn, "preds": change(preds)}
    if isinstance(preds, dict):
        return {**drawn, "preds": {**preds, "scores": change(preds["scores"])}}
    return {**drawn, "preds": [{**image, "scores": change(image["scores"])} for image in preds]}


def with_targets(drawn: Arguments, change: Any) -> Arguments:
    """Apply a function to the targets; for images, to the labels on both sides."""
    if isinstance(drawn["target"], torch.Tensor):
        return {**drawn, "target": change(drawn["target"])}

    def change_labels(side: Any) -> Any:
        if isinstance(side, dict):
            return {**side, "labels": change(side["labels"])}
        return [{**image, "labels": change(image["labels"])} for image in side]

    return {**drawn, "preds": change_labels(drawn["preds"]), "target": change_labels(drawn["target"])}
