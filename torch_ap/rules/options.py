"""The options of public arguments, as types."""

from typing import Literal, TypeAlias

from torch import Tensor

Thresholds: TypeAlias = int | list[float] | Tensor | None
Task: TypeAlias = Literal["binary", "multiclass", "multilabel"]
Average: TypeAlias = Literal["micro", "macro", "weighted", "none"] | None
Normalization: TypeAlias = Literal["none", "sigmoid", "softmax"] | None
Denominator: TypeAlias = Literal["min", "relevant", "found"]
Interpolation: TypeAlias = (
    Literal["11-point", "11-point-arange", "101-point", "all-points", "trapezoid"] | Tensor | None
)
Ties: TypeAlias = Literal["grouped", "expected", "optimistic", "pessimistic"]
Action: TypeAlias = Literal["nan", "neg", "pos", "skip", "error"]
NanStrategy: TypeAlias = Literal["error", "ignore", "warn"]
CurveAverage: TypeAlias = Literal["micro", "macro"] | None
QueryInterpolation: TypeAlias = (
    Literal["11-point", "11-point-arange", "11-point-trec9", "11-point-trec10", "101-point", "all-points", "trapezoid"]
    | Tensor
    | None
)
MissingQueries: TypeAlias = Literal["neg", "skip", "error"]
NumRelevant: TypeAlias = Tensor | dict[int, int] | int | None
BoxFormat: TypeAlias = Literal["xyxy", "xywh", "cxcywh"]
IoUType: TypeAlias = Literal["bbox", "segm", "precomputed"]
VOCInterpolation: TypeAlias = Literal["11-point", "11-point-arange", "all-points", "101-point"]
Design: TypeAlias = Literal["iid", "stratified"]
