"""The state that the average precisions of classifiers share: the items given, or counts of them per threshold."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.evaluation.average_precision import APSettings, warn_of_logits
from torch_ap.functional.curve_record import Curve, curves_of
from torch_ap.inputs.classification import Batch, counted
from torch_ap.metrics import representation
from torch_ap.metrics.item_sample import ItemSample, UncertainItems
from torch_ap.metrics.representation import setting
from torch_ap.metrics.states import Form
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import tensors
from torch_ap.rules.messages import shown
from torch_ap.rules.options import Design
from torch_ap.rules.values import NAN_SCORE
from torch_ap.runtime import memory


class ClassificationAveragePrecision(UncertainItems):
    """Abstract: the state that the three average precisions share.

    Without thresholds the state is what was given: scores in their dtype, one byte per target (two or four for more
    than 255 or 32,767 classes), weights if any. With thresholds it is counts of misses and hits per bin.
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

    thresholds = setting("_settings.thresholds", "(T,) thresholds in ascending order, or None.")
    convention = setting("_settings.convention", "Which average precision is computed.")
    average = setting("_settings.average", "How rankings are averaged.")
    empty_target_action = setting(
        "_settings.empty_target_action", "What a ranking without positives counts as; None for the task's default."
    )
    ignore_index = setting("_settings.inputs.ignore_index", "Target value of items that do not count.")
    normalization = setting("_settings.inputs.normalization", "What is applied to the scores of every batch.")
    validate_args = setting("_settings.inputs.check_values", "Whether the values of batches are checked.")
    nan_strategy = setting("_settings.inputs.nan_strategy", 'What NaN scores are: "error", "ignore" or "warn".')

    def extra_repr(self) -> str:
        """What is computed of what, for ``repr``."""
        shown = ("average", "thresholds", "normalization")
        values = self._settings_of_value()
        return representation.settings_text(representation.defaults_of(type(self)), values.__getitem__, shown)

    def _settings_of_value(self) -> dict[str, Any]:
        convention = vars(self.convention)
        names = representation.defaults_of(type(self))
        return {name: convention[name] if name in convention else getattr(self, name) for name in names}

    @property
    def preds(self) -> list[Tensor]:
        """The scores held, one tensor per batch, without ignored items; with thresholds none are held."""
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
        return self._settings.curve_of_bins(self._binned()), None, torch.float32

    def _binned(self) -> Tensor:
        """(C, T + 1, 2) misses and hits per bin: counts, or sums of weights."""
        return self.counts + self.weight_sums if bool(self.weight_sums.any()) else self.counts

    def _curves(self, class_names: Sequence[str] | None = None) -> list[Curve]:
        """The curve of each ranking, of all ranks."""
        settings = self._settings
        with self._all_ranks():
            self._raise_broken()
            if self.thresholds is None:
                rankings, each = settings.curve(self._batch(), keep_all_groups=True), None
            else:
                rankings = settings.curve_of_bins(self._binned(), keep_all_groups=True)
                each = settings.convention(settings.curve_of_bins(self._binned()))
            if rankings.weighted:
                settings.validate_weights()
        one = settings.inputs.width is None or settings.average == "micro"
        if one and class_names is not None:
            raise ValueError(f"`class_names` must be None where there is one curve, got {shown(class_names)}")
        names = [""] if one else representation.names_of_classes(class_names, len(rankings.m))
        return curves_of(rankings, settings.convention, names, each)

    def _sample(self, design: Design = "iid") -> ItemSample:  # type: ignore[override]
        self._raise_broken()
        curve, batch, scores = self._held()
        return ItemSample(self._dtype_of_result(scores), self._settings, curve, batch, self._all_bins, design)

    def _raise_broken(self) -> None:
        inputs = self._settings.inputs
        warned = {NAN_SCORE: inputs.warn_of_nan} if inputs.nan_strategy == "warn" else {}
        self._raise_noted(warned, top=inputs.top)

    def _all_bins(self) -> HitCurve:
        """The rankings with all items as hits, whose entries are all bins."""
        items = self.counts.sum(2)
        return self._settings.curve_of_bins(torch.stack([torch.zeros_like(items), items], 2))

    def _append(self, batch: Batch, target: Tensor) -> None:
        """Keep the batch, in memory of our own."""
        scores = memory.copied(batch.scores) if not self._settings.inputs.normalizes else batch.scores
        targets = batch.target if batch.target.dtype != target.dtype else memory.copied(batch.target)
        weights = None if batch.weights is None else memory.copied(batch.weights)
        self._hold((scores, targets, weights))

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
