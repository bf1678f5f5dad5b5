"""Input validation of classification: batches of predictions as rankings.

Binary, multiclass and multilabel input become scores of shape (N,) or (N, C) with one ranking per column; other modules
do not depend on the task.

Warnings for scores that cannot be the scores of a model: logits of a softmax, and thresholded predictions.

Sketches of validated items: counts in bins learnt from the first items, see :mod:`torch_ap.core.ranking.adaptive`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks, tensors
from torch_ap.core.base.messages import warn_caller
from torch_ap.core.base.options import IgnoreIndex, NanStrategy, Normalization, allowed_values
from torch_ap.core.ranking import adaptive, bins, builders, few_items, hit_curve, segments
from torch_ap.core.ranking.bins import Bins
from torch_ap.core.ranking.hit_curve import HitCurve

NORMALIZATIONS = allowed_values(Normalization)
NAN_STRATEGIES = allowed_values(NanStrategy)


class Batch(NamedTuple):
    """Validated items in the layout of the state.

    Attributes:
        scores: (N,) one ranking, or (N, C) one ranking per column; in the input dtype.
        target: (N,) or (N, C) of 0 and 1, or (N,) class ids, in the narrowest integer dtype. The largest number of the
            dtype marks an ignored item.
        weights: None, (N,), or the shape of ``scores``.
        broken: on an accelerator (R,) bool, the broken rules of ``values.VALUE_RULES``, else None.
        groups: (N,) int64, the group of each item, or None.
        sample_ids: (N,) int64, different ids of the items, or None.
    """

    scores: Tensor
    target: Tensor
    weights: Tensor | None = None
    broken: Tensor | None = None
    groups: Tensor | None = None
    sample_ids: Tensor | None = None

    def select(self, items: Tensor) -> "Batch":
        """Return some items, or all in another order, from (N,) bool flags or int64 indices."""
        return Batch(*(x if x is None else x[items] for x in self))  # type: ignore[arg-type]


_PROBED_ROWS = 64  # usual scores are recognized by their first rows
_MIN_ITEMS = 1000  # fewer items can have two distinct scores by chance or on purpose
_MIN_BINS = 100  # with fewer bins, two of them can contain many distinct scores
_SUM_TOLERANCE = 0.02  # rounding error of the sum of 1,000 bfloat16 probabilities
_FEW_IGNORED = 4  # with up to one ignored item in 4, ranking all items is faster than selecting the others


@dataclass(frozen=True)
class ClassificationInputs:
    """Input format of one metric. It is the same for every batch and does not depend on the values of a batch.

    Attributes:
        width: None for one ranking of (N, ...) scores, else C for (N, C, ...) scores.
        classes: whether the target is one class id per item (multiclass) instead of 0 or 1 per score.
        ignore_index: target value of items to ignore, or a tuple of such values, ascending.
        normalization: "sigmoid" or "softmax", applied to every batch; None or "none" for no normalization.
        scores_in: "unit" if scores must be in [0, 1], "half" if they must be 16-bit numbers, else "".
        check_values: whether values are checked. Shapes and dtypes always are.
        nan_strategy: "error" for NaN scores, or "ignore" or "warn" to ignore their items.
    """

    width: int | None = None
    classes: bool = False
    ignore_index: IgnoreIndex = None
    normalization: str | None = None
    scores_in: str = ""
    check_values: bool = True
    nan_strategy: str = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore_index", checks.integers("ignore_index", self.ignore_index))
        checks.boolean("validate_args", self.check_values)
        normalizations = [x for x in NORMALIZATIONS if x != "softmax" or self.classes]  # over the classes
        checks.one_of("normalization", self.normalization, normalizations)
        checks.one_of("nan_strategy", self.nan_strategy, NAN_STRATEGIES)

    @cached_property
    def normalizes(self) -> bool:
        """Whether scores are normalized by a sigmoid or softmax."""
        return self.normalization not in (None, "none")

    @cached_property
    def ignoring(self) -> bool:
        """Whether items may be marked as ignored."""
        return self.ignore_index is not None or self.nan_strategy != "error"

    @cached_property
    def top(self) -> int:
        """Largest target."""
        return self.width - 1 if self.classes and self.width is not None else 1

    @cached_property
    def _small_form(self) -> tuple[tuple[int, ...], np.dtype[Any] | None]:
        """The shape of the scores of an item, and the dtype of stored targets; None if valid items may be ignored."""
        ignored = self.ignore_index if isinstance(self.ignore_index, Sequence) else (self.ignore_index,)
        all_count = not self.normalizes and not any(x is not None and 0 <= x <= self.top for x in ignored)
        dtype = np.dtype(str(self.target_dtype).removeprefix("torch.")) if all_count else None
        return () if self.width is None else (self.width,), dtype

    @cached_property
    def target_dtype(self) -> torch.dtype:
        """Narrowest integer dtype for every target and, above them, the mark of an ignored item."""
        return next(t for t in (torch.uint8, torch.int16, torch.int32) if torch.iinfo(t).max > self.top)

    def validate(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> Batch:
        """Validate a batch and return it in the layout of the state; the input tensors are never changed."""
        if (weights is None or (self.width is None and few_items.is_valid_weight(weights, preds))) and (
            small := self.small_batch(preds, target)
        ):
            return Batch(preds, small[1], weights)
        self._check_form(preds, target, weights)
        preds, target, weights = self._rows(preds.detach() if preds.requires_grad else preds, target, weights)
        if self.normalizes:
            preds = preds if preds.is_floating_point() else preds.to(torch.get_default_dtype())
            preds = _sigmoid(preds) if self.normalization == "sigmoid" else torch.softmax(preds, 1)
        ignored = tensors.is_ignored(target, self.ignore_index)
        missing = self._missing(preds, ignored)
        if missing is not None:
            ignored = missing if ignored is None else ignored | missing
        if ignored is not None and weights is not None and weights.shape == ignored.shape:
            weights = weights.masked_fill(ignored, 0)
        broken = self._check_values(preds, target, weights, ignored) if self.check_values else None
        target = target.to(self.target_dtype)
        if ignored is not None:
            target = target.masked_fill(ignored, torch.iinfo(self.target_dtype).max)
        if broken is not None and missing is not None and self.nan_strategy == "warn":
            broken[tensors.NAN_SCORE] = missing.any()
        return Batch(preds, target, weights, broken)

    def small_batch(self, preds: Tensor, target: Tensor, *, copied: bool = False) -> tuple[Tensor, Tensor] | None:
        """Return the scores and targets of a valid small batch on CPU; None for input that needs :meth:`validate`.

        Args:
            preds: as of :meth:`validate`.
            target: as of :meth:`validate`; the returned targets are always a copy.
            copied: whether the scores are copied.
        """
        columns, dtype = self._small_form
        if dtype is None or (self.scores_in == "half" and getattr(preds, "dtype", None) not in bins.HALVES):
            return None
        unit_range = self.scores_in == "unit"
        small = few_items.valid_arrays(
            preds, target, self.top, columns=columns, classes=self.classes, unit_range=unit_range
        )
        if small is None:
            return None
        return few_items.copy_valid(small[0], preds) if copied else preds, torch.from_numpy(small[1].astype(dtype))

    def validate_now(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> Batch:
        """Validate a batch, and raise immediately also on an accelerator."""
        batch = self.validate(preds, target, weights)
        self.raise_broken(self.without_nan(batch.broken))
        return batch

    def raise_broken(self, broken: Tensor | None) -> None:
        """Raise ValueError for the first rule that a batch on an accelerator breaks."""
        tensors.raise_first(tensors.VALUE_RULES, broken, **self.rule_values)

    @property
    def rule_values(self) -> dict[str, object]:
        """Values for the messages of rules."""
        return {"top": self.top, "range": tensors.RANGES.get(self.scores_in, "")}

    def no_items(self, device: torch.device | None = None) -> Batch:
        """Return an empty batch."""
        scores = torch.empty((0,) if self.width is None else (0, self.width), device=device)
        target = torch.empty((0,) if self.classes else scores.shape, dtype=self.target_dtype, device=device)
        return Batch(scores, target)

    def check_stored(self, batch: Batch) -> Tensor | None:
        """Check a batch in the layout of the state; see :func:`torch_ap.core.base.tensors.check_classification`."""
        ignored = ~counted_items(batch.target) if self.ignoring else None
        return self._check_values(*batch[:3], ignored) if self.check_values else None

    def _missing(self, preds: Tensor, ignored: Tensor | None) -> Tensor | None:
        """Return which items, or scores of labels, are ignored because of NaN; on CPU None if no score is NaN."""
        if self.nan_strategy == "error" or not preds.is_floating_point() or not preds.numel():
            return None
        on_cpu = preds.device.type == "cpu"
        if on_cpu and not bool(preds.max().isnan()):  # the maximum of anything with NaN is NaN
            return None
        missing = preds.isnan().any(1) if self.classes else preds.isnan()
        missing = missing if ignored is None else missing & ~ignored
        if on_cpu and self.nan_strategy == "warn" and bool(missing.any()):
            warn_caller(f"`preds` contain NaN; {self._left_out}: {int(missing.sum())}", UserWarning)
        return missing

    @property
    def _left_out(self) -> str:
        unit = "items" if self.classes or self.width is None else "scores"
        return f"by `nan_strategy='warn'`, {unit} left out"

    def without_nan(self, broken: Tensor | None) -> Tensor | None:
        """Return the broken rules; NaN scores that only cause a warning are removed, and the warning is raised."""
        if broken is None or self.nan_strategy != "warn":
            return broken
        if bool(broken[tensors.NAN_SCORE]):
            self.warn_of_nan()
        return broken & (torch.arange(len(broken), device=broken.device) != tensors.NAN_SCORE)

    def warn_of_nan(self) -> None:
        """Warn about NaN scores that were ignored on an accelerator, without their number."""
        warn_caller(f"`preds` contained NaN; {self._left_out}", UserWarning)

    def _check_form(self, preds: Tensor, target: Tensor, weights: Tensor | None) -> None:
        tensors.scores("preds", preds)
        tensors.integer_target(target)
        if self.width is not None:
            tensors.columns(preds, self.width, "num_classes" if self.classes else "num_labels")
        if self.classes:
            tensors.class_target(preds, target)
        else:
            tensors.same_shape(preds, target)
        if weights is not None:
            tensors.weights_form("weights", weights, self.weight_shapes(preds, target))
        if preds.device != target.device or weights is not None:
            tensors.same_device(preds=preds, target=target, weights=weights)

    def weight_shapes(self, preds: Tensor, target: Tensor) -> list[torch.Size]:
        """Return the valid shapes of weights: one per item, or for labels also one per target."""
        an_item = preds.shape[:1] + preds.shape[2:] if self.width is not None else preds.shape
        return [an_item] if self.classes else list(dict.fromkeys([an_item, target.shape]))

    def _rows(self, preds: Tensor, target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Reshape (N, ...) to (N,), and (N, C, ...) to (N, C)."""

        def rows(values: Tensor, by_column: bool) -> Tensor:
            if not by_column:
                return values if values.ndim == 1 else values.flatten()
            return values if values.ndim == 2 else values.movedim(1, -1).reshape(-1, values.shape[1])

        wide = self.width is not None
        if weights is not None:
            weights = rows(weights.detach(), wide and weights.ndim == preds.ndim)
            weights = segments.as_float64(weights) if weights.dtype == torch.int64 else weights  # as floats may follow
        return rows(preds, wide), rows(target, wide and not self.classes), weights

    def _check_values(
        self, preds: Tensor, target: Tensor, weights: Tensor | None, ignored: Tensor | None
    ) -> Tensor | None:
        if ignored is not None:
            preds = preds.masked_fill(ignored[:, None] if self.classes else ignored, 0)
            target = target.masked_fill(ignored, 0)
        scores_in = "" if self.normalizes and self.scores_in == "unit" else self.scores_in
        return tensors.check_classification(preds, target, weights, top=self.top, scores_in=scores_in)


