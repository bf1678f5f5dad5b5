"""How sure a number is: its baseline, its interval, and whether one system beats another."""

from torch_ap.inference.chance import ChanceTest, chance_test, random_average_precision
from torch_ap.inference.interval import Interval
from torch_ap.inference.intervals import average_precision_interval
from torch_ap.inference.resampling import Resampling

__all__ = [
    "ChanceTest",
    "Interval",
    "Resampling",
    "average_precision_interval",
    "chance_test",
    "random_average_precision",
]
