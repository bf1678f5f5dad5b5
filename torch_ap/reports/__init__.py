"""Reports for people, one file each: results of a metric and reasons for doubt."""

from torch_ap.reports.write import report

__all__ = ["report"]
