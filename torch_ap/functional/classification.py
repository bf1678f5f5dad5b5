"""Average precision of classifiers: tensors in, tensors out, no state."""

from typing import Literal

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention, convention_of
from torch_ap.evaluation.arguments import inputs_and_bins, settings_of
from torch_ap.evaluation.average_precision import evaluate
from torch_ap.rules.options import (
    PILOT,
    TOLERANCE,
    Action,
    Average,
    BinsArgument,
    Denominator,
    Interpolation,
    NanStrategy,
    Normalization,
    Thresholds,
    Ties,
    TopK,
)


def binary_average_precision(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
    nan_strategy: NanStrategy = "error",
    bins: BinsArgument = None,
    pilot: int = PILOT,
    tolerance: float = TOLERANCE,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Average precision of one ranking: the mean, over the positives, of the precision where each is found.

    .. math::
        AP = \frac{1}{m} \sum_{i : y_i = 1} p(t_i), \qquad p(t) = \frac{h(t)}{t}

    with m positives, h(t) of them among the top t, and t_i the rank of positive i. The ranking is by descending score.

    Args:
        preds: (N, ...) floating or integer scores; no NaN, higher for more likely positive. They are ranked
            as they are: logits and probabilities give the same AP. All items are one ranking, whatever the dimensions.
        target: (N, ...) integers or bool, 1 for positive, 0 for negative.
        thresholds: None for the exact value. An int (that many thresholds from 0 to 1; scores must lie there), list or
            1-D tensor (in any order): AP of the curve at those thresholds, as torchmetrics computes it. The scores
            between two thresholds are then tied, for ``ties`` and ``top_k`` too: optimistic and pessimistic bound the
            exact value of untied scores.
        ignore_index: target value of items that do not count.
        validate_args: whether values are checked (NaN, range of ``target``, ``weights``). Shapes and dtypes always are;
            unchecked bad values give a number without meaning. A NaN score of an ignored item is not an error.
        weights: (N, ...) weights from 0 to 1e288, one per item; counts become sums of weights. Only without ``top_k``
            and with ``ties="grouped"``. Where they sum to less than 1e-292, near the least number of float64, AP loses
            digits.
        normalization: "sigmoid" to apply one, None (default) to leave scores as they are.
        top_k: k of at least 1: AP@k, which sums over the positives in the top k. Of a tie group that straddles k,
            "grouped" counts the items that fit, with their expected number of positives.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the positives in the top k. Of no
            effect without ``top_k``: AP divides by m. Refused with ``interpolation``.
        interpolation: None for the sum above; "11-point" (VOC 2007, TREC), "40-point" (KITTI), "101-point" (COCO),
            "nuscenes", "all-points" (VOC 2010), "trapezoid", or a 1-D tensor of recall levels in [0, 1]. "11-point" has
            the levels 0, 0.1, ..., 1 of the definition, which a recall of 3/10 reaches; "11-point-arange" those of
            ``numpy.arange(0, 1.1, 0.1)``, of which 0.3, 0.6 and 0.7 are a bit larger, as in many programs;
            "11-point-trec9" and "11-point-trec10" cut at int(l m + 0.9) and round(l m) hits, as trec_eval 9 and 10.
        ties: how equal scores count: "grouped" (they enter together), "expected" (mean over all their orders),
            "optimistic", "pessimistic".
        convention: those four as one :class:`torch_ap.Convention`, instead of them.
        empty_target_action: what the value is without positives: "neg" 0, "pos" 1, "nan" and "skip" NaN, "error"
            raises. None, the default: 0 with a warning. Without any item it is NaN.
        nan_strategy: what NaN scores are: "error"; or their items are left out as ignored ones are, "ignore" silently,
            "warn" with a warning. (torchmetrics' aggregators have these names.)
        bins, pilot, tolerance: None for the exact value; else its mean over all orders inside the bins, from counts per
            bin, as :class:`torch_ap.BinaryAveragePrecision` has them, which see.
        dtype: floating dtype of the result. Default: float64 for float64 scores, else float32.

    Returns:
        0-d tensor in [0, 1].

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals ``sklearn.metrics.average_precision_score`` (``weights`` as ``sample_weight``), and
    ``torchmetrics.functional.classification.binary_average_precision`` where that does not apply a sigmoid.

    Source: Zhu (2004), Recall, Precision and Average Precision, eq. 2 and example 3. "expected": McSherry & Najork
    (2008), Computing Information Retrieval Performance Measures Efficiently in the Presence of Tied Scores, section 3.
    Of AP@k's denominators, "min" is also what sentence-transformers and PyG divide by, "relevant" trec_eval and ranx,
    "found" torchmetrics' retrieval.

    Example:
        >>> import torch
        >>> from torch_ap.functional import binary_average_precision
        >>> preds = torch.tensor([10.0, 9, 8, 7, 6, 5, 4, 3, 2, 1])
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 0, 0, 0, 0])
        >>> binary_average_precision(preds, target)
        tensor(0.9167)
        >>> binary_average_precision(preds, target, top_k=2)
        tensor(1.)
    """
    inputs, found = inputs_and_bins(
        thresholds,
        ignore_index,
        validate_args,
        normalization,
        nan_strategy,
        bins_=bins,
        pilot=pilot,
        tolerance=tolerance,
    )
    meant = convention_of(convention, top_k, denominator, interpolation, ties)
    settings = settings_of(inputs, meant, found, "none", empty_target_action)
    return evaluate(settings, preds, target, weights, dtype)


def multiclass_average_precision(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: Literal["macro", "weighted", "none"] | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Normalization = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
    nan_strategy: NanStrategy = "error",
    bins: BinsArgument = None,
    pilot: int = PILOT,
    tolerance: float = TOLERANCE,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Average precision of each class against the rest, and their average.

    Class c's ranking has all items, by descending ``preds[:, c]``; items of class c are its positives.

    Args:
        preds: (N, C, ...) floating or integer scores, ranked as they are in each column.
        target: (N, ...) class ids in [0, C).
        num_classes: C, at least 2.
        average: "macro" (mean over classes), "weighted" (by their number of items), "none" or None (one per class).
        thresholds, ignore_index, validate_args: as in :func:`binary_average_precision`.
        weights: (N, ...) weight of each item, as there.
        normalization: "softmax" over the classes or "sigmoid" to apply one; None leaves the scores as they are. The
            ranking of a class compares items with one another: a network's logits, which a softmax loss leaves free to
            drift from item to item, need "softmax"; probabilities need None. None warns where the first rows are not
            distributions over the classes; "none" says that they can be compared as they are.
        top_k, denominator, interpolation, ties, convention, dtype: as in :func:`binary_average_precision`, class
            by class.
        empty_target_action: what a class without items counts as: "skip" leaves it out of the average, "nan" makes the
            average NaN, "neg" 0, "pos" 1, "error" raises. None, the default: left out, with a warning.
        nan_strategy: as in :func:`binary_average_precision`; an item counts for no class if one of its scores is NaN.
        bins, pilot, tolerance: as in :func:`binary_average_precision`, for each column.

    Returns:
        0-d tensor in [0, 1]; (C,) for ``average="none"``, with NaN for skipped classes.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``torchmetrics.functional.classification.multiclass_average_precision`` on probabilities, and
    ``sklearn.metrics.average_precision_score`` on one-hot targets.

    Source: Zhu (2004), eq. 2, for each class.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multiclass_average_precision
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.1, 1.5, 0.3], [1.0, -0.2, 0.4], [-0.5, 0.2, 0.1]])
        >>> target = torch.tensor([0, 1, 2, 1])
        >>> multiclass_average_precision(logits, target, num_classes=3, average=None, normalization="softmax")
        tensor([1.0000, 1.0000, 0.5000])
    """
    inputs, found = inputs_and_bins(
        thresholds,
        ignore_index,
        validate_args,
        normalization,
        nan_strategy,
        "num_classes",
        num_classes,
        bins,
        pilot,
        tolerance,
    )
    meant = convention_of(convention, top_k, denominator, interpolation, ties)
    settings = settings_of(inputs, meant, found, average, empty_target_action)
    return evaluate(settings, preds, target, weights, dtype)


