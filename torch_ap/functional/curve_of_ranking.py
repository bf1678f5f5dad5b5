"""The curve of one ranking as data: the function."""

from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.functional.curve_record import Curve, curves_of
from torch_ap.inputs.classification import ClassificationInputs
from torch_ap.rules import checks
from torch_ap.rules.options import Interpolation, Ties


def curve(
    preds: Tensor,
    target: Tensor,
    *,
    weights: Tensor | None = None,
    ties: Ties = "grouped",
    interpolation: Interpolation = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    name: str = "",
) -> Curve:
    """The curve of one ranking: counts at every distinct score, from which precision, recall and all else follow.

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        weights: (N, ...) finite weights of at least 0; counts are then their sums.
        ties, interpolation: of ``average_precision``, as for :func:`torch_ap.functional.binary_average_precision`.
        ignore_index: target value of items that do not count.
        validate_args: whether values are checked.
        name: of the system or class, for pictures and tables.

    Returns:
        :class:`Curve`.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals, as ``precision_recall()``, ``sklearn.metrics.precision_recall_curve`` where there are positives, and what
    ``torch_ap.BinaryAveragePrecision.curve`` gives.

    Source: Zhu (2004), section 1.

    Example:
        >>> import torch
        >>> from torch_ap import functional
        >>> found = functional.curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> found.precision
        tensor([1.0000, 0.5000, 0.6667, 0.5000], dtype=torch.float64)
        >>> best = found.operating_point()
        >>> round(float(best.threshold), 2), round(float(best.f_beta), 2), int(best.tp), int(best.fp)
        (0.7, 0.8, 2, 1)
    """
    checks.text("name", name)
    inputs = ClassificationInputs(ignore_index=ignore_index, check_values=validate_args)
    settings = APSettings(inputs, Convention(interpolation=interpolation, ties=ties))
    batch = settings.validate(preds, target, weights)
    inputs.raise_broken(batch.broken)
    return curves_of(settings.curve(batch, keep_all_groups=True), settings.convention, [name])[0]
