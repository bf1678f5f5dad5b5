"""Average precision for scikit-learn: a scorer for its cross-validation and searches (extra: ``sklearn``)."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.functional import average_precision
from torch_ap.rules.messages import refuse, shown
from torch_ap.rules.options import Action, Denominator, Interpolation, Normalization, Task, Ties, TopK

try:
    from sklearn.metrics import make_scorer
except ImportError as error:
    raise ModuleNotFoundError(
        "torch_ap.sklearn needs scikit-learn: pip install scikit-learn (extra `sklearn`)"
    ) from error

__all__ = ["average_precision_score", "average_precision_scorer"]


def average_precision_score(
    y_true: Any,
    y_score: Any,
    *,
    average: Literal["micro", "macro", "weighted"] = "macro",
    labels: Any = None,
    pos_label: Any = None,
    sample_weight: Any = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
    normalization: Normalization = "none",
) -> float:
    """Average precision with the arguments of scikit-learn's function of this name, and this package's conventions.

    Args:
        y_true: (N,) labels of two classes, or of more with (N, C) scores; or (N, C) indicators of 0 and 1.
        y_score: (N,) scores of the positive class, or (N, C) of each class or label.
        average: over classes or labels, as :func:`torch_ap.functional.multilabel_average_precision` has it.
        labels: (C,) the classes in the order of the columns; None for the distinct ones of ``y_true``, ascending.
        pos_label: the positive one of two classes; None for 1 where they are 0 and 1, or -1 and 1, else for the
            greater, which is the class that scikit-learn's classifiers score.
        sample_weight: (N,) weights.
        top_k, denominator, interpolation, ties, convention, empty_target_action: as for
            :func:`torch_ap.functional.binary_average_precision`.
        normalization: as for :func:`torch_ap.functional.multiclass_average_precision`, "softmax" where the scores of
            more than two classes are logits. The default ranks them as they are, as scikit-learn does.

    Returns:
        A float. Without a positive it is 0, with a warning, unless ``empty_target_action`` says otherwise.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``sklearn.metrics.average_precision_score`` with the defaults.

    Example:
        >>> from torch_ap.sklearn import average_precision_score
        >>> average_precision_score(["no", "yes", "yes"], [0.2, 0.9, 0.1])
        0.8333333333333333
    """
    truth, scores = np.asarray(y_true), _tensor(y_score)
    task: Task = "multilabel" if truth.ndim == 2 else "multiclass" if scores.ndim == 2 else "binary"
    width = None if task == "binary" else scores.shape[-1]
    if task == "multilabel":
        target = _tensor(truth)
    elif task == "multiclass":
        target = _class_ids(truth, labels, scores.shape[1])
    else:
        target = torch.from_numpy(np.asarray(truth == _positive(truth, pos_label)))
    value = average_precision(
        scores,
        target,
        task,
        num_classes=width,
        num_labels=width,
        average=average,
        weights=None if sample_weight is None else _tensor(sample_weight),
        normalization=normalization,
        top_k=top_k,
        denominator=denominator,
        interpolation=interpolation,
        ties=ties,
        convention=convention,
        empty_target_action=empty_target_action,
        dtype=torch.float64,
    )
    return float(value)


average_precision_scorer = make_scorer(average_precision_score, response_method=("decision_function", "predict_proba"))
"""Average precision as scikit-learn calls it: ``scorer(estimator, X, y)``, higher is better.

For ``cross_val_score``, ``cross_validate``, ``GridSearchCV`` and whatever else takes ``scoring``; it asks the estimator
for ``decision_function``, or else for ``predict_proba``, as scikit-learn's own does. The ranking of one class of
several compares items, for which probabilities are the better scores:
``make_scorer(average_precision_score, response_method="predict_proba")``. With conventions of one's own:
``make_scorer(average_precision_score, response_method=("decision_function", "predict_proba"), top_k=10)``.

A fold that lacks a class has the value that scikit-learn's own scorer gives it. Of labels 0 and 1, or -1 and 1, without
a positive: 0, with a warning; without a negative: 1. Of other labels, and of more than two classes, cross-validation
warns and makes it NaN (its ``error_score``), for a fold does not say which classes there are: stratify the folds, or
give ``labels`` or ``pos_label`` to ``make_scorer``.
"""


def _tensor(values: Any) -> Tensor:
    array = np.ascontiguousarray(values)
    return torch.tensor(array.astype(np.float64) if array.dtype == np.longdouble else array)


def _positive(truth: Any, given: Any) -> Any:
    """The positive label of two: the one that is given, or else the default."""
    found = np.unique(truth)
    if given is not None:
        if len(found) == 2 and given not in found.tolist():  # where there is one, it may be the other
            raise ValueError(f"`pos_label` must be one of the labels in `y_true`, {found.tolist()}, got {shown(given)}")
        return given
    if found.dtype.kind in "biuf" and any(np.isin(found, pair).all() for pair in ([0, 1], [-1, 1])):
        return 1
    if len(found) != 2:
        raise ValueError(
            f"`pos_label` must be given where `y_true` does not hold two labels, got {len(found)}: {found[:3].tolist()}"
        )
    return found[1]


def _class_ids(truth: Any, labels: Any, columns: int) -> Tensor:
    """Labels as the numbers of their columns."""
    classes = np.unique(truth) if labels is None else np.asarray(labels)
    if len(classes) != columns:
        raise ValueError(
            f"`labels` must name the {columns} columns of `y_score`, got {len(classes)} "
            f"{'different labels in `y_true`' if labels is None else 'labels'}"
        )
    order = np.argsort(classes)
    place = np.searchsorted(classes, truth, sorter=order).clip(max=columns - 1)
    unknown = classes[order[place]] != truth
    if unknown.any():
        refuse("y_true", "must hold the labels of `labels`", np.asarray(truth)[unknown][0])
    return torch.from_numpy(order[place])
