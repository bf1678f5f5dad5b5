"""Plots of average precision (extra: ``plot``): each function takes curves or metrics and returns the axes.

============================  ======================================================================================
name                          content
============================  ======================================================================================
precision_recall              precision over recall, with area AP: bands, iso-F lines, chance level, operating points
precision_recall_gain         precision gain over recall gain, with area AUPRG
hit_curve                     hits over depth, with the ideal and the random ranking
f_beta_thresholds             precision, recall and F_beta over score thresholds
per_class                     AP of each class as bars with intervals, sorted
iou_thresholds                AP of detectors over IoU thresholds and area ranges
confusion_matrix              confusion of a detector between classes
error_costs                   cost of each kind of error of a detector
epochs                        values of a training over epochs, and the best epoch without its optimism
plan                          units for half widths of an interval, or the power of a comparison
query_differences             one run minus another, query by query
average_precision_rectangles  the terms of AP as rectangles
============================  ======================================================================================

Each function draws on ``ax`` and changes nothing else; without ``ax``, it creates a figure. The colours suit readers
with colour vision deficiency (Okabe & Ito), and line styles suit print in grey. Text and background follow the axes,
light or dark. A curve of millions of points is reduced to a few thousand without a visible change: in each column of
pixels the first, the last, the lowest and the highest point are kept.
"""

from torch_ap.core.base.deprecated import former_names
from torch_ap.plot.bars import per_class
from torch_ap.plot.detectors import confusion_matrix, error_costs, iou_thresholds
from torch_ap.plot.epochs import epochs
from torch_ap.plot.over_cuts import f_beta_thresholds, hit_curve
from torch_ap.plot.over_recall import precision_recall, precision_recall_gain
from torch_ap.plot.plan import plan
from torch_ap.plot.queries import query_differences
from torch_ap.plot.rectangles import average_precision_rectangles

__all__ = [
    "average_precision_rectangles",
    "confusion_matrix",
    "epochs",
    "error_costs",
    "f_beta_thresholds",
    "hit_curve",
    "iou_thresholds",
    "per_class",
    "plan",
    "precision_recall",
    "precision_recall_gain",
    "query_differences",
]

__getattr__ = former_names(__name__, {"coco": "torch_ap.plot:iou_thresholds", "errors": "torch_ap.plot:error_costs"})
