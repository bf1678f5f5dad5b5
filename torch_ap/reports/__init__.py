"""Reports for people, one file each: results of a metric and reasons for doubt."""

from typing import TYPE_CHECKING

from torch_ap.core.base.lazy import lazy_exports

if TYPE_CHECKING:
    from torch_ap.reports.write import report

__all__ = ["report"]

__getattr__, __dir__ = lazy_exports(__name__, __all__, ("reports.write",))
