"""What papers propose, reproduced for comparison only: normal laws of a random ranking here, variances in
:mod:`torch_ap.inference.published.variances`.
"""

from torch_ap.inference.published.normal_laws import (
    NormalLaw,
    normal_average_precision,
    normal_precision,
    normal_recall,
)

__all__ = ["NormalLaw", "normal_average_precision", "normal_precision", "normal_recall"]
