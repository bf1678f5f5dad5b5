"""Plot of the confusion matrix of a detector as a table of shades."""

from typing import Any

import numpy as np
from torch import nn

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.messages import short_repr
from torch_ap.core.base.options import Normalize, allowed_values
from torch_ap.core.ranking.order import Array
from torch_ap.detection.errors.confusion import ConfusionMatrix
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, Axes

_MAX_NUMBERED = 20  # classes whose cells have numbers
_MAX_NAMED = 40
_DARK = 0.55  # opacity above which white text is easier to read


def confusion_matrix(
    matrix: Any, *, ax: "Axes | None" = None, class_names: ClassNames = None, normalize: Normalize | None = "true"
) -> "Axes":
    """Draw how many objects of each class were detected as each class, as another, or not at all.

    True classes are rows, detected classes are columns, and the background is last in both. Up to 20 classes, each cell
    has its number; above 40 classes, the axes have no names.

    Args:
        matrix: a :class:`torch_ap.detection.ConfusionMatrix`, or a metric that has ``confusion_matrix()``.
        ax: the axes to draw on; None for the axes of a new figure.
        class_names: names of the classes of a metric.
        normalize: "true" for shares of the objects of each class, "pred" for shares of the detections of each class,
            "all" for shares of everything; None for counts.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for an argument with an invalid value.

    Equals :meth:`torch_ap.detection.ConfusionMatrix.normalized`, or its ``matrix``.

    The rule of matching is described at :meth:`torch_ap.MeanAveragePrecision.confusion_matrix`.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import MeanAveragePrecision, plot
        >>> metric = MeanAveragePrecision(class_names=["cat", "dog"])
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
        >>> ax = plot.confusion_matrix(metric, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.texts]
        ['1.00', '1.00']
    """
    checks.one_of("normalize", normalize, (*allowed_values(Normalize), None))
    result = _matrix_of(matrix, class_names)
    values = style.array(result.matrix if normalize is None else result.normalized(normalize))
    ax = style.axes_of(ax)
    size, greatest = len(values), max(float(np.nanmax(values, initial=0)), 1e-300)
    shade = np.nan_to_num(values) / (1.0 if normalize in ("true", "pred") else greatest)
    _draw(ax, shade)
    if size <= _MAX_NUMBERED + 1:
        _write(ax, values, shade, "{:.0f}" if normalize is None else "{:.2f}")
    names = [style.text_of(x) for x in result.names] if size <= _MAX_NAMED + 1 else []
    ax.set_xticks(range(len(names)), names, rotation=90 if size > 4 else 0)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="detected", ylabel="true")
    return ax


def _matrix_of(matrix: Any, class_names: ClassNames) -> ConfusionMatrix:
    if isinstance(matrix, ConfusionMatrix):
        return matrix
    method = getattr(matrix, "confusion_matrix", None)
    if not isinstance(matrix, nn.Module) or not callable(method):
        raise TypeError(
            f"`matrix` must be a ConfusionMatrix, or a metric that has `confusion_matrix()`, got {short_repr(matrix)}"
        )
    result: ConfusionMatrix = method(class_names=class_names)
    return result


def _draw(ax: "Axes", shade: Array) -> None:
    """Draw the cells in one colour on the background of the axes; a higher value is more opaque."""
    from matplotlib.colors import to_rgb

    cells = np.empty((*shade.shape, 4))
    cells[..., :3], cells[..., 3] = to_rgb(COLORS[0]), shade
    ax.imshow(cells, interpolation="nearest")
    edge = len(shade) - 1.5
    for line in (ax.axhline, ax.axvline):
        line(edge, color=style.GREY, linewidth=0.8)


def _write(ax: "Axes", values: Array, shade: Array, form: str) -> None:
    """Write the numbers of nonempty cells."""
    for row, column in np.argwhere(values > 0):
        color: dict[str, Any] = {"color": "white"} if shade[row, column] > _DARK else {}
        text = form.format(values[row, column])
        ax.text(column, row, text, ha="center", va="center", fontsize="small", **color)
