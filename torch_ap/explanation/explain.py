"""The public function: dispatch on the kind of data, and validation."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import BoxFormat, allowed_values
from torch_ap.explanation import detections, runs, scores
from torch_ap.explanation.record import Explanation, explanation_of
from torch_ap.retrieval.runs.evaluate import evaluate


def explain(
    preds: Any,
    target: Any,
    *,
    reported: float | str | None = None,
    top_k: int = 10,
    relevance_level: int = 1,
    box_format: BoxFormat = "xyxy",
) -> Explanation:
    """Return the average precision of data under every named convention, and the names that equal a reported number.

    The data decide the kind of conventions:

    - scores and targets: scikit-learn, torchmetrics, torcheval, XGBoost, PRROC, the trapezoid, VOC, COCO;
    - a run and its judgements: trec_eval 9 and 10, BEIR, ranx, torchmetrics, PyG, sentence-transformers,
      pytorch-metric-learning, haystack;
    - detections and ground truths: COCO, LVIS, VOC 2007 and 2010, Detectron2, Padilla, Ultralytics.

    Args:
        preds: (N,) scores of items, (N, C) scores of classes, tensors or arrays without NaN; or a run,
            ``{query: {document: score}}``; or a list with one dict per image with ``boxes`` (D, 4), ``scores`` (D,) and
            ``labels`` (D,), as for :func:`torch_ap.functional.coco_mean_average_precision`, or packed.
        target: 0 and 1 in the shape of ``preds``, or (N,) class indices for (N, C) scores; or judgements,
            ``{query: {document: grade}}``; or a list of dicts with ``boxes`` and ``labels``, and optionally ``iscrowd``
            or ``difficult``.
        reported: a number to identify, in [0, 1] or a percentage above 1. Text keeps trailing zeros: "0.750". A value
            equals it within half a unit of its last digit.
        top_k: k of the conventions of AP@k, for runs.
        relevance_level: lowest relevant grade, for runs.
        box_format: "xyxy", "xywh" or "cxcywh", for detections.

    Returns:
        :class:`torch_ap.explanation.Explanation`, which prints as a table. ``values`` are the numbers, ``matches`` the
        conventions that equal ``reported``. ``steps(first, second)``, ``table(first, second)`` and
        ``plot(first, second)`` split the difference of two conventions.

    Raises:
        TypeError, ValueError: for invalid data or arguments.

    The values of installed packages are compared in the tests. Programs without an own order of equal scores are
    evaluated with the order of the input. No other package has an equivalent.

    Example:
        >>> import torch
        >>> from torch_ap import explain
        >>> scores, target = torch.tensor([0.9, 0.7, 0.7, 0.4, 0.2]), torch.tensor([0, 1, 0, 1, 0])
        >>> found = explain(scores, target, reported=0.325)
        >>> found.matches
        ('XGBoost', 'PRROC')
        >>> print(found.table("scikit-learn", "XGBoost"))
        scikit-learn                            0.4167
        interpolation: None -> davis-goadrich  -0.0917
        XGBoost                                 0.3250
    """
    checks.one_of("box_format", box_format, allowed_values(BoxFormat))
    top_k = checks.positive_int("top_k", top_k)
    if _is_nested(preds) and _is_nested(target):
        with warnings.catch_warnings():  # the conventions count missing queries in different ways
            warnings.simplefilter("ignore", UserWarning)
            evaluate(target, preds, "AP", relevance_level=relevance_level)  # raises for invalid judgements and runs
        run = runs.Runs(target, preds, relevance_level)
        return explanation_of(runs.conventions(top_k), run.evaluate, reported)
    if isinstance(preds, Mapping | list | tuple) and isinstance(target, Mapping | list | tuple):
        images = detections.Detections(preds, target, box_format)
        return explanation_of(detections.CONVENTIONS, images.evaluate, reported)
    values, labels = _validate_scores(preds, target)
    conventions = scores.conventions(multiclass=values.ndim == 2 and np.ndim(target) == 1)
    return explanation_of(conventions, scores.Scores(values, labels).evaluate, reported)


def _is_nested(value: Any) -> bool:
    """Whether a value is a dict of dicts, as judgements and runs are."""
    return isinstance(value, Mapping) and all(isinstance(x, Mapping) for x in value.values())


def _validate_scores(preds: Any, target: Any) -> tuple[Tensor, Tensor]:
    """Return scores and 0/1 targets on the CPU, of one shape."""
    scores_, labels = _as_tensor("preds", preds), _as_tensor("target", target)
    if scores_.ndim not in (1, 2) or not scores_.numel():
        raise_invalid("preds", "must have shape (N,) or (N, C), with N and C of at least 1", tuple(scores_.shape))
    tensors.scores("preds", scores_)
    if scores_.is_floating_point() and bool(scores_.isnan().any()):
        raise_invalid("preds", "must not contain NaN", Plain(f"{int(scores_.isnan().sum())} of them"))
    if labels.is_floating_point() or labels.is_complex():
        raise_invalid("target", "must contain integers or booleans", labels.dtype, TypeError)
    if scores_.ndim == 2 and labels.ndim == 1 and len(labels) == len(scores_):
        classes = scores_.shape[1]
        if bool(((labels < 0) | (labels >= classes)).any()):
            raise_invalid("target", f"must contain class indices from 0 to {classes - 1}", labels.tolist())
        labels = labels[:, None] == torch.arange(classes)
    if labels.shape != scores_.shape:
        raise_invalid("target", f"must have the shape of `preds`, {tuple(scores_.shape)}", tuple(labels.shape))
    if bool(((labels != 0) & (labels != 1)).any()):
        raise_invalid("target", "must contain only 0 and 1", sorted(set(labels.reshape(-1).tolist()))[:5])
    return scores_, labels.to(torch.int64)


def _as_tensor(name: str, value: Any) -> Tensor:
    """Return a tensor or an array of numbers as a tensor on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if not hasattr(value, "__array__"):
        raise_invalid(name, "must be a tensor, an array, a run or images", Plain(type(value).__name__), TypeError)
    array = np.array(value, order="C")  # torch has no negative strides
    if array.dtype.kind not in "biufc":
        raise_invalid(name, "must contain numbers", array.dtype, TypeError)
    return torch.from_numpy(array)
