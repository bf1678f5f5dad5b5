"""Curves of binary, multiclass and multilabel classification."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import (
    Denominator,
    IgnoreIndex,
    Interpolation,
    NanStrategy,
    Normalization,
    Ties,
    TopK,
    settings_from,
)
from torch_ap.core.items.settings import average_precision_settings, validate_call
from torch_ap.core.measures.convention import Convention
from torch_ap.curves.record import Curve, curve_records


def binary_curve(
    preds: Tensor,
    target: Tensor,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    prevalence: float | None = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    nan_strategy: NanStrategy = "error",
    name: str = "",
) -> Curve:
    """Return the curve of one ranking: counts at every distinct score, with precision, recall and AP.

    Args:
        preds: (N, ...) floating or integer scores.
        target: (N, ...) integers or bool, 0 or 1.
        weights: (N, ...) finite weights of at least 0; counts are then sums of weights.
        normalization: "sigmoid" to apply a sigmoid, None (default) to rank the scores unchanged.
        top_k: see :func:`torch_ap.functional.binary_average_precision`.
        denominator: see :func:`torch_ap.functional.binary_average_precision`.
        interpolation: see :func:`torch_ap.functional.binary_average_precision`.
        ties: see :func:`torch_ap.functional.binary_average_precision`.
        convention: see :func:`torch_ap.functional.binary_average_precision`.
        prevalence: see :func:`torch_ap.functional.binary_average_precision`; counts are then sums of weights.
        ignore_index: see :func:`torch_ap.functional.binary_average_precision`.
        validate_args: see :func:`torch_ap.functional.binary_average_precision`.
        nan_strategy: see :func:`torch_ap.functional.binary_average_precision`.
        name: name of the system or class, for plots and tables.

    Returns:
        :class:`~torch_ap.curves.Curve`.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Its ``precision_recall()`` equals ``sklearn.metrics.precision_recall_curve`` if there are positives. The
    curve equals ``torch_ap.BinaryAveragePrecision.curve``.

    Source: Zhu (2004), section 1.

    Example:
        >>> import torch
        >>> from torch_ap import functional
        >>> curve = functional.binary_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> curve.precision
        tensor([1.0000, 0.5000, 0.6667, 0.5000], dtype=torch.float64)
        >>> best = curve.operating_point()
        >>> round(float(best.threshold), 2), round(float(best.f_beta), 2), int(best.tp), int(best.fp)
        (0.7, 0.8, 2, 1)
    """
    checks.text("name", name)
    return _curves(locals(), (None, None), [name])[0]


def multiclass_curve(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    *,
    weights: Tensor | None = None,
    normalization: Normalization = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    prevalence: float | None = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    nan_strategy: NanStrategy = "error",
    class_names: Sequence[str] | None = None,
) -> list[Curve]:
    """Return the :class:`~torch_ap.curves.Curve` of each class against the rest.

    Args:
        preds: (N, C, ...) floating or integer scores.
        target: (N, ...) integers, class ids from 0 to C - 1.
        num_classes: C, at least 2.
        weights: (N, ...) finite weights of at least 0.
        normalization: see :func:`torch_ap.functional.multiclass_average_precision`.
        top_k: see :func:`binary_curve`.
        denominator: see :func:`binary_curve`.
        interpolation: see :func:`binary_curve`.
        ties: see :func:`binary_curve`.
        convention: see :func:`binary_curve`.
        prevalence: see :func:`binary_curve`.
        ignore_index: see :func:`binary_curve`.
        validate_args: see :func:`binary_curve`.
        nan_strategy: see :func:`binary_curve`.
        class_names: (C,) different names; None for 0 to C - 1.

    Returns:
        (C,) :class:`~torch_ap.curves.Curve`, with the class as ``name``.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals ``torch_ap.MulticlassAveragePrecision.curve``.

    Source: Zhu (2004), section 1, for each class.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multiclass_curve
        >>> preds = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.4, 0.3]])
        >>> curves = multiclass_curve(preds, torch.tensor([0, 1, 2]), 3, class_names=["cat", "dog", "bird"])
        >>> curves[1].name, curves[1].thresholds
        ('dog', tensor([0.7000, 0.4000, 0.1000]))
    """
    names = checks.names_of_classes(class_names, checks.positive_int("num_classes", num_classes, least=2))
    return _curves(locals(), ("num_classes", num_classes), names)


def multilabel_curve(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
    top_k: TopK = None,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties = "grouped",
    convention: Convention | None = None,
    prevalence: float | None = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    nan_strategy: NanStrategy = "error",
    class_names: Sequence[str] | None = None,
) -> list[Curve]:
    """Return the :class:`~torch_ap.curves.Curve` of each label.

    Args:
        preds: (N, L, ...) floating or integer scores.
        target: (N, L, ...) integers or bool, 0 or 1.
        num_labels: L, at least 2.
        weights: (N, ...) or (N, L, ...) finite weights of at least 0.
        normalization: see :func:`torch_ap.functional.multilabel_average_precision`.
        top_k: see :func:`binary_curve`.
        denominator: see :func:`binary_curve`.
        interpolation: see :func:`binary_curve`.
        ties: see :func:`binary_curve`.
        convention: see :func:`binary_curve`.
        prevalence: see :func:`binary_curve`.
        ignore_index: see :func:`binary_curve`.
        validate_args: see :func:`binary_curve`.
        nan_strategy: see :func:`binary_curve`.
        class_names: (L,) different names; None for 0 to L - 1.

    Returns:
        (L,) :class:`~torch_ap.curves.Curve`, with the label as ``name``.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals ``torch_ap.MultilabelAveragePrecision.curve``.

    Source: Zhu (2004), section 1, for each label.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multilabel_curve
        >>> preds, target = torch.tensor([[0.9, 0.2], [0.6, 0.7]]), torch.tensor([[1, 0], [0, 1]])
        >>> [x.hits.tolist() for x in multilabel_curve(preds, target, num_labels=2)]
        [[1, 1], [1, 1]]
    """
    names = checks.names_of_classes(class_names, checks.positive_int("num_labels", num_labels, least=2))
    return _curves(locals(), ("num_labels", num_labels), names)


def _curves(arguments: Mapping[str, Any], columns: tuple[str | None, int | None], names: Sequence[str]) -> list[Curve]:
    """Return the curves for the arguments of a public function; ``columns`` are the name and number of its columns."""
    fixed = {"columns": columns, "average": "none", "thresholds": None}
    settings = settings_from(average_precision_settings, {**arguments, **fixed})
    batch = validate_call(settings, arguments["preds"], arguments["target"], arguments["weights"])
    rankings = settings.in_population(settings.curve(batch, keep_all_groups=True))
    return curve_records(rankings, settings.convention, names)