def multilabel_average_precision(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    average: Average = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    empty_target_action: Action | None = None,
    nan_strategy: NanStrategy = "error",
    bins: BinsArgument = None,
    pilot: int = PILOT,
    tolerance: float = TOLERANCE,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Average precision of each label, and their average.

    Label l's ranking has all items, by descending ``preds[:, l]``; those with ``target[:, l] == 1`` are its positives.

    Args:
        preds: (N, L, ...) floating or integer scores, ranked as they are in each column.
        target: (N, L, ...) integers or bool, 0 or 1.
        num_labels: L, at least 2.
        average: "macro" (mean over labels), "micro" (all scores in one ranking), "weighted" (by their number of
            positives), "none" or None (one value per label).
        thresholds, ignore_index, validate_args: as in :func:`binary_average_precision`; ``ignore_index`` drops single
            scores, not whole items.
        weights: (N, ...) weight of each item, or (N, L, ...) of each score.
        normalization: "sigmoid" to apply one; None leaves the scores as they are.
        top_k, denominator, interpolation, ties, convention, dtype: as in :func:`binary_average_precision`, label
            by label.
        empty_target_action: what a label without positives counts as: "neg" 0, "pos" 1, "skip" leaves it out of the
            average, "nan" makes the average NaN, "error" raises. Default: 0 with a warning. A label without any item
            is NaN and left out.
        nan_strategy: as in :func:`binary_average_precision`; a NaN score is left out of its own label only.
        bins, pilot, tolerance: as in :func:`binary_average_precision`, for each column.

    Returns:
        0-d tensor in [0, 1]; (L,) for ``average="none"``.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``sklearn.metrics.average_precision_score`` on multilabel targets, and
    ``torchmetrics.functional.classification.multilabel_average_precision`` on probabilities.

    Source: Zhu (2004), eq. 2, for each label.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multilabel_average_precision
        >>> preds = torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]])
        >>> target = torch.tensor([[1, 0], [0, 1], [1, 0]])
        >>> multilabel_average_precision(preds, target, num_labels=2, average=None)
        tensor([0.8333, 0.5000])
    """
    inputs, found = inputs_and_bins(
        thresholds,
        ignore_index,
        validate_args,
        normalization,
        nan_strategy,
        "num_labels",
        num_labels,
        bins,
        pilot,
        tolerance,
    )
    meant = convention_of(convention, top_k, denominator, interpolation, ties)
    settings = settings_of(inputs, meant, found, average, empty_target_action)
    return evaluate(settings, preds, target, weights, dtype)
