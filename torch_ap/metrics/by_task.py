"""The metric of a classification task that is given by name."""

from typing import Any

from torchmetrics import Metric

from torch_ap.curve.convention import Convention, convention_of
from torch_ap.metrics.classification import (
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
)
from torch_ap.metrics.items import ClassificationAveragePrecision
from torch_ap.rules import checks
from torch_ap.rules.options import (
    PILOT,
    TOLERANCE,
    Action,
    Average,
    BinsArgument,
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


class AveragePrecision(Metric):
    """Makes the metric of a task given by name, as ``torchmetrics.AveragePrecision`` does; no class of its own.

    Returns a :class:`BinaryAveragePrecision`, :class:`MulticlassAveragePrecision` or
    :class:`MultilabelAveragePrecision`, with the arguments in the order of ``torchmetrics.AveragePrecision``.

    Args:
        task: "binary", "multiclass" or "multilabel".
        thresholds, ignore_index, validate_args: of every task.
        num_classes: of multiclass, needed there; other tasks ignore it, as in torchmetrics.
        num_labels: of multilabel, likewise.
        average: of multiclass and multilabel; binary ignores it.
        normalization, top_k, denominator, interpolation, ties, convention: as for the class of the task.
        empty_target_action, nan_strategy, bins, pilot, tolerance: likewise.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown task, or without the number of classes or labels that it needs.

    Example:
        >>> import torch
        >>> from torch_ap import AveragePrecision
        >>> metric = AveragePrecision(task="binary", ties="expected")
        >>> metric.update(torch.tensor([0.5, 0.5]), torch.tensor([1, 0]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def __new__(  # type: ignore[misc]
        cls,
        task: Task,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: Average = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
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
        **kwargs: Any,
    ) -> ClassificationAveragePrecision:
        """Make the metric of the task."""
        checks.one_of("task", task, allowed(Task))
        settings: dict[str, Any] = {
            "convention": convention_of(convention, top_k, denominator, interpolation, ties),
            "empty_target_action": empty_target_action,
            "nan_strategy": nan_strategy,
            "bins": bins,
            "pilot": pilot,
            "tolerance": tolerance,
            **kwargs,
        }
        shared: tuple[Any, ...] = (thresholds, ignore_index, validate_args, normalization)
        if task == "binary":
            return BinaryAveragePrecision(*shared, **settings)
        if task == "multiclass":
            return MulticlassAveragePrecision(num_classes, average, *shared, **settings)  # type: ignore[arg-type]
        return MultilabelAveragePrecision(num_labels, average, *shared, **settings)  # type: ignore[arg-type]
