"""The functions whose task is named by an argument, as in torchmetrics: binary, multiclass or multilabel."""

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention, convention_of
from torch_ap.evaluation.arguments import columns_of, inputs_and_bins, inputs_and_thresholds, settings_of
from torch_ap.evaluation.average_precision import evaluate
from torch_ap.functional.precision_recall import PrecisionRecallCurve, curve_of_inputs
from torch_ap.rules import checks
from torch_ap.rules.options import (
    PILOT,
    TOLERANCE,
    Action,
    Average,
    BinsArgument,
    CurveAverage,
    Denominator,
    Interpolation,
    NanStrategy,
    Normalization,
    Task,
    Thresholds,
    Ties,
    TopK,
    allowed,
)


def average_precision(
    preds: Tensor,
    target: Tensor,
    task: Task,
    thresholds: Thresholds = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: Average = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Normalization = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
    nan_strategy: NanStrategy = "error",
    bins: BinsArgument = None,
    pilot: int = PILOT,
    tolerance: float = TOLERANCE,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The average precision of a task given by name, with the arguments of torchmetrics' function of this name.

    Args:
        preds, target: as the function of the task takes them.
        task: "binary", "multiclass" or "multilabel".
        num_classes: of multiclass, needed there; other tasks ignore it, as in torchmetrics.
        num_labels: of multilabel, likewise.
        average: of multiclass and multilabel; binary ignores it.
        thresholds, ignore_index, validate_args, weights, normalization: as for the function of the task.
        top_k, denominator, interpolation, ties, convention: likewise.
        empty_target_action, nan_strategy, bins, pilot, tolerance, dtype: likewise.

    Returns:
        What the function of the task returns.

    Raises:
        TypeError, ValueError: for an unknown task, or what the function of the task refuses.

    Equals :func:`torch_ap.functional.binary_average_precision`,
    :func:`torch_ap.functional.multiclass_average_precision` or
    :func:`torch_ap.functional.multilabel_average_precision`.

    Example:
        >>> import torch
        >>> from torch_ap.functional import average_precision
        >>> average_precision(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1, 0, 1]), task="binary")
        tensor(0.8333)
    """
    columns = columns_of(task, num_classes, num_labels)
    inputs, found = inputs_and_bins(
        thresholds, ignore_index, validate_args, normalization, nan_strategy, *columns, bins, pilot, tolerance
    )
    meant = convention_of(convention, top_k, denominator, interpolation, ties)
    settings = settings_of(inputs, meant, found, "none" if task == "binary" else average, empty_target_action)
    return evaluate(settings, preds, target, weights, dtype)


def precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    task: Task = "binary",
    thresholds: Thresholds = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: CurveAverage = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Normalization = None,
) -> PrecisionRecallCurve:
    """The precision-recall curve of a task that is named, with the arguments of torchmetrics' function of this name.

    Args:
        preds, target: as the function of the task takes them.
        task: "binary", "multiclass" or "multilabel".
        thresholds, ignore_index, validate_args, weights, normalization: of every task.
        num_classes: of multiclass, needed there; other tasks ignore it, as in torchmetrics.
        num_labels: of multilabel, likewise.
        average: of multiclass.

    Returns:
        What the function of the task returns.

    Raises:
        TypeError, ValueError: for an unknown task, or what the function of the task refuses.

    Equals :func:`torch_ap.functional.binary_precision_recall_curve`,
    :func:`torch_ap.functional.multiclass_precision_recall_curve` or
    :func:`torch_ap.functional.multilabel_precision_recall_curve`.

    Example:
        >>> import torch
        >>> from torch_ap.functional import precision_recall_curve
        >>> precision_recall_curve(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])).precision
        tensor([0.5000, 0.6667, 0.5000, 1.0000, 1.0000])
    """
    columns = columns_of(task, num_classes, num_labels)
    checks.one_of("average", average, allowed(CurveAverage) if task == "multiclass" else (None,))
    inputs, levels = inputs_and_thresholds(
        thresholds, ignore_index, validate_args, normalization, name=columns[0], width=columns[1]
    )
    return curve_of_inputs(inputs, levels, preds, target, weights, average)
