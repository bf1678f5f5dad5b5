"""How sure a number is: its chance level, its interval, and whether one system beats another.

Beside what is here: posteriors of precision, recall and F in :mod:`torch_ap.inference.posteriors`, the laws of the hits
of a random ranking in :mod:`torch_ap.inference.hits`, and what papers propose, for comparison, in
:mod:`torch_ap.inference.published`.
"""

from torch_ap.inference import hits as hits
from torch_ap.inference import posteriors as posteriors
from torch_ap.inference import published as published
from torch_ap.inference.at_k_intervals import precision_at_k_interval, proportion_interval, recall_at_k_interval
from torch_ap.inference.band import precision_band
from torch_ap.inference.bounds import AveragePrecisionBounds
from torch_ap.inference.chance import ChanceTest, chance_level, chance_test
from torch_ap.inference.comparison import compare_rankings
from torch_ap.inference.decisions import DecisionComparison, compare_decisions
from torch_ap.inference.difference import Comparison, GroupComparison
from torch_ap.inference.interval import Interval
from torch_ap.inference.intervals import average_precision_interval
from torch_ap.inference.multiple_comparisons import PairwiseComparison, compare_systems
from torch_ap.inference.operating_point import OperatingPoint
from torch_ap.inference.queries import QueryComparison, compare_queries
from torch_ap.inference.query_mean import mean_interval
from torch_ap.inference.random_ranking import RandomAveragePrecision, random_average_precision
from torch_ap.inference.reported import reported_average_precision_interval
from torch_ap.inference.several_rankings import compare_several_rankings
from torch_ap.inference.splits import SplitComparison, compare_splits
from torch_ap.runtime import untraced

__all__ = [
    "AveragePrecisionBounds",
    "ChanceTest",
    "Comparison",
    "DecisionComparison",
    "GroupComparison",
    "Interval",
    "OperatingPoint",
    "PairwiseComparison",
    "QueryComparison",
    "RandomAveragePrecision",
    "SplitComparison",
    "average_precision_interval",
    "chance_level",
    "chance_test",
    "compare_decisions",
    "compare_queries",
    "compare_rankings",
    "compare_several_rankings",
    "compare_splits",
    "compare_systems",
    "mean_interval",
    "precision_at_k_interval",
    "precision_band",
    "proportion_interval",
    "random_average_precision",
    "recall_at_k_interval",
    "reported_average_precision_interval",
]

for _module in (__name__, hits.__name__, posteriors.__name__, published.__name__):
    untraced.untraced_package(_module)
