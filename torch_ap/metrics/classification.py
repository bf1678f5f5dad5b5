"""Average precision of classifiers as metrics: binary, multiclass, multilabel.

Each class holds state; what it computes is the function of the same name in ``torch_ap.functional``.
"""

from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torchmetrics import Metric

from torch_ap.core import checks, memory
from torch_ap.core.batch import Batch
from torch_ap.core.convention import Convention
from torch_ap.core.hit_curve import HitCurve
from torch_ap.functional.classification import (
    Action,
    Average,
    Denominator,
    Interpolation,
    Normalization,
    Thresholds,
    Ties,
)
from torch_ap.functional.evaluation import Evaluation, door_and_thresholds, raise_broken
from torch_ap.metrics.states import Form
from torch_ap.metrics.uncertainty import UncertainMetric


class ClassificationAveragePrecision(UncertainMetric):
    """Abstract: the state that the three average precisions share.

    Without thresholds the state is what was given: scores in their dtype, one byte a target (two or four for more than
    255 or 32,767 classes), weights if any. With thresholds it is counts of misses and hits per bin.
    """

    __jit_unused_properties__: ClassVar[list[str]] = [
        *UncertainMetric.__jit_unused_properties__,
        *("convention", "thresholds", "average", "ignore_index", "normalization", "validate_args"),
        *("num_classes", "num_labels"),
    ]

    peer_states = ("preds", "target", "confmat")
    peer_arguments = ("preds", "target")

    scores: list[Tensor]
    targets: list[Tensor]
    weights: list[Tensor]
    counts: Tensor
    weight_sums: Tensor

    def __init__(self, evaluation: Evaluation, **kwargs: Any) -> None:
        door, thresholds = evaluation.door, evaluation.thresholds
        binned = None if thresholds is None else thresholds.tolist()
        super().__init__(f"{door}|{binned}", **kwargs)
        self._evaluation = evaluation if self.device.type == "meta" else evaluation.to(self.device)
        if thresholds is None:
            for name in ("scores", "targets", "weights"):
                self.add_state(name, [], dist_reduce_fx="cat")
        else:
            shape = (door.width or 1, len(thresholds) + 1, 2)
            self.add_state("counts", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
            self.add_state("weight_sums", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def thresholds(self) -> Tensor | None:
        """(T,) thresholds in ascending order, or None."""
        return self._evaluation.thresholds

    @property
    def convention(self) -> Convention:
        """Which average precision is computed: ``top_k``, ``denominator``, ``interpolation``, ``ties``."""
        return self._evaluation.convention

    def extra_repr(self) -> str:
        """What differs from the defaults, for ``repr``."""
        plain, given = Convention(), vars(self.convention)
        return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not getattr(plain, name))

    @property
    def average(self) -> str | None:
        """How rankings are averaged."""
        return self._evaluation.average

    @property
    def ignore_index(self) -> int | None:
        """Target value of items that do not count."""
        return self._evaluation.door.ignore_index

    @property
    def normalization(self) -> str | None:
        """What is applied to the scores of every batch."""
        return self._evaluation.door.normalization

    @property
    def validate_args(self) -> bool:
        """Whether the values of batches are checked."""
        return self._evaluation.door.validate

    def update(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: scores, floating or integer; any finite or infinite number, higher for more likely positive. (N, ...)
                for binary, (N, C, ...) for multiclass and multilabel.
            target: integers or bool. (N, ...) of 0 and 1 for binary, (N, ...) class ids for multiclass, the shape of
                ``preds`` for multilabel.
            weights: non-negative weight of each item, (N, ...); for multilabel also of each score. In every update or
                in none; with thresholds, an update without them weighs 1.

        Raises:
            TypeError, ValueError: for input that breaks a rule; the state is then as it was. What can be seen only in
                the values is raised by ``compute`` when the tensors lie on an accelerator.
        """
        batch = self._evaluation.admit(preds, target, weights)
        if batch.scores.device != self._device:
            self._check_device(batch.scores, "preds")
        if self._evaluation.thresholds is None:
            self._append(batch, target)
        elif weights is None:
            self.counts = self.counts + self._evaluation.bins(batch)
        else:
            self.weight_sums = self.weight_sums + self._evaluation.bins(batch)
        self._note(batch.broken)

    def compute(self) -> Tensor:
        """The average precision of all items so far: 0-d, or one per class for no average."""
        self._raise_noted(top=self._evaluation.door.top)
        curve, _, scores = self._held()
        return self._evaluation.value(curve, self._dtype_of_result(scores), warn=self.update_called)

    def _held(self) -> tuple[HitCurve, Batch | None, torch.dtype]:
        if self.thresholds is None:
            batch = self._batch()
            return self._evaluation.curve(batch), batch, batch.scores.dtype
        weighted = bool(self.weight_sums.any())
        curve = self._evaluation.curve_of_bins(self.counts + self.weight_sums if weighted else self.counts)
        return curve, None, torch.float32

    def _every_bin(self) -> HitCurve:
        items = self.counts.sum(2)
        return self._evaluation.curve_of_bins(torch.stack([torch.zeros_like(items), items], 2))

    def _append(self, batch: Batch, target: Tensor) -> None:
        """Keep the batch, in memory of our own."""
        scores = memory.copied(batch.scores) if self._evaluation.door.normalization is None else batch.scores
        targets = batch.target if batch.target.dtype != target.dtype else memory.copied(batch.target)
        columns = {"scores": scores, "targets": targets}
        if batch.weights is not None:
            columns["weights"] = memory.copied(batch.weights)
        self._hold(columns)

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        return "`weights`" if "weights" in here ^ there else None

    def _batch(self) -> Batch:
        """All items of the state as one batch."""
        if not self.scores:
            return self._evaluation.door.no_items(self.device)
        scores, target = memory.joined(self.scores), memory.joined(self.targets)
        return Batch(scores, target, memory.joined(self.weights) if self.weights else None)

    def _forms(self) -> dict[str, Form]:
        empty = self._evaluation.door.no_items(self.device)
        columns = tuple(empty.scores.shape[1:])
        of_weights = [()] if self._evaluation.door.classes else [(), columns]
        return {
            "scores": Form(checks.SCORES, [columns]),
            "targets": Form([empty.target.dtype], [tuple(empty.target.shape[1:])]),
            "weights": Form(checks.SCORES, of_weights),
        }

    def _check_held(self, state: dict[str, Any]) -> None:
        door = self._evaluation.door
        if self.thresholds is not None:
            for name in ("counts", "weight_sums"):
                if not bool(((state[name] >= 0) & torch.isfinite(state[name])).all()):
                    raise ValueError(f"`{name}` must be finite and not negative")
            return
        lengths = {name: len(state[name]) for name in ("scores", "targets")}
        lengths |= {"weights": len(state["weights"])} if len(state["weights"]) else {}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"`scores`, `targets` and `weights` must be of as many items, got {lengths}")
        if isinstance(state["scores"], Tensor):
            weights = state["weights"] if isinstance(state["weights"], Tensor) else None
            raise_broken(door.look_at(Batch(state["scores"], state["targets"], weights)), door.top)

    def _reader(self) -> "ClassificationAveragePrecision":
        reader: ClassificationAveragePrecision = super()._reader()  # type: ignore[assignment]
        door = replace(self._evaluation.door, normalization=None)  # theirs are kept normalized
        reader._evaluation = replace(self._evaluation, door=door)
        return reader

    def _apply(self, fn: Any, exclude_state: Any = "") -> "ClassificationAveragePrecision":
        super()._apply(fn, exclude_state)
        if self.device.type != "meta":
            self._evaluation = self._evaluation.to(self.device)
        return self


class BinaryAveragePrecision(ClassificationAveragePrecision):
    """AP of one ranking; see :func:`torch_ap.functional.binary_average_precision` for the formula and every argument.

    Replaces ``torchmetrics.classification.BinaryAveragePrecision``: same names, positions and keywords. It differs on
    purpose: scores are ranked as they are. torchmetrics decides batch by batch whether scores "look like" logits and
    need a sigmoid, which mixes two scales in one ranking, and a saturated sigmoid makes ties of different scores. Here
    ``normalization`` is None, or is applied to every batch (torchmetrics' "sigmoid" only to those outside [0, 1]).

    Args:
        thresholds: None for the exact value; an int, list or 1-D tensor for counts at those thresholds in constant
            memory. An int lays them over [0, 1], and logits then need ``normalization="sigmoid"``.
        ignore_index: target value of items that do not count.
        validate_args: whether the values of batches are checked; shapes and dtypes always are.
        normalization: None or "sigmoid".
        top_k: k for AP@k, or None.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the positives in the top k.
        interpolation: None, "11-point", "101-point", "all-points", "trapezoid", or a tensor of recall levels.
        ties: "grouped", "expected", "optimistic" or "pessimistic".
        empty_target_action: "neg", "pos", "nan", "skip" or "error"; None for 0 with a warning.
        kwargs: of ``torchmetrics.Metric``.

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
        normalization: Literal["sigmoid"] | None = None,
        *,
        top_k: int | None = None,
        denominator: Denominator = "min",
        interpolation: Interpolation = None,
        ties: Ties = "grouped",
        empty_target_action: Action | None = None,
        **kwargs: Any,
    ) -> None:
        door, levels = door_and_thresholds(
            thresholds, ignore_index=ignore_index, normalization=normalization, validate_args=validate_args
        )
        convention = Convention(top_k, denominator, interpolation, ties)
        super().__init__(Evaluation(door, convention, levels, action=empty_target_action), **kwargs)


class MulticlassAveragePrecision(ClassificationAveragePrecision):
    """One-vs-rest AP of each class, averaged; see :func:`torch_ap.functional.multiclass_average_precision`.

    Replaces ``torchmetrics.classification.MulticlassAveragePrecision``: same names, positions and keywords. It differs
    on purpose: no softmax is guessed (``normalization="softmax"`` applies one to every batch), and a class that never
    occurs is NaN and left out of the average with thresholds too, where torchmetrics counts it as 0.

    Args:
        num_classes: C.
        average: "macro", "weighted", "none" or None.
        thresholds, ignore_index, validate_args: as for :class:`BinaryAveragePrecision`.
        normalization: None, "softmax" or "sigmoid". Logits of a network trained with a softmax want "softmax".
        top_k, denominator, interpolation, ties: as for :class:`BinaryAveragePrecision`, class by class.
        empty_target_action: the same names; None leaves absent classes out of the average, with a warning.
        kwargs: of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap import MulticlassAveragePrecision
        >>> metric = MulticlassAveragePrecision(num_classes=3, average=None)
        >>> preds = torch.tensor([[2.0, 0.5, -1.0], [0.1, 1.5, 0.3], [1.0, -0.2, 0.4], [-0.5, 0.2, 0.1]])
        >>> metric.update(preds, torch.tensor([0, 1, 2, 1]))
        >>> metric.compute()
        tensor([1.0000, 0.8333, 1.0000])
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
        top_k: int | None = None,
        denominator: Denominator = "min",
        interpolation: Interpolation = None,
        ties: Ties = "grouped",
        empty_target_action: Action | None = None,
        **kwargs: Any,
    ) -> None:
        door, levels = door_and_thresholds(
            thresholds,
            name="num_classes",
            width=num_classes,
            ignore_index=ignore_index,
            normalization=normalization,
            validate_args=validate_args,
        )
        convention = Convention(top_k, denominator, interpolation, ties)
        super().__init__(Evaluation(door, convention, levels, average, empty_target_action), **kwargs)

    @property
    def num_classes(self) -> int:
        """C."""
        return self._evaluation.door.width or 0


class MultilabelAveragePrecision(ClassificationAveragePrecision):
    """AP of each label, averaged; see :func:`torch_ap.functional.multilabel_average_precision`.

    Replaces ``torchmetrics.classification.MultilabelAveragePrecision``: same names, positions and keywords. It differs
    on purpose: no sigmoid is guessed (``normalization="sigmoid"`` applies one to every batch).

    Args:
        num_labels: L.
        average: "macro", "micro", "weighted", "none" or None.
        thresholds, ignore_index, validate_args, normalization: as for :class:`BinaryAveragePrecision`.
        top_k, denominator, interpolation, ties: as for :class:`BinaryAveragePrecision`, label by label.
        empty_target_action: the same names; None counts labels without positives as 0, with a warning.
        kwargs: of ``torchmetrics.Metric``.

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
        normalization: Literal["sigmoid"] | None = None,
        *,
        top_k: int | None = None,
        denominator: Denominator = "min",
        interpolation: Interpolation = None,
        ties: Ties = "grouped",
        empty_target_action: Action | None = None,
        **kwargs: Any,
    ) -> None:
        door, levels = door_and_thresholds(
            thresholds,
            name="num_labels",
            width=num_labels,
            ignore_index=ignore_index,
            normalization=normalization,
            validate_args=validate_args,
        )
        convention = Convention(top_k, denominator, interpolation, ties)
        super().__init__(Evaluation(door, convention, levels, average, empty_target_action), **kwargs)

    @property
    def num_labels(self) -> int:
        """L."""
        return self._evaluation.door.width or 0


class AveragePrecision(Metric):
    """Makes the metric of the task that is named, as ``torchmetrics.AveragePrecision`` does; no class of its own.

    Returns a :class:`BinaryAveragePrecision`, :class:`MulticlassAveragePrecision` or
    :class:`MultilabelAveragePrecision`, with the arguments in the order of ``torchmetrics.AveragePrecision``.

    Args:
        task: "binary", "multiclass" or "multilabel".
        thresholds, ignore_index, validate_args: of every task.
        num_classes: of multiclass, needed there.
        num_labels: of multilabel, needed there.
        average: of multiclass and multilabel.
        kwargs: the keyword-only arguments of the class.

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
        task: Literal["binary", "multiclass", "multilabel"],
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: Average = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> ClassificationAveragePrecision:
        """Make the metric of the task."""
        shared: dict[str, Any] = {
            "thresholds": thresholds,
            "ignore_index": ignore_index,
            "validate_args": validate_args,
            **kwargs,
        }
        if task == "binary":
            return BinaryAveragePrecision(**shared)
        if task == "multiclass":
            return MulticlassAveragePrecision(num_classes, average, **shared)  # type: ignore[arg-type]
        if task == "multilabel":
            return MultilabelAveragePrecision(num_labels, average, **shared)  # type: ignore[arg-type]
        raise ValueError(f"`task` must be one of 'binary', 'multiclass', 'multilabel', got {task!r}")
