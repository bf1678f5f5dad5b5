"""Mean average precision of object detectors: metric classes of COCO, LVIS, VOC, Open Images and nuScenes.

The function :func:`suspicious_labels` finds ground truths that may be wrong.
"""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.detection import curves as curves
    from torch_ap.detection import pairs as pairs
    from torch_ap.detection.errors.confusion import ConfusionMatrix
    from torch_ap.detection.errors.lrp import OptimalLRP
    from torch_ap.detection.errors.operating_points import OperatingPoints
    from torch_ap.detection.errors.outcomes import DETECTION_KINDS
    from torch_ap.detection.errors.tide import DetectionErrors
    from torch_ap.detection.metrics.coco import MeanAveragePrecision
    from torch_ap.detection.metrics.lvis import LVISMeanAveragePrecision
    from torch_ap.detection.metrics.nuscenes import NuScenesMeanAveragePrecision
    from torch_ap.detection.metrics.open_images import OpenImagesMeanAveragePrecision
    from torch_ap.detection.metrics.voc import VOCMeanAveragePrecision
    from torch_ap.detection.suspicious import suspicious_labels

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
    "suspicious_labels",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    __all__,
    (
        *(f"detection.metrics.{name}" for name in ("coco", "lvis", "nuscenes", "open_images", "voc")),
        *(f"detection.errors.{name}" for name in ("confusion", "lrp", "operating_points", "outcomes", "tide")),
    ),
    ("curves", "pairs"),
    objects={"suspicious_labels": "torch_ap.detection.suspicious:suspicious_labels"},
)