def counted_items(target: Tensor) -> Tensor:
    """Return which targets are not marked as ignored: bool, in the shape of ``target``."""
    return target != torch.iinfo(target.dtype).max


def curve_of(batch: Batch, *, ignoring: bool, keep_all_groups: bool = False) -> HitCurve:
    """Return the hit curve of each ranking of a batch: one, or one per column.

    Args:
        batch: result of :meth:`ClassificationInputs.validate`.
        ignoring: whether items may be marked as ignored.
        keep_all_groups: whether tie groups without a hit remain as entries.
    """
    scores, target, weights = batch.scores, batch.target, batch.weights
    if ignoring:
        kept = counted_items(target)
        if scores.ndim == target.ndim == 2 and not bool(kept.all()):
            return _curve_of_ragged(batch, kept, keep_all_groups)
        scores, target = (scores, target) if target.ndim == 2 else (scores[kept], target[kept])
        weights = weights if weights is None or target.ndim == 2 else weights[kept]
    if scores.ndim == 1:
        return builders.from_scores(scores, target, weight=weights, keep_all_groups=keep_all_groups)
    return builders.from_columns(scores, target, weight=weights, keep_all_groups=keep_all_groups)


def bins_of(batch: Batch, thresholds: bins.Bins | Tensor, *, ignoring: bool) -> Tensor:
    """Return the (C, B, 2) misses and hits of a batch in each bin, highest bin first, without a device sync."""
    return bins.count(_items_to_count(batch, ignoring), thresholds)


