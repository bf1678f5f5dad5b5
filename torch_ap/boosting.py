"""Evaluation functions for XGBoost and LightGBM, by the names of measures in ``torch-ap score``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torch_ap.classification import BinaryAveragePrecision, MulticlassAveragePrecision
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.tensors import Rule
from torch_ap.core.columns.table_names import measures_of, parse_known
from torch_ap.core.measures.ties import TIES, check_ties
from torch_ap.retrieval.metrics.measures import metric_of_measure
from torch_ap.retrieval.rankings import indexes_from_sizes

__all__ = ["lightgbm_metric", "xgboost_metric"]


@dataclass(frozen=True)
class _Evaluation:
    """A measure of scores and a data set.

    Attributes:
        measure: name of the measure.
        ties: tie rule, or None for the default.
    """

    measure: str
    ties: str | None

    def value(self, scores: Any, target: Any, weights: Any, sizes: Any) -> tuple[str, float]:
        """Return the name and the value.

        Args:
            scores: (N,), or (N, C) for C classes.
            target: (N,) labels.
            weights: (N,) weights; None or empty without weights.
            sizes: numbers of consecutive rows per group; None or empty for one ranking of all rows.
        """
        preds, labels = (torch.from_numpy(np.array(x)) for x in (scores, target))
        has_weights, grouped = weights is not None and len(weights) > 0, sizes is not None and len(sizes) > 0
        settings = {"grouped": grouped, "classes": preds.ndim == 2}
        (measure,) = measures_of([self.measure], ties=self.ties, denominator=None, **settings)
        if has_weights and (grouped or not measure.formula.takes_weights):
            raise ValueError(f"{measure.name} counts ranks, so the data must have no weights")
        metric: Any
        if grouped:
            metric = metric_of_measure(measure.formula)
            metric.update(preds, labels, indexes=indexes_from_sizes(sizes))
        elif preds.ndim == 1 and not measure.formula.is_average_precision:
            metric = metric_of_measure(measure.formula, empty_target_action="nan")
            metric.update(preds[None], labels[None])
        else:
            more: tuple[int, ...] = () if preds.ndim == 1 else (preds.shape[1],)
            kind: Any = MulticlassAveragePrecision if more else BinaryAveragePrecision
            metric = kind(*more, convention=measure.formula, empty_target_action="skip" if more else "nan")
            top = preds.shape[1] - 1 if more else 1
            Rule("label", f"must contain integers from 0 to {top}", low=0, high=top, whole=True).check(labels)
            metric.update(preds, labels.long(), torch.from_numpy(np.array(weights)) if has_weights else None)
        metric.set_dtype(torch.float64)
        return measure.name, float(metric.compute())


def _evaluation(measure: str, ties: str | None) -> _Evaluation:
    if not isinstance(measure, str):
        raise_invalid("measure", "must be the name of a measure", measure, TypeError)
    if ties is not None:
        check_ties(ties, TIES)
    parse_known(measure)  # raises for an unknown name
    return _Evaluation(measure, ties)


def lightgbm_metric(measure: str = "ap", *, ties: str | None = None) -> Callable[[Any, Any], tuple[str, float, bool]]:
    """Return an evaluation function for ``lightgbm.train(..., feval=...)``.

    Args:
        measure: name of a measure of ``torch-ap score``, such as "ap", "ap@10", "P@10", without groups also "auprg" and
            "normalized_ap", over groups also "map@10", "ndcg@5", "recip_rank".
        ties: rule for equal scores; None for "grouped", or "expected" over groups.

    Returns:
        A function of scores and a ``lightgbm.Dataset``. It returns the name, the value, and True, because higher values
        are better. Data with ``group`` give the mean over the groups; scores of several classes the mean over classes.

    Raises:
        TypeError, ValueError: for an unknown measure or rule; when called, for a measure that requires groups or does
            not allow groups, for weights of a measure that counts ranks, for scores that are NaN, and for labels that
            are not classes or grades.

    Equals ``average_precision`` of LightGBM, without ties.

    Example:
        >>> from torch_ap.boosting import lightgbm_metric
        >>> feval = lightgbm_metric("map@10")  # lightgbm.train(params, data, valid_sets=[valid], feval=feval)
    """
    evaluation = _evaluation(measure, ties)

    def evaluate(scores: Any, data: Any) -> tuple[str, float, bool]:
        return *evaluation.value(scores, data.get_label(), data.get_weight(), data.get_group()), True

    return evaluate


def xgboost_metric(measure: str = "ap", *, ties: str | None = None) -> Callable[[Any, Any], tuple[str, float]]:
    """Return an evaluation function for ``xgboost.train(..., custom_metric=...)``.

    For early stopping pass ``maximize=True``, because higher values are better.

    Args:
        measure: as for :func:`lightgbm_metric`.
        ties: as there.

    Returns:
        A function of scores and a ``xgboost.DMatrix``, which returns the name and the value, as there.

    Raises:
        TypeError, ValueError: as there.

    XGBoost's own ``aucpr`` interpolates (Davis & Goadrich 2006) and has other values.

    Example:
        >>> from torch_ap.boosting import xgboost_metric
        >>> metric = xgboost_metric("ap")  # xgboost.train(params, data, evals=[(valid, "valid")], custom_metric=metric)
    """
    evaluation = _evaluation(measure, ties)

    def evaluate(scores: Any, data: Any) -> tuple[str, float]:
        sizes = np.diff(data.get_uint_info("group_ptr").astype(np.int64))
        return evaluation.value(scores, data.get_label(), data.get_weight(), sizes)

    return evaluate
