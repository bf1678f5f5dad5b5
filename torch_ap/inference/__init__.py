"""Statistical inference: chance levels, confidence intervals and comparisons of systems.

Further modules: :mod:`torch_ap.inference.posteriors` (posteriors of precision, recall and F),
:mod:`torch_ap.inference.random_ranking` (laws of a random ranking), and
:mod:`torch_ap.inference.published` (published methods, for comparison).
"""

from torch_ap.core.base import untraced
from torch_ap.core.base.deprecated import former_names
from torch_ap.inference import posteriors as posteriors
from torch_ap.inference import published as published
from torch_ap.inference import random_ranking as random_ranking
from torch_ap.inference.average_precision import average_precision_interval
from torch_ap.inference.average_precision_at_k import average_precision_at_k_interval
from torch_ap.inference.chance import ChanceTest, chance_level, chance_test
from torch_ap.inference.comparison import compare_rankings
from torch_ap.inference.comparison_at_k import compare_rankings_at_k
from torch_ap.inference.comparisons import (
    PairwiseComparison,
    SplitComparison,
    compare_splits,
    compare_systems,
    compare_systems_per_query,
)
from torch_ap.inference.decisions import DecisionComparison, compare_decisions
from torch_ap.inference.gain import (
    compare_rankings_above_chance,
    normalized_average_precision_interval,
    precision_recall_gain_interval,
)
from torch_ap.inference.label_noise import noisy_average_precision_interval
from torch_ap.inference.operating_point import OperatingPoint
from torch_ap.inference.planning import ComparisonPlan, IntervalPlan, plan_comparison, plan_interval
from torch_ap.inference.precision_recall import (
    precision_at_k_interval,
    precision_band,
    proportion_interval,
    recall_at_k_interval,
)
from torch_ap.inference.prediction_powered import (
    PredictionPoweredInterval,
    prediction_powered_average_precision_interval,
    prediction_powered_mean_interval,
)
from torch_ap.inference.published import reported_average_precision_interval
from torch_ap.inference.queries import QueryComparison, compare_per_query, mean_interval
from torch_ap.inference.query_chance import chance_test_of_queries
from torch_ap.inference.record import AveragePrecisionBounds, Comparison, GroupComparison, Interval
from torch_ap.inference.selection import BestSystem, best_of, best_of_metrics, best_of_per_query
from torch_ap.inference.suspicious import SuspiciousLabels

__all__ = [
    "AveragePrecisionBounds",
    "BestSystem",
    "ChanceTest",
    "Comparison",
    "ComparisonPlan",
    "DecisionComparison",
    "GroupComparison",
    "Interval",
    "IntervalPlan",
    "OperatingPoint",
    "PairwiseComparison",
    "PredictionPoweredInterval",
    "QueryComparison",
    "SplitComparison",
    "SuspiciousLabels",
    "average_precision_at_k_interval",
    "average_precision_interval",
    "best_of",
    "best_of_metrics",
    "best_of_per_query",
    "chance_level",
    "chance_test",
    "chance_test_of_queries",
    "compare_decisions",
    "compare_per_query",
    "compare_rankings",
    "compare_rankings_above_chance",
    "compare_rankings_at_k",
    "compare_splits",
    "compare_systems",
    "compare_systems_per_query",
    "mean_interval",
    "noisy_average_precision_interval",
    "normalized_average_precision_interval",
    "plan_comparison",
    "plan_interval",
    "precision_at_k_interval",
    "precision_band",
    "precision_recall_gain_interval",
    "prediction_powered_average_precision_interval",
    "prediction_powered_mean_interval",
    "proportion_interval",
    "recall_at_k_interval",
    "reported_average_precision_interval",
]

for _module in (__name__, posteriors.__name__, published.__name__, random_ranking.__name__):
    untraced.untraced_package(_module)

__getattr__ = former_names(
    __name__,
    {
        "compare_queries": "torch_ap.inference:compare_per_query",
        "compare_several_rankings": "torch_ap.inference:compare_systems",
        "hits": "torch_ap.inference:random_ranking",
        "RandomAveragePrecision": "torch_ap.inference.random_ranking:RandomAveragePrecision",
        "random_average_precision": "torch_ap.inference.random_ranking:random_average_precision",
    },
)
