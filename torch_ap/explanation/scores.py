"""Average precision of scores and binary targets under the conventions of classifiers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import builders, segments
from torch_ap.explanation.record import Named, Settings


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """Settings of an average precision of scores, in the order of the steps.

    Attributes:
        scores: "unchanged"; "thresholded" for 1 at scores of at least 0.5 (0 for logits) and 0 below; "sigmoid of
            logits" in the dtype of the scores, where large logits become equal; "softmax of logits" over the classes.
            Scores are logits if any is outside [0, 1].
        ties: "grouped", "input order" (programs that sort), "expected", "optimistic" or "pessimistic".
        interpolation: interpolation of :class:`torch_ap.Convention`, "None" for the sum.
        absent_classes: "left out" or "0": classes without positives in the mean over classes.
    """

    scores: str = "unchanged"
    ties: str = "grouped"
    interpolation: str = "None"
    absent_classes: str = "0"

    @property
    def is_defined(self) -> bool:
        """Whether the settings can be combined; interpolated AP has no mean over the orders of equal scores."""
        return self.ties != "expected" or self.interpolation == "None"


_SORTED = {"ties": "input order"}
_CONVENTIONS = {
    "scikit-learn": Named(ScoreSettings(), "average_precision_score"),
    "torchmetrics": Named(ScoreSettings(scores="sigmoid of logits"), "AveragePrecision, without thresholds"),
    "torcheval": Named(ScoreSettings(), "binary_auprc, multiclass_auprc, multilabel_auprc"),
    "sort": Named(ScoreSettings(**_SORTED), "programs that sort and add precisions, equal scores as they come"),
    "expected": Named(ScoreSettings(ties="expected"), "mean over the orders of equal scores (McSherry & Najork 2008)"),
    "XGBoost": Named(ScoreSettings(interpolation="davis-goadrich"), "aucpr"),
    "PRROC": Named(ScoreSettings(interpolation="davis-goadrich"), "auc.integral of pr.curve"),
    "trapezoid": Named(
        ScoreSettings(interpolation="trapezoid-anchored"), "sklearn.metrics.auc of precision_recall_curve"
    ),
    "VOC 2007": Named(ScoreSettings(**_SORTED, interpolation="11-point"), "classification task of VOC 2007"),
    "VOC 2010": Named(ScoreSettings(**_SORTED, interpolation="all-points"), "classification task from 2010 on"),
    "COCO": Named(ScoreSettings(**_SORTED, interpolation="101-point"), "101 recall levels"),
    "ultralytics": Named(ScoreSettings(**_SORTED, interpolation="ultralytics"), "compute_ap of 8.4.190"),
    "thresholded": Named(ScoreSettings(scores="thresholded"), "average_precision_score of predicted labels"),
}
_MULTICLASS = ScoreSettings(scores="softmax of logits", absent_classes="left out")


def conventions(*, multiclass: bool) -> dict[str, Named]:
    """Return the named conventions; torchmetrics has another one for multiclass targets."""
    if not multiclass:
        return _CONVENTIONS
    return {**_CONVENTIONS, "torchmetrics": Named(_MULTICLASS, "MulticlassAveragePrecision, without thresholds")}


class Scores:
    """Scores and targets of one ranking, or of several classes.

    Args:
        preds: (N,) or (N, C) scores.
        target: 0 and 1, of the same shape.
    """

    def __init__(self, preds: Tensor, target: Tensor) -> None:
        self._preds, self._target = (x[:, None] if x.ndim == 1 else x for x in (preds, target))

    def evaluate(self, settings: ScoreSettings) -> float:
        """Return the average precision, the mean over classes; NaN without positives."""
        scores, ties = _transformed(self._preds, settings.scores), settings.ties
        if ties == "input order":
            places = (-segments.as_float64(scores)).argsort(dim=0, stable=True)
            scores, ties = -places.argsort(dim=0), "grouped"
        interpolation = None if settings.interpolation == "None" else settings.interpolation
        convention = Convention(interpolation=interpolation, ties=ties)
        each = convention(builders.from_columns(scores.contiguous(), self._target.bool()))
        if settings.absent_classes == "0" and len(each) > 1:
            each = each.nan_to_num(0.0)
        return each.nanmean().item()


def _transformed(scores: Tensor, how: str) -> Tensor:
    """Return the scores as a program ranks them."""
    is_logit = bool(((scores < 0) | (scores > 1)).any())
    if how == "thresholded":
        return (scores >= (0.0 if is_logit else 0.5)).to(torch.int64)
    if not is_logit or how == "unchanged":
        return scores
    scores = scores if scores.is_floating_point() else scores.to(torch.get_default_dtype())
    return scores.softmax(1) if how == "softmax of logits" else scores.sigmoid()
