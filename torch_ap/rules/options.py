"""The options of public arguments, as types."""

from typing import Literal, TypeAlias

from torch import Tensor

Thresholds: TypeAlias = int | list[float] | Tensor | None
Average: TypeAlias = Literal["micro", "macro", "weighted", "none"] | None
Normalization: TypeAlias = Literal["none", "sigmoid", "softmax"] | None
Denominator: TypeAlias = Literal["min", "relevant", "found"]
Interpolation: TypeAlias = (
    Literal["11-point", "11-point-arange", "101-point", "all-points", "trapezoid"] | Tensor | None
)
Ties: TypeAlias = Literal["grouped", "expected", "optimistic", "pessimistic"]
Action: TypeAlias = Literal["nan", "neg", "pos", "skip", "error"]
NanStrategy: TypeAlias = Literal["error", "ignore", "warn"]
