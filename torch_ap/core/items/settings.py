"""Settings of an average precision from the arguments of functions and metrics, and the steps from batch to value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

import torch
from torch import Tensor

from torch_ap.core.base import cached, checks
from torch_ap.core.base.messages import raise_invalid, warn_caller
from torch_ap.core.base.options import (
    PILOT,
    TOLERANCE,
    Action,
    Average,
    BinsArgument,
    CountPerRanking,
    Denominator,
    IgnoreIndex,
    Interpolation,
    NanStrategy,
    Task,
    Thresholds,
    Ties,
    TopK,
    allowed_values,
    with_keywords_of,
)
from torch_ap.core.items import inputs as classification
from torch_ap.core.items.inputs import Batch, ClassificationInputs, warn_of_logits, warn_of_two_scores
from torch_ap.core.measures import averaging
from torch_ap.core.measures.convention import PLAIN, Convention, resolve_convention
from torch_ap.core.measures.measure import Bounds
from torch_ap.core.ranking import adaptive, bins, hit_curve
from torch_ap.core.ranking.bins import Bins, Sum
from torch_ap.core.ranking.builders import from_bins
from torch_ap.core.ranking.hit_curve import HitCurve


@dataclass(frozen=True, eq=False)
class APSettings:
    """All settings of an average precision, and the steps from a batch to its value.

    Attributes:
        inputs: validation and layout of batches.
        convention: convention of the AP.
        bins: bins of scores whose counts are stored; None to use every score.
        average: average over the rankings: "macro", "weighted", "micro", "none" or None. "none" for a single ranking.
        empty_target_action: value of a ranking without relevant items; None for the task's default, with a warning.
        prevalence: share of relevant items to which the value applies; None for the share in the sample.
        num_relevant: number of relevant items, scored or not: an int for one ranking, else a tuple with one int per
            ranking; None if all are scored.
    """

    inputs: ClassificationInputs
    convention: Convention = PLAIN
    bins: Bins | None = None
    average: str | None = "none"
    empty_target_action: str | None = None
    prevalence: float | None = None
    num_relevant: CountPerRanking = None

    def __post_init__(self) -> None:
        wide = self.inputs.width is not None
        averages = [x for x in allowed_values(Average) if x != "micro" or not self.inputs.classes]
        checks.one_of("average", self.average, averages if wide else ("none",))
        checks.one_of("empty_target_action", self.empty_target_action, (*averaging.ACTIONS, None))
        if self.bins is not None and self.bins.mixed and not self.convention.has_bounds:
            got = f"interpolation={self.convention.interpolation!r}, denominator={self.convention.denominator!r}"
            raise ValueError(
                "`bins` must be None or 'half' with `interpolation` and with `denominator='found'`, whose values have "
                f"no bounds, got {got}"
            )
        if self.prevalence is not None:
            object.__setattr__(self, "prevalence", checks.open_fraction("prevalence", self.prevalence))
            self._require_weights("prevalence", "requires")
        if self.num_relevant is not None:
            if self.prevalence is not None:
                raise_invalid("prevalence", "must be None with `num_relevant`", self.prevalence)
            rankings = None if self.average == "micro" else self.inputs.width
            counts = checks.counts_per_ranking("num_relevant", self.num_relevant, rankings)
            object.__setattr__(self, "num_relevant", counts)

    @property
    def rankings_noun(self) -> str:
        """What the rankings are, in the plural, for messages."""
        return "classes" if self.inputs.classes else "labels"

    @property
    def thresholds(self) -> Tensor | None:
        """The (T,) thresholds, ascending; None without thresholds."""
        return self.bins.edges if self.bins is not None and self.bins.kind == "thresholds" else None

    @property
    def bins_given(self) -> str | int | Tensor | None:
        """The argument ``bins`` of metrics."""
        if self.bins is None or self.bins.kind == "thresholds":
            return None
        return {"equal": self.bins.size, "edges": self.bins.edges}.get(self.bins.kind, self.bins.kind)

    @property
    def pilot(self) -> int:
        """The number of items from which adaptive bins are learnt."""
        return self.bins.pilot if self.bins is not None and self.adaptive else PILOT

    @property
    def tolerance(self) -> float:
        """The width of the bounds above which a warning is raised."""
        return TOLERANCE if self.bins_given is None or self.bins is None else self.bins.tolerance

    @property
    def mixed(self) -> bool:
        """Whether a bin can contain distinct scores."""
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
        """Whether the value is an average over rankings."""
        return self.inputs.width is not None and self.average not in ("none", None)

    def to(self, device: torch.device) -> "APSettings":
        """Return the settings with the bins on ``device``."""
        edges = None if self.bins is None else self.bins.edges
        if self.bins is None or edges is None or edges.device == device:
            return self
        return replace(self, bins=self.bins.to(device))

    def validate(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> Batch:
        """Validate a batch and return it in the layout of the state."""
        if weights is not None:
            self.validate_weights()
        return self.inputs.validate(preds, target, weights)

    def validate_weights(self, argument: str = "weights") -> None:
        """Raise ValueError if weights have no meaning for the convention, or with numbers of relevant items."""
        if self.num_relevant is not None:
            raise_invalid("num_relevant", f"must be None with `{argument}`", self.num_relevant)
        self._require_weights(argument, "require")

    def _require_weights(self, argument: str, verb: str) -> None:
        if not self.convention.takes_weights:
            raise ValueError(
                f"`{argument}` {verb} `top_k=None` and `ties='grouped'`, because ranks and places inside a tie group "
                f"have no weight; got top_k={self.convention.top_k}, ties={self.convention.ties!r}"
            )

    def in_population(self, curve: HitCurve) -> HitCurve:
        """Return the rankings with all of ``num_relevant``, or at ``prevalence``; unchanged if both are None."""
        if self.num_relevant is not None:
            counts = self.num_relevant if isinstance(self.num_relevant, Sequence) else [self.num_relevant]
            return hit_curve.with_relevant(curve, counts)
        return curve if self.prevalence is None else hit_curve.at_prevalence(curve, self.prevalence)

    def rankings(self, validated: Batch) -> Batch:
        """Return the items with one column per ranking; a single column for the micro average."""
        return _flatten(validated) if self.average == "micro" else validated

    def curve(self, validated: Batch, *, keep_all_groups: bool = False) -> HitCurve:
        """Return the hit curves of validated items: one per column, or a single one for the micro average."""
        validated = self.rankings(validated)
        if self.bins is not None:
            return self.curve_of_bins(self.counts(validated))
        return classification.curve_of(validated, ignoring=self.inputs.ignoring, keep_all_groups=keep_all_groups)

    def curve_of_index(self, validated: Batch, index: Tensor) -> HitCurve:
        """Return :meth:`curve` of a single ranking from the bins of its items, as :meth:`Bins.index` returns them."""
        ranking, lowest = self.rankings(validated), int(self.thresholds is not None)
        ignoring = self.inputs.ignoring
        return classification.curve_of_binned_ranking(ranking, index.flatten(), ignoring=ignoring, from_bin=lowest)

    def counts(self, validated: Batch) -> Tensor:
        """Return the (C, B, 2) misses and hits per bin, the highest bin first."""
        assert self.bins is not None
        if self.adaptive:
            return classification.bin_counts(self.sketched(self.empty_sketch(validated.scores.device), validated))
        return classification.bins_of(validated, self.bins, ignoring=self.inputs.ignoring)

    @cached_property
    def exact(self) -> "APSettings":
        """The same settings without bins."""
        return replace(self, bins=None)

    @property
    def single(self) -> bool:
        """Whether a batch is one ranking."""
        return self.inputs.width is None or self.average == "micro"

    def added_counts(self, validated: Batch, totals: Tensor, index: Tensor | None = None) -> Sum:
        """Return the sum of earlier counts and the counts of a batch, whose bins are ``index`` if they are known."""
        assert self.bins is not None
        return classification.add_to_bins(totals, validated, self.bins, ignoring=self.inputs.ignoring, index=index)

    def empty_sketch(self, device: torch.device | None = None) -> Tensor:
        """Return the empty sketch of adaptive bins: one row per ranking, one row for the micro average."""
        assert self.bins is not None
        return adaptive.empty_sketch((self.average != "micro" and self.inputs.width) or 1, self.bins.size, device)

    def sketched(self, sketch: Tensor, validated: Batch) -> Tensor:
        """Return the sketch after adding the items of a batch."""
        assert self.bins is not None
        return classification.add_batch(sketch, self.rankings(validated), self.bins, ignoring=self.inputs.ignoring)

    def curve_of_bins(self, counts: Tensor, *, score: Tensor | None = None) -> HitCurve:
        """Return the hit curves of counts per bin; items below every threshold are never retrieved.

        Args:
            counts: (C, B, 2), the highest bin first.
            score: (B,) or (C, B) lowest score of each bin. With scores, the entries are all thresholds or all nonempty
                bins; without, only the bins with hits.
        """
        if self.average == "micro" and len(counts) > 1:
            counts = counts.sum(0, keepdim=True)
        items, hits = counts.sum(2), counts[:, :, 1]
        n, m = items.sum(1), hits.sum(1)
        if self.thresholds is not None:
            hits, items = hits[:, :-1], items[:, :-1]
        nonempty = None if score is None or self.thresholds is not None else items > 0
        return from_bins(hits, items, n=n, m=m, score=score, kept=nonempty)

    def each(self, curve: HitCurve) -> Tensor:
        """Return the AP of each ranking, (S,); for bins with distinct scores, its mean over all orders inside bins."""
        curve = self.in_population(curve)
        return self.convention.bounds(curve).estimate if self.mixed else self.convention(curve)

    def value(self, curve: HitCurve, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """Return the averaged AP, with undefined values replaced: 0-d, or (C,) without an average."""
        if curve.weighted:  # merged states and compute groups were validated by another metric
            self.validate_weights()
        curve = curve if self.num_relevant is None else self.in_population(curve)
        if self.mixed:
            bounds = self.bounds(curve, warn=warn)
            self._warn_of_width(bounds)
            return bounds.estimate.to(dtype)
        return self.averaged(self.each(curve), curve, dtype, warn=warn)

    def bounds(self, curve: HitCurve, *, warn: bool = False) -> Bounds:
        """Return the bounds of the value over all orders inside the bins, averaged like the value."""
        if curve.weighted:
            self.validate_weights()
        ranked = self.in_population(curve)
        curve = curve if self.num_relevant is None else ranked
        each = self.convention.bounds(ranked) if self.mixed else Bounds(*[self.convention(ranked)] * 3)
        low, high = (self.averaged(x, curve, x.dtype, warn=False) for x in (each.low, each.high))
        return Bounds(low, self.averaged(each.estimate, curve, each.estimate.dtype, warn=warn), high)

    def _warn_of_width(self, bounds: Bounds) -> None:
        """Warn if the bounds are wider than the tolerance."""
        assert self.bins is not None
        widths = (bounds.high - bounds.low).flatten().nan_to_num(0).tolist()
        if widths and max(widths) > self.bins.tolerance:
            warn_caller(
                f"The average precision from `bins` is uncertain by {max(widths):.2g}, more than `tolerance`, "
                f"{self.bins.tolerance:g}: `bounds()` returns its range. Use more or other bins to narrow it.",
                UserWarning,
            )

    def averaged(self, each: Tensor, curve: HitCurve, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """Replace undefined values of a measure, and average it like AP: 0-d, or (C,) without an average."""
        action, what = self.action_on_empty, "class" if self.inputs.classes else "label"
        each = averaging.fill_undefined(each, curve, action, warn=warn and self.empty_target_action is None, what=what)
        if self.single:
            return each[0].to(dtype)
        return averaging.average(each, curve, self.average, action).to(dtype)


def result_dtype(scores: torch.dtype) -> torch.dtype:
    """Return float64 for float64 scores, otherwise float32, the dtype that loggers use."""
    return torch.float64 if scores == torch.float64 else torch.float32


def _flatten(validated: Batch) -> Batch:
    """Return all columns as one ranking."""
    weights, scores = validated.weights, validated.scores
    if weights is not None:
        weights = bins.spread(weights, scores).flatten()
    groups = None if validated.groups is None else validated.groups.repeat_interleave(scores.shape[1])
    return Batch(scores.flatten(), validated.target.flatten(), weights, validated.broken, groups)


def validated_curve(
    preds: Tensor,
    target: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    keep_all_groups: bool = False,
) -> HitCurve:
    """Validate (N, ...) scores and return the hit curve of one ranking.

    Args:
        preds: as in :func:`torch_ap.functional.binary_average_precision`.
        target: as in :func:`torch_ap.functional.binary_average_precision`.
        weights: as in :func:`torch_ap.functional.binary_average_precision`.
        ignore_index: as in :func:`torch_ap.functional.binary_average_precision`.
        validate_args: as in :func:`torch_ap.functional.binary_average_precision`.
        keep_all_groups: whether tie groups without hits are entries too.
    """
    inputs = ClassificationInputs(ignore_index=ignore_index, check_values=validate_args)
    validated = inputs.validate_now(preds, target, weights)
    return classification.curve_of(validated, ignoring=inputs.ignoring, keep_all_groups=keep_all_groups)


_TASK_ARGUMENTS = allowed_values(Task)


def inputs_and_bins(
    thresholds: int | list[float] | Tensor | None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    normalization: str | None = None,
    nan_strategy: str = "error",
    name: str | None = None,
    width: int | None = None,
    bins_: BinsArgument = None,
    pilot: int = PILOT,
    tolerance: float = TOLERANCE,
) -> tuple[ClassificationInputs, Bins | None]:
    """Return the input settings and the bins.

    An int as ``thresholds`` or ``bins_`` divides [0, 1], and scores must then be in [0, 1]. ``name`` is the argument
    with the number of columns, ``width``; None for one ranking.
    """
    checks.thresholds(thresholds)
    if name is not None:
        width = checks.positive_int(name, width, least=2)
    if thresholds is not None and bins_ is not None:
        raise ValueError(
            "`bins` cannot be combined with `thresholds`: `thresholds` evaluate torchmetrics' curve at some scores, "
            "`bins` approximate the exact value with bounds; drop one"
        )
    score_bins = None if thresholds is None else bins.from_thresholds(thresholds)
    if bins_ is not None:
        score_bins = bins.from_argument(bins_, pilot, tolerance)
    kind = "" if score_bins is None else score_bins.kind
    scores_in = "half" if kind == "half" else "unit" if isinstance(thresholds, int) or kind == "equal" else ""
    classes = name == "num_classes"
    return _inputs(width, classes, ignore_index, normalization, scores_in, validate_args, nan_strategy), score_bins


def inputs_and_thresholds(
    thresholds: int | list[float] | Tensor | None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    normalization: str | None = None,
    name: str | None = None,
    width: int | None = None,
) -> tuple[ClassificationInputs, Tensor | None]:
    """Return the input settings and the (T,) thresholds: see :func:`inputs_and_bins`."""
    inputs, score_bins = inputs_and_bins(thresholds, ignore_index, validate_args, normalization, name=name, width=width)
    return inputs, None if score_bins is None else score_bins.edges


def task_columns(task: str, num_classes: int | None, num_labels: int | None) -> tuple[str | None, int | None]:
    """Return the arguments ``name`` and ``width`` of :func:`inputs_and_bins` for a task."""
    checks.one_of("task", task, _TASK_ARGUMENTS)
    columns = {"multiclass": ("num_classes", num_classes), "multilabel": ("num_labels", num_labels)}
    return columns.get(task, (None, None))


_inputs = cached.settings_cache(ClassificationInputs)


class APOptions(TypedDict, total=False):
    """Keywords of the functions and metrics of classification; see :func:`average_precision_settings`."""

    top_k: TopK
    denominator: Denominator
    interpolation: Interpolation
    ties: Ties
    convention: Convention | None
    empty_target_action: Action | None
    prevalence: float | None
    num_relevant: CountPerRanking
    nan_strategy: NanStrategy
    bins: BinsArgument
    pilot: int
    tolerance: float


class FunctionOptions(APOptions, total=False):
    """Keywords of the functions of classification."""

    weights: Tensor | None
    dtype: torch.dtype | None


def average_precision_settings(
    columns: tuple[str | None, int | None],
    average: str | None,
    thresholds: Thresholds,
    ignore_index: IgnoreIndex,
    validate_args: bool,
    normalization: str | None,
    *,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
    prevalence: float | None = None,
    num_relevant: CountPerRanking = None,
    nan_strategy: NanStrategy = "error",
    bins: BinsArgument = None,
    pilot: int = PILOT,
    tolerance: float = TOLERANCE,
) -> APSettings:
    """Return the settings of an AP from the arguments of :func:`torch_ap.functional.binary_average_precision`.

    ``columns`` is the name and the value of the argument with the number of columns; (None, None) for one ranking.
    """
    inputs, score_bins = inputs_and_bins(
        thresholds, ignore_index, validate_args, normalization, nan_strategy, *columns, bins, pilot, tolerance
    )
    convention = resolve_convention(convention, top_k, denominator, interpolation, ties)
    return APSettings(inputs, convention, score_bins, average, empty_target_action, prevalence, num_relevant)


_cached_settings = cached.settings_cache(average_precision_settings)


def validate_call(settings: APSettings, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> Batch:
    """Validate the items of one call of a function, and warn of logits and of two distinct scores."""
    validated = settings.validate(preds, target, weights)
    warn_of_logits(settings.inputs, validated)
    if validated.broken is not None:
        settings.inputs.raise_broken(settings.inputs.without_nan(validated.broken))
    warn_of_two_scores(settings.inputs, [validated.scores], [validated.target])
    return validated


@with_keywords_of(average_precision_settings)
def evaluate(
    preds: Tensor,
    target: Tensor,
    columns: tuple[str | None, int | None],
    average: str | None,
    thresholds: Thresholds,
    ignore_index: IgnoreIndex,
    validate_args: bool,
    *,
    weights: Tensor | None = None,
    normalization: str | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Tensor:
    """Return the AP of a single batch from the arguments of :func:`torch_ap.functional.binary_average_precision`."""
    has_bins = thresholds is not None or options.get("bins") is not None  # bins contain tensors, not to be cached
    make = average_precision_settings if has_bins else _cached_settings
    settings = make(columns, average, thresholds, ignore_index, validate_args, normalization, **options)
    checks.floating_dtype("dtype", dtype)
    validated = validate_call(settings, preds, target, weights)
    settings = settings.to(validated.scores.device)
    if settings.bins is not None and settings.thresholds is None:
        dtype = dtype or torch.float32
        if settings.adaptive and len(validated.scores) <= settings.bins.pilot:
            settings = replace(settings, bins=None)
    return settings.value(settings.curve(validated), dtype or result_dtype(preds.dtype))
