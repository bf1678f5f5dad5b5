"""Measures as functions of tensors, without state."""

from typing import TYPE_CHECKING

from torch_ap.classification.functions import (
    average_precision,
    binary_average_precision,
    multiclass_average_precision,
    multilabel_average_precision,
    precision_recall_curve,
)
from torch_ap.core.base import untraced
from torch_ap.core.base.deprecated import former_names
from torch_ap.core.measures.counts import Counts
from torch_ap.core.measures.names import FUNCTIONS, registered
from torch_ap.curves.counts import counts_at_k, counts_at_threshold
from torch_ap.curves.of_ranking import binary_curve, multiclass_curve, multilabel_curve
from torch_ap.curves.points import binary_precision_at_fixed_recall, interpolated_precision
from torch_ap.curves.precision_recall import (
    binary_precision_recall_curve,
    multiclass_precision_recall_curve,
    multilabel_precision_recall_curve,
)
from torch_ap.detection.functions import (
    coco_mean_average_precision,
    kitti_mean_average_precision,
    lvis_mean_average_precision,
    nuscenes_mean_average_precision,
    open_images_mean_average_precision,
    voc_mean_average_precision,
)
from torch_ap.retrieval.curve import QueryCurve, retrieval_curve
from torch_ap.retrieval.embeddings import EmbeddingRetrieval, embedding_average_precision
from torch_ap.retrieval.functions import (
    retrieval_auroc,
    retrieval_average_precision,
    retrieval_f_beta,
    retrieval_fall_out,
    retrieval_hit_rate,
    retrieval_normalized_dcg,
    retrieval_precision,
    retrieval_precision_recall_curve,
    retrieval_r_precision,
    retrieval_recall,
    retrieval_reciprocal_rank,
)
from torch_ap.retrieval.recommendation import Recommendation, recommendation_at_k

if TYPE_CHECKING:
    from torch_ap.retrieval.measures.rank_biased import (
        retrieval_rank_biased_precision as retrieval_rank_biased_precision,
    )

__all__ = [
    "Counts",
    "EmbeddingRetrieval",
    "QueryCurve",
    "Recommendation",
    "average_precision",
    "binary_average_precision",
    "binary_curve",
    "binary_precision_at_fixed_recall",
    "binary_precision_recall_curve",
    "coco_mean_average_precision",
    "counts_at_k",
    "counts_at_threshold",
    "embedding_average_precision",
    "interpolated_precision",
    "kitti_mean_average_precision",
    "lvis_mean_average_precision",
    "multiclass_average_precision",
    "multiclass_curve",
    "multiclass_precision_recall_curve",
    "multilabel_average_precision",
    "multilabel_curve",
    "multilabel_precision_recall_curve",
    "nuscenes_mean_average_precision",
    "open_images_mean_average_precision",
    "precision_recall_curve",
    "recommendation_at_k",
    "retrieval_auroc",
    "retrieval_average_precision",
    "retrieval_curve",
    "retrieval_f_beta",
    "retrieval_fall_out",
    "retrieval_hit_rate",
    "retrieval_normalized_dcg",
    "retrieval_precision",
    "retrieval_precision_recall_curve",
    "retrieval_r_precision",
    "retrieval_recall",
    "retrieval_reciprocal_rank",
    "voc_mean_average_precision",
]

untraced.untraced_package(__name__)
globals().update(registered(FUNCTIONS))
__all__ += list(FUNCTIONS)

_MOVED = {
    "torch_ap.curves": (
        "Curve",
        "HitCurveComparison",
        "HitCurveHull",
        "HitCurvePoints",
        "InterpolatedPrecision",
        "PrecisionAtRecall",
        "PrecisionRecallCurve",
        "SurvivalPoints",
        "area_under_hit_curve",
        "average_precision_from_hit_curve",
        "average_precision_from_precision_recall",
        "compare_hit_curves",
        "hit_curve",
        "hit_curve_hull",
        "survival_function",
    ),
    "torch_ap.detection.curves": ("coco_curve", "lvis_curve", "voc_curve"),
    "torch_ap.detection.pairs": (
        "VOCMatch",
        "box_iou",
        "interval_iou",
        "keypoint_similarity",
        "match_coco",
        "match_voc",
        "rotated_box_iou",
    ),
    "torch_ap.retrieval": ("PrecisionRecallAtK",),
}
__getattr__ = former_names(
    __name__,
    {name: f"{home}:{name}" for home, names in _MOVED.items() for name in names}
    | {
        "curve": "torch_ap.functional:binary_curve",
        "precision_at_recall": "torch_ap.functional:binary_precision_at_fixed_recall",
    },
    {
        "precision_at_k": "`retrieval_precision`, or `precision` of `counts_at_k`",
        "recall_at_k": "`retrieval_recall`, or `recall` of `counts_at_k`",
        "f_beta_at_k": "`retrieval_f_beta`, or `f_beta(beta)` of `counts_at_k`",
        "r_precision": "`retrieval_r_precision`",
        "ideal_hit_curve": "`torch_ap.curves.Curve.ideal_hit_curve`",
        "random_hit_curve": "`torch_ap.curves.Curve.random_hit_curve`",
    },
)
