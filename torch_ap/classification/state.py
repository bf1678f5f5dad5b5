"""Base classes of the classification metrics, whose state contains items, counts per bin, or adaptive bins."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.classification.analyses import ItemAnalyses
from torch_ap.core.base import arrays, tensors
from torch_ap.core.base.options import Sync
from torch_ap.core.base.tensors import NAN_SCORE
from torch_ap.core.items import exchange
from torch_ap.core.items import inputs as sketches
from torch_ap.core.items.inputs import Batch, counted_items, warn_of_logits, warn_of_two_bins, warn_of_two_scores
from torch_ap.core.items.settings import APOptions, APSettings, average_precision_settings
from torch_ap.core.metric import exchange as copies
from torch_ap.core.metric import samples, state
from torch_ap.core.metric.base import RankingMetric
from torch_ap.core.metric.exchange import Ranks
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.metric.state import Form, SimpleBatch, listed, setting, write_in_one_step
from torch_ap.core.ranking import adaptive, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import metric
from torch_ap.inference.record import AveragePrecisionBounds

_BYTES_A_BIN = 32  # counts and sums of weights, for misses and hits
_FEW_SCORES = 1 << 16  # in `forward`, more scores are counted faster than sorted
_BYTES_LEARNT = 8 * adaptive.FIELDS  # includes the end of the bin


_ITEM_STATES = (samples.STATE, samples.GROUPS)  # absent from states with bins
_SIMPLE = SimpleBatch(("scores", "targets"), ("weights", *_ITEM_STATES))


class MetricOptions(APOptions, total=False):
    """Keywords of the metrics of classification; see :class:`torch_ap.core.metric.base.RankingMetric`."""

    sync: Sync
    compute_on_cpu: bool
    compute_with_cache: bool
    dist_sync_fn: Callable[..., Any] | None
    dist_sync_on_step: bool
    distributed_available_fn: Callable[[], bool] | None
    process_group: Any
    sync_on_compute: bool


class ItemState(RankingMetric):
    """Abstract base of the binary, multiclass and multilabel metrics.

    Without thresholds and bins, the state contains the items: scores in their dtype, one byte per target (two or four
    for more than 255 or 32,767 classes), and weights. With thresholds or bins it contains the misses and hits per bin.
    With adaptive bins it contains a sketch and the latest items, which are counted in large batches.

    Args:
        arguments: positional arguments of :func:`torch_ap.core.items.settings.average_precision_settings`.
        kwargs: further settings, and arguments of the base class.
    """

    _peer_states = ("preds", "target", "confmat")
    _peer_arguments = ("preds", "target")

    _settings_of_update = (
        "columns, `ignore_index`, `normalization`, `thresholds`, `bins`, `nan_strategy`, `validate_args`"
    )

    thresholds = setting("_settings.thresholds", "The (T,) thresholds in ascending order, or None.")
    average = setting("_settings.average", "The average over rankings.")
    empty_target_action = setting(
        "_settings.empty_target_action", "The value of a ranking without positives; None for the task's default."
    )
    ignore_index = setting(
        "_settings.inputs.ignore_index", "The target value of items to ignore, or a tuple of values."
    )
    normalization = setting("_settings.inputs.normalization", "The function applied to the scores of every batch.")
    validate_args = setting("_settings.inputs.check_values", "Whether the values of batches are checked.")
    nan_strategy = setting("_settings.inputs.nan_strategy", 'The treatment of NaN scores: "error", "ignore" or "warn".')

    scores: list[Tensor]
    targets: list[Tensor]
    weights: list[Tensor]
    sample_ids: list[Tensor]
    groups: list[Tensor]
    counts: Tensor
    weight_sums: Tensor
    sketch: Tensor
    _cached_attributes = (*RankingMetric._cached_attributes, "_seen")
    _seen: tuple[list[Tensor], int, int] = ([], 0, 0)  # a list state, its length and its number of items

    _options: tuple[str, ...] = tuple(APOptions.__annotations__)  # keywords of the settings

    def __init__(self, *arguments: Any, **kwargs: Any) -> None:
        options = {name: kwargs.pop(name) for name in self._options if name in kwargs}
        settings = average_precision_settings(*arguments, **options)
        inputs, bins = settings.inputs, settings.bins
        micro = settings.adaptive and settings.average == "micro"
        super().__init__(f"{inputs}|{None if bins is None else bins.identity}{'|micro' * micro}", **kwargs)
        self._settings = settings if self.device.type == "meta" else settings.to(self.device)
        self._rows_unseen = inputs.classes and inputs.normalization is None
        self._warned_of_two_scores = False
        if bins is None or settings.adaptive:
            self._add_states("scores", "targets", "weights", *_ITEM_STATES * (bins is None))
        if bins is None:
            return
        argument = "bins" if settings.thresholds is None else "thresholds"
        shape = (1 if micro else inputs.width or 1, bins.size, 2)
        arrays.check_memory(argument, shape[0] * bins.size, _BYTES_LEARNT if settings.adaptive else _BYTES_A_BIN)
        if settings.adaptive:
            self.add_state("sketch", settings.empty_sketch(), dist_reduce_fx=adaptive.merge_sketches)
        else:
            self.add_state("counts", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
            self.add_state("weight_sums", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def _list_state(self, name: str) -> list[Tensor]:
        """Return a list state; empty if the metric stores only counts."""
        parts: list[Tensor] = getattr(self, name) if name in self._lists else []
        return parts

    def _kept_items(self) -> list[Tensor]:
        """Return, for each batch, whether an item has a score that is not ignored, as in torchmetrics."""
        targets = self._list_state("targets")
        return [counted_items(x) if x.ndim == 1 else torch.ones_like(x[:, 0], dtype=torch.bool) for x in targets]

    def _append_and_count(self, batch: Batch, target: Tensor) -> None:
        """Append a batch to the uncounted batches, or count all of them if they contain more than ``pilot`` items."""
        assert self._settings.bins is not None
        parts, number, waiting = self._seen
        if parts is not self.scores or number != len(parts):
            waiting = sum(map(len, self.scores))
        waiting += len(batch.scores)
        in_forward = self._state_before_forward is not None  # `forward` counts at its end
        counting = not in_forward and waiting > self._settings.bins.pilot
        columns = self._columns(batch, target, copied=not counting)
        if not counting:
            self._hold(columns, batch.broken)
            self._seen = self.scores, len(self.scores), waiting
            return
        self._check_batch_fits(columns)
        named = zip(self._lists, columns, strict=True)
        lists = {name: [*getattr(self, name), *([] if x is None else [x])] for name, x in named}
        vars(self).update({**self._after_counting(lists, self.sketch), **self._after_update(batch.broken)})

    def _add_counts(self, batch: Batch) -> None:
        """Add a batch to the counts, or to the sums of weights."""
        name = "counts" if batch.weights is None else "weight_sums"
        total, writes = self._settings.added_counts(batch, getattr(self, name))
        write_in_one_step(vars(self), {name: total, **self._after_update(batch.broken)}, writes)

    def _after_counting(self, lists: Mapping[str, list[Tensor]], sketch: Tensor) -> dict[str, Any]:
        """Return the state after counting the uncounted batches.

        The remaining lists contain no items. They record whether weights are used, and the form of the columns.
        """
        remaining = {name: [x[:0].clone() for x in lists[name][:1]] for name in self._lists}
        return {**remaining, "sketch": self._settings.sketched(sketch, self._batch(lists))}

    def _merged(self, incoming: Mapping[str, Any]) -> dict[str, Any]:
        merged = super()._merged(incoming)
        if not self._settings.adaptive or sum(map(len, merged["scores"])) <= self._settings.pilot:
            return merged
        if self._state_before_forward is not None or bool(adaptive.has_bins(merged["sketch"])):
            # merging does not learn bins, so that the result does not depend on the order of merges
            merged |= self._after_counting(merged, merged["sketch"])
        return merged

    def _binned(self) -> Tensor:
        """Return the (C, B, 2) misses and hits per bin: counts, or sums of weights."""
        if self._settings.adaptive:
            sketch, batch = self.sketch, self._batch()
            return sketches.bin_counts(self._settings.sketched(sketch, batch) if len(batch.scores) else sketch)
        return self.counts + self.weight_sums if bool(self.weight_sums.any()) else self.counts

    def _lower_ends(self) -> Tensor:
        """Return the lowest score of each bin, (B,) or (C, B), highest bin first."""
        if self._settings.adaptive:
            return adaptive.lower_ends(self.sketch).flip(1)
        assert self._settings.bins is not None
        return self._settings.bins.lower_ends(self.device)

    def _raise_broken(self) -> None:
        inputs = self._settings.inputs
        warned = {NAN_SCORE: inputs.warn_of_nan} if inputs.nan_strategy == "warn" else {}
        self._raise_first_violation(warned, **inputs.rule_values)

    def _columns(
        self, batch: Batch, target: Tensor, sample_ids: SampleIds = None, *, copied: bool = True
    ) -> tuple[Tensor | None, ...]:
        """Return one column per list state of a batch; with ``copied``, in memory of the metric."""
        scores, targets, weights = batch.scores, batch.target, batch.weights
        if copied:
            scores = scores if self._settings.inputs.normalizes else arrays.copy(scores)
            targets = targets if targets.dtype != target.dtype else arrays.copy(targets)
            weights = None if weights is None else arrays.copy(weights)
        if self._settings.bins is not None:
            return scores, targets, weights
        if sample_ids is not None:
            sample_ids = samples.validate_ids(samples.STATE, sample_ids, scores.shape[:1], scores.device, "item")
        return scores, targets, weights, sample_ids, batch.groups

    def _item_groups(self, preds: Tensor, batch: Batch, groups: SampleIds) -> Tensor | None:
        """Return the group of each row of a batch from the groups of (N, ...) scores."""
        ids = samples.validate_ids(samples.GROUPS, groups, preds.shape[:1], batch.scores.device, "item")
        return ids if ids is None or preds.ndim == 1 else ids.repeat_interleave(len(batch.scores) // max(len(ids), 1))

    def _contradiction(self, here: set[str], there: set[str]) -> str | None:
        return next((f"`{name}`" for name in ("weights", *_ITEM_STATES) if name in here ^ there), None)

    def _batch(self, lists: Mapping[str, list[Tensor]] | None = None) -> Batch:
        """Return all items of the state, or of other list states, as one batch."""
        state = vars(self) if lists is None else lists
        if not state["scores"]:
            return self._settings.inputs.no_items(self.device)
        scores, target = arrays.concatenate(state["scores"]), arrays.concatenate(state["targets"])
        batch = Batch(scores, target, arrays.concatenate(state["weights"]) if state["weights"] else None)
        if self._settings.bins is None:
            if groups := self._list_state(samples.GROUPS):
                batch = batch._replace(groups=arrays.concatenate(groups))
            if not (ids := self._list_state(samples.STATE)):
                return batch
            sample_ids = arrays.concatenate(ids)
            batch, kept = batch._replace(sample_ids=sample_ids), samples.first_copies(sample_ids, target)
            return batch if kept is None else batch.select(kept)
        device = self.sketch.device  # differs from the device of the lists with `compute_on_cpu`
        weights = None if batch.weights is None else batch.weights.to(device)
        return Batch(scores.to(device), target.to(device), weights)

    @property
    def _can_exchange(self) -> bool:
        return self._settings.bins is None

    @property
    def _exchange_key(self) -> bool:
        return self._settings.average == "micro"

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> tuple[HitCurve, torch.dtype]:
        """Return the part of the curve on this process, and the dtype of the scores of all processes."""
        dtype = held["scores"].dtype if held else torch.float32
        return exchange.curve_part(ranks, self._local_items(ranks, held)), dtype

    def _local_items(self, ranks: Ranks, held: dict[str, Tensor]) -> Batch:
        """Return the items of this process without repeated sample ids."""
        batch = self._settings.inputs.no_items(self.device)
        if held:
            batch = Batch(held.pop("scores"), held.pop("targets"), held.pop("weights", None))
        if samples.STATE in held:
            batch = batch.select(copies.flag_first_copies(ranks, held[samples.STATE], batch.target))
        return self._settings.rankings(batch)

    def _forms(self) -> dict[str, Form]:
        empty = self._settings.inputs.no_items(self.device)
        columns = tuple(empty.scores.shape[1:])
        weight_shapes = [()] if self._settings.inputs.classes else [(), columns]
        return {
            "scores": Form(tensors.SCORES, [columns]),
            "targets": Form([empty.target.dtype], [tuple(empty.target.shape[1:])]),
            "weights": Form(tensors.SCORES, weight_shapes),
            **{name: Form([torch.int64]) for name in _ITEM_STATES},
        }

    def _check_held(self, state: dict[str, Any]) -> None:
        inputs = self._settings.inputs
        for name, bound in (("counts", 2.0**63), ("weight_sums", math.inf)):
            if name in state and not bool((state[name] >= 0).all() & (segments.as_float64(state[name]).sum() < bound)):
                raise ValueError(f"`{name}` must not be negative, and its sum must not overflow its dtype")
        if "sketch" in state and not adaptive.is_sketch(state["sketch"]):
            raise ValueError("`sketch` must contain ascending ends of bins and nonnegative counts")
        if not self._lists:
            return
        further = [name for name in ("weights", *_ITEM_STATES) if isinstance(state.get(name), Tensor)]
        lengths = {name: len(state[name]) for name in ("scores", "targets", *further)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{', '.join(f'`{name}`' for name in lengths)} must have equal lengths, got {lengths}")
        if isinstance(state["scores"], Tensor):
            weights = state["weights"] if isinstance(state["weights"], Tensor) else None
            inputs.raise_broken(inputs.check_stored(Batch(state["scores"], state["targets"], weights)))

    def _reader(self) -> "ItemState":
        reader: ItemState = super()._reader()  # type: ignore[assignment]
        inputs = replace(self._settings.inputs, normalization="none")  # torchmetrics stores normalized scores
        reader._settings, reader._rows_unseen = replace(self._settings, inputs=inputs), False
        return reader

    def _empty_like(self, name: str, like: Tensor) -> Tensor:
        return self._settings.empty_sketch(like.device) if name == "sketch" else super()._empty_like(name, like)

    def _apply(self, fn: Any, exclude_state: Any = "") -> "ItemState":
        super()._apply(fn, exclude_state)
        if self.device.type != "meta":
            self._settings = self._settings.to(self.device)
        return self

    def _shown_settings(self) -> dict[str, Any]:
        shown = ("average", "thresholds", "normalization")
        values = self._settings_of_value()
        return state.shown_settings(state.defaults_of(type(self)), values.__getitem__, shown)

    def _stored_settings(self) -> dict[str, Any]:
        stored = super()._stored_settings()
        if self._settings.inputs.scores_in == "unit" and self.thresholds is not None:  # a number of them
            stored["thresholds"] = len(stored["thresholds"])
        return stored

    def _settings_of_value(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in state.defaults_of(type(self))}

    @property
    def preds(self) -> list[Tensor]:
        """The stored scores, one tensor per batch, without ignored items; empty with thresholds or bins."""
        held = self._list_state("scores")
        return [x[kept] for x, kept in zip(held, self._kept_items(), strict=True)]

    @property
    def target(self) -> list[Tensor]:
        """The targets of ``preds``, int64; ignored single scores have the (least) ``ignore_index``, or -1 if None."""
        values = self.ignore_index
        mark = values[0] if isinstance(values, tuple) else -1 if values is None else values
        held = self._list_state("targets")
        rows = [x[kept] for x, kept in zip(held, self._kept_items(), strict=True)]
        return [torch.where(counted_items(x), x.long(), mark) for x in rows]

    @property
    def confmat(self) -> Tensor:
        """The counts of items by target and by prediction at each threshold: (T, 2, 2) or (T, C, 2, 2).

        Raises:
            AttributeError: without thresholds, as in torchmetrics.
        """
        if self.thresholds is None:
            raise AttributeError("`confmat` requires `thresholds`")
        counts = self._binned()
        reached = counts.cumsum(1)[:, :-1].flip(1).transpose(0, 1)
        table = torch.stack([counts.sum(1) - reached, reached], -1)
        return table if self._settings.inputs.width is not None else table[:, 0]

    def _add_small(self, preds: Tensor, target: Tensor) -> bool:
        """Add a small valid batch of only scores and targets on CPU; return whether it was added."""
        if self._rows_unseen or self._settings.bins is not None:
            return False
        return self._hold_small(_SIMPLE, self._settings.inputs.small_batch(preds, target, copied=True))

    @state.with_shortcut(_add_small)
    def update(
        self,
        preds: Tensor,
        target: Tensor,
        weights: Tensor | None = None,
        sample_ids: SampleIds = None,
        groups: SampleIds = None,
    ) -> None:
        """Add a batch.

        Args:
            preds: floating or integer scores, finite or infinite, higher for more likely positive. (N, ...) for binary,
                (N, C, ...) for multiclass and multilabel. Updates can differ in dtype, but int64 cannot be mixed with
                floats, because no dtype represents both.
            target: integers or bool. (N, ...) of 0 and 1 for binary, (N, ...) class ids for multiclass, in the shape of
                ``preds`` for multilabel.
            weights: (N, ...) weight of each item, from 0 to 1e288; for multilabel also (N, L, ...) weights of each
                score. Pass weights in every update or in none; with thresholds, updates without weights count as weight
                1. AP loses digits if the weights of a ranking sum to less than 1e-292, near the smallest float64
                number.
            sample_ids: (N,) integers, a tensor or a list, for (N,) or (N, C) scores; in every update or in none. Each
                id counts once over all updates and processes, so that samplers can repeat samples. The first copy
                counts, in the order of processes, then of updates; all copies must have equal targets. Sample ids
                cannot be combined with ``thresholds`` or ``bins``, which store no items.
            groups: (N,) integers, a tensor or a list, the group of each item, such as a patient or a user; in every
                update or in none. Items of a group may depend on each other: intervals and comparisons use the groups,
                see :mod:`torch_ap.inference.groups`, and the value does not. Groups cannot be combined with
                ``thresholds`` or ``bins``.

        Raises:
            TypeError, ValueError: for invalid input; the state is then unchanged. For tensors on an accelerator,
                invalid values are raised by ``compute``.
        """
        if (sample_ids is not None or groups is not None) and self._settings.bins is not None:
            name = samples.STATE if sample_ids is not None else samples.GROUPS
            raise ValueError(
                f"`{name}` cannot be combined with `thresholds` or `bins`, which store counts instead of items"
            )
        batch = self._settings.validate(preds, target, weights)
        if groups is not None:
            batch = batch._replace(groups=self._item_groups(preds, batch, groups))
        if batch.scores.device != self._device:
            self._check_device(batch.scores, "preds")
        if self._rows_unseen and batch.scores.device.type == "cpu":
            self._check_rows(batch)
        if self._settings.bins is None:
            self._hold(self._columns(batch, target, sample_ids), batch.broken)
        elif self._settings.adaptive:
            self._append_and_count(batch, target)
        else:
            self._add_counts(batch)

    def _check_rows(self, batch: Batch) -> None:
        """Check once, on the first items, whether the scores are probabilities."""
        if len(batch.scores):
            self._rows_unseen = False
            warn_of_logits(self._settings.inputs, batch)

    def _warn_of_two_scores(self) -> None:
        """Warn once per metric, but never in ``forward``, if the predictions are thresholded."""
        if self._warned_of_two_scores or self._state_before_forward is not None:
            return
        items = listed(self._list_state("scores")), listed(self._list_state("targets"))
        counts = None
        if self._settings.bins is not None:
            counts = sketches.bin_counts(self.sketch) if self._settings.adaptive else self.counts + self.weight_sums
        inputs = self._settings.inputs
        in_bins = counts is not None and bool(counts.any())
        self._warned_of_two_scores = (
            warn_of_two_bins(inputs, counts) if in_bins and counts is not None else warn_of_two_scores(inputs, *items)
        )

    def _ranked_items(self, *, keep_all_groups: bool = False) -> tuple[APSettings, HitCurve, Batch | None, torch.dtype]:
        """Return the settings of the value, the rankings, their items (None for counts) and the dtype of the scores.

        Args:
            keep_all_groups: whether rankings of items contain the tie groups without hits.
        """
        settings = self._settings
        self._warn_of_two_scores()
        if self._exchanged is not None:
            return settings, self._exchanged[0], None, self._exchanged[1]
        if settings.bins is None or (settings.adaptive and not bool(adaptive.has_bins(self.sketch))):
            batch, dtype = self._batch(), torch.float32
            exact = settings if settings.bins is None else settings.exact
            curve = exact.curve(batch, keep_all_groups=keep_all_groups)
            return exact, curve, batch, batch.scores.dtype if settings.bins is None else dtype
        return settings, settings.curve_of_bins(self._binned()), None, torch.float32


class ItemMetric(ItemAnalyses, ItemState):
    """Abstract base of the binary, multiclass and multilabel AP metrics."""

    _summary_name = "ap"
    summary = metric.summary

    bins = setting("_settings.bins_given", "The argument `bins`, with edges in ascending order.")
    pilot = setting("_settings.pilot", "The number of items from which adaptive bins are learnt.")
    tolerance = setting("_settings.tolerance", "The width of the bounds above which a warning is raised.")
    convention = setting("_settings.convention", "The convention of the average precision.")
    prevalence = setting(
        "_settings.prevalence", "The share of positives to which the value applies; None for the share in the sample."
    )
    num_relevant = setting("_settings.num_relevant", "The number of positives, scored or not; None if all are scored.")

    @torch.jit.unused
    def forward(
        self,
        preds: Tensor,
        target: Tensor,
        weights: Tensor | None = None,
        sample_ids: SampleIds = None,
        groups: SampleIds = None,
    ) -> Tensor:
        """Add a batch, and return the average precision of this batch alone.

        Args:
            preds: as of :meth:`update`.
            target: as of :meth:`update`.
            weights: as of :meth:`update`.
            sample_ids: as of :meth:`update`.
            groups: as of :meth:`update`.

        Raises:
            TypeError, ValueError: as :meth:`update` and :meth:`compute`; the state is then unchanged.
        """
        settings = self._settings
        simple = weights is sample_ids is groups is None
        direct = (
            simple
            and settings.single
            and isinstance(preds, Tensor)
            and preds.numel() <= _FEW_SCORES
            and preds.device == self._device == torch.device("cpu")
            and not (self.dist_sync_on_step or self._is_synced or torch.is_inference_mode_enabled())
        )
        value: Tensor
        if settings.bins is None or not direct:
            options = () if simple else (weights, sample_ids, groups)
            value = super().forward(preds, target, *options)
            return value
        batch, dtype = settings.validate(preds, target), self._dtype_of_result(torch.float32)
        # a shared state is copied, because a collection calls `forward` of each metric that shares it
        if settings.adaptive:
            value = settings.exact.value(settings.exact.curve(batch), dtype)
            vars(self).update({name: list(getattr(self, name)) for name in self._lists})
            self._append_and_count(batch, target)
            vars(self)["_forward_cache"] = value
        else:
            index = settings.bins.index(batch.scores)
            value = settings.value(settings.curve_of_index(batch, index), dtype)
            counts = self.counts if state.is_unshared(vars(self), "counts") else self.counts.clone()
            total, writes = settings.added_counts(batch, counts, index)
            write_in_one_step(vars(self), {"counts": total, **self._after_update(), "_forward_cache": value}, writes)
        return value

    def compute(self) -> Tensor:
        """Return the average precision of all items: 0-d, or (C,) without an average."""
        self._raise_broken()
        settings, curve, batch, scores = self._ranked_items()
        if self._rows_unseen and batch is not None:
            self._check_rows(batch)
        value: Tensor = settings.value(curve, self._dtype_of_result(scores), warn=self.update_called)
        return value

    def bounds(self) -> AveragePrecisionBounds:
        """Return bounds of the exact value from the counts of ``bins``; see docs/scale.md.

        The bounds contain the exact AP for every order of the items inside each bin, also if items are tied and
        count by ``ties``, up to the rounding of a sum. Without ``bins`` both bounds equal the value.

        Returns:
            :class:`torch_ap.inference.AveragePrecisionBounds`, in the shape of ``compute()``.

        Raises:
            ValueError: with ``thresholds``, which define another curve, and as ``compute()``.

        Example:
            >>> import torch
            >>> from torch_ap import BinaryAveragePrecision
            >>> metric = BinaryAveragePrecision(bins=4)
            >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
            >>> metric.bounds()
            AveragePrecisionBounds(low=0.5833, estimate=0.7083, high=0.8333)
        """
        if self.thresholds is not None:
            raise ValueError("`thresholds` must be None for bounds, because they define another curve; use `bins`")
        with self._all_ranks():
            self._raise_broken()
            settings, curve, *_ = self._ranked_items()
            bounds = settings.bounds(curve)
        return AveragePrecisionBounds(bounds.low, bounds.estimate, bounds.high).to(self.device)

    def _settings_of_value(self) -> dict[str, Any]:
        convention = vars(self.convention)
        names = state.defaults_of(type(self))
        return {name: convention[name] if name in convention else getattr(self, name) for name in names}

    def _item_ids(self) -> Tensor:
        if not (held := self._list_state(samples.STATE)):
            return torch.arange(sum(map(len, self._list_state("scores"))), device=self.device)
        ids = arrays.concatenate(held)
        kept = samples.first_copies(ids, arrays.concatenate(self._list_state("targets")))
        return ids if kept is None else ids[kept]

    def _all_bins(self) -> HitCurve:
        items = self.counts.sum(2)
        return self._settings.curve_of_bins(torch.stack([torch.zeros_like(items), items], 2))
