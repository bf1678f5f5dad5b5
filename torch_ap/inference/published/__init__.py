"""What papers propose, reproduced for comparison only: intervals, and normal laws of a random ranking; their
variances in :mod:`torch_ap.inference.published.variances`.
"""

from torch_ap.inference.published.intervals import published_interval
from torch_ap.inference.published.normal_laws import (
    NormalLaw,
    normal_average_precision,
    normal_precision,
    normal_recall,
)

__all__ = ["NormalLaw", "normal_average_precision", "normal_precision", "normal_recall", "published_interval"]
