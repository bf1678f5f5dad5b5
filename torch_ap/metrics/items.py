"""What the average precisions of classifiers say of the items that they hold."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.evaluation.average_precision import APSettings, warn_of_logits
from torch_ap.functional.curve_record import Curve, curves_of
from torch_ap.inference.bounds import AveragePrecisionBounds
from torch_ap.inputs.classification import Batch, counted
from torch_ap.inputs.samples import SampleIds
from torch_ap.metrics import representation
from torch_ap.metrics.item_sample import ItemSample
from torch_ap.metrics.item_state import ItemState
from torch_ap.metrics.representation import setting
from torch_ap.ranking import adaptive
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.messages import shown
from torch_ap.rules.options import Design


class ClassificationAveragePrecision(ItemState):
    """Abstract: what the three average precisions share beside their state."""

    thresholds = setting("_settings.thresholds", "(T,) thresholds in ascending order, or None.")
    bins = setting("_settings.bins_given", "What `bins` were given; edges in ascending order.")
    pilot = setting("_settings.pilot", "How many items adaptive bins are learnt from.")
    tolerance = setting("_settings.tolerance", "The width of the bounds above which a warning is given.")
    convention = setting("_settings.convention", "Which average precision is computed.")
    average = setting("_settings.average", "How rankings are averaged.")
    empty_target_action = setting(
        "_settings.empty_target_action", "What a ranking without positives counts as; None for the task's default."
    )
    ignore_index = setting("_settings.inputs.ignore_index", "Target value of items that do not count.")
    normalization = setting("_settings.inputs.normalization", "What is applied to the scores of every batch.")
    validate_args = setting("_settings.inputs.check_values", "Whether the values of batches are checked.")
    nan_strategy = setting("_settings.inputs.nan_strategy", 'What NaN scores are: "error", "ignore" or "warn".')

    def _settings_text(self) -> str:
        shown = ("average", "thresholds", "normalization")
        values = self._settings_of_value()
        return representation.settings_text(representation.defaults_of(type(self)), values.__getitem__, shown)

    def _settings_of_value(self) -> dict[str, Any]:
        convention = vars(self.convention)
        names = representation.defaults_of(type(self))
        return {name: convention[name] if name in convention else getattr(self, name) for name in names}

    @property
    def preds(self) -> list[Tensor]:
        """The scores held, one tensor per batch, without ignored items; with thresholds and bins none are held."""
        held = self._listed("scores")
        return [x[kept] for x, kept in zip(held, self._kept_items(), strict=True)]

    @property
    def target(self) -> list[Tensor]:
        """The targets of ``preds``, int64; single scores that are ignored have ``ignore_index``, or -1 without one."""
        mark = -1 if self.ignore_index is None else self.ignore_index
        held = self._listed("targets")
        rows = [x[kept] for x, kept in zip(held, self._kept_items(), strict=True)]
        return [torch.where(counted(x), x.long(), mark) for x in rows]

    @property
    def confmat(self) -> Tensor:
        """With thresholds: (T, 2, 2), or (T, C, 2, 2), items by target and by whether they reach the threshold.

        Raises:
            AttributeError: without thresholds, where torchmetrics' metric has none either.
        """
        if self.thresholds is None:
            raise AttributeError("`confmat` is there with `thresholds` only")
        counts = self._binned()
        reached = counts.cumsum(1)[:, :-1].flip(1).transpose(0, 1)
        table = torch.stack([counts.sum(1) - reached, reached], -1)
        return table if self._settings.inputs.width is not None else table[:, 0]

    def update(
        self,
        preds: Tensor,
        target: Tensor,
        weights: Tensor | None = None,
        sample_ids: SampleIds = None,
    ) -> None:
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
            sample_ids: (N,) integers, a tensor or a list, for (N,) or (N, C) scores; in every update or in none. An id
                counts once, over all updates and ranks, so that a sampler may pad: of several copies the first counts,
                in the order of ranks, then of updates, whatever the scores of the others; their targets must be the
                same. Not with ``thresholds`` or ``bins``, which keep no items.

        Raises:
            TypeError, ValueError: for input that breaks a rule; the state is then as it was. What can be seen only in
                the values is raised by ``compute`` when the tensors lie on an accelerator.
        """
        if sample_ids is not None and self._settings.bins is not None:
            raise ValueError("`sample_ids` must be None with `thresholds` and `bins`: counts do not tell items apart")
        batch = self._settings.validate(preds, target, weights)
        if batch.scores.device != self._device:
            self._check_device(batch.scores, "preds")
        if self._rows_unseen and batch.scores.device.type == "cpu":
            self._look_at_rows(batch)
        if self._settings.bins is None:
            self._append(batch, target, sample_ids)
        elif self._settings.adaptive:
            self._append_and_count(batch, target)
        elif weights is None:
            self.counts = self._settings.counts(batch, self.counts)
        else:
            self.weight_sums = self._settings.counts(batch, self.weight_sums)
        self._note(batch.broken)

    def compute(self) -> Tensor:
        """The average precision of all items so far: 0-d, or one per class for no average."""
        self._raise_broken()
        settings, curve, batch, scores = self._held()
        if self._rows_unseen and batch is not None:
            self._look_at_rows(batch)
        return settings.value(curve, self._dtype_of_result(scores), warn=self.update_called)

    def bounds(self) -> AveragePrecisionBounds:
        """The least and the greatest that the value can be, given what ``bins`` have kept; see docs/scale.md.

        The exact value of all items, in whatever order those of one bin are, lies between them, to the rounding of a
        sum. So does that of scores that tie, counted as ``ties`` says. Without ``bins`` both are the value.

        Returns:
            :class:`torch_ap.inference.AveragePrecisionBounds`, of the shape of ``compute()``.

        Raises:
            ValueError: with ``thresholds``, whose value is that of another curve, and as ``compute()``.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision(bins=4)
            >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
            >>> metric.bounds()
            AveragePrecisionBounds(low=0.5833, estimate=0.7083, high=0.8333)
        """
        if self.thresholds is not None:
            raise ValueError("`thresholds` must be None for bounds: they ask for the curve at some scores; give `bins`")
        with self._all_ranks():
            self._raise_broken()
            settings, curve, *_ = self._held()
            found = settings.bounds(curve)
        return AveragePrecisionBounds(found.low, found.estimate, found.high).to(self.device)

    def _look_at_rows(self, batch: Batch) -> None:
        """Once, at the first items: are these probabilities?"""
        if len(batch.scores):
            self._rows_unseen = False
            warn_of_logits(self._settings.inputs, batch)

    def _held(self) -> tuple[APSettings, HitCurve, Batch | None, torch.dtype]:
        """How the value is computed, the rankings, their items unless only counts are held, and the scores' dtype."""
        settings = self._settings
        if self._exchanged is not None:
            return settings, self._exchanged[0], None, self._exchanged[1]
        if settings.bins is None or (settings.adaptive and not bool(adaptive.has_learnt(self.sketch))):
            batch, dtype = self._batch(), torch.float32
            exact = replace(settings, bins=None)
            return exact, exact.curve(batch), batch, batch.scores.dtype if settings.bins is None else dtype
        return settings, settings.curve_of_bins(self._binned()), None, torch.float32

    def _curves(self, class_names: Sequence[str] | None = None) -> list[Curve]:
        """The curve of each ranking, of all ranks."""
        with self._all_ranks():
            self._raise_broken()
            settings, curve, batch, _ = self._held()
            if batch is not None:
                rankings, each = settings.curve(batch, keep_all_groups=True), None
            else:
                rankings = settings.curve_of_bins(self._binned(), score=self._lower_ends())
                each = settings.each(curve)
            if rankings.weighted:
                settings.validate_weights()
        one = settings.inputs.width is None or settings.average == "micro"
        if one and class_names is not None:
            raise ValueError(f"`class_names` must be None where there is one curve, got {shown(class_names)}")
        names = [""] if one else checks.names_of_classes(class_names, len(rankings.m))
        return curves_of(rankings, settings.convention, names, each)

    def _sample(self, design: Design = "iid") -> ItemSample:  # type: ignore[override]
        self._raise_broken()
        settings, curve, batch, scores = self._held()
        return ItemSample(self._dtype_of_result(scores), settings, curve, batch, self._all_bins, design)

    def _all_bins(self) -> HitCurve:
        """The rankings with all items as hits, whose entries are all bins."""
        items = self.counts.sum(2)
        return self._settings.curve_of_bins(torch.stack([torch.zeros_like(items), items], 2))
