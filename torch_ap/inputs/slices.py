"""Slices of the images: which of them each name stands for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.rules.messages import Plain, refuse, shown


def members(slices: Any, ids: Tensor, rule: str) -> dict[str, Tensor]:
    """The images of each slice: (B,) bool by its name.

    Args:
        slices: names to images, by their ids, each once.
        ids: (B,) int64, different.
        rule: what an id that is not there breaks.

    Raises:
        TypeError: for what is no dict of names.
        ValueError: for no slice, and for one that is not whole numbers, or names an image that is not there, or twice.
    """
    if not isinstance(slices, Mapping):
        refuse("slices", "must be a dict of names to images", Plain(type(slices).__name__), TypeError)
    if not slices:
        refuse("slices", "must hold one slice at least", slices)
    for name in slices:
        if not isinstance(name, str):
            refuse("slices", "must have names that are str", name, TypeError)
    known, count = ids.cpu(), len(ids)
    ordered, order = known.sort()
    found = {}
    for name, given in slices.items():
        wanted = _whole_numbers(name, given)
        place = torch.searchsorted(ordered, wanted).clamp(max=max(count - 1, 0))
        unknown = wanted[ordered[place] != wanted] if count else wanted
        if len(unknown):
            _refuse(name, rule, int(unknown[0]))
        times = torch.bincount(order[place], minlength=count)
        if len(wanted) and int(times.max()) > 1:
            _refuse(name, "name each image once", int(known[times.argmax()]))
        found[name] = times.to(ids.device, torch.bool)
    return found


def _whole_numbers(name: str, given: Any) -> Tensor:
    """(n,) int64 on CPU."""
    values = given.detach().cpu() if isinstance(given, Tensor) else given
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        _refuse(name, "be a list, an array or a 1-D tensor of ints", Plain(type(given).__name__))
    array = np.asarray(list(values) if isinstance(values, set | frozenset | range) else values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        also = "; of flags, `flags.nonzero()` gives the places" if array.dtype.kind == "b" else ""
        _refuse(name, "be a list, an array or a 1-D tensor of ints", Plain(f"{shown(given)}{also}"))
    if array.dtype == np.uint64 and (large := array >= 1 << 63).any():
        _refuse(name, "hold ints below 2^63", int(array[large][0]))
    return torch.from_numpy(array.astype(np.int64))


def _refuse(name: str, rule: str, value: object) -> None:
    refuse(f"slices[{shown(name)}]", f"must {rule}", value)
