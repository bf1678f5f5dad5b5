"""Options of public arguments as types, their allowed values, and signatures that share keywords."""

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

import numpy as np
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])

Thresholds: TypeAlias = int | list[float] | Tensor | None
BinsArgument: TypeAlias = Literal["half", "adaptive"] | int | list[float] | Tensor | None
Task: TypeAlias = Literal["binary", "multiclass", "multilabel"]
Average: TypeAlias = Literal["micro", "macro", "weighted", "none"] | None
Normalization: TypeAlias = Literal["none", "sigmoid", "softmax"] | None
DenominatorOfChance: TypeAlias = Literal["min", "relevant"]
Denominator: TypeAlias = DenominatorOfChance | Literal["found"]
_Named: TypeAlias = Literal["11-point", "11-point-arange", "40-point", "101-point", "all-points", "trapezoid"]
PointsInterpolation: TypeAlias = _Named | Tensor | None
_OfRankings: TypeAlias = Literal["nuscenes", "11-point-trec9", "11-point-trec10"]
_LineArea: TypeAlias = Literal["trapezoid-anchored", "davis-goadrich", "ultralytics", "ultralytics-8.3"]
Interpolation: TypeAlias = _Named | _OfRankings | _LineArea | Tensor | None
Ties: TypeAlias = Literal["grouped", "expected", "optimistic", "pessimistic"]
TopK: TypeAlias = int | Literal["relevant"] | None
TopKs: TypeAlias = TopK | Sequence[int]
CountPerRanking: TypeAlias = int | Sequence[int] | None
Gains: TypeAlias = Literal["linear", "exponential"]
Action: TypeAlias = Literal["nan", "neg", "pos", "skip", "error"]
IgnoreIndex: TypeAlias = int | Sequence[int] | None
NanStrategy: TypeAlias = Literal["error", "ignore", "warn"]
CurveAverage: TypeAlias = Literal["micro", "macro"] | None
MissingQueries: TypeAlias = Literal["neg", "skip", "error"]
NumRelevant: TypeAlias = Tensor | dict[int, int] | int | None
BoxFormat: TypeAlias = Literal["xyxy", "xywh", "cxcywh"]
RotatedFormat: TypeAlias = Literal["cxcywhr", "xywhr", "xyxyxyxy"]
AnyBoxFormat: TypeAlias = BoxFormat | RotatedFormat
IoUType: TypeAlias = Literal["bbox", "segm", "boundary", "precomputed", "keypoints", "rotated", "intervals"]
Sigmas: TypeAlias = Sequence[float] | Tensor | np.ndarray[Any, Any] | None
GroupOf: TypeAlias = Literal["count", "ignore"]
VOCInterpolation: TypeAlias = Literal["11-point", "11-point-arange", "40-point", "all-points", "101-point"]
# recall levels of interpolated AP, area under the interpolated curve, rules with lines, or (None) the plain sum
InterpolationRule: TypeAlias = Tensor | Literal["all-points", "nuscenes", "ultralytics", "ultralytics-8.3"] | None
DetectionConvention: TypeAlias = Literal["ultralytics", "ultralytics-8.3"]
Design: TypeAlias = Literal["iid", "stratified"]
Sync: TypeAlias = Literal["gather", "exchange"]
Correction: TypeAlias = Literal["least-squares"] | None
Similarity: TypeAlias = Literal["cosine", "dot", "euclidean"]
Normalize: TypeAlias = Literal["true", "pred", "all"]

PILOT = 1 << 16  # number of scores that determine adaptive bins
TOLERANCE = 0.01  # width of bounds


@functools.cache
def allowed_values(option: Any) -> tuple[Any, ...]:
    """Return the names in an option's type, and None if the type allows it; tensors and other types are omitted.

    Example:
        >>> from torch_ap.core.base.options import CurveAverage, allowed_values
        >>> allowed_values(CurveAverage)
        ('micro', 'macro', None)
    """
    if get_origin(option) is Literal:
        return get_args(option)
    kinds = ((None,) if kind is type(None) else allowed_values(kind) for kind in get_args(option))
    return tuple(itertools.chain.from_iterable(kinds))


Settings = TypeVar("Settings")


def settings_from(make: Callable[..., Settings], arguments: Mapping[str, Any]) -> Settings:
    """Return the settings that ``make`` returns for the arguments of the same names.

    Args:
        make: function that validates arguments and returns settings.
        arguments: arguments by name, such as ``locals()`` of a public function or ``__init__``.
    """
    return make(**{name: arguments[name] for name in _parameter_names(make) if name in arguments})


@functools.cache
def _parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def with_keywords_of(*templates: Callable[..., Any], open_ended: bool = False) -> Callable[[F], F]:
    """Return a decorator that lists the keywords of other functions in a signature in place of ``**options``.

    The decorated function passes its options on to the templates. ``help()`` and editors show all keywords.

    Args:
        templates: functions with keyword-only arguments.
        open_ended: whether the decorated function accepts further keywords.
    """
    parameters = (x for template in templates for x in inspect.signature(template).parameters.values())
    keywords = [x for x in parameters if x.kind is x.KEYWORD_ONLY]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, options = signature.parameters.values()
        added = [x for x in keywords if x.name not in signature.parameters]
        added += [options.replace(annotation=Any)] if open_ended else []
        function.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        hints = {x.name: x.annotation for x in (*own, *added)}
        function.__annotations__ = {**hints, "return": signature.return_annotation}
        return function

    return decorate
