"""Average precision for PyTorch: exact, named, fast.

=============================  =====================================================================
name                           what it is
=============================  =====================================================================
AveragePrecision               makes the metric of the task that is named
BinaryAveragePrecision         AP of one ranking
MulticlassAveragePrecision     AP of each class against the rest, and their average
MultilabelAveragePrecision     AP of each label, and their average
RetrievalMAP                   mean AP over queries
RetrievalPrecision             mean precision at k over queries
RetrievalRecall                mean recall at k over queries
RetrievalFBeta                 mean F_beta at k over queries
RetrievalRPrecision            mean R-precision over queries
RetrievalFallOut               mean fall-out at k over queries
RetrievalHitRate               share of queries with a relevant item in the top k
RetrievalMRR                   mean reciprocal rank of the first relevant item
MeanAveragePrecision           COCO's mean AP and AR of object detectors
VOCMeanAveragePrecision        PASCAL VOC's mean AP of object detectors
functional                     the same, and more, as functions of tensors
inference                      chance level, intervals, comparisons
=============================  =====================================================================

Beside them: ``torch_ap.files`` (TREC, COCO, VOC, YOLO), ``torch_ap.sklearn`` (a scorer) and the command ``torch-ap``.

Everything here is imported when it is first asked for, so that ``torch-ap --help`` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch_ap._version import __version__

if TYPE_CHECKING:
    from torch_ap import functional, inference
    from torch_ap.metrics.classification import (
        AveragePrecision,
        BinaryAveragePrecision,
        MulticlassAveragePrecision,
        MultilabelAveragePrecision,
    )
    from torch_ap.metrics.detection import MeanAveragePrecision, VOCMeanAveragePrecision
    from torch_ap.metrics.retrieval import (
        RetrievalFallOut,
        RetrievalFBeta,
        RetrievalHitRate,
        RetrievalMAP,
        RetrievalMRR,
        RetrievalPrecision,
        RetrievalRecall,
        RetrievalRPrecision,
    )

__all__ = [
    "AveragePrecision",
    "BinaryAveragePrecision",
    "MeanAveragePrecision",
    "MulticlassAveragePrecision",
    "MultilabelAveragePrecision",
    "RetrievalFBeta",
    "RetrievalFallOut",
    "RetrievalHitRate",
    "RetrievalMAP",
    "RetrievalMRR",
    "RetrievalPrecision",
    "RetrievalRPrecision",
    "RetrievalRecall",
    "VOCMeanAveragePrecision",
    "__version__",
    "functional",
    "inference",
]

_PACKAGES = ("files", "functional", "inference", "metrics")
_MODULES_OF_CLASSES = ("classification", "retrieval", "detection")


def __getattr__(name: str) -> Any:
    """Import what is asked for and keep it."""
    if name in _PACKAGES:
        return import_module(f"torch_ap.{name}")
    if name in __all__:
        modules = (import_module(f"torch_ap.metrics.{module}") for module in _MODULES_OF_CLASSES)
        globals()[name] = next(vars(module)[name] for module in modules if name in vars(module))
        return globals()[name]
    raise AttributeError(f"module 'torch_ap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
