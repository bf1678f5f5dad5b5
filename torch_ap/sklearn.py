"""Scores and scorers for scikit-learn's cross-validation and searches (extra: ``sklearn``).

Average precision, the precision at a minimum recall, and the recall at a minimum precision.
"""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.core.base.options import Action, Denominator, Interpolation, Normalization, Ties, TopK
from torch_ap.core.base.untraced import plain_tensor
from torch_ap.core.items.settings import validated_curve
from torch_ap.core.measures.convention import Convention
from torch_ap.functional import average_precision
from torch_ap.inference.operating_point import ThresholdCriterion

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

_METHODS = ("decision_function", "predict_proba")  # of the estimator, the first that it has

__all__ = [
    "average_precision_score",
    "average_precision_scorer",
    "precision_at_recall_score",
    "precision_at_recall_scorer",
    "recall_at_precision_score",
    "recall_at_precision_scorer",
]


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
    truth, given_scores = _as_array("y_true", y_true), _as_array("y_score", y_score)
    weight = None if sample_weight is None else column_or_1d(_as_array("sample_weight", sample_weight))
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
        scores, target, weights = _binary(truth, given_scores, pos_label, weight)
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
    options["weights"] = None if weight is None or by_sample else _tensor(weight)
    if scores.shape[1] == 1:
        values = average_precision(scores[:, 0], target[:, 0], "binary", **options)[None]
    else:
        values = average_precision(
            scores.contiguous(),
            target.contiguous(),
            "multilabel",
            num_labels=scores.shape[1],
            average="none" if by_sample or average is None else average,  # type: ignore[arg-type]
            **options,
        )
    if average is None:
        return values.numpy()
    return float(np.average(values.numpy(), weights=weight)) if by_sample else float(values)


average_precision_scorer = make_scorer(average_precision_score, response_method=_METHODS, pos_label=None)
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


def precision_at_recall_score(
    y_true: Any, y_score: Any, *, min_recall: float, pos_label: Any = 1, sample_weight: Any = None
) -> float:
    """Return the highest precision of the thresholds that reach a recall.

    Args:
        y_true: (N,) labels of two classes.
        y_score: (N,) scores of the positive class.
        min_recall: the least recall, in [0, 1].
        pos_label: the positive label; None as for :func:`average_precision_score`.
        sample_weight: (N,) weights.

    Returns:
        The precision, NaN without positives.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals the maximum of the precision of ``sklearn.metrics.precision_recall_curve`` where its recall is at least
    ``min_recall``, without its last point, which has no threshold.

    Example:
        >>> from torch_ap.sklearn import precision_at_recall_score
        >>> precision_at_recall_score([1, 0, 1, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5], min_recall=0.5)
        0.75
    """
    checks.fraction("min_recall", min_recall)
    return _best_ratio(ThresholdCriterion(recall=min_recall), y_true, y_score, pos_label, sample_weight)


def recall_at_precision_score(
    y_true: Any, y_score: Any, *, min_precision: float, pos_label: Any = 1, sample_weight: Any = None
) -> float:
    """Return the highest recall of the thresholds that reach a precision.

    Args:
        y_true: (N,) labels of two classes.
        y_score: (N,) scores of the positive class.
        min_precision: the least precision, in [0, 1].
        pos_label: the positive label; None as for :func:`average_precision_score`.
        sample_weight: (N,) weights.

    Returns:
        The recall, 0 if no threshold has this precision, NaN without positives.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals the maximum of the recall of ``sklearn.metrics.precision_recall_curve`` where its precision is at least
    ``min_precision``, without its last point, which has no threshold.

    Example:
        >>> from torch_ap.sklearn import recall_at_precision_score
        >>> recall_at_precision_score([1, 0, 1, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5], min_precision=0.7)
        1.0
    """
    checks.fraction("min_precision", min_precision)
    return _best_ratio(ThresholdCriterion(precision=min_precision), y_true, y_score, pos_label, sample_weight)


def precision_at_recall_scorer(min_recall: float) -> Any:
    """Return a scorer of :func:`precision_at_recall_score`, for the ``scoring`` arguments of scikit-learn.

    Args:
        min_recall: the least recall, in [0, 1].

    Returns:
        The scorer. The greater of two labels is positive.

    Raises:
        ValueError: for an invalid ``min_recall``.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from torch_ap.sklearn import precision_at_recall_scorer
        >>> features, labels = [[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"]
        >>> precision_at_recall_scorer(0.9)(LogisticRegression().fit(features, labels), features, labels)
        0.6666666666666666
    """
    checks.fraction("min_recall", min_recall)
    return make_scorer(precision_at_recall_score, response_method=_METHODS, pos_label=None, min_recall=min_recall)


def recall_at_precision_scorer(min_precision: float) -> Any:
    """Return a scorer of :func:`recall_at_precision_score`, for the ``scoring`` arguments of scikit-learn.

    Args:
        min_precision: the least precision, in [0, 1].

    Returns:
        The scorer. The greater of two labels is positive.

    Raises:
        ValueError: for an invalid ``min_precision``.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from torch_ap.sklearn import recall_at_precision_scorer
        >>> features, labels = [[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"]
        >>> recall_at_precision_scorer(0.9)(LogisticRegression().fit(features, labels), features, labels)
        0.5
    """
    checks.fraction("min_precision", min_precision)
    return make_scorer(recall_at_precision_score, response_method=_METHODS, pos_label=None, min_precision=min_precision)


def _best_ratio(criterion: ThresholdCriterion, y_true: Any, y_score: Any, pos_label: Any, sample_weight: Any) -> float:
    """Return the best ratio of the thresholds that meet a criterion."""
    truth, given_scores = _as_array("y_true", y_true), _as_array("y_score", y_score)
    weight = None if sample_weight is None else column_or_1d(_as_array("sample_weight", sample_weight))
    if (kind := type_of_target(truth, input_name="y_true")) != "binary":
        raise ValueError(f"`y_true` must contain labels of two classes, got {kind}")
    check_consistent_length(truth, given_scores, weight)
    curve = validated_curve(*_binary(truth, given_scores, pos_label, weight))
    return float(criterion.best_entries(curve)[1])


def _binary(truth: Any, given_scores: Any, pos_label: Any, weight: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return scores, targets and weights of labels of two classes."""
    truth = column_or_1d(truth)
    scores = _tensor(_finite(column_or_1d(given_scores)))
    target = torch.from_numpy(np.asarray(truth == _positive(truth, pos_label)))
    return scores, target, None if weight is None else _tensor(weight)


def _as_array(name: str, value: Any) -> Any:
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
