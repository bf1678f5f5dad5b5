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
from torch_ap.core.measures.counts import Counts
from torch_ap.core.measures.names import FUNCTIONS, registered
from torch_ap.curves.counts import (
    counts_at_k,
    counts_at_threshold,
    f_beta_at_k,
    precision_at_k,
    r_precision,
    recall_at_k,
)
from torch_ap.curves.hit_curves import (
    HitCurveComparison,
    HitCurveHull,
    HitCurvePoints,
    SurvivalPoints,
    area_under_hit_curve,
    compare_hit_curves,
    hit_curve,
    hit_curve_hull,
    ideal_hit_curve,
    random_hit_curve,
    survival_function,
)
from torch_ap.curves.of_ranking import curve, multiclass_curve, multilabel_curve
from torch_ap.curves.points import (
    InterpolatedPrecision,
    PrecisionAtRecall,
    average_precision_from_hit_curve,
    average_precision_from_precision_recall,
    interpolated_precision,
    precision_at_recall,
)
from torch_ap.curves.precision_recall import (
    PrecisionRecallCurve,
    binary_precision_recall_curve,
    multiclass_precision_recall_curve,
    multilabel_precision_recall_curve,
)
from torch_ap.curves.record import Curve
from torch_ap.detection.curves import coco_curve, voc_curve
from torch_ap.detection.functions import (
    coco_mean_average_precision,
    kitti_mean_average_precision,
    nuscenes_mean_average_precision,
    open_images_mean_average_precision,
    voc_mean_average_precision,
)
from torch_ap.detection.lvis import lvis_curve, lvis_mean_average_precision
from torch_ap.detection.pairs import (
    VOCMatch,
    box_iou,
    interval_iou,
    keypoint_similarity,
    match_coco,
    match_voc,
    rotated_box_iou,
)
from torch_ap.retrieval.at_k import (
    PrecisionRecallAtK,
    retrieval_f_beta,
    retrieval_fall_out,
    retrieval_hit_rate,
    retrieval_precision,
    retrieval_precision_recall_curve,
    retrieval_r_precision,
    retrieval_recall,
)
from torch_ap.retrieval.curve import QueryCurve, retrieval_curve
from torch_ap.retrieval.embeddings import EmbeddingRetrieval, embedding_average_precision
from torch_ap.retrieval.functions import (
    retrieval_auroc,
    retrieval_average_precision,
    retrieval_normalized_dcg,
    retrieval_reciprocal_rank,
)
from torch_ap.retrieval.recommendation import Recommendation, recommendation_at_k

if TYPE_CHECKING:
    from torch_ap.retrieval.measures.rank_biased import (
        retrieval_rank_biased_precision as retrieval_rank_biased_precision,
    )

__all__ = [
    "Counts",
    "Curve",
    "EmbeddingRetrieval",
    "HitCurveComparison",
    "HitCurveHull",
    "HitCurvePoints",
    "InterpolatedPrecision",
    "PrecisionAtRecall",
    "PrecisionRecallAtK",
    "PrecisionRecallCurve",
    "QueryCurve",
    "Recommendation",
    "SurvivalPoints",
    "VOCMatch",
    "area_under_hit_curve",
    "average_precision",
    "average_precision_from_hit_curve",
    "average_precision_from_precision_recall",
    "binary_average_precision",
    "binary_precision_recall_curve",
    "box_iou",
    "coco_curve",
    "coco_mean_average_precision",
    "compare_hit_curves",
    "counts_at_k",
    "counts_at_threshold",
    "curve",
    "embedding_average_precision",
    "f_beta_at_k",
    "hit_curve",
    "hit_curve_hull",
    "ideal_hit_curve",
    "interpolated_precision",
    "interval_iou",
    "keypoint_similarity",
    "kitti_mean_average_precision",
    "lvis_curve",
    "lvis_mean_average_precision",
    "match_coco",
    "match_voc",
    "multiclass_average_precision",
    "multiclass_curve",
    "multiclass_precision_recall_curve",
    "multilabel_average_precision",
    "multilabel_curve",
    "multilabel_precision_recall_curve",
    "nuscenes_mean_average_precision",
    "open_images_mean_average_precision",
    "precision_at_k",
    "precision_at_recall",
    "precision_recall_curve",
    "r_precision",
    "random_hit_curve",
    "recall_at_k",
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
    "rotated_box_iou",
    "survival_function",
    "voc_curve",
    "voc_mean_average_precision",
]

untraced.untraced_package(__name__)
globals().update(registered(FUNCTIONS))
__all__ += list(FUNCTIONS)
