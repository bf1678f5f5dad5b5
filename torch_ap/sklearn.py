"""Average precision for scikit-learn: a scorer for its cross-validation and searches (extra: ``sklearn``)."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.core.base.options import Action, Denominator, Interpolation, Normalization, Ties, TopK
from torch_ap.core.base.untraced import plain_tensor
from torch_ap.core.measures.convention import Convention
from torch_ap.functional import average_precision

try:
    from sklearn.metrics import make_scorer
    from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
    from sklearn.utils.multiclass import type_of_target
except ImportError as error:
    raise ModuleNotFoundError(
        "torch_ap.sklearn needs scikit-learn: pip install scikit-learn (extra `sklearn`)"
    ) from error

_EXACT = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")  # score dtypes of torch
_AVERAGES = ("micro", "samples", "weighted", "macro", None)

__all__ = ["average_precision_score", "average_precision_scorer"]


def average_precision_score(
    y_true: Any,
    y_score: Any,
    *,
    average: Literal["micro", "samples", "weighted", "macro"] | None = "macro",
    labels: Any = None,
    pos_label: Any = 1,
    sample_weight: Any = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
    normalization: Normalization = "none",
) -> float | np.ndarray[Any, np.dtype[np.float64]]:
    """Return the average precision for the arguments of scikit-learn's function of this name.

    Args:
        y_true: (N,) labels of two classes, or of more with (N, C) scores; or (N, C) indicators, 1 for positive.
        y_score: (N,) scores of the positive class, or (N, C) of each class or label.
        average: over classes or labels: "macro", "weighted" by their positives, "micro" for all entries in one
            ranking, "samples" for the mean over rankings of the classes, one per sample, None for each class. Ignored
            for two classes.
        labels: (C,) the classes in the order of the columns; None for the distinct labels in ``y_true``, ascending.
            scikit-learn lacks this argument.
        pos_label: the positive one of two classes, 1 for more classes and for indicators. None, which scikit-learn
            lacks, is 1 if the labels are 0 and 1, or -1 and 1, else the greater label, whose scores scikit-learn's
            classifiers return.
        sample_weight: (N,) weights.
        top_k: as for :func:`torch_ap.functional.binary_average_precision`.
        denominator: see ``top_k``.
        interpolation: see ``top_k``.
        ties: see ``top_k``.
        convention: see ``top_k``.
        empty_target_action: see ``top_k``.
        normalization: as for :func:`torch_ap.functional.multiclass_average_precision`, "softmax" if the scores of more
            than two classes are logits. The default ranks the scores as they are, as scikit-learn does.

    Returns:
        A float, or (C,) float64 for ``average=None``. A ranking without a positive counts 0, with a warning, unless
        ``empty_target_action`` has another value.

    Raises:
        TypeError, ValueError: for the inputs that scikit-learn rejects, and for negative weights.

    With the defaults the result equals ``sklearn.metrics.average_precision_score``.

    Example:
        >>> from torch_ap.sklearn import average_precision_score
        >>> average_precision_score(["no", "yes", "yes"], [0.2, 0.9, 0.1], pos_label="yes")
        0.8333333333333333
    """
    checks.one_of("average", average, _AVERAGES)
    truth, given_scores = _without_tensor("y_true", y_true), _without_tensor("y_score", y_score)
    weight = None if sample_weight is None else column_or_1d(_without_tensor("sample_weight", sample_weight))
    kind = type_of_target(truth, input_name="y_true")
    if kind not in ("binary", "multiclass", "multilabel-indicator"):
        raise ValueError(f"`y_true` must contain labels or indicators, got {kind}")
    check_consistent_length(truth, given_scores, weight)
    options: dict[str, Any] = {
        "top_k": top_k,
        "denominator": denominator,
        "interpolation": interpolation,
        "ties": ties,
        "convention": convention,
        "empty_target_action": empty_target_action,
        "dtype": torch.float64,
    }
    if kind == "binary" and labels is None:
        truth = column_or_1d(truth)
        scores = _tensor(_finite(column_or_1d(given_scores)))
        target = torch.from_numpy(np.asarray(truth == _positive(truth, pos_label)))
        weights = None if weight is None else _tensor(weight)
        return float(
            average_precision(scores, target, "binary", weights=weights, normalization=normalization, **options)
        )
    if pos_label not in (1, None):
        raise_invalid("pos_label", f"must be 1 for {kind} targets", pos_label)
    scores = _tensor(check_array(given_scores))
    if kind == "multilabel-indicator":
        target = torch.from_numpy(check_array(truth) == 1)
    else:
        target = _indicators(column_or_1d(truth), labels, scores)
    if scores.shape != target.shape:
        shape = tuple(target.shape)
        raise ValueError(f"`y_score` must have the shape of the indicators, {shape}, got {tuple(scores.shape)}")
    if kind != "multilabel-indicator" and normalization == "softmax":
        scores, normalization = torch.softmax(scores, 1), "none"
    return _average_of_columns(scores, target, average, weight, {"normalization": normalization, **options})


def _average_of_columns(
    scores: Tensor, target: Tensor, average: str | None, weight: Any, options: dict[str, Any]
) -> float | np.ndarray[Any, np.dtype[np.float64]]:
    """Return the average over the columns of (N, C) indicators, or over their rows for "samples"."""
    by_sample = average == "samples"
    if by_sample:
        scores, target = scores.t(), target.t()
    values = average_precision(
        scores.contiguous(),
        target.contiguous(),
        "multilabel",
        num_labels=scores.shape[1],
        average="none" if by_sample or average is None else average,  # type: ignore[arg-type]
        weights=None if weight is None or by_sample else _tensor(weight),
        **options,
    )
    if average is None:
        return values.numpy()
    return float(np.average(values.numpy(), weights=weight)) if by_sample else float(values)


average_precision_scorer = make_scorer(
    average_precision_score, response_method=("decision_function", "predict_proba"), pos_label=None
)
"""Average precision as scikit-learn calls it: ``scorer(estimator, X, y)``, higher is better.

