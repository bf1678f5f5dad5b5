"""What the laws do with the arguments of ``update``: count, cut, reorder and change them."""

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from tests.every_metric import Arguments


def is_images(drawn: Arguments) -> bool:
    return not isinstance(drawn["preds"], torch.Tensor)


def count(drawn: Arguments) -> int:
    """Of items, rows or images."""
    preds = drawn["preds"]
    return len(preds["counts"]) if isinstance(preds, dict) else len(preds)


def chosen(drawn: Arguments, places: torch.Tensor) -> Arguments:
    """The items, rows or images at these places, in this order."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [value[place] for place in places.tolist()]
        if isinstance(value, dict) and "counts" in value:
            return _packed_at(value, places)
        return value[places] if isinstance(value, torch.Tensor) else value  # judgements of queries, by their names

    return {name: of(value) for name, value in drawn.items()}


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
    """Every tensor changed."""
    return tree_map_only(torch.Tensor, change, drawn)


def with_scores(drawn: Arguments, change: Any) -> Arguments:
    """The scores changed."""
    preds = drawn["preds"]
    if isinstance(preds, torch.Tensor):
        return {**drawn, "preds": change(preds)}
    if isinstance(preds, dict):
        return {**drawn, "preds": {**preds, "scores": change(preds["scores"])}}
    return {**drawn, "preds": [{**image, "scores": change(image["scores"])} for image in preds]}


def with_targets(drawn: Arguments, change: Any) -> Arguments:
    """The targets changed; of images, the labels on both sides."""
    if isinstance(drawn["target"], torch.Tensor):
        return {**drawn, "target": change(drawn["target"])}

    def of(side: Any) -> Any:
        if isinstance(side, dict):
            return {**side, "labels": change(side["labels"])}
        return [{**image, "labels": change(image["labels"])} for image in side]

    return {**drawn, "preds": of(drawn["preds"]), "target": of(drawn["target"])}
