"""Metric classes of classifiers: average precision, and precision and recall at a minimum of the other.

The function :func:`suspicious_labels` finds targets that may be wrong.
"""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.classification.functions import suspicious_labels
    from torch_ap.classification.metrics import (
        AveragePrecision,
        BinaryAveragePrecision,
        MulticlassAveragePrecision,
        MultilabelAveragePrecision,
    )
    from torch_ap.classification.operating_points import (
        BinaryPrecisionAtFixedRecall,
        BinaryRecallAtFixedPrecision,
        MulticlassPrecisionAtFixedRecall,
        MulticlassRecallAtFixedPrecision,
        MultilabelPrecisionAtFixedRecall,
        MultilabelRecallAtFixedPrecision,
    )

__all__ = [
    "AveragePrecision",
    "BinaryAveragePrecision",
    "BinaryPrecisionAtFixedRecall",
    "BinaryRecallAtFixedPrecision",
    "MulticlassAveragePrecision",
    "MulticlassPrecisionAtFixedRecall",
    "MulticlassRecallAtFixedPrecision",
    "MultilabelAveragePrecision",
    "MultilabelPrecisionAtFixedRecall",
    "MultilabelRecallAtFixedPrecision",
    "suspicious_labels",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    __all__,
    ("classification.metrics", "classification.operating_points"),
    objects={"suspicious_labels": "torch_ap.classification.functions:suspicious_labels"},
)
