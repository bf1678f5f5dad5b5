"""Mean average precision of object detectors as metrics: those of COCO, LVIS, VOC, Open Images and nuScenes."""

from torch_ap.analysis.confusion import ConfusionMatrix
from torch_ap.analysis.errors import DetectionErrors
from torch_ap.analysis.lrp import OptimalLRP
from torch_ap.analysis.operating_points import OperatingPoints
from torch_ap.analysis.outcomes import DETECTION_KINDS
from torch_ap.metrics.coco import MeanAveragePrecision
from torch_ap.metrics.lvis import LVISMeanAveragePrecision
from torch_ap.metrics.nuscenes import NuScenesMeanAveragePrecision
from torch_ap.metrics.open_images import OpenImagesMeanAveragePrecision
from torch_ap.metrics.voc import VOCMeanAveragePrecision

__all__ = [
    "DETECTION_KINDS",
    "ConfusionMatrix",
    "DetectionErrors",
    "LVISMeanAveragePrecision",
    "MeanAveragePrecision",
    "NuScenesMeanAveragePrecision",
    "OpenImagesMeanAveragePrecision",
    "OperatingPoints",
    "OptimalLRP",
    "VOCMeanAveragePrecision",
]
