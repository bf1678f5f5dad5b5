"""The curves that average precision summarises, at every threshold or at chosen ranks."""

import itertools
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from torch_ap.core import checks, counts, segments
from torch_ap.core.batch import Batch, bins_of, curve_of
from torch_ap.core.convention import TIES
from torch_ap.core.hit_curve import HitCurve
from torch_ap.functional.classification import Normalization, Thresholds, Ties
from torch_ap.functional.evaluation import door_and_thresholds, raise_broken, result_dtype


class PrecisionRecallCurve(NamedTuple):
    """Precision and recall at each threshold, thresholds ascending; a last point (1, 0) has no threshold.

    Attributes:
        precision: (T + 1,), a list of such for several rankings, or (C, T + 1) at given thresholds.
        recall: likewise.
        thresholds: (T,), a list of such, or the (T,) given.
    """

    precision: Tensor | list[Tensor]
    recall: Tensor | list[Tensor]
    thresholds: Tensor | list[Tensor]


class HitCurvePoints(NamedTuple):
    """The hit curve and what follows from it, at chosen depths; p(t) = pi r(t) / t throughout (Zhu 2004, lemma 1).

    Attributes:
        t: (T,) depths: ranks, or fractions of n.
        hits: (T,) h(t): number of positives among the top t, or their fraction of n.
        recall: (T,) r(t), the fraction of all positives; NaN without positives.
        precision: (T,) p(t), h(t) / t; NaN at t = 0.
    """

    t: Tensor
    hits: Tensor
    recall: Tensor
    precision: Tensor


def precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    task: Literal["binary", "multiclass", "multilabel"] = "binary",
    thresholds: Thresholds = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    *,
    ignore_index: int | None = None,
    validate_args: bool = True,
    weights: Tensor | None = None,
    normalization: Normalization = None,
) -> PrecisionRecallCurve:
    """Precision and recall at every distinct score, or at given thresholds: a score at or above it is a positive.

    Args:
        preds: as :func:`binary_average_precision` and its siblings take them: (N, ...) or (N, C, ...).
        target: likewise.
        task: "binary", "multiclass" or "multilabel".
        thresholds: None for every distinct score; an int, list or 1-D tensor for those thresholds.
        num_classes: of multiclass, needed there.
        num_labels: of multilabel, needed there.
        ignore_index: target value of items that do not count.
        validate_args: whether values are checked.
        weights: non-negative weight of each item.
        normalization: None, "sigmoid", or "softmax" for multiclass.

    Returns:
        precision, recall, thresholds, in ascending order of the thresholds. Binary: three tensors. Otherwise lists of
        one tensor a class or label; at given thresholds (C, T + 1), (C, T + 1) and (T,). float64 for float64 scores,
        else float32. Recall is NaN without positives (scikit-learn and torchmetrics then set it to 1), precision NaN
        where nothing is retrieved.

    Raises:
        TypeError, ValueError: as the functions named above.

    Equals ``sklearn.metrics.precision_recall_curve``, and ``torchmetrics.functional.precision_recall_curve`` where that
    does not apply a sigmoid or softmax.

    Source: Zhu (2004), eq. 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import precision_recall_curve
        >>> curve = precision_recall_curve(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> curve.precision
        tensor([0.5000, 0.6667, 0.5000, 1.0000, 1.0000])
        >>> curve.recall
        tensor([1.0000, 1.0000, 0.5000, 0.5000, 0.0000])
    """
    checks.one_of("task", task, ("binary", "multiclass", "multilabel"))
    widths = {"multiclass": ("num_classes", num_classes), "multilabel": ("num_labels", num_labels)}
    name, width = widths.get(task, (None, None))
    door, levels = door_and_thresholds(
        thresholds,
        name=name,
        width=width,
        ignore_index=ignore_index,
        normalization=normalization,
        validate_args=validate_args,
    )
    batch = door(preds, target, weights)
    raise_broken(batch.broken, door.top)
    dtype = result_dtype(preds.dtype)
    if levels is not None:
        levels = levels.to(preds.device)
        binned = bins_of(batch, levels, ignoring=ignore_index is not None)
        return _at_thresholds(binned, levels, dtype, wide=door.width is not None)
    each = _at_scores(batch, dtype, ignoring=ignore_index is not None)
    return PrecisionRecallCurve(*(each[0] if door.width is None else map(list, zip(*each, strict=True))))


