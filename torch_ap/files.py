"""Readers of files: TREC, COCO, LVIS, VOC, YOLO, DOTA, ActivityNet, Open Images, supervision and FiftyOne."""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.detection.files.activitynet import read_activitynet
    from torch_ap.detection.files.coco import read_coco
    from torch_ap.detection.files.dota import read_dota
    from torch_ap.detection.files.fiftyone import read_fiftyone
    from torch_ap.detection.files.lvis import read_lvis
    from torch_ap.detection.files.open_images import read_hierarchy
    from torch_ap.detection.files.supervision import read_supervision
    from torch_ap.detection.files.voc import read_voc
    from torch_ap.detection.files.yolo import read_yolo
    from torch_ap.retrieval.runs.tables import read_qrels, read_run

__all__ = [
    "read_activitynet",
    "read_coco",
    "read_dota",
    "read_fiftyone",
    "read_hierarchy",
    "read_lvis",
    "read_qrels",
    "read_run",
    "read_supervision",
    "read_voc",
    "read_yolo",
]

_DETECTION = ("activitynet", "coco", "dota", "fiftyone", "lvis", "open_images", "supervision", "voc", "yolo")
__getattr__, __dir__ = lazy_exports(
    __name__, __all__, ("retrieval.runs.tables", *(f"detection.files.{name}" for name in _DETECTION))
)