For ``cross_val_score``, ``cross_validate``, ``GridSearchCV`` and every other ``scoring`` argument. It calls the
estimator's ``decision_function``, or else ``predict_proba``, as scikit-learn's own scorer does. The ranking of one
class of several compares items, for which probabilities are the better scores:
``make_scorer(average_precision_score, response_method="predict_proba")``. Other conventions are further arguments:
``make_scorer(average_precision_score, response_method=("decision_function", "predict_proba"), top_k=10)``.

Of two classes the greater label is positive, as text too, where scikit-learn's own scorer needs ``pos_label``. A fold
that lacks a class has the value of scikit-learn's own scorer. For the labels 0 and 1, or -1 and 1, it is 0 with a
warning without a positive, and 1 without a negative. For other labels, and for more than two classes, cross-validation
warns and returns NaN (its ``error_score``), because a fold does not show which classes exist: stratify the folds, or
pass ``labels`` or ``pos_label`` to ``make_scorer``.
"""


def _without_tensor(name: str, value: Any) -> Any:
    """Return a tensor as an array, every other value unchanged."""
    return plain_tensor(name, value).cpu().numpy() if isinstance(value, Tensor) else value


def _tensor(values: Any) -> Tensor:
    """Return an array of numbers as a tensor, with bool as 0 and 1."""
    array = np.ascontiguousarray(values)
    return torch.tensor(array if array.dtype in _EXACT else array.astype(np.float64))


def _finite(scores: Any) -> Any:
    """Return the scores unless one is text, NaN or infinite."""
    if scores.dtype.kind in "US":
        raise_invalid("y_score", "must be numbers", scores.dtype)
    assert_all_finite(scores, input_name="y_score")
    return scores


def _positive(truth: Any, pos_label: Any) -> Any:
    """Return the positive one of the labels, at most two."""
    classes = np.unique(truth)
    if pos_label is not None:
        if len(classes) == 2 and pos_label not in classes.tolist():  # a single label can be the other one
            raise ValueError(
                f"`pos_label` must be one of the labels in `y_true`, {classes.tolist()}, got {short_repr(pos_label)}"
            )
        return pos_label
    if classes.dtype.kind in "biuf" and any(np.isin(classes, pair).all() for pair in ([0, 1], [-1, 1])):
        return 1
    if len(classes) != 2:
        raise ValueError(
            f"`pos_label` is required unless `y_true` has two labels, got {len(classes)}: {classes[:3].tolist()}"
        )
    return classes[1]


def _indicators(truth: Any, labels: Any, scores: Tensor) -> Tensor:
    """Return labels as (N, C) indicators of the columns."""
    classes = np.unique(truth) if labels is None else np.asarray(labels)
    if scores.shape[1:] != (len(classes),):
        raise ValueError(
            f"`labels` must name the {scores.shape[-1]} columns of `y_score`, got {len(classes)} "
            f"{'different labels in `y_true`' if labels is None else 'labels'}"
        )
    indicators = truth[:, None] == classes
    unknown = ~indicators.any(1)
    if unknown.any():
        raise_invalid("y_true", "must contain the labels of `labels`", truth[unknown][0])
    return torch.from_numpy(indicators)
