"""Average precision of classifiers as metrics: binary, multiclass, multilabel.

Each class holds state; what it computes is the function of the same name in ``torch_ap.functional``.
"""

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor
from torchmetrics import Metric

from torch_ap.curve.convention import Convention
from torch_ap.evaluation.average_precision import APSettings, inputs_and_thresholds, warn_of_logits
from torch_ap.inputs.classification import Batch, counted
from torch_ap.metrics import representation
from torch_ap.metrics.states import Form
from torch_ap.metrics.uncertainty import UncertainMetric
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import tensors
from torch_ap.rules.options import (
    Action,
    Average,
    Denominator,
    Interpolation,
    NanStrategy,
    Normalization,
    Thresholds,
    Ties,
)
from torch_ap.runtime import memory


class ClassificationAveragePrecision(UncertainMetric):
    """Abstract: the state that the three average precisions share.

    Without thresholds the state is what was given: scores in their dtype, one byte a target (two or four for more than
    255 or 32,767 classes), weights if any. With thresholds it is counts of misses and hits per bin.
    """

    peer_states = ("preds", "target", "confmat")
    peer_arguments = ("preds", "target")

    settings_of_update = "columns, `ignore_index`, `normalization`, `thresholds`, `nan_strategy`, `validate_args`"

    scores: list[Tensor]
    targets: list[Tensor]
    weights: list[Tensor]
    counts: Tensor
    weight_sums: Tensor

    def __init__(self, settings: APSettings, **kwargs: Any) -> None:
        inputs, thresholds = settings.inputs, settings.thresholds
        binned = None if thresholds is None else thresholds.tolist()
        super().__init__(f"{inputs}|{binned}", **kwargs)
        self._settings = settings if self.device.type == "meta" else settings.to(self.device)
        self._rows_unseen = inputs.classes and inputs.normalization is None
        if thresholds is None:
            for name in ("scores", "targets", "weights"):
                self.add_state(name, [], dist_reduce_fx="cat")
        else:
            shape = (inputs.width or 1, len(thresholds) + 1, 2)
            self.add_state("counts", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
            self.add_state("weight_sums", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def thresholds(self) -> Tensor | None:
        """(T,) thresholds in ascending order, or None."""
        return self._settings.thresholds

    @property
    def convention(self) -> Convention:
        """Which average precision is computed: ``top_k``, ``denominator``, ``interpolation``, ``ties``."""
        return self._settings.convention

    def extra_repr(self) -> str:
        """What is computed of what, for ``repr``."""
        shown = ("average", "thresholds", "normalization")
        values = self._settings_of_values()
        return representation.settings_text(representation.defaults_of(type(self)), values.__getitem__, shown)

    def _settings_of_values(self) -> dict[str, Any]:
        convention = vars(self.convention)
        names = representation.defaults_of(type(self))
        return {name: convention[name] if name in convention else getattr(self, name) for name in names}

    @property
    def empty_target_action(self) -> str | None:
        """What a ranking without positives counts as; None for the task's default."""
        return self._settings.empty_target_action

    @property
    def average(self) -> str | None:
        """How rankings are averaged."""
        return self._settings.average

    @property
    def ignore_index(self) -> int | None:
        """Target value of items that do not count."""
        return self._settings.inputs.ignore_index

    @property
    def normalization(self) -> str | None:
        """What is applied to the scores of every batch."""
        return self._settings.inputs.normalization

    @property
    def validate_args(self) -> bool:
        """Whether the values of batches are checked."""
        return self._settings.inputs.check_values

    @property
    def nan_strategy(self) -> str:
        """What NaN scores are: "error", "ignore" or "warn"."""
        return self._settings.inputs.nan_strategy

    @property
    def preds(self) -> list[Tensor]:
        """The scores held, a tensor a batch, without ignored items; with thresholds none are."""
        held = self.scores if self.thresholds is None else []
        return [x[kept] for x, kept in zip(held, self._kept_items(), strict=True)]

    @property
    def target(self) -> list[Tensor]:
        """The targets of ``preds``, int64; single scores that are ignored have ``ignore_index``, or -1 without one."""
        mark = -1 if self.ignore_index is None else self.ignore_index
        held = self.targets if self.thresholds is None else []
        rows = [x[kept] for x, kept in zip(held, self._kept_items(), strict=True)]
        return [torch.where(counted(x), x.long(), mark) for x in rows]

    def _kept_items(self) -> list[Tensor]:
        """Which items of each batch have any score that counts, as torchmetrics keeps them."""
        held = self.targets if self.thresholds is None else []
        return [counted(x) if x.ndim == 1 else torch.ones_like(x[:, 0], dtype=torch.bool) for x in held]

    @property
    def confmat(self) -> Tensor:
        """With thresholds: (T, 2, 2), or (T, C, 2, 2), items by target and by whether they reach the threshold.

        Raises:
            AttributeError: without thresholds, where torchmetrics' metric has none either.
        """
        if self.thresholds is None:
            raise AttributeError("`confmat` is there with `thresholds` only")
        counts = self.counts + self.weight_sums if bool(self.weight_sums.any()) else self.counts
        reached = counts.cumsum(1)[:, :-1].flip(1).transpose(0, 1)
        table = torch.stack([counts.sum(1) - reached, reached], -1)
        return table if self._settings.inputs.width is not None else table[:, 0]

    def update(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            preds: scores, floating or integer; any finite or infinite number, higher for more likely positive. (N, ...)
                for binary, (N, C, ...) for multiclass and multilabel. Dtypes may differ from update to update, but
                int64 and floats, which no dtype holds both, do not mix.
            target: integers or bool. (N, ...) of 0 and 1 for binary, (N, ...) class ids for multiclass, the shape of
                ``preds`` for multilabel.
            weights: weight of each item, from 0 to 1e288, (N, ...); for multilabel also of each score, and updates may
                differ in that. In every update or in none; with thresholds, an update without them weighs 1. AP loses
                digits where the weights of a ranking sum to less than 1e-292, near the least number of float64.

        Raises:
            TypeError, ValueError: for input that breaks a rule; the state is then as it was. What can be seen only in
                the values is raised by ``compute`` when the tensors lie on an accelerator.
        """
        batch = self._settings.validate(preds, target, weights)
        if batch.scores.device != self._device:
            self._check_device(batch.scores, "preds")
        if self._rows_unseen and batch.scores.device.type == "cpu":
            self._look_at_rows(batch)
        if self._settings.thresholds is None:
            self._append(batch, target)
        elif weights is None:
            self.counts = self.counts + self._settings.bins(batch)
        else:
            self.weight_sums = self.weight_sums + self._settings.bins(batch)
        self._note(batch.broken)

    def compute(self) -> Tensor:
        """The average precision of all items so far: 0-d, or one per class for no average."""
        self._raise_broken()
        curve, batch, scores = self._held()
        if self._rows_unseen and batch is not None:
            self._look_at_rows(batch)
        return self._settings.value(curve, self._dtype_of_result(scores), warn=self.update_called)

    def _look_at_rows(self, batch: Batch) -> None:
        """Once, at the first items: are these probabilities?"""
        if len(batch.scores):
            self._rows_unseen = False
            warn_of_logits(self._settings.inputs, batch)

    def _held(self) -> tuple[HitCurve, Batch | None, torch.dtype]:
        if self.thresholds is None:
            batch = self._batch()
            return self._settings.curve(batch), batch, batch.scores.dtype
        weighted = bool(self.weight_sums.any())
        curve = self._settings.curve_of_bins(self.counts + self.weight_sums if weighted else self.counts)
        return curve, None, torch.float32

    def _every_bin(self) -> HitCurve:
        items = self.counts.sum(2)
        return self._settings.curve_of_bins(torch.stack([torch.zeros_like(items), items], 2))

    def _append(self, batch: Batch, target: Tensor) -> None:
        """Keep the batch, in memory of our own."""
        scores = memory.copied(batch.scores) if not self._settings.inputs.normalizes else batch.scores
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
            return self._settings.inputs.no_items(self.device)
        scores, target = memory.joined(self.scores), memory.joined(self.targets)
        return Batch(scores, target, memory.joined(self.weights) if self.weights else None)

    def _forms(self) -> dict[str, Form]:
        empty = self._settings.inputs.no_items(self.device)
        columns = tuple(empty.scores.shape[1:])
        of_weights = [()] if self._settings.inputs.classes else [(), columns]
        return {
            "scores": Form(tensors.SCORES, [columns]),
            "targets": Form([empty.target.dtype], [tuple(empty.target.shape[1:])]),
            "weights": Form(tensors.SCORES, of_weights),
        }

    def _check_held(self, state: dict[str, Any]) -> None:
        inputs = self._settings.inputs
        if self.thresholds is not None:
            for name in ("counts", "weight_sums"):
                if not bool(((state[name] >= 0) & torch.isfinite(state[name])).all()):
                    raise ValueError(f"`{name}` must be finite and not negative")
            return
        lengths = {name: len(state[name]) for name in ("scores", "targets")}
        lengths |= {"weights": len(state["weights"])} if isinstance(state["weights"], Tensor) else {}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"`scores`, `targets` and `weights` must be of as many items, got {lengths}")
        if isinstance(state["scores"], Tensor):
            weights = state["weights"] if isinstance(state["weights"], Tensor) else None
            inputs.raise_broken(inputs.look_at(Batch(state["scores"], state["targets"], weights)))

    def _reader(self) -> "ClassificationAveragePrecision":
        reader: ClassificationAveragePrecision = super()._reader()  # type: ignore[assignment]
        inputs = replace(self._settings.inputs, normalization="none")  # theirs are kept normalized
        reader._settings, reader._rows_unseen = replace(self._settings, inputs=inputs), False
        return reader

    def _apply(self, fn: Any, exclude_state: Any = "") -> "ClassificationAveragePrecision":
        super()._apply(fn, exclude_state)
        if self.device.type != "meta":
            self._settings = self._settings.to(self.device)
        return self


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
            memory. An int lays them over [0, 1], and logits then need ``normalization="sigmoid"``.
        ignore_index: target value of items that do not count.
        validate_args: whether the values of batches are checked; shapes and dtypes always are.
        normalization: None or "sigmoid".
        top_k: k for AP@k, or None.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the positives in the top k. Of no
            effect without ``top_k``: AP divides by m. Refused with ``interpolation``.
        interpolation: None, "11-point", "11-point-arange", "101-point", "all-points", "trapezoid", or a tensor of
            recall levels.
        ties: "grouped", "expected", "optimistic" or "pessimistic".
        empty_target_action: "neg", "pos", "nan", "skip" or "error"; None for 0 with a warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out items whose score is NaN.
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
        normalization: Literal["none", "sigmoid"] | None = None,
        *,
        top_k: int | None = None,
        denominator: Denominator = "min",
        interpolation: Interpolation = None,
        ties: Ties = "grouped",
        empty_target_action: Action | None = None,
        nan_strategy: NanStrategy = "error",
        **kwargs: Any,
    ) -> None:
        inputs, levels = inputs_and_thresholds(
            thresholds,
            ignore_index=ignore_index,
            normalization=normalization,
            validate_args=validate_args,
            nan_strategy=nan_strategy,
        )
        convention = Convention(top_k, denominator, interpolation, ties)
        super().__init__(APSettings(inputs, convention, levels, empty_target_action=empty_target_action), **kwargs)


class MulticlassAveragePrecision(ClassificationAveragePrecision):
    """One-vs-rest AP of each class, averaged; see :func:`torch_ap.functional.multiclass_average_precision`.

    Replaces ``torchmetrics.classification.MulticlassAveragePrecision``: same names, positions and keywords. It differs
    on purpose: no softmax is guessed (``normalization="softmax"`` applies one to every batch), and a class that never
    occurs is NaN and left out of the average with thresholds too, where torchmetrics counts it as 0.

    Args:
        num_classes: C.
        average: "macro", "weighted", "none" or None.
        thresholds, ignore_index, validate_args: as for :class:`BinaryAveragePrecision`.
        normalization: "softmax", "sigmoid", or None for neither. Logits of a network trained with a softmax want
            "softmax"; None warns once where the first rows are no distributions (on an accelerator not with
            ``thresholds``), "none" never does.
        top_k, denominator, interpolation, ties: as for :class:`BinaryAveragePrecision`, class by class.
        empty_target_action: the same names; None leaves absent classes out of the average, with a warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out items with a NaN score.
        kwargs: of ``torchmetrics.Metric``.

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
        top_k: int | None = None,
        denominator: Denominator = "min",
        interpolation: Interpolation = None,
        ties: Ties = "grouped",
        empty_target_action: Action | None = None,
        nan_strategy: NanStrategy = "error",
        **kwargs: Any,
    ) -> None:
        inputs, levels = inputs_and_thresholds(
            thresholds,
            name="num_classes",
            width=num_classes,
            ignore_index=ignore_index,
            normalization=normalization,
            validate_args=validate_args,
            nan_strategy=nan_strategy,
        )
        convention = Convention(top_k, denominator, interpolation, ties)
        super().__init__(APSettings(inputs, convention, levels, average, empty_target_action), **kwargs)

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
        top_k, denominator, interpolation, ties: as for :class:`BinaryAveragePrecision`, label by label.
        empty_target_action: the same names; None counts labels without positives as 0, with a warning.
        nan_strategy: "error", or "ignore" or "warn" to leave out the scores that are NaN.
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
        normalization: Literal["none", "sigmoid"] | None = None,
        *,
        top_k: int | None = None,
        denominator: Denominator = "min",
        interpolation: Interpolation = None,
        ties: Ties = "grouped",
        empty_target_action: Action | None = None,
        nan_strategy: NanStrategy = "error",
        **kwargs: Any,
    ) -> None:
        inputs, levels = inputs_and_thresholds(
            thresholds,
            name="num_labels",
            width=num_labels,
            ignore_index=ignore_index,
            normalization=normalization,
            validate_args=validate_args,
            nan_strategy=nan_strategy,
        )
        convention = Convention(top_k, denominator, interpolation, ties)
        super().__init__(APSettings(inputs, convention, levels, average, empty_target_action), **kwargs)

    @property
    def num_labels(self) -> int:
        """L."""
        return self._settings.inputs.width or 0


class AveragePrecision(Metric):
    """Makes the metric of the task that is named, as ``torchmetrics.AveragePrecision`` does; no class of its own.

    Returns a :class:`BinaryAveragePrecision`, :class:`MulticlassAveragePrecision` or
    :class:`MultilabelAveragePrecision`, with the arguments in the order of ``torchmetrics.AveragePrecision``.

    Args:
        task: "binary", "multiclass" or "multilabel".
        thresholds, ignore_index, validate_args: of every task.
        num_classes: of multiclass, needed there; other tasks ignore it, as in torchmetrics.
        num_labels: of multilabel, likewise.
        average: of multiclass and multilabel; binary ignores it.
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