def add_to_bins(
    totals: Tensor, batch: Batch, thresholds: bins.Bins | Tensor, *, ignoring: bool, index: Tensor | None = None
) -> bins.Sum:
    """Return the sum of earlier counts and the counts of a batch, as :func:`bins_of` returns them.

    Args:
        totals: the earlier counts.
        batch: as of :func:`bins_of`.
        thresholds: as of :func:`bins_of`.
        ignoring: as of :func:`bins_of`.
        index: the bins of the scores, if they are known.
    """
    return bins.add(totals, _items_to_count(batch, ignoring), thresholds, index)


def _items_to_count(batch: Batch, ignoring: bool) -> bins.Items:
    """Return the items of a batch, marked as counted or ignored."""
    return bins.Items(*batch[:3], counted_items(batch.target) if ignoring else None)


def curve_of_binned_ranking(batch: Batch, index: Tensor, *, ignoring: bool, from_bin: int) -> HitCurve:
    """Return the hit curve of one ranking of bins, without a count of all bins.

    Args:
        batch: validated items of one ranking on CPU, without weights.
        index: (N,) bin of each item, counted from the lowest.
        ignoring: whether items may be marked as ignored.
        from_bin: the lowest bin whose items are retrieved; relevant items below it count in ``m``.
    """
    target = batch.target
    if ignoring:
        kept = counted_items(target)
        index, target = index[kept], target[kept]
    if not from_bin:
        return builders.from_scores(index, target)
    return builders.from_scores(index, target.bool() & (index >= from_bin), m=target.sum()[None])


