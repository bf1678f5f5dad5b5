"""Average precision of classifiers as functions of tensors: one per task, and one with the task as an argument."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from torch_ap.classification.suspicious import labels_of_items
from torch_ap.core.base import checks
from torch_ap.core.base.options import (
    Average,
    CurveAverage,
    IgnoreIndex,
    Normalization,
    Task,
    Thresholds,
    allowed_values,
    with_keywords_of,
)
from torch_ap.core.base.untraced import untraced
from torch_ap.core.items.inputs import Batch
from torch_ap.core.items.settings import (
    average_precision_settings,
    evaluate,
    inputs_and_thresholds,
    task_columns,
    validate_call,
)
from torch_ap.curves.precision_recall import PrecisionRecallCurve, validated_precision_recall
from torch_ap.inference.suspicious import SuspiciousLabels

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torch_ap.core.items.settings import APOptions, FunctionOptions


@with_keywords_of(evaluate)
def binary_average_precision(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    normalization: Literal["none", "sigmoid"] | None = None,
    **options: "Unpack[FunctionOptions]",
) -> Tensor:
    r"""Return the average precision of one ranking: the mean over the positives of the precision at their ranks.

    .. math::
        AP = \frac{1}{m} \sum_{i : y_i = 1} p(t_i), \qquad p(t) = \frac{h(t)}{t}

    with m positives, h(t) positives among the top t, and t_i the rank of positive i, by descending score.

    Args:
        preds: (N, ...) floating or integer scores, no NaN, higher for more likely positive. They are ranked unchanged,
            so that logits and probabilities give the same AP. Items of all dimensions form one ranking.
        target: (N, ...) integers or bool, 1 for positive, 0 for negative.
        thresholds: None for the exact value. An int (number of thresholds from 0 to 1; scores must be in [0, 1]), a
            list or a 1-D tensor, in any order, for the AP of the curve at these thresholds, as in torchmetrics. Scores
            between two thresholds are then tied, also for ``ties`` and ``top_k``: "optimistic" and "pessimistic" bound
            the exact value of untied scores.
        ignore_index: target value of items to ignore, or a sequence of such values.
        validate_args: whether to check values (NaN, range of ``target``, ``weights``); shapes and dtypes are always
            checked. Without the check, invalid values give a meaningless result. NaN scores of ignored items are valid.
        weights: (N, ...) weights from 0 to 1e288, one per item; counts become sums of weights. They require
            ``top_k=None`` and ``ties="grouped"``. AP loses digits if they sum to less than 1e-292, near the smallest
            float64 number.
        normalization: "sigmoid" to apply a sigmoid, None (default) to rank the scores unchanged.
        top_k: k of at least 1 for AP@k, which sums over the positives in the top k. If a tie group straddles k,
            "grouped" counts the items that fit, with their expected number of positives.
        denominator: divisor of AP@k: "min" for min(k, m), "relevant" for m, "found" for the number of positives in the
            top k. It has no effect without ``top_k``, and cannot be combined with ``interpolation``.
        interpolation: None for the sum above; "11-point" (VOC 2007, TREC), "40-point" (KITTI), "101-point" (COCO),
            "nuscenes", "all-points" (VOC 2010), "trapezoid", or a 1-D tensor of recall levels in [0, 1]. "11-point" has
            the levels 0, 0.1, ..., 1 of the definition; a recall of 3/10 reaches 0.3. "11-point-arange" has the levels
            of ``numpy.arange(0, 1.1, 0.1)``, used by many programs, whose 0.3, 0.6 and 0.7 are one bit larger.
            "11-point-trec9" and "11-point-trec10" cut at int(l m + 0.9) and round(l m) hits, as in trec_eval 9 and 10.
        ties: how equal scores count: "grouped" (they enter together), "expected" (mean over all their orders),
            "optimistic", "pessimistic".
        convention: a :class:`torch_ap.Convention` in place of the previous four arguments.
        empty_target_action: value without positives: "neg" 0, "pos" 1, "nan" and "skip" NaN, "error" raises. None, the
            default, is 0 with a warning. Without items the value is NaN.
        prevalence: share of positives in (0, 1) to which the AP applies, if it differs from their share in the sample:
            a balanced test set, a rare class in use. Each negative then has the weight (m / q) (1 - prevalence) /
            prevalence, with m positives and q negatives (Elkan 2001); NaN without negatives. It requires ``top_k=None``
            and ``ties="grouped"``.
        num_relevant: number of positives, with those that have no score, for example because a first stage did not
            return them; at least the number of scored positives. Positives without a score are never retrieved: they
            count in m, and the recall ends below 1. None if all positives have a score. It cannot be combined with
            ``weights`` and ``prevalence``.
        nan_strategy: "error" raises for NaN scores, "ignore" ignores their items, "warn" ignores them with a warning
            (the names of torchmetrics' aggregators).
        bins: None for the exact value; otherwise its mean over all orders inside the bins, from counts per bin:
            see :class:`torch_ap.BinaryAveragePrecision`.
        pilot: see ``bins``.
        tolerance: see ``bins``.
        dtype: floating dtype of the result. Default: float64 for float64 scores, else float32.

    Returns:
        0-d tensor in [0, 1].

    Raises:
        TypeError, ValueError: for an invalid argument; the message names it.

    Equals ``sklearn.metrics.average_precision_score`` (``weights`` as ``sample_weight``), and
    ``torchmetrics.functional.classification.binary_average_precision`` if it does not apply a sigmoid.

    Source: Zhu (2004), Recall, Precision and Average Precision, eq. 2 and example 3. "expected": McSherry & Najork
    (2008), Computing Information Retrieval Performance Measures Efficiently in the Presence of Tied Scores, section 3.
    Denominators of AP@k in other packages: "min" in sentence-transformers and PyG, "relevant" in trec_eval and ranx,
    "found" in torchmetrics' retrieval.

    Example:
        >>> import torch
        >>> from torch_ap.functional import binary_average_precision
        >>> preds = torch.tensor([10.0, 9, 8, 7, 6, 5, 4, 3, 2, 1])
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 0, 0, 0, 0])
        >>> binary_average_precision(preds, target)
        tensor(0.9167)
        >>> binary_average_precision(preds, target, top_k=2)
        tensor(1.)
    """
    settings = (None, None), "none", thresholds, ignore_index, validate_args
    return evaluate(preds, target, *settings, normalization=normalization, **options)


@with_keywords_of(evaluate)
def multiclass_average_precision(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: Literal["macro", "weighted", "none"] | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    normalization: Normalization = None,
    **options: "Unpack[FunctionOptions]",
) -> Tensor:
    """Return the average precision of each class against the rest, or their average.

    The ranking of class c contains all items by descending ``preds[:, c]``; items of class c are its positives.

    Args:
        preds: (N, C, ...) floating or integer scores; each column is ranked unchanged.
        target: (N, ...) class ids in [0, C).
        num_classes: C, at least 2.
        average: "macro" (mean over classes), "weighted" (by their number of items), "none" or None (one per class).
        thresholds: see :func:`binary_average_precision`.
        ignore_index: see :func:`binary_average_precision`.
        validate_args: see :func:`binary_average_precision`.
        weights: (N, ...) weight of each item, see :func:`binary_average_precision`.
        normalization: "softmax" over the classes, "sigmoid", or None to rank the scores unchanged. The ranking of a
            class compares items with one another. Logits need "softmax", because a softmax loss does not fix their
            offset per item; probabilities need None. With None, a warning is raised if the first rows are not
            distributions over the classes; "none" turns this warning off.
        top_k: see :func:`binary_average_precision`; it applies to each class.
        denominator: see :func:`binary_average_precision`; it applies to each class.
        interpolation: see :func:`binary_average_precision`; it applies to each class.
        ties: see :func:`binary_average_precision`; it applies to each class.
        convention: see :func:`binary_average_precision`; it applies to each class.
        prevalence: see :func:`binary_average_precision`; one for every class, so that their APs are comparable.
        num_relevant: see :func:`binary_average_precision`; a list with one number per class.
        dtype: see :func:`binary_average_precision`.
        empty_target_action: value of a class without items: "skip" leaves it out of the average, "nan" makes the
            average NaN, "neg" is 0, "pos" is 1, "error" raises. None, the default, skips it with a warning.
        nan_strategy: see :func:`binary_average_precision`; an item with a NaN score is ignored for all classes.
        bins: see :func:`binary_average_precision`; it applies to each column.
        pilot: see :func:`binary_average_precision`; it applies to each column.
        tolerance: see :func:`binary_average_precision`; it applies to each column.

    Returns:
        0-d tensor in [0, 1]; (C,) for ``average="none"``, with NaN for skipped classes.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals ``torchmetrics.functional.classification.multiclass_average_precision`` on probabilities, and
    ``sklearn.metrics.average_precision_score`` on one-hot targets.

    Source: Zhu (2004), eq. 2, for each class.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multiclass_average_precision
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.1, 1.5, 0.3], [1.0, -0.2, 0.4], [-0.5, 0.2, 0.1]])
        >>> target = torch.tensor([0, 1, 2, 1])
        >>> multiclass_average_precision(logits, target, num_classes=3, average=None, normalization="softmax")
        tensor([1.0000, 1.0000, 0.5000])
    """
    settings = ("num_classes", num_classes), average, thresholds, ignore_index, validate_args
    return evaluate(preds, target, *settings, normalization=normalization, **options)


@with_keywords_of(evaluate)
def multilabel_average_precision(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    average: Average = "macro",
    thresholds: Thresholds = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    normalization: Literal["none", "sigmoid"] | None = None,
    **options: "Unpack[FunctionOptions]",
) -> Tensor:
    """Return the average precision of each label, or their average.

    The ranking of label l contains all items by descending ``preds[:, l]``; its positives have ``target[:, l] == 1``.

    Args:
        preds: (N, L, ...) floating or integer scores; each column is ranked unchanged.
        target: (N, L, ...) integers or bool, 0 or 1.
        num_labels: L, at least 2.
        average: "macro" (mean over labels), "micro" (all scores in one ranking), "weighted" (by their number of
            positives), "none" or None (one value per label).
        thresholds: see :func:`binary_average_precision`.
        ignore_index: see :func:`binary_average_precision`; it drops single scores, not whole items.
        validate_args: see :func:`binary_average_precision`.
        weights: (N, ...) weight of each item, or (N, L, ...) weight of each score.
        normalization: "sigmoid" to apply a sigmoid; None to rank the scores unchanged.
        top_k: see :func:`binary_average_precision`; it applies to each label.
        denominator: see :func:`binary_average_precision`; it applies to each label.
        interpolation: see :func:`binary_average_precision`; it applies to each label.
        ties: see :func:`binary_average_precision`; it applies to each label.
        convention: see :func:`binary_average_precision`; it applies to each label.
        prevalence: see :func:`binary_average_precision`; one for every label, so that their APs are comparable.
        num_relevant: see :func:`binary_average_precision`; a list with one number per label, or an int for "micro".
        dtype: see :func:`binary_average_precision`.
        empty_target_action: value of a label without positives: "neg" is 0, "pos" is 1, "skip" leaves it out of the
            average, "nan" makes the average NaN, "error" raises. Default: 0 with a warning. The value of a label
            without items is NaN and left out.
        nan_strategy: see :func:`binary_average_precision`; a NaN score is ignored only for its own label.
        bins: see :func:`binary_average_precision`; it applies to each column.
        pilot: see :func:`binary_average_precision`; it applies to each column.
        tolerance: see :func:`binary_average_precision`; it applies to each column.

    Returns:
        0-d tensor in [0, 1]; (L,) for ``average="none"``.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals ``sklearn.metrics.average_precision_score`` on multilabel targets, and
    ``torchmetrics.functional.classification.multilabel_average_precision`` on probabilities.

    Source: Zhu (2004), eq. 2, for each label.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multilabel_average_precision
        >>> preds = torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]])
        >>> target = torch.tensor([[1, 0], [0, 1], [1, 0]])
        >>> multilabel_average_precision(preds, target, num_labels=2, average=None)
        tensor([0.8333, 0.5000])
    """
    settings = ("num_labels", num_labels), average, thresholds, ignore_index, validate_args
    return evaluate(preds, target, *settings, normalization=normalization, **options)


@with_keywords_of(evaluate)
def average_precision(
    preds: Tensor,
    target: Tensor,
    task: Task,
    thresholds: Thresholds = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: Average = "macro",
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    normalization: Normalization = None,
    **options: "Unpack[FunctionOptions]",
) -> Tensor:
    """Return the average precision of a task, with the arguments of torchmetrics' function of the same name.

    Args:
        preds: see the function of the task.
        target: see the function of the task.
        task: "binary", "multiclass" or "multilabel".
        num_classes: required for multiclass, ignored for other tasks, as in torchmetrics.
        num_labels: required for multilabel, ignored for other tasks.
        average: for multiclass and multilabel; for binary it is validated and ignored.
        thresholds: see the function of the task.
        ignore_index: see the function of the task.
        validate_args: see the function of the task.
        weights: see the function of the task.
        normalization: see the function of the task.
        top_k: see the function of the task.
        denominator: see the function of the task.
        interpolation: see the function of the task.
        ties: see the function of the task.
        convention: see the function of the task.
        empty_target_action: see the function of the task.
        prevalence: see the function of the task.
        num_relevant: see the function of the task.
        nan_strategy: see the function of the task.
        bins: see the function of the task.
        pilot: see the function of the task.
        tolerance: see the function of the task.
        dtype: see the function of the task.

    Returns:
        The result of the function of the task.

    Raises:
        TypeError, ValueError: for an unknown task, and as the function of the task.

    Equals :func:`torch_ap.functional.binary_average_precision`,
    :func:`torch_ap.functional.multiclass_average_precision` or
    :func:`torch_ap.functional.multilabel_average_precision`.

    Example:
        >>> import torch
        >>> from torch_ap.functional import average_precision
        >>> average_precision(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]), task="binary")
        tensor(0.8333)
    """
    columns = task_columns(task, num_classes, num_labels)
    checks.one_of("average", average, allowed_values(Average))
    settings = columns, "none" if task == "binary" else average, thresholds, ignore_index, validate_args
    return evaluate(preds, target, *settings, normalization=normalization, **options)


@untraced
@with_keywords_of(average_precision_settings)
def suspicious_labels(
    preds: Tensor,
    target: Tensor,
    task: Task,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: Average = "macro",
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    limit: int | None = 100,
    class_names: Sequence[str] | None = None,
    normalization: Normalization = None,
    **options: "Unpack[APOptions]",
) -> SuspiciousLabels:
    """Return targets that may be wrong, by how much average precision would change if each were corrected.

    The kinds of targets and their corrections are described at
    :meth:`torch_ap.BinaryAveragePrecision.suspicious_labels`. Each change is exact.

    Args:
        preds: see the function of the task in :mod:`torch_ap.functional`.
        target: see the function of the task.
        task: "binary", "multiclass" or "multilabel".
        num_classes: required for multiclass.
        num_labels: required for multilabel.
        average: "macro", "micro" (multilabel) or "weighted"; ignored for binary.
        ignore_index: see the function of the task.
        validate_args: see the function of the task.
        limit: the largest number of rows; None for all.
        class_names: (C,) different names of the classes or labels; None for 0 to C - 1.
        normalization: see the function of the task.
        top_k: see the function of the task.
        denominator: see the function of the task.
        interpolation: see the function of the task.
        ties: see the function of the task.
        convention: see the function of the task.
        empty_target_action: see the function of the task.
        prevalence: see the function of the task.
        nan_strategy: see the function of the task.
        num_relevant: must be None.
        bins: must be None.
        pilot: has no effect.
        tolerance: has no effect.

    Returns:
        :class:`torch_ap.inference.SuspiciousLabels`, as the method; ``item`` is the position of the item.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals the method ``suspicious_labels`` of a metric that is updated once with these items.

    Example:
        >>> import torch
        >>> from torch_ap.classification import suspicious_labels
        >>> scores = torch.tensor([0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.1])
        >>> for row in suspicious_labels(scores, torch.tensor([1, 0, 1, 0, 0, 0, 1]), task="binary").rows():
        ...     print(f"{row['item']}: {row['kind']}, {row['change']:+.3f}")
        1: high score, labelled negative, +0.194
        6: low score, labelled positive, +0.135
    """
    columns = task_columns(task, num_classes, num_labels)
    checks.one_of("average", average, allowed_values(Average))
    arguments = columns, "none" if task == "binary" else average, None, ignore_index, validate_args, normalization
    settings = average_precision_settings(*arguments, **options)

    def items() -> tuple[Batch, Tensor]:
        batch = validate_call(settings, preds, target)
        return batch, torch.arange(len(batch.scores), device=batch.scores.device)

    return labels_of_items(settings, items, limit, class_names)


def precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    task: Task = "binary",
    thresholds: Thresholds = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: CurveAverage = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Normalization = None,
) -> PrecisionRecallCurve:
    """Return the precision-recall curve of a task, with the arguments of torchmetrics' function of the same name.

    Args:
        preds: see the function of the task.
        target: see the function of the task.
        task: "binary", "multiclass" or "multilabel".
        thresholds: see the function of the task.
        ignore_index: see the function of the task.
        validate_args: see the function of the task.
        weights: see the function of the task.
        normalization: see the function of the task.
        num_classes: required for multiclass, ignored for other tasks, as in torchmetrics.
        num_labels: required for multilabel, ignored for other tasks.
        average: for multiclass only.

    Returns:
        The result of the function of the task.

    Raises:
        TypeError, ValueError: for an unknown task, and as the function of the task.

    Equals :func:`torch_ap.functional.binary_precision_recall_curve`,
    :func:`torch_ap.functional.multiclass_precision_recall_curve` or
    :func:`torch_ap.functional.multilabel_precision_recall_curve`.

    Example:
        >>> import torch
        >>> from torch_ap.functional import precision_recall_curve
        >>> precision_recall_curve(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])).precision
        tensor([0.5000, 0.6667, 0.5000, 1.0000, 1.0000])
    """
    columns = task_columns(task, num_classes, num_labels)
    checks.one_of("average", average, allowed_values(CurveAverage) if task == "multiclass" else (None,))
    inputs, levels = inputs_and_thresholds(
        thresholds, ignore_index, validate_args, normalization, name=columns[0], width=columns[1]
    )
    return validated_precision_recall(inputs, levels, preds, target, weights, average)
