"""From the arguments of functions and metrics to the settings of an average precision, checked."""

from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inputs.classification import ClassificationInputs
from torch_ap.ranking import bins
from torch_ap.ranking.bins import Bins
from torch_ap.rules import checks
from torch_ap.rules.options import PILOT, TOLERANCE, BinsArgument, Task, allowed
from torch_ap.runtime import cached

_TASKS = allowed(Task)


def inputs_and_bins(
    thresholds: int | list[float] | Tensor | None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    normalization: str | None = None,
    nan_strategy: str = "error",
    name: str | None = None,
    width: int | None = None,
    bins_: BinsArgument = None,
    pilot: int = PILOT,
    tolerance: float = TOLERANCE,
) -> tuple[ClassificationInputs, Bins | None]:
    """How batches come in, and the bins; an int of them, or of thresholds, lies over [0, 1], where scores must lie.

    ``name`` is the argument that gives the number of columns, ``width``; None for one ranking.
    """
    checks.thresholds(thresholds)
    if name is not None:
        width = checks.positive_int(name, width, least=2)
    if thresholds is not None and bins_ is not None:
        raise ValueError(
            "`bins` must be None beside `thresholds`: these are torchmetrics' curve at some scores, `bins` the exact "
            "value with bounds; give one of them"
        )
    found = None if thresholds is None else bins.of_thresholds(thresholds)
    if bins_ is not None:
        found = bins.of_argument(bins_, pilot, tolerance)
    kind = "" if found is None else found.kind
    scores_in = "half" if kind == "half" else "unit" if isinstance(thresholds, int) or kind == "equal" else ""
    classes = name == "num_classes"
    return _inputs(width, classes, ignore_index, normalization, scores_in, validate_args, nan_strategy), found


def inputs_and_thresholds(
    thresholds: int | list[float] | Tensor | None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    normalization: str | None = None,
    name: str | None = None,
    width: int | None = None,
) -> tuple[ClassificationInputs, Tensor | None]:
    """The same with the thresholds as a tensor, where there are no other bins."""
    inputs, found = inputs_and_bins(thresholds, ignore_index, validate_args, normalization, name=name, width=width)
    return inputs, None if found is None else found.edges


def columns_of(task: str, num_classes: int | None, num_labels: int | None) -> tuple[str | None, int | None]:
    """The argument that gives the columns of a task, and how many: ``name`` and ``width`` of the function above."""
    checks.one_of("task", task, _TASKS)
    columns = {"multiclass": ("num_classes", num_classes), "multilabel": ("num_labels", num_labels)}
    return columns.get(task, (None, None))


_inputs, _settings = cached.settings_cache(ClassificationInputs), cached.settings_cache(APSettings)


def settings_of(
    inputs: ClassificationInputs,
    convention: Convention,
    bins_: Bins | None,
    average: str | None,
    empty_target_action: str | None,
) -> APSettings:
    """:class:`APSettings` of these arguments, cached where there are no bins, which hold tensors."""
    return (_settings if bins_ is None else APSettings)(inputs, convention, bins_, average, empty_target_action)