def _curve_of_ragged(batch: Batch, kept: Tensor, keep_all_groups: bool) -> HitCurve:
    """Return the curves of columns with ignored items, which are rankings of unequal length.

    If only hits become entries and few items are ignored, the ignored items are ranked last and then removed.
    """
    items, columns = batch.scores.shape
    counts = kept.sum(0)
    few_ignored = int(counts.sum()) * _FEW_IGNORED >= kept.numel() * (_FEW_IGNORED - 1)
    if few_ignored and batch.weights is None and not keep_all_groups:
        scores = batch.scores.masked_fill(~kept, _lowest(batch.scores.dtype))
        curve = builders.from_columns(scores, batch.target.masked_fill(~kept, 0))
        return hit_curve.drop_misses_beyond(curve, counts)
    place = kept.t().flatten().nonzero().squeeze(1)
    weights = None
    if batch.weights is not None:
        weights = bins.spread(batch.weights, batch.scores).t().flatten()[place]
    return builders.from_scores(
        batch.scores.t().flatten()[place],
        batch.target.t().flatten()[place],
        segment=place // items,
        segments_count=columns,
        weight=weights,
        keep_all_groups=keep_all_groups,
    )


def _lowest(dtype: torch.dtype) -> float:
    return -torch.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _sigmoid(logits: Tensor) -> Tensor:
    """Return the sigmoid; on CPU with NumPy, so that equal logits give equal scores.

    torch computes the last few values of an array in another way, which can change the last bit. Equal logits would no
    longer tie, and the value would depend on the batches.
    """
    if logits.device.type != "cpu":
        return torch.sigmoid(logits)
    wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    with np.errstate(over="ignore"):  # for logits whose sigmoid is 0
        return torch.from_numpy(1 / (1 + np.exp(-wide.numpy()))).to(logits.dtype)


@arrays.quiet
def warn_of_logits(inputs: ClassificationInputs, validated: Batch) -> None:
    """Warn if the first rows of multiclass scores are not distributions and ``normalization`` is None."""
    if not inputs.classes or inputs.normalization is not None:
        return
    rows = arrays.native(validated.scores[:_PROBED_ROWS].double())
    rows = rows[arrays.native(counted_items(validated.target[:_PROBED_ROWS]))]
    if bool(((rows < 0).any(1) | (abs(rows.sum(1) - 1) > _SUM_TOLERANCE)).any()):
        warn_caller(
            "The rows of `preds` are not distributions over the classes. If they are logits, pass "
            "`normalization='softmax'`: the ranking of a class compares items with one another, and the logits of two "
            "items have no common zero. If the scores are comparable without it, pass `normalization='none'`.",
            UserWarning,
        )


