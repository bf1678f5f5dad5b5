"""The highest precision with a minimum recall, and the highest recall with a minimum precision, as metrics."""

from typing import Any

import torch
from torch import Tensor

from torch_ap.classification.state import ItemState
from torch_ap.core.base import checks
from torch_ap.core.base.options import Action, IgnoreIndex, NanStrategy, Normalization, Thresholds, with_keywords_of
from torch_ap.core.metric.state import setting
from torch_ap.core.ranking import segments
from torch_ap.inference.operating_point import ThresholdCriterion


class OperatingPointMetric(ItemState):
    """Abstract: the best ratio among the thresholds with a minimum of the other ratio, and the best threshold.

    Args:
        ratio: the ratio with a minimum, "recall" or "precision".
        least: the minimum; the argument is ``min_{ratio}``.
        columns: name and value of the argument with the number of columns; (None, None) for one ranking.
        thresholds, ignore_index, validate_args: as of the concrete classes.
        normalization, empty_target_action, nan_strategy: as for :class:`torch_ap.BinaryAveragePrecision`.
        kwargs: arguments of the base class.
    """

    _options = ("empty_target_action", "nan_strategy")
    _can_exchange = False  # a part of a ranking does not show which threshold is best

    def __init__(
        self,
        ratio: str,
        least: float,
        columns: tuple[str | None, int | None],
        thresholds: Thresholds,
        ignore_index: IgnoreIndex,
        validate_args: bool,
        *,
        normalization: Normalization = None,
        empty_target_action: Action | None = None,
        nan_strategy: NanStrategy = "error",
        **kwargs: Any,
    ) -> None:
        checks.fraction(f"min_{ratio}", least)
        settings = columns, "none", thresholds, ignore_index, validate_args, normalization
        super().__init__(*settings, empty_target_action=empty_target_action, nan_strategy=nan_strategy, **kwargs)
        self._criterion = ThresholdCriterion(**{ratio: least})

    def compute(self) -> tuple[Tensor, Tensor]:
        """Return the best ratio of all items so far, and its threshold, as in torchmetrics.

        Returns:
            0-d, or (C,) for several classes or labels: the ratio, float32, or float64 for float64 scores; the
            threshold, in the dtype of floating scores, else float64. If positives exist and no threshold has the
            minimum, the ratio is 0. Without positives it is the value of ``empty_target_action``. The threshold is then
            NaN.

        Raises:
            ValueError: without positives, if ``empty_target_action`` is "error".
        """
        self._raise_broken()
        settings, curve, batch, scores = self._ranked_items()
        if batch is None:
            curve = settings.curve_of_bins(self._binned(), score=self._lower_ends())
        elif self._rows_unseen:
            self._check_rows(batch)
        assert curve.score is not None
        entry, ratio = self._criterion.best_entries(curve)
        threshold = curve.score if curve.score.is_floating_point() else segments.as_float64(curve.score)
        thresholds = torch.cat([threshold, threshold.new_full((1,), torch.nan)])[entry]
        ratio = settings.averaged(ratio, curve, self._dtype_of_result(scores), warn=self.update_called)
        return ratio, thresholds[0] if settings.inputs.width is None else thresholds

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the ratio, as torchmetrics does (extra: ``plot``).

        Args:
            val: the ratio, or a list of ratios; None for the ratio of ``compute()``.
            ax: the matplotlib axis to draw on.

        Returns:
            Figure and axis.

        Raises:
            ModuleNotFoundError: without matplotlib.
        """
        return super().plot(self.compute()[0] if val is None else val, ax)


class BinaryPrecisionAtFixedRecall(OperatingPointMetric):
    """The highest precision with a minimum recall of one ranking, and the highest threshold with it.

    Replaces ``torchmetrics.classification.BinaryPrecisionAtFixedRecall``: same names, positions and results. Intended
    differences: scores are never converted silently (``normalization``), and comparisons are float64. The method
    :meth:`torch_ap.curves.Curve.operating_point` also has the counts and the intervals at the threshold.

    If several thresholds have this precision, the result is the one with the highest recall.

    Args:
        min_recall: the least recall, in [0, 1].
        thresholds: None for every distinct score; an int, list or 1-D tensor for these thresholds in constant memory.
            An int spaces them evenly over [0, 1]; logits then need ``normalization="sigmoid"``.
        ignore_index, validate_args, normalization, nan_strategy: see :class:`torch_ap.BinaryAveragePrecision`.
        empty_target_action: the precision without positives: "neg" 0, "pos" 1, "nan" and "skip" NaN, "error" raises.
            None for 0 with a warning.
        kwargs: arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryPrecisionAtFixedRecall
        >>> metric = BinaryPrecisionAtFixedRecall(min_recall=0.5)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]), torch.tensor([1, 0, 1, 1, 0]))
        >>> metric.compute()
        (tensor(0.7500), tensor(0.6000))
    """

    @with_keywords_of(OperatingPointMetric.__init__, open_ended=True)
    def __init__(
        self,
        min_recall: float,
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__("recall", min_recall, (None, None), thresholds, ignore_index, validate_args, **kwargs)
        self.min_recall = min_recall


class MulticlassPrecisionAtFixedRecall(OperatingPointMetric):
    """The highest precision with a minimum recall of each class against the rest, and the highest threshold with it.

    Replaces ``torchmetrics.classification.MulticlassPrecisionAtFixedRecall``: same names, positions and results; see
    :class:`BinaryPrecisionAtFixedRecall` for the differences.

    Args:
        num_classes: C, at least 2.
        min_recall: the least recall, in [0, 1].
        thresholds, ignore_index, validate_args, normalization, nan_strategy: see
            :class:`torch_ap.MulticlassAveragePrecision`.
        empty_target_action: as for :class:`BinaryPrecisionAtFixedRecall`; None for NaN with a warning.
        kwargs: arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MulticlassPrecisionAtFixedRecall
        >>> metric = MulticlassPrecisionAtFixedRecall(num_classes=3, min_recall=0.5)
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])
        >>> metric.update(preds, torch.tensor([0, 1, 1, 2]))
        >>> metric.compute()
        (tensor([1., 1., 1.]), tensor([0.7000, 0.4000, 0.5000]))
    """

    num_classes = setting("_settings.inputs.width", "The number of classes, C.")

    @with_keywords_of(OperatingPointMetric.__init__, open_ended=True)
    def __init__(
        self,
        num_classes: int,
        min_recall: float,
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        columns = ("num_classes", num_classes)
        super().__init__("recall", min_recall, columns, thresholds, ignore_index, validate_args, **kwargs)
        self.min_recall = min_recall


class MultilabelPrecisionAtFixedRecall(OperatingPointMetric):
    """The highest precision with a minimum recall of each label, and the highest threshold with it.

    Replaces ``torchmetrics.classification.MultilabelPrecisionAtFixedRecall``: same names, positions and results; see
    :class:`BinaryPrecisionAtFixedRecall` for the differences.

    Args:
        num_labels: L, at least 2.
        min_recall: the least recall, in [0, 1].
        thresholds, ignore_index, validate_args, normalization, nan_strategy: see
            :class:`torch_ap.MultilabelAveragePrecision`.
        empty_target_action: as for :class:`BinaryPrecisionAtFixedRecall`; None for 0 with a warning.
        kwargs: arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MultilabelPrecisionAtFixedRecall
        >>> metric = MultilabelPrecisionAtFixedRecall(num_labels=2, min_recall=0.5)
        >>> metric.update(torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]]), torch.tensor([[1, 0], [0, 1], [1, 0]]))
        >>> metric.compute()
        (tensor([1.0000, 0.5000]), tensor([0.9000, 0.7000]))
    """

    num_labels = setting("_settings.inputs.width", "The number of labels, L.")

    @with_keywords_of(OperatingPointMetric.__init__, open_ended=True)
    def __init__(
        self,
        num_labels: int,
        min_recall: float,
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        columns = ("num_labels", num_labels)
        super().__init__("recall", min_recall, columns, thresholds, ignore_index, validate_args, **kwargs)
        self.min_recall = min_recall


class BinaryRecallAtFixedPrecision(OperatingPointMetric):
    """The highest recall with a minimum precision of one ranking, and the highest threshold with it.

    Replaces ``torchmetrics.classification.BinaryRecallAtFixedPrecision``: same names, positions and results. Intended
    differences: scores are never converted silently (``normalization``), and comparisons are float64. The method
    :meth:`torch_ap.curves.Curve.operating_point` also has the counts and the intervals at the threshold.

    Args:
        min_precision: the least precision, in [0, 1].
        thresholds: None for every distinct score; an int, list or 1-D tensor for these thresholds in constant memory.
            An int spaces them evenly over [0, 1]; logits then need ``normalization="sigmoid"``.
        ignore_index, validate_args, normalization, nan_strategy: see :class:`torch_ap.BinaryAveragePrecision`.
        empty_target_action: the recall without positives: "neg" 0, "pos" 1, "nan" and "skip" NaN, "error" raises. None
            for 0 with a warning.
        kwargs: arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryRecallAtFixedPrecision
        >>> metric = BinaryRecallAtFixedPrecision(min_precision=0.5)
        >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]), torch.tensor([1, 0, 1, 1, 0]))
        >>> metric.compute()
        (tensor(1.), tensor(0.6000))
    """

    @with_keywords_of(OperatingPointMetric.__init__, open_ended=True)
    def __init__(
        self,
        min_precision: float,
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__("precision", min_precision, (None, None), thresholds, ignore_index, validate_args, **kwargs)
        self.min_precision = min_precision


class MulticlassRecallAtFixedPrecision(OperatingPointMetric):
    """The highest recall with a minimum precision of each class against the rest, and the highest threshold with it.

    Replaces ``torchmetrics.classification.MulticlassRecallAtFixedPrecision``: same names, positions and results; see
    :class:`BinaryRecallAtFixedPrecision` for the differences.

    Args:
        num_classes: C, at least 2.
        min_precision: the least precision, in [0, 1].
        thresholds, ignore_index, validate_args, normalization, nan_strategy: see
            :class:`torch_ap.MulticlassAveragePrecision`.
        empty_target_action: as for :class:`BinaryRecallAtFixedPrecision`; None for NaN with a warning.
        kwargs: arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MulticlassRecallAtFixedPrecision
        >>> metric = MulticlassRecallAtFixedPrecision(num_classes=3, min_precision=0.5)
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])
        >>> metric.update(preds, torch.tensor([0, 1, 1, 2]))
        >>> metric.compute()
        (tensor([1., 1., 1.]), tensor([0.7000, 0.4000, 0.5000]))
    """

    num_classes = setting("_settings.inputs.width", "The number of classes, C.")

    @with_keywords_of(OperatingPointMetric.__init__, open_ended=True)
    def __init__(
        self,
        num_classes: int,
        min_precision: float,
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        columns = ("num_classes", num_classes)
        super().__init__("precision", min_precision, columns, thresholds, ignore_index, validate_args, **kwargs)
        self.min_precision = min_precision


class MultilabelRecallAtFixedPrecision(OperatingPointMetric):
    """The highest recall with a minimum precision of each label, and the highest threshold with it.

    Replaces ``torchmetrics.classification.MultilabelRecallAtFixedPrecision``: same names, positions and results; see
    :class:`BinaryRecallAtFixedPrecision` for the differences.

    Args:
        num_labels: L, at least 2.
        min_precision: the least precision, in [0, 1].
        thresholds, ignore_index, validate_args, normalization, nan_strategy: see
            :class:`torch_ap.MultilabelAveragePrecision`.
        empty_target_action: as for :class:`BinaryRecallAtFixedPrecision`; None for 0 with a warning.
        kwargs: arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MultilabelRecallAtFixedPrecision
        >>> metric = MultilabelRecallAtFixedPrecision(num_labels=2, min_precision=0.5)
        >>> metric.update(torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]]), torch.tensor([[1, 0], [0, 1], [1, 0]]))
        >>> metric.compute()
        (tensor([1., 1.]), tensor([0.1000, 0.7000]))
    """

    num_labels = setting("_settings.inputs.width", "The number of labels, L.")

    @with_keywords_of(OperatingPointMetric.__init__, open_ended=True)
    def __init__(
        self,
        num_labels: int,
        min_precision: float,
        thresholds: Thresholds = None,
        ignore_index: IgnoreIndex = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        columns = ("num_labels", num_labels)
        super().__init__("precision", min_precision, columns, thresholds, ignore_index, validate_args, **kwargs)
        self.min_precision = min_precision
