"""Classes with the interfaces of other evaluators, for code that imports those: ``pycocotools``' COCO and COCOeval."""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.compat.coco import COCO
    from torch_ap.compat.coco_eval import COCOeval, Params
    from torch_ap.compat.install import init_as_pycocotools

__all__ = ["COCO", "COCOeval", "Params", "init_as_pycocotools"]

__getattr__, __dir__ = lazy_exports(__name__, __all__, ("compat.coco", "compat.coco_eval", "compat.install"), ("mask",))
