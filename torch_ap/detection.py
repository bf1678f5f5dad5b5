"""Mean average precision of object detectors as metrics: COCO's and PASCAL VOC's."""

from torch_ap.metrics.coco import MeanAveragePrecision
from torch_ap.metrics.voc import VOCMeanAveragePrecision

__all__ = ["MeanAveragePrecision", "VOCMeanAveragePrecision"]