def warn_of_two_scores(inputs: ClassificationInputs, scores: Sequence[Tensor], targets: Sequence[Tensor]) -> bool:
    """Warn if a large sample has exactly two distinct scores, a sign of thresholded predictions.

    The scores of the first items almost always suffice. The others are then not read.

    Args:
        inputs: input settings; ``check_values=False`` turns the check off.
        scores: scores of validated batches.
        targets: targets of the same batches.

    Returns:
        Whether a warning was raised.
    """
    if not inputs.check_values or not _has_items(scores, _MIN_ITEMS):
        return False
    distinct, count = set[float](), 0
    for part in map(Batch, scores, targets):
        probed = _counted_scores(inputs, Batch(*(x[:_PROBED_ROWS] for x in part[:2])))
        distinct.update(probed.flatten()[:: max(1, probed.numel() // _PROBED_ROWS)].tolist())
        if len(distinct) > 2:
            return False
        count += len(probed)
        if count >= _PROBED_ROWS:
            break
    ends, items = _ends([_counted_scores(inputs, part) for part in map(Batch, scores, targets)]), sum(map(len, scores))
    if len(ends) != 2:
        return False
    _warn_of_thresholded(f"`preds` have two distinct scores, {ends[0]:g} and {ends[1]:g}, among {items:,} items")
    return True


def _has_items(parts: Sequence[Tensor], count: int) -> bool:
    """Return whether the parts have at least this number of items, from as few parts as possible."""
    for part in parts:
        count -= part.shape[0]
        if count <= 0:
            return True
    return False


def warn_of_two_bins(inputs: ClassificationInputs, counts: Tensor) -> bool:
    """Warn if the scores of a large sample are in exactly two of many bins; return whether a warning was raised.

    Args:
        inputs: as for :func:`warn_of_two_scores`.
        counts: (C, B, 2) items per bin.
    """
    if not inputs.check_values or counts.shape[1] < _MIN_BINS:
        return False
    items = counts.sum(2)
    used, most = int((items.sum(0) > 0).sum()), int(items.sum(1).max())
    if used != 2 or most < _MIN_ITEMS:
        return False
    _warn_of_thresholded(f"The scores of {most:,} items of `preds` are in two of {counts.shape[1]:,} bins")
    return True


def _warn_of_thresholded(observation: str) -> None:
    warn_caller(
        f"{observation}. Thresholded predictions do not give the average precision of the model: pass scores "
        "(probabilities or logits) instead of class predictions. `validate_args=False` turns this check off.",
        UserWarning,
    )


def _counted_scores(inputs: ClassificationInputs, part: Batch) -> Tensor:
    """Return the scores of items that are not ignored."""
    return part.scores[counted_items(part.target)] if inputs.ignoring else part.scores


def _ends(parts: Sequence[Tensor]) -> list[float]:
    """Return the distinct scores if there are at most two; otherwise at least three values."""
    ends: list[Tensor] = []
    between = False
    for scores in parts:
        if not scores.numel():
            continue
        low, high = scores.aminmax()
        ends += [low.double(), high.double()] if scores.device.type != "mps" else [low.float(), high.float()]
        between = between or bool(((scores != low) & (scores != high)).any())
    values: Tensor = torch.unique(torch.stack(ends)) if ends else torch.empty(0)
    return values.tolist() + [torch.nan] * between


def add_batch(sketch: Tensor, batch: Batch, settings: Bins, *, ignoring: bool) -> Tensor:
    """Return the sketch plus all items of a batch; an empty sketch learns its bins from the first items.

    Args:
        sketch: (C, B, 5); C is 1 for (N,) scores.
        batch: validated items.
        settings: settings of the bins.
        ignoring: whether items may be marked as ignored.
    """
    scores = batch.scores if batch.scores.ndim == 2 else batch.scores[:, None]
    kept = counted_items(batch.target) if ignoring else None
    if not bool(adaptive.has_bins(sketch)):
        pilot = scores[: settings.pilot]
        if kept is not None:
            counts = bins.spread(kept[: len(pilot)], pilot) if kept.ndim == 1 else kept[: len(pilot)]
            pilot = segments.as_float64(pilot).masked_fill(~counts, torch.nan)
        sketch = adaptive.learn_bins(pilot, sketch.shape[1])
    more = adaptive.count_items(sketch, bins.Items(scores, batch.target, batch.weights, kept))
    return adaptive.add_counts(sketch, more)


def bin_counts(sketch: Tensor) -> Tensor:
    """Return the (C, B, 2) misses and hits, highest bin first: counts, or sums of weights if any weight was passed."""
    weights = adaptive.sketch_weights(sketch)
    counts = adaptive.sketch_counts(sketch)
    return (counts + weights if bool(weights.any()) else counts).flip(1)
