"""Classes with the interfaces of other evaluators, for code that imports ``pycocotools`` or ``pytrec_eval``."""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.compat.coco import COCO
    from torch_ap.compat.coco_detection import CocoDetection
    from torch_ap.compat.coco_eval import COCOeval
    from torch_ap.compat.coco_evaluator import CocoEvaluator
    from torch_ap.compat.install import init_as_lvis, init_as_pycocotools
    from torch_ap.compat.lvis import LVIS, LVISResults
    from torch_ap.compat.lvis_eval import LVISEval, LVISParams
    from torch_ap.compat.params import Params
    from torch_ap.compat.relevance import RelevanceEvaluator

__all__ = [
    "COCO",
    "LVIS",
    "COCOeval",
    "CocoDetection",
    "CocoEvaluator",
    "LVISEval",
    "LVISParams",
    "LVISResults",
    "Params",
    "RelevanceEvaluator",
    "init_as_lvis",
    "init_as_pycocotools",
]
_HOMES = (
    "coco",
    "coco_detection",
    "coco_eval",
    "coco_evaluator",
    "install",
    "lvis",
    "lvis_eval",
    "params",
    "relevance",
)

__getattr__, __dir__ = lazy_exports(__name__, __all__, [f"compat.{home}" for home in _HOMES], ("mask",))
