"""Average precision for PyTorch: exact, named, fast.

================================  ====================================================================
name                              description
================================  ====================================================================
AveragePrecision                  constructor of the metric of a task
BinaryAveragePrecision            AP of one ranking
MulticlassAveragePrecision        AP of each class against the rest, and their average
MultilabelAveragePrecision        AP of each label, and their average
BinaryPrecisionAtFixedRecall      highest precision with a minimum recall
BinaryRecallAtFixedPrecision      highest recall with a minimum precision
MulticlassPrecisionAtFixedRecall  highest precision of each class with a minimum recall
MulticlassRecallAtFixedPrecision  highest recall of each class with a minimum precision
MultilabelPrecisionAtFixedRecall  highest precision of each label with a minimum recall
MultilabelRecallAtFixedPrecision  highest recall of each label with a minimum precision
RetrievalMAP                      mean AP over queries
RetrievalPrecision                mean precision at k over queries
RetrievalRecall                   mean recall at k over queries
RetrievalPrecisionRecallCurve     mean precision and recall at every rank over queries
RetrievalRecallAtFixedPrecision   highest recall at a rank with a minimum precision
RetrievalFBeta                    mean F_beta at k over queries
RetrievalRPrecision               mean R-precision over queries
RetrievalFallOut                  mean fall-out at k over queries
RetrievalHitRate                  share of queries with a relevant item in the top k
RetrievalNormalizedDCG            mean normalized discounted cumulative gain over queries
RetrievalAUROC                    mean area under the ROC curve over queries
RetrievalMRR                      mean reciprocal rank of the first relevant item
RetrievalRankBiasedPrecision      mean rank-biased precision over queries
EmbeddingMAP                      mean AP of queries that search a gallery by their embeddings
MeanAveragePrecision              COCO's mean AP and AR of object detectors
LVISMeanAveragePrecision          LVIS's mean AP and AR, for images annotated with some of the categories
VOCMeanAveragePrecision           PASCAL VOC's mean AP of object detectors
OpenImagesMeanAveragePrecision    Open Images' mean AP: groups, hierarchies of classes
NuScenesMeanAveragePrecision      nuScenes' mean AP of centres by their distance
BestOf                            wrapper of a metric that corrects the value of the best epoch
load                              returns the metric that ``to_bytes`` wrote
merge                             merges metrics of separate jobs
evaluate                          measures of one or several search runs in one call
explain                           which average precision a number is, and why two programs differ
IndexEncoder                      encodes names of queries as integers for the metrics
Convention                        settings of an average precision as one value
classification                    metrics of classifiers, the first ten above
retrieval                         metrics over queries, named Retrieval...
detection                         metrics of object detectors
functional                        these measures and more as functions of tensors
curves                            curves of rankings, and functions of hit curves
inference                         chance level, intervals, comparisons
report                            writes the results of a metric as one page
================================  ====================================================================

Further modules: ``torch_ap.plot`` (figures), ``torch_ap.files`` (TREC, COCO, LVIS, VOC, YOLO), ``torch_ap.sklearn`` (a
scorer), ``torch_ap.boosting`` (XGBoost, LightGBM), ``torch_ap.engines`` (data sets of Dask, Ray and Spark) and the
command ``torch-ap``.

Names are imported on first use, so that ``torch-ap --help`` does not import torch.
"""

from typing import TYPE_CHECKING

from torch_ap._version import __version__
from torch_ap.core.base.lazy import lazy_exports
from torch_ap.core.measures.names import METRICS

if TYPE_CHECKING:
    from torch_ap import classification, curves, detection, functional, inference, retrieval
    from torch_ap.classification import (
        AveragePrecision,
        BinaryAveragePrecision,
        BinaryPrecisionAtFixedRecall,
        BinaryRecallAtFixedPrecision,
        MulticlassAveragePrecision,
        MulticlassPrecisionAtFixedRecall,
        MulticlassRecallAtFixedPrecision,
        MultilabelAveragePrecision,
        MultilabelPrecisionAtFixedRecall,
        MultilabelRecallAtFixedPrecision,
    )
    from torch_ap.core.measures.convention import Convention
    from torch_ap.core.metric.merging import merge
    from torch_ap.core.metric.payload import load
    from torch_ap.detection import (
        LVISMeanAveragePrecision,
        MeanAveragePrecision,
        NuScenesMeanAveragePrecision,
        OpenImagesMeanAveragePrecision,
        VOCMeanAveragePrecision,
    )
    from torch_ap.explanation import explain
    from torch_ap.inference.best_epoch import BestOf
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
    from torch_ap.retrieval.runs.evaluate import evaluate

__all__ = [
    "AveragePrecision",
    "BestOf",
    "BinaryAveragePrecision",
    "BinaryPrecisionAtFixedRecall",
    "BinaryRecallAtFixedPrecision",
    "Convention",
    "EmbeddingMAP",
    "IndexEncoder",
    "LVISMeanAveragePrecision",
    "MeanAveragePrecision",
    "MulticlassAveragePrecision",
    "MulticlassPrecisionAtFixedRecall",
    "MulticlassRecallAtFixedPrecision",
    "MultilabelAveragePrecision",
    "MultilabelPrecisionAtFixedRecall",
    "MultilabelRecallAtFixedPrecision",
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
    "curves",
    "detection",
    "evaluate",
    "explain",
    "functional",
    "inference",
    "load",
    "merge",
    "report",
    "retrieval",
    *METRICS,
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    __all__,
    (
        *("core.measures.convention", "core.metric.merging", "core.metric.payload"),
        *("classification", "retrieval", "detection", "reports"),
        *("retrieval.runs.evaluate", "inference.best_epoch", "explanation"),
    ),
    ("classification", "curves", "detection", "files", "functional", "inference", "plot", "retrieval"),
)
