"""Mean average precision of object detectors as metrics: COCO's, LVIS's and PASCAL VOC's."""

from torch_ap.analysis.confusion import ConfusionMatrix
from torch_ap.analysis.errors import DetectionErrors
from torch_ap.analysis.lrp import OptimalLRP
from torch_ap.analysis.operating_points import OperatingPoints
from torch_ap.analysis.outcomes import DETECTION_KINDS
from torch_ap.metrics.coco import MeanAveragePrecision
from torch_ap.metrics.lvis import LVISMeanAveragePrecision
from torch_ap.metrics.voc import VOCMeanAveragePrecision

__all__ = [
    "DETECTION_KINDS",
    "ConfusionMatrix",
    "DetectionErrors",
    "LVISMeanAveragePrecision",
    "MeanAveragePrecision",
    "OperatingPoints",
    "OptimalLRP",
    "VOCMeanAveragePrecision",
]
