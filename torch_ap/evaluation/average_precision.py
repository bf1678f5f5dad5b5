"""From checked batches to a number: the steps that a function and the class of the same name share."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from torch_ap.curve import averaging
from torch_ap.curve.convention import PLAIN, Convention
from torch_ap.inputs import classification
from torch_ap.inputs.classification import Batch, ClassificationInputs
from torch_ap.ranking import bins, few_items, hit_curve
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import Average, Task, allowed
from torch_ap.runtime import arrays, cached

_TASKS = allowed(Task)
_ROWS_LOOKED_AT = 64
_FAR_FROM_ONE = 0.02  # what 1,000 rounded bfloat16 numbers can be off


@dataclass(frozen=True, eq=False)
class APSettings:
    """All settings of one average precision, and the steps from a batch to its value.

    Attributes:
        inputs: how batches come in.
        convention: which AP is meant.
        thresholds: (T,) ascending, for counts per bin; None for every score.
        average: over the rankings: "macro", "weighted", "micro", "none" or None. One ranking needs none.
        empty_target_action: what a ranking without relevant items counts as; None for the task's default, with a
            warning.
    """

    inputs: ClassificationInputs
    convention: Convention = PLAIN
    thresholds: Tensor | None = None
    average: str | None = "none"
    empty_target_action: str | None = None

    def __post_init__(self) -> None:
        wide = self.inputs.width is not None
        averages = [x for x in allowed(Average) if x != "micro" or not self.inputs.classes]
        checks.one_of("average", self.average, averages if wide else ("none",))
        checks.one_of("empty_target_action", self.empty_target_action, (*averaging.ACTIONS, None))

    @property
    def action_on_empty(self) -> str:
        """``empty_target_action``, or the default of the task."""
        return self.empty_target_action or ("skip" if self.inputs.classes else "neg")

    @property
    def averages(self) -> bool:
        """Whether the value is an average over rankings, rather than one or each of them."""
        return self.inputs.width is not None and self.average not in ("none", None)

    def to(self, device: torch.device) -> "APSettings":
        """The same settings with its thresholds on ``device``."""
        if self.thresholds is None or self.thresholds.device == device:
            return self
        return replace(self, thresholds=self.thresholds.to(device))

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

    def curve(self, validated: Batch, *, keep_all_groups: bool = False) -> HitCurve:
        """The hit curves of validated items, one per column, or one of all of them for the micro average."""
        if self.average == "micro":
            validated = _flat(validated)
        if self.thresholds is not None:
            return self.curve_of_bins(self.bins(validated))
        return classification.curve_of(validated, ignoring=self.inputs.ignoring, keep_all_groups=keep_all_groups)

    def bins(self, validated: Batch) -> Tensor:
        """(C, T + 1, 2) misses and hits per bin."""
        assert self.thresholds is not None
        return classification.bins_of(validated, self.thresholds, ignoring=self.inputs.ignoring)

    def curve_of_bins(self, counts: Tensor, *, keep_all_groups: bool = False) -> HitCurve:
        """The hit curves of counts per bin. What lies below every threshold is never retrieved.

        ``keep_all_groups`` keeps the bins without a hit as entries too, with their thresholds as scores.
        """
        if self.average == "micro":
            counts = counts.sum(0, keepdim=True)
        items, hits = counts.sum(2), counts[:, :, 1]
        score = self.thresholds.flip(0) if keep_all_groups and self.thresholds is not None else None
        return hit_curve.from_bins(hits[:, :-1], items[:, :-1], n=items.sum(1), m=hits.sum(1), score=score)

    def value(self, curve: HitCurve, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """The AP under the convention, filled in and averaged: 0-d, or (C,) for no average."""
        if curve.weighted:  # in a compute group, or merged, they may have come in by another metric's validation
            self.validate_weights()
        return self.averaged(self.convention(curve), curve, dtype, warn=warn)

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
    return settings.value(settings.curve(validated), dtype or result_dtype(preds.dtype))


def _of_plain_ranking(settings: APSettings, preds: Tensor, target: Tensor) -> Tensor | None:
    """The value of one short ranking, without a look at anything twice.

    None where anything is out of the ordinary, which the usual code then handles or reports.
    """
    if settings.thresholds is not None or not settings.inputs.plain:
        return None
    given = few_items.arrays_of(preds, target, graded=False)
    if given is None:
        return None
    curve = few_items.ranking(*given, settings.convention.top_k)
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


def inputs_and_thresholds(
    thresholds: int | list[float] | Tensor | None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    normalization: str | None = None,
    nan_strategy: str = "error",
    name: str | None = None,
    width: int | None = None,
) -> tuple[ClassificationInputs, Tensor | None]:
    """How batches come in, and the thresholds as a tensor; an int of them lays them over [0, 1], where scores must lie.

    ``name`` is the argument that gives the number of columns, ``width``; None for one ranking.
    """
    checks.thresholds(thresholds)
    if name is not None:
        width = checks.positive_int(name, width, least=2)
    classes, unit_range = name == "num_classes", isinstance(thresholds, int)
    inputs = _inputs(width, classes, ignore_index, normalization, unit_range, validate_args, nan_strategy)
    return inputs, None if thresholds is None else bins.thresholds_from(thresholds)


def columns_of(task: str, num_classes: int | None, num_labels: int | None) -> tuple[str | None, int | None]:
    """The argument that gives the columns of a task, and how many: ``name`` and ``width`` of the function above."""
    checks.one_of("task", task, _TASKS)
    columns = {"multiclass": ("num_classes", num_classes), "multilabel": ("num_labels", num_labels)}
    return columns.get(task, (None, None))


_inputs, _settings = cached.settings_cache(ClassificationInputs), cached.settings_cache(APSettings)


def settings_of(
    inputs: ClassificationInputs,
    convention: Convention,
    thresholds: Tensor | None,
    average: str | None,
    empty_target_action: str | None,
) -> APSettings:
    """:class:`APSettings` of these arguments, cached where there are no thresholds, which are a tensor."""
    return (_settings if thresholds is None else APSettings)(
        inputs, convention, thresholds, average, empty_target_action
    )


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
