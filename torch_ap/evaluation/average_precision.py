"""From checked batches to a number: the steps that a function and the class of the same name share."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from torch_ap.curve import averaging
from torch_ap.curve.convention import Convention
from torch_ap.inputs import classification
from torch_ap.inputs.classification import Batch, Door
from torch_ap.ranking import bins, few_items, hit_curve
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.messages import warn_caller
from torch_ap.runtime import arrays, cached

_ROWS_LOOKED_AT = 64
_FAR_FROM_ONE = 0.02  # what 1,000 rounded bfloat16 numbers can be off


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All settings of one average precision, and the steps from a batch to its value.

    Attributes:
        door: how batches come in.
        convention: which AP is meant.
        thresholds: (T,) ascending, for counts per bin; None for every score.
        average: over the rankings: "macro", "weighted", "micro", "none" or None. One ranking needs none.
        action: what a ranking without relevant items counts as; None for the task's default, with a warning.
    """

    door: Door
    convention: Convention = field(default_factory=Convention)
    thresholds: Tensor | None = None
    average: str | None = "none"
    action: str | None = None

    def __post_init__(self) -> None:
        wide = self.door.width is not None
        allowed = (
            ("macro", "weighted", "none", None) if self.door.classes else ("micro", "macro", "weighted", "none", None)
        )
        checks.one_of("average", self.average, allowed if wide else ("none",))
        checks.one_of("empty_target_action", self.action, (*averaging.ACTIONS, None))

    def to(self, device: torch.device) -> "Evaluation":
        """The same evaluation with its thresholds on ``device``."""
        if self.thresholds is None or self.thresholds.device == device:
            return self
        return replace(self, thresholds=self.thresholds.to(device))

    def admit(self, preds: Tensor, target: Tensor, weights: Tensor | None = None) -> Batch:
        """Check a batch and lay it out; whatever is wrong with it is raised before anything has changed."""
        if weights is not None:
            self.admit_weights()
        return self.door(preds, target, weights)

    def admit_weights(self) -> None:
        """Refuse weights where they have no meaning."""
        if not self.convention.takes_weights:
            raise ValueError(
                "`weights` have a meaning only without `top_k` and with `ties='grouped'`: a rank, or a place among "
                f"tied items, has no weight; got top_k={self.convention.top_k}, ties={self.convention.ties!r}"
            )

    def curve(self, admitted: Batch) -> HitCurve:
        """The hit curves of admitted items, one a column, or one of all of them for the micro average."""
        if self.average == "micro":
            admitted = _flat(admitted)
        if self.thresholds is not None:
            return self.curve_of_bins(self.bins(admitted))
        return classification.curve_of(admitted, ignoring=self.door.ignoring)

    def bins(self, admitted: Batch) -> Tensor:
        """(C, T + 1, 2) misses and hits per bin."""
        assert self.thresholds is not None
        return classification.bins_of(admitted, self.thresholds, ignoring=self.door.ignoring)

    def curve_of_bins(self, counts: Tensor) -> HitCurve:
        """The hit curves of counts per bin. What lies below every threshold is never retrieved."""
        if self.average == "micro":
            counts = counts.sum(0, keepdim=True)
        items, hits = counts.sum(2), counts[:, :, 1]
        return hit_curve.from_bins(hits[:, :-1], items[:, :-1], n=items.sum(1), m=hits.sum(1))

    def value(self, curve: HitCurve, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """The AP under the convention, settled and averaged: 0-d, or (C,) for no average."""
        if curve.weighted:  # in a compute group, or merged, they may have come in by another metric's door
            self.admit_weights()
        return self.averaged(self.convention(curve), curve, dtype, warn=warn)

    def averaged(self, each: Tensor, curve: HitCurve, dtype: torch.dtype, *, warn: bool = True) -> Tensor:
        """A measure of each ranking, settled and averaged as AP is: 0-d, or (C,) for no average."""
        action = self.action or ("skip" if self.door.classes else "neg")
        what = "class" if self.door.classes else "label"
        each = averaging.settle(each, curve, action, warn=warn and self.action is None, what=what)
        if self.door.width is None or self.average == "micro":
            return each[0].to(dtype)
        return averaging.average(each, curve, self.average, action).to(dtype)


def evaluate(
    evaluation: Evaluation, preds: Tensor, target: Tensor, weights: Tensor | None, dtype: torch.dtype | None
) -> Tensor:
    """All steps, for one batch that is all there is."""
    checks.floating_dtype("dtype", dtype)
    if weights is None and (value := _of_plain_ranking(evaluation, preds, target)) is not None:
        return value.to(dtype or result_dtype(preds.dtype))
    admitted = evaluation.admit(preds, target, weights)
    evaluation = evaluation.to(admitted.scores.device)
    warn_of_logits(evaluation.door, admitted)
    raise_broken(evaluation.door.without_nan(admitted.broken), evaluation.door.top)
    return evaluation.value(evaluation.curve(admitted), dtype or result_dtype(preds.dtype))


def _of_plain_ranking(evaluation: Evaluation, preds: Tensor, target: Tensor) -> Tensor | None:
    """The value of one short ranking, without a look at anything twice.

    None where anything is out of the ordinary, to be told or reckoned with on the usual way.
    """
    if evaluation.thresholds is not None or not evaluation.door.plain:
        return None
    given = few_items.arrays_of(preds, target, graded=False)
    if given is None:
        return None
    curve = few_items.ranking(*given, evaluation.convention.top_k)
    return None if curve is None or not curve.m else evaluation.convention(curve).reshape(())


def raise_broken(broken: Tensor | None, top: int) -> None:
    """Raise for the first rule that a batch on an accelerator breaks; on CPU the door has raised already."""
    if broken is not None and bool(broken.any()):
        raise ValueError(checks.VALUE_RULES[broken.tolist().index(True)].format(top=top))


@arrays.quiet
def warn_of_logits(door: Door, admitted: Batch) -> None:
    """Warn where the first scores of multiclass items are no distributions over the classes, and nobody said so."""
    if not door.classes or door.normalization is not None:
        return
    rows = arrays.native(admitted.scores[:_ROWS_LOOKED_AT].double())
    rows = rows[arrays.native(classification.counted(admitted.target[:_ROWS_LOOKED_AT]))]
    if bool(((rows < 0).any(1) | (abs(rows.sum(1) - 1) > _FAR_FROM_ONE)).any()):
        warn_caller(
            "The rows of `preds` are no distributions over the classes. If they are logits, give "
            "`normalization='softmax'`: the ranking of a class compares items with one another, and the logits of two "
            "items have no common zero. If they can be compared as they are, say so by `normalization='none'`.",
            UserWarning,
        )


def result_dtype(scores: torch.dtype) -> torch.dtype:
    """float64 for float64 scores, else float32, which loggers want."""
    return torch.float64 if scores == torch.float64 else torch.float32


def door_and_thresholds(
    thresholds: int | list[float] | Tensor | None,
    *,
    name: str | None = None,
    width: int | None = None,
    ignore_index: int | None = None,
    normalization: str | None = None,
    validate_args: bool = True,
    nan_strategy: str = "error",
) -> tuple[Door, Tensor | None]:
    """The door, and the thresholds as a tensor; an int of them lays them over [0, 1], where scores must then lie.

    ``name`` is the argument that gives the number of columns, ``width``; None for one ranking.
    """
    checks.thresholds(thresholds)
    if name is not None:
        checks.positive_int(name, width, least=2)
    door = _door(
        *(width, name == "num_classes", ignore_index, normalization),
        *(isinstance(thresholds, int), validate_args, nan_strategy),
    )
    return door, None if thresholds is None else bins.thresholds_from(thresholds)


_door, _evaluation = cached.kept(Door), cached.kept(Evaluation)


def evaluation_of(
    door: Door, convention: Convention, thresholds: Tensor | None, average: str | None, action: str | None
) -> Evaluation:
    """The evaluation of these settings, checked once."""
    return (_evaluation if thresholds is None else Evaluation)(door, convention, thresholds, average, action)


def _flat(admitted: Batch) -> Batch:
    """All columns as one ranking."""
    weights, scores = admitted.weights, admitted.scores
    if weights is not None:
        weights = bins.spread(weights, scores).flatten()
    return Batch(scores.flatten(), admitted.target.flatten(), weights, admitted.broken)


def curve_of_one(preds: Tensor, target: Tensor, weights: Tensor | None = None) -> HitCurve:
    """The hit curve of one ranking, checked: (N, ...) scores, with one entry a tie group that holds a hit."""
    admitted = Door()(preds, target, weights)
    raise_broken(admitted.broken, 1)
    return classification.curve_of(admitted, ignoring=False)
