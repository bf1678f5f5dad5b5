"""Average precision of classifiers as metrics: binary, multiclass, multilabel.

Each class holds state; what it computes is the function of the same name in ``torch_ap.functional``.
"""

from collections.abc import Sequence
from typing import Any, Literal

from torch_ap.curve.convention import Convention, convention_of
from torch_ap.evaluation.arguments import inputs_and_bins
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.functional.curve_record import Curve
from torch_ap.metrics.items import ClassificationAveragePrecision
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
    Thresholds,
    Ties,
    TopK,
)


class BinaryAveragePrecision(ClassificationAveragePrecision):
    """AP of one ranking; see :func:`torch_ap.functional.binary_average_precision` for the formula and every argument.

    Replaces ``torchmetrics.classification.BinaryAveragePrecision``: same names, positions and keywords. It differs on
    purpose: scores are ranked as they are. torchmetrics decides batch by batch whether scores "look like" logits and
    need a sigmoid, which mixes two scales in one ranking, and a saturated sigmoid makes ties of different scores. Here
    ``normalization`` is None, or is applied to every batch (torchmetrics' "sigmoid" only to those outside [0, 1]).

    A checkpoint of torchmetrics' class without thresholds (states ``preds`` and ``target``) loads, as the scores that
    it had normalized. One with thresholds does not, and ``load_state_dict`` says so: its counts do not name them.

    Args:
        thresholds: None for the exact value; an int, list or 1-D tensor for counts at those thresholds in constant
            memory. An int spaces them evenly over [0, 1]; logits then need ``normalization="sigmoid"``.
        ignore_index: target value of items that do not count.
        validate_args: whether the values of batches are checked; shapes and dtypes always are.
        normalization: None or "sigmoid".
        top_k: k for AP@k, or None.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the positives in the top k. Of no
            effect without ``top_k``: AP divides by m. Refused with ``interpolation``.
        interpolation: None, "11-point", "11-point-arange", "11-point-trec9", "11-point-trec10", "40-point",
            "101-point", "nuscenes", "all-points", "trapezoid", or a tensor of recall levels.
        ties: "grouped", "expected", "optimistic" or "pessimistic".
        convention: those four as one :class:`torch_ap.Convention`, instead of them.
        empty_target_action: "neg", "pos", "nan", "skip" or "error"; None for 0 with a warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out items whose score is NaN.
        bins: None for the exact value. Else counts per bin in constant memory, of which ``compute`` gives the mean over
            all orders inside the bins, and :meth:`bounds` the range of all of them: "half" (one bin per number of
            float16 or bfloat16: exact), an int (bins of equal width on [0, 1]), "adaptive" (16,384 bins learnt from the
            first scores), or edges as a list or 1-D tensor. Each bin takes 32 bytes, of adaptive ones 40.
        pilot: how many items are held, and then learnt from, for "adaptive".
        tolerance: the width of the bounds above which ``compute`` warns.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.

    The result is float32; float64 for float64 scores (not with thresholds, which forget them) and after
    ``set_dtype(torch.float64)``.

    Example:
        >>> import torch
        >>> from torch_ap import BinaryAveragePrecision
        >>> metric = BinaryAveragePrecision()
        >>> metric.update(torch.tensor([0.9, 0.8]), torch.tensor([1, 0]))
        >>> metric.update(torch.tensor([0.7, 0.1]), torch.tensor([1, 0]))
        >>> metric.compute()
        tensor(0.8333)
    """

    def __init__(
        self,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: Literal["none", "sigmoid"] | None = None,
        *,
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
    ) -> None:
        inputs, found = inputs_and_bins(
            thresholds,
            ignore_index,
            validate_args,
            normalization,
            nan_strategy,
            bins_=bins,
            pilot=pilot,
            tolerance=tolerance,
        )
        meant = convention_of(convention, top_k, denominator, interpolation, ties)
        super().__init__(APSettings(inputs, meant, found, empty_target_action=empty_target_action), **kwargs)

    def curve(self) -> Curve:
        """The curve of all items so far, of all ranks: counts at every distinct score, or at every threshold.

        Returns:
            :class:`torch_ap.functional.Curve`, its AP undefined (NaN) without positives, whatever
            ``empty_target_action`` is.

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


class MulticlassAveragePrecision(ClassificationAveragePrecision):
    """One-vs-rest AP of each class, averaged; see :func:`torch_ap.functional.multiclass_average_precision`.

    Replaces ``torchmetrics.classification.MulticlassAveragePrecision``: same names, positions and keywords. It differs
    on purpose: no softmax is guessed (``normalization="softmax"`` applies one to every batch), and a class that never
    occurs is NaN and left out of the average with thresholds too, where torchmetrics counts it as 0.

    Args:
        num_classes: C.
        average: "macro", "weighted", "none" or None.
        thresholds, ignore_index, validate_args: as for :class:`BinaryAveragePrecision`.
        normalization: "softmax", "sigmoid", or None for neither. Logits of a network trained with a softmax need
            "softmax"; None warns once where the first rows are not distributions (on an accelerator not with
            ``thresholds``), "none" never does.
        top_k, denominator, interpolation, ties, convention: as for :class:`BinaryAveragePrecision`, class by class.
        empty_target_action: the same names; None leaves absent classes out of the average, with a warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out items with a NaN score.
        bins, pilot, tolerance: as for :class:`BinaryAveragePrecision`, for each column
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.

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

    def __init__(
        self,
        num_classes: int,
        average: Literal["macro", "weighted", "none"] | None = "macro",
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: Normalization = None,
        *,
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
    ) -> None:
        inputs, found = inputs_and_bins(
            thresholds,
            ignore_index,
            validate_args,
            normalization,
            nan_strategy,
            "num_classes",
            num_classes,
            bins,
            pilot,
            tolerance,
        )
        meant = convention_of(convention, top_k, denominator, interpolation, ties)
        super().__init__(APSettings(inputs, meant, found, average, empty_target_action), **kwargs)

    def curve(self, class_names: Sequence[str] | None = None) -> list[Curve]:
        """The curve of each class against the rest, of all items so far, of all ranks.

        Args:
            class_names: (C,) different names; None for 0 to C - 1.

        Returns:
            (C,) :class:`torch_ap.functional.Curve`, with the class as ``name``.

        Raises:
            ValueError: as ``compute()``, and for names that are not those of so many classes.
        """
        return self._curves(class_names)

    @property
    def num_classes(self) -> int:
        """C."""
        return self._settings.inputs.width or 0


