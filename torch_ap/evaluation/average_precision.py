"""From checked batches to a number: the steps that a function and the class of the same name share."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torch_ap.curve import averaging, bounds
from torch_ap.curve.bounds import Bounds
from torch_ap.curve.convention import PLAIN, Convention
from torch_ap.curve.top_k import deepest
from torch_ap.inputs import classification, sketches
from torch_ap.inputs.classification import Batch, ClassificationInputs
from torch_ap.ranking import adaptive, bins, few_items
from torch_ap.ranking.bins import Bins
from torch_ap.ranking.counting import from_bins
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import PILOT, TOLERANCE, Average, Task, allowed
from torch_ap.runtime import arrays

_TASKS = allowed(Task)
_ROWS_LOOKED_AT = 64
_FAR_FROM_ONE = 0.02  # what 1,000 rounded bfloat16 numbers can be off


@dataclass(frozen=True, eq=False)
class APSettings:
    """All settings of one average precision, and the steps from a batch to its value.

    Attributes:
        inputs: how batches come in.
        convention: which AP is meant.
        bins: which scores share one, for counts per bin; None for every score.
        average: over the rankings: "macro", "weighted", "micro", "none" or None. One ranking needs none.
        empty_target_action: what a ranking without relevant items counts as; None for the task's default, with a
            warning.
    """

    inputs: ClassificationInputs
    convention: Convention = PLAIN
    bins: Bins | None = None
    average: str | None = "none"
    empty_target_action: str | None = None

    def __post_init__(self) -> None:
        wide = self.inputs.width is not None
        averages = [x for x in allowed(Average) if x != "micro" or not self.inputs.classes]
        checks.one_of("average", self.average, averages if wide else ("none",))
        checks.one_of("empty_target_action", self.empty_target_action, (*averaging.ACTIONS, None))
        if self.bins is not None and self.bins.mixed and not self.convention.has_bounds:
            meant = f"interpolation={self.convention.interpolation!r}, denominator={self.convention.denominator!r}"
            raise ValueError(
                "`bins` must be None or 'half' with `interpolation` and with `denominator='found'`, of which the order "
                f"inside a bin leaves no bounds, got {meant}"
            )

    @property
    def thresholds(self) -> Tensor | None:
        """(T,) ascending; None without."""
        return self.bins.edges if self.bins is not None and self.bins.kind == "thresholds" else None

    @property
    def bins_given(self) -> str | int | Tensor | None:
        """The argument ``bins`` of metrics."""
        if self.bins is None or self.bins.kind == "thresholds":
            return None
        return {"equal": self.bins.size, "edges": self.bins.edges}.get(self.bins.kind, self.bins.kind)

    @property
    def pilot(self) -> int:
        """How many items bins are learnt from."""
        return self.bins.pilot if self.bins is not None and self.adaptive else PILOT

    @property
    def tolerance(self) -> float:
        """The width of the bounds above which a warning is given."""
        return TOLERANCE if self.bins_given is None or self.bins is None else self.bins.tolerance

    @property
    def mixed(self) -> bool:
        """Whether counts are kept of bins that may hold different scores that are not meant to tie."""
        return self.bins is not None and self.bins.mixed

    @property
    def adaptive(self) -> bool:
        """Whether bins are learnt from the scores."""
        return self.bins is not None and self.bins.kind == "adaptive"

    @property
    def action_on_empty(self) -> str:
        """``empty_target_action``, or the default of the task."""
        return self.empty_target_action or ("skip" if self.inputs.classes else "neg")

    @property
    def averages(self) -> bool:
        """Whether the value is an average over rankings, rather than one or each of them."""
        return self.inputs.width is not None and self.average not in ("none", None)

    def to(self, device: torch.device) -> "APSettings":
        """The same settings with its bins on ``device``."""
        edges = None if self.bins is None else self.bins.edges
        if self.bins is None or edges is None or edges.device == device:
            return self
        return replace(self, bins=self.bins.to(device))

    def validate(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> Batch:
        """Check a batch, and bring it into the layout of the state; what is wrong is raised before that changes."""
        if weights is not None:
            self.validate_weights()
        return self.inputs.validate(preds, target, weights)

    def validate_weights(self) -> None:
        """Refuse weights where they have no meaning."""
        if not self.convention.takes_weights:
            raise ValueError(
                "`weights` have a meaning only without `top_k` and with `ties='grouped'`: a rank, or a place among "
                f"tied items, has no weight; got top_k={self.convention.top_k}, ties={self.convention.ties!r}"
            )

    def rankings(self, validated: Batch) -> Batch:
        """The items with one column per ranking: as they are, or all in one for the micro average."""
        return _flat(validated) if self.average == "micro" else validated

    def curve(self, validated: Batch, *, keep_all_groups: bool = False) -> HitCurve:
        """The hit curves of validated items, one per column, or one of all of them for the micro average."""
        validated = self.rankings(validated)
        if self.bins is not None:
            return self.curve_of_bins(self.counts(validated))
        return classification.curve_of(validated, ignoring=self.inputs.ignoring, keep_all_groups=keep_all_groups)

    def counts(self, validated: Batch, held: Tensor | None = None) -> Tensor:
        """(C, B, 2) misses and hits per bin, the highest first; with those held before, which may be written to."""
        assert self.bins is not None
        if self.adaptive:
            return sketches.counts_of(self.sketched(self.empty_sketch(validated.scores.device), validated))
        return classification.bins_of(validated, self.bins, ignoring=self.inputs.ignoring, held=held)

    def empty_sketch(self, device: torch.device | None = None) -> Tensor:
        """What adaptive bins hold of no items: of each ranking, of all together for the micro average."""
        assert self.bins is not None
        return adaptive.empty((self.average != "micro" and self.inputs.width) or 1, self.bins.size, device)

    def sketched(self, sketch: Tensor, validated: Batch) -> Tensor:
        """The sketch with the items of a batch."""
        assert self.bins is not None
        return sketches.extended(sketch, self.rankings(validated), self.bins, ignoring=self.inputs.ignoring)

    def curve_of_bins(self, counts: Tensor, *, score: Tensor | None = None) -> HitCurve:
        """The hit curves of counts per bin. What lies below every threshold is never retrieved.

        Args:
            counts: (C, B, 2), the highest bin first.
            score: (B,) or (C, B) the least score of each bin, which keeps thresholds, and bins that hold anything, as
                entries too, where hits are all that is kept without.
        """
        if self.average == "micro" and len(counts) > 1:
            counts = counts.sum(0, keepdim=True)
        items, hits = counts.sum(2), counts[:, :, 1]
        n, m = items.sum(1), hits.sum(1)
        if self.thresholds is not None:
            hits, items = hits[:, :-1], items[:, :-1]
        kept = None if score is None or self.thresholds is not None else items > 0
        return from_bins(hits, items, n=n, m=m, score=score, kept=kept)

    def each(self, curve: HitCurve) -> Tensor:
        """(S,) the AP of each ranking; of bins whose order is not known its mean over all orders."""
        return bounds.of_rankings(self.convention, curve).estimate if self.mixed else self.convention(curve)

    def value(self, curve: HitCurve, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """The AP under the convention, filled in and averaged: 0-d, or (C,) for no average."""
        if curve.weighted:  # in a compute group, or merged, they may have come in by another metric's validation
            self.validate_weights()
        if self.mixed:
            found = self.bounds(curve, warn=warn)
            self._warn_of_width(found)
            return found.estimate.to(dtype)
        return self.averaged(self.each(curve), curve, dtype, warn=warn)

    def bounds(self, curve: HitCurve, *, warn: bool = False) -> Bounds:
        """What the value can be, whatever the order inside the bins: each bound filled in and averaged as AP is."""
        if curve.weighted:
            self.validate_weights()
        each = bounds.of_rankings(self.convention, curve) if self.mixed else Bounds(*[self.convention(curve)] * 3)
        low, high = (self.averaged(x, curve, x.dtype, warn=False) for x in (each.low, each.high))
        return Bounds(low, self.averaged(each.estimate, curve, each.estimate.dtype, warn=warn), high)

    def _warn_of_width(self, found: Bounds) -> None:
        """Warn where bins leave more open than is tolerated."""
        assert self.bins is not None
        widths = (found.high - found.low).flatten().nan_to_num(0).tolist()
        if widths and max(widths) > self.bins.tolerance:
            warn_caller(
                f"`bins` leave the average precision open by {max(widths):.2g}, more than `tolerance`, "
                f"{self.bins.tolerance:g}: `bounds()` gives the range that holds it. More bins, or others, narrow it.",
                UserWarning,
            )

    def averaged(self, each: Tensor, curve: HitCurve, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """A measure of each ranking, filled in and averaged as AP is: 0-d, or (C,) for no average."""
        action, what = self.action_on_empty, "class" if self.inputs.classes else "label"
        each = averaging.fill_undefined(each, curve, action, warn=warn and self.empty_target_action is None, what=what)
        if self.inputs.width is None or self.average == "micro":
            return each[0].to(dtype)
        return averaging.average(each, curve, self.average, action).to(dtype)


def evaluate(
    settings: APSettings, preds: Tensor, target: Tensor, weights: Tensor | None, dtype: torch.dtype | None
) -> Tensor:
    """All steps, for one batch that is all there is."""
    checks.floating_dtype("dtype", dtype)
    if weights is None and (value := _of_plain_ranking(settings, preds, target)) is not None:
        return value.to(dtype or result_dtype(preds.dtype))
    validated = settings.validate(preds, target, weights)
    settings = settings.to(validated.scores.device)
    warn_of_logits(settings.inputs, validated)
    settings.inputs.raise_broken(settings.inputs.without_nan(validated.broken))
    if settings.bins is not None and settings.thresholds is None:
        dtype = dtype or torch.float32
        if settings.adaptive and len(validated.scores) <= settings.bins.pilot:
            settings = replace(settings, bins=None)
    return settings.value(settings.curve(validated), dtype or result_dtype(preds.dtype))


def _of_plain_ranking(settings: APSettings, preds: Tensor, target: Tensor) -> Tensor | None:
    """The value of one short ranking, without a look at anything twice.

    None where anything is out of the ordinary, which the usual code then handles or reports.
    """
    if settings.bins is not None or not settings.inputs.plain:
        return None
    given = few_items.arrays_of(preds, target, graded=False)
    if given is None:
        return None
    curve = few_items.ranking(*given[:2], deepest(settings.convention))
    return None if curve is None or not curve.m else settings.convention(curve).reshape(())


@arrays.quiet
def warn_of_logits(inputs: ClassificationInputs, validated: Batch) -> None:
    """Warn where the first scores of multiclass items are not distributions over the classes, unless so declared."""
    if not inputs.classes or inputs.normalization is not None:
        return
    rows = arrays.native(validated.scores[:_ROWS_LOOKED_AT].double())
    rows = rows[arrays.native(classification.counted(validated.target[:_ROWS_LOOKED_AT]))]
    if bool(((rows < 0).any(1) | (abs(rows.sum(1) - 1) > _FAR_FROM_ONE)).any()):
        warn_caller(
            "The rows of `preds` are not distributions over the classes. If they are logits, give "
            "`normalization='softmax'`: the ranking of a class compares items with one another, and the logits of two "
            "items have no common zero. If they can be compared as they are, say so by `normalization='none'`.",
            UserWarning,
        )


def result_dtype(scores: torch.dtype) -> torch.dtype:
    """float64 for float64 scores, else float32, which loggers want."""
    return torch.float64 if scores == torch.float64 else torch.float32


def _flat(validated: Batch) -> Batch:
    """All columns as one ranking."""
    weights, scores = validated.weights, validated.scores
    if weights is not None:
        weights = bins.spread(weights, scores).flatten()
    return Batch(scores.flatten(), validated.target.flatten(), weights, validated.broken)


def curve_of_one(
    preds: Tensor,
    target: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    validate_args: bool = True,
    keep_all_groups: bool = False,
) -> HitCurve:
    """The hit curve of one ranking, checked: (N, ...) scores, with one entry per tie group that holds a hit.

    ``keep_all_groups`` keeps the other tie groups as entries too.
    """
    inputs = ClassificationInputs(ignore_index=ignore_index, check_values=validate_args)
    validated = inputs.validate_now(preds, target, weights)
    return classification.curve_of(validated, ignoring=inputs.ignoring, keep_all_groups=keep_all_groups)
