"""The measures as functions: tensors in, tensors out, no state."""

from torch_ap.functional.classification import (
    average_precision,
    binary_average_precision,
    multiclass_average_precision,
    multilabel_average_precision,
)

__all__ = [
    "average_precision",
    "binary_average_precision",
    "multiclass_average_precision",
    "multilabel_average_precision",
]