def hit_curve(
    preds: Tensor,
    target: Tensor,
    t: Tensor | None = None,
    *,
    fraction: bool = False,
    ties: Ties = "grouped",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> HitCurvePoints:
    r"""The hit curve h(t), recall r(t) and precision p(t) of one ranking at any depth t.

    .. math::
        r(t) = \frac{h(t)}{\pi}, \qquad p(t) = \frac{h(t)}{t}, \qquad \pi = \frac{m}{n}

    in fractions of n; in ranks r(t) = h(t) / m.

    Args:
        preds: (N, ...) floating or integer scores.
        target: (N, ...) integers or bool, 0 or 1.
        t: (T,) depths: ranks in [0, n], or fractions of n in [0, 1]. Between whole ranks h is a straight line. Default:
            every rank, 1 to n, or its fraction.
        fraction: whether t and h are fractions of n, as in Zhu's paper, instead of numbers of items.
        ties: where a tie group's hits lie inside it: "grouped" and "expected" evenly, "optimistic" first, "pessimistic"
            last.
        ignore_index: target value of items that do not count.
        validate_args: whether values are checked.

    Returns:
        t, hits, recall, precision, each (T,) float64.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Source: Zhu (2004), section 1 and eq. 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import hit_curve
        >>> points = hit_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> points.hits
        tensor([1., 1., 2., 2.], dtype=torch.float64)
        >>> points.precision
        tensor([1.0000, 0.5000, 0.6667, 0.5000], dtype=torch.float64)
    """
    checks.one_of("ties", ties, TIES)
    curve = _one_curve(preds, target, ignore_index, validate_args)
    n, m = segments.real(curve.n), segments.real(curve.m)
    depth = torch.arange(1, int(n) + 1, device=n.device, dtype=n.dtype)
    if t is not None:
        checks.depths("t", t, 1.0 if fraction else float(n))
        depth = t.detach().to(n.device, n.dtype) * (n if fraction else 1)
    hits = counts.hits_at(curve, depth, ties=ties)
    unit = n if fraction else torch.ones_like(n)
    return HitCurvePoints(depth / unit, hits / unit, hits / m, hits / depth)


def _at_scores(batch: Batch, dtype: torch.dtype, *, ignoring: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Precision, recall and thresholds of each ranking, at every distinct score."""
    curve = curve_of(batch, ignoring=ignoring, every_group=True)
    assert curve.score is not None
    recall = curve.hits_through / segments.real(curve.m)[curve.segment]
    bounds = curve.offsets.tolist()
    ends = torch.tensor([1.0, 0.0], dtype=dtype, device=recall.device)
    each = []
    for first, last in itertools.pairwise(bounds):
        p, r, score = (x[first:last].flip(0) for x in (curve.precision, recall, curve.score))
        each.append((torch.cat([p.to(dtype), ends[:1]]), torch.cat([r.to(dtype), ends[1:]]), score))
    return each


def _at_thresholds(binned: Tensor, levels: Tensor, dtype: torch.dtype, *, wide: bool) -> PrecisionRecallCurve:
    """Precision and recall from (C, T + 1, 2) misses and hits per bin."""
    at = counts.counts_from_bins(binned[:, :, 1], binned.sum(2))
    ends = [x.new_full((len(x), 1), last) for x, last in ((at.tp, 1.0), (at.tp, 0.0))]
    precision, recall = (
        torch.cat([x.flip(1), end], 1).to(dtype) for x, end in zip((at.precision, at.recall), ends, strict=True)
    )
    return PrecisionRecallCurve(precision if wide else precision[0], recall if wide else recall[0], levels)


def _one_curve(preds: Tensor, target: Tensor, ignore_index: int | None, validate_args: bool) -> HitCurve:
    door, _ = door_and_thresholds(None, ignore_index=ignore_index, validate_args=validate_args)
    batch = door(preds, target)
    raise_broken(batch.broken, door.top)
    return curve_of(batch, ignoring=ignore_index is not None)
