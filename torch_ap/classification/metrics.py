"""Average precision of classifiers as metrics: one class per task, and a constructor with the task as an argument.

Each class stores items or counts, and computes the function of the same name in ``torch_ap.functional``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from torchmetrics import Metric

from torch_ap.classification import item_sample
from torch_ap.classification.state import ItemMetric
from torch_ap.core.base import checks
from torch_ap.core.base.options import (
    Average,
    IgnoreIndex,
    Normalization,
    Task,
    Thresholds,
    allowed_values,
    with_keywords_of,
)
from torch_ap.core.items.settings import average_precision_settings
from torch_ap.curves.record import Curve
from torch_ap.inference import metric

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torch_ap.classification.state import MetricOptions


class BinaryAveragePrecision(ItemMetric):
    """AP of one ranking; see :func:`torch_ap.functional.binary_average_precision` for the formula and every argument.

    It replaces ``torchmetrics.classification.BinaryAveragePrecision``, with equal names, positions and keywords. One
    difference is intended: scores are ranked unchanged. torchmetrics applies a sigmoid to each batch with scores
    outside [0, 1]. A ranking can then mix two scales, and a saturated sigmoid ties distinct scores. Here
    ``normalization`` is None, or it is applied to every batch.

    A checkpoint of torchmetrics' class without thresholds (states ``preds`` and ``target``) can be loaded; its scores
    are the normalized ones. For a checkpoint with thresholds ``load_state_dict`` raises an error, because its counts do
    not contain the thresholds.

    Args:
        thresholds: None for the exact value; an int, list or 1-D tensor for counts at these thresholds in constant
            memory. An int spaces them evenly over [0, 1]; logits then need ``normalization="sigmoid"``.
        ignore_index: target value of items to ignore, or a sequence of such values.
        validate_args: whether to check the values of batches; shapes and dtypes are always checked.
        normalization: None or "sigmoid".
        top_k: k for AP@k, or None.
        denominator: divisor of AP@k: "min" for min(k, m), "relevant" for m, "found" for the number of positives in the
            top k. It has no effect without ``top_k``, and cannot be combined with ``interpolation``.
        interpolation: None, "11-point", "11-point-arange", "11-point-trec9", "11-point-trec10", "40-point",
            "101-point", "nuscenes", "all-points", "trapezoid", or a tensor of recall levels.
        ties: "grouped", "expected", "optimistic" or "pessimistic".
        convention: a :class:`torch_ap.Convention` in place of the previous four arguments.
        empty_target_action: "neg", "pos", "nan", "skip" or "error"; None for 0 with a warning.
        prevalence: share of positives to which the value applies; None for the share in the sample.
        num_relevant: number of positives of all updates and processes, with those that have no score; None if all have
            one. Intervals, comparisons and chance levels then raise ValueError.
        nan_strategy: "error", or "ignore" or "warn" to leave out items whose score is NaN.
        bins: None for the exact value; otherwise counts per bin in constant memory. ``compute`` returns the mean over
            all orders inside the bins, :meth:`bounds` the range over all orders. "half" uses one bin per number of
            float16 or bfloat16 and is exact; an int is a number of bins of equal width on [0, 1]; "adaptive" uses
            16,384 bins learnt from the first scores; a list or 1-D tensor contains the edges. A bin takes 32 bytes, an
            adaptive bin 40.
        pilot: number of items that are stored to learn the bins of "adaptive".
        tolerance: width of the bounds above which ``compute`` warns.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    The result is float32. It is float64 for float64 scores, except with thresholds, which do not store the dtype, and
    after ``set_dtype(torch.float64)``.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> metric = BinaryAveragePrecision()
        >>> metric.update(torch.tensor([0.9, 0.8]), torch.tensor([1, 0]))
        >>> metric.update(torch.tensor([0.7, 0.1]), torch.tensor([1, 0]))
        >>> metric.compute()
        tensor(0.8333)
    """

    noisy_interval = item_sample.noisy_interval
    prediction_powered_interval = metric.prediction_powered_interval

    @with_keywords_of(average_precision_settings, open_ended=True)
    def __init__(
        self,
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        normalization: Literal["none", "sigmoid"] | None = None,
        **kwargs: "Unpack[MetricOptions]",
    ) -> None:
        settings = (None, None), "none", thresholds, ignore_index, validate_args, normalization
        super().__init__(*settings, **kwargs)

    def curve(self) -> Curve:
        """Return the curve of all items of all processes: counts at every distinct score or threshold.

        Returns:
            :class:`torch_ap.curves.Curve`. Its AP is NaN without positives, for every ``empty_target_action``.

        Raises:
            ValueError: as ``compute()``.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision()
            >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
            >>> metric.curve().operating_point(recall=0.9).threshold
            tensor(0.7000)
        """
        return self._curves()[0]


class MulticlassAveragePrecision(ItemMetric):
    """One-vs-rest AP of each class, averaged; see :func:`torch_ap.functional.multiclass_average_precision`.

    It replaces ``torchmetrics.classification.MulticlassAveragePrecision``, with equal names, positions and keywords.
    Two differences are intended. A softmax is never guessed; ``normalization="softmax"`` applies it to every batch. A
    class that never occurs is NaN and left out of the average, also with thresholds, for which torchmetrics counts it
    as 0.

    Args:
        num_classes: C.
        average: "macro", "weighted", "none" or None.
        thresholds, ignore_index, validate_args: see :class:`BinaryAveragePrecision`.
        normalization: "softmax", "sigmoid", or None for neither. Logits of a network trained with a softmax need
            "softmax". With None, a warning is raised once if the first rows are not distributions, except on an
            accelerator with ``thresholds``; "none" turns the warning off.
        top_k, denominator, interpolation, ties, convention: see :class:`BinaryAveragePrecision`; they apply to each
            class.
        empty_target_action: see :class:`BinaryAveragePrecision`; None leaves absent classes out of the average, with a
            warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out items with a NaN score.
        prevalence, bins, pilot, tolerance: see :class:`BinaryAveragePrecision`; they apply to each column.
        num_relevant: see :class:`BinaryAveragePrecision`; a list with one number per column.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MulticlassAveragePrecision
        >>> metric = MulticlassAveragePrecision(num_classes=3, average=None, normalization="softmax")
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.1, 1.5, 0.3], [1.0, -0.2, 0.4], [-0.5, 0.2, 0.1]])
        >>> metric.update(logits, torch.tensor([0, 1, 2, 1]))
        >>> metric.compute()
        tensor([1.0000, 1.0000, 0.5000])
    """

    plot_legend_name: str = "Class"

    @with_keywords_of(average_precision_settings, open_ended=True)
    def __init__(
        self,
        num_classes: int,
        average: Literal["macro", "weighted", "none"] | None = "macro",
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        normalization: Normalization = None,
        **kwargs: "Unpack[MetricOptions]",
    ) -> None:
        settings = ("num_classes", num_classes), average, thresholds, ignore_index, validate_args, normalization
        super().__init__(*settings, **kwargs)

    def curve(self, class_names: Sequence[str] | None = None) -> list[Curve]:
        """Return the curve of each class against the rest, for all items of all processes.

        Args:
            class_names: (C,) different names; None for 0 to C - 1.

        Returns:
            (C,) :class:`torch_ap.curves.Curve`, with the class as ``name``.

        Raises:
            ValueError: as ``compute()``, and unless there is one name per class.
        """
        return self._curves(class_names)

    @property
    def num_classes(self) -> int:
        """The number of classes, C."""
        return self._settings.inputs.width or 0


class MultilabelAveragePrecision(ItemMetric):
    """AP of each label, averaged; see :func:`torch_ap.functional.multilabel_average_precision`.

    It replaces ``torchmetrics.classification.MultilabelAveragePrecision``, with equal names, positions and keywords.
    One difference is intended: a sigmoid is never guessed; ``normalization="sigmoid"`` applies it to every batch.

    Args:
        num_labels: L.
        average: "macro", "micro", "weighted", "none" or None.
        thresholds, ignore_index, validate_args, normalization: see :class:`BinaryAveragePrecision`.
        top_k, denominator, interpolation, ties, convention: see :class:`BinaryAveragePrecision`; they apply to each
            label.
        empty_target_action: see :class:`BinaryAveragePrecision`; None counts labels without positives as 0, with a
            warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out NaN scores.
        prevalence, bins, pilot, tolerance: see :class:`BinaryAveragePrecision`; they apply to each column.
        num_relevant: see :class:`BinaryAveragePrecision`; a list with one number per column.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MultilabelAveragePrecision
        >>> metric = MultilabelAveragePrecision(num_labels=2, average=None)
        >>> metric.update(torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]]), torch.tensor([[1, 0], [0, 1], [1, 0]]))
        >>> metric.compute()
        tensor([0.8333, 0.5000])
    """

    plot_legend_name: str = "Label"

    @with_keywords_of(average_precision_settings, open_ended=True)
    def __init__(
        self,
        num_labels: int,
        average: Average = "macro",
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        normalization: Literal["none", "sigmoid"] | None = None,
        **kwargs: "Unpack[MetricOptions]",
    ) -> None:
        settings = ("num_labels", num_labels), average, thresholds, ignore_index, validate_args, normalization
        super().__init__(*settings, **kwargs)

    def curve(self, class_names: Sequence[str] | None = None) -> list[Curve] | Curve:
        """Return the curve of each label for all items of all processes; a single curve for the micro average.

        Args:
            class_names: (L,) different names; None for 0 to L - 1.

        Returns:
            (L,) :class:`torch_ap.curves.Curve`, with the label as ``name``; one for ``average="micro"``.

        Raises:
            ValueError: as ``compute()``, and unless there is one name per label.
        """
        curves = self._curves(class_names)
        return curves[0] if self.average == "micro" else curves

    @property
    def num_labels(self) -> int:
        """The number of labels, L."""
        return self._settings.inputs.width or 0


class AveragePrecision(Metric):
    """Constructor for the metric of a task, like ``torchmetrics.AveragePrecision``.

    It returns a :class:`BinaryAveragePrecision`, :class:`MulticlassAveragePrecision` or
    :class:`MultilabelAveragePrecision`, with the arguments in the order of ``torchmetrics.AveragePrecision``.

    Args:
        task: "binary", "multiclass" or "multilabel".
        thresholds, ignore_index, validate_args: see the class of the task.
        num_classes: required for multiclass, ignored for other tasks, as in torchmetrics.
        num_labels: required for multilabel, ignored for other tasks.
        average: for multiclass and multilabel; ignored for binary.
        normalization, top_k, denominator, interpolation, ties, convention: see the class of the task.
        empty_target_action, prevalence, num_relevant, nan_strategy: see the class of the task.
        bins, pilot, tolerance: see the class of the task.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown task, or a missing number of classes or labels.

    Example:
        >>> import torch
        >>> from torch_ap import AveragePrecision
        >>> metric = AveragePrecision(task="binary", ties="expected")
        >>> metric.update(torch.tensor([0.5, 0.5]), torch.tensor([1, 0]))
        >>> metric.compute()
        tensor(0.7500)
    """

    @with_keywords_of(average_precision_settings, open_ended=True)
    def __new__(  # type: ignore[misc]
        cls,
        task: Task,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: Average = "macro",
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        *,
        normalization: Normalization = None,
        **kwargs: "Unpack[MetricOptions]",
    ) -> ItemMetric:
        """Return the metric of the task."""
        checks.one_of("task", task, allowed_values(Task))
        checks.one_of("average", average, allowed_values(Average))
        shared = thresholds, ignore_index, validate_args, normalization
        if task == "binary":
            return BinaryAveragePrecision(*shared, **kwargs)  # type: ignore[arg-type]
        if task == "multiclass":
            return MulticlassAveragePrecision(num_classes, average, *shared, **kwargs)  # type: ignore[arg-type]
        return MultilabelAveragePrecision(num_labels, average, *shared, **kwargs)  # type: ignore[arg-type]
