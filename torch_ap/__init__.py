"""Average precision for PyTorch: exact, named, fast.

===============================  =====================================================================
name                             what it is
===============================  =====================================================================
AveragePrecision                 makes the metric of the task that is named
BinaryAveragePrecision           AP of one ranking
MulticlassAveragePrecision       AP of each class against the rest, and their average
MultilabelAveragePrecision       AP of each label, and their average
RetrievalMAP                     mean AP over queries
RetrievalPrecision               mean precision at k over queries
RetrievalRecall                  mean recall at k over queries
RetrievalPrecisionRecallCurve    mean precision and recall at every rank over queries
RetrievalRecallAtFixedPrecision  the highest recall at a rank whose precision is high enough
RetrievalFBeta                   mean F_beta at k over queries
RetrievalRPrecision              mean R-precision over queries
RetrievalFallOut                 mean fall-out at k over queries
RetrievalHitRate                 share of queries with a relevant item in the top k
RetrievalNormalizedDCG           mean normalized discounted cumulative gain over queries
RetrievalAUROC                   mean area under the ROC curve over queries
RetrievalMRR                     mean reciprocal rank of the first relevant item
EmbeddingMAP                     mean AP of queries that search a gallery by their embeddings
MeanAveragePrecision             COCO's mean AP and AR of object detectors
LVISMeanAveragePrecision         LVIS's, where no image was searched for every category
VOCMeanAveragePrecision          PASCAL VOC's mean AP of object detectors
OpenImagesMeanAveragePrecision   Open Images' mean AP: groups, hierarchies of classes
NuScenesMeanAveragePrecision     nuScenes' mean AP of centres by their distance
merge                            metrics of separate jobs as one
evaluate                         measures of a search run, or of several, in one call
IndexEncoder                     names of queries as the integers that metrics take
Convention                       which average precision is meant, as one value
classification                   the metrics of classifiers, the first four above
retrieval                        the metrics over queries, those named Retrieval...
detection                        the metrics of object detectors
functional                       the same, and more, as functions of tensors
inference                        chance level, intervals, comparisons
report                           writes what a metric found as one page
===============================  =====================================================================

Beside them: ``torch_ap.plot`` (pictures), ``torch_ap.files`` (TREC, COCO, LVIS, VOC, YOLO), ``torch_ap.sklearn`` (a
scorer) and the command ``torch-ap``.

Everything here is imported when it is first asked for, so that ``torch-ap --help`` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch_ap._version import __version__

if TYPE_CHECKING:
    from torch_ap import classification, detection, functional, inference, retrieval
    from torch_ap.classification import (
        AveragePrecision,
        BinaryAveragePrecision,
        MulticlassAveragePrecision,
        MultilabelAveragePrecision,
    )
    from torch_ap.curve.convention import Convention
    from torch_ap.detection import (
        LVISMeanAveragePrecision,
        MeanAveragePrecision,
        NuScenesMeanAveragePrecision,
        OpenImagesMeanAveragePrecision,
        VOCMeanAveragePrecision,
    )
    from torch_ap.metrics.merging import merge
    from torch_ap.reports import report
    from torch_ap.retrieval import (
        EmbeddingMAP,
        IndexEncoder,
        RetrievalAUROC,
        RetrievalFallOut,
        RetrievalFBeta,
        RetrievalHitRate,
        RetrievalMAP,
        RetrievalMRR,
        RetrievalNormalizedDCG,
        RetrievalPrecision,
        RetrievalPrecisionRecallCurve,
        RetrievalRecall,
        RetrievalRecallAtFixedPrecision,
        RetrievalRPrecision,
    )
    from torch_ap.runs.evaluation import evaluate

__all__ = [
    "AveragePrecision",
    "BinaryAveragePrecision",
    "Convention",
    "EmbeddingMAP",
    "IndexEncoder",
    "LVISMeanAveragePrecision",
    "MeanAveragePrecision",
    "MulticlassAveragePrecision",
    "MultilabelAveragePrecision",
    "NuScenesMeanAveragePrecision",
    "OpenImagesMeanAveragePrecision",
    "RetrievalAUROC",
    "RetrievalFBeta",
    "RetrievalFallOut",
    "RetrievalHitRate",
    "RetrievalMAP",
    "RetrievalMRR",
    "RetrievalNormalizedDCG",
    "RetrievalPrecision",
    "RetrievalPrecisionRecallCurve",
    "RetrievalRPrecision",
    "RetrievalRecall",
    "RetrievalRecallAtFixedPrecision",
    "VOCMeanAveragePrecision",
    "__version__",
    "classification",
    "detection",
    "evaluate",
    "functional",
    "inference",
    "merge",
    "report",
    "retrieval",
]

_MODULES = ("classification", "detection", "files", "functional", "inference", "metrics", "plot", "retrieval")
# where names are that are no modules
_HOMES = (
    "curve.convention",
    "metrics.merging",
    "classification",
    "retrieval",
    "detection",
    "reports",
    "runs.evaluation",
)


def __getattr__(name: str) -> Any:
    """Import what is asked for and keep it."""
    if name in _MODULES:
        return import_module(f"torch_ap.{name}")
    if name in __all__:
        homes = (import_module(f"torch_ap.{home}") for home in _HOMES)
        globals()[name] = next(vars(home)[name] for home in homes if name in vars(home))
        return globals()[name]
    raise AttributeError(f"module 'torch_ap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
