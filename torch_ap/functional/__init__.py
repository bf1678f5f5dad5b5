"""The measures as functions: tensors in, tensors out, no state."""

from torch_ap.curve.counts import Counts
from torch_ap.functional.by_task import average_precision, precision_recall_curve
from torch_ap.functional.classification import (
    binary_average_precision,
    multiclass_average_precision,
    multilabel_average_precision,
)
from torch_ap.functional.curve_of_ranking import curve, multiclass_curve, multilabel_curve
from torch_ap.functional.curve_record import Curve
from torch_ap.functional.curves import HitCurvePoints, hit_curve
from torch_ap.functional.cuts import (
    counts_at_k,
    counts_at_threshold,
    f_beta_at_k,
    precision_at_k,
    r_precision,
    recall_at_k,
)
from torch_ap.functional.detection import coco_mean_average_precision, voc_mean_average_precision
from torch_ap.functional.detection_curves import coco_curve, voc_curve
from torch_ap.functional.detection_rules import (
    kitti_mean_average_precision,
    nuscenes_mean_average_precision,
    open_images_mean_average_precision,
)
from torch_ap.functional.discounted_gain import retrieval_normalized_dcg
from torch_ap.functional.embeddings import EmbeddingRetrieval, embedding_average_precision
from torch_ap.functional.first_hit import retrieval_hit_rate, retrieval_reciprocal_rank
from torch_ap.functional.given_curves import average_precision_from_hit_curve, average_precision_from_precision_recall
from torch_ap.functional.hit_curve_order import HitCurveComparison, compare_hit_curves
from torch_ap.functional.hit_curves import (
    HitCurveHull,
    SurvivalPoints,
    area_under_hit_curve,
    hit_curve_hull,
    ideal_hit_curve,
    random_hit_curve,
    survival_function,
)
from torch_ap.functional.interpolated import (
    InterpolatedPrecision,
    PrecisionAtRecall,
    interpolated_precision,
    precision_at_recall,
)
from torch_ap.functional.lvis import lvis_curve, lvis_mean_average_precision
from torch_ap.functional.matching import VOCMatch, box_iou, match_coco, match_voc
from torch_ap.functional.precision_recall import (
    PrecisionRecallCurve,
    binary_precision_recall_curve,
    multiclass_precision_recall_curve,
    multilabel_precision_recall_curve,
)
from torch_ap.functional.query_curve import QueryCurve, retrieval_curve
from torch_ap.functional.ranks import PrecisionRecallAtK, retrieval_precision_recall_curve
from torch_ap.functional.recommendations import Recommendation, recommendation_at_k
from torch_ap.functional.retrieval import retrieval_average_precision
from torch_ap.functional.retrieval_at_k import (
    retrieval_f_beta,
    retrieval_fall_out,
    retrieval_precision,
    retrieval_r_precision,
    retrieval_recall,
)
from torch_ap.functional.roc import retrieval_auroc
from torch_ap.functional.similarity import interval_iou, keypoint_similarity, rotated_box_iou
from torch_ap.runtime import untraced

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