class MultilabelAveragePrecision(ClassificationAveragePrecision):
    """AP of each label, averaged; see :func:`torch_ap.functional.multilabel_average_precision`.

    Replaces ``torchmetrics.classification.MultilabelAveragePrecision``: same names, positions and keywords. It differs
    on purpose: no sigmoid is guessed (``normalization="sigmoid"`` applies one to every batch).

    Args:
        num_labels: L.
        average: "macro", "micro", "weighted", "none" or None.
        thresholds, ignore_index, validate_args, normalization: as for :class:`BinaryAveragePrecision`.
        top_k, denominator, interpolation, ties, convention: as for :class:`BinaryAveragePrecision`, label by label.
        empty_target_action: the same names; None counts labels without positives as 0, with a warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out the scores that are NaN.
        bins, pilot, tolerance: as for :class:`BinaryAveragePrecision`, for each column
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MultilabelAveragePrecision
        >>> metric = MultilabelAveragePrecision(num_labels=2, average=None)
        >>> metric.update(torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]]), torch.tensor([[1, 0], [0, 1], [1, 0]]))
        >>> metric.compute()
        tensor([0.8333, 0.5000])
    """

    plot_legend_name: str = "Label"

    def __init__(
        self,
        num_labels: int,
        average: Average = "macro",
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: Literal["none", "sigmoid"] | None = None,
        *,
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
    ) -> None:
        inputs, found = inputs_and_bins(
            thresholds,
            ignore_index,
            validate_args,
            normalization,
            nan_strategy,
            "num_labels",
            num_labels,
            bins,
            pilot,
            tolerance,
        )
        meant = convention_of(convention, top_k, denominator, interpolation, ties)
        super().__init__(APSettings(inputs, meant, found, average, empty_target_action), **kwargs)

    def curve(self, class_names: Sequence[str] | None = None) -> list[Curve] | Curve:
        """The curve of each label, of all items so far, of all ranks; of all scores together for the micro average.

        Args:
            class_names: (L,) different names; None for 0 to L - 1.

        Returns:
            (L,) :class:`torch_ap.functional.Curve`, with the label as ``name``; one for ``average="micro"``.

        Raises:
            ValueError: as ``compute()``, and for names that are not those of so many labels.
        """
        found = self._curves(class_names)
        return found[0] if self.average == "micro" else found

    @property
    def num_labels(self) -> int:
        """L."""
        return self._settings.inputs.width or 0
