"""Reports for people, one file each: what a metric says of a system, and how far that can be trusted."""

from torch_ap.reports.write import report

__all__ = ["report"]
