"""Score thresholds as they are given: one, or one of each class."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_ap.analysis.operating_points import OperatingPoints
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse

Given = float | Tensor | list[float] | Mapping[int, float] | OperatingPoints

_NAME = "score_threshold"


def score_thresholds(given: Any, labels: Tensor | None, scores: Tensor) -> Tensor:
    """A threshold of scores, 0-d, or one of each class, (K,), in the dtype of ``segments.comparable``; own memory.

    Args:
        given: a number; (K,) of them in the order of the labels; or by label, a dict or operating points.
        labels: (K,) of the classes; None where there is one threshold for all.
        scores: of the detections.
    """
    dtype = segments.comparable(scores[:0]).dtype
    return torch.as_tensor(_by_label(given, labels), dtype=dtype).to(scores.device, copy=True)


def _by_label(given: Any, labels: Tensor | None) -> Any:
    points = isinstance(given, OperatingPoints)
    values = given.threshold if points else given.detach() if isinstance(given, Tensor) else given
    if points and values.ndim:
        values = dict(zip(given.labels.tolist(), values.tolist(), strict=True))
    if isinstance(values, Mapping) and labels is not None:
        missing = [label for label in labels.tolist() if label not in values]
        if missing:
            refuse(_NAME, f"must have a threshold of each class, and has none of label {missing[0]}", values)
        values = [values[label] for label in labels.tolist()]
    if isinstance(values, Tensor) and values.ndim == 1:
        kept, number = len(values), checks.is_real(values.dtype)
    elif isinstance(values, list | tuple):
        kept, number = len(values), all(map(checks.is_number, values))
    else:
        return checks.number(_NAME, values, _rule(labels))
    if not number or kept != (1 if labels is None else len(labels)):
        shape = number and isinstance(given, Tensor)
        refuse(_NAME, _rule(labels), tuple(given.shape) if shape else given)
    return values


def _rule(labels: Tensor | None) -> str:
    if labels is None:
        return "must be a number other than NaN, or OperatingPoints of one threshold, where `per_class=False`"
    each = f"one for each of the {len(labels)} classes"
    return f"must be a number other than NaN, OperatingPoints, a dict of label to number, or a list or tensor of {each}"
